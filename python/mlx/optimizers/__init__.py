"""Optimisers and learning-rate schedules."""

from mlx.nn import (
    Module as Module,
)
from mlx.optimizers.optimizers import (
    SGD as SGD,
)
from mlx.optimizers.optimizers import (
    AdaDelta as AdaDelta,
)
from mlx.optimizers.optimizers import (
    Adafactor as Adafactor,
)
from mlx.optimizers.optimizers import (
    Adagrad as Adagrad,
)
from mlx.optimizers.optimizers import (
    Adam as Adam,
)
from mlx.optimizers.optimizers import (
    Adamax as Adamax,
)
from mlx.optimizers.optimizers import (
    AdamW as AdamW,
)
from mlx.optimizers.optimizers import (
    Lion as Lion,
)
from mlx.optimizers.optimizers import (
    MultiOptimizer as MultiOptimizer,
)
from mlx.optimizers.optimizers import (
    Muon as Muon,
)
from mlx.optimizers.optimizers import (
    Optimizer as Optimizer,
)
from mlx.optimizers.optimizers import (
    RMSprop as RMSprop,
)
from mlx.optimizers.optimizers import (
    clip_grad_norm as clip_grad_norm,
)
from mlx.optimizers.schedulers import (
    cosine_decay as cosine_decay,
)
from mlx.optimizers.schedulers import (
    exponential_decay as exponential_decay,
)
from mlx.optimizers.schedulers import (
    join_schedules as join_schedules,
)
from mlx.optimizers.schedulers import (
    linear_schedule as linear_schedule,
)
from mlx.optimizers.schedulers import (
    step_decay as step_decay,
)
from mlx.utils import (
    tree_flatten as tree_flatten,
)
from mlx.utils import (
    tree_map as tree_map,
)
from mlx.utils import (
    tree_merge as tree_merge,
)
from mlx.utils import (
    tree_reduce as tree_reduce,
)
from mlx.utils import (
    tree_unflatten as tree_unflatten,
)
