"""Every function in the oracle's tables under every transform: vmap is a loop, compile changes
nothing, and derivatives are differences whose two forms are each other's transposes."""

import re

import helpers as h
import mlx.core as mx
import numpy as np
import registered

GPU_DTYPES = {"float32", "int32", "uint32"}
# Results of these depend on the random key alone: elements of a batch do not see different draws.
RANDOM = ("random.",)


def chosen(takes=1):
    every, dtypes = (7, GPU_DTYPES) if h.on_gpu() else (1, None)
    return registered.calls(takes=takes, every=every, dtypes=dtypes)


def variants(rng, values):
    """Arrays with the same elements in another order, so that indices stay valid."""
    return [np.roll(v, rng.integers(1, 9)).reshape(v.shape) if v.ndim else v for v in values]


def test_compile_equals_eager():
    count = 0
    for call, want in chosen(2):
        f = mx.compile(lambda *xs, c=call: c.f(*xs))
        mx.random.seed(3)
        try:
            got = f(*call.arrays)
        except ValueError as e:
            assert "not allowed" in str(e), f"{call}: {e}"
            continue
        registered.close(got, want, call.row, str(call))
        # Played again with other values.
        mx.random.seed(3)
        if not call.name.startswith(RANDOM):
            other = call.on(variants(np.random.default_rng(1), call.values))
            try:
                want = call.f(*other)
                mx.eval(want)
            except (ValueError, RuntimeError):
                continue
            registered.close(f(*other), want, call.row, f"{call} again")
        count += 1
    assert count > (30 if h.on_gpu() else 400)


def test_vmap_equals_a_loop():
    count, rng = 0, np.random.default_rng(2)
    for call, first in chosen():
        if call.name.startswith(RANDOM) or not call.values:
            continue
        batch = [call.values, variants(rng, call.values), variants(rng, call.values)]
        try:
            outs = [first] + [call.f(*call.on(v)) for v in batch[1:]]
            mx.eval(outs)
        except (ValueError, RuntimeError):
            continue
        ways = [[0] * len(call.values)]
        if len(call.values) > 1:
            some = [0 if i == count % len(call.values) else None for i in range(len(call.values))]
            ways.append(some)
        elif call.values[0].ndim:
            ways.append([1])
        for axes in ways:
            label = f"{call} over {axes}"
            given, loops = [], outs
            for k, axis in enumerate(axes):
                v = call.values[k] if axis is None else np.stack([b[k] for b in batch], axis)
                given.append(h.from_np(v, call.dtypes[k]))
            if None in axes:
                parts = [
                    [call.values[k] if a is None else b[k] for k, a in enumerate(axes)]
                    for b in batch
                ]
                try:
                    loops = [call.f(*call.on(p)) for p in parts]
                    mx.eval(loops)
                except (ValueError, RuntimeError):
                    continue
            f = mx.vmap(
                lambda *xs, c=call: c.f(*xs), in_axes=tuple(axes) if len(axes) > 1 else axes[0]
            )
            try:
                got = f(*given)
            except ValueError as e:
                assert "not allowed" in str(e), f"{label}: {e}"
                continue
            want = [mx.stack(list(o)) for o in zip(*loops, strict=True)]
            registered.close(got, want, call.row, label, 2.0)
        count += 1
    assert count > (25 if h.on_gpu() else 320)


FLOATS = {"float16", "bfloat16", "float32", "float64"}
# What has no derivative says so, as in MLX.
WITHOUT = re.compile(r"Not implemented for (svd|lu|qr|eig|view)\.")
# What derivatives are by definition rather than by limit.
DEFINED = {"stop_gradient", "quantize", "qqmm"}
# Only one triangle is read, and the derivative is that of a symmetric argument.
SYMMETRIC = {"linalg.cholesky", "linalg.eigvalsh", "linalg.eigh", "linalg.cholesky_inv"}


def real_parts(outs):
    """The floating point numbers in a result."""
    parts = []
    for o in outs:
        if o.dtype == mx.complex64:
            parts += [mx.real(o), mx.imag(o)]
        elif mx.issubdtype(o.dtype, mx.floating):
            parts.append(o)
    return parts


