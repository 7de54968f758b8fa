"""Times what goes between the host and a GPU: NumPy arrays both ways, and files of weights.

python benches/transfers.py            this library
python benches/transfers.py --torch    PyTorch, from ordinary and from pinned memory

A line for each size: GB/s of the fastest of the repeats. Up: from a NumPy array to where a kernel
reads all of it. Down: from the result of a kernel to a NumPy array, of this library's memory, or
copied to NumPy's own, which is fresh each time. Files lie in the system's cache of pages; what is
measured ends when kernels have read all weights.
"""

import argparse
import os
import tempfile
import time

import numpy as np

try:
    from tqdm import tqdm
except ImportError:
    tqdm = None

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--torch", action="store_true", help="measure PyTorch")
parser.add_argument("--mib", type=int, nargs="+", default=[1, 16, 256, 1024], help="sizes")
parser.add_argument("--repeats", type=int, default=5)
parser.add_argument("--shards", type=int, default=4, help="files of weights")


def fastest(f, repeats):
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        kept = f()
        best = min(best, time.perf_counter() - begin)
        del kept
    return best


class Ours:
    name = "mlx"

    def __init__(self):
        import mlx.core as mx

        if not mx.is_available(mx.gpu):
            raise SystemExit("needs a GPU")
        mx.set_default_device(mx.gpu)
        self.mx = mx

    def done(self, x):
        self.mx.eval(x)
        self.mx.synchronize()

    def up(self, a):
        x = self.mx.array(a)
        self.done(self.mx.max(x))
        return x

    def make(self, count):
        x = self.mx.arange(count, dtype=self.mx.float32)
        self.done(x)
        return x

    def down(self, x):
        return np.asarray(x)

    def copied(self, x):
        return np.array(x)

    def ways(self):
        nothing = lambda a: None  # noqa: E731
        ways = {"up": (lambda a: a, self.up), "down": (nothing, self.down)}
        return ways | {"down, copied": (nothing, self.copied)}


class Torch:
    name = "torch"

    def __init__(self):
        import torch

        self.torch = torch

    def make(self, count):
        x = self.torch.arange(count, dtype=self.torch.float32, device="cuda")
        self.torch.cuda.synchronize()
        return x

    def up(self, t):
        x = t.cuda(non_blocking=True)
        self.torch.cuda.synchronize()
        return x

    def down(self, x):
        return x.cpu().numpy()

    def down_pinned(self, x):
        host = self.torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
        host.copy_(x, non_blocking=True)
        self.torch.cuda.synchronize()
        return host

    def ways(self):
        plain = self.torch.from_numpy
        return {
            "up": (plain, self.up),
            "down": (lambda a: None, self.down),
            "up, pinned": (lambda a: plain(a).pin_memory(), self.up),
            "down, pinned": (lambda a: None, self.down_pinned),
        }


def files(peer, mib, shards, repeats):
    """Weights in safetensors files."""
    mx = peer.mx
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, f"{i}.safetensors") for i in range(shards)]
        for i, path in enumerate(paths):
            part = np.random.default_rng(i).random((mib << 20) // shards // 16 // 4, np.float32)
            mx.save_safetensors(path, {f"{i}.{k}": mx.array(part) for k in range(16)})

        def load():
            weights = [w for p in paths for w in mx.load(p).values()]
            peer.done([mx.max(w) for w in weights])
            return weights

        return fastest(load, repeats)


def tell(peer, mib, what, seconds):
    rate = (mib << 20) / seconds / 1e9
    print(f"{peer} {mib:>5} MiB {what:<13} {seconds * 1e3:>9.2f} ms {rate:>7.1f} GB/s", flush=True)


def main():
    arguments = parser.parse_args()
    peer = Torch() if arguments.torch else Ours()
    for mib in tqdm(arguments.mib, disable=None) if tqdm else arguments.mib:
        count = (mib << 20) // 4
        a = np.random.default_rng(0).random(count, np.float32)
        for name, (prepare, way) in peer.ways().items():
            if name.startswith("up"):
                source = prepare(a)
                seconds = fastest(lambda s=source, w=way: w(s), arguments.repeats)
            else:
                xs = iter([peer.make(count) for _ in range(arguments.repeats)])
                seconds = fastest(lambda i=xs, w=way: w(next(i)), arguments.repeats)
                del xs
            tell(peer.name, mib, name, seconds)
        if not arguments.torch and mib >= 256:
            tell(peer.name, mib, "files", files(peer, mib, arguments.shards, arguments.repeats))


if __name__ == "__main__":
    main()
