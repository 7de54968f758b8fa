//! Host kernels on raw views, without graph knowledge; the reference for every GPU kernel.

pub mod conv;
mod conv_columns;
mod conv_depthwise;
mod convert;
pub(crate) mod elem;
pub mod elementwise;
pub mod gather;
mod gemv;
pub mod matmul;
pub mod pool;
pub mod random;
pub mod reduce;
pub(crate) mod simd;
pub mod softmax;
pub mod sort;
mod strided;
pub(crate) mod walk;
pub mod worker;

#[cfg(test)]
pub(crate) mod testing;
