//! Host kernels on raw views, without graph knowledge; the reference for every GPU kernel.

pub mod pool;
pub mod worker;
