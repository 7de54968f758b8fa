//! What both backends share: views, the elementwise table, layout classes, GLSL generation. Pure; touches
//! no device.

pub mod codegen;
pub mod codegen_rows;
pub mod conv;
pub mod draw;
pub mod epilogue;
pub mod fft;
pub mod fft_plan;
pub mod fp8;
pub mod hadamard;
pub mod indexed;
pub mod loops;
pub mod program;
pub mod quant;
pub mod reduce_op;
pub mod rope;
pub mod row_program;
pub mod scalar;
pub mod scalar_complex;
pub mod scalar_special;
#[cfg(test)]
mod scalar_tests;
pub mod scalar_wide;
pub mod scan_op;
pub mod spirv;
pub mod table;
mod table_binary;
mod table_logic;
mod table_math;
mod table_unary;
pub mod user;
pub mod view;

pub use draw::Draw;
pub use epilogue::{Epilogue, Spread};
pub use fft::{Fft, FftKind};
pub use program::{Inst, Instr, Program, Src};
pub use reduce_op::{ArgReduceOp, ReduceOp};
pub use row_program::{RowInst, RowInstr, RowProgram};
pub use scan_op::{ScanForm, ScanOp};
pub use table::{OpId, Row, TypeRule};
pub use view::{DeviceView, HostView, View};
