//! The elementwise functions of `mlx.core`: one Python function a row of `kernels::table`, with the row's
//! documentation, and the few that take more than operands and a stream (round, clip, where, ...).

use std::ffi::CString;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

use super::array::{Out, PyArray, out};
use super::convert::{Arr, to_array, to_arrays};
use super::device::{S, StreamArg, pick};
use crate::core::Stream;
use crate::kernels::table::{OpId, Row, op, table};
use crate::ops;

/// How the operands are declared: with names that callers may use, or positional only, and whether `stream` may
/// be positional.
fn parameters(row: &Row) -> &'static str {
    const OPEN: [&str; 6] = ["isnan", "isinf", "isfinite", "isneginf", "isposinf", "bitwise_invert"];
    const CLOSED: [&str; 7] =
        ["arctan2", "logaddexp", "logical_and", "logical_or", "maximum", "minimum", "power"];
    match row.arity {
        1 if row.name == "conjugate" => "(a, *, stream=None)",
        1 if OPEN.contains(&row.name) => "(a, stream=None)",
        1 => "(a, /, *, stream=None)",
        _ if CLOSED.contains(&row.name) || row.name == "logical_xor" => "(a, b, /, *, stream=None)",
        _ => "(a, b, stream=None)",
    }
}

/// Operands and stream of a call, whether they were given by position or by name.
fn arguments<'py>(
    row: &Row,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<([Option<Bound<'py, PyAny>>; 2], Stream)> {
    let n = row.arity as usize;
    let fail = |what: String| PyTypeError::new_err(format!("{}(): {what}", row.name));
    let mut operands = [None, None];
    let mut stream: S = None;
    for (i, x) in args.iter().enumerate() {
        match i {
            _ if i < n => operands[i] = Some(x),
            _ if i == n => stream = if x.is_none() { None } else { Some(x.extract::<StreamArg>()?) },
            _ => return Err(fail(format!("expected at most {} positional arguments", n + 1))),
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

fn call(id: OpId, args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> Out {
    let row = &table()[id.0 as usize];
    match arguments(row, args, kwargs)? {
        ([Some(a), Some(b)], s) => {
            let (a, b) = to_arrays(&a, &b)?;
            out(ops::apply(id, &[&a, &b], s))
        }
        // MLX takes numbers for all of them but this one.
        ([Some(a), _], s) if row.name == "trunc" => out(ops::apply(id, &[&a.extract::<Arr>()?.0], s)),
        ([Some(a), _], s) => out(ops::apply(id, &[&to_array(&a, None)?], s)),
        // INVARIANT: `arguments` fills as many operands as the row has.
        _ => unreachable!("operands are checked"),
    }
}

/// A doctest in the form that the rest of the documentation has.
fn example(text: &str) -> String {
    match text.split_once('\n') {
        Some((input, output)) => format!(">>> {input}\n{output}"),
        None => format!(">>> {text}"),
    }
}

fn add_rows(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    const OWN: [&str; 5] = ["round", "select", "nan_equal", "to_fp8", "from_fp8"];
    for (i, row) in table().iter().enumerate() {
        if row.arity > 2 || row.name.starts_with('_') || OWN.contains(&row.name) {
            continue;
        }
        for name in row.aliases.iter().copied().chain([row.name]) {
            let text = format!("{name}{}\n--\n\n{}\n\n{}", parameters(row), row.doc, example(row.example));
            // Interpreters keep pointers to both for as long as the process lives.
            let text: &'static _ = Box::leak(CString::new(text)?.into_boxed_c_str());
            let label: &'static _ = Box::leak(CString::new(name)?.into_boxed_c_str());
            let id = OpId(i as u16);
            let f = PyCFunction::new_closure(py, Some(label), Some(text), move |args, kwargs| {
                call(id, args, kwargs)
            })?;
            m.add(name, f)?;
        }
    }
    Ok(())
}

/// Rounds to `decimals` digits after the point (before it, when negative); halves go to the even neighbour.
/// Shape and dtype are those of `a`.
///
/// >>> mx.round(mx.array([1.26, 2.5]), 1)
/// array([1.3, 2.5], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, /, decimals=0, stream=None))]
fn round(a: &Bound<'_, PyAny>, decimals: i32, stream: S) -> Out {
    out(ops::round(&to_array(a, None)?, decimals, pick(stream)))
}

/// Limits the elements of `a` to `a_min` and `a_max`, which broadcast against it; one of them may be None.
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

/// Elements of `x` where `condition` is true, else those of `y`. All three broadcast; the dtype is the
/// promoted one of `x` and `y`.
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

/// Floored quotient and remainder of two arrays, as a list.
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

/// Whether elements are close: `abs(a - b) <= atol + rtol * abs(b)`. Bool array of the broadcast shape.
///
/// >>> mx.isclose(mx.array([1.0, 2.0]), mx.array([1.0, 2.1]))
/// array([True, False], dtype=bool)
#[pyfunction]
#[pyo3(signature = (a, b, /, rtol=1e-5, atol=1e-8, *, equal_nan=false, stream=None))]
fn isclose(a: Arr, b: Arr, rtol: f64, atol: f64, equal_nan: bool, stream: S) -> Out {
    out(ops::isclose(&a.0, &b.0, rtol, atol, equal_nan, pick(stream)))
}

/// Whether all elements are close (see `isclose`), as a bool scalar.
///
/// >>> mx.allclose(mx.array([1.0, 2.0]), mx.array([1.0, 2.0]))
/// array(True, dtype=bool)
#[pyfunction]
#[pyo3(signature = (a, b, /, rtol=1e-5, atol=1e-8, *, equal_nan=false, stream=None))]
fn allclose(a: Arr, b: Arr, rtol: f64, atol: f64, equal_nan: bool, stream: S) -> Out {
    let s = pick(stream);
    let close = ops::isclose(&a.0, &b.0, rtol, atol, equal_nan, s)?;
    out(ops::all(&close, None, false, s))
}

/// Whether two arrays have the same shape and equal elements, as a bool scalar. NaN equals NaN only under
/// `equal_nan`.
///
/// >>> mx.array_equal(mx.array([1, 2]), mx.array([1, 2]))
/// array(True, dtype=bool)
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

/// Replaces NaN by `nan`, and infinities by `posinf` and `neginf` (by default the dtype's limits).
///
/// >>> mx.nan_to_num(mx.array([float('nan'), 1.0]))
/// array([0, 1], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, nan=0.0, posinf=None, neginf=None, *, stream=None))]
fn nan_to_num(a: &Bound<'_, PyAny>, nan: f64, posinf: Option<f64>, neginf: Option<f64>, stream: S) -> Out {
    let (a, s) = (to_array(a, None)?, pick(stream));
    let d = a.dtype();
    if matches!(d, crate::core::Dtype::C64 | crate::core::Dtype::F64) {
        return Err(PyValueError::new_err(format!("[nan_to_num] Does not yet support given type: {d}.")));
    }
    if !d.is_float() {
        return Ok(PyArray::new(a));
    }
    let max = match d {
        crate::core::Dtype::F16 => 65504.0,
        crate::core::Dtype::BF16 => half::bf16::MAX.to_f64(),
        _ => f64::from(f32::MAX),
    };
    let number = |v| ops::scalar_f64(v, d);
    let x = ops::select(&ops::isnan(&a, s)?, &number(nan)?, &a, s)?;
    let high = ops::apply(op("isposinf"), &[&x], s)?;
    let x = ops::select(&high, &number(posinf.unwrap_or(max))?, &x, s)?;
    let low = ops::apply(op("isneginf"), &[&x], s)?;
    out(ops::select(&low, &number(neginf.unwrap_or(-max))?, &x, s))
}

/// The array itself.
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
