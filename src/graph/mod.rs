//! Graphs as lists: orders of nodes in which inputs come first, recorded functions as tapes of steps, and whether a
//! function of this thread runs on placeholders. What evaluation, transforms and compilation share; nothing is computed
//! here.

pub(crate) mod levels;
pub(crate) mod order;
mod placeholders;
pub mod tape;
#[cfg(test)]
mod tests;

pub(crate) use placeholders::Placeholders;
