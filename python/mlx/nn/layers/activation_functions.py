"""Activation functions: each is compiled into one kernel where it is more than one operation."""

import math
from collections.abc import Callable

import mlx.core as mx


def _fused(fn: Callable[..., mx.array]) -> Callable[..., mx.array]:
    return mx.compile(fn, shapeless=True)


@_fused
def _relu2(x: mx.array) -> mx.array:
    return mx.square(mx.maximum(x, 0))


@_fused
def _relu6(x: mx.array) -> mx.array:
    return mx.minimum(mx.maximum(x, 0), 6.0)


@_fused
def _leaky_relu(x: mx.array, negative_slope: float) -> mx.array:
    return mx.maximum(negative_slope * x, x)


@_fused
def _elu(x: mx.array, alpha: float) -> mx.array:
    return mx.where(x > 0, x, alpha * (mx.exp(x) - 1))


@_fused
def _celu(x: mx.array, alpha: float) -> mx.array:
    return mx.maximum(x, 0.0) + alpha * (mx.exp(mx.minimum(x, 0.0) / alpha) - 1)


@_fused
def _selu(x: mx.array) -> mx.array:
    return mx.where(x > 0, x, 1.67326 * (mx.exp(x) - 1)) * 1.0507


@_fused
def _prelu(x: mx.array, alpha: mx.array) -> mx.array:
    return mx.maximum(0, x) + alpha * mx.minimum(0, x)


@_fused
def _log_softmax(x: mx.array, axis: int) -> mx.array:
    if not mx.issubdtype(x.dtype, mx.inexact):
        x = x.astype(mx.float32)  # differences of integers would wrap
    # Less the maximum first: beside a large one the normaliser would be rounded away.
    shifted = x - mx.stop_gradient(mx.max(x, axis=axis, keepdims=True))
    wide = shifted.astype(mx.float32) if x.dtype in (mx.float16, mx.bfloat16) else shifted
    normaliser = mx.log(mx.sum(mx.exp(wide), axis=axis, keepdims=True))
    return (wide - normaliser).astype(x.dtype) if wide is not shifted else wide - normaliser


@_fused
def _silu(x: mx.array) -> mx.array:
    return x * mx.sigmoid(x)


@_fused
def _log_sigmoid(x: mx.array) -> mx.array:
    return -mx.logaddexp(-x, 0.0)


@_fused
def _gelu(x: mx.array) -> mx.array:
    return x * (1 + mx.erf(x / math.sqrt(2))) / 2


@_fused
def _gelu_approx(x: mx.array) -> mx.array:
    cube = x * x * x  # a general power costs far more
    return 0.5 * x * (1 + mx.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * cube)))


@_fused
def _gelu_fast_approx(x: mx.array) -> mx.array:
    return x * mx.sigmoid(1.702 * x)


@_fused
def _step(x: mx.array, threshold: float) -> mx.array:
    return mx.where(x >= threshold, 1, 0)


@_fused
def _mish(x: mx.array) -> mx.array:
    return x * mx.tanh(mx.logaddexp(x, 0.0))


@_fused
def _hardswish(x: mx.array) -> mx.array:
    return x * mx.minimum(mx.maximum(x + 3, 0), 6) / 6


@_fused
def _hard_tanh(x: mx.array, min_val: float, max_val: float) -> mx.array:
    return mx.minimum(mx.maximum(x, min_val), max_val)


@_fused
def _hard_shrink(x: mx.array, lambd: float) -> mx.array:
    return mx.where(mx.abs(x) > lambd, x, 0)


@_fused
def _softshrink(x: mx.array, lambd: float) -> mx.array:
    return mx.where(mx.abs(x) > lambd, x - mx.sign(x) * lambd, 0)


@_fused
def _softsign(x: mx.array) -> mx.array:
    # By name: a number of NumPy would divide by its own operator.
    return mx.divide(x, 1 + mx.abs(x))


def sigmoid(x: mx.array) -> mx.array:
    """The logistic function, :math:`1 / (1 + e^{-x})`.

    The result lies in [0, 1] and is computed without overflow; -inf and inf give the ends. The
    derivative is ``y * (1 - y)`` for the result ``y``.

    Args:
        x (array): Elements of any shape; integers are computed in float32.

    Returns:
        array: Of the shape of ``x``, in its floating dtype.

    >>> sigmoid(mx.array([0.0]))
    array([0.5], dtype=float32)
    """
    return mx.sigmoid(x)


