# Written by tools/stubs.py from the module itself; do not edit.
"""Discrete Fourier transforms."""

from collections.abc import Sequence
from typing import Any
from . import _StreamOrDevice, array

__all__ = ['fft', 'fft2', 'fftfreq', 'fftn', 'fftshift', 'ifft', 'ifft2', 'ifftn', 'ifftshift', 'irfft', 'irfft2', 'irfftn', 'istft', 'rfft', 'rfft2', 'rfftfreq', 'rfftn', 'stft']

def fft(a: array, n: int | None = ..., axis: int | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """Discrete Fourier transform along one axis.

    Coefficient k is `sum(a[j] * exp(-2j * pi * j * k / n))`. Every length works in n log n steps.

    Args:
        a (array): Elements, real or complex; computed in float32 or complex64.
        n (int, optional): Length to which the axis is cut or padded with zeros first. Default: None, its length.
        axis (int, optional): Axis of the transform; a negative one counts from the last. Default: -1.
        norm (str, optional): Which of a transform and its inverse is scaled by 1 / n: "backward" the inverse,
            "forward" the transform, "ortho" both by the square root. Default: "backward".

    Returns:
        array: complex64, of the shape of `a` with `axis` of length `n`.

    Raises:
        ValueError: if a length is below 1 or the norm is another one.
        IndexError: if the axis is out of range.

    >>> mx.fft.fft(mx.array([1.0, 1.0]))
    array([2+0j, 0+0j], dtype=complex64)
    """

def fft2(a: array, s: Sequence[int] | None = ..., axes: Sequence[int] | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """Discrete Fourier transform along two axes, as of pictures.

    The same as `fft` along one of them and then along the other.

    Args:
        a (array): Elements, real or complex; computed in float32 or complex64.
        s (Sequence[int], optional): Lengths to which the axes are cut or padded with zeros first. Default: None,
            their lengths.
        axes (Sequence[int], optional): Axes of the transform; negative ones count from the last.
            Default: (-2, -1).
        norm (str, optional): Which of a transform and its inverse is scaled: "backward", "forward" or "ortho", as
            for `fft`. Default: "backward".

    Returns:
        array: complex64, of the shape of `a` with the axes of lengths `s`.

    Raises:
        ValueError: if a length is below 1, there are not as many lengths as axes, or the norm is another one.
        IndexError: if an axis is out of range.

    >>> mx.fft.fft2(mx.ones((2, 2)))
    array([[4+0j, 0+0j],
           [0+0j, 0+0j]], dtype=complex64)
    """

def fftfreq(n: int, d: float = ..., stream: _StreamOrDevice = ...) -> array:
    """Frequencies of the coefficients of `fft`, in cycles for each unit of the sample distance.

    First 0 and the positive ones, then the negative ones: `[0, 1, ..., -2, -1] / (n * d)`.

    Args:
        n (int): Number of samples.
        d (float, optional): Distance of samples. Default: 1.0.

    Returns:
        array: float32, of shape (n,).

    Raises:
        ValueError: if `n` is below 1 or `d` is 0.

    >>> mx.fft.fftfreq(4)
    array([0, 0.25, -0.5, -0.25], dtype=float32)
    """

def fftn(a: array, s: Sequence[int] | None = ..., axes: Sequence[int] | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """Discrete Fourier transform along several axes.

    The same as `fft` along one after another.

    Args:
        a (array): Elements, real or complex; computed in float32 or complex64.
        s (Sequence[int], optional): Lengths to which the axes are cut or padded with zeros first; needs `axes`.
            Default: None, their lengths.
        axes (Sequence[int], optional): Axes of the transform; negative ones count from the last. Default: None, all.
        norm (str, optional): Which of a transform and its inverse is scaled: "backward", "forward" or "ortho", as
            for `fft`. Default: "backward".

    Returns:
        array: complex64, of the shape of `a` with the axes of lengths `s`.

    Raises:
        ValueError: if a length is below 1, there are not as many lengths as axes, or the norm is another one.
        IndexError: if an axis is out of range.

    >>> mx.fft.fftn(mx.ones((2, 2, 2)))[0, 0, 0]
    array(8+0j, dtype=complex64)
    """

def fftshift(a: array, axes: Sequence[int] | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Moves the zero frequency to the middle of axes.

    Transforms begin with it, followed by positive and then by negative frequencies; shifted, the frequencies
    ascend. Axes are rolled by half their length, rounded down.

    Args:
        a (array): Coefficients, or frequencies, of any dtype.
        axes (int | Sequence[int], optional): Axes to shift; negative ones count from the last. Default: None,
            all axes.

    Returns:
        array: Of the shape and dtype of `a`.

    Raises:
        IndexError: if an axis is out of range.

    >>> mx.fft.fftshift(mx.array([0, 1, 2, -2, -1]))
    array([-2, -1, 0, 1, 2], dtype=int32)
    """

def ifft(a: array, n: int | None = ..., axis: int | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """Inverse discrete Fourier transform along one axis.

    Element j is `sum(a[k] * exp(2j * pi * j * k / n)) / n`, so that `ifft(fft(a))` is `a`.

    Args:
        a (array): Elements, real or complex; computed in float32 or complex64.
        n (int, optional): Length to which the axis is cut or padded with zeros first. Default: None, its length.
        axis (int, optional): Axis of the transform; a negative one counts from the last. Default: -1.
        norm (str, optional): Which of a transform and its inverse is scaled by 1 / n: "backward" the inverse,
            "forward" the transform, "ortho" both by the square root. Default: "backward".

    Returns:
        array: complex64, of the shape of `a` with `axis` of length `n`.

    Raises:
        ValueError: if a length is below 1 or the norm is another one.
        IndexError: if the axis is out of range.

    >>> mx.fft.ifft(mx.array([2.0, 0.0]))
    array([1+0j, 1+0j], dtype=complex64)
    """

def ifft2(a: array, s: Sequence[int] | None = ..., axes: Sequence[int] | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """Inverse discrete Fourier transform along two axes.

    `ifft2(fft2(a))` is `a`.

    Args:
        a (array): Elements, real or complex; computed in float32 or complex64.
        s (Sequence[int], optional): Lengths to which the axes are cut or padded with zeros first. Default: None,
            their lengths.
        axes (Sequence[int], optional): Axes of the transform; negative ones count from the last.
            Default: (-2, -1).
        norm (str, optional): Which of a transform and its inverse is scaled: "backward", "forward" or "ortho", as
            for `fft`. Default: "backward".

    Returns:
        array: complex64, of the shape of `a` with the axes of lengths `s`.

    Raises:
        ValueError: if a length is below 1, there are not as many lengths as axes, or the norm is another one.
        IndexError: if an axis is out of range.

    >>> mx.fft.ifft2(mx.ones((2, 2)))
    array([[1+0j, 0+0j],
           [0+0j, 0+0j]], dtype=complex64)
    """

def ifftn(a: array, s: Sequence[int] | None = ..., axes: Sequence[int] | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """Inverse discrete Fourier transform along several axes.

    `ifftn(fftn(a))` is `a`.

    Args:
        a (array): Elements, real or complex; computed in float32 or complex64.
        s (Sequence[int], optional): Lengths to which the axes are cut or padded with zeros first; needs `axes`.
            Default: None, their lengths.
        axes (Sequence[int], optional): Axes of the transform; negative ones count from the last. Default: None, all.
        norm (str, optional): Which of a transform and its inverse is scaled: "backward", "forward" or "ortho", as
            for `fft`. Default: "backward".

    Returns:
        array: complex64, of the shape of `a` with the axes of lengths `s`.

    Raises:
        ValueError: if a length is below 1, there are not as many lengths as axes, or the norm is another one.
        IndexError: if an axis is out of range.

    >>> mx.fft.ifftn(mx.ones((2, 2, 2)))[0, 0, 0]
    array(1+0j, dtype=complex64)
    """

def ifftshift(a: array, axes: Sequence[int] | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Moves the zero frequency from the middle of axes to their start: the inverse of `fftshift`.

    The two differ for odd lengths: axes are rolled by half their length, rounded up.

    Args:
        a (array): Coefficients, or frequencies, of any dtype.
        axes (int | Sequence[int], optional): Axes to shift; negative ones count from the last. Default: None,
            all axes.

    Returns:
        array: Of the shape and dtype of `a`.

    Raises:
        IndexError: if an axis is out of range.

    >>> mx.fft.ifftshift(mx.array([-2, -1, 0, 1, 2]))
    array([0, 1, 2, -2, -1], dtype=int32)
    """

def irfft(a: array, n: int | None = ..., axis: int | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """Real elements along one axis from the coefficients that `rfft` returns.

    The coefficients are taken as the first `n // 2 + 1` of `n`. Since two lengths have as many, the even
    one is taken unless `n` says otherwise: by default `n = 2 * (m - 1)` for m coefficients.

    Args:
        a (array): Elements, real or complex; computed in float32 or complex64.
        n (int, optional): Length to which the axis is cut or padded with zeros first. Default: None, its length.
        axis (int, optional): Axis of the transform; a negative one counts from the last. Default: -1.
        norm (str, optional): Which of a transform and its inverse is scaled by 1 / n: "backward" the inverse,
            "forward" the transform, "ortho" both by the square root. Default: "backward".

    Returns:
        array: float32, of the shape of `a` with `axis` of length `n`.

    Raises:
        ValueError: if a length is below 1 or the norm is another one.
        IndexError: if the axis is out of range.

    >>> mx.fft.irfft(mx.array([10 + 0j, -2 + 2j, -2 + 0j]))
    array([1, 2, 3, 4], dtype=float32)
    """

def irfft2(a: array, s: Sequence[int] | None = ..., axes: Sequence[int] | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """Real elements along two axes from the coefficients that `rfft2` returns.

    The last of the axes has the even length, `2 * (m - 1)` for m coefficients, unless `s` says otherwise.

    Args:
        a (array): Elements, real or complex; computed in float32 or complex64.
        s (Sequence[int], optional): Lengths to which the axes are cut or padded with zeros first. Default: None,
            their lengths.
        axes (Sequence[int], optional): Axes of the transform; negative ones count from the last.
            Default: (-2, -1).
        norm (str, optional): Which of a transform and its inverse is scaled: "backward", "forward" or "ortho", as
            for `fft`. Default: "backward".

    Returns:
        array: float32, of the shape of `a` with the axes of lengths `s`.

    Raises:
        ValueError: if a length is below 1, there are not as many lengths as axes, or the norm is another one.
        IndexError: if an axis is out of range.

    >>> mx.fft.irfft2(mx.fft.rfft2(mx.array([[1.0, 2.0], [3.0, 4.0]])))
    array([[1, 2],
           [3, 4]], dtype=float32)
    """

def irfftn(a: array, s: Sequence[int] | None = ..., axes: Sequence[int] | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """Real elements along several axes from the coefficients that `rfftn` returns.

    The last of the axes has the even length, `2 * (m - 1)` for m coefficients, unless `s` says otherwise.

    Args:
        a (array): Elements, real or complex; computed in float32 or complex64.
        s (Sequence[int], optional): Lengths to which the axes are cut or padded with zeros first; needs `axes`.
            Default: None, their lengths.
        axes (Sequence[int], optional): Axes of the transform; negative ones count from the last. Default: None, all.
        norm (str, optional): Which of a transform and its inverse is scaled: "backward", "forward" or "ortho", as
            for `fft`. Default: "backward".

    Returns:
        array: float32, of the shape of `a` with the axes of lengths `s`.

    Raises:
        ValueError: if a length is below 1, there are not as many lengths as axes, or the norm is another one.
        IndexError: if an axis is out of range.

    >>> mx.fft.irfftn(mx.ones((2, 2, 3))).shape
    (2, 2, 4)
    """

def istft(stft_matrix: Any, n_fft: int | None = ..., hop_length: int | None = ..., win_length: int | None = ..., window: Any = ..., center: bool = ..., norm: str = ..., onesided: bool | None = ..., length: int | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Signal of which a short-time Fourier transform is given: the inverse of `stft`.

    Frames are transformed back, multiplied by the window, added where they overlap, and divided by the sum of
    the squared windows there.

    Args:
        stft_matrix (array): Transforms, (..., frequencies, frames).
        n_fft (int, optional): Samples of a frame. Default: None, the even length that the frequencies belong
            to.
        hop_length (int, optional): Distance of frames. Default: None, `n_fft // 4`.
        win_length (int, optional): Samples of a frame that count where there is no window. Default: None,
            all.
        window (array, optional): The window of the transform. Default: None, ones.
        center (bool, optional): Whether frames lie around their sample. Default: True.
        norm (str, optional): "backward", "forward" or "ortho", as for `fft`. Default: "backward".
        onesided (bool, optional): Whether only the first half of the frequencies is given, so that the signal
            is real. Default: None, True.
        length (int, optional): Length to which the signal is cut or padded with zeros. Default: None, what
            the frames cover.

    Returns:
        array: Signals along the last axis: float32, or complex64 for all frequencies.

    Raises:
        ValueError: if the frequencies do not fit `n_fft`, the window is longer than a frame, or a number is
            not positive.

    >>> z = mx.fft.stft(mx.arange(8.0), n_fft=4)
    >>> mx.allclose(mx.fft.istft(z, n_fft=4), mx.arange(8.0), atol=1e-5)
    array(True, dtype=bool)
    """

def rfft(a: array, n: int | None = ..., axis: int | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """Discrete Fourier transform of real elements along one axis.

    Of the `n` coefficients the first `n // 2 + 1` are returned; the others are their complex conjugates
    in reverse order. Imaginary parts of `a` are dropped.

    Args:
        a (array): Elements, real or complex; computed in float32 or complex64.
        n (int, optional): Length to which the axis is cut or padded with zeros first. Default: None, its length.
        axis (int, optional): Axis of the transform; a negative one counts from the last. Default: -1.
        norm (str, optional): Which of a transform and its inverse is scaled by 1 / n: "backward" the inverse,
            "forward" the transform, "ortho" both by the square root. Default: "backward".

    Returns:
        array: complex64, of the shape of `a` with `axis` of length `n // 2 + 1`.

    Raises:
        ValueError: if a length is below 1 or the norm is another one.
        IndexError: if the axis is out of range.

    >>> mx.fft.rfft(mx.array([3.0, 1.0]))
    array([4+0j, 2+0j], dtype=complex64)
    """

def rfft2(a: array, s: Sequence[int] | None = ..., axes: Sequence[int] | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """Discrete Fourier transform of real elements along two axes.

    `rfft` along the last of the axes, whose first `n // 2 + 1` coefficients are kept, then `fft` along
    the other one.

    Args:
        a (array): Elements, real or complex; computed in float32 or complex64.
        s (Sequence[int], optional): Lengths to which the axes are cut or padded with zeros first. Default: None,
            their lengths.
        axes (Sequence[int], optional): Axes of the transform; negative ones count from the last.
            Default: (-2, -1).
        norm (str, optional): Which of a transform and its inverse is scaled: "backward", "forward" or "ortho", as
            for `fft`. Default: "backward".

    Returns:
        array: complex64, of the shape of `a` with the axes of lengths `s`, the last of them `n // 2 + 1`.

    Raises:
        ValueError: if a length is below 1, there are not as many lengths as axes, or the norm is another one.
        IndexError: if an axis is out of range.

    >>> mx.fft.rfft2(mx.ones((2, 4))).shape
    (2, 3)
    """

def rfftfreq(n: int, d: float = ..., stream: _StreamOrDevice = ...) -> array:
    """Frequencies of the coefficients of `rfft`, in cycles for each unit of the sample distance.

    They ascend from 0: `[0, 1, ..., n // 2] / (n * d)`.

    Args:
        n (int): Number of samples.
        d (float, optional): Distance of samples. Default: 1.0.

    Returns:
        array: float32, of shape (n // 2 + 1,).

    Raises:
        ValueError: if `n` is below 1 or `d` is 0.

    >>> mx.fft.rfftfreq(4)
    array([0, 0.25, 0.5], dtype=float32)
    """

def rfftn(a: array, s: Sequence[int] | None = ..., axes: Sequence[int] | None = ..., norm: str = ..., stream: _StreamOrDevice = ...) -> array:
    """Discrete Fourier transform of real elements along several axes.

    `rfft` along the last of the axes, whose first `n // 2 + 1` coefficients are kept, then `fft` along
    the others.

    Args:
        a (array): Elements, real or complex; computed in float32 or complex64.
        s (Sequence[int], optional): Lengths to which the axes are cut or padded with zeros first; needs `axes`.
            Default: None, their lengths.
        axes (Sequence[int], optional): Axes of the transform; negative ones count from the last. Default: None, all.
        norm (str, optional): Which of a transform and its inverse is scaled: "backward", "forward" or "ortho", as
            for `fft`. Default: "backward".

    Returns:
        array: complex64, of the shape of `a` with the axes of lengths `s`, the last of them `n // 2 + 1`.

    Raises:
        ValueError: if a length is below 1, there are not as many lengths as axes, or the norm is another one.
        IndexError: if an axis is out of range.

    >>> mx.fft.rfftn(mx.ones((2, 2, 4))).shape
    (2, 2, 3)
    """

def stft(x: array, n_fft: int = ..., hop_length: int | None = ..., win_length: int | None = ..., window: Any = ..., center: bool = ..., pad_mode: str = ..., norm: str = ..., onesided: bool | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Short-time Fourier transform: the transforms of overlapping frames of a signal.

    Frame i holds the samples from `i * hop_length` on, times the window. With `center` the signal is padded
    by half a frame at both ends, so that frame i lies around sample `i * hop_length`.

    Args:
        x (array): Signals along the last axis, real or complex.
        n_fft (int, optional): Samples of a frame. Default: 2048.
        hop_length (int, optional): Distance of frames. Default: None, `n_fft // 4`.
        win_length (int, optional): Samples of a frame that count where there is no window. Default: None,
            all.
        window (array, optional): Factors on the samples, of one axis and at most `n_fft` long; a shorter one
            is put into the middle of the frame. Default: None, ones.
        center (bool, optional): Whether frames lie around their sample. Default: True.
        pad_mode (str, optional): How the signal is padded for that: "reflect", "constant" (zeros), "edge" or
            "symmetric", as `pad` has it. Default: "reflect".
        norm (str, optional): "backward", "forward" or "ortho", as for `fft`. Default: "backward".
        onesided (bool, optional): Whether only the first `n_fft // 2 + 1` frequencies are returned, which
            determine the others of a real signal. Default: None, True for real signals.

    Returns:
        array: complex64, of shape (..., frequencies, frames).

    Raises:
        ValueError: if the signal is shorter than a frame, the window longer than one, a number not positive,
            or a name unknown.

    >>> mx.fft.stft(mx.ones(8), n_fft=4, hop_length=2).shape
    (3, 5)
    """
