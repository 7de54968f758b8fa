//! How Fourier and Hadamard transforms are cut: lanes of a workgroup, longest lines of one pass, scratch of several. Pure;
//! called by the hosts of `fft` and `hadamard`.

/// Scratch for the lines of a long transform that are in work at once.
pub const SCRATCH: u64 = 256 << 20;
/// Columns that a pass of a Hadamard transform across pieces takes together, so that they fill a cache line.
pub const HADAMARD_COLUMNS: u32 = 16;

/// Lanes of a workgroup whose lines lie dense: small groups overlap each other's phases best. H200: 3480 GB/s for lines
/// of 1024, 2990 with 256.
const DENSE_LANES: usize = 64;
/// Where neighbouring lines are read side by side, they need to be many (H200).
const SIDE_BY_SIDE_LANES: usize = 256;
/// Longest line of one workgroup, and longest where neighbouring lines are read side by side (H200).
const LINE: usize = 4096;
const COLUMN: usize = 1024;

/// Lanes of a workgroup.
pub fn lanes(side_by_side: bool) -> usize {
    if side_by_side { SIDE_BY_SIDE_LANES } else { DENSE_LANES }
}

/// Longest line of one workgroup whose shared memory holds so many values, and longest where neighbouring lines are read
/// side by side: a quarter of the memory keeps some of them together.
pub fn longest(values: usize) -> (usize, usize) {
    (LINE.min(values), COLUMN.min((values / 4).max(16)))
}
