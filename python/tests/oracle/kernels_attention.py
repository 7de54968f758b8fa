"""Cases of attention and of its gradients."""

import mlx.core as mx
import numpy as np
from kernels_check import F32, HALF, Want, gamma
from kernels_draw import Case, In, held, wide
from kernels_products import shown, swap

LOWEST = -1e300
#: Least positive float16, as a share of the largest weight of a row.
LEAST = 2.0**-25


class Rows:
    """Exact attention, and what its scores and weights may be off where they are made by a kernel
    (`rough` 0) or by separate steps that round to the dtype (1); `more` is
    what scores are off besides."""

    def __init__(self, q, k, v, scale, mask, sinks, dtype, rough, more=0.0):
        self.half = HALF[dtype] if dtype != "float32" else 0.0
        self.least = LEAST if dtype == "float16" else 0.0
        self.rough = rough * HALF[dtype]
        self.under = rough * self.least
        self.group = q.shape[1] // k.shape[1]
        self.q, self.scale = q, scale
        self.k, self.v = (np.repeat(a, self.group, 1) for a in (k, v))
        scores = scale * (q @ swap(self.k))
        sums = scale * (np.abs(q) @ swap(np.abs(self.k)))
        # Where steps round, q is multiplied by the scale first, and scores are rounded.
        off = (gamma(q.shape[-1]) + self.rough) * sums + self.rough * np.abs(scores) + more
        if isinstance(mask, str):
            seen = np.tri(q.shape[2], k.shape[2], k.shape[2] - q.shape[2], dtype=bool)
            scores, off = np.where(seen, scores, LOWEST), np.where(seen, off, 0)
        elif mask is not None and mask.dtype == bool:
            scores, off = np.where(mask, scores, LOWEST), np.where(mask, off, 0)
        elif mask is not None:
            scores = scores + mask
            off = off + (F32 + self.rough) * np.abs(scores)
        self.gone = scores == LOWEST
        top = scores.max(-1, keepdims=True)
        if sinks is not None:
            sinks = sinks[:, None, None]
            top = np.maximum(top, sinks)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            weights = np.exp(scores - top)
            total = weights.sum(-1, keepdims=True)
            if sinks is not None:
                total = total + np.exp(sinks - top)
            self.p = weights / total
            # Of a weight, relative: its score, the difference, the power, and the sum of weights.
            there = (self.p > 0) & (scores > LOWEST)
            reach = np.where(there, np.abs(scores - top) + np.abs(scores), 0)
            own = np.where(self.p > 0, off, 0) + 4 * F32 * reach + 16 * F32
        self.own = own + gamma(k.shape[2]) + (self.p * own).sum(-1, keepdims=True)
        self.largest = self.p.max(-1, keepdims=True)
        # A weight of float16 may vanish: beside the largest of its row, or once divided by the sum.
        self.exact = self.p * self.own + self.least * (1 if rough else self.largest)
        self.off = self.p * (self.own + self.half + self.rough) + self.least

    def output(self):
        y = self.p @ self.v
        sums = self.p @ np.abs(self.v)
        # Weights are rounded for the product, and added up before they are or behind that; then
        # what counts is how far values are from their mean.
        spread = np.sqrt(np.maximum(self.p @ self.v**2 - y**2, 0))
        rounded = self.half * np.maximum(sums, spread) + self.rough * sums
        return y, self.exact @ np.abs(self.v) + rounded

    def gradients(self, cot):
        """Those of q, k and v, with bounds."""
        k, v, q, p, half = self.k, self.v, self.q, self.p, self.half
        y, y_off = self.output()
        y_off = y_off + half * np.abs(y)
        dp = cot @ swap(v)
        dp_off = gamma(v.shape[-1]) * (np.abs(cot) @ swap(np.abs(v))) + self.rough * np.abs(dp)
        dp_off = dp_off + self.under
        shared = (cot * y).sum(-1, keepdims=True)
        shared_off = (np.abs(cot) * (y_off + gamma(v.shape[-1]) * np.abs(y))).sum(-1, keepdims=True)
        if self.rough:
            # The sum over keys of rounded weights times rounded cotangents of them.
            terms = (self.off + 2 * self.rough * p) * np.abs(dp) + p * dp_off
            shared_off = (terms + self.under).sum(-1, keepdims=True)
            shared_off = shared_off + self.rough * np.abs(shared) + self.under
        ds = p * (dp - shared)
        ds_off = self.off * np.abs(dp - shared) + p * (dp_off + shared_off)
        ds_off = ds_off + (half + 3 * self.rough) * (np.abs(ds) + ds_off)
        ds_off = ds_off + 4 * F32 * p * (np.abs(dp) + np.abs(shared)) + self.least
        ds_off = ds_off + self.rough * p * np.abs(dp - shared) + 3 * self.under
        # Scores that a mask replaces depend on nothing, in rows without keys too.
        ds, ds_off = (np.where(self.gone, 0, a) for a in (ds, ds_off))
        n, rows = k.shape[2], q.shape[2] * self.group
        s = self.scale
        dq = s * (ds @ k), s * ((ds_off + gamma(n) * np.abs(ds)) @ np.abs(k))
        left = (ds_off + (gamma(rows) + self.rough) * np.abs(ds)), swap(ds)
        dk = s * (left[1] @ q), s * (swap(left[0]) @ np.abs(q))
        dv = swap(p) @ cot, swap(self.off + gamma(rows) * p) @ np.abs(cot)
        dq = dq[0], dq[1] + 2 * self.rough * np.abs(dq[0]) + self.under
        return dq, self.joined(dk), self.joined(dv)

    def joined(self, pair):
        """Sums over the heads that share keys."""
        return [a.reshape(a.shape[0], -1, self.group, *a.shape[2:]).sum(2) for a in pair]


