//! Products of matrices and of arrays over axes.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::core::Array;
use crate::ops;
use crate::python::array::arguments::{Arr, Seq};
use crate::python::array::{Out, out};
use crate::python::runtime::device::{S, pick};

/// Matrix product of two arrays. The operator `@` of arrays.
///
/// The last two axes are those of the matrices, the others a batch that broadcasts. An operand with one axis
/// is a row on the left and a column on the right, and that axis is not in the result. Half floats are summed
/// in float32.
///
/// Args:
///     a (array): Matrices, (..., m, k), or a vector (k,).
///     b (array): Matrices, (..., k, n), or a vector (k,).
///
/// Returns:
///     array: Products, (..., m, n), in the promoted dtype.
///
/// Raises:
///     ValueError: if an operand has no axes, the inner lengths differ, the batches do not broadcast, or the
///         promoted dtype is neither floating nor complex.
///
/// >>> mx.matmul(mx.ones((2, 3)), mx.ones((3, 2)))
/// array([[3, 3],
///        [3, 3]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, b, /, *, stream=None))]
fn matmul(a: Arr, b: Arr, stream: S) -> Out {
    out(ops::matmul(&a.0, &b.0, pick(stream)))
}

/// Matrix product plus an array: `alpha * (a @ b) + beta * c`, in one step.
///
/// Shapes are those of `matmul`.
///
/// Args:
///     c (array): What is added; it broadcasts to the product.
///     a (array): Left operand of the product.
///     b (array): Right operand of the product.
///     alpha (float, optional): Factor on the product. Default: 1.0.
///     beta (float, optional): Factor on `c`. Default: 1.0.
///
/// Returns:
///     array: Of the shape of the product, in the promoted dtype of all three.
///
/// Raises:
///     ValueError: if the shapes do not fit or the promoted dtype is neither floating nor complex.
///
/// >>> mx.addmm(mx.array([1.0, 2.0]), mx.ones((1, 3)), mx.ones((3, 2)))
/// array([[4, 5]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (c, a, b, /, alpha=1.0, beta=1.0, *, stream=None))]
fn addmm(c: Arr, a: Arr, b: Arr, alpha: f32, beta: f32, stream: S) -> Out {
    out(ops::addmm(&c.0, &a.0, &b.0, alpha, beta, pick(stream)))
}

/// Sums of products over axes of two arrays.
///
/// The axes are those of both arrays pair by pair; what is left comes in order, first that of `a`. Computed
/// as one matrix product.
///
/// Args:
///     a (array): First operand.
///     b (array): Second operand.
///     axes (int | list[Sequence[int]], optional): How many axes, the last ones of `a` with the first ones of
///         `b`; or the axes of `a` and those of `b`. Default: 2.
///
/// Returns:
///     array: In the promoted dtype.
///
/// Raises:
///     ValueError: if the lengths of a pair differ, the lists have other lengths, or the number is negative
///         or larger than that of the axes.
///
/// >>> mx.tensordot(mx.ones((2, 3)), mx.ones((3, 2)), 1)
/// array([[3, 3],
///        [3, 3]], dtype=float32)
/// >>> mx.tensordot(mx.ones((2, 3)), mx.ones((2, 3)), [[0], [0]]).shape
/// (3, 3)
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

/// Sums of products over the last axes of two arrays.
///
/// For vectors it is the scalar product. An operand without axes multiplies the other one.
///
/// Args:
///     a (array): First operand.
///     b (array): Second operand, with a last axis of the same length.
///
/// Returns:
///     array: With the other axes of `a`, then those of `b`, in the promoted dtype.
///
/// Raises:
///     ValueError: if the last axes differ in length.
///
/// >>> mx.inner(mx.array([1.0, 2.0]), mx.array([3.0, 4.0]))
/// array(11, dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, b, /, *, stream=None))]
fn inner(a: Arr, b: Arr, stream: S) -> Out {
    out(ops::inner(&a.0, &b.0, pick(stream)))
}

