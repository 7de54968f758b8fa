"""How elementwise kernels reach their operands, and what they do in one go.

Layouts that results keep, rows of odd lengths, operands of other dtypes, 16-bit floats and
compositions in one kernel: values against NumPy, or bit for bit against the plain way.
"""

import contextlib

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

#: Just above the size from which compositions are one kernel, and no multiple of a vector.
LARGE = (1023, 1031)


def strides(a):
    """Strides in elements."""
    mx.eval(a)
    view = memoryview(a)
    return tuple(s // view.itemsize for s in view.strides)


def bits(a):
    """The bits of an array, NaN as they are."""
    kinds = {1: mx.uint8, 2: mx.uint16, 4: mx.uint32, 8: mx.uint64}
    return np.array(a if a.dtype == mx.bool_ else mx.view(a, kinds[a.dtype.size]))


@contextlib.contextmanager
def without(*names):
    """Runs a part of a test without kernel variants."""
    before = mx.vulkan._set_disabled(list(names))
    yield
    mx.vulkan._set_disabled(before)


def values(rng, shape, dtype):
    """Small numbers that the dtype holds exactly."""
    if dtype == "bool_":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in h.INTS:
        return rng.integers(0, 20, shape).astype(dtype)
    return h.quantise(rng.integers(-40, 40, shape) / 4, dtype)


# Layouts


@pytest.mark.parametrize("shape", [(37, 53), (512, 257)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8"])
def test_results_keep_the_layout_of_their_operands(rng, shape, dtype):
    x, y = values(rng, shape, dtype), values(rng, shape, dtype)
    a, b = h.from_np(x, dtype), h.from_np(y, dtype)
    column = (1, shape[1])
    sums = {
        "one": mx.abs(a.T),
        "both": a.T + b.T,
        "number": a.T + mx.array(1, h.mx_dtype(dtype)),
        "single": mx.array([[1]], h.mx_dtype(dtype)) + a.T,
        "cast": a.T.astype(mx.float32 if dtype != "float32" else mx.float16),
        "mixed": mx.where(a.T > b.T, a.T, b.T),
    }
    wants = {
        "one": np.abs(x.T),
        "both": (x + y).T,
        "number": x.T + 1,
        "single": x.T + 1,
        "cast": x.T,
        "mixed": np.maximum(x, y).T,
    }
    for name, got in sums.items():
        assert name == "cast" or dtype == "bfloat16" or strides(got) == column, name
        np.testing.assert_array_equal(h.to_np(got), wants[name], err_msg=name)


def test_mixed_layouts_give_row_major_results(rng):
    x, y = rng.normal(size=(2, 40, 40)).astype(np.float32)
    a, b = mx.array(x), mx.array(y)
    cases = {
        "rows": (a.T + b, x.T + y),
        "broadcast": (a.T + b[0], x.T + y[0]),
        "gaps": (mx.exp(a.T[::2]), np.exp(x.T[::2])),
        "repeated": (
            mx.broadcast_to(a[:, :1], (40, 40)) + 1,
            np.broadcast_to(x[:, :1], (40, 40)) + 1,
        ),
    }
    for name, (got, want) in cases.items():
        assert strides(got) == (want.shape[1], 1), name
        np.testing.assert_allclose(np.array(got), want, rtol=1e-6, err_msg=name)
    copy = mx.contiguous(a.T)
    assert strides(copy) == (40, 1) and strides(mx.array(a.T)) in [(40, 1), (1, 40)]


def test_three_axes_keep_their_order(rng):
    x = rng.normal(size=(5, 6, 7)).astype(np.float32)
    a = mx.transpose(mx.array(x), (1, 2, 0))
    got = mx.tanh(a) * a
    assert strides(got) == (7, 1, 42)
    want = np.transpose(np.tanh(x) * x, (1, 2, 0))
    np.testing.assert_allclose(np.array(got), want, rtol=2e-6)
    thin = mx.array(x[:, :1])
    np.testing.assert_array_equal(
        np.array(mx.transpose(thin, (2, 1, 0)) + 1), np.transpose(x[:, :1], (2, 1, 0)) + 1
    )


def test_what_follows_a_kept_layout(rng, tmp_path):
    """Each reader of an array of another order than row-major sees its values."""
    x = rng.normal(size=(48, 33)).astype(np.float32)
    y, want = mx.negative(mx.array(x).T), -x.T
    mx.eval(y)
    assert strides(y) == (1, 33)
    np.testing.assert_array_equal(np.array(y), want)
    np.testing.assert_array_equal(np.asarray(memoryview(y)), want)
    if not h.on_gpu():
        np.testing.assert_array_equal(np.from_dlpack(y), want)
    assert y.tolist() == want.tolist() and y[3, 5].item() == want[3, 5]
    np.testing.assert_array_equal(np.array(y.reshape(-1)), want.reshape(-1))
    np.testing.assert_array_equal(
        np.array(y.reshape(11, 3, 48)[:, 1]), want.reshape(11, 3, 48)[:, 1]
    )
    np.testing.assert_array_equal(
        np.array(mx.view(y, mx.int32)), np.ascontiguousarray(want).view(np.int32)
    )
    np.testing.assert_array_equal(np.array(y[1:20:3, ::-2]), want[1:20:3, ::-2])
    np.testing.assert_array_equal(np.array(mx.take(y, mx.array([3, 1]), axis=1)), want[:, [3, 1]])
    np.testing.assert_array_equal(
        np.array(mx.concatenate([y, y], 1)), np.concatenate([want, want], 1)
    )
    np.testing.assert_array_equal(np.array(mx.sort(y, axis=1)), np.sort(want, axis=1))
    np.testing.assert_allclose(np.array(y.sum(axis=1)), want.sum(axis=1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.array(y @ y.T), want @ want.T, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(np.array(mx.softmax(y, axis=-1)).sum(-1), np.ones(33), rtol=1e-5)
    for name in ["a.npy", "a.safetensors", "a.npz"]:
        path = str(tmp_path / name)
        if name.endswith("npy"):
            mx.save(path, y)
            loaded = mx.load(path)
        elif name.endswith("npz"):
            mx.savez(path, y=y)
            loaded = mx.load(path)["y"]
        else:
            mx.save_safetensors(path, {"y": y})
            loaded = mx.load(path)["y"]
        np.testing.assert_array_equal(np.array(loaded), want, err_msg=name)


def test_updates_of_a_kept_layout(rng):
    x = rng.normal(size=(30, 50)).astype(np.float32)
    y, want = mx.negative(mx.array(x).T), -x.T
    mx.eval(y)
    y[3:9] = 1.0
    want[3:9] = 1
    y = y.at[:, 2].add(5.0)
    want[:, 2] += 5
    np.testing.assert_array_equal(np.array(y), want)


def test_dying_operands_of_a_kept_layout(rng):
    """Memory that an operand gives to the result."""
    x = rng.normal(size=(300, 500)).astype(np.float32)
    y, want = mx.array(x).T, x.T
    for _ in range(4):
        y = y * 2 + 1
        want = want * 2 + 1
    mx.eval(y)
    np.testing.assert_allclose(np.array(y), want, rtol=1e-6)
    z = mx.exp(y.T * 0.01) + mx.abs(y).T
    np.testing.assert_allclose(np.array(z), np.exp(want.T * 0.01) + np.abs(want).T, rtol=1e-5)


def test_transforms_of_a_kept_layout(rng):
    x = rng.normal(size=(30, 50)).astype(np.float32)

    def f(a):
        return (mx.sin(a.T) * a.T).sum()

    want = np.cos(x) * x + np.sin(x)
    np.testing.assert_allclose(np.array(mx.grad(f)(mx.array(x))), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        np.array(mx.compile(mx.grad(f))(mx.array(x))), want, rtol=1e-4, atol=1e-5
    )
    g = mx.compile(lambda a: (mx.sin(a.T) * a.T, a.T + 1))
    for got, want in zip(g(mx.array(x)), (np.sin(x.T) * x.T, x.T + 1), strict=True):
        np.testing.assert_allclose(np.array(got), want, rtol=1e-5, atol=1e-6)
    got = mx.vmap(lambda a: mx.exp(a.T))(mx.array(x.reshape(3, 10, 50)))
    np.testing.assert_allclose(
        np.array(got), np.exp(np.swapaxes(x.reshape(3, 10, 50), 1, 2)), rtol=1e-5
    )


# Rows


FORMS = {
    "row": lambda n, m: ((n, m), (m,)),
    "row first": lambda n, m: ((m,), (n, m)),
    "column": lambda n, m: ((n, m), (n, 1)),
    "both": lambda n, m: ((n, 1), (m,)),
    "middle": lambda n, m: ((3, n, m), (n, 1)),
    "outer and inner": lambda n, m: ((3, n, m), (3, 1, m)),
    "outer": lambda n, m: ((3, n, m), (n, m)),
    "batch": lambda n, m: ((3, n, m), (3, 1, 1)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "bfloat16", "int32", "uint8", "int64", "complex64"]
)
def test_rows_of_odd_lengths(rng, form, dtype):
    for n, m in [(67, 3), (41, 7), (5, 1023), (130, 17), (2, 33), (9, 16)]:
        one, two = FORMS[form](n, m)
        x, y = values(rng, one, dtype), values(rng, two, dtype)
        got = h.from_np(x, dtype) + h.from_np(y, dtype)
        want = h.quantise(x + y, dtype) if dtype in h.FLOATS else x + y
        np.testing.assert_array_equal(h.to_np(got), want, err_msg=f"{n} x {m}")
        chosen = mx.where(
            h.from_np(x, dtype) == h.from_np(y, dtype), h.from_np(y, dtype), h.from_np(x, dtype)
        )
        np.testing.assert_array_equal(h.to_np(chosen), np.where(x == y, y, x), err_msg=f"{n} x {m}")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "uint8"])
@pytest.mark.parametrize("offset", [0, 1, 3])
def test_rows_that_begin_anywhere(rng, dtype, offset):
    n, m = 37, 29
    x, y = values(rng, n * m + offset, dtype), values(rng, m + offset, dtype)
    a = h.from_np(x, dtype)[offset:].reshape(n, m)
    b = h.from_np(y, dtype)[offset:]
    p, q = x[offset:].reshape(n, m), y[offset:]
    for got, want in [
        (a + b, p + q),
        (a[:, 1:] + b[1:], p[:, 1:] + q[1:]),
        (a[1:, :-2] + a[:-1, 2:], p[1:, :-2] + p[:-1, 2:]),
    ]:
        want = h.quantise(want, dtype) if dtype in h.FLOATS else want
        np.testing.assert_array_equal(h.to_np(got), want)
    gaps = h.to_np(mx.contiguous(a[:, :-2]))
    np.testing.assert_array_equal(gaps, p[:, :-2])
    np.testing.assert_array_equal(
        h.to_np(a.astype(mx.float32) + b[:1]), p.astype(np.float32) + q[:1]
    )


def test_rows_with_operands_of_other_sizes(rng):
    x = rng.normal(size=(33, 1021)).astype(np.float16)
    row, column = rng.normal(size=1021).astype(np.float32), rng.integers(0, 2, (33, 1)).astype(bool)
    got = mx.where(mx.array(column), mx.array(x), mx.array(row))
    want = np.where(column, x.astype(np.float32), row)
    np.testing.assert_array_equal(np.array(got), want)


@pytest.mark.gpu
def test_flat_vectors_change_nothing(rng):
    x, y = rng.normal(size=(501, 259)).astype(np.float32), rng.normal(size=259).astype(np.float32)
    for dtype in ["float32", "float16", "bfloat16"]:
        a, b = h.from_np(x, dtype), h.from_np(y, dtype)
        got = bits(mx.multiply(a, b))
        with without("elementwise_flat"):
            want = bits(mx.multiply(a, b))
        np.testing.assert_array_equal(got, want)


# Bits of 16-bit floats


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("n", [65536, 65535])
def test_every_half_survives(dtype, n):
    """Decoded and encoded again by a kernel that looks at values, with NaN among them or not."""
    every = np.arange(n, dtype=np.uint16)
    low = 0x7C00 if dtype == "float16" else 0x7F80
    numbers = every[(every & 0x7FFF) <= low]
    for words in (every, numbers):
        a = mx.view(mx.array(words), h.mx_dtype(dtype))
        quiet = np.where((words & 0x7FFF) > low, 0x200 if dtype == "float16" else 0x40, 0)
        for got in (mx.negative(a), mx.where(a == a, -a, -a)):
            np.testing.assert_array_equal(bits(got) | quiet, (words ^ 0x8000) | quiet)
        wide = np.array(a.astype(mx.float32))
        exact = (
            words.view(np.float16).astype(np.float32)
            if dtype == "float16"
            else (words.astype(np.uint32) << 16).view(np.float32)
        )
        np.testing.assert_array_equal(wide, exact)
        back = bits(mx.array(wide).astype(h.mx_dtype(dtype)))
        clean = ~np.isnan(exact)
        np.testing.assert_array_equal(back[clean], words[clean])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_numbers_between_halves_round_to_even(dtype):
    """Around the middle of each two neighbours, from the smallest to beyond the largest."""
    words = np.arange(0x7BFF if dtype == "float16" else 0x7F7F, dtype=np.uint16)
    if dtype == "float16":
        low, high = (
            words.view(np.float16).astype(np.float64),
            (words + 1).view(np.float16).astype(np.float64),
        )
    else:
        low, high = (
            (w.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
            for w in (words, words + 1)
        )
    middle = ((low + high) / 2).astype(np.float32)
    if dtype == "bfloat16":
        normal = middle >= 2.0**-126
        words, middle = words[normal], middle[normal]
    even = words + (words & 1)
    for x, want in [
        (middle, even),
        (np.nextafter(middle, np.float32(0)), words),
        (np.nextafter(middle, np.float32(np.inf)), words + 1),
    ]:
        for sign in (1, -1):
            got = bits(mx.array(sign * x).astype(h.mx_dtype(dtype)))
            np.testing.assert_array_equal(got, want | (0x8000 if sign < 0 else 0))
    if dtype == "float16":
        beyond = mx.array([65519.0, 65520.0, 1e9, np.inf], mx.float32).astype(mx.float16)
        np.testing.assert_array_equal(bits(beyond), [0x7BFF, 0x7C00, 0x7C00, 0x7C00])


HALF_FUNCTIONS = {
    "exp": np.exp,
    "tanh": np.tanh,
    "sigmoid": lambda x: np.where(
        x < 0, np.exp(x) / (1 + np.exp(np.minimum(x, 700))), 1 / (1 + np.exp(-x))
    ),
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "sin": np.sin,
    "cos": np.cos,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": None,
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", HALF_FUNCTIONS)
def test_functions_of_every_half(name, dtype):
    """At most one step from the nearest for every value; infinities and NaN where they belong."""
    words = np.arange(65536, dtype=np.uint16)
    a = mx.view(mx.array(words), h.mx_dtype(dtype))
    x = h.to_np(a).astype(np.float64)
    f = HALF_FUNCTIONS[name]
    with np.errstate(all="ignore"):
        if f is None:
            with mx.stream(mx.cpu):
                want = np.array(mx.erf(mx.array(x, mx.float64)))
        else:
            want = f(x)
    got = h.to_np(getattr(mx, name)(a))
    normal = np.abs(x) >= 2.0**-126 if dtype == "bfloat16" else np.ones(x.shape, bool)
    kept = normal | (x == 0) | np.isnan(x)
    want = h.quantise(want, dtype)
    assert np.array_equal(np.isnan(got[kept]), np.isnan(want[kept]))
    finite = kept & np.isfinite(want) & (np.abs(want) >= (2.0**-126 if dtype == "bfloat16" else 0))
    step = h.ulp_error(got[finite], want[finite].astype(np.float64), dtype)
    assert step.max() <= 1, (x[finite][step.argmax()], step.max())
    infinite = kept & np.isinf(want)
    np.testing.assert_array_equal(got[infinite], want[infinite])
    if name in ("tanh", "sin", "erf", "sqrt"):
        zero = x == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(x[zero]))


# Operands of other dtypes


PAIRS = [
    ("float32", "bfloat16"),
    ("float16", "float32"),
    ("float32", "int32"),
    ("bfloat16", "float16"),
    ("float16", "int8"),
    ("int32", "uint8"),
    ("int64", "int16"),
    ("float32", "bool_"),
    ("complex64", "float32"),
]


NAMES = ["multiply", "add", "less", "maximum", "divide", "power", "logical_or"]
# Complex numbers have no order.
MIXED = [(p, n) for p in PAIRS for n in NAMES if not (n in NAMES[2:4] and "complex64" in p)]


@pytest.mark.parametrize(("pair", "name"), MIXED, ids=lambda x: x if x in NAMES else "-".join(x))
def test_mixed_dtypes_are_casts_and_the_operation(rng, pair, name):
    f = getattr(mx, name)
    for shapes in [(LARGE, LARGE), (LARGE, LARGE[1:]), ((LARGE[0], 1), LARGE)]:
        a, b = (h.from_np(values(rng, s, d), d) for s, d in zip(shapes, pair, strict=True))
        common = (a[:1, :1] + b.reshape(-1)[:1]).dtype
        got = f(a, b)
        want = f(a.astype(common), b.astype(common))
        mx.eval(got, want)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(bits(got), bits(want))


def test_mixed_dtypes_of_three_operands(rng):
    c, a, b = (h.from_np(values(rng, LARGE, d), d) for d in ("float32", "float16", "float32"))
    got = mx.where(c, a, b)
    want = mx.where(c.astype(mx.bool_), a.astype(mx.float32), b)
    np.testing.assert_array_equal(bits(got), bits(want))
    np.testing.assert_array_equal(np.array(mx.logical_not(c)), h.to_np(c) == 0)


# Compositions


def special(rng, shape, dtype):
    x = rng.normal(size=shape) * 3
    for i, v in enumerate([np.nan, np.inf, -np.inf, 0.0, -0.0]):
        x.reshape(-1)[i :: 41 + i] = v
    return h.from_np(
        h.quantise(x, dtype) if dtype in h.FLOATS else np.nan_to_num(x).astype(h.np_dtype(dtype)),
        dtype,
    )


def compositions(rng, dtype):
    """Calls of functions that are several operations."""
    a, b = special(rng, LARGE, dtype), special(rng, LARGE, dtype)
    close = mx.where(mx.array(rng.integers(0, 2, LARGE).astype(bool)), a, b)
    row = special(rng, LARGE[1:], dtype)
    return {
        "clip": lambda: mx.clip(a, 1, 2),
        "clip below": lambda: mx.clip(a, None, 2),
        "clip above": lambda: mx.clip(a, 1, None),
        "clip by arrays": lambda: mx.clip(a, mx.minimum(row, 0), b),
        "nan_to_num": lambda: mx.nan_to_num(a),
        "nan_to_num to others": lambda: mx.nan_to_num(a, 1.5, 2.0, -2.0),
        "isclose": lambda: mx.isclose(a, close),
        "isclose with nan": lambda: mx.isclose(a, close, rtol=0.1, atol=0.5, equal_nan=True),
        "isclose of rows": lambda: mx.isclose(a, row),
        "round": lambda: mx.round(a, 2),
        "round tens": lambda: mx.round(a, -1),
        "triu": lambda: mx.triu(a, 3),
        "tril": lambda: mx.tril(a, -700),
        "tril of batches": lambda: mx.tril(mx.stack([a[:600], b[:600]]), 5),
        "allclose": lambda: mx.allclose(a, a, equal_nan=True),
        "mixed": lambda: mx.clip(a, mx.array(-1, mx.float32), mx.array(1, mx.int32)),
    }


def same_as_steps(functions):
    for name, f in functions.items():
        got = f()
        with without("elementwise_composed"):
            want = f()
            mx.eval(want)
        assert got.dtype == want.dtype and got.shape == want.shape, name
        np.testing.assert_array_equal(bits(got), bits(want), err_msg=name)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "uint8"])
def test_compositions_are_their_steps(rng, dtype):
    same_as_steps(compositions(rng, dtype))


@pytest.mark.gpu
def test_made_compositions_are_their_steps():
    n = 600_001
    made = {
        "linspace": lambda: mx.linspace(-3, 7, n),
        "linspace open": lambda: mx.linspace(0, 1, n + 3),
        "linspace f16": lambda: mx.linspace(-1, 1, n, dtype=mx.float16),
        "linspace i32": lambda: mx.linspace(0, n, n, dtype=mx.int32),
        "linspace long": lambda: mx.linspace(1, 2, (1 << 24) + 5),
        "eye": lambda: mx.eye(1000, 1100, 5),
        "tri": lambda: mx.tri(1000, 1100, -7, dtype=mx.float16),
        "uniform": lambda: mx.random.uniform(-2, 3, LARGE, key=mx.random.key(3)),
        "uniform f16": lambda: mx.random.uniform(0, 1, LARGE, mx.float16, key=mx.random.key(3)),
        "randint": lambda: mx.random.randint(-5, 99, LARGE, key=mx.random.key(4)),
        "gumbel": lambda: mx.random.gumbel(LARGE, key=mx.random.key(5)),
        "laplace": lambda: mx.random.laplace(LARGE, mx.bfloat16, key=mx.random.key(6)),
        "truncated normal": lambda: mx.random.truncated_normal(-1, 2, LARGE, key=mx.random.key(7)),
    }
    same_as_steps(made)


def test_transforms_see_the_steps_of_compositions(rng):
    x = rng.normal(size=LARGE).astype(np.float32) * 2
    a = mx.array(x)
    inside = ((x > -1) & (x < 1)).astype(np.float32)
    np.testing.assert_array_equal(np.array(mx.grad(lambda v: mx.clip(v, -1, 1).sum())(a)), inside)
    np.testing.assert_array_equal(
        np.array(mx.grad(lambda v: mx.tril(v).sum())(a)), np.tril(np.ones_like(x))
    )
    half = h.from_np(h.quantise(x, "bfloat16"), "bfloat16")
    got = mx.grad(lambda v: (v * a).sum())(half)
    assert got.dtype == mx.bfloat16
    _, (tangent,) = mx.jvp(lambda v: mx.clip(v, -1, 1), [a], [mx.ones(LARGE)])
    np.testing.assert_array_equal(np.array(tangent), inside)
    batched = mx.vmap(lambda v: mx.clip(v, -1, 1))(a)
    np.testing.assert_array_equal(np.array(batched), np.clip(x, -1, 1))
    both = mx.compile(lambda v: mx.tril(mx.clip(v, -1, 1)) * half)(a)
    np.testing.assert_array_equal(bits(both), bits(mx.tril(mx.clip(a, -1, 1)) * half))
