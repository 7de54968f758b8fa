"""What two GPUs of one process copy between them, against NumPy; run by test_device_copies.py.

SHORT: a few sizes, as "sizes" these alone and no large one. UNTOUCHED: also what memory is left.
"""

import os
import threading

import mlx.core as mx
import numpy as np

MIB = 1 << 20
FIRST, SECOND = (mx.Device(mx.gpu, i) for i in range(2))
BOTH = [(FIRST, SECOND), (SECOND, FIRST)]
SHORT = os.environ.get("SHORT")
#: Bytes on both sides of where copies go another way, and of a piece.
SIZES = [8, 4096, (64 << 10) + 8, MIB // 4 - 8, MIB // 4, MIB, 4 * MIB - 8, 4 * MIB + 8]
SIZES += [8 * MIB, 9 * MIB + 16, 70 * MIB + 8]
DTYPES = [mx.bool_, mx.uint8, mx.int8, mx.uint16, mx.int16, mx.float16, mx.bfloat16, mx.uint32]
DTYPES += [mx.int32, mx.float32, mx.uint64, mx.int64, mx.complex64]


def on(device, numbers):
    """An array whose bytes are nowhere but there."""
    half = len(numbers) // 2
    x = mx.concatenate([mx.array(numbers[:half]), mx.array(numbers[half:])], stream=device)
    mx.eval(x)
    return x


def backwards(x, device):
    """What a device reads of an array."""
    return mx.contiguous(x[::-1], stream=device)


def words(bytes, rng):
    return rng.integers(0, 1 << 63, bytes // 8, dtype=np.int64)


def sizes(rng):
    few = {"sizes": SIZES[4:8:3], "1": SIZES[4::3]}
    for size in few.get(SHORT, SIZES):
        for source, target in BOTH:
            numbers = words(size, rng)
            x = on(source, numbers)
            assert np.array_equal(backwards(x, target), numbers[::-1]), size
            # The array, and what else is made of it, on both from then on.
            assert np.array_equal(backwards(x, source), numbers[::-1])
            assert np.array_equal(mx.negative(x, stream=target), -numbers)
            assert np.array_equal(x, numbers)


def dtypes(rng):
    for dtype in DTYPES[::5] if SHORT else DTYPES:
        for size in (MIB + 24, 5 * MIB + 8):
            for source, target in BOTH:
                numbers = words(size, rng)
                view = mx.bool_ if dtype == mx.bool_ else dtype
                raw = numbers.view(np.uint8) & 1 if dtype == mx.bool_ else numbers
                x = mx.view(on(source, raw), view, stream=source)
                mx.eval(x)
                back = mx.view(backwards(x, target), mx.uint8, stream=target)
                expected = np.frombuffer(raw.tobytes(), f"V{dtype.size}")[::-1].tobytes()
                assert np.array(back).tobytes() == expected, dtype


def views(rng):
    for size in (2 * MIB, 6 * MIB):
        for source, target in BOTH:
            numbers = words(size, rng)
            x, shaped = on(source, numbers), numbers.reshape(64, 2, -1)
            y = mx.reshape(x, shaped.shape, stream=source)
            for take in (
                lambda a: a[3:],
                lambda a: a[7:9, 1],
                lambda a: a[::2, ::-1, 5::3],
                lambda a: a.transpose(2, 0, 1),
                lambda a: a[:1] + a,
            ):
                with mx.stream(source):
                    part = take(y)
                    mx.eval(part)
                assert np.array_equal(mx.abs(part, stream=target), np.abs(take(shaped)))
            wide = mx.broadcast_to(x[:4], (3, 4), stream=source)
            assert np.array_equal(mx.abs(wide, stream=target), np.abs([numbers[:4]] * 3))


def between_work(rng):
    """Both compute, and each needs what the other made last."""
    n = 1 << 20
    numbers = rng.integers(-1000, 1000, n).astype(np.float64)
    x, expected = on(FIRST, numbers.astype(np.int64)), numbers.astype(np.int64)
    for i in range(12):
        source, target = BOTH[i % 2]
        busy = mx.ones((128, 128))
        for _ in range(4):
            busy = mx.matmul(busy, mx.eye(128), stream=target)
        x = mx.add(x, i, stream=source)
        x = mx.subtract(x, mx.roll(x, 1, stream=target), stream=target)
        expected = expected + i
        expected = expected - np.roll(expected, 1)
        if i % 3 == 2:
            mx.eval(x)
        assert np.array_equal(busy, np.ones((128, 128)))
    assert np.array_equal(x, expected)


def recycled(rng):
    """Memory of the source is let go as soon as the other one has the bytes, and is used again."""
    for _ in range(4):
        kept, expected = [], []
        for i in range(3):
            numbers = words(5 * MIB, rng)
            source, target = BOTH[i % 2]
            x = on(source, numbers)
            kept.append(mx.negative(x, stream=target))
            mx.eval(kept[-1])
            del x
            filled = mx.full((5 * MIB // 8,), i, dtype=mx.int64, stream=source)
            mx.eval(filled)
            expected.append(-numbers)
        assert all(np.array_equal(a, b) for a, b in zip(kept, expected, strict=True))


def threads(rng):
    wrong = []
    numbers = [words(5 * MIB, rng) for _ in range(4)]

    def run(i):
        try:
            for j in range(3):
                source, target = BOTH[(i + j) % 2]
                x = on(source, numbers[i])
                if not np.array_equal(backwards(x, target), numbers[i][::-1]):
                    wrong.append((i, j))
        except Exception as e:
            wrong.append(e)

    all_threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    [t.start() for t in all_threads]
    [t.join() for t in all_threads]
    assert not wrong, wrong
    # One array, wanted by all at once.
    x, seen = on(FIRST, numbers[0]), []
    read = lambda: seen.append(np.array(backwards(x, SECOND)))  # noqa: E731
    all_threads = [threading.Thread(target=read) for _ in range(4)]
    [t.start() for t in all_threads]
    [t.join() for t in all_threads]
    assert len(seen) == 4 and all(np.array_equal(s, numbers[0][::-1]) for s in seen)


def way(rng):
    """What the host says of how two arrays cross, one larger than several pieces."""
    for source, target in BOTH:
        for size in (2 * MIB, 70 * MIB):
            x = on(source, words(size, rng))
            with mx.vulkan.profile() as p:
                mx.eval(backwards(x, target))
            print("crossing", *{s.name for s in p.spans if s.kind == "crossing"})


def memory(rng):
    def settled():
        mx.synchronize(mx.default_stream(FIRST))
        mx.synchronize(mx.default_stream(SECOND))
        return mx.get_active_memory()

    before = settled()
    for source, target in BOTH * 3:
        x = on(source, words(6 * MIB, rng))
        y = backwards(x, target)
        mx.eval(y)
        assert settled() > before
        del x, y
    assert settled() == before
    mx.clear_cache()
    assert mx.get_cache_memory() == 0


if __name__ == "__main__":
    assert mx.device_count(mx.gpu) >= 2
    steps = [sizes, dtypes, views, between_work, recycled, threads]
    short = [sizes] if SHORT == "sizes" else [sizes, dtypes, recycled]
    for step in short if SHORT else steps:
        step(np.random.default_rng(7))
    if "WAY" in os.environ:
        way(np.random.default_rng(9))
    if "UNTOUCHED" in os.environ:
        memory(np.random.default_rng(8))
    print("fine")
