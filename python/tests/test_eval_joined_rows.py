"""Few rows by quantised matrices and what follows, as one kernel on cooperative matrices: values,
and what must keep them apart. Where there are no such matrices, ordinary arithmetic in their
place."""

import os

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
from test_eval_joined import UNIT, Matrix, apart, close, gated, normal, rms, rounded, swiglu

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.validation,
    pytest.mark.usefixtures("none_disabled"),
]

MODES = [
    {"group_size": 64, "bits": 4},
    {"group_size": 32, "bits": 4},
    {"group_size": 128, "bits": 4},
    {"group_size": 32, "bits": 8},
    {"group_size": 64, "bits": 3},
    {"group_size": 32, "bits": 4, "mode": "mxfp4"},
    {"group_size": 32, "bits": 8, "mode": "mxfp8"},
]
#: Shapes of x before the last axis, and rows of codes: ends inside tiles, one and two
#: matrices side by side, and columns that several groups share.
FORMS = [((2, 1), (40, 24, 7)), ((8, 1), (64, 33, 16)), ((13,), (17, 48, 3))]
FORMS += [((4, 4), (16, 32, 1)), ((32, 1), (80, 16, 24)), ((1, 29), (5, 5, 5))]


def steps(f):
    """What `f` gives, and the kernels that ran, without those that probe how matrices lie, and what
    zeroes the counters of a stream once."""
    out, ran = h.kernels(f)
    return out, {k: n for k, n in ran.items() if "fragment_probe" not in k and k != "fill"}


def few_rows(rng, how, form, dtype, k=384):
    """Rows by matrices in each way that joins; gives the kernels that ran."""
    shape, rows = form
    mats = [Matrix(rng, n, k, dtype, **how) for n in rows]
    x = normal(rng, *shape, k, dtype=dtype)
    row = h.to_np(x).astype(np.float64)
    units = 2 if dtype == "float16" else 3

    out, ran = steps(lambda: [p(x) for p in mats])
    assert sum(ran.values()) == 1, ran
    for got, p in zip(out, mats, strict=True):
        assert got.shape == (*shape, len(p.values))
        close(got, p.of(row), dtype, units)

    res = normal(rng, *shape, rows[0], dtype=dtype)
    for f in (
        lambda: res + mats[0](x),
        lambda: mx.maximum(mats[0](x), res),
        lambda: mx.compile(lambda p, r: mx.tanh(p) * r + r)(mats[0](x), res),
    ):
        got, more = steps(f)
        assert sum(more.values()) == 1, more
        ran |= more
        assert np.array_equal(h.to_np(got), h.to_np(apart(f)))
    expected = h.to_np(res) + rounded(mats[0].of(row), dtype)
    close(res + mats[0](x), expected, dtype, units)

    gate, up = (Matrix(rng, rows[1], k, dtype, **how) for _ in range(2))
    got, more = steps(lambda: swiglu(gate(x), up(x)))
    assert sum(more.values()) == 1, more
    ran |= more
    g, u = (rounded(p.of(row), dtype).astype(np.float64) for p in (gate, up))
    close(got, gated(g, u), dtype, units=4)
    return ran


def kernel(how, form, k):
    """The kernel on cooperative matrices that such rows take: short ones do so in tests alone."""
    held = how.get("mode") is None and how["bits"] == 4 and how["group_size"] >= 64
    long = k >= 2048 or os.environ.get("MLX_VK_QMM") == "plain"
    return "qmm_held_" if held and long and 3 <= np.prod(form[0]) <= 8 else "qmm_coop_joined_"


def all_of(rng, how, dtype, forms=FORMS, k=384):
    for form in forms:
        ran = few_rows(rng, how, form, dtype, k)
        # GPUs that take PTX have another kernel for whole sixteens of rows of codes.
        names = (kernel(how, form, k), "qmm_few_rows_")
        assert all(one.startswith(names) for one in ran if "qmm" in one), ran


