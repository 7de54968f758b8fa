"""Transforms: grad, value_and_grad, vjp, jvp, stop_gradient, trees and higher orders."""

import itertools
import math

import helpers as h
import mlx.core as mx
import numpy as np
import pytest


def numeric(f, x, step=1e-5):
    """Central differences of a float64 function, one element after the other."""
    x = np.asarray(x, np.float64)
    g = np.zeros_like(x)
    for i in range(x.size):
        e = np.zeros_like(x)
        e.flat[i] = step
        g.flat[i] = (f(x + e) - f(x - e)) / (2 * step)
    return g


X = np.random.default_rng(3).normal(size=(3, 4)).astype(np.float32)
W = np.random.default_rng(4).normal(size=200).astype(np.float64)


def weigh(y):
    """A scalar that depends on each element of y in its own way (MLX or NumPy)."""
    flat = y.reshape((-1,))
    w = W[: flat.size]
    if isinstance(flat, mx.array):
        return mx.sum(flat * mx.array(w.astype(np.float32)))
    return np.sum(flat * w)


OTHERS = {
    "reshape": (lambda m, x: m.reshape(x, (2, 6)), None),
    "transpose": (lambda m, x: m.transpose(x) * 1, None),
    "slice": (lambda m, x: x[::-2, 1:3], None),
    "slice_none": (lambda m, x: x[None, 1, ..., ::2], None),
    "broadcast": (lambda m, x: m.broadcast_to(x, (2, 3, 4)), None),
    "concatenate": (lambda m, x: m.concatenate([x, 2 * x, x[:1]], axis=0), None),
    "stack": (lambda m, x: m.stack([x, x * x], axis=1), None),
    "split": (lambda m, x: m.split(x, 2, axis=1)[1] * m.split(x, 2, axis=1)[0], None),
    "pad": (lambda m, x: m.pad(x, [(1, 2), (0, 3)]), None),
    "repeat": (lambda m, x: m.repeat(x, 3, axis=1), None),
    "tile": (lambda m, x: m.tile(x, (2, 2)), None),
    "where": (lambda m, x: m.where(x > 0, x * x, -x), None),
    "clip": (lambda m, x: m.clip(x, -0.5, 0.6) * x, None),
    "sum": (lambda m, x: m.sum(x, axis=1) ** 2, None),
    "mean": (lambda m, x: m.mean(x, axis=0) ** 2, None),
    "prod": (lambda m, x: m.prod(x, axis=1), None),
    "max": (lambda m, x: m.max(x, axis=1) ** 2, None),
    "min": (lambda m, x: m.min(x, axis=0) ** 2, None),
    "var": (lambda m, x: m.var(x, axis=1), None),
    "std": (lambda m, x: m.std(x, axis=0), None),
    "squeeze": (lambda m, x: m.squeeze(m.expand_dims(x, 1)) ** 2, None),
    "swapaxes": (lambda m, x: m.swapaxes(x, 0, 1) ** 3, None),
    "moveaxis": (lambda m, x: m.moveaxis(x, 0, 1) ** 2, None),
    "tril": (lambda m, x: m.tril(x) ** 2, None),
    "sort": (lambda m, x: m.sort(x, axis=1) ** 2, None),
    "take": (lambda m, x: m.take(x, m.array([0, 2, 2]), axis=1) ** 2, None),
    "softmax": (
        lambda m, x: m.softmax(x, axis=-1),
        lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
    ),
    "logsumexp": (lambda m, x: m.logsumexp(x, axis=1), lambda x: np.log(np.exp(x).sum(1))),
    "astype": (lambda m, x: x.astype(m.float32) ** 2, lambda x: x**2),
    "matmul": (lambda m, x: m.matmul(x, x.T), None),
    "roll": (lambda m, x: m.roll(x, 1, 1) * x, None),
}


