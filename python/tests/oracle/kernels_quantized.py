"""Cases of products with quantised matrices: every mode, width and group, either way round."""

import re

import mlx.core as mx
import numpy as np
from kernels_check import F32, HALF, Want, gamma, settled
from kernels_draw import FLOATS, Case, In, held, wide
from kernels_products import experts_shape, picked, picks, shown, swap

MODES = [("affine", bits, group) for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64, 128)]
COMMON = [("affine", 4, 64), ("affine", 4, 32), ("affine", 4, 128), ("affine", 8, 64)]
SMALL = [("mxfp4", 4, 32), ("mxfp8", 8, 32), ("nvfp4", 4, 16)]
#: Kernels that make elements of x's dtype of codes, scales and biases before they multiply, as
#: dequantisation does: the product and the sum are rounded one by one.
ROUNDING = re.compile("qmm_tiled|dequantize|warpgroup|qmm_wide|qmm_cols.*_v[4-8]")


def rounds(names):
    return any(ROUNDING.search(n) for n in names)


class Codes:
    """A random matrix of codes, of its lengths before it is packed, and its exact numbers."""

    def __init__(self, d, shape, mode, dtype, kind):
        self.mode, self.bits, self.group = mode
        rng = d.rng
        words = shape[-1] * self.bits // 32
        groups = (*shape[:-1], shape[-1] // self.group)
        codes = rng.integers(0, 1 << 32, (*shape[:-1], words), np.uint32)
        self.inputs = [In(codes, "uint32")]
        if self.mode == "affine":
            self.affine(d, groups, dtype, kind)
        elif self.mode == "nvfp4":
            self.inputs.append(In(rng.integers(40, 72, groups).astype(np.uint8), "uint8"))
        else:
            if self.mode == "mxfp8":  # no codes that are no numbers
                octets = codes.view(np.uint8)
                octets[(octets & 127) == 127] = 1
            self.inputs.append(In(rng.integers(121, 131, groups).astype(np.uint8), "uint8"))

    def affine(self, d, groups, dtype, kind):
        if kind == "whole":
            scales = np.ldexp(1.0, d.rng.integers(0, 2, groups).astype(np.int32))
            biases = -scales * 2 ** (self.bits - 1)
        else:
            scales = d.rng.uniform(0.25, 1, groups) * (2.0**-7 if kind == "small" else 1.0)
            scales = scales * d.pick(1, 1, 2.0**-6) if kind != "small" else scales
            scales = scales * d.rng.choice([-1, 1], groups)
            biases = d.rng.standard_normal(groups) * scales * 2 ** (self.bits - 1)
            if kind == "special":  # nothing cancels: infinity times zero would be no number
                biases = np.copysign(np.maximum(np.abs(biases), 2.0**-8), scales)
        form = ("plain",) if d.chance(0.8) else ("cut", 0, 8)
        self.inputs += [In(held(v, dtype), dtype, form) for v in (scales, biases)]

    def exact(self, codes, scales, biases=None):
        """Numbers, magnitudes of scaled codes, and those with biases."""
        group, bits = self.group, self.bits
        with mx.stream(mx.cpu):
            c = mx.array(codes)
            if self.mode != "affine":
                w = np.array(
                    mx.dequantize(
                        c, mx.array(scales), None, group, bits, self.mode, dtype=mx.float32
                    )
                ).astype(np.float64)
                return w, np.zeros_like(w), np.abs(w)
            ones = mx.ones(scales.shape)
            c = np.array(mx.dequantize(c, ones, mx.zeros(scales.shape), group, bits))
        scales, biases = (np.repeat(wide(v), group, -1) for v in (scales, biases))
        w = c * scales
        return w + biases, np.abs(w), np.abs(w) + np.abs(biases)

    def call(self, arrays):
        """Arguments of this library's functions."""
        codes, scales, *biases = arrays
        options = {"group_size": self.group, "bits": self.bits, "mode": self.mode}
        return (codes, scales, biases[0] if biases else None), options


def mode_of(d):
    some = d.rng.random()
    if some < 0.45:
        return d.pick(*COMMON)
    return d.pick(*SMALL) if some < 0.65 else d.pick(*MODES)


def error_of(x, codes, dtype, whole, multiply):
    """The exact product, and bounds of kernels that multiply codes and of those that round."""
    w, scaled, magnitudes = codes
    off = HALF[dtype] * scaled
    k = x.shape[-1]
    with np.errstate(all="ignore"):
        exact = multiply(x, w)
        if whole:
            return Want(exact, 0.0)
        sums = multiply(np.abs(x), magnitudes)
        error = settled(sums, gamma(k) * sums + k * 2.0**-126)
        # Twice rounded: the scaled code and its sum with the bias, of what the first came to.
        made = HALF[dtype] * multiply(np.abs(x), scaled + (1 + HALF[dtype]) * np.abs(w) + off)
        return Want(exact, error, error + made + 2 * F32 * sums)


def kind_of(d):
    return d.pick("normal", "normal", "normal", "positive", "scaled", "whole", "special")


def quantized(d):
    """quantized_matmul."""
    dtype = d.pick("bfloat16", "bfloat16", "bfloat16", "float16", "float16", "float32")
    mode = mode_of(d)
    turned = d.chance(0.75)
    some = d.rng.random()
    m = 1 if some < 0.25 else d.int(2, 64) if some < 0.85 else d.int(65, 600)
    m = min(m, d.longest)
    groups = d.int(1, 8) if d.chance(0.3) else d.int(1, 4096 // mode[2])
    n = d.length(1000) if d.chance(0.5) else 64 * d.int(1, 64)
    unit = max(32, mode[2])
    if turned:
        k = groups * unit
    else:
        k, n = d.length(1000), groups * unit
    while m * n * k > d.work and max(n, k) > unit:
        if n >= k:
            n = max(unit, n // 2 // unit * unit) if not turned else max(1, n // 2)
        else:
            k = max(unit, k // 2 // unit * unit) if turned else max(1, k // 2)
    m = d.bounded([m], max(1, d.work // (n * k)))[0]
    kind = kind_of(d)
    whole = kind == "whole" and mode[0] == "affine"
    lead = (d.int(2, 3),) if d.chance(0.1) and m * n * k < d.work // 4 else ()
    x = d.array((*lead, m, k), dtype, kind, axis=-2)
    codes = Codes(d, (n, k) if turned else (k, n), mode, dtype, kind)

    def run(x, *arrays):
        args, options = codes.call(arrays)
        return [mx.quantized_matmul(x, *args, transpose=turned, **options)]

    def want(x, *arrays):
        made = [swap(v) if turned else v for v in codes.exact(*arrays)]
        return [error_of(wide(x), made, dtype, whole, np.matmul)]

    text = f"{mode[0]} {mode[1]} bits, groups of {mode[2]}, {'turned' * turned} {n} {kind}"
    return Case([x, *codes.inputs], run, want, f"{text} {shown(x)}", rough=rounds)


def gather_qmm(d):
    """Rows that pick matrices of codes."""
    dtype = d.pick(*FLOATS, "bfloat16")
    mode = mode_of(d)
    experts, tokens, each, rows = experts_shape(d)
    unit = max(32, mode[2])
    turned = d.chance(0.85)
    k, n = unit * d.int(1, 1024 // unit), d.length(500)
    if not turned:
        k, n = n, k
    tokens = d.bounded([tokens], max(1, d.work // (each * rows * n * k)))[0]
    experts = d.bounded([experts], max(1, 8 * d.most // (n * k)))[0]
    if tokens * each * rows * n * k > d.work:
        each = rows = 1
    few = d.chance(0.2)
    if few:  # tokens of a layer of experts
        mode, turned, rows, dtype = ("affine", 4, 64), True, 1, d.pick("bfloat16", "float16")
        k, n, each, tokens = 256 * d.int(1, 8), 16 * d.int(1, 48), d.pick(1, 2, 4, 8), d.int(1, 64)
        experts = d.int(8, 64)
        k, n = d.bounded([k // 256, n // 16], max(1, 8 * d.most // (4096 * experts)))
        k, n = 256 * k, 16 * n
        tokens = d.bounded([tokens], max(1, d.work // (each * n * k)))[0]
    kind = kind_of(d)
    whole = kind == "whole" and mode[0] == "affine"
    index, ordered = picks(d, experts, tokens, each)
    lead = (len(index),) if ordered else (tokens, 1)
    x = d.array((*lead, rows, k), dtype, kind, form=("plain",) if few else None, axis=-2)
    codes = Codes(d, (experts, n, k) if turned else (experts, k, n), mode, dtype, kind)
    chosen = mx.array(index)

    def run(x, *arrays):
        args, options = codes.call(arrays)
        options["sorted_indices"] = ordered
        return [mx.gather_qmm(x, *args, rhs_indices=chosen, transpose=turned, **options)]

    def want(x, *arrays):
        made = [swap(v) if turned else v for v in codes.exact(*arrays)]
        return [error_of(wide(x), made, dtype, whole, lambda x, w: picked(x, w, index))]

    text = f"{mode[0]} {mode[1]} bits, groups of {mode[2]}, {'turned' * turned} {n} of {experts}"
    text += f" {kind} {list(index.shape)} {'sorted ' * ordered}{shown(x)}"
    return Case([x, *codes.inputs], run, want, text, rough=rounds)
