"""The array type: making, converting, attributes, operators, indexing, printing, protocols."""

import copy
import decimal
import fractions
import gc
import math
import operator
import pickle

import helpers as h
import mlx.core as mx
import numpy as np
import pytest


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (True, "bool_"),
        (7, "int32"),
        (2**40, "int64"),
        (1.5, "float32"),
        (1 + 2j, "complex64"),
        ([1, 2, 3], "int32"),
        ([1, 2.5], "float32"),
        ([True, False], "bool_"),
        ([[1, 2], [3, 4]], "int32"),
        ((1.0, 2.0), "float32"),
        ([1j, 2], "complex64"),
        ([], "float32"),
        ([[], []], "float32"),
    ],
)
def test_dtype_of_python_values(value, dtype):
    a = mx.array(value)
    assert h.name_of(a.dtype) == dtype
    assert a.shape == np.shape(value)
    assert a.tolist() == np.array(value).tolist()


@pytest.mark.parametrize("dtype", h.ALL + ["float64"])
def test_numpy_in_and_out(dtype, rng):
    values = rng.integers(0, 100, (3, 4))
    with mx.stream(mx.cpu):
        a = h.from_np(values, dtype)
        assert h.name_of(a.dtype) == dtype
        assert a.shape == (3, 4) and a.size == 12 and a.ndim == 2
        assert a.itemsize == mx.zeros((1,), h.mx_dtype(dtype)).nbytes
        assert a.nbytes == 12 * a.itemsize
        np.testing.assert_array_equal(h.to_np(a), h.quantise(values, dtype))
    if dtype not in ("bfloat16",):
        assert np.array(a).dtype == h.np_dtype(dtype)


def test_numpy_layouts_are_read_as_they_are():
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    for view in (x.T, x[::2], x[:, ::3], x[1:, 2:], np.broadcast_to(x[:1], (3, 6)), x[:0]):
        np.testing.assert_array_equal(np.array(mx.array(view)), view)


def test_array_copies_its_source():
    x = np.ones(4, np.float32)
    a = mx.array(x)
    x[:] = 5
    assert a.tolist() == [1, 1, 1, 1]


def test_explicit_dtype():
    assert mx.array([1, 2], mx.float16).dtype == mx.float16
    assert mx.array([1.7, -1.7], dtype=mx.int32).tolist() == [1, -1]
    assert mx.array(mx.array([1.0, 2.0]), dtype=mx.uint8).tolist() == [1, 2]
    assert mx.array([mx.array(1.0), mx.array(2.0)]).tolist() == [1.0, 2.0]
    assert mx.array([mx.array([1, 2]), mx.array([3, 4])]).shape == (2, 2)


