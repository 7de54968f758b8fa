"""Losses of mlx.nn against float64 NumPy, and their gradients against finite differences."""

import mlx.core as mx
import nn_reference as ref
import numpy as np
import pytest
from helpers import from_np, name_of, quantise, to_np, ulp_error
from mlx.nn import losses


def arr(x):
    return mx.array(np.asarray(x, np.float32))


def close(got, want):
    np.testing.assert_allclose(to_np(got), want, rtol=2e-5, atol=2e-5)


def same_with_reductions(fn, want, *args, **kwargs):
    close(fn(*args, reduction="none", **kwargs), want)
    close(fn(*args, reduction="mean", **kwargs), want.mean())
    close(fn(*args, reduction="sum", **kwargs), want.sum())
    with pytest.raises(ValueError, match="Invalid reduction 'max'"):
        fn(*args, reduction="max", **kwargs)


def log_softmax(x, axis=-1):
    return np.log(ref.softmax(x, axis))


def test_cross_entropy(rng):
    x, w = rng.normal(size=(3, 4)), rng.uniform(0.5, 2, 3)
    ids = np.array([0, 3, 1])
    p = ref.softmax(rng.normal(size=(3, 4)))
    by_id = -log_softmax(x)[np.arange(3), ids]
    by_p = -(p * log_softmax(x)).sum(-1)
    a, i = arr(x), mx.array(ids)
    same_with_reductions(losses.cross_entropy, by_id, a, i)
    same_with_reductions(losses.cross_entropy, by_p, a, arr(p))
    close(losses.cross_entropy(a, i, arr(w)), by_id * w)
    close(losses.cross_entropy(a, i, arr(w), reduction="mean"), (by_id * w).mean())
    smooth = -(0.9 * log_softmax(x)[np.arange(3), ids] + 0.1 * log_softmax(x).mean(-1))
    close(losses.cross_entropy(a, i, label_smoothing=0.1), smooth)
    smooth = -((0.9 * p + 0.1 / 4) * log_softmax(x)).sum(-1)
    close(losses.cross_entropy(a, arr(p), label_smoothing=0.1), smooth)
    columns = np.array([0, 1, 2, 0])
    want = -log_softmax(x, 0)[columns, np.arange(4)]
    close(losses.cross_entropy(a, mx.array(columns), axis=0), want)
    huge = losses.cross_entropy(mx.array([[1e4, -1e4]]), mx.array([1]))
    close(huge, [2e4])


def test_cross_entropy_refuses_what_does_not_fit():
    a = mx.zeros((3, 4))
    ids = mx.array([0, 3, 1])
    for kwargs, message in (
        ({"targets": ids[:2]}, r"Targets shape \(2,\)"),
        ({"targets": a[:2]}, r"Targets shape \(2, 4\)"),
        ({"targets": ids, "weights": mx.ones((2,))}, r"Weights with shape \(2,\)"),
        ({"targets": ids, "label_smoothing": 1.0}, "Label smoothing must be in"),
        ({"targets": ids, "label_smoothing": -0.1}, "Label smoothing must be in"),
    ):
        with pytest.raises(ValueError, match=message):
            losses.cross_entropy(a, **kwargs)


def test_binary_cross_entropy(rng):
    x, t, w = rng.normal(size=(3, 4)), rng.uniform(size=(3, 4)), rng.uniform(size=(3, 4))
    p = ref.sigmoid(x)
    want = -(t * np.log(p) + (1 - t) * np.log(1 - p))
    same_with_reductions(losses.binary_cross_entropy, want, arr(x), arr(t))
    same_with_reductions(losses.binary_cross_entropy, want, arr(p), arr(t), with_logits=False)
    got = losses.binary_cross_entropy(arr(x), arr(t), arr(w), reduction="none")
    close(got, want * w)
    sure = losses.binary_cross_entropy(
        mx.array([0.0, 1.0, 1.0]), mx.array([0.0, 0.0, 1.0]), with_logits=False, reduction="none"
    )
    close(sure, [0, 100, 0])
    with pytest.raises(ValueError, match="Weights with shape"):
        losses.binary_cross_entropy(arr(x), arr(t), arr(w[:1]))


