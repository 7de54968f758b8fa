//! Methods of `mx.array` that are functions of `mlx.core` too: elementwise, reductions, scans and views.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::arguments::{Arr, Ints};
use super::{Out, PyArray, one, out};
use crate::core::fork::Made;
use crate::kernels::elementwise::table::{OpId, op};
use crate::ops;
use crate::python::ops::{joining, reductions, scans, views};
use crate::python::runtime::device::{S, pick};

macro_rules! rows {
    ($($name:ident: $row:literal),* $(,)?) => {
        $(pub(super) static $name: Made<OpId> = Made::new(|| op($row));)*
    };
}
rows! {
    ABS: "abs", NEG: "negative", INVERT: "bitwise_invert", EXP: "exp", LOG: "log", LOG2: "log2",
    LOG10: "log10", LOG1P: "log1p", SIN: "sin", COS: "cos", SQRT: "sqrt", RSQRT: "rsqrt",
    SQUARE: "square", RECIPROCAL: "reciprocal", CONJ: "conjugate", REAL: "real", IMAG: "imag",
}

/// Integers given one by one or as one sequence: `reshape(2, 3)`, `reshape((2, 3))`.
fn spread(args: &Bound<'_, PyTuple>) -> PyResult<Ints> {
    if args.len() == 1 { args.get_item(0)?.extract() } else { args.as_any().extract() }
}

