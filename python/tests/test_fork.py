"""Processes that come from this one: forks, also while threads compute, and fresh interpreters.

A forked child computes on CPU streams; the GPU, and what threads of the parent were computing, are
refused at once with the reason. Children are killed by an alarm if they hang; where they do is told
before.
"""

import subprocess
import sys
import textwrap

import helpers as h
import pytest

PRELUDE = """
import faulthandler, glob, os, shutil, signal, subprocess, sys, threading, time, warnings
import mlx.core as mx
import numpy as np

# Python 3.12 warns of every fork of a process with threads.
warnings.simplefilter("ignore", DeprecationWarning)
mx.set_default_device(mx.{device})
gpu = mx.default_device().type == mx.gpu
faulthandler.register(signal.SIGALRM, chain=True)  # says where Python is, and ends the process
signal.alarm(100)

def ended(pid):
    '''The exit code of a child. Of one that hangs it is told what its threads wait for.'''
    told = time.monotonic() + 15
    while (end := os.waitpid(pid, os.WNOHANG))[0] == 0:
        if time.monotonic() > told:
            told = float("inf")
            for name in sorted(glob.glob(f"/proc/{{pid}}/task/*/*")):
                if name.rsplit("/", 1)[1] in ("comm", "wchan", "syscall"):
                    print(name, open(name).read().strip(), file=sys.stderr)
            if shutil.which("gdb"):
                command = ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt"]
                subprocess.run(command, stdout=2, stderr=subprocess.DEVNULL, timeout=60)
        time.sleep(0.002)
    return os.waitstatus_to_exitcode(end[1])

def in_child(f, leave=os._exit):
    '''Runs f in a forked child; fails unless that succeeds.'''
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        code = 1
        try:
            f()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        leave(code)
    code = ended(pid)
    assert code == 0, code

def refused(f, *words):
    try:
        f()
    except RuntimeError as e:
        assert any(word in str(e) for word in words), e
    else:
        raise SystemExit("was not refused")

def cpu_works():
    with mx.stream(mx.cpu):
        b = mx.ones((200, 200))
        assert mx.sum(b @ b).item() == 200**3
        assert mx.sum(mx.random.normal((10, 10), key=mx.random.key(1))).item() != 0
        assert abs(mx.fft.fft(mx.ones(64))[0].item() - 64) < 1e-4
        assert mx.sort(mx.arange(100000)[::-1])[7].item() == 7
        assert mx.linalg.inv(mx.eye(4), stream=mx.cpu)[1, 1].item() == 1
        assert mx.compile(lambda v: mx.exp(v) * 0 + 1)(b)[3, 3].item() == 1
        mx.synchronize(mx.cpu)
    s = mx.new_stream(mx.cpu)
    assert mx.add(1, 2, stream=s).item() == 3

def works():
    if gpu:
        begin = time.perf_counter()
        refused(lambda: mx.eval(mx.ones(3) + 1), "before fork")
        refused(lambda: mx.synchronize(), "before fork")
        refused(lambda: mx.ones(3).tolist(), "before fork")
        assert time.perf_counter() - begin < 10
    else:
        assert mx.sum(mx.arange(10) * 2).item() == 90
        mx.synchronize()
    cpu_works()
"""


def run(code, timeout=120, env=None):
    """Runs the code behind the prelude."""
    prelude = PRELUDE.format(device="gpu" if h.on_gpu() else "cpu")
    done = h.python(prelude + textwrap.dedent(code), timeout=timeout, env=env)
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("leave", ["os._exit", "sys.exit"])
def test_child_of_an_idle_process(leave):
    run(f"""
    a = mx.random.normal((100, 100)) @ mx.ones((100, 100))
    mx.eval(a)
    cpu_works()
    for _ in range(3):
        in_child(works, {leave})
    cpu_works()
    assert mx.sum(a * 0 + 1).item() == 10000
    """)


def test_child_before_anything_ran():
    """A process that has computed nothing yet; to choose a GPU opens it."""
    run("""
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        works()
        sys.exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    assert mx.sum(mx.ones(10) + 1).item() == 20
    cpu_works()
    """)


@pytest.mark.parametrize("leave", ["os._exit", "sys.exit"])
def test_child_of_a_busy_process(leave):
    """Other threads compute, allocate, make streams and walk graphs at the moment of the fork."""
    run(f"""
    stop = False
    def work(device, i):
        with mx.stream(mx.new_stream(device)):
            n = 0
            while not stop:
                n += 1
                x = mx.random.normal((50 + n % 7, 50))
                mx.eval(mx.fft.fft(mx.tanh(x @ x.T)).real, mx.compile(lambda v: mx.exp(v) + n)(x))
                with mx.stream(mx.new_stream(device)):
                    x.tolist()
    devices = [mx.cpu, mx.cpu, mx.default_device()]
    threads = [threading.Thread(target=work, args=(d, i)) for i, d in enumerate(devices)]
    for t in threads:
        t.start()
    try:
        for _ in range(20):
            time.sleep(0.02)
            in_child(works, {leave})
    finally:
        stop = True
        for t in threads:
            t.join()
    cpu_works()
    """)


