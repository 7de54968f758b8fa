"""Learning-rate schedules: functions of the step, an integer array, that return a scalar array.

They are built from array operations only, so that an update with a schedule can be compiled.
"""

import math
from collections.abc import Callable
from typing import Any

import mlx.core as mx

__all__ = [
    "cosine_decay",
    "exponential_decay",
    "join_schedules",
    "linear_schedule",
    "step_decay",
]


def _positive(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"{name} must be greater than 0, but got {value}.")


def exponential_decay(init: float, decay_rate: float) -> Callable[[Any], Any]:
    """A rate that falls by the same factor in every step: ``init * decay_rate ** step``.

    Args:
        init (float): The rate of step 0.
        decay_rate (float): The factor.

    Returns:
        Callable[[array], array]: A function of the step, to be given to an optimiser as its
            learning rate.

    >>> exponential_decay(1.0, 0.5)(mx.array(3))
    array(0.125, dtype=float32)
    """

    def schedule(step: Any) -> Any:
        return init * decay_rate**step

    return schedule


def step_decay(init: float, decay_rate: float, step_size: int) -> Callable[[Any], Any]:
    """A rate that falls by a factor every so many steps.

    ``init * decay_rate ** (step // step_size)``.

    Args:
        init (float): The rate of step 0.
        decay_rate (float): The factor.
        step_size (int): The number of steps between two falls.

    Returns:
        Callable[[array], array]: A function of the step, to be given to an optimiser as its
            learning rate.

    Raises:
        ValueError: if the number of steps is below 1.

    >>> step_decay(1.0, 0.5, 10)(mx.array(29))
    array(0.25, dtype=float32)
    """
    _positive("step_size", step_size)

    def schedule(step: Any) -> Any:
        return init * decay_rate ** (step // step_size)

    return schedule


def cosine_decay(init: float, decay_steps: int, end: float = 0.0) -> Callable[[Any], Any]:
    """A rate that falls along half a cosine wave and then stays.

    ``end + (init - end) * (1 + cos(pi * step / decay_steps)) / 2``. Loshchilov and Hutter 2016,
    "SGDR: Stochastic Gradient Descent with Warm Restarts" (arXiv 1608.03983).

    Args:
        init (float): The rate of step 0.
        decay_steps (int): The step from which on the rate is ``end``.
        end (float, optional): The last rate. Default: ``0.0``.

    Returns:
        Callable[[array], array]: A function of the step, to be given to an optimiser as its
            learning rate.

    Raises:
        ValueError: if the number of steps is below 1.

    >>> cosine_decay(1.0, 10)(mx.array(5))
    array(0.5, dtype=float32)
    """
    _positive("decay_steps", decay_steps)

    def schedule(step: Any) -> mx.array:
        done = mx.minimum(step, decay_steps)
        factor = 0.5 * (1.0 + mx.cos((math.pi / decay_steps) * done))
        return end + factor * (init - end)

    return schedule


def linear_schedule(init: float, end: float, steps: int) -> Callable[[Any], Any]:
    """A rate that goes along a straight line and then stays; for warming up, and for decay.

    ``init + (end - init) * step / steps``.

    Args:
        init (float): The rate of step 0.
        end (float): The last rate.
        steps (int): The step from which on the rate is ``end``.

    Returns:
        Callable[[array], array]: A function of the step, to be given to an optimiser as its
            learning rate.

    Raises:
        ValueError: if the number of steps is below 1.

    >>> linear_schedule(0.0, 1.0, 10)(mx.array(5))
    array(0.5, dtype=float32)
    """
    _positive("steps", steps)

    def schedule(step: Any) -> mx.array:
        return mx.minimum(step, steps) * ((end - init) / steps) + init

    return schedule


def join_schedules(
    schedules: list[Callable[[Any], Any]], boundaries: list[int]
) -> Callable[[Any], Any]:
    """One schedule after the other; each counts its steps from its own beginning.

    Args:
        schedules (list of callable): At least one.
        boundaries (list of int): The first step of every schedule but the first.

    Returns:
        Callable[[array], array]: A function of the step, to be given to an optimiser as its
            learning rate.

    Raises:
        ValueError: if there is no schedule, or not one boundary fewer than schedules.

    >>> warm = join_schedules([linear_schedule(0.0, 1.0, 10), cosine_decay(1.0, 10)], [10])
    >>> warm(mx.array(15))
    array(0.5, dtype=float32)
    """
    if len(schedules) == 0:
        raise ValueError("Must provide at least 1 schedule to join.")
    if len(schedules) != len(boundaries) + 1:
        raise ValueError(
            f"Received {len(boundaries)} boundaries but expected {len(schedules) - 1}."
        )

    def schedule(step: Any) -> Any:
        value = schedules[0](step)
        for boundary, later in zip(boundaries, schedules[1:], strict=True):
            value = mx.where(step < boundary, value, later(step - boundary))
        return value

    return schedule