def mask_of(d, b, h, length, n, dtype):
    """None, "causal", or an array that is broadcast."""
    some = d.rng.random()
    if some < 0.35:
        return None
    if some < 0.65:
        return "causal"
    shape = [b, h, length, n]
    for i in range(3):
        if d.chance(0.5):
            shape[i] = 1
    if d.chance(0.3):
        shape = shape[2:]
    if d.chance(0.5):
        seen = d.rng.random(shape) < d.pick(0.2, 0.7, 0.95)
        if d.chance(0.5):  # whole blocks, none of it a row without keys
            seen[..., : n // 2] = False
            seen[..., -1] = True
        return In(seen, "bool_")
    numbers = held(d.rng.standard_normal(shape) * 2, dtype)
    if d.chance(0.3):
        numbers = np.where(d.rng.random(shape) < 0.3, np.float32(-np.inf), numbers)
        numbers[..., 0] = 0
    return In(numbers.astype(held(np.zeros(1), dtype).dtype), dtype)


def heads_form(d):
    """How q, k and v lie: often (batch, length, heads, size) in memory."""
    return d.pick(("plain",), ("heads",), ("heads",), ("cut", 0, 16), ("rows",), ("offset", 8))


def drawn(d, gradients=False):
    """Arrays of an attention, its mask, sinks and scale."""
    dtype = d.pick("bfloat16", "bfloat16", "float16", "float16", "float32")
    size = d.pick(64, 64, 128, 128, 80, 96, 256, 72, 32)
    kv, group, b = d.pick(1, 1, 2, 4), d.pick(1, 1, 2, 3, 4, 8), d.pick(1, 1, 1, 2, 3)
    length, n = d.length(500), d.length(700)
    some = d.rng.random()
    if some < 0.3 and not gradients:
        length = d.int(1, 8)
    elif some < 0.7:
        n = length
    work = d.work // (16 if gradients else 8)
    length, n = (min(v, 300 if gradients else 4500) for v in (length, n))
    length, n = d.bounded([length, n], max(1, work // (b * kv * group * size)))
    mask = mask_of(d, b, kv * group, length, n, dtype)
    if isinstance(mask, str) and length > n and d.chance(0.9):
        length = n
    kind = d.pick("normal", "normal", "normal", "large", "positive")
    shapes = (b, kv * group, length, size), (b, kv, n, size), (b, kv, n, size)
    arrays = []
    for i, shape in enumerate(shapes):
        x = d.rng.standard_normal(shape, np.float32)
        x = np.abs(x) if kind == "positive" and i == 2 else x
        x = x * 4 if kind == "large" and i < 2 else x
        arrays.append(In(held(x, dtype), dtype, heads_form(d)))
    sinks = None
    if d.chance(0.15):
        sinks = In(held(d.rng.standard_normal(kv * group) * 2, dtype), dtype)
    return dtype, arrays, mask, sinks, d.pick(size**-0.5, size**-0.5, 0.1)


def told(arrays, mask, sinks, scale):
    what = "array" if isinstance(mask, In) else mask
    what = f"{mask.dtype}{list(mask.values.shape)}" if what == "array" else what
    return f"mask {what} {'sinks ' * (sinks is not None)}scale {scale:.3g} {shown(*arrays)}"


def split(arrays, mask, sinks):
    """Arrays of a call as q, k, v and options."""
    rest = list(arrays[3:])
    given = rest.pop(0) if isinstance(mask, In) else mask
    return arrays[:3], given, rest.pop(0) if sinks is not None else None


def exact_rows(values, mask, sinks, scale, dtype, rough):
    (q, k, v), given, own = split(values, mask, sinks)
    given = wide(given) if isinstance(given, np.ndarray) else given
    own = None if own is None else wide(own)
    scale = float(np.float32(scale))
    return Rows(wide(q), wide(k), wide(v), scale, given, own, dtype, rough)


def attention(d):
    """scaled_dot_product_attention."""
    dtype, arrays, mask, sinks, scale = drawn(d)
    inputs = arrays + [a for a in (mask, sinks) if isinstance(a, In)]

    def run(*x):
        (q, k, v), given, own = split(x, mask, sinks)
        f = mx.fast.scaled_dot_product_attention
        return [f(q, k, v, scale=scale, mask=given, sinks=own)]

    def want(*values):
        made = [exact_rows(values, mask, sinks, scale, dtype, r).output() for r in (0, 1)]
        return [Want(made[0][0], made[0][1], made[1][1])]

    return Case(
        inputs,
        run,
        want,
        f"attention {told(arrays, mask, sinks, scale)}",
        rough=lambda names: not any(n.startswith("sdpa") for n in names),
    )


def attention_grad(d):
    """Gradients for q, k and v."""
    dtype, arrays, mask, sinks, scale = drawn(d, gradients=True)
    cot = In(held(d.rng.standard_normal(arrays[0].values.shape), dtype), dtype)
    inputs = arrays + [a for a in (mask, sinks) if isinstance(a, In)] + [cot]

    def run(*x):
        (q, k, v), given, own = split(x[:-1], mask, sinks)

        def f(q, k, v):
            return mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=given, sinks=own)

        return mx.vjp(f, [q, k, v], [x[-1]])[1]

    def want(*values):
        made = [
            exact_rows(values[:-1], mask, sinks, scale, dtype, r).gradients(wide(values[-1]))
            for r in (0, 1)
        ]
        return [Want(one[0], one[1], two[1]) for one, two in zip(*made, strict=True)]

    return Case(
        inputs,
        run,
        want,
        f"gradients of attention {told(arrays, mask, sinks, scale)}",
        rough=lambda names: not any(n.startswith("sdpa_grad") for n in names),
    )
