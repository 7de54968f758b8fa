"""Layers whose weights are split over a group of processes.

Tensor parallelism follows Shoeybi et al. 2019 (arXiv 1909.08053): a layer is split along its
outputs ("all-to-sharded": each process sees the whole input and makes a part of the output) or
along its inputs ("sharded-to-all": each sees a part of the input, and the outputs are summed).
Fully sharded data parallelism follows Rajbhandari et al. 2019 (arXiv 1910.02054): each process
keeps a part of every parameter and gathers the whole for the time of a call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Self

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.quantized import QuantizedLinear
from mlx.utils import tree_flatten, tree_map_with_path, tree_unflatten

__all__ = [
    "AllToShardedLinear",
    "FullyShardedModule",
    "QuantizedAllToShardedLinear",
    "QuantizedShardedToAllLinear",
    "ShardedToAllLinear",
    "fully_shard",
    "shard_inplace",
    "shard_linear",
    "sum_gradients",
]

_Segments = int | list[Any]


def _world(group: mx.distributed.Group | None) -> mx.distributed.Group:
    return group or mx.distributed.init()


def _divided(size: int, what: str, group: mx.distributed.Group) -> int:
    count = group.size()
    if size % count != 0:
        raise ValueError(
            f"[shard] Cannot shard the {what} of size {size} across {count} processes."
        )
    return size // count


@cache
def sum_gradients(group: mx.distributed.Group) -> Callable[[mx.array], mx.array]:
    """A function that returns its input and sums its gradient over a group.

    Args:
        group (mlx.core.distributed.Group): The group of processes.

    Returns:
        callable: The identity, for one process and its gradient too.

    >>> import mlx.core as mx
    >>> sum_gradients(mx.distributed.init())(mx.ones((2,)))
    array([1, 1], dtype=float32)
    """
    if group.size() == 1:
        return lambda x: x

    @mx.custom_function
    def identity(x: mx.array) -> mx.array:
        return x

    @identity.vjp
    def identity_vjp(x: mx.array, cotangent: mx.array, output: mx.array) -> mx.array:
        return mx.distributed.all_sum(cotangent, group=group)

    return identity


# --- parts of weights ----------------------------------------------------------------------------


def _part(
    weight: mx.array, axis: int, segments: _Segments, group: mx.distributed.Group
) -> mx.array:
    """What a process keeps: of each segment of the axis its share, in order.

    `segments` is their number, the places where they begin (numbers of rows), or the shares of
    the axis before each of them.
    """
    count, rank = group.size(), group.rank()
    size = weight.shape[axis]
    if isinstance(segments, int):
        pieces = mx.split(weight, segments, axis=axis)
    else:
        cuts = [int(s * size) if isinstance(s, float) else int(s) for s in segments]
        pieces = mx.split(weight, cuts, axis=axis)
    for piece in pieces:
        _divided(piece.shape[axis], f"axis {axis} of a weight {weight.shape}", group)
    kept = [mx.split(piece, count, axis=axis)[rank] for piece in pieces]
    # A contiguous copy lets go of the parts of the other processes.
    return mx.contiguous(mx.concatenate(kept, axis=axis))


_Sharding = Callable[[str, mx.array], Any]


def _sharding(kind: str, segments: _Segments) -> _Sharding:
    """The axis to split and the segments of a parameter, by its name; None where it stays."""
    if kind == "all-to-sharded":
        return lambda path, weight: (max(weight.ndim - 2, 0), segments)
    if kind == "sharded-to-all":
        return lambda path, weight: None if path.endswith("bias") else (-1, segments)
    raise ValueError(
        f"[shard] Sharding type sharding='{kind}' not supported, choose one of "
        "'all-to-sharded' or 'sharded-to-all'"
    )


def _shard(parameters: Any, sharding: _Sharding, group: mx.distributed.Group) -> Any:
    def shard_one(path: str, weight: Any) -> Any:
        if not isinstance(weight, mx.array):
            return weight
        where = sharding(path, weight)
        if where is None:
            return weight
        axis, segments = where if isinstance(where, tuple) else (where, 1)
        return _part(weight, axis, segments, group)

    return tree_map_with_path(shard_one, parameters)


def shard_inplace(
    module: Module,
    sharding: str | Callable[[str, mx.array], Any],
    *,
    segments: int | list[Any] = 1,
    group: mx.distributed.Group | None = None,
) -> None:
    """Keep only this process's part of the parameters of a module.

    The module itself knows nothing of it; its caller does what communication is needed.

    Args:
        module (Module): Its parameters are replaced.
        sharding (str | callable): ``"all-to-sharded"`` splits the axis before the last (and
            biases), ``"sharded-to-all"`` the last one (and no ``bias``). A function is called with
            the name and the parameter and returns the axis, the axis and the segments, or None for
            what stays whole.
        segments (int | list, optional): Parts of the axis that are split each by itself, as where
            several matrices were joined: their number, or the places where all but the first
            begin. Default: ``1``.
        group (mlx.core.distributed.Group, optional): Default: all processes.

    Raises:
        ValueError: if ``sharding`` is another string, or a size cannot be divided.

    >>> import mlx.nn as nn
    >>> layer = nn.Linear(4, 6)
    >>> nn.layers.distributed.shard_inplace(layer, "all-to-sharded")
    >>> layer.weight.shape
    (6, 4)
    """
    rule = _sharding(sharding, segments) if isinstance(sharding, str) else sharding
    module.update(_shard(module.parameters(), rule, _world(group)))


def shard_linear(
    module: Module,
    sharding: str,
    *,
    segments: int | list[Any] = 1,
    group: mx.distributed.Group | None = None,
) -> Module:
    """A layer that does what a linear one does, split over a group.

    Args:
        module (Linear | QuantizedLinear): The layer.
        sharding (str): ``"all-to-sharded"`` or ``"sharded-to-all"``.
        segments, group: As for :func:`shard_inplace`.

    Returns:
        Module: A new layer.

    Raises:
        ValueError: if ``sharding`` is another string, or a size cannot be divided.

    >>> import mlx.nn as nn
    >>> nn.layers.distributed.shard_linear(nn.Linear(4, 6), "sharded-to-all")
    ShardedToAllLinear(input_dims=4, output_dims=6, bias=True)
    """
    _sharding(sharding, segments)
    outputs = sharding == "all-to-sharded"
    if isinstance(module, Linear):
        plain = AllToShardedLinear if outputs else ShardedToAllLinear
        return plain.from_linear(module, segments=segments, group=group)
    quantized = QuantizedAllToShardedLinear if outputs else QuantizedShardedToAllLinear
    return quantized.from_quantized_linear(module, segments=segments, group=group)


# --- linear layers -------------------------------------------------------------------------------


class _ShardedLinear(Module):
    """What the plain layers share: `_split` says whether outputs or inputs are split."""

    _outputs = True

    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        bias: bool = True,
        group: mx.distributed.Group | None = None,
    ) -> None:
        super().__init__()
        scale = math.sqrt(1.0 / input_dims)
        self.group = _world(group)
        if self._outputs:
            output_dims = _divided(output_dims, "output", self.group)
        else:
            input_dims = _divided(input_dims, "input", self.group)
        self.weight = mx.random.uniform(low=-scale, high=scale, shape=(output_dims, input_dims))
        if bias:
            self.bias = mx.random.uniform(low=-scale, high=scale, shape=(output_dims,))

    def _extra_repr(self) -> str:
        output_dims, input_dims = self.weight.shape
        count = self.group.size()
        if self._outputs:
            output_dims *= count
        else:
            input_dims *= count
        return f"input_dims={input_dims}, output_dims={output_dims}, bias={'bias' in self}"

    @classmethod
    def from_linear(
        cls,
        linear_layer: Module,
        *,
        segments: int | list[Any] = 1,
        group: mx.distributed.Group | None = None,
    ) -> Self:
        """Take this process's part of a :class:`Linear`; see :func:`shard_inplace`."""
        group = _world(group)
        output_dims, input_dims = linear_layer.weight.shape
        layer = cls(input_dims, output_dims, "bias" in linear_layer, group)
        kind = "all-to-sharded" if cls._outputs else "sharded-to-all"
        layer.update(_shard(linear_layer.parameters(), _sharding(kind, segments), group))
        return layer


