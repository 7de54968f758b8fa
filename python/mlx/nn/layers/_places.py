"""New items of nested dicts and lists, brought to the places that a module has for them."""

from collections.abc import Callable
from typing import Any


def _invalid(method: str, value: Any) -> ValueError:
    return ValueError(f"[Module.{method}] Received invalid type: {type(value).__name__}.")


def _descend(
    place: Any,
    new: Any,
    what: str,
    replace: Callable[[Any, Any, Any, Any], bool],
    strict: bool,
) -> bool:
    """Hand each item of the dict or list `new`, and what `place` has there, to `replace`.

    Returns whether `new` is of a kind that `place` can take items from.
    """
    method = "update" if what == "parameter" else "update_modules"
    if isinstance(new, dict) and (isinstance(place, dict) or new):
        for key, value in new.items():
            if isinstance(place, dict) and key in place:
                if not replace(place, key, place[key], value):
                    raise _invalid(method, value)
            elif strict:
                raise ValueError(f'[Module.{method}] Module does not have {what} named "{key}".')
        return True
    if isinstance(new, dict):
        return True
    if isinstance(new, list) and isinstance(place, (list, tuple, dict)):
        for i, value in enumerate(new):
            if i < len(place):
                # A dict, such as a module, has no item of that number: KeyError.
                if not replace(place, i, place[i], value):
                    raise _invalid(method, value)
            elif strict:
                raise ValueError(
                    f"[Module.{method}] List index {i} is out of bounds for destination of "
                    f"length {len(place)}."
                )
        return True
    return not strict
