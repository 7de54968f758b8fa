//! Convolutions.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use smallvec::{SmallVec, smallvec};

use crate::ops::{self, ConvOptions, ConvolveMode};
use crate::python::array::arguments::{Arr, Ints, type_name};
use crate::python::array::{Out, out};
use crate::python::runtime::device::{S, pick};

/// An integer for all spatial axes, or a sequence: of `N` of them, or of any number where `N` is 0.
pub struct Sizes<const N: usize>(SmallVec<[i64; 3]>);

impl<'a, 'py, const N: usize> FromPyObject<'a, 'py> for Sizes<N> {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let wanted = match N {
            0 => "an int or a sequence of ints".to_string(),
            1 => "an int".to_string(),
            n => format!("an int or a sequence of {n} ints"),
        };
        let wrong = || PyTypeError::new_err(format!("expected {wanted} of 32 bits, got {}", type_name(&obj)));
        let ints: Ints = obj.extract().map_err(|_| wrong())?;
        let list: SmallVec<[i64; 3]> = ints.list.iter().copied().collect();
        let fits = if ints.single { true } else { N == 0 || (N > 1 && list.len() == N) };
        if !fits || list.iter().any(|&v| i32::try_from(v).is_err()) {
            return Err(wrong());
        }
        Ok(Sizes(if ints.single && N > 0 { SmallVec::from_elem(list[0], N) } else { list }))
    }
}

/// One number for every axis.
fn all<const N: usize>(v: i64) -> Sizes<N> {
    Sizes(SmallVec::from_elem(v, N.max(1)))
}

/// Padding of `conv_general`: one for both ends, or a pair of sequences, (before, behind).
#[derive(Default)]
pub struct Padding(SmallVec<[i64; 3]>, SmallVec<[i64; 3]>);

impl<'a, 'py> FromPyObject<'a, 'py> for Padding {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(Sizes(both)) = obj.extract::<Sizes<0>>() {
            return Ok(Padding(both.clone(), both));
        }
        let wrong = |_| {
            let got = type_name(&obj);
            PyTypeError::new_err(format!("expected an int, a sequence of ints or a pair of those, got {got}"))
        };
        let pair: [Bound<'py, PyAny>; 2] = obj.extract().map_err(wrong)?;
        let side = |b: &Bound<'py, PyAny>| -> PyResult<SmallVec<[i64; 3]>> {
            match b.extract::<i64>() {
                Ok(_) => Err(wrong(PyTypeError::new_err(()))),
                Err(_) => Ok(b.extract::<Sizes<0>>().map_err(wrong)?.0),
            }
        };
        Ok(Padding(side(&pair[0])?, side(&pair[1])?))
    }
}

fn plain<const N: usize>(
    (x, w): (Arr, Arr),
    stride: Sizes<N>,
    padding: Sizes<N>,
    dilation: Sizes<N>,
    groups: i32,
    stream: S,
) -> Out {
    let options = ConvOptions {
        stride: stride.0,
        padding_low: padding.0.clone(),
        padding_high: padding.0,
        kernel_dilation: dilation.0,
        input_dilation: smallvec![],
        groups: groups.into(),
        flip: false,
    };
    out(ops::conv_general(&x.0, &w.0, &options, pick(stream)))
}

fn transposed<const N: usize>(
    (x, w): (Arr, Arr),
    stride: Sizes<N>,
    padding: Sizes<N>,
    dilation: Sizes<N>,
    output_padding: Sizes<N>,
    groups: i32,
    stream: S,
) -> Out {
    let options = ConvOptions {
        stride: stride.0,
        padding_low: padding.0,
        kernel_dilation: dilation.0,
        groups: groups.into(),
        ..ConvOptions::default()
    };
    out(ops::conv_transpose(&x.0, &w.0, &options, &output_padding.0, pick(stream)))
}

