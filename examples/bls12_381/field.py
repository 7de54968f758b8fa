"""The base field of BLS12-381: integers modulo a prime of 381 bits, many at once on the GPU.

`Field` is the checked face: made from Python integers or arrays of limbs, which must be below the
prime, with the operators of numbers. Beneath it lie functions on arrays of limbs as they are in
memory: shape (n, 6) of uint64 or (n, 12) of uint32, least significant limb first. They trust their
arrays, take one element in place of n, and are lazy as all of MLX is. `multiply` expects Montgomery
form: x * 2^384 mod p in place of x.
"""

import functools
import pathlib

import mlx.core as mx
import numpy as np

P = int(
    "1a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf6730d2a0f6b0f624"
    "1eabfffeb153ffffb9feffffffffaaab",
    16,
)
BYTES = 48
ONE = 2**384 % P  # in Montgomery form
TO_MONTGOMERY = 2**768 % P  # what an element is multiplied by

WORDS = {mx.uint64: 6, mx.uint32: 12}
GROUP = 128  # threads of a workgroup
THREADS = GROUP * 65535  # of a launch: devices need not have more workgroups

FOLDER = pathlib.Path(__file__).parent / "kernels"


def constant(name, value):
    words = [f"0x{value >> 32 * i & 0xFFFFFFFF:08x}u" for i in range(12)]
    return f"const uint {name}[12] = uint[12]({', '.join(words)});\n"


def header(*files):
    text = constant("P", P) + constant("ONE", ONE) + constant("EXPONENT", P - 2)
    text += f"const uint INVERSE = 0x{pow(-P, -1, 2**32):08x}u;\n#line 1\n"
    return text + "".join((FOLDER / f).read_text() for f in files)


class Kernel:
    """A kernel whose body runs for each i below n.

    Arguments are arrays of shape (n, *inner, limbs), or with 1 in place of n; `i_a` is the element
    of argument `a`. The result has the same shape, or (n,) of bools where `test` is set. `unrolled`
    makes the code of a product fast and long.
    """

    def __init__(self, name, inputs, body, files=(), inner=(), test=False, unrolled=False):
        self.inner, self.test, self.unrolled = inner, test, unrolled
        lengths = [f"uint({x}_shape[0])" for x in inputs]
        length = lengths[0] if len(lengths) == 1 else f"max({', '.join(lengths)})"
        elements = "".join(f"uint i_{x} = {x}_shape[0] == 1 ? 0 : i;\n" for x in inputs)
        self.kernel = mx.fast.vulkan_kernel(
            name=f"bls12_381_{name}",
            input_names=list(inputs),
            output_names=["result"],
            header=header("field.glsl", *files),
            source=f"""
            uint n = {length};
            for (uint i = thread_position_in_grid.x; i < n; i += threads_per_grid.x) {{
                {elements}
                {body}
            }}
            """,
        )

    def __call__(self, *arrays, wide=True, unrolled=None, stream=None):
        dtype, n = arrays[0].dtype, max(x.shape[0] for x in arrays)
        row = (*self.inner, WORDS.get(dtype, 0))
        if any(x.dtype != dtype or x.shape not in ((n, *row), (1, *row)) for x in arrays) or n == 0:
            inner = "".join(f"{d}, " for d in self.inner)
            got = ", ".join(f"{x.dtype} {tuple(x.shape)}" for x in arrays)
            raise ValueError(
                f"expected uint64 (n, {inner}6) or uint32 (n, {inner}12), n > 0; got {got}"
            )
        unrolled = self.unrolled if unrolled is None else unrolled
        return self.kernel(
            inputs=list(arrays),
            output_shapes=[(n,) if self.test else (n, *row)],
            output_dtypes=[mx.bool_ if self.test else dtype],
            grid=(min(n, THREADS), 1, 1),
            threadgroup=(GROUP, 1, 1),
            template=[("WIDE", int(wide)), ("UNROLLED", int(unrolled)), ("LIMBS", row[-1])],
            stream=stream,
        )[0]


