"""vmap: every op mapped over a batch equals a loop over it, on any axis, nested and composed."""

from collections import namedtuple

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten, tree_map
from spec import BINARY, UNARY
from test_registry import operand

B = 3


def loop(f, args, in_axes, out_axis=0):
    """What vmap must equal: one call an element, stacked."""
    rows = []
    for i in range(B):
        rows.append(
            f(
                *[
                    a if ax is None else mx.take(a, i, ax)
                    for a, ax in zip(args, in_axes, strict=True)
                ]
            )
        )
    if isinstance(rows[0], (tuple, list)):
        return [mx.stack(list(part), out_axis) for part in zip(*rows, strict=True)]
    return mx.stack(rows, out_axis)


def same(got, want, label="", tol=0):
    assert got.shape == want.shape, f"{label}: {got.shape} {want.shape}"
    assert got.dtype == want.dtype, label
    np.testing.assert_allclose(h.to_np(got), h.to_np(want), rtol=tol, atol=tol, err_msg=label)


@pytest.mark.parametrize("name", list(UNARY))
def test_unary(name, rng):
    op, f = UNARY[name], getattr(mx, name)
    dtype = "float32" if op.result("float32") else "int32"
    for shape, axis in [((B,), 0), ((4, B), 1), ((2, B, 5), 1), ((2, 3, B), -1)]:
        x = h.from_np(operand(rng, op, dtype, shape), dtype)
        for out in (0, -1):
            got = mx.vmap(f, in_axes=axis, out_axes=out)(x)
            same(got, loop(f, [x], [axis], out), f"{name} {shape} {axis} {out}")


@pytest.mark.parametrize("name", list(BINARY))
def test_binary(name, rng):
    op, f = BINARY[name], getattr(mx, name)
    dtype = "float32" if op.result("float32") else "int32"
    cases = [
        ((B, 4), (B, 4), 0, 0),
        ((4, B), (B, 4), 1, 0),
        ((B,), (2, 5), 0, None),
        ((2, 5), (5, B), None, 1),
        ((B,), (2, B, 5), 0, 1),
        ((B, 1, 5), (B, 2, 1), 0, 0),
    ]
    for sa, sb, ax, bx in cases:
        a = h.from_np(operand(rng, op, dtype, sa), dtype)
        b = h.from_np(operand(rng, op, dtype, sb, True), dtype)
        got = mx.vmap(f, in_axes=(ax, bx))(a, b)
        same(got, loop(f, [a, b], [ax, bx]), f"{name} {sa} {sb} {ax} {bx}")


def reads(x):
    """Ops of one array with at least two axes, first of length 4, last of length 6."""
    return {
        "astype": lambda: x.astype(mx.int32),
        "reshape": lambda: x.reshape(-1),
        "flatten": lambda: mx.flatten(x),
        "transpose": lambda: x.T,
        "swapaxes": lambda: mx.swapaxes(x, 0, -1),
        "expand_dims": lambda: mx.expand_dims(x, 1),
        "slice": lambda: x[1:, ::2],
        "reversed slice": lambda: x[::-1, 4:1:-1],
        "index": lambda: x[2],
        "broadcast_to": lambda: mx.broadcast_to(x[:1], (5, 6)),
        "as_strided": lambda: mx.as_strided(x, (3, 2), (2, 7), 1),
        "view": lambda: x.view(mx.int16),
        "contiguous": lambda: mx.contiguous(x.T),
        "stop_gradient": lambda: mx.stop_gradient(x),
        "flip": lambda: x[:, ::-1],
        "full": lambda: mx.full((2, 4, 6), x),
        "sum all": lambda: mx.sum(x),
        "sum 0": lambda: mx.sum(x, axis=0),
        "sum -1 keep": lambda: mx.sum(x, axis=-1, keepdims=True),
        "prod": lambda: mx.prod(x, axis=1),
        "max": lambda: mx.max(x, axis=0),
        "min": lambda: mx.min(x),
        "mean": lambda: mx.mean(x, axis=-1),
        "var": lambda: mx.var(x, axis=0),
        "all": lambda: mx.all(x > 0, axis=0),
        "any": lambda: mx.any(x > 0),
        "argmax": lambda: mx.argmax(x, axis=-1),
        "argmin all": lambda: mx.argmin(x),
        "argmin keep": lambda: mx.argmin(x, axis=0, keepdims=True),
        "softmax": lambda: mx.softmax(x, axis=-1),
        "softmax 0": lambda: mx.softmax(x, axis=0),
        "logsumexp": lambda: mx.logsumexp(x, axis=-1),
        "logsumexp keep": lambda: mx.logsumexp(x, axis=-1, keepdims=True),
        "sort": lambda: mx.sort(x, axis=0),
        "argsort": lambda: mx.argsort(x, axis=-1),
        "concatenate": lambda: mx.concatenate([x, mx.ones((2, 6)), x], axis=0),
        "stack": lambda: mx.stack([x, x + 1], axis=1),
        "split": lambda: mx.split(x, 2, axis=1)[1],
        "pad": lambda: mx.pad(x, ((1, 2), (0, 1)), constant_values=7),
        "repeat": lambda: mx.repeat(x, 2, axis=0),
        "tile": lambda: mx.tile(x, (2, 1)),
        "where": lambda: mx.where(x > 0, x, -1.0),
        "clip": lambda: mx.clip(x, -0.5, 0.5),
        "matmul": lambda: x @ x.T,
        "matmul shared": lambda: x @ mx.ones((6, 2)),
        "matvec": lambda: x @ x[0],
        "addmm": lambda: mx.addmm(mx.ones((4, 4)), x, x.T, 0.5, 2.0),
        "addmm addend": lambda: mx.addmm(x, mx.ones((4, 2)), mx.ones((2, 6)), 0.5, 2.0),
        "tri": lambda: mx.tril(x),
    }


