"""Pooling layers; inputs are (batch, spatial axes ..., channels).

Windows are read through a strided view of the padded input, so that pooling is one reduction and
takes its derivatives from it.
"""

from collections.abc import Callable, Sequence

import mlx.core as mx
from mlx.nn.layers.base import Module

_Size = int | tuple[int, ...] | list[int]


def _sizes(value: _Size, count: int, layer: str, name: str) -> list[int]:
    if isinstance(value, int):
        return [value] * count
    if isinstance(value, (tuple, list)) and len(value) == count:
        return list(value)
    raise ValueError(
        f"[{layer}] '{name}' must be an integer or a tuple containing {count} "
        f"integer{'s' if count > 1 else ''}, got {value!r}"
    )


def _windows(x: mx.array, size: Sequence[int], stride: Sequence[int]) -> mx.array:
    """A view (batch, positions ..., window axes ..., channels) of a contiguous copy of `x`.

    A window larger than the input by less than a stride has no position.
    """
    batch, *spatial, channels = x.shape
    counts = [
        (extent - width) // step + 1
        for extent, width, step in zip(spatial, size, stride, strict=True)
    ]
    if min(counts) < 0:
        raise ValueError(
            f"[pooling] the window {tuple(size)} is larger than the padded input {tuple(spatial)}"
        )
    if list(size) == list(stride):
        # Windows that do not overlap: cut what is left over and split every axis in two.
        whole = tuple(slice(0, count * width) for count, width in zip(counts, size, strict=True))
        if any(
            count * width != extent
            for count, width, extent in zip(counts, size, spatial, strict=True)
        ):
            x = x[(slice(None), *whole)]
        split = [n for pair in zip(counts, size, strict=True) for n in pair]
        x = x.reshape(batch, *split, channels)
        axes = len(size)
        order = [0, *range(1, 2 * axes, 2), *range(2, 2 * axes + 1, 2), 2 * axes + 1]
        return x.transpose(order)
    steps = [channels]
    for extent in reversed(spatial):
        steps.insert(0, steps[0] * extent)
    per_axis = steps[1:]
    return mx.as_strided(
        mx.contiguous(x),
        shape=(batch, *counts, *size, channels),
        strides=(
            steps[0],
            *(step * s for step, s in zip(per_axis, stride, strict=True)),
            *per_axis,
            1,
        ),
    )


