#!/usr/bin/env python3
"""Checks that the library compiles for systems other than this one, without a warning.

python tools/other_systems.py [TARGET...]    without names: Windows and macOS

`cargo check` reads every line of ours for a target (`rustup target add TARGET` fetches what Rust
needs for it). What its dependencies build of C and C++ takes no part in that: a command that
leaves empty files stands in for the compilers. The exit status is 1 where something does not
compile or warns, 3 where a target is not installed.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGETS = ["x86_64-pc-windows-gnu", "aarch64-apple-darwin"]

STAND_IN = """\
#!/bin/sh
while [ $# -gt 0 ]; do
    [ "$1" = -o ] && : >"$2"
    shift
done
"""


def check(target, compiler):
    """The exit status of the check, and what it said that matters."""
    name = target.replace("-", "_")
    env = {**os.environ, "CMAKE": "true", "PYO3_NO_PYTHON": "1", f"AR_{name}": "true"}
    env |= {f"CC_{name}": compiler, f"CXX_{name}": compiler}
    command = ["cargo", "check", "--lib", "--features", "python,vulkan", "--target", target]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    bad = done.returncode != 0 or "warning: `mlx_vulkan`" in done.stderr
    return int(bad), done.stderr[-8000:] if bad else ""


def main():
    listed = ["rustup", "target", "list", "--installed"]
    installed = subprocess.run(listed, capture_output=True, text=True).stdout.split()
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        compiler = pathlib.Path(folder) / "compiler"
        compiler.write_text(STAND_IN)
        compiler.chmod(0o755)
        for target in sys.argv[1:] or TARGETS:
            if target not in installed:
                print(f"{target}: NOT RUN, not installed")
                worst = max(worst, 3)
                continue
            status, told = check(target, str(compiler))
            print(f"{target}: {'compiles' if status == 0 else told}", flush=True)
            worst = max(worst, 1 if status else 0)
    return worst


if __name__ == "__main__":
    sys.exit(main())
