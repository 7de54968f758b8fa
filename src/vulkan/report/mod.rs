//! What ran and how long it took, told to people and programs.

pub mod capabilities;
pub mod compile_only;
pub mod profile;
pub(super) mod progress;
pub mod stats;
