//! Quantisation, and products with quantised matrices.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::array::{Out, PyArray, out};
use super::convert::Arr;
use super::device::{S, pick};
use super::dtype::D;
use crate::core::Array;
use crate::ops;
use crate::ops::qqmm::Right;
use crate::ops::quantized_matmul::Quantized;

fn given(a: &Option<Arr>) -> Option<&Array> {
    a.as_ref().map(|a| &a.0)
}

/// Quantises a matrix, or a batch of them, along the last axis in groups that share a scale.
///
/// Modes are "affine" (group sizes 32, 64, 128; 1, 2, 3, 4, 5, 6 or 8 bits; default 64 and 4), "mxfp4" (32, 4),
/// "mxfp8" (32, 8) and "nvfp4" (16, 4; it alone takes a `global_scale`, a float32 scalar). Returns codes packed in
/// uint32, scales and, in affine mode, biases, both of the dtype of `w`. Raises ValueError for other numbers, for
/// fewer than two axes and for a last axis that groups do not divide.
///
/// >>> w_q, scales, biases = mx.quantize(mx.ones((2, 64)))
/// >>> w_q.shape, scales.shape
/// ((2, 8), (2, 1))
#[pyfunction]
#[pyo3(signature = (w, /, group_size=None, bits=None, mode="affine", *, global_scale=None, stream=None))]
fn quantize<'py>(
    py: Python<'py>,
    w: Arr,
    group_size: Option<i64>,
    bits: Option<i64>,
    mode: &str,
    global_scale: Option<Arr>,
    stream: S,
) -> PyResult<Bound<'py, PyTuple>> {
    let parts = ops::quantize(&w.0, group_size, bits, mode, given(&global_scale), pick(stream))?;
    PyTuple::new(py, parts.into_iter().map(PyArray::new))
}

/// The values of a matrix quantised by `quantize` with the same numbers.
///
/// The result has the dtype of the scales in affine mode and else bfloat16, or `dtype`. Raises ValueError where
/// shapes or dtypes do not fit the mode.
///
/// >>> mx.dequantize(*mx.quantize(mx.ones((1, 64)))).shape
/// (1, 64)
#[pyfunction]
#[pyo3(signature = (w, /, scales, biases=None, group_size=None, bits=None, mode="affine", global_scale=None,
    dtype=None, *, stream=None))]
fn dequantize(
    w: Arr,
    scales: Arr,
    biases: Option<Arr>,
    group_size: Option<i64>,
    bits: Option<i64>,
    mode: &str,
    global_scale: Option<Arr>,
    dtype: Option<D>,
    stream: S,
) -> Out {
    let dtype = dtype.map(|d| d.0);
    let global = given(&global_scale);
    out(ops::dequantize(&w.0, &scales.0, given(&biases), group_size, bits, mode, global, dtype, pick(stream)))
}

/// Product of `x` with a quantised matrix, `x @ w.T` or, without `transpose`, `x @ w`.
///
/// `w`, `scales` and `biases` are those of `quantize` with the same numbers; batch axes broadcast. Sums are
/// float32. Raises ValueError where shapes or dtypes do not fit.
///
/// >>> mx.quantized_matmul(mx.ones((3, 64)), *mx.quantize(mx.ones((2, 64)))).shape
/// (3, 2)
#[pyfunction]
#[pyo3(signature = (x, w, /, scales, biases=None, transpose=true, group_size=None, bits=None, mode="affine", *,
    stream=None))]
fn quantized_matmul(
    x: Arr,
    w: Arr,
    scales: Arr,
    biases: Option<Arr>,
    transpose: bool,
    group_size: Option<i64>,
    bits: Option<i64>,
    mode: &str,
    stream: S,
) -> Out {
    let biases = given(&biases);
    let q = Quantized { w: &w.0, scales: &scales.0, biases, transpose, group_size, bits, mode };
    out(ops::quantized_matmul(&x.0, &q, pick(stream)))
}

