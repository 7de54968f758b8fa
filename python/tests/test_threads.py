"""Evaluation from many threads at once, on many streams; waiting stops nobody else."""

import gc
import pathlib
import threading
import time

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

THREADS = 16


def together(work, threads=THREADS):
    """Runs work(number) on threads that start at once; their exceptions come out here."""
    failures, gate = [], threading.Barrier(threads)

    def body(i):
        try:
            gate.wait(30)
            work(i)
        except BaseException as e:  # noqa: BLE001 - raised below
            failures.append(e)

    all_ = [threading.Thread(target=body, args=(i,), daemon=True) for i in range(threads)]
    for t in all_:
        t.start()
    for t in all_:
        t.join(120)
        assert not t.is_alive(), "a thread does not end"
    if failures:
        raise failures[0]


@pytest.fixture
def no_leak():
    """Memory in use afterwards is what it was before."""
    gc.collect()
    before = mx.get_active_memory()
    yield
    gc.collect()
    mx.synchronize()
    deadline = time.monotonic() + 5
    while mx.get_active_memory() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert mx.get_active_memory() <= before


def test_small_evaluations_on_four_streams(no_leak):
    device = mx.default_device()
    streams = [mx.new_stream(device) for _ in range(4)]
    rounds = 60 if h.on_gpu() else 1000
    shared = [mx.arange(64.0)]
    mx.eval(shared)

    def work(i):
        s = streams[i % 4]
        x = mx.full((64,), float(i), stream=s)
        for k in range(rounds):
            y = mx.add(mx.multiply(shared[0], float(k), stream=s), x, stream=s)
            mx.eval(y)
            if k % 50 == 0:
                np.testing.assert_array_equal(np.array(y), np.arange(64) * k + i)

    together(work)
    shared.clear()


def test_one_graph_evaluated_by_all(no_leak):
    """Threads that evaluate the same arrays at once compute them once and see the same values."""
    for _ in range(3 if h.on_gpu() else 20):
        x = mx.arange(256.0)
        nodes = [x]
        for _ in range(40):
            nodes.append(mx.sin(nodes[-1]) + nodes[-1])
        seen = [None] * THREADS

        def work(i, nodes=nodes, seen=seen):
            mx.eval(nodes[-1 - i % 7])
            seen[i] = np.array(nodes[-1])

        together(work)
        assert all(np.array_equal(s, seen[0]) for s in seen)


def test_streams_that_need_each_other(no_leak):
    """Arrays go from stream to stream, and cpu and gpu, while other threads do the same."""
    devices = [mx.cpu, mx.default_device()]
    streams = [mx.new_stream(d) for d in devices for _ in range(2)]

    def work(i):
        x = mx.full((100,), float(i))
        for k in range(10 if h.on_gpu() else 100):
            for j in range(4):
                x = mx.add(x, 1.0, stream=streams[(i + j + k) % 4])
            if k % 5 == 0:
                mx.async_eval(x)
        n = 4 * (10 if h.on_gpu() else 100)
        np.testing.assert_array_equal(np.array(x), np.full(100, float(i + n)))

    together(work, 8)


def test_transforms_on_threads():
    """Recording on one thread does not show on another one."""

    def loss(x, w):
        return mx.sum(mx.tanh(x @ w) ** 2)

    x, w = mx.random.normal((4, 5)), mx.random.normal((5, 3))
    mx.eval(x, w)
    fast = mx.compile(mx.value_and_grad(loss, 1))
    value, grad = mx.value_and_grad(loss, 1)(x, w)
    mx.eval(value, grad)
    value, grad = np.array(value), np.array(grad)
    each = mx.vmap(mx.grad(loss), (0, None))

    def work(i):
        for _ in range(3 if h.on_gpu() else 25):
            v, g = fast(x, w) if i % 2 else mx.value_and_grad(loss, 1)(x, w)
            np.testing.assert_allclose(np.array(v), value, 1e-5)
            np.testing.assert_allclose(np.array(g), grad, 1e-4, 1e-5)
            mx.eval(each(x[:, None], w))

    together(work, 8)


