# Written by tools/stubs.py from the module itself; do not edit.
"""Operations with kernels of their own, and user-written kernels."""

from collections.abc import Callable, Sequence
from typing import Any
from . import Dtype, _StreamOrDevice, array

__all__ = ['cross_entropy', 'cuda_kernel', 'gated_delta_update', 'layer_norm', 'metal_kernel', 'precompiled_cuda_kernel', 'rms_norm', 'rope', 'scaled_dot_product_attention', 'vulkan_kernel']

def cross_entropy(logits: array, targets: array, *, stream: _StreamOrDevice = ...) -> array:
    """Cross entropy of class indices and logits: `logsumexp(logits) - logits[target]` over the last axis.

    Computed in float32 and in one pass, without probabilities in memory. See `mlx.nn.losses.cross_entropy`
    for weights, smoothing and other axes.

    Args:
        logits (array): Scores of the classes, (..., n), of a real floating dtype.
        targets (array): Class indices, of an integer dtype and the shape of `logits` without its last axis.

    Returns:
        array: float32 losses, in the shape of `targets`.

    Raises:
        ValueError: if the shapes or dtypes do not fit.

    >>> mx.fast.cross_entropy(mx.zeros((1, 1)), mx.array([0]))
    array([0], dtype=float32)
    """

def cuda_kernel(name: str, input_names: Sequence[str], output_names: Sequence[str], source: str, header: str = ..., ensure_row_contiguous: bool = ..., shared_memory: int = ...) -> Callable[..., Any]:
    """Always raises RuntimeError: there is no CUDA here. The name exists for programs that ask.

    `vulkan_kernel` takes nearly the same arguments and code in GLSL.

    Args:
        name (str): Name of the kernel.
        input_names (Sequence[str]): Names of the inputs in the code.
        output_names (Sequence[str]): Names of the outputs in the code.
        source (str): Body of the kernel, in CUDA's language.
        header (str, optional): Code in front of the kernel. Default: "".
        ensure_row_contiguous (bool, optional): Whether inputs are copied into row-major order where they lie
            otherwise. Default: True.
        shared_memory (int, optional): Bytes of shared memory. Default: 0.

    Returns:
        Callable: Nothing is ever returned.

    Raises:
        RuntimeError: always.

    >>> mx.cuda.is_available()
    False
    """

def gated_delta_update(q: array, k: array, v: array, gamma: Any, beta: array, initial_state: Any = ..., mask: Any = ..., stream: _StreamOrDevice = ...) -> tuple[array, array]:
    """Gated delta rule over a sequence: a state per head that decays and is corrected towards each value.

    At each step the state is multiplied by the decay, `beta * (v - state @ k)` goes into it at the key, and
    the output is `state @ q`. Yang et al. 2024, "Gated Delta Networks" (arXiv 2412.06464).

    Args:
        q (array): Queries, (B, T, H_k, D_k).
        k (array): Keys, (B, T, H_k, D_k).
        v (array): Values, (B, T, H_v, D_v), where H_k divides H_v.
        gamma (array): Decay, (B, T, H_v), or (B, T, H_v, D_k) for one of each feature.
        beta (array): How far the state is corrected, (B, T, H_v).
        initial_state (array, optional): State before the first step, (B, H_v, D_v, D_k). Default: None,
            zeros.
        mask (array, optional): bool, (B, T): where it is false the state stays and the output is zero.
            Default: None.

    Returns:
        tuple[array, array]: Outputs, (B, T, H_v, D_v), in the dtype of `q`, and the last state in float32.

    Raises:
        ValueError: if the shapes do not fit.

    >>> q, g = mx.ones((1, 2, 1, 4)), mx.ones((1, 2, 1))
    >>> [a.shape for a in mx.fast.gated_delta_update(q, q, q, g, g)]
    [(1, 2, 1, 4), (1, 1, 4, 4)]
    """

def layer_norm(x: array, weight: array | None, bias: array | None, eps: float, *, stream: _StreamOrDevice = ...) -> array:
    """Layer normalisation: `(x - mean(x)) / sqrt(var(x) + eps) * weight + bias` over the last axis.

    Sums are float32. Ba et al. 2016, "Layer Normalization" (arXiv 1607.06450).

    Args:
        x (array): Elements, (..., n), of a real floating dtype.
        weight (array | None): Factors, (n,); None for ones.
        bias (array | None): What is added, (n,); None for zeros.
        eps (float): What keeps the root away from zero.

    Returns:
        array: Of the shape of `x`, in the promoted dtype of all, or that of `x` without a weight.

    Raises:
        ValueError: if `x` has no axes, weight or bias another length, or the dtype is not a real floating
            one.

    >>> mx.fast.layer_norm(mx.array([1.0, 3.0]), None, None, 0.0)
    array([-1, 1], dtype=float32)
    """

