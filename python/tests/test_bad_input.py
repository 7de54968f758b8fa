"""Wrong use and broken surroundings: a clear exception (or a result), and the next op works."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

A = (2, 3)


def a():
    return mx.ones(A)


def i():
    return mx.ones(A, mx.int32)


# name: (call, exception, part of the message)
CASES = {
    "add shapes": (lambda: a() + mx.ones((4,)), ValueError, "broadcast"),
    "where shapes": (lambda: mx.where(mx.ones((2,)), mx.ones((3,)), 1), ValueError, "broadcast"),
    "broadcast_to": (lambda: mx.broadcast_to(a(), (2, 4)), ValueError, "broadcast"),
    "matmul shapes": (lambda: a() @ a(), ValueError, "matmul"),
    "matmul scalar": (lambda: mx.matmul(mx.array(1.0), a()), ValueError, "matmul"),
    "matmul ints": (lambda: mx.matmul(i(), i().T), ValueError, "matmul"),
    "addmm shapes": (lambda: mx.addmm(mx.ones((5,)), a(), a().T), ValueError, ""),
    "reshape size": (lambda: mx.reshape(a(), (4,)), ValueError, "reshape"),
    "reshape two unknown": (lambda: mx.reshape(a(), (-1, -1)), ValueError, "reshape"),
    "reshape no divisor": (lambda: mx.reshape(a(), (-1, 4)), ValueError, "reshape"),
    "concatenate shapes": (
        lambda: mx.concatenate([a(), mx.ones((2, 4))]),
        ValueError,
        "concatenate",
    ),
    "concatenate nothing": (lambda: mx.concatenate([]), ValueError, "concatenate"),
    "stack shapes": (lambda: mx.stack([a(), mx.ones((2, 4))]), ValueError, "stack"),
    "split uneven": (lambda: mx.split(a(), 2, axis=1), ValueError, ""),
    "unflatten size": (lambda: mx.unflatten(a(), 1, (2, 2)), ValueError, ""),
    "flatten order": (lambda: mx.flatten(a(), 1, 0), ValueError, "flatten"),
    "squeeze": (lambda: mx.squeeze(a(), 0), ValueError, "squeeze"),
    "transpose repeat": (lambda: mx.transpose(a(), (0, 0)), ValueError, "transpose"),
    "transpose short": (lambda: mx.transpose(a(), (0,)), ValueError, "transpose"),
    "transpose axis": (lambda: mx.transpose(a(), (0, 5)), (ValueError, IndexError), ""),
    "sum axis": (lambda: mx.sum(a(), axis=5), (ValueError, IndexError), "axis"),
    "sum negative axis": (lambda: mx.sum(a(), axis=-3), (ValueError, IndexError), "axis"),
    "sum twice": (lambda: mx.sum(a(), axis=(0, -2)), ValueError, ""),
    "softmax axis": (lambda: mx.softmax(a(), axis=4), (ValueError, IndexError), ""),
    "argmax axis": (lambda: mx.argmax(a(), axis=2), (ValueError, IndexError), ""),
    "expand_dims axis": (lambda: mx.expand_dims(a(), 9), (ValueError, IndexError), ""),
    "concatenate axis": (lambda: mx.concatenate([a(), a()], axis=2), (ValueError, IndexError), ""),
    "swapaxes axis": (lambda: mx.swapaxes(a(), 0, 7), (ValueError, IndexError), ""),
    "sort axis": (lambda: mx.sort(a(), axis=3), (ValueError, IndexError), ""),
    "max of nothing": (lambda: mx.max(mx.zeros((0,))), ValueError, "max"),
    "argmin of nothing": (lambda: mx.argmin(mx.zeros((0,))), ValueError, "argmin"),
    "zeros negative": (lambda: mx.zeros((-1, 2)), ValueError, "[Nn]egative"),
    "full negative": (lambda: mx.full((2, -3), 1), ValueError, "[Nn]egative"),
    "uniform negative": (lambda: mx.random.uniform(shape=(-1,)), ValueError, "[Nn]egative"),
    "split keys negative": (lambda: mx.random.split(mx.random.key(0), -1), ValueError, ""),
    "eye negative": (lambda: mx.eye(-1), ValueError, "eye"),
    "linspace negative": (lambda: mx.linspace(0, 1, -1), ValueError, "linspace"),
    "pad negative": (lambda: mx.pad(a(), -1), ValueError, ""),
    "repeat negative": (lambda: mx.repeat(a(), -1), ValueError, ""),
    "tile negative": (lambda: mx.tile(a(), -1), ValueError, ""),
    "arange step": (lambda: mx.arange(0, 10, 0), ValueError, "arange"),
    "arange nan": (lambda: mx.arange(float("nan")), ValueError, "arange"),
    "arange inf": (lambda: mx.arange(float("inf")), ValueError, "arange"),
    "bitwise floats": (lambda: mx.bitwise_and(a(), a()), (ValueError, RuntimeError), "bitwise_and"),
    "shift floats": (lambda: mx.left_shift(a(), a()), (ValueError, RuntimeError), "left_shift"),
    "invert floats": (lambda: mx.bitwise_invert(a()), (ValueError, RuntimeError), ""),
    "negative bool": (lambda: -mx.array([True]), (ValueError, TypeError), ""),
    "floor complex": (lambda: mx.floor(mx.array([1j])), ValueError, "floor"),
    "erf complex": (lambda: mx.erf(mx.array([1j])), ValueError, "erf"),
    "uniform int": (lambda: mx.random.uniform(dtype=mx.int32), ValueError, "uniform"),
    "key dtype": (lambda: mx.random.normal(key=mx.array([1, 2])), ValueError, "uint32"),
    "key shape": (lambda: mx.random.normal(key=mx.array([1, 2, 3], mx.uint32)), ValueError, ""),
    "bernoulli int": (lambda: mx.random.bernoulli(mx.array([1])), ValueError, "bernoulli"),
    "categorical scalar": (
        lambda: mx.random.categorical(mx.array(1.0)),
        (ValueError, IndexError),
        "",
    ),
    "view size": (lambda: mx.view(mx.ones((3,), mx.int8), mx.int32), ValueError, "view"),
    "clip nothing": (lambda: mx.clip(a(), None, None), ValueError, ""),
    "ragged": (lambda: mx.array([[1, 2], [3]]), ValueError, ""),
    "ragged depth": (lambda: mx.array([1, [2]]), (ValueError, TypeError), ""),
    "text": (lambda: mx.array(["x"]), (ValueError, TypeError), ""),
    "huge int": (lambda: mx.array([1 << 70]), (ValueError, RuntimeError, OverflowError), ""),
    "add text": (lambda: a() + "x", (ValueError, TypeError), ""),
    "add nothing": (lambda: mx.add(a()), TypeError, ""),
    "unknown keyword": (lambda: mx.sqrt(a(), bogus=1), TypeError, ""),
    "astype text": (lambda: a().astype("float32"), TypeError, ""),
    "stream int": (lambda: mx.add(a(), a(), stream=5), TypeError, ""),
    "item of many": (lambda: a().item(), ValueError, ""),
    "bool of many": (lambda: bool(a()), ValueError, ""),
    "too many indices": (lambda: a()[0, 0, 0], (ValueError, IndexError), "indices"),
    "text index": (lambda: a()["x"], (ValueError, TypeError), ""),
    "slice step": (lambda: a()[::0], ValueError, ""),
    "set shape": (lambda: a().__setitem__(0, mx.ones((4,))), ValueError, "broadcast"),
    "grad of vector": (lambda: mx.grad(lambda x: x)(mx.ones((2,))), ValueError, ""),
    "grad of int": (lambda: mx.grad(lambda x: 3)(mx.ones(())), ValueError, "grad"),
    "grad argnums": (lambda: mx.grad(lambda x: x, argnums=2)(mx.ones(())), ValueError, "argument"),
    "grad of text": (lambda: mx.grad(lambda x: x)("x"), (ValueError, TypeError), ""),
    "vjp cotangents": (lambda: mx.vjp(mx.sin, [a()], [mx.ones((4,))]), ValueError, ""),
    "jvp tangents": (lambda: mx.jvp(mx.sin, [a()], [mx.ones((4,))]), ValueError, ""),
}


@pytest.mark.validation
@pytest.mark.parametrize("name", CASES)
def test_wrong_arguments(name):
    call, kind, text = CASES[name]
    with pytest.raises(kind, match=text or None) as caught:
        mx.eval(call())
    assert str(caught.value).strip()
    h.works()


@pytest.mark.parametrize("shape", [(1 << 31,), (1 << 40,), (1 << 62, 4), (1 << 64,)])
def test_dimensions_beyond_the_limit(shape):
    with pytest.raises((ValueError, OverflowError, MemoryError, RuntimeError, TypeError)):
        mx.eval(mx.zeros(shape, mx.int8))
    h.works()


OVERFLOWS = {
    "size": "mx.zeros((1 << 30, 1 << 30, 1 << 30))",
    "bytes": "mx.zeros((1 << 30, 1 << 30, 2), mx.float32)",
    "broadcast": "mx.broadcast_to(mx.zeros(()), (1 << 30, 1 << 30, 1 << 30)) + 1",
    "repeat": "mx.repeat(mx.zeros((1 << 20,)), 1 << 30)",
    "tile": "mx.tile(mx.zeros((1 << 10,)), (1 << 30, 1 << 30))",
    "pad": "mx.pad(mx.zeros((4, 4)), (1 << 30))",
    "outer": "mx.broadcast_to(mx.zeros((1, 1 << 20)), (1 << 30, 1 << 20)) * 2",
    "memory": "mx.zeros((1 << 30, 1 << 14)) + mx.ones((1 << 14,))",
}


@pytest.mark.parametrize("name", OVERFLOWS)
def test_arrays_larger_than_memory(name):
    """In a process of its own: an implementation that tries would take the machine with it."""
    code = f"""
    import mlx.core as mx
    mx.set_default_device(mx.{os.environ["MLX_TEST_DEVICE"]})
    try:
        mx.eval({OVERFLOWS[name]})
    except (ValueError, MemoryError, OverflowError, RuntimeError) as e:
        assert str(e).strip(), "empty message"
        print("raised", type(e).__name__, e)
    else:
        raise SystemExit("no exception")
    assert mx.sum(mx.ones((10,))).item() == 10
    """
    assert "raised" in h.python(code).stdout


def test_memory_limit_of_the_process(tmp_path):
    """Where the system refuses an allocation the op raises and smaller ones go on."""
    code = """
    import resource
    import mlx.core as mx
    mx.set_default_device(mx.cpu)
    mx.eval(mx.ones((10,)) + 1)
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), resource.RLIM_INFINITY))
    try:
        mx.eval(mx.ones((1 << 28,)) + 1)
    except (MemoryError, RuntimeError, ValueError) as e:
        print("raised", e)
    else:
        raise SystemExit("no exception")
    assert mx.sum(mx.ones((1000,))).item() == 1000
    """
    assert "raised" in h.python(code).stdout


def test_nan_and_infinite_casts():
    """Out of an integer's range the value is unspecified, but no trap and a steady answer."""
    x = mx.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 1e30, 300.0, -1.0])
    for dtype in h.INTS:
        first = x.astype(h.mx_dtype(dtype)).tolist()
        assert x.astype(h.mx_dtype(dtype)).tolist() == first
    assert x.astype(mx.bool_).tolist() == [True] * 8
    assert np.isnan(h.to_np(x.astype(mx.float16))[0]) and np.isnan(
        h.to_np(x.astype(mx.bfloat16))[0]
    )
    h.works()


