"""Rows less their log-sum-exp, which a GPU computes as one kernel: values, and what stays apart."""

import helpers as h
import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.validation,
    pytest.mark.usefixtures("none_disabled"),
]

FLOATS = ["float32", "float16", "bfloat16"]
#: Rows in registers and in loops, odd ones, of one element, and on several axes.
SHAPES = [(5, 7), (7, 1), (3, 77), (2, 3, 130), (4, 1000), (2, 1023), (3, 5000), (2, 50257), (9,)]
VIEWS = [
    lambda x: x[..., ::2],
    lambda x: x[..., 1:],
    lambda x: x[..., ::-1],
    lambda x: x.T,
    lambda x: mx.broadcast_to(x[:1], x.shape),
]


def log_softmax(x):
    return x - mx.logsumexp(x, axis=-1, keepdims=True)


def expected(x):
    x = np.array(x.astype(mx.float32), np.float64)
    top = x.max(axis=-1, keepdims=True)
    return x - top - np.log(np.exp(x - top).sum(axis=-1, keepdims=True))


def check(x, dtype):
    got = log_softmax(x)
    assert got.dtype == x.dtype and got.shape == x.shape
    got, want = np.array(got.astype(mx.float32), np.float64), expected(x)
    # The sum is rounded, and so is the result.
    sums = np.array(x.astype(mx.float32), np.float64) - want
    slack = 2 * h.ulp(want, dtype) + 2 * h.ulp(sums, dtype)
    assert (np.abs(got - want) <= slack).all()
    other = np.array(h.apart(lambda: log_softmax(x), "log_softmax").astype(mx.float32), np.float64)
    assert (np.abs(got - other) <= slack).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_values(shape, dtype):
    rng = np.random.default_rng(sum(shape))
    x = h.from_np(3 * rng.standard_normal(shape).astype(np.float32), dtype)
    mx.eval(x)
    check(x, dtype)
    _, ran = h.kernels(lambda: log_softmax(x))
    # A few long rows are shared by several workgroups, which takes two.
    assert sum(ran.values()) <= (2 if shape[-1] > 32_768 else 1), ran
    assert all(name.startswith("log_softmax") for name in ran), ran


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("view", VIEWS)
def test_layouts(view, dtype):
    rng = np.random.default_rng(3)
    x = h.from_np(rng.standard_normal((6, 260)).astype(np.float32), dtype)
    mx.eval(x)
    check(view(x), dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("width", [5, 1000, 9000])
def test_infinities_and_nan(width, dtype):
    x = np.zeros((5, width), np.float32)
    x[0, 3], x[1, 2], x[2, 1] = np.inf, -np.inf, np.nan
    x[3] = -np.inf
    x = h.from_np(x, dtype)
    mx.eval(x)
    got, other = log_softmax(x), h.apart(lambda: log_softmax(x), "log_softmax")
    got, other = (np.array(a.astype(mx.float32)) for a in (got, other))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(other))
    np.testing.assert_allclose(got, other, rtol=0.01, atol=1e-6)


def test_what_models_write():
    rng = np.random.default_rng(4)
    x = h.from_np(rng.standard_normal((3, 40)).astype(np.float32), "float32")
    mx.eval(x)
    for f in (nn.log_softmax, nn.LogSoftmax(), lambda x: x - mx.logsumexp(x, -1, True)):
        got, ran = h.kernels(lambda f=f: f(x))
        np.testing.assert_allclose(np.array(got), expected(x), rtol=1e-5, atol=1e-6)
        assert len(ran) == 1, ran


def test_what_is_read_besides_stays():
    x = mx.array(np.random.default_rng(5).standard_normal((3, 40)).astype(np.float32))
    total = mx.logsumexp(x, axis=-1, keepdims=True)
    got = x - total
    mx.eval(got)
    np.testing.assert_allclose(
        np.array(total)[:, 0], np.log(np.exp(np.array(x)).sum(-1)), rtol=1e-5
    )
    np.testing.assert_allclose(np.array(got), expected(x), rtol=1e-5, atol=1e-6)
    square = x[:, :3]
    mx.eval(square)
    across = square - mx.logsumexp(square, axis=-1)
    s = np.array(square, np.float64)
    np.testing.assert_allclose(
        np.array(across), s - np.log(np.exp(s).sum(-1)), rtol=1e-5, atol=1e-6
    )


def test_gradients():
    x = mx.array(np.random.default_rng(6).standard_normal((3, 40)).astype(np.float32))
    weight = mx.array(np.random.default_rng(7).standard_normal((3, 40)).astype(np.float32))
    got = mx.grad(lambda x: (log_softmax(x) * weight).sum())(x)
    share, w = np.exp(expected(x)), np.array(weight, np.float64)
    want = w - share * w.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(np.array(got), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("width", [8200, 16384, 16400, 33000, 50257, 65536, 65552])
def test_long_rows(width, dtype):
    """Rows that large workgroups hold in registers, and those just beyond."""
    rng = np.random.default_rng(width)
    x = h.from_np(rng.standard_normal((2, width)).astype(np.float32), dtype)
    mx.eval(x)
    for part in (x, x[:, 1:]):
        check(part, dtype)
        share = np.array(mx.softmax(part, axis=-1).astype(mx.float32), np.float64)
        tolerance = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}[dtype]
        # Shares this small are subnormal in float16.
        np.testing.assert_allclose(share, np.exp(expected(part)), rtol=tolerance, atol=6e-8)
