//! Functions that make arrays from nothing or in the likeness of others.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyTuple};

use crate::core::Dtype;
use crate::core::lengths_vary;
use crate::ops;
use crate::python::array::arguments::{Arr, Dims, Passed, processing};
use crate::python::array::convert::{make, to_array};
use crate::python::array::dtype::D;
use crate::python::array::{Out, PyArray, out};
use crate::python::runtime::device::{S, pick};

fn or(d: Option<D>, default: Dtype) -> Dtype {
    d.map_or(default, |d| d.0)
}

/// An array filled with zeros.
///
/// Args:
#[doc = shared!(shape_dtype)]
///
/// Returns:
///     array: Of shape `shape`, all elements 0 (False for bool).
///
/// Raises:
#[doc = shared!(shape_errors)]
///
/// >>> mx.zeros((2, 2), mx.int32)
/// array([[0, 0],
///        [0, 0]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (shape, dtype=None, *, stream=None))]
fn zeros(shape: Dims, dtype: Option<D>, stream: S) -> Out {
    out(ops::zeros(&shape.0, or(dtype, Dtype::F32), pick(stream)))
}

/// An array filled with ones.
///
/// Args:
#[doc = shared!(shape_dtype)]
///
/// Returns:
///     array: Of shape `shape`, all elements 1 (True for bool).
///
/// Raises:
#[doc = shared!(shape_errors)]
///
/// >>> mx.ones(3)
/// array([1, 1, 1], dtype=float32)
#[pyfunction]
#[pyo3(signature = (shape, dtype=None, *, stream=None))]
fn ones(shape: Dims, dtype: Option<D>, stream: S) -> Out {
    out(ops::ones(&shape.0, or(dtype, Dtype::F32), pick(stream)))
}

/// An array whose elements the caller will replace; they are zeros until then, as in MLX.
///
/// Args:
#[doc = shared!(shape_dtype)]
///
/// Returns:
///     array: Of shape `shape`.
///
/// Raises:
#[doc = shared!(shape_errors)]
///
/// >>> mx.empty((2, 3)).shape
/// (2, 3)
#[pyfunction]
#[pyo3(signature = (shape, dtype=None, *, stream=None))]
fn empty(shape: Dims, dtype: Option<D>, stream: S) -> Out {
    zeros(shape, dtype, stream)
}

/// Zeros in the shape of another array.
///
/// Args:
#[doc = shared!(like)]
///
/// Returns:
///     array: Of the shape of `a`, all elements 0 (False for bool).
///
/// Raises:
///     TypeError: if `a` is no array.
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

/// Ones in the shape of another array.
///
/// Args:
#[doc = shared!(like)]
///
/// Returns:
///     array: Of the shape of `a`, all elements 1 (True for bool).
///
/// Raises:
///     TypeError: if `a` is no array.
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

/// An array in the shape of another one, whose elements the caller will replace; they are zeros until then.
///
/// Args:
#[doc = shared!(like)]
///
/// Returns:
///     array: Of the shape of `a`.
///
/// Raises:
///     TypeError: if `a` is no array.
///
/// >>> mx.empty_like(mx.array([1, 2])).shape
/// (2,)
#[pyfunction]
#[pyo3(signature = (a, /, dtype=None, *, stream=None))]
fn empty_like(a: Arr, dtype: Option<D>, stream: S) -> Out {
    zeros_like(a, dtype, stream)
}

/// An array filled with a value.
///
/// Args:
///     shape (int | Sequence[int]): Shape of the array.
///     vals (array | number): What it is filled with; an array broadcasts to `shape`.
///     dtype (Dtype, optional): Dtype of the elements. Default: that of `vals`.
///
/// Returns:
///     array: Of shape `shape`.
///
/// Raises:
#[doc = shared!(shape_errors)]
///     ValueError: if `vals` is neither an array nor a number, or does not broadcast to the shape.
///
/// >>> mx.full((2,), 7)
/// array([7, 7], dtype=int32)
/// >>> mx.full((2, 2), mx.array([1.0, 2.0]))
/// array([[1, 2],
///        [1, 2]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (shape, vals, dtype=None, *, stream=None))]
fn full(shape: Dims, vals: &Bound<'_, PyAny>, dtype: Option<D>, stream: S) -> Out {
    let dtype = dtype.map(|d| d.0);
    out(ops::full(&shape.0, &to_array(vals, dtype)?, dtype, pick(stream)))
}

