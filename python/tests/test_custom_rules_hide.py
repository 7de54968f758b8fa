"""A rule of custom_function stands for what the function does: no other rules are asked for."""

import mlx.core as mx
import numpy as np


def opaque(x):
    """An operation without a jvp or a vmap rule of its own that is used: both fail on purpose."""

    @mx.custom_function
    def f(v):
        return mx.sin(v)

    @f.vmap
    def f_vmap(v, axis):
        raise RuntimeError("asked for")

    @f.jvp
    def f_jvp(v, tangent):
        raise RuntimeError("asked for")

    return f(x)


def test_rules_of_what_a_rule_replaces_are_not_asked_for(rng):
    @mx.custom_function
    def f(x):
        return opaque(x) + 1, opaque(x * 2)

    f.jvp(lambda x, tangent: (5 * tangent, 7 * tangent))
    f.vmap(lambda x, axis: ((x + 3, x - 3), (axis, axis)))
    x = mx.array(rng.normal(size=(3, 4)).astype(np.float32))
    outs, tangents = mx.jvp(f, [x], [mx.ones_like(x)])
    np.testing.assert_allclose(np.array(outs[0]), np.sin(np.array(x)) + 1, rtol=1e-5)
    assert [t.tolist() for t in tangents] == [[[5.0] * 4] * 3, [[7.0] * 4] * 3]
    first, second = mx.vmap(f)(x)
    np.testing.assert_allclose(np.array(first - second), np.full((3, 4), 6), rtol=1e-6)
    # Only one of the outputs is used.
    np.testing.assert_allclose(np.array(mx.vmap(lambda v: f(v)[1] * 2)(x)), 2 * (np.array(x) - 3))
