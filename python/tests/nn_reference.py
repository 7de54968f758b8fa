"""Layers and losses in float64 NumPy, by loops over positions where that is plainest.

Shapes are those of MLX: channels last, convolution weights (out, kernel ..., in).
"""

import itertools

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from helpers import to_np
from mlx.utils import tree_flatten, tree_map, tree_unflatten


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def relu(x):
    return np.maximum(x, 0)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def parameters(model):
    """Parameters as float64 NumPy arrays, in nested dicts and lists."""
    return tree_map(lambda p: to_np(p).astype(np.float64), model.parameters())


def randomise(model, rng, scale=0.5):
    """Gives every parameter new values, so that ones and zeros do not hide mistakes."""
    model.update(
        tree_map(
            lambda p: mx.array(rng.normal(0.3, scale, p.shape).astype(np.float32)),
            model.parameters(),
        )
    )
    return model


def conv(x, w, stride, padding, dilation, groups=1):
    """A convolution of any number of spatial axes."""
    axes = x.ndim - 2
    x = np.pad(x, [(0, 0), *((p, p) for p in padding), (0, 0)])
    size = [
        (x.shape[i + 1] - dilation[i] * (w.shape[i + 1] - 1) - 1) // stride[i] + 1
        for i in range(axes)
    ]
    y = np.zeros((x.shape[0], *size, w.shape[0]))
    cin, cout = x.shape[-1] // groups, w.shape[0] // groups
    for out in itertools.product(*map(range, size)):
        for tap in itertools.product(*map(range, w.shape[1:-1])):
            at = tuple(o * s + t * d for o, s, t, d in zip(out, stride, tap, dilation, strict=True))
            for g in range(groups):
                part = x[(slice(None), *at, slice(g * cin, (g + 1) * cin))]
                weight = w[(slice(g * cout, (g + 1) * cout), *tap)]
                y[(slice(None), *out, slice(g * cout, (g + 1) * cout))] += part @ weight.T
    return y


def conv_transpose(x, w, stride, padding, dilation, output_padding):
    """Every input adds its multiple of the kernel to the output."""
    axes = x.ndim - 2
    full = [
        (x.shape[i + 1] - 1) * stride[i] + dilation[i] * (w.shape[i + 1] - 1) + 1
        for i in range(axes)
    ]
    y = np.zeros(
        (x.shape[0], *(f + o for f, o in zip(full, output_padding, strict=True)), w.shape[0])
    )
    for at in itertools.product(*map(range, x.shape[1:-1])):
        for tap in itertools.product(*map(range, w.shape[1:-1])):
            to = tuple(a * s + t * d for a, s, t, d in zip(at, stride, tap, dilation, strict=True))
            y[(slice(None), *to)] += x[(slice(None), *at)] @ w[(slice(None), *tap)].T
    cut = tuple(slice(p, n - p) for p, n in zip(padding, y.shape[1:-1], strict=True))
    return y[(slice(None), *cut)]


