"""Convolution layers; inputs are (batch, spatial axes ..., channels).

Weights are uniform within one over the root of the number of inputs of an output; biases start at
zero.
"""

import math

import mlx.core as mx
from mlx.nn.layers.base import Module


def spread(value: int | tuple[int, ...], count: int) -> tuple[int, ...]:
    """One number as many; anything else as it is."""
    return (value,) * count if isinstance(value, int) else value


def conv_weight(
    out_channels: int, kernel: tuple[int, ...], in_channels: int, groups: int = 1
) -> mx.array:
    """The first weight of a convolution: (out_channels, kernel ..., in_channels / groups)."""
    if groups < 1 or in_channels % groups != 0:
        raise ValueError(
            f"[conv] The number of input channels ({in_channels}) must be divisible by the number "
            f"of groups ({groups})"
        )
    shape = (out_channels, *kernel, in_channels // groups)
    scale = math.sqrt(1 / math.prod(shape[1:]))
    return mx.random.uniform(low=-scale, high=scale, shape=shape)


class Conv1d(Module):
    """Convolves sequences, (N, L, in_channels) to (N, L', out_channels).

    The parameters are ``weight``, of shape (out_channels, kernel_size, in_channels / groups), and
    ``bias``, of shape (out_channels,).

    Parameters
    ----------
    in_channels, out_channels : int
        The number of channels before and after.
    kernel_size : int
        The length of the kernel.
    stride, padding, dilation, groups : int, optional
        As for :func:`mlx.core.conv1d`.
    bias : bool, optional
        Whether there is a bias. Default: ``True``.

    Raises
    ------
    ValueError
        If ``groups`` does not divide ``in_channels``.

    Examples
    --------
    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.Conv1d(3, 8, 5)(mx.zeros((1, 10, 3))).shape
    (1, 6, 8)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.weight = conv_weight(out_channels, (kernel_size,), in_channels, groups)
        if bias:
            self.bias = mx.zeros((out_channels,))
        self.padding = padding
        self.dilation = dilation
        self.stride = stride
        self.groups = groups

    def _extra_repr(self) -> str:
        out_channels, kernel_size, in_channels = self.weight.shape
        return (
            f"{in_channels * self.groups}, {out_channels}, kernel_size={kernel_size}, "
            f"stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"groups={self.groups}, bias={'bias' in self}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.conv1d(x, self.weight, self.stride, self.padding, self.dilation, self.groups)
        return y + self.bias if "bias" in self else y


class Conv2d(Module):
    """Convolves images, (N, H, W, in_channels) to (N, H', W', out_channels).

    The parameters are ``weight``, of shape (out_channels, KH, KW, in_channels / groups), and
    ``bias``, of shape (out_channels,).

    Parameters
    ----------
    in_channels, out_channels : int
        The number of channels before and after.
    kernel_size : int or tuple of int
        The extent of the kernel.
    stride, padding, dilation : int or tuple of int, optional
        As for :func:`mlx.core.conv2d`.
    groups : int, optional
        The number of groups of channels. Default: ``1``.
    bias : bool, optional
        Whether there is a bias. Default: ``True``.

    Raises
    ------
    ValueError
        If ``groups`` does not divide ``in_channels``.

    Examples
    --------
    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.Conv2d(3, 8, 5, padding=2)(mx.zeros((1, 10, 10, 3))).shape
    (1, 10, 10, 8)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.weight = conv_weight(out_channels, spread(kernel_size, 2), in_channels, groups)
        if bias:
            self.bias = mx.zeros((out_channels,))
        self.stride = spread(stride, 2)
        self.padding = spread(padding, 2)
        self.dilation = dilation
        self.groups = groups

    def _extra_repr(self) -> str:
        return (
            f"{self.weight.shape[-1] * self.groups}, {self.weight.shape[0]}, "
            f"kernel_size={self.weight.shape[1:-1]}, stride={self.stride}, "
            f"padding={self.padding}, dilation={self.dilation}, "
            f"groups={self.groups}, bias={'bias' in self}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.conv2d(x, self.weight, self.stride, self.padding, self.dilation, self.groups)
        return y + self.bias if "bias" in self else y


class Conv3d(Module):
    """Convolves volumes, (N, D, H, W, in_channels) to (N, D', H', W', out_channels).

    The parameters are ``weight``, of shape (out_channels, KD, KH, KW, in_channels), and ``bias``,
    of shape (out_channels,).

    Parameters
    ----------
    in_channels, out_channels : int
        The number of channels before and after.
    kernel_size : int or tuple of int
        The extent of the kernel.
    stride, padding, dilation : int or tuple of int, optional
        As for :func:`mlx.core.conv3d`.
    bias : bool, optional
        Whether there is a bias. Default: ``True``.

    Examples
    --------
    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.Conv3d(3, 8, 2)(mx.zeros((1, 4, 4, 4, 3))).shape
    (1, 3, 3, 3, 8)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.weight = conv_weight(out_channels, spread(kernel_size, 3), in_channels)
        if bias:
            self.bias = mx.zeros((out_channels,))
        self.stride = spread(stride, 3)
        self.padding = spread(padding, 3)
        self.dilation = dilation

    def _extra_repr(self) -> str:
        return (
            f"{self.weight.shape[-1]}, {self.weight.shape[0]}, "
            f"kernel_size={self.weight.shape[1:-1]}, stride={self.stride}, "
            f"padding={self.padding}, dilation={self.dilation}, bias={'bias' in self}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.conv3d(x, self.weight, self.stride, self.padding, self.dilation)
        return y + self.bias if "bias" in self else y