def metal_kernel(name: str, input_names: Sequence[str], output_names: Sequence[str], source: str, header: str = ..., ensure_row_contiguous: bool = ..., atomic_outputs: bool = ..., compile_options: object | None = ...) -> Callable[..., Any]:
    """An object that stands for a Metal kernel, so that programs which define some can be imported.

    There is no Metal here. `vulkan_kernel` takes the same arguments and code in GLSL. Functions that call the
    object on a GPU stream can be exported; what `import_function` makes of them raises when it is evaluated.

    Args:
        name (str): Name of the kernel.
        input_names (Sequence[str]): Names of the inputs in the code.
        output_names (Sequence[str]): Names of the outputs in the code.
        source (str): Body of the kernel, in Metal's language.
        header (str, optional): Code in front of the kernel. Default: "".
        ensure_row_contiguous (bool, optional): Whether inputs are copied into row-major order where they lie
            otherwise. Default: True.
        atomic_outputs (bool, optional): Whether outputs are atomic. Default: False.
        compile_options (object, optional): What Metal's compiler is told. Default: None.

    Returns:
        Callable: The object; to call it raises RuntimeError, unless a function is being exported.

    Raises:
        ValueError: if there is no output.

    >>> kernel = mx.fast.metal_kernel("f", ["x"], ["y"], "y[0] = x[0];")
    """

def precompiled_cuda_kernel(*, name: str, compiled_source: bytes, inputs: Any, output_shapes: Sequence[Sequence[int]], output_dtypes: Any, scalars: Sequence[object], grid: tuple[int, int, int], threadgroup: tuple[int, int, int], shared_memory: int = ..., init_value: float | None = ..., ensure_row_contiguous: bool = ..., stream: _StreamOrDevice = ...) -> list[array]:
    """Always raises RuntimeError: there is no CUDA here. The name exists for programs that ask.

    `vulkan_kernel` takes SPIR-V, which is what compiled kernels are to Vulkan.

    Args:
        name (str): Name of the kernel.
        compiled_source (bytes): The kernel.
        inputs (Sequence[array]): Its inputs.
        output_shapes (Sequence[Sequence[int]]): Shapes of its outputs.
        output_dtypes (Sequence[Dtype]): Dtypes of its outputs.
        scalars (Sequence[object]): Further arguments.
        grid (tuple[int, int, int]): Threads.
        threadgroup (tuple[int, int, int]): Threads of a block.
        shared_memory (int, optional): Bytes of shared memory. Default: 0.
        init_value (float, optional): What outputs are filled with before. Default: None.
        ensure_row_contiguous (bool, optional): Whether inputs are copied into row-major order. Default:
            False.

    Returns:
        list[array]: Nothing is ever returned.

    Raises:
        RuntimeError: always.

    >>> mx.cuda.is_available()
    False
    """

def rms_norm(x: array, weight: array | None, eps: float, *, stream: _StreamOrDevice = ...) -> array:
    """Root mean square normalisation: `x / sqrt(mean(x * x) + eps) * weight` over the last axis.

    Sums are float32. Zhang and Sennrich 2019, "Root Mean Square Layer Normalization" (arXiv 1910.07467).

    Args:
        x (array): Elements, (..., n), of a real floating dtype.
        weight (array | None): Factors, (n,); None for ones.
        eps (float): What keeps the root away from zero.

    Returns:
        array: Of the shape of `x`, in the promoted dtype of both.

    Raises:
        ValueError: if `x` has no axes, the weight another length, or the dtype is not a real floating one.

    >>> mx.fast.rms_norm(mx.array([3.0, 4.0]), None, 0.0) * 12.5 ** 0.5
    array([3, 4], dtype=float32)
    """

