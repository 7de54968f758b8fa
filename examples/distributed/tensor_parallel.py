"""Tensor-parallel training: layers are split, each process has a part of their weights.

    mlx.launch -n 2 python examples/distributed/tensor_parallel.py

The first layer is split along its outputs, the second along its inputs, so that the two together
need one sum. One process alone comes to the same losses, up to rounding.
"""

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.nn.layers.distributed import shard_linear
from mlx.utils import tree_flatten

STEPS, BATCH = 30, 32


class Block(nn.Module):
    """A residual block of two layers."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def __call__(self, x: mx.array) -> mx.array:
        return x + self.down(nn.gelu(self.up(x)))

    def shard(self, group: mx.distributed.Group) -> None:
        """Keep this process's part of both layers."""
        self.up = shard_linear(self.up, "all-to-sharded", group=group)
        self.down = shard_linear(self.down, "sharded-to-all", group=group)


def main() -> None:
    group = mx.distributed.init()
    mx.random.seed(0)  # the same weights and the same data on every process
    blocks = [Block(16, 64) for _ in range(3)]
    model = nn.Sequential(*blocks, nn.Linear(16, 1))
    inputs = mx.random.normal((BATCH, 16))
    targets = mx.sin(inputs.sum(1, keepdims=True))
    for block in blocks:
        block.shard(group)
    size = sum(p.nbytes for _, p in tree_flatten(model.parameters()))

    def loss(x: mx.array, y: mx.array) -> mx.array:
        return nn.losses.mse_loss(model(x), y)

    step = nn.value_and_grad(model, loss)
    optimizer = optim.SGD(learning_rate=0.02)
    for _ in range(STEPS):
        value, grads = step(inputs, targets)
        optimizer.update(model, grads)
        mx.eval(model.parameters(), value)
    value = loss(inputs, targets)
    mx.eval(value)
    if group.rank() == 0:
        print(f"{group.size()} processes, {size} bytes of weights in each, loss {value.item():.5f}")


if __name__ == "__main__":
    main()
