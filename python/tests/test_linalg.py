"""mlx.core.linalg: reconstruction, orthogonality, NumPy in float64, bad input, derivatives.

The factorisations run on CPU streams; on a GPU session they are asked for there by name.
"""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
import scipy.linalg

CPU = {"stream": mx.cpu}
REAL = ["float32", "float64"]
EPS = {"float32": 1.2e-7, "float64": 2.3e-16, "complex64": 1.2e-7}
SHAPES = [(1, 1), (2, 2), (3, 3), (5, 3), (3, 5), (17, 17), (40, 65), (65, 40), (120, 120)]
SQUARE = [1, 2, 3, 8, 33, 130]
BATCHES = [(), (4,), (2, 3), (0,), (2, 0)]


@pytest.fixture(autouse=True)
def on_cpu():
    """float64 and the factorisations need the CPU."""
    with mx.stream(mx.cpu):
        yield


def draw(rng, shape, dtype="float32"):
    x = rng.normal(size=shape)
    if dtype == "complex64":
        x = x + 1j * rng.normal(size=shape)
    return x.astype(h.np_dtype(dtype))


def spd(rng, n, lead=(), dtype="float32"):
    x = rng.normal(size=(*lead, n, n))
    return (x @ np.swapaxes(x, -1, -2) + n * np.eye(n)).astype(h.np_dtype(dtype))


def arr(x):
    """float64 stays float64."""
    return mx.array(x, dtype=mx.float64 if x.dtype == np.float64 else None)


def T(x):
    return np.conj(np.swapaxes(x, -1, -2))


def near(got, want, dtype, factor=50, scale=None):
    """Errors in units of rounding at the size of the largest element."""
    got = h.to_np(got) if isinstance(got, mx.array) else got
    assert got.shape == want.shape, (got.shape, want.shape)
    if got.size:
        scale = float(np.abs(want).max()) if scale is None else float(scale)
        error = float(np.abs(got - want).max()) / (EPS[dtype] * (scale + 1e-30))
        assert error <= factor, f"{error:.1f} roundings"


def orthonormal(q, dtype, factor=200):
    near(T(q) @ q, np.eye(q.shape[-1]) + np.zeros((*q.shape[:-2], 1, 1)), dtype, factor)


@pytest.mark.parametrize("dtype", REAL)
def test_qr(dtype, rng):
    for lead in BATCHES:
        for m, n in SHAPES:
            x = draw(rng, (*lead, m, n), dtype)
            q, r = mx.linalg.qr(arr(x))
            k = min(m, n)
            assert q.shape == (*lead, m, k) and r.shape == (*lead, k, n)
            assert h.name_of(q.dtype) == h.name_of(r.dtype) == dtype
            q, r = h.to_np(q), h.to_np(r)
            near(q @ r, x, dtype, 200)
            orthonormal(q, dtype)
            assert not np.tril(r, -1).any()


@pytest.mark.parametrize("dtype", [*REAL, "complex64"])
def test_svd(dtype, rng):
    for lead in BATCHES:
        for m, n in SHAPES:
            x = draw(rng, (*lead, m, n), dtype)
            u, s, vt = mx.linalg.svd(arr(x))
            k = min(m, n)
            assert u.shape == (*lead, m, m) and s.shape == (*lead, k) and vt.shape == (*lead, n, n)
            assert h.name_of(u.dtype) == h.name_of(vt.dtype) == dtype
            assert s.dtype == (mx.float64 if dtype == "float64" else mx.float32)
            u, s, vt = h.to_np(u), h.to_np(s), h.to_np(vt)
            near(u[..., :k] @ (s[..., None] * vt[..., :k, :]), x, dtype, 300)
            orthonormal(u, dtype)
            orthonormal(vt, dtype)
            wide = x.astype(np.complex128 if dtype == "complex64" else np.float64)
            want = np.linalg.svd(wide, compute_uv=False)
            near(s, want, dtype, 200)
            near(mx.linalg.svd(arr(x), compute_uv=False), want, dtype, 200)


def test_svd_of_special_matrices():
    for x in (np.zeros((3, 4)), np.ones((4, 4)), np.eye(5)[:, ::-1], np.diag([1e20, 1, 1e-20])):
        x = x.astype(np.float32)
        u, s, vt = (h.to_np(y) for y in mx.linalg.svd(arr(x)))
        k = len(s)
        near(u[:, :k] @ (s[:, None] * vt[:k]), x, "float32", 100)
        orthonormal(u, "float32")
        orthonormal(vt, "float32")
    assert [y.shape for y in mx.linalg.svd(mx.zeros((0, 3)))] == [(0, 0), (0,), (3, 3)]
    np.testing.assert_array_equal(h.to_np(mx.linalg.svd(mx.zeros((3, 0)))[0]), np.eye(3))


@pytest.mark.parametrize("dtype", [*REAL, "complex64"])
def test_eigh(dtype, rng):
    for lead in BATCHES:
        for n in SQUARE:
            x = draw(rng, (*lead, n, n), dtype)
            for uplo in "LU":
                part = np.tril(x) if uplo == "L" else np.triu(x)
                whole = (
                    part + T(part) - np.eye(n) * np.einsum("...ii->...i", part)[..., None, :].real
                )
                if dtype == "complex64":
                    # The imaginary part of the diagonal does not count.
                    whole = (
                        whole - 1j * np.eye(n) * np.einsum("...ii->...i", whole).imag[..., None, :]
                    )
                w, v = mx.linalg.eigh(arr(x), uplo)
                assert w.dtype == (mx.float64 if dtype == "float64" else mx.float32)
                assert h.name_of(v.dtype) == dtype
                near(w, np.linalg.eigvalsh(whole), dtype, 300)
                near(mx.linalg.eigvalsh(arr(x), UPLO=uplo), np.linalg.eigvalsh(whole), dtype, 300)
                v, w = h.to_np(v), h.to_np(w)
                near(v @ (w[..., None] * T(v)), whole, dtype, 300)
                orthonormal(v, dtype)


