"""Norms, rotary embedding, cross entropy and the gated delta rule against float64 NumPy."""

import mlx.core as mx
import numpy as np
import pytest
from helpers import FLOATS, from_np, quantise, to_np

TOLERANCE = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}


def close(got, want, name, scale=1.0):
    want = np.asarray(want, np.float64)
    assert got.shape == want.shape
    error = TOLERANCE[name] * scale
    np.testing.assert_allclose(to_np(got).astype(np.float64), want, rtol=error, atol=error)


def norm(x, w=None, b=None, eps=1e-5, centred=False):
    x = np.asarray(x, np.float64)
    if centred:
        x = x - x.mean(-1, keepdims=True)
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    y = y if w is None else y * w
    return y if b is None else y + b


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("shape", [(3, 64), (2, 3, 33), (5, 4096), (1, 1)])
def test_norms_of_rows(name, shape, rng):
    x, w, b = (quantise(rng.normal(1, 2, s), name) for s in (shape, shape[-1:], shape[-1:]))
    a, u, c = (from_np(v, name) for v in (x, w, b))
    close(mx.fast.rms_norm(a, u, 1e-5), norm(x, w), name, 4)
    close(mx.fast.layer_norm(a, u, c, 1e-5), norm(x, w, b, centred=True), name, 6)


def test_norms_of_long_and_strided_rows_and_without_weights(rng):
    x = rng.normal(3, 1, (2, 40_000)).astype(np.float32)
    a = mx.array(x)
    close(mx.fast.rms_norm(a, None, 1e-5), norm(x), "float32", 4)
    close(mx.fast.layer_norm(a, None, None, 1e-5), norm(x, centred=True), "float32", 20)
    x = rng.normal(0, 1, (48, 7)).astype(np.float32)
    w = rng.normal(0, 1, 96).astype(np.float32)
    t = mx.array(x).T
    close(mx.fast.rms_norm(t, mx.array(w)[::2], 1e-6), norm(x.T, w[::2], eps=1e-6), "float32", 4)
    got = mx.fast.layer_norm(t[:, 3:], None, mx.array(w)[1:46], 1e-5)
    close(got, norm(x.T[:, 3:], None, w[1:46], centred=True), "float32", 6)


def test_norm_dtypes_and_empty_arrays():
    x, w = mx.ones((2, 4), mx.float16), mx.ones(4)
    assert mx.fast.rms_norm(x, w, 1e-5).dtype == mx.float32
    assert mx.fast.rms_norm(x, w.astype(mx.int32), 1e-5).dtype == mx.float16
    assert mx.fast.layer_norm(x, None, w, 1e-5).dtype == mx.float16
    assert mx.fast.layer_norm(x, w, w, 1e-5).dtype == mx.float32
    assert mx.fast.rms_norm(mx.zeros((0, 4)), w, 1e-5).shape == (0, 4)
    assert mx.fast.layer_norm(mx.zeros((2, 0)), None, None, 1e-5).shape == (2, 0)
    x = mx.ones((2, 4), mx.float64, stream=mx.cpu)
    assert mx.fast.rms_norm(x, w, 1e-5, stream=mx.cpu).dtype == mx.float64


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda f, x: f.rms_norm(mx.array(1.0), None, 1e-5), "at least 1 dimension"),
        (lambda f, x: f.rms_norm(x, mx.ones((1, 4)), 1e-5), "must have 1 dimension"),
        (lambda f, x: f.rms_norm(x, mx.ones(3), 1e-5), "same size as the last dimension"),
        (lambda f, x: f.rms_norm(x.astype(mx.int32), None, 1e-5), "unsupported type int32"),
        (lambda f, x: f.layer_norm(x, None, mx.ones(3), 1e-5), "bias must have the same size"),
        (lambda f, x: f.layer_norm(x.astype(mx.complex64), None, None, 1e-5), "unsupported type"),
        (lambda f, x: f.cross_entropy(x, mx.array([0, 1, 2])), "does not match"),
        (lambda f, x: f.cross_entropy(x, mx.array([0.0, 1.0])), "integer class indices"),
        (lambda f, x: f.cross_entropy(x.astype(mx.int32), mx.array([0, 1])), "unsupported logits"),
    ],
)
def test_bad_arguments(call, text):
    with pytest.raises(ValueError, match=text):
        call(mx.fast, mx.ones((2, 4)))