@pytest.mark.parametrize("dtype", h.INTS)
def test_integer_division_by_zero_and_overflow_do_not_trap(dtype):
    code = f"""
    import numpy as np
    import mlx.core as mx
    mx.set_default_device(mx.{os.environ["MLX_TEST_DEVICE"]})
    low = np.iinfo("{dtype}").min
    a = mx.array(np.array([5, 0, low], "{dtype}"))
    for b in (mx.zeros_like(a), mx.array(np.array([1, 1, 255]).astype("{dtype}"))):
        for f in (mx.floor_divide, mx.remainder, mx.divide, mx.left_shift, mx.power):
            mx.eval(f(a, b))
    assert (mx.array([7]) // 2).item() == 3
    """
    h.python(code)


@pytest.mark.parametrize("bad", ["streams", "devices"])
def test_a_device_that_is_not_there(bad):
    far = mx.Device(mx.gpu, 99)
    with pytest.raises((ValueError, IndexError, RuntimeError)):
        if bad == "streams":
            mx.new_stream(far)
        else:
            mx.eval(mx.add(a(), a(), stream=far))
    h.works()


ICD = '{"file_format_version": "1.0.0", "ICD": {"library_path": "%s", "api_version": "1.2.0"}}'

BROKEN = {
    "none": {"VK_DRIVER_FILES": "/nonexistent", "VK_ICD_FILENAMES": "/nonexistent"},
    "garbage": None,
    "not a driver": None,
    "missing library": None,
}


