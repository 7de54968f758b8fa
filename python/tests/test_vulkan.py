"""What only a GPU stream can get wrong: hazards, residency, caches, kernels' edges, cpu == gpu."""

import os
import subprocess
import sys
import textwrap

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
from random_cases import CASES
from spec import BINARY, UNARY

pytestmark = pytest.mark.gpu

# Many dependent, independent and overlapping dispatches; prints a digest of all the bits.
PROGRAM = """
import hashlib
import mlx.core as mx
mx.set_default_device(mx.gpu)
mx.random.seed(9)
digest = hashlib.sha256()
a, b = mx.random.normal((67, 45)), mx.random.normal((45, 67))
x = a
for i in range(12):
    y = mx.tanh(x @ b) * 0.5
    z = mx.softmax(y + x[:, ::-1][:, :1], axis=-1)
    parts = mx.split(z[:, :66], 3, axis=1)
    w = mx.concatenate([parts[2], parts[0] * 2, mx.transpose(mx.transpose(parts[1]))], axis=1)
    s = mx.sum(w, axis=0, keepdims=True)
    x = (w @ mx.pad(a, [(0, 0), (0, 0)])[:66]) + mx.reshape(s, (66, 1))[:45].T
    w[::2, 1:5] = s[:, 1:5]
    for out in (x, w, mx.argmax(w, axis=1), mx.sum(w, axis=(0, 1)), mx.sort(y, axis=1)):
        digest.update(bytes(memoryview(mx.contiguous(out))))
grad = mx.grad(lambda p: mx.mean(mx.square(mx.sin(p @ b) - 1)))(a)
digest.update(bytes(memoryview(grad)))
print(digest.hexdigest())
"""


def digest(**env):
    return h.python(PROGRAM, env=env, timeout=300).stdout.split()[-1]


def test_full_barriers_give_equal_bits():
    plain = digest()
    assert digest(MLX_VK_FULL_BARRIERS="1") == plain
    assert digest() == plain


@pytest.mark.parametrize(
    "env",
    [
        {"MLX_VK_MAX_OPS_PER_BUFFER": "1"},
        {"MLX_VK_MAX_OPS_PER_BUFFER": "3", "MLX_VK_MAX_INFLIGHT_SEQUENCES": "1"},
        {"MLX_VK_MAX_MB_PER_BUFFER": "1"},
        {"MLX_VK_UNIFIED": "0"},
        {"MLX_VK_DISABLE": "block_turns,batch_keep"},
    ],
    ids=["one op a batch", "one batch in flight", "one MB a batch", "staged copies", "no turns"],
)
def test_batching_and_residency_give_equal_bits(env):
    assert digest(**env) == digest()


def test_two_processes_share_an_empty_cache(tmp_path):
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "MLX_VK_CACHE_DIR": str(tmp_path / "mlx")}
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(PROGRAM)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [run.communicate(timeout=300) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    assert outputs[0][0] == outputs[1][0] == digest() + "\n"


def test_device_is_described():
    info = mx.device_info(mx.gpu)
    assert info["device_name"]
    assert mx.device_count(mx.gpu) >= 1 and mx.is_available(mx.gpu)


def test_choice_by_index_and_name():
    name = mx.device_info(mx.Device(mx.gpu, 0))["device_name"]
    code = "import mlx.core as mx; print(mx.device_info(mx.Device(mx.gpu, 0))['device_name'])"
    assert h.python(code, env={"MLX_VK_DEVICE": name[:6]}).stdout.strip()
    assert h.python(code, env={"MLX_VK_DEVICE": "0"}).stdout.strip() == name


# cpu == gpu


def both(f, *args):
    with mx.stream(mx.cpu):
        c = h.to_np(f(*args))
    with mx.stream(mx.gpu):
        g = h.to_np(f(*args))
    return c, g


@pytest.mark.parametrize("name", [n for n, (_, exact) in CASES.items() if exact])
def test_random_streams_agree(name):
    c, g = both(lambda: CASES[name][0](mx))
    assert c.tobytes() == g.tobytes()


EXACT = [
    *("add subtract multiply maximum minimum bitwise_and bitwise_or bitwise_xor".split()),
    *(
        "equal not_equal less less_equal greater greater_equal logical_and logical_or "
        "logical_xor".split()
    ),
]


@pytest.mark.validation
@pytest.mark.parametrize("dtype", h.INTS)
def test_integer_ops_agree_at_the_edges(dtype, rng):
    info = np.iinfo(dtype)
    edges = np.array([info.min, info.min + 1, 0, 1, 2, info.max - 1, info.max], dtype)
    x = np.concatenate([edges, rng.integers(info.min, info.max, 50, dtype, endpoint=True)])
    a, b = mx.array(x[:, None]), mx.array(x[None])
    for name in EXACT:
        c, g = both(getattr(mx, name), a, b)
        assert c.tobytes() == g.tobytes(), name
    odd = mx.array(np.where(x == 0, 3, x)[None])
    for name in ("floor_divide", "remainder"):
        c, g = both(getattr(mx, name), a, odd)
        assert c.tobytes() == g.tobytes(), name
    for name in ("left_shift", "right_shift"):
        c, g = both(getattr(mx, name), a, mx.arange(info.bits)[None].astype(h.mx_dtype(dtype)))
        assert c.tobytes() == g.tobytes(), name
    for name in ("abs", "bitwise_invert", "negative", "sign", "square"):
        c, g = both(getattr(mx, name), a)
        assert c.tobytes() == g.tobytes(), name


@pytest.mark.validation
@pytest.mark.parametrize("source", h.ALL)
def test_casts_agree(source, rng):
    x = h.quantise(rng.integers(0, 200, 99) * (0.5 if source in h.FLOATS else 1), source)
    a = h.from_np(x, source)
    for target in h.ALL:
        c, g = both(lambda t=target: a.astype(h.mx_dtype(t)))
        assert c.tobytes() == g.tobytes(), target


def test_casts_of_nan_and_infinity_agree():
    a = mx.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 1e30, -1.5, 300.7])
    for target in h.INTS + h.BOOL:
        c, g = both(lambda t=target: a.astype(h.mx_dtype(t)))
        assert c.tobytes() == g.tobytes(), target