class _Pool(Module):
    """Reduces windows of the input.

    The sizes are lists with an entry for each spatial axis, kept as items of the module; that of
    the padding is a pair: before and behind.
    """

    def __init__(
        self,
        pooling_function: Callable[..., mx.array],
        kernel_size: list[int],
        stride: list[int],
        padding: list[tuple[int, int]],
        padding_value: float,
    ) -> None:
        super().__init__()
        for name, values in (("kernel_size", kernel_size), ("stride", stride)):
            if any(v <= 0 for v in values):
                raise self._refused(name, "positive", values)
        before = [p for p, _ in padding]
        if any(p < 0 for p in before):
            raise self._refused("padding", "non-negative", before)
        self._pooling_function = pooling_function
        self._kernel_size = kernel_size
        self._stride = stride
        self._padding = padding
        self._padding_value = padding_value
        self._axes = tuple(range(-len(kernel_size) - 1, -1))

    def _refused(self, name: str, what: str, values: list[int]) -> ValueError:
        layer = type(self).__name__
        return ValueError(f"[{layer}] '{name}' must be {what} but got {tuple(values)}.")

    def _extra_repr(self) -> str:
        return (
            f"kernel_size={tuple(self._kernel_size)}, stride={tuple(self._stride)}, "
            f"padding={tuple(p for p, _ in self._padding)}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        if x.ndim != len(self._kernel_size) + 2:
            raise ValueError(
                f"[{type(self).__name__}] expected an input with {len(self._kernel_size) + 2} "
                f"dimensions (N, ..., C), got shape {x.shape}"
            )
        if any(p > 0 for p, _ in self._padding):
            width = [(0, 0), *self._padding, (0, 0)]
            x = mx.pad(x, width, constant_values=self._padding_value)
        return self._pooling_function(_windows(x, self._kernel_size, self._stride), axis=self._axes)


class _PoolNd(_Pool):
    """Checks the sizes that a user gives for `_count` spatial axes."""

    _count = 0
    _function: Callable[..., mx.array] = mx.max
    _fill: float = 0

    def __init__(self, kernel_size: _Size, stride: _Size | None = None, padding: _Size = 0) -> None:
        name, count = type(self).__name__, self._count
        kernel = _sizes(kernel_size, count, name, "kernel_size")
        super().__init__(
            type(self)._function,
            kernel,
            kernel if stride is None else _sizes(stride, count, name, "stride"),
            [(p, p) for p in _sizes(padding, count, name, "padding")],
            self._fill,
        )


class _Pool1d(_PoolNd):
    _count = 1


class _Pool2d(_PoolNd):
    _count = 2


class _Pool3d(_PoolNd):
    _count = 3


class MaxPool1d(_Pool1d):
    """The largest value of every window of an input (N, L, C).

    Outputs have the axes of the input; a spatial axis of length L becomes ``(L + 2 * padding -
    kernel_size) // stride + 1`` long. There are no parameters.

    Args:
        kernel_size (int | tuple of int): The extent of the window.
        stride (int | tuple of int, optional): The distance of windows. Default: ``kernel_size``.
        padding (int | tuple of int, optional): How far every spatial axis is extended on both
            sides. The padding never wins. Default: ``0``.

    Raises:
        ValueError: if a size is not one number a spatial axis or out of range, or when called, if
            the window is larger than the padded input by a stride or more or that has other axes.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.MaxPool1d(2)(mx.zeros((1, 4, 3))).shape
    (1, 2, 3)
    """

    _function = mx.max
    _fill = -float("inf")


class AvgPool1d(_Pool1d):
    """The mean of every window of an input (N, L, C).

    Outputs have the axes of the input; a spatial axis of length L becomes ``(L + 2 * padding -
    kernel_size) // stride + 1`` long. There are no parameters.

    Args:
        kernel_size (int | tuple of int): The extent of the window.
        stride (int | tuple of int, optional): The distance of windows. Default: ``kernel_size``.
        padding (int | tuple of int, optional): How far every spatial axis is extended on both
            sides. The padding counts as zeros. Default: ``0``.

    Raises:
        ValueError: if a size is not one number a spatial axis or out of range, or when called, if
            the window is larger than the padded input by a stride or more or that has other axes.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.AvgPool1d(2)(mx.zeros((1, 4, 3))).shape
    (1, 2, 3)
    """

    _function = mx.mean
    _fill = 0.0


class MaxPool2d(_Pool2d):
    """The largest value of every window of an input (N, H, W, C).

    Outputs have the axes of the input; a spatial axis of length L becomes ``(L + 2 * padding -
    kernel_size) // stride + 1`` long. There are no parameters.

    Args:
        kernel_size (int | tuple of int): The extent of the window.
        stride (int | tuple of int, optional): The distance of windows. Default: ``kernel_size``.
        padding (int | tuple of int, optional): How far every spatial axis is extended on both
            sides. The padding never wins. Default: ``0``.

    Raises:
        ValueError: if a size is not one number a spatial axis or out of range, or when called, if
            the window is larger than the padded input by a stride or more or that has other axes.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.MaxPool2d(2)(mx.zeros((1, 4, 4, 3))).shape
    (1, 2, 2, 3)
    """

    _function = mx.max
    _fill = -float("inf")


class AvgPool2d(_Pool2d):
    """The mean of every window of an input (N, H, W, C).

    Outputs have the axes of the input; a spatial axis of length L becomes ``(L + 2 * padding -
    kernel_size) // stride + 1`` long. There are no parameters.

    Args:
        kernel_size (int | tuple of int): The extent of the window.
        stride (int | tuple of int, optional): The distance of windows. Default: ``kernel_size``.
        padding (int | tuple of int, optional): How far every spatial axis is extended on both
            sides. The padding counts as zeros. Default: ``0``.

    Raises:
        ValueError: if a size is not one number a spatial axis or out of range, or when called, if
            the window is larger than the padded input by a stride or more or that has other axes.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.AvgPool2d(2)(mx.zeros((1, 4, 4, 3))).shape
    (1, 2, 2, 3)
    """

    _function = mx.mean
    _fill = 0.0


class MaxPool3d(_Pool3d):
    """The largest value of every window of an input (N, D, H, W, C).

    Outputs have the axes of the input; a spatial axis of length L becomes ``(L + 2 * padding -
    kernel_size) // stride + 1`` long. There are no parameters.

    Args:
        kernel_size (int | tuple of int): The extent of the window.
        stride (int | tuple of int, optional): The distance of windows. Default: ``kernel_size``.
        padding (int | tuple of int, optional): How far every spatial axis is extended on both
            sides. The padding never wins. Default: ``0``.

    Raises:
        ValueError: if a size is not one number a spatial axis or out of range, or when called, if
            the window is larger than the padded input by a stride or more or that has other axes.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.MaxPool3d(2)(mx.zeros((1, 4, 4, 4, 3))).shape
    (1, 2, 2, 2, 3)
    """

    _function = mx.max
    _fill = -float("inf")


class AvgPool3d(_Pool3d):
    """The mean of every window of an input (N, D, H, W, C).

    Outputs have the axes of the input; a spatial axis of length L becomes ``(L + 2 * padding -
    kernel_size) // stride + 1`` long. There are no parameters.

    Args:
        kernel_size (int | tuple of int): The extent of the window.
        stride (int | tuple of int, optional): The distance of windows. Default: ``kernel_size``.
        padding (int | tuple of int, optional): How far every spatial axis is extended on both
            sides. The padding counts as zeros. Default: ``0``.

    Raises:
        ValueError: if a size is not one number a spatial axis or out of range, or when called, if
            the window is larger than the padded input by a stride or more or that has other axes.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.AvgPool3d(2)(mx.zeros((1, 4, 4, 4, 3))).shape
    (1, 2, 2, 2, 3)
    """

    _function = mx.mean
    _fill = 0.0