/// Products of each element of one array with each element of another.
///
/// Args:
///     a (array): First operand; it is flattened.
///     b (array): Second operand; it is flattened.
///
/// Returns:
///     array: Of shape (elements of `a`, elements of `b`), in the promoted dtype.
///
/// Raises:
///     TypeError: if an operand is no array.
///
/// >>> mx.outer(mx.array([1, 2]), mx.array([3, 4]))
/// array([[3, 4],
///        [6, 8]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, b, /, *, stream=None))]
fn outer(a: Arr, b: Arr, stream: S) -> Out {
    out(ops::outer(&a.0, &b.0, pick(stream)))
}

/// Scalar products of vectors along an axis: sums of `conj(a) * b`.
///
/// The other axes broadcast. Narrow integers are summed as 32-bit integers, as by `sum`.
///
/// Args:
///     a (array): Vectors; complex ones are conjugated.
///     b (array): Vectors of the same length.
///     axis (int, optional): Axis of the components; a negative one counts from the last. Default: -1.
///
/// Returns:
///     array: Of the broadcast shape without that axis.
///
/// Raises:
///     ValueError: if the lengths differ or the other axes do not broadcast.
///     IndexError: if the axis is out of range.
///
/// >>> mx.vecdot(mx.array([[1, 2], [3, 4]]), mx.array([[1, 1], [2, 2]]))
/// array([3, 14], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, b, /, *, axis=-1, stream=None))]
fn vecdot(a: Arr, b: Arr, axis: i64, stream: S) -> Out {
    out(ops::vecdot(&a.0, &b.0, axis, pick(stream)))
}

/// Kronecker product: every element of one array times the whole of another, in the place of that element.
///
/// The array with fewer axes gets axes of length one in front.
///
/// Args:
///     a (array): Elements whose places are filled.
///     b (array): What fills them.
///
/// Returns:
///     array: With the products of the lengths of both, in the promoted dtype.
///
/// Raises:
///     ValueError: if an array is empty.
///
/// >>> mx.kron(mx.array([1, 2]), mx.array([1, 10]))
/// array([1, 10, 2, 20], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, b, *, stream=None))]
fn kron(a: Arr, b: Arr, stream: S) -> Out {
    out(ops::kron(&a.0, &b.0, pick(stream)))
}

/// Matrix product of operands that are masked block by block, and whose product is masked likewise.
///
/// A mask has one element for each block of `block_size` by `block_size` elements, those at the edges cut
/// off, and leading axes that broadcast. A bool mask keeps blocks or makes them zero; any other one scales
/// them.
///
/// Args:
///     a (array): Matrices, (..., m, k), of a floating dtype.
///     b (array): Matrices, (..., k, n).
///     block_size (int, optional): Size of a block: 32 or 64. Default: 64.
///     mask_out (array, optional): Mask of the product. Default: None, all blocks.
///     mask_lhs (array, optional): Mask of `a`. Default: None, all blocks.
///     mask_rhs (array, optional): Mask of `b`. Default: None, all blocks.
///
/// Returns:
///     array: Products, (..., m, n), in the promoted dtype.
///
/// Raises:
///     ValueError: if the shapes of operands or masks do not fit, or the dtype is not floating.
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

/// Matrix products of matrices that are picked by index, without copying them: `a[lhs_indices] @
/// b[rhs_indices]`.
///
/// An index counts the matrices of an operand in row-major order of its batch. The indices broadcast against
/// each other; an operand without indices takes part with all of its matrices in order. No gradient flows to
/// indices.
///
/// Args:
///     a (array): Matrices, (..., m, k), of a real floating dtype.
///     b (array): Matrices, (..., k, n).
///     lhs_indices (array, optional): Which matrices of `a`, of an integer dtype. Default: None, all.
///     rhs_indices (array, optional): Which matrices of `b`, of an integer dtype. Default: None, all.
///     sorted_indices (bool, optional): Promises that the indices of the only indexed operand do not
///         decrease, which allows faster kernels. Default: False.
///
/// Returns:
///     array: Products, the shape of the indices and then (m, n), in the promoted dtype.
///
/// Raises:
///     ValueError: if the inner lengths differ, the indices are not integers or do not broadcast, or the
///         dtype is not a real floating one.
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

