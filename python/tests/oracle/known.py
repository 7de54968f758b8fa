"""Differences from the official implementation that are wanted, each with its reason."""

import re

import numpy as np
from wire import Arr, Failed, Got

# Indices of all elements.
WHOLE = (Ellipsis, None)
FLOORS = "floor_divide divmod __floordiv__ __rfloordiv__ __ifloordiv__".split()
WIDE = "integers beyond 32 bits are refused with an error that names the range"


def numbers(v):
    if isinstance(v, list | tuple):
        return [n for x in v for n in numbers(x)]
    return [v] if isinstance(v, int) else []


def arrays(v):
    if isinstance(v, list | tuple):
        return [a for x in v for a in arrays(x)]
    return [v] if isinstance(v, Arr) else []


def nothing(v):
    """No elements at all."""
    return isinstance(v, Got) and v.values.size == 0


def off_by_one(got, want):
    """Results that differ by one here and there."""
    if isinstance(want, list):
        return all(off_by_one(g, w) for g, w in zip(got, want, strict=True))
    return np.nanmax(np.abs(got.values - want.values), initial=0) <= 1


def blank(v):
    """Whether a result has NaN in it."""
    if isinstance(v, list):
        return any(map(blank, v))
    return isinstance(v, Got) and bool(np.isnan(v.values).any())


def reason(case, got, want, device):
    """Why this case may differ, or None."""
    op = case.op.removeprefix("array.")
    ours, theirs = isinstance(got, Failed), isinstance(want, Failed)
    if theirs and case.mode == "composed" and "Not implemented for Depends" in want.text:
        return "a checkpoint has a forward derivative here"
    if case.mode == "composed" and blank(want) and not blank(got):
        return (
            "MLX gives NaN for some second derivatives (a matrix times its transpose, large values)"
        )
    if theirs and "bad_cast" in want.text:
        return "MLX reports a failed C++ cast (std::bad_cast)" if ours else None
    if case.mode == "jvp" and theirs and not ours and re.search(r"(?i)jvp.*implemented", want.text):
        return "MLX has no jvp of some operations"
    if case.mode == "jvp" and op == "addmm":
        # jvp(addmm(c, a, b, alpha, beta)) differs from jvp(alpha * (a @ b) + beta * c) there.
        return "MLX's jvp of addmm is that of alpha * (a @ b) + beta * c only for factors of one"
    if theirs and max(map(abs, numbers(case.args)), default=0) >= 2**31:
        return WIDE if ours else None
    if op in FLOORS and not (ours or theirs):
        halves = {a.dtype for a in arrays(case.args)} & {"float16", "bfloat16"}
        if halves and off_by_one(got, want):
            return "floor division of half precision is exact here; MLX rounds the quotient first"
    if op in ("as_strided", "fft.stft") and theirs and "AsStrided" in want.text:
        return "as_strided takes arrays of every layout here"
    if op == "gather_mm" and theirs and "only supports float32" in want.text:
        return "gather_mm takes half precision on the CPU too"
    if theirs and not ours and want.text.startswith("[scatter] Updates") and nothing(got):
        return "an update of no elements changes nothing; MLX miscounts its axes"
    if op == "[]=" and theirs and not ours and "Negative dimensions" in want.text:
        return "an update of no elements changes nothing; MLX miscounts its axes"
    if op == "[]=" and any(case.args[1] is w for w in WHOLE) and not ours and not theirs:
        if np.array_equal(got.values, want.values.astype(got.values.dtype)):
            return "an assignment keeps the dtype; MLX changes it for a[...] = 0.5, a[None] = 0.5"
    if op == "[]" and ours and got.type == "IndexError" and "out of bounds" in got.text:
        return (
            "an integer index out of range is an IndexError; MLX reads outside or fails by chance"
        )
    if op == "full" and isinstance(got, Got) and isinstance(want, Got) and want.dtype != got.dtype:
        return "full converts a number to the dtype that was asked for, as documented"
    if op == "take" and theirs and "squeeze" in want.text and isinstance(case.args[1], int):
        return "take accepts -1 as an index"
    if op == "take" and theirs and want.text.startswith("[scatter]"):
        return "take has a gradient for empty arrays too"
    if op in ("argmax", "argmin") and theirs and "std::vector" in want.text:
        return "argmax of a scalar is 0, with and without keepdims"
    if op in ("all", "prod") and 0 in case.args[0].values.shape:
        return "all of nothing is true and its product is one, as in NumPy"
    if ours and theirs and op.startswith("random.") and "array initialization" in got.text:
        return "of two wrong arguments another one is told first"
    if op == "round" and arrays(case.args)[0].dtype.startswith(("int", "uint")):
        return "rounding of integers is exact here; MLX goes through float32"
    return None
