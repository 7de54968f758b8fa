"""Optimisers against float64 NumPy steps written from their papers; schedules, clipping, states."""

import math

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
import pytest
from helpers import to_np
from mlx.utils import tree_flatten, tree_map

SHAPES = {"w": (4, 3), "b": (3,), "t": (2, 3, 2)}


def arr(x):
    return mx.array(np.asarray(x, np.float32))


def run(optimizer, rule, rng, steps=4, shapes=SHAPES, tolerance=1e-5):
    """`rule(w, g, s, t)` returns the new parameter; `s` is a dict that it may fill."""
    p = {k: rng.normal(size=s).astype(np.float32) for k, s in shapes.items()}
    q = {k: v.astype(np.float64) for k, v in p.items()}
    p = {k: arr(v) for k, v in p.items()}
    states = {k: {} for k in p}
    for t in range(1, steps + 1):
        g = {k: rng.normal(size=s).astype(np.float32) for k, s in shapes.items()}
        p = optimizer.apply_gradients({k: arr(v) for k, v in g.items()}, p)
        for k in q:
            q[k] = rule(q[k], g[k].astype(np.float64), states[k], t)
    for k in q:
        np.testing.assert_allclose(to_np(p[k]), q[k], rtol=tolerance, atol=tolerance)
    assert optimizer.step.item() == steps and optimizer.step.dtype == mx.uint64


def mean(s, name, beta, value, scale=None):
    s[name] = beta * s.get(name, 0.0) + (1 - beta if scale is None else scale) * value
    return s[name]


def sgd(lr, mu=0.0, wd=0.0, damp=0.0, nesterov=False):
    def rule(w, g, s, t):
        g = g + wd * w
        v = mean(s, "v", mu, g, 1 - damp) if mu else g
        return w - lr * (g + mu * v if nesterov else v)

    return rule


def adam(lr, b1=0.9, b2=0.999, eps=1e-8, wd=0.0, correct=False):
    def rule(w, g, s, t):
        w = w * (1 - lr * wd)
        m, v = mean(s, "m", b1, g), mean(s, "v", b2, g * g)
        if correct:
            m, v = m / (1 - b1**t), v / (1 - b2**t)
        return w - lr * m / (np.sqrt(v) + eps)

    return rule


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"momentum": 0.9},
        {"momentum": 0.9, "weight_decay": 0.1, "dampening": 0.2},
        {"momentum": 0.9, "nesterov": True},
        {"weight_decay": 0.1},
    ],
)
def test_sgd(how, rng):
    names = {"momentum": "mu", "weight_decay": "wd", "dampening": "damp", "nesterov": "nesterov"}
    run(optim.SGD(0.1, **how), sgd(0.1, **{names[k]: v for k, v in how.items()}), rng)


def test_adaptive_rules(rng):
    def rmsprop(w, g, s, t):
        return w - 0.1 * g / (np.sqrt(mean(s, "v", 0.9, g * g)) + 1e-8)

    def adagrad(w, g, s, t):
        s["v"] = s.get("v", 0.0) + g * g
        return w - 0.1 * g / (np.sqrt(s["v"]) + 1e-8)

    def adadelta(w, g, s, t):
        v = mean(s, "v", 0.9, g * g)
        d = np.sqrt(s.get("u", 0.0) + 1e-6) / np.sqrt(v + 1e-6) * g
        mean(s, "u", 0.9, d * d)
        return w - 0.5 * d

    run(optim.RMSprop(0.1, alpha=0.9), rmsprop, rng)
    run(optim.Adagrad(0.1), adagrad, rng)
    run(optim.AdaDelta(0.5), adadelta, rng)


def test_adam_family(rng):
    run(optim.Adam(0.1), adam(0.1), rng)
    run(optim.Adam(0.1, [0.8, 0.9], 1e-3, True), adam(0.1, 0.8, 0.9, 1e-3, correct=True), rng)
    run(optim.AdamW(0.1), adam(0.1, wd=0.01), rng)
    corrected = optim.AdamW(0.1, weight_decay=0.2, bias_correction=True)
    run(corrected, adam(0.1, wd=0.2, correct=True), rng)

    def adamax(w, g, s, t):
        m = mean(s, "m", 0.9, g)
        s["v"] = np.maximum(0.999 * s.get("v", 0.0), abs(g))
        return w - 0.1 * m / (s["v"] + 1e-8)

    run(optim.Adamax(0.1), adamax, rng)


