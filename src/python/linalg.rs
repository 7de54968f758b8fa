//! `mlx.core.linalg`: factorisations, solves, norms.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::array::{Out, PyArray, out};
use super::convert::{Arr, Ints, type_name};
use super::device::{S, pick};
use crate::core::Array;
use crate::core::Result;
use crate::ops::linalg;
use crate::ops::norm::{self as norms, Order};

fn pair(r: Result<(Array, Array)>) -> PyResult<(PyArray, PyArray)> {
    let (a, b) = r?;
    Ok((PyArray::new(a), PyArray::new(b)))
}

fn tuple(py: Python<'_>, r: Result<Vec<Array>>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, r?.into_iter().map(PyArray::new))
}

fn first(r: Result<Vec<Array>>) -> Out {
    out(r.map(|mut list| list.swap_remove(0)))
}

impl<'a, 'py> FromPyObject<'a, 'py> for Order {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(name) = obj.extract::<String>() {
            return Ok(Order::Named(name));
        }
        match obj.extract::<f64>() {
            Ok(p) => Ok(Order::Number(p)),
            Err(_) => Err(PyTypeError::new_err(format!(
                "ord must be a number or a string, got {}",
                type_name(&obj)
            ))),
        }
    }
}

/// The norm of `a` over `axis`: of vectors over one axis, of matrices over two, of the whole array by default. `ord`
/// is a number, inf, -inf, or "fro" and "nuc" for matrices; None is the Euclidean (Frobenius) norm. Integers give
/// float32. Raises ValueError for an `ord` that does not exist or axes that do not fit it; 2, -2 and "nuc" of matrices
/// need a CPU stream.
///
/// >>> mx.linalg.norm(mx.array([3.0, 4.0]))
/// array(5, dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, /, ord=None, axis=None, keepdims=false, *, stream=None))]
fn norm(a: Arr, ord: Option<Order>, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
    let order = ord.unwrap_or(Order::Euclidean);
    out(norms::norm(&a.0, &order, axis.as_ref().map(|x| &x.list[..]), keepdims, pick(stream)))
}

/// Cross products along `axis`, of length 2 or 3 in both arrays, which broadcast; a missing third component is zero.
/// Raises ValueError for other lengths.
///
/// >>> mx.linalg.cross(mx.array([1, 0, 0]), mx.array([0, 1, 0]))
/// array([0, 0, 1], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, b, axis=-1, *, stream=None))]
fn cross(a: Arr, b: Arr, axis: i64, stream: S) -> Out {
    out(norms::cross(&a.0, &b.0, axis, pick(stream)))
}

/// The factors `q` (m, k) and `r` (k, n) of matrices (m, n), `k = min(m, n)`: `a = q @ r`, the columns of `q`
/// orthonormal, `r` upper triangular. float32 or float64, CPU streams only (ValueError otherwise).
///
/// >>> q, r = mx.linalg.qr(mx.eye(2), stream=mx.cpu)
/// >>> (q @ r).shape
/// (2, 2)
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn qr(a: Arr, stream: S) -> PyResult<(PyArray, PyArray)> {
    pair(linalg::qr(&a.0, pick(stream)))
}

/// The singular value decomposition `u @ diag(s) @ vt` of matrices (m, n): `u` (m, m), `s` descending (min(m, n)),
/// `vt` (n, n); `s` alone unless `compute_uv`. float32, float64 or complex64, CPU streams only (ValueError otherwise).
/// Raises RuntimeError for NaN when evaluated.
///
/// >>> mx.linalg.svd(mx.eye(2) * 3, compute_uv=False, stream=mx.cpu)
/// array([3, 3], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, compute_uv=true, *, stream=None))]
fn svd(py: Python<'_>, a: Arr, compute_uv: bool, stream: S) -> PyResult<Bound<'_, PyAny>> {
    let parts = linalg::svd(&a.0, compute_uv, pick(stream));
    if compute_uv { Ok(tuple(py, parts)?.into_any()) } else { Ok(Bound::new(py, first(parts)?)?.into_any()) }
}

/// Inverses of square matrices (float32, float64), CPU streams only (ValueError otherwise). Raises RuntimeError for
/// a singular matrix when evaluated.
///
/// >>> mx.linalg.inv(mx.array([[2.0, 0.0], [0.0, 4.0]]), stream=mx.cpu)
/// array([[0.5, 0],
///        [0, 0.25]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn inv(a: Arr, stream: S) -> Out {
    out(linalg::inv(&a.0, pick(stream)))
}

