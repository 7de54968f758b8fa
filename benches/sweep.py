"""Memory-bound work that no row of the benchmark names, beside PyTorch on the same card.

    python benches/sweep.py                            every case on the GPU, at most 100 seconds
    python benches/sweep.py --only "^(scan|sort)" --budget 0.2 --json sweep.json
    python benches/sweep.py --only cast --list         which cases there are, without running them
    python benches/sweep.py --device cpu --scale 64 --budget 0.005       a check on two small cores

A case is an operation on arrays of 32 to 256 MB (those of the family `small` on small ones) that
both libraries compute from the same numbers. Each side is warmed up, then asked for many results at
once that are waited for together; the best of at least three such loops counts. What comes out is
compared: all of it, or 262,144 elements of it. The table goes from the worst ratio of PyTorch's
time to ours to the best one (above 1: ours is faster); GB/s are of the least traffic possible: all
inputs read once and all outputs written once. A side that raises is an error in the table.
"""

import argparse
import copy
import dataclasses
import functools
import json
import math
import pathlib
import re
import statistics
import time
from collections.abc import Callable

import mlx.core as mx
import mlx.nn as nn  # noqa: F401 - cases name it
import numpy as np

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = F = None
try:
    from tqdm import tqdm
except ImportError:
    tqdm = None

SHORT = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "complex64": "c64"}
SHORT |= {"int32": "i32", "int64": "i64", "int8": "i8", "uint8": "u8", "bool_": "bool"}
HALVES = ("float16", "bfloat16")
#: How far results may be apart, by the least exact type of a case; integers have to be equal.
CLOSE = {"float16": 5e-3, "bfloat16": 4e-2, "float32": 3e-4, "complex64": 1e-3}
#: Elements of a result that are compared.
COMPARED = 1 << 18
#: Bytes of results that may be under way at a time, and of freed memory that is not given back.
UNDER_WAY, KEPT = 8 << 30, 12 << 30


@functools.cache
def code(text):
    """f(module, *inputs) of an expression; the module is `mx` or `torch`."""
    return eval("lambda m, a=None, b=None, c=None: " + text, globals())


# Inputs: what both sides make from the same random numbers, by operations that round alike.


@dataclasses.dataclass
class Input:
    shape: tuple
    kind: str = "normal"
    dtype: str = "float32"
    high: int = 0
    #: An expression of `a`: what the operation gets instead of it, a view mostly.
    view: str = "a"
    #: PyTorch's own dtype, and what it gets instead of the view.
    torch_dtype: str | None = None
    torch_view: str = "a"
    #: f(generator): the array in NumPy, instead of one by kind and shape.
    host: Callable | None = None

    @property
    def numbers(self):
        return 0 if self.host else math.prod(self.shape)


def kind_of(kind, dtype="float32"):
    return lambda *shape, dtype=dtype, **more: Input(shape, kind, dtype, **more)


normal, positive, unit, near_one = map(kind_of, ("normal", "positive", "unit", "near one"))
signed = kind_of("signed", "int32")


def ints(high, *shape, dtype="int32", **more):
    """From 0 to `high`, which is excluded."""
    return Input(shape, "ints", dtype, high, **more)


def index(high, *shape, dtype="int32"):
    """PyTorch's own indices are of 64 bits: most of its gathers and scatters take no others."""
    return ints(high, *shape, dtype=dtype, torch_dtype="int64")


def bools(*shape, one_of=2, **more):
    return Input(shape, "bool", "bool_", one_of, **more)


def order(n, count=None):
    """Indices without a repeat."""
    made = lambda rng: rng.permutation(n)[:count].astype(np.int32)  # noqa: E731
    return Input((count or n,), dtype="int32", torch_dtype="int64", host=made)


def waves(*shape):
    """Complex numbers."""
    return normal(*shape[:-1], 2 * shape[-1], view="a.view(m.complex64)")


def cast(m, a, dtype):
    return a.astype(getattr(mx, dtype)) if m is mx else a.to(getattr(m, dtype.rstrip("_")))


def dense(m, a):
    return mx.contiguous(a) if m is mx else a.contiguous()


def along(m, a, i, axis=-1):
    return mx.take_along_axis(a, i, axis) if m is mx else m.gather(a, axis, i)


def assign(m, a, at, b):
    """A copy with other numbers at some places."""
    a = copy.copy(a) if m is mx else a.clone()
    a[at] = b
    return a


# Sides


class Side:
    """A library: arrays of random numbers, inputs from them, calls that are timed."""

    def __init__(self, module, numbers):
        self.module = module
        rng = np.random.default_rng(1)
        self.floats = self.array(rng.standard_normal(numbers, dtype=np.float32))
        self.ints = self.array(rng.integers(0, 1 << 31, numbers, dtype=np.int32))
        self.places = functools.lru_cache(8)(self.places)

    def make(self, spec, i):
        m = self.module
        if spec.host:
            a = self.array(spec.host(np.random.default_rng(i)))
        else:
            source = self.floats if spec.kind in ("normal", "positive") else self.ints
            a = source[4096 * i : 4096 * i + spec.numbers].reshape(spec.shape)
            if spec.kind == "normal":
                a = a * 1
            elif spec.kind == "positive":
                a = abs(a) + 0.125
            elif spec.kind == "unit":
                a = cast(m, a & 0xFFFFFF, "float32") * 2.0**-24
            elif spec.kind == "near one":
                a = (cast(m, a & 0xFFFF, "float32") - 32768) * 2.0**-26 + 1
            elif spec.kind == "signed":
                a = a % 200 - 100
            else:
                a = a % spec.high == 0 if spec.kind == "bool" else a % spec.high
        a = code(spec.view)(m, cast(m, a, spec.dtype))
        if m is not mx:
            a = cast(m, a, spec.torch_dtype) if spec.torch_dtype else a
            a = code(spec.torch_view)(m, a)
        return a

    def inputs(self, case):
        made = [self.make(spec, i) for i, spec in enumerate(case.inputs)]
        self.wait(made)
        return made

    def measure(self, call, budget):
        """The least seconds of a call, and its last result."""
        for _ in range(3):
            begin = time.perf_counter()
            result = call()
            self.wait(result)
            once = time.perf_counter() - begin
        if once > 10 * budget:
            return once, result
        many = int(min(budget / 3 / once, 1000, UNDER_WAY / max(bytes_of(result), 1))) or 1
        best, loops, end = once, 0, time.perf_counter() + budget
        while loops < 3 or time.perf_counter() < end:
            begin = time.perf_counter()
            for _ in range(many):
                result = call()
                self.start(result)
            self.wait(result)
            best = min(best, (time.perf_counter() - begin) / many)
            loops += 1
        return best, result

    def places(self, size):
        """Elements to compare: both ends and some by chance, the same ones on each side."""
        some = np.random.default_rng(size).integers(0, size, COMPARED - 8192)
        return self.array(np.r_[:4096, size - 4096 : size, some].astype(np.int64))

    def sample(self, a):
        """An array's shape, the name of its dtype and elements in NumPy."""
        shape, dtype = tuple(a.shape), str(a.dtype).split(".")[-1]
        a = a.reshape(-1)
        a = a[self.places(len(a))] if len(a) > COMPARED else a
        return shape, dtype, self.numpy(cast(self.module, a, "float32") if dtype in HALVES else a)


