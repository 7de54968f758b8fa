"""Reading by index: a[index], take, take_along_axis, slices with computed starts, against NumPy."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
from index_cases import INDEX_DTYPES, random_index, random_shape, to_mx


def same(got, want, label=""):
    assert got.shape == want.shape, f"{label}: {got.shape} {want.shape}"
    np.testing.assert_array_equal(h.to_np(got), want, err_msg=str(label))


def counted(shape, dtype="int32"):
    """Small numbers that every dtype holds, none like its neighbours."""
    return h.quantise(np.arange(np.prod(shape)).reshape(shape) % 101, dtype)


@pytest.mark.parametrize("dtype", ["int32", "bool_", "float16", "complex64"])
def test_any_index_selects_what_numpy_selects(dtype, rng):
    for _ in range(150):
        shape = random_shape(rng)
        index = random_index(rng, shape)
        x = counted(shape, dtype)
        same(h.from_np(x, dtype)[to_mx(rng, index)], x[index], f"{shape} {index}")


def test_arrays_apart_come_first_and_integers_count_as_arrays():
    x = counted((3, 4, 5, 6))
    a, i, j = mx.array(x), np.array([0, 2]), np.array([[1], [3]])
    for index in (
        (i, slice(None), i),
        (0, slice(None), i),
        (slice(None), 0, slice(None), i),
        (slice(None), i, 1),
        (slice(None), j, i),
        (None, 0, None, i),
        (slice(None), i, None, j),
        (..., i),
        (i, ..., i),
        (slice(None, None, -2), i, slice(3, 0, -1), j),
    ):
        turned = tuple(mx.array(t) if isinstance(t, np.ndarray) else t for t in index)
        same(a[turned], x[index], index)
    # An ellipsis that stands for nothing does not keep index terms apart in MLX.
    assert a[None, i, 0, j, ..., 0].shape == (1, 2, 2)


@pytest.mark.parametrize("dtype", INDEX_DTYPES)
def test_every_integer_dtype_is_an_index(dtype):
    x = counted((7, 3))
    at = [0, 6, 3, 3] + ([-1, -7] if dtype.startswith("i") else [])
    index = mx.array(at).astype(h.mx_dtype(dtype))
    same(mx.array(x)[index], x[at])
    same(mx.array(x)[np.array(at).astype(dtype)], x[at])
    same(mx.take(mx.array(x), index[:3] * 0 + 2, axis=1), x[:, [2, 2, 2]])
    same(mx.array(x)[index, mx.array([1], mx.int64)], x[at, 1])


@pytest.mark.parametrize("dtype", h.ALL)
def test_rows_of_any_width_and_layout(dtype, rng):
    for width in (1, 2, 3, 4, 8, 15, 16, 33):
        x = counted((9, width), dtype)
        index = rng.integers(-9, 9, (3, 5))
        for label, a in h.layouts(x, dtype):
            same(a[mx.array(index)], x[index], f"{label} {width}")
            column = rng.integers(0, width, 4)
            same(a[:, mx.array(column)], x[:, column], f"columns {label} {width}")


def test_index_arrays_of_any_layout(rng):
    x = counted((6, 5, 4))
    for label, index in h.layouts(rng.integers(-6, 6, (3, 4)), "int32"):
        same(mx.array(x)[index], x[np.array(index)], label)
        other = mx.array(rng.integers(0, 5, (4,)))
        same(mx.array(x)[index, other], x[np.array(index), np.array(other)], label)
        wide = mx.broadcast_to(other[:1], (3, 4))
        same(mx.array(x)[index, wide], x[np.array(index), np.array(wide)], label)


def test_scalars_and_nothing():
    assert mx.array(3)[...].item() == 3 and mx.array(3)[None].shape == (1,)
    x = mx.array(counted((4, 3)))
    assert x[mx.array(2)].tolist() == x[2].tolist() and x[mx.array(-1), mx.array(0)].item() == 9
    nothing = mx.array([], mx.int32)
    assert x[nothing].shape == (0, 3) and x[:, nothing].shape == (4, 0)
    assert x[mx.zeros((2, 0), mx.int32)].shape == (2, 0, 3)
    assert x[2:2][:, mx.array([0, 1])].shape == (0, 2)
    assert mx.zeros((0, 3))[nothing].shape == (0, 3)
    assert x[5:, mx.array([1])].shape == (0, 1)
    same(x[np.int64(1)], np.array(x)[1])


def test_a_lazy_index_is_used_as_it_is():
    """Neither the index nor the array has to be computed before the gather is made."""
    x = mx.arange(20).reshape(4, 5)
    index = mx.argmax(mx.array([[1.0, 3.0, 2.0], [9.0, 1.0, 1.0]]), axis=1)
    assert (x + 1)[index, index + 1].tolist() == [8, 2]


@pytest.mark.parametrize("index", [7, 100, -8, -100, 1 << 20, -(1 << 20)])
def test_indices_out_of_range_are_held_at_the_ends(index):
    x = counted((7, 3))
    end = x[6] if index > 0 else x[0]
    for dtype in (mx.int32, mx.int64):
        assert mx.array(x)[mx.array([index, 2], dtype)].tolist() == [end.tolist(), x[2].tolist()]
    big = mx.array([1 << 40, -(1 << 40), (1 << 32) + 1], mx.int64)
    assert mx.array(x)[big, 0].tolist() == [18, 0, 18]
    assert mx.array(x)[mx.array([(1 << 63) + 5], mx.uint64), 0].item() == 18


def a():
    return mx.array(counted((2, 3, 4)))


def part(starts, axes):
    return mx.slice(a(), starts, axes, (1, 1, 1))


# What MLX 0.32 raises; an integer out of range is undefined there, an IndexError here.
ERRORS = {
    "too many": (lambda: a()[0, 0, 0, 0], ValueError, "indices"),
    "too many of a scalar": (lambda: mx.array(3)[0], ValueError, "indices"),
    "slice of a scalar": (lambda: mx.array(3)[:], ValueError, "indices"),
    "two ellipses": (lambda: a()[..., ...], ValueError, "ellipsis"),
    "text": (lambda: a()["x"], ValueError, "index"),
    "text in a tuple": (lambda: a()[0, "x"], ValueError, "index"),
    "bytes": (lambda: a()[b"x"], ValueError, "index"),
    "float": (lambda: a()[1.0], ValueError, "index"),
    "set": (lambda: a()[{1}], ValueError, "index"),
    "range": (lambda: a()[range(2)], ValueError, "index"),
    "nested tuple": (lambda: a()[(0, 1), 0], ValueError, "index"),
    "True": (lambda: a()[True], ValueError, "index"),
    "True in a tuple": (lambda: a()[0, True], ValueError, "index"),
    "floats": (lambda: a()[mx.array([1.0])], ValueError, "ntegral"),
    "empty list": (lambda: a()[[]], ValueError, "ntegral"),
    "mask": (lambda: a()[mx.array([True, False])], ValueError, "[Bb]oolean"),
    "mask in a tuple": (lambda: a()[mx.array([True, False]), 0], ValueError, "[Bb]oolean"),
    "list of bools": (lambda: a()[[True, False]], ValueError, "[Bb]oolean"),
    "list of text": (lambda: a()[["a"]], ValueError, "Invalid type"),
    "ragged list": (lambda: a()[[[0], [1, 2]]], ValueError, "non-uniform"),
    "shapes": (lambda: a()[[0, 1], [0, 1, 2]], ValueError, "broadcast"),
    "slice bounds": (lambda: a()[1.0:2], ValueError, "Slice"),
    "slice by arrays": (lambda: a()[mx.array(0) : mx.array(1)], ValueError, "Slice"),
    "slice step": (lambda: a()[::0], ValueError, "step"),
    "integer": (lambda: a()[2], IndexError, "out of bounds"),
    "negative integer": (lambda: a()[0, -4], IndexError, "out of bounds"),
    "huge integer": (lambda: a()[1 << 70], ValueError, "32-bit"),
    "nothing to take": (lambda: mx.zeros((0, 3))[mx.array([0])], ValueError, "length 0"),
    "take floats": (lambda: mx.take(a(), mx.array([0.5])), ValueError, "ntegral"),
    "take bools": (lambda: mx.take(a(), mx.array([True])), ValueError, "Boolean"),
    "take axis": (lambda: mx.take(a(), mx.array([0]), 3), IndexError, "axis"),
    "take integer axis": (lambda: mx.take(a(), 0, -4), IndexError, "axis"),
    "take list": (lambda: mx.take(a(), [0]), TypeError, ""),
    "take float": (lambda: mx.take(a(), 1.5), TypeError, ""),
    "take nothing": (lambda: mx.take(mx.zeros((0, 3)), 0, 0), ValueError, "empty|zero"),
    "take from none": (lambda: mx.take(mx.zeros((0,)), mx.array([0])), ValueError, "empty"),
    "take integer": (lambda: mx.take(a(), 7, axis=1), ValueError, "out of bounds"),
    "along rank": (lambda: mx.take_along_axis(a(), mx.array([0]), 1), ValueError, "dimension"),
    "along axis": (
        lambda: mx.take_along_axis(a(), mx.zeros((1, 1, 1), mx.int32), 3),
        IndexError,
        "axis",
    ),
    "along shape": (
        lambda: mx.take_along_axis(a(), mx.zeros((2, 2, 2), mx.int32), 1),
        ValueError,
        "broadcast",
    ),
    "along floats": (lambda: mx.take_along_axis(a(), mx.zeros((1, 1, 1))), RuntimeError, "ndices"),
    "slice size": (lambda: mx.slice(a(), mx.array([0]), (0,), (3, 3, 4)), ValueError, "size"),
    "slice rank": (lambda: mx.slice(a(), mx.array([0]), (0,), (2,)), ValueError, "size"),
    "slice twice": (lambda: part(mx.array([0, 0]), (0, 0)), ValueError, "epeat"),
    "slice starts": (lambda: part(mx.array([0, 0]), (0,)), ValueError, "umber"),
    "slice floats": (lambda: part(mx.array([0.0]), (0,)), ValueError, "integer"),
    "slice matrix": (lambda: part(mx.array([[0]]), (0,)), ValueError, "dimension"),
    "slice axis": (lambda: part(mx.array([0]), (3,)), IndexError, "axis"),
    "slice list": (lambda: part([0], (0,)), TypeError, ""),
}


@pytest.mark.validation
@pytest.mark.parametrize("name", ERRORS)
def test_wrong_indices(name):
    call, kind, text = ERRORS[name]
    with pytest.raises(kind, match=text or None):
        mx.eval(call())
    h.works()


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bfloat16", "complex64"])
def test_take(dtype, rng):
    x = counted((4, 5, 6), dtype)
    a = h.from_np(x, dtype)
    for axis in (0, 1, 2, -1, None):
        n = x.size if axis is None else x.shape[axis]
        for shape in ((), (1,), (7,), (2, 3), (2, 0)):
            index = rng.integers(-n, n, shape)
            same(mx.take(a, mx.array(index), axis), np.take(x, index, axis), f"{axis} {shape}")
        for i in (0, n - 1, -n):
            same(mx.take(a, i, axis), np.take(x, i, axis), f"{axis} {i}")
    assert mx.take(mx.array(3), mx.array(0)).item() == 3


@pytest.mark.parametrize("dtype", ["float32", "int16", "bool_"])
def test_take_along_axis(dtype, rng):
    x = counted((4, 5, 6), dtype)
    for label, a in h.layouts(x, dtype):
        for axis in (0, 1, 2, -2):
            shape = list(x.shape)
            shape[axis] = 3
            index = rng.integers(-x.shape[axis], x.shape[axis], shape)
            for index_label, i in h.layouts(index, "int32"):
                want = np.take_along_axis(x, index, axis)
                same(mx.take_along_axis(a, i, axis), want, f"{label} {axis} {index_label}")
            thin = index[:1, :, :] if axis % 3 else index[:, :1, :]
            want = np.take_along_axis(x, np.broadcast_to(thin, shape), axis)
            same(mx.take_along_axis(a, mx.array(thin), axis), want, f"{label} {axis} broadcast")
    flat = rng.integers(0, x.size, 9)
    same(mx.take_along_axis(mx.array(x), mx.array(flat), None), x.reshape(-1)[flat])
    wide = mx.array(counted((1, 5)))
    same(mx.take_along_axis(wide, mx.array([[4], [0]]), 1), np.array([[4], [0]]))
    assert mx.take_along_axis(wide, mx.zeros((1, 0), mx.int32), 1).shape == (1, 0)


def test_slice_with_starts_in_an_array():
    x = counted((5, 6, 7))
    a = mx.array(x)
    same(mx.slice(a, mx.array([1]), (0,), (2, 6, 7)), x[1:3])
    same(mx.slice(a, mx.array([1, 2]), (0, -1), (2, 3, 4)), x[1:3, :3, 2:6])
    same(mx.slice(a, mx.array(3), [1], [5, 2, 7]), x[:, 3:5])
    same(mx.slice(a, mx.array([2], mx.uint8), (2,), (5, 6, 1)), x[:, :, 2:3])
    same(mx.slice(a, mx.array([], mx.int32), (), (1, 2, 3)), x[:1, :2, :3])
    assert mx.slice(a, mx.array([1]), (0,), (0, 6, 7)).shape == (0, 6, 7)
    # Starts are held where the part fits; negative ones count from the end.
    same(mx.slice(a, mx.array([4, 100]), (0, 1), (3, 2, 7)), x[2:5, 4:6])
    same(mx.slice(a, mx.array([-2]), (0,), (2, 6, 7)), x[3:5])
    same(mx.slice(a, mx.array([-100]), (0,), (2, 6, 7)), x[:2])
    same(mx.slice(a[::-1], mx.argmax(a[:, 0, 0])[None], (0,), (1, 6, 7)), x[2:3])
    assert mx.slice(mx.array(3), mx.array([], mx.int32), (), ()).item() == 3


def test_large_gathers(rng):
    table = rng.normal(size=(700, 256)).astype(np.float32)
    index = rng.integers(-700, 700, 3000)
    same(mx.array(table)[mx.array(index)], table[index])
    other = rng.integers(0, 256, 3000)
    same(mx.array(table)[mx.array(index), mx.array(other)], table[index, other])
    long = rng.integers(0, 256, (700, 300))
    same(mx.take_along_axis(mx.array(table), mx.array(long), 1), np.take_along_axis(table, long, 1))


def test_slice_update_with_fewer_axes():
    """Axes that the update lacks are whole, or one element where they have a start."""
    x = np.zeros((2, 3, 4), np.float32)
    for shape, start, axes, where in (
        ((1, 2), [1], [1], np.s_[:, 1:2, :2]),
        ((), [1], [1], np.s_[:, 1, :]),
        ((), [1, 2], [0, 2], np.s_[1, :, 2]),
        ((4,), [1], [0], np.s_[1, :, :]),
    ):
        got = mx.slice_update(mx.array(x), mx.full(shape, 5.0), mx.array(start), axes)
        want = x.copy()
        want[where] = 5
        np.testing.assert_array_equal(np.array(got), want)
