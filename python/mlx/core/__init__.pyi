# Written by tools/stubs.py from the module itself; do not edit.
"""Arrays, and functions of arrays, on CPUs and on GPUs with a Vulkan driver."""

import sys
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from types import ModuleType, TracebackType
from typing import Any, Protocol, Self, TypeAlias, final

import numpy as np
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

    `a.at[index]` takes what `a[index]` takes. The value is converted to the dtype of the array and broadcast to
    the selected elements; where an index array names an element several times all updates count. The result
    is a new array. Updates whose index is out of range are dropped.

    >>> mx.zeros(3).at[mx.array([1, 1, 2])].add(2)
    array([0, 4, 2], dtype=float32)
    """
    def __getitem__(self, index: Any, /) -> ArrayAt: ...
    def add(self, /, value: _ArrayLike) -> array:
        """The array with `value` added to the selected elements."""
    def divide(self, /, value: _ArrayLike) -> array:
        """The array with the selected elements multiplied by the reciprocal of `value`, rounded to its dtype."""
    def maximum(self, /, value: _ArrayLike) -> array:
        """The array with the larger of the selected elements and `value`; NaN wins."""
    def minimum(self, /, value: _ArrayLike) -> array:
        """The array with the smaller of the selected elements and `value`; NaN wins."""
    def multiply(self, /, value: _ArrayLike) -> array:
        """The array with the selected elements multiplied by `value`."""
    def subtract(self, /, value: _ArrayLike) -> array:
        """The array with `value` subtracted from the selected elements."""

@final
class ArrayIterator:
    """Runs over the first axis of an array."""
    def __iter__(self) -> ArrayIterator: ...
    def __next__(self) -> array: ...

@final
class ArrayLike:
    """Holds an object with `__mlx_array__`, and stands for its array where one is expected.

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
    """Collects what a function does for several forms of its arguments; `exporter` makes it. The file is complete
    when the exporter is closed, or left as a context manager.
    """
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __enter__(self, /) -> None: ...
    def __exit__(self, /, exc_type: type[BaseException] | None = ..., exc_value: BaseException | None = ..., traceback: TracebackType | None = ...) -> None: ...
    def close(self, /) -> array:
        """Writes the file."""

@final
class PrintOptions:
    """How numbers print; `precision` is the count of decimals, or -1 for as many as are needed, up to six
    significant digits.

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
    """Runs what is inside a `with` block on a stream or a device.

    >>> with mx.stream(mx.cpu):
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
class _checkpointed_func:
    """The function that `checkpoint` returns."""
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __getattribute__(self, name: Any, /) -> array: ...
    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function that is computed anew."""

@final
class _compiled_func:
    """The function that `compile` returns."""
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __getattribute__(self, name: Any, /) -> array: ...
    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function that is compiled."""

@final
class _gc_func:
    """The function that `grad` and `value_and_grad` return."""
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __getattribute__(self, name: Any, /) -> array: ...
    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function whose gradient this is."""

@final
class _imported_func:
    """A function from a file."""
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

@final
class _vmap_func:
    """The function that `vmap` returns."""
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __getattribute__(self, name: Any, /) -> array: ...
    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function that is mapped."""

