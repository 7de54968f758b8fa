"""Cases of reductions, softmax, normalisations, sorting and scans."""

import math

import mlx.core as mx
import numpy as np
from kernels_check import F32, FUNCTION, HALF, Ball, Want, gamma, settled
from kernels_draw import FLOATS, Case, In, wide
from kernels_products import shown

INTS = ("int8", "uint8", "int16", "int32", "uint32", "int64")


def axes_of(d, rank):
    """Some axes, in order; one of them as a number now and then."""
    if d.chance(0.3):
        return (rank - 1,)
    some = [i for i in range(rank) if d.chance(0.5)]
    return tuple(some or [d.int(0, rank - 1)])


def integers(d, shape, dtype):
    low, high = (0, 100) if dtype.startswith("u") else (-100, 100)
    return In(d.rng.integers(low, high, shape).astype(dtype), dtype, d.form(len(shape)))


def array(d, shape, dtype, kinds=("normal", "normal", "positive", "whole", "offset")):
    """Numbers for sums: some far from zero compared with how they differ."""
    if dtype in INTS:
        return integers(d, shape, dtype)
    kind = d.pick(*kinds)
    a = d.array(shape, dtype, "normal" if kind == "offset" else kind)
    if kind == "offset":
        a.values = (a.values / type(a.values.flat[0])(8) + type(a.values.flat[0])(4)).astype(
            a.values.dtype
        )
        if dtype == "bfloat16":
            a.values = (a.values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return a


def in_steps(names):
    """Whether separate kernels (or the CPU) computed something, each rounding to the dtype."""
    return not names or any(n.startswith(("divide", "subtract")) for n in names)


def stepped(op, x, axes, n, dtype):
    """The bound of such steps."""
    x = Ball(x, np.zeros_like(x), HALF[dtype])
    if op in ("mean", "var", "std"):
        y = x.total(axes, n) / n
        if op != "mean":
            apart = x - y
            y = (apart * apart).total(axes, n) / n
        y = y.sqrt() if op == "std" else y
    else:
        top = x.value.max(axes, keepdims=True)
        e = (x - top).exp()
        y = e.total(axes, n)
        if op == "softmax":
            return (e / y).error
        y = y.log() + top
    return y.error.squeeze(axes)


def reduce_sum(d):
    """sum and mean."""
    dtype = d.pick(*FLOATS, *FLOATS, "int32", "uint8")
    shape = d.shape()
    axes = axes_of(d, len(shape))
    a = array(d, shape, dtype)
    n = math.prod(shape[i] for i in axes)
    op = d.pick("sum", "sum", "mean") if dtype in FLOATS else "sum"
    keep = d.chance(0.3)

    def want(x):
        x = wide(x)
        if dtype not in FLOATS:
            wraps = np.uint32 if dtype.startswith("u") else np.int32
            return [Want(x.sum(axes, keepdims=keep).astype(wraps))]
        y, s = x.sum(axes, keepdims=keep), np.abs(x).sum(axes, keepdims=keep)
        if op == "sum":
            return [Want(y, settled(s, gamma(n) * s))]
        rough = stepped(op, x, axes, n, dtype).reshape(y.shape)
        return [Want(y / n, gamma(n) * s / n, rough)]

    def run(x):
        return [getattr(mx, op)(x, axes, keepdims=keep)]

    return Case([a], run, want, f"{op} {axes} {shown(a)}", rough=in_steps)


def reduce_other(d):
    """max, min, prod, all, any, var, std and logsumexp."""
    dtype = d.pick(*FLOATS)
    shape = d.shape()
    axes = axes_of(d, len(shape))
    n = math.prod(shape[i] for i in axes)
    op = d.pick("max", "min", "prod", "all", "any", "var", "std", "logsumexp")
    a = array(d, shape, dtype)
    if op == "prod":
        a.values = np.where(np.abs(a.values) < 1.5, a.values.dtype.type(1.0), a.values / a.values)
        a.values = np.where(d.rng.random(shape) < 3 / n, a.values.dtype.type(-1.5), a.values)
    if op in ("all", "any"):
        a.values = np.where(d.rng.random(shape) < 2 / n, 0, 1).astype(a.values.dtype)
        if op == "any":
            a.values = 1 - a.values

    def want(x):
        x = wide(x)
        if op in ("max", "min", "all", "any"):
            return [Want(getattr(np, op)(x, axes))]
        if op == "prod":
            y = x.prod(axes)
            return [Want(y, gamma(n) * np.abs(y))]
        if op == "logsumexp":
            return [log_sum(x, axes, n, stepped(op, x, axes, n, dtype))]
        return [spread(x, axes, n, op, stepped(op, x, axes, n, dtype))]

    def run(x):
        return [getattr(mx, op)(x, axes)]

    return Case([a], run, want, f"{op} {axes} {shown(a)}", rough=in_steps)


def log_sum(x, axes, n, rough):
    top = x.max(axes, keepdims=True)
    e = np.exp(x - top)
    total = e.sum(axes, keepdims=True)
    off = (e * (4 * F32 * (np.abs(x - top) + np.abs(x)) + FUNCTION)).sum(axes, keepdims=True)
    off = off / total + gamma(n)
    y = np.log(total) + top
    off = off + FUNCTION * np.abs(np.log(total)) + 2 * F32 * (np.abs(y) + np.abs(top))
    return Want(np.squeeze(y, axes), np.squeeze(off, axes), rough)


def spread(x, axes, n, op, rough):
    """Variance and deviation: of differences from a mean that is a float32 sum."""
    middle = x.mean(axes, keepdims=True)
    off = gamma(n) * np.abs(x).mean(axes)
    y = ((x - middle) ** 2).mean(axes)
    apart = np.abs(x - middle).mean(axes)
    error = 2 * gamma(n) * y + off**2 + 2 * off * gamma(n) * apart
    error = error + 2 * F32 * np.abs(middle.squeeze(axes)) * 2 * apart
    error = error + (2 * F32 * np.abs(middle.squeeze(axes))) ** 2
    if op == "var":
        return Want(y, error, rough)
    with np.errstate(all="ignore"):
        below = np.where(y > error, error / np.sqrt(np.maximum(y, 1e-300)), np.sqrt(error))
    return Want(np.sqrt(y), below + 4 * FUNCTION * np.sqrt(y), rough)


def arg_reduce(d):
    """argmax and argmin: the first of equals."""
    dtype = d.pick(*FLOATS, "int32")
    shape = d.shape()
    axis = d.int(0, len(shape) - 1) if d.chance(0.5) else len(shape) - 1
    a = array(d, shape, dtype, ("normal", "whole"))
    op = d.pick("argmax", "argmin")

    def want(x):
        return [Want(getattr(np, op)(x, axis).astype(np.uint32))]

    return Case([a], lambda x: [getattr(mx, op)(x, axis)], want, f"{op} {axis} {shown(a)}")


def softmax(d):
    dtype = d.pick(*FLOATS)
    shape = d.shape()
    axis = -1 if d.chance(0.7) else d.int(0, len(shape) - 1)
    a = array(d, shape, dtype)
    n = shape[axis]
    precise = d.chance(0.5)

    def want(x):
        x = wide(x)
        top = x.max(axis, keepdims=True)
        e = np.exp(x - top)
        y = e / e.sum(axis, keepdims=True)
        own = 4 * F32 * (np.abs(x - top) + np.abs(x)) + FUNCTION
        shared = (y * own).sum(axis, keepdims=True) + gamma(n)
        return [Want(y, y * (own + shared), stepped("softmax", x, axis, n, dtype))]

    def run(x):
        return [mx.softmax(x, axis, precise=precise)]

    return Case([a], run, want, f"softmax {axis} {shown(a)}", rough=in_steps)


def norm(d):
    """rms_norm and layer_norm."""
    dtype = d.pick(*FLOATS)
    n = d.length(3000) if d.chance(0.5) else 64 * d.int(1, 64)
    rows = d.int(1, 16) if d.chance(0.4) else d.length(400)
    n, rows = d.bounded([min(n, d.most), rows], d.most)
    shape = (rows, n) if d.chance(0.7) else (d.int(1, 3), rows, n)
    a = d.array(shape, dtype, d.pick("normal", "positive", "scaled"), axis=-2)
    a.form = d.pick(("plain",), a.form)
    w = In(d.numbers((n,), dtype, "normal"), dtype)
    b = In(d.numbers((n,), dtype, "normal"), dtype)
    eps = 1e-5
    op = d.pick("rms", "layer")
    weighed = d.chance(0.85)

    def rms(x, w):
        square = (x * x).mean(-1, keepdims=True)
        root = 1 / np.sqrt(square + np.float64(np.float32(eps)))
        y = x * root * w
        return Want(y, np.abs(y) * (gamma(n) / 2 + 2 * FUNCTION))

    def layer(x, w, b):
        middle = x.mean(-1, keepdims=True)
        off = gamma(n) * np.abs(x).mean(-1, keepdims=True) + 2 * F32 * np.abs(middle)
        y = x - middle
        square = (y * y).mean(-1, keepdims=True)
        root = 1 / np.sqrt(square + np.float64(np.float32(eps)))
        part = gamma(n) + off**2 * root**2 + 2 * off * root * gamma(n)
        error = root * off + np.abs(y) * root * (part + 2 * FUNCTION) + 2 * F32 * np.abs(x) * root
        out = y * root * w + b
        return Want(out, np.abs(w) * error + 2 * F32 * (np.abs(out) + np.abs(b)))

    def want(x, *rest):
        rest = [wide(v) for v in rest] or [np.ones(n), np.zeros(n)]
        return [rms(wide(x), rest[0]) if op == "rms" else layer(wide(x), *rest)]

    if op == "rms":
        inputs = [a, w][: 1 + weighed]
        return Case(
            inputs,
            lambda x, w=None: [mx.fast.rms_norm(x, w, eps)],
            want,
            f"rms_norm {weighed} {shown(a)}",
        )
    inputs = [a, w, b] if weighed else [a]
    return Case(
        inputs,
        lambda x, w=None, b=None: [mx.fast.layer_norm(x, w, b, eps)],
        want,
        f"layer_norm {weighed} {shown(a)}",
    )


# Sorting and scans


def sort(d):
    """sort, argsort, topk and partition, whose results are exact."""
    dtype = d.pick(*FLOATS, "int32", "uint32", "int64", "uint8")
    shape = d.shape((1, 2, 3))
    if d.chance(0.1) and d.work > 1 << 24:
        shape = [d.int(1, 4), d.int(4000, 100_000)]
    axis = -1 if d.chance(0.7) else d.int(0, len(shape) - 1)
    a = array(d, shape, dtype, ("normal", "whole"))
    op = d.pick("sort", "sort", "argsort", "topk", "argpartition")
    n = shape[axis]
    k = d.int(1, min(n, 64)) if op == "topk" else d.int(0, n - 1)

    def run(x):
        if op == "sort":
            return [mx.sort(x, axis)]
        if op == "argsort":
            i = mx.argsort(x, axis)
            return [mx.take_along_axis(x, i, axis), mx.sort(i, axis)]
        if op == "topk":
            return [mx.sort(mx.topk(x, k, axis), axis)]
        i = mx.argpartition(x, k, axis)
        y = mx.take_along_axis(x, i, axis)
        low, middle, high = mx.split(y, [k, k + 1], axis)
        return [middle, mx.sort(low, axis), mx.sort(high, axis), mx.sort(i, axis)]

    def want(x):
        x = wide(x)
        y = np.sort(x, axis)
        order = np.arange(n, dtype=np.uint32)
        order = np.broadcast_to(order if axis == -1 else along(order, axis, x.ndim), x.shape)
        if op == "sort":
            return [Want(y)]
        if op == "argsort":
            return [Want(y), Want(order)]
        if op == "topk":
            return [Want(np.take(y, range(n - k, n), axis))]
        parts = [np.take(y, r, axis) for r in ([k], range(k), range(k + 1, n))]
        return [*map(Want, parts), Want(order)]

    return Case([a], run, want, f"{op} {axis} {k} {shown(a)}")


def along(x, axis, rank):
    return x.reshape([-1 if i == axis % rank else 1 for i in range(rank)])


def scan(d):
    """cumsum, cumprod, cummax and cummin, either way, with and without the element itself."""
    dtype = d.pick(*FLOATS, *FLOATS, "int32")
    shape = d.shape()
    axis = -1 if d.chance(0.6) else d.int(0, len(shape) - 1)
    a = array(d, shape, dtype)
    op = d.pick("cumsum", "cumsum", "cumsum", "cummax", "cummin")
    reverse, inclusive = d.chance(0.3), d.chance(0.8) or op != "cumsum"

    def plain(f, x):
        x = np.flip(x, axis) if reverse else x
        y = f(x, axis)
        if not inclusive:
            y = y - x
        return np.flip(y, axis) if reverse else y

    def want(x):
        x = wide(x)
        if op != "cumsum":
            return [Want(plain((np.maximum if op == "cummax" else np.minimum).accumulate, x))]
        if dtype not in FLOATS:
            return [Want(plain(np.cumsum, x).astype(np.int32))]
        # In float64 the element itself would cancel what it left.
        first = np.moveaxis(np.flip(x, axis) if reverse else x, axis, -1)
        if not inclusive:
            first = np.concatenate([np.zeros_like(first[..., :1]), first[..., :-1]], -1)
        y, s = np.cumsum(first, -1), np.cumsum(np.abs(first), -1)
        y, s = (np.moveaxis(v, -1, axis) for v in (y, s))
        y, s = (np.flip(v, axis) if reverse else v for v in (y, s))
        return [Want(y, gamma(shape[axis]) * s)]

    f = getattr(mx, op)
    text = f"{op} {axis} {'reverse ' * reverse}{'inclusive ' * inclusive}{shown(a)}"
    return Case([a], lambda x: [f(x, axis, reverse=reverse, inclusive=inclusive)], want, text)
