//! Host kernels on raw views, without graph knowledge; the reference for every GPU kernel.

mod convert;
pub mod elementwise;
mod strided;