@pytest.mark.parametrize("dtype", [*REAL, "complex64"])
def test_eig(dtype, rng):
    for lead in BATCHES:
        for n in SQUARE:
            x = draw(rng, (*lead, n, n), dtype)
            w, v = mx.linalg.eig(arr(x))
            assert w.dtype == v.dtype == mx.complex64
            assert w.shape == (*lead, n) and v.shape == x.shape
            alone = h.to_np(mx.linalg.eigvals(arr(x)))
            w, v = h.to_np(w).astype(np.complex128), h.to_np(v).astype(np.complex128)
            near(x @ v, w[..., None, :] * v, "float32", 500, scale=np.abs(w).max() if w.size else 1)
            near(np.linalg.norm(v, axis=-2), np.ones(w.shape), "float32", 20)
            near(np.sort_complex(alone), np.sort_complex(w), "float32", 200)


def test_eig_beyond_blocks(rng):
    """Sizes at which the iteration changes its shifts."""
    for n in (200, 300):
        x = draw(rng, (n, n))
        w = np.sort_complex(h.to_np(mx.linalg.eigvals(arr(x))))
        want = np.linalg.eigvals(x.astype(np.float64))
        assert np.abs(w[:, None] - want).min(1).max() < 1e-3
        v = h.to_np(mx.linalg.eigvalsh(arr(x)))
        near(v, np.linalg.eigvalsh(x.astype(np.float64)), "float32", 100)


@pytest.mark.parametrize("dtype", REAL)
def test_cholesky(dtype, rng):
    for lead in BATCHES:
        for n in SQUARE:
            x = spd(rng, n, lead, dtype)
            low, up = mx.linalg.cholesky(arr(x)), mx.linalg.cholesky(arr(x), upper=True)
            assert h.name_of(low.dtype) == dtype
            near(low, np.linalg.cholesky(x.astype(np.float64)), dtype, 100)
            near(up, T(h.to_np(low)), dtype, 20)
            inverse = np.linalg.inv(x.astype(np.float64))
            near(mx.linalg.cholesky_inv(low), inverse, dtype, 500)
            near(mx.linalg.cholesky_inv(up, upper=True), inverse, dtype, 500)
    one_triangle = mx.array([[4.0, 100.0], [2.0, 5.0]])
    assert mx.linalg.cholesky(one_triangle).tolist() == [[2, 0], [1, 2]]
    assert mx.linalg.cholesky(one_triangle.T, upper=True).tolist() == [[2, 1], [0, 2]]


def test_cholesky_of_other_matrices():
    """Semi-definite ones have a factor; indefinite ones NaN from the first negative pivot on."""
    for x in (
        np.zeros((3, 3)),
        np.ones((3, 3)),
        np.array([[1.0, 2], [2, 4]]),
        np.diag([1.0, 0, 2]),
    ):
        low = h.to_np(mx.linalg.cholesky(mx.array(x.astype(np.float32))))
        near(low @ low.T, x.astype(np.float32), "float32", 4)
    low = h.to_np(mx.linalg.cholesky(mx.array([[1.0, 2.0], [2.0, 1.0]])))
    assert low[0].tolist() == [1, 0] and np.isnan(low[1, 1])
    assert np.isnan(h.to_np(mx.linalg.cholesky(mx.full((4, 4), np.nan)))[2, 1])


@pytest.mark.parametrize("dtype", REAL)
def test_lu(dtype, rng):
    for lead in BATCHES:
        for m, n in [*SHAPES, (0, 3), (3, 0), (0, 0)]:
            x = draw(rng, (*lead, m, n), dtype)
            p, low, up = mx.linalg.lu(arr(x))
            k = min(m, n)
            assert p.shape == (*lead, m) and p.dtype == mx.uint32
            assert low.shape == (*lead, m, k) and up.shape == (*lead, k, n)
            p, low, up = h.to_np(p).astype(int), h.to_np(low), h.to_np(up)
            near(np.take_along_axis(low, p[..., None], -2) @ up, x, dtype, 200)
            assert not np.tril(up, -1).any() and (np.abs(low) <= 1).all()
            packed, pivots = mx.linalg.lu_factor(arr(x))
            assert pivots.shape == (*lead, k) and packed.shape == x.shape
            for i in np.ndindex(lead) if k else ():
                want, steps = scipy.linalg.lu_factor(x[i].astype(np.float64))
                near(h.to_np(packed)[i], want, dtype, 2000)
                np.testing.assert_array_equal(h.to_np(pivots)[i], steps)


@pytest.mark.parametrize("dtype", REAL)
def test_inverses(dtype, rng):
    for lead in BATCHES:
        for n in SQUARE:
            x = spd(rng, n, lead, dtype) + draw(rng, (n, n), dtype)
            near(mx.linalg.inv(arr(x)), np.linalg.inv(x.astype(np.float64)), dtype, 200)
            near(mx.linalg.pinv(arr(x)), np.linalg.inv(x.astype(np.float64)), dtype, 500)
            for upper in (False, True):
                part = np.triu(x) if upper else np.tril(x)
                got = mx.linalg.tri_inv(arr(x), upper=upper)
                near(got, np.linalg.inv(part.astype(np.float64)), dtype, 200)
    for shape in [(2, 0, 0), (0, 0), (0, 3, 3)]:
        assert mx.linalg.inv(mx.zeros(shape)).shape == shape
        assert mx.linalg.tri_inv(mx.zeros(shape)).shape == shape
        assert mx.linalg.cholesky_inv(mx.zeros(shape)).shape == shape


