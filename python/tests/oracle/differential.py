#!/usr/bin/env python3
"""Holds this implementation of `mlx.core` against the official one, on the same random cases.

    python differential.py --official PYTHON [--device cpu] [--cases 20000] [--only REGEX]

PYTHON is an interpreter with `mlx[cpu]` and NumPy installed. Cases are drawn from the tables in
cases_*.py, calls.py and programs.py, run by worker.py in either interpreter, and compared: dtypes
and shapes must be equal, integers and booleans too, floats within the tolerance of their dtype, and
calls that fail must fail with the same kind of exception. Exit status 1 when anything differs.
"""

import argparse
import collections
import hashlib
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import time

import composed
import known
import numpy as np
from arguments import Draw, drawn
from calls import bad_calls
from cases import ROWS
from programs import make
from wire import Arr, Case, Crashed, Failed, Got, Missing, dtypes

HERE = pathlib.Path(__file__).parent
# The official float64 functions are float32 polynomials.
RELATIVE = {
    "float32": 4e-6,
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
    "complex64": 4e-6,
    "float64": 4e-6,
}
ABSOLUTE = {"float32": 1e-6, "float16": 5e-4, "bfloat16": 4e-3, "complex64": 1e-6, "float64": 1e-6}
PROGRAMS = {"program": 0.06, "compile": 0.03, "gradient": 0.03}
PROGRAM_TOLERANCE = 64
PATIENCE = 6  # seconds for one case of the official one, which is known to loop in some


def cases(seed, count):
    """(case, row or None) pairs; a seed's cases are the same whatever is selected."""
    made = []
    for mode, share in PROGRAMS.items():
        for i in range(int(count * share)):
            made.append((make(np.random.default_rng([seed, 1, i, len(mode)]), mode), None))
    total = sum(r.weight for r in ROWS)
    left = count - len(made)
    for number, r in enumerate(ROWS):
        for i in range(max(4, round(left * r.weight / total))):
            rng = np.random.default_rng([seed, 2, number, i])
            draw = Draw(rng)
            for a in r.args:
                draw.args.append(drawn(a, draw))
            kwargs = {k: drawn(v, draw) for k, v in r.kwargs.items()}
            case = Case(r.op, draw.args, kwargs)
            mode = ("call", "call", *r.modes)[int(rng.integers(2 + len(r.modes)))]
            if mode == "vmap" and not batched(case):
                mode = "call"
            if mode == "grad" and not dtypes(case.args) & {
                "float32",
                "float16",
                "bfloat16",
                "float64",
            }:
                mode = "call"
            case.mode = mode
            made.append((case, r))
    return made


def batched(case):
    """Gives all arrays a first axis of one length, for vmap; False when there is none."""
    arrays = [a for a in case.args if isinstance(a, Arr)]
    if not arrays:
        return False
    for a in arrays:
        a.values = np.stack([a.values, np.flip(a.values, -1) if a.values.ndim else a.values])
        a.layout = "plain"
    return True


# Running


