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
    r"has no attribute|pop from empty|Cannot perform|contain member|Only length-1"
    r"|index out of range|unsupported operand|incompatible function"
    r"|not supported between|does not support item|object is not|indices must be|must be real"
    r"|cannot be interpreted|argument after|not iterable|invalid index to scalar|truth value of"
    r"|modulo by zero|division by zero|bad operand|0-dimensional|too many indices"
    r"|Invalid type|must be (a|an|str|int|iterable)|object cannot|not callable"
    r"|should contain only arrays|must be trees of arrays|expected (str|an?|a sequence)|literal for"
    r"|unhashable|could not convert|not all arguments|only length-1|can't multiply|can only"
    r"|takes? \d+ positional|^\W*\w+\W*$"
)
EMPTY = ("[]", "()", "{{}}", "''", "0", "False")
ON_CPU = "float64 and dense linear algebra live on the CPU, as in MLX"
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
    if device == "gpu" and any("supported on the GPU" in f.text for f in ours):
        return ON_CPU
    if device == "gpu" and case.base.name == "mx.default_device":
        return "official MLX for the CPU has no GPU"
    if theirs:
        return refused(case, got, ours, theirs[0])
    return told_otherwise(case, got, want, ours)


# Rules are rows: what the snippet, the transform or form, and the words of the errors match (None
# matches everything, "" for words means that there is no error), and the reason.

