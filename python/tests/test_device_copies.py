"""Copies between two GPUs of one process: by CUDA, whose stand-in tells, and by the host."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from test_device_several import driver, two_devices
from test_nccl import COMPILER, build

PROGRAM = pathlib.Path(__file__).parent / "copy_programs.py"

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(driver() is None, reason="needs Mesa's software driver"),
]
needs_compiler = pytest.mark.skipif(
    COMPILER is None or not sys.platform.startswith("linux"), reason="needs a C compiler on Linux"
)

#: What CUDA is asked for before the first copy.
ASKED = ["cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetUuid", "cuDevicePrimaryCtxRetain"]
ASKED += ["cuCtxGetCurrent", "cuCtxSetCurrent", "cuDeviceCanAccessPeer", "cuStreamCreate"]
ASKED += ["cuEventCreate", "cuImportExternalMemory"]
ASKED += ["cuExternalMemoryGetMappedBuffer", "cuMemcpyDtoDAsync"]
ASKED += ["cuMemGetAllocationGranularity", "cuMemCreate", "cuMemExportToShareableHandle"]
ASKED += ["cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"]
#: Later ones, and those after which a copy may be under way.
LATER = ["cuEventQuery", "cuEventRecord", "cuMemcpyDtoDAsync:5", "cuEventQuery:14"]
LATER += [
    "cuMemcpyDtoDAsync:8",
    "cuEventRecord:4",
    "cuImportExternalMemory:6",
    "cuCtxSetCurrent:20",
]

IDENTIFIER = """
import ctypes as c

class Instance(c.Structure):
    _fields_ = [("kind", c.c_int), ("next", c.c_void_p), ("flags", c.c_uint32)]
    _fields_ += [("about", c.c_void_p), ("layers", c.c_uint32), ("their", c.c_void_p)]
    _fields_ += [("extensions", c.c_uint32), ("names", c.c_void_p)]

class About(c.Structure):
    _fields_ = [("kind", c.c_int), ("next", c.c_void_p), ("name", c.c_char_p)]
    _fields_ += [("version", c.c_uint32), ("engine", c.c_char_p), ("its", c.c_uint32)]
    _fields_ += [("api", c.c_uint32)]

class Told(c.Structure):
    _fields_ = [("kind", c.c_int), ("next", c.c_void_p), ("told", c.c_ubyte * 4096)]

