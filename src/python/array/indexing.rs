//! Python objects as indices: integers, slices of any step, `...`, `None` and arrays of integers, in any mixture
//! (`ops::index::subscript` says what they select). Index arrays are never waited for.

use std::sync::OnceLock;

use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PyList, PySlice, PyTuple};
use pyo3::{ffi, intern};

use super::PyArray;
use super::arguments::integer;
use super::convert::{make, to_array};
use crate::core::{Array, Dtype};
use crate::ops::index::subscript::{self, Item, Items};
use crate::python::runtime::device::current;

/// An index: its items, and the index arrays among them in order.
#[derive(Default)]
pub(in crate::python) struct Index {
    pub items: Items,
    pub picks: Vec<Array>,
}

impl Index {
    pub(in crate::python) fn new(index: &Bound<'_, PyAny>) -> PyResult<Index> {
        let mut all = Index::default();
        match index.cast::<PyTuple>() {
            Ok(t) => t.iter().try_for_each(|x| all.add(&x))?,
            Err(_) => all.add(index)?,
        }
        Ok(all)
    }

    fn add(&mut self, obj: &Bound<'_, PyAny>) -> PyResult<()> {
        let item = self.item(obj)?;
        self.items.push(item);
        Ok(())
    }

    fn item(&mut self, obj: &Bound<'_, PyAny>) -> PyResult<Item> {
        if let Ok(s) = obj.cast::<PySlice>() {
            return slice(s);
        }
        if obj.is_none() {
            return Ok(Item::New);
        }
        if obj.is_instance_of::<PyEllipsis>() {
            return Ok(Item::Rest);
        }
        if obj.is_instance_of::<PyBool>() {
            return Err(cannot());
        }
        let arrays = obj.is_instance_of::<PyArray>() || obj.is_instance_of::<PyList>();
        if !arrays && let Some(i) = whole_number(obj)? {
            return Ok(Item::Int(i));
        }
        let a = array_of(obj)?.ok_or_else(cannot)?;
        match a.dtype() {
            Dtype::Bool => Err(PyValueError::new_err("[index] Boolean indices are not yet supported here.")),
            d if !d.is_integer() => Err(PyValueError::new_err(format!(
                "[index] Got indices with invalid dtype {d}. Indices must be integral."
            ))),
            _ => {
                self.picks.push(a);
                Ok(Item::Pick)
            }
        }
    }
}

pub(in crate::python) fn cannot() -> PyErr {
    PyValueError::new_err("[index] Cannot index mlx array using the given type.")
}

/// An index array, if the object stands for one.
pub(in crate::python) fn array_of(obj: &Bound<'_, PyAny>) -> PyResult<Option<Array>> {
    if let Ok(a) = obj.cast::<PyArray>() {
        return Ok(Some(a.get().array()));
    }
    if obj.is_instance_of::<PyList>() {
        return make(obj, None).map(Some);
    }
    let py = obj.py();
    if obj.hasattr(intern!(py, "__array__"))? || obj.hasattr(intern!(py, "__mlx_array__"))? {
        return to_array(obj, None).map(Some);
    }
    Ok(None)
}

/// The object as an integer of 32 bits, as MLX counts positions.
fn whole_number(obj: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    let wide = || PyValueError::new_err("Slice indices must be 32-bit integers.");
    match integer(obj.as_borrowed()) {
        Ok(v) if i32::try_from(v).is_ok() => Ok(Some(v)),
        Ok(_) => Err(wide()),
        Err(e) if e.is_instance_of::<PyOverflowError>(obj.py()) => Err(wide()),
        Err(_) => Ok(None),
    }
}

fn bound(obj: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if obj.is_none() {
        return Ok(None);
    }
    let plain = obj.is_exact_instance_of::<PyInt>();
    let number = match !plain && (obj.is_instance_of::<PyArray>() || obj.is_instance_of::<PyBool>()) {
        true => None,
        false => whole_number(obj)?,
    };
    number.map(Some).ok_or_else(|| PyValueError::new_err("[index] Slice indices must be integers or None."))
}

/// Start, stop and step, borrowed from a slice. The stable interface has them as attributes alone, each of which is looked up by its
/// name; every interpreter so far has them behind the object's header. Where that is so, as the first slice tells, they are
/// taken from there.
fn parts<'a, 'py>(s: &'a Bound<'py, PySlice>) -> Option<[Borrowed<'a, 'py, PyAny>; 3]> {
    static THERE: OnceLock<bool> = OnceLock::new();
    /// Words of an object's header.
    const HEADER: usize = size_of::<ffi::PyObject>() / size_of::<usize>();
    // SAFETY: a slice has room for three pointers behind its header, whatever they are.
    let read = |s: &Bound<'py, PySlice>, i: usize| unsafe {
        *s.as_ptr().cast::<*mut ffi::PyObject>().add(HEADER + i)
    };
    let known = THERE.get_or_init(|| {
        let known = || -> PyResult<bool> {
            let all = [PyList::empty(s.py()), PyList::empty(s.py()), PyList::empty(s.py())];
            let made = s.get_type().call1((&all[0], &all[1], &all[2]))?.cast_into::<PySlice>()?;
            Ok((0..3).all(|i| read(&made, i) == all[i].as_ptr()))
        };
        known().unwrap_or(false)
    });
    // SAFETY: objects that the slice holds.
    known.then(|| [0, 1, 2].map(|i| unsafe { Borrowed::from_ptr(s.py(), read(s, i)) }))
}

fn slice(s: &Bound<'_, PySlice>) -> PyResult<Item> {
    let py = s.py();
    if let Some([start, stop, step]) = parts(s) {
        let step = bound(&step)?.unwrap_or(1);
        return Ok(Item::Slice(bound(&start)?, bound(&stop)?, step));
    }
    let part = |name| bound(&s.getattr(name)?);
    let step = part(intern!(py, "step"))?.unwrap_or(1);
    Ok(Item::Slice(part(intern!(py, "start"))?, part(intern!(py, "stop"))?, step))
}

/// `a[index]`
pub fn get(a: &Array, index: &Bound<'_, PyAny>) -> PyResult<Array> {
    let index = Index::new(index)?;
    Ok(subscript::get(a, &index.items, &index.picks, current())?)
}

/// Runs over the first axis of an array: `iter(a)` makes one.
///
/// >>> [x.tolist() for x in mx.array([[1, 2], [3, 4]])]
/// [[1, 2], [3, 4]]
#[pyclass(name = "ArrayIterator", module = "mlx.core")]
pub struct ArrayIterator {
    array: Array,
    done: i64,
    backwards: bool,
}

impl ArrayIterator {
    /// Starts at the first row; the array has at least one axis.
    pub fn new(array: Array) -> Self {
        ArrayIterator { array, done: 0, backwards: false }
    }

    /// Starts at the last row.
    pub fn reversed(array: Array) -> Self {
        ArrayIterator { array, done: 0, backwards: true }
    }
}

#[pymethods]
impl ArrayIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }
    fn __next__(&mut self) -> PyResult<Option<PyArray>> {
        let a = &self.array;
        let n = a.shape()[0];
        if self.done >= n {
            return Ok(None);
        }
        let row = if self.backwards { n - 1 - self.done } else { self.done };
        self.done += 1;
        Ok(Some(PyArray::new(subscript::get(a, &[Item::Int(row)], &[], current())?)))
    }
}
