"""Initial values: moments, bounds and structure."""

import math

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from helpers import to_np
from mlx.nn import init
from scipy import stats

A = mx.zeros((40, 50))


def test_constants_and_identity():
    assert init.constant(2, mx.int32)(mx.zeros((2,))).tolist() == [2, 2]
    assert init.identity(mx.float16)(mx.zeros((2, 2))).tolist() == [[1, 0], [0, 1]]
    for shape in ((3,), (2, 3), (2, 2, 2)):
        with pytest.raises(ValueError, match="square matrix"):
            init.identity()(mx.zeros(shape))


@pytest.mark.parametrize(
    "make, kwargs, std",
    [
        (init.normal(1.0, 2.0), {}, 2.0),
        (init.glorot_normal(), {}, math.sqrt(2 / 90)),
        (init.glorot_normal(), {"gain": 3.0}, 3 * math.sqrt(2 / 90)),
        (init.he_normal(), {}, math.sqrt(1 / 50)),
        (init.he_normal(), {"mode": "fan_out", "gain": 2.0}, 2 * math.sqrt(1 / 40)),
    ],
)
def test_normal_ones(make, kwargs, std, rng):
    x = to_np(make(A, **kwargs))
    mean = 1.0 if make.__qualname__.startswith("normal") else 0.0
    assert x.shape == A.shape and x.dtype == np.float32
    assert stats.kstest((x.ravel() - mean) / std, "norm").pvalue > 1e-3


@pytest.mark.parametrize(
    "make, kwargs, bound",
    [
        (init.glorot_uniform(), {}, math.sqrt(6 / 90)),
        (init.glorot_uniform(), {"gain": 0.5}, 0.5 * math.sqrt(6 / 90)),
        (init.he_uniform(), {}, math.sqrt(3 / 50)),
        (init.he_uniform(), {"mode": "fan_out"}, math.sqrt(3 / 40)),
        (init.uniform(-0.5, 0.5), {}, 0.5),
    ],
)
def test_uniform_ones(make, kwargs, bound, rng):
    x = to_np(make(A, **kwargs)) / bound
    assert x.min() >= -1 and x.max() <= 1
    assert stats.kstest(x.ravel(), "uniform", (-1, 2)).pvalue > 1e-3


def test_fans_count_the_kernel():
    mx.random.seed(1)
    a = init.he_uniform()(mx.zeros((8, 3, 3, 16)))
    mx.random.seed(1)
    b = mx.random.uniform(-1, 1, (8, 3, 3, 16)) * math.sqrt(3 / (9 * 16))
    assert mx.allclose(a, b)


def test_sparse_and_orthogonal(rng):
    x = to_np(init.sparse(0.3, 1.0, 2.0)(mx.zeros((6, 10))))
    assert ((x == 0).sum(1) == 3).all()
    assert to_np(init.sparse(0.25)(mx.zeros((4, 6)))).astype(bool).sum() == 4 * 4
    for shape in ((3, 5), (5, 3), (4, 4)):
        q = to_np(init.orthogonal(2.0)(mx.zeros(shape)))
        gram = q @ q.T if shape[0] <= shape[1] else q.T @ q
        np.testing.assert_allclose(gram, 4 * np.eye(min(shape)), atol=1e-5)
    turned = mx.compile(init.orthogonal(np.int64(2)))(mx.zeros((4, 4)))
    np.testing.assert_allclose(to_np(turned @ turned.T), 4 * np.eye(4), atol=1e-5)


def test_dtypes_and_messages():
    for make in (init.normal, init.uniform, init.glorot_normal, init.glorot_uniform):
        assert make(dtype=mx.float16)(A).dtype == mx.float16
    for make in (init.he_normal, init.he_uniform, init.orthogonal):
        assert make(dtype=mx.float16)(A).dtype == mx.float16
    assert init.sparse(0.5, dtype=mx.float16)(A).dtype == mx.float16
    for make in (init.glorot_normal(), init.he_uniform()):
        with pytest.raises(ValueError, match="at least 2 dimensional"):
            make(mx.zeros((3,)))
    with pytest.raises(ValueError, match="Invalid mode: out"):
        init.he_normal()(A, mode="out")
    for make in (init.sparse(0.5), init.orthogonal()):
        with pytest.raises(ValueError, match="2"):
            make(mx.zeros((2, 2, 2)))


def test_layers_draw_as_mlx_does():
    # Values of official MLX 0.32.4 for these seeds.
    mx.random.seed(3)
    layer = nn.Linear(4, 3)
    mx.random.seed(3)
    want = mx.random.uniform(-0.5, 0.5, (3, 4)), mx.random.uniform(-0.5, 0.5, (3,))
    assert mx.array_equal(layer.weight, want[0]) and mx.array_equal(layer.bias, want[1])
    for layer, bound in (
        (nn.Conv2d(4, 64, 3, groups=2), 1 / math.sqrt(18)),
        (nn.ConvTranspose1d(4, 64, 3), 1 / math.sqrt(12)),
        (nn.Bilinear(16, 8, 8), 1 / 4),
        (nn.GRU(16, 25), 1 / 5),
        (nn.LSTM(16, 25), 1 / 5),
    ):
        weight = to_np(layer.Wx if "Wx" in layer else layer.weight)
        assert 0.95 * bound < abs(weight).max() <= bound
    assert not mx.any(nn.Conv2d(4, 6, 3).bias)
    assert abs(to_np(nn.Embedding(200, 64).weight).std() - 1 / 8) < 0.005