#[pymethods]
impl PyArray {
    /// Absolute value of each element.
    ///
    #[doc = shared!(method "abs")]
    #[pyo3(signature = (*, stream=None))]
    fn abs(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &ABS, self, stream)
    }
    /// Complex conjugate of each element.
    ///
    #[doc = shared!(method "conj")]
    #[pyo3(signature = (*, stream=None))]
    fn conj(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &CONJ, self, stream)
    }
    /// Cosine of each element.
    ///
    #[doc = shared!(method "cos")]
    #[pyo3(signature = (*, stream=None))]
    fn cos(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &COS, self, stream)
    }
    /// Exponential of each element.
    ///
    #[doc = shared!(method "exp")]
    #[pyo3(signature = (*, stream=None))]
    fn exp(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &EXP, self, stream)
    }
    /// Natural logarithm of each element.
    ///
    #[doc = shared!(method "log")]
    #[pyo3(signature = (*, stream=None))]
    fn log(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &LOG, self, stream)
    }
    /// Logarithm of each element to the base of two.
    ///
    #[doc = shared!(method "log2")]
    #[pyo3(signature = (*, stream=None))]
    fn log2(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &LOG2, self, stream)
    }
    /// Logarithm of each element to the base of ten.
    ///
    #[doc = shared!(method "log10")]
    #[pyo3(signature = (*, stream=None))]
    fn log10(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &LOG10, self, stream)
    }
    /// Natural logarithm of one plus each element.
    ///
    #[doc = shared!(method "log1p")]
    #[pyo3(signature = (*, stream=None))]
    fn log1p(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &LOG1P, self, stream)
    }
    /// One over each element.
    ///
    #[doc = shared!(method "reciprocal")]
    #[pyo3(signature = (*, stream=None))]
    fn reciprocal(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &RECIPROCAL, self, stream)
    }
    /// One over the square root of each element.
    ///
    #[doc = shared!(method "rsqrt")]
    #[pyo3(signature = (*, stream=None))]
    fn rsqrt(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &RSQRT, self, stream)
    }
    /// Sine of each element.
    ///
    #[doc = shared!(method "sin")]
    #[pyo3(signature = (*, stream=None))]
    fn sin(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &SIN, self, stream)
    }
    /// Square root of each element.
    ///
    #[doc = shared!(method "sqrt")]
    #[pyo3(signature = (*, stream=None))]
    fn sqrt(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &SQRT, self, stream)
    }
    /// Each element times itself.
    ///
    #[doc = shared!(method "square")]
    #[pyo3(signature = (*, stream=None))]
    fn square(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &SQUARE, self, stream)
    }
    /// Each element rounded to a number of digits.
    ///
    /// Args:
    ///     decimals (int, optional): Digits after the point; negative ones are before it. Default: 0.
    ///
    #[doc = shared!(method "round")]
    #[pyo3(signature = (decimals=0, *, stream=None))]
    fn round(&self, decimals: i32, stream: S) -> Out {
        out(ops::round(&self.array(), decimals, pick(stream)))
    }

    /// Whether all elements over one axis, several, or all are true.
    ///
    /// Args:
    #[doc = shared!(axes)]
    ///
    #[doc = shared!(method "all")]
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn all(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::all(Arr(self.array()), axis, keepdims, stream)
    }
    /// Whether at least one element over one axis, several, or all is true.
    ///
    /// Args:
    #[doc = shared!(axes)]
    ///
    #[doc = shared!(method "any")]
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn any(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::any(Arr(self.array()), axis, keepdims, stream)
    }
    /// Index of the largest element along an axis or in the flattened array.
    ///
    /// Args:
    #[doc = shared!(one_axis)]
    ///
    #[doc = shared!(method "argmax")]
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn argmax(&self, axis: Option<i64>, keepdims: bool, stream: S) -> Out {
        reductions::argmax(Arr(self.array()), axis, keepdims, stream)
    }
    /// Index of the smallest element along an axis or in the flattened array.
    ///
    /// Args:
    #[doc = shared!(one_axis)]
    ///
    #[doc = shared!(method "argmin")]
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn argmin(&self, axis: Option<i64>, keepdims: bool, stream: S) -> Out {
        reductions::argmin(Arr(self.array()), axis, keepdims, stream)
    }
    /// Logarithm of the sum of exponentials over one axis, several, or all.
    ///
    /// Args:
    #[doc = shared!(axes)]
    ///
    #[doc = shared!(method "logsumexp")]
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn logsumexp(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::logsumexp(Arr(self.array()), axis, keepdims, stream)
    }
    /// Largest element over one axis, several, or all.
    ///
    /// Args:
    #[doc = shared!(axes)]
    ///
    #[doc = shared!(method "max")]
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn max(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::max(Arr(self.array()), axis, keepdims, stream)
    }
    /// Arithmetic mean of the elements over one axis, several, or all.
    ///
    /// Args:
    #[doc = shared!(axes)]
    ///
    #[doc = shared!(method "mean")]
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn mean(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::mean(Arr(self.array()), axis, keepdims, stream)
    }
    /// Smallest element over one axis, several, or all.
    ///
    /// Args:
    #[doc = shared!(axes)]
    ///
    #[doc = shared!(method "min")]
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn min(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::min(Arr(self.array()), axis, keepdims, stream)
    }
    /// Product of the elements over one axis, several, or all.
    ///
    /// Args:
    #[doc = shared!(axes)]
    ///
    #[doc = shared!(method "prod")]
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn prod(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::prod(Arr(self.array()), axis, keepdims, stream)
    }
    /// Sum of the elements over one axis, several, or all.
    ///
    /// Args:
    #[doc = shared!(axes)]
    ///
    #[doc = shared!(method "sum")]
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn sum(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::sum(Arr(self.array()), axis, keepdims, stream)
    }
    /// Standard deviation of the elements over one axis, several, or all.
    ///
    /// Args:
    #[doc = shared!(axes)]
    ///     ddof (int, optional): What the divisor is less than the number of elements. Default: 0.
    ///     correction (int, optional): The array API's name of `ddof`, over which it wins. Default: None.
    ///
    #[doc = shared!(method "std")]
    #[pyo3(signature = (axis=None, keepdims=false, ddof=0, *, correction=None, stream=None))]
    fn std(&self, axis: Option<Ints>, keepdims: bool, ddof: i64, correction: Option<i64>, stream: S) -> Out {
        reductions::std_(Arr(self.array()), axis, keepdims, correction.unwrap_or(ddof), stream)
    }
    /// Variance of the elements over one axis, several, or all.
    ///
    /// Args:
    #[doc = shared!(axes)]
    ///     ddof (int, optional): What the divisor is less than the number of elements. Default: 0.
    ///     correction (int, optional): The array API's name of `ddof`, over which it wins. Default: None.
    ///
    #[doc = shared!(method "var")]
    #[pyo3(signature = (axis=None, keepdims=false, ddof=0, *, correction=None, stream=None))]
    fn var(&self, axis: Option<Ints>, keepdims: bool, ddof: i64, correction: Option<i64>, stream: S) -> Out {
        reductions::var(Arr(self.array()), axis, keepdims, correction.unwrap_or(ddof), stream)
    }
    /// Running maximum along an axis or over the flattened array.
    ///
    /// Args:
    #[doc = shared!(scan_form)]
    ///
    #[doc = shared!(method "cummax")]
    #[pyo3(signature = (axis=None, *, reverse=false, inclusive=true, stream=None))]
    fn cummax(&self, axis: Option<i64>, reverse: bool, inclusive: bool, stream: S) -> Out {
        scans::cummax(Arr(self.array()), axis, reverse, inclusive, stream)
    }
    /// Running minimum along an axis or over the flattened array.
    ///
    /// Args:
    #[doc = shared!(scan_form)]
    ///
    #[doc = shared!(method "cummin")]
    #[pyo3(signature = (axis=None, *, reverse=false, inclusive=true, stream=None))]
    fn cummin(&self, axis: Option<i64>, reverse: bool, inclusive: bool, stream: S) -> Out {
        scans::cummin(Arr(self.array()), axis, reverse, inclusive, stream)
    }
    /// Running product along an axis or over the flattened array.
    ///
    /// Args:
    #[doc = shared!(scan_form)]
    ///
    #[doc = shared!(method "cumprod")]
    #[pyo3(signature = (axis=None, *, reverse=false, inclusive=true, stream=None))]
    fn cumprod(&self, axis: Option<i64>, reverse: bool, inclusive: bool, stream: S) -> Out {
        scans::cumprod(Arr(self.array()), axis, reverse, inclusive, None, stream)
    }
    /// Running sum along an axis or over the flattened array.
    ///
    /// Args:
    #[doc = shared!(scan_form)]
    ///
    #[doc = shared!(method "cumsum")]
    #[pyo3(signature = (axis=None, *, reverse=false, inclusive=true, stream=None))]
    fn cumsum(&self, axis: Option<i64>, reverse: bool, inclusive: bool, stream: S) -> Out {
        scans::cumsum(Arr(self.array()), axis, reverse, inclusive, None, stream)
    }
    /// Running logarithm of the sum of exponentials along an axis or over the flattened array.
    ///
    /// Args:
    #[doc = shared!(scan_form)]
    ///
    #[doc = shared!(method "logcumsumexp")]
    #[pyo3(signature = (axis=None, *, reverse=false, inclusive=true, stream=None))]
    fn logcumsumexp(&self, axis: Option<i64>, reverse: bool, inclusive: bool, stream: S) -> Out {
        scans::logcumsumexp(Arr(self.array()), axis, reverse, inclusive, stream)
    }

    /// A diagonal of this matrix, or the matrix that has this vector on its diagonal.
    ///
    /// Args:
    ///     k (int, optional): Which diagonal: 0 the main one, positive ones above it, negative ones below.
    ///         Default: 0.
    ///
    #[doc = shared!(method "diag")]
    #[pyo3(signature = (k=0, *, stream=None))]
    fn diag(&self, k: i32, stream: S) -> Out {
        out(ops::diag(&self.array(), k.into(), pick(stream)))
    }
    /// Diagonals of the matrices over two axes.
    ///
    /// Args:
    ///     offset (int, optional): Which diagonal: 0 the main one, positive ones above it, negative ones
    ///         below. Default: 0.
    ///     axis1 (int, optional): Axis of the rows; a negative one counts from the last. Default: 0.
    ///     axis2 (int, optional): Axis of the columns. Default: 1.
    ///
    #[doc = shared!(matrix_method "diagonal()", "diagonal")]
    #[pyo3(signature = (offset=0, axis1=0, axis2=1, stream=None))]
    fn diagonal(&self, offset: i32, axis1: i64, axis2: i64, stream: S) -> Out {
        out(ops::diagonal(&self.array(), offset.into(), axis1, axis2, pick(stream)))
    }
    /// Joins neighbouring axes into one, in row-major order.
    ///
    /// Args:
    ///     start_axis (int, optional): First axis to join; a negative one counts from the last. Default: 0.
    ///     end_axis (int, optional): Last axis to join, itself included. Default: -1.
    ///
    #[doc = shared!(matrix_method "flatten()", "flatten")]
    #[pyo3(signature = (start_axis=0, end_axis=-1, *, stream=None))]
    fn flatten(&self, start_axis: i64, end_axis: i64, stream: S) -> Out {
        out(ops::flatten(&self.array(), start_axis, end_axis, pick(stream)))
    }
    /// This array with one axis moved to another place; the others keep their order.
    ///
    /// Args:
    ///     source (int): Axis to move; a negative one counts from the last.
    ///     destination (int): Its place in the result; a negative one counts from the last.
    ///
    /// Returns:
    ///     array: As `mlx.core.moveaxis` gives it, whose documentation tells about layouts and errors.
    ///
    /// >>> mx.zeros((2, 3, 4)).moveaxis(0, 2).shape
    /// (3, 4, 2)
    #[pyo3(signature = (source, destination, *, stream=None))]
    fn moveaxis(&self, source: i64, destination: i64, stream: S) -> Out {
        out(ops::moveaxis(&self.array(), source, destination, pick(stream)))
    }
    /// The elements in row-major order in another shape.
    ///
    /// Args:
    ///     shape (int | Sequence[int]): Lengths of the new axes, one by one or as one sequence. One of them
    ///         may be -1 and is then inferred from the others.
    ///
    #[doc = shared!(matrix_method "reshape(3, -1)", "reshape")]
    #[pyo3(signature = (*shape, stream=None))]
    fn reshape(&self, shape: &Bound<'_, PyTuple>, stream: S) -> Out {
        out(ops::reshape(&self.array(), &spread(shape)?.list, pick(stream)))
    }
    /// Cuts this array into parts along an axis.
    ///
    /// Args:
    ///     indices_or_sections (int | Sequence[int]): How many equal parts, or the positions at which to cut.
    ///     axis (int, optional): Axis to cut; a negative one counts from the last. Default: 0.
    ///
    /// Returns:
    ///     list[array]: As `mlx.core.split` gives them, whose documentation tells about errors.
    ///
    /// >>> mx.arange(4).split(2)
    /// [array([0, 1], dtype=int32), array([2, 3], dtype=int32)]
    #[pyo3(signature = (indices_or_sections, axis=0, *, stream=None))]
    fn split(&self, indices_or_sections: Ints, axis: i64, stream: S) -> PyResult<Vec<PyArray>> {
        joining::split(Arr(self.array()), indices_or_sections, axis, stream)
    }
    /// This array without axes of length one.
    ///
    /// Args:
    ///     axis (int | Sequence[int], optional): Axes to remove, each of length one; negative ones count from
    ///         the last. Default: None, all axes of length one.
    ///
    #[doc = shared!(matrix_method "squeeze()", "squeeze")]
    #[pyo3(signature = (axis=None, *, stream=None))]
    fn squeeze(&self, axis: Option<Ints>, stream: S) -> Out {
        views::squeeze(Arr(self.array()), axis, stream)
    }
    /// This array with two axes swapped.
    ///
    /// Args:
    ///     axis1 (int): One axis; a negative one counts from the last.
    ///     axis2 (int): The other axis.
    ///
    #[doc = shared!(matrix_method "swapaxes(0, 1)", "swapaxes")]
    #[pyo3(signature = (axis1, axis2, *, stream=None))]
    fn swapaxes(&self, axis1: i64, axis2: i64, stream: S) -> Out {
        out(ops::swapaxes(&self.array(), axis1, axis2, pick(stream)))
    }
    /// This array with its axes in another order.
    ///
    /// Args:
    ///     axes (int | Sequence[int]): Every axis once in the new order, one by one or as one sequence.
    ///         Default: none, the reverse order.
    ///
    #[doc = shared!(matrix_method "transpose()", "transpose")]
    #[pyo3(signature = (*axes, stream=None))]
    fn transpose(&self, axes: &Bound<'_, PyTuple>, stream: S) -> Out {
        let axes = if axes.is_empty() { None } else { Some(spread(axes)?.list) };
        out(ops::transpose(&self.array(), axes.as_deref(), pick(stream)))
    }
}
