"""Creation, views, joining and selecting ops against NumPy."""

import itertools

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

pytestmark = pytest.mark.validation


def same(got, want):
    want = np.asarray(want)
    assert got.shape == want.shape
    np.testing.assert_array_equal(h.to_np(got), want)


# Creation


@pytest.mark.parametrize("dtype", h.ALL)
def test_constants(dtype):
    d = h.mx_dtype(dtype)
    for shape in [(), (0,), (3,), (2, 0), (2, 3, 4)]:
        same(mx.zeros(shape, d), np.zeros(shape))
        same(mx.ones(shape, d), np.ones(shape))
        same(mx.full(shape, 1, d), np.ones(shape))
        assert mx.zeros(shape, d).dtype == d
    same(mx.zeros_like(mx.ones((2, 3), d)), np.zeros((2, 3)))
    assert mx.ones_like(mx.zeros((2,), d)).dtype == d


def test_full():
    assert mx.full((2,), 3).dtype == mx.int32 and mx.full((2,), 3.0).dtype == mx.float32
    same(mx.full((2, 3), mx.array([1, 2, 3])), [[1, 2, 3]] * 2)
    same(mx.full(4, 2.5, mx.float16), [2.5] * 4)
    assert mx.zeros(3).shape == (3,) and mx.zeros(()).dtype == mx.float32
    same(mx.full_like(mx.zeros((2, 2)), 7), np.full((2, 2), 7))


@pytest.mark.parametrize(
    "args",
    [
        (5,),
        (2, 9),
        (0, 10, 3),
        (10, 0, -3),
        (5, 5),
        (5, 2),
        (0.0, 1.0, 0.25),
        (1, 2, 0.3),
        (-3.0,),
        (0,),
    ],
)
def test_arange(args):
    got = mx.arange(*args)
    want = np.arange(*args)
    assert got.dtype == (mx.float32 if any(isinstance(a, float) for a in args) else mx.int32)
    assert got.shape == want.shape
    np.testing.assert_allclose(np.array(got), want, rtol=1e-6)


@pytest.mark.parametrize("dtype", h.INTS + h.FLOATS)
def test_arange_of_each_dtype(dtype):
    # A stop, a step and a dtype; a step of None is the default.
    stop = mx.arange(20, 3, h.mx_dtype(dtype))
    assert stop.dtype == h.mx_dtype(dtype)
    same(stop, np.arange(0, 20, 3))
    same(mx.arange(4, None, h.mx_dtype(dtype)), np.arange(4))
    got = mx.arange(1, 20, 3, dtype=h.mx_dtype(dtype))
    assert h.name_of(got.dtype) == dtype
    same(got, np.arange(1, 20, 3))


def test_arange_of_integers_cuts_the_first_two_elements():
    """As MLX: their distance is that of the others, and how many there are is of what was given."""
    for args, want in {
        (1.5, 4.5): [1, 2, 3],
        (0.5, 1.2): [0],
        (-0.5, 0.5): [0],
        (2.9, 3.1): [2],
        (4.5, 1.5, -1): [4, 3, 2],
        (1.5, 4.5, 0.5): [1, 2, 3, 4, 5, 6],
        (1.5, 9.5, 2.5): [1, 4, 7, 10],
        (0.0, 2.0, 0.5): [0, 0, 0, 0],
    }.items():
        assert mx.arange(*args, dtype=mx.int32).tolist() == want, args
        assert mx.arange(*args, dtype=mx.int8).tolist() == want, args


def test_arange_is_told_each_argument_once():
    for args, names in (
        ((None, 2, mx.int32), {}),
        ((1, 2, mx.int32), {"dtype": mx.int8}),
        ((4, 2, mx.int32), {"stop": 3}),
        ((4, mx.int32, mx.int32), {}),
    ):
        with pytest.raises(TypeError):
            mx.arange(*args, **names)