@pytest.mark.validation
def test_float_comparisons_rounding_and_copies_agree(rng):
    x = rng.normal(size=3000).astype(np.float32)
    x[:6] = [0, -0.0, np.inf, -np.inf, np.nan, 1]
    a, b = mx.array(x), mx.array(np.roll(x, 1))
    for name in ("less", "equal", "maximum", "minimum", "add", "multiply"):
        c, g = both(getattr(mx, name), a, b)
        np.testing.assert_array_equal(c, g, err_msg=name)
    for name in ("floor", "ceil", "round", "trunc", "negative", "abs", "isnan", "isinf", "sign"):
        c, g = both(getattr(mx, name), a)
        np.testing.assert_array_equal(c, g, err_msg=name)
    for f in (lambda: mx.sort(a), lambda: mx.contiguous(mx.reshape(a, (60, 50)).T[::-1])):
        c, g = both(f)
        assert c.tobytes() == g.tobytes()


def test_float_functions_agree_within_their_ulps(rng):
    for name, op in [*UNARY.items(), *BINARY.items()]:
        if op.rule != "float":
            continue
        x = rng.uniform(max(op.low, 0.1), op.high, (2, 500)).astype(np.float32)
        args = [mx.array(x[0])] if name in UNARY else [mx.array(x[0]), mx.array(x[1])]
        c, g = both(getattr(mx, name), *args)
        assert h.ulp_error(g, c.astype(np.float64)).max() <= 8, name


# Kernels' edges


