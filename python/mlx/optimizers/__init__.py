"""Optimisers and learning-rate schedules."""

from mlx.nn import (
    Module as Module,
)
from mlx.optimizers.optimizers import (
    SGD as SGD,
    AdaDelta as AdaDelta,
    Adafactor as Adafactor,
    Adagrad as Adagrad,
    Adam as Adam,
    Adamax as Adamax,
    AdamW as AdamW,
    Lion as Lion,
    MultiOptimizer as MultiOptimizer,
    Muon as Muon,
    Optimizer as Optimizer,
    RMSprop as RMSprop,
    clip_grad_norm as clip_grad_norm,
)
from mlx.optimizers.schedulers import (
    cosine_decay as cosine_decay,
    exponential_decay as exponential_decay,
    join_schedules as join_schedules,
    linear_schedule as linear_schedule,
    step_decay as step_decay,
)
from mlx.utils import (
    tree_flatten as tree_flatten,
    tree_map as tree_map,
    tree_merge as tree_merge,
    tree_reduce as tree_reduce,
    tree_unflatten as tree_unflatten,
)
