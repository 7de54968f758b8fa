"""Products of picked experts that a GPU computes as one kernel: values, and what stays apart."""

import helpers as h
import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.validation,
    pytest.mark.usefixtures("none_disabled"),
]

MODES = [
    {"group_size": 64, "bits": 4},
    {"group_size": 32, "bits": 8},
    {"group_size": 64, "bits": 3},
    {"group_size": 32, "bits": 4, "mode": "mxfp4"},
    {"group_size": 16, "bits": 4, "mode": "nvfp4"},
]
UNIT = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
EXPERTS = 6


@pytest.fixture(autouse=True)
def each_pick_alone(none_disabled):
    """Kernels that take the picks of a matrix together have tests of their own."""
    before = mx.vulkan._set_disabled(["qmm_grouped"])
    yield
    mx.vulkan._set_disabled(before)


def apart(f):
    return h.apart(f, "qmm_joined")


def normal(rng, *shape, dtype="float32", scale=1.0):
    a = h.from_np((rng.standard_normal(shape) * scale).astype(np.float32), dtype)
    mx.eval(a)
    return a


class Experts:
    """Quantised matrices of (count, rows, columns), and what they stand for in float64."""

    def __init__(self, rng, rows, columns, dtype, count=EXPERTS, **how):
        self.how = how or MODES[0]
        w = normal(rng, count, rows, columns, dtype=dtype, scale=0.1)
        self.parts = mx.quantize(w, **self.how)
        mx.eval(self.parts)
        with mx.stream(mx.cpu):
            self.values = h.to_np(mx.dequantize(*self.parts, **self.how)).astype(np.float64)

    def __call__(self, x, picks, **more):
        return mx.gather_qmm(x, *self.parts, rhs_indices=picks, transpose=True, **self.how, **more)

    def of(self, x, picks):
        """Of one row, or of one for each pick."""
        x = np.broadcast_to(h.to_np(x).reshape(-1, x.shape[-1]), (len(picks), x.shape[-1]))
        return np.stack([self.values[p] @ r.astype(np.float64) for p, r in zip(picks, x)])  # noqa: B905


def close(got, expected, dtype, units=4):
    got = h.to_np(got).astype(np.float64).reshape(expected.shape)
    unit = max(UNIT[dtype], 2.0**-20)
    worst = np.abs(got - expected).max()
    assert worst <= units * unit * np.abs(expected).max(), worst


@mx.compile
def swiglu(gate, up):
    return nn.silu(gate) * up


def rounded(x, dtype):
    return h.to_np(h.from_np(x.astype(np.float32), dtype)).astype(np.float64)


@pytest.mark.parametrize("how", MODES, ids=lambda m: m.get("mode", f"q{m['bits']}"))
@pytest.mark.parametrize("dtype", list(UNIT))
def test_a_gated_unit_of_picked_experts_is_one_kernel(rng, dtype, how):
    gate, up = (Experts(rng, 45, 320, dtype, **how) for _ in range(2))
    x, chosen = normal(rng, 1, 1, 1, 1, 320, dtype=dtype), [5, 0, 3, 3]
    for kind in (mx.uint32, mx.int32):
        picks = mx.array([[chosen]], kind)

        def unit(picks=picks):
            return swiglu(gate(x, picks), up(x, picks))

        out, ran = h.kernels(unit)
        assert sum(ran.values()) == 1, ran
        assert out.shape == (1, 1, 4, 1, 45)
        g, u = (rounded(m.of(x, chosen), dtype) for m in (gate, up))
        close(out, g / (1 + np.exp(-g)) * u, dtype)
        close(apart(unit), h.to_np(out).astype(np.float64), dtype)


