"""Rows that pick their experts, by codes of four and eight bits and small floats, against float64;
GPUs that take PTX have a kernel for those (qmm_few_picked)."""

from functools import partial

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
from test_eval_combined import Layer, summed, weights_of
from test_eval_experts import Experts, close, normal, rounded, swiglu

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("none_disabled")]

HOW = {"group_size": 64, "bits": 4}
DTYPE = "bfloat16"
# Picks from which on their products are made so before they are summed up.
SUMMED = 40


def names(f):
    out, ran = h.kernels(f)
    return out, [k for k in ran if "qmm" in k]


def unit(gate, up, x, picks):
    return swiglu(gate(x, picks), up(x, picks))


def pair(rng, n, k, experts, **how):
    return [Experts(rng, n, k, DTYPE, count=experts, **(how or HOW)) for _ in range(2)]


@pytest.fixture
def there(rng):
    """Whether the device has the kernel."""
    mats = pair(rng, 16, 256, 2)
    x, picks = normal(rng, 8, 1, 1, 256, dtype=DTYPE), mx.array(np.arange(8).reshape(8, 1) % 2)
    return "qmm_few_picked" in names(partial(unit, *mats, x, picks))[1][0]


def layer(rng, experts, picks, there, hidden=256, inner=256, dtype=DTYPE):
    """Gate, up and down with their weighted sum, twice."""
    tokens, each = picks.shape
    work = Layer(rng, hidden, inner, dtype, experts=experts, **HOW)
    x = normal(rng, tokens, 1, hidden, dtype=dtype)
    weights = weights_of(rng, tokens, 1, each, dtype=dtype)
    chosen = picks.astype(np.uint32)[:, None]
    for sort in (False, True) if picks.size < 64 else (True,):
        run = partial(work, x, mx.array(chosen), weights, sort=sort)
        out, ran = names(run)
        if there and 8 <= picks.size <= 8 * experts:
            few = sum("qmm_few_picked" in name for name in ran)
            # All of one token is a chain.
            assert few or tokens == 1 and "_qmm_chain" in ran[0], ran
            assert picks.size < SUMMED or few == 2 and any("qmm_sums" in name for name in ran), ran
        close(out, work.expected(x, chosen, weights), dtype, units=6)
        assert np.array_equal(h.to_np(out), h.to_np(run()))


