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
    # A GPU has no float64; its sums of two float32 resolve 2^-45 of the operands.
    sharp = np.abs(want) > (2.0**-22 * np.minimum(np.abs(a), np.abs(b)) if h.on_gpu() else 0)
    assert sharp.any()
    x, y = mx.array(a.astype(np.float32)), mx.array(b.astype(np.float32))
    for got in (mx.logaddexp(x, y), mx.logaddexp(y, x)):
        error = h.ulp_error(np.array(got), want)
        assert error[sharp].max() <= 4, f"{error}"
    # Among many operands that do not cancel.
    wide = mx.array(np.tile(np.append(a, np.full(500, -3.0)), 20).astype(np.float32))
    other = mx.array(np.tile(np.append(b, np.full(500, 1.0)), 20).astype(np.float32))
    error = h.ulp_error(np.array(mx.logaddexp(wide, other)).reshape(20, -1)[:, : len(a)], want)
    assert error[:, sharp].max() <= 4
