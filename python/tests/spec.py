"""The elementwise functions of mlx.core: NumPy twin, dtype rule and test domain, in one table.

A rule names the result's dtype for each input dtype; None means that the function must refuse it:
  same      the input's            float    floats keep theirs, integers and bool become float32
  real      complex64 to float32   bool     bool, from any dtype
  int       integers and bool only shift    like int, but bool becomes uint8
"""

import dataclasses
from collections.abc import Callable

import helpers as h
import numpy as np
from scipy import special


@dataclasses.dataclass(frozen=True)
class Op:
    twin: Callable
    rule: str
    low: float = -8.0
    high: float = 8.0
    refuses: tuple = ()
    open: tuple = ()  # dtypes whose result nobody defines
    aliases: tuple = ()
    ulp: bool = False  # 4 ULP over the whole float32 range
    second: tuple | None = None  # the domain of the second operand

    def result(self, dtype):
        """The dtype of the result, or None where the dtype is refused."""
        if dtype in self.refuses:
            return None
        match self.rule:
            case "same":
                return dtype
            case "shift":
                return "uint8" if dtype == "bool_" else dtype if dtype in h.INTS else None
            case "int":
                return dtype if dtype in h.INTS + h.BOOL else None
            case "float":
                return "float32" if dtype in h.INTS + h.BOOL else dtype
            case "real":
                return "float32" if dtype == "complex64" else dtype
            case "bool":
                return "bool_"
        raise AssertionError(self.rule)


C = ("complex64",)


def _sigmoid(x):
    return special.expit(x)


def _sign(x):
    """Complex sign is z/|z|, as NumPy 2 has it; NaN stays NaN."""
    if np.iscomplexobj(x):
        a = np.abs(x)
        return np.where(a == 0, 0, x / np.where(a == 0, 1, a))
    return np.sign(x) if x.dtype != bool else x


def _integers_stay(f):
    """Rounding leaves integers and bool as they are."""
    return lambda x: x if x.dtype.kind in "biu" else f(x)


def _logaddexp(a, b):
    """NumPy's function knows no complex numbers."""
    if np.result_type(a, b).kind == "c":
        return np.log(np.exp(a) + np.exp(b))
    return np.logaddexp(a, b)


def _erfinv(x):
    return special.erfinv(x)


UNARY = {
    "abs": Op(np.abs, "real", ulp=True),
    "arccos": Op(np.arccos, "float", -0.9, 0.9, aliases=("acos",), ulp=True),
    "arccosh": Op(np.arccosh, "float", 1.1, 9, aliases=("acosh",), ulp=True),
    "arcsin": Op(np.arcsin, "float", -0.9, 0.9, aliases=("asin",), ulp=True),
    "arcsinh": Op(np.arcsinh, "float", aliases=("asinh",), ulp=True),
    "arctan": Op(np.arctan, "float", aliases=("atan",), ulp=True),
    "arctanh": Op(np.arctanh, "float", -0.9, 0.9, aliases=("atanh",), ulp=True),
    "ceil": Op(_integers_stay(np.ceil), "same", refuses=C, ulp=True),
    "conjugate": Op(np.conjugate, "same", aliases=("conj",)),
    "cos": Op(np.cos, "float", ulp=True),
    "cosh": Op(np.cosh, "float", ulp=True),
    "degrees": Op(lambda x: x * (180 / np.pi), "float", ulp=True),
    "erf": Op(special.erf, "float", -3, 3, refuses=C, ulp=True),
    "erfinv": Op(_erfinv, "float", -0.9, 0.9, refuses=C, ulp=True),
    "exp": Op(np.exp, "float", ulp=True),
    "expm1": Op(np.expm1, "float", refuses=C, ulp=True),
    "floor": Op(_integers_stay(np.floor), "same", refuses=C, ulp=True),
    "imag": Op(np.imag, "real"),
    "isfinite": Op(np.isfinite, "bool"),
    "isinf": Op(np.isinf, "bool"),
    "isnan": Op(np.isnan, "bool"),
    "isneginf": Op(lambda x: x == -np.inf, "bool"),
    "isposinf": Op(lambda x: x == np.inf, "bool"),
    "log": Op(np.log, "float", 0.1, 9, ulp=True),
    "log10": Op(np.log10, "float", 0.1, 9, ulp=True),
    "log1p": Op(np.log1p, "float", -0.9, 9, ulp=True),
    "log2": Op(np.log2, "float", 0.1, 9, ulp=True),
    "logical_not": Op(np.logical_not, "bool"),
    "bitwise_invert": Op(np.invert, "int"),
    "nan_to_num": Op(np.nan_to_num, "same", refuses=("complex64", "float64")),
    "negative": Op(np.negative, "same", refuses=("bool_",), ulp=True),
    "positive": Op(lambda x: x, "same"),
    "radians": Op(lambda x: x * (np.pi / 180), "float", ulp=True),
    "real": Op(np.real, "real"),
    "reciprocal": Op(lambda x: 1 / x, "float", 0.2, 9, ulp=True),
    "round": Op(_integers_stay(np.round), "same", ulp=True),
    "rsqrt": Op(lambda x: 1 / np.sqrt(x), "float", 0.1, 9, ulp=True),
    "sigmoid": Op(_sigmoid, "float", refuses=C, ulp=True),
    "sign": Op(_sign, "same"),
    "sin": Op(np.sin, "float", ulp=True),
    "sinh": Op(np.sinh, "float", ulp=True),
    "sqrt": Op(np.sqrt, "float", 0.1, 9, ulp=True),
    "square": Op(np.square, "same", ulp=True),
    "tan": Op(np.tan, "float", -1.2, 1.2, ulp=True),
    "tanh": Op(np.tanh, "float", ulp=True),
    "trunc": Op(_integers_stay(np.trunc), "same", refuses=C, ulp=True),
}

