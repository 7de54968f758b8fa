"""MLX's helpers for building C++ and Metal extensions, which this library does not have: there is
no C++ core to build against. The names exist so that build scripts can be imported; using one says
what to do instead.
"""

__all__ = [
    "BuildExtension",
    "CMakeBuild",
    "CMakeExtension",
    "Extension",
    "MetalExtension",
    "MetalLibrary",
]


class _Missing:
    def __init__(self, *args, **kwargs):
        raise RuntimeError(
            f"[extension] {type(self).__name__} builds against MLX's C++ library, which mlx-vulkan "
            "does not have. Use mx.fast.vulkan_kernel for kernels of your own."
        )


class BuildExtension(_Missing):
    """Raises RuntimeError."""


class CMakeBuild(_Missing):
    """Raises RuntimeError."""


class CMakeExtension(_Missing):
    """Raises RuntimeError."""


class Extension(_Missing):
    """Raises RuntimeError."""


class MetalExtension(_Missing):
    """Raises RuntimeError."""


class MetalLibrary(_Missing):
    """Raises RuntimeError."""