/// Convolution over one spatial axis, with zeros around the input.
///
/// As in all of deep learning the kernel is not mirrored (a cross-correlation). The result has `O = (L + 2 *
/// padding - dilation * (K - 1) - 1) // stride + 1` positions.
///
/// Args:
///     input (array): Signals, (N, L, C_in).
///     weight (array): Kernels, (C_out, K, C_in / groups).
///     stride (int, optional): Distance of neighbouring results in the input. Default: 1.
///     padding (int, optional): Zeros added at both ends; a negative number crops. Default: 0.
///     dilation (int, optional): Distance of neighbouring elements of a kernel in the input. Default: 1.
///     groups (int, optional): Parts of the channels that are convolved separately. Default: 1.
///
/// Returns:
///     array: Of shape (N, O, C_out), in the promoted dtype.
///
/// Raises:
#[doc = shared!(conv_errors)]
///
/// >>> mx.conv1d(mx.array([[[1.0], [2.0], [4.0]]]), mx.array([[[1.0], [10.0]]]))
/// array([[[21],
///         [42]]], dtype=float32)
#[pyfunction]
#[pyo3(
    signature = (input, weight, /, stride=all(1), padding=all(0), dilation=all(1), groups=1, *, stream=None),
    text_signature = "(input, weight, /, stride=1, padding=0, dilation=1, groups=1, *, stream=None)"
)]
fn conv1d(
    input: Arr,
    weight: Arr,
    stride: Sizes<1>,
    padding: Sizes<1>,
    dilation: Sizes<1>,
    groups: i32,
    stream: S,
) -> Out {
    plain((input, weight), stride, padding, dilation, groups, stream)
}

/// Convolution over two spatial axes, with zeros around the input.
///
/// As in all of deep learning the kernel is not mirrored (a cross-correlation). Lengths of the result follow
/// as for `conv1d`, axis by axis.
///
/// Args:
///     input (array): Pictures, (N, H, W, C_in).
///     weight (array): Kernels, (C_out, KH, KW, C_in / groups).
#[doc = shared!(conv_numbers)]
///
/// Returns:
///     array: Of shape (N, OH, OW, C_out), in the promoted dtype.
///
/// Raises:
#[doc = shared!(conv_errors)]
///
/// >>> mx.conv2d(mx.ones((1, 4, 4, 3)), mx.ones((2, 3, 3, 3)), stride=2, padding=1).shape
/// (1, 2, 2, 2)
#[pyfunction]
#[pyo3(
    signature = (input, weight, /, stride=all(1), padding=all(0), dilation=all(1), groups=1, *, stream=None),
    text_signature = "(input, weight, /, stride=1, padding=0, dilation=1, groups=1, *, stream=None)"
)]
fn conv2d(
    input: Arr,
    weight: Arr,
    stride: Sizes<2>,
    padding: Sizes<2>,
    dilation: Sizes<2>,
    groups: i32,
    stream: S,
) -> Out {
    plain((input, weight), stride, padding, dilation, groups, stream)
}

/// Convolution over three spatial axes, with zeros around the input.
///
/// As in all of deep learning the kernel is not mirrored (a cross-correlation). Lengths of the result follow
/// as for `conv1d`, axis by axis.
///
/// Args:
///     input (array): Volumes, (N, D, H, W, C_in).
///     weight (array): Kernels, (C_out, KD, KH, KW, C_in / groups).
#[doc = shared!(conv_numbers)]
///
/// Returns:
///     array: Of shape (N, OD, OH, OW, C_out), in the promoted dtype.
///
/// Raises:
#[doc = shared!(conv_errors)]
///
/// >>> mx.conv3d(mx.ones((1, 4, 4, 4, 3)), mx.ones((2, 3, 3, 3, 3))).shape
/// (1, 2, 2, 2, 2)
#[pyfunction]
#[pyo3(
    signature = (input, weight, /, stride=all(1), padding=all(0), dilation=all(1), groups=1, *, stream=None),
    text_signature = "(input, weight, /, stride=1, padding=0, dilation=1, groups=1, *, stream=None)"
)]
fn conv3d(
    input: Arr,
    weight: Arr,
    stride: Sizes<3>,
    padding: Sizes<3>,
    dilation: Sizes<3>,
    groups: i32,
    stream: S,
) -> Out {
    plain((input, weight), stride, padding, dilation, groups, stream)
}

