//! Python values to arrays and back: scalars with weak promotion, nested lists, buffers, `__mlx_array__` and
//! `__array__` objects.

use half::{bf16, f16};
use pyo3::exceptions::{
    PyBufferError, PyIndexError, PyKeyboardInterrupt, PyNotImplementedError, PyOverflowError, PyRuntimeError,
    PyTypeError, PyValueError,
};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyList, PyTuple, PyType};

use super::PyArray;
use super::arguments::type_name;
use crate::core::layout::{MOST_AXES, checked_size};
use crate::core::{Array, Device, DeviceKind, Dtype, Error, Foreign, Result, Shape, default_stream};
use crate::ops;
use crate::python::runtime::ending;

impl From<PyErr> for Error {
    fn from(e: PyErr) -> Error {
        Error::Foreign { text: e.to_string(), exception: Foreign(std::sync::Arc::new(e)) }
    }
}

impl From<Error> for PyErr {
    fn from(e: Error) -> PyErr {
        let text = e.to_string();
        match e {
            Error::Value(_) => PyValueError::new_err(text),
            Error::Overflow(_) => PyOverflowError::new_err(text),
            Error::Type(_) => PyTypeError::new_err(text),
            Error::Index(_) => PyIndexError::new_err(text),
            Error::Runtime(_) | Error::OutOfMemory { .. } | Error::Dropped => PyRuntimeError::new_err(text),
            Error::Interrupted => ending::raised().unwrap_or_else(|| PyKeyboardInterrupt::new_err(text)),
            Error::NotImplemented(_) => PyNotImplementedError::new_err(text),
            Error::Foreign { exception, .. } => {
                let inner = exception.0.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
                let raised = exception.0.downcast_ref::<PyErr>().or(inner.and_then(|e| e.downcast_ref()));
                match raised {
                    Some(e) => Python::attach(|py| e.clone_ref(py)),
                    None => PyRuntimeError::new_err(text),
                }
            }
        }
    }
}

/// Whether the dtype of an operand counts in promotion (a Python scalar's or buffer's does not).
fn is_strong(obj: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(obj.is_instance_of::<PyArray>()
        || (!is_scalar(obj) && obj.hasattr(intern!(obj.py(), "__mlx_array__"))?))
}

pub(super) fn is_scalar(obj: &Bound<'_, PyAny>) -> bool {
    obj.is_instance_of::<PyInt>() || obj.is_instance_of::<PyFloat>() || obj.is_instance_of::<PyComplex>()
}

pub(super) fn mlx_array(obj: &Bound<'_, PyAny>) -> PyResult<Option<Array>> {
    let Some(method) = obj.getattr_opt(intern!(obj.py(), "__mlx_array__"))? else { return Ok(None) };
    let made = method.call0()?;
    match made.cast::<PyArray>() {
        Ok(a) => Ok(Some(a.get().array())),
        Err(_) => Err(PyTypeError::new_err("__mlx_array__ must return an mlx.core.array")),
    }
}

/// The array that an operand stands for; `like` is the dtype that a weak operand adopts where it can.
/// `None` for objects that are no operand.
pub fn operand(obj: &Bound<'_, PyAny>, like: Option<Dtype>) -> PyResult<Option<Array>> {
    if let Ok(a) = obj.cast::<PyArray>() {
        return Ok(Some(a.get().array()));
    }
    if obj.is_instance_of::<PyFloat>() {
        let dtype = like.filter(|d| d.is_float()).unwrap_or(Dtype::F32);
        let v: f64 = obj.extract()?;
        if like.is_none() {
            return Ok(Some(ops::scalar_f64(v, dtype)?));
        }
        return kept(v.to_bits(), dtype, || ops::scalar_f64(v, dtype)).map(Some);
    }
    if let Ok(b) = obj.cast::<PyBool>() {
        return Ok(Some(ops::scalar_i64(i64::from(b.is_true()), like.unwrap_or(Dtype::Bool))?));
    }
    if obj.is_instance_of::<PyInt>() {
        return int_scalar(obj, like).map(Some);
    }
    if let Ok(c) = obj.cast::<PyComplex>() {
        return Ok(Some(ops::scalar_c64(c.real() as f32, c.imag() as f32)?));
    }
    if let Some(a) = mlx_array(obj)? {
        return Ok(Some(a));
    }
    if let Some(a) = foreign(obj, like)? {
        return Ok(Some(a));
    }
    // Other kinds of numbers (Decimal, Fraction) are complex numbers to MLX.
    let kind = obj.get_type();
    if kind.hasattr("__complex__")? || kind.hasattr("__float__")? {
        let number = obj.py().get_type::<PyComplex>().call1((obj,))?;
        let c = number.cast::<PyComplex>()?;
        return Ok(Some(ops::scalar_c64(c.real() as f32, c.imag() as f32)?));
    }
    Ok(None)
}

