//! Arrays as memory of Python: the buffer protocol, `__array__`, and the state for pickles. A buffer shows
//! the evaluated bytes in place; it is writable unless a copy on a GPU would then differ.

use std::ffi::{CStr, c_int};
use std::ptr;

use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use super::array::PyArray;
use super::convert::host;
use crate::core::{Array, Dtype};
use crate::ops;

/// What an exported view keeps alive: the array, and the numbers that the view points at.
struct Export {
    _array: Array,
    shape: Vec<ffi::Py_ssize_t>,
    strides: Vec<ffi::Py_ssize_t>,
}

fn format(d: Dtype) -> &'static CStr {
    match d {
        Dtype::Bool => c"?",
        Dtype::U8 => c"B",
        Dtype::U16 => c"H",
        Dtype::U32 => c"I",
        Dtype::U64 => c"Q",
        Dtype::I8 => c"b",
        Dtype::I16 => c"h",
        Dtype::I32 => c"i",
        Dtype::I64 => c"q",
        Dtype::F16 => c"e",
        Dtype::BF16 => c"bfloat16",
        Dtype::F32 => c"f",
        Dtype::F64 => c"d",
        Dtype::C64 => c"Zf",
    }
}

/// Fills `view` for `owner`; the array is evaluated first.
///
/// # Safety
/// `view` must be the pointer that the interpreter passed to the slot.
pub unsafe fn export(owner: &Bound<'_, PyArray>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
    let a = owner.get().array();
    let p = host(owner.py(), &a)?;
    let data = a.data()?;
    let size = a.dtype().size() as ffi::Py_ssize_t;
    let contiguous = a.layout()?.is_row_contiguous();
    let writable = match data.storage.any_device_block() {
        None => true,
        Some(d) => d.mapped().is_some(),
    };
    if !contiguous && flags & ffi::PyBUF_STRIDES != ffi::PyBUF_STRIDES {
        return Err(PyBufferError::new_err("the array is not contiguous"));
    }
    if !contiguous && flags & ffi::PyBUF_C_CONTIGUOUS == ffi::PyBUF_C_CONTIGUOUS {
        return Err(PyBufferError::new_err("the array is not contiguous"));
    }
    if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE && !writable {
        return Err(PyBufferError::new_err("the array has a copy on a GPU and cannot be written in place"));
    }
    let export = Box::new(Export {
        shape: a.shape().iter().map(|&d| d as ffi::Py_ssize_t).collect(),
        strides: data.strides.iter().map(|&s| s as ffi::Py_ssize_t * size).collect(),
        _array: a.clone(),
    });
    // SAFETY: the interpreter owns `view`; the arrays that it points at live in `internal` until release.
    unsafe {
        (*view).buf = p.cast_mut().cast();
        (*view).len = a.nbytes() as ffi::Py_ssize_t;
        (*view).itemsize = size;
        (*view).readonly = c_int::from(!writable);
        (*view).ndim = a.ndim() as c_int;
        (*view).format = if flags & ffi::PyBUF_FORMAT == ffi::PyBUF_FORMAT {
            format(a.dtype()).as_ptr().cast_mut()
        } else {
            ptr::null_mut()
        };
        (*view).shape = if flags & ffi::PyBUF_ND == ffi::PyBUF_ND {
            export.shape.as_ptr().cast_mut()
        } else {
            ptr::null_mut()
        };
        (*view).strides = if flags & ffi::PyBUF_STRIDES == ffi::PyBUF_STRIDES {
            export.strides.as_ptr().cast_mut()
        } else {
            ptr::null_mut()
        };
        (*view).suboffsets = ptr::null_mut();
        (*view).internal = Box::into_raw(export).cast();
        (*view).obj = owner.clone().into_ptr();
    }
    Ok(())
}

/// Frees what `export` allocated.
///
/// # Safety
/// `view` must come from `export`.
pub unsafe fn release(view: *mut ffi::Py_buffer) {
    // SAFETY: `internal` is the box that `export` leaked.
    drop(unsafe { Box::from_raw((*view).internal.cast::<Export>()) });
}

/// A NumPy array: a view of the bytes where no conversion or copy is asked for.
pub fn to_numpy<'py>(
    slf: &Bound<'py, PyArray>,
    dtype: Option<Bound<'py, PyAny>>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    if slf.get().array().dtype() == Dtype::BF16 {
        return Err(PyTypeError::new_err("bfloat16 arrays cannot be converted to NumPy."));
    }
    let view = py.import("builtins")?.getattr("memoryview")?.call1((slf,))?;
    let options = PyDict::new(py);
    options.set_item("dtype", dtype)?;
    match copy {
        None => py.import("numpy")?.call_method("asarray", (view,), Some(&options)),
        Some(copy) => {
            options.set_item("copy", copy)?;
            py.import("numpy")?.call_method("array", (view,), Some(&options))
        }
    }
}

/// (bytes in row-major order, shape, dtype name)
pub fn get_state<'py>(py: Python<'py>, a: &Array) -> PyResult<(Bound<'py, PyBytes>, Vec<i64>, &'static str)> {
    let s = super::device::current();
    let a = ops::contiguous(a, false, s)?;
    let p = host(py, &a)?;
    // SAFETY: a contiguous evaluated array has nbytes readable bytes at its first element.
    let bytes = if a.size() == 0 {
        PyBytes::new(py, &[])
    } else {
        PyBytes::new(py, unsafe { std::slice::from_raw_parts(p, a.nbytes()) })
    };
    Ok((bytes, a.shape().to_vec(), a.dtype().name()))
}

/// The array of a state made by `get_state`.
pub fn from_state(state: &Bound<'_, PyTuple>) -> PyResult<Array> {
    let (bytes, shape, name): (Bound<'_, PyBytes>, Vec<i64>, String) = state.extract()?;
    let dtype = Dtype::from_name(&name)
        .ok_or_else(|| PyValueError::new_err(format!("[array] Unknown dtype {name} in state.")))?;
    let bytes = bytes.as_bytes();
    let want = crate::core::layout::checked_size("array", &shape, dtype.size())? * dtype.size();
    if want != bytes.len() {
        return Err(PyValueError::new_err(format!(
            "[array] State of {} bytes does not fit its shape, expected {want}.",
            bytes.len()
        )));
    }
    // SAFETY: the destination has `want` bytes and overlaps nothing.
    Ok(ops::from_host(&shape, dtype, |dst| unsafe {
        ptr::copy_nonoverlapping(bytes.as_ptr(), dst, want);
    })?)
}
