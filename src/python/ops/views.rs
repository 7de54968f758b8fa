//! Functions that change shape, order or dtype without arithmetic, and those that join, split, pad and repeat.

use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::joining::arrays;
use crate::core::layout::broadcast_shapes as join_shapes;
use crate::core::{Array, Shape};
use crate::ops::{self};
use crate::python::array::arguments::{Arr, Ints, Like, Seq, WideSeq};
use crate::python::array::dtype::D;
use crate::python::array::{Out, PyArray, out};
use crate::python::runtime::device::{S, pick};

/// The elements of an array in row-major order in another shape.
///
/// No data is copied where the elements lie in memory in that order; else the result is a copy.
///
/// Args:
///     a (array): Elements, of any shape.
///     shape (Sequence[int]): Lengths of the new axes, whose product is the number of elements. One of them
///         may be -1 and is then inferred from the others.
///
/// Returns:
///     array: Of the new shape, in the dtype of `a`.
///
/// Raises:
///     ValueError: if the shape has another number of elements, or more than one -1.
///
/// >>> mx.reshape(mx.arange(4), (2, -1))
/// array([[0, 1],
///        [2, 3]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, shape, *, stream=None))]
fn reshape(a: Arr, shape: Seq, stream: S) -> Out {
    out(ops::reshape(&a.0, &shape.0, pick(stream)))
}

/// Joins neighbouring axes into one, in row-major order.
///
/// An array without axes becomes one of length 1. `unflatten` is the inverse.
///
/// Args:
///     a (array): Elements, of any shape.
///     start_axis (int, optional): First axis to join; a negative one counts from the last. Default: 0.
///     end_axis (int, optional): Last axis to join, itself included. Default: -1.
///
/// Returns:
///     array: With one axis in the place of those that were joined, as long as the product of their lengths.
///
/// Raises:
///     ValueError: if `start_axis` lies behind `end_axis`.
///
/// >>> mx.flatten(mx.zeros((2, 3, 4)), 1).shape
/// (2, 12)
#[pyfunction]
#[pyo3(signature = (a, /, start_axis=0, end_axis=-1, *, stream=None))]
pub(super) fn flatten(a: Arr, start_axis: i64, end_axis: i64, stream: S) -> Out {
    out(ops::flatten(&a.0, start_axis, end_axis, pick(stream)))
}

/// Splits one axis into several, in row-major order: the inverse of `flatten`.
///
/// Args:
///     a (array): Elements, with at least one axis.
///     axis (int): Axis to split; a negative one counts from the last.
///     shape (Sequence[int]): Lengths of the new axes, whose product is the length of `axis`. One of them may
///         be -1 and is then inferred from the others.
///
/// Returns:
///     array: With the axes of `shape` in the place of `axis`, in the dtype of `a`.
///
/// Raises:
///     ValueError: if the lengths do not multiply to that of the axis, or more than one of them is -1.
///     IndexError: if the axis is out of range.
///
/// >>> mx.unflatten(mx.zeros((2, 12)), 1, (3, 4)).shape
/// (2, 3, 4)
#[pyfunction]
#[pyo3(signature = (a, /, axis, shape, *, stream=None))]
fn unflatten(a: Arr, axis: i64, shape: Seq, stream: S) -> Out {
    out(ops::unflatten(&a.0, axis, &shape.0, pick(stream)))
}

/// The array with its axes in another order.
///
/// Axis i of the result is axis `axes[i]` of `a`. Only the strides change: no data is copied.
///
/// Args:
///     a (array): Elements, of any shape.
///     axes (Sequence[int], optional): Every axis of `a` once, in the new order; negative ones count from the
///         last. Default: None, the reverse order.
///
/// Returns:
///     array: With permuted axes, in the dtype of `a`.
///
/// Raises:
///     ValueError: if the number of axes is another one or an axis is named twice.
///     IndexError: if an axis is out of range.
///
/// >>> mx.transpose(mx.zeros((2, 3, 4)), (1, 0, 2)).shape
/// (3, 2, 4)
#[pyfunction]
#[pyo3(signature = (a, /, axes=None, *, stream=None))]
fn transpose(a: Arr, axes: Option<Seq>, stream: S) -> Out {
    out(ops::transpose(&a.0, axes.as_ref().map(|x| &x.0[..]), pick(stream)))
}