fn int_scalar(obj: &Bound<'_, PyAny>, like: Option<Dtype>) -> PyResult<Array> {
    let Ok(v) = obj.extract::<i64>() else {
        return match (obj.extract::<u64>(), like) {
            (Ok(v), None | Some(Dtype::U64)) => Ok(ops::scalar_i64(v as i64, Dtype::U64)?),
            (_, Some(d)) if d.is_inexact() => Ok(ops::scalar_f64(obj.extract()?, d)?),
            (_, d) => Err(overflow(obj, d.unwrap_or(Dtype::I64))),
        };
    };
    let dtype = match like {
        None if i32::try_from(v).is_ok() => Dtype::I32,
        None => Dtype::I64,
        Some(Dtype::Bool) => Dtype::I32,
        Some(d) => d,
    };
    if dtype.is_integer() && dtype.size() < 8 {
        let (lo, hi) = int_range(dtype);
        if i128::from(v) < lo || i128::from(v) > hi {
            return Err(overflow(obj, dtype));
        }
    }
    if like.is_none() {
        return Ok(ops::scalar_i64(v, dtype)?);
    }
    // Beyond 2^52 a float does not hold every int.
    if dtype.is_integer() || v.unsigned_abs() >= 1 << 52 {
        return Ok(ops::scalar_i64(v, dtype)?);
    }
    kept((v as f64).to_bits(), dtype, || ops::scalar_i64(v, dtype))
}

const KEPT: usize = 64;

thread_local! {
    // Scalars of recent expressions such as `x + 1.0`: bits of the number, dtype and the array.
    static SCALARS: std::cell::RefCell<[Option<(u64, Dtype, Array)>; KEPT]> =
        const { std::cell::RefCell::new([const { None }; KEPT]) };
}