@pytest.mark.parametrize("dtype", REAL)
def test_pinv(dtype, rng):
    for lead in [(), (3,)]:
        for m, n in SHAPES:
            x = draw(rng, (*lead, m, n), dtype)
            want = np.linalg.pinv(x.astype(np.float64), rcond=10 * max(m, n) * np.finfo(dtype).eps)
            near(mx.linalg.pinv(arr(x)), want, dtype, 5000)
    low_rank = (draw(rng, (6, 2), dtype) @ draw(rng, (2, 5), dtype)).astype(h.np_dtype(dtype))
    want = np.linalg.pinv(low_rank.astype(np.float64), rcond=1e-5)
    near(mx.linalg.pinv(arr(low_rank)), want, dtype, 5000)
    assert mx.linalg.pinv(mx.zeros((3, 0))).shape == (0, 3)
    assert not h.to_np(mx.linalg.pinv(mx.zeros((2, 3)))).any()


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 3), (3,)),
        ((3, 3), (3, 4)),
        ((5, 3, 3), (5, 3, 2)),
        ((5, 3, 3), (3,)),
        ((5, 3, 3), (3, 2)),
        ((3, 3), (5, 3, 2)),
        ((2, 1, 3, 3), (4, 3, 2)),
        ((60, 60), (60, 7)),
        ((3, 3), (3, 0)),
        ((0, 0), (0,)),
        ((0, 0), (0, 2)),
        ((0, 3, 3), (0, 3, 2)),
    ],
)
def test_solve(dtype, a, b, rng):
    x = draw(rng, a, dtype) + a[-1] * np.eye(a[-1], dtype=h.np_dtype(dtype))
    y = draw(rng, b, dtype)

    def want(m):
        m, r = m.astype(np.float64), y.astype(np.float64)
        if len(b) > 1:
            return np.linalg.solve(
                m, np.broadcast_to(r, (*np.broadcast_shapes(a[:-2], b[:-2]), *b[-2:]))
            )
        return np.linalg.solve(m, np.broadcast_to(r[:, None], (*a[:-1], 1)))[..., 0]

    near(mx.linalg.solve(arr(x), arr(y)), want(x), dtype, 500)
    near(mx.linalg.solve_triangular(arr(x), arr(y)), want(np.tril(x)), dtype, 500)
    near(
        mx.linalg.solve_triangular(arr(x), arr(y), upper=True),
        want(np.triu(x)),
        dtype,
        500,
    )


def test_solve_promotes():
    a = mx.array([[2.0, 1.0], [0.0, 4.0]])
    assert mx.linalg.solve(a, mx.array([2, 4])).tolist() == [0.5, 1.0]
    assert mx.linalg.solve(a, mx.array([2, 4], mx.float64)).dtype == mx.float64
    for wrong in (mx.int32, mx.float16, mx.complex64):
        with pytest.raises(ValueError):
            mx.linalg.solve(a.astype(wrong), mx.array([2, 4]).astype(wrong))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32"])
def test_determinants(dtype, rng):
    for lead in BATCHES:
        for n in (0, 1, 2, 3, 4, 7):
            x = h.quantise(np.round(4 * rng.normal(size=(*lead, n, n))), dtype)
            wide = x.astype(np.float64)
            a = h.from_np(x, dtype)
            kind = "float32" if dtype == "int32" else dtype
            eps = {"float16": 1e-3, "bfloat16": 8e-3}.get(kind, 2e-5)
            got = mx.linalg.det(a)
            assert h.name_of(got.dtype) == kind and got.shape == lead
            if dtype != "float16" or n < 5:
                np.testing.assert_allclose(
                    h.to_np(got), np.linalg.det(wide), rtol=eps, atol=eps * 50
                )
            sign, log = mx.linalg.slogdet(a)
            want = np.linalg.slogdet(wide)
            solid = np.abs(np.linalg.det(wide)) > 1e-3
            np.testing.assert_array_equal(h.to_np(sign)[solid], want[0][solid])
            np.testing.assert_allclose(h.to_np(log)[solid], want[1][solid], rtol=eps, atol=eps)
    sign, log = mx.linalg.slogdet(mx.ones((2, 2)))
    assert (sign.item(), log.item()) == (0, -np.inf) and mx.linalg.det(mx.ones((2, 2))).item() == 0


def test_layouts(rng):
    x = spd(rng, 6)
    for label, a in h.layouts(x, "float32"):
        print(label)
        near(mx.linalg.inv(a), np.linalg.inv(x.astype(np.float64)), "float32")
        near(mx.linalg.cholesky(a), np.linalg.cholesky(x.astype(np.float64)), "float32")
        near(
            mx.linalg.svd(a, False),
            np.linalg.svd(x.astype(np.float64), compute_uv=False),
            "float32",
        )
        near(mx.linalg.solve(a, a[0]), np.linalg.solve(x.astype(np.float64), x[0]), "float32")
    many = mx.broadcast_to(arr(x), (3, 6, 6))
    near(
        mx.linalg.inv(many),
        np.broadcast_to(np.linalg.inv(x.astype(np.float64)), (3, 6, 6)),
        "float32",
    )