def pool(x, size, stride, padding, kind):
    """The largest value or the mean of every window."""
    fill = -np.inf if kind == "max" else 0.0
    x = np.pad(x, [(0, 0), *((p, p) for p in padding), (0, 0)], constant_values=fill)
    counts = [(n - k) // s + 1 for n, k, s in zip(x.shape[1:-1], size, stride, strict=True)]
    y = np.zeros((x.shape[0], *counts, x.shape[-1]))
    for out in itertools.product(*map(range, counts)):
        window = tuple(slice(o * s, o * s + k) for o, s, k in zip(out, stride, size, strict=True))
        part = x[(slice(None), *window)].reshape(x.shape[0], -1, x.shape[-1])
        y[(slice(None), *out)] = part.max(1) if kind == "max" else part.mean(1)
    return y


def normalise(x, axes, eps=1e-5):
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(var + eps)


def rnn(x, p, h, f=np.tanh):
    states = []
    for t in range(x.shape[-2]):
        h = f(x[..., t, :] @ p["Wxh"].T + p.get("bias", 0) + h @ p["Whh"].T)
        states.append(h)
    return np.stack(states, -2)


def gru(x, p, h):
    n = h.shape[-1]
    states = []
    for t in range(x.shape[-2]):
        a = x[..., t, :] @ p["Wx"].T + p.get("b", 0)
        b = h @ p["Wh"].T
        r = sigmoid(a[..., :n] + b[..., :n])
        z = sigmoid(a[..., n : 2 * n] + b[..., n : 2 * n])
        new = np.tanh(a[..., 2 * n :] + r * (b[..., 2 * n :] + p.get("bhn", 0)))
        h = (1 - z) * new + z * h
        states.append(h)
    return np.stack(states, -2)


def lstm(x, p, h, c):
    states, cells = [], []
    for t in range(x.shape[-2]):
        i, f, g, o = np.split(x[..., t, :] @ p["Wx"].T + p.get("bias", 0) + h @ p["Wh"].T, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
        cells.append(c)
    return np.stack(states, -2), np.stack(cells, -2)


def linear(x, p):
    return x @ p["weight"].T + p.get("bias", 0)


def layer_norm(x, p, eps=1e-5):
    return normalise(x, -1, eps) * p.get("weight", 1) + p.get("bias", 0)


def attention(q, k, v, p, heads, mask=None):
    """Multi-head attention; the mask is added to the scores."""

    def split(x):
        return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)

    q, k, v = (
        split(linear(x, p[n])) for x, n in ((q, "query_proj"), (k, "key_proj"), (v, "value_proj"))
    )
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    out = softmax(scores if mask is None else scores + mask) @ v
    return linear(out.swapaxes(1, 2).reshape(*out.shape[:1], out.shape[2], -1), p["out_proj"])


def interpolation(n, scale, mode, align_corners=False, antialias=False):
    """The matrix (outputs, inputs) that resizes an axis."""
    m = int(n * scale)
    matrix = np.zeros((m, n))
    a = -0.5 if antialias else -0.75

    def weight(d):
        d = abs(d)
        if mode == "linear":
            return max(0.0, 1 - d)
        if d <= 1:
            return (a + 2) * d**3 - (a + 3) * d**2 + 1
        return a * (d**3 - 5 * d**2 + 8 * d - 4) if d < 2 else 0.0

    for i in range(m):
        if align_corners:
            at = i * (n - 1) / (m - 1)
        else:
            at = (n - 1) / 2 + (i - (m - 1) / 2) / scale
        if antialias:
            shrink = min(scale, 1.0)
            row = np.array([weight((at - j) * shrink) for j in range(n)])
            matrix[i] = row / row.sum()
            continue
        if mode == "linear":
            at = min(max(at, 0), n - 1)
        for j in range(int(np.floor(at)) - 1, int(np.floor(at)) + 3):
            matrix[i, min(max(j, 0), n - 1)] += weight(at - j)
    return matrix


def check_gradient(model, loss, inputs, rng, rtol=2e-3, h=1e-5):
    """Gradients in float32 on the device under test against central differences in float64.

    `loss` maps a model and arrays to a scalar; the directions are random.
    """
    arrays = [mx.array(np.asarray(x, np.float32)) for x in inputs]

    def f(p, *xs):
        model.update(p)
        return loss(model, *xs)

    start = model.trainable_parameters()
    argnums = (
        list(range(len(arrays) + 1)) if tree_flatten(start) else list(range(1, len(arrays) + 1))
    )
    grads = mx.grad(f, argnums=argnums)(start, *arrays)
    grads = list(grads) if isinstance(grads, (list, tuple)) else [grads]
    if len(argnums) == len(arrays):
        grads = [{}, *grads]
    model.update(start)
    g = [to_np(v).astype(np.float64) for _, v in tree_flatten(grads)]
    base = [to_np(v).astype(np.float64) for _, v in tree_flatten([start, *arrays])]
    paths = [k for k, _ in tree_flatten([start, *arrays])]
    assert [x.shape for x in g] == [x.shape for x in base]
    for _ in range(2):
        direction = [rng.normal(size=x.shape) for x in base]

        def at(step, direction=direction):
            with mx.stream(mx.cpu):
                moved = [
                    (k, mx.array(x + step * d, mx.float64))
                    for k, x, d in zip(paths, base, direction, strict=True)
                ]
                tree = tree_unflatten(moved)
                if not tree_flatten(start):
                    tree[0] = {}
                model.set_dtype(mx.float64)
                value = f(*tree).item()
            return value

        want = (at(h) - at(-h)) / (2 * h)
        with mx.stream(mx.cpu):
            model.set_dtype(mx.float32)
        model.update(start)
        got = sum((a * b).sum() for a, b in zip(g, direction, strict=True))
        size = np.sqrt(sum((a * a).sum() for a in g)) + 1e-6
        assert abs(got - want) <= rtol * max(abs(want), size), (got, want)


def scalar(model, *xs):
    """A loss that no symmetry makes constant: the sum of sines of the outputs."""
    y = model(*xs)
    ys = y if isinstance(y, tuple) else (y,)
    return sum(mx.sin(3 * a).sum() for a in ys)


class Function(nn.Module):
    """A function as a module, for `check_gradient`."""

    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def __call__(self, *xs):
        return self.fn(*xs)
