"""The table of what is compared: one row a function (or a form of it), with the specifications of its
arguments. To add a function, add a row; `arguments.py` says what a specification can be."""

from dataclasses import dataclass, field

import numpy as np
from arguments import (
    CPU,
    FLAG,
    A,
    Either,
    Fn,
    Int,
    Num,
    Scalar,
    any_shape,
    axes,
    axis,
    dtype,
    index,
    indices,
    maybe_axis,
    other_shape,
    permutation,
    rank,
    size,
    wider_shape,
)
from wire import Arr, Name


@dataclass
class Row:
    """`weight`: share of the cases. `modes`: besides `call`. `tol`: factor on the tolerance of the dtype.
    `sums`: errors are held against the largest result, for sums that cancel. `shape_only`: values are
    left open by the definition (memory that is not initialised, signs of vectors); `any_order`: so is the
    order along the last axis."""

    op: str
    args: tuple
    kwargs: dict = field(default_factory=dict)
    weight: float = 1.0
    modes: tuple = ()
    tol: float = 1.0
    sums: bool = False
    shape_only: bool = False
    any_order: bool = False


ROWS: list[Row] = []


def row(
    op, *args, weight=1.0, modes=(), tol=1.0, sums=False, shape_only=False, any_order=False, **kwargs
):
    ROWS.append(Row(op, args, kwargs, weight, tuple(modes), tol, sums, shape_only, any_order))


def rows(ops, *args, **options):
    for op in ops.split():
        row(op, *args, **options)


GRAD = ("grad",)
BOTH = ("grad", "vmap")

# Elementwise, one operand

rows("abs negative square sign positive", A("any", values="special"), modes=BOTH)
rows("exp sin cos tanh sinh cosh arctan arcsinh sigmoid erf expm1", A("inexact", values="special"))
rows("exp sin cos tanh arctan sigmoid erf sinh cosh arcsinh", A("float"), modes=GRAD, tol=4)
rows("tan", A("inexact", values="unit"), modes=GRAD, tol=4)
rows("arcsin arccos arctanh erfinv asin acos atanh", A("float", values="unit"), modes=GRAD, tol=8)
rows("log log2 log10 log1p sqrt rsqrt reciprocal", A("inexact", values="positive"), modes=BOTH, tol=4)
rows("log log2 log10 log1p sqrt rsqrt reciprocal", A("float", values="special"))
rows("arccosh acosh", Fn(lambda d: A("float", values="positive")), tol=4)
rows("atan asinh exp sin", A("real"))
rows("ceil floor trunc", A("number", values="special"))
row("round", A("number", values="special"), Int(-2, 2))
row("round", A("float"), modes=GRAD)
rows("isnan isinf isfinite isneginf isposinf logical_not", A("any", values="special"))
rows("conjugate conj real imag", A("any", values="special"))
row("bitwise_invert", A("int"))
rows("degrees radians", A("float"), modes=GRAD)
row("nan_to_num", A("float", values="special"), Num(-3, 3), Either(None, 7.0), Either(None, -7.0))
row("stop_gradient", A("any"))

# Elementwise, two operands and more

rows("add subtract multiply maximum minimum", A("any", values="special"), A("any", like=0), weight=2)
rows("add subtract multiply", A("any"), Scalar())
rows("add multiply maximum", Scalar(), A("real"))
rows("add subtract multiply maximum minimum", A("float"), A("float", like=0), modes=BOTH)
rows("divide", A("any"), A("any", values="positive", like=0), modes=BOTH, weight=2, tol=2)
rows("divide floor_divide remainder", A("number"), Scalar(positive=True), tol=2)
rows("floor_divide remainder divmod", A("number", values="positive"),
     A("number", values="positive", like=0))  # fmt: skip
rows("power pow", A("number", values="positive"), A("number", values="small", like=0), tol=8)
row("power", A("float", values="positive"), A("float", like=0), modes=GRAD, tol=16)
rows("arctan2 atan2 logaddexp", A("float"), A("float", like=0), modes=BOTH, tol=4)
rows("equal not_equal less less_equal greater greater_equal",
     A("any", values="small"), A("any", values="small", like=0))  # fmt: skip
