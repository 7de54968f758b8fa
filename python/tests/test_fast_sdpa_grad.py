"""Gradients of attention by its kernels on cooperative matrices, or by ordinary arithmetic in their
place: values against float64 NumPy."""

import os
import pathlib
import sys
import textwrap

import mlx.core as mx
import numpy as np
import pytest
from helpers import from_np, python, quantise, to_np

ERROR = {"float16": 4e-3, "bfloat16": 3e-2}
LOWEST = np.finfo(np.float32).min


def gradients(q, k, v, cot, scale, mask=None):
    """Of the sum of products with `cot`, in float64; a bool mask puts the lowest number there."""
    q, k, v, cot = (np.asarray(a, np.float64) for a in (q, k, v, cot))
    B, KV, N, _ = k.shape
    L, group = q.shape[2], q.shape[1] // KV
    many = lambda a: np.repeat(a, group, 1)  # noqa: E731
    once = lambda a: a.reshape(B, KV, group, *a.shape[2:]).sum(2)  # noqa: E731
    s = scale * q @ many(k).swapaxes(-1, -2)
    if isinstance(mask, str):
        mask = np.tri(L, N, N - L, dtype=bool)
    seen = True
    if mask is not None and mask.dtype == bool:
        seen = np.broadcast_to(mask, s.shape)
        s = np.where(seen, s, LOWEST)
    elif mask is not None:
        # As the kernels and float32 have it: a score that the lowest number joins is lost.
        s = np.where(mask < -2e38, np.maximum(mask, LOWEST), s + mask)
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dp = cot @ many(v).swapaxes(-1, -2)
    ds = np.where(seen, p * (dp - (p * dp).sum(-1, keepdims=True)), 0)
    dk, dv = ds.swapaxes(-1, -2) @ q * scale, p.swapaxes(-1, -2) @ cot
    return scale * ds @ many(k), once(dk), once(dv)


def close(got, want, name, factor=1):
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        e = factor * ERROR[name]
        g = to_np(g).astype(np.float64)
        np.testing.assert_allclose(g, w, rtol=e, atol=e * max(np.abs(w).max(), 1e-2))


def drawn(rng, name, q_shape, kv_shape, dv=None):
    """q, k, v and a cotangent."""
    B, H, L, D = q_shape
    _, KV, N, _ = kv_shape
    shapes = [q_shape, kv_shape, (B, KV, N, dv or D), (B, H, L, dv or D)]
    return [quantise(rng.normal(0, 1, s), name) for s in shapes]


def loss(mask, scale, cot):
    def f(q, k, v):
        out = mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=mask)
        return (out * cot).astype(mx.float32).sum()

    return f


def given(mask, name):
    if not isinstance(mask, np.ndarray):
        return mask
    return mx.array(mask) if mask.dtype == bool else from_np(mask, name)


def check(seed, name, q_shape, kv_shape, mask=None, dv=None, transform=lambda f: f):
    rng = np.random.default_rng(seed)
    arrays = drawn(rng, name, q_shape, kv_shape, dv)
    if isinstance(mask, np.ndarray) and mask.dtype != bool:
        mask = quantise(mask, name)
    scale = q_shape[-1] ** -0.5
    *inputs, cot = (from_np(a, name) for a in arrays)
    f = transform(mx.grad(loss(given(mask, name), scale, cot), argnums=(0, 1, 2)))
    wide = mask.astype(np.float64) if isinstance(mask, np.ndarray) and mask.dtype != bool else mask
    close(f(*inputs), gradients(*arrays, scale, wide), name)


def masks(rng, B, H, L, N):
    """By name; the rows of some see nothing at all."""
    some = rng.random((B, H, L, N)) < 0.6
    some[..., 0] = True
    blind = some[0, 0].copy()
    blind[:3] = False
    lowest = float(np.finfo(np.float32).min) if N else 0.0
    later = np.triu(np.ones((L, N), bool), 1 + N - L)
    return {
        "none": None,
        "causal": "causal",
        "bool": some,
        "bool heads": some[:1, :, :1],
        "blind": blind,
        "add": rng.normal(0, 1, (L, N)),
        "add rows": rng.normal(0, 1, (B, 1, L, 1)),
        "later": np.where(later, -np.inf, 0.0),
        "later lowest": np.where(later, lowest, -0.0),
    }


