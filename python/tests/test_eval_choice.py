"""A layer of experts: which of them a row chooses, their products and the weighed sum.

With what comes before and behind, as few commands as the GPU has kernels for; against float64, and
against the same by kernels of their own.
"""

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

UNIT = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
JOINS = ["choice", "qmm_chain_picked", "qmm_few_picked", "qmm_chain", "qmm_few_rows", "sort_select"]


@mx.compile
def swiglu(gate, up):
    return nn.silu(gate) * up


def quantised(rng, dtype, *shape, group, scale):
    w = h.from_np((rng.standard_normal(shape) * scale).astype(np.float32), dtype)
    parts = mx.quantize(w, group_size=group, bits=4)
    with mx.stream(mx.cpu):
        values = h.to_np(mx.dequantize(*parts, group_size=group, bits=4)).astype(np.float64)
    mx.eval(parts)
    return parts, values


class Layer:
    """Experts are the best of a softmax, divided by their sum or "plain", or "softmax" follows."""

    def __init__(self, rng, dtype, hidden, inner, experts, picks, group=64, kind="divided"):
        self.group, self.picks, self.kind, self.dtype = group, picks, kind, dtype
        made = {
            "router": (experts, hidden),
            "gate": (experts, inner, hidden),
            "up": (experts, inner, hidden),
            "down": (experts, hidden, inner),
            "next": (192, hidden),
        }
        scale = {"down": inner**-0.5}
        both = {
            name: quantised(rng, dtype, *shape, group=group, scale=scale.get(name, hidden**-0.5))
            for name, shape in made.items()
        }
        self.parts = {name: b[0] for name, b in both.items()}
        self.values = {name: b[1] for name, b in both.items()}
        self.norms = [
            h.from_np((1 + 0.1 * rng.standard_normal(hidden)).astype(np.float32), dtype)
            for _ in "12"
        ]
        mx.eval(self.norms)

    def plain(self, name, x):
        return mx.quantized_matmul(x, *self.parts[name], group_size=self.group, bits=4)

    def experts(self, name, x, places):
        how = {"rhs_indices": places, "transpose": True, "group_size": self.group, "bits": 4}
        return mx.gather_qmm(x, *self.parts[name], **how)

    def choose(self, logits):
        if self.kind == "softmax":
            places = mx.argpartition(-logits, kth=self.picks - 1, axis=-1)[..., : self.picks]
            return places, mx.softmax(
                mx.take_along_axis(logits, places, axis=-1), axis=-1, precise=True
            )
        gates = mx.softmax(logits, axis=-1, precise=True)
        places = mx.argpartition(gates, kth=-self.picks, axis=-1)[..., -self.picks :]
        scores = mx.take_along_axis(gates, places, axis=-1)
        if self.kind == "divided":
            scores = scores / scores.sum(axis=-1, keepdims=True)
        return places, scores

    def __call__(self, x):
        row = mx.fast.rms_norm(x, self.norms[0], 1e-6)
        places, scores = self.choose(self.plain("router", row))
        wide = mx.expand_dims(row, (-2, -3))
        unit = swiglu(self.experts("gate", wide, places), self.experts("up", wide, places))
        down = self.experts("down", unit, places).squeeze(-2)
        x = x + (down * scores[..., None]).sum(axis=-2)
        return x, self.plain("next", mx.fast.rms_norm(x, self.norms[1], 1e-6)), places, scores

    def reference(self, x, places, scores):
        """What follows the choice, in float64."""
        row = self.normalised(x, 0)
        out = x.copy()
        for i in range(len(x)):
            for e, s in zip(places[i], scores[i], strict=True):
                g, u = (self.values[n][e] @ row[i] for n in ("gate", "up"))
                out[i] += s * (self.values["down"][e] @ (g / (1 + np.exp(-g)) * u))
        return out, self.normalised(out, 1) @ self.values["next"].T

    def normalised(self, x, which):
        w = h.to_np(self.norms[which]).astype(np.float64)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w


def close(got, want, dtype, units):
    got = h.to_np(got).astype(np.float64).reshape(want.shape)
    worst = np.abs(got - want).max()
    assert worst <= units * UNIT[dtype] * np.abs(want).max(), worst


CASES = [
    # Rows, hidden, inner, experts, picks, group.
    (1, 1024, 256, 16, 4, 64),
    (1, 2048, 128, 128, 8, 64),
    (1, 1024, 192, 60, 6, 64),
    (1, 1088, 320, 8, 2, 64),
    (1, 1024, 512, 33, 3, 128),
    (1, 1024, 256, 16, 4, 32),
    (1, 1024, 64, 256, 1, 64),
    (3, 1024, 256, 16, 4, 64),
    (8, 1024, 128, 128, 8, 64),
    (20, 512, 256, 30, 4, 64),
    (64, 256, 256, 16, 8, 64),
    (70, 256, 256, 16, 8, 64),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: "x".join(map(str, c)))
