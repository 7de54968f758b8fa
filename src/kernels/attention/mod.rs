//! What the kernels around attention share.

pub mod rope;
