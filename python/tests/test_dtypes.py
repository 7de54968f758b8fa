"""Dtypes: sizes, categories, promotion, casts, finfo and iinfo."""

import itertools
import math

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

ORDER = h.BOOL + h.UINTS + h.SINTS + ["float16", "bfloat16", "float32", "float64", "complex64"]


def promoted(a, b):
    """MLX's lattice: the wider of a kind; u + i the next wider signed; f16 + bf16 is float32."""
    if a == b:
        return a
    pair = {a, b}
    if "complex64" in pair:
        return "complex64"
    floats = [d for d in ("float64", "float32", "bfloat16", "float16") if d in pair]
    if floats:
        return "float32" if pair == {"float16", "bfloat16"} else floats[0]
    if "bool_" in pair:
        return (pair - {"bool_"}).pop()
    size = {d: np.dtype(d).itemsize for d in pair}
    if a[0] == b[0]:
        return max(pair, key=size.get)
    unsigned, signed = sorted(pair, key=lambda d: d[0] != "u")
    if size[signed] > size[unsigned]:
        return signed
    return {1: "int16", 2: "int32", 4: "int64", 8: "float32"}[size[unsigned]]


@pytest.mark.parametrize(("a", "b"), list(itertools.product(ORDER, ORDER)))
def test_promotion(a, b):
    want = promoted(a, b)
    with mx.stream(mx.cpu):
        x, y = mx.ones((2,), h.mx_dtype(a)), mx.ones((2,), h.mx_dtype(b))
        assert h.name_of(mx.maximum(x, y).dtype) == want
        assert h.name_of(mx.result_type(x, y)) == want
        assert h.name_of(mx.result_type(x.dtype, y.dtype)) == want


def test_sizes_and_names():
    sizes = dict(zip(ORDER, [1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8], strict=True))
    for name, size in sizes.items():
        d = h.mx_dtype(name)
        assert d.size == size
        assert repr(d) == "mlx.core." + name.rstrip("_")
        assert hash(d) == hash(h.mx_dtype(name)) and d == h.mx_dtype(name)
    assert len({h.mx_dtype(n) for n in ORDER}) == len(ORDER)
    assert mx.float32 != mx.int32


def test_issubdtype():
    tree = {
        mx.signedinteger: h.SINTS,
        mx.unsignedinteger: h.UINTS,
        mx.integer: h.INTS,
        mx.floating: [*h.FLOATS, "float64"],
        mx.complexfloating: ["complex64"],
        mx.inexact: [*h.FLOATS, "float64", "complex64"],
        mx.number: [*h.INTS, *h.FLOATS, "float64", "complex64"],
        mx.generic: ORDER,
    }
    for category, members in tree.items():
        for name in ORDER:
            assert mx.issubdtype(h.mx_dtype(name), category) == (name in members)
    assert mx.issubdtype(mx.signedinteger, mx.integer)
    assert mx.issubdtype(mx.floating, mx.inexact)
    assert not mx.issubdtype(mx.integer, mx.inexact)
    assert mx.issubdtype(mx.int32, mx.int32) and not mx.issubdtype(mx.int32, mx.int64)


def test_isdtype_and_can_cast():
    assert mx.isdtype(mx.float32, "real floating") and not mx.isdtype(mx.int32, "real floating")
    assert mx.isdtype(mx.int8, ("bool", "signed integer")) and mx.isdtype(mx.uint8, mx.uint8)
    for nested in (((mx.int8,),), ("bool", ("bool",)), ((),)):
        with pytest.raises(ValueError, match="must be a dtype, a string, or a tuple"):
            mx.isdtype(mx.int8, nested)
    assert mx.can_cast(mx.int8, mx.int16) and not mx.can_cast(mx.float32, mx.int32)


@pytest.mark.parametrize(
    ("name", "eps", "top", "smallest", "bits"),
    [
        ("float16", 2.0**-10, 65504.0, 2.0**-14, 16),
        ("bfloat16", 2.0**-7, 3.3895313892515355e38, 2.0**-126, 16),
        ("float32", 2.0**-23, 3.4028234663852886e38, 2.0**-126, 32),
        ("float64", 2.0**-52, 1.7976931348623157e308, 2.0**-1022, 64),
    ],
)
def test_finfo(name, eps, top, smallest, bits):
    info = mx.finfo(h.mx_dtype(name))
    assert info.dtype == h.mx_dtype(name)
    assert math.isclose(info.eps, eps) and math.isclose(info.max, top) and info.min == -info.max
    assert math.isclose(info.smallest_normal, smallest) and info.bits == bits


@pytest.mark.parametrize("name", h.INTS)
def test_iinfo(name):
    info, want = mx.iinfo(h.mx_dtype(name)), np.iinfo(name)
    assert (info.min, info.max, info.dtype) == (want.min, want.max, h.mx_dtype(name))


