"""`python -m mlx.tune`: measures the variants of kernels on this GPU and keeps the fastest.

The tables that choose kernels were measured on few cards. This measures the choices of one family
after the other on the GPU at hand: matrix products, products by quantised matrices, attention,
reductions and scans. What is at least 3 % faster than the packaged choice is kept in the cache of
kernels, for this device and driver, and comes first from then on, in new processes too.

--only FAMILY ... measures some families, --quick a few shapes of each, --dry-run keeps nothing,
--reset forgets what was kept, --json prints JSON, --device INDEX takes another GPU.
"""

import argparse
import json
import math
import os
import sys
import time

import mlx.core as mx

__all__ = ["FAMILIES", "main", "tune"]

#: What can be measured, in order.
FAMILIES = ("device", "matmul", "quantized", "attention", "reduce", "scan")

#: A winner is at least so much faster than the packaged choice.
GAIN = 1.03


class Case:
    """A choice with what is timed for it: functions that give an array that was not computed."""

    def __init__(self, family, ask, runs):
        self.family = family
        self.ask = ask
        self.runs = runs


def _random(shape, dtype=mx.float32):
    x = mx.random.normal(shape, key=mx.random.key(len(shape))).astype(dtype)
    mx.eval(x)
    return x


def _product(dtype, m, n, k):
    def run():
        a, b = _random((m, k), dtype), _random((k, n), dtype)
        return lambda: a @ b

    name = str(dtype).removeprefix("mlx.core.")
    return Case("matmul", {"name": "matmul", "sides": (m, n, k), "dtype": name}, [run])


def _quantized(dtype, bits, m, n, k):
    def run():
        x = _random((m, k), dtype)
        w = mx.quantize(_random((n, k), dtype), group_size=64, bits=bits)
        mx.eval(w)
        return lambda: mx.quantized_matmul(x, *w, group_size=64, bits=bits)

    name = str(dtype).removeprefix("mlx.core.")
    ask = {"name": "quantized", "sides": (m, n, k), "dtype": name, "format": ("affine", 64, bits)}
    return Case("quantized", ask, [run])


def _attention(heads, kv, keys, features, dtype):
    def run():
        q = _random((1, heads, 1, features), dtype)
        k, v = (_random((1, kv, keys, features), dtype) for _ in range(2))
        return lambda: mx.fast.scaled_dot_product_attention(q, k, v, scale=features**-0.5)

    return run


def _unary(op, shape, axis, dtype=mx.float32):
    def run():
        x = _random(shape, dtype)
        return lambda: op(x, axis=axis)

    return run


def _matmul_run(m, n, k, dtype):
    return _product(dtype, m, n, k).runs[0]


