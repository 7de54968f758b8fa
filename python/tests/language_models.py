"""Small decoders of several architectures, and the same in float64 NumPy over whole sequences.

The models are written as mlx-lm writes them, caches in place and in turns, experts by gathered
products, so that steps join as they do there. The reference decodes weights by itself
(test_quantized) and shares nothing with the library but the parameters.
"""

from dataclasses import dataclass, replace
from functools import partial

import helpers as h
import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten, tree_map_with_path
from test_quantized import values

EPS, LIMIT, STEEP = 1e-6, 3.0, 1.702


@dataclass(frozen=True)
class Form:
    """What a decoder is made of."""

    dims: int = 128
    heads: int = 4
    shared: int = 2  # heads of keys and values
    head: int = 32
    hidden: int = 128
    layers: int = 2
    words: int = 160
    bases: tuple = (1e4, 1e4)  # of rotations: layers that see all, layers with a window
    normed: bool = True  # queries and keys are normalised
    biases: bool = False  # of attention's products and of experts
    tied: bool = True  # the embedding gives the scores
    framed: bool = False  # what blocks give is normalised too, embeddings are multiplied up
    sinks: bool = False
    window: int = 0  # positions that every second layer sees, from the first on
    turning: bool = True  # layers with a window keep no more than that
    experts: int = 0
    picks: int = 2
    unit: str = "silu"

    def sees(self, layer):
        """How many positions a layer sees, 0: all."""
        return self.window if layer % 2 == 0 else 0


#: Six architectures: as Qwen3, Llama, Qwen2, Qwen3 with experts, Gemma 3 and gpt-oss.
FORMS = {
    "dense": Form(),
    "plain": Form(normed=False, tied=False),
    "biases": Form(normed=False, biases=True),
    "experts": Form(experts=8, tied=False),
    "window": Form(window=6, bases=(1e4, 1e2), framed=True, unit="gelu"),
    "sinks": Form(
        normed=False, biases=True, tied=False, sinks=True, window=6, experts=6, unit="limited"
    ),
}
#: Layers with a window that keep everything; a window that memory grows up to; widths that are no
#: multiples of 32.
FORMS |= {
    "masked": replace(FORMS["sinks"], turning=False),
    "wide": replace(FORMS["window"], window=20),
    "odd": Form(dims=80, heads=3, shared=1, head=24, hidden=96, words=157, tied=False),
    "odd experts": Form(dims=80, heads=3, shared=1, head=24, hidden=48, experts=5, picks=3),
}


def causal(length, offset, window=0, padding=None):
    """Which of offset + length keys each query may see."""
    keys = mx.arange(offset + length)
    queries = mx.arange(offset, offset + length)[:, None]
    mask = queries >= keys
    if window:
        mask = mask & (queries < keys + window)
    if padding is not None:
        mask = mask & (mx.expand_dims(padding, (1, 2, 3)) <= keys)
    return mask


