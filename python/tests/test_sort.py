"""Sorting, partitions, the largest elements, medians, searches, distinct elements: against NumPy,
order of NaN and equal elements, derivatives against finite differences."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

# Rows of a length that each way of sorting on the GPU meets: one tile, merges, radix passes.
LENGTHS = [0, 1, 2, 33, 1000, 5000, 70_000]


def operand(rng, dtype, shape, ties=False):
    if dtype == "bool_":
        return rng.random(shape) < 0.5
    if ties:
        return rng.integers(0, 9, shape)
    if dtype in h.INTS:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    x = rng.normal(size=shape) * 10
    return x + 1j * rng.integers(0, 3, shape) if dtype == "complex64" else x


def check(a, axis, label=""):
    """sort and argsort of an MLX array against NumPy's stable sort, which has NaN last too."""
    x = h.to_np(a)
    flat, ax = (x.reshape(-1), 0) if axis is None else (x, axis)
    order = np.argsort(flat, axis=ax, kind="stable")
    got = mx.argsort(a, axis=axis)
    assert got.dtype == mx.uint32
    np.testing.assert_array_equal(np.array(got), order, err_msg=f"argsort {label}")
    got = mx.sort(a, axis=axis)
    assert got.dtype == a.dtype
    want = np.take_along_axis(flat, order, ax)
    np.testing.assert_array_equal(h.to_np(got), want, err_msg=f"sort {label}")


@pytest.mark.parametrize("dtype", h.session_dtypes())
def test_sort_lengths(dtype, rng):
    for n in LENGTHS if dtype in ("int32", "float32") or not h.on_gpu() else LENGTHS[:-1]:
        for ties in (False, True):
            a = h.from_np(operand(rng, dtype, (n,), ties), dtype)
            check(a, 0, f"{dtype} {n} ties {ties}")
    a = h.from_np(operand(rng, dtype, (3, 9000)), dtype)
    check(a, 1, f"{dtype} rows")
    check(a.reshape(9000, 3), 0, f"{dtype} columns")


@pytest.mark.parametrize("dtype", h.session_dtypes())
def test_short_rows(dtype, rng):
    """Rows of which a workgroup of a GPU has many, up to the longest and one more."""
    widths = range(1, 66) if dtype in ("float32", "int8") else (1, 3, 8, 31, 64, 65)
    for n in widths:
        x = operand(rng, dtype, (301, n), ties=n % 3 == 0)
        check(h.from_np(x, dtype), 1, f"{dtype} {n}")
        check(h.from_np(x[:77].T.copy(), dtype), 0, f"{dtype} {n} columns")
    x = h.from_np(operand(rng, dtype, (6, 9, 40)), dtype)
    views = {
        "middle axis": (x, 1),
        "first axis": (x, 0),
        "every other": (x[::2, 1:, ::3], 2),
        "backwards": (x[:, ::-1, ::-1], 1),
        "turned": (x.transpose(2, 0, 1), 2),
        "broadcast": (mx.broadcast_to(x[:, :1], (6, 30, 40)), 1),
    }
    for label, (v, axis) in views.items():
        check(v, axis, f"{dtype} {label}")


@pytest.mark.parametrize("dtype", h.FLOATS)
def test_special_values_in_short_rows(dtype, rng):
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1, -1, -np.nan])
    for n in (2, 5, 8, 33, 64):
        a = h.from_np(rng.choice(special, (100, n)), dtype)
        check(a, 1, f"{dtype} {n}")
        rows = mx.sort(mx.broadcast_to(mx.array([0.0, -0.0], a.dtype), (9, 2)))
        assert np.signbit(h.to_np(rows)).tolist() == [[True, False]] * 9


