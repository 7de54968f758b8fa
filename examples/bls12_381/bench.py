"""Measures the kernels of BLS12-381, and checks them.

    python -m bls12_381.bench                      (in examples/) all measurements
    python -m bls12_381.bench --check 1000000      against Python integers instead
    python -m bls12_381.bench resident --sizes 64 4096 --json out/bls.json --plot out/bls.png

Measurements:
  resident   elements per second by batch size, operands and results in device memory
  variants   how a product is written: 64-bit or 32-bit products, unrolled or in a loop
  oneshot    device, pipeline and buffers made for one call, against the warm path
  pipelined  jobs from NumPy to NumPy, streamed against one after another
"""

import argparse
import functools
import json
import os
import pathlib
import subprocess
import sys
import time

import mlx.core as mx
import numpy as np

from . import curve, field
from .check import check, random_limbs

SIZES = [64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304]
ONESHOT = [64, 1024, 4096, 16384, 65536]
JOBS = [(4, 16384), (8, 4194304)]


def median(f, seconds=0.2, least=5, most=200):
    """Median time of f; f waits for its work."""
    f()
    times = []
    end = time.perf_counter() + seconds
    while len(times) < least or (len(times) < most and time.perf_counter() < end):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def per_call(f, calls):
    """Seconds of one of `calls` calls that are handed over together, and waited for once."""

    def run():
        mx.eval([f() for _ in range(calls)])

    return median(run) / calls


