//! Diagonals of matrices.

use pyo3::prelude::*;

use super::array::{Out, out};
use super::convert::Arr;
use super::device::{S, pick};
use super::dtype::D;
use crate::ops;

/// A matrix with the vector `a` on diagonal `k`, or diagonal `k` of the matrix `a`. Raises ValueError for other
/// ranks.
///
/// >>> mx.diag(mx.array([1, 2]))
/// array([[1, 0],
///        [0, 2]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, k=0, *, stream=None))]
fn diag(a: Arr, k: i32, stream: S) -> Out {
    out(ops::diag(&a.0, k.into(), pick(stream)))
}

/// The elements `(i, i + offset)` of the matrices over `axis1` and `axis2`, as a new last axis. Raises ValueError
/// for arrays of fewer than two axes, IndexError for an axis out of range.
///
/// >>> mx.diagonal(mx.array([[1, 2], [3, 4]]))
/// array([1, 4], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, offset=0, axis1=0, axis2=1, stream=None))]
fn diagonal(a: Arr, offset: i32, axis1: i64, axis2: i64, stream: S) -> Out {
    out(ops::diagonal(&a.0, offset.into(), axis1, axis2, pick(stream)))
}

/// Sum of a diagonal (see `diagonal`) over the matrices of `axis1` and `axis2`, converted to `dtype` first. Bool
/// and narrow integers are summed as 32-bit integers.
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
