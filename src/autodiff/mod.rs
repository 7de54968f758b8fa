//! Transforms of functions: derivatives in both directions, vectorisation, and rules of the caller's own. All of them
//! build graph from ops, so they nest to any order.

pub(crate) mod custom;
pub(crate) mod derived;
pub(crate) mod grad;
#[cfg(test)]
mod tests;
pub(crate) mod vmap;

pub use custom::{JvpRule, Rules, Shared, VjpRule, VmapRule, checkpoint, custom};
pub use grad::{Function, jvp, value_and_grad, vjp};
pub use vmap::vmap;
