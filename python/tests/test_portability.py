"""Devices that compile every kernel and run none: calls that reach them, and what is reported."""

import json
import os
import pathlib
import re
import subprocess
import sys

import helpers as h
import mlx.core as mx
import pytest
from mlx._report import calls, compiled, device

pytestmark = pytest.mark.gpu
ROOT = pathlib.Path(__file__).resolve().parents[2]
DEVICES = ROOT / "python" / "tests" / "devices"
sys.path.insert(0, str(ROOT / "tools"))
import portability  # noqa: E402
import tested_devices  # noqa: E402

sys.path.remove(str(ROOT / "tools"))


def test_every_kernel_of_a_family_compiles_and_nothing_runs():
    found = compiled.run(families=["random", "scans"])
    assert compiled.problems(found) == []
    names = {k["name"] for k in found["kernels"]}
    assert any(n.startswith("scan_sum") for n in names) and "random_normal_one" in names
    assert all(k["compile_ms"] > 0 and k["invocations"] > 0 for k in found["kernels"])
    assert found["calls"] > 20


@pytest.mark.parametrize("profile", ["least", "apple-moltenvk"])
def test_no_module_uses_what_a_device_lacks(profile):
    hides = portability.hides(profile)
    path = DEVICES / f"{profile}.profile"
    found = compiled.run(families=["attention", "sorts", "random", "scans"], profile=path)
    assert compiled.problems(found) + compiled.hidden(found, hides) == []
    assert len(found["kernels"]) > 70 and all(1 in k["capabilities"] for k in found["kernels"])
    # What is hidden would be found: the device has some of it.
    whole = compiled.run(families=["random"])
    used = {"float_controls"}
    assert {x.split()[2].rstrip(",") for x in compiled.hidden(whole, hides)} >= used


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
        "invocations": 64,
        "waves": 4,
    }
    most = {"shared_memory": 100, "max_workgroup_invocations": 64}
    limits = {"device": {"limits": most}, "raised": ["f: x: ValueError: dtype"]}

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
    assert told(invocations=65) == ["k has 65 invocations of 64"]
    assert told(shared_memory=101) == ["k has 101 bytes of shared memory of 100"]
    assert compiled.low({"kernels": [{**kernel, "waves": 1}]}) == {"k": "one wave"}


def test_kernels_that_rely_on_subgroups_ask_for_their_size(monkeypatch):
    if compiled.driver() is None:
        return  # fetched by tools/mesa.py, where the distribution has it
    # The driver takes 64 lanes where it may choose, or 32 when told so.
    sizes = []
    for told in ("", "cswave32"):
        monkeypatch.setenv("RADV_PERFTEST", told)
        found = compiled.run("navi31", families=["sorts"])
        assert found["device"]["limits"]["subgroup_sizes"] == [32, 64]
        assert compiled.problems(found) == []
        by = {}
        for k in found["kernels"]:
            # Capabilities of operations between lanes.
            relies = any(61 < c < 69 for c in k["capabilities"])
            by.setdefault((k["name"], relies), set()).add(k["subgroup_size"])
        sizes.append(by)
    before, after = sizes
    assert before.keys() == after.keys()
    relying = [key for key in before if key[1]]
    assert len(relying) > 5 and all(before[key] == after[key] for key in relying)
    assert any(before[key] != after[key] for key in before if not key[1])


def test_a_driver_without_hardware_is_no_device():
    manifest = compiled.driver()
    if manifest is None:
        return  # fetched by tools/mesa.py, where the distribution has it
    env = {k: v for k, v in compiled.environment("navi31").items() if k != "MLX_VK_COMPILE_ONLY"}
    code = "import json, mlx.core as mx; print(json.dumps([mx.device_count(mx.gpu)]))"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert json.loads(done.stdout) == [0], done.stderr
    assert "lacks memory" in done.stderr or os.environ.get("VK_DRIVER_FILES")


def other_software_driver():
    """The environment of the driver that tools/mesa.py fetched; None where it did not."""
    manifest = pathlib.Path(compiled.driver() or "none").with_name("lvp.json")
    if not manifest.exists():
        return None
    names = dict.fromkeys(("VK_DRIVER_FILES", "VK_ICD_FILENAMES"), str(manifest))
    return {**os.environ, **names, "LD_LIBRARY_PATH": str(manifest.parent / "lib")}


