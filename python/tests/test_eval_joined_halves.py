"""A gated unit whose two matrices are one, and what it gives split in halves: one kernel."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
import test_eval_joined as t
from test_eval_joined_dense import Layer

pytestmark = [pytest.mark.gpu, pytest.mark.validation, pytest.mark.usefixtures("none_disabled")]

#: How matrices are quantised; none for elements.
FORMS = [
    {"group_size": 64, "bits": 4},
    {"group_size": 32, "bits": 8},
    {"group_size": 64, "bits": 6},
    {"group_size": 32, "bits": 4, "mode": "mxfp4"},
    None,
]


def made(rng, rows, columns, dtype, form):
    return t.Matrix(rng, rows, columns, dtype, **form) if form else Layer(rng, rows, columns, dtype)


def unit(m, x):
    gate, up = mx.split(m(x), 2, axis=-1)
    return t.swiglu(gate, up)


def expected(m, rows, dtype):
    r = lambda a: t.rounded(a, dtype).astype(np.float64)  # noqa: E731
    gate, up = np.split(r(m.of(rows)), 2, axis=-1)
    return r(r(gate * r(1 / (1 + np.exp(-gate)))) * up)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("inner", "columns"), [(96, 192), (1040, 1024)])
def test_a_gated_unit_of_one_matrix(rng, inner, columns, dtype, form):
    m = made(rng, 2 * inner, columns, dtype, form)
    x, w = t.normal(rng, 1, 1, columns, dtype=dtype), t.normal(rng, columns, dtype=dtype)
    mx.eval(x, w)
    out, ran = h.kernels(lambda: unit(m, x))
    assert sum(ran.values()) == 1, ran
    rows = h.to_np(x).astype(np.float64).reshape(1, -1)
    t.close(out.reshape(1, -1), expected(m, rows, dtype), dtype, units=4)
    out, ran = h.kernels(lambda: unit(m, mx.fast.rms_norm(x, w, 1e-5)))
    assert sum(ran.values()) == 1, ran
    row = t.rms(h.to_np(x).reshape(1, -1), h.to_np(w), dtype)
    t.close(out.reshape(1, -1), expected(m, row, dtype), dtype, units=6)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("rows", [2, 5, 8, 33])
def test_several_rows(rng, rows, form):
    m = made(rng, 192, 256, "bfloat16", form)
    x = t.normal(rng, rows, 1, 256, dtype="bfloat16")
    out = unit(m, x)
    of = h.to_np(x).astype(np.float64).reshape(rows, -1)
    t.close(out.reshape(rows, -1), expected(m, of, "bfloat16"), "bfloat16", units=4)
    again = h.apart(lambda: unit(m, x), "qmm_joined", "gemv_joined")
    t.close(out, h.to_np(again).astype(np.float64), "bfloat16", units=4)


def test_what_else_reads_the_halves_or_the_whole_is_right(rng):
    m = made(rng, 192, 256, "float32", FORMS[0])
    x = t.normal(rng, 1, 256, dtype="float32")
    whole = m.of(h.to_np(x).astype(np.float64))
    gate, up = np.split(whole, 2, axis=-1)
    unit_of = gate / (1 + np.exp(-gate)) * up

    def kept():
        y = m(x)
        g, u = mx.split(y, 2, axis=-1)
        return t.swiglu(g, u), y, g

    for got, want in zip(kept(), (unit_of, whole, gate), strict=True):
        t.close(got, want, "float32", units=8)
    # Halves the other way round, unequal parts, three parts, parts that overlap, a half of rows.
    y = m(x)
    u, g = mx.split(y, 2, axis=-1)
    t.close(t.swiglu(g, u), up / (1 + np.exp(-up)) * gate, "float32", units=8)
    a, b = mx.split(m(x), [80], axis=-1)
    t.close(a[..., :80] * b[..., :80], whole[:, :80] * whole[:, 80:160], "float32", units=8)
    a, b, c = mx.split(m(x), 3, axis=-1)
    t.close(a * b + c, whole[:, :64] * whole[:, 64:128] + whole[:, 128:], "float32", units=8)
    y = m(x)
    t.close(y[..., :96] * y[..., 1:97], whole[:, :96] * whole[:, 1:97], "float32", units=8)
    y = m(x)
    t.close(y[..., :96] * y[..., :96], whole[:, :96] ** 2, "float32", units=8)


def test_halves_of_odd_numbers_of_rows(rng):
    for rows in (6, 40, 72):
        m = made(rng, rows, 128, "bfloat16", FORMS[0])
        x = t.normal(rng, 1, 128, dtype="bfloat16")
        of = h.to_np(x).astype(np.float64)
        t.close(unit(m, x), expected(m, of, "bfloat16"), "bfloat16", units=4)


def test_it_has_a_gradient(rng):
    m = made(rng, 64, 128, "float32", FORMS[0])
    x = t.normal(rng, 1, 128, dtype="float32")
    of = lambda x: unit(m, x).sum()  # noqa: E731
    got = h.to_np(mx.grad(of)(x)).astype(np.float64)
    want = np.zeros_like(got)
    row = h.to_np(x).astype(np.float64)
    f = lambda r: expected(m, r, "float32").sum()  # noqa: E731
    for i in range(0, 128, 9):
        step = np.zeros_like(row)
        step[0, i] = 1e-3
        want[0, i] = (f(row + step) - f(row - step)) / 2e-3
        assert abs(got[0, i] - want[0, i]) <= 2e-3 * np.abs(got).max()
