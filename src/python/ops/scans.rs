//! Running results along an axis, and differences of neighbours.

use pyo3::prelude::*;

use crate::kernels::ScanForm;
use crate::ops;
use crate::python::array::arguments::Arr;
use crate::python::array::dtype::D;
use crate::python::array::{Out, out};
use crate::python::runtime::device::{S, pick};

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
    /// Running sum along an axis or over the flattened array.
    ///
    /// Element i of the result is the sum of the elements up to i. bool is summed as int32; integers wrap
    /// around in their own dtype. NaN stays from where it appears.
    ///
    /// Args:
    #[doc = shared!(scanned)]
    #[doc = shared!(scanned_as)]
    ///
    /// Returns:
    ///     array: Of the shape of `a`, or of one axis where `axis` is None; the dtype is that of the sums.
    ///
    /// Raises:
    #[doc = shared!(axis_error)]
    ///
    /// >>> mx.cumsum(mx.array([1, 2, 3]))
    /// array([1, 3, 6], dtype=int32)
    /// >>> mx.cumsum(mx.array([1, 2, 3]), reverse=True, inclusive=False)
    /// array([5, 3, 0], dtype=int32)
    cumsum = cumsum;
    /// Running product along an axis or over the flattened array.
    ///
    /// Element i of the result is the product of the elements up to i. Integers wrap around in their own
    /// dtype; for bool it is the logical and. NaN stays from where it appears.
    ///
    /// Args:
    #[doc = shared!(scanned)]
    #[doc = shared!(scanned_as)]
    ///
    /// Returns:
    ///     array: Of the shape of `a`, or of one axis where `axis` is None; the dtype is that of the
    ///         products.
    ///
    /// Raises:
    #[doc = shared!(axis_error)]
    ///
    /// >>> mx.cumprod(mx.array([2, 3, 4]))
    /// array([2, 6, 24], dtype=int32)
    /// >>> mx.cumprod(mx.array([2, 3, 4]), reverse=True)
    /// array([24, 12, 4], dtype=int32)
    cumprod = cumprod;
    /// Running sum along an axis or over the flattened array: the array API's name of `cumsum`.
    ///
    /// Element i of the result is the sum of the elements up to i. bool is summed as int32; integers wrap
    /// around in their own dtype.
    ///
    /// Args:
    #[doc = shared!(scanned)]
    #[doc = shared!(scanned_as)]
    ///
    /// Returns:
    ///     array: Of the shape of `a`, or of one axis where `axis` is None; the dtype is that of the sums.
    ///
    /// Raises:
    #[doc = shared!(axis_error)]
    ///
    /// >>> mx.cumulative_sum(mx.array([1, 2, 3]))
    /// array([1, 3, 6], dtype=int32)
    cumulative_sum = cumsum;
    /// Running product along an axis or over the flattened array: the array API's name of `cumprod`.
    ///
    /// Element i of the result is the product of the elements up to i. Integers wrap around in their own
    /// dtype.
    ///
    /// Args:
    #[doc = shared!(scanned)]
    #[doc = shared!(scanned_as)]
    ///
    /// Returns:
    ///     array: Of the shape of `a`, or of one axis where `axis` is None; the dtype is that of the
    ///         products.
    ///
    /// Raises:
    #[doc = shared!(axis_error)]
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
    /// Running maximum along an axis or over the flattened array.
    ///
    /// Element i of the result is the largest of the elements up to i. NaN stays from where it appears. The
    /// maximum of no elements is minus infinity, or the least value of an integer dtype.
    ///
    /// Args:
    #[doc = shared!(scanned)]
    ///
    /// Returns:
    ///     array: Of the shape of `a`, or of one axis where `axis` is None, in the dtype of `a`.
    ///
    /// Raises:
    #[doc = shared!(axis_error)]
    ///
    /// >>> mx.cummax(mx.array([1, 3, 2]))
    /// array([1, 3, 3], dtype=int32)
    cummax;
    /// Running minimum along an axis or over the flattened array.
    ///
    /// Element i of the result is the smallest of the elements up to i. NaN stays from where it appears. The
    /// minimum of no elements is infinity, or the greatest value of an integer dtype.
    ///
    /// Args:
    #[doc = shared!(scanned)]
    ///
    /// Returns:
    ///     array: Of the shape of `a`, or of one axis where `axis` is None, in the dtype of `a`.
    ///
    /// Raises:
    #[doc = shared!(axis_error)]
    ///
    /// >>> mx.cummin(mx.array([3, 1, 2]))
    /// array([3, 1, 1], dtype=int32)
    cummin;
    /// Running `log(sum(exp(a)))` along an axis or over the flattened array.
    ///
    /// Element i of the result is the logarithm of the sum of the exponentials up to i, computed without
    /// overflow. The result of no elements is minus infinity. Integers and bool are computed in float32.
    ///
    /// Args:
    #[doc = shared!(scanned)]
    ///
    /// Returns:
    ///     array: Of the shape of `a`, or of one axis where `axis` is None; float32 for integers and bool,
    ///         else the dtype of `a`.
    ///
    /// Raises:
    #[doc = shared!(axis_error)]
    ///
    /// >>> mx.logcumsumexp(mx.array([0.0, 0.0]))
    /// array([0, 0.693147], dtype=float32)
    logcumsumexp;
}

/// Differences of neighbours along an axis.
///
/// One difference is the element behind less the element in front, so that the axis gets shorter by one; `n`
/// of them are taken one after another. For bool it is whether the neighbours differ.
///
/// Args:
///     a (array): Elements, with at least one axis.
///     n (int, optional): How often differences are taken; 0 gives `a` itself. Default: 1.
///     axis (int, optional): Axis of the neighbours; a negative one counts from the last. Default: -1.
///
/// Returns:
///     array: Of the shape of `a` with `axis` shorter by `n`, but not below 0, in the dtype of `a`.
///
/// Raises:
///     ValueError: if `n` is negative.
///     IndexError: if the axis is out of range, as every axis is for an array without axes.
///
/// >>> mx.diff(mx.array([1, 4, 9]))
/// array([3, 5], dtype=int32)
/// >>> mx.diff(mx.array([1, 4, 9]), n=2)
/// array([2], dtype=int32)
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
