"""Containers of arrays on their way through transforms: which type the function sees, which type
results and gradients have, and what becomes of the caller's own."""

import gc
import threading
import weakref
from collections import OrderedDict, defaultdict, namedtuple

import helpers as h
import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx.utils import tree_flatten, tree_map

Pair = namedtuple("Pair", "a b")


class Special(Pair):
    pass


class Values(tuple):
    pass


class Items(list):
    pass


class Table(dict):
    pass


def numbers(*shape):
    return mx.full(shape, 1.0), mx.full(shape, 2.0)


# The container, and the plain type that a copy has.
KINDS = {
    "list": (list, list),
    "tuple": (tuple, tuple),
    "dict": (lambda v: dict(zip("ab", v, strict=True)), dict),
    "list subclass": (Items, list),
    "tuple subclass": (Values, Values),
    "named tuple": (lambda v: Pair(*v), Pair),
    "named tuple subclass": (lambda v: Special(*v), Special),
    "dict subclass": (lambda v: Table(zip("ab", v, strict=True)), dict),
    "ordered dict": (lambda v: OrderedDict(zip("ab", v, strict=True)), dict),
    "default dict": (lambda v: defaultdict(int, zip("ab", v, strict=True)), dict),
}


def items(tree):
    return list(tree.values()) if isinstance(tree, dict) else list(tree)