@pytest.mark.parametrize("name", BROKEN)
def test_missing_or_broken_vulkan_driver(name, tmp_path):
    """The library loads, the CPU works, and the GPU says that it is not there."""
    manifest = tmp_path / "icd.json"
    text = {
        "garbage": "{ this is no json",
        "not a driver": ICD % "libm.so.6",
        "missing library": ICD % "/nonexistent.so",
    }.get(name)
    env = BROKEN[name]
    if text is not None:
        manifest.write_text(text)
        env = {"VK_DRIVER_FILES": str(manifest), "VK_ICD_FILENAMES": str(manifest)}
    code = """
    import mlx.core as mx
    assert not mx.is_available(mx.gpu) and mx.device_count(mx.gpu) == 0
    assert mx.default_device() == mx.Device(mx.cpu)
    assert mx.sum(mx.ones((10,)) * 2).item() == 20
    for wrong in (
        lambda: mx.sin(mx.ones((2,)), stream=mx.gpu),
        lambda: mx.set_default_device(mx.gpu),
        lambda: mx.new_stream(mx.gpu),
    ):
        try:
            mx.eval(wrong())
        except (ValueError, RuntimeError) as e:
            assert str(e).strip()
        else:
            raise SystemExit("no exception")
    assert mx.sum(mx.ones((10,)) * 2).item() == 20
    """
    h.python(code, env={**env, "VK_ADD_DRIVER_FILES": "", "VK_LOADER_DEBUG": "none"})