NEEDS_SQUARE = [
    "cholesky",
    "cholesky_inv",
    "det",
    "slogdet",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "tri_inv",
]
ANY_SHAPE = ["lu", "lu_factor", "pinv", "qr", "svd"]
INTEGERS_TOO = ["det", "slogdet"]
COMPLEX_TOO = ["eig", "eigh", "eigvals", "eigvalsh", "svd"]


@pytest.mark.parametrize("name", COMPLEX_TOO)
def test_complex_factorisations_are_recorded(name, rng, tmp_path):
    x = arr(draw(rng, (2, 3, 3), "complex64"))
    x = x + mx.conj(mx.swapaxes(x, -1, -2))

    def found(a):
        made = getattr(mx.linalg, name)(a)
        return list(made) if isinstance(made, list | tuple) else [made]

    mx.export_function(str(tmp_path / "f.mlxfn"), found, x, shapeless=True)
    followed = mx.compile(found, shapeless=True)
    followed(x)
    for a in (x, x[:, :2, :2], x[:1]):
        for f in (followed, mx.import_function(str(tmp_path / "f.mlxfn"))):
            for got, want in zip(f(a), found(a), strict=True):
                np.testing.assert_array_equal(h.to_np(got), h.to_np(want))


@pytest.mark.parametrize("name", NEEDS_SQUARE + ANY_SHAPE)
def test_bad_arguments(name):
    f = getattr(mx.linalg, name)
    for shape in [(), (3,)]:
        with pytest.raises(ValueError, match="2 dimensions"):
            f(mx.ones(shape))
    if name in NEEDS_SQUARE:
        for shape in [(2, 3), (3, 2), (0, 3), (2, 3, 0)]:
            with pytest.raises(ValueError, match="square"):
                f(mx.ones(shape))
    for dtype in ("bool_", "int32", "float16", "bfloat16", "complex64"):
        if (
            name in INTEGERS_TOO
            and dtype != "complex64"
            or name in COMPLEX_TOO
            and dtype == "complex64"
        ):
            continue
        with pytest.raises(ValueError):
            f(mx.ones((2, 2)).astype(h.mx_dtype(dtype)))
    for bad in ([[1.0]], 1.0, None):
        with pytest.raises(TypeError):
            f(bad)


def test_more_bad_arguments():
    a = mx.eye(3)
    for f in (mx.linalg.solve, mx.linalg.solve_triangular):
        for x, y in [
            (mx.ones(3), mx.ones(3)),
            (mx.ones((2, 3)), mx.ones(3)),
            (a, mx.array(1.0)),
            (a, mx.ones(2)),
            (a, mx.ones((2, 3))),
            (mx.ones((2, 3, 3)), mx.ones((2, 3))),
            (mx.ones((2, 3, 3)), mx.ones((5, 3, 4))),
        ]:
            with pytest.raises(ValueError):
                f(x, y)
    with pytest.raises(TypeError):
        mx.linalg.solve_triangular(a, mx.ones(3), True)
    for f in (mx.linalg.eigh, mx.linalg.eigvalsh):
        with pytest.raises(ValueError):
            f(a, "X")
        with pytest.raises(TypeError):
            f(a, 1)


def test_singular_matrices_raise_when_evaluated():
    for x in (mx.zeros((3, 3)), mx.array([[1.0, 2.0], [2.0, 4.0]])):
        for make in (mx.linalg.inv, lambda a: mx.linalg.solve(a, mx.ones(a.shape[0]))):
            with pytest.raises(RuntimeError, match="singular"):
                mx.eval(make(x))
    for make in (mx.linalg.tri_inv, lambda a: mx.linalg.solve_triangular(a, mx.ones(3))):
        with pytest.raises(RuntimeError, match="singular"):
            mx.eval(make(mx.zeros((3, 3))))
    assert mx.linalg.inv(mx.eye(2)).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("n", [2, 5, 40, 160])
def test_nan_and_infinity_end(n):
    """Everything returns: an error where MLX raises one, NaN elsewhere."""
    for value in (np.nan, np.inf):
        x = np.eye(n, dtype=np.float32)
        x[1, 0] = x[0, 1] = value
        a = arr(x)
        for name in ("svd", "pinv", "eig", "eigvals", "eigh", "eigvalsh"):
            f = getattr(mx.linalg, name)
            if np.isnan(value) and name not in ("eigh", "eigvalsh"):
                with pytest.raises(RuntimeError, match="NaN"):
                    mx.eval(f(a))
            else:
                out = f(a)
                for y in out if isinstance(out, tuple) else [out]:
                    assert np.isnan(h.to_np(y)).all()
        for name in (
            "qr",
            "lu",
            "lu_factor",
            "inv",
            "cholesky",
            "det",
            "slogdet",
            "tri_inv",
            "cholesky_inv",
        ):
            mx.eval(getattr(mx.linalg, name)(a))
        assert np.isnan(h.to_np(mx.linalg.inv(mx.full((n, n), np.nan)))).all()
    unused = np.eye(n, dtype=np.float32)
    unused[0, 1] = np.nan
    assert mx.linalg.eigvalsh(mx.array(unused)).tolist() == [1] * n


