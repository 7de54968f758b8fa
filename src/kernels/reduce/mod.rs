//! Reductions, scans and programs over rows: names, and the GLSL of row programs.

pub mod codegen_rows;

pub mod row_program;
pub mod scan_op;
pub mod statistic;
pub mod table;
