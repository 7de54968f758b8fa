"""Optimisers: they keep a state beside the parameters and make new parameters from gradients.

The state is one tree of arrays (``"step"``, ``"learning_rate"`` and other scheduled values at its
top), so that an update can be compiled with ``optimizer.state`` among its inputs and outputs.
Every rule computes in the dtype of the gradient.
"""

import math
from typing import Any

import mlx.core as mx
from mlx.optimizers.base import MultiOptimizer, Optimizer, _Rate
from mlx.utils import tree_flatten, tree_map, tree_merge as tree_merge, tree_reduce

__all__ = [
    "SGD",
    "AdaDelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lion",
    "MultiOptimizer",
    "Muon",
    "Optimizer",
    "RMSprop",
    "clip_grad_norm",
]


def _require(ok: bool, name: str, bound: str, value: float) -> None:
    if not ok:
        raise ValueError(f"{name} should be {bound}, {value} was provided instead")


def _require_betas(name: str, betas: list[float] | tuple[float, ...]) -> None:
    for i, beta in enumerate(betas, 1):
        _require(0 <= beta < 1, f"{name} beta{i}", "in [0, 1)", beta)


class SGD(Optimizer):
    """Stochastic gradient descent with momentum.

    :math:`v' = \\mu v + (1 - \\tau) g`, :math:`w' = w - \\lambda v'`; with ``nesterov``
    :math:`w' = w - \\lambda (g + \\mu v')` (Sutskever et al. 2013).

    Args:
        learning_rate (float | callable): The rate :math:`\\lambda`, or a function of the step.
        momentum (float, optional): :math:`\\mu`. Default: ``0.0``.
        weight_decay (float, optional): A factor on the parameters that is added to the gradients.
            Default: ``0.0``.
        dampening (float, optional): :math:`\\tau`. Default: ``0.0``.
        nesterov (bool, optional): Default: ``False``.

    Raises:
        ValueError: if ``nesterov`` is set without momentum or with dampening.

    >>> import mlx.core as mx, mlx.optimizers as optim
    >>> optim.SGD(0.5).apply_gradients({"w": mx.array([2.0])}, {"w": mx.array([3.0])})
    {'w': array([2], dtype=float32)}
    """

    def __init__(
        self,
        learning_rate: _Rate,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        dampening: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening.")
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.dampening = dampening
        self.nesterov = nesterov

    def init_single(self, parameter: mx.array, state: dict[str, Any]) -> None:
        state["v"] = mx.zeros_like(parameter)

    def apply_single(
        self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]
    ) -> mx.array:
        if self.weight_decay != 0:
            gradient = gradient + parameter * self.weight_decay
        if self.momentum <= 0:
            return parameter - self._rate(gradient) * gradient
        v = self.momentum * state["v"] + (1 - self.dampening) * gradient
        state["v"] = v
        update = gradient + self.momentum * v if self.nesterov else v
        return parameter - self._rate(gradient) * update


class RMSprop(Optimizer):
    """Divides the gradient by the root of a running mean of its square.

    :math:`v' = \\alpha v + (1 - \\alpha) g^2`,
    :math:`w' = w - \\lambda g / (\\sqrt{v'} + \\epsilon)`; Tieleman and Hinton 2012.

    Args:
        learning_rate (float | callable): The rate :math:`\\lambda`, or a function of the step.
        alpha (float, optional): The share of the old mean. Default: ``0.99``.
        eps (float, optional): Default: ``1e-8``.

    Raises:
        ValueError: if ``alpha`` is negative or ``eps`` is not positive.

    >>> import mlx.core as mx, mlx.optimizers as optim
    >>> new = optim.RMSprop(0.1, 0.0).apply_gradients({"w": mx.ones(1)}, {"w": mx.ones(1)})
    >>> new["w"]
    array([0.9], dtype=float32)
    """

    def __init__(self, learning_rate: _Rate, alpha: float = 0.99, eps: float = 1e-8) -> None:
        super().__init__()
        _require(not alpha < 0, "RMSprop alpha", ">=0", alpha)
        _require(not eps <= 0, "RMSprop epsilon", ">0", eps)
        self._maybe_schedule("learning_rate", learning_rate)
        self.alpha = alpha
        self.eps = eps

    def init_single(self, parameter: mx.array, state: dict[str, Any]) -> None:
        state["v"] = mx.zeros_like(parameter)

    def apply_single(
        self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]
    ) -> mx.array:
        v = self.alpha * state["v"] + (1 - self.alpha) * mx.square(gradient)
        state["v"] = v
        return parameter - self._rate(gradient) * gradient / (mx.sqrt(v) + self.eps)


