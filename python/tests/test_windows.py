"""Windows against NumPy."""

import mlx.core as mx
import numpy as np
import pytest

NAMES = ["bartlett", "blackman", "hamming", "hanning"]


@pytest.mark.parametrize("name", NAMES)
def test_values(name):
    for n in (0, 1, 2, 3, 4, 5, 8, 33, 100, 1001):
        got, want = getattr(mx, name)(n), getattr(np, name)(n)
        assert got.dtype == mx.float32 and got.shape == (n,)
        x = np.array(got)
        np.testing.assert_allclose(x, want, rtol=2e-6, atol=1e-12 if name != "blackman" else 1e-7)
        np.testing.assert_array_equal(x, x[::-1])
        if n > 1 and name != "hamming":
            assert x[0] == 0 == x[-1]
    assert getattr(mx, name)(-1).shape == (0,)
    assert getattr(mx, name)(M=3, stream=mx.cpu).shape == (3,)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [3.0, None, "3", 2**40])
def test_refusals(name, bad):
    with pytest.raises(TypeError):
        getattr(mx, name)(bad)
