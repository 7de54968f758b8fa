//! Diagonals of matrices.

use pyo3::prelude::*;

use crate::ops;
use crate::python::array::arguments::Arr;
use crate::python::array::dtype::D;
use crate::python::array::{Out, out};
use crate::python::runtime::device::{S, pick};

/// A diagonal of a matrix, or the matrix that has a vector on its diagonal.
///
/// Args:
///     a (array): A vector (n,) or a matrix (m, n).
///     k (int, optional): Which diagonal: 0 the main one, positive ones above it, negative ones below.
///         Default: 0.
///
/// Returns:
///     array: For a vector the square matrix of size `n + abs(k)` with zeros elsewhere; for a matrix the
///         vector of its diagonal, which may be empty. In the dtype of `a`.
///
/// Raises:
///     ValueError: if `a` has neither one nor two axes.
///
/// >>> mx.diag(mx.array([1, 2]))
/// array([[1, 0],
///        [0, 2]], dtype=int32)
/// >>> mx.diag(mx.array([[1, 2], [3, 4]]), k=1)
/// array([2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, k=0, *, stream=None))]
fn diag(a: Arr, k: i32, stream: S) -> Out {
    out(ops::diag(&a.0, k.into(), pick(stream)))
}

/// Diagonals of the matrices over two axes.
///
/// The elements `(i, i + offset)` of each matrix come along a new last axis; the other axes keep their order
/// in front of it.
///
/// Args:
///     a (array): Matrices, with at least two axes.
///     offset (int, optional): Which diagonal: 0 the main one, positive ones above it, negative ones below.
///         Default: 0.
///     axis1 (int, optional): Axis of the rows; a negative one counts from the last. Default: 0.
///     axis2 (int, optional): Axis of the columns. Default: 1.
///
/// Returns:
///     array: Without the two axes and with the diagonal last, in the dtype of `a`.
///
/// Raises:
///     ValueError: if there are fewer than two axes, or both are the same.
///     IndexError: if an axis is out of range.
///
/// >>> mx.diagonal(mx.array([[1, 2], [3, 4]]))
/// array([1, 4], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, offset=0, axis1=0, axis2=1, stream=None))]
fn diagonal(a: Arr, offset: i32, axis1: i64, axis2: i64, stream: S) -> Out {
    out(ops::diagonal(&a.0, offset.into(), axis1, axis2, pick(stream)))
}

/// Sums of diagonals of the matrices over two axes.
///
/// Of no elements the sum is 0. Bool and narrow integers are summed as 32-bit integers, as by `sum`.
///
/// Args:
///     a (array): Matrices, with at least two axes.
///     offset (int, optional): Which diagonal: 0 the main one, positive ones above it, negative ones below.
///         Default: 0.
///     axis1 (int, optional): Axis of the rows; a negative one counts from the last. Default: 0.
///     axis2 (int, optional): Axis of the columns. Default: 1.
///     dtype (Dtype, optional): Dtype that elements are converted to first. Default: that of `a`.
///
/// Returns:
///     array: Of the shape of `a` without the two axes.
///
/// Raises:
///     ValueError: if there are fewer than two axes, or both are the same.
///     IndexError: if an axis is out of range.
///
/// >>> mx.trace(mx.array([[1, 2], [3, 4]]))
/// array(5, dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, offset=0, axis1=0, axis2=1, dtype=None, *, stream=None))]
fn trace(a: Arr, offset: i32, axis1: i64, axis2: i64, dtype: Option<D>, stream: S) -> Out {
    out(ops::trace(&a.0, offset.into(), axis1, axis2, dtype.map(|d| d.0), pick(stream)))
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(diag, m)?)?;
    m.add_function(wrap_pyfunction!(diagonal, m)?)?;
    m.add_function(wrap_pyfunction!(trace, m)?)
}
