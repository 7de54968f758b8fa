# Written by tools/stubs.py from the module itself; do not edit.
"""Random numbers; a key makes a draw repeatable."""

from collections.abc import Sequence
from typing import Any, final
from . import _ArrayLike, Dtype, _StreamOrDevice, array

__all__ = ['bernoulli', 'categorical', 'gumbel', 'key', 'laplace', 'multivariate_normal', 'normal', 'permutation', 'randint', 'seed', 'split', 'state', 'truncated_normal', 'uniform']

state: _RandomState

@final
class _RandomState:
    """The state of the process-wide generator: a sequence of one key, which may be replaced.

    >>> len(mx.random.state)
    1
    """
    def __delitem__(self, index: Any, /) -> None: ...
    def __getitem__(self, index: Any, /) -> array: ...
    def __len__(self) -> int: ...
    def __repr__(self) -> str: ...
    def __setitem__(self, index: Any, value: Any, /) -> None: ...

def bernoulli(p: _ArrayLike = ..., shape: Sequence[int] | None = ..., key: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """True with probability `p`; the shape is that of `p` unless given.

    >>> mx.random.bernoulli(0.5, (3,)).shape
    (3,)
    """

def categorical(logits: array, axis: int = ..., shape: Sequence[int] | None = ..., num_samples: int | None = ..., key: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Indices drawn with the unnormalised log-probabilities along `axis` of `logits`; uint32. One draw for each
    distribution, `num_samples` of them on a new last axis, or as many as `shape`, to which they broadcast, asks.

    >>> mx.random.categorical(mx.zeros((3, 4))).shape
    (3,)
    """

def gumbel(shape: Sequence[int] = ..., dtype: Dtype | None = ..., key: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Standard Gumbel numbers.

    >>> mx.random.gumbel((3,)).shape
    (3,)
    """

def key(seed: int) -> array:
    """A key, a uint32 array of shape (2,), from a seed of up to 64 bits.

    >>> mx.random.key(7)
    array([0, 7], dtype=uint32)
    """

def laplace(shape: Sequence[int] = ..., dtype: Dtype | None = ..., loc: float = ..., scale: float = ..., key: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Laplace numbers with location `loc` and scale `scale`.

    >>> mx.random.laplace((3,)).shape
    (3,)
    """

def multivariate_normal(mean: Any, cov: Any, shape: Sequence[int] = ..., dtype: Dtype | None = ..., key: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Jointly normal numbers with means `(..., n)` and covariances `(..., n, n)`, positive semi-definite; their batches
    broadcast with `shape`. float32 only (ValueError otherwise).

    >>> mx.random.multivariate_normal(mx.zeros(2), mx.eye(2), (3,)).shape
    (3, 2)
    """

def normal(shape: Sequence[int] = ..., dtype: Dtype | None = ..., loc: _ArrayLike | None = ..., scale: _ArrayLike | None = ..., key: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Normal numbers with mean `loc` and standard deviation `scale`.

    >>> mx.random.normal((2, 3)).shape
    (2, 3)
    """

def permutation(x: int | array, axis: int = ..., key: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """The numbers below `x` in random order (uint32), or the array `x` with its rows along `axis` in random order.

    >>> mx.random.permutation(4).shape
    (4,)
    """

def randint(low: _ArrayLike, high: _ArrayLike, shape: Sequence[int] = ..., dtype: Dtype | None = ..., key: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Integers in `[low, high)`; int32 unless another integer dtype is given.

    >>> mx.random.randint(0, 10, (2, 3)).shape
    (2, 3)
    """

def seed(seed: int) -> None:
    """Seeds the process-wide generator.

    >>> mx.random.seed(0)
    """

def split(key: array, num: int = ..., stream: _StreamOrDevice = ...) -> array:
    """`num` new keys from one, of shape (num, 2).

    >>> mx.random.split(mx.random.key(0)).shape
    (2, 2)
    """

def truncated_normal(lower: _ArrayLike, upper: _ArrayLike, shape: Sequence[int] | None = ..., dtype: Dtype | None = ..., key: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Standard normal numbers restricted to `[lower, upper]`; without `shape`, one for each pair of bounds.

    >>> mx.random.truncated_normal(-1, 1, (3,)).shape
    (3,)
    """

def uniform(low: _ArrayLike = ..., high: _ArrayLike = ..., shape: Sequence[int] = ..., dtype: Dtype | None = ..., key: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Uniform numbers in `[low, high)`; the bounds broadcast to `shape`.

    >>> mx.random.uniform(shape=(2, 3)).shape
    (2, 3)
    """
