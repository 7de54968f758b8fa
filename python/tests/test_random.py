"""Random streams: official MLX's numbers for the same keys, and the laws of the distributions."""

import json
import pathlib

import mlx.core as mx
import numpy as np
import pytest
from helpers import name_of, to_np
from random_cases import CASES
from scipy import stats

CONSTANTS = json.loads((pathlib.Path(__file__).parent / "random_constants.json").read_text())

pytestmark = pytest.mark.validation


@pytest.mark.parametrize("name", CASES)
def test_stream_of_a_fixed_key(name):
    draw, exact = CASES[name]
    want = CONSTANTS[name]
    got = draw(mx)
    assert name_of(got.dtype).rstrip("_") == want["dtype"]
    assert list(got.shape) == want["shape"]
    got = to_np(got).reshape(-1)
    if exact:
        assert got.tolist() == np.array(want["values"], got.dtype).tolist()
    else:
        rtol = {"float16": 2e-3, "bfloat16": 1.6e-2}.get(want["dtype"], 4e-6)
        np.testing.assert_allclose(got, want["values"], rtol=rtol, atol=rtol / 4)


def test_every_stored_stream_is_tested():
    assert set(CASES) == set(CONSTANTS)


def test_keys_make_independent_streams():
    k1, k2 = mx.random.split(mx.random.key(1))
    a = mx.random.uniform(shape=(1000,), key=k1)
    b = mx.random.uniform(shape=(1000,), key=k2)
    assert mx.array_equal(a, mx.random.uniform(shape=(1000,), key=k1)).item()
    assert abs(np.corrcoef(to_np(a), to_np(b))[0, 1]) < 0.1


def test_a_prefix_does_not_depend_on_laziness():
    mx.random.seed(5)
    first, second = mx.random.uniform(shape=(4,)), mx.random.uniform(shape=(4,))
    mx.eval(second)
    mx.random.seed(5)
    again = [to_np(mx.random.uniform(shape=(4,))) for _ in range(2)]
    np.testing.assert_array_equal(to_np(first), again[0])
    np.testing.assert_array_equal(to_np(second), again[1])


LAWS = {
    "uniform": (lambda n, k: mx.random.uniform(-1, 3, (n,), key=k), stats.uniform(-1, 4)),
    "normal": (lambda n, k: mx.random.normal((n,), loc=1, scale=2, key=k), stats.norm(1, 2)),
    "gumbel": (lambda n, k: mx.random.gumbel((n,), key=k), stats.gumbel_r()),
    "laplace": (lambda n, k: mx.random.laplace((n,), key=k), stats.laplace()),
    "truncated_normal": (
        lambda n, k: mx.random.truncated_normal(-1, 2, (n,), key=k),
        stats.truncnorm(-1, 2),
    ),
}


@pytest.mark.parametrize("name", LAWS)
def test_distribution(name):
    draw, law = LAWS[name]
    sample = to_np(draw(20000, mx.random.key(11)))
    assert np.isfinite(sample).all()
    assert stats.kstest(sample, law.cdf).pvalue > 1e-3


def test_uniform_stays_below_its_upper_bound():
    for dtype in (mx.float16, mx.bfloat16, mx.float32):
        u = mx.random.uniform(shape=(20000,), dtype=dtype, key=mx.random.key(2))
        assert u.dtype == dtype
        assert mx.all(u >= 0).item() and mx.all(u < 1).item()


def test_randint_covers_its_range_evenly():
    r = to_np(mx.random.randint(3, 13, (20000,), key=mx.random.key(3)))
    counts = np.bincount(r, minlength=13)
    assert counts[:3].sum() == 0 and len(counts) == 13
    assert stats.chisquare(counts[3:]).pvalue > 1e-3


def test_categorical_follows_its_logits():
    p = np.array([0.1, 0.2, 0.3, 0.4])
    c = mx.random.categorical(
        mx.log(mx.array(p, mx.float32)), num_samples=20000, key=mx.random.key(4)
    )
    assert c.dtype == mx.uint32
    assert stats.chisquare(np.bincount(to_np(c), minlength=4), 20000 * p).pvalue > 1e-3


def test_permutation_is_one():
    p = mx.random.permutation(257, key=mx.random.key(5))
    assert sorted(p.tolist()) == list(range(257))
    rows = mx.random.permutation(mx.reshape(mx.arange(60), (20, 3)), key=mx.random.key(5))
    assert sorted(rows.tolist()) == np.arange(60).reshape(20, 3).tolist()