@pytest.mark.gpu
def test_factorisations_refuse_gpu_streams():
    a = mx.eye(3)
    for name in NEEDS_SQUARE + ANY_SHAPE:
        with pytest.raises(ValueError, match="not yet supported on the GPU"):
            getattr(mx.linalg, name)(a, stream=mx.gpu)
    for name in ("solve", "solve_triangular"):
        with pytest.raises(ValueError, match="not yet supported on the GPU"):
            getattr(mx.linalg, name)(a, mx.ones(3), stream=mx.gpu)
    with pytest.raises(ValueError, match="not yet supported on the GPU"):
        mx.linalg.norm(a, 2, stream=mx.gpu)
    mixed = mx.linalg.inv(mx.add(a, a, stream=mx.gpu), stream=mx.cpu)
    assert mx.multiply(mixed, 2.0, stream=mx.gpu).tolist() == np.eye(3).tolist()


def device():
    """The session's device, where norms and cross products run."""
    return mx.stream(mx.gpu if h.os.environ.get("MLX_TEST_DEVICE") == "gpu" else mx.cpu)


@pytest.mark.parametrize("order", [None, 0, 1, 2, -1, -2, 3, -3, 2.5, np.inf, -np.inf])
def test_vector_norms(order, rng):
    with device():
        for shape, axis in [((5,), None), ((5,), 0), ((3, 4), 1), ((3, 4), -2), ((2, 3, 4), (1,))]:
            x = draw(rng, shape)
            wide = x.astype(np.float64)
            at = axis[0] if isinstance(axis, tuple) else axis
            for keep in (False, True):
                got = mx.linalg.norm(arr(x), order, axis, keep)
                near(got, np.asarray(np.linalg.norm(wide, order, at, keep)), "float32", 20)


@pytest.mark.parametrize("order", [None, "fro", "f", 1, -1, np.inf, -np.inf])
def test_matrix_norms(order, rng):
    numpy_order = "fro" if order == "f" else order
    with device():
        for shape, axis in [
            ((3, 4), None),
            ((3, 4), (1, 0)),
            ((2, 3, 4), (0, 2)),
            ((2, 3, 4), (-1, 0)),
        ]:
            x = draw(rng, shape)
            for keep in (False, True):
                want = np.linalg.norm(x.astype(np.float64), numpy_order, axis, keep)
                got = mx.linalg.norm(arr(x), order, axis, keep)
                near(got, np.asarray(want), "float32", 20)
        assert mx.matrix_norm(mx.array(x[0])).item() == mx.linalg.norm(mx.array(x[0])).item()


@pytest.mark.parametrize("order", [2, -2, "nuc"])
def test_spectral_norms(order, rng):
    for shape, axis in [
        ((3, 4), None),
        ((2, 3, 4), (0, 2)),
        ((2, 3, 4), (-1, 0)),
        ((2, 3, 4), (1, 2)),
    ]:
        x = draw(rng, shape)
        for keep in (False, True):
            want = np.linalg.norm(x.astype(np.float64), order, axis, keep)
            near(mx.linalg.norm(arr(x), order, axis, keep), np.asarray(want), "float32", 50)


def test_norm_of_everything(rng):
    with device():
        x = draw(rng, (2, 3, 4))
        near(mx.linalg.norm(arr(x)), np.asarray(np.linalg.norm(x)), "float32")
        assert mx.linalg.norm(arr(x), keepdims=True).shape == (1, 1, 1)
        assert mx.linalg.norm(mx.array(-3.0)).item() == 3
        assert mx.linalg.norm(mx.zeros((0, 3))).item() == 0
        assert mx.linalg.norm(mx.array([3, 4])).item() == 5
        assert mx.linalg.norm(mx.array([3 + 4j])).item() == 5
        assert mx.linalg.norm(mx.array([3.0, 4.0], mx.bfloat16)).dtype == mx.bfloat16


def test_bad_norms():
    x = mx.ones((2, 3, 4))
    for args in [
        (x, 1),
        (x, "fro", 0),
        (x, "x", (0, 1)),
        (x, 3, (0, 1)),
        (x, None, (0, 1, 2)),
        (x, None, (1, 1)),
    ]:
        with pytest.raises(ValueError):
            mx.linalg.norm(*args)
    for axis in (3, (0, 3)):
        with pytest.raises(IndexError):
            mx.linalg.norm(x, axis=axis)
    with pytest.raises(TypeError):
        mx.linalg.norm([1.0])


def test_cross(rng):
    with device():
        for a, b, axis in [
            ((3,), (3,), -1),
            ((4, 3), (3,), -1),
            ((5, 1, 3), (4, 3), -1),
            ((3, 4), (3, 1), 0),
            ((0, 3), (3,), -1),
        ]:
            x, y = draw(rng, a), draw(rng, b)
            want = np.cross(x.astype(np.float64), y, axis=axis) if axis else np.cross(x.T, y.T).T
            near(mx.linalg.cross(arr(x), arr(y), axis), want, "float32")
        flat = mx.linalg.cross(mx.array([1.0, 2.0]), mx.array([3.0, 4.0]))
        assert flat.tolist() == [0, 0, -2]
        mixed = mx.linalg.cross(mx.array([1.0, 2.0]), mx.array([1.0, 1.0, 5.0]))
        assert mixed.tolist() == np.cross([1, 2, 0], [1, 1, 5]).tolist()
        assert mx.linalg.cross(mx.array([1, 2, 3]), mx.array([3, 1, 5])).tolist() == [7, 4, -5]
        for bad in [(4,), (1,)]:
            with pytest.raises(ValueError):
                mx.linalg.cross(mx.ones(bad), mx.ones(bad))
        with pytest.raises(ValueError):
            mx.linalg.cross(mx.ones((5, 3)), mx.ones((4, 3)))
        for axis in (1, -2):
            with pytest.raises(IndexError):
                mx.linalg.cross(mx.ones(3), mx.ones(3), axis)


