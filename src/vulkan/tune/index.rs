//! How a scatter finds the updates that meet in one place, and when arrays are joined by one kernel. Called by their hosts.

use crate::core::env::KernelVariant;

pub static JOIN: KernelVariant =
    KernelVariant::new("join", "a copy for each array of a concatenation, and for what a filled array holds");

/// Places of the destination for each update up to which a table of all places is cheaper than to sort the updates, on an
/// H200.
const PLACES: u64 = 16;

/// Whether a table of all places pays.
pub fn scatter_by_table(places: u64, updates: u64) -> bool {
    places / PLACES <= updates
}

/// Bytes up to which arrays one behind the other are joined by one kernel: copies of large ones go at the memory's rate (an estimate).
const SMALL: i64 = 1 << 20;
/// Bytes of an array's part of a row from which on an invocation mostly has 16 of one array (an estimate).
const PART: i64 = 16;
/// Most arrays, each of which is an entry in a table of places.
const MOST_ARRAYS: i64 = 256;

/// Whether so many arrays that give `rows` rows of `bytes` bytes together are joined by one kernel, and not by a copy of each.
pub fn joins(rows: i64, bytes: i64, arrays: usize) -> bool {
    let arrays = arrays as i64;
    let suits = if rows > 1 { bytes >= PART * arrays } else { bytes <= SMALL };
    (2..=MOST_ARRAYS).contains(&arrays) && suits && !JOIN.disabled()
}