@pytest.mark.parametrize("name", list(reads(mx.zeros((4, 6)))))
def test_general(name, rng):
    def f(x):
        return reads(x)[name]()

    for shape, axis in [((B, 4, 6), 0), ((4, B, 6), 1), ((4, 6, B), 2)]:
        x = mx.array(rng.normal(size=shape).astype(np.float32))
        same(mx.vmap(f, in_axes=axis)(x), loop(f, [x], [axis]), f"{name} {axis}", 1e-5)


def test_update_of_a_slice(rng):
    a = mx.array(rng.normal(size=(5, B, 4)).astype(np.float32))
    b = mx.array(rng.normal(size=(B, 2)).astype(np.float32))

    def f(a, b):
        a = mx.array(a)
        a[1:5:2, 3] = b
        return a

    for ax, bx in [(1, 0), (1, None), (None, 0)]:
        args = [a if ax is not None else a[:, 0], b if bx is not None else b[0]]
        same(mx.vmap(f, in_axes=(ax, bx))(*args), loop(f, args, [ax, bx]), f"{ax} {bx}")


def test_keys_give_each_element_its_own_numbers():
    keys = mx.random.split(mx.random.key(7), 6).reshape(2, 3, 2)
    got = mx.vmap(mx.vmap(lambda k: mx.random.uniform(shape=(5,), key=k)))(keys)
    for i in range(2):
        for j in range(3):
            same(got[i, j], mx.random.uniform(shape=(5,), key=keys[i, j]))


def test_nested(rng):
    a = mx.array(rng.normal(size=(2, 4)).astype(np.float32))
    b = mx.array(rng.normal(size=(3, 4)).astype(np.float32))
    outer = mx.vmap(mx.vmap(lambda x, y: x * y, in_axes=(None, 0)), in_axes=(0, None))
    same(outer(a, b), a[:, None] * b[None])
    turned = mx.vmap(mx.vmap(lambda x, y: mx.sum(x * y), in_axes=(0, None)), in_axes=(None, 0))
    same(turned(a, b), (b @ a.T), tol=1e-5)


