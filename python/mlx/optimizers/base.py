"""What all optimisers share: state beside the parameters, the step count and learning rates that
may be schedules; and one that gives parts of the parameters to several.
"""

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
from mlx.nn import Module
from mlx.utils import tree_flatten, tree_map, tree_merge, tree_unflatten

_Rate = float | Callable[[mx.array], mx.array]


class Optimizer:
    """Base class: a subclass says how one parameter is initialised and updated.

    Args:
        schedulers (dict, optional): Functions of the step by the name of the state entry that they
            set before every update.

    >>> import mlx.core as mx, mlx.optimizers as optim
    >>> optimizer = optim.SGD(learning_rate=0.5)
    >>> optimizer.apply_gradients({"w": mx.array([2.0])}, {"w": mx.array([3.0])})
    {'w': array([2], dtype=float32)}
    """

    def __init__(self, schedulers: dict[str, Callable[[mx.array], mx.array]] | None = None) -> None:
        self._initialized = False
        self._state: dict[str, Any] = {"step": mx.array(0, mx.uint64)}
        self._schedulers = dict(schedulers or {})

    # --- for the user -------------------------------------------------------------------------

    def update(self, model: Module, gradients: dict[str, Any]) -> None:
        """Update the parameters of a model, in place.

        Args:
            model (Module): The model.
            gradients (dict): A tree of the gradients, such as :func:`mlx.nn.value_and_grad`
                returns; it may lack parameters, which then stay.

        Returns:
            None

        Raises:
            KeyError: if there is a gradient of something that the model does not have.

        >>> import mlx.core as mx, mlx.nn as nn, mlx.optimizers as optim
        >>> model = nn.Linear(1, 1, bias=False)
        >>> model.weight = mx.array([[3.0]])
        >>> optim.SGD(learning_rate=0.5).update(model, {"weight": mx.array([[2.0]])})
        >>> model.weight
        array([[2]], dtype=float32)
        """
        model.update(self.apply_gradients(gradients, model))

    def init(self, parameters: Any) -> None:
        """Make the state of all parameters; what has one already keeps it.

        Happens by itself at the first update, for the parameters that have a gradient then. Call it
        before where the state must exist, as for compiling or loading.

        Args:
            parameters (dict | array): A tree of arrays, a module, or one array.

        Returns:
            None

        >>> import mlx.core as mx, mlx.optimizers as optim
        >>> optimizer = optim.Adam(learning_rate=0.1)
        >>> optimizer.init({"w": mx.zeros(2)})
        >>> sorted(optimizer.state["w"])
        ['m', 'v']
        """
        if isinstance(parameters, mx.array):
            # An array without a name has its state beside the step.
            alone: dict[str, Any] = {}
            self.init_single(parameters, alone)
            for name, value in alone.items():
                self._state.setdefault(name, value)
        else:
            for key, parameter in parameters.items():
                self._state[key] = self._init_tree(parameter, self._state.get(key, {}))
        self._initialized = True

    def apply_gradients(self, gradients: Any, parameters: Any) -> Any:
        """New parameters from gradients; the state moves on by a step.

        Args:
            gradients (dict | array): A tree of arrays, or one array.
            parameters (dict | array): A tree, or a module, that has at least the places of
                ``gradients``; an array where that is one.

        Returns:
            dict | array: A tree of the structure of ``gradients``.

        Raises:
            KeyError: if a parameter is missing.

        >>> import mlx.core as mx, mlx.optimizers as optim
        >>> gradients, parameters = {"w": mx.array([2.0])}, {"w": mx.array([3.0])}
        >>> optim.SGD(learning_rate=0.5).apply_gradients(gradients, parameters)
        {'w': array([2], dtype=float32)}
        """
        if not self._initialized:
            self.init(gradients)
        for name, scheduler in self._schedulers.items():
            self.state[name] = scheduler(self.step)
        self.state["step"] = self.step + 1
        return tree_map(self.apply_single, gradients, parameters, self.state)

    @property
    def state(self) -> dict[str, Any]:
        """The state, a tree of arrays."""
        return self._state

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self._initialized = False
        self._state = state

    @property
    def step(self) -> mx.array:
        """The number of updates so far, a uint64 scalar."""
        return self.state["step"]

    @property
    def learning_rate(self) -> mx.array:
        """The learning rate, a scalar array."""
        return self.state["learning_rate"]

    @learning_rate.setter
    def learning_rate(self, learning_rate: float | mx.array) -> None:
        self.state["learning_rate"] = mx.array(learning_rate)

    # --- for subclasses -----------------------------------------------------------------------

    def init_single(self, parameter: mx.array, state: dict[str, Any]) -> None:
        """Fill the state of one parameter; a subclass defines it.

        Args:
            parameter (array): The parameter.
            state (dict): Its state, empty at first.

        Returns:
            None

        Raises:
            NotImplementedError: unless a subclass defines it.
        """
        raise NotImplementedError()

    def apply_single(
        self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]
    ) -> mx.array:
        """The new value of one parameter; a subclass defines it.

        Args:
            gradient (array): The gradient.
            parameter (array): The parameter.
            state (dict): Its state, which is changed.

        Returns:
            array: The new value.

        Raises:
            NotImplementedError: unless a subclass defines it.
        """
        raise NotImplementedError()

    def _init_tree(self, parameters: Any, state: Any) -> Any:
        if isinstance(parameters, dict):
            merged = dict(state)
            for key, parameter in parameters.items():
                merged[key] = self._init_tree(parameter, merged.get(key, {}))
            return merged
        if isinstance(parameters, (list, tuple)):
            known = list(state) if isinstance(state, (list, tuple)) else []
            known += [{}] * (len(parameters) - len(known))
            return type(parameters)(
                [self._init_tree(p, s) for p, s in zip(parameters, known, strict=False)]
            )
        if not state:
            state = {}
            self.init_single(parameters, state)
        return state

    def _maybe_schedule(self, name: str, value: _Rate) -> None:
        """Set an entry of the state: a number, or a function of the step for every update."""
        if callable(value):
            self._schedulers[name] = value
            self.state[name] = mx.array(value(self.step))
        else:
            self.state[name] = mx.array(value)

    def _rate(self, gradient: mx.array) -> mx.array:
        return self.learning_rate.astype(gradient.dtype)


