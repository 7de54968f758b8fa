"""Routers by sigmoids, which a GPU computes as one kernel with the choice: values, what stays."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
from test_sort_joined import FLOATS, UNIT, apart

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.validation,
    pytest.mark.usefixtures("none_disabled"),
]

SHAPES = [
    # Of the logits, and how many are chosen.
    ((1, 1, 8), 1),
    ((3, 60), 4),
    ((40, 64), 8),
    ((2, 3, 160), 8),
    ((1, 256), 4),
    ((3, 1024), 8),
]


class Router:
    """The sigmoids of the largest, of which a correction may decide, and what they weigh.

    `norm`: divided by their sum, or by that "above" a number or by a "floor"; `ends`: how the
    choice is asked for; `wide`: sigmoids are float32.
    """

    def __init__(self, k, norm="plain", scale=2.5, cast=False, ends="negative", wide=True):
        self.k, self.norm, self.scale, self.cast = k, norm, scale, cast
        self.ends, self.wide = ends, wide

    def __call__(self, x, bias=None):
        k = self.k
        gates = mx.sigmoid(x.astype(mx.float32) if self.wide else x)
        ranked = gates if bias is None else gates + bias
        if self.ends == "negative":
            places = mx.argpartition(-ranked, kth=k - 1, axis=-1)[..., :k]
        else:
            places = mx.argpartition(ranked, kth=-k, axis=-1)[..., -k:]
        places = mx.stop_gradient(places)
        scores = mx.take_along_axis(gates, places, axis=-1)
        del gates, ranked
        if self.norm:
            total = scores.sum(axis=-1, keepdims=True)
            if self.norm == "above":
                total = total + 1e-3
            elif self.norm == "floor":
                total = mx.maximum(total, 1.25)
            scores = scores / total
        if self.scale is not None:
            scores = scores * self.scale
        return places, scores.astype(x.dtype) if self.cast else scores

    def check(self, x, bias, places, scores, unit):
        """Against float64."""
        x = np.array(x.astype(mx.float32), np.float64)
        gates = 1 / (1 + np.exp(-x))
        ranked = gates if bias is None else gates + np.array(bias.astype(mx.float32), np.float64)
        places = np.array(places)
        best = np.sort(ranked, axis=-1)[..., -self.k :]
        got = np.sort(np.take_along_axis(ranked, places, axis=-1), axis=-1)
        slack = 1e-6 if self.wide else 4 * unit
        np.testing.assert_allclose(got, best, rtol=slack, atol=slack)
        assert all(len(set(row)) == self.k for row in places.reshape(-1, self.k).tolist())
        want = np.take_along_axis(gates, places, axis=-1)
        if self.norm:
            total = want.sum(axis=-1, keepdims=True)
            extra = {"plain": total, "above": total + 1e-3, "floor": np.maximum(total, 1.25)}
            want = want / extra[self.norm]
        want = want * (1 if self.scale is None else self.scale)
        got = np.array(scores.astype(mx.float32))
        np.testing.assert_allclose(got, want, rtol=8 * unit)


ROUTERS = {
    "glm4_moe": {},
    "minimax": {"norm": "above", "scale": None, "cast": True},
    "ernie": {"norm": "floor", "scale": None},
    "bailing": {"norm": "above", "cast": True, "ends": "last"},
    "plain": {"norm": None},
    "bare": {"norm": None, "scale": None},
    "narrow": {"norm": "above", "cast": True, "ends": "last", "wide": False},
}


def given(rng, *shape, dtype="float32"):
    a = h.from_np(rng.uniform(-3, 3, shape).astype(np.float32), dtype)
    mx.eval(a)
    return a


def one_kernel(f):
    out, ran = h.kernels(f)
    assert sum(ran.values()) == 1 and "select" in next(iter(ran)), ran
    return out


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("corrected", [True, False], ids=["corrected", "sigmoid"])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "steps"])
def test_one_kernel_routes(rng, dtype, corrected, compiled):
    for shape, k in SHAPES:
        x = given(rng, *shape, dtype=dtype)
        bias = given(rng, shape[-1]) if corrected else None
        router = Router(k)
        run = mx.compile(router) if compiled else router
        places, scores = one_kernel(lambda r=run, x=x, b=bias: r(x, b))
        assert places.dtype == mx.uint32 and places.shape == (*shape[:-1], k)
        assert scores.dtype == mx.float32 and scores.shape == places.shape
        router.check(x, bias, places, scores, UNIT["float32"])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("how", ROUTERS.values(), ids=ROUTERS)
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "steps"])
def test_each_kind_of_router(rng, how, dtype, compiled):
    router = Router(6, **how)
    run = mx.compile(router) if compiled else router
    bias = given(rng, 1, 1, 60)
    # Of one row the correction looks like the logits.
    for rows in ((2, 3), (1, 1)):
        x = given(rng, *rows, 60, dtype=dtype)
        places, scores = one_kernel(lambda x=x: run(x, bias))
        narrow = router.cast or not router.wide
        assert scores.dtype == (x.dtype if narrow else mx.float32)
        unit = UNIT[dtype if narrow else "float32"]
        router.check(x, bias, places, scores, unit)
        one_places, one_scores = apart(lambda x=x: run(x, bias))
        assert mx.array_equal(places, one_places)
        if router.norm is None:
            assert mx.array_equal(scores, one_scores)
        got, one = (np.array(a.astype(mx.float32)) for a in (scores, one_scores))
        np.testing.assert_allclose(got, one, rtol=3 * unit)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "steps"])
def test_ties_and_special_numbers_are_ordered_as_by_single_kernels(rng, dtype, compiled):
    special = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -90.0, 90.0]
    a = rng.integers(-3, 4, (40, 64)).astype(np.float32)
    for i in range(24):
        a[i, rng.integers(0, 64, 6)] = rng.choice(special, 6)
    a[24:28], a[28], a[29] = 0, np.nan, -np.inf
    x = h.from_np(a, dtype)
    b = np.zeros(64, np.float32)
    b[3], b[5], b[7], b[9] = np.nan, np.inf, -np.inf, -0.0
    biases = mx.zeros(64), mx.array(b)
    mx.eval(x, biases)
    for bias in biases:
        for k in (1, 6, 63):
            router = Router(k)
            run = mx.compile(router) if compiled else router
            places, scores = one_kernel(lambda r=run, b=bias: r(x, b))
            one_places, one_scores = apart(lambda r=run, b=bias: r(x, b))
            assert mx.array_equal(places, one_places).item()
            # The order of the sum may be another.
            got, one = np.array(scores), np.array(one_scores)
            np.testing.assert_allclose(got, one, rtol=(k / 2 + 2) * UNIT["float32"], atol=1e-43)


def test_corrections_and_scales_may_be_arrays_of_any_kind(rng):
    """Of half precision, views, or single numbers that a kernel makes."""
    x = given(rng, 5, 32, dtype="float16")
    bias = given(rng, 64, dtype="bfloat16")[::2]
    scale = mx.exp(given(rng, 1))
    for one in (bias, bias[None], given(rng, 32, dtype="float16"), mx.array(0.5)):

        def run(one=one):
            gates = mx.sigmoid(x.astype(mx.float32))
            places = mx.argpartition(-(gates + one), kth=3, axis=-1)[..., :4]
            scores = mx.take_along_axis(gates, places, axis=-1)
            del gates
            return places, scores * scale

        mx.eval(scale)
        places, scores = run()
        mx.eval(places, scores)
        column = mx.broadcast_to(one.astype(mx.float32), (32,) if one.ndim < 2 else (1, 32))
        router = Router(4, norm=None, scale=scale.item())
        router.check(x, column, places, scores, UNIT["float32"])
        assert all(mx.array_equal(a, b) for a, b in zip((places, scores), apart(run), strict=True))


@pytest.mark.parametrize("kept", ["gates", "ranked", "scores", "total", "shares"])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "steps"])
def test_what_others_need_is_computed(rng, kept, compiled):
    x, bias = given(rng, 3, 32, dtype="bfloat16"), given(rng, 32)

    def run(x, bias):
        values = {}
        values["gates"] = gates = mx.sigmoid(x.astype(mx.float32))
        values["ranked"] = ranked = -(gates + bias)
        places = mx.argpartition(ranked, kth=3, axis=-1)[..., :4]
        values["scores"] = scores = mx.take_along_axis(gates, places, axis=-1)
        values["total"] = total = scores.sum(axis=-1, keepdims=True)
        values["shares"] = shares = scores / total
        return places, shares * 2.5, values[kept]

    run = mx.compile(run) if compiled else run
    places, scores, held = run(x, bias)
    mx.eval(places, scores)
    Router(4).check(x, bias, places, scores, UNIT["float32"])
    gates = 1 / (1 + np.exp(-np.array(x.astype(mx.float32), np.float64)))
    taken = np.take_along_axis(gates, np.array(places), -1)
    total = taken.sum(-1, keepdims=True)
    ranked = -(gates + np.array(bias, np.float64))
    want = {"gates": gates, "ranked": ranked, "scores": taken, "total": total}
    want = want.get(kept, taken / total)
    np.testing.assert_allclose(np.array(held), want, rtol=2e-6, atol=1e-7)


def test_two_arrays_of_logits_stay_apart(rng):
    """Keys and numbers of one row only are made in the kernel."""
    x, y, bias = given(rng, 4, 32), given(rng, 4, 32), given(rng, 32)

    def run():
        gates = mx.sigmoid(x)
        places = mx.argpartition(-(gates + mx.sigmoid(y) + bias), kth=3, axis=-1)[..., :4]
        scores = mx.take_along_axis(gates, places, axis=-1)
        return places, scores / scores.sum(axis=-1, keepdims=True)

    got, one = run(), apart(run)
    assert mx.array_equal(got[0], one[0])
    np.testing.assert_allclose(np.array(got[1]), np.array(one[1]), rtol=1e-6)


def test_layers_behind_each_other(rng):
    """Many steps at once, as the recorder gets them; twice, as their memory comes back."""
    weights = [given(rng, 48, 16, dtype="bfloat16") for _ in range(12)]
    bias = given(rng, 16)
    run = mx.compile(Router(4))
    first = given(rng, 2, 48, dtype="bfloat16")

    def whole():
        x, picked = first, []
        for w in weights:
            places, scores = run(x @ w, bias)
            picked.append(places)
            x = x + (scores[..., None] * w.T[places]).sum(axis=-2).astype(x.dtype)
        return [x, *picked]

    for _ in range(2):
        got = whole()
        mx.async_eval(got)
        # Kernels of their own add up in another order, which bfloat16 seldom shows.
        one = apart(whole)
        assert all(mx.array_equal(a, b) for a, b in zip(got[1:4], one[1:4], strict=True))
        assert mx.allclose(got[0].astype(mx.float32), one[0].astype(mx.float32), rtol=0.1, atol=0.1)


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "steps"])
def test_derivatives_pass(rng, compiled):
    x, bias, weight = given(rng, 4, 24), given(rng, 24), given(rng, 4, 3)
    run = mx.compile(Router(3)) if compiled else Router(3)

    def loss(x):
        return (run(x, bias)[1] * weight).sum()

    (value, got) = mx.value_and_grad(loss)(x)
    mx.eval(value, got)
    a = np.array(x, np.float64)
    gates = 1 / (1 + np.exp(-a))
    places = np.array(run(x, bias)[0])
    taken = np.take_along_axis(gates, places, -1)
    total, w = taken.sum(-1, keepdims=True), np.array(weight, np.float64)
    slope = 2.5 * (w / total - (w * taken).sum(-1, keepdims=True) / total**2) * taken * (1 - taken)
    want = np.zeros_like(a)
    np.put_along_axis(want, places, slope, -1)
    np.testing.assert_allclose(np.array(got), want, rtol=1e-5, atol=1e-6)


def test_long_rows_are_sorted(rng):
    x, bias = given(rng, 2, 1025), given(rng, 1025)
    (places, scores), ran = h.kernels(lambda: Router(4)(x, bias))
    assert not any("select" in name for name in ran), ran
    Router(4).check(x, bias, places, scores, UNIT["float32"])