def test_composes_with_derivatives(rng):
    x = mx.array(rng.normal(size=(B, 4)).astype(np.float32))
    w = mx.array(rng.normal(size=(4,)).astype(np.float32))

    def f(x, w):
        return mx.sum(mx.sin(x * w) * mx.max(x))

    want = mx.stack([mx.grad(f, argnums=(0, 1))(x[i], w)[1] for i in range(B)])
    got = mx.vmap(mx.grad(f, argnums=(0, 1)), in_axes=(0, None))(x, w)[1]
    same(got, want, tol=1e-5)
    of_map = mx.grad(lambda w: mx.sum(mx.vmap(f, in_axes=(0, None))(x, w)))(w)
    same(of_map, mx.sum(want, axis=0), tol=1e-5)
    second = mx.vmap(mx.grad(lambda v: mx.sum(mx.grad(lambda u: mx.sum(u**3))(v) ** 2)))(x)
    same(second, 36 * x**3, tol=1e-4)
    tangent = mx.vmap(lambda x, t: mx.jvp(lambda u: f(u, w), [x], [t])[1][0])(x, mx.ones_like(x))
    whole = mx.stack([mx.sum(mx.grad(f)(x[i], w)) for i in range(B)])
    same(tangent, whole, tol=1e-5)


def test_trees_and_axes():
    x = mx.arange(6).reshape(2, 3)
    y = mx.arange(3)
    got = mx.vmap(lambda d: d["a"] + d["b"], in_axes={"a": 0, "b": None})({"a": x, "b": y})
    same(got, x + y)
    first, second = mx.vmap(lambda a: (a, a + 1), out_axes=(0, 1))(x)
    same(first, x)
    same(second, (x + 1).T)
    got = mx.vmap(lambda a: {"s": a, "c": [y, mx.array(1)]}, out_axes={"s": 1, "c": 0})(x)
    same(got["s"], x.T)
    same(got["c"][0], mx.stack([y, y]))
    same(got["c"][1], mx.array([1, 1]))
    # None is for what does not vary, which comes repeated along a last axis.
    second = mx.vmap(lambda a: (a, y), out_axes=(0, None))(x)[1]
    same(second, mx.stack([y, y], axis=1))
    assert mx.vmap(mx.sin)(mx.zeros((0, 4))).shape == (0, 4)
    same(mx.vmap(lambda a: a + x)(mx.array([1, 2])), mx.stack([x + 1, x + 2]))


Pair = namedtuple("Pair", "a b")
PREFIX, AXIS = "not a valid prefix", "axis must be int or None"
# Axes, arguments (0 stands for an array), and the axis of each array or the error.
TREES = [
    ((1,), (0,), [1]),
    ((-1,), (0,), [1]),
    (True, (0,), [1]),
    ((0, None), (0, 0), [0, None]),
    (Pair(0, 1), (0, 0), [0, 1]),
    (1, ((0, 0),), [1, 1]),
    ((1,), ((0,),), [1]),
    ((1, 0), ((0, 0),), [1, 0]),
    (Pair(1, 0), ((0, 0),), [1, 0]),
    ((1, 0), (Pair(0, 0),), [1, 0]),
    ([1], ([0],), [1]),
    ([1, None], ([0, 0],), [1, None]),
    ({"b": 0, "a": 1}, ({"a": 0, "b": 0},), [1, 0]),
    ((0, [None]), (0, [0]), [0, None]),
    ((0, None), (0, [0, 0]), [0, None, None]),
    ((0, (1, 0)), (0, (0, 0)), [0, 1, 0]),
    ((0, {"a": {"b": 1}}), (0, {"a": {"b": 0}}), [0, 1]),
    ((0, {"a": 1}), (0, {"a": [0, 0]}), [0, 1, 1]),
    ((1, 1), (0,), AXIS),
    ([0], (0,), AXIS),
    ([1], (0,), AXIS),
    (((1,),), (0,), AXIS),
    ((), (0,), AXIS),
    ({}, (0,), AXIS),
    ("a", (0,), AXIS),
    (1.5, (0,), AXIS),
    ([[0]], ([0],), AXIS),
    (([0],), ((0,),), AXIS),
    (((0,),), ((0,),), AXIS),
    ((1,), (0, 0), PREFIX),
    ([0, 0], (0, 0), PREFIX),
    ((0, 0, 0), (0, 0), PREFIX),
    (([0],), ([0],), PREFIX),
    ((0,), ([0],), PREFIX),
    ((1,), ((0, 0),), PREFIX),
    (((1, 1),), ((0, 0),), PREFIX),
    (([1, 0],), ([0, 0],), PREFIX),
    ((0, (0,)), (0, [0]), PREFIX),
    ((0,), ({"a": 0},), PREFIX),
    (({"a": 0},), ({"a": 0},), PREFIX),
    ({"a": 0}, ({"a": 0, "b": 0},), PREFIX),
    ({"a": 0, "b": 0}, ({"a": 0},), PREFIX),
    ({"a": 0, "c": 0}, ({"a": 0, "b": 0},), PREFIX),
]