def test_linspace():
    for args in [(0, 1), (0, 10, 11), (-2.0, 2.0, 5), (1, 1, 3), (5, -5, 4), (0, 1, 1), (0, 1, 0)]:
        np.testing.assert_allclose(
            np.array(mx.linspace(*args)), np.linspace(*args), rtol=1e-6, atol=1e-7
        )
    np.testing.assert_allclose(
        np.array(mx.linspace(0, 1, 5, endpoint=False)), np.linspace(0, 1, 5, endpoint=False)
    )
    assert mx.linspace(0, 3, 4, dtype=mx.int32).tolist() == [0, 1, 2, 3]


def test_eye_and_triangles():
    for n, m, k in itertools.product([1, 3, 5], [None, 2, 6], [-4, -1, 0, 2, 5]):
        same(mx.eye(n, m, k), np.eye(n, m, k))
        same(mx.tri(n, m, k), np.tri(n, m, k))
    same(mx.identity(3), np.eye(3))
    assert mx.eye(2, dtype=mx.int8).dtype == mx.int8
    x = np.arange(2 * 4 * 5, dtype=np.float32).reshape(2, 4, 5)
    for k in (-2, 0, 1, 7):
        same(mx.tril(mx.array(x), k), np.tril(x, k))
        same(mx.triu(mx.array(x), k), np.triu(x, k))


# Views

X = np.arange(2 * 3 * 4 * 5, dtype=np.int32).reshape(2, 3, 4, 5)


def bases():
    """The same values with row-major, transposed, reversed, sliced and broadcast memory."""
    yield from (a for _, a in h.layouts(X, "int32"))


def test_reshape():
    for a in bases():
        for shape in [(120,), (6, 20), (2, -1, 5), (5, 4, 3, 2), (1, 120, 1), (-1,)]:
            same(mx.reshape(a, shape), X.reshape(shape))
    same(mx.reshape(mx.zeros((0, 3)), (3, 0)), np.zeros((3, 0)))
    same(mx.reshape(mx.array(3), (1, 1)), [[3]])
    same(mx.reshape(mx.broadcast_to(mx.array([1, 2]), (3, 2)), (6,)), [1, 2] * 3)


def test_transposes():
    for a in bases():
        for axes in itertools.permutations(range(4)):
            same(mx.transpose(a, axes), X.transpose(axes))
        same(mx.transpose(a), X.T)
        same(mx.transpose(a, (-1, 0, -2, 1)), X.transpose(3, 0, 2, 1))
        same(mx.swapaxes(a, 1, -1), X.swapaxes(1, -1))
        same(mx.moveaxis(a, 0, 2), np.moveaxis(X, 0, 2))
        same(mx.contiguous(mx.transpose(a)), X.T)
    same(mx.permute_dims(mx.array(X), (3, 2, 1, 0)), X.T)


def test_flatten_and_unflatten():
    for a in bases():
        same(mx.flatten(a), X.reshape(-1))
        same(mx.flatten(a, 1, 2), X.reshape(2, 12, 5))
        same(mx.flatten(a, -2), X.reshape(2, 3, 20))
        same(mx.unflatten(a, 2, (2, 2)), X.reshape(2, 3, 2, 2, 5))
        same(mx.unflatten(a, -1, (-1, 1)), X[..., None])
    same(mx.flatten(mx.array(3)), [3])


def test_expand_and_squeeze():
    a = mx.array(X)
    same(mx.expand_dims(a, 0), X[None])
    same(mx.expand_dims(a, (0, -1)), X[None, ..., None])
    y = X[:1, :, :1]
    for b in (mx.array(y), mx.array(X)[:1, :, :1]):
        same(mx.squeeze(b), y.squeeze())
        same(mx.squeeze(b, 0), y.squeeze(0))
        same(mx.squeeze(b, (0, 2)), y.squeeze((0, 2)))
    assert [mx.atleast_1d(mx.array(1)).ndim, mx.atleast_2d(mx.array(1)).ndim] == [1, 2]
    assert mx.atleast_3d(mx.array([1, 2])).shape == np.atleast_3d([1, 2]).shape


