"""Differences of programs (behaviour.py) that are wanted, each with its reason.

The rules of known_contract.py hold here too, where they depend on the results alone.
"""

import re

from known_contract import ABSENT, ON_CPU, blank, failures
from wire import Boxed

NO_ANSWER = "official MLX crashes, hangs or reports a failed C++ cast (std::bad_cast)"
OUTSIDE = "an index out of range is an IndexError; MLX reads outside or fails by chance"
WIDE = re.compile(r"2 ?\*\* ?\d+|\b\d{10,}\b")

# (the program has this, the reason), where official MLX gives a value.
VALUES = (
    (r"import threading", "arrays and streams of other threads may be used"),
    (r"is_available\(mx\.gpu\)|device_count\(mx\.gpu|device_info\(mx\.gpu", "a GPU is there"),
    (r"\bdir\(", "what a module imports, and a class names with _, is no part of the surface"),
    (r"divmod", "divmod has the derivative of its remainder; MLX gives zero"),
    (r"vmap\(.*(\.at\[|f)", "an update inside vmap changes every row; MLX changes the first one"),
    (r"jvp\(.*addmm", "MLX's jvp of addmm leaves out alpha and beta"),
    (r"vjp\(mx\.power,\[mx\.array\(\[1\+2j", "MLX's derivative of complex powers is wrong"),
    (r"linalg\.cholesky\(-", "what is not positive definite has no factor"),
    (r"\(x ?\* ?0\) ?\*\* ?0", "x ** 0 is constant, at 0 too"),
    (r"linalg\.(eigh|svd|qr|eig)", "signs of vectors, and vectors of NaN, are left open"),
    (
        r"primitives\(.*(inner|tensordot|unflatten|take|pad|count_nonzero|random|norm|cross|einsum"
        r"|gelu|dequantize|1:3)",
        "composed otherwise: no transpose that moves nothing, one reduction for two axes",
    ),
    (
        r"\(1, 2, 4, 64\).*primitives\(.*(prod|argmin|::2|at\[0\]|trace)",
        "an axis of length one is treated as any other",
    ),
    (r"export_to_dot\(s,o=f\(x\)\[1\]", "a fused node is drawn with the outputs that it has"),
    (r"getsize", "files have other headers"),
    (r"normal\(\(8,8\)", "products are summed in another order"),
    (r"jvp\(lambda x: ?mx\.(all|any|allclose)\(", "MLX differentiates the sums behind all and any"),
    (r"mx\.pad\(.*constant_values=mx\.array\(\[", "padding is one number; MLX takes the first"),
    (r"custom_function\(f\).*__doc__", "classes have documentation of their own"),
    (r"Embedding\(3,2\)\(mx\.array\(\[5", "MLX reads outside of the array"),
    (r"linalg\.inv\(.*(tolist|eval)", "a failed array raises whenever it is read"),
    (r"metal_kernel.*type\(k\)", "types of kernels bear their own names"),
    (r"True, False\]\) (\+|==) 2\*\*", "an int that int32 does not hold is refused; MLX wraps it"),
    (r"np\.complex128", "NumPy's complex128 is a complex number of Python, and stays one"),
    (r"np\.longdouble", "longdouble is no dtype of arrays; MLX makes it a complex number"),
    (r"softmax\(.*axis=\(-1, 0\)", "an axis that is named twice is refused"),
    (
        r"^shapeless\(.*zeros\(.*0",
        "lengths of zero are followed; MLX makes them one where it has no shapes",
    ),
    (r"take_along_axis\(mx\.zeros\(0\)", "nothing is not read; MLX reads outside of the array"),
    (r"nn\.BatchNorm\(4\)\(mx\.ones\(\(0", "an empty input leaves NaN in MLX's running statistics"),
    (r"grad\(.*put_along_axis", "what is written over has no derivative"),
    (r"vmap\(.*tri_inv", "MLX's tri_inv inside vmap forgets that matrices are triangular"),
    (r"slogdet", "the logarithm of a determinant does not overflow with it"),
)
# (what official MLX says, the reason), where it raises and this library gives a value.
ERRORS = (
    (
        r"negative strides|given type|Invalid type ndarray",
        "NumPy's arrays are taken in every layout",
    ),
    (r"without a copy", "a NumPy array needs no copy"),
    (r"squeeze\] Cannot squeeze axis \d with size 0", "take accepts a negative index"),
    (r"uncaptured inputs", "a form that is in the cache needs no second trace"),
    (r"without a primitive", "MLX loses the state of the model"),
    (r"arange\(\): incompatible", "NumPy's numbers, and arrays of one, are numbers"),
    (r"No CUDA back-end", "a foreign kernel is refused when it is called"),
    (r"broadcast_shapes|reshape", "a shapeless function follows lengths that MLX keeps"),
    (r"Cannot arg(max|min) reduce zero size", "where there are no results there is no derivative"),
    (r"\[scatter\] Updates .* are too large", "no update of nothing is too large"),
    (r"std::vector larger than max_size", "a number has one place, with axes kept or not"),
    (r"\[logsumexp\] Received empty array", "the logarithms of no shares are none"),
    (r"take_along_axis\] Indices of dimension", "equations without unknowns have a solution"),
    (r"^division by zero", "an empty picture has an empty one of another size"),
)