KERNELS = {"sdpa_grad_q", "sdpa_grad_kv"}


def kernels(f):
    """Names of the kernels of attention's gradient that run in `f`."""
    with mx.vulkan.profile() as p:
        f()
    return {n for n in KERNELS if any(r.kernel.startswith(n) for r in p.rows())}


def has_matrices():
    return mx.vulkan.describe(0)["features"]["cooperative_matrix"]


def expected():
    """The kernels of gradients: without matrices only where ordinary arithmetic is asked for."""
    plain = os.environ.get("MLX_VK_SDPA_COOP") == "plain_held"
    return KERNELS if plain or has_matrices() else set()


def run(source, env=()):
    """Runs it in a process of its own."""
    here = str(pathlib.Path(__file__).parent)
    env = {"PYTHONPATH": os.pathsep.join([here, *sys.path]), **dict(env)}
    head = """
        import numpy as np, mlx.core as mx, test_fast_sdpa_grad as t
        mx.set_default_device(mx.gpu)
        rng = np.random.default_rng(5)
        same = lambda f: f
    """
    return python(textwrap.dedent(head) + textwrap.dedent(source), env, timeout=850).stdout


@pytest.mark.gpu
@pytest.mark.timeout(900)
def test_plain_twins():
    """The kernels' logic by ordinary arithmetic, where there are no matrices and there is room for
    what stands for them: software drivers compile it for minutes."""
    room = mx.vulkan.describe(0)["limits"]["shared_memory"] >= 32768
    run(
        f"""
        shapes = (1, 4, 40, 16), (1, 2, 50, 16)
        used = t.kernels(lambda: t.check(7, "float16", *shapes, "causal"))
        assert used == (t.KERNELS if {room or has_matrices()} else set())
        """,
        {} if has_matrices() else {"MLX_VK_SDPA_COOP": "plain_held"},
    )


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_masks_of_grouped_heads(name):
    run(f"""
        B, H, KV, L, N = 2, 4, 2, 70, 90
        for form, mask in t.masks(rng, B, H, L, N).items():
            if form == "later lowest" and {name!r} == "float16":
                continue
            print(form)
            used = t.kernels(lambda: t.check(7, {name!r}, (B, H, L, 16), (B, KV, N, 16), mask))
            assert used == t.expected(), (form, used)
    """)


@pytest.mark.gpu
def test_head_sizes_and_lengths():
    run("""
        for D, dv, L, N, mask in [
            (64, 64, 33, 65, "causal"), (80, 72, 17, 100, None), (96, 96, 40, 31, "causal"),
            (128, 128, 100, 64, None), (8, 24, 129, 7, "causal"), (32, 32, 64, 64, None),
        ]:
            used = t.kernels(lambda: t.check(11, "float16", (1, 2, L, D), (1, 1, N, D), mask, dv))
            assert used == t.expected(), (D, dv, L, N)
    """)


@pytest.mark.gpu
def test_blocks_of_shared_masks():
    """Masks that many heads share are looked at first; with blind rows no block is passed over."""
    run("""
        L = N = 200
        for form, mask in t.masks(rng, 2, 4, L, N).items():
            if form not in ("blind", "later"):
                continue
            for m in [mask, np.broadcast_to(mask, (2, 1, L, N))] if form == "later" else [mask]:
                t.check(13, "float16", (2, 4, L, 16), (2, 4, N, 16), np.ascontiguousarray(m))
        corner = np.zeros((L, N), bool)
        corner[:70, :20] = corner[70:, 130:] = True
        t.check(17, "float16", (1, 4, L, 16), (1, 2, N, 16), corner)
        rng = np.random.default_rng(2)
        arrays = t.drawn(rng, "float16", (2, 4, L, 16), (2, 4, N, 16))
        q, k, v, _ = (t.from_np(a, "float16") for a in arrays)
        for mask in (corner, np.tri(L, N, dtype=bool), np.tri(L, N, -3, dtype=bool)):
            f = lambda m: mx.fast.scaled_dot_product_attention(q, k, v, scale=0.3, mask=m)
            out = f(mx.array(mask)).astype(mx.float32)
            whole = np.ascontiguousarray(np.broadcast_to(mask, (2, 4, L, N)))
            whole = f(mx.array(whole)).astype(mx.float32)
            assert mx.abs(out - whole).max().item() < 2e-3
    """)