class AllToShardedLinear(_ShardedLinear):
    """A :class:`Linear` whose outputs are split over a group.

    Every process sees the whole input, (..., input_dims), and returns its part of the output,
    (..., output_dims / processes). The gradient of the input is summed over the group.

    Args:
        input_dims, output_dims (int): Sizes of the last axis before and after, in all processes
            together.
        bias (bool, optional): Whether there is a bias. Default: ``True``.
        group (mlx.core.distributed.Group, optional): Default: all processes.

    Raises:
        ValueError: if the number of processes does not divide ``output_dims``.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.AllToShardedLinear(4, 6)(mx.zeros((2, 4))).shape
    (2, 6)
    """

    _outputs = True

    def __call__(self, x: mx.array) -> mx.array:
        x = sum_gradients(self.group)(x)
        if "bias" in self:
            return mx.addmm(self["bias"], x, self["weight"].T)
        return x @ self["weight"].T


class ShardedToAllLinear(_ShardedLinear):
    """A :class:`Linear` whose inputs are split over a group.

    Every process sees its part of the input, (..., input_dims / processes), and returns the whole
    output, (..., output_dims).

    Args:
        input_dims, output_dims (int): Sizes of the last axis before and after, in all processes
            together.
        bias (bool, optional): Whether there is a bias. Default: ``True``.
        group (mlx.core.distributed.Group, optional): Default: all processes.

    Raises:
        ValueError: if the number of processes does not divide ``input_dims``.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.ShardedToAllLinear(4, 6)(mx.zeros((2, 4))).shape
    (2, 6)
    """

    _outputs = False

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.distributed.all_sum(x @ self["weight"].T, group=self.group)
        return y + self["bias"] if "bias" in self else y


