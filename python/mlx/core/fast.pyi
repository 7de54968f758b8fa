# Written by tools/stubs.py from the module itself; do not edit.
"""Operations with kernels of their own, and user-written kernels."""

from collections.abc import Callable, Sequence
from typing import Any
from . import _StreamOrDevice, array

__all__ = ['cross_entropy', 'cuda_kernel', 'gated_delta_update', 'layer_norm', 'metal_kernel', 'precompiled_cuda_kernel', 'rms_norm', 'rope', 'scaled_dot_product_attention', 'vulkan_kernel']

def cross_entropy(logits: array, targets: array, *, stream: _StreamOrDevice = ...) -> array:
    """`logsumexp(logits) - logits[target]` over the last axis, in float32. `targets` holds class indices and has the
    shape of `logits` without that axis. Raises ValueError for shapes and dtypes that do not fit.

    >>> mx.fast.cross_entropy(mx.zeros((1, 1)), mx.array([0]))
    array([0], dtype=float32)
    """

def cuda_kernel(name: str, input_names: Sequence[str], output_names: Sequence[str], source: str, header: str = ..., ensure_row_contiguous: bool = ..., shared_memory: Any = ...) -> Callable[..., Any]:
    """Raises RuntimeError: there is no CUDA here. See `vulkan_kernel`.

    >>> mx.cuda.is_available()
    False
    """

def gated_delta_update(q: array, k: array, v: array, gamma: Any, beta: array, initial_state: Any = ..., mask: Any = ..., stream: _StreamOrDevice = ...) -> array:
    """The gated delta rule over `T` steps: `q` and `k` have shape `(B, T, Hk, Dk)`, `v` `(B, T, Hv, Dv)`, `gamma` (decay;
    also with an axis `Dk` more) and `beta` `(B, T, Hv)`, `initial_state` `(B, Hv, Dv, Dk)`, zeros by default. Where
    `mask`, of shape `(B, T)`, is false the state stays and the output is zero. Returns the outputs `(B, T, Hv, Dv)` in
    the dtype of `q` and the last state in float32. Raises ValueError for shapes that do not fit.

    >>> q, g = mx.ones((1, 2, 1, 4)), mx.ones((1, 2, 1))
    >>> [a.shape for a in mx.fast.gated_delta_update(q, q, q, g, g)]
    [(1, 2, 1, 4), (1, 1, 4, 4)]
    """

def layer_norm(x: array, weight: array | None, bias: array | None, eps: float, *, stream: _StreamOrDevice = ...) -> array:
    """`(x - mean(x)) / sqrt(var(x) + eps) * weight + bias` over the last axis of `x`. `weight` and `bias` have the
    size of that axis, or are None. The result has the promoted dtype of all, or that of `x` if there is no weight;
    sums are in float32. Raises ValueError
    for dtypes that are not real floating and weights that do not fit.

    >>> mx.fast.layer_norm(mx.array([1.0, 3.0]), None, None, 0.0)
    array([-1, 1], dtype=float32)
    """

def metal_kernel(name: str, input_names: Sequence[str], output_names: Sequence[str], source: str, header: str = ..., ensure_row_contiguous: bool = ..., atomic_outputs: bool = ..., compile_options: Any = ...) -> Callable[..., Any]:
    """An object that stands for a Metal kernel, so that programs which define some can be imported. Calling it raises
    RuntimeError: there is no Metal here, see `vulkan_kernel`. Functions that call it on a GPU stream can be exported;
    what comes back by `import_function` raises when it is evaluated.

    >>> kernel = mx.fast.metal_kernel("f", ["x"], ["y"], "y[0] = x[0];")
    """

def precompiled_cuda_kernel(*, name: Any, compiled_source: Any, inputs: Any, output_shapes: Any, output_dtypes: Any, scalars: Any, grid: Any, threadgroup: Any, shared_memory: Any = ..., init_value: Any = ..., ensure_row_contiguous: Any = ..., stream: _StreamOrDevice = ...) -> array:
    """Raises RuntimeError: there is no CUDA here.

    >>> mx.cuda.is_available()
    False
    """

