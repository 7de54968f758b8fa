"""Reductions, argmin/argmax, softmax and logsumexp against NumPy, by dtype, axes and layout."""

import itertools

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
from scipy import special

pytestmark = pytest.mark.validation

SHAPE = (3, 4, 5, 2)
AXES = [None, 0, -1, 1, (0, 1), (1, 2), (0, 2), (-1, 0), (0, 2, 3), (1, 2, 3), (0, 1, 2, 3), ()]


def sum_dtype(dtype):
    """Small integers and bool are summed in int32 or uint32; products likewise."""
    if dtype in ("bool_", "int8", "int16"):
        return "int32"
    return "uint32" if dtype in ("uint8", "uint16") else dtype


@pytest.mark.parametrize("dtype", h.ALL)
@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "all", "any"])
def test_reductions(name, dtype, rng):
    if dtype == "complex64" and name in ("min", "max"):
        values = rng.permutation(120).reshape(SHAPE) + 0j
    elif name == "prod":
        values = rng.integers(1, 3, SHAPE)
    else:
        values = rng.integers(0, 2 if name in ("all", "any") else 8, SHAPE)
    x = h.quantise(values, dtype)
    for layout, a in h.layouts(x, dtype):
        for axis in AXES if layout in ("contiguous", "transposed") else [None, 0, -1, (0, 2)]:
            got = getattr(mx, name)(a, axis=axis)
            label = f"{layout} axis={axis}"
            if name in ("all", "any"):
                want = getattr(np, name)(x != 0, axis=axis)
                assert got.dtype == mx.bool_
            elif name in ("min", "max"):
                want = getattr(np, name)(x, axis=axis)
                assert h.name_of(got.dtype) == dtype
            else:
                wide = dtype if axis == () else sum_dtype(dtype)
                assert h.name_of(got.dtype) == wide
                exact = x.astype({"complex64": np.complex128}.get(dtype, np.float64))
                if dtype in h.INTS + h.BOOL:
                    exact = x.astype(h.np_dtype(wide))
                with np.errstate(over="ignore"):
                    want = getattr(np, name)(exact, axis=axis, dtype=exact.dtype)
                if dtype in h.FLOATS + ["complex64"]:
                    rtol = {"float16": 1e-3, "bfloat16": 8e-3}.get(dtype, 1e-6)
                    limit = 65504 if dtype == "float16" else np.inf
                    small = np.abs(want) <= limit
                    assert got.shape == np.shape(want), label
                    np.testing.assert_allclose(
                        h.to_np(got)[small], np.asarray(want)[small], rtol=rtol, err_msg=label
                    )
                    continue
            assert got.shape == np.shape(want), label
            np.testing.assert_array_equal(h.to_np(got), want, err_msg=label)


