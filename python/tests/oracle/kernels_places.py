"""Cases of gathers and scatters, Fourier transforms, elementwise operations and casts."""

import math

import mlx.core as mx
import numpy as np
from kernels_check import F32, FUNCTION, HALF, Want, gamma
from kernels_draw import FLOATS, Case, In, held, wide
from kernels_products import shown
from kernels_rows import INTS, array

# Places


def gather(d):
    """take, take_along_axis and indexing, whose results are exact."""
    dtype = d.pick(*FLOATS, "int32", "uint8", "bool_", "complex64", "int64")
    shape = d.shape((1, 2, 3))
    axis = d.int(0, len(shape) - 1)
    n = shape[axis]
    a = cells(d, shape, dtype)
    op = d.pick("take", "along", "index")
    if op == "along":
        lengths = list(shape)
        lengths[axis] = d.int(1, 2 * n)
        index = d.rng.integers(-n, n, lengths)
    else:
        index = d.rng.integers(-n, n, d.pick((d.int(1, 40),), (d.int(1, 9), d.int(1, 9))))
    i = In(index.astype(np.int32), "int32", d.pick(("plain",), ("apart",)))

    def run(x, i):
        if op == "take":
            return [mx.take(x, i, axis)]
        if op == "along":
            return [mx.take_along_axis(x, i, axis)]
        return [x[(slice(None),) * axis + (i,)]]

    def want(x, i):
        if op == "along":
            return [Want(np.take_along_axis(x, i, axis))]
        return [Want(np.take(x, i, axis))]

    return Case([a, i], run, want, f"{op} {axis} {shown(a, i)}")


def cells(d, shape, dtype):
    if dtype == "bool_":
        return In(d.rng.random(shape) < 0.5, "bool_", d.form(len(shape)))
    if dtype == "complex64":
        return d.array(shape, dtype)
    return array(d, shape, dtype)


