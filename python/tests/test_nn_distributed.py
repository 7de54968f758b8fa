"""Groups of one process, and the parts that several would keep, with a stand-in for a group."""

import json

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx._distributed_utils.common import Host, Hostfile
from mlx._distributed_utils.launch import launch_jaccl, launch_ring
from mlx.nn.layers import distributed
from mlx.utils import tree_flatten


class Part:
    """What a process of several is told; it cannot communicate."""

    def __init__(self, rank, size):
        self._rank, self._size = rank, size

    def rank(self):
        return self._rank

    def size(self):
        return self._size


def test_a_group_of_one():
    group = mx.distributed.init()
    assert (group.rank(), group.size()) == (0, 1)
    x = mx.arange(3)
    for fn in ("all_sum", "all_max", "all_min", "all_gather", "sum_scatter"):
        assert mx.array_equal(getattr(mx.distributed, fn)(x, group=group, stream=mx.cpu), x)
        for number, dtype in ((3, mx.int32), (2.5, mx.float32), (True, mx.bool_)):
            one = getattr(mx.distributed, fn)(number)
            assert (one.item(), one.dtype, one.shape) == (number, dtype, ())
    for fn in (
        lambda: mx.distributed.send(x, 0),
        lambda: mx.distributed.recv((3,), mx.float32, 0),
        lambda: mx.distributed.recv_like(x, 0),
    ):
        with pytest.raises(ValueError, match="singleton group"):
            fn()
    with pytest.raises(ValueError, match="'carrier pigeon'"):
        mx.distributed.init(backend="carrier pigeon")
    for fn in (lambda: mx.distributed.init(strict=True), lambda: group.split(0)):
        with pytest.raises(RuntimeError):
            fn()
    with pytest.raises(TypeError):
        mx.distributed.Group()


def test_gradients_over_a_group_of_one():
    grads = {"a": mx.array([3.0]), "b": [mx.array([4.0])]}
    assert nn.average_gradients(grads) is grads
    clipped, norm = nn.utils.clip_grad_norm_sharded(grads, 1.0)
    assert norm.item() == 5.0 and abs(clipped["a"].item() - 0.6) < 1e-5
    grad = mx.grad(lambda x: distributed.sum_gradients(mx.distributed.init())(x).sum())
    assert grad(mx.ones((2,))).tolist() == [1, 1]


def test_fully_sharded_modules():
    inner = nn.Linear(4, 6)
    assert nn.fully_shard(inner) is inner
    module = nn.FullyShardedModule(inner)
    x = mx.random.normal((2, 4))
    assert mx.array_equal(module(x), inner(x))
    assert [k for k, _ in tree_flatten(module.parameters())] == ["module.weight", "module.bias"]
    assert repr(module).startswith("FullyShardedModule(num_sharded_params=2\n  (module): Linear(")
    plain = nn.value_and_grad(inner, lambda x: inner(x).square().sum())(x)
    grads = nn.value_and_grad(module, lambda x: module(x).square().sum())(x)[1]["module"]
    assert mx.allclose(grads["weight"], plain[1]["weight"])
    assert mx.allclose(grads["bias"], plain[1]["bias"])
    half = nn.FullyShardedModule(nn.Linear(4, 6), compute_dtype=mx.float16)
    assert half(x.astype(mx.float16)).dtype == mx.float16
    assert half.module.weight.dtype == mx.float32
    table = nn.Embedding(5, 4)
    assert mx.array_equal(nn.FullyShardedModule(table).as_linear(x), table.as_linear(x))
    outer = nn.FullyShardedModule(nn.Sequential(module, nn.Linear(6, 2)))
    assert outer._paths == ["layers.1.weight", "layers.1.bias"]
    with pytest.raises(ValueError, match="expected a Module"):
        nn.FullyShardedModule(3)


@pytest.mark.parametrize("rank", [0, 1])
def test_parts_of_a_layer(rank):
    group = Part(rank, 2)
    layer = nn.Linear(4, 6)
    outputs = distributed.shard_linear(layer, "all-to-sharded", group=group)
    inputs = distributed.shard_linear(layer, "sharded-to-all", group=group)
    assert mx.array_equal(outputs.weight, layer.weight[3 * rank : 3 * rank + 3])
    assert mx.array_equal(outputs.bias, layer.bias[3 * rank : 3 * rank + 3])
    assert mx.array_equal(inputs.weight, layer.weight[:, 2 * rank : 2 * rank + 2])
    assert mx.array_equal(inputs.bias, layer.bias)
    assert repr(inputs) == "ShardedToAllLinear(input_dims=4, output_dims=6, bias=True)"
    joined = distributed.shard_linear(layer, "all-to-sharded", segments=3, group=group)
    assert mx.array_equal(joined.weight, layer.weight[mx.array([0, 2, 4]) + rank])
    cut = distributed.shard_linear(layer, "all-to-sharded", segments=[2], group=group)
    rows = mx.array([rank, 2 + 2 * rank, 3 + 2 * rank])
    assert mx.array_equal(cut.weight, layer.weight[rows])
    model = nn.Linear(4, 6)
    weight = model.weight
    distributed.shard_inplace(model, lambda path, w: 0 if path == "weight" else None, group=group)
    assert mx.array_equal(model.weight, weight[3 * rank : 3 * rank + 3])
    assert model.bias.shape == (6,)


def test_bad_arguments():
    for fn, message in (
        (lambda: distributed.shard_linear(nn.Linear(4, 6), "both"), "sharding='both'"),
        (lambda: distributed.shard_inplace(nn.Linear(4, 6), "both"), "sharding='both'"),
        (lambda: nn.AllToShardedLinear(4, 5, group=Part(0, 2)), "output of size 5 across 2"),
        (lambda: nn.ShardedToAllLinear(5, 4, group=Part(0, 2)), "input of size 5 across 2"),
        (lambda: nn.FullyShardedModule(nn.Linear(4, 5), Part(0, 2)), "across 2 processes"),
    ):
        with pytest.raises(ValueError, match=message):
            fn()


def test_host_files(tmp_path):
    file = tmp_path / "hosts.json"
    file.write_text('[{"ssh": "a", "ips": ["1.2.3.4"]}, {"ssh": "b"}]')
    hosts = Hostfile.from_file(file)
    assert hosts.hosts == [Host(0, "a", ["1.2.3.4"], []), Host(1, "b", [], [])]
    assert (hosts.backend, hosts.envs) == ("", [])
    file.write_text(json.dumps({**hosts.to_json(), "backend": "ring", "envs": ["A=1"]}))
    again = Hostfile.from_file(str(file))
    assert (again.hosts, again.backend, again.envs) == (hosts.hosts, "ring", ["A=1"])
    assert [h.ips for h in Hostfile.from_list("a,1.2.3.4", 2).hosts] == [[], [], *[["1.2.3.4"]] * 2]
    for text in ("no json", "{}", "3", '[{"ips": []}]'):
        file.write_text(text)
        with pytest.raises(ValueError, match="Failed to parse hostfile"):
            Hostfile.from_file(file)
    with pytest.raises(ValueError, match="doesn't exist"):
        Hostfile.from_file(tmp_path / "none")
    with pytest.raises(RuntimeError, match="'jaccl' is not available"):
        launch_jaccl(None, hosts.hosts, None, [])
    with pytest.raises(ValueError, match="an address of b"):
        launch_ring(None, hosts.hosts, None, [])