def relu(x: mx.array) -> mx.array:
    r"""The rectified linear unit, :math:`\max(x, 0)`.

    Integers stay integers. NaN stays NaN, and the derivative at 0 counts as 0. Nair and Hinton
    2010, "Rectified Linear Units Improve Restricted Boltzmann Machines".

    Args:
        x (array): Elements of any shape and dtype.

    Returns:
        array: Of the shape and dtype of ``x``.

    >>> relu(mx.array([-1.0, 2.0]))
    array([0, 2], dtype=float32)
    """
    return mx.maximum(x, 0)


def relu2(x: mx.array) -> mx.array:
    r"""The squared rectified linear unit, :math:`\max(x, 0)^2`.

    So et al. 2021, "Primer: Searching for Efficient Transformers for Language Modeling" (arXiv
    2109.08668).

    Args:
        x (array): Elements of any shape and dtype.

    Returns:
        array: Of the shape and dtype of ``x``.

    >>> relu2(mx.array([-1.0, 2.0]))
    array([0, 4], dtype=float32)
    """
    return _relu2(x)


def relu6(x: mx.array) -> mx.array:
    r"""The rectified linear unit cut at six, :math:`\min(\max(x, 0), 6)`.

    The derivative is 1 between 0 and 6 and else 0. Made for networks of low precision: Howard et
    al. 2017, "MobileNets" (arXiv 1704.04861).

    Args:
        x (array): Elements of any shape; integers are computed in float32.

    Returns:
        array: Of the shape of ``x``, in its floating dtype.

    >>> relu6(mx.array([-1.0, 2.0, 7.0]))
    array([0, 2, 6], dtype=float32)
    """
    return _relu6(x)


def leaky_relu(x: mx.array, negative_slope: float = 0.01) -> mx.array:
    r"""The leaky rectified linear unit, :math:`\max(s x, x)` for the slope :math:`s`.

    Maas et al. 2013, "Rectifier Nonlinearities Improve Neural Network Acoustic Models". See
    :func:`prelu` for slopes that are trained.

    Args:
        x (array): Elements of any shape; integers are computed in float32.
        negative_slope (float, optional): The slope below zero, at most 1. Default: ``0.01``.

    Returns:
        array: Of the shape of ``x``, in its floating dtype.

    >>> leaky_relu(mx.array([-2.0, 2.0]), 0.5)
    array([-1, 2], dtype=float32)
    """
    return _leaky_relu(x, negative_slope)


def log_softmax(x: mx.array, axis: int = -1) -> mx.array:
    r"""The logarithm of :func:`softmax`, :math:`x - \log \sum e^x` over an axis.

    The largest element is subtracted first, so that large elements neither overflow nor lose
    digits.

    Args:
        x (array): Elements of any shape; integers are computed in float32.
        axis (int, optional): Axis of the sum; a negative one counts from the last. Default: ``-1``.

    Returns:
        array: Of the shape of ``x``; negative or zero.

    Raises:
        IndexError: if the axis is out of range.

    >>> log_softmax(mx.array([0.0, 0.0])).exp()
    array([0.5, 0.5], dtype=float32)
    """
    return _log_softmax(x, axis)


def softmax(x: mx.array, axis: int = -1) -> mx.array:
    r"""The normalised exponential, :math:`e^x / \sum e^x` over an axis.

    The largest element is subtracted first, so that nothing overflows. See :func:`mlx.core.softmax`
    for several axes.

    Args:
        x (array): Elements of any shape; integers are computed in float32.
        axis (int, optional): Axis of the sum; a negative one counts from the last. Default: ``-1``.

    Returns:
        array: Of the shape of ``x``; positive, with the sum 1 over the axis.

    Raises:
        IndexError: if the axis is out of range.

    >>> softmax(mx.array([0.0, 0.0]))
    array([0.5, 0.5], dtype=float32)
    """
    return mx.softmax(x, axis=axis)


