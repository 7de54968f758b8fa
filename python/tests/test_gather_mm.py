"""gather_mm and segmented_mm against loops of NumPy products, and their derivatives."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

TOLERANCE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}


def close(got, want, bound, dtype="float32"):
    """Errors are measured against what rounding can do to |a| @ |b|."""
    assert got.shape == want.shape
    error = np.abs(h.to_np(got) - want)
    assert (error <= TOLERANCE[dtype] * bound + 1e-30).all(), (
        f"{(error / (bound + 1e-30)).max():.2e}"
    )


def twin(x, y, lhs=None, rhs=None):
    """Flat indices over the batch axes; an operand without them has every matrix in order."""

    def pick(v, i):
        flat = v.reshape(int(np.prod(v.shape[:-2])), *v.shape[-2:])
        if i is None:
            i = np.arange(len(flat)).reshape(v.shape[:-2])
        return flat[i]

    x, y = x.astype(np.float64), y.astype(np.float64)
    return pick(x, lhs) @ pick(y, rhs), np.abs(pick(x, lhs)) @ np.abs(pick(y, rhs))


def draw(rng, shape, dtype="float32"):
    return h.quantise(rng.normal(size=shape), dtype)


def check(x, y, lhs, rhs, dtype="float32", **how):
    want, bound = twin(x, y, lhs, rhs)
    a, b = h.from_np(x, dtype), h.from_np(y, dtype)
    index = [None if i is None else mx.array(np.asarray(i), mx.uint32) for i in (lhs, rhs)]
    got = mx.gather_mm(a, b, *index, **how)
    assert h.name_of(got.dtype) == dtype
    close(got, want, bound, dtype)


@pytest.mark.validation
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_experts(dtype, rng):
    """The shapes of mixtures of experts: one token (a row), several experts, transposed weights."""
    for rows, k, n, experts in [
        (1, 32, 48, 5),
        (1, 33, 7, 3),
        (3, 64, 40, 4),
        (17, 40, 24, 6),
        (40, 16, 9, 2),
    ]:
        x, y = draw(rng, (4, 1, rows, k), dtype), draw(rng, (experts, n, k), dtype)
        rhs = rng.integers(0, experts, (4, 3))
        want, bound = twin(x, y.swapaxes(1, 2), None, rhs)
        weights = mx.swapaxes(h.from_np(y, dtype), -1, -2)
        got = mx.gather_mm(h.from_np(x, dtype), weights, rhs_indices=mx.array(rhs, mx.uint32))
        close(got, want, bound, dtype)
        check(x, np.ascontiguousarray(y.swapaxes(1, 2)), None, rhs, dtype)


@pytest.mark.validation
def test_which_operand_is_picked(rng):
    x, y = draw(rng, (4, 2, 8)), draw(rng, (3, 8, 5))
    check(x, y, None, [2, 1, 1, 0])
    check(x, y, [0, 3, 3], None)
    check(x, y, [0, 3], [2, 2])
    check(x, y, [[0], [3]], [1, 0, 2])
    check(x, y, 2, 1)
    check(x, y, [], [])
    check(x[:1], y, None, [2, 1, 1, 0])
    check(x[0], y, None, [[2], [1]])
    check(x.reshape(2, 2, 2, 8), y, [3, 0, 1], [0, 1, 2])
    check(x, y[:1], None, np.zeros((5, 4), int))
    check(draw(rng, (2, 3, 0)), draw(rng, (2, 0, 4)), None, [1, 0])
    check(draw(rng, (2, 0, 3)), draw(rng, (2, 3, 4)), None, [1, 0])


def test_without_indices_it_is_matmul(rng):
    x, y = draw(rng, (3, 2, 8)), draw(rng, (8, 5))
    np.testing.assert_allclose(
        np.array(mx.gather_mm(mx.array(x), mx.array(y))), x @ y, rtol=1e-5, atol=1e-5
    )


def test_vectors(rng):
    x, y = draw(rng, (8,)), draw(rng, (3, 8, 5))
    got = mx.gather_mm(mx.array(x), mx.array(y), rhs_indices=mx.array([2, 0]))
    np.testing.assert_allclose(np.array(got), x @ y[[2, 0]], rtol=1e-5, atol=1e-5)
    got = mx.gather_mm(mx.array(y).swapaxes(1, 2), mx.array(x), lhs_indices=mx.array([2, 0]))
    np.testing.assert_allclose(np.array(got), x @ y[[2, 0]], rtol=1e-5, atol=1e-5)


@pytest.mark.validation
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "lengths", [[40], [0, 16, 0, 0], [1] * 4 + [36], [16, 17, 31, 0, 70], [100, 3, 130, 1, 66]]
)
def test_sorted_rows(dtype, lengths, rng):
    """Rows that meet one matrix follow each other: tiles are cut where the matrix changes."""
    rhs = np.repeat(np.arange(len(lengths)), lengths)
    for k, n in [(24, 40), (33, 5), (64, 72)]:
        x, y = draw(rng, (len(rhs), 1, k), dtype), draw(rng, (len(lengths), k, n), dtype)
        check(x, y, None, rhs, dtype, sorted_indices=True)
    weights = draw(rng, (len(lengths), 40, 24), dtype)
    x = draw(rng, (len(rhs), 1, 24), dtype)
    want, bound = twin(x, weights.swapaxes(1, 2), None, rhs)
    got = mx.gather_mm(
        h.from_np(x, dtype),
        h.from_np(weights, dtype).swapaxes(1, 2),
        rhs_indices=mx.array(rhs, mx.uint32),
        sorted_indices=True,
    )
    close(got, want, bound, dtype)


def test_sorted_rows_of_other_layouts(rng):
    rhs = np.repeat(np.arange(3), [20, 1, 29])
    x, y = draw(rng, (50, 1, 24)), draw(rng, (3, 24, 16))
    want, bound = twin(x, y, None, rhs)
    index = mx.array(rhs)
    wide = mx.array(np.repeat(x, 2, 0))[::2]
    turned = mx.array(np.ascontiguousarray(x[:, 0].T)).T[:, None]
    flipped = mx.array(np.ascontiguousarray(x[::-1]))[::-1]
    for a in (wide, turned, flipped):
        close(mx.gather_mm(a, mx.array(y), rhs_indices=index, sorted_indices=True), want, bound)
    # The promise is about speed and cannot be broken into nonsense: every row meets some matrix.
    got = mx.gather_mm(mx.array(x), mx.array(y), rhs_indices=index[::-1], sorted_indices=True)
    close(got, *twin(x, y, None, rhs[::-1]))


def test_any_strides(rng):
    x, y = draw(rng, (6, 10, 12)), draw(rng, (8, 12, 14))
    lhs, rhs = [5, 0, 2, 2], [[7], [1]]
    index = [mx.array(lhs), mx.array(rhs)]
    for i, j in [
        (np.s_[:, ::2], np.s_[:, :, ::2]),
        (np.s_[:, ::-1, ::-1], np.s_[:, ::-1]),
        (np.s_[:, :, :], np.s_[::-1]),
    ]:
        want, bound = twin(x[i], y[j], np.array(lhs), np.array(rhs))
        close(mx.gather_mm(mx.array(x)[i], mx.array(y)[j], *index), want, bound)
    a = mx.array(np.ascontiguousarray(x.transpose(2, 0, 1))).transpose(1, 2, 0)
    close(mx.gather_mm(a, mx.array(y), *index), *twin(x, y, np.array(lhs), np.array(rhs)))
    shared = mx.broadcast_to(mx.array(x[0]), (6, 10, 12))
    want, bound = twin(np.broadcast_to(x[:1], x.shape), y, None, np.arange(6))
    close(mx.gather_mm(shared, mx.array(y), rhs_indices=mx.arange(6)), want, bound)
    # Indices may be views, too.
    every = mx.array([[0, 9, 1], [2, 9, 3]])[:, ::2]
    close(
        mx.gather_mm(mx.array(x), mx.array(y), every, every.T[::-1, :1].T),
        *twin(x, y, np.array([[0, 1], [2, 3]]), np.array([[1, 0]])),
    )


@pytest.mark.parametrize(
    "dtype", ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
)
def test_index_types(dtype, rng):
    x, y = draw(rng, (3, 2, 8)), draw(rng, (3, 8, 5))
    index = mx.array([2, 0, 1], h.mx_dtype(dtype))
    close(mx.gather_mm(mx.array(x), mx.array(y), rhs_indices=index), *twin(x, y, None, [2, 0, 1]))


def test_negative_indices_count_from_the_end(rng):
    x, y = draw(rng, (3, 2, 8)), draw(rng, (3, 8, 5))
    index = mx.array([-1, 0, -3])
    close(mx.gather_mm(mx.array(x), mx.array(y), rhs_indices=index), *twin(x, y, None, [2, 0, 0]))


def test_indices_out_of_range():
    """An IndexError on the CPU; on the GPU the last matrix, never memory outside of the operand."""
    a, b = mx.ones((2, 1, 4)), mx.ones((3, 4, 5))
    for index in (mx.array([0, 3]), mx.array([0, -4]), mx.array([0, 4000000000], mx.uint32)):
        if h.on_gpu():
            assert (np.array(mx.gather_mm(a, b, rhs_indices=index)) == 4).all()
        else:
            with pytest.raises(IndexError, match="out of bounds for 3 matrices"):
                mx.eval(mx.gather_mm(a, b, rhs_indices=index))
    h.works()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a, b: mx.gather_mm(a, b, rhs_indices=mx.array([0, 1, 1])), "broadcast"),
        (lambda a, b: mx.gather_mm(a[:, :, :3], b, rhs_indices=mx.array([0, 1])), "must match"),
        (lambda a, b: mx.gather_mm(a, b, rhs_indices=mx.array([0.0, 1.0])), "integral"),
        (lambda a, b: mx.gather_mm(a, b, rhs_indices=mx.array([True, False])), "integral"),
        (lambda a, b: mx.gather_mm(a, b[:0], rhs_indices=mx.array([0, 0])), "empty batch"),
        (lambda a, b: mx.gather_mm(mx.array(1.0), b, rhs_indices=mx.array([0])), "0 dimension"),
        (
            lambda a, b: mx.gather_mm(
                a.astype(mx.int32), b.astype(mx.int32), rhs_indices=mx.array([0, 1])
            ),
            "real",
        ),
        (
            lambda a, b: mx.gather_mm(a.astype(mx.complex64), b, rhs_indices=mx.array([0, 1])),
            "real",
        ),
        (
            lambda a, b: mx.grad(lambda i: mx.sum(mx.gather_mm(a, b, rhs_indices=i)))(
                mx.array([0, 1])
            ),
            "indices",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        mx.eval(call(mx.ones((2, 1, 4)), mx.ones((3, 4, 5))))


def test_mixed_dtypes_promote():
    index = mx.array([0, 1])
    a, b = mx.ones((2, 1, 4), mx.float16), mx.ones((2, 4, 5), mx.bfloat16)
    assert mx.gather_mm(a, b, rhs_indices=index).dtype == mx.float32
    with mx.stream(mx.cpu):
        assert mx.gather_mm(a.astype(mx.float64), b, rhs_indices=index).dtype == mx.float64
    if h.on_gpu():
        with pytest.raises(ValueError, match="float64"):
            mx.gather_mm(mx.zeros((2, 1, 4), mx.float64, stream=mx.cpu), b, rhs_indices=index)


# Derivatives


def directional(loss, loss64, args, rng):
    """First order by vjp and jvp, second order by both, against differences along a direction."""
    arrays = [mx.array(v, mx.float32) for v in args]
    nums = list(range(len(args)))
    u = [rng.normal(size=v.shape) for v in args]
    v = [mx.array(d, mx.float32) for d in u]

    def at(t):
        return loss64(*[a + t * d for a, d in zip(args, u, strict=True)])

    def slope(*x):
        return sum(mx.sum(g * d) for g, d in zip(mx.grad(loss, argnums=nums)(*x), v, strict=True))

    first = (at(1e-5) - at(-1e-5)) / 2e-5
    np.testing.assert_allclose(slope(*arrays).item(), first, rtol=2e-4)
    np.testing.assert_allclose(mx.jvp(loss, arrays, v)[1][0].item(), first, rtol=2e-4)
    second = (at(1e-3) - 2 * at(0) + at(-1e-3)) / 1e-6
    np.testing.assert_allclose(mx.jvp(slope, arrays, v)[1][0].item(), second, rtol=2e-3)
    again = mx.grad(slope, argnums=nums)(*arrays)
    total = sum(mx.sum(g * d).item() for g, d in zip(again, v, strict=True))
    np.testing.assert_allclose(total, second, rtol=2e-3)


@pytest.mark.parametrize(
    ("left", "right", "lhs", "rhs", "ordered"),
    [
        ((4, 1, 3), (3, 3, 2), None, [2, 0, 2, 2], False),
        ((2, 1, 1, 3), (3, 3, 2), None, [[2, 0], [2, 1]], False),
        ((6, 1, 3), (3, 3, 2), None, [0, 0, 1, 2, 2, 2], True),
        ((20, 1, 3), (2, 3, 2), None, [0] * 7 + [1] * 13, True),
        ((3, 2, 3), (3, 2), [2, 0, 2, 1], None, False),
        ((3, 2, 3), (2, 3, 2), [[2], [0]], [[1, 0, 1]], False),
        ((3, 2, 3), (2, 3, 2), [-1, 0], [1, -2], False),
        ((3,), (3, 3, 2), None, [1, 1], False),
    ],
)
def test_gather_derivatives(left, right, lhs, rhs, ordered, rng):
    x, y = rng.normal(size=left), rng.normal(size=right)
    index = [None if i is None else np.array(i) for i in (lhs, rhs)]
    given = [None if i is None else mx.array(i) for i in index]

    def loss(a, b):
        return mx.sum(mx.sin(mx.gather_mm(a, b, *given, sorted_indices=ordered)))

    def loss64(x, y):
        x = x[None] if x.ndim == 1 else x
        return np.sum(np.sin(twin(x, y, *index)[0]))

    directional(loss, loss64, [x, y], rng)


def test_gradient_of_an_expert_that_gets_no_token():
    a, b = mx.ones((2, 1, 3)), mx.ones((3, 3, 2))
    g = mx.grad(lambda b: mx.sum(mx.gather_mm(a, b, rhs_indices=mx.array([2, 2]))))(b)
    assert g.tolist() == [[[0, 0]] * 3, [[0, 0]] * 3, [[2, 2]] * 3]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_of_halves(dtype, rng):
    """Sums over many rows are kept in float32 and rounded once."""
    x, y = draw(rng, (300, 1, 16), dtype), draw(rng, (2, 16, 8), dtype)
    rhs = rng.integers(0, 2, 300)
    a, b = h.from_np(x, dtype), h.from_np(y, dtype)
    g = mx.grad(lambda b: mx.sum(mx.gather_mm(a, b, rhs_indices=mx.array(rhs))))(b)
    ones = np.ones((300, 8))
    want = np.stack([x[rhs == e, 0].T.astype(np.float64) @ ones[rhs == e] for e in range(2)])
    bound = np.stack(
        [np.abs(x[rhs == e, 0]).T.astype(np.float64) @ ones[rhs == e] for e in range(2)]
    )
    assert h.name_of(g.dtype) == dtype
    close(g, want, bound, dtype)


# Segments


def parts(x, y, segments):
    x, y = x.astype(np.float64), y.astype(np.float64)
    k = x.shape[1]
    out = np.zeros((*segments.shape[:-1], x.shape[0], y.shape[1]))
    bound = np.zeros_like(out)
    for i in np.ndindex(segments.shape[:-1]):
        p, q = (min(max(int(v), 0), k) for v in segments[i])
        if q > p:
            out[i] = x[:, p:q] @ y[p:q]
            bound[i] = np.abs(x[:, p:q]) @ np.abs(y[p:q])
    return out, bound


SEGMENTS = [
    [[0, 3], [3, 20], [20, 20], [7, 9], [0, 20], [19, 20]],
    [[[0, 2], [2, 6]], [[0, 20], [3, 3]]],
    [5, 11],
]


@pytest.mark.validation
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("segments", SEGMENTS)
def test_segments(dtype, segments, rng):
    segments = np.array(segments)
    for m, n in [(7, 9), (1, 40), (33, 1), (64, 48)]:
        x, y = draw(rng, (m, 20), dtype), draw(rng, (20, n), dtype)
        want, bound = parts(x, y, segments)
        b = h.from_np(y, dtype)
        bt = h.from_np(np.ascontiguousarray(y.T), dtype).T
        a = h.from_np(x, dtype)
        at = h.from_np(np.ascontiguousarray(x.T), dtype).T
        for left, right in [(a, b), (at, b), (a, bt), (at, bt)]:
            got = mx.segmented_mm(left, right, mx.array(segments, mx.uint32))
            assert h.name_of(got.dtype) == dtype
            close(got, want, bound, dtype)


def test_segments_of_larger_products(rng):
    """Several tiles each way; above 10^8 operations an operand is turned first."""
    x, y = draw(rng, (130, 700)), draw(rng, (700, 600))
    segments = np.array([[0, 33], [33, 34], [34, 699], [100, 700]])
    want, bound = parts(x, y, segments)
    close(mx.segmented_mm(mx.array(x), mx.array(y), mx.array(segments)), want, bound)


def test_bounds_outside_are_held_inside(rng):
    x, y = draw(rng, (3, 10)), draw(rng, (10, 4))
    segments = np.array([[-5, 4], [8, 99], [6, 2], [50, 60], [-9, -1]])
    want, bound = parts(x, y, segments)
    close(mx.segmented_mm(mx.array(x), mx.array(y), mx.array(segments)), want, bound)
    far = mx.array([[0, 4294967295], [4294967290, 4294967295]], mx.uint32)
    want, bound = parts(x, y, np.array([[0, 10], [10, 10]]))
    close(mx.segmented_mm(mx.array(x), mx.array(y), far), want, bound)
    assert mx.segmented_mm(mx.zeros((2, 0)), mx.zeros((0, 3)), mx.array([[0, 0]])).tolist() == [
        [[0] * 3] * 2
    ]
    assert mx.segmented_mm(
        mx.zeros((2, 5)), mx.zeros((5, 3)), mx.zeros((0, 2), mx.int32)
    ).shape == (0, 2, 3)


def test_segment_derivatives(rng):
    segments = np.array([[0, 2], [1, 5], [4, 4]])
    x, y = rng.normal(size=(2, 5)), rng.normal(size=(5, 3))

    def loss(a, b):
        return mx.sum(mx.sin(mx.segmented_mm(a, b, mx.array(segments))))

    directional(loss, lambda x, y: np.sum(np.sin(parts(x, y, segments)[0])), [x, y], rng)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a, b: mx.segmented_mm(a, b, mx.array([0, 2, 4])), "should have shape"),
        (lambda a, b: mx.segmented_mm(a, b, mx.array(3)), "should have shape"),
        (lambda a, b: mx.segmented_mm(a, b, mx.array([[0.0, 1.0]])), "integral"),
        (lambda a, b: mx.segmented_mm(a[None], b, mx.array([[0, 1]])), "Batched"),
        (lambda a, b: mx.segmented_mm(a[0], b, mx.array([[0, 1]])), "Batched"),
        (lambda a, b: mx.segmented_mm(a[:, 1:], b, mx.array([[0, 1]])), "must match"),
        (
            lambda a, b: mx.segmented_mm(
                a.astype(mx.int32), b.astype(mx.int32), mx.array([[0, 1]])
            ),
            "real",
        ),
        (lambda a, b: mx.segmented_mm(a.astype(mx.complex64), b, mx.array([[0, 1]])), "real"),
    ],
)
def test_segment_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call(mx.ones((2, 5)), mx.ones((5, 3)))
