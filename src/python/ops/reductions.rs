//! Functions that reduce axes, and those that work along one: sums, extrema, statistics, softmax, sorting.

use pyo3::prelude::*;

use crate::ops;
use crate::python::array::arguments::{Arr, Ints};
use crate::python::array::{Out, out};
use crate::python::runtime::device::{S, pick};

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
    /// Sum of the elements over one axis, several, or all.
    ///
    /// bool, int8 and int16 are summed as int32, uint8 and uint16 as uint32, half floats with float32 sums
    /// that are rounded at the end; sums of integers wrap around. NaN stays NaN, the sum of no elements is 0.
    ///
    /// Args:
    #[doc = shared!(reduced)]
    ///
    /// Returns:
    ///     array: Sums, in the shape of `a` without the reduced axes; int32, uint32 or the dtype of `a`.
    ///
    /// Raises:
    #[doc = shared!(axis_errors)]
    ///
    /// >>> mx.sum(mx.array([[1, 2], [3, 4]]), axis=0)
    /// array([4, 6], dtype=int32)
    sum;
    /// Product of the elements over one axis, several, or all.
    ///
    /// bool, int8 and int16 are multiplied as int32, uint8 and uint16 as uint32; products of integers wrap
    /// around. NaN stays NaN, the product of no elements is 1.
    ///
    /// Args:
    #[doc = shared!(reduced)]
    ///
    /// Returns:
    ///     array: Products, in the shape of `a` without the reduced axes; int32, uint32 or the dtype of `a`.
    ///
    /// Raises:
    #[doc = shared!(axis_errors)]
    ///
    /// >>> mx.prod(mx.array([2, 3, 4]))
    /// array(24, dtype=int32)
    prod;
    /// Smallest element over one axis, several, or all.
    ///
    /// The result is NaN where an element is. Complex numbers are compared by their real parts, then by their
    /// imaginary parts. Elements that are equally small share the gradient. See `minimum` for two arrays.
    ///
    /// Args:
    #[doc = shared!(reduced)]
    ///
    /// Returns:
    ///     array: Smallest elements, in the shape of `a` without the reduced axes and in its dtype.
    ///
    /// Raises:
    #[doc = shared!(empty_errors)]
    ///
    /// >>> mx.min(mx.array([[3, 1], [2, 4]]), axis=1)
    /// array([1, 2], dtype=int32)
    min;
    /// Largest element over one axis, several, or all.
    ///
    /// The result is NaN where an element is. Complex numbers are compared by their real parts, then by their
    /// imaginary parts. Elements that are equally large share the gradient. See `maximum` for two arrays.
    ///
    /// Args:
    #[doc = shared!(reduced)]
    ///
    /// Returns:
    ///     array: Largest elements, in the shape of `a` without the reduced axes and in its dtype.
    ///
    /// Raises:
    #[doc = shared!(empty_errors)]
    ///
    /// >>> mx.max(mx.array([[3, 1], [2, 4]]), axis=1)
    /// array([3, 4], dtype=int32)
    max;
    /// Whether all elements over one axis, several, or all are true.
    ///
    /// What is not zero counts as true, NaN included. Of no elements all are true.
    ///
    /// Args:
    #[doc = shared!(reduced)]
    ///
    /// Returns:
    ///     array: bool, in the shape of `a` without the reduced axes.
    ///
    /// Raises:
    #[doc = shared!(axis_errors)]
    ///
    /// >>> mx.all(mx.array([[True, False], [True, True]]), axis=1)
    /// array([False, True], dtype=bool)
    all;
    /// Whether at least one element over one axis, several, or all is true.
    ///
    /// What is not zero counts as true, NaN included. Of no elements none is true.
    ///
    /// Args:
    #[doc = shared!(reduced)]
    ///
    /// Returns:
    ///     array: bool, in the shape of `a` without the reduced axes.
    ///
    /// Raises:
    #[doc = shared!(axis_errors)]
    ///
    /// >>> mx.any(mx.array([[True, False], [False, False]]), axis=1)
    /// array([True, False], dtype=bool)
    any;
    /// Arithmetic mean of the elements over one axis, several, or all.
    ///
    /// Integers and bool are averaged as float32. NaN stays NaN, and the mean of no elements is NaN.
    ///
    /// Args:
    #[doc = shared!(reduced)]
    ///
    /// Returns:
    ///     array: Means, in the shape of `a` without the reduced axes; float32 for integers and bool, else
    ///         the dtype of `a`.
    ///
    /// Raises:
    #[doc = shared!(axis_errors)]
    ///
    /// >>> mx.mean(mx.array([[1, 2], [3, 6]]), axis=1)
    /// array([1.5, 4.5], dtype=float32)
    mean;
    /// Logarithm of the sum of exponentials, `log(sum(exp(a)))`, over one axis, several, or all.
    ///
    /// The largest element is taken out of the sum first, so that nothing overflows; half floats are summed
    /// in float32. Integers and bool are computed in float32. The gradient is `softmax(a)` over the same
    /// axes.
    ///
    /// Args:
    #[doc = shared!(reduced)]
    ///
    /// Returns:
    ///     array: Logarithms, in the shape of `a` without the reduced axes; float32 for integers and bool,
    ///         else the dtype of `a`.
    ///
    /// Raises:
    #[doc = shared!(axis_errors)]
    ///
    /// >>> mx.logsumexp(mx.array([1000.0, 1000.0]))
    /// array(1000.69, dtype=float32)
    logsumexp;
}

