//! How a scatter finds the updates that meet in one place, and when arrays are joined by one kernel. Called by their hosts.

use super::Profile;
use crate::core::env::KernelVariant;

pub static SCATTER_LINES: KernelVariant =
    KernelVariant::new("scatter_lines", "assignments in short lines by a table of all places");

pub static JOIN: KernelVariant =
    KernelVariant::new("join", "a copy for each array of a concatenation, and for what a filled array holds");

/// Places of the destination for each update up to which a table of all places is cheaper than to sort the updates, on an
/// H200.
const PLACES: u64 = 16;

/// Whether a table of all places pays.
pub fn scatter_by_table(places: u64, updates: u64) -> bool {
    places / PLACES <= updates
}

/// Places of a line whose table a workgroup holds, in 16 KiB of shared memory.
const LINE_PLACES: u64 = 4096;

/// Whether lines of so many places are assigned by a workgroup each, which needs no table in memory: enough of them for the device.
pub fn scatter_by_lines(p: &Profile, lines: u64, places: u64) -> bool {
    places <= LINE_PLACES.min(u64::from(p.features.shared_memory) / 4)
        && lines >= p.fill()
        && !SCATTER_LINES.disabled()
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
