//! `mlx.core.fft`: transforms of one and several axes, their frequencies, and short-time transforms.

use pyo3::prelude::*;

use crate::bail;
use crate::core::Result;
use crate::ops::fft::stft::{self as frames, Framing};
use crate::ops::fft::{self as transforms, Norm, Spectrum};
use crate::ops::view::concatenate::PadMode;
use crate::python::array::arguments::{Arr, Ints, Seq};
use crate::python::array::{Out, out};
use crate::python::runtime::device::{S, pick};

/// A transform as the functions of this module state it.
#[derive(Clone, Copy)]
struct How {
    op: &'static str,
    spectrum: Spectrum,
    inverse: bool,
}

const fn how(op: &'static str, spectrum: Spectrum, inverse: bool) -> How {
    How { op, spectrum, inverse }
}

fn one(h: How, a: &Arr, n: Option<i64>, axis: i64, norm: &str, s: S) -> Out {
    let norm = Norm::parse(h.op, norm)?;
    let n = n.map(|n| [n]);
    out(transforms::fftn(
        &a.0,
        n.as_ref().map(|n| &n[..]),
        Some(&[axis]),
        norm,
        h.spectrum,
        h.inverse,
        pick(s),
    ))
}

fn many(h: How, a: &Arr, n: Option<Seq>, axes: Option<Seq>, norm: &str, s: S) -> Out {
    let norm = Norm::parse(h.op, norm)?;
    let run = || -> Result<_> {
        if n.is_some() && axes.is_none() {
            bail!(Value, "[{}] `axes` should not be `None` if `s` is not `None`.", h.op);
        }
        let (n, axes) = (n.as_ref().map(|n| &n.0[..]), axes.as_ref().map(|x| &x.0[..]));
        transforms::fftn(&a.0, n, axes, norm, h.spectrum, h.inverse, pick(s))
    };
    out(run())
}

fn plane() -> Option<Seq> {
    Some(Seq(smallvec::smallvec![-2, -1]))
}

macro_rules! lines {
    ($($(#[$doc:meta])* $name:ident($spectrum:ident, $inverse:literal);)*) => {$(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (a, n=None, axis=-1, norm="backward", stream=None))]
        fn $name(a: Arr, n: Option<i64>, axis: i64, norm: &str, stream: S) -> Out {
            one(how(stringify!($name), Spectrum::$spectrum, $inverse), &a, n, axis, norm, stream)
        }
    )*};
}

macro_rules! planes {
    ($($(#[$doc:meta])* $name:ident($spectrum:ident, $inverse:literal);)*) => {$(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(
            signature = (a, s=None, axes=plane(), norm="backward", stream=None),
            text_signature = "(a, s=None, axes=(-2, -1), norm='backward', stream=None)"
        )]
        fn $name(a: Arr, s: Option<Seq>, axes: Option<Seq>, norm: &str, stream: S) -> Out {
            many(how(stringify!($name), Spectrum::$spectrum, $inverse), &a, s, axes, norm, stream)
        }
    )*};
}

