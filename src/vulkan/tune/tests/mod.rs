//! What is chosen, over made-up devices, on the card that the tables were measured on, and which numbers stand elsewhere.

mod choices;
pub(crate) mod devices;
mod numbers;
mod pins;

use super::{cut, filling};

#[test]
fn parts_cover_k() {
    for (groups, k) in [(1, 0), (1, 31), (3, 5000), (1000, 64)] {
        let (len, parts) = cut(k, filling(false, groups, 1000), 64, 64, 32);
        assert!(len * parts >= k && (parts == 1 || len * (parts - 1) < k));
    }
}
