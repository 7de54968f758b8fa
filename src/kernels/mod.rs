//! What both backends share: views, the elementwise table, layout classes, GLSL generation. Pure; touches
//! no device.

pub mod codegen;
pub mod conv;
pub mod draw;
pub mod loops;
pub mod program;
pub mod reduce_op;
pub mod scalar;
pub mod scalar_special;
#[cfg(test)]
mod scalar_tests;
pub mod scalar_wide;
pub mod table;
mod table_binary;
mod table_logic;
mod table_math;
mod table_unary;
pub mod view;

pub use draw::Draw;
pub use program::{Inst, Instr, Program, Src};
pub use reduce_op::{ArgReduceOp, ReduceOp};
pub use table::{OpId, Row, TypeRule};
pub use view::{DeviceView, HostView, View};
