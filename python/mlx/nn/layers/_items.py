"""The dict that every module is, with its items as attributes.

Arrays, dicts, lists, tuples and modules that are set as attributes become items, everything else
stays a plain attribute. An item that is looked up as an attribute costs a failed lookup first, and
a model looks up each of its layers for every token. So modules that were looked up are kept among
the plain attributes too, and every method that changes an item takes its copy away. Other items are
not kept: transforms write arrays straight into the dict.
"""

from __future__ import annotations

from typing import Any, Self

import mlx.core as mx


class _Items(dict[str, Any]):
    """Items that are attributes as well."""

    def __getattr__(self, key: str) -> Any:
        try:
            value = self[key]
        except KeyError:
            pass
        else:
            if isinstance(value, _Items):
                _keep(self, key, value)
            return value
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{key}'")

    def __setattr__(self, key: str, value: Any) -> None:
        if isinstance(value, (mx.array, dict, list, tuple)):
            self.__dict__.pop(key, None)
            self[key] = value
        else:
            super().__setattr__(key, value)
            if key in self:
                del self[key]

    def __delattr__(self, key: str) -> None:
        if key in self:
            del self[key]
        else:
            super().__delattr__(key)

    def __setitem__(self, key: str, value: Any) -> None:
        old = dict.get(self, key)
        super().__setitem__(key, value)
        if key in self.__dict__:  # asked here too, since optimisers set all parameters in each step
            _drop(self, key, old)

    def __delitem__(self, key: str) -> None:
        old = dict.get(self, key)
        super().__delitem__(key)
        _drop(self, key, old)

    def __ior__(self, other: Any) -> Self:  # type: ignore[override, misc]
        for key, value in dict(other).items():
            self[key] = value
        return self

    def pop(self, key: str, *default: Any) -> Any:
        value = super().pop(key, *default)
        _drop(self, key, value)
        return value

    def popitem(self) -> tuple[str, Any]:
        key, value = super().popitem()
        _drop(self, key, value)
        return key, value

    def clear(self) -> None:
        old = dict(self)
        super().clear()
        for key, value in old.items():
            _drop(self, key, value)

    def __getstate__(self) -> Any:
        """The plain attributes, for copies and pickles."""
        state = super().__getstate__()
        if isinstance(state, dict):
            state = {
                key: value
                for key, value in state.items()
                if not (isinstance(value, _Items) and dict.get(self, key) is value)
            }
        return state


# Functions and not methods, whose names could be those of a subclass's attributes.


def _keep(items: _Items, key: str, value: _Items) -> None:
    """Let an item be found as a plain attribute, unless a subclass looks up or sets its own way."""
    cls = type(items)
    if (
        cls.__getattr__ is _Items.__getattr__
        and cls.__getitem__ is dict.__getitem__
        and cls.__setitem__ is _Items.__setitem__
    ):
        items.__dict__.setdefault(key, value)
        if dict.get(items, key) is not value:  # another thread has replaced it since
            _drop(items, key, value)


def _drop(items: _Items, key: str, value: Any) -> None:
    """Take away the copy of `value`, which was the item so far; other plain attributes stay."""
    if items.__dict__.get(key) is value and isinstance(value, _Items):
        items.__dict__.pop(key, None)