@pytest.mark.parametrize(
    "dtype, kind", [("bfloat16", "divided"), ("float16", "softmax"), ("bfloat16", "plain")]
)
def test_a_layer_of_experts(rng, dtype, case, kind):
    rows, hidden, inner, experts, picks, group = case
    if experts * inner >= 8192:
        (hidden,) = h.fit(hidden)
    layer = Layer(rng, dtype, hidden, inner, experts, picks, group, kind)
    x = h.from_np(rng.standard_normal((rows, 1, hidden)).astype(np.float32), dtype)
    mx.eval(x)
    out, after, places, scores = layer(x)
    mx.eval(out, after, places, scores)
    chosen, weights = h.to_np(places)[:, 0], h.to_np(scores)[:, 0].astype(np.float64)
    values = h.to_np(x)[:, 0].astype(np.float64)
    # The best, within the rounding of what they are ranked by.
    logits = layer.normalised(values, 0) @ layer.values["router"].T
    for row, best in zip(logits, chosen, strict=True):
        assert len(set(best.tolist())) == picks
        least = np.sort(row)[-picks]
        assert row[best].min() >= least - 8 * UNIT[dtype] * max(1, np.abs(row).max())
    want, next_ = layer.reference(values, chosen, weights)
    close(out, want, dtype, 6)
    close(after, next_, dtype, 12)
    # Whoever does not ask for them gets the same numbers.
    again = layer(x)[:2]
    mx.eval(again)
    assert mx.array_equal(again[0], out) and mx.array_equal(again[1], after)


@pytest.mark.parametrize("off", JOINS)
def test_kernels_of_their_own_give_the_same(rng, off):
    layer = Layer(rng, "bfloat16", 1024, 192, 40, 8)
    for rows in (1, 5):
        x = h.from_np(rng.standard_normal((rows, 1, 1024)).astype(np.float32), "bfloat16")
        mx.eval(x)
        out, after, places, scores = layer(x)
        mx.eval(out, after, places, scores)
        other = h.apart(lambda x=x: layer(x), off)
        assert mx.array_equal(places, other[2])
        close(scores, h.to_np(other[3]).astype(np.float64), "bfloat16", 2)
        close(out, h.to_np(other[0]).astype(np.float64), "bfloat16", 3)
        close(after, h.to_np(other[1]).astype(np.float64), "bfloat16", 6)


def test_layers_behind_each_other(rng):
    """Each picks by what the one before made; the same bits every time."""
    layers = [Layer(rng, "bfloat16", 1024, 256, 16, 4) for _ in range(2)]
    x = h.from_np(rng.standard_normal((1, 1, 1024)).astype(np.float32), "bfloat16")

    def run(x):
        for layer in layers:
            x = layer(x)[0]
        return x

    first = run(x)
    mx.eval(first)
    values = h.to_np(x)[:, 0].astype(np.float64)
    for layer in layers:
        row = h.from_np(values[:, None].astype(np.float32), "bfloat16")
        _, _, places, scores = layer(row)
        mx.eval(places, scores)
        values, _ = layer.reference(
            values, h.to_np(places)[:, 0], h.to_np(scores)[:, 0].astype(np.float64)
        )
        values = h.to_np(h.from_np(values.astype(np.float32), "bfloat16")).astype(np.float64)
    close(first, values, "bfloat16", 10)
    for _ in range(5):
        again = run(x)
        mx.eval(again)
        assert mx.array_equal(first, again)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
def test_rows_that_are_no_numbers(rng, bad):
    """One row of them leaves the others as they are, and the process usable."""
    layer = Layer(rng, "bfloat16", 1024, 256, 16, 4)
    x = rng.standard_normal((4, 1, 1024)).astype(np.float32)
    good = layer(h.from_np(x, "bfloat16"))[0]
    mx.eval(good)
    for rows in (slice(1, 2), slice(0, 4)):
        y = x.copy()
        y[1, 0, 7] = bad
        out, _, places, _ = layer(h.from_np(y[rows], "bfloat16"))
        mx.eval(out, places)
        assert h.to_np(places).max() < 16
        if rows.stop == 4:
            assert mx.array_equal(out[2:], good[2:])
        if np.isnan(bad):
            assert mx.isnan(out[0 if rows.stop == 2 else 1]).all()
    again = layer(h.from_np(x, "bfloat16"))[0]
    assert mx.array_equal(again, good)
