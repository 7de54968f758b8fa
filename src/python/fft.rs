//! `mlx.core.fft`: transforms of one and several axes, their frequencies, and short-time transforms.

use pyo3::prelude::*;

use super::array::{Out, out};
use super::convert::{Arr, Ints, Seq};
use super::device::{S, pick};
use crate::bail;
use crate::core::Result;
use crate::ops::fft::{self as transforms, Norm, Spectrum};
use crate::ops::join::PadMode;
use crate::ops::stft::{self as frames, Framing};

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
    /// The discrete Fourier transform along `axis`; complex64. The axis is cut or padded with zeros to `n`.
    /// `norm` ("backward", "ortho" or "forward") says which of a transform and its inverse is scaled by `1 / n`.
    /// Raises ValueError for `n` below 1 or an unknown norm, IndexError for an axis that does not exist.
    ///
    /// >>> mx.fft.fft(mx.array([1.0, 2.0, 3.0, 4.0]))
    /// array([10+0j, -2+2j, -2+0j, -2-2j], dtype=complex64)
    fft(Full, false);
    /// The inverse of `fft`; arguments as there.
    ///
    /// >>> mx.fft.ifft(mx.array([2.0, 0.0]))
    /// array([1+0j, 1+0j], dtype=complex64)
    ifft(Full, true);
    /// The first `n // 2 + 1` coefficients of the transform of real values along `axis`; complex64. The others
    /// are their complex conjugates. Imaginary parts of the input are dropped. Arguments as for `fft`.
    ///
    /// >>> mx.fft.rfft(mx.array([1.0, 2.0, 3.0, 4.0]))
    /// array([10+0j, -2+2j, -2+0j], dtype=complex64)
    rfft(Half, false);
    /// The inverse of `rfft`: `n` real values (float32) from the first `n // 2 + 1` coefficients; `n` is by
    /// default the even one. Arguments as for `fft`.
    ///
    /// >>> mx.fft.irfft(mx.array([10 + 0j, -2 + 2j, -2 + 0j]))
    /// array([1, 2, 3, 4], dtype=float32)
    irfft(Half, true);
}

planes! {
    /// The transform along two axes; complex64. The axes are cut or padded with zeros to the lengths `s`. `norm`
    /// and errors as for `fft`.
    ///
    /// >>> mx.fft.fft2(mx.ones((2, 2)))
    /// array([[4+0j, 0+0j],
    ///        [0+0j, 0+0j]], dtype=complex64)
    fft2(Full, false);
    /// The inverse of `fft2`; arguments as there.
    ///
    /// >>> mx.fft.ifft2(mx.ones((2, 2)))
    /// array([[1+0j, 0+0j],
    ///        [0+0j, 0+0j]], dtype=complex64)
    ifft2(Full, true);
    /// The transform of real values along two axes, of which the last one keeps its first `n // 2 + 1`
    /// coefficients; complex64. Arguments as for `fft2`.
    ///
    /// >>> mx.fft.rfft2(mx.ones((2, 4))).shape
    /// (2, 3)
    rfft2(Half, false);
    /// The inverse of `rfft2`: real values (float32); the last axis has the even length unless `s` says
    /// otherwise. Arguments as for `fft2`.
    ///
    /// >>> mx.fft.irfft2(mx.ones((2, 3))).shape
    /// (2, 4)
    irfft2(Half, true);
}