def test_lion(rng):
    def lion(w, g, s, t):
        c = 0.9 * s.get("m", 0.0) + 0.1 * g
        mean(s, "m", 0.99, g)
        return w * (1 - 0.1 * 0.3) - 0.1 * np.sign(c)

    run(optim.Lion(0.1, weight_decay=0.3), lion, rng)


@pytest.mark.parametrize("name", ["SGD", "AdamW", "Lion", "Adafactor", "Muon"])
def test_derivatives_go_through_decays_that_are_numbers_of_numpy(name):
    w, g = mx.array([[0.5, -1.0], [2.0, 0.25]]), mx.array([[0.1, 0.2], [-0.3, 0.4]])

    def slope(decay):
        def f(w):
            step = getattr(optim, name)(0.1, weight_decay=decay).apply_gradients({"w": g}, {"w": w})
            return step["w"].sum()

        return mx.grad(f)(w)

    want = slope(0.5)
    for decay in (np.float32(0.5), np.float64(0.5)):
        np.testing.assert_allclose(np.array(slope(decay)), np.array(want), rtol=1e-6)


def rms(x):
    return np.sqrt((x * x).mean())


def adafactor(lr=None, clip=1.0, beta_1=None, wd=0.0, scale=True, warm=False):
    def rule(w, g, s, t):
        rate = min(1e-6 * t if warm else 1e-2, 1 / math.sqrt(t)) if lr is None else lr
        rate *= max(1e-3, rms(w)) if scale else 1
        beta = 1 - t**-0.8
        v = g * g + 1e-30
        if w.ndim >= 2:
            row, column = mean(s, "r", beta, v.mean(-1)), mean(s, "c", beta, v.mean(-2))
            v = row[..., None] * column[..., None, :] / row.mean(-1)[..., None, None]
        else:
            v = mean(s, "v", beta, v)
        u = g / np.sqrt(v)
        u = rate * u / max(1, rms(u) / clip)
        if beta_1 is not None:
            u = mean(s, "m", beta_1, u)
        return w - wd * rate * w - u

    return rule


def test_adafactor(rng):
    run(optim.Adafactor(), adafactor(), rng)
    run(optim.Adafactor(warmup_init=True, clip_threshold=0.5), adafactor(clip=0.5, warm=True), rng)
    plain = optim.Adafactor(0.1, relative_step=False, scale_parameter=False)
    run(plain, adafactor(0.1, scale=False), rng)
    run(optim.Adafactor(beta_1=0.9, weight_decay=0.1), adafactor(beta_1=0.9, wd=0.1), rng)


def test_factored_mean_of_squares(rng):
    row, column = rng.uniform(1, 9, (2, 3)), rng.uniform(1, 9, (2, 4))
    got = optim.Adafactor()._approximate_exp_moving_avg(
        mx.array(row, mx.float32), mx.array(column, mx.float32)
    )
    mean = row.mean(-1, keepdims=True)
    want = 1 / np.sqrt(row[:, :, None] * column[:, None, :] / mean[:, :, None])
    np.testing.assert_allclose(np.array(got), want, rtol=1e-5)


def test_muon(rng):
    def orthogonal(x):
        a, b, c = 3.4445, -4.7750, 2.0315
        tall = x.shape[0] > x.shape[1]
        x = x.T if tall else x
        x = x / (np.linalg.norm(x) + 1e-7)
        for _ in range(5):
            gram = x @ x.T
            x = a * x + (b * gram + c * gram @ gram) @ x
        return x.T if tall else x

    def muon(w, g, s, t):
        g = g + 0.01 * w
        v = mean(s, "v", 0.95, g)
        u = 0.05 * g + 0.95 * v
        rate = 0.1
        if w.ndim >= 2:
            u = orthogonal(u.reshape(len(u), -1)).reshape(w.shape)
            rate *= math.sqrt(max(1, w.shape[-2] / w.shape[-1]))
        return w - rate * u

    run(optim.Muon(0.1), muon, rng, tolerance=1e-4)

    def plain(w, g, s, t):
        return w - 0.1 * orthogonal(g)

    without = optim.Muon(0.1, momentum=0.0, weight_decay=0.0, nesterov=False)
    run(without, plain, rng, shapes={"w": (3, 5)}, tolerance=1e-4)


