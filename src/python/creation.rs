//! Functions that make arrays from nothing or in the likeness of others.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};

use super::array::{Out, PyArray, out};
use super::convert::{Arr, Given, Ints, make, to_array};
use super::device::{S, pick};
use super::dtype::D;
use crate::core::Dtype;
use crate::core::array::lengths_vary;
use crate::ops;

fn or(d: Option<D>, default: Dtype) -> Dtype {
    d.map_or(default, |d| d.0)
}

/// An array of `shape` filled with zeros; `dtype` is float32 by default.
///
/// >>> mx.zeros((2, 2), mx.int32)
/// array([[0, 0],
///        [0, 0]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (shape, dtype=None, *, stream=None))]
fn zeros(shape: Ints, dtype: Option<D>, stream: S) -> Out {
    out(ops::zeros(&shape.list, or(dtype, Dtype::F32), pick(stream)))
}

/// An array of `shape` filled with ones; `dtype` is float32 by default.
///
/// >>> mx.ones(3)
/// array([1, 1, 1], dtype=float32)
#[pyfunction]
#[pyo3(signature = (shape, dtype=None, *, stream=None))]
fn ones(shape: Ints, dtype: Option<D>, stream: S) -> Out {
    out(ops::ones(&shape.list, or(dtype, Dtype::F32), pick(stream)))
}

/// An array of `shape`; its elements are zeros, as MLX has it.
///
/// >>> mx.empty(2).shape
/// (2,)
#[pyfunction]
#[pyo3(signature = (shape, dtype=None, *, stream=None))]
fn empty(shape: Ints, dtype: Option<D>, stream: S) -> Out {
    zeros(shape, dtype, stream)
}

/// Zeros of the shape of `a`, and of its dtype unless another is given.
///
/// >>> mx.zeros_like(mx.array([1, 2]))
/// array([0, 0], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, dtype=None, *, stream=None))]
fn zeros_like(a: Arr, dtype: Option<D>, stream: S) -> Out {
    let (dtype, s) = (or(dtype, a.0.dtype()), pick(stream));
    if lengths_vary() {
        return out(ops::zeros_like(&a.0, s).and_then(|x| ops::astype(&x, dtype, s)));
    }
    out(ops::zeros(a.0.shape(), dtype, s))
}

/// Ones of the shape of `a`, and of its dtype unless another is given.
///
/// >>> mx.ones_like(mx.array([1.0, 2.0]))
/// array([1, 1], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, /, dtype=None, *, stream=None))]
fn ones_like(a: Arr, dtype: Option<D>, stream: S) -> Out {
    let (dtype, s) = (or(dtype, a.0.dtype()), pick(stream));
    if lengths_vary() {
        return out(ops::ones_like(&a.0, s).and_then(|x| ops::astype(&x, dtype, s)));
    }
    out(ops::ones(a.0.shape(), dtype, s))
}

/// An array of the shape of `a`; its elements are zeros.
///
/// >>> mx.empty_like(mx.array([1, 2])).shape
/// (2,)
#[pyfunction]
#[pyo3(signature = (a, /, dtype=None, *, stream=None))]
fn empty_like(a: Arr, dtype: Option<D>, stream: S) -> Out {
    zeros_like(a, dtype, stream)
}

/// An array of `shape` filled with `vals`, a scalar or an array that broadcasts to it.
///
/// >>> mx.full((2,), 7)
/// array([7, 7], dtype=int32)
#[pyfunction]
#[pyo3(signature = (shape, vals, dtype=None, *, stream=None))]
fn full(shape: Ints, vals: &Bound<'_, PyAny>, dtype: Option<D>, stream: S) -> Out {
    let dtype = dtype.map(|d| d.0);
    out(ops::full(&shape.list, &to_array(vals, dtype)?, dtype, pick(stream)))
}

/// An array of the shape of `a` filled with `vals`; the dtype is that of `a` unless another is given.
///
/// >>> mx.full_like(mx.array([1, 2]), 7)
/// array([7, 7], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, vals, dtype=None, *, stream=None))]
fn full_like(a: Arr, vals: &Bound<'_, PyAny>, dtype: Option<D>, stream: S) -> Out {
    let d = or(dtype, a.0.dtype());
    out(ops::full(a.0.shape(), &to_array(vals, Some(d))?, Some(d), pick(stream)))
}

fn natural(x: &Bound<'_, PyAny>) -> PyResult<(f64, Dtype)> {
    if x.is_instance_of::<PyBool>() {
        return Err(PyValueError::new_err("[arange] bool not supported for arange."));
    }
    if x.is_instance_of::<PyFloat>() {
        return Ok((x.extract()?, Dtype::F32));
    }
    if x.is_instance_of::<PyInt>() || x.hasattr("__index__")? {
        let v: i64 = x.extract()?;
        return Ok((v as f64, if i32::try_from(v).is_ok() { Dtype::I32 } else { Dtype::I64 }));
    }
    Err(PyTypeError::new_err("arange(): expected an int or a float"))
}

