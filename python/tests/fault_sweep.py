"""Every place where a driver or the system can fail, made to fail once at each of its calls.

A workload is run once to count the calls of each kind, then once for each of them with that call
failing: once, or for good (all behind it fail too). Whatever happens must be an exception that says
why, or the right result. Inputs are as before, what was not computed raises when it is read or is
right, the next run is right, and memory is given back. `python fault_sweep.py` prints a table;
docs/reliability.md has one.
"""

import argparse
import collections
import gc
import itertools
import json
import os
import sys
import tempfile
import time

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np

fault = mx.vulkan._fault


def seeded(*shape):
    return np.random.default_rng(list(shape)).normal(size=shape).astype(np.float32)


X, Y, W, IMAGE, KERNEL = (
    seeded(*s) for s in [(65, 48), (65, 48), (48, 33), (2, 9, 9, 4), (5, 3, 3, 4)]
)
BIG = seeded(150, 280)
LONG = seeded(1500, 300)
CODED = seeded(40, 640)
ROWS = np.array([3, 1, 64, 1, 0, 7], np.int32)


class Arrays:
    """The inputs of a workload, made again for each run."""

    def __init__(self):
        self.x, self.y, self.w = mx.array(X), mx.array(Y), mx.array(W)
        self.image, self.kernel, self.rows = mx.array(IMAGE), mx.array(KERNEL), mx.array(ROWS)
        self.big, self.long, self.coded = mx.array(BIG), mx.array(LONG), mx.array(CODED)
        mx.eval(*vars(self).values())

    def intact(self):
        pairs = [(self.x, X), (self.y, Y), (self.w, W), (self.image, IMAGE), (self.big, BIG)]
        return all(np.array_equal(np.array(a), b) for a, b in pairs)


def elementwise(a):
    z = a.x * 2 + a.y
    return [mx.exp(-mx.abs(z)), z.T - 1, mx.where(z > 0, z, -z).astype(mx.float16)]


def reduction(a):
    return [a.x.sum(), a.big.sum(axis=0), a.big.max(axis=1), mx.softmax(a.x, axis=-1)]


def matmul(a):
    return [a.x @ a.w, mx.addmm(a.y[:, :33], a.x, a.w), a.x[0] @ a.w, a.big @ a.big.T]


def convolution(a):
    return [mx.conv2d(a.image, a.kernel, padding=1)]


def sorting(a):
    return [mx.sort(a.x, axis=0), mx.argsort(a.big.reshape(-1)), mx.partition(a.y, 9)]


def scan(a):
    return [mx.cumsum(a.x, axis=0), mx.cumsum(a.big.reshape(-1))]


def indexing(a):
    z = mx.array(X)
    z[a.rows] = a.y[: len(ROWS)]
    return [a.x[a.rows], z, a.x.at[a.rows].add(a.y[: len(ROWS)]), mx.concatenate([a.x, a.y])]


def attention(a):
    q, k, v = (m.reshape(1, 65, 3, 16).transpose(0, 2, 1, 3) for m in (a.x, a.y, a.x + a.y))
    return [mx.fast.scaled_dot_product_attention(q, k, v, scale=0.25)]


def quantised(a):
    w, s, b = mx.quantize(a.coded, group_size=64, bits=4)
    x = a.coded[:5]
    return [mx.quantized_matmul(x, w, s, b, group_size=64, bits=4), mx.dequantize(w, s, b)]


def fourier(a):
    return [mx.fft.rfft(a.x).real, mx.fft.fft(a.big[:, 0]).imag]


@mx.compile
def fused(x, y):
    z = mx.tanh(x) * y
    return z.sum(axis=1), mx.softmax(z, axis=-1) @ y.T


def compiled(a):
    return list(fused(a.x, a.y))


def ahead(a):
    z = a.x
    for i in range(60):
        z = z * 0.5 + mx.roll(a.y, i, 0)
        if i % 20 == 7:
            mx.async_eval(z)
    return [z]


def streams(a):
    other = mx.new_stream(mx.gpu)
    y = mx.exp(a.x * 0.1, stream=other)
    z = mx.add(y, a.y)
    c = mx.multiply(z, 2, stream=mx.cpu)
    return [mx.add(c, y, stream=other), z]


def training(a):
    mx.random.seed(7)
    model = nn.Sequential(nn.Linear(48, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8))
    opt = optim.AdamW(learning_rate=1e-2)
    labels = mx.argmax(a.y[:, :8], axis=1)

    def loss(model):
        return nn.losses.cross_entropy(model(a.x), labels, reduction="mean")

    step, told = nn.value_and_grad(model, loss), []
    for _ in range(2):
        value, grads = step(model)
        opt.update(model, grads)
        mx.eval(model.parameters(), opt.state)
        told.append(value)
    return [*told, model.layers[0].weight, model.layers[3].bias]


