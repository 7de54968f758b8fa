//! The elementwise functions of `mlx.core`: one Python function a row of `kernels::elementwise::table`, with the row's
//! documentation, and the few that take more than operands and a stream (round, clip, where, ...).

use std::ffi::CString;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

use crate::core::notes::note;
use crate::core::{Dtype, Stream};
use crate::kernels::elementwise::table::{CallForm, OpId, Row, op, table};
use crate::ops;
use crate::params;
use crate::python::array::arguments::Arr;
use crate::python::array::convert::{to_array, to_arrays};
use crate::python::array::{Out, PyArray, out};
use crate::python::docs::row_docs;
use crate::python::runtime::device::{S, StreamArg, pick};

/// The signature of a row's function.
fn parameters(row: &Row) -> &'static str {
    match (row.call, row.arity) {
        (CallForm::Closed, 1) => "(a, /, *, stream=None)",
        (CallForm::Closed, _) => "(a, b, /, *, stream=None)",
        (CallForm::Named, 1) => "(a, *, stream=None)",
        (CallForm::Named, _) => "(a, b, *, stream=None)",
        (CallForm::Open | CallForm::Own, 1) => "(a, stream=None)",
        (CallForm::Open | CallForm::Own, _) => "(a, b, stream=None)",
    }
}

