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
from concurrent.futures import ThreadPoolExecutor

import composed
import known
import numpy as np
from arguments import Draw, drawn
from calls import bad_calls
from cases import ROWS
from compare import bar, differs, summary
from programs import make
from wire import Arr, Case, Crashed, Failed, Missing, dtypes

HERE = pathlib.Path(__file__).parent
PROGRAMS = {"program": 0.06, "compile": 0.03, "gradient": 0.03, "checkpoint": 0.01}
FLOATS = {"float32", "float16", "bfloat16", "float64"}
PROGRAM_TOLERANCE = 64
KEPT = 3  # files of official results
VARIANTS = 2  # forms of a row on a GPU: each new kernel is compiled
PATIENCE = 3  # seconds for one case of the official one, which is known to loop in some


def cases(seed, count, variants):
    """(case, row or None) pairs; a seed's cases are the same whatever is selected. Where `variants`
    is given, so many forms (dtypes, ranks, layouts, options) of a row of weight 1 are drawn, each
    with many shapes and values; else every case has its own form."""
    made = []
    for mode, share in PROGRAMS.items():
        for i in range(int(count * share)):
            # The official `compile` calls a C++ compiler for each form.
            forms = 20 if mode == "compile" else 10 * variants
            form = i % forms if forms else i
            rngs = [np.random.default_rng([seed, n, len(mode)]) for n in ([1, form], [3, i])]
            made.append((make(rngs[0], mode, rngs[1]), None))
    total = sum(r.weight for r in ROWS)
    left = count - len(made)
    for number, r in enumerate(ROWS):
        forms = round(variants * r.weight) or 1
        for i in range(max(4, round(left * r.weight / total))):
            made.append(
                (draw(r, [seed, 2, number, i % forms if variants else i], [seed, 4, number, i]), r)
            )
    return made


def draw(r, form, data):
    """A case of a row. Arguments have generators of their own: the values of one do not change the
    form of the next."""
    d = Draw(None, np.random.default_rng(data))
    kwargs = {}
    for i, a in enumerate(r.args):
        d.rng = np.random.default_rng([*form, i])
        d.args.append(drawn(a, d))
    d.rng = np.random.default_rng([*form, len(r.args)])
    mode = ("call", "call", *r.modes)[d.integer(0, 1 + len(r.modes))]
    for k, v in r.kwargs.items():
        kwargs[k] = drawn(v, d)
    case = Case(r.op, d.args, kwargs, mode)
    if mode == "vmap" and not batched(case):
        case.mode = "call"
    if mode in ("grad", "jvp") and not dtypes(case.args) & FLOATS:
        case.mode = "call"
    return case


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


