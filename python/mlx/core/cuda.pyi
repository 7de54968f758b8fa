# Written by tools/stubs.py from the module itself; do not edit.
"""CUDA is not available here; the name exists for programs that ask."""


__all__ = ['is_available']

def is_available() -> bool:
    """Whether this backend is available: never, since this library computes on CPUs and through Vulkan.

    Programs ask before they use what only that backend has. See `mlx.core.vulkan.is_available`.

    Returns:
        bool: False.

    >>> mx.metal.is_available(), mx.cuda.is_available()
    (False, False)
    """
