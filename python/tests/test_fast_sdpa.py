"""Attention: values against float64 NumPy for every mask, gradients against the composition."""

import ast
import os
import pathlib
import sys
import textwrap

import mlx.core as mx
import numpy as np
import pytest
from helpers import from_np, python, quantise, to_np

ERROR = {"float32": 5e-6, "float16": 3e-3, "bfloat16": 2e-2}
LOWEST = np.finfo(np.float32).min


def attention(q, k, v, scale, mask=None, sinks=None):
    """In float64; a bool mask puts the lowest float32 in place of scores."""
    q, k, v = (np.asarray(a, np.float64) for a in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(a, group, 1) for a in (k, v))
    s = scale * q @ k.swapaxes(-1, -2)
    if isinstance(mask, str):
        s = np.where(np.tri(q.shape[2], k.shape[2], k.shape[2] - q.shape[2], dtype=bool), s, LOWEST)
    elif mask is not None and mask.dtype == bool:
        s = np.where(mask, s, LOWEST)
    elif mask is not None:
        s = s + mask
    top = s.max(-1, keepdims=True)
    if sinks is not None:
        sinks = np.asarray(sinks, np.float64)[:, None, None]
        top = np.maximum(top, sinks)
    with np.errstate(invalid="ignore"):
        p = np.exp(s - np.where(np.isinf(top), 0, top))
        total = p.sum(-1, keepdims=True)
        if sinks is not None:
            total = total + np.exp(sinks - top)
        return p / total @ v


def check(rng, name, q_shape, kv_shape, mask=None, sinks=False, dv=None):
    B, H, L, D = q_shape
    _, KV, N, _ = kv_shape
    q, k = (quantise(rng.normal(0, 1, s), name) for s in (q_shape, kv_shape))
    v = quantise(rng.normal(0, 1, (B, KV, N, dv or D)), name)
    w = quantise(rng.normal(0, 2, H), name) if sinks else None
    given = mask
    if isinstance(mask, np.ndarray):
        given = mx.array(mask) if mask.dtype == bool else from_np(quantise(mask, name), name)
        mask = mask if mask.dtype == bool else quantise(mask, name).astype(np.float64)
    got = mx.fast.scaled_dot_product_attention(
        *(from_np(a, name) for a in (q, k, v)),
        scale=D**-0.5,
        mask=given,
        sinks=None if w is None else from_np(w, name),
    )
    want = attention(q, k, v, D**-0.5, mask, w)
    assert got.shape == want.shape
    e = ERROR[name]
    np.testing.assert_allclose(to_np(got).astype(np.float64), want, rtol=e, atol=e)


def masks(rng, B, H, L, N):
    some = rng.random((B, H, L, N)) < 0.7
    some[..., 0] = True
    return {
        "none": None,
        "causal": "causal",
        "bool": some,
        "bool keys": some[:1, :1, :1],
        "bool heads": some[0],
        "add": rng.normal(0, 1, (L, N)),
        "add rows": rng.normal(0, 1, (B, 1, L, 1)),
    }


