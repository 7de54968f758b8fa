"""Damage to bytes, the same for the same random numbers: bits, bytes, numbers of several widths,
runs that are cut, removed, repeated, moved or put in, digits of text, and pieces of another
file of the same kind."""

import struct

EXTREMES = [
    0,
    1,
    2,
    7,
    8,
    63,
    64,
    65,
    127,
    255,
    256,
    1000,
    2**15,
    2**16 - 1,
    2**24,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**40,
    2**53,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 8,
    2**64 - 1,
]
FORMS = ["<B", "<H", "<I", "<Q", ">I", ">Q"]


def place(b, rng):
    """Headers are worth more than what follows them, and so is the end (of archives)."""
    much = rng.random()
    if much < 0.45:
        return rng.randrange(min(len(b), 400))
    if much < 0.6:
        return max(0, len(b) - rng.randrange(1, 200))
    return rng.randrange(len(b))


def number(b, at, rng):
    form = rng.choice(FORMS)
    width = struct.calcsize(form)
    if rng.random() < 0.3 and at + width <= len(b):
        value = struct.unpack_from(form, b, at)[0] + rng.choice([-1, 1, 8, 64, 4096])
    else:
        value = rng.choice(EXTREMES)
    b[at : at + width] = struct.pack(form, value & (256**width - 1))


def digits(b, rng):
    found = [i for i, c in enumerate(b[:600]) if 48 <= c <= 57]
    if found:
        i = rng.choice(found)
        b[i : i + 1] = rng.choice([str(rng.choice(EXTREMES)), "-1", "1e9", "", "0" * 30]).encode()


def once(b, rng, other):
    at = place(b, rng)
    what = rng.randrange(11)
    if what == 0:
        b[at] ^= 1 << rng.randrange(8)
    elif what == 1:
        b[at] = rng.randrange(256)
    elif what in (2, 3, 4):
        number(b, at, rng)
    elif what == 5:
        del b[at:]
    elif what == 6:
        del b[at : at + rng.randrange(1, 40)]
    elif what == 7:
        b[at:at] = b[at : at + rng.randrange(1, 60)] * rng.choice([1, 1, 1, 50])
    elif what == 8:
        b[at:at] = rng.randbytes(rng.randrange(1, 20))
    elif what == 9:
        start = rng.randrange(len(other))
        piece = other[start : start + rng.randrange(1, 80)]
        b[at : at + (len(piece) if rng.random() < 0.7 else 0)] = piece
    else:
        digits(b, rng)


def damaged(raw, rng, other=b"\0"):
    """`raw` with one to four of these. `other` lends pieces."""
    b = bytearray(raw)
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 4])):
        if b:
            once(b, rng, other or b"\0")
    return bytes(b)


def words(raw, rng, first=5):
    """SPIR-V: words of 32 bits are changed, swapped, removed, repeated or moved."""
    n = len(raw) // 4
    w = list(struct.unpack(f"<{n}I", raw[: 4 * n]))
    for _ in range(rng.choice([1, 1, 1, 2, 3, 5])):
        if not w:
            break
        at = rng.randrange(len(w)) if rng.random() < 0.9 else rng.randrange(min(first, len(w)))
        what = rng.randrange(8)
        if what == 0:
            w[at] = rng.choice(EXTREMES) & 0xFFFFFFFF
        elif what == 1:
            w[at] = rng.choice(w)
        elif what == 2:
            w[at] ^= 1 << rng.randrange(32)
        elif what == 3:
            w[at] = rng.randrange(400) | (w[at] & 0xFFFF0000)
        elif what == 4:
            w[at] = (w[at] & 0xFFFF) | (rng.randrange(12) << 16)
        elif what == 5:
            del w[at : at + rng.randrange(1, 8)]
        elif what == 6:
            w[at:at] = w[at : at + rng.randrange(1, 8)]
        else:
            other = rng.randrange(len(w))
            w[at], w[other] = w[other], w[at]
    cut = b"" if rng.random() < 0.95 else rng.randbytes(rng.randrange(1, 4))
    return struct.pack(f"<{len(w)}I", *w) + cut
