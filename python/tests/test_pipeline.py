"""mx.vulkan.pipeline: batches streamed through a function, in order, each failing for itself."""

import os

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

pipeline = mx.vulkan.pipeline


def batches(rng, sizes, dtype=np.float32):
    return [rng.normal(0, 9, (n, 3)).astype(dtype) for n in sizes]


@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize("chunk", [None, 7])
def test_results_come_in_order(depth, chunk, rng):
    data = batches(rng, [4, 20, 1, 7, 300, 8])
    results = list(pipeline(lambda x: x * 2 + 1, data, depth=depth, chunk=chunk))
    assert all(isinstance(r, mx.array) for r in results)
    for x, r in zip(data, results, strict=True):
        np.testing.assert_allclose(np.asarray(r), x * 2 + 1, rtol=1e-6)


@pytest.mark.parametrize("chunk", [None, 5])
@pytest.mark.parametrize("dtype", h.session_dtypes())
def test_every_dtype_passes_through(dtype, chunk, rng):
    if dtype == "float64":
        x = mx.array(rng.normal(0, 1, (12, 2)), mx.float64)
    else:
        x = h.from_np(h.quantise(rng.integers(0, 2, (12, 2)), dtype), dtype)
    (got,) = pipeline(lambda v: v, [x], chunk=chunk)
    assert got.dtype == x.dtype and got.shape == x.shape
    np.testing.assert_array_equal(h.to_np(got), h.to_np(x))


def test_tuples_become_arguments_and_trees_come_back(rng):
    data = [
        (rng.normal(size=(n, 2)).astype(np.float32), mx.arange(n), "name", 2.0) for n in (3, 9, 40)
    ]

    def f(x, i, name, scale):
        assert name == "name"
        return {"rows": x * scale, "pair": (i + 1, [x[:, 0]]), "word": name}

    for chunk in (None, 8):
        for (x, i, _, _), r in zip(data, pipeline(f, data, chunk=chunk), strict=True):
            assert r["word"] == "name"
            np.testing.assert_array_equal(np.asarray(r["rows"]), x * 2)
            np.testing.assert_array_equal(np.asarray(r["pair"][0]), np.array(i) + 1)
            np.testing.assert_array_equal(np.asarray(r["pair"][1][0]), x[:, 0])


@pytest.mark.validation
def test_large_batches_and_layouts(rng):
    big = rng.integers(0, 1000, (3, 100_000)).astype(np.int32)
    data = [big, np.asfortranarray(big), big[:, ::-2], mx.array(big).T, mx.array(big)[1:]]
    want = [np.array(x) for x in data]
    for chunk in (None, 2):
        for x, r in zip(want, pipeline(lambda x: x + 1, data, depth=3, chunk=chunk), strict=True):
            np.testing.assert_array_equal(np.asarray(r), x + 1)
    # Results that are no rows in a row: views, repeats, and what did not need the device.
    views = pipeline(lambda x: (x.T, x[:, ::3], mx.broadcast_to(x[:1], x.shape), x), data[:1])
    for r, x in zip(next(views), (big.T, big[:, ::3], big[:1].repeat(3, 0), big), strict=True):
        np.testing.assert_array_equal(np.asarray(r), x)


