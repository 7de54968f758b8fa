"""Encodings of the position in a sequence."""

import math

import mlx.core as mx
from mlx.nn.layers.base import Module


class RoPE(Module):
    """Rotates pairs of features by angles that grow with the position.

    Su et al. 2021, arXiv 2104.09864. The position is the index in the axis before the last.

    Args:
        dims (int): How many features are rotated; the others stay.
        traditional (bool, optional): Whether pairs are neighbours, as in the paper; else a feature
            is paired with the one ``dims / 2`` further. Default: ``False``.
        base (float, optional): The base of the frequencies. Default: ``10000``.
        scale (float, optional): A factor on the positions. Default: ``1.0``.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.RoPE(4)(mx.ones((1, 2, 3, 8)), offset=5).shape
    (1, 2, 3, 8)
    """

    def __init__(
        self, dims: int, traditional: bool = False, base: float = 10000, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.dims = dims
        self.traditional = traditional
        self.base = base
        self.scale = scale

    def _extra_repr(self) -> str:
        return f"{self.dims}, traditional={self.traditional}"

    def __call__(self, x: mx.array, offset: int = 0) -> mx.array:
        """``x`` (..., sequence, features); ``offset``, also as an array, is its first position."""
        return mx.fast.rope(
            x,
            self.dims,
            traditional=self.traditional,
            base=self.base,
            scale=self.scale,
            offset=offset,
        )


class SinusoidalPositionalEncoding(Module):
    """Sines and cosines of a position at frequencies in geometric progression.

    Vaswani et al. 2017, arXiv 1706.03762, section 3.5.

    Args:
        dims (int): The number of features, even and positive.
        min_freq, max_freq (float, optional): The lowest and the highest frequency. Default:
            ``0.0001`` and ``1``.
        scale (float, optional): A factor on the features. Default: :math:`\\sqrt{2 /
            \\text{dims}}`, which makes vectors of length one.
        cos_first (bool, optional): Whether the cosines come first. Default: ``False``.
        full_turns (bool, optional): Whether a frequency counts turns, not radians. Default:
            ``False``.

    Raises:
        ValueError: if ``dims`` is odd or not positive.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.SinusoidalPositionalEncoding(6)(mx.arange(4)).shape
    (4, 6)
    """

    def __init__(
        self,
        dims: int,
        min_freq: float = 0.0001,
        max_freq: float = 1,
        scale: float | None = None,
        cos_first: bool = False,
        full_turns: bool = False,
    ) -> None:
        super().__init__()
        if dims <= 0 or dims % 2 != 0:
            raise ValueError(
                f"[SinusoidalPositionalEncoding] dims must be positive and even but got {dims}."
            )
        half = dims // 2
        downwards = 1 - mx.arange(half) / max(half - 1, 1)
        low, high = math.log(min_freq), math.log(max_freq)
        # The leading underscore keeps the frequencies out of the parameters.
        self._sigmas = mx.exp(downwards * (high - low) + low)
        if full_turns:
            self._sigmas = self._sigmas * (2 * math.pi)
        self.scale = math.sqrt(2 / dims) if scale is None else scale
        self.cos_first = cos_first

    def __call__(self, x: mx.array) -> mx.array:
        """Positions ``x`` of any shape, to which ``dims`` is added."""
        angles = x[..., None] * self._sigmas
        parts = [mx.sin(angles), mx.cos(angles)]
        y = mx.concatenate(parts[::-1] if self.cos_first else parts, axis=-1)
        return y if self.scale == 1 else y * self.scale


class ALiBi(Module):
    """Adds to attention scores a penalty that grows linearly with the distance.

    The scores of a head (N, heads, queries, keys) are lowered by its slope times the distance of
    query and key, in place of position embeddings; a call also takes the position of the first
    query, ``offset``, and a mask to add. There are no parameters. Press et al. 2021, "Train Short,
    Test Long: Attention with Linear Biases" (arXiv 2108.12409).

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.ALiBi()(mx.zeros((1, 2, 1, 3)))[0, 0]
    array([[0, -0.0625, -0.125]], dtype=float32)
    """

    @staticmethod
    def create_alibi_matrix(
        q_sequence_length: int,
        k_sequence_length: int,
        num_heads: int,
        offset: int = 0,
        dtype: mx.Dtype = mx.float32,
    ) -> mx.array:
        """The penalties of the queries from ``offset`` up to ``q_sequence_length``.

        Args:
            q_sequence_length (int): The position behind the last query.
            k_sequence_length (int): The number of keys.
            num_heads (int): The number of heads.
            offset (int, optional): The position of the first query. Default: ``0``.
            dtype (Dtype, optional): Dtype of the penalties. Default: ``float32``.

        Returns:
            array: (1, num_heads, q_sequence_length - offset, k_sequence_length).

        >>> import mlx.nn as nn
        >>> nn.ALiBi.create_alibi_matrix(3, 3, 2, offset=2).shape
        (1, 2, 1, 3)
        """
        queries = mx.arange(offset, q_sequence_length)
        keys = mx.arange(0, k_sequence_length)
        nearness = -mx.abs(queries[:, None] - keys[None])[None, None]
        return (nearness * ALiBi.create_alibi_slope(num_heads, dtype)).astype(dtype)

    @staticmethod
    def create_alibi_slope(num_heads: int, dtype: mx.Dtype = mx.float32) -> mx.array:
        """The slopes of the heads.

        A geometric sequence for a power of two; else that of the power below, filled up with every
        other slope of the power above.

        Args:
            num_heads (int): The number of heads.
            dtype (Dtype, optional): Dtype of the slopes. Default: ``float32``.

        Returns:
            array: (num_heads, 1, 1).

        >>> import mlx.nn as nn
        >>> nn.ALiBi.create_alibi_slope(2).tolist()
        [[[0.0625]], [[0.00390625]]]
        """
        below = 1 << int(math.log2(num_heads))
        slopes = [2.0 ** (-8 * i / below) for i in range(1, below + 1)]
        slopes += [2.0 ** (-4 * i / below) for i in range(1, 2 * (num_heads - below), 2)]
        return mx.array(slopes, dtype=dtype)[:, None, None]

    def __call__(
        self, attention_scores: mx.array, offset: int = 0, mask: mx.array | None = None
    ) -> mx.array:
        """Scores (N, heads, queries, keys); the first query is at position ``offset``."""
        bias = ALiBi.create_alibi_matrix(
            q_sequence_length=attention_scores.shape[-2] + offset,
            k_sequence_length=attention_scores.shape[-1],
            num_heads=attention_scores.shape[1],
            offset=offset,
            dtype=attention_scores.dtype,
        )
        if mask is not None:
            bias = bias + mask
        return attention_scores + bias
