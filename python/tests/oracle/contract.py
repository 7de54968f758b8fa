#!/usr/bin/env python3
"""Holds the contract of every public call against official MLX, at its edges.

    python contract.py --official PYTHON [--device cpu] [--cases 5000] [--seed 1] [--only REGEX]
    python contract.py --official PYTHON --full

PYTHON is an interpreter with `mlx[cpu]` and NumPy installed. A case (forms.py) is a good call of a
function, layer, loss, optimizer or tree function in which one argument has another form (missing,
None, a scalar of Python, NumPy or MLX, a container, an empty one, a number out of range, another
dtype, text), plainly or inside a transform. Both implementations run it; whether it is accepted,
the type of the exception, types of containers, dtypes, shapes and values must be equal. Where the
official one crashes, hangs or reports a failed C++ cast there is no answer, and ours must not crash
or hang either. What may differ stands in known_contract.py with its reason. The exit status is 1
when anything else differs.
"""

import argparse
import collections
import os
import pathlib
import re
import signal
import sys
import time

import numpy as np
from compare import differs, no_answer
from wire import Crashed, Failed

SNIPPETS = pathlib.Path(__file__).parent / "snippets"
sys.path.append(str(SNIPPETS))

import forms  # noqa: E402
import known_contract  # noqa: E402
import runner  # noqa: E402

FULL = 60_000
SECONDS = 4
PER = 400  # snippets of a process
# The tolerance of results in float32 that half precision went into.
HALF = {"bfloat16": 2000, "float16": 200}
TIMES = (-signal.SIGPROF, -signal.SIGALRM)


def parse():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    ap.add_argument("--official", required=True, help="interpreter with the official mlx")
    ap.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    ap.add_argument("--cases", type=int, default=5000)
    ap.add_argument("--full", action="store_true", help=f"{FULL} cases")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--only", help="regular expression of snippets")
    ap.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    ap.add_argument("--each", type=int, default=3, help="how many differences of a kind are shown")
    ap.add_argument("--all", type=pathlib.Path, help="file for all differences, listed ones too")
    return ap.parse_args()


def verdict(case, got, want, device):
    """(equal, no answer, listed or open; the reason or the difference)."""
    if isinstance(got, Crashed):
        # What takes for ever by its arguments, a stack of 2**70 layers, does in both, unless memory
        # ends before.
        ends = (*TIMES, -signal.SIGABRT) if "2**" in case.form else TIMES
        both = isinstance(want, Crashed) and got.status in ends and want.status in TIMES
        return ("no answer", "") if both else ("open", f"ours ended with status {got.status}")
    if no_answer(want):
        return "no answer", ""
    row = case.base.row
    tol = (row.tol if row else 4) * (8 if case.transform in ("grad", "jvp") else 2)
    tol *= next((more for name, more in HALF.items() if name in str(case.snippet)), 1)
    why = differs(got, want, tol, row)
    if why is None:
        return "equal", ""
    reason = known_contract.reason(case, got, want, device)
    return ("listed", reason) if reason else ("open", why)


def kind(got, want):
    """What a difference is like, for the table."""

    def word(v):
        return v.type if isinstance(v, Failed) else "crash" if isinstance(v, Crashed) else "value"

    return f"{word(got)} instead of {word(want)}"


def report(args, cases, got, want, begin):
    counts, reasons, kinds, shown = (collections.Counter() for _ in range(4))
    every = []
    for case, g, w in zip(cases, got, want, strict=True):
        what, why = verdict(case, g, w, args.device)
        counts[what] += 1
        if what == "listed":
            reasons[why] += 1
        if what in ("listed", "open"):
            every.append(
                f"{what} {case.transform} {case.base.name} {case.where} {case.form}\n    "
                f"{case.snippet}\n    {why}"
            )
        if what == "open":
            kinds[case.base.name, kind(g, w)] += 1
            shown[case.base.name, kind(g, w)] += 1
            if shown[case.base.name, kind(g, w)] <= args.each:
                print(f"DIFFERS {case.snippet}\n        {why}")
    for (name, what), n in kinds.most_common(60):
        print(f"{n:6d} {name}: {what}")
    for reason, n in reasons.most_common():
        print(f"listed, {n} times: {reason}")
    if args.all:
        args.all.write_text("\n".join(every))
    passed, seconds = len(cases) - counts["open"], time.monotonic() - begin
    print(
        f"{args.device}: {len(cases)} cases of {len({c.base.name for c in cases})} functions, "
        f"{counts['open']} differences, {counts['listed']} listed, {counts['no answer']} without "
        f"an official answer ({passed} passed in {seconds:.1f}s, seed {args.seed})"
    )
    return int(counts["open"] > 0)


def main():
    args = parse()
    begin = time.monotonic()
    np.seterr(all="ignore")
    cases = forms.cases(args.seed, FULL if args.full else args.cases)
    if args.only:
        cases = [c for c in cases if re.search(args.only, c.snippet.text)]
    todo = [c.snippet for c in cases]
    want = runner.official(args.official, todo, "contract", PER, SECONDS, args.jobs)
    middle = time.monotonic()
    got = runner.run(
        sys.executable, todo, args.device, "contract: ours", PER, 4 * SECONDS, args.jobs
    )
    print(f"official {middle - begin:.0f} s, ours {time.monotonic() - middle:.0f} s")
    sys.exit(report(args, cases, got, want, begin))


if __name__ == "__main__":
    main()
