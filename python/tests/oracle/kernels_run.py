"""Runs cases on this library: arrays that lie as they should, results against exact ones, the same
bits again, and again without the variants that a kernel's plain twin stands in for."""

import time

import mlx.core as mx
import numpy as np
from kernels_check import check

#: Kernels that find out about the device, once.
ABOUT = ("fragment_probe", "measure_", "once_fill", "subnormal_probe")
LATER = 24  # cases between a case and its repetition
#: Beginnings of the names of variants that families have twins by.
PRODUCTS = ("matmul_", "gemv", "gather_mm")
TWINS = {
    "matmul": PRODUCTS,
    "epilogue": PRODUCTS,
    "parts": PRODUCTS,
    "gather_mm": PRODUCTS,
    "quantized": (*PRODUCTS, "qmm_"),
    "gather_qmm": (*PRODUCTS, "qmm_"),
    "attention": ("sdpa_",),
    "attention_grad": ("sdpa_",),
    "joined": (*PRODUCTS, "qmm_", "norm_", "row_biases"),
    "token": ("sdpa_", "rope_rows", "norm_"),
    "conv": ("conv_", *PRODUCTS),
    "conv_grad": ("conv_", *PRODUCTS),
}
ROWS = ("reduce_", "statistics", "softmax_", "norm_", "sort_", "scan_", "log_softmax")
PLACES = ("scatter_", "fft_", "elementwise_", "half_convert", "copy_transpose", "interleave")
#: Without it most quantised products would not run on kernels of their own.
KEPT = ("qmm_dequantize",)


def variants(family):
    """Names of the kernel variants of a family."""
    names = [name for name, _ in mx.vulkan._environment()[1]]
    ours = TWINS.get(family, ROWS + PLACES)
    return [n for n in names if n.startswith(ours) and n not in KEPT]


def upload(x, dtype):
    """An array of these numbers, which the dtype holds."""
    x = np.array(x, order="C", copy=True)
    if dtype == "bfloat16":
        bits = (np.ascontiguousarray(x, np.float32).view(np.uint32) >> np.uint32(16)).astype("u2")
        return mx.array(bits.reshape(x.shape)).view(mx.bfloat16)
    return mx.array(x, getattr(mx, dtype))


def around(x, widths):
    """With what must not be read around it."""
    what = 77
    if x.dtype.kind in "fc":
        what = np.nan
    elif x.dtype.kind == "b":
        what = True
    return np.pad(x, widths, constant_values=what)


def place(a):
    """The array as its form says. What lies between its rows must not reach any result."""
    x, (form, *numbers) = a.values, a.form
    last = [(0, 0)] * (x.ndim - 1)
    if form == "turned":
        return mx.swapaxes(upload(np.swapaxes(x, -1, -2), a.dtype), -1, -2)
    if form == "cut":
        before, behind = numbers
        y = upload(around(x, [*last, (before, behind)]), a.dtype)
        return y[..., before : before + x.shape[-1]]
    if form == "turned cut":
        before, behind = numbers
        y = upload(around(np.swapaxes(x, -1, -2), [*last, (before, behind)]), a.dtype)
        return mx.swapaxes(y[..., before : before + x.shape[-2]], -1, -2)
    if form == "rows":
        y = around(x[..., None, :], [*([(0, 0)] * (x.ndim - 1)), (0, 1), (0, 0)])
        return upload(y.reshape(*x.shape[:-2], -1, x.shape[-1]), a.dtype)[..., ::2, :]
    if form == "apart":
        y = around(x[..., None], [*([(0, 0)] * x.ndim), (0, 1)])
        return upload(y.reshape(*x.shape[:-1], -1), a.dtype)[..., ::2]
    if form == "reversed":
        return upload(x[::-1], a.dtype)[::-1]
    if form == "offset":
        y = upload(around(x.reshape(-1), [(numbers[0], 5)]), a.dtype)
        return y[numbers[0] : numbers[0] + x.size].reshape(x.shape)
    if form == "repeated":
        return mx.broadcast_to(upload(x[:1], a.dtype), x.shape)
    return upload(x, a.dtype)


def name(a):
    return str(a.dtype).removeprefix("mlx.core.")


def numbers(a):
    """Results as NumPy has them; bfloat16 as float32."""
    if a.dtype == mx.bfloat16:
        bits = np.array(mx.contiguous(a, stream=mx.cpu).view(mx.uint16, stream=mx.cpu))
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return np.array(a)


