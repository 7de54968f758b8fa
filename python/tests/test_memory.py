"""Memory: exact statistics, limits, caches, donation and peaks."""

import gc
import pathlib
import subprocess
import sys

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

MIB = 1 << 20


@pytest.fixture(autouse=True)
def quiet():
    gc.collect()
    mx.synchronize()
    mx.clear_cache()
    yield
    gc.collect()
    mx.clear_cache()


def settle():
    gc.collect()
    mx.synchronize()
    return mx.get_active_memory()


def test_active_memory_follows_arrays():
    before = settle()
    a = mx.ones((MIB,), mx.float32)
    b = mx.full((MIB,), 2, mx.int8)
    assert mx.get_active_memory() - before < MIB
    mx.eval(a, b)
    grown = settle() - before
    assert 5 * MIB <= grown <= 5.5 * MIB
    del a
    assert MIB <= settle() - before <= 1.5 * MIB
    del b
    assert settle() - before < MIB / 4


def test_views_share_memory():
    a = mx.ones((MIB,))
    mx.eval(a)
    before = settle()
    views = [a[::2], mx.reshape(a, (1024, 1024)).T, mx.broadcast_to(a, (100, MIB)), a[5:]]
    mx.eval(views)
    assert settle() - before < MIB / 4


@pytest.mark.parametrize(
    ("part", "kept"),
    [
        ((slice(256, 512), slice(None)), MIB),
        ((slice(None), slice(0, 512)), 2 * MIB),
        # Little more than the part is no reason to copy.
        ((slice(0, 1023), slice(None)), 4 * MIB),
    ],
)
def test_a_contiguous_part_lets_go_of_the_rest(part, kept):
    before = settle()
    whole = mx.arange(MIB, dtype=mx.float32).reshape(1024, 1024)
    mx.eval(whole)
    got = mx.contiguous(whole[part])
    mx.eval(got)
    del whole
    assert abs(settle() - before - kept) < MIB / 4
    assert np.array_equal(np.array(got), np.arange(MIB).reshape(1024, 1024)[part])


def test_peak_and_reset():
    mx.reset_peak_memory()
    a = mx.ones((4 * MIB,), mx.int8)
    mx.eval(a)
    peak = mx.get_peak_memory()
    assert peak >= 4 * MIB
    del a
    settle()
    assert mx.get_peak_memory() == peak
    mx.reset_peak_memory()
    assert mx.get_peak_memory() < 4 * MIB


def test_the_cache_keeps_and_gives_back():
    a = mx.ones((8 * MIB,), mx.int8)
    mx.eval(a)
    del a
    settle()
    assert mx.get_cache_memory() >= 4 * MIB
    mx.clear_cache()
    assert mx.get_cache_memory() == 0


@pytest.mark.gpu
def test_the_driver_gets_memory_of_an_emptied_cache_later():
    """Not counted from the first, there for who asks again, gone after a while; the process ends
    meanwhile."""
    program = """
        import time
        import mlx.core as mx
        mx.set_default_device(mx.gpu)
        MIB = 1 << 20
        def make(n):
            a = [mx.ones((8 * MIB + 4096 * i,), mx.int8) for i in range(n)]
            mx.eval(a)
            return a
        a = make(3)
        total = mx.get_active_memory()
        assert total >= 24 * MIB
        del a
        mx.synchronize()
        assert mx.get_cache_memory() >= 24 * MIB
        for _ in range(3):
            mx.clear_cache()
            assert mx.get_cache_memory() == 0
            assert mx.get_active_memory() < MIB
            a = make(3)
            assert total <= mx.get_active_memory() <= total + 12 * MIB
            assert sum(int(x.sum()) for x in a) == sum(x.size for x in a)
            del a
            mx.synchronize()
            assert mx.get_cache_memory() >= 24 * MIB
        mx.clear_cache()
        time.sleep(0.5)
        assert mx.get_cache_memory() == 0
        a = make(5)
        assert [int(x[-1]) for x in a] == [1] * 5
        mx.set_memory_limit(mx.get_active_memory() + 9 * MIB)
        del a
        mx.clear_cache()
        a = make(2)
        assert int(a[1].sum()) == a[1].size
        del a
        mx.clear_cache()
        print("done")
    """
    assert h.python(program, env={"MLX_VK_CLEAR_MS": "150"}).stdout.strip() == "done"


def test_limits_return_the_old_value():
    old = mx.set_cache_limit(0)
    try:
        a = mx.ones((8 * MIB,), mx.int8)
        mx.eval(a)
        del a
        settle()
        assert mx.get_cache_memory() == 0
    finally:
        assert mx.set_cache_limit(old) == 0
    limit = mx.set_memory_limit(123456789)
    assert mx.get_memory_limit() == 123456789
    assert mx.set_memory_limit(limit) == 123456789
    wired = mx.set_wired_limit(0)
    mx.set_wired_limit(wired)


