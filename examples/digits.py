"""Trains a classifier of handwritten digits with mlx.core alone.

The data are the 1,797 images of 8 x 8 pixels that scikit-learn ships: four fifths to train on, one
fifth to test. The model is a perceptron with one hidden layer, trained with Adam, written out here.

    python examples/digits.py [--device gpu|cpu] [--steps 1000] [--seed 0] [--out out/digits.png]
"""

import argparse
import pathlib
import sys
import time

import matplotlib
import mlx.core as mx
import numpy as np
from sklearn.datasets import load_digits
from tqdm import tqdm

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

HIDDEN, CLASSES, BATCH = 256, 10, 128
RATE, BETA1, BETA2, EPSILON = 2e-3, 0.9, 0.999, 1e-8
GOAL = 0.97


def load(rng):
    """Shuffled (train, test) pairs of images in [0, 1] and labels, as NumPy arrays."""
    images, labels = load_digits(return_X_y=True)
    order = rng.permutation(len(images))
    images = (images[order] / 16).astype(np.float32)
    labels = labels[order].astype(np.int32)
    cut = len(images) * 4 // 5
    return (images[:cut], labels[:cut]), (images[cut:], labels[cut:])


def batches(images, labels, rng):
    """Endless minibatches: each pass over the data is a new permutation."""
    while True:
        order = rng.permutation(len(images))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            pick = order[start : start + BATCH]
            yield mx.array(images[pick]), mx.array(labels[pick])


def init(seed):
    """He-initialised weights, from MLX's own random streams."""
    k1, k2 = mx.random.split(mx.random.key(seed))
    return {
        "w1": mx.random.normal((64, HIDDEN), scale=(2 / 64) ** 0.5, key=k1),
        "b1": mx.zeros((HIDDEN,)),
        "w2": mx.random.normal((HIDDEN, CLASSES), scale=(2 / HIDDEN) ** 0.5, key=k2),
        "b2": mx.zeros((CLASSES,)),
    }


def logits(params, x):
    hidden = mx.maximum(x @ params["w1"] + params["b1"], 0)
    return hidden @ params["w2"] + params["b2"]


def loss(params, x, y):
    """Mean cross entropy; the label's logit is picked by comparison with the class numbers."""
    z = logits(params, x)
    label = mx.expand_dims(y, 1) == mx.arange(CLASSES)
    return mx.mean(mx.logsumexp(z, axis=1) - mx.sum(mx.where(label, z, 0), axis=1))


def adam(params, grads, state, step):
    """One step of Adam (Kingma and Ba 2015, algorithm 1)."""
    rate = RATE * (1 - BETA2**step) ** 0.5 / (1 - BETA1**step)
    new_params, new_state = {}, {}
    for name, g in grads.items():
        m, v = state[name]
        m = BETA1 * m + (1 - BETA1) * g
        v = BETA2 * v + (1 - BETA2) * mx.square(g)
        new_params[name] = params[name] - rate * m / (mx.sqrt(v) + EPSILON)
        new_state[name] = (m, v)
    return new_params, new_state


def train(params, images, labels, steps, rng):
    """Returns the trained parameters, the loss of each step and the steps per second."""
    state = {k: (mx.zeros_like(p), mx.zeros_like(p)) for k, p in params.items()}
    value_and_grad = mx.value_and_grad(loss)
    stream = batches(images, labels, rng)
    losses = []
    begin = None
    for step in tqdm(range(1, steps + 1), desc="training", unit="step", file=sys.stdout):
        value, grads = value_and_grad(params, *next(stream))
        params, state = adam(params, grads, state, step)
        mx.async_eval(params, state, value)
        losses.append(value)
        if step == min(20, steps - 1):  # compiling kernels is not training
            mx.synchronize()
            begin = time.perf_counter()
    mx.eval(params)
    mx.synchronize()
    timed = steps - min(20, steps - 1)
    return params, [v.item() for v in losses], timed / (time.perf_counter() - begin)


def picture(path, losses, images, labels, predictions):
    """The loss curve beside a grid of test images, wrong predictions in red."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 6))
    left.plot(losses, linewidth=0.5, alpha=0.4)
    width = min(25, len(losses))
    left.plot(
        np.arange(width - 1, len(losses)), np.convolve(losses, np.ones(width) / width, "valid")
    )
    left.set(title="training loss", xlabel="step", ylabel="cross entropy", yscale="log")
    right.set_axis_off()
    right.set_title("test images: predicted digit (wrong ones in red, with the true digit)")
    wrong = np.flatnonzero(predictions != labels)
    shown = np.concatenate([wrong, np.flatnonzero(predictions == labels)])[:48]
    for place, i in enumerate(shown):
        x, y = place % 8, place // 8
        cell = right.inset_axes([x / 8 + 0.01, 1 - (y + 1) / 6 + 0.005, 0.1, 0.12])
        cell.imshow(images[i].reshape(8, 8), cmap="gray_r")
        cell.set_axis_off()
        good = predictions[i] == labels[i]
        text = f"{predictions[i]}" if good else f"{predictions[i]} ({labels[i]})"
        cell.set_title(text, fontsize=8, pad=1, color="black" if good else "red")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100, bbox_inches="tight")
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=["cpu", "gpu"], help="default: MLX's default device")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out/digits.png"))
    args = parser.parse_args()
    if args.steps < 2:
        parser.error("--steps must be at least 2")
    if args.device == "gpu" and not mx.is_available(mx.gpu):
        parser.error("--device gpu: no Vulkan device was found")
    if args.device:
        mx.set_default_device(getattr(mx, args.device))
    device = mx.default_device()
    print(f"device: {device} {mx.device_info(device).get('device_name', '')}", flush=True)

    rng = np.random.default_rng(args.seed)
    (images, labels), (test_images, test_labels) = load(rng)
    mx.reset_peak_memory()
    params, losses, speed = train(init(args.seed), images, labels, args.steps, rng)
    predictions = np.array(mx.argmax(logits(params, mx.array(test_images)), axis=1))
    accuracy = float(np.mean(predictions == test_labels))

    print(f"steps per second: {speed:.0f}")
    print(f"peak memory: {mx.get_peak_memory() / 2**20:.1f} MiB")
    print(f"loss: {losses[0]:.4f} -> {losses[-1]:.4f}")
    picture(args.out, losses, test_images, test_labels, predictions)
    print(f"picture: {args.out}")
    print(f"test accuracy: {accuracy:.3f}")
    if accuracy < GOAL:
        sys.exit(f"test accuracy is below {GOAL}")


if __name__ == "__main__":
    main()
