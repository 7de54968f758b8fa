//! Host kernels on raw views, without graph knowledge; the reference for every GPU kernel.

pub mod attention;
pub mod conv;
pub mod elementwise;
pub mod fft;
pub mod index;
pub mod linalg;
pub mod matmul;
pub mod norm;
pub mod quantized;
pub mod random;
pub mod reduce;
pub mod runtime;
pub mod sort;
