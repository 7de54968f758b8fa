"""The enumerations of `mlx.core`, which publishes them as its own."""

from enum import Enum


class _Named(Enum):
    # MLX's enumerations carry this name, which comes from the library that binds them.
    __nb_enum__ = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    __str__ = __repr__


class DeviceType(_Named):
    """What a device is: the host processor or a Vulkan device."""

    cpu = 0
    gpu = 1


class DtypeCategory(_Named):
    """Groups of dtypes, from the narrow to the wide, for `mlx.core.issubdtype`."""

    complexfloating = 0
    floating = 1
    inexact = 2
    signedinteger = 3
    unsignedinteger = 4
    integer = 5
    number = 6
    generic = 7


for _enum in (DeviceType, DtypeCategory):
    _enum.__module__ = "mlx.core"