class Adagrad(Optimizer):
    """Divides the gradient by the root of the sum of all its squares.

    :math:`v' = v + g^2`, :math:`w' = w - \\lambda g / (\\sqrt{v'} + \\epsilon)`; Duchi et al. 2011.

    Args:
        learning_rate (float | callable): The rate :math:`\\lambda`, or a function of the step.
        eps (float, optional): Default: ``1e-8``.

    Raises:
        ValueError: if ``eps`` is not positive.

    >>> import mlx.core as mx, mlx.optimizers as optim
    >>> optim.Adagrad(0.1).apply_gradients({"w": mx.ones(1)}, {"w": mx.ones(1)})["w"]
    array([0.9], dtype=float32)
    """

    def __init__(self, learning_rate: _Rate, eps: float = 1e-8) -> None:
        super().__init__()
        _require(not eps <= 0, "Adagrad epsilon", ">0", eps)
        self._maybe_schedule("learning_rate", learning_rate)
        self.eps = eps

    def init_single(self, parameter: mx.array, state: dict[str, Any]) -> None:
        state["v"] = mx.zeros_like(parameter)

    def apply_single(
        self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]
    ) -> mx.array:
        v = state["v"] + mx.square(gradient)
        state["v"] = v
        return parameter - self._rate(gradient) * gradient / (mx.sqrt(v) + self.eps)


class AdaDelta(Optimizer):
    """Scales the gradient by the ratio of the running sizes of updates and gradients.

    :math:`v' = \\rho v + (1 - \\rho) g^2`,
    :math:`d = g \\sqrt{u + \\epsilon} / \\sqrt{v' + \\epsilon}`,
    :math:`u' = \\rho u + (1 - \\rho) d^2`, :math:`w' = w - \\lambda d`; Zeiler 2012,
    arXiv 1212.5701.

    Args:
        learning_rate (float | callable): The rate :math:`\\lambda`, or a function of the step.
        rho (float, optional): The share of the old means. Default: ``0.9``.
        eps (float, optional): Default: ``1e-6``.

    Raises:
        ValueError: if ``rho`` is negative or ``eps`` is not positive.

    >>> import mlx.core as mx, mlx.optimizers as optim
    >>> optim.AdaDelta(1.0).apply_gradients({"w": mx.zeros(1)}, {"w": mx.ones(1)})["w"]
    array([1], dtype=float32)
    """

    def __init__(self, learning_rate: _Rate, rho: float = 0.9, eps: float = 1e-6) -> None:
        super().__init__()
        _require(not rho < 0, "AdaDelta rho", ">=0", rho)
        _require(not eps <= 0, "AdaDelta epsilon", ">0", eps)
        self._maybe_schedule("learning_rate", learning_rate)
        self.rho = rho
        self.eps = eps

    def init_single(self, parameter: mx.array, state: dict[str, Any]) -> None:
        state["v"] = mx.zeros_like(parameter)
        state["u"] = mx.zeros_like(parameter)

    def apply_single(
        self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]
    ) -> mx.array:
        v = self.rho * state["v"] + (1 - self.rho) * mx.square(gradient)
        d = mx.sqrt(state["u"] + self.eps) / mx.sqrt(v + self.eps) * gradient
        state["u"] = self.rho * state["u"] + (1 - self.rho) * mx.square(d)
        state["v"] = v
        return parameter - self._rate(gradient) * d


