"""GGUF as ggml defines it, in NumPy: a writer of files and the values of quantised blocks."""

import struct

import numpy as np

# type number -> (name, elements of a block, bytes of a block)
BLOCKS = {
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84),
    12: ("Q4_K", 256, 144),
    14: ("Q6_K", 256, 210),
    30: ("BF16", 1, 2),
}
SCALARS = {
    "uint8": (0, "<B"), "int8": (1, "<b"), "uint16": (2, "<H"), "int16": (3, "<h"),
    "uint32": (4, "<I"), "int32": (5, "<i"), "float32": (6, "<f"), "bool_": (7, "<?"),
    "uint64": (10, "<Q"), "int64": (11, "<q"), "float64": (12, "<d"),
}  # fmt: skip


def text(s):
    s = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(s)) + s


def value(kind, v):
    """A metadata value: kind is 'str', a name of SCALARS, or a list of one of them."""
    if isinstance(kind, list):
        body = b"".join(value(kind[0], x)[4:] for x in v)
        tag = 8 if kind[0] == "str" else SCALARS[kind[0]][0]
        return struct.pack("<IIQ", 9, tag, len(v)) + body
    if kind == "str":
        return struct.pack("<I", 8) + text(v)
    tag, form = SCALARS[kind]
    return struct.pack("<I", tag) + struct.pack(form, v)


def file(tensors, metadata=(), version=3, alignment=32):
    """tensors: (name, shape, type number, bytes); metadata: (key, kind, value)."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, kind, v in metadata:
        head += text(key) + value(kind, v)
    body = b""
    for name, shape, kind, data in tensors:
        head += text(name) + struct.pack("<I", len(shape))
        head += b"".join(struct.pack("<Q", d) for d in reversed(shape))
        head += struct.pack("<IQ", kind, len(body))
        body += data + bytes(-len(data) % alignment)
    return head + bytes(-len(head) % alignment) + body


def halves(b, at):
    return b[:, at : at + 2].copy().view(np.float16).astype(np.float32)[:, 0]


def numbers(name, b):
    """(n, block) unsigned quantised numbers of 4- and 8-bit blocks."""
    if name == "Q8_0":
        return b[:, 2:] ^ np.uint8(0x80)
    q = b[:, -16:]
    return np.concatenate([q & 15, q >> 4], axis=1)


def six_bits(b):
    """The eight (scale, offset) pairs in 12 bytes."""
    low, high = b[:, 0:4], b[:, 4:8]
    rest = b[:, 8:12]
    scale = np.concatenate([low & 63, (rest & 15) | ((low >> 6) << 4)], axis=1)
    offset = np.concatenate([high & 63, (rest >> 4) | ((high >> 6) << 4)], axis=1)
    return scale.astype(np.float32), offset.astype(np.float32)


def values(name, raw):
    """float32 values of the blocks in `raw` bytes, (n, block)."""
    size = next(s for n, _, s in BLOCKS.values() if n == name)
    b = np.frombuffer(raw, np.uint8).reshape(-1, size)
    if name == "BF16":
        return (b.copy().view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if name == "Q2_K":
        d, m = halves(b, 80), halves(b, 82)
        scale = (b[:, :16] & 15).astype(np.float32).repeat(16, axis=1)
        offset = (b[:, :16] >> 4).astype(np.float32).repeat(16, axis=1)
        two = b[:, 16:80].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None]
        q = (two & 3).reshape(-1, 256).astype(np.float32)
        return d[:, None] * scale * q - m[:, None] * offset
    if name == "Q4_K":
        d, m = halves(b, 0), halves(b, 2)
        scale, offset = six_bits(b[:, 4:16])
        q = b[:, 16:].reshape(-1, 4, 1, 32) >> np.array([0, 4], np.uint8)[:, None]
        q = (q & 15).reshape(-1, 256).astype(np.float32)
        return d[:, None] * scale.repeat(32, 1) * q - (m[:, None] * offset).repeat(32, 1)
    assert name == "Q6_K"
    low = b[:, :128].reshape(-1, 2, 1, 64) >> np.array([0, 4], np.uint8)[:, None]
    high = b[:, 128:192].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None]
    q = (low & 15).reshape(-1, 256) | ((high & 3).reshape(-1, 256) << 4)
    scale = b[:, 192:208].view(np.int8).astype(np.float32).repeat(16, axis=1)
    return halves(b, 208)[:, None] * scale * (q.astype(np.float32) - 32)


def random_blocks(name, n, rng):
    """Bytes of n blocks whose float16 factors are finite and of ordinary size."""
    size = next(s for k, _, s in BLOCKS.values() if k == name)
    b = rng.integers(0, 256, (n, size), dtype=np.uint8)
    places = {
        "Q4_0": [0],
        "Q4_1": [0, 2],
        "Q8_0": [0],
        "Q2_K": [80, 82],
        "Q4_K": [0, 2],
        "Q6_K": [208],
    }
    for at in places.get(name, []):
        b[:, at : at + 2] = rng.normal(size=(n, 1)).astype(np.float16).view(np.uint8)
    if name == "BF16":
        b = (rng.normal(size=(n, 1)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        b = b.view(np.uint8)
    return b.tobytes()
