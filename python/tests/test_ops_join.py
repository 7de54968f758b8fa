"""Arrays side by side and arrays inside of filled ones: every size of element, odd lengths, offsets
and layouts against NumPy; on a GPU by one kernel."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

DTYPES = ["bool_", "int8", "float16", "bfloat16", "float32", "int64", "complex64"]
#: Lengths along the last axis.
WIDTHS = [(1, 127), (77, 51), (64, 64), (8, 8, 8), (3, 1, 2), (5, 0, 6), (33,) * 9, (40, 24, 16)]

on_gpu = [pytest.mark.gpu, pytest.mark.validation, pytest.mark.usefixtures("none_disabled")]


def numbers(rng, shape, dtype):
    """An array, evaluated, and its numbers as NumPy sees them."""
    if dtype == "complex64":
        host = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)
    elif dtype in ("bool_", "int8", "int64"):
        host = rng.integers(0, 2 if dtype == "bool_" else 100, shape)
        host = host.astype({"bool_": np.bool_, "int8": np.int8, "int64": np.int64}[dtype])
    else:
        host = rng.integers(-128, 128, shape).astype(np.float32)
    a = mx.array(host).astype(getattr(mx, dtype))
    mx.eval(a)
    return a, host


def same(got, want):
    got = np.array(got.astype(mx.float32) if got.dtype in (mx.bfloat16, mx.float16) else got)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("widths", WIDTHS)
def test_side_by_side(widths, dtype):
    rng = np.random.default_rng(len(widths))
    made = [numbers(rng, (2, 9, w), dtype) for w in widths]
    same(mx.concatenate([a for a, _ in made], -1), np.concatenate([b for _, b in made], -1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_each_axis(axis, dtype):
    rng = np.random.default_rng(axis)
    shapes = []
    for n in (3, 1, 4):
        shape = [2, 3, 5, 7]
        shape[axis] = n
        shapes.append(tuple(shape))
    made = [numbers(rng, s, dtype) for s in shapes]
    same(mx.concatenate([a for a, _ in made], axis), np.concatenate([b for _, b in made], axis))
    alike = [numbers(rng, (4, 6, 5), dtype) for _ in range(3)]
    same(mx.stack([a for a, _ in alike], axis), np.stack([b for _, b in alike], axis))


@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "float32", "complex64"])
def test_layouts(dtype):
    rng = np.random.default_rng(1)
    a, b = numbers(rng, (11, 3, 70), dtype)
    views = [
        lambda x: (x[:, :, 1:30], x[:, :, 2:44]),
        lambda x: (x[1:, ::2], x[:-1, 1:]),
        lambda x: (x[::-1], x),
        lambda x: (x[:, :, ::2], x[:, :, :5]),
        lambda x: (x[:, :1, 3:5], x[:, 1:2, 6:9], x[:, 2:, :7]),
    ]
    for view in views:
        axis = 1 if view is views[1] else -1
        same(mx.concatenate(view(a), axis), np.concatenate(view(b), axis))
    heads, held = mx.swapaxes(a, 0, 1), np.swapaxes(b, 0, 1)
    same(mx.concatenate([heads, heads[:, :, 1:]], -1), np.concatenate([held, held[:, :, 1:]], -1))
    row, column = mx.broadcast_to(a[:1], (4, 3, 70)), np.broadcast_to(b[:1], (4, 3, 70))
    same(mx.concatenate([row, a[:4]], -1), np.concatenate([column, b[:4]], -1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "width",
    [
        [(1, 1), (1, 2)],
        [(0, 0), (0, 3)],
        [(2, 0), (0, 0)],
        [(0, 5), (8, 8)],
        [(3, 4), (0, 0)],
    ],
)
def test_padding(width, dtype):
    rng = np.random.default_rng(2)
    for shape in ((5, 13), (1, 1), (33, 64)):
        a, b = numbers(rng, shape, dtype)
        one = b.dtype.type(1)
        same(mx.pad(a, width, constant_values=mx.array(one)), np.pad(b, width, constant_values=one))


def test_padding_of_many_axes():
    rng = np.random.default_rng(3)
    for shape in ((2, 3, 4, 5), (2, 1, 3, 2, 4), (2, 2, 2, 2, 2, 2), (7,)):
        a, b = numbers(rng, shape, "float32")
        for _ in range(4):
            width = [tuple(int(n) for n in rng.integers(0, 3, 2)) for _ in shape]
            same(mx.pad(a, width, constant_values=-2.5), np.pad(b, width, constant_values=-2.5))
            some = [w if rng.random() < 0.5 else (0, 0) for w in width]
            same(mx.pad(a, some), np.pad(b, some))
    view, held = mx.swapaxes(mx.array(np.arange(60.0).reshape(3, 20)), 0, 1), None
    held = np.arange(60.0).reshape(3, 20).T
    same(mx.pad(view, 2), np.pad(held, 2))


def test_what_a_filled_array_holds():
    def ours(x):
        out = mx.full((6, 9), 3.5)
        out[1:4, 2:7] = x
        return out

    x = np.arange(15.0, dtype=np.float32).reshape(3, 5)
    want = np.full((6, 9), 3.5, np.float32)
    want[1:4, 2:7] = x
    same(ours(mx.array(x)), want)
    # Broadcast and stepped updates, updates of nothing, and filled arrays that are read besides.
    out = mx.zeros((6, 9))
    out[:, 1:3] = mx.array([1.0, 2.0])
    same(out, np.array([[0, 1, 2, 0, 0, 0, 0, 0, 0]] * 6))
    out = mx.zeros((6, 9))
    out[::2, ::3] = mx.array(1.0)
    want = np.zeros((6, 9))
    want[::2, ::3] = 1
    same(out, want)
    out = mx.ones((2, 3))
    out[1:1] = mx.zeros((0, 3))
    same(out, np.ones((2, 3)))
    base = mx.ones((2, 3))
    part = mx.slice_update(base, mx.zeros((1, 3)), mx.array([1, 0]), [0, 1])
    same(base + part, np.array([[2, 2, 2], [1, 1, 1]]))


def test_gradients():
    x = mx.array(np.arange(6.0, dtype=np.float32).reshape(2, 3))
    w = mx.array(np.arange(20.0, dtype=np.float32).reshape(4, 5))
    same(mx.grad(lambda x: (mx.pad(x, 1) * w).sum())(x), np.arange(20.0).reshape(4, 5)[1:3, 1:4])
    v = mx.array(np.arange(12.0, dtype=np.float32).reshape(2, 6))
    both = mx.grad(lambda a, b: (mx.concatenate([a, b], -1) * v).sum(), (0, 1))(x, x)
    same(both[0], np.array(v)[:, :3])
    same(both[1], np.array(v)[:, 3:])


def kernels_of(f):
    return {name.split("_")[0]: n for name, n in h.kernels(f)[1].items()}


class TestOneKernel:
    pytestmark = on_gpu

    def test_which_kernel_runs(self):
        rng = np.random.default_rng(5)
        made = [numbers(rng, (40, 12), "float32")[0] for _ in range(20)]
        assert kernels_of(lambda: mx.concatenate(made, -1)) == {"join": 1}
        assert kernels_of(lambda: mx.concatenate(made, 0)) == {"join": 1}
        assert kernels_of(lambda: mx.pad(made[0], 2)) == {"join": 1}
        assert kernels_of(lambda: mx.stack([a[0, 0] for a in made])) == {"join": 1}
        apart = kernels_of(lambda: h.apart(lambda: mx.concatenate(made, -1), "join"))
        assert "join" not in apart

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_as_apart(self, dtype):
        rng = np.random.default_rng(6)
        for _ in range(8):
            rows, count = (int(n) for n in rng.integers(2, 70, 2))
            offsets = rng.integers(0, 9, count)
            made = [
                numbers(rng, (rows, int(rng.integers(1, 40)) + int(o)), dtype)[0][:, int(o) :]
                for o in offsets
            ]
            f = lambda made=made: mx.concatenate(made, -1)  # noqa: E731
            got, other = f(), h.apart(f, "join")
            assert mx.array_equal(got, other).item()


@pytest.mark.parametrize("axis", [0, -1, 5, -7])
def test_one_array_is_joined_as_it_is(axis):
    """As MLX, which has nothing to look an axis up for then."""
    assert mx.concatenate([mx.array(3.0)], axis).tolist() == 3.0
    same(mx.concatenate([mx.array([[1, 2]])], axis), np.array([[1, 2]]))
    assert mx.grad(lambda x: mx.concatenate([x * x], axis))(mx.array(3.0)).item() == 6.0
    with pytest.raises(IndexError, match=r"\[concatenate\] Invalid axis"):
        mx.concatenate([mx.array(3.0)] * 2, axis)
