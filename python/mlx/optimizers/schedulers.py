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
    """``init * decay_rate ** step``.

    >>> exponential_decay(1.0, 0.5)(mx.array(3))
    array(0.125, dtype=float32)
    """

    def schedule(step: Any) -> Any:
        return init * decay_rate**step

    return schedule


def step_decay(init: float, decay_rate: float, step_size: int) -> Callable[[Any], Any]:
    """``init * decay_rate ** (step // step_size)``; ValueError for a step size below 1.

    >>> step_decay(1.0, 0.5, 10)(mx.array(29))
    array(0.25, dtype=float32)
    """
    _positive("step_size", step_size)

    def schedule(step: Any) -> Any:
        return init * decay_rate ** (step // step_size)

    return schedule


def cosine_decay(init: float, decay_steps: int, end: float = 0.0) -> Callable[[Any], Any]:
    """Half a cosine wave from ``init`` down to ``end`` in ``decay_steps``, then ``end``.

    Loshchilov and Hutter 2016, arXiv 1608.03983. ValueError for fewer steps than one.

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
    """A straight line from ``init`` to ``end`` in ``steps``, then ``end``.

    ValueError for fewer steps than one.

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

    Parameters
    ----------
    schedules : list of callable
        At least one.
    boundaries : list of int
        The first step of every schedule but the first.

    Raises
    ------
    ValueError
        If there is no schedule, or not one boundary fewer than schedules.

    Examples
    --------
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
