# Written by tools/stubs.py from the module itself; do not edit.
"""Metal is not available here; the names exist for programs that ask."""

from typing import Any
from . import array

__all__ = ['clear_cache', 'device_info', 'get_active_memory', 'get_cache_memory', 'get_peak_memory', 'is_available', 'reset_peak_memory', 'set_cache_limit', 'set_memory_limit', 'set_wired_limit', 'start_capture', 'stop_capture']

def clear_cache() -> None:
    """Gives the memory back that is kept for reuse.

    After it `get_cache_memory` is 0 until arrays are freed again. The driver of a GPU with memory of its own gets it a quarter of a
    second later, what is asked for again until then excepted (MLX_VK_CLEAR_MS).

    Returns:
        None

    >>> mx.clear_cache()
    """

def device_info() -> dict[str, Any]:
    """Facts about the default device, as `mlx.core.device_info` gives them.

    The name exists for programs that ask Metal for its limits.

    Returns:
        dict[str, str | int]: Facts by name.

    >>> 'device_name' in mx.metal.device_info()
    True
    """

def get_active_memory() -> int:
    """Bytes that arrays hold now, on the host and on devices.

    What is kept for reuse is not among them: see `get_cache_memory`.

    Returns:
        int: Bytes, by the capacity that was reserved.

    >>> mx.get_active_memory() >= 0
    True
    """

def get_cache_memory() -> int:
    """Bytes that are kept for reuse and belong to no array.

    A steady loop takes its memory from there and asks the driver for none. `set_cache_limit` bounds it and
    `clear_cache` gives it back.

    Returns:
        int: Bytes.

    >>> mx.get_cache_memory() >= 0
    True
    """

def get_peak_memory() -> int:
    """The largest number of active bytes since the start, or since the last `reset_peak_memory`.

    Returns:
        int: Bytes.

    >>> x = mx.ones(1000) + 1
    >>> mx.eval(x)
    >>> mx.get_peak_memory() >= 4000
    True
    """

def is_available() -> bool:
    """Whether this backend is available: never, since this library computes on CPUs and through Vulkan.

    Programs ask before they use what only that backend has. See `mlx.core.vulkan.is_available`.

    Returns:
        bool: False.

    >>> mx.metal.is_available(), mx.cuda.is_available()
    (False, False)
    """

def reset_peak_memory() -> None:
    """Starts the peak of `get_peak_memory` again from the bytes that are active now.

    Returns:
        None

    >>> mx.reset_peak_memory()
    """

def set_cache_limit(limit: int) -> int:
    """Sets the limit of bytes that are kept for reuse.

    What is beyond it is given back. With 0 nothing is kept, which makes every array ask the driver for
    memory.

    Args:
        limit (int): Bytes.

    Returns:
        int: The limit before.

    Raises:
        TypeError: if the limit is no integer.

    >>> old = mx.set_cache_limit(1 << 30)
    >>> mx.set_cache_limit(old) == 1 << 30
    True
    """

def set_memory_limit(limit: int) -> int:
    """Sets the limit of active bytes beyond which allocation fails.

    Before that the memory kept for reuse is given back. It holds for the host and devices together.

    Args:
        limit (int): Bytes.

    Returns:
        int: The limit before.

    Raises:
        TypeError: if the limit is no integer.

    >>> old = mx.set_memory_limit(mx.get_memory_limit())
    """

def set_wired_limit(limit: int) -> int:
    """Stores a limit of wired bytes, from which nothing follows: Vulkan has no such notion.

    The name exists for programs that set it for Metal.

    Args:
        limit (int): Bytes.

    Returns:
        int: The limit before.

    Raises:
        TypeError: if the limit is no integer.

    >>> mx.set_wired_limit(0)
    0
    """

def start_capture(path: str) -> None:
    """Does nothing: there is no Metal device to capture. See `mlx.core.vulkan.profile`.

    Args:
        path (str): Where a capture would be written.

    Returns:
        None

    >>> mx.metal.start_capture("trace.gputrace")
    """

def stop_capture() -> None:
    """Does nothing: there is no Metal device to capture. See `mlx.core.vulkan.profile`.

    Returns:
        None

    >>> mx.metal.stop_capture()
    """
