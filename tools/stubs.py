#!/usr/bin/env python3
"""Writes the type stubs of `mlx.core` from the live module: its text signatures, docs and values.

python tools/stubs.py           write python/mlx/core/*.pyi
python tools/stubs.py --check   exit 1 when the files differ from what would be written

The native functions carry no annotations, so types follow from the names of parameters, by the
tables below, and else from what the documentation tells. The module must be importable
(`maturin develop` or a wheel).
Held against the module by `stubtest mlx.core --allowlist tools/stubtest.txt`.
"""

import argparse
import difflib
import enum
import inspect
import pathlib
import re
import sys
import textwrap
import types

import mlx.core as mx

TARGET = pathlib.Path(__file__).resolve().parent.parent / "python" / "mlx" / "core"
STREAM = "_StreamOrDevice"
AXES = "int | Sequence[int] | None"

HEADER = '''\
# Written by tools/stubs.py from the module itself; do not edit.
"""{doc}"""

'''

CORE_PRELUDE = """\
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from types import ModuleType, TracebackType
from typing import Any, Literal, Protocol, Self, TypeAlias, final, overload

import numpy as np
from mlx._array_api import ArrayNamespaceInfo as __array_namespace_info__
from typing_extensions import Buffer

from . import cuda as cuda
from . import distributed as distributed
from . import fast as fast
from . import fft as fft
from . import linalg as linalg
from . import metal as metal
from . import random as random
from . import vulkan as vulkan

class _HasArray(Protocol):
    def __mlx_array__(self) -> array: ...

_Scalar: TypeAlias = bool | int | float | complex
_ArrayLike: TypeAlias = _Scalar | array | _HasArray | Buffer | np.ndarray[Any, Any]
_StreamOrDevice: TypeAlias = Stream | ThreadLocalStream | Device | DeviceType | None
"""

# What a submodule's stub may need, by source.
SUB_IMPORTS = {
    "collections.abc": ["Callable", "Sequence"],
    "typing": ["Any", "Self", "final"],
    ".": ["_ArrayLike", "Dtype", "_StreamOrDevice", "array"],
}