@pytest.mark.parametrize("tokens", [1, 2, 3, 8, 9, 31, 32, 64])
@pytest.mark.parametrize("experts", [4, 8, 128])
def test_layers_of_few_rows(rng, there, tokens, experts):
    each = min(8, experts // 2)
    picks = np.stack([rng.permutation(experts)[:each] for _ in range(tokens)])
    layer(rng, experts, picks, there)
    layer(rng, experts, picks, there, dtype="float16")


@pytest.mark.parametrize("sizes", [(512, 768), (768, 256), (1024, 512)])
def test_other_widths(rng, there, sizes):
    picks = np.stack([rng.permutation(12)[:4] for _ in range(10)])
    layer(rng, 12, picks, there, *sizes)
    if there:
        layer(rng, 12, picks, there, 2048, 768)
        layer(rng, 12, picks, there, 2048, 768, "float16")


def test_experts_of_all_rows_and_of_none(rng, there):
    """One that every row picks, one that nine do, one that nobody picks, some twice in a row."""
    picks = np.tile([0, 1, 5, 5], (16, 1))
    picks[9:, 1] = 3
    picks[::2, 3] = 4
    layer(rng, 8, picks, there)
    layer(rng, 4, np.full((8, 4), 2), there)


def test_products_beside_each_other_and_by_lengths_of_rows(rng, there):
    for n, k, experts in [(48, 256, 3), (16, 512, 40), (112, 768, 5)]:
        gate, up = pair(rng, n, k, experts)
        chosen = rng.integers(0, experts, 24).astype(np.int32)
        x, picks = normal(rng, 12, 1, 1, k, dtype=DTYPE), mx.array(chosen.reshape(12, 2))
        rows = mx.array(np.repeat(h.to_np(x).reshape(12, k), 2, 0))
        both, ran = names(lambda: [gate(x, picks), up(x, picks)])  # noqa: B023
        assert not there or "qmm_few_picked" in ran[0], ran
        for got, m in zip(both, (gate, up), strict=True):
            close(got, m.of(rows, chosen), DTYPE)
        out, ran = names(partial(unit, gate, up, x, picks))
        assert not there or "qmm_few_picked" in ran[0], ran
        g, u = (rounded(m.of(rows, chosen), DTYPE) for m in (gate, up))
        close(out, g / (1 + np.exp(-g)) * u, DTYPE)


def test_indices_outside(rng, there):
    """Signed ones count from the end, and none leads outside."""
    gate, up = pair(rng, 32, 256, 6)
    x = normal(rng, 30, 1, 256, dtype=DTYPE)
    for kind, values in [(np.int32, [-1, -6, 2, 99, -99]), (np.uint32, [1, 2**32 - 1, 7, 0, 5])]:
        picks = np.resize(np.array(values).astype(kind), 30)
        out, ran = names(partial(unit, gate, up, x, mx.array(picks)))
        assert not there or "qmm_few_picked" in ran[0], ran
        held = [int(np.clip(v + 6 if v < 0 else v, 0, 5)) for v in picks.astype(np.int64)]
        g, u = (rounded(m.of(x, held), DTYPE) for m in (gate, up))
        close(out, g / (1 + np.exp(-g)) * u, DTYPE)


def test_rows_keep_what_is_no_number_to_themselves(rng, there):
    m, other = pair(rng, 16, 256, 2)
    v = h.to_np(normal(rng, 16, 1, 256, dtype=DTYPE)).copy()
    v[3, 0, 5], v[9, 0, 7], v[11, 0, 1] = np.nan, np.inf, -np.inf
    x, picks = mx.array(v).astype(mx.bfloat16), mx.array(np.arange(16) % 2)
    (got, _), ran = names(lambda: [m(x, picks), other(x, picks)])
    assert not there or "qmm_few_picked" in ran[0], ran
    got = h.to_np(got).reshape(16, 16)
    assert np.isnan(got[3]).all() and not np.isfinite(got[[9, 11]]).any()
    fine = np.delete(np.arange(16), [3, 9, 11])
    want = m.of(x, np.arange(16) % 2)[fine]
    close(mx.array(got[fine]), want, DTYPE)


def test_small_and_large_numbers(rng):
    """Codes are multiplied as numbers below the smallest normal one: neither end of x is lost."""
    m, other = pair(rng, 32, 256, 4)
    picks = mx.array(np.arange(16) % 4)
    for scale in (1e-20, 1e-6, 1e6, 1e20):
        x = normal(rng, 16, 1, 256, dtype=DTYPE, scale=scale)
        for got, by in zip([m(x, picks), other(x, picks)], (m, other), strict=True):
            close(got, by.of(x, np.arange(16) % 4), DTYPE)


FORMATS = [
    *({"group_size": g, "bits": b} for b in (4, 8) for g in (32, 64, 128)),
    {"group_size": 32, "bits": 4, "mode": "mxfp4"},
    {"group_size": 32, "bits": 8, "mode": "mxfp8"},
    {"group_size": 16, "bits": 4, "mode": "nvfp4"},
]


def name_of(how):
    return how.get("mode", f"q{how['bits']}g{how['group_size']}")


@pytest.mark.parametrize("how", FORMATS, ids=name_of)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_other_formats_and_lengths(rng, there, how, dtype):
    """Lengths that end within what is multiplied at once, and such as workgroups share."""
    for k, n, experts, share in [
        (256, 48, 3, 2),
        (384, 32, 5, 1),
        (2944, 32, 4, 2),
        (4352, 16, 3, 1),
    ]:
        gate, up = (Experts(rng, n, k, dtype, count=experts, **how) for _ in range(2))
        chosen = rng.integers(0, experts, 12 * share).astype(np.int32)
        x = normal(rng, 12, *[1] * (1 + (share > 1)), k, dtype=dtype)
        picks = mx.array(chosen.reshape(12, share) if share > 1 else chosen)
        rows = mx.array(np.repeat(h.to_np(x).reshape(12, k), share, 0))
        g, u = (rounded(m.of(rows, chosen), dtype) for m in (gate, up))
        out, ran = names(partial(unit, gate, up, x, picks))
        assert not there or "qmm_few_picked" in ran[0], ran
        close(out, g / (1 + np.exp(-g)) * u, dtype, units=6)
        both, ran = names(lambda: [gate(x, picks), up(x, picks)])  # noqa: B023
        assert not there or "qmm_few_picked" in ran[0], ran
        for got, want in zip(both, (g, u), strict=True):
            close(got, want, dtype)


@pytest.mark.parametrize("k", [288, 2880])
def test_lengths_of_groups_of_32(rng, there, k):
    for how in FORMATS:
        if k % how["group_size"] == 0:
            gate, up = pair(rng, 32, k, 4, **how)
            x, chosen = normal(rng, 9, 1, k, dtype=DTYPE), np.resize([3, 0, 0, 1], 9)
            out, ran = names(partial(unit, gate, up, x, mx.array(chosen)))
            assert not there or "qmm_few_picked" in ran[0], ran
            g, u = (rounded(m.of(x, chosen), DTYPE) for m in (gate, up))
            close(out, g / (1 + np.exp(-g)) * u, DTYPE, units=6)


@pytest.mark.parametrize("how", [HOW, FORMATS[6]], ids=name_of)
def test_products_alone(rng, there, how):
    """What picks have one row each, and are neither joined with others nor summed up."""
    for k, n in [(256, 48), (2880, 16), (14336, 16)]:
        down = Experts(rng, n, k, DTYPE, count=5, **how)
        x, chosen = normal(rng, 10, 1, k, dtype=DTYPE), rng.integers(0, 5, 10).astype(np.uint32)
        out, ran = names(lambda: down(x, mx.array(chosen)))  # noqa: B023
        assert not there or "qmm_few_picked" in ran[0], ran
        close(out, down.of(x, chosen), DTYPE)


def test_others_keep_their_kernels(rng, there):
    for k, n, dtype, how in [
        (256, 40, DTYPE, HOW),
        (256, 48, "float32", HOW),
        (256, 48, DTYPE, {"group_size": 64, "bits": 6}),
        (256, 48, DTYPE, {"group_size": 64, "bits": 3}),
    ]:
        gate, up = (Experts(rng, n, k, dtype, count=4, **how) for _ in range(2))
        x, chosen = normal(rng, 16, 1, k, dtype=dtype), np.arange(16) % 4
        out, ran = names(partial(unit, gate, up, x, mx.array(chosen)))
        assert not any("few_picked" in name for name in ran), ran
        g, u = (rounded(m.of(x, chosen), dtype) for m in (gate, up))
        close(out, g / (1 + np.exp(-g)) * u, dtype)


def test_it_can_be_turned_off(rng, there):
    gate, up = pair(rng, 48, 256, 4)
    x, chosen = normal(rng, 16, 1, 256, dtype=DTYPE), np.arange(16) % 4
    run = partial(unit, gate, up, x, mx.array(chosen))
    out, ran = names(run)
    assert there == any("few_picked" in k for k in ran)
    before = mx.vulkan._set_disabled(["qmm_few_picked"])
    other, ran = names(run)
    mx.vulkan._set_disabled(before)
    assert not any("few_picked" in k for k in ran), ran
    close(other, h.to_np(out).astype(np.float64), DTYPE, units=2)


def test_sums_by_lengths(rng):
    """Sums of products in memory, whose lanes have more or fewer neighbours."""
    for n, tokens in [(16, 12), (2064, 40)]:
        down = Experts(rng, n, 256, DTYPE, count=4, **HOW)
        picks = rng.integers(0, 4, (tokens, 1, 2)).astype(np.uint32)
        x = normal(rng, tokens, 1, 2, 1, 256, dtype=DTYPE)
        weights = weights_of(rng, tokens, 1, 2, dtype=DTYPE)
        y = down(x, mx.array(picks)).squeeze(-2)
        got = (y * weights[..., None]).sum(axis=-2)
        want = down.of(x, picks.reshape(-1)).reshape(tokens, 2, n)
        close(got, summed(want, weights, DTYPE), DTYPE)