rows("equal less greater_equal", A("real", values="special"), Scalar())
rows("logical_and logical_or logical_xor", A("any", values="small"), A("any", values="small", like=0))
rows("bitwise_and bitwise_or bitwise_xor", A("int", values="special"), A("int", like=0))
rows("bitwise_and bitwise_or bitwise_xor", A("bool"), A("bool", like=0))
rows("left_shift right_shift bitwise_left_shift bitwise_right_shift",
     A("int", values="positive"), A("int", values="small", like=0))  # fmt: skip
row("where", A("bool"), A("any", like=0), A("any", like=0), modes=GRAD, weight=2)
row("where", A("real", values="small"), A("float", like=0), Scalar())
row("clip", A("real"), Either(None, -1, 0.5, A("real", like=0)), Either(2, 1.5, A("real", like=0)))
row("clip", A("float"), -0.5, 0.5, modes=BOTH)
rows("isclose allclose", A("float", values="special"), A("float", like=0), rtol=Num(0, 1), atol=0.5,
     equal_nan=FLAG)  # fmt: skip
row("array_equal", A("any", values="small"), A("any", values="small", same=0), equal_nan=FLAG)
rows("array.__add__ array.__sub__ array.__mul__ array.__rsub__", A("any"), Scalar())
rows("array.__mod__ array.__floordiv__ array.__truediv__ array.__pow__",
     A("number", values="positive"), Scalar(positive=True), tol=4)  # fmt: skip
rows("array.__and__ array.__or__ array.__xor__", A("int"), A("int", like=0))
rows("array.__eq__ array.__ne__ array.__lt__ array.__ge__", A("any", values="small"), Scalar())
rows("array.__neg__ array.__abs__ array.__pos__", A("any"))
row("array.__invert__", A("int"))

# Reductions

rows("sum mean", A("real"), axes(), FLAG, modes=BOTH, weight=3, sums=True, tol=4)
rows("sum mean", A("complex"), axes(), FLAG, sums=True, tol=4)
rows("prod", A("real", values="positive"), axes(), FLAG, tol=16)
rows("max min", A("any", values="special"), axes(), FLAG, weight=2)
rows("max min", A("float", values="distinct"), axes(), FLAG, modes=BOTH)
rows("all any", A("any", values="small"), axes(), FLAG, weight=2)
rows("argmax argmin", A("real", values="special"), maybe_axis(), FLAG, weight=2)
rows("var std", A("float"), axes(), FLAG, Int(0, 1), modes=BOTH, sums=True, tol=16)
row("logsumexp", A("float", values="special"), axes(), FLAG, modes=GRAD, weight=2, tol=4)
row("median", A("real"), axes(), FLAG, tol=2)
row("minmax", A("real", values="special"), axes(), FLAG)
row("count_nonzero", A("any", values="small"), axis=axes(), keepdims=FLAG)
row("softmax", A("float", values="special"), axes(), modes=BOTH, weight=2, tol=4)
row("softmax", A("float"), axes(), precise=True, tol=4)
rows("array.sum array.mean array.max array.min array.prod array.any array.all array.argmax",
     A("real", values="unit"), axis=Fn(lambda d: axis(0)), keepdims=FLAG, sums=True, tol=16)  # fmt: skip
rows("array.var array.std", A("float"), maybe_axis(), FLAG, correction=Int(0, 1), sums=True, tol=16)

# Scans, sorts, searches

for op in "cumsum cumprod cummax cummin".split():
    values = "unit" if op == "cumprod" else "normal"
    for name in (op, "array." + op):
        row(name, A("real", values=values), maybe_axis(), reverse=FLAG, inclusive=FLAG, sums=True, tol=8)
rows("cumsum cumprod", A("float", values="unit"), maybe_axis(), reverse=FLAG, inclusive=FLAG,
     modes=BOTH, sums=True, tol=16)  # fmt: skip
