//! Functions that select by order: partitions, the largest elements, medians, searches, distinct elements.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::ops;
use crate::python::array::arguments::{Arr, Ints};
use crate::python::array::convert::to_array;
use crate::python::array::{Out, PyArray, out};
use crate::python::runtime::device::{S, pick};

/// The elements rearranged so that the element number `kth` is where sorting would put it.
///
/// None of the elements before it is greater and none behind it is less; otherwise their order is not
/// specified. NaN counts as greatest. Cheaper guarantees than those of `sort`, to which it may fall back.
///
/// Args:
///     a (array): What is rearranged, of any shape.
///     kth (int): Position of the element that gets its place; a negative one counts from the end of the
///         axis.
///     axis (int, optional): Axis to rearrange along; a negative one counts from the last. None rearranges
///         the flattened array. Default: -1.
///
/// Returns:
///     array: Of the shape of `a`, or of one axis where `axis` is None, in the dtype of `a`.
///
/// Raises:
#[doc = shared!(axis_error)]
///     ValueError: if `kth` is out of range.
///
/// >>> mx.partition(mx.array([2, 1, 3]), 2)[2]
/// array(3, dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, kth, axis=-1, *, stream=None))]
fn partition(a: Arr, kth: i64, axis: Option<i64>, stream: S) -> Out {
    out(ops::partition(&a.0, kth, axis, pick(stream)))
}

/// Indices that rearrange the elements as `partition` does.
///
/// Element number `kth` of the rearranged array is where sorting would put it, with none greater before it
/// and none less behind it. No gradient flows through indices.
///
/// Args:
///     a (array): What is rearranged, of any shape.
///     kth (int): Position of the element that gets its place; a negative one counts from the end of the
///         axis.
///     axis (int, optional): Axis to rearrange along; a negative one counts from the last. None takes the
///         flattened array. Default: -1.
///
/// Returns:
///     array: uint32, of the shape of `a`, or of one axis where `axis` is None.
///
/// Raises:
#[doc = shared!(axis_error)]
///     ValueError: if `kth` is out of range.
///
/// >>> mx.argpartition(mx.array([2, 1, 3]), 2)[2]
/// array(2, dtype=uint32)
#[pyfunction]
#[pyo3(signature = (a, /, kth, axis=-1, *, stream=None))]
fn argpartition(a: Arr, kth: i64, axis: Option<i64>, stream: S) -> Out {
    out(ops::argpartition(&a.0, kth, axis, pick(stream)))
}

/// The `k` largest elements along an axis or of the flattened array.
///
/// They come in no particular order: use `sort` on the result where that matters, `argpartition` for the
/// indices. NaN counts as greatest.
///
/// Args:
///     a (array): Elements, of any shape.
///     k (int): How many are taken, 0 included.
///     axis (int, optional): Axis to choose along; a negative one counts from the last. None takes the
///         flattened array. Default: -1.
///
/// Returns:
///     array: Of the shape of `a` with `axis` of length `k`, in the dtype of `a`.
///
/// Raises:
#[doc = shared!(axis_error)]
///     ValueError: if `k` is negative or larger than the length of the axis.
///
/// >>> mx.sort(mx.topk(mx.array([5, 1, 9, 7]), 2))
/// array([7, 9], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, k, axis=-1, *, stream=None))]
fn topk(a: Arr, k: i64, axis: Option<i64>, stream: S) -> Out {
    out(ops::topk(&a.0, k, axis, pick(stream)))
}

/// Median of the elements over one axis, several, or all.
///
/// It is the middle element in sorted order, or the mean of the two in the middle where their number is even.
/// The result is NaN where an element is. Integers and bool are computed in float32.
///
/// Args:
#[doc = shared!(reduced)]
///
/// Returns:
///     array: Medians, in the shape of `a` without the reduced axes; float32 for integers and bool, else the
///         dtype of `a`.
///
/// Raises:
#[doc = shared!(empty_errors)]
///
/// >>> mx.median(mx.array([[3, 1, 2], [4, 8, 6]]), axis=1)
/// array([2, 6], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, keepdims=false, *, stream=None))]
fn median(a: Arr, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
    out(ops::median(&a.0, axis.as_ref().map(|x| &x.list[..]), keepdims, pick(stream)))
}

/// Smallest and largest element over one axis, several, or all.
///
/// Both are NaN where an element is. Complex numbers are compared by their real parts, then by their
/// imaginary parts. Both extrema come from one call.
///
/// Args:
#[doc = shared!(reduced)]
///
/// Returns:
///     tuple[array, array]: Smallest and largest elements, both in the shape of `a` without the reduced axes
///         and in its dtype.
///
/// Raises:
#[doc = shared!(empty_errors)]
///
/// >>> mx.minmax(mx.array([3, 1, 2]))
/// (array(1, dtype=int32), array(3, dtype=int32))
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, keepdims=false, *, stream=None))]
fn minmax(a: Arr, axis: Option<Ints>, keepdims: bool, stream: S) -> PyResult<(PyArray, PyArray)> {
    let (lo, hi) = ops::minmax(&a.0, axis.as_ref().map(|x| &x.list[..]), keepdims, pick(stream))?;
    Ok((PyArray::new(lo), PyArray::new(hi)))
}

