"""Biases of picked experts that a GPU adds in the kernel of the products: values, and what stays
apart."""

import os

import helpers as h
import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from test_eval_combined import picks_of, summed, weights_of
from test_eval_experts import UNIT, Experts, apart, close, each_pick_alone, normal, rounded  # noqa: F401
from test_eval_grouped import grouped

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.validation,
    pytest.mark.usefixtures("none_disabled"),
]

MODES = [
    {"group_size": 32, "bits": 4, "mode": "mxfp4"},
    {"group_size": 64, "bits": 4},
    {"group_size": 32, "bits": 4},
    {"group_size": 32, "bits": 8},
]
NAMES = [f"{m.get('mode', 'q')}{m['bits']}g{m['group_size']}" for m in MODES]
KINDS = [mx.uint32, mx.int32]


class Biased(Experts):
    """Experts with biases, which models take by the indices of the products."""

    def __init__(self, rng, rows, columns, dtype, count=6, bias=None, **how):
        super().__init__(rng, rows, columns, dtype, count=count, **how)
        self.dtype = dtype
        self.bias = normal(rng, count, rows, dtype=dtype) if bias is None else bias

    def __call__(self, x, picks, **more):
        return super().__call__(x, picks, **more) + mx.expand_dims(self.bias[picks], -2)

    def of(self, x, picks):
        return rounded(rounded(super().of(x, picks), self.dtype) + self.rows(picks), self.dtype)

    def rows(self, picks):
        return h.to_np(self.bias).astype(np.float64)[np.array(picks)]


@mx.compile
def gated(gate, up):
    """What gpt-oss has: limits, a sigmoid, and one added to the other side."""
    gate, up = mx.minimum(gate, 3.0), mx.clip(up, -3.0, 3.0)
    return (up + 1.0) * (gate * mx.sigmoid(1.702 * gate))


def unit_of(g, u):
    g, u = np.minimum(g, 3.0), np.clip(u, -3.0, 3.0)
    return (u + 1) * g / (1 + np.exp(-1.702 * g))


