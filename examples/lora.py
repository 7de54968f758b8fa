"""Fine-tunes a quantised language model with low-rank adapters (LoRA: Hu et al., arXiv 2106.09685).

The model has the shape of a tiny Qwen3: grouped queries with normalised heads, rotary embedding, a
gated network, tied embeddings. Its weights are random, quantised to 4 bits and frozen; only the
adapters beside its linear layers learn to predict the bytes of Python's own Language Reference.
The adapters are saved, and added to the dequantised weights of a second model, which must agree.

    python examples/lora.py [--device gpu|cpu] [--steps 200] [--rank 8] [--out out/lora.safetensors]
"""

import argparse
import math
import pathlib
import sys
import time
from functools import partial

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from language import batches, loss, text
from mlx.utils import tree_flatten, tree_unflatten
from tqdm import tqdm

WORDS = 256  # bytes are the tokens
WARM = 5  # steps that are not timed: kernels are compiled in them


class Attention(nn.Module):
    def __init__(self, dims, heads, shared, head):
        super().__init__()
        self.heads, self.shared, self.head = heads, shared, head
        self.q_proj = nn.Linear(dims, heads * head, bias=False)
        self.k_proj = nn.Linear(dims, shared * head, bias=False)
        self.v_proj = nn.Linear(dims, shared * head, bias=False)
        self.o_proj = nn.Linear(heads * head, dims, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(head), nn.RMSNorm(head)
        self.rope = nn.RoPE(head, base=1e6)

    def __call__(self, x):
        batch, length, _ = x.shape

        def split(y, heads):
            return y.reshape(batch, length, heads, self.head)

        q = self.q_norm(split(self.q_proj(x), self.heads)).swapaxes(1, 2)
        k = self.k_norm(split(self.k_proj(x), self.shared)).swapaxes(1, 2)
        v = split(self.v_proj(x), self.shared).swapaxes(1, 2)
        q, k, scale = self.rope(q), self.rope(k), self.head**-0.5
        y = mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask="causal")
        return self.o_proj(y.swapaxes(1, 2).reshape(batch, length, -1))


