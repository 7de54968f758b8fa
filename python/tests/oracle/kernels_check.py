"""Bounds of what kernels may err, and results held against them.

A bound follows from the number of terms of a sum and from the sum of their magnitudes: sums are of
float32, and results are rounded to their dtype once. Nothing in it was fitted to what was seen.
"""

import numpy as np

#: Half of a unit in the last place, relative, of each dtype.
HALF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "complex64": 2.0**-24}
F32 = HALF["float32"]
DIGITS = {"float32": (23, -149), "float16": (10, -24), "bfloat16": (7, -133)}
TOP = {"float32": 3.4028234663852886e38, "float16": 65504.0, "bfloat16": 3.3895313892515355e38}
#: Numbers below the smallest normal one of float32 may be taken for zero.
TINY = 2.0**-126
#: Functions of float32 are good to four units in the last place.
FUNCTION = 8 * F32


def gamma(n):
    """Relative to the sum of magnitudes: what a float32 sum of `n` products may err, in any order,
    with eight more roundings before or after it."""
    return (n + 8) * F32


def half_ulp(x, dtype):
    """Half of the distance between neighbours of the dtype at magnitudes `x`."""
    digits, lowest = DIGITS["float32" if dtype == "complex64" else dtype]
    _, e = np.frexp(np.minimum(x, 1e300))
    return np.ldexp(0.5, np.maximum(e - 1 - digits, lowest))


class Want:
    """An exact result, and how far from it one may be before it is rounded to its dtype; further
    bounds are of kernels that round on the way (see `Case.rough`). An infinite one: anything will
    do, since float32 may overflow on the way."""

    def __init__(self, value, error=0.0, *rough):
        self.value, self.errors = value, (error, *rough)

    def bound(self, rough):
        return self.errors[min(int(rough), len(self.errors) - 1)]


class Ball:
    """Exact numbers, and how far computed ones may be from them where each step rounds to a dtype
    whose half unit is `half`; `before` the last step is rounded they are nearer."""

    def __init__(self, value, error, half, before=None):
        self.value, self.error, self.half = value, error, half
        self.before = error if before is None else before

    def _next(self, value, error):
        # Of float16 numbers below the smallest normal one are rounded to multiples of 2^-24.
        least = 2.0**-25 if self.half == HALF["float16"] else 0.0
        rounding = self.half * (np.abs(value) + error) + least
        return Ball(value, error + rounding, self.half, error)

    def _other(self, x):
        return x if isinstance(x, Ball) else Ball(np.asarray(x, np.float64), 0.0, self.half)

    def __add__(self, x):
        x = self._other(x)
        return self._next(self.value + x.value, self.error + x.error)

    def __mul__(self, x):
        x = self._other(x)
        error = np.abs(self.value) * x.error + np.abs(x.value) * self.error + self.error * x.error
        return self._next(self.value * x.value, error)

    def __sub__(self, x):
        x = self._other(x)
        return self._next(self.value - x.value, self.error + x.error)

    def __truediv__(self, x):
        x = self._other(x)
        y = self.value / x.value
        least = np.maximum(np.abs(x.value) - x.error, 1e-300)
        return self._next(y, (self.error + np.abs(y) * x.error) / least + 4 * F32 * np.abs(y))

    def total(self, axes, n):
        y = self.value.sum(axes, keepdims=True)
        error = self.error.sum(axes, keepdims=True)
        sums = np.abs(self.value).sum(axes, keepdims=True) + error
        # Of float16 a sum may be too large, whatever it is divided by.
        error = error + gamma(n) * sums
        error = np.where(sums < {HALF["float16"]: 65504}.get(self.half, np.inf), error, np.inf)
        return self._next(y, error)

    def product(self, w, magnitudes, off=0.0):
        """By rows of a matrix whose elements are sums of such magnitudes, and off by so much."""
        y = self.value @ w.T
        x = np.abs(self.value) + self.error
        error = self.error @ np.abs(w).T + gamma(w.shape[1]) * (x @ magnitudes.T)
        return self._next(y, error + (x @ off.T if np.ndim(off) else 0.0))

    def rms_norm(self, w, eps):
        """Rows divided by the root of their mean square, rounded once."""
        n = self.value.shape[-1]
        root = 1 / np.sqrt((self.value**2).mean(-1, keepdims=True) + eps)
        off = (2 * np.abs(self.value) * self.error + self.error**2).mean(-1, keepdims=True)
        share = off * root**2 + gamma(n) + 2 * FUNCTION
        y = self.value * root * w
        return self._next(y, np.abs(w) * root * self.error + np.abs(y) * share)

    def sqrt(self):
        y = np.sqrt(self.value)
        with np.errstate(all="ignore"):
            error = np.where(self.error < self.value, self.error / y, np.sqrt(self.error))
        return self._next(y, np.minimum(error, np.sqrt(self.error)) + FUNCTION * y)

    def log(self):
        y = np.log(self.value)
        error = self.error / np.maximum(self.value - self.error, 1e-300)
        return self._next(y, error + FUNCTION * np.abs(y))

    def exp(self):
        y = np.exp(self.value)
        return self._next(y, y * (np.expm1(self.error) + FUNCTION))

    def through(self, f, slope):
        """A function whose slope is at most `slope`, good to four units of float32."""
        y = f(self.value)
        return self._next(y, slope * self.error + FUNCTION * np.abs(y))

    def kept(self):
        return Want(self.value, self.before)


