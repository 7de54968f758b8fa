//! Functions that reduce axes, and those that work along one: sums, extrema, statistics, softmax, sorting.

use pyo3::prelude::*;

use super::array::{Out, out};
use super::convert::{Arr, Ints};
use super::device::{S, pick};
use crate::ops;

macro_rules! by_axes {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (a, /, axis=None, keepdims=false, *, stream=None))]
        pub fn $name(a: Arr, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
            out(ops::$name(&a.0, axis.as_ref().map(|x| &x.list[..]), keepdims, pick(stream)))
        }
    )*};
}

by_axes! {
    /// Sum over `axis`: an axis, several, or all by default. Removed axes stay with length 1 under `keepdims`.
    /// bool and narrow integers are summed as 32-bit integers. Raises IndexError for an axis out of range.
    ///
    /// >>> mx.sum(mx.array([[1, 2], [3, 4]]), axis=0)
    /// array([4, 6], dtype=int32)
    sum;
    /// Product over `axis` (all axes by default); dtypes as for `sum`.
    ///
    /// >>> mx.prod(mx.array([2, 3, 4]))
    /// array(24, dtype=int32)
    prod;
    /// Smallest element over `axis` (all axes by default); NaN wins. Raises ValueError for an empty axis.
    ///
    /// >>> mx.min(mx.array([3, 1, 2]))
    /// array(1, dtype=int32)
    min;
    /// Largest element over `axis` (all axes by default); NaN wins. Raises ValueError for an empty axis.
    ///
    /// >>> mx.max(mx.array([3, 1, 2]))
    /// array(3, dtype=int32)
    max;
    /// Whether all elements over `axis` (all axes by default) are non-zero; bool.
    ///
    /// >>> mx.all(mx.array([True, False]))
    /// array(False, dtype=bool)
    all;
    /// Whether some element over `axis` (all axes by default) is non-zero; bool.
    ///
    /// >>> mx.any(mx.array([True, False]))
    /// array(True, dtype=bool)
    any;
    /// Mean over `axis` (all axes by default); integers give float32.
    ///
    /// >>> mx.mean(mx.array([1, 2, 6]))
    /// array(3, dtype=float32)
    mean;
    /// `log(sum(exp(a)))` over `axis` (all axes by default), without overflow; integers give float32.
    ///
    /// >>> mx.logsumexp(mx.array([0.0, 0.0]))
    /// array(0.693147, dtype=float32)
    logsumexp;
}

/// Variance over `axis` (all axes by default), divided by the count less `ddof`; integers give float32.
///
/// >>> mx.var(mx.array([1.0, 3.0]))
/// array(1, dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, keepdims=false, ddof=0, *, stream=None))]
pub fn var(a: Arr, axis: Option<Ints>, keepdims: bool, ddof: i64, stream: S) -> Out {
    out(ops::var(&a.0, axis.as_ref().map(|x| &x.list[..]), keepdims, ddof, pick(stream)))
}

/// Standard deviation over `axis` (all axes by default): the square root of `var`.
///
/// >>> mx.std(mx.array([1.0, 3.0]))
/// array(1, dtype=float32)
#[pyfunction]
#[pyo3(name = "std", signature = (a, /, axis=None, keepdims=false, ddof=0, *, stream=None))]
pub fn std_(a: Arr, axis: Option<Ints>, keepdims: bool, ddof: i64, stream: S) -> Out {
    out(ops::std(&a.0, axis.as_ref().map(|x| &x.list[..]), keepdims, ddof, pick(stream)))
}

/// Index of the smallest element along `axis`, or in the flattened array; uint32, the first among equals.
///
/// >>> mx.argmin(mx.array([3, 1, 2]))
/// array(1, dtype=uint32)
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, keepdims=false, *, stream=None))]
pub fn argmin(a: Arr, axis: Option<i64>, keepdims: bool, stream: S) -> Out {
    out(ops::argmin(&a.0, axis, keepdims, pick(stream)))
}

/// Index of the largest element along `axis`, or in the flattened array; uint32, the first among equals.
///
/// >>> mx.argmax(mx.array([3, 1, 2]))
/// array(0, dtype=uint32)
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, keepdims=false, *, stream=None))]
pub fn argmax(a: Arr, axis: Option<i64>, keepdims: bool, stream: S) -> Out {
    out(ops::argmax(&a.0, axis, keepdims, pick(stream)))
}

/// `exp(a)` divided by its sum over `axis` (all axes by default). Under `precise`, narrow floats are computed in
/// float32.
///
/// >>> mx.softmax(mx.array([0.0, 0.0]))
/// array([0.5, 0.5], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, *, precise=false, stream=None))]
fn softmax(a: Arr, axis: Option<Ints>, precise: bool, stream: S) -> Out {
    out(ops::softmax(&a.0, axis.as_ref().map(|x| &x.list[..]), precise, pick(stream)))
}

/// The elements in ascending order along `axis` (of the flattened array for None); NaN comes last.
///
/// >>> mx.sort(mx.array([3, 1, 2]))
/// array([1, 2, 3], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, axis=-1, *, stream=None))]
fn sort(a: Arr, axis: Option<i64>, stream: S) -> Out {
    out(ops::sort(&a.0, axis, pick(stream)))
}

/// Indices (uint32) that sort along `axis`; equal elements keep their order.
///
/// >>> mx.argsort(mx.array([3, 1, 2]))
/// array([1, 2, 0], dtype=uint32)
#[pyfunction]
#[pyo3(signature = (a, /, axis=-1, *, stream=None))]
fn argsort(a: Arr, axis: Option<i64>, stream: S) -> Out {
    out(ops::argsort(&a.0, axis, pick(stream)))
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    for f in [
        wrap_pyfunction!(sum, m)?,
        wrap_pyfunction!(prod, m)?,
        wrap_pyfunction!(min, m)?,
        wrap_pyfunction!(max, m)?,
        wrap_pyfunction!(all, m)?,
        wrap_pyfunction!(any, m)?,
        wrap_pyfunction!(mean, m)?,
        wrap_pyfunction!(logsumexp, m)?,
        wrap_pyfunction!(var, m)?,
        wrap_pyfunction!(std_, m)?,
        wrap_pyfunction!(argmin, m)?,
        wrap_pyfunction!(argmax, m)?,
        wrap_pyfunction!(softmax, m)?,
        wrap_pyfunction!(sort, m)?,
        wrap_pyfunction!(argsort, m)?,
    ] {
        m.add_function(f)?;
    }
    Ok(())
}
