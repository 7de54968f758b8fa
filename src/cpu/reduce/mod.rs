//! Reductions over any set of axes, for every dtype and layout. Axes are first brought into a plan (kept and
//! reduced axes, by stride, collapsed); then either each output folds its own runs of elements (`rows`) or
//! rows of outputs are accumulated side by side (`columns`). Work is cut into pieces whose size does not
//! depend on the number of threads and partial results join pairwise, so that results are accurate and
//! the same on every run and machine size.

mod arg;
pub(crate) mod arithmetic;
mod columns;
pub(crate) mod fold;
mod plan;
pub mod programs;
pub mod recurrence;
mod rows;
pub mod scan;
pub(super) mod scan_log;
#[cfg(test)]
mod tests;

use num_complex::Complex32;

use crate::bail;
use crate::core::{Dtype, Result};
use crate::kernels::{HostView, ReduceOp};
use fold::{All, Any, Brain, Fold, Half, Max, Min, Prod, Sum};
use plan::Plan;

pub use arg::arg_reduce;
pub(super) use rows::fold_block;

fn run<F: Fold>(plan: &Plan) {
    let (src, dst) = (plan.src as *const F::S, plan.dst as *mut F::D);
    if plan.reduced == 0 {
        for i in 0..plan.kept {
            // SAFETY: dst is contiguous and holds one element for each kept index.
            unsafe { *(plan.dst_first as *mut F::D).add(i) = F::finish(F::IDENTITY) };
        }
    } else if plan.side_by_side {
        columns::run::<F>(plan, src, dst);
    } else {
        rows::run::<F>(plan, src, dst);
    }
}

/// Reduces `src` over `axes` into `dst`, which is contiguous and has the shape of `src` without the axes.
/// Sums and products accumulate in the dtype of `dst` (halves in float32) and wrap for integers; min and
/// max propagate NaN; all and any write booleans.
///
/// # Errors
/// Value error for a dtype pair that no reduction has, a wrong shape of `dst`, or min/max of nothing.
pub fn reduce(op: ReduceOp, src: &HostView, axes: &[usize], dst: &HostView) -> Result<()> {
    use Dtype::*;
    let op_name = op.row().name;
    let plan = Plan::new(op_name, src, axes, dst, false)?;
    if plan.kept == 0 {
        return Ok(());
    }
    if plan.reduced == 0 && !op.row().of_nothing {
        bail!(Value, "[{op_name}] Cannot {op_name} reduce over axes of size 0.");
    }
    macro_rules! ring {
        ($fold:ident) => {
            match (src.dtype, dst.dtype) {
                (Bool, U32 | I32) => run::<$fold<fold::Bool, u32, u32>>(&plan),
                (U8, U32 | I32) => run::<$fold<u8, u32, u32>>(&plan),
                (I8, U32 | I32) => run::<$fold<i8, u32, u32>>(&plan),
                (U16, U32 | I32) => run::<$fold<u16, u32, u32>>(&plan),
                (I16, U32 | I32) => run::<$fold<i16, u32, u32>>(&plan),
                (U32 | I32, U32 | I32) => run::<$fold<u32, u32, u32>>(&plan),
                (U32, U64 | I64) => run::<$fold<u32, u64, u64>>(&plan),
                (I32, U64 | I64) => run::<$fold<i32, u64, u64>>(&plan),
                (U64 | I64, U64 | I64) => run::<$fold<u64, u64, u64>>(&plan),
                (F16, F16) => run::<$fold<Half, f32, Half>>(&plan),
                (F16, F32) => run::<$fold<Half, f32, f32>>(&plan),
                (BF16, BF16) => run::<$fold<Brain, f32, Brain>>(&plan),
                (BF16, F32) => run::<$fold<Brain, f32, f32>>(&plan),
                (F32, F32) => run::<$fold<f32, f32, f32>>(&plan),
                (F32, F64) => run::<$fold<f32, f64, f64>>(&plan),
                (F64, F64) => run::<$fold<f64, f64, f64>>(&plan),
                (C64, C64) => run::<$fold<Complex32, Complex32, Complex32>>(&plan),
                (s, d) => bail!(Value, "[{op_name}] No reduction of {s} to {d}."),
            }
        };
    }
    macro_rules! order {
        ($fold:ident) => {
            match (src.dtype, dst.dtype) {
                (s, d) if s != d => bail!(Value, "[{op_name}] Expected an output of type {s}, got {d}."),
                (Bool | U8, _) => run::<$fold<u8, u8>>(&plan),
                (U16, _) => run::<$fold<u16, u16>>(&plan),
                (U32, _) => run::<$fold<u32, u32>>(&plan),
                (U64, _) => run::<$fold<u64, u64>>(&plan),
                (I8, _) => run::<$fold<i8, i8>>(&plan),
                (I16, _) => run::<$fold<i16, i16>>(&plan),
                (I32, _) => run::<$fold<i32, i32>>(&plan),
                (I64, _) => run::<$fold<i64, i64>>(&plan),
                (F16, _) => run::<$fold<Half, f32>>(&plan),
                (BF16, _) => run::<$fold<Brain, f32>>(&plan),
                (F32, _) => run::<$fold<f32, f32>>(&plan),
                (F64, _) => run::<$fold<f64, f64>>(&plan),
                (C64, _) => run::<$fold<Complex32, Complex32>>(&plan),
            }
        };
    }
    macro_rules! truth {
        ($fold:ident) => {
            match (src.dtype, dst.dtype) {
                (_, d) if d != Bool => bail!(Value, "[{op_name}] Expected an output of type bool, got {d}."),
                (Bool | U8 | I8, _) => run::<$fold<u8>>(&plan),
                (U16 | I16, _) => run::<$fold<u16>>(&plan),
                (U32 | I32, _) => run::<$fold<u32>>(&plan),
                (U64 | I64, _) => run::<$fold<u64>>(&plan),
                (F16 | BF16, _) => run::<$fold<Half>>(&plan),
                (F32, _) => run::<$fold<f32>>(&plan),
                (F64, _) => run::<$fold<f64>>(&plan),
                (C64, _) => run::<$fold<Complex32>>(&plan),
            }
        };
    }
    match op {
        ReduceOp::Sum => ring!(Sum),
        ReduceOp::Prod => ring!(Prod),
        ReduceOp::Min => order!(Min),
        ReduceOp::Max => order!(Max),
        ReduceOp::All => truth!(All),
        ReduceOp::Any => truth!(Any),
    }
    Ok(())
}
