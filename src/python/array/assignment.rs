//! `a[index] = value` and `a.at[index]`. Both make a new array for the Python object; an array that nobody
//! else holds is written in place when that is computed. Masks are assigned without waiting for them.
//!
//! The shape of what is assigned follows MLX: integers in the index do not move the axes of index arrays
//! (`a[0, :, i]` has them last), although they do when the same index is read. Values of the shape that is
//! read are taken too.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PyTuple};

use super::PyArray;
use super::convert::{make, to_array};
use super::indexing::{Index, array_of, cannot};
use crate::core::{Array, Dtype};
use crate::ops::index::subscript;
use crate::ops::{self, Combine};
use crate::python::runtime::device::current;

/// Combines `value`, already of the dtype of `a`, with the elements that an index selects.
fn update(a: &Array, index: &Index, value: &Array, how: Combine) -> PyResult<Array> {
    Ok(subscript::update(a, &index.items, &index.picks, value, how, current())?)
}

/// The mask that an index stands for, if it is one: a boolean array, list or scalar, not inside a tuple.
fn mask(index: &Bound<'_, PyAny>) -> PyResult<Option<Array>> {
    if let Ok(b) = index.cast::<PyBool>() {
        return Ok(Some(ops::scalar_bool(b.is_true())?));
    }
    if let Ok(a) = index.cast::<PyArray>() {
        let a = a.get().array();
        return Ok((a.dtype() == Dtype::Bool).then_some(a));
    }
    // Only a list of truth values or arrays is worth making an array of here.
    if let Ok(list) = index.cast::<PyList>() {
        let mut x = list.clone().into_any();
        while let Ok(inner) = x.cast::<PyList>() {
            match inner.get_item(0) {
                Ok(first) => x = first,
                Err(_) => return Ok(None),
            }
        }
        if !x.is_instance_of::<PyBool>() && !x.is_instance_of::<PyArray>() {
            return Ok(None);
        }
        return Ok(Some(make(index, None)?).filter(|a| a.dtype() == Dtype::Bool));
    }
    if index.is_none() || index.is_instance_of::<PyTuple>() {
        return Ok(None);
    }
    let dtype = index.getattr_opt("dtype")?;
    let boolean = dtype.is_some_and(|d| d.getattr("kind").is_ok_and(|k| k.eq("b").unwrap_or(false)));
    if boolean { array_of(index) } else { Ok(None) }
}

/// `a[index] = value`, as a new array.
pub fn set(a: &Array, index: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<Array> {
    let value = to_array(value, Some(a.dtype()))?;
    let value = ops::astype(&value, a.dtype(), current())?;
    if let Some(m) = mask(index)? {
        return Ok(ops::masked_scatter(a, &m, &value, current())?);
    }
    update(a, &Index::new(index)?, &value, Combine::Set)
}

/// Updates of selected elements that do not lose repeated ones; made by `array.at`.
///
/// `a.at[index]` takes what `a[index]` takes. The value is converted to the dtype of the array and broadcast
/// to the selected elements; where an index array names an element several times, all updates count. The
/// result is a new array. Updates whose index is out of range are dropped. Gradients flow to the array and to
/// the values.
///
/// >>> mx.zeros(3).at[mx.array([1, 1, 2])].add(2)
/// array([0, 4, 2], dtype=float32)
#[pyclass(name = "ArrayAt", module = "mlx.core", frozen)]
pub struct ArrayAt {
    array: Array,
    index: Option<Py<PyAny>>,
}

impl ArrayAt {
    /// Before the index is given.
    pub fn new(array: Array) -> Self {
        ArrayAt { array, index: None }
    }

    fn apply(
        &self,
        how: Combine,
        value: &Bound<'_, PyAny>,
        convert: impl FnOnce(Array) -> crate::core::Result<Array>,
    ) -> PyResult<PyArray> {
        let Some(index) = &self.index else {
            let text = "[at] Must give indices to array.at (e.g. `x.at[0].add(4)`).";
            return Err(PyValueError::new_err(text));
        };
        let (a, index) = (&self.array, index.bind(value.py()));
        let value = to_array(value, Some(a.dtype()))?;
        if index.is_instance_of::<PyBool>() {
            return Err(cannot());
        }
        let index = Index::new(index)?;
        let value = convert(ops::astype(&value, a.dtype(), current())?)?;
        update(a, &index, &value, how).map(PyArray::new)
    }
}

#[pymethods]
impl ArrayAt {
    fn __getitem__(&self, indices: Py<PyAny>) -> ArrayAt {
        ArrayAt { array: self.array.clone(), index: Some(indices) }
    }
    /// The array with a value added to the selected elements.
    ///
    /// Args:
    #[doc = shared!(update)]
    ///
    /// >>> mx.zeros(2).at[0].add(3)
    /// array([3, 0], dtype=float32)
    fn add(&self, value: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.apply(Combine::Add, value, Ok)
    }
    /// The array with a value subtracted from the selected elements.
    ///
    /// Args:
    #[doc = shared!(update)]
    ///
    /// >>> mx.zeros(2).at[0].subtract(3)
    /// array([-3, 0], dtype=float32)
    fn subtract(&self, value: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.apply(Combine::Add, value, |v| match v.dtype() {
            Dtype::Bool => Ok(v),
            _ => ops::negative(&v, current()),
        })
    }
    /// The array with the selected elements multiplied by a value.
    ///
    /// Args:
    #[doc = shared!(update)]
    ///
    /// >>> mx.ones(2).at[0].multiply(3)
    /// array([3, 1], dtype=float32)
    fn multiply(&self, value: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.apply(Combine::Prod, value, Ok)
    }
    /// The array with the selected elements divided by a value: multiplied by its reciprocal, rounded to the
    /// dtype.
    ///
    /// Args:
    #[doc = shared!(update)]
    ///
    /// >>> mx.ones(2).at[0].divide(4)
    /// array([0.25, 1], dtype=float32)
    fn divide(&self, value: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.apply(Combine::Prod, value, |v| {
            let one = ops::scalar_i64(1, v.dtype())?;
            ops::astype(&ops::divide(&one, &v, current())?, v.dtype(), current())
        })
    }
    /// The array with the larger of the selected elements and a value; NaN wins.
    ///
    /// Args:
    #[doc = shared!(update)]
    ///
    /// >>> mx.ones(2).at[0].maximum(3)
    /// array([3, 1], dtype=float32)
    fn maximum(&self, value: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.apply(Combine::Max, value, Ok)
    }
    /// The array with the smaller of the selected elements and a value; NaN wins.
    ///
    /// Args:
    #[doc = shared!(update)]
    ///
    /// >>> mx.ones(2).at[0].minimum(-3)
    /// array([-3, 1], dtype=float32)
    fn minimum(&self, value: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.apply(Combine::Min, value, Ok)
    }
}
