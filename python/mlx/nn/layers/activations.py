"""Activation functions and the layers that apply them.

Functions of several elementwise steps are compiled without regard to shapes, so that they run as
one fused kernel; those of one step call it directly. Where an input is not floating the result
follows the promotion of `mlx.core`.
"""

import math
from collections.abc import Callable
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module


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
    return x / (1 + mx.abs(x))


def sigmoid(x: mx.array) -> mx.array:
    """The logistic function, :math:`1 / (1 + e^{-x})`.

    >>> sigmoid(mx.array([0.0]))
    array([0.5], dtype=float32)
    """
    return mx.sigmoid(x)


def relu(x: mx.array) -> mx.array:
    """The rectified linear unit, :math:`\\max(x, 0)`.

    >>> relu(mx.array([-1.0, 2.0]))
    array([0, 2], dtype=float32)
    """
    return mx.maximum(x, 0)


def relu2(x: mx.array) -> mx.array:
    """The squared rectified linear unit, :math:`\\max(x, 0)^2` (So et al. 2021, Primer).

    >>> relu2(mx.array([-1.0, 2.0]))
    array([0, 4], dtype=float32)
    """
    return _relu2(x)


def relu6(x: mx.array) -> mx.array:
    """The rectified linear unit cut at six, :math:`\\min(\\max(x, 0), 6)`.

    >>> relu6(mx.array([-1.0, 2.0, 7.0]))
    array([0, 2, 6], dtype=float32)
    """
    return _relu6(x)


def leaky_relu(x: mx.array, negative_slope: float = 0.01) -> mx.array:
    """The leaky rectified linear unit, :math:`\\max(\\text{negative\\_slope} \\cdot x, x)`.

    >>> leaky_relu(mx.array([-2.0, 2.0]), 0.5)
    array([-1, 2], dtype=float32)
    """
    return _leaky_relu(x, negative_slope)


def log_softmax(x: mx.array, axis: int = -1) -> mx.array:
    """The logarithm of :func:`softmax`, :math:`x - \\log \\sum e^x` over an axis.

    >>> log_softmax(mx.array([0.0, 0.0])).exp()
    array([0.5, 0.5], dtype=float32)
    """
    return x - mx.logsumexp(x, axis=axis, keepdims=True)


def softmax(x: mx.array, axis: int = -1) -> mx.array:
    """The normalised exponential, :math:`e^x / \\sum e^x` over an axis.

    >>> softmax(mx.array([0.0, 0.0]))
    array([0.5, 0.5], dtype=float32)
    """
    return mx.softmax(x, axis=axis)


def softmin(x: mx.array, axis: int = -1) -> mx.array:
    """The normalised exponential of the negated input: ``softmax(-x)``.

    >>> softmin(mx.array([0.0, 0.0]))
    array([0.5, 0.5], dtype=float32)
    """
    return mx.softmax(-x, axis=axis)


def elu(x: mx.array, alpha: float = 1.0) -> mx.array:
    """The exponential linear unit: ``x`` where positive, else :math:`\\alpha (e^x - 1)`.

    Clevert et al. 2015, arXiv 1511.07289.

    >>> elu(mx.array([0.0, 3.0]))
    array([0, 3], dtype=float32)
    """
    return _elu(x, alpha)


def celu(x: mx.array, alpha: float = 1.0) -> mx.array:
    """The continuously differentiable exponential linear unit.

    :math:`\\max(x, 0) + \\alpha (e^{\\min(x, 0) / \\alpha} - 1)`; Barron 2017, arXiv 1704.07483.

    >>> celu(mx.array([0.0, 3.0]), 2.0)
    array([0, 3], dtype=float32)
    """
    return _celu(x, alpha)


def selu(x: mx.array) -> mx.array:
    """The scaled exponential linear unit: ``1.0507 * elu(x, 1.67326)``.

    Klambauer et al. 2017, arXiv 1706.02515.

    >>> selu(mx.array([0.0, 1.0]))
    array([0, 1.0507], dtype=float32)
    """
    return _selu(x)


def prelu(x: mx.array, alpha: mx.array) -> mx.array:
    """The parametric rectified linear unit: :math:`\\max(0, x) + \\alpha \\min(0, x)`.

    He et al. 2015, arXiv 1502.01852. ``alpha`` broadcasts with ``x``.

    >>> prelu(mx.array([-2.0, 2.0]), mx.array([0.5]))
    array([-1, 2], dtype=float32)
    """
    return _prelu(x, alpha)


