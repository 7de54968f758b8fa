"""Gradients of modules: value_and_grad, checkpoint, and means over a group of processes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten, tree_map, tree_reduce, tree_unflatten

__all__ = [
    "average_gradients",
    "checkpoint",
    "clip_grad_norm_sharded",
    "value_and_grad",
]


def value_and_grad(model: Module, fn: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """Differentiate a function with respect to the trainable parameters of a model.

    Args:
        model (Module): The model that ``fn`` calls.
        fn (callable): Returns a scalar array, or a tuple that begins with one.

    Returns:
        callable: Takes what ``fn`` takes; returns what it returns and the gradients, a tree of the
            structure of ``model.trainable_parameters()``.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> model = nn.Linear(2, 1, bias=False)
    >>> loss, grads = nn.value_and_grad(model, lambda x: model(x).sum())(mx.ones((3, 2)))
    >>> grads
    {'weight': array([[3, 3]], dtype=float32)}
    """

    def inner(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        model.update(parameters)
        return fn(*args, **kwargs)

    differentiated = mx.value_and_grad(inner)

    @wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        value, grad = differentiated(model.trainable_parameters(), *args, **kwargs)
        return value, grad

    return wrapped


def checkpoint(module: Module, fn: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Compute what is inside a module again for its gradient, in place of keeping it.

    Chen et al. 2016, arXiv 1604.06174.

    Args:
        module (Module): The module whose parameters ``fn`` uses.
        fn (callable, optional): Default: the module itself.

    Returns:
        callable: Takes and returns what ``fn`` does.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> layer = nn.Linear(2, 2)
    >>> nn.utils.checkpoint(layer)(mx.ones((1, 2))).shape
    (1, 2)
    """
    call = module if fn is None else fn

    def inner(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        module.update(parameters)
        return call(*args, **kwargs)

    recomputed = mx.checkpoint(inner)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return recomputed(module.trainable_parameters(), *args, **kwargs)

    return wrapped if isinstance(call, Module) else wraps(call)(wrapped)


def _batches(gradients: list[Any], limit: int) -> list[list[int]]:
    """Indices of arrays of one dtype, in order, in groups of at least `limit` bytes."""
    groups: list[list[int]] = []
    open_groups: dict[Any, tuple[list[int], int]] = {}
    for i, gradient in enumerate(gradients):
        group, size = open_groups.pop(gradient.dtype, ([], 0))
        if not group:
            groups.append(group)
        group.append(i)
        size += gradient.nbytes
        if size < limit:
            open_groups[gradient.dtype] = group, size
    return groups


def average_gradients(
    gradients: Any,
    group: mx.distributed.Group | None = None,
    all_reduce_size: int = 32 * 1024**2,
    communication_stream: mx.Stream | None = None,
) -> Any:
    """The mean of gradients over the processes of a group.

    Args:
        gradients (any): A tree of arrays, of one structure in all processes.
        group (mlx.core.distributed.Group, optional): Default: all processes.
        all_reduce_size (int, optional): Arrays of one dtype are sent together in messages of about
            this many bytes; each by itself when it is not positive. Default: 32 MiB.
        communication_stream (Stream, optional): Where to communicate. Default: the default stream
            of the device.

    Returns:
        any: The tree of means; ``gradients`` itself where there is one process.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.average_gradients({"w": mx.ones((2,))})
    {'w': array([1, 1], dtype=float32)}
    """
    group = group or mx.distributed.init()
    count = group.size()
    if count == 1:
        return gradients

    def mean(x: mx.array) -> mx.array:
        return mx.distributed.all_sum(x, group=group, stream=communication_stream) / count

    if all_reduce_size <= 0:
        return tree_map(mean, gradients)
    pairs = tree_flatten(gradients)
    arrays = [array for _, array in pairs]
    for indices in _batches(arrays, all_reduce_size):
        together = mean(mx.concatenate([arrays[i].reshape(-1) for i in indices]))
        at = 0
        for i in indices:
            shape, size = arrays[i].shape, arrays[i].size
            arrays[i] = together[at : at + size].reshape(shape)
            at += size
    return tree_unflatten([(path, array) for (path, _), array in zip(pairs, arrays, strict=True)])


def clip_grad_norm_sharded(
    gradients: Any, max_norm: float, group: mx.distributed.Group | None = None
) -> tuple[Any, mx.array]:
    """Scale gradients that are split over a group down to a largest norm.

    Args:
        gradients (any): A tree of arrays, the part of this process.
        max_norm (float): The largest norm of the gradients of all processes together.
        group (mlx.core.distributed.Group, optional): Default: all processes.

    Returns:
        tuple of (any, array): The scaled gradients and their norm before, over all processes.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.utils.clip_grad_norm_sharded({"w": mx.array([3.0, 4.0])}, 10.0)[1]
    array(5, dtype=float32)
    """
    group = group or mx.distributed.init()
    total = tree_reduce(
        lambda sums, g: sums + g.astype(mx.float32).square().sum(), gradients, mx.array(0.0)
    )
    if group.size() > 1:
        total = mx.distributed.all_sum(total, group=group)
    norm = mx.sqrt(total)
    factor = mx.minimum(max_norm / (norm + 1e-6), 1.0)
    return tree_map(lambda g: g * factor, gradients), norm
