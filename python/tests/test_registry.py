"""Every elementwise function of mlx.core x dtype x memory layout against NumPy in float64.

Integers and bool must be exact, which also makes cpu and gpu agree bit for bit; float32 lies within
4 ULP of the correctly rounded value, the 16-bit floats within 1 ULP of theirs.
"""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
from spec import BINARY, UNARY

SHAPES = [(), (1,), (0,), (33,), (5, 7), (2, 3, 5), (2, 0, 3), (2, 3, 2, 3), (2, 1, 3, 2, 2)]
OPS = [(1, name) for name in UNARY] + [(2, name) for name in BINARY]
ids = [name for _, name in OPS]


def operand(rng, op, dtype, shape, second=False):
    """Values of the op's domain that the dtype holds exactly."""
    low, high = op.second if second and op.second else (op.low, op.high)
    if dtype == "bool_":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in h.INTS:
        low = max(low, 0) if dtype in h.UINTS else low
        return rng.integers(int(np.ceil(low)), int(np.floor(high)) + 1, shape).astype(dtype)
    x = rng.uniform(low, high, shape)
    if dtype == "complex64":
        return (x + 1j * rng.uniform(-2, 2, shape)).astype(np.complex64)
    return h.quantise(x, dtype)


def reference(op, args, dtype):
    """The twin in float64 (complex128); integers in their own width, so that they wrap."""
    wide = {"complex64": np.complex128}.get(dtype)
    if dtype in (*h.FLOATS, "float64") or (op.rule == "float" and dtype in h.INTS + h.BOOL):
        wide = np.float64
    with np.errstate(all="ignore"):
        return op.twin(*[np.asarray(a, wide) if wide else np.asarray(a) for a in args])


def check(got, want, result, label):
    assert h.name_of(got.dtype) == result, label
    got = h.to_np(got)
    assert got.shape == want.shape, label
    if result in h.FLOATS:
        limit = 4 if result == "float32" else 1
        error = h.ulp_error(got, want, result)
        assert error.max(initial=0) <= limit, f"{label}: {error.max()} ULP"
    elif result in ("float64", "complex64"):
        rtol = 1e-12 if result == "float64" else 4e-6
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol, err_msg=label)
    else:
        np.testing.assert_array_equal(got, want, err_msg=label)


def table(arity):
    return UNARY if arity == 1 else BINARY


@pytest.mark.parametrize(("arity", "name"), OPS, ids=ids)
def test_values(arity, name, rng):
    """All dtypes contiguous; all layouts and ranks in float32 (or int32) and one more dtype."""
    op, f = table(arity)[name], getattr(mx, name)
    dtypes = [d for d in h.session_dtypes() if d not in op.open]
    taken = [d for d in dtypes if op.result(d)]
    thorough = {"float32" if op.result("float32") else "int32", taken[len(name) * 7 % len(taken)]}
    for dtype in dtypes:
        result = op.result(dtype)
        x = [operand(rng, op, dtype, (5, 7), i == 1) for i in range(arity)]
        if result is None:
            with pytest.raises((ValueError, RuntimeError)):
                mx.eval(f(*[h.from_np(a, dtype) for a in x]))
            continue
        shapes = SHAPES if dtype in thorough else [(5, 7)]
        for shape in shapes:
            x = [operand(rng, op, dtype, shape, i == 1) for i in range(arity)]
            want = reference(op, x, dtype)
            plain = [h.from_np(a, dtype) for a in x]
            check(f(*plain), want, result, f"{dtype} {shape}")
            if dtype not in thorough or shape not in [(33,), (5, 7), (2, 3, 5)]:
                continue
            for layout, a in h.layouts(x[0], dtype):
                check(f(a, *plain[1:]), want, result, f"{dtype} {shape} {layout}")
            if arity == 2:
                for layout, b in h.layouts(x[1], dtype):
                    check(f(plain[0], b), want, result, f"{dtype} {shape} second {layout}")


@pytest.mark.parametrize("name", BINARY)
def test_broadcasting(name, rng):
    op, f = BINARY[name], getattr(mx, name)
    dtype = "float32" if op.result("float32") else "int32"
    for left, right in [
        ((4, 5), ()),
        ((), (4, 5)),
        ((4, 5), (5,)),
        ((4, 1), (1, 5)),
        ((2, 1, 3, 1), (4, 1, 5)),
        ((0, 5), (1, 5)),
        ((1,), (1, 1, 1)),
    ]:
        x, y = operand(rng, op, dtype, left), operand(rng, op, dtype, right, True)
        want = reference(op, (x, y), dtype)
        got = f(h.from_np(x, dtype), h.from_np(y, dtype))
        check(got, want, op.result(dtype), f"{left} {right}")
        shape = np.broadcast_shapes(left, right)
        wide = mx.broadcast_to(h.from_np(x, dtype), shape)
        check(f(wide, h.from_np(y, dtype)), want, op.result(dtype), f"broadcast_to {left} {right}")