def softplus(x: mx.array) -> mx.array:
    """The softplus, :math:`\\log(1 + e^x)`, without overflow.

    >>> softplus(mx.array([100.0]))
    array([100], dtype=float32)
    """
    return mx.logaddexp(x, 0)


def softsign(x: mx.array) -> mx.array:
    """The softsign, :math:`x / (1 + |x|)`.

    >>> softsign(mx.array([-1.0, 3.0]))
    array([-0.5, 0.75], dtype=float32)
    """
    return _softsign(x)


def softshrink(x: mx.array, lambd: float = 0.5) -> mx.array:
    """Moves ``x`` towards zero by ``lambd``; zero within ``lambd`` of it.

    >>> softshrink(mx.array([-2.0, 0.25, 1.0]))
    array([-1.5, 0, 0.5], dtype=float32)
    """
    return _softshrink(x, lambd)


def hard_shrink(x: mx.array, lambd: float = 0.5) -> mx.array:
    """Keeps ``x`` where its magnitude is above ``lambd``; zero elsewhere.

    >>> hard_shrink(mx.array([-2.0, 0.25, 1.0]))
    array([-2, 0, 1], dtype=float32)
    """
    return _hard_shrink(x, lambd)


def hard_tanh(x: mx.array, min_val: float = -1.0, max_val: float = 1.0) -> mx.array:
    """Cuts ``x`` at ``min_val`` and ``max_val``.

    >>> hard_tanh(mx.array([-2.0, 0.25, 3.0]))
    array([-1, 0.25, 1], dtype=float32)
    """
    return _hard_tanh(x, min_val, max_val)


def silu(x: mx.array) -> mx.array:
    """The sigmoid linear unit, also called swish: ``x * sigmoid(x)``.

    >>> silu(mx.array([0.0, 100.0]))
    array([0, 100], dtype=float32)
    """
    return _silu(x)


def log_sigmoid(x: mx.array) -> mx.array:
    """The logarithm of the logistic function: ``-softplus(-x)``.

    >>> log_sigmoid(mx.array([0.0])).exp()
    array([0.5], dtype=float32)
    """
    return _log_sigmoid(x)


def gelu(x: mx.array) -> mx.array:
    """The Gaussian error linear unit: ``x`` times the normal distribution function of ``x``.

    :math:`x (1 + \\operatorname{erf}(x / \\sqrt 2)) / 2`; Hendrycks and Gimpel 2016,
    arXiv 1606.08415. See :func:`gelu_approx` and :func:`gelu_fast_approx` for cheaper forms.

    >>> gelu(mx.array([0.0, 10.0]))
    array([0, 10], dtype=float32)
    """
    return _gelu(x)


def gelu_approx(x: mx.array) -> mx.array:
    """:func:`gelu` through tanh; within 0.0005 of it.

    :math:`0.5 x (1 + \\tanh(\\sqrt{2 / \\pi} (x + 0.044715 x^3)))`

    >>> gelu_approx(mx.array([0.0, 10.0]))
    array([0, 10], dtype=float32)
    """
    return _gelu_approx(x)


def gelu_fast_approx(x: mx.array) -> mx.array:
    """:func:`gelu` through the logistic function: ``x * sigmoid(1.702 * x)``; within 0.02 of it.

    >>> gelu_fast_approx(mx.array([0.0, 100.0]))
    array([0, 100], dtype=float32)
    """
    return _gelu_fast_approx(x)


def glu(x: mx.array, axis: int = -1) -> mx.array:
    """The gated linear unit: one half of ``x`` times the sigmoid of the other half.

    Dauphin et al. 2016, arXiv 1612.08083.

    Parameters
    ----------
    x : array
        Of even size along ``axis``.
    axis : int, optional
        Where to halve. Default: ``-1``.

    Returns
    -------
    array
        Of half the size along ``axis``.

    Raises
    ------
    ValueError
        If the size along ``axis`` is odd.

    Examples
    --------
    >>> glu(mx.array([3.0, 0.0]))
    array([1.5], dtype=float32)
    """
    a, b = mx.split(x, 2, axis=axis)
    return a * mx.sigmoid(b)


def step(x: mx.array, threshold: float = 0.0) -> mx.array:
    """One where ``x`` is at least ``threshold``, zero elsewhere, as int32.

    >>> step(mx.array([-1.0, 0.0, 2.0]))
    array([0, 1, 1], dtype=int32)
    """
    return _step(x, threshold)


def mish(x: mx.array) -> mx.array:
    """``x * tanh(softplus(x))``; Misra 2019, arXiv 1908.08681.

    >>> mish(mx.array([0.0, 100.0]))
    array([0, 100], dtype=float32)
    """
    return _mish(x)


