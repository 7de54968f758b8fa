//! First-order linear recurrences y[i] = a[i] y[i-1] + b[i] along one axis: what the derivatives of running
//! products, extrema and log-sum-exps are. Halves are computed in float32.

use num_complex::Complex32;

use super::scan::{COLUMNS, GRAIN, Shape3};
use crate::bail;
use crate::core::{Dtype, Result};
use crate::cpu::runtime::elem::{Brain, Half, To};
use crate::cpu::runtime::pool::{self, SendPtr};
use crate::cpu::runtime::simd::multiversion;
use crate::kernels::HostView;

trait Kind: 'static {
    type E: Copy + To<Self::A>;
    type A: Copy + To<Self::E> + std::ops::Mul<Output = Self::A> + std::ops::Add<Output = Self::A>;
    const ZERO: Self::A;
}

macro_rules! kind {
    ($($k:ident: $e:ty, $a:ty, $zero:expr;)*) => { $(
        struct $k;
        impl Kind for $k {
            type E = $e;
            type A = $a;
            const ZERO: $a = $zero;
        }
    )* };
}
kind! {
    OfF16: Half, f32, 0.0;
    OfBf16: Brain, f32, 0.0;
    OfF32: f32, f32, 0.0;
    OfF64: f64, f64, 0.0;
    OfC64: Complex32, Complex32, Complex32::new(0.0, 0.0);
}

multiversion! {
    /// Runs columns side by side over `n` steps of `stride` elements.
    ///
    /// # Safety
    /// All arrays have the elements of `width` (at most COLUMNS) columns; the output overlaps none.
    unsafe fn columns<K: Kind>(
        a: *const K::E, b: *const K::E, y: *mut K::E, n: usize, stride: usize, width: usize, reverse: bool,
    ) {
        let mut run = [K::ZERO; COLUMNS];
        let run = &mut run[..width];
        for i in 0..n {
            let at = if reverse { n - 1 - i } else { i } * stride;
            // SAFETY: the step lies inside the columns.
            let (a, b, y) = unsafe {
                (
                    std::slice::from_raw_parts(a.add(at), width),
                    std::slice::from_raw_parts(b.add(at), width),
                    std::slice::from_raw_parts_mut(y.add(at), width),
                )
            };
            for (((r, &a), &b), y) in run.iter_mut().zip(a).zip(b).zip(y) {
                let (a, b): (K::A, K::A) = (a.to(), b.to());
                *r = a * *r + b;
                *y = (*r).to();
            }
        }
    }
}

fn run<K: Kind>(shape: Shape3, reverse: bool, a: &HostView, b: &HostView, dst: &HostView) {
    let (a, b) = (SendPtr::new(a.as_ptr::<K::E>()), SendPtr::new(b.as_ptr::<K::E>()));
    let dst = SendPtr::new(dst.as_ptr::<K::E>());
    let grain = GRAIN.div_ceil(2 * shape.n * shape.inner.min(COLUMNS));
    pool::parallel_chunks(shape.outer * shape.groups(), grain, |range| {
        for task in range {
            let (base, width) = shape.group(task);
            // SAFETY: groups of columns are disjoint and lie inside all arrays.
            unsafe {
                let (a, b, y) = (a.get().add(base), b.get().add(base), dst.get().add(base));
                columns::<K>(a, b, y, shape.n, shape.inner, width, reverse);
            }
        }
    });
}

/// `dst[i] = a[i] dst[i-1] + b[i]` along `axis`, from the other end under `reverse`, starting from zero. All
/// arrays have one shape and dtype and are row-major without gaps; `dst` is distinct.
pub fn recurrence(a: &HostView, b: &HostView, axis: usize, reverse: bool, dst: &HostView) -> Result<()> {
    if [b, dst].iter().any(|v| v.shape != a.shape || v.dtype != a.dtype) || axis >= a.ndim() {
        bail!(Value, "[recurrence] Expected arrays of one shape and dtype.");
    }
    if [a, b, dst].iter().any(|v| !v.is_row_contiguous()) {
        bail!(Value, "[recurrence] Expected arrays without gaps.");
    }
    if a.size() == 0 {
        return Ok(());
    }
    let shape = Shape3::new(&a.shape, axis);
    match a.dtype {
        Dtype::F16 => run::<OfF16>(shape, reverse, a, b, dst),
        Dtype::BF16 => run::<OfBf16>(shape, reverse, a, b, dst),
        Dtype::F32 => run::<OfF32>(shape, reverse, a, b, dst),
        Dtype::F64 => run::<OfF64>(shape, reverse, a, b, dst),
        Dtype::C64 => run::<OfC64>(shape, reverse, a, b, dst),
        d => bail!(Value, "[recurrence] Expected floating point, got {d}."),
    }
    Ok(())
}
