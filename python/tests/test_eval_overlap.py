"""Commands that begin while those before them end (MLX_VK_DISABLE=overlap): the same bits as behind
barriers, whatever lies between and however often memory is used again."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
import test_eval_joined as t

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("none_disabled")]


class Layers:
    """Products with residuals and gated units, each of the last one's result."""

    def __init__(self, rng, width, inner, layers):
        def matrix(n, k):
            parts = mx.quantize(t.normal(rng, n, k, dtype="bfloat16", scale=0.1), bits=4)
            mx.eval(parts)
            return lambda x: mx.quantized_matmul(x, *parts, bits=4)

        self.layers = [
            (matrix(inner, width), matrix(inner, width), matrix(width, inner))
            for _ in range(layers)
        ]
        self.weights = t.normal(rng, width, dtype="bfloat16")

    def step(self, x, between):
        for i, (gate, up, down) in enumerate(self.layers):
            y = mx.fast.rms_norm(x, self.weights, 1e-6)
            g = gate(y)
            x = x + down(g * mx.sigmoid(g) * up(y)) * mx.array(0.1, mx.bfloat16)
            if between and i % 3 == 1:
                # A shader between, and one that nobody waits for.
                x = mx.tanh(x)
        return x


@pytest.mark.parametrize("rows", [1, 8, 20, 32])
@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("width, inner", [(1024, 2048), (2048, 4096)])
def test_the_same_bits_as_behind_barriers(rng, rows, between, width, inner):
    width, inner = h.fit(width, inner)
    model = Layers(rng, width, inner, 4)
    xs = [t.normal(rng, 1, rows, width, dtype="bfloat16") for _ in range(4)]
    mx.eval(xs)

    def run():
        return [model.step(x, between) for x in xs]

    expected = [h.to_np(a) for a in h.apart(run, "overlap")]
    for _ in range(5):
        got = run()
        mx.eval(got)
        for a, b in zip(got, expected, strict=True):
            assert np.array_equal(h.to_np(a), b, equal_nan=True)


def test_weights_that_were_just_written(rng):
    """What kernels read before they wait is not what a command before them writes."""
    x = t.normal(rng, 1, 8, 1024, dtype="bfloat16")
    parts = [
        mx.quantize(t.normal(rng, 1024, 1024, dtype="bfloat16"), group_size=64, bits=4)
        for _ in range(2)
    ]
    mx.eval(x, parts)

    def run():
        y = x
        for i in range(6):
            w, scales, biases = parts[i % 2]
            scales = scales * mx.array(1 + i, mx.bfloat16)
            y = mx.quantized_matmul(y, w, scales, biases, group_size=64, bits=4)
        return [y]

    expected = h.to_np(h.apart(run, "overlap")[0])
    for _ in range(10):
        assert np.array_equal(h.to_np(run()[0]), expected, equal_nan=True)
