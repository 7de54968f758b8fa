#!/usr/bin/env python3
"""Writes docs/support.md: which function of `mlx.core` takes which dtype on which device.

python tools/support.py           write the file
python tools/support.py --check   exit 1 when the file differs from what would be written

Nothing is listed by hand. Each function is called on each device with small arguments, drawn once
from its row in the tables of python/tests/oracle/ and converted to each dtype; the result is
computed, and the operations that CPU streams were handed meanwhile are counted. With --check, half
of the dtypes stand for their like on the GPU, whose kernels have to be compiled.
"""

import argparse
import difflib
import pathlib
import sys
import warnings

import mlx.core as mx
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "support.md"
sys.path.insert(0, str(ROOT / "python" / "tests" / "oracle"))

from arguments import A, Draw, drawn, round_to  # noqa: E402
from cases import ROWS  # noqa: E402
from wire import Arr, Case, Dt  # noqa: E402
from worker import Absent, build, function, leaves  # noqa: E402

DTYPES = (
    "bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 "
    "complex64"
).split()
FEW = "bool_ uint8 int32 float16 float32 float64 complex64".split()
HEADS = "bool u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64 c64".split()
FLOATS = {"float16", "bfloat16", "float32", "float64", "complex64"}
# Arguments of these groups say something else than what is computed on.
BESIDE = {"bool", "index"}
BOTH, CPU, GPU, HOST, NONE = "●", "c", "g", "h", "·"

HEADER = """\
# Support matrix

Written by `tools/support.py` from the live module; do not edit. A function is called with small
arguments of each dtype on each device, and the result is computed.

| mark | meaning |
|---|---|
| `●` | runs on the CPU and on the GPU |
| `c` | runs on CPU streams alone; a GPU stream raises |
| `g` | runs on GPU streams alone |
| `h` | a GPU stream hands work to the host |
| `·` | raises on both |

float64 is a dtype of the CPU, as in MLX. Dense linear algebra runs on CPU streams, as in MLX; asked
for on a GPU stream it raises ValueError{host}.

"""


def functions():
    """A good call of each function that computes arrays of some dtype, and its row."""
    calls = {}
    for row in ROWS:
        method = row.op.startswith(("array.", "[]", "at."))
        if method or row.op in calls:
            continue
        for seed in range(40):
            case = sample(row, seed)
            if whole(case.args) and places(row, case) and outcome(case) == "yes":
                calls[row.op] = row, case
                break
    return dict(sorted(calls.items(), key=lambda item: ("." in item[0], item[0])))


def sample(row, seed):
    """One call of a row, the same every time; a few of them are bad."""
    d = Draw(np.random.default_rng(seed))
    for spec in row.args:
        d.args.append(drawn(spec, d))
    kwargs = {k: drawn(v, d) for k, v in row.kwargs.items() if k != "stream"}
    return Case(row.op, d.args, kwargs)


def whole(v):
    """Whether no array is empty or a scalar."""
    if isinstance(v, list):
        return all(map(whole, v))
    return not isinstance(v, Arr) or v.values.size > 1


def places(row, case):
    """Numbers of the arguments whose dtype is the subject: arrays that are no index, mask or key,
    or else the dtype that is asked for."""

    def subject(spec, a):
        if isinstance(a, list):
            return all(isinstance(x, Arr) for x in a) and bool(a)
        if not isinstance(a, Arr):
            return False
        return spec.group not in BESIDE if isinstance(spec, A) else a.dtype in FLOATS

    pairs = list(enumerate(zip(row.args, case.args, strict=True)))
    arrays = [i for i, (spec, a) in pairs if subject(spec, a)]
    return arrays or [i for i, (_, a) in pairs if isinstance(a, Dt)]


def as_dtype(v, dtype):
    """An argument with another dtype."""
    if isinstance(v, list):
        return [as_dtype(x, dtype) for x in v]
    if isinstance(v, Dt):
        return Dt(dtype)
    x = np.nan_to_num(np.real(v.values)).astype(np.float64)
    if dtype not in FLOATS:
        x = np.clip(np.abs(x), 0, 100)
    return Arr(dtype, round_to(x, dtype))


