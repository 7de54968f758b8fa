"""Running sums, products, extrema, log-sum-exps and diff: values against NumPy, the rules for
dtypes and ends, derivatives against finite differences."""

import functools

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

NAMES = ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"]
FORMS = [{"reverse": r, "inclusive": i} for r in (False, True) for i in (True, False)]
EPS = {
    "float16": 1e-3,
    "bfloat16": 8e-3,
    "float32": 1.2e-7,
    "float64": 2.3e-16,
    "complex64": 1.2e-7,
}


def identity(name, dtype):
    """What comes before the first element, in the dtype of the result."""
    kind = np.dtype(dtype).kind
    if name in ("cumsum", "cumprod"):
        return name == "cumprod"
    if name == "logcumsumexp":
        return -np.inf
    low = name == "cummax"
    if kind == "b":
        return not low
    if kind in "iu":
        return np.iinfo(dtype).min if low else np.iinfo(dtype).max
    end = -np.inf if low else np.inf
    return complex(end, end) if kind == "c" else end


def reference(name, x, axis=None, reverse=False, inclusive=True):
    """NumPy's result for x, whose floats should be float64."""
    x = np.asarray(x)
    if axis is None:
        x, axis = x.reshape(-1), 0
    if name == "cumsum" and x.dtype == bool:
        x = x.astype(np.int32)
    if name == "logcumsumexp" and x.dtype.kind in "biu":
        x = x.astype(np.float64)
    f = {
        "cumsum": np.add,
        "cumprod": np.logical_and if x.dtype == bool else np.multiply,
        "cummax": np.logical_or if x.dtype == bool else np.maximum,
        "cummin": np.logical_and if x.dtype == bool else np.minimum,
        "logcumsumexp": np.logaddexp,
    }[name]
    x = np.moveaxis(x, axis, 0)
    if reverse:
        x = x[::-1]
    if name == "logcumsumexp" and x.dtype.kind == "c":
        y = np.log(np.cumsum(np.exp(x), axis=0))
    else:
        with np.errstate(all="ignore"):
            y = f.accumulate(x, axis=0) if x.size else x
    y = y.astype(x.dtype)
    if not inclusive and len(y):
        y = np.concatenate([np.full_like(y[:1], identity(name, y.dtype)), y[:-1]])
    if reverse:
        y = y[::-1]
    return np.moveaxis(y, 0, axis)


def wide(x):
    """NumPy values with floats in double precision."""
    kind = x.dtype.kind
    return x.astype(np.complex128 if kind == "c" else np.float64) if kind in "fc" else x


def operand(rng, name, dtype, shape):
    """Random values for which results stay finite."""
    if dtype == "bool_":
        return rng.random(shape) < 0.7
    if dtype in h.INTS:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    x = rng.normal(size=shape)
    if name == "cumprod":
        if dtype == "complex64":
            return np.exp(1j * x)
        return np.exp(0.01 * x) * rng.choice([-1, 1], shape)
    return x + 0.3j * rng.normal(size=shape) if dtype == "complex64" else x


def check(name, x, dtype, axis=None, label="", **form):
    """Holds the result for x (an MLX array) against NumPy's, within its rounding errors."""
    got = getattr(mx, name)(x, axis=axis, **form)
    held = wide(h.to_np(x))
    want = reference(name, held, axis, **form)
    label = f"{name} {dtype} {x.shape} axis {axis} {form} {label}"
    assert got.shape == want.shape, label
    got = h.to_np(got)
    if want.dtype.kind in "biu":
        assert got.dtype == want.dtype, label
        np.testing.assert_array_equal(got, want, err_msg=label)
        return
    if name in ("cummax", "cummin"):
        np.testing.assert_array_equal(got, want.astype(got.dtype), err_msg=label)
        return
    scale = np.abs(want)
    with np.errstate(invalid="ignore"):
        if name == "cumsum":
            scale = reference(name, np.abs(held), axis, **form)
        elif name == "cumprod":
            scale = scale * 8
        else:
            scale = np.maximum(scale, 1) * 4
    n = x.size if axis is None else x.shape[axis]
    eps = EPS.get(dtype, EPS["float32"])
    # Narrow floats accumulate in float32 and are rounded once.
    tol = eps * np.abs(want) + max(EPS["float64"] if dtype == "float64" else 1.2e-7, 0) * scale * (
        4 + n**0.5
    )
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite].astype(got.dtype), err_msg=label)
    worst = np.abs(got[finite] - want[finite]) - tol[finite]
    assert worst.size == 0 or worst.max() <= 0, f"{label}: {worst.max()}"