macro_rules! volumes {
    ($($(#[$doc:meta])* $name:ident($spectrum:ident, $inverse:literal);)*) => {$(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (a, s=None, axes=None, norm="backward", stream=None))]
        fn $name(a: Arr, s: Option<Seq>, axes: Option<Seq>, norm: &str, stream: S) -> Out {
            many(how(stringify!($name), Spectrum::$spectrum, $inverse), &a, s, axes, norm, stream)
        }
    )*};
}

lines! {
    /// Discrete Fourier transform along one axis.
    ///
    /// Coefficient k is `sum(a[j] * exp(-2j * pi * j * k / n))`. Every length works in n log n steps.
    ///
    /// Args:
    #[doc = shared!(line)]
    ///
    /// Returns:
    ///     array: complex64, of the shape of `a` with `axis` of length `n`.
    ///
    /// Raises:
    #[doc = shared!(line_errors)]
    ///
    /// >>> mx.fft.fft(mx.array([1.0, 1.0]))
    /// array([2+0j, 0+0j], dtype=complex64)
    fft(Full, false);
    /// Inverse discrete Fourier transform along one axis.
    ///
    /// Element j is `sum(a[k] * exp(2j * pi * j * k / n)) / n`, so that `ifft(fft(a))` is `a`.
    ///
    /// Args:
    #[doc = shared!(line)]
    ///
    /// Returns:
    ///     array: complex64, of the shape of `a` with `axis` of length `n`.
    ///
    /// Raises:
    #[doc = shared!(line_errors)]
    ///
    /// >>> mx.fft.ifft(mx.array([2.0, 0.0]))
    /// array([1+0j, 1+0j], dtype=complex64)
    ifft(Full, true);
    /// Discrete Fourier transform of real elements along one axis.
    ///
    /// Of the `n` coefficients the first `n // 2 + 1` are returned; the others are their complex conjugates
    /// in reverse order. Imaginary parts of `a` are dropped.
    ///
    /// Args:
    #[doc = shared!(line)]
    ///
    /// Returns:
    ///     array: complex64, of the shape of `a` with `axis` of length `n // 2 + 1`.
    ///
    /// Raises:
    #[doc = shared!(line_errors)]
    ///
    /// >>> mx.fft.rfft(mx.array([3.0, 1.0]))
    /// array([4+0j, 2+0j], dtype=complex64)
    rfft(Half, false);
    /// Real elements along one axis from the coefficients that `rfft` returns.
    ///
    /// The coefficients are taken as the first `n // 2 + 1` of `n`. Since two lengths have as many, the even
    /// one is taken unless `n` says otherwise: by default `n = 2 * (m - 1)` for m coefficients.
    ///
    /// Args:
    #[doc = shared!(line)]
    ///
    /// Returns:
    ///     array: float32, of the shape of `a` with `axis` of length `n`.
    ///
    /// Raises:
    #[doc = shared!(line_errors)]
    ///
    /// >>> mx.fft.irfft(mx.array([10 + 0j, -2 + 2j, -2 + 0j]))
    /// array([1, 2, 3, 4], dtype=float32)
    irfft(Half, true);
}

planes! {
    /// Discrete Fourier transform along two axes, as of pictures.
    ///
    /// The same as `fft` along one of them and then along the other.
    ///
    /// Args:
    #[doc = shared!(plane)]
    ///
    /// Returns:
    ///     array: complex64, of the shape of `a` with the axes of lengths `s`.
    ///
    /// Raises:
    #[doc = shared!(many_errors)]
    ///
    /// >>> mx.fft.fft2(mx.ones((2, 2)))
    /// array([[4+0j, 0+0j],
    ///        [0+0j, 0+0j]], dtype=complex64)
    fft2(Full, false);
    /// Inverse discrete Fourier transform along two axes.
    ///
    /// `ifft2(fft2(a))` is `a`.
    ///
    /// Args:
    #[doc = shared!(plane)]
    ///
    /// Returns:
    ///     array: complex64, of the shape of `a` with the axes of lengths `s`.
    ///
    /// Raises:
    #[doc = shared!(many_errors)]
    ///
    /// >>> mx.fft.ifft2(mx.ones((2, 2)))
    /// array([[1+0j, 0+0j],
    ///        [0+0j, 0+0j]], dtype=complex64)
    ifft2(Full, true);
    /// Discrete Fourier transform of real elements along two axes.
    ///
    /// `rfft` along the last of the axes, whose first `n // 2 + 1` coefficients are kept, then `fft` along
    /// the other one.
    ///
    /// Args:
    #[doc = shared!(plane)]
    ///
    /// Returns:
    ///     array: complex64, of the shape of `a` with the axes of lengths `s`, the last of them `n // 2 + 1`.
    ///
    /// Raises:
    #[doc = shared!(many_errors)]
    ///
    /// >>> mx.fft.rfft2(mx.ones((2, 4))).shape
    /// (2, 3)
    rfft2(Half, false);
    /// Real elements along two axes from the coefficients that `rfft2` returns.
    ///
    /// The last of the axes has the even length, `2 * (m - 1)` for m coefficients, unless `s` says otherwise.
    ///
    /// Args:
    #[doc = shared!(plane)]
    ///
    /// Returns:
    ///     array: float32, of the shape of `a` with the axes of lengths `s`.
    ///
    /// Raises:
    #[doc = shared!(many_errors)]
    ///
    /// >>> mx.fft.irfft2(mx.fft.rfft2(mx.array([[1.0, 2.0], [3.0, 4.0]])))
    /// array([[1, 2],
    ///        [3, 4]], dtype=float32)
    irfft2(Half, true);
}

volumes! {
    /// Discrete Fourier transform along several axes.
    ///
    /// The same as `fft` along one after another.
    ///
    /// Args:
    #[doc = shared!(volume)]
    ///
    /// Returns:
    ///     array: complex64, of the shape of `a` with the axes of lengths `s`.
    ///
    /// Raises:
    #[doc = shared!(many_errors)]
    ///
    /// >>> mx.fft.fftn(mx.ones((2, 2, 2)))[0, 0, 0]
    /// array(8+0j, dtype=complex64)
    fftn(Full, false);
    /// Inverse discrete Fourier transform along several axes.
    ///
    /// `ifftn(fftn(a))` is `a`.
    ///
    /// Args:
    #[doc = shared!(volume)]
    ///
    /// Returns:
    ///     array: complex64, of the shape of `a` with the axes of lengths `s`.
    ///
    /// Raises:
    #[doc = shared!(many_errors)]
    ///
    /// >>> mx.fft.ifftn(mx.ones((2, 2, 2)))[0, 0, 0]
    /// array(1+0j, dtype=complex64)
    ifftn(Full, true);
    /// Discrete Fourier transform of real elements along several axes.
    ///
    /// `rfft` along the last of the axes, whose first `n // 2 + 1` coefficients are kept, then `fft` along
    /// the others.
    ///
    /// Args:
    #[doc = shared!(volume)]
    ///
    /// Returns:
    ///     array: complex64, of the shape of `a` with the axes of lengths `s`, the last of them `n // 2 + 1`.
    ///
    /// Raises:
    #[doc = shared!(many_errors)]
    ///
    /// >>> mx.fft.rfftn(mx.ones((2, 2, 4))).shape
    /// (2, 2, 3)
    rfftn(Half, false);
    /// Real elements along several axes from the coefficients that `rfftn` returns.
    ///
    /// The last of the axes has the even length, `2 * (m - 1)` for m coefficients, unless `s` says otherwise.
    ///
    /// Args:
    #[doc = shared!(volume)]
    ///
    /// Returns:
    ///     array: float32, of the shape of `a` with the axes of lengths `s`.
    ///
    /// Raises:
    #[doc = shared!(many_errors)]
    ///
    /// >>> mx.fft.irfftn(mx.ones((2, 2, 3))).shape
    /// (2, 2, 4)
    irfftn(Half, true);
}

/// Moves the zero frequency to the middle of axes.
///
/// Transforms begin with it, followed by positive and then by negative frequencies; shifted, the frequencies
/// ascend. Axes are rolled by half their length, rounded down.
///
/// Args:
///     a (array): Coefficients, or frequencies, of any dtype.
///     axes (int | Sequence[int], optional): Axes to shift; negative ones count from the last. Default: None,
///         all axes.
///
/// Returns:
///     array: Of the shape and dtype of `a`.
///
/// Raises:
///     IndexError: if an axis is out of range.
///
/// >>> mx.fft.fftshift(mx.array([0, 1, 2, -2, -1]))
/// array([-2, -1, 0, 1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, axes=None, stream=None))]
fn fftshift(a: Arr, axes: Option<Ints>, stream: S) -> Out {
    out(transforms::fftshift(&a.0, axes.as_ref().map(|x| &x.list[..]), pick(stream)))
}

/// Moves the zero frequency from the middle of axes to their start: the inverse of `fftshift`.
///
/// The two differ for odd lengths: axes are rolled by half their length, rounded up.
///
/// Args:
///     a (array): Coefficients, or frequencies, of any dtype.
///     axes (int | Sequence[int], optional): Axes to shift; negative ones count from the last. Default: None,
///         all axes.
///
/// Returns:
///     array: Of the shape and dtype of `a`.
///
/// Raises:
///     IndexError: if an axis is out of range.
///
/// >>> mx.fft.ifftshift(mx.array([-2, -1, 0, 1, 2]))
/// array([0, 1, 2, -2, -1], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, axes=None, stream=None))]
fn ifftshift(a: Arr, axes: Option<Ints>, stream: S) -> Out {
    out(transforms::ifftshift(&a.0, axes.as_ref().map(|x| &x.list[..]), pick(stream)))
}

/// Frequencies of the coefficients of `fft`, in cycles for each unit of the sample distance.
///
/// First 0 and the positive ones, then the negative ones: `[0, 1, ..., -2, -1] / (n * d)`.
///
/// Args:
///     n (int): Number of samples.
///     d (float, optional): Distance of samples. Default: 1.0.
///
/// Returns:
///     array: float32, of shape (n,).
///
/// Raises:
///     ValueError: if `n` is below 1 or `d` is 0.
///
/// >>> mx.fft.fftfreq(4)
/// array([0, 0.25, -0.5, -0.25], dtype=float32)
#[pyfunction]
#[pyo3(signature = (n, d=1.0, stream=None))]
fn fftfreq(n: i64, d: f64, stream: S) -> Out {
    pick(stream);
    out(transforms::fftfreq(n, d))
}

/// Frequencies of the coefficients of `rfft`, in cycles for each unit of the sample distance.
///
/// They ascend from 0: `[0, 1, ..., n // 2] / (n * d)`.
///
/// Args:
///     n (int): Number of samples.
///     d (float, optional): Distance of samples. Default: 1.0.
///
/// Returns:
///     array: float32, of shape (n // 2 + 1,).
///
/// Raises:
///     ValueError: if `n` is below 1 or `d` is 0.
///
/// >>> mx.fft.rfftfreq(4)
/// array([0, 0.25, 0.5], dtype=float32)
#[pyfunction]
#[pyo3(signature = (n, d=1.0, stream=None))]
fn rfftfreq(n: i64, d: f64, stream: S) -> Out {
    pick(stream);
    out(transforms::rfftfreq(n, d))
}

/// Short-time Fourier transform: the transforms of overlapping frames of a signal.
///
/// Frame i holds the samples from `i * hop_length` on, times the window. With `center` the signal is padded
/// by half a frame at both ends, so that frame i lies around sample `i * hop_length`.
///
/// Args:
///     x (array): Signals along the last axis, real or complex.
///     n_fft (int, optional): Samples of a frame. Default: 2048.
///     hop_length (int, optional): Distance of frames. Default: None, `n_fft // 4`.
///     win_length (int, optional): Samples of a frame that count where there is no window. Default: None,
///         all.
///     window (array, optional): Factors on the samples, of one axis and at most `n_fft` long; a shorter one
///         is put into the middle of the frame. Default: None, ones.
///     center (bool, optional): Whether frames lie around their sample. Default: True.
///     pad_mode (str, optional): How the signal is padded for that: "reflect", "constant" (zeros), "edge" or
///         "symmetric", as `pad` has it. Default: "reflect".
///     norm (str, optional): "backward", "forward" or "ortho", as for `fft`. Default: "backward".
///     onesided (bool, optional): Whether only the first `n_fft // 2 + 1` frequencies are returned, which
///         determine the others of a real signal. Default: None, True for real signals.
///
/// Returns:
///     array: complex64, of shape (..., frequencies, frames).
///
/// Raises:
///     ValueError: if the signal is shorter than a frame, the window longer than one, a number not positive,
///         or a name unknown.
///
/// >>> mx.fft.stft(mx.ones(8), n_fft=4, hop_length=2).shape
/// (3, 5)
#[pyfunction]
#[pyo3(signature = (x, n_fft=2048, hop_length=None, win_length=None, window=None, center=true,
    pad_mode="reflect", norm="backward", onesided=None, stream=None))]