class _QuantizedShardedLinear(Module):
    """What the quantised layers share; their parameters are frozen, unless one by one unfrozen."""

    _outputs = True

    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        bias: bool = True,
        group_size: int = 64,
        bits: int = 4,
        mode: str = "affine",
        group: mx.distributed.Group | None = None,
    ) -> None:
        super().__init__()
        self.group_size = group_size
        self.bits = bits
        self.mode = mode
        self.group = _world(group)
        scale = math.sqrt(1.0 / input_dims)
        if self._outputs:
            output_dims = _divided(output_dims, "output", self.group)
        else:
            input_dims = _divided(input_dims, "input", self.group)
        weight = mx.random.uniform(low=-scale, high=scale, shape=(output_dims, input_dims))
        self.weight, self.scales, *biases = mx.quantize(weight, group_size, bits, mode=mode)
        self.biases = biases[0] if biases else None
        if bias:
            self.bias = mx.zeros((output_dims,))
        self.freeze()

    def unfreeze(self, *args: Any, **kwargs: Any) -> Self:
        """As :meth:`Module.unfreeze` for what is inside; its own parameters stay frozen."""
        super().unfreeze(*args, **kwargs)
        return self.freeze(recurse=False)

    def _extra_repr(self) -> str:
        output_dims = self.weight.shape[0]
        input_dims = self.weight.shape[1] * 32 // self.bits
        if self._outputs:
            output_dims *= self.group.size()
        else:
            input_dims *= self.group.size()
        return (
            f"input_dims={input_dims}, output_dims={output_dims}, bias={'bias' in self}, "
            f"group_size={self.group_size}, bits={self.bits}, mode={self.mode}"
        )

    def _product(self, x: mx.array) -> mx.array:
        return mx.quantized_matmul(
            x,
            self["weight"],
            scales=self["scales"],
            biases=self.get("biases"),
            transpose=True,
            group_size=self.group_size,
            bits=self.bits,
            mode=self.mode,
        )

    @classmethod
    def from_quantized_linear(
        cls,
        quantized_linear_layer: Module,
        *,
        segments: int | list[Any] = 1,
        group: mx.distributed.Group | None = None,
    ) -> Self:
        """Take this process's part of a :class:`QuantizedLinear`; see :func:`shard_inplace`."""
        group = _world(group)
        source: QuantizedLinear | Any = quantized_linear_layer
        output_dims = source.weight.shape[0]
        input_dims = source.weight.shape[1] * 32 // source.bits
        layer = cls(
            input_dims,
            output_dims,
            bias="bias" in source,
            group_size=source.group_size,
            bits=source.bits,
            mode=source.mode,
            group=group,
        )
        kind = "all-to-sharded" if cls._outputs else "sharded-to-all"
        layer.update(_shard(source.parameters(), _sharding(kind, segments), group))
        return layer


class QuantizedAllToShardedLinear(_QuantizedShardedLinear):
    """A :class:`QuantizedLinear` whose outputs are split over a group.

    Args:
        input_dims, output_dims, bias, group: As for :class:`AllToShardedLinear`.
        group_size, bits, mode: As for :func:`mlx.core.quantize`.

    Raises:
        ValueError: if the number of processes does not divide ``output_dims``.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.QuantizedAllToShardedLinear(64, 6)(mx.zeros((2, 64))).shape
    (2, 6)
    """

    _outputs = True

    def __call__(self, x: mx.array) -> mx.array:
        y = self._product(sum_gradients(self.group)(x))
        return y + self["bias"] if "bias" in self else y


class QuantizedShardedToAllLinear(_QuantizedShardedLinear):
    """A :class:`QuantizedLinear` whose inputs are split over a group.

    Args:
        input_dims, output_dims, bias, group: As for :class:`ShardedToAllLinear`.
        group_size, bits, mode: As for :func:`mlx.core.quantize`.

    Raises:
        ValueError: if the number of processes does not divide ``input_dims``.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.QuantizedShardedToAllLinear(64, 6)(mx.zeros((2, 64))).shape
    (2, 6)
    """

    _outputs = False

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.distributed.all_sum(self._product(x), group=self.group)
        return y + self["bias"] if "bias" in self else y


