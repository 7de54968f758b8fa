//! Functions that read and write elements by index arrays.

use pyo3::prelude::*;

use super::array::{Out, PyArray, out};
use super::convert::{Arr, Seq};
use super::device::{S, pick};
use crate::core::layout::normalize_axis;
use crate::core::{Array, Result, Stream};
use crate::ops;

/// One position along an axis, which goes.
fn take_one(a: &Array, i: i64, axis: Option<i64>, s: Stream) -> Result<Array> {
    let Some(axis) = axis else {
        return take_one(&ops::flatten(a, 0, -1, s)?, i, Some(0), s);
    };
    let ax = normalize_axis("take", axis, a.ndim())?;
    let n = a.shape()[ax];
    let at = if i < 0 { i.saturating_add(n) } else { i };
    if a.size() == 0 {
        crate::bail!(Value, "[take] Cannot do a non-empty take from an array with zero elements.");
    }
    if at < 0 || at >= n {
        crate::bail!(Value, "[take] Index {i} is out of bounds for axis {ax} with size {n}.");
    }
    let (mut start, mut stop) = (vec![0; a.ndim()], a.shape().to_vec());
    (start[ax], stop[ax]) = (at, at + 1);
    ops::squeeze(&ops::slice(a, &start, &stop, &vec![1; a.ndim()], s)?, Some(&[ax as i64]), s)
}

/// The elements of `a` at `indices` along `axis` (in the flattened array for None).
///
/// The axes of `indices`, an integer or an array of integers, stand in the place of `axis`. Negative indices
/// count from the end; indices in an array that are out of range are held at the ends of the axis. Raises
/// ValueError for other dtypes and for a non-empty take from nothing, IndexError for a wrong axis.
///
/// >>> mx.take(mx.array([5, 6, 7]), mx.array([2, 0]))
/// array([7, 5], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, indices, axis=None, *, stream=None))]
fn take(a: Arr, indices: &Bound<'_, PyAny>, axis: Option<i64>, stream: S) -> Out {
    let s = pick(stream);
    match indices.extract::<i64>() {
        Ok(i) if !indices.is_instance_of::<PyArray>() => out(take_one(&a.0, i, axis, s)),
        _ => out(ops::take(&a.0, &indices.extract::<Arr>()?.0, axis, s)),
    }
}

/// The elements of `a` along `axis` at `indices`, which have as many axes as `a`.
///
/// The other axes are broadcast against each other; the result has the length of `indices` along `axis`. For
/// None `a` is flattened and `indices` have one axis. Negative indices count from the end; others out of range
/// are held at the ends of the axis. Raises ValueError for wrong shapes, RuntimeError for indices that are not
/// integers, IndexError for a wrong axis.
///
/// >>> mx.take_along_axis(mx.array([[5, 6], [7, 8]]), mx.array([[1], [0]]), axis=1)
/// array([[6],
///        [7]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, indices, axis=-1, *, stream=None))]
fn take_along_axis(a: Arr, indices: Arr, axis: Option<i64>, stream: S) -> Out {
    out(ops::take_along_axis(&a.0, &indices.0, axis, pick(stream)))
}

/// A copy of `a` with `values` written along `axis` at `indices`, which have as many axes as `a`.
///
/// Indices and values are broadcast on the other axes; values are converted to the dtype of `a`. For None the
/// positions are those of the flattened array. Negative indices count from the end; values for others out of
/// range are dropped, and of several values for one element the last one stays. Raises ValueError for wrong
/// shapes, RuntimeError for indices that are not integers, IndexError for a wrong axis.
///
/// >>> mx.put_along_axis(mx.array([[5, 6], [7, 8]]), mx.array([[1], [0]]), mx.array(9), axis=1)
/// array([[5, 9],
///        [9, 8]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, indices, values, axis=None, *, stream=None))]
fn put_along_axis(a: Arr, indices: Arr, values: Arr, axis: Option<i64>, stream: S) -> Out {
    out(ops::put_along_axis(&a.0, &indices.0, &values.0, axis, pick(stream)))
}

/// The part of `a` of shape `slice_size` that starts at `start_indices`, an array, on `axes`, and at 0 on the
/// other axes.
///
/// Negative starts count from the end; a start is held where the part fits into `a`. Raises ValueError for a
/// part that is larger than `a`, for repeated axes and for starts that are not integers, IndexError for a wrong
/// axis.
///
/// >>> mx.slice(mx.array([5, 6, 7]), mx.array([1]), (0,), (2,))
/// array([6, 7], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, start_indices, axes, slice_size, *, stream=None))]
fn slice(a: Arr, start_indices: Arr, axes: Seq, slice_size: Seq, stream: S) -> Out {
    out(ops::slice_at(&a.0, &start_indices.0, &axes.0, &slice_size.0, pick(stream)))
}

/// A copy of `a` with `update` written from `start_indices`, an array, on `axes`, and from 0 on the other axes.
///
/// The update is converted to the dtype of `a`; axes that it lacks have length one. Negative starts count from
/// the end; a start is held where the update fits into `a`. Raises ValueError for an update that is larger than
/// `a`, for repeated axes and for starts that are not integers, IndexError for a wrong axis.
///
/// >>> mx.slice_update(mx.zeros(3), mx.array([6, 7]), mx.array([1]), (0,))
/// array([0, 6, 7], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, update, start_indices, axes, *, stream=None))]
fn slice_update(a: Arr, update: Arr, start_indices: Arr, axes: Seq, stream: S) -> Out {
    out(ops::slice_update_at(&a.0, &update.0, &start_indices.0, &axes.0, pick(stream)))
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(take, m)?)?;
    m.add_function(wrap_pyfunction!(take_along_axis, m)?)?;
    m.add_function(wrap_pyfunction!(put_along_axis, m)?)?;
    m.add_function(wrap_pyfunction!(slice, m)?)?;
    m.add_function(wrap_pyfunction!(slice_update, m)?)
}
