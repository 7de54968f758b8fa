//! Quantised matrices: codes made and read, and products with them.

mod chain;
mod eights;
mod few_picked;
mod few_rows;
mod joined_layout;
mod push;
pub mod qmm;
pub mod qmm_joined;
mod qmm_warpgroup;
pub mod quant;
mod single;
mod small_floats;
mod steps;
mod stream;
pub mod subnormal_probe;
mod sums;
#[cfg(test)]
pub(super) mod trial;
mod units;
pub mod wide;
mod wide_codes;

pub use self::chain::{front, summed};
