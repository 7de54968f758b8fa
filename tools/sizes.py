#!/usr/bin/env python3
"""Finds casts, products and allocations of numbers that nobody checked, in ops, io and python.

python tools/sizes.py           exit 1 where one has no reason
python tools/sizes.py --count   how many of each kind there are

These floors take numbers from callers and from files. Shapes of arrays were checked when the
array was made (`core::layout::checked_size`): 32 bits each, and their product fits. Everything
else may be any number. So these need a reason, `// FITS: why`, on the line or above it in the
same paragraph:

- a cast to 32 bits or fewer, which drops the rest without a word
- a cast to usize of what is neither counted nor a dimension: a negative number becomes huge
- a product of a list that is not part of an array's shape, and a power or a shift by a number
- memory for as many elements as a number says

Why no lint of clippy: cast_possible_truncation and arithmetic_side_effects count every index
and every loop variable (some thousand places), and a lint that is allowed everywhere protects
nothing."""

import argparse
import collections
import pathlib
import re
import sys

SRC = pathlib.Path(__file__).resolve().parent.parent / "src"
FLOORS = ("ops", "io", "python")

NARROW = re.compile(r"\bas (?:u8|i8|u16|i16|u32|i32|c_int)\b")
USIZE = re.compile(r"\bas usize\b")
# What a number is counted or bounded by already.
COUNTED = re.compile(
    r"(?:len\(\)|ndim\(?\)?|rem_euclid\(\w+\)|arity|\.0\.0|\.index|kind|mode|norm|spectrum|address|ptr\(\)|dim\(-?\d\)"
    r"|\.0|[A-Z_]{3,}|byte\(\d\)\?) as usize"
)
PRODUCT = re.compile(r"\.product(?:::<\w+>)?\(\)")
OF_SHAPE = re.compile(r"shape\(\)|shape\[|f64|f32|self\.product|op\.product|\.dims\(|sizes\[")
SHIFT = re.compile(r"\.pow\((?!\d)|\b1\w* << (?!\d)[a-z]")
# `vec![x; n]` and the like; lengths of lists and numbers of axes are small or paid for.
MEMORY = re.compile(
    r"vec!\[[^];]*;\s*([^]]+)\]|with_capacity\(([^)]*\)?)\)|\.resize\(([^,]+),|\.reserve\(([^)]*)\)"
)
SMALL = re.compile(r"len\(\)?|ndim|\b\d+\b|[A-Z]{3,}|^n[dm]?$")
REASON = re.compile(r"//.*\bFITS: \S")


def without_tests(text):
    """The lines of a file, those of test modules empty."""
    lines, skip = [], False
    for line in text.split("\n"):
        if line.startswith("#[cfg(test)]") or line.startswith("#[cfg(all(test"):
            skip = True
        lines.append("" if skip else line)
        if skip and line == "}":
            skip = False
    return lines


def kinds(line, floor):
    """What a line of code does that needs a reason."""
    code = line.split("//")[0]
    if NARROW.search(code):
        yield "cast to 32 bits or fewer"
    if len(USIZE.findall(code)) > len(COUNTED.findall(code)):
        yield "cast to usize"
    if PRODUCT.search(code) and not OF_SHAPE.search(code):
        yield "product"
    if SHIFT.search(code):
        yield "power or shift"
    for found in MEMORY.finditer(code):
        size = next(g for g in found.groups() if g is not None).strip()
        if not SMALL.search(size):
            yield "memory"


def reasoned(lines, i):
    """Whether a reason stands on the line, or above it up to the last empty line."""
    if REASON.search(lines[i]):
        return True
    for above in reversed(lines[:i]):
        if not above.strip():
            return False
        if REASON.search(above):
            return True
    return False


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", action="store_true", help="how many of each kind there are")
    args = parser.parse_args()
    counts, wrong = collections.Counter(), []
    for floor in FLOORS:
        for path in sorted((SRC / floor).rglob("*.rs")):
            if "test" in path.name or "tests" in path.relative_to(SRC).parts:
                continue
            lines = without_tests(path.read_text())
            for i, line in enumerate(lines):
                for kind in kinds(line, floor):
                    counts[kind] += 1
                    if not reasoned(lines, i):
                        wrong.append(
                            f"{path.relative_to(SRC.parent)}:{i + 1}: {kind}: {line.strip()}"
                        )
    if args.count:
        for kind, n in counts.most_common():
            print(f"{n:5} {kind}")
        return 0
    for w in wrong:
        print(w)
    if wrong:
        print(f"{len(wrong)} places need a reason, '// FITS: why', or a check")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
