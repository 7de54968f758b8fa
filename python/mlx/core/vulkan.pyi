# Written by tools/stubs.py from the module itself; do not edit.
"""What is particular to the Vulkan backend."""

from collections.abc import Callable
from typing import Any, Self, final
from . import Dtype, _StreamOrDevice, array

__all__ = ['cache_info', 'describe', 'device_info', 'host_ops', 'is_available', 'pipeline', 'profile', 'stats']

__version__: str

@final
class _Recording:
    """A profile that runs; what Python makes of it is `mlx._profile.Profile`."""
    def __new__(cls, isolate: bool) -> Self: ...
    def stop(self, /) -> dict[str, Any]:
        """Waits for the work and returns what was seen."""

def _compiled() -> array:
    """What became of each kernel that was compiled since the last call, where devices only compile (MLX_VK_COMPILE_ONLY)."""

def _elementwise() -> array:
    """Names of the elementwise table's rows that are functions of `mlx.core`, with their number of operands."""

def _environment() -> tuple[list[list[str]], list[tuple[str, str]]]:
    """The variables of the environment that the library reads: name, default, values, effect; and the kernel variants
    that MLX_VK_DISABLE knows with what runs instead. docs/environment.md is written from it.
    """

def _fault(text: Any) -> array:
    """Has calls of the driver or the system fail, for tests: `kind@n`, `kind@n+`, `count` or `off` (see MLX_VK_FAULT).
    Returns how often each kind was called since the last call of this, and how many of those calls failed.
    """

def _rejected() -> tuple[str | None, list[tuple[str, str, str]]]:
    """Why GPUs cannot be used: what keeps all of them from being seen, or None, and those that were seen and lack
    something, as (name, kind, reason).
    """

def _set_disabled(names: Any) -> list[str]:
    """Takes these kernel variants out of every choice, in place of those of MLX_VK_DISABLE; returns those before."""

def _tune_measure(index: int) -> list[int]: ...

def _tune_question(index: int, name: Any, sides: Any = ..., dtype: Dtype | None = ..., format: Any = ...) -> dict[str, Any] | None: ...

def _tune_set(index: int, lines: Any, keep: Any = ...) -> bool: ...

def _tune_winners(index: int) -> list[str]: ...

def cache_info() -> dict[str, Any]:
    """Facts about the cache of compiled kernels on disk.

    It may be removed at any time; kernels are then compiled again.

    Returns:
        dict[str, object]: The folder, how many files it holds (`files`) and their bytes.

    >>> mx.vulkan.cache_info()["files"] >= 0
    True
    """

def describe(index: int = ...) -> dict[str, Any]:
    """Facts about a Vulkan device, which is opened for it.

    Driver, memory, queues, limits, probed features, and which kernels follow from them. `python -m mlx.info`
    prints it.

    Args:
        index (int, optional): Position in the ranked list of devices. Default: 0.

    Returns:
        dict[str, object]: A tree of facts.

    Raises:
        ValueError: if there is no such device.

    >>> facts = mx.vulkan.describe() if mx.vulkan.is_available() else {"features": {}}
    >>> "features" in facts
    True
    """

def device_info(index: int = ...) -> dict[str, Any]:
    """Facts about a Vulkan device.

    Args:
        index (int, optional): Position in the ranked list of devices. Default: 0.

    Returns:
        dict[str, str | int]: As `mlx.core.device_info` gives them; empty where there is no such device.

    >>> mx.vulkan.device_info() == mx.device_info(mx.gpu)
    True
    """

def host_ops() -> int:
    """How many operations CPU streams have been handed since the process started.

    Work for a GPU stream adds none, so that a difference tells whether something ran on the host.

    Returns:
        int: The count.

    >>> mx.vulkan.host_ops() >= 0
    True
    """

def is_available() -> bool:
    """Whether a Vulkan device was found, a software driver among them.

    Returns:
        bool: As `mx.is_available(mx.gpu)`.

    >>> mx.vulkan.is_available() == mx.is_available(mx.gpu)
    True
    """

def pipeline(fn: Any, batches: Any, depth: int = ..., chunk: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Streams batches through a function: while one computes, the next goes to the device and the one before
    comes back.

    A batch that fails raises at its place, and `next` goes on with the one behind it. A batch has been read
    when the next one is asked for, so that its memory may be used again.

    Args:
        fn (Callable): Called with the arrays of a batch; returns an array or a tree of arrays.
        batches (Iterable): NumPy arrays or mlx arrays, or tuples of them for functions of several arguments.
            Other items of a tuple are passed on as they are.
        depth (int, optional): Batches, or chunks, that are under way at most: 1 is one after another.
            Default: 2.
        chunk (int, optional): Rows: batches with a longer first axis are cut into parts of so many, whose
            results are joined; `fn` must work on each row alone. Default: None, the environment variable
            MLX_VK_STREAM_CHUNK_ELEMS, else batches stay whole.

    Returns:
        Iterator: Results in order, whose bytes are on the host: `np.asarray(result)` neither waits nor
            copies.

    Raises:
        ValueError: if `depth` or `chunk` is not positive.

    >>> halves = mx.vulkan.pipeline(lambda x: x / 2, [np.arange(3), np.arange(2)])
    >>> [x.tolist() for x in halves]
    [[0.0, 0.5, 1.0], [0.0, 0.5]]
    """

def profile(isolate: bool = ...) -> Any:
    """Times everything that runs inside a `with` block: kernels and copies on the GPUs, and what the host does.

    The block's work is waited for at its end. Profiles may be nested and may run on several threads: each
    sees what all threads do meanwhile. Without a GPU the host's part is left.

    Args:
        isolate (bool, optional): Whether a barrier keeps commands apart, so that each time is the kernel's
            own; else some may overlap. Default: False.

    Returns:
        Profile: For a `with` statement. It prints as a table; `save(path)` writes a trace for Perfetto,
            `plot()` draws.

    >>> with mx.vulkan.profile() as p:
    ...     mx.eval(mx.ones(4) + 1)
    >>> p.commands == [] or p.commands[0].kernel != ""
    True
    """

def stats(reset: bool = ...) -> dict[str, Any]:
    """What ran on GPUs since the process started, or since the last reset.

    - `dispatches`, `barriers`; `kernels`: dispatches by kernel; `matmul` and `conv`: the same for these
    families - `quantized_matmul`: products by kernel, rows of x and groups of codes along the sums -
    `attention`: calls by kernel, number of queries, number of keys, parts that the keys were cut into -
    `pipelines` and `spirv`: hits and misses of the caches, seconds spent building - `command_buffers`: how
    many, commands in all and on average, and how many by powers of two of commands - `uploads` and
    `downloads`: copies that needed a command, and their bytes - `recordings`: graphs of `async_eval` that a
    thread of its own recorded (MLX_VK_RECORDER) - `host_ops`: operations handed to CPU streams; `fallbacks`:
    operations of GPU streams that ran on the host

    MLX_VK_STATS=1 prints all of it when the process ends.

    Args:
        reset (bool, optional): Whether the counters start from zero afterwards, `recordings` and `host_ops`
            excepted. Default: False.

    Returns:
        dict[str, object]: Counters by name, as above.

    >>> stats = mx.vulkan.stats()
    >>> stats["host_ops"] >= 0
    True
    """