rows("cumulative_sum cumulative_prod", A("real", values="unit"), maybe_axis(), dtype=dtype("float"),
     sums=True, tol=8)  # fmt: skip
rows("logcumsumexp array.logcumsumexp", A("float"), maybe_axis(), reverse=FLAG, inclusive=FLAG, tol=8)
row("sort", A("real", values="special"), maybe_axis(), weight=2)
row("sort", A("float", values="distinct"), maybe_axis(), modes=BOTH)
row("argsort", A("number", shape="any", values="distinct"), maybe_axis(), weight=2)
row("searchsorted", Arr("float32", np.array([-2, -1, -1, 0, 0.5, 3], np.float32)), A("f32"),
    Either("left", "right"))  # fmt: skip
row("unique", A("int", "n", values="small"), 5, return_index=FLAG, return_inverse=FLAG,
    return_counts=FLAG)  # fmt: skip

rows("partition topk", A("number", "n 8", values="distinct"), Int(1, 7), any_order=True)
row("array.item", A("any", "1"))
row("array.tolist", A("any"))
row("diff", A("number"), Int(0, 2), Fn(lambda d: axis(0)))

# Shapes

row("reshape", A(), other_shape(), modes=BOTH, weight=2)
row("flatten", A(), Either(0, Fn(lambda d: axis(0))), Either(-1, Fn(lambda d: axis(0))), modes=GRAD)
row("unflatten", A("any", "n 12 k"), 1, Either((3, 4), (2, -1), [2, 2, 3], (5, 2)))
row("squeeze", A("any", "1 n 1 k"), Either(None, 0, 2, (0, 2), [0], -2, 5), modes=GRAD)
row("expand_dims", A(), Fn(lambda d: d.integer(-rank(d) - 1, rank(d))), modes=BOTH)
row("expand_dims", A("any", "n k"), Either((0, 1), [0, -1], (1, 3), (0, 0), 7))
row("transpose", A(), Either(None, permutation()), modes=BOTH, weight=2)
row("permute_dims", A(), permutation())
row("swapaxes", A("any", "any1"), axis(), axis(), modes=BOTH)
row("moveaxis", A("any", "any1"), axis(), axis(), modes=BOTH)
row("matrix_transpose", A("any", "any2"))
row("broadcast_to", A(), wider_shape(), modes=BOTH)
row("broadcast_arrays", A(), A(like=0))
row("broadcast_shapes", (1, 3), Either((2, 1), (3,), (4, 2, 3), (5,)))
rows("atleast_1d atleast_2d atleast_3d", A())
rows("atleast_2d", A(), A())
row("concatenate", [A("any", "n k"), A("any", "n k"), A("any", "n k")], Either(0, 1, -1, None, 3))
row("concat", [A("any", "n 2 k"), A("any", "n 3 k")], Either(1, -2, 0))
row("concatenate", [A("float", "n k"), A("float", "n k")], Either(0, 1))
row("stack", [A("any", "n k"), A("any", "n k")], Either(0, 1, 2, -1, -3, 5))
row("split", A("any", "n 12 k"), Either(1, 2, 3, 4, 5, [2, 5], [0, 13], [3, 3]), Either(1, -2))
row("unstack", A("any", "any1"), axis=Fn(lambda d: axis(0)))
row("repeat", A(), Int(0, 3), maybe_axis())
row("tile", A(), Either(0, 2, (2, 1), [1, 2, 3], ()))
row("flip", A(), axes())
row("roll", A(), Either(0, 1, -2, 5, 100), maybe_axis())
row("roll", A("any", "n k"), Either((1, 2), (0, -3)), (0, 1))
row("pad", A("any", "n k"), Either(0, 2, (1,), (1, 2), [(0, 1), (2, 0)]), constant_values=Either(0, 3))
row("pad", A("any", "5 6"), Either(1, 2, [(0, 1), (2, 0)]), Either("edge", "constant", "reflect",
    "symmetric"))  # fmt: skip
