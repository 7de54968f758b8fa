"""Data-parallel training: every process has its part of each batch, gradients are averaged.

    mlx.launch -n 4 python examples/distributed/data_parallel.py

One process alone trains on the whole batch and comes to the same weights, up to rounding.
"""

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim

STEPS, BATCH = 40, 64


def main() -> None:
    group = mx.distributed.init()
    rank, count = group.rank(), group.size()
    mx.random.seed(0)  # the same weights and the same data on every process
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    inputs = mx.random.normal((BATCH, 16))
    targets = mx.sin(inputs.sum(1, keepdims=True))
    part = slice(rank * BATCH // count, (rank + 1) * BATCH // count)

    def loss(x: mx.array, y: mx.array) -> mx.array:
        return nn.losses.mse_loss(model(x), y)

    step = nn.value_and_grad(model, loss)
    optimizer = optim.SGD(learning_rate=0.05)
    for i in range(STEPS):
        value, grads = step(inputs[part], targets[part])
        optimizer.update(model, nn.average_gradients(grads))
        mx.eval(model.parameters(), value)
        if i % 10 == 9 and rank == 0:
            print(f"step {i + 1}: loss of this part {value.item():.4f}")
    value = loss(inputs, targets)
    if rank == 0:
        print(f"{count} processes, loss of the whole batch {value.item():.5f}")


if __name__ == "__main__":
    main()