/// A scalar operand that a recent expression used already, else a new one. Arrays never change, so that
/// expressions may share them.
fn kept(bits: u64, dtype: Dtype, new: impl FnOnce() -> Result<Array>) -> PyResult<Array> {
    let mixed = (bits ^ (dtype as u64)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // FITS: six bits.
    let slot = (mixed >> 58) as usize;
    let found = SCALARS.try_with(|c| match &c.borrow()[slot] {
        Some((b, d, a)) if *b == bits && *d == dtype => Some(a.clone()),
        _ => None,
    });
    if let Ok(Some(a)) = found {
        return Ok(a);
    }
    let a = new()?;
    let old = SCALARS.try_with(|c| c.borrow_mut()[slot].replace((bits, dtype, a.clone())));
    drop(old);
    Ok(a)
}

pub(super) fn overflow(obj: &Bound<'_, PyAny>, dtype: Dtype) -> PyErr {
    PyValueError::new_err(format!("Converting {obj} to {dtype} would result in overflow."))
}

/// Smallest and largest value of an integer dtype.
pub fn int_range(dtype: Dtype) -> (i128, i128) {
    // FITS: at most 64.
    let bits = dtype.size() as u32 * 8;
    match dtype.kind() {
        crate::core::Kind::Signed => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        // FITS: at most 64 bits.
        _ => (0, (1i128 << bits) - 1),
    }
}

/// Arrays of other libraries: the buffer protocol, else DLPack, else `__array__`.
fn foreign(obj: &Bound<'_, PyAny>, dtype: Option<Dtype>) -> PyResult<Option<Array>> {
    // A class has the methods of its objects.
    if obj.is_instance_of::<PyType>() {
        return Ok(None);
    }
    let producer = super::dlpack::is_producer(obj)?;
    if is_buffer(obj) {
        match super::buffer::import(obj, dtype) {
            // Some have a buffer but not for every dtype: JAX has none for bfloat16.
            Err(e) if producer && e.is_instance_of::<PyBufferError>(obj.py()) => {}
            made => return made.map(Some),
        }
    }
    if producer {
        let wide = dtype.filter(|&d| d == Dtype::F64);
        return cast(super::dlpack::import(obj, wide, Some(true))?, dtype).map(Some);
    }
    if let Some(method) = obj.getattr_opt(intern!(obj.py(), "__array__"))? {
        let made = method.call0()?;
        return super::buffer::import(&made, dtype).map(Some);
    }
    Ok(None)
}

fn is_buffer(obj: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is alive and the interpreter is attached.
    unsafe { pyo3::ffi::PyObject_CheckBuffer(obj.as_ptr()) == 1 }
}

/// As [`operand`], with MLX's message for what is no array.
pub fn to_array(obj: &Bound<'_, PyAny>, like: Option<Dtype>) -> PyResult<Array> {
    match operand(obj, like)? {
        Some(a) => Ok(a),
        None if obj.is_none() => Err(PyTypeError::new_err("expected a scalar or an array, got None")),
        None => Err(invalid(obj)),
    }
}

pub(super) fn invalid(obj: &Bound<'_, PyAny>) -> PyErr {
    PyValueError::new_err(format!("Invalid type {} received in array initialization.", type_name(obj)))
}

/// Two operands: a weak one adopts the dtype of the other where it can.
pub fn to_arrays(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<(Array, Array)> {
    if is_strong(a)? {
        let x = to_array(a, None)?;
        let y = to_array(b, Some(x.dtype()))?;
        return Ok((x, y));
    }
    if is_strong(b)? {
        let y = to_array(b, None)?;
        return Ok((to_array(a, Some(y.dtype()))?, y));
    }
    Ok((to_array(a, None)?, to_array(b, None)?))
}

/// What `mx.array(value, dtype)` makes.
pub fn make(obj: &Bound<'_, PyAny>, dtype: Option<Dtype>) -> PyResult<Array> {
    if obj.is_instance_of::<PyList>() || obj.is_instance_of::<PyTuple>() {
        return from_nested(obj, dtype);
    }
    if obj.is_none() {
        return Err(PyTypeError::new_err("array(): expected a scalar, sequence or array, got None"));
    }
    if let (true, Some(d)) = (is_scalar(obj), dtype) {
        // An explicit dtype converts, it does not check the range.
        let value = number(obj)?.ok_or_else(|| invalid(obj))?;
        // SAFETY: memory for one element of `d`.
        return Ok(ops::from_host(&[], d, |p| unsafe { store(p, 0, d, value) })?);
    }
    if !is_scalar(obj) && !obj.is_instance_of::<PyArray>() && mlx_array(obj)?.is_none() {
        // Other kinds of numbers are operands only.
        return foreign(obj, dtype)?.ok_or_else(|| invalid(obj));
    }
    let a = operand(obj, None)?.ok_or_else(|| invalid(obj))?;
    cast(a, dtype)
}

/// Converts on the default stream, or on the CPU where float64 is involved.
pub fn cast(a: Array, dtype: Option<Dtype>) -> PyResult<Array> {
    match dtype {
        Some(d) if d != a.dtype() => {
            let s = if a.dtype() == Dtype::F64 || d == Dtype::F64 {
                default_stream(Device::CPU)
            } else {
                crate::python::runtime::device::current()
            };
            Ok(ops::astype(&a, d, s)?)
        }
        _ => Ok(a),
    }
}

/// A Python number on its way into an element.
#[derive(Clone, Copy)]
pub enum Num {
    /// Integers and bools; those above `i64::MAX` by their bits.
    Int(i64),
    /// Floats.
    Float(f64),
    /// Complex numbers.
    Complex(f64, f64),
}

fn number(obj: &Bound<'_, PyAny>) -> PyResult<Option<Num>> {
    Ok(Some(if obj.is_instance_of::<PyFloat>() {
        Num::Float(obj.extract()?)
    } else if obj.is_instance_of::<PyInt>() {
        match obj.extract::<i64>() {
            Ok(v) => Num::Int(v),
            Err(_) => match obj.extract::<u64>() {
                Ok(v) => Num::Int(v as i64),
                Err(_) => return Err(overflow(obj, Dtype::I64)),
            },
        }
    } else if let Ok(c) = obj.cast::<PyComplex>() {
        Num::Complex(c.real(), c.imag())
    } else {
        return Ok(None);
    }))
}

/// A float as an integer of `dtype`, before it is reduced by its width: what lies outside gives what `astype` gives.
fn integer(v: f64, dtype: Dtype) -> i64 {
    const TOP: f64 = (1u64 << 63) as f64;
    match dtype {
        Dtype::U8 | Dtype::U16 | Dtype::I8 | Dtype::I16 | Dtype::I32 => {
            // FITS: of less than 32 bits, as was asked.
            i64::from(if v.abs() < (1u64 << 31) as f64 { v as i32 } else { i32::MIN })
        }
        // FITS: the same bits.
        Dtype::U64 if v >= TOP => {
            if v < 2.0 * TOP {
                v as u64 as i64
            } else {
                0
            }
        }
        _ if v.abs() < TOP => v as i64,
        _ => i64::MIN,
    }
}

/// Writes element `i` of an array of `dtype` that starts at `p`.
///
/// # Safety
/// `p` must be valid for writing elements `0..=i`.
pub unsafe fn store(p: *mut u8, i: usize, dtype: Dtype, value: Num) {
    let (int, float, imag) = match value {
        Num::Int(v) => (v, v as f64, 0.0),
        Num::Float(v) => (integer(v, dtype), v, 0.0),
        Num::Complex(re, im) => (integer(re, dtype), re, im),
    };
    macro_rules! put {
        ($t:ty, $v:expr) => {
            // SAFETY: by the contract of this function.
            unsafe { p.cast::<$t>().add(i).write_unaligned($v) }
        };
    }
    match dtype {
        Dtype::Bool => put!(u8, u8::from(float != 0.0 || imag != 0.0)),
        // FITS: integers are reduced by their width, as MLX does.
        Dtype::U8 => put!(u8, int as u8),
        Dtype::U16 => put!(u16, int as u16),
        Dtype::U32 => put!(u32, int as u32),
        Dtype::U64 => put!(u64, int as u64),
        Dtype::I8 => put!(i8, int as i8),
        Dtype::I16 => put!(i16, int as i16),
        Dtype::I32 => put!(i32, int as i32),
        Dtype::I64 => put!(i64, int),
        Dtype::F16 => put!(f16, f16::from_f64(float)),
        Dtype::BF16 => put!(bf16, bf16::from_f32(float as f32)),
        Dtype::F32 => put!(f32, float as f32),
        Dtype::F64 => put!(f64, float),
        Dtype::C64 => put!([f32; 2], [float as f32, imag as f32]),
    }
}

#[derive(Default)]
struct Scan {
    shape: Shape,
    count: usize,
    wide: bool,
    huge: bool,
    /// 0 bool, 1 int, 2 float, 3 complex.
    rank: u8,
}

pub(super) fn items<'py>(obj: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    if let Ok(l) = obj.cast::<PyList>() {
        Some(l.iter().collect())
    } else if let Ok(t) = obj.cast::<PyTuple>() {
        Some(t.iter().collect())
    } else {
        None
    }
}

