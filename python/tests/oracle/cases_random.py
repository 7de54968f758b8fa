"""Rows of random numbers, layers and quantisation."""

import numpy as np
from arguments import CPU, FLAG, A, Either, Fn, Int, Num, any_shape, dtype
from table import row
from wire import Arr

# Random numbers: the same key gives the same bits

KEY = Fn(lambda d: Arr("uint32", d.data.integers(0, 2**32, 2, dtype=np.uint32)))
row("random.key", Int(0, 10**6))
row("random.split", KEY, Int(1, 5))
row("random.bits", any_shape(), Either(1, 2, 4), KEY)
row("random.uniform", Num(-2, 0), Num(1, 3), any_shape(), dtype("float"), KEY, sums=True)
row("random.normal", any_shape(), dtype("float"), Num(-1, 1), Num(0.5, 2), KEY, tol=16, sums=True)
row("random.randint", Int(0, 9), Int(10, 99), any_shape(), dtype("int"), KEY)
row("random.randint", Int(-9, 0), Int(1, 99), any_shape(), Either(None, dtype("sint")), KEY)
row("random.bernoulli", Num(0, 1), any_shape(), KEY)
row("random.truncated_normal", -1.0, Num(0, 2), any_shape(), dtype("float"), KEY, tol=16, sums=True)
row("random.gumbel", any_shape(), dtype("float"), KEY, tol=16, sums=True)
row("random.laplace", any_shape(), dtype("float"), Num(-1, 1), Num(0.5, 2), KEY, tol=16, sums=True)
row(
    "random.multivariate_normal",
    A("f32", "3"),
    Arr("float32", np.array([[2, 1, 0], [1, 2, 0], [0, 0, 1]], np.float32)),
    any_shape("n"),
    dtype("f32"),
    KEY,
    stream=CPU,
    shape_only=True,
)
row("random.categorical", A("f32", "n 6"), Either(-1, 0, 1), None, Either(None, 4), KEY)
row("random.permutation", Either(Int(1, 20), A("any", "n k")), Int(0, 0), KEY)

# Layers and quantisation

row("fast.rms_norm", A("float", "... n 32"), Either(None, A("float", "32")), 1e-5, tol=4)
row(
    "fast.layer_norm",
    A("float", "... n 32"),
    Either(None, A("float", "32")),
    Either(None, A("float", "32")),
    1e-5,
    tol=4,
    sums=True,
)
row("fast.rms_norm", A("float", "n 32"), A("float", "32"), 1e-5, modes=("grad",), tol=16, sums=True)
row(
    "fast.rope",
    A("float", "1 2 n 16"),
    Either(16, 8),
    traditional=FLAG,
    base=10000.0,
    scale=Num(0.5, 2),
    offset=Int(0, 9),
    tol=16,
    sums=True,
)
row(
    "fast.scaled_dot_product_attention",
    A("float", "1 4 n 16"),
    A("float", "1 2 k 16"),
    A("float", "1 2 k 16"),
    scale=0.25,
    mask=Either(None, None, "causal"),
    tol=8,
    sums=True,
)
row("quantize", A("float", "n 128"), Either(32, 64, 128), Either(2, 3, 4, 6, 8), tol=4, sums=True)
row("to_fp8", A("float", values="special"))
row("from_fp8", A("uint8"), dtype("float"))
row("hadamard_transform", A("float", "n 16"), Either(None, 0.5), tol=8, sums=True)
row("depends", A(), A())
