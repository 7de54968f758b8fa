//! Quantised matrices on the host: codecs, and products with them.

pub mod qmm;
pub(super) mod qmm_kernels;
pub mod quant;
#[cfg(target_arch = "x86_64")]
mod tiled;
#[cfg(target_arch = "x86_64")]
mod wide;

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