def settled(sums, error):
    """The error, without limit where sums of magnitudes come near the largest float32."""
    with np.errstate(invalid="ignore"):
        return np.where(sums < TOP["float32"] / 8, error, np.inf)


def subnormal(x):
    """Magnitudes that a device may take for zero."""
    a = np.abs(x)
    return np.where(a < TINY, a, 0.0)


def check(got, want, dtype, rough=0):
    """The largest share of the bound that is used, and what is wrong, or nothing."""
    value = np.asarray(want.value)
    if got.shape != value.shape:
        return 0.0, f"shape {got.shape} instead of {value.shape}"
    if dtype not in HALF:
        wrong = got != value
        return 0.0, told(got, value, None, wrong) if wrong.any() else None
    error = np.broadcast_to(np.asarray(want.bound(rough), np.float64), value.shape)
    if dtype == "complex64":
        parts = [check(f(got), Want(f(value), error), "float32") for f in (np.real, np.imag)]
        return max(p[0] for p in parts), parts[0][1] or parts[1][1]
    with np.errstate(all="ignore"):
        finite = np.isfinite(value)
        error = np.where(finite, np.where(np.isnan(error), np.inf, error), 0.0)
        off = np.abs(got - value)
        rounding = half_ulp(np.abs(value) + np.minimum(error, 1e300), dtype)
        rounding += TINY if dtype != "float16" else 0.0
        over = np.abs(value) + error >= TOP[dtype] * (1 + HALF[dtype] / 2)
        infinite = np.isinf(got) & ((np.sign(got) == np.sign(value)) | (error == np.inf))
        right = np.where(
            finite,
            (off <= error + rounding) | (over & infinite) | (error == np.inf),
            (got == value) | (np.isnan(got) & np.isnan(value)),
        )
        used = np.where(finite & (error > 0), np.maximum(off - rounding, 0) / error, 0.0)
    worst = float(np.nan_to_num(used, nan=0.0, posinf=0.0).max(initial=0.0))
    return worst, None if right.all() else told(got, value, error, ~right)


def told(got, want, error, wrong):
    """One of the wrong numbers in words."""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    limit = "" if error is None else f" within {error[at]:.3g}"
    return f"{int(wrong.sum())} of {wrong.size} wrong: {got[at]!r} at {at}, not {want[at]!r}{limit}"


def product(a, b, plain=np.matmul):
    """A product in float64, the sum of magnitudes, and what numbers taken for zero may change."""
    with np.errstate(all="ignore"):
        return plain(a, b), plain(np.abs(a), np.abs(b)), lost(a, b, plain)


def lost(a, b, plain=np.matmul):
    """What a product may miss where subnormal operands count as zero."""
    missing = 0.0
    for x, y in ((a, b), (b, a)):
        s = subnormal(x)
        if s.any():
            pair = (s, np.abs(y)) if x is a else (np.abs(y), s)
            missing = missing + plain(*pair)
    return missing
