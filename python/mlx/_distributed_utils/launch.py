"""Starts a program as several processes, on this machine and, by ssh, on others."""

import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from mlx._distributed_utils.common import Host, Hostfile

_LOCAL = ("localhost", "127.0.0.1", "::1")

# How long processes may take to end when they are asked to.
_GRACE = 5.0


def _is_local(host: Host) -> bool:
    return host.ssh_hostname in _LOCAL


def _free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]


def _pairs(items: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise ValueError(f"[launch] Expected NAME=VALUE for --env, got '{item}'.")
        pairs[name] = value
    return pairs


def _remote(
    host: Host, env: dict[str, str], files: dict[str, str], cwd: str, command: list[str]
) -> list[str]:
    """The ssh command that starts a process; files are written there and named by variables."""
    lines = [f"cd {shlex.quote(cwd)} 2>/dev/null || cd"]
    for name, text in files.items():
        lines.append(f'{name}=$(mktemp); printf %s {shlex.quote(text)} > "${name}"; export {name}')
    lines += [f"export {name}={shlex.quote(value)}" for name, value in env.items()]
    lines.append("exec " + shlex.join(command))
    # The terminal ends the process with the connection.
    return ["ssh", "-tt", "-o", "LogLevel=QUIET", host.ssh_hostname, "; ".join(lines)]


class _Processes:
    """Processes whose output is passed on line by line, with the rank before each."""

    def __init__(self, verbose: bool) -> None:
        self.verbose = verbose
        self.all: list[subprocess.Popen[bytes]] = []
        self.threads: list[threading.Thread] = []
        self.lock = threading.Lock()

    def start(
        self, rank: int, command: list[str], env: dict[str, str] | None, cwd: str | None
    ) -> None:
        if self.verbose:
            print(f"[launch] Rank {rank}: {shlex.join(command)}", flush=True)
        process = subprocess.Popen(
            command,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.all.append(process)
        for source, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            thread = threading.Thread(
                target=self._pass_on, args=(rank, source, target), daemon=True
            )
            thread.start()
            self.threads.append(thread)

    def _pass_on(self, rank: int, source: IO[bytes], target: IO[str]) -> None:
        for line in source:
            text = line.decode(errors="replace").rstrip("\r\n")
            with self.lock, contextlib.suppress(BrokenPipeError):
                target.write(f"[{rank}] {text}\n")
                target.flush()

    def _signal(self, number: int) -> None:
        for process in self.all:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, number)

    def end(self) -> None:
        """Ask all to end, and end those that do not."""
        self._signal(signal.SIGTERM)
        begin = time.monotonic()
        while any(p.poll() is None for p in self.all) and time.monotonic() - begin < _GRACE:
            time.sleep(0.02)
        self._signal(signal.SIGKILL)
        for process in self.all:
            process.wait()

    def wait(self) -> int:
        """Wait for all to end; the first that fails ends the others, and its code is returned."""
        code = 0
        try:
            while True:
                states = [process.poll() for process in self.all]
                code = next((state for state in states if state), 0)
                if code or None not in states:
                    break
                time.sleep(0.02)
            if code:
                rank = states.index(code)
                print(f"[launch] Rank {rank} ended with code {code}.", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            code = 130
        finally:
            self.end()
            for thread in self.threads:
                thread.join(timeout=1)
        # A signal's number is negative; shells add 128.
        return 128 - code if code < 0 else code


def _launch(
    hosts: Sequence[Host],
    args: Any,
    command: list[str],
    variables: Callable[[int], dict[str, str]],
    files: dict[str, str],
) -> int:
    """Start a process for each host, with variables of its own and variables that name files."""
    processes = _Processes(args.verbose)
    given = _pairs(args.env)
    with tempfile.TemporaryDirectory(prefix="mlx-launch-") as folder:
        paths = {}
        for name, text in files.items():
            path = Path(folder) / name
            path.write_text(text)
            paths[name] = str(path)
        try:
            for rank, host in enumerate(hosts):
                own = {"PYTHONUNBUFFERED": "1", **variables(rank), **given}
                if _is_local(host):
                    processes.start(rank, command, {**os.environ, **paths, **own}, args.cwd)
                else:
                    cwd = args.cwd or os.getcwd()
                    processes.start(rank, _remote(host, own, files, cwd, command), None, None)
        except OSError:
            processes.end()
            raise
        return processes.wait()


def launch_ring(
    parser: argparse.ArgumentParser | None, hosts: Sequence[Host], args: Any, command: list[str]
) -> int:
    """Start processes that are connected by TCP; the code of the first that fails is returned."""
    for host in hosts:
        if not host.ips:
            raise ValueError(
                f"[launch] The ring needs an address of {host.ssh_hostname}; see --hostfile."
            )
    each = args.connections_per_ip
    count = sum(len(host.ips) * each for host in hosts)
    first = args.starting_port
    if first is None and all(_is_local(host) for host in hosts):
        ports = iter(_free_ports(count))
    else:
        first = 32323 if first is None else first
        ports = iter(range(first, first + count))
    ring = [[f"{ip}:{next(ports)}" for ip in host.ips for _ in range(each)] for host in hosts]

    def variables(rank: int) -> dict[str, str]:
        verbose = {"MLX_RING_VERBOSE": "1"} if args.verbose else {}
        return {"MLX_RANK": str(rank), **verbose}

    return _launch(hosts, args, command, variables, {"MLX_HOSTFILE": json.dumps(ring)})


def launch_nccl(
    parser: argparse.ArgumentParser | None, hosts: Sequence[Host], args: Any, command: list[str]
) -> int:
    """Start processes with the variables of NCCL; the code of the first that fails is returned."""
    address = hosts[0].ips[0] if hosts[0].ips else hosts[0].ssh_hostname
    names = [host.ssh_hostname for host in hosts]

    def variables(rank: int) -> dict[str, str]:
        # NCCL wants a GPU for each process of a machine.
        gpu = names[:rank].count(names[rank])
        return {
            "MLX_VK_DEVICE": os.environ.get("MLX_VK_DEVICE", str(gpu)),
            "MLX_RANK": str(rank),
            "MLX_WORLD_SIZE": str(len(hosts)),
            "NCCL_HOST_IP": address,
            "NCCL_PORT": str(args.nccl_port),
        }

    return _launch(hosts, args, command, variables, {})


def launch_mpi(
    parser: argparse.ArgumentParser | None, hosts: Sequence[Host], args: Any, command: list[str]
) -> int:
    """Start processes by mpirun; its code is returned."""
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        raise RuntimeError(
            "[launch] There is no mpirun on this machine; install Open MPI or MPICH."
        )
    words = [mpirun]
    if not all(_is_local(host) for host in hosts):
        counts = Counter(host.ssh_hostname for host in hosts)
        words += ["--host", ",".join(f"{name}:{n}" for name, n in counts.items())]
    words += ["-n", str(len(hosts))]
    words += ["-wdir", args.cwd] if args.cwd else []
    for item in args.mpi_arg:
        words += shlex.split(item)
    env = {**os.environ, **_pairs(args.env)}
    if (
        "open mpi"
        in subprocess.run([mpirun, "--version"], capture_output=True, text=True).stdout.lower()
    ):
        # Open MPI passes on what it is told to.
        words += [w for name in _pairs(args.env) for w in ("-x", name)]
    if args.verbose:
        print(f"[launch] {shlex.join([*words, *command])}", flush=True)
    process = subprocess.Popen([*words, *command], env=env)
    try:
        code = process.wait()
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        code = 130
    return 128 - code if code < 0 else code


def launch_jaccl(
    parser: argparse.ArgumentParser | None, hosts: Sequence[Host], args: Any, command: list[str]
) -> int:
    """Raises RuntimeError: JACCL needs Thunderbolt RDMA of macOS."""
    raise RuntimeError("[launch] The distributed backend 'jaccl' is not available.")


_BACKENDS: dict[str, Callable[..., int]] = {
    "ring": launch_ring,
    "mpi": launch_mpi,
    "nccl": launch_nccl,
    "jaccl": launch_jaccl,
    "jaccl-ring": launch_jaccl,
}


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text}")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mlx.launch",
        description="Start a program as several processes, which form a group",
        usage="mlx.launch [options] [--] program [arguments]",
    )
    add = parser.add_argument
    add("--print-python", action="store_true", help="print the path of this Python and end")
    add("--verbose", action="store_true", help="tell what is started, and who connects to whom")
    add("--hosts", default="127.0.0.1", help="names or addresses, separated by commas")
    add("--repeat-hosts", "-n", type=_positive, default=1, help="processes for each host")
    add("--hostfile", help="JSON file of the hosts")
    add("--backend", choices=list(_BACKENDS), help="what connects the processes; default: ring")
    add("--env", action="append", default=[], help="NAME=VALUE for all processes; may be repeated")
    add("--mpi-arg", action="append", default=[], help="arguments for mpirun; may be repeated")
    add("--connections-per-ip", type=_positive, default=1, help="connections of a ring an address")
    add("--starting-port", "-p", type=_positive, help="first port of a ring; default: free ones")
    add("--cwd", help="folder that the processes run in")
    add("--nccl-port", type=_positive, default=12345, help="port of the first process for NCCL")
    add("--python", default=sys.executable, help="Python that runs scripts")
    add("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _command(words: list[str], python: str) -> list[str]:
    """What is run: a script by Python, anything else as it is."""
    script = Path(words[0])
    if script.suffix == ".py" and script.is_file():
        return [python, str(script.resolve()), *words[1:]]
    if words[0] in ("python", "python3"):
        return [python, *words[1:]]
    return words


def main(argv: Sequence[str] | None = None) -> int:
    """`mlx.launch`: returns the exit code."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.print_python:
        print(sys.executable)
        return 0
    words = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not words:
        parser.error("a program to run is missing")
    try:
        if args.hostfile:
            hostfile = Hostfile.from_file(args.hostfile)
        else:
            hostfile = Hostfile.from_list(args.hosts, args.repeat_hosts)
            for host in hostfile.hosts:
                host.ips = host.ips or (["127.0.0.1"] if _is_local(host) else [])
        args.env = hostfile.envs + args.env
        backend = args.backend or hostfile.backend or "ring"
        if backend not in _BACKENDS:
            raise ValueError(f"[launch] There is no backend '{backend}'.")
        return _BACKENDS[backend](parser, hostfile.hosts, args, _command(words, args.python))
    except (ValueError, RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
