"""Limits that hold: 64 axes, lists nested as deep, containers that hold themselves. An error, at
once, and never a stack that overflows."""

import ctypes
import io
import json
import pickle
import struct
import time

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import mlx.utils as utils
import numpy as np
import pytest

MOST = 64
DEEP = 100_000


def itself(kind=list):
    x = kind()
    if kind is dict:
        x["a"] = x
    else:
        x.append(x)
    return x


def nested(depth, core=1.0, kind=list):
    for _ in range(depth):
        core = kind([core])
    return core


@pytest.mark.parametrize(
    "value",
    [
        itself(),
        nested(DEEP),
        nested(DEEP, kind=tuple),
        nested(MOST + 1),
        nested(MOST, core=[]),
        nested(DEEP, core=mx.array(1.0)),
        [[1.0], itself()],
    ],
    ids=["itself", "lists", "tuples", "one too many", "empty", "around an array", "in part"],
)
@pytest.mark.parametrize("make", [mx.array, mx.asarray, lambda v: mx.zeros((3,))[v]])
def test_lists_nested_too_deep(make, value):
    with pytest.raises((ValueError, TypeError, IndexError)) as e:
        make(value)
    assert len(str(e.value)) < 500


def test_lists_nested_as_deep_as_arrays():
    a = mx.array(nested(MOST, core=2.0))
    assert a.shape == (1,) * MOST and a.item() == 2
    b = mx.array(nested(MOST - 1, core=mx.array([3.0])))
    assert b.shape == (1,) * MOST and b.tolist() == nested(MOST, core=3.0)


def header_of(shape):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (63 - (len(text) + 12) % 64) + b"\n"
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text)) + text + b"\0" * 4


def npy(n):
    return mx.load(io.BytesIO(header_of((1,) * n)), format="npy")


def safetensors(n):
    entry = {"a": {"dtype": "F32", "shape": [1] * n, "data_offsets": [0, 4]}}
    text = json.dumps(entry).encode()
    data = struct.pack("<Q", len(text)) + text + b"\0" * 4
    return mx.load(io.BytesIO(data), format="safetensors")["a"]


def unpickled(n):
    make, args, state = mx.zeros((1,)).__reduce_ex__(2)[:3]
    assert state[1] == (1,)
    a = make(*args)
    a.__setstate__((state[0], (1,) * n, state[2]))
    return a


def strided(n):
    return mx.as_strided(one(), (1,) * n, (1,) * n)


def stacked(n):
    a = one()
    for _ in range(min(n, 200) - 1):
        a = mx.stack([a])
    return a


def one():
    return mx.zeros((1,))


MAKERS = {
    "zeros": lambda n: mx.zeros((1,) * n),
    "full": lambda n: mx.full((1,) * n, 3),
    "reshape": lambda n: one().reshape((1,) * n),
    "expand_dims": lambda n: mx.expand_dims(one(), list(range(n - 1))),
    "unflatten": lambda n: mx.unflatten(one(), 0, (1,) * n),
    "broadcast_to": lambda n: mx.broadcast_to(one(), (1,) * n),
    "as_strided": strided,
    "tile": lambda n: mx.tile(one(), (1,) * n),
    "index": lambda n: one()[(None,) * (n - 1)],
    "stack": stacked,
    "uniform": lambda n: mx.random.uniform(shape=(1,) * n),
    "normal": lambda n: mx.random.normal(shape=(1,) * n),
    "npy": npy,
    "safetensors": safetensors,
    "pickle": unpickled,
    "outer of axes": lambda n: mx.tensordot(mx.ones((1,) * 32), mx.ones((1,) * (n - 32)), 0),
    "vmap": lambda n: mx.vmap(lambda x: x.reshape((1,) * (n - 1)))(mx.zeros((1, 1))),
    "at": lambda n: one()[0].reshape((1,) * n).at[..., 0].add(1),
}


@pytest.mark.parametrize("name", MAKERS)
def test_arrays_of_too_many_axes(name):
    make = MAKERS[name]
    assert make(MOST).ndim == MOST
    mx.eval(make(MOST))
    for n in (MOST + 1, DEEP):
        begin = time.perf_counter()
        with pytest.raises(ValueError, match="at most 64 axes"):
            make(n)
        assert time.perf_counter() - begin < 10


def test_buffers_and_tensors_of_too_many_axes():
    kind = ctypes.c_float
    for _ in range(MOST + 1):
        kind = kind * 1
    # The interpreter or the library refuses such a buffer.
    with pytest.raises((ValueError, TypeError, BufferError)):
        mx.array(kind())
    assert mx.array(np.zeros((1,) * MOST, np.float32)).ndim == MOST
    assert mx.from_dlpack(np.zeros((1,) * MOST, np.float32)).ndim == MOST
    back = np.array(mx.zeros((1,) * MOST))
    assert back.ndim == MOST


def test_files_keep_arrays_of_most_axes(tmp_path):
    a = mx.arange(2).reshape((2, *(1,) * (MOST - 1)))
    mx.save(str(tmp_path / "a.npy"), a)
    mx.save_safetensors(str(tmp_path / "a.safetensors"), {"a": a})
    assert mx.load(str(tmp_path / "a.npy")).shape == a.shape
    assert mx.load(str(tmp_path / "a.safetensors"))["a"].shape == a.shape
    assert pickle.loads(pickle.dumps(a)).tolist() == a.tolist()