def test_broadcasts():
    for source, shape in [
        ((), (2, 3)),
        ((3,), (2, 3)),
        ((2, 1), (2, 3)),
        ((1, 0), (4, 0)),
        ((1, 3), (5, 2, 3)),
    ]:
        x = np.arange(np.prod(source, dtype=int)).reshape(source)
        same(mx.broadcast_to(mx.array(x), shape), np.broadcast_to(x, shape))
    got = mx.broadcast_arrays(mx.array([[1], [2]]), mx.array([3, 4, 5]))
    assert type(got) is list
    for g, w in zip(got, np.broadcast_arrays([[1], [2]], [3, 4, 5]), strict=True):
        same(g, w)
    assert mx.broadcast_shapes((2, 1), (1, 3)) == (2, 3)


def test_slices_of_views_of_slices():
    for a in bases():
        same(a[::-1, 1:][:, ::-1, ::2].T[1:4], X[::-1, 1:][:, ::-1, ::2].T[1:4])
        same(mx.contiguous(a[1:, :, ::-2, 1::3]), X[1:, :, ::-2, 1::3])
        same(a[:, :, 1:3, 1:] + a[:, :, 2:4, :-1], X[:, :, 1:3, 1:] + X[:, :, 2:4, :-1])


def test_as_strided():
    x = np.arange(20, dtype=np.float32)
    a = mx.array(x)
    same(
        mx.as_strided(a, (4, 3), (5, 1), 2), np.lib.stride_tricks.as_strided(x[2:], (4, 3), (20, 4))
    )
    same(mx.as_strided(a, (3, 3), (1, 1)), np.lib.stride_tricks.as_strided(x, (3, 3), (4, 4)))
    same(mx.as_strided(a, (2, 4), (0, 2)), np.tile(x[:8:2], (2, 1)))
    same(mx.as_strided(mx.array(x.reshape(4, 5)).T, (3,), (1,)), x.reshape(4, 5).T.reshape(-1)[:3])


@pytest.mark.parametrize("dtype", h.ALL)
def test_copies_of_strided_memory(dtype):
    x = np.arange(4 * 6 * 5).reshape(4, 6, 5) % 100
    a = h.from_np(x, dtype)
    want = h.quantise(x, dtype)
    for index in (np.s_[::2, 1:, ::-1], np.s_[:, 3], np.s_[1:, ::5]):
        same(mx.contiguous(a[index]), want[index])
        same(mx.contiguous(a[index].T), want[index].T)


def test_stop_gradient_and_roll_and_flip():
    a = mx.array(X)
    same(mx.stop_gradient(a), X)
    same(mx.roll(a, 2), np.roll(X, 2))
    same(mx.roll(a, -3, 1), np.roll(X, -3, 1))
    same(mx.roll(a, shift=-3, axis=1), np.roll(X, -3, 1))
    same(mx.roll(a, (1, 2), (0, 3)), np.roll(X, (1, 2), (0, 3)))
    same(mx.flip(a), np.flip(X))
    same(mx.flip(a, 1), np.flip(X, 1))
    same(mx.flip(a, [1, 1]), np.flip(X, 1))  # an axis named twice counts once


# Joining and splitting


@pytest.mark.parametrize("axis", [0, 1, 2, -1, None])
def test_concatenate(axis):
    for dtype in ("int32", "bool_", "bfloat16", "complex64"):
        parts = [
            np.arange(2 * 3 * n).reshape((2, 3, n) if axis in (2, -1, None) else (2, 3, n))
            for n in (4, 4)
        ]
        arrays = [h.from_np(p, dtype) for p in parts]
        want = np.concatenate([h.quantise(p, dtype) for p in parts], axis)
        same(mx.concatenate(arrays, axis), want)
        same(
            mx.concatenate([arrays[0][:, ::-1], arrays[1].T.T], axis),
            np.concatenate(
                [h.quantise(parts[0], dtype)[:, ::-1], h.quantise(parts[1], dtype)], axis
            ),
        )


