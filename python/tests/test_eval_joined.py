"""Steps that a GPU computes as one kernel: their values, and what must keep them apart."""

import os

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


def apart(f):
    """What `f` gives where each step is a kernel of its own."""
    return h.apart(f, "qmm_joined", "rope_rows")


def normal(rng, *shape, dtype="float32", scale=1.0):
    a = mx.array(rng.standard_normal(shape).astype(np.float32) * scale)
    a = a.astype(h.mx_dtype(dtype))
    mx.eval(a)
    return a


class Matrix:
    """A quantised matrix of (rows, columns), and what it stands for in float64."""

    def __init__(self, rng, rows, columns, dtype="float32", **how):
        self.how = how or MODES[0]
        self.parts = mx.quantize(normal(rng, rows, columns, dtype=dtype, scale=0.1), **self.how)
        mx.eval(self.parts)
        with mx.stream(mx.cpu):
            self.values = h.to_np(mx.dequantize(*self.parts, **self.how)).astype(np.float64)

    def __call__(self, x):
        return mx.quantized_matmul(x, *self.parts, transpose=True, **self.how)

    def of(self, x):
        return x @ self.values.T


def rounded(x, dtype):
    if dtype == "float32":
        return x
    return h.to_np(mx.array(x.astype(np.float32)).astype(h.mx_dtype(dtype)))


def rms(x, w, dtype="float32", eps=1e-5):
    x = x.astype(np.float64)
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w.astype(np.float64)
    return rounded(y, dtype).astype(np.float64)


def close(got, expected, dtype, units=2):
    got = h.to_np(got).astype(np.float64)
    worst = np.abs(got - expected).max()
    # Sums of some hundred products in float32.
    unit = max(UNIT[dtype], 2.0**-20)
    assert worst <= units * unit * np.abs(expected).max(), worst


@mx.compile
def swiglu(gate, up):
    return nn.silu(gate) * up


def gated(g, u):
    """The same in float64."""
    return g / (1 + np.exp(-np.maximum(g, -80.0))) * u


@pytest.mark.parametrize("how", MODES, ids=lambda m: m.get("mode", f"q{m['bits']}"))
@pytest.mark.parametrize("dtype", list(UNIT))
def test_products_of_one_normalised_row_are_one_kernel(rng, dtype, how):
    mats = [Matrix(rng, n, 192, dtype, **how) for n in (40, 24, 7)]
    x, w = normal(rng, 1, 1, 192, dtype=dtype), normal(rng, 192, dtype=dtype)

    def products():
        y = mx.fast.rms_norm(x, w, 1e-5)
        return [m(y) for m in mats]

    out, ran = h.kernels(products)
    assert sum(ran.values()) == 1, ran
    row = rms(h.to_np(x), h.to_np(w), dtype)
    for got, m in zip(out, mats, strict=True):
        close(got, m.of(row), dtype)


@pytest.mark.parametrize("how", MODES, ids=lambda m: m.get("mode", f"q{m['bits']}"))
@pytest.mark.parametrize("dtype", list(UNIT))
def test_a_product_and_what_follows_have_the_bits_of_two_kernels(rng, dtype, how):
    m, x = Matrix(rng, 75, 128, dtype, **how), normal(rng, 1, 128, dtype=dtype)
    res = normal(rng, 1, 75, dtype=dtype)
    for f in (
        lambda: res + m(x),
        lambda: m(x) - res,
        lambda: mx.maximum(m(x), res),
        lambda: mx.compile(lambda p, r: mx.tanh(p) * r + r)(m(x), res),
    ):
        out, ran = h.kernels(f)
        assert sum(ran.values()) == 1, ran
        assert np.array_equal(h.to_np(out), h.to_np(apart(f)))
    close(res + m(x), h.to_np(res) + rounded(m.of(h.to_np(x)), dtype), dtype)


@pytest.mark.parametrize("how", MODES, ids=lambda m: m.get("mode", f"q{m['bits']}"))
@pytest.mark.parametrize("dtype", list(UNIT))
def test_a_gated_unit_is_one_kernel(rng, dtype, how):
    gate, up = (Matrix(rng, 45, 320, dtype, **how) for _ in range(2))
    x, w = normal(rng, 1, 1, 320, dtype=dtype), normal(rng, 320, dtype=dtype)

    def unit():
        y = mx.fast.rms_norm(x, w, 1e-5)
        return swiglu(gate(y), up(y))

    out, ran = h.kernels(unit)
    assert sum(ran.values()) == 1, ran
    row = rms(h.to_np(x), h.to_np(w), dtype)
    g, u = (rounded(m.of(row), dtype) for m in (gate, up))
    close(out, g / (1 + np.exp(-g)) * u, dtype, units=4)
    # The other way round, and without the normalisation.
    plain = lambda: swiglu(up(x), gate(x))  # noqa: E731
    out, ran = h.kernels(plain)
    assert sum(ran.values()) == 1, ran
    assert np.array_equal(h.to_np(out), h.to_np(apart(plain)))


