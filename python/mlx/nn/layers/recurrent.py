"""Recurrent layers over the axis before the last: inputs are (..., sequence, features)."""

import math
from collections.abc import Callable

import mlx.core as mx
from mlx.nn.layers.activations import tanh
from mlx.nn.layers.base import Module


def _uniform(hidden_size: int, *shape: int) -> mx.array:
    scale = 1.0 / math.sqrt(hidden_size)
    return mx.random.uniform(low=-scale, high=scale, shape=shape)


def _project(x: mx.array, weight: mx.array, bias: mx.array | None) -> mx.array:
    return x @ weight.T if bias is None else mx.addmm(bias, x, weight.T)


class RNN(Module):
    """An Elman network, :math:`h_t = f(W_{xh} x_t + W_{hh} h_{t-1} + b)`.

    Inputs are (..., L, input_size), and optionally the state before the first, (..., hidden_size);
    the output is all states, (..., L, hidden_size). The parameters are ``Wxh``, of shape
    (hidden_size, input_size), ``Whh``, of shape (hidden_size, hidden_size), and ``bias``, of shape
    (hidden_size,), drawn uniformly within one over the root of ``hidden_size``. Elman 1990,
    "Finding Structure in Time".

    Args:
        input_size (int): Size of the last axis of the input.
        hidden_size (int): Size of the state.
        bias (bool, optional): Whether there is a bias. Default: ``True``.
        nonlinearity (callable, optional): The function :math:`f`. Default: :func:`mlx.nn.tanh`.

    Raises:
        ValueError: if ``nonlinearity`` cannot be called.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.RNN(4, 5)(mx.zeros((2, 3, 4))).shape
    (2, 3, 5)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: Callable[[mx.array], mx.array] | None = None,
    ) -> None:
        super().__init__()
        self.nonlinearity = nonlinearity or tanh
        if not callable(self.nonlinearity):
            raise ValueError(f"[RNN] Nonlinearity must be callable. Current value: {nonlinearity}.")
        self.hidden_size = hidden_size
        self.Wxh = _uniform(hidden_size, hidden_size, input_size)
        self.Whh = _uniform(hidden_size, hidden_size, hidden_size)
        self.bias = _uniform(hidden_size, hidden_size) if bias else None

    def _extra_repr(self) -> str:
        return (
            f"input_dims={self.Wxh.shape[1]}, hidden_size={self.hidden_size}, "
            f"nonlinearity={self.nonlinearity}, bias={self.bias is not None}"
        )

    def __call__(self, x: mx.array, hidden: mx.array | None = None) -> mx.array:
        """All states, (..., sequence, hidden_size); ``hidden`` is the one before the first."""
        x = _project(x, self.Wxh, self.bias)
        states = []
        for t in range(x.shape[-2]):
            h = x[..., t, :]
            if hidden is not None:
                h = mx.addmm(h, hidden, self.Whh.T)
            hidden = self.nonlinearity(h)
            states.append(hidden)
        return mx.stack(states, axis=-2)


class GRU(Module):
    """Gated recurrent units.

    Cho et al. 2014, arXiv 1406.1078, with the reset gate after the matrix product:

    .. math::
        r &= \\sigma(W_{xr} x + W_{hr} h + b_r) \\\\
        z &= \\sigma(W_{xz} x + W_{hz} h + b_z) \\\\
        n &= \\tanh(W_{xn} x + b_n + r (W_{hn} h + b_{hn})) \\\\
        h' &= (1 - z) n + z h

    The parameters are ``Wx``, of shape (3 hidden_size, input_size), ``Wh``, of shape
    (3 hidden_size, hidden_size), ``b`` and ``bhn``, of shapes (3 hidden_size,) and (hidden_size,),
    in the order r, z, n; uniform within one over the root of ``hidden_size``.

    Args:
        input_size, hidden_size (int): Sizes of the last axis of the input and of the state.
        bias (bool, optional): Whether there are biases. Default: ``True``.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> nn.GRU(4, 5)(mx.zeros((2, 3, 4))).shape
    (2, 3, 5)
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.Wx = _uniform(hidden_size, 3 * hidden_size, input_size)
        self.Wh = _uniform(hidden_size, 3 * hidden_size, hidden_size)
        self.b = _uniform(hidden_size, 3 * hidden_size) if bias else None
        self.bhn = _uniform(hidden_size, hidden_size) if bias else None

    def _extra_repr(self) -> str:
        return (
            f"input_dims={self.Wx.shape[1]}, hidden_size={self.hidden_size}, "
            f"bias={self.b is not None}"
        )

    def __call__(self, x: mx.array, hidden: mx.array | None = None) -> mx.array:
        """All states, (..., sequence, hidden_size); ``hidden`` is the one before the first."""
        size = self.Wh.shape[-1]
        x = _project(x, self.Wx, self.b)
        states = []
        for t in range(x.shape[-2]):
            gates, new = x[..., t, : 2 * size], x[..., t, 2 * size :]
            inner = self.bhn
            if hidden is not None:
                h = hidden @ self.Wh.T
                gates = gates + h[..., : 2 * size]
                inner = h[..., 2 * size :] if self.bhn is None else h[..., 2 * size :] + self.bhn
            gates = mx.sigmoid(gates)
            reset, keep = gates[..., :size], gates[..., size:]
            new = mx.tanh(new if inner is None else new + reset * inner)
            new = (1 - keep) * new
            hidden = new if hidden is None else new + keep * hidden
            states.append(hidden)
        return mx.stack(states, axis=-2)


