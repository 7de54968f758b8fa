"""Loss functions.

Each takes ``reduction``: ``"none"`` returns the losses as they are, ``"mean"`` and ``"sum"``
their mean and sum. An unknown one raises ValueError, as do inputs of other shapes.
"""

import math
from typing import Literal, get_args

import mlx.core as mx

Reduction = Literal["none", "mean", "sum"]


def _reduce(loss: mx.array, reduction: str = "none") -> mx.array:
    if reduction == "mean":
        return mx.mean(loss)
    if reduction == "sum":
        return mx.sum(loss)
    if reduction == "none":
        return loss
    raise ValueError(
        f"[loss] Invalid reduction '{reduction}'. Must be one of {get_args(Reduction)}."
    )


def _same_shape(a: mx.array, name_a: str, b: mx.array, name_b: str) -> None:
    if a.shape != b.shape:
        raise ValueError(
            f"[loss] {name_a} shape {a.shape} does not match {name_b} shape {b.shape}."
        )


def _weighted(loss: mx.array, weights: mx.array | None) -> mx.array:
    if weights is None:
        return loss
    if weights.shape != loss.shape:
        raise ValueError(
            f"[loss] Weights with shape {weights.shape} is not the same as output loss with shape "
            f"{loss.shape}."
        )
    return loss * weights


_WITH_KERNEL = (mx.float32, mx.float16, mx.bfloat16)


def cross_entropy(
    logits: mx.array,
    targets: mx.array,
    weights: mx.array | None = None,
    axis: int = -1,
    label_smoothing: float = 0.0,
    reduction: Reduction = "none",
) -> mx.array:
    """The cross entropy of targets and the softmax of logits.

    Args:
        logits (array): Scores of the classes along ``axis``.
        targets (array): Class indices, of the shape of ``logits`` without ``axis``, or
            probabilities of its shape.
        weights (array, optional): Factors on the losses, of their shape.
        axis (int, optional): Where the classes are. Default: ``-1``.
        label_smoothing (float, optional): The share of the uniform distribution that is mixed into
            the targets, in [0, 1) (Szegedy et al. 2015, arXiv 1512.00567). Default: ``0.0``.
        reduction (str, optional): Default: ``"none"``.

    Returns:
        array: The losses, of the shape of ``logits`` without ``axis``, or a scalar.

    Raises:
        ValueError: if shapes do not fit or ``label_smoothing`` is outside [0, 1).

    >>> cross_entropy(mx.array([[5.0, -100.0], [0.0, 100.0]]), mx.array([1, 1]))
    array([105, 0], dtype=float32)
    """
    if not 0 <= label_smoothing < 1:
        raise ValueError(
            f"[cross_entropy] Label smoothing must be in [0, 1), got {label_smoothing}."
        )
    probabilities = targets.ndim == logits.ndim
    expected = list(logits.shape)
    if not probabilities and expected:
        expected.pop(axis)
    if list(targets.shape) != expected:
        raise ValueError(
            f"[cross_entropy] Targets shape {targets.shape} does not match logits shape "
            f"{logits.shape}."
        )
    indices = not probabilities and mx.issubdtype(targets.dtype, mx.integer)
    if indices and label_smoothing == 0 and logits.dtype in _WITH_KERNEL:
        loss = mx.fast.cross_entropy(mx.moveaxis(logits, axis, -1), targets).astype(logits.dtype)
        return _reduce(_weighted(loss, weights), reduction)
    # Less the maximum first: beside a large one the normaliser would be rounded away.
    logits = logits - mx.stop_gradient(mx.max(logits, axis=axis, keepdims=True))
    if probabilities:
        score = mx.sum(logits * targets, axis=axis)
    else:
        score = mx.take_along_axis(logits, mx.expand_dims(targets, axis), axis).squeeze(axis)
    normaliser = mx.logsumexp(logits, axis=axis)
    if label_smoothing > 0:
        uniform = mx.mean(logits, axis=axis)
        loss = normaliser - (1 - label_smoothing) * score - label_smoothing * uniform
    else:
        loss = normaliser - score
    return _reduce(_weighted(loss, weights), reduction)