def run(python, todo, device, folder, name, environment, patience):
    """Results of one interpreter; a worker that dies is followed by another one."""
    path, out = folder / f"{name}.cases", folder / f"{name}.results"
    path.write_bytes(pickle.dumps(todo))
    results = []
    while len(results) < len(todo):
        out.unlink(missing_ok=True)
        worker = subprocess.Popen(
            [python, str(HERE / "worker.py"), str(path), str(out), str(len(results)), device],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        errors = watch(worker, out, patience)
        before = len(results)
        if out.exists():
            with open(out, "rb") as f:
                while True:
                    try:
                        results.append(pickle.load(f))
                    except (EOFError, pickle.UnpicklingError):
                        break
        if len(results) < len(todo):
            if worker.returncode == 1 and len(results) == before:
                sys.exit(f"{name}: the worker does not start\n{errors}")
            results.append(Crashed(worker.returncode))
    return results


def watch(worker, out, patience):
    """Waits for a worker, and ends it when it stays at one case for too long. Its last words."""
    seen, since = -1, time.monotonic()
    while True:
        try:
            return worker.communicate(timeout=0.2)[1][-2000:]
        except subprocess.TimeoutExpired:
            size = out.stat().st_size if out.exists() else 0
            if size != seen:
                seen, since = size, time.monotonic()
            elif time.monotonic() - since > patience:
                worker.kill()


def shares(python, todo, device, folder, name, environment, jobs, patience):
    """The same on several processes."""
    from concurrent.futures import ThreadPoolExecutor

    parts = [todo[i::jobs] for i in range(jobs)]
    with ThreadPoolExecutor(jobs) as pool:
        done = pool.map(
            lambda i: run(python, parts[i], device, folder, f"{name}{i}", environment, patience),
            range(jobs),
        )
        results = [None] * len(todo)
        for i, part in enumerate(done):
            results[i::jobs] = part
    return results


# Comparing


def differs(got, want, tol, row):
    """What is different, or None."""
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return f"structure: {summary(got)} instead of {summary(want)}"
        for g, w in zip(got, want, strict=True):
            why = differs(g, w, tol, row)
            if why:
                return why
        return None
    if isinstance(want, Got):
        if not isinstance(got, Got):
            return f"{summary(got)} instead of {summary(want)}"
        if got.dtype != want.dtype:
            return f"dtype {got.dtype} instead of {want.dtype}"
        if got.values.shape != want.values.shape:
            return f"shape {got.values.shape} instead of {want.values.shape}"
        return None if row and row.shape_only else unequal(got, want, tol, row)
    if isinstance(want, float) and isinstance(got, float):
        return (
            None
            if np.isclose(got, want, 1e-5 * tol, 1e-6, equal_nan=True)
            else f"{got!r}, {want!r}"
        )
    if type(got) is not type(want) or got != want:
        return f"{summary(got)} instead of {summary(want)}"
    return None


def unequal(got, want, tol, row):
    g, w = got.values, want.values
    if row and row.any_order:
        g, w = np.sort(g, -1), np.sort(w, -1)
    if got.dtype not in RELATIVE:
        wrong = g != w
        if not wrong.any():
            return None
        return f"{wrong.sum()} of {w.size} differ: {g[wrong][:4]} instead of {w[wrong][:4]}"
    wide = np.complex128 if got.dtype == "complex64" else np.float64
    g, w = g.astype(wide), w.astype(wide)
    size = np.abs(w)
    if row is None or row.sums:
        finite = size[np.isfinite(size)]
        size = np.full(size.shape, finite.max() if finite.size else 0.0)
    limit = tol * (RELATIVE[got.dtype] * size + ABSOLUTE[got.dtype])
    same = (g == w) | (np.isnan(g) & np.isnan(w))
    wrong = ~(same | (np.abs(g - w) <= limit))
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    few = f"{got.dtype} {g[wrong][:3]} instead of {w[wrong][:3]}"
    return f"{wrong.sum()} of {w.size} differ: {few}, first at {at}"


def summary(v):
    if isinstance(v, Got):
        return f"{v.dtype}{list(v.values.shape)}"
    if isinstance(v, Failed):
        return f"{v.type}({v.text[:80]!r})"
    if isinstance(v, list):
        return "[" + ", ".join(map(summary, v[:4])) + "]"
    return repr(v)[:100]


# Putting it together


def official_results(args, todo, folder, jobs):
    """Those of the official implementation, kept from one device to the next."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "mlx-vulkan"
    key = hashlib.sha256(
        pickle.dumps(todo) + (HERE / "worker.py").read_bytes() + (HERE / "composed.py").read_bytes()
    ).hexdigest()[:16]
    kept = cache / f"oracle-{key}.pickle"
    if kept.exists():
        return pickle.loads(kept.read_bytes())
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    results = shares(args.official, todo, "cpu", folder, "official", environment, jobs, PATIENCE)
    cache.mkdir(parents=True, exist_ok=True)
    for old in cache.glob("oracle-*.pickle"):
        old.unlink()
    kept.write_bytes(pickle.dumps(results))
    return results


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    ap.add_argument("--official", required=True, help="interpreter with the official mlx")
    ap.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    ap.add_argument("--cases", type=int, default=22_000)
    ap.add_argument("--composed", type=int, default=400, help="programs under stacks of transforms")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--only", help="regular expression of functions")
    ap.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    ap.add_argument("--show", type=int, default=60, help="functions whose differences are printed")
    ap.add_argument("--each", type=int, default=2, help="how many of each")
    ap.add_argument(
        "--complete", action="store_true", help="functions that are missing count as wrong"
    )
    args = ap.parse_args()
    begin = time.monotonic()
    np.seterr(invalid="ignore")
    made = (
        composed.cases(args.seed, args.composed)
        + cases(args.seed, args.cases)
        + [(c, "bad") for c in bad_calls(args.seed)]
    )
    if args.only:
        made = [m for m in made if re.search(args.only, m[0].op)]
    todo = [case for case, _ in made]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        want = official_results(args, todo, folder, args.jobs)
        middle = time.monotonic()
        # float64 lives on the CPU alone: its cases are left out elsewhere.
        here = [args.device == "cpu" or "float64" not in dtypes(c) for c in todo]
        chosen = [i for i, h in enumerate(here) if h]
        results = shares(
            sys.executable,
            [todo[i] for i in chosen],
            args.device,
            folder,
            "ours",
            dict(os.environ),
            args.jobs,
            10 * PATIENCE,
        )
    got = dict(zip(chosen, results, strict=True))
    end = time.monotonic()
    print(f"official {middle - begin:.0f} s, ours {end - middle:.0f} s")
    sys.exit(report(args, made, got, want, begin))


def report(args, made, got, want, begin):
    """Prints what differs and the counts; 1 if anything does."""
    counts = collections.Counter()
    missing, crashed, allowed = (collections.Counter() for _ in range(3))
    wrong = []
    for i, (case, row) in enumerate(made):
        if i not in got or isinstance(want[i], Missing):
            counts["left out"] += 1
            continue
        if isinstance(want[i], Crashed):
            crashed[case.op] += 1
            continue
        if isinstance(got[i], Missing):
            missing[got[i].name] += 1
            continue
        bad = row == "bad"
        if bad and not isinstance(want[i], Failed):
            counts["accepted by the official one"] += 1
            continue
        counts["bad calls" if bad else "cases"] += 1
        if isinstance(want[i], Failed) and isinstance(got[i], Failed):
            why = (
                None
                if got[i].type == want[i].type
                else f"{summary(got[i])} instead of {summary(want[i])}"
            )
        else:
            row = row if hasattr(row, "tol") else None
            tol = row.tol if row else PROGRAM_TOLERANCE
            tol *= {"grad": 8, "composed": 16}.get(case.mode, 1)
            why = differs(got[i], want[i], tol, row)
        if why is None:
            continue
        reason = known.reason(case, got[i], want[i], args.device)
        if reason:
            allowed[reason] += 1
        else:
            wrong.append((case, why))
    by_op = collections.Counter(c.mode + " " + c.op[:40] for c, _ in wrong)
    shown = collections.Counter()
    for case, why in wrong:
        shown[case.mode, case.op] += 1
        if shown[case.mode, case.op] <= args.each and len(shown) <= args.show:
            print(f"DIFFERS {case}\n        {why}")
    for op, n in by_op.most_common(args.show):
        print(f"{n:6d} {op}")
    for reason, n in allowed.most_common():
        print(f"known difference, {n} times: {reason}")
    if crashed:
        print(
            "the official one crashed or hung:", ", ".join(f"{k} {n}" for k, n in crashed.items())
        )
    if missing:
        print(f"missing functions, {len(missing)}: {' '.join(sorted(missing))}")
    total, bad = counts["cases"], counts["bad calls"]
    print(
        f"{args.device}: {total} cases and {bad} bad calls, {total + bad - len(wrong)} passed, "
        f"{len(wrong)} failed in {time.monotonic() - begin:.1f}s (seed {args.seed}; "
        f"{sum(missing.values())} cases of missing functions)"
    )
    return int(bool(wrong) or (args.complete and bool(missing)))


if __name__ == "__main__":
    main()