def hardswish(x: mx.array) -> mx.array:
    """:math:`x \\min(\\max(x + 3, 0), 6) / 6`; Howard et al. 2019, arXiv 1905.02244.

    >>> hardswish(mx.array([-4.0, 0.0, 3.0]))
    array([-0, 0, 3], dtype=float32)
    """
    return _hardswish(x)


def tanh(x: mx.array) -> mx.array:
    """The hyperbolic tangent.

    >>> tanh(mx.array([0.0]))
    array([0], dtype=float32)
    """
    return mx.tanh(x)


# --- layers --------------------------------------------------------------------------------------


def _apply(fn: Callable[..., mx.array]) -> Callable[[type[Module]], type[Module]]:
    """Make a layer without parameters out of a function of one array."""

    def decorate(cls: type[Module]) -> type[Module]:
        def call(_: Any, x: mx.array) -> mx.array:
            return fn(x)

        call.__name__, call.__qualname__ = "__call__", f"{cls.__qualname__}.__call__"
        cls.__call__ = call  # type: ignore[method-assign]
        return cls

    return decorate


@_apply(mx.sigmoid)
class Sigmoid(Module):
    """Applies :func:`sigmoid`.

    >>> Sigmoid()(mx.array([0.0]))
    array([0.5], dtype=float32)
    """


@_apply(relu)
class ReLU(Module):
    """Applies :func:`relu`.

    >>> ReLU()(mx.array([-1.0, 2.0]))
    array([0, 2], dtype=float32)
    """


@_apply(relu2)
class ReLU2(Module):
    """Applies :func:`relu2`.

    >>> ReLU2()(mx.array([-1.0, 2.0]))
    array([0, 4], dtype=float32)
    """


@_apply(relu6)
class ReLU6(Module):
    """Applies :func:`relu6`.

    >>> ReLU6()(mx.array([-1.0, 7.0]))
    array([0, 6], dtype=float32)
    """


@_apply(softmax)
class Softmax(Module):
    """Applies :func:`softmax` over the last axis.

    >>> Softmax()(mx.array([0.0, 0.0]))
    array([0.5, 0.5], dtype=float32)
    """


@_apply(softmin)
class Softmin(Module):
    """Applies :func:`softmin` over the last axis.

    >>> Softmin()(mx.array([0.0, 0.0]))
    array([0.5, 0.5], dtype=float32)
    """


@_apply(softplus)
class Softplus(Module):
    """Applies :func:`softplus`.

    >>> Softplus()(mx.array([100.0]))
    array([100], dtype=float32)
    """


@_apply(softsign)
class Softsign(Module):
    """Applies :func:`softsign`.

    >>> Softsign()(mx.array([1.0]))
    array([0.5], dtype=float32)
    """


@_apply(hardswish)
class Hardswish(Module):
    """Applies :func:`hardswish`.

    >>> Hardswish()(mx.array([3.0]))
    array([3], dtype=float32)
    """


@_apply(hard_tanh)
class HardTanh(Module):
    """Applies :func:`hard_tanh` with its limits -1 and 1.

    >>> HardTanh()(mx.array([3.0]))
    array([1], dtype=float32)
    """


@_apply(log_sigmoid)
class LogSigmoid(Module):
    """Applies :func:`log_sigmoid`.

    >>> LogSigmoid()(mx.array([0.0])).exp()
    array([0.5], dtype=float32)
    """


@_apply(log_softmax)
class LogSoftmax(Module):
    """Applies :func:`log_softmax` over the last axis.

    >>> LogSoftmax()(mx.array([0.0, 0.0])).exp()
    array([0.5, 0.5], dtype=float32)
    """


@_apply(mish)
class Mish(Module):
    """Applies :func:`mish`.

    >>> Mish()(mx.array([100.0]))
    array([100], dtype=float32)
    """


@_apply(selu)
class SELU(Module):
    """Applies :func:`selu`.

    >>> SELU()(mx.array([1.0]))
    array([1.0507], dtype=float32)
    """


@_apply(silu)
class SiLU(Module):
    """Applies :func:`silu`.

    >>> SiLU()(mx.array([100.0]))
    array([100], dtype=float32)
    """


@_apply(tanh)
class Tanh(Module):
    """Applies :func:`tanh`.

    >>> Tanh()(mx.array([0.0]))
    array([0], dtype=float32)
    """