def softmin(x: mx.array, axis: int = -1) -> mx.array:
    """The normalised exponential of the negated input: ``softmax(-x)``.

    The smallest element gets the largest share. Computed without overflow.

    Args:
        x (array): Elements of any shape; integers are computed in float32.
        axis (int, optional): Axis of the sum; a negative one counts from the last. Default: ``-1``.

    Returns:
        array: Of the shape of ``x``; positive, with the sum 1 over the axis.

    Raises:
        IndexError: if the axis is out of range.

    >>> softmin(mx.array([0.0, 0.0]))
    array([0.5, 0.5], dtype=float32)
    """
    return mx.softmax(-x, axis=axis)


def elu(x: mx.array, alpha: float = 1.0) -> mx.array:
    r"""The exponential linear unit: ``x`` where positive, else :math:`\alpha (e^x - 1)`.

    Clevert et al. 2015, "Fast and Accurate Deep Network Learning by Exponential Linear Units"
    (arXiv 1511.07289).

    Args:
        x (array): Elements of any shape; integers are computed in float32.
        alpha (float, optional): What the function tends to below zero, negated. Default: ``1.0``.

    Returns:
        array: Of the shape of ``x``, in its floating dtype.

    >>> elu(mx.array([0.0, 3.0]))
    array([0, 3], dtype=float32)
    """
    return _elu(x, alpha)


def celu(x: mx.array, alpha: float = 1.0) -> mx.array:
    r"""The continuously differentiable exponential linear unit.

    :math:`\max(x, 0) + \alpha (e^{\min(x, 0) / \alpha} - 1)`; Barron 2017, "Continuously
    Differentiable Exponential Linear Units" (arXiv 1704.07483).

    Args:
        x (array): Elements of any shape; integers are computed in float32.
        alpha (float, optional): What the function tends to below zero, negated. Default: ``1.0``.

    Returns:
        array: Of the shape of ``x``, in its floating dtype.

    >>> celu(mx.array([0.0, 3.0]), 2.0)
    array([0, 3], dtype=float32)
    """
    return _celu(x, alpha)


def selu(x: mx.array) -> mx.array:
    """The scaled exponential linear unit: ``1.0507 * elu(x, 1.67326)``.

    The constants keep mean 0 and variance 1 from layer to layer. Klambauer et al. 2017,
    "Self-Normalizing Neural Networks" (arXiv 1706.02515).

    Args:
        x (array): Elements of any shape; integers are computed in float32.

    Returns:
        array: Of the shape of ``x``, in its floating dtype.

    >>> selu(mx.array([0.0, 1.0]))
    array([0, 1.0507], dtype=float32)
    """
    return _selu(x)


def prelu(x: mx.array, alpha: mx.array) -> mx.array:
    r"""The parametric rectified linear unit: :math:`\max(0, x) + \alpha \min(0, x)`.

    He et al. 2015, "Delving Deep into Rectifiers" (arXiv 1502.01852). The layer :class:`PReLU`
    trains the slope.

    Args:
        x (array): Elements of any shape; integers are computed in float32.
        alpha (array): Slopes below zero, which broadcast with ``x``.

    Returns:
        array: Of the broadcast shape, in the promoted dtype.

    Raises:
        ValueError: if the shapes do not broadcast.

    >>> prelu(mx.array([-2.0, 2.0]), mx.array([0.5]))
    array([-1, 2], dtype=float32)
    """
    return _prelu(x, alpha)


def softplus(x: mx.array) -> mx.array:
    r"""The softplus, :math:`\log(1 + e^x)`: a smooth :func:`relu`.

    Computed without overflow; the derivative is :func:`sigmoid`. Dugas et al. 2001, "Incorporating
    Second-Order Functional Knowledge for Better Option Pricing".

    Args:
        x (array): Elements of any shape; integers are computed in float32.

    Returns:
        array: Of the shape of ``x``, in its floating dtype.

    >>> softplus(mx.array([100.0]))
    array([100], dtype=float32)
    """
    return mx.logaddexp(x, 0)


def softsign(x: mx.array) -> mx.array:
    """The softsign, :math:`x / (1 + |x|)`.

    The result lies in [-1, 1] and comes near the ends more slowly than that of :func:`tanh`.

    Args:
        x (array): Elements of any shape; integers are computed in float32.

    Returns:
        array: Of the shape of ``x``, in its floating dtype.

    >>> softsign(mx.array([-1.0, 3.0]))
    array([-0.5, 0.75], dtype=float32)
    """
    return _softsign(x)


