//! Which variant of a kernel runs: the one place for tables and thresholds. Kernels' hosts know how to run each of
//! their variants and ask here which one; choices are pure functions of sizes and of the device.

pub mod attention;
pub mod matmul;
pub mod quantized;
