"""Derivatives and vmap of gathers and scatters, against differences and loops."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

X = np.array([[0.5, -1.0, 2.0, 0.25], [1.5, 3.0, -0.5, 0.75], [-2.0, 1.0, 0.125, 4.0]], np.float32)
V = np.array([[1.25, -0.75, 0.5, 2.5], [0.375, 1.75, -1.5, 0.625], [2.25, -3.0, 1.0, -0.25]])


def i(*values):
    return mx.array(values)


def assigned(index):
    def f(x, v):
        x = x * 1
        x[index] = v
        return x

    return f


MASK = mx.array([[True, False, True, True], [False] * 4, [True, False, False, True]])

# name: function of (x, v), the part of V that v is
CASES = {
    "rows": (lambda x, v: x[i(0, 2, 0)] * v, V),
    "columns": (lambda x, v: x[:, i(3, -1)] * v, V[:, :2]),
    "pairs": (lambda x, v: x[i(0, 1, 0), i(2, 3, 2)] * v, V[0, :3]),
    "pairs of a slice": (lambda x, v: x[::-1][1:, i(2, 0)] * v, V[:2, :2]),
    "apart": (lambda x, v: x[i([0], [2]), None, i(1, 1, 3)] * v, V[0, :3]),
    "held": (lambda x, v: x[i(9, -9)] * v, V[:2]),
    "take flat": (lambda x, v: mx.take(x, i(11, 0, 11)) * v, V[0, :3]),
    "along": (lambda x, v: mx.take_along_axis(x, i([0, 0], [3, 1], [2, 2]), 1) * v, V[:, :2]),
    "along broadcast": (lambda x, v: mx.take_along_axis(x, i([1, 2]), 1) * v, V[:, :2]),
    "slice": (lambda x, v: mx.slice(x, i(1, 2), (0, 1), (2, 2)) * v, V[:2, :2]),
    "slice held": (lambda x, v: mx.slice(x, i(7), (0,), (2, 4)) * v, V[:2]),
    "sort": (lambda x, v: mx.sort(x, axis=1) * v, V),
    "windows": (lambda x, v: mx.as_strided(x, (4, 5), (2, 1), 1) * mx.sum(v), V[0]),
    "overlap": (lambda x, v: mx.as_strided(x, (3, 2, 3), (1, 0, 2), 0) * mx.sum(v), V[0]),
    "set rows": (assigned(i(2, 0)), V[:2]),
    "set rows twice": (assigned(i(2, 0, 2)), V),
    "set pairs twice": (assigned((i(0, 1, 0, 0), i(1, 1, 1, 2))), V[0]),
    "set part": (assigned((slice(None, None, -2), i(3, 0))), V[:2, :2]),
    "set spread": (assigned((slice(1, None), i(3, 0))), V[0, 0]),
    "set dropped": (assigned(i(2, 0)), V[0]),
    "set mask": (assigned(MASK), V.reshape(-1)[:7]),
    "set mask of rows": (assigned(mx.array([True, False, True])), V),
    "set mask to one": (assigned(MASK), V[0, 0]),
    "put": (lambda x, v: mx.put_along_axis(x, i([0, 0], [3, 1], [2, 2]), v, 1), V[:, :2]),
    "put flat": (lambda x, v: mx.put_along_axis(x, i(5, 0, 5), v), V[0, :3]),
    "update": (lambda x, v: mx.slice_update(x, v, i(1, 2), (0, 1)), V[:2, :2]),
    "update held": (lambda x, v: mx.slice_update(x, v, i(9), (1,)), V[:, :3]),
    "add": (lambda x, v: x.at[i(0, 2, 0)].add(v), V),
    "add pairs": (lambda x, v: x.at[i(0, 1, 0), i(2, 3, 2)].add(v), V[0, :3]),
    "add slice": (lambda x, v: x.at[1:, ::2].add(v), V[:2, :2]),
    "subtract": (lambda x, v: x.at[:, i(0, 2, 0)].subtract(v), V[:, :3]),
    "multiply": (lambda x, v: x.at[i(0, 2, 0)].multiply(v), V),
    "divide": (lambda x, v: x.at[i(0, 2, 0)].divide(v), V),
    "multiply slice": (lambda x, v: x.at[1].multiply(v), V[0]),
    "maximum": (lambda x, v: x.at[i(0, 2, 0)].maximum(v), V),
    "minimum": (lambda x, v: x.at[:, i(3, 1, 3)].minimum(v), V[:, :3]),
}


def differences(f, args, which, cot):
    """Central differences of sum(f * cot) for the argument `which`, summed in float64."""
    step, out = 2.0**-8, np.zeros(args[which].shape)
    for at in np.ndindex(*args[which].shape):
        ends = []
        for sign in (1, -1):
            moved = [np.array(a) for a in args]
            moved[which][at] += sign * step
            value = np.array(f(*[mx.array(m) for m in moved]), np.float64)
            ends.append(np.sum(value * cot))
        out[at] = (ends[0] - ends[1]) / (2 * step)
    return out


@pytest.mark.parametrize("name", CASES)
def test_derivatives_match_differences(name, rng):
    f, v = CASES[name]
    args = [X, np.asarray(v, np.float32)]
    given = [mx.array(a) for a in args]
    shape = f(*given).shape
    cot = rng.integers(-4, 5, shape).astype(np.float32)
    _, grads = mx.vjp(f, given, [mx.array(cot)])
    for k, g in enumerate(grads):
        assert g.shape == args[k].shape and g.dtype == mx.float32
        want = differences(f, args, k, cot)
        np.testing.assert_allclose(np.array(g), want, rtol=2e-3, atol=2e-3, err_msg=f"argument {k}")
    tangents = [rng.integers(-2, 3, a.shape).astype(np.float32) for a in args]
    _, (t,) = mx.jvp(f, given, [mx.array(a) for a in tangents])
    forward = np.sum(np.array(t, np.float64) * cot)
    pairs = zip(grads, tangents, strict=True)
    backward = sum(np.sum(np.array(g, np.float64) * a) for g, a in pairs)
    np.testing.assert_allclose(forward, backward, rtol=1e-4, atol=1e-3)


def test_products_with_zeros():
    x, v = mx.array([0.0, 2.0, 3.0]), mx.array([5.0, 0.0, 7.0, 0.0, 0.0])
    index = mx.array([0, 1, 1, 2, 2])
    f = lambda x, v: mx.sum(x.at[index].multiply(v))  # noqa: E731
    gx, gv = mx.grad(f, argnums=(0, 1))(x, v)
    assert gx.tolist() == [5, 0, 0] and gv.tolist() == [0, 14, 0, 0, 0]


def test_extremes_pass_the_cotangent_to_all_that_are_equal():
    """From MLX 0.32."""
    v = mx.array([1.0, 1.0, 1.0])
    f = lambda v: mx.sum(mx.arange(5.0).at[mx.array([0, 0, 1])].maximum(v) * mx.arange(1.0, 6.0))  # noqa: E731
    assert mx.grad(f)(v).tolist() == [1, 1, 2]


def test_second_derivatives(rng):
    x = mx.array(rng.normal(size=(5,)).astype(np.float32))
    index = mx.array([0, 3, 3, 1])

    def f(x):
        return mx.sum(x[index] ** 3)

    second = mx.grad(lambda x: mx.sum(mx.grad(f)(x) * mx.arange(1.0, 6.0)))(x)
    count = np.array([1, 1, 0, 2, 0])
    want = 6 * np.array(x) * count * np.arange(1, 6)
    np.testing.assert_allclose(np.array(second), want, rtol=1e-5)

    def g(x):
        return mx.sum(mx.zeros((3,)).at[mx.array([0, 1, 1, 2, 0])].add(x * x) ** 2)

    second = mx.grad(lambda x: mx.sum(mx.grad(g)(x)))(x)
    y, at = np.array(x, np.float64), np.array([0, 1, 1, 2, 0])
    sums, total = np.zeros(3), np.zeros(3)
    np.add.at(sums, at, y * y)
    np.add.at(total, at, y)
    np.testing.assert_allclose(np.array(second), 4 * sums[at] + 8 * y * total[at], rtol=1e-4)


def test_embedding_gradient_of_a_large_table(rng):
    index = rng.integers(0, 5000, (64, 32))
    g = mx.grad(lambda t: mx.sum(t[mx.array(index)] * mx.arange(8.0)))(mx.zeros((5000, 8)))
    want = np.bincount(index.reshape(-1), minlength=5000)[:, None] * np.arange(8.0)
    np.testing.assert_array_equal(np.array(g), want)


# vmap

B = 3
MAPPED = {
    "rows": (lambda x, v, k: x[k], 0),
    "pairs": (lambda x, v, k: x[k, k + 1], 0),
    "columns": (lambda x, v, k: x[:, k], 0),
    "along": (lambda x, v, k: mx.take_along_axis(x, mx.broadcast_to(k, (3, 2)), 1), 0),
    "slice": (lambda x, v, k: mx.slice(x, k, (0, 1), (1, 2)), 0),
    "set": (lambda x, v, k: assigned(k)(x, v), 0),
    "set pairs": (lambda x, v, k: assigned((k, k))(x, v[0, :2]), 0),
    "set columns": (lambda x, v, k: assigned((slice(1, None), k))(x, v[:1, :2]), 0),
    "set mask": (lambda x, v, k: assigned(x > 0)(x, mx.arange(12.0)), 0),
    "add": (lambda x, v, k: x.at[k].add(v), 0),
    "add twice": (lambda x, v, k: x.at[k * 0].add(v), 0),
    "multiply": (lambda x, v, k: x.at[:, k].multiply(v[0, 0]), 0),
    "put": (lambda x, v, k: mx.put_along_axis(x, mx.broadcast_to(k, (3, 2)), v[0, :2], 1), 0),
    "update": (lambda x, v, k: mx.slice_update(x, v[:1, :2], k, (0, 1)), 0),
    "sort gradient": (lambda x, v, k: mx.grad(lambda x: mx.sum(mx.sort(x, 1) * x))(x), 0),
}


@pytest.mark.parametrize("name", MAPPED)
def test_vmap_equals_a_loop(name, rng):
    f, _ = MAPPED[name]
    x = mx.array(rng.normal(size=(B, 3, 4)).astype(np.float32))
    v = mx.array(rng.normal(size=(B, 2, 4)).astype(np.float32))
    k = mx.array(rng.integers(0, 3, (B, 2)))
    ran = 0
    for ax in (0, None, 1):
        for av in (0, None):
            for ak in (0, None):
                axes = (ax, av, ak)
                if all(a is None for a in axes):
                    continue
                xs = x[0] if ax is None else mx.moveaxis(x, 0, ax)
                args = (xs, v if av == 0 else v[0], k if ak == 0 else k[0])
                got = mx.vmap(f, in_axes=axes)(*args)
                want = [
                    f(
                        *[
                            a if n is None else mx.take(a, b, n)
                            for a, n in zip(args, axes, strict=True)
                        ]
                    )
                    for b in range(B)
                ]
                np.testing.assert_array_equal(np.array(got), np.array(mx.stack(want)), str(axes))
                ran += 1
    assert ran == 11
    h.works()


TAKE, ALONG, PUT = "\\[gather\\]", "\\[gather_axis\\]", "\\[scatter_axis\\]"
SCATTER, SLICE = "\\[scatter\\]", "DynamicSlice::vjp"
ARGS = {"x": mx.arange(4.0), "i": mx.array([1, 3]), "u": mx.array([2.0, 5.0]), "at": mx.array([1])}


def set_at(x, i, u):
    x = x + 0
    x[i] = u
    return x


def on_quantised(w, i):
    parts = mx.quantize(mx.ones((4, 32, 64)))
    return mx.gather_qmm(mx.ones((4, 1, 2, 64)), *parts, None, i.reshape(1, 2)) * w.sum()


# name: function, names of its arguments, exceptions of vjp and jvp (None: it has a derivative)
INDEXED = {
    "take": (mx.take, "x i", (ValueError, TAKE), (ValueError, TAKE)),
    "take axis": (lambda x, i: mx.take(x, i, 0), "x i", (ValueError, TAKE), (ValueError, TAKE)),
    "get": (lambda x, i: x[i], "x i", (ValueError, TAKE), (ValueError, TAKE)),
    "get pair": (
        lambda x, i: x.reshape(2, 2)[..., i - 2],
        "x i",
        (ValueError, TAKE),
        (ValueError, TAKE),
    ),
    "along": (
        lambda x, i: mx.take_along_axis(x, i, 0),
        "x i",
        (ValueError, ALONG),
        (ValueError, ALONG),
    ),
    "put": (
        lambda x, i, u: mx.put_along_axis(x, i, u, 0),
        "x i u",
        (ValueError, PUT),
        (ValueError, PUT),
    ),
    "set": (set_at, "x i u", (ValueError, SCATTER), (ValueError, SCATTER)),
    "add": (lambda x, i, u: x.at[i].add(u), "x i u", (ValueError, SCATTER), (ValueError, SCATTER)),
    "max": (
        lambda x, i, u: x.at[i].maximum(u),
        "x i u",
        (ValueError, SCATTER),
        (ValueError, SCATTER),
    ),
    "slice": (lambda x, at: mx.slice(x, at, (0,), (2,)), "x at", (ValueError, SLICE), None),
    "slice_update": (
        lambda x, u, at: mx.slice_update(x, u, at, (0,)),
        "x u at",
        (ValueError, "DynamicSliceUpdate::vjp"),
        (ValueError, "DynamicSliceUpdate::jvp"),
    ),
    "gather_mm": (
        lambda x, i: mx.gather_mm(
            mx.ones((4, 2, 2)), x.reshape(4, 1, 1) * mx.ones((2, 2)), None, i
        ),
        "x i",
        (ValueError, "\\[GatherMM\\]"),
        (ValueError, "\\[GatherMM\\]"),
    ),
    "gather_qmm": (on_quantised, "x i", (RuntimeError, "GatherQMM"), (RuntimeError, "GatherQMM")),
}


@pytest.mark.parametrize("name", INDEXED)
def test_indices_have_no_derivative(name):
    f, names, back, forward = INDEXED[name]
    given = [ARGS[n] for n in names.split()]
    if name == "gather_mm":
        given[1] = mx.array([0, 1, 2, 3])
    out = f(*given)
    # What is differentiated may depend on anything else.
    kept = [n in ("i", "at") for n in names.split()]

    def stopped(*args):
        stop = mx.stop_gradient
        return f(*[stop(a) if k else a for a, k in zip(args, kept, strict=True)])

    for error, call in (
        (back, lambda f: mx.vjp(f, given, [mx.ones_like(out)])),
        (forward, lambda f: mx.jvp(f, given, [mx.ones_like(a) for a in given])),
    ):
        mx.eval(call(stopped))
        if error is None:
            mx.eval(call(f))
            continue
        with pytest.raises(error[0], match=error[1]):
            call(f)


def test_indices_that_follow_from_what_is_differentiated():
    x = mx.array([3.0, 1.0, 2.0, 0.0])
    stop = mx.stop_gradient
    wrong = {
        "argmax": lambda x: x[mx.argmax(x)],
        "argsort": lambda x: x[mx.argsort(x)].sum(),
        "of a constant": lambda x: mx.arange(4.0)[mx.argmax(x)],
        "cast": lambda x: mx.take(mx.arange(4.0), x.astype(mx.int32)).sum(),
        "compared": lambda x: mx.take(x, (x > 1).astype(mx.int32)).sum(),
        "no derivative after it": lambda x: (x[mx.argmin(x)] > 0).astype(mx.float32),
        "drawn": lambda x: mx.take(x, mx.random.categorical(x)),
        "compiled": mx.compile(lambda x: mx.take(x, mx.argmax(x))),
        "checkpointed": mx.checkpoint(lambda x: mx.take(x, mx.argmax(x))),
        "batched": lambda x: mx.vmap(lambda v: mx.take(v, mx.argmax(v)))(x[None]).sum(),
        "set": lambda x: mx.zeros(4).at[x.astype(mx.int32)].add(1.0).sum(),
    }
    for f in wrong.values():
        with pytest.raises(ValueError, match="with respect to indices"):
            mx.grad(f)(x)
        with pytest.raises(ValueError, match="with respect to indices"):
            mx.jvp(f, [x], [mx.ones(4)])
        with pytest.raises(ValueError, match="with respect to indices"):
            mx.compile(mx.grad(f))(x)
    right = {
        "stopped": (lambda x: x[stop(mx.argmax(x))], [1, 0, 0, 0]),
        "stopped before": (lambda x: x[mx.argmax(stop(x))] * 2, [2, 0, 0, 0]),
        "stopped after": (lambda x: stop(x[mx.argmax(x)]) * x[1], [0, 3, 0, 0]),
        "beside": (lambda x: mx.arange(4.0)[mx.array([2])].sum() * x[0], [2, 0, 0, 0]),
        "shape only": (lambda x: mx.take(x, mx.zeros_like(x).astype(mx.int32)).sum(), [4, 0, 0, 0]),
        "mask": (lambda x: assigned(x > 1)(x, 7.0).sum(), [0, 1, 0, 1]),
        "top": (lambda x: mx.topk(x, 2).sum(), [1, 0, 1, 0]),
    }
    for name, (f, want) in right.items():
        assert mx.grad(f)(x).tolist() == want, name
        tangent = mx.jvp(f, [x], [mx.array([1.0, 10.0, 100.0, 1000.0])])[1][0].item()
        assert tangent == np.dot(want, [1, 10, 100, 1000]), name
    # Only the first value is differentiated.
    value, g = mx.value_and_grad(lambda x: (x.sum(), x[mx.argmax(x)]))(x)
    assert value[1].item() == 3 and g.tolist() == [1] * 4


def test_second_derivatives_of_what_sorts():
    x = mx.array([3.0, 1.0, 2.0, 0.5])
    for f in (lambda v: mx.sort(v), lambda v: mx.partition(v, 1), lambda v: mx.topk(v, 4)):
        twice = mx.grad(lambda w, f=f: mx.grad(lambda v: (f(v) ** 3).sum())(w).sum())(x)
        np.testing.assert_allclose(np.array(twice), 6 * np.array(x), rtol=1e-6)


def test_experts_chosen_by_score_train():
    # A mixture of experts as language models have it: scores choose, and weigh what was chosen.
    w, x = (
        mx.random.normal((8, 4, 6), key=mx.random.key(0)),
        mx.random.normal((5, 6), key=mx.random.key(1)),
    )
    gate = mx.random.normal((6, 8), key=mx.random.key(2))

    def loss(gate, w, stop):
        scores = mx.softmax(x @ gate, axis=-1)
        chosen = mx.argpartition(scores, kth=-2, axis=-1)[..., -2:]
        chosen = mx.stop_gradient(chosen) if stop else chosen
        weights = mx.take_along_axis(scores, chosen, -1)
        each = mx.gather_mm(x[:, None, None, :], w.swapaxes(-1, -2), None, chosen).squeeze(-2)
        return (each * weights[..., None]).sum()

    with pytest.raises(ValueError, match="stop_gradient"):
        mx.grad(loss)(gate, w, False)
    got = mx.grad(loss, argnums=(0, 1))(gate, w, True)
    step = 1e-2
    for k, (g, a) in enumerate(zip(got, (gate, w), strict=True)):
        d = mx.random.normal(a.shape, key=mx.random.key(3))
        up, down = [gate, w], [gate, w]
        up[k], down[k] = a + step * d, a - step * d
        want = (loss(*up, True) - loss(*down, True)).item() / (2 * step)
        assert (g * d).sum().item() == pytest.approx(want, rel=2e-2)
