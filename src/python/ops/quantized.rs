//! Quantisation, and products with quantised matrices.

use pyo3::prelude::*;

use crate::core::Array;
use crate::ops;
use crate::ops::quantized::qqmm::Right;
use crate::ops::quantized::quantized_matmul::Quantized;
use crate::python::array::arguments::Arr;
use crate::python::array::dtype::D;
use crate::python::array::{Out, PyArray, out};
use crate::python::runtime::device::{S, pick};

fn given(a: &Option<Arr>) -> Option<&Array> {
    a.as_ref().map(|a| &a.0)
}

/// Quantises matrices: elements of a group along the last axis become codes of few bits that share a scale.
///
/// In the mode "affine" a code q stands for `scale * q + bias`, where scale and bias map the range of the
/// group to the codes. The others are floating formats of the OCP MX specification (scales are powers of two)
/// and NVFP4:
///
///     mode      group_size     bits                       scales
///     affine    32, 64, 128    1, 2, 3, 4, 5, 6, 8        dtype of w, and biases
///     mxfp4     32             4 (E2M1)                   uint8 (E8M0)
///     mxfp8     32             8 (E4M3)                   uint8 (E8M0)
///     nvfp4     16             4 (E2M1)                   uint8 (E4M3)
///
/// Args:
///     w (array): Matrices, (..., m, n), of a real floating dtype; groups divide n.
///     group_size (int, optional): Elements that share a scale. Default: None, 64 or the only one of the
///         mode.
///     bits (int, optional): Bits of a code. Default: None, 4 or the only number of the mode.
///     mode (str, optional): "affine", "mxfp4", "mxfp8" or "nvfp4". Default: "affine".
///     global_scale (array, optional): A float32 scalar that all elements are divided by first, for "nvfp4"
///         alone. Default: None.
///
/// Returns:
///     list[array]: Codes packed into uint32, (..., m, n * bits / 32), scales, (..., m, n /
///         group_size), and in the mode "affine" biases of that shape.
///
/// Raises:
///     ValueError: if the numbers do not belong to the mode, groups do not divide the last axis, there are
///         fewer than two axes, or the dtype is another one.
///
/// >>> w_q, scales, biases = mx.quantize(mx.ones((2, 64)))
/// >>> w_q.shape, scales.shape
/// ((2, 8), (2, 1))
#[pyfunction]
#[pyo3(signature = (w, /, group_size=None, bits=None, mode="affine", *, global_scale=None, stream=None))]
fn quantize(
    w: Arr,
    group_size: Option<i64>,
    bits: Option<i64>,
    mode: &str,
    global_scale: Option<Arr>,
    stream: S,
) -> PyResult<Vec<PyArray>> {
    let parts = ops::quantize(&w.0, group_size, bits, mode, given(&global_scale), pick(stream))?;
    Ok(parts.into_iter().map(PyArray::new).collect())
}

/// Elements of matrices that `quantize` made codes of.
///
/// Group size, bits and mode are those of `quantize`.
///
/// Args:
///     w (array): Codes, uint32.
///     scales (array): Scales of the groups.
///     biases (array, optional): Biases of the groups, in the mode "affine". Default: None.
#[doc = shared!(quantised)]
///     global_scale (array, optional): The float32 scalar that `quantize` was given. Default: None.
///     dtype (Dtype, optional): Dtype of the result. Default: None, that of the scales in the mode "affine",
///         else bfloat16.
///
/// Returns:
///     array: Matrices, (..., m, n).
///
/// Raises:
///     ValueError: if shapes, dtypes or numbers do not fit the mode.
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

/// Product of an array with quantised matrices, which are decoded on the way.
///
/// `x @ w.T`, or without `transpose` `x @ w`. Sums are float32. The batches of both broadcast. Gradients flow
/// to `x`, and to scales and biases.
///
/// Args:
///     x (array): Left operand, (..., m, k), of a real floating dtype.
///     w (array): Codes of `quantize`, of matrices (..., n, k), or (..., k, n) without `transpose`.
///     scales (array): Scales of the groups.
///     biases (array, optional): Biases of the groups, in the mode "affine". Default: None.
///     transpose (bool, optional): Whether the matrices are transposed, so that groups lie along the sums.
///         Default: True.
#[doc = shared!(quantised)]
///
/// Returns:
///     array: Products, (..., m, n), in the dtype of `x`.
///
/// Raises:
///     ValueError: if shapes, dtypes or numbers do not fit.
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

