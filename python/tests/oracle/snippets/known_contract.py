"""Differences of the contract (contract.py) that are wanted, each with its reason.

A rule sees the case and both results. A difference is wanted where official MLX crashes or is
plainly wrong, or where it is only stricter, which protects nobody.
"""

import re

import numpy as np
from wire import Boxed, Failed, Got

# What official MLX says of an operation that has no such form there.
ABSENT = re.compile(
    r"Not implemented for|[Nn]ot (yet )?(implemented|supported)|NYI|cannot infer output shapes"
    r"|Unable to (serialize|get state)|Cannot vmap|Vmap over|only supports|Can only handle"
)
# What Python code says that went on with an argument of a kind that it cannot use.
INCIDENTAL = re.compile(
    r"object has no attribute|index out of range|unsupported operand|incompatible function"
    r"|not supported between|does not support item|object is not|indices must be|must be real"
    r"|cannot be interpreted|argument after|not iterable|invalid index to scalar|truth value of"
    r"|too many indices|Invalid type|must be (a|an|str|int|iterable)|object cannot|not callable"
    r"|should contain only arrays|must be trees of arrays|expected (str|an?|a sequence)|literal for"
    r"|unhashable|could not convert|not all arguments|only length-1|can't multiply|can only"
    r"|takes? \d+ positional|^\W*\w+\W*$"
)
WIDE = re.compile(r"2\*\*")
NUMBER = re.compile(r"^-?\d+$|^(True|False)$|^np\.\w+\(|^mx\.array\([\w.]+\)$")
SHAPE = re.compile(r"^mx\.(array|zeros|ones)|\[|reshape|^\(|\.T$")
EMPTY = ("[]", "()", "{{}}", "''", "0", "False")
PYTHON = ("nn.", "opt.", "mu.")
SIGNS = ("eigh", "svd", "qr", "eig", "pinv")


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


def reason(case, got, want, device):
    """Why this case may differ, or None."""
    ours, theirs = failures(got), failures(want)
    if theirs:
        return refused(case, got, ours, theirs[0], device)
    return told_otherwise(case, got, want, ours)


def refused(case, got, ours, theirs, device):
    """The official implementation raises."""
    op, form, text = case.base.name, case.form, theirs.text
    python = op.startswith(PYTHON)
    if not ours and ABSENT.search(text):
        return "MLX lacks this derivative, batched, shapeless or exported form, or this layout"
    if not ours and "without gpu backend" in text:
        return "official MLX for the CPU has no GPU"
    if re.search(r"SmallVector|vector::|map::at|basic_string", text):
        return "MLX reports an error inside the C++ library"
    if WIDE.search(form) and theirs.type == "TypeError":
        return "a number out of range is named by its value, or taken; MLX's binding refuses it"
    if theirs.type == "AttributeError" and "'array' object has no attribute '__r" in text:
        return "arrays have all reflected operators here"
    if isinstance(got, Boxed) and got.kind == "NotImplementedType":
        return "an operator method that is called by name says NotImplemented, as Python asks for"
    if ours and ours[0].type == "IndexError" and "out of bounds" in ours[0].text:
        return "an index out of range is an IndexError; MLX reads outside or fails by chance"
    if not ours and "incompatible function arguments" in text:
        return taken(case)
    if ours and "incompatible function" in text and ours[0].type == "ValueError":
        if NUMBER.search(form):
            return "a number is taken for a list of one"
    if ours and {ours[0].type, theirs.type} <= {"ValueError", "IndexError"} and SHAPE.search(form):
        return "of the rank and the axes of an argument that are both wrong, another is told first"
    if not ours and form.startswith(("np.", "range")):
        return "NumPy's numbers and arrays are taken wherever numbers and arrays are"
    if python and ours and INCIDENTAL.search(text):
        return "a wrong kind of argument fails in both, in other statements of Python code"
    if ours and "eval" in theirs.type and theirs.type.endswith(ours[0].type):
        return "an error is told at the call; MLX tells it when the result is read"
    if not ours and op.endswith("take") and "squeeze" in text:
        return "take accepts a negative index"
    return None


def taken(case):
    """What this library takes and official MLX does not."""
    form = case.form
    if case.base.name.startswith(PYTHON) and form in EMPTY:
        return "an empty option stands for the default"
    if form.startswith("np."):
        return "NumPy's numbers and arrays are taken wherever numbers and arrays are"
    if form == "keyword":
        return "an argument by position may be given by name"
    if form == "None":
        return "None stands for the default"
    return None


def told_otherwise(case, got, want, ours):
    """The official implementation gives a value."""
    op, transform = case.base.name, case.transform
    text = case.snippet.text
    if ours:
        if ours[0].type == "IndexError" and "out of bounds" in ours[0].text:
            return "an index out of range is an IndexError; MLX reads outside or fails by chance"
        return None
    if re.search(rf"linalg\.({'|'.join(SIGNS)})\b", text):
        return "signs of vectors are left open"
    if "divmod" in op and transform in ("grad", "jvp"):
        return "divmod has the derivative of its remainder; MLX gives zero"
    if transform == "vmap" and ".at[" in text:
        return "an update inside vmap changes every row; MLX changes the first one"
    if blank(want) and not blank(got):
        return "MLX gives NaN where the formula has a value"
    return None
