//! Reading and writing elements of an array by index arrays and masks.

pub mod gather;
pub(in crate::vulkan) mod indexed;
pub mod interleave;
pub mod join;
pub mod mask;
pub mod scatter;
pub mod sums;
