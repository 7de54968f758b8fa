"""One row by matrices of four bits that walk by it (qmm_stream), on any device, against float64."""

import os

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
import test_eval_joined as t

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("none_disabled")]

#: Widths, groups, rows of three matrices: whole teams and parts of one, rows beside whole units.
FORMS = [
    (1024, 64, (50, 33, 1)),
    (1536, 64, (17, 48, 3)),
    (2048, 128, (9, 4, 30)),
    (4096, 32, (12, 7, 2)),
    (4096, 64, (40, 16, 5)),
    (4160, 64, (6, 5, 7)),
    (12288, 64, (10, 3, 4)),
    (160, 32, (29, 31, 11)),
]


def streamed(call, disabled):
    """Runs `call` of this file where the kernel takes rows of any length."""
    code = f"""
    import sys
    sys.path.insert(0, {os.path.dirname(__file__)!r})
    import mlx.core as mx
    import numpy as np
    mx.set_default_device(mx.gpu)
    import test_quantized_stream as s
    s.{call}(np.random.default_rng(23))
    """
    h.python(code, env={"MLX_VK_QMM": "stream", "MLX_VK_DISABLE": disabled}, timeout=280)


def only_streams(ran):
    assert all("qmm_stream_" in k for k in ran if "qmm" in k), ran


def every_form(rng):
    for form, dtype in zip(FORMS, 4 * ["bfloat16", "float16"], strict=True):
        only_streams(t.long_rows(rng, form, dtype))


def bits_of_one(rng):
    """Rows have their bits whatever stands beside them: alone, joined, and in a gated unit."""
    for k, group, dtype in [(1536, 64, "bfloat16"), (2048, 32, "float16")]:
        mats = [t.Matrix(rng, n, k, dtype, group_size=group, bits=4) for n in (23, 23, 6)]
        x = t.normal(rng, 1, k, dtype=dtype)
        joined, ran = h.kernels(lambda mats=mats, x=x: [m(x) for m in mats])
        only_streams(ran)
        for got, m in zip(joined, mats, strict=True):
            for row in range(0, m.parts[0].shape[0], 5):
                parts = [p[row : row + 1] for p in m.parts]
                one = mx.quantized_matmul(x, *parts, group_size=group, bits=4)
                assert np.array_equal(h.to_np(one)[0, 0], h.to_np(got)[0, row])
        pair = lambda mats=mats, x=x: t.swiglu(mats[0](x), mats[1](x))  # noqa: E731
        off = [n for n in os.environ.get("MLX_VK_DISABLE", "").split(",") if n]
        assert np.array_equal(h.to_np(pair()), h.to_np(h.apart(pair, "qmm_joined", *off)))


def no_numbers(rng):
    """Infinities and NaN of x reach all results, those of factors the rows that they are of."""
    for dtype in ("float16", "bfloat16"):
        t.far_values(rng, dtype)
    for k in (1024 + 3 * 64, 1024 + 4 * 64):
        t.large_factors(rng, k)
    m = t.Matrix(rng, 21, 1536, "bfloat16")
    x = t.normal(rng, 1, 1536, dtype="bfloat16")
    want = m.of(h.to_np(x).astype(np.float64))[0]
    for part, row, value in [(1, 20, np.inf), (2, 3, -np.inf), (1, 0, np.nan), (2, 13, np.nan)]:
        parts = list(m.parts)
        factors = h.to_np(parts[part]).copy()
        factors[row, 5] = value
        parts[part] = mx.array(factors).astype(mx.bfloat16)
        got = h.to_np(mx.quantized_matmul(x, *parts, group_size=64, bits=4)).astype(np.float64)[0]
        assert not np.isfinite(got[row])
        rest = np.arange(21) != row
        np.testing.assert_allclose(got[rest], want[rest], atol=2.0**-6 * np.abs(want).max())
    for value in (np.inf, -np.inf, np.nan):
        v = h.to_np(x).copy()
        v[0, 700] = value
        got = h.to_np(m(mx.array(v).astype(mx.bfloat16)))
        assert not np.isfinite(got).any()


@pytest.mark.parametrize("disabled", ["", "qmm_stream_ptx", "qmm_stream_ptx,qmm_stream_masks"])
@pytest.mark.parametrize("call", ["every_form", "bits_of_one", "no_numbers"])
def test_one_row_by_codes_that_walk_by(call, disabled):
    streamed(call, disabled)
