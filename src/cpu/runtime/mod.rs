//! What all host kernels stand on: the thread pool, the workers of streams, vector instruction sets, element types
//! and walks over strided memory.

pub(crate) mod elem;
pub mod pool;
pub(crate) mod simd;
pub(super) mod strided;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod walk;
pub mod worker;