vulkan = c.CDLL("libvulkan.so.1")
about = About(api=(1 << 22) | (2 << 12))
made, instance = Instance(kind=1, about=c.addressof(about)), c.c_void_p()
assert vulkan.vkCreateInstance(c.byref(made), None, c.byref(instance)) == 0
count, devices = c.c_uint32(1), (c.c_void_p * 1)()
vulkan.vkEnumeratePhysicalDevices(instance, c.byref(count), devices)
identifiers = Told(kind=1000071004)
all = Told(kind=1000059001, next=c.addressof(identifiers))
vulkan.vkGetPhysicalDeviceProperties2(c.c_void_p(devices[0]), c.byref(all))
print(bytes(identifiers.told[:16]).hex())
"""


@pytest.fixture(scope="module")
def devices(tmp_path_factory):
    """The environment of two devices."""
    return two_devices(tmp_path_factory.mktemp("devices"))


@pytest.fixture(scope="module")
def cuda(tmp_path_factory, devices):
    """The environment in which CUDA sees them too."""
    folder = tmp_path_factory.mktemp("cuda")
    build(folder, "libcuda.so.1")
    command = [sys.executable, "-c", IDENTIFIER]
    told = subprocess.run(command, env=devices, capture_output=True, text=True, check=True)
    path = os.pathsep.join(filter(None, [str(folder), devices.get("LD_LIBRARY_PATH")]))
    return {"LD_LIBRARY_PATH": path, "STAND_IN_UUID": told.stdout.strip()} | {
        "STAND_IN_CUDA_TELLS": "1"
    }


def run(*environments, output=False, **extra):
    """What the program says, to its output or as errors; it has to end well."""
    env = {k: v for e in environments for k, v in e.items()} | extra
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], env=env, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0 and "fine" in done.stdout, done.stdout + done.stderr
    return done.stdout if output else done.stderr


def copied(told):
    """Bytes of the pieces that CUDA copied."""
    return [int(n) for n in re.findall(r"^copied (\d+)$", told, re.MULTILINE)]


@needs_compiler
@pytest.mark.parametrize("unified", ["", "0"])
def test_by_cuda(devices, cuda, unified):
    """Memory that the host reads in place, and memory that it does not."""
    told = run(devices, cuda, MLX_VK_UNIFIED=unified, UNTOUCHED="1")
    # Arrays of 256 KiB go that way, those of eight bytes less and smaller ones do not.
    # The first in each direction is a trial.
    assert len(copied(told)) > 50 and {256 << 10, 1 << 20, (4 << 20) - 8} <= set(copied(told))
    assert not {8, 4096, (64 << 10) + 8, (256 << 10) - 8} & set(copied(told))
    # Larger ones go in pieces.
    assert max(copied(told)) == 16 << 20
    # Memory is mapped once for as long as it lives.
    imported, gone = told.count("imported "), told.count("let go ")
    assert imported < len(copied(told)) and gone == imported


@pytest.mark.parametrize(
    ("disabled", "way"),
    [
        ("", "over memory of both"),
        ("shared_copy", "through staging"),
        ("copy_queue", "through staging"),
        ("staged_copy", None),
    ],
)
def test_through_the_host(devices, disabled, way):
    """By memory of the host that both have, by staging memory of each, and by the host alone."""
    extra = {"MLX_VK_UNIFIED": "0", "UNTOUCHED": "1", "MLX_VK_DISABLE": disabled}
    ways = re.findall(
        r"^crossing ?(.*)$", run(devices, output=True, WAY="1", **extra), re.MULTILINE
    )
    sizes = [2 << 20, 70 << 20] * 2
    assert ways == [f"{size} bytes {way}" if way else "" for size in sizes]


@needs_compiler
@pytest.mark.parametrize("disabled", ["peer_copy", "external_memory", "peer_copy,staged_copy"])
def test_without_cuda(devices, cuda, disabled):
    told = run(devices, cuda, MLX_VK_UNIFIED="0", SHORT="1", MLX_VK_DISABLE=disabled)
    assert not copied(told) and "imported" not in told


@needs_compiler
@pytest.mark.parametrize("function", ASKED)
def test_what_cuda_refuses_goes_through_the_host(devices, cuda, function):
    told = run(devices, cuda, MLX_VK_UNIFIED="0", SHORT="sizes", STAND_IN_CUDA_FAILS=function)
    assert not copied(told)


@needs_compiler
@pytest.mark.parametrize("function", LATER)
def test_failures_on_the_way(devices, cuda, function):
    told = run(devices, cuda, MLX_VK_UNIFIED="0", SHORT="1", STAND_IN_CUDA_FAILS=function)
    # Two directions, each of which is given up once; copies before that are good.
    assert 1 <= len(copied(told)) <= 16


@needs_compiler
@pytest.mark.parametrize(
    "variables", [{"STAND_IN_PEERS": "0"}, {"STAND_IN_GPUS": "0"}, {"STAND_IN_UUID": "0" * 32}]
)
def test_gpus_that_cuda_does_not_join(devices, cuda, variables):
    assert not copied(run(devices, cuda, MLX_VK_UNIFIED="0", SHORT="1", **variables))


@needs_compiler
def test_wrong_bytes_are_noticed_before_they_count(devices, cuda):
    """Some hosts say that GPUs reach each other, and something else arrives."""
    told = run(devices, cuda, MLX_VK_UNIFIED="0", SHORT="1", STAND_IN_CUDA_CORRUPTS="1")
    assert copied(told) == [256 << 10] * 2
