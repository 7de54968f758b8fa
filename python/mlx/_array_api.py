"""What the array API standard asks a namespace about itself, which
`mlx.core.__array_namespace_info__` returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import mlx.core as mx

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "integral": ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64",),
}
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


def _checked(device: Any) -> mx.Device:
    import mlx.core as mx

    if device is None:
        return mx.default_device()
    if not isinstance(device, mx.Device):
        raise TypeError(f"[array_namespace_info] Expected a Device, got {type(device).__name__}.")
    return device


class ArrayNamespaceInfo:
    """Capabilities, devices and dtypes of the namespace `mlx.core`."""

    def capabilities(self) -> dict[str, Any]:
        """What of the standard's optional parts there is."""
        return {
            "boolean indexing": False,
            "data-dependent shapes": False,
            "max dimensions": 10,
        }

    def default_device(self) -> mx.Device:
        """The device that operations run on."""
        import mlx.core as mx

        return mx.default_device()

    def default_dtypes(self, *, device: mx.Device | None = None) -> dict[str, mx.Dtype]:
        """The dtype that each kind of number has if none is given."""
        import mlx.core as mx

        _checked(device)
        return {
            "real floating": mx.float32,
            "complex floating": mx.complex64,
            "integral": mx.int32,
            "indexing": mx.int32,
        }

    def devices(self) -> tuple[mx.Device, ...]:
        """All devices, as a tuple."""
        import mlx.core as mx

        kinds = (mx.cpu, mx.gpu)
        return tuple(mx.Device(kind, i) for kind in kinds for i in range(mx.device_count(kind)))

    def dtypes(
        self, *, device: mx.Device | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, mx.Dtype]:
        """The standard's dtypes that a device has, by name; of one kind or a tuple of kinds."""
        import mlx.core as mx

        device = _checked(device)
        names = _KINDS["bool"] + _KINDS["numeric"]
        if kind is not None:
            kinds = kind if isinstance(kind, tuple) else (kind,)
            if unknown := [k for k in kinds if k not in _KINDS]:
                raise ValueError(
                    f"[array_namespace_info] There is no kind of dtypes {unknown[0]!r}."
                )
            wanted = {name for k in kinds for name in _KINDS[k]}
            names = tuple(name for name in names if name in wanted)
        if device.type != mx.cpu:
            names = tuple(name for name in names if name != "float64")
        order = ("bool", *_KINDS["integral"], "float32", "complex64", "float64")
        return {
            name: mx.bool_ if name == "bool" else getattr(mx, name)
            for name in order
            if name in names
        }