def elementwise(name, x, t):
    e = x - t
    d = abs(e)
    return {
        "l1_loss": d,
        "mse_loss": e * e,
        "smooth_l1_loss": np.where(d < 1, 0.5 * e * e, d - 0.5),
        "huber_loss": np.where(d <= 1, 0.5 * e * e, d - 0.5),
        "hinge_loss": np.maximum(1 - x * t, 0),
        "log_cosh_loss": np.log(np.cosh(e)),
        "kl_div_loss": (np.exp(t) * (t - x)).sum(-1),
    }[name]


@pytest.mark.parametrize(
    "name",
    ["l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss", "hinge_loss", "log_cosh_loss"]
    + ["kl_div_loss"],
)
def test_simple_losses(name, rng):
    x, t = rng.normal(size=(2, 5)), rng.normal(size=(2, 5))
    fn = getattr(losses, name)
    same_with_reductions(fn, elementwise(name, x, t), arr(x), arr(t))
    with pytest.raises(ValueError):
        fn(arr(x), arr(t[:, :3]))
    mean = name in ("l1_loss", "mse_loss", "smooth_l1_loss")
    assert fn(arr(x), arr(t)).ndim == (0 if mean else 1 if name == "kl_div_loss" else 2)


def test_losses_with_parameters(rng):
    x, t, n = (rng.normal(size=(3, 5)) for _ in range(3))
    e = abs(x - t)
    want = np.where(e < 0.3, 0.5 * e * e / 0.3, e - 0.15)
    close(losses.smooth_l1_loss(arr(x), arr(t), 0.3, "none"), want)
    close(losses.smooth_l1_loss(arr(x), arr(t), 0.0, "none"), e)
    want = np.where(e <= 0.3, 0.5 * e * e, 0.3 * (e - 0.15))
    close(losses.huber_loss(arr(x), arr(t), 0.3), want)
    half = losses.huber_loss(arr(x).astype(mx.float16), 0.0, mx.array(True))
    assert half.dtype == mx.float16
    # Where errors and bounds are complex, the smaller one is that of the smaller real part.
    two = losses.huber_loss(mx.array([0.5, 2.0]), mx.array([0.0, 0.0]), mx.array(1 + 1j))
    assert two.dtype == mx.complex64 and two.tolist() == [0.125, 2 + 1j]
    each = mx.array([0.5, 1.0])
    errors = mx.array([[0.25, 2.0]])
    close(losses.smooth_l1_loss(errors, mx.zeros((1, 2)), each, "none"), [[0.0625, 1.5]])
    close(losses.kl_div_loss(arr(x), arr(t), axis=0), (np.exp(t) * (t - x)).sum(0))
    cosine = (x * t).sum(1) / (np.linalg.norm(x, axis=1) * np.linalg.norm(t, axis=1))
    same_with_reductions(losses.cosine_similarity_loss, cosine, arr(x), arr(t))
    close(losses.cosine_similarity_loss(arr(x), arr(t), eps=100.0), (x * t).sum(1) / 100)
    close(losses.cosine_similarity_loss(arr(x * 0), arr(t)), np.zeros(3))
    for p in (1, 2, 3):
        for eps in (1e-6, 0.3):
            d = [((abs(x - o) ** p).sum(-1) + eps) ** (1 / p) for o in (t, n)]
            args = arr(x), arr(t), arr(n)
            got = losses.triplet_loss(*args, p=p, eps=eps, margin=0.5)
            close(got, np.maximum(d[0] - d[1] + 0.5, 0))


def test_ranking_likelihood_and_gaussian_losses(rng):
    x, t = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    ids = mx.array([0, 3, 1])
    same_with_reductions(losses.nll_loss, -x[np.arange(3), [0, 3, 1]], arr(x), ids)
    close(losses.nll_loss(arr(x), mx.array([2, 0, 1, 1]), axis=0), -x[[2, 0, 1, 1], np.arange(4)])
    v = rng.uniform(0, 2, (3, 4))
    v[0, 0] = 0
    held = np.maximum(v, 1e-6)
    want = 0.5 * (np.log(held) + (t - x) ** 2 / held)
    got = losses.gaussian_nll_loss(arr(x), arr(t), arr(v), reduction="none")
    np.testing.assert_allclose(to_np(got), want, rtol=1e-4, atol=1e-5)
    got = losses.gaussian_nll_loss(arr(x), arr(t), arr(v + 1), full=True)
    close(got, (0.5 * (np.log(v + 1) + (t - x) ** 2 / (v + 1)) + 0.5 * np.log(2 * np.pi)).mean())
    sign = np.where(rng.uniform(size=(3, 4)) < 0.5, -1, 1)
    want = np.maximum(-sign * (x - t) + 0.5, 0)
    same_with_reductions(
        losses.margin_ranking_loss, want, arr(x), arr(t), mx.array(sign), margin=0.5
    )
    for bad in (
        lambda: losses.gaussian_nll_loss(arr(x), arr(t[:2]), arr(v)),
        lambda: losses.gaussian_nll_loss(arr(x), arr(t), arr(v[:, :1])),
        lambda: losses.margin_ranking_loss(arr(x), arr(t[:2]), arr(x)),
    ):
        with pytest.raises(ValueError, match="not match"):
            bad()