row("pad", A("float", "n k"), 1, modes=BOTH)
row("as_strided", A("any", "24"), Either((2, 3), (4, 2)), Either((3, 1), (1, 2), (0, 1)), Int(0, 5))
row("contiguous", A(), FLAG)
row("meshgrid", A("any", "n"), A("any", "k"), sparse=FLAG, indexing=Either("xy", "ij"))
row("diag", Either(A("any", "n"), A("any", "n k")), Int(-2, 2), modes=GRAD)
row("array.diag", A("any", "n k"), Int(-2, 2))
rows("diagonal array.diagonal", A("any", "any2"), Int(-2, 2), 0, 1)
row("diagonal", A("any", "n k m"), Int(-1, 1), Either(0, 1, 2), Either(0, -1))
row("trace", A("number", "... n k"), Int(-1, 1), 0, 1, sums=True, tol=4)
rows("tril triu", A("any", "any2"), Int(-3, 3), modes=GRAD)
row("kron", A("number", "n k"), A("number", "2 3"))
rows("array.reshape", A("any", "6 4"), Either(24, -1, (3, 8), [2, -1]))
row("array.reshape", A("any", "6 4"), 2, -1, 3)
row("array.transpose", A("any", "2 3 4"), Either((2, 0, 1), [0, 2, 1]))
rows("array.flatten array.squeeze", A("any", "1 n 1"))
row("array.split", A("any", "6 2"), Either(2, 3))

# Types and creation

rows("astype array.astype", A("real", values="small"), dtype("any"), weight=3)
row("astype", A("float"), dtype("float"), modes=GRAD)
rows("view array.view", A("int", "... 8"), dtype("int"))
rows("view", A("float", "... 8"), dtype("uint"))
row("zeros", any_shape(), dtype())
row("ones", any_shape(), dtype())
row("empty", any_shape(), dtype(), shape_only=True)
row("full", any_shape(), Scalar(), Either(None, dtype()))
row("full", Fn(lambda d: wider_shape(0) if d.args else [2, 3]), A("any", "1"))
rows("zeros_like ones_like", A())
row("empty_like", A(), shape_only=True)
row("full_like", A("any"), Scalar())
row("arange", Int(-3, 20), Int(-3, 20), Either(1, 2, -1, 0.5), Either(None, dtype("number")))
row("arange", Num(-3, 9))
row("linspace", Num(-3, 3), Num(-3, 3), Int(0, 9), FLAG, dtype("float"), tol=4, sums=True)
row("eye", Int(1, 6), Either(None, Int(1, 6)), Int(-3, 3), dtype())
row("identity", Int(1, 6), dtype())
row("tri", Int(1, 6), Either(None, Int(1, 6)), Int(-3, 3), dtype())
rows("hanning hamming blackman bartlett", Int(0, 20), tol=8, sums=True)
row("isdtype", dtype(), Either("bool", "signed integer", "integral", "real floating", "numeric", "x"))
row("issubdtype", dtype(), Either(dtype(), Name("floating"), Name("integer"), Name("generic")))
row("result_type", A(), A(), dtype())
row("can_cast", dtype(), dtype())
rows("finfo iinfo", dtype())

# Indexing

row("[]", A("any", "any1"), index(), weight=8)
row("[]=", A("any", "any1"), index(), Scalar(), weight=3)
row("[]", A("float", "any1"), index(), modes=GRAD, weight=2)
rows("at.add at.maximum at.multiply", A("number", "any1", values="exact"),
     Fn(lambda d: indices(0)), Either(1, 2))  # fmt: skip
row("take", A("any", "any1"), indices(None), modes=GRAD)
row("take", A("any", "any1"), indices(0), 0, modes=GRAD)
row("take", A("any", "any1"), Int(-1, 0), -1)
row("take_along_axis", A("any", "n k"), Fn(lambda d: indices(1, shape=f"{size(d)[0]} 3")), 1)
row("take_along_axis", A("float", "n k"), Fn(lambda d: indices(0, shape=f"2 {size(d)[1]}")), 0,
    modes=GRAD)  # fmt: skip