# --- fully sharded modules -----------------------------------------------------------------------


def _gather(
    group: mx.distributed.Group, dtype: mx.Dtype | None
) -> Callable[[list[mx.array]], list[mx.array]]:
    """A function that makes parameters whole, and gives each process its part of their gradient.

    Gradients are means over the group.
    """
    count = group.size()

    def whole(part: mx.array) -> mx.array:
        if dtype is not None and mx.issubdtype(part.dtype, mx.floating):
            part = part.astype(dtype)
        return part if count == 1 else mx.distributed.all_gather(part, group=group)

    @mx.custom_function
    def gather(parts: list[mx.array]) -> list[mx.array]:
        return [whole(part) for part in parts]

    @gather.vjp
    def gather_vjp(
        parts: list[mx.array], cotangents: list[mx.array], outputs: list[mx.array]
    ) -> list[mx.array]:
        gradients = []
        for part, cotangent in zip(parts, cotangents, strict=True):
            gradient = cotangent.astype(part.dtype)
            if count > 1:
                gradient = mx.distributed.sum_scatter(gradient, group=group) / count
            gradients.append(gradient)
        return gradients

    return gather


class FullyShardedModule(Module):
    """A module of whose parameters each process keeps a part.

    The parts are along the first axis. For a call they are gathered and, with ``compute_dtype``,
    converted; the gradient of a part is the mean over the group.

    Args:
        module (Module): The module; its parameters are replaced. Parameters in a
            :class:`FullyShardedModule` inside of it are left to that.
        group (mlx.core.distributed.Group, optional): Default: all processes.
        compute_dtype (Dtype, optional): What floating parameters are converted to for a call.
            Default: none.

    Raises:
        ValueError: if the number of processes does not divide the first axis of a parameter.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.FullyShardedModule(nn.Linear(4, 6))(mx.zeros((2, 4))).shape
    (2, 6)
    """

    def __init__(
        self,
        module: Module,
        group: mx.distributed.Group | None = None,
        compute_dtype: mx.Dtype | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(module, Module):
            raise ValueError(f"[FullyShardedModule] expected a Module, got {type(module).__name__}")
        group = _world(group)

        def own(_: Module, key: str, value: Any) -> bool:
            return not isinstance(value, FullyShardedModule) and Module.valid_parameter_filter(
                _, key, value
            )

        pairs = tree_flatten(module.filter_and_map(own))
        if group.size() > 1:
            parts = [(path, _part(weight, 0, 1, group)) for path, weight in pairs]
            module.update(tree_unflatten(parts))
        self.module = module
        # Not through __setattr__, which would make it an item of the module.
        object.__setattr__(self, "_paths", [path for path, _ in pairs])
        self._gather_fn = _gather(group, compute_dtype)

    def _extra_repr(self) -> str:
        return f"num_sharded_params={len(self._paths)}"

    def _with_whole(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not self._paths:
            return call(*args, **kwargs)
        current = dict(tree_flatten(self.module.parameters()))
        parts = [current[path] for path in self._paths]
        whole = self._gather_fn(parts)
        self.module.update(tree_unflatten(list(zip(self._paths, whole, strict=True))))
        try:
            return call(*args, **kwargs)
        finally:
            self.module.update(tree_unflatten(list(zip(self._paths, parts, strict=True))))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module with its whole parameters."""
        return self._with_whole(self.module, *args, **kwargs)

    def as_linear(self, *args: Any, **kwargs: Any) -> Any:
        """Call ``as_linear`` of the module with its whole parameters.

        Args:
            args (Any): Those of the method.
            kwargs (Any): Those of the method.

        Returns:
            Any: What the method returns.

        >>> import mlx.core as mx, mlx.nn as nn
        >>> nn.FullyShardedModule(nn.Embedding(4, 2)).as_linear(mx.zeros((3, 2))).shape
        (3, 4)
        """
        return self._with_whole(self.module.as_linear, *args, **kwargs)


def fully_shard(
    module: Module,
    *,
    group: mx.distributed.Group | None = None,
    compute_dtype: mx.Dtype | None = None,
) -> Module:
    """Wrap a module in a :class:`FullyShardedModule` where there is more than one process.

    Args:
        module (Module): The module.
        group (mlx.core.distributed.Group, optional): The processes. Default: all.
        compute_dtype (Dtype, optional): What floating parameters are converted to for a call.
            Default: none.

    Returns:
        Module: The wrapped module, or ``module`` itself in a group of one.

    >>> import mlx.nn as nn
    >>> nn.fully_shard(nn.Linear(4, 6))
    Linear(input_dims=4, output_dims=6, bias=True)
    """
    group = _world(group)
    if group.size() == 1:
        return module
    return FullyShardedModule(module, group, compute_dtype)
