"""Differences of the contract (contract.py) that are wanted, each with its reason.

A rule sees the case and both results. A difference is wanted where official MLX crashes or is
plainly wrong, or where it is only stricter, which protects nobody.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from questions import (
    beyond,
    blank,
    cast,
    dtypes,
    endless,
    failures,
    filled,
    imaginary,
    neighbours,
    nothing,
    ones,
    permuted,
    reordered,
    shaped,
    turned,
    unread,
    wider,
)

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
    r"|takes? \d+ positional|<property object|index \d+ is out of bounds|unhashable|^\W*\w+\W*$"
)
EMPTY = ("[]", "()", "{{}}", "''", "0", "False")
ON_CPU = "float64 and dense linear algebra live on the CPU, as in MLX"
PYTHON = ("nn.", "opt.", "mu.")


def reason(case, got, want, device):
    """Why this case may differ, or None."""
    ours, theirs = failures(got), failures(want)
    if device == "gpu" and any("supported on the GPU" in f.text for f in ours):
        return ON_CPU
    if device == "gpu" and case.base.name == "mx.default_device":
        return "official MLX for the CPU has no GPU"
    return refused(case, got, want) if theirs else told_otherwise(case, got, want)


@dataclass(frozen=True)
class Rule:
    """A reason and what it asks for: a pattern found in the snippet, its form, its transform, the
    words of the errors (`""` stands for no error at all); a question about both results."""

    why: str
    text: str | None = None
    form: str | None = None
    transform: str | None = None
    ours: str | None = None
    theirs: str | re.Pattern | None = None
    when: Callable | None = None


# The official implementation raises.
REFUSED = (
    Rule("MLX lacks this derivative, batched, shapeless or exported form", ours="", theirs=ABSENT),
    Rule("linear algebra has derivatives here", text="linalg", ours="", theirs="calculate VJP"),
    Rule("MLX's divmod has no batched form", text="divmod", ours="", theirs="moveaxis"),
    Rule("official MLX for the CPU has no GPU", theirs="without gpu backend"),
    Rule("MLX cannot compile this kernel", ours="", theirs="Failed to compile function"),
    Rule("MLX tells of its C++ containers", theirs="SmallVector|vector|map::at|basic_string"),
    Rule(
        "a number out of range is named by its value, or taken; MLX's binding refuses it",
        form=r"2\*\*",
        theirs="incompatible|OverflowError|32-bit integers",
    ),
    Rule("arrays reflect all operators here", theirs=r"has no attribute '__r\w+__'"),
    Rule(
        "an operator method called by its name says NotImplemented, as Python asks for",
        text=r"\.__\w+__\(",
        theirs="incompatible function",
    ),
    Rule(
        "an index out of range is an IndexError; MLX reads outside or fails by chance",
        ours="IndexError.*out of bounds",
    ),
    Rule("an argument by position may be given by name", form="^keyword$", theirs="incompatible"),
    Rule("None stands for the default", form="^None$", ours="", theirs="incompatible"),
    Rule(
        "NumPy's numbers and arrays are taken wherever numbers and arrays are",
        form=r"np\.|^range",
        ours="",
    ),
    Rule(
        "an array as a number is told by its length",
        ours="Only length-1 arrays",
        theirs="incompatible",
    ),
    Rule(
        "an array of one integer or bool is a position",
        text=r"nn\.(GRU|ALiBi)",
        form=r"^mx\.array",
        ours="",
        theirs="Slice indices must be integers|Only 0-dimensional integer",
    ),
    Rule(
        "what stands behind a list of axes or lengths is refused; MLX ignores it",
        text=r"\.(transpose|reshape)\(",
        ours="as an integer|an? (scalar )?index",
    ),
    Rule(
        "a number is a list of one",
        form=r"^-?\d|^True|^False|mx\.array",
        ours="ValueError",
        theirs="incompatible",
    ),
    Rule(
        "of the rank and the axes of an argument that are both wrong, another is told first",
        form=r"^mx\.(array|zeros|ones)|\[|reshape|^\(|\.T$|^-?\d|T[ru]|good",
        ours="ValueError|IndexError",
        theirs="ValueError|IndexError|RuntimeError",
    ),
    Rule("take accepts a negative index", text=r"\btake\(", ours="", theirs="squeeze"),
    Rule("linear algebra takes integers as float32", text="linalg", theirs="must have type"),
    Rule(
        "solve broadcasts the axes of batches",
        text=r"linalg\.solve",
        ours="",
        theirs="take_along_axis",
    ),
    Rule("a factory is looked at by the backend that it is for", text="distributed", ours=""),
    Rule("bytes are a buffer, as NumPy's arrays are", text=r"bernoulli\(b'", ours=""),
    Rule(
        "where an argument is missing, the others are read in its place",
        form="^missing$",
        ours=".",
        theirs=".",
    ),
    Rule("what is empty fails in both", form=r"^(\[\]|\(\)|\{\{\}\}|'')$", ours=".", theirs="."),
    Rule(
        "what has no elements is computed; MLX refuses it",
        form=r"zeros|:0\]|^\[\]$",
        ours="",
        theirs="empty array|zero size|Cannot infer the shape|too large for array",
    ),
    Rule(
        "an axis may be an array of one or several numbers; MLX's compiled layers refuse them",
        text=r"nn\.\w*soft\w+\(.*axis=mx\.array",
        ours="",
        theirs="incompatible",
    ),
    Rule(
        "memory of NumPy is taken without a copy",
        text="copy=False",
        ours="",
        theirs="without a copy",
    ),
    Rule(
        "vectors of other ranks broadcast", text="vecdot", ours="", theirs="axis is out of bounds"
    ),
    Rule(
        "MLX loses the dtype of a cotangent on the way",
        text=r"mx\.(u?int|bool)",
        ours="",
        theirs="Type of cotangents",
    ),
    Rule(
        "MLX lacks this derivative",
        text="irfft|istft",
        transform="jvp",
        ours="",
        theirs="Invalid FFT output size|cannot be broadcast",
    ),
    Rule(
        "what has NaN in it has no numbers",
        text=r"linalg\.eig",
        ours="",
        theirs="decomposition failed",
    ),
    Rule(
        "a GPU has a fused kernel for this attention here",
        text="force_fused",
        ours="",
        theirs="no fused kernel",
    ),
    Rule(
        "lengths may stand in an array",
        text="broadcast_shapes",
        ours="",
        theirs="sequence of shapes",
    ),
    Rule(
        "functions take every number; MLX's compiled ones not all",
        form=r"j",
        ours="",
        theirs="must be trees of arrays or constants",
    ),
    Rule(
        "a number may be an array of one", text="causal_mask|ALiBi", ours="", theirs="incompatible"
    ),
    Rule(
        "a tree without arrays fails in the function",
        text=r"grad\(",
        ours=".",
        theirs="at least one argument",
    ),
    Rule("windows are taken of arrays of every layout", text="as_strided|Pool", theirs="AsStrided"),
    Rule(
        "arrays of one, and NumPy's numbers, are numbers",
        text=r"arange\(",
        ours="",
        theirs="incompatible",
    ),
    Rule(
        "arrays of NumPy stand in lists too",
        text=r"mx\.array\(",
        ours="",
        theirs="Invalid type ndarray",
    ),
    Rule(
        "axes of one in front of an update are dropped",
        text=r"assigned\(",
        ours="",
        theirs="broadcast",
    ),
    Rule("offsets are numbers of 32 bits", text="rope|RoPE", ours="32 bits"),
    Rule(
        "bytes are a buffer, as NumPy's arrays are",
        text=r"nn\.[a-z_]+\(",
        ours="",
        theirs="must be trees",
    ),
    Rule(
        "a gradient is a tree; others fail in both",
        text=r"^(\w+\(lambda.*)?opt\.",
        ours=".",
        theirs="__new__",
    ),
    Rule(
        "NumPy's numbers are taken, and fail for another reason",
        form=r"np\.",
        ours=".",
        theirs="incompatible",
    ),
    Rule("bytes are a buffer, as NumPy's arrays are", form="^b'", ours=""),
    Rule("what is no file is told as a wrong value", text="export_to_dot", ours="Accepts"),
    Rule(
        "of two wrong things another is told first",
        text="_along_axis",
        ours="Runtime",
        theirs="Value",
    ),
    Rule("MLX lacks a derivative of quantised products", text="quantized_matmul", ours=""),
    Rule("None stands for the default", text="tensordot", form="^None$", ours="."),
    Rule("a shape that cannot follow raises first", text="^shapeless", ours="cannot infer"),
    Rule("bytes are no widths", text=r"pad\(\w+, b'", ours="pad_width", theirs=ABSENT),
)
# The official implementation gives a value.
TOLD = (
    Rule(
        "an index out of range is an IndexError; MLX reads outside or fails by chance",
        ours="IndexError.*out of bounds",
    ),
    Rule(
        "MLX reads outside of the array", text="as_strided|segmented_mm", ours="outside|must match"
    ),
    Rule("only L and U name a triangle", text=r"linalg\.eig", ours="UPLO"),
    Rule("NaN is no probability", text="Dropout", ours="nan"),
    Rule("an axis stands once in a norm", text="norm", ours="Duplicate axes"),
    Rule(
        "what stands behind a list of axes or lengths is refused; MLX ignores it",
        text=r"\.(transpose|reshape)\(",
        ours="as an integer|an? (scalar )?index",
    ),
    Rule(
        "official MLX for the CPU has no GPU",
        text=r"stream=|mx\.\w+\((True|1|np|mx)",
        ours="GPU|gpu",
    ),
    Rule("backends of the machine", text="device_count|is_available", ours=""),
    Rule(
        "a wrong argument that MLX never reaches",
        text=r"^(nn|mu|opt)\.",
        ours="not callable|not iterable",
    ),
    Rule(
        "a singular matrix is an error inside vmap too",
        text="linalg",
        transform="vmap",
        ours="singular",
    ),
    Rule(
        "signs of vectors are left open", text=r"linalg\.(eigh|svd|qr|eig)\b", ours="", when=turned
    ),
    Rule("what is not positive definite has no factor", text=r"linalg\.cholesky", ours=""),
    Rule("the order inside the parts is left open", text="partition", ours="", when=reordered),
    Rule(
        "divmod has the derivative of its remainder; MLX gives zero",
        text="divmod",
        transform="grad|jvp",
        ours="",
    ),
    Rule(
        "MLX's updates inside vmap change the first row only",
        text=r"\.at\[|assigned|slice_update",
        transform="vmap",
        ours="",
    ),
    Rule(
        "MLX's jvp of addmm leaves out alpha and beta", text="addmm|Muon", transform="jvp", ours=""
    ),
    Rule(
        "where there is a NaN, the derivative is one too",
        text=r"mx\.(min|max)\(",
        transform="grad|jvp",
        ours="",
    ),
    Rule(
        "MLX multiplies the gradient of full by its value",
        text=r"mx\.full\(",
        transform="grad",
        ours="",
        when=shaped,
    ),
    Rule(
        "full converts to the dtype that is asked for, as documented",
        text=r"mx\.full\(",
        ours="",
        when=cast,
    ),
    Rule("infinities and NaN have no integer", text=r"mx\.array\(float", ours=""),
    Rule("an assignment keeps the dtype", text=r"assigned\(.*(\(\)|\.\.\.|None)", ours=""),
    Rule("further results of value_and_grad have derivatives too", text="value_and_grad", ours=""),
    Rule(
        "MLX names real dtypes only, and takes complex ones by chance",
        text="conv",
        ours="floating point",
    ),
    Rule(
        "angles beyond float32, and logarithms of negative bases",
        text="rope|RoPE|Sinusoidal",
        form=r"^-|^0$|2\*\*|float\(|^[15]$|array|np|^(True|False)$",
        ours="",
        when=shaped,
    ),
    Rule("offsets are numbers of 32 bits", text="rope|RoPE", ours="32 bits"),
    Rule("a number that does not fit is refused; MLX wraps it", text=r"2\*\*", ours="overflow"),
    Rule("addresses in texts", text=r"prefix=object|tree_flatten\(.*object\(\)", ours=""),
    Rule(
        "MLX's compiled functions keep lengths they were traced with",
        text="logical_or|PReLU|prelu",
        ours="",
    ),
    Rule("MLX's compiled functions do not check lengths", text="PReLU|prelu", ours="broadcast"),
    Rule(
        "the softmax of integers is one of floats", text=r"nn\.softmax\(.*mx\.(u?int|bool)", ours=""
    ),
    Rule("losses of complex numbers", text="losses", ours="", when=imaginary),
    Rule("a negative scale is refused", text=r"Upsample\(-", ours="negative"),
    Rule("a text is no array", text=r"nn\..*\(''[,)]|hard_tanh\(.*''", ours="str|sequence"),
    Rule(
        "full converts to the dtype that is asked for, as documented",
        text=r"init\.constant",
        ours="",
        when=cast,
    ),
    Rule("modules are not written over what is none", text="update_modules", ours="invalid type"),
    Rule(
        "what is no tree of arrays has no state",
        text=r"opt\.\w+\([^)]*\)\.init",
        ours="no attribute",
    ),
    Rule(
        "a shift by a negative number, or more bits than there are",
        text="shift",
        form=r"^-|^b'|2\*\*|shift|\{0\}|astype",
        ours="",
        when=shaped,
    ),
    Rule(
        "MLX loses the axis of the batch where the first of two integers has none",
        text=r"shift|bitwise_|__i?r?(xor|or|and)__",
        transform="vmap",
        ours="",
    ),
    Rule("a complex update of real numbers", text=r"divide\((2j|mx.array\(1j)", ours=""),
    Rule(
        "an index array out of range is held inside; MLX reads outside",
        text=r"item(__)?\(|take|slice|Embedding|nll_loss|cross_entropy",
        ours="",
        when=shaped,
    ),
    Rule(
        "the norm of integers is that of floats; MLX squares them in their own dtype",
        text=r"(linalg\.norm|cosine_similarity).*mx\.(u?int|bool)",
        ours="",
        when=shaped,
    ),
    Rule(
        "a derivative cut to an integer is the next one by rounding",
        text=r"mx\.(u?int|bool)",
        transform="grad",
        ours="",
        when=neighbours,
    ),
    Rule(
        "infinity is no integer to draw from",
        text=r"randint\(",
        form=r"^float\('(inf|nan)",
        transform="compiled",
        ours="",
        when=shaped,
    ),
    Rule(
        "an infinite derivative has no integer",
        text=r"mx\.pow(er)?\(\w+\.astype\(mx\.int32",
        transform="grad",
        ours="",
        when=beyond,
    ),
    Rule(
        "scales beyond half precision: there is no number, or an infinite one",
        text=r"round\(.*[3-9]\)",
        ours="",
        when=endless,
    ),
    Rule(
        "a gradient has the shape of its argument", text="conv_transpose", transform="grad", ours=""
    ),
    Rule(
        "what is no number has no integer",
        text=r"mx\.(std|var)\(.*mx\.(u?int|bool)",
        transform="grad",
        ours="",
        when=shaped,
    ),
    Rule(
        "numbers of NumPy without a sign have none here; MLX wraps them",
        text=r"opt\.",
        form=r"^np\.uint8",
        ours="",
        when=shaped,
    ),
    Rule("the softmax of integers is one of floats", text="softmax", ours="", when=wider),
    Rule("a text may be an array of one", form=r"^np\.array", ours="unhashable"),
    Rule(
        "MLX's batches go astray beside arrays of higher rank",
        transform="vmap",
        ours="",
        when=permuted,
    ),
    Rule("a negative number has no unsigned one", text=r"full(_like)?\(.*-", ours="", when=shaped),
    Rule(
        "a negative number has no unsigned one",
        text=r"cross\(.*mx\.uint",
        transform="grad|jvp",
        ours="",
        when=shaped,
    ),
    Rule(
        "differences of integers do not wrap in a log_softmax",
        text=r"[lL]og_?[sS]oftmax.*mx\.u?int",
        ours="",
        when=shaped,
    ),
    Rule(
        "where a position stands twice, what stays there has the derivative",
        text=r"put_along_axis\(.*\[\.\.\., :1\]",
        transform="grad",
        ours="",
        when=shaped,
    ),
    Rule("NaN has no scale", text=r"quantize\(.*float\('nan'\)", ours="", when=shaped),
    Rule(
        "an array is no axis of a compiled function; inside transforms MLX compiles nothing",
        text=r"nn\.\w*[sS]oft(max|min)\(.*axis=mx\.array",
        transform="grad|jvp",
        ours="Attempting to eval|must be int",
    ),
    Rule("no device has a negative number", text=r"mx\.Device\(", ours="OverflowError"),
    Rule(
        "a product that overflows: its factors are taken out in another order",
        text=r"prod\(",
        transform="grad|jvp",
        ours="",
        when=endless,
    ),
    Rule(
        "of a derivative cut to an integer, MLX cuts each share",
        text=r"Upsample.*mx\.(u?int|bool)",
        transform="grad",
        ours="",
        when=shaped,
    ),
    Rule(
        "a file without a name cannot be opened", text=r"export_to_dot\(''", ours="Failed to open"
    ),
    Rule("a text is no array", form="^''$", ours="and str$"),
    Rule(
        "MLX keeps an axis of one where a length is scaled to nothing",
        text=r"Upsample\(0",
        transform="shapeless",
        ours="",
    ),
    Rule(
        "derivatives go through numbers of NumPy",
        text=r"opt\.|nn\.",
        form=r"^np\.",
        transform="grad|jvp",
        ours="",
        when=shaped,
    ),
    Rule("a shape that cannot follow raises", transform="shapeless", ours="cannot infer"),
    Rule(
        "MLX takes the first of several constants",
        text=r"pad\(.*constant_values",
        ours="must be a scalar",
    ),
    Rule(
        "MLX reads lengths and steps outside of their lists, and offsets without their high bits",
        text="as_strided",
        ours="as many strides|OverflowError.*offset|outside",
    ),
    Rule(
        "MLX drops the imaginary part",
        text=r"(hadamard|block_masked).*(complex|1j)",
        ours="Only real|bool or real",
    ),
    Rule(
        "MLX reads an empty axis",
        text="take_along_axis|nll_loss|cross_entropy",
        ours="non-empty take from an empty axis",
    ),
    Rule(
        "MLX's shapeless functions keep an axis of one where there is nothing",
        transform="shapeless",
        ours="",
        when=nothing,
    ),
    Rule("a text is no list of axes", form="^b?'", ours="axis.*got (str|bytes)"),
    Rule("bytes are no widths", text=r"pad\(\w+, b'", ours="pad_width"),
    Rule(
        "an array in two outputs has the axis of each; MLX uses one",
        text=r"vmap\(.*out_axes",
        ours="",
    ),
    Rule(
        "derivatives of steps that are normalised cancel",
        text=r"opt\.(Ada|RMS)",
        transform="grad|jvp",
        ours="",
        when=shaped,
    ),
    Rule("composed otherwise", text=r"primitives\(", ours=""),
    Rule("NaN is no share of the targets", text="label_smoothing=float", ours="smoothing"),
    Rule("no axis has a negative length", text="broadcast_shapes", ours="Negative dimensions"),
    Rule(
        "a negative length has no samples; MLX counts it from the end of signals without centres",
        text=r"istft\(.*center=False, length=-",
        ours="",
        when=nothing,
    ),
    Rule(
        "what is not chosen has no share, whatever it is; MLX multiplies it by zero",
        text=r"mx\.where\(",
        transform="grad|jvp",
        ours="",
        when=filled,
    ),
    Rule(
        "a sign has no derivative; MLX multiplies zero by an infinite rate",
        text=r"opt\.Lion\(float\('inf'\)",
        transform="grad|jvp",
        ours="",
        when=filled,
    ),
    Rule(
        "an error is told at the call, though nobody reads the result",
        text="_along_axis",
        transform="grad|jvp",
        ours="must be integers",
        when=unread,
    ),
    Rule(
        "an index array out of range is held inside; MLX writes outside, over the shape too",
        text=r"assigned\(\[(\w+), \1\], I",
        ours="",
    ),
)


def matches(pattern, text):
    """Whether the words of an error match; `""` stands for no error at all."""
    return pattern is None or (text == "" if pattern == "" else bool(re.search(pattern, text)))


def words(failed):
    return f"{failed.type} {failed.text}" if failed else ""


def rule(rules, case, got, want):
    """The reason of the first rule that holds, or None."""
    mine, theirs = (words(next(iter(failures(v)), None)) for v in (got, want))
    for r in rules:
        if (
            matches(r.text, case.snippet.text)
            and matches(r.form, case.form)
            and matches(r.transform, case.transform)
            and matches(r.ours, mine)
            and matches(r.theirs, theirs)
            and (r.when is None or r.when(got, want))
        ):
            return r.why
    return None


def refused(case, got, want):
    """The official implementation raises."""
    found = rule(REFUSED, case, got, want)
    if found:
        return found
    ours, theirs = failures(got), failures(want)[0]
    python = case.base.name.startswith(PYTHON)
    if ours and (python or ours[0].type == "AttributeError") and INCIDENTAL.search(theirs.text):
        return "a wrong kind of argument fails in both, in other statements of Python code"
    if python and not ours and case.form in EMPTY:
        return "an empty option stands for the default"
    if ours and "eval" in theirs.type + ours[0].type and theirs.type[-9:] == ours[0].type[-9:]:
        return "an error is told at the call, or when the result is read"
    return None


def told_otherwise(case, got, want):
    """The official implementation gives a value."""
    found = rule(TOLD, case, got, want)
    if found:
        return found
    inside = case.transform == "grad" or "grad(" in case.snippet.text
    if inside and cast(got, want) and dtypes(got) != dtypes(want):
        return "a gradient has the dtype of its argument"
    if blank(want) and not blank(got):
        return "MLX gives NaN where the formula has a value"
    if re.search(r"(?i)softm(ax|in)", case.snippet.text) and ones(got):
        return "the softmax of one number is 1; some builds of MLX give the number"
    return None
