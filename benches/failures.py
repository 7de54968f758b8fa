#!/usr/bin/env python3
"""What a GPU does when memory runs out, when it is lost, and when a kernel does not end.

python benches/failures.py           all parts on the first GPU, each in a process of its own
python benches/failures.py memory    one of them: memory, lost, endless

Each part takes less than a minute on a GPU and prints what it saw; a wrong value, a hang or an
error without a reason ends the script with status 1. The kernel without end is given up after three
seconds (MLX_VK_TIMEOUT); a driver may end it earlier by losing the device, which is as good.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent / "python" / "tests"
LIMIT = 120


def memory():
    """Out of memory at every allocation of a training step, for good and once."""
    import fault_sweep

    print(f"{'workload':12} {'fails (+: and all after)':24} calls  outcomes")
    show(fault_sweep.sweep("training", ["allocation", "submission", "host_memory"], 1000))


def lost():
    """A lost device at submissions and waits of every workload, and again and again."""
    import fault_sweep
    import mlx.core as mx

    for name in fault_sweep.WORKLOADS:
        if name != "fresh_kernels":
            show(fault_sweep.sweep(name, fault_sweep.LOST, 3))
            print(f"{'':12} {held()}")
    for n in range(1, 61):
        x = mx.arange(90_000)
        mx.eval(x)
        mx.vulkan._fault("lost_submission@1")
        try:
            mx.eval(mx.exp(x / n))
            raise AssertionError("no loss")
        except RuntimeError as e:
            assert "lost" in str(e), e
        mx.vulkan._fault("off")
        assert mx.sum(mx.arange(300) * 2).item() == 300 * 299
        if n in (1, 10, 60):
            print(f"{n:3} losses   {held()}")


def held():
    """What the process has of the system."""
    if not os.path.isdir("/proc/self/task"):
        return ""
    with open("/proc/self/maps") as maps:
        mappings = len(list(maps))
    files, threads = (len(os.listdir(f"/proc/self/{kind}")) for kind in ("fd", "task"))
    return f"{files} descriptors, {threads} threads, {mappings} mappings"


def show(rows):
    for name, kind, calls, outcomes, texts in rows:
        print(f"{name:12} {kind:24} {calls:5}  {outcomes}  {texts[0][:100]}")


def endless():
    """A kernel of some minutes with MLX_VK_TIMEOUT."""
    import fault_sweep
    import mlx.core as mx

    space = {"mx": mx}
    exec(fault_sweep.ENDLESS, space)
    z, x = space["z"], space["other"]
    start = time.perf_counter()
    try:
        mx.eval(z)
    except RuntimeError as e:
        print(f"after {time.perf_counter() - start:.1f} s: {e}")
    else:
        raise AssertionError("the kernel ended; make it longer")
    start = time.perf_counter()
    total = mx.sum(mx.arange(300) * 2).item()
    print(f"the next operation: {total} after {time.perf_counter() - start:.1f} s")
    assert total == 300 * 299
    try:
        print("an array of the host:", mx.sum(x).item())
    except RuntimeError as e:
        print("an array of the device:", e)
    try:
        z.tolist()
        raise AssertionError("the result was read")
    except RuntimeError as e:
        print("the result:", e)


PARTS = {f.__name__: f for f in (memory, lost, endless)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", choices=list(PARTS))
    part = parser.parse_args().part
    if part:
        if part == "endless":
            os.environ.setdefault("MLX_VK_TIMEOUT", "3")
        import mlx.core as mx

        sys.path.insert(0, str(TESTS))
        mx.set_default_device(mx.gpu)
        start = time.perf_counter()
        PARTS[part]()
        return print(f"{time.perf_counter() - start:.1f} s")
    status = 0
    for name in PARTS:
        start = time.perf_counter()
        try:
            run = subprocess.run([sys.executable, __file__, name], timeout=LIMIT)
            ended = f"status {run.returncode}"
            status |= run.returncode != 0
        except subprocess.TimeoutExpired:
            ended, status = f"not ended after {LIMIT} s", 1
        print(f"{name}: {ended}, {time.perf_counter() - start:.1f} s\n", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