def scatter(d):
    """Updates by index: sums, products, largest, and assignments of distinct places."""
    dtype = d.pick(*FLOATS, "int32")
    rows, width = d.length(300), d.length(60) if d.chance(0.8) else 1
    count = d.length(400)
    rows, width, count = d.bounded([rows, width, count], 64 * d.most)
    op = d.pick("add", "add", "maximum", "minimum", "multiply", "set", "put")
    if op == "put":
        return put(d, dtype, rows, width)
    if op == "set":
        count = min(count, rows)
        index = d.rng.permutation(rows)[:count]
    else:
        index = d.rng.integers(0, max(1, rows // d.pick(1, 1, 8)), count)
    i = In(index.astype(np.int32), "int32")
    a = array(d, (rows, width), dtype, ("normal", "whole"))
    u = array(d, (count, width), dtype, ("normal", "whole"))
    if op == "multiply":
        u.values = np.where(np.abs(u.values) > 1, u.values.dtype.type(2), u.values.dtype.type(1))
        u.values = np.where(d.rng.random(u.values.shape) < 0.9, u.values.dtype.type(1), u.values)

    def run(a, u, i):
        if op == "set":
            b = mx.array(a)
            b[i] = u
            return [b]
        return [getattr(a.at[i], op)(u)]

    def want(a, u, i):
        a, u = wide(a), wide(u)
        y = a.copy()
        if op == "set":
            y[i] = u
            return [Want(y)]
        f = {"maximum": np.maximum, "minimum": np.minimum, "multiply": np.multiply}.get(op, np.add)
        f.at(y, i, u)
        if dtype not in FLOATS:
            return [Want(y.astype(np.int32))]
        if op != "add":
            return [Want(y, 0.0 if op != "multiply" else gamma(8) * np.abs(y))]
        sums = np.abs(a)
        np.add.at(sums, i, np.abs(u))
        times = np.zeros(rows)
        np.add.at(times, i, 1)
        error = gamma(times + 1)[:, None] * sums
        half = HALF[dtype] * (1 + 2.0**-6) * sums
        levels = math.ceil(math.log(count + 1, 8)) + 1
        return [Want(y, error, error + levels * half, error + times[:, None] * half)]

    text = f"scatter {op} {shown(a, u, i)}"
    return Case([a, u, i], run, want, text, rough=adds)


def adds(names):
    """1 where parts of long runs are added to elements of the dtype, 2 where every update is."""
    return 2 if not names else int(any("_level" in n for n in names))


def put(d, dtype, rows, width):
    """put_along_axis, each place once."""
    index = np.argsort(d.rng.random((rows, width)), 0).astype(np.int32)[: d.int(1, rows)]
    a = array(d, (rows, width), dtype, ("normal",))
    u = array(d, index.shape, dtype, ("normal",))
    i = In(index, "int32", d.form(2))

    def want(a, u, i):
        y = a.copy()
        np.put_along_axis(y, i, u, 0)
        return [Want(wide(y))]

    return Case(
        [a, u, i], lambda a, u, i: [mx.put_along_axis(a, i, u, 0)], want, f"put {shown(a, u, i)}"
    )


# Fourier transforms


def fft(d):
    """Complex and real transforms of one to three axes, with lengths of all kinds."""
    op = d.pick("fft", "ifft", "rfft", "irfft", "fft2", "fftn", "rfft2", "ifftn")
    axes = {"fft2": 2, "rfft2": 2, "fftn": 3, "ifftn": 3}.get(op, 1)
    lengths = []
    for _ in range(axes):
        most = {1: 3000, 2: 150, 3: 30}[axes]
        lengths.append(
            d.pick(2 ** d.int(0, 12), d.int(1, most), 3 * 2 ** d.int(0, 8), d.int(1, 64))
        )
    lengths = d.bounded(lengths, d.most // 2)
    batch = d.bounded([d.int(1, 40)], max(1, d.most // math.prod(lengths)))[0]
    shape = [batch, *lengths]
    real = op.startswith("rfft")
    if op == "irfft":
        shape[-1] = max(2, shape[-1])
    a = d.array(shape, "float32" if real else "complex64", form=d.form(len(shape), 0.6))
    names = tuple(range(-axes, 0))

    def call(module, x):
        f = getattr(module, op)
        return f(x) if op in ("fft", "ifft", "rfft", "irfft") else f(x, axes=names)

    def want(x):
        y = call(np.fft, wide(x))
        n = math.prod(lengths) if op != "irfft" else 2 * (shape[-1] - 1)
        sums = np.abs(wide(x)).sum(names, keepdims=True)
        scale = 1 / n if op.startswith("i") else 1
        if op == "irfft":
            sums = 2 * sums
        # Every number goes through so many steps of a few roundings each; transforms of lengths
        # with large factors are convolutions, of three transforms of up to four times the length.
        steps = 8 * math.log2(2 * n) + 16
        return [Want(y, np.broadcast_to(F32 * steps * scale * sums, y.shape))]

    return Case([a], lambda x: [call(mx.fft, x)], want, f"{op} {shown(a)}")


# Elementwise


UNARY = {
    "exp": (np.exp, lambda x: np.minimum(x, 8)),
    "log": (np.log, np.abs),
    "sqrt": (np.sqrt, np.abs),
    "sin": (np.sin, None),
    "tanh": (np.tanh, None),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), None),
    "abs": (np.abs, None),
    "negative": (np.negative, None),
    "square": (np.square, None),
    "floor": (np.floor, None),
}
BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "greater": np.greater,
    "equal": np.equal,
}
EXACT = {"abs", "negative", "floor", "maximum", "minimum", "greater", "equal"}


def rounded(y, name, dtype):
    """Correct to the last place, or to four units of float32; functions of 16 bits to 2^-17, of
    which the dtype keeps 2^-12 at most."""
    if name in EXACT or dtype not in FLOATS:
        return Want(y)
    steps = FUNCTION if dtype == "float32" or name == "divide" else 2.0**-17
    steps = 0.0 if name in ("add", "subtract", "multiply", "square") else steps
    return Want(y, steps * np.abs(y) + (1e-37 if steps else 0.0))


def unary(d):
    dtype = d.pick(*FLOATS)
    name = d.pick(*UNARY)
    f, domain = UNARY[name]
    a = d.array(d.shape(), dtype, "normal")
    if domain:
        a.values = held(domain(a.values), dtype)

    def want(x):
        with np.errstate(all="ignore"):
            return [rounded(f(wide(x)), name, dtype)]

    return Case([a], lambda x: [getattr(mx, name)(x)], want, f"{name} {shown(a)}")


def binary(d):
    """Two arrays that are broadcast, however they lie."""
    dtype = d.pick(*FLOATS, *FLOATS, "int32")
    name = d.pick(*BINARY)
    if dtype == "int32" and name == "divide":
        name = "multiply"
    shape = d.shape()
    pair = []
    for _ in range(2):
        own = [1 if d.chance(0.2) else n for n in shape]
        own = own[d.int(0, len(own) - 1) :] if d.chance(0.15) else own
        pair.append(array(d, own, dtype, ("normal", "whole")))
    if name == "divide":
        b = pair[1].values
        pair[1].values = np.where(b == 0, b.dtype.type(1), b)

    def want(x, y):
        out = BINARY[name](wide(x), wide(y))
        return [rounded(out, name, dtype)]

    def run(x, y):
        return [getattr(mx, name)(x, y)]

    return Case(pair, run, want, f"{name} {shown(*pair)}")


def select(d):
    """where, and sums of three products, compiled."""
    dtype = d.pick(*FLOATS)
    shape = d.shape()
    c = In(d.rng.random(shape) < 0.5, "bool_", d.form(len(shape)))
    a, b = (array(d, shape, dtype, ("normal",)) for _ in range(2))

    def want(c, a, b):
        return [Want(np.where(c, wide(a), wide(b)))]

    return Case([c, a, b], lambda c, a, b: [mx.where(c, a, b)], want, f"where {shown(c, a, b)}")


def elementwise(d):
    return d.pick(unary, unary, binary, binary, select)(d)


def cast(d):
    """Between all dtypes, of numbers that both have room for; and copies of any layout."""
    dtypes = (*FLOATS, *INTS, "bool_", "complex64")
    source, target = d.pick(*dtypes), d.pick(*dtypes)
    if source == "complex64" and target != "complex64":
        source = "float32"
    shape = d.shape()
    if source in FLOATS and target in INTS:
        x = (
            d.rng.uniform(0, 100, shape)
            if target.startswith("u")
            else d.rng.uniform(-99, 99, shape)
        )
        a = In(held(x, source), source, d.form(len(shape)))
    elif source in INTS and target in INTS:
        a = In(d.rng.integers(0, 100, shape).astype(source), source, d.form(len(shape)))
    else:
        a = cells(d, shape, source)
    to = getattr(mx, target)

    def want(x):
        if target == "bool_":
            return [Want(x != 0)]
        if target in INTS:
            return [Want(np.trunc(wide(x)).astype(target))]
        if target == "complex64":
            return [Want(wide(x).astype(np.complex128))]
        return [Want(wide(x).astype(np.float64))]

    def run(x):
        return [mx.contiguous(x) if source == target else x.astype(to)]

    return Case([a], run, want, f"{source} to {target} {shown(a)}")
