"""Trains a small language model that writes text like Python's own documentation.

The text is the Language Reference that ships with every Python (`pydoc_data.topics`), cut into its
frequent words and single characters. The model has the architecture of Llama (RMSNorm, rotary
embeddings, SwiGLU) and the names of its weights. It is trained with AdamW, a warm-up and a cosine
schedule, in one compiled function, then writes some text, and is saved as a model that mlx-lm
reads (examples/generate.py quantises it and lets mlx-lm go on).

    python examples/transformer_lm.py [--device gpu|cpu] [--steps 1200] [--save out/model]
"""

import argparse
import math
import pathlib
import sys
import time
from functools import partial

import matplotlib
import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from language import Llama, Vocabulary, batches, loss, save_for_mlx_lm, text
from mlx.utils import tree_flatten
from tqdm import tqdm

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

WARM = 20  # steps that are not timed: kernels are compiled in them


def train(model, stream, steps, rate):
    """Returns the loss of each step and the seconds of those after the first ones."""
    warm = max(1, steps // 10)
    schedule = optim.join_schedules(
        [optim.linear_schedule(0.0, rate, warm), optim.cosine_decay(rate, max(1, steps - warm))],
        [warm],
    )
    optimizer = optim.AdamW(learning_rate=schedule, weight_decay=0.01)
    optimizer.init(model.trainable_parameters())
    state = [model.state, optimizer.state]

    @partial(mx.compile, inputs=state, outputs=state)
    def step(pieces):
        value, grads = nn.value_and_grad(model, loss)(model, pieces)
        grads, _ = optim.clip_grad_norm(grads, 1.0)
        optimizer.update(model, grads)
        return value

    losses, begin = [], time.perf_counter()
    progress = tqdm(range(1, steps + 1), desc="training", unit="step", file=sys.stdout)
    for i in progress:
        value = step(next(stream))
        mx.async_eval(value, state)
        losses.append(value)
        if i == min(WARM, steps - 1):
            mx.synchronize()
            begin = time.perf_counter()
        if i % 50 == 0:
            progress.set_postfix(loss=f"{losses[i - 25].item():.3f}")
    mx.eval(state)
    mx.synchronize()
    return [v.item() for v in losses], time.perf_counter() - begin


def sample(model, vocabulary, prompt, length, temperature, context):
    """Text that begins with `prompt`, drawn piece by piece."""

    # A compiled function that draws random numbers takes and returns their state; without that,
    # each call would draw the same ones.
    @partial(mx.compile, inputs=mx.random.state, outputs=mx.random.state)
    def follow(window, end):
        scores = model(window[None])[0][end] / temperature
        return mx.random.categorical(scores)

    tokens = vocabulary.encode(prompt)
    for _ in range(length):
        # The window is always full, so that one compiled function serves all lengths.
        window = (tokens[-context:] + [0] * context)[:context]
        end = min(len(tokens), context) - 1
        tokens.append(follow(mx.array(window), mx.array(end)).item())
    return vocabulary.decode(tokens)


def picture(path, losses, guess):
    """The loss curve, with that of a guess by frequency alone."""
    figure, axes = plt.subplots(figsize=(8, 5))
    axes.plot(losses, linewidth=0.5, alpha=0.4)
    width = min(25, len(losses))
    smooth = np.convolve(losses, np.ones(width) / width, "valid")
    axes.plot(np.arange(width - 1, len(losses)), smooth)
    axes.axhline(guess, linestyle=":", color="grey", label="frequencies of words")
    axes.set(title="training loss", xlabel="step", ylabel="cross entropy (nats a word)")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100, bbox_inches="tight")
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=["cpu", "gpu"], help="default: MLX's default device")
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--words", type=int, default=2000, help="frequent words with a number")
    parser.add_argument("--dims", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--sample", type=int, default=120, help="words to write")
    parser.add_argument("--prompt", default="The ", help="how the sample begins")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out/transformer_lm.png"))
    parser.add_argument("--save", type=pathlib.Path, help="folder for the model, as mlx-lm has it")
    args = parser.parse_args()
    if args.steps < 2:
        parser.error("--steps must be at least 2")
    if args.device == "gpu" and not mx.is_available(mx.gpu):
        parser.error("--device gpu: no Vulkan device was found")
    if args.device:
        mx.set_default_device(getattr(mx, args.device))
    device = mx.default_device()
    print(f"device: {device} {mx.device_info(device).get('device_name', '')}", flush=True)

    mx.random.seed(args.seed)
    reference = text()
    vocabulary = Vocabulary(reference, args.words)
    data = np.array(vocabulary.encode(reference), np.int32)
    model = Llama(len(vocabulary.pieces), args.dims, args.heads, args.layers)
    count = sum(p.size for _, p in tree_flatten(model.parameters()))
    print(
        f"text: {len(reference):,} characters, {len(data):,} words of {len(vocabulary.pieces):,}; "
        f"parameters: {count:,}"
    )
    stream = batches(data, args.batch, args.context, np.random.default_rng(args.seed))
    losses, seconds = train(model, stream, args.steps, args.rate)
    timed = args.steps - min(WARM, args.steps - 1)
    print(f"words per second: {timed * args.batch * args.context / seconds:,.0f}")

    share = np.bincount(data, minlength=1) / len(data)
    share = share[share > 0]
    guess = float(-(share * np.log(share)).sum())
    last = float(np.mean(losses[-max(1, args.steps // 20) :]))
    print(f"loss: {losses[0]:.3f} -> {last:.3f} nats a word (frequencies alone: {guess:.3f})")
    picture(args.out, losses, guess)
    print(f"picture: {args.out}")
    if args.sample:
        print("--- sample")
        print(sample(model, vocabulary, args.prompt, args.sample, args.temperature, args.context))
        print("---")
    if args.save:
        save_for_mlx_lm(args.save, model, vocabulary, args.context)
        print(f"model: {args.save}")
    if not (math.isfinite(last) and last < min(losses[0], guess)):
        sys.exit("the model has not learned more than the frequencies of words")


if __name__ == "__main__":
    main()
