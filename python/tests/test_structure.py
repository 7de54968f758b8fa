"""meshgrid, unstack, depends, and the memory behind arrays."""

import itertools

import helpers as h
import mlx.core as mx
import numpy as np
import pytest


@pytest.mark.parametrize("lengths", [(), (2,), (2, 3), (2, 3, 4), (1, 0, 2)])
@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("sparse", [False, True])
def test_meshgrid(lengths, indexing, sparse, rng):
    x = [rng.normal(size=n).astype(np.float32) for n in lengths]
    got = mx.meshgrid(*[mx.array(v) for v in x], sparse=sparse, indexing=indexing)
    want = np.meshgrid(*x, sparse=sparse, indexing=indexing)
    assert isinstance(got, tuple) and len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        np.testing.assert_array_equal(np.array(g), w)


def test_meshgrid_keeps_dtypes_and_flattens():
    a, b = mx.meshgrid(mx.array([[1, 2], [3, 4]]), mx.array(0.5))
    assert a.dtype == mx.int32 and b.dtype == mx.float32
    assert a.tolist() == [[1, 2, 3, 4]] and b.tolist() == [[0.5] * 4]
    with pytest.raises(ValueError, match="indexing"):
        mx.meshgrid(a, indexing="x")
    with pytest.raises(TypeError):
        mx.meshgrid([1, 2])


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_unstack(axis, rng):
    x = rng.normal(size=(2, 3, 4)).astype(np.float32)
    got = mx.unstack(mx.array(x), axis=axis)
    assert isinstance(got, tuple) and len(got) == x.shape[axis]
    for g, w in zip(got, np.moveaxis(x, axis, 0), strict=True):
        np.testing.assert_array_equal(np.array(g), w)
    np.testing.assert_array_equal(np.array(mx.stack(got, axis)), x)


def test_unstack_refusals():
    assert mx.unstack(mx.zeros((0, 2))) == ()
    for a, axis in [(mx.array(1), 0), (mx.ones((2,)), 3), (mx.ones((2,)), -2)]:
        with pytest.raises(IndexError, match="unstack"):
            mx.unstack(a, axis=axis)
    with pytest.raises(TypeError):
        mx.unstack(mx.ones((2, 2)), 1)


def test_depends_gives_its_inputs():
    a, b = mx.array([1.0, 2.0]), mx.array([3])
    assert mx.depends(a, b).tolist() == [1, 2]
    assert mx.depends(a, []).tolist() == [1, 2]
    for inputs in ([a, b], (a, b)):
        out = mx.depends(inputs, [b, a])
        assert isinstance(out, list) and [x.tolist() for x in out] == [[1, 2], [3]]
        assert [x.dtype for x in out] == [mx.float32, mx.int32]
    assert mx.depends([], a) == []
    assert mx.depends(a[::-1], b).tolist() == [2, 1]
    for bad in (1, {"a": a}, [[a]], "a"):
        with pytest.raises(TypeError, match="depends"):
            mx.depends(bad, a)
        with pytest.raises(TypeError, match="depends"):
            mx.depends(a, bad)


def test_dependencies_are_computed_with_the_result():
    x = mx.arange(4) * 2
    late = mx.depends(mx.ones((2,)), x)
    mx.eval(late)
    assert mx.get_array_buffer_size(x) > 0  # which asks for an evaluated array
    if h.on_gpu():
        other = mx.add(mx.ones((3,)), 1, stream=mx.cpu)
        assert mx.depends(mx.ones((2,)) + 1, other).tolist() == [2, 2]


def test_gradients_pass_to_the_inputs_alone():
    x, y = mx.array([1.0, 2.0]), mx.array([3.0, 4.0])
    g = mx.grad(lambda x: mx.sum(mx.square(mx.depends(x * 2, mx.exp(x)))))(x)
    assert g.tolist() == [8, 16]
    gx, gy = mx.grad(lambda x, y: mx.sum(mx.square(mx.depends([x, y], x * y)[1])), argnums=(0, 1))(
        x, y
    )
    assert gx.tolist() == [0, 0] and gy.tolist() == [6, 8]
    t = mx.jvp(lambda x, y: mx.depends(x * 3, y), [x, y], [x, y])[1][0]
    assert t.tolist() == [3, 6]


def test_buffer_sizes_count_memory_once():
    a, b = mx.zeros((1000,)) + 1, mx.zeros((10, 10)) + 2
    with pytest.raises(ValueError, match="evaluated"):
        mx.get_array_buffer_size(a)
    mx.eval(a, b)
    both = mx.get_array_buffer_size(a, b)
    assert both == mx.get_array_buffer_size(a) + mx.get_array_buffer_size(b) >= a.nbytes + b.nbytes
    view = a[10:20]
    mx.eval(view)
    assert mx.get_array_buffer_size({"x": [a, view], "y": (b, 3, None)}, a) == both
    assert mx.get_array_buffer_size() == 0 == mx.get_array_buffer_size(1, "x", [])


def test_bytes():
    for x, dtype in itertools.product(
        [mx.array([[1, 2], [3, 4]])], ["uint8", "int32", "float16", "complex64"]
    ):
        a = x.astype(h.mx_dtype(dtype))
        assert bytes(a) == np.array(a).tobytes()
        assert bytes(a.T[::-1]) == np.ascontiguousarray(np.array(a).T[::-1]).tobytes()
        assert a.__bytes__() == bytes(a)
    assert bytes(mx.zeros((0,))) == b""
    with pytest.raises(ValueError, match="at least one shape"):
        mx.broadcast_shapes()
