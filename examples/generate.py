"""Quantises a model to 4 bits and lets mlx-lm write with it (pip install mlx-lm).

    python examples/transformer_lm.py --save out/model
    python examples/generate.py [--device gpu|cpu] [--model out/model] [--prompt "The "]

The model may be any folder that mlx-lm reads, or a name of the Hugging Face hub.
"""

import argparse
import pathlib
import shutil
import sys

import mlx.core as mx


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=["cpu", "gpu"], help="default: MLX's default device")
    parser.add_argument("--model", default="out/model", help="folder, or a name of the hub")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out/model-4bit"))
    parser.add_argument("--prompt", default="The ")
    parser.add_argument("--tokens", type=int, default=120)
    parser.add_argument("--temperature", type=float, default=0.6)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    try:
        from mlx_lm import convert, load, stream_generate
        from mlx_lm.sample_utils import make_sampler
    except ImportError as e:
        sys.exit(f"mlx-lm is needed ({e}): pip install mlx-lm")
    if args.device:
        mx.set_default_device(getattr(mx, args.device))

    shutil.rmtree(args.out, ignore_errors=True)
    convert(args.model, str(args.out), quantize=True, q_bits=4, q_group_size=64)
    model, tokenizer = load(str(args.out))
    mx.random.seed(args.seed)
    sampler = make_sampler(temp=args.temperature)
    print(f"--- {args.out}, 4 bits, on {mx.default_device()}\n{args.prompt}", end="")
    last = None
    for last in stream_generate(
        model, tokenizer, args.prompt, max_tokens=args.tokens, sampler=sampler
    ):
        print(last.text, end="", flush=True)
    print(f"\n--- {last.generation_tokens} tokens, {last.generation_tps:.0f} a second")


if __name__ == "__main__":
    main()
