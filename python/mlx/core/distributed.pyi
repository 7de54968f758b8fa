# Written by tools/stubs.py from the module itself; do not edit.
"""Groups of processes."""

from collections.abc import Callable, Sequence
from typing import final
from . import Dtype, _StreamOrDevice, array

__all__ = ['Group', 'all_gather', 'all_max', 'all_min', 'all_sum', 'init', 'is_available', 'recv', 'recv_like', 'send', 'sum_scatter']

@final
class Group:
    """A group of processes; made by `init`.

    >>> mx.distributed.init().size()
    1
    """
    def rank(self, /) -> int:
        """The number of this process in the group, from 0."""
    def size(self, /) -> int:
        """How many processes are in the group."""
    def split(self, /, color: int, key: int = ...) -> Group:
        """Splits the group by `color`, ordered by `key`. Raises RuntimeError: one process cannot be split."""

def all_gather(x: array, *, group: Group | None = ..., stream: _StreamOrDevice = ...) -> array:
    """The `x` of all processes of a group, joined along the first axis: `x` itself for one.

    >>> mx.distributed.all_gather(mx.array([1, 2]))
    array([1, 2], dtype=int32)
    """

def all_max(x: array, *, group: Group | None = ..., stream: _StreamOrDevice = ...) -> array:
    """The largest values of `x` over the processes of a group, all by default: `x` itself for one.

    >>> mx.distributed.all_max(mx.array([1, 2]))
    array([1, 2], dtype=int32)
    """

def all_min(x: array, *, group: Group | None = ..., stream: _StreamOrDevice = ...) -> array:
    """The least values of `x` over the processes of a group, all by default: `x` itself for one.

    >>> mx.distributed.all_min(mx.array([1, 2]))
    array([1, 2], dtype=int32)
    """

def all_sum(x: array, *, group: Group | None = ..., stream: _StreamOrDevice = ...) -> array:
    """The sum of `x` over the processes of a group, all by default: `x` itself for one.

    >>> mx.distributed.all_sum(mx.array([1, 2]))
    array([1, 2], dtype=int32)
    """

def init(strict: bool = ..., backend: str = ..., *, all_gather_factory: Callable[[int, int], Callable[[bytes, int], bytes]] | None = ...) -> Group:
    """The group of all processes, which is this one alone. With `strict` raises RuntimeError, since no backend can be
    started; raises ValueError for a backend of an unknown name.

    >>> mx.distributed.init().rank()
    0
    """

def is_available(backend: str = ...) -> bool:
    """Whether a backend that connects processes can be used: none is built in.

    >>> mx.distributed.is_available()
    False
    """

def recv(shape: Sequence[int], dtype: Dtype, src: int, *, group: Group | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Receives an array of a shape and dtype from the process `src`. Raises ValueError: there is no other process."""

def recv_like(x: array, src: int, *, group: Group | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Receives an array that looks like `x` from the process `src`. Raises ValueError: there is no other process."""

def send(x: array, dst: int, *, group: Group | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Sends `x` to the process `dst`. Raises ValueError: there is no other process."""

def sum_scatter(x: array, *, group: Group | None = ..., stream: _StreamOrDevice = ...) -> array:
    """This process's part, along the first axis, of the sum of `x` over a group: `x` itself for one.

    >>> mx.distributed.sum_scatter(mx.array([1, 2]))
    array([1, 2], dtype=int32)
    """