def binary(name, function):
    body = f"STORE(result, i, {function}(LOAD(a, i_a), LOAD(b, i_b)))"
    return Kernel(name, "ab", body, unrolled=True)


add = binary("add", "fp_add")
subtract = binary("subtract", "fp_sub")
multiply = binary("multiply", "fp_mul")
# a^(p - 2) by squaring: 1/a, and 0 for 0.
invert = Kernel(
    "invert",
    "a",
    """
    Fp x = LOAD(a, i_a), power = x;  // the highest of the 381 bits
    [[dont_unroll]] for (int bit = 379; bit >= 0; --bit) {
        power = fp_square(power);
        if ((EXPONENT[bit >> 5] >> (bit & 31) & 1u) != 0u) power = fp_mul(power, x);
    }
    STORE(result, i, power)
    """,
)
is_canonical = Kernel(
    "is_canonical", "a", "result[i] = uint8_t(fp_is_canonical(LOAD(a, i_a)));", test=True
)


def to_limbs(values, dtype=np.uint64):
    """Limbs of Python integers as a NumPy array of shape (n, 6) (uint64) or (n, 12) (uint32).

    Raises ValueError for a value that is negative or not below the prime.
    """
    values = list(values)
    for i, v in enumerate(values):
        if not 0 <= v < P:
            raise ValueError(f"element {i} is not in [0, p): {v:#x}")
    raw = b"".join(v.to_bytes(BYTES, "little") for v in values)
    return np.frombuffer(raw, np.dtype(dtype).newbyteorder("<")).reshape(len(values), -1)


def from_limbs(limbs):
    """Python integers of an array of limbs."""
    raw = np.ascontiguousarray(limbs).tobytes()
    return [int.from_bytes(raw[i : i + BYTES], "little") for i in range(0, len(raw), BYTES)]


@functools.cache
def number(value, dtype):
    """One element as an array of shape (1, limbs)."""
    return mx.array(to_limbs([value], np.uint64 if dtype == mx.uint64 else np.uint32))


def to_montgomery(limbs):
    return multiply(limbs, number(TO_MONTGOMERY, limbs.dtype))


def from_montgomery(limbs):
    return multiply(limbs, number(1, limbs.dtype))


class Field:
    """n elements of the field.

    >>> (Field([2, 3]) * Field([5]) - Field([1])).tolist()
    [9, 14]
    """

    def __init__(self, values):
        """From integers, or an array of limbs of the elements themselves (not in Montgomery form).

        Raises ValueError for elements that are not in [0, p), and arrays of other shapes or dtypes.
        """
        if isinstance(values, (np.ndarray, mx.array)):
            limbs = mx.array(values)
            ok = np.array(is_canonical(limbs))
            if not ok.all():
                raise ValueError(f"element {int(np.argmin(ok))} is not below p")
        else:
            limbs = mx.array(to_limbs(values))
        self.limbs = to_montgomery(limbs)

    @classmethod
    def trusted(cls, limbs):
        """Elements that are known to be below p and in Montgomery form."""
        self = cls.__new__(cls)
        self.limbs = limbs
        return self

    def __add__(self, other):
        return Field.trusted(add(self.limbs, other.limbs))

    def __sub__(self, other):
        return Field.trusted(subtract(self.limbs, other.limbs))

    def __mul__(self, other):
        return Field.trusted(multiply(self.limbs, other.limbs))

    def __neg__(self):
        return Field.trusted(subtract(number(0, self.limbs.dtype), self.limbs))

    def inverse(self):
        """1/x, and 0 for 0."""
        return Field.trusted(invert(self.limbs))

    def __len__(self):
        return self.limbs.shape[0]

    def numpy(self):
        """The elements as limbs in NumPy, of the dtype they were given in."""
        return np.array(from_montgomery(self.limbs))

    def tolist(self):
        """The elements as Python integers."""
        return from_limbs(self.numpy())