def supported(row, case, dtype):
    """The outcome of a call with another dtype."""
    args = list(case.args)
    for i in places(row, case):
        args[i] = as_dtype(args[i], dtype)
    return outcome(Case(case.op, args, case.kwargs))


def outcome(case):
    """`yes` where arrays come of it, `no`, or `host` where a CPU stream was handed GPU work."""
    try:
        f = function(case.op)
        args = [build(a) for a in case.args]
        kwargs = {k: build(v) for k, v in case.kwargs.items()}
        mx.eval(leaves(args))
        before = mx.vulkan.host_ops()
        made = leaves(f(*args, **kwargs))
        mx.eval(made)
    except (Absent, ValueError, TypeError, RuntimeError, IndexError):
        return "no"
    if not made:
        return "no"
    on_gpu = mx.default_device() == mx.Device(mx.gpu)
    return "host" if on_gpu and mx.vulkan.host_ops() > before else "yes"


def matrix(dtypes_of, old):
    """Marks by function and dtype; for dtypes that the GPU is not asked about, `old` ones speak."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    mx.set_default_device(mx.cpu)
    calls = functions()
    answers = {}
    for device, dtypes in dtypes_of.items():
        mx.set_default_device(getattr(mx, device))
        for op, (row, case) in progress(calls, device):
            for dtype in dtypes:
                answers[op, dtype, device] = supported(row, case, dtype)
    table = {}
    for op in calls:
        marks = table[op] = []
        for dtype, before in zip(DTYPES, old.get(op, [NONE] * len(DTYPES)), strict=True):
            cpu = answers[op, dtype, "cpu"]
            told = {BOTH: "yes", GPU: "yes", HOST: "host"}.get(before, "no")
            gpu = answers.get((op, dtype, "gpu"), told)
            known = {"yesyes": BOTH, "yesno": CPU, "noyes": GPU, "nono": NONE}
            marks.append(known.get(cpu + gpu, HOST))
    return table


def progress(rows, device):
    """The rows, behind a progress bar on a terminal."""
    try:
        from tqdm import tqdm
    except ImportError:
        return rows.items()
    return tqdm(rows.items(), desc=device, disable=None)


def page(table):
    """The text of the file."""
    lines = ["| function | " + " | ".join(HEADS) + " |", "|---|" + ":-:|" * len(HEADS)]
    # Aliases share a line.
    same = {}
    for op, marks in table.items():
        same.setdefault((alias(op), tuple(marks)), []).append(op)
    for (_, marks), ops in same.items():
        lines.append("| " + ", ".join(f"`{op}`" for op in ops) + " | " + " | ".join(marks) + " |")
    hosts = sorted(op for op, marks in table.items() if HOST in marks)
    used = "; on the host runs part of " + ", ".join(f"`{op}`" for op in hosts) if hosts else ""
    return HEADER.format(host=used) + "\n".join(lines) + "\n"


def alias(op):
    """What functions have in common that are one function under several names."""
    f = mx
    for part in op.split("."):
        f = getattr(f, part)
    return f.__doc__


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args().check
    have = TARGET.read_text() if TARGET.exists() else ""
    asked = {"cpu": DTYPES}
    if mx.is_available(mx.gpu):
        asked["gpu"] = FEW if check else DTYPES
    else:
        print("no Vulkan device: what the file says of the GPU is taken over")
    text = page(matrix(asked, parse(have)))
    if not check:
        TARGET.write_text(text)
    elif text != have:
        lines = (have.splitlines(True), text.splitlines(True))
        sys.stdout.writelines(difflib.unified_diff(*lines, "docs/support.md", "live module"))
        sys.exit("docs/support.md is stale: run python tools/support.py")


def parse(text):
    """The marks of a written file, by function."""
    table = {}
    for line in text.splitlines():
        if line.startswith("| `") and len(cells := line.strip("| ").split(" | ")) == 15:
            for op in cells[0].split(", "):
                table[op.strip("`")] = cells[1:]
    return table


if __name__ == "__main__":
    main()
