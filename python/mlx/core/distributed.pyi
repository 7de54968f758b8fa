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
        """The number of this process in the group, from 0 on.

        Returns:
            int: The number.

        >>> mx.distributed.init().rank()
        0
        """
    def size(self, /) -> int:
        """How many processes are in the group.

        Returns:
            int: The count.

        >>> mx.distributed.init().size()
        1
        """
    def split(self, /, color: int, key: int = ...) -> Group:
        """Splits the group into groups.

        Args:
            color (int): Processes with the same number come into the same group.
            key (int, optional): What processes are ordered by in it; a negative one keeps the order. Default:
                -1.

        Returns:
            Group: The group of this process.

        Raises:
            RuntimeError: if the group has one process alone, or some of its processes are of another library.

        >>> try:
        ...     mx.distributed.init().split(0)
        ... except RuntimeError as error:
        ...     print("split" in str(error))
        True
        """

def all_gather(x: array, *, group: Group | None = ..., stream: _StreamOrDevice = ...) -> array:
    """The arrays of all processes, joined along the first axis in the order of ranks; every process gets them.

    Args:
        x (array): The array of this process, of the same shape and dtype everywhere.
        group (Group, optional): The group. Default: None, that of all processes.

    Returns:
        array: With a first axis longer by the number of processes; `x` itself for one.

    >>> mx.distributed.all_gather(mx.array([1, 2]))
    array([1, 2], dtype=int32)
    """

def all_max(x: array, *, group: Group | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Largest elements of the arrays of all processes, place by place; every process gets them.

    Args:
        x (array): The array of this process, of the same shape and dtype everywhere.
        group (Group, optional): The group. Default: None, that of all processes.

    Returns:
        array: Of the shape and dtype of `x`; `x` itself for one process.

    >>> mx.distributed.all_max(mx.array([1, 2]))
    array([1, 2], dtype=int32)
    """

def all_min(x: array, *, group: Group | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Smallest elements of the arrays of all processes, place by place; every process gets them.

    Args:
        x (array): The array of this process, of the same shape and dtype everywhere.
        group (Group, optional): The group. Default: None, that of all processes.

    Returns:
        array: Of the shape and dtype of `x`; `x` itself for one process.

    >>> mx.distributed.all_min(mx.array([1, 2]))
    array([1, 2], dtype=int32)
    """

def all_sum(x: array, *, group: Group | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Sums of the arrays of all processes, element by element; every process gets them.

    Args:
        x (array): The array of this process, of the same shape and dtype everywhere.
        group (Group, optional): The group. Default: None, that of all processes.

    Returns:
        array: Of the shape and dtype of `x`; `x` itself for one process.

    >>> mx.distributed.all_sum(mx.array([1, 2]))
    array([1, 2], dtype=int32)
    """

def init(strict: bool = ..., backend: str = ..., *, all_gather_factory: Callable[[int, int], Callable[[bytes, int], bytes]] | None = ...) -> Group:
    """The group of all processes.

    Where nothing tells of others (see `mlx.launch`) it is this process alone, and the operations of this module return
    their input. A group that came up is kept: the next call returns it.

    Args:
        strict (bool, optional): Whether to raise where no backend can be started. Default: False.
        backend (str, optional): Name of the backend, or "any". Default: "any".
        all_gather_factory (Callable, optional): For backends that exchange bytes through a function of the
            caller. Default: None.

    Returns:
        Group: The group.

    Raises:
        RuntimeError: if `strict` is given and no backend can be started, or others cannot be reached within
            MLX_DISTRIBUTED_TIMEOUT seconds.
        ValueError: if the name of the backend is unknown.

    >>> mx.distributed.init().rank()
    0
    """

def is_available(backend: str = ...) -> bool:
    """Whether a backend that connects processes can be used.

    Args:
        backend (str, optional): Name of the backend, or "any". Default: "any".

    Returns:
        bool: Whether it can.

    >>> mx.distributed.is_available("mpi") in (True, False)
    True
    """

def recv(shape: Sequence[int], dtype: Dtype, src: int, *, group: Group | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Receives an array that another process sends with `send`.

    Args:
        shape (Sequence[int]): Shape of the array.
        dtype (Dtype): Dtype of the array.
        src (int): Rank of the process that sends it.
        group (Group, optional): The group. Default: None, that of all processes.

    Returns:
        array: What was sent.

    Raises:
        ValueError: if the group has one process alone, or none of this rank.

    >>> try:
    ...     mx.distributed.recv((2,), mx.float32, 0)
    ... except ValueError as error:
    ...     print("singleton" in str(error))
    True
    """

def recv_like(x: array, src: int, *, group: Group | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Receives an array of the shape and dtype of another one, which a process sends with `send`.

    Args:
        x (array): Whose shape and dtype the array has.
        src (int): Rank of the process that sends it.
        group (Group, optional): The group. Default: None, that of all processes.

    Returns:
        array: What was sent.

    Raises:
        ValueError: if the group has one process alone, or none of this rank.

    >>> try:
    ...     mx.distributed.recv_like(mx.array([1]), 0)
    ... except ValueError as error:
    ...     print("singleton" in str(error))
    True
    """

def send(x: array, dst: int, *, group: Group | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Sends an array to another process, which receives it with `recv`.

    Args:
        x (array): What is sent.
        dst (int): Rank of the process that receives it.
        group (Group, optional): The group. Default: None, that of all processes.

    Returns:
        array: `x`; it is sent when that is evaluated.

    Raises:
        ValueError: if the group has one process alone, or none of this rank.

    >>> try:
    ...     mx.distributed.send(mx.array([1]), 1)
    ... except ValueError as error:
    ...     print("singleton" in str(error))
    True
    """

def sum_scatter(x: array, *, group: Group | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Sums of the arrays of all processes, of which each process gets its part along the first axis.

    Args:
        x (array): The array of this process, of the same shape and dtype everywhere.
        group (Group, optional): The group. Default: None, that of all processes.

    Returns:
        array: With a first axis divided by the number of processes; `x` itself for one.

    >>> mx.distributed.sum_scatter(mx.array([1, 2]))
    array([1, 2], dtype=int32)
    """