class MultiOptimizer(Optimizer):
    """Several optimisers, each for the parameters that its filter accepts first.

    Args:
        optimizers (list of Optimizer): The last one takes what no filter accepts.
        filters (list of callable): One for every optimiser but the last; called with the dotted
            name and the gradient.

    Raises:
        ValueError: if there is not one filter fewer than optimisers.

    >>> import mlx.optimizers as optim
    >>> both = [optim.Muon(learning_rate=0.02), optim.AdamW(learning_rate=0.001)]
    >>> optimizer = optim.MultiOptimizer(both, [lambda name, weight: weight.ndim == 2])
    """

    def __init__(self, optimizers: list[Optimizer], filters: Sequence[Any] = ()) -> None:
        super().__init__({})
        self._state = {}
        filters = list(filters)
        if len(filters) != len(optimizers) - 1:
            raise ValueError(
                f"[MultiOptimizer] Given {len(filters)} filters but {len(optimizers) - 1} needed."
            )
        self.optimizers = optimizers
        self.filters = [*filters, lambda *_: True]

    def _split(self, tree: dict[str, Any]) -> list[Any]:
        parts: list[list[tuple[str, Any]]] = [[] for _ in self.optimizers]
        for path, leaf in tree_flatten(tree):
            for part, accepts in zip(parts, self.filters, strict=True):
                if accepts(path, leaf):
                    part.append((path, leaf))
                    break
        return [tree_unflatten(part) if part else {} for part in parts]

    def init(self, parameters: dict[str, Any]) -> None:
        for optimizer, part in zip(self.optimizers, self._split(parameters), strict=True):
            optimizer.init(part)
        self._initialized = True

    def apply_gradients(self, gradients: dict[str, Any], parameters: dict[str, Any]) -> Any:
        merged: Any = {}
        for optimizer, part in zip(self.optimizers, self._split(gradients), strict=True):
            merged = tree_merge(merged, optimizer.apply_gradients(part, parameters))
        return merged

    @property
    def state(self) -> dict[str, Any]:
        """The states of the optimisers, in the list ``"states"``."""
        return {"states": [optimizer.state for optimizer in self.optimizers]}

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        if "states" not in state or len(state["states"]) != len(self.optimizers):
            raise ValueError(
                "[MultiOptimizer] Invalid state provided: expected a list of "
                f"{len(self.optimizers)} states under 'states'"
            )
        for optimizer, part in zip(self.optimizers, state["states"], strict=True):
            optimizer.state = part

    @property
    def learning_rate(self) -> mx.array:
        """The learning rate of the first optimiser; setting it sets all."""
        return self.optimizers[0].learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: float | mx.array) -> None:
        for optimizer in self.optimizers:
            optimizer.learning_rate = learning_rate
