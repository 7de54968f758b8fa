//! The elementwise table: rows, their loops on the host, and the GLSL of programs over them.

pub mod codegen;
mod codegen_flat;
pub mod codegen_types;
pub mod fp8;
pub mod loops;
pub mod program;
pub mod scalar;
pub mod scalar_c64;
pub mod scalar_complex;
pub mod scalar_complex_inverse;
pub mod scalar_int;
pub mod scalar_logaddexp;
pub mod scalar_special;
#[cfg(test)]
mod scalar_tests;
pub mod scalar_wide;
pub mod table;
pub(super) mod table_binary;
pub(super) mod table_logic;
pub(super) mod table_math;
pub(super) mod table_unary;
