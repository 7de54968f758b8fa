# Written by tools/stubs.py from the module itself; do not edit.
"""Discrete Fourier transforms."""

from collections.abc import Sequence
from typing import Any
from . import _StreamOrDevice, array

__all__ = ['fft', 'fft2', 'fftfreq', 'fftn', 'fftshift', 'ifft', 'ifft2', 'ifftn', 'ifftshift', 'irfft', 'irfft2', 'irfftn', 'istft', 'rfft', 'rfft2', 'rfftfreq', 'rfftn', 'stft']

def fft(a: array, n: int | None = ..., axis: int | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """The discrete Fourier transform along `axis`; complex64. The axis is cut or padded with zeros to `n`.
    `norm` ("backward", "ortho" or "forward") says which of a transform and its inverse is scaled by `1 / n`.
    Raises ValueError for `n` below 1 or an unknown norm, IndexError for an axis that does not exist.

    >>> mx.fft.fft(mx.array([1.0, 1.0]))
    array([2+0j, 0+0j], dtype=complex64)
    """

def fft2(a: array, s: Sequence[int] | None = ..., axes: Sequence[int] | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """The transform along two axes; complex64. The axes are cut or padded with zeros to the lengths `s`. `norm`
    and errors as for `fft`.

    >>> mx.fft.fft2(mx.ones((2, 2)))
    array([[4+0j, 0+0j],
           [0+0j, 0+0j]], dtype=complex64)
    """

def fftfreq(n: int, d: float = ..., stream: _StreamOrDevice = ...) -> array:
    """The frequencies of the coefficients of `n` samples that are `d` apart; float32 of shape (n,). Raises ValueError
    for `n` below 1 and `d` of 0.

    >>> mx.fft.fftfreq(4)
    array([0, 0.25, -0.5, -0.25], dtype=float32)
    """

def fftn(a: array, s: Sequence[int] | None = ..., axes: Sequence[int] | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """The transform along `axes` (all by default); complex64. The axes are cut or padded with zeros to the
    lengths `s`, which need `axes` beside them. `norm` and errors as for `fft`.

    >>> mx.fft.fftn(mx.ones((2, 2, 2)))[0, 0, 0]
    array(8+0j, dtype=complex64)
    """

def fftshift(a: array, axes: Sequence[int] | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Moves the zero frequency to the middle of `axes`: an axis, several, or all by default. Raises IndexError for an
    axis that does not exist.

    >>> mx.fft.fftshift(mx.array([0, 1, 2, -2, -1]))
    array([-2, -1, 0, 1, 2], dtype=int32)
    """

def ifft(a: array, n: int | None = ..., axis: int | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """The inverse of `fft`; arguments as there.

    >>> mx.fft.ifft(mx.array([2.0, 0.0]))
    array([1+0j, 1+0j], dtype=complex64)
    """

def ifft2(a: array, s: Sequence[int] | None = ..., axes: Sequence[int] | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """The inverse of `fft2`; arguments as there.

    >>> mx.fft.ifft2(mx.ones((2, 2)))
    array([[1+0j, 0+0j],
           [0+0j, 0+0j]], dtype=complex64)
    """

def ifftn(a: array, s: Sequence[int] | None = ..., axes: Sequence[int] | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """The inverse of `fftn`; arguments as there.

    >>> mx.fft.ifftn(mx.ones((2, 2, 2)))[0, 0, 0]
    array(1+0j, dtype=complex64)
    """

def ifftshift(a: array, axes: Sequence[int] | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Undoes `fftshift`.

    >>> mx.fft.ifftshift(mx.array([-2, -1, 0, 1, 2]))
    array([0, 1, 2, -2, -1], dtype=int32)
    """

def irfft(a: array, n: int | None = ..., axis: int | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """The inverse of `rfft`: `n` real values (float32) from the first `n // 2 + 1` coefficients; `n` is by
    default the even one. Arguments as for `fft`.

    >>> mx.fft.irfft(mx.array([10 + 0j, -2 + 2j, -2 + 0j]))
    array([1, 2, 3, 4], dtype=float32)
    """

def irfft2(a: array, s: Sequence[int] | None = ..., axes: Sequence[int] | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """The inverse of `rfft2`: real values (float32); the last axis has the even length unless `s` says
    otherwise. Arguments as for `fft2`.

    >>> mx.fft.irfft2(mx.ones((2, 3))).shape
    (2, 4)
    """

def irfftn(a: array, s: Sequence[int] | None = ..., axes: Sequence[int] | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """The inverse of `rfftn`: real values (float32); the last of the axes has the even length unless `s` says
    otherwise. Arguments as for `fftn`.

    >>> mx.fft.irfftn(mx.ones((2, 2, 3))).shape
    (2, 2, 4)
    """

def istft(stft_matrix: Any, n_fft: Any = ..., hop_length: Any = ..., win_length: Any = ..., window: Any = ..., center: Any = ..., norm: Any = ..., onesided: Any = ..., length: Any = ..., stream: _StreamOrDevice = ...) -> array:
    """The signal of which `stft_matrix`, of shape `(..., frequencies, frames)`, is the short-time transform: inverse
    transforms, windowed, summed and divided by the sum of the squared windows. `n_fft` is by default the even length
    that the frequencies belong to; the other arguments are those of `stft`. `length` cuts the result or pads it with
    zeros. Raises ValueError as `stft` does.

    >>> z = mx.fft.stft(mx.ones(8), n_fft=4)
    >>> mx.fft.istft(z, n_fft=4).shape
    (8,)
    """

def rfft(a: array, n: int | None = ..., axis: int | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """The first `n // 2 + 1` coefficients of the transform of real values along `axis`; complex64. The others
    are their complex conjugates. Imaginary parts of the input are dropped. Arguments as for `fft`.

    >>> mx.fft.rfft(mx.array([1.0, 2.0, 3.0, 4.0])).shape
    (3,)
    """

def rfft2(a: array, s: Sequence[int] | None = ..., axes: Sequence[int] | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """The transform of real values along two axes, of which the last one keeps its first `n // 2 + 1`
    coefficients; complex64. Arguments as for `fft2`.

    >>> mx.fft.rfft2(mx.ones((2, 4))).shape
    (2, 3)
    """

def rfftfreq(n: int, d: float = ..., stream: _StreamOrDevice = ...) -> array:
    """The frequencies of the first `n // 2 + 1` coefficients; as `fftfreq`.

    >>> mx.fft.rfftfreq(4)
    array([0, 0.25, 0.5], dtype=float32)
    """

def rfftn(a: array, s: Sequence[int] | None = ..., axes: Sequence[int] | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """The transform of real values along `axes`, of which the last one keeps its first `n // 2 + 1`
    coefficients; complex64. Arguments as for `fftn`.

    >>> mx.fft.rfftn(mx.ones((2, 2, 4))).shape
    (2, 2, 3)
    """

def stft(x: array, n_fft: Any = ..., hop_length: Any = ..., win_length: Any = ..., window: Any = ..., center: Any = ..., pad_mode: Any = ..., norm: Any = ..., onesided: Any = ..., stream: _StreamOrDevice = ...) -> array:
    """The short-time Fourier transform of the last axis: transforms of overlapping frames of `n_fft` samples,
    `hop_length` apart (`n_fft // 4` by default), as complex64 of shape `(..., frequencies, frames)`. `window`, one
    axis long, is centred in the frame; without it `win_length` samples count. With `center` the signal is padded so
    that frame `i` lies around sample `i * hop_length`; `pad_mode` is "reflect", "constant", "edge" or "symmetric".
    `onesided` (the default for real input) keeps the first `n_fft // 2 + 1` frequencies. `norm` as for `fft`.
    Raises ValueError for a signal shorter than a frame, a window longer than one, and numbers that are not positive.

    >>> mx.fft.stft(mx.ones(8), n_fft=4, hop_length=2).shape
    (3, 5)
    """
