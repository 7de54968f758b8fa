"""Module: items, walks, weights, freezing and training mode."""

import copy
import pickle

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten, tree_map, tree_unflatten


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.layers = [nn.Linear(3, 3), nn.ReLU()]
        self.named = {"last": nn.Linear(3, 1, bias=False), "scale": mx.ones((2,))}
        self._hidden = mx.ones((1,))
        self.pair = [mx.zeros((1,)), mx.zeros((2,))]
        self.number = 5

    def __call__(self, x):
        for layer in (self.first, *self.layers, self.named["last"]):
            x = layer(x)
        return x


PATHS = [
    "first.weight", "first.bias", "layers.0.weight", "layers.0.bias", "named.last.weight",
    "named.scale", "pair.0", "pair.1",
]  # fmt: skip


def paths(tree):
    return [path for path, _ in tree_flatten(tree)]


def test_items_and_attributes():
    model = Model()
    assert isinstance(model, dict) and nn.Module is Module
    assert list(model) == ["first", "layers", "named", "_hidden", "pair"]
    assert model.first is model["first"] and model.number == 5 and "number" not in model
    assert model.state is model
    with pytest.raises(AttributeError, match="'Model' object has no attribute 'missing'"):
        model.missing  # noqa: B018
    model.number = mx.zeros((1,))
    assert "number" in model
    model.number = 7
    assert model.number == 7 and "number" not in model
    del model.number, model.pair
    assert not hasattr(model, "number") and "pair" not in model
    with pytest.raises(AttributeError):
        del model.pair


def test_repr():
    assert repr(Model()) == (
        "Model(\n"
        "  (first): Linear(input_dims=2, output_dims=3, bias=True)\n"
        "  (layers.0): Linear(input_dims=3, output_dims=3, bias=True)\n"
        "  (layers.1): ReLU()\n"
        "  (named.last): Linear(input_dims=3, output_dims=1, bias=False)\n"
        ")"
    )
    nested = nn.Sequential(nn.Sequential(nn.Tanh()))
    assert repr(nested) == "Sequential(\n  (layers.0): Sequential(\n    (layers.0): Tanh()\n  )\n)"


def test_walks():
    model = Model()
    assert paths(model.parameters()) == PATHS
    assert model.children() == {
        "first": model.first,
        "layers": model.layers,
        "named": {"last": model.named["last"], "scale": {}},
        "pair": [{}, {}],
    }
    nested = nn.Sequential(nn.Sequential(nn.Linear(1, 1)), nn.Tanh())
    assert nested.leaf_modules() == {
        "layers": [{"layers": [nested.layers[0].layers[0]]}, nested.layers[1]]
    }
    names = [name for name, _ in nested.named_modules()]
    assert names == ["", "layers.1", "layers.0", "layers.0.layers.0"]
    assert nested.modules()[0] is nested and len(nested.modules()) == 4
    shapes = model.filter_and_map(Module.valid_parameter_filter, lambda p: p.shape)
    assert shapes["named"] == {"last": {"weight": (1, 3)}, "scale": (2,)}
    only = model.filter_and_map(lambda m, k, v: k in ("named", "named.scale"), lambda p: p.shape)
    assert only == {"named": {"last": {}, "scale": (2,)}}
    with pytest.raises(RuntimeError, match="refused 'scale'|refused"):
        model.filter_and_map(lambda m, k, v: True, is_leaf_fn=lambda m, k, v: False)
    seen = []
    assert model.apply_to_modules(lambda name, m: seen.append((name, type(m)))) is model
    assert seen[0] == ("", Model) and ("named.last", nn.Linear) in seen


def test_freeze_and_unfreeze():
    model = Model()
    assert model.freeze() is model
    assert paths(model.trainable_parameters()) == []
    model.unfreeze(keys="bias")
    assert paths(model.trainable_parameters()) == ["first.bias", "layers.0.bias"]
    model.unfreeze(recurse=False)
    assert paths(model.trainable_parameters()) == ["first.bias", "layers.0.bias", *PATHS[-3:]]
    assert paths(model.unfreeze().trainable_parameters()) == PATHS
    model.freeze(recurse=False, keys=["named"])
    assert "named.scale" not in paths(model.trainable_parameters())
    for method in (model.freeze, model.unfreeze):
        with pytest.raises(KeyError, match="contain member other"):
            method(keys="other", strict=True)
        with pytest.raises(TypeError):
            method(True)