def binary_cross_entropy(
    inputs: mx.array,
    targets: mx.array,
    weights: mx.array | None = None,
    with_logits: bool = True,
    reduction: Reduction = "mean",
) -> mx.array:
    """The cross entropy of targets and predictions with two outcomes.

    Args:
        inputs (array): Logits, or probabilities when ``with_logits`` is off; the logarithms of
            probabilities are cut at -100.
        targets (array): Probabilities, of the shape of ``inputs``.
        weights (array, optional): Factors on the losses, of their shape.
        with_logits (bool, optional): What ``inputs`` are. Default: ``True``.
        reduction (str, optional): Default: ``"mean"``.

    Returns:
        array: The losses or a scalar.

    >>> binary_cross_entropy(mx.array([0.0, 0.0]), mx.array([0.0, 1.0]))
    array(0.693147, dtype=float32)
    """
    _same_shape(inputs, "Inputs", targets, "targets")
    if with_logits:
        loss = mx.logaddexp(0.0, inputs) - inputs * targets
    else:
        positive = mx.maximum(mx.log(inputs), -100)
        negative = mx.maximum(mx.log(1 - inputs), -100)
        loss = -(targets * positive + (1 - targets) * negative)
    return _reduce(_weighted(loss, weights), reduction)


def l1_loss(predictions: mx.array, targets: mx.array, reduction: Reduction = "mean") -> mx.array:
    """The absolute error, :math:`|p - t|`.

    Less sensitive to outliers than :func:`mse_loss`; its gradient has the magnitude 1 everywhere
    but at 0.

    Args:
        predictions (array): Predicted values :math:`p`.
        targets (array): True values :math:`t`, of the same shape.
        reduction (str, optional): ``"none"``, ``"mean"`` or ``"sum"`` of the losses. Default:
            ``"mean"``.

    Returns:
        array: The losses, of the shape of the inputs, or a scalar.

    Raises:
        ValueError: if the shapes differ or the reduction is another one.

    >>> l1_loss(mx.array([1.0, 2.0]), mx.array([0.0, 4.0]))
    array(1.5, dtype=float32)
    """
    _same_shape(predictions, "Predictions", targets, "targets")
    return _reduce(mx.abs(predictions - targets), reduction)


def mse_loss(predictions: mx.array, targets: mx.array, reduction: Reduction = "mean") -> mx.array:
    """The squared error, :math:`(p - t)^2`.

    Its expectation is least where the prediction is the mean of the targets.

    Args:
        predictions (array): Predicted values :math:`p`.
        targets (array): True values :math:`t`, of the same shape.
        reduction (str, optional): ``"none"``, ``"mean"`` or ``"sum"`` of the losses. Default:
            ``"mean"``.

    Returns:
        array: The losses, of the shape of the inputs, or a scalar.

    Raises:
        ValueError: if the shapes differ or the reduction is another one.

    >>> mse_loss(mx.array([1.0, 2.0]), mx.array([0.0, 4.0]))
    array(2.5, dtype=float32)
    """
    _same_shape(predictions, "Predictions", targets, "targets")
    return _reduce(mx.square(predictions - targets), reduction)


def nll_loss(
    inputs: mx.array, targets: mx.array, axis: int = -1, reduction: Reduction = "none"
) -> mx.array:
    """The negated log probability of a class.

    For logits see :func:`cross_entropy`, which needs no probabilities.

    Args:
        inputs (array): Log probabilities of the classes along ``axis``.
        targets (array): Class indices, of the shape of ``inputs`` without ``axis``.
        axis (int, optional): Where the classes are. Default: ``-1``.
        reduction (str, optional): ``"none"``, ``"mean"`` or ``"sum"`` of the losses. Default:
            ``"none"``.

    Returns:
        array: The losses, of the shape of ``targets``, or a scalar.

    Raises:
        ValueError: if the shapes do not fit or the reduction is another one.

    >>> nll_loss(mx.array([[-1.0, -3.0]]), mx.array([1]))
    array([3], dtype=float32)
    """
    chosen = mx.take_along_axis(inputs, mx.expand_dims(targets, axis), axis)
    return _reduce(-chosen.squeeze(axis), reduction)


