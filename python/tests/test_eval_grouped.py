"""Products of picked experts of which those of one matrix are multiplied together: values, on
cooperative matrices and, in a process of its own, by ordinary arithmetic in their place."""

import os
from functools import partial

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
from test_eval_combined import Layer, summed, weights_of
from test_eval_experts import UNIT, Experts, apart, close, normal, rounded, swiglu

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.validation,
    pytest.mark.usefixtures("none_disabled"),
]

MODES = [
    {"group_size": 64, "bits": 4},
    {"group_size": 128, "bits": 4},
    {"group_size": 32, "bits": 8},
    {"group_size": 64, "bits": 3},
    {"group_size": 32, "bits": 4, "mode": "mxfp4"},
    {"group_size": 32, "bits": 8, "mode": "mxfp8"},
]
HALVES = ["float16", "bfloat16"]


@pytest.fixture(autouse=True)
def by_shaders(none_disabled):
    """The kernel in PTX that takes some of these has tests of its own."""
    before = mx.vulkan._set_disabled(["qmm_few_picked"])
    yield
    mx.vulkan._set_disabled(before)


def names(f):
    out, ran = h.kernels(f)
    return out, [k for k in ran if "qmm" in k]


def grouped(rng):
    """Whether the device multiplies so."""
    m = Experts(rng, 16, 64, "float16", count=3)
    x, rest = normal(rng, 32, 1, 64, dtype="float16"), normal(rng, 32, 1, 16, dtype="float16")
    picks = mx.array(np.arange(32) % 3)
    return any("qmm_coop_grouped" in k for k in names(lambda: m(x, picks) * rest)[1])


def skewed(rng, count, experts):
    """Some matrices have most of the picks, some none."""
    picks = np.minimum(rng.geometric(0.25, count) - 1, experts - 2)
    return rng.permutation(picks).astype(np.uint32)


