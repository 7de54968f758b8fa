"""Initial values: every function here returns one that makes an array of the shape of another."""

import math
from collections.abc import Callable
from typing import Literal

import mlx.core as mx

_Initializer = Callable[[mx.array], mx.array]


def constant(value: float, dtype: mx.Dtype = mx.float32) -> Callable[[mx.array], mx.array]:
    """A function that fills arrays with one value.

    The function takes an array, of which only the shape counts, and returns a new one;
    :meth:`mlx.nn.Module.apply` takes it as it is.

    Args:
        value (float): The value.
        dtype (Dtype, optional): Dtype of the new arrays. Default: ``float32``.

    Returns:
        Callable[[array], array]: The function.

    >>> constant(0.5)(mx.zeros((2,)))
    array([0.5, 0.5], dtype=float32)
    """

    def initializer(a: mx.array) -> mx.array:
        return mx.full(a.shape, value, dtype=dtype)

    return initializer


def normal(
    mean: float = 0.0, std: float = 1.0, dtype: mx.Dtype = mx.float32
) -> Callable[[mx.array], mx.array]:
    """A function that draws from a normal distribution.

    The function takes an array, of which only the shape counts, and returns a new one;
    :meth:`mlx.nn.Module.apply` takes it as it is.

    Args:
        mean (float, optional): Mean. Default: ``0.0``.
        std (float, optional): Standard deviation. Default: ``1.0``.
        dtype (Dtype, optional): Dtype of the new arrays. Default: ``float32``.

    Returns:
        Callable[[array], array]: The function.

    >>> normal()(mx.zeros((2, 3))).shape
    (2, 3)
    """

    def initializer(a: mx.array) -> mx.array:
        return mx.random.normal(shape=a.shape, scale=std, loc=mean, dtype=dtype)

    return initializer


def uniform(
    low: float = 0.0, high: float = 1.0, dtype: mx.Dtype = mx.float32
) -> Callable[[mx.array], mx.array]:
    """A function that draws from a uniform distribution.

    The function takes an array, of which only the shape counts, and returns a new one;
    :meth:`mlx.nn.Module.apply` takes it as it is.

    Args:
        low (float, optional): Lower bound. Default: ``0.0``.
        high (float, optional): Upper bound, which is not drawn. Default: ``1.0``.
        dtype (Dtype, optional): Dtype of the new arrays. Default: ``float32``.

    Returns:
        Callable[[array], array]: The function.

    >>> uniform()(mx.zeros((2, 3))).shape
    (2, 3)
    """

    def initializer(a: mx.array) -> mx.array:
        return mx.random.uniform(low, high, a.shape, dtype=dtype)

    return initializer


def identity(dtype: mx.Dtype = mx.float32) -> Callable[[mx.array], mx.array]:
    """A function that gives identity matrices.

    The function takes a square matrix, of which only the shape counts, and returns a new one.

    Args:
        dtype (Dtype, optional): Dtype of the new matrices. Default: ``float32``.

    Returns:
        Callable[[array], array]: The function.

    Raises:
        ValueError: when the function is called, if the array is not a square matrix.

    >>> identity()(mx.zeros((2, 2)))
    array([[1, 0],
           [0, 1]], dtype=float32)
    """

    def initializer(a: mx.array) -> mx.array:
        if a.ndim != 2 or a.shape[0] != a.shape[1]:
            raise ValueError(
                f"[identity] The input array must be a square matrix but got shape {a.shape}."
            )
        return mx.eye(a.shape[0], dtype=dtype)

    return initializer


def _fans(a: mx.array) -> tuple[int, int]:
    """Inputs of an output and outputs of an input for a weight (out, kernel ..., in)."""
    if a.ndim < 2:
        raise ValueError(
            "[init] Glorot / He initialization requires at least 2 dimensional input but input "
            f"with {a.ndim} dimensions."
        )
    kernel = math.prod(a.shape[1:-1])
    return a.shape[-1] * kernel, a.shape[0] * kernel


def _fan(a: mx.array, mode: str) -> int:
    fan_in, fan_out = _fans(a)
    if mode == "fan_in":
        return fan_in
    if mode == "fan_out":
        return fan_out
    raise ValueError(f"[init] Invalid mode: {mode}. Valid modes are: fan_in, fan_out")


