"""Programs that tests start as several processes: `python FILE NAME` runs the function NAME.

Those with `mixed` in their names also run under official MLX: they use nothing else.
"""

import os
import sys
import time

import mlx.core as mx
import numpy as np

dist = mx.distributed
DTYPES = (
    "bool_ uint8 int8 uint16 int16 uint32 int32 uint64 int64 "
    "float16 bfloat16 float32 float64 complex64"
).split()


def check(got, want, what):
    """What a process got, as an array of the dtype of what NumPy expects."""
    want = mx.array(want).astype(got.dtype)
    assert got.shape == want.shape, (what, got.shape, want.shape)
    assert mx.array_equal(got, want).item(), (what, got, want)


def inputs(name, shape, count):
    """What each process contributes: small whole numbers, whose sums are exact in every dtype."""
    high = 2 if name == "bool_" else 5
    part = [np.random.RandomState(7 + r).randint(0, high, shape) for r in range(count)]
    return [p + 1j * p[::-1] for p in part] if name == "complex64" else part


def least(parts):
    stack = np.stack(parts)
    return np.min(stack, 0), np.max(stack, 0)


def reductions(group, sizes, dtypes=DTYPES):
    rank, count = group.rank(), group.size()
    for name in dtypes:
        if name == "float64" and mx.default_device().type == mx.gpu:
            continue  # which no GPU stream has
        dtype = getattr(mx, name)
        for size in sizes:
            parts = inputs(name, (size,), count)
            x = mx.array(parts[rank]).astype(dtype)
            total = np.sum(parts, 0)
            low, high = least(parts)
            what = (name, size)
            check(dist.all_sum(x), np.minimum(total, 1) if name == "bool_" else total, what)
            check(dist.all_max(x), high, what)
            check(dist.all_min(x), low, what)
            check(dist.all_gather(x), np.concatenate(parts), what)


def to_neighbours(group):
    rank, count = group.rank(), group.size()
    after, before = (rank + 1) % count, (rank - 1) % count
    for size in (1, 33, 200_001):
        x = mx.arange(size) + rank
        if rank % 2 == 0:
            mx.eval(dist.send(x, after))
        got = dist.recv_like(x, before)
        mx.eval(got)
        if rank % 2 == 1:
            mx.eval(dist.send(x, after))
        check(got, np.arange(size) + before, "neighbour")


def mixed():
    """Sizes of one and several rings, over one and several connections."""
    group = dist.init(strict=True, backend="ring")
    count = group.size()
    reductions(group, (1, count - 1, count, 17), ("bool_", "int8", "bfloat16", "complex64"))
    reductions(group, (1_200_001,), ("float32",))
    to_neighbours(group)


def everything():
    """Each op on each dtype and odd sizes; views; scatters; sends to anyone; splits."""
    group = start()
    rank, count = group.rank(), group.size()
    assert dist.init() is not None and dist.init().size() == count
    if os.environ.get("SHORT"):
        reductions(group, (0, 3, 17), ("int32", "bfloat16"))
    else:
        reductions(group, (0, 1, 2, 3, 5, count + 1, 33, 1000))
        reductions(group, (700_001,), ("float32", "bfloat16"))
    views(group)
    scatters(group)
    derivatives(group)
    to_anyone(group)
    splits(group)
    refusals(group)
    print("fine", rank)


