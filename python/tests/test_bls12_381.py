"""The BLS12-381 example: field and curve against Python integers, and what it refuses."""

import doctest
import pathlib
import sys

import mlx.core as mx
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))

from bls12_381 import check, curve, field  # noqa: E402
from bls12_381.curve import GENERATOR, ORDER, Points  # noqa: E402
from bls12_381.field import Field, P  # noqa: E402

pytestmark = pytest.mark.gpu


def test_everything_equals_python_integers(rng):
    check.check(3000, rng)


def test_constants():
    assert P.bit_length() == 381 and pow(2, P - 1, P) == 1
    assert pow(2, ORDER - 1, ORDER) == 1
    assert (GENERATOR[1] ** 2 - GENERATOR[0] ** 3 - 4) % P == 0


@pytest.mark.parametrize("wide", [True, False], ids=["64-bit products", "32-bit products"])
@pytest.mark.parametrize("dtype", [np.uint64, np.uint32])
def test_ways_to_multiply_agree(wide, dtype, rng):
    a, b = (check.random_limbs(rng, 130, dtype) for _ in range(2))
    want = [
        x * y * pow(field.ONE, -1, P) % P
        for x, y in zip(field.from_limbs(a), field.from_limbs(b), strict=True)
    ]
    got = field.multiply(mx.array(a), mx.array(b), wide=wide, unrolled=False)
    assert field.from_limbs(np.array(got)) == want


def test_one_element_stands_for_many(rng):
    x = field.from_limbs(check.random_limbs(rng, 50))
    assert (Field([3]) - Field(x)).tolist() == [(3 - i) % P for i in x]
    assert (Field(x) * Field([3])).tolist() == [3 * i % P for i in x]


def test_multiples_of_points():
    p = Points([GENERATOR, None])
    assert (ORDER * p).tolist() == [None, None]
    assert ((ORDER - 1) * p).tolist() == (-p).tolist()
    assert (5 * p).tolist() == (p + p.double().double()).tolist()


@pytest.mark.parametrize("value", [P, P + 1, 2**381, 2**384 - 1])
def test_elements_that_are_not_below_p_are_refused(value):
    with pytest.raises(ValueError, match="element 1 "):
        Field([0, value])
    limbs = np.frombuffer(bytes(48) + value.to_bytes(48, "little"), np.uint64).reshape(2, 6)
    for x in (limbs, limbs.view(np.uint32), mx.array(limbs)):
        with pytest.raises(ValueError, match="element 1 is not below p"):
            Field(x)
    with pytest.raises(ValueError, match="not in"):
        Points([(GENERATOR[0] + P, GENERATOR[1])])


def test_other_bad_input():
    with pytest.raises(ValueError, match="not in"):
        Field([-1])
    with pytest.raises(ValueError, match="not on the curve"):
        Points([GENERATOR, (1, 2)])
    good = mx.zeros((3, 6), mx.uint64)
    for bad in (
        mx.zeros((3, 6), mx.uint32),
        mx.zeros((3, 5), mx.uint64),
        mx.zeros((18,), mx.uint64),
        mx.zeros((2, 6), mx.uint64),
        mx.zeros((0, 6), mx.uint64),
        mx.zeros((3, 6), mx.float32),
    ):
        with pytest.raises(ValueError, match="expected uint64"):
            field.multiply(good, bad)
        with pytest.raises(ValueError, match="expected uint64"):
            field.multiply(bad, good)
    with pytest.raises(ValueError, match="expected uint64"):
        field.multiply(mx.zeros((0, 6), mx.uint64), mx.zeros((0, 6), mx.uint64))


def test_examples_in_docstrings():
    for module in (field, curve):
        assert doctest.testmod(module).failed == 0