/// Variance of the elements over one axis, several, or all: the mean square of their distances from their
/// mean.
///
/// The sum of squares is divided by the number of elements less `ddof`; where that is not positive the result
/// is NaN or infinite. Integers and bool are computed in float32.
///
/// Args:
#[doc = shared!(reduced)]
///     ddof (int, optional): What the divisor is less than the number of elements; 1 gives the unbiased
///         estimate from a sample. Default: 0.
///
/// Returns:
///     array: Variances, in the shape of `a` without the reduced axes; float32 for integers and bool, else
///         the dtype of `a`.
///
/// Raises:
#[doc = shared!(axis_errors)]
///
/// >>> mx.var(mx.array([1.0, 3.0]))
/// array(1, dtype=float32)
/// >>> mx.var(mx.array([1.0, 3.0]), ddof=1)
/// array(2, dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, keepdims=false, ddof=0, *, stream=None))]
pub fn var(a: Arr, axis: Option<Ints>, keepdims: bool, ddof: i64, stream: S) -> Out {
    out(ops::var(&a.0, axis.as_ref().map(|x| &x.list[..]), keepdims, ddof, pick(stream)))
}

/// Standard deviation of the elements over one axis, several, or all: the square root of `var`.
///
/// The sum of squares is divided by the number of elements less `ddof`; where that is not positive the result
/// is NaN or infinite. Integers and bool are computed in float32.
///
/// Args:
#[doc = shared!(reduced)]
///     ddof (int, optional): What the divisor is less than the number of elements; 1 for a sample. Default:
///         0.
///
/// Returns:
///     array: Deviations, in the shape of `a` without the reduced axes; float32 for integers and bool, else
///         the dtype of `a`.
///
/// Raises:
#[doc = shared!(axis_errors)]
///
/// >>> mx.std(mx.array([1.0, 3.0]))
/// array(1, dtype=float32)
#[pyfunction]
#[pyo3(name = "std", signature = (a, /, axis=None, keepdims=false, ddof=0, *, stream=None))]
pub fn std_(a: Arr, axis: Option<Ints>, keepdims: bool, ddof: i64, stream: S) -> Out {
    out(ops::std(&a.0, axis.as_ref().map(|x| &x.list[..]), keepdims, ddof, pick(stream)))
}

