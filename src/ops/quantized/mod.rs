//! Quantisation, and products with quantised matrices.

pub mod qqmm;
pub mod quantize;
pub mod quantized_matmul;
