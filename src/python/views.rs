//! Functions that change shape, order or dtype without arithmetic, and those that join, split, pad and repeat.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::array::{Out, PyArray, out};
use super::convert::{Arr, Ints, Like, Seq, is_sequence, to_array, type_name};
use super::device::{S, pick};
use super::dtype::D;
use crate::core::layout::broadcast_shapes as join_shapes;
use crate::core::{Array, Shape};
use crate::ops::{self, PadMode, Split};

/// The elements of `a` in row-major order in another shape, in which one -1 is inferred.
///
/// >>> mx.reshape(mx.arange(4), (2, -1))
/// array([[0, 1],
///        [2, 3]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, shape, *, stream=None))]
fn reshape(a: Arr, shape: Seq, stream: S) -> Out {
    out(ops::reshape(&a.0, &shape.0, pick(stream)))
}

/// Joins the axes from `start_axis` to `end_axis` into one.
///
/// >>> mx.flatten(mx.zeros((2, 3, 4)), 1).shape
/// (2, 12)
#[pyfunction]
#[pyo3(signature = (a, /, start_axis=0, end_axis=-1, *, stream=None))]
fn flatten(a: Arr, start_axis: i64, end_axis: i64, stream: S) -> Out {
    out(ops::flatten(&a.0, start_axis, end_axis, pick(stream)))
}

/// Splits `axis` into axes of `shape`, in which one -1 is inferred.
///
/// >>> mx.unflatten(mx.zeros((2, 12)), 1, (3, 4)).shape
/// (2, 3, 4)
#[pyfunction]
#[pyo3(signature = (a, /, axis, shape, *, stream=None))]
fn unflatten(a: Arr, axis: i64, shape: Seq, stream: S) -> Out {
    out(ops::unflatten(&a.0, axis, &shape.0, pick(stream)))
}

/// The array with its axes in another order, by default reversed.
///
/// >>> mx.transpose(mx.zeros((2, 3, 4)), (1, 0, 2)).shape
/// (3, 2, 4)
#[pyfunction]
#[pyo3(signature = (a, /, axes=None, *, stream=None))]
fn transpose(a: Arr, axes: Option<Seq>, stream: S) -> Out {
    out(ops::transpose(&a.0, axes.as_ref().map(|x| &x.0[..]), pick(stream)))
}

/// The array with its axes in another order, by default reversed; another name of `transpose`.
///
/// >>> mx.permute_dims(mx.zeros((2, 3))).shape
/// (3, 2)
#[pyfunction]
#[pyo3(signature = (a, /, axes=None, *, stream=None))]
fn permute_dims(a: Arr, axes: Option<Seq>, stream: S) -> Out {
    transpose(a, axes, stream)
}

/// The array with its last two axes swapped. Raises ValueError for fewer than two axes.
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
/// >>> mx.swapaxes(mx.zeros((2, 3, 4)), 0, 2).shape
/// (4, 3, 2)
#[pyfunction]
#[pyo3(signature = (a, /, axis1, axis2, *, stream=None))]
fn swapaxes(a: Arr, axis1: i64, axis2: i64, stream: S) -> Out {
    out(ops::swapaxes(&a.0, axis1, axis2, pick(stream)))
}

/// The array with one axis moved to another place.
///
/// >>> mx.moveaxis(mx.zeros((2, 3, 4)), 0, 2).shape
/// (3, 4, 2)
#[pyfunction]
#[pyo3(signature = (a, /, source, destination, *, stream=None))]
fn moveaxis(a: Arr, source: i64, destination: i64, stream: S) -> Out {
    out(ops::moveaxis(&a.0, source, destination, pick(stream)))
}

/// The array with axes of length one added at the positions `axis` of the result.
///
/// >>> mx.expand_dims(mx.zeros(3), 0).shape
/// (1, 3)
#[pyfunction]
#[pyo3(signature = (a, /, axis, *, stream=None))]
fn expand_dims(a: Arr, axis: Ints, stream: S) -> Out {
    out(ops::expand_dims(&a.0, &axis.list, pick(stream)))
}