def run(python, todo, device, folder, name, environment, patience, progress):
    """Results of one interpreter; a worker that dies is followed by another one."""
    path, out = folder / f"{name}.cases", folder / f"{name}.results"
    path.write_bytes(pickle.dumps(todo))
    results = []
    while len(results) < len(todo):
        out.unlink(missing_ok=True)
        with open(folder / f"{name}.errors", "w+") as errors:
            worker = subprocess.Popen(
                [python, str(HERE / "worker.py"), str(path), str(out), str(len(results)), device],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
            watch(worker, patience, progress)
            errors.seek(0)
            words = errors.read()[-2000:]
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
                sys.exit(f"{name}: the worker does not start\n{words}")
            results.append(Crashed(worker.returncode))
    return results


def watch(worker, patience, progress):
    """Waits for a worker, and ends it when one case takes it too long: `patience` seconds of its
    own processor time, or twice as long asleep. So a busy machine changes nothing."""
    begin = last = spent(worker.pid)
    awake = started = time.monotonic()
    with worker.stdout as dots:
        os.set_blocking(dots.fileno(), False)
        while worker.poll() is None:
            time.sleep(0.05)
            done = len(dots.read() or b"")
            progress.update(done)
            now, used = time.monotonic(), spent(worker.pid)
            if done:
                begin, started = used, now
            if done or used > last or runnable(worker.pid):
                awake = now
            last = used
            asleep = now - awake > 2 * patience
            if asleep and has_children(worker.pid):
                awake, asleep = now, False
            if asleep or used - begin > patience or now - started > 40 * patience:
                worker.kill()
        progress.update(len(dots.read() or b""))


def state(pid):
    """What Linux says about a process; nothing elsewhere."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def spent(pid):
    """Seconds of processor time of a process; 0 where the system does not say."""
    told = state(pid)
    return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK") if told else 0.0


def runnable(pid):
    """Whether the process would go on if it had a processor (or its disk), as far as is known."""
    return state(pid)[:1] in (["R"], ["D"], [])


def has_children(pid):
    """Whether the process has started others: the official `compile` calls a C++ compiler."""
    others = (p.name for p in pathlib.Path("/proc").glob("[0-9]*"))
    return any(state(other)[1:2] == [str(pid)] for other in others)


def shares(python, todo, device, folder, name, environment, jobs, patience):
    """The same on several processes."""
    mine = divided(todo, jobs)
    with bar(len(todo), f"{name} {device}") as progress, ThreadPoolExecutor(jobs) as pool:

        def part(i):
            own, some = f"{name}{i}", [todo[k] for k in mine[i]]
            return run(python, some, device, folder, own, environment, patience, progress)

        results = [None] * len(todo)
        for numbers, some in zip(mine, pool.map(part, range(jobs)), strict=True):
            for k, result in zip(numbers, some, strict=True):
                results[k] = result
    return results


def divided(todo, jobs):
    """Numbers of the cases of each process. A function stays with one, so that its kernels are
    compiled once."""
    groups = collections.defaultdict(list)
    for k, case in enumerate(todo):
        groups[case.op.removeprefix("array.") or case.mode].append(k)
    mine = [[] for _ in range(jobs)]
    for group in sorted(groups.values(), key=len, reverse=True):
        min(mine, key=len).extend(group)
    return mine


# Putting it together


def official_results(args, todo, folder, jobs):
    """Those of the official implementation, kept from one run to the next."""
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
    for old in sorted(cache.glob("oracle-*.pickle"), key=lambda p: p.stat().st_mtime)[:-KEPT]:
        old.unlink()
    kept.write_bytes(pickle.dumps(results))
    return results


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    ap.add_argument("--official", required=True, help="interpreter with the official mlx")
    ap.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    ap.add_argument("--cases", type=int, default=22_000)
    ap.add_argument("--composed", type=int, default=400, help="programs under stacks of transforms")
    ap.add_argument(
        "--variants",
        type=int,
        help=f"forms of a row; each case its own by default on the CPU, {VARIANTS} on a GPU",
    )
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
    if args.variants is None:
        args.variants = 0 if args.device == "cpu" else VARIANTS
    made = (
        composed.cases(args.seed, args.composed)
        + cases(args.seed, args.cases, args.variants)
        + [(c, "bad") for c in bad_calls(args.seed)]
    )
    if args.only:
        made = [m for m in made if re.search(args.only, m[0].op)]
    todo = [case for case, _ in made]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        want = official_results(args, todo, folder, args.jobs)
        middle = time.monotonic()
        chosen = [i for i, (case, row) in enumerate(made) if told(case, row, want[i], args.device)]
        results = shares(
            sys.executable,
            [todo[i] for i in chosen],
            args.device,
            folder,
            "ours",
            dict(os.environ),
            args.jobs,
            20 * PATIENCE,
        )
    got = dict(zip(chosen, results, strict=True))
    end = time.monotonic()
    print(f"official {middle - begin:.0f} s, ours {end - middle:.0f} s")
    sys.exit(report(args, made, got, want, begin))


def told(case, row, want, device):
    """Whether the official result says what ours has to be."""
    if isinstance(want, Missing | Crashed) or (row == "bad" and not isinstance(want, Failed)):
        return False
    # float64 lives on the CPU alone.
    return device == "cpu" or "float64" not in dtypes(case)


def report(args, made, got, want, begin):
    """Prints what differs and the counts; 1 if anything does."""
    counts = collections.Counter()
    missing, crashed, allowed = (collections.Counter() for _ in range(3))
    wrong = []
    for i, (case, row) in enumerate(made):
        if isinstance(want[i], Crashed):
            crashed[case.op] += 1
        if i not in got:
            continue
        if isinstance(got[i], Missing):
            missing[got[i].name] += 1
            continue
        bad = row == "bad"
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
            tol *= {"grad": 8, "jvp": 8, "composed": 16}.get(case.mode, 1)
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
        f"{args.device}: {total} cases, {len(wrong)} differences, {bad} bad calls in "
        f"{time.monotonic() - begin:.1f}s (seed {args.seed}; {total + bad - len(wrong)} passed, "
        f"{sum(allowed.values())} known differences, {sum(missing.values())} of missing functions)"
    )
    return int(bool(wrong) or (args.complete and bool(missing)))


if __name__ == "__main__":
    main()