def ends(a, k, axis):
    """Parts of orders of an array that a GPU finds without sorting, by what gives them in NumPy."""
    at = (slice(None),) * (axis % a.ndim)
    first, last = (*at, slice(k)), (*at, slice(-k, None))
    return [
        (last, mx.topk(a, k, axis), False),
        (last, mx.sort(a, axis)[last], False),
        (first, mx.sort(a, axis)[first], False),
        (first, mx.partition(a, k, axis)[first], False),
        (last, mx.argsort(a, axis)[last], True),
        (first, mx.argsort(a, axis)[first], True),
        (last, mx.argpartition(a, -k, axis)[last], True),
    ]


def check_ends(a, k, axis, label):
    x = h.to_np(a)
    order = np.argsort(x, axis=axis, kind="stable")
    values = np.take_along_axis(x, order, axis)
    for number, (part, got, arg) in enumerate(ends(a, k, axis)):
        got, label_ = h.to_np(got), f"{label} {number}"
        if not h.on_gpu() and number in (0, 3, 6):
            # Without an order among themselves, on the host.
            got = np.sort(got if number < 6 else np.take_along_axis(x, got, axis), axis)
            np.testing.assert_array_equal(got, values[part], err_msg=label_)
            continue
        np.testing.assert_array_equal(got, (order if arg else values)[part], err_msg=label_)


@pytest.mark.parametrize("dtype", h.session_dtypes())
def test_ends_of_long_rows(dtype, rng):
    for shape, k in [((3, 2048), 1), ((2, 5000), 7), ((40_000,), 100), ((2500, 3), 256)]:
        axis = int(np.argmax(shape))
        for ties in (False, True):
            a = h.from_np(operand(rng, dtype, shape, ties), dtype)
            check_ends(a, k, axis, f"{dtype} {shape} {k} ties {ties}")
    if dtype in ("float32", "bfloat16", "complex64"):
        a = h.from_np(operand(rng, dtype, (2, 70_000)), dtype)
        check_ends(a[:, ::-1], 50, 1, f"{dtype} backwards")
        check_ends(a[:, 3::2], 50, -1, f"{dtype} every other")


def test_ends_of_hostile_rows(rng):
    n = 9000
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, -np.nan])
    rows = {
        "equal": np.ones(n),
        "two values": rng.integers(0, 2, n),
        "ascending": np.arange(n),
        "descending": -np.arange(n),
        "close": 1 + np.arange(n) % 700 * 2.0**-23,
        "one apart": np.where(np.arange(n) == 5000, 2.0, 1.0),
        "special": rng.choice(special, n),
        "huge": rng.choice([3e38, -3e38, 1.0], n),
        "almost all NaN": np.where(np.arange(n) % 3000 == 1, 1.0, np.nan),
    }
    for label, row in rows.items():
        check_ends(h.from_np(np.stack([row, row[::-1]]), "float32"), 20, 1, label)
    for k in (1, 255, 256, 257):
        check_ends(h.from_np(rng.integers(0, 40, (2, n)), "int32"), k, 1, f"{k}")


@pytest.mark.gpu
def test_ends_repeat_and_are_those_of_a_sort(rng):
    a = h.from_np(np.round(rng.normal(size=(3, 30_000)), 1), "float32")
    for name, f in {
        "values": lambda: mx.topk(a, 60),
        "places": lambda: mx.argpartition(a, -60)[:, -60:],
        "least places": lambda: mx.argpartition(a, 60)[:, :60],
    }.items():
        before = mx.vulkan._set_disabled([])
        runs = [np.array(f()) for _ in range(3)]
        mx.vulkan._set_disabled(["sort_tops"])
        runs.append(np.array(f()))
        mx.vulkan._set_disabled(before)
        for run in runs[1:]:
            np.testing.assert_array_equal(run, runs[0], err_msg=name)
    # What is read as a whole is sorted as a whole.
    order = mx.argsort(a)
    part = order[:, :5]
    np.testing.assert_array_equal(np.array(part), np.array(order)[:, :5])
    d = mx.grad(lambda x: mx.topk(x, 4).sum())(a)
    assert np.array(d).sum(1).tolist() == [4.0] * 3


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "float32", "int64"])
def test_sort_many_rows(dtype, rng):
    for rows, n in [(200, 7), (65, 64), (40, 100), (33, 300), (20, 1025), (17, 2500)]:
        check(h.from_np(operand(rng, dtype, (rows, n)), dtype), 1, f"{dtype} {rows} {n}")