def views(group):
    rank, count = group.rank(), group.size()
    part = [np.arange(24.0).reshape(2, 3, 4) * (r + 1) for r in range(count)]
    x = mx.array(part[rank].astype(np.float32))
    check(dist.all_sum(x.T[::-1, :, 1]), sum(p.T[::-1, :, 1] for p in part), "view")
    check(dist.all_gather(x[:, ::2]), np.concatenate([p[:, ::2] for p in part]), "view")
    check(
        dist.all_sum(mx.broadcast_to(x[0, 0, 1], (3, 2))),
        np.full((3, 2), sum(range(count + 1))),
        "",
    )
    check(dist.all_sum(mx.array(2.5)), 2.5 * count, "number")
    check(dist.all_sum(3), 3 * count, "number")
    check(dist.all_gather(mx.array(rank)), np.arange(count), "number")
    assert dist.all_gather(mx.zeros((0, 3))).tolist() == []
    nan = mx.array([float("nan") if rank == 0 else 1.0, 2.0])
    for op in (dist.all_max, dist.all_min, dist.all_sum):
        assert mx.isnan(op(nan)).tolist() == [True, False]
    with mx.stream(mx.new_stream(mx.cpu)):
        check(dist.all_sum(x), sum(part), "stream")
    check(mx.compile(lambda a: dist.all_sum(a * 2) + 1)(x), sum(part) * 2 + 1, "compiled")


def scatters(group):
    rank, count = group.rank(), group.size()
    for name in ("int32", "float16", "float32", "bool_", "complex64"):
        for rows in (count, 3 * count, 40_000 * count if name == "float32" else 5 * count):
            parts = inputs(name, (rows, 2), count)
            total = np.sum(parts, 0)
            total = np.minimum(total, 1) if name == "bool_" else total
            got = dist.sum_scatter(mx.array(parts[rank]).astype(getattr(mx, name)))
            each = rows // count
            check(got, total[rank * each : (rank + 1) * each], (name, rows))
    assert dist.sum_scatter(mx.zeros((0, 2))).shape == (0, 2)


def derivatives(group):
    """What official MLX gives, and for scatters what follows from sums and gathers."""
    rank, count = group.rank(), group.size()
    x, c = mx.arange(3.0) + rank, mx.array([1.0, 2.0, 3.0]) * (rank + 1)
    for op in (dist.all_sum, dist.all_max, dist.all_min):
        check(mx.vjp(op, [x], [c])[1][0], np.array(c), "vjp")
    triangle = count * (count + 1) // 2
    check(mx.jvp(dist.all_sum, [x], [c])[1][0], np.array([1, 2, 3]) * triangle, "jvp")
    whole = mx.arange(3.0 * count) * (rank + 1)
    check(mx.vjp(dist.all_gather, [x], [whole])[1][0], np.array(whole)[3 * rank : 3 * rank + 3], "")
    check(mx.vjp(dist.all_gather, [x[0]], [whole[:count]])[1][0], np.array(whole[rank]), "number")
    every = np.concatenate([np.array([1.0, 2.0, 3.0]) * (r + 1) for r in range(count)])
    check(mx.jvp(dist.all_gather, [x], [c])[1][0], every, "jvp")
    wide = mx.arange(3.0 * count)
    check(mx.vjp(dist.sum_scatter, [wide], [c])[1][0], every, "vjp")
    # Through a layer: each process has a part of the loss.
    grad = mx.grad(lambda w: dist.all_sum(w * (rank + 1)).sum())(mx.ones((2,)))
    assert grad.tolist() == [rank + 1] * 2
    rows = mx.arange(6.0).reshape(2, 3) + rank
    check(
        mx.vmap(dist.all_sum)(rows), sum(np.arange(6.0).reshape(2, 3) + r for r in range(count)), ""
    )
    parts = [np.arange(6.0).reshape(2, 3) + r for r in range(count)]
    check(mx.vmap(dist.all_gather)(rows), np.concatenate(parts, 1), "vmap")
    check(mx.vmap(dist.all_gather)(rows[:, 0]), np.stack([p[:, 0] for p in parts], 1), "vmap")
    tall = mx.ones((2, count, 3)) * (rank + 1)
    check(mx.vmap(dist.sum_scatter)(tall), np.full((2, 1, 3), triangle), "vmap")
    for op in (lambda x: dist.send(x, (rank + 1) % count),):
        try:
            mx.vjp(op, [x], [x])
        except ValueError as error:
            assert "Not implemented for Send" in str(error)
        else:
            raise AssertionError("send has no derivative")