class Layer:
    """Gate, up and down with biases, weighed and added up."""

    def __init__(self, rng, hidden, inner, dtype, experts=24, **how):
        shapes = [(inner, hidden), (inner, hidden), (hidden, inner)]
        parts = [Biased(rng, *s, dtype, count=experts, **how) for s in shapes]
        self.gate, self.up, self.down = parts
        self.dtype, self.experts = dtype, experts

    def __call__(self, x, picks, weights, sort=False, keep=None):
        """Of x (tokens, 1, hidden) and picks (tokens, 1, each)."""
        residual, x, chosen = x, mx.expand_dims(x, (-2, -3)), mx.stop_gradient(picks)
        more = {"sorted_indices": True} if sort else {}
        if sort:
            flat = picks.flatten()
            order = mx.argsort(flat)
            back = mx.argsort(order)
            x, chosen = x.flatten(0, -3)[order // picks.shape[-1]], flat[order]
            if keep is not None:
                keep.append(chosen)
        up, gate = self.up(x, chosen, **more), self.gate(x, chosen, **more)
        y = self.down(gated(gate, up), chosen, **more)
        if sort:
            y = mx.unflatten(y[back], 0, picks.shape)
        y = y.squeeze(-2) * mx.expand_dims(weights, -1)
        total = y.sum(axis=-2)
        return residual + (total if total.dtype == x.dtype else total.astype(x.dtype))

    def expected(self, x, picks, weights):
        d = self.dtype
        x, picks = h.to_np(x).astype(np.float64), np.array(picks)
        tokens, each = picks.shape[0], picks.shape[-1]
        flat = picks.reshape(-1)
        rows = mx.array(np.repeat(x.reshape(tokens, -1), each, 0).astype(np.float32))
        unit = rounded(unit_of(self.gate.of(rows, flat), self.up.of(rows, flat)), d)
        y = self.down.of(mx.array(unit.astype(np.float32)), flat).reshape(tokens, each, -1)
        return x.reshape(tokens, -1) + summed(y, weights, d)

    def operands(self, rng, tokens, each, kind=mx.uint32, weights=None):
        picks = picks_of(rng, tokens, each, self.experts)[:, None]
        x = normal(rng, tokens, 1, self.gate.values.shape[-1], dtype=self.dtype)
        w = weights_of(rng, tokens, 1, each, dtype=weights or self.dtype)
        indices = mx.array(picks).astype(kind)
        mx.eval(indices)
        return x, indices, w


def same(got, want, dtype, units=1):
    close(got, h.to_np(want).astype(np.float64), dtype, units=units)


@pytest.mark.parametrize("how", MODES, ids=NAMES)
@pytest.mark.parametrize("dtype", list(UNIT))
def test_a_gated_unit_with_biases_is_one_kernel(rng, dtype, how):
    gate, up = (Biased(rng, 45, 192, dtype, **how) for _ in range(2))
    for tokens, each in [(1, 4), (1, 1), (3, 2)]:
        picks = picks_of(rng, tokens, each, 6)[:, None]
        x = normal(rng, tokens, 1, 1, 1, 192, dtype=dtype)
        for kind in KINDS:
            indices = mx.array(picks).astype(kind)
            mx.eval(indices)
            run = lambda x=x, i=indices: gated(gate(x, i), up(x, i))  # noqa: E731
            out, ran = h.kernels(run)
            assert sum(ran.values()) == 1, ran
            rows, flat = mx.repeat(x.reshape(tokens, 192), each, 0), picks.reshape(-1)
            close(out, unit_of(gate.of(rows, flat), up.of(rows, flat)), dtype)
            same(apart(run), out, dtype)


@pytest.mark.parametrize("how", MODES, ids=NAMES)
@pytest.mark.parametrize("dtype", list(UNIT))
def test_biased_products_are_weighed_and_added_up_in_their_kernel(rng, dtype, how):
    down = Biased(rng, 45, 192, dtype, **how)
    for tokens, each in [(1, 4), (2, 1), (3, 3)]:
        picks = picks_of(rng, tokens, each, 6)[:, None]
        x = normal(rng, tokens, 1, each, 1, 192, dtype=dtype)
        w, residual = (
            weights_of(rng, tokens, 1, each, dtype=dtype),
            normal(rng, tokens, 1, 45, dtype=dtype),
        )
        for kind in KINDS:
            indices = mx.array(picks).astype(kind)
            mx.eval(indices)

            def layer(x=x, i=indices, w=w, residual=residual):
                return residual + (down(x, i).squeeze(-2) * mx.expand_dims(w, -1)).sum(axis=-2)

            out, ran = h.kernels(layer)
            assert sum(ran.values()) == 1 and "combine" in next(iter(ran)), ran
            y = down.of(x, picks.reshape(-1)).reshape(tokens, each, -1)
            close(out, summed(y, w, dtype) + h.to_np(residual).reshape(tokens, -1), dtype)
            same(apart(layer), out, dtype)


@pytest.mark.parametrize("how", MODES, ids=NAMES)
@pytest.mark.parametrize("dtype", list(UNIT))
def test_layers_are_two_kernels(rng, dtype, how):
    """Of few tokens and, without the sort that models put around them, of many."""
    layer = Layer(rng, 128, 64, dtype, **how)
    for tokens, each, sort in [(1, 4, False), (3, 2, False), (16, 4, True), (70, 1, True)]:
        x, picks, w = layer.operands(rng, tokens, each)
        run = lambda x=x, p=picks, w=w, s=sort: layer(x, p, w, sort=s)  # noqa: E731
        out, ran = h.kernels(run)
        assert h.of_experts(ran), ran
        close(out, layer.expected(x, picks, w), dtype)
        same(apart(run), out, dtype, units=2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("tokens, each, sort", [(2, 3, False), (16, 4, True)])
def test_weights_of_float32(rng, dtype, tokens, each, sort):
    layer = Layer(rng, 128, 64, dtype)
    x, picks, w = layer.operands(rng, tokens, each, weights="float32")
    run = lambda: layer(x, picks, w, sort=sort)  # noqa: E731
    out, ran = h.kernels(run)
    assert h.of_experts(ran), ran
    close(out, layer.expected(x, picks, w), dtype)
    same(apart(run), out, dtype, units=2)


def together(rng):
    """By the kernels that take the picks of a matrix together, and sums of their own behind."""
    mx.vulkan._set_disabled(["qmm_few_picked"])
    for dtype in ("float16", "bfloat16"):
        for how in MODES[:3]:
            layer = Layer(rng, 128, 64, dtype, **how)
            for kind, tokens, each in [(mx.uint32, 24, 4), (mx.int32, 12, 6)]:
                x, picks, w = layer.operands(rng, tokens, each, kind)
                run = lambda x=x, p=picks, w=w, s=layer: s(x, p, w, sort=True)  # noqa: E731
                out, ran = h.kernels(run)
                assert sum(ran.values()) == 3, ran
                assert any("grouped" in k for k in ran) and any("sums" in k for k in ran), ran
                close(out, layer.expected(x, picks, w), dtype)
                same(apart(run), out, dtype, units=2)
    gate, up, down = (Biased(rng, n, 64, "bfloat16") for n in (45, 45, 64))
    chosen = np.resize(np.array([-1, -6, 2, 99, -99, 0]).astype(np.int32), 48)
    picks, x = mx.array(chosen.reshape(12, 1, 4)), normal(rng, 12, 1, 1, 1, 64, dtype="bfloat16")
    held = np.clip(np.where(chosen < 0, chosen + 6, chosen), 0, 5)
    rows = mx.repeat(x.reshape(12, 64), 4, 0)
    out = gated(gate(x, picks), up(x, picks))
    close(out, unit_of(gate.of(rows, held), up.of(rows, held)), "bfloat16")
    x, w = (
        normal(rng, 12, 1, 4, 1, 64, dtype="bfloat16"),
        weights_of(rng, 12, 1, 4, dtype="bfloat16"),
    )
    out = (down(x, picks).squeeze(-2) * mx.expand_dims(w, -1)).sum(axis=-2)
    close(out, summed(down.of(x, held).reshape(12, 4, 64), w, "bfloat16"), "bfloat16")


def test_picks_of_a_matrix_together(rng):
    before = mx.vulkan._set_disabled([])
    if grouped(rng):
        together(rng)
    mx.vulkan._set_disabled(before)


def test_picks_of_a_matrix_together_by_ordinary_arithmetic():
    code = f"""
    import sys
    sys.path.insert(0, {os.path.dirname(__file__)!r})
    import mlx.core as mx
    import numpy as np
    mx.set_default_device(mx.gpu)
    import test_eval_picked_biases as t
    rng = np.random.default_rng(5)
    assert t.grouped(rng)
    t.together(rng)
    """
    h.python(code, env={"MLX_VK_QMM": "plain"}, timeout=280)


def test_picks_outside_are_held_inside(rng):
    """As by single kernels: signed ones count from the end, and nothing outside is read."""
    gate, up = (Biased(rng, 16, 64, "float32") for _ in range(2))
    x = normal(rng, 1, 1, 64)
    for kind, values in [(np.int32, [-1, -6, 2, 99, -99]), (np.uint32, [1, 2**32 - 1, 7])]:
        picks = mx.array(np.array(values).astype(kind))
        w, rows = normal(rng, len(values), 1), normal(rng, len(values), 1, 64)
        for unit in (
            lambda p=picks: gated(gate(x, p), up(x, p)),
            lambda p=picks, w=w, rows=rows: (gate(rows, p).squeeze(-2) * w).sum(axis=-2),
        ):
            out, ran = h.kernels(unit)
            assert sum(ran.values()) == 1, ran
            same(out, apart(unit), "float32", units=4)
    held = mx.array([-1, -6, 2], mx.int32)
    close(
        gated(gate(x, held), up(x, held)),
        unit_of(gate.of(x, [5, 0, 2]), up.of(x, [5, 0, 2])),
        "float32",
    )


@pytest.mark.parametrize(
    "cut, joined",
    [
        (lambda t: t[1:7, :45], False),
        (lambda t: t.reshape(-1)[3 : 3 + 6 * 45].reshape(6, 45), True),
        (lambda t: t[:6, ::2][:, :45], False),
        (lambda t: t[6:0:-1, 1:46], False),
        (lambda t: t[:45, :6].T, False),
        (lambda t: mx.broadcast_to(t[0, :45], (6, 45)), False),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_parts_of_arrays(rng, cut, joined, dtype):
    """What begins anywhere is read where it lies; what lies otherwise is taken first."""
    tables = [cut(normal(rng, 100, 100, dtype=dtype)) for _ in range(2)]
    mx.eval(tables)
    gate, up = (Biased(rng, 45, 64, dtype, bias=t) for t in tables)
    x, chosen, w = normal(rng, 1, 1, 64, dtype=dtype), [5, 0, 3], normal(rng, 3, 1, dtype=dtype)
    picks = mx.array(chosen, mx.uint32)
    out, ran = h.kernels(lambda: gated(gate(x, picks), up(x, picks)))
    assert not joined or sum(ran.values()) == 1, ran
    close(out, unit_of(gate.of(x, chosen), up.of(x, chosen)), dtype)
    x = normal(rng, 3, 1, 64, dtype=dtype)
    out, ran = h.kernels(lambda: (gate(x, picks).squeeze(-2) * w).sum(axis=-2))
    assert not joined or sum(ran.values()) == 1, ran
    close(out, summed(gate.of(x, chosen)[None], w, dtype), dtype)


@pytest.mark.parametrize(
    "take",
    [
        lambda b, i, j: b[j],
        lambda b, i, j: b[i + 0],
        lambda b, i, j: b[i[::-1]],
        lambda b, i, j: (b + 0)[i],
        lambda b, i, j: mx.concatenate([b, b])[i],
        lambda b, i, j: b[:3][i],
        lambda b, i, j: mx.broadcast_to(b[i[:1]], (4, 45)),
        lambda b, i, j: b[i][:, :1],
        lambda b, i, j: b[0],
        lambda b, i, j: mx.take_along_axis(b, mx.broadcast_to(i[:, None], (4, 45)), 0),
        lambda b, i, j: b[i].astype(mx.float16).astype(mx.float32),
    ],
)
def test_other_rows_stay_apart(rng, take):
    gate, up = (Biased(rng, 45, 64, "float32") for _ in range(2))
    x, w = normal(rng, 1, 1, 64), normal(rng, 4, 1)
    i, j = mx.array([5, 0, 3, 3], mx.uint32), mx.array([1, 0, 2, 5], mx.uint32)

    def biased(m, x=x):
        return Experts.__call__(m, x, i) + mx.expand_dims(take(m.bias, i, j), -2)

    def of(m, x=x):
        with mx.stream(mx.cpu):
            rows = h.to_np(take(m.bias, i, j)).astype(np.float64)
        return Experts.of(m, x, np.array(i)) + rows

    out, ran = h.kernels(lambda: gated(biased(gate), biased(up)))
    close(out, unit_of(of(gate), of(up)), "float32", units=8)
    rows = normal(rng, 4, 1, 64)
    out, ran = h.kernels(lambda: (biased(gate, rows).squeeze(-2) * w).sum(axis=-2))
    assert sum(ran.values()) > 1, ran
    close(out, summed(of(gate, rows)[None], w, "float32"), "float32", units=8)


def test_somebody_else_reads_rows_or_sums(rng):
    gate, up = (Biased(rng, 45, 64, "float32") for _ in range(2))
    x, w, chosen = normal(rng, 1, 1, 64), normal(rng, 3, 1), [5, 0, 3]
    picks = mx.array(chosen, mx.uint32)
    xs = normal(rng, 3, 1, 64)
    g, u, d = gate.of(x, chosen), up.of(x, chosen), gate.of(xs, chosen)

    def parts(m, x=x):
        rows = m.bias[picks]
        y = Experts.__call__(m, x, picks)
        return rows, y, y + mx.expand_dims(rows, -2)

    for kept in range(3):
        both = [parts(gate), parts(up)]
        out = gated(both[0][2], both[1][2])
        others = [p[kept] * 2 for p in both]
        mx.eval(out, others)
        close(out, unit_of(g, u), "float32")
        for m, other, want in zip((gate, up), others, (g, u), strict=True):
            rows = m.rows(chosen)
            close(other, 2 * [rows, want - rows, want][kept], "float32", units=8)
        one = parts(gate, xs)
        out, other = (one[2].squeeze(-2) * w).sum(axis=-2), one[kept] * 2
        mx.eval(out, other)
        close(out, summed(d[None], w, "float32"), "float32")
        close(other, 2 * [gate.rows(chosen), d - gate.rows(chosen), d][kept], "float32", units=8)
    # Who holds an array without reading it gets it.
    rows, y, total = parts(gate, xs)
    out = (total.squeeze(-2) * w).sum(axis=-2)
    mx.eval(out)
    close(rows, gate.rows(chosen), "float32")
    close(total, d, "float32")
    close(y, d - gate.rows(chosen), "float32", units=8)


def test_a_bias_that_is_not_there_yet(rng):
    """A table that the same evaluation makes is none that lies in memory."""
    gate, up = (Biased(rng, 45, 64, "float32") for _ in range(2))
    x, chosen = normal(rng, 1, 1, 64), [1, 4]
    picks = mx.array(chosen, mx.uint32)
    bias = gate.bias
    gate.bias = mx.exp(bias)
    out = gated(gate(x, picks), up(x, picks))
    gate.bias = mx.exp(bias)
    close(out, unit_of(gate.of(x, chosen), up.of(x, chosen)), "float32", units=8)


def test_sorted_indices_that_others_read_stay(rng):
    layer = Layer(rng, 64, 64, "float32")
    x, picks, w = layer.operands(rng, 16, 4)
    kept = []
    out, ran = h.kernels(lambda: layer(x, picks, w, sort=True, keep=kept))
    assert any("sort" in name for name in ran), ran
    close(out, layer.expected(x, picks, w), "float32", units=8)
    assert (np.array(kept[0]) == np.sort(np.array(picks).reshape(-1))).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_one_product_with_its_bias(rng, dtype):
    down = Biased(rng, 33, 128, dtype)
    x, chosen = normal(rng, 1, 1, 5, 1, 128, dtype=dtype), [2, 2, 0, 5, 1]
    picks = mx.array([[chosen]], mx.uint32)
    for follow, of in [(lambda y: y, lambda y: y), (nn.relu, lambda y: np.maximum(y, 0))]:
        out, ran = h.kernels(lambda f=follow: f(down(x, picks)))
        assert sum(ran.values()) == 1, ran
        close(out, of(down.of(x, chosen)), dtype)


def test_biases_of_one_token_take_no_commands(rng):
    """As many as of a layer without them."""

    class Plain(Biased):
        def __call__(self, x, picks, **more):
            return Experts.__call__(self, x, picks, **more)

    biased = Layer(rng, 128, 64, "bfloat16", group_size=32, bits=4, mode="mxfp4")
    plain = Layer(rng, 128, 64, "bfloat16", group_size=32, bits=4, mode="mxfp4")
    for m in (plain.gate, plain.up, plain.down):
        m.__class__ = Plain
    x, picks, w = biased.operands(rng, 1, 4)
    counts = []
    for layer in (biased, plain):
        mx.eval(layer(x, picks, w))
        _, ran = h.kernels(lambda layer=layer: layer(x, picks, w))
        assert h.of_experts(ran), ran
        counts.append(mx.vulkan.stats()["dispatches"])
    assert counts[0] == counts[1] == sum(ran.values()), counts


@pytest.mark.parametrize(
    "name", ["qmm_joined", "qmm_combine", "qmm_rows", "qmm_grouped", "row_biases"]
)
def test_what_is_disabled_gives_the_same(rng, name):
    layer = Layer(rng, 128, 64, "bfloat16", group_size=32, bits=4, mode="mxfp4")
    for tokens, sort in [(1, False), (16, True)]:
        x, picks, w = layer.operands(rng, tokens, 4)
        out = h.apart(lambda x=x, p=picks, w=w, s=sort: layer(x, p, w, sort=s), name)
        close(out, layer.expected(x, picks, w), "bfloat16")
