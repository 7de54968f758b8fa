"""Starting a program on several machines: not possible without a backend that connects them."""

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from mlx._distributed_utils.common import Host


def _refuse(backend: str) -> NoReturn:
    raise RuntimeError(f"[launch] The distributed backend '{backend}' is not available.")


def launch_ring(
    parser: argparse.ArgumentParser | None, hosts: Sequence[Host], args: Any, command: list[str]
) -> NoReturn:
    """Raises RuntimeError: there is no ring backend."""
    _refuse("ring")


def launch_jaccl(
    parser: argparse.ArgumentParser | None, hosts: Sequence[Host], args: Any, command: list[str]
) -> NoReturn:
    """Raises RuntimeError: there is no jaccl backend."""
    _refuse("jaccl")
