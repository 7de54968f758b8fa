"""The space of the contract: good calls (bases), the forms an argument takes in them, and the
transforms around them.

A base comes from a row of the tables (cases_*.py) or from an expression over SAMPLES in
contracts/*.txt: each call in it that is not an argument, `nn.Linear(4, 5)(M)` has two, is one. In a
case one argument of a base has another form, or a parameter that the base leaves out has one, and
the call stands plainly or inside a transform over its arrays.
"""

import ast
import inspect
import pathlib
import re
from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np
from arguments import Draw, drawn
from cases import ROWS
from wire import Arr, Dt, Name, Snippet

_rng = np.random.default_rng(3)


def _normal(*shape):
    return Arr("float32", _rng.normal(size=shape).round(3).astype(np.float32))


# What expressions may mention.
SAMPLES = {
    "S": Arr("float32", np.float32(1.5)),
    "V": _normal(4),
    "V2": _normal(4),
    "V3": Arr("float32", np.array([0.25, 0.5, 0.75], np.float32)),
    "M": _normal(3, 4),
    "M2": _normal(4, 3),
    "Q": Arr("float32", np.array([[3, 1, 0.5], [1, 2, 0.25], [0.5, 0.25, 4]], np.float32)),
    "R": _normal(2, 3),
    "P": Arr("float32", _rng.uniform(0.1, 0.9, (3, 4)).round(3).astype(np.float32)),
    "H": Arr("float16", _rng.normal(size=(3, 4)).round(2).astype(np.float16)),
    "I": Arr("int32", np.array([0, 2, 1], np.int32)),
    "J": Arr("int32", np.array([[0, 1, 3, 2]] * 3, np.int32)),
    "B": Arr("bool_", _rng.integers(0, 2, (3, 4)).astype(bool)),
    "K": Arr("uint32", np.array([0, 7], np.uint32)),
    "L": _normal(2, 64),
    "Z": _normal(32, 32),
    "T3": _normal(2, 5, 4),
    "T4": _normal(1, 6, 6, 4),
    "T5": _normal(1, 4, 4, 4, 2),
    "A4": _normal(1, 2, 3, 3),
    "W3": _normal(3, 2, 4),
    "W4": _normal(2, 3, 3, 4),
}

# The forms: text for str.format with the argument of the base.
FORMS = """None
0
1
-1
2
5
1.5
-2.0
float('nan')
float('inf')
True
False
2j
np.int32(1)
np.int64(1)
np.float32(1.5)
np.float64(0.5)
np.bool_(True)
np.uint8(1)
np.float16(0.5)
np.array(1)
np.array([1, 2])
np.ones((2, 3), np.float32)
mx.array(1)
mx.array(1.5)
mx.array(True)
mx.array([0, 1])
mx.array([1.5, 2.5])
mx.array(1j)
[]
()
{{}}
''
[1]
[0, 1]
(1,)
(0, 1)
(1, 1)
[-1]
[0.5]
['a']
[None]
((1,), (2,))
[[1, 2], [3, 4]]
{{'a': 1}}
Pair(1, 2)
Lst([1])
Dct(a=1)
2**31
-2**31 - 1
2**63
2**70
(2**31,)
'x'
b'x'
object()
len
slice(None)
...
mx.float32
mx.int32
mx.bool_
mx.cpu
mx.array
range(2)
[{0}]
({0},)
({0}, {0})
[{0}, {0}]
{{'a': {0}}}
Pair({0}, {0})
Tup(({0},))
[[{0}]]
np.array({0})""".splitlines()

# Those that an array can take besides.
ARRAY_FORMS = """{0}.astype(mx.int32)
{0}.astype(mx.bool_)
{0}.astype(mx.float16)
{0}.astype(mx.bfloat16)
{0}.astype(mx.complex64)
{0}.astype(mx.uint8)
{0}[None]
{0}.reshape(-1)
{0}[..., :0]
{0}[..., :1]
{0}.tolist()
{0}.T
mx.zeros((0,))
mx.zeros((0, 3))
mx.zeros((2, 0, 3))
mx.ones((1,))
{0} * float('nan')""".splitlines()

# What the whole call can be given: too much, a name that there is not, nothing.
CALLS = ("extra", "unknown", "nothing")