class Adam(Optimizer):
    """Running means of the gradient and of its square.

    :math:`m' = \\beta_1 m + (1 - \\beta_1) g`, :math:`v' = \\beta_2 v + (1 - \\beta_2) g^2`,
    :math:`w' = w - \\lambda m' / (\\sqrt{v'} + \\epsilon)`; Kingma and Ba 2014, arXiv 1412.6980.

    Args:
        learning_rate (float | callable): The rate :math:`\\lambda`, or a function of the step.
        betas (list of float, optional): The shares of the old means. Default: ``[0.9, 0.999]``.
        eps (float, optional): Default: ``1e-8``.
        bias_correction (bool, optional): Whether to divide the means by :math:`1 - \\beta^t`, as
            in the paper. Default: ``False``.

    Raises:
        ValueError: if a beta is outside [0, 1) or ``eps`` is negative.

    >>> import mlx.core as mx, mlx.optimizers as optim
    >>> adam = optim.Adam(0.1, bias_correction=True)
    >>> mx.round(adam.apply_gradients({"w": mx.ones(1)}, {"w": mx.ones(1)})["w"], 4)
    array([0.9], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: _Rate,
        betas: list[float] = [0.9, 0.999],  # noqa: B006 never changed
        eps: float = 1e-8,
        bias_correction: bool = False,
    ) -> None:
        super().__init__()
        _require_betas("Adam", betas)
        _require(eps >= 0, "Adam epsilon", ">=0", eps)
        self._maybe_schedule("learning_rate", learning_rate)
        self.betas = betas
        self.eps = eps
        self.bias_correction = bias_correction

    def init_single(self, parameter: mx.array, state: dict[str, Any]) -> None:
        state["m"] = mx.zeros_like(parameter)
        state["v"] = mx.zeros_like(parameter)

    def apply_single(
        self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]
    ) -> mx.array:
        b1, b2 = self.betas
        m = b1 * state["m"] + (1 - b1) * gradient
        v = b2 * state["v"] + (1 - b2) * mx.square(gradient)
        state["m"], state["v"] = m, v
        if not self.bias_correction:
            return parameter - self._rate(gradient) * m / (mx.sqrt(v) + self.eps)
        rate = (self.learning_rate / (1 - b1**self.step)).astype(gradient.dtype)
        spread = mx.rsqrt(1 - b2**self.step).astype(gradient.dtype)
        return parameter - rate * m / (mx.sqrt(v) * spread + self.eps)


class AdamW(Adam):
    """:class:`Adam` with weight decay apart from the gradient.

    The parameters are multiplied by :math:`1 - \\lambda \\cdot \\text{weight\\_decay}` before the
    step; Loshchilov and Hutter 2017, arXiv 1711.05101.

    Args:
        learning_rate, betas, eps, bias_correction: As for :class:`Adam`.
        weight_decay (float, optional): Default: ``0.01``.

    Raises:
        ValueError: if a beta is outside [0, 1) or ``eps`` is negative.

    >>> import mlx.core as mx, mlx.optimizers as optim
    >>> adam = optim.AdamW(0.5, weight_decay=1.0)
    >>> adam.apply_gradients({"w": mx.zeros(1)}, {"w": mx.ones(1)})["w"]
    array([0.5], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: _Rate,
        betas: list[float] = [0.9, 0.999],  # noqa: B006 never changed
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        bias_correction: bool = False,
    ) -> None:
        super().__init__(learning_rate, betas, eps, bias_correction)
        self.weight_decay = weight_decay

    def apply_single(
        self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]
    ) -> mx.array:
        decayed = parameter * (1 - self._rate(gradient) * self.weight_decay)
        return super().apply_single(gradient, decayed, state)


