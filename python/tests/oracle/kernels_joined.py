"""Cases of steps that GPUs join: products of few rows with what stands around them, and attention
of one position with rotations and caches."""

import mlx.core as mx
import numpy as np
from kernels_attention import Rows
from kernels_check import F32, HALF, Ball, Want
from kernels_draw import Case, In, held, wide
from kernels_products import OnArrays, OnBalls, shown
from kernels_quantized import COMMON, Codes, rounds

EPS = 1e-5


class Dense:
    """A random matrix, as `Codes`."""

    def __init__(self, d, shape, dtype):
        self.inputs = [In(d.numbers(shape, dtype, "normal"), dtype)]

    def exact(self, w):
        w = wide(w)
        return w, np.zeros_like(w), np.abs(w)

    def apply(self, x, arrays):
        return x @ arrays[0].T


class Quantized(Codes):
    def apply(self, x, arrays):
        args, options = self.call(arrays)
        return mx.quantized_matmul(x, *args, transpose=True, **options)


class Steps:
    """Products and normalisations by number, on arrays."""

    def __init__(self, matrices, arrays, weights):
        self.matrices, self.weights, self.fn = matrices, weights, OnArrays
        self.arrays = arrays

    def product(self, i, x):
        return self.matrices[i].apply(x, self.arrays[i])

    def norm(self, i, x):
        return mx.fast.rms_norm(x, self.weights[i], EPS)


class ExactSteps:
    """The same on numbers with bounds; `rough` where elements of matrices are rounded."""

    def __init__(self, made, weights, half, rough):
        self.made, self.weights, self.half, self.rough = made, weights, half, rough
        self.fn = OnBalls

    def product(self, i, x):
        w, scaled, magnitudes = self.made[i]
        off = self.half * (scaled + (1 + self.half) * np.abs(w) + self.half * scaled)
        return x.product(w, magnitudes, off + 2 * F32 * magnitudes if self.rough else 0.0)

    def norm(self, i, x):
        return x.rms_norm(self.weights[i], float(np.float32(EPS)))


def gated(f, x):
    y = f.product(1, x)
    return y * f.fn.sigmoid(y) * f.product(2, x)


def layer(f, x, r):
    after = r + f.product(0, x)
    out = after + f.product(3, gated(f, f.norm(0, after)))
    row = f.norm(1, out)
    return [out, f.product(1, row), f.product(2, row)]


#: Steps of `Steps` and a row, a residual.
PROGRAMS = {
    "normed": lambda f, x, r: [f.product(1, f.norm(0, x))],
    "residual": lambda f, x, r: [r + f.product(0, x)],
    "gated": lambda f, x, r: [gated(f, x)],
    "normed gated": lambda f, x, r: [gated(f, f.norm(0, x))],
    "two": lambda f, x, r: [f.product(i, f.norm(0, x)) for i in (1, 2)],
    "layer": layer,
}


