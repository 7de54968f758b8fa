//! Products of matrices and of arrays over axes.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::array::{Out, out};
use super::convert::{Arr, Seq};
use super::device::{S, pick};
use crate::core::Array;
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

/// Sum of products over axes of two arrays: the last `axes` of `a` with the first `axes` of `b`, or the axes in two
/// lists, pair by pair. Floating point and complex dtypes only; raises ValueError where lengths differ.
///
/// >>> mx.tensordot(mx.ones((2, 3)), mx.ones((3, 2)), 1)
/// array([[3, 3],
///        [3, 3]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, b, /, axes=None, *, stream=None), text_signature = "(a, b, /, axes=2, *, stream=None)")]
fn tensordot(a: Arr, b: Arr, axes: Option<Bound<'_, PyAny>>, stream: S) -> Out {
    let s = pick(stream);
    let Some(axes) = axes else {
        return out(ops::tensordot_last(&a.0, &b.0, 2, s));
    };
    if let Ok(n) = axes.extract::<i64>() {
        return out(ops::tensordot_last(&a.0, &b.0, n, s));
    }
    let lists = axes.extract::<Vec<Seq>>().map_err(|_| {
        PyTypeError::new_err("tensordot(): axes must be an int or a list of two sequences of ints")
    })?;
    match &lists[..] {
        [x, y] => out(ops::tensordot(&a.0, &b.0, &x.0, &y.0, s)),
        _ => Err(PyValueError::new_err("[tensordot] axes must be a list of two lists.")),
    }
}

/// Sum of products over the last axes of two arrays; plain multiplication where one is a scalar. Raises
/// ValueError where those axes differ in length.
///
/// >>> mx.inner(mx.array([1.0, 2.0]), mx.array([3.0, 4.0]))
/// array(11, dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, b, /, *, stream=None))]
fn inner(a: Arr, b: Arr, stream: S) -> Out {
    out(ops::inner(&a.0, &b.0, pick(stream)))
}

/// Products of each element of `a` with each element of `b`, both flattened: a matrix.
///
/// >>> mx.outer(mx.array([1, 2]), mx.array([3, 4]))
/// array([[3, 4],
///        [6, 8]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, b, /, *, stream=None))]
fn outer(a: Arr, b: Arr, stream: S) -> Out {
    out(ops::outer(&a.0, &b.0, pick(stream)))
}

/// Sum of `conj(a) * b` along `axis`; the other axes broadcast. Narrow integers are summed as 32-bit integers.
///
/// >>> mx.vecdot(mx.array([[1, 2], [3, 4]]), mx.array([[1, 1], [2, 2]]))
/// array([3, 14], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, b, /, *, axis=-1, stream=None))]
fn vecdot(a: Arr, b: Arr, axis: i64, stream: S) -> Out {
    out(ops::vecdot(&a.0, &b.0, axis, pick(stream)))
}

/// Kronecker product: each element of `a` times the whole of `b`, in the place of that element. Raises ValueError
/// for empty arrays.
///
/// >>> mx.kron(mx.array([1, 2]), mx.array([1, 10]))
/// array([1, 10, 2, 20], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, b, *, stream=None))]
fn kron(a: Arr, b: Arr, stream: S) -> Out {
    out(ops::kron(&a.0, &b.0, pick(stream)))
}

/// Matrix product of operands that are masked in blocks of `block_size` (32 or 64) by `block_size` elements, and
/// whose product is masked likewise: a bool mask keeps blocks or makes them zero, any other scales them. A mask
/// has one element for each block, the last ones cut off at the edges, and leading axes that broadcast.
///
/// >>> mask = mx.array([[True], [False]])
/// >>> mx.block_masked_mm(mx.ones((64, 8)), mx.ones((8, 1)), 32, mask)[31:33]
/// array([[8],
///        [0]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, b, /, block_size=64, mask_out=None, mask_lhs=None, mask_rhs=None, *, stream=None))]
fn block_masked_mm(
    a: Arr,
    b: Arr,
    block_size: i64,
    mask_out: Option<Arr>,
    mask_lhs: Option<Arr>,
    mask_rhs: Option<Arr>,
    stream: S,
) -> Out {
    let [out_, lhs, rhs] = [&mask_out, &mask_lhs, &mask_rhs].map(|m| m.as_ref().map(|m| &m.0));
    out(ops::block_masked_mm(&a.0, &b.0, block_size, out_, lhs, rhs, pick(stream)))
}

