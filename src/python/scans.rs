//! Running results along an axis, and differences of neighbours.

use pyo3::prelude::*;

use super::array::{Out, out};
use super::convert::Arr;
use super::device::{S, pick};
use super::dtype::D;
use crate::kernels::ScanForm;
use crate::ops;

macro_rules! sums {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => {$(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (a, /, axis=None, *, reverse=false, inclusive=true, dtype=None, stream=None))]
        pub fn $name(a: Arr, axis: Option<i64>, reverse: bool, inclusive: bool, dtype: Option<D>, stream: S) -> Out {
            out(ops::$op(&a.0, axis, ScanForm { reverse, inclusive }, dtype.map(|d| d.0), pick(stream)))
        }
    )*};
}

sums! {
    /// Running sum along `axis`, of the flattened array by default. `reverse` runs from the end; without
    /// `inclusive` each result leaves its own element out. `dtype` is converted to first; bool is summed as int32,
    /// other integers wrap in their own dtype. Raises IndexError for an axis out of range.
    ///
    /// >>> mx.cumsum(mx.array([1, 2, 3]))
    /// array([1, 3, 6], dtype=int32)
    cumsum = cumsum;
    /// Running product along `axis`, of the flattened array by default. `reverse` runs from the end; without
    /// `inclusive` each result leaves its own element out. `dtype` is converted to first. Raises IndexError for an
    /// axis out of range.
    ///
    /// >>> mx.cumprod(mx.array([2, 3, 4]))
    /// array([2, 6, 24], dtype=int32)
    cumprod = cumprod;
    /// Running sum; another name of `cumsum`.
    ///
    /// >>> mx.cumulative_sum(mx.array([1, 2, 3]))
    /// array([1, 3, 6], dtype=int32)
    cumulative_sum = cumsum;
    /// Running product; another name of `cumprod`.
    ///
    /// >>> mx.cumulative_prod(mx.array([2, 3, 4]))
    /// array([2, 6, 24], dtype=int32)
    cumulative_prod = cumprod;
}

macro_rules! scans {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (a, /, axis=None, *, reverse=false, inclusive=true, stream=None))]
        pub fn $name(a: Arr, axis: Option<i64>, reverse: bool, inclusive: bool, stream: S) -> Out {
            out(ops::$name(&a.0, axis, ScanForm { reverse, inclusive }, pick(stream)))
        }
    )*};
}

scans! {
    /// Running maximum along `axis`, of the flattened array by default; NaN stays once it has come. `reverse` runs
    /// from the end; without `inclusive` each result leaves its own element out and the first is the least value.
    ///
    /// >>> mx.cummax(mx.array([1, 3, 2]))
    /// array([1, 3, 3], dtype=int32)
    cummax;
    /// Running minimum along `axis`, of the flattened array by default; NaN stays once it has come. `reverse` runs
    /// from the end; without `inclusive` each result leaves its own element out and the first is the greatest value.
    ///
    /// >>> mx.cummin(mx.array([3, 1, 2]))
    /// array([3, 1, 1], dtype=int32)
    cummin;
    /// Running `log(sum(exp(a)))` along `axis`, of the flattened array by default, without overflow; integers give
    /// float32. `reverse` runs from the end; without `inclusive` each result leaves its own element out.
    ///
    /// >>> mx.logcumsumexp(mx.array([0.0, 0.0]))
    /// array([0, 0.693147], dtype=float32)
    logcumsumexp;
}

/// The differences of neighbours along `axis`, taken `n` times; the axis gets shorter by `n`. For bool: whether
/// neighbours differ. Raises ValueError for a negative `n` and IndexError for an axis out of range.
///
/// >>> mx.diff(mx.array([1, 4, 9]))
/// array([3, 5], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, n=1, axis=-1, *, stream=None))]
fn diff(a: Arr, n: i64, axis: i64, stream: S) -> Out {
    out(ops::diff(&a.0, n, axis, pick(stream)))
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    for f in [
        wrap_pyfunction!(cumsum, m)?,
        wrap_pyfunction!(cumprod, m)?,
        wrap_pyfunction!(cumulative_sum, m)?,
        wrap_pyfunction!(cumulative_prod, m)?,
        wrap_pyfunction!(cummax, m)?,
        wrap_pyfunction!(cummin, m)?,
        wrap_pyfunction!(logcumsumexp, m)?,
        wrap_pyfunction!(diff, m)?,
    ] {
        m.add_function(f)?;
    }
    Ok(())
}