/// The depth below a list. A list may hold itself.
fn deeper(depth: usize) -> PyResult<usize> {
    if depth == MOST_AXES {
        return Err(PyValueError::new_err(format!(
            "[array] Lists are nested more than {MOST_AXES} deep, or hold themselves; arrays have at most {MOST_AXES} \
             axes."
        )));
    }
    Ok(depth + 1)
}

fn scan(obj: &Bound<'_, PyAny>, depth: usize, s: &mut Scan) -> PyResult<()> {
    if let Some(list) = items(obj) {
        let below = deeper(depth)?;
        if depth == s.shape.len() {
            if s.count > 0 {
                return Err(PyValueError::new_err("Initialization encountered extra dimension."));
            }
            s.shape.push(list.len() as i64);
        } else if s.shape[depth] != list.len() as i64 {
            return Err(PyValueError::new_err("Initialization encountered non-uniform length."));
        }
        return list.iter().try_for_each(|x| scan(x, below, s));
    }
    if depth != s.shape.len() {
        return Err(PyValueError::new_err("Initialization encountered non-uniform length."));
    }
    s.count += 1;
    s.rank = s.rank.max(if obj.is_instance_of::<PyBool>() {
        0
    } else if obj.is_instance_of::<PyInt>() {
        s.wide |= obj.extract::<i32>().is_err();
        s.huge |= s.wide && obj.extract::<i64>().is_err();
        1
    } else if obj.is_instance_of::<PyFloat>() {
        2
    } else {
        3
    });
    Ok(())
}