/// Number of elements that are not zero over one axis, several, or all.
///
/// NaN is not zero and counts, as do both parts of a complex number: it is zero only where both are. True
/// counts as one.
///
/// Args:
#[doc = shared!(reduced)]
///
/// Returns:
///     array: int32, in the shape of `a` without the reduced axes.
///
/// Raises:
#[doc = shared!(axis_errors)]
///
/// >>> mx.count_nonzero(mx.array([[0, 1, 2], [0, 0, 3]]), axis=1)
/// array([2, 1], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, *, keepdims=false, stream=None))]
fn count_nonzero(a: Arr, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
    out(ops::count_nonzero(&a.0, axis.as_ref().map(|x| &x.list[..]), keepdims, pick(stream)))
}

/// Where values would go in a sorted sequence so that it stays sorted.
///
/// For the side "left" it is the first such position, before elements that are equal to the value; for
/// "right" the last one, behind them. NaN counts as greatest. Found by bisection; that the sequence is sorted
/// is not checked.
///
/// Args:
///     sorted_sequence (array): Elements in ascending order, of one axis.
///     values (array): What is looked for, of any shape.
///     side (str, optional): "left" or "right". Default: "left".
///
/// Returns:
///     array: uint32 positions from 0 to the length of the sequence, in the shape of `values`.
///
/// Raises:
///     ValueError: if the sequence has not one axis or the side is another one.
///
/// >>> mx.searchsorted(mx.array([1, 2, 2, 4]), mx.array([2, 5]))
/// array([1, 4], dtype=uint32)
/// >>> mx.searchsorted(mx.array([1, 2, 2, 4]), mx.array([2, 5]), side="right")
/// array([3, 4], dtype=uint32)
#[pyfunction]
#[pyo3(signature = (sorted_sequence, values, /, side="left", *, stream=None))]
fn searchsorted(sorted_sequence: Arr, values: Arr, side: &str, stream: S) -> Out {
    let right = match side {
        "left" => false,
        "right" => true,
        _ => {
            let text = format!("[searchsorted] Invalid side '{side}'. Expected 'left' or 'right'.");
            return Err(PyValueError::new_err(text));
        }
    };
    out(ops::searchsorted(&sorted_sequence.0, &values.0, right, pick(stream)))
}

/// Distinct elements of the flattened array in ascending order, as many as asked for.
///
/// The shape of a result cannot depend on values, so that the caller says how many to return: of more
/// distinct elements the first `size` are kept, fewer are filled up. Each NaN is distinct from all others.
///
/// Args:
///     a (array): Elements, of any shape.
///     size (int): Length of the result.
///     return_index (bool, optional): Whether to return where each value occurs first in the flattened array.
///         Default: False.
///     return_inverse (bool, optional): Whether to return the position of the value of each element of `a`.
///         Default: False.
///     return_counts (bool, optional): Whether to return how often each value occurs. Default: False.
///     fill_value (array | number, optional): What missing values are filled up with. Default: None, the
///         least element.
///
/// Returns:
///     array | tuple[array, ...]: The values, (size,), in the dtype of `a`; where asked for, behind them the
///         first indices (uint32, (size,)), the positions (uint32, the shape of `a`) and the counts (int32,
///         (size,), 0 for fills).
///
/// Raises:
///     ValueError: if `size` is negative, or `a` is empty and there is no `fill_value`.
///
/// >>> mx.unique(mx.array([2, 1, 2]), 2)
/// array([1, 2], dtype=int32)
/// >>> mx.unique(mx.array([2, 1, 2]), 3, return_counts=True, fill_value=0)
/// (array([1, 2, 0], dtype=int32), array([1, 2, 0], dtype=int32))
#[pyfunction]
#[pyo3(signature = (
    a, /, size, return_index=false, return_inverse=false, return_counts=false, fill_value=None, *, stream=None
))]
#[allow(clippy::too_many_arguments)]
fn unique<'py>(
    py: Python<'py>,
    a: Arr,
    size: i64,
    return_index: bool,
    return_inverse: bool,
    return_counts: bool,
    fill_value: Option<Bound<'py, PyAny>>,
    stream: S,
) -> PyResult<Bound<'py, PyAny>> {
    let fill = fill_value.map(|v| to_array(&v, Some(a.0.dtype()))).transpose()?;
    let u = ops::unique(&a.0, size, fill.as_ref(), pick(stream))?;
    let optional = [(return_index, u.index), (return_inverse, u.inverse), (return_counts, u.counts)];
    let mut all = vec![PyArray::new(u.values)];
    all.extend(optional.into_iter().filter(|x| x.0).map(|x| PyArray::new(x.1)));
    match all.len() {
        1 => Ok(Bound::new(py, all.remove(0))?.into_any()),
        _ => Ok(PyTuple::new(py, all)?.into_any()),
    }
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    for f in [
        wrap_pyfunction!(partition, m)?,
        wrap_pyfunction!(argpartition, m)?,
        wrap_pyfunction!(topk, m)?,
        wrap_pyfunction!(median, m)?,
        wrap_pyfunction!(minmax, m)?,
        wrap_pyfunction!(count_nonzero, m)?,
        wrap_pyfunction!(searchsorted, m)?,
        wrap_pyfunction!(unique, m)?,
    ] {
        m.add_function(f)?;
    }
    Ok(())
}
