"""Programs of up to 20 steps with hostile arguments. Arguments are drawn by the names of
parameters, most of them plausible; some are anything. A step refuses or makes arrays, which
later steps may take."""

import inspect
import math
import types

import mlx.core as mx
import numpy as np

STEPS = 20
MOST_ARRAYS = 10
# Larger ones are let go before they are computed: time is for other cases.
MOST_BYTES = 1 << 24
# Elements that an assignment may write: each index writes what the others leave of the array.
MOST_WRITES = 1 << 28
HUGE = [
    2**7,
    2**15,
    2**16,
    2**24,
    2**31 - 1,
    2**31,
    -(2**31),
    -(2**31) - 1,
    2**32,
    2**40,
    2**62,
    2**63 - 1,
    2**63,
    -(2**63),
    2**64,
    10**30,
]
DTYPES = [
    mx.bool_,
    mx.uint8,
    mx.int8,
    mx.uint16,
    mx.int32,
    mx.uint32,
    mx.int64,
    mx.uint64,
    mx.float16,
    mx.bfloat16,
    mx.float32,
    mx.float32,
    mx.float32,
    mx.complex64,
    mx.float64,
]
ODD_FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, 1e-45, 1e38, -3.5, 0.5, 2.0**63, 1e300]

# What has effects outside of its results, waits for others, or is attacked by another target.
LEFT_OUT = {
    "save",
    "savez",
    "savez_compressed",
    "save_gguf",
    "save_safetensors",
    "load",
    "export_function",
    "import_function",
    "exporter",
    "export_to_dot",
    "set_default_device",
    "set_default_stream",
    "set_memory_limit",
    "set_cache_limit",
    "set_wired_limit",
    "disable_compile",
    "enable_compile",
    "new_stream",
    "new_thread_local_stream",
    "stream",
    "from_dlpack",
    "clear_streams",
    "print_graph",
    "set_printoptions",
    "printoptions",
    "reset_peak_memory",
}
TRANSFORMS = (
    "grad",
    "value_and_grad",
    "vmap",
    "compile",
    "jvp",
    "vjp",
    "checkpoint",
    "custom_function",
)
OPERATORS = [
    "__add__",
    "__sub__",
    "__mul__",
    "__truediv__",
    "__floordiv__",
    "__mod__",
    "__pow__",
    "__matmul__",
    "__and__",
    "__or__",
    "__lshift__",
    "__rshift__",
    "__eq__",
    "__lt__",
    "__radd__",
    "__rpow__",
    "__neg__",
    "__abs__",
    "__invert__",
    "__iadd__",
    "__imatmul__",
    "__len__",
    "__bool__",
    "__int__",
    "__float__",
    "__index__",
    "__repr__",
    "__contains__",
    "__copy__",
    "__complex__",
]


def hostile_int(rng):
    return (
        rng.choice([0, 1, -1, 2, 3, -2, 5, 7, 64, -65]) if rng.random() < 0.5 else rng.choice(HUGE)
    )


def itself():
    x = []
    x.append(x)
    return x


def hostile(rng):
    kind = rng.randrange(16)
    if kind < 4:
        return hostile_int(rng)
    if kind == 4:
        return rng.choice(ODD_FLOATS)
    if kind == 5:
        return [hostile_int(rng) for _ in range(rng.choice([0, 1, 2, 3, 5]))]
    if kind == 6:
        return tuple(rng.choice([0, 1, -1, 2]) for _ in range(rng.choice([0, 1, 2, 65, 200])))
    if kind == 7:
        return rng.choice(
            [itself(), [[1, 2], [3]], [[]], [[[0]] * 3] * 2, [None], ["x"], {"a": 1}, {1, 2}]
        )
    return rng.choice(
        [
            None,
            "",
            "x",
            b"ab",
            True,
            mx.float32,
            mx.cpu,
            ...,
            slice(None),
            object,
            math.sin,
            1j,
            "sum",
            np.zeros(3),
            np.float32(1),
            np.array("x"),
            range(3),
            "ij,jk->ik",
            mx.array,
            b"\0" * 8,
        ]
    )


def shape(rng):
    if rng.random() < 0.08:
        return [rng.choice([0, 1, 2, hostile_int(rng)]) for _ in range(rng.randrange(1, 4))]
    return [
        rng.choice([0, 1, 1, 2, 2, 3, 4, 4, 5, 8, 8, 17, 32, 64])
        for _ in range(rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4, 5]))
    ]


