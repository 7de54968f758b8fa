#!/usr/bin/env python3
"""Holds recorded calls against the calls themselves, at the edges of contract.py.

    python recorded.py [--device cpu] [--share 0.1] [--seed 1] [--transform shapeless]

Official MLX cannot record many functions without their shapes, or store them, so that contract.py
has no answer to compare with. Here the answer is what the call gives: a share of all forms of the
arguments of the functions of `mlx.core` (forms.py) runs plainly and inside `compiled`, `shapeless`
or `checkpointed`, and both must give the same. The exit status is 1 where they do not.
"""

import argparse
import pathlib
import sys

import numpy as np
from compare import differs
from wire import Crashed, Failed

sys.path.append(str(pathlib.Path(__file__).parent / "snippets"))

import forms  # noqa: E402
import runner  # noqa: E402

SECONDS, PER = 16, 400
# What cannot be recorded says so.
TOLD = ("cannot infer", "[eval]", "trees of arrays", "before fork", "Not allowed inside")


def parse():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    ap.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    ap.add_argument("--share", type=float, default=0.1)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--jobs", type=int, default=2)
    ap.add_argument(
        "--transform", choices=["compiled", "shapeless", "checkpointed"], default="shapeless"
    )
    return ap.parse_args()


def calls(args):
    """(row, recorded, plain) of the share."""
    rng = np.random.default_rng(args.seed)
    for base in forms.bases():
        # Layers and optimizers draw their weights, or are compiled themselves.
        if not base.given or base.name.startswith(("nn.", "opt.", "mu.")):
            continue
        for where, some in forms.places(base):
            for form in some:
                text = forms.changed(base, where, form) if rng.random() < args.share else None
                recorded = text and forms.transformed(args.transform, text, base.given)
                if recorded:
                    yield base.row, recorded, forms.plain(text, base.given)


def why(row, got, want):
    """What is different, or None; errors may be told in other words and by other types."""
    ends = isinstance(got, Failed | Crashed), isinstance(want, Failed | Crashed)
    if all(ends) or any(word in str(v) for word in TOLD for v in (got, want)):
        return None
    return f"{got} instead of {want}"[:300] if any(ends) else differs(got, want, 16, row)


def main():
    args = parse()
    np.seterr(all="ignore")
    cases = list(calls(args))

    def results(snippets, label):
        return runner.run(sys.executable, snippets, args.device, label, PER, SECONDS, args.jobs)

    got = results([c[1] for c in cases], args.transform)
    want = results([c[2] for c in cases], "plain")
    found = [why(c[0], g, w) for c, g, w in zip(cases, got, want, strict=True)]
    for case, text in zip(cases, found, strict=True):
        if text:
            print(f"DIFFERS {case[1]}\n        {text}")
    wrong = sum(map(bool, found))
    print(f"{args.device}: {len(cases)} calls, {wrong} differ (seed {args.seed})")
    sys.exit(int(wrong > 0))


if __name__ == "__main__":
    main()
