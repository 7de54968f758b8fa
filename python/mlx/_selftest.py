"""Self-test of `python -m mlx.info --selftest`: a short check of each kind of kernel on a device.

Results are held against NumPy's in float64; bandwidth is that of adding two arrays.
"""

import re
import time

import numpy as np

import mlx.core as mx

__all__ = ["selftest"]


def _random(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape, dtype=np.float32)


def _array(x, dtype):
    return mx.array(x).astype(dtype)


def _numpy(x):
    return np.array(x.astype(mx.float32)).astype(np.float64)


def _matmul(dtype, m, n, k):
    def case():
        a, b = _array(_random(m, k), dtype), _array(_random(k, n, seed=1), dtype)
        return a @ b, _numpy(a) @ _numpy(b), np.sqrt(k)

    return case


def _quantized(rows, dtype=mx.float32, n=128, k=256):
    def case():
        x, w = _array(_random(rows, k), dtype), _array(_random(n, k, seed=1), dtype)
        codes, scales, biases = mx.quantize(w, group_size=64, bits=4)
        exact = [a.astype(mx.float32) for a in (scales, biases)]
        dense = _numpy(mx.dequantize(codes, *exact, group_size=64, bits=4))
        got = mx.quantized_matmul(x, codes, scales, biases, group_size=64, bits=4)
        return got, _numpy(x) @ dense.T, 16

    return case


def _attention(queries, dtype):
    def case():
        q = _array(_random(1, 4, queries, 64), dtype)
        k = _array(_random(1, 2, 128, 64, seed=1), dtype)
        v = _array(_random(1, 2, 128, 64, seed=2), dtype)
        got = mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125)
        k64, v64 = (np.repeat(_numpy(x), 2, axis=1) for x in (k, v))
        scores = 0.125 * _numpy(q) @ k64.swapaxes(-1, -2)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return got, weights / weights.sum(-1, keepdims=True) @ v64, 1

    return case


def _attention_gradient():
    """With respect to the queries, of the sum of what they get."""
    q = _array(_random(1, 4, 64, 64), mx.float16)
    k = _array(_random(1, 2, 128, 64, seed=1), mx.float16)
    v = _array(_random(1, 2, 128, 64, seed=2), mx.float16)
    got = mx.grad(lambda q: mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125).sum())(q)
    k64, v64 = (np.repeat(_numpy(x), 2, axis=1) for x in (k, v))
    scores = 0.125 * _numpy(q) @ k64.swapaxes(-1, -2)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dp = v64.sum(-1)[:, :, None]
    return got, 0.125 * (p * (dp - (p * dp).sum(-1, keepdims=True))) @ k64, 1


def _conv():
    x, w = mx.array(_random(1, 12, 12, 8)), mx.array(_random(8, 3, 3, 8, seed=1))
    x64, w64 = _numpy(x), _numpy(w)
    want = sum(x64[:, i : i + 10, j : j + 10] @ w64[:, i, j].T for i in range(3) for j in range(3))
    return mx.conv2d(x, w), want, 9


def _elementwise():
    x = mx.array(_random(70_000))
    return mx.exp(x) * 0.5 + x, np.exp(_numpy(x)) * 0.5 + _numpy(x), 4


def _reduce():
    x = mx.array(_random(40, 3000))
    return mx.sum(x, axis=1), _numpy(x).sum(1), 50


def _softmax():
    x = mx.array(_random(33, 1000))
    e = np.exp(_numpy(x))
    return mx.softmax(x, axis=-1), e / e.sum(-1, keepdims=True), 1


def _sort():
    x = mx.array(_random(3000))
    return mx.sort(x), np.sort(_numpy(x)), 0


def _scan():
    x = mx.array(_random(5000))
    return mx.cumsum(x), np.cumsum(_numpy(x)), 100


def _fft():
    x = mx.array(_random(4, 240))
    return mx.abs(mx.fft.fft(x)), np.abs(np.fft.fft(_numpy(x))), 16


def _gather():
    x, i = mx.array(_random(500, 16)), mx.array(np.arange(0, 500, 3)[::-1].copy())
    return x[i], _numpy(x)[np.array(i)], 0