/// The array with its axes in another order: the array API's name of `transpose`.
///
/// Axis i of the result is axis `axes[i]` of `a`. Only the strides change: no data is copied.
///
/// Args:
///     a (array): Elements, of any shape.
///     axes (Sequence[int], optional): Every axis of `a` once, in the new order; negative ones count from the
///         last. Default: None, the reverse order.
///
/// Returns:
///     array: With permuted axes, in the dtype of `a`.
///
/// Raises:
///     ValueError: if the number of axes is another one or an axis is named twice.
///     IndexError: if an axis is out of range.
///
/// >>> mx.permute_dims(mx.zeros((2, 3))).shape
/// (3, 2)
#[pyfunction]
#[pyo3(signature = (a, /, axes=None, *, stream=None))]
fn permute_dims(a: Arr, axes: Option<Seq>, stream: S) -> Out {
    transpose(a, axes, stream)
}

/// The array with its last two axes swapped, that is every matrix transposed.
///
/// Only the strides change: no data is copied. The property `mT` of arrays.
///
/// Args:
///     a (array): Matrices, with at least two axes; those before the last two are a batch.
///
/// Returns:
///     array: Of shape (..., n, m) for `a` of shape (..., m, n), in its dtype.
///
/// Raises:
///     ValueError: if there are fewer than two axes.
///
/// >>> mx.matrix_transpose(mx.zeros((2, 3, 4))).shape
/// (2, 4, 3)
#[pyfunction]
#[pyo3(signature = (a, /, *, stream=None))]
pub fn matrix_transpose(a: Arr, stream: S) -> Out {
    if a.0.ndim() < 2 {
        let text = "[matrix_transpose] Input array must have at least 2 dimensions.";
        return Err(PyValueError::new_err(text));
    }
    out(ops::swapaxes(&a.0, -1, -2, pick(stream)))
}

/// The array with two axes swapped.
///
/// Only the strides change: no data is copied. See `transpose` for other orders and `moveaxis` to keep that
/// of the others.
///
/// Args:
///     a (array): Elements, of any shape.
///     axis1 (int): One axis; a negative one counts from the last.
///     axis2 (int): The other axis, which may be the same.
///
/// Returns:
///     array: With the two axes swapped, in the dtype of `a`.
///
/// Raises:
///     IndexError: if an axis is out of range.
///
/// >>> mx.swapaxes(mx.zeros((2, 3, 4)), 0, 2).shape
/// (4, 3, 2)
#[pyfunction]
#[pyo3(signature = (a, /, axis1, axis2, *, stream=None))]
fn swapaxes(a: Arr, axis1: i64, axis2: i64, stream: S) -> Out {
    out(ops::swapaxes(&a.0, axis1, axis2, pick(stream)))
}

/// The array with one axis moved to another place; the others keep their order.
///
/// Only the strides change: no data is copied.
///
/// Args:
///     a (array): Elements, of any shape.
///     source (int): Axis to move; a negative one counts from the last.
///     destination (int): Its place in the result; a negative one counts from the last.
///
/// Returns:
///     array: With permuted axes, in the dtype of `a`.
///
/// Raises:
///     IndexError: if an axis is out of range.
///
/// >>> mx.moveaxis(mx.zeros((2, 3, 4)), 0, 2).shape
/// (3, 4, 2)
#[pyfunction]
#[pyo3(signature = (a, /, source, destination, *, stream=None))]
fn moveaxis(a: Arr, source: i64, destination: i64, stream: S) -> Out {
    out(ops::moveaxis(&a.0, source, destination, pick(stream)))
}

/// The array with new axes of length one.
///
/// No data is copied. Indexing with None does the same: `a[:, None]`.
///
/// Args:
///     a (array): Elements, of any shape.
///     axis (int | Sequence[int]): Where the new axes are in the result; negative positions count from its
///         last axis.
///
/// Returns:
///     array: With one more axis for each position, in the dtype of `a`.
///
/// Raises:
///     ValueError: if a position is named twice.
///     IndexError: if a position is out of range.
///
/// >>> mx.expand_dims(mx.zeros(3), 0).shape
/// (1, 3)
/// >>> mx.expand_dims(mx.zeros(3), (0, -1)).shape
/// (1, 3, 1)
#[pyfunction]
#[pyo3(signature = (a, /, axis, *, stream=None))]
fn expand_dims(a: Arr, axis: Ints, stream: S) -> Out {
    out(ops::expand_dims(&a.0, &axis.list, pick(stream)))
}