def test_the_interpreter_runs_while_a_thread_waits():
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    t = threading.Thread(target=tick)
    n = 256 if h.on_gpu() else 900
    x = mx.random.normal((n, n))
    mx.eval(x)
    t.start()
    try:
        for wait in ("eval", "item", "synchronize"):
            begin = time.monotonic()
            while time.monotonic() - begin < 0.15:
                y = x
                for _ in range(4):
                    y = mx.tanh(y @ x)
                y = mx.sum(y)
                if wait == "eval":
                    mx.eval(y)
                elif wait == "item":
                    y.item()
                else:
                    mx.async_eval(y)
                    mx.synchronize()
            end = time.monotonic()
            # A thread that holds the interpreter would leave a hole as long as a whole evaluation.
            assert sum(begin < at < end for at in ticks) >= 5, wait
    finally:
        done.set()
        t.join()


def test_python_callbacks_on_several_threads():
    """Rules written in Python run while other threads evaluate."""

    @mx.custom_function
    def f(x):
        return mx.sin(x)

    @f.vjp
    def f_vjp(primals, cotangents, outputs):
        mx.eval(primals)  # evaluation inside a transform
        return cotangents * mx.cos(primals)

    x = mx.arange(8.0)
    want = np.cos(np.arange(8.0))

    def work(i):
        for _ in range(2 if h.on_gpu() else 20):
            np.testing.assert_allclose(np.array(mx.grad(lambda x: f(x).sum())(x)), want, 1e-4, 1e-5)

    together(work, 8)


def test_thread_local_streams():
    s = mx.new_thread_local_stream(mx.default_device())
    assert s == s and s.device == mx.default_device()
    assert s != mx.new_thread_local_stream(mx.default_device())
    assert repr(s).startswith("ThreadLocalStream(Device(")
    streams = [None] * 4

    def work(i):
        mx.eval(mx.add(mx.ones(3), 1, stream=s))
        with mx.stream(s):
            streams[i] = mx.default_stream(mx.default_device())
            assert mx.sum(mx.ones(3)).item() == 3
        mx.synchronize(s)

    together(work, 4)
    assert len({str(t) for t in streams}) == 4


def test_thread_unsafe_streams():
    s = mx.new_thread_unsafe_stream(mx.default_device())
    together(lambda i: mx.eval(mx.add(mx.ones(3), i, stream=s)), 4)
    assert mx.sum(mx.ones(3), stream=s).item() == 3


@pytest.mark.parametrize("how", ["main", "daemon", "exception", "exit"])
def test_exit_with_work_in_flight(how):
    """The interpreter ends cleanly while streams still compute."""
    n, device = (256, "gpu") if h.on_gpu() else (700, "cpu")
    end = {
        "main": "",
        "daemon": "import threading, time\n"
        "def work():\n"
        "    while True: mx.eval(mx.sin(x) @ x)\n"
        "for _ in range(3): threading.Thread(target=work, daemon=True).start()\n"
        "time.sleep(0.1)\n",
        "exception": "raise SystemExit(0)\n",
        "exit": "import sys; sys.exit(0)\n",
    }[how]
    source = (
        f"import mlx.core as mx\n"
        f"mx.set_default_device(mx.{device})\n"
        f"x = mx.random.normal(({n}, {n}))\n"
        f"y = [x]\n"
        f"for _ in range(6): y.append(mx.tanh(y[-1] @ x))\n"
        f"mx.async_eval(y)\n"
        f"late = mx.sin(y[-1])\n" + end
    )
    done = h.python(source, timeout=90)
    assert done.returncode == 0
    assert not done.stderr.strip(), done.stderr


def test_objects_dropped_on_other_threads(no_leak):
    """Arrays whose last reference dies on a worker or another thread are freed."""

    def work(i):
        for _ in range(5 if h.on_gpu() else 100):
            x = mx.random.uniform(shape=(50,))
            for _ in range(10):
                x = x * 1.5 + 1
            mx.async_eval(x)

    together(work, 8)
    mx.synchronize()
    mx.random.seed(0)


