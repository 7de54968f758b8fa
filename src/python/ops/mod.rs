//! The functions of `mlx.core` and its submodules over arrays, one file an area; each registers its own names.

pub(super) mod conv;
pub(super) mod creation;
pub(super) mod diagonals;
pub(super) mod elementwise;
pub(super) mod fast;
pub(super) mod fft;
pub(super) mod fp8;
pub(super) mod gathers;
pub(super) mod joining;
pub(super) mod linalg;
pub(super) mod products;
pub(super) mod quantized;
pub(super) mod random;
pub(super) mod reductions;
pub(super) mod scans;
pub(super) mod selection;
pub(super) mod structure;
pub(super) mod views;
pub(super) mod windows;
