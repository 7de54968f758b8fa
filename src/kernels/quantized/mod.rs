//! Formats of quantised matrices.

pub mod quant;
