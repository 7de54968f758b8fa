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


class Values(tuple):
    pass


class Items(list):
    pass


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
    # A pair is whatever two things come out of.
    assert tree_unflatten(({"a.0": 1, "b": 2},)) == {"a": ["b"]}
    for pairs in ([("a", 1, 2)], [("a",)], ({"": 1},)):
        with pytest.raises(ValueError):
            tree_unflatten(pairs)


@pytest.mark.parametrize(
    ("keys", "tree"),
    [
        (["01", "1", "2"], {"01": 0, "1": 1, "2": 2}),
        (["01", "0"], [1, 0]),
        (["-1", "0"], [0, 1]),
        (["0", "-1"], [1, 0]),
        (["-2", "1"], [0, 1]),
        ([" 1", "0"], [1, 0]),
        (["+1", "0"], [1, 0]),
        (["1_0"], [*[{}] * 10, 0]),
        (["1 ", "3"], [{}, 0, {}, 1]),
        (["", "0"], {"": 0, "0": 1}),
        (["1.0", "0.1"], [[{}, 1], [0]]),
        (["0x1"], {"0x1": 0}),
        (["\uff11"], [{}, 0]),
        (["\u00b2"], {"\u00b2": 0}),
    ],
)
def test_unflatten_keys_that_int_takes(keys, tree):
    pairs = [(key, i) for i, key in enumerate(keys)]
    assert tree_unflatten(pairs) == tree
    assert tree_unflatten(dict(pairs)) == tree


def test_flatten_destination():
    assert tree_flatten({"a": [1]}, destination={"b": 0}) == {"b": 0, "a.0": 1}
    for destination in (3, "s", (), set()):
        with pytest.raises(ValueError, match="either a list or a dictionary or None"):
            tree_flatten({"a": 1}, destination=destination)


def test_map():
    assert tree_map(lambda x: (x or 0) + 1, TREE) == {
        "a": [2, {"b": 3}],
        "c": (4,),
        "d": {},
        "e": 1,
    }
    assert tree_map(lambda x, y: x * y, {"a": [2, 3]}, {"a": [4, 5, 6], "b": 0}) == {"a": [8, 15]}
    assert tree_map(lambda x: -x, 3) == -3
    mapped = tree_map(lambda x: -x, [Point(1, 2), Values([3]), Items([4])])
    assert mapped == [Point(-1, -2), (-3,), [-4]]
    assert [type(x) for x in mapped] == [Point, Values, Items]
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
        with pytest.raises(ValueError, match="no merge function was provided"):
            tree_merge(a, b)


def test_merge_keeps_types():
    first = lambda a, b: a  # noqa: E731
    assert type(tree_merge(Point(1, 2), Point(3, 4), lambda a, b: a + b)) is Point
    assert type(tree_merge(Values([1]), Values([2]), first)) is Values
    assert type(tree_merge(Items([1]), [2, 3], first)) is Items
    assert type(tree_merge(OrderedDict(a=1), {"b": 1})) is dict


def test_merge_of_holes():
    first = lambda a, b: a  # noqa: E731
    for empty in ([], (), {}, Values(), Items()):
        merged = tree_merge(empty, empty)
        assert type(merged) is type(empty) and not merged
    for a, b in (({}, []), ([], {}), ((), []), (Values(), ()), (Items(), [])):
        message = f"Cannot merge {type(a).__name__} with {type(b).__name__}"
        with pytest.raises(ValueError, match=message):
            tree_merge(a, b)
        with pytest.raises(ValueError, match=message):
            tree_merge({"a": a}, {"a": b}, first)
    assert tree_merge([], 3) == tree_merge(3, {}) == 3
    # Two holes at one place are for merge_fn.
    for a, b in ((None, None), ([None], [None]), ({"a": None}, {"a": []}), ([], None)):
        with pytest.raises(ValueError, match="no merge function"):
            tree_merge(a, b)
        assert tree_merge(a, b, lambda x, y: (x, y)) in (
            (None, None),
            [(None, None)],
            {"a": (None, None)},
        )