TRANSFORMS = ("grad", "jvp", "vmap", "compiled", "shapeless", "exported", "checkpointed")


@dataclass
class Base:
    """A good call: `call(args, kwargs)` and `then` something with the result."""

    call: str
    args: list
    kwargs: dict
    given: dict
    then: str = "{}"
    row: object = None
    parameters: tuple = ()
    name: str = field(init=False)

    def __post_init__(self):
        self.name = re.sub(r"\(.*\)", "", self.call)

    def text(self, args, kwargs):
        words = list(args) + [f"{k}={v}" for k, v in kwargs.items()]
        return self.then.format(f"{self.call}({', '.join(words)})")


def spelled(v, given):
    """An argument of a row as text; its arrays go to `given`."""
    if isinstance(v, Arr):
        name = f"a{len(given)}"
        given[name] = v
        return name
    if isinstance(v, Dt):
        return f"mx.{v.name}"
    if isinstance(v, Name):
        return f"mx.{v.path}"
    if isinstance(v, list):
        return "[" + ", ".join(spelled(x, given) for x in v) + "]"
    if isinstance(v, tuple):
        return "(" + "".join(spelled(x, given) + ", " for x in v) + ")"
    if isinstance(v, slice):
        return f"slice({v.start}, {v.stop}, {v.step})"
    if v is Ellipsis:
        return "..."
    if isinstance(v, float):
        return f"float('{v}')"
    return repr(v)


def of_row(number, row):
    d = Draw(np.random.default_rng([11, number]))
    for a in row.args:
        d.args.append(drawn(a, d))
    drawn_kwargs = {k: drawn(v, d) for k, v in row.kwargs.items()}
    given = {}
    args = [spelled(a, given) for a in d.args]
    kwargs = {k: spelled(v, given) for k, v in drawn_kwargs.items()}
    kind, _, name = row.op.partition(".")
    if row.op == "[]":
        call = "item"
    elif row.op == "[]=":
        call = "assigned"
    elif kind == "at":
        call, args = f"{args[0]}.at[{args[1]}].{name}", args[2:]
    elif kind == "array":
        call, args = f"{args[0]}.{name}", args[1:]
    else:
        call = f"mx.{row.op}"
    return Base(call, args, kwargs, given, row=row)


def of_text(text):
    """The bases of an expression: its outermost call, and those that its function is made of."""
    node, suffix = ast.parse(text, mode="eval").body, ""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Call):
            # Starred arguments have no form of their own.
            args = [ast.unparse(a) for a in node.args]
            kwargs = {k.arg: ast.unparse(k.value) for k in node.keywords}
            words = set(re.findall(r"\w+", text))
            given = {k: v for k, v in SAMPLES.items() if k in words}
            then = "{}" + suffix.replace("{", "{{").replace("}", "}}")
            call = ast.unparse(node.func)
            if not isinstance(node.func, ast.Lambda):
                yield Base(call, args, kwargs, given, then)
            suffix = "(" + ast.unparse(node).removeprefix(call)[1:] + suffix
            node = node.func
        elif isinstance(node, ast.Attribute):
            suffix = f".{node.attr}{suffix}"
            node = node.value
        elif isinstance(node, ast.Subscript):
            suffix = f"[{ast.unparse(node.slice)}]{suffix}"
            node = node.value
        else:
            return


