"""Dropout: in training, parts of the input are set to zero at random and the rest is scaled up."""

import mlx.core as mx
from mlx.nn.layers.base import Module


class _Dropout(Module):
    """Keeps each part of the input with the probability ``1 - p`` and divides it by that."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(
                f"[{type(self).__name__}] The dropout probability {p} is not in [0, 1)"
            )
        self._p_1 = 1 - p

    def _extra_repr(self) -> str:
        return f"p={1 - self._p_1}"

    def _mask_shape(self, x: mx.array) -> list[int]:
        raise NotImplementedError

    def __call__(self, x: mx.array) -> mx.array:
        if self._p_1 == 1 or not self.training:
            return x
        keep = mx.random.bernoulli(p=self._p_1, shape=self._mask_shape(x))
        return keep * x * (1 / self._p_1)


class Dropout(_Dropout):
    """Sets elements to zero with probability ``p`` in training, and scales the others up.

    Srivastava et al. 2014, Dropout: A Simple Way to Prevent Neural Networks from Overfitting.

    Parameters
    ----------
    p : float, optional
        The probability, in [0, 1). Default: ``0.5``.

    Raises
    ------
    ValueError
        If ``p`` is outside [0, 1).

    Examples
    --------
    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.Dropout(0.5).eval()(mx.array([1.0, 2.0]))
    array([1, 2], dtype=float32)
    """

    def _mask_shape(self, x: mx.array) -> list[int]:
        return list(x.shape)


class Dropout2d(_Dropout):
    """Sets whole channels to zero with probability ``p`` in training; scales the others up.

    Tompson et al. 2014, arXiv 1411.4280.

    Parameters
    ----------
    p : float, optional
        The probability, in [0, 1). Default: ``0.5``.

    Raises
    ------
    ValueError
        If ``p`` is outside [0, 1) or the input is neither (N, H, W, C) nor (H, W, C).

    Examples
    --------
    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.Dropout2d().eval()(mx.ones((1, 2, 2, 3))).shape
    (1, 2, 2, 3)
    """

    def _mask_shape(self, x: mx.array) -> list[int]:
        return _channels(x, 2, "Dropout2d")


class Dropout3d(_Dropout):
    """Sets whole channels to zero with probability ``p`` in training; scales the others up.

    Parameters
    ----------
    p : float, optional
        The probability, in [0, 1). Default: ``0.5``.

    Raises
    ------
    ValueError
        If ``p`` is outside [0, 1) or the input is neither (N, D, H, W, C) nor (D, H, W, C).

    Examples
    --------
    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.Dropout3d().eval()(mx.ones((1, 2, 2, 2, 3))).shape
    (1, 2, 2, 2, 3)
    """

    def _mask_shape(self, x: mx.array) -> list[int]:
        return _channels(x, 3, "Dropout3d")


def _channels(x: mx.array, spatial: int, name: str) -> list[int]:
    """The shape of a mask that is constant over the spatial axes, which come before the last."""
    if x.ndim not in (spatial + 1, spatial + 2):
        raise ValueError(
            f"[{name}] Received input with {x.ndim} dimensions. "
            f"Expected {spatial + 1} or {spatial + 2} dimensions."
        )
    return [*x.shape[: x.ndim - 1 - spatial], *[1] * spatial, x.shape[-1]]
