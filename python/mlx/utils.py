"""Trees: nested lists, tuples and dicts of leaves, as parameters and optimiser states are.

A tree is flattened into pairs of a dotted path and a leaf, mapped, reduced or merged. Nothing here
touches the values of arrays.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, overload

__all__ = [
    "tree_flatten",
    "tree_map",
    "tree_map_with_path",
    "tree_merge",
    "tree_reduce",
    "tree_unflatten",
]

_Leaf = Callable[[Any], bool] | None
_Branch = TypeVar("_Branch")


def _is_branch(tree: Any, is_leaf: _Leaf) -> bool:
    return isinstance(tree, (list, tuple, dict)) and not (is_leaf is not None and is_leaf(tree))


def _items(tree: Any) -> Iterable[tuple[Any, Any]]:
    return tree.items() if isinstance(tree, dict) else enumerate(tree)


def _rebuild(tree: Any, children: Iterable[Any]) -> Any:
    """A branch of the kind of `tree` that holds `children` in its order."""
    if isinstance(tree, dict):
        return dict(zip(tree, children, strict=True))
    if hasattr(tree, "_fields"):  # a named tuple
        return type(tree)(*children)
    return type(tree)(children)


def tree_map(
    fn: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Apply a function to the leaves of a tree.

    Args:
        fn (callable): Called with a leaf of ``tree`` and what every tree of ``rest`` holds at the
            same place.
        tree (any): A tree; it decides the structure of the result.
        *rest (any): Trees that hold at least the places of ``tree``.
        is_leaf (callable, optional): Where it returns True, a list, tuple or dict is passed to
            ``fn`` as it is.

    Returns:
        any: A tree of the structure of ``tree``. Named tuples and subclasses of list and tuple
            keep their type; a dict of any kind becomes a dict.

    Raises:
        KeyError, IndexError: if a tree of ``rest`` lacks a place.

    >>> from mlx.utils import tree_map
    >>> tree_map(lambda x, y: x * y, {"a": [1, 2]}, {"a": [3, 4]})
    {'a': [3, 8]}
    """
    if not _is_branch(tree, is_leaf):
        return fn(tree, *rest)
    return _rebuild(
        tree,
        [tree_map(fn, child, *(r[k] for r in rest), is_leaf=is_leaf) for k, child in _items(tree)],
    )


def tree_map_with_path(
    fn: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[[Any], bool] | None = None,
    path: Any | None = None,
) -> Any:
    """Apply a function to the leaves of a tree and to their dotted paths.

    Args:
        fn (callable): Called with the path (None for a tree that is a leaf), the leaf and the
            leaves of ``rest``.
        tree, *rest, is_leaf: As in :func:`tree_map`.
        path (str, optional): The path of ``tree`` itself; it is put in front of every path.

    Returns:
        any: A tree of the structure of ``tree``.

    >>> from mlx.utils import tree_map_with_path
    >>> tree_map_with_path(lambda path, x: f"{path}={x}", {"a": [1, {"b": 2}]})
    {'a': ['a.0=1', {'b': 'a.1.b=2'}]}
    """
    if not _is_branch(tree, is_leaf):
        return fn(path, tree, *rest)
    return _rebuild(
        tree,
        [
            tree_map_with_path(
                fn,
                child,
                *(r[k] for r in rest),
                is_leaf=is_leaf,
                path=f"{path}.{k}" if path else f"{k}",
            )
            for k, child in _items(tree)
        ],
    )


def _walk(tree: Any, prefix: str, is_leaf: _Leaf) -> Iterator[tuple[str, Any]]:
    if not _is_branch(tree, is_leaf):
        yield prefix, tree
        return
    for key, child in _items(tree):
        yield from _walk(child, f"{prefix}.{key}", is_leaf)


@overload
def tree_flatten(
    tree: Any,
    prefix: str = "",
    is_leaf: Callable[[Any], bool] | None = None,
    destination: list[tuple[str, Any]] | None = None,
) -> list[tuple[str, Any]]: ...


@overload
def tree_flatten(
    tree: Any,
    prefix: str = "",
    is_leaf: Callable[[Any], bool] | None = None,
    *,
    destination: dict[str, Any],
) -> dict[str, Any]: ...


def tree_flatten(
    tree: Any,
    prefix: str = "",
    is_leaf: Callable[[Any], bool] | None = None,
    destination: list[tuple[str, Any]] | dict[str, Any] | None = None,
) -> list[tuple[str, Any]] | dict[str, Any]:
    """List the leaves of a tree with their dotted paths.

    Args:
        tree (any): A tree. Empty lists, tuples and dicts leave no trace.
        prefix (str, optional): Put in front of every path, from which the first character is then
            removed: write ``".name"`` for paths that start with ``name.``.
        is_leaf (callable, optional): Where it returns True, a list, tuple or dict is listed as a
            leaf.
        destination (list | dict, optional): What the leaves are added to. Default: a new list.

    Returns:
        list of (str, any), or dict: ``destination``.

    Raises:
        ValueError: if ``destination`` is something else than a list or a dict.

    >>> from mlx.utils import tree_flatten
    >>> tree_flatten({"a": [1, 2], "b": {"c": 3}})
    [('a.0', 1), ('a.1', 2), ('b.c', 3)]
    """
    if destination is None:
        destination = []
    if not isinstance(destination, (list, dict)):
        raise ValueError("Destination should be either a list or a dictionary or None")
    pairs = ((path[1:], leaf) for path, leaf in _walk(tree, prefix, is_leaf))
    if isinstance(destination, dict):
        destination.update(pairs)
    else:
        destination.extend(pairs)
    return destination


