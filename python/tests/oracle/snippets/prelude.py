"""The names that snippets may use, in either interpreter, and the transforms of the contract.

A snippet is a Python program whose last statement, where it is an expression, is its value.
"""

import ast
import collections
import io
import math
import os
import typing

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as opt
import mlx.utils as mu
import numpy as np

Pair = collections.namedtuple("Pair", ["a", "b"])


class Tup(tuple):
    pass


class Lst(list):
    pass


class Dct(dict):
    pass


def value(text, space):
    """Runs a snippet; the value of its last expression, or None."""
    tree = ast.parse(text)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<snippet>", "exec"), space)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), "<snippet>", "eval"), space)


def leaves(v):
    """The arrays of a result; those of a dictionary by keys, whose order may be that of a set."""
    if isinstance(v, mx.array):
        return [v]
    if isinstance(v, dict):
        v = [v[k] for k in sorted(v, key=str)]
    return [a for x in v for a in leaves(x)] if isinstance(v, list | tuple) else []


def floating(v):
    return isinstance(v, mx.array) and v.dtype in (mx.float16, mx.bfloat16, mx.float32, mx.float64)


def among(f, xs):
    """`f` as a function of its floating arguments alone, with those; of the first where none is."""
    where = [i for i, x in enumerate(xs) if floating(x)] or [0][: len(xs)]

    def g(*ys):
        full = list(xs)
        for i, y in zip(where, ys, strict=True):
            full[i] = y
        return f(*full)

    return g, [xs[i] for i in where]


def outputs(f):
    """A function to the list of floating arrays in the result of `f`, told apart by factors."""

    def g(*xs):
        found = [o for o in leaves(f(*xs)) if floating(o)]
        return [o * (1 + i / 4) for i, o in enumerate(found)]

    return g


def grad(f, *xs):
    g, ys = among(outputs(f), xs)

    def total(*zs):
        return sum((o.astype(mx.float32).sum() for o in g(*zs)), mx.array(0.0))

    return mx.grad(total, argnums=list(range(len(ys))))(*ys)


def jvp(f, *xs):
    g, ys = among(outputs(f), xs)
    return mx.jvp(g, ys, [mx.ones_like(y) for y in ys])


def vmap(f, *xs):
    return mx.vmap(f)(*[mx.stack([x, x[::-1] if x.ndim else x]) for x in xs])


def compiled(f, *xs):
    g = mx.compile(f)
    g(*xs)
    return g(*xs)


def shapeless(f, *xs):
    g = mx.compile(f, shapeless=True)
    g(*xs)
    return g(*xs)


def exported(f, *xs):
    mx.export_function("f.mlxfn", lambda *ys: leaves(f(*ys)), *xs)
    return mx.import_function("f.mlxfn")(*xs)


def checkpointed(f, *xs):
    return mx.checkpoint(f)(*xs)


def primitives(f, *xs):
    """Names and arguments of the primitives that an export callback sees."""
    seen = []

    def note(d):
        if d["type"] == "primitive":
            seen.append((d["name"], d["arguments"]))

    mx.export_function(note, f, *xs)
    return str(seen)


def tried(f, *args, **kwargs):
    """What a call gives, or the name of the exception it raises."""
    try:
        r = f(*args, **kwargs)
        mx.eval(leaves(r))
        return r
    except Exception as e:  # noqa: BLE001 - the kind of error is the result
        return type(e).__name__


def numbers(shape):
    """Distinct numbers in [0, 1)."""
    return (mx.arange(math.prod(shape)) * 0.37 % 1).reshape(shape)


def followed(wrap, f, first, then):
    """Whether `wrap(f, arrays of shapes first)` called with arrays of shapes `then` gives what `f`
    gives. A shape may stand for a list of one."""
    first, then = (s if isinstance(s, list) else [s] for s in (first, then))
    xs, ys = ([numbers(s) for s in shapes] for shapes in (first, then))
    got, want = leaves(wrap(f, xs)(*ys)), leaves(f(*ys))
    return [
        a.shape == b.shape and bool(mx.allclose(a, b, 1e-3, 1e-3, equal_nan=True))
        for a, b in zip(got, want, strict=True)
    ]


def follows(f, first, then):
    """Of a shapeless compiled function."""

    def wrap(f, xs):
        g = mx.compile(f, shapeless=True)
        g(*xs)
        return g

    return followed(wrap, f, first, then)


def export_follows(f, first, then):
    """Of a shapeless exported function."""

    def wrap(f, xs):
        mx.export_function("s.mlxfn", lambda *ys: leaves(f(*ys)), *xs, shapeless=True)
        return mx.import_function("s.mlxfn")

    return followed(wrap, f, first, then)


def item(a, i):
    return a[i]


def assigned(a, i, v):
    a = mx.array(a)
    a[i] = v
    return a


def namespace():
    return {
        "mx": mx,
        "nn": nn,
        "opt": opt,
        "mu": mu,
        "np": np,
        "math": math,
        "io": io,
        "os": os,
        "NamedTuple": typing.NamedTuple,
        "Pair": Pair,
        "Tup": Tup,
        "Lst": Lst,
        "Dct": Dct,
        **{
            f.__name__: f
            for f in (
                grad,
                jvp,
                vmap,
                compiled,
                shapeless,
                exported,
                checkpointed,
                primitives,
                tried,
                numbers,
                follows,
                export_follows,
                item,
                assigned,
            )
        },
    }
