"""vmap and compile of products by index, segments, Hadamard transforms, einsum and the like."""

import itertools

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
from test_vmap import B, loop, same


def batched(rng, shape, axis, high=None):
    """An input with the batch on an axis, or without one; indices below `high`."""
    full = list(shape)
    if axis is not None:
        full.insert(axis, B)
    if high is not None:
        return mx.array(rng.integers(0, high, full), mx.uint32)
    return mx.array(rng.integers(-4, 5, full), mx.float32)


def check(f, shapes, rng):
    """Every choice of mapped inputs, batches on different axes; small integers make sums exact."""
    for chosen in itertools.product([False, True], repeat=len(shapes)):
        if not any(chosen):
            continue
        for turn in range(2):
            axes = [
                (turn + i) % (len(s[0]) + 1) if c else None
                for i, (s, c) in enumerate(zip(shapes, chosen, strict=True))
            ]
            args = [batched(rng, *s[:1], ax, *s[1:]) for s, ax in zip(shapes, axes, strict=True)]
            got = mx.vmap(f, in_axes=axes[0] if len(axes) == 1 else tuple(axes))(*args)
            same(got, loop(f, args, axes), f"{axes}", tol=0)


@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (
            lambda a, b, i: mx.gather_mm(a, b, rhs_indices=i),
            [((4, 1, 5),), ((3, 5, 2),), ((4,), 3)],
        ),
        (lambda a, b, i: mx.gather_mm(a, b, lhs_indices=i), [((3, 2, 5),), ((5, 2),), ((2,), 3)]),
        (mx.gather_mm, [((3, 2, 4),), ((2, 4, 3),), ((5,), 3), ((5,), 2)]),
        (mx.segmented_mm, [((2, 6),), ((6, 4),), ((3, 2), 9)]),
        (lambda a: mx.hadamard_transform(a, 1.0), [((2, 12),)]),
        (lambda a: mx.diagonal(a, 1, 2, 0), [((4, 2, 3),)]),
        (lambda a: mx.diag(a, -1), [((3,),)]),
        (mx.trace, [((3, 4),)]),
        (lambda a, b: mx.depends(a, b), [((3, 2),), ((2,),)]),
        (lambda a, b: mx.einsum("ij,kj->ki", a, b), [((2, 3),), ((4, 3),)]),
        (lambda a, b: mx.einsum("iij,j->i", a, b), [((2, 2, 3),), ((3,),)]),
        (lambda a, b: mx.tensordot(a, b, [[0], [1]]), [((2, 3),), ((4, 2),)]),
        (mx.kron, [((2, 2),), ((3,),)]),
        (mx.outer, [((2, 2),), ((3,),)]),
        (mx.vecdot, [((2, 3),), ((3,),)]),
        (lambda a, b, m: mx.block_masked_mm(a, b, 32, m), [((40, 3),), ((3, 33),), ((2, 2),)]),
        (lambda a, b: mx.meshgrid(a, b)[1], [((2,),), ((3,),)]),
        (lambda a: mx.stack(mx.unstack(a, axis=1)), [((2, 3),)]),
        (lambda a: mx.from_fp8(mx.to_fp8(a)), [((2, 3),)]),
    ],
)
def test_vmap(f, shapes, rng):
    check(f, shapes, rng)


def test_vmap_of_negative_indices_stays_inside_an_item(rng):
    a, b = batched(rng, (4, 1, 5), None), batched(rng, (3, 5, 2), 0)
    index = mx.array(rng.integers(-3, 0, (B, 4)), mx.int32)
    f = lambda b, i: mx.gather_mm(a, b, rhs_indices=i)  # noqa: E731
    same(mx.vmap(f)(b, index), loop(f, [b, index], [0, 0]))


def test_vmap_of_gradients(rng):
    a, b = batched(rng, (4, 1, 3), 0), batched(rng, (3, 3, 2), None)
    index = mx.sort(batched(rng, (4,), 0, 3))

    def f(a, b, i):
        def loss(b):
            return mx.sum(mx.square(mx.gather_mm(a, b, rhs_indices=i, sorted_indices=True)))

        return mx.grad(loss)(b)

    same(mx.vmap(f, in_axes=(0, None, 0))(a, b, index), loop(f, [a, b, index], [0, None, 0]))


@pytest.mark.parametrize("shapeless", [False, True])
def test_compile(shapeless, rng):
    def f(a, b, i, cuts):
        x = mx.gather_mm(a, b, rhs_indices=i)[:, 0]
        y = mx.segmented_mm(x, x.T, cuts)
        z = mx.hadamard_transform(mx.exp(-mx.square(y)), 0.5)
        d = mx.depends(mx.diagonal(z, 0, 1, 2) * 2, y)
        return d + 1, mx.from_fp8(mx.to_fp8(d), mx.float16), mx.from_fp8(mx.to_fp8(d))

    compiled = mx.compile(f, shapeless=shapeless)
    for n in (4, 4, 8):
        a, b = batched(rng, (n, 1, 5), None), batched(rng, (3, 5, 2), None)
        index = mx.array(rng.integers(0, 3, n), mx.uint32)
        cuts = mx.array([[0, 1], [0, 2]])
        for got, want in zip(compiled(a, b, index, cuts), f(a, b, index, cuts), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(h.to_np(got), h.to_np(want), rtol=1e-5, atol=1e-5)


def test_shapeless_compile_follows_lengths(rng):
    f = mx.compile(lambda a, b, i: mx.gather_mm(a, b, rhs_indices=i) * 2, shapeless=True)
    g = mx.compile(lambda a: mx.diagonal(a, 1) + 1, shapeless=True)
    s = mx.compile(lambda a, b, c: mx.segmented_mm(a, b, c) + 1, shapeless=True)
    for n in (2, 5, 3):
        a, b = batched(rng, (n, 1, 4), None), batched(rng, (3, 4, n), None)
        i = batched(rng, (n,), None, 3)
        same(f(a, b, i), mx.gather_mm(a, b, rhs_indices=i) * 2)
        x = batched(rng, (n, 6), None)
        same(g(x), mx.diagonal(x, 1) + 1)
        cuts = mx.array([[0, n], [1, 2]])
        same(s(x.T, x, cuts), mx.segmented_mm(x.T, x, cuts) + 1)