@pytest.mark.parametrize("dtype", list(UNIT))
def test_each_pick_may_have_a_row(rng, dtype):
    down, other = (Experts(rng, 33, 128, dtype) for _ in range(2))
    x, chosen = normal(rng, 1, 1, 5, 1, 128, dtype=dtype), [2, 2, 0, 5, 1]
    picks, rest = mx.array([[chosen]], mx.uint32), normal(rng, 1, 1, 5, 1, 33, dtype=dtype)
    out, ran = h.kernels(lambda: down(x, picks) * rest)
    assert sum(ran.values()) == 1, ran
    want = rounded(down.of(x, chosen), dtype) * h.to_np(rest).reshape(5, 33)
    close(out, want, dtype)
    both, ran = h.kernels(lambda: [down(x, picks), other(x, picks)])
    assert sum(ran.values()) == 1, ran
    for got, m in zip(both, (down, other), strict=True):
        close(got, m.of(x, chosen), dtype)


def test_picks_outside_are_held_inside(rng):
    """Signed ones count from the end; nothing outside the arrays is read, as by single kernels."""
    gate, up = (Experts(rng, 16, 64, "float32") for _ in range(2))
    x = normal(rng, 1, 1, 64)
    for kind, values in [(mx.int32, [-1, -6, 2, 99, -99]), (mx.uint32, [1, 2**32 - 1, 7])]:
        picks = mx.array(np.array(values).astype(np.int32 if kind == mx.int32 else np.uint32))
        unit = lambda picks=picks: gate(x, picks) * up(x, picks)  # noqa: E731
        out, ran = h.kernels(unit)
        assert sum(ran.values()) == 1, ran
        close(out, h.to_np(apart(unit)).astype(np.float64), "float32")
    held = [-1, -6, 2]
    out = gate(x, mx.array(held, mx.int32)) * up(x, mx.array(held, mx.int32))
    close(out, gate.of(x, [5, 0, 2]) * up.of(x, [5, 0, 2]), "float32")


@pytest.mark.parametrize(
    "f",
    [
        lambda a, b, x, i: [a(x, i), b(x, i + 0)],
        lambda a, b, x, i: [a(x, i), b(x + 0, i)],
        lambda a, b, x, i: [a(mx.concatenate([x, x], -2), i), b(mx.concatenate([x, x], -2), i)],
        lambda a, b, x, i: [
            mx.gather_qmm(x, *m.parts, lhs_indices=i * 0, rhs_indices=i, transpose=True, **m.how)
            for m in (a, b)
        ],
    ],
)
def test_other_operands_stay_apart(rng, f):
    a, b = (Experts(rng, 16, 64, "float32") for _ in range(2))
    x, picks = normal(rng, 1, 1, 64), mx.array([1, 4], mx.uint32)
    out, ran = h.kernels(lambda: f(a, b, x, picks))
    assert not any("picked" in name for name in ran), ran
    for got, m in zip(out, (a, b), strict=True):
        got = h.to_np(got).astype(np.float64)
        want = np.broadcast_to(m.of(x, [1, 4])[:, None], got.shape)
        close(mx.array(got.astype(np.float32)), want, "float32")


def test_somebody_who_holds_a_product_gets_it(rng):
    gate, up = (Experts(rng, 16, 64, "float32") for _ in range(2))
    x, chosen = normal(rng, 1, 1, 64), [3, 1]
    picks = mx.array(chosen, mx.uint32)
    g, u = gate(x, picks), up(x, picks)
    out = g * u
    mx.eval(out)
    close(g, gate.of(x, chosen), "float32")
    close(out, gate.of(x, chosen) * up.of(x, chosen), "float32")


