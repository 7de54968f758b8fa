"""A broken invariant of the library (a Rust panic) is an ordinary RuntimeError wherever Python
called, on whatever thread it happened, and what was computed with goes on. `mlx.core._testing`
breaks one on demand."""

import gc
import operator
import os
import subprocess
import sys
import threading

import mlx.core as mx
import pytest

testing = sys.modules["mlx.core._testing"]
TEXT = r"An invariant of the library does not hold \(.*\.rs:\d+\): asked for by a test"
ONE = testing.Panics()


def raising():
    testing.panic()


ENTRIES = {
    "constructor": lambda: testing.Panics("new"),
    "method": lambda: ONE.method(),
    "method with arguments": lambda: ONE.arguments(1),
    "static method": lambda: testing.Panics.fixed(),
    "class method": lambda: testing.Panics.of_class(),
    "getter": lambda: ONE.value,
    "setter": lambda: setattr(ONE, "value", 1),
    "operator": lambda: ONE + 1,
    "in place": lambda: operator.iadd(ONE, 1),
    "unary": lambda: -ONE,
    "len": lambda: len(ONE),
    "bool": lambda: bool(ONE),
    "hash": lambda: hash(ONE),
    "compare": lambda: ONE == 1,
    "item": lambda: ONE[0],
    "assignment": lambda: operator.setitem(ONE, 0, 1),
    "contains": lambda: 1 in ONE,
    "iter": lambda: iter(ONE),
    "next": lambda: next(ONE),
    "call": lambda: ONE(),
    "repr": lambda: repr(ONE),
    "float": lambda: float(ONE),
    "buffer": lambda: memoryview(ONE),
    "function": lambda: testing.panic(),
    "in a callback": lambda: testing.panic(raising),
    "in a callback of a transform": lambda: mx.grad(lambda x: testing.panic())(mx.array(1.0)),
    "vjp": lambda: mx.grad(lambda x: testing.panicking(x, "vjp"))(mx.array(1.0)),
    "jvp": lambda: mx.jvp(lambda x: testing.panicking(x, "jvp"), [mx.array(1.0)], [mx.array(1.0)]),
    "vmap": lambda: mx.vmap(lambda x: testing.panicking(x, "vmap"))(mx.ones((3,))),
    "eval": lambda: mx.eval(testing.panicking(mx.ones((3,)), "eval")),
    "eval of a joined graph": lambda: mx.eval(testing.panicking(mx.ones((3,)) + 1, "eval") * 2),
    "threads of a kernel": lambda: mx.eval(testing.panicking(mx.ones((3,)), "pool")),
    "compiled": lambda: mx.eval(
        mx.compile(lambda x: testing.panicking(x, "eval") + 1)(mx.ones((3,)))
    ),
    "printing": lambda: repr(testing.panicking(mx.ones((3,)), "eval")),
    "item of a result": lambda: testing.panicking(mx.ones((1,)), "eval").item(),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_panics_are_errors(name):
    with pytest.raises(RuntimeError, match=TEXT):
        ENTRIES[name]()
    assert (mx.arange(4) * 2).tolist() == [0, 2, 4, 6]


def test_panics_are_caught_in_python():
    seen = []

    def f():
        try:
            testing.panic()
        except Exception as e:
            seen.append(type(e))
        raise KeyError("own")

    with pytest.raises(KeyError):
        testing.panic(f)
    assert seen == [RuntimeError]


@pytest.mark.parametrize("threads", [1, 8])
def test_panics_on_other_threads_of_python(threads):
    seen = []

    def work():
        for entry in ("operator", "eval", "vjp", "function"):
            try:
                ENTRIES[entry]()
            except RuntimeError as e:
                seen.append(str(e))

    all_of_them = [threading.Thread(target=work) for _ in range(threads)]
    for t in all_of_them:
        t.start()
    for t in all_of_them:
        t.join()
    assert len(seen) == 4 * threads
    assert all("asked for by a test" in s for s in seen)


def test_an_array_that_failed_fails_again_and_its_inputs_live():
    x = mx.arange(4, dtype=mx.float32) + 1
    bad = testing.panicking(x, "eval")
    behind = mx.sin(bad) + x
    for array in (behind, bad, behind):
        with pytest.raises(RuntimeError, match=TEXT):
            mx.eval(array)
    assert x.tolist() == [1, 2, 3, 4]
    del bad, behind
    gc.collect()
    assert (x * x).tolist() == [1, 4, 9, 16]


@pytest.mark.parametrize("length", [3, 400])
def test_panics_behind_the_caller(length):
    """Of async_eval, whose graph may be recorded by a thread of its own."""
    bad = testing.panicking(mx.ones((8,)), "eval")
    x = bad
    for _ in range(length):
        x = mx.tanh(x) * 2
    with pytest.raises(RuntimeError, match=TEXT):
        mx.async_eval(x)
        mx.synchronize()
    with pytest.raises(RuntimeError, match=TEXT):
        x.tolist()
    mx.synchronize()
    assert (mx.ones((8,)) + 1).tolist() == [2] * 8


def test_a_stream_goes_on_behind_a_panic():
    s = mx.new_stream(mx.default_device())
    with mx.stream(s):
        for _ in range(20):
            with pytest.raises(RuntimeError, match=TEXT):
                mx.eval(testing.panicking(mx.ones((3,)), "eval"))
        a = mx.ones((3,)) * 5
    mx.synchronize(s)
    assert a.tolist() == [5, 5, 5]


@pytest.mark.gpu
@pytest.mark.parametrize("recorder", ["0", "1"])
def test_panics_of_the_recorder(recorder):
    """The thread that records graphs lives on; so does what it was given before and after."""
    code = """
import sys
import mlx.core as mx
mx.set_default_device(mx.gpu)
t = sys.modules["mlx.core._testing"]
def long(x):
    for _ in range(200):
        x = mx.tanh(x) + 0.5
    return x
good = long(mx.ones((16,)))
bad = long(t.panicking(mx.ones((16,)), "eval"))
later = long(mx.ones((16,)) * 2)
for x in (good, bad, later):
    mx.async_eval(x)
errors = 0
for x in (good, bad, later):
    try:
        x.tolist()
    except RuntimeError as e:
        assert "asked for by a test" in str(e)
        errors += 1
assert 1 <= errors <= 2, errors
assert good.tolist() == long(mx.ones((16,))).tolist()
assert later.tolist() == long(mx.ones((16,)) * 2).tolist()
print("went on")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "MLX_VK_RECORDER": recorder},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "went on", done.stderr[-2000:]
