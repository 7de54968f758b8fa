"""Results as plain data with nothing of `mlx` in it, by the same rules in either interpreter."""

import re

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as opt
import numpy as np
from wire import Boxed, Failed, Got

LARGEST = 64 << 20  # bytes of an array whose values are looked at
DEEP = 12


def array(v):
    name = str(v.dtype).removeprefix("mlx.core.")
    if v.nbytes > LARGEST:
        return Boxed("array", [name, tuple(v.shape)])
    try:
        mx.eval(v)
        if v.dtype == mx.bfloat16:
            v = v.astype(mx.float32, stream=mx.cpu)
        return Got(name, np.array(v))
    except Exception as e:  # noqa: BLE001 - the kind of error is the result
        return Failed("at eval: " + type(e).__name__, str(e)[:400])


def text(v):
    """Without addresses; the node numbers of a graph in order of appearance."""
    v = re.sub(r"0x[0-9a-f]+", "0x", v)
    if v.startswith("digraph"):
        numbers = {}
        v = re.sub(
            r"(?<![\"\w])\d+(?=[ \n;])",
            lambda m: f"n{numbers.setdefault(m[0], len(numbers))}",
            v.replace("label =", "label="),
        )
    return v


def state_of(v):
    """What there is to see of a module: what it holds under public names."""
    return {k: x for k, x in v.items() if not str(k).startswith("_")}


def described(v, depth=0):
    if depth > DEEP:
        return Boxed("deep", [])
    if isinstance(v, mx.array):
        return array(v)
    if v is None or type(v) in (bool, int, float, complex, bytes):
        return v
    if isinstance(v, str):
        return text(v)
    if isinstance(v, np.ndarray | np.generic):
        values = [described(x, depth + 1) for x in np.ravel(v).tolist()]
        return Boxed(f"numpy {type(v).__name__} {v.dtype}", [list(v.shape), values])
    if isinstance(v, mx.Stream):
        return Boxed("Stream", [str(v.device)])
    if isinstance(v, mx.Dtype | mx.Device):
        return Boxed(type(v).__name__, [str(v)])
    if isinstance(v, opt.Optimizer):
        return Boxed(type(v).__name__, [described(v.state, depth + 1)])
    if isinstance(v, dict):
        items = state_of(v) if isinstance(v, nn.Module) else v
        pairs = [[str(k), described(x, depth + 1)] for k, x in items.items()]
        return Boxed(type(v).__name__, sorted(pairs, key=lambda p: p[0]))
    if isinstance(v, list | tuple):
        return Boxed(type(v).__name__, [described(x, depth + 1) for x in v])
    if isinstance(v, set | frozenset):
        return Boxed(type(v).__name__, sorted(map(repr, v)))
    if isinstance(v, type):
        return Boxed("type", [v.__name__])
    if callable(v):
        return Boxed("callable", [])
    return Boxed(type(v).__name__, [])
