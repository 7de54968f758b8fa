//! What both sides of a matrix product share.

pub mod epilogue;

use super::View;
use crate::bail;
use crate::core::Result;
use crate::core::layout::show;

/// Checks the operands of products of matrices that somebody picks: `dst` is contiguous, its matrices are as high as those
/// of `a` and as wide as those of `b`, and all have one dtype, which the backend has kernels for (`taken`).
///
/// # Errors
/// Value error for other operands.
pub fn check_picked<P: Copy>(op: &str, a: &View<P>, b: &View<P>, dst: &View<P>, taken: bool) -> Result<()> {
    let last = |v: &View<P>, i: usize| v.shape[v.ndim() - i];
    let fits = taken
        && [a, b].iter().all(|v| v.dtype == dst.dtype)
        && [a, b, dst].iter().all(|v| v.ndim() >= 2)
        && last(a, 2) == last(dst, 2)
        && last(b, 1) == last(dst, 1)
        && last(a, 1) == last(b, 2)
        && dst.is_row_contiguous();
    if !fits {
        let [a, b, dst] = [a, b, dst].map(|v| format!("{} {}", show(&v.shape), v.dtype));
        bail!(Value, "[{op}] Operands {a} and {b} do not give a contiguous {dst}.");
    }
    Ok(())
}