def test_a_million(rng):
    n = 150_000 if h.on_gpu() else 1 << 20
    for dtype in ("float32", "int32"):
        check(h.from_np(operand(rng, dtype, (n,)), dtype), 0, dtype)


def test_sort_layouts(rng):
    for dtype in ("float32", "uint8", "complex64"):
        x = h.from_np(operand(rng, dtype, (12, 20)), dtype)
        views = {
            "transposed": x.T,
            "strided": x[::2, 1::3],
            "reversed": x[::-1, ::-1],
            "offset": x[1:, 3:],
            "broadcast row": mx.broadcast_to(x[:1], (6, 20)),
            "broadcast column": mx.broadcast_to(x[:, :1], (12, 7)),
            "three axes": x.reshape(3, 4, 20).transpose(1, 2, 0),
        }
        for label, v in views.items():
            for axis in (*range(v.ndim), None):
                check(v, axis, f"{dtype} {label} {axis}")
    big = h.from_np(rng.normal(size=(9000, 3)), "float32").T
    check(big[:, ::-1], 1, "long strided")


@pytest.mark.parametrize("dtype", h.FLOATS)
def test_sort_special_values(dtype, rng):
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1, -1, -np.nan])
    for n in (8, 100, 5000) if h.on_gpu() else (8, 100, 5000, 70_000):
        check(h.from_np(rng.choice(special, n), dtype), 0, f"{dtype} {n}")
    # Sorted values are the input's, bit for bit.
    bits = np.array(
        [0x7FC00001, 0xFFC00002, 0x80000000, 0x00000000, 0x3F800000, 0x7F800000], np.uint32
    )
    got = mx.sort(mx.array(bits).view(mx.float32)).view(mx.uint32)
    assert sorted(got.tolist()) == sorted(bits.tolist())
    assert got[:4].tolist() == [0x80000000, 0, 0x3F800000, 0x7F800000]


def test_sort_complex():
    nan = np.nan
    x = mx.array([1 + 2j, complex(nan, 0), 1 + 1j, complex(0, nan), -3, 1 - 5j])
    got = np.array(mx.sort(x))
    assert got[:4].tolist() == [-3, 1 - 5j, 1 + 1j, 1 + 2j]
    assert np.isnan(got[4].real) and got[4].imag == 0
    assert got[5].real == 0 and np.isnan(got[5].imag)
    assert mx.argsort(x).tolist() == [4, 5, 2, 0, 1, 3]