def gaussian_nll_loss(
    inputs: mx.array,
    targets: mx.array,
    vars: mx.array,
    full: bool = False,
    eps: float = 1e-6,
    reduction: Reduction = "mean",
) -> mx.array:
    r"""The negated log density of targets under normal distributions.

    :math:`\frac12 (\log v + (t - x)^2 / v)` with :math:`v = \max(\text{vars}, \text{eps})`. Nix and
    Weigend 1994, "Estimating the Mean and Variance of the Target Probability Distribution".

    Args:
        inputs (array): Means :math:`x`.
        targets (array): True values :math:`t`, of the same shape.
        vars (array): Variances, of the same shape.
        full (bool, optional): Whether to add the constant :math:`\frac12 \log 2 \pi`. Default:
            ``False``.
        eps (float, optional): The least variance. Default: ``1e-6``.
        reduction (str, optional): ``"none"``, ``"mean"`` or ``"sum"`` of the losses. Default:
            ``"mean"``.

    Returns:
        array: The losses, of the shape of the inputs, or a scalar.

    Raises:
        ValueError: if the shapes differ or the reduction is another one.

    >>> gaussian_nll_loss(mx.array([1.0]), mx.array([3.0]), mx.array([1.0]))
    array(2, dtype=float32)
    """
    _same_shape(inputs, "Inputs", targets, "targets")
    _same_shape(inputs, "Inputs", vars, "vars")
    vars = mx.maximum(vars, eps)
    loss = 0.5 * (mx.log(vars) + mx.square(targets - inputs) / vars)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduce(loss, reduction)


def kl_div_loss(
    inputs: mx.array, targets: mx.array, axis: int = -1, reduction: Reduction = "none"
) -> mx.array:
    r"""The Kullback-Leibler divergence :math:`\sum e^t (t - x)` of log probabilities.

    It is 0 for equal distributions and else positive.

    Args:
        inputs (array): Predicted log probabilities :math:`x` along ``axis``.
        targets (array): True log probabilities :math:`t`, which broadcast with ``inputs``.
        axis (int, optional): What to sum over. Default: ``-1``.
        reduction (str, optional): ``"none"``, ``"mean"`` or ``"sum"`` of the losses. Default:
            ``"none"``.

    Returns:
        array: The losses, without ``axis``, or a scalar.

    Raises:
        ValueError: if the reduction is another one.

    >>> kl_div_loss(mx.array([[-1.0, -2.0]]), mx.array([[-1.0, -2.0]]))
    array([0], dtype=float32)
    """
    return _reduce(mx.sum(mx.exp(targets) * (targets - inputs), axis=axis), reduction)


def smooth_l1_loss(
    predictions: mx.array, targets: mx.array, beta: float = 1.0, reduction: Reduction = "mean"
) -> mx.array:
    r"""A squared error within ``beta`` and an absolute one beyond.

    :math:`(p - t)^2 / (2 \beta)` where :math:`|p - t| < \beta`, else :math:`|p - t| - \beta / 2`.
    Girshick 2015, "Fast R-CNN" (arXiv 1504.08083).

    Args:
        predictions (array): Predicted values :math:`p`.
        targets (array): True values :math:`t`, of the same shape.
        beta (float, optional): Where the two parts meet; 0 gives :func:`l1_loss`. Default: ``1.0``.
        reduction (str, optional): ``"none"``, ``"mean"`` or ``"sum"`` of the losses. Default:
            ``"mean"``.

    Returns:
        array: The losses, of the shape of the inputs, or a scalar.

    Raises:
        ValueError: if the shapes differ or the reduction is another one.

    >>> smooth_l1_loss(mx.array([1.0, 0.5]), mx.array([3.0, 0.0]), reduction="none")
    array([1.5, 0.125], dtype=float32)
    """
    _same_shape(predictions, "Predictions", targets, "targets")
    error = predictions - targets
    distance = mx.abs(error)
    # Nothing is nearer than a distance of 0, and a quotient by it would spoil the gradient.
    none_near = isinstance(beta, int | float) and beta == 0
    near = mx.zeros_like(distance) if none_near else mx.square(error) * 0.5 / beta
    return _reduce(mx.where(distance < beta, near, distance - 0.5 * beta), reduction)


