"""Convolutions against loops in float64: shapes, strides, padding, dilation, groups, gradients, errors."""

import itertools

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

TOLERANCE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2, "float64": 1e-13}


def reference(
    x, w, stride, padding, kernel_dilation=None, input_dilation=None, groups=1, flip=False
):
    """The sum that defines a convolution, one kernel element at a time, in float64."""
    n = x.ndim - 2
    low, high = padding
    kernel_dilation = kernel_dilation or [1] * n
    input_dilation = input_dilation or [1] * n
    x, w = np.asarray(x, np.float64), np.asarray(w, np.float64)
    sizes = [
        (s - 1) * d + 1 if s else 0 for s, d in zip(x.shape[1:-1], input_dilation, strict=True)
    ]
    wide = np.zeros((x.shape[0], *map(sum, zip(sizes, low, high, strict=True)), x.shape[-1]))
    inside = tuple(slice(p, p + s, d) for p, s, d in zip(low, sizes, input_dilation, strict=True))
    wide[(slice(None), *inside)] = x
    if flip:
        w = np.flip(w, range(1, n + 1))
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[1:-1], kernel_dilation, strict=True)]
    out = [
        (s - r) // t + 1 for s, r, t in zip(wide.shape[1:-1], reach, stride, strict=True)
    ]
    y = np.zeros((x.shape[0], *out, w.shape[0]))
    inputs, outputs = x.shape[-1] // groups, w.shape[0] // groups
    for k in itertools.product(*map(range, w.shape[1:-1])):
        at = tuple(
            slice(i * d, i * d + (o - 1) * t + 1, t)
            for i, d, o, t in zip(k, kernel_dilation, out, stride, strict=True)
        )
        part = wide[(slice(None), *at)]
        for g in range(groups):
            into = slice(g * outputs, (g + 1) * outputs)
            y[..., into] += (
                part[..., g * inputs : (g + 1) * inputs] @ w[(into, *k)].T
            )
    return y


def close(got, want, bound, dtype):
    assert got.shape == want.shape
    assert h.name_of(got.dtype) == dtype
    error = np.abs(h.to_np(got).astype(np.float64) - want)
    # Half of the smallest subnormal number of float16 is lost without any rounding in the sums.
    error = np.maximum(error - 6e-8 * (dtype == "float16"), 0)
    worst = (error / (bound + 1e-30)).max() if error.size else 0
    assert worst <= TOLERANCE[dtype], f"{worst:.2e} of the sum of magnitudes"


def draw_case(rng, n, small):
    """A random geometry of n spatial axes whose output is not empty."""
    most = {1: 23, 2: 11, 3: 6}[n] if not small else {1: 11, 2: 6, 3: 4}[n]
    groups = int(rng.choice([1, 1, 2, 3]))
    channels = int(rng.choice([1, 3, 4, 8, 33 if groups == 1 else 5]))
    outputs = int(rng.choice([1, 2, 5, 8, 33 if groups == 1 else 3]))
    while True:
        size = [int(rng.integers(1, most + 1)) for _ in range(n)]
        kernel = [int(rng.integers(1, 5)) for _ in range(n)]
        options = {
            "stride": [int(rng.integers(1, 4)) for _ in range(n)],
            "padding": (
                [int(rng.integers(0, 4)) for _ in range(n)],
                [int(rng.integers(0, 4)) for _ in range(n)],
            ),
            "kernel_dilation": [int(rng.choice([1, 1, 2, 3])) for _ in range(n)],
            "input_dilation": [int(rng.choice([1, 1, 2, 3])) for _ in range(n)],
            "groups": groups,
            "flip": bool(rng.integers(2)),
        }
        low, high = options["padding"]
        padded = [
            (s - 1) * d + 1 + a + b
            for s, d, a, b in zip(size, options["input_dilation"], low, high, strict=True)
        ]
        reach = [
            (k - 1) * d + 1 for k, d in zip(kernel, options["kernel_dilation"], strict=True)
        ]
        if all(p >= r for p, r in zip(padded, reach, strict=True)):
            break
    batch = int(rng.choice([1, 2, 3]))
    x = (batch, *size, channels * groups)
    w = (outputs * groups, *kernel, channels)
    return x, w, options


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_random_geometries(n, dtype, rng):
    if dtype not in h.session_dtypes():
        dtype = "float32"
    for _ in range(12 if h.on_gpu() else 60):
        xs, ws, options = draw_case(rng, n, h.on_gpu())
        x, w = (h.quantise(rng.normal(size=s), dtype) for s in (xs, ws))
        got = mx.conv_general(h.from_np(x, dtype), h.from_np(w, dtype), **options)
        want = reference(x, w, **options)
        bound = reference(np.abs(x), np.abs(w), **options)
        print(xs, ws, options)
        close(got, want, bound, dtype)
