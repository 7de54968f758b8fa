//! `mlx.core.linalg`: factorisations, solves, norms.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::core::Array;
use crate::core::Result;
use crate::ops::linalg;
use crate::ops::linalg::norm::{self as norms, Order};
use crate::python::array::arguments::{Arr, Ints, type_name};
use crate::python::array::{Out, PyArray, out};
use crate::python::runtime::device::{S, pick};

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

/// Norms of vectors or matrices.
///
/// Over one axis it is the norm of vectors, over two that of matrices; without axes it is that of the whole
/// array, flattened if `ord` is None. Integers are computed in float32.
///
/// For vectors `ord` is None or 2 (Euclidean), inf and -inf (largest and smallest magnitude), 0 (how many are
/// not zero) or another number p, `sum(abs(a) ** p) ** (1 / p)`. For matrices it is None or "fro"
/// (Frobenius), inf and -inf (largest and smallest sum of magnitudes of a row), 1 and -1 (of a column), 2 and
/// -2 (largest and smallest singular value) or "nuc" (sum of singular values).
///
/// Args:
///     a (array): Vectors or matrices.
///     ord (int | float | str, optional): Which norm, see above. Default: None.
///     axis (int | Sequence[int], optional): One axis of vectors or two of matrices; negative ones count from
///         the last. Default: None.
///     keepdims (bool, optional): Whether these axes stay, with length 1. Default: False.
///
/// Returns:
///     array: Real norms, in the shape of `a` without the axes.
///
/// Raises:
///     ValueError: if there is no such norm, the axes do not fit it, or singular values are asked for on a
///         GPU stream.
///     IndexError: if an axis is out of range.
///
/// >>> mx.linalg.norm(mx.array([3.0, 4.0]))
/// array(5, dtype=float32)
/// >>> mx.linalg.norm(mx.array([[1.0, -2.0], [3.0, 4.0]]), ord=1)
/// array(6, dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, /, ord=None, axis=None, keepdims=false, *, stream=None))]
fn norm(a: Arr, ord: Option<Order>, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
    let order = ord.unwrap_or(Order::Euclidean);
    out(norms::norm(&a.0, &order, axis.as_ref().map(|x| &x.list[..]), keepdims, pick(stream)))
}

/// Cross products of vectors in three dimensions.
///
/// A vector of length 2 counts as one whose third component is zero; where both have length 2 the result is
/// the third component. The other axes broadcast.
///
/// Args:
///     a (array): Vectors.
///     b (array): Vectors.
///     axis (int, optional): Axis of the components; a negative one counts from the last. Default: -1.
///
/// Returns:
///     array: Vectors of length 3, in the promoted dtype.
///
/// Raises:
///     ValueError: if the vectors have another length than 2 or 3, or the other axes do not broadcast.
///     IndexError: if the axis is out of range.
///
/// >>> mx.linalg.cross(mx.array([1, 0, 0]), mx.array([0, 1, 0]))
/// array([0, 0, 1], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, b, axis=-1, *, stream=None))]
fn cross(a: Arr, b: Arr, axis: i64, stream: S) -> Out {
    out(norms::cross(&a.0, &b.0, axis, pick(stream)))
}

/// QR factorisations of matrices: `a = q @ r`.
///
/// The columns of `q` are orthonormal and `r` is upper triangular (Householder reflections). With `k = min(m,
/// n)` the factors are the reduced ones.
///
/// Args:
#[doc = shared!(matrices)]
///
/// Returns:
///     tuple[array, array]: `q`, (..., m, k), and `r`, (..., k, n).
///
/// Raises:
#[doc = shared!(matrix_errors)]
///
/// >>> q, r = mx.linalg.qr(mx.array([[2.0, 3.0], [1.0, 2.0]]), stream=mx.cpu)
/// >>> mx.allclose(q @ r, mx.array([[2.0, 3.0], [1.0, 2.0]]), atol=1e-5)
/// array(True, dtype=bool)
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn qr(a: Arr, stream: S) -> PyResult<(PyArray, PyArray)> {
    pair(linalg::qr(&a.0, pick(stream)))
}