def alike(one, two):
    """Whether results have the same bits, or are both no numbers."""
    for a, b in zip(one, two, strict=True):
        if a.dtype.kind == "c":
            a, b = (np.ascontiguousarray(x).view(np.float32) for x in (a, b))
        if a.dtype.kind == "f":
            a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
            same = (a.view(f"u{a.itemsize}") == b.view(f"u{a.itemsize}")) | ((a != a) & (b != b))
        else:
            same = a == b
        if not same.all():
            return False
    return True


class Runner:
    """Cases of one process. `report(kind, number, what)` is called for each that is wrong."""

    def __init__(self, gpu):
        self.gpu = gpu
        self.seconds = {"draw": 0.0, "run": 0.0, "reference": 0.0, "check": 0.0}

    def timed(self, what, f, *args):
        begin = time.perf_counter()
        out = f(*args)
        self.seconds[what] += time.perf_counter() - begin
        return out

    def evaluate(self, case, arrays, without):
        """Results, their dtypes, and names of the kernels that ran."""
        if not self.gpu:
            outs = case.run(*arrays)
            mx.eval(outs)
            return [numbers(o) for o in outs], [name(o) for o in outs], frozenset()
        before = mx.vulkan._set_disabled([*without])
        try:
            mx.vulkan.stats(reset=True)
            outs = case.run(*arrays)
            mx.eval(outs)
            names = mx.vulkan.stats()["kernels"]
        finally:
            mx.vulkan._set_disabled(before)
        ran = frozenset(n for n in names if not n.startswith(ABOUT))
        return [numbers(o) for o in outs], [name(o) for o in outs], ran

    def held_against(self, case, want, got):
        """The share of the bound that results use, and what is wrong with them."""
        results, dtypes, names = got
        worst = 0.0
        if len(results) != len(want):
            return worst, f"{len(results)} results instead of {len(want)}"
        for i, (g, w, d) in enumerate(zip(results, want, dtypes, strict=True)):
            g = g.astype(np.complex128 if d == "complex64" else np.float64) if d in SUMS else g
            used, why = check(g, w, d, case.rough(names))
            worst = max(worst, used)
            if why:
                return worst, f"result {i}: {why}"
        return worst, None

    def without(self, family, rng):
        """Variants that a twin does without: all of them, or every second one at random."""
        names = variants(family)
        some = rng.random(len(names)) < 0.5 if rng.random() < 0.3 else np.ones(len(names), bool)
        return tuple(n for n, one in zip(names, some, strict=True) if one)

    def run(self, family, case, rng):
        """(kernels, their twins, share of the bound, what is wrong) of a case."""
        arrays = self.timed("draw", lambda: [place(a) for a in case.inputs])
        mx.eval(arrays)
        first = self.timed("run", self.evaluate, case, arrays, case.disabled)
        want = self.timed("reference", case.want, *[a.values for a in case.inputs])
        worst, wrong = self.timed("check", self.held_against, case, want, first)
        if not self.gpu:
            return first[2], frozenset(), worst, wrong
        wrong = wrong or self.again(case, arrays, first)
        without = self.without(family, rng)
        twin = self.timed("run", self.evaluate, case, arrays, without)
        used, why = self.timed("check", self.held_against, case, want, twin)
        if why and not wrong:
            wrong = f"without {','.join(without)}: {why} [{' '.join(sorted(twin[2]))}]"
        elif wrong:
            wrong += f" [{' '.join(sorted(first[2]))}]"
        return first[2], twin[2], max(worst, used), wrong

    def again(self, case, arrays, first):
        """Whether the same kernels give the same bits."""
        second = self.timed("run", self.evaluate, case, arrays, case.disabled)
        settled = not case.later and second[2] == first[2]
        if settled and not alike(first[0], second[0]):
            return "not the same bits again"
        return None

    def repeated(self, case):
        """A case once more, whose kernels may be made for its shape by now; twice, for its bits."""
        arrays = [place(a) for a in case.inputs]
        got = self.evaluate(case, arrays, case.disabled)
        want = case.want(*[a.values for a in case.inputs])
        worst, wrong = self.held_against(case, want, got)
        second = self.evaluate(case, arrays, case.disabled)
        if not wrong and second[2] == got[2] and not alike(got[0], second[0]):
            wrong = "not the same bits again"
        return got[2], frozenset(), worst, wrong and f"repeated: {wrong} [{' '.join(got[2])}]"


SUMS = ("float32", "float16", "bfloat16", "complex64")