@pytest.mark.parametrize("source", ORDER)
def test_casts_of_small_values(source):
    """Values that every dtype holds survive; floats are truncated toward zero."""
    values = np.array([0, 1, 1, 0, 1]) if source == "bool_" else np.array([0, 1, 3, 100, 127])
    for target in h.session_dtypes():
        if source == "float64" and h.on_gpu():
            continue
        got = h.from_np(values, source).astype(h.mx_dtype(target))
        want = values.astype(bool) if target == "bool_" else values
        assert h.name_of(got.dtype) == target
        np.testing.assert_array_equal(h.to_np(got), want, err_msg=target)


def test_casts_truncate_wrap_and_round():
    f = mx.array([1.9, -1.9, 0.5, -0.5])
    assert f.astype(mx.int32).tolist() == [1, -1, 0, 0]
    assert f.astype(mx.bool_).tolist() == [True] * 4
    i = mx.array([300, -1, 65536 + 7])
    assert i.astype(mx.uint8).tolist() == [44, 255, 7]
    assert i.astype(mx.int16).tolist() == [300, -1, 7]
    assert mx.array([2**40 + 5], mx.int64).astype(mx.int32).tolist() == [5]
    assert mx.array([-1], mx.int8).astype(mx.uint64).tolist() == [2**64 - 1]
    assert mx.array([2.5 + 1j]).astype(mx.float32).tolist() == [2.5]
    assert mx.array([2.5]).astype(mx.complex64).tolist() == [2.5 + 0j]


@pytest.mark.parametrize("target", ["float16", "bfloat16"])
def test_casts_from_float32_round_to_nearest_even(target, rng):
    x = np.concatenate(
        [
            rng.integers(0, 2**32, 20000, dtype=np.uint64).astype(np.uint32).view(np.float32),
            rng.normal(size=5000).astype(np.float32),
            np.array([65504, 65519.99, 65520, 1 + 2**-11, 1 + 3 * 2**-11, 1.00390625], np.float32),
            np.array([0.0, -0.0, np.inf, -np.inf], np.float32),
        ]
    )
    x = x[~np.isnan(x)]
    if h.on_gpu():
        x = x[(np.abs(x) >= 2.0**-126) | (x == 0)]
    got = h.to_np(mx.array(x).astype(h.mx_dtype(target)))
    want = h.quantise(x, target)
    np.testing.assert_array_equal(got, want)
    assert (np.signbit(got) == np.signbit(want)).all()
    assert np.isnan(h.to_np(mx.array([np.nan]).astype(h.mx_dtype(target)))).all()


@pytest.mark.parametrize("source", ["int32", "uint32", "int64", "uint64"])
def test_casts_of_large_integers_to_float_round_to_nearest(source, rng):
    info = np.iinfo(source)
    x = rng.integers(info.min, info.max, 2000, dtype=source, endpoint=True)
    x = np.concatenate([x, np.array([0, 1, info.max, info.min, 2**24 + 1, 2**24 + 3], source)])
    np.testing.assert_array_equal(np.array(mx.array(x).astype(mx.float32)), x.astype(np.float32))


def test_view_reinterprets_bits():
    a = mx.array([1.0, -2.0])
    assert a.view(mx.uint32).tolist() == [0x3F800000, 0xC0000000]
    assert a.view(mx.uint8).shape == (8,)
    assert mx.view(a.view(mx.uint16), mx.float32).tolist() == [1.0, -2.0]
    assert mx.view(mx.reshape(mx.arange(8, dtype=mx.float32), (2, 4)).T, mx.int32).shape == (4, 2)


def test_float64_lives_on_the_cpu():
    with mx.stream(mx.cpu):
        a = mx.array([1.0, 2.0], mx.float64)
        assert mx.exp(a).dtype == mx.float64
        np.testing.assert_allclose(np.array(mx.exp(a)), np.exp([1.0, 2.0]), rtol=1e-14)
        assert (a / 3).dtype == mx.float64


@pytest.mark.gpu
def test_float64_on_a_gpu_stream_is_refused():
    with mx.stream(mx.cpu):
        a = mx.array([1.0, 2.0], mx.float64)
    with pytest.raises(ValueError, match="float64"):
        mx.eval(mx.exp(a, stream=mx.gpu))
    h.works()


NUMBERS = [math.inf, -math.inf, math.nan, 3e9, -3e9, 5e9, 1e19, -1e19, 2.0**63, 300.7, -1.5]


@pytest.mark.parametrize("name", h.INTS)
def test_python_floats_become_integers_as_arrays_do(name):
    dtype, n = getattr(mx, name), 10**9
    low, far = -(2**31), -(2**63)
    want = {
        "int32": [low] * 9,
        "uint32": [0, 0, 0, 3 * n, 2**32 - 3 * n, 5 * n - 2**32, 0, 0, 0],
        "int64": [far, far, far, 3 * n, -3 * n, 5 * n, far, far, far],
        "uint64": [0, 2**63, 2**63, 3 * n, 2**64 - 3 * n, 5 * n, 10**19, 2**63, 2**63],
    }.get(name, [0] * 9)
    # What fits in 32 bits wraps around.
    want += np.array([300, -1]).astype(name).tolist()
    assert mx.array(NUMBERS, dtype).tolist() == want
    assert [mx.array(v, dtype).item() for v in NUMBERS] == want
