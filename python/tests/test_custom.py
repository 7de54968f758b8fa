"""custom_function and checkpoint: rules of the caller, trees, exceptions, other transforms."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest


def close(got, want, tol=1e-6):
    np.testing.assert_allclose(h.to_np(got), h.to_np(want), rtol=tol, atol=tol)


def test_without_rules_it_is_the_function():
    f = mx.custom_function(lambda x, y: mx.sin(x) * y)
    x, y = mx.array(1.0), mx.array(2.0)
    close(f(x, y), mx.sin(x) * y)
    close(mx.grad(f)(x, y), mx.cos(x) * y)
    close(mx.vmap(f)(mx.ones(3), mx.ones(3)), mx.sin(mx.ones(3)))


def test_rules_are_used():
    @mx.custom_function
    def f(x, y):
        return mx.sin(x) * y

    seen = {}

    @f.vjp
    def _(primals, cotangent, output):
        seen["vjp"] = (primals, cotangent, output)
        return cotangent * 5, primals[1] * 7

    @f.jvp
    def _(primals, tangents):
        seen["jvp"] = tangents
        return primals[0] * 11

    @f.vmap
    def _(inputs, axes):
        seen["vmap"] = axes
        return inputs[0] * 13, 0

    x, y = mx.array(1.0), mx.array(2.0)
    gx, gy = mx.grad(f, argnums=(0, 1))(x, y)
    assert (gx.item(), gy.item()) == (5, 14)
    assert [p.item() for p in seen["vjp"][0]] == [1, 2] and seen["vjp"][1].item() == 1
    close(seen["vjp"][2], mx.sin(x) * y)
    (out,), (tan,) = mx.jvp(lambda a: f(a, y), [x], [x])
    assert tan.item() == 11 and seen["jvp"][1] is None
    close(out, mx.sin(x) * y)
    assert mx.vmap(f, in_axes=(0, None))(mx.ones(3), y).tolist() == [13] * 3
    assert seen["vmap"] == (0, None)


def test_trees_and_keywords():
    @mx.custom_function
    def g(d, k=2):
        return [d["a"] * k, {"z": d["b"]}]

    @g.vjp
    def _(primals, cotangents, outputs, k=2):
        assert primals.keys() == {"a", "b"} and outputs[1].keys() == {"z"}
        return {"a": cotangents[0] * 100 * k, "b": cotangents[1]["z"]}

    x, y = mx.array(1.0), mx.array(2.0)
    assert mx.grad(lambda a, b: g({"a": a, "b": b})[0])(x, y).item() == 200
    assert mx.grad(lambda a, b: g({"a": a, "b": b}, k=3)[0])(x, y).item() == 300


def test_none_is_a_zero_derivative():
    @mx.custom_function
    def f(x, y):
        return x * y

    @f.vjp
    def _(primals, cotangent, output):
        return None, cotangent

    gx, gy = mx.grad(f, argnums=(0, 1))(mx.array(3.0), mx.array(4.0))
    assert (gx.item(), gy.item()) == (0, 1)


def test_a_rule_under_vmap_and_twice(rng):
    """Without a vmap rule the derivative rules are mapped too."""

    @mx.custom_function
    def f(x, w):
        return x * w

    @f.vjp
    def _(primals, cotangent, output):
        x, w = primals
        return cotangent * w * 2, cotangent * x * 3

    @f.jvp
    def _(primals, tangents):
        return tangents[0] * primals[1] * 2

    x = mx.array(rng.normal(size=(4,)).astype(np.float32))
    w = mx.array(1.5)
    gx, gw = mx.grad(lambda x, w: mx.sum(mx.vmap(f, in_axes=(0, None))(x, w)), argnums=(0, 1))(x, w)
    close(gx, mx.full((4,), 3.0))
    close(gw, 3 * mx.sum(x), 1e-5)
    close(mx.vmap(mx.grad(f), in_axes=(0, None))(x, w), mx.full((4,), 3.0))
    tan = mx.jvp(lambda x: mx.vmap(f, in_axes=(0, None))(x, w), [x], [mx.ones(4)])[1][0]
    close(tan, mx.full((4,), 3.0))
    second = mx.grad(lambda w: mx.grad(f)(mx.array(1.0), w))(w)
    assert second.item() == 2


def test_inside_compile():
    @mx.custom_function
    def f(x):
        return mx.exp(x) + 1

    @f.vjp
    def _(x, cotangent, output):
        return cotangent * 2

    x = mx.array(1.0)
    close(mx.compile(f)(x), mx.exp(x) + 1)
    assert mx.compile(mx.grad(f))(x).item() == 2
    assert mx.grad(mx.compile(f))(x).item() == 2


def test_bad_rules():
    f = mx.custom_function(lambda x: x * 2)
    x = mx.array(1.0)

    def fails(*_):
        raise KeyError("mine")

    for rule, error in [
        (fails, KeyError),
        (lambda p, c, o: (c, c, c), ValueError),
        (lambda p, c, o: "no", ValueError),
    ]:
        g = mx.custom_function(lambda x, y: x * y)
        g.vjp(rule)
        with pytest.raises(error):
            mx.grad(g)(x, x)
    with pytest.raises(TypeError):
        mx.custom_function(3)
    with pytest.raises(TypeError):
        f.vjp(3)
    with pytest.raises(TypeError):
        mx.checkpoint(3)
    h.works()


def test_checkpoint(rng):
    calls = []

    def f(d, k, s=1.0):
        calls.append(1)
        return {"y": mx.tanh(d["x"] @ d["w"]) * k * s}

    c = mx.checkpoint(f)
    x = mx.array(rng.normal(size=(3, 4)).astype(np.float32))
    w = mx.array(rng.normal(size=(4, 4)).astype(np.float32))

    def loss(g):
        return lambda x, w: mx.sum(g({"x": x, "w": w}, 2, s=0.5)["y"] ** 2)

    close(loss(c)(x, w), loss(f)(x, w))
    for i in (0, 1):
        calls.clear()
        got = mx.grad(loss(c), argnums=i)(x, w)
        assert len(calls) == 2
        close(got, mx.grad(loss(f), argnums=i)(x, w), 1e-5)
    nested = mx.checkpoint(lambda x: mx.checkpoint(mx.sin)(x) * 2)
    close(mx.grad(lambda x: mx.grad(nested)(x))(mx.array(0.7)), -2 * mx.sin(mx.array(0.7)))
    close(mx.vmap(nested)(mx.ones(3)), 2 * mx.sin(mx.ones(3)))
    close(mx.jvp(nested, [mx.ones(3)], [mx.ones(3)])[1][0], 2 * mx.cos(mx.ones(3)))
    close(mx.compile(mx.grad(lambda a: mx.sum(nested(a))))(mx.ones(3)), 2 * mx.cos(mx.ones(3)))


def test_checkpoint_saves_memory():
    def block(x):
        for _ in range(8):
            x = mx.sin(x) * 1.01
        return x

    def peak(f):
        def loss(x):
            for _ in range(8):
                x = f(x)
            return mx.sum(x)

        x = mx.ones((1 << 18,))
        mx.eval(x)
        mx.synchronize()
        mx.clear_cache()
        mx.reset_peak_memory()
        mx.eval(mx.grad(loss)(x))
        return mx.get_peak_memory()

    assert peak(mx.checkpoint(block)) < 0.5 * peak(block)