FORMS = ["none", "causal", "bool", "bool keys", "bool heads", "add", "add rows"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("queries", [1, 5, 37])
def test_masks_of_grouped_heads(form, queries, rng):
    B, H, KV, N, D = 2, 6, 2, 77, 64
    mask = masks(rng, B, H, queries, N)[form]
    check(rng, "float32", (B, H, queries, D), (B, KV, N, D), mask, sinks=form in ("none", "bool"))


@pytest.mark.parametrize("D", [64, 72, 80, 96, 128, 256])
@pytest.mark.parametrize("queries", [1, 33])
def test_head_sizes(D, queries, rng):
    check(rng, "bfloat16", (1, 4, queries, D), (1, 2, 53, D), "causal")


@pytest.mark.parametrize("name", ["float16", "float32"])
def test_odd_sizes(name, rng):
    check(rng, name, (1, 3, 2, 7), (1, 1, 19, 7), None, dv=5)
    check(rng, name, (1, 2, 40, 7), (1, 1, 19, 7), None, dv=13)


def test_many_keys_in_parts(rng):
    check(rng, "float32", (1, 8, 1, 64), (1, 2, 1031, 64), None, sinks=True)
    check(rng, "float16", (1, 2, 8, 64), (1, 2, 2050, 64), "causal")


@pytest.mark.gpu
def test_dense_masks_of_many_queries():
    """Rows at odd addresses and even ones, rows that see nothing, or nothing of the first keys; on
    warpgroups where there are any."""
    run = """
        import numpy as np, mlx.core as mx, test_fast_sdpa as t
        mx.set_default_device(mx.gpu)
        rng = np.random.default_rng(7)
        for L, N, D, name in (
            (130, 255, 128, "bfloat16"),
            (255, 190, 64, "float16"),
            (65, 66, 96, "bfloat16"),
            (70, 130, 128, "float16"),
        ):
            shapes = (2, 4, L, D), (2, 2, N, D)
            for form, mask in t.masks(rng, 2, 4, L, N).items():
                t.check(rng, name, *shapes, mask, form in ("bool", "add"))
            seen = rng.random((2, 1, L, N)) < 0.5
            seen[1, :, :, :64] = False
            seen[:, :, :, -1] = True
            t.check(rng, name, *shapes, np.where(seen, rng.normal(0, 1, seen.shape), -np.inf))
            seen[:, :, 3] = False
            t.check(rng, name, *shapes, seen, True)
            t.check(rng, name, *shapes, seen)
            added = np.where(seen, rng.normal(0, 1, seen.shape), -np.inf)
            added[0, 0, 5, N // 2] = np.nan
            t.check(rng, name, *shapes, added)
            t.check(rng, name, *shapes, seen[:, :, :, :1] | np.zeros((2, 1, L, N), bool))
        chip = set(mx.device_info(mx.gpu)["device_name"].split())
        ran = [k for k in mx.vulkan.stats()["kernels"] if "sdpa_warpgroup" in k]
        for mask in ("masked", "masked_pairs", "added", "added_pairs"):
            assert any(k.endswith(mask) for k in ran) or not {"H100", "H200"} & chip, ran
    """
    path = os.pathsep.join([str(pathlib.Path(__file__).parent), *sys.path])
    python(run, {"MLX_VK_WARPGROUP": "all", "PYTHONPATH": path}, timeout=280)


@pytest.mark.gpu
@pytest.mark.parametrize("held", [False, True])
def test_the_matrix_kernel(held):
    """Scores in shared memory, in registers; ordinary arithmetic without matrix instructions; the
    kernel of tiles where shared memory does not hold what stands for the matrices."""
    run = """
        import numpy as np, mlx.core as mx, test_fast_sdpa as t
        mx.set_default_device(mx.gpu)
        rng = np.random.default_rng(3)
        mask = t.masks(rng, 1, 4, 30, 77)["bool heads"]
        t.check(rng, "bfloat16", (1, 4, 30, 16), (1, 2, 77, 16), mask, True)
        if coop:
            t.check(rng, "float16", (2, 6, 137, 16), (2, 2, 177, 16), "causal")
            for form, mask in t.masks(rng, 2, 6, 137, 177).items():
                t.check(rng, "float16", (2, 6, 137, 80), (2, 2, 177, 80), mask, form == "none", 72)
                t.check(rng, "bfloat16", (2, 6, 137, 128), (2, 2, 177, 128), mask)
        print([row["kernel"] for row in mx.vulkan.stats()["attention"]])
    """
    device = mx.vulkan.describe(0)
    coop = device["features"]["cooperative_matrix"]
    path = os.pathsep.join([str(pathlib.Path(__file__).parent), *sys.path])
    if coop:
        env = {} if held else {"MLX_VK_DISABLE": "sdpa_held"}
    else:
        env = {"MLX_VK_SDPA_COOP": "plain_held" if held else "plain"}
    out = python(
        f"coop = {coop}\n" + textwrap.dedent(run), {"PYTHONPATH": path, **env}, timeout=280
    ).stdout
    expected = "coop" if coop or device["limits"]["shared_memory"] >= 32768 else "tile"
    assert set(ast.literal_eval(out)) == {expected}


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_weights_are_rounded_to_nearest(name, rng):
    """Weights that are rounded to zero would make results of positive values too small."""
    q, k = (quantise(rng.normal(0, 1, (1, 4, n, 64)), name) for n in (128, 512))
    v = quantise(rng.uniform(1, 2, (1, 4, 512, 64)), name)
    mask = rng.random((128, 512)) < 0.9
    arrays = (from_np(a, name) for a in (q, k, v))
    got = to_np(mx.fast.scaled_dot_product_attention(*arrays, scale=0.125, mask=mx.array(mask)))
    want = attention(q, k, v, 0.125, mask)
    off = ((got.astype(np.float64) - want) / want).mean()
    assert abs(off) < {"float16": 2.0**-14, "bfloat16": 2.0**-11}[name]


@pytest.mark.parametrize("queries", [3, 40])
def test_rows_without_keys(queries, rng):
    """Masked by bools: the mean of all values; by -inf: NaN; with a sink: zero."""
    q, k, v = (
        rng.normal(0, 1, (1, h, n, 16)).astype(np.float32)
        for h, n in [(4, queries), (2, 5), (2, 5)]
    )
    mask = np.ones((queries, 5), bool)
    mask[1] = False
    a = [mx.array(x) for x in (q, k, v)]
    run = lambda **kw: np.array(mx.fast.scaled_dot_product_attention(*a, scale=0.3, **kw))  # noqa: E731
    mean = v.mean(2).repeat(2, 1)
    np.testing.assert_allclose(run(mask=mx.array(mask))[:, :, 1], mean, atol=1e-6)
    low = np.where(mask, 0, -np.inf).astype(np.float32)
    got = run(mask=mx.array(low))
    assert np.isnan(got[:, :, 1]).all() and np.isfinite(got[:, :, 0]).all()
    least = np.where(mask, 0, LOWEST).astype(np.float32)
    np.testing.assert_allclose(run(mask=mx.array(least))[:, :, 1], mean, atol=1e-6)
    for m in (mask, low):
        assert (run(mask=mx.array(m), sinks=mx.zeros(4))[:, :, 1] == 0).all()
    if queries > 5:
        got = run(mask="causal")
        np.testing.assert_allclose(
            got[:, :, : queries - 5], mean[:, :, None].repeat(queries - 5, 2), atol=1e-6
        )
        np.testing.assert_allclose(got, attention(q, k, v, 0.3, "causal"), atol=1e-5)


def test_layouts(rng):
    """Heads after positions in memory, parts of longer caches, keys turned over."""
    q = rng.normal(0, 1, (2, 9, 4, 32)).astype(np.float32)
    c = rng.normal(0, 1, (2, 2, 64, 40)).astype(np.float32)
    a, m = mx.array(q), mx.array(c)
    for queries in (2, 9):
        got = mx.fast.scaled_dot_product_attention(
            a[:, :queries].swapaxes(1, 2), m[:, :, 3:50, 4:36], m[:, :, 3:50, 8:], scale=0.2
        )
        want = attention(q[:, :queries].swapaxes(1, 2), c[:, :, 3:50, 4:36], c[:, :, 3:50, 8:], 0.2)
        np.testing.assert_allclose(np.array(got), want, rtol=1e-5, atol=1e-5)
    got = mx.fast.scaled_dot_product_attention(
        a.swapaxes(1, 2), m[..., ::-1, :32], m[..., :32], scale=0.2
    )
    want = attention(q.swapaxes(1, 2), c[..., ::-1, :32], c[..., :32], 0.2)
    np.testing.assert_allclose(np.array(got), want, rtol=1e-5, atol=1e-5)


def composed(q, k, v, scale, mask, sinks):
    B, H, L, D = q.shape
    KV, N = k.shape[1], k.shape[2]
    s = scale * q.reshape(B, KV, H // KV, L, D) @ k[:, :, None].swapaxes(-1, -2)
    s = s.reshape(B, H, L, N)
    if isinstance(mask, str):
        s = mx.where(mx.tri(L, N, N - L, dtype=mx.bool_), s, LOWEST)
    elif mask is not None and mask.dtype == mx.bool_:
        s = mx.where(mask, s, LOWEST)
    elif mask is not None:
        s = s + mask
    if sinks is not None:
        s = mx.concatenate([mx.broadcast_to(sinks[:, None, None], (B, H, L, 1)), s], -1)
    p = mx.softmax(s, -1)
    if sinks is not None:
        p = p[..., 1:]
    return (p.reshape(B, KV, H // KV, L, N) @ v[:, :, None]).reshape(B, H, L, v.shape[-1])


@pytest.mark.parametrize("form", ["none", "causal", "bool", "add", "add rows"])
def test_gradients(form, rng):
    B, H, KV, L, N, D = 2, 4, 2, 5, 7, 8
    arrays = [
        mx.array(rng.normal(0, 1, s).astype(np.float32))
        for s in [(B, H, L, D), (B, KV, N, D), (B, KV, N, 6)]
    ]
    mask = masks(rng, B, H, L, N)[form]
    if isinstance(mask, np.ndarray):
        mask = mx.array(mask) if mask.dtype == bool else mx.array(mask.astype(np.float32))
    sinks = (
        mx.array(rng.normal(0, 1, H).astype(np.float32))
        if form in ("none", "bool", "add")
        else None
    )
    extra = [sinks] if sinks is not None else []
    if isinstance(mask, mx.array) and mask.dtype == mx.float32:
        extra.append(mask)
    cot = mx.array(rng.normal(0, 1, (B, H, L, 6)).astype(np.float32))

    def wrapped(f):
        def run(q, k, v, *rest):
            rest = list(rest)
            w = rest.pop(0) if sinks is not None else None
            return f(q, k, v, rest[0] if rest else mask, w)

        return run

    fast = wrapped(
        lambda q, k, v, m, w: mx.fast.scaled_dot_product_attention(
            q, k, v, scale=0.4, mask=m, sinks=w
        )
    )
    slow = wrapped(lambda q, k, v, m, w: composed(q, k, v, 0.4, m, w))
    got, want = (mx.vjp(f, arrays + extra, [cot]) for f in (fast, slow))
    for g, h in zip(got[0] + got[1], want[0] + want[1], strict=True):
        np.testing.assert_allclose(np.array(g), np.array(h), rtol=2e-4, atol=2e-5)


def test_transforms(rng):
    q = rng.normal(0, 1, (3, 2, 4, 5, 8)).astype(np.float32)
    k, v = (rng.normal(0, 1, (3, 2, 2, 6, 8)).astype(np.float32) for _ in range(2))
    w = rng.normal(0, 1, (3, 4)).astype(np.float32)
    f = lambda q, k, v, w=None: mx.fast.scaled_dot_product_attention(  # noqa: E731
        q, k, v, scale=0.4, mask="causal", sinks=w
    )
    a = [mx.array(x) for x in (q, k, v, w)]
    want = np.stack([attention(*x, 0.4, "causal") for x in zip(q, k, v, strict=True)])
    np.testing.assert_allclose(np.array(mx.vmap(f)(*a[:3])), want, atol=1e-5)
    got = mx.vmap(f, in_axes=(0, None, None))(a[0], a[1][0], a[2][0])
    want = np.stack([attention(x, k[0], v[0], 0.4, "causal") for x in q])
    np.testing.assert_allclose(np.array(got), want, atol=1e-5)
    want = np.stack([attention(*x[:3], 0.4, "causal", x[3]) for x in zip(q, k, v, w, strict=True)])
    np.testing.assert_allclose(np.array(mx.vmap(f)(*a)), want, atol=1e-5)
    one = [x[0] for x in a[:3]]
    tangents = [x[1] for x in a[:3]]
    got = mx.jvp(f, one, tangents)[1][0]
    want = mx.jvp(lambda q, k, v: composed(q, k, v, 0.4, "causal", None), one, tangents)[1][0]
    np.testing.assert_allclose(np.array(got), np.array(want), rtol=1e-4, atol=1e-5)


def test_dtypes_and_empty_arrays():
    def f(q=(1, 4, 3, 8), k=(1, 2, 5, 8), d=mx.float32, e=mx.float32, **kw):
        a, b = mx.ones(q, d), mx.ones(k, e)
        return mx.fast.scaled_dot_product_attention(a, b, b, scale=1.0, **kw)

    assert f(d=mx.float16).dtype == mx.float32
    assert f(d=mx.float16, e=mx.bfloat16).dtype == mx.float32
    assert f(mask=mx.zeros((3, 5), mx.int32)).dtype == mx.float32
    assert f(q=(1, 4, 0, 8)).shape == (1, 4, 0, 8)
    assert (np.array(f(k=(1, 2, 0, 8))) == 0).all()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"q": (4, 3, 8)}, "expected to be rank 4"),
        ({"q": (2, 4, 3, 8)}, "mismatching batch dimension"),
        ({"q": (1, 3, 3, 8)}, "n_heads must be a multiple of n_kv_heads"),
        ({"v": (1, 4, 5, 8)}, "matching n_kv_heads"),
        ({"q": (1, 4, 3, 7)}, "matching last dimension"),
        ({"v": (1, 2, 6, 8)}, "scaled_dot_product_attention"),
        ({"dtype": mx.int32}, "unsupported type int32"),
        ({"mask": "full"}, "invalid mask option 'full'"),
        ({"mask": mx.zeros((3, 4))}, "cannot be broadcast"),
        ({"mask": mx.zeros((1, 1, 1, 3, 5))}, "at most rank 4"),
        ({"mask": mx.zeros((2, 3, 5))}, "cannot be broadcast"),
        ({"dtype": mx.float16, "mask": mx.zeros((3, 5))}, "must promote to output type float16"),
        ({"sinks": mx.zeros(2)}, "invalid shape for sinks"),
        ({"dtype": mx.float16, "sinks": mx.zeros(4)}, "sinks must promote to output type float16"),
    ],
)
def test_bad_arguments(change, text):
    args = {"q": (1, 4, 3, 8), "k": (1, 2, 5, 8), "v": (1, 2, 5, 8), "dtype": mx.float32} | change
    q, k, v = (mx.ones(args.pop(x), args["dtype"]) for x in "qkv")
    args.pop("dtype")
    with pytest.raises(ValueError, match=text):
        mx.fast.scaled_dot_product_attention(q, k, v, scale=1.0, **args)


def test_masks_of_other_types_raise():
    q = mx.ones((1, 1, 2, 8))
    with pytest.raises(TypeError):
        mx.fast.scaled_dot_product_attention(q, q, q, scale=1.0, mask=[mx.ones((2, 2))])