@pytest.mark.validation
@pytest.mark.parametrize(
    "dtype", ["bool_", "uint8", "int8", "float16", "int16", "int64", "complex64"]
)
def test_odd_sizes_and_offsets_of_narrow_types(dtype):
    """Neighbouring bytes belong to other lanes: a store must not disturb them."""
    for n in (1, 2, 3, 5, 15, 17, 33, 63, 65, 255, 257, 1025):
        x = np.arange(n + 8) % 2
        a = h.from_np(x, dtype)
        for offset in (0, 1, 2, 3, 7):
            y = h.quantise(x[offset : offset + n], dtype)
            got = mx.logical_not(a[offset : offset + n])
            np.testing.assert_array_equal(np.array(got), y == 0)
            np.testing.assert_array_equal(h.to_np(mx.contiguous(a[offset : offset + n])), y)
        b = mx.contiguous(a)
        b[1 : n // 2 + 1] = h.from_np(np.ones(n // 2), dtype)
        want = h.quantise(x, dtype)
        want[1 : n // 2 + 1] = 1
        np.testing.assert_array_equal(h.to_np(b), want)


def test_more_elements_than_one_dispatch_row():
    n = (1 << 22) + 3
    a = mx.arange(n)
    assert mx.sum((a % 7) == 3).item() == len(range(3, n, 7))
    b = mx.broadcast_to(mx.array([1, 2, 3], mx.uint8), (1 << 20, 3))
    assert mx.sum(mx.contiguous(b).astype(mx.int32)).item() == 6 << 20


@pytest.mark.validation
@pytest.mark.parametrize("k", [1, 8, 15, 16, 17, 31, 33, 64, 100, 127])
def test_matmul_tails(k, rng):
    for dtype in ("float32", "float16", "bfloat16"):
        for m, n in [(1, 1), (1, 70), (70, 1), (33, 31), (65, 129)]:
            x = h.quantise(rng.integers(-3, 4, (m, k)), dtype)
            y = h.quantise(rng.integers(-3, 4, (k, n)), dtype)
            want = h.quantise(x.astype(np.float64) @ y.astype(np.float64), dtype)
            a, b = h.from_np(x, dtype), h.from_np(y, dtype)
            np.testing.assert_array_equal(h.to_np(a @ b), want)
            bt = h.from_np(np.ascontiguousarray(y.T), dtype).T
            np.testing.assert_array_equal(h.to_np(a @ bt), want)


def test_matmul_is_true_float32(rng):
    """Ten mantissa bits less (TF32) would show at once."""
    x = (1 + rng.integers(0, 2**11, (64, 64)) * 2.0**-13).astype(np.float32)
    got = h.to_np(mx.array(x) @ mx.eye(64))
    np.testing.assert_array_equal(got, x)


@pytest.mark.validation
def test_reads_after_writes_after_reads():
    """In-place updates and readers of the old value interleave."""
    a = mx.zeros((1000,), mx.int32)
    seen = []
    for i in range(20):
        seen.append(mx.sum(a))
        a[i * 10 : i * 10 + 500] = i + 1
        seen.append(mx.sum(a))
    x = np.zeros(1000, np.int64)
    want = []
    for i in range(20):
        want.append(x.sum())
        x[i * 10 : i * 10 + 500] = i + 1
        want.append(x.sum())
    assert [s.item() for s in seen] == want


@pytest.mark.validation
def test_free_blocks_take_turns():
    """A loop that drops its results: few barriers, few blocks, and what is read is whole."""
    a = mx.arange(100_003, dtype=mx.float32)
    mx.eval(a)
    for _ in range(2):
        mx.synchronize()
        mx.vulkan.stats(reset=True)
        for i in range(40):
            mx.async_eval(a + i)
        mx.synchronize()
    got = mx.vulkan.stats()
    assert got["dispatches"] >= 40 and got["barriers"] <= 12
    before = mx.get_cache_memory()
    for i in range(40):
        b, c = a + i, a * 0.5
        d = b - c
        mx.async_eval(d)
        if i % 8 == 7:
            np.testing.assert_array_equal(
                np.array(d), np.arange(100_003, dtype=np.float32) * 0.5 + i
            )
    assert mx.get_cache_memory() - before <= 8 * a.nbytes


def test_memory_exhausted_in_the_middle_of_an_eval():
    """One part fits, the other does not: an exception that names the size, then normal work."""
    code = """
    import mlx.core as mx
    mx.set_default_device(mx.gpu)
    a = mx.ones((1 << 10,))
    mx.eval(a)
    try:
        mx.eval(a + 1, mx.broadcast_to(a[:, None, None], (1 << 10, 1 << 16, 1 << 16)) + 1)
    except (MemoryError, RuntimeError, ValueError) as e:
        assert any(c.isdigit() for c in str(e)), e
    else:
        raise SystemExit("no exception")
    assert mx.sum(a + 1).item() == 2048
    """
    h.python(code)


def test_parts_of_a_large_array_are_read_in_a_fresh_process():
    """The first host memory of the process is that of a download; parts have their own strides."""
    h.python(
        """
        import numpy as np
        import mlx.core as mx
        mx.set_default_device(mx.gpu)
        x = mx.arange(1 << 20, dtype=mx.int32).reshape(1024, 1024) + 0
        assert x[3, 5].item() == 3 * 1024 + 5
        assert x[10:1000:400, ::-512].tolist() == [
            [r * 1024 + 1023, r * 1024 + 511] for r in (10, 410, 810)
        ]
        part = np.array(x[:, 7])
        assert (part == np.arange(1024) * 1024 + 7).all()
        assert str(x[1023, 1020:]) == "array([1048572, 1048573, 1048574, 1048575], dtype=int32)"
        """
    )


def test_math_is_near_without_float_controls(tmp_path):
    # Optimisers may then join the multiply-adds by which arguments are reduced.
    profile = tmp_path / "no_controls.profile"
    profile.write_text("hide = float_controls\n")
    code = """
    import mlx.core as mx
    import numpy as np
    mx.set_default_device(mx.gpu)
    rng = np.random.default_rng(1)
    wide, far = rng.uniform(-80, 80, 5000), rng.uniform(-9000, 9000, 5000)
    for name, x in ("exp", wide), ("sinh", wide), ("cosh", wide), ("sin", far), ("cos", far):
        x = x.astype(np.float32)
        want = getattr(np, name)(x.astype(np.float64))
        got = np.array(getattr(mx, name)(mx.array(x)))
        ulps = np.abs(got - want) / np.spacing(np.abs(want).astype(np.float32))
        assert np.max(ulps) < 4, (name, np.max(ulps))
    """
    h.python(code, env={"MLX_VK_PROFILE": str(profile)})
