#!/usr/bin/env python3
"""Runs small programs here and on official MLX, and says which answers are equal.

    python behaviour.py --official PYTHON [--device cpu] [--programs FILE ...] [--only REGEX]

PYTHON is an interpreter with `mlx[cpu]` and NumPy installed. The programs are those of
snippets/behaviours/*.txt, or of the files that are named. A line is a program: its statements stand
behind one another with ` ; ` for a new line (indentation stays), and its last expression is what is
compared. Lines that begin with `##` and indented ones say something about programs. In a Markdown
file the programs are the lines that begin with `# ` or `== ` between fences, and under the heading
`# Export callback` each unindented line between fences is an expression in `x` whose primitives are
compared.

A program is equal, listed (its difference has a reason in known_behaviour.py) or open. The exit
status is 1 when one is open. Exceptions are equal when their types are; --text shows where their
words differ.
"""

import argparse
import collections
import os
import pathlib
import re
import sys
import time

import numpy as np
from compare import differs, no_answer
from wire import Boxed, Crashed, Failed, Snippet

SNIPPETS = pathlib.Path(__file__).parent / "snippets"
sys.path.append(str(SNIPPETS))

import known_behaviour  # noqa: E402
import runner  # noqa: E402

EXPORT = "# Export callback"
# What `x` may be under that heading.
SHAPES = ((4, 4), (1, 2, 4, 64))
SECONDS = 20
OVERLAP = 100
COMPILED = "c=mx.compile(f,shapeless=True); c(mx.array(A)); same(c(mx.array(B)),f(mx.array(B)))"
EXPORTED = (
    "p='t.mlxfn'; mx.export_function(p,f,mx.array(A),shapeless=True); "
    "g=mx.import_function(p); same(g(mx.array(B)),f(mx.array(B)))"
)


def joined(line):
    """The program of a line."""
    return line.replace(" ; ", "\n").replace(" ;\n", "\n")


def of_text(lines):
    return [joined(s) for s in lines if s.strip() and not s.startswith(("##", " "))]


def completed(program, others):
    """A program whose end was cut off: others go on where it ends. With the longest such end."""
    ends = [p.rpartition(program[-OVERLAP:])[2] for p in others if program[-OVERLAP:] in p]
    return program + max(ends, key=len, default="") if len(program) > OVERLAP else program


def of_markdown(lines):
    found, fenced, export = [], False, False
    for s in lines:
        if s.startswith("```"):
            fenced = not fenced
        elif not fenced:
            export = export or s.startswith(EXPORT)
        elif export:
            if s.strip() and not s.startswith(" "):
                found += [f"x = mx.ones({n})\nprimitives(lambda x: {s}, x)" for n in SHAPES]
        elif s.startswith(("# ", "== ")):
            found.append(joined(s.split(" ", 1)[1]))
    whole = found + [p.replace(COMPILED, EXPORTED) for p in found if p.endswith(COMPILED)]
    return [completed(p, whole) for p in found]


def programs(files):
    found = []
    for path in files:
        lines = path.read_text().splitlines()
        found += (of_markdown if path.suffix == ".md" else of_text)(lines)
    return list(dict.fromkeys(found))


def verdict(program, got, want, device):
    """(what it is, the reason or the difference)."""
    if isinstance(want, Boxed) and want.kind == "unreadable":
        return "unreadable", want.items[0]
    if isinstance(got, Crashed):
        return "open", f"ours ended with status {got.status}"
    if no_answer(want):
        return "listed", known_behaviour.NO_ANSWER
    why = differs(got, want, 4)
    if why is None:
        return "equal", ""
    reason = known_behaviour.reason(program, got, want, device)
    return ("listed", reason) if reason else ("open", why)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    ap.add_argument("--official", required=True, help="interpreter with the official mlx")
    ap.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    ap.add_argument("--programs", type=pathlib.Path, nargs="*", help="files of programs")
    ap.add_argument("--only", help="regular expression of programs")
    ap.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    ap.add_argument("--text", action="store_true", help="show where the words of errors differ")
    ap.add_argument("--quiet", action="store_true", help="print open programs and totals only")
    args = ap.parse_args()
    begin = time.monotonic()
    np.seterr(all="ignore")
    found = programs(args.programs or sorted((SNIPPETS / "behaviours").glob("*.txt")))
    found = [p for p in found if not args.only or re.search(args.only, p)]
    todo = [Snippet(p) for p in found]
    want = runner.official(args.official, todo, "behaviour", 1, SECONDS, args.jobs)
    per = 1 if args.device == "cpu" else 40
    got = runner.run(
        sys.executable, todo, args.device, "behaviour: ours", per, 4 * SECONDS, args.jobs
    )
    counts, reasons = collections.Counter(), collections.Counter()
    for program, g, w in zip(found, got, want, strict=True):
        what, why = verdict(program, g, w, args.device)
        counts[what] += 1
        if what == "listed":
            reasons[why] += 1
        if what == "open" or not args.quiet:
            print(f"{what:10} {Snippet(program)}" + (f"\n           {why}" if why else ""))
        both = isinstance(g, Failed) and isinstance(w, Failed)
        if args.text and both and g.text != w.text:
            print(f"           official says: {w.text}\n           ours says:     {g.text}")
    for reason, n in reasons.most_common():
        print(f"listed, {n} times: {reason}")
    crashed = sum(isinstance(w, Crashed) for w in want)
    print(f"the official one ended or hung in {crashed}")
    print(
        f"{args.device}: {len(found)} programs, {counts['equal']} equal, {counts['listed']} listed,"
        f" {counts['open']} open, {counts['unreadable']} unreadable"
        f" ({counts['equal'] + counts['listed']} passed in {time.monotonic() - begin:.1f}s)"
    )
    sys.exit(int(counts["open"] > 0))


if __name__ == "__main__":
    main()
