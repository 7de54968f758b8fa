//! LU factorisation with exchanged rows, and determinants. `faer` factorises; it divides by pivots of zero, so matrices
//! that it leaves numbers in that are not finite are factorised again column by column as LAPACK's getrf does it: such a
//! pivot stands, and its column of zeros with it. Called by `linalg`.

use faer::linalg::{lu, triangular_solve};
use faer::{Mat, MatMut, Par};

use super::{Matrices, Real, batch, by_real, refuse_zeros, scratch};
use crate::bail;
use crate::core::{Dtype, Result};
use crate::kernels::HostView;

/// `A = L[p] U`, packed; the rows that were exchanged one after the other, `p`, and how many exchanges there were.
pub(in crate::cpu) struct Lu<T> {
    packed: Mat<T>,
    forward: Vec<u32>,
    inverse: Vec<u32>,
    exchanges: usize,
}

impl<T: Real> Lu<T> {
    pub(in crate::cpu) fn new(mut a: Mat<T>) -> Lu<T> {
        let (m, n) = a.shape();
        let given = a.clone();
        let (mut forward, mut inverse) = (vec![0u32; m], vec![0u32; m]);
        let mut exchanges = 0;
        if m > 0 && n > 0 {
            let need = lu::partial_pivoting::factor::lu_in_place_scratch::<u32, T>(
                m,
                n,
                Par::Seq,
                Default::default(),
            );
            scratch(need, |stack| {
                let (info, _) = lu::partial_pivoting::factor::lu_in_place(
                    a.as_mut(),
                    &mut forward,
                    &mut inverse,
                    Par::Seq,
                    stack,
                    Default::default(),
                );
                exchanges = info.transposition_count;
            });
        } else {
            (0..m).for_each(|i| (forward[i], inverse[i]) = (i as u32, i as u32));
        }
        let whole = (0..n).all(|j| (0..m).all(|i| a[(i, j)].wide().is_finite()));
        if whole { Lu { packed: a, forward, inverse, exchanges } } else { Lu::by_columns(given) }
    }

    /// The textbook's elimination, which a pivot of zero does not end.
    fn by_columns(mut a: Mat<T>) -> Lu<T> {
        let (m, n) = a.shape();
        let mut forward: Vec<u32> = (0..m as u32).collect();
        let mut exchanges = 0;
        for k in 0..m.min(n) {
            // The first of the largest; NaN is larger than nothing.
            let size = |i: usize| a[(i, k)].wide().abs();
            let at = (k + 1..m).fold(k, |best, i| if size(i) > size(best) { i } else { best });
            if at != k {
                (0..n).for_each(|j| (a[(k, j)], a[(at, j)]) = (a[(at, j)], a[(k, j)]));
                forward.swap(k, at);
                exchanges += 1;
            }
            let pivot = a[(k, k)];
            if pivot == T::default() {
                continue;
            }
            (k + 1..m).for_each(|i| a[(i, k)] /= pivot);
            for j in k + 1..n {
                let top = a[(k, j)];
                (k + 1..m).for_each(|i| {
                    let less = a[(i, k)] * top;
                    a[(i, j)] -= less;
                });
            }
        }
        let mut inverse = vec![0u32; m];
        (0..m).for_each(|i| inverse[forward[i] as usize] = i as u32);
        Lu { packed: a, forward, inverse, exchanges }
    }

    /// The exchanges as LAPACK states them: step `i` exchanged rows `i` and `pivots[i]`.
    fn pivots(&self) -> Vec<u32> {
        let mut rows: Vec<u32> = (0..self.forward.len() as u32).collect();
        let mut places = rows.clone();
        let steps = self.packed.nrows().min(self.packed.ncols());
        (0..steps)
            .map(|i| {
                let (wanted, here) = (self.forward[i], rows[i]);
                let at = places[wanted as usize];
                rows.swap(i, at as usize);
                (places[wanted as usize], places[here as usize]) = (i as u32, at);
                at
            })
            .collect()
    }

