"""Compiles every kernel that a device's features allow, and reports what its driver made of them.

Runs where devices only compile (MLX_VK_COMPILE_ONLY=1). A chip of Mesa's AMD driver needs no
hardware: the driver's compiler is asked for it by name.
"""

import glob
import json
import os
import subprocess
import sys
import time

__all__ = ["CHIPS", "driver", "joined", "main", "report", "run", "summary"]

# Names by RADV_FORCE_FAMILY, and what is sold with such a chip.
CHIPS = {
    "polaris10": "GCN 4, Radeon RX 480 and 580",
    "vega20": "GCN 5, Radeon VII and Instinct MI50",
    "mi200": "CDNA 2 (gfx90a), Instinct MI210 and MI250",
    "navi10": "RDNA 1, Radeon RX 5700",
    "navi21": "RDNA 2, Radeon RX 6800 and 6900",
    "navi31": "RDNA 3, Radeon RX 7900",
    "gfx1151": "RDNA 3.5, Strix Halo",
    "gfx1201": "RDNA 4, Radeon RX 9070",
}

# Kernels that may use memory for registers, by the beginning of their names: why they stay.
# Scalar registers that a driver moves to lanes of vector registers touch no memory.
KNOWN = {}


def driver():
    """The manifest of the AMD driver that tools/mesa.py fetched, or of the system; or None."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    own = sorted(glob.glob(os.path.join(cache, "mlx-vulkan", "mesa-[0-9]*", "radeon.json")))
    system = glob.glob("/usr/share/vulkan/icd.d/radeon_icd*.json")
    return (own[-1:] or system[:1] or [None])[-1]


def environment(chip=None):
    """The environment of a process whose devices only compile."""
    # Mesa keeps what it compiled, and would tell no times.
    env = {**os.environ, "MLX_VK_COMPILE_ONLY": "1", "MESA_SHADER_CACHE_DISABLE": "true"}
    if chip:
        manifest = driver()
        if manifest is None:
            raise RuntimeError("no driver for AMD's GPUs (Mesa's RADV) was found")
        folder = os.path.join(os.path.dirname(manifest), "lib")
        env.update(RADV_FORCE_FAMILY=chip, VK_DRIVER_FILES=manifest, VK_ICD_FILENAMES=manifest)
        env["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [folder, env.get("LD_LIBRARY_PATH")]))
    return env


def run(chip=None, full=False, families=None, profile=None, part=(0, 1)):
    """The report on a chip, or on this machine's first device, by a process of its own; with the
    features and limits of a file of MLX_VK_PROFILE, where one is named; of the part of all calls
    with that number of so many."""
    command = [sys.executable, "-m", "mlx._report.compiled", json.dumps([full, families, part])]
    env = environment(chip) | ({"MLX_VK_PROFILE": str(profile)} if profile else {})
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise RuntimeError(f"compiling for {chip or 'this device'} failed: {lines[-1]}")
    return json.loads(done.stdout)


def _kernel(compiled, family):
    """What is told of a kernel, in the words of every driver."""
    told = compiled["statistics"]
    number = {k: told.get(k) for k in ("VGPRs", "SGPRs", "Code size", "Scratch size")}
    return {
        "family": family,
        "name": compiled["name"],
        "error": compiled["error"],
        "subgroup_size": compiled["subgroup_size"],
        "invocations": compiled["invocations"],
        "shared_memory": max(compiled["shared_memory"], int(told.get("LDS size", 0))),
        "registers": number["VGPRs"],
        "scalar_registers": number["SGPRs"],
        "spills": int(told.get("Spilled VGPRs", 0)),
        "scalar_spills": int(told.get("Spilled SGPRs", 0)),
        "scratch": int(number["Scratch size"] or 0),
        "code_bytes": number["Code size"],
        "waves": told.get("Subgroups per SIMD"),
        "compile_ms": round(compiled["compile_ms"], 2),
        "source": compiled["source"],
        "capabilities": compiled["capabilities"],
        "extensions": compiled["extensions"],
        "atomics": compiled["atomics"],
    }


def _same(kernel):
    """What two reports of one kernel have in common, whoever called it."""
    return tuple(str(v) for k, v in kernel.items() if k not in ("family", "compile_ms"))


def report(full, families=None, part=(0, 1)):
    """Compiles, in this process: facts about the device, its kernels, and the calls that raised."""
    import mlx.core as mx
    from mlx._report.calls import calls

    if not mx.is_available(mx.gpu):
        raise RuntimeError("no Vulkan device was found")
    mx.set_default_device(mx.gpu)
    begin, count, kernels, raised, seen = time.perf_counter(), 0, [], set(), set()
    old = mx.vulkan._set_disabled([])
    try:
        for family, off, name, call in _part(list(calls(full, families)), *part):
            mx.vulkan._set_disabled(list(off))
            count += 1
            try:
                mx.eval(call())
            except (RuntimeError, ValueError, TypeError) as e:
                told = f"{type(e).__name__}: {str(e).splitlines()[0]}"
                raised.add(f"{family}: {name}: {told}")
            for compiled in mx.vulkan._compiled():
                kernel = _kernel(compiled, family)
                if _same(kernel) not in seen:
                    seen.add(_same(kernel))
                    kernels.append(kernel)
    finally:
        mx.vulkan._set_disabled(old)
    return {
        "device": mx.vulkan.describe(0),
        "calls": count,
        "seconds": round(time.perf_counter() - begin, 1),
        "kernels": kernels,
        "raised": sorted(raised),
    }


def _part(rows, number, parts):
    """One of so many parts of rows, each a run of them."""
    return rows[len(rows) * number // parts : len(rows) * (number + 1) // parts]


def joined(reports):
    """One report of those of parts of the calls."""
    kernels = {}
    for found in reports:
        for kernel in found["kernels"]:
            kernels.setdefault(_same(kernel), kernel)
    return {
        "device": reports[0]["device"],
        "calls": sum(found["calls"] for found in reports),
        "seconds": round(sum(found["seconds"] for found in reports), 1),
        "kernels": list(kernels.values()),
        "raised": sorted({told for found in reports for told in found["raised"]}),
    }


def summary(found):
    """Counts of a report."""
    kernels = found["kernels"]
    waves = [k["waves"] for k in kernels if k["waves"]]
    return {
        "name": found["device"]["name"],
        "calls": found["calls"],
        "kernels": len(kernels),
        "failures": sum(bool(k["error"]) for k in kernels),
        "spills": sum(k["spills"] > 0 or k["scratch"] > 0 for k in kernels),
        "scalar_spills": sum(k["scalar_spills"] > 0 for k in kernels),
        "most_registers": max((k["registers"] or 0 for k in kernels), default=0),
        "most_shared_memory": max((k["shared_memory"] for k in kernels), default=0),
        "fewest_waves": min(waves, default=None),
        "one_wave": sum(w < 2 for w in waves),
        "compile_seconds": round(sum(k["compile_ms"] for k in kernels) / 1e3, 1),
        "seconds": found["seconds"],
    }


def low(found):
    """Kernels that use memory for registers, or fill a unit with one wave: which, by name."""
    bad = {}
    for k in found["kernels"]:
        if k["spills"] or k["scratch"]:
            bad[k["name"]] = "spills"
        elif k["waves"] and k["waves"] < 2:
            bad.setdefault(k["name"], "one wave")
    return bad


def reason(name):
    """Why a kernel may use memory for registers; empty where nobody says so."""
    return next((why for start, why in KNOWN.items() if name.startswith(start)), "")


# What a profile may hide, and the capabilities that are then in no module (SPIR-V, section 3.31).
NEEDS = {
    "float16": [9],
    "float64": [10],
    "atomic_int64": [12],
    "int16": [22],
    "int8": [39],
    "subgroup_arithmetic": [63],
    "subgroup_ballot": [64],
    "subgroup_shuffle": [65, 66],
    "push_constant16": [4435],
    "push_constant8": [4450],
    "float_controls": [4464, 4466, 4467],
    "bfloat16": [5116, 5117, 5118],
    "memory_model": [5345, 5346],
    "int_dot_product": [6016, 6017, 6018, 6019],
    "cooperative_matrix": [6022],
    "cooperative_matrix2": [5430, 5431, 5432, 5433, 5434, 5439],
    "atomic_float": [6033],
}
# The same for extensions of SPIR-V.
EXTENSIONS = {
    "float_controls": "SPV_KHR_float_controls",
    "memory_model": "SPV_KHR_vulkan_memory_model",
    "bfloat16": "SPV_KHR_bfloat16",
    "cooperative_matrix": "SPV_KHR_cooperative_matrix",
    "cooperative_matrix2": "SPV_NV_cooperative_matrix2",
    "int_dot_product": "SPV_KHR_integer_dot_product",
    "atomic_float": "SPV_EXT_shader_atomic_float_add",
}


def hidden(found, features):
    """Kernels that use what a device does not have."""
    bad = {c: name for name in features for c in NEEDS.get(name, [])}
    extensions = {EXTENSIONS[name]: name for name in features if name in EXTENSIONS}
    wrong = []
    for k in found["kernels"]:
        uses = {bad[c] for c in k["capabilities"] if c in bad}
        uses |= {extensions[e] for e in k["extensions"] if e in extensions}
        wrong += [f"{k['name']} uses {name}, which is hidden" for name in sorted(uses)]
    return wrong


# Calls that are refused with reason: operations without a dtype, and arrays above a device's limit.
REFUSED = ("Only allowed on", "in one array")


def problems(found):
    """What is wrong in a report: kernels that do not compile, spill, or ask for too much."""
    limits = found["device"]["limits"]
    most, lanes = limits["shared_memory"], limits["max_workgroup_invocations"]
    raised = [told for told in found["raised"] if "RuntimeError" in told]
    wrong = [told for told in raised if not any(why in told for why in REFUSED)]
    for k in found["kernels"]:
        if k["error"]:
            wrong.append(f"{k['name']}: {k['error']}")
        if (k["spills"] or k["scratch"]) and not reason(k["name"]):
            wrong.append(f"{k['name']} spills {k['spills']} registers to {k['scratch']} bytes")
        if k["shared_memory"] > most:
            wrong.append(f"{k['name']} has {k['shared_memory']} bytes of shared memory of {most}")
        if k["invocations"] > lanes:
            wrong.append(f"{k['name']} has {k['invocations']} invocations of {lanes}")
    return wrong


def show(found):
    """Prints a report as a table."""
    head = ("kernel", "lanes", "regs", "spills", "shared", "waves", "code", "ms")
    print(f"{found['device']['name']}: {', '.join(f'{k} {v}' for k, v in summary(found).items())}")
    print(f"{head[0]:<60}" + "".join(f"{h:>8}" for h in head[1:]))
    for k in sorted(found["kernels"], key=lambda k: k["name"]):
        values = (
            k["subgroup_size"],
            k["registers"],
            k["spills"],
            k["shared_memory"],
            k["waves"],
            k["code_bytes"],
            k["compile_ms"],
        )
        cells = ("-" if v is None else f"{v:.6g}" for v in values)
        print(f"{k['name'][:60]:<60}" + "".join(f"{c:>8}" for c in cells))
        if k["error"]:
            print(f"  {k['error'].splitlines()[0]}")


def main():
    """The process that compiles: writes its report to standard output."""
    json.dump(report(*json.loads(sys.argv[1])), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
