"""Large NumPy arrays go to a GPU with memory of its own at once, which changes no result."""

import os
import subprocess
import sys

import mlx.core as mx
import numpy as np
import pytest

MIB = 1 << 20


def both_ways(count, dtype):
    """An array of NumPy and what comes back of it."""
    rng = np.random.default_rng(7)
    if dtype == np.bool_:
        a = rng.integers(0, 2, count).astype(dtype)
    elif np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        a = rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
    else:
        a = rng.standard_normal(count).astype(dtype)
    x = mx.array(a)
    kept = a.copy()
    a[:] = 0  # the array has what was there
    return kept, x


@pytest.mark.parametrize(
    "dtype",
    ["bool", "uint8", "int8", "uint16", "int32", "uint32", "int64", "float16", "float32"],
)
@pytest.mark.parametrize("nbytes", [4 * MIB - 8, 4 * MIB, 9 * MIB + 8])
def test_what_was_there_comes_back(dtype, nbytes):
    kept, x = both_ways(nbytes // np.dtype(dtype).itemsize, np.dtype(dtype).type)
    assert x.dtype == getattr(mx, {"bool": "bool_"}.get(dtype, dtype))
    assert np.array_equal(np.asarray(x + 0 if dtype != "bool" else x), kept)
    assert np.array_equal(np.asarray(x), kept)


def test_complex_and_double():
    rng = np.random.default_rng(3)
    z = (rng.standard_normal(MIB) + 1j * rng.standard_normal(MIB)).astype(np.complex64)
    assert np.array_equal(np.asarray(mx.array(z)), z)
    d = rng.standard_normal(MIB)
    assert np.array_equal(np.asarray(mx.array(d)), d.astype(np.float32))
    assert mx.array(d, mx.float64).dtype == mx.float64
    assert np.array_equal(np.asarray(mx.array(d, mx.float64)), d)


def test_a_dtype_converts_what_was_copied():
    a = np.arange(2 * MIB, dtype=np.int32)
    x = mx.array(a, dtype=mx.float32)
    assert x.dtype == mx.float32
    assert np.array_equal(np.asarray(x), a.astype(np.float32))


def test_strided_and_turned_ones():
    a = np.arange(4 * MIB, dtype=np.int32).reshape(2048, 2048)
    for view in (a.T, a[::-1], a[:, ::2], np.broadcast_to(a[0], (1024, 2048))):
        assert np.array_equal(np.asarray(mx.array(view)), view)


def test_shapes_and_gradients():
    a = np.arange(2 * MIB, dtype=np.float32).reshape(2, 1024, 1024) / MIB
    x = mx.array(a)
    assert x.shape == (2, 1024, 1024)
    g = mx.grad(lambda x: (x * x).sum())(x)
    assert np.array_equal(np.asarray(g), 2 * a)
    assert mx.array(np.zeros((0, 5 * MIB), np.float32)).shape == (0, 5 * MIB)


def test_used_on_the_cpu():
    a = np.arange(2 * MIB, dtype=np.float32)
    x = mx.array(a)
    y = mx.add(x, 1, stream=mx.cpu)
    assert np.array_equal(np.asarray(y), a + 1)


def test_from_several_threads():
    from concurrent.futures import ThreadPoolExecutor

    arrays = [np.full(2 * MIB, i, np.int32) for i in range(8)]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(mx.array, arrays))
    assert all(np.array_equal(np.asarray(x), a) for x, a in zip(made, arrays, strict=True))


WITH_ITS_OWN = """
import numpy as np, mlx.core as mx
mx.set_default_device(mx.gpu)
MIB = 1 << 20
a = np.arange(16 << 20, dtype=np.float32)
mx.eval(mx.zeros(8))
before, uploads = mx.get_active_memory(), mx.vulkan.stats()["uploads"]["bytes"]
x = mx.array(a)
told = mx.vulkan.stats()["uploads"]["bytes"]
assert told - uploads == a.nbytes, told
assert mx.get_active_memory() - before < 1.1 * a.nbytes
y = x + 1
mx.eval(y)
assert mx.vulkan.stats()["uploads"]["bytes"] < told + MIB, "it is there already"
assert np.array_equal(np.asarray(y), a + 1)
del y
assert np.array_equal(np.asarray(x), a)
assert mx.array(a[:1000]).sum().item() == a[:1000].sum()
# On the other device nothing goes there.
mx.set_default_device(mx.cpu)
uploads = mx.vulkan.stats()["uploads"]["bytes"]
assert np.array_equal(np.asarray(mx.array(a) + 1), a + 1)
assert mx.vulkan.stats()["uploads"]["bytes"] == uploads
# Beyond the limit there is no room anywhere; what is smaller still goes.
mx.set_default_device(mx.gpu)
mx.set_memory_limit(mx.get_active_memory() + (8 << 20))
try:
    mx.array(a)
    raise AssertionError("more than the limit")
except RuntimeError as e:
    assert "memory limit" in str(e), e
assert np.array_equal(np.asarray(mx.array(a[:MIB])), a[:MIB])
print("done")
"""


@pytest.mark.gpu
def test_on_a_gpu_with_memory_of_its_own():
    command = [sys.executable, "-c", WITH_ITS_OWN]
    done = subprocess.run(
        command,
        env=os.environ | {"MLX_VK_UNIFIED": "0"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "done", done.stderr[-2000:]


@pytest.mark.gpu
def test_this_file_on_a_gpu_with_memory_of_its_own():
    if os.environ.get("MLX_VK_UNIFIED") == "0":
        return
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-o",
        "addopts=",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [*command, "--device", "gpu", __file__],
        env=os.environ | {"MLX_VK_UNIFIED": "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
