//! Quantised matrices on the host: codecs, and products with them.

pub mod qmm;
pub(super) mod qmm_kernels;
pub mod quant;