def to_anyone(group):
    rank, count = group.rank(), group.size()
    for a in range(count):
        for b in range(count):
            for n in (0, 5, 70_000):
                if a != b and rank == a:
                    mx.eval(dist.send(mx.arange(n) * (a + 1), b))
                if a != b and rank == b:
                    check(dist.recv((n,), mx.int32, a), np.arange(n) * (a + 1), (a, b))


def splits(group):
    rank, count = group.rank(), group.size()
    half = group.split(rank % 2, -rank)
    mates = list(range(rank % 2, count, 2))
    assert (half.rank(), half.size()) == (mates.index(rank), len(mates))
    check(dist.all_sum(mx.array([rank]), group=half), [sum(mates)], "half")
    check(dist.all_gather(mx.array([rank]), group=half), mates, "half")
    turned = group.split(3, count - rank)
    assert turned.rank() == count - 1 - rank
    check(dist.all_gather(mx.array([rank]), group=turned), list(range(count))[::-1], "turned")
    check(dist.sum_scatter(mx.arange(count), group=turned), [turned.rank() * count], "turned")
    if turned.rank() == 0:
        mx.eval(dist.send(mx.array([7]), count - 1, group=turned))
    if turned.rank() == count - 1:
        check(dist.recv((1,), mx.int32, 0, group=turned), [7], "turned")
    check(dist.all_sum(mx.array([1.0])), [count], "still there")


def refusals(group):
    count = group.size()
    x = mx.ones((count + 1, 2))
    for call, message in (
        (lambda: dist.send(x, count), f"Invalid destination={count} for a group of size {count}"),
        (lambda: dist.send(x, -1), "Invalid destination=-1"),
        (lambda: dist.recv((1,), mx.int32, count), f"Invalid source={count}"),
        (lambda: dist.recv((-1,), mx.int32, 1), "negative"),
        (lambda: dist.sum_scatter(x), f"shape=({count + 1},2) for a group of size {count}"),
        (lambda: dist.sum_scatter(mx.array(1.0)), "Invalid shape=()"),
    ):
        try:
            call()
        except ValueError as error:
            assert message in str(error), error
        else:
            raise AssertionError(message)


def failing(call, *words, within=60.0):
    """The call raises, with these words, soon; the group is unusable, the process not."""
    begin = time.perf_counter()
    try:
        mx.eval(call())
    except RuntimeError as error:
        seconds = time.perf_counter() - begin
        text = str(error)
        assert all(w in text for w in words), text
        assert seconds < within, seconds
        print(f"raised after {seconds:.3f} s: {text}")
    else:
        raise AssertionError("nothing was raised")
    try:
        mx.eval(dist.all_sum(mx.ones((1,))))
    except RuntimeError as error:
        assert "cannot be used any more" in str(error), error
    else:
        raise AssertionError("the group lives on")
    assert (mx.ones((3,)) * 2).tolist() == [2, 2, 2]


def start():
    return dist.init(strict=True, backend=os.environ.get("BACKEND", "ring"))


def dies():
    """The second process dies while the others wait."""
    group = start()
    if group.rank() == 1:
        time.sleep(0.3)
        os._exit(3)
    failing(lambda: dist.all_sum(mx.ones((500_000,))), "rank 1")


def dies_amid():
    """The second process dies when it has a part of the message."""
    group = start()
    if group.rank() == 1:
        mx.async_eval(dist.all_sum(mx.ones((50_000_000,))))
        time.sleep(0.05)
        os._exit(3)
    failing(lambda: dist.all_sum(mx.ones((50_000_000,))), "rank 1")


def differs():
    """The second process sums another shape; the others learn of it too."""
    rank = start().rank()
    shape = (3, 2) if rank == 1 else (2, 3)

    def two():
        # The others may have met in the second before the first one is seen to have ended here.
        mx.eval(dist.all_sum(mx.ones((3,))))
        return dist.all_sum(mx.ones(shape))

    failing(two, "rank 1", "(2,3)", "(3,2)", "operation 1")