MAKERS = [
    lambda: optim.SGD(0.1, 0.9),
    lambda: optim.RMSprop(0.1),
    lambda: optim.Adagrad(0.1),
    lambda: optim.AdaDelta(0.1),
    lambda: optim.Adam(0.1, bias_correction=True),
    lambda: optim.AdamW(0.1),
    lambda: optim.Adamax(0.1),
    lambda: optim.Lion(0.1),
    lambda: optim.Adafactor(beta_1=0.9),
    lambda: optim.Muon(0.1),
    lambda: optim.Adam(optim.cosine_decay(0.1, 10)),
]


@pytest.mark.parametrize("make", MAKERS)
def test_dtypes_follow_the_parameters(make):
    optimizer = make()
    p = {"w": mx.ones((2, 2), mx.bfloat16), "b": [mx.ones((2,), mx.bfloat16)]}
    q = optimizer.apply_gradients(tree_map(lambda x: x * 0.5, p), p)
    assert {v.dtype for _, v in tree_flatten(q)} == {mx.bfloat16}
    kinds = {k.split(".")[-1]: v.dtype for k, v in tree_flatten(optimizer.state)}
    assert kinds.pop("step") == mx.uint64
    assert kinds.pop("learning_rate", mx.float32) == mx.float32
    assert set(kinds.values()) == {mx.bfloat16}