def units(rng, how, dtype, count, experts=5, share=1, k=256, n=45):
    """A gated unit of picks that share rows, and two products beside each other."""
    gate, up = (Experts(rng, n, k, dtype, count=experts, **how) for _ in range(2))
    chosen = skewed(rng, count, experts)
    picks = mx.array(chosen.reshape(count // share, 1, share))
    x = normal(rng, count // share, 1, 1, 1, k, dtype=dtype)

    def unit():
        return swiglu(gate(x, picks), up(x, picks))

    out, ran = names(unit)
    assert len(ran) == 1 and ran[0].startswith("qmm_coop_grouped"), ran
    rows = mx.array(np.repeat(h.to_np(x).reshape(count // share, k), share, 0))
    g, u = (rounded(m.of(rows, chosen), dtype) for m in (gate, up))
    close(out, g / (1 + np.exp(-g)) * u, dtype)
    close(apart(unit), h.to_np(out).astype(np.float64), dtype)
    both, ran = names(lambda: [gate(x, picks), up(x, picks)])
    assert len(ran) == 1 and ran[0].startswith("qmm_coop_grouped"), ran
    for got, m in zip(both, (gate, up), strict=True):
        close(got, m.of(rows, chosen), dtype)


def every_mode(rng, dtype):
    for how in MODES:
        units(rng, how, dtype, 48, share=4)
    for count in (24, 64, 200):
        units(rng, MODES[0], dtype, count, experts=60 if count > 100 else 5, k=128, n=33)


def sums(rng, dtype):
    """Layers of tokens, picks sorted by the program and not, as one and step by step."""
    for tokens, each, experts, hidden, inner in [(6, 4, 9, 256, 128), (13, 8, 16, 320, 192)]:
        layer = Layer(rng, hidden, inner, dtype, experts=experts, group_size=64, bits=4)
        picks = np.stack([rng.permutation(experts)[:each] for _ in range(tokens)])
        picks = picks.astype(np.uint32)[:, None]
        x = normal(rng, tokens, 1, hidden, dtype=dtype)
        weights = weights_of(rng, tokens, 1, each, dtype=dtype)
        # Many picks are sorted by the programs that there are.
        for sort in (False, True) if tokens < 8 else (True,):
            how = {"sort": sort}
            out, ran = names(partial(layer, x, mx.array(picks), weights, **how))
            assert all("grouped" in k or "sums" in k for k in ran) and len(ran) == 3, ran
            close(out, layer.expected(x, picks, weights), dtype, units=6)
            again = layer(x, mx.array(picks), weights, **how)
            assert np.array_equal(h.to_np(out), h.to_np(again)), "from run to run"


def odd_sizes(rng):
    """Rows that no tile divides, sums whose rows no vector divides, tokens that share nothing."""
    for n, k, experts in [(1, 64, 2), (7, 192, 3), (17, 64, 12), (130, 128, 4)]:
        down = Experts(rng, n, k, "bfloat16", count=experts)
        tokens, each = 12, 2
        picks = rng.integers(0, experts, (tokens, 1, each)).astype(np.uint32)
        x = normal(rng, tokens, 1, each, 1, k, dtype="bfloat16")
        weights = weights_of(rng, tokens, 1, each, dtype="bfloat16")
        residual = normal(rng, tokens, 1, n, dtype="bfloat16")

        def layer(down=down, x=x, picks=picks, weights=weights, residual=residual):
            y = down(x, mx.array(picks)).squeeze(-2)
            return residual + (y * weights[..., None]).sum(axis=-2)

        out, ran = names(layer)
        assert len(ran) == 2, ran
        y = down.of(x, picks.reshape(-1)).reshape(tokens, each, -1)
        want = summed(y, weights, "bfloat16") + h.to_np(residual).reshape(tokens, -1)
        close(out, want, "bfloat16")


def outside(rng):
    """Signed indices count from the end, and none leads outside."""
    m = Experts(rng, 16, 64, "bfloat16", count=6)
    x, rest = normal(rng, 30, 1, 64, dtype="bfloat16"), normal(rng, 30, 1, 16, dtype="bfloat16")
    for kind, values in [(np.int32, [-1, -6, 2, 99, -99]), (np.uint32, [1, 2**32 - 1, 7, 0, 5])]:
        picks = mx.array(np.resize(np.array(values).astype(kind), 30))
        out, ran = names(lambda picks=picks: m(x, picks) * rest)
        assert "grouped" in ran[0], ran
        held = [
            np.clip(v + 6 if v < 0 else v, 0, 5) if kind == np.int32 else min(v, 5)
            for v in np.resize(values, 30)
        ]
        want = rounded(m.of(x, held), "bfloat16") * h.to_np(rest).reshape(30, 16)
        close(out, want, "bfloat16")


def not_finite(rng):
    """Rows of NaN and infinities keep to themselves, as by single kernels."""
    m = Experts(rng, 16, 128, "bfloat16", count=2)
    v = h.to_np(normal(rng, 32, 1, 128, dtype="bfloat16")).copy()
    v[3, 0, 5], v[9, 0, 7], v[20, 0, 1] = np.nan, np.inf, -np.inf
    x, one = mx.array(v).astype(mx.bfloat16), mx.ones((32, 1, 16), mx.bfloat16)
    picks = mx.array(np.arange(32) % 2)
    got = h.to_np(m(x, picks) * one)
    assert np.isnan(got[3]).all() and not np.isfinite(got[[9, 20]]).any()
    assert np.isfinite(np.delete(got, [3, 9, 20], 0)).all()


def all_of(rng, dtype):
    every_mode(rng, dtype)
    sums(rng, dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_every_mode_and_layer_on_matrices(rng, dtype):
    if not grouped(rng):
        assert not any("grouped" in k for k in names(lambda: mx.ones(4) * 2)[1])
        return
    all_of(rng, dtype)


def test_corners_on_matrices(rng):
    if grouped(rng):
        odd_sizes(rng)
        outside(rng)
        not_finite(rng)


@pytest.mark.parametrize("what", ["float16", "bfloat16", "corners"])
def test_by_ordinary_arithmetic(what):
    body = "t.odd_sizes(rng); t.outside(rng); t.not_finite(rng)"
    code = f"""
    import sys
    sys.path.insert(0, {os.path.dirname(__file__)!r})
    import mlx.core as mx
    import numpy as np
    mx.set_default_device(mx.gpu)
    import test_eval_grouped as t
    rng = np.random.default_rng(5)
    assert t.grouped(rng)
    {body if what == "corners" else f"t.all_of(rng, {what!r})"}
    """
    h.python(code, env={"MLX_VK_QMM": "plain"}, timeout=280)


def test_it_can_be_turned_off(rng):
    before = mx.vulkan._set_disabled(["qmm_grouped", "qmm_few_picked"])
    assert not grouped(rng)
    m = Experts(rng, 16, 64, "float16", count=3)
    x = normal(rng, 32, 1, 64, dtype="float16")
    chosen = np.arange(32) % 3
    out = m(x, mx.array(chosen)) * mx.ones((32, 1, 16), mx.float16)
    close(out, m.of(x, chosen), "float16")
    mx.vulkan._set_disabled(before)


def test_single_precision_has_a_kernel_for_each_pick(rng):
    m = Experts(rng, 16, 64, "float32", count=3)
    x, chosen = normal(rng, 32, 1, 64), np.arange(32) % 3
    out, ran = names(lambda: m(x, mx.array(chosen)) * mx.ones((32, 1, 16)))
    assert not any("grouped" in k for k in ran), ran
    close(out, m.of(x, chosen), "float32")
    assert set(UNIT) >= set(HALVES)
