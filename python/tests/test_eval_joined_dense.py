"""Linear layers of one row that a GPU computes as one kernel: values, and what keeps them apart."""

import os

import helpers as h
import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from test_eval_joined import UNIT, close, normal, rms, rounded, swiglu

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.validation,
    pytest.mark.usefixtures("none_disabled"),
]


def apart(f):
    return h.apart(f, "gemv_joined", "rope_rows")


class Layer:
    """A linear layer, without a bias at first, and its weights in float64."""

    def __init__(self, rng, rows, columns, dtype="float32"):
        self.layer = nn.Linear(columns, rows, bias=False)
        self.layer.weight = normal(rng, rows, columns, dtype=dtype, scale=0.1)
        self.values = h.to_np(self.layer.weight).astype(np.float64)

    def __call__(self, x):
        return self.layer(x)

    def of(self, x):
        return x @ self.values.T


@pytest.mark.parametrize("columns", [192, 1032])
@pytest.mark.parametrize("dtype", list(UNIT))
def test_products_of_one_normalised_row_are_one_kernel(rng, dtype, columns):
    layers = [Layer(rng, n, columns, dtype) for n in (40, 24, 7)]
    x, w = normal(rng, 1, 1, columns, dtype=dtype), normal(rng, columns, dtype=dtype)

    def products():
        y = mx.fast.rms_norm(x, w, 1e-5)
        return [layer(y) for layer in layers]

    out, ran = h.kernels(products)
    assert sum(ran.values()) == 1, ran
    row = rms(h.to_np(x), h.to_np(w), dtype)
    for got, layer in zip(out, layers, strict=True):
        assert got.shape == (1, 1, layer.values.shape[0])
        close(got, layer.of(row), dtype)


@pytest.mark.parametrize("dtype", list(UNIT))
def test_a_product_and_what_follows_are_one_kernel(rng, dtype):
    layer, x = Layer(rng, 75, 128, dtype), normal(rng, 1, 1, 128, dtype=dtype)
    res = normal(rng, 1, 1, 75, dtype=dtype)
    product = rounded(layer.of(h.to_np(x)), dtype)
    for f, expected in (
        (lambda: res + layer(x), h.to_np(res) + product),
        (lambda: mx.maximum(layer(x), res), np.maximum(product, h.to_np(res))),
        (
            lambda: mx.compile(lambda p, r: mx.tanh(p) * r + r)(layer(x), res),
            np.tanh(product) * h.to_np(res) + h.to_np(res),
        ),
    ):
        out, ran = h.kernels(f)
        assert sum(ran.values()) == 1, ran
        close(out, expected, dtype)
        close(apart(f), expected, dtype)


@pytest.mark.parametrize("dtype", list(UNIT))
@pytest.mark.parametrize("normalised", [True, False])
def test_layers_with_biases_are_one_kernel(rng, dtype, normalised):
    layers = [Layer(rng, n, 192, dtype) for n in (40, 24, 8)]
    biases = [normal(rng, n, dtype=dtype) for n in (40, 24, 8)]
    for layer, bias in zip(layers, biases, strict=True):
        layer.layer.bias = bias
    x, w = normal(rng, 1, 1, 192, dtype=dtype), normal(rng, 192, dtype=dtype)

    def products():
        y = mx.fast.rms_norm(x, w, 1e-5) if normalised else x
        return [layer(y) for layer in layers]

    out, ran = h.kernels(products)
    assert sum(ran.values()) == 1, ran
    row = rms(h.to_np(x), h.to_np(w), dtype) if normalised else h.to_np(x)
    for got, layer, bias, one in zip(out, layers, biases, apart(products), strict=True):
        assert got.shape == (1, 1, layer.values.shape[0])
        want = rounded(layer.of(row), dtype) + h.to_np(bias)
        close(got, want, dtype)
        close(one, want, dtype)


@pytest.mark.parametrize("dtype", list(UNIT))
@pytest.mark.parametrize("sizes", [(16,), (40, 24), (33, 8, 192)])
def test_a_normalised_row_is_stored_beside_products_with_biases(rng, dtype, sizes):
    """As a router with a bias does, before experts read the row too."""
    for columns in (192, 2048):
        layers = [Layer(rng, n, columns, dtype) for n in sizes]
        for layer, n in zip(layers, sizes, strict=True):
            layer.layer.bias = normal(rng, n, dtype=dtype)
        x, w = normal(rng, 1, 1, columns, dtype=dtype), normal(rng, columns, dtype=dtype)

        def both(layers=layers, x=x, w=w):
            y = mx.fast.rms_norm(x, w, 1e-5)
            return [mx.expand_dims(y, 0) * 2, *[layer(y) for layer in layers]]

        (twice, *out), ran = h.kernels(both)
        assert sum(ran.values()) == 2, ran
        row = rms(h.to_np(x), h.to_np(w), dtype)
        close(twice, row[None] * 2, dtype)
        for got, layer in zip(out, layers, strict=True):
            close(got, rounded(layer.of(row), dtype) + h.to_np(layer.layer.bias), dtype)
        for got, want in zip(both(), apart(both), strict=True):
            close(got, h.to_np(want).astype(np.float64), dtype)


