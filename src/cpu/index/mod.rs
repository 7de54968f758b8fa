//! Reading and writing elements of an array by index arrays and masks.

pub mod gather;
pub(super) mod indexed;
pub mod mask;
pub mod scatter;