/// The array without axes of length one.
///
/// No data is copied. `expand_dims` is the inverse.
///
/// Args:
///     a (array): Elements, of any shape.
///     axis (int | Sequence[int], optional): Axes to remove, each of length one; negative ones count from the
///         last. Default: None, all axes of length one.
///
/// Returns:
///     array: Without these axes, in the dtype of `a`.
///
/// Raises:
///     ValueError: if an axis has another length or is named twice.
///     IndexError: if an axis is out of range.
///
/// >>> mx.squeeze(mx.zeros((1, 3, 1))).shape
/// (3,)
/// >>> mx.squeeze(mx.zeros((1, 3, 1)), 0).shape
/// (3, 1)
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, *, stream=None))]
pub fn squeeze(a: Arr, axis: Option<Ints>, stream: S) -> Out {
    out(ops::squeeze(&a.0, axis.as_ref().map(|x| &x.list[..]), pick(stream)))
}

/// The array repeated along new axes and along axes of length one.
///
/// No data is copied: the repeated elements are the same in memory. Axes are matched from the last one on, as
/// in arithmetic.
///
/// Args:
///     a (array | number): Elements, of a shape that broadcasts to `shape`.
///     shape (int | Sequence[int]): Shape of the result.
///
/// Returns:
///     array: Of that shape, in the dtype of `a`.
///
/// Raises:
///     ValueError: if the array does not broadcast to the shape.
///
/// >>> mx.broadcast_to(mx.array([1, 2]), (2, 2))
/// array([[1, 2],
///        [1, 2]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, shape, *, stream=None))]
fn broadcast_to(a: Like, shape: Ints, stream: S) -> Out {
    out(ops::broadcast_to(&a.0, &shape.list, pick(stream)))
}

pub(super) fn wrap(list: Vec<Array>) -> Vec<PyArray> {
    list.into_iter().map(PyArray::new).collect()
}

/// Arrays broadcast to their common shape.
///
/// Axes are matched from the last one on; those of length one, and those that an array lacks, are repeated
/// without a copy.
///
/// Args:
///     arrays (array): Any number of arrays.
///
/// Returns:
///     list[array]: The arrays in the common shape, each in its dtype.
///
/// Raises:
///     ValueError: if the shapes do not broadcast.
///
/// >>> [a.shape for a in mx.broadcast_arrays(mx.zeros(3), mx.zeros((2, 1)))]
/// [(2, 3), (2, 3)]
#[pyfunction]
#[pyo3(signature = (*arrays, stream=None))]
fn broadcast_arrays(arrays: &Bound<'_, PyTuple>, stream: S) -> PyResult<Vec<PyArray>> {
    Ok(wrap(ops::broadcast_arrays(&self::arrays(arrays)?, pick(stream))?))
}

/// The shape that arrays of the given shapes broadcast to.
///
/// Axes are matched from the last one on. Two lengths fit if they are equal or one of them is 1; missing axes
/// count as 1.
///
/// Args:
///     shapes (Sequence[int]): Any number of shapes.
///
/// Returns:
///     tuple[int, ...]: The common shape.
///
/// Raises:
///     ValueError: if the shapes do not broadcast.
///
/// >>> mx.broadcast_shapes((3,), (2, 1))
/// (2, 3)
#[pyfunction]
#[pyo3(signature = (*shapes))]
fn broadcast_shapes<'py>(shapes: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyTuple>> {
    if shapes.is_empty() {
        return Err(PyValueError::new_err("[broadcast_shapes] Must provide at least one shape."));
    }
    let mut all = Shape::new();
    for s in shapes {
        let shape: Seq =
            s.extract().map_err(|e: PyErr| match e.is_instance_of::<PyOverflowError>(s.py()) {
                true => e,
                false => PyValueError::new_err(
                    "[broadcast_shapes] Expects a sequence of shapes (tuples or lists of ints).",
                ),
            })?;
        all = join_shapes("broadcast_shapes", &all, &shape.0)?;
    }
    PyTuple::new(shapes.py(), all)
}

fn atleast<'py>(n: usize, arys: &Bound<'py, PyTuple>, stream: S) -> PyResult<Bound<'py, PyAny>> {
    let s = pick(stream);
    let mut list = Vec::with_capacity(arys.len());
    for a in arrays(arys)? {
        list.push(PyArray::new(ops::at_least_nd(&a, n, s)?));
    }
    if list.len() == 1 {
        return Ok(Bound::new(arys.py(), list.remove(0))?.into_any());
    }
    Ok(PyList::new(arys.py(), list)?.into_any())
}

/// Arrays with at least one axis.
///
/// An array without axes becomes one of length 1; all others stay as they are. No data is copied.
///
/// Args:
///     arys (array): One array or several.
///
/// Returns:
///     array | list[array]: The array if there is one, else a list of all.
///
/// >>> mx.atleast_1d(mx.array(1)).shape
/// (1,)
#[pyfunction]
#[pyo3(signature = (*arys, stream=None))]
fn atleast_1d<'py>(arys: &Bound<'py, PyTuple>, stream: S) -> PyResult<Bound<'py, PyAny>> {
    atleast(1, arys, stream)
}

