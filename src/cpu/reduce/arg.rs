//! Index of the least or greatest element along one axis: the first one among equals; a NaN beats every
//! number, as in MLX and NumPy. A contiguous row folds block by block with the plain min or max, remembers
//! the block that first held the best value, and looks the element up in that block alone.

use num_complex::Complex32;

use super::columns::TILE;
use super::fold::{Brain, Fold, Half, Max, Min};
use super::plan::{Plan, locate};
use super::rows::{BLOCK, GRAIN, PIECE, PlanRef, fold_block};
use crate::bail;
use crate::core::{Dtype, Result};
use crate::cpu::runtime::pool::{self, SendPtr};
use crate::cpu::runtime::simd::multiversion;
use crate::kernels::{ArgReduceOp, HostView};

/// Strict order in which NaN comes before everything, on both ends.
trait Beats: Copy {
    fn above(self, o: Self) -> bool;
    fn below(self, o: Self) -> bool;
}

macro_rules! beats {
    (int $($t:ty),*) => { $(impl Beats for $t {
        #[inline(always)]
        fn above(self, o: Self) -> bool { self > o }
        #[inline(always)]
        fn below(self, o: Self) -> bool { self < o }
    })* };
    (float $($t:ty),*) => { $(impl Beats for $t {
        #[inline(always)]
        fn above(self, o: Self) -> bool { (self > o) | (self.is_nan() & !o.is_nan()) }
        #[inline(always)]
        fn below(self, o: Self) -> bool { (self < o) | (self.is_nan() & !o.is_nan()) }
    })* };
}
beats!(int u8, u16, u32, u64, i8, i16, i32, i64);
beats!(float f32, f64);

impl Beats for Complex32 {
    fn above(self, o: Self) -> bool {
        let nan = |x: Complex32| x.re.is_nan() || x.im.is_nan();
        if nan(self) || nan(o) { nan(self) && !nan(o) } else { (self.re, self.im) > (o.re, o.im) }
    }
    fn below(self, o: Self) -> bool {
        let nan = |x: Complex32| x.re.is_nan() || x.im.is_nan();
        if nan(self) || nan(o) { nan(self) && !nan(o) } else { (self.re, self.im) < (o.re, o.im) }
    }
}

/// A min or max fold with its strict order.
trait Pick: Fold {
    fn better(a: Self::A, b: Self::A) -> bool;
}
impl<S, A: Beats> Pick for Max<S, A>
where
    Max<S, A>: Fold<A = A>,
{
    #[inline(always)]
    fn better(a: A, b: A) -> bool {
        a.above(b)
    }
}
impl<S, A: Beats> Pick for Min<S, A>
where
    Min<S, A>: Fold<A = A>,
{
    #[inline(always)]
    fn better(a: A, b: A) -> bool {
        a.below(b)
    }
}

// Best element and its index among elements `from..to` (not empty) of a row.
#[inline(always)]
unsafe fn best<F: Pick>(row: *const F::S, stride: isize, from: usize, to: usize) -> (F::A, usize) {
    // SAFETY: the caller passes a row of at least `to` elements.
    let at = |i: usize| F::lift(unsafe { *row.offset(i as isize * stride) });
    let (mut value, mut index) = (at(from), from);
    if stride != 1 || to - from < 64 {
        for i in from + 1..to {
            let x = at(i);
            if F::better(x, value) {
                (value, index) = (x, i);
            }
        }
        return (value, index);
    }
    let mut i = from;
    while i < to {
        let n = BLOCK.min(to - i);
        // SAFETY: i + n <= to.
        let x = unsafe { fold_block::<F>(row.add(i), n, 1) };
        if F::better(x, value) {
            (value, index) = (x, i);
        }
        i += n;
    }
    // The first element that the best value does not beat is the best one.
    while F::better(value, at(index)) {
        index += 1;
    }
    (value, index)
}

multiversion! {
    unsafe fn whole_rows<F: Pick>(plan: &Plan, src: *const F::S, dst: *mut u32, from: usize, to: usize) {
        let axis = plan.reduced_axes[0];
        for k in from..to {
            let (s, d) = locate(&plan.kept_axes, k);
            // SAFETY: offsets come from the plan's axes.
            unsafe { *dst.offset(d) = best::<F>(src.offset(s), axis.src, 0, axis.n).1 as u32 };
        }
    }
}

multiversion! {
    unsafe fn row_pieces<F: Pick>(
        plan: &Plan, src: *const F::S, out: *mut (F::A, usize), from: usize, to: usize,
    ) {
        let axis = plan.reduced_axes[0];
        let pieces = axis.n.div_ceil(PIECE);
        for i in from..to {
            let (s, _) = locate(&plan.kept_axes, i / pieces);
            let first = i % pieces * PIECE;
            // SAFETY: offsets come from the plan's axes; out has a place for every piece.
            unsafe { *out.add(i) = best::<F>(src.offset(s), axis.src, first, axis.n.min(first + PIECE)) };
        }
    }
}