@pytest.mark.gpu
def test_compiling_while_the_main_thread_waits_for_a_mixed_graph():
    """The main thread waits for the CPU within the walk of its graph, and looks for Ctrl-C; another
    thread has the interpreter and wants to walk a graph too."""
    done = threading.Event()

    def compile_again():
        while not done.is_set():
            number = mx.array(2.0, mx.float32) + 1  # a constant that compiling evaluates
            mx.eval(mx.compile(lambda x, n=number: x * n)(mx.ones(3)))

    t = threading.Thread(target=compile_again, daemon=True)
    t.start()
    try:
        with mx.stream(mx.cpu):
            x = mx.random.normal((700, 700))
            mx.eval(x)
        for _ in range(3):
            y = x
            for _ in range(12):
                y = mx.tanh(mx.matmul(y, x, stream=mx.cpu), stream=mx.cpu)
            assert np.isfinite(mx.add(y, 1.0, stream=mx.gpu).sum().item())
    finally:
        done.set()
        t.join(60)
    assert not t.is_alive()


def streams_in_use():
    """Threads of streams, by the names that the library gives them."""
    names = [p.read_text() for p in pathlib.Path("/proc/self/task").glob("*/comm")]
    return sum(n.startswith(("mlx-stream", "mlx-vulkan")) for n in names)


def test_streams_that_nobody_holds_are_freed():
    """Thousands of streams, used and dropped, do not add up; what they were given is done."""
    device = mx.default_device()

    def use(n):
        results = []
        for i in range(n):
            s = mx.new_stream(device)
            x = mx.full((10,), float(i), stream=s)
            y = mx.add(x, 1, stream=s)
            mx.async_eval(y)
            results.append((i, y))
            del s
            if len(results) == 50:
                for k, y in results:
                    assert y.tolist() == [k + 1] * 10
                results.clear()

    use(100)
    gc.collect()
    memory = resident()
    use(2000)
    gc.collect()
    deadline = time.time() + 20
    while streams_in_use() > 20 and time.time() < deadline:
        time.sleep(0.01)
    assert streams_in_use() <= 20
    assert resident() - memory < 20 << 20


def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_a_stream_without_handles_still_works():
    """Arrays remember the stream that shall compute them, also when nobody holds it any more."""
    s = mx.new_stream(mx.default_device())
    first = mx.add(mx.ones(3), 1, stream=s)
    f = mx.compile(lambda x: mx.exp(x) * 2)
    with mx.stream(s):
        zero = f(mx.zeros(3))
        inner = mx.default_stream(mx.default_device())
        assert inner == s
    later = [mx.multiply(first, i, stream=s) for i in range(5)]
    del s, inner
    gc.collect()
    for _ in range(3):
        assert first.tolist() == [2, 2, 2] and zero.tolist() == [2, 2, 2]
        assert [y.tolist()[0] for y in later] == [0, 2, 4, 6, 8]
        later = [y + 0 for y in later]


def test_default_streams_stay():
    device = mx.default_device()
    before = mx.default_stream(device)
    try:
        mx.set_default_stream(mx.new_stream(device))
        gc.collect()
        now = mx.default_stream(device)
        assert now != before and (mx.ones(3) + 1).tolist() == [2, 2, 2]
        mx.synchronize(now)
    finally:
        mx.set_default_stream(before)
    assert mx.default_stream(device) == before and (mx.ones(3) + 1).tolist() == [2, 2, 2]


def test_thread_local_streams_end_with_their_thread():
    local = mx.new_thread_local_stream(mx.default_device())

    def work(i):
        assert mx.add(mx.full(4, float(i)), 1, stream=local).tolist() == [i + 1] * 4

    for _ in range(10):
        together(work, 8)
    deadline = time.time() + 20
    while streams_in_use() > 20 and time.time() < deadline:
        time.sleep(0.01)
    assert streams_in_use() <= 20


def test_the_thread_that_imports_may_end():
    """And another one may have its number then, and whatever else is given to threads anew."""
    source = f"""
        import importlib
        import threading

        numbers = []

        def first():
            numbers.append(threading.get_ident())
            importlib.import_module("mlx.core")

        thread = threading.Thread(target=first)
        thread.start()
        thread.join()
        import mlx.core as mx

        device = mx.{"gpu" if h.on_gpu() else "cpu"}
        sums = []

        def work(k):
            numbers.append(threading.get_ident())
            with mx.stream(mx.new_stream(device)):
                y = mx.arange(300)
                for i in range(20):
                    y = y + i * k
                sums.append(mx.sum(y).item() == 300 * (149.5 + 190 * k))

        # On some systems one of the first few has the number of the first thread.
        for _ in range(10):
            threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
            [t.start() for t in threads]
            [t.join() for t in threads]
        assert sums == [True] * 40
    """
    h.python(source)