def softshrink(x: mx.array, lambd: float = 0.5) -> mx.array:
    r"""Moves ``x`` towards zero by ``lambd``; zero within ``lambd`` of it.

    :math:`x - \operatorname{sign}(x) \lambda` where :math:`|x| > \lambda`, else 0: the proximal
    operator of the absolute value.

    Args:
        x (array): Elements of any shape; integers are computed in float32.
        lambd (float, optional): How far to move. Default: ``0.5``.

    Returns:
        array: Of the shape of ``x``, in its floating dtype.

    >>> softshrink(mx.array([-2.0, 0.25, 1.0]))
    array([-1.5, 0, 0.5], dtype=float32)
    """
    return _softshrink(x, lambd)


def hard_shrink(x: mx.array, lambd: float = 0.5) -> mx.array:
    """Keeps ``x`` where its magnitude is above ``lambd``; zero elsewhere.

    Unlike :func:`softshrink` it does not move what it keeps, and has a step at both ends.

    Args:
        x (array): Elements of any shape and dtype.
        lambd (float, optional): The magnitude up to which the result is zero. Default: ``0.5``.

    Returns:
        array: Of the shape and dtype of ``x``.

    >>> hard_shrink(mx.array([-2.0, 0.25, 1.0]))
    array([-2, 0, 1], dtype=float32)
    """
    return _hard_shrink(x, lambd)


def hard_tanh(x: mx.array, min_val: float = -1.0, max_val: float = 1.0) -> mx.array:
    """Cuts ``x`` at ``min_val`` and ``max_val``: a :func:`tanh` made of straight lines.

    The derivative is 1 between the bounds and else 0.

    Args:
        x (array): Elements of any shape; integers are computed in float32.
        min_val (float, optional): The lower bound. Default: ``-1.0``.
        max_val (float, optional): The upper bound. Default: ``1.0``.

    Returns:
        array: Of the shape of ``x``, in its floating dtype.

    >>> hard_tanh(mx.array([-2.0, 0.25, 3.0]))
    array([-1, 0.25, 1], dtype=float32)
    """
    return _hard_tanh(x, min_val, max_val)


def silu(x: mx.array) -> mx.array:
    """The sigmoid linear unit, also called swish: ``x * sigmoid(x)``.

    Elfwing et al. 2017, "Sigmoid-Weighted Linear Units" (arXiv 1702.03118); Ramachandran et al.
    2017 (arXiv 1710.05941).

    Args:
        x (array): Elements of any shape; integers are computed in float32.

    Returns:
        array: Of the shape of ``x``, in its floating dtype.

    >>> silu(mx.array([0.0, 100.0]))
    array([0, 100], dtype=float32)
    """
    return _silu(x)


def log_sigmoid(x: mx.array) -> mx.array:
    """The logarithm of the logistic function: ``-softplus(-x)``.

    Computed without overflow, where the logarithm of :func:`sigmoid` would be -inf below -88.

    Args:
        x (array): Elements of any shape; integers are computed in float32.

    Returns:
        array: Of the shape of ``x``; negative or zero.

    >>> log_sigmoid(mx.array([0.0])).exp()
    array([0.5], dtype=float32)
    """
    return _log_sigmoid(x)


def gelu(x: mx.array) -> mx.array:
    r"""The Gaussian error linear unit: ``x`` times the normal distribution function of ``x``.

    :math:`x (1 + \operatorname{erf}(x / \sqrt 2)) / 2`; Hendrycks and Gimpel 2016, arXiv
    1606.08415. See :func:`gelu_approx` and :func:`gelu_fast_approx` for cheaper forms.

    Args:
        x (array): Elements of any shape; integers are computed in float32.

    Returns:
        array: Of the shape of ``x``, in its floating dtype.

    >>> gelu(mx.array([0.0, 10.0]))
    array([0, 10], dtype=float32)
    """
    return _gelu(x)


