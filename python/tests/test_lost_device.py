"""A lost GPU: what the host has lives on, the rest says so, the next use opens the GPU again."""

import os
import time

import helpers as h
import pytest
from fault_sweep import ENDLESS

pytestmark = pytest.mark.gpu

# As a device that shares memory with the host, and as one that does not.
MEMORY = pytest.mark.parametrize(
    "env",
    [{}, {"MLX_VK_UNIFIED": "0"}, {"MLX_VK_RECORDER": "1"}],
    ids=["unified", "apart", "recorder"],
)

BEGIN = """
import os
import mlx.core as mx
import numpy as np

mx.set_default_device(mx.gpu)
apart = (
    os.environ.get("MLX_VK_UNIFIED") == "0" or mx.device_info(mx.gpu)["kind"] == "discrete"
)
fault = mx.vulkan._fault


def raises(f, text="lost"):
    try:
        f()
    except RuntimeError as e:
        assert text in str(e), e
        return True
    return False


def lose(how="lost_submission@1"):
    '''Loses the device in an operation that has nothing to do with any other.'''
    fault(how)
    # A wait that is over before it begins asks the driver nothing.
    assert any(raises(lambda: mx.eval(mx.exp(mx.arange(90_000) / n))) for n in range(1, 200)), how
    assert fault("off")[1] == 1
"""


def run(code, env, timeout=280, **more):
    return h.python(BEGIN + code, env=env, timeout=timeout, **more)


def test_what_was_tuned_lives_on():
    run(
        """
mx.vulkan._tune_set(0, ["fill = 77"])
lose()
mx.eval(mx.ones(3) + 1)
assert mx.vulkan._tune_winners(0) == ["fill = 77"]
""",
        {},
    )


@MEMORY
@pytest.mark.parametrize("how", ["lost_submission@1", "lost_wait@1"])
def test_what_the_host_has_lives_on(how, env):
    code = f"""
    x = np.arange(60_000, dtype=np.float32)
    uploaded, on_cpu = mx.array(x), mx.add(mx.array(x), 1, stream=mx.cpu)
    made, read, scalar = uploaded * 2, uploaded * 3, mx.array(4.0)
    mx.eval(uploaded + on_cpu, made, read, scalar)
    seen = np.asarray(read)
    lazy, of_made = uploaded - 5, made + 1
    view = memoryview(made) if not apart else None
    lose({how!r})
    for _ in range(2):
        np.testing.assert_array_equal(np.array(uploaded), x)
        np.testing.assert_array_equal(np.array(on_cpu), x + 1)
        np.testing.assert_array_equal(np.array(read), x * 3)
        np.testing.assert_array_equal(np.array(lazy), x - 5)
        assert float(scalar * 2) == 8
        # Only the device had it, and where the host shares its memory, the host has it too.
        if apart:
            assert raises(lambda: made.tolist(), "[array] Its contents were lost with the")
            assert raises(lambda: mx.eval(of_made), "[array] Its contents were lost with the")
        else:
            np.testing.assert_array_equal(np.array(made), x * 2)
            np.testing.assert_array_equal(np.array(of_made), x * 2 + 1)
    # What is there is used, and overwritten, on the new device.
    for a in [uploaded, read] + ([] if apart else [made]):
        before = np.array(a)
        np.testing.assert_array_equal(np.array(a * 2 + a), before * 3)
        a[5:7] = 0
        before[5:7] = 0
        np.testing.assert_array_equal(np.array(a), before)
    np.testing.assert_array_equal(seen, x * 3)
    if view is not None:
        del made
        mx.clear_cache()
        np.testing.assert_array_equal(np.asarray(view), x * 2)
    """.replace("\n    ", "\n")
    run(code, env)