class Adamax(Adam):
    """:class:`Adam` with a running maximum in place of the mean of squares.

    :math:`v' = \\max(\\beta_2 v, |g|)`, :math:`w' = w - \\lambda m' / (v' + \\epsilon)`; Kingma and
    Ba 2014, section 7.1.

    Args:
        learning_rate, betas, eps: As for :class:`Adam`.

    Raises:
        ValueError: if a beta is outside [0, 1) or ``eps`` is negative.

    >>> import mlx.core as mx, mlx.optimizers as optim
    >>> optim.Adamax(1.0).apply_gradients({"w": mx.ones(1)}, {"w": mx.ones(1)})["w"]
    array([0.9], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: _Rate,
        betas: list[float] = [0.9, 0.999],  # noqa: B006 never changed
        eps: float = 1e-8,
    ) -> None:
        super().__init__(learning_rate, betas, eps)

    def apply_single(
        self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]
    ) -> mx.array:
        b1, b2 = self.betas
        m = b1 * state["m"] + (1 - b1) * gradient
        v = mx.maximum(b2 * state["v"], mx.abs(gradient))
        state["m"], state["v"] = m, v
        return parameter - self._rate(gradient) * m / (v + self.eps)


class Lion(Optimizer):
    """The sign of a mean of gradient and momentum.

    :math:`c = \\beta_1 m + (1 - \\beta_1) g`, :math:`m' = \\beta_2 m + (1 - \\beta_2) g`,
    :math:`w' = w - \\lambda (\\operatorname{sign} c + \\text{weight\\_decay} \\cdot w)`;
    Chen et al. 2023, arXiv 2302.06675.

    Args:
        learning_rate (float | callable): The rate :math:`\\lambda`, or a function of the step.
        betas (list of float, optional): Default: ``[0.9, 0.99]``.
        weight_decay (float, optional): Default: ``0.0``.

    Raises:
        ValueError: if a beta is outside [0, 1).

    >>> import mlx.core as mx, mlx.optimizers as optim
    >>> optim.Lion(0.5).apply_gradients({"w": mx.ones(1)}, {"w": mx.ones(1)})["w"]
    array([0.5], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: _Rate,
        betas: list[float] = [0.9, 0.99],  # noqa: B006 never changed
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__()
        _require_betas("Lion", betas)
        self._maybe_schedule("learning_rate", learning_rate)
        self.betas = betas
        self.weight_decay = weight_decay

    def init_single(self, parameter: mx.array, state: dict[str, Any]) -> None:
        state["m"] = mx.zeros_like(parameter)

    def apply_single(
        self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]
    ) -> mx.array:
        b1, b2 = self.betas
        rate = self._rate(gradient)
        m = state["m"]
        direction = mx.sign(b1 * m + (1 - b1) * gradient)
        state["m"] = b2 * m + (1 - b2) * gradient
        if self.weight_decay > 0:
            parameter = parameter * (1 - rate * self.weight_decay)
        return parameter - rate * direction


