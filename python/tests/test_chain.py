"""Very deep graphs are built, evaluated, differentiated, printed and freed without a deep stack."""

import gc

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

MILLION = 1_000_000


def chain(n):
    x = mx.zeros((1,))
    for _ in range(n):
        x = x + 1
    return x


def test_a_million_ops_evaluate():
    x = chain(MILLION)
    mx.eval(x)
    assert x.item() == MILLION
    h.works()


def test_a_million_ops_are_freed_unevaluated():
    x = chain(MILLION)
    del x
    gc.collect()
    h.works()


def test_a_million_views_evaluate():
    x = mx.arange(4)
    for _ in range(MILLION // 10):
        x = x[::-1]
    assert x.tolist() == [0, 1, 2, 3]


def test_a_long_chain_is_differentiated():
    def f(x):
        for _ in range(20000):
            x = x * 1.0001
        return x

    want = np.float64(1.0001) ** 20000
    assert mx.grad(f)(mx.array(1.0)).item() == pytest.approx(want, rel=1e-2)
    h.works()


def test_a_long_chain_is_printed():
    assert str(chain(100_000)) == "array([100000], dtype=float32)"
