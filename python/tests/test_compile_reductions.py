"""compile: folds of the last axis with what comes before and after them in one kernel."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest


def softmax(x, w=None, b=None):
    e = mx.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rms(x, w, b):
    return x * mx.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w


def layer(x, w, b):
    d = x - x.mean(-1, keepdims=True)
    return d * mx.rsqrt((d * d).mean(-1, keepdims=True) + 1e-5) * w + b


def dropped(x, w, b):
    """Folds without their axis, which comes back by a reshape; several results of both kinds."""
    low, high = x.min(-1), mx.abs(x).max(-1)
    scaled = (x - mx.expand_dims(low, -1)) / (high - low)[..., None]
    return scaled * w, low + 1, scaled.sum(-1), scaled > 0.5


def before(x, w, b):
    return mx.sum(mx.abs(x) * w, -1), mx.prod(1 + 0.01 * mx.tanh(x + b), -1, keepdims=True)


FORMS = {"softmax": softmax, "rms": rms, "layer": layer, "dropped": dropped, "before": before}


def reference(name, x, w, b):
    keep = {"axis": -1, "keepdims": True}
    if name == "softmax":
        e = np.exp(x - x.max(**keep))
        return [e / e.sum(**keep)]
    if name == "rms":
        return [x / np.sqrt((x * x).mean(**keep) + 1e-5) * w]
    if name == "layer":
        d = x - x.mean(**keep)
        return [d / np.sqrt((d * d).mean(**keep) + 1e-5) * w + b]
    if name == "dropped":
        low, high = x.min(**keep), np.abs(x).max(**keep)
        scaled = (x - low) / (high - low)
        return [scaled * w, low[..., 0] + 1, scaled.sum(-1), scaled > 0.5]
    return [(np.abs(x) * w).sum(-1), np.prod(1 + 0.01 * np.tanh(x + b), **keep)]


def as_list(r):
    return list(r) if isinstance(r, tuple) else [r]


def draw(rng, shape, dtype="float32"):
    x = rng.normal(size=shape).astype(np.float32)
    return h.from_np(x, dtype), h.to_np(h.from_np(x, dtype)).astype(np.float64)


def check(name, shape, rng, dtype="float32", eager=True):
    (x, nx), (w, nw), (b, nb) = (draw(rng, s, dtype) for s in (shape, shape[-1:], shape[-1:]))
    f = FORMS[name]
    got = as_list(mx.compile(f)(x, w, b))
    want = reference(name, nx, nw, nb)
    tol = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 8e-2}[dtype]
    assert len(got) == len(want)
    for g, r in zip(got, want, strict=True):
        assert g.shape == r.shape
        if g.dtype != mx.bool_:
            scale = max(1.0, np.abs(r).max())
            np.testing.assert_allclose(h.to_np(g), r, rtol=tol, atol=tol * scale, err_msg=name)
    if eager:
        # Each operation rounds as by itself: only the order of sums may differ.
        tol = {"float32": 4e-6, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
        for g, e in zip(got, as_list(f(x, w, b)), strict=True):
            assert g.dtype == e.dtype
            g, e = h.to_np(g).astype(np.float64), h.to_np(e).astype(np.float64)
            scale = max(1.0, np.abs(e).max())
            if g.dtype != bool:
                np.testing.assert_allclose(g, e, rtol=tol, atol=tol * scale, err_msg=name)


@pytest.mark.parametrize("name", list(FORMS))
def test_equals_numpy(name, rng):
    """Vectors of four and single elements; one lane, one subgroup and a workgroup a row."""
    for shape in [(5, 64), (2, 3, 33), (3, 1200)]:
        check(name, shape, rng)


def test_lengths(rng):
    """From the shortest to those that no registers hold; one row, and rows that are one axis."""
    for shape in [(4, 2), (7,), (300, 3), (1, 12001), (2, 24000)]:
        check("layer", shape, rng)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_formats_round_after_each_operation(dtype, rng):
    for name in ("softmax", "layer"):
        check(name, (6, 40), rng, dtype)


def test_layouts(rng):
    """What is not dense is read where it lies."""
    f = mx.compile(softmax)
    base, data = draw(rng, (6, 40, 12))
    for view in (
        lambda a: a.transpose(0, 2, 1),
        lambda a: a[:, ::2, 1::3],
        lambda a: a[::-1, 3:, ::-1],
        lambda a: a[1:, 1:, 1:],
    ):
        x, want = view(base), reference("softmax", np.asarray(view(data)), None, None)[0]
        np.testing.assert_allclose(h.to_np(f(x)), want, rtol=1e-5, atol=1e-6)
    wide = mx.broadcast_to(base[:, :1, :1], (6, 5, 8))
    np.testing.assert_allclose(h.to_np(f(wide)), np.full((6, 5, 8), 0.125), rtol=1e-6)


def test_operands_of_every_shape(rng):
    """Numbers, one for each row, rows and columns of other arrays, of other dtypes."""
    x, nx = draw(rng, (4, 5, 24))
    row, nrow = draw(rng, (24,))
    each, neach = draw(rng, (5, 1))
    flat, nflat = draw(rng, (4, 5))
    small, nsmall = draw(rng, (4, 1, 1), "float16")
    pick = mx.array(np.arange(24) % 3 == 0)

    def f(x, row, each, flat, small):
        s = mx.where(pick, x * row + each, small.astype(mx.float32))
        total = s.sum(-1) * flat - 0.25
        return s / (1 + mx.abs(total))[..., None], total, s.astype(mx.float16)

    s = np.where(np.arange(24) % 3 == 0, nx * nrow + neach, nsmall)
    total = s.sum(-1) * nflat - 0.25
    got = mx.compile(f)(x, row, each, flat, small)
    for g, want, tol in zip(
        got, (s / (1 + np.abs(total))[..., None], total, s), (1e-5, 1e-5, 1e-3), strict=True
    ):
        np.testing.assert_allclose(h.to_np(g).astype(np.float64), want, rtol=tol, atol=tol)
    assert got[2].dtype == mx.float16


def test_special_values():
    inf, nan = float("inf"), float("nan")
    x = mx.array([[1.0, nan, 2.0], [-inf, -inf, -inf], [inf, 1.0, 2.0], [-0.0, -1.0, -inf]])

    def f(x):
        low, high = x.min(-1, keepdims=True), x.max(-1, keepdims=True)
        return low, high, mx.exp(x - high), (mx.abs(x) * 0.5).sum(-1)

    for got, want in zip(mx.compile(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(h.to_np(got), h.to_np(want))
    assert mx.compile(softmax)(mx.zeros((0, 4))).shape == (0, 4)
    assert mx.compile(lambda x: mx.exp(x).sum(-1) + 1)(mx.zeros((3, 0))).tolist() == [1, 1, 1]
    np.testing.assert_array_equal(h.to_np(mx.compile(softmax)(mx.ones((3, 1)))), np.ones((3, 1)))
    h.works()


def test_no_memory_between_the_operations(rng):
    """A layer norm has two arrays of its size at a time; in one kernel there is only the result."""
    x = mx.array(rng.normal(size=(512, 512)).astype(np.float32))
    w = mx.ones(512)
    mx.eval(x, w)
    f = mx.compile(layer)
    mx.eval(f(x, w, w))
    mx.synchronize()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    y = f(x, w, w)
    mx.eval(y)
    assert mx.get_peak_memory() - before < 1.5 * y.nbytes


def test_derivatives_and_batches(rng):
    x, _ = draw(rng, (3, 16))
    w, _ = draw(rng, (16,))

    def loss(x, w):
        return (softmax(x) * rms(x, w, None)).sum()

    want = mx.grad(loss, (0, 1))(x, w)
    for f in (
        mx.grad(mx.compile(loss), (0, 1)),
        mx.compile(mx.grad(loss, (0, 1))),
        mx.compile(mx.grad(mx.compile(loss), (0, 1))),
    ):
        for g, e in zip(f(x, w), want, strict=True):
            np.testing.assert_allclose(h.to_np(g), h.to_np(e), rtol=1e-4, atol=1e-5)
    many, _ = draw(rng, (4, 3, 16))
    each = mx.vmap(loss, (0, None))(many, w)
    for f in (mx.vmap(mx.compile(loss), (0, None)), mx.compile(mx.vmap(loss, (0, None)))):
        np.testing.assert_allclose(h.to_np(f(many, w)), h.to_np(each), rtol=1e-5)
    out, tangent = mx.jvp(mx.compile(softmax), [x], [x * 0.5])
    np.testing.assert_allclose(h.to_np(out[0]), h.to_np(softmax(x)), rtol=1e-5)
    e = softmax(x)
    slope = e * (x * 0.5 - (e * x * 0.5).sum(-1, keepdims=True))
    np.testing.assert_allclose(h.to_np(tangent[0]), h.to_np(slope), rtol=1e-4, atol=1e-6)


def test_in_files(rng, tmp_path):
    x, nx = draw(rng, (3, 16))
    path = str(tmp_path / "softmax.mlxfn")
    mx.export_function(path, softmax, x)
    got = mx.import_function(path)(x)[0]
    np.testing.assert_allclose(h.to_np(got), reference("softmax", nx, 0, 0)[0], rtol=1e-5)


def test_folds_that_stay_alone(rng):
    """Other axes, several axes, integers, and folds of what another fold's shape does not fit."""
    x, nx = draw(rng, (6, 6, 8))

    def f(x):
        a = mx.exp(x - x.max(1, keepdims=True))
        b = (a * 2).sum((0, 2)) + 1
        c = (x > 0).sum(-1) * 2
        d = mx.exp(x.sum(-1)).sum(-1) * 0.5
        return a / a.sum(0, keepdims=True), b, c, d, (x.sum(-1) + x[..., 0]).max(-1)

    e = np.exp(nx - nx.max(1, keepdims=True))
    want = (
        e / e.sum(0, keepdims=True),
        (e * 2).sum((0, 2)) + 1,
        (nx > 0).sum(-1) * 2,
        np.exp(nx.sum(-1)).sum(-1) * 0.5,
        (nx.sum(-1) + nx[..., 0]).max(-1),
    )
    for g, r in zip(mx.compile(f)(x), want, strict=True):
        np.testing.assert_allclose(h.to_np(g).astype(np.float64), r, rtol=2e-5, atol=1e-5)
    square, nsquare = draw(rng, (8, 8))
    got = mx.compile(lambda x: x + x.sum(-1))(square)
    np.testing.assert_allclose(h.to_np(got), nsquare + nsquare.sum(-1), rtol=1e-5, atol=1e-5)
