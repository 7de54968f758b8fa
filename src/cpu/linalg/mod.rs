//! Factorisations of dense matrices through `faer`, batch by batch in parallel. Triangular work (LU, Cholesky, QR,
//! solves) runs in the matrices' own precision; spectra of float32 and complex64 matrices are computed in double
//! precision. Nothing here loops on NaN: of matrices that are not finite, symmetric ones have NaN for a spectrum, and others
//! are refused for NaN. LU and what follows from it alone is in `linalg_lu`.

pub(super) mod lu;

use std::ops::{DivAssign, Mul, Range, Sub, SubAssign};
use std::sync::Mutex;

use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::linalg::{cholesky, evd, householder, qr, svd, triangular_inverse, triangular_solve};
use faer::traits::{ComplexField, RealField};
use faer::{Conj, Mat, MatRef, Par, diag::Diag};
use num_complex::{Complex32, Complex64};

use self::lu::Lu;
pub use self::lu::{determinant, lu};
use super::runtime::pool;
use super::runtime::walk::{Axes, Axis, locate};
use crate::bail;
use crate::core::layout::collapse;
use crate::core::{Dtype, Error, Result};
use crate::kernels::HostView;

/// Elements of all matrices of a batch below which one thread does it.
const GRAIN: usize = 1 << 12;

/// Real numbers that the triangular algorithms run in.
pub(super) trait Real:
    RealField + Copy + PartialOrd + Default + Sub<Output = Self> + Mul<Output = Self> + DivAssign + SubAssign
{
    const EPSILON: Self;
    fn wide(self) -> f64;
}

impl Real for f32 {
    const EPSILON: f32 = f32::EPSILON;
    fn wide(self) -> f64 {
        self.into()
    }
}

impl Real for f64 {
    const EPSILON: f64 = f64::EPSILON;
    fn wide(self) -> f64 {
        self
    }
}

/// The matrices of a view: its last two axes.
pub(super) struct Matrices {
    lead: Axes,
    pub(super) count: usize,
    pub(super) rows: usize,
    pub(super) cols: usize,
    row: isize,
    col: isize,
    ptr: *mut u8,
}

// SAFETY: only an address; threads read it, or write disjoint matrices of it.
unsafe impl Sync for Matrices {}

impl Matrices {
    pub(super) fn of(v: &HostView) -> Matrices {
        let lead = v.ndim() - 2;
        let (shape, strides) = collapse(&v.shape[..lead], &[&v.strides[..lead]]);
        Matrices {
            count: shape.iter().product::<i64>() as usize,
            lead: (0..shape.len())
                .map(|i| Axis { n: shape[i] as usize, src: strides[0][i] as isize, dst: 0 })
                .collect(),
            rows: v.shape[lead] as usize,
            cols: v.shape[lead + 1] as usize,
            row: v.strides[lead] as isize,
            col: v.strides[lead + 1] as isize,
            ptr: v.ptr,
        }
    }

    /// One value or one line a matrix, as matrices of one row.
    pub(super) fn lines(v: &HostView, last: bool) -> Matrices {
        let mut v = v.clone();
        if !last {
            v.shape.push(1);
            v.strides.push(1);
        }
        v.shape.insert(v.shape.len() - 1, 1);
        v.strides.insert(v.strides.len() - 1, 0);
        Matrices::of(&v)
    }

    fn at<T>(&self, k: usize, i: usize, j: usize) -> *mut T {
        let offset = locate(&self.lead, k).0 + i as isize * self.row + j as isize * self.col;
        self.ptr.cast::<T>().wrapping_offset(offset)
    }

    /// Matrix `k`, converted.
    pub(super) fn read<A: Copy, T>(&self, k: usize, to: impl Fn(A) -> T) -> Mat<T> {
        let base = self.at::<A>(k, 0, 0);
        // SAFETY: indices lie inside the view.
        Mat::from_fn(self.rows, self.cols, |i, j| unsafe {
            to(*base.wrapping_offset(i as isize * self.row + j as isize * self.col))
        })
    }

    /// Writes matrix `k`.
    pub(super) fn write<T>(&self, k: usize, value: impl Fn(usize, usize) -> T) {
        let base = self.at::<T>(k, 0, 0);
        for i in 0..self.rows {
            for j in 0..self.cols {
                // SAFETY: indices lie inside the view, whose matrices are disjoint.
                unsafe { *base.wrapping_offset(i as isize * self.row + j as isize * self.col) = value(i, j) };
            }
        }
    }
}

