"""Multi-head attention and the transformer of Vaswani et al. 2017 (arXiv 1706.03762)."""

import math
from collections.abc import Callable
from typing import Any

import mlx.core as mx
from mlx.nn.layers.activations import relu
from mlx.nn.layers.base import Module
from mlx.nn.layers.dropout import Dropout
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.normalization import LayerNorm
from mlx.nn.utils import checkpoint

_checkpointed = checkpoint


class MultiHeadAttention(Module):
    """Scaled dot-product attention with several heads.

    Called with queries (N, L, query_input_dims), keys (N, S, key_input_dims), values (N, S,
    value_input_dims) and optionally a mask that broadcasts to (N, num_heads, L, S), it returns (N,
    L, value_output_dims). The parameters are those of the linear layers ``query_proj``,
    ``key_proj``, ``value_proj`` and ``out_proj``. Vaswani et al. 2017, "Attention Is All You Need"
    (arXiv 1706.03762).

    Args:
        dims (int): The features of all heads together for queries and keys.
        num_heads (int): The number of heads.
        query_input_dims (int, optional): The features of queries. Default: ``dims``.
        key_input_dims (int, optional): The features of keys. Default: ``dims``.
        value_input_dims (int, optional): The features of values. Default: that of the keys.
        value_dims (int, optional): The features of all heads together for values. Default:
            ``dims``.
        value_output_dims (int, optional): The features of the output. Default: ``dims``.
        bias (bool, optional): Whether the linear layers have a bias. Default: ``False``.

    Raises:
        ValueError: if ``num_heads`` does not divide ``dims`` or ``value_dims``.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> x = mx.zeros((2, 3, 8))
    >>> nn.MultiHeadAttention(8, 2)(x, x, x).shape
    (2, 3, 8)
    """

    def __init__(
        self,
        dims: int,
        num_heads: int,
        query_input_dims: int | None = None,
        key_input_dims: int | None = None,
        value_input_dims: int | None = None,
        value_dims: int | None = None,
        value_output_dims: int | None = None,
        bias: bool = False,
    ) -> None:
        super().__init__()
        if num_heads < 1 or dims % num_heads != 0:
            remainder = f" ({dims} % {num_heads}) != 0" if num_heads > 0 else f", got {num_heads}"
            raise ValueError(
                "[MultiHeadAttention] The input feature dimensions should be divisible by the "
                f"number of heads{remainder}"
            )
        query_input_dims = query_input_dims or dims
        key_input_dims = key_input_dims or dims
        value_input_dims = value_input_dims or key_input_dims
        value_dims = value_dims or dims
        value_output_dims = value_output_dims or dims
        if value_dims % num_heads != 0:
            raise ValueError(
                "[MultiHeadAttention] value_dims should be divisible by the number of heads "
                f"({value_dims} % {num_heads}) != 0"
            )
        self.num_heads = num_heads
        self.query_proj = Linear(query_input_dims, dims, bias=bias)
        self.key_proj = Linear(key_input_dims, dims, bias=bias)
        self.value_proj = Linear(value_input_dims, value_dims, bias=bias)
        self.out_proj = Linear(value_dims, value_output_dims, bias=bias)

    def _heads(self, x: mx.array) -> mx.array:
        return mx.unflatten(x, -1, (self.num_heads, -1)).transpose(0, 2, 1, 3)

    def __call__(
        self,
        queries: mx.array,
        keys: mx.array,
        values: mx.array,
        mask: mx.array | None = None,
    ) -> mx.array:
        """Attend.

        Args:
            queries (array): (N, L, query_input_dims).
            keys, values (array): (N, S, key_input_dims) and (N, S, value_input_dims).
            mask (array, optional): Booleans that say what is seen, or numbers that are added to
                the scores; broadcast to (N, num_heads, L, S).

        Returns:
            array: (N, L, value_output_dims).
        """
        q = self._heads(self.query_proj(queries))
        k = self._heads(self.key_proj(keys))
        v = self._heads(self.value_proj(values))
        scale = math.sqrt(1 / q.shape[-1])
        out = mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=mask)
        return self.out_proj(mx.flatten(out.transpose(0, 2, 1, 3), -2, -1))

    @staticmethod
    def create_additive_causal_mask(N: int, dtype: mx.Dtype = mx.float32) -> mx.array:
        """A mask to add to scores that takes keys behind their query out.

        For :func:`mlx.core.fast.scaled_dot_product_attention` the mask ``"causal"`` does the same
        without memory.

        Args:
            N (int): The number of queries and keys.
            dtype (Dtype, optional): A floating dtype of the mask. Default: ``float32``.

        Returns:
            array: (N, N): zeros on and below the diagonal, above it the lowest finite number of the
                dtype.

        >>> import mlx.nn as nn
        >>> (nn.MultiHeadAttention.create_additive_causal_mask(2) == 0).tolist()
        [[True, False], [True, True]]
        """
        positions = mx.arange(N)
        later = positions[:, None] < positions[None]
        return later.astype(dtype) * mx.finfo(dtype).min