/// Inverses of lower (or, with `upper`, upper) triangular matrices; the other triangle is not read. Dtypes, streams
/// and errors as for `inv`.
///
/// >>> mx.linalg.tri_inv(mx.array([[2.0, 9.0], [0.0, 4.0]]), stream=mx.cpu)
/// array([[0.5, 0],
///        [0, 0.25]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, upper=false, *, stream=None))]
fn tri_inv(a: Arr, upper: bool, stream: S) -> Out {
    out(linalg::tri_inv(&a.0, upper, pick(stream)))
}

/// The lower factor `l` of symmetric positive semi-definite matrices, `a = l @ l.T`, or with `upper` the upper one,
/// `a = u.T @ u`. Only that triangle is read. NaN where the matrix is not positive semi-definite. float32 or float64,
/// CPU streams only (ValueError otherwise).
///
/// >>> mx.linalg.cholesky(mx.array([[4.0, 2.0], [2.0, 5.0]]), stream=mx.cpu)
/// array([[2, 0],
///        [1, 2]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, upper=false, *, stream=None))]
fn cholesky(a: Arr, upper: bool, stream: S) -> Out {
    out(linalg::cholesky(&a.0, upper, pick(stream)))
}

/// The inverse of the matrices whose Cholesky factors, lower or with `upper` upper ones, are given. Dtypes, streams
/// and errors as for `inv`.
///
/// >>> mx.linalg.cholesky_inv(mx.array([[2.0, 0.0], [0.0, 1.0]]), stream=mx.cpu)
/// array([[0.25, 0],
///        [0, 1]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, upper=false, *, stream=None))]
fn cholesky_inv(a: Arr, upper: bool, stream: S) -> Out {
    out(linalg::cholesky_inv(&a.0, upper, pick(stream)))
}

/// Moore-Penrose inverses of matrices (float32, float64), by singular values; CPU streams only (ValueError otherwise).
///
/// >>> mx.linalg.pinv(mx.array([[2.0, 0.0]]), stream=mx.cpu)
/// array([[0.5],
///        [0]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn pinv(a: Arr, stream: S) -> Out {
    out(linalg::pinv(&a.0, pick(stream)))
}

/// The factors of matrices with exchanged rows: `p` (uint32), unit lower triangular `l` and upper triangular `u` with
/// `a = l[p, :] @ u`. float32 or float64, CPU streams only (ValueError otherwise).
///
/// >>> p, l, u = mx.linalg.lu(mx.array([[0.0, 1.0], [2.0, 0.0]]), stream=mx.cpu)
/// >>> p
/// array([1, 0], dtype=uint32)
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn lu(py: Python<'_>, a: Arr, stream: S) -> PyResult<Bound<'_, PyTuple>> {
    let parts = linalg::lu(&a.0, pick(stream)).map(|(p, l, u)| vec![p, l, u]);
    tuple(py, parts)
}

/// The packed factors of `lu` and the exchanges of rows (uint32): step `i` exchanged rows `i` and `pivots[i]`.
///
/// >>> packed, pivots = mx.linalg.lu_factor(mx.array([[0.0, 1.0], [2.0, 0.0]]), stream=mx.cpu)
/// >>> pivots
/// array([1, 1], dtype=uint32)
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn lu_factor(a: Arr, stream: S) -> PyResult<(PyArray, PyArray)> {
    pair(linalg::lu_factor(&a.0, pick(stream)))
}

/// Solutions `x` of `a @ x = b` for square `a`; `b` is a vector or holds columns, batches broadcast. float32 or
/// float64, CPU streams only (ValueError otherwise). Raises RuntimeError for a singular matrix when evaluated.
///
/// >>> mx.linalg.solve(mx.array([[2.0, 0.0], [0.0, 4.0]]), mx.array([2.0, 2.0]), stream=mx.cpu)
/// array([1, 0.5], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, b, *, stream=None))]
fn solve(a: Arr, b: Arr, stream: S) -> Out {
    out(linalg::solve(&a.0, &b.0, pick(stream)))
}

/// `solve` for lower (or, with `upper`, upper) triangular `a`, of which the other triangle is not read.
///
/// >>> mx.linalg.solve_triangular(mx.array([[2.0, 9.0], [0.0, 4.0]]), mx.array([2.0, 2.0]), stream=mx.cpu)
/// array([1, 0.5], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, b, *, upper=false, stream=None))]
fn solve_triangular(a: Arr, b: Arr, upper: bool, stream: S) -> Out {
    out(linalg::solve_triangular(&a.0, &b.0, upper, pick(stream)))
}

/// Eigenvalues (ascending, real) and orthonormal eigenvectors in columns of symmetric or Hermitian matrices (float32,
/// float64, complex64), of which the triangle `UPLO` ("L" or "U") is read. CPU streams only (ValueError otherwise).
/// Raises RuntimeError for NaN when evaluated.
///
/// >>> w, v = mx.linalg.eigh(mx.array([[2.0, 0.0], [0.0, 1.0]]), stream=mx.cpu)
/// >>> w
/// array([1, 2], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, UPLO="L", *, stream=None))]
#[allow(non_snake_case)]
fn eigh<'py>(py: Python<'py>, a: Arr, UPLO: &str, stream: S) -> PyResult<Bound<'py, PyTuple>> {
    tuple(py, linalg::eigh(&a.0, UPLO, true, pick(stream)))
}

