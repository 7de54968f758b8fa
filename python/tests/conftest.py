"""Session setup: the device under test, its seed and the tests that need a GPU.

pytest --device cpu|gpu (or MLX_TEST_DEVICE) sets the default device of the whole session.
"""

import os
import zlib

import mlx.core as mx
import numpy as np
import pytest

#: Sums are cut on a software driver as on a card of 132 units: the kernels for parts run too.
LARGE_CARD = [
    "fill = 264",
    "attention_groups = 128",
    "attention_token_groups = 264",
    "gemv_few_rows = 2048",
    "reduce_rows = 2048",
    "reduce_columns = 528",
    "reduce_few_lanes = 64",
    "scan_few = 264",
    "scan_parts = 1056",
    "sort_busy = 128",
    "scatter_lanes = 262144",
]


def pytest_addoption(parser):
    device = os.environ.get("MLX_TEST_DEVICE", "cpu")
    parser.addoption("--device", choices=["cpu", "gpu"], default=device, help="device under test")
    parser.addoption("--seed", type=int, default=20, help="seed of all random inputs")


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs a GPU stream; not collected for --device cpu")
    config.addinivalue_line("markers", "validation: small enough to run under a validation layer")
    config.addinivalue_line("markers", "timestamps: not collected where a GPU cannot tell the time")
    device = config.getoption("--device")
    if device == "gpu" and not mx.is_available(mx.gpu):
        raise pytest.UsageError(
            "--device gpu: no Vulkan device was found (a software driver will do)"
        )
    mx.set_default_device(getattr(mx, device))
    os.environ["MLX_TEST_DEVICE"] = device
    if device == "gpu" and mx.vulkan.describe()["kind"] == "software":
        mx.vulkan._tune_set(0, LARGE_CARD)


def pytest_report_header(config):
    seed = config.getoption("--seed")
    return f"mlx.core {mx.__version__}, {mx.default_device()} {mx.device_info()}, --seed {seed}"


def pytest_collection_modifyitems(config, items):
    marker = "gpu"
    if config.getoption("--device") == "gpu":
        if mx.vulkan.describe()["timestamps"]:
            return
        marker = "timestamps"
    gone = [item for item in items if item.get_closest_marker(marker)]
    items[:] = [item for item in items if not item.get_closest_marker(marker)]
    config.hook.pytest_deselected(items=gone)


@pytest.fixture
def rng(request):
    """A generator seeded by the test's name; the seed is shown when the test fails."""
    seed = [request.config.getoption("--seed"), zlib.crc32(request.node.name.encode())]
    print(f"seed {seed}")
    mx.random.seed(seed[0])
    return np.random.default_rng(seed)


@pytest.fixture(autouse=True)
def same_device(request):
    """A test that changes the default device or stream does not change it for the next one."""
    device = getattr(mx, request.config.getoption("--device"))
    mx.set_default_device(device)
    yield
    mx.set_default_device(device)


@pytest.fixture
def none_disabled():
    """Every kernel variant may be chosen, whatever the environment says."""
    before = mx.vulkan._set_disabled([])
    yield
    mx.vulkan._set_disabled(before)