# The official implementation raises. Columns: snippet, form, ours, theirs.
REFUSED = (
    (None, None, "", ABSENT, "MLX lacks this derivative, batched, shapeless or exported form"),
    (r"linalg", None, "", r"calculate VJP", "linear algebra has derivatives here"),
    (r"divmod", None, "", r"moveaxis", "MLX's divmod has no batched form"),
    (None, None, None, r"without gpu backend", "official MLX for the CPU has no GPU"),
    (
        None,
        None,
        None,
        r"SmallVector|vector::|map::at|basic_string",
        "MLX tells of its C++ containers",
    ),
    (
        None,
        r"2\*\*",
        None,
        r"incompatible|OverflowError",
        "a number out of range is named by its value, or taken; MLX's binding refuses it",
    ),
    (
        None,
        None,
        None,
        r"has no attribute '__r\w+__'",
        "arrays reflect all operators here",
    ),
    (
        r"\.__\w+__\(",
        None,
        None,
        r"incompatible function",
        "an operator method called by its name says NotImplemented, as Python asks for",
    ),
    (
        None,
        None,
        r"IndexError.*out of bounds",
        None,
        "an index out of range is an IndexError; MLX reads outside or fails by chance",
    ),
    (None, r"^keyword$", None, r"incompatible", "an argument by position may be given by name"),
    (None, r"^None$", "", r"incompatible", "None stands for the default"),
    (
        None,
        r"np\.|^range",
        "",
        None,
        "NumPy's numbers and arrays are taken wherever numbers and arrays are",
    ),
    (
        None,
        None,
        r"Only length-1 arrays",
        r"incompatible",
        "an array as a number is told by its length",
    ),
    (
        r"\.(transpose|reshape)\(",
        None,
        r"as an integer|an index",
        None,
        "what stands behind a list of axes or lengths is refused; MLX ignores it",
    ),
    (
        None,
        r"^-?\d|^True|^False|mx\.array",
        r"ValueError",
        r"incompatible",
        "a number is a list of one",
    ),
    (
        None,
        r"^mx\.(array|zeros|ones)|\[|reshape|^\(|\.T$|^-?\d|T[ru]|good",
        r"ValueError|IndexError",
        r"ValueError|IndexError|RuntimeError",
        "of the rank and the axes of an argument that are both wrong, another is told first",
    ),
    (r"\btake\(", None, "", r"squeeze", "take accepts a negative index"),
    (r"linalg", None, None, r"must have type", "linear algebra takes integers as float32"),
    (r"linalg\.solve", None, "", r"take_along_axis", "solve broadcasts the axes of batches"),
    (r"distributed", None, "", None, "a factory is looked at by the backend that it is for"),
    (r"bernoulli\(b'", None, "", None, "bytes are a buffer, as NumPy's arrays are"),
    (
        None,
        r"^missing$",
        r".",
        r".",
        "where an argument is missing, the others are read in its place",
    ),
    (None, r"^(\[\]|\(\)|\{\{\}\}|'')$", r".", r".", "what is empty fails in both"),
    (
        r"grad\(",
        None,
        r".",
        r"at least one argument",
        "a tree without arrays fails in the function",
    ),
    (r"as_strided|Pool", None, None, r"AsStrided", "windows are taken of arrays of every layout"),
    (r"arange\(", None, "", r"incompatible", "arrays of one, and NumPy's numbers, are numbers"),
    (r"mx\.array\(", None, "", r"Invalid type ndarray", "arrays of NumPy stand in lists too"),
    (r"assigned\(", None, "", r"broadcast", "axes of one in front of an update are dropped"),
    (r"rope|RoPE", None, r"32 bits", None, "offsets are numbers of 32 bits"),
    (r"nn\.[a-z_]+\(", None, "", r"must be trees", "bytes are a buffer, as NumPy's arrays are"),
    (
        r"^(\w+\(lambda.*)?opt\.",
        None,
        r".",
        r"__new__",
        "a gradient is a tree; others fail in both",
    ),
    (
        None,
        r"np\.",
        r".",
        r"incompatible",
        "NumPy's numbers are taken, and fail for another reason",
    ),
    (None, r"^b'", "", None, "bytes are a buffer, as NumPy's arrays are"),
    (r"export_to_dot", None, r"Accepts", None, "what is no file is told as a wrong value"),
    (r"argnames=", None, r"Sequence", None, "names stand in a text, a list or a tuple"),
    (r"_along_axis", None, r"Runtime", r"Value", "of two wrong things another is told first"),
    (r"quantized_matmul", None, "", None, "MLX lacks a derivative of quantised products"),
    (r"tensordot", r"^None$", r".", None, "None stands for the default"),
    (r"^shapeless", None, r"cannot infer", None, "a shape that cannot follow raises first"),
)
# The official implementation gives a value. Columns: snippet, transform, ours, reason.
TOLD = (
    (
        None,
        None,
        r"IndexError.*out of bounds",
        "an index out of range is an IndexError; MLX reads outside or fails by chance",
    ),
    (r"as_strided|segmented_mm", None, r"outside|must match", "MLX reads outside of the array"),
    (r"linalg\.eig", None, r"UPLO", "only L and U name a triangle"),
    (r"Dropout", None, r"nan", "NaN is no probability"),
    (r"norm", None, r"Duplicate axes", "an axis stands once in a norm"),
    (
        r"\.(transpose|reshape)\(",
        None,
        r"as an integer|an index",
        "what stands behind a list of axes or lengths is refused; MLX ignores it",
    ),
    (r"stream=|mx\.\w+\((True|1|np|mx)", None, r"GPU|gpu", "official MLX for the CPU has no GPU"),
    (r"device_count|is_available", None, "", "backends of the machine"),
    (
        r"^(nn|mu|opt)\.",
        None,
        r"not callable|not iterable",
        "a wrong argument that MLX never reaches",
    ),
    (r"linalg", r"vmap", r"singular", "a singular matrix is an error inside vmap too"),
    (rf"linalg\.({'|'.join(SIGNS)})\b", None, "", "signs of vectors are left open"),
    (r"linalg\.cholesky", None, "", "what is not positive definite has no factor"),
    (r"partition", None, "", "the order inside the parts is left open"),
    (r"divmod", r"grad|jvp", "", "divmod has the derivative of its remainder; MLX gives zero"),
    (
        r"\.at\[|assigned|slice_update",
        r"vmap",
        "",
        "MLX's updates inside vmap change the first row only",
    ),
    (r"addmm|Muon", r"jvp", "", "MLX's jvp of addmm leaves out alpha and beta"),
    (r"mx\.(min|max)\(", r"grad|jvp", "", "where there is a NaN, the derivative is one too"),
    (r"mx\.full\(", r"grad", "", "MLX multiplies the gradient of full by its value"),
    (r"mx\.full\(", None, "", "full converts to the dtype that is asked for, as documented"),
    (r"mx\.array\(float", None, "", "infinities and NaN have no integer"),
    (r"assigned\(.*(\(\)|\.\.\.)", None, "", "an assignment keeps the dtype"),
    (r"value_and_grad", None, "", "further results of value_and_grad have derivatives too"),
    (
        r"conv",
        None,
        r"floating point",
        "MLX names real dtypes only, and takes complex ones by chance",
    ),
    (r"rope|RoPE|Sinusoidal", None, "", "angles beyond float32, and logarithms of negative bases"),
    (r"rope|RoPE", None, r"32 bits", "offsets are numbers of 32 bits"),
    (r"2\*\*", None, r"overflow", "a number that does not fit is refused; MLX wraps it"),
    (r"prefix=object", None, "", "addresses in texts"),
    (
        r"logical_or|PReLU|prelu",
        None,
        "",
        "MLX's compiled functions keep lengths they were traced with",
    ),
    (r"PReLU|prelu", None, r"broadcast", "MLX's compiled functions do not check lengths"),
    (r"nn\.softmax\(.*int32", None, "", "the softmax of integers is one of floats"),
    (r"losses.*complex", None, "", "losses of complex numbers"),
    (r"Upsample\(-", None, r"negative", "a negative scale is refused"),
    (r"nn\.\w+\(''\)|hard_tanh\(.*''", None, r"str", "a text is no array"),
    (r"init\.constant", None, "", "full converts to the dtype that is asked for, as documented"),
    (r"update_modules", None, r"invalid type", "modules are not written over what is none"),
    (r"opt\.\w+\([^)]*\)\.init", None, r"no attribute", "what is no tree of arrays has no state"),
    (r"shift__\(b", None, "", "a shift by more bits than there are"),
    (r"shift", r"vmap", "", "MLX loses the axis of the batch beside an array of NumPy"),
    (r"divide\(2j", None, "", "a complex update of real numbers"),
    (
        r"item\(|take|slice|Embedding",
        None,
        "",
        "an index array out of range is held inside; MLX reads outside",
    ),
    (None, r"shapeless", r"cannot infer", "a shape that cannot follow raises"),
    (r"argnames=", None, r"Sequence|Duplicate", "names stand once in a text, a list or a tuple"),
    (r"pad\(M, b'", None, r"pad_width", "bytes are no widths"),
    (r"vmap\(.*out_axes", None, "", "an array in two outputs has the axis of each; MLX uses one"),
    (r"opt\.Ada", r"grad", "", "derivatives of steps that are normalised cancel"),
    (r"primitives\(", None, "", "composed otherwise"),
    (r"label_smoothing=float", None, r"smoothing", "NaN is no share of the targets"),
)