/// As `quantized_matmul`, for matrices picked by flat indices over the batch axes of `x` and of `w`.
///
/// The indices broadcast against each other; an operand without them takes part with all of its matrices in
/// order. `sorted_indices` promises that the indices do not decrease, `global_scale` (nvfp4) has one float32 for
/// each matrix of `w`. Raises ValueError where shapes or dtypes do not fit.
///
/// >>> q = mx.quantize(mx.ones((4, 2, 64)))
/// >>> mx.gather_qmm(mx.ones((1, 3, 64)), *q, rhs_indices=mx.array([2, 0])).shape
/// (2, 3, 2)
#[pyfunction]
#[pyo3(signature = (x, w, /, scales, biases=None, lhs_indices=None, rhs_indices=None, transpose=true,
    group_size=None, bits=None, mode="affine", global_scale=None, *, sorted_indices=false, stream=None))]
fn gather_qmm(
    x: Arr,
    w: Arr,
    scales: Arr,
    biases: Option<Arr>,
    lhs_indices: Option<Arr>,
    rhs_indices: Option<Arr>,
    transpose: bool,
    group_size: Option<i64>,
    bits: Option<i64>,
    mode: &str,
    global_scale: Option<Arr>,
    sorted_indices: bool,
    stream: S,
) -> Out {
    let biases = given(&biases);
    let q = Quantized { w: &w.0, scales: &scales.0, biases, transpose, group_size, bits, mode };
    let (lhs, rhs) = (given(&lhs_indices), given(&rhs_indices));
    out(ops::gather_qmm(&x.0, &q, lhs, rhs, given(&global_scale), sorted_indices, pick(stream)))
}

/// Product `x @ w.T` of operands that are both rounded to a format of floats, "nvfp4", "mxfp8" or "mxfp4".
///
/// With `scales`, `w` holds codes of `quantize`; else it is quantised here. Gradients pass the rounding as they
/// are. Raises ValueError where shapes or dtypes do not fit.
///
/// >>> mx.qqmm(mx.ones((3, 64)), mx.ones((2, 64))).shape
/// (3, 2)
#[pyfunction]
#[pyo3(signature = (x, w, scales=None, group_size=None, bits=None, mode="nvfp4", global_scale_x=None,
    global_scale_w=None, *, stream=None))]
fn qqmm(
    x: Arr,
    w: Arr,
    scales: Option<Arr>,
    group_size: Option<i64>,
    bits: Option<i64>,
    mode: &str,
    global_scale_x: Option<Arr>,
    global_scale_w: Option<Arr>,
    stream: S,
) -> Out {
    let global = [given(&global_scale_x), given(&global_scale_w)];
    let r = Right { w: &w.0, scales: given(&scales), group_size, bits, mode, global };
    out(ops::qqmm(&x.0, &r, pick(stream)))
}

/// As `qqmm`, for matrices picked by flat indices over the batch axes of `x` and of `w`, as in `gather_qmm`.
///
/// >>> i = mx.array([1, 0])
/// >>> mx.gather_qqmm(mx.ones((1, 3, 64)), mx.ones((4, 2, 64)), rhs_indices=i).shape
/// (2, 3, 2)
#[pyfunction]
#[pyo3(signature = (x, w, /, scales=None, lhs_indices=None, rhs_indices=None, group_size=None, bits=None,
    mode="nvfp4", global_scale_x=None, global_scale_w=None, *, sorted_indices=false, stream=None))]
fn gather_qqmm(
    x: Arr,
    w: Arr,
    scales: Option<Arr>,
    lhs_indices: Option<Arr>,
    rhs_indices: Option<Arr>,
    group_size: Option<i64>,
    bits: Option<i64>,
    mode: &str,
    global_scale_x: Option<Arr>,
    global_scale_w: Option<Arr>,
    sorted_indices: bool,
    stream: S,
) -> Out {
    let global = [given(&global_scale_x), given(&global_scale_w)];
    let r = Right { w: &w.0, scales: given(&scales), group_size, bits, mode, global };
    out(ops::gather_qqmm(&x.0, &r, given(&lhs_indices), given(&rhs_indices), sorted_indices, pick(stream)))
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(quantize, m)?)?;
    m.add_function(wrap_pyfunction!(dequantize, m)?)?;
    m.add_function(wrap_pyfunction!(quantized_matmul, m)?)?;
    m.add_function(wrap_pyfunction!(gather_qmm, m)?)?;
    m.add_function(wrap_pyfunction!(qqmm, m)?)?;
    m.add_function(wrap_pyfunction!(gather_qqmm, m)?)
}
