"""Checks a built wheel: tag, size, licences and lists inside, no paths of the building machine.

    python tools/wheel_check.py dist/mlx_vulkan-....whl

It is installed into a fresh environment, whose PATH has no compiler, and computes there.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

# Places where people build.
PATHS = re.compile(rb"(?:/home/[\w.-]+|/root|/Users/[\w.-]+|[A-Z]:\\\\Users)/[\w./-]{0,60}")
WANTED = [
    "licenses/LICENSE",
    "licenses/THIRD_PARTY.txt",
    "native.cdx.json",
    "mlx_vulkan.cyclonedx.json",
]
LARGEST = 20 << 20
PROGRAM = """
import mlx.core as mx, mlx.nn as nn
mx.set_default_device(mx.cpu)
layer = nn.Linear(64, 32)
nn.quantize(nn.Sequential(layer), group_size=32, bits=4)
value, grad = mx.value_and_grad(lambda x: mx.sum(layer(x) ** 2))(mx.ones((8, 64)))
mx.eval(value, grad, mx.compile(lambda a: mx.softmax(mx.exp(a) + 1))(mx.ones(100)))
print("computes", grad.shape, mx.vulkan.__version__, mx.__version__)
"""


def complaints(path):
    """What is wrong with the file."""
    names = zipfile.ZipFile(path).namelist()
    for wanted in WANTED:
        if not any(n.endswith(wanted) for n in names):
            yield f"{wanted} is not inside"
    if path.stat().st_size > LARGEST:
        yield f"{path.stat().st_size / 2**20:.1f} MiB, expected at most {LARGEST >> 20}"
    if not re.search(r"-cp311-abi3-(manylinux|macosx|win)", path.name):
        yield f"the tag is {path.stem.split('-', 2)[2]}"
    native = next(n for n in names if re.search(r"mlx/core\.[\w.-]*(so|pyd)$", n))
    with zipfile.ZipFile(path) as wheel:
        found = sorted(set(PATHS.findall(wheel.read(native))))
    if found:
        yield f"{len(found)} paths of the building machine, {found[0].decode(errors='replace')}"


def installed(path):
    """Installs the wheel into a fresh environment and runs a program there."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        env["PATH"] = str(python.parent)
        command = [python, "-m", "pip", "install", "--quiet", path.resolve()]
        subprocess.run(command, check=True, env=env)
        return subprocess.run([python, "-c", PROGRAM], env=env, cwd=folder).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wheel", type=Path)
    args = parser.parse_args()
    bad = list(complaints(args.wheel))
    print(f"{args.wheel.name}: {args.wheel.stat().st_size / 2**20:.1f} MiB")
    print("\n".join(bad))
    return 1 if installed(args.wheel) or bad else 0


if __name__ == "__main__":
    sys.exit(main())
