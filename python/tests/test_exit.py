"""The end of the process: whatever still runs, the status is right, nothing is printed, and it
takes half a minute at most, on a busy machine too.

The time is from the last statement of the program to the end of the process. A loaded machine gets
more: three times what the end of a process that has nothing left to do takes beyond 0.2 s.
"""

import functools
import subprocess
import sys
import textwrap
import time

import helpers as h
import pytest

# A software driver has work for half a second and more, which still runs when the program ends.
PRELUDE = """
import atexit, os, sys, threading, time
import mlx.core as mx
mx.set_default_device(mx.{device})
gpu = mx.default_device().type == mx.gpu
x = mx.random.normal((128, 128)) * 0.05
mx.eval(x)
share = 5 if gpu and mx.vulkan.describe()["kind"] == "software" else 1

def endless(steps=3000):
    y = x
    for _ in range(steps // share):
        y = mx.tanh(y @ x)
    return y

def over():
    print("over", flush=True)
"""


def ends(code, status=0, env=None):
    """Runs the code behind the prelude; returns the seconds after `over()`, and stderr."""
    source = PRELUDE.format(device="gpu" if h.on_gpu() else "cpu") + textwrap.dedent(code)
    run = subprocess.Popen(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        for line in run.stdout:
            if line.strip() == "over":
                break
        begin = time.perf_counter()
        _, err = run.communicate(timeout=60)
    finally:
        run.kill()
    took = time.perf_counter() - begin
    assert run.returncode == status, f"{run.returncode}\n{err}"
    return took, err


@functools.cache
def usual():
    return ends("over()")[0]


WAYS = {
    "end": ("over()", 0),
    "sys.exit": ("over(); sys.exit(7)", 7),
    "exception": ("over(); raise ValueError('mine')", 1),
    "os._exit": ("over(); os._exit(9)", 9),
    "exit within a stream": ("with mx.stream(mx.cpu): over(); sys.exit(3)", 3),
    "exit in atexit": ("atexit.register(os._exit, 11); over()", 11),
}

WORK = {
    "nothing": "",
    "queued work": "y = endless(); mx.async_eval(y)",
    "lazy arrays": "y = endless()",
    "many streams": """
kept = []
for _ in range(4):
    with mx.stream(mx.new_stream(mx.default_device())):
        kept.append(endless(500))
        mx.async_eval(kept[-1])
""",
    "both devices": """
with mx.stream(mx.cpu):
    z = endless(500)
    mx.async_eval(z)
y = endless(200)
mx.async_eval(y)
""",
    "threads that evaluate": """
def work():
    while True:
        mx.eval(endless(3))
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
""",
    "threads that wait": """
y = endless()
mx.async_eval(y)
for _ in range(2):
    threading.Thread(target=mx.eval, args=(y,), daemon=True).start()
threading.Thread(target=mx.synchronize, daemon=True).start()
time.sleep(0.1)
""",
    "threads that compile": """
def work(k):
    for i in range(k, k + 100):
        mx.eval(mx.compile(lambda v: mx.sin(v * i) + mx.erf(v - i) / (1 + i))(x))
for k in range(3):
    threading.Thread(target=work, args=(1000 * k,), daemon=True).start()
time.sleep(0.2)
""",
    "arrays everywhere": """
local = threading.local()
local.y = endless(100)
mx.async_eval(local.y)
sys.modules["holder"] = type(sys)("holder")
sys.modules["holder"].y = endless(10)
class Last:
    def __init__(self): self.y = x + 1
    def __del__(self): mx.eval(self.y)
keeper = Last()
cycle = [x * 2]
cycle.append(cycle)
atexit.register(mx.eval, x + 3)
""",
    "a kernel still compiling": """
f = mx.compile(lambda v: functools_reduce(v))
def functools_reduce(v):
    for i in range(150):
        v = mx.sin(v * (1.5 + i)) + mx.erf(v)
    return v
mx.async_eval(f(x))
""",
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
@pytest.mark.parametrize("way, status", WAYS.values(), ids=WAYS)
def test_ends(way, status, work):
    slack = max(0.0, usual() - 0.2) * 3
    took, err = ends(f"{work}\n{way}", status)
    assert took < 30 + slack, (took, slack)
    if status == 1:
        assert err.strip().endswith("ValueError: mine") and err.count("\n") < 6, err
    else:
        assert not err, err


def test_results_that_are_asked_for_at_the_end():
    """Functions that run at exit compute as ever."""
    source = """
    y = endless(30)
    mx.async_eval(y)
    def last():
        print(mx.sum(x * 0 + 1).item(), mx.isfinite(mx.sum(y)).item(), flush=True)
    atexit.register(last)
    """
    code = PRELUDE.format(device="gpu" if h.on_gpu() else "cpu").replace(
        "import mlx", "pass; import mlx"
    )
    done = h.python(code + textwrap.dedent(source), timeout=60)
    assert done.stdout.split() == ["16384.0", "True"] and not done.stderr
    early = "import atexit\natexit.register(lambda: last())\n"  # comes after the library's own end
    code = early + code + textwrap.dedent(source).replace("atexit.register(last)", "")
    done = h.python(code, timeout=60)
    assert done.stdout.split() == ["16384.0", "True"] and not done.stderr


def test_registered_once():
    """The library's end is registered once, however often it is imported."""
    done = h.python("""
    import atexit, importlib, sys
    before = atexit._ncallbacks()
    import mlx.core as mx
    first = atexit._ncallbacks()
    importlib.reload(sys.modules["mlx.core"])
    import mlx.nn, mlx.optimizers
    assert atexit._ncallbacks() == first, (before, first, atexit._ncallbacks())
    assert first - before == 1, first - before
    """)
    assert not done.stderr