@pytest.mark.parametrize("name", OTHERS)
def test_gradients_of_the_other_ops_to_second_order(name):
    f, twin = OTHERS[name]
    twin = twin or (lambda x: f(np, x))

    def loss(x):
        return weigh(f(mx, x))

    def loss64(x):
        return weigh(twin(x))

    a = mx.array(X)
    value, grad = mx.value_and_grad(loss)(a)
    np.testing.assert_allclose(value.item(), loss64(X.astype(np.float64)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(np.array(grad), numeric(loss64, X), rtol=2e-3, atol=2e-3)
    u = np.random.default_rng(5).normal(size=X.shape)
    _, (tangent,) = mx.jvp(loss, [a], [mx.array(u.astype(np.float32))])
    t = 1e-4
    wide = X.astype(np.float64)
    up, mid, down = loss64(wide + t * u), loss64(wide), loss64(wide - t * u)
    np.testing.assert_allclose(tangent.item(), (up - down) / (2 * t), rtol=2e-3, atol=2e-3)
    v = mx.array(u.astype(np.float32))
    second = mx.grad(lambda x: mx.sum(mx.grad(loss)(x) * v))(a)
    got = mx.sum(second * v).item()
    np.testing.assert_allclose(got, (up - 2 * mid + down) / t**2, rtol=2e-2, atol=2e-2)


def test_orders():
    f = mx.sin
    for expected in (math.sin, math.cos, lambda x: -math.sin(x), lambda x: -math.cos(x), math.sin):
        assert f(mx.array(0.7)).item() == pytest.approx(expected(0.7), abs=1e-6)
        f = mx.grad(f)
    cube = mx.grad(mx.grad(mx.grad(lambda x: x**3)))
    assert cube(mx.array(2.0)).item() == pytest.approx(6)


def test_jvp_of_grad_and_grad_of_jvp_agree():
    def f(x):
        return mx.sum(mx.exp(x) * mx.tanh(x))

    a, v = mx.array([0.1, -0.4, 0.9]), mx.array([1.0, 2.0, -1.0])
    forward = mx.jvp(mx.grad(f), [a], [v])[1][0]
    reverse = mx.grad(lambda x: mx.jvp(f, [x], [v])[1][0])(a)
    np.testing.assert_allclose(np.array(forward), np.array(reverse), rtol=1e-5)


def test_argnums_and_argnames():
    def f(x, y, *, scale):
        return mx.sum(x * y * scale)

    x, y, s = mx.array([1.0, 2.0]), mx.array([3.0, 4.0]), mx.array(5.0)
    assert mx.grad(f)(x, y, scale=s).tolist() == [15, 20]
    assert mx.grad(f, argnums=1)(x, y, scale=s).tolist() == [5, 10]
    a, b = mx.grad(f, argnums=[0, 1])(x, y, scale=s)
    assert a.tolist() == [15, 20] and b.tolist() == [5, 10]
    value, (positional, named) = mx.value_and_grad(f, argnums=0, argnames="scale")(x, y, scale=s)
    assert value.item() == 55 and positional.tolist() == [15, 20] and named["scale"].item() == 11
    value, (_, only) = mx.value_and_grad(f, argnums=(), argnames=["scale"])(x, y, scale=s)
    assert only["scale"].item() == 11
    # Any walk over texts, and a name that comes twice is one.
    for names in ({"scale"}, ["scale", "scale"], {"scale": 1}, iter(["scale"])):
        _, only = mx.grad(f, argnames=names)(x, y, scale=s)
        assert only["scale"].item() == 11
    for nothing in ({}, set(), range(0)):
        assert mx.grad(f, argnames=nothing)(x, y, scale=s).tolist() == [15, 20]
    for wrong in (0, b"scale", [1], [["scale"]]):
        with pytest.raises(TypeError):
            mx.grad(f, argnames=wrong)


def test_trees():
    params = {
        "layers": [{"w": mx.array([1.0, 2.0]), "b": mx.array(3.0)}],
        "scale": (mx.array(2.0),),
    }

    def loss(p, x):
        layer = p["layers"][0]
        return mx.sum((layer["w"] * x + layer["b"]) * p["scale"][0])

    value, grads = mx.value_and_grad(loss)(params, mx.array([1.0, 10.0]))
    assert value.item() == 54
    assert grads["layers"][0]["w"].tolist() == [2, 20]
    assert grads["layers"][0]["b"].item() == 4
    assert grads["scale"][0].item() == 27 and isinstance(grads["scale"], tuple)
    assert params["layers"][0]["w"].tolist() == [1, 2]


def test_value_and_grad_passes_other_outputs_through():
    def f(x):
        return mx.sum(x * x), {"twice": 2 * x}, "label"

    (value, extra, label), grad = mx.value_and_grad(f)(mx.array([1.0, 2.0]))
    assert value.item() == 5 and extra["twice"].tolist() == [2, 4] and label == "label"
    assert grad.tolist() == [2, 4]


def test_vjp_with_several_inputs_and_outputs():
    def f(x, y):
        return x * y, x + y

    outs, grads = mx.vjp(f, [mx.array(2.0), mx.array(3.0)], [mx.array(1.0), mx.array(10.0)])
    assert [o.item() for o in outs] == [6, 5] and [g.item() for g in grads] == [13, 12]
    outs, tangents = mx.jvp(f, [mx.array(2.0), mx.array(3.0)], [mx.array(1.0), mx.array(10.0)])
    assert [t.item() for t in tangents] == [23, 11]


def test_stop_gradient():
    f = mx.grad(lambda x: mx.sum(x * mx.stop_gradient(x)))
    assert f(mx.array([2.0, 3.0])).tolist() == [2, 3]
    assert mx.grad(lambda x: mx.sum(mx.stop_gradient(x)))(mx.array([1.0])).tolist() == [0]


def test_unused_arguments_have_zero_gradients():
    a, b = mx.grad(lambda x, y: mx.sum(x), argnums=(0, 1))(mx.ones((2,)), mx.ones((3, 1)))
    assert a.tolist() == [1, 1] and b.tolist() == [[0]] * 3


def test_closed_over_arrays_are_constants():
    w = mx.array([3.0, 4.0])
    assert mx.grad(lambda x: mx.sum(w * x))(mx.array([1.0, 1.0])).tolist() == [3, 4]
    f = mx.grad(lambda x: mx.sum(x * mx.grad(lambda z: mx.sum(z * z * x))(w)))
    assert f(mx.array([1.0, 2.0])).tolist() == [12, 32]


def test_shared_subexpressions_count_once_each():
    def f(x):
        y = x * x
        for _ in range(30):
            y = y + y
        return y

    assert mx.grad(f)(mx.array(1.0)).item() == pytest.approx(2 * 2**30)


def test_assignment_is_differentiated():
    def f(x):
        y = x * 1
        y[1:] = x[:2] * 3
        return mx.sum(y * mx.array([1.0, 10.0, 100.0]))

    assert mx.grad(f)(mx.array([1.0, 2.0, 3.0])).tolist() == [31, 300, 0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_gradients_keep_the_dtype(dtype):
    g = mx.grad(lambda x: mx.sum(mx.tanh(x) * 2))(h.from_np(np.array([0.0, 0.0]), dtype))
    assert h.name_of(g.dtype) == dtype and h.to_np(g).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("left", "right"), list(itertools.permutations([(), (3,), (2, 3), (2, 1)], 2))
)
def test_gradients_sum_over_broadcast_axes(left, right):
    a, b = mx.full(left, 2.0), mx.full(right, 3.0)
    ga, gb = mx.grad(lambda a, b: mx.sum(a * b), argnums=(0, 1))(a, b)
    n = np.prod(np.broadcast_shapes(left, right), dtype=int)
    assert ga.shape == left and mx.sum(ga).item() == 3 * n
    assert gb.shape == right and mx.sum(gb).item() == 2 * n


def test_ties_and_limits():
    assert mx.grad(lambda x: mx.sum(mx.maximum(x, 0)))(mx.array([-1.0, 2.0])).tolist() == [0, 1]
    both = mx.grad(lambda a, b: mx.sum(mx.maximum(a, b)), argnums=(0, 1))
    ga, gb = both(mx.array([1.0]), mx.array([1.0]))
    assert ga.item() + gb.item() == 1
    assert mx.grad(lambda x: mx.abs(x))(mx.array(0.0)).item() == 0
    assert mx.grad(lambda x: x**2)(mx.array(0.0)).item() == 0
    assert mx.grad(lambda x: mx.power(x, 3.0))(mx.array(-2.0)).item() == pytest.approx(12)


def test_complex_gradients():
    z = mx.array([1 + 2j, -3 + 0.5j])
    _, (g,) = mx.vjp(lambda z: z * z, [z], [mx.ones_like(z)])
    jv = mx.jvp(lambda z: z * z, [z], [mx.ones_like(z)])[1][0]
    np.testing.assert_allclose(np.array(jv), 2 * np.array(z), rtol=1e-6)
    assert g.dtype == mx.complex64


def test_complex_cotangents_are_conjugated_derivatives():
    """Values of official MLX."""
    z, c = mx.array([1 + 2j, -3 + 0.5j]), mx.array([0.5 + 1j, 2 - 1j])
    r = mx.array([1.0, 2.0])
    want = {
        mx.square: ([5, -13 + 4j], [-3 + 4j, -11 + 8j]),
        mx.conjugate: ([0.5 - 1j, 2 + 1j], [0.5 - 1j, 2 + 1j]),
        mx.real: ([1, 2], [0.5, 2]),
        mx.imag: ([1j, 2j], [1, -1]),
        mx.abs: ([0.4472136 + 0.8944272j, -1.9727879 + 0.3287980j], [1.1180340, -2.1371870]),
        mx.sin: (
            [-2.0355404 + 3.5586700j, -2.3062186 + 0.9692674j],
            [4.0682582 + 0.5067740j, -2.1591491 + 1.2634210j],
        ),
    }
    for f, (back, forward) in want.items():
        cot = c if f(z).dtype == mx.complex64 else r
        _, (g,) = mx.vjp(f, [z], [cot])
        _, (t,) = mx.jvp(f, [z], [c])
        assert g.dtype == mx.complex64 and t.dtype == f(z).dtype
        np.testing.assert_allclose(np.array(g), back, rtol=1e-5)
        np.testing.assert_allclose(np.array(t), forward, rtol=1e-5)


def test_where_keeps_an_infinite_cotangent_on_its_side():
    x, inf = mx.array([1.0, -1.0]), mx.array([math.inf, math.inf])
    assert mx.vjp(lambda x: mx.where(x > 0, x, 1.0), [x], [inf])[1][0].tolist() == [math.inf, 0]
    assert mx.jvp(lambda x: mx.where(x > 0, 1.0, x), [x], [inf])[1][0].tolist() == [0, math.inf]


def test_gradients_of_sort_and_take_add_up():
    x = mx.array([[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]])
    w = mx.array([[1.0, 10.0, 100.0], [1.0, 10.0, 100.0]])
    g = mx.grad(lambda x: mx.sum(mx.sort(x, axis=1) * w))(x)
    assert g.tolist() == [[100, 1, 10], [1, 100, 10]]
    assert mx.grad(lambda x: mx.sum(mx.sort(x, axis=None) ** 2))(x).tolist() == (2 * x).tolist()
    g = mx.grad(lambda x: mx.sum(mx.take(x, mx.array([0, -1, 0]), axis=1)))(x)
    assert g.tolist() == [[2, 0, 1], [2, 0, 1]]
    g = mx.grad(lambda x: mx.sum(mx.take(x, mx.zeros((4096,), mx.int32))))(mx.ones((4096,)))
    assert g.tolist() == [4096] + [0] * 4095


def test_training_a_line_converges():
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    xs, ys = mx.array(x), mx.array(3 * x - 0.5)
    p = {"a": mx.array(0.0), "b": mx.array(0.0)}
    step = mx.value_and_grad(lambda p: mx.mean((p["a"] * xs + p["b"] - ys) ** 2))
    for _ in range(200):
        loss, g = step(p)
        p = {k: p[k] - 0.3 * g[k] for k in p}
        mx.eval(p, loss)
    assert p["a"].item() == pytest.approx(3, abs=1e-3) and p["b"].item() == pytest.approx(
        -0.5, abs=1e-3
    )


def test_an_error_inside_the_function_comes_out():
    def f(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        mx.grad(f)(mx.array(1.0))
    assert mx.grad(lambda x: x * x)(mx.array(3.0)).item() == 6


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_tangents_of_comparisons_have_the_dtype_of_what_is_compared(dtype):
    x, t = (mx.array(v, h.mx_dtype(dtype)) for v in ([1, -2, 3], [1, 1, 1]))
    compare = (mx.equal, mx.not_equal, mx.greater, mx.greater_equal, mx.less, mx.less_equal)
    ops = [lambda v, op=op: op(v, v) for op in compare]
    ops += [mx.isnan, mx.isneginf, mx.isposinf]
    ops += [lambda v: (v > 0)[1:], lambda v: mx.array_equal(v, v), lambda v: mx.all(v > 0)]
    ops += [lambda v: (v > 0).reshape(3, 1), lambda v: (v > 1) == (v > 2)]
    if dtype == "float32":
        ops.append(mx.compile(lambda v: v > 0))
    for op in ops:
        out, tangent = (v[0] for v in mx.jvp(op, [x], [t]))
        assert out.dtype == mx.bool_
        assert tangent.dtype == x.dtype and tangent.shape == out.shape
        assert not mx.any(tangent).item()
    _, (tangent,) = mx.jvp(lambda v: mx.argpartition(v, 1), [x], [t])
    assert tangent.dtype == x.dtype and not mx.any(tangent).item()


def test_tangents_of_other_questions_are_bool():
    x, t = mx.array([1.0, -2.0]), mx.ones(2)
    for op in (mx.isinf, mx.isfinite, mx.logical_not, lambda v: mx.logical_and(v > 0, v < 3)):
        tangent = mx.jvp(op, [x], [t])[1][0]
        assert tangent.dtype == mx.bool_ and not mx.any(tangent).item()
    # What is made of the answers has its own dtype, and so has what does not vary.
    for op, dtype in (
        (lambda v: (v > 0).astype(mx.int32), mx.int32),
        (lambda v: (v > 0) + 1, mx.int32),
        (lambda v: mx.argsort(v), mx.uint32),
        (lambda v: mx.array([1.0]) > 0, mx.bool_),
    ):
        assert mx.jvp(op, [x], [t])[1][0].dtype == dtype


def test_derivatives_of_divmod():
    x, y = mx.array(7.0), mx.array(3.0)
    one = mx.array(1.0)
    assert [v.item() for v in mx.jvp(lambda a: mx.divmod(a, y), [x], [one])[1]] == [0, 1]
    assert [v.item() for v in mx.jvp(lambda b: mx.divmod(x, b), [y], [one])[1]] == [0, -2]


def test_the_derivative_of_tanh_where_it_is_flat():
    """4 exp(-2 |x|), which is far below what is left of 1 - tanh(x)^2."""
    x = np.array([-40.0, -20.0, -9.5, -3.0, 0.0, 0.5, 12.0, 30.0, 44.0])
    want = 1 / np.cosh(x) ** 2
    got = mx.grad(lambda a: mx.tanh(a).sum())(mx.array(x.astype(np.float32)))
    np.testing.assert_allclose(np.array(got), want, rtol=2e-6)
    ends = mx.array([-100.0, 200.0, np.inf, -np.inf])
    assert mx.grad(lambda a: mx.tanh(a).sum())(ends).tolist() == [0] * 4


def test_derivatives_of_powers_at_the_edges():
    """y log(a) with respect to the exponent, and 0 where the power y is 0."""
    inf = np.inf
    cases = [
        (0.0, -2.0, -inf), (0.0, -1.0, -inf), (0.0, 0.0, -inf), (0.0, 0.5, 0), (0.0, 2.0, 0),
        (-0.0, -1.0, inf), (-0.0, -2.0, -inf), (inf, -2.0, 0), (-inf, -2.0, 0), (inf, 0.5, inf),
        (2.0, 3.0, 8 * np.log(2)), (1.0, 5.0, 0),
    ]  # fmt: skip
    base, exponent, want = (np.array(c, np.float32) for c in zip(*cases, strict=True))
    a, b = mx.array(base), mx.array(exponent)
    tangent = mx.jvp(lambda b: mx.power(a, b), [b], [mx.ones_like(b)])[1][0]
    np.testing.assert_allclose(np.array(tangent), want, rtol=1e-6)
    slope = mx.grad(lambda b: mx.power(a, b).sum())(b)
    np.testing.assert_allclose(np.array(slope), want, rtol=1e-6)
    # With respect to the base it is a constant where the exponent is 0.
    assert mx.grad(lambda a: (a ** mx.array(0.0)).sum())(mx.array([0.0, 2.0])).tolist() == [0, 0]


def test_gradients_through_means_of_booleans():
    """The cotangent becomes an integer on the way, so that shares of less than one are none."""
    x = mx.array([1.0, 0.0, 2.0, 3.0])
    for f in (mx.mean, lambda v: mx.mean(v.reshape(2, 2), axis=1).sum()):
        assert mx.grad(lambda v, f=f: f(v.astype(mx.bool_)))(x).tolist() == [0] * 4
    assert mx.grad(lambda v: mx.mean(v.astype(mx.bool_)[:1]))(x).tolist() == [1, 0, 0, 0]
    value, tangent = mx.jvp(lambda v: mx.mean(v.astype(mx.bool_)), [x], [mx.ones(4)])
    assert (value[0].item(), tangent[0].item()) == (0.75, 1)


def test_squares_beyond_half_precision_have_derivatives():
    x = mx.array([60000.0, -60000.0], mx.float16)
    with_var = mx.grad(lambda x: mx.var(x).astype(mx.float32))(x)
    assert with_var.tolist() == [60000, -60000]
    assert mx.grad(lambda x: mx.mean(mx.square(x)))(x).tolist() == [60000, -60000]
    tangent = mx.array([0.25, 0.25], mx.float16)
    assert mx.jvp(mx.square, [x], [tangent])[1][0].tolist() == [30000, -30000]
