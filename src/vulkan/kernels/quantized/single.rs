//! Few rows times joined matrices of a format of which shaders take one row at a time (groups of 16): what `wide_codes` would have done
//! if all lay as it reads and writes it.

use smallvec::SmallVec;

use super::qmm_joined::{self, Joined};
use crate::core::Result;
use crate::vulkan::CommandEncoder;
use crate::vulkan::tune::quantized::wide_codes;

/// Whether shaders take such rows one by one.
pub(super) fn apart(j: &Joined) -> bool {
    j.m > 1 && j.format.is_some_and(|f| !wide_codes::shaders_join(f))
}

/// Records the products of one row after the other.
pub(super) fn run(
    enc: &mut CommandEncoder,
    j: &Joined,
    reads: &[(u64, u64)],
    writes: &[(u64, u64)],
) -> Result<()> {
    // Arrays that are read with the results of one matrix, or of two at once, have rows of that length.
    let length = |i: usize| j.matrices.get(if j.after.is_some() { 0 } else { i }).map_or(0, |m| m.rows);
    for row in 0..j.m {
        let at = |from: u64, length: i64| from + (row * length) as u64 * j.dtype.size() as u64;
        let results: SmallVec<[u64; 8]> =
            j.results.iter().enumerate().map(|(i, &r)| at(r, length(i))).collect();
        qmm_joined::run(enc, &Joined { m: 1, x: at(j.x, j.k), results: &results, ..*j }, reads, writes)?;
    }
    Ok(())
}
