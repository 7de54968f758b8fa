"""Random indices for the tests of indexing, as NumPy sees them and as MLX does."""

import mlx.core as mx
import numpy as np

INDEX_DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def random_shape(rng, most=4):
    return tuple(int(n) for n in rng.integers(1, 6, rng.integers(1, most + 1)))


def random_slice(rng, n):
    def bound():
        return None if rng.random() < 0.4 else int(rng.integers(-n - 2, n + 3))

    step = [None, 1, 2, 3, -1, -2][rng.integers(6)]
    return slice(bound(), bound(), step)


def random_index(rng, shape, arrays=True):
    """A tuple of integers, slices, None, at most one ellipsis and (arrays) integer arrays."""
    used = int(rng.integers(0, len(shape) + 1))
    start = int(rng.integers(0, used + 1))
    axes = [*range(start), *range(len(shape) - used + start, len(shape))]
    width = [int(n) for n in rng.integers(1, 4, rng.integers(0, 3))]
    terms = []
    for axis in axes:
        n = shape[axis]
        kind = rng.integers(0, 4 if arrays else 3)
        if kind == 0:
            terms.append(int(rng.integers(-n, n)))
        elif kind < 3:
            terms.append(random_slice(rng, n) if kind == 1 else slice(None))
        else:
            part = [d if rng.random() < 0.8 else 1 for d in width]
            terms.append(rng.integers(-n, n, part[int(rng.integers(0, 2)) :] or part))
    if used < len(shape) and (start < used or rng.random() < 0.5):
        terms.insert(start, Ellipsis)
    for _ in range(int(rng.integers(0, 3)) if rng.random() < 0.4 else 0):
        terms.insert(int(rng.integers(0, len(terms) + 1)), None)
    return tuple(terms)


def to_mx(rng, index, shape_of=None):
    """The index with MLX arrays, NumPy arrays or lists in place of its arrays."""
    out = []
    for term in index:
        if isinstance(term, np.ndarray):
            form = rng.integers(0, 6)
            if form == 0 and term.ndim > 0:
                term = term.tolist()
            elif form == 1:
                term = np.asarray(term)
            else:
                wanted = INDEX_DTYPES[rng.integers(0, 4)]
                term = mx.array(term.astype(wanted))
        out.append(term)
    return tuple(out)


def writing_shape(index, shape):
    """The shape that MLX assigns to, and where it has the axes of index arrays: for their place
    integers in the index do not count."""
    arrays = [t for t in index if isinstance(t, np.ndarray)]
    full = list(index)
    if Ellipsis not in [t for t in full if not isinstance(t, np.ndarray)]:
        full.append(Ellipsis)
    used = sum(t is not None and t is not Ellipsis for t in full)
    terms, axis = [], 0
    for t in full:
        if t is Ellipsis:
            for _ in range(len(shape) - used):
                terms.append(("axis", shape[axis]))
                axis += 1
        elif t is None:
            terms.append(("axis", 1))
        else:
            if isinstance(t, np.ndarray):
                terms.append(("array", 0))
            elif isinstance(t, slice):
                terms.append(("axis", len(range(*t.indices(shape[axis])))))
            axis += 1
    dims = [n for kind, n in terms if kind == "axis"]
    if not arrays:
        return tuple(dims), 0
    places = [i for i, t in enumerate(terms) if t[0] == "array"]
    together = places[-1] - places[0] + 1 == len(places)
    at = places[0] if together else 0
    return (*dims[:at], *np.broadcast_shapes(*[a.shape for a in arrays]), *dims[at:]), at


def as_read(index, values, at, shape):
    """Values of `writing_shape` with the axes of index arrays where NumPy has them."""
    arrays = [t for t in index if isinstance(t, np.ndarray)]
    read, write = np.empty(shape)[index].shape, values.shape
    if not arrays:
        return values
    # NumPy puts them in front, or where MLX has them.
    advanced = [isinstance(t, (np.ndarray, int)) for t in index]
    first, last = advanced.index(True), len(advanced) - advanced[::-1].index(True)
    if all(advanced[first:last]):
        assert read == write, (index, write, read)
        return values
    count = len(np.broadcast_shapes(*[a.shape for a in arrays]))
    front = [*range(at, at + count), *range(at), *range(at + count, len(write))]
    assert values.transpose(front).shape == read, (index, write, read)
    return values.transpose(front)
