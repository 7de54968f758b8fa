"""Activation functions and the layers that apply them.

Functions of several elementwise steps are compiled without regard to shapes, so that they run as
one fused kernel; those of one step call it directly. Where an input is not floating the result
follows the promotion of `mlx.core`.
"""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
from mlx.nn.layers.activation_functions import (
    celu as celu,
    elu as elu,
    gelu as gelu,
    gelu_approx as gelu_approx,
    gelu_fast_approx as gelu_fast_approx,
    glu as glu,
    hard_shrink as hard_shrink,
    hard_tanh as hard_tanh,
    hardswish as hardswish,
    leaky_relu as leaky_relu,
    log_sigmoid as log_sigmoid,
    log_softmax as log_softmax,
    mish as mish,
    prelu as prelu,
    relu as relu,
    relu2 as relu2,
    relu6 as relu6,
    selu as selu,
    sigmoid as sigmoid,
    silu as silu,
    softmax as softmax,
    softmin as softmin,
    softplus as softplus,
    softshrink as softshrink,
    softsign as softsign,
    step as step,
    tanh as tanh,
)
from mlx.nn.layers.base import Module


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
    """Applies :func:`sigmoid` to every element: :math:`1 / (1 + e^{-x})`.

    The function, which tells about the paper and special values, as a layer for :class:`Sequential`
    and other containers. Inputs have any shape; outputs have that of the input. There are no
    parameters.

    >>> Sigmoid()(mx.array([0.0]))
    array([0.5], dtype=float32)
    """


@_apply(relu)
class ReLU(Module):
    r"""Applies :func:`relu` to every element: :math:`\max(x, 0)`.

    The function, which tells about the paper and special values, as a layer for :class:`Sequential`
    and other containers. Inputs have any shape; outputs have that of the input. There are no
    parameters.

    >>> ReLU()(mx.array([-1.0, 2.0]))
    array([0, 2], dtype=float32)
    """


@_apply(relu2)
class ReLU2(Module):
    r"""Applies :func:`relu2` to every element: :math:`\max(x, 0)^2`.

    The function, which tells about the paper and special values, as a layer for :class:`Sequential`
    and other containers. Inputs have any shape; outputs have that of the input. There are no
    parameters.

    >>> ReLU2()(mx.array([-1.0, 2.0]))
    array([0, 4], dtype=float32)
    """


@_apply(relu6)
class ReLU6(Module):
    r"""Applies :func:`relu6` to every element: :math:`\min(\max(x, 0), 6)`.

    The function, which tells about the paper and special values, as a layer for :class:`Sequential`
    and other containers. Inputs have any shape; outputs have that of the input. There are no
    parameters.

    >>> ReLU6()(mx.array([-1.0, 7.0]))
    array([0, 6], dtype=float32)
    """


@_apply(softmax)
class Softmax(Module):
    r"""Applies :func:`softmax` over the last axis: :math:`e^x / \sum e^x`.

    The function as a layer for :class:`Sequential` and other containers; call it for other axes.
    Inputs have at least one axis; outputs have their shape. There are no parameters.

    >>> Softmax()(mx.array([0.0, 0.0]))
    array([0.5, 0.5], dtype=float32)
    """


@_apply(softmin)
class Softmin(Module):
    r"""Applies :func:`softmin` over the last axis: :math:`e^{-x} / \sum e^{-x}`.

    The function as a layer for :class:`Sequential` and other containers; call it for other axes.
    Inputs have at least one axis; outputs have their shape. There are no parameters.

    >>> Softmin()(mx.array([0.0, 0.0]))
    array([0.5, 0.5], dtype=float32)
    """


@_apply(softplus)
class Softplus(Module):
    r"""Applies :func:`softplus` to every element: :math:`\log(1 + e^x)`.

    The function, which tells about the paper and special values, as a layer for :class:`Sequential`
    and other containers. Inputs have any shape; outputs have that of the input. There are no
    parameters.

    >>> Softplus()(mx.array([100.0]))
    array([100], dtype=float32)
    """


@_apply(softsign)
class Softsign(Module):
    """Applies :func:`softsign` to every element: :math:`x / (1 + |x|)`.

    The function, which tells about the paper and special values, as a layer for :class:`Sequential`
    and other containers. Inputs have any shape; outputs have that of the input. There are no
    parameters.

    >>> Softsign()(mx.array([1.0]))
    array([0.5], dtype=float32)
    """


@_apply(hardswish)
class Hardswish(Module):
    r"""Applies :func:`hardswish` to every element: :math:`x \min(\max(x + 3, 0), 6) / 6`.

    The function, which tells about the paper and special values, as a layer for :class:`Sequential`
    and other containers. Inputs have any shape; outputs have that of the input. There are no
    parameters.

    >>> Hardswish()(mx.array([3.0]))
    array([3], dtype=float32)
    """