@pytest.mark.gpu
def test_child_of_a_process_whose_walk_takes_long():
    """A thread that opens a device, or waits for a compiler, has what a child needs for seconds."""
    # A kernel kept from the last run would take no time, and the search would go on to longer ones.
    unkept = {
        "MLX_VK_CACHE_MB": "0",
        "MESA_SHADER_CACHE_DISABLE": "true",
        "__GL_SHADER_DISK_CACHE": "0",
    }
    code = """
    def slow(lines):
        source = "".join(f"v = v * {2 * i + 1}u + (v >> {i % 31});\\n" for i in range(lines))
        kernel = mx.fast.vulkan_kernel(name=f"slow{lines}", input_names=["x"], output_names=["z"],
                                       source="uint v = x[0];" + source + "z[0] = v;")
        one = {"grid": (1, 1, 1), "threadgroup": (1, 1, 1), "output_shapes": [(1,)]}
        return kernel(inputs=[mx.ones(4, mx.uint32)], output_dtypes=[mx.uint32], **one)[0]

    lines, took = 2000, 0
    while took < 2 and lines < 10**6:
        lines += lines // 2
        begin = time.perf_counter()
        mx.eval(slow(lines))
        took = time.perf_counter() - begin
    t = threading.Thread(target=lambda: mx.eval(slow(lines + 1)))
    t.start()
    time.sleep(0.5)
    in_child(works)
    t.join()
    cpu_works()
    """
    run(code, env=unkept)


def test_work_under_way_is_refused_in_the_child():
    """What a thread of the parent was computing will never be there for the child."""
    run("""
    x = mx.random.normal((300, 300)) * 0.05
    done = x + 1
    mx.eval(x, done)
    host = np.array(done)
    for _ in range(5):
        y = x
        for _ in range(10 if gpu else 300):
            y = mx.tanh(y @ x)
        z = y + 1
        mx.async_eval(y)

        def look():
            words = "before fork", "parent process"
            begin = time.perf_counter()
            refused(lambda: mx.eval(y), *words)
            refused(lambda: y.tolist(), *words)
            refused(lambda: np.array(y), *words)
            refused(lambda: mx.eval(z), *words)
            assert time.perf_counter() - begin < 10
            if not gpu:
                assert np.array_equal(np.array(done), host)
                assert np.isfinite(np.array(done * 2)).all()
            cpu_works()

        in_child(look)
    assert np.isfinite(np.array(z)).all()
    """)


def test_children_of_children_and_of_threads():
    run("""
    mx.eval(mx.ones(100) + 1)
    cpu_works()
    def deeper():
        works()
        in_child(works)
        works()
    in_child(deeper)
    failures = []
    def thread():
        try:
            in_child(works)
        except BaseException as e:
            failures.append(e)
    threads = [threading.Thread(target=thread) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures
    """)


def test_ctrl_c_in_the_child():
    """The thread that forked is the child's main thread, and hears signals."""
    run("""
    mx.eval(mx.ones(3))
    cpu_works()
    def child():
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        with mx.stream(mx.cpu):
            x = mx.random.normal((500, 500), key=mx.random.key(0)) * 0.03
            y = x
            for _ in range(30_000):
                y = mx.tanh(y @ x)
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            try:
                mx.eval(y)
            except KeyboardInterrupt:
                return
        raise SystemExit("was not interrupted")
    in_child(child)
    """)


def test_a_child_leaves_the_parent_alone():
    """Children end in every way while the parent computes; its results stay right."""
    run("""
    x = mx.full((100, 100), 0.01)
    mx.eval(x)
    y = x
    for i in range(12):
        y = mx.tanh(y @ x) + 0.5
        mx.async_eval(y)
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            del y  # arrays die in the child
            if i % 3 == 0:
                sys.exit(5)
            if i % 3 == 1:
                os._exit(5)
            os.kill(os.getpid(), signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code == (-9 if i % 3 == 2 else 5), code
    want = np.full((100, 100), 0.01, np.float32)
    x = want.copy()
    for _ in range(12):
        want = np.tanh(want @ x) + np.float32(0.5)
    np.testing.assert_allclose(np.array(y), want, rtol=1e-5)
    """)


POOL = """
import multiprocessing as mp, os, pickle, signal, sys
import mlx.core as mx
import numpy as np

device = os.environ["MLX_TEST_DEVICE"]

def work(a):
    with mx.stream(mx.cpu if METHOD == "fork" else getattr(mx, device)):
        return mx.sum(a * 2), (a + 1).astype(mx.bfloat16)

if __name__ == "__main__":
    METHOD_SET
    signal.alarm(100)
    mx.set_default_device(getattr(mx, device))
    x = mx.random.normal((100, 100))
    mx.eval(x @ x)
    with mx.stream(mx.cpu):
        arrays = [mx.full((10, 10), float(i)) for i in range(6)]
        mx.eval(arrays)
    with mp.get_context(METHOD).Pool(2) as pool:
        for i, (total, plus) in enumerate(pool.map(work, arrays)):
            assert total.item() == 200 * i, (total, i)
            assert plus.dtype == mx.bfloat16 and plus.shape == (10, 10)
            assert mx.all(plus == i + 1).item()
    assert mx.isfinite(mx.sum(x @ x)).item()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools(method, tmp_path):
    """Arrays go to the processes of a pool and come back, however those were started."""
    file = tmp_path / "pool.py"
    file.write_text(POOL.replace("METHOD_SET", "").replace("METHOD", repr(method)))
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_programs_started_while_busy():
    """Subprocesses (vfork and exec, with and without code in between) start beside running work."""
    run("""
    import subprocess
    x = mx.random.normal((100, 100)) * 0.1
    y = x
    for i in range(12):
        y = mx.tanh(y @ x)
        mx.async_eval(y)
        extra = [{}, {"preexec_fn": os.getpid}, {"close_fds": False}][i % 3]
        command = [sys.executable, "-S", "-c", f"raise SystemExit({i})"]
        assert subprocess.run(command, timeout=60, **extra).returncode == i
    assert os.system("true") == 0
    assert np.isfinite(np.array(y)).all()
    """)