class Adafactor(Optimizer):
    """Adam with the mean of squares of a matrix kept as its row and column means.

    Shazeer and Stern 2018, arXiv 1804.04235, algorithms 4 and 5.

    Args:
        learning_rate (float | callable, optional): Used when ``relative_step`` is off.
        eps (tuple of float, optional): Added to squared gradients, and the least scale of a
            parameter. Default: ``(1e-30, 1e-3)``.
        clip_threshold (float, optional): The largest root mean square of an update. Default:
            ``1.0``.
        decay_rate (float, optional): The power of the step in :math:`1 - t^c`, the share of the
            old mean of squares. Default: ``-0.8``.
        beta_1 (float, optional): The share of the old mean of updates. Default: no such mean.
        weight_decay (float, optional): Default: ``0.0``.
        scale_parameter (bool, optional): Whether the rate is multiplied by the root mean square of
            the parameter. Default: ``True``.
        relative_step (bool, optional): Whether the rate is :math:`\\min(0.01, 1 / \\sqrt t)`.
            Default: ``True``.
        warmup_init (bool, optional): Whether the 0.01 is ``1e-6 * step`` instead. Default:
            ``False``.

    >>> import mlx.core as mx, mlx.optimizers as optim
    >>> optim.Adafactor().apply_gradients({"w": mx.ones((1, 1))}, {"w": mx.ones((1, 1))})["w"]
    array([[0.99]], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: _Rate | None = None,
        eps: tuple[float, float] = (1e-30, 1e-3),
        clip_threshold: float = 1.0,
        decay_rate: float = -0.8,
        beta_1: float | None = None,
        weight_decay: float = 0.0,
        scale_parameter: bool = True,
        relative_step: bool = True,
        warmup_init: bool = False,
    ) -> None:
        super().__init__()
        if learning_rate is not None:
            self._maybe_schedule("learning_rate", learning_rate)
        self.eps = eps
        self.clip_threshold = clip_threshold
        self.decay_rate = decay_rate
        self.beta_1 = beta_1
        self.weight_decay = weight_decay
        self.scale_parameter = scale_parameter
        self.relative_step = relative_step
        self.warmup_init = warmup_init

    def init_single(self, parameter: mx.array, state: dict[str, Any]) -> None:
        if parameter.ndim >= 2:
            *batch, rows, columns = parameter.shape
            state["exp_avg_sq_row"] = mx.zeros((*batch, rows), dtype=parameter.dtype)
            state["exp_avg_sq_col"] = mx.zeros((*batch, columns), dtype=parameter.dtype)
        else:
            state["exp_avg_sq"] = mx.zeros_like(parameter)
        if self.beta_1 is not None:
            state["exp_avg"] = mx.zeros_like(parameter)

    def _relative_rate(self, rms: mx.array) -> mx.array:
        if self.relative_step:
            step = self.step.astype(mx.float32)
            least = 1e-6 * step if self.warmup_init else mx.array(1e-2)
            rate = mx.minimum(least, mx.rsqrt(step))
        else:
            rate = self.learning_rate
        rate = rate.astype(rms.dtype)
        if self.scale_parameter:
            rate = rate * mx.maximum(self.eps[1], rms)
        return rate

    def _normalised(
        self, gradient: mx.array, square: mx.array, beta: mx.array, state: dict[str, Any]
    ) -> mx.array:
        """The gradient over the root of the running mean of `square`."""

        def follow(name: str, value: mx.array) -> mx.array:
            state[name] = beta * state[name] + (1 - beta) * value
            return state[name]

        if gradient.ndim < 2:
            return mx.rsqrt(follow("exp_avg_sq", square)) * gradient
        row = follow("exp_avg_sq_row", mx.mean(square, axis=-1))
        column = follow("exp_avg_sq_col", mx.mean(square, axis=-2))
        return self._approximate_exp_moving_avg(row, column) * gradient

    def _approximate_exp_moving_avg(
        self, exp_avg_sq_row: mx.array, exp_avg_sq_col: mx.array
    ) -> mx.array:
        """One over the root of the matrix that has these means of rows and of columns."""
        mean = mx.mean(exp_avg_sq_row, axis=-1, keepdims=True)
        rows = mx.rsqrt(exp_avg_sq_row / mean)
        return rows[..., None] * mx.rsqrt(exp_avg_sq_col)[..., None, :]

    def apply_single(
        self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]
    ) -> mx.array:
        rms = _rms(parameter)
        rate = self._relative_rate(rms)
        beta = (1.0 - self.step**self.decay_rate).astype(rms.dtype)
        square = mx.square(gradient) + self.eps[0]
        update = self._normalised(gradient, square, beta, state)
        update = rate * update / mx.maximum(1.0, _rms(update) / self.clip_threshold)
        if self.beta_1 is not None:
            update = self.beta_1 * state["exp_avg"] + (1 - self.beta_1) * update
            state["exp_avg"] = update
        if self.weight_decay != 0:
            parameter = parameter - parameter * (rate * self.weight_decay)
        return parameter - update


def _rms(x: mx.array) -> mx.array:
    return mx.sqrt(mx.mean(mx.square(x)))


class Muon(Optimizer):
    """Momentum whose matrices are made nearly orthogonal.

    The singular values of an update are driven to about one by steps of a quintic Newton-Schulz
    iteration; Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks". It
    is meant for matrices; arrays of more dimensions are flattened behind the first axis, others
    take the momentum as it is.

    Args:
        learning_rate (float | callable): The rate, or a function of the step. For matrices with
            more rows than columns it is multiplied by the root of their ratio.
        momentum (float, optional): The share of the old momentum. Default: ``0.95``.
        weight_decay (float, optional): A factor on the parameters, apart from the gradient.
            Default: ``0.01``.
        nesterov (bool, optional): Whether to look ahead. Default: ``True``.
        ns_steps (int, optional): Steps of the iteration. Default: ``5``.

    >>> import mlx.core as mx, mlx.optimizers as optim
    >>> weights = {"w": mx.ones((4, 2))}
    >>> optim.Muon(0.1).apply_gradients(weights, weights)["w"].shape
    (4, 2)
    """

    def __init__(
        self,
        learning_rate: _Rate,
        momentum: float = 0.95,
        weight_decay: float = 0.01,
        nesterov: bool = True,
        ns_steps: int = 5,
    ) -> None:
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.nesterov = nesterov
        self.ns_steps = ns_steps

    def init_single(self, parameter: mx.array, state: dict[str, Any]) -> None:
        state["v"] = mx.zeros_like(parameter)

    def _orthogonalised(self, x: mx.array) -> mx.array:
        """Five coefficients-of-three steps x (a + b x'x + c (x'x)^2) on the smaller Gram matrix."""
        a, b, c = 3.4445, -4.7750, 2.0315
        tall = x.shape[-2] > x.shape[-1]
        if tall:
            x = x.T
        x = x / (mx.linalg.norm(x, keepdims=True) + 1e-7)
        for _ in range(self.ns_steps):
            gram = x @ x.T
            x = a * x + mx.addmm(b * gram, gram, gram, beta=1.0, alpha=c) @ x
        return x.T if tall else x

    def apply_single(
        self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]
    ) -> mx.array:
        if self.weight_decay != 0:
            gradient = gradient + parameter * self.weight_decay
        v = self.momentum * state["v"] + (1 - self.momentum) * gradient
        state["v"] = v
        update = gradient * (1 - self.momentum) + v * self.momentum if self.nesterov else v
        rate = self._rate(gradient)
        if update.ndim >= 2:
            shape = update.shape
            flat = update.reshape(shape[0], math.prod(shape[1:]))
            update = self._orthogonalised(flat).reshape(shape)
            rate = rate * math.sqrt(max(1, shape[-2] / max(1, shape[-1])))
        return parameter - rate * update


def clip_grad_norm(grads: Any, max_norm: float) -> tuple[Any, mx.array]:
    """Scale gradients down to a largest norm.

    The norm is that of all gradients together, as if they were one vector; it is computed in
    float32. Gradients within it stay as they are. Pascanu et al. 2012, "On the Difficulty of
    Training Recurrent Neural Networks" (arXiv 1211.5063).

    Args:
        grads (any): A tree of arrays.
        max_norm (float): The largest norm of all of them together, not negative.

    Returns:
        tuple of (any, array): The scaled gradients, integers among them as float32, and their
        norm before.

    Raises:
        ValueError: if ``max_norm`` is negative.

    >>> import mlx.core as mx, mlx.optimizers as optim
    >>> optim.clip_grad_norm({"w": mx.array([3.0, 4.0])}, 10.0)[1]
    array(5, dtype=float32)
    """
    if max_norm < 0:
        raise ValueError(f"max_norm should be >=0, {max_norm} was provided instead")

    def squares(g: mx.array) -> mx.array:
        # Squares of halves and integers may overflow, their sums lose digits.
        return (g if g.dtype in (mx.float64, mx.complex64) else g.astype(mx.float32)).square().sum()

    def scaled(g: mx.array) -> mx.array:
        # In float32, and rounded once.
        clipped = g * factor
        return clipped.astype(g.dtype) if mx.issubdtype(g.dtype, mx.floating) else clipped

    norm = mx.sqrt(tree_reduce(lambda total, g: total + squares(g), grads, mx.array(0.0)))
    factor = mx.minimum(max_norm / (norm + 1e-6), 1.0)
    floats = {g.dtype for _, g in tree_flatten(grads) if mx.issubdtype(g.dtype, mx.floating)}
    return tree_map(scaled, grads), norm.astype(mx.bfloat16) if floats == {mx.bfloat16} else norm