@pytest.mark.parametrize("dtype", h.session_dtypes())
@pytest.mark.parametrize("name", NAMES)
def test_dtypes_axes_and_forms(name, dtype, rng):
    # A software GPU compiles each kernel for long: fewer of them there.
    shapes = [(3, 9, 5)] if h.on_gpu() else [(33,), (4, 33), (33, 4), (3, 9, 5)]
    for shape in shapes:
        x = h.from_np(operand(rng, name, dtype, shape), dtype)
        for form in FORMS[:: 3 if h.on_gpu() else 1]:
            for axis in range(len(shape)):
                check(name, x, dtype, axis, **form)
        check(name, x, dtype, None)
        check(name, x, dtype, -1, reverse=True)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "float16", "float32", "complex64"])
@pytest.mark.parametrize("name", NAMES)
def test_sizes(name, dtype, rng):
    if name == "logcumsumexp" and dtype in h.INTS:
        dtype = "bfloat16"
    cases = [
        ((0,), 0),
        ((1,), 0),
        ((3, 0, 2), 1),
        ((0, 3), 1),
        ((70_000,), 0),
        ((5000, 3), 0),
        ((700, 260), 0),
    ]
    if not h.on_gpu() or dtype == "float32":
        cases += [((1000,), 0), ((3, 9000), 1), ((600, 130), 1), ((2, 3000, 5), 1)]
    for shape, axis in cases:
        x = h.from_np(operand(rng, name, dtype, shape), dtype)
        for form in FORMS[2:] if h.on_gpu() and name != "cumsum" else FORMS:
            if name == "logcumsumexp" and dtype == "complex64" and x.size > 40_000:
                continue
            check(name, x, dtype, axis, **form)


