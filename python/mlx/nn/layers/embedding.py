"""Embeddings: rows of a table chosen by integer tokens."""

import math

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.quantized import QuantizedEmbedding


class Embedding(Module):
    """A table that maps integer tokens to vectors.

    Inputs are tokens of any shape, outputs have that shape and the axis ``dims`` behind it. The
    parameter ``weight``, of shape (num_embeddings, dims), is drawn from a normal distribution of
    mean 0 and variance ``1 / dims``.

    Args:
        num_embeddings (int): The number of tokens.
        dims (int): The size of a vector.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.Embedding(10, 4)(mx.array([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def __init__(self, num_embeddings: int, dims: int) -> None:
        super().__init__()
        self.weight = mx.random.normal(shape=(num_embeddings, dims), scale=math.sqrt(1 / dims))

    def _extra_repr(self) -> str:
        return ", ".join(str(n) for n in self.weight.shape)

    def __call__(self, x: mx.array) -> mx.array:
        """The vectors of the tokens ``x``: integers of any shape, to which ``dims`` is added."""
        return self.weight[x]

    def as_linear(self, x: mx.array) -> mx.array:
        """Use the table as a linear layer without bias: the scores of all tokens for vectors.

        Language models whose input and output share their weights end with it.

        Args:
            x (array): Vectors, (..., dims).

        Returns:
            array: Scores, (..., num_embeddings).

        >>> import mlx.core as mx, mlx.nn as nn
        >>> nn.Embedding(10, 4).as_linear(mx.zeros((3, 4))).shape
        (3, 10)
        """
        return x @ self.weight.T

    def to_quantized(
        self,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
        quantize_input: bool = False,
    ) -> QuantizedEmbedding:
        """The same layer with a quantised table.

        Args:
            group_size (int, optional): Elements that share a scale, as :func:`mlx.core.quantize`
                has it. Default: that of the mode.
            bits (int, optional): Bits of an element. Default: those of the mode.
            mode (str, optional): ``"affine"``, ``"mxfp4"``, ``"mxfp8"`` or ``"nvfp4"``. Default:
                ``"affine"``.
            quantize_input (bool, optional): Must be ``False``: there is no input to quantise.
                Default: ``False``.

        Returns:
            QuantizedEmbedding: The new layer.

        Raises:
            ValueError: if ``quantize_input`` is set, or vectors do not divide into groups.

        >>> import mlx.nn as nn
        >>> nn.Embedding(10, 64).to_quantized().bits
        4
        """
        if quantize_input:
            raise ValueError("[Embedding] quantize_input is not supported for embeddings")
        return QuantizedEmbedding.from_embedding(self, group_size, bits, mode)