@MEMORY
def test_streams_functions_and_random_state_go_on(env):
    code = """
    stream = mx.new_stream(mx.gpu)
    x = mx.array(np.linspace(0, 1, 5000, dtype=np.float32))
    weight = mx.array(np.float32([2, 3]))

    @mx.compile
    def f(x):
        return mx.tanh(x) * weight[1] + weight[0]

    kernel = mx.fast.vulkan_kernel(
        name="triple", input_names=["x"], output_names=["z"],
        source="uint i = thread_position_in_grid.x; z[i] = x[i] * 3.0;")

    def work():
        mx.random.seed(3)
        with mx.stream(stream):
            a = f(x)
        (b,) = kernel(inputs=[x], output_shapes=[x.shape], output_dtypes=[mx.float32],
                      grid=(5000, 1, 1), threadgroup=(50, 1, 1))
        c = mx.random.normal((300,))
        d = mx.fft.rfft(x[:128])
        e = mx.random.uniform(shape=(9,), stream=stream)
        return [np.array(v) for v in (a, b, c, d, e)]

    want = work()
    np.testing.assert_allclose(want[0], np.tanh(x) * 3 + 2, rtol=1e-5)
    for how in ["lost_submission@1", "lost_wait@1", "lost_submission@1"]:
        lose(how)
        for got, w in zip(work(), want, strict=True):
            np.testing.assert_array_equal(got, w)
    # The state of a generator that was not seeded again goes on where it was.
    mx.random.seed(11)
    want = [mx.random.normal((4,)).tolist() for _ in range(2)]
    mx.random.seed(11)
    assert mx.random.normal((4,)).tolist() == want[0]
    lose()
    assert mx.random.normal((4,)).tolist() == want[1]
    assert mx.vulkan.stats()["dispatches"] > 0 and mx.vulkan.describe()["name"]
    """.replace("\n    ", "\n")
    run(code, env)


@MEMORY
@pytest.mark.parametrize("site", ["lost_submission", "lost_wait"])
def test_work_on_several_streams_fails_as_a_whole(site, env):
    code = f"""
    x = mx.array(np.arange(3000, dtype=np.float32))
    mx.eval(x * 1)
    for n in range(1, 5):
        streams = [mx.new_stream(mx.gpu) for _ in range(3)]
        done = []
        fault(f"{site}@{{n}}")
        told = 0
        try:
            for i in range(4):
                for s in streams:
                    y = x
                    for _ in range(60):
                        y = mx.add(mx.multiply(y, 0.5, stream=s), i, stream=s)
                    done.append((i, y))
                    mx.async_eval(y)
            mx.eval([y for _, y in done])
        except RuntimeError as e:
            assert "lost" in str(e), e
            told += 1
        fired = fault("off")[1]
        assert told == (fired > 0)
        assert fired or n > 1
        for i, y in done:
            want = np.arange(3000, dtype=np.float32)
            for _ in range(60):
                want = want * np.float32(0.5) + i
            try:
                np.testing.assert_allclose(np.array(y.tolist()), want, rtol=1e-6)
            except RuntimeError as e:
                assert "lost" in str(e), e
        # Whatever failed behind the caller was told or is told now, once.
        for s in [*streams, mx.default_stream(mx.gpu)]:
            try:
                mx.synchronize(s)
            except RuntimeError as e:
                assert "lost" in str(e), e
        assert mx.sum(x).item() == 2999 * 1500
        for s in streams:
            mx.synchronize(s)
    """.replace("\n    ", "\n")
    run(code, env)


@MEMORY
def test_a_profile_survives_a_lost_device(env):
    code = """
    with mx.vulkan.profile():
        lose()
        assert mx.sum(mx.arange(300) * 2).item() == 300 * 299
    with mx.vulkan.profile() as p:
        mx.eval(mx.exp(mx.ones(50)))
    assert p.commands
    try:
        with mx.vulkan.profile():
            fault("lost_wait@1")
            mx.eval(mx.exp(mx.ones(50)))
    except RuntimeError as e:
        assert "lost" in str(e)
    fault("off")
    with mx.vulkan.profile() as p:
        mx.eval(mx.exp(mx.ones(50)))
    assert p.commands
    """.replace("\n    ", "\n")
    run(code, env)


@MEMORY
@pytest.mark.parametrize(
    "site", ["lost_submission", "lost_wait", "wait", "submission", "recording"]
)
def test_the_process_ends_whatever_fails(site, env):
    code = f"""
    x = mx.ones((300, 300))
    mx.eval(x)
    s = mx.new_stream(mx.gpu)
    fault("{site}@1+")
    try:
        mx.async_eval(mx.sin(x) + 1, mx.matmul(x, x, stream=s))
    except RuntimeError:
        pass
    print("left")
    """.replace("\n    ", "\n")
    assert run(code, env, timeout=60, check=True).stdout == "left\n"