/// The array without axes of length one: those in `axis`, or all of them.
///
/// >>> mx.squeeze(mx.zeros((1, 3, 1))).shape
/// (3,)
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, *, stream=None))]
pub fn squeeze(a: Arr, axis: Option<Ints>, stream: S) -> Out {
    out(ops::squeeze(&a.0, axis.as_ref().map(|x| &x.list[..]), pick(stream)))
}

/// `a` repeated along new and length-one axes, as far as `shape` asks; no data is copied.
///
/// >>> mx.broadcast_to(mx.array([1, 2]), (2, 2))
/// array([[1, 2],
///        [1, 2]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, shape, *, stream=None))]
fn broadcast_to(a: Like, shape: Ints, stream: S) -> Out {
    out(ops::broadcast_to(&a.0, &shape.list, pick(stream)))
}

fn arrays(args: &Bound<'_, PyTuple>) -> PyResult<Vec<Array>> {
    args.iter().map(|x| x.extract::<Arr>().map(|a| a.0)).collect()
}

fn wrap(list: Vec<Array>) -> Vec<PyArray> {
    list.into_iter().map(PyArray::new).collect()
}

/// The arrays broadcast to their common shape, as a tuple.
///
/// >>> [a.shape for a in mx.broadcast_arrays(mx.zeros(3), mx.zeros((2, 1)))]
/// [(2, 3), (2, 3)]
#[pyfunction]
#[pyo3(signature = (*arrays, stream=None))]
fn broadcast_arrays<'py>(arrays: &Bound<'py, PyTuple>, stream: S) -> PyResult<Bound<'py, PyTuple>> {
    let list = ops::broadcast_arrays(&self::arrays(arrays)?, pick(stream))?;
    PyTuple::new(arrays.py(), wrap(list))
}

/// The shape that arrays of these shapes broadcast to.
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
        let Ok(shape) = s.extract::<Seq>() else {
            let text = "[broadcast_shapes] Expects a sequence of shapes (tuples or lists of ints).";
            return Err(PyValueError::new_err(text));
        };
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

/// The arrays with at least one axis: one array, or a list of several.
///
/// >>> mx.atleast_1d(mx.array(1)).shape
/// (1,)
#[pyfunction]
#[pyo3(signature = (*arys, stream=None))]
fn atleast_1d<'py>(arys: &Bound<'py, PyTuple>, stream: S) -> PyResult<Bound<'py, PyAny>> {
    atleast(1, arys, stream)
}

/// The arrays with at least two axes: one array, or a list of several.
///
/// >>> mx.atleast_2d(mx.array(1)).shape
/// (1, 1)
#[pyfunction]
#[pyo3(signature = (*arys, stream=None))]
fn atleast_2d<'py>(arys: &Bound<'py, PyTuple>, stream: S) -> PyResult<Bound<'py, PyAny>> {
    atleast(2, arys, stream)
}

/// The arrays with at least three axes: one array, or a list of several.
///
/// >>> mx.atleast_3d(mx.array(1)).shape
/// (1, 1, 1)
#[pyfunction]
#[pyo3(signature = (*arys, stream=None))]
fn atleast_3d<'py>(arys: &Bound<'py, PyTuple>, stream: S) -> PyResult<Bound<'py, PyAny>> {
    atleast(3, arys, stream)
}

/// A view of the flattened array with a shape and strides (in elements) of its own, from `offset` on. Nothing
/// checks that it stays meaningful: elements may overlap.
///
/// >>> mx.as_strided(mx.arange(4), (3, 2), (1, 1))
/// array([[0, 1],
///        [1, 2],
///        [2, 3]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, shape=None, strides=None, offset=0, *, stream=None))]
fn as_strided(a: Arr, shape: Option<Seq>, strides: Option<Seq>, offset: i64, stream: S) -> Out {
    let shape = shape.as_ref().map(|x| &x.0[..]);
    let strides = strides.as_ref().map(|x| &x.0[..]);
    out(ops::as_strided(&a.0, shape, strides, offset, pick(stream)))
}