/// Calls `f` for every matrix of a batch; the first error ends it.
pub(super) fn batch(count: usize, size: usize, f: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    let failed: Mutex<Option<Error>> = Mutex::new(None);
    pool::parallel_chunks(count, GRAIN.div_ceil(size.max(1)), |range: Range<usize>| {
        for k in range {
            if let Err(e) = f(k) {
                failed.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(e);
                return;
            }
        }
    });
    match failed.into_inner().unwrap_or_else(|e| e.into_inner()) {
        Some(e) => Err(e),
        None => Ok(()),
    }
}

pub(super) fn scratch<R>(need: StackReq, f: impl FnOnce(&mut MemStack) -> R) -> R {
    f(MemStack::new(&mut MemBuffer::new(need)))
}

macro_rules! by_real {
    ($op:literal, $dtype:expr, |$t:ident| $body:expr) => {
        match $dtype {
            Dtype::F32 => {
                type $t = f32;
                $body
            }
            Dtype::F64 => {
                type $t = f64;
                $body
            }
            d => bail!(Value, "[linalg::{}] Arrays must have type float32 or float64, got {d}.", $op),
        }
    };
}
pub(super) use by_real;

pub(super) fn refuse_zeros<T: Real>(op: &str, triangle: MatRef<'_, T>) -> Result<()> {
    match (0..triangle.nrows()).find(|&i| triangle[(i, i)] == T::default()) {
        Some(i) => bail!(Runtime, "[linalg::{op}] The matrix is singular: pivot {i} is zero."),
        None => Ok(()),
    }
}

fn identity<T: Real>(n: usize) -> Mat<T> {
    Mat::identity(n, n)
}

/// Inverses of square matrices (float32, float64) into row-major ones.
///
/// # Errors
/// Runtime error for a singular matrix.
pub fn inverse(src: &HostView, dst: &HostView) -> Result<()> {
    let (a, out) = (Matrices::of(src), Matrices::of(dst));
    by_real!("inv", src.dtype, |T| batch(a.count, a.rows.pow(3), |k| {
        let mut x = identity::<T>(a.rows);
        Lu::new(a.read(k, |x: T| x)).solve("inv", x.as_mut())?;
        out.write(k, |i, j| x[(i, j)]);
        Ok(())
    }))
}

/// Solutions of `a x = b` for square or, with `triangle` (true for the upper one), triangular `a`. Batches agree.
///
/// # Errors
/// Runtime error for a singular matrix.
pub fn solve(a: &HostView, b: &HostView, triangle: Option<bool>, dst: &HostView) -> Result<()> {
    let (a, rhs, out) = (Matrices::of(a), Matrices::of(b), Matrices::of(dst));
    by_real!("solve", dst.dtype, |T| batch(out.count, a.rows.pow(3), |k| {
        let m = a.read(k, |x: T| x);
        let mut x = rhs.read(k, |x: T| x);
        match triangle {
            None => Lu::new(m).solve("solve", x.as_mut())?,
            Some(upper) => {
                refuse_zeros("solve_triangular", m.as_ref())?;
                let solve = if upper {
                    triangular_solve::solve_upper_triangular_in_place::<T, T, _, _>
                } else {
                    triangular_solve::solve_lower_triangular_in_place
                };
                solve(m.as_ref(), x.as_mut(), Par::Seq);
            }
        }
        out.write(k, |i, j| x[(i, j)]);
        Ok(())
    }))
}

/// Inverses of triangular matrices; the other triangle counts as zero.
///
/// # Errors
/// Runtime error for a zero on the diagonal.
pub fn triangular_inverse(src: &HostView, upper: bool, dst: &HostView) -> Result<()> {
    let (a, out) = (Matrices::of(src), Matrices::of(dst));
    by_real!("tri_inv", src.dtype, |T| batch(a.count, a.rows.pow(3), |k| {
        let m = a.read(k, |x: T| x);
        refuse_zeros("tri_inv", m.as_ref())?;
        let mut x = Mat::<T>::zeros(a.rows, a.rows);
        if upper {
            triangular_inverse::invert_upper_triangular(x.as_mut(), m.as_ref(), Par::Seq);
        } else {
            triangular_inverse::invert_lower_triangular(x.as_mut(), m.as_ref(), Par::Seq);
        }
        out.write(k, |i, j| x[(i, j)]);
        Ok(())
    }))
}

