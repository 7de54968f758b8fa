"""to_fp8 and from_fp8: all 256 codes, rounding at every midpoint, all 16-bit floats."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest


def table():
    """The values of the codes, from the definition of the format."""
    code = np.arange(256)
    sign = np.where(code & 0x80, -1.0, 1.0)
    exponent, mantissa = (code >> 3) & 15, code & 7
    small, normal = mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0)
    value = sign * np.where(exponent == 0, small, normal)
    return np.where(code & 0x7F == 0x7F, np.nan, value)


def nearest(x):
    """Codes of the nearest values, halves to even; 448 for what is larger and for NaN."""
    grid = table()[:0x7F]
    with np.errstate(invalid="ignore"):
        a = np.abs(np.asarray(x, np.float64))
    a = np.nan_to_num(a, nan=448, posinf=448).clip(0, 448)
    i = np.searchsorted(grid, a).clip(1, 0x7E)
    low, high = a - grid[i - 1], grid[i] - a
    code = np.where((high < low) | ((high == low) & (i % 2 == 0)), i, i - 1)
    return (code | np.where(np.signbit(x), 0x80, 0)).astype(np.uint8)


CODES = np.arange(256, dtype=np.uint8)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_values_of_all_codes(dtype):
    got = mx.from_fp8(mx.array(CODES), h.mx_dtype(dtype))
    assert h.name_of(got.dtype) == dtype
    np.testing.assert_array_equal(h.to_np(got).astype(np.float64), table())
    finite = CODES[~np.isnan(table())]
    back = mx.to_fp8(mx.from_fp8(mx.array(finite), h.mx_dtype(dtype)))
    np.testing.assert_array_equal(np.array(back), finite)
    assert mx.from_fp8(mx.array(CODES)).dtype == mx.bfloat16


def test_rounding(rng):
    grid = table()[:0x7F]
    middle = ((grid[1:] + grid[:-1]) / 2).astype(np.float32)
    edges = np.array(
        [0, -0.0, 448, 463.99, 464, 480, 1e9, np.inf, np.nan, 1e-30, 1e-45], np.float32
    )
    around = [np.nextafter(middle, np.float32(d)) for d in (-1, 999)]
    bits = rng.integers(0, 2**32, 100_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    spread = rng.normal(size=100_000) * np.exp(rng.uniform(-12, 8, 100_000))
    parts = [grid, middle, *around, edges, bits, spread]
    x = np.concatenate([p.astype(np.float32) for p in parts])
    x = np.concatenate([x, -x])
    np.testing.assert_array_equal(np.array(mx.to_fp8(mx.array(x))), nearest(x))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rounding_of_all_16_bit_floats(dtype):
    bits = mx.array(np.arange(2**16, dtype=np.uint16))
    a = mx.view(bits, h.mx_dtype(dtype))
    got, x = np.array(mx.to_fp8(a)), h.to_np(a)
    if h.on_gpu():  # which may hold a subnormal bfloat16 for zero, but not lose its sign
        np.testing.assert_array_equal(got[np.abs(x) < 1e-38] & 0x7F, 0)
    np.testing.assert_array_equal(got, nearest(x))


def test_layouts(rng):
    x = rng.normal(size=(4, 6)).astype(np.float32) * 50
    for label, a in h.layouts(x, "float32"):
        np.testing.assert_array_equal(np.array(mx.to_fp8(a)), nearest(x), err_msg=label)
    codes = rng.integers(0, 127, (4, 6)).astype(np.uint8)
    for label, a in h.layouts(codes, "uint8"):
        got = np.array(mx.from_fp8(a, mx.float32))
        np.testing.assert_array_equal(got, table()[codes], err_msg=label)
    assert mx.to_fp8(mx.array(1.0)).item() == 0x38
    assert mx.to_fp8(mx.zeros((0, 2))).shape == (0, 2)


def test_refusals():
    for dtype in (mx.int32, mx.bool_, mx.complex64, mx.uint8):
        with pytest.raises(ValueError, match="to_fp8.*real floating"):
            mx.to_fp8(mx.ones((2,), dtype))
        with pytest.raises(ValueError, match="from_fp8.*real floating"):
            mx.from_fp8(mx.array(CODES), mx.int32)
    for dtype in (mx.int8, mx.float32, mx.uint16):
        with pytest.raises(ValueError, match="uint8"):
            mx.from_fp8(mx.ones((2,), dtype))
    with pytest.raises(TypeError):
        mx.to_fp8([1.0])
    with mx.stream(mx.cpu):
        assert mx.to_fp8(mx.array([1.0], mx.float64)).item() == 0x38
        assert mx.from_fp8(mx.array(CODES[:3]), mx.float64).dtype == mx.float64