@pytest.mark.gpu
def test_transforms():
    """compile, checkpoint, value_and_grad, vmap, and layouts with heads behind positions."""
    run("""
        shapes = (1, 2, 40, 16), (1, 1, 50, 16)
        for f in (mx.compile, same):
            work = lambda: t.check(19, "float16", *shapes, "causal", transform=f)
            assert t.kernels(work) == t.expected()
        *arrays, cot = t.drawn(rng, "float16", *shapes)
        want = t.gradients(*arrays, cot, 0.25, "causal")
        q, k, v, c = (t.from_np(a, "float16") for a in (*arrays, cot))
        f = t.loss("causal", 0.25, c)
        t.close(mx.grad(mx.checkpoint(f), argnums=(0, 1, 2))(q, k, v), want, "float16")
        t.close(mx.value_and_grad(f, argnums=(0, 1, 2))(q, k, v)[1], want, "float16")
        turned = [mx.contiguous(a.swapaxes(1, 2)) for a in (q, k, v)]
        g = lambda *x: f(*(a.swapaxes(1, 2) for a in x))
        got = mx.grad(g, argnums=(0, 1, 2))(*turned)
        t.close([a.swapaxes(1, 2) for a in got], want, "float16")
        many = [mx.stack([a, 2 * a]) for a in (q, k, v)]
        got = mx.vmap(mx.grad(f, argnums=(0, 1, 2)))(*many)
        for i in range(2):
            want = t.gradients(*((1 + i) * a for a in arrays), cot, 0.25, "causal")
            t.close([a[i] for a in got], want, "float16")
        one = mx.grad(lambda q: f(q, k, v))(q)
        want = t.gradients(*arrays, cot, 0.25, "causal")
        t.close([one], want[:1], "float16")
        ways = [t.quantise(rng.normal(0, 1, a.shape), "float16") for a in arrays[:3]]
        got = mx.jvp(f, [q, k, v], [t.from_np(w, "float16") for w in ways])[1][0].item()
        slope = sum((g * w).sum() for g, w in zip(want, ways))
        assert abs(got - slope) < 0.01 * sum((g**2).sum() for g in want) ** 0.5 + 0.01 * abs(slope)
        three = mx.grad(lambda *x: mx.vmap(f)(*x).sum(), argnums=(0, 1, 2))
        t.close([a[0] for a in three(*(a[None] for a in (q, k, v)))], want, "float16")
    """)


@pytest.mark.gpu
def test_gradients_in_files(tmp_path):
    run(f"""
        path = {str(tmp_path / "grad.mlxfn")!r}
        arrays = t.drawn(rng, "float16", (1, 2, 40, 16), (1, 1, 50, 16))
        *inputs, cot = (t.from_np(a, "float16") for a in arrays)
        f = mx.grad(t.loss("causal", 0.25, cot), argnums=(0, 1, 2))
        mx.export_function(path, f, *inputs)
        got = mx.import_function(path)(*inputs)
        t.close(got, t.gradients(*arrays, 0.25, "causal"), "float16")
    """)


