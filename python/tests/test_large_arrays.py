"""Arrays beyond 4 GiB and beyond 2^31 elements through each family of kernels.

Results are those of the same operation on parts, or known in closed form. Every device does it with
arrays of 5 MiB, a GPU once more with allocations of at most 1 MiB, so that such arrays are bound in
pieces, and one with room for a dozen of them with arrays of 5 GiB.
"""

import gc
import os
import subprocess
import sys

import helpers as h
import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

GIB = 1 << 30
#: Device memory from which on a test of 5 GiB has room for its operands, results and scratch.
ROOM = 64 * GIB
#: Allocations of so many bytes make arrays of 5 MiB large ones.
PIECE = 1 << 20


class Size:
    """How large arrays are: `full` ones pass 2^32 bytes, and 2^31 elements of two bytes."""

    def __init__(self, full):
        self.full = full
        self.bytes = 5 * GIB if full else 5 << 20
        self.cols = 1 << (20 if full else 10)

    def pick(self, small, full):
        return full if self.full else small

    def rows(self, dtype, cols=None):
        return self.bytes // (dtype.size * (cols or self.cols))

    def numbers(self, dtype, cols=None):
        """Whole numbers from -125 to 125 (from 0 to 250 without a sign), no row like the next."""
        cols = cols or self.cols
        x = numbers(mx.arange(self.rows(dtype, cols))[:, None], mx.arange(cols)[None, :], dtype)
        mx.eval(x)
        return x

    def small(self, shape, dtype):
        """Whole numbers from -2 to 2: products of them over 64 are exact in every dtype."""
        n = int(np.prod(shape))
        return ((mx.arange(n) * 7 // 3) % 5 - 2).astype(dtype).reshape(shape)


def numbers(r, c, dtype):
    unsigned = dtype in (mx.uint8, mx.uint16, mx.uint32)
    made = mx.compile(
        lambda r, c: ((r * 31 + c * 17) % 251 - (0 if unsigned else 125)).astype(dtype)
    )
    return made(r, c)


def has_room():
    return h.on_gpu() and mx.device_info().get("memory_size", 0) >= ROOM


def pytest_generate_tests(metafunc):
    if "size" in metafunc.fixturenames:
        sizes = [Size(False)] + ([Size(True)] if has_room() else [])
        metafunc.parametrize("size", sizes, ids=["small", "full"][: len(sizes)])


@pytest.fixture(autouse=True)
def emptied():
    yield
    gc.collect()
    mx.synchronize()
    mx.clear_cache()


def parts(n, of=8):
    step = -(-n // of)
    return [(i, min(i + step, n)) for i in range(0, n, step)]


def cut(x, axis, i, j):
    return x[(slice(None),) * axis + (slice(i, j),)]


def same(y, op, *xs, axis=0, exact=True):
    """Asserts that `y` is `op(*xs)`, which is computed part by part along an axis of all."""
    for i, j in parts(y.shape[axis]):
        want, got = op(*(cut(x, axis, i, j) for x in xs)), cut(y, axis, i, j)
        assert want.dtype == y.dtype
        if exact:
            equal = mx.array_equal(got, want)
        else:
            equal = mx.allclose(got, want, rtol=2e-2, atol=1e-2)
        assert equal.item(), f"elements {i} to {j} of axis {axis}"


def places(n):
    """The first and last rows, and those around powers of two."""
    near = {p + d for p in (1 << k for k in range(n.bit_length())) for d in (-1, 0, 1)}
    return sorted(i for i in near | {0, n - 1} if 0 <= i < n)


DTYPES = [mx.uint8, mx.bfloat16, mx.float32, mx.int64]


@pytest.mark.validation
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_broadcast_program(size, dtype):
    x = size.numbers(dtype)
    rows = places(x.shape[0])
    r, c = np.array(rows)[:, None], np.arange(x.shape[1])[None, :]
    want = (r * 31 + c * 17) % 251 - (0 if dtype == mx.uint8 else 125)
    got = mx.concatenate([x[i : i + 1] for i in rows]).astype(mx.int32)
    assert np.array_equal(np.array(got), want)


@pytest.mark.validation
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_elementwise(size, dtype):
    x = size.numbers(dtype)
    same(x + x, lambda x: x + x, x)
    row = mx.arange(x.shape[1]).astype(dtype)
    same(x * row, lambda x: x * row, x)
    same(mx.where(x > 3, x, -row), lambda x: mx.where(x > 3, x, -row), x)
    same(mx.abs(x)[:, ::-1] + 1, lambda x: mx.abs(x)[:, ::-1] + 1, x)


def test_casts(size):
    x = size.numbers(mx.bfloat16)
    same(x.astype(mx.int8), lambda x: x.astype(mx.int8), x)
    same(x.astype(mx.float32), lambda x: x.astype(mx.float32), x)


def test_fused_programs(size):
    f = mx.compile(lambda x, y: mx.maximum(x * 2 + y, 3) - x)
    x = size.numbers(mx.bfloat16)
    y = mx.arange(x.shape[0]).astype(mx.bfloat16)[:, None] % 7
    same(f(x, y), f, x, mx.broadcast_to(y, (x.shape[0], 1)))


@pytest.mark.validation
@pytest.mark.parametrize("dtype", [mx.uint8, mx.bfloat16, mx.float32], ids=str)
def test_copies_of_views(size, dtype):
    x = size.numbers(dtype)
    t = mx.contiguous(x.T)
    for i, j in parts(x.shape[0]):
        assert mx.array_equal(t[:, i:j], mx.contiguous(x[i:j].T)).item()
    del t
    same(mx.contiguous(x[:, ::2]), lambda x: mx.contiguous(x[:, ::2]), x)
    back = mx.contiguous(x[::-1])
    for i, j in parts(x.shape[0]):
        assert mx.array_equal(back[x.shape[0] - j : x.shape[0] - i][::-1], x[i:j]).item()
    del back
    three = x.reshape(-1, 16, x.shape[1] // 16)
    same(mx.contiguous(three.swapaxes(1, 2)), lambda x: mx.contiguous(x.swapaxes(1, 2)), three)


def test_a_little_of_much(size):
    """A view that spans all of a large array is one copy, not one for each column."""
    x = size.numbers(mx.bfloat16).reshape(32, -1, 512)
    last, stats = h.kernels(lambda: mx.contiguous(x[:, -1, :])) if h.on_gpu() else (x[:, -1, :], {})
    assert sum(stats.values()) <= 8
    assert mx.array_equal(last, mx.stack([x[i, -1] for i in range(32)])).item()


def test_constants_and_ranges(size):
    shape = (size.rows(mx.uint8), size.cols)
    for x, value in [(mx.full(shape, 3, mx.uint8), 3), (mx.zeros(shape, mx.uint8), 0)]:
        assert (mx.min(x).item(), mx.max(x).item()) == (value, value)
    n = size.pick(5 << 17, (1 << 31) - 1)
    x = mx.arange(n)
    same(x, lambda x: x, x)
    at = [0, n // 3, n // 2, n - 2, n - 1]
    assert [x[i].item() for i in at] == at


@pytest.mark.validation
@pytest.mark.parametrize("dtype", [mx.uint8, mx.bfloat16, mx.float32], ids=str)
def test_reductions(size, dtype):
    x = size.numbers(dtype)
    for op in mx.max, mx.argmin, mx.any:
        same(op(x, axis=1), lambda x, op=op: op(x, axis=1), x)
    down = mx.max(x, axis=0)
    best = mx.argmax(x, axis=0)
    assert mx.array_equal(down, mx.take_along_axis(x, best[None], 0)[0]).item()
    assert mx.array_equal(
        down, mx.max(mx.stack([mx.max(x[i:j], axis=0) for i, j in parts(x.shape[0])]), axis=0)
    )
    assert mx.allclose(
        mx.sum(x, axis=0).astype(mx.float32),
        sum(mx.sum(x[i:j], axis=0).astype(mx.float32) for i, j in parts(x.shape[0])),
        rtol=2e-2,
        atol=70,
    ).item()
    if dtype == mx.uint8:
        part = [mx.sum(x[i:j]).item() for i, j in parts(x.shape[0], 32)]
        assert mx.sum(x).item() % 2**32 == sum(part) % 2**32
        assert (mx.min(x).item(), mx.max(x).item()) == (0, 250)


def test_rows(size):
    x = size.numbers(mx.bfloat16, cols=8192 if size.full else 512) / 32
    w = mx.arange(x.shape[1]).astype(mx.bfloat16) % 3
    for op in (
        lambda x: mx.softmax(x, axis=-1),
        lambda x: mx.logsumexp(x, axis=-1),
        lambda x: mx.fast.rms_norm(x, w, 1e-5),
        lambda x: mx.fast.layer_norm(x, w, None, 1e-5),
        lambda x: mx.var(x, axis=-1),
        lambda x: nn.softmax(x * 2 + 1, axis=-1),
    ):
        same(op(x), op, x, exact=False)


def test_long_rows(size):
    x = size.numbers(mx.bfloat16) / 32
    for op in (lambda x: mx.softmax(x, axis=-1), lambda x: mx.logsumexp(x, axis=-1)):
        same(op(x), op, x, exact=False)


def test_scans(size):
    x = size.numbers(mx.int32)
    same(mx.cumsum(x, axis=1), lambda x: mx.cumsum(x, axis=1), x)
    down = mx.cumsum(x, axis=0)
    before = mx.zeros((x.shape[1],), mx.int32)
    for i, j in parts(x.shape[0]):
        assert mx.array_equal(down[i:j], mx.cumsum(x[i:j], axis=0) + before).item()
        before = down[j - 1]


def test_sorts(size):
    x = size.numbers(mx.bfloat16, cols=4096)
    same(mx.sort(x, axis=-1), lambda x: mx.sort(x, axis=-1), x)
    same(mx.argsort(x, axis=-1), lambda x: mx.argsort(x, axis=-1), x)
    same(mx.topk(x, 4, axis=-1), lambda x: mx.topk(x, 4, axis=-1), x)


def test_gathers(size):
    x = size.numbers(mx.bfloat16)
    n = x.shape[0]
    order = (mx.arange(n) * 7 + 3) % n if n % 7 else mx.arange(n)[::-1]
    y = mx.take(x, order, axis=0)
    for i, j in parts(n):
        assert mx.array_equal(y[i:j], x[order[i:j]]).item()
    some = places(n)
    assert mx.array_equal(
        y[mx.array(some)], mx.concatenate([x[order[i].item()][None] for i in some])
    ).item()
    del y
    across = (mx.arange(x.shape[1]) * 5 + 1) % x.shape[1]
    same(mx.take(x, across, axis=1), lambda x: mx.take(x, across, axis=1), x)
    index = mx.broadcast_to(across.astype(mx.uint32), x.shape)
    same(
        mx.take_along_axis(x, index, 1),
        lambda x: mx.take_along_axis(x, mx.broadcast_to(across.astype(mx.uint32), x.shape), 1),
        x,
    )


def test_updates(size):
    x = size.numbers(mx.bfloat16)
    n, rows = x.shape[0], mx.array(places(x.shape[0])[1:])
    hit = mx.zeros((n,), mx.bool_)
    hit[rows] = True

    def check(y, op):
        for i, j in parts(n):
            want = mx.where(hit[i:j][:, None], op(x[i:j]), x[i:j])
            assert mx.array_equal(y[i:j], want).item(), (i, j)

    check(x.at[rows].add(1), lambda x: x + 1)
    y = mx.array(x)
    y[rows] = mx.array(5, mx.bfloat16)
    check(y, lambda x: mx.full(x.shape, 5, mx.bfloat16))
    y = mx.array(x)
    y[n // 2 :, 3:] = mx.array(4, mx.bfloat16)
    assert mx.all(y[n // 2 :, 3:] == 4).item()
    assert mx.array_equal(y[: n // 2], x[: n // 2]).item()
    assert mx.array_equal(y[:, :3], x[:, :3]).item()


def test_joins(size):
    x = size.numbers(mx.bfloat16)
    third = x.shape[0] // 3
    y = mx.concatenate([x[:third], x[third:]])
    same(y, lambda x: x, x)
    half = x.shape[1] // 2
    y = mx.concatenate([x[:, half:], x[:, :half]], axis=1)
    same(y, lambda x: mx.concatenate([x[:, half:], x[:, :half]], axis=1), x)


def test_random(size):
    shape = (size.rows(mx.float32), size.cols)
    x = mx.random.uniform(shape=shape, key=mx.random.key(3))
    n = shape[0]
    for i, j in parts(n):
        mean = mx.mean(x[i:j]).item()
        assert abs(mean - 0.5) < size.pick(0.02, 1e-4), (i, j, mean)
        assert not mx.array_equal(x[i], x[(i + n // 2) % n]).item()
    assert 0 <= mx.min(x).item() and mx.max(x).item() < 1
    # The words of a key are those of its counters, whatever follows.
    if not size.full:
        host = mx.random.uniform(shape=shape, key=mx.random.key(3), stream=mx.cpu)
        assert mx.array_equal(x, host).item()


@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float32], ids=str)
def test_products_with_large_results(size, dtype):
    m, n = (16384, size.bytes // (16384 * dtype.size)) if size.full else (512, 10240 // dtype.size)
    a, b = size.small((m, 64), dtype), size.small((64, n), dtype)
    same(a @ b, lambda a: a @ b, a)
    bias = mx.arange(n).astype(dtype) % 3
    same(mx.addmm(bias, a, b), lambda a: mx.addmm(bias, a, b), a)
    batch = size.pick(4, 40)
    a, b = a[: m // 4].reshape(1, -1, 64), size.small((batch, 64, n * 4 // batch), dtype)
    same(a @ b, lambda b: a @ b, b)


def test_products_of_large_operands(size):
    k = 64
    x = size.numbers(mx.bfloat16, cols=k) % 3
    b = size.small((k, 8), mx.bfloat16)
    same(x @ b, lambda x: x @ b, x)
    y = mx.swapaxes(b, 0, 1) @ x.T
    for i, j in parts(x.shape[0]):
        assert mx.array_equal(y[:, i:j], b.T @ x[i:j].T).item()
    v = size.small((k,), mx.bfloat16)
    same(x @ v, lambda x: x @ v, x)


def test_products_along_large_axes(size):
    """As the gradient of a classifier's weights: rows of the logits lie far apart along K."""
    rows, classes = size.pick((512, 5120), (16384, 163840))
    x = size.numbers(mx.bfloat16, cols=classes) % 3
    hit = places(rows)
    z = mx.zeros((rows, 8), mx.bfloat16)
    z[mx.array(hit)] = 1
    want = mx.broadcast_to(sum(x[i] for i in hit)[:, None], (classes, 8))
    assert mx.array_equal(x.T @ z, want).item()
    assert mx.array_equal(z.T @ x, want.T).item()
    assert mx.array_equal(mx.maximum(x.T @ z, 30), mx.maximum(want, 30)).item()
    c = mx.arange(8).astype(mx.bfloat16)
    assert mx.array_equal(mx.addmm(c, x.T, z, alpha=1.0, beta=2.0), want + 2 * c).item()


def test_quantized_products(size):
    m, n = size.pick((512, 5120), (16384, 163840))
    # Groups that have 0 and 15 are held exactly.
    x, w = size.small((m, 64), mx.bfloat16), (mx.arange(n * 64) * 7 % 16).reshape(n, 64)
    q = mx.quantize(w.astype(mx.bfloat16), group_size=64, bits=4)

    def op(x):
        return mx.quantized_matmul(x, *q, transpose=True, group_size=64, bits=4)

    same(op(x), op, x)
    w = size.numbers(mx.bfloat16, cols=1024)
    q = mx.quantize(w, group_size=64, bits=8)
    back = mx.dequantize(*q, group_size=64, bits=8)
    same(back, lambda *q: mx.dequantize(*q, group_size=64, bits=8), *q)
    assert mx.allclose(back[-5:], w[-5:], atol=1).item()


def test_attention_and_rope(size):
    b, heads, length, d = size.pick((20, 4, 256, 128), (640, 32, 1024, 128))
    x = size.numbers(mx.bfloat16, cols=d).reshape(b, heads, length, d) / 64

    def attend(x):
        return mx.fast.scaled_dot_product_attention(x, x, x, scale=0.1, mask="causal")

    def turn(x):
        return mx.fast.rope(x, d, traditional=False, base=1e4, scale=1.0, offset=0)

    same(attend(x), attend, x, exact=False)
    same(turn(x), turn, x, exact=False)


def test_convolutions(size):
    n = size.pick(10, 10240)
    x = (size.numbers(mx.bfloat16, cols=64) % 5).reshape(n, 64, 64, 64)
    w = size.small((64, 3, 3, 64), mx.bfloat16)
    same(mx.conv2d(x, w, padding=1), lambda x: mx.conv2d(x, w, padding=1), x, exact=False)
    deep = size.small((64, 3, 3, 1), mx.bfloat16)
    same(
        mx.conv2d(x, deep, padding=1, groups=64),
        lambda x: mx.conv2d(x, deep, padding=1, groups=64),
        x,
        exact=False,
    )


def test_transforms(size):
    x = size.numbers(mx.float32, cols=2048)
    same(mx.abs(mx.fft.rfft(x, axis=-1)), lambda x: mx.abs(mx.fft.rfft(x, axis=-1)), x, exact=False)
    same(mx.hadamard_transform(x), mx.hadamard_transform, x, exact=False)


def test_cross_entropy(size):
    rows, classes = size.pick((512, 5120), (16384, 163840))
    x = size.numbers(mx.bfloat16, cols=classes)[:rows] / 16
    y = (mx.arange(rows) * 37) % classes

    def loss(x, y):
        return nn.losses.cross_entropy(x, y)

    def slope(x, y):
        return mx.grad(lambda x: loss(x, y).astype(mx.float32).sum())(x)

    same(loss(x, y), loss, x, y, exact=False)
    same(slope(x, y), slope, x, y, exact=False)


@pytest.mark.validation
def test_there_and_back(size):
    n = size.rows(mx.uint8) * size.cols
    here = (
        (np.arange(n // 8, dtype=np.uint64) * 0x9E3779B97F4A7C15)
        .view(np.uint8)
        .reshape(-1, size.cols)
    )
    x = mx.array(here)
    assert np.array_equal(np.array(x[-1]), here[-1])
    y = mx.bitwise_invert(x)
    assert np.array_equal(~np.asarray(y), here)


@pytest.mark.gpu
def test_memory_is_counted(size):
    mx.synchronize()
    before = mx.get_active_memory()
    x = mx.zeros((size.rows(mx.float32), size.cols), mx.float32)
    mx.eval(x)
    assert size.bytes <= mx.get_active_memory() - before <= size.bytes * 5 // 4
    del x
    mx.synchronize()
    assert mx.get_active_memory() - before < size.bytes // 4
    assert mx.get_cache_memory() >= size.bytes
    mx.clear_cache()
    assert mx.get_cache_memory() < size.bytes // 4


def lowered(tmp_path, *lines):
    """The environment of a device whose allocations have at most `PIECE` bytes."""
    path = tmp_path / "lowered.profile"
    path.write_text("\n".join([f"max_buffer = {PIECE}", *lines]) + "\n")
    return {"MLX_VK_PROFILE": str(path)}


@pytest.mark.gpu
@pytest.mark.validation
def test_arrays_in_pieces(tmp_path):
    """The tests above in pieces of 1 MiB; without sparse buffers such arrays are refused."""
    if not mx.vulkan.describe()["features"]["sparse_binding"]:
        return refused(lowered(tmp_path))
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--device", "gpu"]
        + [__file__, "-k", "small and not pieces"],
        env={**os.environ, **lowered(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]


@pytest.mark.gpu
@pytest.mark.validation
def test_arrays_without_pieces_are_refused(tmp_path):
    refused(lowered(tmp_path, "hide = sparse_binding"))


def refused(env):
    h.python(
        f"""
        import mlx.core as mx
        mx.set_default_device(mx.gpu)
        limits = mx.vulkan.describe()["limits"]
        assert limits["max_buffer"] == limits["max_allocation"] == {PIECE}, limits
        before = mx.get_active_memory()
        try:
            mx.eval(mx.ones(({2 * PIECE},), mx.uint8))
        except Exception as e:
            told = str(e)
        assert "[vulkan]" in told and "{PIECE} bytes in one array" in told, told
        assert mx.get_active_memory() == before
        assert mx.sum(mx.ones((1000,))).item() == 1000
        """,
        env=env,
    )


@pytest.mark.gpu
@pytest.mark.validation
def test_pieces_are_counted_cached_and_freed(tmp_path):
    if not mx.vulkan.describe()["features"]["sparse_binding"]:
        return refused(lowered(tmp_path))
    h.python(
        f"""
        import mlx.core as mx, numpy as np
        mx.set_default_device(mx.gpu)
        mx.eval(mx.zeros((10,)) + 1)
        used = mx.get_active_memory()
        n = 7 * {PIECE} + 4096 + 8
        def step(k):
            x = (mx.arange(n) + k).astype(mx.uint8)
            mx.eval(x)
            grown = mx.get_active_memory() - used
            assert n <= grown <= n + (3 << 20), grown
            assert np.array_equal(np.array(x), ((np.arange(n) + k) % 256).astype(np.uint8))
        step(0)
        assert mx.get_active_memory() - used < 1 << 20 and mx.get_cache_memory() >= n
        step(1)
        kept = mx.get_cache_memory()
        step(2)
        step(3)
        assert mx.get_cache_memory() <= kept
        mx.clear_cache()
        assert mx.get_cache_memory() < 1 << 20
        step(4)
        """,
        env=lowered(tmp_path),
    )