/// The eigenvalues that `eigh` gives.
///
/// >>> mx.linalg.eigvalsh(mx.array([[2.0, 0.0], [0.0, 1.0]]), stream=mx.cpu)
/// array([1, 2], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, UPLO="L", *, stream=None))]
#[allow(non_snake_case)]
fn eigvalsh(a: Arr, UPLO: &str, stream: S) -> Out {
    first(linalg::eigh(&a.0, UPLO, false, pick(stream)))
}

/// Eigenvalues, in no order, and eigenvectors of length one in columns of square matrices (float32, float64,
/// complex64); complex64. CPU streams only (ValueError otherwise). Raises RuntimeError for NaN when evaluated.
///
/// >>> w, v = mx.linalg.eig(mx.array([[0.0, 1.0], [-1.0, 0.0]]), stream=mx.cpu)
/// >>> mx.abs(w)
/// array([1, 1], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn eig(py: Python<'_>, a: Arr, stream: S) -> PyResult<Bound<'_, PyTuple>> {
    tuple(py, linalg::eig(&a.0, true, pick(stream)))
}

/// The eigenvalues that `eig` gives.
///
/// >>> mx.abs(mx.linalg.eigvals(mx.array([[0.0, 1.0], [-1.0, 0.0]]), stream=mx.cpu))
/// array([1, 1], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn eigvals(a: Arr, stream: S) -> Out {
    first(linalg::eig(&a.0, false, pick(stream)))
}

/// Determinants of square matrices; integers give float32. CPU streams only (ValueError otherwise).
///
/// >>> mx.linalg.det(mx.array([[2.0, 0.0], [0.0, 4.0]]), stream=mx.cpu)
/// array(8, dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn det(a: Arr, stream: S) -> Out {
    out(linalg::det(&a.0, pick(stream)))
}

/// Signs of the determinants of square matrices and logarithms of their absolute values: 0 and -inf for singular
/// ones. CPU streams only (ValueError otherwise).
///
/// >>> mx.linalg.slogdet(mx.array([[1.0, 0.0], [0.0, -1.0]]), stream=mx.cpu)
/// (array(-1, dtype=float32), array(0, dtype=float32))
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn slogdet(a: Arr, stream: S) -> PyResult<(PyArray, PyArray)> {
    pair(linalg::slogdet(&a.0, pick(stream)))
}

/// Adds the submodule, and `norm` once more as `matrix_norm` of the module above.
pub fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let m = super::submodule(parent, "linalg", "Linear algebra.")?;
    for f in [
        wrap_pyfunction!(norm, &m)?,
        wrap_pyfunction!(cross, &m)?,
        wrap_pyfunction!(qr, &m)?,
        wrap_pyfunction!(svd, &m)?,
        wrap_pyfunction!(inv, &m)?,
        wrap_pyfunction!(tri_inv, &m)?,
        wrap_pyfunction!(cholesky, &m)?,
        wrap_pyfunction!(cholesky_inv, &m)?,
        wrap_pyfunction!(pinv, &m)?,
        wrap_pyfunction!(lu, &m)?,
        wrap_pyfunction!(lu_factor, &m)?,
        wrap_pyfunction!(solve, &m)?,
        wrap_pyfunction!(solve_triangular, &m)?,
        wrap_pyfunction!(eigh, &m)?,
        wrap_pyfunction!(eigvalsh, &m)?,
        wrap_pyfunction!(eig, &m)?,
        wrap_pyfunction!(eigvals, &m)?,
        wrap_pyfunction!(det, &m)?,
        wrap_pyfunction!(slogdet, &m)?,
    ] {
        m.add_function(f)?;
    }
    parent.add("matrix_norm", m.getattr("norm")?)?;
    super::hide_private(&m)
}
