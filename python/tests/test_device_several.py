"""Two GPUs in one process: the software driver, loaded a second time from a copy of its library."""

import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys

import mlx.core as mx
import pytest

pytestmark = pytest.mark.gpu

PROGRAM = """
import mlx.core as mx
import numpy as np

assert mx.device_count(mx.gpu) == 2
first, second = devices = [mx.Device(mx.gpu, i) for i in range(2)]
numbers = np.arange(1000, dtype=np.float32)
a, b = (mx.arange(1000.0, stream=d) for d in devices)
# Ops whose inputs come from the other one, both ways, and from the host.
c = mx.add(mx.multiply(a, 2, stream=first), mx.multiply(b, 3, stream=second), stream=second)
assert np.array_equal(c, numbers * 5)
assert mx.sum(c, stream=first).item() == 5 * numbers.sum()
assert np.array_equal(mx.add(c, mx.array(numbers), stream=first), numbers * 6)
assert np.array_equal(mx.negative(c, stream=mx.cpu), -5 * numbers)
# Streams of each take turns, lazily.
streams = [mx.new_stream(d) for d in devices for _ in range(2)]
x = mx.ones((64, 64))
for i in range(8):
    product = mx.matmul(x, mx.eye(64), stream=streams[i % 4])
    x = mx.add(product, 1, stream=streams[(i + 1) % 4])
assert np.array_equal(x, np.full((64, 64), 9))
# Gradients and compiled functions, and memory that is written on one and read on the other.
with mx.stream(second):
    g = mx.grad(lambda v: (v * v).sum())(a)
    h = mx.compile(lambda v: mx.abs(v - 3) * 2)(g)
assert np.array_equal(mx.add(h, 0, stream=first), np.abs(2 * numbers - 3) * 2)
for device in devices:
    mx.set_default_device(device)
    assert np.array_equal(mx.cumsum(mx.ones(5)), [1, 2, 3, 4, 5])
    mx.synchronize(mx.default_stream(device))
print("fine")
"""


def driver():
    """The software driver's manifest."""
    named = os.environ.get("VK_DRIVER_FILES", os.environ.get("VK_ICD_FILENAMES", ""))
    places = named.split(":") if named else glob.glob("/usr/share/vulkan/icd.d/*.json")
    return next((pathlib.Path(p) for p in places if "lvp" in pathlib.Path(p).name), None)


def library(manifest, name):
    """The file that a manifest names: by a path, or by a name that the system finds."""
    path = manifest.parent / name
    if path.exists():
        return path
    lines = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    found = [
        line.split(" => ")[1] for line in lines.splitlines() if pathlib.Path(name).name in line
    ]
    return pathlib.Path(found[0]) if found else None


def two_devices(folder):
    """An environment in which there are two; a folder keeps the copy."""
    manifest = driver()
    content = json.loads(manifest.read_text())
    copy = folder / "libvulkan_second.so"
    shutil.copy(library(manifest, content["ICD"]["library_path"]), copy)
    content["ICD"]["library_path"] = str(copy)
    second = folder / "second.json"
    second.write_text(json.dumps(content))
    env = {k: v for k, v in os.environ.items() if k not in ("VK_ICD_FILENAMES", "MLX_VK_DEVICE")}
    env |= {"VK_DRIVER_FILES": f"{manifest}:{second}", "MLX_DEFAULT_DEVICE": "gpu"}
    env["PYTHONPATH"] = str(pathlib.Path(mx.__file__).parents[1])
    return env


@pytest.mark.skipif(driver() is None, reason="needs Mesa's software driver")
def test_two_devices(tmp_path):
    env = two_devices(tmp_path)
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0 and "fine" in done.stdout, done.stdout + done.stderr
