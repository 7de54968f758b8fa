"""Runs cases with the `mlx.core` of its interpreter: worker.py CASES RESULTS FIRST DEVICE.

CASES is a pickled list; a result is appended to RESULTS as soon as it is known, so that the driver
sees how far a worker came that died. A dot for each goes to standard output.
"""

import pickle
import sys
import warnings

import composed
import mlx.core as mx
import numpy as np
from wire import Arr, Dt, Failed, Got, Missing, Name


class Absent(Exception):
    """The implementation has no function of this name."""


def resolve(path):
    obj = mx
    for part in path.split("."):
        obj = getattr(obj, part)
    return obj


def plain(dtype, x):
    x = np.array(x, order="C", copy=True)  # NumPy calls some negative strides contiguous
    if dtype == "bfloat16":
        return mx.array(x, mx.float32).astype(mx.bfloat16, stream=mx.cpu)
    return mx.array(x, getattr(mx, dtype))


def array(a):
    """The array in memory as its layout says; the values are the same in all of them."""
    x = a.values
    if a.layout == "transposed" and x.ndim > 1:
        return mx.transpose(plain(a.dtype, x.T))
    if a.layout == "strided" and x.ndim:
        wide = np.repeat(x, 2, axis=-1)
        return plain(a.dtype, wide)[..., ::2]
    if a.layout == "reversed" and x.ndim:
        return plain(a.dtype, x[::-1])[::-1]
    if a.layout == "offset" and x.ndim:
        return plain(a.dtype, np.concatenate([x[:1], x]) if len(x) else x)[min(1, len(x)) :]
    if a.layout == "repeated" and x.ndim and len(x):
        return mx.broadcast_to(plain(a.dtype, x[:1]), x.shape)
    return plain(a.dtype, x)


def build(v):
    if isinstance(v, Arr):
        return array(v)
    if isinstance(v, Dt):
        return getattr(mx, v.name)
    if isinstance(v, Name):
        return resolve(v.path)
    if isinstance(v, list):
        return [build(x) for x in v]
    if isinstance(v, tuple):
        return tuple(build(x) for x in v)
    return v


def plainly(v):
    """A result without anything of `mlx` in it."""
    if isinstance(v, mx.array):
        name = str(v.dtype).removeprefix("mlx.core.")
        mx.eval(v)
        if v.dtype == mx.bfloat16:
            v = v.astype(mx.float32, stream=mx.cpu)
        return Got(name, np.array(v))
    if isinstance(v, list | tuple):
        return [plainly(x) for x in v]
    if isinstance(v, dict):
        return {k: plainly(x) for k, x in v.items()}
    if v is None or isinstance(v, bool | int | float | complex | str | bytes):
        return v
    return str(v)


def function(op):
    """The callable behind `op`."""
    if op == "[]":
        return lambda a, i: a[i]
    if op == "[]=":

        def assign(a, i, v):
            a = mx.array(a)
            a[i] = v
            return a

        return assign
    kind, _, name = op.partition(".")
    if kind == "at":
        return lambda a, i, v: getattr(a.at[i], name)(v)
    try:
        if kind == "array":
            getattr(mx.array, name)
            return lambda a, *args, **kwargs: getattr(a, name)(*args, **kwargs)
        return resolve(op)
    except AttributeError:
        raise Absent(op) from None


def leaves(v):
    """All arrays in a result."""
    if isinstance(v, mx.array):
        return [v]
    return [a for x in v for a in leaves(x)] if isinstance(v, list | tuple) else []


def is_float(v):
    return isinstance(v, mx.array) and v.dtype in (mx.float16, mx.bfloat16, mx.float32, mx.float64)


def derivative(mode, f, args, kwargs):
    """The vjp or jvp for all float arrays among the arguments, of ones."""
    where = [i for i, a in enumerate(args) if is_float(a)]

    def g(*primals):
        full = list(args)
        for i, p in zip(where, primals, strict=True):
            full[i] = p
        return [a for a in leaves(f(*full, **kwargs)) if is_float(a)]

    primals = [args[i] for i in where]
    if mode == "jvp":
        return mx.jvp(g, primals, [mx.ones_like(p) for p in primals])[1]
    outs = g(*primals)
    return mx.vjp(g, primals, [mx.ones_like(o) for o in outs])[1]


def program(steps, inputs):
    """All results of a program that nothing else uses."""
    values, used = list(inputs), set()
    for name, numbers, rest in steps:
        f = function(name)
        values.append(f(*[values[i] for i in numbers], *rest))
        used.update(numbers)
    return [v for i, v in enumerate(values) if i not in used]


def run(case):
    if case.mode in ("program", "compile", "gradient", "checkpoint"):
        steps, inputs = build(case.args[0]), build(case.args[1])
        steps = [(name, numbers, rest) for name, numbers, rest in steps]
        if case.mode == "program":
            return program(steps, inputs)
        if case.mode == "compile":
            return function("compile")(lambda *xs: program(steps, xs))(*inputs)

        def loss(*xs):
            return sum(o.astype(mx.float32).sum() for o in program(steps, xs))

        if case.mode == "checkpoint":
            loss = function("checkpoint")(loss)
        return mx.grad(loss, argnums=list(range(len(inputs))))(*inputs)
    if case.mode == "composed":
        steps, inputs = [tuple(build(s)) for s in case.args[0]], build(case.args[1])
        return composed.run(mx, program, steps, inputs, case.args[2])
    f = function(case.op)
    args = [build(a) for a in case.args]
    kwargs = {k: build(v) for k, v in case.kwargs.items()}
    if case.mode in ("grad", "jvp"):
        return derivative(case.mode, f, args, kwargs)
    if case.mode == "vmap":
        arrays = [i for i, a in enumerate(args) if isinstance(a, mx.array)]

        def mapped(*xs):
            full = list(args)
            for i, x in zip(arrays, xs, strict=True):
                full[i] = x
            return f(*full, **kwargs)

        return mx.vmap(mapped)(*[args[i] for i in arrays])
    return f(*args, **kwargs)


def attempt(case):
    try:
        return plainly(run(case))
    except Absent as e:
        return Missing(e.args[0])
    except Exception as e:  # noqa: BLE001 - the kind of error is the result
        return Failed(type(e).__name__, str(e)[:300])


def main():
    cases, results, first, device = sys.argv[1:5]
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    mx.set_default_device(getattr(mx, device))
    with open(cases, "rb") as f:
        todo = pickle.load(f)
    with open(results, "ab") as out:
        for case in todo[int(first) :]:
            mx.random.seed(7)
            pickle.dump(attempt(case), out)
            out.flush()
            sys.stdout.write(".")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
