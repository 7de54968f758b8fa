"""Times copies between two GPUs of one process, each way, by size.

python benches/copies.py
MLX_VK_DISABLE=peer_copy python benches/copies.py                 through staging memory
MLX_VK_DISABLE=peer_copy,staged_copy python benches/copies.py     through memory of the host

Each array is fresh memory of one GPU, of which the other reads two elements, so that all of it goes
over. A line for each size and direction: the median of the repeats, the fastest, and GB/s. The
first copy between two GPUs, which finds out how they reach each other, has a line of its own.
"""

import argparse
import os
import statistics
import time

import mlx.core as mx
import numpy as np

try:
    from tqdm import tqdm
except ImportError:
    tqdm = None

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--gpus", type=int, nargs=2, default=[0, 1], help="which two")
parser.add_argument("--mib", type=int, nargs="+", default=[1, 16, 64, 256, 1024], help="sizes")
parser.add_argument("--seconds", type=float, default=2.0, help="about how long a size is measured")


def fresh(source, count):
    x = mx.arange(count, dtype=mx.float32, stream=source)
    mx.eval(x)
    mx.synchronize(mx.default_stream(source))
    return x


def measure(source, target, count):
    """Seconds of one copy."""
    x = fresh(source, count)
    begin = time.perf_counter()
    last = mx.negative(x[-2:], stream=target)
    mx.eval(last)
    mx.synchronize(mx.default_stream(target))
    seconds = time.perf_counter() - begin
    assert np.array_equal(last, mx.negative(x[-2:], stream=source)), "wrong values"
    return seconds


def check(source, target, count):
    """That all elements arrive."""
    x = fresh(source, count)
    there = mx.add(x, 1, stream=target)
    here = mx.add(fresh(source, count), 1, stream=source)
    assert np.array_equal(there, here), f"wrong values in {4 * count} bytes"


def main():
    arguments = parser.parse_args()
    if mx.device_count(mx.gpu) <= max(arguments.gpus):
        raise SystemExit(f"needs GPUs {arguments.gpus}, there are {mx.device_count(mx.gpu)}")
    devices = [mx.Device(mx.gpu, i) for i in arguments.gpus]
    ways = [devices, devices[::-1]]
    disabled = os.environ.get("MLX_VK_DISABLE", "")
    print(f"{mx.device_info(devices[0])['device_name']}, MLX_VK_DISABLE={disabled}")
    for source, target in ways:
        # What kernels cost at their first use is not a copy's.
        measure(source, source, 1024)
        measure(target, target, 1024)
        seconds = measure(source, target, (16 << 20) // 4)
        print(
            f"gpu {source.index} -> {target.index}  first copy {seconds * 1e3:>10.1f} ms",
            flush=True,
        )
    work = [(mib, way) for mib in arguments.mib for way in ways]
    for mib, (source, target) in tqdm(work, disable=None) if tqdm else work:
        count = (mib << 20) // 4
        check(source, target, count)
        repeats = max(5, min(100, int(arguments.seconds * 20e9 / (8 * count + 4e6))))
        times = [measure(source, target, count) for _ in range(repeats)]
        median, best = statistics.median(times), min(times)
        line = f"gpu {source.index} -> {target.index} {mib:>6} MiB {median * 1e6:>10.1f} us"
        line += f" (best {best * 1e6:>10.1f}) {4 * count / median / 1e9:>8.2f} GB/s"
        tqdm.write(line) if tqdm else print(line, flush=True)


if __name__ == "__main__":
    main()
