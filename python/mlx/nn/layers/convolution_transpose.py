"""Transposed convolution layers; inputs are (batch, spatial axes ..., channels)."""

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.convolution import conv_weight, spread


class ConvTranspose1d(Module):
    r"""The transpose of a convolution of sequences: it enlarges where :class:`Conv1d` reduces.

    Inputs are (N, L, in_channels) and outputs (N, L', out_channels). The parameters are ``weight``,
    of shape (out_channels, kernel_size, in_channels), drawn uniformly within :math:`\pm 1 /
    \sqrt{n}` for the :math:`n` elements of an output's kernel, and ``bias``, of shape
    (out_channels,), zeros at first. An axis of length L becomes ``(L - 1) * stride - 2 * padding +
    dilation * (kernel_size - 1) + output_padding + 1`` long.

    Args:
        in_channels (int): The number of channels of inputs.
        out_channels (int): The number of channels of outputs.
        kernel_size (int): The extent of the kernel.
        stride (int, optional): The distance of neighbouring inputs in the output. Default: ``1``.
        padding (int, optional): What is cropped from both ends of the axes of the output. Default:
            ``0``.
        dilation (int, optional): The distance of neighbouring elements of the kernel in the output.
            Default: ``1``.
        output_padding (int, optional): What is added at the end of the axes of the output. Default:
            ``0``.
        bias (bool, optional): Whether there is a bias. Default: ``True``.

    Raises:
        ValueError: when called, if a shape does not fit.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.ConvTranspose1d(3, 8, 5)(mx.zeros((1, 6, 3))).shape
    (1, 10, 8)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        output_padding: int = 0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.weight = conv_weight(out_channels, (kernel_size,), in_channels)
        if bias:
            self.bias = mx.zeros((out_channels,))
        self.padding = padding
        self.dilation = dilation
        self.stride = stride
        self.output_padding = output_padding

    def _extra_repr(self) -> str:
        out_channels, kernel_size, in_channels = self.weight.shape
        return (
            f"{in_channels}, {out_channels}, kernel_size={kernel_size}, "
            f"stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"output_padding={self.output_padding}, bias={'bias' in self}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.conv_transpose1d(
            x, self.weight, self.stride, self.padding, self.dilation, self.output_padding
        )
        return y + self.bias if "bias" in self else y


class _ConvTransposeNd(Module):
    """What the layers of two and three spatial axes share."""

    def _create(
        self,
        axes: int,
        channels: tuple[int, int],
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...],
        padding: int | tuple[int, ...],
        dilation: int | tuple[int, ...],
        output_padding: int | tuple[int, ...],
        bias: bool,
    ) -> None:
        in_channels, out_channels = channels
        self.weight = conv_weight(out_channels, spread(kernel_size, axes), in_channels)
        if bias:
            self.bias = mx.zeros((out_channels,))
        self.stride = spread(stride, axes)
        self.padding = spread(padding, axes)
        self.dilation = dilation
        self.output_padding = spread(output_padding, axes)

    def _extra_repr(self) -> str:
        return (
            f"{self.weight.shape[-1]}, {self.weight.shape[0]}, "
            f"kernel_size={self.weight.shape[1:-1]}, stride={self.stride}, "
            f"padding={self.padding}, dilation={self.dilation}, "
            f"output_padding={self.output_padding}, bias={'bias' in self}"
        )


class ConvTranspose2d(_ConvTransposeNd):
    r"""The transpose of a convolution of images: it enlarges where :class:`Conv2d` reduces.

    Inputs are (N, H, W, in_channels) and outputs (N, H', W', out_channels). The parameters are
    ``weight``, of shape (out_channels, KH, KW, in_channels), drawn uniformly within :math:`\pm 1 /
    \sqrt{n}` for the :math:`n` elements of an output's kernel, and ``bias``, of shape
    (out_channels,), zeros at first. An axis of length L becomes ``(L - 1) * stride - 2 * padding +
    dilation * (kernel_size - 1) + output_padding + 1`` long.

    Args:
        in_channels (int): The number of channels of inputs.
        out_channels (int): The number of channels of outputs.
        kernel_size (int | tuple of int): The extent of the kernel.
        stride (int | tuple of int, optional): The distance of neighbouring inputs in the output.
            Default: ``1``.
        padding (int | tuple of int, optional): What is cropped from both ends of the axes of the
            output. Default: ``0``.
        dilation (int | tuple of int, optional): The distance of neighbouring elements of the kernel
            in the output. Default: ``1``.
        output_padding (int | tuple of int, optional): What is added at the end of the axes of the
            output. Default: ``0``.
        bias (bool, optional): Whether there is a bias. Default: ``True``.

    Raises:
        ValueError: when called, if a shape does not fit.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.ConvTranspose2d(3, 8, 2, stride=2)(mx.zeros((1, 4, 4, 3))).shape
    (1, 8, 8, 8)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        output_padding: int | tuple[int, ...] = 0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        channels = in_channels, out_channels
        self._create(2, channels, kernel_size, stride, padding, dilation, output_padding, bias)

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.conv_transpose2d(
            x, self.weight, self.stride, self.padding, self.dilation, self.output_padding
        )
        return y + self.bias if "bias" in self else y


class ConvTranspose3d(_ConvTransposeNd):
    r"""The transpose of a convolution of volumes: it enlarges where :class:`Conv3d` reduces.

    Inputs are (N, D, H, W, in_channels) and outputs (N, D', H', W', out_channels). The parameters
    are ``weight``, of shape (out_channels, KD, KH, KW, in_channels), drawn uniformly within
    :math:`\pm 1 / \sqrt{n}` for the :math:`n` elements of an output's kernel, and ``bias``, of
    shape (out_channels,), zeros at first. An axis of length L becomes ``(L - 1) * stride - 2 *
    padding + dilation * (kernel_size - 1) + output_padding + 1`` long.

    Args:
        in_channels (int): The number of channels of inputs.
        out_channels (int): The number of channels of outputs.
        kernel_size (int | tuple of int): The extent of the kernel.
        stride (int | tuple of int, optional): The distance of neighbouring inputs in the output.
            Default: ``1``.
        padding (int | tuple of int, optional): What is cropped from both ends of the axes of the
            output. Default: ``0``.
        dilation (int | tuple of int, optional): The distance of neighbouring elements of the kernel
            in the output. Default: ``1``.
        output_padding (int | tuple of int, optional): What is added at the end of the axes of the
            output. Default: ``0``.
        bias (bool, optional): Whether there is a bias. Default: ``True``.

    Raises:
        ValueError: when called, if a shape does not fit.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.ConvTranspose3d(3, 8, 2, stride=2)(mx.zeros((1, 2, 2, 2, 3))).shape
    (1, 4, 4, 4, 8)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        output_padding: int | tuple[int, ...] = 0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        channels = in_channels, out_channels
        self._create(3, channels, kernel_size, stride, padding, dilation, output_padding, bias)

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.conv_transpose3d(
            x, self.weight, self.stride, self.padding, self.dilation, self.output_padding
        )
        return y + self.bias if "bias" in self else y
