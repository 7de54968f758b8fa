"""Products, attention and quantised products that are large enough for the kernels of matrix units,
in every layout, against float64. MLX_VK_WARPGROUP=all takes NVIDIA's warpgroups for all of them.
A software driver, which has no such kernels, gets smaller ones (`helpers.fit`)."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

EPS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
DTYPES = ["float16", "bfloat16"]


def close(got, want, bound, dtype, more=0.0):
    """One rounding of the result, and what float32 sums lose."""
    assert got.shape == want.shape
    error = np.abs(h.to_np(got).astype(np.float64) - want)
    most = 1.01 * EPS[dtype] * np.abs(want) + 2e-6 * bound + more + 1e-6
    assert (error <= most).all(), (
        f"{(error - most).max():.2e} too much, {(error > most).sum()} of {error.size}"
    )


def lie(x, dtype, form):
    """An array that lies as x does, transposed, or with aligned or odd gaps between rows."""
    if form == "t":
        return mx.swapaxes(h.from_np(np.ascontiguousarray(np.swapaxes(x, -1, -2)), dtype), -1, -2)
    gap = {"n": 0, "w": 8, "g": 3}[form]
    wide = np.concatenate([np.zeros((*x.shape[:-1], gap), x.dtype), x], axis=-1)
    return h.from_np(wide, dtype)[..., gap:]


def draw(rng, shape, dtype):
    return h.quantise(rng.normal(size=shape), dtype)


def product(x, y):
    x, y = x.astype(np.float64), y.astype(np.float64)
    return x @ y, np.abs(x) @ np.abs(y)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("m", "k", "n", "forms"),
    [
        (1024, 1024, 1024, "nn"),
        (1032, 1160, 1000, "nt"),
        (520, 1536, 2056, "nn"),
        (520, 1536, 2056, "nt"),
        (1048, 1024, 1112, "tn"),
        (1024, 1000, 1280, "tt"),
        (1001, 1113, 1207, "nn"),
        (1003, 1111, 1201, "tt"),
        (1024, 1160, 1032, "gw"),
        (1024, 1024, 1288, "wg"),
        (264, 6400, 776, "nt"),
        (72, 8192, 1544, "nn"),
    ],
)
def test_products(dtype, m, k, n, forms, rng):
    m, k, n = h.fit(m, k, n)
    x, y = draw(rng, (m, k), dtype), draw(rng, (k, n), dtype)
    got = mx.matmul(lie(x, dtype, forms[0]), lie(y, dtype, forms[1]))
    close(got, *product(x, y), dtype)


@pytest.mark.parametrize("forms", ["nn", "nt", "tn", "ww"])
@pytest.mark.parametrize(
    ("left", "right"), [((6,), (6,)), ((2, 3), (2, 1)), ((1, 1), (2, 3)), ((1, 3), (2, 1))]
)
def test_batches(left, right, forms, rng):
    m, k, n = h.fit(392, 520, 648)
    x, y = draw(rng, (*left, m, k), "bfloat16"), draw(rng, (*right, k, n), "bfloat16")
    got = mx.matmul(lie(x, "bfloat16", forms[0]), lie(y, "bfloat16", forms[1]))
    close(got, *product(x, y), "bfloat16")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("forms", ["nn", "nt", "tn", "tt", "ww", "gg"])
@pytest.mark.parametrize(
    "m, k, n", [(64, 64, 64), (60, 40, 56), (28, 16, 40), (32, 48, 64), (64, 8, 32)], ids=str
)
def test_many_small_products_of_short_k(dtype, m, k, n, forms, rng):
    many = 2**20 // (m * n) + 3  # enough for a kernel of their own, and no whole workgroups
    x, y = draw(rng, (many, m, k), dtype), draw(rng, (many, k, n), dtype)
    x[5, 3, 0] = np.nan
    got = lie(x, dtype, forms[0]) @ lie(y, dtype, forms[1])
    x[5, 3, 0] = 0
    want, bound = product(x, y)
    assert np.isnan(h.to_np(got)[5, 3].astype(np.float64)).all()
    got[5, 3] = want[5, 3] = bound[5, 3] = 0
    close(got, want, bound, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("addend", ["row", "column", "matrix"])
def test_sums_and_what_follows(dtype, addend, rng):
    m, k, n = h.fit(1048, 1024, 1000)
    lengths = {"row": (n,), "column": (m, 1), "matrix": (m, n)}[addend]
    x, y, c = (draw(rng, s, dtype) for s in ((m, k), (k, n), lengths))
    want, bound = product(x, y)
    a, b, d = (h.from_np(v, dtype) for v in (x, y, c))
    added = 0.5 * want + 2.0 * c.astype(np.float64)
    close(mx.addmm(d, a, b, alpha=0.5, beta=2.0), added, bound + 2 * np.abs(c), dtype)
    # The product is rounded first, as it is without compile.
    followed = mx.compile(lambda a, b: mx.maximum(mx.matmul(a, b), 0))
    close(followed(a, b), np.maximum(want, 0), bound, dtype)


def test_numbers_that_are_none_stay_in_their_row(rng):
    x, y = draw(rng, (1024, 1024), "bfloat16"), draw(rng, (1024, 1024), "bfloat16")
    x[3, 5], x[700, 1000] = np.nan, np.inf
    got = h.to_np(mx.matmul(h.from_np(x, "bfloat16"), h.from_np(y, "bfloat16")))
    assert np.isnan(got[3]).all()
    assert not np.isfinite(got[700]).any()
    assert np.isfinite(np.delete(got, [3, 700], 0)).all()


def test_results_repeat(rng):
    shape = h.fit(1024, 1152)
    x, y = (h.from_np(draw(rng, shape, "bfloat16"), "bfloat16") for _ in range(2))
    first = mx.matmul(x, y.T)
    assert all(mx.array_equal(first, mx.matmul(x, y.T)).item() for _ in range(3))


def weights(rng, shape, group, dtype):
    """Codes, their values, and how far each may be off: products with scales and sums with biases
    may be rounded to the dtype."""
    codes = mx.quantize(h.from_np(draw(rng, shape, dtype), dtype), group_size=group, bits=4)
    w = h.to_np(mx.dequantize(*codes, group_size=group, bits=4)).astype(np.float64)
    bias = np.repeat(h.to_np(codes[2]).astype(np.float64), group, axis=-1)
    return codes, w, 1.01 * EPS[dtype] * (np.abs(w - bias) + np.abs(w))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("group", [32, 64, 128])
@pytest.mark.parametrize(
    ("shape", "n"), [((512, 1024), 1024), ((1, 333, 1152), 1544), ((2, 200, 1024), 1000)]
)
def test_many_rows_by_codes(dtype, group, shape, n, rng):
    x = draw(rng, shape, dtype)
    codes, w, off = weights(rng, (n, shape[-1]), group, dtype)
    got = mx.quantized_matmul(h.from_np(x, dtype), *codes, transpose=True, group_size=group, bits=4)
    close(got, *product(x, w.T), dtype, np.abs(x) @ off.T)


@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize("kind", ["even", "few", "one", "unsorted"])
def test_sorted_rows_pick_matrices(kind, quantised, rng):
    dtype, matrices, rows, k, n = "bfloat16", 8, 700, 256, 136
    picks = np.sort(rng.integers(0, matrices, rows))
    if kind != "even":
        # `unsorted`: not as was said, and right all the same.
        picks = {"few": np.sort(rng.choice([1, 6], rows)), "one": np.full(rows, 5)}.get(
            kind, rng.permutation(picks)
        )
    x = draw(rng, (rows, 1, k), dtype)
    if quantised:
        codes, w, off = weights(rng, (matrices, n, k), 64, dtype)
        how = {"transpose": True, "group_size": 64, "bits": 4}
        got = mx.gather_qmm(
            h.from_np(x, dtype), *codes, rhs_indices=mx.array(picks), sorted_indices=True, **how
        )
    else:
        w, off = draw(rng, (matrices, n, k), dtype), np.zeros((matrices, n, k))
        right = mx.swapaxes(h.from_np(w, dtype), -1, -2)
        got = mx.gather_mm(
            h.from_np(x, dtype), right, rhs_indices=mx.array(picks), sorted_indices=True
        )
    turned = np.swapaxes(w[picks], -1, -2)
    close(got, *product(x, turned), dtype, np.abs(x) @ np.swapaxes(off[picks], -1, -2))


def attention(q, k, v, scale, causal, sinks=None):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) * scale
    if causal:
        seen = np.tril(np.ones(scores.shape[-2:], bool), k.shape[2] - q.shape[2])
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    if sinks is not None:
        top = np.maximum(top, sinks.reshape(1, -1, 1, 1))
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(sinks.reshape(1, -1, 1, 1) - top)
    weights = weights / total
    return weights @ v, weights @ np.abs(v)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("heads", "kv", "length", "keys", "d", "dv"),
    [
        (4, 2, 520, 520, 128, 128),
        (4, 1, 300, 1000, 64, 64),
        (2, 2, 640, 704, 96, 40),
        (3, 1, 777, 777, 120, 128),
    ],
)
@pytest.mark.parametrize("sinks", [False, True])
def test_attention_of_many_queries(dtype, causal, heads, kv, length, keys, d, dv, sinks, rng):
    length, keys = h.fit(length, keys)
    q, k, v = (
        draw(rng, (2, *s), dtype) for s in ((length, heads, d), (keys, kv, d), (keys, kv, dv))
    )
    sink = draw(rng, (heads,), dtype) if sinks else None
    got = mx.fast.scaled_dot_product_attention(
        *(h.from_np(x, dtype).transpose(0, 2, 1, 3) for x in (q, k, v)),
        scale=d**-0.5,
        mask="causal" if causal else None,
        sinks=None if sink is None else h.from_np(sink, dtype),
    )
    turned = [np.swapaxes(x, 1, 2) for x in (q, k, v)]
    want, bound = attention(*turned, d**-0.5, causal, sink)
    # Queries may be scaled in the dtype, weights are rounded to it, then the result is.
    error = np.abs(h.to_np(got).astype(np.float64) - want)
    assert (error <= 2.02 * EPS[dtype] * (np.abs(want) + bound) + 1e-6).all(), error.max()
