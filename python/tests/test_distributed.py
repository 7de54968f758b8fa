"""Groups of several processes on this machine, which are started for each test."""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

import helpers as h
import mlx.core as mx
import pytest

TESTS = pathlib.Path(__file__).parent
PROGRAMS = TESTS / "distributed_programs.py"


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]


def ring_file(tmp_path, count, each=1):
    ports = free_ports(count * each)
    hosts = [[f"127.0.0.1:{ports[r * each + i]}" for i in range(each)] for r in range(count)]
    path = tmp_path / "ring.json"
    path.write_text(json.dumps(hosts))
    return path


def environment(official=False, **extra):
    env = {k: v for k, v in os.environ.items() if k != "MLX_DEFAULT_DEVICE"}
    if official:
        env.pop("PYTHONPATH", None)
    else:
        env["MLX_DEFAULT_DEVICE"] = "gpu" if h.on_gpu() else "cpu"
        env["PYTHONPATH"] = str(pathlib.Path(mx.__file__).parents[1])
    return {**env, "MLX_DISTRIBUTED_TIMEOUT": "60", "PYTHONUNBUFFERED": "1", **extra}


def run(tmp_path, program, count, each=1, official=None, ranks=None, codes=None, **extra):
    """Output of each process; all have to end well, or with these codes.

    `official` are other Pythons by rank.
    """
    official = official or {}
    file = ring_file(tmp_path, count, each)
    processes = []
    for rank in range(count) if ranks is None else ranks:
        theirs = rank in official
        env = environment(theirs, MLX_RANK=str(rank), MLX_HOSTFILE=str(file), **extra)
        command = [official.get(rank, sys.executable), str(PROGRAMS), program]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        processes.append(subprocess.Popen(command, env=env, **pipes))
    deadline = time.monotonic() + 120
    try:
        outputs = [p.communicate(timeout=max(1, deadline - time.monotonic()))[0] for p in processes]
    finally:
        for p in processes:
            p.kill()
    ended = [p.returncode for p in processes]
    assert ended == (codes or [0] * len(ended)), "\n".join(outputs)
    return outputs


@pytest.mark.parametrize("count", [2, 4])
def test_everything_on_a_ring(tmp_path, count):
    outputs = run(tmp_path, "everything", count, each=2 if count == 2 else 1)
    assert all("fine" in o for o in outputs)


def test_eight_processes(tmp_path):
    run(tmp_path, "everything", 8, SHORT="1")


def test_a_ring_with_a_secret(tmp_path):
    run(tmp_path, "everything", 2, SHORT="1", MLX_RING_SECRET="open sesame")
