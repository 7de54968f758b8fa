//! What both backends share: views, the elementwise table, layout classes, GLSL generation. Pure; touches
//! no device.

pub mod reduce_op;
pub mod view;

pub use reduce_op::{ArgReduceOp, ReduceOp};
pub use view::{DeviceView, HostView, View};
