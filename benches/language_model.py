"""Tokens per second of a Qwen3-0.6B-shaped model with random 4-bit weights. Prints and writes JSON.

The model is built from mlx.nn alone; mlx-lm's own model of that name takes the same kernels. The
prompt is read at once, then each token is the one of largest score after the one before.

    python benches/language_model.py [--device cpu|gpu] [--dtype bfloat16] [--json FILE]
"""

import argparse
import json
import pathlib
import statistics
import time
from itertools import pairwise

import mlx.core as mx
import mlx.nn as nn

EPS, STEP = 1e-6, 256


@mx.compile
def swiglu(gate, up):
    """The gated unit, one step."""
    return nn.silu(gate) * up


class Block(nn.Module):
    """One layer with its own cache of keys and values, which grows by STEP tokens."""

    def __init__(self, dims, heads, shared, head, hidden):
        super().__init__()
        self.heads, self.shared, self.head = heads, shared, head
        self.q = nn.Linear(dims, heads * head, bias=False)
        self.k = nn.Linear(dims, shared * head, bias=False)
        self.v = nn.Linear(dims, shared * head, bias=False)
        self.o = nn.Linear(heads * head, dims, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(head, EPS), nn.RMSNorm(head, EPS)
        self.gate = nn.Linear(dims, hidden, bias=False)
        self.up = nn.Linear(dims, hidden, bias=False)
        self.down = nn.Linear(hidden, dims, bias=False)
        self.before, self.between = nn.RMSNorm(dims, EPS), nn.RMSNorm(dims, EPS)
        self.rope = nn.RoPE(head, base=1e6)

    def __call__(self, x, cache):
        b, length, _ = x.shape
        y = self.before(x)
        q = self.q_norm(self.q(y).reshape(b, length, self.heads, self.head)).swapaxes(1, 2)
        k = self.k_norm(self.k(y).reshape(b, length, self.shared, self.head)).swapaxes(1, 2)
        v = self.v(y).reshape(b, length, self.shared, self.head).swapaxes(1, 2)
        start = cache["length"]
        end = cache["length"] = start + length
        kept = [cache.get("k"), cache.get("v")]
        if start == 0 or end > kept[0].shape[2]:
            more = -(-length // STEP) * STEP
            # Keys and values each have memory of their own, which they are written into.
            size = (b, self.shared, more, self.head)
            kept = [
                mx.concatenate([*([] if a is None else [a]), mx.zeros(size, x.dtype)], axis=2)
                for a in kept
            ]
        q, k = self.rope(q, offset=start), self.rope(k, offset=start)
        for a, new in zip(kept, (k, v), strict=True):
            a[:, :, start:end] = new
        cache["k"], cache["v"] = kept
        k, v = (a[:, :, :end] for a in kept)
        mask = "causal" if length > 1 else None
        y = mx.fast.scaled_dot_product_attention(q, k, v, scale=self.head**-0.5, mask=mask)
        x = x + self.o(y.swapaxes(1, 2).reshape(b, length, -1))
        y = self.between(x)
        return x + self.down(swiglu(self.gate(y), self.up(y)))


class Model(nn.Module):
    def __init__(self, layers, words, dims, *rest):
        super().__init__()
        self.embedding = nn.Embedding(words, dims)
        self.layers = [Block(dims, *rest) for _ in range(layers)]
        self.norm = nn.RMSNorm(dims, EPS)

    def __call__(self, tokens, caches):
        x = self.embedding(tokens)
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, cache)
        return self.embedding.as_linear(self.norm(x[:, -1:]))[:, -1]


def generate(model, prompt, count):
    """Seconds to the first token, and between the following ones; the tokens."""
    caches = [{"length": 0} for _ in model.layers]
    times, tokens = [time.perf_counter()], []
    token = mx.argmax(model(prompt, caches), axis=-1)
    mx.async_eval(token)
    for _ in range(count):
        # The next token is being computed while this one is read.
        following = mx.argmax(model(token[None], caches), axis=-1)
        mx.async_eval(following)
        tokens.append(token.item())
        times.append(time.perf_counter())
        token = following
    mx.synchronize()
    return times[1] - times[0], [b - a for a, b in pairwise(times[1:])], tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--dtype", choices=["bfloat16", "float16", "float32"], default="bfloat16")
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=64, help="tokens of the prompt")
    parser.add_argument("--tokens", type=int, default=48, help="tokens to generate")
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--words", type=int, default=151_936)
    parser.add_argument("--dims", type=int, default=1024)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    mx.set_default_device(getattr(mx, args.device))
    mx.random.seed(0)
    model = Model(args.layers, args.words, args.dims, 16, 8, 128, 3 * args.dims)
    model.set_dtype(getattr(mx, args.dtype))
    nn.quantize(model, group_size=64, bits=args.bits)
    mx.eval(model.parameters())
    prompt = mx.random.randint(0, args.words, (1, args.prompt))
    mx.eval(prompt)
    runs, first = [], None
    for run in ("cold", "warm"):
        wait, steps, tokens = generate(model, prompt, args.tokens)
        assert first in (None, tokens), "two runs gave different tokens"
        first = tokens
        row = {
            "run": run,
            "first_token_s": wait,
            "prompt_tokens_per_s": args.prompt / wait,
            "tokens_per_s": 1 / statistics.mean(steps),
            "median_ms": 1e3 * statistics.median(steps),
        }
        runs.append(row)
        print(
            f"{run}: first token {wait:.3f} s ({row['prompt_tokens_per_s']:.0f} tokens/s), then "
            f"{row['tokens_per_s']:.1f} tokens/s (median {row['median_ms']:.2f} ms a token)"
        )
    print(f"memory: {mx.get_peak_memory() / 2**20:.0f} MiB at most")
    if args.json:
        args.json.write_text(json.dumps({"device": args.device, "dtype": args.dtype, "runs": runs}))


if __name__ == "__main__":
    main()