@final
class array:
    """An n-dimensional array, computed when its values are needed.

    `val` is a scalar, a nested list or tuple, an array, or an object with the buffer protocol, `__array__` or
    `__mlx_array__`. Without `dtype`, Python ints become int32 (int64 where needed), floats float32, complex
    numbers complex64; other arrays keep their type except that float64 becomes float32.

    >>> mx.array([[1, 2], [3, 4]])
    array([[1, 2],
           [3, 4]], dtype=int32)
    """
    def __new__(cls, val: Any, dtype: Dtype | None = ...) -> Self: ...
    @property
    def T(self) -> array:
        """The array with its axes reversed."""
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
        """See `mlx.core.abs`."""
    def all(self, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.all`."""
    def any(self, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.any`."""
    def argmax(self, /, axis: int | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.argmax`."""
    def argmin(self, /, axis: int | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.argmin`."""
    def astype(self, /, dtype: Dtype, stream: _StreamOrDevice = ...) -> array:
        """The array converted to another dtype."""
    @property
    def at(self) -> ArrayAt:
        """Updates of selected elements: `a.at[index].add(value)`."""
    def conj(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.conj`."""
    def cos(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.cos`."""
    def cummax(self, /, axis: int | None = ..., *, reverse: Any = ..., inclusive: Any = ..., stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.cummax`."""
    def cummin(self, /, axis: int | None = ..., *, reverse: Any = ..., inclusive: Any = ..., stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.cummin`."""
    def cumprod(self, /, axis: int | None = ..., *, reverse: Any = ..., inclusive: Any = ..., stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.cumprod`."""
    def cumsum(self, /, axis: int | None = ..., *, reverse: Any = ..., inclusive: Any = ..., stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.cumsum`."""
    def diag(self, /, k: int = ..., *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.diag`."""
    def diagonal(self, /, offset: int = ..., axis1: int = ..., axis2: int = ..., stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.diagonal`."""
    @property
    def dtype(self) -> Dtype:
        """Type of the elements."""
    def exp(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.exp`."""
    def flatten(self, /, start_axis: int = ..., end_axis: int = ..., *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.flatten`."""
    @property
    def imag(self) -> array:
        """The imaginary part."""
    def item(self, /) -> Any:
        """The only element as a Python scalar. Raises ValueError unless there is exactly one."""
    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
    def log(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.log`."""
    def log10(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.log10`."""
    def log1p(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.log1p`."""
    def log2(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.log2`."""
    def logcumsumexp(self, /, axis: int | None = ..., *, reverse: Any = ..., inclusive: Any = ..., stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.logcumsumexp`."""
    def logsumexp(self, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.logsumexp`."""
    @property
    def mT(self) -> array:
        """The array with its last two axes swapped."""
    def max(self, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.max`."""
    def mean(self, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.mean`."""
    def min(self, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.min`."""
    def moveaxis(self, /, source: int, destination: int, *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.moveaxis`."""
    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
    @property
    def ndim(self) -> int:
        """Number of axes."""
    def prod(self, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.prod`."""
    @property
    def real(self) -> array:
        """The real part."""
    def reciprocal(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.reciprocal`."""
    def reshape(self, /, *shape: Any, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.reshape`; the shape may be one sequence or several integers."""
    def round(self, /, decimals: int = ..., *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.round`."""
    def rsqrt(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.rsqrt`."""
    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions as a tuple."""
    def sin(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.sin`."""
    @property
    def size(self) -> int:
        """Number of elements."""
    def split(self, /, indices_or_sections: int | Sequence[int], axis: int = ..., *, stream: _StreamOrDevice = ...) -> list[array]:
        """See `mlx.core.split`."""
    def sqrt(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.sqrt`."""
    def square(self, /, *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.square`."""
    def squeeze(self, /, axis: int | Sequence[int] | None = ..., *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.squeeze`."""
    def std(self, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., ddof: int = ..., *, correction: int | None = ..., stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.std`; `correction` is another name of `ddof`."""
    def sum(self, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.sum`."""
    def swapaxes(self, /, axis1: int, axis2: int, *, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.swapaxes`."""
    def tolist(self, /) -> Any:
        """Nested lists of Python scalars; a scalar for an array without axes."""
    def transpose(self, /, *axes: Any, stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.transpose`; the axes may be one sequence or several integers."""
    def var(self, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., ddof: int = ..., *, correction: int | None = ..., stream: _StreamOrDevice = ...) -> array:
        """See `mlx.core.var`; `correction` is another name of `ddof`."""
    def view(self, /, dtype: Dtype, *, stream: _StreamOrDevice = ...) -> array:
        """The bytes seen as another dtype; the last axis changes with the size of an element."""
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...
        def __release_buffer__(self, buffer: memoryview, /) -> None: ...

@final
class custom_function:
    """A function whose derivatives and vectorised form are given by functions of their own.

    Called, it is the function `f` itself. The rules get trees of the form of the arguments: the argument alone
    where there is one, else the tuple of all; keyword arguments are handed on as such. Without a rule a transform
    differentiates or maps what `f` does.

    >>> @mx.custom_function
    ... def f(x):
    ...     return mx.sin(x)
    >>> @f.vjp
    ... def f_vjp(x, cotangent, output):
    ...     return cotangent * 2
    >>> mx.grad(f)(mx.array(0.0))
    array(2, dtype=float32)
    """
    def __new__(cls, f: Any) -> Self: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def jvp(self, /, f: Any) -> tuple[list[array], list[array]]:
        """Takes the forward derivative: a function of (primals, tangents) that returns the tangents of the outputs.
        The tangent of a constant argument is None.
        """
    def vjp(self, /, f: Any) -> tuple[list[array], list[array]]:
        """Takes the reverse derivative: a function of (primals, cotangents, outputs) that returns the cotangents of
        the primals, in their form.
        """
    def vmap(self, /, f: Any) -> array:
        """Takes the vectorised form: a function of (inputs, axes) that returns the outputs and their batch axes."""

@final
class finfo:
    """Limits of an inexact dtype; those of complex64 are float32's.

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
    """Absolute value of each element. Works on an array of any shape; the dtype is kept, except that complex64 gives the magnitude as float32.

    >>> mx.abs(mx.array([-1.5, 2.0]))
    array([1.5, 2], dtype=float32)
    """

def acos(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse cosine of each element, in [0, pi]; NaN outside [-1, 1]. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.arccos(mx.array([1.0]))
    array([0], dtype=float32)
    """

def acosh(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse hyperbolic cosine of each element; NaN below 1. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.arccosh(mx.array([1.0]))
    array([0], dtype=float32)
    """

def add(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Sum of two arrays. The operands broadcast against each other and are promoted to a common dtype, which is that of the result.

    >>> mx.add(mx.array([1, 2]), mx.array([3, 4]))
    array([4, 6], dtype=int32)
    """

def addmm(c: array, a: array, b: array, /, alpha: float = ..., beta: float = ..., *, stream: _StreamOrDevice = ...) -> array:
    """`alpha * (a @ b) + beta * c`; `c` broadcasts to the product.

    >>> mx.addmm(mx.array([1.0, 2.0]), mx.ones((1, 3)), mx.ones((3, 2)))
    array([[4, 5]], dtype=float32)
    """

def all(a: array, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Whether all elements over `axis` (all axes by default) are non-zero; bool.

    >>> mx.all(mx.array([True, False]))
    array(False, dtype=bool)
    """

def allclose(a: array, b: array, /, rtol: float = ..., atol: float = ..., *, equal_nan: bool = ..., stream: _StreamOrDevice = ...) -> array:
    """Whether all elements are close (see `isclose`), as a bool scalar.

    >>> mx.allclose(mx.array([1.0, 2.0]), mx.array([1.0, 2.0]))
    array(True, dtype=bool)
    """

def any(a: array, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Whether some element over `axis` (all axes by default) is non-zero; bool.

    >>> mx.any(mx.array([True, False]))
    array(True, dtype=bool)
    """

def arange(start: int | float | None = ..., stop: int | float | None = ..., step: int | float | None = ..., dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Numbers from `start` (default 0) up to but without `stop`, `step` (default 1) apart. Called with one
    number, that is `stop`. int32 for integers (int64 where needed), float32 when a float is among them.

    >>> mx.arange(5)
    array([0, 1, 2, 3, 4], dtype=int32)
    >>> mx.arange(1, 2, 0.5)
    array([1, 1.5], dtype=float32)
    """

def arccos(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse cosine of each element, in [0, pi]; NaN outside [-1, 1]. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.arccos(mx.array([1.0]))
    array([0], dtype=float32)
    """

def arccosh(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse hyperbolic cosine of each element; NaN below 1. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.arccosh(mx.array([1.0]))
    array([0], dtype=float32)
    """

def arcsin(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse sine of each element, in [-pi/2, pi/2]; NaN outside [-1, 1]. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.arcsin(mx.array([0.0]))
    array([0], dtype=float32)
    """

def arcsinh(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse hyperbolic sine of each element. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.arcsinh(mx.array([0.0]))
    array([0], dtype=float32)
    """

def arctan(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse tangent of each element, in (-pi/2, pi/2). Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.arctan(mx.array([0.0]))
    array([0], dtype=float32)
    """

def arctan2(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Angle of the point (b, a), in [-pi, pi]; the signs of both operands choose the quadrant. The operands broadcast against each other and are promoted to a common dtype, integers to float32; complex64 is refused.

    >>> mx.arctan2(mx.array([0.0]), mx.array([1.0]))
    array([0], dtype=float32)
    """

def arctanh(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse hyperbolic tangent of each element; NaN outside [-1, 1]. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.arctanh(mx.array([0.0]))
    array([0], dtype=float32)
    """

def argmax(a: array, /, axis: int | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Index of the largest element along `axis`, or in the flattened array; uint32, the first among equals.

    >>> mx.argmax(mx.array([3, 1, 2]))
    array(0, dtype=uint32)
    """

def argmin(a: array, /, axis: int | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Index of the smallest element along `axis`, or in the flattened array; uint32, the first among equals.

    >>> mx.argmin(mx.array([3, 1, 2]))
    array(1, dtype=uint32)
    """

def argpartition(a: array, /, kth: Any, axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Indices (uint32) that partition along `axis` as `partition` does.

    >>> mx.argpartition(mx.array([2, 1, 3]), 2)[2]
    array(2, dtype=uint32)
    """

def argsort(a: array, /, axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Indices (uint32) that sort along `axis`; equal elements keep their order.

    >>> mx.argsort(mx.array([3, 1, 2]))
    array([1, 2, 0], dtype=uint32)
    """

def array_equal(a: _ArrayLike, b: _ArrayLike, equal_nan: bool = ..., stream: _StreamOrDevice = ...) -> array:
    """Whether two arrays have the same shape and equal elements, as a bool scalar. NaN equals NaN only under
    `equal_nan`.

    >>> mx.array_equal(mx.array([1, 2]), mx.array([1, 2]))
    array(True, dtype=bool)
    """

def as_strided(a: array, /, shape: Sequence[int] | None = ..., strides: Sequence[int] | None = ..., offset: int = ..., *, stream: _StreamOrDevice = ...) -> array:
    """A view of the flattened array with a shape and strides (in elements) of its own, from `offset` on. Nothing
    checks that it stays meaningful: elements may overlap.

    >>> mx.as_strided(mx.arange(4), (3, 2), (1, 1))
    array([[0, 1],
           [1, 2],
           [2, 3]], dtype=int32)
    """

def asarray(a: Any, dtype: Dtype | None = ..., *, copy: bool | None = ...) -> array:
    """An array from anything that `mx.array` takes. An array of the right dtype is returned as it is unless `copy`
    is true; with `copy=False` host memory of objects with `__dlpack__` is shared, and ValueError raised for
    what needs a copy.

    >>> mx.asarray([1, 2])
    array([1, 2], dtype=int32)
    """

def asin(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse sine of each element, in [-pi/2, pi/2]; NaN outside [-1, 1]. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.arcsin(mx.array([0.0]))
    array([0], dtype=float32)
    """

def asinh(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse hyperbolic sine of each element. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.arcsinh(mx.array([0.0]))
    array([0], dtype=float32)
    """

def astype(a: array, /, dtype: Dtype, *, stream: _StreamOrDevice = ...) -> array:
    """The array converted to another dtype.

    >>> mx.astype(mx.array([1.7]), mx.int32)
    array([1], dtype=int32)
    """

def async_eval(*args: Any) -> None:
    """As `eval`, but returns once the work is submitted or, where a graph is large and runs on a GPU, handed to the
    thread that submits it: what goes wrong there is raised where a result is read.

    >>> x = mx.ones(2) + 1
    >>> mx.async_eval(x)
    """

def atan(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse tangent of each element, in (-pi/2, pi/2). Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.arctan(mx.array([0.0]))
    array([0], dtype=float32)
    """

def atan2(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Angle of the point (b, a), in [-pi, pi]; the signs of both operands choose the quadrant. The operands broadcast against each other and are promoted to a common dtype, integers to float32; complex64 is refused.

    >>> mx.arctan2(mx.array([0.0]), mx.array([1.0]))
    array([0], dtype=float32)
    """

def atanh(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse hyperbolic tangent of each element; NaN outside [-1, 1]. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.arctanh(mx.array([0.0]))
    array([0], dtype=float32)
    """

def atleast_1d(*arys: array, stream: _StreamOrDevice = ...) -> array | list[array]:
    """The arrays with at least one axis: one array, or a list of several.

    >>> mx.atleast_1d(mx.array(1)).shape
    (1,)
    """

def atleast_2d(*arys: array, stream: _StreamOrDevice = ...) -> array | list[array]:
    """The arrays with at least two axes: one array, or a list of several.

    >>> mx.atleast_2d(mx.array(1)).shape
    (1, 1)
    """

def atleast_3d(*arys: array, stream: _StreamOrDevice = ...) -> array | list[array]:
    """The arrays with at least three axes: one array, or a list of several.

    >>> mx.atleast_3d(mx.array(1)).shape
    (1, 1, 1)
    """

def bartlett(M: Any, *, stream: _StreamOrDevice = ...) -> array:
    """Bartlett window of `M` points: a triangle that is zero at both ends. float32.

    >>> mx.bartlett(5)
    array([0, 0.5, 1, 0.5, 0], dtype=float32)
    """

def bitwise_and(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Bitwise and of two arrays. The operands broadcast against each other; integers and bool only.

    >>> mx.bitwise_and(mx.array([6]), mx.array([3]))
    array([2], dtype=int32)
    """

def bitwise_invert(a: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Every bit of each element inverted. Works on an array of any shape; integers keep their dtype, bool is negated.

    >>> mx.bitwise_invert(mx.array([0, 5]))
    array([-1, -6], dtype=int32)
    """

def bitwise_left_shift(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Bits of the first array moved up by the second. The operands broadcast against each other; integers only, bool counts as uint8.

    >>> mx.left_shift(mx.array([1, 3]), mx.array([4, 1]))
    array([16, 6], dtype=int32)
    """

def bitwise_or(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Bitwise or of two arrays. The operands broadcast against each other; integers and bool only.

    >>> mx.bitwise_or(mx.array([6]), mx.array([3]))
    array([7], dtype=int32)
    """

def bitwise_right_shift(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Bits of the first array moved down by the second; signed numbers keep their sign. The operands broadcast against each other; integers only, bool counts as uint8.

    >>> mx.right_shift(mx.array([16, -8]), mx.array([4, 1]))
    array([1, -4], dtype=int32)
    """

def bitwise_xor(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Bitwise exclusive or of two arrays. The operands broadcast against each other; integers and bool only.

    >>> mx.bitwise_xor(mx.array([6]), mx.array([3]))
    array([5], dtype=int32)
    """

def blackman(M: Any, *, stream: _StreamOrDevice = ...) -> array:
    """Blackman window of `M` points: three cosine terms, zero at both ends. float32.

    >>> mx.blackman(3)
    array([0, 1, 0], dtype=float32)
    """

def block_masked_mm(a: _ArrayLike, b: _ArrayLike, /, block_size: Any = ..., mask_out: Any = ..., mask_lhs: Any = ..., mask_rhs: Any = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Matrix product of operands that are masked in blocks of `block_size` (32 or 64) by `block_size` elements, and
    whose product is masked likewise: a bool mask keeps blocks or makes them zero, any other scales them. A mask
    has one element for each block, the last ones cut off at the edges, and leading axes that broadcast.

    >>> mask = mx.array([[True], [False]])
    >>> mx.block_masked_mm(mx.ones((64, 8)), mx.ones((8, 1)), 32, mask)[31:33]
    array([[8],
           [0]], dtype=float32)
    """

def broadcast_arrays(*arrays: array, stream: _StreamOrDevice = ...) -> tuple[array, ...]:
    """The arrays broadcast to their common shape, as a tuple.

    >>> [a.shape for a in mx.broadcast_arrays(mx.zeros(3), mx.zeros((2, 1)))]
    [(2, 3), (2, 3)]
    """

def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to.

    >>> mx.broadcast_shapes((3,), (2, 1))
    (2, 3)
    """

def broadcast_to(a: _ArrayLike, /, shape: int | Sequence[int], *, stream: _StreamOrDevice = ...) -> array:
    """`a` repeated along new and length-one axes, as far as `shape` asks; no data is copied.

    >>> mx.broadcast_to(mx.array([1, 2]), (2, 2))
    array([[1, 2],
           [1, 2]], dtype=int32)
    """

def can_cast(from_: array | Dtype, to: Dtype) -> bool:
    """Whether promotion would turn `from_` (an array or a dtype) into `to`.

    >>> mx.can_cast(mx.int8, mx.int16)
    True
    """

def ceil(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Smallest integer that is not less than each element. Works on an array of any shape; the result has the shape and dtype of `a`. Integers are unchanged; complex64 is refused.

    >>> mx.ceil(mx.array([1.5, -1.5]))
    array([2, -1], dtype=float32)
    """

def checkpoint(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that computes what `fun` does, but does not keep its intermediate arrays for the gradient: the
    gradient calls `fun` again, which takes time and saves memory.

    >>> f = mx.checkpoint(lambda x: mx.sin(mx.exp(x)))
    >>> mx.grad(f)(mx.array(0.0))
    array(0.540302, dtype=float32)
    """

def clear_cache() -> None:
    """Gives the bytes that were kept for reuse back.

    >>> mx.clear_cache()
    """

def clear_streams() -> None:
    """Waits for the streams made so far and forgets those of this thread.

    >>> mx.clear_streams()
    """

def clip(a: array, /, a_min: _ArrayLike | None, a_max: _ArrayLike | None, *, stream: _StreamOrDevice = ...) -> array:
    """Limits the elements of `a` to `a_min` and `a_max`, which broadcast against it; one of them may be None.

    >>> mx.clip(mx.array([1, 5, 9]), 2, 6)
    array([2, 5, 6], dtype=int32)
    """

def compile(fun: Callable[..., Any], inputs: Any = ..., outputs: Any = ..., shapeless: bool = ...) -> Callable[..., Any]:
    """A function that records what `fun` builds on its first call for each form of the arguments, simplifies it and
    fuses elementwise operations, and computes that from then on without calling `fun`.

    Arguments are trees of arrays and of constants (numbers, strings, None), which are part of the form. `inputs`
    and `outputs` are containers of arrays that `fun` reads and writes besides its arguments. With `shapeless`,
    arrays of other shapes (but as many axes) do not record anew. Raises ValueError for other arguments.

    >>> f = mx.compile(lambda x: mx.exp(-x) + 1)
    >>> f(mx.array([0.0, 0.0]))
    array([2, 2], dtype=float32)
    """

def concat(arrays: Sequence[array], axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The arrays one after another along `axis`; another name of `concatenate`.

    >>> mx.concat([mx.array([1]), mx.array([2, 3])])
    array([1, 2, 3], dtype=int32)
    """

def concatenate(arrays: Sequence[array], axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The arrays one after another along `axis`; flattened first when that is None.

    >>> mx.concatenate([mx.array([1]), mx.array([2, 3])])
    array([1, 2, 3], dtype=int32)
    """

def conj(a: array, *, stream: _StreamOrDevice = ...) -> array:
    """Complex conjugate of each element. Works on an array of any shape; the result has the shape and dtype of `a`.

    >>> mx.conjugate(mx.array([1 + 2j]))
    array([1-2j], dtype=complex64)
    """

def conjugate(a: array, *, stream: _StreamOrDevice = ...) -> array:
    """Complex conjugate of each element. Works on an array of any shape; the result has the shape and dtype of `a`.

    >>> mx.conjugate(mx.array([1 + 2j]))
    array([1-2j], dtype=complex64)
    """

def contiguous(a: array, /, allow_col_major: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The array with its elements in row-major order in memory (or column-major, where that is allowed).

    >>> mx.contiguous(mx.zeros((2, 3)).T).shape
    (3, 2)
    """

def conv1d(input: Any, weight: array | None, /, stride: Any = ..., padding: Any = ..., dilation: Any = ..., groups: Any = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Convolution over one spatial axis, with zeros around the input; the kernel is not mirrored.

    `input` is (N, L, Cin), `weight` (Cout, K, Cin / groups), the result (N, O, Cout) in the promoted dtype with
    O = (L + 2 * padding - dilation * (K - 1) - 1) // stride + 1. Floating point dtypes; halves are summed in
    float32. Raises ValueError for shapes that do not fit.

    >>> mx.conv1d(mx.array([[[1.0], [2.0], [4.0]]]), mx.array([[[1.0], [10.0]]]))
    array([[[21],
            [42]]], dtype=float32)
    """

def conv2d(input: Any, weight: array | None, /, stride: Any = ..., padding: Any = ..., dilation: Any = ..., groups: Any = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Convolution over two spatial axes, with zeros around the input; the kernel is not mirrored.

    `input` is (N, H, W, Cin), `weight` (Cout, KH, KW, Cin / groups), the result (N, OH, OW, Cout) in the promoted
    dtype. `stride`, `padding` and `dilation` are one number or one for each axis. Raises ValueError for shapes that
    do not fit.

    >>> mx.conv2d(mx.ones((1, 4, 4, 3)), mx.ones((2, 3, 3, 3)), stride=2, padding=1).shape
    (1, 2, 2, 2)
    """

def conv3d(input: Any, weight: array | None, /, stride: Any = ..., padding: Any = ..., dilation: Any = ..., groups: Any = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Convolution over three spatial axes, with zeros around the input; the kernel is not mirrored.

    `input` is (N, D, H, W, Cin), `weight` (Cout, KD, KH, KW, Cin / groups), the result (N, OD, OH, OW, Cout) in the
    promoted dtype. `stride`, `padding` and `dilation` are one number or one for each axis. Raises ValueError for
    shapes that do not fit.

    >>> mx.conv3d(mx.ones((1, 4, 4, 4, 3)), mx.ones((2, 3, 3, 3, 3))).shape
    (1, 2, 2, 2, 2)
    """

def conv_general(input: Any, weight: array | None, /, stride: Any = ..., padding: Any = ..., kernel_dilation: Any = ..., input_dilation: Any = ..., groups: Any = ..., flip: Any = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Convolution over one to three spatial axes with every option.

    `input` is (N, ..., Cin), `weight` (Cout, ..., Cin / groups), the result (N, ..., Cout). `padding` is a number, one
    for each axis, or a pair of sequences, (before, behind); negative padding crops the input. Elements of the kernel
    lie `kernel_dilation` apart, those of the input `input_dilation`, with zeros between. `flip` mirrors the kernel.
    Raises ValueError for shapes that do not fit.

    >>> mx.conv_general(mx.ones((1, 5, 1)), mx.ones((1, 2, 1)), padding=([0], [1]), input_dilation=2).shape
    (1, 9, 1)
    """

def conv_transpose1d(input: Any, weight: array | None, /, stride: Any = ..., padding: Any = ..., dilation: Any = ..., output_padding: Any = ..., groups: Any = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Transposed convolution over one spatial axis: what the gradient of `conv1d` is to its input.

    `input` is (N, L, Cin), `weight` (Cout, K, Cin / groups), the result (N, O, Cout) with
    O = (L - 1) * stride - 2 * padding + dilation * (K - 1) + output_padding + 1. Raises ValueError for shapes that
    do not fit.

    >>> mx.conv_transpose1d(mx.ones((1, 3, 1)), mx.ones((1, 2, 1)), stride=2).shape
    (1, 6, 1)
    """

def conv_transpose2d(input: Any, weight: array | None, /, stride: Any = ..., padding: Any = ..., dilation: Any = ..., output_padding: Any = ..., groups: Any = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Transposed convolution over two spatial axes: what the gradient of `conv2d` is to its input.

    `input` is (N, H, W, Cin), `weight` (Cout, KH, KW, Cin / groups), the result (N, OH, OW, Cout), sizes as for
    `conv_transpose1d`. Raises ValueError for shapes that do not fit.

    >>> mx.conv_transpose2d(mx.ones((1, 3, 3, 1)), mx.ones((1, 3, 3, 1)), 2, 1, output_padding=1).shape
    (1, 6, 6, 1)
    """

def conv_transpose3d(input: Any, weight: array | None, /, stride: Any = ..., padding: Any = ..., dilation: Any = ..., output_padding: Any = ..., groups: Any = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Transposed convolution over three spatial axes: what the gradient of `conv3d` is to its input.

    `input` is (N, D, H, W, Cin), `weight` (Cout, KD, KH, KW, Cin / groups), the result (N, OD, OH, OW, Cout), sizes
    as for `conv_transpose1d`. Raises ValueError for shapes that do not fit.

    >>> mx.conv_transpose3d(mx.ones((1, 2, 2, 2, 1)), mx.ones((1, 2, 2, 2, 1)), stride=2).shape
    (1, 4, 4, 4, 1)
    """

def convolve(a: array, v: array, /, mode: str = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Convolution of two sequences, in which the shorter one is mirrored.

    `mode` is "full", "same" (the middle, as long as the longer one) or "valid" (where they overlap wholly). Raises
    ValueError for another mode, for arrays that are empty or not one-dimensional.

    >>> mx.convolve(mx.array([1.0, 2.0, 3.0]), mx.array([0.0, 1.0]), mode="same")
    array([0, 1, 2], dtype=float32)
    """

def cos(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Cosine of each element. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.cos(mx.array([0.0]))
    array([1], dtype=float32)
    """

def cosh(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Hyperbolic cosine of each element. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.cosh(mx.array([0.0]))
    array([1], dtype=float32)
    """

def count_nonzero(a: array, /, *, axis: int | None = ..., keepdims: bool = ..., stream: _StreamOrDevice = ...) -> array:
    """How many elements over `axis` (all axes by default) are not zero, as int32; NaN counts.

    >>> mx.count_nonzero(mx.array([0, 1, 2]))
    array(2, dtype=int32)
    """

def cummax(a: array, /, axis: int | None = ..., *, reverse: Any = ..., inclusive: Any = ..., stream: _StreamOrDevice = ...) -> array:
    """Running maximum along `axis`, of the flattened array by default; NaN stays once it has come. `reverse` runs
    from the end; without `inclusive` each result leaves its own element out and the first is the least value.

    >>> mx.cummax(mx.array([1, 3, 2]))
    array([1, 3, 3], dtype=int32)
    """

def cummin(a: array, /, axis: int | None = ..., *, reverse: Any = ..., inclusive: Any = ..., stream: _StreamOrDevice = ...) -> array:
    """Running minimum along `axis`, of the flattened array by default; NaN stays once it has come. `reverse` runs
    from the end; without `inclusive` each result leaves its own element out and the first is the greatest value.

    >>> mx.cummin(mx.array([3, 1, 2]))
    array([3, 1, 1], dtype=int32)
    """

def cumprod(a: array, /, axis: int | None = ..., *, reverse: Any = ..., inclusive: Any = ..., dtype: Dtype | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Running product along `axis`, of the flattened array by default. `reverse` runs from the end; without
    `inclusive` each result leaves its own element out. `dtype` is converted to first. Raises IndexError for an
    axis out of range.

    >>> mx.cumprod(mx.array([2, 3, 4]))
    array([2, 6, 24], dtype=int32)
    """

def cumsum(a: array, /, axis: int | None = ..., *, reverse: Any = ..., inclusive: Any = ..., dtype: Dtype | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Running sum along `axis`, of the flattened array by default. `reverse` runs from the end; without
    `inclusive` each result leaves its own element out. `dtype` is converted to first; bool is summed as int32,
    other integers wrap in their own dtype. Raises IndexError for an axis out of range.

    >>> mx.cumsum(mx.array([1, 2, 3]))
    array([1, 3, 6], dtype=int32)
    """

def cumulative_prod(a: array, /, axis: int | None = ..., *, reverse: Any = ..., inclusive: Any = ..., dtype: Dtype | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Running product; another name of `cumprod`.

    >>> mx.cumulative_prod(mx.array([2, 3, 4]))
    array([2, 6, 24], dtype=int32)
    """

def cumulative_sum(a: array, /, axis: int | None = ..., *, reverse: Any = ..., inclusive: Any = ..., dtype: Dtype | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Running sum; another name of `cumsum`.

    >>> mx.cumulative_sum(mx.array([1, 2, 3]))
    array([1, 3, 6], dtype=int32)
    """

def default_device() -> Device:
    """The device that operations use by default: a GPU where there is one, else the CPU.

    >>> mx.default_device() in (mx.Device(mx.cpu), mx.Device(mx.gpu))
    True
    """

def default_stream(device: Device | DeviceType) -> Stream:
    """The stream of `device` that is used by default.

    >>> mx.default_stream(mx.cpu).device
    Device(cpu, 0)
    """

def degrees(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Angle in degrees of each angle in radians. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.degrees(mx.array([0.0]))
    array([0], dtype=float32)
    """

def depends(inputs: Any, dependencies: Any) -> array:
    """`inputs`, an array or a sequence of arrays, unchanged, but computed only after `dependencies`. A sequence comes
    back as a list. Gradients pass to the inputs alone.

    >>> mx.depends(mx.array([1, 2]), mx.zeros(3))
    array([1, 2], dtype=int32)
    """

def dequantize(w: array, /, scales: array | None, biases: array | None = ..., group_size: int | None = ..., bits: Any = ..., mode: str = ..., global_scale: array | None = ..., dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The values of a matrix quantised by `quantize` with the same numbers.

    The result has the dtype of the scales in affine mode and else bfloat16, or `dtype`. Raises ValueError where
    shapes or dtypes do not fit the mode.

    >>> mx.dequantize(*mx.quantize(mx.ones((1, 64)))).shape
    (1, 64)
    """

def device_count(device_type: DeviceType) -> int:
    """How many devices of a type there are.

    >>> mx.device_count(mx.cpu)
    1
    """

def device_info(d: Device | DeviceType | None = ...) -> dict[str, Any]:
    """Facts about a device (by default the default one): `device_name`, `architecture` and, on a GPU,
    `memory_size`, driver and API versions. Empty for a device that does not exist.

    >>> 'device_name' in mx.device_info(mx.cpu)
    True
    """

def diag(a: array, /, k: int = ..., *, stream: _StreamOrDevice = ...) -> array:
    """A matrix with the vector `a` on diagonal `k`, or diagonal `k` of the matrix `a`. Raises ValueError for other
    ranks.

    >>> mx.diag(mx.array([1, 2]))
    array([[1, 0],
           [0, 2]], dtype=int32)
    """

def diagonal(a: array, offset: int = ..., axis1: int = ..., axis2: int = ..., stream: _StreamOrDevice = ...) -> array:
    """The elements `(i, i + offset)` of the matrices over `axis1` and `axis2`, as a new last axis. Raises ValueError
    for arrays of fewer than two axes, IndexError for an axis out of range.

    >>> mx.diagonal(mx.array([[1, 2], [3, 4]]))
    array([1, 4], dtype=int32)
    """

def diff(a: array, /, n: int = ..., axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The differences of neighbours along `axis`, taken `n` times; the axis gets shorter by `n`. For bool: whether
    neighbours differ. Raises ValueError for a negative `n` and IndexError for an axis out of range.

    >>> mx.diff(mx.array([1, 4, 9]))
    array([3, 5], dtype=int32)
    """

def disable_compile() -> array:
    """Calls compiled functions as they are from now on.

    >>> mx.disable_compile()
    >>> mx.enable_compile()
    """

def divide(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """True quotient of two arrays. The operands broadcast against each other and are promoted to a common dtype, integers to float32.

    >>> mx.divide(mx.array([1, 3]), mx.array([2, 2]))
    array([0.5, 1.5], dtype=float32)
    """

def divmod(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> list[array]:
    """Floored quotient and remainder of two arrays, as a list.

    >>> mx.divmod(mx.array([7, -7]), 3)
    [array([2, -3], dtype=int32), array([1, 2], dtype=int32)]
    """

def einsum(subscripts: Any, *operands: Any, stream: _StreamOrDevice = ...) -> array:
    """Einstein summation: `subscripts` names the axes of each operand by letters, and after `->` those of the result;
    without it the letters that appear once, in alphabetical order. An ellipsis stands for axes that broadcast, a
    letter that repeats in one operand for a diagonal. Sums over common axes are matrix products and take the
    dtypes of `matmul`.

    >>> mx.einsum('ij,jk->ik', mx.ones((2, 3)), mx.ones((3, 2)))
    array([[3, 3],
           [3, 3]], dtype=float32)
    """

def einsum_path(subscripts: Any, *operands: Any) -> array:
    """The order in which `einsum` contracts its operands: a list of positions for each step, whose result is appended
    to the operands that are left, and a text about its cost.

    >>> a, b = mx.ones((2, 10)), mx.ones((10, 3))
    >>> mx.einsum_path('ij,jk,kl->il', a, b, mx.ones((3, 2)))[0]
    [(0, 1), (0, 1)]
    """

def empty(shape: int | Sequence[int], dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """An array of `shape`; its elements are zeros, as MLX has it.

    >>> mx.empty(2).shape
    (2,)
    """

def empty_like(a: array, /, dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """An array of the shape of `a`; its elements are zeros.

    >>> mx.empty_like(mx.array([1, 2])).shape
    (2,)
    """

def enable_compile() -> array:
    """Undoes `disable_compile`; wins over the variable MLX_DISABLE_COMPILE.

    >>> mx.enable_compile()
    """

def equal(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether two arrays are equal, element by element; NaN equals nothing. The operands broadcast against each other and are promoted to a common dtype; the result is bool.

    >>> mx.equal(mx.array([1, 5]), mx.array([3, 5]))
    array([False, True], dtype=bool)
    """

def erf(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Error function of each element. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32. complex64 is refused.

    >>> mx.erf(mx.array([0.0]))
    array([0], dtype=float32)
    """

def erfinv(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Inverse error function of each element; NaN outside [-1, 1]. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32. complex64 is refused.

    >>> mx.erfinv(mx.array([0.0]))
    array([0], dtype=float32)
    """

def eval(*args: Any) -> None:
    """Computes arrays, or trees (dict, list, tuple) of arrays, and waits for them. Other leaves are passed over.

    >>> mx.eval(mx.ones(2), {'w': mx.zeros(3)})
    """

def exp(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Exponential of each element. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.exp(mx.array([0.0]))
    array([1], dtype=float32)
    """

def expand_dims(a: array, /, axis: int | Sequence[int], *, stream: _StreamOrDevice = ...) -> array:
    """The array with axes of length one added at the positions `axis` of the result.

    >>> mx.expand_dims(mx.zeros(3), 0).shape
    (1, 3)
    """

def expm1(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Exponential of each element minus one, accurate near zero. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32. complex64 is refused.

    >>> mx.expm1(mx.array([0.0]))
    array([0], dtype=float32)
    """

def export_function(file_or_callback: Any, fun: Callable[..., Any], *args: Any, shapeless: bool = ..., metadata: dict[str, str] | None = ..., **kwargs: Any) -> None:
    """Writes what `fun` computes for arrays like the given ones to a file, from which `import_function` makes a
    function again.

    Example arguments are arrays, by position and by name, or one sequence and/or one dict of arrays. `fun` returns
    an array or a tuple or list of arrays; arrays that it closes over are saved with it. With `shapeless` the
    function takes arrays of other shapes (of as many axes). `metadata` is a text to keep beside it. Given a
    callable instead of a path, it is called with a dict for each part of the description.

    Raises ValueError for other arguments, other results, and functions with rules of their own (`custom_function`);
    RuntimeError for a file that cannot be written.

    >>> import tempfile, os; path = os.path.join(tempfile.mkdtemp(), 'f.mlxfn')
    >>> mx.export_function(path, lambda x: x * x, mx.array(1.0))
    """

def export_to_dot(file: Any, *args: Any, **kwargs: Any) -> None:
    """Writes the graph of arrays that are not evaluated yet, with all that they are computed from, in the DOT language
    of graphviz. `file` is a path or an object with `write`; arrays come in trees. Arrays given by name are shown
    under that name, the others under letters.

    Raises ValueError for other files and for trees with something else than arrays.

    >>> import io; f = io.StringIO(); x = mx.array(1.0)
    >>> mx.export_to_dot(f, mx.exp(x), x=x)
    """

def exporter(file: Any, fun: Callable[..., Any], *, shapeless: bool = ..., metadata: dict[str, str] | None = ...) -> FunctionExporter:
    """An object that is called with example arguments, once for each form, and writes what `fun` does with all of
    them to one file. See `export_function`.

    >>> import tempfile, os; path = os.path.join(tempfile.mkdtemp(), 'f.mlxfn')
    >>> with mx.exporter(path, lambda *xs: sum(xs)) as e: e(mx.array(1)); e(mx.array(1), mx.array(2))
    """

def eye(n: int, m: int | None = ..., k: int = ..., dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """An `n` by `m` matrix (default square) with ones on diagonal `k`.

    >>> mx.eye(2)
    array([[1, 0],
           [0, 1]], dtype=float32)
    """

def flatten(a: array, /, start_axis: int = ..., end_axis: int = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Joins the axes from `start_axis` to `end_axis` into one.

    >>> mx.flatten(mx.zeros((2, 3, 4)), 1).shape
    (2, 12)
    """

def flip(a: array, /, axis: int | Sequence[int] | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The elements in reverse order along `axis`, by default along all axes.

    >>> mx.flip(mx.array([1, 2, 3]))
    array([3, 2, 1], dtype=int32)
    """

def floor(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Largest integer that is not greater than each element. Works on an array of any shape; the result has the shape and dtype of `a`. Integers are unchanged; complex64 is refused.

    >>> mx.floor(mx.array([1.5, -1.5]))
    array([1, -2], dtype=float32)
    """

def floor_divide(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Quotient of two arrays rounded down. Integer division by zero gives zero. The operands broadcast against each other and are promoted to a common dtype, which is that of the result.

    >>> mx.floor_divide(mx.array([7, -7]), mx.array([2, 2]))
    array([3, -4], dtype=int32)
    """

def from_dlpack(x: array, /, *, copy: bool | None = ...) -> array:
    """An array from an object with `__dlpack__` (NumPy, PyTorch, JAX and other arrays) or from a DLPack capsule.

    Host memory is shared unless `copy` is true: the array then shows what its owner writes later. float64
    and complex128 are converted to float32 and complex64, so they are always copied; with `copy=False` that
    raises ValueError. Memory of other devices comes over the host where the producer offers that.

    >>> import numpy as np
    >>> mx.from_dlpack(np.arange(3, dtype=np.float32))
    array([0, 1, 2], dtype=float32)
    """

def from_fp8(x: array, dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The values of 8-bit floats (E4M3) that are held as uint8, in a real floating `dtype`, bfloat16 by default.

    >>> mx.from_fp8(mx.to_fp8(mx.array([0.3])), mx.float32)
    array([0.3125], dtype=float32)
    """

def full(shape: int | Sequence[int], vals: _ArrayLike, dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """An array of `shape` filled with `vals`, a scalar or an array that broadcasts to it.

    >>> mx.full((2,), 7)
    array([7, 7], dtype=int32)
    """

def full_like(a: array, vals: _ArrayLike, dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """An array of the shape of `a` filled with `vals`; the dtype is that of `a` unless another is given.

    >>> mx.full_like(mx.array([1, 2]), 7)
    array([7, 7], dtype=int32)
    """

def gather_mm(a: _ArrayLike, b: _ArrayLike, /, lhs_indices: Any = ..., rhs_indices: Any = ..., *, sorted_indices: bool = ..., stream: _StreamOrDevice = ...) -> array:
    """Matrix product of matrices that are picked by index, without copying them: `a[lhs_indices] @ b[rhs_indices]`
    with flat indices over all axes but the last two. The indices broadcast against each other; an operand
    without indices takes part with all of its matrices in order. `sorted_indices` promises that the indices of
    the only indexed operand do not decrease. Real floating point dtypes only.

    >>> a, b = mx.ones((1, 2)), mx.array([[[1.0], [1.0]], [[2.0], [2.0]]])
    >>> mx.gather_mm(a, b, rhs_indices=mx.array([1, 0, 1])).tolist()
    [[[4.0]], [[2.0]], [[4.0]]]
    """

def gather_qmm(x: array, w: array, /, scales: array | None, biases: array | None = ..., lhs_indices: Any = ..., rhs_indices: Any = ..., transpose: Any = ..., group_size: int | None = ..., bits: Any = ..., mode: str = ..., global_scale: array | None = ..., *, sorted_indices: bool = ..., stream: _StreamOrDevice = ...) -> array:
    """As `quantized_matmul`, for matrices picked by flat indices over the batch axes of `x` and of `w`.

    The indices broadcast against each other; an operand without them takes part with all of its matrices in
    order. `sorted_indices` promises that the indices do not decrease, `global_scale` (nvfp4) has one float32 for
    each matrix of `w`. Raises ValueError where shapes or dtypes do not fit.

    >>> q = mx.quantize(mx.ones((4, 2, 64)))
    >>> mx.gather_qmm(mx.ones((1, 3, 64)), *q, rhs_indices=mx.array([2, 0])).shape
    (2, 3, 2)
    """

def gather_qqmm(x: array, w: array, /, scales: array | None = ..., lhs_indices: Any = ..., rhs_indices: Any = ..., group_size: int | None = ..., bits: Any = ..., mode: str = ..., global_scale_x: Any = ..., global_scale_w: Any = ..., *, sorted_indices: bool = ..., stream: _StreamOrDevice = ...) -> array:
    """As `qqmm`, for matrices picked by flat indices over the batch axes of `x` and of `w`, as in `gather_qmm`.

    >>> i = mx.array([1, 0])
    >>> mx.gather_qqmm(mx.ones((1, 3, 64)), mx.ones((4, 2, 64)), rhs_indices=i).shape
    (2, 3, 2)
    """

def get_active_memory() -> int:
    """Bytes of all live arrays, on the host and on devices.

    >>> mx.get_active_memory() >= 0
    True
    """

def get_array_buffer_size(*args: Any) -> array:
    """Bytes reserved for the arrays in trees (dict, list, tuple) of arrays, each memory counted once; other leaves are
    passed over. Raises ValueError for an array that is not evaluated.

    >>> x = mx.ones(4)
    >>> mx.eval(x)
    >>> mx.get_array_buffer_size(x, [x]) >= x.nbytes
    True
    """

def get_cache_memory() -> int:
    """Bytes that are kept for reuse and belong to no array.

    >>> mx.get_cache_memory() >= 0
    True
    """

def get_memory_limit() -> int:
    """The limit of active bytes.

    >>> mx.get_memory_limit() > 0
    True
    """

def get_peak_memory() -> int:
    """The largest count of active bytes since the start or the last `reset_peak_memory`.

    >>> mx.get_peak_memory() >= 0
    True
    """

def get_printoptions() -> PrintOptions:
    """The print options in force.

    >>> mx.get_printoptions().precision
    -1
    """

def grad(fun: Callable[..., Any], argnums: int | Sequence[int] | None = ..., argnames: str | Sequence[str] | None = ...) -> Callable[..., Any]:
    """A function that returns the gradient of the scalar that `fun` returns, by its arguments `argnums` (positions;
    0 by default, where no names are given) and `argnames`. Arguments may be trees of arrays; the gradient of each
    has its form. Several positions give a tuple; names give a pair of that and a dict.

    Raises ValueError when `fun` does not return a scalar array or an argument holds something else than arrays.

    >>> mx.grad(lambda x: x * x)(mx.array(3.0))
    array(6, dtype=float32)
    """

def greater(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether the first array is greater, element by element; complex numbers by real, then imaginary part. The operands broadcast against each other and are promoted to a common dtype; the result is bool.

    >>> mx.greater(mx.array([1, 5]), mx.array([3, 5]))
    array([False, False], dtype=bool)
    """

def greater_equal(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether the first array is greater or equal, element by element; complex numbers by real, then imaginary part. The operands broadcast against each other and are promoted to a common dtype; the result is bool.

    >>> mx.greater_equal(mx.array([1, 5]), mx.array([3, 5]))
    array([False, True], dtype=bool)
    """

def hadamard_transform(a: array, scale: _ArrayLike | None = ..., stream: _StreamOrDevice = ...) -> array:
    """The Walsh-Hadamard transform along the last axis, times `scale` (one over the square root of its length by
    default). Lengths are m * 2^k with m in 1, 12, 20, 28; others raise ValueError. Integers give float32.

    >>> mx.hadamard_transform(mx.array([1.0, 2.0]), scale=1.0)
    array([3, -1], dtype=float32)
    """

def hamming(M: Any, *, stream: _StreamOrDevice = ...) -> array:
    """Hamming window of `M` points: a raised cosine, 0.08 at both ends. float32.

    >>> mx.hamming(3)
    array([0.08, 1, 0.08], dtype=float32)
    """

def hanning(M: Any, *, stream: _StreamOrDevice = ...) -> array:
    """Hann window of `M` points: a raised cosine, zero at both ends. float32.

    >>> mx.hanning(5)
    array([0, 0.5, 1, 0.5, 0], dtype=float32)
    """

def identity(n: int, dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The identity matrix of size `n`.

    >>> mx.identity(2).shape
    (2, 2)
    """

def imag(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Imaginary part of each element. Works on an array of any shape; complex64 gives float32; every other dtype gives zeros of its own.

    >>> mx.imag(mx.array([1 + 2j]))
    array([2], dtype=float32)
    """

def import_function(file: Any, return_metadata: Any = ...) -> Callable[..., Any]:
    """The function that `export_function` or an exporter wrote to a file. It takes arrays by position and by name, or
    a sequence and/or a dict of arrays, and returns a tuple of arrays. With `return_metadata` the result is the pair
    of the function and the text that was saved with it.

    Raises RuntimeError for files that are missing, damaged or something else; the function raises ValueError for
    arrays of other forms than those it was exported for.

    >>> import tempfile, os; path = os.path.join(tempfile.mkdtemp(), 'f.mlxfn')
    >>> mx.export_function(path, lambda x: x * x, mx.array(1.0))
    >>> mx.import_function(path)(mx.array(3.0))[0]
    array(9, dtype=float32)
    """

def inner(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Sum of products over the last axes of two arrays; plain multiplication where one is a scalar. Raises
    ValueError where those axes differ in length.

    >>> mx.inner(mx.array([1.0, 2.0]), mx.array([3.0, 4.0]))
    array(11, dtype=float32)
    """

def is_available(device: Device | DeviceType) -> bool:
    """Whether a device exists.

    >>> mx.is_available(mx.cpu)
    True
    """

def isclose(a: array, b: array, /, rtol: float = ..., atol: float = ..., *, equal_nan: bool = ..., stream: _StreamOrDevice = ...) -> array:
    """Whether elements are close: `abs(a - b) <= atol + rtol * abs(b)`. Bool array of the broadcast shape.

    >>> mx.isclose(mx.array([1.0, 2.0]), mx.array([1.0, 2.1]))
    array([True, False], dtype=bool)
    """

def isdtype(dtype: Dtype, kind: Dtype | str | tuple[Dtype | str, ...]) -> bool:
    """Whether a dtype is of a kind: a dtype, one of `'bool'`, `'signed integer'`, `'unsigned integer'`,
    `'integral'`, `'real floating'`, `'complex floating'`, `'numeric'`, or a tuple of these.

    >>> mx.isdtype(mx.int32, ('integral', 'bool'))
    True
    """

def isfinite(a: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether each element is neither NaN nor an infinity. Works on an array of any shape; the result is bool of the same shape.

    >>> mx.isfinite(mx.array([1.0, float('inf')]))
    array([True, False], dtype=bool)
    """

def isinf(a: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether each element is an infinity. Works on an array of any shape; the result is bool of the same shape.

    >>> mx.isinf(mx.array([1.0, float('inf')]))
    array([False, True], dtype=bool)
    """

def isnan(a: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether each element is NaN. Works on an array of any shape; the result is bool of the same shape.

    >>> mx.isnan(mx.array([1.0, float('nan')]))
    array([False, True], dtype=bool)
    """

def isneginf(a: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether each element is minus infinity. Works on an array of any shape; the result is bool of the same shape.

    >>> mx.isneginf(mx.array([1.0, float('-inf')]))
    array([False, True], dtype=bool)
    """

def isposinf(a: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether each element is plus infinity. Works on an array of any shape; the result is bool of the same shape.

    >>> mx.isposinf(mx.array([1.0, float('inf')]))
    array([False, True], dtype=bool)
    """

def issubdtype(arg1: Dtype | DtypeCategory, arg2: Dtype | DtypeCategory) -> bool:
    """Whether `arg1` is `arg2` or a kind of it; both are dtypes or categories.

    >>> mx.issubdtype(mx.float16, mx.floating)
    True
    """

def jvp(fun: Callable[..., Any], primals: Sequence[array], tangents: Sequence[array]) -> tuple[list[array], list[array]]:
    """Outputs of `fun` at `primals`, and the products of its Jacobian with `tangents` (one for each primal): one for
    each output.

    >>> mx.jvp(lambda x: 2 * x, [mx.array(3.0)], [mx.array(1.0)])
    ([array(6, dtype=float32)], [array(2, dtype=float32)])
    """

def kron(a: _ArrayLike, b: _ArrayLike, *, stream: _StreamOrDevice = ...) -> array:
    """Kronecker product: each element of `a` times the whole of `b`, in the place of that element. Raises ValueError
    for empty arrays.

    >>> mx.kron(mx.array([1, 2]), mx.array([1, 10]))
    array([1, 10, 2, 20], dtype=int32)
    """

def left_shift(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Bits of the first array moved up by the second. The operands broadcast against each other; integers only, bool counts as uint8.

    >>> mx.left_shift(mx.array([1, 3]), mx.array([4, 1]))
    array([16, 6], dtype=int32)
    """

def less(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether the first array is less, element by element; complex numbers by real, then imaginary part. The operands broadcast against each other and are promoted to a common dtype; the result is bool.

    >>> mx.less(mx.array([1, 5]), mx.array([3, 5]))
    array([True, False], dtype=bool)
    """

def less_equal(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether the first array is less or equal, element by element; complex numbers by real, then imaginary part. The operands broadcast against each other and are promoted to a common dtype; the result is bool.

    >>> mx.less_equal(mx.array([1, 5]), mx.array([3, 5]))
    array([True, True], dtype=bool)
    """

def linspace(start: float, stop: float, num: int | None = ..., endpoint: bool = ..., dtype: Dtype | None = ..., stream: _StreamOrDevice = ...) -> array:
    """`num` evenly spaced numbers from `start` to `stop`, which is the last of them unless `endpoint` is false.

    >>> mx.linspace(0, 1, 5)
    array([0, 0.25, 0.5, 0.75, 1], dtype=float32)
    """

def load(file: Any, /, format: Any = ..., return_metadata: Any = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Loads an array (npy) or a dict of arrays (npz, safetensors, gguf) from a path or a file object.

    The format is that of the file's extension unless `format` names it. Elements are read when they are
    needed; from a file object they are taken at once. float64 goes to the CPU unless `stream` is given.
    GGUF needs a path: Q4_0, Q4_1 and Q8_0 tensors become `weight`, `scales` and `biases`, other quantised
    ones float16. With `return_metadata` (safetensors, gguf) the result is `(arrays, metadata)`. Raises
    RuntimeError for files that are missing or corrupt, ValueError for what is not supported.

    >>> import io; f = io.BytesIO(); mx.save(f, mx.array([1, 2])); _ = f.seek(0)
    >>> mx.load(f, format="npy")
    array([1, 2], dtype=int32)
    """

def log(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Natural logarithm of each element. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.log(mx.array([1.0]))
    array([0], dtype=float32)
    """

def log10(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Base-10 logarithm of each element. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.log10(mx.array([100.0]))
    array([2], dtype=float32)
    """

def log1p(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Natural logarithm of one plus each element, accurate near zero. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.log1p(mx.array([0.0]))
    array([0], dtype=float32)
    """

def log2(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Base-2 logarithm of each element. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.log2(mx.array([8.0]))
    array([3], dtype=float32)
    """

def logaddexp(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """log(exp(a) + exp(b)) without overflow. The operands broadcast against each other and are promoted to a common dtype, integers to float32.

    >>> mx.logaddexp(mx.array([0.0]), mx.array([0.0]))
    array([0.693147], dtype=float32)
    """

def logcumsumexp(a: array, /, axis: int | None = ..., *, reverse: Any = ..., inclusive: Any = ..., stream: _StreamOrDevice = ...) -> array:
    """Running `log(sum(exp(a)))` along `axis`, of the flattened array by default, without overflow; integers give
    float32. `reverse` runs from the end; without `inclusive` each result leaves its own element out.

    >>> mx.logcumsumexp(mx.array([0.0, 0.0]))
    array([0, 0.693147], dtype=float32)
    """

def logical_and(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Whether both operands are true, element by element. The operands broadcast against each other; an element counts as true where it is not zero. The result is bool.

    >>> mx.logical_and(mx.array([True, False]), mx.array([True, True]))
    array([True, False], dtype=bool)
    """

def logical_not(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Whether each element is zero. Works on an array of any shape; the result is bool of the same shape.

    >>> mx.logical_not(mx.array([True, False]))
    array([False, True], dtype=bool)
    """

def logical_or(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Whether at least one operand is true, element by element. The operands broadcast against each other; an element counts as true where it is not zero. The result is bool.

    >>> mx.logical_or(mx.array([True, False]), mx.array([True, True]))
    array([True, True], dtype=bool)
    """

def logical_xor(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Whether exactly one operand is true, element by element. The operands broadcast against each other; an element counts as true where it is not zero. The result is bool.

    >>> mx.logical_xor(mx.array([True, False]), mx.array([True, True]))
    array([False, True], dtype=bool)
    """

def logsumexp(a: array, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """`log(sum(exp(a)))` over `axis` (all axes by default), without overflow; integers give float32.

    >>> mx.logsumexp(mx.array([0.0, 0.0]))
    array(0.693147, dtype=float32)
    """

def matmul(a: array, b: array, /, *, stream: _StreamOrDevice = ...) -> array:
    """Matrix product over the last two axes; leading axes broadcast, and an operand with one axis is a row on the
    left and a column on the right. Floating point and complex dtypes only.

    >>> mx.matmul(mx.ones((2, 3)), mx.ones((3, 2)))
    array([[3, 3],
           [3, 3]], dtype=float32)
    """

def matrix_norm(a: array, /, ord: Any = ..., axis: int | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The norm of `a` over `axis`: of vectors over one axis, of matrices over two, of the whole array by default. `ord`
    is a number, inf, -inf, or "fro" and "nuc" for matrices; None is the Euclidean (Frobenius) norm. Integers give
    float32. Raises ValueError for an `ord` that does not exist or axes that do not fit it; 2, -2 and "nuc" of matrices
    need a CPU stream.

    >>> mx.linalg.norm(mx.array([3.0, 4.0]))
    array(5, dtype=float32)
    """

def matrix_transpose(a: array, /, *, stream: _StreamOrDevice = ...) -> array:
    """The array with its last two axes swapped. Raises ValueError for fewer than two axes.

    >>> mx.matrix_transpose(mx.zeros((2, 3, 4))).shape
    (2, 4, 3)
    """

def max(a: array, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Largest element over `axis` (all axes by default); NaN wins. Raises ValueError for an empty axis.

    >>> mx.max(mx.array([3, 1, 2]))
    array(3, dtype=int32)
    """

def maximum(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Larger of two arrays, element by element; NaN where either is NaN. The operands broadcast against each other and are promoted to a common dtype, which is that of the result.

    >>> mx.maximum(mx.array([1, 5]), mx.array([3, 4]))
    array([3, 5], dtype=int32)
    """

def mean(a: array, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Mean over `axis` (all axes by default); integers give float32.

    >>> mx.mean(mx.array([1, 2, 6]))
    array(3, dtype=float32)
    """

def median(a: array, /, axis: int | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The median over `axis` (all axes by default): the mean of the two middle elements of an even count, NaN if
    there is any. Integers give float32. Raises ValueError for an empty axis.

    >>> mx.median(mx.array([3, 1, 2, 4]))
    array(2.5, dtype=float32)
    """

def meshgrid(*arrays: Sequence[array], sparse: Any = ..., indexing: Any = ..., stream: _StreamOrDevice = ...) -> array:
    """Coordinate arrays of the grid over one-dimensional arrays. With `indexing='xy'` the first two axes are
    exchanged; `'ij'` keeps them. Sparse grids keep length 1 along the axes of the other arrays.

    >>> mx.meshgrid(mx.array([1, 2]), mx.array([3]))
    (array([[1, 2]], dtype=int32), array([[3, 3]], dtype=int32))
    """

def min(a: array, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Smallest element over `axis` (all axes by default); NaN wins. Raises ValueError for an empty axis.

    >>> mx.min(mx.array([3, 1, 2]))
    array(1, dtype=int32)
    """

def minimum(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Smaller of two arrays, element by element; NaN where either is NaN. The operands broadcast against each other and are promoted to a common dtype, which is that of the result.

    >>> mx.minimum(mx.array([1, 5]), mx.array([3, 4]))
    array([1, 4], dtype=int32)
    """

def minmax(a: array, /, axis: int | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Minimum and maximum over `axis` (all axes by default) as a pair; NaN wins in both. Raises ValueError for an
    empty axis.

    >>> mx.minmax(mx.array([3, 1, 2]))
    (array(1, dtype=int32), array(3, dtype=int32))
    """

def moveaxis(a: array, /, source: int, destination: int, *, stream: _StreamOrDevice = ...) -> array:
    """The array with one axis moved to another place.

    >>> mx.moveaxis(mx.zeros((2, 3, 4)), 0, 2).shape
    (3, 4, 2)
    """

def multiply(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Product of two arrays. The operands broadcast against each other and are promoted to a common dtype, which is that of the result.

    >>> mx.multiply(mx.array([1, 2]), mx.array([3, 4]))
    array([3, 8], dtype=int32)
    """

def nan_to_num(a: _ArrayLike, nan: float = ..., posinf: float | None = ..., neginf: float | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Replaces NaN by `nan`, and infinities by `posinf` and `neginf` (by default the dtype's limits).

    >>> mx.nan_to_num(mx.array([float('nan'), 1.0]))
    array([0, 1], dtype=float32)
    """

def negative(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Minus each element. Works on an array of any shape; the result has the shape and dtype of `a`. Unsigned integers wrap; bool is refused.

    >>> mx.negative(mx.array([1, -2]))
    array([-1, 2], dtype=int32)
    """

def new_stream(device: Device | DeviceType) -> Stream:
    """A new stream on `device`.

    >>> mx.new_stream(mx.cpu).device
    Device(cpu, 0)
    """

def new_thread_local_stream(device: Device | DeviceType) -> ThreadLocalStream:
    """A stream that is another one on each thread.

    >>> mx.new_thread_local_stream(mx.cpu).device
    Device(cpu, 0)
    """

def new_thread_unsafe_stream(device: Device | DeviceType) -> Stream:
    """A new stream for use by one thread at a time. Streams of this library are safe to share, so this is
    `new_stream` under MLX's other name.

    >>> mx.new_thread_unsafe_stream(mx.cpu).device
    Device(cpu, 0)
    """

def not_equal(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Whether two arrays differ, element by element. The operands broadcast against each other and are promoted to a common dtype; the result is bool.

    >>> mx.not_equal(mx.array([1, 5]), mx.array([3, 5]))
    array([True, False], dtype=bool)
    """

def ones(shape: int | Sequence[int], dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """An array of `shape` filled with ones; `dtype` is float32 by default.

    >>> mx.ones(3)
    array([1, 1, 1], dtype=float32)
    """

def ones_like(a: array, /, dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Ones of the shape of `a`, and of its dtype unless another is given.

    >>> mx.ones_like(mx.array([1.0, 2.0]))
    array([1, 1], dtype=float32)
    """

def outer(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Products of each element of `a` with each element of `b`, both flattened: a matrix.

    >>> mx.outer(mx.array([1, 2]), mx.array([3, 4]))
    array([[3, 4],
           [6, 8]], dtype=int32)
    """

def pad(a: array, pad_width: int | Sequence[int] | Sequence[tuple[int, int]], mode: str = ..., constant_values: _ArrayLike = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The array with elements added before and after each axis. `pad_width` is one number, a pair for all axes or
    a pair for each. `mode` is 'constant' (with `constant_values`), 'edge', 'reflect' or 'symmetric'.

    >>> mx.pad(mx.array([1, 2]), 1)
    array([0, 1, 2, 0], dtype=int32)
    """

def partition(a: array, /, kth: Any, axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The elements rearranged along `axis` (of the flattened array for None) so that number `kth` is where sorting
    would put it, with none greater before it and none less after it. Raises ValueError for a `kth` out of range.

    >>> mx.partition(mx.array([2, 1, 3]), 2)[2]
    array(3, dtype=int32)
    """

def permute_dims(a: array, /, axes: Sequence[int] | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The array with its axes in another order, by default reversed; another name of `transpose`.

    >>> mx.permute_dims(mx.zeros((2, 3))).shape
    (3, 2)
    """

def positive(a: array, /, *, stream: _StreamOrDevice = ...) -> array:
    """The array itself.

    >>> mx.positive(mx.array([1, -2]))
    array([1, -2], dtype=int32)
    """

def pow(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """First array raised to the power of the second. Integer powers wrap; negative integer exponents give 0. The operands broadcast against each other and are promoted to a common dtype, which is that of the result.

    >>> mx.power(mx.array([2, 3]), mx.array([3, 2]))
    array([8, 9], dtype=int32)
    """

def power(a: _ArrayLike, b: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """First array raised to the power of the second. Integer powers wrap; negative integer exponents give 0. The operands broadcast against each other and are promoted to a common dtype, which is that of the result.

    >>> mx.power(mx.array([2, 3]), mx.array([3, 2]))
    array([8, 9], dtype=int32)
    """

def printoptions(precision: int = ...) -> _PrintOptionsContext:
    """A context with other print options.

    >>> with mx.printoptions(precision=1):
    ...     print(mx.array(3.14159))
    array(3.1, dtype=float32)
    """

def prod(a: array, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Product over `axis` (all axes by default); dtypes as for `sum`.

    >>> mx.prod(mx.array([2, 3, 4]))
    array(24, dtype=int32)
    """

def put_along_axis(a: array, /, indices: int | array, values: Any, axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """A copy of `a` with `values` written along `axis` at `indices`, which have as many axes as `a`.

    Indices and values are broadcast on the other axes; values are converted to the dtype of `a`. For None the
    positions are those of the flattened array. Negative indices count from the end; values for others out of
    range are dropped, and of several values for one element the last one stays. Raises ValueError for wrong
    shapes, RuntimeError for indices that are not integers, IndexError for a wrong axis.

    >>> mx.put_along_axis(mx.array([[5, 6], [7, 8]]), mx.array([[1], [0]]), mx.array(9), axis=1)
    array([[5, 9],
           [9, 8]], dtype=int32)
    """

def qqmm(x: array, w: array, scales: array | None = ..., group_size: int | None = ..., bits: Any = ..., mode: str = ..., global_scale_x: Any = ..., global_scale_w: Any = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Product `x @ w.T` of operands that are both rounded to a format of floats, "nvfp4", "mxfp8" or "mxfp4".

    With `scales`, `w` holds codes of `quantize`; else it is quantised here. Gradients pass the rounding as they
    are. Raises ValueError where shapes or dtypes do not fit.

    >>> mx.qqmm(mx.ones((3, 64)), mx.ones((2, 64))).shape
    (3, 2)
    """

def quantize(w: array, /, group_size: int | None = ..., bits: Any = ..., mode: str = ..., *, global_scale: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Quantises a matrix, or a batch of them, along the last axis in groups that share a scale.

    Modes are "affine" (group sizes 32, 64, 128; 1, 2, 3, 4, 5, 6 or 8 bits; default 64 and 4), "mxfp4" (32, 4),
    "mxfp8" (32, 8) and "nvfp4" (16, 4; it alone takes a `global_scale`, a float32 scalar). Returns codes packed in
    uint32, scales and, in affine mode, biases, both of the dtype of `w`. Raises ValueError for other numbers, for
    fewer than two axes and for a last axis that groups do not divide.

    >>> w_q, scales, biases = mx.quantize(mx.ones((2, 64)))
    >>> w_q.shape, scales.shape
    ((2, 8), (2, 1))
    """

def quantized_matmul(x: array, w: array, /, scales: array | None, biases: array | None = ..., transpose: Any = ..., group_size: int | None = ..., bits: Any = ..., mode: str = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Product of `x` with a quantised matrix, `x @ w.T` or, without `transpose`, `x @ w`.

    `w`, `scales` and `biases` are those of `quantize` with the same numbers; batch axes broadcast. Sums are
    float32. Raises ValueError where shapes or dtypes do not fit.

    >>> mx.quantized_matmul(mx.ones((3, 64)), *mx.quantize(mx.ones((2, 64)))).shape
    (3, 2)
    """

def radians(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Angle in radians of each angle in degrees. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.radians(mx.array([0.0]))
    array([0], dtype=float32)
    """

def real(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Real part of each element. Works on an array of any shape; complex64 gives float32, every other dtype is unchanged.

    >>> mx.real(mx.array([1 + 2j]))
    array([1], dtype=float32)
    """

def reciprocal(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """One over each element. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.reciprocal(mx.array([4.0]))
    array([0.25], dtype=float32)
    """

def remainder(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Remainder of the division of two arrays, with the divisor's sign. The integer remainder of zero division is the dividend. The operands broadcast against each other and are promoted to a common dtype; complex64 is refused.

    >>> mx.remainder(mx.array([7, -7]), mx.array([3, 3]))
    array([1, 2], dtype=int32)
    """

def repeat(array: _ArrayLike, repeats: int, axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Each element `repeats` times in a row along `axis`; of the flattened array for None.

    >>> mx.repeat(mx.array([1, 2]), 2)
    array([1, 1, 2, 2], dtype=int32)
    """

def reset_peak_memory() -> None:
    """Starts the peak again from the bytes that are active now.

    >>> mx.reset_peak_memory()
    """

def reshape(a: array, /, shape: Sequence[int], *, stream: _StreamOrDevice = ...) -> array:
    """The elements of `a` in row-major order in another shape, in which one -1 is inferred.

    >>> mx.reshape(mx.arange(4), (2, -1))
    array([[0, 1],
           [2, 3]], dtype=int32)
    """

def result_type(*arrays_and_dtypes: array | Dtype) -> Dtype:
    """The dtype that an operation on these arrays and dtypes has.

    >>> mx.result_type(mx.int32, mx.float16)
    mlx.core.float16
    """

def right_shift(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Bits of the first array moved down by the second; signed numbers keep their sign. The operands broadcast against each other; integers only, bool counts as uint8.

    >>> mx.right_shift(mx.array([16, -8]), mx.array([4, 1]))
    array([1, -4], dtype=int32)
    """

def roll(a: array, /, shift: int | Sequence[int], axis: int | Sequence[int] | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The elements shifted along `axis`, those that leave at one end entering at the other; the flattened array is
    rolled without `axis`.

    >>> mx.roll(mx.array([1, 2, 3]), 1)
    array([3, 1, 2], dtype=int32)
    """

def round(a: _ArrayLike, /, decimals: int = ..., stream: _StreamOrDevice = ...) -> array:
    """Rounds to `decimals` digits after the point (before it, when negative); halves go to the even neighbour.
    Shape and dtype are those of `a`.

    >>> mx.round(mx.array([1.26, 2.5]), 1)
    array([1.3, 2.5], dtype=float32)
    """

def rsqrt(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """One over the square root of each element. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.rsqrt(mx.array([4.0]))
    array([0.5], dtype=float32)
    """

def save(file: Any, arr: Any) -> array:
    """Saves an array as an npy file. `.npy` is appended to a path that lacks it. An existing file is replaced
    once the new one is complete. bfloat16 is stored as void elements of two bytes, as MLX does it.

    >>> import io; f = io.BytesIO(); mx.save(f, mx.array([1, 2]))
    >>> f.getvalue()[:6]
    b'\\x93NUMPY'
    """

def save_gguf(file: Any, arrays: Sequence[array], metadata: dict[str, str] | None = ...) -> array:
    """Saves a dict of arrays (float32, float16, int8, int16 or int32) as a GGUF file. Values of `metadata` are
    strings, lists of strings, or arrays of at most one axis. `.gguf` is appended to a path that lacks it.

    >>> import tempfile, os
    >>> with tempfile.TemporaryDirectory() as d:
    ...     mx.save_gguf(os.path.join(d, "m"), {"a": mx.array([1.0])}, {"name": "m"})
    ...     mx.load(os.path.join(d, "m.gguf"), return_metadata=True)
    ({'a': array([1], dtype=float32)}, {'name': 'm'})
    """

def save_safetensors(file: Any, arrays: dict[str, array], metadata: dict[str, str] | None = ...) -> array:
    """Saves a dict of arrays, and optionally a dict of strings, as a safetensors file. `.safetensors` is
    appended to a path that lacks it. float64 raises RuntimeError.

    >>> import io; f = io.BytesIO(); mx.save_safetensors(f, {"a": mx.array([1])}, {"k": "v"}); _ = f.seek(0)
    >>> mx.load(f, format="safetensors", return_metadata=True)
    ({'a': array([1], dtype=int32)}, {'k': 'v'})
    """

def savez(file: Any, *args: Any, **kwargs: Any) -> array:
    """Saves arrays as the members of an npz file: those given by position as `arr_0`, `arr_1`, ..., the others
    under their keywords. `.npz` is appended to a path that lacks it.

    >>> import io; f = io.BytesIO(); mx.savez(f, mx.array(1), b=mx.array(2))
    >>> sorted(mx.load(f, format="npz"))
    ['arr_0', 'b']
    """

def savez_compressed(file: Any, *args: Any, **kwargs: Any) -> array:
    """As `savez`, with compressed members.

    >>> import io; f = io.BytesIO(); mx.savez_compressed(f, a=mx.zeros((1000,)))
    >>> len(f.getvalue()) < 1000
    True
    """

def searchsorted(sorted_sequence: Any, values: Any, /, side: Any = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Where `values` would go in the sorted one-dimensional `sorted_sequence`: the first position that keeps it
    sorted, or the last one for the side 'right'; uint32 of the shape of `values`. NaN is greatest. Raises
    ValueError for another side or a sequence that is not one-dimensional.

    >>> mx.searchsorted(mx.array([1, 2, 2, 4]), mx.array([2, 5]))
    array([1, 4], dtype=uint32)
    """

def segmented_mm(a: _ArrayLike, b: _ArrayLike, /, segments: Any, *, stream: _StreamOrDevice = ...) -> array:
    """Matrix products of two matrices over parts of the inner dimension, one for each pair (start, end) of
    `segments`, whose last axis has length 2. Real floating point dtypes only.

    >>> mx.segmented_mm(mx.ones((1, 4)), mx.ones((4, 1)), mx.array([[0, 1], [1, 4]])).tolist()
    [[[1.0]], [[3.0]]]
    """

def set_cache_limit(limit: int) -> int:
    """Sets the limit of bytes kept for reuse; returns the limit before. 0 keeps nothing.

    >>> old = mx.set_cache_limit(1 << 30)
    >>> mx.set_cache_limit(old) == 1 << 30
    True
    """

def set_default_device(device: Device | DeviceType) -> None:
    """Makes `device` the default one. Raises ValueError when it does not exist.

    >>> mx.set_default_device(mx.default_device())
    """

def set_default_stream(stream: Stream) -> None:
    """Makes `stream` the default one of its device.

    >>> mx.set_default_stream(mx.default_stream(mx.cpu))
    """

def set_memory_limit(limit: int) -> int:
    """Sets the limit of active bytes beyond which allocation fails; returns the limit before.

    >>> old = mx.set_memory_limit(mx.get_memory_limit())
    """

def set_printoptions(precision: int = ...) -> None:
    """Sets how arrays print from now on.

    >>> mx.set_printoptions(precision=2)
    >>> mx.array(3.14159)
    array(3.14, dtype=float32)
    >>> mx.set_printoptions()
    """

def set_wired_limit(limit: int) -> int:
    """Stores a limit of wired bytes and returns the one before. Vulkan has no such notion: nothing follows from it.

    >>> mx.set_wired_limit(0)
    0
    """

def sigmoid(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Logistic function `1 / (1 + exp(-a))` of each element. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32. complex64 is refused.

    >>> mx.sigmoid(mx.array([0.0]))
    array([0.5], dtype=float32)
    """

def sign(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Sign of each element: -1, 0 or 1; for complex numbers `a / abs(a)`. Works on an array of any shape; the result has the shape and dtype of `a`. The sign of NaN is 0.

    >>> mx.sign(mx.array([-3.0, 0.0, 2.0]))
    array([-1, 0, 1], dtype=float32)
    """

def sin(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Sine of each element. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.sin(mx.array([0.0]))
    array([0], dtype=float32)
    """

def sinh(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Hyperbolic sine of each element. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.sinh(mx.array([0.0]))
    array([0], dtype=float32)
    """

def slice(a: array, start_indices: Any, axes: Sequence[int] | None, slice_size: Any, *, stream: _StreamOrDevice = ...) -> array:
    """The part of `a` of shape `slice_size` that starts at `start_indices`, an array, on `axes`, and at 0 on the
    other axes.

    Negative starts count from the end; a start is held where the part fits into `a`. Raises ValueError for a
    part that is larger than `a`, for repeated axes and for starts that are not integers, IndexError for a wrong
    axis.

    >>> mx.slice(mx.array([5, 6, 7]), mx.array([1]), (0,), (2,))
    array([6, 7], dtype=int32)
    """

def slice_update(a: array, update: Any, start_indices: Any, axes: Sequence[int] | None, *, stream: _StreamOrDevice = ...) -> array:
    """A copy of `a` with `update` written from `start_indices`, an array, on `axes`, and from 0 on the other axes.

    The update is converted to the dtype of `a`; axes that it lacks have length one. Negative starts count from
    the end; a start is held where the update fits into `a`. Raises ValueError for an update that is larger than
    `a`, for repeated axes and for starts that are not integers, IndexError for a wrong axis.

    >>> mx.slice_update(mx.zeros(3), mx.array([6, 7]), mx.array([1]), (0,))
    array([0, 6, 7], dtype=float32)
    """

def softmax(a: array, /, axis: int | Sequence[int] | None = ..., *, precise: bool = ..., stream: _StreamOrDevice = ...) -> array:
    """`exp(a)` divided by its sum over `axis` (all axes by default). Under `precise`, narrow floats are computed in
    float32.

    >>> mx.softmax(mx.array([0.0, 0.0]))
    array([0.5, 0.5], dtype=float32)
    """

def sort(a: array, /, axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The elements in ascending order along `axis` (of the flattened array for None); NaN comes last.

    >>> mx.sort(mx.array([3, 1, 2]))
    array([1, 2, 3], dtype=int32)
    """

def split(a: array, /, indices_or_sections: int | Sequence[int], axis: int = ..., *, stream: _StreamOrDevice = ...) -> list[array]:
    """A list of parts of `a` along `axis`: so many equal ones, or cut at the given positions.

    >>> mx.split(mx.arange(4), 2)
    [array([0, 1], dtype=int32), array([2, 3], dtype=int32)]
    """

def sqrt(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Square root of each element; NaN for negative ones. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.sqrt(mx.array([4.0]))
    array([2], dtype=float32)
    """

def square(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Each element times itself. Works on an array of any shape; the result has the shape and dtype of `a`. Integers wrap.

    >>> mx.square(mx.array([2.0, -3.0]))
    array([4, 9], dtype=float32)
    """

def squeeze(a: array, /, axis: int | Sequence[int] | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The array without axes of length one: those in `axis`, or all of them.

    >>> mx.squeeze(mx.zeros((1, 3, 1))).shape
    (3,)
    """

def stack(arrays: Sequence[array], axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The arrays, all of one shape, along a new axis.

    >>> mx.stack([mx.array([1, 2]), mx.array([3, 4])])
    array([[1, 2],
           [3, 4]], dtype=int32)
    """

def std(a: array, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., ddof: int = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Standard deviation over `axis` (all axes by default): the square root of `var`.

    >>> mx.std(mx.array([1.0, 3.0]))
    array(1, dtype=float32)
    """

def stop_gradient(a: array, /, *, stream: _StreamOrDevice = ...) -> array:
    """The array itself, through which no gradient flows.

    >>> mx.grad(lambda x: x * mx.stop_gradient(x))(mx.array(3.0))
    array(3, dtype=float32)
    """

def stream(s: Stream | ThreadLocalStream | Device | DeviceType) -> StreamContext:
    """A context in which operations run on `s` unless told otherwise.

    >>> with mx.stream(mx.cpu):
    ...     x = mx.ones(2)
    """

def subtract(a: _ArrayLike, b: _ArrayLike, stream: _StreamOrDevice = ...) -> array:
    """Difference of two arrays. The operands broadcast against each other and are promoted to a common dtype, which is that of the result.

    >>> mx.subtract(mx.array([5, 2]), mx.array([3, 4]))
    array([2, -2], dtype=int32)
    """

def sum(a: array, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Sum over `axis`: an axis, several, or all by default. Removed axes stay with length 1 under `keepdims`.
    bool and narrow integers are summed as 32-bit integers. Raises IndexError for an axis out of range.

    >>> mx.sum(mx.array([[1, 2], [3, 4]]), axis=0)
    array([4, 6], dtype=int32)
    """

def swapaxes(a: array, /, axis1: int, axis2: int, *, stream: _StreamOrDevice = ...) -> array:
    """The array with two axes swapped.

    >>> mx.swapaxes(mx.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """

def synchronize(stream: _StreamOrDevice = ...) -> None:
    """Waits until the work of a stream (by default the current one) is finished.

    >>> mx.synchronize(mx.cpu)
    """

def take(a: array, /, indices: int | array, axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The elements of `a` at `indices` along `axis` (in the flattened array for None).

    The axes of `indices`, an integer or an array of integers, stand in the place of `axis`. Negative indices
    count from the end; indices in an array that are out of range are held at the ends of the axis. Raises
    ValueError for other dtypes and for a non-empty take from nothing, IndexError for a wrong axis.

    >>> mx.take(mx.array([5, 6, 7]), mx.array([2, 0]))
    array([7, 5], dtype=int32)
    """

def take_along_axis(a: array, /, indices: int | array, axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The elements of `a` along `axis` at `indices`, which have as many axes as `a`.

    The other axes are broadcast against each other; the result has the length of `indices` along `axis`. For
    None `a` is flattened and `indices` have one axis. Negative indices count from the end; others out of range
    are held at the ends of the axis. Raises ValueError for wrong shapes, RuntimeError for indices that are not
    integers, IndexError for a wrong axis.

    >>> mx.take_along_axis(mx.array([[5, 6], [7, 8]]), mx.array([[1], [0]]), axis=1)
    array([[6],
           [7]], dtype=int32)
    """

def tan(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Tangent of each element. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.tan(mx.array([0.0]))
    array([0], dtype=float32)
    """

def tanh(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Hyperbolic tangent of each element. Works on an array of any shape; the result has the shape of `a`; integers and bool give float32.

    >>> mx.tanh(mx.array([0.0]))
    array([0], dtype=float32)
    """

def tensordot(a: _ArrayLike, b: _ArrayLike, /, axes: int | list[Sequence[int]] = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Sum of products over axes of two arrays: the last `axes` of `a` with the first `axes` of `b`, or the axes in two
    lists, pair by pair. Floating point and complex dtypes only; raises ValueError where lengths differ.

    >>> mx.tensordot(mx.ones((2, 3)), mx.ones((3, 2)), 1)
    array([[3, 3],
           [3, 3]], dtype=float32)
    """

def tile(a: _ArrayLike, reps: int | Sequence[int], /, *, stream: _StreamOrDevice = ...) -> array:
    """The array laid out `reps` times along its axes, the last number for the last axis.

    >>> mx.tile(mx.array([1, 2]), 2)
    array([1, 2, 1, 2], dtype=int32)
    """

def to_fp8(x: array, *, stream: _StreamOrDevice = ...) -> array:
    """The nearest 8-bit float (E4M3) of each element, as uint8. What is larger than 448, NaN included, becomes 448.
    Raises ValueError unless the dtype of `x` is a real floating one.

    >>> mx.to_fp8(mx.array([1.0, 448.0]))
    array([56, 126], dtype=uint8)
    """

def topk(a: array, /, k: int, axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The `k` largest elements along `axis` (of the flattened array for None), in no particular order. Raises
    ValueError for a `k` out of range.

    >>> mx.topk(mx.array([2, 1, 3]), 1)
    array([3], dtype=int32)
    """

def trace(a: array, /, offset: int = ..., axis1: int = ..., axis2: int = ..., dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Sum of a diagonal (see `diagonal`) over the matrices of `axis1` and `axis2`, converted to `dtype` first. Bool
    and narrow integers are summed as 32-bit integers.

    >>> mx.trace(mx.array([[1, 2], [3, 4]]))
    array(5, dtype=int32)
    """

def transpose(a: array, /, axes: Any = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The array with its axes in another order, by default reversed.

    >>> mx.transpose(mx.zeros((2, 3, 4)), (1, 0, 2)).shape
    (3, 2, 4)
    """

def tri(n: int, m: int | None = ..., k: int = ..., dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """An `n` by `m` matrix (default square) with ones on and below diagonal `k`.

    >>> mx.tri(2)
    array([[1, 0],
           [1, 1]], dtype=float32)
    """

def tril(x: array, k: int = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The matrices of `x` with zeros above diagonal `k`.

    >>> mx.tril(mx.ones((2, 2)))
    array([[1, 0],
           [1, 1]], dtype=float32)
    """

def triu(x: array, k: int = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The matrices of `x` with zeros below diagonal `k`.

    >>> mx.triu(mx.ones((2, 2)))
    array([[1, 1],
           [0, 1]], dtype=float32)
    """

def trunc(a: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Integer part of each element, towards zero.

    >>> 
    """

def unflatten(a: array, /, axis: int, shape: Sequence[int], *, stream: _StreamOrDevice = ...) -> array:
    """Splits `axis` into axes of `shape`, in which one -1 is inferred.

    >>> mx.unflatten(mx.zeros((2, 12)), 1, (3, 4)).shape
    (2, 3, 4)
    """

def unique(a: array, /, size: Any, return_index: Any = ..., return_inverse: Any = ..., return_counts: Any = ..., fill_value: Any = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The first `size` distinct elements of the flattened array in ascending order; if there are fewer, the rest is
    `fill_value` (the least element by default). On request with the index of each one's first occurrence
    (uint32), for each element of `a` the index of its value (uint32, the shape of `a`), and how often each occurs
    (int32, 0 for the fill). Each NaN is distinct. Raises ValueError for a negative size.

    >>> mx.unique(mx.array([2, 1, 2]), 2)
    array([1, 2], dtype=int32)
    """

def unstack(x: array, /, *, axis: int | None = ..., stream: _StreamOrDevice = ...) -> array:
    """The slices of `x` along `axis`, without that axis, as a tuple: the inverse of `stack`. Raises IndexError for an
    axis out of range.

    >>> mx.unstack(mx.array([[1, 2], [3, 4]]))
    (array([1, 2], dtype=int32), array([3, 4], dtype=int32))
    """

def value_and_grad(fun: Callable[..., Any], argnums: int | Sequence[int] | None = ..., argnames: str | Sequence[str] | None = ...) -> Callable[..., Any]:
    """As `grad`, but the function returns the pair of value and gradient. `fun` may return a tuple whose first
    element is the scalar; the others are handed through.

    >>> mx.value_and_grad(lambda x: x * x)(mx.array(3.0))
    (array(9, dtype=float32), array(6, dtype=float32))
    """

def var(a: array, /, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., ddof: int = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Variance over `axis` (all axes by default), divided by the count less `ddof`; integers give float32.

    >>> mx.var(mx.array([1.0, 3.0]))
    array(1, dtype=float32)
    """

def vecdot(a: _ArrayLike, b: _ArrayLike, /, *, axis: int | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Sum of `conj(a) * b` along `axis`; the other axes broadcast. Narrow integers are summed as 32-bit integers.

    >>> mx.vecdot(mx.array([[1, 2], [3, 4]]), mx.array([[1, 1], [2, 2]]))
    array([3, 14], dtype=int32)
    """

def view(a: _ArrayLike, dtype: Dtype, stream: _StreamOrDevice = ...) -> array:
    """The bytes of `a` seen as another dtype; the last axis changes with the size of an element.

    >>> mx.view(mx.array([1.0]), mx.int32)
    array([1065353216], dtype=int32)
    """

def vjp(fun: Callable[..., Any], primals: Sequence[array], cotangents: Sequence[array]) -> tuple[list[array], list[array]]:
    """Outputs of `fun` at `primals`, and the products of `cotangents` (one for each output) with its Jacobian: one
    for each primal.

    >>> mx.vjp(lambda x: 2 * x, [mx.array(3.0)], [mx.array(1.0)])
    ([array(6, dtype=float32)], [array(2, dtype=float32)])
    """

def vmap(fun: Callable[..., Any], in_axes: Any = ..., out_axes: Any = ...) -> array:
    """A function that applies `fun` to every element along an axis of its arguments and stacks the results.

    `in_axes` says along which axis each argument is taken apart: an integer for all of them, or a tree of the form
    of the arguments with integers, or `None` for what every element shares. `out_axes` says where the results are
    stacked. Raises ValueError where the lengths of the axes differ.

    >>> mx.vmap(lambda x, y: x * y, in_axes=(0, None))(mx.array([1, 2]), mx.array(3))
    array([3, 6], dtype=int32)
    """

def where(condition: _ArrayLike, x: _ArrayLike, y: _ArrayLike, /, *, stream: _StreamOrDevice = ...) -> array:
    """Elements of `x` where `condition` is true, else those of `y`. All three broadcast; the dtype is the
    promoted one of `x` and `y`.

    >>> mx.where(mx.array([True, False]), 1, mx.array([5, 6]))
    array([1, 6], dtype=int32)
    """

def zeros(shape: int | Sequence[int], dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """An array of `shape` filled with zeros; `dtype` is float32 by default.

    >>> mx.zeros((2, 2), mx.int32)
    array([[0, 0],
           [0, 0]], dtype=int32)
    """

def zeros_like(a: array, /, dtype: Dtype | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Zeros of the shape of `a`, and of its dtype unless another is given.

    >>> mx.zeros_like(mx.array([1, 2]))
    array([0, 0], dtype=int32)
    """