@pytest.mark.gpu
@pytest.mark.parametrize("form", ["causal", "bool", "add", "mask"])
def test_second_derivatives(form):
    """What follows from a gradient, against finite differences of float64 gradients."""
    run(f"""
        form = {form!r}
        B, H, KV, L, N, D = 1, 2, 1, 20, 24, 16
        mask = t.masks(rng, B, H, L, N)["add" if form == "mask" else form]
        if form in ("add", "mask"):
            mask = t.quantise(mask, "float16")
        arrays = t.drawn(rng, "float16", (B, H, L, D), (B, KV, N, D))
        to = [t.quantise(rng.normal(0, 1, a.shape), "float16") for a in arrays[:3]]
        way = [rng.normal(0, 1, a.shape) for a in arrays]
        *inputs, cot = (t.from_np(a, "float16") for a in arrays)
        u = [t.from_np(a, "float16") for a in to]
        def f(q, k, v, cot, m=t.given(mask, "float16")):
            grads = mx.grad(t.loss(m, 0.25, cot), argnums=(0, 1, 2))(q, k, v)
            return sum((g * x).astype(mx.float32).sum() for g, x in zip(grads, u))
        def wide(*x, mask=mask):
            m = mask if isinstance(mask, str) or mask.dtype == bool else mask.astype(np.float64)
            grads = t.gradients(*x, 0.25, m)
            return sum((g * w.astype(np.float64)).sum() for g, w in zip(grads, to))
        x = [a.astype(np.float64) for a in arrays]
        if form == "mask":
            got = [mx.grad(lambda m: f(*inputs, cot, m))(t.given(mask, "float16"))]
            way = [rng.normal(0, 1, mask.shape)]
            at = lambda e: wide(*x, mask=mask.astype(np.float64) + e * way[0])
        else:
            got = mx.grad(f, argnums=(0, 1, 2, 3))(*inputs, cot)
            at = lambda e: wide(*(a + e * w for a, w in zip(x, way)))
        want = (at(1e-4) - at(-1e-4)) / 2e-4
        found = sum((t.to_np(g).astype(np.float64) * w).sum() for g, w in zip(got, way))
        size = sum((t.to_np(g).astype(np.float64) ** 2).sum() for g in got) ** 0.5
        assert abs(found - want) < 0.02 * size + 0.01 * abs(want), (found, want, size)
    """)


@pytest.mark.gpu
def test_where_the_composition_stays():
    """For the gradient of a mask, sinks, float32; without the kernels gradients are the same."""
    run("""
        shapes = (1, 2, 40, 16), (1, 1, 50, 16)
        arrays = t.drawn(rng, "float16", *shapes)
        q, k, v, cot = (t.from_np(a, "float16") for a in arrays)
        m = t.quantise(rng.normal(0, 1, (40, 50)), "float16")
        mask = t.from_np(m, "float16")
        f = lambda q, m: t.loss(m, 0.25, cot)(q, k, v)
        want = t.gradients(*arrays, 0.25, m.astype(np.float64))
        both = mx.grad(f, argnums=(0, 1))
        assert t.kernels(lambda: t.close(both(q, mask)[:1], want[:1], "float16")) == set()
        def sinks(q):
            w = mx.zeros(2, mx.float16)
            out = mx.fast.scaled_dot_product_attention(q, k, v, scale=0.25, sinks=w)
            return (out * cot).sum()
        assert t.kernels(lambda: mx.eval(mx.grad(sinks)(q))) == set()
        wide = [a.astype(mx.float32) for a in (q, k, v)]
        assert t.kernels(lambda: mx.eval(mx.grad(t.loss(None, 0.25, cot))(*wide))) == set()
        got = mx.grad(lambda q: f(q, mask))(q)
        t.close([got], want[:1], "float16")
    """)
    run(
        """
        work = lambda: t.check(23, "float16", (1, 2, 40, 16), (1, 1, 50, 16), "causal")
        assert t.kernels(work) == set()
        """,
        {"MLX_VK_DISABLE": "sdpa_grad"},
    )


@pytest.mark.gpu
def test_runs_are_equal():
    run("""
        arrays = t.drawn(rng, "float16", (2, 4, 70, 16), (2, 2, 90, 16))
        *inputs, cot = (t.from_np(a, "float16") for a in arrays)
        f = mx.grad(t.loss("causal", 0.25, cot), argnums=(0, 1, 2))
        first, second = f(*inputs), f(*inputs)
        assert all(mx.array_equal(a, b).item() for a, b in zip(first, second))
    """)


@pytest.mark.gpu
def test_nothing_at_all():
    for q, k in [
        ((1, 2, 0, 16), (1, 1, 5, 16)),
        ((1, 2, 20, 16), (1, 1, 0, 16)),
        ((0, 2, 20, 16), (0, 1, 5, 16)),
    ]:
        args = [mx.ones(s, mx.float16) for s in (q, k, k)]
        grads = mx.grad(loss(None, 1.0, mx.ones(q, mx.float16)), argnums=(0, 1, 2))(*args)
        assert [g.shape for g in grads] == [q, k, k]
        assert all((to_np(g) == 0).all() for g in grads)
