# Written by tools/stubs.py from the module itself; do not edit.
"""Arrays, and functions of arrays, on CPUs and on GPUs with a Vulkan driver.

Operations build a graph, which is computed when values are asked for (see `eval`). Operands are promoted to a
common dtype (see `result_type`) and broadcast to a common shape, axes being matched from the last one on; a
Python number takes the dtype of the array beside it where its kind allows. float64 exists on CPU streams alone.

Args:
    stream (Stream | ThreadLocalStream | Device | DeviceType, optional): Taken by every function that computes
        arrays: where it runs. Default: None, the default stream of the default device (see `mlx.core.stream`)."""

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

__all__ = ['ArrayAt', 'ArrayIterator', 'ArrayLike', 'Device', 'DeviceType', 'Dtype', 'DtypeCategory', 'FunctionExporter', 'PrintOptions', 'Stream', 'StreamContext', 'ThreadLocalStream', 'abs', 'acos', 'acosh', 'add', 'addmm', 'all', 'allclose', 'any', 'arange', 'arccos', 'arccosh', 'arcsin', 'arcsinh', 'arctan', 'arctan2', 'arctanh', 'argmax', 'argmin', 'argpartition', 'argsort', 'array', 'array_equal', 'as_strided', 'asarray', 'asin', 'asinh', 'astype', 'async_eval', 'atan', 'atan2', 'atanh', 'atleast_1d', 'atleast_2d', 'atleast_3d', 'bartlett', 'bfloat16', 'bitwise_and', 'bitwise_invert', 'bitwise_left_shift', 'bitwise_or', 'bitwise_right_shift', 'bitwise_xor', 'blackman', 'block_masked_mm', 'bool_', 'broadcast_arrays', 'broadcast_shapes', 'broadcast_to', 'can_cast', 'ceil', 'checkpoint', 'clear_cache', 'clear_streams', 'clip', 'compile', 'complex64', 'complexfloating', 'concat', 'concatenate', 'conj', 'conjugate', 'contiguous', 'conv1d', 'conv2d', 'conv3d', 'conv_general', 'conv_transpose1d', 'conv_transpose2d', 'conv_transpose3d', 'convolve', 'cos', 'cosh', 'count_nonzero', 'cpu', 'cuda', 'cummax', 'cummin', 'cumprod', 'cumsum', 'cumulative_prod', 'cumulative_sum', 'custom_function', 'default_device', 'default_stream', 'degrees', 'depends', 'dequantize', 'device_count', 'device_info', 'diag', 'diagonal', 'diff', 'disable_compile', 'distributed', 'divide', 'divmod', 'e', 'einsum', 'einsum_path', 'empty', 'empty_like', 'enable_compile', 'equal', 'erf', 'erfinv', 'euler_gamma', 'eval', 'exp', 'expand_dims', 'expm1', 'export_function', 'export_to_dot', 'exporter', 'eye', 'fast', 'fft', 'finfo', 'flatten', 'flip', 'float16', 'float32', 'float64', 'floating', 'floor', 'floor_divide', 'from_dlpack', 'from_fp8', 'full', 'full_like', 'gather_mm', 'gather_qmm', 'gather_qqmm', 'generic', 'get_active_memory', 'get_array_buffer_size', 'get_cache_memory', 'get_memory_limit', 'get_peak_memory', 'get_printoptions', 'gpu', 'grad', 'greater', 'greater_equal', 'hadamard_transform', 'hamming', 'hanning', 'identity', 'iinfo', 'imag', 'import_function', 'inexact', 'inf', 'inner', 'int16', 'int32', 'int64', 'int8', 'integer', 'is_available', 'isclose', 'isdtype', 'isfinite', 'isinf', 'isnan', 'isneginf', 'isposinf', 'issubdtype', 'jvp', 'kron', 'left_shift', 'less', 'less_equal', 'linalg', 'linspace', 'load', 'log', 'log10', 'log1p', 'log2', 'logaddexp', 'logcumsumexp', 'logical_and', 'logical_not', 'logical_or', 'logical_xor', 'logsumexp', 'matmul', 'matrix_norm', 'matrix_transpose', 'max', 'maximum', 'mean', 'median', 'meshgrid', 'metal', 'min', 'minimum', 'minmax', 'moveaxis', 'multiply', 'nan', 'nan_to_num', 'negative', 'new_stream', 'new_thread_local_stream', 'new_thread_unsafe_stream', 'newaxis', 'not_equal', 'number', 'ones', 'ones_like', 'outer', 'pad', 'partition', 'permute_dims', 'pi', 'positive', 'pow', 'power', 'printoptions', 'prod', 'put_along_axis', 'qqmm', 'quantize', 'quantized_matmul', 'radians', 'random', 'real', 'reciprocal', 'remainder', 'repeat', 'reset_peak_memory', 'reshape', 'result_type', 'right_shift', 'roll', 'round', 'rsqrt', 'save', 'save_gguf', 'save_safetensors', 'savez', 'savez_compressed', 'searchsorted', 'segmented_mm', 'set_cache_limit', 'set_default_device', 'set_default_stream', 'set_memory_limit', 'set_printoptions', 'set_wired_limit', 'sigmoid', 'sign', 'signedinteger', 'sin', 'sinh', 'slice', 'slice_update', 'softmax', 'sort', 'split', 'sqrt', 'square', 'squeeze', 'stack', 'std', 'stop_gradient', 'stream', 'subtract', 'sum', 'swapaxes', 'synchronize', 'take', 'take_along_axis', 'tan', 'tanh', 'tensordot', 'tile', 'to_fp8', 'topk', 'trace', 'transpose', 'tri', 'tril', 'triu', 'trunc', 'uint16', 'uint32', 'uint64', 'uint8', 'unflatten', 'unique', 'unsignedinteger', 'unstack', 'value_and_grad', 'var', 'vecdot', 'view', 'vjp', 'vmap', 'vulkan', 'where', 'zeros', 'zeros_like']

__mlx_api__: str
__version__: str
bfloat16: Dtype
bool_: Dtype
complex64: Dtype
complexfloating: DtypeCategory
cpu: DeviceType
e: float
euler_gamma: float
float16: Dtype
float32: Dtype
float64: Dtype
floating: DtypeCategory
generic: DtypeCategory
gpu: DeviceType
inexact: DtypeCategory
inf: float
int16: Dtype
int32: Dtype
int64: Dtype
int8: Dtype
integer: DtypeCategory
nan: float
newaxis: None
number: DtypeCategory
pi: float
signedinteger: DtypeCategory
uint16: Dtype
uint32: Dtype
uint64: Dtype
uint8: Dtype
unsignedinteger: DtypeCategory

@final
class ArrayAt:
    """Updates of selected elements that do not lose repeated ones; made by `array.at`.

    `a.at[index]` takes what `a[index]` takes. The value is converted to the dtype of the array and broadcast
    to the selected elements; where an index array names an element several times, all updates count. The
    result is a new array. Updates whose index is out of range are dropped. Gradients flow to the array and to
    the values.

    >>> mx.zeros(3).at[mx.array([1, 1, 2])].add(2)
    array([0, 4, 2], dtype=float32)
    """
    def __getitem__(self, index: Any, /) -> ArrayAt: ...
    def add(self, /, value: _ArrayLike) -> array:
        """The array with a value added to the selected elements.

        Args:
            value (array | number): What the elements are updated with; it broadcasts to them.

        Returns:
            array: A new array of the same shape and dtype.

        Raises:
            ValueError: if the value is neither an array nor a number, or does not broadcast.

        >>> mx.zeros(2).at[0].add(3)
        array([3, 0], dtype=float32)
        """
    def divide(self, /, value: _ArrayLike) -> array:
        """The array with the selected elements divided by a value: multiplied by its reciprocal, rounded to the
        dtype.

        Args:
            value (array | number): What the elements are updated with; it broadcasts to them.

        Returns:
            array: A new array of the same shape and dtype.

        Raises:
            ValueError: if the value is neither an array nor a number, or does not broadcast.

        >>> mx.ones(2).at[0].divide(4)
        array([0.25, 1], dtype=float32)
        """
    def maximum(self, /, value: _ArrayLike) -> array:
        """The array with the larger of the selected elements and a value; NaN wins.

        Args:
            value (array | number): What the elements are updated with; it broadcasts to them.

        Returns:
            array: A new array of the same shape and dtype.

        Raises:
            ValueError: if the value is neither an array nor a number, or does not broadcast.

        >>> mx.ones(2).at[0].maximum(3)
        array([3, 1], dtype=float32)
        """
    def minimum(self, /, value: _ArrayLike) -> array:
        """The array with the smaller of the selected elements and a value; NaN wins.

        Args:
            value (array | number): What the elements are updated with; it broadcasts to them.

        Returns:
            array: A new array of the same shape and dtype.

        Raises:
            ValueError: if the value is neither an array nor a number, or does not broadcast.

        >>> mx.ones(2).at[0].minimum(-3)
        array([-3, 1], dtype=float32)
        """
    def multiply(self, /, value: _ArrayLike) -> array:
        """The array with the selected elements multiplied by a value.

        Args:
            value (array | number): What the elements are updated with; it broadcasts to them.

        Returns:
            array: A new array of the same shape and dtype.

        Raises:
            ValueError: if the value is neither an array nor a number, or does not broadcast.

        >>> mx.ones(2).at[0].multiply(3)
        array([3, 1], dtype=float32)
        """
    def subtract(self, /, value: _ArrayLike) -> array:
        """The array with a value subtracted from the selected elements.

        Args:
            value (array | number): What the elements are updated with; it broadcasts to them.

        Returns:
            array: A new array of the same shape and dtype.

        Raises:
            ValueError: if the value is neither an array nor a number, or does not broadcast.

        >>> mx.zeros(2).at[0].subtract(3)
        array([-3, 0], dtype=float32)
        """

@final
class ArrayIterator:
    """Runs over the first axis of an array: `iter(a)` makes one.

    >>> [x.tolist() for x in mx.array([[1, 2], [3, 4]])]
    [[1, 2], [3, 4]]
    """
    def __iter__(self) -> ArrayIterator: ...
    def __next__(self) -> array: ...

@final
class ArrayLike:
    """Holds an object with `__mlx_array__`, and stands for its array where one is expected.

    Functions with operands take such objects themselves; this is for code that asks for the type.

    Args:
        arg (object): An object whose method `__mlx_array__` returns an array.

    Raises:
        TypeError: if the object is None.

    >>> class Three:
    ...     def __mlx_array__(self):
    ...         return mx.array(3)
    >>> mx.array(1) + mx.ArrayLike(Three())
    array(4, dtype=int32)
    """
    def __new__(cls, arg: Dtype, /) -> Self: ...
    def __mlx_array__(self, /) -> array: ...

@final
class Device:
    """A device: a type and an index.

    Devices of one type are ranked, the fastest first.

    Args:
        type (DeviceType): `mx.cpu` or `mx.gpu`.
        index (int, optional): Position in the ranked list. Default: 0.

    >>> mx.Device(mx.cpu)
    Device(cpu, 0)
    """
    def __new__(cls, type: DeviceType, index: int = ...) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ge__(self, other: Any, /) -> array: ...
    def __gt__(self, other: Any, /) -> array: ...
    def __hash__(self) -> int: ...
    def __le__(self, other: Any, /) -> array: ...
    def __lt__(self, other: Any, /) -> array: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __repr__(self) -> str: ...
    @property
    def index(self) -> int:
        """Position in the ranked list of devices of this type."""
    @property
    def type(self) -> DeviceType:
        """`mx.cpu` or `mx.gpu`."""

class DeviceType(Enum):
    """What a device is: the host processor or a Vulkan device."""
    cpu = 0
    gpu = 1

@final
class Dtype:
    """The type of the elements of an array.

    There is one object for each: `mx.bool_`, `mx.int8` to `mx.int64`, `mx.uint8` to `mx.uint64`,
    `mx.float16`, `mx.bfloat16`, `mx.float32`, `mx.float64` (CPU streams only) and `mx.complex64`.

    >>> mx.float32
    mlx.core.float32
    >>> mx.float32.size
    4
    """
    def __copy__(self, /) -> Self: ...
    def __deepcopy__(self, /, _memo: Any) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ge__(self, other: Any, /) -> array: ...
    def __gt__(self, other: Any, /) -> array: ...
    def __hash__(self) -> int: ...
    def __le__(self, other: Any, /) -> array: ...
    def __lt__(self, other: Any, /) -> array: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __reduce__(self, /) -> str: ...
    def __repr__(self) -> str: ...
    @property
    def size(self) -> int:
        """Bytes of one element."""

class DtypeCategory(Enum):
    """Groups of dtypes, from the narrow to the wide, for `mlx.core.issubdtype`."""
    complexfloating = 0
    floating = 1
    inexact = 2
    signedinteger = 3
    unsignedinteger = 4
    integer = 5
    number = 6
    generic = 7

@final
class FunctionExporter:
    """Collects what a function does for several forms of its arguments; `exporter` makes it.

    Call it with example arguments once for each form. The file is complete when the exporter is closed, or
    left as a context manager.
    """
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __enter__(self, /) -> None: ...
    def __exit__(self, /, exc_type: type[BaseException] | None = ..., exc_value: BaseException | None = ..., traceback: TracebackType | None = ...) -> None: ...
    def close(self, /) -> None:
        """Writes the file; calls after that raise ValueError.

        Returns:
            None

        Raises:
            RuntimeError: if the file cannot be written.
        """

@final
class PrintOptions:
    """How numbers print.

    Args:
        precision (int, optional): Number of decimals, or -1 for as many as are needed, up to six significant
            digits. Default: -1.

    >>> mx.PrintOptions(precision=3).precision
    3
    """
    def __new__(cls, precision: int = ...) -> Self: ...
    @property
    def precision(self) -> int:
        """Count of decimals, or -1."""
    @precision.setter
    def precision(self, value: int) -> None: ...

@final
class Stream:
    """An ordered queue of work on a device; made by `new_stream`.

    Work of one stream runs in order; that of several may run side by side, and waits for each other where
    arrays go from one to another. A stream that nobody holds any more finishes its work and is gone; default
    streams stay.

    >>> mx.default_stream(mx.cpu).device
    Device(cpu, 0)
    """
    def __eq__(self, other: object, /) -> bool: ...
    def __ge__(self, other: Any, /) -> array: ...
    def __gt__(self, other: Any, /) -> array: ...
    def __hash__(self) -> int: ...
    def __le__(self, other: Any, /) -> array: ...
    def __lt__(self, other: Any, /) -> array: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __repr__(self) -> str: ...
    @property
    def device(self) -> Device:
        """Where the work runs."""
    @property
    def index(self) -> int:
        """Number of the stream in this process."""

@final
class StreamContext:
    """Runs what is inside a `with` block on a stream or a device; `mx.stream` makes one.

    Args:
        s (Stream | ThreadLocalStream | Device | DeviceType): Where operations run that name no stream.

    >>> with mx.StreamContext(mx.cpu):
    ...     x = mx.ones(2)
    """
    def __new__(cls, s: Stream | ThreadLocalStream | Device | DeviceType) -> Self: ...
    def __enter__(self, /) -> None: ...
    def __exit__(self, /, exc_type: type[BaseException] | None = ..., exc_value: BaseException | None = ..., traceback: TracebackType | None = ...) -> None: ...

@final
class ThreadLocalStream:
    """A stream of its own for every thread that uses it; made by `new_thread_local_stream`.

    >>> mx.new_thread_local_stream(mx.cpu).device
    Device(cpu, 0)
    """
    def __eq__(self, other: object, /) -> bool: ...
    def __ge__(self, other: Any, /) -> array: ...
    def __gt__(self, other: Any, /) -> array: ...
    def __hash__(self) -> int: ...
    def __le__(self, other: Any, /) -> array: ...
    def __lt__(self, other: Any, /) -> array: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __repr__(self) -> str: ...
    @property
    def device(self) -> Device:
        """Where the work runs."""

@final
class _PrintOptionsContext:
    """Restores the print options at the end of a `with` block."""
    def __enter__(self, /) -> PrintOptions: ...
    def __exit__(self, /, exc_type: type[BaseException] | None = ..., exc_value: BaseException | None = ..., traceback: TracebackType | None = ...) -> None: ...

@final
class _gc_func:
    """A transformed function. Its attributes are those of the function inside."""
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __getattribute__(self, name: Any, /) -> array: ...

@final
class _imported_func:
    """A function from a file."""
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

