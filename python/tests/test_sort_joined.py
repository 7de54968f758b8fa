"""The choice of experts, which a GPU computes as one kernel: values, and what stays apart."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.validation,
    pytest.mark.usefixtures("none_disabled"),
]

FLOATS = ["float32", "float16", "bfloat16"]
UNIT = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def apart(f):
    """What `f` gives where each step is a kernel of its own."""
    return h.apart(f, "sort_select")


def largest(gates, k):
    """Places of the largest `k`, as models ask for them."""
    return mx.stop_gradient(mx.argpartition(gates, kth=-k, axis=-1)[..., -k:])


def softmax_first(x, k):
    gates = mx.softmax(x, axis=-1, precise=True)
    places = largest(gates, k)
    scores = mx.take_along_axis(gates, places, axis=-1)
    del gates
    return places, scores / scores.sum(axis=-1, keepdims=True)


def softmax_last(x, k):
    places = mx.stop_gradient(mx.argpartition(-x, kth=k - 1, axis=-1)[..., :k])
    return places, mx.softmax(mx.take_along_axis(x, places, axis=-1), axis=-1, precise=True)


def chosen(x, k):
    places = largest(x, k)
    return places, mx.take_along_axis(x, places, axis=-1)


def least(x, k):
    places = mx.argsort(x, axis=-1)[..., :k]
    return places, mx.take_along_axis(x, places, axis=-1)


ROUTERS = [softmax_first, softmax_last, chosen, least]


def rows(rng, *shape, dtype="float32"):
    """Numbers of which no two of a row are near each other."""
    n = shape[-1]
    order = np.argsort(rng.random(shape), axis=-1)
    a = h.from_np((order / n * 6 - 3).astype(np.float32), dtype)
    mx.eval(a)
    return a


def expected(router, x, k):
    """The same in float64, with places of each row in any order: sorted by place."""
    x = np.array(x.astype(mx.float32), np.float64)
    if router is least:
        order = np.argsort(x, axis=-1, kind="stable")[..., :k]
    else:
        order = np.argsort(x, axis=-1, kind="stable")[..., -k:]
    taken = np.take_along_axis(x, order, axis=-1)
    if router in (softmax_first, softmax_last):
        taken = np.exp(taken - x.max(axis=-1, keepdims=True))
        taken = taken / taken.sum(axis=-1, keepdims=True)
    by_place = np.argsort(order, axis=-1)
    return np.take_along_axis(order, by_place, -1), np.take_along_axis(taken, by_place, -1)


def check(router, x, k, dtype):
    want_places, want = expected(router, x, k)
    places, scores = (np.array(a.astype(mx.float32)) for a in router(x, k))
    by_place = np.argsort(places, axis=-1)
    np.testing.assert_array_equal(np.take_along_axis(places, by_place, -1), want_places)
    got = np.take_along_axis(scores, by_place, -1)
    np.testing.assert_allclose(got, want, rtol=8 * UNIT[dtype], atol=1e-30)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("router", ROUTERS, ids=lambda f: f.__name__)
def test_one_kernel_chooses_and_weighs(rng, router, dtype):
    for shape, k in [((1, 1, 128), 8), ((1, 3, 60), 4), ((5, 7), 2), ((300,), 1), ((2, 1024), 33)]:
        x = rows(rng, *shape, dtype="float32" if shape[-1] > 128 else dtype)
        (places, scores), ran = h.kernels(lambda x=x, k=k: router(x, k))
        assert sum(ran.values()) == 1, ran
        assert any(name in next(iter(ran)) for name in ("select", "choice")), ran
        assert places.dtype == mx.uint32 and places.shape == (*shape[:-1], k)
        assert scores.dtype == x.dtype and scores.shape == places.shape
        check(router, x, k, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("router", ROUTERS, ids=lambda f: f.__name__)
def test_ties_and_special_numbers_are_ordered_as_by_single_kernels(rng, router, dtype):
    special = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40]
    a = rng.integers(-3, 4, (40, 64)).astype(np.float32)
    for i in range(24):
        a[i, rng.integers(0, 64, 6)] = rng.choice(special, 6)
    a[24:28] = 0
    a[28] = np.nan
    a[29] = -np.inf
    x = h.from_np(a, dtype)
    for k in (1, 6, 64):
        places, scores = router(x, k)
        mx.eval(places, scores)
        one_places, one_scores = apart(lambda k=k: router(x, k))
        assert mx.array_equal(places, one_places).item()
        got, one = (np.array(v.astype(mx.float32)) for v in (scores, one_scores))
        np.testing.assert_allclose(got, one, rtol=2 * UNIT[dtype])
        assert (np.signbit(got) == np.signbit(one))[~np.isnan(one)].all()


def test_numbers_may_be_others_than_the_keys(rng):
    """As with a bias that only decides; keys and numbers may lie anywhere and be of other types."""
    for keys, numbers in [
        ("float32", "bfloat16"),
        ("float16", "float32"),
        ("bfloat16", "bfloat16"),
    ]:
        key = rows(rng, 40, 6, dtype=keys).T
        x = rows(rng, 6, 80, dtype=numbers)[:, ::2]

        def f(key=key, x=x):
            places = largest(key, 5)
            return places, mx.take_along_axis(x, places, axis=-1)

        (places, scores), _ = h.kernels(f)
        order = np.argsort(np.array(key.astype(mx.float32)), axis=-1, kind="stable")[:, -5:]
        np.testing.assert_array_equal(np.array(places), order)
        want = np.take_along_axis(np.array(x.astype(mx.float32)), order, -1)
        np.testing.assert_array_equal(np.array(scores.astype(mx.float32)), want)


def test_what_others_need_is_computed(rng):
    x = rows(rng, 3, 32)
    gates = mx.softmax(x, axis=-1)
    order = mx.argpartition(gates, kth=-4, axis=-1)
    places = order[..., -4:]
    scores = mx.take_along_axis(gates, places, axis=-1)
    total = scores.sum(axis=-1, keepdims=True)
    shares = scores / total
    mx.eval(shares, order, total, gates)
    want = np.exp(np.array(x, np.float64))
    want = want / want.sum(-1, keepdims=True)
    np.testing.assert_allclose(np.array(gates), want, rtol=1e-6)
    taken = np.take_along_axis(want, np.array(places), -1)
    np.testing.assert_allclose(np.array(scores), taken, rtol=1e-6)
    np.testing.assert_allclose(np.array(total), taken.sum(-1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(np.array(shares), taken / taken.sum(-1, keepdims=True), rtol=1e-6)
    ordered = np.take_along_axis(want, np.array(order), -1)
    assert (ordered[:, :-4].max(-1) <= ordered[:, -4:].min(-1)).all()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: largest(x, 3),
        lambda x: mx.take_along_axis(x, mx.argsort(x, axis=-1), axis=-1),
        lambda x: mx.take_along_axis(x, mx.argsort(x, axis=0)[:3], axis=0),
        lambda x: mx.take_along_axis(x, mx.argsort(x, axis=-1)[..., ::2], axis=-1),
        lambda x: mx.take_along_axis(x[:, :1], mx.argsort(x, axis=-1)[:, :2] * 0, axis=-1),
        lambda x: mx.take_along_axis(x.astype(mx.int32), mx.argsort(x, axis=-1)[:, :2], axis=-1),
        lambda x: mx.take_along_axis(x, mx.argsort(x.astype(mx.int32), axis=-1)[:, :2], axis=-1),
    ],
)
def test_other_uses_of_places_stay_apart(rng, f):
    x = rows(rng, 8, 40)
    got, ran = h.kernels(lambda: f(x))
    assert not any("select" in name for name in ran), ran
    with mx.stream(mx.cpu):
        want = f(mx.array(np.array(x)))
    if got.dtype == mx.uint32:
        got, want = (np.sort(np.array(a), axis=-1) for a in (got, want))
    np.testing.assert_array_equal(np.array(got), np.array(want))


def test_long_rows_are_sorted(rng):
    x = rows(rng, 2, 1025)
    (_, scores), ran = h.kernels(lambda: chosen(x, 4))
    assert not any("select" in name for name in ran), ran
    np.testing.assert_array_equal(np.array(scores), np.sort(np.array(x), axis=-1)[:, -4:])


def test_many_rows(rng):
    x = rows(rng, 70_000, 16)
    places, scores = softmax_first(x, 4)
    mx.eval(places, scores)
    check(softmax_first, x, 4, "float32")


def test_derivatives_pass(rng):
    """Through the numbers, as where each step is a kernel of its own."""
    x = rows(rng, 4, 24)
    weight = mx.array(rng.standard_normal((4, 3)).astype(np.float32))

    def loss(x):
        return (softmax_first(x, 3)[1] * weight).sum()

    got = mx.grad(loss)(x)
    mx.eval(got)
    step = 1e-2
    a = np.array(x, np.float64)
    places = expected(softmax_first, x, 3)[0]
    sorted_places = np.array(softmax_first(x, 3)[0])

    def value(a):
        e = np.exp(a - a.max(-1, keepdims=True))
        taken = np.take_along_axis(e, sorted_places, -1)
        return (taken / taken.sum(-1, keepdims=True) * np.array(weight, np.float64)).sum()

    for i, j in [(0, places[0, 0]), (1, places[1, 2]), (3, 5)]:
        up, down = a.copy(), a.copy()
        up[i, j] += step
        down[i, j] -= step
        want = (value(up) - value(down)) / (2 * step)
        np.testing.assert_allclose(np.array(got)[i, j], want, atol=2e-5)


def test_inside_compiled_functions(rng):
    """Scores by a sigmoid with a bias that only decides, scaled: as models compile their choice."""

    @mx.compile
    def route(gates, bias):
        scores = mx.sigmoid(gates.astype(mx.float32))
        places = mx.stop_gradient(mx.argpartition(-(scores + bias), kth=3, axis=-1)[..., :4])
        taken = mx.take_along_axis(scores, places, axis=-1)
        return places, taken / taken.sum(axis=-1, keepdims=True) * 2.5

    x, bias = rows(rng, 2, 64, dtype="bfloat16"), rows(rng, 64)
    (places, scores), ran = h.kernels(lambda: route(x, bias))
    assert any("select" in name for name in ran) and sum(ran.values()) <= 3, ran
    s = 1 / (1 + np.exp(-np.array(x.astype(mx.float32), np.float64)))
    order = np.argsort(-(s + np.array(bias, np.float64)), axis=-1, kind="stable")[:, :4]
    np.testing.assert_array_equal(np.array(places), order)
    taken = np.take_along_axis(s, order, -1)
    want = taken / taken.sum(-1, keepdims=True) * 2.5
    np.testing.assert_allclose(np.array(scores), want, rtol=2e-6)