def differs_in_dtype():
    rank = start().rank()
    dtype = mx.int32 if rank == 1 else mx.float32
    failing(lambda: dist.all_sum(mx.ones((3,), dtype)), "rank 1", "int32", "float32")


def differs_in_order():
    rank = start().rank()
    op = dist.all_max if rank == 1 else dist.all_gather
    failing(lambda: op(mx.ones((3,))), "rank 1", "all_max", "all_gather")


def receives_another():
    rank = start().rank()
    if rank == 0:
        # It may be gone before the other says what it waits for; then the next operation is told.
        sent = dist.send(mx.ones((4,)), 1)
        failing(lambda: mx.eval(sent) or dist.all_sum(mx.ones((4,))), "rank")
    else:
        failing(lambda: dist.recv((2, 2), mx.float32, 0), "rank 0", "(4)", "does recv", "(2,2)")


def large():
    """Rows of 1 MiB, as many as the test wants; what is gathered and sent has twice as many."""
    group = start()
    rank, count = group.rank(), group.size()
    rows, wide = int(os.environ["ROWS"]), 1 << 20
    x = mx.full((rows, wide), rank + 1, mx.uint8)
    got = dist.all_gather(x)
    mx.eval(got)
    for r in range(count):
        assert mx.all(got[r * rows : (r + 1) * rows] == r + 1).item(), r
    if rank == 0:
        mx.eval(dist.send(got, 1))
    elif rank == 1:
        assert mx.array_equal(dist.recv_like(got, 0), got).item()
    del got, x
    y = mx.arange(wide // 8) + mx.arange(rows * count, dtype=mx.int64)[:, None]
    assert mx.array_equal(dist.all_sum(y), y * count).item()
    part = y[rows * rank : rows * (rank + 1)]
    assert mx.array_equal(dist.sum_scatter(y), part * count).item()
    print("fine", rank)


def exchanges(group, name, count):
    """One dtype and length; arrays of 256 KiB and more stay on their GPUs."""
    rank, size, dtype = group.rank(), group.size(), getattr(mx, name)
    parts = inputs(name, (count,), size)
    total, what = sum(parts), (name, count)
    a = mx.array(parts[rank]).astype(dtype) * 1
    check(dist.all_sum(a), total, what)
    check(dist.all_sum(a) * 2 + 1, total * 2 + 1, what)
    check(dist.all_gather(a), np.concatenate(parts), what)
    # Views, and bytes that only some processes have on their GPU.
    check(dist.all_sum(a[1:]), total[1:], what)
    check(dist.all_sum(a[::2]), total[::2], what)
    check(dist.all_sum(a if rank == 0 else mx.add(a, 0, stream=mx.cpu)), total, what)
    if count % size == 0:
        n = count // size
        check(dist.sum_scatter(a), total[rank * n : (rank + 1) * n], what)
    if rank == 0:
        mx.eval(dist.send(a, 1))
    elif rank == 1:
        check(dist.recv_like(a, 0), parts[0], what)


def on_gpus():
    """Arrays of the GPU around the length from which on they stay there; memory comes and goes."""
    group = start()
    rank, size = group.rank(), group.size()
    names = "float32 bfloat16 int32 int64 uint8 complex64".split()
    counts = [1000, 65_536, 262_146, 300_001]
    if "SHORT" in os.environ:
        names, counts = names[::4], counts[::2]
    for name in names:
        for count in counts:
            exchanges(group, name, count)
    for i in range(20):
        x = mx.zeros((1 << 17,)) + (rank + i)
        want = sum(range(size)) + size * i
        assert mx.all(dist.all_sum(x) == want).item(), i
        if i % 5 == 4:
            mx.clear_cache()
    x = mx.ones((1 << 17,))
    gradient = mx.grad(lambda v: (dist.all_sum(v) ** 2).sum())(x)
    assert mx.all(gradient == 2 * size).item()
    print("fine", rank)


def pieces():
    """Arrays of a GPU that go over in several pieces, and small ones between them."""
    group = start()
    rank, size = group.rank(), group.size()
    for count in (20_000_003, 8_388_608, 5):
        parts = inputs("float32", (count,), size)
        a = mx.array(parts[rank])
        check(dist.all_sum(a), sum(parts[1:], parts[0]), count)
        check(dist.all_gather(a), np.concatenate(parts), count)
        check(dist.all_max(a[::-1]), np.maximum.reduce(parts)[::-1], count)
    rows = size * 9_000_001
    parts = inputs("int32", (rows,), size)
    own = slice(rank * rows // size, (rank + 1) * rows // size)
    check(dist.sum_scatter(mx.array(parts[rank])), sum(parts[1:], parts[0])[own], "sum_scatter")
    # Many that nobody waits for in between.
    x = mx.full((3,), rank + 1.0)
    for _ in range(300):
        x = dist.all_sum(x) * (1 / size)
    assert x.tolist() == [(size + 1) / 2] * 3
    print("fine", rank)


def begins():
    """Nobody asks for the last sums; others need them."""
    rank = start().rank()
    time.sleep(0.3 * rank)
    x = dist.all_sum(mx.ones((3,)))
    for _ in range(5):
        y = dist.all_sum(x)
        mx.async_eval(y)
    print("fine" if rank < 2 or y.tolist() == [9, 9, 9] else y)


def raises():
    """The second process ends by an exception while the others wait."""
    if start().rank() == 1:
        raise ValueError("an error of the program")
    mx.eval(dist.all_sum(mx.ones((3,))))
    print("never")


def refused():
    """Told by the test what to expect."""
    begin = time.perf_counter()
    try:
        group = start()
    except RuntimeError as error:
        assert os.environ.get("EXPECT", "MLX_MPI_LIBNAME") in str(error), error
        print(f"raised after {time.perf_counter() - begin:.3f} s: {error}")
        return
    raise AssertionError(f"a group of {group.size()}")


def fails_within():
    """Told by the test what to expect at the second process and at the others."""
    rank = start().rank()

    def twice():
        mx.eval(dist.all_sum(mx.ones((3,))))
        return dist.all_sum(mx.ones((3,)))

    failing(twice, os.environ["OWN" if rank == 1 else "OTHERS"])


def waits():
    """The second process never comes to a second sum."""
    rank = start().rank()
    limit = int(os.environ["MLX_DISTRIBUTED_TIMEOUT"])
    mx.eval(dist.all_sum(mx.ones((4,))))
    if rank == 1:
        time.sleep(4 * limit)
    else:
        told = f"nothing came from rank 1 within {limit} s"
        failing(lambda: dist.all_sum(mx.ones((4,))), told, within=3 * limit)


def ends():
    """The second process is done earlier."""
    rank = start().rank()
    mx.eval(dist.all_sum(mx.ones((4,))))
    if rank != 1:
        failing(lambda: dist.all_sum(mx.ones((4,))), "rank 1 has ended")


def meets():
    """The other process is no good: the test says how."""
    begin = time.perf_counter()
    try:
        dist.init(strict=True, backend="ring")
        mx.eval(dist.all_sum(mx.ones((1000,))))
    except RuntimeError as error:
        assert "rank 1" in str(error), error
        print(f"raised after {time.perf_counter() - begin:.3f} s: {error}")
    else:
        raise AssertionError("nothing was raised")


def never_forms():
    """Told by the test what to expect."""
    begin = time.perf_counter()
    try:
        start()
    except RuntimeError as error:
        assert os.environ["EXPECT"] in str(error), error
        print(f"raised after {time.perf_counter() - begin:.3f} s: {error}")
    else:
        raise AssertionError("the ring stands")
    assert (mx.ones((3,)) * 2).tolist() == [2, 2, 2]


if __name__ == "__main__":
    globals()[sys.argv[1]]()
