"""Calls of layers that do without Python in the common case: they do what the class says."""

import inspect
import pickle

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 5, 64)).astype(np.float32)
BIAS = RNG.standard_normal(32).astype(np.float32)


def scale(x):
    return x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5)


def quantized(**kw):
    layer = nn.QuantizedLinear(64, 32, group_size=32, bits=8, **kw)
    if "bias" in layer:
        layer.bias = mx.array(BIAS)
    return layer


def decoded(layer):
    w = mx.dequantize(
        layer.weight,
        layer.scales,
        layer.get("biases"),
        layer.group_size,
        layer.bits,
        mode=layer.mode,
    )
    return np.array(w.astype(mx.float32), np.float64)


LAYERS = {
    "quantized": (quantized, lambda m, x: x @ decoded(m).T + BIAS),
    "quantized, no bias": (lambda: quantized(bias=False), lambda m, x: x @ decoded(m).T),
    "quantized, mxfp8": (
        lambda: quantized(bias=False, mode="mxfp8"),
        lambda m, x: x @ decoded(m).T,
    ),
    "linear": (
        lambda: nn.Linear(64, 32),
        lambda m, x: x @ np.array(m.weight, np.float64).T + np.array(m.bias),
    ),
    "linear, no bias": (
        lambda: nn.Linear(64, 32, bias=False),
        lambda m, x: x @ np.array(m.weight, np.float64).T,
    ),
    "rms_norm": (lambda: nn.RMSNorm(64), lambda m, x: scale(x) * np.array(m.weight, np.float64)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_values(name):
    make, reference = LAYERS[name]
    layer = make()
    got = layer(mx.array(X))
    np.testing.assert_allclose(
        np.array(got), reference(layer, X.astype(np.float64)), rtol=1e-4, atol=1e-4
    )
    assert np.array_equal(np.array(layer(x=mx.array(X))), np.array(got)), "by its name"


@pytest.mark.parametrize("offset", [0, 7, -2, "array", "each"])
def test_rotations(offset):
    layer, x = (
        nn.RoPE(32, traditional=True, base=100.0, scale=0.5),
        mx.array(X.reshape(3, 1, 5, 64)),
    )
    offset = {"array": mx.array(3), "each": mx.array([1, 2, 3])}.get(offset, offset)
    want = mx.fast.rope(x, 32, traditional=True, base=100.0, scale=0.5, offset=offset)
    for got in (layer(x, offset), layer(x, offset=offset), layer(x=x, offset=offset)):
        assert mx.array_equal(got, want)
    assert mx.array_equal(layer(x), layer(x, 0))


def test_what_stands_for_arrays_is_taken_as_before():
    class Wrapped:
        def __mlx_array__(self):
            return mx.array(X)

    for layer in (quantized(), nn.Linear(64, 32), nn.RMSNorm(64)):
        assert mx.array_equal(layer(Wrapped()), layer(mx.array(X)))


def test_subclasses_and_replaced_calls_decide_for_themselves():
    class Doubled(nn.Linear):
        def __call__(self, x):
            return 2 * super().__call__(x)

    class Renamed(nn.RMSNorm):
        def __getitem__(self, key):
            return mx.full((64,), 3.0) if key == "weight" else super().__getitem__(key)

    layer, x = Doubled(64, 32), mx.array(X)
    assert mx.array_equal(layer(x), 2 * nn.Linear.__call__(layer, x))
    assert mx.allclose(Renamed(64)(x), 3 * nn.RMSNorm(64)(x))


def test_parameters_that_changed_count():
    layer, x = nn.RMSNorm(64), mx.array(X)
    before = layer(x)
    layer.weight = mx.full((64,), 2.0)
    assert mx.allclose(layer(x), 2 * before)
    layer.update({"weight": mx.full((64,), 4.0)})
    assert mx.allclose(layer(x), 4 * before)
    layer.eps = 1
    assert not mx.allclose(layer(x), 4 * before)
    dense = nn.Linear(64, 32)
    with_bias = dense(x)
    bias = dense.pop("bias")
    assert mx.allclose(dense(x) + bias, with_bias, atol=1e-5)


def test_transforms_see_what_a_layer_does():
    layer, x = nn.Linear(64, 32), mx.array(X)
    grads = nn.value_and_grad(layer, lambda y: (layer(y) ** 2).sum())(x)[1]
    y = np.array(layer(x), np.float64)
    np.testing.assert_allclose(np.array(grads["bias"]), 2 * y.sum((0, 1)), rtol=1e-4)
    np.testing.assert_allclose(
        np.array(grads["weight"]), 2 * np.einsum("abo,abi->oi", y, X), rtol=1e-3, atol=1e-3
    )
    assert mx.allclose(mx.compile(layer)(x), layer(x), atol=1e-5)
    assert mx.allclose(mx.vmap(nn.RMSNorm(64))(x), nn.RMSNorm(64)(x), atol=1e-6)


def test_errors_are_those_of_the_functions():
    with pytest.raises(ValueError, match="quantized_matmul"):
        quantized()(mx.zeros((2, 63)))
    with pytest.raises(ValueError, match="matmul|addmm"):
        nn.Linear(64, 32)(mx.zeros((2, 63)))
    with pytest.raises(ValueError, match="rms_norm"):
        nn.RMSNorm(64)(mx.zeros((2, 63)))
    for call in (
        lambda m: m(),
        lambda m: m(1, 2),
        lambda m: m(y=3),
        lambda m: m("x"),
        lambda m: m(None),
    ):
        for layer in (quantized(), nn.Linear(64, 32), nn.RMSNorm(64)):
            with pytest.raises((TypeError, ValueError)):
                call(layer)
    with pytest.raises(TypeError):
        nn.Linear.__call__(3, mx.zeros(64))
    broken = nn.Linear(64, 32)
    del broken["weight"]
    with pytest.raises(KeyError):
        broken(mx.array(X))
    assert nn.Linear(64, 32)(mx.array(X)).shape == (3, 5, 32)


def test_descriptions():
    for cls in (nn.Linear, nn.QuantizedLinear, nn.RMSNorm, nn.RoPE):
        names = list(inspect.signature(cls.__call__).parameters)
        assert names == ["self", "x", "offset"][: len(names)] and len(names) >= 2
        assert cls.__call__.__name__ == "__call__"
    assert "input_dims" in nn.Linear.__call__.__doc__
    layer = pickle.loads(pickle.dumps(nn.Linear(64, 32)))
    assert layer(mx.array(X)).shape == (3, 5, 32)
