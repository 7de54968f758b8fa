"""Our ops against official MLX and JAX: peers alternate in one run, so that ratios mean something.

    python benches/ops.py                              this interpreter's mlx.core alone
    python benches/ops.py --device gpu --scale large
    python benches/ops.py --peer mlx=ENV/bin/python --peer jax=ENV/bin/python [--rounds 3]

Each peer is the Python interpreter of an environment of its own: `mlx=` one with
"mlx[cpu]==0.32.4", `jax=` one with jax. A peer runs as a process that stays alive; in each round
every workload is timed once in every process, one process at a time. The table shows the best
median of all rounds in milliseconds and ratios above 1 where this project is the faster one.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

BYTES, FLOPS = "GB/s", "TFLOP/s"


def gelu(np, erf, p):
    return lambda x: 0.5 * x * (1 + erf(x * 0.7071067811865476))


def chain_of_four(np, erf, p):
    def f(x):
        for i in range(p[1]):
            x = abs(np.maximum(x * 1.0001 + 0.01 * i, -3.0))
        return x

    return f


def hand_softmax(np, erf, p):
    def f(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return f


# Functions to compile, over the array functions of a framework.
COMPILED = {"gelu": gelu, "run": chain_of_four, "hand_softmax": hand_softmax}


def catalogue(scale):
    """name -> (kind, parameters, amount of work, its unit)."""
    big = scale == "large"
    n = 1 << (26 if big else 22)
    m = 8192 if big else 1024
    h = 4096 if big else 1024
    table = {
        "add_f32": ("add", (n, "float32"), 12 * n, BYTES),
        "add_bf16": ("add", (n, "bfloat16"), 6 * n, BYTES),
        "exp_f32": ("unary", (n, "exp"), 8 * n, BYTES),
        "sin_f32": ("unary", (n, "sin"), 8 * n, BYTES),
        "log_f32": ("unary", (n, "log"), 8 * n, BYTES),
        "tanh_f32": ("unary", (n, "tanh"), 8 * n, BYTES),
        "mul_broadcast_f32": ("broadcast", (n // 1024, 1024), 8 * n, BYTES),
        "cast_f32_f16": ("cast", (n, "float16"), 6 * n, BYTES),
        "transpose_copy_f32": ("transpose", (n // 2048, 2048), 8 * n, BYTES),
        "sum_all_f32": ("reduce", (n // 4096, 4096, "sum", None), 4 * n, BYTES),
        "sum_rows_f32": ("reduce", (n // 4096, 4096, "sum", -1), 4 * n, BYTES),
        "sum_cols_f32": ("reduce", (n // 4096, 4096, "sum", 0), 4 * n, BYTES),
        "argmax_f32": ("reduce", (16, n // 16, "argmax", -1), 4 * n, BYTES),
        "softmax_f32": ("softmax", (n // 4096, 4096), 8 * n, BYTES),
        "compiled_gelu_f32": ("gelu", (n,), 8 * n, BYTES),
        "compiled_chain_of_20_f32": ("run", (n, 5), 8 * n, BYTES),
        "compiled_softmax_f32": ("hand_softmax", (n // 4096, 4096), 8 * n, BYTES),
        "gather_rows_f32": ("gather", (32768, 1024, n // 1024), 8 * n, BYTES),
        "gather_elements_f32": ("gather", (n, 1, n), 12 * n, BYTES),
        "take_along_axis_f32": ("along", (n // 4096, 4096), 12 * n, BYTES),
        "scatter_add_f32": ("scatter", (32768, 256, n // 1024), 3 * n, BYTES),
        "random_normal_f32": ("normal", (n,), 4 * n, BYTES),
        f"matmul_f32_{m // 2}": ("matmul", (m // 2, "float32"), 2 * (m // 2) ** 3, FLOPS),
        f"matmul_f16_{m}": ("matmul", (m, "float16"), 2 * m**3, FLOPS),
        f"matmul_bf16_{m}": ("matmul", (m, "bfloat16"), 2 * m**3, FLOPS),
        f"matmul_bf16_nt_{m}": ("matmul_nt", (m, "bfloat16"), 2 * m**3, FLOPS),
        "gemv_bf16": ("gemv", (h, 4 * h, "bfloat16"), 8 * h * h, BYTES),
        "chain_1000_small_adds": ("chain", (1024, 1000), 0, ""),
        "mlp_value_and_grad_f32": ("mlp", (256, h // 2, 4), 24 * 256 * (h // 2) ** 2, FLOPS),
    }
    return table


# Workers: one class a framework; a workload is (setup -> function that starts one unit of work)


class Mlx:
    def __init__(self, device):
        import mlx.core as mx

        mx.set_default_device(getattr(mx, device))
        mx.random.seed(0)
        self.mx = mx

    def start(self, result):
        self.mx.async_eval(result)

    def wait(self, result):
        self.mx.eval(result)
        self.mx.synchronize()

    def clear(self):
        self.mx.clear_cache()

    def draw(self, *shape, dtype="float32", positive=False):
        mx = self.mx
        a = mx.random.uniform(0.1, 4, shape) if positive else mx.random.normal(shape)
        a = a.astype(getattr(mx, dtype))
        mx.eval(a)
        return a

    def setup(self, kind, p):
        mx, draw = self.mx, self.draw
        if kind == "add":
            a, b = draw(p[0], dtype=p[1]), draw(p[0], dtype=p[1])
            return lambda: a + b
        if kind == "unary":
            a, f = draw(p[0], positive=p[1] == "log"), getattr(mx, p[1])
            return lambda: f(a)
        if kind == "broadcast":
            a, b = draw(*p), draw(p[1])
            return lambda: a * b
        if kind == "cast":
            a, d = draw(p[0]), getattr(mx, p[1])
            return lambda: a.astype(d)
        if kind == "transpose":
            a = draw(*p)
            return lambda: mx.contiguous(a.T)
        if kind == "reduce":
            a, f = draw(p[0], p[1]), getattr(mx, p[2])
            return lambda: f(a, axis=p[3])
        if kind == "softmax":
            a = draw(*p)
            return lambda: mx.softmax(a, axis=-1)
        if kind in COMPILED:
            a, f = draw(*p[:1] if kind == "run" else p), mx.compile(COMPILED[kind](mx, mx.erf, p))
            return lambda: f(a)
        if kind in ("gather", "scatter"):
            rows, width, count = p
            a = draw(rows, width) if width > 1 else draw(rows)
            i = mx.random.randint(0, rows, (count,))
            u = draw(count, width)
            mx.eval(i)
            return (lambda: a[i]) if kind == "gather" else (lambda: a.at[i].add(u))
        if kind == "along":
            a, i = draw(*p), mx.random.randint(0, p[1], p)
            mx.eval(i)
            return lambda: mx.take_along_axis(a, i, axis=1)
        if kind == "normal":
            return lambda: mx.random.normal(p)
        if kind == "matmul":
            a, b = draw(p[0], p[0], dtype=p[1]), draw(p[0], p[0], dtype=p[1])
            return lambda: a @ b
        if kind == "matmul_nt":
            a, b = draw(p[0], p[0], dtype=p[1]), draw(p[0], p[0], dtype=p[1])
            return lambda: a @ b.T
        if kind == "gemv":
            a, b = draw(1, p[0], dtype=p[2]), draw(p[1], p[0], dtype=p[2])
            return lambda: a @ b.T
        if kind == "chain":
            a, b = draw(p[0]), draw(p[0])

            def chain():
                x = a
                for _ in range(p[1]):
                    x = x + b
                return x

            return chain
        if kind == "mlp":
            batch, width, layers = p
            ws = [draw(width, width) * 0.02 for _ in range(layers)]
            x, y = draw(batch, width), draw(batch, width)
            mx.eval(ws)

            def loss(ws):
                z = x
                for w in ws:
                    z = mx.maximum(z @ w, 0)
                return mx.mean(mx.square(z - y))

            f = mx.value_and_grad(loss)
            return lambda: f(ws)
        raise KeyError(kind)


class Jax:
    def __init__(self, device):
        import jax

        self.jax, self.jnp = jax, jax.numpy
        self.key = jax.random.PRNGKey(0)
        self.started = []

    def start(self, result):
        self.started.append(result)

    def wait(self, result):
        self.jax.block_until_ready((self.started, result))
        self.started.clear()

    def clear(self):
        self.started.clear()

    def draw(self, *shape, dtype="float32", positive=False):
        self.key, k = self.jax.random.split(self.key)
        a = self.jax.random.uniform(k, shape, minval=0.1, maxval=4) if positive else None
        a = self.jax.random.normal(k, shape) if a is None else a
        return a.astype(dtype).block_until_ready()

    def setup(self, kind, p):
        jax, jnp, draw = self.jax, self.jnp, self.draw
        if kind == "add":
            args, f = [draw(p[0], dtype=p[1]), draw(p[0], dtype=p[1])], lambda a, b: a + b
        elif kind == "unary":
            args, f = [draw(p[0], positive=p[1] == "log")], getattr(jnp, p[1])
        elif kind == "broadcast":
            args, f = [draw(*p), draw(p[1])], lambda a, b: a * b
        elif kind == "cast":
            args, f = [draw(p[0])], lambda a: a.astype(p[1])
        elif kind == "transpose":
            args, f = [draw(*p)], lambda a: a.T.copy()
        elif kind == "reduce":
            args, g = [draw(p[0], p[1])], getattr(jnp, p[2])
            f = lambda a: g(a, axis=p[3])  # noqa: E731
        elif kind == "softmax":
            args, f = [draw(*p)], lambda a: jax.nn.softmax(a, axis=-1)
        elif kind in COMPILED:
            args = [draw(*p[:1] if kind == "run" else p)]
            f = COMPILED[kind](jnp, jax.scipy.special.erf, p)
        elif kind in ("gather", "scatter"):
            rows, width, count = p
            a = draw(rows, width) if width > 1 else draw(rows)
            i = jax.random.randint(self.key, (count,), 0, rows)
            args = [a, i, draw(count, width)]
            f = (lambda a, i, u: a[i]) if kind == "gather" else (lambda a, i, u: a.at[i].add(u))
        elif kind == "along":
            args = [draw(*p), jax.random.randint(self.key, p, 0, p[1])]
            f = lambda a, i: jnp.take_along_axis(a, i, axis=1)  # noqa: E731
        elif kind == "normal":
            args, f = [self.key], lambda k: jax.random.normal(k, p)
        elif kind in ("matmul", "matmul_nt"):
            args = [draw(p[0], p[0], dtype=p[1]), draw(p[0], p[0], dtype=p[1])]
            f = (lambda a, b: a @ b) if kind == "matmul" else (lambda a, b: a @ b.T)
        elif kind == "gemv":
            args = [draw(1, p[0], dtype=p[2]), draw(p[1], p[0], dtype=p[2])]
            f = lambda a, b: a @ b.T  # noqa: E731
        elif kind == "mlp":
            batch, width, layers = p
            ws = [draw(width, width) * 0.02 for _ in range(layers)]
            x, y = draw(batch, width), draw(batch, width)

            def loss(ws):
                z = x
                for w in ws:
                    z = jnp.maximum(z @ w, 0)
                return jnp.mean((z - y) ** 2)

            args, f = [ws], jax.value_and_grad(loss)
        else:
            raise KeyError(kind)  # a chain of eager adds is no JAX program
        f = jax.jit(f)
        return lambda: f(*args)


def measure(worker, kind, params, budget):
    """The median seconds of one unit of work, after a warm-up."""
    f = worker.setup(kind, params)
    worker.wait(f())
    begin = time.perf_counter()
    worker.wait(f())
    once = time.perf_counter() - begin
    inner = max(1, min(50, int(0.02 / max(once, 1e-6))))
    times = []
    end = time.perf_counter() + budget
    while len(times) < 3 or (time.perf_counter() < end and len(times) < 40):
        begin = time.perf_counter()
        for _ in range(inner):
            result = f()
            worker.start(result)
        worker.wait(result)
        times.append((time.perf_counter() - begin) / inner)
    worker.clear()
    return statistics.median(times)


def serve(framework, device):
    """Worker process: reads one JSON request a line, answers with one JSON line."""
    worker = {"mlx": Mlx, "jax": Jax}[framework](device)
    for line in sys.stdin:
        kind, params, budget = json.loads(line)
        try:
            answer = {"seconds": measure(worker, kind, tuple(params), budget)}
        except Exception as e:  # noqa: BLE001 - the table shows it
            answer = {"error": f"{type(e).__name__}: {e}"[:160]}
        print("@" + json.dumps(answer), flush=True)


class Peer:
    """A worker process of one environment."""

    def __init__(self, name, interpreter, device):
        framework = "jax" if name == "jax" else "mlx"
        command = [interpreter, str(pathlib.Path(__file__).resolve()), "--serve", framework]
        # Our module may come from PYTHONPATH; another environment must not see it.
        mine = interpreter == sys.executable
        hidden = () if mine else ("PYTHONPATH", "VIRTUAL_ENV")
        env = {k: v for k, v in os.environ.items() if k not in hidden}
        self.process = subprocess.Popen(
            [*command, "--device", device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )

    def ask(self, *request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("@"):
                return json.loads(line[1:])
        return {"error": "the worker ended"}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--scale", choices=["small", "large"], default="small")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=0.3, help="seconds a workload and round")
    parser.add_argument("--only", default="", help="regular expression of workload names")
    parser.add_argument("--json", type=pathlib.Path, help="write the numbers to this file")
    parser.add_argument("--serve", choices=["mlx", "jax"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve, args.device)
        return

    names = ["ours"] + [p.split("=", 1)[0] for p in args.peer]
    pythons = [sys.executable] + [p.split("=", 1)[1] for p in args.peer]
    devices = [args.device] + ["cpu"] * len(args.peer)
    peers = {n: Peer(n, python, d) for n, python, d in zip(names, pythons, devices, strict=True)}
    head = f"{'workload':26s}" + "".join(f"{n + ' ms':>12s}" for n in names) + f"{'rate':>17s}"
    print(head + "".join(f"{'vs ' + n:>9s}" for n in names[1:]))
    results = {}
    try:
        for name, (kind, params, work, unit) in catalogue(args.scale).items():
            if not re.search(args.only, name):
                continue
            best, errors = {}, {}
            for _ in range(args.rounds):
                for peer, worker in peers.items():
                    answer = worker.ask(kind, params, args.budget)
                    if "seconds" in answer:
                        best[peer] = min(best.get(peer, float("inf")), answer["seconds"])
                    else:
                        errors[peer] = answer["error"]
            results[name] = {"seconds": best, "errors": errors}
            row = f"{name:26s}" + "".join(
                f"{best[n] * 1e3:12.4f}" if n in best else f"{'-':>12s}" for n in names
            )
            if work and "ours" in best:
                scale = 1e9 if unit == BYTES else 1e12
                results[name]["rate"] = work / best["ours"] / scale
                row += f"{work / best['ours'] / scale:9.2f} {unit:7s}"
            else:
                row += " " * 17
            for n in names[1:]:
                if n in best and "ours" in best:
                    results[name][f"vs_{n}"] = best[n] / best["ours"]
                    row += f"{best[n] / best['ours']:9.2f}"
                else:
                    row += f"{'-':>9s}"
            print(row + (f"  {errors['ours']}" if "ours" in errors else ""), flush=True)
        for n in names[1:]:
            ratios = sorted(r[f"vs_{n}"] for r in results.values() if f"vs_{n}" in r)
            if ratios:
                print(f"vs {n}: median {statistics.median(ratios):.2f}, least {ratios[0]:.2f}")
    finally:
        for worker in peers.values():
            worker.close()
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
