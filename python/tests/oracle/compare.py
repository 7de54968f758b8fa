"""What two results have in common: the tolerances of the dtypes, and the progress bar of the
drivers."""

import contextlib

import numpy as np
from wire import Boxed, Crashed, Failed, Got

# The official float64 functions are float32 polynomials.
RELATIVE = {
    "float32": 4e-6,
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
    "complex64": 4e-6,
    "float64": 4e-6,
}
ABSOLUTE = {"float32": 1e-6, "float16": 5e-4, "bfloat16": 4e-3, "complex64": 1e-6, "float64": 1e-6}


def differs(got, want, tol=1, row=None):
    """What is different, or None."""
    if isinstance(want, Boxed):
        return boxes_differ(got, want, tol, row)
    if isinstance(want, Failed):
        same = isinstance(got, Failed) and got.type == want.type
        return None if same else f"{summary(got)} instead of {summary(want)}"
    if isinstance(want, str) and isinstance(got, str) and want.startswith("digraph"):
        # Drawings may be cut, and node numbers have other lengths.
        n = max(0, min(len(got), len(want)) - 40)
        got, want = got[:n], want[:n]
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return f"structure: {summary(got)} instead of {summary(want)}"
        for g, w in zip(got, want, strict=True):
            why = differs(g, w, tol, row)
            if why:
                return why
        return None
    if isinstance(want, Got):
        if not isinstance(got, Got):
            return f"{summary(got)} instead of {summary(want)}"
        if got.dtype != want.dtype:
            return f"dtype {got.dtype} instead of {want.dtype}"
        if got.values.shape != want.values.shape:
            return f"shape {got.values.shape} instead of {want.values.shape}"
        return None if row and row.shape_only else unequal(got, want, tol, row)
    if isinstance(want, complex) and isinstance(got, complex):
        want, got = [want.real, want.imag], [got.real, got.imag]
        return differs(got, want, tol, row)
    if isinstance(want, float) and isinstance(got, float):
        return (
            None
            if np.isclose(got, want, 1e-5 * tol, 1e-6, equal_nan=True)
            else f"{got!r}, {want!r}"
        )
    if type(got) is not type(want) or got != want:
        return f"{summary(got)} instead of {summary(want)}"
    return None


def no_answer(want):
    """Whether the official implementation leaves open what has to come."""
    if isinstance(want, Crashed):
        return True
    if isinstance(want, Boxed) and want.kind == "unreadable":
        return True
    if isinstance(want, Boxed):
        return any(no_answer(x) for x in want.items)
    return isinstance(want, Failed) and "bad_cast" in want.text


def boxes_differ(got, want, tol, row):
    """What is different between containers, or None."""
    if not isinstance(got, Boxed) or got.kind != want.kind or len(got.items) != len(want.items):
        return f"{summary(got)} instead of {summary(want)}"
    for g, w in zip(got.items, want.items, strict=True):
        why = differs(g, w, tol, row)
        if why:
            return f"in {want.kind}: {why}"
    return None


def unequal(got, want, tol, row):
    g, w = got.values, want.values
    if row and row.any_order:
        g, w = np.sort(g, -1), np.sort(w, -1)
    if got.dtype not in RELATIVE:
        wrong = g != w
        if not wrong.any():
            return None
        return f"{wrong.sum()} of {w.size} differ: {g[wrong][:4]} instead of {w[wrong][:4]}"
    wide = np.complex128 if got.dtype == "complex64" else np.float64
    g, w = g.astype(wide), w.astype(wide)
    size = np.abs(w)
    if row is None or row.sums:
        finite = size[np.isfinite(size)]
        size = np.full(size.shape, finite.max() if finite.size else 0.0)
    limit = tol * (RELATIVE[got.dtype] * size + ABSOLUTE[got.dtype])
    same = (g == w) | (np.isnan(g) & np.isnan(w))
    wrong = ~(same | (np.abs(g - w) <= limit))
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    few = f"{got.dtype} {g[wrong][:3]} instead of {w[wrong][:3]}"
    return f"{wrong.sum()} of {w.size} differ: {few}, first at {at}"


def summary(v):
    if isinstance(v, Got):
        few = v.values.ravel().tolist() if v.values.size <= 4 else "..."
        return f"{v.dtype}{list(v.values.shape)} {few}"
    if isinstance(v, Boxed):
        return f"{v.kind}({', '.join(map(summary, v.items[:4]))})"
    if isinstance(v, Failed):
        return f"{v.type}({v.text[:80]!r})"
    if isinstance(v, list):
        return "[" + ", ".join(map(summary, v[:4])) + "]"
    return repr(v)[:100]


def bar(total, label):
    """A progress bar, on a terminal."""
    try:
        from tqdm import tqdm
    except ImportError:
        return Silent()
    return tqdm(total=total, desc=label, disable=None, smoothing=0.05)


class Silent(contextlib.nullcontext):
    def __enter__(self):
        return self

    def update(self, n):
        pass