@pytest.mark.parametrize("dtype", h.session_dtypes())
def test_partition(dtype, rng):
    for shape, axis in [((33,), 0), ((7, 100), 1), ((100, 3), 0), ((4, 5), None), ((3000,), -1)]:
        x = h.from_np(operand(rng, dtype, shape, ties=len(shape) == 1), dtype)
        n = x.size if axis is None else x.shape[axis]
        held = h.to_np(x).reshape(-1) if axis is None else h.to_np(x)
        ax = 0 if axis is None else axis
        want = np.sort(held, ax)
        for kth in (0, n // 2, n - 1, -1, -n):
            for got in (
                h.to_np(mx.partition(x, kth, axis)),
                np.take_along_axis(held, np.array(mx.argpartition(x, kth, axis)), ax),
            ):
                at = kth % n
                np.testing.assert_array_equal(np.take(got, at, ax), np.take(want, at, ax))
                for part in (slice(0, at), slice(at, n)):
                    rows = np.moveaxis(got, ax, 0)[part]
                    np.testing.assert_array_equal(np.sort(rows, 0), np.moveaxis(want, ax, 0)[part])
    nan = mx.array([3, np.nan, 2, np.inf, -np.inf])
    assert mx.partition(nan, 3)[3].item() == np.inf


def test_topk(rng):
    x = h.from_np(rng.normal(size=(5, 400)), "float32")
    held = np.array(x)
    for k in (0, 1, 7, 399, 400):
        for axis, rows in ((1, held), (-1, held), (None, held.reshape(-1))):
            got = np.array(mx.topk(x, k, axis))
            assert got.shape == (*rows.shape[:-1], k)
            want = np.sort(rows, -1)[..., rows.shape[-1] - k :]
            np.testing.assert_array_equal(np.sort(got, -1), want)
        if k <= 5:
            np.testing.assert_array_equal(
                np.sort(np.array(mx.topk(x, k, 0)), 0), np.sort(held, 0)[5 - k :]
            )
    assert mx.topk(mx.array([3, np.nan, 1]), 2).shape == (2,)
    assert mx.topk(mx.zeros((0, 3)), 1).shape == (0, 1)


def test_partition_and_topk_errors():
    x = mx.array([3, 1, 2])
    for f in (mx.partition, mx.argpartition):
        for kth in (3, -4):
            with pytest.raises(ValueError, match="invalid kth"):
                f(x, kth)
        with pytest.raises(ValueError, match="invalid kth"):
            f(mx.zeros(0), 0)
    for k in (-1, 4):
        with pytest.raises(ValueError, match="invalid k"):
            mx.topk(x, k)
    for f in (mx.partition, mx.argpartition, mx.topk):
        for bad in (lambda f=f: f(x, 0, axis=1), lambda f=f: f(mx.array(5), 0)):
            with pytest.raises(IndexError):
                bad()
        with pytest.raises(TypeError):
            f(x, 1.0)
        assert f(mx.zeros((0, 3)), 0).shape == ((0, 0) if f is mx.topk else (0, 3))


def test_sort_errors_and_empties():
    for f in (mx.sort, mx.argsort):
        with pytest.raises(IndexError):
            f(mx.array(1.0))
        with pytest.raises(IndexError):
            f(mx.zeros((2, 2)), axis=2)
        assert f(mx.array(3), axis=None).shape == (1,)
        assert f(mx.zeros((0, 3)), axis=0).shape == (0, 3)
        assert f(mx.zeros((3, 0))).shape == (3, 0)


@pytest.mark.parametrize("dtype", h.session_dtypes())
def test_searchsorted(dtype, rng):
    for n, m in [(0, 5), (1, 5), (33, 40), (1000, 3000)]:
        seq = np.sort(h.quantise(operand(rng, dtype, (n,), ties=n == 33), dtype))
        v = h.quantise(operand(rng, dtype, (m,), ties=n == 33), dtype)
        v[: min(n, m) // 2] = seq[: min(n, m) // 2]
        for side in ("left", "right"):
            got = mx.searchsorted(h.from_np(seq, dtype), h.from_np(v, dtype), side)
            assert got.dtype == mx.uint32
            np.testing.assert_array_equal(np.array(got), np.searchsorted(seq, v, side))


def test_searchsorted_rules():
    a = mx.array([1, 2, 2, 4])
    assert mx.searchsorted(a, mx.array([[1], [2]]), side="right").tolist() == [[1], [3]]
    assert mx.searchsorted(a, mx.array(2)).item() == 1
    assert mx.searchsorted(a, mx.array([1.5, 2.5])).tolist() == [1, 3]
    assert mx.searchsorted(mx.arange(10)[::-3][::-1], mx.array([3, 4])).tolist() == [1, 2]
    nan = mx.array([1.0, 2.0, np.nan, np.nan])
    assert mx.searchsorted(nan, mx.array([np.nan, 0.0, 3.0])).tolist() == [2, 0, 2]
    assert mx.searchsorted(nan, mx.array([np.nan, 0.0, 3.0]), "right").tolist() == [4, 0, 2]
    assert mx.searchsorted(mx.array([-0.0, 0.0]), mx.array([0.0, -0.0])).tolist() == [0, 0]
    for bad in (
        lambda: mx.searchsorted(a, a, "middle"),
        lambda: mx.searchsorted(mx.zeros((2, 2)), a),
        lambda: mx.searchsorted(mx.array(1), a),
    ):
        with pytest.raises(ValueError, match="searchsorted"):
            bad()
    with pytest.raises(TypeError):
        mx.searchsorted(a, 1)


@pytest.mark.parametrize("dtype", h.session_dtypes())
def test_unique(dtype, rng):
    for shape in [(1,), (40,), (6, 7), (5000,)]:
        x = h.quantise(operand(rng, dtype, shape, ties=True), dtype)
        values, index, inverse, counts = np.unique(x, True, True, True)
        for size in (len(values), len(values) + 3, 2):
            v, i, inv, c = mx.unique(h.from_np(x, dtype), size, True, True, True)
            k = min(size, len(values))
            assert (i.dtype, inv.dtype, c.dtype) == (mx.uint32, mx.uint32, mx.int32)
            np.testing.assert_array_equal(h.to_np(v)[:k], values[:k])
            np.testing.assert_array_equal(h.to_np(v)[k:], np.full(size - k, values[0]))
            np.testing.assert_array_equal(np.array(i), np.r_[index[:k], [index[0]] * (size - k)])
            np.testing.assert_array_equal(np.array(c), np.r_[counts[:k], [0] * (size - k)])
            np.testing.assert_array_equal(
                np.array(inv), np.minimum(inverse.reshape(shape), size - 1)
            )


def test_unique_rules():
    a = mx.array([2, 1, 2, 3, 1])
    assert mx.unique(a, 5).tolist() == [1, 2, 3, 1, 1]
    assert mx.unique(a, 5, fill_value=7).tolist() == [1, 2, 3, 7, 7]
    assert mx.unique(a, 4, fill_value=mx.array([9])).tolist() == [1, 2, 3, 9]
    assert mx.unique(a, 4, fill_value=1.5).tolist() == [1, 2, 3, 1]
    values, counts = mx.unique(a, 3, return_counts=True)
    assert (values.tolist(), counts.tolist()) == ([1, 2, 3], [2, 2, 1])
    assert [x.tolist() for x in mx.unique(a, 0, True, True, True)] == [[], [], [0] * 5, []]
    assert mx.unique(mx.zeros(0), 2, fill_value=7).tolist() == [7, 7]
    assert mx.unique(mx.zeros(0), 0).shape == (0,)
    # Every NaN is distinct, the zeros are one.
    v, i, inv, c = mx.unique(mx.array([np.nan, 1.0, np.nan, 0.0, -0.0]), 5, True, True, True)
    np.testing.assert_array_equal(np.array(v), [0, 1, np.nan, np.nan, 0])
    assert (i.tolist(), inv.tolist(), c.tolist()) == (
        [3, 1, 0, 2, 3],
        [2, 1, 3, 0, 0],
        [2, 1, 1, 1, 0],
    )
    for bad in (
        lambda: mx.unique(a, -1),
        lambda: mx.unique(mx.zeros(0), 2),
        lambda: mx.unique(a, 3, fill_value=mx.array([1, 2])),
    ):
        with pytest.raises(ValueError, match="unique"):
            bad()
    with pytest.raises(TypeError):
        mx.unique(a)


@pytest.mark.parametrize("dtype", h.session_dtypes())
def test_median(dtype, rng):
    for shape in [(5,), (6,), (4, 5, 6)]:
        x = h.from_np(operand(rng, dtype, shape, ties=True), dtype)
        held = h.to_np(x)
        for axis in {None, 0, -1, (0,), tuple(range(len(shape))), tuple({0, len(shape) - 1})}:
            for keepdims in (False, True):
                got = mx.median(x, axis, keepdims)
                inexact = mx.issubdtype(x.dtype, mx.inexact)
                assert got.dtype == (x.dtype if inexact else mx.float32)
                want = np.median(
                    held.astype(np.complex128 if dtype == "complex64" else np.float64),
                    axis,
                    keepdims=keepdims,
                )
                np.testing.assert_array_equal(h.to_np(got), want)


def test_median_rules():
    assert np.isnan(mx.median(mx.array([1.0, np.nan, 2.0])).item())
    assert mx.median(mx.array([np.inf, np.inf, 1, np.inf])).item() == np.inf
    assert mx.median(mx.array(3.0)).item() == 3
    assert mx.median(mx.zeros((0, 3)), axis=1).shape == (0,)
    for shape, axis in [((0,), None), ((0, 3), 0), ((2, 2), [0, 0]), ((2, 2), [])]:
        with pytest.raises(ValueError):
            mx.median(mx.zeros(shape), axis=axis)
    with pytest.raises(IndexError):
        mx.median(mx.zeros(3), axis=1)


def test_minmax_and_count_nonzero(rng):
    x = h.from_np(rng.integers(-2, 3, (3, 4, 5)), "int32")
    held = np.array(x)
    for axis in (None, 0, -1, (0, 2)):
        for keepdims in (False, True):
            lo, hi = mx.minmax(x, axis, keepdims)
            np.testing.assert_array_equal(np.array(lo), held.min(axis, keepdims=keepdims))
            np.testing.assert_array_equal(np.array(hi), held.max(axis, keepdims=keepdims))
            got = mx.count_nonzero(x, axis=axis, keepdims=keepdims)
            assert got.dtype == mx.int32
            np.testing.assert_array_equal(
                np.array(got), np.count_nonzero(held, axis, keepdims=keepdims)
            )
    assert all(np.isnan(v.item()) for v in mx.minmax(mx.array([1.0, np.nan])))
    assert mx.count_nonzero(mx.array([0.0, np.nan, -0.0])).item() == 1
    assert mx.count_nonzero(x, 1).shape == (3, 5)
    with pytest.raises(TypeError):
        mx.count_nonzero(x, 1, True)
    assert mx.count_nonzero(mx.zeros((0, 3))).item() == 0
    with pytest.raises(ValueError):
        mx.minmax(mx.zeros(0))
    with pytest.raises(IndexError):
        mx.count_nonzero(x, axis=3)


FUNCTIONS = {
    "sort": (lambda m, x: m.sort(x, axis=1), lambda x: np.sort(x, 1)),
    "sort flat": (lambda m, x: m.sort(x, axis=None), lambda x: np.sort(x, None)),
    "sort columns": (lambda m, x: m.sort(x, axis=0), lambda x: np.sort(x, 0)),
    "partition": (lambda m, x: m.partition(x, 0, axis=1)[:, 0], lambda x: x.min(1)),
    "topk": (lambda m, x: m.topk(x, 1, axis=0), lambda x: x.max(0)),
    "median": (lambda m, x: m.median(x, axis=1), lambda x: np.median(x, 1)),
    "minmax": (lambda m, x: m.stack(m.minmax(x, axis=1)), lambda x: np.stack([x.min(1), x.max(1)])),
    "unique": (lambda m, x: m.unique(x, 12), lambda x: np.sort(x, None)),
}


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_gradients(name, rng):
    f, exact = FUNCTIONS[name]
    x = h.from_np(rng.permutation(12).reshape(3, 4) + 0.25, "float32")
    held = np.array(x, np.float64)
    w = rng.normal(size=exact(held).shape)
    got = mx.grad(lambda v: mx.sum(f(mx, v) * mx.array(w.astype(np.float32))))(x)
    want = np.zeros(12)
    for i in range(12):
        e = np.zeros(12)
        e[i] = 1e-3
        e = e.reshape(3, 4)
        want[i] = np.sum((exact(held + e) - exact(held - e)) * w) / 2e-3
    np.testing.assert_allclose(np.array(got).reshape(-1), want, rtol=1e-5, atol=1e-6)
    # A directional derivative agrees with the gradient.
    t = rng.normal(size=(3, 4)).astype(np.float32)
    out, (tangent,) = mx.jvp(lambda v: f(mx, v), [x], [mx.array(t)])
    np.testing.assert_allclose(np.sum(np.array(tangent) * w), want @ t.reshape(-1), rtol=1e-4)


def test_gradient_of_a_partition_follows_its_elements(rng):
    x = h.from_np(rng.normal(size=200), "float32")
    # Whatever the arrangement, the cotangent of y[i] goes where y[i] came from.
    y = np.array(mx.partition(x, 50))
    (g,) = mx.vjp(lambda v: mx.partition(v, 50), [x], [mx.array(y)])[1]
    np.testing.assert_array_equal(np.array(g), np.array(x))
    (t,) = mx.jvp(lambda v: mx.partition(v, 50), [x], [x * 2])[1]
    np.testing.assert_array_equal(np.array(t), 2 * y)


def test_vmap(rng):
    x = h.from_np(rng.permutation(60).reshape(3, 4, 5), "float32")
    functions = {
        "sort": lambda a: mx.sort(a, axis=0),
        "sort flat": lambda a: mx.sort(a, axis=None),
        "argsort": lambda a: mx.argsort(a, axis=-1),
        "partition": lambda a: mx.sort(mx.partition(a, 1, axis=0)[:2], axis=0),
        "argpartition": lambda a: mx.argpartition(a, 0, axis=0)[0],
        "topk": lambda a: mx.topk(a, 1),
        "median": lambda a: mx.median(a, axis=0),
        "minmax": lambda a: mx.stack(mx.minmax(a)),
        "count_nonzero": lambda a: mx.count_nonzero(a, axis=0),
        "searchsorted": lambda a: mx.searchsorted(mx.array([7.0, 20.0, 41.0]), a),
        "grad of sort": mx.grad(
            lambda a: mx.sum(mx.sort(a, axis=0) * mx.arange(a.shape[0])[:, None])
        ),
    }
    for name, f in functions.items():
        for axis in range(3):
            got = mx.vmap(f, in_axes=axis)(x)
            want = mx.stack([f(mx.take(x, i, axis)) for i in range(x.shape[axis])])
            np.testing.assert_array_equal(np.array(got), np.array(want), err_msg=f"{name} {axis}")
    rows = mx.sort(x.reshape(3, 20), axis=1)
    got = mx.vmap(mx.searchsorted)(rows, x.reshape(3, 20))
    want = [
        np.searchsorted(r, v)
        for r, v in zip(np.array(rows), np.array(x).reshape(3, 20), strict=True)
    ]
    np.testing.assert_array_equal(np.array(got), want)


@pytest.mark.gpu
def test_float64_needs_the_cpu():
    x = mx.zeros(3, mx.float64, stream=mx.cpu)
    for f in (
        mx.sort,
        mx.argsort,
        mx.median,
        lambda a: mx.partition(a, 1),
        lambda a: mx.topk(a, 1),
        lambda a: mx.searchsorted(a, a),
        lambda a: mx.unique(a, 2),
    ):
        with pytest.raises(ValueError, match="float64"):
            f(x)


@pytest.mark.gpu
@pytest.mark.parametrize("way", ["radix", "merge"])
def test_every_way_of_sorting_long_rows(way):
    code = """
        import mlx.core as mx
        import numpy as np
        rng = np.random.default_rng(0)
        for dtype in (np.uint8, np.float16, np.int32, np.float32, np.int64, np.complex64):
            for n in (2100, 4100, 20_000):
                x = rng.integers(-99, 99, (2, n)).astype(dtype)
                a = mx.array(x)
                order = np.argsort(x, axis=1, kind="stable")
                assert (np.array(mx.argsort(a, axis=1, stream=mx.gpu)) == order).all(), (dtype, n)
                got = np.array(mx.sort(a.T, axis=0, stream=mx.gpu)).T
                assert (got == np.take_along_axis(x, order, 1)).all(), (dtype, n)
    """
    h.python(code, {"MLX_VK_SORT": way})
