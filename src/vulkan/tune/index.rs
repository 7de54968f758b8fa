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

pub static SCATTER_SUMS: KernelVariant =
    KernelVariant::new("scatter_sums", "sorted updates, for sums of floats too");

/// Sums of 64 bits that each place of a scatter of exact sums has; scatter_sums.comp takes any number.
pub const SUM_BINS: u64 = 3;
/// Those of them that are cleared before it is known how many are in use: normal numbers take two.
pub const SUM_CLEARED: u64 = 2;
/// Binary digits of the number of sums that a workgroup keeps in shared memory, of 12 bytes each.
pub const SUM_SEEN_BITS: u32 = 10;
/// Loads of a lane that are on their way together where exponents are looked for: 22 us of 8M updates, 24 with four, 26 with eight.
pub const SUM_LOADS: u64 = 2;
/// Updates of a lane that are read together before they are added.
pub const SUM_BATCH: u64 = 4;
/// Places that a lane writes (one or four: 1 us more).
pub const SUM_PLACES_OF_LANE: u64 = 2;
/// Places for each update up to which exact sums are cheaper than to sort the updates, on an H200.
const SUM_PLACES: u64 = 1;
/// Elements of an update up to which exact sums are cheaper than sorted updates, on an H200.
const SUM_WIDTH: u64 = 8;
/// Workgroups, for each that fills the device, of passes whose lanes take several addends.
const SUM_GROUPS: u64 = 4;
/// Most updates of a lane: many where few places keep meeting in shared memory, fewer from so many places on, where workgroups that
/// begin one after the other keep memory busy (8M updates into 1M on an H200: 138 us by 32, 134 by 8, by Zipf's law 305 and 376).
const SUM_UPDATES: [u64; 2] = [32, 8];
const SUM_MANY_PLACES: u64 = 16 << SUM_SEEN_BITS;

/// Whether `size` updates in rows of `width` elements, which lie among `held` ones, are added to `span` places as exact integers.
/// Numbers of sums are of 32 bits there.
pub fn scatter_exactly(span: u64, size: u64, held: u64, width: u64) -> bool {
    let most = 1 << 30;
    span.max(size).max(held) < most
        && span <= SUM_PLACES * size
        && held <= 2 * size
        && width <= SUM_WIDTH
        && !SCATTER_SUMS.disabled()
}

/// Workgroups of passes over all addends.
pub fn sum_groups(p: &Profile) -> u64 {
    SUM_GROUPS * p.fill()
}

/// Updates of each of so many lanes, or of more of them.
pub fn sum_updates(size: u64, lanes: u64, span: u64) -> u64 {
    size.div_ceil(lanes).clamp(1, SUM_UPDATES[usize::from(span >= SUM_MANY_PLACES)])
}

pub static INTERLEAVE: KernelVariant =
    KernelVariant::new("interleave", "a copy, and a write of every so many columns");

/// Largest step of columns whose replacement is part of a copy: a sector of memory of 32 bytes has one of them.
const INTERLEAVE_STEP: i64 = 8;

/// Whether every so many columns of a copy are replaced by one kernel.
pub fn interleaves(step: i64) -> bool {
    (2..=INTERLEAVE_STEP).contains(&step) && !INTERLEAVE.disabled()
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