class Network(nn.Module):
    def __init__(self, dims, hidden):
        super().__init__()
        self.gate_proj = nn.Linear(dims, hidden, bias=False)
        self.up_proj = nn.Linear(dims, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dims, bias=False)

    def __call__(self, x):
        return self.down_proj(nn.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, dims, heads, shared, head, hidden):
        super().__init__()
        self.self_attn = Attention(dims, heads, shared, head)
        self.mlp = Network(dims, hidden)
        self.input_layernorm = nn.RMSNorm(dims)
        self.post_attention_layernorm = nn.RMSNorm(dims)

    def __call__(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Qwen3(nn.Module):
    """Tokens to the scores of the token that follows each of them."""

    def __init__(self, dims, layers):
        super().__init__()
        self.embed_tokens = nn.Embedding(WORDS, dims)
        self.layers = [Block(dims, dims // 32, dims // 64, 32, 3 * dims) for _ in range(layers)]
        self.norm = nn.RMSNorm(dims)

    def __call__(self, tokens):
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.embed_tokens.as_linear(self.norm(x))


class LoRA(nn.Module):
    """A frozen linear layer and beside it a product of two narrow matrices, at first zero."""

    def __init__(self, linear, inputs, outputs, rank, scale):
        super().__init__()
        self.linear, self.scale = linear, scale
        bound = 1 / math.sqrt(inputs)
        self.a = mx.random.uniform(-bound, bound, (inputs, rank))
        self.b = mx.zeros((rank, outputs))

    def __call__(self, x):
        return self.linear(x) + self.scale * ((x @ self.a) @ self.b)

    def fused(self):
        """One dense layer that computes the same."""
        q = self.linear
        weight = mx.dequantize(q.weight, q.scales, q.biases, q.group_size, q.bits)
        dense = nn.Linear(*weight.shape[::-1], bias=False)
        dense.weight = weight + self.scale * (self.a @ self.b).T
        return dense


def replaced(model, kind, make):
    """The model with `make(layer)` for each layer of a kind."""
    found = [(name, m) for name, m in model.named_modules() if isinstance(m, kind)]
    model.update_modules(tree_unflatten([(name, make(m)) for name, m in found]))
    return model


def adapted(args):
    """The random model: quantised, frozen, and with adapters."""
    mx.random.seed(args.seed)
    model = Qwen3(args.dims, args.layers)
    nn.quantize(model, group_size=64, bits=4)
    model.freeze()

    def adapter(q):
        outputs, inputs = q.scales.shape[0], q.scales.shape[1] * q.group_size
        return LoRA(q, inputs, outputs, args.rank, 2.0)

    return replaced(model, nn.QuantizedLinear, adapter)


def train(model, stream, steps, rate):
    """Returns the loss of each step and the seconds of those after the first ones."""
    optimizer = optim.Adam(learning_rate=optim.cosine_decay(rate, steps))
    optimizer.init(model.trainable_parameters())
    state = [model.state, optimizer.state]

    @partial(mx.compile, inputs=state, outputs=state)
    def step(pieces):
        value, grads = nn.value_and_grad(model, loss)(model, pieces)
        optimizer.update(model, grads)
        return value

    losses, begin = [], time.perf_counter()
    for i in tqdm(range(1, steps + 1), desc="training", unit="step", file=sys.stdout):
        value = step(next(stream))
        mx.async_eval(value, state)
        losses.append(value)
        if i == min(WARM, steps - 1):
            mx.eval(state)
            begin = time.perf_counter()
    mx.eval(state)
    return [v.item() for v in losses], time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=["cpu", "gpu"], help="default: MLX's default device")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--dims", type=int, default=128, help="a multiple of 64")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--rate", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out/lora.safetensors"))
    args = parser.parse_args()
    if args.steps < 2:
        parser.error("--steps must be at least 2")
    if args.dims < 64 or args.dims % 64:
        parser.error("--dims must be a multiple of 64")
    if args.device == "gpu" and not mx.is_available(mx.gpu):
        parser.error("--device gpu: no Vulkan device was found")
    if args.device:
        mx.set_default_device(getattr(mx, args.device))
    device = mx.default_device()
    print(f"device: {device} {mx.device_info(device).get('device_name', '')}", flush=True)

    data = np.frombuffer(text().encode(), np.uint8).astype(np.int32)
    model = adapted(args)
    held = sum(v.nbytes for _, v in tree_flatten(model.parameters()))
    learned = sum(v.size for _, v in tree_flatten(model.trainable_parameters()))
    print(f"text: {len(data):,} bytes; model: {held / 1024:,.0f} KiB, {learned:,} numbers learn")
    stream = batches(data, args.batch, args.context, np.random.default_rng(args.seed))
    losses, seconds = train(model, stream, args.steps, args.rate)
    timed = args.steps - min(WARM, args.steps - 1)
    print(f"tokens per second: {timed * args.batch * args.context / seconds:,.0f}")
    tail = max(1, args.steps // 20)
    last = float(np.mean(losses[-tail:]))
    print(f"loss: {losses[0]:.3f} -> {last:.3f} nats a byte")

    args.out = args.out.with_suffix(".safetensors")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(args.out), dict(tree_flatten(model.trainable_parameters())))
    print(f"adapters: {args.out}, {args.out.stat().st_size / 1024:,.0f} KiB")
    pieces = next(stream)
    wanted = adapted(args).load_weights(str(args.out), strict=False)(pieces)
    dense = replaced(model, LoRA, LoRA.fused)(pieces)
    away = (mx.abs(dense - wanted).max() / mx.abs(wanted).max()).item()
    print(f"fused layers against loaded adapters: {away:.1e} of the largest score")
    if not (math.isfinite(last) and last < 0.9 * losses[0] and away < 1e-3):
        sys.exit("the adapters have not learned, or do not agree with the fused model")


if __name__ == "__main__":
    main()