fn has_arrays(obj: &Bound<'_, PyAny>, depth: usize) -> PyResult<bool> {
    let Some(list) = items(obj) else { return Ok(!is_scalar(obj)) };
    let below = deeper(depth)?;
    for x in &list {
        if has_arrays(x, below)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn from_nested(obj: &Bound<'_, PyAny>, dtype: Option<Dtype>) -> PyResult<Array> {
    let mut s = Scan::default();
    if has_arrays(obj, 0)? {
        let a = stack_nested(obj, 0)?;
        return cast(a, dtype);
    }
    scan(obj, 0, &mut s)?;
    let natural = match s.rank {
        _ if s.count == 0 => Dtype::F32,
        0 => Dtype::Bool,
        1 if s.huge => Dtype::U64,
        1 if s.wide => Dtype::I64,
        1 => Dtype::I32,
        2 => Dtype::F32,
        _ => Dtype::C64,
    };
    let dtype = dtype.unwrap_or(natural);
    let count = checked_size("array", &s.shape, dtype.size())?;
    let mut left = 0..count;
    let mut failure = Ok(());
    let a = ops::from_host(&s.shape, dtype, |p| failure = fill(obj, 0, p, dtype, &mut left))?;
    failure?;
    Ok(a)
}

/// Writes the numbers of a list to the places that are `left`.
fn fill(
    obj: &Bound<'_, PyAny>,
    depth: usize,
    p: *mut u8,
    dtype: Dtype,
    left: &mut std::ops::Range<usize>,
) -> PyResult<()> {
    if let Some(list) = items(obj) {
        let below = deeper(depth)?;
        return list.iter().try_for_each(|x| fill(x, below, p, dtype, left));
    }
    let value = number(obj)?.ok_or_else(|| invalid(obj))?;
    let place = left.next().ok_or_else(|| PyValueError::new_err("[array] The list changed meanwhile."))?;
    // SAFETY: `p` has room for the elements that were left in the beginning.
    unsafe { store(p, place, dtype, value) };
    Ok(())
}

fn stack_nested(obj: &Bound<'_, PyAny>, depth: usize) -> PyResult<Array> {
    let Some(list) = items(obj) else {
        return if obj.is_none() { Err(invalid(obj)) } else { make(obj, None) };
    };
    let below = deeper(depth)?;
    let mut parts = list.iter().map(|x| stack_nested(x, below)).collect::<PyResult<Vec<_>>>()?;
    if parts.is_empty() {
        return from_nested(obj, None);
    }
    let dtype = parts.iter().map(Array::dtype).reduce(Dtype::promote).unwrap_or(Dtype::F32);
    if parts.iter().any(|p| p.shape() != parts[0].shape()) {
        return Err(PyValueError::new_err("Initialization encountered non-uniform length."));
    }
    for p in &mut parts {
        *p = cast(p.clone(), Some(dtype))?;
    }
    Ok(ops::stack(&parts, 0, crate::python::runtime::device::current())?)
}

/// The element at `p` as a Python object.
///
/// # Safety
/// `p` must point at a readable element of `dtype`.
pub unsafe fn element<'py>(py: Python<'py>, p: *const u8, dtype: Dtype) -> PyResult<Bound<'py, PyAny>> {
    macro_rules! get {
        ($t:ty) => {
            // SAFETY: by the contract of this function.
            unsafe { p.cast::<$t>().read_unaligned() }
        };
    }
    Ok(match dtype {
        Dtype::Bool => PyBool::new(py, get!(u8) != 0).to_owned().into_any(),
        Dtype::U8 => get!(u8).into_pyobject(py)?.into_any(),
        Dtype::U16 => get!(u16).into_pyobject(py)?.into_any(),
        Dtype::U32 => get!(u32).into_pyobject(py)?.into_any(),
        Dtype::U64 => get!(u64).into_pyobject(py)?.into_any(),
        Dtype::I8 => get!(i8).into_pyobject(py)?.into_any(),
        Dtype::I16 => get!(i16).into_pyobject(py)?.into_any(),
        Dtype::I32 => get!(i32).into_pyobject(py)?.into_any(),
        Dtype::I64 => get!(i64).into_pyobject(py)?.into_any(),
        Dtype::F16 => PyFloat::new(py, get!(f16).to_f64()).into_any(),
        Dtype::BF16 => PyFloat::new(py, get!(bf16).to_f64()).into_any(),
        Dtype::F32 => PyFloat::new(py, f64::from(get!(f32))).into_any(),
        Dtype::F64 => PyFloat::new(py, get!(f64)).into_any(),
        Dtype::C64 => {
            let [re, im] = get!([f32; 2]);
            PyComplex::from_doubles(py, f64::from(re), f64::from(im)).into_any()
        }
    })
}