def test_bernoulli_takes_its_shape_from_p():
    b = mx.random.bernoulli(mx.full((3, 5), 0.5))
    assert b.shape == (3, 5) and b.dtype == mx.bool_
    assert mx.random.bernoulli(1.0).item() is True


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (5, 1)])
def test_shapes(shape):
    k = mx.random.key(0)
    for draw in (
        mx.random.uniform(shape=shape, key=k),
        mx.random.normal(shape, key=k),
        mx.random.randint(0, 5, shape, key=k),
        mx.random.gumbel(shape, key=k),
        mx.random.laplace(shape, key=k),
        mx.random.truncated_normal(-1, 1, shape, key=k),
        mx.random.bernoulli(0.5, shape, key=k),
    ):
        assert draw.shape == shape
        mx.eval(draw)


@pytest.mark.parametrize(
    ("low", "high", "dtype", "want"),
    [
        (2**24, 2**24 + 2, "int32", [16777217, 16777216, 16777216, 16777217, 16777216, 16777217]),
        (0, 300, "int8", [0, 43, 43, 29, 30, 38, 43, 5]),
        (0, 300, "uint8", [43, 43, 43, 29, 30, 38, 43, 5]),
        (-300, 300, "int8", [19, -44, -44, 15, 16, 33, 43, -34]),
        (0, 70000, "uint16", [2036, 4463, 4463, 4463]),
        (-5, 5, "uint32", [4294967291] * 4),
        (0.5, 9.7, "int32", [8, 2, 6, 3]),
        (0, 10.9, "int32", [5, 3, 3, 9, 1, 9, 2, 9]),
        (-0.9, 3.9, "int32", [2, 0, 2, 2, 0, 2, 2, 0, 1, 0, 0, 2]),
        (0, 2**33, "int32", [0] * 4),
        (0, 2**32 + 10, "int32", [0, 9, 0, 9]),
        (0, 2**31, "int32", [2073012096, 483525344, 1359421568, 636475136]),
        (5, 3, "int32", [5] * 4),
        (0, 1e30, "int32", [0] * 4),
        (0, 5, "bool_", [True, True, True, True, False, True, False, True]),
        (0, 2, "bool_", [True, False, False, True, False, True, False, True]),
        (0, 2**40, "int64", [1061382193152, 247564976128, 696023842816, 325875269632]),
    ],
)
def test_randint_holds_its_bounds(low, high, dtype, want):
    """Numbers of official MLX for key 0. Draws are float32, bounds are cast as C++ casts."""
    keys = {"key": mx.random.key(0)}
    n = {6: 8}.get(len(want), len(want))
    got = mx.random.randint(low, high, (n,), dtype=getattr(mx, dtype), **keys)
    assert got.tolist()[: len(want)] == want
    got = mx.random.randint(mx.array(low), mx.array(high), (n,), dtype=getattr(mx, dtype), **keys)
    assert got.tolist()[: len(want)] == want


@pytest.mark.parametrize("p", [0, 1, True, np.int64(1), np.array([1, 0]), 0.5j])
def test_bernoulli_refuses_integers(p):
    with pytest.raises(ValueError, match="probability `p` must be a float type"):
        mx.random.bernoulli(p)
    with pytest.raises(ValueError, match="probability `p` must be a float type"):
        mx.random.bernoulli(mx.array(p), (2,))


def test_float64_numbers_are_those_of_float32():
    key = mx.random.key(3)
    for f in (mx.random.normal, mx.random.laplace):
        wide, narrow = (
            f((5,), d, loc=0.5, scale=3.0, key=key, stream=mx.cpu) for d in (mx.float64, mx.float32)
        )
        assert wide.dtype == mx.float64
        np.testing.assert_allclose(np.array(wide), np.array(narrow), rtol=1e-6)
    one = mx.random.normal((), mx.float64, key=key, stream=mx.cpu)
    np.testing.assert_allclose(np.array(one), 1.1048742389164776, rtol=1e-6)
    one = mx.random.laplace((), mx.float64, key=key, stream=mx.cpu)
    np.testing.assert_allclose(np.array(one), -1.3122483286252606, rtol=1e-6)
    for f in (mx.random.uniform, mx.random.gumbel, mx.random.truncated_normal):
        bounds = (-1, 1) if f is mx.random.truncated_normal else ()
        with pytest.raises(RuntimeError, match="got float64"):
            f(*bounds, shape=(2,), dtype=mx.float64, stream=mx.cpu)
