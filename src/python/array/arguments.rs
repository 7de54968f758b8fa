//! Types of arguments that the functions of the module share: arrays, axes, shapes, sequences and seeds, each with the error
//! that it gives where something else is passed.

use super::PyArray;
use super::convert::{invalid, mlx_array, to_array};
use crate::core::Array;
use crate::core::layout::dimension_overflow;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use smallvec::{SmallVec, smallvec};

/// Name of an object's type, for messages.
pub fn type_name(obj: &Bound<'_, PyAny>) -> String {
    obj.get_type().name().map_or_else(|_| "object".into(), |n| n.to_string())
}

/// An array argument: an `mlx.core.array` or an object with `__mlx_array__`.
pub struct Arr(pub Array);

impl<'a, 'py> FromPyObject<'a, 'py> for Arr {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(a) = obj.cast::<PyArray>() {
            return Ok(Arr(a.get().array()));
        }
        match mlx_array(&obj)? {
            Some(a) => Ok(Arr(a)),
            None => Err(PyTypeError::new_err(format!("expected an mlx.core.array, got {}", type_name(&obj)))),
        }
    }
}

/// A scalar or anything that converts to an array on its own.
pub struct Like(pub Array);

impl<'a, 'py> FromPyObject<'a, 'py> for Like {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if obj.is_instance_of::<PyList>() || obj.is_instance_of::<PyTuple>() {
            return Err(invalid(&obj));
        }
        Ok(Like(to_array(&obj, None)?))
    }
}

/// One integer or a sequence of them: axes, shapes, repetitions.
#[derive(Debug, Clone)]
pub struct Ints {
    /// The numbers.
    pub list: SmallVec<[i64; 6]>,
    /// Whether a bare integer was given.
    pub single: bool,
}

impl<'a, 'py> FromPyObject<'a, 'py> for Ints {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match single(obj)? {
            Some(v) => Ok(Ints { list: smallvec![int32(v)?], single: true }),
            None => Ok(Ints { list: obj.extract::<Seq>()?.0, single: false }),
        }
    }
}

/// A shape: one dimension or a sequence of them.
pub struct Dims(pub SmallVec<[i64; 6]>);

impl<'a, 'py> FromPyObject<'a, 'py> for Dims {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match single(obj)? {
            Some(v) if i32::try_from(v).is_err() => Err(dimension_overflow("", v).into()),
            Some(v) => Ok(Dims(smallvec![v])),
            None => Ok(Dims(obj.extract::<Seq>()?.0)),
        }
    }
}

/// A bare integer; `None` for what may be a sequence.
pub(super) fn single(obj: Borrowed<'_, '_, PyAny>) -> PyResult<Option<i64>> {
    // Asking a list for its `__index__` makes an error that nobody needs.
    if obj.is_instance_of::<PyTuple>() || obj.is_instance_of::<PyList>() {
        return Ok(None);
    }
    match integer(obj) {
        Err(e) if e.is_instance_of::<PyOverflowError>(obj.py()) => Err(e),
        other => Ok(other.ok()),
    }
}

/// An integer of 64 bits.
pub(super) fn integer(obj: Borrowed<'_, '_, PyAny>) -> PyResult<i64> {
    match exact_int(obj) {
        Some(v) => Ok(v),
        None => obj.extract::<i64>().map_err(|e| match e.is_instance_of::<PyOverflowError>(obj.py()) {
            true => outside(&*obj),
            false => e,
        }),
    }
}

/// The value of an `int` that fits 64 bits; the common case of an index or length, without a call of `__index__`.
pub(in crate::python) fn exact_int(obj: Borrowed<'_, '_, PyAny>) -> Option<i64> {
    // SAFETY: the object is alive and the interpreter attached; an overflow leaves no error behind.
    unsafe {
        if ffi::PyLong_CheckExact(obj.as_ptr()) == 0 {
            return None;
        }
        let mut overflow = 0;
        let v = ffi::PyLong_AsLongLongAndOverflow(obj.as_ptr(), &mut overflow);
        (overflow == 0).then_some(v)
    }
}