def first(tree):
    return items(tree)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_grad_works_on_the_callers_dicts_and_lists(kind):
    make, copied = KINDS[kind]
    own = make(numbers())
    before, seen = items(own), []

    def f(tree):
        seen.append(tree)
        assert all(x is not y for x, y in zip(items(tree), before, strict=True))
        return first(tree) * first(tree)

    for grads in (mx.grad(f)(own), mx.value_and_grad(f)(own)[1]):
        assert type(grads) is copied and [x.item() for x in items(grads)] == [2, 0]
        assert type(seen[-1]) is type(own)
        assert (seen[-1] is own) == isinstance(own, (dict, list))
        assert all(x is y for x, y in zip(items(own), before, strict=True))
    twice = mx.grad(lambda tree: first(mx.grad(f)(tree)))(own)
    assert type(twice) is copied and [x.item() for x in items(twice)] == [2, 0]
    assert all(x is y for x, y in zip(items(own), before, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_other_transforms_pass_copies(kind):
    make, copied = KINDS[kind]
    seen = []

    def f(tree):
        seen.append(tree)
        return make([x * x for x in items(tree)])

    ruled = mx.custom_function(f)
    ruled.vjp(lambda primals, cotangents, outputs: primals)
    for name, transform in {
        "compile": mx.compile,
        "vmap": mx.vmap,
        "checkpoint": mx.checkpoint,
        "custom_function": lambda f: ruled,
    }.items():
        own = make(numbers(3))
        before = items(own)
        result = transform(f)(own)
        assert type(result) is copied, name
        assert [x.tolist() for x in items(result)] == [[1] * 3, [4] * 3]
        assert type(seen[-1]) is copied and seen[-1] is not own, name
        assert all(x is y for x, y in zip(items(own), before, strict=True)), name


@pytest.mark.parametrize("kind", KINDS)
def test_rules_see_the_form_of_arguments_and_results(kind):
    make, copied = KINDS[kind]
    seen = []
    f = mx.custom_function(lambda tree: make([x * x for x in items(tree)]))

    @f.vjp
    def f_vjp(primals, cotangents, outputs):
        seen.append((primals, cotangents, outputs))
        return tree_map(lambda p, c: 5 * p * c, primals, cotangents)

    @f.jvp
    def f_jvp(primals, tangents):
        seen.append((primals, tangents))
        return tangents

    @f.vmap
    def f_vmap(inputs, axes):
        seen.append((inputs, axes))
        return inputs, axes

    grads = mx.grad(lambda tree: sum(items(f(tree))))(make(numbers()))
    assert type(grads) is copied and [x.item() for x in items(grads)] == [5, 10]
    tangents = mx.jvp(lambda a, b: items(f(make([a, b]))), numbers(), [mx.array(3.0)] * 2)[1]
    assert [x.item() for x in tangents] == [3, 3]
    mapped = mx.vmap(f)(make(numbers(3)))
    assert type(mapped) is copied and [x.tolist() for x in items(mapped)] == [[1] * 3, [2] * 3]
    assert [len(x) for x in seen] == [3, 2, 2]
    assert {type(x) for call in seen for x in call} == {copied}
    assert items(seen[2][1]) == [0, 0]


def test_what_grad_finds_written_stays():
    a = [mx.array(1.0) for _ in range(3)]
    before = list(a)

    def f(a):
        a[1] = sum(a)
        return a[1]

    grads = mx.grad(f)(a)
    assert [x.item() for x in grads] == [1, 1, 1]
    assert a[0] is before[0] and a[2] is before[2] and a[1].item() == 3

    def g(a):
        a[0] = a[0] * 3
        return a[0]

    value, grads = mx.value_and_grad(g)([mx.array(2.0)])
    assert value.item() == 6 and grads[0].item() == 3

    tree = {"k": {"a": mx.array(1.0)}, "l": ([mx.array(5.0)],), "b": mx.array(7.0)}
    inner, b = tree["l"][0], tree["b"]

    def nested(tree):
        tree["k"]["a"] = tree["k"]["a"] * 2
        tree["l"][0][0] = mx.array(9.0)
        return tree["k"]["a"] * tree["b"]

    grads = mx.grad(nested)(tree)
    assert grads["k"]["a"].item() == 14 and grads["b"].item() == 2
    assert grads["l"][0][0].item() == 0
    assert tree["k"]["a"].item() == 2 and tree["b"] is b
    assert tree["l"][0] is inner and inner[0].item() == 9


def test_grad_of_containers_that_the_function_reshapes():
    def appends(a):
        a.append(mx.array(2.0))
        a.append(a[0])
        return a[0] * a[1]

    x = mx.array(1.0)
    a = [x]
    assert [g.item() for g in mx.grad(appends)(a)] == [2]
    assert len(a) == 3 and a[0] is x and a[1].item() == 2 and a[2] is x

    def adds(d):
        d["c"] = mx.array(2.0)
        d["kept"] = [d["a"]]
        del d["b"]
        return d["a"] * d["c"]

    d = {"a": x, "b": mx.array(3.0)}
    grads = mx.grad(adds)(d)
    assert {k: g.item() for k, g in grads.items()} == {"a": 2, "b": 0}
    assert d.keys() == {"a", "c", "kept"} and d["a"] is x and d["kept"][0] is x

    def swaps(a):
        a[0], a[1] = a[1], a[0]
        return a[0] * 2

    y = mx.array(4.0)
    a = [x, y]
    assert [g.item() for g in mx.grad(swaps)(a)] == [0, 2]
    assert a[0] is y and a[1] is x

    def holds_itself(a):
        a.append(a)
        return a[0] * 3

    a = [x]
    assert [g.item() for g in mx.grad(holds_itself)(a)] == [3]
    assert a[0] is x and a[1] is a


def test_grad_of_a_container_that_is_met_twice():
    x = mx.array(1.0)
    inner = [x]
    a = [inner, inner]
    grads = mx.grad(lambda t: t[0][0] * t[1][0] * 3)(a)
    assert [[g.item() for g in part] for part in grads] == [[0], [6]]
    assert a[0] is inner and inner[0] is x
    assert [g.item() for g in mx.grad(lambda t: t[0] * t[1] * 3)([x, x])] == [3, 3]
    other = mx.grad(lambda a, b: a[0] * b[0], argnums=(0, 1))(inner, inner)
    assert [g[0].item() for g in other] == [0, 2] and inner[0] is x


def test_an_exception_gives_the_caller_everything_back():
    class Own(Exception):
        pass

    a = {"x": [mx.array(1.0)], "t": ({"y": mx.array(2.0)},)}
    leaves = [x for _, x in tree_flatten(a)]
    inner = a["t"]

    def f(a):
        a["new"] = 1
        raise Own("mine")

    def wrong(a):
        return "no array"

    def deep(a):
        return mx.grad(f)(a)

    for function, error in ((f, Own), (wrong, ValueError), (deep, Own)):
        with pytest.raises(error):
            mx.grad(function)(a)
        a.pop("new", None)
        assert [x for _, x in tree_flatten(a)] == leaves and a["t"] is inner
        assert all(x is y for (_, x), y in zip(tree_flatten(a), leaves, strict=True))

    class Unbuildable(tuple):
        def __new__(cls, a, b):
            return super().__new__(cls, (a, b))

    tree = [mx.array(1.0), Unbuildable(mx.array(2.0), mx.array(3.0))]
    before = list(tree)
    with pytest.raises(TypeError):
        mx.grad(lambda t: t[0])(tree)
    assert tree[0] is before[0] and tree[1] is before[1]


def test_containers_that_hold_themselves():
    a = [mx.array(1.0)]
    a.append(a)
    d = {"x": mx.array(1.0)}
    d["d"] = d
    for tree in (a, d, (a,)):
        for call in (
            lambda t: mx.grad(lambda t: mx.array(1.0))(t),
            lambda t: mx.vmap(lambda t: mx.array(1.0))(t),
            lambda t: mx.checkpoint(lambda t: mx.array(1.0))(t),
            mx.eval,
            mx.async_eval,
        ):
            with pytest.raises(RecursionError):
                call(tree)
    assert a[0].item() == 1 and a[1] is a and d["x"].item() == 1
    h.works()


def test_gradients_of_modules():
    model = nn.Linear(3, 2)
    weight, bias = model.weight, model.bias
    x = mx.array([1.0, 2.0, 3.0])
    seen = []

    def f(m, x):
        seen.append(m)
        return m(x).sum()

    grads = mx.grad(f)(model, x)
    assert seen[0] is model and type(grads) is dict
    assert grads["weight"].tolist() == [[1, 2, 3]] * 2 and grads["bias"].tolist() == [1, 1]
    assert model.weight is weight and model.bias is bias
    value, grads = mx.value_and_grad(f)(model, x)
    assert mx.allclose(value, model(x).sum()) and set(grads) == {"weight", "bias"}
    grads, by_x = mx.grad(f, argnums=(0, 1))(model, x)
    assert mx.allclose(by_x, mx.sum(weight, axis=0)) and grads["bias"].tolist() == [1, 1]
    # Which parameters are frozen is nothing to grad.
    assert set(mx.grad(f)(model.freeze(), x)) == {"weight", "bias"}
    named = mx.grad(lambda x, m: m(x).sum(), argnames="m")(x, m=model)
    assert named[0] is None and named[1]["m"]["bias"].tolist() == [1, 1]

    deep = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 1), nn.Tanh()))
    parameters = [p for _, p in tree_flatten(deep.parameters())]
    grads = mx.grad(f)(deep, x)
    want = nn.value_and_grad(deep, lambda x: deep(x).sum())(x)[1]
    for (path, g), (again, w) in zip(tree_flatten(grads), tree_flatten(want), strict=True):
        assert path == again and mx.allclose(g, w)
    deep.update(tree_map(lambda p: p + 0, deep.parameters()))
    assert len(parameters) == len(tree_flatten(deep.parameters()))
    for transform in (mx.compile, mx.checkpoint):
        # Others see a plain dict.
        assert transform(lambda m: m["weight"] if type(m) is dict else None)(model).shape == (2, 3)


