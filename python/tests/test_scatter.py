"""Writing by index: a[index] = b, a.at[index], put_along_axis and slice_update, against NumPy."""

import copy

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
from index_cases import as_read, random_index, random_shape, to_mx, writing_shape

OPS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


def same(got, want, label="", tol=0):
    assert got.shape == want.shape, f"{label}: {got.shape} {want.shape}"
    np.testing.assert_allclose(h.to_np(got), want, rtol=tol, atol=tol, err_msg=str(label))


def counted(shape, dtype="int32"):
    return h.quantise(np.arange(np.prod(shape)).reshape(shape) % 101, dtype)


def thinned(rng, shape):
    """A shape that broadcasts to `shape`."""
    thin = [n if rng.random() < 0.7 else 1 for n in shape]
    return tuple(thin[int(rng.integers(0, len(thin) + 1)) if rng.random() < 0.3 else 0 :])


def random_update(rng):
    """(array, index, update, the update as NumPy assigns it)."""
    shape = random_shape(rng)
    index = random_index(rng, shape)
    want, at = writing_shape(index, shape)
    update = rng.integers(1, 9, thinned(rng, want))
    full = as_read(index, np.broadcast_to(update, want), at, shape)
    return rng.integers(0, 50, shape), index, update, full


def test_assignment_by_any_index(rng):
    for dtype in ("int32", "float32", "int8", "bfloat16", "complex64", "int64"):
        for _ in range(60):
            x, index, update, full = random_update(rng)
            a = h.from_np(x, dtype)
            before = a + 0
            a[to_mx(rng, index)] = mx.array(update)
            want = h.quantise(x, dtype)
            want[index] = full
            same(a, want, f"{dtype} {x.shape} {index} {update.shape}")
            same(before, h.quantise(x, dtype))


@pytest.mark.parametrize("name", OPS)
def test_at_counts_every_update(name, rng):
    for dtype in ("int32", "float32", "uint8", "float16", "complex64"):
        for _ in range(40):
            x, index, update, full = random_update(rng)
            if dtype == "float16":
                x, update, full = x % 3, update % 3, full % 3
            if dtype == "complex64" and name == "multiply":
                x, update, full = x % 3, update % 2, full % 2
            a = h.from_np(x, dtype)
            got = getattr(a.at[to_mx(rng, index)], name)(h.from_np(update, dtype))
            want = h.quantise(x, dtype)
            with np.errstate(all="ignore"):
                OPS[name].at(want, index, h.quantise(full, dtype))
            assert got.dtype == a.dtype
            same(got, want, f"{dtype} {x.shape} {index} {update.shape}", 1e-5)
            same(a, h.quantise(x, dtype))


def test_division_is_a_product_with_the_reciprocal():
    x = mx.array([100.0, 101.0, 102.0])
    got = x.at[mx.array([0, 1, 1])].divide(mx.array([5.0, 2.0, 3.0]))
    np.testing.assert_allclose(np.array(got), [20, 101 / 6, 102], rtol=1e-6)
    # Integers, from MLX 0.32: the reciprocal is rounded first.
    assert mx.arange(5).at[1:3].divide(2).tolist() == [0, 0, 0, 3, 4]
    assert mx.arange(5).at[mx.array([3, 4])].divide(1).tolist() == [0, 1, 2, 3, 4]


BIG = {
    "rows": (40, 64, 3000),
    "thin rows": (60, 3, 2000),
    "elements": (50, 1, 5000),
    "one place": (1, 4, 2000),
    "few updates": (30, 16, 100),
}


@pytest.mark.parametrize("case", BIG)
def test_many_updates_of_every_dtype(case, rng):
    places, width, count = BIG[case]
    for dtype in h.ALL:
        x = h.quantise(rng.integers(0, 3, (places, width)), dtype)
        update = h.quantise(rng.integers(0, 3, (count, width)), dtype)
        index = rng.integers(-places, places, count)
        a, i, b = h.from_np(x, dtype), mx.array(index), h.from_np(update, dtype)
        got = a + 0 if dtype != "bool_" else a | a
        got[i] = b
        want = x.copy()
        want[index] = update
        same(got, want, f"set {dtype}")
        for name in ("maximum", "minimum"):
            want = x.copy()
            OPS[name].at(want, index, update)
            same(getattr(a.at[i], name)(b), want, f"{name} {dtype}")
        if dtype == "bfloat16" or (dtype == "float16" and case in ("one place", "elements")):
            continue  # small integers are exact only up to 256 or 2048
        want = x.copy()
        np.add.at(want, index, update)
        same(a.at[i].add(b), want, f"add {dtype}")


