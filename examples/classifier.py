"""Trains a convolutional classifier of handwritten digits with mlx.nn and mlx.optimizers.

The data are the 1,797 images of 8 x 8 pixels that scikit-learn ships: four fifths to train on, one
fifth to test. Weights are saved to a file and loaded into a fresh model before the test.

    python examples/classifier.py [--device gpu|cpu] [--steps 400] [--out out/classifier.png]
"""

import argparse
import pathlib
import sys
import time
from functools import partial

import matplotlib
import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from sklearn.datasets import load_digits
from tqdm import tqdm

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

BATCH, GOAL, WARM = 128, 0.96, 10


class Classifier(nn.Module):
    """Two convolutions with batch normalisation, and a linear layer with dropout."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.dropout = nn.Dropout(0.2)
        self.out = nn.Linear(2 * 2 * 32, 10)

    def __call__(self, x):
        return self.out(self.dropout(mx.flatten(self.features(x), 1)))


def load(rng):
    """Shuffled (train, test) pairs of images (N, 8, 8, 1) in [0, 1] and labels."""
    images, labels = load_digits(return_X_y=True)
    order = rng.permutation(len(images))
    images = (images[order] / 16).astype(np.float32).reshape(-1, 8, 8, 1)
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


def loss(model, x, y):
    return nn.losses.cross_entropy(model(x), y, label_smoothing=0.05, reduction="mean")


def train(model, stream, steps):
    """Returns the loss of each step and the steps per second."""
    optimizer = optim.AdamW(learning_rate=optim.cosine_decay(5e-3, steps))
    optimizer.init(model.trainable_parameters())
    # What a step reads and writes: weights, running statistics, moments and random numbers.
    state = [model.state, optimizer.state, mx.random.state]

    @partial(mx.compile, inputs=state, outputs=state)
    def step(x, y):
        value, grads = nn.value_and_grad(model, loss)(model, x, y)
        optimizer.update(model, grads)
        return value

    losses, begin = [], time.perf_counter()
    for i in tqdm(range(1, steps + 1), desc="training", unit="step", file=sys.stdout):
        value = step(*next(stream))
        mx.async_eval(value, state)
        losses.append(value)
        if i == min(WARM, steps - 1):
            mx.synchronize()
            begin = time.perf_counter()
    mx.eval(state)
    mx.synchronize()
    timed = steps - min(WARM, steps - 1)
    return [v.item() for v in losses], timed / (time.perf_counter() - begin)


def picture(path, losses, labels, predictions):
    """The loss curve beside the confusion matrix of the test images."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5))
    left.plot(losses)
    left.set(title="training loss", xlabel="step", ylabel="cross entropy", yscale="log")
    counts = np.zeros((10, 10), int)
    np.add.at(counts, (labels, predictions), 1)
    right.imshow(counts, cmap="Blues")
    right.set(title="test images", xlabel="predicted digit", ylabel="true digit")
    right.set_xticks(range(10))
    right.set_yticks(range(10))
    for (i, j), n in np.ndenumerate(counts):
        if n:
            right.text(j, i, n, ha="center", va="center", color="white" if n > 15 else "black")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100, bbox_inches="tight")
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=["cpu", "gpu"], help="default: MLX's default device")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out/classifier.png"))
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
    mx.random.seed(args.seed)
    (images, labels), (test_images, test_labels) = load(rng)
    model = Classifier()
    print(model)
    losses, speed = train(model, batches(images, labels, rng), args.steps)

    weights = args.out.with_suffix(".safetensors")
    weights.parent.mkdir(parents=True, exist_ok=True)
    model.save_weights(str(weights))
    fresh = Classifier().load_weights(str(weights)).eval()
    predictions = np.array(mx.argmax(fresh(mx.array(test_images)), axis=1))
    accuracy = float(np.mean(predictions == test_labels))

    print(f"steps per second: {speed:.1f}")
    print(f"loss: {losses[0]:.4f} -> {losses[-1]:.4f}")
    picture(args.out, losses, test_labels, predictions)
    print(f"picture: {args.out}, weights: {weights}")
    print(f"test accuracy: {accuracy:.3f}")
    if accuracy < GOAL:
        sys.exit(f"test accuracy is below {GOAL}")


if __name__ == "__main__":
    main()