def test_item_and_conversions():
    assert mx.array(3).item() == 3 and isinstance(mx.array(3).item(), int)
    assert mx.array([2.5]).item() == 2.5
    assert mx.array(True).item() is True
    assert mx.array(1 + 2j).item() == 1 + 2j
    assert int(mx.array(3.7)) == 3 and float(mx.array(3)) == 3.0
    assert bool(mx.array(2)) is True and bool(mx.array(0.0)) is False
    assert [10, 20, 30][mx.array(1)] == 20
    assert mx.array(1.5, mx.bfloat16).item() == 1.5
    assert len(mx.zeros((5, 2))) == 5
    assert [row.tolist() for row in mx.array([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]


OPERATORS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_with_arrays_and_scalars(name):
    f = OPERATORS[name]
    x, y = np.array([1.0, 2.5, 7.0], np.float32), np.array([2.0, 2.5, 3.0], np.float32)
    a, b = mx.array(x), mx.array(y)
    for got, want in [(f(a, b), f(x, y)), (f(a, 2), f(x, 2)), (f(3.0, b), f(np.float32(3), y))]:
        np.testing.assert_allclose(np.array(got), want, rtol=1e-6)
    i = mx.array([7, 8, 9])
    np.testing.assert_array_equal(np.array(f(i, 2)), f(np.array([7, 8, 9]), 2))


def test_integer_operators():
    a, b = mx.array([6, 5, 12]), mx.array([3, 1, 2])
    assert (a & b).tolist() == [2, 1, 0]
    assert (a | b).tolist() == [7, 5, 14]
    assert (a ^ b).tolist() == [5, 4, 14]
    assert (a << b).tolist() == [48, 10, 48]
    assert (a >> b).tolist() == [0, 2, 3]
    assert (~a).tolist() == [-7, -6, -13]
    assert (-a).tolist() == [-6, -5, -12]
    assert abs(mx.array([-2, 2])).tolist() == [2, 2]
    assert (~mx.array([True, False])).tolist() == [False, True]
    assert (a @ b.astype(mx.float32)).item() == 6 * 3 + 5 + 24


def test_in_place_operators_make_new_values():
    a = mx.array([1.0, 2.0])
    before = a
    a += 1
    a *= 2
    a -= 1
    a /= 2
    a **= 2
    assert a.tolist() == [2.25, 6.25]
    b = before
    b = b + 0
    assert b.tolist() in ([1.0, 2.0], [2.25, 6.25])
    i = mx.array([5, 6])
    i //= 2
    i <<= 2
    i |= 1
    i &= 13
    i ^= 1
    i >>= 1
    assert i.tolist() == [4, 6]


@pytest.mark.parametrize(
    ("scalar", "dtype", "result"),
    [
        (1, "float16", "float16"),
        (1.0, "float16", "float16"),
        (1.0, "bfloat16", "bfloat16"),
        (1, "uint8", "uint8"),
        (1.0, "int8", "float32"),
        (True, "int8", "int8"),
        (1, "bool_", "int32"),
        (1j, "float16", "complex64"),
        (1.0, "bool_", "float32"),
    ],
)
def test_python_scalars_are_weak(scalar, dtype, result):
    a = mx.ones((2,), h.mx_dtype(dtype))
    assert h.name_of((a + scalar).dtype) == result
    assert h.name_of((scalar + a).dtype) == result
    assert h.name_of(mx.add(a, scalar).dtype) == result


INDICES = [
    np.s_[1],
    np.s_[-1],
    np.s_[1:3],
    np.s_[::2],
    np.s_[::-1],
    np.s_[3:0:-2],
    np.s_[-2:],
    np.s_[10:],
    np.s_[2:1],
    np.s_[:, 1],
    np.s_[..., 2],
    np.s_[None],
    np.s_[:, None, 1:],
    np.s_[1, ..., None, -1],
    np.s_[1:3, ::-1, ::2],
    np.s_[0, 1, 2],
    np.s_[...],
    np.s_[:],
    np.s_[:, -1:-6:-1],
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_basic_indexing(index):
    x = np.arange(4 * 5 * 6, dtype=np.int32).reshape(4, 5, 6)
    got = mx.array(x)[index]
    assert got.shape == x[index].shape
    np.testing.assert_array_equal(np.array(got), x[index])


@pytest.mark.parametrize("index", [i for i in INDICES if i is not None], ids=str)
def test_assignment_by_basic_index(index):
    x = np.arange(4 * 5 * 6, dtype=np.float32).reshape(4, 5, 6)
    a = mx.array(x)
    untouched = a + 0
    mx.eval(untouched)
    a[index] = -1
    y = x.copy()
    y[index] = -1
    np.testing.assert_array_equal(np.array(a), y)
    np.testing.assert_array_equal(np.array(untouched), x)
    values = np.random.default_rng(0).normal(size=x[index].shape).astype(np.float32)
    a[index] = mx.array(values)
    y[index] = values
    np.testing.assert_array_equal(np.array(a), y)


METHODS = (
    "abs all any argmax argmin astype conj cos exp flatten item log log10 log1p log2 logsumexp max "
    "mean min moveaxis prod reciprocal reshape round rsqrt sin split sqrt square squeeze std sum "
    "swapaxes tolist transpose var view"
).split()


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_the_functions(name):
    a = mx.array([[0.5, 1.5], [2.5, 3.5]])
    arguments = {
        "astype": (mx.int32,),
        "moveaxis": (0, 1),
        "reshape": ((4,),),
        "split": (2,),
        "swapaxes": (0, 1),
        "view": (mx.uint32,),
    }.get(name, ())
    if name == "item":
        assert a[0, 0].item() == 0.5
        return
    if name == "tolist":
        assert a.tolist() == [[0.5, 1.5], [2.5, 3.5]]
        return
    got = getattr(a, name)(*arguments)
    want = getattr(mx, {"conj": "conjugate"}.get(name, name))(a, *arguments)
    if name == "split":
        assert all(mx.array_equal(x, y).item() for x, y in zip(got, want, strict=True))
    else:
        assert mx.array_equal(got, want).item()


def test_real_and_imag_are_attributes():
    a = mx.array([1 + 2j, -3j])
    assert a.real.tolist() == [1, 0] and a.imag.tolist() == [2, -3]
    assert a.real.dtype == mx.float32 and mx.array([2]).imag.tolist() == [0]


def test_reshape_and_transpose_take_loose_arguments():
    a = mx.arange(24)
    assert a.reshape(2, 3, 4).shape == (2, 3, 4)
    assert a.reshape((2, -1)).shape == (2, 12)
    assert a.reshape([4, 6]).transpose(1, 0).shape == (6, 4)
    assert a.reshape(2, 3, 4).transpose((2, 0, 1)).shape == (4, 2, 3)
    assert a.reshape(2, 3, 4).T.shape == (4, 3, 2)
    assert a.reshape(2, 3, 4).mT.shape == (2, 4, 3)


def test_printing():
    assert str(mx.array([1, 2, 3])) == "array([1, 2, 3], dtype=int32)"
    assert repr(mx.array([True, False])) == "array([True, False], dtype=bool)"
    assert str(mx.array(1.5)) == "array(1.5, dtype=float32)"
    assert str(mx.array([[1, 2], [3, 4]])) == "array([[1, 2],\n       [3, 4]], dtype=int32)"
    assert str(mx.array([1.0, 2.5], mx.bfloat16)) == "array([1, 2.5], dtype=bfloat16)"
    assert str(mx.array([])) == "array([], dtype=float32)"
    assert str(mx.array([math.inf, -math.inf])) == "array([inf, -inf], dtype=float32)"
    assert str(mx.array([1 + 2j])) == "array([1+2j], dtype=complex64)"
    assert str(mx.arange(1000)) == "array([0, 1, 2, ..., 997, 998, 999], dtype=int32)"
    assert str(mx.array([1e-8, 1e8])) == "array([1e-08, 1e+08], dtype=float32)"
    assert f"{mx.array(2.5):.3f}" == "2.500"


def test_identity_equality_and_hash():
    a, b = mx.array([1, 2]), mx.array([1, 2])
    assert (a == b).tolist() == [True, True]
    assert hash(a) == hash(a) and len({a, b, a}) == 2
    assert mx.array_equal(a, b).item()
    assert not mx.array_equal(a, mx.array([1, 2, 3])).item()
    nan = mx.array([math.nan])
    assert not mx.array_equal(nan, nan).item()
    assert mx.array_equal(nan, nan, equal_nan=True).item()


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool_", "float16", "bfloat16", "complex64"])
def test_copy_and_pickle(dtype):
    a = h.from_np(np.array([[0, 1, 1], [1, 0, 0]]), dtype).T
    for b in (copy.copy(a), copy.deepcopy(a), pickle.loads(pickle.dumps(a))):
        assert b.dtype == a.dtype and b.shape == a.shape
        assert mx.array_equal(a, b).item()


def test_buffer_protocol():
    a = mx.reshape(mx.arange(6, dtype=mx.float32), (2, 3))
    view = memoryview(a)
    assert view.shape == (2, 3) and view.format == "f" and view.itemsize == 4
    assert view.tolist() == [[0, 1, 2], [3, 4, 5]]
    np.testing.assert_array_equal(np.asarray(a.T), np.arange(6).reshape(2, 3).T)
    assert bytes(memoryview(mx.array([1, 2], mx.uint8))) == b"\x01\x02"


def test_a_view_outlives_its_array():
    view = np.asarray(mx.full((1000,), 3.0))
    gc.collect()
    mx.eval(mx.zeros((1000,)))
    assert (view == 3).all()


def test_bytearray_and_memoryview_in():
    assert mx.array(memoryview(np.array([1, 2], np.int16))).dtype == mx.int16
    assert mx.array(np.array(3.0)).shape == ()
    assert mx.array(np.float64(2.0)).item() == 2.0
    assert mx.array(np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_iteration_stops_and_scalars_do_not_iterate():
    assert [int(v) for v in mx.arange(3)] == [0, 1, 2]
    assert list(mx.zeros((0,))) == []
    with pytest.raises((TypeError, IndexError)):
        iter(mx.array(1))
    with pytest.raises(TypeError):
        len(mx.array(1))


def test_other_numbers_are_complex():
    a = mx.array([1.0, 2.0])
    for number in (decimal.Decimal("1.5"), fractions.Fraction(3, 2)):
        product = a * number
        assert product.dtype == mx.complex64
        assert product.tolist() == [1.5 + 0j, 3 + 0j]
        assert (number + a).tolist() == [2.5 + 0j, 3.5 + 0j]
    with pytest.raises(ValueError, match="Cannot perform addition"):
        a + object()


@pytest.mark.parametrize("number", [decimal.Decimal("1.5"), fractions.Fraction(1, 2)])
def test_arrays_are_not_made_of_other_numbers(number):
    for made in (number, [number], [1.0, number]):
        for dtype in ((), (mx.float32,), (mx.int32,)):
            with pytest.raises(ValueError, match="Invalid type .* received in array init"):
                mx.array(made, *dtype)


@pytest.mark.parametrize(
    "other", [np.array(["a"]), np.array([None]), np.array([1, 2], ">i4"), np.array([1, 2], "M8[s]")]
)
def test_arrays_of_what_is_no_number_are_not_equal(other):
    a = mx.array([1, 2])
    assert (a == other) is False
    assert (a != other) is True
    with pytest.raises(ValueError):
        a < other  # noqa: B015 - it raises
    # Numbers are compared, or do not fit.
    with pytest.raises(ValueError, match="overflow"):
        a == 2**40  # noqa: B015


def test_division_in_place_by_none():
    for a in (mx.array([1, 2]), mx.array([1.0])):
        with pytest.raises(TypeError, match="NoneType"):
            a /= None