class Ours(Side):
    array = staticmethod(mx.array)
    start = staticmethod(mx.async_eval)
    numpy = staticmethod(np.array)

    def __init__(self, device, numbers):
        mx.set_default_device(getattr(mx, device))
        mx.random.seed(0)
        super().__init__(mx, numbers)

    def wait(self, result):
        mx.eval(result)
        mx.synchronize()

    def clear(self):
        if mx.get_cache_memory() > KEPT:
            mx.clear_cache()


class Torch(Side):
    def __init__(self, device, numbers):
        on_gpu = device == "gpu" and torch.cuda.is_available()
        HERE["device"] = "cuda" if on_gpu else "cpu"
        print(f"mlx on {device}, PyTorch {torch.__version__} on {HERE['device']}", flush=True)
        torch.manual_seed(0)
        torch.set_grad_enabled(False)
        torch.backends.cudnn.allow_tf32 = False  # float32 is float32 on both sides
        super().__init__(torch, numbers)

    def array(self, a):
        return torch.from_numpy(a).to(**HERE)

    def numpy(self, a):
        return a.cpu().numpy()

    def start(self, result):
        """Its calls start by themselves."""

    def wait(self, result):
        if HERE["device"] == "cuda":
            torch.cuda.synchronize()

    def clear(self):
        if HERE["device"] == "cuda" and torch.cuda.memory_reserved() > KEPT:
            torch.cuda.empty_cache()


#: Where PyTorch makes arrays.
HERE = {}


def listed(result):
    return list(result) if isinstance(result, tuple | list) else [result]


def bytes_of(result):
    return sum(a.nbytes for a in listed(result))


# Cases


@dataclasses.dataclass
class Case:
    family: str
    name: str
    inputs: tuple
    #: Expressions of `m`, the module, and the inputs `a`, `b` and `c`; None where PyTorch has
    #: no equal.
    ours: str
    torch: str | None
    #: Bytes moved, from those of the inputs and of the result.
    moved: Callable = lambda inputs, out: sum(inputs) + out
    #: f(module, result, *inputs): what is to be compared instead of the result.
    check: Callable = lambda m, result, *inputs: result
    close: float | None = None


def gathered(inputs, out):
    """Of the first input only what is picked is read."""
    return sum(inputs[1:]) + 2 * out


def moments(m, result, *_):
    """What random numbers have in common."""
    x = cast(m, result, "float32")
    return m.stack([m.mean(x), m.std(x)])


def in_order(m, result, *_):
    """For what may come in any order along the last axis."""
    x = m.sort(result, -1)
    return x if m is mx else x[0]


def picked(m, result, a):
    """For indices of equal numbers, of which any will do: the numbers."""
    return along(m, a, result)


def channels_last(m, result, *_):
    return result if m is mx else result.movedim(1, -1)


UNARY = {
    "float32": "exp sin tanh arctan erf erfinv sigmoid sqrt rsqrt log expm1 square abs floor isnan",
    "float16": "exp tanh erf sigmoid sqrt isnan",
    "bfloat16": "exp sin erf log floor",
    "int32": "abs square bitwise_not",
    "int8": "abs negative",
}
POSITIVE = ("sqrt", "rsqrt", "log")
CASTS = (
    "float32>bfloat16 float32>int32 float32>int8 float32>bool_ float16>float32 bfloat16>float32 "
    "bfloat16>float16 int32>float32 int32>int8 int32>int64 int8>float32 int8>int32 uint8>float16 "
    "int64>int32 float32>complex64 bool_>float32"
)
FAMILIES = (
    "unary binary layout select cast copy join reduce scan softmax norm sort gather scatter random "
    "fft window product small"
)


