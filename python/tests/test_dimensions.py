"""Dimensions: 32 bits each, whatever else is empty; the same refusal wherever a shape is made."""

import copy
import pickle

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
import registered

WIDE = 2**31
OVERFLOW = "21474836[0-9]* is outside the supported range"


REFUSED = (
    ValueError,
    TypeError,
    IndexError,
    OverflowError,
    RuntimeError,
    NotImplementedError,
)


def key():
    return mx.random.key(0)


# Calls that ask for a dimension of 2**31.
TOO_WIDE = {
    "zeros": lambda: mx.zeros(WIDE),
    "zeros sequence": lambda: mx.zeros((1, WIDE)),
    "ones": lambda: mx.ones([WIDE]),
    "empty": lambda: mx.empty(WIDE),
    "full": lambda: mx.full(WIDE, 0.0),
    "reshape": lambda: mx.reshape(mx.zeros(4), [WIDE]),
    "reshape method": lambda: mx.zeros(4).reshape(WIDE),
    "broadcast_to": lambda: mx.broadcast_to(mx.zeros(1), [WIDE, 1]),
    "broadcast_shapes": lambda: mx.broadcast_shapes((WIDE,), (1,)),
    "array": lambda: mx.array(np.broadcast_to(np.zeros(1, np.bool_), (WIDE,))),
    "concatenate": lambda: mx.concatenate([mx.zeros(2**30)] * 2),
    "repeat": lambda: mx.repeat(mx.zeros(2**30), 2),
    "repeats": lambda: mx.repeat(mx.zeros(1), WIDE),
    "tile": lambda: mx.tile(mx.zeros(2**30), 2),
    "reps": lambda: mx.tile(mx.zeros(1), WIDE),
    "reps sequence": lambda: mx.tile(mx.zeros(1), (1, WIDE)),
    "kron": lambda: mx.kron(mx.zeros(2**16), mx.zeros(2**15)),
    "pad": lambda: mx.pad(mx.zeros(2**30), 2**29),
    "pad width": lambda: mx.pad(mx.zeros(2), WIDE),
    "pad pairs": lambda: mx.pad(mx.zeros(2), [(WIDE, 0)]),
    "flatten": lambda: mx.flatten(mx.zeros((2**16, 2**15))),
    "reshape -1": lambda: mx.zeros((2**16, 2**15)).reshape(-1),
    "unflatten": lambda: mx.unflatten(mx.zeros(4), 0, (WIDE, 1)),
    "unflatten empty": lambda: mx.unflatten(mx.zeros((0,)), 0, (WIDE, WIDE)),
    "uniform": lambda: mx.random.uniform(shape=(WIDE,), key=key()),
    "normal": lambda: mx.random.normal((WIDE,), key=key()),
    "randint": lambda: mx.random.randint(0, 3, (WIDE,), key=key()),
    "bernoulli": lambda: mx.random.bernoulli(0.5, (WIDE,), key=key()),
    "truncated_normal": lambda: mx.random.truncated_normal(0.0, 1.0, (WIDE,), key=key()),
    "gumbel": lambda: mx.random.gumbel((WIDE,), key=key()),
    "laplace": lambda: mx.random.laplace((WIDE,), key=key()),
    "categorical": lambda: mx.random.categorical(mx.zeros(3), shape=(WIDE,), key=key()),
    "num_samples": lambda: mx.random.categorical(mx.zeros(3), num_samples=WIDE, key=key()),
    "permutation": lambda: mx.random.permutation(WIDE, key=key()),
    "split keys": lambda: mx.random.split(key(), WIDE),
    "eye": lambda: mx.eye(WIDE),
    "identity": lambda: mx.identity(WIDE),
    "tri": lambda: mx.tri(WIDE),
    "linspace": lambda: mx.linspace(0, 1, WIDE),
    "as_strided": lambda: mx.as_strided(mx.zeros(4), (WIDE,), (0,)),
    "view": lambda: mx.view(mx.broadcast_to(mx.zeros((1,), mx.int64), (2**28,)), mx.int8),
    "conv padding": lambda: mx.conv1d(mx.zeros((1, 2, 1)), mx.zeros((3, 1, 1)), padding=2**30),
    "axis": lambda: mx.sum(mx.zeros(3), axis=WIDE),
    "axes": lambda: mx.transpose(mx.zeros((3, 3)), (0, WIDE)),
    "shift": lambda: mx.roll(mx.zeros(3), WIDE),
}


@pytest.mark.parametrize("name", TOO_WIDE)
def test_dimensions_of_more_than_32_bits(name):
    with pytest.raises(OverflowError, match=OVERFLOW):
        mx.eval(TOO_WIDE[name]())
    h.works()


@pytest.mark.parametrize("wide", [2**31, 2**32, 2**63, 2**70, -(2**31) - 1, -(2**70)])
def test_the_number_stands_in_the_error(wide):
    sequence = f"Integer value {wide} is outside the supported range"
    with pytest.raises(OverflowError, match=f"{wide} is outside the supported range"):
        mx.zeros(wide)
    for call in (lambda: mx.zeros((wide,)), lambda: mx.random.uniform(shape=[wide], key=key())):
        with pytest.raises(OverflowError, match=sequence):
            call()
    with pytest.raises(OverflowError):
        mx.repeat(mx.zeros(1), 1, axis=0) if abs(wide) < 2**63 else mx.eye(wide)
        mx.zeros(4).reshape(wide)


