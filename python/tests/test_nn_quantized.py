"""Quantised layers and the conversion of models; split layers in a group of one."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from helpers import to_np
from mlx.nn.layers import distributed
from mlx.utils import tree_flatten


def close(got, want, tolerance=2e-4):
    np.testing.assert_allclose(to_np(got), to_np(want), rtol=tolerance, atol=tolerance)


def dense(layer):
    """The weight that a quantised layer stands for."""
    return mx.dequantize(
        layer.weight,
        layer.scales,
        layer.biases,
        group_size=layer.group_size,
        bits=layer.bits,
        mode=layer.mode,
        dtype=mx.float32,
    )


@pytest.mark.parametrize("mode", ["affine", "mxfp4"])
def test_linear_and_embedding(mode):
    mx.random.seed(1)
    x = mx.random.normal((3, 64))
    layer = nn.Linear(64, 8)
    quantised = layer.to_quantized(mode=mode)
    assert isinstance(quantised, nn.QuantizedLinear) and quantised.bias is layer.bias
    close(quantised(x), x @ dense(quantised).T + layer.bias)
    assert mx.abs(dense(quantised) - layer.weight).max() < 0.05
    assert quantised.trainable_parameters() == {}
    keys = {"weight", "scales", "bias"} | ({"biases"} if mode == "affine" else set())
    assert set(quantised.parameters()) == keys
    table = nn.Embedding(6, 64)
    small = table.to_quantized(mode=mode)
    tokens = mx.array([[1, 5], [0, 1]])
    close(small(tokens), dense(small)[tokens], 1e-2)
    close(small.as_linear(x), x @ dense(small).T)
    size = 64 if mode == "affine" else 32
    assert repr(small) == f"QuantizedEmbedding(6, 64, group_size={size}, bits=4, mode={mode})"
    assert repr(quantised) == (
        f"QuantizedLinear(input_dims=64, output_dims=8, bias=True, group_size={size}, bits=4, "
        f"mode={mode})"
    )


def test_gradient_passes_through():
    layer = nn.QuantizedLinear(64, 8, group_size=32, bits=8)
    got = mx.grad(lambda x: (layer(x) * 2).sum())(mx.ones((2, 64)))
    close(got, mx.broadcast_to(2 * dense(layer).sum(0), (2, 64)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.table = nn.Embedding(4, 64)
        self.rest = [nn.Linear(64, 32, bias=False), nn.ReLU()]


def test_models():
    model = Model()
    assert nn.quantize(model, bits=8) is None
    assert type(model.first) is type(model.rest[0]) is nn.QuantizedLinear
    assert isinstance(model.table, nn.QuantizedEmbedding) and model.table.bits == 8
    assert isinstance(model.rest[1], nn.ReLU)

    model, seen = Model(), []

    def choose(path, module):
        seen.append(path)
        return {"bits": 8, "group_size": 32} if path == "rest.0" else path == "table"

    nn.quantize(model, class_predicate=choose)
    assert seen == ["first", "table", "rest.0", "rest.1"]
    assert isinstance(model.first, nn.Linear)
    assert (model.rest[0].bits, model.rest[0].group_size, model.table.group_size) == (8, 32, 64)


def test_weights_fit_a_quantised_model(tmp_path):
    a, b = Model(), Model()
    nn.quantize(a)
    nn.quantize(b)
    a.save_weights(str(tmp_path / "q.safetensors"))
    b.load_weights(str(tmp_path / "q.safetensors"))
    for (_, x), (_, y) in zip(
        tree_flatten(a.parameters()), tree_flatten(b.parameters()), strict=True
    ):
        assert mx.array_equal(x, y)


def test_bad_arguments():
    for kwargs, message in (
        ({"class_predicate": lambda p, m: True}, "Unable to quantize model of type .*ReLU"),
        ({"class_predicate": lambda p, m: "yes" if p == "first" else False}, "bool or a dict"),
        ({"mode": "int4"}, "Invalid quantization mode 'int4'"),
        ({"quantize_input": True}, "quantize_input is only supported"),
    ):
        with pytest.raises(ValueError, match=message):
            nn.quantize(Model(), **kwargs)
    with pytest.raises(NotImplementedError, match="bias"):
        nn.Linear(64, 32).to_quantized(mode="nvfp4", quantize_input=True)
    with pytest.raises(ValueError, match="quantize_input"):
        nn.Embedding(4, 64).to_quantized(quantize_input=True)


def test_inputs_quantised_too():
    layer = nn.Linear(64, 32, bias=False).to_quantized(mode="nvfp4", quantize_input=True)
    assert isinstance(layer, nn.QQLinear) and layer.weight.shape == (32, 64)
    layer.eval()
    assert layer.weight.shape == (32, 8) and "scales" in layer
    assert (
        repr(layer) == "QQLinear(input_dims=64, output_dims=32, group_size=16, bits=4, mode=nvfp4)"
    )
    layer.train()
    assert layer.weight.shape == (32, 64) and "scales" not in layer


def test_split_layers_in_a_group_of_one():
    mx.random.seed(2)
    x = mx.random.normal((3, 64))
    layer = nn.Linear(64, 32)
    quantised = layer.to_quantized()
    for kind in ("all-to-sharded", "sharded-to-all"):
        close(distributed.shard_linear(layer, kind)(x), layer(x), 1e-5)
        split = distributed.shard_linear(quantised, kind)
        close(split(x), quantised(x), 1e-5)
        assert split.unfreeze().trainable_parameters() == {}
    assert repr(nn.AllToShardedLinear(4, 6)) == (
        "AllToShardedLinear(input_dims=4, output_dims=6, bias=True)"
    )
    assert repr(nn.QuantizedShardedToAllLinear(64, 6)) == (
        "QuantizedShardedToAllLinear(input_dims=64, output_dims=6, bias=True, group_size=64, "
        "bits=4, mode=affine)"
    )


def test_sizes_that_are_given_are_not_replaced_by_defaults():
    for make in (nn.QuantizedLinear, nn.QuantizedEmbedding):
        assert make(64, 64).group_size == 64 and make(64, 64).bits == 4
        for bad in ({"bits": 0}, {"bits": False}, {"group_size": 0}):
            with pytest.raises(ValueError, match="quantize"):
                make(64, 64, **bad)
        for bad in ({"bits": ()}, {"group_size": []}, {"group_size": 0.0}):
            with pytest.raises(TypeError):
                make(64, 64, **bad)
