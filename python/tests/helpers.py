"""What the tests share: conversions, layouts, ULP distances and subprocesses.

An array is compared in NumPy; bfloat16, which NumPy lacks, as float32, which holds all of it.
"""

import os
import subprocess
import sys
import textwrap

import mlx.core as mx
import numpy as np

BOOL = ["bool_"]
UINTS = ["uint8", "uint16", "uint32", "uint64"]
SINTS = ["int8", "int16", "int32", "int64"]
INTS = UINTS + SINTS
FLOATS = ["float16", "bfloat16", "float32"]
COMPLEX = ["complex64"]
REAL = BOOL + INTS + FLOATS
ALL = REAL + COMPLEX


def on_gpu():
    """True when the default device of the session is a GPU."""
    return mx.default_device().type == mx.gpu


def on_software():
    """True when the default device is a software driver: a GPU without units for matrices."""
    return on_gpu() and mx.vulkan.describe()["kind"] == "software"


def fit(*sizes):
    """Sizes for matrix units; a quarter of them on a software driver, with what is left over 8."""
    return tuple(n // 32 * 8 + n % 8 for n in sizes) if on_software() else sizes


def session_dtypes():
    """Every dtype the session's device computes in: float64 lives on the CPU alone."""
    return ALL if on_gpu() else ALL + ["float64"]


def mx_dtype(name):
    return getattr(mx, name)


def np_dtype(name):
    """The NumPy dtype that holds every value of the named MLX dtype."""
    return np.dtype({"bfloat16": "float32", "bool_": "bool"}.get(name, name))


def name_of(dtype):
    name = str(dtype).removeprefix("mlx.core.")
    return "bool_" if name == "bool" else name


def to_np(a):
    """The values of an MLX array as a NumPy array; bfloat16 becomes float32."""
    if a.dtype == mx.bfloat16:
        a = a.astype(mx.float32, stream=mx.cpu)
    return np.array(a)


def round_bf16(x):
    """float32 values rounded to the nearest bfloat16 (ties to even), as float32."""
    x = np.ascontiguousarray(x, np.float32)
    u = x.view(np.uint32)
    r = (u + np.uint32(0x7FFF) + ((u >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), x, r.view(np.float32))


def quantise(x, name):
    """NumPy values as the named MLX dtype would hold them."""
    with np.errstate(all="ignore"):
        if name == "bfloat16":
            return round_bf16(np.asarray(x).astype(np.float32))
        return np.asarray(x).astype(np_dtype(name))


def from_np(x, name):
    """An MLX array of the named dtype with the values of x, which the dtype can hold exactly."""
    held = np.ascontiguousarray(quantise(x, name)).reshape(np.shape(x))
    return mx.array(held, dtype=mx_dtype(name))


def ulp(x, name="float32"):
    """The distance between neighbours of the named format around each x (float64)."""
    digits, lowest = {"float32": (23, -149), "float16": (10, -24), "bfloat16": (7, -133)}[name]
    x = np.abs(np.asarray(x, np.float64))
    _, e = np.frexp(x)
    return np.ldexp(1.0, np.maximum(e - 1 - digits, lowest))


def ulp_error(got, want, name="float32"):
    """|got - want| in units of the last place of want; 0 where both are NaN or the same infinity.

    `want` is float64. A value beyond the largest finite one rounds to infinity, as IEEE says.
    """
    top = {"float32": 3.4028235677973366e38, "float16": 65520.0, "bfloat16": 3.3961775292304e38}[
        name
    ]
    got = np.asarray(got, np.float64)
    want = np.asarray(want, np.float64)
    with np.errstate(all="ignore"):
        want = np.where(np.abs(want) >= top, np.copysign(np.inf, want), want)
        err = np.abs(got - want) / ulp(want, name)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    err = np.where(same, 0.0, err)
    return np.where(np.isnan(err), np.inf, err)


def layouts(x, name):
    """(label, MLX array) pairs that all hold the values of x, laid out in memory in other ways."""
    x = np.asarray(x)
    yield "contiguous", from_np(x, name)
    if x.ndim >= 2:
        axes = tuple(reversed(range(x.ndim)))
        yield "transposed", mx.transpose(from_np(np.transpose(x, axes), name), axes)
    if x.ndim >= 1:
        wide = np.zeros(x.shape[:-1] + (2 * x.shape[-1],), x.dtype)
        wide[..., ::2] = x
        yield "strided", from_np(wide, name)[..., ::2]
        yield "negative stride", from_np(x[..., ::-1], name)[..., ::-1]
        flat = np.concatenate([np.zeros(1, x.dtype), x.reshape(-1)])
        yield "offset by one", mx.reshape(from_np(flat, name)[1:], x.shape)


def python(code, env=None, timeout=120, check=True):
    """Runs Python source in a fresh interpreter; returns the finished process with text output."""
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    if check:
        assert run.returncode == 0, f"exit {run.returncode}\n{run.stdout}\n{run.stderr}"
    return run


def works():
    """The library still computes on the session's device."""
    assert mx.sum(mx.arange(10) * 2).item() == 90


def apart(f, *names):
    """What `f` gives without these kernel variants."""
    before = mx.vulkan._set_disabled(list(names))
    out = f()
    mx.eval(out)
    mx.vulkan._set_disabled(before)
    return out


def kernels(f):
    """What `f` gives, and how many times which kernel ran for it.

    What finds out about the device, once, does not count.
    """
    mx.synchronize()
    mx.vulkan.stats(reset=True)
    out = f()
    mx.eval(out)
    ran = mx.vulkan.stats()["kernels"]
    about = ("fragment_probe", "measure_", "once_fill")
    return out, {name: n for name, n in ran.items() if not name.startswith(about)}


def of_experts(ran):
    """Whether a layer of experts took as few kernels as there are for it: two, and a third for the
    sums of many picks, or, of one token, a chain of all its products."""
    chained = any("_qmm_chain" in name for name in ran)
    summed = any("qmm_sums" in name for name in ran)
    return sum(ran.values()) == (1 if chained else 2 + summed)
