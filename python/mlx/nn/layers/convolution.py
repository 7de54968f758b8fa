"""Convolution layers; inputs are (batch, spatial axes ..., channels).

Weights are uniform within one over the root of the number of inputs of an output; biases start at
zero.
"""

import math

import mlx.core as mx
from mlx.nn.layers.base import Module


def spread(value: int | tuple[int, ...], count: int) -> tuple[int, ...]:
    """One number as many; anything else as it is.

    Args:
        value (int | tuple of int): The number, or one for each axis.
        count (int): The number of axes.

    Returns:
        tuple of int: One number for each axis.
    """
    return (value,) * count if isinstance(value, int) else value


def conv_weight(
    out_channels: int, kernel: tuple[int, ...], in_channels: int, groups: int = 1
) -> mx.array:
    """The first weight of a convolution, uniform within one over the root of its fan-in.

    Args:
        out_channels (int): The number of outputs.
        kernel (tuple of int): The extent of the kernel.
        in_channels (int): The number of inputs.
        groups (int, optional): Parts of the channels that are convolved separately. Default: ``1``.

    Returns:
        array: (out_channels, kernel ..., in_channels / groups).

    Raises:
        ValueError: if ``groups`` does not divide ``in_channels``.
    """
    if groups < 1 or in_channels % groups != 0:
        raise ValueError(
            f"[conv] The number of input channels ({in_channels}) must be divisible by the number "
            f"of groups ({groups})"
        )
    shape = (out_channels, *kernel, in_channels // groups)
    scale = math.sqrt(1 / math.prod(shape[1:]))
    return mx.random.uniform(low=-scale, high=scale, shape=shape)


class Conv1d(Module):
    r"""Convolves sequences: :func:`mlx.core.conv1d` with a trained weight and bias.

    Inputs are (N, L, in_channels) and outputs (N, L', out_channels). The parameters are ``weight``,
    of shape (out_channels, kernel_size, in_channels / groups), drawn uniformly within :math:`\pm 1
    / \sqrt{n}` for the :math:`n` inputs of an output, and ``bias``, of shape (out_channels,), zeros
    at first. An axis of length L becomes ``(L + 2 * padding - dilation * (kernel_size - 1) - 1) //
    stride + 1`` long.

    Args:
        in_channels (int): The number of channels of inputs.
        out_channels (int): The number of channels of outputs.
        kernel_size (int): The extent of the kernel.
        stride (int, optional): The distance of neighbouring outputs in the input. Default: ``1``.
        padding (int, optional): Zeros at both ends of the axes. Default: ``0``.
        dilation (int, optional): The distance of neighbouring elements of the kernel in the input.
            Default: ``1``.
        groups (int, optional): Parts of the channels that are convolved separately. Default: ``1``.
        bias (bool, optional): Whether there is a bias. Default: ``True``.

    Raises:
        ValueError: if ``groups`` does not divide ``in_channels``, or when called, if a shape does
            not fit.

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
    r"""Convolves images: :func:`mlx.core.conv2d` with a trained weight and bias.

    Inputs are (N, H, W, in_channels) and outputs (N, H', W', out_channels). The parameters are
    ``weight``, of shape (out_channels, KH, KW, in_channels / groups), drawn uniformly within
    :math:`\pm 1 / \sqrt{n}` for the :math:`n` inputs of an output, and ``bias``, of shape
    (out_channels,), zeros at first. An axis of length L becomes ``(L + 2 * padding - dilation *
    (kernel_size - 1) - 1) // stride + 1`` long.

    Args:
        in_channels (int): The number of channels of inputs.
        out_channels (int): The number of channels of outputs.
        kernel_size (int | tuple of int): The extent of the kernel.
        stride (int | tuple of int, optional): The distance of neighbouring outputs in the input.
            Default: ``1``.
        padding (int | tuple of int, optional): Zeros at both ends of the axes. Default: ``0``.
        dilation (int | tuple of int, optional): The distance of neighbouring elements of the kernel
            in the input. Default: ``1``.
        groups (int, optional): Parts of the channels that are convolved separately. Default: ``1``.
        bias (bool, optional): Whether there is a bias. Default: ``True``.

    Raises:
        ValueError: if ``groups`` does not divide ``in_channels``, or when called, if a shape does
            not fit.

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
    r"""Convolves volumes: :func:`mlx.core.conv3d` with a trained weight and bias.

    Inputs are (N, D, H, W, in_channels) and outputs (N, D', H', W', out_channels). The parameters
    are ``weight``, of shape (out_channels, KD, KH, KW, in_channels), drawn uniformly within
    :math:`\pm 1 / \sqrt{n}` for the :math:`n` inputs of an output, and ``bias``, of shape
    (out_channels,), zeros at first. An axis of length L becomes ``(L + 2 * padding - dilation *
    (kernel_size - 1) - 1) // stride + 1`` long.

    Args:
        in_channels (int): The number of channels of inputs.
        out_channels (int): The number of channels of outputs.
        kernel_size (int | tuple of int): The extent of the kernel.
        stride (int | tuple of int, optional): The distance of neighbouring outputs in the input.
            Default: ``1``.
        padding (int | tuple of int, optional): Zeros at both ends of the axes. Default: ``0``.
        dilation (int | tuple of int, optional): The distance of neighbouring elements of the kernel
            in the input. Default: ``1``.
        bias (bool, optional): Whether there is a bias. Default: ``True``.

    Raises:
        ValueError: when called, if a shape does not fit.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.Conv3d(3, 8, 3)(mx.zeros((1, 4, 4, 4, 3))).shape
    (1, 2, 2, 2, 8)
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