class TransformerEncoderLayer(Module):
    """Self-attention and a network of two linear layers, each with a residual connection.

    Called with an input (N, L, dims) and a mask or None, it returns (N, L, dims). The parameters
    are those of ``attention``, ``ln1``, ``ln2``, ``linear1`` and ``linear2``. Vaswani et al. 2017,
    "Attention Is All You Need" (arXiv 1706.03762).

    Args:
        dims (int): The features.
        num_heads (int): The number of heads.
        mlp_dims (int, optional): The features between the two linear layers. Default: ``4 * dims``.
        dropout (float, optional): The probability of dropout. Default: ``0.0``.
        activation (callable, optional): The function between the two linear layers. Default:
            :func:`mlx.nn.relu`.
        norm_first (bool, optional): Whether to normalise before attention and network (Xiong et al.
            2020, arXiv 2002.04745), not after them. Default: ``True``.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.TransformerEncoderLayer(8, 2)(mx.zeros((2, 3, 8)), None).shape
    (2, 3, 8)
    """

    def __init__(
        self,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        norm_first: bool = True,
    ) -> None:
        super().__init__()
        mlp_dims = mlp_dims or dims * 4
        self.attention = MultiHeadAttention(dims, num_heads)
        self.ln1 = LayerNorm(dims)
        self.ln2 = LayerNorm(dims)
        self.linear1 = Linear(dims, mlp_dims)
        self.linear2 = Linear(mlp_dims, dims)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = activation
        self.norm_first = norm_first

    def _mlp(self, x: mx.array) -> mx.array:
        return self.linear2(self.dropout2(self.activation(self.linear1(x))))

    def __call__(self, x: mx.array, mask: mx.array | None) -> mx.array:
        """``x`` (N, L, dims); ``mask`` as for :class:`MultiHeadAttention`."""
        if self.norm_first:
            y = self.ln1(x)
            x = x + self.dropout1(self.attention(y, y, y, mask))
            return x + self._mlp(self.ln2(x))
        x = self.ln1(x + self.dropout1(self.attention(x, x, x, mask)))
        return self.ln2(x + self._mlp(x))