def test_only_lists_hold_several_keys():
    """Whatever else is given is one key, as in MLX."""
    for keys in (("bias",), ("weight", "bias"), mx.array(True)):
        model = Model().freeze(keys=keys)
        assert paths(model.trainable_parameters()) == PATHS
        with pytest.raises(KeyError):
            model.freeze(keys=keys, strict=True)
    with pytest.raises(TypeError):
        Model().freeze(keys={"a": "bias"})


def test_strict_keys_are_looked_for_in_the_whole_model():
    def model():
        return nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2))

    weights = ["layers.0.weight", "layers.1.weight"]
    m = model().freeze(keys="bias", strict=True)
    assert paths(m.trainable_parameters()) == weights
    m = model().freeze()
    assert paths(m.unfreeze(keys="bias", strict=True).trainable_parameters()) == ["layers.1.bias"]
    assert paths(model().freeze(keys="layers", strict=True).trainable_parameters()) == []
    for change in (model().freeze, model().unfreeze):
        change(keys=["weight", "bias"], strict=True)
        with pytest.raises(KeyError, match="contain member bias"):
            change(keys="bias", strict=True, recurse=False)
    m = model()
    with pytest.raises(KeyError, match="contain member other"):
        m.freeze(keys=["bias", "other"], strict=True)
    assert paths(m.trainable_parameters()) == [
        "layers.0.weight",
        "layers.1.weight",
        "layers.1.bias",
    ]
    m.freeze()
    with pytest.raises(KeyError, match="contain member other"):
        m.unfreeze(keys=["bias", "other"], strict=True)
    assert paths(m.trainable_parameters()) == []


def test_update():
    model = Model()
    assert (
        model.update({"layers": [{"weight": mx.zeros((7,))}], "_hidden": mx.zeros((3,))}) is model
    )
    assert model.layers[0].weight.shape == (7,) and model._hidden.shape == (3,)
    for bad, message in (
        ({"other": mx.zeros(1)}, 'parameter named "other"'),
        ({"number": mx.zeros(1)}, 'parameter named "number"'),
        ({"first": {"weight": 5}}, "invalid type: int"),
        ({"first": {"weight": {"a": mx.zeros(1)}}}, "invalid type: dict"),
        ({"first": mx.zeros(1)}, "invalid type: array"),
        ({"layers": [{}, {}, {}]}, "index 2 is out of bounds.*length 2"),
        ({"pair": ({}, {})}, "invalid type: tuple"),
        (5, "invalid type: int"),
    ):
        with pytest.raises(ValueError, match=message):
            model.update(bad)
    # A module has no item 0.
    for strict in (True, False):
        with pytest.raises(KeyError):
            model.update([mx.zeros(1)], strict=strict)
        with pytest.raises(KeyError):
            model.update({"first": [mx.zeros(1)]}, strict=strict)
        with pytest.raises(KeyError):
            model.update_modules([nn.ReLU()], strict=strict)
    before = dict(tree_flatten(model.parameters()))
    model.update({"other": mx.zeros(1), "layers": [{}, {}, {"x": 1}], "first": 5}, strict=False)
    assert all(v is before[k] for k, v in tree_flatten(model.parameters()))


def test_update_modules():
    model = Model()
    assert model.update_modules({"first": nn.Tanh(), "layers": [{}, nn.GELU()]}) is model
    assert isinstance(model.first, nn.Tanh) and isinstance(model.layers[1], nn.GELU)
    model.update_modules(model.leaf_modules())
    model.update_modules({"other": nn.ReLU()}, strict=False)
    assert "other" not in model
    for bad, message in (
        ({"other": nn.ReLU()}, 'sub-module named "other"'),
        ({"named": {"x": nn.ReLU()}}, 'sub-module named "x"'),
        ({"layers": [5]}, "invalid type: int"),
        ({"layers": [{}, {}, {}]}, "index 2 is out of bounds"),
        ({"pair": [nn.ReLU()]}, "invalid type: ReLU"),
        ({"named": nn.ReLU()}, "invalid type: ReLU"),
        ({"layers": (nn.ReLU(),)}, "invalid type: tuple"),
    ):
        with pytest.raises(ValueError, match=message):
            model.update_modules(bad)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_weights_through_files(suffix, tmp_path):
    a, b = Model(), Model()
    file = tmp_path / f"w{suffix}"
    a.save_weights(str(file))
    assert b.load_weights(str(file)) is b
    for (_, x), (_, y) in zip(
        tree_flatten(a.parameters()), tree_flatten(b.parameters()), strict=True
    ):
        assert mx.array_equal(x, y)
    a.save_weights(file)
    b.load_weights(file)
    with pytest.raises(ValueError, match="Unsupported file extension"):
        a.save_weights(str(tmp_path / "w.bin"))


