"""What the rules of known_contract.py may ask of two results, ours and the official one: numbers in
another order, of other signs, in other dtypes, missing where the official one has some.
"""

import numpy as np
from wire import Boxed, Failed, Got


def failures(v):
    """The failures in a result, at any depth."""
    if isinstance(v, Failed):
        return [v]
    return [f for x in items(v) for f in failures(x)]


def items(v):
    return v.items if isinstance(v, Boxed) else v if isinstance(v, list) else []


def arrays(v):
    if isinstance(v, Got):
        return [v]
    return [a for x in items(v) for a in arrays(x)]


def blank(v):
    """Whether a result has a NaN in it."""
    return any(a.values.dtype.kind in "fc" and bool(np.isnan(a.values).any()) for a in arrays(v))


def pairs(got, want):
    """The arrays of both, where there are as many of the same shapes and dtypes; else nothing."""
    both = arrays(got), arrays(want)
    like = [[(a.dtype, a.values.shape) for a in v] for v in both]
    return list(zip(*both, strict=True)) if like[0] == like[1] else []


def shaped(got, want):
    """Of the same shapes and dtypes."""
    return bool(pairs(got, want))


def close(a, b):
    return np.allclose(a, b, 1e-3, 1e-3, equal_nan=True)


def turned(got, want):
    """The same numbers but for their signs, or phases."""
    found = pairs(got, want)
    return bool(found) and all(close(abs(g.values), abs(w.values)) for g, w in found)


def reordered(got, want):
    """The same numbers in another order."""
    found = pairs(got, want)
    return bool(found) and all(
        close(np.sort(g.values, None), np.sort(w.values, None)) for g, w in found
    )


def cast(got, want):
    """The same shapes in other dtypes."""
    both = arrays(got), arrays(want)
    return [a.values.shape for a in both[0]] == [a.values.shape for a in both[1]]


def neighbours(got, want):
    """Numbers that differ by one at most."""
    found = pairs(got, want)
    return bool(found) and all(np.max(abs(g.values - w.values), initial=0) <= 1 for g, w in found)


def beyond(got, want):
    """The same numbers but for those that the official result has at the ends of int32."""
    found = [(g.values, w.values) for g, w in pairs(got, want)]
    return bool(found) and all(close(np.where(abs(w) >= 2**31, w, g), w) for g, w in found)


def endless(got, want):
    """NaN where the official result is infinite, or NaN too."""
    missing = [(np.isnan(g.values), np.isfinite(w.values)) for g, w in pairs(got, want)]
    return any(m.any() for m, _ in missing) and not any((m & f).any() for m, f in missing)


def filled(got, want):
    """Numbers where the official result has NaN, and the same elsewhere."""
    found = [(g.values, w.values, np.isnan(w.values)) for g, w in pairs(got, want)]
    same = all(close(g[~hole], w[~hole]) for g, w, hole in found)
    return same and any(not np.isnan(g[hole]).all() for g, _, hole in found)


def unread(got, want):
    """An official result without arrays."""
    return not arrays(want)


def nothing(got, want):
    """No elements here."""
    return bool(arrays(got)) and all(a.values.size == 0 for a in arrays(got))


def wider(got, want):
    """Floats where the official result has integers."""
    whole = all(a.values.dtype.kind in "bui" for a in arrays(want))
    return cast(got, want) and whole and all(a.values.dtype.kind == "f" for a in arrays(got))


def permuted(got, want):
    """The same lengths of axes in another order."""
    shapes = [[a.values.shape for a in arrays(v)] for v in (got, want)]
    like = [[sorted(shape) for shape in some] for some in shapes]
    return shapes[0] != shapes[1] and like[0] == like[1]


def imaginary(got, want):
    """Where the official result is complex, or ours is."""
    return any(a.dtype == "complex64" for a in arrays(got) + arrays(want))


def ones(v):
    """Whether all numbers are one, along an axis of length one."""
    found = arrays(v)
    return bool(found) and all((a.values == 1).all() and 1 in a.values.shape for a in found)


def dtypes(v):
    return [a.dtype for a in arrays(v)]