@pytest.mark.parametrize(("arity", "name"), OPS, ids=ids)
def test_aliases_and_stream_argument(arity, name, rng):
    op = table(arity)[name]
    dtype = "float32" if op.result("float32") else "int32"
    x = [h.from_np(operand(rng, op, dtype, (9,), i == 1), dtype) for i in range(arity)]
    want = getattr(mx, name)(*x)
    for alias in op.aliases:
        assert mx.array_equal(getattr(mx, alias)(*x), want).item()
    device = mx.default_device()
    assert mx.array_equal(getattr(mx, name)(*x, stream=device), want).item()
    assert mx.array_equal(getattr(mx, name)(*x, stream=mx.default_stream(device)), want).item()


def test_the_table_names_every_elementwise_function():
    """Probes each function of mlx.core: what keeps the shape of any input must be in the table."""
    known = {a for t in (UNARY, BINARY) for n, op in t.items() for a in (n, *op.aliases)}
    other = set(
        "array asarray as_strided astype atleast_1d argsort contiguous copy cummax cummin "
        "cumprod cumsum cumulative_prod cumulative_sum depends empty_like flip from_dlpack "
        "from_fp8 full_like isclose logcumsumexp ones_like softmax sort squeeze stop_gradient "
        "take_along_axis to_fp8 zeros_like".split()
    )
    shapes = [(3,), (0,), (2, 4)]
    for name in sorted(set(dir(mx)) - known - other):
        f = getattr(mx, name)
        if not callable(f) or isinstance(f, type):
            continue
        if name.startswith(("_", "set_", "save", "load", "new_", "export", "import")):
            continue
        kept = []
        for arity in (1, 2):
            try:
                outs = [f(*[mx.ones(s, mx.float32)] * arity) for s in shapes]
            except Exception:  # noqa: BLE001 - another signature
                continue
            if all(
                isinstance(o, mx.array) and o.shape == s for o, s in zip(outs, shapes, strict=True)
            ):
                kept.append(arity)
        assert not kept, f"mlx.core.{name} looks elementwise ({kept}) but has no row in spec.py"


# Accuracy over the whole float32 range


def samples():
    """Every 4099th float32 bit pattern, and the values where functions break."""
    bits = np.arange(0, 2**32, 4099, dtype=np.uint64).astype(np.uint32)
    edges = [0.0, 0.5, 1.0, 2.0, 1e-45, 1.1754944e-38, 3.4028235e38, 88.72284, 89.41599, 1e5]
    edges += [np.pi / 4, np.pi / 2, np.pi, 0.99999994, 1.0000001, 2.0**24, 8388607.5, 0.49999997]
    edges = np.array(edges, np.float32)
    with np.errstate(over="ignore"):
        above = np.nextafter(edges, np.float32(np.inf))
    near = np.concatenate([np.nextafter(edges, np.float32(-1)), above])
    x = np.concatenate([bits.view(np.float32), edges, near])
    return np.concatenate([x, -edges, -near, np.array([np.nan], np.float32)])


def assert_accurate(f, twin, args, limit=4):
    """f within `limit` ULP of twin.

    Where a GPU works without subnormals (Vulkan lets it), a subnormal operand may count as the zero
    of its sign and a subnormal result may become zero.
    """
    with np.errstate(all="ignore"):
        got = h.to_np(f(*[mx.array(a) for a in args]))
        want = twin(*[a.astype(np.float64) for a in args])
        error = h.ulp_error(got, want)
        if h.on_gpu():
            tiny = np.float64(2.0**-126)
            flushed = [np.where(np.abs(a) < tiny, np.copysign(0.0, a), a) for a in args]
            also = twin(*[a.astype(np.float64) for a in flushed])
            error = np.minimum(error, h.ulp_error(got, also))
            error = np.where((np.abs(want) < tiny) & (np.abs(got) <= tiny), 0.0, error)
    worst = int(np.argmax(error))
    assert error[worst] <= limit, (
        f"{error[worst]:.3g} ULP at {[float(a[worst]) for a in args]}: got {got[worst]!r}, "
        f"correct {want[worst]!r}; {np.count_nonzero(error > limit)} of {error.size} beyond {limit}"
    )