/// Arrays with at least two axes.
///
/// New axes of length one come in front, so that a vector becomes a row; arrays with two axes or more stay as
/// they are. No data is copied.
///
/// Args:
///     arys (array): One array or several.
///
/// Returns:
///     array | list[array]: The array if there is one, else a list of all.
///
/// >>> mx.atleast_2d(mx.array([1, 2])).shape
/// (1, 2)
#[pyfunction]
#[pyo3(signature = (*arys, stream=None))]
fn atleast_2d<'py>(arys: &Bound<'py, PyTuple>, stream: S) -> PyResult<Bound<'py, PyAny>> {
    atleast(2, arys, stream)
}

/// Arrays with at least three axes.
///
/// A vector (n,) becomes (1, n, 1) and a matrix (m, n) becomes (m, n, 1); arrays with three axes or more stay
/// as they are. No data is copied.
///
/// Args:
///     arys (array): One array or several.
///
/// Returns:
///     array | list[array]: The array if there is one, else a list of all.
///
/// >>> mx.atleast_3d(mx.array([1, 2])).shape
/// (1, 2, 1)
#[pyfunction]
#[pyo3(signature = (*arys, stream=None))]
fn atleast_3d<'py>(arys: &Bound<'py, PyTuple>, stream: S) -> PyResult<Bound<'py, PyAny>> {
    atleast(3, arys, stream)
}

/// The flattened array seen with a shape and strides of its own.
///
/// Element (i, j, ...) of the result is element `offset + i * strides[0] + j * strides[1] + ...` of the
/// flattened array. Elements may appear several times; gradients of such elements are added up.
///
/// Args:
///     a (array): Elements, of any shape.
///     shape (Sequence[int], optional): Shape of the result. Default: None, that of `a`.
///     strides (Sequence[int], optional): Step of each axis in elements. Default: None, row-major order of
///         `shape`.
///     offset (int, optional): Position of the first element. Default: 0.
///
/// Returns:
///     array: Of shape `shape`, in the dtype of `a`.
///
/// Raises:
///     ValueError: if there are not as many strides as axes, or a position lies outside the array.
///
/// >>> mx.as_strided(mx.arange(4), (3, 2), (1, 1))
/// array([[0, 1],
///        [1, 2],
///        [2, 3]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, shape=None, strides=None, offset=0, *, stream=None))]
fn as_strided(a: Arr, shape: Option<Seq>, strides: Option<WideSeq>, offset: i64, stream: S) -> Out {
    let shape = shape.as_ref().map(|x| &x.0[..]);
    let strides = strides.as_ref().map(|x| &x.0[..]);
    out(ops::as_strided(&a.0, shape, strides, offset, pick(stream)))
}

/// The bytes of an array seen as another dtype.
///
/// Nothing is converted. Where the new elements are smaller or larger, the last axis gets longer or shorter
/// by the same factor. For conversion of values see `astype`. No gradient flows.
///
/// Args:
///     a (array | number): Elements, of any shape.
///     dtype (Dtype): What the bytes are seen as.
///
/// Returns:
///     array: Of the shape of `a` but for its last axis.
///
/// Raises:
///     ValueError: if the bytes of the last axis are no multiple of the new element, or `a` has no axes and
///         the sizes of the elements differ.
///
/// >>> mx.view(mx.array([1.0]), mx.int32)
/// array([1065353216], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, dtype, stream=None))]
fn view(a: Like, dtype: D, stream: S) -> Out {
    out(ops::view(&a.0, dtype.0, pick(stream)))
}

/// The array converted to another dtype.
///
/// Floats become integers by dropping their fraction, complex numbers real by dropping their imaginary part,
/// and what is not zero becomes True. Wider integers keep their lowest bits. Floats that do not fit an
/// integer dtype give unspecified values. Gradients are converted back.
///
/// Args:
///     a (array): Elements, of any shape.
///     dtype (Dtype): Dtype of the result.
///
/// Returns:
///     array: Of the shape of `a`; `a` itself where it has the dtype already.
///
/// >>> mx.astype(mx.array([1.7, -1.7]), mx.int32)
/// array([1, -1], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, dtype, *, stream=None))]
fn astype(a: Arr, dtype: D, stream: S) -> Out {
    out(ops::astype(&a.0, dtype.0, pick(stream)))
}

