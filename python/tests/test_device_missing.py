"""What is said where a GPU cannot be used, the device a program starts on, what terminals show."""

import os
import pty
import subprocess
import sys
import time

import mlx.core as mx
import pytest

ASK = """
import mlx.core as mx
try:
    mx.eval(mx.add(mx.array(1.0), 2.0, stream=mx.gpu))
except ValueError as e:
    print(e)
print(mx.default_device(), mx.device_count(mx.gpu))
"""


def run(code, *args, **settings):
    env = {k: v for k, v in os.environ.items() if k not in ("MLX_VK_DEVICE", "MLX_DEFAULT_DEVICE")}
    command = [sys.executable, *(args or ("-W", "always", "-c", code))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env | settings)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def missing_loader(tmp_path):
    (tmp_path / "libvulkan.so.1").write_text("no library")
    return {"LD_LIBRARY_PATH": str(tmp_path)}, "the Vulkan loader was not found: "


def no_driver(tmp_path):
    nowhere = str(tmp_path / "none.json")
    settings = {"VK_ICD_FILENAMES": nowhere, "VK_DRIVER_FILES": nowhere}
    return settings, "the Vulkan loader found no driver; "


def lacking(tmp_path):
    features = "scalarBlockLayout, timelineSemaphore"
    return {"MLX_VK_WITHOUT": features}, "its driver lacks timelineSemaphore, scalarBlockLayout"


@pytest.mark.gpu
@pytest.mark.parametrize("state", [missing_loader, no_driver, lacking])
def test_the_reason_stands_in_the_error_in_info_and_with_the_doctor(state, tmp_path):
    settings, reason = state(tmp_path)
    out, err = run(ASK, **settings)
    first, last = out.splitlines()
    assert first.startswith("[") and reason in first, out
    assert last == "Device(cpu, 0) 0"
    hardware = mx.device_info(mx.gpu).get("kind") != "software"
    assert ("RuntimeWarning: [vulkan] No GPU" in err) == (hardware and state is lacking)
    out, _ = run("", "-m", "mlx.info", **settings)
    assert reason in out
    code = "from mlx import _doctor; print(_doctor.main())"
    out, _ = run(code, **settings)
    assert reason in out and out.splitlines()[-1] == "1"


@pytest.mark.gpu
def test_one_warning_tells_of_hardware_that_cannot_be_used():
    code = "import mlx.core as mx; print([mx.default_device() for _ in range(2)])"
    out, err = run(code, MLX_VK_WITHOUT="software, timelineSemaphore")
    assert out == "[Device(cpu, 0), Device(cpu, 0)]\n"
    assert err.count("RuntimeWarning: [vulkan] No GPU of this machine can be used. ") == 1, err
    assert "its driver lacks timelineSemaphore. The CPU is used; a newer driver may help." in err


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_the_environment_chooses_the_default_device(device):
    out, err = run("import mlx.core as mx; print(mx.default_device())", MLX_DEFAULT_DEVICE=device)
    assert out == f"Device({device}, 0)\n" and not err
    _, err = run("import mlx.core", MLX_DEFAULT_DEVICE="tpu")
    assert "MLX_DEFAULT_DEVICE=tpu is passed over, expected cpu, gpu" in err


def test_a_default_device_that_is_not_there_is_told_by_what_needs_it(tmp_path):
    settings, reason = no_driver(tmp_path)
    code = """
import mlx.core as mx
try:
    (mx.array(1.0) + 1).item()
except ValueError as e:
    print(e)
mx.set_default_device(mx.cpu)
print((mx.array(1.0) + 1).item())
"""
    out, _ = run(code, MLX_DEFAULT_DEVICE="gpu", **settings)
    assert reason in out.splitlines()[0] and out.splitlines()[1] == "2.0"


MANY = """
import time
import mlx.core as mx
mx.set_default_device(mx.gpu)
x = mx.random.uniform(shape=(40, 40))
mx.eval(x)  # opens the GPU, which takes seconds where many do
begin = time.perf_counter()
for i in range(4000):
    f = [mx.exp, mx.sin, mx.tanh, mx.log1p, mx.sqrt, mx.erf, mx.cos, mx.expm1]
    parts = [f[i >> 3 * k & 7] for k in range(3)]
    mx.eval(mx.compile(lambda x: parts[0](parts[1](parts[2](x)) + i))(x))
    if time.perf_counter() - begin > 4:
        break
time.sleep(0.6)
"""


def shown(tmp_path, **settings):
    """What a terminal sees of a program that compiles kernels for some seconds."""
    ours, theirs = pty.openpty()
    env = os.environ | {"MLX_VK_CACHE_DIR": str(tmp_path / "cache")} | settings
    process = subprocess.Popen(
        [sys.executable, "-c", MANY], stderr=theirs, stdout=subprocess.DEVNULL, env=env
    )
    os.close(theirs)
    text, end = b"", time.monotonic() + 120
    while time.monotonic() < end:
        try:
            text += os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    assert process.wait(timeout=60) == 0, text
    return text.decode()


@pytest.mark.gpu
def test_a_terminal_is_told_what_is_compiled(tmp_path):
    text = shown(tmp_path)
    assert "\r[mlx] compiling GPU kernels for their first use: " in text
    assert text.endswith("\r\x1b[K")


@pytest.mark.gpu
def test_quiet_terminals_and_files_are_told_nothing(tmp_path):
    assert shown(tmp_path, MLX_VK_QUIET="1") == ""
    _, err = run(MANY, MLX_VK_CACHE_DIR=str(tmp_path / "other"))
    assert err == ""
