//! Elements, rows and windows of an array by indices: read, written and combined.

pub mod indexing;
pub mod masked;
pub mod scatter;
pub mod slice_update;
pub mod subscript;
