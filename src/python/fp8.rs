//! Conversion to and from 8-bit floats.

use pyo3::prelude::*;

use super::array::{Out, out};
use super::convert::Arr;
use super::device::{S, pick};
use super::dtype::D;
use crate::core::Dtype;
use crate::ops;

/// The nearest 8-bit float (E4M3) of each element, as uint8. What is larger than 448, NaN included, becomes 448.
/// Raises ValueError unless the dtype of `x` is a real floating one.
///
/// >>> mx.to_fp8(mx.array([1.0, 448.0]))
/// array([56, 126], dtype=uint8)
#[pyfunction]
#[pyo3(signature = (x, *, stream=None))]
fn to_fp8(x: Arr, stream: S) -> Out {
    out(ops::to_fp8(&x.0, pick(stream)))
}

/// The values of 8-bit floats (E4M3) that are held as uint8, in a real floating `dtype`, bfloat16 by default.
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