def test_gradients(rng):
    x, t = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    ids = mx.array([0, 3, 1])

    def total(x, t):
        p = mx.softmax(t, axis=-1)
        return (
            losses.cross_entropy(x, ids, label_smoothing=0.1, reduction="sum")
            + losses.cross_entropy(x, p, reduction="sum")
            + losses.binary_cross_entropy(x, p, reduction="sum")
            + losses.binary_cross_entropy(mx.sigmoid(x), p, with_logits=False, reduction="sum")
            + losses.mse_loss(x, t, "sum")
            + losses.nll_loss(x, ids, reduction="sum")
            + losses.gaussian_nll_loss(x, t, mx.exp(t), reduction="sum")
        )

    def others(x, t):
        return (
            losses.l1_loss(x, t, "sum")
            + losses.kl_div_loss(x, t, reduction="sum")
            + losses.smooth_l1_loss(x, t, 0.5, "sum")
            + losses.huber_loss(x, t, 0.5, "sum")
            + losses.log_cosh_loss(x, t, "sum")
            + losses.hinge_loss(x, t, "sum")
            + losses.cosine_similarity_loss(x, t, reduction="sum")
            + losses.triplet_loss(x, t, x * t, reduction="sum")
            + losses.margin_ranking_loss(x, t, mx.ones((3, 4)), reduction="sum")
        )

    for fn in (total, others):
        ref.check_gradient(ref.Function(fn), lambda m, *xs: m(*xs), [x, t], rng)


def test_cross_entropy_beside_large_logits():
    a, ids = mx.array([[1e6 + 2, 1e6 - 1]]), mx.array([0])
    close(losses.cross_entropy(a, ids), [0.04858735])
    close(mx.compile(losses.cross_entropy)(a, ids), [0.04858735])
    close(mx.fast.cross_entropy(a, ids), [0.04858735])
    close(losses.cross_entropy(a.T, ids, axis=0), [0.04858735])
    close(losses.cross_entropy(a, ids, label_smoothing=0.1), [0.1985873])
    close(losses.cross_entropy(mx.array([[1e8, 1e8]]), mx.array([[0.5, 0.5]])), [np.log(2)])
    grad = mx.grad(lambda x: losses.cross_entropy(x, ids).sum())(a)
    close(grad, [[-0.04742587, 0.04742587]])


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_cross_entropy_of_halves_is_rounded_once(name, rng):
    x = quantise(rng.normal(size=(5, 300)) * 4, name)
    ids = rng.integers(0, 300, 5)
    want = -log_softmax(x.astype(np.float64))[np.arange(5), ids]
    got = losses.cross_entropy(from_np(x, name), mx.array(ids))
    assert name_of(got.dtype) == name
    assert ulp_error(to_np(got), want, name).max() <= 0.51


def test_cross_entropy_of_infinite_and_missing_logits():
    inf, nan = np.inf, np.nan
    a = mx.array([[-inf, 1.0], [-inf, 1.0], [nan, 1.0], [-inf, -inf], [inf, 1.0]])
    want = [inf, 0, nan, nan, nan]
    ids = mx.array([0, 1, 1, 0, 0])
    for got in (losses.cross_entropy(a, ids), mx.fast.cross_entropy(a, ids)):
        np.testing.assert_array_equal(to_np(got), want)
    grad = mx.grad(lambda x: losses.cross_entropy(x, ids).sum())(a)
    np.testing.assert_array_equal(to_np(grad)[:2], [[-1, 1], [0, 0]])
    assert np.isnan(to_np(grad)[2:]).all()
