"""Profiles one training step of a transformer and one token of generation with a 4-bit model.

Prints both tables, and writes for each a trace for https://ui.perfetto.dev and two pictures: the
most expensive kernels, and what ran when. The weights are random: only the time is of interest.

    python examples/profile_step.py [--device gpu|cpu] [--small] [--isolate] [--out out/profile]
"""

import argparse
import pathlib
import time

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from language import LanguageModel, loss


class Attention(nn.Module):
    """Grouped queries, normalised queries and keys, rotary positions, a growing cache."""

    def __init__(self, dims, heads, kv_heads, head_dims):
        super().__init__()
        self.heads, self.kv_heads, self.scale = heads, kv_heads, head_dims**-0.5
        self.q_proj = nn.Linear(dims, heads * head_dims, bias=False)
        self.k_proj = nn.Linear(dims, kv_heads * head_dims, bias=False)
        self.v_proj = nn.Linear(dims, kv_heads * head_dims, bias=False)
        self.o_proj = nn.Linear(heads * head_dims, dims, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(head_dims), nn.RMSNorm(head_dims)
        self.rope = nn.RoPE(head_dims, base=1e6)

    def __call__(self, x, cache, offset):
        batch, length, _ = x.shape

        def split(y, heads):
            return y.reshape(batch, length, heads, -1)

        q = self.q_norm(split(self.q_proj(x), self.heads)).transpose(0, 2, 1, 3)
        k = self.k_norm(split(self.k_proj(x), self.kv_heads)).transpose(0, 2, 1, 3)
        v = split(self.v_proj(x), self.kv_heads).transpose(0, 2, 1, 3)
        q, k = self.rope(q, offset=offset), self.rope(k, offset=offset)
        keys, values = cache
        end = offset + length
        keys[..., offset:end, :] = k
        values[..., offset:end, :] = v
        mask = "causal" if length > 1 else None
        out = mx.fast.scaled_dot_product_attention(
            q, keys[..., :end, :], values[..., :end, :], scale=self.scale, mask=mask
        )
        return self.o_proj(out.transpose(0, 2, 1, 3).reshape(batch, length, -1))


class Block(nn.Module):
    """Attention and a gated feed-forward part."""

    def __init__(self, dims, hidden, heads, kv_heads, head_dims):
        super().__init__()
        self.attention = Attention(dims, heads, kv_heads, head_dims)
        self.gate, self.up = (nn.Linear(dims, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, dims, bias=False)
        self.before, self.after = nn.RMSNorm(dims), nn.RMSNorm(dims)

    def __call__(self, x, cache, offset):
        x = x + self.attention(self.before(x), cache, offset)
        y = self.after(x)
        return x + self.down(nn.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """The model that generates, in the shape of Qwen3."""

    def __init__(self, vocabulary, dims, hidden, heads, kv_heads, head_dims, layers):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dims)
        self.layers = [Block(dims, hidden, heads, kv_heads, head_dims) for _ in range(layers)]
        self.norm = nn.RMSNorm(dims)

    def __call__(self, tokens, caches, offset):
        x = self.embedding(tokens)
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, cache, offset)
        return mx.argmax(self.embedding.as_linear(self.norm(x[:, -1:])), axis=-1)


def training(small, isolate):
    """A profile of one step of AdamW, compiled, behind some that warm up."""
    vocabulary, batch, context = (128, 2, 32) if small else (8192, 16, 512)
    dims, heads, layers = (64, 4, 1) if small else (768, 12, 6)
    mx.random.seed(0)
    model = LanguageModel(vocabulary, context, dims, heads, layers)
    optimizer = optim.AdamW(learning_rate=1e-4)
    optimizer.init(model.trainable_parameters())
    mx.eval(model.parameters(), optimizer.state)
    state = [model.state, optimizer.state]

    def step(tokens):
        value, grads = nn.value_and_grad(model, loss)(model, tokens)
        optimizer.update(model, grads)
        return value

    step = mx.compile(step, inputs=state, outputs=state)
    tokens = mx.random.randint(0, vocabulary, (batch, context + 1))
    return profiled(lambda: mx.eval(step(tokens), state), 2 if small else 5, isolate)


def generation(small, isolate):
    """A profile of one token behind a prompt, with weights of 4 bits."""
    mx.random.seed(0)
    if small:
        model, prompt = Decoder(256, 64, 128, 4, 2, 32, 2), 20
    else:
        model, prompt = Decoder(151936, 1024, 3072, 16, 8, 128, 28), 512
    model.set_dtype(mx.bfloat16)
    nn.quantize(model, group_size=64, bits=4)
    first = model.layers[0].attention
    head_dims = round(first.scale**-2)
    shape = (1, first.kv_heads, 2 * prompt, head_dims)
    caches = [[mx.zeros(shape, mx.bfloat16) for _ in range(2)] for _ in model.layers]
    mx.eval(model.parameters(), caches)
    vocabulary = model.embedding.num_embeddings if small else 151936
    tokens = mx.random.randint(0, min(vocabulary, 256), (1, prompt))
    place = [0]

    def token():
        nonlocal tokens
        length = tokens.shape[1]
        tokens = model(tokens, caches, place[0])
        place[0] += length
        mx.eval(tokens, caches)

    return profiled(token, 3 if small else 10, isolate)


def profiled(f, warm, isolate):
    """A profile of one call of `f`, and the seconds of one without a profile."""
    for _ in range(warm):
        f()
    mx.synchronize()
    begin = time.perf_counter()
    f()
    mx.synchronize()
    plain = time.perf_counter() - begin
    with mx.vulkan.profile(isolate=isolate) as p:
        f()
    return p, plain


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=["cpu", "gpu"], help="default: MLX's default device")
    parser.add_argument("--small", action="store_true", help="models that a software driver runs")
    parser.add_argument("--isolate", action="store_true", help="keep kernels apart by barriers")
    parser.add_argument("--out", type=pathlib.Path, help="folder for traces and pictures")
    args = parser.parse_args()
    if args.device:
        mx.set_default_device(getattr(mx, args.device))
    for name, make in [("training step", training), ("token of generation", generation)]:
        p, plain = make(args.small, args.isolate)
        s = p.summary()
        print(f"\n=== one {name} on {mx.default_device()}")
        print(p.table(20))
        with_it = s["wall_ns"] / 1e6
        print(f"without a profile {1e3 * plain:.2f} ms, with it {with_it:.2f} ms")
        rows = p.rows()[:3]
        if rows:
            cost = "; ".join(f"{r.kernel} {r.shape} {100 * r.share:.1f} %" for r in rows)
            print(f"largest costs: {cost}")
        if args.out:
            args.out.mkdir(parents=True, exist_ok=True)
            stem = args.out / name.split()[0]
            p.save(stem.with_suffix(".json"))
            for kind in ("kernels", "timeline"):
                figure = p.plot(kind).figure
                figure.savefig(f"{stem}-{kind}.png", dpi=110)
            print(f"wrote {stem}.json, {stem}-kernels.png, {stem}-timeline.png")


if __name__ == "__main__":
    main()
