//! Functions that select by order: partitions, the largest elements, medians, searches, distinct elements.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::array::{Out, PyArray, out};
use super::convert::{Arr, Ints, to_array};
use super::device::{S, pick};
use crate::ops;

/// The elements rearranged along `axis` (of the flattened array for None) so that number `kth` is where sorting
/// would put it, with none greater before it and none less after it. Raises ValueError for a `kth` out of range.
///
/// >>> mx.partition(mx.array([2, 1, 3]), 2)[2]
/// array(3, dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, kth, axis=-1, *, stream=None))]
fn partition(a: Arr, kth: i64, axis: Option<i64>, stream: S) -> Out {
    out(ops::partition(&a.0, kth, axis, pick(stream)))
}

/// Indices (uint32) that partition along `axis` as `partition` does.
///
/// >>> mx.argpartition(mx.array([2, 1, 3]), 2)[2]
/// array(2, dtype=uint32)
#[pyfunction]
#[pyo3(signature = (a, /, kth, axis=-1, *, stream=None))]
fn argpartition(a: Arr, kth: i64, axis: Option<i64>, stream: S) -> Out {
    out(ops::argpartition(&a.0, kth, axis, pick(stream)))
}

/// The `k` largest elements along `axis` (of the flattened array for None), in no particular order. Raises
/// ValueError for a `k` out of range.
///
/// >>> mx.topk(mx.array([2, 1, 3]), 1)
/// array([3], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, k, axis=-1, *, stream=None))]
fn topk(a: Arr, k: i64, axis: Option<i64>, stream: S) -> Out {
    out(ops::topk(&a.0, k, axis, pick(stream)))
}

/// The median over `axis` (all axes by default): the mean of the two middle elements of an even count, NaN if
/// there is any. Integers give float32. Raises ValueError for an empty axis.
///
/// >>> mx.median(mx.array([3, 1, 2, 4]))
/// array(2.5, dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, keepdims=false, *, stream=None))]
fn median(a: Arr, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
    out(ops::median(&a.0, axis.as_ref().map(|x| &x.list[..]), keepdims, pick(stream)))
}

/// Minimum and maximum over `axis` (all axes by default) as a pair; NaN wins in both. Raises ValueError for an
/// empty axis.
///
/// >>> mx.minmax(mx.array([3, 1, 2]))
/// (array(1, dtype=int32), array(3, dtype=int32))
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, keepdims=false, *, stream=None))]
fn minmax(a: Arr, axis: Option<Ints>, keepdims: bool, stream: S) -> PyResult<(PyArray, PyArray)> {
    let (lo, hi) = ops::minmax(&a.0, axis.as_ref().map(|x| &x.list[..]), keepdims, pick(stream))?;
    Ok((PyArray::new(lo), PyArray::new(hi)))
}

/// How many elements over `axis` (all axes by default) are not zero, as int32; NaN counts.
///
/// >>> mx.count_nonzero(mx.array([0, 1, 2]))
/// array(2, dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, *, axis=None, keepdims=false, stream=None))]
fn count_nonzero(a: Arr, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
    out(ops::count_nonzero(&a.0, axis.as_ref().map(|x| &x.list[..]), keepdims, pick(stream)))
}

/// Where `values` would go in the sorted one-dimensional `sorted_sequence`: the first position that keeps it
/// sorted, or the last one for the side 'right'; uint32 of the shape of `values`. NaN is greatest. Raises
/// ValueError for another side or a sequence that is not one-dimensional.
///
/// >>> mx.searchsorted(mx.array([1, 2, 2, 4]), mx.array([2, 5]))
/// array([1, 4], dtype=uint32)
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

/// The first `size` distinct elements of the flattened array in ascending order; if there are fewer, the rest is
/// `fill_value` (the least element by default). On request with the index of each one's first occurrence
/// (uint32), for each element of `a` the index of its value (uint32, the shape of `a`), and how often each occurs
/// (int32, 0 for the fill). Each NaN is distinct. Raises ValueError for a negative size.
///
/// >>> mx.unique(mx.array([2, 1, 2]), 2)
/// array([1, 2], dtype=int32)
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