def test_reports_hold_the_self_test_and_no_folders_and_fill_the_page(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    monkeypatch.setattr(tested_devices, "KEPT", tmp_path / "kept.json")
    monkeypatch.setattr(tested_devices, "PAGE", page)
    drivers = set()
    for env in filter(None, (dict(os.environ), other_software_driver())):
        path = tmp_path / "report.json"
        command = [sys.executable, "-m", "mlx.info", "--report", str(path)]
        subprocess.run(command, check=True, capture_output=True, env=env)
        text = path.read_text()
        found = json.loads(text)
        assert found["gpus"] and all(gpu["selftest"]["ok"] for gpu in found["gpus"])
        for gpu in found["gpus"]:
            assert gpu["kernels"] and gpu["features"] and gpu["limits"]
            assert len(gpu["winners"]) == gpu["profile"]["winners"]
            drivers.add(gpu["driver"])
        assert str(pathlib.Path.home()) not in text
        assert device.verdict(found["gpus"][0]).endswith("GB/s")
        monkeypatch.setattr(sys, "argv", ["tested_devices", str(path)])
        assert tested_devices.main() == 0
    assert all(f"| {driver} |" in page.read_text() for driver in drivers)
    monkeypatch.setattr(sys, "argv", ["tested_devices", "--check"])
    assert tested_devices.main() == 0
    page.write_text("")
    assert tested_devices.main() == 1


def test_profiles_say_what_device_they_are():
    for path in DEVICES.glob("*.profile"):
        lines = path.read_text().splitlines()
        assert lines[0].startswith("# ") and lines[1].startswith("name = "), path


@pytest.fixture(scope="module")
def many_units():
    """A report on a profile with many units, on which keys and rows are cut into parts."""
    families = ["reductions", "attention", "indexing", "sorts", "compiled"]
    return compiled.run(families=families, profile=DEVICES / "amd-rx7900.profile")


REACHED = """
softmax_select_8_float16_divided select_8_bfloat16_softmax select_8_float32 select_8_float16
sdpa_vector_float16 sdpa_vector_joined_float32 sdpa_merge_bfloat16 sdpa_tile_float16
sdpa_norm_rope_vector_float16 sdpa_norm_rope_token_float16 sdpa_norm_rope_turns_float16
norm_rope_rows_float16
mask_count mask_sum mask_rank
"""


@pytest.mark.timeout(900)
def test_calls_reach_what_is_joined_cut_and_picked(many_units):
    assert compiled.problems(many_units) == []
    names = {k["name"] for k in many_units["kernels"]}
    assert set(REACHED.split()) <= names
    joined = {re.sub("_[0-9]+x[0-9]+_.*_(?=float16)", " ", n) for n in names if "qmm_joined" in n}
    assert joined >= {
        "qmm_joined float16_1_add",
        "qmm_joined_norm float16_3",
        "qmm_joined_picked float16_2",
        "qmm_joined_picked float16_1_multiply",
        "qmm_joined_picked float16_2_multiply",
    }


def test_parts_of_the_calls_make_one_report():
    whole, *parts = (compiled.run(families=["random"], part=p) for p in [(0, 1), (0, 2), (1, 2)])
    assert all(0 < p["calls"] < whole["calls"] for p in parts)
    both = compiled.joined(parts)
    assert both["calls"] == whole["calls"] and both["raised"] == whole["raised"]
    for found in (both, whole):
        found["names"] = sorted(k["name"] for k in found["kernels"])
    assert both["names"] == whole["names"] and len(both["kernels"]) < sum(
        len(p["kernels"]) for p in parts
    )


def test_what_parts_of_a_run_found_is_merged_and_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(portability, "KEPT", tmp_path / "kept.json")
    whole = {"checks": 16, "failed": 0, "refused": None, "title": "t", "modules": 9}
    portability.KEPT.write_text(json.dumps({"masks": {"least": {**whole, "files": {"a": [1, 1]}}}}))
    report = compiled.run(families=["random"])
    for kernel in report["kernels"]:
        kernel["waves"] = 4
    tests = {"refused": None, "title": "t", "files": {"a": [3, 0], "b": [2, 1]}}
    found = [
        {"chips": {"navi31": report}},
        {"chips": {"navi31": report}},
        {"masks": {"least": tests}},
        {"masks": {"intel-xe": whole}},
    ]
    paths = [tmp_path / f"{i}.json" for i in range(len(found))]
    for path, part in zip(paths, found, strict=True):
        path.write_text(json.dumps(part))
    # A test failed, and few shaders were reached.
    missing = len(portability.unreached({k["source"] for k in report["kernels"]}))
    assert missing > 10 and portability.merge(paths) == 1 + missing
    kept = portability.kept()
    assert kept["masks"] == {
        "least": {**whole, "files": {"a": [3, 0], "b": [2, 1]}},
        "intel-xe": whole,
    }
    chip = kept["chips"]["navi31"]
    assert chip["calls"] == 2 * report["calls"] and chip["kernels"] == len(report["kernels"])
    page = portability.page(kept)
    assert "| `least` | t | 16 checks of the self-test right, 1 failed | 9 | 6 | 5 |" in page
    assert "| navi31 | RDNA 3, Radeon RX 7900 |" in page
    assert "no call reached" in capsys.readouterr().out


def test_shaders_that_no_call_reaches_are_listed_and_there():
    files = {p.name for p in (ROOT / "shaders").rglob("*.comp")}
    assert set(portability.ELSEWHERE) <= files
    assert portability.unreached(files) == []
    assert portability.unreached(files - {"select.comp"}) == ["sort/select.comp"]


@pytest.mark.timeout(900)
def test_what_workgroups_tell_each_other_is_listed(many_units):
    found = many_units
    told = {(k["source"], m) for k in found["kernels"] for m in k["atomics"]}
    listed = {(n, kind) for n, row in portability.BETWEEN.items() for kind in row[0].split(", ")}
    assert told == {(name, kind) for name, kind in listed if name not in portability.BY_MATRICES}
    assert portability.unlisted(found) == []
    kernel = {"name": "k", "source": "scan.comp", "atomics": ["buffers"]}
    assert portability.unlisted({"kernels": [kernel]})
    pattern = re.compile(r"\batomic[A-Z]\w*\(")
    files = {p.name for p in (ROOT / "shaders").rglob("*.*") if pattern.search(p.read_text())}
    by_last = {"reduce.comp", "sdpa_token.comp", "sdpa_vector.comp", "softmax.comp"}
    # How commands of some GPUs wait for each other; the devices of these tests have none of them.
    assert files == {"last.glsl", "progress.glsl", *portability.BETWEEN} - by_last


HANDED_OVER = """
import hashlib, sys
import numpy as np, mlx.core as mx
mx.set_default_device(mx.gpu)
rng = np.random.default_rng(20)
def normal(*shape):
    return mx.array(rng.standard_normal(shape).astype(np.float32))
rows, row, tall, wide = normal(3, 40_000), normal(50_000), normal(9000, 9), normal(3000, 300)
ints = mx.array(rng.integers(-9, 9, 50_000))
q, q1, k = normal(1, 4, 2, 64), normal(1, 4, 1, 64), normal(1, 2, 3000, 64)
def attend(q):
    return mx.fast.scaled_dot_product_attention(q, k, k, scale=0.1)
def run():
    return [
        mx.sum(rows, axis=1), mx.logsumexp(row), mx.sum(tall, axis=0), mx.sum(wide, axis=0),
        mx.argmax(row), mx.sum(ints), mx.max(rows[:, ::2], axis=1), attend(q), attend(q1),
    ]
mx.eval(run())
mx.vulkan.stats(reset=True)
outs = run()
mx.eval(outs)
stats = mx.vulkan.stats()
digest = hashlib.sha256()
for _ in range(20):
    again = run()
    mx.eval(again)
    assert all(mx.array_equal(a, b).item() for a, b in zip(outs, again))
for out in outs:
    digest.update(bytes(memoryview(mx.contiguous(out))))
x = np.array(rows)
np.testing.assert_allclose(np.array(outs[0]), x.astype(np.float64).sum(1), rtol=1e-4, atol=1e-3)
scores = np.array(q).astype(np.float64) @ np.repeat(np.array(k), 2, 1).swapaxes(-1, -2) * 0.1
p = np.exp(scores - scores.max(-1, keepdims=True))
want = p / p.sum(-1, keepdims=True) @ np.repeat(np.array(k), 2, 1)
np.testing.assert_allclose(np.array(outs[7]), want, atol=2e-6)
joined = any("sdpa_vector_joined" in name for name in stats["kernels"])
print(joined, stats["dispatches"], digest.hexdigest())
"""


def test_parts_are_joined_to_equal_bits_whatever_the_barriers():
    profile = {"MLX_VK_PROFILE": str(DEVICES / "amd-rx7900.profile")}

    def run(**env):
        return h.python(HANDED_OVER, env={**profile, **env}, timeout=280).stdout.split()[-3:]

    joined, dispatches, bits = run()
    assert joined == "True"
    assert run(MLX_VK_FULL_BARRIERS="1") == [joined, dispatches, bits]
    _, more, _ = run(MLX_VK_DISABLE="reduce_last")
    assert int(more) > int(dispatches)