def triplet_loss(
    anchors: mx.array,
    positives: mx.array,
    negatives: mx.array,
    axis: int = -1,
    p: int = 2,
    margin: float = 1.0,
    eps: float = 1e-6,
    reduction: Reduction = "none",
) -> mx.array:
    r"""How much nearer than ``margin`` a negative is than a positive.

    :math:`\max(d(a, p) - d(a, n) + \text{margin}, 0)` with the distance :math:`d(a, b) = (\sum |a -
    b|^p + \text{eps})^{1 / p}`. Schroff et al. 2015, "FaceNet" (arXiv 1503.03832).

    Args:
        anchors (array): Vectors :math:`a` along ``axis``.
        positives (array): Vectors that should be near the anchors.
        negatives (array): Vectors that should be far from them.
        axis (int, optional): Where the vectors lie. Default: ``-1``.
        p (int, optional): The power of the differences. Default: ``2``.
        margin (float, optional): The wanted difference of distances. Default: ``1.0``.
        eps (float, optional): Added to the sum of powers. Default: ``1e-6``.
        reduction (str, optional): ``"none"``, ``"mean"`` or ``"sum"`` of the losses. Default:
            ``"none"``.

    Returns:
        array: The losses, without ``axis``, or a scalar.

    Raises:
        ValueError: if the shapes do not broadcast or the reduction is another one.

    >>> a, b = mx.array([[0.0, 0.0]]), mx.array([[3.0, 4.0]])
    >>> triplet_loss(a, a, b)
    array([0], dtype=float32)
    """

    def distance(other: mx.array) -> mx.array:
        total = mx.power(mx.abs(anchors - other), p).sum(axis) + eps
        return mx.sqrt(total) if p == 2 else mx.power(total, 1 / p)

    loss = mx.maximum(distance(positives) - distance(negatives) + margin, 0)
    return _reduce(loss, reduction)


def hinge_loss(inputs: mx.array, targets: mx.array, reduction: Reduction = "none") -> mx.array:
    r"""The hinge :math:`\max(1 - x t, 0)` for targets -1 and 1.

    It is 0 for scores of the right sign and at least 1. Used by support vector machines.

    Args:
        inputs (array): Scores :math:`x`.
        targets (array): Signs :math:`t`, -1 or 1, which broadcast with ``inputs``.
        reduction (str, optional): ``"none"``, ``"mean"`` or ``"sum"`` of the losses. Default:
            ``"none"``.

    Returns:
        array: The losses, of the broadcast shape, or a scalar.

    Raises:
        ValueError: if the shapes do not broadcast or the reduction is another one.

    >>> hinge_loss(mx.array([0.5, 2.0]), mx.array([1.0, 1.0]))
    array([0.5, 0], dtype=float32)
    """
    return _reduce(mx.maximum(1 - inputs * targets, 0), reduction)


def huber_loss(
    inputs: mx.array, targets: mx.array, delta: float = 1.0, reduction: Reduction = "none"
) -> mx.array:
    r"""Half the squared error within ``delta``, and beyond it a line of slope ``delta``.

    :math:`\frac12 e^2` where :math:`|e| \le \delta`, else :math:`\delta (|e| - \delta / 2)` for the
    error :math:`e`. Huber 1964, "Robust Estimation of a Location Parameter".

    Args:
        inputs (array): Predicted values.
        targets (array): True values, which broadcast with ``inputs``.
        delta (float, optional): Where the two parts meet. Default: ``1.0``.
        reduction (str, optional): ``"none"``, ``"mean"`` or ``"sum"`` of the losses. Default:
            ``"none"``.

    Returns:
        array: The losses, of the broadcast shape, or a scalar.

    Raises:
        ValueError: if the shapes do not broadcast or the reduction is another one.

    >>> huber_loss(mx.array([1.0, 0.5]), mx.array([3.0, 0.0]))
    array([1.5, 0.125], dtype=float32)
    """
    distance = mx.abs(inputs - targets)
    near = mx.minimum(distance, delta)
    return _reduce(0.5 * mx.square(near) + delta * (distance - near), reduction)


