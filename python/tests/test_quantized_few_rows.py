"""Few rows by matrices of four bits in groups of 64, and of other formats, alone and with what
joins them, against float64; GPUs that take PTX have kernels for those (qmm_few_rows, qmm_wide)."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
import test_eval_joined as t
from test_eval_joined_rows import steps

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("none_disabled")]

HOW = {"group_size": 64, "bits": 4}
ROWS = [2, 3, 8, 9, 16, 17, 31, 32, 33, 64]
#: Widths, and rows of three matrices: one piece of K for each subgroup, two, parts of workgroups,
#: and pieces that some have no more of.
SHAPES = [(256, (16, 48, 32)), (1280, (32, 16, 16)), (4096, (48, 16, 16))]
LARGE = [(1024, (2048, 1024, 1024)), (5120, (1024, 512, 16)), (12288, (4096, 16, 32))]
#: Formats, widths and rows of matrices that more rows go through on warpgroups.
LONG = [
    (HOW, 4096, (12288, 2048, 1024)),
    ({"group_size": 32, "bits": 4}, 2560, (20480, 1040, 16)),
    ({"group_size": 128, "bits": 4}, 8192, (6144, 1008, 512)),
]
#: What `qmm_few_rows` does not know: those go through on warpgroups from two rows on.
OTHERS = [
    *({"group_size": group, "bits": 8} for group in (32, 64, 128)),
    *({"group_size": group, "bits": 4} for group in (32, 128)),
    *({"group_size": g, "bits": b} for g, b in ((64, 6), (32, 5), (128, 3), (64, 2))),
    {"group_size": 32, "bits": 4, "mode": "mxfp4"},
    {"group_size": 32, "bits": 8, "mode": "mxfp8"},
    {"group_size": 16, "bits": 4, "mode": "nvfp4"},
]
OURS = ("qmm_few_rows", "qmm_wide")


def ptx(rng):
    """Whether the device has the kernel."""
    m, x = t.Matrix(rng, 16, 256, "bfloat16", **HOW), t.normal(rng, 8, 256, dtype="bfloat16")
    return any("qmm_few_rows" in k for k in h.kernels(lambda: m(x))[1])


def check(ran, there):
    """The kernel ran where there is one; probes and zeros of counters may have run before."""
    if there:
        assert any(k.startswith(OURS) for k in ran), ran
        assert not any("qmm" in k and not k.startswith(OURS) for k in ran), ran


def all_ways(rng, rows, form, there, how=HOW, dtype="bfloat16"):
    k, lengths = form
    mats = [t.Matrix(rng, n, k, dtype, **how) for n in lengths]
    x = t.normal(rng, rows, 1, k, dtype=dtype)
    row = h.to_np(x).astype(np.float64)
    out, ran = steps(lambda: [m(x) for m in mats])
    check(ran, there)
    for got, m in zip(out, mats, strict=True):
        t.close(got, m.of(row), dtype)
    # Together, as before: a long matrix' product alone may be cut in another way.
    again = [m(x) for m in mats]
    mx.eval(again)
    for got, more in zip(out, again, strict=True):
        assert np.array_equal(h.to_np(got), h.to_np(more))

    res = t.normal(rng, rows, 1, lengths[0], dtype=dtype)
    got, ran = steps(lambda: res + mats[0](x))
    check(ran, there)
    expected = h.to_np(res) + t.rounded(mats[0].of(row), dtype)
    t.close(got, expected, dtype)

    up = t.Matrix(rng, lengths[0], k, dtype, **how)
    got, ran = steps(lambda: t.swiglu(mats[0](x), up(x)))
    check(ran, there)
    g, u = (t.rounded(m.of(row), dtype).astype(np.float64) for m in (mats[0], up))
    t.close(got, t.gated(g, u), dtype, units=4)
    assert np.array_equal(h.to_np(got), h.to_np(t.swiglu(mats[0](x), up(x))))


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_few_rows_by_matrices(rng, rows, dtype):
    there = ptx(rng)
    for form in SHAPES + (LARGE if there else []):
        all_ways(rng, rows, form, there, dtype=dtype)


@pytest.mark.parametrize("scale", [2.0**-16, 1.0, 2.0**13])
@pytest.mark.parametrize("rows", [5, 24])
def test_rows_that_are_normalised(rng, rows, scale):
    """Also where rows times weights alone would leave the range of their dtype."""
    there = ptx(rng)
    for dtype in ("bfloat16", "float16"):
        mats = [t.Matrix(rng, n, 512, dtype, **HOW) for n in (48, 16)]
        x = t.normal(rng, rows, 1, 512, dtype=dtype) * scale
        weight = (mx.abs(t.normal(rng, 512, dtype=dtype)) + 4).astype(getattr(mx, dtype))
        before = mx.fast.rms_norm(x, weight, 1e-6)
        out, ran = steps(lambda before=before, mats=mats: [m(before) for m in mats])
        check([name for name in ran if "rms_norm" not in name], there)
        v = h.to_np(x).astype(np.float64)
        row = v / np.sqrt((v * v).mean(-1, keepdims=True) + 1e-6) * h.to_np(weight)
        for got, m in zip(out, mats, strict=True):
            t.close(got, m.of(row), dtype, units=4)


@pytest.mark.parametrize("rows", [17, 32, 50])
@pytest.mark.parametrize(("how", "k", "lengths"), LONG)
def test_more_rows_by_long_matrices(rng, rows, how, k, lengths):
    there = ptx(rng)
    if not there:
        k, lengths = k // 8, tuple(n // 16 * 2 for n in lengths)
    # Of other groups than 64 there are no such kernels for short matrices.
    all_ways(rng, rows, (k, lengths), there and how == HOW, how)
    m = t.Matrix(rng, lengths[0], k, "bfloat16", **how)
    x = t.normal(rng, rows, k, dtype="bfloat16")
    got, ran = steps(lambda: m(x))
    assert not there or any(n.startswith("qmm_wide") for n in ran), ran
    t.close(got, m.of(h.to_np(x).astype(np.float64)), "bfloat16", units=3)


@pytest.mark.parametrize("rows", [2, 8, 9, 16, 17, 33])
@pytest.mark.parametrize("how", OTHERS)
def test_few_rows_by_other_formats(rng, rows, how):
    there = ptx(rng)
    k, lengths = (2048, (8192, 2048, 514)) if there else (512, (96, 32, 18))
    powers = how.get("mode", "").startswith("mx")
    # Of these a matrix has to be longer.
    even = how["bits"] == 8 and how["group_size"] > 32
    for dtype in ("bfloat16", "float16"):
        # Short matrices stay where they were, and so do powers of two as scales of float16.
        all_ways(rng, rows, (k, lengths), False, how, dtype)
        m = t.Matrix(rng, lengths[0], k, dtype, **how)
        x = t.normal(rng, rows, k, dtype=dtype)
        got, ran = steps(lambda m=m, x=x: m(x))
        takes = there and not even and (dtype == "bfloat16" or not powers)
        assert not takes or any(n.startswith("qmm_wide") for n in ran), ran
        t.close(got, m.of(h.to_np(x).astype(np.float64)), dtype, units=3)


@pytest.mark.parametrize("rows", [2, 11])
@pytest.mark.parametrize("how", OTHERS[-3:])
def test_matrices_that_lie_elsewhere(rng, rows, how):
    """Codes and scales that do not begin where kernels read: results are as before."""
    k, n = (2048, 4096) if ptx(rng) else (256, 64)
    mats = [t.Matrix(rng, n, k, "bfloat16", **how) for _ in range(2)]
    for m in mats:
        flat = [mx.concatenate([mx.zeros(1, p.dtype), p.reshape(-1)]) for p in m.parts]
        mx.eval(flat)
        m.parts = [f[1:].reshape(p.shape) for f, p in zip(flat, m.parts, strict=True)]
        mx.eval(m.parts)
    x = t.normal(rng, rows, 1, k, dtype="bfloat16")
    got = t.swiglu(*(m(x) for m in mats))
    row = h.to_np(x).astype(np.float64)
    gate, up = (t.rounded(m.of(row), "bfloat16").astype(np.float64) for m in mats)
    t.close(got, t.gated(gate, up), "bfloat16", units=4)


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e25])
def test_more_rows_by_small_and_large_codes(rng, scale):
    """Values of codes have the range of their dtype."""
    k, n = (2048, 12288) if ptx(rng) else (256, 64)
    m = t.Matrix(rng, n, k, "bfloat16", **HOW)
    scales, biases = ((p.astype(mx.float32) * scale).astype(mx.bfloat16) for p in m.parts[1:])
    x = t.normal(rng, 24, k, dtype="bfloat16")
    got = mx.quantized_matmul(x, m.parts[0], scales, biases, transpose=True, **HOW)
    exact = mx.dequantize(m.parts[0], *(p.astype(mx.float32) for p in (scales, biases)), **HOW)
    expected = h.to_np(x).astype(np.float64) @ h.to_np(exact).astype(np.float64).T
    t.close(got, expected, "bfloat16", units=3)


@pytest.mark.parametrize("rows", [4, 12, 40])
@pytest.mark.parametrize(("dtype", "large"), [("bfloat16", 3e38), ("float16", 65504)])
def test_rows_keep_what_is_no_number_to_themselves(rng, rows, dtype, large):
    there = ptx(rng)
    m = t.Matrix(rng, 64, 512, dtype, **HOW)
    x = h.to_np(t.normal(rng, rows, 512, dtype=dtype)).copy()
    x[1, 7], x[2, 9], x[3, 100] = np.nan, np.inf, large
    # Values that are not rounded: those near zero have a sign.
    exact = mx.dequantize(m.parts[0], *(p.astype(mx.float32) for p in m.parts[1:]), **HOW)
    values = h.to_np(exact).astype(np.float64)
    with np.errstate(all="ignore"):
        expected = x.astype(np.float64) @ values.T
    y = mx.array(x).astype(getattr(mx, dtype))
    got, ran = steps(lambda: m(y))
    check(ran, there)
    got = h.to_np(got)
    assert np.isnan(got[1]).all()
    sign = np.sign(values[:, 9])
    assert np.array_equal(got[2][sign != 0], np.copysign(np.inf, sign)[sign != 0])
    assert not np.isfinite(got[2]).any()
    apart = [0, *range(4, rows)]
    t.close(mx.array(got[apart]), expected[apart], dtype)
    near = np.abs(expected[3]) < 60000 if dtype == "float16" else slice(None)
    np.testing.assert_allclose(got[3][near], expected[3][near], rtol=2.0**-7, atol=large / 3e5)


def test_small_and_large_numbers(rng):
    """Codes are multiplied as numbers below the smallest normal one: neither end of x is lost."""
    m = t.Matrix(rng, 32, 256, "bfloat16", **HOW)
    for scale in (1e-20, 1e-6, 1e6, 1e20):
        x = t.normal(rng, 8, 256, dtype="bfloat16", scale=scale)
        t.close(m(x), m.of(h.to_np(x).astype(np.float64)), "bfloat16")
    m = t.Matrix(rng, 32, 256, "float16", **HOW)
    for scale in (2.0**-11, 1.0, 512.0):
        x = t.normal(rng, 8, 256, dtype="float16", scale=scale)
        t.close(m(x), m.of(h.to_np(x).astype(np.float64)), "float16", units=2)


def test_others_keep_their_kernels(rng):
    for k, dtype, how in [
        (320, "bfloat16", HOW),
        (256, "float32", HOW),
        (256, "bfloat16", {"group_size": 32, "bits": 4}),
        (256, "bfloat16", {"group_size": 64, "bits": 8}),
    ]:
        m, x = t.Matrix(rng, 48, k, dtype, **how), t.normal(rng, 8, k, dtype=dtype)
        got, ran = h.kernels(lambda m=m, x=x: m(x))
        assert not any("qmm_few_rows" in name for name in ran), ran
        t.close(got, m.of(h.to_np(x).astype(np.float64)), dtype, units=3)
    m, x = t.Matrix(rng, 40, 256, "bfloat16", **HOW), t.normal(rng, 8, 256, dtype="bfloat16")
    t.close(m(x), m.of(h.to_np(x).astype(np.float64)), "bfloat16")
