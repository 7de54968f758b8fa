"""Random streams that are compared with stored numbers: name -> (function of mx, exact).

`exact` streams are made of bits, one multiplication and comparisons and must agree bit for bit. The
others pass through erfinv, log or exp, where an implementation may differ in the last places.
tools/gen_random_constants.py evaluates these with official MLX and writes random_constants.json.
"""

SEED_LOOP = 3


def _key(mx, seed=7):
    return mx.random.key(seed)


def _sequence(mx):
    """Draws from the global state: each call advances it once."""
    mx.random.seed(42)
    draws = [mx.random.uniform(shape=(2,)) for _ in range(SEED_LOOP)]
    draws.append(mx.random.randint(0, 1000, (2,)).astype(mx.float32))
    draws.append(mx.random.bernoulli(0.3, (2,)).astype(mx.float32))
    mx.random.seed(42)
    draws.append(mx.random.uniform(shape=(2,)))
    return mx.concatenate(draws)


CASES = {
    "key_0": (lambda mx: mx.random.key(0), True),
    "key_2**32+5": (lambda mx: mx.random.key(2**32 + 5), True),
    "key_max": (lambda mx: mx.random.key(2**64 - 1), True),
    "split_2": (lambda mx: mx.random.split(_key(mx)), True),
    "split_7": (lambda mx: mx.random.split(_key(mx), 7), True),
    "split_of_split": (lambda mx: mx.random.split(mx.random.split(_key(mx), 3)[1], 2), True),
    "uniform_odd": (lambda mx: mx.random.uniform(shape=(7,), key=_key(mx)), True),
    "uniform_even": (lambda mx: mx.random.uniform(shape=(4, 3), key=_key(mx)), True),
    "uniform_one": (lambda mx: mx.random.uniform(key=_key(mx)), True),
    "uniform_range": (lambda mx: mx.random.uniform(-2, 6, (5,), key=_key(mx)), True),
    "uniform_f16": (lambda mx: mx.random.uniform(shape=(9,), dtype=mx.float16, key=_key(mx)), True),
    "uniform_bf16": (
        lambda mx: mx.random.uniform(shape=(9,), dtype=mx.bfloat16, key=_key(mx)),
        True,
    ),
    "uniform_low_high_arrays": (
        lambda mx: mx.random.uniform(
            mx.array([0.0, 10.0]), mx.array([1.0, 20.0]), (3, 2), key=_key(mx)
        ),
        True,
    ),
    "uniform_1000th": (lambda mx: mx.random.uniform(shape=(1001,), key=_key(mx, 3))[::125], True),
    "randint_i32": (lambda mx: mx.random.randint(-50, 50, (9,), key=_key(mx)), True),
    "randint_u8": (lambda mx: mx.random.randint(0, 200, (9,), dtype=mx.uint8, key=_key(mx)), True),
    "randint_i64": (
        lambda mx: mx.random.randint(0, 100000, (4,), dtype=mx.int64, key=_key(mx)),
        True,
    ),
    "bernoulli_half": (lambda mx: mx.random.bernoulli(shape=(16,), key=_key(mx)), True),
    "bernoulli_p": (lambda mx: mx.random.bernoulli(0.2, (4, 5), key=_key(mx)), True),
    "bernoulli_array": (
        lambda mx: mx.random.bernoulli(mx.array([0.0, 0.25, 0.5, 0.75, 1.0]), key=_key(mx)),
        True,
    ),
    "permutation_10": (lambda mx: mx.random.permutation(10, key=_key(mx)), True),
    "permutation_rows": (
        lambda mx: mx.random.permutation(mx.reshape(mx.arange(12), (4, 3)), key=_key(mx)),
        True,
    ),
    "permutation_columns": (
        lambda mx: mx.random.permutation(mx.reshape(mx.arange(12), (3, 4)), axis=1, key=_key(mx)),
        True,
    ),
    "categorical": (
        lambda mx: mx.random.categorical(mx.log(mx.array([[1.0, 2, 3, 4]] * 8)), key=_key(mx)),
        True,
    ),
    "categorical_axis": (
        lambda mx: mx.random.categorical(mx.zeros((5, 6)), axis=0, key=_key(mx)),
        True,
    ),
    "categorical_samples": (
        lambda mx: mx.random.categorical(mx.zeros((2, 5)), num_samples=6, key=_key(mx)),
        True,
    ),
    "categorical_shape": (
        lambda mx: mx.random.categorical(mx.zeros((3, 5)), shape=(4, 3), key=_key(mx)),
        True,
    ),
    "sequence": (_sequence, True),
    "normal": (lambda mx: mx.random.normal((9,), key=_key(mx)), False),
    "normal_loc_scale": (
        lambda mx: mx.random.normal((3, 3), loc=2.0, scale=0.5, key=_key(mx)),
        False,
    ),
    "normal_f16": (lambda mx: mx.random.normal((9,), dtype=mx.float16, key=_key(mx)), False),
    "normal_bf16": (lambda mx: mx.random.normal((9,), dtype=mx.bfloat16, key=_key(mx)), False),
    "normal_c64": (
        lambda mx: mx.view(mx.random.normal((4,), dtype=mx.complex64, key=_key(mx)), mx.float32),
        False,
    ),
    "truncated_normal": (lambda mx: mx.random.truncated_normal(-1, 2, (9,), key=_key(mx)), False),
    "truncated_normal_arrays": (
        lambda mx: mx.random.truncated_normal(
            mx.array([-1.0, 0.0]), mx.array([0.0, 3.0]), key=_key(mx)
        ),
        False,
    ),
    "gumbel": (lambda mx: mx.random.gumbel((9,), key=_key(mx)), False),
    "laplace": (lambda mx: mx.random.laplace((9,), key=_key(mx)), False),
    "laplace_loc_scale": (
        lambda mx: mx.random.laplace((5,), loc=1.0, scale=3.0, key=_key(mx)),
        False,
    ),
}
