"""Descriptions of memory: DLPack tensors and buffers of every form, made by hand. Those that tell
the truth must give the right elements, those that no memory can be like must be refused. Lies
about memory that could be there are not told: nobody can catch them."""

import ctypes
import math

import mlx.core as mx
import numpy as np

SIZE = 4096
MOST_ELEMENTS = 1 << 20
TYPES = {
    (0, 8): "i1",
    (0, 16): "i2",
    (0, 32): "i4",
    (0, 64): "i8",
    (1, 8): "u1",
    (1, 16): "u2",
    (1, 32): "u4",
    (1, 64): "u8",
    (2, 16): "f2",
    (2, 32): "f4",
    (2, 64): "f8",
    (5, 64): "c8",
    (6, 8): "?",
    (4, 16): "u2",
}
WIDE = [0, -1, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**63), -(2**31)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    pass


Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed))
Managed._fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", Deleter)]

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def layout(rng, itemsize, size):
    """Shape, strides in elements and offset in bytes, mostly within `size` bytes."""
    n = rng.choice([0, 1, 1, 2, 2, 3, 4, 64])
    small = [1] if n == 64 else [0, 1, 1, 2, 3, 4, 7]
    shape = [rng.choice(small) for _ in range(n)]
    strides = [rng.choice([-7, -2, -1, 0, 1, 1, 2, 3, 12]) for _ in range(n)]
    if rng.random() < 0.4:
        strides = [math.prod(shape[i + 1 :]) for i in range(n)]
    offset = rng.choice([0, 0, size // 2, size // 2 + 1, itemsize])
    lie = rng.random()
    if n and lie < 0.25:
        (shape if lie < 0.17 else strides)[rng.randrange(n)] = rng.choice(WIDE)
    if lie > 0.97:
        shape, strides = shape + [1] * 65, strides + [1] * 65
    return shape, strides, offset


def reach(shape, strides, itemsize, offset):
    """First and last byte."""
    steps = [(d - 1) * s for d, s in zip(shape, strides, strict=True)]
    low = offset + itemsize * sum(s for s in steps if s < 0)
    return low, offset + itemsize * (1 + sum(s for s in steps if s > 0))


def judged(shape, strides, itemsize, offset, size):
    """'true', 'impossible', or neither (None): it might be there."""
    if len(shape) > 64 or any(d < 0 or d >= 2**31 for d in shape):
        return "impossible"
    if math.prod(max(d, 1) for d in shape) * itemsize >= 2**63:
        return "impossible"
    if 0 in shape:
        return "true"
    low, high = reach(shape, strides, itemsize, offset)
    if low >= 0 and high <= size:
        # Elements that repeat may be more than the memory limit.
        return "true" if math.prod(shape) <= MOST_ELEMENTS else None
    return "impossible" if high - low > 2**63 else None


def strided(block, kind, shape, strides, offset):
    """What a description means, through NumPy; strides of axes of one do not count."""
    kind = np.dtype(kind)
    if 0 in shape:
        return np.zeros(shape, kind)
    steps = [s * kind.itemsize if d > 1 else 0 for s, d in zip(strides, shape, strict=True)]
    return np.lib.stride_tricks.as_strided(np.ndarray((), kind, block, offset), shape, steps)


def compare(a, want, Wrong):
    got = np.array(a.view(mx.uint16) if a.dtype == mx.bfloat16 else a)
    if got.shape != want.shape or got.tobytes() != np.ascontiguousarray(want).tobytes():
        raise Wrong(f"other elements: {want.dtype} {want.shape}")


def tensor(rng, Wrong):
    """One capsule by hand."""
    code, bits = rng.choice([*TYPES, (2, 32), (2, 32), (3, 64), (9, 7), (2, 0)])
    lanes = rng.choice([1] * 12 + [0, 2, 65535])
    itemsize = max(bits // 8, 1)
    block = np.frombuffer(bytearray(SIZE), np.uint8).copy()
    block[:] = np.frombuffer(rng.randbytes(SIZE), np.uint8) % (2 if code == 6 else 60)
    shape, strides, offset = layout(rng, itemsize, SIZE)
    implied = rng.random() < 0.2
    if implied:
        strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    verdict = judged(shape, strides, itemsize, offset, SIZE)
    ndim, device, data = len(shape), 1, block.ctypes.data
    odd = rng.random()
    if odd < 0.03:
        ndim = rng.choice([-1, 65, 2**31 - 1, -(2**31)])
    elif odd < 0.06:
        device = rng.choice([0, 2, 7, -1, 99])
    elif odd < 0.08:
        data = 0
    fine = (code, bits) in TYPES and lanes == 1 and (odd >= 0.08 or 0.06 <= odd and 0 in shape)
    if verdict is None and fine:
        return
    deleted = []
    delete = Deleter(lambda _: deleted.append(1))
    shapes = (ctypes.c_int64 * max(1, len(shape)))(*shape)
    steps = (ctypes.c_int64 * max(1, len(shape)))(
        *[max(-(2**63), min(s, 2**63 - 1)) for s in strides]
    )
    m = Managed(
        Tensor(
            data, device, 0, ndim, code, bits, lanes, shapes, None if implied else steps, offset
        ),
        0,
        delete,
    )
    capsule = new_capsule(ctypes.addressof(m), b"dltensor", None)
    try:
        try:
            a = mx.from_dlpack(capsule, copy=rng.choice([None, None, True]))
            mx.eval(a)
        except (ValueError, BufferError, RuntimeError, OverflowError, TypeError):
            if fine and verdict == "true":
                raise Wrong(f"refused: {shape} {strides} + {offset} of {code, bits}") from None
            raise
        if not fine or verdict == "impossible":
            raise Wrong(
                f"accepted: {shape} {strides} of {code, bits, lanes}, {ndim} axes at {data}"
            )
        want = strided(block, TYPES[code, bits], shape, strides, offset)
        compare(a, want.astype(np.float32) if bits == 64 and code == 2 else want, Wrong)
    finally:
        a = None
        # Arrays of streams let go of their inputs soon.
        mx.synchronize(mx.default_stream(mx.cpu))
        if len(deleted) != 1:
            raise Wrong(
                f"given back {len(deleted)} times: {shape} {strides} of {code, bits, lanes}"
            )


class View(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
        ("internal", ctypes.c_void_p),
    ]


class Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("function", ctypes.c_void_p)]


class Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(Slot)),
    ]