class GLU(Module):
    """Applies :func:`glu`.

    Parameters
    ----------
    axis : int, optional
        Where to halve the input. Default: ``-1``.

    Examples
    --------
    >>> GLU()(mx.array([3.0, 0.0]))
    array([1.5], dtype=float32)
    """

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def __call__(self, x: mx.array) -> Any:
        return glu(x, axis=self.axis)


class LeakyReLU(Module):
    """Applies :func:`leaky_relu`.

    Parameters
    ----------
    negative_slope : float, optional
        The slope below zero. Default: ``0.01``.

    Examples
    --------
    >>> LeakyReLU(0.5)(mx.array([-2.0]))
    array([-1], dtype=float32)
    """

    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__()
        self._negative_slope = negative_slope

    def __call__(self, x: mx.array) -> mx.array:
        return leaky_relu(x, self._negative_slope)


class ELU(Module):
    """Applies :func:`elu`.

    Parameters
    ----------
    alpha : float, optional
        What the function tends to, negated. Default: ``1.0``.

    Examples
    --------
    >>> ELU(2.0)(mx.array([3.0]))
    array([3], dtype=float32)
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self._alpha = alpha

    def __call__(self, x: mx.array) -> mx.array:
        return elu(x, self._alpha)


class CELU(Module):
    """Applies :func:`celu`.

    Parameters
    ----------
    alpha : float, optional
        What the function tends to, negated. Default: ``1.0``.

    Examples
    --------
    >>> CELU(2.0)(mx.array([3.0]))
    array([3], dtype=float32)
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self._alpha = alpha

    def __call__(self, x: mx.array) -> mx.array:
        return celu(x, self._alpha)


class Softshrink(Module):
    """Applies :func:`softshrink`.

    Parameters
    ----------
    lambd : float, optional
        How far to move towards zero. Default: ``0.5``.

    Examples
    --------
    >>> Softshrink(1.0)(mx.array([3.0]))
    array([2], dtype=float32)
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def __call__(self, x: mx.array) -> mx.array:
        return softshrink(x, self.lambd)


class HardShrink(Module):
    """Applies :func:`hard_shrink`.

    Parameters
    ----------
    lambd : float, optional
        The magnitude up to which the result is zero. Default: ``0.5``.

    Examples
    --------
    >>> HardShrink(1.0)(mx.array([0.75, 3.0]))
    array([0, 3], dtype=float32)
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def __call__(self, x: mx.array) -> mx.array:
        return hard_shrink(x, self.lambd)


class PReLU(Module):
    """Applies :func:`prelu` with a trained slope, the parameter ``weight``.

    Parameters
    ----------
    num_parameters : int, optional
        The size of ``weight``, which broadcasts with the last axis. Default: ``1``.
    init : float, optional
        The first value of the slopes. Default: ``0.25``.

    Examples
    --------
    >>> PReLU()(mx.array([-4.0, 4.0]))
    array([-1, 4], dtype=float32)
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        super().__init__()
        self.weight = mx.full([num_parameters], init)

    def __call__(self, x: mx.array) -> mx.array:
        return prelu(x, self.weight)


class Step(Module):
    """Applies :func:`step`.

    Parameters
    ----------
    threshold : float, optional
        From where on the result is one. Default: ``0.0``.

    Examples
    --------
    >>> Step(1.0)(mx.array([0.5, 3.0]))
    array([0, 1], dtype=int32)
    """

    def __init__(self, threshold: float = 0.0) -> None:
        super().__init__()
        self.threshold = threshold

    def __call__(self, x: mx.array) -> mx.array:
        return step(x, self.threshold)


class GELU(Module):
    """Applies :func:`gelu` or one of its approximations.

    Parameters
    ----------
    approx : str, optional
        ``"none"`` for :func:`gelu`, ``"precise"`` or ``"tanh"`` for :func:`gelu_approx`,
        ``"fast"`` for :func:`gelu_fast_approx`. Default: ``"none"``.

    Raises
    ------
    ValueError
        If ``approx`` is none of these.

    Examples
    --------
    >>> GELU("tanh")(mx.array([10.0]))
    array([10], dtype=float32)
    """

    def __init__(self, approx: str = "none") -> None:
        super().__init__()
        if approx not in _GELU:
            raise ValueError(
                f"[GELU] The approximation should be in {list(_GELU)} but '{approx}' was given"
            )
        self._approx = approx

    def __call__(self, x: mx.array) -> mx.array:
        return _GELU[self._approx](x)


_GELU = {"none": gelu, "precise": gelu_approx, "tanh": gelu_approx, "fast": gelu_fast_approx}