#: Widths, groups and rows of codes: whole turns and parts of one, odd numbers of groups, rows that
#: end inside a workgroup.
LONG_ROWS = [
    (4096, 64, (96, 33, 7)),
    (4160, 64, (40, 16, 1)),
    (4224, 128, (64, 5, 32)),
    (4128, 32, (17, 48, 3)),
]


def meant(m):
    """Weights of four bits in float64 as they are meant, not as they are rounded."""
    codes = np.array(m.parts[0])[:, :, None] >> (4 * np.arange(8)).astype(np.uint32) & 15
    codes = codes.reshape(len(codes), -1).astype(np.float64)
    factors, biases = (
        np.repeat(h.to_np(p).astype(np.float64), m.how["group_size"], 1) for p in m.parts[1:]
    )
    return codes * factors, biases


def near(got, m, row, dtype):
    """Whether a product is right to some places of what sums of so many numbers are like."""
    weights = sum(meant(m))
    expected, like = row @ weights.T, np.sqrt(row**2 @ (weights**2).T).max()
    worst = np.abs(h.to_np(got).astype(np.float64) - expected).max()
    assert worst <= 2 * UNIT[dtype] * max(np.abs(expected).max(), like), worst


def long_rows(rng, form, dtype, smaller=1):
    """One row by matrices of four bits, in each way that joins; gives the kernels that ran."""
    k, group, rows = form
    k = (k - 4096) + 4096 // smaller
    how = {"group_size": group, "bits": 4}
    mats = [Matrix(rng, n, k, dtype, **how) for n in rows]
    x, w = normal(rng, 1, 1, k, dtype=dtype, scale=3.0), normal(rng, k, dtype=dtype)
    alone, ran = h.kernels(lambda: [m(x) for m in mats[:1]])
    near(alone[0], mats[0], h.to_np(x).astype(np.float64), dtype)

    def products():
        y = mx.fast.rms_norm(x, w, 1e-5)
        return [m(y) for m in mats]

    out, more = h.kernels(products)
    assert sum(more.values()) == 1, more
    ran |= more
    row = rms(h.to_np(x), h.to_np(w), dtype)
    for got, m in zip([*out, *apart(products)], [*mats, *mats], strict=True):
        near(got, m, row, dtype)
    res = normal(rng, 1, 1, rows[0], dtype=dtype)
    total, more = h.kernels(lambda: res + mats[0](x))
    assert sum(more.values()) == 1, more
    assert np.array_equal(h.to_np(total), h.to_np(apart(lambda: res + mats[0](x))))
    ran |= more
    gate, up = (Matrix(rng, rows[1], k, dtype, **how) for _ in range(2))

    def unit():
        y = mx.fast.rms_norm(x, w, 1e-5)
        return swiglu(gate(y), up(y))

    out, more = h.kernels(unit)
    assert sum(more.values()) == 1, more
    ran |= more
    g, u = (rounded(row @ sum(meant(m)).T, dtype) for m in (gate, up))
    close(out, gated(g, u), dtype, units=4)
    return ran


