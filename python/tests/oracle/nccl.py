"""Groups over NCCL on two NVIDIA GPUs, every operation against NumPy: arrays stay there or do not.

Run by hand where there are two: `python -m pytest python/tests/oracle/nccl.py`.
"""

import os
import pathlib
import subprocess
import sys

import pytest

PROGRAMS = pathlib.Path(__file__).parent.parent / "distributed_programs.py"
ADDRESS = {"NCCL_HOST_IP": "127.0.0.1", "MLX_WORLD_SIZE": "2", "BACKEND": "nccl"}


def two_cards():
    code = "import mlx.core as mx"
    code += "; print(mx.device_count(mx.gpu) > 1 and mx.distributed.is_available('nccl'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.stdout.strip() == "True"


pytestmark = pytest.mark.skipif(not two_cards(), reason="needs two GPUs and NCCL")


def run(words, port, **more):
    """Output of both processes, which have to end well."""
    begun = []
    for rank in range(2):
        own = {"MLX_RANK": str(rank), "MLX_VK_DEVICE": str(rank), "NCCL_PORT": str(port)}
        env = {**os.environ, **ADDRESS, **own, "MLX_TEST_DEVICE": "gpu", **more}
        command = [sys.executable, *map(str, words)]
        begun.append(subprocess.Popen(command, env=env, stdout=-1, stderr=-2, text=True))
    told = [p.communicate(timeout=240)[0] for p in begun]
    assert [p.returncode for p in begun] == [0, 0], told
    return told


@pytest.mark.parametrize("disabled", ["", "external_memory"])
@pytest.mark.parametrize("program", ["everything", "large", "on_gpus"])
def test_programs(program, disabled):
    extra = {"ROWS": "64", "MLX_VK_DISABLE": disabled}
    port = 23500 + 2 * len(program) + bool(disabled)
    assert all("fine" in o for o in run([PROGRAMS, program], port, **extra))
