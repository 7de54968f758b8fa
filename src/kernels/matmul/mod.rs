//! What both sides of a matrix product share.

pub mod epilogue;