@pytest.mark.parametrize("places", [50_000, 100_000])
@pytest.mark.parametrize("dtype", ["float32", "int32", "float16", "complex64"])
def test_numbers_in_many_places(dtype, places, rng):
    """Updates sorted by radix: places that follow from keys or do not, updates in order or not."""
    count = 70_000
    x, u = rng.integers(0, 4, places), rng.integers(0, 4, count)
    i = rng.integers(-places, places, count)
    a, b = h.from_np(h.quantise(x, dtype), dtype), h.from_np(h.quantise(u, dtype), dtype)
    want = x.copy()
    np.add.at(want, i, u)
    same(a.at[mx.array(i)].add(b), h.quantise(want, dtype), "dense")
    same(
        a.at[mx.array(i)].add(mx.array(2).astype(b.dtype)),
        h.quantise(x + 2 * count_of(i, places), dtype),
        "one",
    )
    twice = mx.repeat(b, 2)[::2]
    same(a.at[mx.array(i)].add(twice), h.quantise(want, dtype), "steps")
    square, rows = (7, places // 7), rng.integers(0, 7, count)
    columns = rng.integers(0, places // 7, count)
    y = x[: square[0] * square[1]].reshape(square)
    want = y.copy()
    np.add.at(want, (rows, columns), u)
    grid = a[: y.size].reshape(square)
    same(grid.at[mx.array(rows), mx.array(columns)].add(b), h.quantise(want, dtype), "two")
    want = y.T.copy()
    np.add.at(want, (columns, rows), u)
    same(grid.T.at[mx.array(columns), mx.array(rows)].add(b), h.quantise(want, dtype), "turned")
    if dtype != "complex64":
        want = x.copy()
        np.maximum.at(want, i, u)
        same(a.at[mx.array(i)].maximum(b), h.quantise(want, dtype), "maximum")


def count_of(index, places):
    return np.bincount(index % places, minlength=places)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_halves(dtype, rng):
    x, update = rng.normal(size=(20, 8)), rng.normal(size=(600, 8)) / 8
    index = rng.integers(0, 20, 600)
    a, b = h.from_np(x, dtype), h.from_np(update, dtype)
    want = h.to_np(a).astype(np.float64)
    np.add.at(want, index, h.to_np(b).astype(np.float64))
    got = h.to_np(a.at[mx.array(index)].add(b))
    np.testing.assert_allclose(got, want, atol=30 * 2.0 ** (-11 if dtype == "float16" else -8))


def test_products_and_nan(rng):
    x = rng.uniform(0.9, 1.1, (20, 4)).astype(np.float32)
    update = rng.uniform(0.9, 1.1, (900, 4)).astype(np.float32)
    index = rng.integers(0, 20, 900)
    want = x.astype(np.float64)
    np.multiply.at(want, index, update)
    got = mx.array(x).at[mx.array(index)].multiply(mx.array(update))
    np.testing.assert_allclose(np.array(got), want, rtol=1e-4)
    nan, inf = float("nan"), float("inf")
    a = mx.array([nan, 0.0, 0.0, -inf, inf])
    i = mx.array([0, 1, 1, 2, 3, 4])
    b = mx.array([3.0, nan, 1.0, -1.0, -inf, 5.0])
    np.testing.assert_array_equal(np.array(a.at[i].maximum(b)), [nan, nan, 0, -inf, inf])
    np.testing.assert_array_equal(np.array(a.at[i].minimum(b)), [nan, nan, -1, -inf, 5])
    for n in (300, 3000):  # NaN wins wherever it stands
        b = mx.where(mx.arange(n) == n // 2, nan, mx.arange(n) * 1.0)
        got = mx.zeros((2,)).at[mx.zeros((n,), mx.int32)].maximum(b)
        np.testing.assert_array_equal(np.array(got), [nan, 0])


def test_results_do_not_change_from_run_to_run(rng):
    index = mx.array(rng.integers(0, 7, 20_000))
    for shape in ((20_000,), (20_000, 8)):
        update = mx.array(rng.normal(size=shape).astype(np.float32))
        base = mx.zeros((7, *shape[1:]))
        first = np.array(base.at[index].add(update))
        for _ in range(3):
            np.testing.assert_array_equal(np.array(base.at[index].add(update)), first)


def test_the_last_of_several_values_stays(rng):
    for count in (3, 100, 2000, 20_000):
        index = rng.integers(0, 5, count)
        a = mx.zeros((5, 2), mx.int32)
        a[mx.array(index)] = mx.arange(2 * count).reshape(count, 2)
        want = np.zeros((5, 2), np.int32)
        want[index] = np.arange(2 * count).reshape(count, 2)
        same(a, want, count)
    wide = mx.zeros((100_000,), mx.int32)
    index = rng.integers(0, 100_000, 1000) // 1000 * 1000
    wide[mx.array(index)] = mx.arange(1000)
    want = np.zeros(100_000, np.int32)
    want[index] = np.arange(1000)
    same(wide, want)


def test_updates_out_of_range_are_dropped():
    for n in (4, 400):
        index = mx.array([5, -6, 1, 1 << 20] * (n // 4))
        for dtype in (mx.int32, mx.int64):
            a = mx.arange(5).astype(mx.float32)
            i = index.astype(dtype)
            assert a.at[i].add(1.0).tolist() == [0, 1 + n / 4, 2, 3, 4]
            a[i] = -1.0
            assert a.tolist() == [0, -1, 2, 3, 4]
    a = mx.zeros((3, 3))
    a[mx.array([0, 7, 2]), mx.array([1, 1, -9])] = 1.0
    assert a.tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]


def test_integers_do_not_move_the_axes_of_arrays_in_assignments():
    """The shapes that MLX 0.32 assigns to; NumPy has the arrays' axes first in these."""
    x = np.zeros((3, 4, 5, 6), np.int32)
    i = mx.array([0, 2])
    for index, shape in [
        ((0, slice(None), i), (4, 2, 6)),
        ((0, slice(0, 2), i), (2, 2, 6)),
        ((1, ..., i), (4, 5, 2)),
        ((0, None, i), (1, 2, 5, 6)),
        ((0, 1, slice(None), i), (5, 2)),
        ((i, slice(None), 0), (2, 4, 6)),
        ((slice(None), 0, slice(None), i), (3, 5, 2)),
    ]:
        values = np.arange(np.prod(shape)).reshape(shape)
        a = mx.array(x)
        a[index] = mx.array(values)
        got = np.array(a[index])
        plain = tuple(np.array(t) if isinstance(t, mx.array) else t for t in index)
        assert got.shape == x[plain].shape
        assert sorted(got.reshape(-1).tolist()) == list(range(values.size))
        if got.shape != shape:
            # What reading gives fits as well, unless it could be the other shape.
            a = mx.array(x)
            a[index] = mx.array(got)
            np.testing.assert_array_equal(np.array(a[index]), got)
    a = mx.array(x)
    a[0, :, i] = mx.arange(8).reshape(4, 2, 1)
    assert a[0, :, 2, 0].tolist() == [1, 3, 5, 7]


def test_values_are_converted():
    a = mx.arange(5)
    a[mx.array([0, 1])] = 1.7
    a[2:4] = mx.array([7.9, -8.9])
    a[4] = True
    assert a.tolist() == [1, 1, 7, -8, 1] and a.dtype == mx.int32
    a[...] = mx.array([1.5, 2.5, 3.5, 4.5, 5.5])
    assert a.tolist() == [1, 2, 3, 4, 5] and a.dtype == mx.int32
    b = mx.zeros((3,), mx.bool_)
    b[mx.array([1])] = 2
    b = b.at[mx.array([2, 2])].add(1)
    assert b.tolist() == [False, True, True] and b.dtype == mx.bool_
    assert mx.zeros((2,), mx.uint8).at[mx.array([0])].subtract(1).tolist() == [255, 0]
    a[1:] = np.array([9, 8, 7, 6])
    assert a.tolist() == [1, 9, 8, 7, 6]
    assert mx.zeros((2,)).at[mx.array([0, 0])].add(1j + 2).tolist() == [4, 0]


def test_augmented_assignment_keeps_one_update():
    a = mx.array([0, 0])
    index = mx.array([0, 1, 0, 1])
    a[index] += 1
    assert a.tolist() == [1, 1]
    a = mx.array([0, 0])
    assert a.at[index].add(1).tolist() == [2, 2] and a.tolist() == [0, 0]


def test_empty_updates():
    a = mx.ones((2, 3))
    nothing = mx.array([], mx.int32)
    a[nothing] = 5
    a[nothing] = mx.zeros((0, 3))
    a[1:1] = 5
    a[2:1, mx.array([0, 1])] = 5
    assert a.tolist() == [[1, 1, 1], [1, 1, 1]]
    assert a.at[nothing].add(1).tolist() == a.tolist()
    assert a.at[:, 5:].maximum(9).tolist() == a.tolist()
    empty = mx.zeros((0, 3))
    empty[nothing] = 1
    assert empty.shape == (0, 3)


def test_other_arrays_keep_their_values():
    a = mx.arange(6).reshape(2, 3) * 1
    view, alias = a[0], a.T
    mx.eval(a, view, alias)
    a[mx.array([0])] = -1
    a = a.at[:, mx.array([1])].add(10)
    mx.eval(a)
    assert view.tolist() == [0, 1, 2] and alias.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert a.tolist() == [[-1, 9, -1], [3, 14, 5]]
    for step in range(20):  # written in place from the second step on
        a[mx.array([step % 2])] = step
    assert a.tolist() == [[18, 18, 18], [19, 19, 19]]


def test_masks(rng):
    for _ in range(60):
        shape = random_shape(rng, 3)
        k = int(rng.integers(0, len(shape) + 1))
        mask = rng.random(shape[:k]) < 0.5
        x, rest = rng.integers(0, 50, shape), shape[k:]
        rows = int(mask.sum())
        for values in (
            np.array(-1),
            rng.integers(50, 99, thinned(rng, rest)),
            rng.integers(50, 99, (rows + 1, *[n if rng.random() < 0.7 else 1 for n in rest])),
        ):
            want = x.copy()
            filled = values[:rows] if values.ndim == len(rest) + 1 else values
            want[mask] = np.broadcast_to(filled, (rows, *rest))
            a = mx.array(x)
            a[mx.array(mask)] = mx.array(values)
            same(a, want, f"{shape} {mask.shape} {values.shape}")
    a = mx.arange(5)
    a[True] = 7
    a[False] = 8
    assert a.tolist() == [7] * 5
    a[[True, False, True, False, False]] = mx.array([1, 2])
    a[np.array([False, False, False, True, True])] = 0
    assert a.tolist() == [1, 7, 2, 0, 0]
    x, mask = rng.normal(size=(50_000,)).astype(np.float32), rng.random(50_000) < 0.3
    values = rng.normal(size=(int(mask.sum()),)).astype(np.float32)
    a = mx.array(x)
    a[mx.array(x) * 0 + mx.array(mask) > 0] = mx.array(values)
    x[mask] = values
    same(a, x)


def test_a_mask_with_too_few_values():
    a = mx.arange(5)
    a[mx.array([True, False, True, False, True])] = mx.array([7, 8])
    if h.on_gpu():  # the GPU is not waited for: what has no value stays
        assert a.tolist() == [7, 1, 8, 3, 4]
    else:
        with pytest.raises(RuntimeError, match="enough"):
            mx.eval(a)
    a = mx.arange(3)
    a[mx.zeros((3,), mx.bool_)] = mx.zeros((0,))
    assert a.tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", ["float32", "int8", "complex64"])
def test_put_along_axis(dtype, rng):
    x = counted((4, 5, 6), dtype)
    for axis in (0, 1, 2, -1):
        shape = list(x.shape)
        shape[axis] = 3
        index = rng.integers(-x.shape[axis], x.shape[axis], shape)
        for value_shape in (shape, (), (1, 1, 1), shape[-1:]):
            values = rng.integers(50, 99, value_shape)
            want = x.copy()
            full = np.broadcast_to(values, shape)
            for at in np.ndindex(*shape):  # in row-major order: the last one stays
                to = list(at)
                to[axis] = index[at]
                want[tuple(to)] = full[at]
            for label, a in h.layouts(x, dtype):
                got = mx.put_along_axis(a, mx.array(index), mx.array(values), axis)
                same(got, want, f"{axis} {value_shape} {label}")
    assert mx.put_along_axis(mx.zeros((2, 3)), mx.array([0, 4]), mx.array([7, 8])).tolist() == [
        [7, 0, 0],
        [0, 8, 0],
    ]


def test_values_of_higher_rank_along_an_axis():
    """Axes of one in front of the others are dropped."""
    x, index = mx.zeros((3, 4)), mx.array([[0, 1, 3, 2]] * 3)
    values = np.arange(1, 13).reshape(1, 3, 4)
    want = np.zeros((3, 4))
    np.put_along_axis(want, np.array(index), values[0], 1)
    same(mx.put_along_axis(x, index, mx.array(values), 1), want)
    same(mx.put_along_axis(x, index, mx.ones((1, 1, 1, 4)), -1), np.ones((3, 4)))
    same(mx.put_along_axis(x, mx.array([1]), mx.array([[5]])), np.eye(1, 12, 1).reshape(3, 4) * 5)
    for shape in ((2, 3, 4), (0, 3, 4)):
        with pytest.raises(ValueError):
            mx.put_along_axis(x, index, mx.ones(shape), 1)


def test_an_empty_array_stays_as_it_is():
    for index in (mx.zeros((3, 4), mx.int32), mx.zeros((2, 2)), mx.zeros((0, 0))):
        got = mx.put_along_axis(mx.zeros((0, 3)), index, mx.ones((3, 4)), 1)
        assert got.shape == (0, 3)
    with pytest.raises(ValueError):
        mx.put_along_axis(mx.zeros((0,)), mx.array([[0]]), mx.array(1.0), 0)
    with pytest.raises(IndexError):
        mx.put_along_axis(mx.zeros((0,)), mx.array([0]), mx.array(1.0), 5)


def test_arrays_broadcast_with_what_is_put_into_them():
    """Along all axes but the one of the indices."""
    column, row = mx.ones((5, 1)), mx.ones((1, 3))
    want = np.ones((5, 3))
    want[:2] = 2
    same(mx.put_along_axis(column, mx.array([[0], [1]]), mx.ones((2, 3)) * 2, 0), want)
    same(
        mx.put_along_axis(row, mx.array([[1], [2]]), mx.array(5.0), 1),
        np.array([[1, 5, 1], [1, 1, 5]]),
    )
    slope = mx.grad(
        lambda a: (mx.put_along_axis(a, mx.array([[0], [1]]), mx.ones((2, 3)), 0) * 2).sum()
    )(column)
    same(slope, np.array([[0], [0], [6], [6], [6]]))


def test_put_along_long_lines(rng):
    x = rng.normal(size=(5, 2000)).astype(np.float32)
    order = np.argsort(x, axis=1)
    want = np.zeros_like(x)
    np.put_along_axis(want, order, np.arange(2000, dtype=np.float32)[None], 1)
    got = mx.put_along_axis(mx.zeros((5, 2000)), mx.array(order), mx.arange(2000)[None], 1)
    same(got, want)


def test_slice_update():
    x = np.arange(60).reshape(3, 4, 5)
    a = mx.array(x)

    def check(update, starts, axes, where):
        want = x.copy()
        want[where] = np.array(update)
        same(mx.slice_update(a, update, mx.array(starts, mx.int32), axes), want, str(where))

    check(mx.full((1, 2, 5), 9), [1, 2], (0, 1), np.s_[1:2, 2:4])
    check(mx.full((2, 2), 9), [1, 3], [0, -1], np.s_[1:2, 0:2, 3:5])
    check(mx.array(9), [2], (0,), np.s_[2:3])
    check(mx.full((3, 4, 2), 9.7), [3], (2,), np.s_[:, :, 3:5])
    check(mx.full((1, 1, 3, 5), 9), [1], (1,), np.s_[:1, 1:4])
    check(mx.full((2, 1, 1), 9), [], (), np.s_[:2, :1, :1])
    # Starts are held where the update fits; negative ones count from the end.
    check(mx.full((2, 4, 5), 9), [5], (0,), np.s_[1:3])
    check(mx.full((1, 4, 5), 9), [-1], (0,), np.s_[2:3])
    check(mx.full((2, 4, 5), 9), [-7], (0,), np.s_[:2])
    same(mx.slice_update(a, mx.zeros((0, 2, 2)), mx.array([1]), (0,)), x)


def test_a_cache_grows_in_place():
    """As in decoding loops: one position of a cache after another, its number in an array."""
    cache, want = mx.zeros((2, 3, 8, 4)), np.zeros((2, 3, 8, 4), np.float32)
    for step in range(8):
        key = mx.full((2, 3, 1, 4), step + 1.0)
        cache = mx.slice_update(cache, key, mx.array([step]), (2,))
        want[:, :, step] = step + 1
        mx.eval(cache)
    same(cache, want)


ERRORS = {
    "shape": (lambda a: a.__setitem__(mx.array([0, 1]), mx.ones((3, 2))), ValueError, "broadcast"),
    "slice shape": (lambda a: a.__setitem__(slice(0, 1), mx.ones((2, 3))), ValueError, "broadcast"),
    "list": (lambda a: a.__setitem__(0, [1, 2, 3]), ValueError, "Invalid type list"),
    "text": (lambda a: a.__setitem__(0, "a"), ValueError, "Invalid type str"),
    "None": (lambda a: a.__setitem__(0, None), TypeError, ""),
    "index": (lambda a: a.__setitem__("x", 1), ValueError, "index"),
    "float index": (lambda a: a.__setitem__(mx.array([1.0]), 1), ValueError, "ntegral"),
    "too many": (lambda a: a.__setitem__((0, 0, 0), 1), ValueError, "indices"),
    "overflow": (lambda a: a.astype(mx.uint8).__setitem__(0, 300), ValueError, "overflow"),
    "integer": (lambda a: a.__setitem__(2, 1), IndexError, "out of bounds"),
    "no rows": (lambda a: a[:0].__setitem__(mx.array([0]), 1), ValueError, "length 0"),
    "mask shape": (lambda a: a.__setitem__(mx.array([True]), 1), ValueError, "mask"),
    "mask rank": (
        lambda a: a.__setitem__(mx.ones((2, 3, 1), mx.bool_), 1),
        ValueError,
        "mask cannot have more",
    ),
    "mask values": (
        lambda a: a.__setitem__(mx.ones((2, 3), mx.bool_), mx.ones((6, 2))),
        ValueError,
        "broadcastable",
    ),
    "mask in a tuple": (
        lambda a: a.__setitem__((mx.array([True, False]), 0), 1),
        ValueError,
        "[Bb]oolean",
    ),
    "at nothing": (lambda a: a.at.add(1), ValueError, "indices"),
    "at mask": (lambda a: a.at[mx.array([True, False])].add(1), ValueError, "[Bb]oolean"),
    "at True": (lambda a: a.at[True].add(1), ValueError, "index"),
    "at text": (lambda a: a.at["x"].add(1), ValueError, "index"),
    "at None value": (lambda a: a.at[0].add(None), TypeError, ""),
    "at list": (lambda a: a.at[0].add([1]), ValueError, "Invalid type list"),
    "at shape": (lambda a: a.at[mx.array([0, 1])].add(mx.ones((3, 3))), ValueError, "broadcast"),
    "at constructor": (lambda a: type(a.at)(a), TypeError, ""),
    "put rank": (
        lambda a: mx.put_along_axis(a, mx.array([0]), mx.array(1), 1),
        ValueError,
        "dimension",
    ),
    "put axis": (
        lambda a: mx.put_along_axis(a, mx.array([[0]]), mx.array(1), 2),
        IndexError,
        "axis",
    ),
    "put shape": (
        lambda a: mx.put_along_axis(a, mx.zeros((3, 1), mx.int32), mx.array(1), 1),
        ValueError,
        "broadcast",
    ),
    "put values": (
        lambda a: mx.put_along_axis(a, mx.zeros((2, 1), mx.int32), mx.ones((3, 1)), 1),
        ValueError,
        "broadcast",
    ),
    "put floats": (
        lambda a: mx.put_along_axis(a, mx.array([[0.0]]), mx.array(1), 1),
        RuntimeError,
        "ndices",
    ),
    "put scalar": (lambda a: mx.put_along_axis(a, mx.array([0]), 1), TypeError, ""),
    "update size": (
        lambda a: mx.slice_update(a, mx.ones((3, 3)), mx.array([0]), (0,)),
        ValueError,
        "broadcast",
    ),
    "update rank": (
        lambda a: mx.slice_update(a, mx.ones((2, 1, 1)), mx.array([0]), (0,)),
        ValueError,
        "broadcast",
    ),
    "update axes": (
        lambda a: mx.slice_update(a, mx.ones((1, 1)), mx.array([0, 0]), (0,)),
        ValueError,
        "umber",
    ),
    "update twice": (
        lambda a: mx.slice_update(a, mx.ones((1, 1)), mx.array([0, 0]), (0, -2)),
        ValueError,
        "epeat",
    ),
    "update scalar": (lambda a: mx.slice_update(a, 1, mx.array([0]), (0,)), TypeError, ""),
}


@pytest.mark.validation
@pytest.mark.parametrize("name", ERRORS)
def test_wrong_updates(name):
    call, kind, text = ERRORS[name]
    with pytest.raises(kind, match=text or None):
        mx.eval(call(mx.ones((2, 3))))
    h.works()


@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "int8", "int32", "uint16", "bool_", "int64"]
)
@pytest.mark.parametrize("places, updates", [(5000, 20000), (100000, 30000), (7, 5000), (300, 300)])
def test_the_last_assignment_stays(places, updates, dtype):
    rng = np.random.default_rng(places)
    at = rng.integers(-places, places, updates).astype(np.int32)
    numbers = rng.integers(0, 2 if dtype == "bool_" else 100, updates)
    a = mx.zeros((places,), getattr(mx, dtype))
    a[mx.array(at)] = mx.array(numbers).astype(a.dtype)
    want = np.zeros(places, np.int64)
    want[at] = numbers
    np.testing.assert_array_equal(np.array(a.astype(mx.int64)), want)
    # One number for all of them.
    a = mx.zeros((places,), getattr(mx, dtype))
    a[mx.array(at)] = mx.array(1).astype(a.dtype)
    np.testing.assert_array_equal(
        np.array(a.astype(mx.int64)), want * 0 + np.isin(np.arange(places), at % places)
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "int64", "complex64"])
def test_assignments_leave_what_others_hold(dtype):
    """A source that others hold is read where it lies, which may be anywhere."""
    rng = np.random.default_rng(5)
    places, updates = 5003, 3001
    x, numbers = rng.integers(-90, 90, places + 3), rng.integers(0, 100, updates)
    at = rng.integers(0, places, updates)
    source = mx.array(x).astype(getattr(mx, dtype))
    for start in (0, 1, 3):
        want = x[start : start + places].copy()
        a = source[start : start + places]
        b = copy.copy(a)
        b[mx.array(at)] = mx.array(numbers).astype(a.dtype)
        for got, w in ((a, want.copy()), (b, want)):
            if got is b:
                w[at] = numbers
            np.testing.assert_array_equal(np.array(got.real.astype(mx.int64)), w)
    np.testing.assert_array_equal(np.array(source.real.astype(mx.int64)), x)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64"])
@pytest.mark.parametrize(
    "lines, places, updates", [(30, 600, 500), (400, 70, 300), (300, 5000, 400)]
)
def test_the_last_assignment_stays_along_an_axis(lines, places, updates, dtype):
    """Few lines, many short ones, and many long ones."""
    rng = np.random.default_rng(8)
    x = rng.integers(-9, 9, (lines, places)).astype(dtype)
    at = rng.integers(-places, places, (lines, updates))
    numbers = rng.integers(10, 99, (lines, updates)).astype(dtype)
    want = x.copy()
    for column in range(updates):
        want[np.arange(lines), at[:, column]] = numbers[:, column]
    a, i, u = map(mx.array, (x, at, numbers))
    np.testing.assert_array_equal(np.array(mx.put_along_axis(a, i, u, 1)), want)
    turned = mx.put_along_axis(mx.contiguous(a.T), mx.contiguous(i.T), mx.contiguous(u.T), 0)
    np.testing.assert_array_equal(np.array(turned), want.T)
    views = (a[:, 1:], i[:, ::2] % (places - 1), u[:, ::2])
    want = x[:, 1:].copy()
    for column in range(0, updates, 2):
        want[np.arange(lines), at[:, column] % (places - 1)] = numbers[:, column]
    np.testing.assert_array_equal(np.array(mx.put_along_axis(*views, 1)), want)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "complex64", "int64"])
