"""Products with what follows them in compiled functions: one kernel on a GPU, equal to float64."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

TOL = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
DTYPES = list(TOL)


def arrays(rng, dtype, *shapes):
    """Arrays with values that the dtype holds, and the same in float64."""
    dev = [h.from_np(rng.normal(size=s).astype(np.float32), dtype) for s in shapes]
    return dev, [h.to_np(a).astype(np.float64) for a in dev]


def close(got, want, dtype, by=None):
    """As near as the dtype, or another in between, allows."""
    assert h.name_of(got.dtype) == dtype
    got = h.to_np(got).astype(np.float64)
    assert got.shape == want.shape
    scale = max(1.0, np.abs(want).max())
    np.testing.assert_allclose(got / scale, want / scale, rtol=0, atol=TOL[by or dtype])


def kernels(f, *args):
    """The function compiled, its result, and the kernels that it ran; none on a CPU."""
    c = mx.compile(f)
    mx.eval(c(*args))
    if not h.on_gpu():
        return c(*args), None
    with mx.vulkan.profile() as p:
        out = c(*args)
        mx.eval(out)
    return out, [r.kernel for r in p.rows() for _ in range(r.count)]


def one_kernel(names, what):
    """Nothing but kernels of products: copies of operands, and sums of parts."""
    own = ("gemv_", "matmul_")
    assert names is None or all(n.startswith(own) for n in names), names
    assert names is None or any(what in n for n in names), names


def silu(x):
    return x * mx.sigmoid(x)


def silu64(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return x * (1 + mx.erf(x * 0.7071067811865476)) / 2


def gelu64(x):
    import math

    return x * (1 + np.vectorize(math.erf)(x / 2**0.5)) / 2


FORMS = {
    "tanh": (lambda p: mx.tanh(p), lambda p: np.tanh(p), []),
    "bias relu": (lambda p, b: mx.maximum(p + b, 0), lambda p, b: np.maximum(p + b, 0), ["n"]),
    "bias of one row": (lambda p, b: p * 2 + b, lambda p, b: p * 2 + b, ["1n"]),
    "residual": (lambda p, r: r - p, lambda p, r: r - p, ["mn"]),
    "bias gelu residual": (
        lambda p, b, r: gelu(p + b) + r,
        lambda p, b, r: gelu64(p + b) + r,
        ["n", "mn"],
    ),
    "scalar arrays": (lambda p, s, t: p * s + t, lambda p, s, t: p * s + t, ["", "11"]),
    "all": (
        lambda p, b, r, s: mx.tanh(p * s + b) * r + p,
        lambda p, b, r, s: np.tanh(p * s + b) * r + p,
        ["n", "mn", "1"],
    ),
    "silu": (silu, silu64, []),
    "mask": (
        lambda p, r: mx.where(r > 0, p, -p),
        lambda p, r: np.where(r > 0, p, -p),
        ["mn"],
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", list(FORMS))
def test_every_form_of_operand(name, dtype, rng):
    f, ref, extra = FORMS[name]
    for m, k, n in [(33, 21, 45), (64, 64, 64)] if name == "all" else [(37, 40, 24)]:
        dims = {"m": m, "n": n, "1": 1}
        shapes = [tuple(dims[c] for c in s) for s in extra]
        dev, full = arrays(rng, dtype, (m, k), (k, n), *shapes)
        got, names = kernels(lambda a, b, *r, f=f: f(a @ b, *r), *dev)
        close(got, ref(full[0] @ full[1], *full[2:]), dtype)
        one_kernel(names, "matmul_")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("m,k,n", [(1, 40, 70), (70, 40, 1), (5, 100, 66), (66, 100, 5), (8, 8, 8)])
def test_few_rows_or_columns(m, k, n, dtype, rng):
    dev, full = arrays(rng, dtype, (m, k), (k, n), (n,), (m, n))
    got, names = kernels(lambda a, b, c, r: mx.tanh(a @ b * 0.1 + c) + r, *dev)
    close(got, np.tanh(full[0] @ full[1] * 0.1 + full[2]) + full[3], dtype)
    one_kernel(names, "gemv_")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("m,n", [(40, 36), (3, 200)])
def test_sums_in_parts(m, n, dtype, rng):
    dev, full = arrays(rng, dtype, (m, 4096), (4096, n), (n,), (m, n))
    got, names = kernels(lambda a, b, c, r: (a @ b + c) * 0.01 + r, *dev)
    close(got, (full[0] @ full[1] + full[2]) * 0.01 + full[3], dtype)
    assert names is None or len(names) == 2 and any("matmul_reduce" in s for s in names), names


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_batches_and_transposed_operands(dtype, rng):
    def f(a, b, c, r):
        return mx.maximum(a @ b + c, 0) + r

    def ref(a, b, c, r):
        return np.maximum(a @ b + c, 0) + r

    m, k, n = 19, 24, 34
    for shapes in [
        [(3, m, k), (3, k, n), (n,), (3, m, n)],
        [(2, 3, m, k), (2, 3, k, n), (1, n), (2, 3, m, n)],
        [(2, 3, m, k), (k, n), (n,), (2, 3, m, n)],
        [(2, 3, m, k), (3, k, n), (1, 1, 1, n), (2, 3, m, n)],
        [(m, k), (4, k, n), (n,), (4, m, n)],
        # More batch axes than a kernel takes: one product after the other.
        [(2, 1, 2, m, k), (1, 3, 1, k, n), (n,), (2, 3, 2, m, n)],
        [(3, 2, k), (k, n), (n,), (3, 2, n)],
        [(k,), (k, n), (n,), (n,)],
    ]:
        dev, full = arrays(rng, dtype, *shapes)
        got, names = kernels(f, *dev)
        close(got, ref(*full), dtype)
        one_kernel(names, "")
    dev, full = arrays(rng, dtype, (k, m), (n, k), (n,), (m, n))
    got, names = kernels(lambda a, b, c, r: f(a.T, b.T, c, r), *dev)
    close(got, ref(full[0].T, full[1].T, *full[2:]), dtype)
    one_kernel(names, "matmul_")


def test_addend_of_addmm_and_factors(rng):
    for shape in [(30,), (20, 30)]:
        dev, full = arrays(rng, "float32", shape, (20, 25), (25, 30), (20, 30))
        c, a, b, r = full
        got, names = kernels(lambda c, a, b, r: mx.tanh(mx.addmm(c, a, b, 0.5, 2.0)) * r, *dev)
        close(got, np.tanh(2 * c + 0.5 * (a @ b)) * r, "float32")
        one_kernel(names, "matmul_")


@pytest.mark.parametrize(
    "a,to", [("bfloat16", "float32"), ("float16", "float32")] + [("float32", t) for t in DTYPES]
)
def test_casts_of_the_result(a, to, rng):
    dev, full = arrays(rng, a, (40, 30), (30, 44), (44,))
    got, names = kernels(lambda x, w, b: (x @ w + b).astype(h.mx_dtype(to)), *dev)
    close(got, full[0] @ full[1] + full[2], to, max(a, to, key=TOL.get))
    one_kernel(names, "matmul_")


def test_gradients_and_vmap_of_compiled_functions(rng):
    dev, (x, w, b, r) = arrays(rng, "float32", (12, 20), (20, 16), (16,), (12, 16))
    f = mx.compile(lambda x, w, b, r: mx.sum(mx.tanh(x @ w + b) * r))
    t = np.tanh(x @ w + b)
    d = r * (1 - t * t)
    want = [d @ w.T, x.T @ d, d.sum(0), t]
    for g in (mx.grad(f, argnums=(0, 1, 2, 3)), mx.compile(mx.grad(f, argnums=(0, 1, 2, 3)))):
        for got, ref in zip(g(*dev), want, strict=True):
            close(got, ref, "float32")
    # A compiled function whose product is an epilogue's, as a step of a graph.
    inner = mx.compile(lambda x, w, b: mx.tanh(x @ w + b))
    got = mx.grad(lambda w: mx.sum(inner(dev[0], w, dev[2]) * dev[3]))(dev[1])
    close(got, want[1], "float32")
    out, tangent = mx.jvp(lambda w: inner(dev[0], w, dev[2]), [dev[1]], [dev[1]])
    close(out[0], t, "float32")
    close(tangent[0], (1 - t * t) * (x @ w), "float32")
    xs = mx.stack([dev[0], dev[0] * 2])
    close(
        mx.vmap(inner, (0, None, None))(xs, dev[1], dev[2]),
        np.stack([t, np.tanh(2 * x @ w + b)]),
        "float32",
    )


def test_gated_unit_of_two_products(rng):
    dev, (x, w, u) = arrays(rng, "float32", (24, 16), (16, 40), (16, 40))
    got, names = kernels(lambda x, w, u: silu(x @ w) * (x @ u), *dev)
    close(got, silu64(x @ w) * (x @ u), "float32")
    assert names is None or len(names) == 2


def test_what_stays_two_kernels(rng):
    """The product is needed besides, or its epilogue is of another shape or dtype."""
    dev, (x, w, r) = arrays(rng, "float32", (12, 20), (20, 16), (12, 16))
    # Two consumers, of which one is no elementwise step.
    got, names = kernels(lambda x, w: mx.tanh(x @ w) + mx.sum(x @ w), dev[0], dev[1])
    close(got, np.tanh(x @ w) + (x @ w).sum(), "float32")
    # Also returned.
    (p, q), names = kernels(lambda x, w: (x @ w, mx.tanh(x @ w)), dev[0], dev[1])
    close(p, x @ w, "float32")
    close(q, np.tanh(x @ w), "float32")
    assert names is None or len(names) == 2
    # Several results of the run.
    (p, q), names = kernels(lambda x, w: (x @ w + 1, mx.tanh(x @ w + 1)), dev[0], dev[1])
    close(p, x @ w + 1, "float32")
    close(q, np.tanh(x @ w + 1), "float32")
    # A broadcast that grows the shape, and a column.
    big = mx.stack([dev[2], -dev[2]])
    got, names = kernels(lambda x, w, r: x @ w + r, dev[0], dev[1], big)
    close(got, x @ w + np.stack([r, -r]), "float32")
    column = mx.array(r[:, :1].astype(np.float32))
    got, names = kernels(lambda x, w, c: x @ w * c, dev[0], dev[1], column)
    close(got, x @ w * r[:, :1], "float32")
    assert names is None or len(names) == 2
    # A residual with gaps.
    wide = mx.array(np.concatenate([r, r], axis=1).astype(np.float32))
    got, names = kernels(lambda x, w, r: x @ w + r, dev[0], dev[1], wide[:, :16])
    close(got, x @ w + r, "float32")
    assert names is None or len(names) == 2
    got, names = kernels(lambda x, w, r: x @ w + r, dev[0], dev[1], mx.contiguous(dev[2].T).T)
    close(got, x @ w + r, "float32")
    # Another dtype than kernels of products store.
    got = mx.compile(lambda x, w: x @ w > 0)(dev[0], dev[1])
    assert np.array_equal(np.array(got), x @ w > 0)
    got = mx.compile(lambda x, w: (x @ w * 10).astype(mx.int32))(dev[0], dev[1])
    assert np.abs(np.array(got) - np.trunc(x @ w * 10)).max() <= 1
    z = [mx.array((a + 1j * a[::-1]).astype(np.complex64)) for a in (x, w)]
    got = mx.compile(lambda x, w: mx.exp(x @ w * 0.1))(*z)
    a, b = (np.array(v).astype(np.complex128) for v in z)
    np.testing.assert_allclose(np.array(got), np.exp(a @ b * 0.1), rtol=2e-4)
    # Nothing to sum over, and nothing at all.
    got = mx.compile(lambda x, w: x @ w + 1)(mx.zeros((3, 0)), mx.zeros((0, 5)))
    assert np.array_equal(np.array(got), np.ones((3, 5)))
    assert mx.compile(lambda x, w: x @ w + 1)(mx.zeros((0, 4)), mx.ones((4, 5))).shape == (0, 5)


def test_long_chain_and_results_that_are_inputs(rng):
    dev, (x, w, b) = arrays(rng, "float32", (32, 32), (32, 32), (32,))

    def f(x, w, b, tanh):
        for _ in range(12):
            x = tanh(x @ w * 0.2 + b) * 0.5 + x
        return x

    got, names = kernels(lambda x, w, b: f(x, w, b, mx.tanh), *dev)
    close(got, f(x, w, b, np.tanh), "float32")
    assert names is None or len(names) == 12


def test_shapeless_functions_keep_their_shapes_free(rng):
    f = mx.compile(lambda x, w, b: mx.maximum(x @ w + b, 0), shapeless=True)
    for m in (3, 20):
        dev, (x, w, b) = arrays(rng, "float32", (m, 7), (7, 12), (12,))
        close(f(*dev), np.maximum(x @ w + b, 0), "float32")


@pytest.mark.gpu
def test_switched_off_by_the_environment():
    code = """
    import mlx.core as mx
    mx.set_default_device(mx.gpu)
    f = mx.compile(lambda x, w: mx.tanh(x @ w))
    x = mx.ones((32, 32)) * 0.01
    mx.eval(f(x, x))
    with mx.vulkan.profile() as p:
        mx.eval(f(x, x))
    assert sum(r.count for r in p.rows()) == 2, p.rows()
    """
    h.python(code, env={"MLX_VK_DISABLE": "matmul_epilogue"})
