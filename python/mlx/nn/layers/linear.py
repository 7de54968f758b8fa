"""Layers that are linear in their inputs."""

import math
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.quantized import QQLinear, QuantizedLinear


class Identity(Module):
    """Returns its input, whatever it is.

    A place holder where a layer is expected. It has no parameters, and all arguments of the
    constructor are ignored.

    Args:
        args (Any): Ignored.
        kwargs (Any): Ignored.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.Identity("anything")(mx.array([1, 2]))
    array([1, 2], dtype=int32)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def __call__(self, x: mx.array) -> mx.array:
        return x


class Linear(Module):
    r"""An affine function of the last axis, :math:`y = x W^T + b`.

    Inputs are (..., input_dims) and outputs (..., output_dims). The parameters are ``weight``, of
    shape (output_dims, input_dims), and ``bias``, of shape (output_dims,), both drawn uniformly
    within :math:`\pm 1 / \sqrt{\text{input\_dims}}`.

    Args:
        input_dims (int): Size of the last axis of inputs.
        output_dims (int): Size of the last axis of outputs.
        bias (bool, optional): Whether there is a bias. Default: ``True``.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.Linear(4, 2)(mx.zeros((3, 4))).shape
    (3, 2)
    """

    def __init__(self, input_dims: int, output_dims: int, bias: bool = True) -> None:
        super().__init__()
        scale = math.sqrt(1.0 / input_dims)
        self.weight = mx.random.uniform(low=-scale, high=scale, shape=(output_dims, input_dims))
        if bias:
            self.bias = mx.random.uniform(low=-scale, high=scale, shape=(output_dims,))

    def _extra_repr(self) -> str:
        output_dims, input_dims = self.weight.shape
        return f"input_dims={input_dims}, output_dims={output_dims}, bias={'bias' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        """``x`` (..., input_dims) to (..., output_dims)."""
        if "bias" in self:
            return mx.addmm(self["bias"], x, self["weight"].T)
        return x @ self["weight"].T

    def to_quantized(
        self,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
        quantize_input: bool = False,
    ) -> QuantizedLinear | QQLinear:
        """The same layer with quantised weights.

        Args:
            group_size (int, optional): Elements that share a scale, as :func:`mlx.core.quantize`
                has it. Default: that of the mode.
            bits (int, optional): Bits of an element. Default: those of the mode.
            mode (str, optional): ``"affine"``, ``"mxfp4"``, ``"mxfp8"`` or ``"nvfp4"``. Default:
                ``"affine"``.
            quantize_input (bool, optional): Whether the input is quantised too, for the modes
                ``"nvfp4"`` and ``"mxfp8"``. Default: ``False``.

        Returns:
            QuantizedLinear | QQLinear: The new layer.

        Raises:
            ValueError: if ``quantize_input`` is asked for with another mode, or the weights do not
                divide into groups.
            NotImplementedError: if ``quantize_input`` is asked for and there is a bias.

        >>> import mlx.nn as nn
        >>> nn.Linear(64, 2).to_quantized(bits=8).bits
        8
        """
        if quantize_input:
            if mode not in ("nvfp4", "mxfp8"):
                raise ValueError(
                    "[Linear] quantize_input is only supported for the modes 'nvfp4' and 'mxfp8', "
                    f"got {mode}"
                )
            return QQLinear.from_linear(self, group_size, bits, mode)
        return QuantizedLinear.from_linear(self, group_size, bits, mode)


class Bilinear(Module):
    r"""A function linear in each of two inputs, :math:`y_o = x_1^T W_o x_2 + b_o`.

    Inputs are (..., input1_dims) and (..., input2_dims), outputs (..., output_dims). The parameters
    are ``weight``, of shape (output_dims, input2_dims, input1_dims), and ``bias``, of shape
    (output_dims,), both drawn uniformly within :math:`\pm 1 / \sqrt{\text{input1\_dims}}`.

    Args:
        input1_dims (int): Size of the last axis of the first input.
        input2_dims (int): Size of the last axis of the second input.
        output_dims (int): Size of the last axis of outputs.
        bias (bool, optional): Whether there is a bias. Default: ``True``.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.Bilinear(4, 5, 2)(mx.zeros((3, 4)), mx.zeros((3, 5))).shape
    (3, 2)
    """

    def __init__(
        self, input1_dims: int, input2_dims: int, output_dims: int, bias: bool = True
    ) -> None:
        super().__init__()
        scale = math.sqrt(1.0 / input1_dims)
        shape = (output_dims, input2_dims, input1_dims)
        self.weight = mx.random.uniform(low=-scale, high=scale, shape=shape)
        if bias:
            self.bias = mx.random.uniform(low=-scale, high=scale, shape=(output_dims,))

    def _extra_repr(self) -> str:
        output_dims, input2_dims, input1_dims = self.weight.shape
        return (
            f"input1_dims={input1_dims}, input2_dims={input2_dims}, output_dims={output_dims}, "
            f"bias={'bias' in self}"
        )

    def __call__(self, x1: mx.array, x2: mx.array) -> mx.array:
        """``x1`` (..., input1_dims) and ``x2`` (..., input2_dims) to (..., output_dims)."""
        output_dims, input2_dims, input1_dims = self.weight.shape
        batch = x1.shape[:-1]
        x1 = x1.reshape(-1, input1_dims)
        x2 = x2.reshape(-1, 1, input2_dims)
        partial = x1 @ self.weight.reshape(output_dims * input2_dims, input1_dims).T
        partial = partial.reshape(-1, output_dims, input2_dims).swapaxes(-2, -1)
        y = (x2 @ partial).reshape(*batch, output_dims)
        return y + self.bias if "bias" in self else y
