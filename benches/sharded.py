"""A language model of Qwen3-8B's shape in 4 bits, spread over the processes of a group by mlx-lm.

mlx.launch --backend nccl -n 2 python benches/sharded.py [--kind tensor|pipeline]

The first process prints how fast a prompt is read and tokens are generated (second run), in tokens
a second, and the GiB of a process's weights and of its peak. One process alone has the whole model.
Weights are random. In a pipeline the model is Ministral's, since mlx-lm has none for Qwen3. mlx-lm
has to be installed.
"""

import argparse
import time

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--device", choices=["cpu", "gpu"], default="gpu")
parser.add_argument("--kind", choices=["tensor", "pipeline"], default="tensor")
parser.add_argument("--hidden", type=int, default=4096)
parser.add_argument("--inner", type=int, default=12288)
parser.add_argument("--layers", type=int, default=36)
parser.add_argument("--heads", type=int, default=32)
parser.add_argument("--kv-heads", type=int, default=8)
parser.add_argument("--words", type=int, default=151936)
parser.add_argument("--prompt", type=int, default=4096)
parser.add_argument("--tokens", type=int, default=64)


def randomize(module):
    """Gives a module random weights of bfloat16, norms of one."""

    def numbers(old):
        if old.ndim < 2:
            return mx.ones(old.shape, mx.bfloat16)
        return (mx.random.normal(old.shape) * 0.02).astype(mx.bfloat16)

    module.update(tree_map(numbers, module.parameters()))


def model_of(args):
    from mlx_lm.models import ministral3, qwen3

    shape = {
        "hidden_size": args.hidden,
        "num_hidden_layers": args.layers,
        "intermediate_size": args.inner,
        "num_attention_heads": args.heads,
        "num_key_value_heads": args.kv_heads,
        "head_dim": 128,
        "rms_norm_eps": 1e-6,
        "vocab_size": args.words,
        "max_position_embeddings": 40960,
        "tie_word_embeddings": False,
    }
    if args.kind == "pipeline":
        angles = {"rope_theta": 1e6, "rope_type": "default"}
        angles |= {"llama_4_scaling_beta": 0.1, "original_max_position_embeddings": 16384}
        own = {"model_type": "ministral3", "rope_parameters": angles}
        model = ministral3.Model(ministral3.ModelArgs(**shape, **own))
    else:
        model = qwen3.Model(qwen3.ModelArgs(model_type="qwen3", rope_theta=1e6, **shape))
    mx.random.seed(0)  # the same on every process
    # Layer by layer: the whole in bfloat16 would be four times as large.
    for layer in model.model.layers:
        randomize(layer)
        nn.quantize(layer, 64, 4)
        mx.eval(layer.parameters())
    for rest in (model.model.embed_tokens, model.model.norm, model.lm_head):
        randomize(rest)
    nn.quantize(model, 64, 4)
    mx.eval(model.parameters())
    return model


def speeds(model, args):
    """Tokens a second: reading a prompt, generating."""
    from mlx_lm.generate import generate_step

    prompt = mx.random.randint(0, args.words, (args.prompt,), key=mx.random.key(1))
    mx.eval(prompt)
    begin, first, count = time.perf_counter(), None, 0
    for _ in generate_step(prompt, model, max_tokens=args.tokens):
        first, count = first or time.perf_counter(), count + 1
    return args.prompt / (first - begin), (count - 1) / (time.perf_counter() - first)


def main():
    args = parser.parse_args()
    mx.set_default_device(getattr(mx, args.device))
    group = mx.distributed.init()
    model = model_of(args)
    if group.size() > 1 and args.kind == "tensor":
        model.shard(group)
    elif group.size() > 1:
        model.model.pipeline(group)
    mx.eval(model.parameters())
    mx.clear_cache()
    weights = mx.get_active_memory() / 2**30
    speeds(model, args)
    mx.reset_peak_memory()
    prompt, generation = speeds(model, args)
    if group.rank() == 0:
        kind = args.kind if group.size() > 1 else "whole"
        memory = f"{weights:.2f} GiB of weights, {mx.get_peak_memory() / 2**30:.2f} at the peak"
        rates = f"prompt {prompt:.0f}, generation {generation:.1f} tokens a second"
        print(f"{group.size()} processes, {kind}: {rates}, {memory}")


if __name__ == "__main__":
    main()