/// Singular value decompositions of matrices: `a = u @ diag(s) @ vt`.
///
/// `u` and `vt` are orthogonal (unitary for complex matrices) and the singular values come in descending
/// order. Not differentiable.
///
/// Args:
///     a (array): Matrices, (..., m, n), of dtype float32, float64 or complex64.
///     compute_uv (bool, optional): Whether to return `u` and `vt` too, which takes longer. Default: True.
///
/// Returns:
///     tuple[array, array, array] | array: `u`, (..., m, m), `s`, (..., min(m, n)), and `vt`, (..., n, n); or
///         `s` alone. `s` is real.
///
/// Raises:
#[doc = shared!(matrix_errors)]
///     RuntimeError: when evaluated, if an element is NaN.
///
/// >>> mx.linalg.svd(mx.eye(2) * 3, compute_uv=False, stream=mx.cpu)
/// array([3, 3], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, compute_uv=true, *, stream=None))]
fn svd(py: Python<'_>, a: Arr, compute_uv: bool, stream: S) -> PyResult<Bound<'_, PyAny>> {
    let parts = linalg::svd(&a.0, compute_uv, pick(stream));
    if compute_uv { Ok(tuple(py, parts)?.into_any()) } else { Ok(Bound::new(py, first(parts)?)?.into_any()) }
}

/// Inverses of square matrices, by LU factorisation.
///
/// To solve equations `solve` is more precise and cheaper than the product with an inverse.
///
/// Args:
#[doc = shared!(square)]
///
/// Returns:
///     array: Inverses, of the shape and dtype of `a`.
///
/// Raises:
#[doc = shared!(real_square_errors)]
///     RuntimeError: when evaluated, if a matrix is singular.
///
/// >>> mx.linalg.inv(mx.array([[2.0, 0.0], [0.0, 4.0]]), stream=mx.cpu)
/// array([[0.5, 0],
///        [0, 0.25]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn inv(a: Arr, stream: S) -> Out {
    out(linalg::inv(&a.0, pick(stream)))
}

/// Inverses of triangular matrices.
///
/// The other triangle is not read, and it is zero in the result.
///
/// Args:
#[doc = shared!(square)]
///     upper (bool, optional): Whether the matrices are upper triangular; else lower. Default: False.
///
/// Returns:
///     array: Triangular inverses, of the shape and dtype of `a`.
///
/// Raises:
#[doc = shared!(real_square_errors)]
///     RuntimeError: when evaluated, if an element of a diagonal is zero.
///
/// >>> mx.linalg.tri_inv(mx.array([[2.0, 9.0], [1.0, 4.0]]), stream=mx.cpu)
/// array([[0.5, 0],
///        [-0.125, 0.25]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, upper=false, *, stream=None))]
fn tri_inv(a: Arr, upper: bool, stream: S) -> Out {
    out(linalg::tri_inv(&a.0, upper, pick(stream)))
}

/// Cholesky factors of symmetric positive semi-definite matrices: `a = l @ l.T`.
///
/// Only the triangle of the factor is read, so that symmetry is not checked. Of a matrix that is not positive
/// semi-definite the factor is meaningless (NaN).
///
/// Args:
#[doc = shared!(square)]
///     upper (bool, optional): Whether the factor is the upper one, `a = u.T @ u`; else the lower one.
///         Default: False.
///
/// Returns:
///     array: Triangular factors, of the shape and dtype of `a`.
///
/// Raises:
#[doc = shared!(real_square_errors)]
///
/// >>> mx.linalg.cholesky(mx.array([[4.0, 2.0], [2.0, 5.0]]), stream=mx.cpu)
/// array([[2, 0],
///        [1, 2]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, upper=false, *, stream=None))]
fn cholesky(a: Arr, upper: bool, stream: S) -> Out {
    out(linalg::cholesky(&a.0, upper, pick(stream)))
}

/// Inverses of matrices whose Cholesky factors are given.
///
/// With `l = cholesky(a)` the result is the inverse of `a`, that is of `l @ l.T`.
///
/// Args:
///     a (array): Triangular factors, (..., n, n), of dtype float32 or float64; the other triangle is not
///         read.
///     upper (bool, optional): Whether the factors are upper ones; else lower ones. Default: False.
///
/// Returns:
///     array: Symmetric inverses, of the shape and dtype of `a`.
///
/// Raises:
#[doc = shared!(real_square_errors)]
///     RuntimeError: when evaluated, if an element of a diagonal is zero.
///
/// >>> mx.linalg.cholesky_inv(mx.array([[2.0, 0.0], [0.0, 1.0]]), stream=mx.cpu)
/// array([[0.25, 0],
///        [0, 1]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, upper=false, *, stream=None))]
fn cholesky_inv(a: Arr, upper: bool, stream: S) -> Out {
    out(linalg::cholesky_inv(&a.0, upper, pick(stream)))
}