/// Index of the smallest element along an axis or in the flattened array.
///
/// Of equal elements the first one counts. NaN counts as smaller than every number, so that the first NaN is
/// found. No gradient flows through indices.
///
/// Args:
#[doc = shared!(reduced_one)]
///
/// Returns:
///     array: uint32, in the shape of `a` without the axis.
///
/// Raises:
#[doc = shared!(axis_error)]
///     ValueError: if there are no elements to choose from.
///
/// >>> mx.argmin(mx.array([[3, 1, 2], [4, 6, 5]]), axis=1)
/// array([1, 0], dtype=uint32)
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, keepdims=false, *, stream=None))]
pub fn argmin(a: Arr, axis: Option<i64>, keepdims: bool, stream: S) -> Out {
    out(ops::argmin(&a.0, axis, keepdims, pick(stream)))
}

/// Index of the largest element along an axis or in the flattened array.
///
/// Of equal elements the first one counts. NaN counts as larger than every number, so that the first NaN is
/// found. No gradient flows through indices.
///
/// Args:
#[doc = shared!(reduced_one)]
///
/// Returns:
///     array: uint32, in the shape of `a` without the axis.
///
/// Raises:
#[doc = shared!(axis_error)]
///     ValueError: if there are no elements to choose from.
///
/// >>> mx.argmax(mx.array([[3, 1, 2], [4, 6, 5]]), axis=1)
/// array([0, 1], dtype=uint32)
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, keepdims=false, *, stream=None))]
pub fn argmax(a: Arr, axis: Option<i64>, keepdims: bool, stream: S) -> Out {
    out(ops::argmax(&a.0, axis, keepdims, pick(stream)))
}

/// Exponentials of the elements divided by their sum over one axis, several, or all.
///
/// The results over the axes are positive and add up to 1. The largest element is subtracted first, so that
/// nothing overflows. Integers and bool are computed in float32.
///
/// Args:
///     a (array): Scores, of any shape.
///     axis (int | Sequence[int], optional): Axis or axes to sum over; negative ones count from the last.
///         None takes all. Default: None.
///     precise (bool, optional): Whether half floats are computed in float32 and rounded at the end. Default:
///         False.
///
/// Returns:
///     array: Of the shape of `a`; float32 for integers and bool, else the dtype of `a`.
///
/// Raises:
#[doc = shared!(axis_errors)]
///
/// >>> mx.softmax(mx.array([[0.0, 0.0], [1000.0, 0.0]]), axis=1)
/// array([[0.5, 0.5],
///        [1, 0]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, *, precise=false, stream=None))]
fn softmax(a: Arr, axis: Option<Ints>, precise: bool, stream: S) -> Out {
    out(ops::softmax(&a.0, axis.as_ref().map(|x| &x.list[..]), precise, pick(stream)))
}

/// The elements in ascending order along an axis.
///
/// NaN comes last. Complex numbers are ordered by their real parts, then by their imaginary parts. The
/// gradient goes back to where each element came from. See `argsort` for the indices.
///
/// Args:
#[doc = shared!(sorted)]
///
/// Returns:
///     array: Of the shape of `a`, or of one axis where `axis` is None, in the dtype of `a`.
///
/// Raises:
#[doc = shared!(axis_error)]
///
/// >>> mx.sort(mx.array([[3, 1, 2], [4, 6, 5]]))
/// array([[1, 2, 3],
///        [4, 5, 6]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, axis=-1, *, stream=None))]
fn sort(a: Arr, axis: Option<i64>, stream: S) -> Out {
    out(ops::sort(&a.0, axis, pick(stream)))
}

/// Indices that put the elements into ascending order along an axis.
///
/// Equal elements keep their order; NaN comes last. Use `take_along_axis` to apply the indices to an array.
/// No gradient flows through indices.
///
/// Args:
#[doc = shared!(sorted)]
///
/// Returns:
///     array: uint32, of the shape of `a`, or of one axis where `axis` is None.
///
/// Raises:
#[doc = shared!(axis_error)]
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