@pytest.mark.parametrize("shape", [1.5, "2", None, {2: 3}, (2, 1.5), (2, None), ("2",), {2, 3}])
def test_shapes_that_are_none(shape):
    for f in (mx.zeros, mx.ones, lambda s: mx.full(s, 1.0)):
        with pytest.raises(TypeError):
            f(shape)


def test_shapes_of_other_integers():
    for shape in (True, np.int64(1), mx.array(1), [np.int32(1)], (mx.array(1),), mx.array([1])):
        assert mx.zeros(shape).shape == (1,)


UNREACHABLE = [
    (0, 2**30, 2**30, 16),
    (2**30, 2**30, 16, 0),
    (2**31 - 1, 0, 2**31 - 1, 2**31 - 1),
]


@pytest.mark.parametrize("shape", UNREACHABLE, ids=str)
def test_empty_axes_hide_no_overflow(shape):
    # Strides, and what a reduction leaves, are products of the axes that are not empty.
    still = (0,) * len(shape)
    for call in (
        lambda: mx.zeros(shape),
        lambda: mx.reshape(mx.zeros((0,)), shape),
        lambda: mx.unflatten(mx.zeros((0, 1)), 0, shape),
        lambda: mx.broadcast_to(mx.zeros((1,)), shape),
        lambda: mx.as_strided(mx.zeros((0,)), shape, still),
        lambda: mx.random.uniform(shape=shape, key=key()),
        lambda: mx.array(np.lib.stride_tricks.as_strided(np.zeros(1), shape, still)),
    ):
        with pytest.raises(ValueError):
            call()


def test_empty_axes_beside_long_ones():
    for shape in [(0, 2**30, 2**28), (2**31 - 1, 0), (3, 0, 2**30)]:
        a = mx.zeros(shape)
        assert a.shape == shape and a.size == 0 and np.array(a).shape == shape
        assert mx.reshape(a, (0,)).tolist() == [] and copy.copy(a).shape == shape
        assert pickle.loads(pickle.dumps(a)).shape == shape


@pytest.fixture
def little_memory():
    limit = mx.set_memory_limit(1 << 28)
    yield
    mx.set_memory_limit(limit)


@pytest.mark.parametrize("shape", [(0,), (2**30, 0), (0, 2**29, 2**30), (2, 0, 2**30)], ids=str)
def test_every_op_on_empty_axes_beside_huge_ones(shape, little_memory):
    """What an op makes of the axes beside an empty one is right, or refused."""
    accepted = 0
    with mx.stream(mx.cpu):
        for c, _ in registered.calls():
            # It makes as many arrays as the axis is long.
            if not c.arrays or c.name.endswith("unstack"):
                continue
            # One array after the other, then all.
            for k in [*range(len(c.arrays)), None]:
                new = [
                    mx.zeros(shape, a.dtype) if k in (i, None) else a
                    for i, a in enumerate(c.arrays)
                ]
                try:
                    results = c.f(*new)
                    mx.eval(results)
                except REFUSED:
                    continue
                accepted += 1
                for r in results:
                    assert np.prod(r.shape, dtype=object) == r.size, c
                    values = np.array(r.astype(mx.float32) if r.dtype == mx.bfloat16 else r)
                    assert values.shape == r.shape, c
    assert accepted > 200
    h.works()


WIDE_INDICES = [2**31, 2**32, -(2**31) - 1, 2**63, 2**70, -(2**70)]


@pytest.mark.parametrize("wide", WIDE_INDICES)
def test_indices_of_more_than_32_bits(wide):
    a = mx.arange(16).reshape(4, 4)
    for index in (
        wide,
        slice(wide, None),
        slice(None, wide),
        slice(None, None, wide),
        (0, wide),
        (..., slice(0, wide)),
    ):
        with pytest.raises(ValueError, match="Slice indices must be 32-bit integers."):
            a[index]
        with pytest.raises(ValueError, match="Slice indices must be 32-bit integers."):
            a[index] = 1
        with pytest.raises(ValueError, match="Slice indices must be 32-bit integers."):
            a.at[index].add(1)
    if abs(wide) < 2**63:
        with pytest.raises(ValueError, match="32-bit"):
            a[np.int64(wide)]
    assert a.tolist() == np.arange(16).reshape(4, 4).tolist()


def test_the_widest_indices():
    a = mx.arange(4)
    assert a[: 2**31 - 1].tolist() == [0, 1, 2, 3] and a[-(2**31) :: 2**31 - 1].tolist() == [0]
    assert a[2**31 - 1 :: -(2**31)].tolist() == [3]
    for index in (2**31 - 1, -(2**31), 4, -5):
        with pytest.raises(IndexError, match="out of bounds"):
            a[index]
