"""Attention of one position of several sequences on matrix units, and of one sequence in front of
the products that follow it, where GPUs have such kernels; elsewhere the same values by others."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
import test_eval_joined as t
from test_eval_chain import can
from test_eval_joined_attention import Decoder, padded

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.validation,
    pytest.mark.usefixtures("none_disabled"),
]


def check(d, offsets, name):
    """Values and caches against float64; the same bits again."""
    (out, *caches), ran = h.kernels(d.step())
    if can(1024) and name:
        assert any(name in k for k in ran), ran
    t.close(out, d.expected(offsets), d.dtype, 4)
    again, *copies = d.step()()
    for a, b in zip([out, *caches], [again, *copies], strict=True):
        assert np.array_equal(h.to_np(a), h.to_np(b), equal_nan=True)
    other, *copies = h.apart(d.step(), "sdpa_rope", "rope_rows")
    t.close(out, h.to_np(other).astype(np.float64), d.dtype, 4)
    for a, b, filled in zip(caches, copies, d.filled, strict=True):
        a, b, filled = (h.to_np(x).astype(np.float64) for x in (a, b, filled))
        newest = np.arange(a.shape[2]) == d.past
        assert np.array_equal(a[:, :, ~newest], filled[:, :, ~newest])
        # The newest row, within a rounding.
        assert np.abs(a - b)[:, :, newest].max() <= 2.0**-7 * np.abs(b[:, :, newest]).max()


@pytest.mark.parametrize("kind", ["bool", "added", None])
@pytest.mark.parametrize("head", [64, 128])
@pytest.mark.parametrize(
    "batch, heads, kv, end, dtype",
    [
        (2, 4, 1, 1, "bfloat16"),
        (8, 8, 2, 300, "bfloat16"),
        (32, 8, 2, 129, "bfloat16"),
        (3, 5, 1, 1000, "bfloat16"),
        (2, 24, 2, 70, "bfloat16"),
        (5, 7, 7, 17, "bfloat16"),
        (8, 8, 2, 300, "float16"),
        (3, 5, 1, 1000, "float16"),
    ],
)
def test_batches(rng, kind, head, batch, heads, kv, end, dtype):
    mask, offsets = padded(rng, kind, batch, heads, end, dtype)
    given = mx.array(offsets)
    mx.eval(given)
    how = {"past": end - 1, "end": end, "room": end + 3, "mask": mask, "offset": given}
    d = Decoder(rng, dtype, batch, heads, kv, head=head, normalised=kind != "added", **how)
    check(d, offsets, "_several_")


@pytest.mark.parametrize("kind", ["bool", "added", None])
@pytest.mark.parametrize(
    "batch, heads, kv, end, dtype",
    [
        (8, 8, 2, 300, "bfloat16"),
        (2, 24, 2, 70, "bfloat16"),
        (5, 7, 7, 17, "float16"),
        (3, 5, 1, 1000, "float16"),
    ],
)
def test_heads_of_ninety_six(rng, kind, batch, heads, kv, end, dtype):
    """Their values end within what a lane reads at once; those that are normalised, and those
    that share no keys, go elsewhere."""
    mask, offsets = padded(rng, kind, batch, heads, end, dtype)
    given = mx.array(offsets)
    mx.eval(given)
    how = {"past": end - 1, "end": end, "room": end, "mask": mask, "offset": given, "head": 96}
    for normalised in (False, True):
        d = Decoder(rng, dtype, batch, heads, kv, normalised=normalised, **how)
        check(d, offsets, None if normalised or heads == kv else "_several_")


@pytest.mark.parametrize("place", [0, 15, 16, 127, 128, 299])
def test_a_newest_key_amid_others(rng, place):
    mask, _ = padded(rng, "bool", 3, 8, 300, "bfloat16")
    given = mx.array([200_000, 7, 0])
    sinks = t.normal(rng, 8, dtype="bfloat16")
    mx.eval(given)
    how = {"past": place, "end": 300, "room": 300, "mask": mask, "offset": given, "sinks": sinks}
    check(Decoder(rng, "bfloat16", 3, 8, 2, head=128, **how), [200_000, 7, 0], "_several_")


def test_infinities_and_numbers_that_are_none_stay_in_their_sequence(rng):
    """Also those of keys that no mask shows."""
    given = mx.array([99, 99, 99])
    hidden = np.ones((3, 1, 1, 100), bool)
    hidden[0, ..., 40] = False
    mask = mx.array(hidden)
    mx.eval(given, mask)
    how = {"past": 99, "end": 100, "room": 100, "mask": mask, "offset": given}
    d = Decoder(rng, "bfloat16", 3, 4, 2, head=64, **how)
    keys = h.to_np(d.filled[0]).astype(np.float32)
    keys[0, :, 40], keys[1, :, 3] = np.inf, np.nan
    d.filled[0] = mx.array(keys).astype(mx.bfloat16)
    mx.eval(d.filled)
    out, *_ = d.step()()
    got = h.to_np(out).astype(np.float32)
    assert np.isfinite(got[[0, 2]]).all() and np.isnan(got[1]).all()
    keys[0, :, 40], keys[1, :, 3] = 0, 0
    d.filled[0] = mx.array(keys).astype(mx.bfloat16)
    t.close(mx.array(got[[0, 2]]), d.expected([99, 99, 99])[[0, 2]], "bfloat16", 4)


class Behind:
    """Attention of one sequence, the product of its result and what is added to that."""

    def __init__(self, rng, heads, kv, head, past, hidden, dtype="bfloat16"):
        self.dtype = dtype
        how = {"past": past, "room": past + 1, "normalised": head % 64 == 0}
        self.d = Decoder(rng, dtype, 1, heads, kv, head=head, **how)
        self.o = t.Matrix(rng, hidden, heads * head, dtype)
        self.x = t.normal(rng, 1, 1, hidden, dtype=dtype)

    def step(self):
        run = self.d.step()

        def result():
            out, *caches = run()
            row = out.transpose(0, 2, 1, 3).reshape(1, 1, -1)
            return [self.x + self.o(row), out, *caches]

        return result

    def expected(self, attended):
        row = h.to_np(attended).astype(np.float64).reshape(1, -1)
        product = t.rounded(self.o.of(row), self.dtype).astype(np.float64)
        return h.to_np(self.x).astype(np.float64).reshape(1, -1) + product


@pytest.mark.parametrize(
    "heads, kv, head, past, hidden, dtype",
    [
        (32, 8, 128, 511, 4096, "bfloat16"),
        (16, 8, 128, 37, 1024, "bfloat16"),
        (32, 4, 128, 999, 2048, "bfloat16"),
        (16, 2, 64, 130, 1024, "bfloat16"),
        (9, 3, 128, 1, 1152, "bfloat16"),
        (8, 8, 128, 5000, 1024, "bfloat16"),
        (16, 8, 128, 37, 1024, "float16"),
        (16, 2, 64, 130, 1024, "float16"),
        (32, 32, 96, 511, 3072, "bfloat16"),
        (16, 4, 96, 37, 1024, "float16"),
    ],
)
def test_a_product_behind_attention(rng, heads, kv, head, past, hidden, dtype):
    b = Behind(rng, heads, kv, head, past, hidden, dtype)
    (out, attended, *caches), ran = h.kernels(b.step())
    if can(1024):
        assert any("_several_" in k and "qmm_chain" in k for k in ran), ran
    t.close(attended, b.d.expected(), dtype, 4)
    t.close(out.reshape(1, -1), b.expected(attended), dtype, 4)
    for _ in range(3):
        again = b.step()()
        mx.eval(again)
        for a, c in zip(again, [out, attended, *caches], strict=True):
            assert np.array_equal(h.to_np(a), h.to_np(c))
    alone, *_ = b.d.step()()
    t.close(alone, h.to_np(attended).astype(np.float64), dtype, 4)


def test_layers_one_behind_the_other(rng):
    """As in a loop of generation: words of one chain are no other one's."""
    layers = [Behind(rng, 16, 8, 128, 100 + 7 * i, 2048) for i in range(5)]
    for _ in range(3):
        steps = [b.step() for b in layers]
        got = [step() for step in steps]
        mx.eval(got)
        for b, (out, attended, *_) in zip(layers, got, strict=True):
            t.close(attended, b.d.expected(), "bfloat16", 4)
            t.close(out.reshape(1, -1), b.expected(attended), "bfloat16", 4)