@pytest.mark.parametrize("name", ["cumsum", "cummax", "logcumsumexp"])
def test_long_rows(name, rng):
    """Long enough to be cut into chunks on either device."""
    n = 200_000 if h.on_gpu() else 1 << 20
    for dtype in ["float32", "int32", "float16"]:
        if name == "logcumsumexp" and dtype == "int32":
            continue
        x = h.from_np(operand(rng, name, dtype, (n,)), dtype)
        for form in FORMS:
            check(name, x, dtype, 0, **form)
        check(name, x.reshape(n // 8, 8), dtype, 0, reverse=True)
        check(name, x.reshape(2, n // 4, 2), dtype, 1)


@pytest.mark.parametrize("name", NAMES)
def test_short_rows(name, rng):
    lengths = [1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 64, 65, 127, 128, 260]
    for n in lengths if name == "cumsum" or not h.on_gpu() else [2, 7, 65]:
        x = h.from_np(operand(rng, name, "float32", (37, n)), "float32")
        check(name, x, "float32", 1)
        check(name, x, "float32", 1, reverse=True, inclusive=False)
        check(name, x.T, "float32", 0)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
def test_layouts(dtype, rng):
    x = h.from_np(operand(rng, "cumsum", dtype, (12, 20)), dtype)
    views = {
        "transposed": x.T,
        "strided": x[::2, 1::3],
        "reversed": x[::-1, ::-1],
        "offset": x[1:, 3:],
        "row": x[3],
        "flat offset": x.reshape(-1)[1:],
        "broadcast row": mx.broadcast_to(x[:1], (6, 20)),
        "broadcast column": mx.broadcast_to(x[:, :1], (12, 7)),
        "three axes": x.reshape(3, 4, 20).transpose(1, 2, 0),
    }
    for label, v in views.items():
        for axis in (*range(v.ndim), None):
            check("cumsum", v, dtype, axis, label, **FORMS[0])
            check("cumsum", v, dtype, axis, label, **FORMS[3])
            if not h.on_gpu():
                check("cummin", v, dtype, axis, label, **FORMS[1])


@pytest.mark.parametrize("dtype", h.FLOATS)
def test_special_values(dtype):
    nan, inf = np.nan, np.inf
    for n in (300,) if h.on_gpu() else (5, 40, 300):
        for values in (
            [1, nan, 3, 2, 0],
            [nan, nan, 1, 2, 3],
            [1, -inf, inf, 2, -1],
            [-inf, -inf, -inf, 1, 2],
            [inf, 1, inf, inf, -inf],
            [-0.0, 0.0, -0.0, 0.0, 0.0],
        ):
            x = np.zeros(n)
            x[-5:] = values
            a = h.from_np(x, dtype)
            for name in NAMES:
                for form in FORMS[:: 3 if h.on_gpu() else 1]:
                    got = h.to_np(getattr(mx, name)(a, **form)).astype(np.float64)
                    with np.errstate(invalid="ignore"):
                        want = reference(name, x, **form)
                    tol = 1e-5 if dtype == "float32" else 2e-2
                    label = f"{name} {form} {values}"
                    np.testing.assert_allclose(got, want, rtol=tol, atol=tol, err_msg=label)


def test_complex_order_and_nan():
    nan = np.nan
    x = mx.array([1 + 2j, 1 + 3j, 0, complex(1, nan), 5])
    assert mx.cummax(x)[:3].tolist() == [1 + 2j, 1 + 3j, 1 + 3j]
    assert mx.cummin(x)[:3].tolist() == [1 + 2j, 1 + 2j, 0]
    for f in (mx.cummax, mx.cummin):
        assert np.isnan(np.array(f(x))[3:]).all()


def test_dtype_rules():
    for dtype in h.session_dtypes():
        x = h.from_np(np.ones(3), dtype)
        kept = getattr(mx, dtype)
        assert mx.cumsum(x).dtype == (mx.int32 if dtype == "bool_" else kept)
        for f in (mx.cumprod, mx.cummax, mx.cummin):
            assert f(x).dtype == kept
        inexact = mx.issubdtype(kept, mx.inexact)
        assert mx.logcumsumexp(x).dtype == (kept if inexact else mx.float32)
    x = mx.array([100, 100, 100], mx.int8)
    assert mx.cumsum(x).tolist() == [100, -56, 44]
    assert mx.cumsum(x, dtype=mx.int32).tolist() == [100, 200, 300]
    assert mx.cumsum(mx.array([1.9, 2.9]), dtype=mx.int32).tolist() == [1, 3]
    assert mx.cumsum(mx.array([1, 2]), dtype=mx.bool_).tolist() == [1, 2]
    assert mx.cumprod(mx.array([True, True, False]), dtype=mx.int32).tolist() == [1, 1, 0]
    # Narrow floats do not stop growing where their neighbours are one apart.
    assert mx.cumsum(mx.ones(5000, mx.float16))[-1].item() == 5000
    assert mx.cumsum(mx.ones(4096, mx.bfloat16))[-1].item() == 4096


def test_scalars_names_and_methods():
    assert mx.cumsum(mx.array(3.0)).tolist() == [3.0]
    x = mx.array([[3, 1, 2], [1, 5, 4]])
    assert mx.cumulative_sum(x, axis=1).tolist() == [[3, 4, 6], [1, 6, 10]]
    assert mx.cumulative_prod(x, axis=0).tolist() == [[3, 1, 2], [3, 5, 8]]
    for name in NAMES:
        f, m = getattr(mx, name), getattr(x, name)
        for kw in ({}, {"axis": 1}, {"axis": 0, "reverse": True, "inclusive": False}):
            assert f(x, **kw).tolist() == m(**kw).tolist()
        assert f(x, 1, stream=mx.cpu).tolist() == m(1, stream=mx.cpu).tolist()


def test_errors():
    x = mx.zeros((2, 2))
    for name in NAMES:
        f = getattr(mx, name)
        for call in (lambda f=f: f(x, axis=2), lambda f=f: f(mx.array(1.0), axis=0)):
            with pytest.raises(IndexError, match=name):
                call()
        for call in (lambda f=f: f([1, 2]), lambda f=f: f(x, 0, True), lambda f=f: f(x, axis=[0])):
            with pytest.raises(TypeError):
                call()


@pytest.mark.gpu
def test_float64_needs_the_cpu():
    for name in NAMES:
        with pytest.raises(ValueError, match="float64"):
            getattr(mx, name)(mx.zeros(3, mx.float64, stream=mx.cpu))


def test_results_repeat(rng):
    x = h.from_np(rng.normal(size=150_000), "float32")
    for name in ("cumsum", "logcumsumexp"):
        f = getattr(mx, name)
        first = h.to_np(f(x))
        for _ in range(3):
            assert (h.to_np(f(x)) == first).all()


def test_diff(rng):
    for dtype in ["int32", "uint8", "float32"]:
        x = operand(rng, "cumsum", dtype, (4, 9, 3))
        a = h.from_np(x, dtype)
        for axis in (0, 1, -1):
            for n in range(5):
                got, want = h.to_np(mx.diff(a, n, axis)), np.diff(h.to_np(a), n, axis)
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    assert mx.diff(mx.array([True, False, True]), n=2).tolist() == [False]
    assert mx.diff(mx.zeros((0, 3)), axis=0).shape == (0, 3)
    assert mx.diff(mx.zeros(2), n=7).shape == (0,)
    with pytest.raises(ValueError, match="non-negative"):
        mx.diff(a, -1)
    for bad in (lambda: mx.diff(a, axis=3), lambda: mx.diff(mx.array(1.0))):
        with pytest.raises(IndexError):
            bad()


def flat_scan(name, axis, form, v):
    return getattr(mx, name)(v, axis=axis, **form).reshape(-1)


def numeric_jacobian(name, x, axis, form, step=1e-6):
    """d out / d x by central differences in float64, as (out, x)."""
    columns = []
    for i in range(x.size):
        e = np.zeros(x.shape)
        e.flat[i] = step
        up, down = (reference(name, v, axis, **form) for v in (x + e, x - e))
        with np.errstate(invalid="ignore"):
            columns.append(np.nan_to_num((up - down) / (2 * step)).reshape(-1))
    return np.stack(columns, 1)


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name, rng):
    for shape, axis in [((7,), 0), ((3, 5), 1), ((5, 3), 0), ((3, 4), None)]:
        x = rng.normal(size=shape)
        g = rng.normal(size=x.size)
        if name == "cumprod" and axis is not None:
            np.moveaxis(x, axis, 0)[2] = 0
        if name == "cumprod" and shape == (7,):
            x[4] = 0
        a = h.from_np(x, "float32")
        for form in FORMS:
            f = functools.partial(flat_scan, name, axis, form)
            jacobian = numeric_jacobian(name, np.asarray(a, np.float64), axis, form)
            (got,) = mx.vjp(f, [a], [mx.array(g.astype(np.float32))])[1]
            label = f"{name} {shape} {form}"
            np.testing.assert_allclose(
                np.array(got).reshape(-1), g @ jacobian, 1e-4, 1e-4, err_msg=label
            )
            t = rng.normal(size=shape)
            (got,) = mx.jvp(f, [a], [h.from_np(t, "float32")])[1]
            np.testing.assert_allclose(
                np.array(got), jacobian @ t.reshape(-1), 1e-4, 1e-4, err_msg=label
            )


@pytest.mark.parametrize("name", ["cumprod", "logcumsumexp"])
def test_second_derivatives(name, rng):
    x = rng.normal(size=5)
    if name == "cumprod":
        x[2] = 0
    w = rng.normal(size=5)
    mw = mx.array(w.astype(np.float32))
    grad = mx.grad(lambda v: mx.sum(getattr(mx, name)(v, reverse=True) * mw))
    step = 1e-3
    for i in range(5):
        e = np.zeros(5)
        e[i] = step
        exact = lambda v: w @ numeric_jacobian(name, v, 0, FORMS[2], 1e-5)  # noqa: E731
        want = (exact(x + e) - exact(x - e)) / (2 * step)
        got = mx.grad(lambda v, i=i: grad(v)[i])(h.from_np(x, "float32"))
        np.testing.assert_allclose(np.array(got), want, rtol=1e-3, atol=1e-3)


def test_gradients_at_ties_and_infinities():
    w = mx.array([1.0, 2.0, 4.0, 8.0])

    def cot(f, x, **kw):
        return mx.vjp(lambda a: f(a, **kw), [mx.array(x)], [w])[1][0].tolist()

    # The last of equal elements counts.
    assert cot(mx.cummax, [1.0, 1.0, 2.0, 2.0]) == [1, 2, 4, 8]
    assert cot(mx.cummax, [2.0, 2.0, 1.0, 2.0]) == [1, 6, 0, 8]
    assert cot(mx.cummin, [1.0, 1.0, 2.0, 2.0]) == [1, 14, 0, 0]
    assert cot(mx.cummin, [2.0, 2.0, 1.0, 2.0], reverse=True) == [0, 0, 7, 8]
    assert cot(mx.cummax, [1.0, np.nan, 2.0, 3.0]) == [1, 14, 0, 0]
    got = cot(mx.logcumsumexp, [-np.inf, 0.0, 0.0, -np.inf])
    np.testing.assert_allclose(got, [1, 2 + 12 / 2, 12 / 2, 0], rtol=1e-6)
    got = cot(mx.logcumsumexp, [90.0, -90.0, 90.0, 0.0])
    np.testing.assert_allclose(got, [1 + 2 + 6, 0, 6, 0], rtol=1e-4, atol=1e-6)
    assert cot(mx.cumprod, [2.0, 0.0, 0.0, 3.0]) == [1, 4, 0, 0]
    # Integers have a gradient where the op is linear.
    (got,) = mx.vjp(mx.cumsum, [mx.array([1, 2])], [mx.array([1, 2])])[1]
    assert got.tolist() == [3, 2]


@pytest.mark.parametrize("name", NAMES)
def test_vmap(name, rng):
    x = h.from_np(rng.normal(size=(3, 4, 5)), "float32")
    f = getattr(mx, name)
    for axis in range(3):
        for kw in ({"axis": 0}, {"axis": 1, "reverse": True}, {"axis": None, "inclusive": False}):
            got = mx.vmap(lambda a, kw=kw: f(a, **kw), in_axes=axis)(x)
            want = mx.stack([f(mx.take(x, i, axis), **kw) for i in range(x.shape[axis])])
            np.testing.assert_allclose(np.array(got), np.array(want), rtol=1e-6, atol=1e-6)
            grad = mx.grad(lambda a, kw=kw: mx.sum(mx.sin(f(a, **kw))))
            if kw.get("inclusive", True):
                got = mx.vmap(grad, in_axes=axis)(x)
                want = mx.stack([grad(mx.take(x, i, axis)) for i in range(x.shape[axis])])
                np.testing.assert_allclose(np.array(got), np.array(want), rtol=1e-5, atol=1e-5)