/// Moore-Penrose inverses of matrices, by their singular values.
///
/// Values that are tiny beside the largest one count as zero, so that singular matrices have such an inverse
/// too.
///
/// Args:
#[doc = shared!(matrices)]
///
/// Returns:
///     array: Of shape (..., n, m), in the dtype of `a`.
///
/// Raises:
#[doc = shared!(matrix_errors)]
///
/// >>> mx.linalg.pinv(mx.array([[2.0, 0.0]]), stream=mx.cpu)
/// array([[0.5],
///        [0]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn pinv(a: Arr, stream: S) -> Out {
    out(linalg::pinv(&a.0, pick(stream)))
}

/// LU factorisations of matrices with exchanged rows: `a = l[p, :] @ u`.
///
/// Rows are exchanged so that the largest element of a column becomes its pivot. With `k = min(m, n)`, `l` is
/// lower triangular with ones on its diagonal and `u` upper triangular.
///
/// Args:
#[doc = shared!(matrices)]
///
/// Returns:
///     tuple[array, array, array]: `p`, (..., m), uint32; `l`, (..., m, k), and `u`, (..., k, n), in the
///         dtype of `a`.
///
/// Raises:
#[doc = shared!(matrix_errors)]
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

/// LU factorisations of matrices in packed form.
///
/// The upper triangle with the diagonal is that of `u`, below it is `l` without its ones. In step i the rows
/// i and `pivots[i]` were exchanged.
///
/// Args:
#[doc = shared!(matrices)]
///
/// Returns:
///     tuple[array, array]: The factors, of the shape and dtype of `a`, and the pivots, (..., min(m, n)),
///         uint32.
///
/// Raises:
#[doc = shared!(matrix_errors)]
///
/// >>> packed, pivots = mx.linalg.lu_factor(mx.array([[0.0, 1.0], [2.0, 0.0]]), stream=mx.cpu)
/// >>> pivots
/// array([1, 1], dtype=uint32)
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn lu_factor(a: Arr, stream: S) -> PyResult<(PyArray, PyArray)> {
    pair(linalg::lu_factor(&a.0, pick(stream)))
}

/// Solutions `x` of the linear equations `a @ x = b`, by LU factorisation.
///
/// The batch axes of both broadcast.
///
/// Args:
#[doc = shared!(square)]
///     b (array): Right sides: a vector (n,), or columns (..., n, k).
///
/// Returns:
///     array: Solutions, in the form of `b`.
///
/// Raises:
#[doc = shared!(real_square_errors)]
///     RuntimeError: when evaluated, if a matrix is singular.
///
/// >>> mx.linalg.solve(mx.array([[2.0, 0.0], [0.0, 4.0]]), mx.array([2.0, 2.0]), stream=mx.cpu)
/// array([1, 0.5], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, b, *, stream=None))]
fn solve(a: Arr, b: Arr, stream: S) -> Out {
    out(linalg::solve(&a.0, &b.0, pick(stream)))
}

/// Solutions `x` of the linear equations `a @ x = b` with triangular matrices.
///
/// The other triangle is not read. The batch axes of both broadcast.
///
/// Args:
#[doc = shared!(square)]
///     b (array): Right sides: a vector (n,), or columns (..., n, k).
///     upper (bool, optional): Whether the matrices are upper triangular; else lower. Default: False.
///
/// Returns:
///     array: Solutions, in the form of `b`.
///
/// Raises:
#[doc = shared!(real_square_errors)]
///     RuntimeError: when evaluated, if an element of a diagonal is zero.
///
/// >>> mx.linalg.solve_triangular(mx.array([[2.0, 9.0], [0.0, 4.0]]), mx.array([2.0, 2.0]), stream=mx.cpu)
/// array([1, 0.5], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, b, *, upper=false, stream=None))]
fn solve_triangular(a: Arr, b: Arr, upper: bool, stream: S) -> Out {
    out(linalg::solve_triangular(&a.0, &b.0, upper, pick(stream)))
}

/// Eigenvalues and eigenvectors of symmetric or Hermitian matrices.
///
/// `a = v @ diag(w) @ v.T` (with the conjugate transpose for complex matrices). The values ascend; the
/// vectors are orthonormal and stand in columns.
///
/// Args:
///     a (array): Matrices, (..., n, n), of dtype float32, float64 or complex64.
///     UPLO (str, optional): Which triangle is read, "L" or "U"; the other one is taken as its mirror image.
///         Default: "L".
///
/// Returns:
///     tuple[array, array]: Real eigenvalues, (..., n), and eigenvectors, (..., n, n), in the dtype of `a`.
///
/// Raises:
#[doc = shared!(square_errors)]
///     ValueError: if the triangle is another one.
///     RuntimeError: when evaluated, if an element is NaN.
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

