//! Conversion to and from 8-bit floats.

use pyo3::prelude::*;

use crate::core::Dtype;
use crate::ops;
use crate::python::array::arguments::Arr;
use crate::python::array::dtype::D;
use crate::python::array::{Out, out};
use crate::python::runtime::device::{S, pick};

/// Rounds elements to 8-bit floats of the format E4M3: four bits of exponent, three of fraction.
///
/// Halves go to the even neighbour. The format has neither infinities nor numbers beyond 448: what is larger
/// becomes 448 and keeps its sign. See "FP8 Formats for Deep Learning" (Micikevicius et al. 2022, arXiv
/// 2209.05433).
///
/// Args:
///     x (array): Elements of any shape and a real floating dtype.
///
/// Returns:
///     array: uint8 codes, in the shape of `x`.
///
/// Raises:
///     ValueError: if the dtype is not a real floating one.
///
/// >>> mx.to_fp8(mx.array([1.0, 448.0]))
/// array([56, 126], dtype=uint8)
#[pyfunction]
#[pyo3(signature = (x, *, stream=None))]
fn to_fp8(x: Arr, stream: S) -> Out {
    out(ops::to_fp8(&x.0, pick(stream)))
}

/// Values of 8-bit floats of the format E4M3, which `to_fp8` makes.
///
/// Every such value is exact in the floating dtypes of 16 bits and more.
///
/// Args:
///     x (array): uint8 codes, of any shape.
///     dtype (Dtype, optional): A real floating dtype for the values. Default: bfloat16.
///
/// Returns:
///     array: Values, in the shape of `x`.
///
/// Raises:
///     ValueError: if `x` is not uint8, or `dtype` no real floating one.
///
/// >>> mx.from_fp8(mx.to_fp8(mx.array([0.3])), mx.float32)
/// array([0.3125], dtype=float32)
#[pyfunction]
#[pyo3(signature = (x, dtype=D(Dtype::BF16), *, stream=None), text_signature = "(x, dtype=None, *, stream=None)")]
fn from_fp8(x: Arr, dtype: D, stream: S) -> Out {
    out(ops::from_fp8(&x.0, dtype.0, pick(stream)))
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(to_fp8, m)?)?;
    m.add_function(wrap_pyfunction!(from_fp8, m)?)
}
