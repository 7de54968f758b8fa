"""Cases of matrix products: plain ones, with what follows them in a compiled function, float32 by
parts, and rows that pick their matrices."""

import math

import mlx.core as mx
import numpy as np
from kernels_check import F32, HALF, Ball, Want, gamma, product, settled
from kernels_draw import FLOATS, Case, wide
from scipy.special import erf, expit


def swap(a):
    return np.swapaxes(a, -1, -2)


def summed(a, b, k, whole=False):
    """The product of float64 arrays, the sum of magnitudes, and what a float32 sum may err."""
    exact, sums, missing = product(a, b)
    error = np.zeros_like(sums) if whole else gamma(k) * sums + k * 2.0**-126
    return exact, sums, settled(sums, error + missing)


def sides(d, most=700):
    """Rows, columns and the length of sums: all of a kind, or few rows."""
    m, n, k = (d.length(most) for _ in range(3))
    some = d.rng.random()
    if some < 0.1:
        m = 1
    elif some < 0.3:
        m = d.int(2, 64)
    elif some < 0.35:
        n = d.int(1, 8)
    elif some < 0.45:  # few rows by long matrices
        m, n, k = d.int(1, 40), 16 * d.int(1, 256), 64 * d.int(1, 64)
    return d.bounded([m, n, k])


