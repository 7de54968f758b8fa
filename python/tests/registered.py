"""A call of every function in the oracle's tables, for tests of what holds for all of them.

The tables (oracle/cases_*.py) say how arguments are drawn; adding a row there adds it here.
"""

import dataclasses
import pathlib
import sys

import helpers as h
import mlx.core as mx
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent / "oracle"))

from arguments import Draw, drawn  # noqa: E402
from cases import ROWS  # noqa: E402
from wire import Arr  # noqa: E402
from worker import Absent, build, function, leaves  # noqa: E402

# Results that Python sees, or that depend on more than the arguments.
NO_ARRAYS = {"array.item", "array.tolist"}


@dataclasses.dataclass
class Call:
    """`f` of `arrays` is the call; other arguments are inside."""

    name: str
    row: object
    arrays: list
    values: list
    dtypes: list
    f: object

    def __str__(self):
        shapes = ", ".join(
            f"{d}{list(v.shape)}" for d, v in zip(self.dtypes, self.values, strict=True)
        )
        return f"{self.name}({shapes})"

    def on(self, values):
        """Other values in the dtypes of the call."""
        return [h.from_np(v, d) for v, d in zip(values, self.dtypes, strict=True)]


def positions(v, path=()):
    """Where the arrays of an argument are, at any depth of lists."""
    if isinstance(v, Arr):
        yield path
    elif isinstance(v, list | tuple):
        for i, x in enumerate(v):
            yield from positions(x, (*path, i))


def placed(v, arrays):
    """The argument with built arrays in the places of its own."""
    if isinstance(v, Arr):
        return next(arrays)
    if isinstance(v, list | tuple):
        return type(v)(placed(x, arrays) for x in v)
    return build(v)


def at(v, path):
    for i in path:
        v = v[i]
    return v


def draw(row, number, take):
    """A call of a row; None where this library has no such function."""
    d = Draw(np.random.default_rng([7, number, take]))
    for a in row.args:
        d.args.append(drawn(a, d))
    kwargs = {k: drawn(v, d) for k, v in row.kwargs.items()}
    args = d.args
    try:
        f = function(row.op)
    except Absent:
        return None
    found = [at(args, p) for p in positions(args)]

    def call(*arrays):
        # Operations in place change the object they are given, so that is a new one each time.
        given = iter([mx.reshape(a, a.shape) for a in arrays])
        full = [placed(a, given) for a in args]
        result = f(*full, **{k: build(v) for k, v in kwargs.items()})
        return leaves(list(result.values()) if isinstance(result, dict) else result)

    values = [np.ascontiguousarray(a.values).reshape(a.values.shape) for a in found]
    dtypes = [a.dtype for a in found]
    arrays = [h.from_np(v, d) for v, d in zip(values, dtypes, strict=True)]
    name = row.op if row.op not in ("[]", "[]=") else f"{row.op} {args[1]!r:.60}"
    return Call(name, row, arrays, values, dtypes, call)


def calls(takes=1, every=1, dtypes=None):
    """Calls of all rows (or of every n-th) that this device can run and that succeed."""
    for number, row in enumerate(ROWS):
        if row.op in NO_ARRAYS or number % every:
            continue
        for take in range(takes):
            c = draw(row, number, take)
            if c is None or (h.on_gpu() and "float64" in c.dtypes):
                continue
            if dtypes and not set(c.dtypes) <= set(dtypes):
                continue
            try:
                mx.random.seed(3)
                results = c.f(*c.arrays)
                mx.eval(results)
            except (ValueError, TypeError, RuntimeError, IndexError, NotImplementedError):
                continue  # the tables hold bad calls too
            if results:
                yield c, results


def close(got, want, row, label, factor=1.0):
    """Results equal but for rounding."""
    assert len(got) == len(want), label
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape, f"{label}: {g.dtype} {g.shape}"
        if row.shape_only:
            continue
        a, b = h.to_np(g), h.to_np(w)
        if row.any_order:
            a, b = np.sort(a, -1), np.sort(b, -1)
        rtol = {mx.float16: 4e-3, mx.bfloat16: 3e-2, mx.float64: 1e-9}.get(g.dtype, 2e-5)
        if not mx.issubdtype(g.dtype, mx.inexact):
            rtol = 0.0
        finite = np.abs(b[np.isfinite(b)]) if rtol else np.zeros(1)
        scale = finite.max(initial=0.0) * rtol * 0.5 + rtol * 0.1
        np.testing.assert_allclose(
            a, b, rtol * factor, scale * factor, equal_nan=True, err_msg=label
        )
