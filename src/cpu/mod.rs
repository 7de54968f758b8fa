//! Host kernels on raw views, without graph knowledge; the reference for every GPU kernel.

pub mod attention;
pub mod conv;
mod conv_columns;
mod conv_depthwise;
mod convert;
pub(crate) mod elem;
pub mod elementwise;
pub mod fft;
pub mod frames;
pub mod gated_delta;
pub mod gather;
pub mod gather_mm;
mod gemv;
pub mod hadamard;
mod indexed;
pub mod linalg;
pub mod mask;
pub mod matmul;
mod network;
pub mod norm;
mod order;
pub mod pool;
pub mod qmm;
mod qmm_kernels;
pub mod quant;
mod radix;
pub mod random;
pub mod recurrence;
pub mod reduce;
pub mod rope;
pub mod rows;
pub mod scan;
mod scan_log;
pub mod scatter;
pub mod search;
pub mod select;
pub(crate) mod simd;
pub mod small;
pub mod softmax;
pub mod sort;
mod strided;
mod tiny;
pub(crate) mod walk;
pub mod worker;

#[cfg(test)]
pub(crate) mod testing;