def rms_norm(x: array, weight: array | None, eps: float, *, stream: _StreamOrDevice = ...) -> array:
    """`x / sqrt(mean(x**2) + eps) * weight` over the last axis of `x`. `weight` has the size of that axis, or is None.
    The result has the promoted dtype of both; sums are in float32. Raises ValueError for dtypes that are not real
    floating and weights that do not fit.

    >>> mx.fast.rms_norm(mx.array([3.0, 4.0]), None, 0.0) * 12.5 ** 0.5
    array([3, 4], dtype=float32)
    """

def rope(a: array, dims: int, *, traditional: bool, base: float | None, scale: float, offset: int | array, freqs: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Rotary position embedding of `a`, of shape `(B, ..., T, D)`: the first `dims` features are turned, in pairs of
    neighbours (`traditional`) or of features `dims / 2` apart, by the angle `scale * (offset + t) * base ** (-2 * i /
    dims)` for pair `i` of position `t`. `offset` is an integer, or an array of one integer or one for each of `B`.
    `freqs`, of size `dims / 2`, are wavelengths that stand for the powers of `base`, which is None then. Raises
    ValueError for arguments that do not fit.

    >>> x = mx.array([1.0, 0.0]).reshape(1, 1, 2)
    >>> mx.fast.rope(x, 2, traditional=True, base=1e4, scale=1.0, offset=0)
    array([[[1, 0]]], dtype=float32)
    """

def scaled_dot_product_attention(q: array, k: array, v: array, *, scale: float, mask: str | array | None = ..., sinks: array | None = ..., force_fused: Any = ..., stream: _StreamOrDevice = ...) -> array:
    """`softmax(scale * q @ k.T + mask) @ v` by heads: `q` has shape `(B, N_q, T_q, D)`, `k` `(B, N_kv, T_kv, D)` and `v`
    `(B, N_kv, T_kv, D_v)`; `N_q` is a multiple of `N_kv`, whose heads serve several heads of queries. `mask` is None,
    "causal" (the last query stands at the last key) or an array that broadcasts to `(B, N_q, T_q, T_kv)`: true where
    a key counts, or numbers to add. `sinks`, of shape `(N_q,)`, are scores of one more key of each head, which has no
    value. The result has the promoted dtype of q, k and v; sums are in float32. `force_fused` refuses CPU streams, which
    have no such kernel in MLX. Raises ValueError for arguments that do not fit.

    >>> q, k = mx.zeros((1, 4, 1, 8)), mx.zeros((1, 2, 3, 8))
    >>> mx.fast.scaled_dot_product_attention(q, k, mx.ones((1, 2, 3, 8)), scale=1.0).shape
    (1, 4, 1, 8)
    """

def vulkan_kernel(name: str, input_names: Sequence[str], output_names: Sequence[str], source: str | bytes, header: str = ..., ensure_row_contiguous: bool = ..., atomic_outputs: bool = ...) -> Callable[..., Any]:
    """A kernel for the GPU, compiled on first use and cached. `source` is the body of its main function in GLSL, in
    which the names of inputs and outputs are arrays (an input of rank 0 is a value), `NAME_shape`, `NAME_strides` and
    `NAME_ndim` tell about inputs, and `thread_position_in_grid` and the like are as in Metal; `header` goes before
    that function. bfloat16 elements are uint16_t (see `bfloat16_to_float` and `float_to_bfloat16`), complex ones vec2.
    Or `source` is a SPIR-V module as bytes: its push constants are the address of a table of addresses (inputs,
    outputs, shape as int32 and strides as int64 of each input) and the grid as three uint32; its workgroup size
    may be the specialisation constants 0 to 2. `atomic_outputs` changes nothing: GLSL's atomics take any output.

    The result is called with keywords: `inputs`, `output_shapes`, `output_dtypes`, `grid` (threads), `threadgroup`
    (threads of a workgroup), and if wanted `template` (pairs of a name and a dtype, int or bool), `init_value` of the
    outputs, `verbose` (prints the GLSL) and `stream`; it returns a list of arrays. Code that does not compile raises
    RuntimeError with the compiler's lines at evaluation, a CPU stream ValueError at the call.

    >>> source = "uint i = thread_position_in_grid.x; y[i] = T(2) * x[i];"
    >>> twice = mx.fast.vulkan_kernel("twice", ["x"], ["y"], source)
    """
