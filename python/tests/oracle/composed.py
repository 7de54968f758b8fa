"""Random programs under random stacks of transforms, such as the gradient of a batch of a compiled
program.

A function takes a list of float32 arrays and returns a list of arrays, and so does every transform
of it. What is needed to run one knows `mlx.core` alone, so that both workers can.
"""

import numpy as np
from arguments import Draw
from programs import make
from wire import Case

TRANSFORMS = ("compile", "vmap", "grad", "value_and_grad", "vjp", "jvp", "checkpoint")
# Derivatives of these jump where values are equal, and what broadcasting repeats is equal.
JUMPS = ("max", "maximum", "minimum", "abs", "sign")


def composed(rng):
    """A program, its inputs, and the transforms around it, the innermost first."""
    d = Draw(rng)
    while True:
        case = make(rng, "gradient")
        steps, inputs = case.args
        if len(steps) <= 7 and not any(s[0] in JUMPS for s in steps):
            break
    for a in inputs:
        a.layout = "plain"
    stack, derivatives = [], 0
    for _ in range(d.integer(2, 4)):
        name = d.pick(TRANSFORMS)
        if name in ("grad", "value_and_grad", "vjp", "jvp"):
            derivatives += 1
            if derivatives > 2:
                continue
        if name != "vmap":
            stack.append((name, None))
            continue
        axes = [None if d.chance(0.3) else d.integer(0, min(a.values.ndim, 1)) for a in inputs]
        if all(axis is None for axis in axes) or any(a.values.size > 400 for a in inputs):
            continue
        for a, axis in zip(inputs, axes, strict=True):
            if axis is not None:
                a.values = np.stack([a.values, np.float32(0.5) * a.values - np.float32(0.1)], axis)
        stack.append((name, axes))
    return Case(
        "composed " + ".".join(name for name, _ in stack), [steps, inputs, stack], {}, "composed"
    )


def cases(seed, count):
    """(case, row) pairs as differential.py has them; programs belong to no row."""
    return [(composed(np.random.default_rng([seed, 3, i])), None) for i in range(count)]


def told_apart(arrays):
    """Results may be one array twice, whose cotangents the official one does not add up."""
    return [a * (1 + i / 4) for i, a in enumerate(arrays)]


def transformed(mx, f, name, axes):
    """The transform `name` of a function over lists of arrays, as such a function again."""

    def total(outs):
        return sum((mx.sum(mx.tanh(0.2 * o)) for o in outs), mx.array(0.0))

    if name == "compile":
        # The official one runs a C++ compiler for each function, and compiling changes no results.
        return mx.compile(f) if hasattr(mx, "vulkan") else f
    if name == "checkpoint":
        inner = mx.checkpoint(lambda *xs: f(list(xs)))
        return lambda xs: inner(*xs)
    if name == "vmap":
        return mx.vmap(f, in_axes=(axes,))
    if name == "grad":
        return lambda xs: told_apart(mx.grad(lambda xs: total(f(xs)))(xs))
    if name == "value_and_grad":
        both = mx.value_and_grad(lambda xs: total(f(xs)))

        def flat(xs):
            value, grads = both(xs)
            return [value, *told_apart(grads)]

        return flat
    # The number of results is not known beforehand: one call finds it.
    if name == "vjp":

        def pulled(xs):
            weights = [mx.sigmoid(o) for o in f(xs)]
            return told_apart(mx.vjp(lambda *ys: f(list(ys)), xs, weights)[1])

        return pulled
    return lambda xs: told_apart(mx.jvp(lambda *ys: f(list(ys)), xs, [mx.tanh(x) for x in xs])[1])


def run(mx, program, steps, inputs, stack):
    """Runs the case with a worker's `program`."""

    def f(xs):
        return told_apart(program(steps, xs))

    for name, axes in stack:
        f = transformed(mx, f, name, axes)
    return f(inputs)
