//! Small products of real matrices: each result is one sum along K in its order, whatever the sizes around it, so that
//! a prompt read in pieces gets the bits of one read at once. Called by `matmul` and `attention`.

use super::Mat;
use super::gemv::Real;
use crate::cpu::runtime::simd::multiversion;

/// Multiplications of the largest such product, and its least columns: others are faster by blocks of a matrix.
const MOST: usize = 1 << 13;
const LEAST: usize = 8;

/// Whether a product of these sizes is one of them.
pub(in crate::cpu) fn takes([m, n, k]: [usize; 3]) -> bool {
    n >= LEAST && m.saturating_mul(n).saturating_mul(k) <= MOST
}

/// `width` results from `from` on, in registers.
macro_rules! side_by_side {
    ($width:literal, $from:ident, $a:ident, $step:ident, $b:ident, $n:ident, $k:ident, $out:ident) => {
        while $n - $from >= $width {
            let mut acc = [T::default(); $width];
            for i in 0..$k {
                // SAFETY: the caller guarantees k elements of a and as many rows of n elements.
                unsafe {
                    let (x, line) = (*$a.offset(i as isize * $step), $b.add(i * $n + $from));
                    for (l, sum) in acc.iter_mut().enumerate() {
                        *sum += x * *line.add(l);
                    }
                }
            }
            for (l, &sum) in acc.iter().enumerate() {
                // SAFETY: the caller guarantees n results.
                unsafe { *$out.add($from + l) = sum };
            }
            $from += $width;
        }
    };
}

multiversion! {
    /// `out = a @ b` for one row of a, whose elements lie `step` apart, and k contiguous rows of b.
    unsafe fn row<T: Real>(a: *const T, step: isize, b: *const T, n: usize, k: usize, out: *mut T) {
        let mut from = 0;
        side_by_side!(32, from, a, step, b, n, k, out);
        side_by_side!(8, from, a, step, b, n, k, out);
        side_by_side!(1, from, a, step, b, n, k, out);
    }
}

/// Hands each row of `a (m, k) @ b (k, n)` to `put`, with its number.
///
/// # Safety
/// The matrices are valid for their sizes.
pub(in crate::cpu) unsafe fn product<T: Real>(
    [m, n, k]: [usize; 3],
    a: Mat<T>,
    b: Mat<T>,
    mut put: impl FnMut(usize, &[T]),
) {
    let mut packed = Vec::new();
    let mut rows = b.ptr;
    if b.cs != 1 || b.rs != n as isize {
        packed.reserve_exact(n * k);
        for i in 0..k {
            // SAFETY: inside of b.
            packed.extend((0..n).map(|j| unsafe { *b.from(i, j).ptr }));
        }
        rows = packed.as_ptr();
    }
    let mut sums = vec![T::default(); n];
    for i in 0..m {
        // SAFETY: row i of a, and what b was checked or packed to be.
        unsafe { row(a.from(i, 0).ptr, a.cs, rows, n, k, sums.as_mut_ptr()) };
        put(i, &sums);
    }
}
