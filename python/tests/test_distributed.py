"""Groups of several processes on this machine, which are started for each test."""

import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import time

import helpers as h
import mlx.core as mx
import pytest

TESTS = pathlib.Path(__file__).parent
PROGRAMS = TESTS / "distributed_programs.py"
SHARDED = TESTS / "sharded_programs.py"
EXAMPLES = TESTS.parents[1] / "examples" / "distributed"


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


def begin(command, env):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, env=env, **pipes)


def outputs_of(processes, codes=None, seconds=120):
    """Output of each process; all have to end well, or with these codes."""
    deadline = time.monotonic() + seconds
    try:
        outputs = [p.communicate(timeout=max(1, deadline - time.monotonic()))[0] for p in processes]
    finally:
        for p in processes:
            p.kill()
    ended = [p.returncode for p in processes]
    assert ended == (codes or [0] * len(ended)), "\n".join(outputs)
    return outputs


def run(
    tmp_path,
    program,
    count,
    each=1,
    official=None,
    ranks=None,
    codes=None,
    file_of=PROGRAMS,
    **extra,
):
    """Output of each process; all have to end well, or with these codes.

    `official` are other Pythons by rank.
    """
    official = official or {}
    file = ring_file(tmp_path, count, each)
    processes = []
    for rank in range(count) if ranks is None else ranks:
        theirs = rank in official
        env = environment(theirs, MLX_RANK=str(rank), MLX_HOSTFILE=str(file), **extra)
        command = [official.get(rank, sys.executable), str(file_of), program]
        processes.append(begin(command, env))
    return outputs_of(processes, codes)


@pytest.mark.parametrize("count", [2, 4])
def test_everything_on_a_ring(tmp_path, count):
    outputs = run(tmp_path, "everything", count, each=2 if count == 2 else 1)
    assert all("fine" in o for o in outputs)


def test_eight_processes(tmp_path):
    run(tmp_path, "everything", 8, SHORT="1")


def test_a_ring_with_a_secret(tmp_path):
    run(tmp_path, "everything", 2, SHORT="1", MLX_RING_SECRET="open sesame")


@pytest.mark.parametrize("program", ["dies", "dies_amid", "differs"])
def test_a_failure_reaches_all_of_three(tmp_path, program):
    codes = [0, 3, 0] if "dies" in program else None
    for rank, out in enumerate(run(tmp_path, program, 3, codes=codes)):
        assert "raised after" in out or codes and codes[rank]


@pytest.mark.parametrize("program", ["differs_in_dtype", "differs_in_order", "receives_another"])
def test_different_programs_are_told_apart(tmp_path, program):
    outputs = run(tmp_path, program, 2)
    assert all("raised after" in o for o in outputs)


def test_a_process_that_ended_is_not_waited_for(tmp_path):
    run(tmp_path, "ends", 2)


def test_a_process_that_does_not_come_is_waited_for_so_long(tmp_path):
    run(tmp_path, "waits", 2, MLX_DISTRIBUTED_TIMEOUT="4")


def test_a_ring_that_does_not_form(tmp_path):
    late = {"MLX_DISTRIBUTED_TIMEOUT": "1", "EXPECT": "could not reach rank 1"}
    run(tmp_path, "never_forms", 2, ranks=[0], **late)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        host = f"127.0.0.1:{taken.getsockname()[1]}"
        file = tmp_path / "taken.json"
        file.write_text(json.dumps([[host], ["127.0.0.1:1"]]))
        env = environment(MLX_RANK="0", MLX_HOSTFILE=str(file), EXPECT=f"address {host}")
        subprocess.run([sys.executable, str(PROGRAMS), "never_forms"], env=env, check=True)
    for text, message in (
        ("[]", "JSON list"),
        ('[["127.0.0.1:1"], []]', "as many"),
        ("no", "JSON list"),
    ):
        file.write_text(text)
        env["EXPECT"] = message
        subprocess.run([sys.executable, str(PROGRAMS), "never_forms"], env=env, check=True)


def message(kind, payload, length=None):
    return (
        bytes([kind]) + (len(payload) if length is None else length).to_bytes(2, "little") + payload
    )


# What a peer answers to the greeting of a control connection, and what it says there afterwards.
ACCEPTED = bytes(16 + 32 + 1)
PEERS = {
    "says nothing": (None, b""),
    "closes": (b"", b""),
    "answers garbage": (bytes(range(1, 50)), b""),
    "answers too little": (bytes(20), b""),
    "sends a length that is too much": (ACCEPTED, message(4, b"\1") + message(1, b"", 65535)),
    "sends a kind that is none": (ACCEPTED, message(4, b"\1") + message(77, b"x")),
    "sends a header that is garbage": (ACCEPTED, message(4, b"\1") + message(1, b"\xff" * 40)),
    "sends half a message": (ACCEPTED, message(4, b"\1") + message(1, b"\0" * 9, 40)),
    "floods": (ACCEPTED, message(4, b"\1") + message(1, b"\0" * 27) * 1000),
}