volumes! {
    /// The transform along `axes` (all by default); complex64. The axes are cut or padded with zeros to the
    /// lengths `s`, which need `axes` beside them. `norm` and errors as for `fft`.
    ///
    /// >>> mx.fft.fftn(mx.ones((2, 2, 2)))[0, 0, 0]
    /// array(8+0j, dtype=complex64)
    fftn(Full, false);
    /// The inverse of `fftn`; arguments as there.
    ///
    /// >>> mx.fft.ifftn(mx.ones((2, 2, 2)))[0, 0, 0]
    /// array(1+0j, dtype=complex64)
    ifftn(Full, true);
    /// The transform of real values along `axes`, of which the last one keeps its first `n // 2 + 1`
    /// coefficients; complex64. Arguments as for `fftn`.
    ///
    /// >>> mx.fft.rfftn(mx.ones((2, 2, 4))).shape
    /// (2, 2, 3)
    rfftn(Half, false);
    /// The inverse of `rfftn`: real values (float32); the last of the axes has the even length unless `s` says
    /// otherwise. Arguments as for `fftn`.
    ///
    /// >>> mx.fft.irfftn(mx.ones((2, 2, 3))).shape
    /// (2, 2, 4)
    irfftn(Half, true);
}

/// Moves the zero frequency to the middle of `axes`: an axis, several, or all by default. Raises IndexError for an
/// axis that does not exist.
///
/// >>> mx.fft.fftshift(mx.array([0, 1, 2, -2, -1]))
/// array([-2, -1, 0, 1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, axes=None, stream=None))]
fn fftshift(a: Arr, axes: Option<Ints>, stream: S) -> Out {
    out(transforms::fftshift(&a.0, axes.as_ref().map(|x| &x.list[..]), pick(stream)))
}

/// Undoes `fftshift`.
///
/// >>> mx.fft.ifftshift(mx.array([-2, -1, 0, 1, 2]))
/// array([0, 1, 2, -2, -1], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, axes=None, stream=None))]
fn ifftshift(a: Arr, axes: Option<Ints>, stream: S) -> Out {
    out(transforms::ifftshift(&a.0, axes.as_ref().map(|x| &x.list[..]), pick(stream)))
}

/// The frequencies of the coefficients of `n` samples that are `d` apart; float32 of shape (n,). Raises ValueError
/// for `n` below 1 and `d` of 0.
///
/// >>> mx.fft.fftfreq(4)
/// array([0, 0.25, -0.5, -0.25], dtype=float32)
#[pyfunction]
#[pyo3(signature = (n, d=1.0, stream=None))]
fn fftfreq(n: i64, d: f64, stream: S) -> Out {
    pick(stream);
    out(transforms::fftfreq(n, d))
}

/// The frequencies of the first `n // 2 + 1` coefficients; as `fftfreq`.
///
/// >>> mx.fft.rfftfreq(4)
/// array([0, 0.25, 0.5], dtype=float32)
#[pyfunction]
#[pyo3(signature = (n, d=1.0, stream=None))]
fn rfftfreq(n: i64, d: f64, stream: S) -> Out {
    pick(stream);
    out(transforms::rfftfreq(n, d))
}

/// The short-time Fourier transform of the last axis: transforms of overlapping frames of `n_fft` samples,
/// `hop_length` apart (`n_fft // 4` by default), as complex64 of shape `(..., frequencies, frames)`. `window`, one
/// axis long, is centred in the frame; without it `win_length` samples count. With `center` the signal is padded so
/// that frame `i` lies around sample `i * hop_length`; `pad_mode` is "reflect", "constant", "edge" or "symmetric".
/// `onesided` (the default for real input) keeps the first `n_fft // 2 + 1` frequencies. `norm` as for `fft`.
/// Raises ValueError for a signal shorter than a frame, a window longer than one, and numbers that are not positive.
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

/// The signal of which `stft_matrix`, of shape `(..., frequencies, frames)`, is the short-time transform: inverse
/// transforms, windowed, summed and divided by the sum of the squared windows. `n_fft` is by default the even length
/// that the frequencies belong to; the other arguments are those of `stft`. `length` cuts the result or pads it with
/// zeros. Raises ValueError as `stft` does.
///
/// >>> z = mx.fft.stft(mx.ones(8), n_fft=4)
/// >>> mx.fft.istft(z, n_fft=4).shape
/// (8,)
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
    let m = super::submodule(parent, "fft", "Discrete Fourier transforms.")?;
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
    super::hide_private(&m)
}
