#!/usr/bin/env python3
"""How long the files of src/ and shaders/ are, and how full their folders.

python tools/house.py   prints the figures; exit 1 where a file is longer than 700 lines, a
                        folder has more than 20 files, or the median of files is above 150 lines

Tests (files that end in `tests`, and folders of that name) do not count.
"""

import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LONGEST, FULLEST, MEDIAN = 700, 20, 150


def is_test(path):
    """Whether a file, from the root, is one of tests."""
    return path.stem.endswith(("tests", "testing")) or "tests" in path.parts


def main():
    lines, folders = {}, {}
    for place in ("src", "shaders"):
        for path in (ROOT / place).rglob("*"):
            name = path.relative_to(ROOT)
            if path.is_file() and not is_test(name):
                lines[name] = len(path.read_text().splitlines())
                folders[name.parent] = folders.get(name.parent, 0) + 1
    lengths = sorted(lines.values())
    print(
        f"{len(lengths)} files: median {statistics.median(lengths):.0f} lines, "
        f"90 % at most {lengths[len(lengths) * 9 // 10]}, longest {lengths[-1]}; "
        f"fullest folder {max(folders.values())} files"
    )
    wrong = [f"{name} has {n} lines" for name, n in lines.items() if n > LONGEST]
    wrong += [f"{name} has {n} files" for name, n in folders.items() if n > FULLEST]
    if statistics.median(lengths) > MEDIAN:
        wrong.append(f"the median of {statistics.median(lengths):.0f} lines is above {MEDIAN}")
    for w in sorted(wrong):
        print(w)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
