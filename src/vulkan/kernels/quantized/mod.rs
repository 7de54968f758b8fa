//! Quantised matrices: codes made and read, and products with them.

pub mod qmm;
pub mod qmm_joined;
pub mod quant;
mod sums;