pub(super) fn outside(value: impl std::fmt::Display) -> PyErr {
    let text = format!("Integer value {value} is outside the supported range [-2147483648, 2147483647].");
    PyOverflowError::new_err(text)
}

/// MLX counts dimensions, axes and repetitions with 32 bits.
pub(super) fn int32(v: i64) -> PyResult<i64> {
    if i32::try_from(v).is_ok() { Ok(v) } else { Err(outside(v)) }
}

/// An integer of 32 bits.
pub struct Int32(pub i64);

impl<'a, 'py> FromPyObject<'a, 'py> for Int32 {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Int32(int32(integer(obj)?)?))
    }
}

/// A sequence of integers of 32 bits.
#[derive(Default)]
pub struct Seq(pub SmallVec<[i64; 6]>);

impl<'a, 'py> FromPyObject<'a, 'py> for Seq {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let list = obj.extract::<WideSeq>()?.0;
        list.iter().try_for_each(|&v| int32(v).map(|_| ()))?;
        Ok(Seq(list))
    }
}

/// A sequence of integers of 64 bits: strides.
pub struct WideSeq(pub SmallVec<[i64; 6]>);

impl<'a, 'py> FromPyObject<'a, 'py> for WideSeq {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        // The common case needs no iterator.
        if let Ok(tuple) = obj.cast_exact::<PyTuple>() {
            let mut list = SmallVec::with_capacity(tuple.len());
            for item in tuple.iter_borrowed() {
                list.push(integer(item)?);
            }
            return Ok(WideSeq(list));
        }
        if !is_sequence(&obj) {
            let text = format!("expected a sequence of integers, got {}", type_name(&obj));
            return Err(PyTypeError::new_err(text));
        }
        let items = obj.try_iter()?.map(|item| integer(item?.as_borrowed()));
        Ok(WideSeq(items.collect::<PyResult<_>>()?))
    }
}

/// Lists, tuples, ranges, arrays and the like; no strings, dicts, sets or generators.
pub fn is_sequence(obj: &Bound<'_, PyAny>) -> bool {
    if obj.is_instance_of::<PyString>() || obj.is_instance_of::<PyBytes>() {
        return false;
    }
    // SAFETY: the object is alive and the interpreter is attached.
    obj.is_instance_of::<PyArray>() || unsafe { pyo3::ffi::PySequence_Check(obj.as_ptr()) == 1 }
}

/// An argument that may be left out, but is not None when it is given.
pub struct Given<T>(pub Option<T>);

impl<'a, 'py, T: FromPyObject<'a, 'py>> FromPyObject<'a, 'py> for Given<T> {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if obj.is_none() {
            return Err(PyTypeError::new_err("an argument that has a default must not be None"));
        }
        Ok(Given(Some(obj.extract::<T>().map_err(Into::into)?)))
    }
}

/// An argument as it is, None too, or nothing where it was left out.
pub struct Passed<'py>(pub Option<Bound<'py, PyAny>>);

impl<'a, 'py> FromPyObject<'a, 'py> for Passed<'py> {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Passed(Some(obj.to_owned())))
    }
}

/// The error with a note of the argument that was wrong, as arguments that are converted before the call have it.
pub fn processing(e: PyErr, py: Python<'_>, argument: &str) -> PyErr {
    let note = format!("while processing '{argument}'");
    // Without the note the error still is one.
    drop(e.value(py).call_method1(intern!(py, "add_note"), (note,)));
    e
}

/// A seed: an integer of 64 bits without a sign.
pub struct Seed(pub u64);

impl<'a, 'py> FromPyObject<'a, 'py> for Seed {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let wrong = |_| PyTypeError::new_err("expected an integer from 0 to 2**64 - 1");
        Ok(Seed(obj.extract::<u64>().map_err(wrong)?))
    }
}