def glorot_normal(dtype: mx.Dtype = mx.float32) -> Callable[[mx.array, float], mx.array]:
    r"""A function that draws from a normal distribution which keeps variances in both directions.

    The standard deviation is :math:`\gamma \sqrt{2 / (\text{fan in} + \text{fan out})}`, where a
    weight has the shape (out, kernel ..., in). Glorot and Bengio 2010, "Understanding the
    Difficulty of Training Deep Feedforward Neural Networks".

    Args:
        dtype (Dtype, optional): Dtype of the new arrays. Default: ``float32``.

    Returns:
        Callable[[array, float], array]: The function. It takes an array, of which only the shape
            counts, and the factor ``gain`` (:math:`\gamma`), by default 1.

    Raises:
        ValueError: when the function is called, if the array has fewer than two axes.

    >>> glorot_normal()(mx.zeros((2, 3))).shape
    (2, 3)
    """

    def initializer(a: mx.array, gain: float = 1.0) -> mx.array:
        std = gain * math.sqrt(2.0 / sum(_fans(a)))
        return mx.random.normal(shape=a.shape, scale=std, dtype=dtype)

    return initializer


def glorot_uniform(dtype: mx.Dtype = mx.float32) -> Callable[[mx.array, float], mx.array]:
    r"""A function that draws from a uniform distribution which keeps variances in both directions.

    The bounds are :math:`\pm \gamma \sqrt{6 / (\text{fan in} + \text{fan out})}`, where a weight
    has the shape (out, kernel ..., in). Glorot and Bengio 2010, "Understanding the Difficulty of
    Training Deep Feedforward Neural Networks".

    Args:
        dtype (Dtype, optional): Dtype of the new arrays. Default: ``float32``.

    Returns:
        Callable[[array, float], array]: The function. It takes an array, of which only the shape
            counts, and the factor ``gain`` (:math:`\gamma`), by default 1.

    Raises:
        ValueError: when the function is called, if the array has fewer than two axes.

    >>> glorot_uniform()(mx.zeros((2, 3))).shape
    (2, 3)
    """

    def initializer(a: mx.array, gain: float = 1.0) -> mx.array:
        bound = gain * math.sqrt(6.0 / sum(_fans(a)))
        return mx.random.uniform(-bound, bound, a.shape, dtype=dtype)

    return initializer


def he_normal(
    dtype: mx.Dtype = mx.float32,
) -> Callable[[mx.array, Literal["fan_in", "fan_out"], float], mx.array]:
    r"""A function that draws from a normal distribution which keeps variances through rectifiers.

    The standard deviation is :math:`\gamma \sqrt{1 / \text{fan}}`, where a weight has the shape
    (out, kernel ..., in) and the factor :math:`\sqrt 2` of a rectifier belongs to the gain. He et
    al. 2015, "Delving Deep into Rectifiers" (arXiv 1502.01852).

    Args:
        dtype (Dtype, optional): Dtype of the new arrays. Default: ``float32``.

    Returns:
        Callable[[array, str, float], array]: The function. It takes an array, of which only the
            shape counts, ``mode``, ``"fan_in"`` (by default) or ``"fan_out"``, and ``gain``
            (:math:`\gamma`), by default 1.

    Raises:
        ValueError: when the function is called, if the mode is another one or the array has fewer
            than two axes.

    >>> he_normal()(mx.zeros((2, 3)), gain=2 ** 0.5).shape
    (2, 3)
    """

    def initializer(
        a: mx.array, mode: Literal["fan_in", "fan_out"] = "fan_in", gain: float = 1.0
    ) -> mx.array:
        std = gain / math.sqrt(_fan(a, mode))
        return mx.random.normal(shape=a.shape, scale=std, dtype=dtype)

    return initializer