@pytest.mark.validation
def test_scalars_empties_and_constants(rng):
    x = rng.normal(size=(5, 2)).astype(np.float32)
    kept = mx.ones(3)
    data = [x, np.zeros((0, 2), np.float32), np.array(3, np.float32), x.astype(np.float64)]
    results = list(pipeline(lambda v: (v.sum(), v * 1, kept), data))
    for v, (total, same, ones) in zip(data, results, strict=True):
        np.testing.assert_allclose(total.item(), v.sum(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(np.asarray(same), v, rtol=1e-6)
        assert same.dtype == mx.float32 and ones.tolist() == [1, 1, 1]
    assert list(pipeline(lambda v: None, [x])) == [None]
    assert list(pipeline(lambda v: v, [])) == []


def test_results_are_arrays_like_others(rng):
    x = rng.normal(size=(300, 100)).astype(np.float32)
    (r,) = pipeline(lambda v: v + 1, [x])
    np.testing.assert_allclose(np.array(mx.exp(r * 0) + r @ mx.eye(100)), x + 2, rtol=1e-5)
    np.testing.assert_array_equal(np.array(r), x + 1)


def test_memory_of_a_batch_may_be_used_again(rng):
    buffer = np.empty((50_000,), np.float32)

    def source():
        for k in range(5):
            buffer[:] = k
            yield buffer

    for k, r in enumerate(pipeline(lambda x: x * 10, source(), depth=3)):
        assert np.asarray(r).min() == np.asarray(r).max() == 10 * k


def test_at_most_depth_batches_are_under_way():
    begun = []

    def source():
        for k in range(8):
            begun.append(k)
            yield np.full((4,), k, np.float32)

    for depth in (1, 2, 4):
        begun.clear()
        results = pipeline(lambda x: x + 0.5, source(), depth=depth)
        assert begun == []
        for k, r in enumerate(results):
            assert r.tolist() == [k + 0.5] * 4
            assert len(begun) == min(8, k + depth)


def test_a_failing_batch_raises_in_its_turn_and_the_rest_go_on():
    def f(x):
        if x.shape[0] % 2:
            raise KeyError(x.shape[0])
        return x.reshape(2, -1)

    data = [np.ones(n, np.float32) for n in (2, 3, 4, 5, 5, 6)] + ["text", np.ones(8, np.float32)]
    for depth in (1, 2, 4):
        for chunk in (None, 100):
            results = pipeline(f, data, depth=depth, chunk=chunk)
            seen = []
            while True:
                try:
                    seen.append(next(results).size)
                except StopIteration:
                    break
                except (KeyError, AttributeError) as e:
                    seen.append(type(e))
            assert seen == [2, KeyError, 4, KeyError, KeyError, 6, AttributeError, 8]
            assert list(results) == []


def test_errors_of_the_computation_and_of_the_source():
    def f(x):
        if x.shape[0] != 3:
            return x
        return mx.load("missing.npy") if not h.on_gpu() else broken(x)

    def broken(x):
        kernel = mx.fast.vulkan_kernel("broken", ["x"], ["y"], "y[0] = nonsense;")
        call = {"grid": (1, 1, 1), "threadgroup": (1, 1, 1), "output_shapes": [(1,)]}
        return kernel(inputs=[x], output_dtypes=[mx.float32], **call)[0]

    def source():
        for n in (2, 3, 4):
            yield np.ones(n, np.float32)
        raise OSError("no more")

    results = pipeline(f, source(), depth=2)
    assert next(results).shape == (2,)
    with pytest.raises((RuntimeError, ValueError, OSError)):
        next(results)
    assert next(results).shape == (4,)
    with pytest.raises(OSError, match="no more"):
        next(results)
    assert list(results) == []


def test_a_failing_chunk_fails_its_batch_alone():
    def f(x):
        if x[0].item() == 5:
            raise ZeroDivisionError
        return x + 1

    data = [np.arange(4.0), np.arange(20.0), np.arange(3.0)]
    results = pipeline(f, [d.astype(np.float32) for d in data], depth=3, chunk=5)
    assert next(results).tolist() == [1, 2, 3, 4]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert next(results).tolist() == [1, 2, 3]


def test_what_ends_programs_raises_at_once():
    def f(x):
        if x.shape == (2,):
            raise KeyboardInterrupt
        return x

    results = pipeline(f, [np.ones(1), np.ones(2), np.ones(3)], depth=2)
    with pytest.raises(KeyboardInterrupt):
        next(results)
    assert [r.size for r in results] == [1, 3]


def test_chunks_must_fit():
    x, y = np.ones((8, 2), np.float32), np.ones(3, np.float32)
    for f, batch, text in [
        (lambda a, b: a, (x, y), "one length"),
        (lambda a: a.sum(), x, "a row for each row"),
        (lambda a: a[:1], x, "a row for each row"),
        (lambda a: (a,) * a.shape[0], np.ones(8, np.float32), "different forms"),
    ]:
        results = pipeline(f, [batch, x[:2]], chunk=3)
        with pytest.raises(ValueError, match=text):
            next(results)


def test_chunk_size_from_the_environment(monkeypatch):
    sizes = []

    def f(x):
        sizes.append(x.shape[0])
        return x

    monkeypatch.setitem(os.environ, "MLX_VK_STREAM_CHUNK_ELEMS", "4")
    assert next(pipeline(f, [np.arange(10)])).tolist() == list(range(10))
    assert next(pipeline(f, [np.arange(3)], chunk=2)).tolist() == [0, 1, 2]
    assert sizes == [4, 4, 2, 2, 1]
    sizes.clear()
    monkeypatch.setitem(os.environ, "MLX_VK_STREAM_CHUNK_ELEMS", "many")  # passed over
    assert next(pipeline(f, [np.arange(10)])).tolist() == list(range(10))
    assert sizes == [10]


def test_bad_arguments():
    for arguments, error in [
        (dict(fn=3, batches=[]), TypeError),
        (dict(fn=abs, batches=3), TypeError),
        (dict(fn=abs, batches=[], depth=0), ValueError),
        (dict(fn=abs, batches=[], depth=-1), ValueError),
        (dict(fn=abs, batches=[], chunk=0), ValueError),
    ]:
        with pytest.raises(error):
            pipeline(**arguments)


def test_other_streams_and_early_ends(rng):
    data = batches(rng, [5000] * 4)
    s = mx.new_stream(mx.default_device())
    results = pipeline(lambda x: mx.add(x, 1), data, stream=s)
    np.testing.assert_allclose(np.asarray(next(results)), data[0] + 1, rtol=1e-6)
    del results
    mixed = pipeline(lambda x: mx.add(x, 1, stream=mx.cpu) * 2, data)
    for x, r in zip(data, mixed, strict=True):
        np.testing.assert_allclose(np.asarray(r), 2 * (x + 1), rtol=1e-5)


def test_the_source_runs_while_results_are_computed():
    """With depth 2 the next batch is asked for before the wait for the one before."""
    order = []

    def source():
        for k in range(3):
            order.append(f"ask {k}")
            yield np.full(4, k, np.float32)

    for k, _ in enumerate(pipeline(mx.abs, source())):
        order.append(f"have {k}")
    assert order == ["ask 0", "ask 1", "have 0", "ask 2", "have 1", "have 2"]


DISCRETE = """
import mlx.core as mx
import numpy as np
mx.set_default_device(mx.gpu)
data = [np.random.default_rng(k).integers(0, 99, (n, 6)).astype(np.uint32)
        for k, n in enumerate([10, 30_000, 400_000, 70_000, 1, 400_000])]
for depth in (1, 2, 3):
    for chunk in (None, 150_000):
        results = mx.vulkan.pipeline(lambda a, b: (a + b, a[:, ::2]), [(x, x) for x in data],
                                     depth=depth, chunk=chunk)
        for x, (total, part) in zip(data, results, strict=True):
            np.testing.assert_array_equal(np.asarray(total), x + x)
            np.testing.assert_array_equal(np.asarray(part), x[:, ::2])
            np.testing.assert_array_equal(np.array(total + 1), x + x + 1)
before = mx.get_active_memory()
for r in mx.vulkan.pipeline(lambda x: x + 1, (data[2] for _ in range(20))):
    assert mx.get_active_memory() - before < 6 * data[2].nbytes
assert mx.get_active_memory() - before < 6 * data[2].nbytes
print("equal")
"""


@pytest.mark.gpu
def test_staged_copies_give_equal_results():
    run = h.python(DISCRETE, env={"MLX_VK_UNIFIED": "0"}, timeout=200)
    assert run.stdout.split() == ["equal"]
