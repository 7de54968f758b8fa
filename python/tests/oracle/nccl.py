"""Groups over NCCL on two NVIDIA GPUs, every operation against NumPy: arrays stay there or do not.

Run by hand where there are two: `python -m pytest python/tests/oracle/nccl.py`.
"""

import os
import pathlib
import subprocess
import sys

import mlx.core as mx
import numpy as np
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
@pytest.mark.parametrize("program", ["everything", "large"])
def test_programs(program, disabled):
    extra = {"ROWS": "64", "MLX_VK_DISABLE": disabled}
    port = 23500 + len(program) + len(disabled)
    assert all("fine" in o for o in run([PROGRAMS, program], port, **extra))


def test_arrays_that_stay():
    assert all("fine" in o for o in run([__file__], 23550))


def equal(got, want, what):
    """Small whole numbers: sums are exact in every dtype."""
    want = mx.array(want).astype(got.dtype)
    assert got.shape == want.shape and mx.array_equal(got, want).item(), what


def each(group, name, count):
    """One dtype and length, which is on either side of the switch."""
    dist, rank, dtype = mx.distributed, group.rank(), getattr(mx, name)
    parts = [np.random.RandomState(5 + k).randint(0, 5, (count,)) for k in range(2)]
    total, what = sum(parts), (name, count)
    a = mx.array(parts[rank]).astype(dtype) * 1
    equal(dist.all_sum(a), total, what)
    equal(dist.all_sum(a) * 2 + 1, total * 2 + 1, what)
    equal(dist.all_gather(a), np.concatenate(parts), what)
    # Views, and bytes that only one process has on its GPU.
    equal(dist.all_sum(a[1:]), total[1:], what)
    equal(dist.all_sum(a[::2]), total[::2], what)
    equal(dist.all_sum(a if rank == 0 else mx.add(a, 0, stream=mx.cpu)), total, what)
    if count % 2 == 0:
        half = count // 2
        equal(dist.sum_scatter(a), total[rank * half : (rank + 1) * half], what)
    if rank == 0:
        mx.eval(dist.send(a, 1))
    else:
        equal(dist.recv_like(a, 0), parts[0], what)


def main():
    mx.set_default_device(mx.gpu)
    group = mx.distributed.init(strict=True, backend="nccl")
    rank = group.rank()
    for name in ("float32", "bfloat16", "float16", "int32", "int64", "uint8", "complex64"):
        for count in (1000, 65_536, 262_144, 1_048_577, 3_000_001):
            each(group, name, count)
    # Memory that comes and goes.
    for i in range(30):
        x = mx.random.normal((1 << 20,)) * 0 + (rank + i)
        assert mx.all(mx.distributed.all_sum(x) == 1 + 2 * i).item(), i
        if i % 10 == 9:
            mx.clear_cache()
    ones = mx.ones((1 << 20,))
    gradient = mx.grad(lambda v: (mx.distributed.all_sum(v) ** 2).sum())(ones)
    assert mx.all(gradient == 4).item()
    print("fine")


if __name__ == "__main__":
    main()
