//! Arrays as memory of Python: the buffer protocol both ways, `__array__`, and the state for pickles. A buffer shows
//! the evaluated bytes in place; it is writable unless elements repeat or a copy on a GPU would then differ.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::ptr;

use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use super::PyArray;
use super::convert::{Num, cast, host, host_of, store};
use crate::core::layout::{MOST_AXES, checked_size, row_major};
use crate::core::{Array, Device, Dtype, Shape, default_stream};
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

thread_local! {
    // What was wrong with the last array: NumPy passes over errors of the buffer protocol, even over Ctrl-C, and asks for
    // `__array__` next.
    static PASSED_OVER: Cell<Option<(u64, PyErr)>> = const { Cell::new(None) };
}

/// Fills `view` for `owner`; the array is evaluated first.
///
/// # Safety
/// `view` must be the pointer that the interpreter passed to the slot.
pub unsafe fn export(owner: &Bound<'_, PyArray>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
    let (py, array) = (owner.py(), owner.get().array());
    PASSED_OVER.take();
    let (a, p) = host_of(py, &array).inspect_err(|e| PASSED_OVER.set(Some((array.id(), e.clone_ref(py)))))?;
    let data = a.data()?;
    let size = a.dtype().size() as ffi::Py_ssize_t;
    let contiguous = a.layout()?.is_row_contiguous();
    let repeats = a.shape().iter().zip(&data.strides).any(|(&d, &s)| d > 1 && s == 0);
    let unified = data.storage.any_device_block().is_none_or(|d| d.mapped().is_some());
    let writable = unified && !repeats && !data.storage.is_lent();
    if !contiguous && flags & ffi::PyBUF_STRIDES != ffi::PyBUF_STRIDES {
        return Err(PyBufferError::new_err("the array is not contiguous"));
    }
    if !contiguous && flags & ffi::PyBUF_C_CONTIGUOUS == ffi::PyBUF_C_CONTIGUOUS {
        return Err(PyBufferError::new_err("the array is not contiguous"));
    }
    if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE && !writable {
        return Err(PyBufferError::new_err(
            "the array cannot be written in place: it repeats elements, has a copy on a GPU or borrows its memory",
        ));
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
        // FITS: at most 64.
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
    if let Some((_, e)) = PASSED_OVER.take().filter(|(id, _)| *id == slf.get().array().id()) {
        return Err(e);
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
    // The bytes go to the host anyway, and a GPU stream does not take float64.
    let (a, p) = host(py, &ops::contiguous(a, false, default_stream(Device::CPU))?)?;
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
    let want = checked_size("array", &shape, dtype.size())? * dtype.size();
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

/// A buffer of another object, released when dropped.
struct Incoming(Box<ffi::Py_buffer>);

impl Drop for Incoming {
    fn drop(&mut self) {
        // SAFETY: filled by PyObject_GetBuffer and released once, with the interpreter attached.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.0) };
    }
}

/// The bytes of another object's row-major buffer in place, in elements that need no conversion (as bools do).
pub struct Borrowed {
    view: Incoming,
    /// Dimensions.
    pub shape: Shape,
    /// Element type.
    pub dtype: Dtype,
}

// SAFETY: the view is only read, and released with the interpreter attached: whatever holds it is a Python object.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

impl Borrowed {
    /// The buffer of `obj`, if it is one of that kind.
    pub fn new(obj: &Bound<'_, PyAny>) -> Option<Borrowed> {
        let mut view = Box::new(ffi::Py_buffer::new());
        let flags = ffi::PyBUF_C_CONTIGUOUS | ffi::PyBUF_FORMAT;
        // SAFETY: a zeroed view is what the call expects; `obj` is alive.
        if unsafe { ffi::PyObject_GetBuffer(obj.as_ptr(), &raw mut *view, flags) } != 0 {
            drop(PyErr::fetch(obj.py()));
            return None;
        }
        let view = Incoming(view);
        let (v, n) = (&view.0, axes_of(&view.0).ok()?);
        if v.format.is_null() || (n > 0 && v.shape.is_null()) {
            return None;
        }
        // SAFETY: format and shape were asked for and are there.
        let format = unsafe { CStr::from_ptr(v.format) }.to_string_lossy();
        let size = usize::try_from(v.itemsize).ok()?;
        let dtype = element_type(&format, size)?;
        if dtype.size() != size || matches!(dtype, Dtype::F64 | Dtype::Bool) {
            return None;
        }
        // SAFETY: as above.
        let shape = if n == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(v.shape, n) } };
        let shape: Shape = shape.iter().map(|&d| d as i64).collect();
        Some(Borrowed { view, shape, dtype })
    }

    /// First byte.
    pub fn ptr(&self) -> *const u8 {
        self.view.0.buf.cast::<u8>().cast_const()
    }
}

/// Element type of a buffer format; complex128 is read as complex64 and has no dtype of its own.
fn element_type(format: &str, size: usize) -> Option<Dtype> {
    if format == "bfloat16" {
        return Some(Dtype::BF16);
    }
    let f = format.strip_prefix(['@', '=', '<', '|']).unwrap_or(format);
    Some(match (f, size) {
        ("?", 1) => Dtype::Bool,
        ("b", 1) => Dtype::I8,
        ("B" | "c", 1) => Dtype::U8,
        ("h", 2) => Dtype::I16,
        ("H", 2) => Dtype::U16,
        ("i" | "l", 4) => Dtype::I32,
        ("I" | "L", 4) => Dtype::U32,
        ("l" | "q" | "n", 8) => Dtype::I64,
        ("L" | "Q" | "N", 8) => Dtype::U64,
        ("e", 2) => Dtype::F16,
        ("f", 4) => Dtype::F32,
        ("d", 8) => Dtype::F64,
        ("Zf", 8) | ("Zd", 16) => Dtype::C64,
        _ => return None,
    })
}

/// Fails for strides that lead to where no memory can be.
fn check_reach(base: usize, shape: &[i64], strides: &[isize], size: usize) -> PyResult<()> {
    if shape.contains(&0) {
        return Ok(());
    }
    // In wide numbers: strides are whatever the exporter says.
    let steps = || shape.iter().zip(strides).map(|(&d, &s)| i128::from(d - 1) * s as i128);
    let low: i128 = base as i128 + steps().filter(|&s| s < 0).sum::<i128>();
    let high: i128 = base as i128 + steps().filter(|&s| s > 0).sum::<i128>() + size as i128;
    if low < 0 || high > isize::MAX as i128 {
        return Err(PyValueError::new_err("[array] The strides of the buffer lead outside of any memory."));
    }
    Ok(())
}

/// How many axes a buffer says that it has.
fn axes_of(view: &ffi::Py_buffer) -> PyResult<usize> {
    let axes = usize::try_from(view.ndim).ok().filter(|&n| n <= MOST_AXES);
    axes.ok_or_else(|| PyValueError::new_err(format!("[array] A buffer of {} axes.", view.ndim)))
}

/// Bytes from which on a copy leaves the interpreter to other threads, and asks where the array will be used: fewer stay on the
/// host in any case.
const LARGE: usize = 4 << 20;

/// Copies the buffer of another object. float64 becomes float32 and complex128 complex64 unless `dtype` says
/// otherwise.
pub fn import(obj: &Bound<'_, PyAny>, dtype: Option<Dtype>) -> PyResult<Array> {
    let mut view = Box::new(ffi::Py_buffer::new());
    // SAFETY: a zeroed view is what the call expects; `obj` is alive.
    if unsafe { ffi::PyObject_GetBuffer(obj.as_ptr(), &raw mut *view, ffi::PyBUF_FULL_RO) } != 0 {
        return Err(PyErr::fetch(obj.py()));
    }
    let view = Incoming(view);
    let v = &view.0;
    let (n, size) = (axes_of(v)?, usize::try_from(v.itemsize).unwrap_or(0));
    // SAFETY: a full view has a format string, or none for bytes.
    let format = match v.format.is_null() {
        true => "B".into(),
        false => unsafe { CStr::from_ptr(v.format) }.to_string_lossy(),
    };
    let Some(source) = element_type(&format, size) else {
        return Err(PyValueError::new_err(format!(
            "[array] Buffers of format '{format}' with items of {size} bytes are not supported."
        )));
    };
    let numbers = |p: *mut ffi::Py_ssize_t| match p.is_null() || n == 0 {
        true => &[][..],
        // SAFETY: shape and strides of a view have `ndim` entries where they are given.
        false => unsafe { std::slice::from_raw_parts(p, n) },
    };
    let shape: Shape = numbers(v.shape).iter().map(|&d| d as i64).collect();
    if shape.len() != n || !v.suboffsets.is_null() {
        return Err(PyValueError::new_err("[array] Buffers of indirect layout are not supported."));
    }
    let narrow = source == Dtype::F64 && dtype != Some(Dtype::F64);
    let made = if narrow { Dtype::F32 } else { source };
    let count = checked_size("array", &shape, made.size())?;
    let base = v.buf.cast::<u8>().cast_const();
    let steps = row_major(&shape);
    // Row-major buffers need not say so, those of ctypes do not.
    let strides: Vec<isize> = match v.strides.is_null() {
        true => steps.iter().map(|&s| s as isize * size as isize).collect(),
        false => numbers(v.strides).to_vec(),
    };
    // FITS: an address.
    check_reach(base as usize, &shape, &strides, size)?;
    let dense = made.size() == size
        && strides.iter().zip(&steps).zip(&shape).all(|((&s, &r), &d)| d == 1 || s as i64 == r * size as i64);
    if dense && count * size >= LARGE {
        let (at, stream) = (base as usize, crate::python::runtime::device::current());
        // SAFETY: the view has that many elements, and stays.
        let copy = || unsafe { ops::from_elements(&shape, made, at as *const u8, stream) };
        return cast(obj.py().detach(copy)?, dtype);
    }
    let a = ops::from_host(&shape, made, |dst| {
        if dense {
            // SAFETY: both sides have `count` elements of `size` bytes and do not overlap.
            unsafe { ptr::copy_nonoverlapping(base, dst, count * size) };
            return;
        }
        for i in 0..count {
            let at = |axis: usize| ((i as i64 / steps[axis]) % shape[axis]) as isize * strides[axis];
            let at: isize = (0..n).map(at).sum();
            // SAFETY: the index runs over the buffer's own shape and strides; `dst` holds `count` elements.
            unsafe {
                let src = base.offset(at);
                match (source, size) {
                    (Dtype::F64, _) if narrow => {
                        store(dst, i, made, Num::Float(src.cast::<f64>().read_unaligned()));
                    }
                    (Dtype::C64, 16) => {
                        let [re, im] = src.cast::<[f64; 2]>().read_unaligned();
                        store(dst, i, made, Num::Complex(re, im));
                    }
                    _ => ptr::copy_nonoverlapping(src, dst.add(i * size), size),
                }
            }
        }
    })?;
    cast(a, dtype)
}