@final
class array:
    """An n-dimensional array, computed when its values are needed.

    Operations build a graph, which is computed by `eval`, by printing, or by whatever else asks for values.
    Indexing follows NumPy: integers, slices, None, Ellipsis, index arrays and bool masks (in assignments).
    Assignment and operators such as `+=` put a new array into the Python object.

    Without `dtype`, Python bools become bool, ints int32 (int64 where one does not fit), floats float32 and
    complex numbers complex64; arrays keep their dtype except that float64 and complex128 of other libraries
    become float32 and complex64.

    Args:
        val (number | Sequence | array | object): A number, a nested list or tuple of numbers and arrays, an
            array, or an object with the buffer protocol, `__array__`, `__dlpack__` or `__mlx_array__`.
        dtype (Dtype, optional): Dtype of the elements. Default: None, see above.

    Raises:
        ValueError: if a list is ragged or holds something else than numbers and arrays.
        TypeError: if `val` is nothing of that kind.

    >>> mx.array([[1, 2], [3, 4]])
    array([[1, 2],
           [3, 4]], dtype=int32)
    >>> mx.array([1.5, 2], dtype=mx.float16)
    array([1.5, 2], dtype=float16)
    """
    def __new__(cls, val: Any, dtype: Dtype | None = ...) -> Self: ...
    @property
    def T(self) -> array:
        """The array with its axes in reverse order, as `mlx.core.transpose` gives it; no data is copied.

        >>> mx.zeros((2, 3)).T.shape
        (3, 2)
        """
    def __abs__(self) -> array: ...
    def __add__(self, other: Any, /) -> array: ...
    def __and__(self, other: Any, /) -> array: ...
    def __array__(self, /, dtype: Dtype | None = ..., copy: bool | None = ...) -> np.ndarray[Any, Any]: ...
    def __array_namespace__(self, /, api_version: str | None = ...) -> ModuleType: ...
    def __bool__(self) -> bool: ...
    def __bytes__(self, /) -> array: ...
    def __complex__(self, /) -> complex: ...
    def __copy__(self, /) -> array: ...
    def __deepcopy__(self, /, memo: Any) -> array: ...
    def __delitem__(self, index: Any, /) -> None: ...
    def __div__(self, other: Any, /) -> array: ...
    def __dlpack__(self, /, *, stream: _StreamOrDevice = ..., max_version: Any = ..., dl_device: Any = ..., copy: bool | None = ...) -> array: ...
    def __dlpack_device__(self, /) -> array: ...
    def __eq__(self, other: Any, /) -> array: ...  # type: ignore[override]
    def __float__(self) -> float: ...
    def __floordiv__(self, other: Any, /) -> array: ...
    def __format__(self, /, spec: str) -> str: ...
    def __ge__(self, other: Any, /) -> array: ...
    def __getitem__(self, index: Any, /) -> array: ...
    def __getstate__(self, /) -> tuple[Any, ...]: ...
    def __gt__(self, other: Any, /) -> array: ...
    def __hash__(self) -> int: ...
    def __iadd__(self, other: Any, /) -> Self: ...
    def __iand__(self, other: Any, /) -> Self: ...
    def __ifloordiv__(self, other: Any, /) -> Self: ...
    def __ilshift__(self, other: Any, /) -> Self: ...
    def __imatmul__(self, other: array | _HasArray, /) -> Self: ...
    def __imod__(self, other: Any, /) -> Self: ...
    def __imul__(self, other: Any, /) -> Self: ...
    def __index__(self) -> int: ...
    def __int__(self) -> int: ...
    def __invert__(self) -> array: ...
    def __ior__(self, other: Any, /) -> Self: ...
    def __ipow__(self, other: Any, /) -> Self: ...  # type: ignore[misc]
    def __irshift__(self, other: Any, /) -> Self: ...
    def __isub__(self, other: Any, /) -> Self: ...
    def __iter__(self) -> Iterator[array]: ...
    def __itruediv__(self, other: Any, /) -> Self: ...
    def __ixor__(self, other: Any, /) -> Self: ...
    def __le__(self, other: Any, /) -> array: ...
    def __len__(self) -> int: ...
    def __lshift__(self, other: Any, /) -> array: ...
    def __lt__(self, other: Any, /) -> array: ...
    def __matmul__(self, other: array | _HasArray, /) -> array: ...
    def __mod__(self, other: Any, /) -> array: ...
    def __mul__(self, other: Any, /) -> array: ...
    def __ne__(self, other: Any, /) -> array: ...  # type: ignore[override]
    def __neg__(self) -> array: ...
    def __or__(self, other: Any, /) -> array: ...
    def __pos__(self) -> array: ...
    def __pow__(self, other: Any, modulo: Any = None, /) -> array: ...
    def __radd__(self, other: Any, /) -> array: ...
    def __rand__(self, other: Any, /) -> array: ...
    def __rdiv__(self, other: Any, /) -> array: ...
    def __reduce__(self, /) -> tuple[Any, ...]: ...
    def __repr__(self) -> str: ...
    def __reversed__(self, /) -> array: ...
    def __rfloordiv__(self, other: Any, /) -> array: ...
    def __rlshift__(self, other: Any, /) -> array: ...
    def __rmatmul__(self, other: Any, /) -> array: ...
    def __rmod__(self, other: Any, /) -> array: ...
    def __rmul__(self, other: Any, /) -> array: ...
    def __ror__(self, other: Any, /) -> array: ...
    def __rpow__(self, other: Any, modulo: Any = None, /) -> array: ...
    def __rrshift__(self, other: Any, /) -> array: ...
    def __rshift__(self, other: Any, /) -> array: ...
    def __rsub__(self, other: Any, /) -> array: ...
    def __rtruediv__(self, other: Any, /) -> array: ...
    def __rxor__(self, other: Any, /) -> array: ...
    def __setitem__(self, index: Any, value: Any, /) -> None: ...
    def __setstate__(self, /, state: tuple[Any, ...]) -> None: ...
    def __sub__(self, other: Any, /) -> array: ...
    def __truediv__(self, other: Any, /) -> array: ...
    def __xor__(self, other: Any, /) -> array: ...
    def abs(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """Absolute value of each element.

        Returns:
            array: As `mlx.core.abs` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.abs(), mx.abs(a))
        array(True, dtype=bool)
        """
    def all(self, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
        """Whether all elements over one axis, several, or all are true.

        Args:
            axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
                takes all. Default: None.
            keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.

        Returns:
            array: As `mlx.core.all` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.all(), mx.all(a))
        array(True, dtype=bool)
        """
    def any(self, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
        """Whether at least one element over one axis, several, or all is true.

        Args:
            axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
                takes all. Default: None.
            keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.

        Returns:
            array: As `mlx.core.any` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.any(), mx.any(a))
        array(True, dtype=bool)
        """
    def argmax(self, /, axis: int | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
        """Index of the largest element along an axis or in the flattened array.

        Args:
            axis (int, optional): Axis to search along; a negative one counts from the last. None searches the
                flattened array. Default: None.
            keepdims (bool, optional): Whether the axis stays, with length 1. Default: False.

        Returns:
            array: As `mlx.core.argmax` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.argmax(), mx.argmax(a))
        array(True, dtype=bool)
        """
    def argmin(self, /, axis: int | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
        """Index of the smallest element along an axis or in the flattened array.

        Args:
            axis (int, optional): Axis to search along; a negative one counts from the last. None searches the
                flattened array. Default: None.
            keepdims (bool, optional): Whether the axis stays, with length 1. Default: False.

        Returns:
            array: As `mlx.core.argmin` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.argmin(), mx.argmin(a))
        array(True, dtype=bool)
        """
    def astype(self, /, dtype: Dtype, stream: _StreamOrDevice = ...) -> array:
        """This array converted to another dtype.

        Args:
            dtype (Dtype): Dtype of the result.

        Returns:
            array: Of this shape; rules of conversion are those of `mlx.core.astype`.

        Raises:
            TypeError: if `dtype` is no dtype.

        >>> mx.array([1.7, -1.7]).astype(mx.int32)
        array([1, -1], dtype=int32)
        """
    @property
    def at(self) -> ArrayAt:
        """Updates of selected elements that give a new array: `a.at[index].add(value)`. Unlike `a[index] +=
        value`, an element that is named several times takes all updates. See `mlx.core.ArrayAt`.

        >>> mx.zeros(3).at[mx.array([1, 1, 2])].add(2)
        array([0, 4, 2], dtype=float32)
        """
    def conj(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """Complex conjugate of each element.

        Returns:
            array: As `mlx.core.conj` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.conj(), mx.conj(a))
        array(True, dtype=bool)
        """
    def cos(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """Cosine of each element.

        Returns:
            array: As `mlx.core.cos` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.cos(), mx.cos(a))
        array(True, dtype=bool)
        """
    def cummax(self, /, axis: int | None = ..., *, reverse: bool = ..., inclusive: bool = ..., stream: _StreamOrDevice = ...) -> array:
        """Running maximum along an axis or over the flattened array.

        Args:
            axis (int, optional): Axis to run along; a negative one counts from the last. None runs over the
                flattened array. Default: None.
            reverse (bool, optional): Whether to run from the end to the start. Default: False.
            inclusive (bool, optional): Whether the i-th result takes in the i-th element. Without, results are
                shifted by one and the first one is that of no elements. Default: True.

        Returns:
            array: As `mlx.core.cummax` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.cummax(), mx.cummax(a))
        array(True, dtype=bool)
        """
    def cummin(self, /, axis: int | None = ..., *, reverse: bool = ..., inclusive: bool = ..., stream: _StreamOrDevice = ...) -> array:
        """Running minimum along an axis or over the flattened array.

        Args:
            axis (int, optional): Axis to run along; a negative one counts from the last. None runs over the
                flattened array. Default: None.
            reverse (bool, optional): Whether to run from the end to the start. Default: False.
            inclusive (bool, optional): Whether the i-th result takes in the i-th element. Without, results are
                shifted by one and the first one is that of no elements. Default: True.

        Returns:
            array: As `mlx.core.cummin` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.cummin(), mx.cummin(a))
        array(True, dtype=bool)
        """
    def cumprod(self, /, axis: int | None = ..., *, reverse: bool = ..., inclusive: bool = ..., stream: _StreamOrDevice = ...) -> array:
        """Running product along an axis or over the flattened array.

        Args:
            axis (int, optional): Axis to run along; a negative one counts from the last. None runs over the
                flattened array. Default: None.
            reverse (bool, optional): Whether to run from the end to the start. Default: False.
            inclusive (bool, optional): Whether the i-th result takes in the i-th element. Without, results are
                shifted by one and the first one is that of no elements. Default: True.

        Returns:
            array: As `mlx.core.cumprod` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.cumprod(), mx.cumprod(a))
        array(True, dtype=bool)
        """
    def cumsum(self, /, axis: int | None = ..., *, reverse: bool = ..., inclusive: bool = ..., stream: _StreamOrDevice = ...) -> array:
        """Running sum along an axis or over the flattened array.

        Args:
            axis (int, optional): Axis to run along; a negative one counts from the last. None runs over the
                flattened array. Default: None.
            reverse (bool, optional): Whether to run from the end to the start. Default: False.
            inclusive (bool, optional): Whether the i-th result takes in the i-th element. Without, results are
                shifted by one and the first one is that of no elements. Default: True.

        Returns:
            array: As `mlx.core.cumsum` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.cumsum(), mx.cumsum(a))
        array(True, dtype=bool)
        """
    def diag(self, /, k: int = ..., *, stream: _StreamOrDevice = ...) -> array:
        """A diagonal of this matrix, or the matrix that has this vector on its diagonal.

        Args:
            k (int, optional): Which diagonal: 0 the main one, positive ones above it, negative ones below.
                Default: 0.

        Returns:
            array: As `mlx.core.diag` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.diag(), mx.diag(a))
        array(True, dtype=bool)
        """
    def diagonal(self, /, offset: int = ..., axis1: int = ..., axis2: int = ..., stream: _StreamOrDevice = ...) -> array:
        """Diagonals of the matrices over two axes.

        Args:
            offset (int, optional): Which diagonal: 0 the main one, positive ones above it, negative ones
                below. Default: 0.
            axis1 (int, optional): Axis of the rows; a negative one counts from the last. Default: 0.
            axis2 (int, optional): Axis of the columns. Default: 1.

        Returns:
            array: As `mlx.core.diagonal` gives it, whose documentation tells about layouts and errors.

        >>> a = mx.array([[0, 1, 2], [3, 4, 5]])
        >>> a.diagonal().tolist() == np.array(a).diagonal().tolist()
        True
        """
    @property
    def dtype(self) -> Dtype:
        """Type of the elements.

        >>> mx.zeros(2).dtype
        mlx.core.float32
        """
    def exp(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """Exponential of each element.

        Returns:
            array: As `mlx.core.exp` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.exp(), mx.exp(a))
        array(True, dtype=bool)
        """
    def flatten(self, /, start_axis: int = ..., end_axis: int = ..., *, stream: _StreamOrDevice = ...) -> array:
        """Joins neighbouring axes into one, in row-major order.

        Args:
            start_axis (int, optional): First axis to join; a negative one counts from the last. Default: 0.
            end_axis (int, optional): Last axis to join, itself included. Default: -1.

        Returns:
            array: As `mlx.core.flatten` gives it, whose documentation tells about layouts and errors.

        >>> a = mx.array([[0, 1, 2], [3, 4, 5]])
        >>> a.flatten().tolist() == np.array(a).flatten().tolist()
        True
        """
    @property
    def imag(self) -> array:
        """Imaginary part of each element, float32 for complex64; zeros for other dtypes.

        >>> mx.array([1 + 2j]).imag
        array([2], dtype=float32)
        """
    def item(self, /) -> Any:
        """The only element as a Python number.

        Waits until the array is computed.

        Returns:
            bool | int | float | complex: The element, whatever the number of axes.

        Raises:
            ValueError: if there is not exactly one element.

        >>> mx.array([[2.5]]).item()
        2.5
        """
    @property
    def itemsize(self) -> int:
        """Bytes of one element; bool takes one.

        >>> mx.zeros(2).itemsize
        4
        """
    def log(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """Natural logarithm of each element.

        Returns:
            array: As `mlx.core.log` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.log(), mx.log(a))
        array(True, dtype=bool)
        """
    def log10(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """Logarithm of each element to the base of ten.

        Returns:
            array: As `mlx.core.log10` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.log10(), mx.log10(a))
        array(True, dtype=bool)
        """
    def log1p(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """Natural logarithm of one plus each element.

        Returns:
            array: As `mlx.core.log1p` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.log1p(), mx.log1p(a))
        array(True, dtype=bool)
        """
    def log2(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """Logarithm of each element to the base of two.

        Returns:
            array: As `mlx.core.log2` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.log2(), mx.log2(a))
        array(True, dtype=bool)
        """
    def logcumsumexp(self, /, axis: int | None = ..., *, reverse: bool = ..., inclusive: bool = ..., stream: _StreamOrDevice = ...) -> array:
        """Running logarithm of the sum of exponentials along an axis or over the flattened array.

        Args:
            axis (int, optional): Axis to run along; a negative one counts from the last. None runs over the
                flattened array. Default: None.
            reverse (bool, optional): Whether to run from the end to the start. Default: False.
            inclusive (bool, optional): Whether the i-th result takes in the i-th element. Without, results are
                shifted by one and the first one is that of no elements. Default: True.

        Returns:
            array: As `mlx.core.logcumsumexp` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.logcumsumexp(), mx.logcumsumexp(a))
        array(True, dtype=bool)
        """
    def logsumexp(self, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
        """Logarithm of the sum of exponentials over one axis, several, or all.

        Args:
            axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
                takes all. Default: None.
            keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.

        Returns:
            array: As `mlx.core.logsumexp` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.logsumexp(), mx.logsumexp(a))
        array(True, dtype=bool)
        """
    @property
    def mT(self) -> array:
        """The array with its last two axes swapped, as `mlx.core.matrix_transpose` gives it; no data is copied.

        >>> mx.zeros((2, 3, 4)).mT.shape
        (2, 4, 3)
        """
    def max(self, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
        """Largest element over one axis, several, or all.

        Args:
            axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
                takes all. Default: None.
            keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.

        Returns:
            array: As `mlx.core.max` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.max(), mx.max(a))
        array(True, dtype=bool)
        """
    def mean(self, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
        """Arithmetic mean of the elements over one axis, several, or all.

        Args:
            axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
                takes all. Default: None.
            keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.

        Returns:
            array: As `mlx.core.mean` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.mean(), mx.mean(a))
        array(True, dtype=bool)
        """
    def min(self, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
        """Smallest element over one axis, several, or all.

        Args:
            axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
                takes all. Default: None.
            keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.

        Returns:
            array: As `mlx.core.min` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.min(), mx.min(a))
        array(True, dtype=bool)
        """
    def moveaxis(self, /, source: int, destination: int, *, stream: _StreamOrDevice = ...) -> array:
        """This array with one axis moved to another place; the others keep their order.

        Args:
            source (int): Axis to move; a negative one counts from the last.
            destination (int): Its place in the result; a negative one counts from the last.

        Returns:
            array: As `mlx.core.moveaxis` gives it, whose documentation tells about layouts and errors.

        >>> mx.zeros((2, 3, 4)).moveaxis(0, 2).shape
        (3, 4, 2)
        """
    @property
    def nbytes(self) -> int:
        """Bytes of all elements: `size * itemsize`, whether or not they are computed yet.

        >>> mx.zeros((2, 3)).nbytes
        24
        """
    @property
    def ndim(self) -> int:
        """Number of axes.

        >>> mx.zeros((2, 3)).ndim
        2
        """
    def prod(self, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
        """Product of the elements over one axis, several, or all.

        Args:
            axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
                takes all. Default: None.
            keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.

        Returns:
            array: As `mlx.core.prod` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.prod(), mx.prod(a))
        array(True, dtype=bool)
        """
    @property
    def real(self) -> array:
        """Real part of each element, float32 for complex64; other dtypes are returned unchanged.

        >>> mx.array([1 + 2j]).real
        array([1], dtype=float32)
        """
    def reciprocal(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """One over each element.

        Returns:
            array: As `mlx.core.reciprocal` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.reciprocal(), mx.reciprocal(a))
        array(True, dtype=bool)
        """
    def reshape(self, /, *shape: Any, stream: _StreamOrDevice = ...) -> array:
        """The elements in row-major order in another shape.

        Args:
            shape (int | Sequence[int]): Lengths of the new axes, one by one or as one sequence. One of them
                may be -1 and is then inferred from the others.

        Returns:
            array: As `mlx.core.reshape` gives it, whose documentation tells about layouts and errors.

        >>> a = mx.array([[0, 1, 2], [3, 4, 5]])
        >>> a.reshape(3, -1).tolist() == np.array(a).reshape(3, -1).tolist()
        True
        """
    def round(self, /, decimals: int = ..., *, stream: _StreamOrDevice = ...) -> array:
        """Each element rounded to a number of digits.

        Args:
            decimals (int, optional): Digits after the point; negative ones are before it. Default: 0.

        Returns:
            array: As `mlx.core.round` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.round(), mx.round(a))
        array(True, dtype=bool)
        """
    def rsqrt(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """One over the square root of each element.

        Returns:
            array: As `mlx.core.rsqrt` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.rsqrt(), mx.rsqrt(a))
        array(True, dtype=bool)
        """
    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes as a tuple of ints; an array without axes has the shape ().

        >>> mx.zeros((2, 3)).shape
        (2, 3)
        """
    def sin(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """Sine of each element.

        Returns:
            array: As `mlx.core.sin` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.sin(), mx.sin(a))
        array(True, dtype=bool)
        """
    @property
    def size(self) -> int:
        """Number of elements: the product of the lengths of the axes.

        >>> mx.zeros((2, 3)).size
        6
        """
    def split(self, /, indices_or_sections: int | Sequence[int], axis: int = ..., *, stream: _StreamOrDevice = ...) -> list[array]:
        """Cuts this array into parts along an axis.

        Args:
            indices_or_sections (int | Sequence[int]): How many equal parts, or the positions at which to cut.
            axis (int, optional): Axis to cut; a negative one counts from the last. Default: 0.

        Returns:
            list[array]: As `mlx.core.split` gives them, whose documentation tells about errors.

        >>> mx.arange(4).split(2)
        [array([0, 1], dtype=int32), array([2, 3], dtype=int32)]
        """
    def sqrt(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """Square root of each element.

        Returns:
            array: As `mlx.core.sqrt` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.sqrt(), mx.sqrt(a))
        array(True, dtype=bool)
        """
    def square(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """Each element times itself.

        Returns:
            array: As `mlx.core.square` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.square(), mx.square(a))
        array(True, dtype=bool)
        """
    def squeeze(self, /, axis: int | Sequence[int] | None = ..., *, stream: _StreamOrDevice = ...) -> array:
        """This array without axes of length one.

        Args:
            axis (int | Sequence[int], optional): Axes to remove, each of length one; negative ones count from
                the last. Default: None, all axes of length one.

        Returns:
            array: As `mlx.core.squeeze` gives it, whose documentation tells about layouts and errors.

        >>> a = mx.array([[0, 1, 2], [3, 4, 5]])
        >>> a.squeeze().tolist() == np.array(a).squeeze().tolist()
        True
        """
    def std(self, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., ddof: int = ..., *, correction: int | None = ..., stream: _StreamOrDevice = ...) -> array:
        """Standard deviation of the elements over one axis, several, or all.

        Args:
            axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
                takes all. Default: None.
            keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.
            ddof (int, optional): What the divisor is less than the number of elements. Default: 0.
            correction (int, optional): The array API's name of `ddof`, over which it wins. Default: None.

        Returns:
            array: As `mlx.core.std` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.std(), mx.std(a))
        array(True, dtype=bool)
        """
    def sum(self, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
        """Sum of the elements over one axis, several, or all.

        Args:
            axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
                takes all. Default: None.
            keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.

        Returns:
            array: As `mlx.core.sum` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.sum(), mx.sum(a))
        array(True, dtype=bool)
        """
    def swapaxes(self, /, axis1: int, axis2: int, *, stream: _StreamOrDevice = ...) -> array:
        """This array with two axes swapped.

        Args:
            axis1 (int): One axis; a negative one counts from the last.
            axis2 (int): The other axis.

        Returns:
            array: As `mlx.core.swapaxes` gives it, whose documentation tells about layouts and errors.

        >>> a = mx.array([[0, 1, 2], [3, 4, 5]])
        >>> a.swapaxes(0, 1).tolist() == np.array(a).swapaxes(0, 1).tolist()
        True
        """
    def tolist(self, /) -> Any:
        """The elements as nested lists of Python numbers.

        Waits until the array is computed. 16-bit floats come as the Python floats of their value.

        Returns:
            list | bool | int | float | complex: As many levels of lists as axes; a number for an array
                without axes.

        Raises:
            ValueError: if an array without elements is more than 2**22 lists.

        >>> mx.array([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
    def transpose(self, /, *axes: Any, stream: _StreamOrDevice = ...) -> array:
        """This array with its axes in another order.

        Args:
            axes (int | Sequence[int]): Every axis once in the new order, one by one or as one sequence.
                Default: none, the reverse order.

        Returns:
            array: As `mlx.core.transpose` gives it, whose documentation tells about layouts and errors.

        >>> a = mx.array([[0, 1, 2], [3, 4, 5]])
        >>> a.transpose().tolist() == np.array(a).transpose().tolist()
        True
        """
    def var(self, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., ddof: int = ..., *, correction: int | None = ..., stream: _StreamOrDevice = ...) -> array:
        """Variance of the elements over one axis, several, or all.

        Args:
            axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
                takes all. Default: None.
            keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.
            ddof (int, optional): What the divisor is less than the number of elements. Default: 0.
            correction (int, optional): The array API's name of `ddof`, over which it wins. Default: None.

        Returns:
            array: As `mlx.core.var` gives it, whose documentation tells about dtypes, special values and
                errors.

        >>> a = mx.array([0.5, 2.0, 1.0])
        >>> mx.array_equal(a.var(), mx.var(a))
        array(True, dtype=bool)
        """
    def view(self, /, dtype: Dtype, *, stream: _StreamOrDevice = ...) -> array:
        """The bytes of this array seen as another dtype.

        Args:
            dtype (Dtype): What the bytes are seen as.

        Returns:
            array: Of this shape but for the last axis, which changes with the size of the elements.

        Raises:
            ValueError: if the bytes of the last axis are no multiple of the new element.

        >>> mx.array([1.0]).view(mx.int32)
        array([1065353216], dtype=int32)
        """
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...
        def __release_buffer__(self, buffer: memoryview, /) -> None: ...

@final
class custom_function:
    """A function whose derivatives and vectorised form are given by the user.

    Rules are set by the decorators `vjp`, `jvp` and `vmap` of the object. Where one is missing, that of the
    function's operations is used.

    Args:
        f (Callable): A function of trees of arrays that returns an array or a tree of arrays.

    Raises:
        TypeError: if it cannot be called.

    >>> @mx.custom_function
    ... def f(x):
    ...     return mx.sin(x)
    >>> @f.vjp
    ... def f_vjp(primals, cotangent, output):
    ...     return 10 * cotangent
    >>> mx.grad(f)(mx.array(1.0))
    array(10, dtype=float32)
    """
    def __new__(cls, f: Any) -> Self: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def jvp(self, /, f: Any) -> tuple[list[array], list[array]]:
        """Sets the rule of forward mode; a decorator.

        Args:
            f (Callable): Takes (primals, tangents) and returns the tangents of the outputs.

        Returns:
            custom_function: The object itself.

        >>> f = mx.custom_function(lambda x: x)
        >>> f.jvp(lambda primals, tangents: tangents) is f
        True
        """
    def vjp(self, /, f: Any) -> tuple[list[array], list[array]]:
        """Sets the rule of reverse mode; a decorator.

        Args:
            f (Callable): Takes (primals, cotangents, outputs) and returns the cotangents of the primals, in
                their form: an array for one argument, a tuple for several.

        Returns:
            custom_function: The object itself.

        >>> f = mx.custom_function(lambda x: x)
        >>> f.vjp(lambda primals, cotangent, output: 3 * cotangent) is f
        True
        """
    def vmap(self, /, f: Any) -> array:
        """Sets the vectorised form; a decorator.

        Args:
            f (Callable): Takes (inputs, axes), where an axis is None for what is not mapped, and returns the
                outputs and their axes.

        Returns:
            custom_function: The object itself.

        >>> f = mx.custom_function(lambda x: x)
        >>> f.vmap(lambda inputs, axes: (inputs, axes)) is f
        True
        """

@final
class finfo:
    """Limits of a floating or complex dtype; those of complex64 are float32's.

    Args:
        arg (Dtype): The dtype.

    Raises:
        ValueError: if the dtype is an integer one or bool.

    >>> mx.finfo(mx.float16).max
    65504.0
    """
    def __new__(cls, arg: Dtype, /) -> Self: ...
    def __repr__(self) -> str: ...
    @property
    def bits(self) -> int:
        """Bits of one element."""
    @property
    def dtype(self) -> Dtype:
        """The real dtype that is described."""
    @property
    def eps(self) -> float:
        """Distance from 1.0 to the next number."""
    @property
    def max(self) -> float:
        """The largest finite number."""
    @property
    def min(self) -> float:
        """The lowest finite number."""
    @property
    def smallest_normal(self) -> float:
        """The smallest positive number of full precision."""

@final
class iinfo:
    """Limits of an integer dtype.

    Args:
        arg (Dtype): The dtype.

    Raises:
        ValueError: if the dtype is no integer one.

    >>> mx.iinfo(mx.int8).max
    127
    """
    def __new__(cls, arg: Dtype, /) -> Self: ...
    def __repr__(self) -> str: ...
    @property
    def dtype(self) -> Dtype:
        """The dtype that is described."""
    @property
    def max(self) -> int:
        """The largest value."""
    @property
    def min(self) -> int:
        """The smallest value."""

def abs(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Absolute value of each element.

    That of a complex number is its magnitude, `sqrt(re^2 + im^2)`, computed so that the squares do not
    overflow. The lowest value of a signed integer dtype has no positive counterpart and stays as it is.

    Derivative: `sign(a)`.

    Args:
        a (array | number): Elements of any shape: every dtype.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            complex64.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.abs(mx.array([-1.5, 2.0]))
    array([1.5, 2], dtype=float32)
    """

def acos(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse cosine of each element, in [0, pi].

    Real numbers outside [-1, 1] give NaN. Another name of `arccos`.

    Derivative: `-rsqrt(1 - a * a)`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.arccos(mx.array([1.0]))
    array([0], dtype=float32)
    """

def acosh(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse hyperbolic cosine of each element, `log(a + sqrt(a * a - 1))`.

    Real numbers below 1 give NaN; the result is not negative and does not overflow for large elements.
    Another name of `arccosh`.

    Derivative: `rsqrt(a * a - 1)`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.arccosh(mx.array([1.0]))
    array([0], dtype=float32)
    """

def add(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Sum of two arrays, element by element.

    Integers wrap around where the sum does not fit; for bool it is the logical or. The operator `+` of
    arrays.

    Derivatives: `1` by `a`, `1` by `b`.

    Args:
        a (array | number): The first operand: every dtype. A Python number adapts to the dtype of the
            other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is the promoted dtype of both
            (see `result_type`).

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.

    >>> mx.add(mx.array([1, 2]), mx.array([3, 4]))
    array([4, 6], dtype=int32)
    """

def addmm(c: array, a: array, b: array, /, alpha: float = ..., beta: float = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Matrix product plus an array: `alpha * (a @ b) + beta * c`, in one step.

    Shapes are those of `matmul`.

    Args:
        c (array): What is added; it broadcasts to the product.
        a (array): Left operand of the product.
        b (array): Right operand of the product.
        alpha (float, optional): Factor on the product. Default: 1.0.
        beta (float, optional): Factor on `c`. Default: 1.0.

    Returns:
        array: Of the shape of the product, in the promoted dtype of all three.

    Raises:
        ValueError: if the shapes do not fit or the promoted dtype is neither floating nor complex.

    >>> mx.addmm(mx.array([1.0, 2.0]), mx.ones((1, 3)), mx.ones((3, 2)))
    array([[4, 5]], dtype=float32)
    """

def all(a: array, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Whether all elements over one axis, several, or all are true.

    What is not zero counts as true, NaN included. Of no elements all are true.

    Args:
        a (array): What is reduced, of any shape.
        axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
            takes all. Default: None.
        keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.

    Returns:
        array: bool, in the shape of `a` without the reduced axes.

    Raises:
        IndexError: if an axis is out of range.
        ValueError: if an axis is named twice.

    >>> mx.all(mx.array([[True, False], [True, True]]), axis=1)
    array([False, True], dtype=bool)
    """

def allclose(a: array, b: array, /, rtol: float = ..., atol: float = ..., *, equal_nan: bool = ..., stream: _StreamOrDevice = ...) -> array:
    """Whether all elements of two arrays are close to each other, as `isclose` has it.

    The test of an element is `abs(a - b) <= atol + rtol * abs(b)`; infinities are close to infinities of
    their sign.

    Args:
        a (array): Elements to test.
        b (array): Elements to compare with; their shape broadcasts with that of `a`.
        rtol (float, optional): Relative tolerance. Default: 1e-5.
        atol (float, optional): Absolute tolerance. Default: 1e-8.
        equal_nan (bool, optional): Whether NaN is close to NaN. Default: False.

    Returns:
        array: bool without axes.

    Raises:
        ValueError: if the shapes do not broadcast.

    >>> mx.allclose(mx.array([1.0, 2.0]), mx.array([1.0, 2.0000001]))
    array(True, dtype=bool)
    """

def any(a: array, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Whether at least one element over one axis, several, or all is true.

    What is not zero counts as true, NaN included. Of no elements none is true.

    Args:
        a (array): What is reduced, of any shape.
        axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
            takes all. Default: None.
        keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.

    Returns:
        array: bool, in the shape of `a` without the reduced axes.

    Raises:
        IndexError: if an axis is out of range.
        ValueError: if an axis is named twice.

    >>> mx.any(mx.array([[True, False], [False, False]]), axis=1)
    array([True, False], dtype=bool)
    """

def arange(start: int | float | None = ..., stop: int | float | None = ..., step: int | float | None = ..., dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Evenly spaced numbers from a start up to but without a stop.

    Called with one number, that is `stop`. Element i is `start + i * step`. For a given number of elements,
    or with the end included, see `linspace`.

    Args:
        start (int | float, optional): First element. Default: 0.
        stop (int | float, optional): Where the numbers end; it is not among them.
        step (int | float, optional): Distance of neighbours, which may be negative. Default: 1.
        dtype (Dtype, optional): Dtype of the elements. Default: int32, int64 where an integer needs it,
            float32 where a number is a float.

    Returns:
        array: Of shape (n,) with `n = ceil((stop - start) / step)`, 0 where that is negative.

    Raises:
        ValueError: if the step is zero, the length cannot be computed (NaN or an infinity), or the dtype is
            bool.
        TypeError: if there is no stop.

    >>> mx.arange(5)
    array([0, 1, 2, 3, 4], dtype=int32)
    >>> mx.arange(1, 2, 0.5)
    array([1, 1.5], dtype=float32)
    """

def arccos(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse cosine of each element, in [0, pi].

    Real numbers outside [-1, 1] give NaN. Also called `acos`.

    Derivative: `-rsqrt(1 - a * a)`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.arccos(mx.array([1.0]))
    array([0], dtype=float32)
    """

def arccosh(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse hyperbolic cosine of each element, `log(a + sqrt(a * a - 1))`.

    Real numbers below 1 give NaN; the result is not negative and does not overflow for large elements.
    Also called `acosh`.

    Derivative: `rsqrt(a * a - 1)`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.arccosh(mx.array([1.0]))
    array([0], dtype=float32)
    """

def arcsin(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse sine of each element, in [-pi/2, pi/2].

    Real numbers outside [-1, 1] give NaN. Also called `asin`.

    Derivative: `rsqrt(1 - a * a)`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.arcsin(mx.array([0.0]))
    array([0], dtype=float32)
    """

def arcsinh(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse hyperbolic sine of each element, `log(a + sqrt(a * a + 1))`.

    The result keeps its precision near zero and does not overflow for large elements; infinities stay
    themselves. Also called `asinh`.

    Derivative: `rsqrt(a * a + 1)`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.arcsinh(mx.array([0.0]))
    array([0], dtype=float32)
    """

def arctan(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse tangent of each element, in [-pi/2, pi/2].

    The ends belong to the infinities. For the angle of a point in the plane see `arctan2`. Also called
    `atan`.

    Derivative: `1 / (1 + a * a)`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.arctan(mx.array([0.0]))
    array([0], dtype=float32)
    """

def arctan2(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Angle of the point with the coordinates `b` (horizontal) and `a` (vertical), in [-pi, pi].

    The signs of both operands choose the quadrant, those of zeros included. Also called `atan2`.

    Derivatives: `b / (a * a + b * b)` by `a`, `-(a / (a * a + b * b))` by `b`.

    Args:
        a (array | number): The first operand: every dtype but complex64, integers and bool in float32.
            A Python number adapts to the dtype of the other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is the promoted dtype of both
            (see `result_type`), or float32 for integers and bool.

    Raises:
        ValueError: if an operand is neither an array nor a number, an operand is complex or the shapes
            do not broadcast.

    >>> mx.arctan2(mx.array([0.0]), mx.array([1.0]))
    array([0], dtype=float32)
    """

def arctanh(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse hyperbolic tangent of each element, `log((1 + a) / (1 - a)) / 2`.

    The ends -1 and 1 give infinities, real numbers beyond them NaN. Also called `atanh`.

    Derivative: `1 / (1 - a * a)`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.arctanh(mx.array([0.0]))
    array([0], dtype=float32)
    """

def argmax(a: array, /, axis: int | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Index of the largest element along an axis or in the flattened array.

    Of equal elements the first one counts. NaN counts as larger than every number, so that the first NaN is
    found. No gradient flows through indices.

    Args:
        a (array): What is searched, of any shape.
        axis (int, optional): Axis to search along; a negative one counts from the last. None searches the
            flattened array. Default: None.
        keepdims (bool, optional): Whether the axis stays, with length 1. Default: False.

    Returns:
        array: uint32, in the shape of `a` without the axis.

    Raises:
        IndexError: if the axis is out of range.
        ValueError: if there are no elements to choose from.

    >>> mx.argmax(mx.array([[3, 1, 2], [4, 6, 5]]), axis=1)
    array([0, 1], dtype=uint32)
    """

def argmin(a: array, /, axis: int | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Index of the smallest element along an axis or in the flattened array.

    Of equal elements the first one counts. NaN counts as smaller than every number, so that the first NaN is
    found. No gradient flows through indices.

    Args:
        a (array): What is searched, of any shape.
        axis (int, optional): Axis to search along; a negative one counts from the last. None searches the
            flattened array. Default: None.
        keepdims (bool, optional): Whether the axis stays, with length 1. Default: False.

    Returns:
        array: uint32, in the shape of `a` without the axis.

    Raises:
        IndexError: if the axis is out of range.
        ValueError: if there are no elements to choose from.

    >>> mx.argmin(mx.array([[3, 1, 2], [4, 6, 5]]), axis=1)
    array([1, 0], dtype=uint32)
    """

def argpartition(a: array, /, kth: int, axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Indices that rearrange the elements as `partition` does.

    Element number `kth` of the rearranged array is where sorting would put it, with none greater before it
    and none less behind it. No gradient flows through indices.

    Args:
        a (array): What is rearranged, of any shape.
        kth (int): Position of the element that gets its place; a negative one counts from the end of the
            axis.
        axis (int, optional): Axis to rearrange along; a negative one counts from the last. None takes the
            flattened array. Default: -1.

    Returns:
        array: uint32, of the shape of `a`, or of one axis where `axis` is None.

    Raises:
        IndexError: if the axis is out of range.
        ValueError: if `kth` is out of range.

    >>> mx.argpartition(mx.array([2, 1, 3]), 2)[2]
    array(2, dtype=uint32)
    """

def argsort(a: array, /, axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Indices that put the elements into ascending order along an axis.

    Equal elements keep their order; NaN comes last. Use `take_along_axis` to apply the indices to an array.
    No gradient flows through indices.

    Args:
        a (array): What is sorted, of any shape.
        axis (int, optional): Axis to sort along; a negative one counts from the last. None sorts the
            flattened array. Default: -1.

    Returns:
        array: uint32, of the shape of `a`, or of one axis where `axis` is None.

    Raises:
        IndexError: if the axis is out of range.

    >>> mx.argsort(mx.array([3, 1, 2]))
    array([1, 2, 0], dtype=uint32)
    """

def array_equal(a: _ArrayLike, b: _ArrayLike, equal_nan: bool = ..., stream: _StreamOrDevice = ...) -> array:
    """Whether two arrays have the same shape and equal elements.

    Dtypes may differ: elements are promoted first. Nothing broadcasts; arrays of different shapes are not
    equal.

    Args:
        a (array | number): One array.
        b (array | number): The other array.
        equal_nan (bool, optional): Whether NaN equals NaN. Default: False.

    Returns:
        array: bool without axes.

    >>> mx.array_equal(mx.array([1, 2]), mx.array([1.0, 2.0]))
    array(True, dtype=bool)
    >>> mx.array_equal(mx.array([1, 2]), mx.array([1]))
    array(False, dtype=bool)
    """

def as_strided(a: array, /, shape: Sequence[int] | None = ..., strides: Sequence[int] | None = ..., offset: int = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The flattened array seen with a shape and strides of its own.

    Element (i, j, ...) of the result is element `offset + i * strides[0] + j * strides[1] + ...` of the
    flattened array. Elements may appear several times; gradients of such elements are added up.

    Args:
        a (array): Elements, of any shape.
        shape (Sequence[int], optional): Shape of the result. Default: None, that of `a`.
        strides (Sequence[int], optional): Step of each axis in elements. Default: None, row-major order of
            `shape`.
        offset (int, optional): Position of the first element. Default: 0.

    Returns:
        array: Of shape `shape`, in the dtype of `a`.

    Raises:
        ValueError: if there are not as many strides as axes, or a position lies outside the array.

    >>> mx.as_strided(mx.arange(4), (3, 2), (1, 1))
    array([[0, 1],
           [1, 2],
           [2, 3]], dtype=int32)
    """

def asarray(a: Any, dtype: Dtype | None = ..., *, copy: bool | None = ...) -> array:
    """An array from anything that the constructor of `array` takes, without a copy where that is possible.

    An array of the right dtype is returned as it is. Host memory of objects with `__dlpack__`, such as
    NumPy's arrays, is shared where the dtype allows.

    Args:
        a (array | number | Sequence | object): What the array is made of.
        dtype (Dtype, optional): Dtype of the result. Default: that of `a`, as the constructor has it.
        copy (bool, optional): True always copies, False never does, None copies where it must. Default: None.

    Returns:
        array: With the elements of `a`.

    Raises:
        ValueError: if `copy` is False and memory of another library cannot be shared; also for MLX arrays, as in MLX.

    >>> mx.asarray([1, 2])
    array([1, 2], dtype=int32)
    """

def asin(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse sine of each element, in [-pi/2, pi/2].

    Real numbers outside [-1, 1] give NaN. Another name of `arcsin`.

    Derivative: `rsqrt(1 - a * a)`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.arcsin(mx.array([0.0]))
    array([0], dtype=float32)
    """

def asinh(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse hyperbolic sine of each element, `log(a + sqrt(a * a + 1))`.

    The result keeps its precision near zero and does not overflow for large elements; infinities stay
    themselves. Another name of `arcsinh`.

    Derivative: `rsqrt(a * a + 1)`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.arcsinh(mx.array([0.0]))
    array([0], dtype=float32)
    """

def astype(a: array, /, dtype: Dtype, *, stream: _StreamOrDevice = ...) -> array:
    """The array converted to another dtype.

    Floats become integers by dropping their fraction, complex numbers real by dropping their imaginary part,
    and what is not zero becomes True. Wider integers keep their lowest bits. Floats that do not fit an
    integer dtype give unspecified values. Gradients are converted back.

    Args:
        a (array): Elements, of any shape.
        dtype (Dtype): Dtype of the result.

    Returns:
        array: Of the shape of `a`; `a` itself where it has the dtype already.

    >>> mx.astype(mx.array([1.7, -1.7]), mx.int32)
    array([1, -1], dtype=int32)
    """

def async_eval(*args: Any) -> None:
    """Starts to compute arrays and does not wait for them.

    It returns once the work is submitted or, where a graph is large and runs on a GPU, handed to the thread
    that submits it. The results may go into other operations at once; who reads one waits for it. So the next
    step of a loop can be built while this one runs.

    Args:
        args (array | tree): Arrays, or trees (dict, list, tuple) of arrays; other leaves are passed over.

    Returns:
        None

    Raises:
        ValueError: inside a transformed function.

    What goes wrong later is raised once by the next `synchronize` or `eval` on that stream, and whenever a
    result that failed is read.

    >>> x = mx.ones(2) + 1
    >>> mx.async_eval(x)
    >>> x.tolist()
    [2.0, 2.0]
    """

def atan(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse tangent of each element, in [-pi/2, pi/2].

    The ends belong to the infinities. For the angle of a point in the plane see `arctan2`. Another name
    of `arctan`.

    Derivative: `1 / (1 + a * a)`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.arctan(mx.array([0.0]))
    array([0], dtype=float32)
    """

def atan2(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Angle of the point with the coordinates `b` (horizontal) and `a` (vertical), in [-pi, pi].

    The signs of both operands choose the quadrant, those of zeros included. Another name of `arctan2`.

    Derivatives: `b / (a * a + b * b)` by `a`, `-(a / (a * a + b * b))` by `b`.

    Args:
        a (array | number): The first operand: every dtype but complex64, integers and bool in float32.
            A Python number adapts to the dtype of the other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is the promoted dtype of both
            (see `result_type`), or float32 for integers and bool.

    Raises:
        ValueError: if an operand is neither an array nor a number, an operand is complex or the shapes
            do not broadcast.

    >>> mx.arctan2(mx.array([0.0]), mx.array([1.0]))
    array([0], dtype=float32)
    """

def atanh(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse hyperbolic tangent of each element, `log((1 + a) / (1 - a)) / 2`.

    The ends -1 and 1 give infinities, real numbers beyond them NaN. Another name of `arctanh`.

    Derivative: `1 / (1 - a * a)`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.arctanh(mx.array([0.0]))
    array([0], dtype=float32)
    """

def atleast_1d(*arys: array, stream: _StreamOrDevice = ...) -> array | list[array]:
    """Arrays with at least one axis.

    An array without axes becomes one of length 1; all others stay as they are. No data is copied.

    Args:
        arys (array): One array or several.

    Returns:
        array | list[array]: The array if there is one, else a list of all.

    >>> mx.atleast_1d(mx.array(1)).shape
    (1,)
    """

def atleast_2d(*arys: array, stream: _StreamOrDevice = ...) -> array | list[array]:
    """Arrays with at least two axes.

    New axes of length one come in front, so that a vector becomes a row; arrays with two axes or more stay as
    they are. No data is copied.

    Args:
        arys (array): One array or several.

    Returns:
        array | list[array]: The array if there is one, else a list of all.

    >>> mx.atleast_2d(mx.array([1, 2])).shape
    (1, 2)
    """

def atleast_3d(*arys: array, stream: _StreamOrDevice = ...) -> array | list[array]:
    """Arrays with at least three axes.

    A vector (n,) becomes (1, n, 1) and a matrix (m, n) becomes (m, n, 1); arrays with three axes or more stay
    as they are. No data is copied.

    Args:
        arys (array): One array or several.

    Returns:
        array | list[array]: The array if there is one, else a list of all.

    >>> mx.atleast_3d(mx.array([1, 2])).shape
    (1, 2, 1)
    """

def bartlett(M: int, *, stream: _StreamOrDevice = ...) -> array:
    """Bartlett window: a triangle that is zero at both ends.

    Point n is `1 - abs(2 * n / (M - 1) - 1)`. One point alone is 1.

    Args:
        M (int): Number of points; below 1 there are none.

    Returns:
        array: float32, of shape (M,).

    >>> mx.bartlett(5)
    array([0, 0.5, 1, 0.5, 0], dtype=float32)
    """

def bitwise_and(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Bits that are set in both operands, element by element.

    For bool it is the logical and. The operator `&` of arrays.

    Args:
        a (array | number): The first operand: integers or bool. A Python number adapts to the dtype of
            the other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is the promoted dtype of both
            (see `result_type`).

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.
        RuntimeError: if an operand is floating or complex.

    >>> mx.bitwise_and(mx.array([6]), mx.array([3]))
    array([2], dtype=int32)
    """

def bitwise_invert(a: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Every bit of each element inverted.

    For signed integers, which are in two's complement, that is `-a - 1`; bool is negated as by
    `logical_not`. The operator `~` of arrays.

    Args:
        a (array | number): Elements of any shape: integers or bool.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`.

    Raises:
        ValueError: if `a` is neither an array nor a number or `a` is floating or complex.

    >>> mx.bitwise_invert(mx.array([0, 5]))
    array([-1, -6], dtype=int32)
    """

def bitwise_left_shift(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Bits of the first array moved up by the second, zeros coming in below.

    That is a multiplication by a power of two that drops what does not fit. The count should be less
    than the number of bits. The operator `<<` of arrays. Another name of `left_shift`.

    Args:
        a (array | number): The first operand: integers, and bool, which counts as uint8. A Python
            number adapts to the dtype of the other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is the promoted dtype of both
            (see `result_type`), or uint8 for bool.

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.
        RuntimeError: if an operand is floating or complex.

    >>> mx.left_shift(mx.array([1, 3]), mx.array([4, 1]))
    array([16, 6], dtype=int32)
    """

def bitwise_or(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Bits that are set in at least one operand, element by element.

    For bool it is the logical or. The operator `|` of arrays.

    Args:
        a (array | number): The first operand: integers or bool. A Python number adapts to the dtype of
            the other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is the promoted dtype of both
            (see `result_type`).

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.
        RuntimeError: if an operand is floating or complex.

    >>> mx.bitwise_or(mx.array([6]), mx.array([3]))
    array([7], dtype=int32)
    """

def bitwise_right_shift(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Bits of the first array moved down by the second, element by element.

    Signed numbers keep their sign, so that it is a division by a power of two rounded down. The count
    should be less than the number of bits. The operator `>>` of arrays. Another name of `right_shift`.

    Args:
        a (array | number): The first operand: integers, and bool, which counts as uint8. A Python
            number adapts to the dtype of the other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is the promoted dtype of both
            (see `result_type`), or uint8 for bool.

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.
        RuntimeError: if an operand is floating or complex.

    >>> mx.right_shift(mx.array([16, -8]), mx.array([4, 1]))
    array([1, -4], dtype=int32)
    """

def bitwise_xor(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Bits that are set in exactly one operand, element by element.

    For bool it is the exclusive or. The operator `^` of arrays.

    Args:
        a (array | number): The first operand: integers or bool. A Python number adapts to the dtype of
            the other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is the promoted dtype of both
            (see `result_type`).

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.
        RuntimeError: if an operand is floating or complex.

    >>> mx.bitwise_xor(mx.array([6]), mx.array([3]))
    array([5], dtype=int32)
    """

def blackman(M: int, *, stream: _StreamOrDevice = ...) -> array:
    """Blackman window: three cosine terms, zero at both ends, with very low side lobes.

    Point n is `0.42 - 0.5 * cos(2 * pi * n / (M - 1)) + 0.08 * cos(4 * pi * n / (M - 1))`. One point
    alone is 1.

    Args:
        M (int): Number of points; below 1 there are none.

    Returns:
        array: float32, of shape (M,).

    >>> mx.blackman(3)
    array([0, 1, 0], dtype=float32)
    """

def block_masked_mm(a: _ArrayLike, b: _ArrayLike, /, block_size: int = ..., mask_out: Any = ..., mask_lhs: Any = ..., mask_rhs: Any = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Matrix product of operands that are masked block by block, and whose product is masked likewise.

    A mask has one element for each block of `block_size` by `block_size` elements, those at the edges cut
    off, and leading axes that broadcast. A bool mask keeps blocks or makes them zero; any other one scales
    them.

    Args:
        a (array): Matrices, (..., m, k), of a floating dtype.
        b (array): Matrices, (..., k, n).
        block_size (int, optional): Size of a block: 32 or 64. Default: 64.
        mask_out (array, optional): Mask of the product. Default: None, all blocks.
        mask_lhs (array, optional): Mask of `a`. Default: None, all blocks.
        mask_rhs (array, optional): Mask of `b`. Default: None, all blocks.

    Returns:
        array: Products, (..., m, n), in the promoted dtype.

    Raises:
        ValueError: if the shapes of operands or masks do not fit, or the dtype is not floating.

    >>> mask = mx.array([[True], [False]])
    >>> mx.block_masked_mm(mx.ones((64, 8)), mx.ones((8, 1)), 32, mask)[31:33]
    array([[8],
           [0]], dtype=float32)
    """

def broadcast_arrays(*arrays: array, stream: _StreamOrDevice = ...) -> list[array]:
    """Arrays broadcast to their common shape.

    Axes are matched from the last one on; those of length one, and those that an array lacks, are repeated
    without a copy.

    Args:
        arrays (array): Any number of arrays.

    Returns:
        list[array]: The arrays in the common shape, each in its dtype.

    Raises:
        ValueError: if the shapes do not broadcast.

    >>> [a.shape for a in mx.broadcast_arrays(mx.zeros(3), mx.zeros((2, 1)))]
    [(2, 3), (2, 3)]
    """

def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that arrays of the given shapes broadcast to.

    Axes are matched from the last one on. Two lengths fit if they are equal or one of them is 1; missing axes
    count as 1.

    Args:
        shapes (Sequence[int]): Any number of shapes.

    Returns:
        tuple[int, ...]: The common shape.

    Raises:
        ValueError: if the shapes do not broadcast.

    >>> mx.broadcast_shapes((3,), (2, 1))
    (2, 3)
    """

def broadcast_to(a: _ArrayLike, /, shape: int | Sequence[int], *, stream: _StreamOrDevice = ...) -> array:
    """The array repeated along new axes and along axes of length one.

    No data is copied: the repeated elements are the same in memory. Axes are matched from the last one on, as
    in arithmetic.

    Args:
        a (array | number): Elements, of a shape that broadcasts to `shape`.
        shape (int | Sequence[int]): Shape of the result.

    Returns:
        array: Of that shape, in the dtype of `a`.

    Raises:
        ValueError: if the array does not broadcast to the shape.

    >>> mx.broadcast_to(mx.array([1, 2]), (2, 2))
    array([[1, 2],
           [1, 2]], dtype=int32)
    """

def can_cast(from_: array | Dtype, to: Dtype) -> bool:
    """Whether promotion can turn one dtype into another.

    That is whether `result_type` of both is the second one.

    Args:
        from_ (array | Dtype): What would be converted.
        to (Dtype): What it would become.

    Returns:
        bool: Whether it can.

    Raises:
        ValueError: if `from_` is something else.

    >>> mx.can_cast(mx.int8, mx.int16)
    True
    >>> mx.can_cast(mx.float32, mx.int32)
    False
    """

def ceil(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Smallest integer that is not less than each element.

    The result keeps the dtype: floats stay floats, NaN and infinities stay themselves, integers and
    bool are returned unchanged.

    Its derivative counts as zero.

    Args:
        a (array | number): Elements of any shape: every dtype but complex64.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`.

    Raises:
        ValueError: if `a` is neither an array nor a number or `a` is complex.

    >>> mx.ceil(mx.array([1.5, -1.5]))
    array([2, -1], dtype=float32)
    """

def checkpoint(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that computes what another one does, but does not keep its intermediate arrays for the
    gradient.

    The gradient calls `fun` again, which takes time and saves memory. Chen et al. 2016, "Training Deep Nets
    with Sublinear Memory Cost" (arXiv 1604.06174).

    Args:
        fun (Callable): A function of trees of arrays that returns an array or a tree of arrays.

    Returns:
        Callable: Takes the arguments of `fun` and returns what it returns.

    Raises:
        TypeError: if `fun` cannot be called.

    >>> f = mx.checkpoint(lambda x: mx.sin(mx.exp(x)))
    >>> mx.grad(f)(mx.array(0.0))
    array(0.540302, dtype=float32)
    """

def clear_cache() -> None:
    """Gives the memory back that is kept for reuse.

    After it `get_cache_memory` is 0 until arrays are freed again. The driver of a GPU with memory of its own gets it a quarter of a
    second later, what is asked for again until then excepted (MLX_VK_CLEAR_MS).

    Returns:
        None

    >>> mx.clear_cache()
    """

def clear_streams() -> None:
    """Waits for all streams made so far and forgets those of this thread.

    Default streams are made anew when they are used.

    Returns:
        None

    >>> mx.clear_streams()
    """

def clip(a: array, /, a_min: _ArrayLike | None, a_max: _ArrayLike | None, *, stream: _StreamOrDevice = ...) -> array:
    """Each element held between two bounds: `minimum(maximum(a, a_min), a_max)`.

    NaN stays NaN. Where the lower bound is above the upper one, the upper one wins. The gradient flows to
    what was taken: the element or a bound.

    Args:
        a (array): Elements of any shape.
        a_min (array | number | None): Lower bound, which broadcasts with `a`; None for none.
        a_max (array | number | None): Upper bound, which broadcasts with `a`; None for none.

    Returns:
        array: Of the broadcast shape, in the promoted dtype of `a` and the bounds.

    Raises:
        ValueError: if both bounds are None, or the shapes do not broadcast.

    >>> mx.clip(mx.array([1, 5, 9]), 2, 6)
    array([2, 5, 6], dtype=int32)
    """

def compile(fun: Callable[..., Any], inputs: list[Any] | dict[str, Any] | None = ..., outputs: list[Any] | dict[str, Any] | None = ..., shapeless: bool = ...) -> Callable[..., Any]:
    """A function that computes what another one does, from a recording of it.

    The first call for each form of the arguments (tree, shapes, dtypes, constants) runs `fun` and records the
    graph that it builds, which is simplified; elementwise operations are joined into one kernel. Later calls
    compute the recorded graph and do not call `fun`, so that side effects such as printing happen once.
    Arrays that `fun` closes over become constants unless `inputs` names their container.

    Args:
        fun (Callable): A function of trees of arrays and constants (numbers, strings, None) that returns a
            tree of arrays.
        inputs (list | dict, optional): Containers of arrays that `fun` reads besides its arguments, such as a
            model's state. Default: None.
        outputs (list | dict, optional): Containers of arrays that `fun` changes. Default: None.
        shapeless (bool, optional): Whether arrays of other shapes, but as many axes, use the same recording. What
            is made from them follows, gradients and batches too; a number that `fun` reads from a shape stays.
            Default: False.

    Returns:
        Callable: Takes the arguments of `fun` and returns what it returns.

    Raises:
        ValueError: when called, if an argument is something else, `fun` asks for the values of arrays, or an
            array that is an argument is also reached in another way, such as through a closure, while `fun`
            is recorded. With `shapeless` also where `fun` draws random numbers or calls `eye`, whose shapes
            are numbers.

    >>> f = mx.compile(lambda x: mx.exp(-x) + 1)
    >>> f(mx.array([0.0, 0.0]))
    array([2, 2], dtype=float32)
    """

def concat(arrays: Sequence[array], axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Joins arrays along an axis: the array API's name of `concatenate`.

    The arrays are promoted to a common dtype. Their shapes are equal but for that axis, on which the lengths
    add up.

    Args:
        arrays (Sequence[array]): At least one array.
        axis (int, optional): Axis to join along; a negative one counts from the last. None flattens the
            arrays first. Default: 0.

    Returns:
        array: The arrays one after another, in their promoted dtype.

    Raises:
        ValueError: if there are no arrays, or their shapes do not fit.
        IndexError: if the axis is out of range.

    >>> mx.concat([mx.array([1]), mx.array([2, 3])])
    array([1, 2, 3], dtype=int32)
    """

def concatenate(arrays: Sequence[array], axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Joins arrays along an axis.

    The arrays are promoted to a common dtype. Their shapes are equal but for that axis, on which the lengths
    add up.

    Args:
        arrays (Sequence[array]): At least one array.
        axis (int, optional): Axis to join along; a negative one counts from the last. None flattens the
            arrays first. Default: 0.

    Returns:
        array: The arrays one after another, in their promoted dtype.

    Raises:
        ValueError: if there are no arrays, or their shapes do not fit.
        IndexError: if the axis is out of range.

    >>> mx.concatenate([mx.array([1]), mx.array([2, 3])])
    array([1, 2, 3], dtype=int32)
    """

def conj(a: array, *, stream: _StreamOrDevice = ...) -> array:
    """Complex conjugate of each element: the imaginary part changes its sign.

    Elements of every dtype but complex64 are returned unchanged. Another name of `conjugate`.

    Args:
        a (array | number): Elements of any shape: every dtype.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.conjugate(mx.array([1 + 2j]))
    array([1-2j], dtype=complex64)
    """

def conjugate(a: array, *, stream: _StreamOrDevice = ...) -> array:
    """Complex conjugate of each element: the imaginary part changes its sign.

    Elements of every dtype but complex64 are returned unchanged. Also called `conj`.

    Args:
        a (array | number): Elements of any shape: every dtype.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.conjugate(mx.array([1 + 2j]))
    array([1-2j], dtype=complex64)
    """

def contiguous(a: array, /, allow_col_major: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The array with its elements one behind the other in memory.

    Operations take arrays of every layout; this is for those who look at memory, as user-written kernels do.
    An array that lies so already is not copied, unless it is a part of a much larger one (more than 16 KiB larger):
    the rest can be freed then.

    Args:
        a (array): Elements, of any shape and layout.
        allow_col_major (bool, optional): Whether column-major order will do as well as row-major order.
            Default: False.

    Returns:
        array: The same elements, shape and dtype.

    >>> mx.contiguous(mx.zeros((2, 3)).T).shape
    (3, 2)
    """

def conv1d(input: Any, weight: array | None, /, stride: int = ..., padding: int = ..., dilation: int = ..., groups: int = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Convolution over one spatial axis, with zeros around the input.

    As in all of deep learning the kernel is not mirrored (a cross-correlation). The result has `O = (L + 2 *
    padding - dilation * (K - 1) - 1) // stride + 1` positions.

    Args:
        input (array): Signals, (N, L, C_in).
        weight (array): Kernels, (C_out, K, C_in / groups).
        stride (int, optional): Distance of neighbouring results in the input. Default: 1.
        padding (int, optional): Zeros added at both ends; a negative number crops. Default: 0.
        dilation (int, optional): Distance of neighbouring elements of a kernel in the input. Default: 1.
        groups (int, optional): Parts of the channels that are convolved separately. Default: 1.

    Returns:
        array: Of shape (N, O, C_out), in the promoted dtype.

    Raises:
        ValueError: if a shape does not fit, a number is not positive, a kernel is larger than the padded input,
            groups do not divide the channels, or the dtype is not floating.

    >>> mx.conv1d(mx.array([[[1.0], [2.0], [4.0]]]), mx.array([[[1.0], [10.0]]]))
    array([[[21],
            [42]]], dtype=float32)
    """

def conv2d(input: Any, weight: array | None, /, stride: int | Sequence[int] = ..., padding: int | Sequence[int] = ..., dilation: int | Sequence[int] = ..., groups: int = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Convolution over two spatial axes, with zeros around the input.

    As in all of deep learning the kernel is not mirrored (a cross-correlation). Lengths of the result follow
    as for `conv1d`, axis by axis.

    Args:
        input (array): Pictures, (N, H, W, C_in).
        weight (array): Kernels, (C_out, KH, KW, C_in / groups).
        stride (int | Sequence[int], optional): Distance of neighbouring results in the input, one number or one
            for each axis. Default: 1.
        padding (int | Sequence[int], optional): Zeros added at both ends of the axes; negative numbers crop.
            Default: 0.
        dilation (int | Sequence[int], optional): Distance of neighbouring elements of a kernel in the input.
            Default: 1.
        groups (int, optional): Parts of the channels that are convolved separately. Default: 1.

    Returns:
        array: Of shape (N, OH, OW, C_out), in the promoted dtype.

    Raises:
        ValueError: if a shape does not fit, a number is not positive, a kernel is larger than the padded input,
            groups do not divide the channels, or the dtype is not floating.

    >>> mx.conv2d(mx.ones((1, 4, 4, 3)), mx.ones((2, 3, 3, 3)), stride=2, padding=1).shape
    (1, 2, 2, 2)
    """

def conv3d(input: Any, weight: array | None, /, stride: int | Sequence[int] = ..., padding: int | Sequence[int] = ..., dilation: int | Sequence[int] = ..., groups: int = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Convolution over three spatial axes, with zeros around the input.

    As in all of deep learning the kernel is not mirrored (a cross-correlation). Lengths of the result follow
    as for `conv1d`, axis by axis.

    Args:
        input (array): Volumes, (N, D, H, W, C_in).
        weight (array): Kernels, (C_out, KD, KH, KW, C_in / groups).
        stride (int | Sequence[int], optional): Distance of neighbouring results in the input, one number or one
            for each axis. Default: 1.
        padding (int | Sequence[int], optional): Zeros added at both ends of the axes; negative numbers crop.
            Default: 0.
        dilation (int | Sequence[int], optional): Distance of neighbouring elements of a kernel in the input.
            Default: 1.
        groups (int, optional): Parts of the channels that are convolved separately. Default: 1.

    Returns:
        array: Of shape (N, OD, OH, OW, C_out), in the promoted dtype.

    Raises:
        ValueError: if a shape does not fit, a number is not positive, a kernel is larger than the padded input,
            groups do not divide the channels, or the dtype is not floating.

    >>> mx.conv3d(mx.ones((1, 4, 4, 4, 3)), mx.ones((2, 3, 3, 3, 3))).shape
    (1, 2, 2, 2, 2)
    """

def conv_general(input: Any, weight: array | None, /, stride: int | Sequence[int] = ..., padding: int | Sequence[int] | tuple[Sequence[int], Sequence[int]] = ..., kernel_dilation: int | Sequence[int] = ..., input_dilation: int | Sequence[int] = ..., groups: int = ..., flip: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Convolution over one to three spatial axes with every option.

    The others are cases of it: a transposed convolution has an `input_dilation` and a mirrored kernel.

    Args:
        input (array): Elements, (N, ..., C_in).
        weight (array): Kernels, (C_out, ..., C_in / groups), with as many spatial axes.
        stride (int | Sequence[int], optional): Distance of neighbouring results in the input, one number or
            one for each axis. Default: 1.
        padding (int | Sequence[int] | tuple[Sequence[int], Sequence[int]], optional): Zeros around the input:
            one number, one for each axis, or those before and those behind each axis; negative numbers crop.
            Default: 0.
        kernel_dilation (int | Sequence[int], optional): Distance of neighbouring elements of a kernel.
            Default: 1.
        input_dilation (int | Sequence[int], optional): Distance of neighbouring elements of the input, with
            zeros between. Default: 1.
        groups (int, optional): Parts of the channels that are convolved separately. Default: 1.
        flip (bool, optional): Whether kernels are mirrored along all spatial axes. Default: False.

    Returns:
        array: Of shape (N, ..., C_out), in the promoted dtype.

    Raises:
        ValueError: if a shape does not fit, a number is not positive, a kernel is larger than the padded input,
            groups do not divide the channels, or the dtype is not floating.

    >>> mx.conv_general(mx.ones((1, 5, 1)), mx.ones((1, 2, 1)), padding=([0], [1]), input_dilation=2).shape
    (1, 9, 1)
    """

def conv_transpose1d(input: Any, weight: array | None, /, stride: int = ..., padding: int = ..., dilation: int = ..., output_padding: int = ..., groups: int = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Transposed convolution over one spatial axis: what the gradient of `conv1d` is to its input.

    The result has `O = (L - 1) * stride - 2 * padding + dilation * (K - 1) + output_padding + 1` positions.

    Args:
        input (array): Signals, (N, L, C_in).
        weight (array): Kernels, (C_out, K, C_in / groups).
        stride (int, optional): Distance of neighbouring inputs in the result. Default: 1.
        padding (int, optional): Elements cropped from both ends of the result. Default: 0.
        dilation (int, optional): Distance of neighbouring elements of a kernel in the result. Default: 1.
        output_padding (int, optional): Elements added at the end of the result. Default: 0.
        groups (int, optional): Parts of the channels that are convolved separately. Default: 1.

    Returns:
        array: Of shape (N, O, C_out), in the promoted dtype.

    Raises:
        ValueError: if a shape does not fit, a number is not positive, a kernel is larger than the padded input,
            groups do not divide the channels, or the dtype is not floating.

    >>> mx.conv_transpose1d(mx.ones((1, 3, 1)), mx.ones((1, 2, 1)), stride=2).shape
    (1, 6, 1)
    """

def conv_transpose2d(input: Any, weight: array | None, /, stride: int | Sequence[int] = ..., padding: int | Sequence[int] = ..., dilation: int | Sequence[int] = ..., output_padding: int | Sequence[int] = ..., groups: int = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Transposed convolution over two spatial axes: what the gradient of `conv2d` is to its input.

    Lengths of the result follow as for `conv_transpose1d`, axis by axis.

    Args:
        input (array): Pictures, (N, H, W, C_in).
        weight (array): Kernels, (C_out, KH, KW, C_in / groups).
        stride (int | Sequence[int], optional): Distance of neighbouring inputs in the result, one number or one
            for each axis. Default: 1.
        padding (int | Sequence[int], optional): Elements cropped from both ends of the axes of the result.
            Default: 0.
        dilation (int | Sequence[int], optional): Distance of neighbouring elements of a kernel in the result.
            Default: 1.
        output_padding (int | Sequence[int], optional): Elements added at the end of the axes of the result.
            Default: 0.
        groups (int, optional): Parts of the channels that are convolved separately. Default: 1.

    Returns:
        array: Of shape (N, OH, OW, C_out), in the promoted dtype.

    Raises:
        ValueError: if a shape does not fit, a number is not positive, a kernel is larger than the padded input,
            groups do not divide the channels, or the dtype is not floating.

    >>> mx.conv_transpose2d(mx.ones((1, 3, 3, 1)), mx.ones((1, 3, 3, 1)), 2, 1, output_padding=1).shape
    (1, 6, 6, 1)
    """

def conv_transpose3d(input: Any, weight: array | None, /, stride: int | Sequence[int] = ..., padding: int | Sequence[int] = ..., dilation: int | Sequence[int] = ..., output_padding: int | Sequence[int] = ..., groups: int = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Transposed convolution over three spatial axes: what the gradient of `conv3d` is to its input.

    Lengths of the result follow as for `conv_transpose1d`, axis by axis.

    Args:
        input (array): Volumes, (N, D, H, W, C_in).
        weight (array): Kernels, (C_out, KD, KH, KW, C_in / groups).
        stride (int | Sequence[int], optional): Distance of neighbouring inputs in the result, one number or one
            for each axis. Default: 1.
        padding (int | Sequence[int], optional): Elements cropped from both ends of the axes of the result.
            Default: 0.
        dilation (int | Sequence[int], optional): Distance of neighbouring elements of a kernel in the result.
            Default: 1.
        output_padding (int | Sequence[int], optional): Elements added at the end of the axes of the result.
            Default: 0.
        groups (int, optional): Parts of the channels that are convolved separately. Default: 1.

    Returns:
        array: Of shape (N, OD, OH, OW, C_out), in the promoted dtype.

    Raises:
        ValueError: if a shape does not fit, a number is not positive, a kernel is larger than the padded input,
            groups do not divide the channels, or the dtype is not floating.

    >>> mx.conv_transpose3d(mx.ones((1, 2, 2, 2, 1)), mx.ones((1, 2, 2, 2, 1)), stride=2).shape
    (1, 4, 4, 4, 1)
    """

def convolve(a: array, v: array, /, mode: str = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Convolution of two sequences, the shorter of which is mirrored, as in signal processing.

    Result k is `sum(a[j] * v[k - j])`. With lengths n >= m the mode "full" gives all n + m - 1 results,
    "same" the n in the middle and "valid" the n - m + 1 where the sequences overlap wholly.

    Args:
        a (array): One sequence, of one axis.
        v (array): The other sequence.
        mode (str, optional): "full", "same" or "valid". Default: "full".

    Returns:
        array: Of one axis, in the promoted dtype.

    Raises:
        ValueError: if the mode is another one, a sequence is empty or has not one axis.

    >>> mx.convolve(mx.array([1.0, 2.0, 3.0]), mx.array([0.0, 1.0]), mode="same")
    array([0, 1, 2], dtype=float32)
    """

def cos(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Cosine of each element, an angle in radians.

    Large angles are reduced exactly, so that the precision does not depend on them. Infinities give
    NaN.

    Derivative: `-sin(a)`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.cos(mx.array([0.0]))
    array([1], dtype=float32)
    """

def cosh(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Hyperbolic cosine of each element, `(exp(a) + exp(-a)) / 2`.

    The result is at least 1 and overflows to infinity.

    Derivative: `sinh(a)`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.cosh(mx.array([0.0]))
    array([1], dtype=float32)
    """

def count_nonzero(a: array, /, axis: int | None = ..., *, keepdims: bool = ..., stream: _StreamOrDevice = ...) -> array:
    """Number of elements that are not zero over one axis, several, or all.

    NaN is not zero and counts, as do both parts of a complex number: it is zero only where both are. True
    counts as one.

    Args:
        a (array): What is reduced, of any shape.
        axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
            takes all. Default: None.
        keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.

    Returns:
        array: int32, in the shape of `a` without the reduced axes.

    Raises:
        IndexError: if an axis is out of range.
        ValueError: if an axis is named twice.

    >>> mx.count_nonzero(mx.array([[0, 1, 2], [0, 0, 3]]), axis=1)
    array([2, 1], dtype=int32)
    """

def cummax(a: array, /, axis: int | None = ..., *, reverse: bool = ..., inclusive: bool = ..., stream: _StreamOrDevice = ...) -> array:
    """Running maximum along an axis or over the flattened array.

    Element i of the result is the largest of the elements up to i. NaN stays from where it appears. The
    maximum of no elements is minus infinity, or the least value of an integer dtype.

    Args:
        a (array): What is run over, of any shape.
        axis (int, optional): Axis to run along; a negative one counts from the last. None runs over the
            flattened array. Default: None.
        reverse (bool, optional): Whether to run from the end to the start. Default: False.
        inclusive (bool, optional): Whether the i-th result takes in the i-th element. Without, results are
            shifted by one and the first one is that of no elements. Default: True.

    Returns:
        array: Of the shape of `a`, or of one axis where `axis` is None, in the dtype of `a`.

    Raises:
        IndexError: if the axis is out of range.

    >>> mx.cummax(mx.array([1, 3, 2]))
    array([1, 3, 3], dtype=int32)
    """

def cummin(a: array, /, axis: int | None = ..., *, reverse: bool = ..., inclusive: bool = ..., stream: _StreamOrDevice = ...) -> array:
    """Running minimum along an axis or over the flattened array.

    Element i of the result is the smallest of the elements up to i. NaN stays from where it appears. The
    minimum of no elements is infinity, or the greatest value of an integer dtype.

    Args:
        a (array): What is run over, of any shape.
        axis (int, optional): Axis to run along; a negative one counts from the last. None runs over the
            flattened array. Default: None.
        reverse (bool, optional): Whether to run from the end to the start. Default: False.
        inclusive (bool, optional): Whether the i-th result takes in the i-th element. Without, results are
            shifted by one and the first one is that of no elements. Default: True.

    Returns:
        array: Of the shape of `a`, or of one axis where `axis` is None, in the dtype of `a`.

    Raises:
        IndexError: if the axis is out of range.

    >>> mx.cummin(mx.array([3, 1, 2]))
    array([3, 1, 1], dtype=int32)
    """

def cumprod(a: array, /, axis: int | None = ..., *, reverse: bool = ..., inclusive: bool = ..., dtype: Dtype | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Running product along an axis or over the flattened array.

    Element i of the result is the product of the elements up to i. Integers wrap around in their own
    dtype; for bool it is the logical and. NaN stays from where it appears.

    Args:
        a (array): What is run over, of any shape.
        axis (int, optional): Axis to run along; a negative one counts from the last. None runs over the
            flattened array. Default: None.
        reverse (bool, optional): Whether to run from the end to the start. Default: False.
        inclusive (bool, optional): Whether the i-th result takes in the i-th element. Without, results are
            shifted by one and the first one is that of no elements. Default: True.
        dtype (Dtype, optional): Dtype that the elements are converted to first. Default: that of `a`.

    Returns:
        array: Of the shape of `a`, or of one axis where `axis` is None; the dtype is that of the
            products.

    Raises:
        IndexError: if the axis is out of range.

    >>> mx.cumprod(mx.array([2, 3, 4]))
    array([2, 6, 24], dtype=int32)
    >>> mx.cumprod(mx.array([2, 3, 4]), reverse=True)
    array([24, 12, 4], dtype=int32)
    """

def cumsum(a: array, /, axis: int | None = ..., *, reverse: bool = ..., inclusive: bool = ..., dtype: Dtype | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Running sum along an axis or over the flattened array.

    Element i of the result is the sum of the elements up to i. bool is summed as int32; integers wrap
    around in their own dtype. NaN stays from where it appears.

    Args:
        a (array): What is run over, of any shape.
        axis (int, optional): Axis to run along; a negative one counts from the last. None runs over the
            flattened array. Default: None.
        reverse (bool, optional): Whether to run from the end to the start. Default: False.
        inclusive (bool, optional): Whether the i-th result takes in the i-th element. Without, results are
            shifted by one and the first one is that of no elements. Default: True.
        dtype (Dtype, optional): Dtype that the elements are converted to first. Default: that of `a`.

    Returns:
        array: Of the shape of `a`, or of one axis where `axis` is None; the dtype is that of the sums.

    Raises:
        IndexError: if the axis is out of range.

    >>> mx.cumsum(mx.array([1, 2, 3]))
    array([1, 3, 6], dtype=int32)
    >>> mx.cumsum(mx.array([1, 2, 3]), reverse=True, inclusive=False)
    array([5, 3, 0], dtype=int32)
    """

def cumulative_prod(a: array, /, axis: int | None = ..., *, reverse: bool = ..., inclusive: bool = ..., dtype: Dtype | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Running product along an axis or over the flattened array: the array API's name of `cumprod`.

    Element i of the result is the product of the elements up to i. Integers wrap around in their own
    dtype.

    Args:
        a (array): What is run over, of any shape.
        axis (int, optional): Axis to run along; a negative one counts from the last. None runs over the
            flattened array. Default: None.
        reverse (bool, optional): Whether to run from the end to the start. Default: False.
        inclusive (bool, optional): Whether the i-th result takes in the i-th element. Without, results are
            shifted by one and the first one is that of no elements. Default: True.
        dtype (Dtype, optional): Dtype that the elements are converted to first. Default: that of `a`.

    Returns:
        array: Of the shape of `a`, or of one axis where `axis` is None; the dtype is that of the
            products.

    Raises:
        IndexError: if the axis is out of range.

    >>> mx.cumulative_prod(mx.array([2, 3, 4]))
    array([2, 6, 24], dtype=int32)
    """

def cumulative_sum(a: array, /, axis: int | None = ..., *, reverse: bool = ..., inclusive: bool = ..., dtype: Dtype | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Running sum along an axis or over the flattened array: the array API's name of `cumsum`.

    Element i of the result is the sum of the elements up to i. bool is summed as int32; integers wrap
    around in their own dtype.

    Args:
        a (array): What is run over, of any shape.
        axis (int, optional): Axis to run along; a negative one counts from the last. None runs over the
            flattened array. Default: None.
        reverse (bool, optional): Whether to run from the end to the start. Default: False.
        inclusive (bool, optional): Whether the i-th result takes in the i-th element. Without, results are
            shifted by one and the first one is that of no elements. Default: True.
        dtype (Dtype, optional): Dtype that the elements are converted to first. Default: that of `a`.

    Returns:
        array: Of the shape of `a`, or of one axis where `axis` is None; the dtype is that of the sums.

    Raises:
        IndexError: if the axis is out of range.

    >>> mx.cumulative_sum(mx.array([1, 2, 3]))
    array([1, 3, 6], dtype=int32)
    """

def default_device() -> Device:
    """The device on which operations run that name no stream.

    It is a GPU where there is a real one, else the CPU; `set_default_device` and `stream` change it.

    Returns:
        Device: The device.

    >>> mx.default_device() in (mx.Device(mx.cpu), mx.Device(mx.gpu))
    True
    """

def default_stream(device: Device | DeviceType) -> Stream:
    """The stream of a device that operations use which name none.

    Args:
        device (Device | DeviceType): The device.

    Returns:
        Stream: The stream.

    Raises:
        ValueError: if there is no such device.

    >>> mx.default_stream(mx.cpu).device
    Device(cpu, 0)
    """

def degrees(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Angle in degrees of each angle in radians.

    Each element is multiplied by 180 / pi.

    Derivative: `57.29577951308232`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.degrees(mx.array([0.0]))
    array([0], dtype=float32)
    """

def depends(inputs: Any, dependencies: Any) -> Any:
    """Arrays unchanged, but computed only after others.

    For side effects that must come first, such as a `send` before a `recv`. No data is copied. Gradients pass
    to the inputs alone.

    Args:
        inputs (array | Sequence[array]): What is returned.
        dependencies (array | Sequence[array]): What is computed before.

    Returns:
        array | list[array]: The inputs; a sequence comes back as a list.

    Raises:
        TypeError: if something else than arrays is given.

    >>> mx.depends(mx.array([1, 2]), mx.zeros(3))
    array([1, 2], dtype=int32)
    """

def dequantize(w: array, /, scales: array | None, biases: array | None = ..., group_size: int | None = ..., bits: int | None = ..., mode: str = ..., global_scale: array | None = ..., dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Elements of matrices that `quantize` made codes of.

    Group size, bits and mode are those of `quantize`.

    Args:
        w (array): Codes, uint32.
        scales (array): Scales of the groups.
        biases (array, optional): Biases of the groups, in the mode "affine". Default: None.
        group_size (int, optional): Elements that share a scale. Default: None, 64 or the only one of the mode.
        bits (int, optional): Bits of a code. Default: None, 4 or the only number of the mode.
        mode (str, optional): "affine", "mxfp4", "mxfp8" or "nvfp4". Default: "affine".
        global_scale (array, optional): The float32 scalar that `quantize` was given. Default: None.
        dtype (Dtype, optional): Dtype of the result. Default: None, that of the scales in the mode "affine",
            else bfloat16.

    Returns:
        array: Matrices, (..., m, n).

    Raises:
        ValueError: if shapes, dtypes or numbers do not fit the mode.

    >>> mx.dequantize(*mx.quantize(mx.ones((1, 64)))).shape
    (1, 64)
    """

def device_count(device_type: DeviceType) -> int:
    """How many devices of a type there are.

    Args:
        device_type (DeviceType): `mx.cpu` or `mx.gpu`.

    Returns:
        int: 1 for the CPU; for GPUs the Vulkan devices, software drivers among them.

    Raises:
        TypeError: if it is no type of device.

    >>> mx.device_count(mx.cpu)
    1
    """

def device_info(d: Device | DeviceType | None = ...) -> dict[str, Any]:
    """Facts about a device.

    `device_name` and `architecture`; for a GPU also `memory_size`, driver and API versions.

    Args:
        d (Device | DeviceType, optional): The device. Default: None, the default one.

    Returns:
        dict[str, str | int]: Facts by name; empty for a device that does not exist.

    >>> 'device_name' in mx.device_info(mx.cpu)
    True
    """

def diag(a: array, /, k: int = ..., *, stream: _StreamOrDevice = ...) -> array:
    """A diagonal of a matrix, or the matrix that has a vector on its diagonal.

    Args:
        a (array): A vector (n,) or a matrix (m, n).
        k (int, optional): Which diagonal: 0 the main one, positive ones above it, negative ones below.
            Default: 0.

    Returns:
        array: For a vector the square matrix of size `n + abs(k)` with zeros elsewhere; for a matrix the
            vector of its diagonal, which may be empty. In the dtype of `a`.

    Raises:
        ValueError: if `a` has neither one nor two axes.

    >>> mx.diag(mx.array([1, 2]))
    array([[1, 0],
           [0, 2]], dtype=int32)
    >>> mx.diag(mx.array([[1, 2], [3, 4]]), k=1)
    array([2], dtype=int32)
    """

def diagonal(a: array, offset: int = ..., axis1: int = ..., axis2: int = ..., stream: _StreamOrDevice = ...) -> array:
    """Diagonals of the matrices over two axes.

    The elements `(i, i + offset)` of each matrix come along a new last axis; the other axes keep their order
    in front of it.

    Args:
        a (array): Matrices, with at least two axes.
        offset (int, optional): Which diagonal: 0 the main one, positive ones above it, negative ones below.
            Default: 0.
        axis1 (int, optional): Axis of the rows; a negative one counts from the last. Default: 0.
        axis2 (int, optional): Axis of the columns. Default: 1.

    Returns:
        array: Without the two axes and with the diagonal last, in the dtype of `a`.

    Raises:
        ValueError: if there are fewer than two axes, or both are the same.
        IndexError: if an axis is out of range.

    >>> mx.diagonal(mx.array([[1, 2], [3, 4]]))
    array([1, 4], dtype=int32)
    """

def diff(a: array, /, n: int = ..., axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Differences of neighbours along an axis.

    One difference is the element behind less the element in front, so that the axis gets shorter by one; `n`
    of them are taken one after another. For bool it is whether the neighbours differ.

    Args:
        a (array): Elements, with at least one axis.
        n (int, optional): How often differences are taken; 0 gives `a` itself. Default: 1.
        axis (int, optional): Axis of the neighbours; a negative one counts from the last. Default: -1.

    Returns:
        array: Of the shape of `a` with `axis` shorter by `n`, but not below 0, in the dtype of `a`.

    Raises:
        ValueError: if `n` is negative.
        IndexError: if the axis is out of range, as every axis is for an array without axes.

    >>> mx.diff(mx.array([1, 4, 9]))
    array([3, 5], dtype=int32)
    >>> mx.diff(mx.array([1, 4, 9]), n=2)
    array([2], dtype=int32)
    """

def disable_compile() -> None:
    """From now on compiled functions call what they were made from, for finding faults.

    The environment variable MLX_DISABLE_COMPILE does the same from the start; `enable_compile` undoes both.

    Returns:
        None

    >>> mx.disable_compile()
    >>> mx.enable_compile()
    """

def divide(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Quotient of two arrays, element by element.

    Integers are divided as float32. A division by zero gives an infinity, and NaN for zero by zero. The
    operator `/` of arrays.

    Derivatives: `1 / b` by `a`, `-(y / b)` by `b`, where `y` is the result.

    Args:
        a (array | number): The first operand: every dtype, integers and bool in float32. A Python
            number adapts to the dtype of the other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is the promoted dtype of both
            (see `result_type`), or float32 for integers and bool.

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.

    >>> mx.divide(mx.array([1, 3]), mx.array([2, 2]))
    array([0.5, 1.5], dtype=float32)
    """

def divmod(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> list[array]:
    """Quotients rounded down, and remainders, of two arrays.

    The same as `floor_divide` and `remainder`: `a == quotient * b + remainder`, and the remainder has the
    sign of the divisor. The function `divmod` of Python takes arrays too.

    Args:
        a (array | number): Dividends; every dtype but complex64.
        b (array | number): Divisors, which broadcast with `a`.

    Returns:
        list[array]: Quotients and remainders, both of the broadcast shape and the promoted dtype.

    Raises:
        ValueError: if an operand is complex, or the shapes do not broadcast.

    >>> mx.divmod(mx.array([7, -7]), 3)
    [array([2, -3], dtype=int32), array([1, 2], dtype=int32)]
    """

def einsum(subscripts: str, *operands: Any, stream: _StreamOrDevice = ...) -> array:
    """Einstein summation: products of arrays summed over axes that are named by letters.

    `'ij,jk->ik'` is the product of two matrices. Without `->` the result has the letters that appear once, in
    alphabetical order. An ellipsis stands for axes that broadcast, a letter that repeats in one operand for a
    diagonal. Sums over common axes are computed as matrix products, in the order that `einsum_path` tells.

    Args:
        subscripts (str): Letters of the axes of each operand, and of the result.
        operands (array): As many arrays as `subscripts` names.

    Returns:
        array: With the axes of the result, in the promoted dtype.

    Raises:
        ValueError: if the letters do not fit the operands or lengths differ.

    >>> mx.einsum('ij,jk->ik', mx.ones((2, 3)), mx.ones((3, 2)))
    array([[3, 3],
           [3, 3]], dtype=float32)
    >>> mx.einsum('ii', mx.array([[1.0, 2.0], [3.0, 4.0]]))
    array(5, dtype=float32)
    """

def einsum_path(subscripts: str, *operands: Any) -> tuple[list[tuple[int, ...]], str]:
    """The order in which `einsum` contracts its operands.

    In each step the operands at some positions are taken out and their contraction is appended. The order is
    found greedily, as NumPy does it.

    Args:
        subscripts (str): Letters of the axes, as `einsum` takes them.
        operands (array): As many arrays as `subscripts` names; only their shapes count.

    Returns:
        tuple[list[tuple[int, ...]], str]: Positions of each step, and a text about the cost.

    Raises:
        ValueError: if the letters do not fit the operands or lengths differ.

    >>> a, b = mx.ones((2, 10)), mx.ones((10, 3))
    >>> mx.einsum_path('ij,jk,kl->il', a, b, mx.ones((3, 2)))[0]
    [(0, 1), (0, 1)]
    """

def empty(shape: int | Sequence[int], dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """An array whose elements the caller will replace; they are zeros until then, as in MLX.

    Args:
        shape (int | Sequence[int]): Shape of the array.
        dtype (Dtype, optional): Dtype of the elements. Default: float32.

    Returns:
        array: Of shape `shape`.

    Raises:
        ValueError: if a length is negative.
        TypeError: if the shape is not made of integers.

    >>> mx.empty((2, 3)).shape
    (2, 3)
    """

def empty_like(a: array, /, dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """An array in the shape of another one, whose elements the caller will replace; they are zeros until then.

    Args:
        a (array): Whose shape, and by default dtype, the result has.
        dtype (Dtype, optional): Dtype of the elements. Default: that of `a`.

    Returns:
        array: Of the shape of `a`.

    Raises:
        TypeError: if `a` is no array.

    >>> mx.empty_like(mx.array([1, 2])).shape
    (2,)
    """

def enable_compile() -> None:
    """From now on compiled functions use their recordings again: undoes `disable_compile`.

    It also wins over the environment variable MLX_DISABLE_COMPILE.

    Returns:
        None

    >>> mx.enable_compile()
    """

def equal(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether two arrays are equal, element by element.

    NaN equals nothing, itself included; the two zeros are equal. The operator `==` of arrays. For one
    answer over all elements see `array_equal`.

    Args:
        a (array | number): The first operand: every dtype. A Python number adapts to the dtype of the
            other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is bool.

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.

    >>> mx.equal(mx.array([1, 5]), mx.array([3, 5]))
    array([False, True], dtype=bool)
    """

def erf(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Error function of each element, `2 / sqrt(pi)` times the integral of `exp(-t * t)` from 0 to it.

    The result lies in [-1, 1]; infinities give the ends.

    Derivative: `1.1283791670955126 * exp(-(a * a))`.

    Args:
        a (array | number): Elements of any shape: every dtype but complex64, integers and bool in
            float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number or `a` is complex.

    >>> mx.erf(mx.array([0.0]))
    array([0], dtype=float32)
    """

def erfinv(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse error function of each element: `erf(erfinv(a))` is `a`.

    The ends -1 and 1 give infinities, numbers beyond them NaN.

    Derivative: `0.886226925452758 * exp(y * y)`, where `y` is the result.

    Args:
        a (array | number): Elements of any shape: every dtype but complex64, integers and bool in
            float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number or `a` is complex.

    >>> mx.erfinv(mx.array([0.0]))
    array([0], dtype=float32)
    """

def eval(*args: Any) -> None:
    """Computes arrays and waits for them.

    Operations only build a graph; this computes what the arrays need of it. Printing, `item`, conversion and
    comparison as bool do the same for their array.

    Args:
        args (array | tree): Arrays, or trees (dict, list, tuple) of arrays; other leaves are passed over.

    Returns:
        None

    Raises:
        RuntimeError: if an operation fails, memory among its reasons.

    >>> x = mx.ones(2) + 1
    >>> mx.eval(x, {'w': mx.zeros(3)})
    """

def exp(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Exponential of each element, e to the power of it.

    Beyond the range of the dtype (88.7 for float32) the result is infinity, far below zero it is 0.
    Minus infinity gives 0, NaN gives NaN.

    Derivative: `y`, where `y` is the result.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.exp(mx.array([0.0]))
    array([1], dtype=float32)
    """

def expand_dims(a: array, /, axis: int | Sequence[int], *, stream: _StreamOrDevice = ...) -> array:
    """The array with new axes of length one.

    No data is copied. Indexing with None does the same: `a[:, None]`.

    Args:
        a (array): Elements, of any shape.
        axis (int | Sequence[int]): Where the new axes are in the result; negative positions count from its
            last axis.

    Returns:
        array: With one more axis for each position, in the dtype of `a`.

    Raises:
        ValueError: if a position is named twice.
        IndexError: if a position is out of range.

    >>> mx.expand_dims(mx.zeros(3), 0).shape
    (1, 3)
    >>> mx.expand_dims(mx.zeros(3), (0, -1)).shape
    (1, 3, 1)
    """

def expm1(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Exponential of each element minus one.

    Near zero, where `exp(a) - 1` would lose all digits, the result keeps the precision of the dtype.

    Derivative: `y + 1`, where `y` is the result.

    Args:
        a (array | number): Elements of any shape: every dtype but complex64, integers and bool in
            float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number or `a` is complex.

    >>> mx.expm1(mx.array([0.0]))
    array([0], dtype=float32)
    """

def export_function(file_or_callback: Any, fun: Callable[..., Any], *args: Any, shapeless: bool = ..., metadata: str | None = ..., **kwargs: Any) -> None:
    """Writes what a function computes to a file, from which `import_function` makes a function again.

    The function is run once on the example arguments, and the graph that it builds is stored with the arrays
    that it closes over. What happens in Python is not stored.

    A callable instead of a path is called with one dict after the other. Their `type` is `inputs`,
    `keyword_inputs`, `outputs` or `constants`, then `primitive` for each operation, with MLX's `name` for it, its
    `arguments`, and `inputs` and `outputs` as tuples of a name, a shape and a dtype.

    Args:
        file_or_callback (str | Path | Callable): Where to write; a callable is called instead with a dict for
            each part of the description.
        fun (Callable): Returns an array, or a tuple or list of arrays.
        args (array | Sequence[array]): Example arguments by position, or one sequence of them.
        shapeless (bool, optional): Whether the function will take arrays of other shapes, but as many axes.
            Default: False.
        metadata (str, optional): Text to keep beside it. Default: None.
        kwargs (array): Example arguments by name.

    Returns:
        None

    Raises:
        ValueError: if the arguments or results are something else than arrays, or an operation cannot be
            exported.
        RuntimeError: if the file cannot be written.

    >>> import tempfile, os; path = os.path.join(tempfile.mkdtemp(), 'f.mlxfn')
    >>> mx.export_function(path, lambda x: x * x, mx.array(1.0))
    """

def export_to_dot(file: Any, *args: Any, **kwargs: Any) -> None:
    """Writes the graph that arrays are computed from, in the DOT language of graphviz.

    Only what is not evaluated yet is shown. Arrays given by name are shown under that name, the others under
    letters.

    Args:
        file (str | Path | object): A path, or an object with `write`.
        args (array | tree): Arrays, or trees of arrays, whose graph is written.
        kwargs (array): Arrays to show under their names.

    Returns:
        None

    Raises:
        ValueError: if the file is something else, or a tree holds something else than arrays.

    >>> import io; f = io.StringIO(); x = mx.array(1.0)
    >>> mx.export_to_dot(f, mx.exp(x), x=x)
    >>> 'Exp' in f.getvalue()
    True
    """

def exporter(file: Any, fun: Callable[..., Any], *, shapeless: bool = ..., metadata: str | None = ...) -> FunctionExporter:
    """An object that writes what a function does for several forms of its arguments to one file.

    Call it with example arguments once for each form; arrays that the forms share are stored once. The file
    is complete when it is closed, or left as a context manager.

    Args:
        file (str | Path): Where to write.
        fun (Callable): Returns an array, or a tuple or list of arrays.
        shapeless (bool, optional): Whether the function will take arrays of other shapes, but as many axes.
            Default: False.
        metadata (str, optional): Text to keep beside it. Default: None.

    Returns:
        FunctionExporter: The object.

    Raises:
        ValueError: when called, as `export_function` does.

    >>> import tempfile, os; path = os.path.join(tempfile.mkdtemp(), 'f.mlxfn')
    >>> with mx.exporter(path, lambda *xs: sum(xs)) as e: e(mx.array(1)); e(mx.array(1), mx.array(2))
    """

def eye(n: int, m: int | None = ..., k: int = ..., dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """A matrix with ones on one diagonal and zeros elsewhere.

    Args:
        n (int): Number of rows.
        m (int, optional): Number of columns. Default: None, as many as rows.
        k (int, optional): Which diagonal: 0 the main one, positive ones above it, negative ones below.
            Default: 0.
        dtype (Dtype, optional): Dtype of the elements. Default: float32.

    Returns:
        array: Of shape (n, m).

    Raises:
        ValueError: if a size is negative.

    >>> mx.eye(2)
    array([[1, 0],
           [0, 1]], dtype=float32)
    >>> mx.eye(2, 3, k=1)
    array([[0, 1, 0],
           [0, 0, 1]], dtype=float32)
    """

def flatten(a: array, /, start_axis: int = ..., end_axis: int = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Joins neighbouring axes into one, in row-major order.

    An array without axes becomes one of length 1. `unflatten` is the inverse.

    Args:
        a (array): Elements, of any shape.
        start_axis (int, optional): First axis to join; a negative one counts from the last. Default: 0.
        end_axis (int, optional): Last axis to join, itself included. Default: -1.

    Returns:
        array: With one axis in the place of those that were joined, as long as the product of their lengths.

    Raises:
        ValueError: if `start_axis` lies behind `end_axis`.

    >>> mx.flatten(mx.zeros((2, 3, 4)), 1).shape
    (2, 12)
    """

def flip(a: array, /, axis: int | Sequence[int] | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The elements in reverse order along one axis, several, or all.

    No data is copied: `a[::-1]` does the same for the first axis.

    Args:
        a (array): Elements, of any shape.
        axis (int | Sequence[int], optional): Axes to reverse; negative ones count from the last. Default:
            None, all axes.

    Returns:
        array: Of the shape and dtype of `a`.

    Raises:
        IndexError: if an axis is out of range.
        ValueError: if an axis is named twice.

    >>> mx.flip(mx.array([[1, 2], [3, 4]]), axis=1)
    array([[2, 1],
           [4, 3]], dtype=int32)
    """

def floor(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Largest integer that is not greater than each element.

    The result keeps the dtype: floats stay floats, NaN and infinities stay themselves, integers and
    bool are returned unchanged.

    Its derivative counts as zero.

    Args:
        a (array | number): Elements of any shape: every dtype but complex64.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`.

    Raises:
        ValueError: if `a` is neither an array nor a number or `a` is complex.

    >>> mx.floor(mx.array([1.5, -1.5]))
    array([1, -2], dtype=float32)
    """

def floor_divide(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Quotient of two arrays, rounded down to an integer.

    Division of integers by zero gives zero, that of floats an infinity or NaN; complex quotients are
    not rounded. The operator `//` of arrays.

    Its derivative counts as zero.

    Args:
        a (array | number): The first operand: every dtype. A Python number adapts to the dtype of the
            other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is the promoted dtype of both
            (see `result_type`).

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.

    >>> mx.floor_divide(mx.array([7, -7]), mx.array([2, 2]))
    array([3, -4], dtype=int32)
    """

def from_dlpack(x: array, /, *, copy: bool | None = ...) -> array:
    """An array from an array of another library, through DLPack.

    Host memory is shared unless `copy` is true: the array then shows what its owner writes later. float64 and
    complex128 are converted to float32 and complex64, so they are always copied. Memory of other devices
    comes over the host where the producer offers that.

    Args:
        x (object): An object with `__dlpack__` (arrays of NumPy, PyTorch, JAX and others), a DLPack
            capsule, or a buffer such as bytes, which is copied.
        copy (bool, optional): True always copies, False never does, None copies where it must. Default: None.

    Returns:
        array: With the elements of `x`.

    Raises:
        ValueError: if a copy is needed and `copy` is False, or the capsule holds what arrays cannot be.
        TypeError: if `x` is something else.

    >>> import numpy as np
    >>> mx.from_dlpack(np.arange(3, dtype=np.float32))
    array([0, 1, 2], dtype=float32)
    """

def from_fp8(x: array, dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Values of 8-bit floats of the format E4M3, which `to_fp8` makes.

    Every such value is exact in the floating dtypes of 16 bits and more.

    Args:
        x (array): uint8 codes, of any shape.
        dtype (Dtype, optional): A real floating dtype for the values. Default: bfloat16.

    Returns:
        array: Values, in the shape of `x`.

    Raises:
        ValueError: if `x` is not uint8, or `dtype` no real floating one.

    >>> mx.from_fp8(mx.to_fp8(mx.array([0.3])), mx.float32)
    array([0.3125], dtype=float32)
    """

def full(shape: int | Sequence[int], vals: _ArrayLike, dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """An array filled with a value.

    Args:
        shape (int | Sequence[int]): Shape of the array.
        vals (array | number): What it is filled with; an array broadcasts to `shape`.
        dtype (Dtype, optional): Dtype of the elements. Default: that of `vals`.

    Returns:
        array: Of shape `shape`.

    Raises:
        ValueError: if a length is negative.
        TypeError: if the shape is not made of integers.
        ValueError: if `vals` is neither an array nor a number, or does not broadcast to the shape.

    >>> mx.full((2,), 7)
    array([7, 7], dtype=int32)
    >>> mx.full((2, 2), mx.array([1.0, 2.0]))
    array([[1, 2],
           [1, 2]], dtype=float32)
    """

def full_like(a: array, vals: _ArrayLike, dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """An array in the shape of another one, filled with a value.

    Args:
        a (array): Whose shape, and by default dtype, the result has.
        vals (array | number): What it is filled with; an array broadcasts to the shape.
        dtype (Dtype, optional): Dtype of the elements. Default: that of `a`.

    Returns:
        array: Of the shape of `a`.

    Raises:
        ValueError: if `vals` is neither an array nor a number, or does not broadcast to the shape.

    >>> mx.full_like(mx.array([1, 2]), 7)
    array([7, 7], dtype=int32)
    """

def gather_mm(a: _ArrayLike, b: _ArrayLike, /, lhs_indices: Any = ..., rhs_indices: Any = ..., *, sorted_indices: bool = ..., stream: _StreamOrDevice = ...) -> array:
    """Matrix products of matrices that are picked by index, without copying them: `a[lhs_indices] @
    b[rhs_indices]`.

    An index counts the matrices of an operand in row-major order of its batch. The indices broadcast against
    each other; an operand without indices takes part with all of its matrices in order. No gradient flows to
    indices.

    Args:
        a (array): Matrices, (..., m, k), of a real floating dtype.
        b (array): Matrices, (..., k, n).
        lhs_indices (array, optional): Which matrices of `a`, of an integer dtype. Default: None, all.
        rhs_indices (array, optional): Which matrices of `b`, of an integer dtype. Default: None, all.
        sorted_indices (bool, optional): Promises that the indices of the only indexed operand do not
            decrease, which allows faster kernels. Default: False.

    Returns:
        array: Products, the shape of the indices and then (m, n), in the promoted dtype.

    Raises:
        ValueError: if the inner lengths differ, the indices are not integers or do not broadcast, or the
            dtype is not a real floating one.

    >>> a, b = mx.ones((1, 2)), mx.array([[[1.0], [1.0]], [[2.0], [2.0]]])
    >>> mx.gather_mm(a, b, rhs_indices=mx.array([1, 0, 1])).tolist()
    [[[4.0]], [[2.0]], [[4.0]]]
    """

def gather_qmm(x: array, w: array, /, scales: array | None, biases: array | None = ..., lhs_indices: Any = ..., rhs_indices: Any = ..., transpose: bool = ..., group_size: int | None = ..., bits: int | None = ..., mode: str = ..., global_scale: array | None = ..., *, sorted_indices: bool = ..., stream: _StreamOrDevice = ...) -> array:
    """Products of matrices with quantised matrices, both picked by index: `quantized_matmul` with the indices of
    `gather_mm`.

    An index counts the matrices of an operand in row-major order of its batch. The indices broadcast against
    each other; an operand without indices takes part with all of its matrices in order.

    Args:
        x (array): Left operands, (..., m, k).
        w (array): Codes of `quantize`, of matrices (..., n, k), or (..., k, n) without `transpose`.
        scales (array): Scales of the groups.
        biases (array, optional): Biases of the groups, in the mode "affine". Default: None.
        lhs_indices (array, optional): Which matrices of `x`, of an integer dtype. Default: None, all.
        rhs_indices (array, optional): Which matrices of `w`, of an integer dtype. Default: None, all.
        transpose (bool, optional): Whether the matrices of `w` are transposed. Default: True.
        group_size (int, optional): Elements that share a scale. Default: None, 64 or the only one of the mode.
        bits (int, optional): Bits of a code. Default: None, 4 or the only number of the mode.
        mode (str, optional): "affine", "mxfp4", "mxfp8" or "nvfp4". Default: "affine".
        global_scale (array, optional): One float32 for each matrix of `w`, for "nvfp4" alone. Default: None.
        sorted_indices (bool, optional): Promises that the indices do not decrease. Default: False.

    Returns:
        array: Products, the shape of the indices and then (m, n), in the dtype of `x`.

    Raises:
        ValueError: if shapes, dtypes or numbers do not fit, or the indices are not integers.

    >>> q = mx.quantize(mx.ones((4, 2, 64)))
    >>> mx.gather_qmm(mx.ones((1, 3, 64)), *q, rhs_indices=mx.array([2, 0])).shape
    (2, 3, 2)
    """

def gather_qqmm(x: array, w: array, /, scales: array | None = ..., lhs_indices: Any = ..., rhs_indices: Any = ..., group_size: int | None = ..., bits: int | None = ..., mode: str = ..., global_scale_x: Any = ..., global_scale_w: Any = ..., *, sorted_indices: bool = ..., stream: _StreamOrDevice = ...) -> array:
    """Products of matrices that are both rounded to a floating format, picked by index: `qqmm` with the indices
    of `gather_mm`.

    Args:
        x (array): Left operands, (..., m, k), of a real floating dtype.
        w (array): Matrices, (..., n, k), or their codes.
        scales (array, optional): Scales of the groups, where `w` holds codes. Default: None.
        lhs_indices (array, optional): Which matrices of `x`, of an integer dtype. Default: None, all.
        rhs_indices (array, optional): Which matrices of `w`, of an integer dtype. Default: None, all.
        group_size (int, optional): Elements that share a scale. Default: None, that of the mode.
        bits (int, optional): Bits of a code. Default: None, those of the mode.
        mode (str, optional): "nvfp4", "mxfp8" or "mxfp4". Default: "nvfp4".
        global_scale_x (array, optional): Float32 factors of the matrices of `x`, for "nvfp4" alone. Default:
            None.
        global_scale_w (array, optional): The same for `w`. Default: None.
        sorted_indices (bool, optional): Promises that the indices do not decrease. Default: False.

    Returns:
        array: Products, the shape of the indices and then (m, n), in the dtype of `x`.

    Raises:
        ValueError: if shapes, dtypes or numbers do not fit, or the indices are not integers.

    >>> i = mx.array([1, 0])
    >>> mx.gather_qqmm(mx.ones((1, 3, 64)), mx.ones((4, 2, 64)), rhs_indices=i).shape
    (2, 3, 2)
    """

def get_active_memory() -> int:
    """Bytes that arrays hold now, on the host and on devices.

    What is kept for reuse is not among them: see `get_cache_memory`.

    Returns:
        int: Bytes, by the capacity that was reserved.

    >>> mx.get_active_memory() >= 0
    True
    """

def get_array_buffer_size(*args: Any) -> int:
    """Bytes reserved for arrays.

    It is at least the sum of their `nbytes`. Memory that arrays share, such as that of views, is counted
    once.

    Args:
        args (array | tree): Arrays, or trees (dict, list, tuple) of arrays; other leaves are passed over.

    Returns:
        int: Bytes.

    Raises:
        ValueError: if an array is not evaluated.

    >>> x = mx.ones(4)
    >>> mx.eval(x)
    >>> mx.get_array_buffer_size(x, [x]) >= x.nbytes
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

def get_memory_limit() -> int:
    """The limit of active bytes, which `set_memory_limit` sets.

    Returns:
        int: Bytes.

    >>> mx.get_memory_limit() > 0
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

def get_printoptions() -> PrintOptions:
    """How arrays print now.

    Returns:
        PrintOptions: A copy: to change it changes nothing; see `set_printoptions`.

    >>> mx.get_printoptions().precision
    -1
    """

def grad(fun: Callable[..., Any], argnums: int | Sequence[int] | None = ..., argnames: str | Iterable[str] | None = ...) -> Callable[..., Any]:
    """A function that returns the gradient of another one.

    `fun` returns a scalar array. Its arguments may be trees (dict, list, tuple) of arrays, whose gradient has
    the same form. It gets the dicts, lists and modules themselves, with other arrays in the places of theirs
    until it returns: what it writes there stays. Gradients of gradients nest to any order.

    Args:
        fun (Callable): The function to differentiate.
        argnums (int | Sequence[int], optional): Positions of the arguments by which to differentiate.
            Default: None, 0 where no names are given.
        argnames (str | Iterable[str], optional): Names of the arguments by which to differentiate. Default:
            [].

    Returns:
        Callable: Takes the arguments of `fun`. One position gives a gradient, several a tuple; with names it
            is the pair of that (None without positions) and a dict.

    Raises:
        ValueError: if positions or names repeat or are out of range; when called, if `fun` returns something
            else than a scalar array, or an argument holds something else than arrays.

    >>> mx.grad(lambda x: x * x)(mx.array(3.0))
    array(6, dtype=float32)
    >>> mx.grad(lambda x, y: x * y, argnums=(0, 1))(mx.array(2.0), mx.array(5.0))
    (array(5, dtype=float32), array(2, dtype=float32))
    """

def greater(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether the first array is greater than the second, element by element.

    No comparison with NaN is true. Complex numbers are compared by their real parts, then by their
    imaginary parts. The operator `>` of arrays.

    Args:
        a (array | number): The first operand: every dtype. A Python number adapts to the dtype of the
            other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is bool.

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.

    >>> mx.greater(mx.array([1, 5]), mx.array([3, 5]))
    array([False, False], dtype=bool)
    """

def greater_equal(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether the first array is greater than or equal to the second, element by element.

    No comparison with NaN is true. Complex numbers are compared by their real parts, then by their
    imaginary parts. The operator `>=` of arrays.

    Args:
        a (array | number): The first operand: every dtype. A Python number adapts to the dtype of the
            other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is bool.

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.

    >>> mx.greater_equal(mx.array([1, 5]), mx.array([3, 5]))
    array([False, True], dtype=bool)
    """

def hadamard_transform(a: array, scale: _ArrayLike | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Walsh-Hadamard transform along the last axis.

    It is the product with a matrix of ones and minus ones whose rows are orthogonal, computed in n log n
    steps. By default it is its own inverse for lengths that are powers of two. Integers are computed in
    float32.

    Args:
        a (array): Elements, with a last axis of length m * 2^k for m = 1, 12, 20 or 28.
        scale (float, optional): Factor on the result. Default: None, one over the square root of the length.

    Returns:
        array: Of the shape of `a`; float32 for integers, else the dtype of `a`.

    Raises:
        ValueError: if the axis has another length.

    >>> mx.hadamard_transform(mx.array([1.0, 2.0]), scale=1.0)
    array([3, -1], dtype=float32)
    """

def hamming(M: int, *, stream: _StreamOrDevice = ...) -> array:
    """Hamming window: a raised cosine, 0.08 at both ends, with a low first side lobe.

    Point n is `0.54 - 0.46 * cos(2 * pi * n / (M - 1))`. One point alone is 1.

    Args:
        M (int): Number of points; below 1 there are none.

    Returns:
        array: float32, of shape (M,).

    >>> mx.hamming(3)
    array([0.08, 1, 0.08], dtype=float32)
    """

def hanning(M: int, *, stream: _StreamOrDevice = ...) -> array:
    """Hann window: a raised cosine, zero at both ends.

    Point n is `0.5 - 0.5 * cos(2 * pi * n / (M - 1))`. One point alone is 1. See `mlx.core.fft.stft`,
    which takes it by name.

    Args:
        M (int): Number of points; below 1 there are none.

    Returns:
        array: float32, of shape (M,).

    >>> mx.hanning(5)
    array([0, 0.5, 1, 0.5, 0], dtype=float32)
    """

def identity(n: int, dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The identity matrix: ones on the main diagonal and zeros elsewhere.

    Args:
        n (int): Number of rows and of columns.
        dtype (Dtype, optional): Dtype of the elements. Default: float32.

    Returns:
        array: Of shape (n, n).

    Raises:
        ValueError: if the size is negative.

    >>> mx.identity(2)
    array([[1, 0],
           [0, 1]], dtype=float32)
    """

def imag(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Imaginary part of each element.

    Elements of every dtype but complex64 have none: the result is zeros of their dtype.

    Its derivative counts as zero.

    Args:
        a (array | number): Elements of any shape: every dtype.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            complex64.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.imag(mx.array([1 + 2j]))
    array([2], dtype=float32)
    """

def import_function(file: Any, return_metadata: bool = ...) -> Callable[..., Any]:
    """The function that `export_function` or an exporter wrote to a file.

    It takes arrays by position and by name as it was exported, or a sequence and a dict of them, and returns
    a tuple of arrays. It can be differentiated, mapped and compiled.

    Args:
        file (str | Path): The file.
        return_metadata (bool, optional): Whether to return the metadata too. Default: False.

    Returns:
        Callable | tuple[Callable, str]: The function, and the text that was saved with it. It raises
            ValueError for arrays of other shapes or dtypes than it was exported for.

    Raises:
        RuntimeError: if the file is missing, damaged or something else.

    >>> import tempfile, os; path = os.path.join(tempfile.mkdtemp(), 'f.mlxfn')
    >>> mx.export_function(path, lambda x: x * x, mx.array(1.0))
    >>> mx.import_function(path)(mx.array(3.0))[0]
    array(9, dtype=float32)
    """

def inner(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Sums of products over the last axes of two arrays.

    For vectors it is the scalar product. An operand without axes multiplies the other one.

    Args:
        a (array): First operand.
        b (array): Second operand, with a last axis of the same length.

    Returns:
        array: With the other axes of `a`, then those of `b`, in the promoted dtype.

    Raises:
        ValueError: if the last axes differ in length.

    >>> mx.inner(mx.array([1.0, 2.0]), mx.array([3.0, 4.0]))
    array(11, dtype=float32)
    """

def is_available(device: Device | DeviceType) -> bool:
    """Whether a device exists.

    Args:
        device (Device | DeviceType): The device.

    Returns:
        bool: Always true for `mx.cpu`.

    Raises:
        TypeError: if it is no device.

    >>> mx.is_available(mx.cpu)
    True
    """

def isclose(a: array, b: array, /, rtol: float = ..., atol: float = ..., *, equal_nan: bool = ..., stream: _StreamOrDevice = ...) -> array:
    """Whether elements of two arrays are close to each other: `abs(a - b) <= atol + rtol * abs(b)`.

    Infinities are close to infinities of their sign only. The test is not symmetric: the relative tolerance
    goes by `b`.

    Args:
        a (array): Elements to test.
        b (array): Elements to compare with; their shape broadcasts with that of `a`.
        rtol (float, optional): Relative tolerance. Default: 1e-5.
        atol (float, optional): Absolute tolerance. Default: 1e-8.
        equal_nan (bool, optional): Whether NaN is close to NaN. Default: False.

    Returns:
        array: bool, of the broadcast shape.

    Raises:
        ValueError: if the shapes do not broadcast.

    >>> mx.isclose(mx.array([1.0, 2.0]), mx.array([1.0, 2.1]))
    array([True, False], dtype=bool)
    """

def isdtype(dtype: Dtype, kind: Dtype | str | tuple[Dtype | str, ...]) -> bool:
    """Whether a dtype is of one of the kinds of the array API.

    Args:
        dtype (Dtype): What is asked about.
        kind (Dtype | str | tuple[Dtype | str, ...]): A dtype, one of "bool", "signed integer", "unsigned
            integer", "integral", "real floating", "complex floating" and "numeric", or a tuple of these.

    Returns:
        bool: Whether it is of one of them.

    Raises:
        ValueError: if a kind is unknown.

    >>> mx.isdtype(mx.int32, ('integral', 'bool'))
    True
    """

def isfinite(a: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether each element is neither NaN nor an infinity.

    A complex number is finite where both of its parts are. Integers and bool always are.

    Args:
        a (array | number): Elements of any shape: every dtype.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.isfinite(mx.array([1.0, float('inf')]))
    array([True, False], dtype=bool)
    """

def isinf(a: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether each element is an infinity of either sign.

    A complex number is infinite where either of its parts is. Integers and bool never are.

    Args:
        a (array | number): Elements of any shape: every dtype.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.isinf(mx.array([1.0, float('inf')]))
    array([False, True], dtype=bool)
    """

def isnan(a: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether each element is NaN, not a number.

    A complex number is NaN where either of its parts is. Integers and bool never are.

    Args:
        a (array | number): Elements of any shape: every dtype.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.isnan(mx.array([1.0, float('nan')]))
    array([False, True], dtype=bool)
    """

def isneginf(a: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether each element is minus infinity.

    Integers and bool give False, and so do complex numbers with an imaginary part.

    Args:
        a (array | number): Elements of any shape: every dtype.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.isneginf(mx.array([1.0, float('-inf')]))
    array([False, True], dtype=bool)
    """

def isposinf(a: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether each element is plus infinity.

    Integers and bool give False, and so do complex numbers with an imaginary part.

    Args:
        a (array | number): Elements of any shape: every dtype.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.isposinf(mx.array([1.0, float('inf')]))
    array([False, True], dtype=bool)
    """

def issubdtype(arg1: Dtype | DtypeCategory, arg2: Dtype | DtypeCategory) -> bool:
    """Whether a dtype or category is another one, or belongs to it.

    Categories are `mx.generic`, below it `mx.number`, with `mx.integer` (`mx.signedinteger`,
    `mx.unsignedinteger`) and `mx.inexact` (`mx.floating`, `mx.complexfloating`).

    Args:
        arg1 (Dtype | DtypeCategory): What is asked about.
        arg2 (Dtype | DtypeCategory): What it may belong to.

    Returns:
        bool: Whether it does.

    Raises:
        ValueError: if an argument is something else.

    >>> mx.issubdtype(mx.float16, mx.floating)
    True
    >>> mx.issubdtype(mx.integer, mx.signedinteger)
    False
    """

def jvp(fun: Callable[..., Any], primals: Sequence[array], tangents: Sequence[array]) -> tuple[list[array], list[array]]:
    """Outputs of a function, and the products of its Jacobian with tangents (forward mode).

    The product for an output is its derivative in the direction of the tangents.

    Args:
        fun (Callable): A function of arrays that returns an array or a list of arrays.
        primals (Sequence[array]): Where it is evaluated.
        tangents (Sequence[array]): One for each primal, of its shape.

    Returns:
        tuple[list[array], list[array]]: The outputs, and one product for each output.

    Raises:
        ValueError: if there are not as many tangents as primals, or a shape differs.

    >>> mx.jvp(lambda x: 2 * x, [mx.array(3.0)], [mx.array(1.0)])
    ([array(6, dtype=float32)], [array(2, dtype=float32)])
    """

def kron(a: _ArrayLike, b: _ArrayLike, *, stream: _StreamOrDevice = ...) -> array:
    """Kronecker product: every element of one array times the whole of another, in the place of that element.

    The array with fewer axes gets axes of length one in front.

    Args:
        a (array): Elements whose places are filled.
        b (array): What fills them.

    Returns:
        array: With the products of the lengths of both, in the promoted dtype.

    Raises:
        ValueError: if an array is empty.

    >>> mx.kron(mx.array([1, 2]), mx.array([1, 10]))
    array([1, 10, 2, 20], dtype=int32)
    """

def left_shift(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Bits of the first array moved up by the second, zeros coming in below.

    That is a multiplication by a power of two that drops what does not fit. The count should be less
    than the number of bits. The operator `<<` of arrays. Also called `bitwise_left_shift`.

    Args:
        a (array | number): The first operand: integers, and bool, which counts as uint8. A Python
            number adapts to the dtype of the other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is the promoted dtype of both
            (see `result_type`), or uint8 for bool.

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.
        RuntimeError: if an operand is floating or complex.

    >>> mx.left_shift(mx.array([1, 3]), mx.array([4, 1]))
    array([16, 6], dtype=int32)
    """

def less(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether the first array is less than the second, element by element.

    No comparison with NaN is true. Complex numbers are compared by their real parts, then by their
    imaginary parts. The operator `<` of arrays.

    Args:
        a (array | number): The first operand: every dtype. A Python number adapts to the dtype of the
            other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is bool.

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.

    >>> mx.less(mx.array([1, 5]), mx.array([3, 5]))
    array([True, False], dtype=bool)
    """

def less_equal(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether the first array is less than or equal to the second, element by element.

    No comparison with NaN is true. Complex numbers are compared by their real parts, then by their
    imaginary parts. The operator `<=` of arrays.

    Args:
        a (array | number): The first operand: every dtype. A Python number adapts to the dtype of the
            other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is bool.

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.

    >>> mx.less_equal(mx.array([1, 5]), mx.array([3, 5]))
    array([True, True], dtype=bool)
    """

def linspace(start: float, stop: float, num: int | None = ..., endpoint: bool = ..., dtype: Dtype | None = ..., stream: _StreamOrDevice = ...) -> array:
    """A number of evenly spaced values between two ends.

    Args:
        start (int | float): First value.
        stop (int | float): Last value, or the end that is left out.
        num (int, optional): How many values. Default: 50.
        endpoint (bool, optional): Whether `stop` is the last value; else the distance is `(stop - start) /
            num`. Default: True.
        dtype (Dtype, optional): Dtype of the values; integers drop the fraction. Default: float32.

    Returns:
        array: Of shape (num,).

    Raises:
        ValueError: if `num` is negative.

    >>> mx.linspace(0, 1, 5)
    array([0, 0.25, 0.5, 0.75, 1], dtype=float32)
    >>> mx.linspace(0, 1, 4, endpoint=False)
    array([0, 0.25, 0.5, 0.75], dtype=float32)
    """

@overload
def load(file: Any, /, format: Literal["npy"], return_metadata: Literal[False] = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Loads an array (npy) or a dict of arrays (npz, safetensors, gguf) from a file.

    Elements are read when they are needed; from a file object they are taken at once. float64 goes to the CPU
    unless `stream` is given. Q4_0, Q4_1 and Q8_0 tensors of GGUF become `weight`, `scales` and `biases` of
    `quantized_matmul`, other quantised ones float16.

    Args:
        file (str | Path | object): A path, or an object with `read`, `seek` and `tell`; GGUF needs a path.
        format (str, optional): "npy", "npz", "safetensors" or "gguf". Default: None, that of the extension.
        return_metadata (bool, optional): Whether to return the metadata of safetensors and gguf too. Default:
            False.

    Returns:
        array | dict[str, array] | tuple[dict[str, array], dict]: What the file holds, with `return_metadata`
            the pair of that and its metadata.

    Raises:
        RuntimeError: if the file is missing or damaged, at once or when elements are read.
        ValueError: if the format is unknown, or has no metadata that are asked for.

    >>> import io; f = io.BytesIO(); mx.save(f, mx.array([1, 2])); _ = f.seek(0)
    >>> mx.load(f, format="npy")
    array([1, 2], dtype=int32)
    """
@overload
def load(file: Any, /, format: Literal["npz", "safetensors", "gguf"], return_metadata: Literal[False] = ..., *, stream: _StreamOrDevice = ...) -> dict[str, array]: ...
@overload
def load(file: Any, /, format: str | None, return_metadata: Literal[True], *, stream: _StreamOrDevice = ...) -> tuple[dict[str, array], dict[str, Any]]: ...
@overload
def load(file: Any, /, format: str | None = ..., *, return_metadata: Literal[True], stream: _StreamOrDevice = ...) -> tuple[dict[str, array], dict[str, Any]]: ...
@overload
def load(file: Any, /, format: str | None = ..., return_metadata: Literal[False] = ..., *, stream: _StreamOrDevice = ...) -> array | dict[str, array]: ...

def log(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Natural logarithm of each element.

    Zero gives minus infinity and negative numbers give NaN; for complex numbers the imaginary part of
    the result lies in [-pi, pi].

    Derivative: `1 / a`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.log(mx.array([1.0]))
    array([0], dtype=float32)
    """

def log10(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Logarithm of each element to the base of ten.

    Zero gives minus infinity and negative numbers give NaN.

    Derivative: `0.4342944819032518 / a`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.log10(mx.array([100.0]))
    array([2], dtype=float32)
    """

def log1p(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Natural logarithm of one plus each element.

    Near zero, where `log(1 + a)` would lose all digits, the result keeps the precision of the dtype. -1
    gives minus infinity and what is below gives NaN.

    Derivative: `1 / (1 + a)`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.log1p(mx.array([0.0]))
    array([0], dtype=float32)
    """

def log2(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Logarithm of each element to the base of two.

    Powers of two give exact results. Zero gives minus infinity and negative numbers give NaN.

    Derivative: `1.4426950408889634 / a`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.log2(mx.array([8.0]))
    array([3], dtype=float32)
    """

def logaddexp(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Logarithm of a sum of exponentials: `log(exp(a) + exp(b))`.

    The larger operand is taken out of the sum first, so that nothing overflows; two times minus
    infinity give minus infinity. Over an axis see `logsumexp`.

    Derivatives: `sigmoid(a - b)` by `a`, `sigmoid(b - a)` by `b`.

    Args:
        a (array | number): The first operand: every dtype, integers and bool in float32. A Python
            number adapts to the dtype of the other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is the promoted dtype of both
            (see `result_type`), or float32 for integers and bool.

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.

    >>> mx.logaddexp(mx.array([0.0]), mx.array([0.0]))
    array([0.693147], dtype=float32)
    """

def logcumsumexp(a: array, /, axis: int | None = ..., *, reverse: bool = ..., inclusive: bool = ..., stream: _StreamOrDevice = ...) -> array:
    """Running `log(sum(exp(a)))` along an axis or over the flattened array.

    Element i of the result is the logarithm of the sum of the exponentials up to i, computed without
    overflow. The result of no elements is minus infinity. Integers and bool are computed in float32.

    Args:
        a (array): What is run over, of any shape.
        axis (int, optional): Axis to run along; a negative one counts from the last. None runs over the
            flattened array. Default: None.
        reverse (bool, optional): Whether to run from the end to the start. Default: False.
        inclusive (bool, optional): Whether the i-th result takes in the i-th element. Without, results are
            shifted by one and the first one is that of no elements. Default: True.

    Returns:
        array: Of the shape of `a`, or of one axis where `axis` is None; float32 for integers and bool,
            else the dtype of `a`.

    Raises:
        IndexError: if the axis is out of range.

    >>> mx.logcumsumexp(mx.array([0.0, 0.0]))
    array([0, 0.693147], dtype=float32)
    """

def logical_and(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Whether both operands are true, element by element.

    For bits of integers see `bitwise_and`.

    Args:
        a (array | number): The first operand: every dtype, where what is not zero counts as true. A
            Python number adapts to the dtype of the other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is bool.

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.

    >>> mx.logical_and(mx.array([True, False]), mx.array([True, True]))
    array([True, False], dtype=bool)
    """

def logical_not(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Whether each element is false, that is zero.

    NaN is not zero and gives False. For bits of integers see `bitwise_invert`.

    Args:
        a (array | number): Elements of any shape: every dtype, where what is not zero counts as true.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.logical_not(mx.array([True, False]))
    array([False, True], dtype=bool)
    """

def logical_or(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Whether at least one operand is true, element by element.

    For bits of integers see `bitwise_or`.

    Args:
        a (array | number): The first operand: every dtype, where what is not zero counts as true. A
            Python number adapts to the dtype of the other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is bool.

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.

    >>> mx.logical_or(mx.array([True, False]), mx.array([True, True]))
    array([True, True], dtype=bool)
    """

def logical_xor(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Whether exactly one operand is true, element by element.

    For bits of integers see `bitwise_xor`.

    Args:
        a (array | number): The first operand: every dtype, where what is not zero counts as true. A
            Python number adapts to the dtype of the other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is bool.

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.

    >>> mx.logical_xor(mx.array([True, False]), mx.array([True, True]))
    array([False, True], dtype=bool)
    """

def logsumexp(a: array, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Logarithm of the sum of exponentials, `log(sum(exp(a)))`, over one axis, several, or all.

    The largest element is taken out of the sum first, so that nothing overflows; half floats are summed
    in float32. Integers and bool are computed in float32. The gradient is `softmax(a)` over the same
    axes.

    Args:
        a (array): What is reduced, of any shape.
        axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
            takes all. Default: None.
        keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.

    Returns:
        array: Logarithms, in the shape of `a` without the reduced axes; float32 for integers and bool,
            else the dtype of `a`.

    Raises:
        IndexError: if an axis is out of range.
        ValueError: if an axis is named twice.

    >>> mx.logsumexp(mx.array([1000.0, 1000.0]))
    array(1000.69, dtype=float32)
    """

def matmul(a: array, b: array, /, *, stream: _StreamOrDevice = ...) -> array:
    """Matrix product of two arrays. The operator `@` of arrays.

    The last two axes are those of the matrices, the others a batch that broadcasts. An operand with one axis
    is a row on the left and a column on the right, and that axis is not in the result. Half floats are summed
    in float32.

    Args:
        a (array): Matrices, (..., m, k), or a vector (k,).
        b (array): Matrices, (..., k, n), or a vector (k,).

    Returns:
        array: Products, (..., m, n), in the promoted dtype.

    Raises:
        ValueError: if an operand has no axes, the inner lengths differ, the batches do not broadcast, or the
            promoted dtype is neither floating nor complex.

    >>> mx.matmul(mx.ones((2, 3)), mx.ones((3, 2)))
    array([[3, 3],
           [3, 3]], dtype=float32)
    """

def matrix_norm(a: array, /, ord: int | float | str | None = ..., axis: int | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Norms of vectors or matrices.

    Over one axis it is the norm of vectors, over two that of matrices; without axes it is that of the whole
    array, flattened if `ord` is None. Integers are computed in float32.

    For vectors `ord` is None or 2 (Euclidean), inf and -inf (largest and smallest magnitude), 0 (how many are
    not zero) or another number p, `sum(abs(a) ** p) ** (1 / p)`. For matrices it is None or "fro"
    (Frobenius), inf and -inf (largest and smallest sum of magnitudes of a row), 1 and -1 (of a column), 2 and
    -2 (largest and smallest singular value) or "nuc" (sum of singular values).

    Args:
        a (array): Vectors or matrices.
        ord (int | float | str, optional): Which norm, see above. Default: None.
        axis (int | Sequence[int], optional): One axis of vectors or two of matrices; negative ones count from
            the last. Default: None.
        keepdims (bool, optional): Whether these axes stay, with length 1. Default: False.

    Returns:
        array: Real norms, in the shape of `a` without the axes.

    Raises:
        ValueError: if there is no such norm, the axes do not fit it, or singular values are asked for on a
            GPU stream.
        IndexError: if an axis is out of range.

    >>> mx.linalg.norm(mx.array([3.0, 4.0]))
    array(5, dtype=float32)
    >>> mx.linalg.norm(mx.array([[1.0, -2.0], [3.0, 4.0]]), ord=1)
    array(6, dtype=float32)
    """

def matrix_transpose(a: array, /, *, stream: _StreamOrDevice = ...) -> array:
    """The array with its last two axes swapped, that is every matrix transposed.

    Only the strides change: no data is copied. The property `mT` of arrays.

    Args:
        a (array): Matrices, with at least two axes; those before the last two are a batch.

    Returns:
        array: Of shape (..., n, m) for `a` of shape (..., m, n), in its dtype.

    Raises:
        ValueError: if there are fewer than two axes.

    >>> mx.matrix_transpose(mx.zeros((2, 3, 4))).shape
    (2, 4, 3)
    """

def max(a: array, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Largest element over one axis, several, or all.

    The result is NaN where an element is. Complex numbers are compared by their real parts, then by their
    imaginary parts. Elements that are equally large share the gradient. See `maximum` for two arrays.

    Args:
        a (array): What is reduced, of any shape.
        axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
            takes all. Default: None.
        keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.

    Returns:
        array: Largest elements, in the shape of `a` without the reduced axes and in its dtype.

    Raises:
        IndexError: if an axis is out of range.
        ValueError: if an axis is named twice, or one that is reduced has length 0.

    >>> mx.max(mx.array([[3, 1], [2, 4]]), axis=1)
    array([3, 4], dtype=int32)
    """

def maximum(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Larger of two arrays, element by element.

    The result is NaN where either of the two is NaN. Complex numbers are compared by their real parts,
    then by their imaginary parts. For the largest element of one array see `max`.

    Derivatives: `a > b` by `a`, `a <= b` by `b`.

    Args:
        a (array | number): The first operand: every dtype. A Python number adapts to the dtype of the
            other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is the promoted dtype of both
            (see `result_type`).

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.

    >>> mx.maximum(mx.array([1, 5]), mx.array([3, 4]))
    array([3, 5], dtype=int32)
    """

def mean(a: array, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Arithmetic mean of the elements over one axis, several, or all.

    Integers and bool are averaged as float32. NaN stays NaN, and the mean of no elements is NaN.

    Args:
        a (array): What is reduced, of any shape.
        axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
            takes all. Default: None.
        keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.

    Returns:
        array: Means, in the shape of `a` without the reduced axes; float32 for integers and bool, else
            the dtype of `a`.

    Raises:
        IndexError: if an axis is out of range.
        ValueError: if an axis is named twice.

    >>> mx.mean(mx.array([[1, 2], [3, 6]]), axis=1)
    array([1.5, 4.5], dtype=float32)
    """

def median(a: array, /, axis: int | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Median of the elements over one axis, several, or all.

    It is the middle element in sorted order, or the mean of the two in the middle where their number is even.
    The result is NaN where an element is. Integers and bool are computed in float32.

    Args:
        a (array): What is reduced, of any shape.
        axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
            takes all. Default: None.
        keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.

    Returns:
        array: Medians, in the shape of `a` without the reduced axes; float32 for integers and bool, else the
            dtype of `a`.

    Raises:
        IndexError: if an axis is out of range.
        ValueError: if an axis is named twice, or one that is reduced has length 0.

    >>> mx.median(mx.array([[3, 1, 2], [4, 8, 6]]), axis=1)
    array([2, 6], dtype=float32)
    """

def meshgrid(*arrays: Sequence[array], sparse: bool = ..., indexing: str = ..., stream: _StreamOrDevice = ...) -> tuple[array, ...]:
    """Grids of coordinates: each array repeated along the axes of all others.

    The result number i varies with the elements of array i only, so that together they name every point of
    the grid. No data is copied.

    Args:
        arrays (array): Coordinates along each axis; they are flattened.
        sparse (bool, optional): Whether the grids keep length 1 along the axes of the other arrays, which
            broadcasts to the same. Default: False.
        indexing (str, optional): "xy", where the first two axes are swapped as for pictures, or "ij", where
            axis i belongs to array i. Default: "xy".

    Returns:
        tuple[array, ...]: One grid for each array, in its dtype.

    Raises:
        ValueError: if `indexing` is another one.

    >>> mx.meshgrid(mx.array([1, 2]), mx.array([3]))
    (array([[1, 2]], dtype=int32), array([[3, 3]], dtype=int32))
    """

def min(a: array, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Smallest element over one axis, several, or all.

    The result is NaN where an element is. Complex numbers are compared by their real parts, then by their
    imaginary parts. Elements that are equally small share the gradient. See `minimum` for two arrays.

    Args:
        a (array): What is reduced, of any shape.
        axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
            takes all. Default: None.
        keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.

    Returns:
        array: Smallest elements, in the shape of `a` without the reduced axes and in its dtype.

    Raises:
        IndexError: if an axis is out of range.
        ValueError: if an axis is named twice, or one that is reduced has length 0.

    >>> mx.min(mx.array([[3, 1], [2, 4]]), axis=1)
    array([1, 2], dtype=int32)
    """

def minimum(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Smaller of two arrays, element by element.

    The result is NaN where either of the two is NaN. Complex numbers are compared by their real parts,
    then by their imaginary parts. For the smallest element of one array see `min`.

    Derivatives: `a < b` by `a`, `a >= b` by `b`.

    Args:
        a (array | number): The first operand: every dtype. A Python number adapts to the dtype of the
            other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is the promoted dtype of both
            (see `result_type`).

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.

    >>> mx.minimum(mx.array([1, 5]), mx.array([3, 4]))
    array([1, 4], dtype=int32)
    """

def minmax(a: array, /, axis: int | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> tuple[array, array]:
    """Smallest and largest element over one axis, several, or all.

    Both are NaN where an element is. Complex numbers are compared by their real parts, then by their
    imaginary parts. Both extrema come from one call.

    Args:
        a (array): What is reduced, of any shape.
        axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
            takes all. Default: None.
        keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.

    Returns:
        tuple[array, array]: Smallest and largest elements, both in the shape of `a` without the reduced axes
            and in its dtype.

    Raises:
        IndexError: if an axis is out of range.
        ValueError: if an axis is named twice, or one that is reduced has length 0.

    >>> mx.minmax(mx.array([3, 1, 2]))
    (array(1, dtype=int32), array(3, dtype=int32))
    """

def moveaxis(a: array, /, source: int, destination: int, *, stream: _StreamOrDevice = ...) -> array:
    """The array with one axis moved to another place; the others keep their order.

    Only the strides change: no data is copied.

    Args:
        a (array): Elements, of any shape.
        source (int): Axis to move; a negative one counts from the last.
        destination (int): Its place in the result; a negative one counts from the last.

    Returns:
        array: With permuted axes, in the dtype of `a`.

    Raises:
        IndexError: if an axis is out of range.

    >>> mx.moveaxis(mx.zeros((2, 3, 4)), 0, 2).shape
    (3, 4, 2)
    """

def multiply(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Product of two arrays, element by element.

    Integers wrap around where the product does not fit; for bool it is the logical and. The operator
    `*` of arrays.

    Derivatives: `b` by `a`, `a` by `b`.

    Args:
        a (array | number): The first operand: every dtype. A Python number adapts to the dtype of the
            other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is the promoted dtype of both
            (see `result_type`).

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.

    >>> mx.multiply(mx.array([1, 2]), mx.array([3, 4]))
    array([3, 8], dtype=int32)
    """

def nan_to_num(a: _ArrayLike, nan: float = ..., posinf: float | None = ..., neginf: float | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Replaces NaN and infinities by finite numbers.

    Integers and bool have neither and are returned unchanged.

    Args:
        a (array | number): Elements of any shape; every dtype but complex64 and float64.
        nan (float, optional): What NaN becomes. Default: 0.0.
        posinf (float, optional): What infinity becomes. Default: None, the largest finite number of the
            dtype.
        neginf (float, optional): What minus infinity becomes. Default: None, the lowest finite number of the
            dtype.

    Returns:
        array: Of the shape and dtype of `a`.

    Raises:
        ValueError: if the dtype is float64, or complex64 and not both infinities have a number; only an infinity
            without an imaginary part is one then.

    >>> mx.nan_to_num(mx.array([float('nan'), 1.0, float('inf')]), posinf=9.0)
    array([0, 1, 9], dtype=float32)
    """

def negative(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Each element with its sign changed.

    Zeros of floating dtypes change their sign too, and unsigned integers wrap around: minus one is the
    largest value of the dtype.

    Derivative: `-1`.

    Args:
        a (array | number): Elements of any shape: every dtype but bool.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`.

    Raises:
        ValueError: if `a` is neither an array nor a number or `a` is bool.

    >>> mx.negative(mx.array([1, -2]))
    array([-1, 2], dtype=int32)
    """

def new_stream(device: Device | DeviceType) -> Stream:
    """A new stream on a device.

    On a GPU it gets a queue of its own where the device has several.

    Args:
        device (Device | DeviceType): The device.

    Returns:
        Stream: The stream.

    Raises:
        ValueError: if there is no such device.

    >>> mx.new_stream(mx.cpu).device
    Device(cpu, 0)
    """

def new_thread_local_stream(device: Device | DeviceType) -> ThreadLocalStream:
    """A stream that is another one on each thread.

    The streams are made when a thread first uses it.

    Args:
        device (Device | DeviceType): The device.

    Returns:
        ThreadLocalStream: The stream.

    Raises:
        ValueError: if there is no such device.

    >>> mx.new_thread_local_stream(mx.cpu).device
    Device(cpu, 0)
    """

def new_thread_unsafe_stream(device: Device | DeviceType) -> Stream:
    """A new stream for use by one thread at a time.

    Streams of this library are safe to share, so this is `new_stream` under MLX's other name.

    Args:
        device (Device | DeviceType): The device.

    Returns:
        Stream: The stream.

    Raises:
        ValueError: if there is no such device.

    >>> mx.new_thread_unsafe_stream(mx.cpu).device
    Device(cpu, 0)
    """

def not_equal(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether two arrays differ, element by element.

    NaN differs from everything, itself included; the two zeros do not differ. The operator `!=` of
    arrays.

    Args:
        a (array | number): The first operand: every dtype. A Python number adapts to the dtype of the
            other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is bool.

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.

    >>> mx.not_equal(mx.array([1, 5]), mx.array([3, 5]))
    array([True, False], dtype=bool)
    """

def ones(shape: int | Sequence[int], dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """An array filled with ones.

    Args:
        shape (int | Sequence[int]): Shape of the array.
        dtype (Dtype, optional): Dtype of the elements. Default: float32.

    Returns:
        array: Of shape `shape`, all elements 1 (True for bool).

    Raises:
        ValueError: if a length is negative.
        TypeError: if the shape is not made of integers.

    >>> mx.ones(3)
    array([1, 1, 1], dtype=float32)
    """

def ones_like(a: array, /, dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Ones in the shape of another array.

    Args:
        a (array): Whose shape, and by default dtype, the result has.
        dtype (Dtype, optional): Dtype of the elements. Default: that of `a`.

    Returns:
        array: Of the shape of `a`, all elements 1 (True for bool).

    Raises:
        TypeError: if `a` is no array.

    >>> mx.ones_like(mx.array([1.0, 2.0]))
    array([1, 1], dtype=float32)
    """

def outer(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Products of each element of one array with each element of another.

    Args:
        a (array): First operand; it is flattened.
        b (array): Second operand; it is flattened.

    Returns:
        array: Of shape (elements of `a`, elements of `b`), in the promoted dtype.

    Raises:
        TypeError: if an operand is no array.

    >>> mx.outer(mx.array([1, 2]), mx.array([3, 4]))
    array([[3, 4],
           [6, 8]], dtype=int32)
    """

def pad(a: array, pad_width: int | Sequence[int] | Sequence[tuple[int, int]], mode: str = ..., constant_values: _ArrayLike = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The array with elements added at both ends of its axes.

    What is added is `constant_values` in the mode "constant", the element at the end in "edge", and the
    elements mirrored there in "reflect" (without the one at the end) and "symmetric" (with it).

    Args:
        a (array): Elements, of any shape.
        pad_width (int | Sequence[int] | Sequence[tuple[int, int]]): How many are added: one number for all
            ends, a pair (before, behind) for all axes, or a pair for each axis.
        mode (str, optional): "constant", "edge", "reflect" or "symmetric". Default: "constant".
        constant_values (array | number, optional): What is added in the mode "constant", converted to the
            dtype of `a`. Default: 0.

    Returns:
        array: With longer axes, in the dtype of `a`.

    Raises:
        ValueError: if a width is negative, there are not as many pairs as axes, or the mode is another one.

    >>> mx.pad(mx.array([1, 2]), 1)
    array([0, 1, 2, 0], dtype=int32)
    >>> mx.pad(mx.array([1, 2, 3]), (0, 2), mode="reflect")
    array([1, 2, 3, 2, 1], dtype=int32)
    """

def partition(a: array, /, kth: int, axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The elements rearranged so that the element number `kth` is where sorting would put it.

    None of the elements before it is greater and none behind it is less; otherwise their order is not
    specified. NaN counts as greatest. Cheaper guarantees than those of `sort`, to which it may fall back.

    Args:
        a (array): What is rearranged, of any shape.
        kth (int): Position of the element that gets its place; a negative one counts from the end of the
            axis.
        axis (int, optional): Axis to rearrange along; a negative one counts from the last. None rearranges
            the flattened array. Default: -1.

    Returns:
        array: Of the shape of `a`, or of one axis where `axis` is None, in the dtype of `a`.

    Raises:
        IndexError: if the axis is out of range.
        ValueError: if `kth` is out of range.

    >>> mx.partition(mx.array([2, 1, 3]), 2)[2]
    array(3, dtype=int32)
    """

def permute_dims(a: array, /, axes: Sequence[int] | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The array with its axes in another order: the array API's name of `transpose`.

    Axis i of the result is axis `axes[i]` of `a`. Only the strides change: no data is copied.

    Args:
        a (array): Elements, of any shape.
        axes (Sequence[int], optional): Every axis of `a` once, in the new order; negative ones count from the
            last. Default: None, the reverse order.

    Returns:
        array: With permuted axes, in the dtype of `a`.

    Raises:
        ValueError: if the number of axes is another one or an axis is named twice.
        IndexError: if an axis is out of range.

    >>> mx.permute_dims(mx.zeros((2, 3))).shape
    (3, 2)
    """

def positive(a: array, /, *, stream: _StreamOrDevice = ...) -> array:
    """The array itself: the operator `+` with one operand.

    It exists for programs that choose between functions, as the array API has it. Nothing is computed or
    copied, and gradients pass unchanged.

    Args:
        a (array): Elements of any shape; every dtype.

    Returns:
        array: `a`.

    Raises:
        TypeError: if `a` is no array.

    >>> mx.positive(mx.array([1, -2]))
    array([1, -2], dtype=int32)
    """

def pow(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """First array to the power of the second, element by element.

    Integers wrap around, and negative exponents of integers give 0. Everything to the power of 0 is 1;
    negative numbers to a power that is no integer are NaN. The operator `**` of arrays. Another name of
    `power`.

    Derivatives: `b * power(a, b - where(b == 0, 0, 1))` by `a`, `y * log(where(y == 0, 1, a))` by `b`,
    where `y` is the result.

    Args:
        a (array | number): The first operand: every dtype. A Python number adapts to the dtype of the
            other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is the promoted dtype of both
            (see `result_type`).

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.

    >>> mx.power(mx.array([2, 3]), mx.array([3, 2]))
    array([8, 9], dtype=int32)
    """

def power(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """First array to the power of the second, element by element.

    Integers wrap around, and negative exponents of integers give 0. Everything to the power of 0 is 1;
    negative numbers to a power that is no integer are NaN. The operator `**` of arrays. Also called
    `pow`.

    Derivatives: `b * power(a, b - where(b == 0, 0, 1))` by `a`, `y * log(where(y == 0, 1, a))` by `b`,
    where `y` is the result.

    Args:
        a (array | number): The first operand: every dtype. A Python number adapts to the dtype of the
            other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is the promoted dtype of both
            (see `result_type`).

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.

    >>> mx.power(mx.array([2, 3]), mx.array([3, 2]))
    array([8, 9], dtype=int32)
    """

def printoptions(precision: int = ...) -> _PrintOptionsContext:
    """A context in which arrays print in another way.

    At the end of the block the options are as before.

    Args:
        precision (int, optional): Number of decimals, or -1 for as many as are needed, up to six significant
            digits. Default: -1.

    Returns:
        _PrintOptionsContext: For a `with` statement.

    Raises:
        TypeError: if it is no integer.

    >>> with mx.printoptions(precision=1):
    ...     print(mx.array(3.14159))
    array(3.1, dtype=float32)
    """

def prod(a: array, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Product of the elements over one axis, several, or all.

    bool, int8 and int16 are multiplied as int32, uint8 and uint16 as uint32; products of integers wrap
    around. NaN stays NaN, the product of no elements is 1.

    Args:
        a (array): What is reduced, of any shape.
        axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
            takes all. Default: None.
        keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.

    Returns:
        array: Products, in the shape of `a` without the reduced axes; int32, uint32 or the dtype of `a`.

    Raises:
        IndexError: if an axis is out of range.
        ValueError: if an axis is named twice.

    >>> mx.prod(mx.array([2, 3, 4]))
    array(24, dtype=int32)
    """

def put_along_axis(a: array, /, indices: int | array, values: Any, axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """A copy of an array with values written along an axis at indices that differ from place to place.

    The counterpart of `take_along_axis`. Negative indices count from the end; values for others out of range
    are dropped, and of several values for one element the last one stays. Gradients flow to `a`, where it was
    not overwritten, and to the values.

    Args:
        a (array): What is copied.
        indices (array): Positions of an integer dtype, with as many axes as `a`; axes but `axis` broadcast.
        values (array): What is written, broadcast to the shape of the indices and converted to the dtype of
            `a`.
        axis (int, optional): Axis of the positions; a negative one counts from the last. Default: None, the
            flattened array.

    Returns:
        array: Of the shape and dtype of `a`.

    Raises:
        ValueError: if the shapes do not fit.
        RuntimeError: if the indices are not integers.
        IndexError: if the axis is out of range.

    >>> mx.put_along_axis(mx.array([[5, 6], [7, 8]]), mx.array([[1], [0]]), mx.array(9), axis=1)
    array([[5, 9],
           [9, 8]], dtype=int32)
    """

def qqmm(x: array, w: array, scales: array | None = ..., group_size: int | None = ..., bits: int | None = ..., mode: str = ..., global_scale_x: Any = ..., global_scale_w: Any = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Product `x @ w.T` of operands that are both rounded to a floating format of few bits.

    `x` is quantised on the way, and so is `w` unless it holds codes already. Gradients pass the rounding as
    they are.

    Args:
        x (array): Left operand, (..., m, k), of a real floating dtype.
        w (array): Matrix, (n, k), or its codes.
        scales (array, optional): Scales of the groups, where `w` holds codes. Default: None.
        group_size (int, optional): Elements that share a scale. Default: None, that of the mode.
        bits (int, optional): Bits of a code. Default: None, those of the mode.
        mode (str, optional): "nvfp4", "mxfp8" or "mxfp4". Default: "nvfp4".
        global_scale_x (array, optional): A float32 scalar that `x` is divided by, for "nvfp4" alone. Default:
            None.
        global_scale_w (array, optional): The same for `w`. Default: None.

    Returns:
        array: Products, (..., m, n), in the dtype of `x`.

    Raises:
        ValueError: if shapes, dtypes or numbers do not fit the mode.

    >>> mx.qqmm(mx.ones((3, 64)), mx.ones((2, 64))).shape
    (3, 2)
    """

def quantize(w: array, /, group_size: int | None = ..., bits: int | None = ..., mode: str = ..., *, global_scale: array | None = ..., stream: _StreamOrDevice = ...) -> list[array]:
    """Quantises matrices: elements of a group along the last axis become codes of few bits that share a scale.

    In the mode "affine" a code q stands for `scale * q + bias`, where scale and bias map the range of the
    group to the codes. The others are floating formats of the OCP MX specification (scales are powers of two)
    and NVFP4:

        mode      group_size     bits                       scales
        affine    32, 64, 128    1, 2, 3, 4, 5, 6, 8        dtype of w, and biases
        mxfp4     32             4 (E2M1)                   uint8 (E8M0)
        mxfp8     32             8 (E4M3)                   uint8 (E8M0)
        nvfp4     16             4 (E2M1)                   uint8 (E4M3)

    Args:
        w (array): Matrices, (..., m, n), of a real floating dtype; groups divide n.
        group_size (int, optional): Elements that share a scale. Default: None, 64 or the only one of the
            mode.
        bits (int, optional): Bits of a code. Default: None, 4 or the only number of the mode.
        mode (str, optional): "affine", "mxfp4", "mxfp8" or "nvfp4". Default: "affine".
        global_scale (array, optional): A float32 scalar that all elements are divided by first, for "nvfp4"
            alone. Default: None.

    Returns:
        list[array]: Codes packed into uint32, (..., m, n * bits / 32), scales, (..., m, n /
            group_size), and in the mode "affine" biases of that shape.

    Raises:
        ValueError: if the numbers do not belong to the mode, groups do not divide the last axis, there are
            fewer than two axes, or the dtype is another one.

    >>> w_q, scales, biases = mx.quantize(mx.ones((2, 64)))
    >>> w_q.shape, scales.shape
    ((2, 8), (2, 1))
    """

def quantized_matmul(x: array, w: array, /, scales: array | None, biases: array | None = ..., transpose: bool = ..., group_size: int | None = ..., bits: int | None = ..., mode: str = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Product of an array with quantised matrices, which are decoded on the way.

    `x @ w.T`, or without `transpose` `x @ w`. Sums are float32. The batches of both broadcast. Gradients flow
    to `x`, and to scales and biases.

    Args:
        x (array): Left operand, (..., m, k), of a real floating dtype.
        w (array): Codes of `quantize`, of matrices (..., n, k), or (..., k, n) without `transpose`.
        scales (array): Scales of the groups.
        biases (array, optional): Biases of the groups, in the mode "affine". Default: None.
        transpose (bool, optional): Whether the matrices are transposed, so that groups lie along the sums.
            Default: True.
        group_size (int, optional): Elements that share a scale. Default: None, 64 or the only one of the mode.
        bits (int, optional): Bits of a code. Default: None, 4 or the only number of the mode.
        mode (str, optional): "affine", "mxfp4", "mxfp8" or "nvfp4". Default: "affine".

    Returns:
        array: Products, (..., m, n), in the dtype of `x`.

    Raises:
        ValueError: if shapes, dtypes or numbers do not fit.

    >>> mx.quantized_matmul(mx.ones((3, 64)), *mx.quantize(mx.ones((2, 64)))).shape
    (3, 2)
    """

def radians(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Angle in radians of each angle in degrees.

    Each element is multiplied by pi / 180.

    Derivative: `0.017453292519943295`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.radians(mx.array([0.0]))
    array([0], dtype=float32)
    """

def real(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Real part of each element.

    Elements of every dtype but complex64 are real already and are returned unchanged.

    Args:
        a (array | number): Elements of any shape: every dtype.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            complex64.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.real(mx.array([1 + 2j]))
    array([1], dtype=float32)
    """

def reciprocal(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """One over each element.

    Zero gives infinity with the sign of the zero, an infinity gives zero with its sign.

    Derivative: `-(y * y)`, where `y` is the result.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.reciprocal(mx.array([4.0]))
    array([0.25], dtype=float32)
    """

def remainder(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Remainder of the division of two arrays, with the sign of the divisor.

    It belongs to the quotient that is rounded down: `a == floor(a / b) * b + remainder`. Integers
    divided by zero leave the dividend, floats NaN. The operator `%` of arrays.

    Derivatives: `1` by `a`, `-floor(a / b)` by `b`.

    Args:
        a (array | number): The first operand: every dtype but complex64. A Python number adapts to the
            dtype of the other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is the promoted dtype of both
            (see `result_type`).

    Raises:
        ValueError: if an operand is neither an array nor a number, an operand is complex or the shapes
            do not broadcast.

    >>> mx.remainder(mx.array([7, -7]), mx.array([3, 3]))
    array([1, 2], dtype=int32)
    """

def repeat(array: _ArrayLike, repeats: int, axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Every element several times in a row.

    For the whole array several times see `tile`. The gradient adds up over the repetitions.

    Args:
        array (array): Elements, of any shape.
        repeats (int): How often each appears, 0 included.
        axis (int, optional): Axis along which elements are repeated; a negative one counts from the last.
            Default: None, the flattened array.

    Returns:
        array: With `axis` longer by the factor `repeats`, or of one axis; the dtype stays.

    Raises:
        ValueError: if `repeats` is negative.
        IndexError: if the axis is out of range.

    >>> mx.repeat(mx.array([1, 2]), 2)
    array([1, 1, 2, 2], dtype=int32)
    """

def reset_peak_memory() -> None:
    """Starts the peak of `get_peak_memory` again from the bytes that are active now.

    Returns:
        None

    >>> mx.reset_peak_memory()
    """

def reshape(a: array, /, shape: Sequence[int], *, stream: _StreamOrDevice = ...) -> array:
    """The elements of an array in row-major order in another shape.

    No data is copied where the elements lie in memory in that order; else the result is a copy.

    Args:
        a (array): Elements, of any shape.
        shape (Sequence[int]): Lengths of the new axes, whose product is the number of elements. One of them
            may be -1 and is then inferred from the others.

    Returns:
        array: Of the new shape, in the dtype of `a`.

    Raises:
        ValueError: if the shape has another number of elements, or more than one -1.

    >>> mx.reshape(mx.arange(4), (2, -1))
    array([[0, 1],
           [2, 3]], dtype=int32)
    """

def result_type(*arrays_and_dtypes: array | Dtype) -> Dtype:
    """The dtype that arrays and dtypes are promoted to.

    That is the smallest one that holds all of them by kind: bool, integers, floats, complex numbers. An
    integer and a float give the float's dtype, float16 and bfloat16 give float32.

    Args:
        arrays_and_dtypes (array | Dtype): One or more.

    Returns:
        Dtype: The common dtype.

    Raises:
        ValueError: if there are none, or something else is given.

    >>> mx.result_type(mx.int32, mx.float16)
    mlx.core.float16
    >>> mx.result_type(mx.array([1]), mx.bool_)
    mlx.core.int32
    """

def right_shift(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Bits of the first array moved down by the second, element by element.

    Signed numbers keep their sign, so that it is a division by a power of two rounded down. The count
    should be less than the number of bits. The operator `>>` of arrays. Also called
    `bitwise_right_shift`.

    Args:
        a (array | number): The first operand: integers, and bool, which counts as uint8. A Python
            number adapts to the dtype of the other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is the promoted dtype of both
            (see `result_type`), or uint8 for bool.

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.
        RuntimeError: if an operand is floating or complex.

    >>> mx.right_shift(mx.array([16, -8]), mx.array([4, 1]))
    array([1, -4], dtype=int32)
    """

def roll(a: array, /, shift: int | Sequence[int], axis: int | Sequence[int] | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The elements shifted along axes; those that leave at one end enter at the other.

    Args:
        a (array): Elements, of any shape.
        shift (int | Sequence[int]): How many places towards the end; negative for the other way. Several
            numbers go with the axes one by one, and add up where there is only one axis.
        axis (int | Sequence[int], optional): Axes to shift along; negative ones count from the last. Default:
            None, the flattened array, whose shape is restored.

    Returns:
        array: Of the shape and dtype of `a`.

    Raises:
        IndexError: if an axis is out of range.
        ValueError: if there are fewer shifts than axes.

    >>> mx.roll(mx.array([1, 2, 3]), 1)
    array([3, 1, 2], dtype=int32)
    >>> mx.roll(mx.array([[1, 2], [3, 4]]), 1, axis=0)
    array([[3, 4],
           [1, 2]], dtype=int32)
    """

def round(a: _ArrayLike, /, decimals: int = ..., stream: _StreamOrDevice = ...) -> array:
    """Each element rounded to a number of digits.

    Halves go to the even neighbour. The parts of complex numbers are rounded separately; integers change only
    for negative `decimals`. NaN and infinities stay themselves, and the derivative counts as zero.

    Args:
        a (array | number): Elements of any shape; every dtype.
        decimals (int, optional): Digits after the point; negative ones are before it, -2 rounds to hundreds.
            Default: 0.

    Returns:
        array: Of the shape and dtype of `a`.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.round(mx.array([1.26, 2.5]), 1)
    array([1.3, 2.5], dtype=float32)
    >>> mx.round(mx.array([0.5, 1.5, 2.7]))
    array([0, 2, 3], dtype=float32)
    """

def rsqrt(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """One over the square root of each element.

    Zero gives infinity with the sign of the zero, infinity gives 0 and negative numbers give NaN.
    Cheaper than `1 / sqrt(a)`.

    Derivative: `-0.5 * y / a`, where `y` is the result.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.rsqrt(mx.array([4.0]))
    array([0.5], dtype=float32)
    """

def save(file: Any, arr: Any) -> None:
    """Saves an array as an npy file, which NumPy reads too.

    `.npy` is appended to a path that lacks it. An existing file is replaced once the new one is complete.
    bfloat16, which NumPy does not have, is stored as void elements of two bytes.

    Args:
        file (str | Path | object): A path, or an object with `write`.
        arr (array): What is saved.

    Returns:
        None

    Raises:
        RuntimeError: if the file cannot be written.
        ValueError: if `file` is something else.
        TypeError: if `arr` is no array.

    >>> import io; f = io.BytesIO(); mx.save(f, mx.array([1, 2]))
    >>> f.getvalue()[:6]
    b'\\x93NUMPY'
    """

def save_gguf(file: Any, arrays: Sequence[array], metadata: dict[str, str] | None = ...) -> None:
    """Saves a dict of arrays as a GGUF file, the format of llama.cpp.

    `.gguf` is appended to a path that lacks it.

    Args:
        file (str | Path): A path.
        arrays (dict[str, array]): Arrays by name, of dtype float32, float16, int8, int16 or int32.
        metadata (dict, optional): Values by name: strings, lists of strings, or arrays of at most one axis.
            Default: None.

    Returns:
        None

    Raises:
        RuntimeError: if the file cannot be written, or a dtype does not exist in the format.
        ValueError: if `file`, an array or a value is something else.

    >>> import tempfile, os
    >>> with tempfile.TemporaryDirectory() as d:
    ...     mx.save_gguf(os.path.join(d, "m"), {"a": mx.array([1.0])}, {"name": "m"})
    ...     mx.load(os.path.join(d, "m.gguf"), return_metadata=True)
    ({'a': array([1], dtype=float32)}, {'name': 'm'})
    """

def save_safetensors(file: Any, arrays: dict[str, array], metadata: dict[str, str] | None = ...) -> None:
    """Saves a dict of arrays as a safetensors file.

    `.safetensors` is appended to a path that lacks it. An existing file is replaced once the new one is
    complete.

    Args:
        file (str | Path | object): A path, or an object with `write`.
        arrays (dict[str, array]): Arrays by name.
        metadata (dict[str, str], optional): Texts to keep beside them. Default: None.

    Returns:
        None

    Raises:
        RuntimeError: if the file cannot be written, or a dtype (float64) does not exist in the format.
        ValueError: if `file` or an array is something else.

    >>> import io; f = io.BytesIO(); mx.save_safetensors(f, {"a": mx.array([1])}, {"k": "v"}); _ = f.seek(0)
    >>> mx.load(f, format="safetensors", return_metadata=True)
    ({'a': array([1], dtype=int32)}, {'k': 'v'})
    """

def savez(file: Any, *args: Any, **kwargs: Any) -> None:
    """Saves arrays as the members of an npz file, which NumPy reads too.

    `.npz` is appended to a path that lacks it. An existing file is replaced once the new one is complete.

    Args:
        file (str | Path | object): A path, or an object with `write`.
        args (array): Arrays that are named `arr_0`, `arr_1` and so on.
        kwargs (array): Arrays that are saved under their keywords.

    Returns:
        None

    Raises:
        RuntimeError: if the file cannot be written.
        ValueError: if something else than arrays is given, or a name appears twice.

    >>> import io; f = io.BytesIO(); mx.savez(f, mx.array(1), b=mx.array(2))
    >>> sorted(mx.load(f, format="npz"))
    ['arr_0', 'b']
    """

def savez_compressed(file: Any, *args: Any, **kwargs: Any) -> None:
    """Saves arrays as the compressed members of an npz file, which NumPy reads too.

    As `savez`, with each member deflated: smaller files that take longer to write and to read.

    Args:
        file (str | Path | object): A path, or an object with `write`.
        args (array): Arrays that are named `arr_0`, `arr_1` and so on.
        kwargs (array): Arrays that are saved under their keywords.

    Returns:
        None

    Raises:
        RuntimeError: if the file cannot be written.
        ValueError: if something else than arrays is given, or a name appears twice.

    >>> import io; f = io.BytesIO(); mx.savez_compressed(f, a=mx.zeros((1000,)))
    >>> len(f.getvalue()) < 1000
    True
    """

def searchsorted(sorted_sequence: Any, values: Any, /, side: str = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Where values would go in a sorted sequence so that it stays sorted.

    For the side "left" it is the first such position, before elements that are equal to the value; for
    "right" the last one, behind them. NaN counts as greatest. Found by bisection; that the sequence is sorted
    is not checked.

    Args:
        sorted_sequence (array): Elements in ascending order, of one axis.
        values (array): What is looked for, of any shape.
        side (str, optional): "left" or "right". Default: "left".

    Returns:
        array: uint32 positions from 0 to the length of the sequence, in the shape of `values`.

    Raises:
        ValueError: if the sequence has not one axis or the side is another one.

    >>> mx.searchsorted(mx.array([1, 2, 2, 4]), mx.array([2, 5]))
    array([1, 4], dtype=uint32)
    >>> mx.searchsorted(mx.array([1, 2, 2, 4]), mx.array([2, 5]), side="right")
    array([3, 4], dtype=uint32)
    """

def segmented_mm(a: _ArrayLike, b: _ArrayLike, /, segments: Any, *, stream: _StreamOrDevice = ...) -> array:
    """Matrix products of two matrices over parts of the inner axis.

    For the part (start, end) it is `a[:, start:end] @ b[start:end]`. Parts may overlap or be empty, and are
    held inside the axis. No gradient flows to the parts.

    Args:
        a (array): Matrix, (m, k), of a real floating dtype.
        b (array): Matrix, (k, n).
        segments (array): Parts, (..., 2), of an integer dtype.

    Returns:
        array: Products, (..., m, n), in the promoted dtype.

    Raises:
        ValueError: if the shapes do not fit, the parts are not integers, or the dtype is not a real floating
            one.

    >>> mx.segmented_mm(mx.ones((1, 4)), mx.ones((4, 1)), mx.array([[0, 1], [1, 4]])).tolist()
    [[[1.0]], [[3.0]]]
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

def set_default_device(device: Device | DeviceType) -> None:
    """Sets the device on which operations run that name no stream.

    Args:
        device (Device | DeviceType): The device.

    Returns:
        None

    Raises:
        ValueError: if there is no such device.

    >>> mx.set_default_device(mx.default_device())
    """

def set_default_stream(stream: Stream) -> None:
    """Makes a stream the one of its device that operations use which name none.

    It holds for all threads.

    Args:
        stream (Stream): The stream.

    Returns:
        None

    Raises:
        TypeError: if it is no stream.

    >>> mx.set_default_stream(mx.default_stream(mx.cpu))
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

def set_printoptions(precision: int = ...) -> None:
    """Sets how arrays print from now on.

    Args:
        precision (int, optional): Number of decimals, or -1 for as many as are needed, up to six significant
            digits. Default: -1.

    Returns:
        None

    Raises:
        TypeError: if it is no integer.

    >>> mx.set_printoptions(precision=2)
    >>> mx.array(3.14159)
    array(3.14, dtype=float32)
    >>> mx.set_printoptions()
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

def sigmoid(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Logistic function of each element, `1 / (1 + exp(-a))`.

    The result lies in [0, 1] and is computed without overflow; infinities give the ends.

    Derivative: `y * (1 - y)`, where `y` is the result.

    Args:
        a (array | number): Elements of any shape: every dtype but complex64, integers and bool in
            float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number or `a` is complex.

    >>> mx.sigmoid(mx.array([0.0]))
    array([0.5], dtype=float32)
    """

def sign(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Sign of each element: -1, 0 or 1.

    For complex numbers it is `a / abs(a)`, a number of magnitude one, and 0 at 0. Both zeros give 0,
    and so does NaN.

    Its derivative counts as zero.

    Args:
        a (array | number): Elements of any shape: every dtype.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.sign(mx.array([-3.0, 0.0, 2.0]))
    array([-1, 0, 1], dtype=float32)
    """

def sin(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Sine of each element, an angle in radians.

    Large angles are reduced exactly, so that the precision does not depend on them. Infinities give
    NaN.

    Derivative: `cos(a)`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.sin(mx.array([0.0]))
    array([0], dtype=float32)
    """

def sinh(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Hyperbolic sine of each element, `(exp(a) - exp(-a)) / 2`.

    The result keeps its precision near zero, where the formula loses digits, and overflows to an
    infinity with the sign of the element.

    Derivative: `cosh(a)`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.sinh(mx.array([0.0]))
    array([0], dtype=float32)
    """

def slice(a: array, start_indices: Any, axes: Sequence[int] | None, slice_size: Sequence[int], *, stream: _StreamOrDevice = ...) -> array:
    """A part of an array that begins where another array says.

    The start may be computed without being known when the graph is built, and the size is fixed. A negative
    start counts from the end, and a start is held where the part fits. For constant bounds index: `a[1:3]`.

    Args:
        a (array): Where the part is taken from.
        start_indices (array): Where it begins, one integer for each of `axes`.
        axes (Sequence[int]): Axes that the starts belong to; the part begins at 0 on all others.
        slice_size (Sequence[int]): Shape of the part, one length for each axis of `a`.

    Returns:
        array: Of shape `slice_size`, in the dtype of `a`.

    Raises:
        ValueError: if the part is larger than `a`, an axis is named twice, or the starts are not integers.
        IndexError: if an axis is out of range.

    >>> mx.slice(mx.array([5, 6, 7]), mx.array([1]), (0,), (2,))
    array([6, 7], dtype=int32)
    """

def slice_update(a: array, update: Any, start_indices: Any, axes: Sequence[int] | None, *, stream: _StreamOrDevice = ...) -> array:
    """A copy of an array with a part of it replaced, where another array says.

    The start may be computed without being known when the graph is built. A negative start counts from the
    end, and a start is held where the part fits. Gradients flow to the update and to what was not replaced.

    Args:
        a (array): What is copied.
        update (array): What is written, converted to the dtype of `a`; axes that it lacks in front have
            length one.
        start_indices (array): Where it begins, one integer for each of `axes`.
        axes (Sequence[int]): Axes that the starts belong to; the part begins at 0 on all others.

    Returns:
        array: Of the shape and dtype of `a`.

    Raises:
        ValueError: if the update is larger than `a`, an axis is named twice, or the starts are not integers.
        IndexError: if an axis is out of range.

    >>> mx.slice_update(mx.zeros(3), mx.array([6, 7]), mx.array([1]), (0,))
    array([0, 6, 7], dtype=float32)
    """

def softmax(a: array, /, axis: int | Sequence[int] | None = ..., *, precise: bool = ..., stream: _StreamOrDevice = ...) -> array:
    """Exponentials of the elements divided by their sum over one axis, several, or all.

    The results over the axes are positive and add up to 1. The largest element is subtracted first, so that
    nothing overflows. Integers and bool are computed in float32.

    Args:
        a (array): Scores, of any shape.
        axis (int | Sequence[int], optional): Axis or axes to sum over; negative ones count from the last.
            None takes all. Default: None.
        precise (bool, optional): Whether half floats are computed in float32 and rounded at the end. Default:
            False.

    Returns:
        array: Of the shape of `a`; float32 for integers and bool, else the dtype of `a`.

    Raises:
        IndexError: if an axis is out of range.
        ValueError: if an axis is named twice.

    >>> mx.softmax(mx.array([[0.0, 0.0], [1000.0, 0.0]]), axis=1)
    array([[0.5, 0.5],
           [1, 0]], dtype=float32)
    """

def sort(a: array, /, axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The elements in ascending order along an axis.

    NaN comes last. Complex numbers are ordered by their real parts, then by their imaginary parts. The
    gradient goes back to where each element came from. See `argsort` for the indices.

    Args:
        a (array): What is sorted, of any shape.
        axis (int, optional): Axis to sort along; a negative one counts from the last. None sorts the
            flattened array. Default: -1.

    Returns:
        array: Of the shape of `a`, or of one axis where `axis` is None, in the dtype of `a`.

    Raises:
        IndexError: if the axis is out of range.

    >>> mx.sort(mx.array([[3, 1, 2], [4, 6, 5]]))
    array([[1, 2, 3],
           [4, 5, 6]], dtype=int32)
    """

def split(a: array, /, indices_or_sections: int | Sequence[int], axis: int = ..., *, stream: _StreamOrDevice = ...) -> list[array]:
    """Cuts an array into parts along an axis.

    No data is copied. `concatenate` is the inverse.

    Args:
        a (array): Elements, with at least one axis.
        indices_or_sections (int | Sequence[int]): How many equal parts, or the positions at which to cut;
            positions beyond the end give empty parts.
        axis (int, optional): Axis to cut; a negative one counts from the last. Default: 0.

    Returns:
        list[array]: The parts in order, in the dtype of `a`.

    Raises:
        ValueError: if the axis does not divide into so many parts, or their number is not positive.
        IndexError: if the axis is out of range.

    >>> mx.split(mx.arange(4), 2)
    [array([0, 1], dtype=int32), array([2, 3], dtype=int32)]
    >>> mx.split(mx.arange(4), [1])
    [array([0], dtype=int32), array([1, 2, 3], dtype=int32)]
    """

def sqrt(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Square root of each element.

    Negative numbers give NaN, minus zero gives minus zero; for complex numbers the root with a real
    part that is not negative is taken.

    Derivative: `0.5 / y`, where `y` is the result.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.sqrt(mx.array([4.0]))
    array([2], dtype=float32)
    """

def square(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Each element times itself.

    Integers wrap around where the square does not fit; a large float overflows to infinity. Cheaper
    than `power(a, 2)`.

    Derivative: `2 * a`.

    Args:
        a (array | number): Elements of any shape: every dtype.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.square(mx.array([2.0, -3.0]))
    array([4, 9], dtype=float32)
    """

def squeeze(a: array, /, axis: int | Sequence[int] | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The array without axes of length one.

    No data is copied. `expand_dims` is the inverse.

    Args:
        a (array): Elements, of any shape.
        axis (int | Sequence[int], optional): Axes to remove, each of length one; negative ones count from the
            last. Default: None, all axes of length one.

    Returns:
        array: Without these axes, in the dtype of `a`.

    Raises:
        ValueError: if an axis has another length or is named twice.
        IndexError: if an axis is out of range.

    >>> mx.squeeze(mx.zeros((1, 3, 1))).shape
    (3,)
    >>> mx.squeeze(mx.zeros((1, 3, 1)), 0).shape
    (3, 1)
    """

def stack(arrays: Sequence[array], axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Joins arrays of one shape along a new axis.

    The arrays are promoted to a common dtype. `unstack` is the inverse; see `concatenate` for an axis that
    exists.

    Args:
        arrays (Sequence[array]): At least one array; all have the same shape.
        axis (int, optional): Where the new axis is in the result; a negative position counts from its last
            axis. Default: 0.

    Returns:
        array: With one more axis, as long as the number of arrays, in their promoted dtype.

    Raises:
        ValueError: if there are no arrays, or their shapes differ.
        IndexError: if the axis is out of range.

    >>> mx.stack([mx.array([1, 2]), mx.array([3, 4])])
    array([[1, 2],
           [3, 4]], dtype=int32)
    """

def std(a: array, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., ddof: int = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Standard deviation of the elements over one axis, several, or all: the square root of `var`.

    The sum of squares is divided by the number of elements less `ddof`; where that is not positive the result
    is NaN or infinite. Integers and bool are computed in float32.

    Args:
        a (array): What is reduced, of any shape.
        axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
            takes all. Default: None.
        keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.
        ddof (int, optional): What the divisor is less than the number of elements; 1 for a sample. Default:
            0.

    Returns:
        array: Deviations, in the shape of `a` without the reduced axes; float32 for integers and bool, else
            the dtype of `a`.

    Raises:
        IndexError: if an axis is out of range.
        ValueError: if an axis is named twice.

    >>> mx.std(mx.array([1.0, 3.0]))
    array(1, dtype=float32)
    """

def stop_gradient(a: array, /, *, stream: _StreamOrDevice = ...) -> array:
    """The array itself, through which no gradient flows.

    To transforms it is a constant. Nothing is computed or copied.

    Args:
        a (array): Elements of any shape and dtype.

    Returns:
        array: `a`, whose derivative counts as zero.

    Raises:
        TypeError: if `a` is no array.

    >>> mx.grad(lambda x: x * mx.stop_gradient(x))(mx.array(3.0))
    array(3, dtype=float32)
    """

def stream(s: Stream | ThreadLocalStream | Device | DeviceType) -> StreamContext:
    """A context in which operations run on a stream or a device unless they name another one.

    The default device and its default stream are restored at the end of the block.

    Args:
        s (Stream | ThreadLocalStream | Device | DeviceType): Where operations run.

    Returns:
        StreamContext: For a `with` statement.

    Raises:
        TypeError: if `s` is something else.
        ValueError: if there is no such device.

    >>> with mx.stream(mx.cpu):
    ...     print(mx.default_device())
    Device(cpu, 0)
    """

def subtract(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Difference of two arrays, element by element.

    Integers wrap around, unsigned ones below zero; for bool it is the exclusive or. The operator `-` of
    arrays.

    Derivatives: `1` by `a`, `-1` by `b`.

    Args:
        a (array | number): The first operand: every dtype. A Python number adapts to the dtype of the
            other operand.
        b (array | number): The second operand, whose shape broadcasts with that of `a`.

    Returns:
        array: One element for each, in the broadcast shape. Its dtype is the promoted dtype of both
            (see `result_type`).

    Raises:
        ValueError: if an operand is neither an array nor a number or the shapes do not broadcast.

    >>> mx.subtract(mx.array([5, 2]), mx.array([3, 4]))
    array([2, -2], dtype=int32)
    """

def sum(a: array, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Sum of the elements over one axis, several, or all.

    bool, int8 and int16 are summed as int32, uint8 and uint16 as uint32, half floats with float32 sums
    that are rounded at the end; sums of integers wrap around. NaN stays NaN, the sum of no elements is 0.

    Args:
        a (array): What is reduced, of any shape.
        axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
            takes all. Default: None.
        keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.

    Returns:
        array: Sums, in the shape of `a` without the reduced axes; int32, uint32 or the dtype of `a`.

    Raises:
        IndexError: if an axis is out of range.
        ValueError: if an axis is named twice.

    >>> mx.sum(mx.array([[1, 2], [3, 4]]), axis=0)
    array([4, 6], dtype=int32)
    """

def swapaxes(a: array, /, axis1: int, axis2: int, *, stream: _StreamOrDevice = ...) -> array:
    """The array with two axes swapped.

    Only the strides change: no data is copied. See `transpose` for other orders and `moveaxis` to keep that
    of the others.

    Args:
        a (array): Elements, of any shape.
        axis1 (int): One axis; a negative one counts from the last.
        axis2 (int): The other axis, which may be the same.

    Returns:
        array: With the two axes swapped, in the dtype of `a`.

    Raises:
        IndexError: if an axis is out of range.

    >>> mx.swapaxes(mx.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """

def synchronize(stream: _StreamOrDevice = ...) -> None:
    """Waits until the work of a stream is finished.

    Only what was submitted is waited for: an array that nobody has evaluated stays as it is.

    Args:
        stream (Stream | ThreadLocalStream | Device | DeviceType, optional): The stream. Default: None, the
            current one.

    Returns:
        None

    Raises:
        RuntimeError: if work of the stream failed and nobody was told of it yet. The error comes once, here or
            at the next `eval` on the stream, and again whenever an array that failed is read.

    >>> mx.synchronize(mx.cpu)
    """

def take(a: array, /, indices: int | array, axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Elements picked by index along an axis or in the flattened array.

    Negative indices count from the end. Indices in an array are not checked while computing: those out of
    range are held at the ends of the axis. The gradient adds up where an element is picked several times, and
    no gradient flows to indices.

    Args:
        a (array): Where elements are picked from.
        indices (int | array): Positions, of any shape and an integer dtype.
        axis (int, optional): Axis of the positions; a negative one counts from the last. Default: None, the
            flattened array.

    Returns:
        array: Of the shape of `a` with the axes of `indices` in the place of `axis`, in the dtype of `a`.

    Raises:
        ValueError: if the indices are not integers, or elements are taken from an empty axis.
        IndexError: if the axis is out of range.

    >>> mx.take(mx.array([5, 6, 7]), mx.array([2, 0]))
    array([7, 5], dtype=int32)
    >>> mx.take(mx.array([[1, 2], [3, 4]]), 1, axis=1)
    array([2, 4], dtype=int32)
    """

def take_along_axis(a: array, /, indices: int | array, axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Elements picked along an axis by indices that differ from place to place.

    Element (i, j) of the result is `a[i, indices[i, j]]` for the axis 1 of matrices: what `argsort` and
    `argmax` return can be applied so. Negative indices count from the end; others out of range are held at
    the ends of the axis. No gradient flows to indices.

    Args:
        a (array): Where elements are picked from.
        indices (array): Positions of an integer dtype, with as many axes as `a`; axes but `axis` broadcast.
        axis (int, optional): Axis of the positions; a negative one counts from the last. None takes the
            flattened array and indices of one axis. Default: -1.

    Returns:
        array: Of the broadcast shape with the length of `indices` along `axis`, in the dtype of `a`.

    Raises:
        ValueError: if the shapes do not fit.
        RuntimeError: if the indices are not integers.
        IndexError: if the axis is out of range.

    >>> mx.take_along_axis(mx.array([[5, 6], [7, 8]]), mx.array([[1], [0]]), axis=1)
    array([[6],
           [7]], dtype=int32)
    """

def tan(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Tangent of each element, an angle in radians.

    Large angles are reduced exactly, so that the precision does not depend on them. Infinities give
    NaN.

    Derivative: `1 + y * y`, where `y` is the result.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.tan(mx.array([0.0]))
    array([0], dtype=float32)
    """

def tanh(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Hyperbolic tangent of each element, in [-1, 1].

    The result keeps its precision near zero; infinities give -1 and 1.

    Derivative: `square(1 / cosh(a))`.

    Args:
        a (array | number): Elements of any shape: every dtype, integers and bool in float32.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`, or float32 for
            integers and bool.

    Raises:
        ValueError: if `a` is neither an array nor a number.

    >>> mx.tanh(mx.array([0.0]))
    array([0], dtype=float32)
    """

def tensordot(a: _ArrayLike, b: _ArrayLike, /, axes: int | list[Sequence[int]] = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Sums of products over axes of two arrays.

    The axes are those of both arrays pair by pair; what is left comes in order, first that of `a`. Computed
    as one matrix product.

    Args:
        a (array): First operand.
        b (array): Second operand.
        axes (int | list[Sequence[int]], optional): How many axes, the last ones of `a` with the first ones of
            `b`; or the axes of `a` and those of `b`. Default: 2.

    Returns:
        array: In the promoted dtype.

    Raises:
        ValueError: if the lengths of a pair differ, the lists have other lengths, or the number is negative
            or larger than that of the axes.

    >>> mx.tensordot(mx.ones((2, 3)), mx.ones((3, 2)), 1)
    array([[3, 3],
           [3, 3]], dtype=float32)
    >>> mx.tensordot(mx.ones((2, 3)), mx.ones((2, 3)), [[0], [0]]).shape
    (3, 3)
    """

def tile(a: _ArrayLike, reps: int | Sequence[int], /, *, stream: _StreamOrDevice = ...) -> array:
    """The whole array several times along its axes.

    For each element several times in a row see `repeat`.

    Args:
        a (array): Elements, of any shape.
        reps (int | Sequence[int]): How often along each axis, the last number for the last axis. Missing
            numbers count as 1, and so do missing axes.

    Returns:
        array: With axes longer by these factors, in the dtype of `a`.

    Raises:
        ValueError: if a number is negative.

    >>> mx.tile(mx.array([1, 2]), 2)
    array([1, 2, 1, 2], dtype=int32)
    >>> mx.tile(mx.array([1, 2]), (2, 1)).shape
    (2, 2)
    """

def to_fp8(x: array, *, stream: _StreamOrDevice = ...) -> array:
    """Rounds elements to 8-bit floats of the format E4M3: four bits of exponent, three of fraction.

    Halves go to the even neighbour. The format has neither infinities nor numbers beyond 448: what is larger
    becomes 448 and keeps its sign. See "FP8 Formats for Deep Learning" (Micikevicius et al. 2022, arXiv
    2209.05433).

    Args:
        x (array): Elements of any shape and a real floating dtype.

    Returns:
        array: uint8 codes, in the shape of `x`.

    Raises:
        ValueError: if the dtype is not a real floating one.

    >>> mx.to_fp8(mx.array([1.0, 448.0]))
    array([56, 126], dtype=uint8)
    """

def topk(a: array, /, k: int, axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The `k` largest elements along an axis or of the flattened array.

    They come in no particular order: use `sort` on the result where that matters, `argpartition` for the
    indices. NaN counts as greatest.

    Args:
        a (array): Elements, of any shape.
        k (int): How many are taken, 0 included.
        axis (int, optional): Axis to choose along; a negative one counts from the last. None takes the
            flattened array. Default: -1.

    Returns:
        array: Of the shape of `a` with `axis` of length `k`, in the dtype of `a`.

    Raises:
        IndexError: if the axis is out of range.
        ValueError: if `k` is negative or larger than the length of the axis.

    >>> mx.sort(mx.topk(mx.array([5, 1, 9, 7]), 2))
    array([7, 9], dtype=int32)
    """

def trace(a: array, /, offset: int = ..., axis1: int = ..., axis2: int = ..., dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Sums of diagonals of the matrices over two axes.

    Of no elements the sum is 0. Bool and narrow integers are summed as 32-bit integers, as by `sum`.

    Args:
        a (array): Matrices, with at least two axes.
        offset (int, optional): Which diagonal: 0 the main one, positive ones above it, negative ones below.
            Default: 0.
        axis1 (int, optional): Axis of the rows; a negative one counts from the last. Default: 0.
        axis2 (int, optional): Axis of the columns. Default: 1.
        dtype (Dtype, optional): Dtype that elements are converted to first. Default: that of `a`.

    Returns:
        array: Of the shape of `a` without the two axes.

    Raises:
        ValueError: if there are fewer than two axes, or both are the same.
        IndexError: if an axis is out of range.

    >>> mx.trace(mx.array([[1, 2], [3, 4]]))
    array(5, dtype=int32)
    """

def transpose(a: array, /, axes: Any = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The array with its axes in another order.

    Axis i of the result is axis `axes[i]` of `a`. Only the strides change: no data is copied.

    Args:
        a (array): Elements, of any shape.
        axes (Sequence[int], optional): Every axis of `a` once, in the new order; negative ones count from the
            last. Default: None, the reverse order.

    Returns:
        array: With permuted axes, in the dtype of `a`.

    Raises:
        ValueError: if the number of axes is another one or an axis is named twice.
        IndexError: if an axis is out of range.

    >>> mx.transpose(mx.zeros((2, 3, 4)), (1, 0, 2)).shape
    (3, 2, 4)
    """

def tri(n: int, m: int | None = ..., k: int = ..., dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """A matrix with ones on and below one diagonal and zeros above.

    Multiplied with another one it cuts a triangle out, as `tril` does. A negative size counts as 0.

    Args:
        n (int): Number of rows.
        m (int, optional): Number of columns. Default: None, as many as rows.
        k (int, optional): The last diagonal with ones: 0 the main one, positive ones above it, negative ones
            below. Default: 0.
        dtype (Dtype, optional): Dtype of the elements. Default: float32.

    Returns:
        array: Of shape (n, m).

    >>> mx.tri(2)
    array([[1, 0],
           [1, 1]], dtype=float32)
    >>> mx.tri(2, 3, k=1)
    array([[1, 1, 0],
           [1, 1, 1]], dtype=float32)
    """

def tril(x: array, k: int = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Lower triangles of matrices: what is above a diagonal becomes zero.

    Args:
        x (array): Matrices, with at least two axes; those before the last two are a batch.
        k (int, optional): The last diagonal that is kept: 0 the main one, positive ones above it, negative
            ones below. Default: 0.

    Returns:
        array: Of the shape and dtype of `x`.

    Raises:
        ValueError: if there are fewer than two axes.

    >>> mx.tril(mx.array([[1, 2], [3, 4]]))
    array([[1, 0],
           [3, 4]], dtype=int32)
    """

def triu(x: array, k: int = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Upper triangles of matrices: what is below a diagonal becomes zero.

    Args:
        x (array): Matrices, with at least two axes; those before the last two are a batch.
        k (int, optional): The first diagonal that is kept: 0 the main one, positive ones above it, negative
            ones below. Default: 0.

    Returns:
        array: Of the shape and dtype of `x`.

    Raises:
        ValueError: if there are fewer than two axes.

    >>> mx.triu(mx.array([[1, 2], [3, 4]]))
    array([[1, 2],
           [0, 4]], dtype=int32)
    """

def trunc(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Integer part of each element, that is rounding towards zero.

    The result keeps the dtype: floats stay floats, NaN and infinities stay themselves, integers and
    bool are returned unchanged.

    Its derivative counts as zero.

    Args:
        a (array): Elements of any shape: every dtype but complex64.

    Returns:
        array: One element for each, in the shape of `a`. Its dtype is that of `a`.

    Raises:
        ValueError: if `a` is complex.

    >>> mx.trunc(mx.array([1.7, -1.7]))
    array([1, -1], dtype=float32)
    """

def unflatten(a: array, /, axis: int, shape: Sequence[int], *, stream: _StreamOrDevice = ...) -> array:
    """Splits one axis into several, in row-major order: the inverse of `flatten`.

    Args:
        a (array): Elements, with at least one axis.
        axis (int): Axis to split; a negative one counts from the last.
        shape (Sequence[int]): Lengths of the new axes, whose product is the length of `axis`. One of them may
            be -1 and is then inferred from the others.

    Returns:
        array: With the axes of `shape` in the place of `axis`, in the dtype of `a`.

    Raises:
        ValueError: if the lengths do not multiply to that of the axis, or more than one of them is -1.
        IndexError: if the axis is out of range.

    >>> mx.unflatten(mx.zeros((2, 12)), 1, (3, 4)).shape
    (2, 3, 4)
    """

def unique(a: array, /, size: int, return_index: bool = ..., return_inverse: bool = ..., return_counts: bool = ..., fill_value: Any = ..., *, stream: _StreamOrDevice = ...) -> Any:
    """Distinct elements of the flattened array in ascending order, as many as asked for.

    The shape of a result cannot depend on values, so that the caller says how many to return: of more
    distinct elements the first `size` are kept, fewer are filled up. Each NaN is distinct from all others.

    Args:
        a (array): Elements, of any shape.
        size (int): Length of the result.
        return_index (bool, optional): Whether to return where each value occurs first in the flattened array.
            Default: False.
        return_inverse (bool, optional): Whether to return the position of the value of each element of `a`.
            Default: False.
        return_counts (bool, optional): Whether to return how often each value occurs. Default: False.
        fill_value (array | number, optional): What missing values are filled up with. Default: None, the
            least element.

    Returns:
        array | tuple[array, ...]: The values, (size,), in the dtype of `a`; where asked for, behind them the
            first indices (uint32, (size,)), the positions (uint32, the shape of `a`) and the counts (int32,
            (size,), 0 for fills).

    Raises:
        ValueError: if `size` is negative, or `a` is empty and there is no `fill_value`.

    >>> mx.unique(mx.array([2, 1, 2]), 2)
    array([1, 2], dtype=int32)
    >>> mx.unique(mx.array([2, 1, 2]), 3, return_counts=True, fill_value=0)
    (array([1, 2, 0], dtype=int32), array([1, 2, 0], dtype=int32))
    """

def unstack(x: array, /, *, axis: int | None = ..., stream: _StreamOrDevice = ...) -> tuple[array, ...]:
    """The parts of an array along one axis, which they lack: the inverse of `stack`.

    No data is copied.

    Args:
        x (array): Elements, with at least one axis.
        axis (int, optional): Axis to take apart; a negative one counts from the last. Default: 0.

    Returns:
        tuple[array, ...]: As many arrays as the axis is long, in the dtype of `x`.

    Raises:
        IndexError: if the axis is out of range.

    >>> mx.unstack(mx.array([[1, 2], [3, 4]]))
    (array([1, 2], dtype=int32), array([3, 4], dtype=int32))
    """

def value_and_grad(fun: Callable[..., Any], argnums: int | Sequence[int] | None = ..., argnames: str | Iterable[str] | None = ...) -> Callable[..., Any]:
    """A function that returns the value of another one and its gradient, both from one evaluation.

    As `grad`, but `fun` may also return a tuple whose first element is the scalar; the others are handed
    through. See `mlx.nn.value_and_grad` for the parameters of a module.

    Args:
        fun (Callable): The function to differentiate.
        argnums (int | Sequence[int], optional): Positions of the arguments by which to differentiate.
            Default: None, 0 where no names are given.
        argnames (str | Iterable[str], optional): Names of the arguments by which to differentiate. Default:
            [].

    Returns:
        Callable: Takes the arguments of `fun` and returns the pair of what `fun` returns and of what `grad`
            would.

    Raises:
        ValueError: if positions or names repeat or are out of range; when called, if the value is no scalar
            array, or an argument holds something else than arrays.

    >>> mx.value_and_grad(lambda x: x * x)(mx.array(3.0))
    (array(9, dtype=float32), array(6, dtype=float32))
    """

def var(a: array, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., ddof: int = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Variance of the elements over one axis, several, or all: the mean square of their distances from their
    mean.

    The sum of squares is divided by the number of elements less `ddof`; where that is not positive the result
    is NaN or infinite. Integers and bool are computed in float32.

    Args:
        a (array): What is reduced, of any shape.
        axis (int | Sequence[int], optional): Axis or axes to reduce over; negative ones count from the last. None
            takes all. Default: None.
        keepdims (bool, optional): Whether reduced axes stay, with length 1. Default: False.
        ddof (int, optional): What the divisor is less than the number of elements; 1 gives the unbiased
            estimate from a sample. Default: 0.

    Returns:
        array: Variances, in the shape of `a` without the reduced axes; float32 for integers and bool, else
            the dtype of `a`.

    Raises:
        IndexError: if an axis is out of range.
        ValueError: if an axis is named twice.

    >>> mx.var(mx.array([1.0, 3.0]))
    array(1, dtype=float32)
    >>> mx.var(mx.array([1.0, 3.0]), ddof=1)
    array(2, dtype=float32)
    """

def vecdot(a: _ArrayLike, b: _ArrayLike, /, *, axis: int | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Scalar products of vectors along an axis: sums of `conj(a) * b`.

    The other axes broadcast. Narrow integers are summed as 32-bit integers, as by `sum`.

    Args:
        a (array): Vectors; complex ones are conjugated.
        b (array): Vectors of the same length.
        axis (int, optional): Axis of the components; a negative one counts from the last. Default: -1.

    Returns:
        array: Of the broadcast shape without that axis.

    Raises:
        ValueError: if the lengths differ or the other axes do not broadcast.
        IndexError: if the axis is out of range.

    >>> mx.vecdot(mx.array([[1, 2], [3, 4]]), mx.array([[1, 1], [2, 2]]))
    array([3, 14], dtype=int32)
    """

def view(a: _ArrayLike, dtype: Dtype, stream: _StreamOrDevice = ...) -> array:
    """The bytes of an array seen as another dtype.

    Nothing is converted. Where the new elements are smaller or larger, the last axis gets longer or shorter
    by the same factor. For conversion of values see `astype`. No gradient flows.

    Args:
        a (array | number): Elements, of any shape.
        dtype (Dtype): What the bytes are seen as.

    Returns:
        array: Of the shape of `a` but for its last axis.

    Raises:
        ValueError: if the bytes of the last axis are no multiple of the new element, or `a` has no axes and
            the sizes of the elements differ.

    >>> mx.view(mx.array([1.0]), mx.int32)
    array([1065353216], dtype=int32)
    """

def vjp(fun: Callable[..., Any], primals: Sequence[array], cotangents: Sequence[array]) -> tuple[list[array], list[array]]:
    """Outputs of a function, and the products of cotangents with its Jacobian (reverse mode).

    The product for a primal is the gradient of the sum of outputs times cotangents.

    Args:
        fun (Callable): A function of arrays that returns an array or a list of arrays.
        primals (Sequence[array]): Where it is evaluated.
        cotangents (Sequence[array]): One for each output, of its shape.

    Returns:
        tuple[list[array], list[array]]: The outputs, and one product for each primal.

    Raises:
        ValueError: if there are not as many cotangents as outputs, or a shape differs.

    >>> mx.vjp(lambda x: 2 * x, [mx.array(3.0)], [mx.array(1.0)])
    ([array(6, dtype=float32)], [array(2, dtype=float32)])
    """

def vmap(fun: Callable[..., Any], in_axes: Any = ..., out_axes: Any = ...) -> array:
    """A function that applies another one to every element along an axis of its arguments, all at once.

    `fun` sees arrays without that axis; operations run once, on all elements. Calls nest, and go with
    gradients and `compile`.

    Args:
        fun (Callable): A function of trees of arrays that returns an array or a tree of arrays.
        in_axes (int | tree, optional): Axis along which each argument is taken apart: one integer for all, or
            a tuple with an entry for each argument (for a single one, its entry alone will do). An entry is
            an integer, None for what every element shares, or a tree of entries: a list stands for lists, a
            tuple for tuples, a dict for dicts. Default: 0.
        out_axes (int | tree, optional): Axis along which each result is stacked, in the same way. Default: 0.

    Returns:
        Callable: Takes the arguments of `fun` and returns its results, stacked.

    Raises:
        ValueError: when called, if the lengths of the axes differ or a tree does not fit.
        IndexError: when called, if an axis is out of range.
        TypeError: for None in place of a whole tree.

    >>> mx.vmap(lambda x, y: x * y, in_axes=(0, None))(mx.array([1, 2]), mx.array(3))
    array([3, 6], dtype=int32)
    """

def where(condition: _ArrayLike, x: _ArrayLike, y: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Elements of one array where a condition is true, else those of another.

    All three broadcast. Both values are computed whatever the condition says; the gradient flows to the one
    that is taken.

    Args:
        condition (array | bool): What is not zero counts as true, NaN included.
        x (array | number): Taken where the condition is true.
        y (array | number): Taken where it is false.

    Returns:
        array: Of the broadcast shape, in the promoted dtype of `x` and `y`.

    Raises:
        ValueError: if the shapes do not broadcast.

    >>> mx.where(mx.array([True, False]), 1, mx.array([5, 6]))
    array([1, 6], dtype=int32)
    """

def zeros(shape: int | Sequence[int], dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """An array filled with zeros.

    Args:
        shape (int | Sequence[int]): Shape of the array.
        dtype (Dtype, optional): Dtype of the elements. Default: float32.

    Returns:
        array: Of shape `shape`, all elements 0 (False for bool).

    Raises:
        ValueError: if a length is negative.
        TypeError: if the shape is not made of integers.

    >>> mx.zeros((2, 2), mx.int32)
    array([[0, 0],
           [0, 0]], dtype=int32)
    """

def zeros_like(a: array, /, dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Zeros in the shape of another array.

    Args:
        a (array): Whose shape, and by default dtype, the result has.
        dtype (Dtype, optional): Dtype of the elements. Default: that of `a`.

    Returns:
        array: Of the shape of `a`, all elements 0 (False for bool).

    Raises:
        TypeError: if `a` is no array.

    >>> mx.zeros_like(mx.array([1, 2]))
    array([0, 0], dtype=int32)
    """
