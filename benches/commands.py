"""Commands and barriers of a layer when one token is generated, by architecture of mlx-lm.

Small models with random weights in four bits, of two and of four layers: half of the difference is
what one layer costs. Layers get the codes that `mlx_lm.convert` gives them: many architectures say
that routers have eight bits. What is joined depends on the graph, and so a software driver shows
it, too; kernels in PTX join further. Needs mlx-lm.

    python benches/commands.py [ARCHITECTURE ...] [--dtype bfloat16] [--routers 16] [--kernels]
"""

import argparse
import collections
import importlib

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map_with_path

HIDDEN, INNER, VOCABULARY = 1024, 2048, 512
COMMON = {
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "rms_norm_eps": 1e-6,
    "vocab_size": VOCABULARY,
    "rope_theta": 1e4,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}
PICKS = {"num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 512}
ROUTED = {
    "n_routed_experts": 16,
    "n_shared_experts": 1,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 512,
    "first_k_dense_replace": 0,
    "n_group": 1,
    "topk_group": 1,
    "routed_scaling_factor": 1.0,
    "norm_topk_prob": True,
}
SPARSE = {"decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True, **PICKS}
#: What an architecture has besides, by the name of its module.
ARCHITECTURES = {
    "llama": {},
    "qwen2": {},
    "qwen3": {},
    "qwen3_moe": SPARSE,
    "qwen2_moe": {**PICKS, "shared_expert_intermediate_size": 1024},
    "qwen3_next": {
        **SPARSE,
        "linear_num_value_heads": 8,
        "linear_num_key_heads": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "shared_expert_intermediate_size": 512,
        "partial_rotary_factor": 0.25,
        "full_attention_interval": 2,
    },
    "gemma": {},
    "gemma2": {"sliding_window": 512},
    "gemma3_text": {
        "sliding_window": 512,
        "sliding_window_pattern": 2,
        "query_pre_attn_scalar": 128,
    },
    "phi3": {"head_dim": None},
    "gpt_oss": {
        "num_local_experts": 16,
        "num_experts_per_tok": 4,
        "sliding_window": 128,
        "head_dim": 64,
        "num_attention_heads": 16,
        "intermediate_size": 1024,
    },
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2},
    "olmo2": {},
    "olmoe": {"num_experts": 16, "num_experts_per_tok": 4},
    "cohere": {"layer_norm_eps": 1e-5},
    "cohere2": {"sliding_window": 512, "sliding_window_pattern": 2, "layer_norm_eps": 1e-5},
    "granite": {
        "logits_scaling": 1.0,
        "attention_multiplier": 0.1,
        "embedding_multiplier": 1.0,
        "residual_multiplier": 0.5,
        "attention_bias": False,
        "mlp_bias": False,
    },
    "glm4": {"attention_bias": True, "partial_rotary_factor": 0.5},
    "starcoder2": {"norm_epsilon": 1e-5},
    "stablelm": {"layer_norm_eps": 1e-5, "partial_rotary_factor": 0.25, "use_qkv_bias": False},
    "smollm3": {"no_rope_layer_interval": 4},
    "ernie4_5": {"use_bias": False},
    "seed_oss": {"attention_bias": True, "attention_out_bias": False, "mlp_bias": False},
    "internlm2": {"bias": False},
    "minicpm": {"dim_model_base": 256, "scale_emb": 1.0, "scale_depth": 1.4},
    "nemotron": {
        "norm_eps": 1e-5,
        "hidden_act": "relu2",
        "partial_rotary_factor": 0.5,
        "attention_bias": False,
        "mlp_bias": False,
    },
    "dots1": {**ROUTED, "attention_bias": False},
    "glm4_moe": {
        **ROUTED,
        "attention_bias": True,
        "partial_rotary_factor": 0.5,
        "rope_scaling": {},
        "use_qk_norm": True,
    },
    "minimax": {
        "num_local_experts": 16,
        "num_experts_per_tok": 4,
        "shared_intermediate_size": 0,
        "rotary_dim": 64,
    },
    "lfm2_moe": {
        **PICKS,
        "norm_topk_prob": True,
        "use_expert_bias": True,
        "num_dense_layers": 0,
        "norm_eps": 1e-5,
        "conv_bias": False,
        "conv_L_cache": 3,
        "full_attn_idxs": [0, 2, 3],
    },
    "ernie4_5_moe": {
        "use_bias": False,
        "moe_num_experts": 16,
        "moe_k": 4,
        "moe_intermediate_size": 512,
        "moe_gate_act": "sigmoid",
    },
    "bailing_moe": {
        **PICKS,
        "num_shared_experts": 1,
        "norm_topk_prob": True,
        "first_k_dense_replace": 0,
        "moe_router_enable_expert_bias": True,
        "score_function": "sigmoid",
        "use_qk_norm": True,
    },
    "deepseek_v3": {
        **ROUTED,
        "kv_lora_rank": 512,
        "q_lora_rank": 768,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "qk_nope_head_dim": 128,
        "moe_layer_freq": 1,
        "num_key_value_heads": 8,
    },
    "gpt2": {
        "n_ctx": 512,
        "n_embd": HIDDEN,
        "n_head": 8,
        "n_positions": 512,
        "layer_norm_epsilon": 1e-5,
    },
}


def routes(path):
    """Whether a layer chooses experts."""
    return path.endswith("gate") or "router" in path


def quantised(name, model, routers=None):
    """The codes of each layer: as the model's own predicate says, experts of gpt-oss in mxfp4.

    `routers`: bits of those, 16 for elements, in place of what the model says.
    """
    own = getattr(model, "quant_predicate", None)

    def how(path, module):
        weight = getattr(module, "weight", None)
        if not hasattr(module, "to_quantized") or weight is None or weight.shape[-1] % 64:
            return False
        if name == "gpt_oss" and "experts" in path:
            return {"bits": 4, "group_size": 32, "mode": "mxfp4"}
        if routers and routes(path):
            return routers < 16 and {"bits": routers, "group_size": 64}
        return own(path, module) if own else True

    return how


def token(name, layers, dtype, routers):
    """Commands, barriers and kernels of one token."""
    from mlx_lm.models.cache import make_prompt_cache

    module = importlib.import_module("mlx_lm.models." + name)
    config = {**COMMON, **ARCHITECTURES[name], "model_type": name}
    config |= {"num_hidden_layers": layers, "n_layer": layers}
    args = {k: v for k, v in config.items() if v is not None}
    model = module.Model(module.ModelArgs.from_dict(args))
    casts = getattr(model, "cast_predicate", lambda _: True)
    cast = tree_map_with_path(lambda k, v: v.astype(dtype) if casts(k) else v, model.parameters())
    model.update(cast)
    how = quantised(name, model, routers)
    nn.quantize(model, group_size=64, bits=4, class_predicate=how)
    cache = make_prompt_cache(model)
    mx.eval(model(mx.array([[1, 2, 3]]), cache=cache))
    for _ in range(3):
        mx.vulkan.stats(reset=True)
        mx.eval(model(mx.array([[3]]), cache=cache))
    ran = mx.vulkan.stats()
    return ran["dispatches"], ran["barriers"], collections.Counter(ran["kernels"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("architectures", nargs="*", help="all by default")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--routers", type=int, help="their bits, 16 for elements")
    parser.add_argument("--kernels", action="store_true", help="name them")
    args = parser.parse_args()
    mx.set_default_device(mx.gpu)
    for name in args.architectures or ARCHITECTURES:
        dtype = getattr(mx, args.dtype)
        few, many = (token(name, n, dtype, args.routers) for n in (2, 4))
        commands, barriers = ((many[i] - few[i]) / 2 for i in range(2))
        print(f"{name:14s} {commands:5.1f} commands {barriers:5.1f} barriers a layer", flush=True)
        if args.kernels:
            many[2].subtract(few[2])
            for kernel, n in many[2].most_common():
                if n:
                    print(f"    {n / 2:4.1f} {kernel}")


if __name__ == "__main__":
    main()