def test_elementwise_expressions_need_one_temporary():
    """((a + b) * c).sum(): the product reuses the sum's memory."""
    n = 4 * MIB
    a, b, c = (mx.full((n,), v) for v in (1.0, 2.0, 3.0))
    mx.eval(a, b, c)
    base = settle()
    mx.clear_cache()
    mx.reset_peak_memory()
    result = ((a + b) * c).sum()
    mx.eval(result)
    mx.synchronize()
    assert mx.get_peak_memory() - base <= 4 * n + MIB
    assert abs(result.item() / (9.0 * n) - 1) < 1e-5


def test_a_long_chain_runs_in_constant_memory():
    a = mx.ones((MIB,))
    mx.eval(a)
    base = settle()
    mx.reset_peak_memory()
    x = a
    for _ in range(50):
        x = mx.sin(x) + 1
    mx.eval(x)
    mx.synchronize()
    assert mx.get_peak_memory() - base <= 3 * 4 * MIB


@pytest.mark.parametrize("kind", ["custom_function", "checkpoint"])
def test_functions_with_rules_keep_no_memory(kind):
    """What they took and returned is free as soon as nobody computes with it, forward and back."""
    step = getattr(mx, kind)(lambda v: [mx.sin(v[0]) + 1])
    if kind == "custom_function":
        step.vjp(lambda primals, cotangents, outputs: [mx.cos(primals[0]) * cotangents[0]])

    def steps(x):
        for _ in range(50):
            (x,) = step([x])
        return x

    a = mx.ones((MIB,))
    mx.eval(a)
    base = settle()
    mx.reset_peak_memory()
    mx.eval(steps(a))
    mx.synchronize()
    assert mx.get_peak_memory() - base <= 4 * 4 * MIB
    base = settle()
    mx.reset_peak_memory()
    mx.eval(mx.grad(lambda x: steps(x).sum())(a))
    mx.synchronize()
    assert mx.get_peak_memory() - base <= (50 + 8) * 4 * MIB  # the argument of each step, once


def test_a_steady_loop_does_not_grow():
    w = mx.zeros((256, 256))
    x = mx.ones((64, 256))
    sizes = []
    for i in range(30):
        w = w + 0.01 * (x.T @ mx.tanh(x @ w + 1))
        mx.eval(w)
        if i >= 10:
            sizes.append(settle() + mx.get_cache_memory())
    assert max(sizes) - min(sizes) <= MIB


def test_gradients_free_what_they_no_longer_need():
    x = mx.ones((512, 512))
    mx.eval(x)
    base = settle()

    def loss(w):
        y = x
        for _ in range(4):
            y = mx.tanh(y @ w)
        return mx.mean(y)

    w = mx.full((512, 512), 1e-3)
    for _ in range(3):
        mx.eval(mx.value_and_grad(loss)(w))
    del w
    assert settle() - base < MIB


def test_numpy_copies_do_not_leak():
    base = settle()
    for _ in range(20):
        assert np.array(mx.ones((MIB,))).sum() == MIB
    assert settle() - base < MIB


def test_freed_memory_goes_back_to_the_system():
    """After clear_cache little is left of some hundred MB, whatever the size of the arrays."""
    code = """
    import mlx.core as mx
    def resident():
        return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20
    mx.set_default_device(mx.cpu)
    mx.eval([mx.full(1 << 17, float(i)) for i in range(100)])
    for elements in (1 << 14, 1 << 17, 1 << 19, 1 << 25):
        before = resident()
        many = [mx.full(elements, float(i)) for i in range((1 << 26) // elements)]
        mx.eval(many)
        assert resident() - before > 200
        del many
        mx.synchronize()
        mx.clear_cache()
        assert resident() - before < 60, (elements, before, resident())
    """
    h.python(code)


def test_the_memory_limit_holds():
    kept = mx.ones((4 * MIB,), mx.int8)
    mx.eval(kept)
    old = mx.set_memory_limit(settle() + 8 * MIB)
    try:
        with pytest.raises(RuntimeError, match="memory limit is"):
            mx.eval(mx.ones((16 * MIB,), mx.int8))
        for i in range(20):  # what is free counts as such
            x = mx.full((6 * MIB - i * 1000,), 1, mx.int8)
            mx.eval(x)
            del x
            mx.synchronize()
        with pytest.raises(RuntimeError, match="memory limit is"):
            mx.eval([mx.full((3 * MIB,), i, mx.int8) for i in range(3)])
        settle()
        assert (kept + 1).sum().item() == 8 * MIB
    finally:
        mx.set_memory_limit(old)
    assert mx.sum(mx.ones((16 * MIB,), mx.int8)).item() == 16 * MIB


@pytest.mark.parametrize(
    "loop", ["evaluations", "compiled", "gradients", "streams", "errors", "files"]
)
def test_memory_stays_flat(loop, request):
    """A hundredth of benches/endurance.py, which does a million evaluations."""
    path = pathlib.Path(__file__).resolve().parents[2] / "benches" / "endurance.py"
    device = request.config.getoption("--device")
    scale = "0.002" if device == "gpu" else "0.01"
    done = subprocess.run(
        [sys.executable, path, "--device", device, "--scale", scale, "--only", loop],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