/// Matrix products of two matrices over parts of the inner axis.
///
/// For the part (start, end) it is `a[:, start:end] @ b[start:end]`. Parts may overlap or be empty, and are
/// held inside the axis. No gradient flows to the parts.
///
/// Args:
///     a (array): Matrix, (m, k), of a real floating dtype.
///     b (array): Matrix, (k, n).
///     segments (array): Parts, (..., 2), of an integer dtype.
///
/// Returns:
///     array: Products, (..., m, n), in the promoted dtype.
///
/// Raises:
///     ValueError: if the shapes do not fit, the parts are not integers, or the dtype is not a real floating
///         one.
///
/// >>> mx.segmented_mm(mx.ones((1, 4)), mx.ones((4, 1)), mx.array([[0, 1], [1, 4]])).tolist()
/// [[[1.0]], [[3.0]]]
#[pyfunction]
#[pyo3(signature = (a, b, /, segments, *, stream=None))]
fn segmented_mm(a: Arr, b: Arr, segments: Arr, stream: S) -> Out {
    out(ops::segmented_mm(&a.0, &b.0, &segments.0, pick(stream)))
}

/// Walsh-Hadamard transform along the last axis.
///
/// It is the product with a matrix of ones and minus ones whose rows are orthogonal, computed in n log n
/// steps. By default it is its own inverse for lengths that are powers of two. Integers are computed in
/// float32.
///
/// Args:
///     a (array): Elements, with a last axis of length m * 2^k for m = 1, 12, 20 or 28.
///     scale (float, optional): Factor on the result. Default: None, one over the square root of the length.
///
/// Returns:
///     array: Of the shape of `a`; float32 for integers, else the dtype of `a`.
///
/// Raises:
///     ValueError: if the axis has another length.
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

/// Einstein summation: products of arrays summed over axes that are named by letters.
///
/// `'ij,jk->ik'` is the product of two matrices. Without `->` the result has the letters that appear once, in
/// alphabetical order. An ellipsis stands for axes that broadcast, a letter that repeats in one operand for a
/// diagonal. Sums over common axes are computed as matrix products, in the order that `einsum_path` tells.
///
/// Args:
///     subscripts (str): Letters of the axes of each operand, and of the result.
///     operands (array): As many arrays as `subscripts` names.
///
/// Returns:
///     array: With the axes of the result, in the promoted dtype.
///
/// Raises:
///     ValueError: if the letters do not fit the operands or lengths differ.
///
/// >>> mx.einsum('ij,jk->ik', mx.ones((2, 3)), mx.ones((3, 2)))
/// array([[3, 3],
///        [3, 3]], dtype=float32)
/// >>> mx.einsum('ii', mx.array([[1.0, 2.0], [3.0, 4.0]]))
/// array(5, dtype=float32)
#[pyfunction]
#[pyo3(signature = (subscripts, *operands, stream=None))]
fn einsum(subscripts: &str, operands: &Bound<'_, PyTuple>, stream: S) -> Out {
    out(ops::einsum(subscripts, &self::operands(operands)?, pick(stream)))
}

/// The order in which `einsum` contracts its operands.
///
/// In each step the operands at some positions are taken out and their contraction is appended. The order is
/// found greedily, as NumPy does it.
///
/// Args:
///     subscripts (str): Letters of the axes, as `einsum` takes them.
///     operands (array): As many arrays as `subscripts` names; only their shapes count.
///
/// Returns:
///     tuple[list[tuple[int, ...]], str]: Positions of each step, and a text about the cost.
///
/// Raises:
///     ValueError: if the letters do not fit the operands or lengths differ.
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