def gelu_approx(x: mx.array) -> mx.array:
    r""":func:`gelu` through tanh; within 0.0005 of it.

    :math:`0.5 x (1 + \tanh(\sqrt{2 / \pi} (x + 0.044715 x^3)))`; Hendrycks and Gimpel 2016, arXiv
    1606.08415. Models that were trained with this form need it.

    Args:
        x (array): Elements of any shape; integers are computed in float32.

    Returns:
        array: Of the shape of ``x``, in its floating dtype.

    >>> gelu_approx(mx.array([0.0, 10.0]))
    array([0, 10], dtype=float32)
    """
    return _gelu_approx(x)


def gelu_fast_approx(x: mx.array) -> mx.array:
    """:func:`gelu` through the logistic function: ``x * sigmoid(1.702 * x)``; within 0.02 of it.

    Hendrycks and Gimpel 2016, arXiv 1606.08415. Models that were trained with this form ("quick
    GELU") need it.

    Args:
        x (array): Elements of any shape; integers are computed in float32.

    Returns:
        array: Of the shape of ``x``, in its floating dtype.

    >>> gelu_fast_approx(mx.array([0.0, 100.0]))
    array([0, 100], dtype=float32)
    """
    return _gelu_fast_approx(x)


def glu(x: mx.array, axis: int = -1) -> mx.array:
    """The gated linear unit: one half of ``x`` times the sigmoid of the other half.

    Dauphin et al. 2016, "Language Modeling with Gated Convolutional Networks" (arXiv 1612.08083).

    Args:
        x (array): Of even size along ``axis``; integers are computed in float32.
        axis (int, optional): Where to halve. Default: ``-1``.

    Returns:
        array: Of half the size along ``axis``.

    Raises:
        ValueError: if the size along ``axis`` is odd.
        IndexError: if the axis is out of range.

    >>> glu(mx.array([3.0, 0.0]))
    array([1.5], dtype=float32)
    """
    a, b = mx.split(x, 2, axis=axis)
    return a * mx.sigmoid(b)


def step(x: mx.array, threshold: float = 0.0) -> mx.array:
    """One where ``x`` is at least ``threshold``, zero elsewhere.

    No gradient flows through it. NaN gives zero.

    Args:
        x (array): Elements of any shape and dtype.
        threshold (float, optional): From where on the result is one. Default: ``0.0``.

    Returns:
        array: int32, of the shape of ``x``.

    >>> step(mx.array([-1.0, 0.0, 2.0]))
    array([0, 1, 1], dtype=int32)
    """
    return _step(x, threshold)


def mish(x: mx.array) -> mx.array:
    """The function ``x * tanh(softplus(x))``.

    Computed without overflow; bounded below by about -0.31 and smooth. Misra 2019, "Mish: A Self
    Regularized Non-Monotonic Activation Function" (arXiv 1908.08681).

    Args:
        x (array): Elements of any shape; integers are computed in float32.

    Returns:
        array: Of the shape of ``x``, in its floating dtype.

    >>> mish(mx.array([0.0, 100.0]))
    array([0, 100], dtype=float32)
    """
    return _mish(x)


def hardswish(x: mx.array) -> mx.array:
    r"""A :func:`silu` made of straight lines, :math:`x \min(\max(x + 3, 0), 6) / 6`.

    Zero below -3 and ``x`` above 3. Howard et al. 2019, "Searching for MobileNetV3" (arXiv
    1905.02244).

    Args:
        x (array): Elements of any shape; integers are computed in float32.

    Returns:
        array: Of the shape of ``x``, in its floating dtype.

    >>> hardswish(mx.array([-4.0, 0.0, 3.0]))
    array([-0, 0, 3], dtype=float32)
    """
    return _hardswish(x)


def tanh(x: mx.array) -> mx.array:
    """The hyperbolic tangent, the same as :func:`mlx.core.tanh`.

    The result lies in [-1, 1]; -inf and inf give the ends. The derivative is ``1 - y * y`` for the
    result ``y``.

    Args:
        x (array): Elements of any shape; integers are computed in float32.

    Returns:
        array: Of the shape of ``x``, in its floating dtype.

    >>> tanh(mx.array([0.0]))
    array([0], dtype=float32)
    """
    return mx.tanh(x)


# --- layers --------------------------------------------------------------------------------------