def test_operations_on_most_axes(rng):
    """Axes of two among many of one, in places that nothing joins."""
    shape = [1] * MOST
    for axis in (0, 13, 31, 40, 63):
        shape[axis] = 2
    x = rng.uniform(-1, 1, shape).astype(np.float32)
    a = mx.array(x)
    perm = list(range(MOST))[::-1]
    np.testing.assert_array_equal(np.array(a.transpose(perm) + 1), x.transpose(perm) + 1)
    np.testing.assert_allclose(
        np.array(mx.sum(a, axis=(0, 40))), x.sum((0, 40)), rtol=1e-6, atol=1e-6
    )
    # NumPy itself sorts and picks along no more than 32 axes.
    ends = np.concatenate([x.min(13, keepdims=True), x.max(13, keepdims=True)], 13)
    np.testing.assert_array_equal(np.array(mx.sort(a, axis=13)), ends)
    np.testing.assert_allclose(np.array(mx.cumsum(a, axis=31)), x.cumsum(31), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(np.array(mx.max(a, axis=63)), x.max(63))
    np.testing.assert_array_equal(
        np.array(mx.concatenate([a, a], axis=5)), np.concatenate([x, x], 5)
    )
    np.testing.assert_array_equal(
        np.array(mx.take(a, mx.array([1, 0]), axis=40)), x.take([1, 0], 40)
    )
    grad = mx.grad(lambda t: (t.transpose(perm) * t.transpose(perm)).sum())(a)
    np.testing.assert_allclose(np.array(grad), 2 * x, rtol=1e-6)
    joined = mx.compile(lambda t: mx.exp(t.transpose(perm)) * 2 + 1)(a)
    np.testing.assert_allclose(np.array(joined), np.exp(x.transpose(perm)) * 2 + 1, rtol=1e-5)
    assert a.tolist() == x.tolist()
    assert repr(mx.zeros((1,) * MOST)).startswith("array([[[")


def tree(kind):
    x = [mx.ones((2,))]
    x.append(x)
    if kind == "dict":
        x = {"a": mx.ones((2,))}
        x["b"] = x
    if kind == "deep":
        x = nested(DEEP, core=mx.ones((2,)))
    return x


def zero(_):
    return mx.zeros(())


def grown(x):
    """A function that makes its own state hold itself."""
    state = [mx.ones((2,))]

    def f(y):
        state.append(state)
        return y + state[0]

    return mx.compile(f, inputs=state)(mx.ones((2,)))


TRANSFORMS = {
    "eval": mx.eval,
    "async_eval": mx.async_eval,
    "grad": lambda x: mx.grad(zero)(x),
    "value_and_grad": lambda x: mx.value_and_grad(zero)(x),
    "vmap": lambda x: mx.vmap(zero)(x),
    "vmap axes": lambda x: mx.vmap(zero, in_axes=(x,))(x),
    "vmap results": lambda x: mx.vmap(lambda _: x)(mx.ones((2,))),
    "compile": lambda x: mx.compile(zero)(x),
    "compile results": lambda x: mx.compile(lambda _: x)(mx.ones((2,))),
    "compile state": lambda x: mx.compile(zero, inputs=x, outputs=x)(mx.ones((2,))),
    "compile grown": grown,
    "checkpoint": lambda x: mx.checkpoint(zero)(x),
    "tree_map": lambda x: utils.tree_map(lambda y: y, x),
    "tree_flatten": utils.tree_flatten,
    "tree_reduce": lambda x: utils.tree_reduce(lambda a, b: a, x, 0),
    "optimizer": lambda x: optim.SGD(0.1).init(x),
}


CASES = [(name, kind) for name in TRANSFORMS for kind in ("list", "dict", "deep")]


@pytest.mark.parametrize("name, kind", [c for c in CASES if c[0] != "optimizer" or c[1] == "dict"])
def test_containers_that_hold_themselves(name, kind):
    with pytest.raises((RecursionError, ValueError)):
        TRANSFORMS[name](tree(kind))
    assert (mx.ones((2,)) + 1).tolist() == [2, 2]


def test_modules_that_hold_themselves():
    m = nn.Linear(2, 2)
    m.parts = []
    m.parts.append(m.parts)
    with pytest.raises((RecursionError, ValueError)):
        m.parameters()


@pytest.mark.parametrize("save", [mx.savez, mx.save_safetensors, mx.save_gguf, mx.save])
def test_saving_what_holds_itself(save, tmp_path):
    value = itself(dict if save in (mx.save_safetensors, mx.save_gguf) else list)
    with pytest.raises((RecursionError, ValueError, TypeError, RuntimeError)):
        save(str(tmp_path / "x"), value)


def test_long_lists_of_axes():
    x = mx.zeros((2, 3))
    many = [0] * DEEP
    for call in (
        lambda: mx.sum(x, axis=many),
        lambda: mx.squeeze(x, axis=many),
        lambda: mx.transpose(x, many),
        lambda: mx.pad(x, [(0, 0)] * DEEP),
        lambda: mx.fft.fftn(x, axes=many),
        lambda: x[(slice(None),) * DEEP],
    ):
        begin = time.perf_counter()
        with pytest.raises((ValueError, IndexError)) as e:
            call()
        assert time.perf_counter() - begin < 10
        assert len(str(e.value)) < 2000


def test_lists_of_no_elements():
    with pytest.raises(ValueError, match=r"\[tolist\] At most 4194304 lists .* got 1073741824"):
        mx.zeros((2**30, 0, 4)).tolist()
    assert mx.zeros((2, 3, 0)).tolist() == [[[], [], []], [[], [], []]]
    assert mx.zeros((0, 2**30)).tolist() == []