def test_aux_values_and_results_keep_their_types():
    def f(x):
        return Values([x[0] * 2, Pair(x, {"k": Items([x[0]])}), 3, None, "s"])

    value, grads = mx.value_and_grad(f)([mx.array(1.0)])
    assert type(value) is Values and type(value[1]) is Pair and type(value[1].b["k"]) is list
    assert value[0].item() == 2 and value[1].a[0].item() == 1 and value[2:] == (3, None, "s")
    assert grads[0].item() == 2
    a = [mx.array(1.0)]

    def itself(x):
        x[0] = x[0] * 5
        return x[0], x

    (value, aux), grads = mx.value_and_grad(itself)(a)
    assert value.item() == 5 and aux is not a and aux[0].item() == 5 and a[0].item() == 5
    assert grads[0].item() == 5
    calls = []
    f = mx.compile(lambda t: (calls.append(type(t)), Values([t[0] + 1]))[1])
    for make in (tuple, Values, lambda v: Pair(*v), tuple, Values):
        assert type(f(make(numbers()))) is Values
    assert calls == [tuple, Values, Pair]


def test_gradients_need_an_array():
    for tree in ([], {}, ((), [])):
        with pytest.raises(ValueError, match="at least one argument"):
            mx.grad(lambda t: mx.array(1.0))(tree)
    for tree in (None, 2.0, [mx.array(1.0), 2.0], {"a": None}):
        with pytest.raises(ValueError, match="should contain only arrays"):
            mx.grad(lambda t: mx.array(1.0))(tree)