def arrays(tree):
    """The tree with an array for each 0, and all those arrays."""
    made = []

    def leaf(_):
        made.append(mx.arange(9).reshape(3, 3) + len(made))
        return made[-1]

    return tree_map(leaf, tree), made


@pytest.mark.parametrize(("axes", "tree", "want"), TREES, ids=str)
def test_axes_are_a_prefix_of_the_tree(axes, tree, want):
    args, made = arrays(tree)
    result = args[0] if len(args) == 1 else args
    if isinstance(want, str):
        with pytest.raises(ValueError, match=want):
            mx.vmap(lambda *a: mx.array(1), in_axes=axes)(*args)
        with pytest.raises(ValueError, match=want):
            mx.vmap(lambda i: result, out_axes=axes)(mx.arange(3))
        return
    seen = []

    def taken(*parts):
        leaves = [x for _, x in tree_flatten(parts)]
        seen.append(parts)
        return [x + 0 for x in leaves]

    got = mx.vmap(taken, in_axes=axes)(*args)
    for x, axis, y in zip(made, want, got, strict=True):
        same(y, mx.stack([x] * 3) if axis is None else mx.moveaxis(x, axis, 0))
    for (path, x), (again, _) in zip(tree_flatten(seen[0]), tree_flatten(args), strict=True):
        assert path == again and x.ndim in (1, 2)
    if None not in want:
        rows = mx.vmap(lambda i: tree_map(lambda x: x[i], result), out_axes=axes)(mx.arange(3))
        for x, axis, (_, y) in zip(made, want, tree_flatten(rows), strict=True):
            same(y, mx.moveaxis(x, 0, axis))


BAD = [
    (lambda x: mx.vmap(mx.add)(x, x.T), ValueError, "Inconsistent axis sizes"),
    (lambda x: mx.vmap(mx.add, in_axes=(None, None))(x, x), ValueError, "non-None"),
    (lambda x: mx.vmap(mx.sin, in_axes=5)(x), IndexError, "Invalid vectorization axis 5"),
    (lambda x: mx.vmap(mx.sin)(x[0, 0]), IndexError, "Invalid vectorization axis"),
    (lambda x: mx.vmap(mx.sin, in_axes="x")(x), ValueError, "int or None"),
    (lambda x: mx.vmap(mx.add, in_axes=(0,))(x, x), ValueError, "prefix"),
    (lambda x: mx.vmap(mx.sin, out_axes=3)(x), IndexError, "Invalid output"),
    (lambda x: mx.vmap(mx.sin, in_axes=None), TypeError, "in_axes"),
    (lambda x: mx.vmap(mx.sin, out_axes=None), TypeError, "out_axes"),
    (lambda x: mx.vmap(mx.sin, out_axes=(None,))(x), ValueError, "Axis -1 invalid"),
    (lambda x: mx.vmap(lambda a: 3)(x), ValueError, "only arrays"),
    (lambda x: mx.vmap(mx.sin)(3), ValueError, "only arrays"),
    (lambda x: mx.vmap(lambda a: a.sum().item())(x), ValueError, "eval"),
    (lambda x: mx.vmap(lambda a, b: a)(x, b=x), TypeError, "Keyword"),
    (lambda x: mx.vmap(3), TypeError, "callable"),
]


@pytest.mark.parametrize(("call", "error", "text"), BAD)
def test_bad_input(call, error, text):
    with pytest.raises(error, match=text):
        call(mx.arange(6).reshape(2, 3))
    h.works()


def test_exceptions_pass_through():
    class Own(Exception):
        pass

    def f(x):
        raise Own("mine")

    with pytest.raises(Own, match="mine"):
        mx.vmap(f)(mx.ones(3))
    h.works()
    # Without arguments too, before it is told that there is nothing to vectorise.
    with pytest.raises(TypeError, match="missing 1 required"):
        mx.vmap(f)()
    with pytest.raises(ValueError, match="in_axes"):
        mx.vmap(lambda: mx.ones(2))()
