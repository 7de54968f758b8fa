"""Normalisation layers; all take the channels in the last axis."""

import math
from typing import Any, Self

import mlx.core as mx
from mlx.nn.layers.base import Module


def _check_eps(layer: str, eps: float) -> None:
    if eps <= 0.0:
        raise ValueError(f"[{layer}] 'eps' must be positive but got {eps}.")


class InstanceNorm(Module):
    r"""Normalises every channel of every sample over the axes between the first and the last.

    :math:`y = (x - E[x]) / \sqrt{\operatorname{Var}[x] + \epsilon}`. Inputs are (N, ..., dims),
    outputs the same. With ``affine`` the result is multiplied by ``weight``, ones at first, and
    ``bias``, zeros at first, is added, both of shape (dims,). Ulyanov et al. 2016, "Instance
    Normalization" (arXiv 1607.08022).

    Args:
        dims (int): The number of channels.
        eps (float, optional): Added to the variance. Default: ``1e-5``.
        affine (bool, optional): Whether there are a weight and a bias. Default: ``False``.

    Raises:
        ValueError: if ``eps`` is not positive, or when called, if the input has fewer than three
            axes.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.InstanceNorm(4)(mx.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    def __init__(self, dims: int, eps: float = 1e-5, affine: bool = False) -> None:
        super().__init__()
        _check_eps("InstanceNorm", eps)
        if affine:
            self.weight = mx.ones((dims,))
            self.bias = mx.zeros((dims,))
        self.dims = dims
        self.eps = eps

    def _extra_repr(self) -> str:
        return f"{self.dims}, eps={self.eps}, affine={'weight' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        if x.ndim < 3:
            raise ValueError(
                "[InstanceNorm] expects inputs with at least 3 dimensions (N, ..., C) but the "
                f"input has {x.ndim} dimensions"
            )
        # Channels before positions: what layer_norm does to the last axis, in float32.
        positions = mx.flatten(mx.moveaxis(x, -1, 1), 2, -1)
        y = mx.fast.layer_norm(positions, None, None, self.eps)
        y = mx.moveaxis(mx.unflatten(y, -1, x.shape[1:-1]), 1, -1)
        return self.weight * y + self.bias if "weight" in self else y


class LayerNorm(Module):
    r"""Normalises the last axis, then scales and shifts it.

    :math:`y = (x - E[x]) / \sqrt{\operatorname{Var}[x] + \epsilon} \cdot w + b`. Inputs are (...,
    dims), outputs the same. The parameters are ``weight``, ones at first, and ``bias``, zeros at
    first, both of shape (dims,). Ba et al. 2016, "Layer Normalization" (arXiv 1607.06450).

    Args:
        dims (int): The size of the last axis.
        eps (float, optional): Added to the variance. Default: ``1e-5``.
        affine (bool, optional): Whether there is a weight. Default: ``True``.
        bias (bool, optional): Whether there is a bias too, given ``affine``. Default: ``True``.

    Raises:
        ValueError: if ``eps`` is not positive.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.LayerNorm(4)(mx.ones((2, 4))).shape
    (2, 4)
    """

    def __init__(
        self, dims: int, eps: float = 1e-5, affine: bool = True, bias: bool = True
    ) -> None:
        super().__init__()
        _check_eps("LayerNorm", eps)
        if affine:
            self.weight = mx.ones((dims,))
            if bias:
                self.bias = mx.zeros((dims,))
        self.eps = eps
        self.dims = dims

    def _extra_repr(self) -> str:
        return f"{self.dims}, eps={self.eps}, affine={'weight' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        return mx.fast.layer_norm(x, self.get("weight"), self.get("bias"), self.eps)


class RMSNorm(Module):
    r"""Divides by the root of the mean square of the last axis and multiplies by a weight.

    :math:`y = x / \sqrt{E[x^2] + \epsilon} \cdot w`. Inputs are (..., dims), outputs the same. The
    parameter is ``weight``, of shape (dims,), ones at first. Sums are float32. Zhang and Sennrich
    2019, "Root Mean Square Layer Normalization" (arXiv 1910.07467).

    Args:
        dims (int): The size of the last axis.
        eps (float, optional): Added to the mean square. Default: ``1e-5``.

    Raises:
        ValueError: if ``eps`` is not positive.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.RMSNorm(4)(mx.ones((2, 4))).shape
    (2, 4)
    """

    def __init__(self, dims: int, eps: float = 1e-5) -> None:
        super().__init__()
        _check_eps("RMSNorm", eps)
        self.weight = mx.ones((dims,))
        self.eps = eps

    def _extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps}"

    def __call__(self, x: mx.array) -> mx.array:
        return mx.fast.rms_norm(x, self["weight"], self.eps)


class GroupNorm(Module):
    """Normalises groups of channels, each over its channels and all spatial axes of a sample.

    Wu and He 2018, arXiv 1803.08494. With ``affine`` the result is multiplied by ``weight`` and
    ``bias`` is added, both of shape (dims,).

    Args:
        num_groups (int): The number of groups.
        dims (int): The number of channels.
        eps (float, optional): Added to the variance. Default: ``1e-5``.
        affine (bool, optional): Whether there are a weight and a bias. Default: ``True``.
        pytorch_compatible (bool, optional): Whether a group is a run of neighbouring channels, as
            in the paper. Else channel ``c`` is in group ``c % num_groups``. Default: ``False``.

    Raises:
        ValueError: if ``eps``, ``num_groups`` or ``dims`` is not positive, if ``num_groups`` does
            not divide ``dims``, or if the input has fewer than two dimensions.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.GroupNorm(2, 4)(mx.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    def __init__(
        self,
        num_groups: int,
        dims: int,
        eps: float = 1e-5,
        affine: bool = True,
        pytorch_compatible: bool = False,
    ) -> None:
        super().__init__()
        _check_eps("GroupNorm", eps)
        for what, count in (("groups", num_groups), ("features", dims)):
            if count <= 0:
                raise ValueError(f"The number of {what} ({count}) must be a positive integer.")
        if dims % num_groups != 0:
            raise ValueError(
                f"The number of features ({dims}) must be evenly divisible by the number of groups "
                f"({num_groups})."
            )
        if affine:
            self.bias = mx.zeros((dims,))
            self.weight = mx.ones((dims,))
        self.num_groups = num_groups
        self.dims = dims
        self.eps = eps
        self.pytorch_compatible = pytorch_compatible

    def _extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.dims}, eps={self.eps}, affine={'weight' in self}, "
            f"pytorch_compatible={self.pytorch_compatible}"
        )

    def _runs(self, x: mx.array) -> mx.array:
        """Groups of neighbouring channels: one row a group, normalised at once."""
        batch, *spatial, dims = x.shape
        size = dims // self.num_groups
        x = x.reshape(batch, -1, self.num_groups, size).swapaxes(1, 2)
        rows = x.reshape(batch, self.num_groups, -1)
        y = mx.fast.layer_norm(rows, None, None, self.eps)
        y = y.reshape(batch, self.num_groups, -1, size).swapaxes(1, 2)
        return y.reshape(batch, *spatial, dims)

    def _interleaved(self, x: mx.array) -> mx.array:
        """Group g holds the channels g, g + num_groups, ..."""
        rows = x.reshape(x.shape[0], -1, self.num_groups)
        mean = mx.mean(rows, axis=1, keepdims=True)
        var = mx.var(rows, axis=1, keepdims=True)
        return ((rows - mean) * mx.rsqrt(var + self.eps)).reshape(x.shape)

    def __call__(self, x: mx.array) -> mx.array:
        if x.ndim < 2:
            raise ValueError(
                "[GroupNorm] expects inputs with at least 2 dimensions (N, ..., C) but the "
                f"input has {x.ndim} dimensions"
            )
        y = self._runs(x) if self.pytorch_compatible else self._interleaved(x)
        return self.weight * y + self.bias if "weight" in self else y