def test_weights_from_lists():
    layer = nn.Linear(2, 3)
    w, b = mx.ones((3, 2)), mx.ones((3,))
    layer.load_weights([("weight", w), ("bias", b)])
    assert layer.weight is w
    for bad, message in (
        ([("weight", w)], r"Missing 1 parameters: \nbias\."),
        ([("weight", w), ("bias", b), ("x", b), ("y.z", b)], r"Received 2 .*\nx,\ny\.z\."),
        ([("weight", b), ("bias", b)], r"Expected shape \(3, 2\) .* \(3,\) for parameter weight"),
        ([("weight", 5), ("bias", b)], r"Expected mx.array .*int.* for parameter weight"),
    ):
        with pytest.raises(ValueError, match=message):
            layer.load_weights(bad)
    layer.load_weights([("bias", mx.zeros((5,))), ("other", b)], strict=False)
    assert layer.bias.shape == (5,) and "other" not in layer
    with pytest.raises(ValueError, match="for parameter weight"):
        layer.load_weights([("weight", "text")], strict=False)
    layer.load_weights([], strict=False)
    half = [("weight", w.astype(mx.float16)), ("bias", b)]
    assert layer.load_weights(half, strict=False).weight.dtype == mx.float16


def test_initial_weights_that_are_replaced_are_never_computed():
    # 64 TiB of weights: evaluating any of them could not go unnoticed.
    layer = nn.Linear(1 << 22, 1 << 22)
    assert layer.weight.shape == (1 << 22, 1 << 22)
    w, b = mx.ones((1, 2)), mx.ones((1,))
    layer.load_weights([("weight", w), ("bias", b)], strict=False)
    assert layer(mx.ones((1, 2))).tolist() == [[3.0]]


def test_dtypes_apply_and_modes():
    model = Model()
    model.layers.append(mx.zeros((1,), mx.int32))
    model.set_dtype(mx.float16)
    kinds = {k: v.dtype for k, v in tree_flatten(model.parameters())}
    assert kinds.pop("layers.2") == mx.int32 and set(kinds.values()) == {mx.float16}
    model.set_dtype(mx.bfloat16, predicate=None)
    assert {v.dtype for _, v in tree_flatten(model.parameters())} == {mx.bfloat16}
    model.freeze(keys="bias")
    model.apply(lambda x: x.astype(mx.float32), Module.trainable_parameter_filter)
    assert model.first.bias.dtype == mx.bfloat16 and model.first.weight.dtype == mx.float32
    assert model.training and not model.eval().training
    assert not any(m.training for m in model.modules())
    assert all(m.training for m in model.train().modules())


def test_copies_and_pickles():
    layer = nn.Linear(2, 3)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert repr(other) == repr(layer) and other.weight is not layer.weight
        assert mx.array_equal(other.weight, layer.weight) and other.training
    model = nn.TransformerEncoderLayer(4, 2)
    assert pickle.loads(pickle.dumps(model)).activation is nn.relu


def test_value_and_grad():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    model.layers[0].freeze()
    x = mx.ones((4, 2))

    def loss(model, x, scale=1.0):
        return (model(x) * scale).sum(), "more"

    weights = model.layers[1].weight
    (value, more), grads = nn.value_and_grad(model, loss)(model, x, scale=2.0)
    assert more == "more" and value.shape == ()
    assert paths(grads) == ["layers.1.weight", "layers.1.bias"]
    assert grads["layers"][1]["bias"].item() == 8.0
    assert mx.array_equal(model.layers[1].weight, weights)
    hidden = model.layers[0](x)
    assert mx.allclose(grads["layers"][1]["weight"], 2 * hidden.sum(0, keepdims=True))
    assert mx.allclose(value, 2 * model(x).sum())


