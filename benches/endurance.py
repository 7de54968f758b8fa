"""Whether memory stays flat: a million evaluations, 100,000 compiled functions, 10,000 streams, as
many errors and files, all let go.

python benches/endurance.py --device gpu                   in full: 40 minutes on a software driver
python benches/endurance.py --device cpu --scale 0.01      a hundredth of it
python benches/endurance.py --only streams compiled        some of it

Each loop runs a tenth first, so that caches and pools fill. Ends with 1 where the process or the
arrays took more memory afterwards than then, by more than 8 MB.
"""

import argparse
import gc
import io
import pathlib
import re
import sys
import time

import mlx.core as mx

SLACK = 8 << 20


def evaluations(n):
    """Of graphs of a few operations, a third each by eval, async_eval and item."""
    x = mx.arange(64, dtype=mx.float32)
    w = mx.ones((64, 8))
    for i in range(n):
        y = mx.tanh(x * 2 + i % 7) @ w
        if i % 3 == 0:
            mx.eval(y)
        elif i % 3 == 1:
            mx.async_eval(y)
        else:
            mx.sum(y).item()


def compiled(n):
    """Functions that differ in a constant, each called and let go. Their kernels are a few."""
    x = mx.ones((16,))
    for i in range(n):
        f = mx.compile(lambda a, c=float(i % 5): mx.exp(a * 2) + c)
        mx.eval(f(x))


def gradients(n):
    x = mx.ones((16,))
    for i in range(n):
        mx.eval(mx.grad(lambda a: mx.sum(mx.sin(a) * a))(x))
        if i % 4 == 0:
            mx.eval(mx.vmap(lambda a: a * a + 1)(x))


def streams(n):
    """Each does something and is let go."""
    for _ in range(n):
        s = mx.new_stream(mx.default_device())
        with mx.stream(s):
            mx.eval(mx.ones((4,)) + 1)
        del s


def errors(n):
    """Of arguments, of shapes and of files."""
    x = mx.ones((3, 4))
    for i in range(n):
        try:
            if i % 3 == 0:
                x @ x
            elif i % 3 == 1:
                mx.array([[1.0], [2.0, 3.0]])
            else:
                mx.load(io.BytesIO(b"\x93NUMPY broken"), format="npy")
        except (ValueError, RuntimeError):
            pass


def files(n):
    a = {"a": mx.ones((64, 64)), "b": mx.arange(10)}
    for _ in range(n):
        f = io.BytesIO()
        mx.save_safetensors(f, a)
        f.seek(0)
        mx.eval(mx.load(f, format="safetensors"))


LOOPS = {
    evaluations: 1_000_000,
    compiled: 100_000,
    gradients: 100_000,
    streams: 10_000,
    errors: 300_000,
    files: 30_000,
}


def resident():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) << 10


def settled():
    gc.collect()
    mx.synchronize()
    mx.clear_cache()
    return resident(), mx.get_active_memory()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [f.__name__ for f in LOOPS]
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers (1.0)")
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    args = parser.parse_args()
    mx.set_default_device(getattr(mx, args.device))
    grown = False
    print(f"{'loop':12} {'times':>9} {'seconds':>8} {'process':>18} {'arrays':>14}")
    for f, n in LOOPS.items():
        if f.__name__ not in args.only:
            continue
        n = max(20, round(n * args.scale))
        f(n // 10)
        before = settled()
        begin = time.perf_counter()
        f(n)
        seconds = time.perf_counter() - begin
        after = settled()
        process, arrays = (b - a for a, b in zip(before, after, strict=True))
        print(
            f"{f.__name__:12} {n:9} {seconds:8.1f} {after[0] >> 20:6} MB ({process / 2**20:+6.1f})"
            f" {after[1] >> 10:6} kB ({arrays / 2**10:+.0f})",
            flush=True,
        )
        grown |= process > SLACK or arrays > 1 << 16
    return int(grown)


if __name__ == "__main__":
    sys.exit(main())