def composed_norm(x, w, b, centred):
    if centred:
        x = x - x.mean(-1, keepdims=True)
    return x * mx.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w + b


@pytest.mark.parametrize("n", [512, 1024, 8192])
@pytest.mark.parametrize("centred", [False, True])
def test_norm_gradients(n, centred, rng):
    x, w, b, c = (mx.array(rng.normal(0, 1, s).astype(np.float32)) for s in [(3, n), n, n, (3, n)])

    def fast(x, w, b):
        if centred:
            return mx.fast.layer_norm(x, w, b, 1e-5)
        return mx.fast.rms_norm(x, w, 1e-5) + b

    got = mx.vjp(fast, [x, w, b], [c])[1]
    want = mx.vjp(lambda *a: composed_norm(*a, centred), [x, w, b], [c])[1]
    for g, h in zip(got, want, strict=True):
        np.testing.assert_allclose(np.array(g), np.array(h), rtol=2e-4, atol=2e-5)


def test_norm_transforms(rng):
    x, w = (mx.array(rng.normal(0, 1, s).astype(np.float32)) for s in [(4, 3, 8), (4, 8)])
    f = lambda x, w: mx.fast.layer_norm(x, w, None, 1e-5)  # noqa: E731
    want = norm(x, np.array(w)[:, None], centred=True)
    close(mx.vmap(f)(x, w), want, "float32", 6)
    close(
        mx.vmap(f, in_axes=(1, None))(x, w[0]),
        norm(x, w[0], centred=True).swapaxes(0, 1),
        "float32",
        6,
    )
    t = mx.array(rng.normal(0, 1, (3, 8)).astype(np.float32))
    got = mx.jvp(lambda x: f(x, w[0]), [x[0]], [t])[1][0]
    want = mx.jvp(lambda x: composed_norm(x, w[0], 0.0, True), [x[0]], [t])[1][0]
    np.testing.assert_allclose(np.array(got), np.array(want), rtol=1e-4, atol=1e-5)
    # The derivative of a derivative.
    twice = lambda f: mx.grad(lambda x: mx.grad(lambda x: (f(x) ** 3).sum())(x)[0, 0].sum())  # noqa: E731
    got = twice(lambda x: f(x, w[0]))(x[0])
    want = twice(lambda x: composed_norm(x, w[0], 0.0, True))(x[0])
    np.testing.assert_allclose(np.array(got), np.array(want), rtol=1e-3, atol=1e-4)


def turned(x, dims, traditional=False, base=1e4, scale=1.0, offset=0, freqs=None):
    """Rotary embedding of (B, ..., T, D) in float64; offset is a number or one for each of B."""
    x = np.asarray(x, np.float64)
    half = dims // 2
    if freqs is None:
        angles = base ** (-np.arange(half) / half)
    else:
        angles = 1.0 / np.asarray(freqs, np.float64)
    offset = np.reshape(np.asarray(offset), (-1,) + (1,) * (x.ndim - 2))
    positions = (offset + np.arange(x.shape[-2])) * np.float64(np.float32(scale))
    c, s = (f(positions[..., None] * angles) for f in (np.cos, np.sin))
    y = x.copy()
    p, q = (
        (slice(0, dims, 2), slice(1, dims, 2))
        if traditional
        else (slice(0, half), slice(half, dims))
    )
    y[..., p] = x[..., p] * c - x[..., q] * s
    y[..., q] = x[..., p] * s + x[..., q] * c
    return y


@pytest.mark.parametrize("traditional", [False, True])
@pytest.mark.parametrize("dims", [32, 16, 6])
@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_rope(traditional, dims, name, rng):
    x = quantise(rng.normal(0, 1, (2, 5, 7, 32)), name)
    got = mx.fast.rope(
        from_np(x, name), dims, traditional=traditional, base=1e4, scale=0.5, offset=11
    )
    close(got, turned(x, dims, traditional, scale=0.5, offset=11), name, 3)