@pytest.mark.parametrize("peer", PEERS)
def test_a_hostile_peer_is_named(tmp_path, peer):
    """It stands for rank 1: rank 0 connects to it for data and for control, and it to rank 0."""
    answer, then = PEERS[peer]
    file = ring_file(tmp_path, 2)
    own, other = (int(h[0].split(":")[1]) for h in json.loads(file.read_text()))
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", other)))
        listener.settimeout(60)
        env = environment(MLX_RANK="0", MLX_HOSTFILE=str(file))
        env["MLX_DISTRIBUTED_TIMEOUT"] = "2"
        command = [sys.executable, str(PROGRAMS), "meets"]
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        stack.callback(process.kill)
        data = stack.enter_context(listener.accept()[0])
        back = stack.enter_context(socket.create_connection(("127.0.0.1", own)))
        control = stack.enter_context(listener.accept()[0])
        if answer is not None:
            with contextlib.suppress(OSError):
                control.sendall(answer + then)
            if answer != ACCEPTED:
                for s in (control, data, back):
                    s.close()
        output = process.communicate(timeout=100)[0]
        assert process.returncode == 0 and "raised after" in output, output


def test_another_secret_is_refused(tmp_path):
    file = ring_file(tmp_path, 2)
    processes = []
    for rank in range(2):
        env = environment(MLX_RANK=str(rank), MLX_HOSTFILE=str(file), EXPECT="form the ring")
        env.update(MLX_RING_SECRET=f"word {rank}", MLX_DISTRIBUTED_TIMEOUT="6")
        command = [sys.executable, str(PROGRAMS), "never_forms"]
        processes.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
    outputs = [p.communicate(timeout=60)[0] for p in processes]
    assert [p.returncode for p in processes] == [0, 0]
    assert any("another MLX_RING_SECRET" in o for o in outputs)


def launch(*words, **extra):
    command = [sys.executable, "-m", "mlx.launch", *words]
    return subprocess.run(
        command, env=environment(**extra), capture_output=True, text=True, timeout=100
    )


def test_launching():
    code = (
        "import mlx.core as mx; g = mx.distributed.init(); print('rank', g.rank(), 'of', g.size())"
    )
    done = launch("-n", "2", "--connections-per-ip", "2", "--", "python", "-c", code)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] rank 0 of 2", "[1] rank 1 of 2"]
    code = "import os, time; r = os.environ['MLX_RANK']; r == '0' and time.sleep(60); exit(7)"
    begin = time.monotonic()
    done = launch("-n", "2", "--env", "A=1", "python", "-c", code)
    assert done.returncode == 7 and "Rank 1 ended with code 7" in done.stderr
    assert time.monotonic() - begin < 30
    assert launch("--print-python").stdout.strip() == sys.executable
    assert launch("-n", "2").returncode == 2
    for words, message in (
        (("--env", "A", "x.py"), "NAME=VALUE"),
        (("--hosts", "a", "x.py"), "address of a"),
        (("--hostfile", "/none", "x.py"), "doesn't exist"),
        (("--backend", "jaccl", "x.py"), "'jaccl' is not available"),
    ):
        done = launch(*words)
        assert done.returncode == 2 and message in done.stderr, done.stderr


def test_configuring(tmp_path):
    command = [
        sys.executable,
        "-m",
        "mlx.distributed_config",
        "--hosts",
        "127.0.0.1",
        "--env",
        "A=1",
    ]
    target = tmp_path / "hosts.json"
    subprocess.run([*command, "--output-hostfile", str(target)], env=environment(), check=True)
    host = {"ssh": "127.0.0.1", "ips": ["127.0.0.1"], "rdma": []}
    assert json.loads(target.read_text()) == {"backend": "ring", "envs": ["A=1"], "hosts": [host]}
    done = subprocess.run([*command, "--dot"], env=environment(), capture_output=True, text=True)
    assert re.findall(r'"(.*)" -> "(.*)"', done.stdout) == [("127.0.0.1", "127.0.0.1")]
    assert subprocess.run([*command, "--over", "thunderbolt"], env=environment()).returncode == 2


def test_a_process_that_ends_does_what_it_began(tmp_path):
    assert all("fine" in o for o in run(tmp_path, "begins", 3))


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("program", ["layers", "averages", "sharded"])
def test_parts_of_models_equal_whole_ones(tmp_path, program, count):
    outputs = run(tmp_path, program, count, file_of=SHARDED)
    assert all("fine" in o for o in outputs), outputs


def test_sharding_takes_less_memory():
    """Weights and Adam's moments; gathered weights stay for gradients, or are gathered again."""

    def measured(count, **extra):
        done = launch(
            "-n", str(count), "--", str(SHARDED), "peak", MLX_DEFAULT_DEVICE="cpu", **extra
        )
        kept, most = re.search(r"kept ([0-9.]+), peak ([0-9.]+)", done.stdout).groups()
        return float(kept), float(most)

    kept, most = measured(1)
    assert kept == 3 <= most
    assert measured(4)[0] == 0.75
    again = measured(4, AGAIN="1")
    assert again[0] == 0.75 and again[1] < 0.4 * most


@pytest.mark.parametrize(
    ("example", "figure", "tolerance"),
    [
        ("data_parallel", r"whole batch ([0-9.]+)", 2e-5),
        ("tensor_parallel", r"loss ([0-9.]+)", 2e-5),
        ("pipeline", r"norm of the result ([0-9.]+)", 2e-4),
    ],
)
def test_examples_on_four_processes_equal_one(example, figure, tolerance):
    path = str(EXAMPLES / f"{example}.py")
    done, alone = launch("-n", "4", "--", path), launch("-n", "1", "--", path)
    assert done.returncode == 0 == alone.returncode, done.stderr + alone.stderr
    assert "4 processes" in done.stdout and "1 processes" in alone.stdout
    many, one = (float(re.search(figure, out.stdout).group(1)) for out in (done, alone))
    assert abs(many - one) <= tolerance
