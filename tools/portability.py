#!/usr/bin/env python3
"""Shows what the library does on GPUs that are not there, and writes docs/portability.md from it.

python tools/portability.py chips     every kernel compiled by AMD's compiler for chips by name
python tools/portability.py masks     tests with the features and limits of other devices
python tools/portability.py merge     joins what runs wrote by --out, and keeps it
python tools/portability.py page      writes docs/portability.md; with --check, compares it

chips and masks take a few of each that stand for the others; --full takes all, every dtype and
layout, and all tests; names after the command choose. --keep writes what was found to
docs/portability.json, from which the page is made. Parts of a run may go to several machines or
processes: --families and --part choose calls, --tests files of tests, --out writes what was found
to a file of its own, and merge takes such files. The exit status is 1 where a kernel does not
compile, spills without a reason, or a test fails.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

from mlx._report import compiled

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "docs" / "portability.json"
PAGE = ROOT / "docs" / "portability.md"
DEVICES = ROOT / "python" / "tests" / "devices"

# What stands for the others in a short run: 64 lanes alone, and 32 with matrices; the least of
# everything, and no float controls, memory model and size control.
FEW_CHIPS = ["vega20", "navi31"]
FEW_FAMILIES = ["products", "quantised products", "attention", "sorts", "fast"]
FEW_MASKS = ["least"]
FEW_TESTS = ["test_blas", "test_quantized", "test_reduce", "test_scatter"]

# Every operation, dtype and family of kernels.
OP_TESTS = """test_registry test_ops test_fast test_fast_sdpa test_reduce test_scan test_sort
test_blas test_products test_quantized test_conv test_indexing test_scatter test_random
test_gather_mm test_fft test_eval_joined test_eval_joined_dense""".split()

HEADER = """\
# Portability

Written by `tools/portability.py` from what it found; do not edit.

## Compiled for chips that are not there

