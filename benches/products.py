"""Matrix products of any shape beside PyTorch on the same card.

    python benches/products.py                         the shapes of the table, bfloat16, nn and nt
    python benches/products.py --sweep 200             shapes by chance, of 1 to 16,384
    MLX_VK_DISABLE=matmul_nv2 python benches/products.py        what cards of other makers run
    python benches/products.py --dtype float32 --json products.json

`cold` are the first calls of a neighbour, a little longer in K and N, in which kernels may be
compiled; `new` the first calls of the shape itself behind some milliseconds of those, as in a
program whose shapes change: what is not there yet are kernels of its own, not memory; `steady` is
the best of several loops after that. The ratio is PyTorch's time to the steady one.
"""

import argparse
import json
import pathlib
import statistics
import time

import mlx.core as mx
import numpy as np
from models import warm

try:
    import torch
except ImportError:
    torch = None
try:
    from tqdm import tqdm
except ImportError:
    tqdm = list

TABLE = [
    (8192, 8192, 8192),
    (512, 4096, 12288),
    (8192, 768, 3072),
    (4096, 512, 4096),
    (2047, 2047, 2047),
    (300, 7000, 5000),
    (128, 4096, 4096),
    (64, 8192, 8192),
    (32, 4096, 12288),
    (16, 4096, 4096),
    (8, 4096, 4096),
    (8192, 8192, 64),
    (8192, 64, 8192),
]


def by_chance(count, most=2e12):
    """Shapes whose logarithms are spread evenly, a third of them odd."""
    rng, shapes = np.random.default_rng(22), []
    while len(shapes) < count:
        m, k, n = (int(2 ** rng.uniform(0, 14)) for _ in range(3))
        if rng.random() < 2 / 3:
            m, k, n = (max(1, x // 16 * 16) for x in (m, k, n))
        if 2.0 * m * k * n <= most and k * n > 1:
            shapes.append((m, k, n))
    return shapes


#: Seconds of first calls.
FIRST = 0.01


def first_calls(call, wait, count=3):
    """Seconds of each of the first calls."""
    begin = time.perf_counter()
    for _ in range(count):
        out = call()
    wait(out)
    return (time.perf_counter() - begin) / count


def loop(call, wait, budget):
    """The first seconds of a call and the least ones."""
    first = first_calls(call, wait)
    time.sleep(0.02)
    for _ in range(3):
        begin = time.perf_counter()
        wait(call())
        once = time.perf_counter() - begin
    count, best, end = int(min(max(budget / 4 / once, 1), 300)), once, time.perf_counter() + budget
    while time.perf_counter() < end:
        begin = time.perf_counter()
        for _ in range(count):
            out = call()
        wait(out)
        best = min(best, (time.perf_counter() - begin) / count)
    return first, best


def neighbour(shape):
    """A shape of the same kind: multiples of 16 stay some, and odd lengths odd."""
    m, k, n = shape
    return m, *(x + (64 if x % 16 == 0 else 2) for x in (k, n))


def product(dtype, shape, turned):
    """What multiplies matrices of a shape, and what waits for it."""
    m, k, n = shape
    a = (mx.random.normal((m, k)) / 8).astype(getattr(mx, dtype))
    b = (mx.random.normal((n, k) if turned else (k, n)) / 8).astype(getattr(mx, dtype))
    mx.eval(a, b)

    def call():
        out = a @ (b.T if turned else b)
        mx.async_eval(out)
        return out

    def wait(out):
        mx.eval(out)
        mx.synchronize()

    return call, wait


def ours(dtype, shape, turned, budget):
    """Seconds of the first calls, of a neighbour's and of its own, and the least ones."""
    beside = product(dtype, neighbour(shape), turned)
    cold, steady = loop(*beside, budget)
    call, wait = product(dtype, shape, turned)
    warm(0.03)
    # As many calls as take a while, of both: fewer are the host's time, which waits for the last.
    count = max(3, round(FIRST / steady))
    first_calls(*beside, count)
    new = first_calls(call, wait, count)
    return cold, new, loop(call, wait, budget)[1]


def theirs(dtype, shape, turned, budget):
    m, k, n = shape
    make = {"device": "cuda", "dtype": getattr(torch, dtype)}
    a, b = torch.randn(m, k, **make), torch.randn(*((n, k) if turned else (k, n)), **make)
    return loop(lambda: a @ (b.T if turned else b), lambda _: torch.cuda.synchronize(), budget)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--shape", action="append", help="M,K,N in place of the table, many times")
    parser.add_argument("--sweep", type=int, default=0, help="so many shapes by chance")
    parser.add_argument("--budget", type=float, default=0.05, help="seconds a case and side")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    mx.set_default_device(mx.gpu)
    shapes = by_chance(args.sweep) if args.sweep else TABLE
    if args.shape:
        shapes = [tuple(map(int, text.split(","))) for text in args.shape]
    forms = [False, True] if not args.sweep else [False]
    rows = []
    for i, shape in enumerate(tqdm(shapes)):
        for turned in forms if not args.sweep else [bool(i % 2)]:
            cold, new, best = ours(args.dtype, shape, turned, args.budget)
            peer = theirs(args.dtype, shape, turned, args.budget)[1] if torch else float("nan")
            work = 2.0 * shape[0] * shape[1] * shape[2]
            rows.append(
                {
                    "shape": shape,
                    "form": "nt" if turned else "nn",
                    "cold": work / cold / 1e12,
                    "new": work / new / 1e12,
                    "steady": work / best / 1e12,
                    "torch": work / peer / 1e12,
                    "ratio": peer / best,
                    "us": best * 1e6,
                }
            )
            mx.clear_cache()
    if args.sweep:
        rows.sort(key=lambda r: r["ratio"])
    line = (
        "{:>20}   {form}  {cold:6.1f}  {new:6.1f}  {steady:6.1f}  {torch:6.1f}         "
        "{ratio:5.2f}  {us:7.1f}"
    )
    print(f"{'M K N':>20} form    cold     new  steady  torch TFLOP/s  ratio      us")
    for r in rows:
        print(line.format(" ".join(map(str, r["shape"])), **r))
    ratios = [r["ratio"] for r in rows]
    low = sum(x < 0.6 for x in ratios)
    print(f"median {statistics.median(ratios):.2f}, {low} of {len(ratios)} below 0.6")
    known = [r["new"] / r["steady"] for r in rows]
    low = sum(x < 0.8 for x in known)
    print(f"new beside steady: median {statistics.median(known):.2f}, {low} below 0.8")
    if args.json:
        args.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