def test_rope_layouts_offsets_and_frequencies(rng):
    how = {"traditional": False, "scale": 1.0}
    x = rng.normal(0, 1, (3, 4, 6, 16)).astype(np.float32)
    a = mx.array(x)
    each = mx.array([5, 0, 70])
    close(
        mx.fast.rope(a, 16, base=1e4, offset=each, **how),
        turned(x, 16, offset=[5, 0, 70]),
        "float32",
        3,
    )
    close(
        mx.fast.rope(a, 8, base=10.0, offset=mx.array(9), **how),
        turned(x, 8, base=10.0, offset=9),
        "float32",
        3,
    )
    freqs = rng.uniform(1, 50, 8).astype(np.float32)
    got = mx.fast.rope(a, 16, base=None, offset=2, freqs=mx.array(freqs), **how)
    close(got, turned(x, 16, offset=2, freqs=freqs), "float32", 3)
    for wrong in (True, False, 1.0):
        with pytest.raises(ValueError, match="offset must be an integer"):
            mx.fast.rope(a, 16, base=1e4, offset=wrong, **how)
    # Heads and positions the other way round in memory, and parts of a wider array.
    close(
        mx.fast.rope(a.swapaxes(1, 2), 16, base=1e4, offset=0, **how),
        turned(x.swapaxes(1, 2), 16),
        "float32",
        3,
    )
    close(
        mx.fast.rope(a[:, ::2, :, 3:13], 10, base=1e4, offset=1, **how),
        turned(x[:, ::2, :, 3:13], 10, offset=1),
        "float32",
        3,
    )
    # Three and five axes; far positions.
    close(
        mx.fast.rope(a[0], 16, base=1e4, offset=3, **how), turned(x[0], 16, offset=3), "float32", 3
    )
    five = x.reshape(3, 2, 2, 6, 16)
    close(
        mx.fast.rope(mx.array(five), 16, base=1e4, offset=3, **how),
        turned(five, 16, offset=3),
        "float32",
        3,
    )
    close(
        mx.fast.rope(a, 16, base=1e4, offset=100_000, **how),
        turned(x, 16, offset=100_000),
        "float32",
        5000,
    )
    assert mx.fast.rope(mx.zeros((1, 2, 0, 8)), 8, base=1e4, offset=0, **how).shape == (1, 2, 0, 8)


def test_rope_transforms(rng):
    x = rng.normal(0, 1, (2, 3, 4, 5, 8)).astype(np.float32)
    a = mx.array(x)
    f = lambda a, o: mx.fast.rope(a, 8, traditional=True, base=1e4, scale=1.0, offset=o)  # noqa: E731
    # The derivative turns back: the gradient of half the squared length is the argument.
    got = mx.grad(lambda a: (f(a, 7) ** 2).sum() / 2)(a[0])
    close(got, x[0], "float32", 10)
    close(
        mx.jvp(lambda a: f(a, 7), [a[0]], [a[1]])[1][0],
        turned(x[1], 8, True, offset=7),
        "float32",
        3,
    )
    close(mx.vmap(lambda a: f(a, 7))(a), turned(x, 8, True, offset=7), "float32", 3)
    got = mx.vmap(f, in_axes=(2, 0))(a, mx.array([1, 2, 3, 40]))
    want = np.stack([turned(x[:, :, i], 8, True, offset=o) for i, o in enumerate([1, 2, 3, 40])])
    close(got, want, "float32", 3)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"dims": 5}, "dims must be even"),
        ({"dims": 0}, "dims must be positive"),
        ({"dims": 10}, "must not exceed"),
        ({"base": None}, "Neither base nor freqs"),
        ({"freqs": mx.ones(4)}, "Only one of base or freqs"),
        ({"base": None, "freqs": mx.ones(3)}, "one dimensional with size 4"),
        ({"offset": mx.array([1, 2])}, "offset must be a scalar or vector"),
        ({"offset": mx.array([[1]])}, "at most one dimension"),
        ({"offset": 1.5}, "offset must be an integer"),
    ],
)
def test_rope_bad_arguments(change, text):
    args = {"dims": 8, "traditional": False, "base": 1e4, "scale": 1.0, "offset": 0} | change
    with pytest.raises(ValueError, match=text):
        mx.fast.rope(mx.ones((1, 2, 3, 8)), **args)