def test_concatenate_odd_sizes_and_promotion():
    parts = [np.arange(n, dtype=np.uint8) for n in (1, 0, 33, 7, 2)]
    same(mx.concatenate([mx.array(p) for p in parts]), np.concatenate(parts))
    got = mx.concatenate([mx.array([1, 2]), mx.array([0.5])])
    assert got.dtype == mx.float32 and got.tolist() == [1, 2, 0.5]
    a = mx.arange(5)
    same(
        mx.concatenate([a, a[::-1], a]),
        np.concatenate([np.arange(5), np.arange(5)[::-1], np.arange(5)]),
    )


def test_stack():
    a, b = np.arange(6).reshape(2, 3), np.arange(6, 12).reshape(2, 3)
    for axis in (0, 1, 2, -1):
        same(mx.stack([mx.array(a), mx.array(b)], axis), np.stack([a, b], axis))


def test_split():
    for a in bases():
        for sections, axis in [(2, 0), (3, 1), (4, -2), ([1, 3], 2), ([2], 3), ([0, 4], 2)]:
            got, want = mx.split(a, sections, axis), np.split(X, sections, axis)
            assert len(got) == len(want)
            for g, w in zip(got, want, strict=True):
                same(g, w)


def test_pad():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for _, a in h.layouts(x, "float32"):
        same(mx.pad(a, 2), np.pad(x, 2))
        same(mx.pad(a, (1, 2)), np.pad(x, (1, 2)))
        same(
            mx.pad(a, [(0, 1), (3, 0)], constant_values=7),
            np.pad(x, [(0, 1), (3, 0)], constant_values=7),
        )
        same(mx.pad(a, [(1, 2), (0, 3)], mode="edge"), np.pad(x, [(1, 2), (0, 3)], mode="edge"))
        for mode in ("reflect", "symmetric"):
            same(mx.pad(a, [(1, 2), (2, 3)], mode=mode), np.pad(x, [(1, 2), (2, 3)], mode=mode))
    widths = np.array([[1, 2], [0, 3]])
    for form in (widths, mx.array(widths), widths.tolist(), tuple(widths)):
        same(mx.pad(mx.array(x), form), np.pad(x, widths))
    for wrong in (
        [(1, 2, 3)],
        np.ones((2, 3), int),
        ["ab", "cd"],
        [(0.5, 1)],
        [None],
        {},
        {(1, 2)},
        frozenset([(1, 2)]),
        iter([(1, 2)]),
    ):
        with pytest.raises(TypeError, match="pad_width"):
            mx.pad(mx.array(x), wrong)
    for too_few in ([], ()):
        with pytest.raises(ValueError, match="padding sizes"):
            mx.pad(mx.array(x), too_few)
        assert mx.pad(mx.array(1.0), too_few).item() == 1
    same(mx.pad(mx.zeros((0, 2)), 1), np.pad(np.zeros((0, 2)), 1))


def test_repeat_and_tile():
    x = np.arange(6).reshape(2, 3)
    for a in (mx.array(x), mx.array(x.T).T):
        same(mx.repeat(a, 3), np.repeat(x, 3))
        same(mx.repeat(a, 2, 0), np.repeat(x, 2, 0))
        same(mx.repeat(a, 2, -1), np.repeat(x, 2, -1))
        same(mx.repeat(a, 0, 1), np.repeat(x, 0, 1))
        for reps in (2, (2,), (2, 1), (1, 3), (2, 2, 2), (0, 1)):
            same(mx.tile(a, reps), np.tile(x, reps))


# Selecting