@_apply(hard_tanh)
class HardTanh(Module):
    """Applies :func:`hard_tanh` with its bounds -1 and 1 to every element.

    The function as a layer for :class:`Sequential` and other containers; call it for other bounds.
    Inputs have any shape; outputs have that of the input. There are no parameters.

    >>> HardTanh()(mx.array([3.0]))
    array([1], dtype=float32)
    """


@_apply(log_sigmoid)
class LogSigmoid(Module):
    r"""Applies :func:`log_sigmoid` to every element: :math:`-\log(1 + e^{-x})`.

    The function, which tells about the paper and special values, as a layer for :class:`Sequential`
    and other containers. Inputs have any shape; outputs have that of the input. There are no
    parameters.

    >>> LogSigmoid()(mx.array([0.0])).exp()
    array([0.5], dtype=float32)
    """


@_apply(log_softmax)
class LogSoftmax(Module):
    r"""Applies :func:`log_softmax` over the last axis: :math:`x - \log \sum e^x`.

    The function as a layer for :class:`Sequential` and other containers; call it for other axes.
    Inputs have at least one axis; outputs have their shape. There are no parameters.

    >>> LogSoftmax()(mx.array([0.0, 0.0])).exp()
    array([0.5, 0.5], dtype=float32)
    """


@_apply(mish)
class Mish(Module):
    r"""Applies :func:`mish` to every element: :math:`x \tanh(\log(1 + e^x))`.

    The function, which tells about the paper and special values, as a layer for :class:`Sequential`
    and other containers. Inputs have any shape; outputs have that of the input. There are no
    parameters.

    >>> Mish()(mx.array([100.0]))
    array([100], dtype=float32)
    """


@_apply(selu)
class SELU(Module):
    """Applies :func:`selu` to every element: ``1.0507 * elu(x, 1.67326)``.

    The function, which tells about the paper and special values, as a layer for :class:`Sequential`
    and other containers. Inputs have any shape; outputs have that of the input. There are no
    parameters.

    >>> SELU()(mx.array([1.0]))
    array([1.0507], dtype=float32)
    """


@_apply(silu)
class SiLU(Module):
    """Applies :func:`silu` to every element: ``x * sigmoid(x)``.

    The function, which tells about the paper and special values, as a layer for :class:`Sequential`
    and other containers. Inputs have any shape; outputs have that of the input. There are no
    parameters.

    >>> SiLU()(mx.array([100.0]))
    array([100], dtype=float32)
    """


@_apply(tanh)
class Tanh(Module):
    """Applies :func:`tanh` to every element: the hyperbolic tangent.

    The function, which tells about the paper and special values, as a layer for :class:`Sequential`
    and other containers. Inputs have any shape; outputs have that of the input. There are no
    parameters.

    >>> Tanh()(mx.array([0.0]))
    array([0], dtype=float32)
    """


class GLU(Module):
    """Applies :func:`glu`: one half of the input times the sigmoid of the other half.

    Inputs have an even size along the axis and outputs half of it. There are no parameters. Dauphin
    et al. 2016, arXiv 1612.08083.

    Args:
        axis (int, optional): Where to halve the input. Default: ``-1``.

    Raises:
        ValueError: when called, if the size along the axis is odd.

    >>> GLU()(mx.array([3.0, 0.0]))
    array([1.5], dtype=float32)
    """

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def __call__(self, x: mx.array) -> Any:
        return glu(x, axis=self.axis)


class LeakyReLU(Module):
    r"""Applies :func:`leaky_relu` to every element: :math:`\max(s x, x)` for the slope :math:`s`.

    The function, which tells about the paper and special values, as a layer for :class:`Sequential`
    and other containers. Inputs have any shape; outputs have that of the input. There are no
    parameters.

    Args:
        negative_slope (float, optional): The slope below zero. Default: ``0.01``.

    >>> LeakyReLU(0.5)(mx.array([-2.0]))
    array([-1], dtype=float32)
    """

    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__()
        self._negative_slope = negative_slope

    def __call__(self, x: mx.array) -> mx.array:
        return leaky_relu(x, self._negative_slope)