/// A view this many times smaller than its storage is copied on the GPU before it crosses over.
const WORTH_COPYING: usize = 4;

/// Evaluates and returns the host address of the first element, without holding the interpreter, and the
/// array whose layout it follows: a small part of a large array on a GPU is read through a copy of that part.
pub fn host(py: Python<'_>, a: &Array) -> PyResult<(Array, *const u8)> {
    read(py, a, crate::eval::eval, Array::wait_event_for_stream)
}

/// As [`host`], but does not tell what went wrong elsewhere before.
pub fn host_of(py: Python<'_>, a: &Array) -> PyResult<(Array, *const u8)> {
    read(py, a, crate::eval::compute, Array::wait_event_alone)
}

fn read(
    py: Python<'_>,
    a: &Array,
    eval: fn(&[Array]) -> Result<()>,
    wait: fn(&Array) -> Result<()>,
) -> PyResult<(Array, *const u8)> {
    let (read, address) = py.detach(|| -> Result<(Array, usize)> {
        crate::eval::until_done(|| {
            if !a.is_scheduled() {
                eval(std::slice::from_ref(a))?;
            }
            wait(a)
        })?;
        let storage = &a.data()?.storage;
        let part = a.nbytes().saturating_mul(WORTH_COPYING) < storage.nbytes();
        let read = match storage.only_on_gpu() {
            Some(index) if part && a.size() > 0 => {
                let copy = ops::copy(a, default_stream(Device { kind: DeviceKind::Gpu, index }))?;
                eval(std::slice::from_ref(&copy))?;
                copy
            }
            _ => a.clone(),
        };
        // FITS: an address.
        let address = read.host_ptr()? as usize;
        Ok((read, address))
    })?;
    Ok((read, address as *const u8))
}
