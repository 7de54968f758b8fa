//! Graphs as lists: orders of nodes in which inputs come first, and recorded functions as tapes of steps. What evaluation,
//! transforms and compilation share; nothing is computed here.

pub(crate) mod levels;
pub(crate) mod order;
pub mod tape;
#[cfg(test)]
mod tests;
