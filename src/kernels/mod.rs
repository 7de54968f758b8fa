//! What both backends share: views, the elementwise table, layout classes, GLSL generation. Pure; touches
//! no device.

pub mod attention;
pub mod conv;
pub mod elementwise;
pub mod fft;
pub mod index;
pub mod matmul;
pub mod quantized;
pub mod random;
pub mod reduce;
pub mod sort;
pub mod spirv;
pub mod user;
pub mod view;

pub use elementwise::program::{Inst, Instr, Program, Src};
pub use elementwise::table::{OpId, Row, TypeRule};
pub use fft::{Fft, FftKind};
pub use matmul::epilogue::{Epilogue, Spread};
pub use random::draw::Draw;
pub use reduce::row_program::{RowInst, RowInstr, RowProgram};
pub use reduce::scan_op::{ScanForm, ScanOp};
pub use reduce::statistic::Statistic;
pub use reduce::table::{ArgReduceOp, ReduceOp};
pub use view::{DeviceView, HostView, View};