def differences(f, x, step=1e-6):
    """Central differences of a function of a float64 array."""
    g = np.zeros(x.shape, np.complex128 if np.iscomplexobj(x) else np.float64)
    for i in np.ndindex(x.shape):
        for unit in (1, 1j) if np.iscomplexobj(x) else (1,):
            e = np.zeros_like(x)
            e[i] = step * unit
            g[i] += unit * (f(x + e) - f(x - e)) / (2 * step)
    return g


def symmetric(x):
    return (x + np.swapaxes(x, -1, -2)) / 2


W = np.random.default_rng(5).normal(size=(2, 4, 4))


def weighted(y):
    return (y * W[..., : y.shape[-2], : y.shape[-1]]).sum()


CASES = {
    "inv": lambda m, a: m.linalg.inv(a),
    "det": lambda m, a: m.linalg.det(a),
    "slogdet": lambda m, a: m.linalg.slogdet(a)[1],
    "solve": lambda m, a: m.linalg.solve(a, B[m]),
    "solve b": lambda m, a: m.linalg.solve(A[m], a),
}
_A = np.random.default_rng(6).normal(size=(4, 4)) + 4 * np.eye(4)
_B = np.random.default_rng(7).normal(size=(2, 4, 3))


class Both(dict):
    """A constant as NumPy or as a float64 MLX array."""

    def __init__(self, x):
        super().__init__({np: x})
        self.x = x

    def __missing__(self, module):
        return mx.array(self.x, dtype=mx.float64)


A, B = Both(_A), Both(_B)


@pytest.mark.parametrize("name", CASES)
def test_gradients(name, rng):
    """Reverse mode against differences; forward mode against reverse mode."""
    f = CASES[name]
    x = rng.normal(size=(2, 4, 4)) + (0 if name == "solve b" else 4 * np.eye(4))
    w = rng.normal(size=np.shape(f(np, x)))

    def loss(a):
        return mx.sum(f(mx, a) * mx.array(w, dtype=mx.float64))

    a = mx.array(x, dtype=mx.float64)
    got = h.to_np(mx.grad(loss)(a))
    np.testing.assert_allclose(
        got, differences(lambda v: np.sum(f(np, v) * w), x), rtol=1e-5, atol=1e-7
    )
    t = rng.normal(size=x.shape)
    _, (along,) = mx.jvp(loss, [a], [mx.array(t, dtype=mx.float64)])
    np.testing.assert_allclose(along.item(), np.sum(got * t), rtol=1e-8)


