"""Sums of scattered floats, added as exact integers by a GPU, against exact sums, in any order."""

import math

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

DTYPES = ["float32", "float16", "bfloat16"]
DIGITS = {"float32": (24, -149), "float16": (11, -24), "bfloat16": (8, -133)}
LARGEST = {"float32": 3.4028234663852886e38, "float16": 65504.0, "bfloat16": 3.3895313892515355e38}
# As packaged, without 64-bit atomics, and as sorted updates.
WAYS = {"exact": (), "two words": ("scatter_sums_wide",), "sorted": ("scatter_sums",)}


def nearest(x, dtype):
    """float64 values rounded once to a format, ties to even."""
    digits, least = DIGITS[dtype]
    x = np.asarray(x, np.float64)
    _, e = np.frexp(x)
    unit = np.ldexp(1.0, np.maximum(e - digits, least))
    with np.errstate(all="ignore"):
        out = np.round(x / unit) * unit
    return np.where(np.abs(out) > LARGEST[dtype], np.copysign(np.inf, out), out)


def exact(x, at, u):
    """The sum of each place as float64."""
    terms = [[float(v)] for v in x]
    for i, v in zip(at, u, strict=True):
        terms[i].append(float(v))
    return np.array([math.fsum(t) for t in terms])


def added(x, at, u, dtype, way="exact"):
    a, i, b = h.from_np(x, dtype), mx.array(at), h.from_np(u, dtype)
    return h.to_np(h.apart(lambda: a.at[i].add(b), *WAYS[way])).astype(np.float64)


def bits(x):
    return np.asarray(x, np.float32).view(np.uint32)


def check(x, at, u, dtype, way="exact", spread=0.0):
    """`spread`: what may be cut, as a share of the largest addend of a place."""
    x, u = (np.asarray(h.quantise(v, dtype), np.float64) for v in (x, u))
    got, want = added(x, at, u, dtype, way), exact(x, at, u)
    if h.on_gpu() and way != "sorted" and len(at) > 256:
        if spread == 0.0:
            np.testing.assert_array_equal(got, nearest(want, dtype), err_msg=f"{dtype} {way}")
            return
    else:
        spread = max(spread, len(at) * 2.0 ** -DIGITS[dtype][0])
    largest = np.abs(x)
    np.maximum.at(largest, at, np.abs(u))
    far = np.abs(got - want) - h.ulp(want, dtype) / 2 - spread * largest
    assert far.max() <= 0, f"{dtype} {way}: {far.max()}"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("places, updates", [(1, 3000), (50, 5000), (3000, 3001), (300, 20_000)])
def test_sums_are_rounded_once(places, updates, dtype, way, rng):
    x = rng.normal(size=places) * rng.integers(0, 2, places)
    at, u = rng.integers(0, places, updates), rng.normal(size=updates)
    check(x, at, u, dtype, way)
    check(x, at - places, u * np.exp2(rng.integers(-10, 3, updates)), dtype, way)


