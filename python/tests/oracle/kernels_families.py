"""Draws cases of all families."""

import zlib

import kernels_attention
import kernels_conv
import kernels_joined
import kernels_places
import kernels_products
import kernels_quantized
import kernels_rows
import numpy as np
from kernels_draw import Draw

FAMILIES = {
    "matmul": kernels_products.matmul,
    "epilogue": kernels_products.epilogue,
    "parts": kernels_products.parts,
    "gather_mm": kernels_products.gather_mm,
    "quantized": kernels_quantized.quantized,
    "gather_qmm": kernels_quantized.gather_qmm,
    "attention": kernels_attention.attention,
    "attention_grad": kernels_attention.attention_grad,
    "joined": kernels_joined.joined,
    "token": kernels_joined.token,
    "conv": kernels_conv.conv,
    "conv_grad": kernels_conv.conv_grad,
    "sum": kernels_rows.reduce_sum,
    "reduce": kernels_rows.reduce_other,
    "arg": kernels_rows.arg_reduce,
    "softmax": kernels_rows.softmax,
    "norm": kernels_rows.norm,
    "sort": kernels_rows.sort,
    "scan": kernels_rows.scan,
    "gather": kernels_places.gather,
    "scatter": kernels_places.scatter,
    "fft": kernels_places.fft,
    "elementwise": kernels_places.elementwise,
    "cast": kernels_places.cast,
}


def drawn(family, number, seed, small=False):
    """A case, and the random choices that are left for whoever runs it."""
    rng = np.random.default_rng([seed, zlib.crc32(family.encode()), number])
    case = FAMILIES[family](Draw(rng, small))
    # A kernel for one shape is made behind the first calls: those cases are run again later.
    case.later = rng.random() < 0.15
    case.disabled = () if case.later else ("matmul_fixed",)
    return case, rng