POSITIVE = (0.3, 4.0)
SHIFT = (0, 6)


def _power(a, b):
    return np.logical_or(a, ~b) if a.dtype == bool else np.power(a, b)


def _bool_as(f, g):
    """g where both operands are bool, else f."""
    return lambda a, b: g(a, b) if a.dtype == bool else f(a, b)


def _shift(f):
    return lambda a, b: f(a.astype(np.uint8), b.astype(np.uint8)) if a.dtype == bool else f(a, b)


BINARY = {
    "add": Op(np.add, "same", ulp=True),
    "arctan2": Op(np.arctan2, "float", 0.3, 5, refuses=C, aliases=("atan2",), ulp=True),
    "bitwise_and": Op(np.bitwise_and, "int"),
    "bitwise_or": Op(np.bitwise_or, "int"),
    "bitwise_xor": Op(np.bitwise_xor, "int"),
    "left_shift": Op(
        _shift(np.left_shift), "shift", 0, 60, aliases=("bitwise_left_shift",), second=SHIFT
    ),
    "right_shift": Op(
        _shift(np.right_shift), "shift", 0, 99, aliases=("bitwise_right_shift",), second=SHIFT
    ),
    "divide": Op(np.divide, "float", second=POSITIVE, ulp=True),
    "equal": Op(np.equal, "bool"),
    "floor_divide": Op(np.floor_divide, "same", 1, 40, open=("bool_", "complex64"), second=(1, 7)),
    "greater": Op(np.greater, "bool"),
    "greater_equal": Op(np.greater_equal, "bool"),
    "less": Op(np.less, "bool"),
    "less_equal": Op(np.less_equal, "bool"),
    "logaddexp": Op(_logaddexp, "float", ulp=True),
    "logical_and": Op(np.logical_and, "bool"),
    "logical_or": Op(np.logical_or, "bool"),
    "logical_xor": Op(np.logical_xor, "bool"),
    "maximum": Op(np.maximum, "same", ulp=True),
    "minimum": Op(np.minimum, "same", ulp=True),
    "multiply": Op(np.multiply, "same", ulp=True),
    "not_equal": Op(np.not_equal, "bool"),
    "power": Op(_power, "same", 0.3, 3, aliases=("pow",), second=(1, 4), ulp=True),
    "remainder": Op(
        np.remainder, "same", -40, 40, refuses=C, open=("bool_",), second=(1, 7), ulp=True
    ),
    "subtract": Op(_bool_as(np.subtract, np.logical_xor), "same", ulp=True),
}