def operands(d, dtype, m, n, k, kind):
    """Both sides, with batches of their own every third time."""
    left = right = ()
    if d.chance(0.3):
        left = right = tuple(d.int(1, 5) for _ in range(d.int(1, 2)))
        way = d.rng.random()
        if way < 0.25:
            right = ()
        elif way < 0.4:
            left = ()
        elif way < 0.6 and len(left) == 2:
            left, right = (left[0], 1), (1, right[1])
    times = math.prod(np.broadcast_shapes(left, right))
    m, n, k = d.bounded([m, n, k], max(1, d.work // times))
    a = d.array((*left, m, k), dtype, kind, axis=-2)
    b = d.array((*right, k, n), dtype, kind, axis=-1)
    return a, b


def shown(*inputs):
    return " ".join(f"{a.dtype}{list(a.values.shape)}:{' '.join(map(str, a.form))}" for a in inputs)


def matmul(d):
    """a @ b, and addmm."""
    dtype = d.pick("bfloat16", "bfloat16", "float16", "float16", "float32", "float32", "complex64")
    if dtype == "complex64" and d.chance(0.5):
        dtype = "float32"
    kind = d.kind(dtype)
    if dtype == "complex64" and kind in ("special", "extreme"):
        kind = "normal"
    a, b = operands(d, dtype, *sides(d), kind)
    k = a.values.shape[-1]
    k = 2 * k + 2 if dtype == "complex64" else k
    text = f"{kind} {shown(a, b)}"
    if d.chance(0.7):

        def want(a, b):
            exact, _, error = summed(wide(a), wide(b), k, kind == "whole")
            return [Want(exact, error)]

        return Case([a, b], lambda a, b: [a @ b], want, f"matmul {text}")
    return addmm(d, dtype, kind, a, b, k)


def addmm(d, dtype, kind, a, b, k):
    shape = np.broadcast_shapes(a.values.shape[:-2], b.values.shape[:-2])
    m, n = a.values.shape[-2], b.values.shape[-1]
    c = d.array(d.pick((*shape, m, n), (n,), (1, n), (m, 1)), dtype, "normal")
    alpha, beta = d.pick(1.0, 1.0, 0.5, -2.0), d.pick(1.0, 1.0, 0.0, 0.5, -1.5)

    def want(a, b, c):
        exact, sums, error = summed(wide(a), wide(b), k, kind == "whole")
        with np.errstate(all="ignore"):
            added = beta * wide(c) if beta else np.zeros_like(wide(c))
            y = alpha * exact + added
            steps = 4 * F32 * (np.abs(alpha) * sums + np.abs(added))
            return [Want(y, settled(sums, np.abs(alpha) * error + steps))]

    return Case(
        [a, b, c],
        lambda a, b, c: [mx.addmm(c, a, b, alpha, beta)],
        want,
        f"addmm {alpha} {beta} {kind} {shown(a, b, c)}",
    )


# What follows a product: the same steps on arrays of this library and on numbers with bounds.


def gelu(y, fn):
    return y * (fn.erf(y * 0.7071067811865476) + 1.0) * 0.5


EPILOGUES = {
    "bias": lambda y, b, r, fn: y + b,
    "relu": lambda y, b, r, fn: fn.relu(y + b),
    "gelu": lambda y, b, r, fn: gelu(y + b, fn),
    "gate": lambda y, b, r, fn: y * fn.sigmoid(y) * r,
    "residual": lambda y, b, r, fn: y + r,
    "scaled": lambda y, b, r, fn: (y + b) * 0.5 + r,
    "tanh": lambda y, b, r, fn: fn.tanh(y + b) * r,
}


class OnArrays:
    erf = mx.erf
    sigmoid = mx.sigmoid
    tanh = mx.tanh

    @staticmethod
    def relu(y):
        return mx.maximum(y, 0)


class OnBalls:
    @staticmethod
    def erf(y):
        return y.through(erf, 1.129)

    @staticmethod
    def sigmoid(y):
        return y.through(expit, 0.25)

    @staticmethod
    def tanh(y):
        return y.through(np.tanh, 1.0)

    @staticmethod
    def relu(y):
        return Ball(np.maximum(y.value, 0), y.error, y.half, y.before)


COMPILED = {
    name: mx.compile(lambda a, b, c, r, f=f: f(a @ b, c, r, OnArrays))
    for name, f in EPILOGUES.items()
}


def epilogue(d):
    """A product and what follows it, compiled."""
    dtype = d.pick(*FLOATS)
    kind = d.pick("normal", "normal", "positive")
    a, b = operands(d, dtype, *sides(d), kind)
    a.values = a.values / type(a.values.flat[0])(8)
    shape = np.broadcast_shapes(a.values.shape[:-2], b.values.shape[:-2])
    m, k, n = *a.values.shape[-2:], b.values.shape[-1]
    c = d.array((n,), dtype, form=("plain",))
    r = d.array((*shape, m, n), dtype)
    name = d.pick(*EPILOGUES)

    def want(a, b, c, r):
        exact, _, error = summed(wide(a), wide(b), k)
        half = HALF[dtype]
        y = Ball(exact, error + half * (np.abs(exact) + error), half, error)
        return [EPILOGUES[name](y, wide(c), wide(r), OnBalls).kept()]

    text = f"{name} after {kind} {shown(a, b, r)}"
    return Case([a, b, c, r], lambda *x: [COMPILED[name](*x)], want, text)


def parts(d):
    """float32 products that are large enough for matrix units: no worse than plain sums."""
    m, n, k = (d.int(48, 420) * d.pick(1, 4, 8) for _ in range(3))
    if d.work >= 1 << 24:
        m, n, k = d.bounded([max(m, 500), max(n, 500), max(k, 256)], 1 << 31)
        m, n, k = (v + d.pick(0, 0, 1, 5) for v in (m, n, k))
    else:
        m, n, k = d.bounded([m, n, k])
    kind = d.pick("normal", "whole", "positive", "scaled", "extreme", "special")
    a = d.array((m, k), "float32", kind, d.pick(("plain",), ("turned",), ("cut", 4, 3)), axis=-2)
    b = d.array((k, n), "float32", kind, d.pick(("plain",), ("turned",), ("cut", 8, 8)), axis=-1)
    # Some rows and columns: all of them would take a processor seconds.
    rows, columns = (np.sort(d.rng.choice(v, min(v, 48), replace=False)) for v in (m, n))
    some = [mx.array(v.astype(np.int32)) for v in (rows, columns)]

    def run(a, b):
        y = a @ b
        return [y[some[0]], y[:, some[1]]]

    def want(a, b):
        pairs = (wide(a[rows]), wide(b)), (wide(a), wide(b[:, columns]))
        made = [summed(x, y, k, kind == "whole") for x, y in pairs]
        return [Want(exact, error) for exact, _, error in made]

    return Case([a, b], run, want, f"parts {kind} {shown(a, b)}")


# Rows that pick their matrices


def picks(d, experts, tokens, each):
    """Indices of matrices, (tokens, each) or sorted ones of single rows."""
    few = d.chance(0.3)
    index = d.rng.integers(0, d.int(1, experts) if few else experts, (tokens, each))
    if d.chance(0.4):
        return np.sort(index.reshape(-1)).astype(np.uint32), True
    return index.astype(np.uint32), False


def picked(x, w, index):
    """Rows of x (of the shape of the index, then one matrix each) by the matrices they pick."""
    x = np.broadcast_to(x, (*index.shape, *x.shape[-2:]))
    out = np.empty((*index.shape, x.shape[-2], w.shape[-1]))
    for e in np.unique(index):
        at = index == e
        rows = x[at]
        out[at] = (rows.reshape(-1, rows.shape[-1]) @ w[e]).reshape(*rows.shape[:-1], -1)
    return out


def experts_shape(d):
    """Experts, tokens, picks of a token, rows of a pick."""
    experts, each = d.int(1, 16), d.int(1, 8)
    tokens = d.int(1, 8) if d.chance(0.5) else d.int(1, 150)
    rows = 1 if d.chance(0.85) else d.int(2, 20)
    return experts, tokens, each, rows


def gather_mm(d):
    dtype = d.pick(*FLOATS)
    experts, tokens, each, rows = experts_shape(d)
    k, n = (d.bounded([d.length(500)], 1 << 11)[0] for _ in range(2))
    tokens, k, n = d.bounded([tokens, k, n], max(1, d.work // (each * rows)))
    k, n = d.bounded([k, n], max(1, 8 * d.most // experts))
    kind = d.pick("normal", "normal", "whole", "positive", "scaled")
    index, ordered = picks(d, experts, tokens, each)
    lead = (len(index),) if ordered else (tokens, 1)
    x = d.array((*lead, rows, k), dtype, kind, axis=-2)
    w = d.array((experts, k, n), dtype, kind, d.pick(("turned",), ("turned",), ("plain",)), axis=-1)
    chosen = mx.array(index)

    def run(x, w):
        return [mx.gather_mm(x, w, rhs_indices=chosen, sorted_indices=ordered)]

    def want(x, w):
        exact, sums, missing = product(wide(x), wide(w), lambda x, w: picked(x, w, index))
        error = 0.0 if kind == "whole" else gamma(k) * sums + k * 2.0**-126
        return [Want(exact, settled(sums, error + missing))]

    text = f"gather_mm {kind} {list(index.shape)} {'sorted ' * ordered}{shown(x, w)}"
    return Case([x, w], run, want, text)