# By parameter name; a leading "function." narrows to one function.
PARAMETERS = {
    "a": "array",
    "b": "array",
    "c": "array",
    "x": "array",
    "y": "array",
    "key": "array | None",
    "stream": STREAM,
    "s": "Stream | ThreadLocalStream | Device | DeviceType",
    "device": "Device | DeviceType",
    "d": "Device | DeviceType | None",
    "device_type": "DeviceType",
    "dtype": "Dtype | None",
    "shape": "int | Sequence[int]",
    "strides": "Sequence[int] | None",
    "axes": "Sequence[int] | None",
    "axis": "int | None",
    "axis1": "int",
    "axis2": "int",
    "source": "int",
    "destination": "int",
    "start_axis": "int",
    "end_axis": "int",
    "offset": "int",
    "keepdims": "bool",
    "precise": "bool",
    "equal_nan": "bool",
    "endpoint": "bool",
    "allow_col_major": "bool",
    "ddof": "int",
    "correction": "int | None",
    "decimals": "int",
    "rtol": "float",
    "atol": "float",
    "alpha": "float",
    "beta": "float",
    "nan": "float",
    "posinf": "float | None",
    "neginf": "float | None",
    "n": "int",
    "m": "int | None",
    "k": "int",
    "num": "int",
    "repeats": "int",
    "reps": "int | Sequence[int]",
    "shift": "int | Sequence[int]",
    "arrays": "Sequence[array]",
    "indices": "int | array",
    "indices_or_sections": "int | Sequence[int]",
    "pad_width": "int | Sequence[int] | Sequence[tuple[int, int]]",
    "mode": "str",
    "precision": "int",
    "limit": "int",
    "seed": "int",
    "num_samples": "int | None",
    "index": "int",
    "type": "DeviceType",
    "path": "str",
    "copy": "bool | None",
    "api_version": "str | None",
    "logits": "array",
    "value": "_ArrayLike",
    "vals": "_ArrayLike",
    "low": "_ArrayLike",
    "high": "_ArrayLike",
    "lower": "_ArrayLike",
    "upper": "_ArrayLike",
    "p": "_ArrayLike",
    "loc": "_ArrayLike | None",
    "scale": "_ArrayLike | None",
    "constant_values": "_ArrayLike",
    "condition": "_ArrayLike",
    "a_min": "_ArrayLike | None",
    "a_max": "_ArrayLike | None",
    "fun": "Callable[..., Any]",
    "argnums": "int | Sequence[int] | None",
    "argnames": "str | Iterable[str] | None",
    "primals": "Sequence[array]",
    "cotangents": "Sequence[array]",
    "tangents": "Sequence[array]",
    "arg1": "Dtype | DtypeCategory",
    "arg2": "Dtype | DtypeCategory",
    "kind": "Dtype | str | tuple[Dtype | str, ...]",
    "from_": "array | Dtype",
    "to": "Dtype",
    "arrays_and_dtypes": "array | Dtype",
    "arys": "array",
    "shapes": "Sequence[int]",
    "exc_type": "type[BaseException] | None",
    "exc_value": "BaseException | None",
    "traceback": "TracebackType | None",
    "start": "int | float | None",
    "stop": "int | float | None",
    "step": "int | float | None",
    "val": "Any",
    "arg": "Dtype",
    "args": "Any",
    "kwargs": "Any",
    "memo": "Any",
    "state": "tuple[Any, ...]",
    "spec": "str",
    "modulo": "Any",
    "flags": "int",
    "broadcast_arrays.arrays": "array",
    "transpose.axes": "Any",
    "reshape.shape": "Any",
    "astype.dtype": "Dtype",
    "view.dtype": "Dtype",
    "view.a": "_ArrayLike",
    "isdtype.dtype": "Dtype",
    "asarray.a": "Any",
    "broadcast_to.a": "_ArrayLike",
    "tile.a": "_ArrayLike",
    "repeat.array": "_ArrayLike",
    "round.a": "_ArrayLike",
    "nan_to_num.a": "_ArrayLike",
    "divmod.a": "_ArrayLike",
    "divmod.b": "_ArrayLike",
    "array_equal.a": "_ArrayLike",
    "array_equal.b": "_ArrayLike",
    "where.x": "_ArrayLike",
    "where.y": "_ArrayLike",
    "linspace.start": "float",
    "linspace.stop": "float",
    "linspace.num": "int | None",
    "identity.n": "int",
    "expand_dims.axis": "int | Sequence[int]",
    "unflatten.axis": "int",
    "split.axis": "int",
    "random.split.key": "array",
    "random.permutation.x": "int | array",
    "random.permutation.axis": "int",
    "random.categorical.axis": "int",
    "random.laplace.loc": "float",
    "random.laplace.scale": "float",
    "set_default_stream.stream": "Stream",
    "fft.fft2.s": "Sequence[int] | None",
    "fft.fftn.s": "Sequence[int] | None",
    "fft.ifft2.s": "Sequence[int] | None",
    "fft.ifftn.s": "Sequence[int] | None",
    "fft.irfft2.s": "Sequence[int] | None",
    "fft.irfftn.s": "Sequence[int] | None",
    "fft.rfft2.s": "Sequence[int] | None",
    "fft.rfftn.s": "Sequence[int] | None",
    "fft.fftfreq.d": "float",
    "fft.rfftfreq.d": "float",
    "fft.fft.n": "int | None",
    "fft.ifft.n": "int | None",
    "fft.irfft.n": "int | None",
    "fft.rfft.n": "int | None",
    "fft.fft.norm": "str",
    "fft.fft2.norm": "str",
    "fft.fftn.norm": "str",
    "fft.ifft.norm": "str",
    "fft.ifft2.norm": "str",
    "fft.ifftn.norm": "str",
    "fft.irfft.norm": "str",
    "fft.irfft2.norm": "str",
    "fft.irfftn.norm": "str",
    "fft.rfft.norm": "str",
    "fft.rfft2.norm": "str",
    "fft.rfftn.norm": "str",
    "tensordot.axes": "int | list[Sequence[int]]",
    "vulkan.device_info.index": "int",
    "distributed.recv.shape": "Sequence[int]",
    "distributed.recv.dtype": "Dtype",
    "save_safetensors.arrays": "dict[str, array]",
    "strict": "bool",
    "backend": "str",
    "all_gather_factory": "Callable[[int, int], Callable[[bytes, int], bytes]] | None",
    "group": "Group | None",
    "src": "int",
    "dst": "int",
    "color": "int",
    "Group.split.key": "int",
    "fast.metal_kernel.source": "str",
    "fast.metal_kernel.name": "str",
    "fast.metal_kernel.input_names": "Sequence[str]",
    "fast.metal_kernel.output_names": "Sequence[str]",
    "fast.metal_kernel.header": "str",
    "fast.metal_kernel.ensure_row_contiguous": "bool",
    "fast.metal_kernel.atomic_outputs": "bool",
    "fast.cuda_kernel.source": "str",
    "fast.cuda_kernel.name": "str",
    "fast.cuda_kernel.input_names": "Sequence[str]",
    "fast.cuda_kernel.output_names": "Sequence[str]",
    "fast.cuda_kernel.header": "str",
    "fast.cuda_kernel.ensure_row_contiguous": "bool",
    "fast.cuda_kernel.atomic_outputs": "bool",
    "fast.vulkan_kernel.source": "str | bytes",
    "fast.vulkan_kernel.name": "str",
    "fast.vulkan_kernel.input_names": "Sequence[str]",
    "fast.vulkan_kernel.output_names": "Sequence[str]",
    "fast.vulkan_kernel.header": "str",
    "fast.vulkan_kernel.ensure_row_contiguous": "bool",
    "fast.vulkan_kernel.atomic_outputs": "bool",
    "fast.gated_delta_update.k": "array",
    "fast.gated_delta_update.beta": "array",
    "fast.scaled_dot_product_attention.k": "array",
    "fast.scaled_dot_product_attention.scale": "float",
    "fast.scaled_dot_product_attention.mask": "str | array | None",
    "fast.scaled_dot_product_attention.sinks": "array | None",
    "fast.rope.scale": "float",
    "fast.rope.offset": "int | array",
    "fast.rope.freqs": "array | None",
    "fast.rope.base": "float | None",
    "fast.rope.traditional": "bool",
    "fast.rope.dims": "int",
    "eps": "float",
    "weight": "array | None",
    "bias": "array | None",
    "q": "array",
    "v": "array",
    "w": "array",
    "scales": "array | None",
    "biases": "array | None",
    "group_size": "int | None",
    "shapeless": "bool",
    "metadata": "dict[str, str] | None",
    "export_function.metadata": "str | None",
    "exporter.metadata": "str | None",
    "targets": "array",
    "sorted_indices": "bool",
    "global_scale": "array | None",
    "isolate": "bool",
    "reset": "bool",
}
# Functions whose `axis` may name several axes.
MANY_AXES = set("sum prod min max all any mean var std logsumexp softmax squeeze flip roll".split())
# Where None, a single integer or neither is a shape.
SEQUENCES_ONLY = set("reshape unflatten".split())
OPTIONAL_SHAPES = set("as_strided categorical bernoulli truncated_normal".split())

