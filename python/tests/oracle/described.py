"""What callbacks of `mx.export_function` are told about small functions, here and on official MLX.

`described.py` prints what the package of this interpreter says, one JSON line a program.
`described.py --official PYTHON` compares it with what that interpreter's package says: equal,
listed or open. `--write FILE` keeps official MLX's answers that are equal here, for the tests.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAMS = json.loads((Path(__file__).with_name("described.json")).read_text())

# Why some answers stay different.
LENIENT = "official MLX cannot describe it; the primitive goes by its own name here"
COMPOSED = "put together otherwise, with the same values"
LISTED = {
    "Unable to get state": LENIENT,
    "mx.inner": "official MLX transposes by the identity first",
    "mx.tensordot": "official MLX transposes by the identity first",
    "mx.einsum": "official MLX transposes by the identity first",
    "x[:,mx.array": COMPOSED,
    "x[mx.array([0,1]),1:3]": COMPOSED,
    "x.at[mx.array([0])].divide": COMPOSED,
    "x.at[mx.array([0])].subtract": COMPOSED,
    "mx.pad(x,1,mode='edge')": COMPOSED,
    "mx.full((4,4),x)": "an array of that shape is the result itself",
    "mx.linalg.cross": COMPOSED,
    "mx.random.": COMPOSED,
    "mx.linalg.pinv": COMPOSED,
    "mx.linalg.norm(x,ord='nuc')": COMPOSED,
    "mx.vmap": COMPOSED,
    "mx.hanning": COMPOSED,
    "mx.hamming": COMPOSED,
    "mx.bartlett": COMPOSED,
    "mx.blackman": COMPOSED,
    "x.squeeze()": "a squeeze of no axis is the array itself",
    "mx.convolve": COMPOSED,
    "mx.fft.fftshift": COMPOSED,
    "mx.dequantize": "one primitive here, as on official MLX's GPU",
    "mode='mxfp4'": "one primitive here, as on official MLX's GPU",
}


def text(value):
    """An argument as text that does not depend on the last digits of floats."""
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def inputs():
    """Arguments of the programs, by name."""
    import mlx.core as mx

    square = mx.arange(16, dtype=mx.float32).reshape(4, 4) / 10
    found = {"square": square, "ones": mx.ones((1, 2, 4, 64))}
    mx.eval(list(found.values()))
    return found


def told(program, x):
    """Names and arguments of the primitives of a program, or its error."""
    import mlx.core as mx

    out = []

    def callback(part):
        if part["type"] == "primitive":
            out.append(f"{part['name']}({', '.join(map(text, part['arguments']))})")

    try:
        mx.export_function(callback, eval("lambda x: " + program, {"mx": mx}), x)
    except Exception as e:
        return f"!{type(e).__name__}: {str(e)[:120]}"
    return " ".join(out)


def answers():
    """What this package says about each program."""
    given = inputs()
    return [[program, name, told(program, given[name])] for name, program in PROGRAMS]


def main():
    """Runs the script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--official", help="an interpreter with official MLX")
    parser.add_argument("--write", help="a file for official answers that are equal here")
    options = parser.parse_args()
    ours = answers()
    if not options.official:
        print(*map(json.dumps, ours), sep="\n")
        return 0
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    run = subprocess.run(
        [options.official, __file__], env=env, capture_output=True, text=True, check=True
    )
    theirs = [json.loads(line) for line in run.stdout.splitlines()]
    counts = {"equal": 0, "listed": 0, "open": 0}
    for (program, _, our), (_, _, their) in zip(ours, theirs, strict=True):
        listed = [why for key, why in LISTED.items() if key in program or key in their]
        kind = "equal" if our == their else "listed" if listed else "open"
        counts[kind] += 1
        if kind == "open":
            print(f"{program}\n  official {their}\n  here     {our}")
    print(", ".join(f"{n} {kind}" for kind, n in counts.items()))
    if options.write:
        equal = [t for o, t in zip(ours, theirs, strict=True) if o == t]
        Path(options.write).write_text("[\n" + ",\n".join(map(json.dumps, equal)) + "\n]\n")
    return 1 if counts["open"] else 0


if __name__ == "__main__":
    sys.exit(main())