/// Column by column, for matrices that are not positive definite: a pivot that is zero but for rounding gives a
/// column of zeros, a negative one NaN from there on.
fn semidefinite<T: Real>(a: &Mat<T>) -> Mat<T> {
    let n = a.nrows();
    let mut l = Mat::<T>::zeros(n, n);
    let largest = (0..n).map(|i| a[(i, i)].wide().abs()).filter(|x| x.is_finite()).fold(0.0, f64::max);
    let small = largest * T::EPSILON.wide() * n as f64;
    let mut broken = false;
    for j in 0..n {
        let mut column: Vec<f64> = (j..n).map(|i| a[(i, j)].wide()).collect();
        for k in 0..j {
            let factor = l[(j, k)].wide();
            column.iter_mut().enumerate().for_each(|(i, x)| *x -= l[(j + i, k)].wide() * factor);
        }
        let pivot = column[0];
        broken |= pivot.is_nan() || pivot < -small;
        for (i, x) in column.into_iter().enumerate() {
            let value = match () {
                _ if broken => f64::NAN,
                _ if pivot <= small => 0.0,
                _ if i == 0 => pivot.sqrt(),
                _ => x / pivot.sqrt(),
            };
            l[(j + i, j)] = <T as ComplexField>::from_f64_impl(value);
        }
    }
    l
}

/// Cholesky factors of symmetric matrices, of which one triangle is read: lower ones, or upper ones with `upper`.
pub fn cholesky(src: &HostView, upper: bool, dst: &HostView) -> Result<()> {
    let (mut a, mut out) = (Matrices::of(src), Matrices::of(dst));
    if upper {
        // The upper factor is the transpose of the lower one, and so are the triangles that are read.
        std::mem::swap(&mut a.row, &mut a.col);
        std::mem::swap(&mut out.row, &mut out.col);
    }
    let n = a.rows;
    by_real!("cholesky", src.dtype, |T| batch(a.count, n.pow(3), |k| {
        let original = a.read(k, |x: T| x);
        let mut l = original.clone();
        let need = cholesky::llt::factor::cholesky_in_place_scratch::<T>(n, Par::Seq, Default::default());
        let done = scratch(need, |stack| {
            let l = l.as_mut();
            cholesky::llt::factor::cholesky_in_place(
                l,
                Default::default(),
                Par::Seq,
                stack,
                Default::default(),
            )
        });
        if done.is_err() {
            l = semidefinite(&original);
        }
        out.write(k, |i, j| if j > i { 0.0 } else { l[(i, j)] });
        Ok(())
    }))
}

/// Factors `q r`: `k = min(m, n)` orthonormal columns and an upper trapezoid; NaN for matrices that are not finite.
pub fn qr(src: &HostView, q: &HostView, r: &HostView) -> Result<()> {
    let (a, q, r) = (Matrices::of(src), Matrices::of(q), Matrices::of(r));
    let (m, n) = (a.rows, a.cols);
    let k = m.min(n);
    if k == 0 {
        return Ok(());
    }
    by_real!("qr", src.dtype, |T| batch(a.count, m * n * k, |b| {
        let mut x = a.read(b, |x: T| x);
        if !(0..n).all(|j| (0..m).all(|i| x[(i, j)].is_finite())) {
            q.write(b, |_, _| T::NAN);
            r.write(b, |i, j| if i > j { 0.0 } else { T::NAN });
            return Ok(());
        }
        let block = qr::no_pivoting::factor::recommended_block_size::<T>(m, n);
        let mut coefficients = Mat::<T>::zeros(block, k);
        let need =
            qr::no_pivoting::factor::qr_in_place_scratch::<T>(m, n, block, Par::Seq, Default::default());
        scratch(need, |stack| {
            qr::no_pivoting::factor::qr_in_place(
                x.as_mut(),
                coefficients.as_mut(),
                Par::Seq,
                stack,
                Default::default(),
            );
        });
        let mut basis = Mat::<T>::identity(m, k);
        let need =
            householder::apply_block_householder_sequence_on_the_left_in_place_scratch::<T>(m, block, k);
        scratch(need, |stack| {
            householder::apply_block_householder_sequence_on_the_left_in_place_with_conj(
                x.as_ref().subcols(0, k),
                coefficients.as_ref(),
                Conj::No,
                basis.as_mut(),
                Par::Seq,
                stack,
            );
        });
        q.write(b, |i, j| basis[(i, j)]);
        r.write(b, |i, j| if i > j { 0.0 } else { x[(i, j)] });
        Ok(())
    }))
}