def test_interrupt_during_a_long_evaluation():
    """Ctrl-C ends the wait as KeyboardInterrupt, at the latest when the work is done."""
    # A process started in the background may have inherited an ignored SIGINT.
    code = f"""
    import signal, sys, time
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import mlx.core as mx
    mx.set_default_device(mx.{os.environ["MLX_TEST_DEVICE"]})
    x = mx.random.normal((512, 512))
    mx.eval(x)
    print("ready", flush=True)
    end = time.time() + 60
    try:
        while time.time() < end:
            y = x
            for _ in range(60):
                y = mx.tanh(y @ x)
            mx.eval(y)
        raise SystemExit("never interrupted")
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    assert mx.sum(mx.ones((10,))).item() == 10
    mx.synchronize()
    print("works", flush=True)
    """
    run = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert run.stdout.readline().strip() == "ready"
        time.sleep(0.5)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
    finally:
        if run.poll() is None:
            run.kill()
    assert out.split() == ["interrupted", "works"] and run.returncode == 0, out + err


def test_fork_after_use():
    """The child computes on the CPU; a GPU that the parent has used raises instead of hanging."""
    code = f"""
    import os, sys
    import mlx.core as mx
    mx.set_default_device(mx.{os.environ["MLX_TEST_DEVICE"]})
    a = mx.ones((100, 100))
    assert mx.sum(a @ a).item() == 1e6
    with mx.stream(mx.cpu):
        b = mx.ones((100, 100))
        mx.eval(b, mx.sum(b @ b))
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with mx.stream(mx.cpu):
                if mx.sum(mx.exp(b * 0) @ b).item() == 1e6 and mx.sum(mx.ones((10,))).item() == 10:
                    code = 0
            if mx.default_device().type == mx.gpu:
                try:
                    if mx.sum(mx.ones((10,)) + 1).item() != 20:
                        code = 2
                except (RuntimeError, ValueError) as e:
                    code = 0 if str(e) else 3
        finally:
            os._exit(code)
    status = os.waitpid(pid, 0)[1]
    assert status == 0, status
    assert mx.sum(a @ a).item() == 1e6
    """
    h.python(code, timeout=60)