def he_uniform(
    dtype: mx.Dtype = mx.float32,
) -> Callable[[mx.array, Literal["fan_in", "fan_out"], float], mx.array]:
    r"""A function that draws from a uniform distribution which keeps variances through rectifiers.

    The bounds are :math:`\pm \gamma \sqrt{3 / \text{fan}}`, where a weight has the shape (out,
    kernel ..., in) and the factor :math:`\sqrt 2` of a rectifier belongs to the gain. He et al.
    2015, "Delving Deep into Rectifiers" (arXiv 1502.01852).

    Args:
        dtype (Dtype, optional): Dtype of the new arrays. Default: ``float32``.

    Returns:
        Callable[[array, str, float], array]: The function. It takes an array, of which only the
            shape counts, ``mode``, ``"fan_in"`` (by default) or ``"fan_out"``, and ``gain``
            (:math:`\gamma`), by default 1.

    Raises:
        ValueError: when the function is called, if the mode is another one or the array has fewer
            than two axes.

    >>> he_uniform()(mx.zeros((2, 3)), "fan_out").shape
    (2, 3)
    """

    def initializer(
        a: mx.array, mode: Literal["fan_in", "fan_out"] = "fan_in", gain: float = 1.0
    ) -> mx.array:
        bound = gain * math.sqrt(3.0 / _fan(a, mode))
        return mx.random.uniform(-bound, bound, a.shape, dtype=dtype)

    return initializer


def sparse(
    sparsity: float, mean: float = 0.0, std: float = 1.0, dtype: mx.Dtype = mx.float32
) -> Callable[[mx.array], mx.array]:
    """A function that draws from a normal distribution and sets a share of every row to zero.

    Of ``n`` columns ``ceil(sparsity * n)`` are zero, others in each row. Martens 2010, "Deep
    Learning via Hessian-Free Optimization".

    Args:
        sparsity (float): Share of zeros, from 0 to 1.
        mean (float, optional): Mean of the others. Default: ``0.0``.
        std (float, optional): Their standard deviation. Default: ``1.0``.
        dtype (Dtype, optional): Dtype of the new matrices. Default: ``float32``.

    Returns:
        Callable[[array], array]: The function. It takes a matrix, of which only the shape counts.

    Raises:
        ValueError: when the function is called, if the array is not a matrix.

    >>> (sparse(0.5)(mx.zeros((2, 4))) == 0).sum().item()
    4
    """

    def initializer(a: mx.array) -> mx.array:
        if a.ndim != 2:
            raise ValueError(f"[sparse] Only tensors with 2 dimensions are supported, got {a.ndim}")
        rows, columns = a.shape
        zeros = max(0, math.ceil(sparsity * columns))
        order = mx.argsort(mx.random.uniform(shape=a.shape), axis=1)
        a = mx.random.normal(shape=a.shape, scale=std, loc=mean, dtype=dtype)
        a[mx.arange(rows).reshape(rows, 1), order[:, :zeros]] = 0
        return a

    return initializer


def orthogonal(gain: float = 1.0, dtype: mx.Dtype = mx.float32) -> Callable[[mx.array], mx.array]:
    """A function that draws matrices with orthonormal rows or columns, the fewer of them.

    Every such matrix is equally likely: the QR decomposition of a normally distributed one, with
    signs from its diagonal (Mezzadri 2007, arXiv math-ph/0609050). It runs on the CPU. Saxe et al.
    2013, "Exact Solutions to the Nonlinear Dynamics of Learning in Deep Linear Neural Networks"
    (arXiv 1312.6120).

    Args:
        gain (float, optional): Factor on the matrices. Default: ``1.0``.
        dtype (Dtype, optional): Dtype of the new matrices. Default: ``float32``.

    Returns:
        Callable[[array], array]: The function. It takes a matrix, of which only the shape counts.

    Raises:
        ValueError: when the function is called, if the array is not a matrix.

    >>> w = orthogonal()(mx.zeros((2, 5)))
    >>> mx.allclose(w @ w.T, mx.eye(2), atol=1e-5).item()
    True
    """

    def initializer(a: mx.array) -> mx.array:
        if a.ndim != 2:
            raise ValueError(
                f"[orthogonal] Orthogonal initialization requires a 2D array but got a {a.ndim}D "
                "array."
            )
        rows, columns = a.shape
        n = max(rows, columns)
        q, r = mx.linalg.qr(mx.random.normal(shape=(n, n)), stream=mx.cpu)
        # Signs from the diagonal make the distribution uniform (Mezzadri 2007).
        q = q * mx.sign(mx.diag(r))
        return (q[:rows, :columns] * gain).astype(dtype)

    return initializer
