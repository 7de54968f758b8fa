"""Finds out how machines reach each other and writes a host file for `mlx.launch`."""

import argparse
import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from mlx._distributed_utils.common import Host, Hostfile

_LOCAL = ("localhost", "127.0.0.1", "::1")


def _ask(host: Host, command: list[str]) -> str | None:
    """What a command says on a host; None where it cannot be reached."""
    words = command
    if host.ssh_hostname not in _LOCAL:
        options = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=5"]
        words = ["ssh", *options, host.ssh_hostname, " ".join(command)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _address(host: Host) -> str | None:
    """The address by which others reach a host."""
    if host.ips:
        return host.ips[0]
    try:
        return socket.gethostbyname(host.ssh_hostname)
    except OSError:
        return None


def _dot(hosts: Sequence[Host]) -> str:
    """The ring as a graph."""
    lines = ["digraph ring {"]
    for i, host in enumerate(hosts):
        after = hosts[(i + 1) % len(hosts)]
        lines.append(f'  "{host.ssh_hostname}" -> "{after.ssh_hostname}";')
    return "\n".join([*lines, "}"])


def main(argv: Sequence[str] | None = None) -> int:
    """`mlx.distributed_config`: returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="mlx.distributed_config", description="Write a host file for machines that ssh reaches"
    )
    add = parser.add_argument
    add("--verbose", action="store_true", help="tell what is found out")
    add("--hosts", default="127.0.0.1", help="names or addresses, separated by commas")
    add("--ignore-unreachable", action="store_true", help="leave out hosts that ssh does not reach")
    add("--hostfile", help="JSON file of the hosts")
    add(
        "--over", choices=["thunderbolt", "ethernet"], default="ethernet", help="what connects them"
    )
    add("--output-hostfile", help="where the host file is written; default: stdout")
    add(
        "--auto-setup", action=argparse.BooleanOptionalAction, help="set interfaces up (macOS only)"
    )
    add("--dot", action="store_true", help="print the ring as a graph and end")
    add(
        "--backend",
        choices=["ring", "jaccl", "jaccl-ring"],
        default="ring",
        help="for which backend",
    )
    add("--env", action="append", default=[], help="NAME=VALUE for all processes; may be repeated")
    args = parser.parse_args(argv)
    if args.over == "thunderbolt" or args.auto_setup or args.backend != "ring":
        print(
            "[config] Thunderbolt and JACCL are set up on macOS, by MLX's own tool.",
            file=sys.stderr,
        )
        return 2
    try:
        given = (
            Hostfile.from_file(args.hostfile) if args.hostfile else Hostfile.from_list(args.hosts)
        )
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    found: list[Host] = []
    for host in given.hosts:
        reached, address = _ask(host, ["echo", "there"]) is not None, _address(host)
        if args.verbose:
            print(
                f"[config] {host.ssh_hostname}: ssh {reached}, address {address}", file=sys.stderr
            )
        if reached and address:
            found.append(Host(len(found), host.ssh_hostname, [address], []))
        elif not args.ignore_unreachable:
            what = "ssh does not reach it" if not reached else "it has no address"
            print(f"[config] {host.ssh_hostname}: {what}.", file=sys.stderr)
            return 1
    if args.dot:
        print(_dot(found))
        return 0
    text = json.dumps(Hostfile(found, args.backend, args.env).to_json(), indent=2)
    if args.output_hostfile:
        Path(args.output_hostfile).write_text(text + "\n")
    else:
        print(text)
    return 0
