"""Accuracy where the registry's random operands do not come: results that nearly cancel."""

import helpers as h
import mlx.core as mx
import numpy as np

# Pairs a, b with exp(a) + exp(b) next to 1, and log(exp(a) + exp(b)) from 60 digits.
CANCELLING = [
    (-0.5901399850845337, -0.8079963326454163, 8.633171428053317e-14),
    (-0.3154609799385071, -1.3073077201843262, 1.437269583953118e-13),
    (-1.6833207894251245e-07, -15.59732723236084, -2.0483289023714502e-19),
    (-0.03276074305176735, -3.4348599910736084, 9.453694767123066e-15),
    (-0.00043650896986946464, -7.73691987991333, -4.0939107574208815e-16),
    (-1.673230690357741e-05, -10.998177528381348, 3.3547438228584846e-18),
    (-0.6224329471588135, -0.7692450284957886, -6.181606457300062e-12),
    (-0.10967676341533661, -2.264554977416992, 1.1130065166921915e-12),
    (-0.5929750204086304, -0.8044824004173279, -5.9298255160654e-10),
    (-0.17414864897727966, -1.8336570262908936, 1.7413945718902408e-10),
    (-0.00025263926363550127, -8.283674240112305, -2.5254516412553976e-13),
    (-0.35823121666908264, -1.2003508806228638, 3.5823124857586103e-09),
    (-0.07492268830537796, -2.628525972366333, 7.492291103712692e-10),
    (-0.04245375096797943, -3.1804916858673096, 4.245489829350242e-09),
    (-1.4884886942803655e-13, -29.535844802856445, 1.4884742663815952e-20),
    (-0.011961491778492928, -4.432037830352783, -2.8348147362970678e-09),
    (-0.00018392200581729412, -8.601090431213379, 5.51763589745254e-11),
    (-2.2846976207802072e-05, -10.6867036819458, -1.0894138453991029e-11),
    (-4.41966502932596e-15, -33.052711486816406, 4.420095462989419e-21),
]


def test_logaddexp_near_zero():
    a, b, want = (np.array(c) for c in zip(*CANCELLING, strict=True))
    x, y = mx.array(a.astype(np.float32)), mx.array(b.astype(np.float32))
    for got in (mx.logaddexp(x, y), mx.logaddexp(y, x)):
        error = h.ulp_error(np.array(got), want)
        assert error.max() <= 4, f"{error}"
    # Among many operands that do not cancel.
    wide = mx.array(np.tile(np.append(a, np.full(500, -3.0)), 20).astype(np.float32))
    other = mx.array(np.tile(np.append(b, np.full(500, 1.0)), 20).astype(np.float32))
    error = h.ulp_error(np.array(mx.logaddexp(wide, other)).reshape(20, -1)[:, : len(a)], want)
    assert error.max() <= 4


def powers(low, high, n, rng):
    """Positive bases, and exponents whose powers cover the range of float32."""
    a = np.exp(rng.uniform(low, high, n)).astype(np.float32)
    a = np.where(a == 1, np.float32(1.5), a)
    b = (rng.uniform(-87, 88, n) / np.log(a.astype(np.float64))).astype(np.float32)
    return a, b


def exact_power(a, b):
    return np.power(a.astype(np.longdouble), np.asarray(b, np.float32).astype(np.longdouble))


def test_powers_of_fractions(rng):
    """Half an ULP on the host; the driver's arithmetic is good to 4."""
    limit = 4 if h.on_gpu() else 0.51
    x = rng.uniform(0, 10, 100_000).astype(np.float32)
    cases = [powers(-87, 88, 100_000, rng), powers(-0.3, 0.3, 100_000, rng)]
    cases += [(x, np.float32(e)) for e in (1 / 3, 0.5, 0.7, 1.5, 2.5, 3, -1, 10)]
    for a, b in cases:
        want = exact_power(a, b)
        normal = (want > 1.2e-38) & (want < 3.4e38)
        got = np.array(mx.power(mx.array(a), mx.array(b)))
        error = h.ulp_error(got[normal], want[normal].astype(np.float64))
        assert error.max() <= limit, (b, error.max())


def test_powers_that_are_floats_come_out_exactly():
    base = np.arange(1, 3000, dtype=np.float64)
    bases, exponents = [], []
    for twice in range(-40, 80):
        root = base if twice % 2 == 0 else base**2
        for scale in (1.0, 4.0, 0.25):
            a = root * scale
            a = a[(a < 2**24) & (a.astype(np.float32) == a)]
            with np.errstate(all="ignore"):
                y = np.power(a.astype(np.longdouble), np.longdouble(twice / 2))
                a = a[(y.astype(np.float32) == y) & (y > 1.2e-38) & (y < 3.4e38)]
            bases.append(a)
            exponents.append(np.full(a.size, twice / 2))
    a, b = (np.concatenate(v).astype(np.float32) for v in (bases, exponents))
    assert a.size > 20_000
    got = np.array(mx.power(mx.array(a), mx.array(b)))
    np.testing.assert_array_equal(got, exact_power(a, b).astype(np.float32))


def test_powers_of_special_numbers():
    inf, nan = np.inf, np.nan
    s = [0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, inf, -inf, nan, 3, -3, 3e38, 16777217.0]
    a, b = (np.ravel(v).astype(np.float32) for v in np.meshgrid(s, s))
    got = np.array(mx.power(mx.array(a), mx.array(b)))
    with np.errstate(all="ignore"):
        want = np.power(a.astype(np.float64), b.astype(np.float64))
    normal = ~((np.abs(want) < 1.2e-38) & (want != 0))
    assert h.ulp_error(got[normal], want[normal]).max() <= (4 if h.on_gpu() else 0.51)
    zero = want == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))
