"""What a layer takes when tokens are generated, by architecture, quantisation and sequences.

Models of mlx-lm at real widths with few layers and random weights; steps of 1, 8 and 32 sequences
of one length, by the clock (the host's time is in it where the GPU waits for it) and what the GPU
was busy by a profile. Layers get the codes that `mlx_lm.convert` gives them: many architectures say
that routers have eight bits. Experts count as far as their picks may reach. Needs mlx-lm.

    python benches/models.py [--only PART] [--batches 1,8,32] [--layers 12] [--prompt 256]
        [--routers 16]
"""

import argparse
import importlib
import pathlib
import statistics
import sys
import time

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from commands import routes

VOCABULARY = 2048
DENSE = {"hidden_size": 4096, "intermediate_size": 12288, "heads": (32, 8, 128)}
SPARSE = {"decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True}
#: Module and configuration by name.
SHAPES = {
    "qwen3-8b": ("qwen3", DENSE),
    "llama-3b": (
        "llama",
        {"hidden_size": 3072, "intermediate_size": 8192, "heads": (24, 8, 128)},
    ),
    "qwen3-14b": (
        "qwen3",
        {"hidden_size": 5120, "intermediate_size": 17408, "heads": (40, 8, 128)},
    ),
    "qwen2-7b": ("qwen2", {"hidden_size": 3584, "intermediate_size": 18944, "heads": (28, 4, 128)}),
    "gemma3-4b": (
        "gemma3_text",
        {
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "heads": (8, 4, 256),
            "sliding_window": 1024,
            "query_pre_attn_scalar": 256,
        },
    ),
    "glm4-9b": (
        "glm4",
        {
            "hidden_size": 4096,
            "intermediate_size": 13696,
            "heads": (32, 2, 128),
            "attention_bias": True,
            "partial_rotary_factor": 0.5,
        },
    ),
    "phi3-mini": ("phi3", {"hidden_size": 3072, "intermediate_size": 8192, "heads": (32, 32, 96)}),
    "gpt-oss-20b": (
        "gpt_oss",
        {
            "hidden_size": 2880,
            "intermediate_size": 2880,
            "heads": (64, 8, 64),
            "num_local_experts": 32,
            "num_experts_per_tok": 4,
            "sliding_window": 128,
        },
    ),
    "qwen3-30b-a3b": (
        "qwen3_moe",
        {
            **SPARSE,
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "heads": (32, 4, 128),
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 768,
        },
    ),
    "mixtral-8x7b": (
        "mixtral",
        {
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "heads": (32, 8, 128),
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
        },
    ),
    "olmoe-1b-7b": (
        "olmoe",
        {
            "hidden_size": 2048,
            "intermediate_size": 1024,
            "heads": (16, 16, 128),
            "num_experts": 64,
            "num_experts_per_tok": 8,
        },
    ),
    "glm4-moe": (
        "glm4_moe",
        {
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "heads": (32, 4, 128),
            "moe_intermediate_size": 1024,
            "n_routed_experts": 64,
            "n_shared_experts": 1,
            "num_experts_per_tok": 4,
            "first_k_dense_replace": 0,
            "n_group": 1,
            "topk_group": 1,
            "routed_scaling_factor": 1.0,
            "norm_topk_prob": True,
            "use_qk_norm": False,
            "attention_bias": True,
            "partial_rotary_factor": 0.5,
        },
    ),
}
#: Codes by name; none for elements of 16 bits.
CODES = {f"q{b}g{g}": (g, b, "affine") for b in (2, 3, 4, 5, 6, 8) for g in (32, 64, 128)}
CODES |= {"mxfp4": (32, 4, "mxfp4"), "mxfp8": (32, 8, "mxfp8"), "nvfp4": (16, 4, "nvfp4")}
CODES |= {"dense": None}
#: What is measured without --only: one shape in every mode, every shape in one.
CASES = [("qwen3-8b", m) for m in ("q4g64", "q8g64", "mxfp4", "q4g32", "q4g128", "q6g64")]
CASES += [("qwen3-8b", m) for m in ("q3g64", "q5g64", "q2g64", "mxfp8", "nvfp4", "dense")]
CASES += [(s, "q4g64") for s in SHAPES if s not in ("qwen3-8b", "gpt-oss-20b")]
CASES += [("gpt-oss-20b", "mxfp4"), ("qwen3-30b-a3b", "q8g64"), ("qwen3-30b-a3b", "dense")]
CASES += [("qwen3-30b-a3b", "q6g64")]


def make(shape, codes, layers, dtype, routers):
    """The model, and the bytes of its layers: (all, those of picked experts in one step)."""
    name, given = SHAPES[shape]
    module = importlib.import_module("mlx_lm.models." + name)
    config = dict(given)
    heads, kv, head = config.pop("heads")
    config |= {"num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": head}
    config |= {"model_type": name, "num_hidden_layers": layers, "vocab_size": VOCABULARY}
    config |= {"rms_norm_eps": 1e-6, "rope_theta": 1e6, "max_position_embeddings": 40960}
    config |= {"tie_word_embeddings": False, "rope_scaling": None}
    model = module.Model(module.ModelArgs.from_dict(config))
    how = CODES[codes]
    for layer in model.layers:
        drawn = [
            (
                k,
                (mx.random.normal(v.shape) * 0.02 if v.ndim > 1 else mx.ones(v.shape)).astype(
                    dtype
                ),
            )
            for k, v in tree_flatten(layer.parameters())
        ]
        layer.load_weights(drawn)
        if how:
            nn.quantize(
                layer,
                how[0],
                how[1],
                mode=how[2],
                class_predicate=quantised(model, how[0], routers),
            )
        mx.eval(layer.parameters())
    model.set_dtype(dtype, lambda d: mx.issubdtype(d, mx.floating))
    mx.eval(model.parameters())
    sizes = [(k, v.nbytes) for m in model.layers for k, v in tree_flatten(m.parameters())]
    experts = sum(n for k, n in sizes if "experts" in k or "switch_mlp" in k)
    return model, sum(n for _, n in sizes) - experts, experts, config


def quantised(model, group, routers):
    """The codes of each layer: as the model's own predicate says where it has one.

    `routers`: bits of layers that choose experts, 16 for elements, in place of what it says.
    """
    own = getattr(model, "quant_predicate", None)

    def how(path, module):
        if not hasattr(module, "to_quantized") or module.weight.shape[-1] % group:
            return False
        if routers and routes(path):
            return routers < 16 and {"bits": routers, "group_size": 64}
        return own(path, module) if own else True

    return how


def warm(seconds):
    """Keeps the GPU at work: clocks of idle ones are low, and rise late."""
    x = mx.zeros((1 << 26,))
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        mx.eval(x + 1)


def steps(model, batch, prompt, count):
    """Seconds of each step, and the profile of one: microseconds busy and commands."""
    from mlx_lm.models.cache import make_prompt_cache

    cache = make_prompt_cache(model)
    mx.random.seed(batch)
    token = mx.random.randint(0, VOCABULARY, (batch, prompt))
    token = mx.argmax(model(token, cache=cache)[:, -1], axis=-1)
    mx.eval(token, [c.state for c in cache])

    def step(token):
        return mx.argmax(model(token[:, None], cache=cache)[:, -1], axis=-1)

    for _ in range(8):
        token = step(token)
        mx.async_eval(token)
    mx.eval(token)
    warm(0.4)
    for _ in range(8):
        token = step(token)
        mx.async_eval(token)
    took, before = [], time.perf_counter()
    for _ in range(count):
        following = step(token)
        mx.async_eval(following)
        mx.eval(token)
        token = following
        now = time.perf_counter()
        took.append(now - before)
        before = now
    mx.eval(token)
    with mx.vulkan.profile() as p:
        mx.eval(step(token))
    told = p.summary()
    return statistics.median(took), told["busy_ns"] / 1e3, told["commands"], p


def row(shape, codes, args):
    """Measures a model and prints a line of it."""
    dtype = getattr(mx, args.dtype)
    model, dense, experts, config = make(shape, codes, args.layers, dtype, args.routers)
    picks = config.get("num_experts_per_tok", 1)
    of = next((config[k] for k in config if k.endswith("experts") and "shared" not in k), 1)
    parts = []
    for batch in args.batches:
        took, busy, commands, p = steps(model, batch, args.prompt, args.steps)
        bytes_ = dense + experts * min(1, picks * batch / of)
        cache = 2 * batch * (args.prompt + 8 + args.steps / 2) * 2 * args.layers
        bytes_ += cache * config["num_key_value_heads"] * config["head_dim"]
        rate = bytes_ / args.rate / 1e3
        parts.append(
            f"x{batch} {took * 1e6 / args.layers:6.1f} us by the clock, "
            f"busy {busy / args.layers:6.1f}, "
            f"bytes {rate / args.layers:5.1f} ({rate / (took * 1e6):.2f}), "
            f"{commands / args.layers:4.1f} commands"
        )
        if args.kernels:
            parts[-1] += "".join(
                f"\n        {r.count / args.layers:5.1f} {r.mean_ns / 1e3:6.1f} us {r.kernel}"
                for r in p.rows()[: args.kernels]
            )
    print(f"{shape:14s} {codes:7s} " + "\n                       ".join(parts), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="part of `shape/codes`, several separated by commas")
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--routers", type=int, help="their bits, 16 for elements")
    parser.add_argument("--rate", type=float, help="the memory's rate in GB/s; else by the profile")
    parser.add_argument("--kernels", type=int, default=0, help="show so many kernels of each step")
    args = parser.parse_args()
    mx.set_default_device(mx.gpu)
    args.batches = [int(n) for n in args.batches.split(",")]
    args.rate = args.rate or mx.vulkan.describe()["profile"]["bandwidth"]
    cases = CASES
    if args.only:
        wanted = args.only.split(",")
        every = [(s, c) for s in SHAPES for c in CODES]
        cases = [c for w in wanted for c in every if w in "/".join(c)]
    for shape, codes in cases:
        try:
            row(shape, codes, args)
        except (RuntimeError, ValueError, AttributeError, TypeError) as e:
            print(f"{shape} {codes}: {type(e).__name__} {str(e)[:200]}", flush=True)
        mx.clear_cache()


if __name__ == "__main__":
    main()
