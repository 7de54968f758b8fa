//! Functions that join, split, pad and repeat arrays.

use super::views::wrap;
use crate::core::Array;
use crate::ops::{self, PadMode, Split};
use crate::python::array::arguments::{Arr, Int32, Ints, is_sequence, type_name};
use crate::python::array::convert::to_array;
use crate::python::array::{Out, PyArray, out};
use crate::python::runtime::device::{S, pick};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PySequence, PyTuple};

pub(super) fn arrays(args: &Bound<'_, PyTuple>) -> PyResult<Vec<Array>> {
    args.iter().map(|x| x.extract::<Arr>().map(|a| a.0)).collect()
}

pub(super) fn list_of(x: &Bound<'_, PyAny>) -> PyResult<Vec<Array>> {
    if !is_sequence(x) {
        let text = format!("expected a list of arrays, got {}", type_name(x));
        return Err(PyTypeError::new_err(text));
    }
    x.try_iter()?.map(|a| a?.extract::<Arr>().map(|a| a.0)).collect()
}

/// Joins arrays along an axis.
///
/// The arrays are promoted to a common dtype. Their shapes are equal but for that axis, on which the lengths
/// add up.
///
/// Args:
///     arrays (Sequence[array]): At least one array.
///     axis (int, optional): Axis to join along; a negative one counts from the last. None flattens the
///         arrays first. Default: 0.
///
/// Returns:
///     array: The arrays one after another, in their promoted dtype.
///
/// Raises:
///     ValueError: if there are no arrays, or their shapes do not fit.
///     IndexError: if the axis is out of range.
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

/// Joins arrays along an axis: the array API's name of `concatenate`.
///
/// The arrays are promoted to a common dtype. Their shapes are equal but for that axis, on which the lengths
/// add up.
///
/// Args:
///     arrays (Sequence[array]): At least one array.
///     axis (int, optional): Axis to join along; a negative one counts from the last. None flattens the
///         arrays first. Default: 0.
///
/// Returns:
///     array: The arrays one after another, in their promoted dtype.
///
/// Raises:
///     ValueError: if there are no arrays, or their shapes do not fit.
///     IndexError: if the axis is out of range.
///
/// >>> mx.concat([mx.array([1]), mx.array([2, 3])])
/// array([1, 2, 3], dtype=int32)
#[pyfunction]
#[pyo3(signature = (arrays, axis=0, *, stream=None))]
fn concat(arrays: &Bound<'_, PyAny>, axis: Option<i64>, stream: S) -> Out {
    concatenate(arrays, axis, stream)
}

/// Joins arrays of one shape along a new axis.
///
/// The arrays are promoted to a common dtype. `unstack` is the inverse; see `concatenate` for an axis that
/// exists.
///
/// Args:
///     arrays (Sequence[array]): At least one array; all have the same shape.
///     axis (int, optional): Where the new axis is in the result; a negative position counts from its last
///         axis. Default: 0.
///
/// Returns:
///     array: With one more axis, as long as the number of arrays, in their promoted dtype.
///
/// Raises:
///     ValueError: if there are no arrays, or their shapes differ.
///     IndexError: if the axis is out of range.
///
/// >>> mx.stack([mx.array([1, 2]), mx.array([3, 4])])
/// array([[1, 2],
///        [3, 4]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (arrays, axis=0, *, stream=None))]
fn stack(arrays: &Bound<'_, PyAny>, axis: Option<i64>, stream: S) -> Out {
    out(ops::stack(&list_of(arrays)?, axis.unwrap_or(0), pick(stream)))
}

/// Cuts an array into parts along an axis.
///
/// No data is copied. `concatenate` is the inverse.
///
/// Args:
///     a (array): Elements, with at least one axis.
///     indices_or_sections (int | Sequence[int]): How many equal parts, or the positions at which to cut;
///         positions beyond the end give empty parts.
///     axis (int, optional): Axis to cut; a negative one counts from the last. Default: 0.
///
/// Returns:
///     list[array]: The parts in order, in the dtype of `a`.
///
/// Raises:
///     ValueError: if the axis does not divide into so many parts, or their number is not positive.
///     IndexError: if the axis is out of range.
///
/// >>> mx.split(mx.arange(4), 2)
/// [array([0, 1], dtype=int32), array([2, 3], dtype=int32)]
/// >>> mx.split(mx.arange(4), [1])
/// [array([0], dtype=int32), array([1, 2, 3], dtype=int32)]
#[pyfunction]
#[pyo3(signature = (a, /, indices_or_sections, axis=0, *, stream=None))]
pub fn split(a: Arr, indices_or_sections: Ints, axis: i64, stream: S) -> PyResult<Vec<PyArray>> {
    let how = match indices_or_sections.single {
        true => Split::Sections(indices_or_sections.list[0]),
        false => Split::Indices(&indices_or_sections.list),
    };
    Ok(wrap(ops::split(&a.0, how, axis, pick(stream))?))
}

