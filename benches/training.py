"""Time of a compiled training step of a transformer language model: forward, backward, AdamW.

The model is built from mlx.nn: embeddings, layers under a causal mask, scores by the embedding's
weights. Prints the first step (compiling kernels), the median of steps that are each waited for,
and the mean of a loop whose host runs one step ahead. Exits with 1 if the loss is not finite or
does not fall. The processes of a group have a batch each and average their gradients; the first one
prints.

    python benches/training.py [--device gpu|cpu] [--dtype bfloat16] [--json FILE]
    mlx.launch --backend nccl -n 2 python benches/training.py
"""

import argparse
import json
import math
import pathlib
import statistics
import sys
import time
from functools import partial

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim


class Model(nn.Module):
    """Tokens (batch, length) to the scores (batch, length, words) of the tokens that follow."""

    def __init__(self, layers, words, length, dims, heads):
        super().__init__()
        self.words = nn.Embedding(words, dims)
        self.places = nn.Embedding(length, dims)
        self.layers = nn.TransformerEncoder(layers, dims, heads)

    def __call__(self, tokens):
        length = tokens.shape[1]
        x = self.words(tokens) + self.places(mx.arange(length))
        mask = nn.MultiHeadAttention.create_additive_causal_mask(length, x.dtype)
        return self.words.as_linear(self.layers(x, mask))


def loss(model, tokens):
    """Mean cross entropy of the next tokens, in nats."""
    scores = model(tokens[:, :-1]).astype(mx.float32)
    return nn.losses.cross_entropy(scores, tokens[:, 1:], reduction="mean")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=["cpu", "gpu"], default="gpu")
    parser.add_argument("--dtype", choices=["bfloat16", "float16", "float32"], default="bfloat16")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--dims", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--words", type=int, default=8192)
    parser.add_argument("--bucket", type=int, default=256 << 20, help="bytes averaged at once")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    mx.set_default_device(getattr(mx, args.device))
    group = mx.distributed.init()
    mx.random.seed(0)
    model = Model(args.layers, args.words, args.length, args.dims, args.heads)
    model.set_dtype(getattr(mx, args.dtype))
    optimizer = optim.AdamW(learning_rate=1e-4)
    key = mx.random.key(group.rank())
    tokens = mx.random.randint(0, args.words, (args.batch, args.length + 1), key=key)
    mx.eval(model.parameters(), tokens)
    state = [model.state, optimizer.state]
    value_and_grad = nn.value_and_grad(model, loss)

    @partial(mx.compile, inputs=state, outputs=state)
    def step(tokens):
        value, gradients = value_and_grad(model, tokens)
        optimizer.update(model, nn.average_gradients(gradients, group, all_reduce_size=args.bucket))
        return value

    def waited():
        start = time.perf_counter()
        value = step(tokens)
        mx.eval(value, state)
        return time.perf_counter() - start, value.item()

    first, before = waited()
    for _ in range(max(args.steps // 4, 3)):
        waited()
    times = sorted(waited()[0] for _ in range(args.steps))
    start = time.perf_counter()
    for _ in range(args.steps):
        value = step(tokens)
        mx.async_eval(value, state)
    mx.eval(value, state)
    loop = (time.perf_counter() - start) / args.steps
    after = value.item()
    row = {
        "device": args.device,
        "dtype": args.dtype,
        "first_ms": first * 1e3,
        "median_ms": statistics.median(times) * 1e3,
        "best_ms": times[0] * 1e3,
        "loop_ms": loop * 1e3,
        "loss": [before, after],
        "peak_memory_gib": mx.get_peak_memory() / 2**30,
    }
    if group.rank() > 0:
        return
    print("  ".join(f"{k} {v:.2f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()))
    if args.json:
        args.json.write_text(json.dumps(row, indent=1) + "\n")
    if not (math.isfinite(after) and after < before):
        sys.exit("the loss did not fall")


if __name__ == "__main__":
    main()
