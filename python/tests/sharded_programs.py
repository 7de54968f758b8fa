"""Programs that tests start as several processes, and what one process computes beside them."""

import os
import sys
from functools import reduce

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.nn.layers.distributed import shard_inplace, shard_linear
from mlx.utils import tree_flatten, tree_map

dist = mx.distributed


def close(got, want, what, tolerance=1e-5):
    np.testing.assert_allclose(np.array(got), np.array(want), tolerance, tolerance, err_msg=what)


def part(x, axis, group):
    return mx.split(x, group.size(), axis)[group.rank()]


def start():
    return dist.init(strict=True, backend=os.environ.get("BACKEND", "ring"))


def layers():
    """Split layers against whole ones: outputs, gradients of inputs and weights."""
    group = start()
    mx.random.seed(3)
    x, c = mx.random.normal((5, 128)), mx.random.normal((5, 256))
    plain = nn.Linear(128, 256)
    for kind, layer in (("plain", plain), ("quantized", plain.to_quantized(32, 4))):
        outputs = shard_linear(layer, "all-to-sharded", group=group)
        inputs = shard_linear(layer, "sharded-to-all", group=group)
        own = part(x, 1, group)
        close(outputs(x), part(layer(x), 1, group), kind)
        close(inputs(own), layer(x), kind, 1e-4)
        want = mx.vjp(layer, [x], [c])[1][0]
        got = mx.vjp(outputs, [x], [part(c, 1, group)])[1][0]
        close(got, want, kind, 1e-4)
        close(mx.vjp(inputs, [own], [c])[1][0], part(want, 1, group), kind, 1e-4)
        assert outputs.weight.nbytes * group.size() == layer.weight.nbytes
    whole = nn.value_and_grad(plain, lambda: (plain(x) * c).sum())()[1]
    outputs = shard_linear(plain, "all-to-sharded", group=group)
    grads = nn.value_and_grad(outputs, lambda: (outputs(x) * part(c, 1, group)).sum())()[1]
    close(grads["weight"], part(whole["weight"], 0, group), "weight", 1e-4)
    close(grads["bias"], part(whole["bias"], 0, group), "bias", 1e-4)
    block = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 128))
    want = block(x)
    bias = block.layers[2].bias
    shard_inplace(block.layers[0], "all-to-sharded", group=group)
    shard_inplace(block.layers[2], "sharded-to-all", group=group)
    hidden = block.layers[1](block.layers[0](x)) @ block.layers[2].weight.T
    close(dist.all_sum(hidden, group=group) + bias, want, "inplace", 1e-4)
    print("fine")


def averages():
    """Gradients of parts of a batch, averaged in groups of bytes and one by one; norms of parts."""
    group = start()
    rank, count = group.rank(), group.size()
    tree = lambda r: {  # noqa: E731
        "a": mx.arange(7.0) * (r + 1),
        "b": [mx.ones((3, 2)) * r, mx.full((5,), r, mx.float16)],
    }
    want = tree_map(lambda *x: sum(x) / count, tree(0), *[tree(r) for r in range(1, count)])
    for size in (0, 16, 1 << 25):
        got = nn.average_gradients(tree(rank), group, size)
        for (k, x), (_, y) in zip(tree_flatten(got), tree_flatten(want), strict=True):
            assert x.dtype == y.dtype, k
            close(x, y, k, 1e-3)
    grads = {"w": mx.full((4,), float(rank + 1))}
    norm = sum(4.0 * (r + 1) ** 2 for r in range(count)) ** 0.5
    clipped, total = nn.utils.clip_grad_norm_sharded(grads, 1.0, group)
    close(total, norm, "norm")
    close(clipped["w"], np.full(4, (rank + 1) / norm), "clipped", 1e-4)
    print("fine")


