"""Rows of products, convolutions, Fourier transforms and linear algebra."""

import numpy as np
from arguments import CPU, FLAG, A, Either, Fn, Int, Num, axes
from table import BOTH, GRAD, row, rows
from wire import Arr

# Products

row(
    "matmul", A("float+", "... n k"), A("float+", "... k m"), modes=BOTH, weight=4, sums=True, tol=4
)
row("matmul", A("any", "n k"), A("any", "k m"), weight=2, sums=True, tol=4)
row("matmul", A("float", "k"), Either(A("float", "k"), A("float", "k m")), sums=True, tol=4)
row("matmul", A("float", "n k"), A("float", "k"), sums=True, tol=4)
row("array.__matmul__", A("float", "3 n k"), A("float", "k m"), sums=True, tol=4)
row(
    "addmm",
    A("float", "n m"),
    A("float", "n k"),
    A("float", "k m"),
    alpha=Num(-2, 2),
    beta=Num(-2, 2),
    modes=GRAD,
    sums=True,
    tol=8,
)
rows("inner", A("number", "n k"), A("number", "m k"), sums=True, tol=4)
rows("outer", A("number", "n"), A("number", "m"))
row(
    "vecdot",
    A("inexact", "... n k"),
    A("inexact", "... n k"),
    axis=Either(-1, -2),
    sums=True,
    tol=4,
)
row(
    "tensordot",
    A("float", "n 3 4"),
    A("float", "3 4 m"),
    Either(2, [[1, 2], [0, 1]], [[2], [1]], 1),
    sums=True,
    tol=4,
)
row("tensordot", A("float", "3 n"), A("float", "n 2"), 1, modes=GRAD, sums=True, tol=4)
for text, *shapes in [
    ("ij,jk->ik", "n k", "k m"),
    ("ij,jk", "n k", "k m"),
    ("bij,bjk->bik", "2 n k", "2 k m"),
    ("ii->i", "4 4"),
    ("ii", "4 4"),
    ("ij->ji", "n k"),
    ("ij->j", "n k"),
    ("i,j->ij", "n", "m"),
    ("ij,ij->", "n k", "n k"),
    ("abc,cd,de->abe", "2 n k", "k m", "m 3"),
    ("...ij,...jk->...ik", "... n k", "... k m"),
    ("ij,kj->ik", "n k", "m k"),
]:
    row("einsum", text, *[A("float", s) for s in shapes], weight=0.3, modes=GRAD, sums=True, tol=8)
row(
    "gather_mm",
    A("float", "4 n k"),
    A("float", "3 k m"),
    Arr("uint32", np.array([0, 3])),
    Arr("uint32", np.array([2, 1])),
    sums=True,
    tol=8,
)
row("block_masked_mm", A("f32", "64 32"), A("f32", "32 64"), 32, sums=True, tol=8)
row(
    "segmented_mm",
    A("f32", "5 8"),
    A("f32", "8 6"),
    Arr("uint32", np.array([[0, 3], [3, 8]])),
    sums=True,
    tol=8,
)

# Convolutions

row(
    "conv1d",
    A("float", "n 9 4"),
    A("float", "6 3 4"),
    Int(1, 2),
    Int(0, 2),
    Int(1, 2),
    modes=BOTH,
    sums=True,
    tol=8,
)
row("conv1d", A("float", "n 9 4"), A("float", "6 3 2"), groups=2, modes=GRAD, sums=True, tol=8)
row(
    "conv2d",
    A("float", "n 7 6 4"),
    A("float", "3 3 2 4"),
    Either(1, 2, (1, 2)),
    Either(0, 1, (2, 1)),
    Either(1, (1, 2)),
    modes=BOTH,
    sums=True,
    tol=8,
    weight=2,
)
row("conv2d", A("float", "2 5 5 4"), A("float", "8 3 3 1"), groups=4, sums=True, tol=8)
row(
    "conv3d",
    A("f32", "1 5 4 6 2"),
    A("f32", "3 2 3 2 2"),
    Either(1, 2),
    Either(0, 1),
    sums=True,
    tol=8,
)
row(
    "conv_general",
    A("f32", "1 7 6 2"),
    A("f32", "3 3 2 2"),
    Either(1, (2, 1)),
    Either(0, ((1, 0), (2, 1))),
    Either(1, 2),
    Either(1, (2, 1)),
    1,
    FLAG,
    sums=True,
    tol=8,
)
row(
    "conv_transpose1d",
    A("float", "n 6 3"),
    A("float", "4 3 3"),
    Int(1, 2),
    Int(0, 1),
    modes=GRAD,
    sums=True,
    tol=8,
)
row(
    "conv_transpose2d",
    A("float", "1 4 5 3"),
    A("float", "2 3 2 3"),
    Either(1, 2),
    Either(0, 1),
    sums=True,
    tol=8,
)
row("conv_transpose3d", A("f32", "1 3 4 3 2"), A("f32", "2 2 2 2 2"), Int(1, 2), sums=True, tol=8)
row("convolve", A("float", "9"), A("float", "4"), Either("full", "same", "valid"), sums=True, tol=8)