RETURNS = {
    "None": "export_function export_to_dot "
    "eval async_eval set_default_device set_default_stream synchronize clear_streams "
    "set_printoptions reset_peak_memory clear_cache seed start_capture stop_capture __setitem__ "
    "__setstate__ __enter__ __exit__ __init__",
    "int": "get_active_memory get_peak_memory get_cache_memory get_memory_limit set_memory_limit "
    "set_cache_limit set_wired_limit device_count host_ops Group.rank Group.size __len__ __index__ "
    "__int__ __hash__",
    "bool": "_tune_set is_available issubdtype isdtype can_cast __bool__",
    "float": "__float__",
    "complex": "__complex__",
    "str": "__repr__ __str__ __format__",
    "Dtype": "result_type",
    "dict[str, Any]": "device_info vulkan.stats vulkan.describe vulkan.cache_info _Recording.stop",
    "list[str]": "_set_disabled _tune_winners",
    "list[int]": "_tune_measure",
    "dict[str, Any] | None": "_tune_question",
    "tuple[list[list[str]], list[tuple[str, str]]]": "_environment",
    "tuple[str | None, list[tuple[str, str, str]]]": "_rejected",
    "Device": "default_device",
    "Stream": "default_stream new_stream new_thread_unsafe_stream",
    "ThreadLocalStream": "new_thread_local_stream",
    "StreamContext": "stream",
    "PrintOptions": "get_printoptions",
    "_PrintOptionsContext": "printoptions",
    "list[array]": "split divmod broadcast_arrays quantize",
    "tuple[int, ...]": "broadcast_shapes",
    "array | list[array]": "atleast_1d atleast_2d atleast_3d",
    "Callable[..., Any]": "grad value_and_grad compile checkpoint import_function "
    "fast.metal_kernel fast.cuda_kernel fast.vulkan_kernel",
    "tuple[list[array], list[array]]": "vjp jvp",
    "Any": "item tolist __call__ vulkan.profile",
    "tuple[Any, ...]": "__getstate__ __reduce__",
    "np.ndarray[Any, Any]": "__array__",
    "ModuleType": "__array_namespace__",
    "Iterator[array]": "array.__iter__",
    "ArrayIterator": "ArrayIterator.__iter__",
    "ArrayAt": "ArrayAt.__getitem__",
    "array": "random.split random.key",
    "Group": "distributed.init Group.split",
    "FunctionExporter": "exporter",
    "Self": "Dtype.__copy__ Dtype.__deepcopy__",
}
# Functions whose result depends on their arguments: parameters and result of each form.
_LOADED = "file: Any, /, format: {}, return_metadata: {}, *, stream: _StreamOrDevice = ..."
_WITH_METADATA = "tuple[dict[str, array], dict[str, Any]]"
OVERLOADS = {
    "load": [
        (_LOADED.format('Literal["npy"]', "Literal[False] = ..."), "array"),
        (
            _LOADED.format('Literal["npz", "safetensors", "gguf"]', "Literal[False] = ..."),
            "dict[str, array]",
        ),
        (_LOADED.format("str | None", "Literal[True]"), _WITH_METADATA),
        (
            "file: Any, /, format: str | None = ..., *, return_metadata: Literal[True], "
            "stream: _StreamOrDevice = ...",
            _WITH_METADATA,
        ),
        (
            _LOADED.format("str | None = ...", "Literal[False] = ..."),
            "array | dict[str, array]",
        ),
    ]
}
RESULT = {name: result for result, names in RETURNS.items() for name in names.split()}
RESULT["Dtype.__reduce__"] = "str"
RESULT["_PrintOptionsContext.__enter__"] = "PrintOptions"