def _cases(software, quick):
    """All cases; a software driver gets small ones."""
    f32, f16, bf16 = mx.float32, mx.float16, mx.bfloat16
    small = 1 if software else 16
    if software:
        shapes = [(128, 128, 128)] if quick else [(64, 64, 64), (128, 128, 128), (256, 256, 256)]
    elif quick:
        shapes = [(512, 512, 512), (4096, 4096, 4096), (128, 4096, 4096)]
    else:
        shapes = [(n, n, n) for n in (256, 512, 1024, 2048, 4096, 8192)]
        shapes += [(32, 4096, 4096), (128, 4096, 4096), (512, 4096, 4096), (8192, 1024, 1024)]
        shapes += [(4096, 4096, 64), (4096, 4096, 512)]
    dtypes = (f32, bf16) if quick or software else (f32, f16, bf16)
    for dtype in dtypes:
        for m, n, k in shapes:
            yield _product(dtype, m, n, k)
    sides = (
        [(256, 256)]
        if software
        else [(4096, 4096)]
        if quick
        else [(1024, 4096), (4096, 4096), (16384, 4096)]
    )
    for n, k in sides:
        for m in (1, 4) if quick or software else (1, 2, 4, 8, 16):
            for bits in (4,) if quick or software else (4, 8):
                yield _quantized(f16, bits, m, n, k)
    decode = _attention(32, 8, 256 * small, 128, f16), _attention(8, 8, 32 * small, 64, f16)
    long_sum = _unary(mx.sum, ((1 << 18) * small**2 // (4 if quick else 1),), 0)
    rows = _unary(mx.sum, (16, 4096 * small), 1)
    columns = [_unary(mx.sum, (4096 * small, 64), 0), _unary(mx.sum, (256 * small, 1024), 0)]
    scans = [_unary(mx.cumsum, ((1 << 16) * small,), 0), _unary(mx.cumsum, (8, 4096 * small), 1)]
    vector = _matmul_run(1, 512, 1024 * small, f16)
    split = _matmul_run(64, 64, 1024 * small, f32)
    for family, name, runs in (
        ("matmul", "fill", [split, vector]),
        ("matmul", "gemv_few_rows", [vector, _matmul_run(1, 256 * small, 1024 * small, f16)]),
        ("attention", "attention_groups", list(decode)),
        ("attention", "attention_keys", list(decode)),
        ("reduce", "reduce_rows", [long_sum, rows]),
        ("reduce", "reduce_columns", columns),
        ("scan", "scan_few", scans),
        ("scan", "scan_parts", scans),
    ):
        yield Case(family, {"name": name}, runs)


def _elapsed(call, n):
    """Seconds of the GPU for `n` calls, one command after the other.

    What programs compute waits for what came before. Calls side by side would hide a kernel that
    leaves the GPU idle.
    """
    begin = time.perf_counter()
    with mx.vulkan.profile(isolate=True) as profile:
        mx.eval([call() for _ in range(n)])
    # A GPU without timestamps has no times.
    own = sum(command.duration for command in profile.commands) * 1e-9
    return own or time.perf_counter() - begin


def _seconds(call, least):
    """Seconds of a call, from runs of at least `least` seconds."""
    _elapsed(call, 2)  # compiles
    n, took = 1, _elapsed(call, 1)
    while took < least and n < 256:
        n *= 2
        took = _elapsed(call, n)
    return min([took, *(_elapsed(call, n) for _ in range(2))]) / n


class _Bench:
    """A GPU and the lines that win on it while it is measured."""

    def __init__(self, index, least):
        self.index = index
        self.least = least
        self.lines = {_subject(line): line for line in mx.vulkan._tune_winners(index)}

    def choose(self, subject, line):
        """Lets `line` win for `subject`, or without one the packaged choice."""
        lines = {**self.lines, subject: line}
        mx.vulkan._tune_set(self.index, [text for text in lines.values() if text])

    def time(self, calls):
        return [_seconds(call, self.least) for call in calls]

    def measure(self, case):
        """The row of a case, or None where the device has no choice."""
        question = mx.vulkan._tune_question(self.index, **case.ask)
        if question is None or not question["candidates"]:
            return None
        subject, packaged = question["subject"], question["packaged"]
        calls = [run() for run in case.runs]
        self.choose(subject, "")
        base = self.time(calls)
        times = {packaged: 1.0}
        for line in question["candidates"]:
            if line != packaged:
                self.choose(subject, line)
                times[line] = _mean(self.time(calls), base)
        best = min(times, key=times.get)
        if best != packaged and times[best] * GAIN < 1:
            # Once more, side by side: what was luck is no gain.
            self.choose(subject, best)
            again = self.time(calls)
            self.choose(subject, "")
            times[best] = max(times[best], _mean(again, self.time(calls)))
        wins = best != packaged and times[best] * GAIN < 1
        if wins:
            self.lines[subject] = best
        else:
            self.lines.pop(subject, None)
            best = packaged
        self.choose(subject, best if wins else "")
        return {
            "family": case.family,
            "subject": subject,
            "packaged": _numbers(packaged),
            "best": _numbers(best),
            "gain": round(1 / times[best], 3),
            "seconds": base[0],
            "candidates": {_numbers(line): round(1 / t, 3) for line, t in times.items()},
            "wins": wins,
        }


def _subject(line):
    return line.split(" = ")[0]


def _numbers(line):
    return line.split(" = ")[-1] or "packaged"


def _mean(times, base):
    return math.exp(sum(math.log(t / b) for t, b in zip(times, base, strict=True)) / len(times))


def tune(index=0, families=FAMILIES, quick=False, keep=True, progress=None):
    """Measures families on a GPU.

    Args:
        index (int, optional): Position of the GPU in the ranked list of devices. Default: 0.
        families (sequence of str, optional): Names of :data:`FAMILIES`. Default: all.
        quick (bool, optional): Whether a few shapes of each will do. Default: False.
        keep (bool, optional): Whether winners count from now on, in later processes too.
            Default: True.
        progress (callable, optional): Wraps the list of cases, as `tqdm.tqdm` does.

    Returns:
        dict: `device`, what was `measured` of it, `rows` (one for each choice), `kept` (whether the
        cache took the winners) and `seconds`.
    """
    begin = time.perf_counter()
    facts = mx.vulkan.describe(index)
    software = facts["kind"] == "software"
    result = {"device": facts["name"], "rows": [], "kept": False}
    before = mx.vulkan._tune_winners(index)
    with mx.stream(mx.Device(mx.gpu, index)):
        if "device" in families:
            numbers = mx.vulkan._tune_measure(index) if keep else None
            names = ("units", "bandwidth", "dependent_ns", "matrices")
            result["measured"] = (
                dict(zip(names, numbers, strict=True)) if numbers else facts["profile"]
            )
        bench = _Bench(index, 0.002)
        cases = [c for c in _cases(software, quick) if c.family in families]
        try:
            for case in progress(cases) if progress else cases:
                row = bench.measure(case)
                if row:
                    result["rows"].append(row)
        finally:
            lines = list(bench.lines.values()) if keep else before
            result["kept"] = mx.vulkan._tune_set(index, lines, keep)
    result["seconds"] = round(time.perf_counter() - begin, 1)
    return result


def _print(result):
    measured = ", ".join(f"{k} {v}" for k, v in result.get("measured", {}).items())
    print(f"{result['device']}: {measured}" if measured else result["device"])
    rows = [("choice", "packaged", "fastest", "gain")]
    rows += [(r["subject"], r["packaged"], r["best"], f"{r['gain']:.2f}") for r in result["rows"]]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    for row in rows:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )
    won = sum(r["wins"] for r in result["rows"])
    kept = "kept" if result["kept"] else "not kept"
    count, seconds = len(result["rows"]), result["seconds"]
    print(f"{won} of {count} choices are faster than the packaged ones, {kept}; {seconds} s")


def main(argv=None):
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="mlx.tune", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", choices=FAMILIES, default=FAMILIES, help="measure these families"
    )
    parser.add_argument("--quick", action="store_true", help="a few shapes of each family")
    parser.add_argument("--dry-run", action="store_true", help="measure and print, keep nothing")
    parser.add_argument(
        "--reset", action="store_true", help="forget what was kept, measure nothing"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--device", type=int, default=0, help="position of the GPU")
    asked = parser.parse_args(argv)
    # Kernels for one shape are part of what is measured, and are waited for.
    os.environ.setdefault("MLX_VK_MATMUL_SPEC", "now")
    if asked.device >= mx.device_count(mx.gpu):
        print(f"mlx.tune: there is no GPU {asked.device}", file=sys.stderr)
        return 1
    if asked.reset:
        kept = mx.vulkan._tune_set(asked.device, [], True)
        print(
            "forgotten"
            if kept
            else "nothing can be kept or forgotten: there is no cache (MLX_VK_CACHE_DIR)"
        )
        return 0 if kept else 1
    progress = None
    try:
        from tqdm import tqdm

        progress = lambda cases: tqdm(cases, desc="measuring", unit="choice", disable=None)  # noqa: E731
    except ImportError:
        pass
    result = tune(asked.device, asked.only, asked.quick, not asked.dry_run, progress)
    if asked.json:
        print(json.dumps(result, indent=1))
    else:
        _print(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
