"""What the examples of language models share: transformers, and text to train them on."""

import json
import re
from collections import Counter
from pydoc_data.topics import topics

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten


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


class Attention(nn.Module):
    """Causal self-attention with rotary embeddings."""

    def __init__(self, dims, heads):
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(dims, dims, bias=False)
        self.k_proj = nn.Linear(dims, dims, bias=False)
        self.v_proj = nn.Linear(dims, dims, bias=False)
        self.o_proj = nn.Linear(dims, dims, bias=False)
        self.rope = nn.RoPE(dims // heads)

    def __call__(self, x):
        rows, length, dims = x.shape
        q, k, v = (
            f(x).reshape(rows, length, self.heads, -1).swapaxes(1, 2)
            for f in (self.q_proj, self.k_proj, self.v_proj)
        )
        scale = (dims // self.heads) ** -0.5
        out = mx.fast.scaled_dot_product_attention(
            self.rope(q), self.rope(k), v, scale=scale, mask="causal"
        )
        return self.o_proj(out.swapaxes(1, 2).reshape(rows, length, dims))


class MLP(nn.Module):
    """Two layers with a gate (SwiGLU)."""

    def __init__(self, dims, hidden):
        super().__init__()
        self.gate_proj = nn.Linear(dims, hidden, bias=False)
        self.up_proj = nn.Linear(dims, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dims, bias=False)

    def __call__(self, x):
        return self.down_proj(nn.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    """One layer: attention and MLP behind normalisations, added to what came in."""

    def __init__(self, dims, heads):
        super().__init__()
        self.self_attn = Attention(dims, heads)
        self.mlp = MLP(dims, 2 * dims)
        self.input_layernorm = nn.RMSNorm(dims)
        self.post_attention_layernorm = nn.RMSNorm(dims)

    def __call__(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Tokens to the scores of the token that follows each of them, with the architecture of Llama.

    The embedding is the output layer too.
    """

    def __init__(self, vocabulary, dims, heads, layers):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, dims)
        self.layers = [Block(dims, heads) for _ in range(layers)]
        self.norm = nn.RMSNorm(dims)

    def __call__(self, tokens):
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.embed_tokens.as_linear(self.norm(x))


class Vocabulary:
    """The most frequent words of a text, each with the space before it, and all its characters.

    Other words are spelled, the longest piece first.
    """

    WORDS = r" ?[A-Za-z]+|\s+|."

    def __init__(self, text, words):
        counts = Counter(re.findall(self.WORDS, text))
        frequent = [word for word, _ in counts.most_common(words)]
        self.pieces = sorted(set(text) | {w for w in frequent if len(w) > 1})
        self.numbers = {piece: i for i, piece in enumerate(self.pieces)}
        self.longest = max(map(len, self.pieces))

    def encode(self, text):
        """The numbers of a text's pieces."""
        numbers = []
        for word in re.findall(self.WORDS, text):
            while word:
                ends = range(min(len(word), self.longest), 0, -1)
                piece = next(word[:end] for end in ends if word[:end] in self.numbers)
                numbers.append(self.numbers[piece])
                word = word[len(piece) :]
        return numbers

    def decode(self, numbers):
        """The text of some pieces' numbers."""
        return "".join(self.pieces[i] for i in numbers)


def save_for_mlx_lm(folder, model, vocabulary, context):
    """Writes a folder that `mlx_lm.load` reads; its tokenizer works as Vocabulary does."""
    folder.mkdir(parents=True, exist_ok=True)
    layer = model.layers[0]
    dims = model.norm.weight.size
    heads = layer.self_attn.heads
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(vocabulary.pieces),
        "hidden_size": dims,
        "intermediate_size": layer.mlp.gate_proj.weight.shape[0],
        "num_hidden_layers": len(model.layers),
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "rms_norm_eps": model.norm.eps,
        "rope_theta": 10000.0,
        "max_position_embeddings": context,
        "tie_word_embeddings": True,
    }
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": vocabulary.WORDS},
            "behavior": "Isolated",
            "invert": False,
        },
        "decoder": {"type": "Fuse"},
        "model": {
            "type": "WordPiece",
            "unk_token": " ",
            "continuing_subword_prefix": "",
            "max_input_chars_per_word": 100,
            "vocab": vocabulary.numbers,
        },
    }
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    for name, content in (
        ("config.json", config),
        ("tokenizer.json", tokenizer),
        ("tokenizer_config.json", settings),
    ):
        (folder / name).write_text(json.dumps(content))
    weights = {f"model.{name}": value for name, value in tree_flatten(model.parameters())}
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})


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