/// Transposed convolution over one spatial axis: what the gradient of `conv1d` is to its input.
///
/// The result has `O = (L - 1) * stride - 2 * padding + dilation * (K - 1) + output_padding + 1` positions.
///
/// Args:
///     input (array): Signals, (N, L, C_in).
///     weight (array): Kernels, (C_out, K, C_in / groups).
///     stride (int, optional): Distance of neighbouring inputs in the result. Default: 1.
///     padding (int, optional): Elements cropped from both ends of the result. Default: 0.
///     dilation (int, optional): Distance of neighbouring elements of a kernel in the result. Default: 1.
///     output_padding (int, optional): Elements added at the end of the result. Default: 0.
///     groups (int, optional): Parts of the channels that are convolved separately. Default: 1.
///
/// Returns:
///     array: Of shape (N, O, C_out), in the promoted dtype.
///
/// Raises:
#[doc = shared!(conv_errors)]
///
/// >>> mx.conv_transpose1d(mx.ones((1, 3, 1)), mx.ones((1, 2, 1)), stride=2).shape
/// (1, 6, 1)
#[pyfunction]
#[pyo3(
    signature = (
        input, weight, /, stride=all(1), padding=all(0), dilation=all(1), output_padding=all(0), groups=1, *,
        stream=None
    ),
    text_signature = "(input, weight, /, stride=1, padding=0, dilation=1, output_padding=0, groups=1, *, \
                      stream=None)"
)]
fn conv_transpose1d(
    input: Arr,
    weight: Arr,
    stride: Sizes<1>,
    padding: Sizes<1>,
    dilation: Sizes<1>,
    output_padding: Sizes<1>,
    groups: i32,
    stream: S,
) -> Out {
    transposed((input, weight), stride, padding, dilation, output_padding, groups, stream)
}

/// Transposed convolution over two spatial axes: what the gradient of `conv2d` is to its input.
///
/// Lengths of the result follow as for `conv_transpose1d`, axis by axis.
///
/// Args:
///     input (array): Pictures, (N, H, W, C_in).
///     weight (array): Kernels, (C_out, KH, KW, C_in / groups).
#[doc = shared!(conv_transposed_numbers)]
///
/// Returns:
///     array: Of shape (N, OH, OW, C_out), in the promoted dtype.
///
/// Raises:
#[doc = shared!(conv_errors)]
///
/// >>> mx.conv_transpose2d(mx.ones((1, 3, 3, 1)), mx.ones((1, 3, 3, 1)), 2, 1, output_padding=1).shape
/// (1, 6, 6, 1)
#[pyfunction]
#[pyo3(
    signature = (
        input, weight, /, stride=all(1), padding=all(0), dilation=all(1), output_padding=all(0), groups=1, *,
        stream=None
    ),
    text_signature = "(input, weight, /, stride=1, padding=0, dilation=1, output_padding=0, groups=1, *, \
                      stream=None)"
)]
fn conv_transpose2d(
    input: Arr,
    weight: Arr,
    stride: Sizes<2>,
    padding: Sizes<2>,
    dilation: Sizes<2>,
    output_padding: Sizes<2>,
    groups: i32,
    stream: S,
) -> Out {
    transposed((input, weight), stride, padding, dilation, output_padding, groups, stream)
}

/// Transposed convolution over three spatial axes: what the gradient of `conv3d` is to its input.
///
/// Lengths of the result follow as for `conv_transpose1d`, axis by axis.
///
/// Args:
///     input (array): Volumes, (N, D, H, W, C_in).
///     weight (array): Kernels, (C_out, KD, KH, KW, C_in / groups).
#[doc = shared!(conv_transposed_numbers)]
///
/// Returns:
///     array: Of shape (N, OD, OH, OW, C_out), in the promoted dtype.
///
/// Raises:
#[doc = shared!(conv_errors)]
///
/// >>> mx.conv_transpose3d(mx.ones((1, 2, 2, 2, 1)), mx.ones((1, 2, 2, 2, 1)), stride=2).shape
/// (1, 4, 4, 4, 1)
#[pyfunction]
#[pyo3(
    signature = (
        input, weight, /, stride=all(1), padding=all(0), dilation=all(1), output_padding=all(0), groups=1, *,
        stream=None
    ),
    text_signature = "(input, weight, /, stride=1, padding=0, dilation=1, output_padding=0, groups=1, *, \
                      stream=None)"
)]
fn conv_transpose3d(
    input: Arr,
    weight: Arr,
    stride: Sizes<3>,
    padding: Sizes<3>,
    dilation: Sizes<3>,
    output_padding: Sizes<3>,
    groups: i32,
    stream: S,
) -> Out {
    transposed((input, weight), stride, padding, dilation, output_padding, groups, stream)
}