@pytest.mark.parametrize(
    "shape", [(), (1,), (7,), (1000,), (33, 1), (1, 65), (17, 129), (4, 1, 300), (2, 3, 2, 3, 5)]
)
def test_shapes_and_keepdims(shape, rng):
    x = rng.normal(size=shape).astype(np.float32)
    a = mx.array(x)
    axes = [None, *range(len(shape)), *itertools.combinations(range(len(shape)), 2)]
    for axis, keep in itertools.product(axes, [False, True]):
        for name in ("sum", "max", "mean", "var", "std"):
            got = getattr(mx, name)(a, axis=axis, keepdims=keep)
            want = getattr(np, name)(x.astype(np.float64), axis=axis, keepdims=keep)
            assert got.shape == want.shape
            np.testing.assert_allclose(np.array(got), want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("n", [1, 31, 32, 33, 255, 1023, 4097, 70001])
def test_long_rows_and_columns(n, rng):
    """Sizes around the widths that kernels work in, as a row, a column and the whole array."""
    x = rng.normal(size=(3, n)).astype(np.float32)
    for a in (mx.array(x), mx.array(np.ascontiguousarray(x.T)).T):
        for axis in (0, 1, None):
            want = x.astype(np.float64).sum(axis)
            scale = np.abs(x).astype(np.float64).sum(axis)
            error = np.abs(np.array(mx.sum(a, axis)) - want)
            assert (error <= 1e-6 * scale + 1e-6).all(), f"axis {axis}: {error.max()}"
            np.testing.assert_array_equal(np.array(mx.max(a, axis)), x.max(axis))
            np.testing.assert_array_equal(np.array(mx.argmin(a, axis)), x.argmin(axis))


def test_variance_of_complex_numbers_is_real():
    a = mx.array([1 + 2j, 3 - 1j, -2j])
    for f, g in ((mx.var, np.var), (mx.std, np.std)):
        assert f(a).dtype == mx.float32
        assert f(a).item() == pytest.approx(g(np.array(a)), rel=1e-6)


def test_a_large_float32_sum_keeps_its_digits(rng):
    x = rng.uniform(size=1 << 20).astype(np.float32)
    assert abs(mx.sum(mx.array(x)).item() / x.astype(np.float64).sum() - 1) < 2e-6
    ones = mx.ones((1 << 14,), mx.float16)
    assert mx.sum(ones).item() == 1 << 14
    assert mx.mean(mx.full((70000,), 1.0, mx.bfloat16)).item() == 1


def test_empty_reductions():
    z = mx.zeros((0, 3))
    assert mx.sum(z).item() == 0 and mx.prod(z).item() == 1
    assert mx.all(z).item() is True and mx.any(z).item() is False
    assert mx.sum(z, axis=0).tolist() == [0, 0, 0] and mx.prod(z, axis=0).tolist() == [1, 1, 1]
    assert mx.sum(z, axis=1).shape == (0,)
    assert mx.max(mx.zeros((0, 3)), axis=1).shape == (0,)
    assert np.isnan(mx.mean(z).item())
    for f in (mx.max, mx.min, mx.argmax, mx.argmin):
        with pytest.raises(ValueError, match="zero size|size 0|empty"):
            mx.eval(f(z))


@pytest.mark.parametrize("name", ["max", "min"])
def test_nan_passes_through_extremes(name, rng):
    for shape, axis in [
        ((5,), None),
        ((64, 3), 0),
        ((3, 64), 1),
        ((40, 70), None),
        ((4, 5, 6), (0, 2)),
    ]:
        x = rng.normal(size=shape).astype(np.float32)
        x.flat[x.size // 2] = np.nan
        for _, a in h.layouts(x, "float32"):
            np.testing.assert_array_equal(
                np.array(getattr(mx, name)(a, axis)), getattr(np, name)(x, axis)
            )
    assert np.isnan(h.to_np(getattr(mx, name)(mx.array([1.0, np.nan], mx.bfloat16))))
    assert np.isnan(getattr(mx, name)(mx.array([np.nan, 1.0], mx.float16)).item())
    pair = getattr(mx, name + "imum")(
        mx.array([np.nan, 1.0, np.nan]), mx.array([1.0, np.nan, np.nan])
    )
    assert np.isnan(np.array(pair)).all()


@pytest.mark.parametrize("dtype", h.REAL)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_arg_reductions(name, dtype, rng):
    """The first of equal values wins; the result is uint32."""
    x = h.quantise(rng.integers(0, 2 if dtype == "bool_" else 6, (4, 5, 6)), dtype)
    for layout, a in h.layouts(x, dtype):
        for axis in (None, 0, 1, 2, -1):
            for keep in (False, True):
                got = getattr(mx, name)(a, axis=axis, keepdims=keep)
                want = getattr(np, name)(x, axis=axis, keepdims=keep)
                assert got.dtype == mx.uint32 and got.shape == np.shape(want)
                np.testing.assert_array_equal(np.array(got), want, err_msg=f"{layout} {axis}")


def test_integer_extremes_and_infinities():
    for dtype in h.INTS:
        info = np.iinfo(dtype)
        a = mx.array(np.array([info.min, 0, info.max], dtype))
        assert mx.min(a).item() == info.min and mx.max(a).item() == info.max
    a = mx.array([-np.inf, np.inf])
    assert mx.max(a).item() == np.inf and mx.min(a).item() == -np.inf
    assert mx.max(mx.array([-np.inf])).item() == -np.inf
    assert mx.sum(mx.array([2**31 - 1, 1])).item() == -(2**31)
    assert mx.sum(mx.array([2**40, 1], mx.int64)).item() == 2**40 + 1


@pytest.mark.parametrize("dtype", h.FLOATS)
def test_mean_var_std(dtype, rng):
    x = h.quantise(rng.normal(size=(6, 7)) + 2, dtype)
    a = h.from_np(x, dtype)
    rtol = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    for axis in (None, 0, 1):
        wide = x.astype(np.float64)
        np.testing.assert_allclose(h.to_np(mx.mean(a, axis)), wide.mean(axis), rtol=rtol)
        for ddof in (0, 1):
            np.testing.assert_allclose(
                h.to_np(mx.var(a, axis, ddof=ddof)), wide.var(axis, ddof=ddof), rtol=4 * rtol
            )
            np.testing.assert_allclose(
                h.to_np(mx.std(a, axis, ddof=ddof)), wide.std(axis, ddof=ddof), rtol=4 * rtol
            )
    assert mx.mean(mx.array([1, 2])).dtype == mx.float32 and mx.mean(mx.array([1, 2])).item() == 1.5


@pytest.mark.parametrize("dtype", h.FLOATS)
def test_softmax_and_logsumexp(dtype, rng):
    atol = {"float32": 1e-6, "float16": 2e-3, "bfloat16": 1e-2}[dtype]
    for shape in [(5,), (3, 1), (4, 33), (2, 3, 129), (2, 1025)]:
        x = h.quantise(rng.normal(size=shape) * 4, dtype)
        for layout, a in h.layouts(x, dtype):
            wide = x.astype(np.float64)
            for axis in (None, -1, 0):
                got = mx.softmax(a, axis)
                assert h.name_of(got.dtype) == dtype
                np.testing.assert_allclose(
                    h.to_np(got), special.softmax(wide, axis), atol=atol, err_msg=layout
                )
                got = h.to_np(mx.logsumexp(a, axis))
                np.testing.assert_allclose(
                    got, special.logsumexp(wide, axis), rtol=4 * atol, atol=4 * atol
                )
    a = h.from_np(np.arange(8) * 0.5, dtype)
    np.testing.assert_allclose(
        h.to_np(mx.softmax(a, precise=True)), special.softmax(np.arange(8) * 0.5), atol=atol
    )


def test_places_of_complex_extremes(rng):
    """By real parts first, then by imaginary ones; the first of equals, and NaN before all."""
    x = (rng.integers(-2, 3, SHAPE) + 1j * rng.integers(-2, 3, SHAPE)).astype(np.complex64)
    for layout, a in h.layouts(x, "complex64"):
        for axis in (None, 0, 1, -1):
            for name in ("argmax", "argmin"):
                got = getattr(mx, name)(a, axis)
                assert got.dtype == mx.uint32
                np.testing.assert_array_equal(h.to_np(got), getattr(np, name)(x, axis), layout)
    kept = mx.argmax(mx.array(x), 2, keepdims=True)
    np.testing.assert_array_equal(h.to_np(kept), np.argmax(x, 2, keepdims=True))
    missing = mx.array([1 + 2j, complex(np.nan, 1), 3, complex(3, np.nan)])
    assert [mx.argmax(missing).item(), mx.argmin(missing).item()] == [1, 1]
    assert mx.argmax(mx.array(2j)).item() == 0


def test_softmax_of_nothing_has_any_axis():
    for shape in ((0,), (0, 3), (2, 0)):
        assert mx.softmax(mx.zeros(shape), 5).shape == shape
    with pytest.raises(IndexError):
        mx.softmax(mx.zeros((1,)), 5)


def test_softmax_over_no_axes_keeps_the_dtype():
    for x in (mx.array(3), mx.array([True, False]), mx.array([1, 2], mx.uint8)):
        y = mx.softmax(x, ())
        assert (y.dtype, y.shape) == (x.dtype, x.shape) and mx.all(y == 1).item()
    assert mx.softmax(mx.array(3), None).dtype == mx.int32


def test_softmax_of_extremes():
    assert mx.softmax(mx.array([1000.0, 1000.0])).tolist() == [0.5, 0.5]
    assert mx.softmax(mx.array([-1e30, 0.0])).tolist() == [0, 1]
    assert mx.softmax(mx.array([-np.inf, 0.0])).tolist() == [0, 1]
    assert mx.logsumexp(mx.array([-np.inf, -np.inf])).item() == -np.inf
    assert mx.logsumexp(mx.array([1000.0, 1000.0])).item() == pytest.approx(1000 + np.log(2))
    np.testing.assert_allclose(
        np.array(mx.softmax(mx.zeros((2, 3)), (0, 1))), np.full((2, 3), 1 / 6), rtol=1e-6
    )
    assert mx.softmax(mx.array([1, 1])).dtype == mx.float32


def test_arg_reductions_of_the_lowest_and_highest_value():
    """The first element counts, too, where all have the value that reductions begin with."""
    for dtype in ("uint8", "uint32", "uint64", "int32", "int64"):
        info = np.iinfo(dtype)
        for n in (1, 2, 3, 5, 40):
            low, high = (np.full((2, n), v, dtype) for v in (info.min, info.max))
            assert mx.argmax(mx.array(low), axis=1).tolist() == [0, 0], (dtype, n)
            assert mx.argmin(mx.array(high), axis=1).tolist() == [0, 0], (dtype, n)


SHAPES = [(2, 3), (0,), (2, 0), (0, 2), (0, 0), (0, 3, 0), (2, 0, 3)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reductions_over_axes_of_length_zero(shape):
    """As MLX: max and min refuse whatever is left, argmax, argmin and logsumexp any empty array."""
    a = mx.zeros(shape)
    axes = [None, *range(-len(shape), len(shape)), tuple(range(len(shape))), (0,)]
    for axis in axes:
        over = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else [axis]
        empty = any(shape[i] == 0 for i in over)
        left = tuple(n for i, n in enumerate(shape) if i not in [k % len(shape) for k in over])
        for name in ("max", "min", "minmax"):
            f = getattr(mx, name)
            if empty:
                which = min(i % len(shape) for i in over if shape[i] == 0)
                word = "min" if name == "minmax" else name
                text = f"{word} reduce over axis {which} with size 0"
                with pytest.raises(ValueError, match=text):
                    f(a, axis)
            else:
                out = f(a, axis)
                assert (out[0] if name == "minmax" else out).shape == left
        for name in ("sum", "prod", "all", "any", "mean", "var", "std", "count_nonzero"):
            assert getattr(mx, name)(a, axis=axis).shape == left, name
        if empty:
            with pytest.raises(ValueError, match="empty axis"):
                mx.median(a, axis)
        if a.size == 0:
            with pytest.raises(ValueError, match="empty array"):
                mx.logsumexp(a, axis)
        if not isinstance(axis, tuple):
            for name in ("argmax", "argmin"):
                if a.size == 0:
                    with pytest.raises(ValueError, match="zero size array"):
                        getattr(mx, name)(a, axis=axis)
            for name in (
                "cumsum",
                "cumprod",
                "cummax",
                "cummin",
                "logcumsumexp",
                "sort",
                "argsort",
            ):
                want = shape if axis is not None else (a.size,)
                assert getattr(mx, name)(a, axis=axis).shape == want, name


STATISTICS = {
    "mean": lambda x, axis: x.mean(axis),
    "var": lambda x, axis: x.var(axis),
    "std": lambda x, axis: x.std(axis),
    "norm": lambda x, axis: np.sqrt((x * x).sum(axis)),
    "logsumexp": lambda x, axis: special.logsumexp(x, axis),
}


def statistic(name, a, axis):
    return mx.linalg.norm(a, axis=axis) if name == "norm" else getattr(mx, name)(a, axis=axis)


@pytest.mark.parametrize("dtype", [*h.FLOATS, "int32", "int8", "uint8", "bool_"])
@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_of_layouts(name, dtype, rng):
    x = h.quantise(rng.normal(size=SHAPE) * 3 + 5, dtype)
    wide = x.astype(np.float64)
    rtol = {"float16": 3e-3, "bfloat16": 3e-2}.get(dtype, 1e-5)
    for layout, a in h.layouts(x, dtype):
        for axis in [None, 0, 1, -1, (0, 2), (1, 3)]:
            if name == "norm" and isinstance(axis, tuple):
                continue
            got = statistic(name, a, axis)
            assert h.name_of(got.dtype) == (dtype if dtype in h.FLOATS else "float32")
            want = STATISTICS[name](wide, axis)
            label = f"{layout} axis={axis}"
            np.testing.assert_allclose(h.to_np(got), want, rtol=rtol, atol=rtol, err_msg=label)


@pytest.mark.parametrize("shape", [(3, 70_001), (70_001, 3), (2, 513, 65), (5, 1 << 16), (1, 9)])
@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_of_long_axes_far_from_zero(name, shape, rng):
    """Parts of an axis are joined, and deviations do not drown in the mean."""
    x = (rng.normal(size=shape) + 100).astype(np.float32)
    for axis in [None, *range(len(shape))]:
        got = np.array(statistic(name, mx.array(x), axis))
        want = STATISTICS[name](x.astype(np.float64), axis)
        # Of few elements a deviation may be as small as what the mean is rounded to.
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=8e-6, err_msg=f"axis={axis}")


def test_statistics_of_what_is_not_finite():
    inf, nan = float("inf"), float("nan")
    for first in ([1.0, inf], [inf, 1.0], [inf, inf], [nan, 1.0], [1.0, -inf], [inf, -inf]):
        for more in ([], [2.0] * 40, [2.0] * 3000):
            a = mx.array(first + more)
            x = np.array(a).astype(np.float64)
            with np.errstate(invalid="ignore"):
                for name in ("mean", "var", "std", "norm"):
                    want = STATISTICS[name](x, None)
                    np.testing.assert_equal(np.array(statistic(name, a, None)), want, err_msg=name)
            for b in (a[None], a[:, None]):
                got = np.array(mx.logsumexp(b, axis=(0, 1)))
                np.testing.assert_equal(got, np.float32(special.logsumexp(x)))
    low = mx.full((5, 7), -inf)
    assert mx.logsumexp(low, axis=0).tolist() == [-inf] * 7
    assert mx.logsumexp(low).item() == -inf
    tiny = mx.array([1e-30, 3e-30] * 50)
    assert mx.mean(tiny).item() == pytest.approx(2e-30)


def test_more_elements_than_float16_counts_to():
    a = mx.array([0.75, 0.25] * 35_000, mx.float16)
    assert mx.mean(a).item() == 0.5
    assert mx.var(a).item() == 0.0625 and mx.std(a).item() == 0.25
    value, gradient = mx.value_and_grad(mx.mean)(a)
    assert value.item() == 0.5 and gradient[0].item() == pytest.approx(1 / 70_000, rel=3e-3)
    assert mx.compile(mx.var, shapeless=True)(a).item() == 0.0625


def test_degrees_of_freedom(rng):
    x = rng.normal(size=(6, 40)).astype(np.float32)
    for ddof, axis in itertools.product([0, 1, 2, 39], [None, 1]):
        got, want = mx.var(mx.array(x), axis=axis, ddof=ddof), x.var(axis, ddof=ddof)
        np.testing.assert_allclose(np.array(got), want, rtol=1e-5)
    assert mx.isnan(mx.var(mx.ones((3,)), ddof=5)).item()
    assert mx.isnan(mx.var(mx.ones((0,)))).item() and mx.linalg.norm(mx.ones((0,))).item() == 0


@pytest.mark.parametrize("name", ["mean", "var", "std", "logsumexp"])
def test_statistics_are_the_same_where_they_are_differentiated(name, rng):
    a = mx.array(rng.normal(size=(9, 33)).astype(np.float32))
    f = getattr(mx, name)
    for axis in (None, 0, 1):
        value, gradient = mx.value_and_grad(lambda x, k=axis: f(x, axis=k).sum())(a)
        assert value.item() == pytest.approx(f(a, axis=axis).sum().item(), rel=1e-5)
        assert gradient.shape == a.shape
        compiled = mx.compile(lambda x, k=axis: f(x, axis=k))(a)
        batched = mx.vmap(lambda x, k=axis: f(x, axis=k))(a[None])[0]
        for other in (compiled, batched):
            np.testing.assert_allclose(np.array(other), np.array(f(a, axis=axis)), rtol=1e-5)


ODD = [2, 5, 9, 15, 17, 31, 33, 63, 77, 129, 1000, 1023, 2049]


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "bfloat16", "int8", "bool_", "int32", "int64"]
)
def test_rows_that_begin_anywhere(dtype, rng):
    """Rows whose length is no multiple of 16 bytes, from any offset."""
    for n, offset in itertools.product(ODD, (0, 1, 3)):
        x = h.quantise(rng.integers(0, 5, (7, n + offset)), dtype)
        a, x = h.from_np(x, dtype)[:, offset:], x[:, offset:]
        label = f"{n} from {offset}"
        total = x.astype(np.int64).sum(-1)
        got = np.array(mx.sum(a, axis=-1).astype(mx.float32))
        rtol = {"float16": 1e-3, "bfloat16": 8e-3}.get(dtype, 0)
        np.testing.assert_allclose(got, total, rtol=rtol, err_msg=label)
        np.testing.assert_array_equal(h.to_np(mx.max(a, axis=-1)), x.max(-1), err_msg=label)
        np.testing.assert_array_equal(np.array(mx.argmax(a, axis=-1)), x.argmax(-1), err_msg=label)
        np.testing.assert_array_equal(np.array(mx.argmin(a, axis=-1)), x.argmin(-1), err_msg=label)
        np.testing.assert_array_equal(np.array(mx.any(a, axis=-1)), (x != 0).any(-1), err_msg=label)
        if dtype in h.FLOATS:
            wide = x.astype(np.float64)
            rtol = {"float16": 2e-3, "bfloat16": 2e-2}.get(dtype, 2e-6)
            got = h.to_np(mx.softmax(a, axis=-1))
            np.testing.assert_allclose(got, special.softmax(wide, -1), rtol=rtol, err_msg=label)
            got = h.to_np(mx.logsumexp(a, axis=-1))
            np.testing.assert_allclose(got, special.logsumexp(wide, -1), rtol=rtol, err_msg=label)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool_", "int32"])