def test_the_row_that_products_normalise_may_be_what_they_add(rng):
    a, b = Layer(rng, 192, 192), Layer(rng, 192, 192)
    x, w = normal(rng, 1, 192), normal(rng, 192)
    row = rms(h.to_np(x), h.to_np(w), "float32")
    for _ in range(10):
        y = mx.fast.rms_norm(x, w, 1e-5)
        got = [mx.addmm(y, y, m.layer.weight.T) for m in (a, b)]
        mx.eval(got, y)
        for one, m in zip(got, (a, b), strict=True):
            close(one, m.of(row) + row, "float32")


def test_what_is_added_may_be_made_between_and_by_products(rng):
    a, b, x = Layer(rng, 32, 64), Layer(rng, 32, 64), normal(rng, 1, 64)
    v, w = normal(rng, 32), normal(rng, 32)
    row, first = h.to_np(x), lambda: mx.addmm(v, x, a.layer.weight.T)
    one = a.of(row) + h.to_np(v)

    def by_product():
        p = first()
        return p, mx.addmm(p, x, b.layer.weight.T)

    def by_view_of_product():
        p = first()
        return p, mx.addmm(p.reshape(32), x, b.layer.weight.T)

    def between():
        p = first()
        return p, mx.addmm(mx.exp(w), x, b.layer.weight.T)

    for f, more in ((by_product, one), (by_view_of_product, one), (between, np.exp(h.to_np(w)))):
        for _ in range(20):
            got = f()
            mx.eval(got)
            close(got[0], one, "float32")
            close(got[1], b.of(row) + more, "float32")


def test_sums_that_are_none_of_a_bias_stay_apart(rng):
    a, b, x = Layer(rng, 33, 64), Layer(rng, 20, 64), normal(rng, 1, 64)
    c, d, one = normal(rng, 33), normal(rng, 20), mx.array(0.5)
    row = h.to_np(x)
    for scale, addends in ((2.0, (c, d)), (1.0, (one, d)), (1.0, (one, one))):
        f = lambda s=scale, e=addends: [  # noqa: E731
            mx.addmm(v, x, m.layer.weight.T, alpha=s) for v, m in zip(e, (a, b), strict=True)
        ]
        for got, layer, addend in zip(f(), (a, b), addends, strict=True):
            close(got, layer.of(row) * scale + h.to_np(addend), "float32")
    # Rows that differ.
    two, e = normal(rng, 2, 64), normal(rng, 2, 33)
    close(mx.addmm(e, two, a.layer.weight.T), a.of(h.to_np(two)) + h.to_np(e), "float32")


@pytest.mark.parametrize("dtype", list(UNIT))
def test_a_gated_unit_is_one_kernel(rng, dtype):
    gate, up = (Layer(rng, 45, 320, dtype) for _ in range(2))
    x, w = normal(rng, 1, 1, 320, dtype=dtype), normal(rng, 320, dtype=dtype)

    def unit():
        y = mx.fast.rms_norm(x, w, 1e-5)
        return swiglu(gate(y), up(y))

    out, ran = h.kernels(unit)
    assert sum(ran.values()) == 1, ran
    row = rms(h.to_np(x), h.to_np(w), dtype)
    g, u = (rounded(layer.of(row), dtype) for layer in (gate, up))
    close(out, g / (1 + np.exp(-g)) * u, dtype, 3)


def test_rows_without_further_axes(rng):
    a, b, x = Layer(rng, 33, 64), Layer(rng, 20, 64), normal(rng, 1, 64)
    out, ran = h.kernels(lambda: [x @ a.layer.weight.T, x @ b.layer.weight.T])
    assert sum(ran.values()) == 1, ran
    for got, layer in zip(out, (a, b), strict=True):
        close(got, layer.of(h.to_np(x)), "float32")


