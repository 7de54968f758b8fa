"""Sums of weighed products of picked experts that a GPU computes with the products: values, and
what stays apart."""

import os

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
from test_eval_experts import (  # noqa: F401
    MODES,
    UNIT,
    Experts,
    apart,
    close,
    each_pick_alone,
    normal,
    rounded,
    swiglu,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.validation,
    pytest.mark.usefixtures("none_disabled"),
]

MANY = 24


def weights_of(rng, *shape, dtype):
    w = rng.random(shape) + 0.1
    w = h.from_np((w / w.sum(-1, keepdims=True)).astype(np.float32), dtype)
    mx.eval(w)
    return w


def picks_of(rng, tokens, each, experts):
    return np.stack([rng.permutation(experts)[:each] for _ in range(tokens)]).astype(np.uint32)


def summed(y, weights, dtype):
    """Products of (tokens, picks, columns) in float64, weighed and added up, rounded where kernels
    round."""
    w = h.to_np(weights).astype(np.float64).reshape(*y.shape[:2], 1)
    if weights.dtype == mx.float32 and dtype != "float32":
        return rounded((rounded(y, dtype) * w).sum(1), dtype)
    return rounded(rounded(rounded(y, dtype) * w, dtype).sum(1), dtype)


class Layer:
    """Gate, up and down, as models have them."""

    def __init__(self, rng, hidden, inner, dtype, experts=MANY, **how):
        shapes = [(inner, hidden), (inner, hidden), (hidden, inner)]
        parts = [Experts(rng, *s, dtype, count=experts, **how) for s in shapes]
        self.gate, self.up, self.down = parts
        self.dtype = dtype

    def __call__(self, x, picks, weights, sort=None, divisor=None, keep=None):
        """Of x (tokens, 1, hidden) and picks (tokens, 1, each)."""
        residual, x, chosen = x, mx.expand_dims(x, (-2, -3)), mx.stop_gradient(picks)
        sort = picks.size >= 64 if sort is None else sort
        more = {"sorted_indices": True} if sort else {}
        if sort:
            each, flat = picks.shape[-1], picks.flatten()
            order = mx.argsort(flat)
            back = mx.argsort(order)
            x, chosen = x.flatten(0, -3)[order // (divisor or each)], flat[order]
            if keep is not None:
                keep.append(order)
        up, gate = self.up(x, chosen, **more), self.gate(x, chosen, **more)
        y = self.down(swiglu(gate, up), chosen, **more)
        if sort:
            y = mx.unflatten(y[back], 0, picks.shape)
        y = y.squeeze(-2)
        total = (y * weights[..., None]).sum(axis=-2)
        return residual + (total if total.dtype == y.dtype else total.astype(y.dtype))

    def expected(self, x, picks, weights):
        d = self.dtype
        x, picks = h.to_np(x).astype(np.float64), np.array(picks)
        tokens, each = picks.shape[0], picks.shape[-1]
        flat = picks.reshape(-1)
        rows = mx.array(np.repeat(x.reshape(tokens, -1), each, 0).astype(np.float32))
        g, u = (rounded(m.of(rows, flat), d) for m in (self.gate, self.up))
        unit = rounded(g / (1 + np.exp(-g)) * u, d)
        y = self.down.of(mx.array(unit.astype(np.float32)), flat).reshape(tokens, each, -1)
        return x.reshape(tokens, -1) + summed(y, weights, d)


@pytest.mark.parametrize("how", MODES, ids=lambda m: m.get("mode", f"q{m['bits']}"))
@pytest.mark.parametrize("dtype", list(UNIT))
def test_products_are_weighed_and_added_up_in_their_kernel(rng, dtype, how):
    down = Experts(rng, 45, 320, dtype, **how)
    for tokens, each in [(1, 3), (2, 1), (3, 6)]:
        picks = picks_of(rng, tokens, each, 6)
        x = normal(rng, tokens, 1, each, 1, 320, dtype=dtype)
        weights = weights_of(rng, tokens, 1, each, dtype=dtype)
        residual = normal(rng, tokens, 1, 45, dtype=dtype)

        indices = mx.array(picks[:, None])

        def layer(x=x, indices=indices, weights=weights, residual=residual):
            y = down(x, indices).squeeze(-2)
            return residual + (y * weights[..., None]).sum(axis=-2)

        out, ran = h.kernels(layer)
        assert sum(ran.values()) == 1 and "combine" in next(iter(ran)), ran
        y = down.of(x, picks.reshape(-1)).reshape(tokens, each, -1)
        want = summed(y, weights, dtype) + h.to_np(residual).reshape(tokens, -1)
        close(out, want, dtype)
        close(apart(layer), h.to_np(out).astype(np.float64), dtype, units=1)


@pytest.mark.parametrize("each", [2, 4, 8, 10, 16])
@pytest.mark.parametrize("group", [32, 64, 128])
def test_layers_of_one_token_and_of_few_are_two_kernels(rng, each, group):
    layer = Layer(rng, 256, 128, "bfloat16", group_size=group, bits=4)
    for tokens in (1, 3):
        picks = picks_of(rng, tokens, each, MANY)[:, None]
        x = normal(rng, tokens, 1, 256, dtype="bfloat16")
        weights = weights_of(rng, tokens, 1, each, dtype="bfloat16")
        indices = mx.array(picks)
        run = lambda x=x, p=indices, w=weights: layer(x, p, w, sort=False)  # noqa: E731
        out, ran = h.kernels(run)
        assert h.of_experts(ran), ran
        close(out, layer.expected(x, picks, weights), "bfloat16")
        close(apart(run), h.to_np(out).astype(np.float64), "bfloat16", units=1)


@pytest.mark.parametrize("how", MODES, ids=lambda m: m.get("mode", f"q{m['bits']}"))
@pytest.mark.parametrize("dtype", list(UNIT))
def test_sorted_picks_need_no_sort(rng, dtype, how):
    layer = Layer(rng, 64, 64, dtype, **how)
    for tokens, each in [(16, 4), (9, 8), (70, 1)]:
        picks = picks_of(rng, tokens, each, MANY)[:, None]
        x = normal(rng, tokens, 1, 64, dtype=dtype)
        weights = weights_of(rng, tokens, 1, each, dtype=dtype)
        for kind in (mx.uint32, mx.int32):
            chosen = mx.array(picks).astype(kind)
            mx.eval(chosen)
            run = lambda x=x, p=chosen, w=weights: layer(x, p, w)  # noqa: E731
            out, ran = h.kernels(run)
            assert h.of_experts(ran), ran
            close(out, layer.expected(x, picks, weights), dtype)
            close(apart(run), h.to_np(out).astype(np.float64), dtype, units=1)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("tokens, each", [(1, 4), (3, 4), (16, 4), (9, 8)])
def test_weights_of_float32(rng, dtype, tokens, each):
    """Weighed products are float32 then, and rounded when they are added up, as models do whose
    experts are chosen by a sigmoid."""
    layer = Layer(rng, 256, 128, dtype)
    indices = mx.array(picks_of(rng, tokens, each, MANY)[:, None])
    x = normal(rng, tokens, 1, 256, dtype=dtype)
    weights = weights_of(rng, tokens, 1, each, dtype="float32")
    run = lambda: layer(x, indices, weights)  # noqa: E731
    out, ran = h.kernels(run)
    assert h.of_experts(ran), ran
    assert out.dtype == x.dtype
    close(out, layer.expected(x, indices, weights), dtype)
    close(apart(run), h.to_np(out).astype(np.float64), dtype, units=1)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_many_weights_of_float32(rng, dtype):
    """So many that the conversion of products is a part of what weighs them."""
    layer = Layer(rng, 4096, 64, dtype)
    indices = mx.array(picks_of(rng, 16, 4, MANY)[:, None])
    x = normal(rng, 16, 1, 4096, dtype=dtype)
    weights = weights_of(rng, 16, 1, 4, dtype="float32")
    run = lambda: layer(x, indices, weights)  # noqa: E731
    out, ran = h.kernels(run)
    # Grids may be cut in two.
    assert h.of_experts(dict.fromkeys(ran, 1)) and out.dtype == x.dtype, ran
    close(out, layer.expected(x, indices, weights), dtype)
    close(apart(run), h.to_np(out).astype(np.float64), dtype, units=1)


def test_sums_that_stay_float32_or_become_others_are_right_too(rng):
    """They are float32 where nothing makes them smaller; rows of them, and another dtype."""
    down = Experts(rng, 16, 64, "bfloat16")
    x, picks = normal(rng, 2, 1, 3, 1, 64, dtype="bfloat16"), picks_of(rng, 2, 3, 6)[:, None]
    w = weights_of(rng, 2, 1, 3, dtype="float32")[..., None]
    y = rounded(down.of(x, picks.reshape(-1)).reshape(2, 1, 3, 16), "bfloat16")
    want = (y * h.to_np(w)).sum(-2)
    for follow, dtype in [
        (lambda y, w: (y * w).sum(axis=-2), mx.float32),
        (lambda y, w: (y * w).sum(axis=-2).astype(mx.float16), mx.float16),
        (lambda y, w: (y.astype(mx.float32) * w).sum(axis=-2).astype(mx.bfloat16), mx.bfloat16),
    ]:
        got = follow(down(x, mx.array(picks)).squeeze(-2), w)
        assert got.dtype == dtype
        close(got, want, "bfloat16")


def test_a_sort_that_others_read_stays(rng):
    layer = Layer(rng, 64, 64, "float32")
    picks = picks_of(rng, 16, 4, MANY)[:, None]
    x, weights = (
        normal(rng, 16, 1, 64),
        weights_of(rng, 16, 1, 4, dtype="float32"),
    )
    kept = []
    out, ran = h.kernels(lambda: layer(x, mx.array(picks), weights, keep=kept))
    assert any("sort" in name for name in ran), ran
    close(out, layer.expected(x, picks, weights), "float32")
    assert (np.array(kept[0]) == np.argsort(picks.reshape(-1), kind="stable")).all()


def test_rows_that_are_dealt_out_otherwise_keep_their_order(rng):
    """Every eighth row, of 16 picks a row: not what sorted picks of tokens are."""
    layer = Layer(rng, 64, 64, "float32")
    picks = picks_of(rng, 16, 4, MANY)[:, None]
    x, weights = normal(rng, 16, 1, 64), weights_of(rng, 16, 1, 4, dtype="float32")
    run = lambda: layer(x, mx.array(picks), weights, divisor=8)  # noqa: E731
    out, ran = h.kernels(run)
    assert any("sort" in name for name in ran), ran
    close(out, h.to_np(apart(run)).astype(np.float64), "float32", units=8)


@pytest.mark.parametrize(
    "follow",
    [
        lambda y, w: (y * w).sum(axis=-2, keepdims=True),
        lambda y, w: (w * y).sum(axis=-2),
        lambda y, w: mx.exp((y * w).sum(axis=-2)),
        lambda y, w: (y * (w + 0 * y)).sum(axis=-2),
        lambda y, w: (y * w).sum(axis=-1),
        lambda y, w: (y * w).max(axis=-2),
        lambda y, w: (y + w).sum(axis=-2),
        lambda y, w: (y * w.astype(mx.float16)).sum(axis=-2),
        lambda y, w: (y * y).sum(axis=-2),
        lambda y, w: [y, (y * w).sum(axis=-2)],
    ],
)
def test_what_follows_otherwise_is_right_too(rng, follow):
    down = Experts(rng, 16, 64, "float32")
    x, picks = normal(rng, 2, 1, 3, 1, 64), mx.array(picks_of(rng, 2, 3, 6)[:, None])
    w = weights_of(rng, 2, 1, 3, dtype="float32")[..., None]

    def run():
        got = follow(down(x, picks).squeeze(-2), w)
        return got if isinstance(got, list) else [got]

    y = mx.array(down.of(x, np.array(picks).reshape(-1)).reshape(2, 1, 3, 16).astype(np.float32))
    with mx.stream(mx.cpu):
        want = follow(y, w)
        want = want if isinstance(want, list) else [want]
        mx.eval(want)
    for got, of in zip(run(), want, strict=True):
        close(got, h.to_np(of).astype(np.float64), "float32", units=8)


def test_few_tokens_share_rows_of_x_without_indices(rng):
    """The rows of x are repeated, as they are by indices into them."""
    m = Experts(rng, 16, 64, "float32")
    x, picks = normal(rng, 3, 1, 1, 1, 64), picks_of(rng, 3, 4, 6)[:, None]
    got = m(x, mx.array(picks))
    lhs = np.broadcast_to(np.arange(3)[:, None, None], picks.shape).astype(np.uint32)
    by_index = m(x, mx.array(picks), lhs_indices=mx.array(lhs))
    assert got.shape == by_index.shape == (3, 1, 4, 1, 16)
    want = m.of(mx.repeat(x.reshape(3, 64), 4, 0), picks.reshape(-1))
    close(got, want, "float32")
    close(by_index, want, "float32")


def test_nan_of_one_token_stays_there(rng):
    layer = Layer(rng, 64, 64, "float16")
    x = np.zeros((16, 1, 64), np.float32)
    x[3, 0, 5] = np.nan
    picks, w = picks_of(rng, 16, 4, MANY)[:, None], weights_of(rng, 16, 1, 4, dtype="float16")
    out = h.to_np(layer(h.from_np(x, "float16"), mx.array(picks), w))
    assert np.isnan(out[3]).all() and not np.isnan(np.delete(out, 3, 0)).any()


def test_teams_that_share_a_subgroup():
    """As on most GPUs: a software driver has subgroups of 16 lanes where it is told to."""
    program = f"""
    import sys
    sys.path.insert(0, {os.path.dirname(__file__)!r})
    import mlx.core as mx
    import numpy as np
    mx.set_default_device(mx.gpu)
    import test_eval_combined as t
    assert mx.vulkan.describe()["limits"]["subgroup_sizes"][0] > 8
    rng = np.random.default_rng(32)
    t.test_products_are_weighed_and_added_up_in_their_kernel(rng, "float32", t.MODES[0])
    t.test_layers_of_one_token_and_of_few_are_two_kernels(rng, 4, 64)
    """
    h.python(program, env={"LP_NATIVE_VECTOR_WIDTH": "512"}, timeout=280)
