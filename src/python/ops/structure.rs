//! Functions that return several arrays made without arithmetic: grids, slices, and arrays tied to others in the
//! graph.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::core::Array;
use crate::ops;
use crate::python::array::PyArray;
use crate::python::array::arguments::{Arr, type_name};
use crate::python::runtime::device::{S, pick};

fn tuple(py: Python<'_>, arrays: Vec<Array>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, arrays.into_iter().map(PyArray::new))
}

fn all(args: &Bound<'_, PyTuple>) -> PyResult<Vec<Array>> {
    args.iter().map(|a| Ok(a.extract::<Arr>()?.0)).collect()
}

/// Grids of coordinates: each array repeated along the axes of all others.
///
/// The result number i varies with the elements of array i only, so that together they name every point of
/// the grid. No data is copied.
///
/// Args:
///     arrays (array): Coordinates along each axis; they are flattened.
///     sparse (bool, optional): Whether the grids keep length 1 along the axes of the other arrays, which
///         broadcasts to the same. Default: False.
///     indexing (str, optional): "xy", where the first two axes are swapped as for pictures, or "ij", where
///         axis i belongs to array i. Default: "xy".
///
/// Returns:
///     tuple[array, ...]: One grid for each array, in its dtype.
///
/// Raises:
///     ValueError: if `indexing` is another one.
///
/// >>> mx.meshgrid(mx.array([1, 2]), mx.array([3]))
/// (array([[1, 2]], dtype=int32), array([[3, 3]], dtype=int32))
#[pyfunction]
#[pyo3(signature = (*arrays, sparse=false, indexing="xy", stream=None))]
fn meshgrid<'py>(
    arrays: &Bound<'py, PyTuple>,
    sparse: Option<bool>,
    indexing: Option<&str>,
    stream: S,
) -> PyResult<Bound<'py, PyTuple>> {
    let xy = match indexing.unwrap_or("xy") {
        "xy" => true,
        "ij" => false,
        _ => {
            let text = "[meshgrid] Invalid indexing value. Valid values are 'xy' and 'ij'.";
            return Err(PyValueError::new_err(text));
        }
    };
    tuple(arrays.py(), ops::meshgrid(&all(arrays)?, sparse.unwrap_or(false), xy, pick(stream))?)
}

/// The parts of an array along one axis, which they lack: the inverse of `stack`.
///
/// No data is copied.
///
/// Args:
///     x (array): Elements, with at least one axis.
///     axis (int, optional): Axis to take apart; a negative one counts from the last. Default: 0.
///
/// Returns:
///     tuple[array, ...]: As many arrays as the axis is long, in the dtype of `x`.
///
/// Raises:
///     IndexError: if the axis is out of range.
///
/// >>> mx.unstack(mx.array([[1, 2], [3, 4]]))
/// (array([1, 2], dtype=int32), array([3, 4], dtype=int32))
#[pyfunction]
#[pyo3(signature = (x, /, *, axis=0, stream=None))]
fn unstack(py: Python<'_>, x: Arr, axis: i64, stream: S) -> PyResult<Bound<'_, PyTuple>> {
    tuple(py, ops::unstack(&x.0, axis, pick(stream))?)
}

/// One array or a sequence of them.
fn several(x: &Bound<'_, PyAny>) -> PyResult<Vec<Array>> {
    if let Ok(a) = x.extract::<Arr>() {
        return Ok(vec![a.0]);
    }
    let fail = || {
        let text = format!("depends(): expected an array or a sequence of arrays, got {}", type_name(x));
        PyTypeError::new_err(text)
    };
    if !x.is_instance_of::<PyList>() && !x.is_instance_of::<PyTuple>() {
        return Err(fail());
    }
    x.try_iter()?.map(|a| Ok(a?.extract::<Arr>().map_err(|_| fail())?.0)).collect()
}

/// Arrays unchanged, but computed only after others.
///
/// For side effects that must come first, such as a `send` before a `recv`. No data is copied. Gradients pass
/// to the inputs alone.
///
/// Args:
///     inputs (array | Sequence[array]): What is returned.
///     dependencies (array | Sequence[array]): What is computed before.
///
/// Returns:
///     array | list[array]: The inputs; a sequence comes back as a list.
///
/// Raises:
///     TypeError: if something else than arrays is given.
///
/// >>> mx.depends(mx.array([1, 2]), mx.zeros(3))
/// array([1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (inputs, dependencies))]
fn depends<'py>(inputs: &Bound<'py, PyAny>, dependencies: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = inputs.py();
    let single = inputs.extract::<Arr>().is_ok();
    let mut outs = ops::depends(&several(inputs)?, &several(dependencies)?)?.into_iter().map(PyArray::new);
    match outs.next() {
        Some(a) if single => Ok(Bound::new(py, a)?.into_any()),
        first => Ok(PyList::new(py, first.into_iter().chain(outs).collect::<Vec<_>>())?.into_any()),
    }
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(meshgrid, m)?)?;
    m.add_function(wrap_pyfunction!(unstack, m)?)?;
    m.add_function(wrap_pyfunction!(depends, m)?)
}
