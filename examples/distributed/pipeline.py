"""Pipelined inference: each process has some of the layers and passes on what they give.

    mlx.launch -n 2 python examples/distributed/pipeline.py

The batch goes through in parts, so that all processes compute at the same time; the last process
tells the result to all. One process alone comes to the same result.
"""

import mlx.core as mx
import mlx.nn as nn

LAYERS, WIDTH, BATCH, PARTS = 8, 32, 64, 4


def main() -> None:
    group = mx.distributed.init()
    rank, count = group.rank(), group.size()
    mx.random.seed(0)  # the same weights and the same data on every process
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(LAYERS)]
    inputs = mx.random.normal((BATCH, WIDTH))
    own = layers[rank * LAYERS // count : (rank + 1) * LAYERS // count]
    del layers  # those of the other processes are never made

    results = []
    for x in mx.split(inputs, PARTS):
        if rank > 0:
            x = mx.distributed.recv_like(x, rank - 1, group=group)
        for layer in own:
            x = layer(x)
        if rank < count - 1:
            x = mx.distributed.send(x, rank + 1, group=group)
        mx.async_eval(x)
        results.append(x)
    mx.eval(results)
    # Parts that went on count as nothing in the sum.
    y = mx.concatenate(results) if rank == count - 1 else mx.zeros((BATCH, WIDTH))
    y = mx.distributed.all_sum(y, group=group)
    mx.eval(y)
    if rank == 0:
        print(f"{count} processes, {LAYERS} layers, norm of the result {mx.linalg.norm(y):.4f}")


if __name__ == "__main__":
    main()
