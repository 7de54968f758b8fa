"""Layers that are linear in their inputs."""

import math
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.quantized import QQLinear, QuantizedLinear


class Identity(Module):
    """Returns its input; all arguments of the constructor are ignored.

    Examples
    --------
    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.Identity("anything")(mx.array([1, 2]))
    array([1, 2], dtype=int32)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def __call__(self, x: mx.array) -> mx.array:
        return x


class Linear(Module):
    """An affine function of the last axis, :math:`y = x W^T + b`.

    The parameters are ``weight``, of shape (output_dims, input_dims), and ``bias``, of shape
    (output_dims,), both uniform within :math:`\\pm 1 / \\sqrt{\\text{input\\_dims}}`.

    Parameters
    ----------
    input_dims, output_dims : int
        Sizes of the last axis before and after.
    bias : bool, optional
        Whether there is a bias. Default: ``True``.

    Examples
    --------
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

        Parameters
        ----------
        group_size, bits, mode
            As for :func:`mlx.core.quantize`.
        quantize_input : bool, optional
            Whether the input is quantised too, for the modes ``"nvfp4"`` and ``"mxfp8"``.

        Raises
        ------
        ValueError
            If ``quantize_input`` is asked for with another mode.
        NotImplementedError
            If ``quantize_input`` is asked for and there is a bias.
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
    """A function linear in each of two inputs, :math:`y_o = x_1^T W_o x_2 + b_o`.

    The parameters are ``weight``, of shape (output_dims, input2_dims, input1_dims), and ``bias``,
    both uniform within :math:`\\pm 1 / \\sqrt{\\text{input1\\_dims}}`.

    Parameters
    ----------
    input1_dims, input2_dims, output_dims : int
        Sizes of the last axes of the two inputs and of the output.
    bias : bool, optional
        Whether there is a bias. Default: ``True``.

    Examples
    --------
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
