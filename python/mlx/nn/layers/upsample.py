"""Enlarging (or shrinking) the spatial axes of an input by interpolation.

Interpolation is separable: each axis with a scale other than one is handled by itself, as a sum
of gathered neighbours or, with antialiasing, as a product with the matrix of the filter.
"""

import math
from collections.abc import Callable
from typing import Literal

import mlx.core as mx
from mlx.nn.layers.base import Module


def _size(n: int, scale: float) -> int:
    return int(scale * n)


def _along(values: mx.array, axis: int, ndim: int) -> mx.array:
    """A vector shaped to broadcast over an axis of an array of `ndim` dimensions."""
    return values.reshape([-1 if i == axis else 1 for i in range(ndim)])


def _positions(n: int, scale: float, align_corners: bool) -> mx.array:
    """Where the centres of the outputs lie, in units of inputs."""
    m = _size(n, scale)
    outputs = mx.arange(m, dtype=mx.float32)
    if align_corners:
        return outputs * ((n - 1) / max(m - 1, 1))
    step = 1 / scale
    return outputs * step - ((m - 1) * step - n + 1) / 2


def _nearest(x: mx.array, axis: int, scale: float) -> mx.array:
    n = x.shape[axis]
    m = _size(n, scale)
    if m == n:
        return x
    if m and m % n == 0 and scale == m // n:
        return mx.repeat(x, m // n, axis=axis)
    outputs = mx.arange(m, dtype=mx.float32)
    if m > n:
        # In this order the ties of whole results fall as MLX's.
        outputs = mx.round((outputs + 0.5) * (n / m) - 0.5)
    else:
        outputs = outputs * (n / max(m, 1))
    indices = mx.clip(outputs.astype(mx.int32), 0, n - 1)
    return mx.take(x, indices, axis=axis)


def _taps(
    x: mx.array,
    axis: int,
    positions: mx.array,
    reach: int,
    kernel: Callable[[mx.array], mx.array],
) -> mx.array:
    """The sum of the neighbours within `reach`, weighted by `kernel` of their distance."""
    first = mx.floor(positions)
    y = mx.array(0.0)
    for offset in range(1 - reach, reach + 1):
        at = first + offset
        weight = kernel(mx.abs(positions - at))
        indices = mx.clip(at, 0, x.shape[axis] - 1).astype(mx.int32)
        y = y + mx.take(x, indices, axis=axis) * _along(weight, axis, x.ndim)
    return y


def _filtered(
    x: mx.array,
    axis: int,
    positions: mx.array,
    scale: float,
    kernel: Callable[[mx.array], mx.array],
) -> mx.array:
    """A product with the matrix of a filter that is widened to the distance of the outputs."""
    inputs = mx.arange(x.shape[axis], dtype=mx.float32)
    weights = kernel(mx.abs(positions[:, None] - inputs) * min(scale, 1.0))
    weights = weights / weights.sum(axis=1, keepdims=True)
    return mx.moveaxis(mx.moveaxis(x, axis, -1) @ weights.T, -1, axis)


def _triangle(distance: mx.array) -> mx.array:
    return mx.maximum(1 - distance, 0)


def _cubic(a: float) -> Callable[[mx.array], mx.array]:
    """The cubic convolution kernel of Keys 1981 (IEEE Trans. ASSP 29) with the slope `a`."""

    def kernel(d: mx.array) -> mx.array:
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = a * (((d - 5) * d + 8) * d - 4)
        return mx.where(d <= 1, near, mx.where(d < 2, far, 0))

    return kernel


def _interpolate(
    x: mx.array,
    scale_factor: tuple[float, ...],
    align_corners: bool,
    antialias: bool,
    kernel: Callable[[mx.array], mx.array],
    reach: int,
) -> mx.array:
    if antialias and align_corners:
        raise ValueError(
            "[Upsample] antialias=True with align_corners=True is not supported. "
            "Use align_corners=False for antialiased interpolation."
        )
    x = x if mx.issubdtype(x.dtype, mx.inexact) else x.astype(mx.float32)
    for axis, scale in enumerate(scale_factor, 1):
        n = x.shape[axis]
        if scale == 1:
            continue
        positions = _positions(n, scale, align_corners)
        if antialias:
            x = _filtered(x, axis, positions, scale, kernel)
        else:
            if reach == 1:
                positions = mx.clip(positions, 0, n - 1)
            x = _taps(x, axis, positions, reach, kernel)
    return x


def upsample_nearest(x: mx.array, scale_factor: tuple[float, ...]) -> mx.array:
    """Repeat the nearest input.

    A whole scale factor repeats every input; else output i of m reads the input nearest to
    ``(i + 0.5) * n / m - 0.5``, the even one of two, and where the axis shrinks
    ``floor(i * n / m)``.

    Args:
        x (array): (N, spatial axes ..., C), of any dtype.
        scale_factor (tuple of float): One number a spatial axis.

    Returns:
        array: With every spatial axis longer by its factor, rounded down.

    >>> import mlx.core as mx
    >>> upsample_nearest(mx.array([1, 2]).reshape(1, 2, 1), (2.0,)).flatten()
    array([1, 1, 2, 2], dtype=int32)
    """
    for axis, scale in enumerate(scale_factor, 1):
        x = _nearest(x, axis, scale)
    return x


def upsample_linear(
    x: mx.array,
    scale_factor: tuple[float, ...],
    align_corners: bool = False,
    antialias: bool = False,
) -> mx.array:
    """Interpolate linearly along every spatial axis.

    Args:
        x (array): (N, spatial axes ..., C), of a floating dtype.
        scale_factor (tuple of float): One number a spatial axis.
        align_corners (bool, optional): Whether the first and last elements of input and output lie
            at the same places, else the edges of those elements. Default: ``False``.
        antialias (bool, optional): Whether scaling down averages over what it leaves out. Default:
            ``False``.

    Returns:
        array: With every spatial axis longer by its factor, rounded down.

    >>> import mlx.core as mx
    >>> upsample_linear(mx.array([0.0, 4.0]).reshape(1, 2, 1), (2.0,)).flatten()
    array([0, 1, 3, 4], dtype=float32)
    """
    return _interpolate(x, scale_factor, align_corners, antialias, _triangle, 1)


def upsample_cubic(
    x: mx.array,
    scale_factor: tuple[float, ...],
    align_corners: bool = False,
    antialias: bool = False,
) -> mx.array:
    """Interpolate by cubic convolution along every spatial axis.

    The slope of the kernel is -0.75, and -0.5 with antialiasing. Keys 1981, "Cubic Convolution
    Interpolation for Digital Image Processing".

    Args:
        x (array): (N, spatial axes ..., C), of a floating dtype.
        scale_factor (tuple of float): One number a spatial axis.
        align_corners (bool, optional): Whether the first and last elements of input and output lie
            at the same places, else the edges of those elements. Default: ``False``.
        antialias (bool, optional): Whether scaling down averages over what it leaves out. Default:
            ``False``.

    Returns:
        array: With every spatial axis longer by its factor, rounded down.

    >>> import mlx.core as mx
    >>> upsample_cubic(mx.ones((1, 3, 1)), (2.0,)).shape
    (1, 6, 1)
    """
    kernel = _cubic(-0.5 if antialias else -0.75)
    return _interpolate(x, scale_factor, align_corners, antialias, kernel, 2)


class Upsample(Module):
    """Enlarges the spatial axes of an input (N, spatial axes ..., C) by interpolation.

    An axis of size ``n`` becomes ``int(scale * n)`` long.

    Args:
        scale_factor (float | tuple of float): One number for all spatial axes, or one for each.
        mode (str, optional): ``"nearest"``, ``"linear"`` or ``"cubic"``. Default: ``"nearest"``.
        align_corners (bool, optional): Whether the centres of the outermost inputs and outputs
            coincide; else their outer edges do. Of no effect on ``"nearest"``. Default: ``False``.
        antialias (bool, optional): Whether the filter is widened where the axis shrinks, so that
            no input is passed over. Default: ``False``.

    Raises:
        ValueError: if ``mode`` is unknown, if ``antialias`` is used with ``"nearest"`` or
            ``align_corners``, if the input has no spatial axis, or if a tuple has not one number
            for each.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.Upsample((2, 1.5), mode="linear")(mx.zeros((1, 4, 4, 3))).shape
    (1, 8, 6, 3)
    """

    def __init__(
        self,
        scale_factor: float | tuple[float, ...],
        mode: Literal["nearest", "linear", "cubic"] = "nearest",
        align_corners: bool = False,
        antialias: bool = False,
    ) -> None:
        super().__init__()
        if mode not in ("nearest", "linear", "cubic"):
            raise ValueError(f"[Upsample] Got unsupported upsampling algorithm: {mode}")
        if antialias and mode == "nearest":
            raise ValueError(
                "[Upsample] Antialiasing is not supported for nearest neighbor upsampling"
            )
        self.scale_factor: float | tuple[float, ...]
        if isinstance(scale_factor, (list, tuple)):
            self.scale_factor = tuple(float(s) for s in scale_factor)
        else:
            self.scale_factor = float(scale_factor)
        self.mode = mode
        self.align_corners = align_corners
        self.antialias = antialias

    def _extra_repr(self) -> str:
        text = (
            f"scale_factor={self.scale_factor}, mode={self.mode!r}, "
            f"align_corners={self.align_corners}"
        )
        return text + (f", antialias={self.antialias}" if self.antialias else "")

    def __call__(self, x: mx.array) -> mx.array:
        # Arrays of NumPy too.
        x = mx.array(x) if hasattr(x, "__array_interface__") else x
        axes = x.ndim - 2
        if axes < 1:
            raise ValueError(
                "[Upsample] The input should have at least 1 spatial dimension which means it "
                f"should be at least 3D but {x.ndim}D was provided"
            )
        scale = self.scale_factor
        if isinstance(scale, tuple):
            if len(scale) != axes:
                raise ValueError(
                    "[Upsample] One scale per spatial dimension is required but "
                    f"scale_factor={scale} and the number of spatial dimensions were {axes}"
                )
        else:
            scale = (scale,) * axes
        if any(s == math.inf for s in scale):
            raise OverflowError(f"[Upsample] scale_factor must be finite, got {scale}")
        if any(s < 0 or math.isnan(s) for s in scale):
            raise ValueError(f"[Upsample] scale_factor must not be negative, got {scale}")
        if self.mode == "nearest":
            return upsample_nearest(x, scale)
        if self.mode == "linear":
            return upsample_linear(x, scale, self.align_corners, self.antialias)
        return upsample_cubic(x, scale, self.align_corners, self.antialias)