    /// Solves in place, unless a pivot is zero.
    pub(in crate::cpu) fn solve(&self, op: &str, mut b: MatMut<'_, T>) -> Result<()> {
        refuse_zeros(op, self.packed.as_ref())?;
        let n = self.packed.nrows();
        let sorted = Mat::from_fn(n, b.ncols(), |i, j| b[(self.forward[i] as usize, j)]);
        b.copy_from(&sorted);
        triangular_solve::solve_unit_lower_triangular_in_place(self.packed.as_ref(), b.as_mut(), Par::Seq);
        triangular_solve::solve_upper_triangular_in_place(self.packed.as_ref(), b, Par::Seq);
        Ok(())
    }
}

/// Factors `l u` of matrices with their rows exchanged: both packed into one matrix, the exchanges, and the row of
/// the product that every row of the matrix is; the last two uint32.
pub fn lu(src: &HostView, packed: &HostView, pivots: &HostView, rows: &HostView) -> Result<()> {
    let (a, out) = (Matrices::of(src), Matrices::of(packed));
    let (pivots, rows) = (Matrices::lines(pivots, true), Matrices::lines(rows, true));
    by_real!("lu", src.dtype, |T| batch(a.count, a.rows * a.cols * a.rows.min(a.cols), |k| {
        let lu = Lu::new(a.read(k, |x: T| x));
        let steps = lu.pivots();
        out.write(k, |i, j| lu.packed[(i, j)]);
        pivots.write(k, |_, j| steps[j]);
        rows.write(k, |_, j| lu.inverse[j]);
        Ok(())
    }))
}

/// Determinants of square matrices: as they are, or signs and logarithms of absolute values.
pub fn determinant(src: &HostView, outputs: &[HostView]) -> Result<()> {
    let a = Matrices::of(src);
    let outputs: Vec<Matrices> = outputs.iter().map(|v| Matrices::lines(v, false)).collect();
    by_real!("det", src.dtype, |T| batch(a.count, a.rows.pow(3), |k| {
        let x = a.read(k, |x: T| x);
        let factors = factors_of_determinant(x);
        match &outputs[..] {
            [det] => det.write(k, |_, _| factors.iter().product::<f64>() as T),
            [sign, log] => {
                // As in MLX, the sign of NaN is 0 for up to three rows, and 1 for pivots.
                let of_nan = if a.rows > 3 { 1.0 } else { 0.0 };
                let signum = |d: &f64| match *d {
                    d if d.is_nan() => of_nan,
                    0.0 => 0.0,
                    d => d.signum(),
                };
                sign.write(k, |_, _| factors.iter().map(signum).product::<f64>() as T);
                log.write(k, |_, _| factors.iter().map(|d| d.abs().ln()).sum::<f64>() as T);
            }
            _ => {}
        }
        Ok(())
    }))
}

/// Numbers whose product is the determinant: itself for up to three rows (singular ones are exactly zero then), else
/// the pivots and the sign of the exchanges.
fn factors_of_determinant<T: Real>(x: Mat<T>) -> Vec<f64> {
    let at = |i: usize, j: usize| x[(i, j)].wide();
    let minor = |i: usize, j: usize| at(1, i) * at(2, j) - at(1, j) * at(2, i);
    match x.nrows() {
        1 => vec![at(0, 0)],
        2 => vec![at(0, 0) * at(1, 1) - at(0, 1) * at(1, 0)],
        3 => vec![at(0, 0) * minor(1, 2) - at(0, 1) * minor(0, 2) + at(0, 2) * minor(0, 1)],
        n => {
            let lu = Lu::new(x);
            let sign = if lu.exchanges % 2 == 1 { -1.0 } else { 1.0 };
            (0..n).map(|i| lu.packed[(i, i)].wide()).chain([sign]).collect()
        }
    }
}