def new_array(rng):
    """Zero-length axes beside huge ones and views that repeat a number among the common ones."""
    dtype = rng.choice(DTYPES)
    kind = rng.random()
    if kind < 0.06:
        return mx.zeros(
            rng.choice([(0, 2**30), (2**30, 0, 4), (0,), (2**31 - 1, 0), (0, 0)]), dtype
        )
    if kind < 0.12:
        return mx.broadcast_to(
            mx.array(1).astype(dtype),
            rng.choice([(2**20,), (2**10, 2**12), (2**22,), (3, 2**20)]),
        )
    dims = [d if 0 <= d < 128 else 3 for d in shape(rng)]
    if math.prod(dims) > 1 << 18:
        dims = dims[:2]
    seed = rng.randrange(1 << 30)
    a = np.random.default_rng(seed).normal(size=dims) * rng.choice([1, 1, 10, 1e4])
    if rng.random() < 0.1 and a.size:
        a.flat[seed % a.size] = rng.choice(ODD_FLOATS[:7])
    with np.errstate(all="ignore"):
        a = mx.array(a.astype(np.float32))
        if dtype == mx.float64:
            return a.astype(dtype, stream=mx.cpu)
        a = a.astype(dtype)
    if rng.random() < 0.2 and a.ndim > 1:
        a = a.T
    elif rng.random() < 0.1 and a.ndim:
        a = a[:: rng.choice([-1, 2, -2])]
    return a


def axis(rng):
    return rng.choice([0, 0, -1, -1, 1, 1, 2, -2, 3]) if rng.random() < 0.9 else hostile_int(rng)


def axes(rng):
    return [axis(rng) for _ in range(rng.randrange(4))]


def by_name(name, rng, pool):
    """A plausible argument."""
    draw = rng.choice
    if name in (
        "axis",
        "axis1",
        "axis2",
        "source",
        "destination",
        "start_axis",
        "end_axis",
        "offset",
        "k",
        "diagonal",
    ):
        return axis(rng)
    if name in ("axes", "dims"):
        return axes(rng)
    if name in ("shape", "s", "output_shape", "reps", "strides"):
        return shape(rng)
    if "dtype" in name or name == "type":
        return draw(DTYPES)
    if name in (
        "keepdims",
        "reverse",
        "inclusive",
        "sparse",
        "causal",
        "precise",
        "traditional",
        "transpose",
        "flip",
        "equal_nan",
        "copy",
        "compute_uv",
        "upper",
    ):
        return draw([True, False])
    if name in (
        "stride",
        "padding",
        "dilation",
        "kernel_dilation",
        "input_dilation",
        "output_padding",
        "groups",
    ):
        return draw([0, 1, 1, 2, 3, (1, 2), [0, 1], -1])
    if name in (
        "n",
        "m",
        "num",
        "sections",
        "num_samples",
        "kth",
        "n_fft",
        "hop_length",
        "repeats",
        "shift",
        "d",
        "bits",
        "group_size",
        "indices_or_sections",
        "start",
        "stop",
        "step",
        "length",
        "index",
    ):
        return (
            draw([0, 1, 2, 3, 4, 5, 8, 32, 64, 100, 1000, -1])
            if rng.random() < 0.9
            else hostile_int(rng)
        )
    if name in ("arrays", "operands", "tensors", "inputs", "primals", "tangents", "cotangents"):
        return [draw(pool) for _ in range(rng.randrange(4))]
    if name in ("subscripts", "equation"):
        return draw(
            [
                "ij,jk->ik",
                "ij->ji",
                "...i->...",
                "ii",
                "i,j",
                "ab,ab",
                "ij,ij->",
                "a...,b...->ab...",
                "->",
                "ijk",
            ]
        )
    if name in ("mode", "indexing", "ord", "norm", "method"):
        return draw(
            [
                "constant",
                "edge",
                "reflect",
                "xy",
                "ij",
                "affine",
                "mxfp4",
                "nvfp4",
                "mxfp8",
                "ortho",
                "fro",
                "nuc",
                2,
            ]
        )
    if name in ("pad_width", "pad"):
        return draw([1, (1, 2), [(1, 2)], [(0, 1), (2, 0)], [(-1, 1)], 0])
    if name in ("stream", "key"):
        return None
    if name in (
        "scale",
        "eps",
        "beta",
        "alpha",
        "low",
        "high",
        "loc",
        "value",
        "constant_values",
        "rtol",
        "atol",
        "base",
        "decimals",
        "logit_cap",
    ):
        return draw([0, 1, 2.0, 0.5, -1, 1e-5, *ODD_FLOATS])
    return draw(pool)


