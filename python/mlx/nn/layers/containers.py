"""Modules that only hold others."""

from collections.abc import Callable
from typing import Any

from mlx.nn.layers.base import Module


class Sequential(Module):
    """Calls modules one after the other, each on the result of the one before.

    Modules are the items of the list ``layers``, where they can be looked up, replaced and added;
    their parameters have names such as ``layers.0.weight``. Inputs and outputs are those of the
    first and of the last one.

    Args:
        modules (callable): Modules, or plain functions such as :func:`relu`.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.Sequential(nn.Linear(4, 2), nn.relu)(mx.zeros((3, 4))).shape
    (3, 2)
    """

    def __init__(self, *modules: Callable[[Any], Any]) -> None:
        super().__init__()
        self.layers = list(modules)

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x
