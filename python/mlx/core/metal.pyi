# Written by tools/stubs.py from the module itself; do not edit.
"""Metal is not available here; the names exist for programs that ask."""

from typing import Any
from . import array

__all__ = ['clear_cache', 'device_info', 'get_active_memory', 'get_cache_memory', 'get_peak_memory', 'is_available', 'reset_peak_memory', 'set_cache_limit', 'set_memory_limit', 'set_wired_limit', 'start_capture', 'stop_capture']

def clear_cache() -> None:
    """Gives the bytes that were kept for reuse back.

    >>> mx.clear_cache()
    """

def device_info() -> dict[str, Any]:
    """Facts about the default device; see `mlx.core.device_info`."""

def get_active_memory() -> int:
    """Bytes of all live arrays, on the host and on devices.

    >>> mx.get_active_memory() >= 0
    True
    """

def get_cache_memory() -> int:
    """Bytes that are kept for reuse and belong to no array.

    >>> mx.get_cache_memory() >= 0
    True
    """

def get_peak_memory() -> int:
    """The largest count of active bytes since the start or the last `reset_peak_memory`.

    >>> mx.get_peak_memory() >= 0
    True
    """

def is_available() -> bool:
    """Whether this backend is available: never, in this distribution."""

def reset_peak_memory() -> None:
    """Starts the peak again from the bytes that are active now.

    >>> mx.reset_peak_memory()
    """

def set_cache_limit(limit: int) -> int:
    """Sets the limit of bytes kept for reuse; returns the limit before. 0 keeps nothing.

    >>> old = mx.set_cache_limit(1 << 30)
    >>> mx.set_cache_limit(old) == 1 << 30
    True
    """

def set_memory_limit(limit: int) -> int:
    """Sets the limit of active bytes beyond which allocation fails; returns the limit before.

    >>> old = mx.set_memory_limit(mx.get_memory_limit())
    """

def set_wired_limit(limit: int) -> int:
    """Stores a limit of wired bytes and returns the one before. Vulkan has no such notion: nothing follows from it.

    >>> mx.set_wired_limit(0)
    0
    """

def start_capture(path: str) -> None:
    """Does nothing: there is no Metal device to capture."""

def stop_capture() -> None:
    """Does nothing: there is no Metal device to capture."""