def argument(name, rng, pool):
    much = rng.random()
    if much < 0.1:
        return hostile(rng)
    if much < 0.16:
        return rng.choice(pool)
    return by_name(name, rng, pool)


def index(rng, pool):
    def one():
        kind = rng.randrange(8)
        if kind < 2:
            return axis(rng)
        if kind < 5:
            ends = [None, None, 0, 1, -1, 2, 5, hostile_int(rng)]
            return slice(
                rng.choice(ends),
                rng.choice(ends),
                rng.choice([None, None, 1, 2, -1, 0, hostile_int(rng)]),
            )
        if kind == 5:
            return rng.choice([None, ..., True, slice(None)])
        return rng.choice(pool) if kind == 6 else hostile(rng)

    return (
        one() if rng.random() < 0.4 else tuple(one() for _ in range(rng.choice([0, 1, 2, 2, 3, 4])))
    )


def parameters(f):
    try:
        return list(inspect.signature(f).parameters.values())
    except (ValueError, TypeError):
        return []


def functions():
    """(name, function, parameters) of everything that computes arrays."""
    found = []
    for part in (mx, mx.fft, mx.linalg, mx.random, mx.fast):
        prefix = "" if part is mx else part.__name__.rsplit(".", 1)[-1] + "."
        for name in sorted(dir(part)):
            f = getattr(part, name)
            if not isinstance(f, types.BuiltinFunctionType) or name.startswith("_"):
                continue
            if name in LEFT_OUT or name in TRANSFORMS or name.endswith("_kernel"):
                continue
            found.append((prefix + name, f, parameters(f)))
    return found


def methods():
    names = sorted(n for n in dir(mx.array) if not n.startswith("_") and n != "at")
    found = [(n, getattr(mx.array, n)) for n in names if callable(getattr(mx.array, n))]
    found += [(n, getattr(mx.array, n)) for n in OPERATORS if hasattr(mx.array, n)]
    return [(f"array.{n}", f, parameters(f)) for n, f in found]


FUNCTIONS = functions()
METHODS = methods()


def short(v):
    if isinstance(v, mx.array):
        return f"<{v.dtype} {v.shape}>".replace("mlx.core.", "")
    if isinstance(v, list | tuple) and len(v) < 70:
        inner = ", ".join("..." if x is v else short(x) for x in v)
        return f"[{inner}]"
    return repr(v)[:60]


