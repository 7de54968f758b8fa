"""Profiles of devices, the file of MLX_VK_PROFILE, and `mlx.tune`: the mechanism, not times."""

import json
import os
import pathlib
import re
import subprocess
import sys
from unittest import mock

import mlx.core as mx
import mlx.tune as tune
import numpy as np
import pytest

pytestmark = pytest.mark.gpu
ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def own_winners():
    before = mx.vulkan._tune_winners(0)
    yield
    mx.vulkan._tune_set(0, before)


def child(code, tmp_path, **variables):
    """Runs a program with a cache of its own."""
    env = {
        **os.environ,
        "MLX_VK_CACHE_DIR": str(tmp_path / "cache"),
        "XDG_STATE_HOME": str(tmp_path),
    }
    env.update({k: str(v) for k, v in variables.items()})
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)


def test_the_profile_is_told():
    profile = mx.vulkan.describe()["profile"]
    assert profile["units"] >= 1
    assert profile["bandwidth"] >= 1
    assert profile["dependent_ns"] >= 1
    assert profile["source"] in ("card", "measured", "assumed", "file")


def test_questions_name_the_packaged_choice_among_the_candidates():
    for ask in (
        {"name": "reduce_rows"},
        {"name": "matmul", "sides": (256, 256, 256), "dtype": "float32"},
        {
            "name": "quantized",
            "sides": (1, 256, 256),
            "dtype": "float16",
            "format": ("affine", 64, 4),
        },
    ):
        question = mx.vulkan._tune_question(0, **ask)
        assert question["packaged"] in question["candidates"]
        assert all(c.startswith(question["subject"] + " = ") for c in question["candidates"])
    assert mx.vulkan._tune_question(0, "nobody") is None
    with pytest.raises(ValueError, match="dtype"):
        mx.vulkan._tune_question(0, "matmul", (1, 2, 3), "float99")


def test_every_candidate_gives_the_right_result(rng):
    x = rng.standard_normal((64, 256)).astype(np.float32)
    w = rng.standard_normal((256, 128)).astype(np.float32)
    exact = x.astype(np.float64) @ w
    question = mx.vulkan._tune_question(0, "matmul", (64, 128, 256), "float32")
    for line in question["candidates"]:
        mx.vulkan._tune_set(0, [line])
        assert mx.vulkan._tune_winners(0) == [line]
        np.testing.assert_allclose(np.array(mx.array(x) @ mx.array(w)), exact, atol=1e-3)
    big = rng.standard_normal(300_000).astype(np.float32)
    question = mx.vulkan._tune_question(0, "reduce_rows")
    for line in [*question["candidates"], "reduce_rows = 1", "reduce_rows = 4000000000"]:
        mx.vulkan._tune_set(0, [line])
        np.testing.assert_allclose(mx.sum(mx.array(big)).item(), big.sum(dtype=np.float64), atol=1)
    mx.vulkan._tune_set(0, ["scan_few = 4000000000", "scan_parts = 3"])
    got = np.array(mx.cumsum(mx.array(big)))
    np.testing.assert_allclose(got, big.cumsum(dtype=np.float64), atol=0.5)


def quantised_candidates(rng, m, n, k, dtype, mode, group, bits, few=1):
    """Compares every `few`-th candidate of a product with float64."""
    how = {"mode": mode, "group_size": group, "bits": bits}
    x = mx.array(rng.standard_normal((m, k)).astype(np.float32)).astype(dtype)
    w = mx.quantize(mx.array(rng.standard_normal((n, k)).astype(np.float32)).astype(dtype), **how)
    values = mx.dequantize(*w, **how).astype(mx.float32)
    exact = np.array(x.astype(mx.float32)).astype(np.float64) @ np.array(values).T
    name = str(dtype).removeprefix("mlx.core.")
    ask = {"sides": (m, n, k), "dtype": name, "format": (mode, group, bits)}
    lines = mx.vulkan._tune_question(0, "quantized", **ask)["candidates"]
    assert len(lines) > 3
    # Codes are multiplied with scales that dequantised values round.
    unit = {mx.float32: 2.0**-20, mx.float16: 2.0**-9, mx.bfloat16: 2.0**-6}[dtype]
    for line in lines[::few]:
        mx.vulkan._tune_set(0, [line])
        got = np.array(mx.quantized_matmul(x, *w, **how).astype(mx.float32))
        assert np.abs(got - exact).max() <= unit * np.abs(exact).max(), line