@pytest.mark.parametrize("form", LONG_ROWS, ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_long_rows_of_four_bits(rng, dtype, form):
    long_rows(rng, form, dtype)


def far_values(rng, dtype):
    """Values far apart, and none that is a number: each row says so, and only there."""
    m = Matrix(rng, 32, 1024, dtype)
    v = rng.standard_normal((1, 1024)).astype(np.float32)
    tall = 1e4 if dtype == "float16" else 1e30
    v[0, ::64] *= tall / 4
    v[0, 128:192] = 0
    v[0, 256:320] *= 1e-4 if dtype == "float16" else 1e-30
    x = mx.array(v).astype(h.mx_dtype(dtype))
    values = h.to_np(x).astype(np.float64)
    weights, biases = meant(m)
    expected = values @ (weights + biases).T
    scale = np.abs(values) @ (np.abs(weights) + np.abs(biases)).T
    got = h.to_np(m(x).astype(mx.float32)).astype(np.float64)
    inside = np.abs(expected) < (6e4 if dtype == "float16" else 1e38)
    worst = np.abs(got - expected) - UNIT[dtype] * np.abs(expected) - 2.0**-16 * scale
    assert (worst[inside] <= 0).all()
    v[0, 700] = np.nan
    assert np.isnan(h.to_np(m(mx.array(v).astype(h.mx_dtype(dtype))).astype(mx.float32))).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_values_far_apart(rng, dtype):
    far_values(rng, dtype)


def large_factors(rng, k):
    """Scales as large as the dtype goes, and an infinite one in the last group of a row."""
    group, rows = 64, 24
    codes = rng.integers(1, 16, (rows, k), dtype=np.uint32)
    shifts = 4 * np.arange(8, dtype=np.uint32)
    words = (codes.reshape(rows, -1, 8) << shifts).sum(-1, dtype=np.uint32)
    scales = np.full((rows, k // group), 3e38, np.float32)
    scales[3, -1] = np.inf
    x, scales = (
        mx.array(v).astype(mx.bfloat16)
        for v in (1e-6 * np.abs(rng.standard_normal((1, k))).astype(np.float32), scales)
    )
    parts = mx.array(words), scales, mx.zeros_like(scales)
    got = h.to_np(mx.quantized_matmul(x, *parts, group_size=group, bits=4)).astype(np.float64)[0]
    weights = codes * np.repeat(h.to_np(scales).astype(np.float64), group, 1)
    expected = (h.to_np(x).astype(np.float64) @ weights.T)[0]
    assert got[3] == expected[3] == np.inf
    rest = np.arange(rows) != 3
    np.testing.assert_allclose(got[rest], expected[rest], rtol=2 * UNIT["bfloat16"])


@pytest.mark.parametrize("k", [4096 + 3 * 64, 4096 + 2 * 64])
def test_large_factors(rng, k):
    large_factors(rng, k)


def test_long_rows_by_ordinary_arithmetic():
    """The kernel of one row on cooperative matrices where there are none; rows are shorter."""
    code = f"""
    import sys
    sys.path.insert(0, {os.path.dirname(__file__)!r})
    import mlx.core as mx
    import numpy as np
    mx.set_default_device(mx.gpu)
    import test_eval_joined as t
    rng = np.random.default_rng(21)
    for k in (1024 + 3 * 64, 1024 + 4 * 64):
        t.large_factors(rng, k)
    for dtype, forms in (("float16", t.LONG_ROWS[1:2]), ("bfloat16", t.LONG_ROWS[2:])):
        t.far_values(rng, dtype)
        for form in forms:
            ran = t.long_rows(rng, form, dtype, smaller=4)
            assert all("qmm_row_" in k for k in ran if "qmm" in k), ran
            print(len(ran))
    """
    ran = h.python(code, env={"MLX_VK_QMM": "plain"}, timeout=280).stdout
    assert ran.split() == ["4"] * 3


def test_more_workgroups_than_a_grid_may_have():
    """A layout with a workgroup for each row of codes, of which some devices take 65535 at once."""
    code = f"""
    import sys
    sys.path.insert(0, {os.path.dirname(__file__)!r})
    import mlx.core as mx
    import numpy as np
    mx.set_default_device(mx.gpu)
    import test_eval_joined as t
    rng = np.random.default_rng(22)
    m = t.Matrix(rng, 65544, 32, group_size=32, bits=4)
    x, res = t.normal(rng, 1, 32), t.normal(rng, 1, 65544)
    out, ran = t.h.kernels(lambda: res + m(x))
    t.close(out, t.h.to_np(res) + m.of(t.h.to_np(x)), "float32", units=8)
    print(*ran)
    """
    ran = h.python(code, env={"MLX_VK_QMM": "256x1"}, timeout=280).stdout.split()
    assert len(ran) == 1 and ran[0].startswith("qmm_joined_256x1"), ran


def test_rows_longer_than_a_workgroup_holds(rng):
    for k in (4096, 4160, 9216):
        mats = [Matrix(rng, 5, k) for _ in range(2)]
        x, w = normal(rng, 1, k), normal(rng, k)
        y = mx.fast.rms_norm(x, w, 1e-5)
        for got, m in zip([mats[0](y), mats[1](y)], mats, strict=True):
            close(got, m.of(rms(h.to_np(x), h.to_np(w))), "float32", units=8)


def test_operands_that_lie_anywhere(rng):
    m = Matrix(rng, 24, 64)
    wide, weights = normal(rng, 64, 3), normal(rng, 130)
    x, w = wide[:, 1].reshape(1, 64), weights[1:129:2]
    res = normal(rng, 24, 2)[:, 0].reshape(1, 24)
    out = res + m(mx.fast.rms_norm(x, w, 1e-5))
    close(out, h.to_np(res) + m.of(rms(h.to_np(x), h.to_np(w))), "float32")
    one = normal(rng, 65)[1:].reshape(1, 64)
    close(m(mx.fast.rms_norm(one, w, 1e-5)), m.of(rms(h.to_np(one), h.to_np(w))), "float32")


@pytest.mark.parametrize("dtype", list(UNIT))
@pytest.mark.parametrize("columns", [64, 320, 2048, 8192])
def test_a_normalised_row_that_others_read_is_stored_by_the_product(rng, dtype, columns):
    """As a router does, before experts read the row too; also where the others come first."""
    m = Matrix(rng, 40, columns, dtype)
    x, w = normal(rng, 1, 1, columns, dtype=dtype), normal(rng, columns, dtype=dtype)

    def both():
        y = mx.fast.rms_norm(x, w, 1e-5)
        return [mx.expand_dims(y, 0) * 2, m(y), mx.abs(y)]

    (twice, product, size), ran = h.kernels(both)
    assert sum(ran.values()) == 3, ran
    assert any("norm_kept" in name or "chain" in name for name in ran), ran
    row = rms(h.to_np(x), h.to_np(w), dtype)
    close(twice, row[None] * 2, dtype)
    close(size, np.abs(row), dtype)
    close(product, m.of(row), dtype)
    for got, want in zip(both(), apart(both), strict=True):
        close(got, h.to_np(want).astype(np.float64), dtype)


def test_arrays_in_between_that_are_held_are_computed(rng):
    a, b = Matrix(rng, 64, 64), Matrix(rng, 64, 64)
    x, w, res = normal(rng, 1, 64), normal(rng, 64), normal(rng, 1, 64)
    y = mx.fast.rms_norm(x, w, 1e-5)
    p, q = a(y), b(y)
    total = res + p
    both = swiglu(p, q)
    mx.eval(total, both, y)
    row = rms(h.to_np(x), h.to_np(w))
    close(y, row, "float32")
    close(p, a.of(row), "float32")
    close(total, h.to_np(res) + a.of(row), "float32")
    # One that is asked for later is computed then.
    y = mx.fast.rms_norm(x, w, 1e-5)
    p = a(y)
    kept = [y, p]
    total = res + p
    del y, p
    mx.eval(total)
    close(kept[1], a.of(row), "float32")
    close(kept[0], row, "float32")


def test_a_product_used_twice_is_not_taken_in(rng):
    m, x = Matrix(rng, 32, 64), normal(rng, 1, 64)
    expected = m.of(h.to_np(x))
    p = m(x)
    close(p + mx.exp(p), expected + np.exp(expected), "float32", units=8)
    close(p * p, expected**2, "float32", units=8)
    one = m(x)
    close(one + one, 2 * expected, "float32")


def test_shapes_that_broadcast_and_other_dtypes_stay_apart(rng):
    m, x = Matrix(rng, 32, 64), normal(rng, 1, 64)
    expected = m.of(h.to_np(x))
    rows = normal(rng, 5, 32)
    close(rows + m(x), h.to_np(rows) + expected, "float32")
    bias = normal(rng, 32)
    close(m(x) + bias, expected + h.to_np(bias), "float32")
    assert h.to_np(m(x) > 0).tolist() == (expected > 0).tolist()
    close(m(x) + normal(rng, 1, 32, dtype="float16") * 0, expected, "float32")
    few = normal(rng, 3, 64)
    close(few[:, :1] * 0 + m(few), m.of(h.to_np(few)), "float32")


def test_other_normalisations_stay_apart(rng):
    m, x, w = Matrix(rng, 32, 64), normal(rng, 1, 64), normal(rng, 64)
    v = h.to_np(x).astype(np.float64)
    v = v - v.mean()
    close(m(mx.fast.layer_norm(x, None, None, 1e-5)), m.of(rms(v, np.ones(64))), "float32")
    close(m(mx.fast.layer_norm(x, w, None, 1e-5)), m.of(rms(v, h.to_np(w))), "float32")
    close(m(mx.fast.rms_norm(x, None, 1e-5)), m.of(rms(h.to_np(x), np.ones(64))), "float32")


def turned(x, start, traditional=False, base=10000.0, scale=1.0, freqs=None):
    """Rotary embedding of (batch, heads, positions, features); a start for each batch."""
    x = x.astype(np.float64)
    half = x.shape[-1] // 2
    inverse = base ** (-np.arange(half) / half) if freqs is None else 1 / freqs.astype(np.float64)
    start = np.broadcast_to(np.asarray(start, np.float64), (x.shape[0],))
    angles = (start[:, None] + np.arange(x.shape[2])) * scale
    angles = angles[:, None, :, None] * inverse
    c, s = np.cos(angles), np.sin(angles)
    y = np.empty_like(x)
    pair = (
        (slice(0, None, 2), slice(1, None, 2))
        if traditional
        else (slice(0, half), slice(half, None))
    )
    a, b = (x[..., p] for p in pair)
    y[..., pair[0]], y[..., pair[1]] = a * c - b * s, a * s + b * c
    return y


@pytest.mark.parametrize("dtype", list(UNIT))
@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("traditional", [True, False])
def test_queries_keys_and_values_reach_their_places_in_one_kernel(
    rng, dtype, normalised, traditional
):
    batch, length, past = 2, 3, 4
    head = 80 if traditional else 128
    q, k, v = (normal(rng, batch, length, n, head, dtype=dtype) for n in (6, 2, 2))
    wq, wk = normal(rng, head, dtype=dtype), normal(rng, head, dtype=dtype)
    keys, values = (normal(rng, batch, 2, 16, head, dtype=dtype) for _ in range(2))
    before = [h.to_np(keys), h.to_np(values)]
    sources = [h.to_np(a) for a in (q, k, v)]
    weights = [h.to_np(a) for a in (wq, wk)]
    caches = [keys * 1, values * 1]  # nobody else looks at their memory
    mx.eval(caches)

    def step():
        a, b = q, k
        if normalised:
            a, b = mx.fast.rms_norm(a, wq, 1e-5), mx.fast.rms_norm(b, wk, 1e-5)
        a, b, c = (y.transpose(0, 2, 1, 3) for y in (a, b, v))
        turn = {"traditional": traditional, "base": 10000.0, "scale": 1.0, "offset": past}
        a, b = mx.fast.rope(a, head, **turn), mx.fast.rope(b, head, **turn)
        caches[0][..., past : past + length, :] = b
        caches[1][..., past : past + length, :] = c
        return a, caches[0][..., : past + length, :], caches[1][..., : past + length, :]

    (a, b, c), ran = h.kernels(step)
    assert sum(ran.values()) == 1, ran
    for one, other in zip((a, b, c), apart(step), strict=True):
        assert np.array_equal(h.to_np(one), h.to_np(other))
    rows = [rms(x, w, dtype) if normalised else x for x, w in zip(sources, weights, strict=False)]
    expected = [turned(x.transpose(0, 2, 1, 3), past, traditional) for x in rows]
    close(a, expected[0], dtype)
    close(b[:, :, past:], expected[1], dtype)
    assert np.array_equal(h.to_np(c)[:, :, past:], sources[2].transpose(0, 2, 1, 3))
    for cache, old in zip(caches, before, strict=True):
        new = h.to_np(cache)
        assert np.array_equal(new[:, :, :past], old[:, :, :past])
        assert np.array_equal(new[:, :, past + length :], old[:, :, past + length :])


def test_offsets_and_wavelengths_in_arrays(rng):
    q, k = normal(rng, 2, 4, 3, 32), normal(rng, 2, 1, 3, 32)
    offsets, freqs = mx.array([5, 1000]), mx.array(rng.uniform(1, 500, 16).astype(np.float32))
    mx.eval(offsets, freqs)

    def turn(x, **how):
        return mx.fast.rope(x, 32, traditional=False, scale=0.5, **how)

    for how, kept in (
        ({"base": 500.0, "offset": offsets}, {"base": 500.0, "start": [5, 1000]}),
        ({"base": None, "freqs": freqs, "offset": 7}, {"freqs": h.to_np(freqs), "start": 7}),
    ):
        (a, b), ran = h.kernels(lambda how=how: (turn(q, **how), turn(k, **how)))
        assert sum(ran.values()) == 1, ran
        close(a, turned(h.to_np(q), scale=0.5, **kept), "float32", units=40)
        close(b, turned(h.to_np(k), scale=0.5, **kept), "float32", units=40)


def test_rotations_that_differ_or_follow_each_other(rng):
    x = normal(rng, 1, 2, 3, 16)

    def turn(y, offset, dims=16):
        return mx.fast.rope(y, dims, traditional=False, base=10000.0, scale=1.0, offset=offset)

    v = h.to_np(x)
    a, b = turn(x, 1), turn(x, 2)
    mx.eval(a, b)
    close(a, turned(v, 1), "float32")
    close(b, turned(v, 2), "float32")
    close(turn(turn(x, 1), 1), turned(turned(v, 1), 1), "float32")
    part = turn(x, 3, dims=8)
    assert np.array_equal(h.to_np(part)[..., 8:], v[..., 8:])
    close(part[..., :8], turned(v[..., :8], 3), "float32")


def test_caches_that_others_hold_or_that_are_one(rng):
    k, v = normal(rng, 1, 2, 1, 16), normal(rng, 1, 2, 1, 16)
    cache = normal(rng, 1, 2, 8, 16)
    old = h.to_np(cache)

    def turn(y, offset=3):
        return mx.fast.rope(y, 16, traditional=False, base=10000.0, scale=1.0, offset=offset)

    # Both begin from the same array, which stays as it was.
    first, second = cache[...], cache[...]
    first[..., 3:4, :] = turn(k)
    second[..., 3:4, :] = v
    mx.eval(first, second)
    assert np.array_equal(h.to_np(cache), old)
    expected = old.copy()
    expected[..., 3:4, :] = h.to_np(v)
    assert np.array_equal(h.to_np(second), expected)
    expected[..., 3:4, :] = turned(h.to_np(k), 3)
    close(first, expected, "float32")
    # One after the other in one array.
    both = mx.array(old)
    both[..., 3:4, :] = turn(k)
    both[..., 3:4, :] = v
    expected[..., 3:4, :] = h.to_np(v)
    assert np.array_equal(h.to_np(both), expected)
    # What is written is read in between.
    a = mx.array(old)
    rows = turn(k)
    a[..., 0:1, :] = rows
    b = mx.array(old)
    b[..., 0:1, :] = v + a[..., 0:1, :]
    mx.eval(a, b)
    close(b[..., 0:1, :], h.to_np(v) + turned(h.to_np(k), 3), "float32")
    # Every second position, from the end.
    c = mx.array(old)
    c[..., 6::-2, :] = mx.concatenate([turn(k), turn(k, 4), turn(k, 5), turn(k, 6)], axis=2)
    expected = old.copy()
    expected[..., 6::-2, :] = np.concatenate([turned(h.to_np(k), o) for o in (3, 4, 5, 6)], axis=2)
    close(c, expected, "float32")
    d = mx.array(old)
    d[..., ::8, :] = turn(k)
    expected = old.copy()
    expected[..., ::8, :] = turned(h.to_np(k), 3)
    close(d, expected, "float32")


def test_derivatives_pass(rng):
    m, w = Matrix(rng, 64, 64), normal(rng, 64)
    x = normal(rng, 1, 64)

    def loss(x, w):
        return (x + m(mx.fast.rms_norm(x, w, 1e-5))).square().sum()

    value, grads = mx.value_and_grad(loss, argnums=(0, 1))(x, w)
    with mx.stream(mx.cpu):
        expected, others = mx.value_and_grad(loss, argnums=(0, 1))(x, w)
    assert np.allclose(h.to_np(value), h.to_np(expected), rtol=1e-5)
    for a, b in zip(grads, others, strict=True):
        assert np.allclose(h.to_np(a), h.to_np(b), rtol=1e-4, atol=1e-4)


def gelu(x):
    """What `nn.gelu_approx` gives."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize("dtype", list(UNIT))
@pytest.mark.parametrize("k", [64, 1024])
def test_a_unit_of_two_steps(rng, dtype, k):
    """One product goes through an activation before it meets the other one."""
    a, b = Matrix(rng, 96, k, dtype), Matrix(rng, 96, k, dtype)
    x, w = normal(rng, 1, 1, k, dtype=dtype), normal(rng, k, dtype=dtype)
    mx.eval(nn.gelu_approx(a(x)))
    row = rms(h.to_np(x)[0], h.to_np(w), dtype)
    p, q = (rounded(m.of(row), dtype).astype(np.float64) for m in (a, b))
    for f, expected in (
        (lambda y: nn.gelu_approx(a(y)) * b(y), gelu(p) * q),
        (lambda y: b(y) * mx.tanh(a(y)), np.tanh(p) * q),
        (lambda y: mx.tanh(a(y)) - b(y), np.tanh(p) - q),
    ):
        got, ran = h.kernels(lambda f=f: f(mx.fast.rms_norm(x, w, 1e-5)))
        assert sum(ran.values()) == 1, ran
        # As many roundings as the functions have steps.
        close(got[0], expected, dtype, 8)


@pytest.mark.parametrize("how", MODES, ids=lambda m: m.get("mode", f"q{m['bits']}"))
@pytest.mark.parametrize("dtype", list(UNIT))
def test_products_with_biases(rng, dtype, how):
    sizes = (96, 32, 7)
    mats = [Matrix(rng, n, 192, dtype, **how) for n in sizes]
    biases = [normal(rng, n, dtype=dtype) for n in sizes]
    x, w = normal(rng, 1, 1, 192, dtype=dtype), normal(rng, 192, dtype=dtype)
    row = rms(h.to_np(x)[0], h.to_np(w), dtype)
    plain = h.to_np(x)[0].astype(np.float64)

    def products(y, n=3):
        return [m(y) + b for m, b in list(zip(mats, biases, strict=True))[:n]]

    def check(got, y):
        for a, m, b in zip(got, mats, biases, strict=False):
            p = rounded(m.of(y), dtype).astype(np.float64)
            close(a[0], rounded(p + h.to_np(b), dtype), dtype, 3)

    normed = lambda: mx.fast.rms_norm(x, w, 1e-5)  # noqa: E731
    got, ran = h.kernels(lambda: products(normed()))
    assert sum(ran.values()) == 1, ran
    check(got, row)
    for a, b in zip(got, h.apart(lambda: products(normed()), "row_biases"), strict=True):
        close(a, h.to_np(b).astype(np.float64), dtype, 1)
    for n in (1, 2):
        got, ran = h.kernels(lambda n=n: products(x, n))
        assert sum(ran.values()) == 1, ran
        check(got, plain)
    # Rows that somebody holds, more rows, biases that lie apart or were just made.
    kept = normed()
    check([*products(kept), kept][:3], row)
    rows = mx.concatenate([x, x], 1)
    check([a[:, :1] for a in products(rows)], plain)
    apart = [mx.stack([b, b], 1)[:, 0] for b in biases]
    check([m(x) + b for m, b in zip(mats, apart, strict=True)], plain)
    made = [mx.negative(mx.negative(b)) for b in biases]
    check([m(x) + b for m, b in zip(mats, made, strict=True)], plain)
    # What is added to one of them is another one of them, or its sum.
    three = [Matrix(rng, 192, 192, dtype, **how) for _ in range(3)]
    p, q, r = (rounded(m.of(plain), dtype).astype(np.float64) for m in three)
    for _ in range(4):
        a, b, c = (m(x) for m in three)
        first = a + w
        got = [b + first, c + w, first]
        del a, b, c, first
        mx.eval(got)
        expected = [p + q + h.to_np(w), r + h.to_np(w), p + h.to_np(w)]
        for u, e in zip(got, expected, strict=True):
            close(u[0], e, dtype, 3)
        a, b, c = (m(x) for m in three)
        both, last = a + b, c + w
        del a, b, c
        mx.eval(both, last)
        close(both[0], p + q, dtype, 3)
        close(last[0], r + h.to_np(w), dtype, 3)
    res = normal(rng, 1, 1, sizes[0], dtype=dtype)
    got, ran = h.kernels(lambda: res + (mats[0](x) + biases[0]))
    assert sum(ran.values()) == 1, ran
    p = rounded(mats[0].of(plain), dtype).astype(np.float64)
    p = rounded(p + h.to_np(biases[0]), dtype).astype(np.float64)
    close(got[0], p + h.to_np(res)[0], dtype, 3)


@pytest.mark.parametrize("dtype", list(UNIT))
def test_a_product_times_a_number(rng, dtype):
    a = Matrix(rng, 64, 64, dtype)
    x, res = normal(rng, 1, 1, 64, dtype=dtype), normal(rng, 1, 1, 64, dtype=dtype)
    p = rounded(a.of(h.to_np(x).astype(np.float64)), dtype).astype(np.float64)
    got, ran = h.kernels(lambda: res + a(x) * 0.25)
    assert sum(ran.values()) == 1, ran
    close(got, h.to_np(res) + p * 0.25, dtype, 3)
    # Numbers that change come from arrays in the end.
    for n in range(24):
        close(res - a(x) * (0.5 + n), h.to_np(res) - p * (0.5 + n), dtype, 4)


@pytest.mark.parametrize("dtype", list(UNIT))
@pytest.mark.parametrize(
    "shape", [(1, 1, 64), (3, 77), (2, 5, 1024), (1, 20000), (4, 2056)], ids=str
)
def test_normalised_rows_that_are_added(rng, shape, dtype):
    x, y = (normal(rng, *shape, dtype=dtype) for _ in range(2))
    w, b = (normal(rng, shape[-1], dtype=dtype) for _ in range(2))
    rows = rms(h.to_np(x), h.to_np(w), dtype)
    got, ran = h.kernels(lambda: y + mx.fast.rms_norm(x, w, 1e-5))
    assert sum(ran.values()) == 1, ran
    close(got, h.to_np(y) + rows, dtype, 2)
    apart = h.apart(lambda: y + mx.fast.rms_norm(x, w, 1e-5), "norm_added")
    assert np.array_equal(h.to_np(got), h.to_np(apart))
    v = h.to_np(x).astype(np.float64)
    v = (v - v.mean(-1, keepdims=True)) / np.sqrt(v.var(-1, keepdims=True) + 1e-5)
    layer = rounded(v * h.to_np(w) + h.to_np(b), dtype)
    close(mx.fast.layer_norm(x, w, b, 1e-5) + y, layer + h.to_np(y), dtype, 2)
    # What is added lies any way, and is made behind the rows.
    turned = mx.swapaxes(mx.contiguous(mx.swapaxes(y, -1, -2)), -1, -2)
    mx.eval(turned)
    close(mx.fast.rms_norm(x, w, 1e-5) + turned, h.to_np(y) + rows, dtype, 2)
    late = mx.fast.rms_norm(x, w, 1e-5) + mx.negative(mx.abs(mx.abs(y)))
    close(late, rows - np.abs(h.to_np(y)), dtype, 2)
    close(mx.fast.rms_norm(x, w, 1e-5) + y[:1], rows + h.to_np(y)[:1], dtype, 2)


@pytest.mark.parametrize("dim", [64, 1024])
@pytest.mark.parametrize("held", [False, True])
def test_what_follows_products_reads_the_row_they_normalise(dim, held):
    rng = np.random.default_rng(dim + held)
    a, b = (Matrix(rng, dim, dim) for _ in range(2))
    weight = normal(rng, dim)
    for _ in range(20):
        x = normal(rng, 1, 1, dim)
        row = mx.fast.rms_norm(x, weight, 1e-5)
        got = [row + a(row), swiglu(a(row), b(row)) * row] + [row] * held
        mx.eval(got)
        r = h.to_np(x).astype(np.float64)
        r = r / np.sqrt((r * r).mean() + 1e-5) * h.to_np(weight)
        p, q = a.of(r), b.of(r)
        expected = [r + p, p / (1 + np.exp(-p)) * q * r, r]
        for e, g in zip(expected[: len(got)], got, strict=True):
            assert np.allclose(h.to_np(g), e, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_give_what_the_cpu_gives(seed):
    rng = np.random.default_rng(seed)
    mats = [Matrix(rng, 64, 64) for _ in range(3)]
    weights = [normal(rng, 64), normal(rng, 16)]
    start = [normal(rng, 1, 1, 64) for _ in range(2)]
    base = normal(rng, 1, 4, 4, 16)
    choices = rng.integers(0, 8, 24)
    picks = rng.integers(0, 1 << 30, (24, 3))

    def program():
        rows, caches = list(start), [base[...], base[...]]
        for what, (i, j, k) in zip(choices, picks, strict=True):
            x, y = rows[-1 - i % min(len(rows), 4)], rows[-1 - j % min(len(rows), 4)]
            m = mats[k % 3]
            if what == 0:
                rows.append(mx.fast.rms_norm(x, weights[0], 1e-5))
            elif what == 1:
                rows.append(y + m(x))
            elif what == 2:
                rows.append(swiglu(m(x), mats[j % 3](x)))
            elif what == 3:
                rows += [m(x), mats[j % 3](x)]
            elif what == 4:
                rows.append(mx.tanh(x) + mats[i % 3](mx.fast.rms_norm(y, weights[0], 1e-5)))
            else:
                turns = {"traditional": False, "base": 100.0, "scale": 1.0, "offset": int(k % 3)}
                a, b = (z.reshape(1, 1, 4, 16) for z in (x, y))
                if what == 5:
                    a, b = (mx.fast.rms_norm(z, weights[1], 1e-5) for z in (a, b))
                a, b = (mx.fast.rope(z.transpose(0, 2, 1, 3), 16, **turns) for z in (a, b))
                at = int(i % 4)
                caches[0][..., at : at + 1, :] = b
                if what == 6:
                    caches[1][..., at : at + 1, :] = y.reshape(1, 4, 1, 16)
                rows.append(a.reshape(1, 1, 64) + caches[k % 2][..., at, :].reshape(1, 1, 64))
        return [mx.tanh(r) for r in rows[-3:]] + caches

    got = program()
    mx.eval(got)
    with mx.stream(mx.cpu):
        expected = program()
        mx.eval(expected)
    for a, b in zip(got, expected, strict=True):
        scale = max(1.0, np.abs(h.to_np(b)).max())
        assert np.allclose(h.to_np(a) / scale, h.to_np(b) / scale, atol=2e-4), seed