def test_products_take_sequences_of_arrays():
    x = mx.array(2.0)
    for make in (list, tuple, Values, Items):
        outputs, grads = mx.vjp(lambda a, b: [a * b], make([x, x]), make([mx.array(1.0)]))
        assert type(outputs) is type(grads) is list and [g.item() for g in grads] == [2, 2]
        outputs, tangents = mx.jvp(lambda a, b: Values([a * b]), make([x, x]), make([x, x]))
        assert outputs[0].item() == 4 and tangents[0].item() == 8
    rows = mx.vjp(lambda a, b: a * b, mx.array([2.0, 3.0]), [mx.array(1.0)])[1]
    assert [g.item() for g in rows] == [3, 2]
    for bad in (x, 1.0, None, {"a": x}, {1}, iter([x]), [1.0], [x, 2.0], [[x]], [None], "s"):
        with pytest.raises(TypeError, match="sequence of arrays"):
            mx.vjp(lambda *a: a[0], bad, [x])
        with pytest.raises(TypeError, match="sequence of arrays"):
            mx.jvp(lambda *a: a[0], [x], bad)
    # Cotangents beyond the outputs are passed over, and take the dtype of the output.
    half = mx.array(1.0, mx.float16)
    assert mx.vjp(lambda a: a, [x], [half, half])[1][0].dtype == mx.float32
    with pytest.raises(
        ValueError, match=r"outputs to compute gradients for \(2\).*cotangents \(1\)"
    ):
        mx.vjp(lambda a: (a, a), [x], [x])


def test_transformed_functions_are_collected():
    class Owner:
        pass

    for transform in (mx.grad, mx.vmap, mx.compile, mx.checkpoint):
        owner = Owner()
        owner.f = transform(lambda x, owner=owner: x)
        gone = weakref.ref(owner)
        del owner
        gc.collect()
        assert gone() is None
    state = {}
    state["f"] = mx.compile(lambda x: x, inputs=state)
    owner = state["owner"] = Owner()
    gone = weakref.ref(owner)
    del state, owner
    gc.collect()
    assert gone() is None


def test_threads_that_share_a_container_lose_nothing():
    a = [mx.array(float(i)) for i in range(8)]
    mx.eval(a)
    start, failures = threading.Barrier(4), []

    def work():
        start.wait()
        for _ in range(50):
            try:
                mx.eval(mx.grad(lambda t: sum(x * x for x in t))(a))
            except Exception as e:
                failures.append(e)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == [] and [x.item() for x in a] == list(range(8))
