"""Rows of reductions, scans, sorts and searches."""

import numpy as np
from arguments import FLAG, A, Either, Fn, Int, axes, axis, dtype, maybe_axis
from table import BOTH, GRAD, row, rows
from wire import Arr

# Reductions

rows("sum mean", A("real"), axes(), FLAG, modes=BOTH, weight=3, sums=True, tol=4)
rows("sum mean", A("complex"), axes(), FLAG, sums=True, tol=4)
# MLX multiplies half precision in half precision: long products leave its range on the way.
rows("prod", A("real", values="near 1"), axes(), FLAG, tol=64)
rows("prod", A("f32", values="positive"), axes(), FLAG, tol=16)
rows("prod", A("int", values="positive"), axes(), FLAG)
rows("max min", A("any", values="special"), axes(), FLAG, weight=2)
rows("max min", A("float", values="distinct"), axes(), FLAG, modes=BOTH)
rows("all any", A("any", values="small"), axes(), FLAG, weight=2)
rows("argmax argmin", A("real", values="special"), maybe_axis(), FLAG, weight=2)
rows("var std", A("float"), axes(), FLAG, Int(0, 1), modes=BOTH, sums=True, tol=16)
row("logsumexp", A("float", values="special"), axes(), FLAG, tol=4)
row("logsumexp", A("float"), axes(), FLAG, modes=GRAD, tol=4)
row("median", A("real"), axes(), FLAG, tol=2)
row("minmax", A("real", values="special"), axes(), FLAG)
row("count_nonzero", A("any", values="small"), axis=axes(), keepdims=FLAG)
row("softmax", A("float", values="special"), axes(), modes=BOTH, weight=2, tol=4)
row("softmax", A("float"), axes(), precise=True, tol=4)
rows(
    "array.sum array.mean array.max array.min array.prod array.any array.all array.argmax",
    A("real", values="unit"),
    axis=Fn(lambda d: axis(0)),
    keepdims=FLAG,
    sums=True,
    tol=16,
)
rows("array.var array.std", A("float"), maybe_axis(), FLAG, correction=Int(0, 1), sums=True, tol=16)

# Scans, sorts, searches

for op in "cumsum cumprod cummax cummin".split():
    values = "unit" if op == "cumprod" else "normal"
    for name in (op, "array." + op):
        row(
            name,
            A("real", values=values),
            maybe_axis(),
            reverse=FLAG,
            inclusive=FLAG,
            sums=True,
            tol=8,
        )
rows(
    "cumsum cumprod",
    A("float", values="unit"),
    maybe_axis(),
    reverse=FLAG,
    inclusive=FLAG,
    modes=BOTH,
    sums=True,
    tol=16,
)
rows(
    "cumulative_sum cumulative_prod",
    A("real", values="unit"),
    maybe_axis(),
    dtype=dtype("float"),
    sums=True,
    tol=8,
)
# MLX sums half precision in half precision, so only a few elements compare.
LOGCUMSUM = {"reverse": FLAG, "inclusive": FLAG, "tol": 8}
rows("logcumsumexp array.logcumsumexp", A("f32"), maybe_axis(), **LOGCUMSUM)
rows("logcumsumexp array.logcumsumexp", A("float", "n 3"), Either(0, 1, -1), **LOGCUMSUM)
row("sort", A("real", values="special"), maybe_axis(), weight=2)
row("sort", A("float", values="distinct"), maybe_axis(), modes=BOTH)
row("argsort", A("number", shape="any", values="distinct"), maybe_axis(), weight=2)
row(
    "searchsorted",
    Arr("float32", np.array([-2, -1, -1, 0, 0.5, 3], np.float32)),
    A("f32"),
    Either("left", "right"),
)
row(
    "unique",
    A("int", "n", values="small"),
    5,
    return_index=FLAG,
    return_inverse=FLAG,
    return_counts=FLAG,
)

rows("partition topk", A("number", "n 8", values="distinct"), Int(1, 7), any_order=True)
row("argpartition", A("number", "n 8", values="distinct"), Int(1, 7), -1, any_order=True)
row("array.item", A("any", "1"))
row("array.tolist", A("any"))
row("diff", A("number"), Int(0, 2), Fn(lambda d: axis(0)))
