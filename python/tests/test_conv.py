"""Convolutions against loops in float64: geometry, groups, gradients, dtypes, bad input."""

import itertools

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

TOLERANCE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2, "float64": 1e-13}


def spread(x, padding, dilation):
    """The input among zeros, and where its elements lie there."""
    sizes = [(s - 1) * d + 1 if s else 0 for s, d in zip(x.shape[1:-1], dilation, strict=True)]
    low, high = padding
    shape = [s + a + b for s, a, b in zip(sizes, low, high, strict=True)]
    wide = np.zeros((x.shape[0], *shape, x.shape[-1]))
    at = tuple(slice(p, p + s, d) for p, s, d in zip(low, sizes, dilation, strict=True))
    wide[(slice(None), *at)] = x
    return wide, (slice(None), *at)


def reference(x, w, dy=None, *, groups=1, flip=False, padding=None, **options):
    """The sum that defines a convolution, one kernel element at a time, in float64.

    With a cotangent of the output, the gradients of input and kernel instead.
    """
    x, w = np.asarray(x, np.float64), np.asarray(w, np.float64)
    n = x.ndim - 2
    ones = [1] * n
    stride, dilation = options.get("stride", ones), options.get("kernel_dilation", ones)
    wide, home = spread(x, padding or ([0] * n, [0] * n), options.get("input_dilation", ones))
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[1:-1], dilation, strict=True)]
    sizes = [(s - r) // t + 1 for s, r, t in zip(wide.shape[1:-1], reach, stride, strict=True)]
    y = np.zeros((x.shape[0], *sizes, w.shape[0]))
    dwide, dw = np.zeros_like(wide), np.zeros_like(w)
    inputs, outputs = x.shape[-1] // groups, w.shape[0] // groups
    for k in itertools.product(*map(range, w.shape[1:-1])):
        place = [m - 1 - i if flip else i for i, m in zip(k, w.shape[1:-1], strict=True)]
        at = tuple(
            slice(i * d, i * d + (o - 1) * t + 1, t)
            for i, d, o, t in zip(place, dilation, sizes, stride, strict=True)
        )
        for g in range(groups):
            to = slice(g * outputs, (g + 1) * outputs)
            of = (slice(None), *at, slice(g * inputs, (g + 1) * inputs))
            if dy is None:
                y[..., to] += wide[of] @ w[(to, *k)].T
            else:
                part = dy[..., to].astype(np.float64)
                dwide[of] += part @ w[(to, *k)]
                dw[(to, *k)] += part.reshape(-1, outputs).T @ wide[of].reshape(-1, inputs)
    return y if dy is None else (dwide[home], dw)


def close(got, want, bound, dtype):
    assert got.shape == want.shape
    assert h.name_of(got.dtype) == dtype
    error = np.abs(h.to_np(got).astype(np.float64) - want)
    # Half of the smallest subnormal number of float16 is lost without any rounding in the sums.
    error = np.maximum(error - 6e-8 * (dtype == "float16"), 0)
    worst = (error / (bound + 1e-30)).max() if error.size else 0
    assert worst <= TOLERANCE[dtype], f"{worst:.2e} of the sum of magnitudes"


def draw_case(rng, n):
    """Shapes and options of a random convolution over n axes whose output is not empty."""
    most = {1: 23, 2: 11, 3: 6}[n] // (2 if h.on_gpu() else 1)
    groups = int(rng.choice([1, 1, 2, 3]))
    channels = int(rng.choice([1, 3, 4, 8, 33 if groups == 1 else 5]))
    outputs = int(rng.choice([1, 2, 5, 8, 33 if groups == 1 else 3]))
    ints = lambda low, high: [int(v) for v in rng.integers(low, high, n)]  # noqa: E731
    while True:
        size, kernel = ints(1, most + 1), ints(1, 5)
        options = {
            "stride": ints(1, 4),
            "padding": (ints(0, 4), ints(0, 4)),
            "kernel_dilation": [max(1, v - 1) for v in ints(1, 5)],
            "input_dilation": [max(1, v - 1) for v in ints(1, 5)],
            "groups": groups,
            "flip": bool(rng.integers(2)),
        }
        (low, high), dilation = options["padding"], options["kernel_dilation"]
        padded = [
            (s - 1) * d + 1 + a + b
            for s, d, a, b in zip(size, options["input_dilation"], low, high, strict=True)
        ]
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        if all(p >= r for p, r in zip(padded, reach, strict=True)):
            break
    x = (int(rng.choice([1, 2, 3])), *size, channels * groups)
    w = (outputs * groups, *kernel, channels)
    print(x, w, options)
    return x, w, options


def draw(rng, shape, dtype="float32"):
    return h.quantise(rng.normal(size=shape), dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_random_geometries(n, dtype, rng):
    if dtype not in h.session_dtypes():
        dtype = "float32"
    for _ in range(6 if h.on_gpu() else 60):
        xs, ws, options = draw_case(rng, n)
        x, w = draw(rng, xs, dtype), draw(rng, ws, dtype)
        got = mx.conv_general(h.from_np(x, dtype), h.from_np(w, dtype), **options)
        bound = reference(np.abs(x), np.abs(w), **options)
        close(got, reference(x, w, **options), bound, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_gradients_of_random_geometries(n, dtype, rng):
    for _ in range(3 if h.on_gpu() else 40):
        xs, ws, options = draw_case(rng, n)
        x, w = draw(rng, xs, dtype), draw(rng, ws, dtype)
        dy = draw(rng, reference(x, w, **options).shape, dtype)
        _, got = mx.vjp(
            lambda x, w, o=options: mx.conv_general(x, w, **o),
            [h.from_np(x, dtype), h.from_np(w, dtype)],
            [h.from_np(dy, dtype)],
        )
        want = reference(x, w, dy, **options)
        bound = reference(np.abs(x), np.abs(w), np.abs(dy), **options)
        for g, v, b in zip(got, want, bound, strict=True):
            close(g, v, b, dtype)


SHAPES = [
    # input, kernel, options; tails of tiles, rows of several tiles, long sums
    ((1, 7, 7, 16), (16, 1, 1, 16), {}),
    ((2, 9, 8, 3), (32, 7, 7, 3), {"stride": 2, "padding": 3}),
    ((1, 12, 11, 32), (40, 3, 3, 32), {"padding": 1}),
    ((2, 8, 8, 12), (20, 1, 1, 12), {"stride": 2}),
    ((1, 6, 6, 1), (1, 3, 3, 1), {"padding": 1}),
    ((1, 10, 10, 24), (24, 3, 3, 1), {"padding": 1, "groups": 24}),
    ((2, 5, 9, 6), (18, 3, 2, 1), {"groups": 6, "stride": (1, 2)}),
    ((1, 9, 9, 48), (48, 5, 5, 1), {"padding": 2, "groups": 48, "dilation": 2}),
    ((1, 6, 6, 16), (24, 3, 3, 4), {"padding": 1, "groups": 4}),
    ((3, 20, 20, 8), (8, 3, 3, 8), {"padding": 1}),
    ((1, 3, 3, 200), (4, 3, 3, 200), {}),
]


@pytest.mark.validation
@pytest.mark.parametrize(("xs", "ws", "options"), SHAPES)
def test_kernels_of_every_kind(xs, ws, options, rng):
    pair = lambda v: [v, v] if isinstance(v, int) else list(v)  # noqa: E731
    full = {k: v if k == "groups" else pair(v) for k, v in options.items()}
    full["padding"] = (full.get("padding", [0, 0]),) * 2
    full["kernel_dilation"] = full.pop("dilation", [1, 1])
    for dtype in ["float32", "float16", "bfloat16"]:
        x, w = draw(rng, xs, dtype), draw(rng, ws, dtype)
        a, b = h.from_np(x, dtype), h.from_np(w, dtype)
        want, bound = reference(x, w, **full), reference(np.abs(x), np.abs(w), **full)
        close(mx.conv2d(a, b, **options), want, bound, dtype)
        dy = draw(rng, want.shape, dtype)
        _, got = mx.vjp(lambda x, w: mx.conv2d(x, w, **options), [a, b], [h.from_np(dy, dtype)])
        bounds = reference(np.abs(x), np.abs(w), np.abs(dy), **full)
        for g, v, m in zip(got, reference(x, w, dy, **full), bounds, strict=True):
            close(g, v, m, dtype)


# Channels and outputs that are multiples of eight, which warpgroups take where there are any (all
# of these with MLX_VK_WARPGROUP=all): odd sizes, sums and outputs of several tiles, groups, rows
# of outputs that are not evenly spaced.
SIXTEEN = [
    ((3, 137, 8), (24, 3, 8), {"stride": [2], "padding": ([1], [1])}),
    ((2, 65, 64), (72, 4, 64), {"kernel_dilation": [3], "padding": ([9], [0])}),
    ((3, 13, 11, 24), (72, 3, 3, 24), {"padding": ([1, 1], [1, 1])}),
    (
        (2, 15, 17, 40),
        (136, 3, 2, 40),
        {"stride": [2, 1], "kernel_dilation": [1, 2], "padding": ([2, 0], [1, 2])},
    ),
    ((1, 9, 8, 64), (64, 5, 5, 64), {"padding": ([2, 2], [2, 2]), "flip": True}),
    ((1, 6, 7, 200), (8, 3, 3, 200), {}),
    ((1, 5, 6, 7, 16), (40, 3, 2, 3, 16), {"padding": ([1, 0, 2], [1, 1, 0])}),
    ((2, 4, 5, 3, 24), (264, 2, 2, 2, 24), {"stride": [1, 2, 1]}),
    ((2, 10, 9, 48), (72, 3, 3, 16), {"groups": 3, "padding": ([1, 1], [1, 1])}),
    ((2, 9, 10, 16), (32, 3, 3, 16), {"input_dilation": [2, 2], "padding": ([1, 2], [2, 1])}),
    ((3, 20, 19, 16), (24, 1, 1, 16), {"stride": [2, 2]}),
    # Outputs that meet nothing; the input's gradient is of a kernel that starts inside.
    ((1, 2, 3, 8), (8, 5, 4, 8), {"padding": ([5, 5], [4, 4])}),
]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("xs", "ws", "options"), SIXTEEN)
def test_sixteen_bits_in_chunks(xs, ws, options, dtype, rng):
    x, w = draw(rng, xs, dtype), draw(rng, ws, dtype)
    a, b = h.from_np(x, dtype), h.from_np(w, dtype)
    want, bound = reference(x, w, **options), reference(np.abs(x), np.abs(w), **options)
    close(mx.conv_general(a, b, **options), want, bound, dtype)
    dy = draw(rng, want.shape, dtype)
    _, got = mx.vjp(lambda x, w: mx.conv_general(x, w, **options), [a, b], [h.from_np(dy, dtype)])
    bounds = reference(np.abs(x), np.abs(w), np.abs(dy), **options)
    for g, v, m in zip(got, reference(x, w, dy, **options), bounds, strict=True):
        close(g, v, m, dtype)


def test_sixteen_bits_of_views(rng):
    x, w = draw(rng, (2, 14, 15, 40), "float16"), draw(rng, (24, 3, 3, 16), "float16")
    a, b = h.from_np(x, "float16"), h.from_np(w, "float16")
    for view in [
        lambda x: x[..., 8:24],
        lambda x: x[..., 4:20],  # not aligned to 16 bytes
        lambda x: x[:, ::2, 1:, 16:32],
        lambda x: x[:, 2:, ::-1, :16],
        lambda x: x[1:, :, :, :32:2],
        lambda x: x[..., :16].swapaxes(1, 2),
    ]:
        want, bound = reference(view(x), w), reference(np.abs(view(x)), np.abs(w))
        close(mx.conv2d(view(a), b), want, bound, "float16")
        dy = draw(rng, want.shape, "float16")
        _, (_, got) = mx.vjp(mx.conv2d, [view(a), b], [h.from_np(dy, "float16")])
        _, dw = reference(view(x), w, dy)
        _, m = reference(np.abs(view(x)), np.abs(w), np.abs(dy))
        close(got, dw, m, "float16")


def winograd_kernels(f):
    """What `f` gives, and whether Winograd's kernels ran for it; on the CPU they need not."""
    mx.synchronize()
    mx.vulkan.stats(reset=True)
    out = f()
    mx.eval(out)
    ran = any("winograd" in k for k in mx.vulkan.stats()["kernels"])
    return out, ran or not h.on_gpu()


# Input, output channels, padding, and whether the kernel is mirrored: large enough for Winograd's
# algorithm; outputs that do not fill tiles, channels that are no multiple of four, as much padding
# as leaves no output without inputs.
LARGE = [
    ((2, 66, 69, 64), 64, ([1, 1], [1, 1]), False),
    ((3, 47, 50, 67), 66, ([0, 2], [1, 0]), False),
    ((1, 94, 96, 49), 64, ([2, 0], [2, 1]), True),
    ((35, 7, 11, 100), 129, ([0, 1], [1, 1]), False),
]


@pytest.mark.parametrize(("xs", "outputs", "padding", "flip"), LARGE)
def test_large_kernels_of_three_by_three(xs, outputs, padding, flip, rng):
    options = {"padding": padding, "flip": flip}
    x, w = draw(rng, xs), draw(rng, (outputs, 3, 3, xs[-1]))
    a, b = mx.array(x), mx.array(w)
    got, ran = winograd_kernels(lambda: mx.conv_general(a, b, **options))
    assert ran
    want, bound = reference(x, w, **options), reference(np.abs(x), np.abs(w), **options)
    close(got, want, bound, "float32")
    dy = draw(rng, want.shape)
    (dx, dw), ran = winograd_kernels(
        lambda: mx.vjp(lambda x, w: mx.conv_general(x, w, **options), [a, b], [mx.array(dy)])[1]
    )
    assert ran
    bounds = reference(np.abs(x), np.abs(w), np.abs(dy), **options)
    for g, v, m in zip((dx, dw), reference(x, w, dy, **options), bounds, strict=True):
        close(g, v, m, "float32")


def test_large_kernels_meet_any_strides(rng):
    x, w = draw(rng, (2, 52, 66, 130)), draw(rng, (68, 3, 3, 64))
    a, b = mx.array(x), mx.array(w)
    for view in [
        lambda x: x[:, :, :, 1:65],  # not aligned to 16 bytes
        lambda x: x[:, :, ::-1, 64:128],
        lambda x: x[:, 1:, 1:, 2::2],  # channels that are not neighbours
        lambda x: x[:, 1:, :, 4:68],
        lambda x: x[:, :, :, :64].swapaxes(1, 2),
    ]:
        for turned in [lambda w: w, lambda w: w[::-1, :, ::-1]]:
            got, ran = winograd_kernels(
                lambda view=view, turned=turned: mx.conv2d(view(a), turned(b), padding=1)
            )
            assert ran
            sides = ([1, 1], [1, 1])
            want = reference(view(x), turned(w), padding=sides)
            bound = reference(np.abs(view(x)), np.abs(turned(w)), padding=sides)
            close(got, want, bound, "float32")


def test_large_transposed_kernels(rng):
    # Each quarter of the outputs is a convolution with a part of three by three of the kernel.
    x, w = draw(rng, (2, 37, 38, 100)), draw(rng, (96, 6, 6, 100))
    got, ran = winograd_kernels(
        lambda: mx.conv_transpose2d(mx.array(x), mx.array(w), stride=2, padding=1)
    )
    assert ran
    options = {"input_dilation": [2, 2], "padding": ([4, 4], [4, 4]), "flip": True}
    want, bound = reference(x, w, **options), reference(np.abs(x), np.abs(w), **options)
    close(got, want, bound, "float32")


def test_outputs_that_meet_no_input_are_zero(rng):
    x, w = mx.array(draw(rng, (1, 92, 92, 64))), mx.array(draw(rng, (64, 3, 3, 64)))
    y = np.array(mx.conv_general(x, w, padding=([3, 0], [0, 5])))
    assert not y[:, 0].any() and not y[:, :, -3:].any()


def test_large_kernels_in_parts(rng, monkeypatch):
    monkeypatch.setenv("MLX_VK_CONV_SCRATCH", "1")
    x, w = draw(rng, (3, 57, 62, 64)), draw(rng, (64, 3, 3, 64))
    a, b = mx.array(x), mx.array(w)
    # Less than no padding crops.
    got, ran = winograd_kernels(lambda: mx.conv_general(a, b, padding=([-2, 1], [-1, -3])))
    assert ran
    x, options = x[:, 2:-1, :-3], {"padding": ([0, 1], [0, 0])}
    want, bound = reference(x, w, **options), reference(np.abs(x), np.abs(w), **options)
    close(got, want, bound, "float32")
    if h.on_gpu():
        mx.vulkan.stats(reset=True)
        mx.eval(mx.conv2d(a, b))
        hits = mx.vulkan.stats()["kernels"]
        assert max(v for k, v in hits.items() if "winograd" in k) > 2


@pytest.mark.validation
def test_any_strides(rng):
    x, w = draw(rng, (2, 5, 6, 4)), draw(rng, (6, 2, 3, 4))
    want, bound = reference(x, w), reference(np.abs(x), np.abs(w))
    for (_, a), (_, b) in itertools.product(h.layouts(x, "float32"), h.layouts(w, "float32")):
        close(mx.conv2d(a, b), want, bound, "float32")
    every = mx.broadcast_to(mx.array(x[:1, :1]), x.shape)
    same = np.broadcast_to(x[:1, :1], x.shape)
    close(mx.conv2d(every, mx.array(w)), reference(same, w), bound * 9, "float32")


@pytest.mark.parametrize("n", [1, 2, 3])
def test_transposed_is_the_gradient(n, rng):
    conv = [mx.conv1d, mx.conv2d, mx.conv3d][n - 1]
    transposed = [mx.conv_transpose1d, mx.conv_transpose2d, mx.conv_transpose3d][n - 1]
    for groups, stride, padding, dilation in [
        (1, 1, 0, 1),
        (2, 2, 1, 1),
        (1, 3, 1, 2),
        (3, 2, 0, 2),
    ]:
        size = 7
        y = draw(rng, (2, *[size] * n, 2 * groups))
        w = draw(rng, (4 * groups, *[3] * n, 2))
        got = transposed(mx.array(y), mx.array(w), stride, padding, dilation, groups=groups)
        long = (size - 1) * stride - 2 * padding + dilation * 2 + 1
        assert got.shape == (2, *[long] * n, 4 * groups)
        # The kernel that convolves has its channels the other way round, group by group.
        turned = np.swapaxes(w.reshape(groups, 4, *w.shape[1:]), 1, -1).reshape(
            -1, *w.shape[1:-1], 4
        )
        kernel = mx.array(turned)
        _, want = mx.vjp(
            lambda x, t=kernel, o=(stride, padding, dilation, groups): conv(x, t, *o),
            [mx.zeros(got.shape)],
            [mx.array(y)],
        )
        np.testing.assert_allclose(np.array(got), np.array(want[0]), rtol=1e-5, atol=1e-5)


def test_output_padding_lengthens_the_end(rng):
    y, w = mx.array(draw(rng, (1, 4, 5, 3))), mx.array(draw(rng, (2, 3, 3, 3)))
    short = mx.conv_transpose2d(y, w, stride=3, padding=1)
    long = mx.conv_transpose2d(y, w, stride=3, padding=1, output_padding=(1, 2))
    assert long.shape == (1, short.shape[1] + 1, short.shape[2] + 2, 2)
    np.testing.assert_allclose(
        np.array(long)[:, : short.shape[1], : short.shape[2]], np.array(short), rtol=1e-6, atol=1e-6
    )
    assert mx.conv_transpose1d(mx.ones((1, 5, 2)), mx.ones((3, 4, 2)), 2, 1, 1, 1).shape == (
        1,
        11,
        3,
    )


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolve(mode, rng):
    for n, m in [(1, 1), (5, 3), (3, 5), (8, 4), (4, 8), (7, 7), (100, 9), (2, 1)]:
        a, v = draw(rng, n), draw(rng, m)
        want = np.convolve(a.astype(np.float64), v.astype(np.float64), mode)
        np.testing.assert_allclose(
            np.array(mx.convolve(mx.array(a), mx.array(v), mode)), want, atol=1e-5
        )


def test_padding_forms(rng):
    x, w = draw(rng, (1, 6, 7, 2)), draw(rng, (3, 2, 3, 2))
    a, b = mx.array(x), mx.array(w)
    for padding, sides in [
        (1, ([1, 1], [1, 1])),
        ([1, 2], ([1, 2], [1, 2])),
        ((1, 2), ([1, 2], [1, 2])),
        ([2], ([2, 2], [2, 2])),
        ([], ([0, 0], [0, 0])),
        (([1, 2], [0, 3]), ([1, 2], [0, 3])),
        ([[1], [0, 3]], ([1, 1], [0, 3])),
    ]:
        want = reference(x, w, padding=sides)
        np.testing.assert_allclose(
            np.array(mx.conv_general(a, b, padding=padding)), want, rtol=1e-5, atol=1e-5
        )


def test_negative_padding_crops(rng):
    x, w = draw(rng, (1, 9, 10, 2)), draw(rng, (3, 2, 3, 2))
    got = mx.conv_general(mx.array(x), mx.array(w), padding=([-2, 1], [-1, -3]))
    want = reference(x[:, 2:-1, :-3], w, padding=([0, 1], [0, 0]))
    np.testing.assert_allclose(np.array(got), want, rtol=1e-5, atol=1e-5)
    # Elements are dropped before they are dilated.
    line = mx.arange(1, 7, dtype=mx.float32).reshape(1, 6, 1)
    got = mx.conv_general(line, mx.ones((1, 2, 1)), input_dilation=3, padding=-1)
    assert got.reshape(-1).tolist() == [2, 0, 3, 3, 0, 4, 4, 0, 5]
    with pytest.raises(ValueError, match=r"\[conv\] Spatial dimensions of input after padding"):
        mx.conv_general(mx.ones((1, 5, 2)), mx.ones((3, 2, 2)), padding=-2)


def test_promotion():
    kinds = [mx.float16, mx.bfloat16, mx.float32]
    for s, t in itertools.product(kinds, kinds):
        got = mx.conv1d(mx.ones((1, 5, 2), s), mx.ones((3, 2, 2), t))
        assert got.dtype == mx.result_type(s, t)
    assert mx.conv1d(mx.ones((1, 5, 2)), mx.ones((3, 2, 2), mx.int32)).dtype == mx.float32
    with mx.stream(mx.cpu):
        wide = mx.conv1d(mx.ones((1, 5, 2), mx.float64), mx.ones((3, 2, 2), mx.float16))
    assert wide.dtype == mx.float64


@pytest.mark.validation
def test_nothing_to_do():
    conv = mx.conv2d
    assert conv(mx.ones((0, 5, 5, 2)), mx.ones((3, 2, 2, 2))).shape == (0, 4, 4, 3)
    assert conv(mx.ones((1, 5, 5, 2)), mx.ones((0, 2, 2, 2))).shape == (1, 4, 4, 0)
    np.testing.assert_array_equal(
        np.array(conv(mx.ones((1, 5, 5, 0)), mx.ones((3, 2, 2, 0)))), np.zeros((1, 4, 4, 3))
    )
    np.testing.assert_array_equal(
        np.array(conv(mx.ones((1, 0, 5, 2)), mx.ones((3, 2, 2, 2)), padding=2)),
        np.zeros((1, 3, 8, 3)),
    )
    # No kernel element: nothing is summed.
    assert not np.array(conv(mx.ones((1, 5, 5, 2)), mx.ones((3, 0, 2, 2)))).any()
    gradient = mx.grad(lambda w: conv(mx.ones((0, 5, 5, 2)), w).sum())(mx.ones((3, 2, 2, 2)))
    np.testing.assert_array_equal(np.array(gradient), np.zeros((3, 2, 2, 2)))
    # Farther apart than the kernel is long: most outputs meet no element.
    sparse = mx.conv_general(mx.ones((1, 3, 1)), mx.ones((1, 2, 1)), input_dilation=4)
    assert sparse.reshape(-1).tolist() == [1, 0, 0, 1, 1, 0, 0, 1]


def numeric(f, x, eps=0.25):
    """Central differences of a scalar function; exact for what is at most quadratic in x."""
    g = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += eps
        down[i] -= eps
        g[i] = (f(mx.array(up)).item() - f(mx.array(down)).item()) / (2 * eps)
    return g


@pytest.mark.parametrize(
    "options",
    [
        {"stride": 2, "padding": 1},
        {"groups": 2, "input_dilation": 2, "flip": True},
        {"groups": 4, "padding": ([0], [2]), "kernel_dilation": 2},
    ],
)
def test_finite_differences(options, rng):
    groups = options.get("groups", 1)
    x, w = draw(rng, (2, 6, 4)), draw(rng, (4, 3, 4 // groups))
    a, b = mx.array(x), mx.array(w)
    f = lambda x, w: (mx.conv_general(x, w, **options) ** 2).sum()  # noqa: E731
    dx, dw = mx.grad(f, argnums=(0, 1))(a, b)
    tolerance = {"rtol": 1e-3, "atol": 2e-2}
    np.testing.assert_allclose(np.array(dx), numeric(lambda x: f(x, b), x), **tolerance)
    np.testing.assert_allclose(np.array(dw), numeric(lambda w: f(a, w), w), **tolerance)
    # Second order, through both gradients.
    g = lambda x, w: (mx.grad(f)(x, w) ** 2).sum() + (mx.grad(f, 1)(x, w) * w).sum()  # noqa: E731
    small = 0.3 * b
    np.testing.assert_allclose(
        np.array(mx.grad(g)(a, small)), numeric(lambda x: g(x, small), x), **tolerance
    )
    np.testing.assert_allclose(
        np.array(mx.grad(g, 1)(a, small)),
        numeric(lambda w: g(a, w), np.array(small), 1 / 64),
        rtol=2e-2,
        atol=5e-1,
    )


def test_tangents(rng):
    xs, ws, options = draw_case(rng, 2)
    x, w, dx, dw = (mx.array(draw(rng, s)) for s in (xs, ws, xs, ws))
    f = lambda x, w: mx.conv_general(x, w, **options)  # noqa: E731
    _, (got,) = mx.jvp(f, [x, w], [dx, dw])
    want = f(dx, w) + f(x, dw)
    np.testing.assert_allclose(np.array(got), np.array(want), rtol=1e-4, atol=1e-4)
    # The tangent of a gradient of the kernel.
    cot = mx.array(draw(rng, want.shape))
    g = lambda x, c: mx.vjp(lambda w: f(x, w), [w], [c])[1][0]  # noqa: E731
    _, (got,) = mx.jvp(g, [x, cot], [dx, cot])
    np.testing.assert_allclose(
        np.array(got), np.array(g(dx, cot) + g(x, cot)), rtol=1e-4, atol=1e-3
    )


def test_vmap(rng):
    for options in [{"padding": 1}, {"groups": 2, "stride": 2, "flip": True}]:
        inputs = 4 // options.get("groups", 1)
        x, w = mx.array(draw(rng, (3, 2, 7, 4))), mx.array(draw(rng, (3, 6, 3, inputs)))
        conv = lambda x, w, o=options: mx.conv_general(x, w, **o)  # noqa: E731
        gradient = lambda x, w, f=conv: mx.grad(lambda w: (f(x, w) ** 2).sum())(w)  # noqa: E731
        for f, (i, j) in itertools.product([conv, gradient], [(0, 0), (0, None), (None, 0)]):
            a, b = x if i == 0 else x[0], w if j == 0 else w[0]
            got = mx.vmap(f, in_axes=(i, j))(a, b)
            want = mx.stack([f(x[k if i == 0 else 0], w[k if j == 0 else 0]) for k in range(3)])
            np.testing.assert_allclose(np.array(got), np.array(want), rtol=1e-4, atol=1e-4)
        got = mx.vmap(conv, in_axes=(2, 3), out_axes=1)(mx.moveaxis(x, 0, 2), mx.moveaxis(w, 0, 3))
        want = mx.stack([conv(x[k], w[k]) for k in range(3)], axis=1)
        np.testing.assert_allclose(np.array(got), np.array(want), rtol=1e-4, atol=1e-4)


BAD = [
    (
        lambda: mx.conv1d(mx.ones((2, 3)), mx.ones((3, 2, 3))),
        "Only works for inputs with 1-3 spatial",
    ),
    (lambda: mx.conv1d(mx.ones(()), mx.ones((3, 2, 3))), "Only works for inputs with 1-3 spatial"),
    (
        lambda: mx.conv_general(mx.ones((1,) * 6), mx.ones((1,) * 6)),
        "Only works for inputs with 1-3",
    ),
    (
        lambda: mx.conv2d(mx.ones((1, 5, 5, 2)), mx.ones((3, 2, 2))),
        "Invalid weight array with 3 dimensions for 2D convolution",
    ),
    (lambda: mx.conv2d(mx.ones((1, 5, 2)), mx.ones((3, 2, 2))), r"Invalid strides \(1,1\) for 1D"),
    (
        lambda: mx.conv_transpose2d(mx.ones((1, 5, 2)), mx.ones((3, 2, 2))),
        r"Invalid strides \(1,1\) for 1D",
    ),
    (
        lambda: mx.conv2d(mx.ones((1, 5, 5, 2)), mx.ones((3, 2, 2, 3))),
        "Expect the input channels in the input and weight array to match",
    ),
    (
        lambda: mx.conv1d(mx.ones((1, 5, 4)), mx.ones((4, 2, 4)), groups=2),
        "expected to have 8 input",
    ),
    (lambda: mx.conv1d(mx.ones((1, 5, 3)), mx.ones((4, 2, 1)), groups=2), "must be divisible by"),
    (
        lambda: mx.conv1d(mx.ones((1, 5, 4)), mx.ones((3, 2, 2)), groups=2),
        "output channels must be",
    ),
    (lambda: mx.conv1d(mx.ones((1, 5, 4)), mx.ones((3, 2, 4)), groups=0), "number of groups"),
    (lambda: mx.conv1d(mx.ones((1, 5, 4)), mx.ones((3, 2, 4)), groups=-1), "number of groups"),
    (
        lambda: mx.conv1d(mx.ones((1, 5, 2)), mx.ones((3, 2, 2)), stride=0),
        "Stride sizes must be positive",
    ),
    (
        lambda: mx.conv1d(mx.ones((1, 5, 2)), mx.ones((3, 2, 2)), dilation=-1),
        "Kernel dilation sizes must be positive",
    ),
    (
        lambda: mx.conv_general(mx.ones((1, 5, 2)), mx.ones((3, 2, 2)), input_dilation=0),
        "Input dilation sizes must be positive",
    ),
    (
        lambda: mx.conv1d(mx.ones((1, 5, 2)), mx.ones((3, 6, 2))),
        "Spatial dimensions of input after",
    ),
    (
        lambda: mx.conv_general(mx.ones((1, 5, 5, 2)), mx.ones((3, 2, 2, 2)), padding=[1, 1, 1]),
        r"Invalid padding \(1,1,1\) \| \(1,1,1\) for 2D",
    ),
    (
        lambda: mx.conv_general(mx.ones((1, 5, 2)), mx.ones((3, 2, 2)), kernel_dilation=[1, 1]),
        "Invalid kernel dilation",
    ),
    (
        lambda: mx.conv_general(mx.ones((1, 5, 2)), mx.ones((3, 2, 2)), input_dilation=[1, 1]),
        "Invalid input dilation",
    ),
    (
        lambda: mx.conv1d(mx.ones((1, 5, 2), mx.int32), mx.ones((3, 2, 2))),
        "Invalid input array with type",
    ),
    (
        lambda: mx.conv1d(mx.ones((1, 5, 2), mx.complex64), mx.ones((3, 2, 2))),
        "Invalid input array with type complex64",
    ),
    (
        lambda: mx.conv1d(mx.ones((1, 5, 2)), mx.ones((3, 2, 2), mx.complex64)),
        "Invalid weight array",
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_values(call, message):
    with pytest.raises(ValueError, match=message):
        call()
    h.works()


def test_bad_types():
    x, w = mx.ones((1, 5, 5, 2)), mx.ones((3, 2, 2, 2))
    for call in [
        lambda: mx.conv2d(x, w, stride=(1, 1, 1)),
        lambda: mx.conv2d(x, w, stride=(1,)),
        lambda: mx.conv2d(x, w, stride=1.5),
        lambda: mx.conv2d(x, w, padding="same"),
        lambda: mx.conv2d(x, w, padding=2**31),
        lambda: mx.conv2d(x, None),
        lambda: mx.conv2d(np.ones((1, 5, 5, 2), np.float32), w),
        lambda: mx.conv2d(input=x, weight=w),
        lambda: mx.conv1d(x, w, stride=(1,)),
        lambda: mx.conv_general(x, w, padding=([1], [0], [1])),
        lambda: mx.conv_general(x, w, padding=(1, [2])),
        lambda: mx.conv_general(x, w, flip=None),
        lambda: mx.conv_transpose2d(x, w, (1, 2, 3)),
        lambda: mx.convolve([1.0, 2.0], mx.ones(2)),
        lambda: mx.convolve(mx.ones(2), mx.ones(2), None),
    ]:
        with pytest.raises(TypeError):
            call()


def test_bad_sequences():
    for a, v, message in [
        (mx.ones((2, 2)), mx.ones(2), "Inputs must be 1D"),
        (mx.ones(()), mx.ones(2), "Inputs must be 1D"),
        (mx.ones(0), mx.ones(2), "Inputs cannot be empty"),
        (mx.ones(3), mx.ones(0), "Inputs cannot be empty"),
    ]:
        with pytest.raises(ValueError, match=rf"\[convolve\] {message}"):
            mx.convolve(a, v)
    with pytest.raises(ValueError, match=r"\[convolve\] Invalid mode"):
        mx.convolve(mx.ones(3), mx.ones(2), "Full")
    with pytest.raises(ValueError, match=r"\[conv\] Invalid input array"):
        mx.convolve(mx.ones(3, mx.int32), mx.ones(2))


@pytest.mark.gpu
def test_both_devices_agree(rng):
    for n in (1, 2, 3):
        xs, ws, options = draw_case(rng, n)
        x, w = mx.array(draw(rng, xs)), mx.array(draw(rng, ws))
        on = [mx.conv_general(x, w, **options, stream=d) for d in (mx.cpu, mx.gpu)]
        np.testing.assert_allclose(np.array(on[0]), np.array(on[1]), rtol=1e-4, atol=1e-4)
    wide = mx.ones((1, 5, 2), mx.float64, stream=mx.cpu)
    with pytest.raises(ValueError, match="float64 is not supported"):
        mx.conv1d(wide, mx.ones((3, 2, 2)), stream=mx.gpu)