/// Operands and stream of a call, whether they were given by position or by name; `most` says how many may stand
/// by position.
fn arguments<'py>(
    row: &Row,
    most: usize,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<([Option<Bound<'py, PyAny>>; 2], Stream)> {
    let n = row.arity as usize;
    let fail = |what: String| PyTypeError::new_err(format!("{}(): {what}", row.name));
    let mut operands = [None, None];
    let mut stream: S = None;
    if args.len() > most {
        return Err(fail(format!("expected at most {most} positional arguments")));
    }
    for (i, x) in args.iter().enumerate() {
        match i {
            _ if i < n => operands[i] = Some(x),
            _ => stream = if x.is_none() { None } else { Some(x.extract::<StreamArg>()?) },
        }
    }
    for (name, x) in kwargs.into_iter().flat_map(|k| k.iter()) {
        let name: String = name.extract()?;
        let at = ["a", "b"].iter().take(n).position(|p| *p == name);
        match (at, name.as_str()) {
            (Some(i), _) if operands[i].is_none() => operands[i] = Some(x),
            (None, "stream") if args.len() <= n => {
                stream = if x.is_none() { None } else { Some(x.extract::<StreamArg>()?) };
            }
            _ => return Err(fail(format!("got an unexpected or repeated argument '{name}'"))),
        }
    }
    if operands.iter().take(n).any(Option::is_none) {
        return Err(fail(format!("expected {n} operand{}", if n == 1 { "" } else { "s" })));
    }
    Ok((operands, pick(stream)))
}

fn call(id: OpId, most: usize, args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> Out {
    let row = &table()[id.0 as usize];
    match arguments(row, most, args, kwargs)? {
        ([Some(a), Some(b)], s) => {
            let (a, b) = to_arrays(&a, &b)?;
            out(ops::apply(id, &[&a, &b], s))
        }
        ([Some(a), _], s) if !row.numbers => out(ops::apply(id, &[&a.extract::<Arr>()?.0], s)),
        ([Some(a), _], s) => out(ops::apply(id, &[&to_array(&a, None)?], s)),
        // INVARIANT: `arguments` fills as many operands as the row has.
        _ => unreachable!("operands are checked"),
    }
}

fn add_rows(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    for (i, row) in table().iter().enumerate() {
        if row.call == CallForm::Own {
            continue;
        }
        for name in row.aliases.iter().copied().chain([row.name]) {
            let text = format!("{name}{}\n--\n\n{}", parameters(row), row_docs::text(row, name));
            // Interpreters keep pointers to both for as long as the process lives.
            let text: &'static _ = Box::leak(CString::new(text)?.into_boxed_c_str());
            let label: &'static _ = Box::leak(CString::new(name)?.into_boxed_c_str());
            // FITS: the table has some hundred rows.
            let id = OpId(i as u16);
            let most = row.arity as usize + usize::from(!parameters(row).contains('*'));
            let f = PyCFunction::new_closure(py, Some(label), Some(text), move |args, kwargs| {
                call(id, most, args, kwargs)
            })?;
            m.add(name, f)?;
        }
    }
    Ok(())
}

/// Each element rounded to a number of digits.
///
/// Halves go to the even neighbour. The parts of complex numbers are rounded separately; integers change only
/// for negative `decimals`. NaN and infinities stay themselves, and the derivative counts as zero.
///
/// Args:
///     a (array | number): Elements of any shape; every dtype.
///     decimals (int, optional): Digits after the point; negative ones are before it, -2 rounds to hundreds.
///         Default: 0.
///
/// Returns:
///     array: Of the shape and dtype of `a`.
///
/// Raises:
///     ValueError: if `a` is neither an array nor a number.
///
/// >>> mx.round(mx.array([1.26, 2.5]), 1)
/// array([1.3, 2.5], dtype=float32)
/// >>> mx.round(mx.array([0.5, 1.5, 2.7]))
/// array([0, 2, 3], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, /, decimals=0, stream=None))]
fn round(a: &Bound<'_, PyAny>, decimals: i32, stream: S) -> Out {
    out(ops::round(&to_array(a, None)?, decimals, pick(stream)))
}

/// Each element held between two bounds: `minimum(maximum(a, a_min), a_max)`.
///
/// NaN stays NaN. Where the lower bound is above the upper one, the upper one wins. The gradient flows to
/// what was taken: the element or a bound.
///
/// Args:
///     a (array): Elements of any shape.
///     a_min (array | number | None): Lower bound, which broadcasts with `a`; None for none.
///     a_max (array | number | None): Upper bound, which broadcasts with `a`; None for none.
///
/// Returns:
///     array: Of the broadcast shape, in the promoted dtype of `a` and the bounds.
///
/// Raises:
///     ValueError: if both bounds are None, or the shapes do not broadcast.
///
/// >>> mx.clip(mx.array([1, 5, 9]), 2, 6)
/// array([2, 5, 6], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, a_min, a_max, *, stream=None))]
fn clip(a: Arr, a_min: &Bound<'_, PyAny>, a_max: &Bound<'_, PyAny>, stream: S) -> Out {
    if a_min.is_none() && a_max.is_none() {
        return Err(PyValueError::new_err("[clip] At most one of a_min and a_max may be None"));
    }
    let bound = |x: &Bound<'_, PyAny>| match x.is_none() {
        true => Ok(None),
        false => to_array(x, Some(a.0.dtype())).map(Some),
    };
    let (lo, hi) = (bound(a_min)?, bound(a_max)?);
    out(ops::clip(&a.0, lo.as_ref(), hi.as_ref(), pick(stream)))
}

/// Elements of one array where a condition is true, else those of another.
///
/// All three broadcast. Both values are computed whatever the condition says; the gradient flows to the one
/// that is taken.
///
/// Args:
///     condition (array | bool): What is not zero counts as true, NaN included.
///     x (array | number): Taken where the condition is true.
///     y (array | number): Taken where it is false.
///
/// Returns:
///     array: Of the broadcast shape, in the promoted dtype of `x` and `y`.
///
/// Raises:
///     ValueError: if the shapes do not broadcast.
///
/// >>> mx.where(mx.array([True, False]), 1, mx.array([5, 6]))
/// array([1, 6], dtype=int32)
#[pyfunction]
#[pyo3(name = "where", signature = (condition, x, y, /, *, stream=None))]
fn where_(condition: &Bound<'_, PyAny>, x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>, stream: S) -> Out {
    let c = to_array(condition, Some(crate::core::Dtype::Bool))?;
    let (x, y) = to_arrays(x, y)?;
    out(ops::select(&c, &x, &y, pick(stream)))
}

/// Quotients rounded down, and remainders, of two arrays.
///
/// The same as `floor_divide` and `remainder`: `a == quotient * b + remainder`, and the remainder has the
/// sign of the divisor. The function `divmod` of Python takes arrays too.
///
/// Args:
///     a (array | number): Dividends; every dtype but complex64.
///     b (array | number): Divisors, which broadcast with `a`.
///
/// Returns:
///     list[array]: Quotients and remainders, both of the broadcast shape and the promoted dtype.
///
/// Raises:
///     ValueError: if an operand is complex, or the shapes do not broadcast.
///
/// >>> mx.divmod(mx.array([7, -7]), 3)
/// [array([2, -3], dtype=int32), array([1, 2], dtype=int32)]
#[pyfunction]
#[pyo3(signature = (a, b, stream=None))]
fn divmod(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>, stream: S) -> PyResult<[PyArray; 2]> {
    let (a, b) = to_arrays(a, b)?;
    let (q, r) = ops::divmod(&a, &b, pick(stream))?;
    Ok([PyArray::new(q), PyArray::new(r)])
}

/// Whether elements of two arrays are close to each other: `abs(a - b) <= atol + rtol * abs(b)`.
///
/// Infinities are close to infinities of their sign only. The test is not symmetric: the relative tolerance
/// goes by `b`.
///
/// Args:
///     a (array): Elements to test.
///     b (array): Elements to compare with; their shape broadcasts with that of `a`.
///     rtol (float, optional): Relative tolerance. Default: 1e-5.
///     atol (float, optional): Absolute tolerance. Default: 1e-8.
///     equal_nan (bool, optional): Whether NaN is close to NaN. Default: False.
///
/// Returns:
///     array: bool, of the broadcast shape.
///
/// Raises:
///     ValueError: if the shapes do not broadcast.
///
/// >>> mx.isclose(mx.array([1.0, 2.0]), mx.array([1.0, 2.1]))
/// array([True, False], dtype=bool)
#[pyfunction]
#[pyo3(signature = (a, b, /, rtol=1e-5, atol=1e-8, *, equal_nan=false, stream=None))]
fn isclose(a: Arr, b: Arr, rtol: f64, atol: f64, equal_nan: bool, stream: S) -> Out {
    out(ops::isclose(&a.0, &b.0, rtol, atol, equal_nan, pick(stream)))
}

/// Whether all elements of two arrays are close to each other, as `isclose` has it.
///
/// The test of an element is `abs(a - b) <= atol + rtol * abs(b)`; infinities are close to infinities of
/// their sign.
///
/// Args:
///     a (array): Elements to test.
///     b (array): Elements to compare with; their shape broadcasts with that of `a`.
///     rtol (float, optional): Relative tolerance. Default: 1e-5.
///     atol (float, optional): Absolute tolerance. Default: 1e-8.
///     equal_nan (bool, optional): Whether NaN is close to NaN. Default: False.
///
/// Returns:
///     array: bool without axes.
///
/// Raises:
///     ValueError: if the shapes do not broadcast.
///
/// >>> mx.allclose(mx.array([1.0, 2.0]), mx.array([1.0, 2.0000001]))
/// array(True, dtype=bool)
#[pyfunction]
#[pyo3(signature = (a, b, /, rtol=1e-5, atol=1e-8, *, equal_nan=false, stream=None))]
fn allclose(a: Arr, b: Arr, rtol: f64, atol: f64, equal_nan: bool, stream: S) -> Out {
    let s = pick(stream);
    let close = ops::isclose(&a.0, &b.0, rtol, atol, equal_nan, s)?;
    out(ops::all(&close, None, false, s))
}

/// Whether two arrays have the same shape and equal elements.
///
/// Dtypes may differ: elements are promoted first. Nothing broadcasts; arrays of different shapes are not
/// equal.
///
/// Args:
///     a (array | number): One array.
///     b (array | number): The other array.
///     equal_nan (bool, optional): Whether NaN equals NaN. Default: False.
///
/// Returns:
///     array: bool without axes.
///
/// >>> mx.array_equal(mx.array([1, 2]), mx.array([1.0, 2.0]))
/// array(True, dtype=bool)
/// >>> mx.array_equal(mx.array([1, 2]), mx.array([1]))
/// array(False, dtype=bool)
#[pyfunction]
#[pyo3(signature = (a, b, equal_nan=false, stream=None))]
fn array_equal(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>, equal_nan: bool, stream: S) -> Out {
    let (a, b) = to_arrays(a, b)?;
    if a.shape() != b.shape() {
        return out(ops::scalar_bool(false));
    }
    let s = pick(stream);
    let row = op(if equal_nan { "nan_equal" } else { "equal" });
    let same = ops::apply(row, &[&a, &b], s)?;
    out(ops::all(&same, None, false, s))
}

/// Replaces NaN and infinities by finite numbers.
///
/// Integers and bool have neither and are returned unchanged.
///
/// Args:
///     a (array | number): Elements of any shape; every dtype but complex64 and float64.
///     nan (float, optional): What NaN becomes. Default: 0.0.
///     posinf (float, optional): What infinity becomes. Default: None, the largest finite number of the
///         dtype.
///     neginf (float, optional): What minus infinity becomes. Default: None, the lowest finite number of the
///         dtype.
///
/// Returns:
///     array: Of the shape and dtype of `a`.
///
/// Raises:
///     ValueError: if the dtype is float64, or complex64 and not both infinities have a number; only an infinity
///         without an imaginary part is one then.
///
/// >>> mx.nan_to_num(mx.array([float('nan'), 1.0, float('inf')]), posinf=9.0)
/// array([0, 1, 9], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, nan=0.0, posinf=None, neginf=None, *, stream=None))]
fn nan_to_num(a: &Bound<'_, PyAny>, nan: f64, posinf: Option<f64>, neginf: Option<f64>, stream: S) -> Out {
    let (a, s) = (to_array(a, None)?, pick(stream));
    let d = a.dtype();
    // The largest complex number is none that stands for an infinity.
    let open = posinf.is_none() || neginf.is_none();
    if d == Dtype::F64 || (d == Dtype::C64 && open) {
        return Err(PyValueError::new_err(format!("[nan_to_num] Does not yet support given type: {d}.")));
    }
    if !d.is_inexact() {
        return Ok(PyArray::new(a));
    }
    let max = match d {
        Dtype::F16 => 65504.0,
        Dtype::BF16 => half::bf16::MAX.to_f64(),
        _ => f64::from(f32::MAX),
    };
    let numbers = [nan, posinf.unwrap_or(max), neginf.unwrap_or(-max)];
    let mut inputs = vec![a.clone()];
    for v in numbers {
        inputs.push(ops::scalar_f64(v, d)?);
    }
    let y = ops::composed("nan_to_num", 0, &inputs, s, &|x| {
        let y = ops::select(&ops::isnan(&x[0], s)?, &x[1], &x[0], s)?;
        let y = ops::select(&ops::apply(op("isposinf"), &[&y], s)?, &x[2], &y, s)?;
        ops::select(&ops::apply(op("isneginf"), &[&y], s)?, &x[3], &y, s)
    })?;
    note(std::slice::from_ref(&y), || ("nan_to_num", params![numbers[0], numbers[1], numbers[2]], vec![a]));
    out(Ok(y))
}

/// The array itself: the operator `+` with one operand.
///
/// It exists for programs that choose between functions, as the array API has it. Nothing is computed or
/// copied, and gradients pass unchanged.
///
/// Args:
///     a (array): Elements of any shape; every dtype.
///
/// Returns:
///     array: `a`.
///
/// Raises:
///     TypeError: if `a` is no array.
///
/// >>> mx.positive(mx.array([1, -2]))
/// array([1, -2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, *, stream=None))]
fn positive(a: Arr, stream: S) -> Out {
    let _ = stream;
    Ok(PyArray::new(a.0))
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    add_rows(m)?;
    for f in [
        wrap_pyfunction!(round, m)?,
        wrap_pyfunction!(clip, m)?,
        wrap_pyfunction!(where_, m)?,
        wrap_pyfunction!(divmod, m)?,
        wrap_pyfunction!(isclose, m)?,
        wrap_pyfunction!(allclose, m)?,
        wrap_pyfunction!(array_equal, m)?,
        wrap_pyfunction!(nan_to_num, m)?,
        wrap_pyfunction!(positive, m)?,
    ] {
        m.add_function(f)?;
    }
    Ok(())
}