def log_cosh_loss(inputs: mx.array, targets: mx.array, reduction: Reduction = "none") -> mx.array:
    r"""The logarithm of the hyperbolic cosine of the error, :math:`\log \cosh(x - t)`.

    About half the squared error near 0 and the absolute error less :math:`\log 2` far from it.
    Computed without overflow.

    Args:
        inputs (array): Predicted values :math:`x`.
        targets (array): True values :math:`t`, which broadcast with ``inputs``.
        reduction (str, optional): ``"none"``, ``"mean"`` or ``"sum"`` of the losses. Default:
            ``"none"``.

    Returns:
        array: The losses, of the broadcast shape, or a scalar.

    Raises:
        ValueError: if the shapes do not broadcast or the reduction is another one.

    >>> log_cosh_loss(mx.array([1.0]), mx.array([1.0]))
    array([0], dtype=float32)
    """
    error = inputs - targets
    return _reduce(mx.logaddexp(error, -error) - math.log(2), reduction)


def cosine_similarity_loss(
    x1: mx.array,
    x2: mx.array,
    axis: int = 1,
    eps: float = 1e-8,
    reduction: Reduction = "none",
) -> mx.array:
    r"""The cosine of the angle between vectors.

    :math:`\sum x_1 x_2 / \max(\|x_1\| \|x_2\|, \text{eps})`: 1 for the same direction, -1 for
    opposite ones. As the name does not tell, it is larger for more similar vectors.

    Args:
        x1 (array): Vectors along ``axis``.
        x2 (array): Vectors along ``axis``, which broadcast with ``x1``.
        axis (int, optional): Where the vectors lie. Default: ``1``.
        eps (float, optional): The least product of norms. Default: ``1e-8``.
        reduction (str, optional): ``"none"``, ``"mean"`` or ``"sum"`` of the cosines. Default:
            ``"none"``.

    Returns:
        array: The cosines, without ``axis``, or a scalar.

    Raises:
        ValueError: if the shapes do not broadcast or the reduction is another one.

    >>> cosine_similarity_loss(mx.array([[1.0, 0.0]]), mx.array([[2.0, 0.0]]))
    array([1], dtype=float32)
    """
    norms = mx.linalg.norm(x1, axis=axis) * mx.linalg.norm(x2, axis=axis)
    return _reduce(mx.sum(x1 * x2, axis=axis) / mx.maximum(norms, eps), reduction)


def margin_ranking_loss(
    inputs1: mx.array,
    inputs2: mx.array,
    targets: mx.array,
    margin: float = 0.0,
    reduction: Reduction = "none",
) -> mx.array:
    r"""How far two scores are from the order that targets -1 and 1 ask for.

    :math:`\max(-t (x_1 - x_2) + \text{margin}, 0)`; for the target 1 the first score should be the
    larger one.

    Args:
        inputs1 (array): First scores.
        inputs2 (array): Second scores, of the same shape.
        targets (array): Signs :math:`t`, -1 or 1, of the same shape.
        margin (float, optional): The wanted difference of scores. Default: ``0.0``.
        reduction (str, optional): ``"none"``, ``"mean"`` or ``"sum"`` of the losses. Default:
            ``"none"``.

    Returns:
        array: The losses, of the shape of the inputs, or a scalar.

    Raises:
        ValueError: if the shapes differ or the reduction is another one.

    >>> margin_ranking_loss(mx.array([1.0]), mx.array([3.0]), mx.array([1]))
    array([2], dtype=float32)
    """
    if not inputs1.shape == inputs2.shape == targets.shape:
        raise ValueError(
            "[margin_ranking_loss] The shapes of the arguments do not match: "
            f"inputs1.shape={inputs1.shape}, inputs2.shape={inputs2.shape}, "
            f"targets.shape={targets.shape}"
        )
    return _reduce(mx.maximum(-targets * (inputs1 - inputs2) + margin, 0), reduction)