def joined(d):
    """Few rows by matrices of 16 bits, float32 or codes, with what comes before and after."""
    dtype = d.pick("bfloat16", "bfloat16", "float16", "float32")
    m = 1 if d.chance(0.5) else d.int(2, 64)
    unit = 64 if d.most < 1 << 16 else d.pick(64, 128, 256)
    width, inner = (unit * d.int(1, 4 if d.most < 1 << 16 else 12) for _ in range(2))
    mode = None if d.chance(0.4) else d.pick(*COMMON, ("affine", 4, 64))
    if mode:
        width, inner = (-(-n // mode[2]) * mode[2] for n in (width, inner))
    shapes = (width, width), (inner, width), (inner, width), (width, inner)
    if mode:
        matrices = [Quantized(d, s, mode, dtype, "small") for s in shapes]
    else:
        matrices = [Dense(d, s, dtype) for s in shapes]
        for w in matrices:
            w.inputs[0].values = w.inputs[0].values / w.inputs[0].values.dtype.type(16)
    name = d.pick(*PROGRAMS)
    x, r = (In(d.numbers((m, width), dtype, "normal"), dtype) for _ in range(2))
    weights = [In(d.numbers((width,), dtype, "normal"), dtype) for _ in range(2)]
    counts = [len(w.inputs) for w in matrices]
    starts = np.cumsum([4, *counts])

    def parts(values):
        return [values[a:b] for a, b in zip(starts, starts[1:], strict=False)]

    def run(x, r, *rest):
        steps = Steps(matrices, parts((x, r, *rest)), rest[:2])
        return PROGRAMS[name](steps, x, r)

    def want(*values):
        made = [w.exact(*v) for w, v in zip(matrices, parts(values), strict=True)]
        norms = [wide(w) for w in values[2:4]]
        bounds = []
        for rough in (False, True):
            x, r = (Ball(wide(v), np.zeros(v.shape), HALF[dtype]) for v in values[:2])
            steps = ExactSteps(made, norms, HALF[dtype], rough)
            bounds.append([b.kept() for b in PROGRAMS[name](steps, x, r)])
        return [Want(a.value, a.bound(0), b.bound(0)) for a, b in zip(*bounds, strict=True)]

    inputs = [x, r, *weights, *(a for w in matrices for a in w.inputs)]
    text = f"{name}, {m} rows of {dtype}, {width}, {inner}, {mode or 'dense'}"
    return Case(inputs, run, want, text, rough=rounds)


# Attention of one position


def turned(x, off, at, traditional, half):
    """Rotated rows of (batch, heads, 1, size) at positions (batch), and how far off they may be."""
    size = x.shape[-1]
    angle = at[:, None] * 10000.0 ** (-2 * np.arange(size // 2) / size)
    angle = angle[:, None, None]
    pick = (slice(0, None, 2), slice(1, None, 2)) if traditional else None
    low, high = pick or (slice(0, size // 2), slice(size // 2, None))
    a, b = x[..., low], x[..., high]
    y, e = np.empty_like(x), np.empty_like(x)
    y[..., low], y[..., high] = (
        a * np.cos(angle) - b * np.sin(angle),
        a * np.sin(angle) + b * np.cos(angle),
    )
    # The power that an angle is made of has an exponent of up to 14, good to some units itself.
    near = off[..., low] + off[..., high] + (32 * F32 * angle + 8 * F32) * (np.abs(a) + np.abs(b))
    e[..., low] = e[..., high] = near
    return y, e + half * (np.abs(y) + e)


def one_mask(d, b, n, dtype):
    """A mask of one position's keys, or none."""
    if d.chance(0.5):
        return None
    if d.chance(0.5):
        seen = d.rng.random((b, 1, 1, n)) < 0.7
        seen[..., -1] = True
        return In(seen, "bool_")
    return In(held(d.rng.standard_normal((b, 1, 1, n)), dtype), dtype)


def token(d):
    """One position: normalised, rotated, put into caches, and what it attends to."""
    dtype = d.pick("bfloat16", "bfloat16", "float16", "float32")
    size, kv = d.pick(64, 64, 128, 128, 80, 96), d.pick(1, 1, 2, 4)
    group, b = d.pick(1, 2, 3, 4, 8), d.pick(1, 1, 2, 3, 8)
    n = d.length(1200)
    n = d.bounded([n], max(1, d.work // (64 * b * kv * group * size)))[0]
    room, past = n + d.int(0, 9), n - 1
    normalised, traditional, half = d.chance(0.5), d.chance(0.2), HALF[dtype]
    mask = one_mask(d, b, n, dtype)
    scale = float(np.float32(size**-0.5))
    shapes = [(b, 1, h, size) for h in (kv * group, kv, kv)] + 2 * [(b, kv, room, size)]
    inputs = [In(d.numbers(s, dtype, "normal"), dtype) for s in shapes]
    inputs += [In(d.numbers((size,), dtype, "positive"), dtype) for _ in range(2)]
    inputs += [mask] if mask else []

    def run(q, k, v, keys, values, *rest):
        caches = [keys * 1, values * 1]
        mx.eval(caches)
        if normalised:
            q, k = (mx.fast.rms_norm(y, w, EPS) for y, w in zip((q, k), rest, strict=False))
        q, k, v = (y.transpose(0, 2, 1, 3) for y in (q, k, v))
        how = {"traditional": traditional, "base": 10000.0, "scale": 1.0, "offset": past}
        q, k = (mx.fast.rope(y, size, **how) for y in (q, k))
        caches[0][..., past:n, :] = k
        caches[1][..., past:n, :] = v
        k, v = (y[..., :n, :] for y in caches)
        given = rest[2] if mask else None
        y = mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=given)
        return [y, *caches]

    def want(q, k, v, keys, values, *rest):
        rows = []
        for y, w in zip((q, k), rest, strict=False):
            y = Ball(wide(y), np.zeros(y.shape), half)
            y = y.rms_norm(wide(w), float(np.float32(EPS))) if normalised else y
            y, off = (a.swapaxes(1, 2) for a in (y.value, y.error))
            rows.append(turned(y, off, np.full(b, past), traditional, half))
        (q, q_off), (new, new_off) = rows
        keys, values = wide(keys).copy(), wide(values).copy()
        keys[:, :, past:n], values[:, :, past:n] = new, wide(v).swapaxes(1, 2)
        off = np.zeros_like(keys)
        off[:, :, past:n] = new_off
        k, o, v = (np.repeat(a[:, :, :n], group, 1) for a in (keys, off, values))
        more = np.abs(q) @ o.swapaxes(-1, -2) + q_off @ (np.abs(k) + o).swapaxes(-1, -2)
        given = wide(rest[2]) if mask else None
        made = [
            Rows(q, keys[:, :, :n], values[:, :, :n], scale, given, None, dtype, r, scale * more)
            for r in (0, 1)
        ]
        (y, near), (_, far) = (rows.output() for rows in made)
        return [Want(y, near, far), Want(keys, off), Want(values)]

    what = mask.dtype if mask else None
    text = f"one position {past} of {shown(*inputs[:2])}, mask {what}, {normalised} {traditional}"
    return Case(inputs, run, want, text, rough=lambda names: not any("sdpa" in n for n in names))
