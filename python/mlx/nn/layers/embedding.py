"""Embeddings: rows of a table chosen by integer tokens."""

import math

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.quantized import QuantizedEmbedding


class Embedding(Module):
    """A table that maps integer tokens to vectors.

    The parameter ``weight`` has the shape (num_embeddings, dims) and is drawn from a normal
    distribution of variance ``1 / dims``.

    Parameters
    ----------
    num_embeddings : int
        The number of tokens.
    dims : int
        The size of a vector.

    Examples
    --------
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
        """Use the table as a linear layer without bias: (..., dims) to (..., num_embeddings)."""
        return x @ self.weight.T

    def to_quantized(
        self,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
        quantize_input: bool = False,
    ) -> QuantizedEmbedding:
        """The same layer with quantised weights.

        Parameters
        ----------
        group_size, bits, mode
            As for :func:`mlx.core.quantize`.
        quantize_input : bool, optional
            Must be ``False``: there is no input to quantise.

        Raises
        ------
        ValueError
            If ``quantize_input`` is set.
        """
        if quantize_input:
            raise ValueError("[Embedding] quantize_input is not supported for embeddings")
        return QuantizedEmbedding.from_embedding(self, group_size, bits, mode)
