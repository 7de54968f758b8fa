"""Products of few and of many rows with quantised matrices against float64: every format, sizes
beside those of vectors and tiles, numbers at the ends of the range."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
from test_quantized import AFFINE, FLOATS, Matrix, close, draw

FORMATS = [
    *AFFINE,
    ("affine", 32, 4),
    ("affine", 128, 4),
    ("affine", 32, 2),
    ("affine", 128, 8),
    *FLOATS,
]


def counts():
    return (1, 5, 33) if h.on_gpu() else (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)


def product(x, w, dtype):
    return mx.quantized_matmul(h.from_np(x, dtype), *w.parts, **w.how)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("mode", "group", "bits"), FORMATS)
def test_rows_of_every_format(mode, group, bits, dtype, rng):
    w = Matrix(rng, (37, 3 * 128), mode, group, bits, dtype)
    for m in counts():
        x = draw(rng, (m, 3 * 128), dtype)
        close(product(x, w, dtype), x, w.values.T, dtype)


@pytest.mark.parametrize(("mode", "group", "bits"), [("affine", 32, 4), ("affine", 32, 1), *FLOATS])
def test_lengths_beside_units(mode, group, bits, rng):
    """K of one group and of some beside whole vectors, N of one row and beside whole tiles."""
    for k in (group, 3 * group, 17 * group, 65 * group):
        for n in (1, 31, 33, 130):
            w = Matrix(rng, (n, k), mode, group, bits, "bfloat16")
            for m in (1, 3, 4, 18) if not h.on_gpu() else (1, 18):
                x = draw(rng, (m, k), "bfloat16")
                close(product(x, w, "bfloat16"), x, w.values.T, "bfloat16")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_long_rows_of_many(dtype, rng):
    """More of K than is decoded at a time, more rows than one block."""
    w = Matrix(rng, (150, 4224), "affine", 64, 4, dtype)
    for m in (1, 40):
        x = draw(rng, (m, 4224), dtype)
        close(product(x, w, dtype), x, w.values.T, dtype)


@pytest.mark.parametrize("m", [1, 4, 20])
def test_strides_of_rows(m, rng):
    w = Matrix(rng, (24, 192), dtype="bfloat16")
    x = draw(rng, (2 * m, 400), "bfloat16")
    whole = h.from_np(x, "bfloat16")
    for view, want in (
        (whole[::2, 5:197], x[::2, 5:197]),
        (whole[::-2, 16:400:2], x[::-2, 16:400:2]),
        (mx.contiguous(whole[:m, :192].T).T, x[:m, :192]),
        (mx.broadcast_to(whole[:1, :192], (m, 192)), np.broadcast_to(x[:1, :192], (m, 192))),
    ):
        got = mx.quantized_matmul(view, *w.parts, **w.how)
        close(got, want, w.values.T, "bfloat16")


def may_lose_subnormals():
    """Vulkan lets a GPU take them for zero; software drivers do not."""
    return h.on_gpu() and mx.vulkan.describe()["kind"] != "software"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("m", [1, 4, 20])
def test_small_and_large_numbers(m, dtype, rng):
    """Subnormal numbers count where no device takes them for zero, and codes times large
    ones overflow where weights times them do."""
    w = Matrix(rng, (12, 128), dtype=dtype)
    small = np.abs(w.values).max()
    for size in (1e-42, 1e-39, 1e-31, 1e-25, 1e25, 3e34 / small):
        x = h.quantise(rng.normal(size=(m, 128)) * size, dtype).astype(np.float32)
        got = h.to_np(product(x, w, dtype)).astype(np.float64)
        want = x.astype(np.float64) @ w.values.T
        bound = np.abs(x).astype(np.float64) @ np.abs(w.values.T)
        error = np.abs(got - want) - (1e-2 if dtype == "bfloat16" else 1e-5) * bound
        # The last place of results that are subnormal themselves; where such numbers are zero, each
        # of 128 terms, up to 256 units of a code with what lies on top of it in registers.
        last = 2.0**-133 if dtype == "bfloat16" else 128 * 2.0**-149
        lost = 128 * 256 * 2.0**-126 * small if may_lose_subnormals() else 0.0
        assert error.max() <= last + lost, (size, error.max())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_many_rows_of_any_layout(dtype, rng):
    """Mirrored rows, every second element, columns, one row for all, rows inside of others."""
    m, k, n = 440, 512, 64
    w = Matrix(rng, (n, k), dtype=dtype)
    forms = {
        "mirrored": ((m, k), lambda x: x[::-1]),
        "mirrored elements": ((m, k), lambda x: x[:, ::-1]),
        "apart": ((m, 2 * k), lambda x: x[:, ::2]),
        "turned": ((k, m), lambda x: x.T),
        "one": ((1, k), lambda x: (mx if isinstance(x, mx.array) else np).broadcast_to(x, (m, k))),
        "inside": ((2 * m, k + 24), lambda x: x[1::2, 8 : k + 8]),
    }
    for shape, view in forms.values():
        x = draw(rng, shape, dtype)
        got = mx.quantized_matmul(view(h.from_np(x, dtype)), *w.parts, **w.how)
        close(got, view(x), w.values.T, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("m", [1, 4, 20])
def test_infinities_and_nan(m, dtype, rng):
    """They reach the results of their row alone, by the sign of the weight."""
    w = Matrix(rng, (40, 128), dtype=dtype)
    x = draw(rng, (m, 128), dtype)
    signs = np.sign(w.values[:, 7])
    for special in (np.inf, -np.inf, np.nan):
        y = x.copy()
        y[-1, 7] = special
        got = h.to_np(product(y, w, dtype)).astype(np.float64)
        if m > 1:
            close(product(y, w, dtype)[:-1], x[:-1], w.values.T, dtype)
        sure = np.abs(w.values[:, 7]) > 1e-3 * np.abs(w.values).max()
        np.testing.assert_array_equal(got[-1][sure], special * signs[sure])


def test_picked_rows(rng):
    w = Matrix(rng, (5, 48, 128), dtype="bfloat16")
    x = draw(rng, (6, 20, 128), "bfloat16")
    picks = np.array([4, 0, 0, 3, 1, 4], np.uint32)
    got = mx.gather_qmm(h.from_np(x, "bfloat16"), *w.parts, rhs_indices=mx.array(picks), **w.how)
    want = np.stack([a.astype(np.float64) @ w.values[i].T for a, i in zip(x, picks, strict=True)])
    bound = np.stack([np.abs(a) @ np.abs(w.values[i].T) for a, i in zip(x, picks, strict=True)])
    assert (np.abs(h.to_np(got) - want) <= 1e-2 * bound).all()


def test_no_rows(rng):
    w = Matrix(rng, (8, 64))
    assert mx.quantized_matmul(mx.zeros((0, 64)), *w.parts).shape == (0, 8)