row("put_along_axis", A("any", "5 k"), Arr("int32", np.array([[3], [0]])), A("any", "2 k"), 0)
row("slice", A("any", "5 6"), Arr("int32", np.array([1, 2])), (0, 1), (2, 3))
row("slice_update", A("any", "5 6"), A("any", "2 3"), Arr("int32", np.array([1, 2])), (0, 1))

# Products

row("matmul", A("float+", "... n k"), A("float+", "... k m"), modes=BOTH, weight=4, sums=True, tol=4)
row("matmul", A("any", "n k"), A("any", "k m"), weight=2, sums=True, tol=4)
row("matmul", A("float", "k"), Either(A("float", "k"), A("float", "k m")), sums=True, tol=4)
row("matmul", A("float", "n k"), A("float", "k"), sums=True, tol=4)
row("array.__matmul__", A("float", "3 n k"), A("float", "k m"), sums=True, tol=4)
row("addmm", A("float", "n m"), A("float", "n k"), A("float", "k m"), alpha=Num(-2, 2), beta=Num(-2, 2),
    modes=GRAD, sums=True, tol=8)  # fmt: skip
rows("inner", A("number", "n k"), A("number", "m k"), sums=True, tol=4)
rows("outer", A("number", "n"), A("number", "m"))
row("vecdot", A("inexact", "... n k"), A("inexact", "... n k"), axis=Either(-1, -2), sums=True, tol=4)
row("tensordot", A("float", "n 3 4"), A("float", "3 4 m"), Either(2, [[1, 2], [0, 1]], [[2], [1]], 1),
    sums=True, tol=4)  # fmt: skip
row("tensordot", A("float", "3 n"), A("float", "n 2"), 1, modes=GRAD, sums=True, tol=4)
for text, *shapes in [
    ("ij,jk->ik", "n k", "k m"),
    ("ij,jk", "n k", "k m"),
    ("bij,bjk->bik", "2 n k", "2 k m"),
    ("ii->i", "4 4"),
    ("ii", "4 4"),
    ("ij->ji", "n k"),
    ("ij->j", "n k"),
    ("i,j->ij", "n", "m"),
    ("ij,ij->", "n k", "n k"),
    ("abc,cd,de->abe", "2 n k", "k m", "m 3"),
    ("...ij,...jk->...ik", "... n k", "... k m"),
    ("ij,kj->ik", "n k", "m k"),
]:
    row("einsum", text, *[A("float", s) for s in shapes], weight=0.3, modes=GRAD, sums=True, tol=8)
row("gather_mm", A("float", "4 n k"), A("float", "3 k m"), Arr("uint32", np.array([0, 3])),
    Arr("uint32", np.array([2, 1])), sums=True, tol=8)  # fmt: skip
row("block_masked_mm", A("f32", "64 32"), A("f32", "32 64"), 32, sums=True, tol=8)
row("segmented_mm", A("f32", "5 8"), A("f32", "8 6"), Arr("uint32", np.array([[0, 3], [3, 8]])),
    sums=True, tol=8)  # fmt: skip

# Convolutions

row("conv1d", A("float", "n 9 4"), A("float", "6 3 4"), Int(1, 2), Int(0, 2), Int(1, 2), modes=BOTH,
    sums=True, tol=8)  # fmt: skip
row("conv1d", A("float", "n 9 4"), A("float", "6 3 2"), groups=2, modes=GRAD, sums=True, tol=8)
row("conv2d", A("float", "n 7 6 4"), A("float", "3 3 2 4"), Either(1, 2, (1, 2)), Either(0, 1, (2, 1)),
    Either(1, (1, 2)), modes=BOTH, sums=True, tol=8, weight=2)  # fmt: skip