def files(a):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.safetensors")
        mx.save_safetensors(path, {"big": a.big * 2, "x": a.x.T})
        back = mx.load(path)
        out = [back["big"] + 1, back["x"]]
        mx.eval(out)
    return out


def numpy(a):
    z = a.long * 2
    return [mx.array(np.array(z)), mx.array(np.asarray(a.x + a.y)), mx.array((a.x[0] * 3).tolist())]


def pipeline(a):
    parts = [LONG[:600], LONG[600:650], LONG[650:]]
    return list(mx.vulkan.pipeline(lambda x: mx.sin(x) * 2, parts, depth=2, chunk=500))


USER = mx.fast.vulkan_kernel(
    name="fault_scale",
    input_names=["x"],
    output_names=["z"],
    source="uint i = thread_position_in_grid.x; z[i] = x[i] * 3.0;",
)


def user_kernel(a):
    shape = {"output_shapes": [a.x.shape], "output_dtypes": [mx.float32]}
    return USER(inputs=[a.x + 1], grid=(a.x.size, 1, 1), threadgroup=(64, 1, 1), **shape)


def profiled(a):
    with mx.vulkan.profile() as p:
        out = [mx.sin(a.x) + a.y, a.big.sum()]
        mx.eval(out)
    assert p.commands
    return out


# GPU and CPU may round apart: none makes much of a small difference, in whatever order they come.
UNARY = [mx.abs, mx.tanh, mx.sin, mx.cos, mx.sigmoid, mx.erf, mx.arctan, mx.arcsinh, mx.negative]
FRESH = itertools.permutations(UNARY, 4)


def fresh_kernels(a):
    """Kernels that no run before has built, with an empty cache: what compilers are asked for."""
    chain = next(FRESH)

    def f(x):
        for op in chain:
            x = op(x)
        return x

    text = f"uint i = thread_position_in_grid.x; z[i] = x[i] + {next(NUMBERS)}.0 - {next(LAST)}.0;"
    kernel = mx.fast.vulkan_kernel(
        name="fault_fresh", input_names=["x"], output_names=["z"], source=text
    )
    shape = {"output_shapes": [a.x.shape], "output_dtypes": [mx.float32]}
    own = kernel(inputs=[a.x], grid=(a.x.size, 1, 1), threadgroup=(64, 1, 1), **shape)
    plain = a.x
    for op in chain:
        plain = op(plain, stream=mx.cpu)
    return [mx.compile(f)(a.x) - plain, *own]


# A program whose `z` is not computed within minutes.
ENDLESS = """
kernel = mx.fast.vulkan_kernel(
    name="endless", input_names=["x"], output_names=["z"],
    header='''
        #define S v = v * 1664525u + 1013904223u + (v >> 13);
        #define S10 S S S S S S S S S S
        #define S100 S10 S10 S10 S10 S10 S10 S10 S10 S10 S10
    ''',
    # Minutes on a GPU; software drivers end each loop after some 65,000 turns, which takes as long.
    source='''
        uint v = x[0] + thread_position_in_grid.x;
        for (uint i = 0u; i < 10000000u; i++) {
            S100 S100 S100 S100 S100 S100 S100 S100 S100 S100
        }
        z[thread_position_in_grid.x] = v;
    ''')

def patiently(f):
    # What else runs on the device, of other processes or given up, may take all of a short limit.
    for _ in range(5):
        try:
            return f()
        except RuntimeError as e:
            assert "no progress for" in str(e), e
    return f()

def inputs():
    made = mx.arange(4).astype(mx.uint32), mx.ones(700) * 3
    mx.eval(made)
    made[1].tolist()
    return made

x, other = patiently(inputs)
(z,) = kernel(inputs=[x], output_shapes=[(1024,)], output_dtypes=[mx.uint32], grid=(1024, 1, 1),
              threadgroup=(1024, 1, 1))
"""

NUMBERS, LAST = itertools.count(1), itertools.count(1)

WORKLOADS = {
    f.__name__: f
    for f in [
        elementwise,
        reduction,
        matmul,
        convolution,
        sorting,
        scan,
        indexing,
        attention,
        quantised,
        fourier,
        compiled,
        ahead,
        streams,
        training,
        files,
        numpy,
        pipeline,
        user_kernel,
        profiled,
        fresh_kernels,
    ]
}
# Kinds that only new kernels reach.
NEW = ["compile", "module", "pipeline", "refusal", "cache_read", "cache_write", "pipeline_cache"]
LOST = ["lost_submission", "lost_wait"]