multiversion! {
    // Tasks `from..to` of the flat (outer result, tile) index.
    unsafe fn tiles<F: Pick>(plan: &Plan, src: *const F::S, dst: *mut u32, from: usize, to: usize) {
        let (outer, inner) = plan.kept_axes.split_at(plan.kept_axes.len() - 1);
        let (inner, axis) = (inner[0], plan.reduced_axes[0]);
        let count = inner.n.div_ceil(TILE);
        let (mut values, mut indices) = ([F::IDENTITY; TILE], [0u32; TILE]);
        for task in from..to {
            let (s, d) = locate(outer, task / count);
            let col = task % count * TILE;
            let n = TILE.min(inner.n - col);
            let (values, indices) = (&mut values[..n], &mut indices[..n]);
            indices.fill(0);
            // SAFETY: offsets come from the plan's axes; every (outer, tile) has one task.
            unsafe {
                let base = src.offset(s + col as isize * inner.src);
                for (j, v) in values.iter_mut().enumerate() {
                    *v = F::lift(*base.offset(j as isize * inner.src));
                }
                for r in 1..axis.n {
                    let row = base.offset(r as isize * axis.src);
                    if inner.src == 1 {
                        let row = std::slice::from_raw_parts(row, n);
                        for j in 0..n {
                            let x = F::lift(row[j]);
                            let wins = F::better(x, values[j]);
                            values[j] = if wins { x } else { values[j] };
                            indices[j] = if wins { r as u32 } else { indices[j] };
                        }
                    } else {
                        for j in 0..n {
                            let x = F::lift(*row.offset(j as isize * inner.src));
                            if F::better(x, values[j]) {
                                values[j] = x;
                                indices[j] = r as u32;
                            }
                        }
                    }
                }
                let out = dst.offset(d + col as isize * inner.dst);
                for (j, &i) in indices.iter().enumerate() {
                    *out.offset(j as isize * inner.dst) = i;
                }
            }
        }
    }
}

fn run<F: Pick>(plan: &Plan) {
    let src = SendPtr::new(plan.src.cast::<F::S>().cast_mut());
    let dst = SendPtr::new(plan.dst.cast::<u32>());
    let shared = PlanRef(plan);
    let pieces = plan.reduced.div_ceil(PIECE);
    if plan.side_by_side {
        // INVARIANT: side-by-side plans have a kept axis.
        let width = plan.kept_axes[plan.kept_axes.len() - 1].n;
        let tasks = plan.kept / width * width.div_ceil(TILE);
        let grain = GRAIN.div_ceil(width.min(TILE) * plan.reduced);
        pool::parallel_chunks(tasks, grain, move |r| {
            // SAFETY: ranges are disjoint, so are the results they write.
            unsafe { tiles::<F>(shared.get(), src.get(), dst.get(), r.start, r.end) };
        });
    } else if pieces == 1 {
        pool::parallel_chunks(plan.kept, GRAIN.div_ceil(plan.reduced), move |r| {
            // SAFETY: ranges are disjoint, so are the results they write.
            unsafe { whole_rows::<F>(shared.get(), src.get(), dst.get(), r.start, r.end) };
        });
    } else {
        let mut partials = vec![(F::IDENTITY, 0usize); plan.kept * pieces];
        let out = SendPtr::new(partials.as_mut_ptr());
        pool::parallel_chunks(plan.kept * pieces, 1, move |r| {
            // SAFETY: ranges are disjoint, so are the partials they write.
            unsafe { row_pieces::<F>(shared.get(), src.get(), out.get(), r.start, r.end) };
        });
        for (k, part) in partials.chunks_exact(pieces).enumerate() {
            let mut found = part[0];
            for &p in &part[1..] {
                if F::better(p.0, found.0) {
                    found = p;
                }
            }
            // SAFETY: the offset comes from the plan's axes.
            unsafe { *dst.get().offset(locate(&plan.kept_axes, k).1) = found.1 as u32 };
        }
    }
}

/// Writes the index along `axis` of the least or greatest element of `src`; `dst` is contiguous uint32 with
/// the axis removed. The first one of equal elements counts; the first NaN, if there is one, beats all.
///
/// # Errors
/// Value error for an axis of length 0, or an output of another type or shape.
pub fn arg_reduce(op: ArgReduceOp, src: &HostView, axis: usize, dst: &HostView) -> Result<()> {
    use Dtype::*;
    let name = op.name();
    let plan = Plan::new(name, src, &[axis], dst, true)?;
    if dst.dtype != U32 {
        bail!(Value, "[{name}] Expected an output of type uint32, got {}.", dst.dtype);
    }
    if plan.kept == 0 {
        return Ok(());
    }
    if plan.reduced == 0 {
        bail!(Value, "[{name}] Cannot {name} reduce zero size array.");
    }
    macro_rules! pick {
        ($fold:ident) => {
            match src.dtype {
                Bool | U8 => run::<$fold<u8, u8>>(&plan),
                U16 => run::<$fold<u16, u16>>(&plan),
                U32 => run::<$fold<u32, u32>>(&plan),
                U64 => run::<$fold<u64, u64>>(&plan),
                I8 => run::<$fold<i8, i8>>(&plan),
                I16 => run::<$fold<i16, i16>>(&plan),
                I32 => run::<$fold<i32, i32>>(&plan),
                I64 => run::<$fold<i64, i64>>(&plan),
                F16 => run::<$fold<Half, f32>>(&plan),
                BF16 => run::<$fold<Brain, f32>>(&plan),
                F32 => run::<$fold<f32, f32>>(&plan),
                F64 => run::<$fold<f64, f64>>(&plan),
                C64 => run::<$fold<Complex32, Complex32>>(&plan),
            }
        };
    }
    match op {
        ArgReduceOp::Min => pick!(Min),
        ArgReduceOp::Max => pick!(Max),
    }
    Ok(())
}
