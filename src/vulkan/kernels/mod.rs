//! The host side of each kernel, one folder a family. A host knows how to run each of its variants.

pub mod attention;
#[cfg(target_os = "linux")]
pub mod bridge;
pub mod conv;
pub(super) mod elem;
pub mod elementwise;
pub mod fft;
pub mod index;
pub mod matmul;
pub(super) mod measure;
pub mod norm;
pub(super) mod progress;
pub mod quantized;
pub mod random;
pub mod reduce;
pub mod sort;
#[cfg(test)]
mod tests;
pub mod tuning;
pub mod user;