class TransformerEncoder(Module):
    """A stack of :class:`TransformerEncoderLayer` with a final :class:`LayerNorm`.

    Called with an input (N, L, dims) and a mask or None, it returns (N, L, dims). The parameters
    are those of the list ``layers`` and of ``ln``.

    Args:
        num_layers (int): The number of layers.
        dims (int): The features.
        num_heads (int): The number of heads.
        mlp_dims (int, optional): The features inside of the networks. Default: ``4 * dims``.
        dropout (float, optional): The probability of dropout. Default: ``0.0``.
        activation (callable, optional): The function inside of the networks. Default:
            :func:`mlx.nn.relu`.
        norm_first (bool, optional): Whether to normalise before attention and network. Default:
            ``True``.
        checkpoint (bool, optional): Whether the insides of the layers are computed again for the
            gradient, which saves memory. Default: ``False``.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.TransformerEncoder(2, 8, 2)(mx.zeros((2, 3, 8)), None).shape
    (2, 3, 8)
    """

    def __init__(
        self,
        num_layers: int,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        norm_first: bool = True,
        checkpoint: bool = False,
    ) -> None:
        super().__init__()
        self.layers = [
            TransformerEncoderLayer(dims, num_heads, mlp_dims, dropout, activation, norm_first)
            for _ in range(num_layers)
        ]
        self.ln = LayerNorm(dims)
        self.checkpoint = checkpoint

    def __call__(self, x: mx.array, mask: mx.array | None) -> mx.array:
        """``x`` (N, L, dims); ``mask`` as for :class:`MultiHeadAttention`."""
        for layer in self.layers:
            x = (_checkpointed(layer) if self.checkpoint else layer)(x, mask)
        return self.ln(x)


class TransformerDecoderLayer(Module):
    """Self-attention, attention to a memory and a network of two linear layers.

    Each has a residual connection. Called with an input (N, L, dims), a memory (N, S, dims) and a
    mask or None for both, it returns (N, L, dims). The parameters are those of ``self_attention``,
    ``cross_attention``, ``ln1``, ``ln2``, ``ln3``, ``linear1`` and ``linear2``.

    Args:
        dims (int): The features.
        num_heads (int): The number of heads.
        mlp_dims (int, optional): The features between the two linear layers. Default: ``4 * dims``.
        dropout (float, optional): The probability of dropout. Default: ``0.0``.
        activation (callable, optional): The function between the two linear layers. Default:
            :func:`mlx.nn.relu`.
        norm_first (bool, optional): Whether to normalise before attention and network. Default:
            ``True``.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> x = mx.zeros((2, 3, 8))
    >>> nn.TransformerDecoderLayer(8, 2)(x, x, None, None).shape
    (2, 3, 8)
    """

    def __init__(
        self,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        norm_first: bool = True,
    ) -> None:
        super().__init__()
        mlp_dims = mlp_dims or dims * 4
        self.self_attention = MultiHeadAttention(dims, num_heads)
        self.cross_attention = MultiHeadAttention(dims, num_heads)
        self.ln1 = LayerNorm(dims)
        self.ln2 = LayerNorm(dims)
        self.ln3 = LayerNorm(dims)
        self.linear1 = Linear(dims, mlp_dims)
        self.linear2 = Linear(mlp_dims, dims)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = activation
        self.norm_first = norm_first

    def _mlp(self, x: mx.array) -> mx.array:
        return self.linear2(self.dropout3(self.activation(self.linear1(x))))

    def __call__(
        self,
        x: mx.array,
        memory: mx.array,
        x_mask: mx.array | None,
        memory_mask: mx.array | None,
    ) -> mx.array:
        """``x`` (N, L, dims) and ``memory`` (N, S, dims) with their masks."""
        if self.norm_first:
            y = self.ln1(x)
            x = x + self.dropout1(self.self_attention(y, y, y, x_mask))
            y = self.ln2(x)
            x = x + self.dropout2(self.cross_attention(y, memory, memory, memory_mask))
            return x + self._mlp(self.ln3(x))
        x = self.ln1(x + self.dropout1(self.self_attention(x, x, x, x_mask)))
        y = self.cross_attention(x, memory, memory, memory_mask)
        x = self.ln2(x + self.dropout2(y))
        return self.ln3(x + self._mlp(x))


