"""Profiles: the trace against the table, and how they behave around other things."""

import json
import os
import subprocess
import sys

import helpers as h
import mlx.core as mx
import numpy as np
import pytest


def work():
    """Products, reductions and copies that a profile should see."""
    a = mx.array(np.arange(1200, dtype=np.float32).reshape(30, 40) / 1200)
    b = mx.contiguous(a.T)
    for _ in range(3):
        a = mx.tanh(a @ b @ a)
    out = mx.sum(a, axis=1)
    mx.eval(out)
    return h.to_np(out)


def events(p, tmp_path):
    path = tmp_path / "trace.json"
    p.save(path)
    trace = json.loads(path.read_text())["traceEvents"]
    return [e for e in trace if e["ph"] == "X"], [e for e in trace if e["ph"] == "M"]


@pytest.mark.gpu
def test_a_gpu_without_a_clock_is_profiled_without_times(tmp_path):
    path = tmp_path / "no-clock.profile"
    path.write_text("hide = timestamps\n")
    code = """
import mlx.core as mx
mx.set_default_device(mx.gpu)
with mx.vulkan.profile() as p:
    x = (mx.ones(8) * 3).sum().item()
print(x, len(p.rows()), sum(r.total_ns for r in p.rows()))
"""
    env = {**os.environ, "MLX_VK_PROFILE": str(path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    # Three kernels, and a copy where the device has memory of its own.
    assert done.stdout in ("24.0 3 0.0\n", "24.0 4 0.0\n"), done.stderr


@pytest.mark.gpu
@pytest.mark.timestamps
@pytest.mark.validation
@pytest.mark.parametrize("isolate", [False, True])
def test_trace_holds_every_command_once_in_order_and_sums_to_the_table(tmp_path, isolate):
    work()
    mx.vulkan.stats(reset=True)
    with mx.vulkan.profile(isolate=isolate) as p:
        work()
    dispatches = mx.vulkan.stats()["dispatches"]
    found, meta = events(p, tmp_path)
    gpu = [e for e in found if e["cat"] == "gpu"]
    kernels = [e for e in gpu if e["name"] not in ("upload", "download")]
    assert len(kernels) == dispatches >= 8
    assert len(gpu) == len(p.commands) == sum(r.count for r in p.rows())
    # On a track one event ends before the next begins.
    tracks = {}
    for e in sorted(found, key=lambda e: e["ts"]):
        assert e["dur"] >= 0
        if e["cat"] == "gpu":
            tracks.setdefault((e["pid"], e["tid"]), []).append(e)
    for track in tracks.values():
        for before, after in zip(track, track[1:], strict=False):
            assert before["ts"] + before["dur"] <= after["ts"] + 1e-3
    sums = {}
    for e in gpu:
        sums[e["name"]] = sums.get(e["name"], 0.0) + e["dur"] * 1e3
    table = {}
    for r in p.rows():
        table[r.kernel] = table.get(r.kernel, 0.0) + r.total_ns
    assert sums.keys() == table.keys()
    for name, total in table.items():
        assert total > 0
        np.testing.assert_allclose(sums[name], total, rtol=1e-6, atol=1)
    np.testing.assert_allclose(sum(r.share for r in p.rows()), 1.0)
    # No command begins before the host submitted it.
    first = min(s.start for s in p.spans if s.kind == "submit")
    assert min(e["ts"] for e in gpu) * 1e3 >= first
    named = {(e["pid"], e.get("tid")): e["args"]["name"] for e in meta}
    assert named[0, None] == "host" and named[1, None].startswith("GPU 0: ")
    assert all((e["pid"], e["tid"]) in named for e in found)
    assert {"record", "submit", "wait"} <= {e["cat"] for e in found}
    if isolate:
        assert all(c.barrier or c.kernel in ("upload", "download") for c in p.commands)


@pytest.mark.timestamps
@pytest.mark.gpu
def test_table_tells_operations_work_and_bytes():
    work()
    with mx.vulkan.profile() as p:
        work()
    products = [c for c in p.commands if c.kernel.startswith("matmul_tiled")]
    assert len(products) == 6
    assert {c.op for c in products} == {"Matmul"} or {c.op for c in products} == {"matmul"}
    assert sorted({c.shape for c in products}) == [(1, 30, 30, 40), (1, 30, 40, 30)]
    assert {c.flops for c in products} == {2.0 * 30 * 30 * 40}
    assert {c.dtype for c in products} == {"float32"}
    rows = [r for r in p.rows() if r.kernel == products[0].kernel]
    assert all(r.shape in ("32x32x64", "32x64x32") for r in rows)
    assert all(r.bytes > 0 and r.tflops > 0 and r.gb_per_s > 0 for r in rows)
    s = p.summary()
    assert s["commands"] == len(p.commands) and s["batches"] >= 1
    assert s["busy_ns"] > 0 and s["wall_ns"] > 0 and s["record_ns"] > 0
    assert s["untimed"] == 0 and s["fallbacks"] == {}
    text = str(p)
    assert "TFLOP/s" in text and "GPU busy" in text and products[0].kernel in text
    assert "<table>" in p._repr_html_()


@pytest.mark.timestamps
@pytest.mark.gpu
def test_no_command_is_missed_in_large_batches():
    x = mx.ones(64)
    mx.eval(x)
    with mx.vulkan.profile() as p:
        for _ in range(700):
            x = x * 1.001
        mx.eval(x)
    assert p.summary()["commands"] == 700
    assert {c.op for c in p.commands} == {p.commands[0].op}
    ends = [c.times[1] for c in p.commands]
    assert ends == sorted(ends)


@pytest.mark.gpu
def test_graphs_that_are_evaluated_in_the_background_are_seen():
    x = mx.ones(64)
    mx.eval(x * 1.001)
    mx.eval(x)
    with mx.vulkan.profile() as p:
        for _ in range(300):
            x = x * 1.001
        mx.async_eval(x)
    assert p.summary()["commands"] == 300


@pytest.mark.gpu
def test_profiles_nest_and_do_not_change_results():
    plain = work()
    with mx.vulkan.profile() as outer:
        first = work()
        with mx.vulkan.profile() as inner:
            second = work()
    np.testing.assert_array_equal(first, plain)
    np.testing.assert_array_equal(second, plain)
    count = inner.summary()["commands"]
    assert outer.summary()["commands"] == 2 * count > 0
    batches = {c.batch for c in inner.commands}
    assert batches < {c.batch for c in outer.commands}
    with mx.vulkan.profile() as nothing:
        pass
    assert nothing.commands == [] and "No GPU commands" in str(nothing)


@pytest.mark.gpu
def test_streams_have_tracks_of_their_own():
    streams = [mx.new_stream(mx.gpu) for _ in range(2)]
    x = mx.ones(1000)
    mx.eval(x)
    with mx.vulkan.profile() as p:
        mx.eval([mx.exp(x, stream=s) for s in streams])
    assert len({c.track for c in p.commands}) == 2


@pytest.mark.gpu
def test_compiled_functions_and_gradients_are_seen():
    f = mx.compile(lambda x: mx.sum(mx.exp(-x) * x + mx.sin(x)))
    x = mx.ones(500)
    mx.eval(f(x))
    with mx.vulkan.profile() as p:
        mx.eval(f(x))
    assert 0 < p.summary()["commands"] < 4
    with mx.vulkan.profile() as q:
        mx.eval(mx.grad(f)(x))
    assert q.summary()["commands"] > p.summary()["commands"]
    assert p.summary()["record_ns"] > 0


def test_what_the_block_raises_goes_on_and_the_profile_has_ended():
    p = mx.vulkan.profile()
    with pytest.raises(ZeroDivisionError):
        with p:
            mx.eval(mx.ones(3) + 1)
            raise ZeroDivisionError
    assert p.summary()["wall_ns"] > 0
    with mx.vulkan.profile() as again:
        mx.eval(mx.ones(3) + 1)
    assert again.spans


def test_host_work_is_seen_without_a_gpu():
    with mx.vulkan.profile() as p:
        mx.eval(mx.exp(mx.ones(1000, stream=mx.cpu), stream=mx.cpu))
    assert [s for s in p.spans if s.kind == "cpu"]
    s = p.summary()
    assert s["host_ops"] >= 1 and s["commands"] == 0 and s["cpu_ns"] > 0
    assert "No GPU commands" in str(p) and "CPU streams" in str(p)
    assert {r.kernel for r in p.host_rows()} == {s.name for s in p.spans if s.kind == "cpu"}
    assert sum(r.total_ns for r in p.host_rows()) == pytest.approx(s["cpu_ns"])
    assert all(r.kernel in str(p) for r in p.host_rows())


def test_a_profile_is_asked_behind_its_block():
    p = mx.vulkan.profile()
    assert "not started" in str(p)
    with pytest.raises(RuntimeError, match="has not ended"):
        p.rows()
    with p:
        assert "running" in str(p)
        with pytest.raises(RuntimeError, match="runs already"):
            p.__enter__()
    with pytest.raises(ValueError, match="timeline"):
        p.plot("nothing")


def test_pictures_are_drawn(tmp_path):
    import matplotlib

    matplotlib.use("Agg")
    with mx.vulkan.profile() as p:
        work()
    for kind in ("kernels", "timeline"):
        path = tmp_path / f"{kind}.png"
        p.plot(kind).figure.savefig(path)
        assert path.read_bytes().startswith(b"\x89PNG")


def test_plot_without_matplotlib_says_what_is_missing():
    code = """
    import sys
    sys.modules["matplotlib"] = None
    import mlx.core as mx
    with mx.vulkan.profile() as p:
        pass
    try:
        p.plot()
    except ImportError as e:
        print(e)
    """
    assert "needs matplotlib" in h.python(code).stdout


@pytest.mark.parametrize("selftest", [False, True])
def test_info_is_printed_as_text_and_json(request, selftest):
    device = request.config.getoption("--device")
    code = "from mlx import info; import sys; sys.exit(info.main(sys.argv[1:]))"
    env = None
    if device == "cpu":
        env = {
            **h.os.environ,
            "VK_DRIVER_FILES": "/nonexistent",
            "VK_ICD_FILENAMES": "/nonexistent",
        }
    args = ["--json", "--selftest"] if selftest else ["--json"]
    run = subprocess.run(
        [sys.executable, "-c", code, *args], env=env, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stdout + run.stderr
    facts = json.loads(run.stdout)
    assert facts["mlx"] == mx.__version__ and facts["cache"]["files"] >= 0
    assert len(facts["gpus"]) == (mx.device_count(mx.gpu) if device == "gpu" else 0)
    for gpu in facts["gpus"]:
        assert gpu["limits"]["shared_memory"] >= 16384 and "matmul_4096" in gpu["tiers"]
    if selftest:
        tests = facts["selftest"]
        assert all(t["ok"] for t in tests.values())
        statuses = {status for t in tests.values() for status, _ in t["checks"].values()}
        assert "ok" in statuses and statuses <= {"ok", "absent"}
        assert all(t["bandwidth"]["add"] > 0 for t in tests.values())


def test_info_as_a_module():
    run = subprocess.run(
        [sys.executable, "-m", "mlx.info"], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    assert f"mlx {mx.__version__}" in run.stdout and "cpu: " in run.stdout
