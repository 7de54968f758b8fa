"""Quantisation and products with quantised matrices, against NumPy code that packs bit by bit."""

import itertools
import os

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

f32 = np.float32
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], f32)
AFFINE = [("affine", 64, b) for b in (1, 2, 3, 4, 5, 6, 8)]
FLOATS = [("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4)]
# Bits relative to the sum of magnitudes of the products.
TOLERANCE = {"float32": 3e-6, "float16": 2e-3, "bfloat16": 1e-2}

CONSTANTS = {
    "affine": (
        [
            [3590496248, 3753116863, 419402246, 1346043505],
            [115323908, 1897463698, 4233116414, 2130325596],
        ],
        [[0.1249987781047821], [-0.12498898059129715]],
        [[-0.9999902248382568], [0.9999118447303772]],
    ),
    "mxfp4": (
        [
            [1525487184, 1446833206, 3495304682, 3201459614],
            [1658762340, 374398613, 3962985197, 501896764],
        ],
        [[125], [125]],
    ),
    "mxfp8": (
        [
            [
                1635218688,
                1944713204,
                4176571768,
                1920495089,
                1660221417,
                4139873655,
                2004148470,
                3992515433,
            ],
            [
                4000348273,
                2003432184,
                4126663284,
                1618376265,
                1944647668,
                4176571768,
                1920495344,
                1676998634,
            ],
        ],
        [[119], [119]],
    ),
    "nvfp4": (
        [
            [1811818336, 1733164359, 3764858619, 3487790767],
            [1945093493, 392228774, 4249316350, 788293469],
        ],
        [[35, 35], [35, 35]],
    ),
}


def e4m3():
    """Values of all 256 codes."""
    c = np.arange(256)
    e, m = (c >> 3) & 15, c & 7
    v = np.where(e == 0, m * 2.0**-9, (8 + m) * 2.0 ** (e - 10.0))
    v = np.where((c & 127) == 127, np.nan, v)
    return np.where(c & 128, -v, v).astype(f32)


def to_e4m3(x):
    """Codes of the nearest values, to even, saturating."""
    table = e4m3()[:127].astype(np.float64)
    a = np.minimum(np.abs(x).astype(np.float64), 448)
    i = np.clip(np.searchsorted(table, a), 1, 126)
    low, high = a - table[i - 1], table[i] - a
    code = np.where((low < high) | ((low == high) & (i % 2 == 1)), i - 1, i)
    return (code | np.where(np.signbit(x), 128, 0)).astype(np.uint8)


def pack(codes, bits):
    spread = (codes[..., None].astype(np.uint64) >> np.arange(bits, dtype=np.uint64)) & np.uint64(1)
    flat = spread.astype(np.uint8).reshape(*codes.shape[:-1], -1)
    return np.packbits(flat, axis=-1, bitorder="little").view(np.uint32)


def unpack(words, bits):
    flat = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=-1, bitorder="little")
    flat = flat.reshape(*words.shape[:-1], -1, bits).astype(np.uint32)
    return (flat << np.arange(bits, dtype=np.uint32)).sum(-1)


def quantize_affine(w, group, bits, dtype):
    """Codes, scales and biases; the end of larger magnitude is exact."""
    g = w.reshape(*w.shape[:-1], -1, group)
    low, high, top = g.min(-1), g.max(-1), f32(2**bits - 1)
    if bits == 1:
        scale, bias = np.maximum(high - low, f32(1e-7)), low
    else:
        below = np.abs(low) > np.abs(high)
        step = np.maximum((high - low) / top, f32(1e-7))
        step, edge = np.where(below, step, -step), np.where(below, low, high)
        count = np.rint(edge / step)
        some = count != 0
        scale = np.where(some, edge / np.where(some, count, 1), step)
        bias = np.where(some, edge, f32(0))
    codes = np.clip(np.rint((g - bias[..., None]) / scale[..., None]), 0, top)
    return pack(codes.reshape(w.shape), bits), h.quantise(scale, dtype), h.quantise(bias, dtype)


def quantize_float(w, mode, group, dtype, enlarge=None):
    """Codes and scales; a tie between two 4-bit values goes to zero."""
    g = w.reshape(*w.shape[:-1], -1, group)
    ratio = h.quantise(np.abs(g).max(-1) / f32(448 if mode == "mxfp8" else 6), dtype).astype(f32)
    if mode == "nvfp4":
        scales = to_e4m3(ratio if enlarge is None else ratio * enlarge)
        divisor = e4m3()[scales]
    else:
        mantissa, exponent = np.frexp(ratio)
        exponent = np.where(ratio == 0, 0, exponent - (mantissa == 0.5))
        scales, divisor = (exponent + 127).astype(np.uint8), np.exp2(exponent).astype(f32)
    with np.errstate(all="ignore"):
        q = h.quantise(g / divisor[..., None], dtype).astype(f32)
        q = q if enlarge is None else q * enlarge
    if mode == "mxfp8":
        return to_e4m3(q).reshape(w.shape).view(np.uint32), scales
    magnitude = sum(
        (np.abs(q) > t).astype(np.uint32) for t in (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5)
    )
    codes = np.where((q < 0) & (magnitude > 0), magnitude | 8, magnitude)
    return pack(np.where(np.isfinite(q), codes, 0).reshape(w.shape), 4), scales


def values(words, scales, biases, mode, group, bits):
    """Exact values in float64."""
    codes = unpack(words, bits)
    g = codes.reshape(*codes.shape[:-1], -1, group)
    if mode == "affine":
        v = g * scales[..., None].astype(np.float64) + biases[..., None].astype(np.float64)
    elif mode == "mxfp8":
        v = e4m3()[g].astype(np.float64) * np.exp2(scales.astype(np.float64) - 127)[..., None]
    elif mode == "mxfp4":
        v = FP4[g].astype(np.float64) * np.exp2(scales.astype(np.float64) - 127)[..., None]
    else:
        v = FP4[g].astype(np.float64) * e4m3()[scales][..., None]
    return v.reshape(codes.shape)


def draw(rng, shape, dtype="float32"):
    spread = np.exp2(rng.uniform(-4, 4, (*shape[:-1], 1)))
    return h.quantise(rng.normal(size=shape) * spread, dtype).astype(f32)


class Matrix:
    """A random quantised matrix: what MLX gets, and its values."""

    def __init__(self, rng, shape, mode="affine", group=64, bits=4, dtype="float32"):
        self.how = {"mode": mode, "group_size": group, "bits": bits}
        w = draw(rng, shape, dtype)
        if mode == "affine":
            parts = quantize_affine(w, group, bits, dtype)
            self.parts = [mx.array(parts[0]), *(h.from_np(p, dtype) for p in parts[1:])]
        else:
            parts = (*quantize_float(w, mode, group, dtype), None)
            self.parts = [mx.array(p) for p in parts[:2]]
        self.values = values(*parts, mode, group, bits)


def close(got, x, w, dtype, want=None):
    want = x.astype(np.float64) @ w if want is None else want
    bound = np.abs(x).astype(np.float64) @ np.abs(w)
    assert got.shape == want.shape and h.name_of(got.dtype) == dtype
    error = np.abs(h.to_np(got) - want) / (bound + 1e-30)
    assert error.max(initial=0) <= TOLERANCE[dtype], error.max()


@pytest.mark.validation
@pytest.mark.parametrize(
    ("mode", "group", "bits"), AFFINE + [("affine", 32, 3), ("affine", 128, 4)]
)
def test_affine_codes(mode, group, bits, rng):
    for dtype in ["float32", "bfloat16"] if bits == 4 else ["float32"]:
        w = draw(rng, (5, 256), dtype)
        w[0, :64], w[1, :64] = 0, -3.5
        want = quantize_affine(w, group, bits, dtype)
        got = mx.quantize(h.from_np(w, dtype), group_size=group, bits=bits, mode=mode)
        assert got[0].dtype == mx.uint32 and h.name_of(got[1].dtype) == dtype
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(h.to_np(a), b)
        # Rounded after the product and after the sum.
        q = unpack(want[0], bits).reshape(5, -1, group).astype(f32)
        back = h.quantise(h.quantise(q * want[1][..., None], dtype) + want[2][..., None], dtype)
        y = mx.dequantize(*got, group_size=group, bits=bits)
        np.testing.assert_array_equal(h.to_np(y), back.reshape(w.shape))


@pytest.mark.parametrize(("mode", "group", "bits"), FLOATS)
def test_float_codes(mode, group, bits, rng):
    for dtype in ["float32", "float16"]:
        w = draw(rng, (5, 96), dtype)
        w[0, :32] = 0
        want = quantize_float(w, mode, group, dtype)
        got = mx.quantize(h.from_np(w, dtype), mode=mode)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(np.array(a), b)
        exact = values(*want, None, mode, group, bits)
        assert mx.dequantize(*got, mode=mode).dtype == mx.bfloat16
        y = mx.dequantize(*got, mode=mode, dtype=h.mx_dtype(dtype))
        np.testing.assert_array_equal(h.to_np(y), h.quantise(exact, dtype))


def test_constants_of_mlx():
    """Results of official MLX 0.32."""
    x = mx.array(np.sin(np.arange(64, dtype=f32)).reshape(2, 32))
    q, s, b = mx.quantize(x, group_size=32, bits=4)
    np.testing.assert_array_equal(np.array(q), CONSTANTS["affine"][0])
    np.testing.assert_array_equal(np.array(s), np.array(CONSTANTS["affine"][1], f32))
    np.testing.assert_array_equal(np.array(b), np.array(CONSTANTS["affine"][2], f32))
    for mode in ("mxfp4", "mxfp8", "nvfp4"):
        q, s = mx.quantize(x, mode=mode)
        np.testing.assert_array_equal(np.array(q), CONSTANTS[mode][0])
        np.testing.assert_array_equal(np.array(s), CONSTANTS[mode][1])


def test_global_scale(rng):
    w = draw(rng, (3, 64))
    g = f32(np.abs(w).max())
    q, s = mx.quantize(mx.array(w), mode="nvfp4", global_scale=mx.array(g))
    want = quantize_float(w, "nvfp4", 16, "float32", f32(2688) / g)
    np.testing.assert_array_equal(np.array(q), want[0])
    np.testing.assert_array_equal(np.array(s), want[1])
    y = mx.dequantize(q, s, mode="nvfp4", global_scale=mx.array(g))
    exact = values(*want, None, "nvfp4", 16, 4) * (g / 2688)
    np.testing.assert_allclose(np.array(y), exact, rtol=1e-6)
    assert np.abs(np.array(y) - w).max() < 0.2 * g


@pytest.mark.parametrize(("mode", "group", "bits"), AFFINE + FLOATS)
def test_products(mode, group, bits, rng):
    dtype = "bfloat16" if bits == 8 else "float32"
    w = Matrix(rng, (40, 192), mode, group, bits, dtype)
    for m in (1, 3) if h.on_gpu() else (1, 3, 6, 20):
        x = draw(rng, (m, 192), dtype)
        got = mx.quantized_matmul(h.from_np(x, dtype), *w.parts, **w.how)
        close(got, x, w.values.T, dtype)
    x = draw(rng, (2, 40), dtype)
    got = mx.quantized_matmul(h.from_np(x, dtype), *w.parts, transpose=False, **w.how)
    close(got, x, w.values, dtype)


@pytest.mark.validation
def test_rows_that_end_in_half_a_unit(rng):
    w = Matrix(rng, (48, 80), "nvfp4", 16, 4, "float32")
    for m in (1, 3) if h.on_gpu() else (1, 2, 3, 4, 7, 12):
        x, y = draw(rng, (m, 80)), draw(rng, (m, 48))
        close(mx.quantized_matmul(mx.array(x), *w.parts, **w.how), x, w.values.T, "float32")
        close(
            mx.quantized_matmul(mx.array(y), *w.parts, transpose=False, **w.how),
            y,
            w.values,
            "float32",
        )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_many_rows(dtype, rng):
    """Tiles with rests on all sides, codes along K and along the results."""
    w = Matrix(rng, (70, 320), dtype=dtype)
    for m in (33, 70):
        x = draw(rng, (m, 320), dtype)
        close(mx.quantized_matmul(h.from_np(x, dtype), *w.parts), x, w.values.T, dtype)
        x = draw(rng, (m, 70), dtype)
        got = mx.quantized_matmul(h.from_np(x, dtype), *w.parts, transpose=False)
        close(got, x, w.values, dtype)


def test_long_rows(rng):
    w = Matrix(rng, (17, 4096))
    x = draw(rng, (1, 4096))
    close(mx.quantized_matmul(mx.array(x), *w.parts), x, w.values.T, "float32")
    w = Matrix(rng, (2050, 128))
    x = draw(rng, (2, 2050))
    close(mx.quantized_matmul(mx.array(x), *w.parts, transpose=False), x, w.values, "float32")


def test_half_units(rng):
    """Rows of 16 codes and of three times 16."""
    for k in (16, 48):
        w = Matrix(rng, (9, k), "nvfp4", 16, 4)
        for m in (2, 20):
            x = draw(rng, (m, k))
            close(
                mx.quantized_matmul(mx.array(x), *w.parts, mode="nvfp4"), x, w.values.T, "float32"
            )
        x = draw(rng, (1, 9))
        got = mx.quantized_matmul(mx.array(x), *w.parts, transpose=False, mode="nvfp4")
        close(got, x, w.values, "float32")


def test_layouts(rng):
    """Vectors, batches, strides and views with offsets."""
    w = Matrix(rng, (24, 128))
    x = draw(rng, (2, 3, 128))
    close(mx.quantized_matmul(mx.array(x), *w.parts), x, w.values.T, "float32")
    close(mx.quantized_matmul(mx.array(x[0, 0]), *w.parts), x[0, 0], w.values.T, "float32")
    turned = mx.swapaxes(mx.array(np.ascontiguousarray(x.swapaxes(1, 2))), 1, 2)
    close(mx.quantized_matmul(turned, *w.parts), x, w.values.T, "float32")
    wide = draw(rng, (4, 140))
    cut = mx.array(wide)[::-2, 5:133]
    close(mx.quantized_matmul(cut, *w.parts), wide[::-2, 5:133], w.values.T, "float32")
    tall = Matrix(rng, (60, 128))
    parts = [p[5:55:2] for p in tall.parts]
    close(mx.quantized_matmul(mx.array(x), *parts), x, tall.values[5:55:2].T, "float32")
    empty = mx.quantized_matmul(mx.zeros((0, 128)), *w.parts)
    assert empty.shape == (0, 24)


def test_batches(rng):
    w = Matrix(rng, (3, 24, 64))
    right = w.values.swapaxes(1, 2)
    for shape in [(3, 2, 64), (1, 2, 64), (2, 1, 5, 64)]:
        x = draw(rng, shape)
        close(mx.quantized_matmul(mx.array(x), *w.parts), x, right, "float32")
    x = draw(rng, (2, 3, 2, 24))
    close(mx.quantized_matmul(mx.array(x), *w.parts, transpose=False), x, w.values, "float32")


def picked(x, w, lhs, rhs):
    flat = x.reshape(-1, *x.shape[-2:])
    lhs = np.arange(len(flat)).reshape(x.shape[:-2]) if lhs is None else lhs
    lhs, rhs = np.broadcast_arrays(lhs, rhs)
    return flat[lhs], w[rhs]


def test_gather(rng):
    w = Matrix(rng, (4, 24, 64))
    right = w.values.swapaxes(1, 2)
    for shape, lhs, rhs in [
        ((2, 3, 64), [0, 0, 1], [0, 1, 3]),
        ((2, 1, 64), [[0], [1]], [[2, 0, 3]]),
        ((3, 1, 64), None, [3, 1, 1]),
        ((1, 2, 64), None, [3, 1, 1, 0]),
        ((3, 20, 64), None, [0, 2, 2]),
    ]:
        x = draw(rng, shape)
        left, matrices = picked(x, right, lhs, rhs)
        index = [None if i is None else mx.array(i) for i in (lhs, rhs)]
        close(mx.gather_qmm(mx.array(x), *w.parts, *index), left, matrices, "float32")
    x = draw(rng, (2, 1, 64))
    with_end = mx.gather_qmm(mx.array(x), *w.parts, rhs_indices=mx.array([-1, 0]))
    close(with_end, x, right[[3, 0]], "float32")


@pytest.mark.validation
def test_sorted_experts(rng):
    """Single rows in the order of their experts, more than a tile of them."""
    w = Matrix(rng, (3, 40, 64))
    rhs = np.sort(rng.integers(0, 3, 50)).astype(np.uint32)
    x = draw(rng, (50, 1, 64))
    got = mx.gather_qmm(mx.array(x), *w.parts, rhs_indices=mx.array(rhs), sorted_indices=True)
    close(got, x, w.values.swapaxes(1, 2)[rhs], "float32")


HALF_UNIT = {"float16": 2**-11, "bfloat16": 2**-8}


def nearly_rounded(got, x, w, dtype):
    """Next to the nearest values: sums and scales are float32, whatever the elements are."""
    want = x.astype(np.float64) @ w
    slack = 2e-5 * (np.abs(x).astype(np.float64) @ np.abs(w))
    assert got.shape == want.shape and h.name_of(got.dtype) == dtype
    error = np.abs(h.to_np(got) - want) - HALF_UNIT[dtype] * np.abs(want)
    assert (error <= slack).all(), (error / slack).max()


def few_rows(rng, mode, group, bits, dtypes=tuple(HALF_UNIT)):
    """Two to fifty rows of x, rows of codes and stretches of K that end inside of tiles."""
    for dtype in dtypes:
        for groups, rows in (13, (2, 3, 7, 8, 9, 16, 17, 32, 50)), (12, (8, 9, 33)):
            w = Matrix(rng, (41, groups * group), mode, group, bits, dtype)
            for m in rows:
                x = draw(rng, (m, groups * group), dtype)
                got = mx.quantized_matmul(h.from_np(x, dtype), *w.parts, **w.how)
                nearly_rounded(got, x, w.values.T, dtype)


def few_rows_in_batches(rng, dtype):
    w = Matrix(rng, (3, 24, 128), dtype=dtype)
    right = w.values.swapaxes(1, 2)
    for shape in [(3, 5, 128), (1, 2, 128), (2, 1, 12, 128)]:
        x = draw(rng, shape, dtype)
        got = mx.quantized_matmul(h.from_np(x, dtype), *w.parts)
        nearly_rounded(got, x, right, dtype)
    x = draw(rng, (2, 4, 128), dtype)
    for lhs, rhs in [(None, [2, 0]), ([1, 0, 1], [0, 1, -1]), ([[0], [1]], [[2, 0, 1]])]:
        left, matrices = picked(x, right, lhs, rhs)
        index = [None if i is None else mx.array(i) for i in (lhs, rhs)]
        got = mx.gather_qmm(h.from_np(x, dtype), *w.parts, *index)
        nearly_rounded(got, left, matrices, dtype)
    one = [p[1] for p in w.parts]
    wide = draw(rng, (2, 9, 140), dtype)
    cut = h.from_np(wide, dtype)[:, ::-2, 5:133]
    nearly_rounded(mx.quantized_matmul(cut, *one), wide[:, ::-2, 5:133], right[1], dtype)


MORE = [("affine", 32, 4), ("affine", 32, 5), ("affine", 128, 4), ("affine", 128, 6)]


@pytest.mark.parametrize(("mode", "group", "bits"), AFFINE + MORE + FLOATS)
def test_few_rows(mode, group, bits, rng):
    few_rows(rng, mode, group, bits, ["bfloat16"] if h.on_gpu() else HALF_UNIT)


@pytest.mark.parametrize("dtype", HALF_UNIT)
def test_few_rows_in_batches(dtype, rng):
    few_rows_in_batches(rng, dtype)


@pytest.mark.gpu
def test_few_rows_by_ordinary_arithmetic():
    """The kernel on cooperative matrices where there are none."""
    code = f"""
    import sys
    sys.path.insert(0, {os.path.dirname(__file__)!r})
    import mlx.core as mx
    import numpy as np
    mx.set_default_device(mx.gpu)
    import test_quantized as t
    rng = np.random.default_rng(20)
    for form in [("affine", 64, 4), ("affine", 32, 8), ("affine", 128, 3), *t.FLOATS[:2]]:
        t.few_rows(rng, *form)
    t.few_rows_in_batches(rng, "bfloat16")
    print([k for k in mx.vulkan.stats()["kernels"] if "qmm_coop" in k])
    """
    ran = h.python(code, env={"MLX_VK_QMM": "plain"}, timeout=280).stdout
    assert "bfloat16" in ran and "float16" in ran


def over_scratch(rng):
    """Products whose dequantised weights are more than there shall be at once."""
    for dtype, n, k, m in [("bfloat16", 1500, 512, 80), ("float32", 3001, 256, 33)]:
        for how in ({"group_size": 64, "bits": 4}, {"mode": "mxfp8", "group_size": 32, "bits": 8}):
            w, x = (h.from_np(draw(rng, s, dtype), dtype) for s in ((n, k), (m, k)))
            parts = mx.quantize(w, **how)
            with mx.stream(mx.cpu):
                dense = h.to_np(mx.dequantize(*parts, **how)).astype(np.float64)
            left = h.to_np(x).astype(np.float64)
            for rows in (x, x[::-1], mx.concatenate([x, x], 1)[:, :k]):
                got = mx.quantized_matmul(rows, *parts, transpose=True, **how)
                want = h.to_np(rows).astype(np.float64) @ dense.T
                unit = 2.0**-7 if dtype == "bfloat16" else 2.0**-18
                error = np.abs(h.to_np(got).astype(np.float64) - want).max()
                assert error <= unit * np.abs(want).max(), (dtype, error)
            picks = mx.array([1, 0])
            one = [p[None] for p in parts]
            both = mx.stack([x, 2 * x])
            got = mx.gather_qmm(both, *one, lhs_indices=picks, rhs_indices=picks * 0, **how)
            assert np.abs(h.to_np(got[1]).astype(np.float64) - left @ dense.T).max() <= (
                unit * np.abs(want).max()
            )


@pytest.mark.gpu
def test_weights_are_dequantised_part_by_part():
    code = f"""
    import sys
    sys.path.insert(0, {os.path.dirname(__file__)!r})
    import mlx.core as mx
    import numpy as np
    mx.set_default_device(mx.gpu)
    import test_quantized as t
    t.over_scratch(np.random.default_rng(21))
    ran = mx.vulkan.stats()["kernels"]
    print(sum(n for k, n in ran.items() if k.startswith("dequantize")))
    """
    env = {"MLX_VK_QMM": "dequantize", "MLX_VK_QMM_SCRATCH": "1"}
    parts = int(h.python(code, env=env, timeout=280).stdout)
    # Two parts of the first and three of the second, for three products of each of two modes.
    assert parts >= 3 * 2 * (2 + 3), parts


@pytest.mark.parametrize("dtype", HALF_UNIT)
def test_infinite_scales_times_codes_of_zero_are_no_numbers(dtype, rng):
    for transpose, m in [(True, 48), (True, 1), (False, 1), (False, 48)]:
        x = h.from_np(draw(rng, (m, 128), dtype), dtype)
        words = mx.zeros((128, 16), mx.uint32)
        scales, biases = (mx.full((128, 2), v, h.mx_dtype(dtype)) for v in (np.inf, 1))
        how = {"group_size": 64, "bits": 4, "transpose": transpose}
        got = mx.quantized_matmul(x, words, scales, biases, **how)
        assert np.isnan(h.to_np(got)).all(), (transpose, m)


def test_qqmm(rng):
    x, w = draw(rng, (3, 64)), draw(rng, (16, 64))
    for mode, group, bits in FLOATS:
        left = values(*quantize_float(x, mode, group, "float32"), None, mode, group, bits)
        right = values(*quantize_float(w, mode, group, "float32"), None, mode, group, bits)
        close(mx.qqmm(mx.array(x), mx.array(w), mode=mode), left, right.T, "float32")
        q = mx.quantize(mx.array(w), mode=mode)
        close(mx.qqmm(mx.array(x), *q, mode=mode), left, right.T, "float32")
    experts = np.stack([w, 2 * w])
    got = mx.gather_qqmm(mx.array(x[None]), mx.array(experts), rhs_indices=mx.array([1, 0]))
    left = values(*quantize_float(x, "nvfp4", 16, "float32"), None, "nvfp4", 16, 4)
    right = values(*quantize_float(experts, "nvfp4", 16, "float32"), None, "nvfp4", 16, 4)
    close(got, np.stack([left, left]), right.swapaxes(1, 2)[::-1], "float32")
    gx, gw = (mx.array(f32(np.abs(a).max())) for a in (x, w))
    q = mx.quantize(mx.array(w), mode="nvfp4", global_scale=gw)
    got = mx.qqmm(mx.array(x), *q, global_scale_x=gx, global_scale_w=gw)
    assert np.abs(np.array(got) - x @ w.T).max() < 0.15 * np.abs(x).max() * np.abs(w).max() * 8
    grad = mx.grad(lambda a: mx.qqmm(a, mx.array(w)).sum())(mx.array(x))
    right = values(*quantize_float(w, "nvfp4", 16, "float32"), None, "nvfp4", 16, 4)
    np.testing.assert_allclose(np.array(grad), np.tile(right.sum(0), (3, 1)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("transpose", [True, False])
def test_gradients(transpose, rng):
    """Of x, scales and biases, against the product with dequantised values."""
    w = Matrix(rng, (64, 64))
    x, cot = draw(rng, (2, 3, 64)), draw(rng, (2, 3, 64))
    codes, scales, biases = w.parts

    def fused(x, s, b):
        return mx.quantized_matmul(x, codes, s, b, transpose=transpose)

    q = unpack(np.array(codes), 4).astype(np.float64)
    right = w.values.T if transpose else w.values
    args = [mx.array(x), scales, biases]
    _, (dx, ds, db) = mx.vjp(fused, args, [mx.array(cot)])
    flat, c = x.reshape(-1, 64).astype(np.float64), cot.reshape(-1, 64)
    dw = c.T @ flat if transpose else flat.T @ c
    np.testing.assert_allclose(np.array(dx), cot @ right.T, rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(np.array(ds), (dw * q).sum(-1, keepdims=True), rtol=1e-3, atol=1e-1)
    np.testing.assert_allclose(np.array(db), dw.sum(-1, keepdims=True), rtol=1e-3, atol=1e-2)
    _, (t,) = mx.jvp(fused, args, [mx.array(cot), scales, biases])
    want = (cot + x) @ right
    np.testing.assert_allclose(np.array(t), want, rtol=1e-3, atol=1e-2)
    with pytest.raises(RuntimeError, match="no gradient wrt the quantized weights"):
        mx.vjp(lambda c: mx.quantized_matmul(args[0], c, scales, biases), [codes], [mx.array(cot)])


def test_gradients_of_gathers(rng):
    w = Matrix(rng, (3, 8, 64))
    x, lhs, rhs = draw(rng, (2, 2, 64)), np.array([0, 1, 1, 0]), np.array([2, 0, 2, 1])
    cot = draw(rng, (4, 2, 8))

    def fused(x, s, b):
        index = (mx.array(lhs), mx.array(rhs))
        return mx.gather_qmm(x, w.parts[0], s, b, *index)

    _, (dx, ds, db) = mx.vjp(fused, [mx.array(x), *w.parts[1:]], [mx.array(cot)])
    want_x, dw = np.zeros((2, 2, 64)), np.zeros((3, 8, 64))
    for i in range(4):
        want_x[lhs[i]] += cot[i] @ w.values[rhs[i]]
        dw[rhs[i]] += cot[i].T @ x[lhs[i]].astype(np.float64)
    q = unpack(np.array(w.parts[0]), 4)
    np.testing.assert_allclose(np.array(dx), want_x, rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(np.array(ds), (dw * q).sum(-1, keepdims=True), rtol=1e-3, atol=1e-1)
    np.testing.assert_allclose(np.array(db), dw.sum(-1, keepdims=True), rtol=1e-3, atol=1e-2)


def test_gradient_of_quantize(rng):
    """Scales and biases move with the far end of their group."""
    w = mx.array(draw(rng, (2, 64)))
    _, s, b = mx.quantize(w)
    g = np.array(mx.grad(lambda w: mx.quantize(w)[2].sum())(w))
    at = np.array(w) == np.array(b)
    np.testing.assert_array_equal(g, at.astype(f32))
    g = np.array(mx.grad(lambda w: mx.quantize(w)[1].sum())(w))
    want = at / np.rint(np.array(b) / np.array(s))
    np.testing.assert_allclose(g, want, rtol=1e-5)


def test_vmap(rng):
    w = Matrix(rng, (3, 24, 64))
    x = draw(rng, (3, 2, 64))
    right = w.values.swapaxes(1, 2)
    one = [p[0] for p in w.parts]
    rows = mx.vmap(lambda x: mx.quantized_matmul(x, *one))(mx.array(x))
    close(rows, x, right[0], "float32")
    both = mx.vmap(mx.quantized_matmul)(mx.array(x), *w.parts)
    close(both, x, right, "float32")
    last = mx.vmap(lambda *w: mx.quantized_matmul(mx.array(x[0]), *w))(*w.parts)
    close(last, np.stack([x[0]] * 3), right, "float32")
    rhs = np.array([[2, 0], [1, 1], [0, 2]])
    gathered = mx.vmap(lambda x, i: mx.gather_qmm(x, *w.parts, rhs_indices=i))(
        mx.array(x[:, None]), mx.array(rhs)
    )
    close(gathered, np.stack([x, x], 1), right[rhs], "float32")
    codes = mx.vmap(lambda a: mx.quantize(a)[0])(mx.array(x))
    np.testing.assert_array_equal(np.array(codes), np.array(mx.quantize(mx.array(x))[0]))
    back = mx.vmap(mx.dequantize)(*w.parts)
    np.testing.assert_allclose(np.array(back), w.values, rtol=1e-5, atol=1e-5)


def test_bad_input(rng):
    w, x = Matrix(rng, (8, 128)), mx.zeros((2, 128))
    q, s, b = w.parts
    ones = mx.ones((4, 128))
    for call in [
        lambda: mx.quantize(ones, group_size=16),
        lambda: mx.quantize(ones, group_size=0),
        lambda: mx.quantize(ones, group_size=-64),
        lambda: mx.quantize(ones, bits=7),
        lambda: mx.quantize(ones, mode="foo"),
        lambda: mx.quantize(ones, mode="mxfp4", group_size=64),
        lambda: mx.quantize(ones, mode="nvfp4", bits=8),
        lambda: mx.quantize(ones.astype(mx.int32)),
        lambda: mx.quantize(mx.ones((128,))),
        lambda: mx.quantize(mx.ones((3, 100))),
        lambda: mx.quantize(ones, global_scale=mx.array(1.0)),
        lambda: mx.quantize(ones, mode="nvfp4", global_scale=mx.array(1.0, mx.float16)),
        lambda: mx.dequantize(q, s),
        lambda: mx.dequantize(q, s, b, bits=8),
        lambda: mx.dequantize(q, s, b, group_size=32),
        lambda: mx.dequantize(q, s, b, bits=0, group_size=0),
        lambda: mx.dequantize(q.astype(mx.int32), s, b),
        lambda: mx.dequantize(q, s[:1], b[:1]),
        lambda: mx.dequantize(q, s, b, dtype=mx.int32),
        lambda: mx.dequantize(q, s, mode="mxfp4"),
        lambda: mx.dequantize(q[0], s[0], b[0]),
        lambda: mx.quantized_matmul(x, q, s),
        lambda: mx.quantized_matmul(x[:, :64], q, s, b),
        lambda: mx.quantized_matmul(x, q, s, b, transpose=False),
        lambda: mx.quantized_matmul(x, q, s, b, group_size=32),
        lambda: mx.quantized_matmul(x, q, s, b, bits=7),
        lambda: mx.quantized_matmul(x, q, s, b, mode="foo"),
        lambda: mx.quantized_matmul(x, q, s, b[:1]),
        lambda: mx.quantized_matmul(x, q, s[:4], b[:4]),
        lambda: mx.quantized_matmul(x, q.astype(mx.int32), s, b),
        lambda: mx.quantized_matmul(x.astype(mx.complex64), q, s, b),
        lambda: mx.quantized_matmul(mx.array(1.0), q, s, b),
        lambda: mx.gather_qmm(x, q, s, b, rhs_indices=mx.array([0.5])),
        lambda: mx.gather_qmm(x[0], q, s, b, rhs_indices=mx.array([0])),
        lambda: mx.qqmm(x, q, s, mode="affine"),
        lambda: mx.qqmm(x.astype(mx.int32), ones),
        lambda: mx.qqmm(x[:, :64], ones),
        lambda: mx.qqmm(x, ones, global_scale_x=mx.array(1.0)),
    ]:
        with pytest.raises(ValueError, match=r"\["):
            call()


def test_indices_out_of_range(rng):
    w = Matrix(rng, (3, 8, 64))
    y = mx.gather_qmm(mx.ones((1, 1, 64)), *w.parts, rhs_indices=mx.array([0, 1000]))
    if h.on_gpu():
        close(y, np.ones((2, 1, 64)), w.values.swapaxes(1, 2)[[0, 2]], "float32")
    else:
        with pytest.raises(IndexError, match="out of bounds"):
            mx.eval(y)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("m", [3, 8, 9, 17, 33])
def test_products_that_are_not_transposed_are_those_of_the_dequantised_matrix(name, m, rng):
    """Large results would show a last place; float32 sums of the same numbers, rounded once."""
    for k, group, bits in itertools.product((64, 256), (32, 64), (2, 4, 8)):
        x, w = (rng.normal(size=s) / np.sqrt(k) for s in ((m, k), (k, 128)))
        x, w = (h.from_np(h.quantise(v, name), name) for v in (x, w))
        packed = mx.quantize(w, group, bits)
        values = h.to_np(mx.dequantize(*packed, group, bits)).astype(np.float64)
        want = h.to_np(x).astype(np.float64) @ values
        got = mx.quantized_matmul(x, *packed, False, group, bits)
        assert h.name_of(got.dtype) == name
        error = np.abs(h.to_np(got) - want)
        assert (error <= 0.52 * h.ulp(want, name) + 1e-6).all()
        assert error.max() < 0.0015


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 8])
def test_scales_and_biases_move_with_the_ends_of_their_groups(rng, bits):
    w, t = (mx.array(rng.normal(size=(2, 64)).astype(np.float32)) for _ in range(2))

    def parts(w):
        return mx.quantize(w, group_size=32, bits=bits)[1:]

    e = 1e-3
    ahead, behind = parts(w + e * t), parts(w - e * t)
    _, tangents = mx.jvp(parts, (w,), (t,))
    c = [mx.array(rng.normal(size=(2, 2)).astype(np.float32)) for _ in range(2)]
    _, (g,) = mx.vjp(parts, (w,), c)
    total = 0.0
    for a, b, got, weight in zip(ahead, behind, tangents, c, strict=True):
        want = (np.array(a) - np.array(b)) / (2 * e)
        np.testing.assert_allclose(np.array(got), want, atol=2e-3)
        total += float((want * np.array(weight)).sum())
    np.testing.assert_allclose(mx.sum(g * t).item(), total, atol=1e-2)


def test_one_bit_of_equal_elements_has_derivatives_without_nan():
    w = mx.ones((1, 32))
    g = mx.grad(lambda w: mx.sum(mx.quantize(w, group_size=32, bits=1)[2]))(w)
    np.testing.assert_allclose(np.array(g), np.full((1, 32), 1 / 32), rtol=1e-6)
    g = mx.grad(lambda w: mx.sum(mx.quantize(w, group_size=32, bits=1)[1]))(w)
    assert not np.array(g).any()