@pytest.mark.parametrize("upper", [False, True])
def test_triangular_gradients(upper, rng):
    part = np.triu if upper else np.tril
    x, b = rng.normal(size=(4, 4)) + 4 * np.eye(4), rng.normal(size=(4, 2))
    w = rng.normal(size=(4, 4))
    a = mx.array(x, dtype=mx.float64)
    weights = mx.array(w, dtype=mx.float64)
    got = mx.grad(lambda v: mx.sum(mx.linalg.tri_inv(v, upper) * weights))(a)
    want = differences(lambda v: np.sum(np.linalg.inv(part(v)) * w), x)
    np.testing.assert_allclose(h.to_np(got), want, rtol=1e-5, atol=1e-8)
    rhs = mx.array(b, dtype=mx.float64)
    got = mx.grad(
        lambda v: mx.sum(mx.linalg.solve_triangular(v, rhs, upper=upper) * weights[:, :2])
    )(a)
    want = differences(lambda v: np.sum(np.linalg.solve(part(v), b) * w[:, :2]), x)
    np.testing.assert_allclose(h.to_np(got), want, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_gradients(upper, rng):
    x, w = spd(rng, 4, dtype="float64"), rng.normal(size=(4, 4))
    weights = mx.array(w, dtype=mx.float64)
    got = mx.grad(lambda v: mx.sum(mx.linalg.cholesky(v, upper) * weights))(
        mx.array(x, dtype=mx.float64)
    )

    def loss(v):
        low = np.linalg.cholesky(symmetric(v))
        return np.sum((low.T if upper else low) * w)

    np.testing.assert_allclose(h.to_np(got), differences(loss, x), rtol=1e-5, atol=1e-7)
    factor = np.linalg.cholesky(x)
    factor = factor.T if upper else factor
    got = mx.grad(lambda v: mx.sum(mx.linalg.cholesky_inv(v, upper) * weights))(
        mx.array(factor, dtype=mx.float64)
    )
    part = np.triu if upper else np.tril

    def inverse(v):
        v = part(v)
        return np.sum(np.linalg.inv(v.T @ v if upper else v @ v.T) * w)

    np.testing.assert_allclose(h.to_np(got), differences(inverse, factor), rtol=1e-5, atol=1e-7)


def test_eigh_gradients(rng):
    x, w = symmetric(rng.normal(size=(2, 4, 4))), rng.normal(size=(2, 4))
    a, weights = mx.array(x, dtype=mx.float64), mx.array(w, dtype=mx.float64)
    for f in (lambda v: mx.linalg.eigh(v)[0], mx.linalg.eigvalsh):
        got = mx.grad(lambda v: mx.sum(f(v) * weights))(a)  # noqa: B023
        want = differences(lambda v: np.sum(np.linalg.eigvalsh(symmetric(v)) * w), x)
        np.testing.assert_allclose(h.to_np(got), want, rtol=1e-5, atol=1e-7)
    # A function of the vectors that does not depend on their signs.
    c = rng.normal(size=(4, 4))
    got = mx.grad(
        lambda v: mx.sum(mx.square(mx.linalg.eigh(v)[1]) * mx.array(c, dtype=mx.float64))
    )(a)
    want = differences(lambda v: np.sum(np.linalg.eigh(symmetric(v))[1] ** 2 * c), x)
    np.testing.assert_allclose(h.to_np(got), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("order", [None, 1, 3, np.inf])
def test_norm_gradients(order, rng):
    x = rng.normal(size=(3, 5))
    got = mx.grad(lambda v: mx.sum(mx.linalg.norm(v, order, 1)))(mx.array(x, dtype=mx.float64))
    want = differences(lambda v: np.sum(np.linalg.norm(v, order, 1)), x)
    np.testing.assert_allclose(h.to_np(got), want, rtol=1e-5, atol=1e-8)


def test_second_derivative(rng):
    x = arr(spd(rng, 3, dtype="float64"))
    f = lambda a: mx.sum(mx.linalg.inv(a))  # noqa: E731
    got = mx.grad(lambda a: mx.sum(mx.square(mx.grad(f)(a))))(x)
    step = 1e-6

    def loss(v):
        y = np.linalg.inv(v).T
        return np.sum((y @ np.ones((3, 3)) @ y) ** 2)

    np.testing.assert_allclose(
        h.to_np(got), differences(loss, h.to_np(x), step), rtol=1e-4, atol=1e-10
    )


def test_no_derivative():
    for f in (
        lambda a: mx.linalg.qr(a)[1],
        lambda a: mx.linalg.svd(a, False),
        lambda a: mx.linalg.lu_factor(a)[0],
    ):
        with pytest.raises(ValueError, match="Not implemented"):
            mx.grad(lambda a: mx.sum(f(a)))(mx.eye(2))  # noqa: B023


@pytest.mark.parametrize("name", NEEDS_SQUARE + ANY_SHAPE)
def test_vmap(name, rng):
    f = getattr(mx.linalg, name)
    x = spd(rng, 4, (3, 2))
    one = f(mx.array(x[1]))
    for axis in (0, 1, 3):
        many = mx.vmap(f, in_axes=axis)(mx.array(np.moveaxis(x, 0, axis)))
        for got, want in zip(
            many if isinstance(many, tuple | list) else [many],
            one if isinstance(one, tuple | list) else [one],
            strict=True,
        ):
            np.testing.assert_allclose(h.to_np(got)[1], h.to_np(want), rtol=2e-5, atol=2e-5)


def test_vmap_of_solves(rng):
    a, b = spd(rng, 4, (3,)), draw(rng, (3, 4))
    want = np.stack([np.linalg.solve(a[i], b[i]) for i in range(3)])
    np.testing.assert_allclose(
        h.to_np(mx.vmap(mx.linalg.solve)(arr(a), arr(b))), want, rtol=1e-4, atol=1e-5
    )
    shared = mx.vmap(mx.linalg.solve, in_axes=(None, 0))(mx.array(a[0]), arr(b))
    want = np.stack([np.linalg.solve(a[0], b[i]) for i in range(3)])
    np.testing.assert_allclose(h.to_np(shared), want, rtol=1e-4, atol=1e-5)


def test_multivariate_normal(rng):
    with device():
        mean = np.array([1.0, -2.0, 0.5], np.float32)
        cov = spd(rng, 3)
        x = h.to_np(mx.random.multivariate_normal(arr(mean), arr(cov), (20000,)))
        assert x.shape == (20000, 3) and x.dtype == np.float32
        np.testing.assert_allclose(x.mean(0), mean, atol=0.1)
        np.testing.assert_allclose(np.cov(x.T), cov, atol=0.05 * cov.max())
        # The root is the symmetric one: a draw is fixed by its key.
        key = mx.random.key(3)
        noise = h.to_np(mx.random.normal((3,), key=key))
        w, v = np.linalg.eigh(cov.astype(np.float64))
        want = mean + noise @ (v * np.sqrt(w)) @ v.T
        got = mx.random.multivariate_normal(arr(mean), arr(cov), key=key)
        np.testing.assert_allclose(h.to_np(got), want, rtol=1e-4, atol=1e-4)
        for m, c, shape, out in [
            ((2, 3), (3, 3), (), (2, 3)),
            ((3,), (2, 3, 3), (), (2, 3)),
            ((5, 2, 3), (2, 3, 3), (), (5, 2, 3)),
            ((2, 3), (3, 3), (4, 2), (4, 2, 3)),
            ((0, 3), (3, 3), (), (0, 3)),
            ((3,), (3, 3), (0,), (0, 3)),
        ]:
            eye = mx.broadcast_to(mx.eye(3), c)
            got = mx.random.multivariate_normal(mx.zeros(m), eye, shape)
            assert got.shape == out and np.isfinite(h.to_np(got)).all()
        for m, c, shape in [
            ((), (3, 3), ()),
            ((3,), (3,), ()),
            ((3,), (3, 4), ()),
            ((3,), (4, 4), ()),
            ((2, 3), (5, 3, 3), ()),
            ((2, 3), (3, 3), (4,)),
        ]:
            with pytest.raises(ValueError):
                mx.random.multivariate_normal(mx.zeros(m), mx.ones(c), shape)
        with pytest.raises(ValueError, match="float32"):
            mx.random.multivariate_normal(mx.zeros(3), mx.eye(3), dtype=mx.float16)


SINGULAR = [
    np.ones((4, 4)),
    np.zeros((5, 5)),
    np.diag([1.0, 2, 0, 3]),
    np.array([[0.0, 1, 2, 3], [0, 0, 3, 1], [0, 0, 4, 1], [0, 0, 0, 2]]),
    np.outer(np.arange(1.0, 41), np.arange(2.0, 42)),
]


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("a", SINGULAR, ids=lambda a: f"{len(a)}")
def test_determinants_of_singular_matrices(a, dtype):
    x = arr(a.astype(dtype))
    assert mx.linalg.det(x).item() == 0
    sign, log = mx.linalg.slogdet(x)
    assert (sign.item(), log.item()) == (0, -np.inf)
    both = mx.stack([x, arr(np.eye(len(a), dtype=dtype))])
    assert mx.linalg.det(both).tolist() == [0, 1]
    assert [v.tolist() for v in mx.linalg.slogdet(both)] == [[0, 1], [-np.inf, 0]]


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_determinants_of_small_singular_matrices(n, dtype):
    x = arr(np.zeros((1, 1), dtype) if n == 1 else np.ones((n, n), dtype))
    assert mx.linalg.det(x).item() == 0
    assert [v.item() for v in mx.linalg.slogdet(x)] == [0, -np.inf]
    count = arr(np.arange(1.0, 10).reshape(3, 3).astype(dtype))
    assert mx.linalg.det(count).item() == 0
    signs, logs = mx.linalg.slogdet(arr(np.array([-2 * np.eye(3), np.eye(3)]).astype(dtype)))
    assert signs.tolist() == [-1, 1]
    np.testing.assert_allclose(logs.tolist(), [np.log(8), 0], rtol=1e-6)


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8])
def test_signs_of_determinants_that_are_not_numbers(n, dtype):
    """0 for up to three rows, and else the sign of the pivots, where NaN counts as 1."""
    of_nan = 0 if n < 4 else 1
    for place in (0, n * n - 1):
        a = np.eye(n, dtype=dtype)
        a.flat[place] = np.nan
        sign, log = mx.linalg.slogdet(arr(a))
        assert sign.item() == of_nan and np.isnan(log.item())
    if n > 3:
        for value, want in ((np.inf, 1), (-np.inf, -1)):
            sign, log = mx.linalg.slogdet(arr(np.full((n, n), value, dtype)))
            assert sign.item() == want and np.isnan(log.item())