def apart_where_they_must(rng):
    """Rows that differ, broadcast arrays, values that others hold, and rows that are not rows."""
    a, b = Matrix(rng, 24, 128, "bfloat16"), Matrix(rng, 24, 128, "bfloat16")
    x, y = (normal(rng, 4, 1, 128, dtype="bfloat16") for _ in range(2))
    _, ran = steps(lambda: [a(x), b(y)])
    assert sum(n for k, n in ran.items() if "qmm" in k) == 2, ran
    row = normal(rng, 24, dtype="bfloat16")
    got, ran = steps(lambda: a(x) + row)
    assert sum(ran.values()) == 2, ran
    close(got, rounded(a.of(h.to_np(x)), "bfloat16") + h.to_np(row), "bfloat16")
    p = a(x)
    total = p + p
    mx.eval(total)
    close(total, 2 * a.of(h.to_np(x)), "bfloat16")
    close(p, a.of(h.to_np(x)), "bfloat16")
    # Rows with others between them are copied first.
    wide = normal(rng, 8, 1, 256, dtype="bfloat16")
    z = wide[::2, :, 64:192]
    res = normal(rng, 4, 1, 24, dtype="bfloat16")
    close(res + a(z), h.to_np(res) + rounded(a.of(h.to_np(z)), "bfloat16"), "bfloat16")
    # More rows than two matrices have columns.
    tall = normal(rng, 33, 128, dtype="bfloat16")
    for got, m in zip([a(tall), b(tall)], [a, b], strict=True):
        close(got, m.of(h.to_np(tall)), "bfloat16", units=3)
    # Each row's own NaN.
    v = h.to_np(normal(rng, 4, 128, dtype="bfloat16")).copy()
    v[2, 5] = np.nan
    out = h.to_np(a(mx.array(v).astype(mx.bfloat16)) + res[:, 0].astype(mx.bfloat16))
    assert np.isnan(out[2]).all() and np.isfinite(np.delete(out, 2, 0)).all()


def in_a_process(body, timeout=280):
    code = f"""
    import sys
    sys.path.insert(0, {os.path.dirname(__file__)!r})
    import mlx.core as mx
    import numpy as np
    mx.set_default_device(mx.gpu)
    import test_eval_joined_rows as t
    rng = np.random.default_rng(31)
    {body}
    """
    h.python(code, env={"MLX_VK_QMM": "plain"}, timeout=timeout)


def multiplies(rng):
    """Whether the device has the matrices that the kernel needs."""
    m = Matrix(rng, 16, 64, "float16")
    x, res = normal(rng, 8, 64, dtype="float16"), normal(rng, 8, 16, dtype="float16")
    return any("qmm_coop_joined" in k for k in steps(lambda: res + m(x))[1])


