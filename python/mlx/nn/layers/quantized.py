"""Layers with quantised weights, and the conversion of models to them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.utils import tree_map_with_path

if TYPE_CHECKING:
    from mlx.nn.layers.embedding import Embedding
    from mlx.nn.layers.linear import Linear

# Group size and bits that a mode implies.
_DEFAULTS = {"affine": (64, 4), "mxfp4": (32, 4), "nvfp4": (16, 4), "mxfp8": (32, 8)}


def quantization_defaults(
    mode: str, group_size: int | None = None, bits: int | None = None
) -> tuple[int, int]:
    """Group size and bits, where they are not given those that the mode implies.

    Args:
        mode (str): ``"affine"``, ``"mxfp4"``, ``"mxfp8"`` or ``"nvfp4"``.
        group_size (int, optional): Elements that share a scale. Default: that of the mode.
        bits (int, optional): Bits of an element. Default: those of the mode.

    Returns:
        tuple[int, int]: Both numbers.

    Raises:
        ValueError: if the mode is unknown.
    """
    if mode not in _DEFAULTS:
        raise ValueError(
            f"[quantize] Invalid quantization mode '{mode}'. "
            f"Valid modes are: {', '.join(_DEFAULTS)}."
        )
    default_size, default_bits = _DEFAULTS[mode]
    return (
        default_size if group_size is None else group_size,
        default_bits if bits is None else bits,
    )


def quantize(
    model: Module,
    group_size: int | None = None,
    bits: int | None = None,
    *,
    mode: str = "affine",
    quantize_input: bool = False,
    class_predicate: Callable[[str, Module], bool | dict[str, Any]] | None = None,
) -> None:
    """Replace layers of a model by quantised ones, in place.

    Args:
        model (Module): Its leaf modules that have a method ``to_quantized`` are replaced by what
            that returns.
        group_size (int, optional): Elements that share a scale, as :func:`mlx.core.quantize` has
            it. Default: that of the mode.
        bits (int, optional): Bits of an element. Default: those of the mode.
        mode (str, optional): ``"affine"``, ``"mxfp4"``, ``"mxfp8"`` or ``"nvfp4"``. Default:
            ``"affine"``.
        quantize_input (bool, optional): Whether linear layers quantise their inputs too
            (``"nvfp4"`` and ``"mxfp8"``). Default: ``False``.
        class_predicate (callable, optional): Called with the name and the module; says whether to
            replace it, or with which keyword arguments to call ``to_quantized``. Default: every
            module that has the method.

    Returns:
        None

    Raises:
        ValueError: if the predicate accepts a module without ``to_quantized`` or returns something
            else.

    >>> import mlx.nn as nn
    >>> model = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
    >>> nn.quantize(model, bits=8)
    >>> model.layers[0].bits
    8
    """
    general: dict[str, Any] = {"group_size": group_size, "bits": bits, "mode": mode}
    if quantize_input:
        general["quantize_input"] = True

    def convert(path: str, module: Any) -> Any:
        if class_predicate is None:
            wanted: Any = hasattr(module, "to_quantized")
        else:
            wanted = class_predicate(path, module)
        if not wanted:
            return module
        if not hasattr(module, "to_quantized"):
            raise ValueError(
                f"[quantize] Unable to quantize model of type {type(module)} at '{path}'"
            )
        if isinstance(wanted, bool):
            return module.to_quantized(**general)
        if isinstance(wanted, dict):
            return module.to_quantized(**wanted)
        raise ValueError(
            "[quantize] class_predicate must return a bool or a dict of parameters to pass to "
            f"to_quantized, got {type(wanted).__name__}"
        )

    leaves = tree_map_with_path(convert, model.leaf_modules(), is_leaf=Module.is_module)
    model.update_modules(leaves)


class _Quantized(Module):
    """A frozen weight in groups: `weight`, `scales` and, in the affine mode, `biases`."""

    def _store(self, weight: mx.array, group_size: int | None, bits: int | None, mode: str) -> None:
        self.group_size, self.bits = quantization_defaults(mode, group_size, bits)
        self.mode = mode
        self.weight, self.scales, *biases = mx.quantize(
            weight, group_size=self.group_size, bits=self.bits, mode=mode
        )
        self.biases = biases[0] if biases else None

    def _width(self) -> int:
        """The size of the last axis of the weight before it was quantised."""
        return int(self.weight.shape[-1]) * 32 // self.bits

    def _scheme(self) -> str:
        return f"group_size={self.group_size}, bits={self.bits}, mode={self.mode}"


class QuantizedEmbedding(_Quantized):
    """An :class:`Embedding` with a quantised table.

    Inputs are tokens of any shape, outputs have that shape and the axis ``dims`` behind it. The
    parameters, which are frozen, are ``weight``, codes in uint32 of shape (num_embeddings, dims *
    bits / 32), ``scales`` and, in the affine mode, ``biases``, both of shape (num_embeddings, dims
    / group_size).

    Args:
        num_embeddings (int): The number of tokens.
        dims (int): The size of a vector, a multiple of the group size.
        group_size (int, optional): Elements that share a scale, as :func:`mlx.core.quantize` has
            it. Default: that of the mode.
        bits (int, optional): Bits of an element. Default: those of the mode.
        mode (str, optional): A mode of :func:`mlx.core.quantize`. Default: ``"affine"``.

    Raises:
        ValueError: if the numbers do not belong to the mode, or vectors do not divide into groups.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.QuantizedEmbedding(10, 64)(mx.array([[1, 2]])).shape
    (1, 2, 64)
    """

    def __init__(
        self,
        num_embeddings: int,
        dims: int,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ) -> None:
        super().__init__()
        weight = mx.random.normal(shape=(num_embeddings, dims), scale=math.sqrt(1 / dims))
        self._store(weight, group_size, bits, mode)
        self.num_embeddings = num_embeddings
        self.dims = dims
        self.freeze()

    def _extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.dims}, {self._scheme()}"

    def __call__(self, x: mx.array) -> mx.array:
        """The vectors of the tokens ``x``: integers of any shape, to which ``dims`` is added."""
        biases = self.get("biases")
        return mx.dequantize(
            self["weight"][x],
            scales=self["scales"][x],
            biases=None if biases is None else biases[x],
            group_size=self.group_size,
            bits=self.bits,
            mode=self.mode,
        )

    def as_linear(self, x: mx.array) -> mx.array:
        """Use the table as a linear layer without bias: the scores of all tokens for vectors.

        Args:
            x (array): Vectors, (..., dims).

        Returns:
            array: Scores, (..., num_embeddings).

        >>> import mlx.core as mx, mlx.nn as nn
        >>> nn.QuantizedEmbedding(10, 64).as_linear(mx.zeros((3, 64))).shape
        (3, 10)
        """
        return mx.quantized_matmul(
            x,
            self["weight"],
            self["scales"],
            self.get("biases"),
            True,
            self.group_size,
            self.bits,
            self.mode,
        )

    @classmethod
    def from_embedding(
        cls,
        embedding_layer: Embedding,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ) -> Self:
        """Quantise the table of an :class:`Embedding`.

        Args:
            embedding_layer (Embedding): The layer.
            group_size (int, optional): Elements that share a scale. Default: that of the mode.
            bits (int, optional): Bits of an element. Default: those of the mode.
            mode (str, optional): A mode of :func:`mlx.core.quantize`. Default: ``"affine"``.

        Returns:
            QuantizedEmbedding: The new layer.

        Raises:
            ValueError: if the numbers do not belong to the mode, or vectors do not divide into
                groups.

        >>> import mlx.nn as nn
        >>> nn.QuantizedEmbedding.from_embedding(nn.Embedding(10, 64), bits=8).bits
        8
        """
        num_embeddings, dims = embedding_layer.weight.shape
        layer = cls(num_embeddings, dims, group_size, bits, mode)
        layer._store(embedding_layer.weight, group_size, bits, mode)
        return layer


class QuantizedLinear(_Quantized):
    """A :class:`Linear` with a quantised weight.

    Inputs are (..., input_dims) and outputs (..., output_dims). The parameters, which are frozen,
    are ``weight``, codes in uint32 of shape (output_dims, input_dims * bits / 32), ``scales`` and,
    in the affine mode, ``biases``, both of shape (output_dims, input_dims / group_size), and,
    unless there is none, ``bias``, of shape (output_dims,).

    Args:
        input_dims (int): Size of the last axis of inputs, a multiple of the group size.
        output_dims (int): Size of the last axis of outputs.
        bias (bool, optional): Whether there is a bias. Default: ``True``.
        group_size (int, optional): Elements that share a scale, as :func:`mlx.core.quantize` has
            it. Default: that of the mode.
        bits (int, optional): Bits of an element. Default: those of the mode.
        mode (str, optional): A mode of :func:`mlx.core.quantize`. Default: ``"affine"``.

    Raises:
        ValueError: if the numbers do not belong to the mode, or inputs do not divide into groups.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.QuantizedLinear(64, 2)(mx.zeros((3, 64))).shape
    (3, 2)
    """

    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        bias: bool = True,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ) -> None:
        super().__init__()
        scale = math.sqrt(1 / input_dims)
        weight = mx.random.uniform(low=-scale, high=scale, shape=(output_dims, input_dims))
        self._store(weight, group_size, bits, mode)
        if bias:
            self.bias = mx.zeros((output_dims,))
        self.freeze()

    def _extra_repr(self) -> str:
        return (
            f"input_dims={self._width()}, output_dims={self.weight.shape[0]}, "
            f"bias={'bias' in self}, {self._scheme()}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        """``x`` (..., input_dims) to (..., output_dims)."""
        # Written out here: a method in between would show in the time of a token, which passes
        # through every linear layer of a model.
        y = mx.quantized_matmul(
            x,
            self["weight"],
            self["scales"],
            self["biases"] if "biases" in self else None,
            True,
            self.group_size,
            self.bits,
            self.mode,
        )
        return y + self["bias"] if "bias" in self else y

    @classmethod
    def from_linear(
        cls,
        linear_layer: Linear,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ) -> Self:
        """Quantise the weight of a :class:`Linear`; its bias is taken as it is.

        Args:
            linear_layer (Linear): The layer.
            group_size (int, optional): Elements that share a scale. Default: that of the mode.
            bits (int, optional): Bits of an element. Default: those of the mode.
            mode (str, optional): A mode of :func:`mlx.core.quantize`. Default: ``"affine"``.

        Returns:
            QuantizedLinear: The new layer.

        Raises:
            ValueError: if the numbers do not belong to the mode, or inputs do not divide into
                groups.

        >>> import mlx.nn as nn
        >>> nn.QuantizedLinear.from_linear(nn.Linear(64, 2), bits=8).bits
        8
        """
        output_dims, input_dims = linear_layer.weight.shape
        layer = cls(input_dims, output_dims, False, group_size, bits, mode)
        layer._store(linear_layer.weight, group_size, bits, mode)
        if "bias" in linear_layer:
            layer.bias = linear_layer.bias
            layer.freeze(keys="bias", recurse=False)
        return layer


class QQLinear(Module):
    """A linear layer without bias whose input is quantised too: :func:`mlx.core.qqmm`.

    Inputs are (..., input_dims) and outputs (..., output_dims). In training the parameter
    ``weight`` is a plain matrix, of shape (output_dims, input_dims), drawn as that of
    :class:`Linear`; :meth:`eval` replaces it by its quantised form with ``scales``, and
    :meth:`train` goes back.

    Args:
        input_dims (int): Size of the last axis of inputs, a multiple of the group size.
        output_dims (int): Size of the last axis of outputs.
        group_size (int, optional): Elements that share a scale. Default: that of the mode.
        bits (int, optional): Bits of an element. Default: those of the mode.
        mode (str, optional): ``"nvfp4"`` or ``"mxfp8"``. Default: ``"nvfp4"``.

    Raises:
        ValueError: if the numbers do not belong to the mode.

    >>> import mlx.nn as nn
    >>> nn.QQLinear(64, 2).eval().weight.shape
    (2, 8)
    """

    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "nvfp4",
    ) -> None:
        super().__init__()
        self.group_size, self.bits = quantization_defaults(mode, group_size, bits)
        self.mode = mode
        scale = math.sqrt(1 / input_dims)
        self.weight = mx.random.uniform(low=-scale, high=scale, shape=(output_dims, input_dims))
        self._quantized = False

    def _extra_repr(self) -> str:
        output_dims, width = self.weight.shape
        if self._quantized:
            width = width * 32 // self.bits
        return (
            f"input_dims={width}, output_dims={output_dims}, "
            f"group_size={self.group_size}, bits={self.bits}, mode={self.mode}"
        )

    def quantize(self) -> None:
        """Replace the weight by its quantised form, if that is not done yet.

        It happens by itself when training mode is left, and is undone when that is entered.

        Returns:
            None

        >>> import mlx.nn as nn
        >>> layer = nn.QQLinear(64, 32).train()
        >>> layer.quantize()
        >>> layer.weight.dtype
        mlx.core.uint32
        """
        if not self._quantized:
            self.weight, self.scales, *_ = mx.quantize(
                self.weight, self.group_size, self.bits, mode=self.mode
            )
            self._quantized = True

    def dequantize(self) -> None:
        """Replace the quantised weight by a plain one, if there is one.

        What quantisation lost stays lost.

        Returns:
            None

        >>> import mlx.nn as nn
        >>> layer = nn.QQLinear(64, 32).eval()
        >>> layer.dequantize()
        >>> layer.weight.shape
        (32, 64)
        """
        if self._quantized:
            self.weight = mx.dequantize(
                self.weight,
                scales=self.scales,
                group_size=self.group_size,
                bits=self.bits,
                mode=self.mode,
            )
            del self.scales
            self._quantized = False

    def _set_training_mode(self, mode: bool) -> None:
        super()._set_training_mode(mode)
        if mode:
            self.dequantize()
        else:
            self.quantize()

    def __call__(self, x: mx.array) -> mx.array:
        """``x`` (..., input_dims) to (..., output_dims)."""
        return mx.qqmm(
            x,
            self["weight"],
            scales=self.get("scales"),
            group_size=self.group_size,
            bits=self.bits,
            mode=self.mode,
        )

    @classmethod
    def from_linear(
        cls,
        linear_layer: Linear,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "nvfp4",
    ) -> Self:
        """Take the weight of a :class:`Linear` without bias.

        Args:
            linear_layer (Linear): The layer.
            group_size (int, optional): Elements that share a scale. Default: that of the mode.
            bits (int, optional): Bits of an element. Default: those of the mode.
            mode (str, optional): ``"nvfp4"`` or ``"mxfp8"``. Default: ``"nvfp4"``.

        Returns:
            QQLinear: The new layer.

        Raises:
            NotImplementedError: if the layer has a bias.

        >>> import mlx.nn as nn
        >>> nn.QQLinear.from_linear(nn.Linear(64, 32, bias=False)).mode
        'nvfp4'
        """
        if "bias" in linear_layer:
            raise NotImplementedError("[QQLinear] a bias is not supported")
        output_dims, input_dims = linear_layer.weight.shape
        layer = cls(input_dims, output_dims, group_size, bits, mode)
        layer.weight = linear_layer.weight
        return layer.train(linear_layer.training)
