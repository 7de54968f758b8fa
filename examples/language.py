"""What the examples of language models share: a transformer, and pieces of text to train one on."""

from pydoc_data.topics import topics

import mlx.core as mx
import mlx.nn as nn
import numpy as np


class LanguageModel(nn.Module):
    """Tokens to the scores of the token that follows each of them: layers under a causal mask."""

    def __init__(self, vocabulary, context, dims, heads, layers):
        super().__init__()
        self.context = context
        self.embedding = nn.Embedding(vocabulary, dims)
        self.positions = nn.Embedding(context, dims)
        self.transformer = nn.TransformerEncoder(layers, dims, heads, activation=nn.gelu_approx)

    def __call__(self, tokens):
        length = tokens.shape[1]
        mask = nn.MultiHeadAttention.create_additive_causal_mask(length)
        x = self.embedding(tokens) + self.positions(mx.arange(length))
        return self.embedding.as_linear(self.transformer(x, mask))


def text():
    """Python's Language Reference, which ships with every Python."""
    return "\n\n".join(topics[name] for name in sorted(topics))


def batches(data, size, context, rng):
    """Endless random pieces of the numbered text, one token longer than the context."""
    while True:
        starts = rng.integers(0, len(data) - context - 1, size)
        yield mx.array(data[starts[:, None] + np.arange(context + 1)])


def loss(model, pieces):
    """Mean cross entropy of the next tokens, in nats."""
    return nn.losses.cross_entropy(model(pieces[:, :-1]), pieces[:, 1:], reduction="mean")
