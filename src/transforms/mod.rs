//! Evaluation and function transforms over the graph.

pub mod batches;
pub mod compile;
mod custom;
mod derived;
pub mod described;
pub mod dot;
mod eval;
pub mod export;
mod grad;
mod join;
mod order;
mod vmap;

pub use custom::{JvpRule, Rules, Shared, VjpRule, VmapRule, checkpoint, custom};
pub use eval::{async_eval, compute, eval, finish, host_ops, recordings, settle, synchronize};
pub use grad::{Function, jvp, value_and_grad, vjp};
pub use vmap::vmap;