def test_quantised_candidates_give_the_right_result(rng):
    quantised_candidates(rng, 2, 96, 256, mx.float32, "affine", 64, 4)
    quantised_candidates(rng, 1, 50, 1088, mx.float32, "affine", 64, 4, few=4)


ONE_ROW = """
import mlx.core as mx
mx.set_default_device(mx.gpu)
x = mx.ones((1, 1024), mx.float16)
w = mx.quantize(mx.random.normal((64, 1024)).astype(mx.float16), group_size=64, bits=4)
mx.eval(x, w)
ask = {"sides": (1, 64, 1024), "dtype": "float16", "format": ("affine", 64, 4)}
question = mx.vulkan._tune_question(0, "quantized", **ask)
assert question["packaged"] in question["candidates"]
for line in (question["packaged"], question["subject"] + " = 32 1"):
    mx.vulkan._tune_set(0, [line])
    before = mx.vulkan.stats().get("kernels", {})
    mx.eval(mx.quantized_matmul(x, *w, group_size=64, bits=4))
    after = mx.vulkan.stats()["kernels"]
    ran = [k for k, n in after.items() if n > before.get(k, 0) and k.startswith("qmm")]
    print(line.split(" = ")[1], *(k[:8] for k in ran))
"""


def test_the_kernel_of_one_row_can_win_and_is_not_lost_by_winning(tmp_path):
    run = child(ONE_ROW, tmp_path, MLX_VK_QMM="plain")
    assert run.stdout.splitlines() == ["1 qmm_row_", "32 1 qmm_rows"], run.stderr


def test_the_benchmark_of_decoding_measures_every_layout(tmp_path):
    out = tmp_path / "out.json"
    script = ROOT / "benches" / "decode.py"
    subprocess.run([sys.executable, str(script), "--quick", "--json", str(out)], check=True)
    result = json.loads(out.read_text())
    rows = {row["m"]: row for row in result["products"]}
    assert sorted(rows) == [1, 2]
    for row in rows.values():
        assert row["chosen"] in row["candidates"]
        assert row["best_us"] <= row["us"]
        assert row["bytes"] == row["n"] * row["k"] * (4 + 32 / 64) / 8
    assert {row["product"] for row in result["experts"]} == {"gate, up", "down"}
    layer, experts = result["steps"]
    assert layer["joined"]["commands"] == 5 < layer["apart"]["commands"]
    # Those in PTX choose and read their experts in one each.
    assert 2 <= experts["joined"]["commands"] <= 4 < experts["apart"]["commands"]


def test_lines_that_say_nothing_are_passed_over():
    mx.vulkan._tune_set(0, ["nonsense", "reduce_rows = x", "matmul float32 3x3x3 = 1", "fill = 7"])
    assert mx.vulkan._tune_winners(0) == ["fill = 7"]


def timed(faster):
    """Stands in for the clock: calls are 10 % faster while `faster` wins, else all the same."""
    return lambda call, least: 0.9 if faster in mx.vulkan._tune_winners(0) else 1.0


def test_what_is_faster_wins_and_the_rest_stays_packaged():
    mx.vulkan._tune_set(0, ["fill = 7"])
    packaged = int(mx.vulkan._tune_question(0, "scan_parts")["packaged"].split()[-1])
    winner = f"scan_parts = {2 * packaged}"
    with mock.patch.object(tune, "_seconds", timed(winner)):
        result = tune.tune(families=["scan"], quick=True, keep=False)
    rows = {row["subject"]: row for row in result["rows"]}
    assert rows["scan_parts"]["wins"]
    assert rows["scan_parts"]["best"] == str(2 * packaged)
    assert rows["scan_parts"]["gain"] == pytest.approx(1 / 0.9, abs=1e-3)
    assert not rows["scan_few"]["wins"]
    # Nothing is kept, and what won before still does.
    assert not result["kept"]
    assert mx.vulkan._tune_winners(0) == ["fill = 7"]


KEEP = """
import sys
from unittest import mock
import mlx.core as mx, mlx.tune as tune
def seconds(call, least):
    mx.eval(call())
    return 0.5 if any(w.startswith("scan_parts") for w in mx.vulkan._tune_winners(0)) else 1.0
with mock.patch.object(tune, "_seconds", seconds):
    sys.exit(tune.main(sys.argv[1:]))
"""
SHOW = "import mlx.core as mx; print(mx.vulkan._tune_winners(0))"