class TransformerDecoder(Module):
    """A stack of :class:`TransformerDecoderLayer` with a final :class:`LayerNorm`.

    Called with an input (N, L, dims), a memory (N, S, dims) and a mask or None for both, it returns
    (N, L, dims). The parameters are those of the list ``layers`` and of ``ln``.

    Args:
        num_layers (int): The number of layers.
        dims (int): The features.
        num_heads (int): The number of heads.
        mlp_dims (int, optional): The features inside of the networks. Default: ``4 * dims``.
        dropout (float, optional): The probability of dropout. Default: ``0.0``.
        activation (callable, optional): The function inside of the networks. Default:
            :func:`mlx.nn.relu`.
        norm_first (bool, optional): Whether to normalise before attention and network. Default:
            ``True``.
        checkpoint (bool, optional): Whether the insides of the layers are computed again for the
            gradient, which saves memory. Default: ``False``.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> x = mx.zeros((2, 3, 8))
    >>> nn.TransformerDecoder(2, 8, 2)(x, x, None, None).shape
    (2, 3, 8)
    """

    def __init__(
        self,
        num_layers: int,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        norm_first: bool = True,
        checkpoint: bool = False,
    ) -> None:
        super().__init__()
        self.layers = [
            TransformerDecoderLayer(dims, num_heads, mlp_dims, dropout, activation, norm_first)
            for _ in range(num_layers)
        ]
        self.ln = LayerNorm(dims)
        self.checkpoint = checkpoint

    def __call__(
        self,
        x: mx.array,
        memory: mx.array,
        x_mask: mx.array | None,
        memory_mask: mx.array | None,
    ) -> mx.array:
        """``x`` (N, L, dims) and ``memory`` (N, S, dims) with their masks."""
        for layer in self.layers:
            call = _checkpointed(layer) if self.checkpoint else layer
            x = call(x, memory, x_mask, memory_mask)
        return self.ln(x)


class Transformer(Module):
    """An encoder and a decoder that attends to what the encoder made.

    Called with a source (N, S, dims), a target (N, L, dims) and masks or None for the source, the
    target and the memory, it returns (N, L, dims). The parameters are those of ``encoder`` and
    ``decoder``. Vaswani et al. 2017, "Attention Is All You Need" (arXiv 1706.03762).

    Args:
        dims (int, optional): The features. Default: ``512``.
        num_heads (int, optional): The number of heads. Default: ``8``.
        num_encoder_layers (int, optional): The number of layers of the encoder. Default: ``6``.
        num_decoder_layers (int, optional): The number of layers of the decoder. Default: ``6``.
        mlp_dims (int, optional): The features inside of the networks. Default: ``4 * dims``.
        dropout (float, optional): The probability of dropout. Default: ``0.0``.
        activation (callable, optional): The function inside of the networks. Default:
            :func:`mlx.nn.relu`.
        custom_encoder (callable, optional): Used in place of the encoder; called with the source
            and its mask.
        custom_decoder (callable, optional): Used in place of the decoder; called with the target,
            the memory and their masks.
        norm_first (bool, optional): Whether to normalise before attention and network. Default:
            ``True``.
        checkpoint (bool, optional): Whether the insides of the layers are computed again for the
            gradient, which saves memory. Default: ``False``.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> x = mx.zeros((2, 3, 8))
    >>> nn.Transformer(8, 2, 1, 1)(x, x, None, None, None).shape
    (2, 3, 8)
    """

    def __init__(
        self,
        dims: int = 512,
        num_heads: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        custom_encoder: Any | None = None,
        custom_decoder: Any | None = None,
        norm_first: bool = True,
        checkpoint: bool = False,
    ) -> None:
        super().__init__()
        rest = (dims, num_heads, mlp_dims, dropout, activation, norm_first, checkpoint)
        if custom_encoder is None:
            custom_encoder = TransformerEncoder(num_encoder_layers, *rest)
        if custom_decoder is None:
            custom_decoder = TransformerDecoder(num_decoder_layers, *rest)
        self.encoder = custom_encoder
        self.decoder = custom_decoder

    def __call__(
        self,
        src: mx.array,
        tgt: mx.array,
        src_mask: mx.array | None,
        tgt_mask: mx.array | None,
        memory_mask: mx.array | None,
    ) -> mx.array:
        """``src`` (N, S, dims) and ``tgt`` (N, L, dims) with their masks to (N, L, dims)."""
        memory = self.encoder(src, src_mask)
        return self.decoder(tgt, memory, tgt_mask, memory_mask)