def test_checkpoint():
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    x = mx.ones((4, 2))
    plain = nn.value_and_grad(model, lambda x: model(x).sum())(x)
    again = nn.value_and_grad(model, lambda x: nn.utils.checkpoint(model)(x).sum())(x)
    tree_map(lambda a, b: mx.allclose(a, b).item() or pytest.fail("differs"), plain[1], again[1])
    assert mx.allclose(plain[0], again[0])
    with_function = nn.utils.checkpoint(model, lambda x: model(x) * 2)(x)
    assert mx.allclose(with_function, model(x) * 2)


def test_state_can_be_compiled():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm(4), nn.Dropout(0.5))
    state = [model.state, mx.random.state]

    def run(x):
        return model(x)

    compiled = mx.compile(run, inputs=state, outputs=state)
    x = mx.random.normal((5, 3))
    first = compiled(x)
    assert not mx.array_equal(first, compiled(x))
    assert mx.any(model.layers[1].running_mean != 0)
    weights = tree_unflatten(tree_flatten(model.parameters()))
    model.update(tree_map(lambda p: p * 0, weights))
    assert not mx.any(compiled(x))


class Plain(dict):
    """A module as it is described: a dict, whose items are looked up where no attribute is."""

    def __getattr__(self, key):
        if key in self:
            return self[key]
        raise AttributeError(key)

    def __setattr__(self, key, value):
        if isinstance(value, (mx.array, dict, list, tuple)):
            self.__dict__.pop(key, None)
            self[key] = value
        else:
            super().__setattr__(key, value)
            self.pop(key, None)

    def __delattr__(self, key):
        if key in self:
            del self[key]
        else:
            super().__delattr__(key)


def test_items_and_attributes_stay_the_same_things(rng):
    """Whatever was looked up before, in whichever order items and attributes change."""
    values = [nn.ReLU(), nn.Linear(2, 2), mx.ones(2), [nn.ReLU()], {"a": 1}, 3, "text", None]
    names = ["one", "two", "three"]

    def tried(f):
        try:
            return f()
        except (AttributeError, KeyError) as e:
            return type(e)

    def change(m, what, key, value):
        match what:
            case "get":
                return getattr(m, key)
            case "item":
                return m[key]
            case "set":
                return setattr(m, key, value)
            case "put":
                return m.__setitem__(key, value)
            case "delete":
                return delattr(m, key)
            case "remove":
                return m.__delitem__(key)
            case "pop":
                return m.pop(key, None)
            case "join":
                m |= {key: value}
                return None
            case "clear":
                return m.clear()
            case "copy":
                return [(k, v) for k, v in vars(copy.copy(m)).items() if k in names]

    kinds = ["get"] * 5 + ["item", "set", "set", "put", "delete", "remove", "pop", "join", "copy"]
    for _ in range(40):
        ours, plain = nn.Module(), Plain()
        for _ in range(60):
            what = str(rng.choice([*kinds, "clear"] if rng.random() < 0.1 else kinds))
            key, value = str(rng.choice(names)), values[rng.integers(len(values))]
            got, want = (
                tried(lambda m=m, w=what, k=key, v=value: change(m, w, k, v)) for m in (ours, plain)
            )
            assert got is want or what == "copy" and len(got) == len(want), what
            assert list(ours) == list(plain)
            for name in names:
                assert getattr(ours, name, Plain) is getattr(plain, name, Plain), (what, name)


def test_layers_that_were_looked_up_are_no_part_of_copies_and_pickles():
    m = nn.Sequential(nn.Linear(2, 2))
    m.child = nn.Linear(2, 3)
    assert m.child is m.child is m["child"]
    for other in (copy.copy(m), copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        other.child = nn.ReLU()
        assert isinstance(other.child, nn.ReLU) and isinstance(m.child, nn.Linear)
    m.update_modules({"child": nn.Identity()})
    assert isinstance(m.child, nn.Identity)
    del m["child"]
    assert not hasattr(m, "child")