/// Numbers that spectra are computed in, and how matrices become them and back.
trait Wide: ComplexField<Real = f64> + Copy {
    fn parts(self) -> (f64, f64);
    fn conjugate(self) -> Self;
}

impl Wide for f64 {
    fn parts(self) -> (f64, f64) {
        (self, 0.0)
    }
    fn conjugate(self) -> f64 {
        self
    }
}

impl Wide for Complex64 {
    fn parts(self) -> (f64, f64) {
        (self.re, self.im)
    }
    fn conjugate(self) -> Complex64 {
        self.conj()
    }
}

fn narrow(z: Complex64) -> Complex32 {
    Complex32::new(z.re as f32, z.im as f32)
}

fn widen(z: Complex32) -> Complex64 {
    Complex64::new(z.re.into(), z.im.into())
}

/// Whether a matrix is finite where it is used.
fn finite<T: Wide>(a: &Mat<T>, used: impl Fn(usize, usize) -> bool) -> bool {
    let whole = |x: T| x.parts().0.is_finite() && x.parts().1.is_finite();
    (0..a.ncols()).all(|j| (0..a.nrows()).all(|i| !used(i, j) || whole(a[(i, j)])))
}

/// As [`finite`] for whole matrices.
///
/// # Errors
/// Runtime error for NaN, which the iterations do not end on.
fn finite_or_refused<T: Wide>(op: &str, a: &Mat<T>) -> Result<bool> {
    let nan = |x: T| x.parts().0.is_nan() || x.parts().1.is_nan();
    if (0..a.ncols()).any(|j| (0..a.nrows()).any(|i| nan(a[(i, j)]))) {
        bail!(Runtime, "[linalg::{op}] The matrix has a NaN.");
    }
    Ok(finite(a, |_, _| true))
}

fn not_converged(op: &str) -> Error {
    Error::Runtime(format!("[linalg::{op}] The iteration did not converge."))
}

macro_rules! by_spectrum {
    ($op:literal, $dtype:expr, |$read:ident, $real:ident, $value:ident| $body:expr) => {
        match $dtype {
            Dtype::F32 => {
                let ($read, $real, $value) = (|x: f32| f64::from(x), |x: f64| x as f32, |x: f64| x as f32);
                $body
            }
            Dtype::F64 => {
                let ($read, $real, $value) = (|x: f64| x, |x: f64| x, |x: f64| x);
                $body
            }
            Dtype::C64 => {
                let ($read, $real, $value) = (widen, |x: f64| x as f32, narrow);
                $body
            }
            d => bail!(
                Value,
                "[linalg::{}] Arrays must have type float32, float64 or complex64, got {d}.",
                $op
            ),
        }
    };
}

struct Decomposed<T> {
    u: Mat<T>,
    s: Vec<f64>,
    v: Mat<T>,
}

fn decompose<T: Wide>(a: &Mat<T>, vectors: bool) -> Result<Decomposed<T>> {
    use svd::ComputeSvdVectors::{Full, No};
    let (m, n) = a.shape();
    let k = m.min(n);
    let nan = <T as ComplexField>::from_f64_impl(f64::NAN);
    let size = |n: usize| if vectors { n } else { 0 };
    if !finite_or_refused("svd", a)? {
        let full = |n: usize| Mat::from_fn(n, n, |_, _| nan);
        return Ok(Decomposed { u: full(size(m)), s: vec![f64::NAN; k], v: full(size(n)) });
    }
    let (mut u, mut v) = (Mat::<T>::zeros(size(m), size(m)), Mat::<T>::zeros(size(n), size(n)));
    let mut s = Diag::<T>::zeros(k);
    if k == 0 {
        (u, v) = (Mat::identity(size(m), size(m)), Mat::identity(size(n), size(n)));
        return Ok(Decomposed { u, s: Vec::new(), v });
    }
    let which = if vectors { Full } else { No };
    let need = svd::svd_scratch::<T>(m, n, which, which, Par::Seq, Default::default());
    scratch(need, |stack| {
        let (u, v) = (vectors.then_some(u.as_mut()), vectors.then_some(v.as_mut()));
        svd::svd(a.as_ref(), s.as_mut(), u, v, Par::Seq, stack, Default::default())
    })
    .map_err(|_| not_converged("svd"))?;
    let s = s.column_vector().iter().map(|x| x.parts().0).collect();
    Ok(Decomposed { u, s, v })
}