def test_one_row_of_nan_and_infinities(rng):
    gate, up = (Experts(rng, 16, 64, "float16") for _ in range(2))
    x = np.zeros((1, 1, 64), np.float32)
    x[..., 3] = np.nan
    out = gate(h.from_np(x, "float16"), mx.array([0, 1])) * up(
        h.from_np(x, "float16"), mx.array([0, 1])
    )
    assert np.isnan(h.to_np(out)).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize(
    "kinds",
    [
        ({"group_size": 64, "bits": 8}, MODES[0], MODES[0]),
        ({"group_size": 64, "bits": 8}, MODES[3], MODES[3]),
        (None, MODES[0], {"group_size": 64, "bits": 8}),
    ],
    ids=["octets", "octets-mxfp4", "elements"],
)
def test_a_router_may_have_other_codes_than_experts(rng, kinds, dtype):
    """Router, gate and up, down: a normalised row's products, the choice, and a residual."""
    hidden, inner, count, k = 1024, 512, 8, 3
    of_router, of_unit, of_down = kinds
    x = normal(rng, 1, 1, hidden, dtype=dtype)
    w = 1 + normal(rng, hidden, dtype=dtype, scale=0.1)
    # Logits lie apart, so that roundings choose the same.
    row = h.to_np(x).ravel().astype(np.float64)
    levels = np.array([3, -1, 2, 0, -2, 4, 1, -3]) * 0.5
    router = h.from_np(np.outer(levels, row / (row @ row) ** 0.5 / 32).astype(np.float32), dtype)
    coded = router if of_router is None else mx.quantize(router, **of_router)
    gate, up = (Experts(rng, inner, hidden, dtype, count, **of_unit) for _ in range(2))
    down = Experts(rng, hidden, inner, dtype, count, **of_down)
    mx.eval(coded, w)

    def layer():
        row = mx.fast.rms_norm(x, w, 1e-6)
        if of_router is None:
            logits = row @ coded.T
        else:
            logits = mx.quantized_matmul(row, *coded, transpose=True, **of_router)
        gates = mx.softmax(logits, axis=-1, precise=True)
        picks = mx.argpartition(gates, kth=-k, axis=-1)[..., -k:]
        scores = mx.take_along_axis(gates, picks, axis=-1)
        scores = scores / scores.sum(axis=-1, keepdims=True)
        y = mx.expand_dims(row, (-2, -3))
        y = down(swiglu(gate(y, picks), up(y, picks)), picks).squeeze(-2)
        return [x + (y * scores[..., None]).sum(axis=-2), picks]

    got, picks = layer()
    mx.eval(got, picks)
    with mx.stream(mx.cpu):
        want, of_cpu = layer()
        mx.eval(want, of_cpu)
    assert set(h.to_np(picks).ravel()) == set(h.to_np(of_cpu).ravel()) == {0, 2, 5}
    close(got, h.to_np(want).astype(np.float64), dtype)


def test_a_layer_of_experts_gives_what_the_cpu_gives(rng):
    """The choice, the experts and their weighted sum, in 4 bits."""
    hidden, inner, count, k = 128, 64, 8, 3
    mx.random.seed(3)
    parts = [
        mx.quantize(mx.random.normal(s) * 0.1, 64, 4)
        for s in [(count, inner, hidden), (count, inner, hidden), (count, hidden, inner)]
    ]
    router = mx.random.normal((count, hidden))
    x = mx.random.normal((1, 1, hidden))
    mx.eval(parts, router, x)

    def layer(x, parts, router):
        gates = mx.softmax(x @ router.T, axis=-1, precise=True)
        picks = mx.stop_gradient(mx.argpartition(gates, kth=-k, axis=-1)[..., -k:])
        scores = mx.take_along_axis(gates, picks, axis=-1)
        scores = scores / scores.sum(axis=-1, keepdims=True)
        y = mx.expand_dims(x, (-2, -3))

        def by(y, w):
            return mx.gather_qmm(y, *w, rhs_indices=picks, transpose=True, group_size=64, bits=4)

        y = by(swiglu(by(y, parts[0]), by(y, parts[1])), parts[2]).squeeze(-2)
        return (y * scores[..., None]).sum(axis=-2)

    got, ran = h.kernels(lambda: layer(x, parts, router))
    assert any("picked" in n for n in ran) and any("select" in n for n in ran), ran
    with mx.stream(mx.cpu):
        want = layer(x, parts, router)
    close(got, h.to_np(want).astype(np.float64), "float32")