def differentiable(call):
    """The call as a function of its float arrays, in float64 where the function has that."""
    where = [i for i, d in enumerate(call.dtypes) if d in FLOATS]
    if not where or not all(np.isfinite(call.values[i]).all() for i in where):
        return None
    # Equal elements are told apart: where they meet, orders and extrema have no derivative.
    rng = np.random.default_rng(6)
    values = list(call.values)
    for i in where:
        values[i] = values[i] * (1 - 1e-3 * rng.random(values[i].shape))
    for wide in ["float64", "float32"] if not h.on_gpu() else ["float32"]:
        dtypes = [wide if d in FLOATS else d for d in call.dtypes]
        arrays = [h.from_np(v, d) for v, d in zip(values, dtypes, strict=True)]

        def g(*xs, arrays=arrays):
            full = list(arrays)
            for i, x in zip(where, xs, strict=True):
                full[i] = x
            mx.random.seed(3)
            return real_parts(call.f(*full))

        primals = [arrays[i] for i in where]
        try:
            outs = g(*primals)
            mx.eval(outs)
        except (ValueError, RuntimeError, TypeError):
            continue
        if outs and sum(p.size for p in primals) and sum(o.size for o in outs):
            return g, primals, outs, wide
    return None


def dot(a, b):
    """The inner product of two lists of arrays, in float64."""
    pairs = zip(a, b, strict=True)
    return sum(float(np.sum(h.to_np(x).astype(float) * h.to_np(y).astype(float))) for x, y in pairs)


def test_derivatives():
    """w . J v from the vjp, from the jvp and from differences."""
    count, checked, wrong, rng = 0, 0, [], np.random.default_rng(4)
    for call, _ in chosen(2):
        made = differentiable(call)
        if made is None:
            continue
        g, primals, outs, wide = made
        directions = [rng.uniform(-1, 1, p.shape) for p in primals]
        if call.name in SYMMETRIC:
            directions = [d + np.swapaxes(d, -1, -2) for d in directions]
        tangents = [h.from_np(d, wide) for d in directions]
        weights = [
            mx.array(rng.uniform(0.5, 1.5, o.shape)).astype(o.dtype, stream=mx.cpu) for o in outs
        ]
        if not all(np.isfinite(h.to_np(o)).all() for o in outs):
            continue
        try:
            pulled = mx.vjp(g, primals, weights)[1]
            pushed = mx.jvp(g, primals, tangents)[1]
        except ValueError as e:
            if "not allowed" not in str(e) and not WITHOUT.search(str(e)):
                wrong.append(f"{call}: {e}")
            continue
        for p, t in zip(pulled, primals, strict=True):
            assert p.shape == t.shape and p.dtype == t.dtype, str(call)
        left, right = dot(pulled, tangents), dot(weights, pushed)
        size = sum(np.abs(h.to_np(o)).sum() for o in pushed) + abs(left) + 1e-3
        single = wide == "float32" or any(o.dtype != mx.float64 for o in outs)
        half = any(o.dtype in (mx.float16, mx.bfloat16) for o in outs)
        limit = 3e-2 if half else 2e-4 if single else 1e-9
        if not abs(left - right) <= limit * size:
            wrong.append(f"{call}: vjp {left}, jvp {right}")
        count += 1
        step = 1e-2 if single else 1e-6

        def value(t, g=g, primals=primals, tangents=tangents, weights=weights):
            xs = [
                h.from_np(h.to_np(p) + t * h.to_np(v), wide)  # noqa: B023
                for p, v in zip(primals, tangents, strict=True)
            ]
            return dot(weights, g(*xs))

        high, middle, low = value(step), value(0.0), value(-step)
        slope, other = (
            (high - low) / (2 * step),
            (value(step / 3) - value(-step / 3)) / (step / 1.5),
        )
        limit = (0.03 if single else 1e-5) * size
        if not (abs(slope - other) <= limit and abs(high - 2 * middle + low) <= limit * step):
            continue  # a point without a derivative, or curved too much for this step
        if abs(slope - right) > limit and call.name not in DEFINED:
            wrong.append(f"{call}: {right}, differences say {slope}")
        checked += 1
    assert not wrong, "\n".join(wrong)
    assert count > (20 if h.on_gpu() else 200) and checked > count // 2