/// Singular values, largest first, into the only output; or `u`, the values and `v` adjoint, full square matrices.
/// Values of complex64 matrices are float32.
///
/// # Errors
/// Runtime error for NaN.
pub fn svd(src: &HostView, outputs: &[HostView]) -> Result<()> {
    let a = Matrices::of(src);
    let vectors = outputs.len() == 3;
    let s = Matrices::lines(&outputs[usize::from(vectors)], true);
    let uv = vectors.then(|| (Matrices::of(&outputs[0]), Matrices::of(&outputs[2])));
    let work = a.rows * a.cols * a.rows.min(a.cols);
    by_spectrum!("svd", src.dtype, |read, real, value| batch(a.count, 8 * work, |k| {
        let d = decompose(&a.read(k, read), vectors)?;
        s.write(k, |_, j| real(d.s[j]));
        if let Some((u, v)) = &uv {
            u.write(k, |i, j| value(d.u[(i, j)]));
            v.write(k, |i, j| value(d.v[(j, i)].conjugate()));
        }
        Ok(())
    }))
}

fn hermitian<T: Wide>(a: &Mat<T>, vectors: bool) -> Result<(Vec<f64>, Mat<T>)> {
    use evd::ComputeEigenvectors::{No, Yes};
    let n = a.nrows();
    let mut u = Mat::<T>::zeros(n, n);
    if !finite(a, |i, j| i >= j) {
        return Ok((
            vec![f64::NAN; n],
            Mat::from_fn(n, n, |_, _| <T as ComplexField>::from_f64_impl(f64::NAN)),
        ));
    }
    let mut s = Diag::<T>::zeros(n);
    let which = if vectors { Yes } else { No };
    let need = evd::self_adjoint_evd_scratch::<T>(n, which, Par::Seq, Default::default());
    scratch(need, |stack| {
        let u = vectors.then_some(u.as_mut());
        evd::self_adjoint_evd(a.as_ref(), s.as_mut(), u, Par::Seq, stack, Default::default())
    })
    .map_err(|_| not_converged("eigh"))?;
    Ok((s.column_vector().iter().map(|x| x.parts().0).collect(), u))
}

/// Eigenvalues of symmetric or Hermitian matrices in ascending order and, as a second output, orthonormal
/// eigenvectors in columns. One triangle is read: the lower one, or the upper one with `upper`.
/// A triangle that is not finite has NaN for all of both.
pub fn eigh(src: &HostView, upper: bool, outputs: &[HostView]) -> Result<()> {
    let a = Matrices::of(src);
    let s = Matrices::lines(&outputs[0], true);
    let vectors = outputs.get(1).map(Matrices::of);
    by_spectrum!("eigh", src.dtype, |read, real, value| batch(a.count, 8 * a.rows.pow(3), |k| {
        let mut x = a.read(k, read);
        if upper {
            x = Mat::from_fn(a.rows, a.rows, |i, j| x[(j, i)].conjugate());
        }
        // The imaginary part of the diagonal does not count.
        (0..a.rows).for_each(|i| x[(i, i)] = ComplexField::from_f64_impl(x[(i, i)].parts().0));
        let (values, u) = hermitian(&x, vectors.is_some())?;
        s.write(k, |_, j| real(values[j]));
        if let Some(v) = &vectors {
            v.write(k, |i, j| value(u[(i, j)]));
        }
        Ok(())
    }))
}

type Eigen = (Vec<Complex64>, Mat<Complex64>);

fn unit_columns(u: &mut Mat<Complex64>) {
    let n = u.nrows();
    for j in 0..u.ncols() {
        let column: Vec<Complex64> = (0..n).map(|i| u[(i, j)]).collect();
        let norm = column.iter().map(Complex64::norm_sqr).sum::<f64>().sqrt();
        let top = column.iter().max_by(|a, b| a.norm_sqr().total_cmp(&b.norm_sqr()));
        // As in LAPACK: length one, the largest component real.
        let phase = top.filter(|t| t.im != 0.0).map_or(Complex64::ONE, |t| t.conj() / t.norm());
        (0..n).for_each(|i| u[(i, j)] = column[i] * phase / norm);
    }
}

