//! Convolutions.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use smallvec::{SmallVec, smallvec};

use super::array::{Out, out};
use super::convert::{Arr, Ints, type_name};
use super::device::{S, pick};
use crate::ops::{self, ConvOptions, ConvolveMode};

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

/// Convolution over one spatial axis, with zeros around the input; the kernel is not mirrored.
///
/// `input` is (N, L, Cin), `weight` (Cout, K, Cin / groups), the result (N, O, Cout) in the promoted dtype with
/// O = (L + 2 * padding - dilation * (K - 1) - 1) // stride + 1. Floating point dtypes; halves are summed in
/// float32. Raises ValueError for shapes that do not fit.
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

/// Convolution over two spatial axes, with zeros around the input; the kernel is not mirrored.
///
/// `input` is (N, H, W, Cin), `weight` (Cout, KH, KW, Cin / groups), the result (N, OH, OW, Cout) in the promoted
/// dtype. `stride`, `padding` and `dilation` are one number or one for each axis. Raises ValueError for shapes that
/// do not fit.
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

/// Convolution over three spatial axes, with zeros around the input; the kernel is not mirrored.
///
/// `input` is (N, D, H, W, Cin), `weight` (Cout, KD, KH, KW, Cin / groups), the result (N, OD, OH, OW, Cout) in the
/// promoted dtype. `stride`, `padding` and `dilation` are one number or one for each axis. Raises ValueError for
/// shapes that do not fit.
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
/// `input` is (N, L, Cin), `weight` (Cout, K, Cin / groups), the result (N, O, Cout) with
/// O = (L - 1) * stride - 2 * padding + dilation * (K - 1) + output_padding + 1. Raises ValueError for shapes that
/// do not fit.
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
/// `input` is (N, H, W, Cin), `weight` (Cout, KH, KW, Cin / groups), the result (N, OH, OW, Cout), sizes as for
/// `conv_transpose1d`. Raises ValueError for shapes that do not fit.
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
/// `input` is (N, D, H, W, Cin), `weight` (Cout, KD, KH, KW, Cin / groups), the result (N, OD, OH, OW, Cout), sizes
/// as for `conv_transpose1d`. Raises ValueError for shapes that do not fit.
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
/// `input` is (N, ..., Cin), `weight` (Cout, ..., Cin / groups), the result (N, ..., Cout). `padding` is a number, one
/// for each axis, or a pair of sequences, (before, behind); negative padding crops the input. Elements of the kernel
/// lie `kernel_dilation` apart, those of the input `input_dilation`, with zeros between. `flip` mirrors the kernel.
/// Raises ValueError for shapes that do not fit.
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

/// Convolution of two sequences, in which the shorter one is mirrored.
///
/// `mode` is "full", "same" (the middle, as long as the longer one) or "valid" (where they overlap wholly). Raises
/// ValueError for another mode, for arrays that are empty or not one-dimensional.
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