class BatchNorm(Module):
    """Normalises every channel over the batch and all spatial axes.

    Ioffe and Szegedy 2015, arXiv 1502.03167. In training the statistics are those of the input,
    and running ones follow them; in evaluation the running ones are used. The parameters are
    ``weight`` and ``bias`` (with ``affine``), ``running_mean`` and ``running_var``, each of shape
    (num_features,); the last two are never trained.

    Args:
        num_features (int): The number of channels.
        eps (float, optional): Added to the variance. Default: ``1e-5``.
        momentum (float, optional): The share of the new in the running statistics. Default:
            ``0.1``.
        affine (bool, optional): Whether there are a weight and a bias. Default: ``True``.
        track_running_stats (bool, optional): Whether there are running statistics. Default:
            ``True``.

    Raises:
        ValueError: if ``eps`` is not positive, if the input has not 2, 3 or 4 dimensions, or if it
            has one value a channel in training.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.BatchNorm(4)(mx.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__()
        _check_eps("BatchNorm", eps)
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = mx.ones((num_features,))
            self.bias = mx.zeros((num_features,))
        if track_running_stats:
            self.running_mean = mx.zeros((num_features,))
            self.running_var = mx.ones((num_features,))
            self._freeze_statistics()

    def _freeze_statistics(self) -> None:
        self.freeze(keys=["running_mean", "running_var"], recurse=False)

    def unfreeze(self, *args: Any, **kwargs: Any) -> Self:
        """Undo :meth:`freeze`; the running statistics stay frozen.

        Args:
            args (Any): Those of :meth:`Module.unfreeze`.
            kwargs (Any): Those of :meth:`Module.unfreeze`.

        Returns:
            BatchNorm: The module itself.

        >>> import mlx.nn as nn
        >>> sorted(nn.BatchNorm(2).freeze().unfreeze().trainable_parameters())
        ['bias', 'weight']
        """
        super().unfreeze(*args, **kwargs)
        self._freeze_statistics()
        return self

    def _extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={'weight' in self}, track_running_stats={self.track_running_stats}"
        )

    def _follow(self, mean: mx.array, var: mx.array, count: int) -> None:
        """Move the running statistics towards those of an input with `count` values a channel."""
        mu = self.momentum
        unbiased = var * (count / (count - 1))
        self.running_mean = (1 - mu) * self.running_mean + mu * mean
        self.running_var = (1 - mu) * self.running_var + mu * unbiased

    def __call__(self, x: mx.array) -> mx.array:
        if x.ndim < 2 or x.ndim > 4:
            raise ValueError(
                f"[BatchNorm] Expected input tensor to have 2, 3 or 4 dimensions, but got {x.ndim}"
            )
        count = math.prod(x.shape[:-1])
        # An empty input would leave NaN in the running statistics.
        if self.training and (count == 1 or (count == 0 and self.track_running_stats)):
            raise ValueError(
                f"[BatchNorm] training requires more than one value per channel, got {count}"
            )
        if self.track_running_stats and not self.training:
            mean, var = self.running_mean, self.running_var
        else:
            axes = tuple(range(x.ndim - 1))
            mean, var = mx.mean(x, axis=axes), mx.var(x, axis=axes)
            if self.track_running_stats:
                self._follow(mean, var, count)
        y = (x - mean) * mx.rsqrt(var + self.eps)
        return self.weight * y + self.bias if "weight" in self else y