/// Eigenvalues of symmetric or Hermitian matrices, without their eigenvectors.
///
/// The values are those of `eigh`, in ascending order.
///
/// Args:
///     a (array): Matrices, (..., n, n), of dtype float32, float64 or complex64.
///     UPLO (str, optional): Which triangle is read, "L" or "U"; the other one is taken as its mirror image.
///         Default: "L".
///
/// Returns:
///     array: Real eigenvalues, (..., n).
///
/// Raises:
#[doc = shared!(square_errors)]
///     ValueError: if the triangle is another one.
///     RuntimeError: when evaluated, if an element is NaN.
///
/// >>> mx.linalg.eigvalsh(mx.array([[2.0, 0.0], [0.0, 1.0]]), stream=mx.cpu)
/// array([1, 2], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, UPLO="L", *, stream=None))]
#[allow(non_snake_case)]
fn eigvalsh(a: Arr, UPLO: &str, stream: S) -> Out {
    first(linalg::eigh(&a.0, UPLO, false, pick(stream)))
}

/// Eigenvalues and eigenvectors of square matrices.
///
/// `a @ v[:, i] = w[i] * v[:, i]`. The values come in no particular order, the vectors have length one and
/// stand in columns. For symmetric matrices `eigh` is more precise and cheaper.
///
/// Args:
///     a (array): Matrices, (..., n, n), of dtype float32, float64 or complex64.
///
/// Returns:
///     tuple[array, array]: Eigenvalues, (..., n), and eigenvectors, (..., n, n), both complex64.
///
/// Raises:
#[doc = shared!(square_errors)]
///     RuntimeError: when evaluated, if an element is NaN.
///
/// >>> w, v = mx.linalg.eig(mx.array([[0.0, 1.0], [-1.0, 0.0]]), stream=mx.cpu)
/// >>> mx.abs(w)
/// array([1, 1], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn eig(py: Python<'_>, a: Arr, stream: S) -> PyResult<Bound<'_, PyTuple>> {
    tuple(py, linalg::eig(&a.0, true, pick(stream)))
}

/// Eigenvalues of square matrices, without their eigenvectors.
///
/// The values are those of `eig`, in no particular order. For symmetric matrices `eigvalsh` is more precise
/// and cheaper.
///
/// Args:
///     a (array): Matrices, (..., n, n), of dtype float32, float64 or complex64.
///
/// Returns:
///     array: Eigenvalues, (..., n), complex64.
///
/// Raises:
#[doc = shared!(square_errors)]
///     RuntimeError: when evaluated, if an element is NaN.
///
/// >>> mx.abs(mx.linalg.eigvals(mx.array([[0.0, 1.0], [-1.0, 0.0]]), stream=mx.cpu))
/// array([1, 1], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn eigvals(a: Arr, stream: S) -> Out {
    first(linalg::eig(&a.0, false, pick(stream)))
}

/// Determinants of square matrices, by LU factorisation.
///
/// That of a singular matrix is 0. Determinants of large matrices overflow easily: see `slogdet`. Integers
/// are computed in float32.
///
/// Args:
///     a (array): Matrices, (..., n, n).
///
/// Returns:
///     array: Determinants, in the shape of the batch.
///
/// Raises:
#[doc = shared!(square_errors)]
///
/// >>> mx.linalg.det(mx.array([[2.0, 0.0], [0.0, 4.0]]), stream=mx.cpu)
/// array(8, dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn det(a: Arr, stream: S) -> Out {
    out(linalg::det(&a.0, pick(stream)))
}

/// Signs of the determinants of square matrices, and logarithms of their magnitudes.
///
/// The determinant is `sign * exp(logabsdet)`, without the overflow that `det` has. That of a singular matrix
/// has the sign 0 and the logarithm -inf. Integers are computed in float32.
///
/// Args:
///     a (array): Matrices, (..., n, n).
///
/// Returns:
///     tuple[array, array]: Signs and logarithms, both in the shape of the batch.
///
/// Raises:
#[doc = shared!(square_errors)]
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
    let m = crate::python::submodule(parent, "linalg", "Linear algebra.")?;
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
    crate::python::hide_private(&m)
}