@pytest.mark.parametrize("gemv", ["64x4x2", "128x1x2", "32x4x4", "256x1x1", "16x2x3"])
def test_layouts(gemv):
    """Each in a process of its own: rows by more and by fewer threads than they have chunks."""
    program = """
import helpers as h, mlx.core as mx, numpy as np
from test_eval_joined_dense import Layer, apart, close, normal, rms, swiglu
mx.set_default_device(mx.gpu)
rng = np.random.default_rng(3)
for columns, dtype in ((24, "float32"), (520, "bfloat16"), (1544, "float16"), (4104, "float32")):
    layers = [Layer(rng, n, columns, dtype) for n in (70, 70, 3)]
    x, w = normal(rng, 1, 1, columns, dtype=dtype), normal(rng, columns, dtype=dtype)
    def products():
        y = mx.fast.rms_norm(x, w, 1e-5)
        return [layer(y) for layer in layers]
    out, ran = h.kernels(products)
    assert sum(ran.values()) == 1, ran
    row = rms(h.to_np(x), h.to_np(w), dtype)
    for got, layer in zip(out, layers):
        close(got, layer.of(row), dtype)
    unit = lambda: swiglu(layers[0](x), layers[1](x))
    out, ran = h.kernels(unit)
    assert sum(ran.values()) == 1, ran
    close(out, h.to_np(apart(unit)).astype(np.float64), dtype)
print("fine")
"""
    head = f"import sys\nsys.path.insert(0, {os.path.dirname(__file__)!r})"
    done = h.python(head + program, env={"MLX_VK_GEMV": gemv}, timeout=280)
    assert done.stdout.strip() == "fine"


def test_what_stays_apart(rng):
    a, b = Layer(rng, 32, 64), Layer(rng, 32, 64)
    x, y, w = normal(rng, 1, 1, 64), normal(rng, 1, 1, 64), normal(rng, 64)
    narrow = [Layer(rng, 8, 63), Layer(rng, 8, 63)]
    short, rows = normal(rng, 1, 1, 63), normal(rng, 1, 2, 64)
    wide = normal(rng, 64, 32)
    for f, count in (
        (lambda: [a(x), b(y)], 2),
        (lambda: [a(rows), b(rows)], 2),
        (lambda: [layer(short) for layer in narrow], 2),
        (lambda: [x @ wide, y @ wide], 2),
        (lambda: a(mx.fast.layer_norm(x, w, None, 1e-5)), 2),
    ):
        out, ran = h.kernels(f)
        assert sum(ran.values()) >= count, ran
        for got, want in zip(out, apart(f), strict=True):
            assert np.array_equal(h.to_np(got), h.to_np(want))


def test_arrays_in_between_that_are_held_are_computed(rng):
    layer, x, w = Layer(rng, 40, 128), normal(rng, 1, 1, 128), normal(rng, 128)
    res = normal(rng, 1, 1, 40)
    held = mx.fast.rms_norm(x, w, 1e-5)
    product = layer(held)
    out = res + product
    mx.eval(out)
    row = rms(h.to_np(x), h.to_np(w))
    close(held, row, "float32")
    close(product, layer.of(row), "float32")
    close(out, h.to_np(res) + layer.of(row), "float32")


def test_weights_that_lie_anywhere(rng):
    """Slices of a larger matrix, at offsets that kernels read in chunks and at others."""
    whole, x = normal(rng, 130, 64, dtype="float16"), normal(rng, 1, 1, 64, dtype="float16")
    parts = [whole[3:40], whole[40:], whole[:, :32], whole[1:34]]
    mx.eval(parts)
    values = [h.to_np(p).astype(np.float64) for p in parts]
    row = h.to_np(x).astype(np.float64)
    out = [x @ parts[0].T, x @ parts[1].T, x[..., :32] @ parts[2].T, x @ parts[3].T]
    mx.eval(out)
    close(out[0], row @ values[0].T, "float16")
    close(out[1], row @ values[1].T, "float16")
    close(out[2], row[..., :32] @ values[2].T, "float16")
    close(out[3], row @ values[3].T, "float16")


def test_derivatives_pass(rng):
    a, b = Layer(rng, 32, 64), Layer(rng, 32, 64)
    x, w = normal(rng, 1, 1, 64), normal(rng, 64)

    def loss(x):
        y = mx.fast.rms_norm(x, w, 1e-5)
        return swiglu(a(y), b(y)).sum()

    got, want = mx.grad(loss)(x), apart(lambda: mx.grad(loss)(x))
    close(got, h.to_np(want).astype(np.float64), "float32", 4)


def test_widest_graphs_are_walked_by_level(rng):
    """More weights than a level may be wide: their transpositions do not count."""
    layers = [[Layer(rng, 64, 64) for _ in range(3)] for _ in range(12)]
    x, w = normal(rng, 1, 1, 64), normal(rng, 64)

    def network():
        y = x
        for a, b, c in layers:
            z = mx.fast.rms_norm(y, w, 1e-5)
            y = y + c(swiglu(a(z), b(z)))
        return y

    out, ran = h.kernels(network)
    assert sum(ran.values()) == 2 * len(layers), ran
    close(out, h.to_np(apart(network)).astype(np.float64), "float32", 16)