/// The bytes of `a` seen as another dtype; the last axis changes with the size of an element.
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
/// >>> mx.astype(mx.array([1.7]), mx.int32)
/// array([1], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, dtype, *, stream=None))]
fn astype(a: Arr, dtype: D, stream: S) -> Out {
    out(ops::astype(&a.0, dtype.0, pick(stream)))
}

/// The array with its elements in row-major order in memory (or column-major, where that is allowed).
///
/// >>> mx.contiguous(mx.zeros((2, 3)).T).shape
/// (3, 2)
#[pyfunction]
#[pyo3(signature = (a, /, allow_col_major=false, *, stream=None))]
fn contiguous(a: Arr, allow_col_major: bool, stream: S) -> Out {
    out(ops::contiguous(&a.0, allow_col_major, pick(stream)))
}

fn list_of(x: &Bound<'_, PyAny>) -> PyResult<Vec<Array>> {
    if !is_sequence(x) {
        let text = format!("expected a list of arrays, got {}", type_name(x));
        return Err(PyTypeError::new_err(text));
    }
    x.try_iter()?.map(|a| a?.extract::<Arr>().map(|a| a.0)).collect()
}

/// The arrays one after another along `axis`; flattened first when that is None.
///
/// >>> mx.concatenate([mx.array([1]), mx.array([2, 3])])
/// array([1, 2, 3], dtype=int32)
#[pyfunction]
#[pyo3(signature = (arrays, axis=0, *, stream=None))]
fn concatenate(arrays: &Bound<'_, PyAny>, axis: Option<i64>, stream: S) -> Out {
    let (mut list, s) = (list_of(arrays)?, pick(stream));
    if axis.is_none() {
        for a in &mut list {
            *a = ops::flatten(a, 0, -1, s)?;
        }
    }
    out(ops::concatenate(&list, axis.unwrap_or(0), s))
}

/// The arrays one after another along `axis`; another name of `concatenate`.
///
/// >>> mx.concat([mx.array([1]), mx.array([2, 3])])
/// array([1, 2, 3], dtype=int32)
#[pyfunction]
#[pyo3(signature = (arrays, axis=0, *, stream=None))]
fn concat(arrays: &Bound<'_, PyAny>, axis: Option<i64>, stream: S) -> Out {
    concatenate(arrays, axis, stream)
}

/// The arrays, all of one shape, along a new axis.
///
/// >>> mx.stack([mx.array([1, 2]), mx.array([3, 4])])
/// array([[1, 2],
///        [3, 4]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (arrays, axis=0, *, stream=None))]
fn stack(arrays: &Bound<'_, PyAny>, axis: Option<i64>, stream: S) -> Out {
    out(ops::stack(&list_of(arrays)?, axis.unwrap_or(0), pick(stream)))
}

/// A list of parts of `a` along `axis`: so many equal ones, or cut at the given positions.
///
/// >>> mx.split(mx.arange(4), 2)
/// [array([0, 1], dtype=int32), array([2, 3], dtype=int32)]
#[pyfunction]
#[pyo3(signature = (a, /, indices_or_sections, axis=0, *, stream=None))]
pub fn split(a: Arr, indices_or_sections: Ints, axis: i64, stream: S) -> PyResult<Vec<PyArray>> {
    let how = match indices_or_sections.single {
        true => Split::Sections(indices_or_sections.list[0]),
        false => Split::Indices(&indices_or_sections.list),
    };
    Ok(wrap(ops::split(&a.0, how, axis, pick(stream))?))
}

