"""Prepares images for training on the GPU, batch by batch, with copies and computation overlapped.

The images are the 8 x 8 digits that scikit-learn ships, as bytes, repeated until there are enough.
Each batch goes up as bytes, is scaled to the wanted size, shifted, turned and lit at random,
normalised, and comes back as float32: `mx.vulkan.pipeline` moves the batches before and behind
meanwhile. The same work without it is timed too, and must give the same pixels.

    python examples/image_pipeline.py [--device gpu|cpu] [--images 20000] [--batch 2048] [--size 32]
                                      [--depth 2] [--out out/images.png]
"""

import argparse
import pathlib
import sys
import time

import mlx.core as mx
import numpy as np
from sklearn.datasets import load_digits

MEAN, DEVIATION = 0.305, 0.376  # of all pixels of the digits
TURN, SHIFT, LIGHT = 0.25, 0.1, 0.2  # radians; parts of the width; of the brightness


def bytes_of_digits(count):
    """(count, 8, 8) uint8, and nothing of float until the device makes it."""
    images = load_digits().images
    images = np.round(images * (255 / 16)).astype(np.uint8)
    return np.resize(images, (count, *images.shape[1:]))


def batches(images, size, seed):
    """(images, key) pairs; the key makes the changes of a batch random and repeatable."""
    starts = range(0, len(images), size)
    keys = np.array(mx.random.split(mx.random.key(seed), len(starts)))
    for start, key in zip(starts, keys, strict=True):
        yield images[start : start + size], key


def sample(images, y, x):
    """Pixels at real coordinates (n, h, w), bilinear, 0 outside: images are (n, h, w)."""
    n, height, width = images.shape
    flat = mx.reshape(images, (n, height * width))
    top, left = mx.floor(y), mx.floor(x)
    total = mx.zeros(y.shape)
    for row, column in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        share = mx.maximum(1 - mx.abs(y - row), 0) * mx.maximum(1 - mx.abs(x - column), 0)
        place = mx.clip(row, 0, height - 1) * width + mx.clip(column, 0, width - 1)
        place = mx.reshape(place.astype(mx.int32), (n, -1))
        value = mx.reshape(mx.take_along_axis(flat, place, axis=1), y.shape)
        total = total + mx.where(inside, value * share, 0)
    return total


def preprocess(images, key, size):
    """Bytes (n, h, w) to normalised float32 (n, size, size), each turned, shifted and lit."""
    n, height, width = images.shape
    angle, down, right, light = mx.random.uniform(-1, 1, (4, n, 1, 1), key=key)
    angle = angle * TURN
    # Centres of the new pixels, in coordinates that run from -1 to 1.
    at = (2 * mx.arange(size) + 1) / size - 1
    v, u = mx.reshape(at, (1, size, 1)), mx.reshape(at, (1, 1, size))
    y = mx.cos(angle) * v - mx.sin(angle) * u + SHIFT * down
    x = mx.sin(angle) * v + mx.cos(angle) * u + SHIFT * right
    pixels = images.astype(mx.float32) / 255
    pixels = sample(pixels, (y + 1) * height / 2 - 0.5, (x + 1) * width / 2 - 0.5)
    return (mx.clip(pixels * (1 + LIGHT * light), 0, 1) - MEAN) / DEVIATION


def timed(results):
    """Seconds, and the results."""
    begin = time.perf_counter()
    results = [np.asarray(r) for r in results]
    return time.perf_counter() - begin, results


def picture(path, before, after):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(4, 8, figsize=(10, 5))
    for column in range(8):
        for row, images in ((0, before), (1, after), (2, before[8:]), (3, after[8:])):
            axes[row, column].imshow(images[column], cmap="gray")
            axes[row, column].set_axis_off()
    figure.suptitle("images, and what becomes of them (below each)")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100, bbox_inches="tight")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=["cpu", "gpu"], help="default: MLX's default device")
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, help="picture of some images")
    args = parser.parse_args()
    if min(args.images, args.batch, args.size, args.depth) < 1:
        parser.error("numbers must be positive")
    if args.device:
        mx.set_default_device(getattr(mx, args.device))
    device = mx.default_device()
    print(f"device: {device} {mx.device_info(device).get('device_name', '')}")

    images = bytes_of_digits(args.images)
    compiled = mx.compile(lambda images, key: preprocess(images, key, args.size))

    def plain():
        for pixels, key in batches(images, args.batch, args.seed):
            yield compiled(mx.array(pixels), mx.array(key))

    def streamed():
        source = batches(images, args.batch, args.seed)
        return mx.vulkan.pipeline(compiled, source, depth=args.depth)

    timed(plain()), timed(streamed())  # compiling kernels is not preparing images
    plain_seconds, want = timed(plain())
    seconds, got = timed(streamed())
    if not all(np.array_equal(a, b) for a, b in zip(want, got, strict=True)):
        sys.exit("the pixels differ")
    print(f"one batch after another: {args.images / plain_seconds:.0f} images per second")
    print(f"streamed: {args.images / seconds:.0f} images per second")
    pixels = np.concatenate(got)
    print(f"mean {pixels.mean():.3f}, deviation {pixels.std():.3f} of {pixels.shape}")
    if args.out:
        picture(args.out, images[:16], got[0][:16])
        print(f"picture: {args.out}")


if __name__ == "__main__":
    main()