/// The array with its elements one behind the other in memory.
///
/// Operations take arrays of every layout; this is for those who look at memory, as user-written kernels do.
/// An array that lies so already is not copied, unless it is a part of a much larger one (more than 16 KiB larger):
/// the rest can be freed then.
///
/// Args:
///     a (array): Elements, of any shape and layout.
///     allow_col_major (bool, optional): Whether column-major order will do as well as row-major order.
///         Default: False.
///
/// Returns:
///     array: The same elements, shape and dtype.
///
/// >>> mx.contiguous(mx.zeros((2, 3)).T).shape
/// (3, 2)
#[pyfunction]
#[pyo3(signature = (a, /, allow_col_major=false, *, stream=None))]
fn contiguous(a: Arr, allow_col_major: bool, stream: S) -> Out {
    out(ops::contiguous_alone(&a.0, allow_col_major, pick(stream)))
}

/// The elements shifted along axes; those that leave at one end enter at the other.
///
/// Args:
///     a (array): Elements, of any shape.
///     shift (int | Sequence[int]): How many places towards the end; negative for the other way. Several
///         numbers go with the axes one by one, and add up where there is only one axis.
///     axis (int | Sequence[int], optional): Axes to shift along; negative ones count from the last. Default:
///         None, the flattened array, whose shape is restored.
///
/// Returns:
///     array: Of the shape and dtype of `a`.
///
/// Raises:
///     IndexError: if an axis is out of range.
///     ValueError: if there are fewer shifts than axes.
///
/// >>> mx.roll(mx.array([1, 2, 3]), 1)
/// array([3, 1, 2], dtype=int32)
/// >>> mx.roll(mx.array([[1, 2], [3, 4]]), 1, axis=0)
/// array([[3, 4],
///        [1, 2]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, shift, axis=None, *, stream=None))]
fn roll(a: Arr, shift: Ints, axis: Option<Ints>, stream: S) -> Out {
    let s = pick(stream);
    let Some(axis) = axis else { return out(ops::roll(&a.0, &shift.list, None, s)) };
    let shifts = match (shift.single, axis.single) {
        (true, _) => vec![shift.list[0]; axis.list.len()],
        (false, true) => vec![shift.list.iter().sum()],
        (false, false) => shift.list.to_vec(),
    };
    out(ops::roll(&a.0, &shifts, Some(&axis.list), s))
}

/// The elements in reverse order along one axis, several, or all.
///
/// No data is copied: `a[::-1]` does the same for the first axis.
///
/// Args:
///     a (array): Elements, of any shape.
///     axis (int | Sequence[int], optional): Axes to reverse; negative ones count from the last. Default:
///         None, all axes.
///
/// Returns:
///     array: Of the shape and dtype of `a`.
///
/// Raises:
///     IndexError: if an axis is out of range.
///     ValueError: if an axis is named twice.
///
/// >>> mx.flip(mx.array([[1, 2], [3, 4]]), axis=1)
/// array([[2, 1],
///        [4, 3]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, *, stream=None))]
fn flip(a: Arr, axis: Option<Ints>, stream: S) -> Out {
    out(ops::flip(&a.0, axis.as_ref().map(|x| &x.list[..]), pick(stream)))
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    for f in [
        wrap_pyfunction!(reshape, m)?,
        wrap_pyfunction!(flatten, m)?,
        wrap_pyfunction!(unflatten, m)?,
        wrap_pyfunction!(transpose, m)?,
        wrap_pyfunction!(permute_dims, m)?,
        wrap_pyfunction!(matrix_transpose, m)?,
        wrap_pyfunction!(swapaxes, m)?,
        wrap_pyfunction!(moveaxis, m)?,
        wrap_pyfunction!(expand_dims, m)?,
        wrap_pyfunction!(squeeze, m)?,
        wrap_pyfunction!(broadcast_to, m)?,
        wrap_pyfunction!(broadcast_arrays, m)?,
        wrap_pyfunction!(broadcast_shapes, m)?,
        wrap_pyfunction!(atleast_1d, m)?,
        wrap_pyfunction!(atleast_2d, m)?,
        wrap_pyfunction!(atleast_3d, m)?,
        wrap_pyfunction!(as_strided, m)?,
        wrap_pyfunction!(view, m)?,
        wrap_pyfunction!(astype, m)?,
        wrap_pyfunction!(contiguous, m)?,
        wrap_pyfunction!(roll, m)?,
        wrap_pyfunction!(flip, m)?,
    ] {
        m.add_function(f)?;
    }
    Ok(())
}