@pytest.mark.parametrize("make", [MAKERS[9], MAKERS[10]])
def test_compiled_updates(make, rng):
    mx.random.seed(7)
    x, y = mx.random.normal((8, 3)), mx.random.normal((8, 2))
    results = []
    for compiled in (False, True):
        mx.random.seed(8)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        optimizer = make()
        optimizer.init(model.trainable_parameters())
        state = [model.state, optimizer.state]

        def step(x, y, model=model, optimizer=optimizer):
            loss_and_grad = nn.value_and_grad(model, lambda x, y: nn.losses.mse_loss(model(x), y))
            loss, grads = loss_and_grad(x, y)
            optimizer.update(model, grads)
            return loss

        if compiled:
            step = mx.compile(step, inputs=state, outputs=state)
        losses = [step(x, y).item() for _ in range(4)]
        assert losses[-1] < losses[0] and optimizer.step.item() == 4
        results.append((losses, [to_np(v) for _, v in tree_flatten(model.parameters())]))
    np.testing.assert_allclose(*(r[0] for r in results), rtol=1e-4)
    for a, b in zip(*(r[1] for r in results), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_states():
    optimizer = optim.Adam(0.1)
    assert sorted(optimizer.state) == ["learning_rate", "step"]
    p = {"w": mx.ones((2,)), "l": [mx.ones((1,)), mx.ones((3,))]}
    optimizer.init({"w": p["w"]})
    assert sorted(optimizer.state["w"]) == ["m", "v"] and "l" not in optimizer.state
    optimizer.state["w"]["m"] = mx.full((2,), 5.0)
    optimizer.init(p)
    assert optimizer.state["w"]["m"].tolist() == [5.0, 5.0]
    assert optimizer.state["l"][1]["v"].shape == (3,)
    optimizer.learning_rate = 0.5
    assert optimizer.learning_rate.item() == 0.5
    assert optimizer.state["learning_rate"].dtype == mx.float32
    other = optim.Adam(0.1)
    other.state = optimizer.state
    assert other.learning_rate.item() == 0.5
    other.apply_gradients(p, p)
    assert other.step.item() == 1
    with pytest.raises(KeyError, match="l"):
        optimizer.apply_gradients(p, {"w": p["w"]})
    base = optim.Optimizer({"rate": lambda step: step + 1})
    for method in (lambda: base.init(p), lambda: base.apply_single(1, 2, 3)):
        with pytest.raises(NotImplementedError):
            method()


def test_only_trainable_parameters_move():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model.layers[0].freeze()
    before = tree_map(mx.array, model.parameters())
    optimizer = optim.SGD(0.1)
    _, grads = nn.value_and_grad(model, lambda x: model(x).sum())(mx.ones((1, 2)))
    optimizer.update(model, grads)
    assert mx.array_equal(model.layers[0].weight, before["layers"][0]["weight"])
    assert not mx.array_equal(model.layers[1].weight, before["layers"][1]["weight"])


def test_scheduled_rates():
    optimizer = optim.SGD(lambda step: 0.5 / (step + 1))
    p = {"w": mx.array([1.0])}
    g = {"w": mx.array([1.0])}
    for want in (0.5, 0.25, 0.5 / 3):
        new = optimizer.apply_gradients(g, p)
        np.testing.assert_allclose((p["w"] - new["w"]).item(), want, rtol=1e-5)
        np.testing.assert_allclose(optimizer.learning_rate.item(), want, rtol=1e-6)
        p = new


def test_schedules():
    def values(schedule, steps):
        got = [schedule(mx.array(s, mx.uint64)) for s in steps]
        assert {v.dtype for v in got} == {mx.float32}
        return [v.item() for v in got]

    steps = [0, 1, 4, 9, 10, 30]
    close = np.testing.assert_allclose
    close(values(optim.exponential_decay(0.1, 0.9), steps), [0.1 * 0.9**s for s in steps], 1e-5)
    close(
        values(optim.step_decay(0.1, 0.9, 4), steps), [0.1 * 0.9 ** (s // 4) for s in steps], 1e-5
    )
    want = [0.02 + 0.08 * 0.5 * (1 + math.cos(math.pi * min(s, 10) / 10)) for s in steps]
    close(values(optim.cosine_decay(0.1, 10, 0.02), steps), want, 1e-5)
    want = [0.1 + 0.4 * min(s, 10) / 10 for s in steps]
    close(values(optim.linear_schedule(0.1, 0.5, 10), steps), want, 1e-5)
    joined = optim.join_schedules(
        [optim.linear_schedule(0.0, 1.0, 4), optim.cosine_decay(1.0, 10), lambda s: s * 0.5],
        [4, 10],
    )
    want = [0, 0.25, 1.0, 0.5, 0, 10]
    close(values(joined, steps), want, 1e-5, 1e-7)


def test_clip_grad_norm():
    grads = {"a": mx.array([3.0, 0.0]), "b": [mx.array([[4.0]])]}
    clipped, norm = optim.clip_grad_norm(grads, 1.0)
    assert norm.item() == 5.0
    np.testing.assert_allclose(to_np(clipped["a"]), [0.6, 0], rtol=1e-5)
    same, _ = optim.clip_grad_norm(grads, 6.0)
    assert same["b"][0].item() == 4.0
    half, norm = optim.clip_grad_norm({"a": mx.full((4,), 300.0, mx.float16)}, 60.0)
    assert norm.item() == 600.0 and half["a"].dtype == mx.float16
    np.testing.assert_allclose(to_np(half["a"]), [30.0] * 4, rtol=1e-2)
    assert optim.clip_grad_norm({}, 1.0)[1].item() == 0
    for given in (-1.0, -0.5):
        with pytest.raises(ValueError, match=f"max_norm should be >=0, {given} was provided"):
            optim.clip_grad_norm(grads, given)
    none, norm = optim.clip_grad_norm(grads, 0)
    assert norm.item() == 5.0 and to_np(none["a"]).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("values", "dtype", "max_norm", "want", "result", "norm"),
    [
        ([10, 20], "int32", 1.0, [0.44721356, 0.8944271], "float32", 22.36068),
        ([3, 4], "int32", 10.0, [3, 4], "float32", 5.0),
        ([100, 200], "uint8", 1.0, [0.44721356, 0.8944271], "float32", 223.60680),
        ([True, False], "bool_", 0.5, [0.5, 0], "float32", 1.0),
        ([10, 20], "float16", 1.0, [0.447265625, 0.89453125], "float16", 22.36068),
        ([60000, 60000], "float16", 1.0, [0.70703125, 0.70703125], "float16", 84852.81),
    ],
)
def test_clip_grad_norm_by_dtype(values, dtype, max_norm, want, result, norm):
    """Integers become float32; halves are scaled in float32 and rounded once."""
    grads, total = optim.clip_grad_norm({"a": mx.array(values, getattr(mx, dtype))}, max_norm)
    assert grads["a"].dtype == getattr(mx, result)
    rtol = 0 if result == "float16" else 1e-6
    np.testing.assert_allclose(to_np(grads["a"]), want, rtol=rtol)
    assert total.dtype == mx.float32
    np.testing.assert_allclose(total.item(), norm, rtol=1e-6)


def test_multi_optimizer(rng):
    both = [optim.Adam(0.1), optim.SGD(0.2)]
    optimizer = optim.MultiOptimizer(both, [lambda path, w: w.ndim > 1])
    p = {"w": mx.ones((2, 2)), "l": [mx.ones((2,)), mx.ones((1, 2)), mx.ones((1,))]}
    g = tree_map(lambda x: x * 0.5, p)
    optimizer.init(p)
    states = optimizer.state["states"]
    assert "w" in states[0] and "w" not in states[1]
    q = optimizer.apply_gradients(g, p)
    alone = optim.Adam(0.1).apply_gradients(g, p), optim.SGD(0.2).apply_gradients(g, p)
    for path, value in tree_flatten(q):
        want = dict(tree_flatten(alone[0 if value.ndim > 1 else 1]))[path]
        assert mx.array_equal(value, want)
    assert [k for k, _ in tree_flatten(q)] == [k for k, _ in tree_flatten(p)]
    optimizer.learning_rate = 0.5
    assert [o.learning_rate.item() for o in both] == [0.5, 0.5]
    other = optim.MultiOptimizer([optim.Adam(1.0), optim.SGD(1.0)], [lambda *_: False])
    other.state = optimizer.state
    assert other.learning_rate.item() == 0.5
    for bad in ({}, {"states": [{}]}):
        with pytest.raises(ValueError, match="Invalid state"):
            other.state = bad
    for filters in ([], [1, 2]):
        with pytest.raises(ValueError, match=f"Given {len(filters)} filters but 1 needed"):
            optim.MultiOptimizer(both, filters)
    for filters in (0, None):
        with pytest.raises(TypeError):
            optim.MultiOptimizer(both, filters)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: optim.SGD(0.1, nesterov=True), "Nesterov"),
        (lambda: optim.SGD(0.1, 0.9, dampening=0.1, nesterov=True), "Nesterov"),
        (lambda: optim.RMSprop(0.1, alpha=-1), "alpha should be >=0, -1"),
        (lambda: optim.RMSprop(0.1, eps=-1), "epsilon should be >0"),
        (lambda: optim.RMSprop(0.1, eps=0), "RMSprop epsilon should be >0, 0 was provided instead"),
        (lambda: optim.Adagrad(0.1, eps=-1), "epsilon should be >0"),
        (lambda: optim.Adagrad(0.1, eps=0.0), "Adagrad epsilon should be >0, 0.0 was provided"),
        (lambda: optim.AdaDelta(0.1, rho=-1), "rho should be >=0"),
        (lambda: optim.AdaDelta(0.1, eps=-1), "epsilon should be >0"),
        (lambda: optim.AdaDelta(0.1, eps=0.0), "AdaDelta epsilon should be >0, 0.0 was provided"),
        (lambda: optim.Adam(0.1, [1.0, 0.9]), r"beta1 should be in \[0, 1\), 1.0"),
        (lambda: optim.AdamW(0.1, [0.9, -1]), r"beta2 should be in \[0, 1\), -1"),
        (lambda: optim.Adamax(0.1, eps=-1), "epsilon should be >=0"),
        (lambda: optim.Lion(0.1, [2, 0.9]), "Lion beta1"),
        (lambda: optim.linear_schedule(0, 1, 0), "steps must be greater than 0, but got 0"),
        (lambda: optim.cosine_decay(1, 0), "decay_steps must be greater than 0"),
        (lambda: optim.step_decay(1, 0.5, -1), "step_size must be greater than 0"),
        (lambda: optim.join_schedules([], []), "at least 1 schedule"),
        (lambda: optim.join_schedules([abs], [1]), "1 boundaries but expected 0"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "make",
    [optim.SGD, optim.Adam, optim.Lion, optim.Muon, lambda rate: optim.SGD(rate, momentum=0.9)],
)
def test_one_array_is_updated_as_one_in_a_tree(make):
    alone, named = make(0.1), make(0.1)
    x = mx.array([1.0, -2.0])
    tree = {"x": x}
    for factor in (0.5, -3.0):
        x = alone.apply_gradients(x * factor, x)
        tree = named.apply_gradients({"x": tree["x"] * factor}, tree)
    assert x.tolist() == tree["x"].tolist()
    assert alone.step.item() == 2
    assert set(named.state["x"]) <= set(alone.state)


def test_adafactor_of_whole_numbers():
    p = {"w": mx.array([1, 2])}
    # The first share of the old mean is nothing, so that an update is the sign of the gradient.
    new = optim.Adafactor().apply_gradients({"w": mx.array([0.5, 0.5])}, p)["w"]
    rate = 0.01 * math.sqrt(2.5)
    np.testing.assert_allclose(to_np(new), [1 - rate, 2 - rate], rtol=1e-6)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 3), (0, 0)])
def test_muon_of_no_elements(shape):
    p = {"w": mx.ones(shape)}
    optimizer = optim.Muon(0.1)
    p = optimizer.apply_gradients(p, p)
    assert optimizer.apply_gradients(p, p)["w"].shape == shape