@pytest.mark.parametrize("way", ["exact", "two words"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_of_every_size(dtype, way, rng):
    """Places each of one size, which together span more than the bins, and places of all sizes."""
    low, high = (-20, 10) if dtype == "float16" else (-140, 120)
    places, updates = 400, 6000
    size = rng.integers(low, high, places)
    at = rng.integers(0, places, updates)
    u = np.ldexp(rng.normal(size=updates), size[at])
    check(np.ldexp(rng.normal(size=places), size), at, u, dtype, way)
    check(np.zeros(places), at, u, dtype, way)
    u = np.ldexp(rng.normal(size=updates), rng.integers(low, high, updates))
    check(np.zeros(places), at, u, dtype, way, spread=2.0**-60)


@pytest.mark.parametrize("way", ["exact", "two words"])
def test_large_addends_cancel(way):
    n = 3 * 400
    at = np.tile([0, 1, 2], 400)
    u = np.zeros((400, 3), np.float32)
    u[7], u[100], u[399], u[200] = 1e20, [1.0, 1e-3, -3.0], -1e20, 2.0**-30
    x = np.array([0.0, 0.0, 1e5], np.float32)
    if h.on_gpu():
        check(x, at[:n], u.reshape(-1), "float32", way)


@pytest.mark.parametrize("way", ["exact", "two words"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_infinities_and_nan(dtype, way, rng):
    nan, inf = math.nan, math.inf
    places, n = 40, 4000
    x, at, u = rng.normal(size=places), rng.integers(0, 30, n), rng.normal(size=n)
    at[:30] = np.arange(30)
    special = [(nan,), (inf,), (-inf,), (inf, inf), (inf, -inf), (inf, nan), (-inf, -inf)]
    for place, values in enumerate(special):
        u[np.flatnonzero(at == place)[: len(values)]] = values
    x[7], x[8], x[9], x[35], x[36], x[37] = nan, inf, -inf, nan, inf, -inf
    x[10], x[11], u[10], u[11] = inf, inf, -inf, inf
    want = np.asarray(h.quantise(x, dtype), np.float64)
    with np.errstate(invalid="ignore"):
        np.add.at(want, at, np.asarray(h.quantise(u, dtype), np.float64))
    for numbers in (u, u * np.exp2(rng.integers(-100, 20, n)) if dtype != "float16" else u):
        got = added(x, at, numbers, dtype, way)
        odd = ~np.isfinite(want)
        np.testing.assert_array_equal(got[odd], want[odd])
        assert np.isfinite(got[~odd]).all()
        np.testing.assert_array_equal(got[30:35], h.quantise(x, dtype)[30:35])


@pytest.mark.parametrize("way", ["exact", "two words"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_ends_of_a_format(dtype, way, rng):
    least, most = math.ldexp(1.0, DIGITS[dtype][1]), LARGEST[dtype]
    at = rng.integers(0, 20, 2000)
    small = rng.integers(-9, 10, 2000) * least
    if not h.on_gpu():
        return
    check(rng.integers(-9, 10, 20) * least, at, small, dtype, way)
    # Subnormal sums of normal numbers, and both ends at once.
    digits = DIGITS[dtype][0]
    check(np.zeros(20), at, rng.integers(-5, 6, 2000) * least * 2.0**digits, dtype, way)
    u = np.zeros(2000)
    u[:4], at[:4] = [most, most, most, -most], [0, 1, 1, 1]
    u[4:6], at[4:6] = [-most, -most], 2
    check(np.zeros(20), at, u, dtype, way)
    if dtype == "float16":
        check(np.zeros(20), at, np.where(u == 0, small, u), dtype, way)
    # Ties to even, and just beyond them.
    one = 2.0 ** (1 - digits)
    u[:], at[:] = 0, 0
    u[:9], at[:9] = (
        [1, one / 2, 1 + one, one / 2, 1, one / 2, least, -1, -one / 2],
        [0, 0, 1, 1, 2, 2, 2, 3, 3],
    )
    check(np.zeros(20), at, u, dtype, way, spread=2.0**-60 if dtype == "float32" else 0.0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_order_gives_the_same_bits(dtype, rng):
    if not h.on_gpu():
        return
    low, high = (-8, 4) if dtype == "float16" else (-90, 90)
    for places in (1, 900):
        at = rng.integers(0, places, 9000)
        u = np.ldexp(rng.normal(size=9000), rng.integers(low, high, 9000))
        x = rng.normal(size=places)
        first = bits(added(x, at, u, dtype))
        for way in ("exact", "two words", "exact"):
            order = rng.permutation(9000)
            np.testing.assert_array_equal(bits(added(x, at[order], u[order], dtype, way)), first)


@pytest.mark.parametrize("dtype", DTYPES)
def test_views_rows_and_lines(dtype, rng):
    """All that leads an update to its place: small integers, so that any way gives the same."""

    def same(got, want, label):
        np.testing.assert_array_equal(h.to_np(got).astype(np.float64), want, err_msg=label)

    def numbers(*shape):
        return rng.integers(0, 2, shape)

    for width in (1, 2, 3, 8, 11):
        x, at, u = numbers(70, width), rng.integers(-70, 70, 1200), numbers(1200, width)
        a, i, b = h.from_np(x, dtype), mx.array(at), h.from_np(u, dtype)
        want = x.copy()
        np.add.at(want, at, u)
        same(a.at[i].add(b), want, f"rows of {width}")
        same(mx.contiguous(a.T).at[:, i].add(b.T), want.T, f"columns of {width}")
        same(a.T.at[:, i].add(b.T), want.T, f"turned {width}")
        twice = mx.concatenate([b, b * 9])[: len(at)]
        same(a.at[i].add(twice), want, f"part {width}")
        same(a.at[i].add(mx.repeat(b, 2, axis=0)[::2]), want, f"steps {width}")
        same(a.at[i].add(b[::-1]), add_to(x, at, u[::-1]), f"backwards {width}")
        same(
            a.at[i].add(mx.array(1).astype(a.dtype)), add_to(x, at, np.ones_like(u)), "one for all"
        )
    x, at, u = numbers(6, 500), rng.integers(0, 500, (6, 700)), numbers(6, 700)
    want = x.copy()
    for line in range(6):
        np.add.at(want[line], at[line], u[line])
    got = mx.vmap(lambda a, i, b: a.at[i].add(b))(*lines(x, at, u, dtype))
    same(got, want, "lines")
    rows, columns, u = rng.integers(0, 9, 800), rng.integers(0, 50, 800), numbers(800)
    x = numbers(9, 50)
    pair = mx.array(rows), mx.array(columns)
    want = add_to(x, (rows, columns), u)
    same(h.from_np(x, dtype).at[pair].add(h.from_np(u, dtype)), want, "two indices")
    at = rng.integers(-90, 90, 900)  # some are out of range
    inside = (at >= -50) & (at < 50)
    u = numbers(900)
    want = add_to(numbers(50) * 0, at[inside], u[inside])
    for kind in (mx.int32, mx.int64):
        got = (
            mx.zeros((50,), h.mx_dtype(dtype))
            .at[mx.array(at).astype(kind)]
            .add(h.from_np(u, dtype))
        )
        same(got, want, f"out of range {kind}")


@pytest.mark.parametrize("places, updates", [(3000, 5000), (40_000, 50_000)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_added_to_stays(places, updates, dtype, rng):
    """A source that others hold is read where it lies, anywhere; else it is written in place."""
    whole = np.asarray(h.quantise(rng.normal(size=places + 5), dtype), np.float64)
    u = np.asarray(h.quantise(rng.normal(size=updates), dtype), np.float64)
    at = rng.integers(0, places // 3, updates)
    i, b, source = mx.array(at), h.from_np(u, dtype), h.from_np(whole, dtype)
    for start in (0, 1, 5):
        x = whole[start : start + places]
        a = source[start : start + places]
        want = nearest(exact(x, at, u), dtype)
        got = [
            a.at[i].add(b),
            a.at[mx.concatenate([i, mx.array([places - 1])])].add(mx.pad(b, (0, 1))),
        ]
        if h.on_gpu():
            np.testing.assert_array_equal(h.to_np(got[0]), want, err_msg=f"{start}")
            np.testing.assert_array_equal(h.to_np(got[1]), want, err_msg=f"{start}, with a zero")
        np.testing.assert_array_equal(h.to_np(got[0])[places // 3 :], x[places // 3 :])
        np.testing.assert_array_equal(h.to_np(a), x)
    np.testing.assert_array_equal(h.to_np(source), whole)
    got = (a + 0).at[i].add(b)
    if h.on_gpu():
        np.testing.assert_array_equal(h.to_np(got), want)
    # Infinities, and numbers of all sizes, of which some places take part in no sum.
    odd = whole.copy()
    odd[[0, 1, -9]] = math.inf, math.nan, -math.inf
    if dtype != "float16":
        odd[2:900] = np.ldexp(odd[2:900], rng.integers(-120, 110, 898))
    odd = np.asarray(h.quantise(odd, dtype), np.float64)
    got = h.to_np(h.from_np(odd, dtype).at[i].add(b)).astype(np.float64)
    np.testing.assert_array_equal(got[places // 3 :], odd[places // 3 :])
    assert np.isnan(got[1]) and (got[0] == math.inf or 0 not in at)


def add_to(x, at, u):
    want = x.copy()
    np.add.at(want, at, u)
    return want


def lines(x, at, u, dtype):
    return h.from_np(x, dtype), mx.array(at), h.from_np(u, dtype)


def test_gradients_of_take(rng):
    table, at = rng.normal(size=(300, 2)).astype(np.float32), rng.integers(0, 300, 5000)
    weight = rng.normal(size=(5000, 2)).astype(np.float32)
    slope = mx.grad(lambda t: (mx.take(t, mx.array(at), 0) * mx.array(weight)).sum())(
        mx.array(table)
    )
    want = np.zeros((300, 2))
    np.add.at(want, at, weight.astype(np.float64))
    np.testing.assert_allclose(
        np.array(slope), want, rtol=2e-7 if h.on_gpu() else 1e-4, atol=0 if h.on_gpu() else 1e-5
    )


def test_gradients_of_slices(rng):
    """Windows that overlap, up to the last element."""
    x, at = rng.normal(size=(60, 3)).astype(np.float32), rng.integers(0, 56, 900)
    at[:2] = 0, 55
    weight = rng.integers(-3, 4, (900, 5, 3)).astype(np.float32)

    def total(a):
        parts = mx.vmap(lambda i: mx.slice(a, i, (0,), (5, 3)))(mx.array(at).reshape(-1, 1))
        return (parts * mx.array(weight)).sum()

    want = np.zeros((60, 3))
    for i, w in zip(at, weight, strict=True):
        want[i : i + 5] += w
    for way in WAYS.values():
        np.testing.assert_array_equal(
            np.array(h.apart(lambda: mx.grad(total)(mx.array(x)), *way)), want
        )


def test_few_updates_and_none(rng):
    for dtype in DTYPES:
        a = mx.ones((1000,), h.mx_dtype(dtype))
        assert (a.at[mx.zeros((0,), mx.int32)].add(mx.zeros((0,), a.dtype)) == 1).all()
        at = rng.integers(0, 1000, 257)
        want = 1 + np.bincount(at, minlength=1000)
        np.testing.assert_array_equal(
            h.to_np(a.at[mx.array(at)].add(mx.ones((257,), a.dtype))), want
        )
        # Nothing but zeros.
        got = a.at[mx.zeros((5000,), mx.int32)].add(mx.zeros((5000,), a.dtype))
        assert (got == 1).all()
        nothing = (
            mx.zeros((300,), a.dtype)
            .at[mx.zeros((5000,), mx.int32)]
            .add(-mx.zeros((5000,), a.dtype))
        )
        assert (nothing == 0).all()
