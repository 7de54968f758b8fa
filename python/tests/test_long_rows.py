"""A few long rows, which several workgroups of a GPU share: values, equal extremes, NaN."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.validation,
    pytest.mark.usefixtures("none_disabled"),
]

FLOATS = ["float32", "float16", "bfloat16"]
#: One row that all devices cut, rows that large ones do, and widths that are whole vectors or not.
SHAPES = [(1, 16_384), (1, 151_936), (1, 50_257), (3, 40_001), (2, 2, 33_000)]


def drawn(shape, dtype, seed=0):
    rng = np.random.default_rng(seed + sum(shape))
    x = h.from_np(4 * rng.standard_normal(shape).astype(np.float32), dtype)
    mx.eval(x)
    return x


def wide(x):
    return np.array(x.astype(mx.float32), np.float64)


def log_sum(x):
    top = x.max(axis=-1, keepdims=True)
    return top + np.log(np.exp(x - top).sum(axis=-1, keepdims=True))


def layouts(x):
    """The rows, and others that begin anywhere, skip elements or go backwards."""
    return [x, x[..., 1:], x[..., ::2], x[..., ::-1]]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_of_exponentials(shape, dtype):
    for x in layouts(drawn(shape, dtype)):
        values = wide(x)
        total = log_sum(values)
        got = wide(mx.logsumexp(x, axis=-1, keepdims=True))
        assert h.ulp_error(got, total, dtype).max() <= 1
        rest = wide(x - mx.logsumexp(x, axis=-1, keepdims=True))
        slack = h.ulp(values - total, dtype) + 1.5 * h.ulp(total, dtype)
        assert (np.abs(rest - (values - total)) <= slack).all()
        share, want = wide(mx.softmax(x, axis=-1)), np.exp(values - total)
        # Sums of float32 in some order; small shares are subnormal in float16.
        rounded = {"float32": 4e-6, "float16": 1e-3, "bfloat16": 8e-3}[dtype]
        np.testing.assert_allclose(
            share, want, rtol=rounded, atol=6e-8 if dtype == "float16" else 0
        )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1, 151_936), (1, 1, 16_384), (50_257,), (1, 5)])
def test_all_axes_of_one_row(shape, dtype):
    """What models write for the probabilities of one token."""
    x = drawn(shape, dtype)
    values = wide(x)
    total = log_sum(values.reshape(-1))
    for keepdims in (True, False):
        got = mx.logsumexp(x, keepdims=keepdims)
        assert got.shape == ((1,) * len(shape) if keepdims else ()) and got.dtype == x.dtype
        assert h.ulp_error(wide(got).reshape(-1), total, dtype).max() <= 1
    got, ran = h.kernels(lambda: x - mx.logsumexp(x, keepdims=True))
    slack = h.ulp(values - total, dtype) + 1.5 * h.ulp(total, dtype)
    assert (np.abs(wide(got) - (values - total)) <= slack).all()
    assert sum(ran.values()) <= 2 and all(name.startswith("log_softmax") for name in ran), ran


def test_integers_and_several_axes_are_summed_too():
    x = mx.array(np.arange(16_384, dtype=np.int32).reshape(1, -1) % 17)
    want = log_sum(np.array(x, np.float64).reshape(-1))
    np.testing.assert_allclose(np.array(mx.logsumexp(x)), want[0], rtol=1e-6)
    y = drawn((4, 20_000), "float32")
    np.testing.assert_allclose(
        np.array(mx.logsumexp(y)), log_sum(wide(y).reshape(-1))[0], rtol=1e-6
    )
    np.testing.assert_allclose(
        np.array(mx.logsumexp(y.T, axis=0)), log_sum(wide(y))[:, 0], rtol=1e-6
    )


def test_gradients():
    x = drawn((1, 20_000), "float32")
    want = np.exp(wide(x) - log_sum(wide(x)))
    for f in (lambda x: mx.logsumexp(x), lambda x: mx.logsumexp(x, axis=-1).sum()):
        np.testing.assert_allclose(np.array(mx.grad(f)(x)), want, rtol=1e-5, atol=1e-9)
    weight = drawn((1, 20_000), "float32", 1)
    got = mx.grad(lambda x: ((x - mx.logsumexp(x, keepdims=True)) * weight).sum())(x)
    w = wide(weight)
    np.testing.assert_allclose(np.array(got), w - want * w.sum(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("width", [16_384, 40_001])
@pytest.mark.parametrize("place", [0, 9_001, -1])
def test_infinite_and_missing_numbers(place, width, dtype):
    for number in (np.inf, -np.inf, np.nan):
        values = np.zeros((1, width), np.float32)
        values[0, place] = number
        x = h.from_np(values, dtype)
        mx.eval(x)
        want = {np.inf: np.inf, -np.inf: np.log(width - 1)}.get(number, np.nan)
        got = wide(mx.logsumexp(x, axis=-1))
        assert h.ulp_error(got, np.array([want]), dtype).max() <= 1
        share, ends = (
            wide(mx.softmax(x, axis=-1)),
            wide(x - mx.logsumexp(x, axis=-1, keepdims=True)),
        )
        if number == -np.inf:
            assert share[0, place] == 0 and ends[0, place] == -np.inf
            assert h.ulp_error(share[0, 1], 1 / (width - 1), dtype) <= 1
        else:
            assert np.isnan(share).all()
            assert np.isnan(ends[0, place]) and np.isnan(ends).all() == np.isnan(number)
    x = mx.full((1, width), -np.inf, dtype=h.mx_dtype(dtype))
    mx.eval(x)
    assert wide(mx.logsumexp(x, axis=-1))[0] == -np.inf
    assert np.isnan(wide(mx.softmax(x, axis=-1))).all()


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "uint8"])
@pytest.mark.parametrize("shape", SHAPES)
def test_places_of_extremes(shape, dtype):
    rng = np.random.default_rng(sum(shape))
    # Few different numbers, so that the extremes occur in all parts.
    values = rng.integers(1, 60, shape).astype(np.float32)
    values[..., shape[-1] // 2] = 60
    values[..., shape[-1] // 3] = 60
    values[..., shape[-1] - 1] = 0
    x = h.from_np(values, dtype)
    mx.eval(x)
    for part in layouts(x):
        held = np.array(part.astype(mx.float32))
        for ours, theirs in ((mx.argmax, np.argmax), (mx.argmin, np.argmin)):
            np.testing.assert_array_equal(np.array(ours(part, axis=-1)), theirs(held, axis=-1))
        for ours, theirs in ((mx.max, np.max), (mx.min, np.min)):
            got = np.array(ours(part, axis=-1).astype(mx.float32))
            np.testing.assert_array_equal(got, theirs(held, axis=-1))
    # All alike: the first one.
    same = mx.zeros(shape, dtype=h.mx_dtype(dtype))
    assert not np.array(mx.argmax(same, axis=-1)).any()
    assert not np.array(mx.argmin(same, axis=-1)).any()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("places", [(30_000, 20_001), (7, 39_999), (39_999,)])
def test_the_first_nan_is_the_extreme(places, dtype):
    values = np.arange(40_000, dtype=np.float32).reshape(1, -1) % 1000
    values[0, list(places)] = np.nan
    x = h.from_np(values, dtype)
    mx.eval(x)
    for f in (mx.argmax, mx.argmin):
        assert f(x, axis=-1).item() == min(places)
        assert f(x).item() == min(places)
    assert np.isnan(wide(mx.max(x, axis=-1))).all() and np.isnan(wide(mx.min(x, axis=-1))).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_zeros_of_both_signs_are_alike(dtype):
    values = np.full((1, 40_000), -1, np.float32)
    values[0, 9_000], values[0, 20_000] = -0.0, 0.0
    x = h.from_np(values, dtype)
    assert mx.argmax(x, axis=-1).item() == 9_000
    assert mx.argmin(-x, axis=-1).item() == 9_000


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_and_statistics(shape, dtype):
    x = drawn(shape, dtype)
    values = wide(x)
    close = {"float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}[dtype]
    size = np.abs(values).sum(axis=-1)
    assert (np.abs(wide(mx.sum(x, axis=-1)) - values.sum(axis=-1)) <= close * size).all()
    np.testing.assert_allclose(wide(mx.var(x, axis=-1)), values.var(axis=-1), rtol=2 * close)
    np.testing.assert_allclose(
        wide(mx.linalg.norm(x, axis=-1)), np.linalg.norm(values, axis=-1), rtol=close
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_same_bits_every_time(dtype):
    x = drawn((1, 151_936), dtype)
    for f in (lambda: mx.logsumexp(x), lambda: mx.softmax(x, axis=-1), lambda: mx.sum(x)):
        first = wide(f())
        for _ in range(5):
            np.testing.assert_array_equal(wide(f()), first)


@pytest.mark.parametrize("dtype", FLOATS)
def test_without_parts(dtype):
    """The other way gives the same up to the order of a sum."""
    x = drawn((1, 70_001), dtype)
    names = ("softmax_parts", "reduce_split")
    for f, slack in ((lambda: mx.logsumexp(x, axis=-1), 1), (lambda: mx.softmax(x, axis=-1), 24)):
        other = wide(h.apart(f, *names))
        assert h.ulp_error(wide(f()), other, dtype).max() <= (slack if dtype == "float32" else 1)
    assert mx.argmax(x).item() == h.apart(lambda: mx.argmax(x), *names).item()