class Cache:
    """Keys and values of the tokens so far, in memory that grows by steps."""

    STEP = 16

    def __init__(self, window=0):
        self.offset, self.length, self.kept, self.window = 0, 0, None, window

    def mask(self, length):
        if self.window:
            return causal(length, self.length, self.window)
        return "causal" if length > 1 else None

    def grow(self, new, more):
        zeros = [mx.zeros((*x.shape[:2], more, x.shape[3]), x.dtype) for x in new]
        if self.kept is None:
            self.kept = zeros
        else:
            kept = [x[:, :, : self.length] for x in self.kept]
            self.kept = [mx.concatenate(pair, axis=2) for pair in zip(kept, zeros, strict=True)]

    def write(self, new, start):
        end = start + new[0].shape[2]
        for kept, x in zip(self.kept, new, strict=True):
            kept[:, :, start:end] = x

    def add(self, *new):
        count = new[0].shape[2]
        end = self.length + count
        if self.kept is None or end > self.kept[0].shape[2]:
            self.grow(new, -(-count // self.STEP) * self.STEP)
        self.write(new, self.length)
        self.length, self.offset = end, self.offset + count
        return [x[:, :, :end] for x in self.kept]


class Padded(Cache):
    """Sequences of several lengths that end together; in front of the shorter ones lies padding."""

    def __init__(self, padding, window=0):
        super().__init__(window)
        self.padding, self.offset = mx.array(padding), mx.array([-n for n in padding])

    def mask(self, length):
        return causal(length, self.length, self.window, self.padding)


class Turning(Cache):
    """The last positions alone: the newest takes the place of the oldest."""

    def __init__(self, window):
        super().__init__(window)
        self.place = 0

    def mask(self, length):
        before = min(self.window - 1, self.offset)
        if length > 1 and before + length > self.window:
            return causal(length, before, self.window)
        return "causal" if length > 1 else None

    def ordered(self, x):
        """What is kept, the oldest first."""
        if self.place == self.length or self.offset <= self.length:
            return x[:, :, : self.length]
        return mx.concatenate([x[:, :, self.place :], x[:, :, : self.place]], axis=2)

    def add(self, *new):
        count = new[0].shape[2]
        if count > 1:
            if self.kept is not None:
                last = [self.ordered(x)[:, :, 1 - self.window :] for x in self.kept]
                new = [mx.concatenate(pair, axis=2) for pair in zip(last, new, strict=True)]
            self.kept = list(new)
            self.length = self.place = new[0].shape[2]
        else:
            if self.length > self.window:
                self.kept = [x[:, :, -self.window :] for x in self.kept]
                self.length = self.place = self.window
            full = self.kept is None or self.length == self.kept[0].shape[2]
            if full and self.length < self.window:
                self.grow(new, min(self.STEP, self.window - self.length))
            self.place = 0 if self.place == self.window else self.place
            self.write(new, self.place)
            self.place += 1
            self.length = max(self.length, self.place)
        self.offset += count
        return [x[:, :, : self.length] for x in self.kept]


@partial(mx.compile, shapeless=True)
def silu_unit(gate, up):
    return nn.silu(gate) * up


@partial(mx.compile, shapeless=True)
def limited_unit(gate, up):
    gate, up = mx.minimum(gate, LIMIT), mx.clip(up, -LIMIT, LIMIT)
    return (up + 1.0) * (gate * mx.sigmoid(STEEP * gate))


def gelu_unit(gate, up):
    return nn.gelu_approx(gate) * up


UNITS = {"silu": silu_unit, "limited": limited_unit, "gelu": gelu_unit}


@partial(mx.compile, shapeless=True)
def held_sum(x, y):
    """A sum that stays inside of what float16 holds."""
    if x.dtype != mx.float16:
        return x + y
    bound = mx.finfo(mx.float16).max
    total = x.astype(mx.float32) + y.astype(mx.float32)
    return mx.clip(total, -bound, bound).astype(mx.float16)


class FromOne(nn.Module):
    """An RMS norm whose weights are kept less one."""

    def __init__(self, dims):
        super().__init__()
        self.weight = mx.zeros((dims,))

    def __call__(self, x):
        return mx.fast.rms_norm(x, 1.0 + self.weight, EPS)


def norm_of(form, dims):
    return FromOne(dims) if form.framed else nn.RMSNorm(dims, EPS)


class Attention(nn.Module):
    def __init__(self, form, layer):
        super().__init__()
        width, kept, biases = form.heads * form.head, form.shared * form.head, form.biases
        self.q = nn.Linear(form.dims, width, bias=biases)
        self.k = nn.Linear(form.dims, kept, bias=biases)
        self.v = nn.Linear(form.dims, kept, bias=biases)
        self.o = nn.Linear(width, form.dims, bias=form.sinks)
        if form.normed:
            self.q_norm, self.k_norm = norm_of(form, form.head), norm_of(form, form.head)
        if form.sinks:
            self.sinks = mx.zeros((form.heads,))
        self.rope = nn.RoPE(form.head, base=form.bases[form.sees(layer) > 0])
        self.head = form.head

    def __call__(self, x, mask, cache):
        b, length, _ = x.shape
        q, k, v = (f(x).reshape(b, length, -1, self.head) for f in (self.q, self.k, self.v))
        if "q_norm" in self:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
        q, k = self.rope(q, offset=cache.offset), self.rope(k, offset=cache.offset)
        k, v = cache.add(k, v)
        y = mx.fast.scaled_dot_product_attention(
            q, k, v, scale=self.head**-0.5, mask=mask, sinks=self.get("sinks")
        )
        return self.o(y.transpose(0, 2, 1, 3).reshape(b, length, -1))


class Gated(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.gate = nn.Linear(form.dims, form.hidden, bias=False)
        self.up = nn.Linear(form.dims, form.hidden, bias=False)
        self.down = nn.Linear(form.hidden, form.dims, bias=False)
        self.unit = UNITS[form.unit]

    def __call__(self, x):
        return self.down(self.unit(self.gate(x), self.up(x)))


class Picked(nn.Module):
    """Products with the matrices that are picked for each token."""

    def __init__(self, columns, rows, count, bias):
        super().__init__()
        self.weight = mx.zeros((count, rows, columns))
        if bias:
            self.bias = mx.zeros((count, rows))

    def product(self, x, picks, **more):
        return mx.gather_mm(x, self.weight.swapaxes(-1, -2), rhs_indices=picks, **more)

    def __call__(self, x, picks, **more):
        y = self.product(x, picks, **more)
        return y + mx.expand_dims(self.bias[picks], -2) if "bias" in self else y

    def to_quantized(self, group_size, bits, mode="affine"):
        return QuantizedPicked(self, group_size, bits, mode)


class QuantizedPicked(Picked):
    def __init__(self, layer, group_size, bits, mode):
        nn.Module.__init__(self)
        self.group_size, self.bits, self.mode = group_size, bits, mode
        parts = mx.quantize(layer.weight, group_size, bits, mode)
        self.weight, self.scales, self.biases = (*parts, None)[:3]
        if "bias" in layer:
            self.bias = layer.bias

    def product(self, x, picks, **more):
        how = {"group_size": self.group_size, "bits": self.bits, "mode": self.mode}
        parts = self.weight, self.scales, self.get("biases")
        return mx.gather_qmm(x, *parts, rhs_indices=picks, transpose=True, **how, **more)


class Experts(nn.Module):
    """A few gated networks of many for each token: those of the largest scores, which weigh them.

    `noted`, where it is a list, takes the picks of each call.
    """

    def __init__(self, form):
        super().__init__()
        count, biases = form.experts, form.biases
        self.router = nn.Linear(form.dims, count, bias=biases)
        self.gate = Picked(form.dims, form.hidden, count, biases)
        self.up = Picked(form.dims, form.hidden, count, biases)
        self.down = Picked(form.hidden, form.dims, count, biases)
        self.unit, self.picks, self.before = UNITS[form.unit], form.picks, form.biases
        self.noted = None

    def choose(self, x):
        """Picks and their weights; with biases the softmax follows the choice, else precedes it."""
        scores, k = self.router(x), self.picks
        if not self.before:
            scores = mx.softmax(scores, axis=-1, precise=True)
        picks = mx.stop_gradient(mx.argpartition(scores, kth=-k, axis=-1)[..., -k:])
        weights = mx.take_along_axis(scores, picks, axis=-1)
        if self.before:
            return picks, mx.softmax(weights, axis=-1, precise=True)
        return picks, weights / mx.sum(weights, axis=-1, keepdims=True)

    def __call__(self, x):
        picks, weights = self.choose(x)
        if self.noted is not None:
            self.noted.append(picks)
        x, chosen, more = mx.expand_dims(x, (-2, -3)), picks, {}
        if picks.size >= 64:
            flat = picks.flatten()
            order = mx.argsort(flat)
            back, more = mx.argsort(order), {"sorted_indices": True}
            x, chosen = x.flatten(0, -3)[order // picks.shape[-1]], flat[order]
        up, gate = self.up(x, chosen, **more), self.gate(x, chosen, **more)
        y = self.down(self.unit(gate, up), chosen, **more)
        if more:
            y = mx.unflatten(y[back], 0, picks.shape)
        y = y.squeeze(-2)
        return (y * weights[..., None]).sum(axis=-2).astype(y.dtype)


class Block(nn.Module):
    def __init__(self, form, layer):
        super().__init__()
        self.attention = Attention(form, layer)
        self.network = Experts(form) if form.experts else Gated(form)
        self.before, self.between = norm_of(form, form.dims), norm_of(form, form.dims)
        if form.framed:
            self.behind, self.last = norm_of(form, form.dims), norm_of(form, form.dims)

    def __call__(self, x, mask, cache):
        y = self.attention(self.before(x), mask, cache)
        if "behind" not in self:
            x = x + y
            return x + self.network(self.between(x))
        x = held_sum(x, self.behind(y))
        return held_sum(x, self.last(self.network(self.between(x))))


class Model(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.form = form
        self.embedding = nn.Embedding(form.words, form.dims)
        self.layers = [Block(form, i) for i in range(form.layers)]
        self.norm = norm_of(form, form.dims)
        if not form.tied:
            self.head = nn.Linear(form.dims, form.words, bias=False)

    def caches(self, padding=None):
        """One for each layer; with `padding` for sequences that begin behind so many words."""
        windows = [self.form.sees(i) for i in range(self.form.layers)]
        if padding is not None:
            return [Padded(padding, w) for w in windows]
        return [Turning(w) if w and self.form.turning else Cache(w) for w in windows]

    def __call__(self, tokens, caches):
        x = self.embedding(tokens)
        if self.form.framed:
            x = x * mx.array(self.form.dims**0.5, mx.bfloat16).astype(x.dtype)
        masks = {cache.window: cache.mask(tokens.shape[1]) for cache in caches}
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, masks[cache.window], cache)
        x = self.norm(x)
        return self.head(x) if "head" in self else self.embedding.as_linear(x)


def randomise(model, seed):
    """Weights large enough that blocks change what the embedding says."""
    rng = np.random.default_rng(seed)

    def drawn(name, w):
        x = rng.standard_normal(w.shape)
        if w.ndim == 1 and name.endswith(".weight"):
            more = {"behind": 2.0, "last": 2.0, "norm": 8.0} if model.form.framed else {}
            x = 0.3 * x + np.array(w) + more.get(name.split(".")[-2], 0.0)
        elif name.startswith("embedding"):
            x *= 0.03 if model.form.framed else 0.3 if model.form.tied else 1.0
        elif name.startswith("head"):
            x *= 0.3
        elif name.endswith(".weight"):
            x *= 1.5 * w.shape[-1] ** -0.5
        else:
            x *= 0.5
        return mx.array(x.astype(np.float32))

    model.update(tree_map_with_path(drawn, model.parameters()))


def quantize(model, how, picked=None):
    """Whatever groups divide; experts as `picked` says, if it is given, routers in eight bits."""

    def wanted(path, module):
        if not hasattr(module, "to_quantized"):
            return False
        this = how
        if path.endswith("router"):
            this = {"group_size": 64, "bits": 8}
        elif picked and isinstance(module, Picked):
            this = picked
        return module.weight.shape[-1] % this["group_size"] == 0 and this

    nn.quantize(model, class_predicate=wanted)


def log_softmax(scores):
    top = scores.max(-1, keepdims=True)
    return scores - top - np.log(np.exp(scores - top).sum(-1, keepdims=True))


def generate(model, prompts, count, piece=None, caches=None, forced=None):
    """Tokens of largest score, (batch, count), and the logarithms of all words' probabilities that
    they were chosen from, (batch, count, words).

    Prompts are read by pieces; `forced` tokens take the place of those that are chosen.
    """
    caches = model.caches() if caches is None else caches
    prompts = np.array(prompts)
    piece = piece or prompts.shape[1]
    for start in range(0, prompts.shape[1], piece):
        scores = model(mx.array(prompts[:, start : start + piece]), caches)
    tokens, seen = [], []
    for i in range(count):
        if i:
            taken = tokens[-1] if forced is None else mx.array(np.array(forced)[:, i - 1])
            scores = model(taken[:, None], caches)
        scores = scores[:, -1]
        seen.append(scores - mx.logsumexp(scores, axis=-1, keepdims=True))
        tokens.append(mx.argmax(seen[-1], axis=-1))
        mx.async_eval(tokens[-1], seen[-1])
    return np.stack([np.array(t) for t in tokens], 1), np.stack([h.to_np(s) for s in seen], 1)


class Reference:
    """A model in float64, by its form and its parameters."""

    def __init__(self, model):
        self.form = model.form
        self.w = {k: h.to_np(v) for k, v in tree_flatten(model.parameters())}
        for name, layer in model.named_modules():
            if "scales" in layer:
                parts = [self.w.get(f"{name}.{x}") for x in ("weight", "scales", "biases")]
                how = layer.mode, layer.group_size, layer.bits
                self.w[name + ".weight"] = values(*parts, *how)
        self.w = {k: v.astype(np.float64) for k, v in self.w.items()}

    def norm(self, x, name):
        weight = self.w[name + ".weight"] + self.form.framed
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight

    def product(self, x, name, pick=...):
        y = x @ self.w[name + ".weight"][pick].T
        return y + self.w[name + ".bias"][pick] if name + ".bias" in self.w else y

    def unit(self, gate, up):
        if self.form.unit == "silu":
            return gate / (1 + np.exp(-gate)) * up
        if self.form.unit == "limited":
            gate, up = np.minimum(gate, LIMIT), np.clip(up, -LIMIT, LIMIT)
            return (up + 1) * gate / (1 + np.exp(-STEEP * gate))
        return gate / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3))) * up

    def network(self, x, at, pick=...):
        parts = (self.product(x, at + part, pick) for part in ("gate", "up"))
        return self.product(self.unit(*parts), at + "down", pick)

    def experts(self, x, at, noted, near):
        """By the picks that were noted, whose scores may lie below the largest by `near`."""
        scores, k = self.product(x, at + "router"), self.form.picks
        picks = np.argsort(-scores, axis=-1)[:, :k]
        if noted is not None:
            least = np.take_along_axis(scores, picks, -1)[:, -1:]
            assert (np.take_along_axis(scores, noted, -1) >= least - near).all()
            assert all(len(set(row)) == k for row in noted.tolist())
            picks = noted
        weights = np.exp(log_softmax(np.take_along_axis(scores, picks, -1)))
        y = np.zeros_like(x)
        for i, j in np.ndindex(picks.shape):
            y[i] += weights[i, j] * self.network(x[i], at, picks[i, j])
        return y

    def rotated(self, x, base):
        half = self.form.head // 2
        angles = np.arange(x.shape[1])[:, None] * base ** (-np.arange(half) / half)
        a, b, c, s = x[..., :half], x[..., half:], np.cos(angles), np.sin(angles)
        return np.concatenate([a * c - b * s, a * s + b * c], -1)

    def attention(self, x, at, window):
        f, n = self.form, len(x)
        q, k, v = (self.product(x, at + c).reshape(n, -1, f.head) for c in "qkv")
        if f.normed:
            q, k = self.norm(q, at + "q_norm"), self.norm(k, at + "k_norm")
        q, k, v = (z.transpose(1, 0, 2) for z in (q, k, v))
        q, k = (self.rotated(z, f.bases[window > 0]) for z in (q, k))
        k, v = (np.repeat(z, f.heads // f.shared, 0) for z in (k, v))
        s = q @ k.transpose(0, 2, 1) * f.head**-0.5
        back = np.arange(n)[:, None] - np.arange(n)
        s = np.where((back >= 0) & (back < (window or n)), s, -np.inf)
        if f.sinks:
            sinks = np.broadcast_to(self.w[at + "sinks"][:, None, None], (f.heads, n, 1))
            s, v = np.concatenate([s, sinks], -1), np.pad(v, [(0, 0), (0, 1), (0, 0)])
        y = np.exp(log_softmax(s)) @ v
        return self.product(y.transpose(1, 0, 2).reshape(n, -1), at + "o")

    def __call__(self, tokens, noted=None, near=0.0):
        """The logarithms of all words' probabilities after each of a list of tokens."""
        f = self.form
        x = self.w["embedding.weight"][tokens]
        if f.framed:
            x = x * h.round_bf16(f.dims**0.5)
        for i in range(f.layers):
            at = f"layers.{i}."
            y = self.attention(self.norm(x, at + "before"), at + "attention.", f.sees(i))
            x = x + (self.norm(y, at + "behind") if f.framed else y)
            y = self.norm(x, at + "between")
            if f.experts:
                y = self.experts(y, at + "network.", noted and noted[i], near)
            else:
                y = self.network(y, at + "network.")
            x = x + (self.norm(y, at + "last") if f.framed else y)
        x = self.norm(x, "norm")
        return log_softmax(self.product(x, "embedding" if f.tied else "head"))
