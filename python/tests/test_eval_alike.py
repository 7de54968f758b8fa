"""Steps of one kind over few elements each, whose operands are all there: one command, once their
operands lie one behind the other."""

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
        if turn > 0:
            assert count(ran) == 1, ran


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
