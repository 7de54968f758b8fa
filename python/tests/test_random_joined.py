"""Random draws with the steps behind them, which a GPU computes in one kernel: the numbers of the
steps one by one, bit for bit, and what stays apart."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.validation,
    pytest.mark.usefixtures("none_disabled"),
]

SHAPES = [(), (1,), (2,), (3,), (1023,), (7, 5), (3, 2, 11)]


def kernels(f):
    """What `f` gives, and how many kernels that draw and others ran for it."""
    out, ran = h.kernels(f)
    return (
        out,
        [k for k in ran if k.startswith("random")],
        [k for k in ran if not k.startswith("random")],
    )


def bits(a):
    """The elements as integers of their width."""
    mx.eval(a)
    size = {1: mx.uint8, 2: mx.uint16, 4: mx.uint32, 8: mx.uint64}[a.itemsize]
    a = a if a.dtype != mx.bool_ else a.astype(mx.uint8)
    return np.array(a.view(size))


def check(f, label, joined=True):
    """One kernel draws; its results are those of the steps."""
    got, draws, others = kernels(f)
    mx.vulkan._set_disabled(["random_joined"])
    want, apart, _ = kernels(f)
    mx.vulkan._set_disabled([])
    assert got.shape == want.shape and got.dtype == want.dtype, label
    np.testing.assert_array_equal(bits(got), bits(want), err_msg=str(label))
    assert len(draws) == len(apart) == (got.size > 0), label
    if joined and got.size > 0:
        assert not others, (label, others)


def draws(shape, key):
    r = mx.random
    for dtype in (mx.float32, mx.float16, mx.bfloat16):
        yield "uniform", dtype, lambda d=dtype: r.uniform(-2, 3.5, shape, d, key=key)
        yield "unit", dtype, lambda d=dtype: r.uniform(shape=shape, dtype=d, key=key)
        yield "normal", dtype, lambda d=dtype: r.normal(shape, d, key=key)
        yield "gumbel", dtype, lambda d=dtype: r.gumbel(shape, d, key=key)
        yield "laplace", dtype, lambda d=dtype: r.laplace(shape, d, key=key)
    for dtype in h.BOOL + h.INTS:
        yield "randint", dtype, lambda d=dtype: r.randint(0, 100, shape, h.mx_dtype(d), key=key)
    yield "bernoulli", "", lambda: r.bernoulli(0.3, shape, key=key)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_numbers_are_those_of_the_steps(shape):
    for name, dtype, f in draws(shape, mx.random.key(3)):
        # Bounds of truths are arrays of kernels of their own.
        check(f, (name, dtype, shape), dtype != "bool_")


@pytest.mark.parametrize("shape", [(5,), (4, 6), (2, 3, 8)], ids=str)
def test_parameters_that_are_arrays(shape, rng):
    key = mx.random.key(5)
    n = shape[-1]
    for dtype in h.FLOATS:
        d = h.mx_dtype(dtype)
        whole = h.from_np(rng.random(shape), dtype)
        row, column = (
            h.from_np(rng.random(n), dtype),
            h.from_np(rng.random((*shape[:-1], 1)), dtype),
        )
        turned = h.from_np(rng.random(shape[::-1]), dtype).T
        odd = h.from_np(rng.random((*shape[:-1], 3 * n)), dtype)[..., ::-3]
        mx.eval(whole, row, column, turned, odd)
        for a in (whole, row, column, turned, odd):
            label = (dtype, shape, a.shape)
            check(lambda a=a, d=d: mx.random.uniform(-a, a + 1, shape, d, key=key), label, False)
            check(lambda a=a, d=d: mx.random.normal(shape, d, loc=a, key=key), label)
            check(lambda a=a, d=d: mx.random.normal(shape, d, a, a, key=key), label, False)
            check(lambda d=d: mx.random.laplace(shape, d, 0.5, 3.0, key=key), label)
            check(lambda a=a: mx.random.bernoulli(a, shape, key=key), label, dtype == "float32")
            check(
                lambda a=a, d=d: mx.random.truncated_normal(-a, a, shape, d, key=key), label, False
            )
    low = mx.array(rng.integers(-50, 0, n))
    high = mx.array(rng.integers(1, 50, (*shape[:-1], 1)))
    mx.eval(low, high)
    for dtype in ("int8", "int32", "uint16", "int64"):
        d = h.mx_dtype(dtype)
        check(lambda d=d: mx.random.randint(low, high, shape, d, key=key), (dtype, shape), False)
        check(lambda d=d: mx.random.randint(0, high, shape, d, key=key), (dtype, shape), False)


def test_global_keys_and_the_host_give_the_same():
    for shape in SHAPES:
        for name, _, f in draws(shape, None):
            mx.random.seed(9)
            got = bits(f())
            mx.vulkan._set_disabled(["random_joined"])
            mx.random.seed(9)
            np.testing.assert_array_equal(got, bits(f()), err_msg=name)
            mx.vulkan._set_disabled([])
    key = mx.random.key(1)
    for dtype in h.INTS:
        d = h.mx_dtype(dtype)
        got = mx.random.randint(-7, 100, (1023,), d, key=key)
        want = mx.random.randint(-7, 100, (1023,), d, key=key, stream=mx.cpu)
        np.testing.assert_array_equal(np.array(got), np.array(want))
    for p in (0.0, 0.3, 1.0, mx.array([0.1, 0.5, 0.9])):
        got = mx.random.bernoulli(p, (341, 3), key=key)
        want = mx.random.bernoulli(p, (341, 3), key=key, stream=mx.cpu)
        np.testing.assert_array_equal(np.array(got), np.array(want))


def test_steps_of_a_program_are_joined_too():
    key, x = mx.random.key(2), mx.arange(600.0).reshape(20, 30)
    mx.eval(x)

    def dropped(key):
        return mx.random.bernoulli(0.7, x.shape, key=key) * x / 0.7

    check(lambda: dropped(key), "dropout")
    compiled = mx.compile(dropped)
    check(lambda: compiled(key), "dropout, compiled")
    check(lambda: mx.random.categorical(x, key=key), "categorical", False)


def test_what_is_needed_besides_is_kept():
    key = mx.random.key(2)
    u = mx.random.uniform(shape=(50,), key=key)
    y = mx.log(u + 1)
    (got, again), draws, others = kernels(lambda: (y, u))
    assert len(draws) == 1 and others
    np.testing.assert_allclose(np.array(got), np.log(np.array(again) + 1), rtol=1e-5)
    a = mx.random.uniform(shape=(50,), key=key)
    np.testing.assert_array_equal(np.array(a), np.array(again))
    # Several keys are drawn from by a kernel of their own.
    keys = mx.random.split(key, 4)
    f = mx.vmap(lambda k: mx.random.uniform(-1, 1, (9,), key=k))
    want = np.stack([np.array(mx.random.uniform(-1, 1, (9,), key=k)) for k in keys])
    np.testing.assert_array_equal(np.array(f(keys)), want)


def test_derivatives_reach_the_parameters():
    key = mx.random.key(7)

    def f(loc, scale):
        return mx.random.normal((5, 4), loc=loc, scale=scale, key=key).sum()

    loc, scale = mx.zeros(4), mx.ones((5, 1))
    da, db = mx.grad(f, argnums=(0, 1))(loc, scale)
    np.testing.assert_allclose(np.array(da), np.full(4, 5.0))
    unit = np.array(mx.random.normal((5, 4), key=key))
    np.testing.assert_allclose(np.array(db)[:, 0], unit.sum(1), rtol=1e-5)
