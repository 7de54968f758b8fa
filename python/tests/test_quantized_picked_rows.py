"""Rows of quantised tables by index, dequantised where they lie: bits, and what stays apart."""

import helpers as h
import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.validation,
    pytest.mark.usefixtures("none_disabled"),
]

#: Mode, group size and bits.
FORMATS = [
    ("affine", 64, 4),
    ("affine", 32, 2),
    ("affine", 64, 8),
    ("affine", 128, 3),
    ("affine", 32, 5),
    ("affine", 64, 6),
    ("affine", 32, 1),
    ("mxfp4", 32, 4),
    ("mxfp8", 32, 8),
    ("nvfp4", 16, 4),
]


def bits(a):
    a = a.view({4: mx.uint32, 2: mx.uint16}[a.dtype.size])
    return np.array(a)


def table(rows, dims, dtype="bfloat16", scheme=FORMATS[0]):
    mode, group, width = scheme
    values = np.random.default_rng(rows + dims).standard_normal((rows, dims)).astype(np.float32)
    parts = mx.quantize(h.from_np(values, dtype), group, width, mode)
    mx.eval(parts)
    return parts


def rows_of(parts, index, scheme=FORMATS[0], **more):
    mode, group, width = scheme
    codes, scales, *biases = parts
    biases = biases[0][index] if biases else None
    return mx.dequantize(codes[index], scales[index], biases, group, width, mode, **more)


def check(parts, index, kernels=1, scheme=FORMATS[0], **more):
    """The bits of rows of the whole table's values, in so many kernels."""
    mode, group, width = scheme
    whole = mx.dequantize(*parts, group_size=group, bits=width, mode=mode, **more)
    at = np.array(index).astype(np.int64)
    rows = whole.shape[0]
    at = np.clip(np.where(at < 0, at + rows, at), 0, rows - 1)
    want = bits(whole)[at]
    got, ran = h.kernels(lambda: rows_of(parts, index, scheme, **more))
    assert got.dtype == whole.dtype
    np.testing.assert_array_equal(bits(got), want)
    assert sum(ran.values()) == kernels, ran
    np.testing.assert_array_equal(
        bits(h.apart(lambda: rows_of(parts, index, scheme, **more), "dequantize_rows")), want
    )


@pytest.mark.parametrize("scheme", FORMATS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_every_format(scheme, dtype):
    parts = table(37, 384, dtype, scheme)
    index = mx.array([[3, 36, 0], [3, 17, 36]], dtype=mx.int32)
    check(parts, index, scheme=scheme)


@pytest.mark.parametrize("kind", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("shape", [(1,), (1, 1), (5,), (2, 3, 4)])
def test_indices(shape, kind):
    parts = table(300, 128)
    rng = np.random.default_rng(len(shape))
    check(parts, mx.array(rng.integers(0, 300, shape), dtype=h.mx_dtype(kind)))


def test_indices_from_the_end_and_outside():
    parts = table(300, 64)
    for kind in (mx.int32, mx.int64):
        check(parts, mx.array([-1, -300, -301, -(2**31), 299, 300, 2**31 - 1], dtype=kind))
    check(parts, mx.array([-(2**31) - 1, -(2**40), 2**31, 2**40, -5, 2**32 + 7], dtype=mx.int64))
    check(parts, mx.array([299, 300, 2**31 - 1], dtype=mx.uint32))
    # Beyond what the check's own arithmetic holds.
    got = rows_of(parts, mx.array([2**32 - 1, 2**31, 1], dtype=mx.uint32))
    np.testing.assert_array_equal(bits(got), bits(rows_of(parts, mx.array([299, 299, 1]))))


def test_indices_with_gaps():
    parts = table(300, 64)
    index = mx.arange(24).reshape(4, 6)
    mx.eval(index)
    check(parts, index.T, kernels=2)
    check(parts, index[::2, ::-1], kernels=2)


def test_what_a_layer_looks_up():
    layer = nn.QuantizedEmbedding(1000, 256)
    mx.eval(layer.parameters())
    values = mx.dequantize(layer.weight, layer.scales, layer.biases, 64, 4)
    tokens = mx.array([[7, 999, 0]])
    got, ran = h.kernels(lambda: layer(tokens))
    np.testing.assert_array_equal(np.array(got), np.array(values)[np.array(tokens)])
    assert sum(ran.values()) == 1 and next(iter(ran)).startswith("dequantize_rows"), ran
    # The last token of a row of scores, as generation has it.
    scores = mx.zeros((1, 1000)).at[0, 41].add(1)
    got, ran = h.kernels(lambda: layer(mx.argmax(scores, axis=-1)[None]))
    np.testing.assert_array_equal(np.array(got)[0, 0], np.array(values)[41])
    assert any(name.startswith("dequantize_rows") for name in ran), ran


def test_what_is_read_besides_stays():
    parts = table(50, 64)
    index = mx.array([4, 2])
    codes = parts[0][index]
    got = mx.dequantize(codes, parts[1][index], parts[2][index], 64, 4)
    mx.eval(got)
    np.testing.assert_array_equal(np.array(codes), np.array(parts[0])[[4, 2]])
    other = mx.dequantize(parts[0][index], parts[1][mx.array([2, 4])], parts[2][index], 64, 4)
    code, scale, bias = (np.array(p.astype(mx.float32) if i else p) for i, p in enumerate(parts))
    nibbles = (code[:, :, None] >> np.arange(0, 32, 4, dtype=np.uint32)) & 15
    nibbles = nibbles.reshape(50, 64).astype(np.float32)
    product = h.round_bf16(nibbles[[4, 2]] * scale[[2, 4]])
    want = h.round_bf16(product + bias[[4, 2]])
    np.testing.assert_array_equal(np.array(other.astype(mx.float32)), want)


def test_no_rows_and_other_dtypes():
    parts = table(50, 64)
    assert rows_of(parts, mx.zeros((0,), mx.int32)).shape == (0, 64)
    check(parts, mx.array([1, 5], dtype=mx.uint8), kernels=4)
    mode = ("mxfp4", 32, 4)
    check(table(9, 64, scheme=mode), mx.array([1, 8]), scheme=mode, dtype=mx.float32)


def test_gradients_of_scales():
    parts = table(20, 64, "float32")
    index = mx.array([3, 3, 19])

    def f(scales):
        return rows_of([parts[0], scales, parts[2]], index).sum()

    got = np.array(mx.grad(f)(parts[1]))
    nibbles = (np.array(parts[0])[:, :, None] >> np.arange(0, 32, 4, dtype=np.uint32)) & 15
    sums = nibbles.reshape(20, 1, 64).sum(-1).astype(np.float32)
    want = np.zeros_like(got)
    np.add.at(want, [3, 3, 19], sums[[3, 3, 19]])
    np.testing.assert_allclose(got, want, rtol=1e-6)