pub(super) fn widths(w: &Bound<'_, PyAny>, ndim: usize) -> PyResult<Vec<(i64, i64)>> {
    let bad =
        || PyTypeError::new_err("pad(): pad_width must be an int, (int,), (int, int) or a list of pairs");
    let invalid = |n: usize| {
        PyValueError::new_err(format!(
            "[pad] Invalid number of padding sizes passed to pad with array of {ndim} dimensions, got {n}."
        ))
    };
    let unless_wide = |e: PyErr| if e.is_instance_of::<PyOverflowError>(w.py()) { e } else { bad() };
    match w.extract::<Ints>() {
        Ok(Ints { list, single }) => {
            return match list[..] {
                [] if ndim == 0 => Ok(Vec::new()),
                [] => Err(invalid(0)),
                [n] => Ok(vec![(n, n); ndim]),
                [lo, hi] if !single => Ok(vec![(lo, hi); ndim]),
                _ => Err(bad()),
            };
        }
        Err(e) if e.is_instance_of::<PyOverflowError>(w.py()) => return Err(e),
        Err(_) => {}
    }
    let pair = |p: PyResult<Bound<'_, PyAny>>| match p?
        .try_iter()?
        .map(|n| n?.extract::<Int32>())
        .collect::<PyResult<Vec<_>>>()?[..]
    {
        [ref lo, ref hi] => Ok((lo.0, hi.0)),
        _ => Err(bad()),
    };
    // A list or an array; what has no order, or is used up by one walk, is neither.
    if w.cast::<PySequence>().is_err() && !w.hasattr("tolist")? {
        return Err(bad());
    }
    let pairs =
        w.try_iter().and_then(|all| all.map(pair).collect::<PyResult<Vec<_>>>()).map_err(unless_wide)?;
    if pairs.len() == 1 {
        return Ok(vec![pairs[0]; ndim]);
    }
    if pairs.len() != ndim {
        return Err(invalid(pairs.len()));
    }
    Ok(pairs)
}

/// The array with elements added at both ends of its axes.
///
/// What is added is `constant_values` in the mode "constant", the element at the end in "edge", and the
/// elements mirrored there in "reflect" (without the one at the end) and "symmetric" (with it).
///
/// Args:
///     a (array): Elements, of any shape.
///     pad_width (int | Sequence[int] | Sequence[tuple[int, int]]): How many are added: one number for all
///         ends, a pair (before, behind) for all axes, or a pair for each axis.
///     mode (str, optional): "constant", "edge", "reflect" or "symmetric". Default: "constant".
///     constant_values (array | number, optional): What is added in the mode "constant", converted to the
///         dtype of `a`. Default: 0.
///
/// Returns:
///     array: With longer axes, in the dtype of `a`.
///
/// Raises:
///     ValueError: if a width is negative, there are not as many pairs as axes, or the mode is another one.
///
/// >>> mx.pad(mx.array([1, 2]), 1)
/// array([0, 1, 2, 0], dtype=int32)
/// >>> mx.pad(mx.array([1, 2, 3]), (0, 2), mode="reflect")
/// array([1, 2, 3, 2, 1], dtype=int32)
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
    let Some(mode) = PadMode::named(mode) else {
        return Err(PyValueError::new_err(format!("[pad] Invalid padding mode ({mode}) passed to pad")));
    };
    let value = match constant_values {
        Some(v) => to_array(&v, Some(a.0.dtype()))?,
        None => ops::scalar_i64(0, a.0.dtype())?,
    };
    out(ops::pad(&a.0, &widths(pad_width, a.0.ndim())?, mode, &value, pick(stream)))
}

/// Every element several times in a row.
///
/// For the whole array several times see `tile`. The gradient adds up over the repetitions.
///
/// Args:
///     array (array): Elements, of any shape.
///     repeats (int): How often each appears, 0 included.
///     axis (int, optional): Axis along which elements are repeated; a negative one counts from the last.
///         Default: None, the flattened array.
///
/// Returns:
///     array: With `axis` longer by the factor `repeats`, or of one axis; the dtype stays.
///
/// Raises:
///     ValueError: if `repeats` is negative.
///     IndexError: if the axis is out of range.
///
/// >>> mx.repeat(mx.array([1, 2]), 2)
/// array([1, 1, 2, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (array, repeats, axis=None, *, stream=None))]
fn repeat(array: Arr, repeats: i64, axis: Option<i64>, stream: S) -> Out {
    out(ops::repeat(&array.0, repeats, axis, pick(stream)))
}

/// The whole array several times along its axes.
///
/// For each element several times in a row see `repeat`.
///
/// Args:
///     a (array): Elements, of any shape.
///     reps (int | Sequence[int]): How often along each axis, the last number for the last axis. Missing
///         numbers count as 1, and so do missing axes.
///
/// Returns:
///     array: With axes longer by these factors, in the dtype of `a`.
///
/// Raises:
///     ValueError: if a number is negative.
///
/// >>> mx.tile(mx.array([1, 2]), 2)
/// array([1, 2, 1, 2], dtype=int32)
/// >>> mx.tile(mx.array([1, 2]), (2, 1)).shape
/// (2, 2)
#[pyfunction]
#[pyo3(signature = (a, reps, /, *, stream=None))]
fn tile(a: Arr, reps: Ints, stream: S) -> Out {
    out(ops::tile(&a.0, &reps.list, pick(stream)))
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    for f in [
        wrap_pyfunction!(concatenate, m)?,
        wrap_pyfunction!(concat, m)?,
        wrap_pyfunction!(stack, m)?,
        wrap_pyfunction!(split, m)?,
        wrap_pyfunction!(pad, m)?,
        wrap_pyfunction!(repeat, m)?,
        wrap_pyfunction!(tile, m)?,
    ] {
        m.add_function(f)?;
    }
    Ok(())
}