def values(arrays):
    # All of the work comes before NumPy asks: it asks twice, and forgets the first error.
    arrays = [a.astype(mx.float32) for a in arrays]
    mx.eval(arrays)
    return [np.array(a) for a in arrays]


def right(got, want):
    """Sums may be added in another order where work is cut into other batches."""
    return len(got) == len(want) and all(
        g.shape == w.shape and np.allclose(g, w, rtol=1e-4, atol=1e-4, equal_nan=True)
        for g, w in zip(got, want, strict=True)
    )


def settle():
    gc.collect()
    mx.synchronize()
    mx.clear_cache()
    return mx.get_active_memory()


class Wrong(AssertionError):
    pass


def expect(condition, what):
    if not condition:
        raise Wrong(what)


def attempt(work, want, kind, which):
    """One run with a fault; what came of it."""
    inputs, made, outcome = Arrays(), [], "right"
    settle()
    fault(kind + which)
    try:
        made = work(inputs)
        expect(right(values(made), want), "a wrong value and no exception")
    except RuntimeError as e:
        outcome = str(e)
        expect(outcome.startswith("["), f"an exception without an operation: {outcome}")
    fault_off = fault("off")
    for i, a in enumerate(made if outcome != "right" else []):
        for _ in range(2):
            try:
                (got,) = values([a])
            except RuntimeError as e:
                expect(str(e).startswith("["), f"an exception without an operation: {e}")
            else:
                expect(right([got], [want[i]]), "a wrong value when it was read again")
    try:
        expect(inputs.intact(), "inputs have changed")
    except RuntimeError as e:
        expect(kind in LOST and "lost with the device" in str(e), f"inputs raise: {e}")
    return outcome, fault_off[1]


def short(outcome):
    for sign, name in [
        ("lost", "lost"),
        ("Unable to allocate", "out of memory"),
        ("Out of memory", "out of memory"),
    ]:
        if sign in outcome:
            return name
    return "right" if outcome == "right" else "error"


def sweep(name, kinds, most, forms=("@{}", "@{}+")):
    """(kind, form, calls, outcomes) for each kind that a workload reaches."""
    work = WORKLOADS[name]
    inputs = Arrays()
    want = values(work(inputs))
    del inputs
    before = settle()
    rows = []
    inputs = Arrays()
    settle()
    fault("count")
    expect(right(values(work(inputs)), want), "two runs without a fault differ")
    del inputs
    calls, _ = fault("off")
    for kind in kinds:
        n = calls[kind]
        for form in forms:
            if kind in LOST and form != forms[0]:
                continue
            outcomes, texts = collections.Counter(), set()
            steps = sorted(
                {1 + i * max(n - 1, 1) // max(min(n, most) - 1, 1) for i in range(min(n, most))}
            )
            for i in (i for i in steps if i <= n):
                try:
                    outcome, fired = attempt(work, want, kind, form.format(i))
                    outcomes[short(outcome) if fired else "not reached"] += 1
                    texts.add(outcome)
                    again = values(work(Arrays()))
                    expect(right(again, want), "the next run is wrong")
                    del again
                    after = settle()
                    # What streams of a lost device kept for themselves is made again when needed.
                    fits = after <= before if kind in LOST else after == before
                    expect(fits, f"{after - before} bytes are not given back")
                    before = after
                except Exception as e:
                    fault("off")
                    e.add_note(f"{name} with {kind}{form.format(i)} of {n}")
                    raise
            if outcomes:
                rows.append((name, kind + form.format("n"), n, dict(outcomes), sorted(texts)[:3]))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--kinds", default="")
    parser.add_argument(
        "--most", type=int, default=12, help="most calls of a kind that fail, evenly chosen"
    )
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    mx.set_default_device(mx.gpu)
    known = list(fault("off")[0])
    everywhere = [k for k in known if k not in NEW and k != "device"]
    rows = []
    for name in args.workloads.split(","):
        start = time.perf_counter()
        mine = NEW if name == "fresh_kernels" else everywhere
        kinds = [k for k in mine if not args.kinds or k in args.kinds.split(",")]
        new = sweep(name, kinds, args.most)
        rows += new
        if not args.json:
            print(f"{name} ({time.perf_counter() - start:.1f} s)")
            for _, kind, n, outcomes, texts in new:
                print(f"  {kind:18} {n:4} calls  {outcomes}  {texts[0][:150] if texts else ''}")
            sys.stdout.flush()
    if args.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
