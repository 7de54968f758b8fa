//! Products of a matrix and a vector on the host: bound by reading the matrix once, in the order in which it
//! lies. Where K is contiguous each result is a dot product of fixed lanes; where the results are, blocks of
//! them are accumulated over K. Sums do not depend on the number of threads. Called by `matmul`.

use super::{Dims, Element, Mat};
use crate::cpu::runtime::elem::To;
use crate::cpu::runtime::pool::{SendPtr, parallel_chunks};
use crate::cpu::runtime::simd::multiversion;

/// Independent sums of a dot product.
const LANES: usize = 32;
/// Results that are accumulated together.
const BLOCK: usize = 256;
/// Length of K that one part sums where results alone do not fill the threads.
const PART: usize = 1024;
/// Elements below which a loop stays on one thread.
const GRAIN: usize = 1 << 15;

/// What products are summed in.
pub(in crate::cpu) trait Real:
    Copy + Default + std::ops::AddAssign + std::ops::Mul<Output = Self>
{
    fn scale(x: f32) -> Self;
}
impl Real for f32 {
    #[inline(always)]
    fn scale(x: f32) -> f32 {
        x
    }
}
impl Real for f64 {
    #[inline(always)]
    fn scale(x: f32) -> f64 {
        x.into()
    }
}

/// An element with a real sum.
pub(in crate::cpu) trait Factor: Element<Sum = Self::Real> {
    type Real: Real + To<Self> + Send + Sync + 'static;
}
impl<T: Element> Factor for T
where
    T::Sum: Real,
{
    type Real = T::Sum;
}

multiversion! {
    /// Sum of products of two rows of k elements.
    pub(in crate::cpu) unsafe fn dot<T: Factor>(w: *const T, x: *const T::Real, k: usize) -> T::Real {
        let mut acc = [T::Real::default(); LANES];
        let whole = k / LANES * LANES;
        let mut i = 0;
        while i < whole {
            for (l, sum) in acc.iter_mut().enumerate() {
                // SAFETY: i + l < k, for which both are valid.
                unsafe {
                    let y: T::Real = (*w.add(i + l)).to();
                    *sum += y * *x.add(i + l);
                }
            }
            i += LANES;
        }
        let mut sum = T::Real::default();
        for i in whole..k {
            // SAFETY: i < k.
            unsafe {
                let y: T::Real = (*w.add(i)).to();
                sum += y * *x.add(i);
            }
        }
        let mut half = LANES / 2;
        while half > 0 {
            for l in 0..half {
                let y = acc[l + half];
                acc[l] += y;
            }
            half /= 2;
        }
        sum += acc[0];
        sum
    }
}

multiversion! {
    /// Sums of `count <= BLOCK` results over `k` lines that lie `ld` apart.
    unsafe fn block<T: Factor>(w: *const T, ld: isize, x: *const T::Real, k: usize, acc: &mut [T::Real; BLOCK], count: usize) {
        for i in 0..k {
            // SAFETY: the caller guarantees k lines of `count` and x for k.
            unsafe {
                let line = w.wrapping_offset(i as isize * ld);
                let s = *x.add(i);
                if count == BLOCK {
                    for (j, sum) in acc.iter_mut().enumerate() {
                        let y: T::Real = (*line.add(j)).to();
                        *sum += y * s;
                    }
                } else {
                    for (j, sum) in acc.iter_mut().enumerate().take(count) {
                        let y: T::Real = (*line.add(j)).to();
                        *sum += y * s;
                    }
                }
            }
        }
    }
}

/// `dst = alpha * a @ b + beta * c` where one side has length one; false where the matrix lies along
/// neither axis.
///
/// # Safety
/// Operands are valid for the sizes, `dst` for the results.
pub(in crate::cpu) unsafe fn run<T: Factor>(
    d: Dims,
    a: Mat<T>,
    b: Mat<T>,
    c: Option<Mat<T>>,
    dst: *mut T,
) -> bool {
    // y = W x: W has `rows` rows, the results.
    let (w, x, rows, c) = if d.n == 1 {
        (a, Mat { ptr: b.ptr, rs: 0, cs: b.rs }, d.m, c.map(|c| (c.ptr, c.rs)))
    } else {
        (b.transposed(), Mat { ptr: a.ptr, rs: 0, cs: a.cs }, d.n, c.map(|c| (c.ptr, c.cs)))
    };
    let along_k = w.cs == 1 || d.k <= 1;
    let along_rows = w.rs == 1 || rows == 1;
    if !along_k && !along_rows {
        return false;
    }
    let c = c.filter(|_| d.beta != 0.0);
    // SAFETY: x has k elements by contract.
    let x: Vec<T::Real> = (0..d.k).map(|i| unsafe { *x.from(0, i).ptr }.to()).collect();
    let out = SendPtr::new(dst);
    let base = c.map(|(p, s)| (SendPtr::new(p.cast_mut()), s));
    let (alpha, beta) = (T::Real::scale(d.alpha), T::Real::scale(d.beta));
    let store = move |i: usize, sum: T::Real| {
        let mut y = alpha * sum;
        // SAFETY: i < rows; the addend and the result are valid by contract, results are disjoint.
        unsafe {
            if let Some((p, step)) = base {
                let z: T::Real = (*p.get().wrapping_offset(i as isize * step)).to();
                y += beta * z;
            }
            *out.get().add(i) = y.to();
        }
    };
    if along_k {
        parallel_chunks(rows, (GRAIN / d.k.max(1)).max(1), |r| {
            for i in r {
                // SAFETY: row i of the matrix has k contiguous elements.
                store(i, unsafe { dot(w.from(i, 0).ptr, x.as_ptr(), d.k) });
            }
        });
        return true;
    }
    let blocks = rows.div_ceil(BLOCK);
    let parts = if blocks >= 64 { 1 } else { d.k.div_ceil(PART).max(1) };
    let part = d.k.div_ceil(parts).max(1);
    let mut sums = vec![T::Real::default(); parts * rows];
    let held = SendPtr::new(sums.as_mut_ptr());
    parallel_chunks(parts * blocks, (GRAIN / (part * BLOCK)).max(1), |r| {
        for job in r {
            let (p, j) = (job / blocks, job % blocks * BLOCK);
            let (k0, count) = (p * part, BLOCK.min(rows - j));
            if k0 >= d.k {
                continue;
            }
            let mut acc = [T::Real::default(); BLOCK];
            // SAFETY: the block lies inside the matrix; jobs write disjoint sums.
            unsafe {
                let from = w.from(j, k0);
                block(from.ptr, w.cs, x.as_ptr().add(k0), part.min(d.k - k0), &mut acc, count);
                std::ptr::copy_nonoverlapping(acc.as_ptr(), held.get().add(p * rows + j), count);
            }
        }
    });
    for i in 0..rows {
        let mut sum = sums[i];
        for p in 1..parts {
            sum += sums[p * rows + i];
        }
        store(i, sum);
    }
    true
}