/// Matrix product of matrices that are picked by index, without copying them: `a[lhs_indices] @ b[rhs_indices]`
/// with flat indices over all axes but the last two. The indices broadcast against each other; an operand
/// without indices takes part with all of its matrices in order. `sorted_indices` promises that the indices of
/// the only indexed operand do not decrease. Real floating point dtypes only.
///
/// >>> a, b = mx.ones((1, 2)), mx.array([[[1.0], [1.0]], [[2.0], [2.0]]])
/// >>> mx.gather_mm(a, b, rhs_indices=mx.array([1, 0, 1])).tolist()
/// [[[4.0]], [[2.0]], [[4.0]]]
#[pyfunction]
#[pyo3(signature = (a, b, /, lhs_indices=None, rhs_indices=None, *, sorted_indices=false, stream=None))]
fn gather_mm(
    a: Arr,
    b: Arr,
    lhs_indices: Option<Arr>,
    rhs_indices: Option<Arr>,
    sorted_indices: bool,
    stream: S,
) -> Out {
    let (lhs, rhs) = (lhs_indices.as_ref().map(|i| &i.0), rhs_indices.as_ref().map(|i| &i.0));
    out(ops::gather_mm(&a.0, &b.0, lhs, rhs, sorted_indices, pick(stream)))
}

/// Matrix products of two matrices over parts of the inner dimension, one for each pair (start, end) of
/// `segments`, whose last axis has length 2. Real floating point dtypes only.
///
/// >>> mx.segmented_mm(mx.ones((1, 4)), mx.ones((4, 1)), mx.array([[0, 1], [1, 4]])).tolist()
/// [[[1.0]], [[3.0]]]
#[pyfunction]
#[pyo3(signature = (a, b, /, segments, *, stream=None))]
fn segmented_mm(a: Arr, b: Arr, segments: Arr, stream: S) -> Out {
    out(ops::segmented_mm(&a.0, &b.0, &segments.0, pick(stream)))
}

/// The Walsh-Hadamard transform along the last axis, times `scale` (one over the square root of its length by
/// default). Lengths are m * 2^k with m in 1, 12, 20, 28; others raise ValueError. Integers give float32.
///
/// >>> mx.hadamard_transform(mx.array([1.0, 2.0]), scale=1.0)
/// array([3, -1], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, scale=None, stream=None))]
fn hadamard_transform(a: Arr, scale: Option<f32>, stream: S) -> Out {
    out(ops::hadamard_transform(&a.0, scale, pick(stream)))
}

fn operands(args: &Bound<'_, PyTuple>) -> PyResult<Vec<Array>> {
    args.iter().map(|a| Ok(a.extract::<Arr>()?.0)).collect()
}

/// Einstein summation: `subscripts` names the axes of each operand by letters, and after `->` those of the result;
/// without it the letters that appear once, in alphabetical order. An ellipsis stands for axes that broadcast, a
/// letter that repeats in one operand for a diagonal. Sums over common axes are matrix products and take the
/// dtypes of `matmul`.
///
/// >>> mx.einsum('ij,jk->ik', mx.ones((2, 3)), mx.ones((3, 2)))
/// array([[3, 3],
///        [3, 3]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (subscripts, *operands, stream=None))]
fn einsum(subscripts: &str, operands: &Bound<'_, PyTuple>, stream: S) -> Out {
    out(ops::einsum(subscripts, &self::operands(operands)?, pick(stream)))
}

/// The order in which `einsum` contracts its operands: a list of positions for each step, whose result is appended
/// to the operands that are left, and a text about its cost.
///
/// >>> a, b = mx.ones((2, 10)), mx.ones((10, 3))
/// >>> mx.einsum_path('ij,jk,kl->il', a, b, mx.ones((3, 2)))[0]
/// [(0, 1), (0, 1)]
#[pyfunction]
#[pyo3(signature = (subscripts, *operands))]
fn einsum_path<'py>(
    py: Python<'py>,
    subscripts: &str,
    operands: &Bound<'py, PyTuple>,
) -> PyResult<(Bound<'py, PyList>, String)> {
    let (steps, text) = ops::einsum_path(subscripts, &self::operands(operands)?)?;
    let steps = steps.into_iter().map(|s| PyTuple::new(py, s)).collect::<PyResult<Vec<_>>>()?;
    Ok((PyList::new(py, steps)?, text))
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    for f in [
        wrap_pyfunction!(matmul, m)?,
        wrap_pyfunction!(addmm, m)?,
        wrap_pyfunction!(tensordot, m)?,
        wrap_pyfunction!(inner, m)?,
        wrap_pyfunction!(outer, m)?,
        wrap_pyfunction!(vecdot, m)?,
        wrap_pyfunction!(kron, m)?,
        wrap_pyfunction!(block_masked_mm, m)?,
        wrap_pyfunction!(gather_mm, m)?,
        wrap_pyfunction!(segmented_mm, m)?,
        wrap_pyfunction!(hadamard_transform, m)?,
        wrap_pyfunction!(einsum, m)?,
        wrap_pyfunction!(einsum_path, m)?,
    ] {
        m.add_function(f)?;
    }
    Ok(())
}