fn widths(w: &Bound<'_, PyAny>, ndim: usize) -> PyResult<Vec<(i64, i64)>> {
    let bad =
        || PyTypeError::new_err("pad(): pad_width must be an int, (int,), (int, int) or a list of pairs");
    if let Ok(n) = w.extract::<i64>() {
        return Ok(vec![(n, n); ndim]);
    }
    if let Ok(Seq(list)) = w.extract::<Seq>() {
        return match list[..] {
            [n] => Ok(vec![(n, n); ndim]),
            [lo, hi] => Ok(vec![(lo, hi); ndim]),
            _ => Err(bad()),
        };
    }
    let pairs: Vec<(i64, i64)> = w.extract().map_err(|_| bad())?;
    if pairs.len() == 1 {
        return Ok(vec![pairs[0]; ndim]);
    }
    if pairs.len() != ndim {
        return Err(PyValueError::new_err(format!(
            "[pad] Invalid number of padding sizes passed to pad with array of {ndim} dimensions, got {}.",
            pairs.len()
        )));
    }
    Ok(pairs)
}

/// The array with elements added before and after each axis. `pad_width` is one number, a pair for all axes or
/// a pair for each. `mode` is 'constant' (with `constant_values`), 'edge', 'reflect' or 'symmetric'.
///
/// >>> mx.pad(mx.array([1, 2]), 1)
/// array([0, 1, 2, 0], dtype=int32)
#[pyfunction]
#[pyo3(
    signature = (a, pad_width, mode="constant", constant_values=None, *, stream=None),
    text_signature = "(a, pad_width, mode='constant', constant_values=0, *, stream=None)"
)]
fn pad(
    a: Arr,
    pad_width: &Bound<'_, PyAny>,
    mode: &str,
    constant_values: Option<Bound<'_, PyAny>>,
    stream: S,
) -> Out {
    let mode = match mode {
        "constant" => PadMode::Constant,
        "edge" => PadMode::Edge,
        "reflect" => PadMode::Reflect,
        "symmetric" => PadMode::Symmetric,
        _ => return Err(PyValueError::new_err(format!("[pad] Invalid padding mode ({mode}) passed to pad"))),
    };
    let value = match constant_values {
        Some(v) => to_array(&v, Some(a.0.dtype()))?,
        None => ops::scalar_i64(0, a.0.dtype())?,
    };
    out(ops::pad(&a.0, &widths(pad_width, a.0.ndim())?, mode, &value, pick(stream)))
}

/// Each element `repeats` times in a row along `axis`; of the flattened array for None.
///
/// >>> mx.repeat(mx.array([1, 2]), 2)
/// array([1, 1, 2, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (array, repeats, axis=None, *, stream=None))]
fn repeat(array: Arr, repeats: i64, axis: Option<i64>, stream: S) -> Out {
    out(ops::repeat(&array.0, repeats, axis, pick(stream)))
}

/// The array laid out `reps` times along its axes, the last number for the last axis.
///
/// >>> mx.tile(mx.array([1, 2]), 2)
/// array([1, 2, 1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, reps, /, *, stream=None))]
fn tile(a: Arr, reps: Ints, stream: S) -> Out {
    out(ops::tile(&a.0, &reps.list, pick(stream)))
}

/// The elements shifted along `axis`, those that leave at one end entering at the other; the flattened array is
/// rolled without `axis`.
///
/// >>> mx.roll(mx.array([1, 2, 3]), 1)
/// array([3, 1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, shift, axis=None, *, stream=None))]
fn roll(a: Arr, shift: Ints, axis: Option<Ints>, stream: S) -> Out {
    out(ops::roll(&a.0, &shift.list, axis.as_ref().map(|x| &x.list[..]), pick(stream)))
}

/// The elements in reverse order along `axis`, by default along all axes.
///
/// >>> mx.flip(mx.array([1, 2, 3]))
/// array([3, 2, 1], dtype=int32)
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
        wrap_pyfunction!(concatenate, m)?,
        wrap_pyfunction!(concat, m)?,
        wrap_pyfunction!(stack, m)?,
        wrap_pyfunction!(split, m)?,
        wrap_pyfunction!(pad, m)?,
        wrap_pyfunction!(repeat, m)?,
        wrap_pyfunction!(tile, m)?,
        wrap_pyfunction!(roll, m)?,
        wrap_pyfunction!(flip, m)?,
    ] {
        m.add_function(f)?;
    }
    Ok(())
}