# Name, what counts as a hit (a part of a kernel's name), variants out of the choice, a function
# that gives result, expected values and the size of sums, and the error allowed next to one.
def _cases():
    half = ("float16", mx.float16, 1e-3), ("bfloat16", mx.bfloat16, 8e-3)
    yield "elementwise", "", (), _elementwise, 1e-6
    yield "reduction", "reduce", (), _reduce, 1e-6
    yield "softmax", "softmax", (), _softmax, 1e-6
    yield "scan", "scan", (), _scan, 1e-6
    yield "sort", "sort", (), _sort, 0.0
    yield "gather", "gather", (), _gather, 0.0
    yield "fft", "fft", (), _fft, 1e-6
    yield "convolution", "conv", (), _conv, 1e-6
    yield "gemv float32", "gemv", (), _matmul(mx.float32, 4, 96, 200), 1e-6
    yield "matmul_tiled float32", "matmul_tiled", (), _matmul(mx.float32, 96, 72, 200), 1e-6
    tiers = [("matmul_nv2", ()), ("matmul_khr", ("matmul_nv2",))]
    tiers.append(("matmul_tiled", ("matmul_nv2", "matmul_khr")))
    for tier, off in tiers:
        for name, dtype, unit in half:
            yield f"{tier} {name}", tier, off, _matmul(dtype, 96, 128, 192), unit
    yield "quantized rows", "qmm_rows", (), _quantized(2), 1e-6
    for name, dtype, unit in half:
        yield f"quantized rows, matrices {name}", "qmm_coop", (), _quantized(4, dtype), unit
        case = _quantized(1, dtype, 64, 4096)
        yield f"quantized row, matrices {name}", "qmm_row_", (), case, unit
    off = ("qmm_dequantize",)
    yield "quantized tiles", "qmm_tiled", off, _quantized(40), 1e-6
    yield "attention, few queries", "sdpa_vector", (), _attention(2, mx.float32), 1e-6
    off = ("sdpa_coop",)
    yield "attention, many queries", "sdpa_tile", off, _attention(64, mx.float32), 1e-6
    yield "attention, matrices", "sdpa_coop", (), _attention(64, mx.float16), 2e-3
    yield "attention, gradient", "sdpa_grad", (), _attention_gradient, 2e-3


def _check(hit, off, case, unit):
    """Status ("ok", "absent" or "FAILED") and what is behind it."""
    gpu = mx.default_device() != mx.Device(mx.cpu)
    before = mx.vulkan.stats().get("kernels", {})
    old = mx.vulkan._set_disabled(list(off))
    try:
        got, want, size = case()
        mx.eval(got)
    except (RuntimeError, ValueError) as e:
        return "FAILED", str(e).splitlines()[0]
    finally:
        mx.vulkan._set_disabled(old)
    after = mx.vulkan.stats().get("kernels", {})
    if gpu and hit:
        ran = [k for k, n in after.items() if n > before.get(k, 0)]
        if not any(hit in k for k in ran):
            return "absent", ""
    error = np.abs(_numpy(got) - want)
    bad = ~(error <= unit * (2 * np.abs(want) + 4 * size))
    if got.shape != want.shape or bad.any():
        return "FAILED", f"{bad.sum()} of {bad.size} values are off, by up to {error.max():.3g}"
    return "ok", f"error {error.max():.2g}"


def _bandwidth():
    """GB/s of adding two arrays, and of copies from and to the host where these are copied."""
    device = mx.default_device()
    gpu = device != mx.Device(mx.cpu)
    software = gpu and mx.device_info().get("kind") == "software"
    n = 1 << (25 if gpu and not software else 22)
    a, b = mx.ones(n), mx.ones(n)
    mx.eval(a, b, a + b)
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        mx.eval([a + b for _ in range(4)])
        best = min(best, time.perf_counter() - start)
    rates = {"add": 4 * 12 * n / best / 1e9}
    if not gpu or mx.vulkan.describe(device.index)["features"]["unified_memory"]:
        return rates
    host = np.ones(n, np.float32)
    start = time.perf_counter()
    c = mx.array(host)
    mx.eval(c + 1)
    rates["up"] = 4 * n / (time.perf_counter() - start) / 1e9
    c = a + 2
    mx.eval(c)
    start = time.perf_counter()
    memoryview(c)
    rates["down"] = 4 * n / (time.perf_counter() - start) / 1e9
    return rates


def selftest(device):
    """Checks one device: `checks` (name to status and detail), `bandwidth` in GB/s, `ok`."""
    old = mx.default_device()
    mx.set_default_device(device)
    try:
        gpu = device != mx.Device(mx.cpu)
        checks = {}
        for name, hit, off, case, unit in _cases():
            if gpu:
                checks[name] = _check(hit, off, case, unit)
            elif not off:
                checks[re.sub("_[a-z0-9]+ ", " ", name)] = _check(hit, off, case, unit)
        try:
            bandwidth = _bandwidth()
        except RuntimeError as e:
            checks["bandwidth"], bandwidth = ("FAILED", str(e)), {}
    finally:
        mx.set_default_device(old)
    ok = all(status != "FAILED" for status, _ in checks.values())
    return {"checks": checks, "bandwidth": bandwidth, "ok": ok}