/// An array in the shape of another one, filled with a value.
///
/// Args:
///     a (array): Whose shape, and by default dtype, the result has.
///     vals (array | number): What it is filled with; an array broadcasts to the shape.
///     dtype (Dtype, optional): Dtype of the elements. Default: that of `a`.
///
/// Returns:
///     array: Of the shape of `a`.
///
/// Raises:
///     ValueError: if `vals` is neither an array nor a number, or does not broadcast to the shape.
///
/// >>> mx.full_like(mx.array([1, 2]), 7)
/// array([7, 7], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, vals, dtype=None, *, stream=None))]
fn full_like(a: Arr, vals: &Bound<'_, PyAny>, dtype: Option<D>, stream: S) -> Out {
    let d = or(dtype, a.0.dtype());
    out(ops::full_like(&a.0, &to_array(vals, Some(d))?, d, pick(stream)))
}

/// Start, stop, step and dtype of a range, of which `args` come by position. One number alone is the stop, unless it
/// was called the start.
fn range_arguments<'py>(
    args: &Bound<'py, PyTuple>,
    mut given: [Option<Bound<'py, PyAny>>; 4],
) -> PyResult<[Option<Bound<'py, PyAny>>; 4]> {
    const NAMES: [&str; 4] = ["start", "stop", "step", "dtype"];
    let count = args.len();
    if count > NAMES.len() {
        let text = format!("arange() takes from 1 to 4 positional arguments but {count} were given");
        return Err(PyTypeError::new_err(text));
    }
    for ((value, slot), name) in args.iter().zip(&mut given).zip(NAMES) {
        if slot.replace(value).is_some() {
            return Err(PyTypeError::new_err(format!("arange() got multiple values for argument '{name}'")));
        }
    }
    if count == 3 && args.get_item(2)?.extract::<D>().is_ok() && given[3].is_none() {
        // Stop, step and dtype.
        let [stop, step, dtype, _] = given;
        given = [None, stop, step, dtype];
    }
    if given[0].as_ref().is_some_and(Bound::is_none) {
        return Err(processing(PyTypeError::new_err("None is no number"), args.py(), "start"));
    }
    let alone = if given[0].is_none() && count == 3 {
        false
    } else if count > 0 {
        given[1].as_ref().is_none_or(Bound::is_none)
    } else {
        given[1].as_ref().is_some_and(Bound::is_none)
    };
    if alone {
        given[1] = given[0].take();
    }
    Ok(given)
}