@pytest.mark.parametrize("name", [n for n, op in UNARY.items() if op.ulp])
def test_accuracy_of_unary(name):
    twin = UNARY[name].twin
    if name == "radians":
        twin = np.radians
    assert_accurate(getattr(mx, name), twin, [samples()])


@pytest.mark.parametrize("name", [n for n, op in BINARY.items() if op.ulp])
def test_accuracy_of_binary(name, rng):
    """Operands of any two magnitudes, then operands of like magnitude."""
    bits = rng.integers(0, 2**32, (2, 300_000), dtype=np.uint64).astype(np.uint32)
    x, y = bits.view(np.float32)
    near = rng.normal(scale=4, size=(2, 300_000)).astype(np.float32)
    edges = np.array([0, 1, -1, 0.5, 2, 3, -3, 1e30, 1e-30, np.inf, np.nan, 88.0], np.float32)
    edges = np.concatenate([edges, -edges])
    grid = np.meshgrid(edges, edges)
    x = np.concatenate([x, near[0], grid[0].ravel()])
    y = np.concatenate([y, near[1], grid[1].ravel()])
    if name == "power":
        # Bases over the whole range with exponents that keep most results finite.
        y[:300_000] = rng.uniform(-3, 3, 300_000).astype(np.float32)
        x[:200_000] = np.abs(x[:200_000])
    if name in ("maximum", "minimum"):
        assert_accurate(getattr(mx, name), BINARY[name].twin, [x, y], limit=0)
    else:
        assert_accurate(getattr(mx, name), BINARY[name].twin, [x, y])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_accuracy_of_16_bit_floats(dtype):
    """All 65,536 values of the format, correctly rounded from float32 (so within 1 ULP)."""
    bits = np.arange(2**16, dtype=np.uint16)
    if dtype == "float16":
        x = bits.view(np.float16).astype(np.float32)
    else:
        x = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    x = x[~np.isnan(x)]
    a = mx.array(x).astype(h.mx_dtype(dtype))
    np.testing.assert_array_equal(h.to_np(a).astype(np.float32), x)
    for name in ("exp", "log", "sin", "tanh", "sqrt", "erf", "sigmoid", "reciprocal"):
        with np.errstate(all="ignore"):
            want = UNARY[name].twin(x.astype(np.float64))
        got = h.to_np(getattr(mx, name)(a)).astype(np.float64)
        error = h.ulp_error(got, want, dtype)
        if h.on_gpu():  # which may hold subnormal float32 for zero
            subnormal = (np.abs(x) < 2.0**-126) | (np.abs(want) < 2.0**-126)
            error = error[~subnormal]
        assert error.max() <= 1, f"{name}: {error.max()} ULP"


def test_signed_zeros_and_specials():
    inf, nan = np.inf, np.nan
    x = mx.array([0.0, -0.0, inf, -inf, nan])
    expected = {
        "exp": [1, 1, inf, 0, nan],
        "sqrt": [0.0, -0.0, inf, nan, nan],
        "sin": [0.0, -0.0, nan, nan, nan],
        "tanh": [0.0, -0.0, 1, -1, nan],
        "erf": [0.0, -0.0, 1, -1, nan],
        "expm1": [0.0, -0.0, inf, -1, nan],
        "log1p": [0.0, -0.0, inf, nan, nan],
        "arcsinh": [0.0, -0.0, inf, -inf, nan],
        "reciprocal": [inf, -inf, 0.0, -0.0, nan],
        "log": [-inf, -inf, inf, nan, nan],
        "rsqrt": [inf, -inf, 0, nan, nan],
        "negative": [-0.0, 0.0, -inf, inf, nan],
        "abs": [0.0, 0.0, inf, inf, nan],
        "floor": [0.0, -0.0, inf, -inf, nan],
    }
    for name, want in expected.items():
        got = h.to_np(getattr(mx, name)(x))
        np.testing.assert_array_equal(got, np.array(want, np.float32), err_msg=name)
        zeros = np.array(want) == 0
        same = np.signbit(got[zeros]) == np.signbit(np.array(want)[zeros])
        assert same.all(), f"{name}: sign of zero"


# Gradients


def central(f, x, i, step):
    e = np.zeros_like(x)
    e.flat[i] = step
    return (f(x + e) - f(x - e)) / (2 * step)


SMOOTH = [n for n, op in UNARY.items() if op.rule == "float"] + [
    "square",
    "abs",
    "negative",
    "positive",
]
FLAT = ["ceil", "floor", "round", "trunc", "sign", "isnan", "isfinite", "isinf", "logical_not"]


