"""compile: equal to calling the function, recorded once a form, with state and other transforms."""

import copy
import functools
import inspect
import pickle
import time
from functools import partial

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
from spec import BINARY, UNARY
from test_registry import operand


def close(got, want, label="", tol=2e-6):
    assert got.shape == want.shape and got.dtype == want.dtype, label
    np.testing.assert_allclose(h.to_np(got), h.to_np(want), rtol=tol, atol=tol, err_msg=label)


@pytest.mark.parametrize("name", list(UNARY) + list(BINARY))
def test_every_elementwise_op_in_a_fused_kernel(name, rng):
    """The op between two others, so that it is fused: equal to the same ops one by one."""
    arity = 1 if name in UNARY else 2
    op, f = (UNARY if arity == 1 else BINARY)[name], getattr(mx, name)
    for dtype in ["float32", "float16", "int32"]:
        if op.result(dtype) is None:
            continue
        x = [h.from_np(operand(rng, op, dtype, (4, 33), i == 1), dtype) for i in range(arity)]

        def chain(*args):
            y = f(*[mx.maximum(a, a) for a in args])
            return mx.where(y == y, y, y), mx.logical_not(y)

        tol = 2e-3 if dtype == "float16" else 2e-6
        for got, want in zip(mx.compile(chain)(*x), chain(*x), strict=True):
            close(got, want, f"{name} {dtype}", tol)