def tree_unflatten(tree: list[tuple[str, Any]] | dict[str, Any]) -> Any:
    """Build the tree that :func:`tree_flatten` listed.

    Args:
        tree (list of (str, any), | dict): Leaves by dotted path. Where ``int`` takes all keys at
            a place and no two of them are the same number the branch is a list in the order of the
            numbers, else a dict; a place missing from a list holds an empty dict.

    Returns:
        any: The tree; an empty list for no leaves; the leaf itself for one with an empty path.

    >>> from mlx.utils import tree_unflatten
    >>> tree_unflatten([("a.0", 1), ("a.1", 2), ("b.c", 3)])
    {'a': [1, 2], 'b': {'c': 3}}
    """
    pairs = list(tree.items()) if isinstance(tree, dict) else list(tree)
    if len(pairs) == 1:
        path, leaf = pairs[0]
        if path == "":
            return leaf
    branches: dict[str, list[tuple[str, Any]]] = {}
    for path, leaf in pairs:
        key, *below = path.split(".", maxsplit=1)
        branches.setdefault(key, []).append(("".join(below), leaf))
    places = _numbered(branches)
    if places is None:
        return {key: tree_unflatten(below) for key, below in branches.items()}
    items: list[Any] = []
    for place in sorted(places):
        items += ({} for _ in range(len(items), place))
        items.append(tree_unflatten(places[place]))
    return items


def _numbered(branches: dict[str, _Branch]) -> dict[int, _Branch] | None:
    """The branches by number, or None where they have other names or two have one number."""
    try:
        places = {int(key): below for key, below in branches.items()}
    except ValueError:
        return None
    return places if len(places) == len(branches) else None


def tree_reduce(
    fn: Callable[..., Any],
    tree: Any,
    initializer: Any = None,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Combine the leaves of a tree, from the first to the last.

    Args:
        fn (callable): Called with what was combined so far and the next leaf.
        tree (any): A tree.
        initializer (any, optional): What to begin with. Default: the first leaf.
        is_leaf (callable, optional): Where it returns True, a list, tuple or dict is passed to
            ``fn`` as it is.

    Returns:
        any: The combination; ``initializer`` where the tree has no leaf.

    >>> from mlx.utils import tree_reduce
    >>> tree_reduce(lambda total, x: total + x, {"a": [1, 2], "b": 3}, 10)
    16
    """
    total = initializer
    for _, leaf in _walk(tree, "", is_leaf):
        total = leaf if total is None else fn(total, leaf)
    return total


def tree_merge(tree_a: Any, tree_b: Any, merge_fn: Callable[[Any, Any], Any] | None = None) -> Any:
    """Put two trees together.

    None and empty lists, tuples and dicts are holes that the other tree fills.

    Args:
        tree_a, tree_b (any): Trees.
        merge_fn (callable, optional): Called with both leaves where both trees have one, or
            both have None.

    Returns:
        any: A tree with the places of both. Lists and tuples, named ones too, have the type of
            those of ``tree_a``; a dict of any kind becomes a dict.

    Raises:
        ValueError: if there is no ``merge_fn`` and both have a leaf or None at one place, or one
            has a list and the other a dict; or if empty containers of different types meet.

    >>> from mlx.utils import tree_merge
    >>> tree_merge({"a": [1, None]}, {"a": [None, 2], "b": 3})
    {'a': [1, 2], 'b': 3}
    """
    hole_a, hole_b = _is_hole(tree_a), _is_hole(tree_b)
    if hole_a and hole_b and (tree_a is not None) and (tree_b is not None):
        if type(tree_a) is not type(tree_b):
            raise ValueError(f"Cannot merge {type(tree_a).__name__} with {type(tree_b).__name__}")
        return type(tree_a)()
    if hole_a != hole_b:
        return tree_b if hole_a else tree_a
    if not hole_a:
        if isinstance(tree_a, dict) and isinstance(tree_b, dict):
            keys = dict.fromkeys([*tree_a, *tree_b])
            return {k: tree_merge(tree_a.get(k), tree_b.get(k), merge_fn) for k in keys}
        if isinstance(tree_a, (list, tuple)) and isinstance(tree_b, (list, tuple)):
            pairs = itertools.zip_longest(tree_a, tree_b)  # a shorter one has holes at its end
            return _rebuild(tree_a, [tree_merge(a, b, merge_fn) for a, b in pairs])
    if merge_fn is None:
        raise ValueError(
            "Trees contain elements at the same locations but no merge function was provided"
        )
    return merge_fn(None if hole_a else tree_a, None if hole_b else tree_b)


def _is_hole(tree: Any) -> bool:
    return tree is None or (isinstance(tree, (list, tuple, dict)) and not tree)