class Program:
    def __init__(self, rng, refusals, wrong, tell):
        self.rng, self.refusals, self.wrong, self.tell = rng, refusals, wrong, tell
        self.pool = [new_array(rng) for _ in range(3)]

    def say(self, text):
        if self.tell:
            self.tell(text)

    def call(self, entry, pool):
        """A function, and its arguments by name."""
        name, f, wanted = entry
        rng, args, named = self.rng, [], {}
        for p in wanted:
            if p.kind == p.VAR_POSITIONAL:
                args += [argument(p.name, rng, pool) for _ in range(rng.randrange(4))]
            elif p.kind == p.VAR_KEYWORD:
                continue
            elif p.name == "self":
                args.append(rng.choice(pool))
            elif p.default is p.empty and p.kind != p.KEYWORD_ONLY:
                args.append(argument(p.name, rng, pool))
            elif p.default is p.empty or rng.random() < 0.3:
                if p.name == "stream":
                    continue
                named[p.name] = argument(p.name, rng, pool)
        if not wanted:
            args = [rng.choice(pool), *[argument("", rng, pool) for _ in range(rng.randrange(3))]]
        given = [*map(short, args), *(f"{k}={short(v)}" for k, v in named.items())]
        self.say(f"{name}({', '.join(given)})")
        return lambda: f(*args, **named)

    def transformed(self):
        """A transform of a call with one of its arrays open."""
        rng = self.rng
        entry = rng.choice(FUNCTIONS + METHODS)
        x = rng.choice(self.pool)
        marker = mx.zeros(x.shape, x.dtype) if x.nbytes < MOST_BYTES else x
        state = rng.getstate()

        def f(y):
            after = rng.getstate()
            rng.setstate(state)
            try:
                tell, self.tell = self.tell, None
                out = self.call(entry, [y, y, *self.pool[:1]])()
            finally:
                self.tell = tell
                rng.setstate(after)
            out = [o for o in self.leaves(out) if isinstance(o, mx.array)]
            return out

        def scalar(y):
            return sum(mx.sum(o.astype(mx.float32)) for o in f(y))

        which = rng.choice(TRANSFORMS)
        self.say(f"{which} of {entry[0]} on {short(x)}")
        ways = {
            "grad": lambda: mx.grad(scalar)(x),
            "value_and_grad": lambda: mx.value_and_grad(scalar)(x),
            "vmap": lambda: mx.vmap(f, in_axes=rng.choice([0, -1, 1, None, 5]))(x),
            "compile": lambda: mx.compile(f, shapeless=rng.random() < 0.3)(x),
            "jvp": lambda: mx.jvp(f, [x], [marker]),
            "vjp": lambda: mx.vjp(lambda y: f(y)[0], [x], [marker]),
            "checkpoint": lambda: mx.grad(mx.checkpoint(scalar))(x),
            "custom_function": lambda: mx.grad(mx.custom_function(scalar))(x),
        }
        return ways[which]

    def indexed(self):
        rng = self.rng
        a, i = rng.choice(self.pool), index(rng, self.pool)
        how = rng.randrange(6)
        value = rng.choice(self.pool) if rng.random() < 0.5 else argument("value", rng, self.pool)
        self.say(f"{short(a)}[{short(i)}] {how} {short(value)}")
        if how < 3:
            return lambda: a[i]
        indices = sum(v.size for v in self.leaves(i) if isinstance(v, mx.array))
        if indices * a.size > MOST_WRITES:
            return lambda: None
        if how < 5:

            def assign():
                b = mx.array(a) if a.nbytes < MOST_BYTES else a
                b[i] = value
                return b

            return assign
        return lambda: getattr(a.at[i], rng.choice(["add", "multiply", "maximum", "subtract"]))(
            value
        )

    def leaves(self, x, depth=0):
        if isinstance(x, list | tuple) and depth < 5:
            for v in x[:64]:
                yield from self.leaves(v, depth + 1)
        elif isinstance(x, dict):
            yield from self.leaves(list(x.values()), depth + 1)
        else:
            yield x

    def check(self, a):
        """An array is what it says that it is."""
        if math.prod(a.shape) != a.size or a.nbytes != a.size * a.itemsize:
            raise self.wrong(f"{a.shape} has {a.size} elements of {a.nbytes} bytes")
        if a.nbytes > MOST_BYTES:
            return
        mx.eval(a)
        if a.dtype != mx.bfloat16 and np.array(a).shape != a.shape:
            raise self.wrong(f"{a.shape} to NumPy is another shape")

    def step(self):
        rng = self.rng
        kind = rng.random()
        if kind < 0.55:
            act = self.call(rng.choice(FUNCTIONS), self.pool)
        elif kind < 0.7:
            act = self.call(rng.choice(METHODS), self.pool)
        elif kind < 0.82:
            act = self.indexed()
        elif kind < 0.95:
            act = self.transformed()
        else:
            self.pool.append(new_array(rng))
            return
        made = [a for a in self.leaves(act()) if isinstance(a, mx.array)]
        eager = rng.random() < 0.6
        for a in made[:8]:
            self.say(f"    -> {short(a)}")
            if eager:
                self.check(a)
            self.pool.append(a)

    def finish(self):
        for a in self.pool:
            try:
                self.check(a)
            except self.refusals as e:
                self.judge(e)

    def judge(self, e):
        self.say(f"    {type(e).__name__}: {str(e)[:200]}")
        if "invariant of the library" in str(e):
            raise e


def play(rng, refusals, wrong, tell=None):
    mx.random.seed(rng.randrange(1 << 30))
    program = Program(rng, refusals, wrong, tell)
    for _ in range(rng.randrange(1, STEPS + 1)):
        try:
            program.step()
        except refusals as e:
            program.judge(e)
        while len(program.pool) > MOST_ARRAYS:
            program.pool.pop(rng.randrange(len(program.pool)))
    program.finish()
    mx.synchronize()
