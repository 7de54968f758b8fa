"""The curve of BLS12-381 over its base field, y^2 = x^3 + 4: many points at once on the GPU."""

import mlx.core as mx

from .field import Field, Kernel, P

ORDER = int("73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001", 16)
GENERATOR = (
    int(
        "17f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac58"
        "6c55e83ff97a1aeffb3af00adb22c6bb",
        16,
    ),
    int(
        "08b3f481e3aaa0f1a09e30ed741d8ae4fcf5e095d5d00af600db18cb2c04b3ed"
        "d03cc744a2888ae40caa232946c5e7e1",
        16,
    ),
)

add = Kernel(
    "point_add",
    "ab",
    "STORE_POINT(result, i, point_add(LOAD_POINT(a, i_a), LOAD_POINT(b, i_b)))",
    files=("curve.glsl",),
    inner=(3,),
)
double = Kernel(
    "point_double",
    "a",
    "STORE_POINT(result, i, point_double(LOAD_POINT(a, i_a)))",
    files=("curve.glsl",),
    inner=(3,),
)


class Points:
    """n points, kept in Jacobian coordinates in Montgomery form; Z is 0 for infinity.

    >>> Points([GENERATOR, None]).double().tolist()[1] is None
    True
    """

    def __init__(self, points):
        """From affine points, pairs (x, y) of integers, or None for infinity.

        Raises ValueError for points that are not on the curve and coordinates not in [0, p).
        """
        points = list(points)
        for i, point in enumerate(points):
            if point is not None and (point[1] ** 2 - point[0] ** 3 - 4) % P:
                raise ValueError(f"point {i} is not on the curve")
        rows = [c for p in points for c in ((1, 1, 0) if p is None else (*p, 1))]
        self.array = Field(rows).limbs.reshape(len(points), 3, -1)

    @classmethod
    def trusted(cls, array):
        """Points that are known to be on the curve."""
        self = cls.__new__(cls)
        self.array = array
        return self

    def __add__(self, other):
        return Points.trusted(add(self.array, other.array))

    def double(self):
        return Points.trusted(double(self.array))

    def __neg__(self):
        x, y, z = (self.array[:, i] for i in range(3))
        return Points.trusted(mx.stack([x, (-Field.trusted(y)).limbs, z], axis=1))

    def __rmul__(self, k):
        """k times each point, for one integer k >= 0."""
        if k < 0:
            return -k * -self
        total, power = None, self
        while k:
            if k & 1:
                total = power if total is None else total + power
            power, k = power.double(), k >> 1
        return Points([None]) if total is None else total

    def tolist(self):
        """Affine points, None for infinity."""
        x, y, z = (Field.trusted(self.array[:, i]) for i in range(3))
        w = z.inverse()
        ww = w * w
        pairs = zip((x * ww).tolist(), (y * ww * w).tolist(), w.tolist(), strict=True)
        return [(a, b) if c else None for a, b, c in pairs]