@pytest.mark.parametrize("name", SMOOTH)
def test_gradient_of_unary_to_second_order(name, rng):
    """vjp, jvp and the derivative of the vjp against differences of the float64 twin."""
    op, f = UNARY[name], getattr(mx, name)
    low, high = max(op.low, -3), min(op.high, 3)
    x = rng.uniform(low, high, 11)
    x = np.where(np.abs(x) < 0.05, 0.3, x).astype(np.float32)
    a = mx.array(x)
    wide = x.astype(np.float64)
    first = (op.twin(wide + 1e-5) - op.twin(wide - 1e-5)) / 2e-5
    step = 1e-3
    second = (op.twin(wide + step) - 2 * op.twin(wide) + op.twin(wide - step)) / step**2
    ones = mx.ones_like(a)
    d1 = mx.vjp(f, [a], [ones])[1][0]
    np.testing.assert_allclose(h.to_np(d1), first, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(h.to_np(mx.jvp(f, [a], [ones])[1][0]), first, rtol=2e-5, atol=2e-5)
    d2 = mx.grad(lambda z: mx.sum(mx.vjp(f, [z], [ones])[1][0]))(a)
    np.testing.assert_allclose(h.to_np(d2), second, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    "name",
    [
        "add",
        "subtract",
        "multiply",
        "divide",
        "power",
        "arctan2",
        "logaddexp",
        "maximum",
        "minimum",
        "remainder",
    ],
)
def test_gradient_of_binary_to_second_order(name, rng):
    op, f = BINARY[name], getattr(mx, name)
    x = rng.uniform(max(op.low, -3), min(op.high, 3), (3, 5)).astype(np.float32)
    y = rng.uniform(*(op.second or (max(op.low, -3), min(op.high, 3))), (5,)).astype(np.float32)
    if name == "remainder":
        x, y = np.abs(x) % 0.8 + 2.1, np.full(5, 1.5, np.float32)
    a, b, w = mx.array(x), mx.array(y), mx.array(rng.normal(size=(3, 5)).astype(np.float32))
    xw, yw, ww = x.astype(np.float64), y.astype(np.float64), h.to_np(w).astype(np.float64)

    def loss64(x, y):
        return float(np.sum(ww * op.twin(x, y)))

    def loss(a, b):
        return mx.sum(w * f(a, b))

    ga, gb = mx.grad(loss, argnums=(0, 1))(a, b)
    assert ga.shape == a.shape and gb.shape == b.shape
    for i in range(x.size):
        want = central(lambda v: loss64(v, yw), xw, i, 1e-5)
        np.testing.assert_allclose(h.to_np(ga).flat[i], want, rtol=1e-4, atol=1e-4)
    for i in range(y.size):
        want = central(lambda v: loss64(xw, v), yw, i, 1e-5)
        np.testing.assert_allclose(h.to_np(gb).flat[i], want, rtol=1e-4, atol=1e-4)
    # jvp and second order: differences of the float64 loss along a direction.
    u, v = rng.normal(size=x.shape), rng.normal(size=y.shape)
    u32, v32 = mx.array(u.astype(np.float32)), mx.array(v.astype(np.float32))
    t = 1e-3
    up, mid, down = loss64(xw + t * u, yw + t * v), loss64(xw, yw), loss64(xw - t * u, yw - t * v)
    along = mx.jvp(loss, [a, b], [u32, v32])[1][0].item()
    np.testing.assert_allclose(along, (up - down) / (2 * t), rtol=1e-3, atol=1e-3)

    def slope(a, b):
        ga, gb = mx.grad(loss, argnums=(0, 1))(a, b)
        return mx.sum(ga * u32) + mx.sum(gb * v32)

    ha, hb = mx.grad(slope, argnums=(0, 1))(a, b)
    curvature = (mx.sum(ha * u32) + mx.sum(hb * v32)).item()
    np.testing.assert_allclose(curvature, (up - 2 * mid + down) / t**2, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", FLAT)
def test_gradient_of_steps_is_zero(name):
    f = getattr(mx, name)
    g = mx.grad(lambda x: mx.sum(f(x).astype(mx.float32) * x))(mx.array([0.3, -1.7, 2.5]))
    want = h.to_np(f(mx.array([0.3, -1.7, 2.5])).astype(mx.float32))
    np.testing.assert_allclose(h.to_np(g), want)


@pytest.mark.parametrize(
    "name", ["greater", "less", "equal", "not_equal", "greater_equal", "less_equal"]
)
def test_comparisons_of_nan_are_false(name):
    a = mx.array([np.nan, 1.0, np.nan])
    b = mx.array([1.0, np.nan, np.nan])
    assert getattr(mx, name)(a, b).tolist() == [name == "not_equal"] * 3