def test_where():
    c = np.array([[True, False, True], [False, False, True]])
    x, y = np.arange(6).reshape(2, 3), -np.arange(3)
    same(mx.where(mx.array(c), mx.array(x), mx.array(y)), np.where(c, x, y))
    same(mx.where(mx.array(c), 1, 0), np.where(c, 1, 0))
    assert mx.where(mx.array(c), mx.array(1.5, mx.float16), 0).dtype == mx.float16
    assert mx.where(mx.array(c), mx.array(x), mx.array([1.5])).dtype == mx.float32
    same(mx.where(mx.array(c.T).T, mx.array(x)[::-1], 9), np.where(c, x[::-1], 9))
    nan = mx.array([np.nan, 1.0])
    same(mx.where(mx.isnan(nan), 0.0, nan), [0.0, 1.0])


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32", "float16", "bfloat16"])
def test_clip(dtype):
    x = np.arange(20).reshape(4, 5)
    a = h.from_np(x, dtype)
    same(mx.clip(a, 5, 12), x.clip(5, 12))
    same(mx.clip(a, None, 12), x.clip(None, 12))
    same(mx.clip(a, 5, None), x.clip(5, None))
    same(mx.clip(a, h.from_np(np.arange(5), dtype), 9), x.clip(np.arange(5), 9))


def test_isclose_allclose_and_array_equal():
    a, b = mx.array([1.0, 2.0, np.inf, np.nan]), mx.array([1.000001, 2.1, np.inf, np.nan])
    assert mx.isclose(a, b).tolist() == [True, False, True, False]
    assert mx.isclose(a, b, equal_nan=True).tolist() == [True, False, True, True]
    assert mx.allclose(a[:1], b[:1]).item() and not mx.allclose(a[:2], b[:2]).item()
    assert mx.allclose(a[:2], b[:2], rtol=0.1).item()


