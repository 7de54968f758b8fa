//! Reductions where the elements of one result lie together: each result folds its runs. A result with many
//! elements is cut into pieces of fixed size, which threads share and which join pairwise.

use super::fold::{Cascade, Fold};
use super::plan::{Axis, Plan, locate};
use crate::cpu::runtime::pool::{self, SendPtr};
use crate::cpu::runtime::simd::{keep_vectors, multiversion};

// Elements of a piece, the unit of work that is never split further.
pub(super) const PIECE: usize = 1 << 16;
// Elements folded into parallel lanes before the lanes join: bounds the length of any chain of additions.
pub(super) const BLOCK: usize = 1024;
const LANES: usize = 32;
// Elements below which another thread does not pay.
pub(super) const GRAIN: usize = 1 << 15;

// Folds at most BLOCK neighbours.
#[inline(always)]
unsafe fn fold_contiguous<F: Fold>(p: *const F::S, n: usize) -> F::A {
    // SAFETY: the caller passes n readable elements.
    let xs = unsafe { std::slice::from_raw_parts(p, n) };
    let mut chunks = xs.chunks_exact(LANES);
    let mut acc = F::IDENTITY;
    if n >= LANES {
        let mut lanes = [F::IDENTITY; LANES];
        for c in &mut chunks {
            for j in 0..LANES {
                lanes[j] = F::join(lanes[j], F::lift(c[j]));
            }
        }
        if F::RING {
            lanes = keep_vectors(lanes);
        }
        for half in [16, 8, 4, 2, 1] {
            for j in 0..half {
                lanes[j] = F::join(lanes[j], lanes[j + half]);
            }
        }
        acc = lanes[0];
    }
    for &x in if n >= LANES { chunks.remainder() } else { xs } {
        acc = F::join(acc, F::lift(x));
    }
    acc
}

#[inline(always)]
unsafe fn fold_strided<F: Fold>(p: *const F::S, n: usize, stride: isize) -> F::A {
    let mut lanes = [F::IDENTITY; 4];
    let mut i = 0;
    // SAFETY: the caller passes n readable elements `stride` apart.
    unsafe {
        while i + 4 <= n {
            for (j, lane) in lanes.iter_mut().enumerate() {
                *lane = F::join(*lane, F::lift(*p.offset((i + j) as isize * stride)));
            }
            i += 4;
        }
        let mut acc = F::join(F::join(lanes[0], lanes[1]), F::join(lanes[2], lanes[3]));
        while i < n {
            acc = F::join(acc, F::lift(*p.offset(i as isize * stride)));
            i += 1;
        }
        acc
    }
}

#[inline(always)]
pub(in crate::cpu) unsafe fn fold_block<F: Fold>(p: *const F::S, n: usize, stride: isize) -> F::A {
    // SAFETY: the caller passes n readable elements `stride` apart.
    unsafe { if stride == 1 { fold_contiguous::<F>(p, n) } else { fold_strided::<F>(p, n, stride) } }
}

// How the elements of one result are cut. A result is `runs` runs of `len` elements; a piece is either a
// part of one run or several whole runs.
#[derive(Clone, Copy)]
struct Cut {
    len: usize,
    runs: usize,
    // Pieces of one run (then runs_per_piece is 1), or 1.
    parts: usize,
    runs_per_piece: usize,
}

impl Cut {
    fn new(axes: &[Axis]) -> Cut {
        let len = axes[axes.len() - 1].n;
        let runs = axes[..axes.len() - 1].iter().map(|a| a.n).product();
        let parts = len.div_ceil(PIECE);
        Cut { len, runs, parts, runs_per_piece: if parts > 1 { 1 } else { (PIECE / len).max(1) } }
    }

    fn pieces(&self) -> usize {
        if self.parts > 1 { self.runs * self.parts } else { self.runs.div_ceil(self.runs_per_piece) }
    }
}

