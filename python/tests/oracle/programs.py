"""Random programs: chains of functions over a pool of arrays, whose shapes are known beforehand
from NumPy. Values stay tame (sine and tanh now and then), so that results compare after ten
steps."""

import numpy as np
from arguments import LAYOUTS, Draw, round_to
from wire import Arr, Case

UNARY = "sin cos tanh sigmoid negative abs square arctan erf".split()
BINARY = "add subtract multiply maximum minimum".split()
INT_UNARY = "negative abs sign".split()


def step(d, shapes, integers):
    """A step (name, numbers of operands, other arguments) and the shape of its result."""
    i = d.integer(max(0, len(shapes) - 4), len(shapes) - 1)
    s = shapes[i]
    n = len(s)
    what = d.integer(0, 12)
    if what <= 2:
        return (d.pick(INT_UNARY if integers else UNARY), [i], []), s
    if what <= 5:
        fits = []
        for j, t in enumerate(shapes):
            try:
                fits.append((j, np.broadcast_shapes(s, t)))
            except ValueError:
                continue
        fits = [f for f in fits if np.prod(f[1]) < 4000]
        j, shape = d.pick(fits) if fits else (i, s)
        return (d.pick(BINARY), [i, j], []), shape
    if what == 6 and n:
        axis, keep = d.integer(-n, n - 1), d.chance(0.5)
        shape = list(s)
        shape[axis] = 1
        if not keep:
            del shape[axis]
        name = d.pick(["sum", "max"] if integers else ["mean", "max", "logsumexp", "sum"])
        return (name, [i], [axis, keep]), tuple(shape)
    if what == 7 and n > 1:
        perm = [int(k) for k in d.rng.permutation(n)]
        return ("transpose", [i], [perm]), tuple(s[k] for k in perm)
    if what == 8 and n:
        cut = tuple(
            slice(None, None, d.pick([1, 1, 2, -1])) if d.chance(0.7) else slice(0, d.integer(1, k))
            for k in s
        )
        return ("[]", [i], [cut]), np.empty(s, bool)[cut].shape
    if what == 9:
        shape = (-1,) if d.chance(0.5) else (1, *s)
        return ("reshape", [i], [shape]), np.empty(s, bool).reshape(shape).shape
    if what == 10 and n == 2 and not integers and np.prod(s) and s[0] < 40:
        j = len(shapes)
        return [("transpose", [i], []), ("matmul", [i, j], [])], [s[::-1], (s[0], s[0])]
    if what == 11 and n:
        return ("softmax" if not integers else "cumsum", [i], [-1]), s
    if what == 12 and n < 4:
        shape = (3, *s)
        if np.prod(shape) < 4000:
            return ("broadcast_to", [i], [shape]), shape
    return ("sin" if not integers else "sign", [i], []), s


def make(rng, mode, data=None):
    """A program of `rng` on values of `data`."""
    data = data or rng
    d = Draw(rng, data)
    kind = (
        d.pick(["float32", "float32", "float32", "int32"])
        if mode in ("program", "compile")
        else "float32"
    )
    inputs = []
    for _ in range(d.integer(1, 3)):
        d.data = rng  # the steps below depend on the shapes
        shape = d.shape("any1") if not inputs or d.chance(0.5) else inputs[0].values.shape
        shape = tuple(max(1, k) for k in shape)
        x = data.integers(-3, 4, shape) if kind == "int32" else data.normal(size=shape)
        inputs.append(Arr(kind, round_to(x, kind), d.pick(LAYOUTS[:-1])))
    shapes = [a.values.shape for a in inputs]
    steps = []
    for _ in range(d.integer(2, 9)):
        new, out = step(d, shapes, kind == "int32")
        for one, shape in zip(new, out, strict=True) if isinstance(new, list) else [(new, out)]:
            steps.append(one)
            shapes.append(shape)
    return Case("", [steps, inputs], {}, mode)