fn general_real(a: &Mat<f64>, vectors: bool) -> Result<Eigen> {
    use evd::ComputeEigenvectors::{No, Yes};
    let n = a.nrows();
    let (mut re, mut im) = (Diag::<f64>::zeros(n), Diag::<f64>::zeros(n));
    let mut u = Mat::<f64>::zeros(n, n);
    let which = if vectors { Yes } else { No };
    let need = evd::evd_scratch::<f64>(n, No, which, Par::Seq, Default::default());
    scratch(need, |stack| {
        let u = vectors.then_some(u.as_mut());
        evd::evd_real(a.as_ref(), re.as_mut(), im.as_mut(), None, u, Par::Seq, stack, Default::default())
    })
    .map_err(|_| not_converged("eig"))?;
    let values: Vec<Complex64> = re
        .column_vector()
        .iter()
        .zip(im.column_vector().iter())
        .map(|(&r, &i)| Complex64::new(r, i))
        .collect();
    // A conjugate pair shares two columns: real and imaginary part of the first one's vector.
    let mut z = Mat::<Complex64>::zeros(n, n);
    let mut j = 0;
    while j < n {
        let pair = values[j].im != 0.0 && j + 1 < n;
        for i in 0..n {
            if pair {
                z[(i, j)] = Complex64::new(u[(i, j)], u[(i, j + 1)]);
                z[(i, j + 1)] = z[(i, j)].conj();
            } else {
                z[(i, j)] = u[(i, j)].into();
            }
        }
        j += if pair { 2 } else { 1 };
    }
    Ok((values, z))
}

fn general_complex(a: &Mat<Complex64>, vectors: bool) -> Result<Eigen> {
    use evd::ComputeEigenvectors::{No, Yes};
    let n = a.nrows();
    let mut s = Diag::<Complex64>::zeros(n);
    let mut u = Mat::<Complex64>::zeros(n, n);
    let which = if vectors { Yes } else { No };
    let need = evd::evd_scratch::<Complex64>(n, No, which, Par::Seq, Default::default());
    scratch(need, |stack| {
        let u = vectors.then_some(u.as_mut());
        evd::evd_cplx(a.as_ref(), s.as_mut(), None, u, Par::Seq, stack, Default::default())
    })
    .map_err(|_| not_converged("eig"))?;
    Ok((s.column_vector().iter().copied().collect(), u))
}

/// Eigenvalues of square matrices (float32, float64, complex64) and, as a second output, eigenvectors of length one
/// in columns; complex64.
///
/// # Errors
/// Runtime error for NaN.
pub fn eig(src: &HostView, outputs: &[HostView]) -> Result<()> {
    let a = Matrices::of(src);
    let n = a.rows;
    let s = Matrices::lines(&outputs[0], true);
    let vectors = outputs.get(1).map(Matrices::of);
    let unknown = || {
        let nan = Complex64::new(f64::NAN, f64::NAN);
        (vec![nan; n], Mat::from_fn(n, n, |_, _| nan))
    };
    let real = |x: Mat<f64>| -> Result<Eigen> {
        if finite_or_refused("eig", &x)? { general_real(&x, vectors.is_some()) } else { Ok(unknown()) }
    };
    batch(a.count, 20 * n.pow(3), |k| {
        let (values, mut u) = match src.dtype {
            Dtype::F32 => real(a.read(k, |x: f32| x.into()))?,
            Dtype::F64 => real(a.read(k, |x: f64| x))?,
            Dtype::C64 => {
                let x = a.read(k, widen);
                let whole = finite_or_refused("eig", &x)?;
                if whole { general_complex(&x, vectors.is_some())? } else { unknown() }
            }
            d => bail!(Value, "[linalg::eig] Arrays must have type float32, float64 or complex64, got {d}."),
        };
        s.write(k, |_, j| narrow(values[j]));
        if let Some(v) = &vectors {
            unit_columns(&mut u);
            v.write(k, |i, j| narrow(u[(i, j)]));
        }
        Ok(())
    })
}