def test_a_device_may_be_lost_again_and_again():
    code = """
    x = mx.array(np.arange(400, dtype=np.float32))
    mx.eval(x + 1)
    lose()
    del_ = mx.get_active_memory()
    for i in range(12):
        lose(["lost_submission@1", "lost_wait@1"][i % 2])
        assert mx.sum(x * 2).item() == 400 * 399
    mx.clear_cache()
    assert mx.get_active_memory() <= del_ + (1 << 16) and mx.get_cache_memory() == 0
    """.replace("\n    ", "\n")
    run(code, {})


COUNTS = """
import gc
import time


def counts():
    '''Descriptors, threads and mappings of the process.'''
    with open("/proc/self/maps") as maps:
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), len(list(maps))


def back_to(want, bear):
    '''Waits until no more is there than was: what was lost is destroyed by threads of their own.'''
    end = time.monotonic() + 60
    while any(n > w + b for n, w, b in zip(counts(), want, bear, strict=True)):
        assert time.monotonic() < end, (counts(), want)
        time.sleep(0.02)


def piped():
    '''An array whose memory the host sees, on every kind of device.'''
    (z,) = mx.vulkan.pipeline(lambda x: x * 2, [np.arange(5000, dtype=np.float32)])
    return z
"""

PROC = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts of Linux")


@PROC
@MEMORY
def test_lost_devices_are_destroyed(env):
    code = """
    x = mx.array(np.arange(400, dtype=np.float32))
    f = mx.compile(lambda x: mx.tanh(x) * 2 - x)
    # One driver crashes at the 22nd device that is kept.
    for i in range(24):
        stream = mx.new_stream(mx.gpu)
        ahead = mx.exp(x, stream=stream)
        for _ in range(3):
            ahead = ahead * 0.5
            mx.async_eval(ahead)
        kept = [f(x), x @ x, mx.cumsum(x)]
        mx.eval(kept)
        lose(["lost_submission@1", "lost_wait@1"][i % 2])
        assert mx.sum(x * 2).item() == 400 * 399
        if i == 5:
            seen = counts()
    del ahead, kept
    # Each left a thread and twelve mappings on the software driver, 19 descriptors on a card.
    back_to(seen, (0, 0, 34))
    """.replace("\n    ", "\n")
    run(COUNTS + code, env)


@PROC
@pytest.mark.parametrize("env", [{}, {"MLX_VK_UNIFIED": "0"}], ids=["unified", "apart"])
def test_arrays_keep_their_lost_device_until_they_go(env):
    code = """
    x = np.arange(5000, dtype=np.float32)
    lost = []

    def round():
        held = []
        for _ in range(4):
            held.append(piped())
            lost.append(mx.sin(mx.array(x)) * mx.array(x))
            mx.eval(lost[-1])
            lose()
            mx.eval(mx.ones(9) * 2)
        if apart:
            assert all(raises(z.tolist, "[array] Its contents were lost with the") for z in lost)
        else:
            np.testing.assert_allclose(np.array(lost), [np.sin(x) * x] * 4, rtol=1e-4, atol=1e-3)
        view = np.asarray(held[0])
        for z in held:
            np.testing.assert_array_equal(np.array(z), x * 2)
        # One after the other, and last what NumPy sees.
        del held[::2], lost[::2], z
        np.testing.assert_array_equal(np.array(held), [x * 2] * 2)
        held.clear()
        lost.clear()
        np.testing.assert_array_equal(view, x * 2)

    round()
    mx.clear_cache()
    seen = counts()
    for _ in range(2):
        round()
        gc.collect()
        back_to(seen, (0, 0, 48))
    assert mx.sum(mx.arange(300) * 2).item() == 300 * 299
    """.replace("\n    ", "\n")
    run(COUNTS + code, env)


