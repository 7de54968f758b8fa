# Written by tools/stubs.py from the module itself; do not edit.
"""Linear algebra."""

from typing import Any
from . import _ArrayLike, _StreamOrDevice, array

__all__ = ['cholesky', 'cholesky_inv', 'cross', 'det', 'eig', 'eigh', 'eigvals', 'eigvalsh', 'inv', 'lu', 'lu_factor', 'norm', 'pinv', 'qr', 'slogdet', 'solve', 'solve_triangular', 'svd', 'tri_inv']

def cholesky(a: array, upper: _ArrayLike = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The lower factor `l` of symmetric positive semi-definite matrices, `a = l @ l.T`, or with `upper` the upper one,
    `a = u.T @ u`. Only that triangle is read. NaN where the matrix is not positive semi-definite. float32 or float64,
    CPU streams only (ValueError otherwise).

    >>> mx.linalg.cholesky(mx.array([[4.0, 2.0], [2.0, 5.0]]), stream=mx.cpu)
    array([[2, 0],
           [1, 2]], dtype=float32)
    """

def cholesky_inv(a: array, upper: _ArrayLike = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The inverse of the matrices whose Cholesky factors, lower or with `upper` upper ones, are given. Dtypes, streams
    and errors as for `inv`.

    >>> mx.linalg.cholesky_inv(mx.array([[2.0, 0.0], [0.0, 1.0]]), stream=mx.cpu)
    array([[0.25, 0],
           [0, 1]], dtype=float32)
    """

def cross(a: array, b: array, axis: int | None = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Cross products along `axis`, of length 2 or 3 in both arrays, which broadcast; a missing third component is zero.
    Raises ValueError for other lengths.

    >>> mx.linalg.cross(mx.array([1, 0, 0]), mx.array([0, 1, 0]))
    array([0, 0, 1], dtype=int32)
    """

def det(a: array, *, stream: _StreamOrDevice = ...) -> array:
    """Determinants of square matrices; integers give float32. CPU streams only (ValueError otherwise).

    >>> mx.linalg.det(mx.array([[2.0, 0.0], [0.0, 4.0]]), stream=mx.cpu)
    array(8, dtype=float32)
    """

def eig(a: array, *, stream: _StreamOrDevice = ...) -> array:
    """Eigenvalues, in no order, and eigenvectors of length one in columns of square matrices (float32, float64,
    complex64); complex64. CPU streams only (ValueError otherwise). Raises RuntimeError for NaN when evaluated.

    >>> w, v = mx.linalg.eig(mx.array([[0.0, 1.0], [-1.0, 0.0]]), stream=mx.cpu)
    >>> mx.abs(w)
    array([1, 1], dtype=float32)
    """

def eigh(a: array, UPLO: Any = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Eigenvalues (ascending, real) and orthonormal eigenvectors in columns of symmetric or Hermitian matrices (float32,
    float64, complex64), of which the triangle `UPLO` ("L" or "U") is read. CPU streams only (ValueError otherwise).
    Raises RuntimeError for NaN when evaluated.

    >>> w, v = mx.linalg.eigh(mx.array([[2.0, 0.0], [0.0, 1.0]]), stream=mx.cpu)
    >>> w
    array([1, 2], dtype=float32)
    """

def eigvals(a: array, *, stream: _StreamOrDevice = ...) -> array:
    """The eigenvalues that `eig` gives.

    >>> mx.abs(mx.linalg.eigvals(mx.array([[0.0, 1.0], [-1.0, 0.0]]), stream=mx.cpu))
    array([1, 1], dtype=float32)
    """

def eigvalsh(a: array, UPLO: Any = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The eigenvalues that `eigh` gives.

    >>> mx.linalg.eigvalsh(mx.array([[2.0, 0.0], [0.0, 1.0]]), stream=mx.cpu)
    array([1, 2], dtype=float32)
    """

def inv(a: array, *, stream: _StreamOrDevice = ...) -> array:
    """Inverses of square matrices (float32, float64), CPU streams only (ValueError otherwise). Raises RuntimeError for
    a singular matrix when evaluated.

    >>> mx.linalg.inv(mx.array([[2.0, 0.0], [0.0, 4.0]]), stream=mx.cpu)
    array([[0.5, 0],
           [0, 0.25]], dtype=float32)
    """

def lu(a: array, *, stream: _StreamOrDevice = ...) -> array:
    """The factors of matrices with exchanged rows: `p` (uint32), unit lower triangular `l` and upper triangular `u` with
    `a = l[p, :] @ u`. float32 or float64, CPU streams only (ValueError otherwise).

    >>> p, l, u = mx.linalg.lu(mx.array([[0.0, 1.0], [2.0, 0.0]]), stream=mx.cpu)
    >>> p
    array([1, 0], dtype=uint32)
    """

def lu_factor(a: array, *, stream: _StreamOrDevice = ...) -> array:
    """The packed factors of `lu` and the exchanges of rows (uint32): step `i` exchanged rows `i` and `pivots[i]`.

    >>> packed, pivots = mx.linalg.lu_factor(mx.array([[0.0, 1.0], [2.0, 0.0]]), stream=mx.cpu)
    >>> pivots
    array([1, 1], dtype=uint32)
    """

def norm(a: array, /, ord: Any = ..., axis: int | None = ..., keepdims: bool = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The norm of `a` over `axis`: of vectors over one axis, of matrices over two, of the whole array by default. `ord`
    is a number, inf, -inf, or "fro" and "nuc" for matrices; None is the Euclidean (Frobenius) norm. Integers give
    float32. Raises ValueError for an `ord` that does not exist or axes that do not fit it; 2, -2 and "nuc" of matrices
    need a CPU stream.

    >>> mx.linalg.norm(mx.array([3.0, 4.0]))
    array(5, dtype=float32)
    """

def pinv(a: array, *, stream: _StreamOrDevice = ...) -> array:
    """Moore-Penrose inverses of matrices (float32, float64), by singular values; CPU streams only (ValueError otherwise).

    >>> mx.linalg.pinv(mx.array([[2.0, 0.0]]), stream=mx.cpu)
    array([[0.5],
           [0]], dtype=float32)
    """

def qr(a: array, *, stream: _StreamOrDevice = ...) -> array:
    """The factors `q` (m, k) and `r` (k, n) of matrices (m, n), `k = min(m, n)`: `a = q @ r`, the columns of `q`
    orthonormal, `r` upper triangular. float32 or float64, CPU streams only (ValueError otherwise).

    >>> q, r = mx.linalg.qr(mx.eye(2), stream=mx.cpu)
    >>> (q @ r).shape
    (2, 2)
    """

def slogdet(a: array, *, stream: _StreamOrDevice = ...) -> array:
    """Signs of the determinants of square matrices and logarithms of their absolute values: 0 and -inf for singular
    ones. CPU streams only (ValueError otherwise).

    >>> mx.linalg.slogdet(mx.array([[1.0, 0.0], [0.0, -1.0]]), stream=mx.cpu)
    (array(-1, dtype=float32), array(0, dtype=float32))
    """

def solve(a: array, b: array, *, stream: _StreamOrDevice = ...) -> array:
    """Solutions `x` of `a @ x = b` for square `a`; `b` is a vector or holds columns, batches broadcast. float32 or
    float64, CPU streams only (ValueError otherwise). Raises RuntimeError for a singular matrix when evaluated.

    >>> mx.linalg.solve(mx.array([[2.0, 0.0], [0.0, 4.0]]), mx.array([2.0, 2.0]), stream=mx.cpu)
    array([1, 0.5], dtype=float32)
    """

def solve_triangular(a: array, b: array, *, upper: _ArrayLike = ..., stream: _StreamOrDevice = ...) -> array:
    """`solve` for lower (or, with `upper`, upper) triangular `a`, of which the other triangle is not read.

    >>> mx.linalg.solve_triangular(mx.array([[2.0, 9.0], [0.0, 4.0]]), mx.array([2.0, 2.0]), stream=mx.cpu)
    array([1, 0.5], dtype=float32)
    """

def svd(a: array, compute_uv: Any = ..., *, stream: _StreamOrDevice = ...) -> array:
    """The singular value decomposition `u @ diag(s) @ vt` of matrices (m, n): `u` (m, m), `s` descending (min(m, n)),
    `vt` (n, n); `s` alone unless `compute_uv`. float32, float64 or complex64, CPU streams only (ValueError otherwise).
    Raises RuntimeError for NaN when evaluated.

    >>> mx.linalg.svd(mx.eye(2) * 3, compute_uv=False, stream=mx.cpu)
    array([3, 3], dtype=float32)
    """

def tri_inv(a: array, upper: _ArrayLike = ..., *, stream: _StreamOrDevice = ...) -> array:
    """Inverses of lower (or, with `upper`, upper) triangular matrices; the other triangle is not read. Dtypes, streams
    and errors as for `inv`.

    >>> mx.linalg.tri_inv(mx.array([[2.0, 9.0], [1.0, 4.0]]), stream=mx.cpu)
    array([[0.5, 0],
           [-0.125, 0.25]], dtype=float32)
    """
