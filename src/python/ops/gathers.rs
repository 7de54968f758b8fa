//! Functions that read and write elements by index arrays.

use pyo3::prelude::*;
use smallvec::SmallVec;

use crate::core::layout::normalize_axis;
use crate::core::{Array, Result, Stream};
use crate::ops;
use crate::ops::index::subscript::{self, Item, Items};
use crate::python::array::arguments::{Arr, Seq};
use crate::python::array::{Out, PyArray, out};
use crate::python::runtime::device::{S, pick};

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
    let mut items: Items = SmallVec::from_elem(Item::Slice(None, None, 1), ax);
    items.push(Item::Int(i));
    subscript::get(a, &items, &[], s)
}

/// Elements picked by index along an axis or in the flattened array.
///
/// Negative indices count from the end. Indices in an array are not checked while computing: those out of
/// range are held at the ends of the axis. The gradient adds up where an element is picked several times, and
/// no gradient flows to indices.
///
/// Args:
///     a (array): Where elements are picked from.
///     indices (int | array): Positions, of any shape and an integer dtype.
///     axis (int, optional): Axis of the positions; a negative one counts from the last. Default: None, the
///         flattened array.
///
/// Returns:
///     array: Of the shape of `a` with the axes of `indices` in the place of `axis`, in the dtype of `a`.
///
/// Raises:
///     ValueError: if the indices are not integers, or elements are taken from an empty axis.
///     IndexError: if the axis is out of range.
///
/// >>> mx.take(mx.array([5, 6, 7]), mx.array([2, 0]))
/// array([7, 5], dtype=int32)
/// >>> mx.take(mx.array([[1, 2], [3, 4]]), 1, axis=1)
/// array([2, 4], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, indices, axis=None, *, stream=None))]
fn take(a: Arr, indices: &Bound<'_, PyAny>, axis: Option<i64>, stream: S) -> Out {
    let s = pick(stream);
    match indices.extract::<i64>() {
        Ok(i) if !indices.is_instance_of::<PyArray>() => out(take_one(&a.0, i, axis, s)),
        _ => out(ops::take(&a.0, &indices.extract::<Arr>()?.0, axis, s)),
    }
}

/// Elements picked along an axis by indices that differ from place to place.
///
/// Element (i, j) of the result is `a[i, indices[i, j]]` for the axis 1 of matrices: what `argsort` and
/// `argmax` return can be applied so. Negative indices count from the end; others out of range are held at
/// the ends of the axis. No gradient flows to indices.
///
/// Args:
///     a (array): Where elements are picked from.
///     indices (array): Positions of an integer dtype, with as many axes as `a`; axes but `axis` broadcast.
///     axis (int, optional): Axis of the positions; a negative one counts from the last. None takes the
///         flattened array and indices of one axis. Default: -1.
///
/// Returns:
///     array: Of the broadcast shape with the length of `indices` along `axis`, in the dtype of `a`.
///
/// Raises:
///     ValueError: if the shapes do not fit.
///     RuntimeError: if the indices are not integers.
///     IndexError: if the axis is out of range.
///
/// >>> mx.take_along_axis(mx.array([[5, 6], [7, 8]]), mx.array([[1], [0]]), axis=1)
/// array([[6],
///        [7]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, indices, axis=-1, *, stream=None))]
fn take_along_axis(a: Arr, indices: Arr, axis: Option<i64>, stream: S) -> Out {
    out(ops::take_along_axis(&a.0, &indices.0, axis, pick(stream)))
}

/// A copy of an array with values written along an axis at indices that differ from place to place.
///
/// The counterpart of `take_along_axis`. Negative indices count from the end; values for others out of range
/// are dropped, and of several values for one element the last one stays. Gradients flow to `a`, where it was
/// not overwritten, and to the values.
///
/// Args:
///     a (array): What is copied.
///     indices (array): Positions of an integer dtype, with as many axes as `a`; axes but `axis` broadcast.
///     values (array): What is written, broadcast to the shape of the indices and converted to the dtype of
///         `a`.
///     axis (int, optional): Axis of the positions; a negative one counts from the last. Default: None, the
///         flattened array.
///
/// Returns:
///     array: Of the shape and dtype of `a`.
///
/// Raises:
///     ValueError: if the shapes do not fit.
///     RuntimeError: if the indices are not integers.
///     IndexError: if the axis is out of range.
///
/// >>> mx.put_along_axis(mx.array([[5, 6], [7, 8]]), mx.array([[1], [0]]), mx.array(9), axis=1)
/// array([[5, 9],
///        [9, 8]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, indices, values, axis=None, *, stream=None))]
fn put_along_axis(a: Arr, indices: Arr, values: Arr, axis: Option<i64>, stream: S) -> Out {
    out(ops::put_along_axis(&a.0, &indices.0, &values.0, axis, pick(stream)))
}

/// A part of an array that begins where another array says.
///
/// The start may be computed without being known when the graph is built, and the size is fixed. A negative
/// start counts from the end, and a start is held where the part fits. For constant bounds index: `a[1:3]`.
///
/// Args:
///     a (array): Where the part is taken from.
///     start_indices (array): Where it begins, one integer for each of `axes`.
///     axes (Sequence[int]): Axes that the starts belong to; the part begins at 0 on all others.
///     slice_size (Sequence[int]): Shape of the part, one length for each axis of `a`.
///
/// Returns:
///     array: Of shape `slice_size`, in the dtype of `a`.
///
/// Raises:
///     ValueError: if the part is larger than `a`, an axis is named twice, or the starts are not integers.
///     IndexError: if an axis is out of range.
///
/// >>> mx.slice(mx.array([5, 6, 7]), mx.array([1]), (0,), (2,))
/// array([6, 7], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, start_indices, axes, slice_size, *, stream=None))]
fn slice(a: Arr, start_indices: Arr, axes: Seq, slice_size: Seq, stream: S) -> Out {
    out(ops::slice_at(&a.0, &start_indices.0, &axes.0, &slice_size.0, pick(stream)))
}

/// A copy of an array with a part of it replaced, where another array says.
///
/// The start may be computed without being known when the graph is built. A negative start counts from the
/// end, and a start is held where the part fits. Gradients flow to the update and to what was not replaced.
///
/// Args:
///     a (array): What is copied.
///     update (array): What is written, converted to the dtype of `a`; axes that it lacks in front have
///         length one.
///     start_indices (array): Where it begins, one integer for each of `axes`.
///     axes (Sequence[int]): Axes that the starts belong to; the part begins at 0 on all others.
///
/// Returns:
///     array: Of the shape and dtype of `a`.
///
/// Raises:
///     ValueError: if the update is larger than `a`, an axis is named twice, or the starts are not integers.
///     IndexError: if an axis is out of range.
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
