//! Reductions where neighbouring results have neighbouring elements: rows of accumulators advance together
//! over the reduced index. Many reduced rows are cut into bands of fixed height, which threads share and
//! which join pairwise.

use super::fold::Fold;
use super::plan::{Axis, Plan, locate};
use super::rows::{GRAIN, PlanRef};
use crate::cpu::runtime::pool::{self, SendPtr};
use crate::cpu::runtime::simd::multiversion;

// Accumulators of a tile: they stay in the first-level cache.
pub(super) const TILE: usize = 1024;
// Elements of a band of a tile, the unit of work.
const BAND: usize = 1 << 16;

#[derive(Clone, Copy)]
struct Cut {
    width: usize,
    tiles: usize,
    height: usize,
    bands: usize,
}

// acc[j] joins rows `from..to` of column j.
#[inline(always)]
unsafe fn accumulate<F: Fold>(
    base: *const F::S,
    stride: isize,
    axes: &[Axis],
    from: usize,
    to: usize,
    acc: &mut [F::A],
) {
    let row = |r: usize| base.wrapping_offset(locate(axes, r).0);
    let mut r = from;
    // SAFETY: rows and columns lie inside the plan's axes; the caller's contract.
    unsafe {
        while r + 4 <= to {
            let (p0, p1, p2, p3) = (row(r), row(r + 1), row(r + 2), row(r + 3));
            if stride == 1 {
                let n = acc.len();
                let s0 = std::slice::from_raw_parts(p0, n);
                let s1 = std::slice::from_raw_parts(p1, n);
                let s2 = std::slice::from_raw_parts(p2, n);
                let s3 = std::slice::from_raw_parts(p3, n);
                for j in 0..n {
                    let left = F::join(F::lift(s0[j]), F::lift(s1[j]));
                    let right = F::join(F::lift(s2[j]), F::lift(s3[j]));
                    acc[j] = F::join(acc[j], F::join(left, right));
                }
            } else {
                for (j, a) in acc.iter_mut().enumerate() {
                    let at = j as isize * stride;
                    let left = F::join(F::lift(*p0.offset(at)), F::lift(*p1.offset(at)));
                    let right = F::join(F::lift(*p2.offset(at)), F::lift(*p3.offset(at)));
                    *a = F::join(*a, F::join(left, right));
                }
            }
            r += 4;
        }
        while r < to {
            let p = row(r);
            for (j, a) in acc.iter_mut().enumerate() {
                *a = F::join(*a, F::lift(*p.offset(j as isize * stride)));
            }
            r += 1;
        }
    }
}

multiversion! {
    // Tasks `from..to` of the flat (outer result, band, tile) index. With one band the results are written
    // to `dst`, else partial ones to `partials`, laid out (outer, band, column).
    unsafe fn tasks<F: Fold>(
        plan: &Plan, src: *const F::S, dst: *mut F::D, partials: *mut F::A, cut: Cut, from: usize, to: usize,
    ) {
        let (outer, inner) = plan.kept_axes.split_at(plan.kept_axes.len() - 1);
        let inner = inner[0];
        let mut acc = [F::IDENTITY; TILE];
        for task in from..to {
            let (tile, rest) = (task % cut.tiles, task / cut.tiles);
            let (band, k) = (rest % cut.bands, rest / cut.bands);
            let (s, d) = locate(outer, k);
            let col = tile * TILE;
            let acc = &mut acc[..TILE.min(cut.width - col)];
            acc.fill(F::IDENTITY);
            let rows = (band * cut.height, plan.reduced.min((band + 1) * cut.height));
            // SAFETY: offsets come from the plan's axes; every (outer, band, column) has one task.
            unsafe {
                let base = src.offset(s + col as isize * inner.src);
                accumulate::<F>(base, inner.src, &plan.reduced_axes, rows.0, rows.1, acc);
                if cut.bands == 1 {
                    let out = dst.offset(d + col as isize * inner.dst);
                    if inner.dst == 1 {
                        for (j, &a) in acc.iter().enumerate() {
                            *out.add(j) = F::finish(a);
                        }
                    } else {
                        for (j, &a) in acc.iter().enumerate() {
                            *out.offset(j as isize * inner.dst) = F::finish(a);
                        }
                    }
                } else {
                    let out = partials.add((k * cut.bands + band) * cut.width + col);
                    std::ptr::copy_nonoverlapping(acc.as_ptr(), out, acc.len());
                }
            }
        }
    }
}

multiversion! {
    // Joins the bands of outer results `from..to` as a balanced tree and writes the results.
    unsafe fn join_bands<F: Fold>(
        plan: &Plan, dst: *mut F::D, partials: *mut F::A, cut: Cut, from: usize, to: usize,
    ) {
        let (outer, inner) = plan.kept_axes.split_at(plan.kept_axes.len() - 1);
        for k in from..to {
            // SAFETY: each outer result has its own bands and its own row of results.
            unsafe {
                let bands = partials.add(k * cut.bands * cut.width);
                let mut step = 1;
                while step < cut.bands {
                    let mut i = 0;
                    while i + step < cut.bands {
                        let a = std::slice::from_raw_parts_mut(bands.add(i * cut.width), cut.width);
                        let b = std::slice::from_raw_parts(bands.add((i + step) * cut.width), cut.width);
                        for j in 0..cut.width {
                            a[j] = F::join(a[j], b[j]);
                        }
                        i += 2 * step;
                    }
                    step *= 2;
                }
                let out = dst.offset(locate(outer, k).1);
                for j in 0..cut.width {
                    *out.offset(j as isize * inner[0].dst) = F::finish(*bands.add(j));
                }
            }
        }
    }
}

pub(super) fn run<F: Fold>(plan: &Plan, src: *const F::S, dst: *mut F::D) {
    // INVARIANT: side-by-side plans have a kept axis.
    let width = plan.kept_axes[plan.kept_axes.len() - 1].n;
    let outer = plan.kept / width;
    let height = (BAND / width.min(TILE)).clamp(128, 512);
    let cut = Cut { width, tiles: width.div_ceil(TILE), height, bands: plan.reduced.div_ceil(height) };
    let mut partials: Vec<F::A> = Vec::new();
    if cut.bands > 1 {
        partials.resize(plan.kept * cut.bands, F::IDENTITY);
    }
    let (src, dst) = (SendPtr::new(src.cast_mut()), SendPtr::new(dst));
    let parts = SendPtr::new(partials.as_mut_ptr());
    let shared = PlanRef(plan);
    let per_task = width.min(TILE) * height.min(plan.reduced);
    pool::parallel_chunks(outer * cut.bands * cut.tiles, GRAIN.div_ceil(per_task), move |r| {
        // SAFETY: ranges are disjoint, so are the results and partials they write.
        unsafe { tasks::<F>(shared.get(), src.get(), dst.get(), parts.get(), cut, r.start, r.end) };
    });
    if cut.bands > 1 {
        pool::parallel_chunks(outer, GRAIN.div_ceil(width * cut.bands), move |r| {
            // SAFETY: ranges are disjoint, so are the results they write.
            unsafe { join_bands::<F>(shared.get(), dst.get(), parts.get(), cut, r.start, r.end) };
        });
    }
}
