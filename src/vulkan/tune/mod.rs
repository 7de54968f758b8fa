//! Which variant of a kernel runs: the one place for tables and thresholds. Kernels' hosts know how to run each of
//! their variants and ask here which one. Choices are pure functions of sizes and of a [`Profile`] of the device; what
//! was measured on one card is a row that names it. `file` reads
//! the profile of another device, `winners` keeps what `python -m mlx.tune` found.

pub mod attention;
pub mod conv;
pub mod fft;
pub mod file;
pub mod fusion;
pub mod gemv;
pub mod index;
pub mod made_up;
pub mod matmul;
pub mod memory;
pub mod norm;
pub mod pacing;
pub mod parts;
mod profile;
pub mod quantized;
pub mod random;
pub mod reduce;
pub mod short;
pub mod sort;
pub mod subjects;
#[cfg(test)]
pub(crate) mod tests;
pub mod transfer;
pub mod warpgroup;
mod winners;

pub use profile::{Best, Card, H200, Measured, Profile, Source};
pub use winners::{Subject, Winners};

/// `a / b`, rounded up; neither is negative.
pub(super) fn ceil(a: i64, b: i64) -> i64 {
    (a + b - 1) / b
}

/// The multiple of `b` at or above `a`.
pub(super) fn round_up(a: i64, b: i64) -> i64 {
    ceil(a, b) * b
}

/// Whether kernels over rows can have workgroups of so many threads.
fn row_threads(n: u32) -> bool {
    [8, 16, 32, 64, 128, 256].contains(&n)
}

/// How many parts of K make `groups` workgroups `wanted`; one if `whole`, or where half of them run anyway.
fn filling(whole: bool, groups: i64, wanted: i64) -> i64 {
    if whole || groups * 2 > wanted { 1 } else { wanted / groups.max(1) }
}

/// Length and number of the parts of K, about `parts`: at most `most`, each a multiple of `step` and none below `least`.
fn cut(k: i64, parts: i64, least: i64, most: i64, step: i64) -> (i64, i64) {
    let parts = parts.min(k / least).clamp(1, most);
    let len = round_up(ceil(k, parts), step).max(step);
    (len, ceil(k, len).max(1))
}