# Fourier transforms

FFT = {"norm": Either("backward", "ortho", "forward"), "sums": True, "tol": 16}
rows(
    "fft.fft fft.ifft",
    Either(A("f32", "n 12"), A("complex", "n 12")),
    Either(None, 6, 12, 16),
    Either(-1, 0),
    modes=GRAD,
    weight=2,
    **FFT,
)
rows("fft.rfft", A("f32", "... n 10"), Either(None, 5, 10, 13), -1, modes=GRAD, **FFT)
rows("fft.irfft", A("complex", "... n 7"), Either(None, 8, 12, 13), -1, modes=GRAD, **FFT)
rows("fft.fft2 fft.ifft2", A("complex", "n 6 8"), Either(None, (4, 8)), **FFT)
rows("fft.rfft2", A("f32", "n 6 8"), **FFT)
rows("fft.irfft2", A("complex", "n 6 5"), **FFT)
rows("fft.fftn fft.ifftn", A("complex", "3 4 5"), None, Either(None, (0, 2), [1]), **FFT)
rows("fft.rfftn", A("f32", "3 4 6"), None, Either(None, (0, 2)), **FFT)
rows("fft.irfftn", A("complex", "3 4 4"), None, Either(None, (0, 2)), **FFT)
rows("fft.fftshift fft.ifftshift", A("any", "any1"), axes())
rows("fft.fftfreq fft.rfftfreq", Int(1, 12), Num(0.2, 2))
row(
    "fft.istft",
    A("complex", "7 17"),
    32,
    8,
    center=FLAG,
    length=Either(None, 40),
    sums=True,
    tol=32,
)
row("fft.stft", A("f32", "200"), 32, Either(None, 8), center=FLAG, sums=True, tol=16)

# Linear algebra (on the CPU in MLX)


def well_conditioned(d, batch=()):
    n = d.integer(1, 6)
    x = d.data.normal(size=(*batch, n, n)) * 0.3 + 2 * np.eye(n)
    return Arr("float32", x.astype(np.float32))


def positive_definite(d):
    x = well_conditioned(d).values
    return Arr("float32", (x @ np.swapaxes(x, -1, -2)).astype(np.float32))


SQUARE = Fn(lambda d: well_conditioned(d, d.pick([(), (), (2,), (0,)])))
row("linalg.inv", SQUARE, stream=CPU, sums=True, tol=32)
row(
    "linalg.tri_inv",
    Fn(lambda d: Arr("float32", np.tril(well_conditioned(d).values))),
    stream=CPU,
    sums=True,
    tol=32,
)
row("linalg.det", SQUARE, stream=CPU, tol=64)
row("linalg.slogdet", SQUARE, stream=CPU, tol=64)
row("linalg.cholesky", Fn(positive_definite), FLAG, stream=CPU, sums=True, tol=32)
row(
    "linalg.cholesky_inv",
    Fn(lambda d: Arr("float32", np.linalg.cholesky(positive_definite(d).values))),
    stream=CPU,
    sums=True,
    tol=64,
)
row("linalg.eigvalsh", Fn(positive_definite), Either("L", "U"), stream=CPU, sums=True, tol=32)
row("linalg.svd", A("f32", "... n k"), False, stream=CPU, sums=True, tol=32)
row("linalg.pinv", A("f32", "4 3"), stream=CPU, sums=True, tol=64)
row("linalg.lu_factor", SQUARE, stream=CPU, sums=True, tol=32)
row("linalg.lu", SQUARE, stream=CPU, sums=True, tol=32)
row(
    "linalg.solve",
    Arr("float32", np.array([[3, 1], [1, 2]], np.float32)),
    A("f32", "2 k"),
    stream=CPU,
    sums=True,
    tol=32,
)
row(
    "linalg.solve_triangular",
    Arr("float32", np.array([[3, 0], [1, 2]], np.float32)),
    A("f32", "2 k"),
    stream=CPU,
    sums=True,
    tol=32,
)
row(
    "linalg.norm",
    A("f32", "n k"),
    Either(None, 1, 2, "fro", "nuc", float("inf")),
    (0, 1),
    FLAG,
    stream=CPU,
    tol=32,
)
row(
    "linalg.norm",
    A("inexact", "n k"),
    Either(None, 0, 1, 2, 3, -1, float("inf")),
    Either(0, 1, -1),
    FLAG,
    tol=16,
)
row("linalg.cross", A("f32", "... 3"), A("f32", "... 3"), sums=True, tol=4)
row("linalg.eigvals", SQUARE, stream=CPU, shape_only=True)
row("matrix_norm", A("f32", "n k"), Either("fro", 1, -1, 2, float("inf")), FLAG, stream=CPU, tol=32)
rows("linalg.qr linalg.eigh linalg.eig", SQUARE, stream=CPU, shape_only=True)
