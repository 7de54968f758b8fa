# Written by tools/stubs.py from the module itself; do not edit.
"""What is particular to the Vulkan backend."""

from typing import Any, Self, final
from . import _StreamOrDevice, array

__all__ = ['cache_info', 'describe', 'device_info', 'host_ops', 'is_available', 'pipeline', 'profile', 'stats']

@final
class _Recording:
    """A profile that runs; what Python makes of it is `mlx._profile.Profile`."""
    def __new__(cls, isolate: bool) -> Self: ...
    def stop(self, /) -> dict[str, Any]:
        """Waits for the work and returns what was seen."""

def _environment() -> tuple[list[list[str]], list[tuple[str, str]]]:
    """The variables of the environment that the library reads: name, default, values, effect; and the kernel variants
    that MLX_VK_DISABLE knows with what runs instead. docs/environment.md is written from it.
    """

def _set_disabled(names: Any) -> list[str]:
    """Takes these kernel variants out of every choice, in place of those of MLX_VK_DISABLE; returns those before."""

def cache_info() -> dict[str, Any]:
    """The folder of compiled kernels, how many files it holds and their bytes.

    >>> mx.vulkan.cache_info()["files"] >= 0
    True
    """

def describe(index: int = ...) -> dict[str, Any]:
    """Facts about Vulkan device `index`, which is opened for it: driver, memory, queues, limits, probed features, and
    which kernels follow from them. Raises ValueError when there is no such device.

    >>> facts = mx.vulkan.describe() if mx.vulkan.is_available() else {"features": {}}
    >>> "features" in facts
    True
    """

def device_info(index: int = ...) -> dict[str, Any]:
    """Facts about Vulkan device `index`; empty when there is none.

    >>> mx.vulkan.device_info() == mx.device_info(mx.gpu)
    True
    """

def host_ops() -> int:
    """How many operations CPU streams have been handed since the process started: work for a GPU stream adds none.

    >>> mx.vulkan.host_ops() >= 0
    True
    """

def is_available() -> bool:
    """Whether a Vulkan device was found.

    >>> mx.vulkan.is_available() == mx.is_available(mx.gpu)
    True
    """

def pipeline(fn: Any, batches: Any, depth: Any = ..., chunk: Any = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Streams batches through a function: while one computes, the next goes to the device and the one before comes back.

    Args:
      fn: is called with the arrays of a batch; returns an array or a tree of arrays.
      batches: iterable of NumPy arrays or mlx arrays, or tuples of them for functions of several arguments. Other
        items of a tuple are passed on as they are.
      depth: batches, or chunks, that are under way at most: 1 is one after another.
      chunk: rows; batches with a longer first axis are cut into parts of so many, whose results are joined. `fn` must
        work on each row alone. Default: the environment variable MLX_VK_STREAM_CHUNK_ELEMS, else batches stay whole.
      stream: where `fn` computes.

    Returns an iterator over the results in order, whose bytes are on the host: `np.asarray(result)` neither waits nor
    copies. A batch that fails raises at its place, and `next` goes on with the one behind it. A batch has been read
    when the next one is asked for, so that its memory may be used again.

    >>> halves = mx.vulkan.pipeline(lambda x: x / 2, [np.arange(3), np.arange(2)])
    >>> [x.tolist() for x in halves]
    [[0.0, 0.5, 1.0], [0.0, 0.5]]
    """

def profile(isolate: bool = ...) -> Any:
    """Times everything that runs inside a `with` block: kernels and copies on the GPUs, and what the host does.

    Commands are timed as they run, so that some may overlap; with `isolate` a barrier keeps them apart, and each
    time is the kernel's own. The block's work is waited for at its end. Profiles may be nested and may run on
    several threads: each sees what all threads do meanwhile. Without a GPU the host's part is left.

    The result prints as a table; `save(path)` writes a trace for Perfetto, `plot()` draws.

    >>> with mx.vulkan.profile() as p:
    ...     mx.eval(mx.ones(4) + 1)
    >>> p.commands == [] or p.commands[0].kernel != ""
    True
    """

def stats(reset: bool = ...) -> dict[str, Any]:
    """What ran since the process started (or the last reset), as a dict:

    - `dispatches`, `barriers`; `kernels`: dispatches by kernel; `matmul` and `conv`: the same for these families
    - `quantized_matmul`: products by kernel, rows of x and groups of codes along the sums
    - `attention`: calls by kernel, number of queries, number of keys, parts that the keys were cut into
    - `pipelines` and `spirv`: hits and misses of the caches, seconds spent building
    - `command_buffers`: how many, commands in all and on average, and how many by powers of two of commands
    - `uploads` and `downloads`: copies that needed a command, and their bytes
    - `recordings`: graphs of `async_eval` that a thread of its own recorded (MLX_VK_RECORDER)
    - `host_ops`: operations handed to CPU streams; `fallbacks`: operations of GPU streams that ran on the host

    With `reset` the counters start from zero afterwards, `recordings` and `host_ops` excepted. MLX_VK_STATS=1 prints
    all of it when the process ends.

    >>> stats = mx.vulkan.stats()
    >>> stats["host_ops"] >= 0
    True
    """
