"""A small Qwen3-shaped language model of 4-bit weights, held against float64 NumPy token by token.

Grouped queries with normalised heads, rotary embedding, a gated network, RMS norms, tied embeddings
and a cache of keys and values that is written in place: what decoders of this family consist of.
"""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten

DIMS, HEADS, SHARED, HEAD, HIDDEN, LAYERS, WORDS = 64, 4, 2, 32, 128, 2, 160
BASE, EPS, SCALE = 1e4, 1e-6, HEAD**-0.5


class Cache:
    """Keys and values of the tokens so far, in memory that grows by steps."""

    STEP = 16

    def __init__(self):
        self.offset, self.kept = 0, None

    def add(self, *new):
        end = self.offset + new[0].shape[2]
        if self.kept is None or end > self.kept[0].shape[2]:
            more = -(-(end - self.offset) // self.STEP) * self.STEP
            zeros = [mx.zeros((*x.shape[:2], more, x.shape[3]), x.dtype) for x in new]
            if self.kept is None:
                self.kept = zeros
            else:
                kept = [x[:, :, : self.offset] for x in self.kept]
                self.kept = [mx.concatenate(pair, axis=2) for pair in zip(kept, zeros, strict=True)]
        for kept, x in zip(self.kept, new, strict=True):
            kept[:, :, self.offset : end] = x
        self.offset = end
        return [x[:, :, :end] for x in self.kept]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(DIMS, HEADS * HEAD, bias=False)
        self.k = nn.Linear(DIMS, SHARED * HEAD, bias=False)
        self.v = nn.Linear(DIMS, SHARED * HEAD, bias=False)
        self.o = nn.Linear(HEADS * HEAD, DIMS, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(HEAD, EPS), nn.RMSNorm(HEAD, EPS)
        self.gate = nn.Linear(DIMS, HIDDEN, bias=False)
        self.up = nn.Linear(DIMS, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, DIMS, bias=False)
        self.before, self.between = nn.RMSNorm(DIMS, EPS), nn.RMSNorm(DIMS, EPS)
        self.rope = nn.RoPE(HEAD, base=BASE)

    def __call__(self, x, cache):
        b, length, _ = x.shape
        y = self.before(x)
        heads = [(self.q, HEADS), (self.k, SHARED), (self.v, SHARED)]
        q, k, v = (f(y).reshape(b, length, n, HEAD) for f, n in heads)
        q, k = self.q_norm(q).transpose(0, 2, 1, 3), self.k_norm(k).transpose(0, 2, 1, 3)
        q, k = self.rope(q, offset=cache.offset), self.rope(k, offset=cache.offset)
        k, v = cache.add(k, v.transpose(0, 2, 1, 3))
        mask = "causal" if length > 1 else None
        y = mx.fast.scaled_dot_product_attention(q, k, v, scale=SCALE, mask=mask)
        x = x + self.o(y.transpose(0, 2, 1, 3).reshape(b, length, -1))
        y = self.between(x)
        return x + self.down(nn.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, DIMS)
        self.layers = [Block() for _ in range(LAYERS)]
        self.norm = nn.RMSNorm(DIMS, EPS)

    def __call__(self, tokens, caches):
        x = self.embedding(tokens)
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, cache)
        return self.embedding.as_linear(self.norm(x))


def made(seed):
    """A model of 4-bit weights, large enough that blocks change what the embedding says."""
    mx.random.seed(seed)
    model = Model()
    model.apply(lambda w: 4 * w if w.ndim > 1 else 1 + 0.3 * mx.random.normal(w.shape))
    model.embedding.weight = 0.3 * mx.random.normal((WORDS, DIMS))
    nn.quantize(model, group_size=64, bits=4)
    mx.eval(model.parameters())
    return model


def generate(model, prompt, count, piece):
    """Tokens of largest score, and the scores they were chosen from; reads the prompt by pieces."""
    caches = [Cache() for _ in range(LAYERS)]
    for start in range(0, len(prompt), piece):
        scores = model(mx.array([prompt[start : start + piece]]), caches)
    tokens, seen = [], []
    for _ in range(count):
        scores = scores[:, -1]
        token = mx.argmax(scores, axis=-1)
        tokens.append(token.item())
        seen.append(np.array(scores[0]))
        scores = model(token[None], caches)
    return tokens, np.array(seen)


def dense(weights, name):
    """A matrix of 4-bit codes as float64: the lowest bits of a word are its first code."""
    codes, scales, biases = (np.array(weights[name + x]) for x in (".weight", ".scales", ".biases"))
    codes = (codes[..., None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15).reshape(len(codes), -1)
    groups = codes.reshape(*scales.shape, 64).astype(np.float64)
    return (groups * scales[..., None] + biases[..., None]).reshape(len(codes), -1)


def oracle(model):
    """The scores after a list of tokens, from a forward pass in float64 over all of them."""
    flat = dict(tree_flatten(model.parameters()))
    names = {k.removesuffix(".scales") for k in flat if k.endswith(".scales")}
    w = {k: dense(flat, k) for k in names}
    w |= {k: np.array(v, np.float64) for k, v in flat.items() if v.ndim == 1}

    def norm(x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w[weight + ".weight"]

    def rope(x):
        half = HEAD // 2
        angles = np.arange(x.shape[1])[:, None] * BASE ** (-np.arange(half) / half)
        a, b, c, s = x[..., :half], x[..., half:], np.cos(angles), np.sin(angles)
        return np.concatenate([a * c - b * s, a * s + b * c], -1)

    def scores(tokens):
        n = len(tokens)
        x = w["embedding"][tokens]
        for i in range(LAYERS):
            at = f"layers.{i}."
            y = norm(x, at + "before")
            q, k, v = ((y @ w[at + c].T).reshape(n, -1, HEAD) for c in "qkv")
            q, k = norm(q, at + "q_norm"), norm(k, at + "k_norm")
            q, k, v = (z.transpose(1, 0, 2) for z in (q, k, v))
            q, k = rope(q), np.repeat(rope(k), HEADS // SHARED, 0)
            v = np.repeat(v, HEADS // SHARED, 0)
            s = q @ k.transpose(0, 2, 1) * SCALE + np.triu(np.full((n, n), -np.inf), 1)
            p = np.exp(s - s.max(-1, keepdims=True))
            y = (p / p.sum(-1, keepdims=True)) @ v
            x = x + y.transpose(1, 0, 2).reshape(n, -1) @ w[at + "o"].T
            y = norm(x, at + "between")
            gate = y @ w[at + "gate"].T
            x = x + (gate / (1 + np.exp(-gate)) * (y @ w[at + "up"].T)) @ w[at + "down"].T
        return norm(x, "norm")[-1] @ w["embedding"].T

    return scores


@pytest.mark.parametrize("seed, prompt, piece", [(1, 9, 9), (2, 21, 8)])
def test_greedy_tokens_equal_those_of_float64(seed, prompt, piece, rng):
    model, count = made(seed), 24
    tokens = rng.integers(0, WORDS, prompt).tolist()
    got, seen = generate(model, tokens, count, piece)
    scores = oracle(model)
    for i in range(count):
        wanted = scores(tokens)
        np.testing.assert_allclose(seen[i], wanted, rtol=0, atol=2e-4, err_msg=f"token {i}")
        first, second = np.sort(wanted)[:-3:-1]
        assert first - second > 5e-4, f"token {i} is not decided by {first - second}"
        tokens.append(int(wanted.argmax()))
    assert got == tokens[prompt:]
    assert len(set(got)) > 4


def test_the_same_tokens_every_time_and_for_every_piece():
    model = made(3)
    prompt = np.random.default_rng(3).integers(0, WORDS, 19).tolist()
    first, scores = generate(model, prompt, 12, 19)
    again, same = generate(model, prompt, 12, 19)
    assert first == again and np.array_equal(scores, same)
    assert generate(model, prompt, 12, 5)[0] == first


def test_weights_that_are_replaced_are_never_computed(tmp_path):
    n, path = 4096, str(tmp_path / "model.safetensors")
    codes, factors = mx.zeros((n, n // 8), mx.uint32), mx.ones((n, n // 64))
    file = {"0.weight": codes, "0.scales": factors, "0.biases": -7.5 * factors}
    size = sum(v.nbytes for v in file.values())
    mx.save_safetensors(path, file)
    del codes, factors, file
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    # The random weights, which nothing reads, would take 64 MiB; what is loaded takes 12 MiB.
    model = nn.Sequential(nn.Linear(n, n, bias=False))
    nn.quantize(model, group_size=64, bits=4)
    model.load_weights([(k.replace("0.", "layers.0."), v) for k, v in mx.load(path).items()])
    mx.eval(model.parameters())
    assert mx.get_peak_memory() - before < 2 * size
    assert mx.get_active_memory() - before >= size
    np.testing.assert_array_equal(np.array(model(mx.ones((1, n)))), np.full((1, n), -7.5 * n))
