"""Differences of programs (behaviour.py) that are wanted, each with its reason.

The rules of known_contract.py hold here too, where they depend on the results alone.
"""

import re

from known_contract import ABSENT, blank, failures
from wire import Boxed

NO_ANSWER = "official MLX crashes, hangs or reports a failed C++ cast (std::bad_cast)"
WIDE = re.compile(r"2 ?\*\* ?\d+|\b\d{10,}\b")

# (the program has this, the reason), where official MLX gives a value.
VALUES = (
    (r"import threading", "arrays and streams of other threads may be used"),
    (r"is_available\(mx\.gpu\)|device_count\(mx\.gpu|device_info\(mx\.gpu", "a GPU is there"),
    (
        r"\bdir\(",
        "what a module imports, and a class names with _, is no part of the surface",
    ),
    (r"divmod", "divmod has the derivative of its remainder; MLX gives zero"),
    (r"vmap\(.*(\.at\[|f\))", "an update inside vmap changes every row; MLX changes the first one"),
    (r"jvp\(.*addmm", "MLX's jvp of addmm leaves out alpha and beta"),
    (
        r"vjp\(mx\.power,\[mx\.array\(\[1\+2j",
        "MLX's derivative of complex powers is not that of powers",
    ),
    (
        r"linalg\.cholesky\(-",
        "what is not positive definite has no factor; MLX returns what LAPACK left",
    ),
    (r"\(x ?\* ?0\) ?\*\* ?0", "x ** 0 is constant, at 0 too"),
    (r"linalg\.(eigh|svd|qr|eig)", "signs of vectors, and vectors of NaN, are left open"),
    (r"getsize", "files have other headers"),
    (r"normal\(\(8,8\)", "products are summed in another order"),
    (r"jvp\(lambda x: mx\.(all|any|allclose)\(", "MLX differentiates the sums behind all and any"),
)
# (what official MLX says, the reason), where it raises and this library gives a value.
ERRORS = (
    (r"gpu", "official MLX for the CPU has no GPU"),
    (
        r"negative strides|given type|Invalid type ndarray",
        "NumPy's arrays are taken in every layout",
    ),
    (r"squeeze\] Cannot squeeze axis \d with size 0", "take accepts a negative index"),
    (r"LUF|Cannot calculate VJP", None),
    (r"\[(broadcast_shapes|reshape|quantiz)", None),
)


def follows(got):
    """Whether the program says that a shapeless function followed its inputs in all."""
    return isinstance(got, Boxed) and bool(got.items) and all(x is True for x in got.items)


def reason(program, got, want, device):
    """Why this program may differ, or None."""
    ours, theirs = failures(got), failures(want)
    if follows(got):
        return "a shapeless function follows lengths that MLX keeps, refuses or cannot write"
    if theirs and not ours:
        if ABSENT.search(theirs[0].text):
            return "MLX lacks this derivative, batched, shapeless or exported form, or this layout"
        for pattern, why in ERRORS:
            if why and re.search(pattern, theirs[0].text):
                return why
    if ours and ours[0].type == "IndexError" and "out of bounds" in ours[0].text:
        return "an index out of range is an IndexError; MLX reads outside or fails by chance"
    if ours and theirs and WIDE.search(program) and theirs[0].type == "TypeError":
        return "a number out of range is named by its value; MLX's binding refuses it"
    if not theirs:
        for pattern, why in VALUES:
            if re.search(pattern, program):
                return why
    if not theirs and blank(want) and not blank(got):
        return "MLX gives NaN where the formula has a value"
    return None
