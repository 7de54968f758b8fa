"""Times all_sum over a group of processes, by size.

mlx.launch --backend nccl -n 2 python benches/distributed.py
torchrun --nproc-per-node 2 benches/distributed.py --torch

The first line measures this library over the backend that started the processes, the second
PyTorch's NCCL. The first process prints a line for each size: bytes, the median of the repeats, the
bandwidth of an algorithm that moves 2 (n - 1) / n of the bytes, and what one of 20 sums takes of
which each needs the one before it, halved by the device.
"""

import argparse
import os
import statistics
import time

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--torch", action="store_true", help="measure PyTorch")
parser.add_argument("--largest", type=int, default=1 << 30, help="bytes of the largest array")
parser.add_argument("--seconds", type=float, default=1.0, help="about how long a size is measured")

# Sums of which each needs the one before it.
LINKS = 20
SIZES = [*(1024 * 4**i for i in range(9)), 128 << 20, 256 << 20, 1 << 30]


def with_torch():
    import torch

    dist = torch.distributed
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))

    def prepare(count):
        x = torch.ones(count, device="cuda")

        def call():
            dist.all_reduce(x, op=dist.ReduceOp.AVG)
            torch.cuda.synchronize()

        def chain():
            for _ in range(LINKS):
                dist.all_reduce(x.mul_(0.5))
            torch.cuda.synchronize()

        return call, chain

    return dist.get_rank(), dist.get_world_size(), "torch nccl", prepare


def with_mlx():
    import mlx.core as mx

    group = mx.distributed.init(strict=True)

    def prepare(count):
        x = mx.ones((count,))
        mx.eval(x)

        def chain():
            y = x
            for _ in range(LINKS):
                y = mx.distributed.all_sum(y * 0.5)
            mx.eval(y)

        return lambda: mx.eval(mx.distributed.all_sum(x)), chain

    return group.rank(), group.size(), f"mlx {mx.default_device()}", prepare


def seconds(call, repeats):
    """How long each call takes."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return times


def main():
    arguments = parser.parse_args()
    rank, count, name, prepare = with_torch() if arguments.torch else with_mlx()
    for size in (s for s in SIZES if s <= arguments.largest):
        call, chain = prepare(size // 4)
        seconds(call, 3)
        # As many on every process, whatever the clocks say: by the size alone.
        repeats = max(5, min(200, int(arguments.seconds * 1e9 / (size + 1e6))))
        median = statistics.median(seconds(call, repeats))
        seconds(chain, 1)
        link = statistics.median(seconds(chain, max(3, repeats // LINKS))) / LINKS
        moved = 2 * (count - 1) / count * size / median / 1e9
        if rank == 0:
            times = f"{median * 1e6:>10.1f} us {moved:>8.2f} GB/s {link * 1e6:>10.1f} us a link"
            print(f"{name} {size:>11} bytes {times}", flush=True)


if __name__ == "__main__":
    main()
