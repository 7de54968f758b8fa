"""Few rows by dense matrices of 16 bits and what follows, as one kernel on cooperative matrices:
values, and what must keep them apart. Where there are no such matrices, ordinary arithmetic in
their place."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
from test_eval_joined import close, gated, normal, rms, rounded, swiglu
from test_eval_joined_dense import Layer, apart
from test_eval_joined_rows import in_a_process, steps

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.validation,
    pytest.mark.usefixtures("none_disabled"),
]

#: Shapes of x before the last axis, and rows of the matrices: ends inside units of 16, one and
#: several eights of rows of x.
FORMS = [((2, 1), (40, 24, 7)), ((8, 1), (64, 33, 16)), ((13,), (17, 48, 3))]
FORMS += [((4, 5), (16, 32, 1)), ((32, 1), (80, 16, 24)), ((1, 29), (5, 5, 5))]
#: Lengths that one workgroup has, whose last part is not whole, and that several share.
LONG = [1024, 4096 + 40, 12288]
SHORT = [64, 392, 1352]


def few_rows(rng, form, dtype, k):
    """Rows by matrices in each way that joins, each one command."""
    shape, rows = form
    layers = [Layer(rng, n, k, dtype) for n in rows]
    x = normal(rng, *shape, k, dtype=dtype)
    row = h.to_np(x).astype(np.float64)

    def one(f):
        got, ran = steps(f)
        assert [name.startswith("matmul_held_") for name in ran] == [True], ran
        assert sum(ran.values()) == 1, ran
        return got

    for got, layer in zip(one(lambda: [p(x) for p in layers]), layers, strict=True):
        assert got.shape == (*shape, len(layer.values))
        close(got, layer.of(row), dtype)

    w = normal(rng, k, dtype=dtype)

    def normalised():
        y = mx.fast.rms_norm(x, w, 1e-5)
        return [p(y) for p in layers]

    out, ran = steps(normalised)
    # A workgroup that has whole rows normalises them.
    assert sum(ran.values()) == (1 if any("held_norm" in name for name in ran) else 2), ran
    for got, layer in zip(out, layers, strict=True):
        close(got, layer.of(rms(h.to_np(x), h.to_np(w), dtype)), dtype, 3)

    res = normal(rng, *shape, rows[0], dtype=dtype)
    product = rounded(layers[0].of(row), dtype)
    close(one(lambda: res + layers[0](x)), h.to_np(res) + product, dtype, 3)
    followed = one(lambda: mx.compile(lambda p, r: mx.tanh(p) * r + r)(layers[0](x), res))
    close(followed, np.tanh(product) * h.to_np(res) + h.to_np(res), dtype, 3)

    gate, up = (Layer(rng, rows[1], k, dtype) for _ in range(2))
    g, u = (rounded(p.of(row), dtype).astype(np.float64) for p in (gate, up))
    close(one(lambda: swiglu(gate(x), up(x))), gated(g, u), dtype, 4)
    again = [h.to_np(swiglu(gate(x), up(x))) for _ in range(2)]
    assert np.array_equal(*again)


def special_values(rng, k):
    """Infinities and NaN reach the results of their row of x, or of the matrix, alone."""
    layer, x = Layer(rng, 40, k, "bfloat16"), normal(rng, 5, k, dtype="bfloat16")
    res = normal(rng, 5, 40, dtype="bfloat16")
    plain = h.to_np(res + layer(x))
    v = h.to_np(x).copy()
    v[3, k - 1] = np.inf
    v[1, 0] = np.nan
    got = h.to_np(res + layer(h.from_np(v, "bfloat16")))
    assert np.array_equal(got[[0, 2, 4]], plain[[0, 2, 4]])
    assert np.isnan(got[1]).all()
    assert np.array_equal(got[3], np.inf * np.sign(layer.values[:, k - 1]))
    w = layer.values.copy()
    w[7, k - 1] = np.inf
    layer.layer.weight = h.from_np(w, "bfloat16")
    got = h.to_np(res + layer(x))
    keep = np.arange(40) != 7
    assert np.array_equal(got[:, keep], plain[:, keep])
    assert np.array_equal(got[:, 7], np.inf * np.sign(h.to_np(x)[:, k - 1]))


def multiplies(rng):
    """Whether the device has the matrices that the kernel needs."""
    layer, x = Layer(rng, 16, 1024, "float16"), normal(rng, 8, 1024, dtype="float16")
    res = normal(rng, 8, 16, dtype="float16")
    return any("matmul_held" in k for k in steps(lambda: res + layer(x))[1])


def here_or_plain(rng, body, here, plain):
    """`body` on these arguments, or on the others in a process with ordinary arithmetic."""
    if multiplies(rng):
        body(rng, *here)
    else:
        call = f"{body.__name__}(rng, *{plain!r})"
        in_a_process(f"import test_eval_joined_dense_rows as t; t.{call}")


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_few_rows_are_one_kernel(rng, dtype, form):
    # Compiling takes a CPU long: one length for each form and dtype.
    i = FORMS.index(form) + (dtype == "bfloat16")
    # Where there is another kernel, it has `test_long_matrices`.
    mx.vulkan._set_disabled(["matmul_wide"])
    here_or_plain(rng, few_rows, (form, dtype, LONG[i % 3]), (form, dtype, SHORT[i % 3]))


def test_infinities_and_nan(rng):
    here_or_plain(rng, special_values, (LONG[1],), (392,))


@pytest.mark.parametrize(
    ("dtype", "m", "k"), [("float32", 4, 1024), ("bfloat16", 40, 1024), ("bfloat16", 4, 1020)]
)
def test_what_stays_apart(rng, dtype, m, k):
    """Float32, more rows than 32, rows that begin within 16 bytes, rows of different arrays."""
    a, b = Layer(rng, 24, k, dtype), Layer(rng, 24, k, dtype)
    x, y = (normal(rng, m, 1, k, dtype=dtype) for _ in range(2))
    for f in (lambda: [a(x), b(y)], lambda: [a(x), b(x)], lambda: [a(x) + b(y)]):
        got, ran = steps(f)
        assert not any("matmul_held" in name for name in ran), ran
        for one, want in zip(got, apart(f), strict=True):
            assert np.array_equal(h.to_np(one), h.to_np(want))


def test_derivatives_pass(rng):
    a, b = Layer(rng, 32, 1024, "float16"), Layer(rng, 32, 1024, "float16")
    x = normal(rng, 4, 1, 1024, dtype="float16", scale=0.1)

    def loss(x):
        return swiglu(a(x), b(x)).astype(mx.float32).sum()

    got, want = mx.grad(loss)(x), apart(lambda: mx.grad(loss)(x))
    close(got, h.to_np(want).astype(np.float64), "float16", 4)


#: Rows of three matrices, and of two at once: several workgroups have all of K, or parts of it.
LENGTHS = [((16384, 1034, 30), 8500), ((4096, 530, 98), 1030), ((1500, 34, 66), 520)]


@pytest.mark.parametrize(
    ("rows", "k", "lengths", "dtype"),
    [
        (rows, k, lengths, "bfloat16")
        for rows, k, lengths in [
            (17, 64, 0),
            (20, 320, 0),
            (32, 1024, 0),
            (25, 192, 0),
            (8, 320, 0),
        ]
        + [(5, 4096, 1), (8, 12288, 1), (16, 4096, 1), (2, 2048, 2), (13, 3072, 1), (32, 12288, 1)]
        + [(29, 4096, 1), (32, 1088, 2)]
    ]
    + [(8, 4096, 1, "float16"), (32, 1088, 2, "float16"), (17, 320, 0, "float16")],
)
def test_long_matrices(rng, rows, k, lengths, dtype):
    """Several workgroups' rows, of several matrices, with all that follows."""
    lengths, both = LENGTHS[lengths]
    # A software driver has other kernels than those for matrices so large.
    (*lengths, both), (k,) = h.fit(*lengths, both), h.fit(k) if k > 2048 else (k,)
    x = normal(rng, rows, 1, k, dtype=dtype)
    v = h.to_np(x).copy()
    odd = min(3, rows - 1)
    v[odd, 0, k - 1] = np.inf
    x, row = h.from_np(v, dtype), v.astype(np.float64)
    finite = np.flatnonzero(np.arange(rows) != odd)
    at = mx.array(finite)

    def same(got, want, units=3):
        close(got[at], want[finite], dtype, units)

    three = [Layer(rng, n, k, dtype) for n in lengths]
    results = [p(x) for p in three]
    # Alone, too.
    mx.eval(results)
    for got, layer in zip([*results, three[0](x)], [*three, three[0]], strict=True):
        same(got, layer.of(row))
        assert np.array_equal(h.to_np(got)[odd, 0], np.inf * np.sign(layer.values[:, k - 1]))
    gate, up = (Layer(rng, both, k, dtype) for _ in range(2))
    g, u = (rounded(p.of(row[finite]), dtype).astype(np.float64) for p in (gate, up))
    close(swiglu(gate(x), up(x))[at], gated(g, u), dtype, 4)
    res = normal(rng, rows, 1, lengths[0], dtype=dtype)
    same(res + three[0](x), h.to_np(res) + rounded(three[0].of(row), dtype))