/// Numbers from `start` (default 0) up to but without `stop`, `step` (default 1) apart. Called with one
/// number, that is `stop`. int32 for integers (int64 where needed), float32 when a float is among them.
///
/// >>> mx.arange(5)
/// array([0, 1, 2, 3, 4], dtype=int32)
/// >>> mx.arange(1, 2, 0.5)
/// array([1, 1.5], dtype=float32)
#[pyfunction]
#[pyo3(
    signature = (start=Given(None), stop=None, step=None, dtype=None, *, stream=None),
    text_signature = "(start=None, stop=None, step=None, dtype=None, *, stream=None)"
)]
fn arange<'py>(
    start: Given<Bound<'py, PyAny>>,
    stop: Option<Bound<'py, PyAny>>,
    step: Option<Bound<'py, PyAny>>,
    dtype: Option<D>,
    stream: S,
) -> Out {
    let (start, stop) = match (start.0, stop) {
        (Some(n), None) => (None, Some(n)),
        other => other,
    };
    let mut kind = None;
    let mut read = |x: Option<Bound<'py, PyAny>>, default: f64| -> PyResult<f64> {
        let Some(x) = x else { return Ok(default) };
        let (v, d) = natural(&x)?;
        kind = Some(kind.map_or(d, |k: Dtype| k.promote(d)));
        Ok(v)
    };
    let start = read(start, 0.0)?;
    let Some(stop) = stop else {
        return Err(PyTypeError::new_err("arange(): missing argument 'stop'"));
    };
    let stop = read(Some(stop), 0.0)?;
    let step = read(step, 1.0)?;
    let dtype = or(dtype, kind.unwrap_or(Dtype::I32));
    out(ops::arange(start, stop, step, dtype, pick(stream)))
}

/// `num` evenly spaced numbers from `start` to `stop`, which is the last of them unless `endpoint` is false.
///
/// >>> mx.linspace(0, 1, 5)
/// array([0, 0.25, 0.5, 0.75, 1], dtype=float32)
#[pyfunction]
#[pyo3(signature = (start, stop, num=50, endpoint=true, dtype=None, stream=None))]
fn linspace(start: f64, stop: f64, num: Option<i64>, endpoint: bool, dtype: Option<D>, stream: S) -> Out {
    out(ops::linspace(start, stop, num.unwrap_or(50), endpoint, or(dtype, Dtype::F32), pick(stream)))
}

/// An `n` by `m` matrix (default square) with ones on diagonal `k`.
///
/// >>> mx.eye(2)
/// array([[1, 0],
///        [0, 1]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (n, m=None, k=0, dtype=None, *, stream=None))]
fn eye(n: i64, m: Option<i64>, k: i64, dtype: Option<D>, stream: S) -> Out {
    out(ops::eye(n, m.unwrap_or(n), k, or(dtype, Dtype::F32), pick(stream)))
}

/// The identity matrix of size `n`.
///
/// >>> mx.identity(2).shape
/// (2, 2)
#[pyfunction]
#[pyo3(signature = (n, dtype=None, *, stream=None))]
fn identity(n: i64, dtype: Option<D>, stream: S) -> Out {
    out(ops::identity(n, or(dtype, Dtype::F32), pick(stream)))
}

/// An `n` by `m` matrix (default square) with ones on and below diagonal `k`.
///
/// >>> mx.tri(2)
/// array([[1, 0],
///        [1, 1]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (n, m=None, k=0, dtype=None, *, stream=None))]
fn tri(n: i64, m: Option<i64>, k: i64, dtype: Option<D>, stream: S) -> Out {
    out(ops::tri(n, m.unwrap_or(n), k, or(dtype, Dtype::F32), pick(stream)))
}

/// The matrices of `x` with zeros above diagonal `k`.
///
/// >>> mx.tril(mx.ones((2, 2)))
/// array([[1, 0],
///        [1, 1]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (x, k=0, *, stream=None))]
fn tril(x: Arr, k: i64, stream: S) -> Out {
    out(ops::tril(&x.0, k, pick(stream)))
}

/// The matrices of `x` with zeros below diagonal `k`.
///
/// >>> mx.triu(mx.ones((2, 2)))
/// array([[1, 1],
///        [0, 1]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (x, k=0, *, stream=None))]
fn triu(x: Arr, k: i64, stream: S) -> Out {
    out(ops::triu(&x.0, k, pick(stream)))
}

/// An array from anything that `mx.array` takes. An array of the right dtype is returned as it is unless `copy`
/// is true; with `copy=False` host memory of objects with `__dlpack__` is shared, and ValueError raised for
/// what needs a copy.
///
/// >>> mx.asarray([1, 2])
/// array([1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, dtype=None, *, copy=None))]
fn asarray(a: &Bound<'_, PyAny>, dtype: Option<D>, copy: Option<bool>) -> Out {
    let own = a.is_instance_of::<PyArray>();
    if copy == Some(false) && !own {
        if super::dlpack::is_producer(a)? {
            return Ok(PyArray::new(super::dlpack::import(a, dtype.map(|d| d.0), copy)?));
        }
        return Err(PyValueError::new_err("[asarray] Unable to avoid a copy while creating an array."));
    }
    let x = make(a, dtype.map(|d| d.0))?;
    let same = a.cast::<PyArray>().is_ok_and(|a| a.get().array().same(&x));
    if copy == Some(false) && !same {
        return Err(PyValueError::new_err("[asarray] Cannot convert to the requested dtype without a copy."));
    }
    Ok(PyArray::new(if same && copy == Some(true) { ops::copy(&x, super::device::current())? } else { x }))
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    for f in [
        wrap_pyfunction!(zeros, m)?,
        wrap_pyfunction!(ones, m)?,
        wrap_pyfunction!(empty, m)?,
        wrap_pyfunction!(zeros_like, m)?,
        wrap_pyfunction!(ones_like, m)?,
        wrap_pyfunction!(empty_like, m)?,
        wrap_pyfunction!(full, m)?,
        wrap_pyfunction!(full_like, m)?,
        wrap_pyfunction!(arange, m)?,
        wrap_pyfunction!(linspace, m)?,
        wrap_pyfunction!(eye, m)?,
        wrap_pyfunction!(identity, m)?,
        wrap_pyfunction!(tri, m)?,
        wrap_pyfunction!(tril, m)?,
        wrap_pyfunction!(triu, m)?,
        wrap_pyfunction!(asarray, m)?,
    ] {
        m.add_function(f)?;
    }
    Ok(())
}
