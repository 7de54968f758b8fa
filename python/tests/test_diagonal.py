"""diag, diagonal and trace against NumPy."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest


@pytest.mark.parametrize("dtype", ["bool_", "uint8", "int64", "bfloat16", "float32", "complex64"])
@pytest.mark.parametrize("k", [0, 1, -2, 5, -7])
def test_diag(dtype, k, rng):
    v = h.quantise(rng.integers(0, 2, 3) if dtype == "bool_" else rng.integers(1, 9, 3), dtype)
    got = mx.diag(h.from_np(v, dtype), k)
    assert h.name_of(got.dtype) == dtype
    np.testing.assert_array_equal(h.to_np(got), np.diag(v, k))
    for shape in [(3, 4), (4, 3), (1, 1), (5, 5)]:
        m = h.quantise(rng.integers(0, 2, shape), dtype)
        for label, a in h.layouts(m, dtype):
            for got in (mx.diag(a, k), a.diag(k), mx.diagonal(a, k)):
                np.testing.assert_array_equal(h.to_np(got), np.diag(m, k), err_msg=label)


def test_diag_of_nothing_and_refusals():
    assert mx.diag(mx.zeros((0,))).shape == (0, 0)
    assert mx.diag(mx.zeros((0,)), 2).tolist() == [[0, 0], [0, 0]]
    for a in (mx.array(1.0), mx.ones((2, 2, 2))):
        with pytest.raises(ValueError, match="1-D or 2-D"):
            mx.diag(a)
    with pytest.raises((ValueError, OverflowError, RuntimeError)):
        mx.eval(mx.diag(mx.ones((3,)), 2**31 - 1))


@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (1, 2), (-1, 0), (2, -2)])
@pytest.mark.parametrize("offset", [0, 1, -1, 2, -9])
def test_diagonal_and_trace(axes, offset, rng):
    x = rng.normal(size=(3, 4, 5)).astype(np.float32)
    want = np.diagonal(x, offset, *axes)
    for label, a in h.layouts(x, "float32"):
        np.testing.assert_array_equal(np.array(mx.diagonal(a, offset, *axes)), want, err_msg=label)
        np.testing.assert_array_equal(np.array(a.diagonal(offset, *axes)), want, err_msg=label)
    got = mx.trace(mx.array(x), offset, *axes)
    np.testing.assert_allclose(np.array(got), np.trace(x, offset, *axes), rtol=1e-6, atol=1e-6)


def test_the_diagonal_is_a_view():
    a = mx.zeros((1000, 1000)) + 1
    mx.eval(a)
    d = mx.diagonal(a)
    mx.eval(d)
    assert mx.get_array_buffer_size(a, d) == mx.get_array_buffer_size(a)
    assert mx.sum(d * 2).item() == 2000


def test_trace_dtypes():
    for dtype, value, want, result in [
        (mx.int8, 100, 400, mx.int32),
        (mx.uint8, 200, 800, mx.uint32),
        (mx.bool_, 1, 4, mx.int32),
        (mx.float16, 1, 4, mx.float16),
    ]:
        got = mx.trace(mx.full((4, 4), value, dtype))
        assert got.item() == want and got.dtype == result
    assert mx.trace(mx.full((64, 64), 2000, mx.float16), dtype=mx.float32).item() == 128000
    assert mx.trace(mx.full((4, 4), 100, mx.int8), dtype=mx.int8).dtype == mx.int32
    assert mx.trace(mx.array([[1.9]]), dtype=mx.int32).item() == 1
    assert mx.trace(mx.zeros((0, 0))).item() == 0


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda a: mx.diagonal(a[0]), ValueError),
        (lambda a: mx.trace(a[0]), ValueError),
        (lambda a: mx.diagonal(a, 0, 1, 1), ValueError),
        (lambda a: mx.diagonal(a, 0, 1, -1), ValueError),
        (lambda a: mx.diagonal(a, 0, 0, 5), IndexError),
        (lambda a: mx.trace(a, 0, -3, 0), IndexError),
        (lambda a: mx.diagonal([[1]]), TypeError),
        (lambda a: mx.diag(a, 1.5), TypeError),
    ],
)
def test_refusals(call, error):
    with pytest.raises(error):
        call(mx.ones((2, 2)))


def test_gradients(rng):
    x = rng.normal(size=(2, 3, 4)).astype(np.float32)
    a = mx.array(x)
    for offset, axis1, axis2 in [(0, 0, 1), (1, 2, 0), (-1, 1, 2), (9, 1, 2)]:
        d = np.diagonal(x, offset, axis1, axis2)
        w = rng.normal(size=d.shape).astype(np.float32)

        def loss(a, k=(offset, axis1, axis2), w=w):
            return mx.sum(mx.array(w) * mx.square(mx.diagonal(a, *k)))

        want = np.zeros_like(x)
        view = np.diagonal(want, offset, axis1, axis2)
        view.setflags(write=True)
        view[...] = 2 * w * d
        np.testing.assert_allclose(np.array(mx.grad(loss)(a)), want, rtol=1e-6)
        t = rng.normal(size=x.shape).astype(np.float32)
        slope = mx.jvp(loss, [a], [mx.array(t)])[1][0].item()
        np.testing.assert_allclose(slope, np.sum(want * t), rtol=1e-4, atol=1e-5)
    v, w = rng.normal(size=3).astype(np.float32), rng.normal(size=(5, 5)).astype(np.float32)
    g = mx.grad(lambda v: mx.sum(mx.diag(v, -2) * mx.array(w)))(mx.array(v))
    np.testing.assert_allclose(np.array(g), np.diag(w, -2), rtol=1e-6)
    g = mx.grad(lambda a: mx.square(mx.trace(a)))(mx.array(x[0]))
    np.testing.assert_allclose(np.array(g), 2 * np.trace(x[0]) * np.eye(3, 4), rtol=1e-5)


@pytest.mark.parametrize("k", [2**31 - 1, -(2**31), 2**40, -(2**40), 2**63 - 1, -(2**63)])
def test_diagonals_far_outside(k):
    """Beyond the corners all elements are alike, however far."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    all_, none = (x, np.zeros_like(x)) if k > 0 else (np.zeros_like(x), x)
    np.testing.assert_array_equal(np.array(mx.tril(mx.array(x), k)), all_)
    np.testing.assert_array_equal(np.array(mx.triu(mx.array(x), k)), none)
    assert mx.eye(3, 4, k).sum().item() == 0
    assert mx.tri(3, 4, k).sum().item() == (12 if k > 0 else 0)