def print_table(title, header, rows):
    cells = [header, *[[c if isinstance(c, str) else f"{c:.4g}" for c in row] for row in rows]]
    widths = [max(len(row[k]) for row in cells) for k in range(len(header))]
    print(f"\n{title}")
    for row in cells:
        print("  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)), flush=True)


def operands(rng, n, count=2):
    arrays = [mx.array(random_limbs(rng, n)) for _ in range(count)]
    mx.eval(arrays)
    # A kernel reads them once, so that they lie on the device.
    mx.eval([field.is_canonical(x) for x in arrays])
    return arrays


RESIDENT = {
    "add": lambda x: field.add(x["a"], x["b"]),
    "subtract": lambda x: field.subtract(x["a"], x["b"]),
    "multiply": lambda x: field.multiply(x["a"], x["b"]),
    "invert": lambda x: field.invert(x["a"]),
    "point add": lambda x: curve.add(x["p"], x["q"]),
    "point double": lambda x: curve.double(x["p"]),
}


def resident(args, rng):
    rows = []
    for n in args.sizes:
        a, b = operands(rng, n)
        # Any numbers do for measuring the kernels of points.
        x = {"a": a, "b": b, "p": mx.stack([a, b, a], axis=1), "q": mx.stack([b, a, b], axis=1)}
        mx.eval(x)
        calls = max(1, min(64, (1 << 25) // n))
        one = per_call(functools.partial(RESIDENT["multiply"], x), 1)
        row = {"elements": n, "one multiply": one}
        for name, f in RESIDENT.items():
            few = name not in ("add", "subtract", "multiply")
            row[name] = n / per_call(functools.partial(f, x), max(1, calls // 16) if few else calls)
        rows.append(row)
    print_table(
        "resident: elements per second (and seconds of a single multiply, waited for)",
        list(rows[0]),
        [[f"{r['elements']}", *list(r.values())[1:]] for r in rows],
    )
    return rows


def variants(args, rng):
    rows = []
    n = max(args.sizes)
    for bits, dtype in [(64, np.uint64), (32, np.uint32)]:
        a, b = (mx.array(random_limbs(rng, n, dtype)) for _ in range(2))
        mx.eval(field.add(a, b))
        for wide in (True, False):
            for unrolled in (True, False):
                f = functools.partial(field.multiply, a, b, wide=wide, unrolled=unrolled)
                rows.append(
                    {
                        "words in memory": f"{bits} bits",
                        "products": "uint64" if wide else "umulExtended",
                        "rounds": "unrolled" if unrolled else "loop",
                        "per second": n / per_call(f, 8),
                    }
                )
    print_table(
        f"variants of multiply, {n} elements", list(rows[0]), [list(r.values()) for r in rows]
    )
    return rows


def call(a, b):
    """A product of NumPy arrays in NumPy."""
    return np.asarray(field.multiply(mx.array(a), mx.array(b)))


def new_process(n):
    """Seconds of the import and of all that follows it, in a process that multiplies once."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(field.FOLDER.parents[1]), *sys.path])}
    command = [sys.executable, "-m", "bls12_381.oneshot", str(n)]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return [float(x) for x in run.stdout.split()[:2]]


def oneshot(args, rng):
    rows = []
    for n in [n for n in ONESHOT if n <= max(args.sizes)]:
        a, b = random_limbs(rng, n), random_limbs(rng, n)
        warm = median(functools.partial(call, a, b))
        # The first run may compile and write the disk cache.
        runs = [new_process(n) for _ in range(1 + args.runs)][1:]
        imported, rest = (sorted(column)[len(runs) // 2] for column in zip(*runs, strict=True))
        row = {"elements": n, "persistent": warm, "one-shot": rest, "import": imported}
        rows.append({**row, "times": rest / warm})
    print_table(
        "one call from NumPy to NumPy, seconds: warm, against one that makes device, pipeline and\n"
        "buffers (the import of the module comes on top)",
        list(rows[0]),
        [[f"{r['elements']}", *list(r.values())[1:]] for r in rows],
    )
    return rows


def pipelined(args, rng):
    rows = []
    for jobs, n in [(jobs, n) for jobs, n in JOBS if n <= max(args.sizes)]:
        pairs = [(random_limbs(rng, n), random_limbs(rng, n)) for _ in range(2)]
        batches = [pairs[k % 2] for k in range(jobs)]

        def plain(batches=batches):
            for a, b in batches:
                yield call(a, b)

        def stream(depth, batches=batches):
            return map(np.asarray, mx.vulkan.pipeline(field.multiply, batches, depth=depth))

        def run(results):
            # A result is let go before the next one comes, as when it is written to a file.
            return median(lambda: sum(int(r[-1, 0]) for r in results()), 2)

        for x, y in zip(plain(), stream(2), strict=True):
            np.testing.assert_array_equal(x, y)
        row = {"jobs": jobs, "elements": n, "sequential": run(plain)}
        row |= {f"depth {d}": run(functools.partial(stream, d)) for d in (1, 2, 3)}
        row["times"] = row["sequential"] / row["depth 2"]
        row["times depth 1"] = row["depth 1"] / row["depth 2"]
        rows.append(row)
    print_table(
        "jobs from NumPy to NumPy, seconds for all: one call after another, and streamed",
        list(rows[0]),
        [[f"{r['jobs']}", f"{r['elements']}", *list(r.values())[2:]] for r in rows],
    )
    return rows


MEASUREMENTS = {f.__name__: f for f in (resident, variants, oneshot, pipelined)}


def plot(results, path):
    """Elements per second by batch size, and warm calls against one-shot ones."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5))
    rows = results.get("resident", [])
    for name in ("add", "multiply", "invert", "point add", "point double"):
        left.loglog([r["elements"] for r in rows], [r[name] for r in rows], "o-", label=name)
    left.set(title="operands on the device", xlabel="elements of a batch", ylabel="per second")
    rows = results.get("oneshot", [])
    for name in ("one-shot", "persistent"):
        right.loglog([r["elements"] for r in rows], [r[name] for r in rows], "o-", label=name)
    right.set(title="one call, NumPy to NumPy", xlabel="elements", ylabel="seconds")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.suptitle(results["device"])
    figure.savefig(path, dpi=120, bbox_inches="tight")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", nargs="*", metavar="WHAT", help=", ".join(MEASUREMENTS))
    parser.add_argument("--check", type=int, metavar="N", help="N random pairs, and no measurement")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--runs", type=int, default=5, help="processes for each one-shot figure")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--plot", type=pathlib.Path)
    args = parser.parse_args()
    unknown = set(args.what) - set(MEASUREMENTS)
    if unknown:
        parser.error(f"no measurement named {', '.join(unknown)}")
    if not mx.is_available(mx.gpu):
        parser.error("no Vulkan device was found")
    mx.set_default_device(mx.gpu)
    device = mx.device_info()["device_name"]
    print(f"device: {device}, seed {args.seed}")
    rng = np.random.default_rng(args.seed)
    if args.check is not None:
        check(args.check, rng, print)
        return
    results = {"device": device, "sizes": args.sizes}
    for name in args.what or MEASUREMENTS:
        results[name] = MEASUREMENTS[name](args, rng)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(results, indent=1) + "\n")
    if args.plot:
        plot(results, args.plot)


if __name__ == "__main__":
    main()
