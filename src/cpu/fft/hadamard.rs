//! The Walsh-Hadamard transform of lines on the host: two stages of the fast algorithm a pass, then the matrix
//! of order 12, 20 or 28 across the blocks. Halves are computed in float32 and rounded once.

use crate::bail;
use crate::core::{Dtype, Result};
use crate::cpu::runtime::elem::{Brain, Half, To};
use crate::cpu::runtime::pool::{SendPtr, parallel_chunks};
use crate::cpu::runtime::simd::multiversion;
use crate::cpu::runtime::walk::{Lines, locate};
use crate::kernels::HostView;
use crate::kernels::fft::hadamard::Order;

/// Elements that are worth another thread.
const GRAIN: usize = 1 << 14;
/// Columns that cross the blocks together.
const STRIP: usize = 32;
/// Largest order of the matrix across the blocks.
const MOST: usize = 28;

/// Float32 or float64.
trait Real:
    Copy
    + Send
    + Sync
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::AddAssign
{
    const ZERO: Self;
    fn of(x: f32) -> Self;
}
impl Real for f32 {
    const ZERO: f32 = 0.0;
    fn of(x: f32) -> f32 {
        x
    }
}
impl Real for f64 {
    const ZERO: f64 = 0.0;
    fn of(x: f32) -> f64 {
        x.into()
    }
}

/// Sums and differences of neighbours `h` apart, then `2 h` apart.
#[inline(always)]
unsafe fn four<R: Real>(x: *mut R, h: usize) {
    // SAFETY: the caller guarantees 4 h elements.
    unsafe {
        for j in 0..h {
            let (p, q, r, s) = (x.add(j), x.add(j + h), x.add(j + 2 * h), x.add(j + 3 * h));
            let (a, b, c, d) = (*p + *q, *p - *q, *r + *s, *r - *s);
            (*p, *q, *r, *s) = (a + c, b + d, a - c, b - d);
        }
    }
}

multiversion! {
    /// The transform of every block of 2^k elements.
    unsafe fn powers<R: Real>(x: *mut R, len: usize, k: u32) {
        let mut h = 1usize;
        // SAFETY: len is a multiple of 2^k, and 4 h and 2 h divide that.
        unsafe {
            if k % 2 == 1 {
                for at in (0..len).step_by(2) {
                    let (a, b) = (*x.add(at), *x.add(at + 1));
                    (*x.add(at), *x.add(at + 1)) = (a + b, a - b);
                }
                h = 2;
            }
            while h < 1 << k {
                match h {
                    1 => (0..len).step_by(4).for_each(|at| four(x.add(at), 1)),
                    2 => (0..len).step_by(8).for_each(|at| four(x.add(at), 2)),
                    _ => (0..len).step_by(4 * h).for_each(|at| four(x.add(at), h)),
                }
                h *= 4;
            }
        }
    }
}

multiversion! {
    /// The matrix whose minus signs are the bits of `rows`, across blocks of `block` elements.
    unsafe fn across<R: Real>(x: *mut R, block: usize, rows: &[u32]) {
        let mut held = [[R::ZERO; STRIP]; MOST];
        for from in (0..block).step_by(STRIP) {
            let width = STRIP.min(block - from);
            // SAFETY: there are rows.len() blocks, and from + width <= block.
            unsafe {
                for (i, h) in held.iter_mut().enumerate().take(rows.len()) {
                    for j in 0..width {
                        h[j] = *x.add(i * block + from + j);
                    }
                }
                for (i, &signs) in rows.iter().enumerate() {
                    let mut total = [R::ZERO; STRIP];
                    for (l, h) in held.iter().enumerate().take(rows.len()) {
                        if signs >> l & 1 == 1 {
                            for j in 0..STRIP {
                                total[j] = total[j] - h[j];
                            }
                        } else {
                            for j in 0..STRIP {
                                total[j] += h[j];
                            }
                        }
                    }
                    for j in 0..width {
                        *x.add(i * block + from + j) = total[j];
                    }
                }
            }
        }
    }
}

fn run<T, R>(src: &HostView, order: Order, scale: f32, dst: &HostView)
where
    T: Copy + To<R>,
    R: Real + To<T>,
{
    let lines = Lines::new(src, src.ndim() - 1, dst);
    let rows = order.rows();
    let (from, to) = (SendPtr::new(src.as_ptr::<T>()), SendPtr::new(dst.as_ptr::<T>()));
    let factor = R::of(scale);
    parallel_chunks(lines.count, GRAIN.div_ceil(lines.len), |r| {
        let mut line = vec![R::ZERO; lines.len];
        for i in r {
            let (s, d) = locate(&lines.axes, i);
            // SAFETY: `locate` and the strides of the lines stay inside the views; lines are disjoint. The buffer
            // holds m blocks of 2^k elements.
            unsafe {
                for (j, x) in line.iter_mut().enumerate() {
                    *x = (*from.get().offset(s + j as isize * lines.src)).to();
                }
                powers(line.as_mut_ptr(), lines.len, order.k);
                if order.m > 1 {
                    across(line.as_mut_ptr(), lines.len / order.m as usize, &rows);
                }
                for (j, x) in line.iter().enumerate() {
                    *to.get().offset(d + j as isize * lines.dst) = (*x * factor).to();
                }
            }
        }
    });
}

/// `dst = scale * H src` along the last axis, which has the length of `order`. `dst` has the shape and dtype of
/// `src`, any strides; float16, bfloat16, float32 or float64.
pub fn hadamard(src: &HostView, order: Order, scale: f32, dst: &HostView) -> Result<()> {
    match dst.dtype {
        Dtype::F32 => run::<f32, f32>(src, order, scale, dst),
        Dtype::F64 => run::<f64, f64>(src, order, scale, dst),
        Dtype::F16 => run::<Half, f32>(src, order, scale, dst),
        Dtype::BF16 => run::<Brain, f32>(src, order, scale, dst),
        d => bail!(Value, "[hadamard_transform] Only real numbers are supported, got {d}."),
    }
    Ok(())
}