def test_divmod_and_rounding():
    a, b = mx.array([7, -7, 7, -7]), mx.array([2, 2, -2, -2])
    q, r = mx.divmod(a, b)
    same(q, np.array([7, -7, 7, -7]) // np.array([2, 2, -2, -2]))
    same(r, np.array([7, -7, 7, -7]) % np.array([2, 2, -2, -2]))
    f = np.array([7.5, -7.5, 0.3, -0.0], np.float32)
    q, r = mx.divmod(mx.array(f), 2.0)
    same(q, np.floor_divide(f, 2))
    same(r, np.remainder(f, 2))
    same(mx.round(mx.array([0.5, 1.5, 2.5, -0.5, -1.5])), [0, 2, 2, 0, -2])
    np.testing.assert_allclose(
        np.array(mx.round(mx.array([1.234, 5.678]), 1)), [1.2, 5.7], rtol=1e-6
    )
    np.testing.assert_allclose(np.array(mx.round(mx.array([123.0, 567.0]), -1)), [120, 570])


def test_rounding_of_what_has_no_fraction():
    """Half the last place goes to an even digit; places behind the point change nothing."""
    x = mx.array([0, 5, 15, 25, 49, 51, -15, -150])
    assert mx.round(x, -1).tolist() == [0, 0, 20, 20, 50, 50, -20, -150]
    assert mx.round(x, -2).tolist() == [0, 0, 0, 0, 0, 100, 0, -200]
    assert mx.round(x, 3).tolist() == x.tolist()
    for decimals, want in ((-3, False), (-1, False), (0, True), (2, True)):
        for y in (mx.round(True, decimals), mx.round(mx.array([True, False]), decimals)):
            assert y.dtype == mx.bool_
            assert y.tolist() == ([want, False] if y.ndim else want)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_quotients_of_zeros_keep_their_sign(dtype):
    a = np.array([0.0, -0.0, 0.0, -0.0] * 32, np.float32)
    b = np.array([6.0, 6.0, -6.0, -6.0] * 32, np.float32)
    got = np.array((mx.array(a).astype(dtype) / mx.array(b).astype(dtype)).astype(mx.float32))
    np.testing.assert_array_equal(np.signbit(got), np.signbit(a / b))
    quotient = mx.compile(lambda x: (x * 1.0) / 6.0)(mx.array(a).astype(dtype))
    got = np.array(quotient.astype(mx.float32))
    np.testing.assert_array_equal(np.signbit(got), np.signbit(a))


@pytest.mark.parametrize("dtype", h.INTS)
def test_integers_wrap(dtype):
    info = np.iinfo(dtype)
    x = np.array([info.max, info.min, info.max, info.min], dtype)
    y = np.array([1, 1, info.max, info.max], dtype)
    a, b = mx.array(x), mx.array(y)
    with np.errstate(over="ignore"):
        same(a + b, x + y)
        same(a - b, x - y)
        same(a * b, x * y)
        same(mx.negative(a), -x)
        same(mx.square(a), x * x)
        same(
            mx.power(
                mx.array(np.array([3, 5, 2, 7], dtype)), mx.array(np.array([5, 9, 7, 13], dtype))
            ),
            np.array([3, 5, 2, 7], dtype) ** np.array([5, 9, 7, 13], dtype),
        )


def test_nan_to_num():
    x = mx.array([np.nan, np.inf, -np.inf, 1.0])
    top = np.finfo(np.float32).max
    same(mx.nan_to_num(x), np.array([0, top, -top, 1], np.float32))
    same(mx.nan_to_num(x, nan=2, posinf=3, neginf=-3), [2, 3, -3, 1])


def test_shapes_are_told_before_dtypes_of_indices():
    for shape, error in (((5, 2), ValueError), ((3,), ValueError), ((3, 2), RuntimeError)):
        with pytest.raises(error):
            mx.take_along_axis(mx.zeros((3, 4)), mx.zeros(shape), 1)


def test_complex_infinities_have_no_imaginary_part():
    inf, nan = np.inf, np.nan
    x = mx.array([complex(inf, 0), complex(-inf, 0), complex(inf, 1), complex(0, inf), 1j])
    assert mx.isposinf(x).tolist() == [True, False, False, False, False]
    assert mx.isneginf(x).tolist() == [False, True, False, False, False]
    got = mx.nan_to_num(mx.array([complex(nan, 1), complex(inf, 0), complex(-inf, 0)]), 1, 2, -2)
    assert got.tolist() == [1, 2, -2] and got.dtype == mx.complex64
    for some in ({}, {"posinf": 1.0}, {"neginf": 1.0}):
        with pytest.raises(ValueError, match="complex64"):
            mx.nan_to_num(x, **some)


def test_take_along_one_axis():
    x = np.arange(24).reshape(2, 3, 4)
    a, i = mx.array(x), np.array([2, 0, 1, 1, -1])
    same(mx.take(a, mx.array(i), 1), np.take(x, i, 1))
    same(mx.take(a, mx.array(i)), np.take(x, i))
    same(mx.take(a, 1, 2), np.take(x, 1, 2))
    same(mx.take(a, mx.array([[0, 1], [1, 0]]), 0), np.take(x, [[0, 1], [1, 0]], 0))


@pytest.mark.parametrize("dtype", ["int32", "float32", "float16", "bfloat16", "uint8", "int64"])
def test_sort_and_argsort(dtype, rng):
    x = h.quantise(rng.permutation(3 * 37).reshape(3, 37) % 256, dtype)
    for axis in (0, 1, None):
        same(mx.sort(h.from_np(x, dtype), axis), np.sort(x, axis))
        got = h.to_np(mx.argsort(h.from_np(x, dtype), axis))
        picked = x.reshape(-1)[got] if axis is None else np.take_along_axis(x, got, axis)
        np.testing.assert_array_equal(picked, np.sort(x, axis))


# Zero sizes, zero divisors, subnormal numbers


def test_matrices_without_rows_or_columns():
    assert mx.eye(0).shape == mx.identity(0).shape == (0, 0)
    assert mx.eye(0, 4, k=1).shape == (0, 4) and mx.eye(3, 0).shape == (3, 0)
    assert mx.tri(-1).shape == (0, 0) and mx.tri(3, -1).shape == (3, 0)
    for f in (lambda: mx.eye(-1), lambda: mx.eye(2, -1), lambda: mx.identity(-2)):
        with pytest.raises(ValueError, match="positive"):
            f()


@pytest.mark.parametrize(
    ("shift", "axis", "want"),
    [
        ((1, 1), 0, [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]),
        ((1, 2, 3), 1, [[4, 0, 1, 2, 3], [9, 5, 6, 7, 8]]),
        ((-1, 2), -1, [[4, 0, 1, 2, 3], [9, 5, 6, 7, 8]]),
        ((1, 1), (0,), [[5, 6, 7, 8, 9], [0, 1, 2, 3, 4]]),
        ((1, 2, 3), (0, 1), [[8, 9, 5, 6, 7], [3, 4, 0, 1, 2]]),
        (1, (0, 0), [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]),
        ((1, 2), None, [[7, 8, 9, 0, 1], [2, 3, 4, 5, 6]]),
        (1, (), [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]),
        ((), 0, [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]),
    ],
)
def test_several_shifts(shift, axis, want):
    assert mx.roll(mx.arange(10).reshape(2, 5), shift, axis).tolist() == want


@pytest.mark.parametrize("shift", [(), (1,)])
def test_shifts_that_are_too_few(shift):
    with pytest.raises(ValueError, match=f"{len(shift)} provided for 2 axes"):
        mx.roll(mx.zeros((2, 5)), shift, (0, 1))


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_padding_beyond_the_length_goes_forth_and_back(mode, n):
    x = np.arange(2.0 * n, dtype=np.float32).reshape(2, n)
    for width in ((0, 1), (7, 0), (4, 11), (23, 5)):
        widths = [(0, 0), width]
        same(mx.pad(mx.array(x), widths, mode=mode), np.pad(x, widths, mode=mode))
        same(mx.pad(mx.array(x), [width, width], mode=mode), np.pad(x, [width] * 2, mode=mode))
    w = np.random.default_rng(1).normal(size=n + 12).astype(np.float32)
    grad = mx.grad(lambda a: (mx.pad(a, (5, 7), mode=mode) * mx.array(w)).sum())(mx.array(x[0]))
    places = np.pad(np.arange(n), (5, 7), mode=mode)
    np.testing.assert_allclose(np.array(grad), np.bincount(places, w, n), rtol=1e-5, atol=1e-6)


def test_padding_of_nothing():
    empty = mx.zeros((0, 3))
    same(mx.pad(empty, [(1, 1), (0, 0)], mode="edge"), np.zeros((2, 3)))
    same(mx.pad(empty, [(0, 0), (1, 1)], mode="reflect"), np.zeros((0, 5)))
    for mode in ("reflect", "symmetric"):
        with pytest.raises(ValueError, match=f"Cannot pad empty axis 0 using mode '{mode}'"):
            mx.pad(empty, [(1, 1), (0, 0)], mode=mode)


@pytest.mark.parametrize("dtype", h.INTS)
def test_remainder_by_zero_is_the_dividend(dtype):
    values = [7, 0, 100] + ([-7, -100] if dtype in h.SINTS else [])
    a, zero = mx.array(values, h.mx_dtype(dtype)), mx.array([0], h.mx_dtype(dtype))
    for got in (a % zero, a % 0, mx.remainder(a, zero), mx.divmod(a, zero)[1]):
        assert got.tolist() == values and got.dtype == a.dtype
    assert (a // zero).tolist() == [0] * len(values)
    twice = mx.compile(lambda x, y: (x % y) * 2)(a, zero)
    same(twice, (np.array(values) * 2).astype(dtype))


def test_subnormal_numbers_are_true():
    a = mx.array([1e-40, 0.0, -0.0, -1e-45, np.nan], mx.float32)
    want = [True, False, False, True, True]
    assert a.astype(mx.bool_).tolist() == want
    assert mx.logical_not(a).tolist() == [not w for w in want]
    assert mx.where(a, 1, 0).tolist() == [int(w) for w in want]
    assert mx.any(a[:1]).item() and mx.all(a[3:]).item() and not mx.any(a[1:3]).item()
    assert mx.array([1e-40j, 1e-40, 0j]).astype(mx.bool_).tolist() == [True, True, False]
    assert mx.array([1e-40, 0], mx.bfloat16).astype(mx.bool_).tolist() == [True, False]


def test_complex_division_by_zero_and_infinity():
    """As C99's annex G has it, and MLX."""
    inf, nan = np.inf, np.nan
    a = [1, 1j, -1, 1 + 1j, 0, complex(inf, 0), 1, 1 + 1j, complex(nan, 0), 1]
    b = [0, 0, 0, 0, 0, 2, complex(inf, 0), complex(inf, inf), 0, complex(-0.0, 0)]
    want = [
        *(complex(inf, nan), complex(nan, inf), complex(-inf, nan), complex(inf, inf)),
        *(complex(nan, nan), complex(inf, nan), 0, 0, complex(nan, nan), complex(-inf, nan)),
    ]
    x, y = mx.array(np.array(a, np.complex64)), mx.array(np.array(b, np.complex64))
    for got in (x / y, x // y):
        got = np.array(got)
        np.testing.assert_array_equal(got.real, np.real(want))
        np.testing.assert_array_equal(got.imag, np.imag(want))
    got = np.array(mx.reciprocal(y[:1]))[0]
    assert got.real == inf and np.isnan(got.imag)


def test_complex_powers_of_zero():
    b = np.array([1, 2, 0.5, 1 + 1j, 0, -1], np.complex64)
    got = np.array(mx.power(mx.zeros((6,), mx.complex64), mx.array(b)))
    assert (got[:4] == 0).all() and got[4] == 1 and np.isinf(got[5].real)


COMPLEX = """sinh cosh tanh sin cos tan exp sqrt log arcsin arccos arctan arcsinh arccosh
arctanh""".split()


@pytest.mark.parametrize(
    "name",
    "log log2 log10 log1p sqrt arcsin arccos arctan arcsinh arccosh arctanh".split(),
)
def test_complex_functions_near_the_largest_number(name):
    r = np.float32([3e38, 1.9e38, 1e30, 2e19, 1e18, 3e17, 1e-3])
    x = (r[:, None] + 1j * r[None, :]).astype(np.complex64).ravel()
    x = x[np.maximum(x.real, x.imag) > 1]
    x = np.concatenate([x, -x, x.conj(), -x.conj()])
    want = getattr(np, name)(x.astype(np.complex128))
    got = np.array(getattr(mx, name)(mx.array(x)))
    for part in ("real", "imag"):
        np.testing.assert_allclose(getattr(got, part), getattr(want, part), rtol=2e-6, atol=1e-37)


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_functions_of_infinities_and_missing_numbers(name):
    """As C's annex G, which NumPy follows; signs that it leaves open are not looked at."""
    parts = [np.inf, -np.inf, 1000.0, -1000.0, 0.0, -0.0, np.nan, 2.0, 0.5]
    z = np.array([complex(a, b) for a in parts for b in (*parts, 1.0, 4.0)], np.complex64)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(z)
    got = h.to_np(getattr(mx, name)(h.from_np(z, "complex64")))
    for g, w in ((got.real, want.real), (got.imag, want.imag)):
        open_sign = np.isinf(w) & ~(np.isfinite(z.real) & np.isfinite(z.imag))
        g, w = np.where(open_sign, abs(g), g), np.where(open_sign, abs(w), w)
        np.testing.assert_allclose(g, w, rtol=2e-6, atol=1e-38)