/// Convolution over one to three spatial axes with every option.
///
/// The others are cases of it: a transposed convolution has an `input_dilation` and a mirrored kernel.
///
/// Args:
///     input (array): Elements, (N, ..., C_in).
///     weight (array): Kernels, (C_out, ..., C_in / groups), with as many spatial axes.
///     stride (int | Sequence[int], optional): Distance of neighbouring results in the input, one number or
///         one for each axis. Default: 1.
///     padding (int | Sequence[int] | tuple[Sequence[int], Sequence[int]], optional): Zeros around the input:
///         one number, one for each axis, or those before and those behind each axis; negative numbers crop.
///         Default: 0.
///     kernel_dilation (int | Sequence[int], optional): Distance of neighbouring elements of a kernel.
///         Default: 1.
///     input_dilation (int | Sequence[int], optional): Distance of neighbouring elements of the input, with
///         zeros between. Default: 1.
///     groups (int, optional): Parts of the channels that are convolved separately. Default: 1.
///     flip (bool, optional): Whether kernels are mirrored along all spatial axes. Default: False.
///
/// Returns:
///     array: Of shape (N, ..., C_out), in the promoted dtype.
///
/// Raises:
#[doc = shared!(conv_errors)]
///
/// >>> mx.conv_general(mx.ones((1, 5, 1)), mx.ones((1, 2, 1)), padding=([0], [1]), input_dilation=2).shape
/// (1, 9, 1)
#[pyfunction]
#[pyo3(
    signature = (
        input, weight, /, stride=all(1), padding=Padding::default(), kernel_dilation=all(1),
        input_dilation=all(1), groups=1, flip=false, *, stream=None
    ),
    text_signature = "(input, weight, /, stride=1, padding=0, kernel_dilation=1, input_dilation=1, groups=1, \
                      flip=False, *, stream=None)"
)]
fn conv_general(
    input: Arr,
    weight: Arr,
    stride: Sizes<0>,
    padding: Padding,
    kernel_dilation: Sizes<0>,
    input_dilation: Sizes<0>,
    groups: i32,
    flip: bool,
    stream: S,
) -> Out {
    let options = ConvOptions {
        stride: stride.0,
        padding_low: padding.0,
        padding_high: padding.1,
        kernel_dilation: kernel_dilation.0,
        input_dilation: input_dilation.0,
        groups: groups.into(),
        flip,
    };
    out(ops::conv_general(&input.0, &weight.0, &options, pick(stream)))
}

/// Convolution of two sequences, the shorter of which is mirrored, as in signal processing.
///
/// Result k is `sum(a[j] * v[k - j])`. With lengths n >= m the mode "full" gives all n + m - 1 results,
/// "same" the n in the middle and "valid" the n - m + 1 where the sequences overlap wholly.
///
/// Args:
///     a (array): One sequence, of one axis.
///     v (array): The other sequence.
///     mode (str, optional): "full", "same" or "valid". Default: "full".
///
/// Returns:
///     array: Of one axis, in the promoted dtype.
///
/// Raises:
///     ValueError: if the mode is another one, a sequence is empty or has not one axis.
///
/// >>> mx.convolve(mx.array([1.0, 2.0, 3.0]), mx.array([0.0, 1.0]), mode="same")
/// array([0, 1, 2], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, v, /, mode="full", *, stream=None))]
fn convolve(a: Arr, v: Arr, mode: &str, stream: S) -> Out {
    let mode = match mode {
        "full" => ConvolveMode::Full,
        "same" => ConvolveMode::Same,
        "valid" => ConvolveMode::Valid,
        _ => return Err(PyValueError::new_err("[convolve] Invalid mode.")),
    };
    out(ops::convolve(&a.0, &v.0, mode, pick(stream)))
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(conv1d, m)?)?;
    m.add_function(wrap_pyfunction!(conv2d, m)?)?;
    m.add_function(wrap_pyfunction!(conv3d, m)?)?;
    m.add_function(wrap_pyfunction!(conv_transpose1d, m)?)?;
    m.add_function(wrap_pyfunction!(conv_transpose2d, m)?)?;
    m.add_function(wrap_pyfunction!(conv_transpose3d, m)?)?;
    m.add_function(wrap_pyfunction!(conv_general, m)?)?;
    m.add_function(wrap_pyfunction!(convolve, m)?)
}
