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
    """True with a probability, else False.

    Args:
        p (array | number, optional): Probability of True, of a real floating dtype; it broadcasts to `shape`.
            Default: 0.5.
        shape (Sequence[int], optional): Shape of the result. Default: None, that of `p`.
        key (array, optional): Key of the draw. Default: None, the next one of `mx.random.state`.

    Returns:
        array: bool, of shape `shape`.

    Raises:
        ValueError: if `p` is of another dtype or does not broadcast, or the key is no key.

    >>> mx.random.bernoulli(0.5, (3,)).shape
    (3,)
    >>> mx.random.bernoulli(mx.array([0.0, 1.0]))
    array([False, True], dtype=bool)
    """

def categorical(logits: array, axis: int = ..., shape: Sequence[int] | None = ..., num_samples: int | None = ..., key: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Indices drawn with probabilities that are given by logits.

    The probabilities are `softmax(logits)` along an axis, which need not be computed. No gradient flows
    through indices.

    Args:
        logits (array): Logarithms of unnormalised probabilities, one distribution along `axis`.
        axis (int, optional): Axis of the categories; a negative one counts from the last. Default: -1.
        shape (Sequence[int], optional): Shape of the result, to which the shape of `logits` without `axis`
            broadcasts. Default: None, one draw of each distribution.
        num_samples (int, optional): How many draws of each distribution, along a new last axis. Default:
            None, one without an axis.
        key (array, optional): Key of the draw. Default: None, the next one of `mx.random.state`.

    Returns:
        array: uint32 indices.

    Raises:
        ValueError: if both `shape` and `num_samples` are given, the shapes do not broadcast, or the key is no
            key.
        IndexError: if the axis is out of range.

    >>> mx.random.categorical(mx.zeros((3, 4))).shape
    (3,)
    >>> mx.random.categorical(mx.zeros((3, 4)), num_samples=5).shape
    (3, 5)
    """

def gumbel(shape: Sequence[int] = ..., dtype: Dtype | None = ..., key: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Numbers of the standard Gumbel distribution: `-log(-log(u))` of uniform `u`.

    The index of the largest sum of such numbers and logits is a draw with the probabilities of the logits,
    which is how `categorical` works.

    Args:
        shape (Sequence[int], optional): Shape of the result. Default: (), one number.
        dtype (Dtype, optional): A real floating dtype. Default: float32.
        key (array, optional): Key of the draw. Default: None, the next one of `mx.random.state`.

    Returns:
        array: Of shape `shape`.

    Raises:
        ValueError: if the dtype is not a real floating one, or the key is no key.

    >>> mx.random.gumbel((3,)).shape
    (3,)
    """

def key(seed: int) -> array:
    """A key for random draws from a seed.

    The same key gives the same numbers on every device, and those of MLX: the generator is Threefry-2x32 with
    20 rounds (Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3"). Use `split` to get
    independent keys.

    Args:
        seed (int): From 0 to 2 ** 64 - 1.

    Returns:
        array: uint32, of shape (2,): the upper and the lower half of the seed.

    Raises:
        TypeError: if the seed is negative or no integer.

    >>> mx.random.key(7)
    array([0, 7], dtype=uint32)
    """

def laplace(shape: Sequence[int] = ..., dtype: Dtype | None = ..., loc: float = ..., scale: float = ..., key: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Numbers of the Laplace distribution, whose density is `exp(-abs(x - loc) / scale) / (2 * scale)`.

    Args:
        shape (Sequence[int], optional): Shape of the result. Default: (), one number.
        dtype (Dtype, optional): A real floating dtype. Default: float32.
        loc (float, optional): Mean. Default: 0.0.
        scale (float, optional): Mean distance from the mean. Default: 1.0.
        key (array, optional): Key of the draw. Default: None, the next one of `mx.random.state`.

    Returns:
        array: Of shape `shape`.

    Raises:
        ValueError: if the dtype is not a real floating one, or the key is no key.

    >>> mx.random.laplace((3,)).shape
    (3,)
    """

def multivariate_normal(mean: Any, cov: Any, shape: Sequence[int] = ..., dtype: Dtype | None = ..., key: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Vectors of jointly normally distributed numbers.

    A covariance has to be positive semi-definite, which is not checked; it is taken apart by its singular
    values, on the CPU. The batches of means and covariances broadcast with `shape`.

    Args:
        mean (array): Means, (..., n).
        cov (array): Covariances, (..., n, n).
        shape (Sequence[int], optional): Shape of the result without its last axis. Default: (), the batch of
            means and covariances.
        dtype (Dtype, optional): float32, the only one. Default: float32.
        key (array, optional): Key of the draw. Default: None, the next one of `mx.random.state`.

    Returns:
        array: Of shape (..., n), float32.

    Raises:
        ValueError: if the dtype is another one or the shapes do not fit.

    >>> mx.random.multivariate_normal(mx.zeros(2), mx.eye(2), (3,)).shape
    (3, 2)
    """

def normal(shape: Sequence[int] = ..., dtype: Dtype | None = ..., loc: _ArrayLike | None = ..., scale: _ArrayLike | None = ..., key: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Normally distributed numbers.

    They are made from uniform numbers by the inverse error function, so that one uniform number gives one
    result. Parts of complex numbers are independent and have half the variance each.

    Args:
        shape (Sequence[int], optional): Shape of the result. Default: (), one number.
        dtype (Dtype, optional): A floating dtype or complex64. Default: float32.
        loc (array | number, optional): Mean, which broadcasts to `shape`. Default: None, 0.
        scale (array | number, optional): Standard deviation, which broadcasts to `shape`. Default: None, 1.
        key (array, optional): Key of the draw. Default: None, the next one of `mx.random.state`.

    Returns:
        array: Of shape `shape`.

    Raises:
        ValueError: if the dtype is an integer one, mean or deviation do not broadcast, or the key is no key.

    >>> mx.random.normal((2, 3)).shape
    (2, 3)
    """

def permutation(x: int | array, axis: int = ..., key: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Numbers, or the parts of an array, in random order.

    Every order is equally probable. The same key gives the same order for a number and for an array of that
    length.

    Args:
        x (int | array): The count of numbers, or the array.
        axis (int, optional): Axis of an array whose parts are put into another order as a whole; a negative
            one counts from the last. Default: 0.
        key (array, optional): Key of the draw. Default: None, the next one of `mx.random.state`.

    Returns:
        array: The numbers from 0 to `x - 1` (uint32), or the array with its parts in another order.

    Raises:
        ValueError: if the count is negative, or the key is no key.
        IndexError: if the axis is out of range.

    >>> sorted(mx.random.permutation(4).tolist())
    [0, 1, 2, 3]
    """

def randint(low: _ArrayLike, high: _ArrayLike, shape: Sequence[int] = ..., dtype: Dtype | None = ..., key: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Uniformly distributed integers in the half-open interval `[low, high)`.

    Draws are float32; the bounds are converted to the dtype of the result and hold whatever a draw rounds to. Where `high` is not above `low` the result is `low`.

    Args:
        low (array | number): Lower bound, which broadcasts to `shape`.
        high (array | number): Upper bound, which broadcasts to `shape` and is never drawn.
        shape (Sequence[int], optional): Shape of the result. Default: (), one number.
        dtype (Dtype, optional): An integer dtype or bool. Default: int32.
        key (array, optional): Key of the draw. Default: None, the next one of `mx.random.state`.

    Returns:
        array: Of shape `shape`.

    Raises:
        ValueError: if the dtype is another one, the bounds do not broadcast, or the key is no key.

    >>> mx.random.randint(0, 10, (2, 3)).shape
    (2, 3)
    """

def seed(seed: int) -> None:
    """Seeds the process-wide generator, from which draws without a key take theirs.

    Each draw advances `mx.random.state`, so that a seed fixes all draws that follow in the same order.

    Args:
        seed (int): From 0 to 2 ** 64 - 1.

    Returns:
        None

    Raises:
        TypeError: if the seed is negative or no integer.

    >>> mx.random.seed(0)
    >>> a = mx.random.uniform()
    >>> mx.random.seed(0)
    >>> a.item() == mx.random.uniform().item()
    True
    """

def split(key: array, num: int = ..., stream: _StreamOrDevice = ...) -> array:
    """New keys from one, whose draws are independent of each other and of those of that key.

    Args:
        key (array): A key.
        num (int, optional): How many. Default: 2.

    Returns:
        array: uint32, of shape (num, 2): one key a row.

    Raises:
        ValueError: if `key` is no key or `num` is negative.

    >>> a, b = mx.random.split(mx.random.key(0))
    >>> a.shape
    (2,)
    """

def truncated_normal(lower: _ArrayLike, upper: _ArrayLike, shape: Sequence[int] | None = ..., dtype: Dtype | None = ..., key: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Normally distributed numbers of mean 0 and deviation 1 that lie between two bounds.

    Args:
        lower (array | number): Lower bound, which broadcasts to `shape`.
        upper (array | number): Upper bound, which broadcasts to `shape`.
        shape (Sequence[int], optional): Shape of the result. Default: None, the broadcast shape of the
            bounds.
        dtype (Dtype, optional): A real floating dtype. Default: float32.
        key (array, optional): Key of the draw. Default: None, the next one of `mx.random.state`.

    Returns:
        array: Of shape `shape`.

    Raises:
        ValueError: if the dtype is not a real floating one, the bounds do not broadcast, or the key is no
            key.

    >>> x = mx.random.truncated_normal(-1, 1, (3,))
    >>> mx.all(mx.abs(x) <= 1)
    array(True, dtype=bool)
    """

def uniform(low: _ArrayLike = ..., high: _ArrayLike = ..., shape: Sequence[int] = ..., dtype: Dtype | None = ..., key: array | None = ..., stream: _StreamOrDevice = ...) -> array:
    """Uniformly distributed numbers in the half-open interval `[low, high)`.

    Args:
        low (array | number, optional): Lower bound, which broadcasts to `shape`. Default: 0.
        high (array | number, optional): Upper bound, which broadcasts to `shape`; rounding may hit it in
            narrow dtypes. Default: 1.
        shape (Sequence[int], optional): Shape of the result. Default: (), one number.
        dtype (Dtype, optional): A real floating dtype. Default: float32.
        key (array, optional): Key of the draw. Default: None, the next one of `mx.random.state`.

    Returns:
        array: Of shape `shape`.

    Raises:
        ValueError: if the dtype is not a real floating one, the bounds do not broadcast, or the key is no
            key.

    >>> mx.random.uniform(shape=(2, 3)).shape
    (2, 3)
    >>> mx.random.uniform(key=mx.random.key(0)).item() < 1
    True
    """
