"""matmul and addmm: shapes, tails, batches, broadcasting, strides and dtypes against NumPy."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

TOLERANCE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2, "complex64": 1e-5}


def draw(rng, shape, dtype):
    x = rng.normal(size=shape)
    if dtype == "complex64":
        return (x + 1j * rng.normal(size=shape)).astype(np.complex64)
    return h.quantise(x, dtype)


def close(got, a, b, dtype, c=0):
    """Errors are measured against |a| @ |b|, which bounds what rounding can do."""
    wide = np.complex128 if dtype == "complex64" else np.float64
    a, b = np.asarray(a, wide), np.asarray(b, wide)
    want = a @ b + c
    assert got.shape == want.shape
    bound = np.abs(a) @ np.abs(b) + np.abs(c)
    error = np.abs(h.to_np(got) - want)
    assert (error <= TOLERANCE[dtype] * bound + 1e-30).all(), (
        f"{(error / (bound + 1e-30)).max():.2e}"
    )


SIZES = [
    (1, 1, 1),
    (2, 3, 4),
    (7, 5, 3),
    (16, 16, 16),
    (17, 33, 65),
    (64, 64, 64),
    (65, 1, 63),
    (1, 129, 77),
    (77, 129, 1),
    (1, 257, 1),
    (128, 40, 96),
    (31, 200, 130),
]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "complex64"])
def test_sizes_and_transposes(dtype, rng):
    for m, k, n in SIZES:
        x, y = draw(rng, (m, k), dtype), draw(rng, (k, n), dtype)
        a, b = h.from_np(x, dtype), h.from_np(y, dtype)
        at, bt = h.from_np(x.T, dtype).T, h.from_np(y.T, dtype).T
        got = a @ b
        assert h.name_of(got.dtype) == dtype
        close(got, x, y, dtype)
        close(at @ b, x, y, dtype)
        close(a @ bt, x, y, dtype)
        close(at @ bt, x, y, dtype)


@pytest.mark.validation
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((5,), (5,)),
        ((5,), (5, 3)),
        ((4, 5), (5,)),
        ((2, 4, 5), (5, 3)),
        ((2, 4, 5), (2, 5, 3)),
        ((4, 5), (6, 5, 3)),
        ((3, 1, 4, 5), (2, 5, 3)),
        ((2, 1, 1, 5), (1, 3, 5, 1)),
        ((7, 2, 4, 5), (5,)),
        ((5,), (2, 3, 5, 4)),
        ((0, 5), (5, 3)),
        ((4, 0), (0, 3)),
        ((2, 0, 4), (4, 3)),
    ],
)
def test_ranks_and_batches(left, right, rng):
    x, y = draw(rng, left, "float32"), draw(rng, right, "float32")
    got = mx.matmul(mx.array(x), mx.array(y))
    want = np.matmul(x.astype(np.float64), y.astype(np.float64))
    assert got.shape == want.shape
    np.testing.assert_allclose(np.array(got), want, rtol=1e-5, atol=1e-5)


@pytest.mark.validation
def test_any_strides(rng):
    x, y = draw(rng, (3, 18, 22), "float32"), draw(rng, (3, 22, 26), "float32")
    a, b = mx.array(x), mx.array(y)
    for i, j in [
        (np.s_[:, ::2], np.s_[:, :, ::2]),
        (np.s_[::-1], np.s_[:]),
        (np.s_[:, ::-1, ::-1], np.s_[:, ::-1]),
        (np.s_[1:, 3:, :], np.s_[:2, :, 1:]),
        (np.s_[:1], np.s_[:]),
    ]:
        close(a[i] @ b[j], x[i], y[j], "float32")
    wide = mx.broadcast_to(mx.array(x[0]), (4, 18, 22))
    close(wide @ b[0], np.broadcast_to(x[0], (4, 18, 22)), y[0], "float32")
    row = mx.broadcast_to(mx.array(x[0, :1]), (18, 22))
    close(row @ b[0], np.broadcast_to(x[0, :1], (18, 22)), y[0], "float32")
    swapped = mx.transpose(mx.array(np.ascontiguousarray(x.transpose(1, 0, 2))), (1, 0, 2))
    close(swapped @ b, x, y, "float32")


def test_odd_offsets_and_tails(rng):
    """Operands that start at any element and end in no multiple of a tile."""
    flat = draw(rng, (40000,), "bfloat16")
    for offset, (m, k, n) in [
        (1, (33, 47, 29)),
        (3, (130, 66, 70)),
        (5, (9, 300, 17)),
        (7, (1, 301, 50)),
    ]:
        x, y = (
            flat[offset : offset + m * k].reshape(m, k),
            flat[2 * offset : 2 * offset + k * n].reshape(k, n),
        )
        base = h.from_np(flat, "bfloat16")
        a = mx.reshape(base[offset : offset + m * k], (m, k))
        b = mx.reshape(base[2 * offset : 2 * offset + k * n], (k, n))
        close(a @ b, x, y, "bfloat16")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("m, k, n", [(1029, 24, 1152), (1028, 7, 1088), (1024, 64, 1032)])
def test_large_results_of_a_short_inner_dimension(dtype, m, k, n, rng):
    """All layouts, rows that lie apart, and a row that is no number."""
    m, n = h.fit(m, n)
    x, y = draw(rng, (m, k), dtype), draw(rng, (k, n), dtype)
    x[3, 2] = np.nan
    a, b = h.from_np(x, dtype), h.from_np(y, dtype)
    at, bt = h.from_np(x.T, dtype).T, h.from_np(y.T, dtype).T
    apart = h.from_np(np.pad(x, ((0, 0), (8, 8))), dtype)[:, 8 : 8 + k]
    rest = np.arange(m) != 3
    for left in (a, at, apart):
        for right in (b, bt):
            got = left @ right
            assert np.isnan(h.to_np(got[3])).all()
            close(got[mx.array(rest.nonzero()[0])], x[rest], y, dtype)
            assert np.array_equal(h.to_np(got), h.to_np(left @ right), equal_nan=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_batches_of_large_results(dtype, rng):
    """Of a short inner dimension; one right matrix for each, for all, and for each outer one."""
    m, n = h.fit(520, 264)
    x = draw(rng, (2, 4, m, 40), dtype)
    for shape in [(2, 4, 40, n), (40, n), (2, 1, 40, n)]:
        y = draw(rng, shape, dtype)
        a, b = h.from_np(x, dtype), h.from_np(y, dtype)
        close(a @ b, x, y, dtype)
        turned = h.from_np(np.ascontiguousarray(np.swapaxes(y, -1, -2)), dtype)
        close(a @ mx.swapaxes(turned, -1, -2), x, y, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "complex64"])
def test_outer_products(dtype, rng):
    """An inner dimension of one: any strides, batches; rounded once; infinity times zero."""
    x, y = draw(rng, (3, 33, 1), dtype), draw(rng, (1, 70), dtype)
    a, b = h.from_np(x, dtype), h.from_np(y, dtype)
    close(a @ b, x, y, dtype)
    close(a[:, ::-2] @ b[:, ::-1], x[:, ::-2], y[:, ::-1], dtype)
    close(mx.swapaxes(h.from_np(y, dtype), 0, 1) @ h.from_np(x[0].T, dtype), y.T, x[0].T, dtype)
    close(mx.addmm(a, a, b[:, :1]), x, y[:, :1], dtype, x)
    if dtype != "complex64":
        once = h.quantise(x.astype(np.float32) * y.astype(np.float32), dtype)
        assert np.array_equal(h.to_np(a @ b), once)
        never = h.from_np(np.array([[np.inf], [0]]), dtype) @ h.from_np(np.array([[0, 1]]), dtype)
        assert np.array_equal(h.to_np(never), [[np.nan, np.inf], [0, 0]], equal_nan=True)
    gradient = mx.grad(lambda a: (a @ b).sum().real)(a)
    close(gradient, np.ones((3, 33, 70), x.dtype), y.T.conj(), dtype)


def test_a_long_inner_dimension(rng):
    """Where M x N is small the sum over K is split; float16 results must not overflow early."""
    for dtype in ("float32", "float16", "bfloat16"):
        x, y = draw(rng, (3, 5000), dtype), draw(rng, (5000, 4), dtype)
        close(h.from_np(x, dtype) @ h.from_np(y, dtype), x, y, dtype)
    ones = mx.ones((1, 2049), mx.float16) @ mx.ones((2049, 1), mx.float16)
    assert ones.item() in (2048, 2050)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("m", "k", "n"), [(33, 2056, 12), (10, 2100, 15), (40, 1544, 130), (17, 4103, 9)]
)
def test_parts_of_long_sums_have_tails(m, k, n, dtype, rng):
    """Parts are added for columns by four and odd ones, either operand stored transposed."""
    x, y, z = draw(rng, (m, k), dtype), draw(rng, (k, n), dtype), draw(rng, (m, n), dtype)
    left = [h.from_np(x, dtype), mx.transpose(h.from_np(np.ascontiguousarray(x.T), dtype))]
    right = [h.from_np(y, dtype), mx.transpose(h.from_np(np.ascontiguousarray(y.T), dtype))]
    for a in left:
        for b in right:
            close(a @ b, x, y, dtype)
            got = mx.addmm(h.from_np(z, dtype), a, b, beta=0.0)
            close(got, x, y, dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("k", [8, 24, 56, 64, 72, 136, 200])
def test_only_the_first_step_along_k_is_short(k, dtype, rng):
    """Rows of whole chunks, lengths and sides that steps and tiles do not divide."""
    for m, n in [(72, 136), (24, 40), (40, 264)]:
        x, y = draw(rng, (m, k), dtype), draw(rng, (k, n), dtype)
        turned = [mx.transpose(h.from_np(np.ascontiguousarray(v.T), dtype)) for v in (x, y)]
        close(h.from_np(x, dtype) @ h.from_np(y, dtype), x, y, dtype)
        close(turned[0] @ turned[1], x, y, dtype)
        close(turned[0] @ h.from_np(y, dtype), x, y, dtype)
        # What lies beyond the rows of a slice must not count.
        wide = np.full((m, k + 16), np.nan, np.float32)
        wide[:, 8 : k + 8] = x
        close(h.from_np(wide, dtype)[:, 8 : k + 8] @ turned[1], x, y, dtype)


def test_mixed_dtypes_promote():
    a = mx.ones((2, 3), mx.float16)
    assert (a @ mx.ones((3, 2), mx.float32)).dtype == mx.float32
    assert (a @ mx.ones((3, 2), mx.bfloat16)).dtype == mx.float32
    assert (a @ mx.ones((3, 2), mx.int32)).dtype == mx.float16
    with pytest.raises(ValueError, match="matmul"):
        mx.ones((2, 2), mx.int32) @ mx.ones((2, 2), mx.int32)


def test_float64_products():
    with mx.stream(mx.cpu):
        x = np.random.default_rng(1).normal(size=(9, 11))
        a = mx.array(x, mx.float64)
        np.testing.assert_allclose(np.array(a @ a.T), x @ x.T, rtol=1e-13)


@pytest.mark.validation
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_addmm(dtype, rng):
    x, y = draw(rng, (9, 17), dtype), draw(rng, (17, 12), dtype)
    for shape in [(9, 12), (12,), (1, 12), (9, 1), ()]:
        z = draw(rng, shape, dtype)
        args = [h.from_np(v, dtype) for v in (z, x, y)]
        for alpha, beta in [(1.0, 1.0), (0.5, 2.0), (1.0, 0.0), (0.0, 1.0)]:
            got = mx.addmm(*args, alpha=alpha, beta=beta)
            c = beta * z.astype(np.float64)
            close(got, alpha * x.astype(np.float64), y, dtype, np.broadcast_to(c, (9, 12)))
    z = draw(rng, (3, 9, 12), dtype)
    got = mx.addmm(h.from_np(z, dtype), h.from_np(np.stack([x] * 3), dtype), h.from_np(y, dtype))
    close(got, np.stack([x] * 3), y, dtype, z.astype(np.float64))


def test_zero_times_infinity_is_nan_and_zero_inner_is_zero():
    a, b = mx.array([[0.0, 1.0]]), mx.array([[np.inf], [1.0]])
    assert np.isnan((a @ b).item())
    assert (mx.zeros((2, 0)) @ mx.zeros((0, 3))).tolist() == [[0, 0, 0]] * 2
    assert mx.addmm(mx.ones((2, 3)), mx.zeros((2, 0)), mx.zeros((0, 3))).tolist() == [[1, 1, 1]] * 2


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((4, 5), (5, 3)),
        ((2, 4, 5), (5, 3)),
        ((5,), (5, 3)),
        ((2, 1, 4, 5), (3, 5, 2)),
        ((4, 5), (5,)),
    ],
)
def test_gradients(left, right, rng):
    x, y = rng.normal(size=left).astype(np.float32), rng.normal(size=right).astype(np.float32)
    w = rng.normal(size=np.matmul(x, y).shape).astype(np.float32)

    def loss(a, b):
        return mx.sum(mx.sin(a @ b) * mx.array(w))

    def loss64(x, y):
        return np.sum(np.sin(x @ y) * w.astype(np.float64))

    ga, gb = mx.grad(loss, argnums=(0, 1))(mx.array(x), mx.array(y))
    xw, yw = x.astype(np.float64), y.astype(np.float64)
    for g, v, f in [(ga, xw, lambda v: loss64(v, yw)), (gb, yw, lambda v: loss64(xw, v))]:
        assert g.shape == v.shape
        for i in range(v.size):
            e = np.zeros_like(v)
            e.flat[i] = 1e-5
            np.testing.assert_allclose(
                np.array(g).flat[i], (f(v + e) - f(v - e)) / 2e-5, rtol=1e-3, atol=1e-3
            )
    u = rng.normal(size=left).astype(np.float32)
    along = mx.jvp(loss, [mx.array(x), mx.array(y)], [mx.array(u), mx.zeros(right)])[1][0].item()
    want = (loss64(xw + 1e-5 * u, yw) - loss64(xw - 1e-5 * u, yw)) / 2e-5
    np.testing.assert_allclose(along, want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("K, N", [(32, 32), (32, 20), (16, 8), (33, 31), (2, 40)])
def test_small_products_do_not_depend_on_their_neighbours(K, N, rng):
    """On the CPU a prompt in pieces gets the bits of the whole: some rows, zeros behind sums."""
    with mx.stream(mx.cpu):
        x = mx.array(rng.normal(0, 1, (6, K)).astype(np.float32))
        w = mx.array(rng.normal(0, 1, (N, K)).astype(np.float32))
        c = mx.array(rng.normal(0, 1, N).astype(np.float32))
        for right in (w.T, mx.contiguous(w.T)):
            whole, added = np.array(x @ right), np.array(mx.addmm(c, x, right))
            np.testing.assert_allclose(whole, np.array(x) @ np.array(right), rtol=1e-5, atol=1e-5)
            longer = mx.concatenate([right, mx.ones((3, N))])
            padded = mx.concatenate([x, mx.zeros((6, 3))], axis=1) @ longer
            assert (np.array(padded) == whole).all()
            for m in (2, 3, 5):
                assert (np.array(x[:m] @ right) == whole[:m]).all()
                assert (np.array(mx.addmm(c, x[:m], right)) == added[:m]).all()


SHORT = [((6000, 3, 3), (6000, 3, 3)), ((9000, 2, 5), (9000, 5, 7)), ((17000, 16), (16, 16))]
SHORT += [((17000, 13), (13, 11)), ((7, 2500, 9), (7, 9, 6)), ((3, 6000, 4, 16), (3, 1, 16, 3))]


def many():
    """Whether these are many rows for the device."""
    fill = int(mx.vulkan._tune_question(0, "fill")["packaged"].split()[-1])
    return 64 * fill <= 17_000


@pytest.mark.gpu
@pytest.mark.usefixtures("none_disabled")
@pytest.mark.parametrize(("left", "right"), SHORT)
@pytest.mark.parametrize(
    ("form", "dtype"),
    [(form, "float32") for form in ("nn", "tn", "nt", "tt", "odd")]
    + [("nn", "bfloat16"), ("nt", "float16"), ("odd", "float16")],
)
def test_many_products_of_short_rows(rng, dtype, left, right, form):
    """A thread makes a row of results; however the operands lie."""

    def made(shape, turn):
        shape = (*shape[:-2], shape[-1], shape[-2]) if turn else shape
        x = h.quantise(rng.standard_normal((*shape[:-1], shape[-1] + 1)), dtype)
        a = h.from_np(x, dtype)[..., 1:] if form == "odd" else h.from_np(x[..., 1:], dtype)
        x = x[..., 1:].astype(np.float64)
        return (a.swapaxes(-1, -2), x.swapaxes(-1, -2)) if turn else (a, x)

    (a, x), (b, y) = made(left, form[0] == "t"), made(right, form[-1] == "t")
    mx.eval(a, b)
    want = x @ y
    c = mx.array(np.float32(rng.standard_normal(want.shape[-1:]))).astype(h.mx_dtype(dtype))
    tolerance = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}[dtype]
    most = tolerance * (np.abs(x) @ np.abs(y)).max()
    got, ran = h.kernels(lambda: a @ b)
    assert not many() or any(name.startswith("matmul_small") for name in ran), ran
    assert np.abs(h.to_np(got).astype(np.float64) - want).max() <= most
    both, ran = h.kernels(lambda: mx.addmm(c, a, b, 0.5, 2.0))
    assert not many() or any(name.startswith("matmul_small") for name in ran), ran
    want = 0.5 * want + 2.0 * h.to_np(c).astype(np.float64)
    assert np.abs(h.to_np(both).astype(np.float64) - want).max() <= 2 * most
    apart = h.apart(lambda: a @ b, "matmul_small")
    assert np.abs(h.to_np(got).astype(np.float64) - h.to_np(apart).astype(np.float64)).max() <= most


@pytest.mark.gpu
@pytest.mark.usefixtures("none_disabled")
def test_short_products_with_what_follows(rng):
    a, b = (h.from_np(np.float32(rng.standard_normal((4000, 3, 3))), "float32") for _ in range(2))
    mx.eval(a, b)
    f = mx.compile(lambda a, b: mx.maximum(a @ b, 0.0) * 2.0)
    want = 2 * np.maximum(h.to_np(a).astype(np.float64) @ h.to_np(b), 0)
    assert np.abs(h.to_np(f(a, b)) - want).max() < 1e-5