Mesa's AMD driver compiles for any of its chips without hardware. `python -m mlx.info --compile
--chip navi31` makes every kernel that the chip's features allow and asks the driver what became of
it. Every module is valid SPIR-V for Vulkan 1.2 (1.3 where the device has it), uses no capability
that the device does not list, and keeps to its shared memory and invocations. A full walk has
31,749 calls: every row of the elementwise table, every family, dtype and layout, with each variant
of a kernel taken out of the choice in turn. One of 7,776 has all families with fewer dtypes and
layouts; one of 4,860 has those of them whose kernels ask most of a chip: products, quantised
products, attention, sorts, norms and rotations. Kernels count once by name and by what the driver
tells of them. All chips together reach every shader but those that `ELSEWHERE` in
`tools/portability.py` lists with a reason.

"""

FOUND = """
What the compiler's reports led to, each held by a test:

- Products of large matrices left one wave a unit on GPUs of 64 lanes (GCN, CDNA). Those have tiles
  of 128 x 64 and 64 x 64 now, with two and four waves, and a tenth to a fifth fewer cycles for a
  multiplication; RDNA has 32 x 32 x 16 for small products, with twice the waves and half of the
  cycles. The rows in `src/vulkan/tune/matmul.rs` are marked as compiled, not measured.
- Tiles of quantised products with 64 sums a lane took 152 to 256 registers on CDNA: one wave. GPUs
  of 64 lanes have the same tile with 256 lanes and 32 sums each: 96 to 128 registers, two waves.
  That row of `src/vulkan/tune/quantized/mod.rs` is marked likewise.
- Attention without shuffles and sorts that carry 64-bit keys asked for more than 16 KiB of shared
  memory, which was seen once lengths by specialisation constants counted. Their blocks follow from
  what there is.
- The driver may compile a kernel for 32 or 64 lanes. All that exchange values between lanes ask
  for a size: told to prefer the other size, it changes none of them.

What stays with one wave there: attention of few queries keeps eight rows of queries in 152 to 232
registers (with four it has two or three waves and reads the keys twice); transforms hold 33 to 41
KiB in shared memory, more than half of a unit's; four rows by eight-bit floats take 156 to 172.
"""

DRIVERS = """
## Two software drivers, three widths

Tests of the GPU run on the distribution's software driver (Mesa 22.3, subgroups of eight lanes).
More steps of `run_tests.sh` need no GPU either; minutes of two cores:

| step | what runs | minutes |
|---|---|---|
| `drivers` | the kernels' tests on the newest Mesa of the distribution's backports | 0.4 |
| `widths` | self-test and tests of kernels with subgroups of 4 and of 16 lanes | 0.2 |
| `chips` | the compile report of two chips, over the families that ask most | 0.9 |
| `masks` | the self-test under every profile, tests under the least device | 0.6 |

`tools/mesa.py` unpacks the newer Mesa (25.0, Vulkan 1.4) beside the system's. The tables here come
from `tools/portability.py chips --full` and `masks --full`: hours of two cores, so that parts of
them can go to several machines (`--out`, `merge`).
"""

LACKS = """
What each device lacks of what the library uses, and its limits (KiB of shared memory, invocations
of a workgroup, workgroups in each dimension, GiB of an allocation, queues):

| profile | without | limits |
|---|---|---|
"""

# What runs in place of a feature.
WITHOUT = """
In place of what is missing: lanes that cannot shuffle, or whose number may vary, share results in
shared memory; sorts without ballots or room are merges and not by radix; products without
cooperative matrices, or without the memory model and SPIR-V 1.6 that these need, are tiles of
ordinary arithmetic; 16-bit floats are converted to 32 bits where they are loaded; grids wider than
a device takes go in several dimensions or dispatches; arrays larger than an allocation are bound in
pieces or, without sparse buffers, refused by name; copies take the queue of the kernels; memory
that the host reads is not cached; kernels have no times without timestamps.
"""

MASKS = """
## Tests with the features and limits of other devices

`MLX_VK_PROFILE=python/tests/devices/NAME.profile` hides what such a device lacks and lowers limits,
and the self-test (each kind of kernel against NumPy) and the tests run on the software driver. A
device below the floor is refused by name before any operation runs.

Modules: what `python -m mlx.info --compile` makes under the profile. Each is valid SPIR-V (by the
validator of SPIRV-Tools), declares no capability, extension or mode of floats that is hidden, and
asks for no more shared memory and invocations than the profile has.

"""

FLOOR = """
## What every device must have

Vulkan 1.2 with `bufferDeviceAddress`, `timelineSemaphore`, `scalarBlockLayout`, 8- and 16-bit
storage and `shaderInt64`, workgroups of 256 invocations and 16 KiB of shared memory. Everything
else has a way without it.

Addresses, and positions in long arrays, are 64-bit integers in every kernel. Devices without
`shaderInt64` are, as far as public reports tell, Broadcom's V3D (Raspberry Pi), which has 16 KiB of
shared memory, no float16 and few units, so that the CPU backend is as fast, and older mobile GPUs
such as Qualcomm's Adreno 6xx, which lack 8-bit storage too. So there is no second form of the
kernels with pairs of 32-bit words: such a device is refused, and the refusal names the feature.
"""


ORDER = """
## What workgroups tell each other

Kernels are ordered by pipeline barriers (`MLX_VK_FULL_BARRIERS=1` puts one before each, and a test
holds the bits of both ways against each other).

Inside a dispatch no workgroup waits for another: there is no loop over a value that another one
writes. Whoever counts and is not last ends, and the last finds all parts there, in whatever order
the GPU ran them and however many of them at a time. So no forward progress between workgroups is
assumed. Parts are joined in their own order, not in that of arrival, so that the bits do not depend
on it either.

The order of memory is that of the Vulkan memory model. A part goes from the invocation that
stores it to the one that counts, to the one that counts last, to the one that loads it
(`shaders/lib/last.glsl`): a barrier of the workgroup that releases and acquires buffers, the
count, which does so at the scope of the device, and such a barrier again. What happens before
what is carried over all three. Parts lie in `coherent` buffers: stores are available and loads
visible to the device. With `MLX_VK_FULL_BARRIERS=1` every invocation has barriers of all memory
there, and two of the workgroup around each; a test holds the bits of both against each other.

| shader | atomic operations in | scope | what passes between invocations |
|---|---|---|---|
"""

# Shaders that no call reaches on any of these chips, and why.
ELSEWHERE = {
    "measure.comp": "measures a device when it is first used; those that only compile are not",
    "matmul_nv2.comp": "cooperative matrices of the workgroup (VK_NV_cooperative_matrix2)",
    "qmm_coop.comp": "matrices that lie in lanes as PTX says; compile-only devices cannot tell",
    "qmm_row.comp": "likewise",
    "qmm_held.comp": "likewise",
    "matmul_held.comp": "likewise",
    "warpgroup_image.comp": "comes before kernels in PTX (VK_NVX_binary_import)",
    "warpgroup_rest.comp": "likewise",
    "warpgroup_runs.comp": "likewise",
}


def unreached(sources):
    """Shader files that no kernel came of."""
    files = {p.relative_to(ROOT / "shaders").as_posix() for p in (ROOT / "shaders").rglob("*.comp")}
    reached = {name.split("/")[-1] for name in sources}
    return sorted(f for f in files if f.split("/")[-1] not in {*reached, *ELSEWHERE})


def chips(names, full, families=None, part=(0, 1)):
    """Reports on chips, two at a time."""
    names = names or (list(compiled.CHIPS) if full else FEW_CHIPS)
    families = families or (None if full else FEW_FAMILIES)
    found, bad = {}, 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        reports = {n: pool.submit(compiled.run, n, full, families, None, part) for n in names}
        for name, future in reports.items():
            try:
                found[name] = future.result()
            except RuntimeError as e:
                print(f"{name}: {e}")
                bad += 1
    return found, bad


def judged(reports, whole):
    """What is kept of reports on chips, printed, and how much is wrong in them; those of whole
    walks reach every shader."""
    found, bad, sources = {}, 0, set()
    for name, report in reports.items():
        wrong = compiled.problems(report) + unlisted(report)
        bad += len(wrong)
        print(f"{name}: " + ", ".join(f"{k} {v}" for k, v in compiled.summary(report).items()))
        for line in wrong:
            print(f"  {line}")
        sources |= {k["source"] for k in report["kernels"]}
        found[name] = {**compiled.summary(report), "low": compiled.low(report)}
    missing = unreached(sources) if whole and found else []
    if missing:
        print(f"no call reached {', '.join(missing)}")
    return found, bad + len(missing)


# Shaders of which a kernel has atomic operations: in what memory, at what scope, and what they
# tell. Tests hold the list against the modules.
BETWEEN = {
    "reduce.comp": ("buffers", "device", "parts of a result, joined by the workgroup that is last"),
    "sdpa_vector.comp": ("buffers", "device", "parts of the keys, as above"),
    "sdpa_token.comp": ("buffers", "device", "parts of the keys, as above"),
    "softmax.comp": ("buffers", "device", "sums of parts of a long row, as above"),
    "scatter.comp": ("buffers", "device", "sums and extremes of 32-bit integers, in any order"),
    "scatter_keys.comp": (
        "buffers",
        "device",
        "the last update of a place, as a maximum of numbers; read by the next dispatch, behind a "
        "pipeline barrier",
    ),
    "scatter_sums.comp": (
        "buffers, workgroup",
        "device, workgroup",
        "sums and maxima of integers, in any order; read by the next dispatch, behind a pipeline "
        "barrier, and by the workgroup behind one of its own",
    ),
    "qmm_coop.comp": ("workgroup", "workgroup", "the picks of a matrix, in any order"),
    "matmul_parts.comp": ("workgroup", "workgroup", "which blocks are left to plain arithmetic"),
    "matmul_parts_split.comp": (
        "buffers",
        "device",
        "whether a row is left to plain arithmetic; read by later dispatches, behind a pipeline "
        "barrier",
    ),
    "radix.comp": ("workgroup", "workgroup", "counts of digits, behind barriers of the workgroup"),
    "tops.comp": (
        "workgroup",
        "workgroup",
        "counts of digits, and how many elements are kept, in any order; ranks follow from their "
        "values and places",
    ),
}

# Those of them that only devices with matrix units reach.
BY_MATRICES = ["qmm_coop.comp", "matmul_parts.comp", "matmul_parts_split.comp"]


def unlisted(report):
    """Kernels of a report with atomic operations that the list does not know."""
    told = {(k["name"], k["source"], m) for k in report["kernels"] for m in k["atomics"]}
    return sorted(
        f"{name} has atomic operations in {memory}, which the list of {source} does not say"
        for name, source, memory in told
        if memory not in BETWEEN.get(source, ("",))[0].split(", ")
    )


def title(name):
    """What a profile says that it is."""
    return (DEVICES / f"{name}.profile").read_text().splitlines()[0].strip("# .")


def hides(name):
    """The features that a profile hides."""
    lines = (DEVICES / f"{name}.profile").read_text().splitlines()
    words = [x.removeprefix("hide = ").split(",") for x in lines if x.startswith("hide = ")]
    return {word.strip() for line in words for word in line}


LIMITS = {
    "shared_memory": lambda n: f"{n >> 10} KiB",
    "workgroup_invocations": lambda n: f"{n} invocations",
    "push_constants": lambda n: f"{n} bytes of push constants",
    "workgroups": lambda n: f"{n:,} groups",
    "max_buffer": lambda n: f"{round(n / 2**30)} GiB",
    "queues": lambda n: f"{n} queue" + "s" * (n > 1),
}


def lowers(name):
    """The limits that a profile lowers, in words."""
    lines = (DEVICES / f"{name}.profile").read_text().splitlines()
    numbers = dict(x.split(" = ") for x in lines if " = " in x and not x.startswith("#"))
    return [say(int(numbers[key])) for key, say in LIMITS.items() if key in numbers]


def refusal(env):
    """Why a device is refused; None where it is not."""
    code = "import json, mlx.core as mx"
    code += "; print(json.dumps([mx.device_count(mx.gpu), mx.vulkan._rejected()]))"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    count, (_, rejected) = json.loads(done.stdout)
    return None if count else "; ".join(why for _, _, why in rejected)


def selftest(env):
    """How many checks of the self-test of a device are right, and which are not."""
    code = "import json; from mlx import info; import mlx.core as mx"
    code += "; print(json.dumps(info.selftest(mx.Device(mx.gpu))['checks']))"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    if done.returncode:
        return 0, [done.stderr.strip().splitlines()[-1]]
    checks = json.loads(done.stdout)
    failed = [f"{k}: {detail}" for k, (status, detail) in checks.items() if status == "FAILED"]
    return sum(status == "ok" for status, _ in checks.values()), failed


def suite(env, file, more):
    """How many tests of a file pass, and which do not."""
    command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "--device", "gpu", "-p"]
    command += ["no:cacheprovider", "--timeout", "300", f"{ROOT}/python/tests/{file}.py", *more]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    failed = [x for x in done.stdout.splitlines() if x.startswith(("FAILED", "ERROR"))]
    passed = re.search(r"(\d+) passed", done.stdout)
    if done.returncode > 1 or not passed:
        failed.append((done.stdout + done.stderr)[-2000:])
    elif failed:
        print(done.stdout[-12_000:])
    return int(passed[1]) if passed else 0, failed


def modules(name):
    """How many modules a device of a profile gets, and which are not valid, use what is hidden, or
    ask for more than the limits."""
    try:
        report = compiled.run(profile=DEVICES / f"{name}.profile")
    except RuntimeError as e:
        return 0, [str(e)]
    wrong = compiled.problems(report) + unlisted(report) + compiled.hidden(report, hides(name))
    return len(report["kernels"]), wrong


def masks(names, full, files):
    """The self-test under every profile, and tests under those that stand for the others; where
    files of tests are named, they alone."""
    every = sorted(p.stem for p in DEVICES.glob("*.profile"))
    found, bad = {}, 0
    for name in names or every:
        env = {**os.environ, "MLX_VK_PROFILE": str(DEVICES / f"{name}.profile")}
        told = found[name] = {"title": title(name), "refused": refusal(env)}
        begin, failed, tests = time.perf_counter(), [], []
        if told["refused"] is None:
            if not files:
                told["checks"], failed = selftest(env)
                if full:
                    told["modules"], more = modules(name)
                    failed += more
                told["failed"] = len(failed)
            if full or name in FEW_MASKS:
                told["files"] = {}
                for file in (OP_TESTS if full else FEW_TESTS) if files is None else files:
                    passed, more = suite(env, file, [] if full else ["-m", "validation"])
                    told["files"][file] = [passed, len(more)]
                    tests += more
            bad += bool(failed or tests) or told.get("checks") == 0
            for line in (failed + tests)[:40]:
                print(f"  {line}")
        print(f"{name}: {verdict(told)}, {time.perf_counter() - begin:.0f} s", flush=True)
    return found, bad


def verdict(told):
    """What came of a profile."""
    if told["refused"]:
        return f"refused: {told['refused']}"
    right = f"{told['checks']} checks of the self-test right" if "checks" in told else "tests"
    failed = told.get("failed", 0) + sum(n for _, n in told.get("files", {}).values())
    return f"{right}, {failed} failed" if failed else right


def row(name, told):
    """A profile's line in the table of masks."""
    counts = told.get("files", {}).values()
    passed, failed = (sum(c[i] for c in counts) for i in (0, 1))
    ran = [passed + failed, passed] if counts else ["", ""]
    cells = [f"`{name}`", told["title"], verdict(told), told.get("modules", ""), *ran]
    return f"| {' | '.join(str(c) for c in cells)} |"


def kept():
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def both(old, new):
    """What is known of a chip or profile, with something newer."""
    files = {**old.get("files", {}), **new.get("files", {})}
    return {**old, **new, **({"files": files} if files else {})}


def keep(what, found):
    """Adds what was found to docs/portability.json."""
    every = kept()
    for name, new in found.items():
        rows = every.setdefault(what, {})
        rows[name] = both(rows.get(name, {}), new)
    KEPT.write_text(json.dumps(every, indent=1, sort_keys=True) + "\n")


def merge(files):
    """Joins what runs of parts wrote, and keeps it; how much is wrong in it."""
    reports, masked = {}, {}
    for path in files:
        part = json.loads(pathlib.Path(path).read_text())
        for name, report in part.get("chips", {}).items():
            reports.setdefault(name, []).append(report)
        for name, one in part.get("masks", {}).items():
            masked[name] = both(masked.get(name, {}), one)
    found, bad = judged({n: compiled.joined(r) for n, r in sorted(reports.items())}, bool(reports))
    for name, one in masked.items():
        wrong = one.get("failed", 0) + sum(n for _, n in one.get("files", {}).values())
        print(f"{name}: {verdict(one)}")
        bad += bool(wrong)
    keep("chips", found)
    keep("masks", masked)
    return bad


def grouped(reports):
    """How many names of kernels with one wave, by the beginning of the name and chip; those that
    spill by themselves, with the reason."""
    rows = {}
    for chip, s in reports.items():
        for kernel, what in s["low"].items():
            if what == "spills":
                row = (f"{what}: {compiled.reason(kernel)}", kernel)
            else:
                row = (what, re.match("[a-z]+(_[a-z]+)?", kernel)[0] + "*")
            chips = rows.setdefault(row, {})
            chips[chip] = chips.get(chip, 0) + 1
    return rows


def page(found):
    """The text of docs/portability.md."""
    lines = [HEADER]
    heads = (
        "chip",
        "is in",
        "calls",
        "kernels",
        "failures",
        "use memory for registers",
        "fewest waves",
    )
    lines.append(f"| {' | '.join(heads)} | one wave | most registers | time to compile |")
    lines.append("|---|---|---|---|---|---|---|---|---|---|")
    reports = found.get("chips", {})
    for name, s in reports.items():
        cells = [name, compiled.CHIPS[name], s["calls"], s["kernels"], s["failures"], s["spills"]]
        cells += [round(s["fewest_waves"]), s["one_wave"], round(s["most_registers"])]
        cells.append(f"{s['compile_seconds']} s")
        lines.append(f"| {' | '.join(str(c) for c in cells)} |")
    lines.append("\nKernels of which a unit holds one wave, or whose registers spill to memory:\n")
    lines += ["| kernels | what | chips |", "|---|---|---|"]
    for (what, kernel), names in sorted(grouped(reports).items()):
        told = ", ".join(f"{chip} {count}" for chip, count in sorted(names.items()))
        lines.append(f"| `{kernel}` | {what} | {told} |")
    lines.append(FOUND + MASKS.rstrip("\n") + "\n")
    lines += [
        "| profile | device | result | modules | tests run | passed |",
        "|---|---|---|---|---|---|",
    ]
    profiles = sorted(found.get("masks", {}).items())
    lines += [row(name, told) for name, told in profiles]
    ran = {name: ", ".join(sorted(told["files"])) for name, told in profiles if told.get("files")}
    lines.append("\nThe tests are those of these files of `python/tests`:\n")
    for files in sorted(set(ran.values()), key=len):
        lines.append(f"- {', '.join(f'`{n}`' for n in ran if ran[n] == files)}: {files}")
    lines.append(LACKS.rstrip("\n"))
    for name in sorted(p.stem for p in DEVICES.glob("*.profile")):
        gone = ", ".join(f"`{x}`" for x in sorted(hides(name)))
        lines.append(f"| `{name}` | {gone} | {', '.join(lowers(name))} |")
    text = "\n".join(lines) + "\n" + WITHOUT + DRIVERS + FLOOR + ORDER
    return text + "".join(f"| `{name}` | {' | '.join(told)} |\n" for name, told in BETWEEN.items())


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["chips", "masks", "merge", "page"])
    parser.add_argument("names", nargs="*", help="chips, profiles, or files to merge")
    parser.add_argument("--full", action="store_true", help="all of them, every variant and test")
    parser.add_argument("--keep", action="store_true", help="write docs/portability.json")
    parser.add_argument("--out", metavar="FILE", help="write what was found to a file, for merge")
    parser.add_argument("--check", action="store_true", help="page: exit 1 when it differs")
    parser.add_argument("--families", help="chips: families of calls, with commas between them")
    parser.add_argument("--part", default="1/1", help="chips: 2/3 is the second third of the calls")
    parser.add_argument("--tests", help="masks: files of tests, in one string; an empty one: none")
    parser.add_argument("--selftest", action="store_true", help="masks: the self-test alone")
    return parser.parse_args()


def main():
    args = arguments()
    if args.what == "page":
        text = page(kept())
        if args.check:
            same = PAGE.exists() and PAGE.read_text() == text
            print("docs/portability.md is up to date" if same else "docs/portability.md differs")
            return not same
        PAGE.write_text(text)
        return 0
    if args.what == "merge":
        return 1 if merge(args.names) else 0
    if args.what == "chips":
        if compiled.driver() is None:
            print("NOT RUN: no AMD driver of Mesa (see tools/mesa.py)")
            return 0
        number, parts = (int(n) for n in args.part.split("/"))
        families = args.families.split(",") if args.families else None
        reports, bad = chips(args.names, args.full, families, (number - 1, parts))
        whole = args.full and not families and parts == 1
        found, wrong = judged(reports, whole)
        bad += wrong
    else:
        if args.selftest:
            FEW_MASKS.clear()
        files = None if args.tests is None else args.tests.split()
        found, bad = masks(args.names, args.full, files)
        reports = found
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps({args.what: reports}) + "\n")
    if args.keep:
        keep(args.what, found)
    print(f"{args.what}: {len(found)} looked at, {bad} bad")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
