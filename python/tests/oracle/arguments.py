"""The language of argument specifications: small objects that draw an argument for a case.

A specification sees what was drawn before it (`draw.args`), so that shapes, axes and indices fit.
Anything that is no specification stands for itself.
"""

import numpy as np
from wire import Arr, Dt, Name

FLOATS = ["float32", "float16", "bfloat16"]
UINTS = ["uint8", "uint16", "uint32", "uint64"]
SINTS = ["int8", "int16", "int32", "int64"]
INTS = UINTS + SINTS
GROUPS = {
    "float": ["float32"] * 3 + FLOATS,
    "float+": ["float32"] * 3 + FLOATS + ["float64"],
    "f32": ["float32"],
    "int": INTS,
    "uint": UINTS,
    "sint": SINTS,
    "index": ["int32", "int64", "uint32", "int16", "uint8"],
    "bool": ["bool_"],
    "real": ["bool_", *INTS, *FLOATS, *FLOATS, "float32", "float64"],
    "number": [*INTS, *FLOATS, *FLOATS, "float32", "float64"],
    "inexact": [*FLOATS, "float32", "complex64", "float64"],
    "any": ["bool_", *INTS, *FLOATS, *FLOATS, "float32", "complex64", "float64"],
    "complex": ["complex64"],
}
LAYOUTS = ["plain"] * 5 + ["transposed", "strided", "reversed", "offset", "repeated"]
SIZES = [1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33]


def numpy_dtype(name):
    return np.dtype({"bfloat16": "float32", "bool_": "bool"}.get(name, name))