def follows(got):
    """Whether the program says that a shapeless function followed its inputs in all."""
    return isinstance(got, Boxed) and bool(got.items) and all(x is True for x in got.items)


def unnumbered(v):
    """An answer in words, streams without their numbers."""
    return re.sub(r"(Stream\(Device\(\w+, \d+\)), \d+", r"\1, _", repr(v))


def reason(program, got, want, device):
    """Why this program may differ, or None."""
    ours, theirs = failures(got), failures(want)
    if device == "gpu" and any("supported on the GPU" in f.text for f in ours):
        return ON_CPU
    if device == "gpu" and re.search(
        r"(?s)(float32\(p|1 ?/ ?3).*mx\.power|mx\.power.*(float32\(|1 ?/ ?3)", program
    ):
        return "powers on a GPU are within 4 units in the last place, not the nearest"
    if device == "gpu" and "Stream(" in repr(want) and unnumbered(got) == unnumbered(want):
        return "streams are numbered over all devices, in the order in which they appear"
    if follows(got):
        return "a shapeless function follows lengths that MLX keeps, refuses or cannot write"
    if ours and isinstance(want, Boxed) and False in want.items:
        return "a shape that cannot follow raises; MLX keeps the first one in silence"
    if theirs:
        return refused(program, ours, theirs[0])
    if ours and ours[0].type == "IndexError" and "out of bounds" in ours[0].text:
        return OUTSIDE
    for pattern, why in VALUES:
        if re.search(pattern, program, re.DOTALL):
            return why
    if blank(want) and not blank(got):
        return "MLX gives NaN where the formula has a value"
    return None


def refused(program, ours, theirs):
    """Official MLX raises."""
    if "gpu" in theirs.text:
        return "official MLX for the CPU has no GPU"
    if ABSENT.search(theirs.text):
        return "MLX lacks this derivative, batched, shapeless or exported form, or this layout"
    if not ours:
        if "linalg" in program and "calculate VJP" in theirs.text:
            return "linear algebra has derivatives here"
        return next((why for pattern, why in ERRORS if re.search(pattern, theirs.text)), None)
    if ours[0].type == "IndexError" and "out of bounds" in ours[0].text:
        return OUTSIDE
    if WIDE.search(program) and theirs.type == "TypeError":
        return "a number out of range is named by its value; MLX's binding refuses it"
    if "SmallVector" in theirs.text:
        return "MLX reads beyond a list of lengths before it checks them"
    if "Only length-1 arrays" in ours[0].text:
        return "an array as a number is told by its length"
    if ours[0].type == "BufferError":
        return "the error of the array's own library is passed on"
    if "eval" in theirs.type and theirs.type.endswith(ours[0].type):
        return "an error is told at the call; MLX tells it when the result is read"
    return None
