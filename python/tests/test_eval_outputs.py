"""Operations with several outputs, whose first one is reached first, and kernels of several steps
that read the others: each output is there before it is read, wherever the steps are joined."""

import mlx.core as mx
import numpy as np
import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("none_disabled")]

KEY = mx.random.key(3)
ROWS, COLUMNS = 8, 64


@mx.compile
def two(x):
    """Two outputs of one kernel."""
    t = mx.sin(x)
    return mx.sqrt(t + 2), mx.cos(t)


def quantised(x):
    return mx.quantize(x, group_size=32, bits=8)[:2]


def apart(x):
    return mx.divmod(x, mx.array(0.37))


def weights():
    r = np.random.default_rng(7)
    w = mx.array(r.standard_normal((COLUMNS, COLUMNS)).astype(np.float32))
    return mx.quantize(w, group_size=32, bits=4)


def rows(n):
    r = np.random.default_rng(8)
    return mx.array(r.standard_normal((n, COLUMNS)).astype(np.float32))


def product(x, after=None):
    y = mx.quantized_matmul(x, *weights(), group_size=32, bits=4)
    return y if after is None else y + after[: len(x)]


def looked_up(index):
    codes, scales, biases = table = weights()
    mx.eval(table)
    return mx.dequantize(codes[index], scales[index], biases[index], group_size=32, bits=4)


READERS = {
    "draw": lambda b: mx.random.uniform(0, 1, b.shape, key=KEY) * b,
    "pad": lambda b: mx.pad(b, [(1, 2), (0, 3)]),
    "concatenate": lambda b: mx.concatenate([rows(ROWS), b, b], -1),
    "product, then sum": lambda b: product(rows(1), b),
    "products of rows, then sum": lambda b: product(rows(4), b),
    "norm, then products": lambda b: product(mx.fast.rms_norm(b, None, 1e-5)),
    "sum, norm, products": lambda b: product(mx.fast.rms_norm(rows(ROWS) + b, None, 1e-5)),
    "log-softmax": lambda b: b - mx.logsumexp(b, -1, keepdims=True),
    "rows of a table": lambda b: looked_up((b * 20).astype(mx.int32)),
    "rotation": lambda b: mx.fast.rope(
        b.reshape(1, 1, *b.shape), 32, traditional=False, base=1e4, scale=1.0, offset=5
    ),
    "top of rows": lambda b: mx.topk(mx.tile(b, (1, 64)), 7),
    "order of rows": lambda b: mx.argsort(mx.tile(b, (1, 64)), -1)[:, :9],
    "gathered": lambda b: mx.take_along_axis(b, mx.argpartition(-b, 7, -1)[:, :8], -1),
}


@pytest.mark.parametrize("deep", [0, 1, 3])
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("make", [two, apart], ids=["compiled", "divmod"])
def test_second_output_is_there(make, name, deep):
    x = rows(ROWS)
    mx.eval(x)

    def outputs():
        made = x
        for _ in range(deep):
            made = mx.cumsum(made, -1) / 8
        return make(made)

    first, second = outputs()
    mx.eval(first, second)
    want = READERS[name](mx.array(second))
    mx.eval(want)
    for order in (1, -1):
        first, second = outputs()
        both = [first, READERS[name](second)]
        del second
        mx.eval(both[::order])
        np.testing.assert_allclose(np.array(both[1]), np.array(want), rtol=1e-5, atol=1e-5)


def test_second_output_of_quantize_is_there():
    x = mx.exp(mx.exp(rows(ROWS)))
    codes, scales = quantised(x)
    mx.eval(codes, scales)
    want = np.array(mx.random.uniform(0, 1, scales.shape, key=KEY) + scales)
    codes, scales = quantised(mx.exp(mx.exp(rows(ROWS))))
    both = [codes, mx.random.uniform(0, 1, scales.shape, key=KEY) + scales]
    del scales
    mx.eval(both)
    np.testing.assert_array_equal(np.array(both[1]), want)