def matches(pattern, text):
    """Whether the words of an error match; `""` stands for no error at all."""
    return pattern is None or (text == "" if pattern == "" else bool(re.search(pattern, text)))


def words(failed):
    return f"{failed[0].type} {failed[0].text}" if failed else ""


def refused(case, got, ours, theirs):
    """The official implementation raises."""
    text, mine, form = case.snippet.text, words(ours), case.form
    for snippet, shape, own, other, why in REFUSED:
        if (
            matches(snippet, text)
            and matches(shape, form)
            and matches(own, mine)
            and re.search(other or "", f"{theirs.type} {theirs.text}")
        ):
            return why
    python = case.base.name.startswith(PYTHON)
    if ours and (python or ours[0].type == "AttributeError") and INCIDENTAL.search(theirs.text):
        return "a wrong kind of argument fails in both, in other statements of Python code"
    if python and not ours and form in EMPTY:
        return "an empty option stands for the default"
    if ours and "eval" in theirs.type + ours[0].type and theirs.type[-9:] == ours[0].type[-9:]:
        return "an error is told at the call, or when the result is read"
    return None


def told_otherwise(case, got, want, ours):
    """The official implementation gives a value."""
    for snippet, transform, own, why in TOLD:
        if (
            matches(snippet, case.snippet.text)
            and matches(transform, case.transform)
            and matches(own, words(ours))
        ):
            return why
    if not ours and case.transform == "grad" and dtypes(got) != dtypes(want):
        return "a gradient has the dtype of its argument"
    if blank(want) and not blank(got):
        return "MLX gives NaN where the formula has a value"
    if re.search(r"(?i)softm(ax|in)", case.snippet.text) and ones(got):
        return "the softmax of one number is 1; some builds of MLX give the number"
    return None


def ones(v):
    """Whether all numbers are one, along an axis of length one."""
    found = arrays(v)
    return bool(found) and all((a.values == 1).all() and 1 in a.values.shape for a in found)


def dtypes(v):
    return [a.dtype for a in arrays(v)]