fn stft(
    x: Arr,
    n_fft: i64,
    hop_length: Option<i64>,
    win_length: Option<i64>,
    window: Option<Arr>,
    center: bool,
    pad_mode: &str,
    norm: &str,
    onesided: Option<bool>,
    stream: S,
) -> Out {
    let window = window.as_ref().map(|w| &w.0);
    let f = Framing { n_fft, hop: hop_length, win_length, window, center };
    let run = || -> Result<_> {
        let norm = Norm::parse("stft", norm)?;
        let mode = match pad_mode {
            "constant" => PadMode::Constant,
            "edge" => PadMode::Edge,
            "reflect" => PadMode::Reflect,
            "symmetric" => PadMode::Symmetric,
            other => bail!(Value, "[stft] Invalid padding mode {other:?}."),
        };
        frames::stft(&x.0, &f, mode, norm, onesided, pick(stream))
    };
    out(run())
}

/// Signal of which a short-time Fourier transform is given: the inverse of `stft`.
///
/// Frames are transformed back, multiplied by the window, added where they overlap, and divided by the sum of
/// the squared windows there.
///
/// Args:
///     stft_matrix (array): Transforms, (..., frequencies, frames).
///     n_fft (int, optional): Samples of a frame. Default: None, the even length that the frequencies belong
///         to.
///     hop_length (int, optional): Distance of frames. Default: None, `n_fft // 4`.
///     win_length (int, optional): Samples of a frame that count where there is no window. Default: None,
///         all.
///     window (array, optional): The window of the transform. Default: None, ones.
///     center (bool, optional): Whether frames lie around their sample. Default: True.
///     norm (str, optional): "backward", "forward" or "ortho", as for `fft`. Default: "backward".
///     onesided (bool, optional): Whether only the first half of the frequencies is given, so that the signal
///         is real. Default: None, True.
///     length (int, optional): Length to which the signal is cut or padded with zeros. Default: None, what
///         the frames cover.
///
/// Returns:
///     array: Signals along the last axis: float32, or complex64 for all frequencies.
///
/// Raises:
///     ValueError: if the frequencies do not fit `n_fft`, the window is longer than a frame, or a number is
///         not positive.
///
/// >>> z = mx.fft.stft(mx.arange(8.0), n_fft=4)
/// >>> mx.allclose(mx.fft.istft(z, n_fft=4), mx.arange(8.0), atol=1e-5)
/// array(True, dtype=bool)
#[pyfunction]
#[pyo3(signature = (stft_matrix, n_fft=None, hop_length=None, win_length=None, window=None, center=true,
    norm="backward", onesided=None, length=None, stream=None))]
