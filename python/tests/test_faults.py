"""Drivers and the system that fail, and devices that are lost: an error says why, work goes on."""

import itertools
import json
import pathlib

import fault_sweep
import helpers as h
import mlx.core as mx
import numpy as np
import pytest

pytestmark = pytest.mark.gpu


def test_kinds_and_their_calls_are_checked():
    for text in ["", "wait", "wait@0", "nothing@1", "wait@1-"]:
        with pytest.raises(ValueError, match="kind@n"):
            mx.vulkan._fault(text)
    calls, fired = mx.vulkan._fault("off")
    assert "submission" in calls and fired == 0


def test_the_environment_arms_a_fault():
    code = """
        import mlx.core as mx
        mx.set_default_device(mx.gpu)
        x = mx.arange(300) * 2
        try:
            mx.eval(x)
        except RuntimeError as e:
            print(e)
        print(mx.sum(x).item())
    """
    run = h.python(code, env={"MLX_VK_FAULT": "recording@1"})
    told, total = run.stdout.splitlines()
    assert "Out of memory in vkBeginCommandBuffer" in told and int(total) == 300 * 299
    run = h.python("import mlx.core", env={"MLX_VK_FAULT": "everything@1"})
    assert "MLX_VK_FAULT=everything@1 is passed over, expected kind@n" in run.stderr


def sweep(env, workloads, most, timeout=900):
    code = f"""
        import sys
        sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
        sys.argv = ["fault_sweep.py", "--json", "--most", "{most}", "--workloads", "{workloads}"]
        import fault_sweep
        fault_sweep.main()
    """
    # Memory that is given back is to be asked for again.
    run = h.python(code, env={"MLX_VK_CLEAR_MS": "0", **env}, timeout=timeout)
    return [tuple(row) for row in json.loads(run.stdout.splitlines()[-1])]


APART = {"MLX_VK_UNIFIED": "0", "MLX_VK_RECORDER": "1"}


def check(rows):
    """The kinds that were met; a call that fails for good is never passed over in silence."""
    for name, kind, _, outcomes, texts in rows:
        told = (name, kind, outcomes, texts)
        if kind.startswith("cache"):
            # A kernel that is not kept, or not read from the disk, is no error.
            assert set(outcomes) <= {"right", "not reached"}, told
        elif kind.endswith("+") and not kind.startswith(("query", "wait")):
            # Waits that only hold back a thread are done without, and so are timestamps.
            assert "right" not in outcomes, told
    return {
        kind.split("@")[0] for _, kind, _, outcomes, _ in rows if set(outcomes) != {"not reached"}
    }


# Some hundred devices are lost and opened again, half a second each on some cards.
@pytest.mark.timeout(900)
@pytest.mark.parametrize("env", [{}, APART], ids=["unified", "apart"])
def test_every_call_that_fails_is_told_and_survived(env):
    old = [name for name in fault_sweep.WORKLOADS if name != "fresh_kernels"]
    everywhere = set(mx.vulkan._fault("off")[0]) - {"device", "semaphore", *fault_sweep.NEW}
    assert check(sweep(env, ",".join(old), 1)) == everywhere


@pytest.mark.validation
def test_a_few_calls_fail_in_this_process():
    kinds = ["allocation", "submission", "recording", "wait", "lost_submission", "lost_wait"]
    rows = [row for name in ("elementwise", "streams") for row in fault_sweep.sweep(name, kinds, 1)]
    assert check(rows) >= {"allocation", "submission", "lost_submission"}
    h.works()


def test_kernels_that_cannot_be_made_are_made_the_next_time(tmp_path):
    rows = sweep({"MLX_VK_CACHE_DIR": str(tmp_path)}, "fresh_kernels", 4)
    met = {"compile", "module", "pipeline", "refusal", "cache_read", "cache_write"}
    assert check(rows) >= met


@pytest.mark.parametrize("text", ["mx.sort(x)[1]", "mx.fast.rms_norm(x * 3, None, 1e-5)[2]"])
def test_what_a_compiler_does_not_manage_is_given_to_it_in_another_form(text, tmp_path):
    code = f"""
        import mlx.core as mx
        mx.set_default_device(mx.gpu)
        x = mx.array([3.0, 1.0, 2.0])
        print({text}.item())
    """
    env = {"MLX_VK_CACHE_DIR": str(tmp_path)}
    once, plain = (
        h.python(code, env={**env, **more}).stdout for more in ({"MLX_VK_FAULT": "refusal@1"}, {})
    )
    assert once == plain
    never = h.python(code, env={**env, "MLX_VK_FAULT": "refusal@1+"}, check=False)
    assert "[vulkan] vkCreateComputePipelines for kernel" in never.stderr


def test_fresh_kernels_may_round_in_their_own_way():
    """What they are compared with stays near whatever the last bits of each step are."""
    with mx.stream(mx.cpu):
        for chain in itertools.islice(itertools.permutations(fault_sweep.UNARY, 4), 300):
            x, other = mx.array(fault_sweep.X), mx.array(fault_sweep.X)
            for i, op in enumerate(chain):
                x, other = op(x), op(other) * (1 + 2**-21 * (-1) ** i)
            np.testing.assert_allclose(x, other, rtol=0, atol=2e-5, err_msg=str(chain))


@pytest.mark.parametrize("site", ["pipeline_cache@1", "pipeline_cache@2", "pipeline_cache@1+"])
def test_the_cache_of_the_driver_is_not_needed(site, tmp_path):
    code = (
        "import mlx.core as mx; print(mx.sum(mx.arange(300, stream=mx.gpu), stream=mx.gpu).item())"
    )
    run = h.python(code, env={"MLX_VK_FAULT": site, "MLX_VK_CACHE_DIR": str(tmp_path)})
    assert int(run.stdout) == 150 * 299


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_stream_that_cannot_be_made_is_tried_again(n):
    code = """
        import mlx.core as mx
        import numpy as np
        mx.set_default_device(mx.gpu)
        x = np.arange(300_000, dtype=np.float32)
        for _ in range(2):
            try:
                print(int((mx.array(x) * 2).tolist()[-1]))
            except RuntimeError as e:
                print(e)
    """
    env = {"MLX_VK_FAULT": f"semaphore@{n}", "MLX_VK_UNIFIED": "0"}
    told, last = h.python(code, env=env).stdout.splitlines()
    # The streams of kernels, of uploads and of downloads.
    assert "Out of memory in vkCreateSemaphore" in told and int(last) == 599_998


def test_a_device_that_cannot_be_opened_is_tried_again():
    code = """
        import mlx.core as mx
        mx.set_default_device(mx.gpu)
        for _ in range(2):
            try:
                print(mx.sum(mx.arange(300) * 2).item())
            except RuntimeError as e:
                print(e)
    """
    told, total = h.python(code, env={"MLX_VK_FAULT": "device@1"}).stdout.splitlines()
    assert told.startswith("[vulkan] Cannot open") and int(total) == 300 * 299