GetBuffer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(View), ctypes.c_int)
ReleaseBuffer = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.POINTER(View))
CURRENT = {}


@GetBuffer
def get_buffer(owner, view, flags):
    now = CURRENT["view"]
    ctypes.memmove(view, ctypes.byref(now), ctypes.sizeof(View))
    view.contents.obj = id(owner)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))
    CURRENT["held"] += 1
    return 0


@ReleaseBuffer
def release_buffer(owner, view):
    CURRENT["held"] -= 1


def exporter():
    """A class whose objects have the buffer in CURRENT."""
    slots = (Slot * 3)(
        Slot(1, ctypes.cast(get_buffer, ctypes.c_void_p)),
        Slot(2, ctypes.cast(release_buffer, ctypes.c_void_p)),
        Slot(0, None),
    )
    CURRENT["slots"] = slots
    spec = Spec(b"fuzz.Exporter", object.__basicsize__, 0, 0, slots)
    make = ctypes.pythonapi.PyType_FromSpec
    make.restype, make.argtypes = ctypes.py_object, [ctypes.POINTER(Spec)]
    CURRENT["spec"] = spec
    return make(ctypes.byref(spec))


FORMATS = {
    "b": "i1",
    "B": "u1",
    "h": "i2",
    "H": "u2",
    "i": "i4",
    "I": "u4",
    "q": "i8",
    "Q": "u8",
    "e": "f2",
    "f": "f4",
    "d": "f8",
    "Zf": "c8",
    "Zd": "c16",
    "?": "?",
    "<f": "f4",
    "=i": "i4",
}


def buffer(rng, Wrong):
    """One object with a buffer by hand."""
    if "class" not in CURRENT:
        CURRENT["class"] = exporter()
    known = rng.random() < 0.9
    form = (
        rng.choice([*FORMATS])
        if known
        else rng.choice([">f", "x", "", "T{f:a:}", "fff", "\xff", "O", "P", "g"])
    )
    itemsize = np.dtype(FORMATS[form]).itemsize if known else rng.choice([0, 1, 4, 8])
    if rng.random() < 0.05:
        known, itemsize = False, rng.choice([0, -1, 3, 2**31, 2**62])
    block = np.frombuffer(rng.randbytes(SIZE), np.uint8) % (2 if form == "?" else 60)
    shape, strides, offset = layout(rng, max(itemsize, 1), SIZE)
    implied = rng.random() < 0.3
    if implied:
        strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    verdict = judged(shape, strides, max(itemsize, 1), offset, SIZE)
    ndim = len(shape)
    if rng.random() < 0.03:
        ndim, known = rng.choice([-1, 65, 2**31 - 1]), False
    if verdict is None or (not known and verdict != "true"):
        return
    hold = lambda v: max(-(2**63), min(v, 2**63 - 1))  # noqa: E731
    shapes = (ctypes.c_ssize_t * max(1, len(shape)))(*[hold(d) for d in shape])
    steps = (ctypes.c_ssize_t * max(1, len(shape)))(*[hold(s * itemsize) for s in strides])
    size = hold(math.prod(max(d, 0) for d in shape) * itemsize)
    CURRENT["view"] = View(
        block.ctypes.data + offset,
        None,
        size,
        itemsize,
        1,
        ndim,
        form.encode("latin-1"),
        shapes,
        None if implied else steps,
        None,
        None,
    )
    CURRENT["held"] = 0
    owner = CURRENT["class"]()
    try:
        try:
            a = mx.array(owner)
        except (ValueError, BufferError, RuntimeError, OverflowError, TypeError):
            if known and verdict == "true":
                raise Wrong(f"refused: {form} {shape} {strides} + {offset}") from None
            raise
        if not known:
            # A format that is none, of the size of one that is.
            if ndim != len(shape) or itemsize <= 0:
                raise Wrong(f"accepted: {form!r} of {itemsize} bytes, {ndim} axes")
            return
        if verdict == "impossible":
            raise Wrong(f"accepted: {form} {shape} {strides}")
        want = strided(block, FORMATS[form], shape, strides, offset)
        narrow = {"f8": np.float32, "c16": np.complex64}.get(FORMATS[form])
        with np.errstate(over="ignore"):
            compare(a, want.astype(narrow) if narrow else want, Wrong)
    finally:
        if CURRENT["held"] != 0:
            raise Wrong(f"{CURRENT['held']} buffers are not given back: {form} {shape}")