#[inline(always)]
unsafe fn fold_piece<F: Fold>(base: *const F::S, axes: &[Axis], cut: Cut, piece: usize) -> F::A {
    let last = axes.len() - 1;
    let stride = axes[last].src;
    // SAFETY: the piece lies inside the reduced axes of the result at `base`.
    unsafe {
        let block = if stride == 1 { BLOCK } else { BLOCK / 8 };
        let (first, count, from, to) = if cut.parts > 1 {
            let from = piece % cut.parts * PIECE;
            (piece / cut.parts, 1, from, cut.len.min(from + PIECE))
        } else {
            let first = piece * cut.runs_per_piece;
            (first, cut.runs_per_piece.min(cut.runs - first), 0, cut.len)
        };
        // One call of the fold, which is inlined: this function is compiled for every dtype and operation.
        let single = cut.runs == 1 && cut.len <= block;
        let mut sums = Cascade::<F>::new();
        for run in first..first + count {
            let row = if single { base } else { base.offset(locate(&axes[..last], run).0) };
            let mut i = from;
            while i < to {
                let n = block.min(to - i);
                let x = fold_block::<F>(row.offset(i as isize * stride), n, stride);
                if single {
                    return x;
                }
                sums.push(x);
                i += n;
            }
        }
        sums.result()
    }
}

multiversion! {
    // Folds pieces `from..to` of the flat (result, piece) index into `partials`, or, where there are none
    // because one piece is the whole, into the results.
    unsafe fn pieces<F: Fold>(
        plan: &Plan, src: *const F::S, dst: *mut F::D, partials: *mut F::A, cut: Cut, from: usize, to: usize,
    ) {
        let per_result = cut.pieces();
        for i in from..to {
            let (k, piece) = if per_result == 1 { (i, 0) } else { (i / per_result, i % per_result) };
            let (s, d) = locate(&plan.kept_axes, k);
            // SAFETY: offsets come from the plan's axes; partials has a place for every index.
            unsafe {
                let x = fold_piece::<F>(src.offset(s), &plan.reduced_axes, cut, piece);
                if partials.is_null() {
                    *dst.offset(d) = F::finish(x);
                } else {
                    *partials.add(i) = x;
                }
            }
        }
    }
}

pub(super) fn run<F: Fold>(plan: &Plan, src: *const F::S, dst: *mut F::D) {
    let cut = Cut::new(&plan.reduced_axes);
    let per_result = cut.pieces();
    let total = plan.kept * per_result;
    let mut partials: Vec<F::A> = Vec::new();
    if per_result > 1 {
        partials.resize(total, F::IDENTITY);
    }
    let (src, dst) = (SendPtr::new(src.cast_mut()), SendPtr::new(dst));
    let out = SendPtr::new(if per_result > 1 { partials.as_mut_ptr() } else { std::ptr::null_mut() });
    let shared = PlanRef(plan);
    let grain = GRAIN.div_ceil((plan.reduced / per_result).max(1));
    pool::parallel_chunks(total, grain, move |r| {
        // SAFETY: ranges are disjoint, so are the results or partials they write.
        unsafe { pieces::<F>(shared.get(), src.get(), dst.get(), out.get(), cut, r.start, r.end) };
    });
    for (k, part) in partials.chunks_exact(per_result).enumerate() {
        let mut sums = Cascade::<F>::new();
        part.iter().for_each(|&x| sums.push(x));
        // SAFETY: the offset comes from the plan's axes.
        unsafe { *dst.get().offset(locate(&plan.kept_axes, k).1) = F::finish(sums.result()) };
    }
}

/// A plan that other threads may read.
#[derive(Clone, Copy)]
pub(super) struct PlanRef<'a>(pub &'a Plan);

impl<'a> PlanRef<'a> {
    #[inline(always)]
    pub(super) fn get(self) -> &'a Plan {
        self.0
    }
}

// SAFETY: the plan is only read; its pointers are used under the kernels' own rules.
unsafe impl Send for PlanRef<'_> {}
// SAFETY: as above.
unsafe impl Sync for PlanRef<'_> {}