@pytest.mark.parametrize("env", [{}, {"MLX_VK_UNIFIED": "0"}], ids=["unified", "apart"])
def test_threads_work_on_through_losses(env):
    code = """
    import threading

    base = np.arange(3000, dtype=np.float32)
    over, wrong, rounds = threading.Event(), [], [0] * 4

    def work(n):
        while not over.is_set():
            try:
                with mx.stream(mx.new_stream(mx.gpu)):
                    x = mx.array(base)
                    y = mx.cumsum(x * (n + 1)) + x
                    z = mx.matmul(x.reshape(60, 50), x.reshape(50, 60))
                    mx.async_eval(y, z)
                    got = np.array(mx.stack([y, y - 1])[:, ::7])
                want = np.cumsum(base * (n + 1), dtype=np.float64) + base
                if not np.allclose(got, np.stack([want, want - 1])[:, ::7], rtol=1e-4):
                    wrong.append(n)
                rounds[n] += 1
            except RuntimeError as e:
                if "lost" not in str(e):
                    wrong.append(str(e))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    fired = 0
    for i in range(60):
        before, end = list(rounds), time.monotonic() + 60
        fault(["lost_submission@1", "lost_wait@1", "lost_submission@3"][i % 3])
        while rounds == before and not wrong:
            assert time.monotonic() < end
            time.sleep(0.001)
        fired += fault("off")[1]
    over.set()
    for t in threads:
        t.join(60)
        assert not t.is_alive()
    assert not wrong, wrong
    assert fired >= 20
    assert mx.sum(mx.arange(300) * 2).item() == 300 * 299
    """.replace("\n    ", "\n")
    run(COUNTS + code, env)


@pytest.mark.parametrize("env", [{}, {"MLX_VK_UNIFIED": "0"}], ids=["unified", "apart"])
def test_too_many_lost_devices_are_refused(env):
    code = """
    x, held = mx.array(np.arange(9.0)), []
    for _ in range(16):
        held.append(piped())
        lose()
    for _ in range(3):
        says = "was lost and is not opened again: 16 lost devices, as many as a process may keep"
        assert raises(lambda: mx.eval(x * 2), says)
        assert raises(lambda: mx.eval(x * 2), "[device] ")
    assert mx.add(x, 1, stream=mx.cpu).tolist() == list(range(1, 10))
    for z in held:
        np.testing.assert_array_equal(np.array(z), np.arange(5000) * 2)
    del held[3], z
    assert (x * 2).tolist() == list(range(0, 18, 2))
    held.append(piped())
    lose()
    assert raises(lambda: mx.eval(x * 2), "[device] ")
    held.clear()
    assert (x * 2).tolist() == list(range(0, 18, 2))
    """.replace("\n    ", "\n")
    run(COUNTS + code, env)


@pytest.mark.parametrize("env", [{}, {"MLX_VK_UNIFIED": "0"}], ids=["unified", "apart"])
def test_a_kernel_without_end_is_given_up(env):
    code = (
        ENDLESS
        + """
import sys
import time
start = time.monotonic()
assert raises(lambda: mx.eval(z), "no progress for 2 seconds, the limit of MLX_VK_TIMEOUT")
assert 1.5 < time.monotonic() - start < 60
assert raises(lambda: z.tolist(), "[array] Its contents were lost with the device")
assert patiently(lambda: mx.sum(other).item()) == 2100
assert patiently(lambda: mx.sum(mx.arange(300) * 2).item()) == 300 * 299
print("left")
sys.exit(7)
"""
    )
    start = time.monotonic()
    done = run(code, {"MLX_VK_TIMEOUT": "2", **env}, timeout=90, check=False)
    assert (done.returncode, done.stdout) == (7, "left\n"), done.stderr
    assert time.monotonic() - start < 60


def test_a_process_ends_behind_a_kernel_without_end():
    start = time.monotonic()
    done = run(ENDLESS + "mx.async_eval(z)\nprint('left')", {"MLX_VK_TIMEOUT": "2"}, timeout=90)
    assert done.stdout == "left\n" and time.monotonic() - start < 60


def test_long_work_that_goes_on_is_waited_for():
    # Many batches, together longer than the limit.
    short = ENDLESS.replace("10000000u", "1000u").replace(" S100" * 9, "")
    assert short != ENDLESS
    code = f"""{short}
import time
start, y = time.monotonic(), x
while time.monotonic() - start < 6:
    (w,) = kernel(inputs=[y], output_shapes=[(1024,)], output_dtypes=[mx.uint32],
                  grid=(1024, 1, 1), threadgroup=(1024, 1, 1))
    y = w[:4]
    mx.async_eval(y)
mx.eval(y)
assert mx.sum(other).item() == 2100
"""
    small = {"MLX_VK_MAX_OPS_PER_BUFFER": "2", "MLX_VK_DISABLE": "batch_keep"}
    run(code, {"MLX_VK_TIMEOUT": "3", **small}, timeout=90)