def test_few_elements_for_each_of_many_results(dtype, rng):
    for shape, axis in [
        ((4, 3001), 0),
        ((3, 4096), 0),
        ((2, 9, 2, 11, 2, 16), (2, 4)),
        ((31, 7, 64), 0),
    ]:
        x = h.quantise(rng.integers(0, 5, shape), dtype)
        a = h.from_np(x, dtype)
        got = np.array(mx.sum(a, axis=axis).astype(mx.float32))
        np.testing.assert_array_equal(got, x.astype(np.int64).sum(axis))
        np.testing.assert_array_equal(h.to_np(mx.max(a, axis=axis)), x.max(axis))
        np.testing.assert_array_equal(np.array(mx.all(a, axis=axis)), (x != 0).all(axis))
        if isinstance(axis, int):
            np.testing.assert_array_equal(np.array(mx.argmax(a, axis=axis)), x.argmax(axis))
        got = np.array(mx.var(a, axis=axis).astype(mx.float32))
        tolerance = 2e-2 if dtype == "bfloat16" else 1e-5
        np.testing.assert_allclose(got, x.astype(np.float64).var(axis), rtol=tolerance, atol=1e-6)


def whole_numbers(rng, shape, dtype):
    """Numbers of a dtype, and the same in NumPy."""
    a = mx.array(rng.integers(-9, 10, shape).astype(np.float32)).astype(getattr(mx, dtype))
    mx.eval(a)
    return a, np.array(a.astype(mx.float32), np.float64)