fn istft(
    stft_matrix: Arr,
    n_fft: Option<i64>,
    hop_length: Option<i64>,
    win_length: Option<i64>,
    window: Option<Arr>,
    center: bool,
    norm: &str,
    onesided: Option<bool>,
    length: Option<i64>,
    stream: S,
) -> Out {
    let onesided = onesided.unwrap_or(true);
    let window = window.as_ref().map(|w| &w.0);
    let run = || -> Result<_> {
        let norm = Norm::parse("istft", norm)?;
        let natural = frames::istft_length(&stft_matrix.0, onesided)?;
        let n_fft = n_fft.unwrap_or(natural);
        let f = Framing { n_fft, hop: hop_length, win_length, window, center };
        frames::istft(&stft_matrix.0, &f, norm, onesided, length, pick(stream))
    };
    out(run())
}

/// Adds the submodule.
pub fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let m = crate::python::submodule(parent, "fft", "Discrete Fourier transforms.")?;
    for f in [
        wrap_pyfunction!(fft, &m)?,
        wrap_pyfunction!(ifft, &m)?,
        wrap_pyfunction!(rfft, &m)?,
        wrap_pyfunction!(irfft, &m)?,
        wrap_pyfunction!(fft2, &m)?,
        wrap_pyfunction!(ifft2, &m)?,
        wrap_pyfunction!(rfft2, &m)?,
        wrap_pyfunction!(irfft2, &m)?,
        wrap_pyfunction!(fftn, &m)?,
        wrap_pyfunction!(ifftn, &m)?,
        wrap_pyfunction!(rfftn, &m)?,
        wrap_pyfunction!(irfftn, &m)?,
        wrap_pyfunction!(fftshift, &m)?,
        wrap_pyfunction!(ifftshift, &m)?,
        wrap_pyfunction!(fftfreq, &m)?,
        wrap_pyfunction!(rfftfreq, &m)?,
        wrap_pyfunction!(stft, &m)?,
        wrap_pyfunction!(istft, &m)?,
    ] {
        m.add_function(f)?;
    }
    crate::python::hide_private(&m)
}
