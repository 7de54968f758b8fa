"""Rows of functions that change shapes, and of indexing."""

import numpy as np
from arguments import (
    FLAG,
    A,
    Either,
    Fn,
    Int,
    Scalar,
    axes,
    axis,
    index,
    indices,
    maybe_axis,
    other_shape,
    permutation,
    rank,
    size,
    wider_shape,
)
from table import BOTH, GRAD, row, rows
from wire import Arr

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
row(
    "pad",
    A("any", "n k"),
    Either(0, 2, (1,), (1, 2), [(0, 1), (2, 0)]),
    constant_values=Either(0, 3),
)
row(
    "pad",
    A("any", "5 6"),
    Either(1, 2, [(0, 1), (2, 0)]),
    Either("edge", "constant", "reflect", "symmetric"),
)
row("pad", A("float", "n k"), 1, modes=BOTH)
row("as_strided", A("any", "24"), Either((2, 3), (4, 2)), Either((3, 1), (1, 2), (0, 1)), Int(0, 5))
row("contiguous", A(), FLAG)
row("meshgrid", A("any", "n"), A("any", "k"), sparse=FLAG, indexing=Either("xy", "ij"))
row("diag", Either(A("any", "n"), A("any", "n k")), Int(-2, 2), modes=GRAD)
row("array.diag", A("any", "n k"), Int(-2, 2))
rows("diagonal array.diagonal", A("any", "any2"), Int(-2, 2), 0, 1)
row("diagonal", A("any", "n k m"), Int(-1, 1), Either(0, 1, 2), Either(0, -1))
row("trace", A("number", "n k"), Int(-1, 1), 0, 1, sums=True, tol=4)
rows("tril triu", A("any", "any2"), Int(-3, 3), modes=GRAD)
row("kron", A("number", "n k"), A("number", "2 3"))
rows("array.reshape", A("any", "6 4"), Either(24, -1, (3, 8), [2, -1]))
row("array.reshape", A("any", "6 4"), 2, -1, 3)
row("array.transpose", A("any", "2 3 4"), Either((2, 0, 1), [0, 2, 1]))
rows("array.flatten array.squeeze", A("any", "1 n 1"))
row("array.split", A("any", "6 2"), Either(2, 3))

# Indexing

row("[]", A("any", "any1"), index(), weight=8)
row("[]=", A("any", "any1"), index(), Scalar(), weight=3)
row("[]", A("float", "any1"), index(), modes=GRAD, weight=2)
rows(
    "at.add at.maximum at.multiply",
    A("number", "any1", values="exact"),
    Fn(lambda d: indices(0)),
    Either(1, 2),
)
row("take", A("any", "any1"), indices(None), modes=GRAD)
row("take", A("any", "any1"), indices(0), 0, modes=GRAD)
row("take", A("any", "any1"), Int(-1, 0), -1)
row("take_along_axis", A("any", "n k"), Fn(lambda d: indices(1, shape=f"{size(d)[0]} 3")), 1)
row(
    "take_along_axis",
    A("float", "n k"),
    Fn(lambda d: indices(0, shape=f"2 {size(d)[1]}")),
    0,
    modes=GRAD,
)
row("put_along_axis", A("any", "5 k"), Arr("int32", np.array([[3], [0]])), A("any", "2 k"), 0)
row("slice", A("any", "5 6"), Arr("int32", np.array([1, 2])), (0, 1), (2, 3))
row("slice_update", A("any", "5 6"), A("any", "2 3"), Arr("int32", np.array([1, 2])), (0, 1))