def parameters(base):
    """(name, keyword?) of the parameters, as this library declares them; () where it says none."""
    import mlx.nn as nn
    import mlx.optimizers as opt
    import mlx.utils as mu

    path = base.call.split(".")
    owner = {"mx": mx, "nn": nn, "opt": opt, "mu": mu}.get(path[0])
    try:
        if base.row and base.row.op.startswith("array."):
            f = getattr(mx.array, path[-1])
            skip = 1
        elif owner is None or "(" in base.call:
            return ()
        else:
            f, skip = owner, 0
            for part in path[1:]:
                f = getattr(f, part)
        signature = inspect.signature(f)
    except (ValueError, TypeError, AttributeError):
        return ()
    plain = [
        p for p in signature.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    return tuple((p.name, p.kind is p.KEYWORD_ONLY) for p in plain[skip:])


def bases():
    found = [of_row(i, row) for i, row in enumerate(ROWS)]
    for path in sorted((pathlib.Path(__file__).parent / "contracts").glob("*.txt")):
        for text in path.read_text().splitlines():
            found += of_text(text) if not text.startswith("##") else []
    for b in found:
        b.parameters = parameters(b)
    return found


def changed(base, where, form):
    """The call with one argument in another form; None where there is no such call. `where` is a
    position or a keyword, or None for CALLS; a form of `missing` leaves it out and `keyword` passes
    it by name."""
    args, kwargs = list(base.args), dict(base.kwargs)
    if where is None:
        whole = {
            "extra": ([*args, "object()"], kwargs),
            "unknown": (args, {**kwargs, "unknown": "1"}),
            "nothing": ([], {}),
        }
        return base.text(*whole[form])
    here = args if isinstance(where, int) else kwargs
    names = [n for n, _ in base.parameters]
    if form == "missing":
        del here[where]
    elif form == "keyword":
        # What stands behind has to be named too.
        if not isinstance(where, int) or len(names) < len(args):
            return None
        kwargs = {**dict(zip(names[where:], args[where:], strict=False)), **kwargs}
        args = args[:where]
    elif isinstance(where, int) or where in kwargs:
        here[where] = form.format(here[where])
    elif "{0}" in form:
        return None
    else:
        kwargs[where] = form.format()
    return base.text(args, kwargs)


def places(base):
    """(where, forms) of the whole call, the arguments and the parameters that are not given."""
    yield None, CALLS
    for where, text in [*enumerate(base.args), *base.kwargs.items()]:
        if text.startswith("*"):
            continue
        forms = ["missing", *FORMS]
        if isinstance(where, int):
            forms.insert(1, "keyword")
        if text in base.given:
            forms += ARRAY_FORMS
        yield where, forms
    for at, (name, only) in enumerate(base.parameters):
        if name not in base.kwargs and (only or at >= len(base.args)):
            yield name, FORMS


def transformed(name, text, given):
    """The snippet with the call inside a transform over its arrays."""
    arrays = [k for k in given if re.search(rf"\b{k}\b", text)]
    names = ", ".join(arrays)
    if not arrays:
        return None
    return Snippet(f"{name}(lambda {names}: {text}, {names})", {k: given[k] for k in arrays})


def plain(text, given):
    return Snippet(text, {k: v for k, v in given.items() if re.search(rf"\b{k}\b", text)})


@dataclass
class Contract:
    """A case: the snippet, what it is made of."""

    snippet: Snippet
    base: Base
    where: object
    form: str
    transform: str


def cases(seed, count):
    """`count` cases or so, the same in every run with a seed: of the good calls, plainly and inside
    each transform, and of the forms as many as there is room for, two plain to one transformed."""
    rng = np.random.default_rng(seed)
    all_bases = bases()
    space, good = [], []
    for b in all_bases:
        text = b.text(b.args, b.kwargs)
        good.append((b, None, "good", "plain"))
        good += [(b, None, "good", t) for t in TRANSFORMS if b.given]
        space += [(b, where, form) for where, forms in places(b) for form in forms]
        b.ready = text
    full = len(space) + len(good) <= count
    if not full:
        # A small run takes its share of both.
        keep = max(len(all_bases) // 2, count // 5)
        good = [good[i] for i in sorted(rng.permutation(len(good))[:keep])]
    left = count - len(good)
    drawn_plain = rng.permutation(len(space))[: left * 2 // 3]
    drawn_inside = rng.permutation(len(space))[: left - len(drawn_plain)]
    chosen = good + [(*space[i], "plain") for i in sorted(drawn_plain)]
    inside = rng.integers(0, len(TRANSFORMS), len(drawn_inside))
    chosen += [
        (*space[i], TRANSFORMS[t]) for i, t in sorted(zip(drawn_inside, inside, strict=True))
    ]
    found, seen = [], set()
    for b, where, form, transform in chosen:
        text = b.ready if form == "good" else changed(b, where, form)
        if text is None:
            continue
        s = plain(text, b.given) if transform == "plain" else transformed(transform, text, b.given)
        key = s and (s.text, tuple(id(v) for v in s.given.values()))
        if s is None or key in seen:
            continue
        seen.add(key)
        found.append(Contract(s, b, where, form, transform))
    # Calls of one function stand together: their kernels are compiled once.
    found.sort(key=lambda c: c.base.name)
    return found