CASES = {
    "chain": lambda x, y: mx.tanh(x * 2 + y) - 1,
    "two results": lambda x, y: (x + y, (x + y) * x),
    "shared": lambda x, y: mx.exp(x + y) * (x + y) / mx.sqrt(mx.abs(x + y) + 1),
    "broadcast": lambda x, y: x * y[0] + mx.broadcast_to(y[:, :1], y.shape) * 3,
    "reduce between": lambda x, y: (x - x.max(-1, keepdims=True)) * y.sum() + x,
    "detour": lambda x, y: (x + 1) * mx.sum(x + 1) + mx.sort(y + x, axis=0) * (y + x),
    "softmax by hand": lambda x, y: (
        mx.exp(x - mx.max(x, -1, keepdims=True))
        / mx.sum(mx.exp(x - mx.max(x, -1, keepdims=True)), -1, keepdims=True)
    ),
    "norm": lambda x, y: (
        (x - x.mean(-1, keepdims=True)) * mx.rsqrt(x.var(-1, keepdims=True) + 1e-5) * y
    ),
    "matmul": lambda x, y: mx.maximum(x @ y.T + 1, 0) * 2,
    "views": lambda x, y: (x.T + 1).reshape(-1)[::2] * 2 + 1,
    "casts": lambda x, y: ((x * 100).astype(mx.int32) // 3).astype(mx.float16) + y,
    "unused": lambda x, y: (mx.exp(y), x)[1] + 1,
    "constant": lambda x, y: x + mx.arange(6.0) * mx.array(2.0),
    "identity": lambda x, y: (x, x, y),
    "nothing": lambda x, y: mx.ones((2, 2)),
    "random key": lambda x, y: x + mx.random.uniform(shape=(4, 6), key=mx.random.key(3)),
    "grad inside": lambda x, y: mx.grad(lambda a: mx.sum(mx.sin(a) * y))(x) + x,
    "vmap inside": lambda x, y: mx.vmap(lambda a, b: mx.sum(a * b) + b)(x, y) + 1,
    "long": lambda x, y: sum((mx.maximum(x * i, y) + y * i for i in range(200)), x),
    "many functions": lambda x, y: sum((mx.sin(x * 0.5**i) for i in range(12)), y),
    "many arrays": lambda x, y: sum(((x[i % 4] * y[i % 4]) for i in range(40)), x[0]),
}


@pytest.mark.parametrize("name", list(CASES))
def test_equals_the_function(name, rng):
    f = CASES[name]
    x, y = (mx.array(rng.normal(size=(4, 6)).astype(np.float32)) for _ in range(2))
    want, got = f(x, y), mx.compile(f)(x, y)
    if not isinstance(want, tuple):
        want, got = (want,), (got,)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        close(g, w, name, 2e-5)
    again = mx.compile(f)
    again(x, y)
    second = again(y, x)
    expected = f(y, x)
    for g, w in zip(
        second if isinstance(second, tuple) else (second,),
        expected if isinstance(expected, tuple) else (expected,),
        strict=True,
    ):
        close(g, w, name, 2e-5)


def count_calls(f):
    def counted(*args, **kwargs):
        counted.calls += 1
        return f(*args, **kwargs)

    counted.calls = 0
    return counted


def test_recorded_once_for_each_form():
    f = count_calls(lambda a, b=2, **k: a * b)
    c = mx.compile(f)
    x = mx.arange(4.0)
    for call in [
        lambda: c(x),
        lambda: c(x, 2),
        lambda: c(x, 3),
        lambda: c(x, 2.0),
        lambda: c(x, b=2),
        lambda: c(mx.arange(5.0)),
        lambda: c(x.astype(mx.float16)),
        lambda: c(x[None]),
        lambda: c(x, k=[1, "s", None, {"a": x}]),
    ]:
        before = f.calls
        call()
        call()
        assert f.calls == before + 1
    assert mx.array_equal(c(x, 3), x * 3)


def test_shapeless():
    f = count_calls(lambda a, b: ((a - a.mean(-1, keepdims=True)) @ b.T).flatten() * 2 + a.var())
    c = mx.compile(f, shapeless=True)
    for n in (2, 3, 7):
        a, b = mx.arange(5.0 * n).reshape(n, 5), mx.ones((n + 1, 5))
        close(c(a, b), f(a, b), tol=1e-5)
    before = f.calls
    c(mx.ones((9, 5)), mx.ones((2, 5)))
    assert f.calls == before
    c(mx.ones((9, 5)).astype(mx.float16), mx.ones((2, 5)))
    assert f.calls == before + 1
    r = mx.compile(lambda a: a.reshape(2, -1)[None].squeeze(0), shapeless=True)
    assert r(mx.ones(4)).shape == (2, 2)
    assert r(mx.ones(6)).shape == (2, 3)
    with pytest.raises(ValueError, match="reshape"):
        r(mx.ones(5))
    with pytest.raises(ValueError, match="output_shapes"):
        mx.compile(lambda a: mx.as_strided(a, (2,), (0,)), shapeless=True)(mx.ones(2))
    h.works()


def test_captured_state():
    state = {"w": mx.array([1.0, 2.0]), "n": [mx.array(0)]}

    def step(x):
        state["w"] = state["w"] - 0.5 * x
        state["n"][0] = state["n"][0] + 1
        return mx.sum(state["w"])

    c = mx.compile(step, inputs=state, outputs=state)
    for i in range(3):
        assert c(mx.ones(2)).item() == 3 - (i + 1)
        assert state["n"][0].item() == i + 1
    state["w"] = mx.array([10.0, 10.0])
    assert c(mx.ones(2)).item() == 19


def test_state_that_appears_while_recording():
    state = {}

    def step(x):
        state["m"] = state.get("m", mx.zeros_like(x)) + x
        return x

    c = mx.compile(step, inputs=state, outputs=state)
    for i in range(3):
        c(mx.ones(2))
        assert state["m"].tolist() == [i + 1.0] * 2


def test_random_state():
    @partial(mx.compile, inputs=mx.random.state, outputs=mx.random.state)
    def draw():
        return mx.random.uniform(shape=(3,))

    mx.random.seed(5)
    got = [draw().tolist() for _ in range(3)]
    mx.random.seed(5)
    assert got == [mx.random.uniform(shape=(3,)).tolist() for _ in range(3)]
    fixed = mx.compile(lambda: mx.random.uniform(shape=(3,)))
    assert fixed().tolist() == fixed().tolist()


def test_around_and_inside_other_transforms(rng):
    x, y = (mx.array(rng.normal(size=(4, 6)).astype(np.float32)) for _ in range(2))

    def f(a, b):
        return mx.sum(mx.sin(a) * mx.exp(-b) + mx.mean(a, -1, keepdims=True) * b)

    c = mx.compile(f)
    for i in (0, 1):
        want = mx.grad(f, argnums=i)(x, y)
        close(mx.grad(c, argnums=i)(x, y), want, tol=1e-5)
        close(mx.compile(mx.grad(f, argnums=i))(x, y), want, tol=1e-5)
        close(mx.compile(mx.grad(mx.compile(f), argnums=i))(x, y), want, tol=1e-5)
    second = mx.grad(lambda a: mx.sum(mx.grad(f)(a, y) ** 2))
    close(mx.compile(second)(x), second(x), tol=1e-4)
    close(mx.grad(lambda a: mx.sum(mx.grad(c)(a, y) ** 2))(x), second(x), tol=1e-4)
    close(mx.vmap(c)(x, y), mx.vmap(f)(x, y), tol=1e-5)
    close(mx.compile(mx.vmap(f))(x, y), mx.vmap(f)(x, y), tol=1e-5)
    out, tan = mx.jvp(c, [x, y], [y, x])
    want_out, want_tan = mx.jvp(f, [x, y], [y, x])
    close(out[0], want_out[0], tol=1e-5)
    close(tan[0], want_tan[0], tol=1e-5)


def test_inner_function_is_recorded_with_the_outer():
    inner = count_calls(lambda x: mx.sin(x) + 1)
    compiled = mx.compile(inner)
    outer = mx.compile(lambda x: compiled(x) * 2)
    close(outer(mx.ones(3)), (mx.sin(mx.ones(3)) + 1) * 2)
    outer(mx.ones(3))
    assert inner.calls == 1


def test_trees_and_plain_results():
    x = mx.arange(4.0)
    got = mx.compile(lambda d: {"a": d["x"][0] + 1, "b": [3, None, ("s", d["y"])]})(
        {"x": [x], "y": x}
    )
    assert got["a"].tolist() == [1, 2, 3, 4] and got["b"][:2] == [3, None]
    assert got["b"][2][0] == "s" and mx.array_equal(got["b"][2][1], x)


def test_switches():
    f = count_calls(lambda x: x + 1)
    c = mx.compile(f)
    mx.disable_compile()
    try:
        c(mx.ones(2))
        c(mx.ones(2))
        assert f.calls == 2
    finally:
        mx.enable_compile()
    c(mx.ones(2))
    c(mx.ones(2))
    assert f.calls == 3
    code = """
    import mlx.core as mx
    n = []
    c = mx.compile(lambda x: (n.append(1), x + 1)[1])
    c(mx.ones(2)); c(mx.ones(2))
    assert len(n) == 2
    """
    h.python(code, env={"MLX_DISABLE_COMPILE": "1"})


def test_empty_and_large(rng):
    f = mx.compile(lambda x: mx.exp(x * 2) + 1)
    assert f(mx.zeros((0, 3))).shape == (0, 3)
    x = mx.array(rng.normal(size=(1 << 18,)).astype(np.float32))
    close(f(x), mx.exp(x * 2) + 1)
    close(f(x[::-2]), mx.exp(x[::-2] * 2) + 1)


def test_bad_input():
    x = mx.arange(4.0)
    with pytest.raises(ValueError, match="trees of arrays or constants"):
        mx.compile(lambda a, b: a)(x, object())
    with pytest.raises(ValueError, match="eval"):
        mx.compile(lambda a: mx.eval(a + 1))(x)
    with pytest.raises(ValueError, match="eval"):
        mx.compile(lambda a: a.sum().item())(x)
    with pytest.raises(TypeError):
        mx.compile(3)
    with pytest.raises(ValueError, match="broadcast"):
        mx.compile(lambda a, b: a + b)(x, mx.ones(3))
    with pytest.raises(ZeroDivisionError):
        mx.compile(lambda a: a * (1 / 0))(x)
    state = [mx.array(1.0)]

    def fails(a):
        state[0] = a * 2
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        mx.compile(fails, inputs=state, outputs=state)(x)
    assert state[0].item() == 1
    h.works()


@pytest.mark.parametrize("around", ["nothing", "recording", "gradient", "switched off"])
def test_what_is_no_constant_is_refused_wherever_the_function_is_called(around, tmp_path):
    x = mx.arange(4.0)
    inner = mx.compile(lambda a, b=None, k=1: a.sum())

    def refused(*args, **kwargs):
        def call(a):
            with pytest.raises(ValueError, match="trees of arrays or constants"):
                inner(a, *args, **kwargs)
            return inner(a, {"b": [None, 2.5]}, k="k")

        if around == "recording":
            assert mx.compile(call)(x).item() == 6
            mx.export_function(str(tmp_path / "f.mlxfn"), call, x)
        elif around == "gradient":
            assert mx.grad(call)(x).tolist() == [1, 1, 1, 1]
        else:
            assert call(x).item() == 6

    if around == "switched off":
        mx.disable_compile()
    try:
        refused(object())
        refused(k=object())
        refused([1, {"a": np.ones(2)}])
        # The constants are looked at before the function is called with too many arguments.
        refused(1, 2, 3, object())
    finally:
        mx.enable_compile()


def test_what_leaks_out_of_a_recording_has_no_value():
    seen = []
    mx.compile(lambda x: (seen.append(x), x + 1)[1])(mx.ones(2))
    with pytest.raises(RuntimeError, match="without a primitive"):
        mx.eval(seen[0] + 1)


@pytest.mark.parametrize(
    "wait", [mx.eval, mx.async_eval, mx.array.item, mx.array.tolist, bool, str]
)
def test_nothing_is_evaluated_while_recording(wait):
    def f(x):
        wait(x.sum())
        return x

    what = "async_eval" if wait is mx.async_eval else "eval"
    for transform in (mx.compile, mx.vmap):
        with pytest.raises(ValueError, match=rf"\[{what}\] .*not allowed|Not allowed"):
            transform(f)(mx.ones((2, 3)))
    if wait is mx.async_eval:
        with pytest.raises(ValueError, match="Not allowed"):
            mx.grad(lambda x: f(x).sum())(mx.ones(3))
    else:
        mx.grad(lambda x: f(x).sum())(mx.ones(3))


TRANSFORMS = (mx.compile, mx.grad, mx.value_and_grad, mx.vmap, mx.checkpoint)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transformed_functions_show_the_attributes_of_the_function(transform):
    def named(x, y: str = "a", *, z: int = 1) -> mx.array:
        """What it does."""
        return x

    named.other = 3
    f = transform(named)
    for name in (
        *("__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "__defaults__"),
        *("__kwdefaults__", "__code__", "__dict__", "other"),
    ):
        assert getattr(f, name) == getattr(named, name)
    assert inspect.signature(f) == inspect.signature(named)
    assert inspect.isfunction(f) and functools.wraps(f)(lambda: 0).__doc__ == named.__doc__
    assert not hasattr(f, "__wrapped__")
    again = transform(f)
    assert again.__name__ == "named" and again.other == 3
    with pytest.raises(AttributeError):
        f.absent  # noqa: B018
    with pytest.raises(AttributeError):
        f.other = 4
    assert named.other == 3
    assert type(f).__name__ == "_gc_func" and repr(f).startswith("<mlx.core._gc_func object at")
    assert f == f and hash(f) == hash(f) and f != transform(named)
    for fails in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="pickle"):
            fails(f)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transformed_objects_show_their_attributes(transform):
    class Scaled:
        """A callable object."""

        factor = 3

        def __call__(self, x):
            return x * self.factor

        def method(self, x):
            """A method."""
            return x * self.factor

    scaled = Scaled()
    f = transform(scaled)
    assert f.__doc__ == "A callable object." and f.factor == 3
    assert not hasattr(f, "__name__")
    method = transform(scaled.method)
    assert method.__self__ is scaled and method.__doc__ == "A method."
    assert transform(functools.partial(pow, exp=2)).keywords == {"exp": 2}
    assert mx.array_equal(mx.compile(scaled)(mx.array([1, 2])), mx.array([3, 6]))


UNCAPTURED = "uncaptured inputs is not allowed"
# What the function reaches beside its argument, and whether that is the argument of the call.
CAPTURES = {
    "itself": (lambda a: lambda x: x + a, True),
    "only": (lambda a: lambda x: a, True),
    "times one": (lambda a: lambda x: a * 1, True),
    "in a dict": (lambda a: lambda x: {"x": x, "a": [a]}, True),
    "no gradient": (lambda a: lambda x: x + mx.stop_gradient(a), True),
    "copied": (lambda a: lambda x: x + mx.array(a), True),
    "an element": (lambda a: lambda x: x.at[0].add(a[0]), True),
    "in a gradient": (lambda a: lambda x: mx.grad(lambda y: (y * a).sum())(x), True),
    "in a compiled one": (lambda a: lambda x: mx.compile(lambda y: y * a)(x), True),
    "shape": (lambda a: lambda x: x + a.shape[0], False),
    "value": (lambda a: lambda x: x + a.sum().item(), False),
    "zeros like it": (lambda a: lambda x: x + mx.zeros_like(a), False),
    "not returned": (lambda a: lambda x: (a + 1, x)[1], False),
    "nothing": (lambda a: lambda x: [], False),
}


@pytest.mark.parametrize("name", CAPTURES)
def test_an_argument_is_not_reached_in_another_way(name, tmp_path):
    make, refused = CAPTURES[name]
    a = mx.array([1.0, 2.0])
    for evaluated in (True, False):
        a = a if evaluated else a + 1
        f = make(a)
        calls = [
            lambda f=f, a=a: mx.compile(f)(a),
            lambda f=f, a=a: mx.compile(lambda x, y: f(x))(mx.ones(2), a),
            lambda f=f, a=a: mx.compile(lambda x, y: f(x))(mx.ones(2), y=a),
            lambda f=f, a=a: mx.compile(lambda x: f(x[0]))([a, {"b": a}]),
            lambda f=f, a=a: mx.compile(f, inputs=[a])(mx.ones(2)),
        ]
        if name != "zeros like it":  # which follow the shape
            calls.append(lambda f=f, a=a: mx.compile(f, shapeless=True)(a))
        if name not in ("in a dict", "nothing"):
            path = str(tmp_path / "f.mlxfn")
            calls.append(lambda f=f, a=a, path=path: mx.export_function(path, f, a))
        for call in calls:
            if refused:
                with pytest.raises(ValueError, match=UNCAPTURED):
                    call()
            else:
                mx.eval(call())
    mx.eval(mx.compile(f)(mx.ones(2)), mx.compile(lambda x, y: x + y)(a, a))


def test_what_an_argument_was_computed_from_or_gave_may_be_reached():
    a = mx.array([1.0, 2.0])
    behind = a * 2
    with pytest.raises(ValueError, match=UNCAPTURED):
        mx.compile(lambda x: x + behind)(a)
    mx.eval(behind)
    assert mx.compile(lambda x: x + behind)(a).tolist() == [3, 6]
    assert mx.compile(lambda x: x + a)(a * 2).tolist() == [3, 6]
    assert mx.checkpoint(lambda x: x + a)(a).tolist() == [2, 4]
    # Only recording looks: the form is known afterwards.
    f = mx.compile(lambda x: x + a)
    assert f(mx.ones(2)).tolist() == [2, 3] and f(a).tolist() == [2, 4]
    with pytest.raises(ValueError, match=UNCAPTURED):
        mx.compile(lambda x: x + a)(a)
    state = {"w": a}
    assert mx.compile(lambda x: x * state["w"], inputs=state)(a).tolist() == [1, 4]
    mx.disable_compile()
    try:
        assert mx.compile(lambda x: x + a)(a).tolist() == [2, 4]
    finally:
        mx.enable_compile()


def test_what_other_transforms_pass_may_be_reached():
    a = mx.array([1.0, 2.0])
    assert mx.grad(mx.compile(lambda x: (x * a).sum()))(a).tolist() == [1, 2]
    assert mx.vmap(mx.compile(lambda x: (x * a).sum()))(a).tolist() == [3, 6]
    assert mx.grad(lambda x: mx.compile(lambda y: (y * x).sum())(x))(a).tolist() == [2, 4]
    assert mx.vmap(lambda x: mx.compile(lambda y: y * x)(x))(a).tolist() == [1, 4]

    def twice(x):
        z = x * 2
        return mx.compile(lambda y: (y * z).sum())(z)

    assert mx.grad(twice)(a).tolist() == [8, 16]


def test_shapes_that_do_not_fit_a_shapeless_scatter():
    """Index arrays and updates of a recorded scatter are held against each other again."""

    def f(a, i, u):
        return a.at[i].add(u)

    def g(a, i):
        return mx.take_along_axis(a, i, 1)

    a, i = mx.zeros((4, 3)), mx.array([0, 1])
    scatter = mx.compile(f, shapeless=True)
    mx.eval(scatter(a, i, mx.ones((2, 3))))
    with pytest.raises(ValueError):
        mx.eval(scatter(a, mx.zeros((500,), mx.int32), mx.ones((2, 3))))
    gather = mx.compile(g, shapeless=True)
    mx.eval(gather(a, mx.zeros((4, 2), mx.int32)))
    with pytest.raises(ValueError):
        mx.eval(gather(a, mx.zeros((900, 2), mx.int32)))


def test_shapes_that_do_not_fit_other_shapeless_ops():
    """What eager calls check is checked again for each shape."""
    for f, good, bad in [
        (lambda a, b: mx.concatenate([a, b]), [(2, 3), (2, 3)], [(2, 3), (2, 4000)]),
        (mx.matmul, [(2, 3), (3, 2)], [(2, 3), (500, 2)]),
        (mx.addmm, [(2, 2), (2, 3), (3, 2)], [(2, 2), (900, 3), (3, 2)]),
        (mx.add, [(2, 3), (2, 3)], [(2, 3), (3, 3)]),
        (lambda x, w: mx.fast.rms_norm(x, w, 1e-5), [(2, 3), (3,)], [(2, 999), (3,)]),
    ]:
        g = mx.compile(f, shapeless=True)
        mx.eval(g(*map(mx.ones, good)))
        with pytest.raises(ValueError):
            mx.eval(g(*map(mx.ones, bad)))


def test_broadcasts_beyond_the_address_space():
    x = [mx.zeros(s, mx.bool_) for s in ((2**21, 1, 1), (1, 2**21, 1), (1, 1, 2**22 + 1))]
    with pytest.raises(ValueError, match="overflows"):
        mx.where(*x)


def test_derivatives_of_shapeless_functions_at_other_shapes():
    # Two steps, so that they are fused; the shape of the first call must not stick.
    f = mx.compile(lambda x: mx.exp(x) * 0.5 - x, shapeless=True)
    f(mx.ones((12,)))
    for shape in ((1,), (2, 3), (4, 1, 2)):
        x = mx.random.normal(shape)
        slope = 0.5 * mx.exp(x) - 1
        assert mx.allclose(mx.grad(lambda y: f(y).sum())(x), slope)
        assert mx.allclose(mx.jvp(f, [x], [x])[1][0], slope * x)
        assert mx.allclose(mx.vmap(f)(x), 0.5 * mx.exp(x) - x)


def normals(*shapes, seed=7):
    keys = mx.random.split(mx.random.key(seed), len(shapes))
    return [mx.random.normal(s, key=k) for s, k in zip(shapes, keys, strict=True)]


SHAPELESS = {
    "matmul": (lambda a, b: a @ b, [(2, 1, 3, 4), (1, 5, 4, 6)], [(3, 1, 3, 4), (1, 2, 4, 6)]),
    "equal batches": (lambda a, b: a @ b, [(2, 3, 4), (2, 4, 6)], [(1, 3, 4), (5, 4, 6)]),
    "one matrix": (lambda a, b: a @ b, [(2, 3, 4), (4, 6)], [(5, 2, 4), (4, 7)]),
    "vector": (lambda a, b: a @ b, [(2, 3, 4), (4,)], [(5, 2, 4), (4,)]),
    "addmm": (mx.addmm, [(3, 6), (2, 3, 4), (4, 6)], [(2, 6), (7, 2, 4), (4, 6)]),
    "arrays": (mx.broadcast_arrays, [(1, 2), (3, 2)], [(4, 1), (1, 5)]),
    "ones": (lambda a: mx.ones_like(a) + mx.zeros_like(a), [(3, 4)], [(5, 1)]),
    "sum": (lambda a: mx.grad(lambda x: (x.mean() * x.sum(-1) ** 2).sum())(a), [(3, 4)], [(5, 4)]),
    "sort": (lambda a: mx.cumsum(mx.sort(a), 0) + mx.argsort(a, 0), [(3, 4)], [(5, 2)]),
    "product": (
        lambda a, b: mx.grad(lambda x: mx.tanh(x @ b).sum())(a),
        [(2, 1, 3, 4), (1, 5, 4, 6)],
        [(2, 1, 3, 4), (1, 3, 4, 6)],
    ),
    "along": (
        lambda a, b: mx.take_along_axis(a, (b > 0).astype(mx.int32), 1),
        [(3, 4), (1, 2)],
        [(5, 3), (1, 6)],
    ),
    "put": (
        lambda a, b: mx.put_along_axis(a, (b > 0).astype(mx.int32), mx.array(1.0), 1),
        [(3, 4), (3, 2)],
        [(5, 4), (5, 2)],
    ),
    "attention": (
        lambda q, k, m: mx.fast.scaled_dot_product_attention(q, k, k, scale=0.5, mask=m),
        [(1, 4, 3, 8), (1, 2, 5, 8), (3, 5)],
        [(2, 4, 2, 8), (2, 2, 7, 8), (2, 7)],
    ),
}


@pytest.mark.parametrize("name", list(SHAPELESS))
def test_shapeless_broadcasts_follow_the_operands(name):
    f, first, then = SHAPELESS[name]
    g = mx.compile(f, shapeless=True)
    for shapes in (first, then, first):
        arrays = normals(*shapes)
        got, want = g(*arrays), f(*arrays)
        several = isinstance(want, (list, tuple))
        for x, y in zip(got, want, strict=True) if several else [(got, want)]:
            close(x, y, name, 1e-5)


def test_shapeless_broadcasts_that_do_not_fit():
    """A shape that a function names stays; operands that do not fit raise as eager ones."""
    f = mx.compile(lambda a: mx.broadcast_to(a, (3, 2)) * 2, shapeless=True)
    assert f(mx.ones((1, 2))).shape == f(mx.ones((3, 1))).shape == (3, 2)
    g = mx.compile(mx.matmul, shapeless=True)
    mx.eval(g(mx.ones((2, 1, 3, 4)), mx.ones((1, 5, 4, 6))))
    for call in (
        lambda: f(mx.ones((4, 2))),
        lambda: g(mx.ones((2, 1, 3, 4)), mx.ones((3, 1, 4, 6))),
        lambda: g(mx.ones((2, 1, 3, 4)), mx.ones((1, 5, 5, 6))),
    ):
        with pytest.raises(ValueError):
            mx.eval(call())


def test_shapeless_broadcasts_vectorise_and_travel(tmp_path):
    def f(a, b):
        return mx.tanh(a @ b).sum(-1)

    a, b = normals((2, 3, 4), (4, 5))
    g = mx.compile(f, shapeless=True)
    g(a, b)
    many, other = normals((3, 2, 3, 4), (4, 6))
    close(mx.vmap(g, (0, None))(many, other), mx.vmap(f, (0, None))(many, other), tol=1e-5)
    close(
        mx.grad(lambda x: g(x, other).sum())(a), mx.grad(lambda x: f(x, other).sum())(a), tol=1e-5
    )
    path = str(tmp_path / "f.mlxfn")
    mx.export_function(path, f, a, b, shapeless=True)
    close(mx.import_function(path)(many[:, 0], other)[0], f(many[:, 0], other), tol=1e-5)


def test_each_stream_gets_its_own_recording():
    """A recording runs where it was made, so that another stream needs another one."""
    forms = []

    @mx.compile
    def f(x):
        forms.append(x)
        return mx.tanh(x) * 2

    x, other = mx.ones(3), mx.new_stream(mx.default_device())
    for _ in range(2):
        first = f(x)
        with mx.stream(other):
            second = f(x)
        assert mx.array_equal(first, second).item()
    assert len(forms) == 2


def hub(n):
    """Steps that read one array from the beginning, old ones, and sums that no kernel can cross."""

    def f(x):
        first, results = mx.exp(x), [x]
        for i in range(n // 4):
            x = mx.sum(results[-1] * 1.001) * 1e-3 + first - results[i // 2] * 0.5
            results.append(x)
        return x

    return f


def parts(n):
    """Equal primitives that differ in a parameter only."""

    def f(x):
        y = x[0]
        for i in range(n // 2):
            y = mx.maximum(y, x[i % x.size])
        return y

    return f


def rows(n):
    """Independent chains that meet at the end."""

    def f(x):
        # Numbers of the program would make each a kernel of its own.
        def chain(i):
            return mx.exp(x * x[i % 50] + x[i // 50 % 50]) - x[i // 2500]

        chains = [chain(i) for i in range(n // 4)]
        return sum(chains[1:], chains[0])

    return f


@pytest.mark.parametrize("make", [hub, parts, rows])
def test_time_to_compile_is_linear_in_the_graph(make):
    """Four times the steps take four times as long, not sixteen times."""
    x = mx.array(np.linspace(0, 1, 50, dtype=np.float32))

    def seconds(n):
        f, start = mx.compile(make(n)), time.thread_time()
        y = f(x)
        return time.thread_time() - start, y

    small = min(seconds(8_000)[0] for _ in range(3))
    times = []
    for _ in range(3):
        took, y = seconds(32_000)
        times.append(took)
        if min(times) < 10 * small:
            break
    assert min(times) < 10 * small, (small, times)
    close(y, make(32_000)(x), tol=1e-4)


def test_fused_graphs_of_any_form(rng):
    """Random graphs of elementwise steps, folds and far reads equal the steps one by one."""
    for _ in range(40):
        plan = []
        for i in range(int(rng.integers(5, 150))):
            near = max(0, i + 3 - int(rng.choice([2, 4, 200])))
            a, b = rng.integers(near, i + 3, size=2)
            plan.append((rng.choice(["add", "sub", "max", "tanh", "sum", "shift"]), a, b))
        last = rng.integers(0, len(plan), size=3)

        def f(*args, plan=plan, last=last):
            values = list(args)
            for op, i, j in plan:
                a, b = values[i], values[j]
                values.append(
                    {
                        "add": lambda a, b: (a + b) * 0.5,
                        "sub": lambda a, b: a - 0.5 * b,
                        "max": mx.maximum,
                        "tanh": lambda a, b: mx.tanh(a),
                        "sum": lambda a, b: mx.mean(a, axis=-1, keepdims=True) + b,
                        "shift": lambda a, b: mx.concatenate([b[:, 1:], a[:, :1]], axis=1),
                    }[op](a, b)
                )
            return [values[3 + i] for i in last]

        args = [h.from_np(rng.normal(size=(3, 40)), "float32") for _ in range(3)]
        for got, want in zip(mx.compile(f)(*args), f(*args), strict=True):
            close(got, want, plan, tol=2e-5)


@pytest.mark.parametrize("shapeless", [True, False])
def test_what_cannot_be_recorded_is_called_inside_a_transform(shapeless):
    """As MLX, which follows the arguments of a transform through the function itself."""
    key = mx.random.key(3)

    def noisy(x):
        return (x * x * mx.random.uniform(shape=x.shape, key=key)).sum()

    def told(x):
        return x.sum() * x.sum().item()

    x = mx.array([1.0, -2.0, 3.0])
    noise = np.array(mx.random.uniform(shape=(3,), key=key))
    got = mx.grad(mx.compile(noisy, shapeless=shapeless))(x)
    np.testing.assert_allclose(np.array(got), 2 * np.array(x) * noise, rtol=1e-6)
    assert mx.grad(mx.compile(told, shapeless=shapeless))(x).tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match="eval"):
        mx.compile(told, shapeless=shapeless)(x)

    def wrong(x):
        raise ValueError("wrong on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        mx.grad(mx.compile(wrong, shapeless=shapeless))(x)