row("conv2d", A("float", "2 5 5 4"), A("float", "8 3 3 1"), groups=4, sums=True, tol=8)
row("conv3d", A("f32", "1 5 4 6 2"), A("f32", "3 2 3 2 2"), Either(1, 2), Either(0, 1), sums=True, tol=8)
row("conv_general", A("f32", "1 7 6 2"), A("f32", "3 3 2 2"), Either(1, (2, 1)), Either(0, ((1, 0),
    (2, 1))), Either(1, 2), Either(1, (2, 1)), 1, FLAG, sums=True, tol=8)  # fmt: skip
row("conv_transpose1d", A("float", "n 6 3"), A("float", "4 3 3"), Int(1, 2), Int(0, 1), modes=GRAD,
    sums=True, tol=8)  # fmt: skip
row("conv_transpose2d", A("float", "1 4 5 3"), A("float", "2 3 2 3"), Either(1, 2), Either(0, 1),
    sums=True, tol=8)  # fmt: skip
row("conv_transpose3d", A("f32", "1 3 4 3 2"), A("f32", "2 2 2 2 2"), Int(1, 2), sums=True, tol=8)
row("convolve", A("float", "9"), A("float", "4"), Either("full", "same", "valid"), sums=True, tol=8)

# Fourier transforms

FFT = {"norm": Either("backward", "ortho", "forward"), "sums": True, "tol": 16}
rows("fft.fft fft.ifft", Either(A("f32", "n 12"), A("complex", "n 12")), Either(None, 6, 12, 16),
     Either(-1, 0), modes=GRAD, weight=2, **FFT)  # fmt: skip
rows("fft.rfft", A("f32", "... n 10"), Either(None, 5, 10, 13), -1, modes=GRAD, **FFT)
rows("fft.irfft", A("complex", "... n 7"), Either(None, 8, 12, 13), -1, modes=GRAD, **FFT)
rows("fft.fft2 fft.ifft2", A("complex", "n 6 8"), Either(None, (4, 8)), **FFT)
rows("fft.rfft2", A("f32", "n 6 8"), **FFT)
rows("fft.irfft2", A("complex", "n 6 5"), **FFT)
rows("fft.fftn fft.ifftn", A("complex", "3 4 5"), None, Either(None, (0, 2), [1]), **FFT)
rows("fft.rfftn", A("f32", "3 4 6"), None, Either(None, (0, 2)), **FFT)
rows("fft.irfftn", A("complex", "3 4 4"), None, Either(None, (0, 2)), **FFT)
rows("fft.fftshift fft.ifftshift", A("any", "any1"), axes())
rows("fft.fftfreq fft.rfftfreq", Int(1, 12), Num(0.2, 2))
row("fft.stft", A("f32", "200"), 32, Either(None, 8), center=FLAG, sums=True, tol=16)

# Linear algebra (on the CPU in MLX)


def well_conditioned(d, batch=()):
    n = d.integer(1, 6)
    x = d.rng.normal(size=(*batch, n, n)) * 0.3 + 2 * np.eye(n)
    return Arr("float32", x.astype(np.float32))


def positive_definite(d):
    x = well_conditioned(d).values
    return Arr("float32", (x @ np.swapaxes(x, -1, -2)).astype(np.float32))


SQUARE = Fn(lambda d: well_conditioned(d, d.pick([(), (), (2,), (0,)])))
row("linalg.inv", SQUARE, stream=CPU, sums=True, tol=32)
row("linalg.tri_inv", Fn(lambda d: Arr("float32", np.tril(well_conditioned(d).values))), stream=CPU,
    sums=True, tol=32)  # fmt: skip
row("linalg.det", SQUARE, stream=CPU, tol=64)
row("linalg.slogdet", SQUARE, stream=CPU, tol=64)
row("linalg.cholesky", Fn(positive_definite), FLAG, stream=CPU, sums=True, tol=32)
row("linalg.cholesky_inv", Fn(lambda d: Arr("float32", np.linalg.cholesky(positive_definite(d).values))),
    stream=CPU, sums=True, tol=64)  # fmt: skip
