"""Every kernel against Python integers, on random inputs and all pairs of edge values."""

import numpy as np

from . import field
from .curve import GENERATOR, Points
from .field import Field, P, from_limbs

EDGES = [
    0,
    1,
    2,
    P - 2,
    P - 1,
    P // 2,
    P // 2 + 1,
    field.ONE,
    P - field.ONE,
    2**380,
    2**32 - 1,
    2**64,
]
TOP = P >> 320
PIECE = 100_000


def random_limbs(rng, n, dtype=np.uint64):
    """n elements below p as limbs; the few with the topmost limb of p are left out."""
    limbs = rng.integers(0, 2**64, (n, 6), np.uint64)
    limbs[:, 5] = rng.integers(0, TOP, n, np.uint64)
    return limbs.view(dtype)


def affine_sum(p, q):
    """p + q for affine points, None being infinity: the textbook's chord and tangent."""
    if p is None or q is None:
        return q if p is None else p
    if p[0] == q[0]:
        if (p[1] + q[1]) % P == 0:
            return None
        slope = 3 * p[0] ** 2 * pow(2 * p[1], -1, P)
    else:
        slope = (q[1] - p[1]) * pow(q[0] - p[0], -1, P)
    x = (slope * slope - p[0] - q[0]) % P
    return x, (slope * (p[0] - x) - p[1]) % P


def check_field(x, y, dtype=np.uint64):
    """Holds the operators to integer arithmetic; AssertionError where one differs."""
    a, b = Field(field.to_limbs(x, dtype)), Field(field.to_limbs(y, dtype))
    assert a.tolist() == x
    assert (a + b).tolist() == [(i + j) % P for i, j in zip(x, y, strict=True)]
    assert (a - b).tolist() == [(i - j) % P for i, j in zip(x, y, strict=True)]
    assert (a * b).tolist() == [i * j % P for i, j in zip(x, y, strict=True)]
    assert (-a).tolist() == [-i % P for i in x]
    assert [i * j % P for i, j in zip(a.inverse().tolist(), x, strict=True)] == [
        int(i > 0) for i in x
    ]


def check_points(i, j, multiples):
    """Holds sums and doubles of multiples i and j of a point to a table of all its multiples."""
    # Z is 1 in what comes from integers: add and take away a point to have others.
    other = Points([multiples[1]])
    p, q = (Points([multiples[k] for k in ks]) + other + -other for ks in (i, j))
    assert (p + q).tolist() == [multiples[a + b] for a, b in zip(i, j, strict=True)]
    assert (p + -p).tolist() == [None] * len(i)
    assert p.double().tolist() == [multiples[2 * a] for a in i]


def check(n, rng, say=lambda text: None):
    """n random pairs of elements and n / 10 of points, and the edge values."""
    check_field([x for x in EDGES for _ in EDGES], EDGES * len(EDGES))
    check_field([x for x in EDGES for _ in EDGES], EDGES * len(EDGES), np.uint32)
    for start in range(0, n, PIECE):
        m = min(PIECE, n - start)
        check_field(from_limbs(random_limbs(rng, m)), from_limbs(random_limbs(rng, m)))
        say(f"{start + m} pairs of elements are right")
    multiples = [None]
    for _ in range(2 * 256):
        multiples.append(affine_sum(multiples[-1], GENERATOR))
    every = range(32)
    check_points([i for i in every for _ in every], [j for _ in every for j in every], multiples)
    points = max(1, n // 10)
    for start in range(0, points, PIECE):
        i, j = rng.integers(0, 257, (2, min(PIECE, points - start))).tolist()
        check_points(i, j, multiples)
    say(f"{points} pairs of points are right")
