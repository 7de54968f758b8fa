"""What a call costs: import, one small op, a chain of them, one evaluation. Prints and writes JSON.

python benches/overhead.py [--device cpu|gpu] [--json FILE]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

IMPORT = """
import time
begin = time.perf_counter()
import mlx.core
print(time.perf_counter() - begin)
"""


def import_seconds(runs=7):
    """Median time of `import mlx.core` in fresh interpreters, files already in memory."""
    times = []
    for _ in range(runs + 1):
        out = subprocess.run(
            [sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True
        )
        times.append(float(out.stdout))
    return statistics.median(times[1:])


def best(f, count, repeats=9):
    """Least seconds per unit over several repeats of f, which does `count` units."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        f()
        times.append((time.perf_counter() - begin) / count)
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    result = {"import_ms": import_seconds() * 1e3}

    import mlx.core as mx

    mx.set_default_device(getattr(mx, args.device))
    a, b = mx.ones((4, 4)), mx.ones((4, 4))
    mx.eval(a, b)
    n = 2000

    def build(op):
        def run():
            for _ in range(n):
                op()

        return run

    result["add_ns"] = best(build(lambda: a + b), n) * 1e9
    result["add_scalar_ns"] = best(build(lambda: a + 1.0), n) * 1e9
    result["exp_ns"] = best(build(lambda: mx.exp(a)), n) * 1e9
    result["matmul_ns"] = best(build(lambda: a @ b), n) * 1e9
    result["sum_ns"] = best(build(lambda: mx.sum(a, axis=0)), n) * 1e9
    result["reshape_ns"] = best(build(lambda: mx.reshape(a, (2, 8))), n) * 1e9
    result["slice_ns"] = best(build(lambda: a[1:3]), n) * 1e9
    result["array_from_float_ns"] = best(build(lambda: mx.array(1.0)), n) * 1e9

    def latency():
        mx.eval(a + b)

    latency()
    result["eval_one_op_us"] = best(build(latency), n, 3) * 1e6

    def chain():
        x = a
        for _ in range(1000):
            x = x + b
        mx.eval(x)
        mx.synchronize()

    chain()
    result["chain_1000_adds_ms"] = best(chain, 1) * 1e3
    loss = mx.value_and_grad(lambda w: mx.sum(mx.tanh(w @ b)))
    mx.eval(loss(a))
    result["value_and_grad_us"] = best(build(lambda: loss(a)), n, 3) * 1e6
    item = mx.array(2.0)
    mx.eval(item)
    result["item_ns"] = best(build(item.item), n) * 1e9
    for name, value in result.items():
        print(f"{name:22s} {value:12.2f}")
    if args.json:
        args.json.write_text(json.dumps({"device": args.device, **result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
