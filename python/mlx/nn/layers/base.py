"""Module, the container of parameters and of other modules that every layer derives from.

A module is a dict whose items are attributes too (see `_items`). All walks over a model go through
`Module.filter_and_map`, and no walk computes an array: initial weights that are replaced before
they are read are never evaluated.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from typing import Any, Self

import mlx.core as mx
from mlx.nn.layers._items import _Items
from mlx.nn.layers._places import _descend, _invalid
from mlx.utils import tree_flatten, tree_unflatten

_Filter = Callable[["Module", str, Any], bool]


class Module(_Items):
    """Base class of all layers and models.

    A subclass calls ``super().__init__()`` and sets its parameters (arrays) and its sub-modules as
    attributes, also inside lists and dicts. Names that begin with ``_`` are not parameters.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> class Scale(nn.Module):
    ...     def __init__(self, dims: int):
    ...         super().__init__()
    ...         self.factor = mx.ones((dims,))
    ...
    ...     def __call__(self, x):
    ...         return x * self.factor
    >>> Scale(2).parameters()
    {'factor': array([1, 1], dtype=float32)}
    """

    __call__: Callable[..., Any]

    def __init__(self) -> None:
        """Start with no items, in training mode, with nothing frozen."""
        super().__init__()
        self._no_grad: set[str] = set()
        self._training = True

    def _extra_repr(self) -> str:
        return ""

    def __repr__(self) -> str:
        lines = f"{type(self).__name__}({self._extra_repr()}"
        children = tree_flatten(self.children(), is_leaf=Module.is_module)
        for name, child in children:
            lines += "\n" + textwrap.indent(f"({name}): {child!r}", "  ")
        return lines + ("\n)" if children else ")")

    @property
    def training(self) -> bool:
        """Whether the module is in training mode, as it is at first; :meth:`train` changes it.

        >>> import mlx.nn as nn
        >>> nn.Linear(2, 2).eval().training
        False
        """
        return self._training

    @property
    def state(self) -> Self:
        """The module itself: a dict that :func:`mlx.core.compile` can capture and update.

        Unlike :meth:`parameters` it also holds arrays whose names begin with ``_``.
        """
        return self

    # --- filters ------------------------------------------------------------------------------

    @staticmethod
    def is_module(value: Any) -> bool:
        """Whether a value is a module.

        Args:
            value (Any): The value.

        Returns:
            bool: Whether it is.

        >>> import mlx.nn as nn
        >>> nn.Module.is_module(nn.ReLU())
        True
        """
        return isinstance(value, Module)

    @staticmethod
    def valid_child_filter(module: Module, key: str, value: Any) -> bool:
        """A filter for :meth:`filter_and_map` that accepts modules and what may contain them.

        Args:
            module (Module): The module that is looked into.
            key (str): The name of one of its items.
            value (Any): The item.

        Returns:
            bool: Whether it is a dict (as modules are) or a list.

        >>> import mlx.nn as nn
        >>> list(nn.Sequential(nn.ReLU()).filter_and_map(nn.Module.valid_child_filter))
        ['layers']
        """
        return isinstance(value, (dict, list))

    @staticmethod
    def valid_parameter_filter(module: Module, key: str, value: Any) -> bool:
        """A filter for :meth:`filter_and_map` that accepts parameters and what may contain them.

        Args:
            module (Module): The module that is looked into.
            key (str): The name of one of its items.
            value (Any): The item.

        Returns:
            bool: Whether it is an array, a dict or a list whose name does not begin with ``_``.

        >>> import mlx.nn as nn
        >>> list(nn.Linear(2, 1).filter_and_map(nn.Module.valid_parameter_filter))
        ['weight', 'bias']
        """
        return isinstance(value, (dict, list, mx.array)) and not key.startswith("_")

    @staticmethod
    def trainable_parameter_filter(module: Module, key: str, value: Any) -> bool:
        """A filter for :meth:`filter_and_map` that accepts parameters which are not frozen.

        Args:
            module (Module): The module that is looked into.
            key (str): The name of one of its items.
            value (Any): The item.

        Returns:
            bool: Whether :meth:`valid_parameter_filter` accepts it and it is not frozen.

        >>> import mlx.nn as nn
        >>> layer = nn.Linear(2, 1).freeze(keys="bias")
        >>> list(layer.filter_and_map(nn.Module.trainable_parameter_filter))
        ['weight']
        """
        return Module.valid_parameter_filter(module, key, value) and key not in module._no_grad

    def filter_and_map(
        self,
        filter_fn: Callable[[Module, str, Any], bool],
        map_fn: Callable[[Any], Any] | None = None,
        is_leaf_fn: Callable[[Module, str, Any], bool] | None = None,
    ) -> dict[str, Any]:
        """Collect the contents of the module that pass a filter.

        Args:
            filter_fn (callable): Called with a module, the name of one of its items and the item.
                Items inside lists and dicts have dotted names (``"layers.0"``) and leave ``{}``
                where they are refused.
            map_fn (callable, optional): Applied to every leaf.
            is_leaf_fn (callable, optional): Called like ``filter_fn``; says what is not looked
                into. Default: everything but modules, dicts and lists.

        Returns:
            dict: Nested dicts and lists of the leaves.

        Raises:
            RuntimeError: if ``is_leaf_fn`` does not accept what is neither a module, a dict nor a
                list.

        >>> import mlx.nn as nn
        >>> layer = nn.Linear(2, 3)
        >>> layer.filter_and_map(nn.Module.valid_parameter_filter, lambda x: x.shape)
        {'weight': (3, 2), 'bias': (3,)}
        """

        def look(module: Module, key: str, value: Any) -> Any:
            if is_leaf_fn is None:
                leaf = not isinstance(value, (dict, list))
            else:
                leaf = is_leaf_fn(module, key, value)
            if leaf:
                return value if map_fn is None else map_fn(value)
            if isinstance(value, Module):
                return {k: look(value, k, v) for k, v in value.items() if filter_fn(value, k, v)}

            def inside(k: Any, v: Any) -> Any:
                name = f"{key}.{k}"
                return look(module, name, v) if filter_fn(module, name, v) else {}

            if isinstance(value, dict):
                return {k: inside(k, v) for k, v in value.items()}
            if isinstance(value, list):
                return [inside(i, v) for i, v in enumerate(value)]
            raise RuntimeError(
                f"[Module.filter_and_map] is_leaf_fn refused '{key}', a {type(value).__name__} "
                "that nothing can be inside of"
            )

        return {k: look(self, k, v) for k, v in self.items() if filter_fn(self, k, v)}

    def parameters(self) -> dict[str, Any]:
        """All arrays of the module and of its sub-modules, frozen ones too.

        Returns:
            dict: Nested dicts and lists in the form of the module, without names that begin with
                ``_``.

        >>> import mlx.nn as nn
        >>> list(nn.Linear(2, 1).parameters())
        ['weight', 'bias']
        """
        return self.filter_and_map(Module.valid_parameter_filter)

    def trainable_parameters(self) -> dict[str, Any]:
        """The parameters that are not frozen: those by which :func:`mlx.nn.value_and_grad`
        differentiates.

        Returns:
            dict: Nested dicts and lists in the form of the module.

        >>> import mlx.nn as nn
        >>> list(nn.Linear(2, 1).freeze(keys="bias").trainable_parameters())
        ['weight']
        """
        return self.filter_and_map(Module.trainable_parameter_filter)

    def children(self) -> dict[str, Any]:
        """The modules directly inside this one.

        Returns:
            dict: Nested dicts and lists in the form of the module, with modules as leaves.

        >>> import mlx.nn as nn
        >>> nn.Sequential(nn.ReLU()).children()
        {'layers': [ReLU()]}
        """
        return self.filter_and_map(
            Module.valid_child_filter, is_leaf_fn=lambda m, k, v: isinstance(v, Module)
        )

    def leaf_modules(self) -> dict[str, Any]:
        """The modules that contain no other module, at any depth.

        Returns:
            dict: Nested dicts and lists in the form of the module, with modules as leaves.

        >>> import mlx.nn as nn
        >>> nn.Sequential(nn.ReLU()).leaf_modules()
        {'layers': [ReLU()]}
        """

        def is_leaf(module: Module, key: str, value: Any) -> bool:
            return isinstance(value, Module) and not tree_flatten(value.children())

        return self.filter_and_map(Module.valid_child_filter, is_leaf_fn=is_leaf)

    def modules(self) -> list[Module]:
        """This module and all that it contains, at any depth.

        Returns:
            list[Module]: The modules, each as often as it is contained.

        >>> import mlx.nn as nn
        >>> len(nn.Sequential(nn.ReLU(), nn.Linear(2, 1)).modules())
        3
        """
        return [module for _, module in self.named_modules()]

    def named_modules(self) -> list[tuple[str, Module]]:
        """This module and all that it contains, at any depth, with their dotted names.

        Returns:
            list[tuple[str, Module]]: Names and modules; the name of this one is ``""``.

        >>> import mlx.nn as nn
        >>> [name for name, _ in nn.Sequential(nn.ReLU()).named_modules()]
        ['', 'layers.0']
        """
        found: list[tuple[str, Module]] = []
        waiting: list[tuple[str, Module]] = [("", self)]
        while waiting:
            name, module = waiting.pop()
            found.append((name, module))
            prefix = f".{name}" if name else ""
            waiting.extend(tree_flatten(module.children(), prefix=prefix, is_leaf=Module.is_module))
        return found

    # --- weights ------------------------------------------------------------------------------

    def load_weights(
        self, file_or_weights: str | list[tuple[str, mx.array]], strict: bool = True
    ) -> Self:
        """Set parameters from a file or from a list of named arrays.

        Args:
            file_or_weights (str, | list of (str, array)): A ``.npz`` or ``.safetensors`` file, or
                arrays by dotted name.
            strict (bool, optional): Whether the names must be exactly those of the parameters,
                with their shapes. Else unknown names are passed over and shapes are not compared.
                Default: ``True``.

        Returns:
            Module: The module itself.

        Raises:
            ValueError: if a value is not an array, or, when ``strict``, if a parameter is missing,
                a name is unknown or a shape differs. Dtypes are not compared: the parameter takes
                the new one.

        >>> import mlx.core as mx, mlx.nn as nn
        >>> nn.Linear(2, 1).load_weights([("weight", mx.ones((1, 2))), ("bias", mx.zeros((1,)))])
        Linear(input_dims=2, output_dims=1, bias=True)
        """
        source: Any = file_or_weights
        if isinstance(source, (str, os.PathLike)):
            source = mx.load(os.fspath(source))
        weights = dict(source)
        if strict:
            self._check_weights(weights)
        for name, value in weights.items():
            if not isinstance(value, mx.array):
                raise ValueError(
                    f"[load_weights] Expected mx.array but received {type(value)} "
                    f"for parameter {name}"
                )
        if weights:
            self.update(tree_unflatten(weights), strict=False)
        return self

    def _check_weights(self, weights: dict[str, Any]) -> None:
        current = dict(tree_flatten(self.parameters()))
        for what, names in (
            ("Received {} parameters not in model: ", weights.keys() - current.keys()),
            ("Missing {} parameters: ", current.keys() - weights.keys()),
        ):
            if names:
                listed = ",\n".join(sorted(names))
                raise ValueError(f"[load_weights] {what.format(len(names))}\n{listed}.")
        for name, value in current.items():
            new = weights[name]
            if isinstance(new, mx.array) and new.shape != value.shape:
                raise ValueError(
                    f"[load_weights] Expected shape {value.shape} but received shape {new.shape} "
                    f"for parameter {name}"
                )

    def save_weights(self, file: str) -> None:
        """Write all parameters to a file, by their dotted names.

        :meth:`load_weights` reads it again.

        Args:
            file (str): A path that ends with ``.npz`` or ``.safetensors``.

        Returns:
            None

        Raises:
            ValueError: if the path ends with anything else.

        >>> import tempfile, os, mlx.nn as nn
        >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
        >>> nn.Linear(2, 1).save_weights(path)
        >>> nn.Linear(2, 1).load_weights(path)
        Linear(input_dims=2, output_dims=1, bias=True)
        """
        file = os.fspath(file)
        weights: dict[str, Any] = tree_flatten(self.parameters(), destination={})
        if file.endswith(".npz"):
            mx.savez(file, **weights)
        elif file.endswith(".safetensors"):
            mx.save_safetensors(file, weights)
        else:
            raise ValueError(
                f"[save_weights] Unsupported file extension for {file}. "
                "Use '.npz' or '.safetensors'."
            )

    def update(self, parameters: dict[str, Any], strict: bool = True) -> Self:  # type: ignore[override]
        """Replace parameters.

        Args:
            parameters (dict): A tree such as :meth:`parameters` returns, or a part of one.
            strict (bool, optional): Whether every place must exist and hold an array in both. Else
                what does not fit is passed over. Shapes are never compared. Default: ``True``.

        Returns:
            Module: The module itself.

        Raises:
            ValueError: when ``strict``, if a name is unknown, an index too large or a value not an
                array.
            KeyError: if there is a list where the module has a dict or a module.

        >>> import mlx.core as mx, mlx.nn as nn
        >>> layer = nn.Linear(2, 1).update({"bias": mx.ones((1,))})
        >>> layer.bias
        array([1], dtype=float32)
        """

        def replace(place: Any, key: Any, old: Any, new: Any) -> bool:
            if isinstance(old, mx.array):
                if strict and not isinstance(new, mx.array):
                    return False
                if type(place).__setitem__ is _Items.__setitem__:
                    dict.__setitem__(place, key, new)  # arrays have no copies to take away
                else:
                    place[key] = new
                return True
            return _descend(old, new, "parameter", replace, strict)

        if not _descend(self, parameters, "parameter", replace, strict):
            raise _invalid("update", parameters)
        return self

    def update_modules(self, modules: dict[str, Any], strict: bool = True) -> Self:
        """Replace sub-modules.

        Args:
            modules (dict): A tree such as :meth:`children` or :meth:`leaf_modules` returns, or a
                part of one. Places with ``{}`` are left alone.
            strict (bool, optional): Whether every place must exist and hold a module. Default:
                ``True``.

        Returns:
            Module: The module itself.

        Raises:
            ValueError: when ``strict``, if a name is unknown, an index too large or a value not a
                module.
            KeyError: if there is a list where the module has a dict or a module.

        >>> import mlx.nn as nn
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> model.update_modules({"layers": [{}, nn.Tanh()]}).layers[1]
        Tanh()
        """

        def replace(place: Any, key: Any, old: Any, new: Any) -> bool:
            if isinstance(old, Module) and isinstance(new, Module):
                place[key] = new
                return True
            if isinstance(new, Module):
                return not strict
            if isinstance(old, (dict, list)):
                return _descend(old, new, "sub-module", replace, strict)
            return not strict or new == {}

        if not _descend(self, modules, "sub-module", replace, strict):
            raise _invalid("update_modules", modules)
        return self

    def apply(
        self,
        map_fn: Callable[[mx.array], mx.array],
        filter_fn: Callable[[Module, str, Any], bool] | None = None,
    ) -> Self:
        """Replace every parameter by a function of it.

        Args:
            map_fn (callable): Called with an array.
            filter_fn (callable, optional): Says which parameters (see :meth:`filter_and_map`).
                Default: all.

        Returns:
            Module: The module itself.

        >>> import mlx.core as mx, mlx.nn as nn
        >>> nn.Linear(2, 1).apply(lambda x: x.astype(mx.float16)).weight.dtype
        mlx.core.float16
        """
        return self.update(self.filter_and_map(filter_fn or Module.valid_parameter_filter, map_fn))

    def apply_to_modules(self, apply_fn: Callable[[str, Module], Any]) -> Self:
        """Call a function for every module, this one included.

        Args:
            apply_fn (callable): Called with the dotted name of a module and the module; what it
                returns is not used.

        Returns:
            Module: The module itself.

        >>> import mlx.nn as nn
        >>> model = nn.Sequential(nn.ReLU())
        >>> _ = model.apply_to_modules(lambda name, module: print([name], type(module).__name__))
        [''] Sequential
        ['layers.0'] ReLU
        """
        for name, module in self.named_modules():
            apply_fn(name, module)
        return self

    def set_dtype(
        self,
        dtype: mx.Dtype,
        predicate: Callable[[mx.Dtype], bool] | None = lambda x: mx.issubdtype(x, mx.floating),
    ) -> None:
        """Convert the parameters to a dtype.

        Args:
            dtype (Dtype): The new dtype.
            predicate (callable, optional): Called with the dtype of a parameter; says whether to
                convert it. None for all. Default: the floating ones.

        Returns:
            None

        >>> import mlx.core as mx, mlx.nn as nn
        >>> layer = nn.Linear(2, 1)
        >>> layer.set_dtype(mx.float16)
        >>> layer.weight.dtype
        mlx.core.float16
        """
        self.apply(lambda x: x.astype(dtype) if predicate is None or predicate(x.dtype) else x)

    # --- training -----------------------------------------------------------------------------

    def freeze(
        self,
        *,
        recurse: bool = True,
        keys: str | list[str] | None = None,
        strict: bool = False,
    ) -> Self:
        """Take parameters out of :meth:`trainable_parameters`.

        Args:
            recurse (bool, optional): Whether sub-modules are frozen too. Default: ``True``.
            keys (str | list of str, optional): Which parameters. Default: all.
            strict (bool, optional): Whether each of ``keys`` must be a member of this module or,
                with ``recurse``, of any module of the model. Default: ``False``.

        Returns:
            Module: The module itself.

        Raises:
            KeyError: when ``strict``, if there is no such member; nothing changes then.

        >>> import mlx.nn as nn
        >>> list(nn.Linear(2, 1).freeze(keys="weight").trainable_parameters())
        ['bias']
        """

        names = self._checked_keys(keys, recurse, strict)

        def freeze_one(_: str, module: Module) -> None:
            own = tree_flatten(module.filter_and_map(_own_parameter)) if names is None else ()
            module._no_grad.update(names if names is not None else (name for name, _ in own))

        return self._on_modules(freeze_one, recurse)

    def unfreeze(
        self,
        *,
        recurse: bool = True,
        keys: str | list[str] | None = None,
        strict: bool = False,
    ) -> Self:
        """Put parameters back among :meth:`trainable_parameters`: undoes :meth:`freeze`.

        Args:
            recurse (bool, optional): Whether sub-modules are concerned too. Default: ``True``.
            keys (str | list of str, optional): Which parameters. Default: all.
            strict (bool, optional): Whether each of ``keys`` must be a member of this module or,
                with ``recurse``, of any module of the model. Default: ``False``.

        Returns:
            Module: The module itself.

        Raises:
            KeyError: when ``strict``, if there is no such member; nothing changes then.

        >>> import mlx.nn as nn
        >>> list(nn.Linear(2, 1).freeze().unfreeze(keys="bias").trainable_parameters())
        ['bias']
        """

        names = self._checked_keys(keys, recurse, strict)

        def unfreeze_one(_: str, module: Module) -> None:
            if names is None:
                module._no_grad.clear()
            else:
                module._no_grad.difference_update(names)

        return self._on_modules(unfreeze_one, recurse)

    def _on_modules(self, fn: Callable[[str, Module], None], recurse: bool) -> Self:
        if recurse:
            return self.apply_to_modules(fn)
        fn("", self)
        return self

    def _checked_keys(
        self, keys: str | list[str] | None, recurse: bool, strict: bool
    ) -> list[str] | None:
        if keys is None:
            return None
        names = keys if isinstance(keys, list) else [keys]
        if strict:
            modules = self.modules() if recurse else [self]
            for name in names:
                if not any(name in module for module in modules):
                    raise KeyError(f"Module doesn't contain member {name}.")
        return names

    def train(self, mode: bool = True) -> Self:
        """Put this module and all that it contains in training mode, or out of it.

        Layers such as :class:`Dropout` and :class:`BatchNorm` do other things in training.

        Args:
            mode (bool, optional): Whether the mode is training. Default: ``True``.

        Returns:
            Module: The module itself.

        >>> import mlx.nn as nn
        >>> nn.Sequential(nn.Dropout()).train(False).layers[0].training
        False
        """

        return self.apply_to_modules(lambda _, module: module._set_training_mode(mode))

    def _set_training_mode(self, mode: bool) -> None:
        """What :meth:`train` does to one module; for layers that keep other weights in training."""
        self._training = mode

    def eval(self) -> Self:
        """Leave training mode: ``train(False)``. For :func:`mlx.core.eval` pass the module to that.

        Returns:
            Module: The module itself.

        >>> import mlx.nn as nn
        >>> nn.Dropout().eval().training
        False
        """
        return self.train(False)


def _own_parameter(module: Module, key: str, value: Any) -> bool:
    return not isinstance(value, Module) and Module.valid_parameter_filter(module, key, value)
