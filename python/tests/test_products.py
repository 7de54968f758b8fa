"""tensordot, inner, outer, vecdot, kron, block_masked_mm and hadamard_transform against NumPy."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
from scipy.linalg import hadamard

F32 = {"rtol": 1e-5, "atol": 1e-5}


def draw(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def same(got, want, **tolerance):
    want = np.asarray(want)
    assert got.shape == want.shape
    np.testing.assert_allclose(h.to_np(got), want, **(tolerance or F32))


@pytest.mark.parametrize(
    ("left", "right", "axes"),
    [
        ((2, 3), (3, 4), 1),
        ((2, 3, 4), (3, 4, 5), 2),
        ((2, 3), (4, 5), 0),
        ((2, 3, 4), (4, 3, 2), [[0, 1], [2, 1]]),
        ((2, 3, 4), (4, 3, 2), [[1, 0], [1, 2]]),
        ((2, 3, 4), (5, 3), ([-2], [-1])),
        ((2, 3), (4,), [[], []]),
        ((), (2, 2), 0),
        ((2, 0), (0, 3), 1),
        ((0, 2), (2, 3), 1),
    ],
)
def test_tensordot(left, right, axes, rng):
    x, y = draw(rng, *left), draw(rng, *right)
    want = np.tensordot(x.astype(np.float64), y.astype(np.float64), axes)
    same(mx.tensordot(mx.array(x), mx.array(y), axes), want)
    if axes == 2:
        same(mx.tensordot(mx.array(x), mx.array(y)), want)


@pytest.mark.parametrize(
    ("axes", "error", "message"),
    [
        (2, ValueError, "same shape on the contracted axes"),
        (3, ValueError, "less than the number of dimensions"),
        (-1, ValueError, "greater or equal to 0"),
        ([[0], [0, 1]], ValueError, "same size"),
        ([[0, 0], [1, 1]], ValueError, "Duplicate axis"),
        ([[]], ValueError, "list of two lists"),
        ([[1], [0], [2]], ValueError, "list of two lists"),
        ([[5], [0]], IndexError, "axis 5"),
        ([0, 1], TypeError, "axes"),
        ("ab", TypeError, "axes"),
        (1.5, TypeError, "axes"),
    ],
)
def test_tensordot_refusals(axes, error, message):
    with pytest.raises(error, match=message):
        mx.tensordot(mx.ones((2, 3)), mx.ones((3, 2)), axes)


def test_products_of_integers_need_no_sum():
    ones = mx.ones((2, 2), mx.int32)
    for f in (mx.inner, lambda a, b: mx.tensordot(a, b, 1), lambda a, b: mx.tensordot(a, b, 0)):
        with pytest.raises(ValueError, match="inexact"):
            f(ones, ones)
    assert mx.outer(mx.array([1, 2]), mx.array([True, False])).tolist() == [[1, 0], [2, 0]]
    assert mx.kron(mx.array([1, 2], mx.int8), mx.array([3, 4], mx.uint8)).dtype == mx.int16
    assert mx.inner(mx.array(3), mx.array([1, 2])).tolist() == [3, 6]


def test_inner_and_outer(rng):
    for left, right in [
        ((3,), (3,)),
        ((2, 3), (4, 3)),
        ((2, 3, 4), (5, 4)),
        ((), (3,)),
        ((2, 0), (3, 0)),
    ]:
        x, y = draw(rng, *left), draw(rng, *right)
        same(mx.inner(mx.array(x), mx.array(y)), np.inner(x, y))
    for left, right in [((3,), (2,)), ((2, 2), ()), ((0,), (3,)), ((2, 3), (2, 1))]:
        x, y = draw(rng, *left), draw(rng, *right)
        same(mx.outer(mx.array(x), mx.array(y)), np.outer(x, y))
    with pytest.raises(ValueError, match="same last dimension"):
        mx.inner(mx.ones((2, 3)), mx.ones((4, 2)))


def test_vecdot(rng):
    for left, right, axis in [
        ((2, 3), (2, 3), -1),
        ((2, 3), (2, 3), 0),
        ((3, 2), (1, 2), 1),
        ((2, 3), (2, 1), 0),
        ((4, 2, 3), (2, 3), -2),
        ((5,), (5,), 0),
        ((2, 0), (2, 0), -1),
    ]:
        x, y = draw(rng, *left), draw(rng, *right)
        got = mx.vecdot(mx.array(x), mx.array(y), axis=axis)
        same(got, (x.astype(np.float64) * y).sum(axis if axis < 0 else axis))
    z = np.array([1 + 2j, 3 - 1j], np.complex64)
    w = np.array([2j, 1 + 1j], np.complex64)
    same(mx.vecdot(mx.array(z), mx.array(w)), np.vdot(z, w))
    assert mx.vecdot(mx.array([True, True]), mx.array([True, True])).item() == 2
    # The product wraps in int8; the sum does not.
    assert mx.vecdot(mx.full((3,), 100, mx.int8), mx.full((3,), 100, mx.int8)).item() == 48
    for left, right, axis, error in [
        ((2, 1), (1, 3), -1, ValueError),
        ((), (), -1, ValueError),
        ((2, 3), (3,), 0, ValueError),
        ((2, 3), (2, 3), 5, IndexError),
    ]:
        with pytest.raises(error, match="vecdot"):
            mx.vecdot(mx.ones(left), mx.ones(right), axis=axis)


def test_kron(rng):
    for left, right in [
        ((2, 3), (4, 2)),
        ((2,), (2, 2, 1)),
        ((), (2,)),
        ((), ()),
        ((2, 3), (4, 1, 2)),
    ]:
        x, y = draw(rng, *left), draw(rng, *right)
        same(mx.kron(mx.array(x), mx.array(y)), np.kron(x, y))
    with pytest.raises(ValueError, match="empty"):
        mx.kron(mx.zeros((0,)), mx.ones((2,)))


def central(f, x, i, step=1e-5):
    e = np.zeros_like(x)
    e.flat[i] = step
    return (f(x + e) - f(x - e)) / (2 * step)


@pytest.mark.parametrize(
    ("f", "twin", "left", "right"),
    [
        (
            lambda a, b: mx.tensordot(a, b, [[1, 0], [0, 2]]),
            lambda x, y: np.tensordot(x, y, [[1, 0], [0, 2]]),
            (2, 3),
            (3, 2, 2),
        ),
        (mx.inner, np.inner, (2, 3), (2, 3)),
        (mx.outer, np.outer, (2, 2), (3,)),
        (mx.vecdot, lambda x, y: (x * y).sum(-1), (2, 3), (1, 3)),
        (mx.kron, np.kron, (2, 2), (2,)),
    ],
)
def test_gradients(f, twin, left, right, rng):
    x, y = rng.normal(size=left), rng.normal(size=right)
    w = rng.normal(size=twin(x, y).shape)

    def loss(a, b):
        return mx.sum(mx.array(w, mx.float32) * mx.square(f(a, b)))

    def loss64(x, y):
        return np.sum(w * twin(x, y) ** 2)

    ga, gb = mx.grad(loss, argnums=(0, 1))(mx.array(x, mx.float32), mx.array(y, mx.float32))
    for g, v, only in [(ga, x, lambda v: loss64(v, y)), (gb, y, lambda v: loss64(x, v))]:
        want = [central(only, v, i) for i in range(v.size)]
        np.testing.assert_allclose(np.array(g).ravel(), want, rtol=1e-4, atol=1e-4)


# Products of complex matrices


def test_complex_gradients_are_conjugate():
    """For a real loss, the gradient g gives dloss = Re(sum(conj(g) * dx))."""
    rng = np.random.default_rng(3)

    def draw(*shape):
        return rng.normal(size=shape) + 1j * rng.normal(size=shape)

    a, b, c = draw(2, 3), draw(3, 2), draw(2, 2)

    def loss(c, a, b):
        return mx.sum(mx.square(mx.abs(mx.addmm(c, a, b, 0.5, 2.0) + a @ b)))

    def loss64(c, a, b):
        return np.sum(np.abs(2 * c + 1.5 * a @ b) ** 2)

    args = [c, a, b]
    grads = mx.grad(loss, argnums=(0, 1, 2))(*[mx.array(v, mx.complex64) for v in args])
    for n, g in enumerate(grads):
        d = draw(*args[n].shape)
        up, down = ([v if i != n else v + s * d for i, v in enumerate(args)] for s in (1e-6, -1e-6))
        slope = (loss64(*up) - loss64(*down)) / 2e-6
        np.testing.assert_allclose(np.sum(np.conj(np.array(g)) * d).real, slope, rtol=1e-4)
    t = draw(2, 3)
    got = mx.jvp(
        lambda a: loss(mx.array(c, mx.complex64), a, mx.array(b, mx.complex64)),
        [mx.array(a, mx.complex64)],
        [mx.array(t, mx.complex64)],
    )[1][0]
    slope = (loss64(c, a + 1e-6 * t, b) - loss64(c, a - 1e-6 * t, b)) / 2e-6
    np.testing.assert_allclose(got.item(), slope, rtol=1e-4)


# Masked blocks


def blocks(mask, block, shape):
    wide = np.repeat(np.repeat(mask, block, -2), block, -1)
    return wide[..., : shape[0], : shape[1]]


@pytest.mark.parametrize("block", [32, 64])
@pytest.mark.parametrize("kind", ["bool", "float", "mixed"])
@pytest.mark.parametrize("size", [(64, 128, 64), (65, 40, 33), (10, 10, 10)])
def test_block_masked_mm(block, kind, size, rng):
    m, k, n = size
    x, y = draw(rng, m, k), draw(rng, k, n)

    def mask(rows, cols, real):
        shape = (-(-rows // block), -(-cols // block))
        return rng.normal(size=shape).astype(np.float32) if real else rng.integers(0, 2, shape) > 0

    out = mask(m, n, kind == "float")
    lhs = mask(m, k, kind != "bool")
    rhs = mask(k, n, kind == "float")
    for given in [
        (out, lhs, rhs),
        (out, None, None),
        (None, lhs, None),
        (None, None, rhs),
        (None, lhs, rhs),
    ]:
        a, b = x.astype(np.float64), y.astype(np.float64)
        if given[1] is not None:
            a = a * blocks(given[1], block, a.shape)
        if given[2] is not None:
            b = b * blocks(given[2], block, b.shape)
        want = a @ b
        if given[0] is not None:
            want = want * blocks(given[0], block, want.shape)
        masks = [None if g is None else mx.array(g) for g in given]
        got = mx.block_masked_mm(mx.array(x), mx.array(y), block, *masks)
        same(got, want, rtol=1e-4, atol=1e-4)


def test_block_masked_batches_and_dtypes(rng):
    x, y = draw(rng, 3, 65, 40), draw(rng, 40, 33)
    out, lhs = rng.integers(0, 2, (3, 3, 2)) > 0, draw(rng, 1, 3, 2)
    a = x * blocks(lhs, 32, (65, 40))
    want = a.astype(np.float64) @ y * blocks(out, 32, (65, 33))
    got = mx.block_masked_mm(mx.array(x), mx.array(y), 32, mx.array(out), mx.array(lhs))
    same(got, want, rtol=1e-4, atol=1e-4)
    half = [mx.array(v, mx.float16) for v in (x, y)]
    got = mx.block_masked_mm(*half, 32, mx.array(out), mx.array(lhs))
    assert got.dtype == mx.float16
    same(got, want, rtol=2e-2, atol=5e-2)
    # A false block hides what is in it.
    nan = mx.full((64, 32), float("nan"))
    assert (
        mx.sum(mx.block_masked_mm(nan, mx.ones((32, 1)), 32, mx.array([[False], [False]]))).item()
        == 0
    )
    assert mx.block_masked_mm(mx.ones((40,)), mx.array(y), 32).shape == (33,)


def test_block_masked_gradients(rng):
    x, y = draw(rng, 40, 35), draw(rng, 35, 33)
    masks = [draw(rng, 2, 2) for _ in range(3)]

    def twin(a, b, out, lhs, rhs):
        a = a * blocks(lhs, 32, (40, 35))
        b = b * blocks(rhs, 32, (35, 33))
        return np.sum((a @ b * blocks(out, 32, (40, 33))) ** 2)

    def loss(a, b, out, lhs, rhs):
        return mx.sum(mx.square(mx.block_masked_mm(a, b, 32, out, lhs, rhs)))

    args = [v.astype(np.float64) for v in (x, y, *masks)]
    grads = mx.grad(loss, argnums=(0, 1, 2, 3, 4))(*[mx.array(v, mx.float32) for v in args])
    for n, g in enumerate(grads):
        d = rng.normal(size=args[n].shape)
        up, down = ([v if i != n else v + s * d for i, v in enumerate(args)] for s in (1e-5, -1e-5))
        np.testing.assert_allclose(
            np.sum(np.array(g, np.float64) * d), (twin(*up) - twin(*down)) / 2e-5, rtol=1e-3
        )


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b, m: mx.block_masked_mm(a, b, 16, m),
        lambda a, b, m: mx.block_masked_mm(a, b, 32, mx.ones((3, 3))),
        lambda a, b, m: mx.block_masked_mm(a, b, 32, mx.ones((3,))),
        lambda a, b, m: mx.block_masked_mm(a, b, 32, mx.ones((4, 2, 2))),
        lambda a, b, m: mx.block_masked_mm(a, b, 32, m.astype(mx.complex64)),
        lambda a, b, m: mx.block_masked_mm(a, mx.ones((41, 33)), 32, m),
        lambda a, b, m: mx.block_masked_mm(a.astype(mx.int32), b.astype(mx.int32), 32, m),
        lambda a, b, m: mx.block_masked_mm(a.astype(mx.complex64), b, 32, m),
        lambda a, b, m: mx.block_masked_mm(mx.array(1.0), b, 32, m),
    ],
)
def test_block_masked_refusals(call):
    with pytest.raises(ValueError, match="block_masked_mm"):
        call(mx.ones((40, 40)), mx.ones((40, 33)), mx.ones((2, 2), mx.bool_))


# Hadamard transform


@pytest.mark.parametrize("k", range(15))
def test_powers_of_two(k, rng):
    n = 2**k
    x = draw(rng, 3, n)
    if k <= 11:
        want = x.astype(np.float64) @ hadamard(n).T
    else:
        want = x.astype(np.float64)
        for s in range(k):
            want = want.reshape(3, -1, 2, 2**s)
            want = np.stack([want[:, :, 0] + want[:, :, 1], want[:, :, 0] - want[:, :, 1]], 2)
        want = want.reshape(3, n)
    same(mx.hadamard_transform(mx.array(x), scale=1.0), want, rtol=1e-5, atol=2e-6 * n)
    same(mx.hadamard_transform(mx.array(x)), want / np.sqrt(n), rtol=1e-5, atol=1e-5)


# What official MLX makes of 1, 2, 3, ...: the first four elements and the last two.
IMAGES = {
    12: ([74, -8, 2, -8], [2, -24]),
    20: ([-14, -8, -2, 4], [-102, -100]),
    28: ([-92, -86, -80, -74], [-108, -126]),
}


@pytest.mark.parametrize("m", [12, 20, 28])
@pytest.mark.parametrize("k", [0, 1, 2, 5, 9])
def test_other_orders(m, k, rng):
    """The matrix of order m is orthogonal with elements +-1 and enters as kron(H_m, H_2^k)."""
    base = np.array(mx.hadamard_transform(mx.eye(m), scale=1.0)).T
    assert set(base.ravel().tolist()) == {-1.0, 1.0}
    np.testing.assert_array_equal(base @ base.T, m * np.eye(m))
    image = base @ np.arange(1, m + 1)
    assert image[:4].tolist() == IMAGES[m][0] and image[-2:].tolist() == IMAGES[m][1]
    n = m * 2**k
    x = draw(rng, 2, n)
    want = np.einsum("ij,rjk->rik", base, x.reshape(2, m, 2**k).astype(np.float64))
    want = want @ hadamard(2**k).T
    same(mx.hadamard_transform(mx.array(x), 1.0), want.reshape(2, n), rtol=1e-5, atol=2e-6 * n)


def test_long_rows(rng):
    """Longer than any shared memory, in several passes; the transform is its own inverse."""
    for n in (2**17, 12 * 2**13, 28 * 2**12):
        x = draw(rng, 2, n)
        y = mx.hadamard_transform(mx.array(x))
        np.testing.assert_allclose(
            np.linalg.norm(np.array(y, np.float64)), np.linalg.norm(x), rtol=1e-5
        )
        if n == 2**17:
            same(mx.hadamard_transform(y), x)
            half = mx.hadamard_transform(mx.array(x, mx.bfloat16))
            error = np.abs(h.to_np(half) - np.array(y))
            assert error.max() < 0.05
        one = np.zeros((1, n), np.float32)
        one[0, n // 2 + 3] = 1
        column = np.array(mx.hadamard_transform(mx.array(one), 1.0))
        assert set(column.ravel().tolist()) == {-1.0, 1.0}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_round_once(dtype, rng):
    x = h.quantise(rng.normal(size=(5, 64)), dtype)
    want = h.quantise(x.astype(np.float64) @ hadamard(64).T / 8, dtype)
    got = h.to_np(mx.hadamard_transform(h.from_np(x, dtype)))
    assert h.ulp_error(got, want, dtype).max() <= 1


def test_layouts_and_ranks(rng):
    x = draw(rng, 4, 8, 16)
    want = x.astype(np.float64) @ hadamard(16).T / 4
    for label, a in h.layouts(x, "float32"):
        got = mx.hadamard_transform(a)
        np.testing.assert_allclose(np.array(got), want, **F32, err_msg=label)
    same(mx.hadamard_transform(mx.array(2.0)), 2.0)
    same(mx.hadamard_transform(mx.array([1, 2, 3, 4])), [5, -1, -2, 0])
    many = draw(rng, 3000, 2)
    same(mx.hadamard_transform(mx.array(many), 1.0), many @ np.array([[1, 1], [1, -1]]))


def test_hadamard_gradient_is_the_transpose(rng):
    """The matrices of order 20 and 28 are not symmetric."""
    for n in (8, 20, 56):
        x, w = draw(rng, n), draw(rng, n)
        matrix = np.array(mx.hadamard_transform(mx.eye(n), 0.5)).T
        g = mx.grad(lambda a, w=w: mx.sum(mx.hadamard_transform(a, 0.5) * mx.array(w)))(mx.array(x))
        same(g, matrix.T @ w)
        t = mx.jvp(lambda a: mx.hadamard_transform(a, 0.5), [mx.array(x)], [mx.array(w)])[1][0]
        same(t, matrix @ w)


@pytest.mark.parametrize("scale", [None, 0.5, -2.0, np.nan])
def test_hadamard_of_any_scale_is_recorded(scale):
    f = mx.compile(lambda a: mx.hadamard_transform(a, scale), shapeless=True)
    for n in (4, 8):
        x = np.arange(1.0, n + 1, dtype=np.float32)
        want = x @ hadamard(n) * np.float32(1 / np.sqrt(n) if scale is None else scale)
        same(f(mx.array(x)), want, rtol=1e-6, atol=1e-6)


def test_hadamard_refusals():
    for n in (3, 5, 6, 7, 9, 36, 60, 100):
        with pytest.raises(ValueError, match=r"m\*2\^k"):
            mx.hadamard_transform(mx.ones((2, n)))
    with pytest.raises(ValueError, match="empty"):
        mx.hadamard_transform(mx.ones((0, 4)))
    with pytest.raises(ValueError, match="complex64"):
        mx.hadamard_transform(mx.ones((4,), mx.complex64))


def test_float64_stays_on_the_cpu(rng):
    x = rng.normal(size=(3, 24))
    a = mx.array(x, mx.float64)
    want = np.array(mx.hadamard_transform(mx.array(x, mx.float32), stream=mx.cpu))
    np.testing.assert_allclose(np.array(mx.hadamard_transform(a, stream=mx.cpu)), want, **F32)
    got = mx.einsum("ij,kj->ik", a, a, stream=mx.cpu)
    np.testing.assert_allclose(np.array(got), x @ x.T, rtol=1e-13)
    if h.on_gpu():
        for f in (
            mx.hadamard_transform,
            lambda a: mx.einsum("ij,kj", a, a),
            lambda a: mx.inner(a, a),
        ):
            with pytest.raises(ValueError, match="float64"):
                f(a)


def test_block_masks_of_few_axes_are_broadcast():
    x, y = np.ones((64, 32), np.float32), np.ones((32, 64), np.float32)
    for mask, columns in ((2.0, [2, 2]), ([3.0], [3, 3]), ([2.0, 3.0], [2, 3])):
        got = mx.block_masked_mm(mx.array(x), mx.array(y), 32, mx.array(mask))
        want = (x @ y) * np.repeat(np.array(columns, np.float32), 32)
        np.testing.assert_allclose(np.array(got), want, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_an_addend_does_not_widen_the_product(dtype):
    def product(c, a, b):
        return mx.addmm(*(mx.ones(s, getattr(mx, dtype)) for s in (c, a, b)))

    for c, a, b in [
        ((1,), (3,), (3,)),
        ((0,), (3,), (3,)),
        ((3,), (3,), (3,)),
        ((2, 1), (2, 3), (3,)),
        ((1, 1), (3,), (3, 2)),
        ((5, 2), (2, 3), (3,)),
        ((5, 2, 2), (2, 3), (3, 2)),
        ((1, 1, 1), (4, 2, 3), (3,)),
    ]:
        with pytest.raises(ValueError, match=r"\[addmm\] Cannot broadcast array of shape"):
            product(c, a, b)
    assert product((), (3,), (3,)).item() == 4
    assert product((1,), (2, 3), (3,)).tolist() == [4, 4]
    assert product((2,), (4, 2, 3), (3,)).tolist() == [[4, 4]] * 4