def round_to(x, name):
    """Values as the named dtype holds them; bfloat16 within float32."""
    if name != "bfloat16":
        return np.asarray(x).astype(numpy_dtype(name))
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).reshape(np.shape(x))
    bits = (bits + 0x7FFF + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return bits.astype(np.uint32).view(np.float32)


class Draw:
    """One case in the making. `rng` decides what a GPU kernel is compiled for (dtypes, ranks,
    layouts, options), `data` decides values and lengths: cases that share the first share their
    kernels."""

    def __init__(self, rng, data=None):
        self.rng = rng
        self.data = data or rng
        self.args = []
        self.dims = {}
        self.dtype = None

    def pick(self, items):
        return items[int(self.rng.integers(len(items)))]

    def chance(self, p):
        return self.rng.random() < p

    def integer(self, low, high):
        """Both ends included."""
        return int(self.rng.integers(low, high + 1))

    def shape(self, spec):
        """A shape: `any`, `any2` (two axes at least), or names of sizes and numbers, such as
        `... n 3`, where a name stands for one size in the whole case and ... for up to two axes."""
        if spec.startswith("any"):
            least = int(spec[3:] or 0)
            rank = max(least, self.pick([0, 1, 1, 2, 2, 2, 3, 3, 4]))
            dims = [self.length(SIZES) for _ in range(rank)]
            if rank and self.chance(0.04):
                dims[self.integer(0, rank - 1)] = 0
            while np.prod(dims, dtype=np.int64) > 1200:
                dims[int(np.argmax(dims))] //= 2
            return tuple(dims)
        dims = []
        for word in spec.split():
            if word == "...":
                if "..." not in self.dims:
                    self.dims["..."] = [
                        self.pick([1, 2, 3]) for _ in range(self.pick([0, 0, 1, 2]))
                    ]
                dims += self.dims["..."]
            elif word.isdigit():
                dims.append(int(word))
            else:
                dims.append(self.dims.setdefault(word, self.length(SIZES[:12])))
        return tuple(dims)

    def length(self, sizes):
        """A length of an axis: whether it is 1 is structure, the rest is data."""
        n = self.pick(sizes)
        if n == 1 or self.data is self.rng:
            return n
        longer = [k for k in sizes if k > 1]
        return longer[int(self.data.integers(len(longer)))]

    def values(self, kind, shape, dtype):
        """Values of a dtype: `normal`, `positive`, `unit` (inside (-1, 1)), `near 1`,
        `small` integers, `exact` (halves), `distinct`, `special` (infinities, NaN, zeros among
        real ones)."""
        rng = self.data
        if dtype == "bool_":
            return rng.integers(0, 2, shape).astype(bool)
        if dtype in INTS:
            low, high = (0, 20) if dtype in UINTS else (-20, 20)
            if kind == "positive":
                low, high = 1, 20
            elif kind == "small":
                low, high = 0, 4
            elif kind in ("unit", "near 1"):
                low, high = (0, 1) if dtype in UINTS else (-1, 1)
            elif kind == "special" and rng.random() < 0.3:
                top = np.iinfo(dtype)
                return rng.integers(top.min, top.max, shape, dtype=dtype, endpoint=True)
            if kind == "distinct":
                return rng.permutation(int(np.prod(shape))).reshape(shape).astype(dtype)
            return rng.integers(low, high + 1, shape).astype(dtype)
        if kind == "distinct":
            x = rng.permutation(int(np.prod(shape))).reshape(shape) / 4
        elif kind == "exact" or kind == "small":
            x = rng.integers(-8, 9, shape) / 2
        elif kind == "positive":
            x = rng.uniform(0.1, 5, shape)
        elif kind == "unit":
            x = rng.uniform(-0.98, 0.98, shape)
        elif kind == "near 1":
            x = rng.uniform(0.98, 1.02, shape)
        else:
            x = rng.normal(size=shape) * (1.0, 1.0, 3.0)[int(rng.integers(3))]
        if dtype == "complex64":
            x = x + 1j * (
                rng.normal(size=shape) if kind != "exact" else rng.integers(-4, 5, shape) / 2
            )
        x = np.asarray(x)
        if kind == "special" and x.size and dtype != "complex64" and rng.random() < 0.4:
            flat = x.reshape(-1)
            for v in (np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0):
                flat[int(rng.integers(x.size))] = v
            x = flat.reshape(x.shape)
        return round_to(x, dtype)


class Spec:
    """Something that draws."""


def drawn(spec, draw):
    if isinstance(spec, Spec):
        return spec.draw(draw)
    if isinstance(spec, tuple):
        return tuple(drawn(s, draw) for s in spec)
    if isinstance(spec, list):
        return [drawn(s, draw) for s in spec]
    return spec


class A(Spec):
    """An array. `shape`: see Draw.shape; `like=i`: broadcasts with argument i; `same=i`: has its
    shape."""

    def __init__(self, group="any", shape="any", values="normal", like=None, same=None, own=False):
        self.group, self.shape, self.values = group, shape, values
        self.like, self.same, self.own = like, same, own

    def draw(self, d):
        names = GROUPS.get(self.group) or [self.group]
        # Arguments of one case mostly share a dtype.
        name = d.dtype if d.dtype in names and not self.own and d.chance(0.85) else d.pick(names)
        if not self.own:
            d.dtype = d.dtype or name
        layout = d.pick(LAYOUTS)
        if self.same is not None:
            shape = d.args[self.same].values.shape
        elif self.like is not None:
            shape = list(d.args[self.like].values.shape)
            shape = [1 if d.chance(0.2) else s for s in shape]
            if d.chance(0.25):
                shape = shape[d.integer(0, len(shape)) :]
        else:
            shape = d.shape(self.shape)
        shape = tuple(shape)
        x = np.asarray(d.values(self.values, shape, name))
        if layout == "repeated" and len(shape) and shape[0]:
            if self.values == "distinct":
                layout = "plain"
            else:
                x = np.broadcast_to(x[:1], shape).copy()
        return Arr(name, x, layout)


class Scalar(Spec):
    """A Python number."""

    def __init__(self, positive=False):
        self.positive = positive

    def draw(self, d):
        if self.positive:
            return d.pick([1, 2, 0.5, 1.5, 3])
        return d.pick([0, 1, 2, -1, 3, 0.5, -1.5, 2.25, True])


class Either(Spec):
    """One of several specifications."""

    def __init__(self, *specs):
        self.specs = specs

    def draw(self, d):
        return drawn(d.pick(self.specs), d)


class Int(Spec):
    def __init__(self, low, high):
        self.low, self.high = low, high

    def draw(self, d):
        return d.integer(self.low, self.high)


class Num(Spec):
    def __init__(self, low, high):
        self.low, self.high = low, high

    def draw(self, d):
        return round(float(d.data.uniform(self.low, self.high)), 3)


class Fn(Spec):
    """What a function of the case in the making returns."""

    def __init__(self, f):
        self.f = f

    def draw(self, d):
        return drawn(self.f(d), d)


FLAG = Either(True, False)


def rank(d, of=0):
    return d.args[of].values.ndim


def size(d, of=0):
    return d.args[of].values.shape


def _axis(d, of):
    n = rank(d, of)
    return d.integer(-n, n - 1) if n else 0


def axis(of=0):
    """An axis of argument `of`; sometimes one that it has not."""
    return Fn(lambda d: rank(d, of) + d.integer(0, 2) if d.chance(0.02) else _axis(d, of))


def maybe_axis(of=0):
    return Fn(lambda d: None if d.chance(0.2) else axis(of))


def axes(of=0, some=False):
    """None, an axis, or several distinct ones in a tuple or list."""

    def f(d):
        n = rank(d, of)
        if d.chance(0.25) and not some:
            return None
        if n == 0 or d.chance(0.4):
            return axis(of)
        k = d.integer(1, n)
        chosen = [int(i) - (n if d.chance(0.5) else 0) for i in d.rng.permutation(n)[:k]]
        return tuple(chosen) if d.chance(0.5) else chosen

    return Fn(f)


def permutation(of=0):
    return Fn(lambda d: [int(i) for i in d.rng.permutation(rank(d, of))])


def other_shape(of=0):
    """Another shape with as many elements; sometimes with -1, sometimes with too many."""

    def f(d):
        n = int(np.prod(size(d, of)))
        if d.chance(0.03):
            return [n + 1]
        dims, left = [], n
        for p in (2, 3, 2, 5, 7):
            if left and left % p == 0 and d.chance(0.6):
                dims.append(p)
                left //= p
        dims.insert(d.integer(0, len(dims)), left)
        if n and d.chance(0.3):
            dims[d.integer(0, len(dims) - 1)] = -1
        return tuple(dims) if d.chance(0.5) else dims

    return Fn(f)


def wider_shape(of=0):
    """A shape that argument `of` broadcasts to."""

    def f(d):
        s = [d.pick([1, 2, 3]) if n == 1 else n for n in size(d, of)]
        return [d.pick([1, 2, 3]) for _ in range(d.pick([0, 0, 1, 2]))] + s

    return Fn(f)


def any_shape(spec="any"):
    return Fn(lambda d: list(d.shape(spec)))


def dtype(group="any"):
    return Fn(lambda d: Dt(d.pick(GROUPS[group])))


def indices(along, of=0, shape="any1"):
    """Integer array with positions along an axis of argument `of`, given by number or as the
    argument with that number (`"arg2"`)."""

    def f(d):
        ax = d.args[int(along[3:])] if isinstance(along, str) else along
        s = size(d, of)
        n = int(np.prod(s)) if ax is None else s[ax] if -len(s) <= ax < len(s) else 1
        name = d.pick(["int32", "int32", "uint32", "int64", "uint8"])
        low = -n if name.startswith("int") else 0
        layout = d.pick(["plain", "plain", "strided", "reversed"])
        shp = d.shape(shape) if n else (0,)
        x = d.data.integers(low, max(n, 1), shp) if n else np.zeros(shp)
        return Arr(name, np.asarray(x).astype(name), layout)

    return Fn(f)


def index(of=0):
    """Anything that can stand between brackets: integers, slices, None, Ellipsis, arrays, masks."""

    def f(d):
        s = size(d, of)
        if s and d.chance(0.08):
            k = d.integer(1, len(s))
            return Arr("bool_", d.data.integers(0, 2, s[:k]).astype(bool))
        items, shape_of_arrays = [], None
        count = d.integer(0, len(s))
        # Behind an ellipsis stand the last axes.
        ellipsis = d.integer(0, count) if d.chance(0.2) else None
        for at in range(count):
            n = s[at if ellipsis is None or at < ellipsis else at - count]
            what = d.pick(["int", "slice", "slice", "slice", "all", "array", "list"])
            if n == 0 and what in ("int", "array", "list"):
                what = "slice"
            if what == "int":
                items.append(d.integer(-n, n - 1))
            elif what == "slice":
                ends = [None if d.chance(0.3) else d.integer(-n - 1, n + 1) for _ in range(2)]
                items.append(slice(*ends, d.pick([None, None, 1, 2, 3, -1, -2])))
            elif what == "all":
                items.append(slice(None))
            elif what == "list" and d.chance(0.5):
                k = shape_of_arrays[-1] if shape_of_arrays else d.integer(1, 3)
                shape_of_arrays = shape_of_arrays or (k,)
                items.append([d.integer(-n, n - 1) for _ in range(k)])
            else:
                shape_of_arrays = shape_of_arrays or d.pick([(1,), (2,), (3,), (2, 3), ()])
                x = d.data.integers(-n, n, shape_of_arrays)
                items.append(Arr(d.pick(["int32", "int64"]), np.asarray(x).astype("int32")))
        if ellipsis is not None:
            items.insert(ellipsis, Ellipsis)
        if d.chance(0.2):
            items.insert(d.integer(0, len(items)), None)
        if len(items) == 1 and d.chance(0.7):
            return items[0]
        return tuple(items)

    return Fn(f)


CPU = Name("cpu")