class Catalogue:
    """All cases; each family is a method of that name."""

    def __init__(self, scale):
        self.cases = []
        #: Elements of 256 MB in float32, of 128 MB and so on, and the side of a square of 128 MB.
        self.n = (1 << 26) // scale
        self.half, self.quarter, self.eighth = self.n // 2, self.n // 4, self.n // 8
        self.side = math.isqrt(self.half)
        for self.family in FAMILIES.split():
            getattr(self, self.family)()

    def rows(self, width, of=None):
        """How many rows of a width make 128 MB in float32."""
        return max(1, (of or self.half) // width)

    def count(self, dtype):
        """Elements of 64 to 128 MB."""
        return self.half if dtype in ("float32", "int32", "int64") else self.n

    def add(self, name, ours, *inputs, torch="", **more):
        """A case; PyTorch's expression is the same one unless another is given."""
        theirs = torch or ours if torch is not None else None
        self.cases.append(Case(self.family, name, inputs, ours, theirs, **more))

    def unary(self):
        for dtype, ops in UNARY.items():
            for op in ops.split():
                kind = positive if op in POSITIVE else unit if op == "erfinv" else normal
                kind = signed if dtype.startswith("int") else kind
                view = "m.sqrt(a)" if op == "isnan" else "a"
                x = kind(self.count(dtype), dtype=dtype, view=view)
                ours = "bitwise_invert" if op == "bitwise_not" else op
                self.add(f"{op} {SHORT[dtype]}", f"m.{ours}(a)", x, torch=f"m.{op}(a)")
        for power in (2, 3, 2.5):
            self.add(f"power {power} f32", f"a ** {power}", positive(self.half))
        x = normal(self.rows(1000), 2000, view="a[:, ::2]")
        self.add("exp of every 2nd column f32", "m.exp(a)", x)
        self.add("exp transposed f32", "m.exp(a)", normal(self.side, self.side, view="a.T"))

    def binary(self):
        half, n, add = self.half, self.n, self.add
        x, y = positive(half), positive(half)
        for op in ("multiply", "divide", "maximum", "logaddexp", "arctan2", "remainder"):
            add(f"{op} f32", f"m.{op}(a, b)", x, y)
        add("power f32", "a ** b", x, y)
        x = positive(n, dtype="bfloat16")
        add("multiply bf16", "a * b", x, x)
        add("logaddexp bf16", "m.logaddexp(a, b)", x, x)
        x, y = ints(1000, half), ints(1000, half, view="a + 1")
        for op in ("floor_divide", "remainder", "multiply", "bitwise_xor"):
            add(f"{op} i32", f"m.{op}(a, b)", x, y)
        add("shift by scalar i32", "a >> 3", x)
        add("add i8", "a + b", signed(n, dtype="int8"), signed(n, dtype="int8"))
        add("add scalar f16", "a + 2.5", normal(n, dtype="float16"))
        add("divide by scalar f32", "a / 3.0", normal(half))
        add("scalar by f32", "3.0 / a", positive(half))
        add("multiply f32 by bf16", "a * b", normal(half), normal(half, dtype="bfloat16"))
        add("multiply f32 by i32", "a * b", normal(half), ints(9, half))

    def layout(self):
        def add(name, x, y):
            self.add(name, "a + b", x, y)

        r, side, t = self.rows(1000), self.side, self.rows(512 * 60)
        for dtype in ("float32", "bfloat16"):
            d, x = SHORT[dtype], functools.partial(normal, dtype=dtype)
            add(f"row of 1023 {d}", x(self.rows(1023), 1023), x(1023))
            add(f"column {d}", x(r, 1000), x(r, 1))
            add(f"channels {d}", x(self.rows(32000), 32, 1000), x(32, 1))
            add(f"every 2nd column {d}", x(r, 2000, view="a[:, ::2]"), x(r, 1000))
            add(f"transposed {d}", x(side, side, view="a.T"), x(side, side))
            add(f"odd offset {d}", x(self.half, view="a[1:]"), x(self.half, view="a[:-1]"))
            add(f"odd rows {d}", x(r, 1001, view="a[:, 1:]"), x(r, 1001, view="a[:, :-1]"))
        add("row and column f32", normal(side, 1), normal(1, side))
        both = normal(side, side, view="a.T")
        add("both transposed f32", both, both)
        add("every 2nd row f32", normal(2 * r, 1000, view="a[::2]"), normal(r, 1000))
        swapped = normal(t, 60, 512, view="m.swapaxes(a, 1, 2)")
        add("axes swapped f32", swapped, normal(t, 512, 60))
        add("middle f32", normal(t, 60, 512), normal(t, 1, 512))
        add("row of 3 f32", normal(self.rows(3), 3), normal(3))

    def select(self):
        half, r, add = self.half, self.rows(1000), self.add
        x, y, short = normal(half), normal(half), normal(self.n, dtype="bfloat16")
        add("where f32", "m.where(a, b, c)", bools(half), x, y)
        add("where scalar f32", "m.where(a, b, -1.0)", bools(half), x)
        add("where scalar bf16", "m.where(a, b, -1.0)", bools(self.n), short)
        add("where by row f32", "m.where(a, b, c)", bools(1000), normal(r, 1000), normal(r, 1))
        add("clip f32", "m.clip(a, -0.5, 0.5)", x)
        add("clip bf16", "m.clip(a, -0.5, 0.5)", short)
        add("maximum with scalar f32", "m.maximum(a, 0.0)", x, torch="m.clamp_min(a, 0.0)")
        add("greater f32", "a > b", x, y)
        add("less than scalar bf16", "a < 0.25", short)
        add("equal i32", "a == b", ints(9, half), ints(9, half))
        add("logical_and", "m.logical_and(a, b)", bools(self.n), bools(self.n))
        few = ints(9, half, view="cast(m, a, 'float32')")
        add("isclose f32", "m.isclose(a, b)", few, few)
        add("nan_to_num f32", "m.nan_to_num(a)", normal(half, view="m.sqrt(a)"))

    def cast(self):
        def add(name, x, target):
            self.add(f"{name} to {SHORT[target]}", f"cast(m, a, {target!r})", x)

        kinds = {"uint8": functools.partial(ints, 200), "bool_": lambda n, dtype: bools(n)}
        for pair in CASTS.split():
            source, target = pair.split(">")
            x = kinds.get(source, signed if source.startswith("int") else normal)
            add(SHORT[source], x(self.count(source), dtype=source), target)
        x = normal(self.rows(1000), 2000, view="a[:, ::2]")
        add("every 2nd column f32", x, "bfloat16")
        add("transposed f32", normal(self.side, self.side, view="a.T"), "bfloat16")

    def copy(self):
        def add(name, x, **more):
            self.add(name, "dense(m, a)", x, **more)

        r = self.rows(1000)
        for dtype in ("float32", "bfloat16", "int8"):
            n, d, x = self.count(dtype), SHORT[dtype], signed if dtype == "int8" else normal
            x = functools.partial(x, dtype=dtype, view="a.T")
            add(f"transpose {d}", x(self.side, n // self.side))
            add(f"transpose 1009 columns {d}", x(n // 1009, 1009))
        add("transpose 8 columns f32", normal(self.half // 8, 8, view="a.T"))
        how = "mx.transpose(a, {0}) if m is mx else a.permute({0})"
        for axes in ((0, 2, 1), (1, 0, 2), (2, 1, 0), (2, 0, 1), (1, 2, 0)):
            x = normal(self.rows(96 * 250), 96, 250, view=how.format(axes))
            add(f"axes {axes} f32", x)
        heads = (8, self.rows(8 * 4096, self.n), 32, 128)
        add("heads first bf16", normal(*heads, dtype="bfloat16", view="m.swapaxes(a, 1, 2)"))
        add("[:, 1:] f32", normal(r, 1001, view="a[:, 1:]"))
        add("[:, 1:] bf16", normal(r, 1001, dtype="bfloat16", view="a[:, 1:]"))
        add("[:, ::2] f16", normal(r, 1000, dtype="float16", view="a[:, ::2]"))
        add("[::3] f32", normal(self.half, view="a[::3]"))
        add("[1:, 1:, 1:] f32", normal(65, self.rows(64 * 255), 256, view="a[1:, 1:, 1:]"))
        view, written = f"m.broadcast_to(a, ({r}, 1000))", lambda inputs, out: out
        add("broadcast row f32", normal(1000, view=view), moved=written)
        add("broadcast column f32", normal(r, 1, view=view), moved=written)

    def join(self):
        half, r, r128, add = self.half, self.rows(1000), self.rows(128), self.add
        y, thin = normal(self.quarter), functools.partial(normal, r128, dtype="bfloat16")
        first, last = "m.concatenate([a, b], 0)", "m.concatenate([a, b], -1)"
        add("concatenate f32", first, y, y)
        add("concatenate odd f32", first, normal(self.quarter + 1), y)
        add("concatenate columns 77 and 51 f32", last, normal(r128, 77), normal(r128, 51))
        add("concatenate columns 1 and 127 bf16", last, thin(1), thin(127))
        many = "m.concatenate([a, b] * 8, -1)"
        x = normal(self.rows(1024), 64)
        add("concatenate 16 columns f32", many, x, x)
        add("stack f32", "m.stack([a, b], 0)", y, y)
        add("stack last f32", "m.stack([a, b], -1)", y, y)
        for dtype in ("float32", "bfloat16"):
            x = normal(r, 1000, dtype=dtype)
            theirs = "F.pad(a, (1, 2, 1, 1))"
            add(f"pad {SHORT[dtype]}", "m.pad(a, [(1, 1), (1, 2)])", x, torch=theirs)
        x, third = normal(r, 1000), normal(r // 3 + 1, 1000)
        for k in (0, 1):
            add(f"flip axis {k} f32", f"dense(m, m.flip(a, [{k}]))", x)
            add(f"roll axis {k} f32", f"m.roll(a, 5, {k})", x)
            theirs = f"m.repeat_interleave(a, 3, {k})"
            add(f"repeat axis {k} f32", f"m.repeat(a, 3, {k})", third, torch=theirs)
        add("roll f32", "m.roll(a, 12345, 0)", normal(half))
        add("flip bf16", "dense(m, m.flip(a, [0]))", normal(self.n, dtype="bfloat16"))
        add("tile f32", "m.tile(a, (2, 2))", normal(r // 4 + 1, 1000))
        side, x = self.side, normal(self.side, self.side)
        add("triu f32", "m.triu(a)", x)
        add("tril f32", "m.tril(a)", x)
        add("tri f32", f"m.tri({side})", torch=f"m.tril(m.ones({side}, {side}, **HERE))")
        x, how = normal(self.rows(64), 8, 8), "dense(m, m.diagonal(a, 0, 1, 2))"
        add("diagonals of 8 x 8 f32", how, x, moved=gathered)
        add("diag f32", "m.diag(a)", normal(side))
        add("full f32", f"m.full(({half},), 2.5)", torch=f"m.full(({half},), 2.5, **HERE)")
        theirs = f"m.arange({half}, dtype=m.int32, **HERE)"
        add("arange i32", f"m.arange({half})", torch=theirs)
        theirs = f"m.linspace(0.0, 1.0, {half}, **HERE)"
        add("linspace f32", f"m.linspace(0.0, 1.0, {half})", torch=theirs)

    def fold(self, op, label, x, axis):
        """A reduction; PyTorch has other names for some."""
        ours = f"m.linalg.norm(a, axis={axis})" if op == "norm" else f"m.{op}(a, axis={axis})"
        theirs = {"norm": "linalg.vector_norm", "max": "amax", "min": "amin"}.get(op, op)
        how = f", dim={axis}" if axis is not None else ""
        if op == "logsumexp" and axis is None:
            how = f", dim={tuple(range(len(x.shape)))}"
        how += ", correction=0" if op in ("var", "std") else ""
        self.add(f"{op} {label} {SHORT[x.dtype]}", ours, x, torch=f"m.{theirs}(a{how})")

    def reduce(self):
        fold, half, r = self.fold, self.half, self.rows(1000)
        for op in ("mean", "var", "max", "argmax", "logsumexp", "norm"):
            fold(op, "all", positive(r, 1000), None)
            fold(op, "rows of 1000", positive(r, 1000), -1)
            fold(op, "columns", positive(r, 1000), 0)
            fold(op, "middle", positive(64, 1023, self.rows(64 * 1023)), 1)
        for width in (77, 1000, 1023, 4099, 50021):
            fold("sum", f"rows of {width}", positive(self.rows(width), width), -1)
            fold("sum", f"{width} columns", positive(self.rows(width), width), 0)
        for op in ("sum", "max", "argmax", "var"):
            fold(op, "4 long rows", positive(4, half // 2), -1)
            fold(op, "rows of 4", positive(half // 4, 4), -1)
        fold("sum", "rows of 3", positive(half // 3, 3), -1)
        fold("sum", "4 columns", positive(half // 4, 4), 0)
        fold("sum", "of 4 long rows", positive(4, half // 4), 0)
        fold("std", "rows of 768", positive(self.rows(768), 768), -1)
        fold("prod", "rows of 1000", near_one(r, 1000), -1)
        fold("min", "all", positive(half), None)
        for dtype in ("float16", "bfloat16", "int32"):
            # The sum of all would leave float16.
            kind = functools.partial(ints, 9) if dtype == "int32" else positive
            x = kind(self.rows(1000, self.count(dtype)), 1000, dtype=dtype)
            sum_of_all = "mean" if dtype == "float16" else "sum"
            fold(sum_of_all, "all", x, None)
            fold("sum", "rows of 1000", x, -1)
            fold(sum_of_all, "columns", x, 0)
            short = kind(self.rows(77, self.count(dtype)), 77, dtype=dtype)
            fold("max", "rows of 77", short, -1)
        fold("max", "rows of 1000", signed(2 * r, 1000, dtype="int8"), -1)
        for op, view in (("any", "a"), ("all", "m.logical_not(a)")):
            x = bools(2 * r, 1000, one_of=5000, view=view)
            for label, axis in (("all", None), ("rows of 1000", -1), ("columns", 0)):
                fold(op, label, x, axis)
        x = positive(32, self.rows(32 * 256), 256)
        fold("sum", "axes 0 and 1 of 3", x, (0, 1))
        fold("var", "axes 0 and 1 of 3", x, (0, 1))
        fold("sum", "axes 0 and 2 of 3", x, (0, 2))
        fold("sum", "rows, transposed", positive(r, 1000, view="a.T"), -1)
        fold("sum", "every 2nd of rows", positive(r, 2000, view="a[:, ::2]"), -1)
        fold("sum", "[:, 1:]", positive(r, 1001, view="a[:, 1:]"), -1)
        x = positive(half)
        self.add("inner f32", "m.inner(a, b)", x, x)
        x = normal(r, 1000)
        self.add("einsum bi,bi->b f32", "m.einsum('bi,bi->b', a, b)", x, x)

    def scan(self):
        def add(op, label, x, axis, **more):
            theirs = f"m.{op}(a, {axis}{', dtype=m.int32' if x.dtype == 'int32' else ''})"
            theirs += "[0]" if op == "cummax" else ""
            name, ours = f"{op} {label} {SHORT[x.dtype]}", f"m.{op}(a, axis={axis})"
            self.add(name, ours, x, torch=theirs, **more)

        half, r = self.half, self.rows(1000)
        for op, x in (("cumsum", positive), ("cumprod", near_one), ("cummax", normal)):
            add(op, "rows of 1000", x(r, 1000), -1)
            add(op, "columns", x(r, 1000), 0)
        for width in (8, 77, 4099):
            add("cumsum", f"rows of {width}", positive(self.rows(width), width), -1)
        add("cumsum", "one row", positive(half), 0, close=2e-3)
        add("cumsum", "4 long rows", positive(4, half // 4), -1, close=2e-3)
        add("cumsum", "8 columns", positive(half // 8, 8), 0, close=2e-3)
        add("cumsum", "middle", positive(64, 512, self.rows(64 * 512)), 1)
        add("cumsum", "rows of 1000", positive(2 * r, 1000, dtype="float16"), -1)
        # PyTorch rounds sums on the way.
        add("cumsum", "rows of 1000", positive(2 * r, 1000, dtype="bfloat16"), -1, close=0.1)
        add("cumsum", "rows of 1000", ints(9, r, 1000), -1)
        add("cumsum", "one row", ints(9, half), 0)
        add("cummax", "one row", normal(half), 0)
        add("logcumsumexp", "rows of 1000", normal(r, 1000), -1)
        ours, theirs = "m.cumsum(a, axis=-1, reverse=True)", "m.cumsum(a.flip(-1), -1).flip(-1)"
        self.add("cumsum from the end f32", ours, positive(r, 1000), torch=theirs)

    def softmax(self):
        def add(label, x, axis=-1):
            self.add(f"softmax {label} {SHORT[x.dtype]}", f"m.softmax(a, axis={axis})", x)

        def halves(width, dtype="bfloat16"):
            return normal(self.rows(width, self.n), width, dtype=dtype)

        for width in (32, 77, 1000, 8192, 50257, 1 << 20):
            add(f"of {width}", normal(self.rows(width), width))
        for width in (77, 4096, 50257):
            add(f"of {width}", halves(width))
        add("of 1000", halves(1000, "float16"))
        add("of columns", normal(self.rows(1000), 1000), 0)
        add("of the middle", normal(64, 512, self.rows(64 * 512)), 1)
        entropies = "F.cross_entropy(a, b, reduction='none')"
        for x in (normal(self.rows(1000), 1000), normal(self.rows(50257), 50257), halves(50257)):
            count, width = x.shape
            label, targets = f"of {width} {SHORT[x.dtype]}", index(width, count)
            self.fold("logsumexp", f"of {width}", x, -1)
            ours = "a - m.logsumexp(a, axis=-1, keepdims=True)"
            self.add(f"log_softmax {label}", ours, x, torch="m.log_softmax(a, -1)")
            ours = "m.fast.cross_entropy(a, b)"
            self.add(f"cross entropy {label}", ours, x, targets, torch=entropies)

    def norm(self):
        for width in (64, 77, 768, 1000, 8192, 20000):
            for dtype in ("float32", "bfloat16"):
                x = normal(self.rows(width, self.count(dtype)), width, dtype=dtype)
                w, d = normal(width, dtype=dtype), SHORT[dtype]
                ours, theirs = "m.fast.rms_norm(a, b, 1e-5)", "F.rms_norm(a, b.shape, b, 1e-5)"
                self.add(f"rms_norm {width} {d}", ours, x, w, torch=theirs)
                ours, theirs = "m.fast.layer_norm(a, b, c, 1e-5)", "F.layer_norm(a, b.shape, b, c)"
                self.add(f"layer_norm {width} {d}", ours, x, w, w, torch=theirs)

    def sort(self):
        def add(op, label, x, ours, torch, **more):
            self.add(f"{op} {label} {SHORT[x.dtype]}", ours, x, torch=torch, **more)

        def sort(label, x, axis=-1):
            add("sort", label, x, f"m.sort(a, {axis})", f"m.sort(a, {axis})[0]")

        quarter = self.quarter
        for width in (8, 77, 1000, 8192):
            sort(f"rows of {width}", unit(self.rows(width, quarter), width))
        sort("rows of 1000", normal(self.rows(1000), 1000, dtype="bfloat16"))
        sort("columns", unit(1000, self.rows(1000, quarter)), 0)
        for x in (unit(quarter), normal(quarter, dtype="float16"), ints(1 << 30, quarter)):
            sort("one row", x)
        sort("one row", ints(100, self.half, dtype="int8"))
        for label, x in (
            ("rows of 8", unit(quarter // 8, 8)),
            ("rows of 1000", unit(self.rows(1000, quarter), 1000)),
            ("one row", unit(quarter)),
            ("one row", ints(1 << 30, quarter)),
        ):
            add("argsort", label, x, "m.argsort(a, -1)", "", check=picked)
        large = self.rows(128256)
        for k, label, x in (
            (50, "of 128256", normal(large, 128256)),
            (50, "of 128256", normal(2 * large, 128256, dtype="bfloat16")),
            (8, "of 128", normal(self.rows(128), 128)),
            (100, "of one row", unit(quarter)),
        ):
            how = f"m.topk(a, {k})"
            add(f"top {k}", label, x, how, how + "[0]", check=in_order)
        ours, theirs = "m.argpartition(a, -8, axis=-1)[..., -8:]", "m.topk(a, 8)[1]"
        check = lambda m, result, a: in_order(m, picked(m, result, a))  # noqa: E731
        x = normal(self.rows(128), 128)
        add("indices of the top 8", "of 128", x, ours, theirs, check=check)
        ascending = Input((1 << 20,), host=lambda rng: np.sort(rng.random(1 << 20, np.float32)))
        how = "m.searchsorted(a, b, side='right')"
        self.add("searchsorted f32", how, ascending, unit(quarter))

    def gather(self):
        def add(name, x, *i, text="a[b]"):
            self.add(name, text, x, *i, moved=gathered)

        rows, r = self.rows, self.rows(1000)
        for dtype in ("int32", "int64"):
            d = SHORT[dtype]
            at = functools.partial(index, dtype=dtype)
            add(f"numbers by {d}", normal(self.n), at(self.n, self.eighth))
            add(f"rows of 64 by {d}", normal(rows(64), 64), at(rows(64), rows(64)))
            x, i = normal(r, 1000), at(1000, r, 500)
            add(f"take_along_axis by {d}", x, i, text="along(m, a, b)")
        x, i = normal(1000, r), index(1000, 500, r)
        add("take_along_axis of columns", x, i, text="along(m, a, b, 0)")
        add("numbers of 4096", normal(4096), index(4096, self.half))
        add("i8 numbers", signed(self.n, dtype="int8"), index(self.n, self.half))
        add("rows of 77", normal(rows(77), 77), index(rows(77), rows(77)))
        table = normal(32000, 2048, dtype="bfloat16")
        add("embedding bf16", table, index(32000, rows(2048)))
        pair = index(r, self.eighth), index(1000, self.eighth)
        add("by two indices", normal(r, 1000), *pair, text="a[b, c]")
        add("columns", normal(r, 1000), index(1000, 500), text="a[:, b]")

    def scatter(self):
        def update(name, a, u, text="a.at[b].add(c)", torch="m.index_add(a, 0, b, c)"):
            add(name, text, a, index(a.shape[0], u.shape[0]), u, torch=torch)

        rows, r, many, million = self.rows, self.rows(1000), self.eighth, max(1000, self.n // 64)
        add = self.add
        update("add numbers", normal(million), normal(many))
        update("add to 256 numbers", normal(256), unit(many))
        update("add numbers i32", ints(9, million), ints(9, many))
        for width in (64, 77):
            x = normal(rows(width, self.quarter), width)
            update(f"add rows of {width}", x, normal(rows(width), width))
        update("add rows of 1024", normal(rows(1024), 1024), normal(rows(4096), 1024))
        how = "a.at[b].maximum(c)", "m.scatter_reduce(a, 0, b, c, 'amax')"
        update("maximum of numbers", normal(million), normal(many), *how)
        x, u, how = normal(r, 1000), normal(r // 2 + 1, 1000), "assign(m, a, b, c)"
        add("assign rows", how, x, order(r, r // 2 + 1), u)
        add("assign numbers", how, normal(many), order(many), normal(many))
        columns = "assign(m, a, (slice(None), slice(1, -1)), b)"
        add("assign columns", columns, x, normal(r, 998))
        columns = "assign(m, a, (slice(None), slice(None, None, 2)), b)"
        add("assign every 2nd column", columns, x, normal(r, 500))
        add("assign scalar by mask", "assign(m, a, b, 0.0)", x, bools(r, 1000))
        half_of_each = lambda rng: np.tile(rng.permutation(1000)[:500], (r, 1))  # noqa: E731
        i = Input((r, 500), dtype="int32", torch_dtype="int64", host=half_of_each)
        how, theirs = "m.put_along_axis(a, b, c, 1)", "m.scatter(a, 1, b, c)"
        add("put_along_axis", how, x, i, normal(r, 500), torch=theirs)

    def random(self):
        def add(name, ours, torch, *inputs, check=moments, close=0.05):
            self.add(name, ours, *inputs, torch=torch, check=check, close=close)

        half, r, many = self.half, self.rows(1000), self.eighth
        for dtype in ("float32", "bfloat16"):
            d, how = SHORT[dtype], f"dtype=m.{dtype}"
            theirs = f"({half - 1}, {how}, **HERE)"
            ours = f"m.random.uniform(shape=({half - 1},), {how})"
            add(f"uniform {d}", ours, "m.rand" + theirs)
            add(f"normal {d}", f"m.random.normal(({half - 1},), {how})", "m.randn" + theirs)
        theirs = f"m.empty({half}, dtype=m.bool, **HERE).bernoulli_(0.3)"
        add("bernoulli", f"m.random.bernoulli(0.3, ({half},))", theirs)
        theirs = f"m.randint(0, 1000, ({half},), dtype=m.int32, **HERE)"
        add("randint i32", f"m.random.randint(0, 1000, ({half},))", theirs)
        how = f"m.random.permutation({many})", f"m.randperm({many}, **HERE)"
        add("permutation", *how, check=in_order)
        how = "m.random.permutation(a)", f"a[m.randperm({r}, **HERE)]"
        first_column = lambda m, result, a: in_order(m, result.T[0])  # noqa: E731
        add("permutation of rows f32", *how, normal(r, 1000), check=first_column)
        how = "m.random.categorical(a)", "m.multinomial(m.softmax(a, -1), 1)[:, 0]"
        for width in (128, 50257):
            x = normal(max(256, self.rows(width)), width)
            add(f"categorical of {width} f32", *how, x, close=0.2)

    def fft(self):
        def add(op, label, x, how=""):
            self.add(f"{op} of {label}", f"m.fft.{op}(a{how})", x)

        quarter = self.quarter
        for width in (256, 1000, 1009, 4096, 65536, 1 << 20):
            add("fft", width, waves(self.rows(width, quarter), width))
        add("ifft", 1000, waves(self.rows(1000, quarter), 1000))
        for width in (1000, 1024, 4099):
            add("rfft", width, normal(self.rows(width), width))
        # Of real numbers: what the transform of one cannot have, PyTorch's takes along.
        add("irfft", 1024, normal(self.rows(1024), 1024, view="m.fft.rfft(a)"))
        add("fft2", "512 x 512", waves(self.rows(1 << 18, quarter), 512, 512))
        add("rfft2", "250 x 250", normal(self.rows(62500), 250, 250))
        add("fft", "columns", waves(1024, self.rows(1024, quarter)), ", None, 0")

    def window(self):
        def add(name, ours, torch, *inputs):
            self.add(name, ours, *inputs, torch=torch, check=channels_last)

        turned = {"torch_view": "a.movedim(-1, 1).contiguous()"}
        for dtype in ("float32", "bfloat16"):
            more = {"dtype": dtype, **turned}
            x = normal(self.rows(2048 * 1024, self.count(dtype)), 2048, 1024, **more)
            how = "conv1d(a, b, padding=3, groups=1024)"
            name = f"conv1d of each channel, 4 taps {SHORT[dtype]}"
            add(name, "m." + how, "F." + how, x, normal(1024, 4, 1, **more))
        x = normal(self.rows(56 * 56 * 128), 56, 56, 128, **turned)
        how = "conv2d(a, b, padding=1, groups=128)"
        taps = normal(128, 3, 3, 1, **turned)
        add("conv2d of each channel, 3 x 3 f32", "m." + how, "F." + how, x, taps)
        add("max pool 2 x 2 f32", "nn.MaxPool2d(2, 2)(a)", "F.max_pool2d(a, 2)", x)
        add("average pool 2 x 2 f32", "nn.AvgPool2d(2, 2)(a)", "F.avg_pool2d(a, 2)", x)
        add("upsample f32", "nn.Upsample(2)(a)", "F.interpolate(a, scale_factor=2)", x)

    def product(self):
        def add(name, x, y, text="a @ b"):
            self.add(name, text, x, y)

        half = self.half
        for dtype in ("float32", "float16"):
            d, s = SHORT[dtype], math.isqrt(self.count(dtype))
            x = functools.partial(normal, dtype=dtype)
            add(f"matrix by vector {d}", x(s, s), x(s))
            add(f"vector by matrix {d}", x(s), x(s, s))
            add(f"odd matrix by vector {d}", x(s - 1, s - 1), x(s - 1))
            add(f"64 x 64 {d}", x(half // 4096, 64, 64), x(half // 4096, 64, 64))
        add("4 long rows by vector f32", normal(4, half // 4), unit(half // 4))
        add("rows of 16 by vector f32", normal(half // 16, 16), normal(16))
        add("rows of 16 by 16 x 16 f32", normal(half // 16, 16), normal(16, 16))
        add("3 x 3 f32", normal(half // 9, 3, 3), normal(half // 9, 3, 3))
        add("matrices by vectors f32", normal(half // 4096, 64, 64), normal(half // 4096, 64, 1))
        add("outer f32", normal(self.side), normal(self.side), "m.outer(a, b)")

    def small(self):
        """Where the time is the calls' rather than the memory's."""
        x, large, add = positive(1000), normal(1, 128256), self.add
        for op in ("exp", "sum", "argmax"):
            add(f"{op} of 1000 f32", f"m.{op}(a)", x)
        add("softmax of 1000 f32", "m.softmax(a, -1)", x)
        add("cumsum of 1000 f32", "m.cumsum(a, axis=-1)", x)
        add("sort of 1000 f32", "m.sort(a, -1)", x, torch="m.sort(a, -1)[0]")
        add("add of 1000 f32", "a + b", x, x)
        add("add of 100,000 f32", "a + b", normal(100_000), normal(100_000))
        add("concatenate of 1000 f32", "m.concatenate([a, b], 0)", x, x)
        add("gather of 1000 f32", "a[b]", x, index(1000, 1000))
        add("64 x 64 f32", "a @ b", normal(64, 64), normal(64, 64))
        add("transpose of 64 x 64 f32", "dense(m, a)", normal(64, 64, view="a.T"))
        add("fft of 1000", "m.fft.fft(a)", waves(1, 1000))
        ours, theirs = "m.fast.layer_norm(a, b, b, 1e-5)", "F.layer_norm(a, b.shape, b, b)"
        rows, w = normal(4, 768, dtype="bfloat16"), normal(768, dtype="bfloat16")
        add("layer_norm of 4 rows of 768 bf16", ours, rows, w, torch=theirs)
        add("softmax of 128256 f32", "m.softmax(a, axis=-1)", large)
        add("argmax of 128256 f32", "m.argmax(a, axis=-1)", large)
        theirs = "m.topk(a, 50)[0]"
        add("top 50 of 128256 f32", "m.topk(a, 50)", large, torch=theirs, check=in_order)


# Running


def differences(case, ours, theirs):
    """What is wrong with our result, or None."""
    if len(ours) != len(theirs):
        return f"{len(ours)} arrays against {len(theirs)}"
    for (shape, dtype, a), (other, other_dtype, b) in zip(ours, theirs, strict=True):
        if shape != other:
            return f"shape {shape} against {other}"
        if {a.dtype.kind, b.dtype.kind} & {"f", "c"}:
            dtypes = [dtype, other_dtype, *(i.dtype for i in case.inputs)]
            close = case.close or max(CLOSE.get(d, 0) for d in dtypes)
            finite = np.abs(b[np.isfinite(b)])
            slack = close * (finite.mean(dtype=np.float64) if finite.size else 0)
            right = np.isclose(a, b, rtol=close, atol=slack, equal_nan=True)
        else:
            right = a.astype(np.int64) == b.astype(np.int64)
        if not right.all():
            at = int(np.argmin(right))
            return f"{(~right).sum()} of {right.size} differ: {a[at]} against {b[at]}"
    return None


def run(case, sides, budget):
    row = {"family": case.family, "name": case.name, "bytes": None}
    row |= dict.fromkeys(("mlx_ms", "torch_ms", "ratio", "gbps"))
    samples = {}
    for key, side in sides.items():
        text = case.ours if key == "mlx" else case.torch
        if text is None:
            continue
        try:
            inputs = side.inputs(case)
            call = functools.partial(code(text), side.module, *inputs)
            seconds, result = side.measure(call, budget)
            row[f"{key}_ms"] = seconds * 1e3
            # Of our dtypes, where both sides run.
            row["bytes"] = row["bytes"] or case.moved([a.nbytes for a in inputs], bytes_of(result))
            compared = case.check(side.module, result, *inputs)
            samples[key] = [side.sample(a) for a in listed(compared)]
        except Exception as e:  # noqa: BLE001 - the table shows it
            row[f"{key}_error"] = f"{type(e).__name__}: {e}".split("\n")[0][:200]
        finally:
            inputs = call = result = compared = None
            side.clear()
    if row["mlx_ms"]:
        row["gbps"] = row["bytes"] / row["mlx_ms"] / 1e6
    if row["mlx_ms"] and row["torch_ms"]:
        row["ratio"] = row["torch_ms"] / row["mlx_ms"]
    if len(samples) == 2:
        wrong = differences(case, samples["mlx"], samples["torch"])
        row |= {"wrong": wrong} if wrong else {}
    return row


def line(row):
    text = f"{row['family']:8} {row['name']:36}"
    megabytes = row["bytes"] and row["bytes"] / 1e6
    values = (megabytes, row["mlx_ms"], row["torch_ms"], row["ratio"], row["gbps"])
    for value, form in zip(values, ("9.2f", "10.4f", "10.4f", "7.2f", "8.1f"), strict=True):
        text += f" {'-':>{form[:-3]}}" if value is None else f" {value:{form}}"
    for key in ("mlx_error", "torch_error", "wrong"):
        text += f"  {key.replace('_', ' ')}: {row[key]}" if key in row else ""
    return text


def show(rows, seconds):
    head = f"{'family':8} {'case':36} {'MB':>9} {'mlx ms':>10} {'torch ms':>10} {'ratio':>7}"
    print(f"{head} {'GB/s':>8}")
    order = sorted(rows, key=lambda r: (r["ratio"] is None, r["ratio"] or r["gbps"] or 0))
    for row in order:
        print(line(row))
    ratios = [r["ratio"] for r in order if r["ratio"]]
    failed = [r for r in rows if "mlx_error" in r or "torch_error" in r]
    wrong = [r for r in rows if "wrong" in r]
    print(f"\n{len(rows)} cases in {seconds:.0f} s: {len(wrong)} wrong, {len(failed)} with errors")
    for row in wrong + failed:
        print(line(row))
    if ratios:
        slow = sum(r < 0.8 for r in ratios)
        median = statistics.median(ratios)
        print(f"\n{len(ratios)} beside PyTorch: median {median:.2f}, {slow} below 0.8; the worst:")
        for row in order[: min(20, len(ratios))]:
            print(line(row))


def wake(seconds):
    """Keeps the GPU busy until its clocks are up: a card that was idle raises them late."""
    a, end = mx.ones((2048, 2048)), time.perf_counter() + seconds
    while time.perf_counter() < end:
        mx.eval([a @ a for _ in range(20)])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="REGEX", help='found in "family case"')
    parser.add_argument("--budget", type=float, default=0.05, help="seconds a case and side")
    parser.add_argument("--seconds", type=float, default=100, help="begins nothing after so many")
    parser.add_argument("--device", choices=["gpu", "cpu"], default="gpu")
    parser.add_argument("--scale", type=int, default=1, help="divides the sizes")
    parser.add_argument("--no-torch", action="store_true", help="this library alone, unchecked")
    parser.add_argument("--list", action="store_true", help="show the cases and run none")
    parser.add_argument("--json", type=pathlib.Path, help="write the rows to this file")
    args = parser.parse_args()
    cases = Catalogue(args.scale).cases
    cases = [c for c in cases if re.search(args.only, f"{c.family} {c.name}")]
    if not cases:
        parser.error(f"no case is like {args.only!r}")
    if args.list:
        for case in cases:
            shapes = ", ".join(f"{SHORT[i.dtype]}{list(i.shape)}" for i in case.inputs)
            print(f"{case.family:8} {case.name:36} {shapes}")
        print(f"{len(cases)} cases")
        return
    begin = time.perf_counter()
    numbers = max((i.numbers + 4096 * k for c in cases for k, i in enumerate(c.inputs)), default=1)
    sides = {"mlx": Ours(args.device, numbers)}
    if torch and not args.no_torch:
        sides["torch"] = Torch(args.device, numbers)
    elif not args.no_torch:
        print("PyTorch is not installed here: as with --no-torch", flush=True)
    wake(0.5 if args.device == "gpu" and args.scale == 1 else 0)
    rows = []
    try:
        for case in tqdm(cases, disable=None) if tqdm else cases:
            if time.perf_counter() - begin < args.seconds:
                rows.append(run(case, sides, args.budget))
    except KeyboardInterrupt:
        pass
    show(rows, time.perf_counter() - begin)
    if len(rows) < len(cases):
        print(f"left out: the last {len(cases) - len(rows)} cases")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
