//! Matrix products.

use pyo3::prelude::*;

use super::array::{Out, out};
use super::convert::Arr;
use super::device::{S, pick};
use crate::ops;

/// Matrix product over the last two axes; leading axes broadcast, and an operand with one axis is a row on the
/// left and a column on the right. Floating point and complex dtypes only.
///
/// >>> mx.matmul(mx.ones((2, 3)), mx.ones((3, 2)))
/// array([[3, 3],
///        [3, 3]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, b, /, *, stream=None))]
fn matmul(a: Arr, b: Arr, stream: S) -> Out {
    out(ops::matmul(&a.0, &b.0, pick(stream)))
}

/// `alpha * (a @ b) + beta * c`; `c` broadcasts to the product.
///
/// >>> mx.addmm(mx.array([1.0, 2.0]), mx.ones((1, 3)), mx.ones((3, 2)))
/// array([[4, 5]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (c, a, b, /, alpha=1.0, beta=1.0, *, stream=None))]
fn addmm(c: Arr, a: Arr, b: Arr, alpha: f32, beta: f32, stream: S) -> Out {
    out(ops::addmm(&c.0, &a.0, &b.0, alpha, beta, pick(stream)))
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(matmul, m)?)?;
    m.add_function(wrap_pyfunction!(addmm, m)?)
}
