//! Running log-sum-exp. The state of a line is its maximum so far and the sum of exponentials relative to it,
//! which is at least 1 and grows in float64; exponentials and logarithms run in vectors.

use super::scan::{COLUMNS, GRAIN, Shape3};
use crate::bail;
use crate::core::{Dtype, Result};
use crate::cpu::runtime::elem::{Brain, Half, To};
use crate::cpu::runtime::pool::{self, SendPtr};
use crate::cpu::runtime::simd::multiversion;
use crate::kernels::{HostView, ScanForm};

const CHUNK: usize = 128;

/// What the scan computes in.
trait Real: Copy + PartialOrd + Into<f64> + std::ops::Sub<Output = Self> + 'static {
    const LEAST: Self;
    const ZERO: Self;
    fn exp(self) -> Self;
    /// self + ln(sum)
    fn plus_ln(self, sum: f64) -> Self;
}

impl Real for f32 {
    const LEAST: f32 = f32::NEG_INFINITY;
    const ZERO: f32 = 0.0;
    #[inline(always)]
    fn exp(self) -> f32 {
        crate::kernels::elementwise::scalar::exp(self)
    }
    #[inline(always)]
    fn plus_ln(self, sum: f64) -> f32 {
        self + crate::kernels::elementwise::scalar::log(sum as f32)
    }
}

impl Real for f64 {
    const LEAST: f64 = f64::NEG_INFINITY;
    const ZERO: f64 = 0.0;
    #[inline(always)]
    fn exp(self) -> f64 {
        f64::exp(self)
    }
    #[inline(always)]
    fn plus_ln(self, sum: f64) -> f64 {
        self + sum.ln()
    }
}

trait Kind: 'static {
    type E: Copy + To<Self::A>;
    type A: Real + To<Self::E>;
}
struct Of<E, A>(std::marker::PhantomData<(E, A)>);
impl<E: Copy + To<A> + 'static, A: Real + To<E>> Kind for Of<E, A> {
    type E = E;
    type A = A;
}

/// exp(x - top) for x <= top, also where both are infinite.
#[inline(always)]
fn share<A: Real>(x: A, top: A) -> f64 {
    let below = if x == top { A::ZERO } else { x - top };
    below.exp().into()
}

/// Joins `x` to the state; NaN stays in the sum.
#[inline(always)]
fn join<A: Real>(top: &mut A, sum: &mut f64, x: A) {
    let next = if x > *top { x } else { *top };
    *sum = *sum * share(*top, next) + share(x, next);
    *top = next;
}

multiversion! {
    /// Scans `n` steps of `stride` elements for columns side by side.
    ///
    /// # Safety
    /// Both arrays have the elements of `width` (at most COLUMNS) columns and do not overlap.
    unsafe fn columns<K: Kind>(
        src: *const K::E, dst: *mut K::E, n: usize, stride: usize, width: usize, form: ScanForm,
    ) {
        let (mut tops, mut sums) = ([K::A::LEAST; COLUMNS], [0f64; COLUMNS]);
        let (tops, sums) = (&mut tops[..width], &mut sums[..width]);
        for i in 0..n {
            let at = if form.reverse { n - 1 - i } else { i } * stride;
            // SAFETY: the step lies inside the columns.
            let (from, to) = unsafe {
                (std::slice::from_raw_parts(src.add(at), width), std::slice::from_raw_parts_mut(dst.add(at), width))
            };
            if !form.inclusive {
                for j in 0..width {
                    to[j] = tops[j].plus_ln(sums[j]).to();
                }
            }
            for j in 0..width {
                join(&mut tops[j], &mut sums[j], from[j].to());
            }
            if form.inclusive {
                for j in 0..width {
                    to[j] = tops[j].plus_ln(sums[j]).to();
                }
            }
        }
    }
}

multiversion! {
    /// Scans `n` neighbours.
    ///
    /// # Safety
    /// Both arrays have `n` elements and do not overlap.
    unsafe fn row<K: Kind>(src: *const K::E, dst: *mut K::E, n: usize, form: ScanForm) {
        let (mut top, mut sum) = (K::A::LEAST, 0f64);
        // One place before the chunk for the state that it starts from.
        let (mut tops, mut sums) = ([K::A::LEAST; CHUNK + 1], [0f64; CHUNK + 1]);
        let (mut kept, mut added) = ([0f64; CHUNK], [0f64; CHUNK]);
        let mut at = 0;
        while at < n {
            let m = CHUNK.min(n - at);
            let start = if form.reverse { n - at - m } else { at };
            let place = |i: usize| start + if form.reverse { m - 1 - i } else { i };
            (tops[0], sums[0]) = (top, sum);
            let mut xs = [K::A::LEAST; CHUNK];
            for i in 0..m {
                // SAFETY: at + m <= n.
                xs[i] = unsafe { *src.add(place(i)) }.to();
            }
            for i in 0..m {
                top = if xs[i] > top { xs[i] } else { top };
                tops[i + 1] = top;
            }
            for i in 0..m {
                kept[i] = share(tops[i], tops[i + 1]);
                added[i] = share(xs[i], tops[i + 1]);
            }
            for i in 0..m {
                sum = sum * kept[i] + added[i];
                sums[i + 1] = sum;
            }
            let shift = usize::from(form.inclusive);
            for i in 0..m {
                // SAFETY: as above.
                unsafe { *dst.add(place(i)) = tops[i + shift].plus_ln(sums[i + shift]).to() };
            }
            at += m;
        }
    }
}

fn run<K: Kind>(shape: Shape3, form: ScanForm, src: &HostView, dst: &HostView) {
    let (src, dst) = (SendPtr::new(src.as_ptr::<K::E>()), SendPtr::new(dst.as_ptr::<K::E>()));
    let grain = GRAIN.div_ceil(8 * shape.n * shape.inner.min(COLUMNS));
    pool::parallel_chunks(shape.outer * shape.groups(), grain, |range| {
        for task in range {
            let (base, width) = shape.group(task);
            // SAFETY: groups of columns are disjoint and lie inside both arrays.
            unsafe {
                let (src, dst) = (src.get().add(base), dst.get().add(base));
                if shape.inner == 1 {
                    row::<K>(src, dst, shape.n, form);
                } else {
                    columns::<K>(src, dst, shape.n, shape.inner, width, form);
                }
            }
        }
    });
}

/// Scan of real floats; the caller has checked the views.
pub(in crate::cpu) fn logcumsumexp(
    shape: Shape3,
    form: ScanForm,
    src: &HostView,
    dst: &HostView,
) -> Result<()> {
    match src.dtype {
        Dtype::F16 => run::<Of<Half, f32>>(shape, form, src, dst),
        Dtype::BF16 => run::<Of<Brain, f32>>(shape, form, src, dst),
        Dtype::F32 => run::<Of<f32, f32>>(shape, form, src, dst),
        Dtype::F64 => run::<Of<f64, f64>>(shape, form, src, dst),
        d => bail!(Value, "[logcumsumexp] Expected floating point, got {d}."),
    }
    Ok(())
}