@pytest.mark.parametrize("shape", [(1,), (7,), (64,), (33, 17), (5, 6, 40), (2, 3, 1001)])
def test_every_so_many_columns(shape, dtype):
    """Of an array that others hold: assigned and copied at once, or one after the other."""
    rng = np.random.default_rng(len(shape))
    x = rng.integers(0, 99, shape)
    for step in (2, 3, 7, 8, 9):
        for start in {0, 1, min(5, shape[-1] - 1)}:
            for stop in {shape[-1], shape[-1] - 1, (shape[-1] + start) // 2}:
                want, at = x.copy(), np.s_[..., start:stop:step]
                u = rng.integers(100, 127, want[at].shape)
                for update in (u, u[..., :1], np.array(101), u[:1], u[..., ::-1]):
                    want[at] = update if update.size else u
                    a = h.from_np(x, dtype)
                    b = a + 0 if dtype != "int8" else a | a
                    mx.eval(a, b)
                    held = b[:]
                    b[at] = h.from_np(update, dtype) if update.size else h.from_np(u, dtype)
                    same(b, h.quantise(want, dtype), f"{shape} {step} {start} {stop}")
                    same(held, h.quantise(x, dtype))


def test_columns_of_views():
    x = np.arange(30 * 44).reshape(30, 44).astype(np.float32)
    base = mx.array(x)
    for view, plain in (
        (base[3:, 1:], x[3:, 1:]),
        (base.T, x.T),
        (base[4:8], x[4:8]),
        (base[1:2, 4:12], x[1:2, 4:12]),
    ):
        for rows in (slice(None), slice(0, 1), slice(None, None, 2)):
            want = plain.copy()
            want[rows, 1::2] = -want[rows, 1::2]
            got = mx.array(view)
            got[rows, 1::2] = -view[rows, 1::2]
            same(got, want)
            slope = mx.grad(lambda a: (a.at[:, 1::2].add(1.0) * 3).sum())(view)  # noqa: B023
            same(slope, np.full(plain.shape, 3.0))
    same(base, x)


@pytest.mark.parametrize("how", ["maximum", "minimum"])
@pytest.mark.parametrize("places, updates", [(50, 3000), (4000, 9000)])
def test_extremes_of_many_updates(places, updates, how):
    """With NaN of both signs, infinities, zeros and subnormal numbers among both sides."""
    rng = np.random.default_rng(places)
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 2e-40], np.float32)
    for special in (False, True):
        a, u = (rng.standard_normal(n).astype(np.float32) for n in (places, updates))
        if special:
            a[::7], u[::97] = (rng.choice(odd, len(x)) for x in (a[::7], u[::97]))
            a[3], u[5] = np.array([0xFFC00001, 0xFFC00001], np.uint32).view(np.float32)
        at = rng.integers(0, places, updates)
        want = a.copy()
        with np.errstate(invalid="ignore"):
            getattr(np, how).at(want, at, u)
        got = np.array(getattr(mx.array(a).at[mx.array(at)], how)(mx.array(u)))
        np.testing.assert_array_equal(got, want)
