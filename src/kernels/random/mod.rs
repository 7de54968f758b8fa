//! What random kernels make of their bits.

pub mod draw;
