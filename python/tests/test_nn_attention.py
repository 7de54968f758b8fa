"""Layers built on mlx.core.fast: norms, rotary embedding, attention, transformers."""

import mlx.core as mx
import mlx.nn as nn
import nn_reference as ref
import numpy as np
import pytest
from helpers import to_np


def close(got, want, tolerance=3e-5):
    np.testing.assert_allclose(to_np(got), want, rtol=tolerance, atol=tolerance)


def arr(x):
    return mx.array(np.asarray(x, np.float32))


def test_norms(rng):
    x = rng.normal(1, 2, (2, 3, 8))
    layer = ref.randomise(nn.LayerNorm(8), rng)
    close(layer(arr(x)), ref.layer_norm(x, ref.parameters(layer)))
    ref.check_gradient(layer, ref.scalar, [x], rng)
    only = ref.randomise(nn.LayerNorm(8, eps=0.1, bias=False), rng)
    close(only(arr(x)), ref.layer_norm(x, ref.parameters(only), 0.1))
    plain = nn.LayerNorm(8, affine=False)
    assert plain.parameters() == {}
    close(plain(arr(x)), ref.normalise(x, -1))
    rms = ref.randomise(nn.RMSNorm(8, eps=0.1), rng)
    want = x / np.sqrt((x * x).mean(-1, keepdims=True) + 0.1) * ref.parameters(rms)["weight"]
    close(rms(arr(x)), want)
    ref.check_gradient(rms, ref.scalar, [x], rng)
    assert repr(layer) == "LayerNorm(8, eps=1e-05, affine=True)"
    assert repr(rms) == "RMSNorm(8, eps=0.1)"
    for norm in (layer, rms):
        with pytest.raises(ValueError, match="weight"):
            norm(mx.zeros((2, 5)))


def test_group_norm_of_neighbours(rng):
    x = rng.normal(1, 2, (2, 3, 2, 6))
    layer = ref.randomise(nn.GroupNorm(3, 6, pytorch_compatible=True), rng)
    p = ref.parameters(layer)
    groups = x.reshape(2, 6, 3, 2)
    close(layer(arr(x)), ref.normalise(groups, (1, 3)).reshape(x.shape) * p["weight"] + p["bias"])
    ref.check_gradient(layer, ref.scalar, [x], rng)


@pytest.mark.parametrize("traditional", [True, False])
def test_rope(traditional, rng):
    x = rng.normal(size=(1, 2, 3, 6))
    layer = nn.RoPE(4, traditional, base=100.0, scale=0.5)
    angles = (5 + np.arange(3.0))[:, None] * 0.5 * 100.0 ** (-np.arange(2) / 2)
    first, second = (slice(0, 4, 2), slice(1, 4, 2)) if traditional else (slice(2), slice(2, 4))
    want = x.copy()
    a, b = x[..., first], x[..., second]
    want[..., first] = a * np.cos(angles) - b * np.sin(angles)
    want[..., second] = a * np.sin(angles) + b * np.cos(angles)
    close(layer(arr(x), offset=5), want)
    assert repr(layer) == f"RoPE(4, traditional={traditional})"
    assert layer.parameters() == {}


def test_multi_head_attention(rng):
    q, k, v = (rng.normal(size=s) for s in ((2, 3, 5), (2, 4, 6), (2, 4, 7)))
    layer = nn.MultiHeadAttention(8, 2, 5, 6, 7, 4, 9, bias=True)
    mask = np.where(rng.uniform(size=(3, 4)) < 0.3, -1e9, 0.0)
    args = [arr(x) for x in (q, k, v)]
    p = ref.parameters(layer)
    close(layer(*args), ref.attention(q, k, v, p, 2))
    close(layer(*args, mask=arr(mask)), ref.attention(q, k, v, p, 2, mask))
    ref.check_gradient(layer, ref.scalar, [q, k, v], rng)
    causal = to_np(nn.MultiHeadAttention.create_additive_causal_mask(3))
    assert (causal == np.where(np.tri(3) > 0, 0, np.finfo(np.float32).min)).all()
    half = nn.MultiHeadAttention.create_additive_causal_mask(2, mx.float16)
    assert half.dtype == mx.float16 and half[0, 1].item() == -65504
    for bad in ((8, 3), (8, 0)):
        with pytest.raises(ValueError, match="divisible by the number of heads"):
            nn.MultiHeadAttention(*bad)
    with pytest.raises(ValueError, match="value_dims"):
        nn.MultiHeadAttention(8, 2, value_dims=3)