def check_folds(a, want, axis, dtype):
    """Extremes, their places, sums of exact dtypes and statistics of float32; `want` in float64."""
    for name in ("max", "min", "argmax", "argmin"):
        got = np.array(getattr(mx, name)(a, axis=axis).astype(mx.float32))
        np.testing.assert_array_equal(got, getattr(want, name)(axis))
    if dtype in ("float32", "int32"):
        np.testing.assert_array_equal(np.array(mx.sum(a, axis=axis)), want.sum(axis))
    if dtype == "float32":
        for name in ("var", "std"):
            got = np.array(getattr(mx, name)(a, axis=axis))
            np.testing.assert_allclose(got, getattr(want, name)(axis), rtol=1e-5)
        sums = np.log(np.exp(want).sum(axis))
        np.testing.assert_allclose(np.array(mx.logsumexp(a, axis=axis)), sums, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int32", "int8"])
@pytest.mark.parametrize("columns", [3, 6, 77, 501, 1023])
def test_many_rows_of_odd_columns(columns, dtype):
    """Several rows are taken for one; the last one of these is not whole."""
    rng = np.random.default_rng(columns)
    a, want = whole_numbers(rng, ((5 << 20) // columns // 4 + 3, columns), dtype)
    check_folds(a, want, 0, dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int32", "int8"])
@pytest.mark.parametrize("step", [2, 4, 8])
@pytest.mark.parametrize("n", [40, 999, 1000, 70000])
def test_each_so_manieth_element_of_rows(n, step, dtype):
    rng = np.random.default_rng(n + step)
    a, want = whole_numbers(rng, (5, n * step), dtype)
    for part in (slice(None, None, step), slice(step - 1, None, step)):
        check_folds(a[:, part], want[:, part], 1, dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("n", [5, 64, 1000, 5003])
def test_places_of_extremes_among_zeros_and_nan(n, dtype):
    """The first of equal ones, zeros of both signs being equal, or the first NaN of either sign."""
    rng = np.random.default_rng(n)
    rows = np.where(rng.random((6, n)) < 0.5, 0.0, -0.0).astype(np.float32)
    rows[1] = -np.abs(rng.standard_normal(n))
    rows[1, n // 2 :: 3] = -0.0
    rows[2, n // 3] = np.nan
    rows[3, n // 3 :] = -np.float32(np.nan)
    rows[4] = -np.inf
    rows[5] = np.inf
    for x in (rows, -rows):
        a = mx.array(x).astype(getattr(mx, dtype))
        np.testing.assert_array_equal(np.array(mx.argmax(a, axis=1)), x.argmax(1))
        np.testing.assert_array_equal(np.array(mx.argmin(a, axis=1)), x.argmin(1))


def test_logsumexp_tells_of_no_elements_before_axes():
    for axis in (2, -3, (0, 1)):
        with pytest.raises(ValueError, match="empty"):
            mx.logsumexp(mx.zeros((0,)), axis)
    with pytest.raises(IndexError, match="axis 2"):
        mx.logsumexp(mx.zeros((1,)), 2)