@pytest.mark.parametrize("dtype", REAL)
def test_lu_of_singular_matrices(dtype):
    """What LAPACK's getrf gives: pivots of zero stand."""
    shapes = [np.ones((3, 5)), np.ones((5, 3)), np.zeros((2, 3, 3)), np.ones((2, 4, 4))]
    for a in [*SINGULAR, *shapes]:
        a = a.astype(dtype)
        packed, pivots = (np.array(v) for v in mx.linalg.lu_factor(arr(a)))
        rows, lower, upper = (np.array(v) for v in mx.linalg.lu(arr(a)))
        assert all(np.isfinite(v).all() for v in (packed, lower, upper))
        product = np.take_along_axis(lower, rows[..., None].astype(np.int64), -2) @ upper
        np.testing.assert_allclose(product, a, atol=40 * EPS[dtype] * max(1, np.abs(a).max()))
        if a.ndim == 2:
            want, order = scipy.linalg.lapack.get_lapack_funcs("getrf", (a,))(a)[:2]
            scale = max(1, np.abs(a).max())
            if len(a) < 10:
                assert pivots.tolist() == order.tolist()
                np.testing.assert_allclose(packed, want, atol=4 * EPS[dtype] * scale)


def test_symmetric_spectra_of_nan_are_nan():
    nan = np.nan
    x = mx.array([[[1.0, nan], [nan, 2.0]], [[1.0, 0.0], [0.0, 2.0]]])
    values, vectors = mx.linalg.eigh(x)
    np.testing.assert_array_equal(values, [[nan, nan], [1, 2]])
    assert np.isnan(np.array(vectors)[0]).all()
    np.testing.assert_array_equal(np.abs(vectors[1]), np.eye(2))
    np.testing.assert_array_equal(mx.linalg.eigvalsh(x), [[nan, nan], [1, 2]])
    # Only one triangle is read.
    lower = mx.array([[1.0, 0.0], [nan, 2.0]])
    np.testing.assert_array_equal(mx.linalg.eigvalsh(lower, "U"), [1, 2])
    np.testing.assert_array_equal(mx.linalg.eigvalsh(lower, "L"), [nan, nan])


def test_qr_of_nan_is_nan_but_for_the_lower_triangle():
    for shape in ((2, 2), (3, 2), (2, 3)):
        q, r = (np.array(v) for v in mx.linalg.qr(mx.full(shape, np.nan)))
        assert np.isnan(q).all()
        np.testing.assert_array_equal(np.isnan(r), np.triu(np.ones(r.shape)) == 1)


def test_cholesky_of_infinite_squares():
    inf = np.inf
    a = np.array([[[inf, 1], [1, 4]], [[4, 2], [2, inf]]], np.float32)
    want = np.array([[[inf, 0], [0, 2]], [[2, 0], [1, inf]]], np.float32)
    np.testing.assert_array_equal(mx.linalg.cholesky(mx.array(a)), want)
    upper = mx.linalg.cholesky(mx.array(a), upper=True)
    np.testing.assert_array_equal(upper, want.swapaxes(1, 2))
