"""What driver and workers say to each other: cases as plain data, results as NumPy arrays.

A worker runs with the interpreter of one implementation of `mlx.core`; this file and worker.py need
nothing but that and NumPy.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Arr:
    """An array argument; bfloat16 is held as float32. `layout` says how it lies in memory."""

    dtype: str
    values: np.ndarray
    layout: str = "plain"


@dataclass
class Dt:
    """A dtype argument."""

    name: str


@dataclass
class Name:
    """An attribute of `mlx.core`, such as `cpu` or `random.normal`."""

    path: str


@dataclass
class Case:
    """One thing to do, in one of these modes:

    call      the function `op` (a dotted name of `mlx.core`, `array.NAME` for a method, `[]` for
              indexing, `[]=` for assignment, `at.NAME` for `a.at[i].NAME(v)`)
    grad      the vjp of that call with cotangents of ones, for all float arrays among the arguments
    jvp       the jvp of that call with tangents of ones
    vmap      the call mapped over the first axis of its arrays
    program   `args` is a list of steps (name, numbers of earlier results, other arguments)
    compile   a program inside `mx.compile`
    gradient  the gradient of the sum of a program
    checkpoint  the same through `mx.checkpoint`
    """

    op: str
    args: list = field(default_factory=list)
    kwargs: dict = field(default_factory=dict)
    mode: str = "call"

    def __str__(self):
        kwargs = [f"{k}={show(v)}" for k, v in self.kwargs.items()]
        return f"{self.mode} {self.op}({', '.join([show(a) for a in self.args] + kwargs)})"


def show(v):
    if isinstance(v, Arr):
        return f"{v.dtype}{list(v.values.shape)}{'' if v.layout == 'plain' else '/' + v.layout}"
    if isinstance(v, list | tuple):
        return "[" + ", ".join(show(x) for x in v) + "]"
    return v.name if isinstance(v, Dt) else v.path if isinstance(v, Name) else repr(v)


def dtypes(v):
    """Names of the dtypes that a value mentions."""
    if isinstance(v, Case):
        return dtypes(v.args) | dtypes(list(v.kwargs.values()))
    if isinstance(v, list | tuple):
        return set().union(*map(dtypes, v))
    return {v.dtype} if isinstance(v, Arr) else {v.name} if isinstance(v, Dt) else set()


@dataclass
class Got:
    """An array result."""

    dtype: str
    values: np.ndarray


@dataclass
class Boxed:
    """A container or another object: the name of its type and what is in it."""

    kind: str
    items: list


@dataclass
class Snippet:
    """A small program: statements, and last an expression, its value. `given` are values (`Arr` or
    plain ones) under names."""

    text: str
    given: dict = field(default_factory=dict)

    def __str__(self):
        names = ", ".join(f"{k} = {show(v)}" for k, v in self.given.items())
        return self.text.replace("\n", " ; ") + (f"   [{names}]" if names else "")


@dataclass
class Failed:
    """A call that raised."""

    type: str
    text: str


@dataclass
class Crashed:
    """A call that ended the process."""

    status: int


@dataclass
class Missing:
    """A function that the implementation does not have."""

    name: str


Result = Any
