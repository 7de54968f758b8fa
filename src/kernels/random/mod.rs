//! What random kernels make of their bits.

pub mod codegen;
pub mod draw;