class ELU(Module):
    r"""Applies :func:`elu` to every element: ``x`` where positive, else :math:`\alpha (e^x - 1)`.

    The function, which tells about the paper and special values, as a layer for :class:`Sequential`
    and other containers. Inputs have any shape; outputs have that of the input. There are no
    parameters.

    Args:
        alpha (float, optional): What the function tends to below zero, negated. Default: ``1.0``.

    >>> ELU(2.0)(mx.array([3.0]))
    array([3], dtype=float32)
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self._alpha = alpha

    def __call__(self, x: mx.array) -> mx.array:
        return elu(x, self._alpha)


class CELU(Module):
    r"""Applies :func:`celu` to every element: :math:`\max(x, 0) + \alpha (e^{\min(x, 0) / \alpha} -
    1)`.

    The function, which tells about the paper and special values, as a layer for :class:`Sequential`
    and other containers. Inputs have any shape; outputs have that of the input. There are no
    parameters.

    Args:
        alpha (float, optional): What the function tends to below zero, negated. Default: ``1.0``.

    >>> CELU(2.0)(mx.array([3.0]))
    array([3], dtype=float32)
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self._alpha = alpha

    def __call__(self, x: mx.array) -> mx.array:
        return celu(x, self._alpha)


class Softshrink(Module):
    """Applies :func:`softshrink` to every element: moved towards zero, and zero near it.

    The function, which tells about the paper and special values, as a layer for :class:`Sequential`
    and other containers. Inputs have any shape; outputs have that of the input. There are no
    parameters.

    Args:
        lambd (float, optional): How far to move towards zero. Default: ``0.5``.

    >>> Softshrink(1.0)(mx.array([3.0]))
    array([2], dtype=float32)
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def __call__(self, x: mx.array) -> mx.array:
        return softshrink(x, self.lambd)


class HardShrink(Module):
    """Applies :func:`hard_shrink` to every element: ``x`` where it is far from zero.

    The function, which tells about the paper and special values, as a layer for :class:`Sequential`
    and other containers. Inputs have any shape; outputs have that of the input. There are no
    parameters.

    Args:
        lambd (float, optional): The magnitude up to which the result is zero. Default: ``0.5``.

    >>> HardShrink(1.0)(mx.array([0.75, 3.0]))
    array([0, 3], dtype=float32)
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def __call__(self, x: mx.array) -> mx.array:
        return hard_shrink(x, self.lambd)


class PReLU(Module):
    r"""Applies :func:`prelu` with trained slopes: :math:`\max(0, x) + w \min(0, x)`.

    Inputs have any shape whose last axis has ``num_parameters`` elements, or any where that is 1;
    outputs have that of the input. The parameter is ``weight``, (num_parameters,). He et al. 2015,
    arXiv 1502.01852.

    Args:
        num_parameters (int, optional): The number of slopes: one, or one for each element of the
            last axis. Default: ``1``.
        init (float, optional): The first value of the slopes. Default: ``0.25``.

    Raises:
        ValueError: when called, if the slopes do not broadcast with the input.

    >>> PReLU()(mx.array([-4.0, 4.0]))
    array([-1, 4], dtype=float32)
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        super().__init__()
        self.weight = mx.full([num_parameters], init)

    def __call__(self, x: mx.array) -> mx.array:
        return prelu(x, self.weight)


class Step(Module):
    """Applies :func:`step` to every element: one from the threshold on, else zero, as int32.

    The function, which tells about the paper and special values, as a layer for :class:`Sequential`
    and other containers. Inputs have any shape; outputs have that of the input. There are no
    parameters.

    Args:
        threshold (float, optional): From where on the result is one. Default: ``0.0``.

    >>> Step(1.0)(mx.array([0.5, 3.0]))
    array([0, 1], dtype=int32)
    """

    def __init__(self, threshold: float = 0.0) -> None:
        super().__init__()
        self.threshold = threshold

    def __call__(self, x: mx.array) -> mx.array:
        return step(x, self.threshold)


class GELU(Module):
    """Applies :func:`gelu` or one of its approximations to every element.

    Hendrycks and Gimpel 2016, arXiv 1606.08415. Inputs have any shape; outputs have that of the
    input. There are no parameters.

    Args:
        approx (str, optional): ``"none"`` for :func:`gelu`, ``"precise"`` or ``"tanh"`` for
            :func:`gelu_approx`, ``"fast"`` for :func:`gelu_fast_approx`. Default: ``"none"``.

    Raises:
        ValueError: if ``approx`` is none of these.

    >>> GELU("tanh")(mx.array([10.0]))
    array([10], dtype=float32)
    """

    def __init__(self, approx: str = "none") -> None:
        super().__init__()
        if approx not in list(_GELU):
            raise ValueError(
                f"[GELU] The approximation should be in {list(_GELU)} but '{approx}' was given"
            )
        self._approx = approx

    def __call__(self, x: mx.array) -> mx.array:
        return _GELU[self._approx](x)


_GELU = {"none": gelu, "precise": gelu_approx, "tanh": gelu_approx, "fast": gelu_fast_approx}
