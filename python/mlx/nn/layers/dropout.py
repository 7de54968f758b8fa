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


class _ChannelDropout(_Dropout):
    """Keeps whole channels; inputs of other axes are refused in evaluation too."""

    def __call__(self, x: mx.array) -> mx.array:
        self._mask_shape(x)
        return super().__call__(x)


class Dropout(_Dropout):
    """Sets elements to zero at random in training, and scales the others up.

    Inputs have any shape, outputs the same. In training each element stays with the probability ``1
    - p`` and is divided by that, so that means stay; in evaluation the input is returned. There are
    no parameters. Srivastava et al. 2014, "Dropout: A Simple Way to Prevent Neural Networks from
    Overfitting".

    Args:
        p (float, optional): The probability of a zero, in [0, 1). Default: ``0.5``.

    Raises:
        ValueError: if ``p`` is outside [0, 1).

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.Dropout(0.5).eval()(mx.array([1.0, 2.0]))
    array([1, 2], dtype=float32)
    """

    def _mask_shape(self, x: mx.array) -> list[int]:
        return list(x.shape)


class Dropout2d(_ChannelDropout):
    """Sets whole channels of pictures to zero at random in training, and scales the others up.

    Inputs are (N, H, W, C) or (H, W, C), outputs the same. Neighbouring pixels are alike, so that
    single ones that are missing teach little. In evaluation the input is returned. There are no
    parameters. Tompson et al. 2014, "Efficient Object Localization Using Convolutional Networks"
    (arXiv 1411.4280).

    Args:
        p (float, optional): The probability of a zero, in [0, 1). Default: ``0.5``.

    Raises:
        ValueError: if ``p`` is outside [0, 1), or when called, if the input has other axes.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.Dropout2d().eval()(mx.ones((1, 2, 2, 3))).shape
    (1, 2, 2, 3)
    """

    def _mask_shape(self, x: mx.array) -> list[int]:
        return _channels(x, 2, "Dropout2d")


class Dropout3d(_ChannelDropout):
    """Sets whole channels of volumes to zero at random in training, and scales the others up.

    Inputs are (N, D, H, W, C) or (D, H, W, C), outputs the same. In evaluation the input is
    returned. There are no parameters. See :class:`Dropout2d`, which does the same to pictures.

    Args:
        p (float, optional): The probability of a zero, in [0, 1). Default: ``0.5``.

    Raises:
        ValueError: if ``p`` is outside [0, 1), or when called, if the input has other axes.

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