def rope(a: array, dims: int, *, traditional: bool, base: float | None, scale: float, offset: int | array, freqs: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Rotary position embedding: pairs of features are turned by an angle that grows with the position.

    Pair i of position t is turned by `scale * (offset + t) * base ** (-2 * i / dims)`, or by `scale * (offset
    + t) / freqs[i]`. Su et al. 2021, "RoFormer" (arXiv 2104.09864).

    Args:
        a (array): Elements, (B, ..., T, D), with at least three axes and a real floating dtype.
        dims (int): How many features are turned, from the first one on; an even number.
        traditional (bool): Whether pairs are neighbours; else feature i goes with feature `dims / 2 + i`.
        base (float | None): Base of the wavelengths; None where `freqs` are given.
        scale (float): Factor on positions.
        offset (int | array): Position of the first element: an integer, or an array of one or of one for each
            of B.
        freqs (array, optional): Wavelengths, (dims / 2,), in the place of the powers of `base`. Default:
            None.

    Returns:
        array: Of the shape and dtype of `a`.

    Raises:
        ValueError: if there are fewer than three axes, `dims` is odd or not positive, not exactly one of
            `base` and `freqs` is given, or a shape or dtype does not fit.

    >>> x = mx.array([1.0, 0.0]).reshape(1, 1, 2)
    >>> mx.fast.rope(x, 2, traditional=True, base=1e4, scale=1.0, offset=0)
    array([[[1, 0]]], dtype=float32)
    """

def scaled_dot_product_attention(q: array, k: array, v: array, *, scale: float, mask: str | array | None = ..., sinks: array | None = ..., force_fused: bool = ..., stream: _StreamOrDevice = ...) -> array:
    """Attention of several heads: `softmax(scale * q @ k.T + mask) @ v`, without scores in memory.

    Heads of keys and values may be fewer than those of queries, of which each then serves a group
    (grouped-query attention; no repetition is needed). Sums are float32. Vaswani et al. 2017, "Attention Is
    All You Need" (arXiv 1706.03762); the running maximum of Dao et al. 2022 (arXiv 2205.14135).

    Args:
        q (array): Queries, (B, N_q, T_q, D), of a real floating dtype.
        k (array): Keys, (B, N_kv, T_kv, D), where N_kv divides N_q.
        v (array): Values, (B, N_kv, T_kv, D_v).
        scale (float): Factor on scores, usually `D ** -0.5`.
        mask (str | array, optional): "causal", where the last query stands at the last key; a bool array that
            broadcasts to (B, N_q, T_q, T_kv), true where a key counts; or numbers to add to scores. Default:
            None.
        sinks (array, optional): Scores, (N_q,), of one more key of each head that has no value. Default:
            None.
        force_fused (bool, optional): Whether a stream that has no such kernel in MLX is refused: CPU streams.
            Default: False.

    Returns:
        array: Of shape (B, N_q, T_q, D_v), in the promoted dtype of queries, keys and values.

    Raises:
        ValueError: if a rank, shape or dtype does not fit, N_kv does not divide N_q, or the mask is another
            text.

    >>> q, k = mx.zeros((1, 4, 1, 8)), mx.zeros((1, 2, 3, 8))
    >>> mx.fast.scaled_dot_product_attention(q, k, mx.ones((1, 2, 3, 8)), scale=1.0).shape
    (1, 4, 1, 8)
    """

def vulkan_kernel(name: str, input_names: Sequence[str], output_names: Sequence[str], source: str | bytes, header: str = ..., ensure_row_contiguous: bool = ..., atomic_outputs: bool = ...) -> Callable[..., Any]:
    """A kernel for the GPU in GLSL or SPIR-V, compiled when it is first used and kept on disk.

    In GLSL `source` is the body of the main function. The names of inputs and outputs are arrays there (an
    input without axes is a value); `NAME_shape`, `NAME_strides` and `NAME_ndim` tell about inputs;
    `thread_position_in_grid` and the like are those of Metal. bfloat16 elements are uint16_t (see
    `bfloat16_to_float` and `float_to_bfloat16`), complex ones vec2.

    A SPIR-V module gets as push constants the address of a table of addresses (inputs, outputs, then shape as
    int32 and strides as int64 of each input) and the grid as three uint32; its workgroup size may be the
    specialisation constants 0 to 2.

    Args:
        name (str): Name of the kernel, for messages and profiles.
        input_names (Sequence[str]): Names of the inputs in the code.
        output_names (Sequence[str]): Names of the outputs in the code.
        source (str | bytes): Body in GLSL, or a SPIR-V module.
        header (str, optional): GLSL in front of the main function. Default: "".
        ensure_row_contiguous (bool, optional): Whether inputs are copied into row-major order where they lie
            otherwise. Default: True.
        atomic_outputs (bool, optional): Changes nothing, since GLSL's atomics take any output. Default:
            False.

    Returns:
        Callable: Called with the keywords `inputs`, `output_shapes`, `output_dtypes`, `grid` (threads),
            `threadgroup` (threads of a workgroup), and if wanted `template` (pairs of a name and a dtype, int
            or bool), `init_value` of the outputs, `verbose` (prints the GLSL) and `stream`, it returns a list
            of arrays.

    Raises:
        ValueError: if names are no identifiers or appear twice, and at the call if a CPU stream is asked for.
        RuntimeError: when evaluated, with the compiler's lines, if the code does not compile.

    >>> source = "uint i = thread_position_in_grid.x; y[i] = T(2) * x[i];"
    >>> twice = mx.fast.vulkan_kernel("twice", ["x"], ["y"], source)
    """
