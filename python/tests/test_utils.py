"""Trees: flattening, mapping, reducing and merging."""

from collections import OrderedDict, namedtuple

import pytest
from mlx.utils import (
    tree_flatten,
    tree_map,
    tree_map_with_path,
    tree_merge,
    tree_reduce,
    tree_unflatten,
)

Point = namedtuple("Point", "x y")
TREE = {"a": [1, {"b": 2}], "c": (3,), "d": {}, "e": None}


def test_flatten():
    flat = [("a.0", 1), ("a.1.b", 2), ("c.0", 3), ("e", None)]
    assert tree_flatten(TREE) == flat
    assert tree_flatten(TREE, prefix=".t")[0] == ("t.a.0", 1)
    assert tree_flatten(TREE, destination={}) == dict(flat)
    assert tree_flatten([5], destination=[("z", 0)]) == [("z", 0), ("0", 5)]
    assert tree_flatten(7) == [("", 7)]
    assert tree_flatten([]) == []
    assert tree_flatten(Point(1, 2)) == [("0", 1), ("1", 2)]
    lists = tree_flatten(TREE, is_leaf=lambda x: isinstance(x, list))
    assert lists[0] == ("a", [1, {"b": 2}])


def test_unflatten():
    assert tree_unflatten(tree_flatten(TREE)) == {"a": [1, {"b": 2}], "c": [3], "e": None}
    assert tree_unflatten([("", 7)]) == 7
    assert tree_unflatten({"0.a": 1, "2.b": 4}) == [{"a": 1}, {}, {"b": 4}]
    assert tree_unflatten([("0", 1), ("x", 2)]) == {"0": 1, "x": 2}
    assert tree_unflatten([("10", 1), ("2", 2)]) == [{}, {}, 2, *[{}] * 7, 1]
    assert tree_unflatten([]) == []


def test_map():
    assert tree_map(lambda x: (x or 0) + 1, TREE) == {
        "a": [2, {"b": 3}],
        "c": (4,),
        "d": {},
        "e": 1,
    }
    assert tree_map(lambda x, y: x * y, {"a": [2, 3]}, {"a": [4, 5, 6], "b": 0}) == {"a": [8, 15]}
    assert tree_map(lambda x: -x, 3) == -3
    assert tree_map(lambda x: -x, Point(1, 2)) == Point(-1, -2)
    assert type(tree_map(lambda x: x, OrderedDict(a=1))) is dict
    assert tree_map(len, [[1, 2], [3]], is_leaf=lambda x: x and isinstance(x[0], int)) == [2, 1]
    with pytest.raises(KeyError):
        tree_map(lambda x, y: x, {"a": 1, "b": 2}, {"a": 1})
    with pytest.raises(IndexError):
        tree_map(lambda x, y: x, [1, 2], [3])


def test_map_with_path():
    tree = {"a": [1, 2], "b": (3, {"c": 4})}
    got = tree_map_with_path(lambda p, x, y: (p, x + y), tree, tree)
    assert got == {"a": [("a.0", 2), ("a.1", 4)], "b": (("b.0", 6), {"c": ("b.1.c", 8)})}
    assert tree_map_with_path(lambda p, x: p, [0], path="q") == ["q.0"]
    assert tree_map_with_path(lambda p, x: p, 5) is None


def test_reduce():
    assert tree_reduce(lambda a, b: a + b, {"a": [1, 2], "b": 3}) == 6
    assert tree_reduce(lambda a, b: a + b, [1, [2]], 10) == 13
    assert tree_reduce(lambda a, b: a + b, []) is None
    assert tree_reduce(lambda a, b: a + b, 5, 2) == 7
    count = tree_reduce(lambda a, b: a + len(b), [(1, 2), (3,)], 0, lambda x: isinstance(x, tuple))
    assert count == 3


def test_merge():
    assert tree_merge({"a": 1}, {"b": 2}) == {"a": 1, "b": 2}
    assert tree_merge({"a": [1, None]}, {"a": [None, 2, 3]}) == {"a": [1, 2, 3]}
    assert tree_merge({"a": {}}, {"a": {"b": 1}}) == {"a": {"b": 1}}
    assert tree_merge(None, [1]) == tree_merge([1], None) == [1]
    assert tree_merge((1,), (None, 2)) == (1, 2)
    assert tree_merge({"a": 1}, {"a": 2}, lambda a, b: (a, b)) == {"a": (1, 2)}
    for a, b in (({"a": 1}, {"a": 2}), (1, [2]), ([1], {"a": 1}), (1, 2)):
        with pytest.raises(ValueError, match="no merge_fn"):
            tree_merge(a, b)