fn natural(x: &Bound<'_, PyAny>) -> PyResult<(f64, Dtype)> {
    if x.is_instance_of::<PyBool>() {
        return Ok((f64::from(u8::from(x.extract::<bool>()?)), Dtype::Bool));
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

/// Evenly spaced numbers from a start up to but without a stop.
///
/// Called with one number, that is `stop`. Element i is `start + i * step`. For a given number of elements,
/// or with the end included, see `linspace`.
///
/// Args:
///     start (int | float, optional): First element. Default: 0.
///     stop (int | float, optional): Where the numbers end; it is not among them.
///     step (int | float, optional): Distance of neighbours, which may be negative. Default: 1.
///     dtype (Dtype, optional): Dtype of the elements. Default: int32, int64 where an integer needs it,
///         float32 where a number is a float.
///
/// Returns:
///     array: Of shape (n,) with `n = ceil((stop - start) / step)`, 0 where that is negative.
///
/// Raises:
///     ValueError: if the step is zero, the length cannot be computed (NaN or an infinity), or the dtype is
///         bool.
///     TypeError: if there is no stop.
///
/// >>> mx.arange(5)
/// array([0, 1, 2, 3, 4], dtype=int32)
/// >>> mx.arange(1, 2, 0.5)
/// array([1, 1.5], dtype=float32)
#[pyfunction]
#[pyo3(
    signature = (*args, start=Passed(None), stop=Passed(None), step=Passed(None), dtype=Passed(None), stream=None),
    text_signature = "(start=None, stop=None, step=None, dtype=None, *, stream=None)"
)]
fn arange<'py>(
    args: &Bound<'py, PyTuple>,
    start: Passed<'py>,
    stop: Passed<'py>,
    step: Passed<'py>,
    dtype: Passed<'py>,
    stream: S,
) -> Out {
    let [start, stop, step, dtype] = range_arguments(args, [start.0, stop.0, step.0, dtype.0])?;
    let dtype = match dtype {
        Some(d) => d.extract::<Option<D>>().map_err(|e| processing(e, args.py(), "dtype"))?,
        None => None,
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
    let step = read(step.filter(|x| !x.is_none()), 1.0)?;
    let dtype = or(dtype, kind.unwrap_or(Dtype::I32));
    out(ops::arange(start, stop, step, dtype, pick(stream)))
}

/// A number of evenly spaced values between two ends.
///
/// Args:
///     start (int | float): First value.
///     stop (int | float): Last value, or the end that is left out.
///     num (int, optional): How many values. Default: 50.
///     endpoint (bool, optional): Whether `stop` is the last value; else the distance is `(stop - start) /
///         num`. Default: True.
///     dtype (Dtype, optional): Dtype of the values; integers drop the fraction. Default: float32.
///
/// Returns:
///     array: Of shape (num,).
///
/// Raises:
///     ValueError: if `num` is negative.
///
/// >>> mx.linspace(0, 1, 5)
/// array([0, 0.25, 0.5, 0.75, 1], dtype=float32)
/// >>> mx.linspace(0, 1, 4, endpoint=False)
/// array([0, 0.25, 0.5, 0.75], dtype=float32)
#[pyfunction]
#[pyo3(signature = (start, stop, num=50, endpoint=true, dtype=None, stream=None))]
fn linspace(start: f64, stop: f64, num: Option<i64>, endpoint: bool, dtype: Option<D>, stream: S) -> Out {
    out(ops::linspace(start, stop, num.unwrap_or(50), endpoint, or(dtype, Dtype::F32), pick(stream)))
}

/// A matrix with ones on one diagonal and zeros elsewhere.
///
/// Args:
#[doc = shared!(matrix)]
///     k (int, optional): Which diagonal: 0 the main one, positive ones above it, negative ones below.
///         Default: 0.
///     dtype (Dtype, optional): Dtype of the elements. Default: float32.
///
/// Returns:
///     array: Of shape (n, m).
///
/// Raises:
///     ValueError: if a size is negative.
///
/// >>> mx.eye(2)
/// array([[1, 0],
///        [0, 1]], dtype=float32)
/// >>> mx.eye(2, 3, k=1)
/// array([[0, 1, 0],
///        [0, 0, 1]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (n, m=None, k=0, dtype=None, *, stream=None))]
fn eye(n: i64, m: Option<i64>, k: i64, dtype: Option<D>, stream: S) -> Out {
    out(ops::eye(n, m.unwrap_or(n), k, or(dtype, Dtype::F32), pick(stream)))
}

/// The identity matrix: ones on the main diagonal and zeros elsewhere.
///
/// Args:
///     n (int): Number of rows and of columns.
///     dtype (Dtype, optional): Dtype of the elements. Default: float32.
///
/// Returns:
///     array: Of shape (n, n).
///
/// Raises:
///     ValueError: if the size is negative.
///
/// >>> mx.identity(2)
/// array([[1, 0],
///        [0, 1]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (n, dtype=None, *, stream=None))]
fn identity(n: i64, dtype: Option<D>, stream: S) -> Out {
    out(ops::identity(n, or(dtype, Dtype::F32), pick(stream)))
}

/// A matrix with ones on and below one diagonal and zeros above.
///
/// Multiplied with another one it cuts a triangle out, as `tril` does. A negative size counts as 0.
///
/// Args:
#[doc = shared!(matrix)]
///     k (int, optional): The last diagonal with ones: 0 the main one, positive ones above it, negative ones
///         below. Default: 0.
///     dtype (Dtype, optional): Dtype of the elements. Default: float32.
///
/// Returns:
///     array: Of shape (n, m).
///
/// >>> mx.tri(2)
/// array([[1, 0],
///        [1, 1]], dtype=float32)
/// >>> mx.tri(2, 3, k=1)
/// array([[1, 1, 0],
///        [1, 1, 1]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (n, m=None, k=0, dtype=None, *, stream=None))]
fn tri(n: i64, m: Option<i64>, k: i64, dtype: Option<D>, stream: S) -> Out {
    out(ops::tri(n, m.unwrap_or(n), k, or(dtype, Dtype::F32), pick(stream)))
}

/// Lower triangles of matrices: what is above a diagonal becomes zero.
///
/// Args:
///     x (array): Matrices, with at least two axes; those before the last two are a batch.
///     k (int, optional): The last diagonal that is kept: 0 the main one, positive ones above it, negative
///         ones below. Default: 0.
///
/// Returns:
///     array: Of the shape and dtype of `x`.
///
/// Raises:
///     ValueError: if there are fewer than two axes.
///
/// >>> mx.tril(mx.array([[1, 2], [3, 4]]))
/// array([[1, 0],
///        [3, 4]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (x, k=0, *, stream=None))]
fn tril(x: Arr, k: i64, stream: S) -> Out {
    out(ops::tril(&x.0, k, pick(stream)))
}

/// Upper triangles of matrices: what is below a diagonal becomes zero.
///
/// Args:
///     x (array): Matrices, with at least two axes; those before the last two are a batch.
///     k (int, optional): The first diagonal that is kept: 0 the main one, positive ones above it, negative
///         ones below. Default: 0.
///
/// Returns:
///     array: Of the shape and dtype of `x`.
///
/// Raises:
///     ValueError: if there are fewer than two axes.
///
/// >>> mx.triu(mx.array([[1, 2], [3, 4]]))
/// array([[1, 2],
///        [0, 4]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (x, k=0, *, stream=None))]
fn triu(x: Arr, k: i64, stream: S) -> Out {
    out(ops::triu(&x.0, k, pick(stream)))
}

/// An array from anything that the constructor of `array` takes, without a copy where that is possible.
///
/// An array of the right dtype is returned as it is. Host memory of objects with `__dlpack__`, such as
/// NumPy's arrays, is shared where the dtype allows.
///
/// Args:
///     a (array | number | Sequence | object): What the array is made of.
///     dtype (Dtype, optional): Dtype of the result. Default: that of `a`, as the constructor has it.
///     copy (bool, optional): True always copies, False never does, None copies where it must. Default: None.
///
/// Returns:
///     array: With the elements of `a`.
///
/// Raises:
///     ValueError: if `copy` is False and memory of another library cannot be shared; also for MLX arrays, as in MLX.
///
/// >>> mx.asarray([1, 2])
/// array([1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, dtype=None, *, copy=None))]
fn asarray(a: &Bound<'_, PyAny>, dtype: Option<D>, copy: Option<bool>) -> Out {
    let own = a.is_instance_of::<PyArray>();
    if copy == Some(false) {
        if !own && crate::python::array::dlpack::is_producer(a)? {
            return Ok(PyArray::new(crate::python::array::dlpack::import(a, dtype.map(|d| d.0), copy)?));
        }
        let text = "Unable to avoid copy while creating an array as requested.";
        return Err(PyValueError::new_err(text));
    }
    let x = make(a, dtype.map(|d| d.0))?;
    let same = a.cast::<PyArray>().is_ok_and(|a| a.get().array().same(&x));
    Ok(PyArray::new(if same && copy == Some(true) {
        ops::copy(&x, crate::python::runtime::device::current())?
    } else {
        x
    }))
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