/// Products of matrices with quantised matrices, both picked by index: `quantized_matmul` with the indices of
/// `gather_mm`.
///
/// An index counts the matrices of an operand in row-major order of its batch. The indices broadcast against
/// each other; an operand without indices takes part with all of its matrices in order.
///
/// Args:
///     x (array): Left operands, (..., m, k).
///     w (array): Codes of `quantize`, of matrices (..., n, k), or (..., k, n) without `transpose`.
///     scales (array): Scales of the groups.
///     biases (array, optional): Biases of the groups, in the mode "affine". Default: None.
///     lhs_indices (array, optional): Which matrices of `x`, of an integer dtype. Default: None, all.
///     rhs_indices (array, optional): Which matrices of `w`, of an integer dtype. Default: None, all.
///     transpose (bool, optional): Whether the matrices of `w` are transposed. Default: True.
#[doc = shared!(quantised)]
///     global_scale (array, optional): One float32 for each matrix of `w`, for "nvfp4" alone. Default: None.
///     sorted_indices (bool, optional): Promises that the indices do not decrease. Default: False.
///
/// Returns:
///     array: Products, the shape of the indices and then (m, n), in the dtype of `x`.
///
/// Raises:
///     ValueError: if shapes, dtypes or numbers do not fit, or the indices are not integers.
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

/// Product `x @ w.T` of operands that are both rounded to a floating format of few bits.
///
/// `x` is quantised on the way, and so is `w` unless it holds codes already. Gradients pass the rounding as
/// they are.
///
/// Args:
///     x (array): Left operand, (..., m, k), of a real floating dtype.
///     w (array): Matrix, (n, k), or its codes.
///     scales (array, optional): Scales of the groups, where `w` holds codes. Default: None.
///     group_size (int, optional): Elements that share a scale. Default: None, that of the mode.
///     bits (int, optional): Bits of a code. Default: None, those of the mode.
///     mode (str, optional): "nvfp4", "mxfp8" or "mxfp4". Default: "nvfp4".
///     global_scale_x (array, optional): A float32 scalar that `x` is divided by, for "nvfp4" alone. Default:
///         None.
///     global_scale_w (array, optional): The same for `w`. Default: None.
///
/// Returns:
///     array: Products, (..., m, n), in the dtype of `x`.
///
/// Raises:
///     ValueError: if shapes, dtypes or numbers do not fit the mode.
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

/// Products of matrices that are both rounded to a floating format, picked by index: `qqmm` with the indices
/// of `gather_mm`.
///
/// Args:
///     x (array): Left operands, (..., m, k), of a real floating dtype.
///     w (array): Matrices, (..., n, k), or their codes.
///     scales (array, optional): Scales of the groups, where `w` holds codes. Default: None.
///     lhs_indices (array, optional): Which matrices of `x`, of an integer dtype. Default: None, all.
///     rhs_indices (array, optional): Which matrices of `w`, of an integer dtype. Default: None, all.
///     group_size (int, optional): Elements that share a scale. Default: None, that of the mode.
///     bits (int, optional): Bits of a code. Default: None, those of the mode.
///     mode (str, optional): "nvfp4", "mxfp8" or "mxfp4". Default: "nvfp4".
///     global_scale_x (array, optional): Float32 factors of the matrices of `x`, for "nvfp4" alone. Default:
///         None.
///     global_scale_w (array, optional): The same for `w`. Default: None.
///     sorted_indices (bool, optional): Promises that the indices do not decrease. Default: False.
///
/// Returns:
///     array: Products, the shape of the indices and then (m, n), in the dtype of `x`.
///
/// Raises:
///     ValueError: if shapes, dtypes or numbers do not fit, or the indices are not integers.
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
