//! Geometry of indexed reads and writes.

pub mod indexed;