GETTERS = {
    "shape": "tuple[int, ...]",
    "dtype": "Dtype",
    "ndim": "int",
    "size": "int",
    "itemsize": "int",
    "nbytes": "int",
    "at": "ArrayAt",
    "device": "Device",
    "index": "int",
    "type": "DeviceType",
    "bits": "int",
    "precision": "int",
    "finfo.min": "float",
    "finfo.max": "float",
    "finfo.eps": "float",
    "finfo.smallest_normal": "float",
    "iinfo.min": "int",
    "iinfo.max": "int",
}
SLOTS = {
    "__getbuffer__",
    "__releasebuffer__",
    "__buffer__",
    "__release_buffer__",
    "__new__",
    "__doc__",
    "__module__",
    "__weakref__",
    "__dict__",
    "__class__",
}
OPERATORS = "add sub mul truediv floordiv mod pow and or xor lshift rshift div".split()
COMPARISONS = {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"}


def lookup(table, where, name):
    """The entry of `where.name` under its longest known form."""
    parts = where.split(".") + [name]
    for i in range(len(parts)):
        if (key := ".".join(parts[i:])) in table:
            return table[key]
    return None


# Names in documentation that are types of the stubs as well.
TOLD = set("array bool int float complex str bytes None list tuple dict object Sequence".split())


def told(text):
    """A type as documentation tells it, or None where it is no type."""
    text = text.removesuffix(", optional")
    words = set(re.findall(r"\w+", text))
    if not words or not words <= TOLD or re.search(r"[^\w\[\], .|]", text):
        return None
    text = re.sub(r"\blist\b(?!\[)", "list[Any]", text)
    return re.sub(r"\bdict\b(?!\[)", "dict[str, Any]", text)


def told_result(obj):
    """Any for one of several types, which callers would have to tell apart at every call."""
    found = re.search(r"^Returns:\n {4}([^:\n]+)(?::|$)", inspect.getdoc(obj) or "", re.M)
    kind = told(found[1]) if found else None
    return "Any" if kind and "|" in kind else kind


def told_parameter(obj, p):
    """Only of builtin types: what an array may be is told more strictly than it is taken."""
    found = re.search(rf"^ {{4}}{p.name} \((.+?)\): ", inspect.getdoc(obj) or "", re.M)
    kind = told(found[1]) if found else None
    if kind is None or "array" in kind:
        return None
    return f"{kind} | None" if p.default is None and "None" not in kind else kind


def annotation(where, p, obj=None):
    function = where.split(".")[-1]
    kind = lookup(PARAMETERS, where, p.name)
    if p.name == "axis" and function in MANY_AXES:
        kind = AXES
    elif p.name == "shape" and function in SEQUENCES_ONLY and "array." not in where:
        kind = "Sequence[int]"
    elif p.name == "shape" and (function in OPTIONAL_SHAPES or p.default is None):
        kind = "Sequence[int] | None"
    elif p.name == "shape" and p.default is not p.empty and where.startswith("random."):
        kind = "Sequence[int]"
    elif p.name in ("a", "b") and kind == "array" and function in ELEMENTWISE:
        kind = "_ArrayLike"
    return kind or (obj and told_parameter(obj, p)) or "Any"


def parameters(where, signature, obj=None):
    out, stars, positional = [], False, False
    for p in signature.parameters.values():
        name = p.name
        if positional and p.kind is not p.POSITIONAL_ONLY:
            out.append("/")
            positional = False
        if p.kind is p.VAR_POSITIONAL:
            name, stars = f"*{name}", True
        elif p.kind is p.VAR_KEYWORD:
            name = f"**{name}"
        elif p.kind is p.KEYWORD_ONLY and not stars:
            out.append("*")
            stars = True
        positional |= p.kind is p.POSITIONAL_ONLY
        if p.name == "self":
            out.append("self")
            continue
        text = f"{name}: {annotation(where, p, obj)}"
        out.append(text if p.default is p.empty else f"{text} = ...")
    if positional:
        out.append("/")
    return ", ".join(out)


def doc(obj, indent):
    text = inspect.getdoc(obj)
    if not text:
        return ""
    text = text.replace("\\", "\\\\")
    return textwrap.indent(f'"""{text}\n"""' if "\n" in text else f'"""{text}"""', indent)


def function(where, name, obj, indent="", result=None):
    full = f"{where}.{name}" if where else name
    if full in OVERLOADS:
        (args, result), *others = OVERLOADS[full]
        forms = "".join(
            f"@overload\ndef {name}({other}) -> {kind}: ...\n" for other, kind in others
        )
        return f"@overload\ndef {name}({args}) -> {result}:\n{doc(obj, '    ')}\n{forms}"
    result = result or lookup(RESULT, where, name) or told_result(obj) or "array"
    try:
        args = parameters(full, inspect.signature(obj), obj)
    except (TypeError, ValueError):
        args = "self, *args: Any, **kwargs: Any" if indent else "*args: Any, **kwargs: Any"
    head = f"{indent}def {name}({args}) -> {result}:"
    body = doc(obj, indent + "    ") if not name.startswith("__") else ""
    return f"{head}\n{body}\n" if body else f"{head} ...\n"


def method(cls, name, obj):
    pad = "    "
    operand = name.strip("_")
    if name in COMPARISONS:
        if cls != "array" and name in ("__eq__", "__ne__"):
            return f"{pad}def {name}(self, other: object, /) -> bool: ...\n"
        result = "array"
        ignore = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
        return f"{pad}def {name}(self, other: Any, /) -> {result}: ...{ignore}\n"
    for prefix in ("", "r", "i"):
        if cls == "array" and operand.startswith(prefix) and operand[len(prefix) :] in OPERATORS:
            more = ", modulo: Any = None" if operand.endswith("pow") and prefix != "i" else ""
            back = "Self" if prefix == "i" else "array"
            ignore = "  # type: ignore[misc]" if operand == "ipow" else ""
            return f"{pad}def {name}(self, other: Any{more}, /) -> {back}: ...{ignore}\n"
    fixed = {
        "__matmul__": "(self, other: array | _HasArray, /) -> array",
        "__rmatmul__": "(self, other: Any, /) -> array",
        "__imatmul__": "(self, other: array | _HasArray, /) -> Self",
        "__getitem__": f"(self, index: Any, /) -> {lookup(RESULT, cls, name) or 'array'}",
        "__setitem__": "(self, index: Any, value: Any, /) -> None",
        "__delitem__": "(self, index: Any, /) -> None",
        "__next__": "(self) -> array",
        "__hash__": "(self) -> int",
        "__len__": "(self) -> int",
        "__bool__": "(self) -> bool",
        "__iter__": f"(self) -> {lookup(RESULT, cls, name)}",
        "__int__": "(self) -> int",
        "__float__": "(self) -> float",
        "__index__": "(self) -> int",
        "__repr__": "(self) -> str",
        "__neg__": "(self) -> array",
        "__pos__": "(self) -> array",
        "__abs__": "(self) -> array",
        "__invert__": "(self) -> array",
        "__call__": "(self, *args: Any, **kwargs: Any) -> Any",
    }
    if name in fixed:
        return f"{pad}def {name}{fixed[name]}: ...\n"
    return function(cls, name, obj, pad)


def class_stub(name, cls):
    if issubclass(cls, enum.Enum):
        lines = [f"    {m.name} = {m.value!r}" for m in cls]
        return f"class {name}(Enum):\n{doc(cls, '    ')}\n" + "\n".join(lines) + "\n"
    body = []
    if cls.__new__ is not object.__new__ and cls.__text_signature__:
        args = parameters(name, inspect.signature(cls))
        body.append(f"    def __new__(cls{', ' + args if args else ''}) -> Self: ...\n")
    for key, value in sorted(vars(cls).items()):
        if key in SLOTS:
            continue
        if isinstance(value, (types.GetSetDescriptorType, types.MemberDescriptorType)):
            kind = lookup(GETTERS, name, key) or "array"
            if key == "dtype" and name in ("finfo", "iinfo"):
                kind = "Dtype"
            text = doc(value, "        ")
            body.append(f"    @property\n    def {key}(self) -> {kind}:\n{text or '        ...'}\n")
            if name == "PrintOptions":
                body.append(f"    @{key}.setter\n    def {key}(self, value: {kind}) -> None: ...\n")
        elif callable(value) or isinstance(value, types.MethodDescriptorType):
            body.append(method(name, key, value))
    if name == "array":
        body.append("    if sys.version_info >= (3, 12):\n")
        body.append("        def __buffer__(self, flags: int, /) -> memoryview: ...\n")
        body.append("        def __release_buffer__(self, buffer: memoryview, /) -> None: ...\n")
    text = doc(cls, "    ")
    return (
        f"@final\nclass {name}:\n{text}\n{''.join(body)}"
        if body or text
        else f"class {name}: ...\n"
    )


def imports(body):
    """The prelude of a submodule: only the names that its body uses."""
    used = set(re.findall(r"\w+", body))
    lines = []
    for source, names in SUB_IMPORTS.items():
        if names := [n for n in names if n in used]:
            lines.append(f"from {source} import {', '.join(names)}\n")
    return "".join(lines)


def module_stub(module, where):
    classes, functions, values = [], [], []
    for name, value in sorted(vars(module).items()):
        if name.startswith("__") and name not in ("__version__", "__mlx_api__"):
            continue
        if isinstance(value, types.ModuleType):
            continue
        if inspect.isclass(value):
            classes.append(class_stub(name, value))
        elif callable(value):
            functions.append(function(where, name, value))
        else:
            kind = "None" if value is None else type(value).__name__
            values.append(f"{name}: {kind}\n")
    public = sorted(n for n in module.__all__ if not n.startswith("_"))
    everything = f"__all__ = {public!r}\n"
    parts = [everything, "".join(values), *classes, *functions]
    body = "\n".join(part for part in parts if part)
    prelude = imports(body) if where else CORE_PRELUDE
    return HEADER.format(doc=module.__doc__) + prelude + "\n" + body


ELEMENTWISE = {
    n
    for n, f in vars(mx).items()
    if isinstance(f, types.BuiltinFunctionType)
    and (f.__text_signature__ or "").startswith(("(a, /, *, stream", "(a, stream", "(a, b"))
} - set("matmul positive matrix_transpose stop_gradient isclose allclose".split())


def stubs():
    files = {TARGET / "__init__.pyi": module_stub(mx, "")}
    for name in ("cuda", "distributed", "fast", "fft", "linalg", "metal", "random", "vulkan"):
        files[TARGET / f"{name}.pyi"] = module_stub(getattr(mx, name), name)
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args().check
    stale = False
    for path, text in stubs().items():
        have = path.read_text() if path.exists() else ""
        if check:
            diff = difflib.unified_diff(
                have.splitlines(), text.splitlines(), str(path), "live module"
            )
            for line in diff:
                print(line)
                stale = True
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if stale:
        sys.exit("stubs are stale: run python tools/stubs.py")


if __name__ == "__main__":
    main()
