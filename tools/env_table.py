#!/usr/bin/env python3
"""Writes docs/environment.md from the variables that the library reads.

python tools/env_table.py           write the file
python tools/env_table.py --check   exit 1 when the file differs from what would be written

Each is a static of the code that it steers; src/vulkan/environment.rs and
src/python/runtime/environment.rs list them, python/tests/test_environment.py holds that against the
source.
"""

import argparse
import pathlib
import sys

import mlx.core as mx

TARGET = pathlib.Path(__file__).resolve().parent.parent / "docs" / "environment.md"

HEADER = """\
# Environment variables

Written by `tools/env_table.py` from the library's own list; do not edit. Variables are read when
they are first needed, most of them once. A value that makes no sense is passed over with a
`RuntimeWarning` when `mlx.core` is imported, and so is a name that begins with `MLX_VK_` and is not
in this table. An empty value counts as not set.

| variable | default | values | effect |
|---|---|---|---|
"""

VARIANTS = """
## Kernel variants

`MLX_VK_DISABLE=name,name` takes these out of every choice. Results stay right, within the
tolerances of the types; only the way there changes.

| name | what runs instead |
|---|---|
"""


def page():
    """The text of the file."""
    variables, variants = mx.vulkan._environment()
    lines = [
        f"| `{name}` | {default if '`' in default or ' ' in default else f'`{default}`'} "
        f"| {values} | {effect} |"
        for name, default, values, effect in variables
    ]
    rows = [f"| `{name}` | {instead} |" for name, instead in variants]
    return HEADER + "\n".join(lines) + "\n" + VARIANTS + "\n".join(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only")
    args = parser.parse_args()
    text = page()
    if not args.check:
        TARGET.write_text(text)
    elif TARGET.read_text() != text:
        print(f"{TARGET} is out of date; run tools/env_table.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
