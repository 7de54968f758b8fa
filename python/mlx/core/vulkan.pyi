# Written by tools/stubs.py from the module itself; do not edit.
"""What is particular to the Vulkan backend."""

from typing import Any
from . import array

__all__ = ['device_info', 'host_ops', 'is_available']

def device_info(index: int = ...) -> dict[str, Any]:
    """Facts about Vulkan device `index`; empty when there is none.

    >>> mx.vulkan.device_info() == mx.device_info(mx.gpu)
    True
    """

def host_ops() -> array:
    """How many operations CPU streams have been handed since the process started: work for a GPU stream adds none.

    >>> mx.vulkan.host_ops() >= 0
    True
    """

def is_available() -> bool:
    """Whether a Vulkan device was found.

    >>> mx.vulkan.is_available() == mx.is_available(mx.gpu)
    True
    """
