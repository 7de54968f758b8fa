"""Steps of one kind over not many elements each, whose operands are all there: one command."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
from test_eval_joined_rows import steps

pytestmark = [pytest.mark.gpu, pytest.mark.validation, pytest.mark.usefixtures("none_disabled")]


def count(ran):
    return sum(n for name, n in ran.items() if name.startswith("add"))


@pytest.mark.parametrize("shape", [(8,), (3,), (1,), (), (2, 5), (64,)], ids=str)
def test_lengths_that_grow(rng, shape):
    values = [rng.integers(0, 100, shape).astype(np.int32) for _ in range(12)]
    arrays = [mx.array(v) for v in values]
    for turn in range(4):
        arrays, ran = steps(lambda a=tuple(arrays), t=turn: [x + (t + 1) for x in a])
        values = [v + (turn + 1) for v in values]
        for a, v in zip(arrays, values, strict=True):
            assert a.shape == shape
            assert np.array_equal(h.to_np(a), v)
        assert count(ran) == 1, ran


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("size", [2560, 65, 100, 1001, 16384])
def test_weights_that_one_is_added_to(rng, size, dtype):
    """As models do whose norms are told by how much their weights differ from one."""
    values = [rng.standard_normal(size).astype(np.float32) for _ in range(9)]
    arrays = [mx.array(v).astype(getattr(mx, dtype)) for v in values]
    mx.eval(arrays)
    x = mx.ones((1, size), dtype=arrays[0].dtype)
    mx.eval(x)
    got, ran = steps(lambda: [1.0 + a for a in arrays])
    assert count(ran) == 1, ran
    for g, a in zip(got, arrays, strict=True):
        want = mx.array(1.0 + h.to_np(a.astype(mx.float32)), dtype=mx.float32).astype(a.dtype)
        assert g.dtype == a.dtype and mx.array_equal(g, want).item()
    rows, ran = steps(lambda: [mx.fast.rms_norm(x, 1.0 + a, 1e-6) for a in arrays])
    assert count(ran) == 1, ran
    for r, g in zip(rows, got, strict=True):
        assert mx.allclose(r[0], g, rtol=1e-2, atol=1e-2).item()


def test_more_than_a_command_takes_and_kinds_of_operands(rng):
    """Pairs of arrays, numbers of their own, views that begin anywhere, elements of eight bytes."""
    a, b = (rng.standard_normal((150, 70)).astype(np.float32) for _ in range(2))
    ones, others = ([mx.array(r) for r in v] for v in (a, b))
    whole = mx.array(a)
    mx.eval(ones, others, whole)
    got = [x * y for x, y in zip(ones, others, strict=True)]
    mx.eval(got)
    assert np.array_equal(np.stack([h.to_np(g) for g in got]), a * b)
    got, ran = steps(lambda: [x + float(i) for i, x in enumerate(ones)])
    assert count(ran) == 2, ran
    want = a + np.arange(150, dtype=np.float32)[:, None]
    assert np.array_equal(np.stack([h.to_np(g) for g in got]), want)
    views = [whole[i, 3:69] for i in range(20)]
    mx.eval(views)
    got = [v + 2 for v in views]
    mx.eval(got)
    assert np.array_equal(np.stack([h.to_np(g) for g in got]), a[:20, 3:69] + 2)
    turned = [whole[:, i] for i in range(6)]
    mx.eval(turned)
    got = [v + 2 for v in turned]
    mx.eval(got)
    assert np.array_equal(np.stack([h.to_np(g) for g in got]), a.T[:6] + 2)
    wide = [mx.array(r.astype(np.complex64)) for r in a[:8]]
    mx.eval(wide)
    got = [v + 1j for v in wide]
    mx.eval(got)
    assert np.array_equal(np.stack([h.to_np(g) for g in got]), a[:8] + np.complex64(1j))


def test_an_array_that_is_not_evaluated_yet(rng):
    """What other steps make is not read before it is there."""
    values = [rng.standard_normal(100).astype(np.float32) for _ in range(8)]
    arrays = [mx.array(v) for v in values]
    arrays[3] = mx.exp(arrays[3])
    got = [a + 1 for a in arrays]
    mx.eval(got)
    for i, (g, v) in enumerate(zip(got, values, strict=True)):
        assert np.allclose(h.to_np(g), (np.exp(v) if i == 3 else v) + 1, rtol=1e-6)


def test_two_arrays_and_other_kinds(rng):
    a, b = (
        [mx.array(rng.standard_normal(6).astype(np.float32)) for _ in range(5)] for _ in range(2)
    )
    for _ in range(2):
        before = [(h.to_np(x), h.to_np(y)) for x, y in zip(a, b, strict=True)]
        sums = [x + y for x, y in zip(a, b, strict=True)]
        products = [x * y for x, y in zip(a, b, strict=True)]
        mx.eval(sums, products)
        for s, p, (x, y) in zip(sums, products, before, strict=True):
            assert np.array_equal(h.to_np(s), x + y)
            assert np.array_equal(h.to_np(p), x * y)
        a, b = sums, products


def test_different_numbers_and_layouts(rng):
    values = rng.integers(0, 100, (8, 6)).astype(np.int32)
    whole = mx.array(values)
    mx.eval(whole)
    rows = [whole[i] for i in range(8)]
    columns = [whole[:, i] for i in range(6)]
    turned = [whole[i, ::-1] for i in range(8)]
    mx.eval(rows, columns, turned)
    for views, own in ((rows, values), (columns, values.T), (turned, values[:, ::-1])):
        got = [v + i for i, v in enumerate(views)]
        mx.eval(got)
        for i, (g, v) in enumerate(zip(got, own, strict=True)):
            assert np.array_equal(h.to_np(g), v + i)
        got = [v + 7 for v in views]
        mx.eval(got)
        for g, v in zip(got, own, strict=True):
            assert np.array_equal(h.to_np(g), v + 7)


def test_results_outlive_each_other(rng):
    """One of many results is held alone, written over and read on."""
    arrays = [mx.array(rng.integers(0, 9, 4).astype(np.int32)) for _ in range(6)]
    kept = []
    for _ in range(3):
        arrays = [a + 1 for a in arrays]
        mx.eval(arrays)
        kept.append(arrays[2])
        arrays[3] = arrays[3] * 2
    want = [h.to_np(k) for k in kept]
    kept[0][1] = 100
    mx.eval(kept)
    want[0] = want[0].copy()
    want[0][1] = 100
    for k, w in zip(kept, want, strict=True):
        assert np.array_equal(h.to_np(k), w)
    out = [a + b for a, b in zip(arrays, kept * 2, strict=True)]
    mx.eval(out)
    for o, a, b in zip(out, arrays, kept * 2, strict=True):
        assert np.array_equal(h.to_np(o), h.to_np(a) + h.to_np(b))


def test_readers_before_and_behind():
    a = [mx.full((2,), i) for i in range(6)]
    mx.eval(a)
    grown = [x + 1 for x in a]
    total = grown[5] + 0
    for g in reversed(grown[:5]):
        total = total * 2 + g
    again = [g + 1 for g in grown]
    mx.eval(total, again)
    want = np.full(2, 6.0)
    for i in reversed(range(5)):
        want = want * 2 + i + 1
    assert np.array_equal(h.to_np(total), want)
    for i, x in enumerate(again):
        assert np.array_equal(h.to_np(x), np.full(2, i + 2.0))


def test_without_it():
    mx.vulkan._set_disabled(["alike"])
    try:
        arrays = [mx.array([i, i]) for i in range(6)]
        _, ran = steps(lambda: [a + 1 for a in arrays])
        assert count(ran) == 6, ran
    finally:
        mx.vulkan._set_disabled([])