def test_cross_entropy(rng):
    x = rng.normal(0, 3, (2, 3, 7)).astype(np.float32)
    t = rng.integers(0, 7, (2, 3))
    want = (
        np.log(np.exp(x.astype(np.float64)).sum(-1))
        - np.take_along_axis(x, t[..., None], -1)[..., 0]
    )
    close(mx.fast.cross_entropy(mx.array(x), mx.array(t)), want, "float32", 4)
    half = mx.fast.cross_entropy(mx.array(x).astype(mx.float16), mx.array(t.astype(np.uint8)))
    assert half.dtype == mx.float32
    close(half, want, "float16", 4)
    got = np.array(mx.grad(lambda a: mx.fast.cross_entropy(a, mx.array(t)).sum())(mx.array(x)))
    p = np.exp(x - x.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    np.put_along_axis(p, t[..., None], np.take_along_axis(p, t[..., None], -1) - 1, -1)
    np.testing.assert_allclose(got, p, atol=2e-6)


def delta_rule(q, k, v, g, b, state, mask):
    """The recurrence in float64, step by step."""
    q, k = (np.repeat(a.astype(np.float64), v.shape[2] // a.shape[2], 2) for a in (q, k))
    s, outs = state.astype(np.float64), []
    for t in range(q.shape[1]):
        kept = s * g[:, t].reshape(*g.shape[:1], g.shape[2], 1, -1)
        recalled = np.einsum("bhvk,bhk->bhv", kept, k[:, t])
        new = kept + np.einsum("bhv,bhk->bhvk", (v[:, t] - recalled) * b[:, t][..., None], k[:, t])
        live = mask[:, t][:, None, None]
        outs.append(np.where(live, np.einsum("bhvk,bhk->bhv", new, q[:, t]), 0.0))
        s = np.where(live[..., None], new, s)
    return np.stack(outs, 1), s


@pytest.mark.parametrize("wide", [False, True])
def test_gated_delta_update(wide, rng):
    B, T, Hk, Hv, Dk, Dv = 2, 4, 2, 4, 6, 5
    q, k = (rng.normal(0, 0.5, (B, T, Hk, Dk)).astype(np.float32) for _ in range(2))
    v = rng.normal(0, 1, (B, T, Hv, Dv)).astype(np.float32)
    g = rng.uniform(0.5, 1, (B, T, Hv) + (Dk,) * wide).astype(np.float32)
    b = rng.uniform(0, 1, (B, T, Hv)).astype(np.float32)
    state = rng.normal(0, 1, (B, Hv, Dv, Dk)).astype(np.float32)
    mask = np.array([[1, 1, 0, 1], [1, 0, 0, 1]], bool)
    args = [mx.array(a) for a in (q, k, v, g, b, state, mask)]
    for given, want in zip(
        mx.fast.gated_delta_update(*args), delta_rule(q, k, v, g, b, state, mask), strict=True
    ):
        close(given, want, "float32", 10)
    y, s = mx.fast.gated_delta_update(*[a.astype(mx.bfloat16) for a in args[:5]])
    assert (y.dtype, s.dtype) == (mx.bfloat16, mx.float32)
    with pytest.raises(ValueError, match="gated_delta_update"):
        mx.fast.gated_delta_update(args[0], args[1], args[2], args[3], args[4][:, :, :2])


def test_gated_delta_transforms(rng):
    B, T, Hk, Hv, Dk, Dv = 1, 3, 1, 2, 4, 3
    shapes = [(B, T, Hk, Dk)] * 2 + [(B, T, Hv, Dv), (B, T, Hv), (B, T, Hv), (B, Hv, Dv, Dk)]
    args = [mx.array(rng.normal(0, 0.7, s).astype(np.float32)) for s in shapes]
    mask = mx.array([[True, False, True]])
    cots = [mx.array(rng.normal(0, 1, s).astype(np.float32)) for s in (shapes[2], shapes[5])]
    f = lambda *a: mx.fast.gated_delta_update(*a, mask)  # noqa: E731
    got = mx.vjp(f, args, cots)[1]
    held = [np.array(a, np.float64) for a in args]

    def value(*a):
        outs = delta_rule(*a, np.array(mask))
        return sum((o * np.array(c)).sum() for o, c in zip(outs, cots, strict=True))

    for i, g in enumerate(got):
        for at in list(np.ndindex(g.shape))[::3]:
            up, down = ([a.copy() for a in held] for _ in range(2))
            up[i][at] += 1e-5
            down[i][at] -= 1e-5
            want = (value(*up) - value(*down)) / 2e-5
            np.testing.assert_allclose(g[at].item(), want, rtol=1e-3, atol=1e-4)
    t = mx.jvp(f, args, args)[1]
    pair = sum((np.array(c) * np.array(a)).sum() for c, a in zip(cots, t, strict=True))
    want = sum((np.array(g) * np.array(a)).sum() for g, a in zip(got, args, strict=True))
    np.testing.assert_allclose(pair, want, rtol=1e-3)
    two = [mx.stack([a, a * 0.5]) for a in args]
    y, s = mx.vmap(f)(*two)
    np.testing.assert_allclose(np.array(y[1]), np.array(f(*[a[1] for a in two])[0]), atol=1e-5)
    np.testing.assert_allclose(np.array(s[1]), np.array(f(*[a[1] for a in two])[1]), atol=1e-5)


METAL = {"name": "f", "input_names": ["x"], "output_names": ["y"], "source": "y[0] = x[0];"}


def test_kernels_of_other_backends(tmp_path):
    """A Metal kernel can be made and checks its arguments; a CUDA kernel cannot be made."""
    kernel = mx.fast.metal_kernel(**METAL)
    call = {
        "inputs": [mx.ones(1)],
        "grid": (1, 1, 1),
        "threadgroup": (1, 1, 1),
        "output_shapes": [(1,)],
        "output_dtypes": [mx.float32],
    }
    for wrong in ({"grid": (1, 1)}, {"grid": (1.5, 1, 1)}, {"threadgroup": 1}, {"other": 1}):
        with pytest.raises(TypeError):
            kernel(**{**call, **wrong})
    with pytest.raises(TypeError):
        kernel([mx.ones(1)])
    for wrong in ({"inputs": []}, {"output_shapes": []}, {"output_dtypes": [mx.int32] * 2}):
        with pytest.raises(ValueError, match="to have size 1"):
            kernel(**{**call, **wrong})
    with pytest.raises(ValueError, match="Invalid template argument"):
        kernel(**call, template=[("T", "x")])
    with pytest.raises(RuntimeError, match="No Metal back-end"):
        kernel(**call)
    with pytest.raises(ValueError, match="at least one output"):
        mx.fast.metal_kernel(**{**METAL, "output_names": []})
    with pytest.raises(RuntimeError, match="No CUDA back-end"):
        mx.fast.cuda_kernel(**METAL)


def test_metal_kernels_are_exported_and_raise_when_evaluated(tmp_path):
    kernel = mx.fast.metal_kernel(**METAL)
    path = str(tmp_path / "k.mlxfn")

    def on(device):
        return lambda x: kernel(
            inputs=[x],
            grid=(1, 1, 1),
            threadgroup=(1, 1, 1),
            output_shapes=[(2,)],
            output_dtypes=[mx.float32],
            stream=device,
        )[0]

    with pytest.raises(ValueError, match="Only supports the GPU"):
        mx.export_function(path, on(mx.cpu), mx.zeros(2))
    if mx.device_count(mx.gpu) == 0:
        return
    mx.export_function(path, on(mx.gpu), mx.zeros(2))
    (out,) = mx.import_function(path)(mx.zeros(2))
    assert out.shape == (2,)
    with pytest.raises(RuntimeError, match="No Metal back-end"):
        mx.eval(out)


def test_nothing_runs_before_it_is_read():
    x = mx.ones((2, 3, 4, 8))
    before = mx.get_active_memory()
    y = mx.fast.rope(x, 8, traditional=False, base=1e4, scale=1.0, offset=0)
    z = mx.fast.scaled_dot_product_attention(y, y, y, scale=1.0)
    mx.fast.layer_norm(mx.fast.rms_norm(z, None, 1e-5), None, None, 1e-5)
    assert mx.get_active_memory() - before < 4096


@pytest.mark.parametrize("columns", [2, 3, 700, 5000])
def test_logsumexp_of_infinite_and_missing_numbers(columns, rng):
    inf, nan = np.inf, np.nan
    heads = [[-inf, -inf], [inf, 1], [nan, 1], [-inf, 1], [nan, nan], [inf, nan], [-inf, nan]]
    x = np.full((len(heads), columns), -inf, np.float32)
    for row, head in zip(x, heads, strict=True):
        row[rng.permutation(columns)[:2]] = head
    want = [-inf, inf, nan, 1, nan, nan, nan]
    for name in FLOATS:
        a = from_np(x, name)
        np.testing.assert_array_equal(to_np(mx.logsumexp(a, axis=-1)), want)
        np.testing.assert_array_equal(to_np(mx.logsumexp(a.T, axis=0)), want)