class LSTM(Module):
    """Long short-term memory.

    Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000:

    .. math::
        i, f, o &= \\sigma(W_x x + W_h h + b) \\\\
        g &= \\tanh(W_x x + W_h h + b) \\\\
        c' &= f c + i g \\\\
        h' &= o \\tanh(c')

    The parameters are ``Wx``, of shape (4 hidden_size, input_size), ``Wh``, of shape
    (4 hidden_size, hidden_size), and ``bias``, of shape (4 hidden_size,), in the order i, f, g, o;
    uniform within one over the root of ``hidden_size``.

    Args:
        input_size, hidden_size (int): Sizes of the last axis of the input and of the state.
        bias (bool, optional): Whether there is a bias. Default: ``True``.

    >>> import mlx.core as mx, mlx.nn as nn
    >>> hidden, cell = nn.LSTM(4, 5)(mx.zeros((2, 3, 4)))
    >>> hidden.shape, cell.shape
    ((2, 3, 5), (2, 3, 5))
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.Wx = _uniform(hidden_size, 4 * hidden_size, input_size)
        self.Wh = _uniform(hidden_size, 4 * hidden_size, hidden_size)
        self.bias = _uniform(hidden_size, 4 * hidden_size) if bias else None

    def _extra_repr(self) -> str:
        return (
            f"input_dims={self.Wx.shape[1]}, hidden_size={self.hidden_size}, "
            f"bias={self.bias is not None}"
        )

    def __call__(
        self, x: mx.array, hidden: mx.array | None = None, cell: mx.array | None = None
    ) -> tuple[mx.array, mx.array]:
        """All states and cells; ``hidden`` and ``cell`` are those before the first."""
        x = _project(x, self.Wx, self.bias)
        states, cells = [], []
        for t in range(x.shape[-2]):
            parts = x[..., t, :]
            if hidden is not None:
                parts = mx.addmm(parts, hidden, self.Wh.T)
            i, f, g, o = mx.split(parts, 4, axis=-1)
            new = mx.sigmoid(i) * mx.tanh(g)
            cell = new if cell is None else mx.sigmoid(f) * cell + new
            hidden = mx.sigmoid(o) * mx.tanh(cell)
            states.append(hidden)
            cells.append(cell)
        return mx.stack(states, axis=-2), mx.stack(cells, axis=-2)