def sharded():
    """Fully sharded training equals whole training, with a part of each weight in each process."""
    group = start()
    rank, count = group.rank(), group.size()
    mx.random.seed(5)
    whole = nn.Sequential(*[nn.Linear(256, 256) for _ in range(4)])
    x, y = mx.random.normal((8 * count, 256)), mx.random.normal((8 * count, 256))
    loss = lambda m: lambda a, b: (m(a) - b).square().mean()  # noqa: E731
    mx.eval(whole.parameters(), x, y)
    grads = nn.value_and_grad(whole, loss(whole))(x, y)[1]
    want = tree_map(lambda p, g: p - 0.5 * g, whole.parameters(), grads)
    size = sum(p.nbytes for _, p in tree_flatten(whole.parameters()))
    model = nn.Sequential(*[nn.fully_shard(layer, group=group) for layer in whole.layers])
    del whole, grads
    kept = sum(p.nbytes for _, p in tree_flatten(model.parameters()))
    assert kept * count == size, (kept, size)
    own = slice(8 * rank, 8 * rank + 8)
    grads = nn.value_and_grad(model, loss(model))(x[own], y[own])[1]
    model.update(tree_map(lambda p, g: p - 0.5 * g, model.parameters(), grads))
    mx.eval(model.parameters())
    for (k, p), (_, w) in zip(tree_flatten(model.parameters()), tree_flatten(want), strict=True):
        close(p, part(w, 0, group), k, 1e-4)
    print("fine: of", size, "bytes each process keeps", kept)


def peak():
    """The most memory of a training step with Adam, in sizes of all parameters."""
    group = dist.init()
    mx.random.seed(5)
    width, depth, batch = 512, 16, 16
    layers = [nn.Linear(width, width, bias=False) for _ in range(depth)]
    size = depth * width * width * 4
    model = nn.Sequential(*[nn.fully_shard(layer, group=group) for layer in layers])
    mx.eval(model.parameters())
    del layers
    x = mx.random.normal((batch, width))
    again = nn.utils.checkpoint if os.environ.get("AGAIN") else lambda layer: layer
    calls = [again(layer) for layer in model.layers]
    loss = nn.value_and_grad(model, lambda a: reduce(lambda y, f: f(y), calls, a).square().mean())
    adam = optim.Adam(1e-3)
    for _ in range(3):
        mx.reset_peak_memory()
        value, grads = loss(x)
        adam.update(model, grads)
        del grads
        mx.eval(value, model.parameters(), adam.state)
    if group.rank() == 0:
        kept, most = mx.get_active_memory() / size, mx.get_peak_memory() / size
        print(f"parameters {size >> 20} MiB, kept {kept:.2f}, peak {most:.2f} times that")


def generate():
    """mlx-lm's own models and generation; prints the tokens."""
    from mlx_lm.generate import generate_step
    from mlx_lm.models import qwen2, qwen3

    kind = os.environ["KIND"]
    sizes = {
        "hidden_size": 64,
        "num_hidden_layers": 4,
        "intermediate_size": 128,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "rms_norm_eps": 1e-6,
        "vocab_size": 256,
        "max_position_embeddings": 512,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
    }
    mx.random.seed(11)
    if kind == "tensor":
        more = {"model_type": "qwen3", "head_dim": 32}
        model = qwen3.Model(qwen3.ModelArgs(**sizes, **more))
    else:
        model = qwen2.Model(qwen2.ModelArgs(**sizes, model_type="qwen2"))
    # Wide weights: what comes next is never a close call.
    model.update(tree_map(lambda p: p * 3 if p.ndim > 1 else p, model.parameters()))
    if os.environ.get("QUANTIZED"):
        nn.quantize(model, group_size=32, bits=4)
    mx.eval(model.parameters())
    group = dist.init()
    if group.size() > 1:
        model.shard(group) if kind == "tensor" else model.model.pipeline(group)
    prompt = mx.array([3, 141, 59, 26, 5, 35, 89, 79])
    tokens = [int(t) for t, _ in generate_step(prompt, model, max_tokens=24)]
    assert len(set(tokens)) > 4, tokens
    print("tokens", tokens)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