def test_fork_in_a_pool():
    code = """
    import multiprocessing as mp
    import mlx.core as mx
    mx.set_default_device(mx.cpu)
    mx.eval(mx.random.normal((1000, 100)) @ mx.ones((100, 10)))

    def work(i):
        return mx.sum(mx.full((1000,), float(i))).item()

    with mp.get_context("fork").Pool(2) as pool:
        assert pool.map_async(work, range(6)).get(30) == [1000.0 * i for i in range(6)]
    """
    h.python(code, timeout=60)


def test_exit_with_work_in_flight():
    code = f"""
    import mlx.core as mx
    mx.set_default_device(mx.{os.environ["MLX_TEST_DEVICE"]})
    x = mx.ones((256, 256))
    for _ in range(30):
        x = mx.tanh(x @ x)
        mx.async_eval(x)
    """
    h.python(code, timeout=60)


def cache_files(folder):
    return [p for p in pathlib.Path(folder).rglob("*") if p.is_file()]


@pytest.mark.gpu
def test_corrupt_shader_and_pipeline_caches(tmp_path):
    """Each cache file is replaced by rubbish, cut or emptied; the results stay right."""
    code = """
    import numpy as np
    import mlx.core as mx
    mx.set_default_device(mx.gpu)
    x = mx.arange(100, dtype=mx.float32)
    assert mx.sum(mx.sqrt(x * x)).item() == 4950
    assert (mx.ones((5, 7)) @ mx.ones((7, 3)))[0, 0].item() == 7
    """
    env = {"XDG_CACHE_HOME": str(tmp_path), "MLX_VK_CACHE_DIR": str(tmp_path / "mlx")}
    h.python(code, env=env)
    files = cache_files(tmp_path)
    assert files, "no cache was written"
    damage = [
        lambda b: b"",
        lambda b: b[: len(b) // 2],
        lambda b: os.urandom(len(b)),
        lambda b: b[:16] + bytes(len(b) - 16) if len(b) > 16 else b"x",
        lambda b: b[:-1] + bytes([b[-1] ^ 255]) if b else b"y",
        lambda b: b"\\x03\\x02\\x23\\x07" + os.urandom(max(len(b), 8) - 4),
    ]
    for harm in damage:
        for file in cache_files(tmp_path):
            file.write_bytes(harm(file.read_bytes()))
        h.python(code, env=env)


@pytest.mark.gpu
def test_a_cache_folder_that_cannot_be_written(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    code = """
    import mlx.core as mx
    mx.set_default_device(mx.gpu)
    assert mx.sum(mx.ones((33,)) + 1).item() == 66
    """
    h.python(code, env={"XDG_CACHE_HOME": str(blocked), "MLX_VK_CACHE_DIR": str(blocked / "x")})


@pytest.mark.parametrize("bad", [mx.array, np.ndarray, object(), [1, 2], (1, 2)])
def test_what_is_no_scalar_is_told_as_no_array(bad):
    """A class has the methods of its arrays and is none; a bound is a number or an array."""
    with pytest.raises(ValueError, match="Invalid type|\\[convert\\]"):
        mx.random.randint(0, bad, [2])
    if isinstance(bad, type):
        with pytest.raises(ValueError, match="Invalid type"):
            mx.sqrt(bad)


def test_a_bool_in_a_range_is_a_number_beside_numbers():
    assert mx.arange(0, 4, True).tolist() == [0, 1, 2, 3]
    assert mx.arange(True, 2.5).tolist() == [1.0, 2.0]
    for bad in (lambda: mx.arange(True), lambda: mx.arange(False, True, True)):
        with pytest.raises(ValueError, match="bool not supported"):
            bad()


@pytest.mark.parametrize("bad", ["a", [1], (1,), object(), 2j])
def test_rope_offsets_that_are_none(bad):
    with pytest.raises(ValueError, match="Invalid type|must be an integer"):
        mx.fast.rope(mx.ones((1, 2, 4)), 4, traditional=False, base=1.0, scale=1.0, offset=bad)