def mlp(x, p, activation=ref.relu):
    return ref.linear(activation(ref.linear(x, p["linear1"])), p["linear2"])


def encoder_layer(x, p, mask=None, first=True):
    def attend(y):
        return ref.attention(y, y, y, p["attention"], 2, mask)

    if first:
        x = x + attend(ref.layer_norm(x, p["ln1"]))
        return x + mlp(ref.layer_norm(x, p["ln2"]), p)
    x = ref.layer_norm(x + attend(x), p["ln1"])
    return ref.layer_norm(x + mlp(x, p), p["ln2"])


def decoder_layer(x, memory, p, mask=None, first=True):
    def own(y):
        return ref.attention(y, y, y, p["self_attention"], 2, mask)

    def cross(y):
        return ref.attention(y, memory, memory, p["cross_attention"], 2)

    if first:
        x = x + own(ref.layer_norm(x, p["ln1"]))
        x = x + cross(ref.layer_norm(x, p["ln2"]))
        return x + mlp(ref.layer_norm(x, p["ln3"]), p)
    x = ref.layer_norm(x + own(x), p["ln1"])
    x = ref.layer_norm(x + cross(x), p["ln2"])
    return ref.layer_norm(x + mlp(x, p), p["ln3"])


@pytest.mark.parametrize("first", [True, False])
def test_transformer_layers(first, rng):
    x, memory = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 5, 4))
    mask = np.where(np.tri(3) > 0, 0, -1e9)
    encoder = nn.TransformerEncoderLayer(4, 2, 6, norm_first=first)
    decoder = nn.TransformerDecoderLayer(4, 2, norm_first=first)
    p = ref.parameters(encoder)
    close(encoder(arr(x), arr(mask)), encoder_layer(x, p, mask, first))
    close(encoder(arr(x), None), encoder_layer(x, p, None, first))
    p = ref.parameters(decoder)
    assert decoder.linear1.weight.shape == (16, 4)
    got = decoder(arr(x), arr(memory), arr(mask), None)
    close(got, decoder_layer(x, memory, p, mask, first))


@pytest.mark.parametrize("checkpoint", [False, True])
def test_transformer(checkpoint, rng):
    src, tgt = rng.normal(size=(2, 5, 4)), rng.normal(size=(2, 3, 4))
    mask = np.where(np.tri(3) > 0, 0, -1e9)
    model = nn.Transformer(4, 2, 2, 1, 6, checkpoint=checkpoint)
    p = ref.parameters(model)
    memory = src
    for layer in p["encoder"]["layers"]:
        memory = encoder_layer(memory, layer)
    memory = ref.layer_norm(memory, p["encoder"]["ln"])
    want = decoder_layer(tgt, memory, p["decoder"]["layers"][0], mask)
    want = ref.layer_norm(want, p["decoder"]["ln"])
    close(model(arr(src), arr(tgt), None, arr(mask), None), want, 1e-4)

    def loss(model, src, tgt):
        return ref.scalar(lambda s, t: model(s, t, None, None, None), src, tgt)

    ref.check_gradient(model, loss, [src, tgt], rng)


def test_transformer_with_other_parts():
    model = nn.Transformer(
        4, 2, custom_encoder=lambda x, m: x + 1, custom_decoder=lambda x, mem, a, b: x + mem
    )
    assert model(mx.ones((1,)), mx.ones((1,)), None, None, None).item() == 3
    assert model.parameters() == {}
    training = nn.TransformerEncoderLayer(4, 2, dropout=0.5)
    x = mx.ones((1, 3, 4))
    assert not mx.array_equal(training(x, None), training(x, None))
    training.eval()
    assert mx.array_equal(training(x, None), training(x, None))