row("linalg.eigvalsh", Fn(positive_definite), Either("L", "U"), stream=CPU, sums=True, tol=32)
row("linalg.svd", A("f32", "... n k"), False, stream=CPU, sums=True, tol=32)
row("linalg.pinv", A("f32", "4 3"), stream=CPU, sums=True, tol=64)
row("linalg.lu_factor", SQUARE, stream=CPU, sums=True, tol=32)
row("linalg.lu", SQUARE, stream=CPU, sums=True, tol=32)
row("linalg.solve", Arr("float32", np.array([[3, 1], [1, 2]], np.float32)), A("f32", "2 k"), stream=CPU,
    sums=True, tol=32)  # fmt: skip
row("linalg.solve_triangular", Arr("float32", np.array([[3, 0], [1, 2]], np.float32)), A("f32", "2 k"),
    stream=CPU, sums=True, tol=32)  # fmt: skip
row("linalg.norm", A("f32", "n k"), Either(None, 1, 2, "fro", "nuc", float("inf")), (0, 1), FLAG,
    stream=CPU, tol=32)  # fmt: skip
row("linalg.norm", A("inexact", "n k"), Either(None, 0, 1, 2, 3, -1, float("inf")), Either(0, 1, -1),
    FLAG, tol=16)  # fmt: skip
row("linalg.cross", A("f32", "... 3"), A("f32", "... 3"), sums=True, tol=4)
rows("linalg.qr linalg.eigh linalg.eig", SQUARE, stream=CPU, shape_only=True)

# Random numbers: the same key gives the same bits

KEY = Fn(lambda d: Arr("uint32", d.rng.integers(0, 2**32, 2, dtype=np.uint32)))
row("random.key", Int(0, 10**6))
row("random.split", KEY, Int(1, 5))
row("random.bits", any_shape(), Either(1, 2, 4), KEY)
row("random.uniform", Num(-2, 0), Num(1, 3), any_shape(), dtype("float"), KEY, sums=True)
row("random.normal", any_shape(), dtype("float"), Num(-1, 1), Num(0.5, 2), KEY, tol=16, sums=True)
row("random.randint", Int(-9, 0), Int(1, 99), any_shape(), dtype("int"), KEY)
row("random.bernoulli", Num(0, 1), any_shape(), KEY)
row("random.truncated_normal", -1.0, Num(0, 2), any_shape(), dtype("float"), KEY, tol=16, sums=True)
row("random.gumbel", any_shape(), dtype("float"), KEY, tol=16, sums=True)
row("random.laplace", any_shape(), dtype("float"), Num(-1, 1), Num(0.5, 2), KEY, tol=16, sums=True)
row("random.categorical", A("f32", "n 6"), Either(-1, 0, 1), None, Either(None, 4), KEY)
row("random.permutation", Either(Int(1, 20), A("any", "n k")), Int(0, 0), KEY)

# Layers and quantisation

row("fast.rms_norm", A("float", "... n 32"), Either(None, A("float", "32")), 1e-5, tol=4)
row("fast.layer_norm", A("float", "... n 32"), Either(None, A("float", "32")), Either(None,
    A("float", "32")), 1e-5, tol=4, sums=True)  # fmt: skip
row("fast.rms_norm", A("float", "n 32"), A("float", "32"), 1e-5, modes=("grad",), tol=16, sums=True)
row("fast.rope", A("float", "1 2 n 16"), Either(16, 8), traditional=FLAG, base=10000.0, scale=Num(0.5, 2),
    offset=Int(0, 9), tol=16, sums=True)  # fmt: skip
row("fast.scaled_dot_product_attention", A("float", "1 4 n 16"), A("float", "1 2 k 16"),
    A("float", "1 2 k 16"), scale=0.25, mask=Either(None, None, "causal"), tol=8, sums=True)  # fmt: skip
row("quantize", A("float", "n 128"), Either(32, 64, 128), Either(2, 3, 4, 6, 8), tol=4, sums=True)
row("to_fp8", A("float", values="special"))
row("from_fp8", A("uint8"), dtype("float"))
row("hadamard_transform", A("float", "n 16"), Either(None, 0.5), tol=8, sums=True)
row("depends", A(), A())