@pytest.mark.parametrize(
    "how", MODES, ids=lambda m: f"{m.get('mode', 'q')}{m['bits']}g{m['group_size']}"
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_few_rows_are_one_kernel(rng, dtype, how):
    if multiplies(rng):
        all_of(rng, how, dtype)
        return
    # Compiling takes a CPU long: each form in turn, all of them by the first mode.
    i = 2 * MODES.index(how) + (dtype == "bfloat16")
    forms = FORMS if i == 1 else [FORMS[i % len(FORMS)]]
    in_a_process(f"t.all_of(rng, {how!r}, {dtype!r}, {forms!r})")


#: Rows that one workgroup holds, whose last part is not whole, and that several share, to an odd
#: number of groups; ends inside and before 16 rows of codes.
HELD = [((8, 1), (40, 33, 7)), ((3,), (17, 48, 3)), ((1, 5), (70, 5, 16))]
LONG = {64: [2048, 4096 + 3 * 64, 12288], 128: [2560, 4096 + 128, 9728]}
SHORT = {64: [64, 448, 17 * 64], 128: [128, 640, 9 * 128]}


@pytest.mark.parametrize("group", [64, 128])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rows_that_stay_in_registers(rng, dtype, group):
    how = {"group_size": group, "bits": 4}
    if multiplies(rng):
        for form in HELD:
            for k in LONG[group]:
                all_of(rng, how, dtype, [form], k)
        return
    cases = list(zip(HELD, SHORT[group], strict=True))
    in_a_process(f"[t.all_of(rng, {how!r}, {dtype!r}, [f], k) for f, k in {cases!r}]")


def test_what_stays_apart(rng):
    if multiplies(rng):
        apart_where_they_must(rng)
    else:
        in_a_process("t.apart_where_they_must(rng)")


def infinities(rng):
    """They reach the results of their row alone, by the sign of the weight: not NaN because codes
    and biases are multiplied apart. So do sums of codes that are no float32."""
    for how, m, k in (
        ({"group_size": 64, "bits": 4}, 4, 2048),
        ({"group_size": 64, "bits": 4}, 4, 192),
        ({"group_size": 32, "bits": 8}, 9, 192),
        ({"group_size": 64, "bits": 4}, 2, 4096 + 192),
    ):
        for dtype in ("float16", "bfloat16"):
            p = Matrix(rng, 40, k, dtype, **how)
            x, res = normal(rng, m, k, dtype=dtype), normal(rng, m, 40, dtype=dtype)
            plain = h.to_np(res + p(x))
            for special in (np.inf, -np.inf, np.nan):
                v = h.to_np(x).copy()
                v[-1, 7] = special
                got = h.to_np(res + p(h.from_np(v, dtype)))
                assert np.array_equal(got[:-1], plain[:-1])
                sure = np.abs(p.values[:, 7]) > 1e-3 * np.abs(p.values).max()
                np.testing.assert_array_equal(
                    got[-1][sure], special * np.sign(p.values[sure, 7]).astype(np.float32)
                )
        # bfloat16 has the range of float32: 15 times such numbers are beyond it, a tenth is not.
        v = np.zeros((m, k), np.float32)
        v[-1, 3], v[-1, k - 1] = 3e38, -3e38
        got = h.to_np(p(h.from_np(v, "bfloat16"))).astype(np.float64)
        want = p.of(h.to_np(h.from_np(v, "bfloat16")).astype(np.float64))
        large = np.abs(want) < 1e38
        np.testing.assert_allclose(got[large], want[large], rtol=0, atol=1e36)


def test_infinities_and_nan(rng):
    if multiplies(rng):
        infinities(rng)
    else:
        in_a_process("t.infinities(rng)")


@pytest.mark.parametrize("dtype", list(UNIT))
def test_rows_on_any_device(rng, dtype):
    """By whatever kernels a device has."""
    mats = [Matrix(rng, n, 192, dtype) for n in (40, 40)]
    for m in (2, 5, 8, 16, 31):
        x, res = normal(rng, m, 1, 192, dtype=dtype), normal(rng, m, 1, 40, dtype=dtype)
        row = h.to_np(x).astype(np.float64)
        g, u = (rounded(p.of(row), dtype).astype(np.float64) for p in mats)
        close(swiglu(mats[0](x), mats[1](x)), gated(g, u), dtype, units=8)
        close(res + mats[0](x), h.to_np(res) + g, dtype, units=3)


@pytest.mark.parametrize("rows", [2, 5, 8, 13, 16])
@pytest.mark.parametrize("k", [256, 1024, 2048, 4096])
def test_rows_that_are_normalised(rng, rows, k):
    """Normalised by the kernel of the products where it has whole rows, or by one before it: rows
    of codes that it takes and that it does not, weights that lie anywhere, no numbers."""
    w = h.to_np(1 + normal(rng, k + 1, dtype="bfloat16", scale=0.3))
    weights = [h.from_np(w[1:], "bfloat16"), h.from_np(w, "bfloat16")[1:]]
    for lengths, weight in zip([(48, 16), (40, 24)], weights, strict=True):
        mats = [Matrix(rng, n, k, "bfloat16") for n in lengths]
        x = normal(rng, rows, 1, k, dtype="bfloat16")
        v = h.to_np(x).copy()
        v[0] *= 1e15
        v[1, 0, 3] = np.nan
        x = h.from_np(v, "bfloat16")
        y = rms(v.astype(np.float64), w[1:], "bfloat16")
        keep = np.arange(rows) != 1
        out = [m(mx.fast.rms_norm(x, weight, 1e-5)) for m in mats]
        unit = swiglu(*(m(mx.fast.rms_norm(x, weight, 1e-5)) for m in (mats[0], mats[0])))
        for got, m in zip(out, mats, strict=True):
            assert np.isnan(h.to_np(got)[1]).all()
            close(got[mx.array(np.flatnonzero(keep))], m.of(y[keep]), "bfloat16", 4)
        g = rounded(mats[0].of(y[keep]), "bfloat16").astype(np.float64)
        close(unit[mx.array(np.flatnonzero(keep))], gated(g, g), "bfloat16", 6)
