"""Random lengths, numbers and layouts of cases that are run on kernels."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

FLOATS = ("float32", "float16", "bfloat16")


def bf16(x):
    """float32 numbers rounded to bfloat16, to even."""
    x = np.ascontiguousarray(x, np.float32)
    u = x.view(np.uint32)
    odd = (u >> np.uint32(16)) & np.uint32(1)
    with np.errstate(over="ignore"):
        r = (u + np.uint32(0x7FFF) + odd) & np.uint32(0xFFFF0000)
    return np.where(np.isfinite(x), r.view(np.float32), x)


def held(x, dtype):
    """Numbers as the dtype holds them, in a dtype of NumPy that holds them too."""
    with np.errstate(all="ignore"):
        if dtype == "bfloat16":
            return bf16(x)
        return np.asarray(x).astype("bool" if dtype == "bool_" else dtype)


@dataclasses.dataclass
class In:
    """An array with numbers that its dtype holds, and how it lies in memory."""

    values: np.ndarray
    dtype: str
    form: tuple = ("plain",)


@dataclasses.dataclass
class Case:
    """`run` takes arrays for `inputs` and returns a list of arrays; `want` what they have to be.
    `rough` says by the names of kernels which of the bounds is theirs."""

    inputs: list
    run: Callable
    want: Callable
    text: str
    disabled: tuple = ()
    rough: Callable = lambda names: 0
    later: bool = False


class Draw:
    """Random choices. `work` bounds multiplications, `most` elements and `longest` lengths."""

    def __init__(self, rng, small=False):
        self.rng = rng
        self.work, self.most, self.longest = (
            (1 << 19, 1 << 13, 300) if small else (1 << 27, 1 << 19, 4500)
        )

    def pick(self, *options):
        return options[int(self.rng.integers(len(options)))]

    def chance(self, p):
        return self.rng.random() < p

    def int(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def length(self, most=700):
        """Lengths of all kinds: short, odd, multiples of tiles and neighbours, rarely long."""
        kind = self.rng.random()
        most = min(most, self.longest)
        if kind < 0.15:
            n = self.int(1, 9)
        elif kind < 0.4:
            n = self.int(1, most)
        elif kind < 0.9:
            unit = self.pick(8, 16, 32, 64, 128)
            n = unit * self.int(1, max(1, most // unit)) + (self.pick(-1, 1, 3) * self.chance(0.25))
        else:
            n = self.int(1, 100)
        if self.chance(0.03) and most >= 500:
            n = self.int(most, self.longest)
        return max(1, min(n, self.longest))

    def bounded(self, lengths, most=None):
        """Lengths whose product is within what is allowed: the longest is halved until it is."""
        lengths = list(lengths)
        while math.prod(lengths) > (most or self.work):
            i = lengths.index(max(lengths))
            lengths[i] = max(1, lengths[i] // 2 + self.int(0, 1) * (lengths[i] > 8))
        return lengths

    def shape(self, ranks=(1, 2, 3, 4), most=None):
        rank = self.pick(*ranks)
        long = {1: 3000, 2: 700, 3: 120}.get(rank, 40)
        return self.bounded([self.length(long) for _ in range(rank)], most or self.most)

    def form(self, rank, plain=0.4):
        """How an array of this rank lies in memory."""
        if self.chance(plain) or rank == 0:
            return ("plain",)
        options = [("offset", self.pick(1, 2, 3, 4, 8, 16)), ("apart",), ("reversed",)]
        if rank > 1:
            options = [
                ("turned",),
                ("turned",),
                ("cut", self.pick(0, 1, 4, 8, 16), self.pick(0, 1, 3, 8, 16, 64)),
                ("cut", 8 * self.int(0, 3), 8 * self.int(1, 8)),
                ("rows",),
                ("turned cut", self.pick(0, 8, 3), self.pick(1, 8, 64)),
                *options,
            ]
        return self.pick(*options)

    def kind(self, dtype, *, special=0.05):
        """What numbers are like."""
        kind = self.rng.random()
        if kind < special:
            return "special"
        if kind < 0.15:
            return "whole"
        if kind < 0.25:
            return "positive"
        if kind < 0.45:
            return "scaled"
        if kind < 0.52 and dtype != "float16":
            return "extreme"
        return "normal"

    def numbers(self, shape, dtype, kind, axis=-1):
        """Numbers of a kind, those of `axis` at one scale: rows of a left matrix, say."""
        if dtype == "complex64":
            parts = [self.numbers(shape, "float32", kind, axis) for _ in range(2)]
            return (parts[0] + 1j * parts[1]).astype(np.complex64)
        rng = self.rng
        if kind == "whole":
            return held(rng.integers(-3, 4, shape), dtype)
        x = rng.standard_normal(shape, np.float32)
        along = [1 if i == axis % len(shape) else n for i, n in enumerate(shape)]
        if kind == "positive":
            x = np.abs(x)
        elif kind == "scaled":
            reach = 4 if dtype == "float16" else 20
            x = np.ldexp(x, rng.integers(-reach, reach + 1, along).astype(np.int32))
        elif kind == "extreme":
            some = rng.random(along)
            power = np.where(some < 0.1, 55, np.where(some < 0.2, -60, 0))
            power = np.where((some > 0.2) & (some < 0.25), -128, power)
            power = np.where((some > 0.25) & (some < 0.28), 64, power)
            x = np.ldexp(x, power.astype(np.int32))
        elif kind == "special" and x.size:
            for bad in (np.inf, -np.inf, np.nan):
                for _ in range(self.int(0, 2)):
                    x.reshape(-1)[self.int(0, x.size - 1)] = bad
        return held(x, dtype)

    def array(self, shape, dtype, kind="normal", form=None, axis=-1):
        form = self.form(len(shape)) if form is None else form
        return In(self.numbers(tuple(shape), dtype, kind, axis), dtype, form)


def wide(a):
    """Numbers for a reference."""
    if a.dtype.kind == "c":
        return a.astype(np.complex128)
    return a.astype(np.float64) if a.dtype.kind == "f" else a
