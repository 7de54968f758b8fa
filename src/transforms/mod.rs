//! Evaluation and function transforms over the graph.

mod eval;
mod grad;
mod vmap;

pub use eval::{async_eval, eval, synchronize};
pub use grad::{Function, jvp, value_and_grad, vjp};
pub use vmap::vmap;
