"""Devices that compile every kernel and run none: calls that reach them, and what is reported."""

import json
import os
import pathlib
import re
import subprocess
import sys

import mlx.core as mx
import pytest
from mlx._report import calls, compiled, device

pytestmark = pytest.mark.gpu
ROOT = pathlib.Path(__file__).resolve().parents[2]
DEVICES = ROOT / "python" / "tests" / "devices"


def test_every_kernel_of_a_family_compiles_and_nothing_runs():
    found = compiled.run(families=["random", "scans"])
    assert compiled.problems(found) == []
    names = {k["name"] for k in found["kernels"]}
    assert any(n.startswith("scan_sum") for n in names) and "random_normal_one" in names
    assert all(k["compile_ms"] > 0 and k["invocations"] > 0 for k in found["kernels"])
    assert found["calls"] > 20


# What a profile hides, and the capabilities that are then in no module (SPIR-V, 3.31).
HIDDEN = {
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
    "atomic_float": [6033],
}


@pytest.mark.parametrize("profile", ["least", "apple-moltenvk"])
def test_no_module_uses_what_a_device_lacks(profile):
    path = DEVICES / f"{profile}.profile"
    hidden = [
        word.strip()
        for line in path.read_text().splitlines()
        if line.startswith("hide = ")
        for word in line.removeprefix("hide = ").split(",")
    ]
    found = compiled.run(families=["attention", "sorts", "random", "scans"], profile=path)
    assert compiled.problems(found) == []
    used = {c for k in found["kernels"] for c in k["capabilities"]}
    assert len(found["kernels"]) > 70 and 1 in used
    assert not used & {c for name in hidden for c in HIDDEN.get(name, [])}
    extensions = {e for k in found["kernels"] for e in k["extensions"]}
    assert extensions <= ({"SPV_KHR_float_controls"} if "float_controls" not in hidden else set())
    limits = found["device"]["limits"]
    assert max(k["shared_memory"] for k in found["kernels"]) <= limits["shared_memory"]
    most = limits["max_workgroup_invocations"]
    assert max(k["invocations"] for k in found["kernels"]) <= most


def test_commands_are_dropped_and_memory_is_not_there():
    code = """
import mlx.core as mx
mx.set_default_device(mx.gpu)
mx.eval([mx.full((1 << 14, 1 << 16), i, mx.uint8) + 1 for i in range(16)])
print(mx.ones(3).tolist(), mx.get_active_memory() >> 30)
"""
    command = [sys.executable, "-c", code]
    env = compiled.environment()
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[0.0, 0.0, 0.0] 0\n", done.stderr


def test_calls_name_variants_that_there_are():
    known = {name for name, _ in mx.vulkan._environment()[1]}
    for family, (_, prefixes) in calls.FAMILIES.items():
        for prefix in prefixes:
            assert any(v.startswith(prefix) for v in known), (family, prefix)


def test_problems_are_errors_spills_and_too_much_shared_memory():
    kernel = {
        "name": "k",
        "error": "",
        "spills": 0,
        "scratch": 0,
        "shared_memory": 100,
        "waves": 4,
    }
    limits = {"device": {"limits": {"shared_memory": 100}}, "raised": ["f: x: ValueError: dtype"]}

    def told(raised=None, **changes):
        limits["raised"] += [raised] if raised else []
        bad = compiled.problems({**limits, "kernels": [{**kernel, **changes}]})
        limits["raised"] = limits["raised"][:1]
        return bad

    assert told() == []
    assert told(raised="f: x: RuntimeError: [shift] Only allowed on integers.") == []
    assert told(raised="f: x: RuntimeError: lost") == ["f: x: RuntimeError: lost"]
    assert told(error="no") == ["k: no"]
    assert told(spills=3, scratch=64) == ["k spills 3 registers to 64 bytes"]
    assert told(shared_memory=101) == ["k has 101 bytes of shared memory of 100"]
    assert compiled.low({"kernels": [{**kernel, "waves": 1}]}) == {"k": "one wave"}


def test_a_driver_without_hardware_is_no_device():
    manifest = compiled.driver()
    if manifest is None:
        return  # fetched by tools/mesa.py, where the distribution has it
    env = {k: v for k, v in compiled.environment("navi31").items() if k != "MLX_VK_COMPILE_ONLY"}
    code = "import json, mlx.core as mx; print(json.dumps([mx.device_count(mx.gpu)]))"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert json.loads(done.stdout) == [0], done.stderr
    assert "lacks memory" in done.stderr or os.environ.get("VK_DRIVER_FILES")


def test_a_report_holds_the_self_test_and_no_folders(tmp_path):
    path = tmp_path / "report.json"
    command = [sys.executable, "-m", "mlx.info", "--report", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    text = path.read_text()
    found = json.loads(text)
    assert found["gpus"] and all(gpu["selftest"]["ok"] for gpu in found["gpus"])
    assert all(gpu["kernels"] for gpu in found["gpus"])
    assert str(pathlib.Path.home()) not in text
    assert device.verdict(found["gpus"][0]).endswith("GB/s")


def test_profiles_say_what_device_they_are():
    for path in DEVICES.glob("*.profile"):
        lines = path.read_text().splitlines()
        assert lines[0].startswith("# ") and lines[1].startswith("name = "), path


def test_what_workgroups_tell_each_other_is_listed():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import portability
    finally:
        sys.path.remove(str(ROOT / "tools"))
    pattern = re.compile(r"\batomic[A-Z]\w*\(|memoryBarrierBuffer")
    files = {p.name for p in (ROOT / "shaders").rglob("*.*") if pattern.search(p.read_text())}
    assert files == set(portability.BETWEEN)