def test_winners_are_kept_signed_and_forgotten(tmp_path):
    run = child(
        "import sys; sys.argv[1:] = '--only scan --quick --json'.split()\n" + KEEP, tmp_path
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["kept"] is True
    shown = child(SHOW, tmp_path).stdout
    assert re.fullmatch(r"\['scan_parts = \d+'\]\n", shown)
    # A file that somebody else wrote is no winner.
    (file,) = (tmp_path / "cache").glob("winners-*.bin")
    content = file.read_bytes()
    file.write_bytes(content[:-1] + b"9")
    assert child(SHOW, tmp_path).stdout == "[]\n"
    file.write_bytes(content)
    assert child(SHOW, tmp_path).stdout == shown
    run = child("import sys; sys.argv[1:] = ['--reset']\n" + KEEP, tmp_path)
    assert (run.returncode, run.stdout) == (0, "forgotten\n")
    assert child(SHOW, tmp_path).stdout == "[]\n"


def test_a_dry_run_keeps_nothing(tmp_path):
    run = child(
        "import sys; sys.argv[1:] = '--only scan --quick --dry-run'.split()\n" + KEEP, tmp_path
    )
    assert run.returncode == 0, run.stderr
    assert "scan_parts" in run.stdout
    assert "1 of 2 choices are faster than the packaged ones, not kept" in run.stdout
    assert child(SHOW, tmp_path).stdout == "[]\n"


def test_a_profile_file_replaces_numbers_and_hides_features(tmp_path):
    file = tmp_path / "profile.txt"
    file.write_text(
        "name = Small\nunits = 8 # few\nbandwidth = 60\nshared_memory = 16384\nhide = float16\n"
    )
    code = (
        "import mlx.core as mx; d = mx.vulkan.describe(); p = d['profile']\n"
        "print(p['name'], p['units'], p['bandwidth'], p['source'], d['features']['float16'])\n"
        "print(d['limits']['shared_memory'], mx.vulkan._tune_question(0, 'fill')['packaged'])\n"
        "print(mx.sum(mx.ones((1000, 1000), mx.float16), axis=0, stream=mx.gpu)[3].item())"
    )
    run = child(code, tmp_path, MLX_VK_PROFILE=file)
    assert run.stdout == "Small 8 60 file False\n16384 fill = 16\n1000.0\n", run.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("units = 8\nbandwidth = fast", "line 2: bandwidth = fast, expected a whole number from 1"),
        ("hide = float16, magic", "line 1: hide = magic, expected some of "),
        ("speed = 1", "line 1: speed is no setting, expected name, hide, units"),
    ],
)
def test_a_bad_profile_file_is_an_error_that_names_line_and_setting(tmp_path, text, told):
    file = tmp_path / "profile.txt"
    file.write_text(text)
    run = child("import mlx.core as mx; mx.vulkan.describe()", tmp_path, MLX_VK_PROFILE=file)
    assert run.returncode == 1
    assert f"ValueError: [MLX_VK_PROFILE] {file}: {told}" in run.stderr
    missing = child("import mlx.core as mx; mx.vulkan.describe()", tmp_path, MLX_VK_PROFILE="/none")
    assert "ValueError: [MLX_VK_PROFILE] /none: " in missing.stderr


def test_a_device_below_the_floor_is_refused_with_the_reason(tmp_path):
    file = tmp_path / "profile.txt"
    file.write_text("hide = int64\nworkgroup_invocations = 128\n")
    code = "import mlx.core as mx; mx.eval(mx.add(1, 2, stream=mx.gpu))"
    run = child(code, tmp_path, MLX_VK_PROFILE=file)
    assert "shaderInt64" in run.stderr
    assert "workgroups of 256 invocations" in run.stderr


def test_the_docs_list_every_setting():
    text = (ROOT / "docs" / "tuning.md").read_text()
    source = (ROOT / "src" / "vulkan" / "tune" / "file.rs").read_text()
    names = set(re.findall(r'Field \{\s*name: "(\w+)"', source))
    listed = source[source.index("HIDEABLE: ") : source.index("];")]
    names |= set(re.findall(r'"(\w+)"', listed))
    assert len(names) > 30
    assert not {name for name in names if f"`{name}`" not in text}
    for family in tune.FAMILIES:
        assert family in text
