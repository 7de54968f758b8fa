"""The products of a token: each layout that the choice knows, by model shape, mode and rows.

For every product of the model shapes the layouts are timed, each command behind a barrier and on
weights that no cache holds any more: microseconds, share of the memory's rate, the chosen layout
and the fastest. Then a token of a model with layers of each shape: commands, barriers, microseconds
and gaps of a layer, steps joined and apart. Processes side by side compile all kernels first and
leave them in the cache. Prints and writes JSON.

    python benches/decode.py [--models 0.6b,8b] [--modes q4g64,mxfp4] [--rows 1,2,4,8] [--json FILE]
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time
import zlib

import mlx.core as mx
import mlx.nn as nn

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from language_model import Model

#: Hidden size, queries, keys and values, hidden size of the gated unit; heads of 128 features
#: (tiny: 32).
SHAPES = {
    "0.6b": (1024, 2048, 1024, 3072),
    "4b": (2560, 4096, 1024, 9728),
    "8b": (4096, 4096, 1024, 12288),
    "14b": (5120, 5120, 1024, 17408),
    "32b": (5120, 8192, 1024, 25600),
    "tiny": (128, 128, 64, 256),
}
#: Experts, picks of a token, hidden size, size of an expert.
EXPERTS = {"30b-a3b": (128, 8, 2048, 768), "tiny": (4, 2, 128, 64)}
MODES = {
    **{f"q{b}g64": {"mode": "affine", "group_size": 64, "bits": b} for b in (2, 3, 4, 5, 6, 8)},
    "q4g32": {"mode": "affine", "group_size": 32, "bits": 4},
    "q4g128": {"mode": "affine", "group_size": 128, "bits": 4},
    "mxfp4": {"mode": "mxfp4", "group_size": 32, "bits": 4},
    "mxfp8": {"mode": "mxfp8", "group_size": 32, "bits": 8},
    "nvfp4": {"mode": "nvfp4", "group_size": 16, "bits": 4},
}
#: More bytes of weights than caches hold.
BEYOND = 256 << 20
WORDS = 1024


def modes_of(model, options):
    """The first mode for all models, the others for the model of 8B or the only one."""
    return options.modes if model == "8b" or len(options.models) == 1 else options.modes[:1]


def products(model):
    """Names, rows of codes and their length; one of the tiny model, whose are all alike."""
    hidden, q, kv, inner = SHAPES[model]
    named = {
        "q": (q, hidden),
        "k, v": (kv, hidden),
        "o": (hidden, q),
        "gate, up": (inner, hidden),
        "down": (hidden, inner),
    }
    return {"q": named["q"]} if model == "tiny" else named


class Weights:
    """Copies of a quantised matrix with codes of chance, one after the other in memory."""

    def __init__(self, n, k, mode, dtype, beyond, most=512):
        self.how = MODES[mode]
        words, group = k * self.how["bits"] // 32, self.how["group_size"]
        affine = self.how["mode"] == "affine"
        factors = n * (k // group) * (2 * dtype.size if affine else 1)
        self.nbytes = n * words * 4 + factors
        self.count = max(2, min(most, math.ceil(beyond / self.nbytes)))
        codes = mx.random.randint(0, 1 << 31, (self.count * n, words), mx.int32).astype(mx.uint32)
        if affine:
            rows = (self.count * n, k // group)
            parts = [codes, *(mx.random.normal(rows).astype(dtype) * 0.01 for _ in range(2))]
        else:
            scales = mx.full((self.count * n, k // group), 120, mx.uint8)
            parts = [codes, scales]
        mx.eval(parts)
        self.parts = [[p[i * n : (i + 1) * n] for p in parts] for i in range(self.count)]
        mx.eval(self.parts)

    def __call__(self, x, i):
        parts = self.parts[i % self.count]
        return mx.quantized_matmul(x, *parts, transpose=True, **self.how)


def timed(call, count):
    """Microseconds of a command of `count` calls, without and with the gaps between them."""
    with mx.vulkan.profile(isolate=True) as p:
        mx.eval([call(i) for i in range(count)])
    spans = [c.times for c in p.commands if c.times]
    if not spans:
        return p.wall_ns / count / 1e3, p.wall_ns / count / 1e3
    own = statistics.median(b - a for a, b in spans) * (len(spans) / count)
    whole = max(b for _, b in spans) - min(a for a, _ in spans)
    return own / 1e3, whole / count / 1e3


def wake(seconds):
    """Keeps the GPU busy until its clocks are up: a card that was idle raises them late."""
    a = mx.ones((2048, 2048), mx.bfloat16)
    began = time.time()
    while time.time() - began < seconds:
        b = a
        for _ in range(50):
            b = b @ a
        mx.eval(b)


def least(call, count, repeats):
    """The best of some runs, behind one that compiles."""
    mx.eval(call(0))
    return tuple(
        min(column) for column in zip(*(timed(call, count) for _ in range(repeats)), strict=True)
    )


def layouts(n, k, m, mode, dtype):
    """The subject of a product, its packaged layout and all of them, as lines of `tune`."""
    how = MODES[mode]
    form = (how["mode"], how["group_size"], how["bits"])
    name = str(dtype).removeprefix("mlx.core.")
    return mx.vulkan._tune_question(0, "quantized", (m, n, k), name, form)


def own_part(text, warm):
    """Whether a process that compiles only, (part, parts), is to compile what has this name."""
    return zlib.crc32(text.encode()) % warm[1] == warm[0]


def product_rows(model, name, n, k, options, warm):
    """Rows of one product in each mode and number of rows; `warm` compiles only."""
    # Products of the same row would be one kernel.
    before = mx.vulkan._set_disabled(["qmm_joined"])
    for mode in modes_of(model, options):
        if k % MODES[mode]["group_size"]:
            continue
        w = Weights(n, k, mode, options.dtype, 0 if warm else options.beyond)
        for m in options.rows:
            x = mx.random.normal((m, k)).astype(options.dtype)
            mx.eval(x)
            asked = layouts(n, k, m, mode, options.dtype)
            found = {}
            lines = [None, *(asked["candidates"] if asked else [])]
            for line in lines:
                key = line.split(" = ")[-1] if line else "chosen"
                if warm and not own_part(key, warm):
                    continue
                mx.vulkan._tune_set(0, [line] if line else [])
                if warm:
                    mx.eval(w(x, 0))
                    continue
                count = min(max(w.count, 16), 64)
                own, whole = least(lambda i, w=w, x=x: w(x, i), count, options.repeats)
                found[key] = {"us": round(own, 2), "us_with_gap": round(whole, 2)}
            mx.vulkan._tune_set(0, [])
            if not warm:
                yield summary(model, name, n, k, m, mode, w.nbytes, asked, found, options)
    mx.vulkan._set_disabled(before)


def summary(model, name, n, k, m, mode, nbytes, asked, found, options):
    chosen = found.pop("chosen")
    packaged = asked["packaged"].split(" = ")[-1] if asked else ""
    best = min(found, key=lambda key: found[key]["us"]) if found else packaged
    fastest = min([chosen["us"], *(f["us"] for f in found.values())])
    share = nbytes / max(chosen["us"], 1e-9) / 1e3 / options.rate
    return {
        "model": model,
        "product": name,
        "n": n,
        "k": k,
        "m": m,
        "mode": mode,
        "bytes": nbytes,
        "chosen": packaged or "other",
        "us": chosen["us"],
        "us_with_gap": chosen["us_with_gap"],
        "share": round(share, 3),
        "best": best,
        "best_us": fastest,
        "best_share": round(nbytes / max(fastest, 1e-9) / 1e3 / options.rate, 3),
        "candidates": found,
    }


def expert_rows(model, options, warm):
    """Products of a token's experts, picked by index."""
    experts, picks, hidden, inner = EXPERTS[model]
    for mode in modes_of(model, options):
        for name, n, k in (("gate, up", inner, hidden), ("down", hidden, inner)):
            if k % MODES[mode]["group_size"]:
                continue
            w = Weights(experts * n, k, mode, options.dtype, 0, most=2)
            parts = [p.reshape(experts, n, -1) for p in w.parts[0]]
            mx.eval(parts)
            for m in options.rows:
                x = mx.random.normal((m, 1, 1, k)).astype(options.dtype)
                at = [mx.random.randint(0, experts, (m, picks)) for _ in range(16)]
                mx.eval(x, at)

                def call(i, x=x, at=at, parts=parts, how=w.how):
                    return mx.gather_qmm(x, *parts, rhs_indices=at[i % 16], transpose=True, **how)

                if warm:
                    mx.eval(call(0))
                    continue
                own, whole = least(call, 32, options.repeats)
                found = {"chosen": {"us": round(own, 2), "us_with_gap": round(whole, 2)}}
                nbytes = w.nbytes // experts * min(experts, picks * m)
                yield summary(model, name, n, k, m, mode, nbytes, None, found, options)


def experts_of(x, parts, router, picks, how):
    """A layer's experts for one row: their choice, gated units, weighted sum and residual."""
    gates = mx.softmax(mx.quantized_matmul(x, *router, transpose=True, **how), -1, precise=True)
    at = mx.argpartition(gates, kth=-picks, axis=-1)[..., -picks:]
    scores = mx.take_along_axis(gates, at, axis=-1)
    del gates
    scores = scores / scores.sum(-1, keepdims=True)
    y = mx.expand_dims(x, (-2, -3))

    def by(y, w):
        return mx.gather_qmm(y, *w, rhs_indices=at, transpose=True, **how)

    y = by(gated(by(y, parts[0]), by(y, parts[1])), parts[2]).squeeze(-2)
    return x + (y * scores[..., None]).sum(-2)


@mx.compile
def gated(gate, up):
    return nn.silu(gate) * up


def expert_step_row(name, mode, options, warm):
    """Commands, barriers and times of a layer's experts, steps joined and apart."""
    experts, picks, hidden, inner = EXPERTS[name]
    how, dtype = MODES[mode], options.dtype
    count = 2 if warm or options.quick else 8
    codes = (experts * hidden + picks * 3 * hidden * inner) * how["bits"] // 8

    def drawn(*shape):
        w = mx.quantize((mx.random.normal(shape) * 0.02).astype(dtype), **how)
        mx.eval(w)
        return w

    sizes = [(experts, inner, hidden), (experts, inner, hidden), (experts, hidden, inner)]
    layers = [([drawn(*s) for s in sizes], drawn(experts, hidden)) for _ in range(count)]
    row = {"model": name, "mode": f"{mode} experts", "layers": count, "layer_bytes": codes}
    for joined, off in (("joined", []), ("apart", ["qmm_joined", "sort_select"])):
        before = mx.vulkan._set_disabled(off)

        def run(x):
            for parts, router in layers:
                x = experts_of(x, parts, router, picks, how)
            return x

        x = mx.random.normal((1, 1, hidden)).astype(dtype)
        for _ in range(2 if warm else 3):
            mx.eval(run(x))
        with mx.vulkan.profile() as p:
            mx.eval(run(x))
        told = p.summary()
        row[joined] = {
            key.removesuffix("_ns"): round(told[key] / count / scale, 2)
            for key, scale in (("commands", 1), ("barriers", 1), ("busy_ns", 1e3), ("gap_ns", 1e3))
        }
        row[joined]["kernels"] = [
            {"kernel": r.kernel, "count": r.count, "us": round(r.mean_ns / 1e3, 2)}
            for r in p.rows()[:8]
        ]
        mx.vulkan._set_disabled(before)
    row["at_memory_rate_us"] = round(codes / options.rate / 1e3, 2)
    return row


def fill(model, mode, dtype):
    """Quantises a model's weights in place, layer by layer."""
    model.set_dtype(dtype)
    how = MODES[mode]
    for part in [*model.layers, model]:
        nn.quantize(part, how["group_size"], how["bits"], mode=how["mode"])
        mx.eval(part.parameters())


def one_token(model, layers, profiled):
    """A token's profile behind a short prompt, by the first `layers` layers."""
    kept, model.layers = model.layers, model.layers[:layers]
    caches = [{"length": 0} for _ in model.layers]
    token = mx.argmax(model(mx.array([[1, 2, 3, 4]]), caches), axis=-1)
    for _ in range(3):
        token = mx.argmax(model(token[None], caches), axis=-1)
        mx.eval(token)
    made = None
    if profiled:
        with mx.vulkan.profile() as p:
            token = mx.argmax(model(token[None], caches), axis=-1)
            mx.eval(token)
        made = p
    model.layers = kept
    return made


def step_row(name, mode, options, warm):
    """Commands, barriers and times of a layer, steps joined and apart."""
    hidden, q, kv, inner = SHAPES[name]
    head = min(128, kv // 2)
    codes = (hidden * (2 * q + 2 * kv) + 3 * hidden * inner) * MODES[mode]["bits"] // 8
    count = 2 if warm or options.quick else min(28, max(4, math.ceil(options.beyond / codes)))
    model = Model(count, WORDS, hidden, q // head, kv // head, head, inner)
    fill(model, mode, options.dtype)
    row = {"model": name, "mode": mode, "layers": count, "layer_bytes": codes}
    for how, off in (("joined", []), ("apart", ["qmm_joined"])):
        before = mx.vulkan._set_disabled(off)
        if warm:
            one_token(model, count, False)
        else:
            half = count // 2
            tokens = [one_token(model, n, True) for n in (half, count)]
            few, all_ = (t.summary() for t in tokens)
            row[how] = {
                key.removesuffix("_ns"): round((all_[key] - few[key]) / (count - half) / scale, 2)
                for key, scale in (
                    ("commands", 1),
                    ("barriers", 1),
                    ("busy_ns", 1e3),
                    ("gap_ns", 1e3),
                )
            }
            row[how]["kernels"] = [
                {"kernel": r.kernel, "count": r.count, "us": round(r.mean_ns / 1e3, 2)}
                for r in tokens[1].rows()[:6]
            ]
        mx.vulkan._set_disabled(before)
    row["at_memory_rate_us"] = round(codes / options.rate / 1e3, 2)
    return row


def tasks(options):
    """All that is measured: kind, name, and what gives rows, or compiles only if it is told so."""
    for model in options.models:
        for mode in modes_of(model, options) if model in SHAPES else []:
            yield (
                "steps",
                f"{model} {mode} token",
                lambda warm, a=(model, mode): [step_row(*a, options, warm)],
            )
        for name, (n, k) in products(model).items() if model in SHAPES else []:
            yield (
                "products",
                f"{model} {name} {n}x{k}",
                lambda warm, a=(model, name, n, k): product_rows(*a, options, warm),
            )
        if model in EXPERTS:
            yield "experts", f"{model} experts", lambda warm, a=model: expert_rows(a, options, warm)
            for mode in modes_of(model, options):
                yield (
                    "steps",
                    f"{model} {mode} layer of experts",
                    lambda warm, a=(model, mode): [expert_step_row(*a, options, warm)],
                )


def compile_side_by_side(argv, count, began):
    """Lets processes compile all kernels, each its part of the tasks."""
    command = [sys.executable, __file__, *argv]
    parts = [subprocess.Popen([*command, "--warm", f"{i}/{count}"]) for i in range(count)]
    failed = [part for part in parts if part.wait() != 0]
    print(
        f"compiled by {count} processes, {len(failed)} failed: {time.time() - began:.1f} s",
        flush=True,
    )


def show(kind, row):
    if kind == "steps":
        for how in ("joined", "apart"):
            r = row[how]
            print(
                f"  {row['model']:8} {row['mode']:7} a layer {how:6}: {r['commands']:5} commands, "
                f"{r['barriers']:5} barriers, {r['busy']:8} us and {r['gap']:7} us of gaps "
                f"(memory's rate: {row['at_memory_rate_us']} us)"
            )
        return
    print(
        f"  {row['product']:9} {row['n']:6} x {row['k']:5} m={row['m']} {row['mode']:7} "
        f"{row['us']:8} us ({row['us_with_gap']:8} with gap) {100 * row['share']:5.1f} % "
        f"[{row['chosen']}], best {row['best_us']:8} us {100 * row['best_share']:5.1f} % "
        f"[{row['best']}]"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default="8b,0.6b,30b-a3b,14b,32b,4b")
    parser.add_argument("--modes", default="q4g64,q8g64,mxfp4")
    parser.add_argument("--rows", default="1,2,4,8", help="rows of x")
    parser.add_argument("--dtype", choices=["bfloat16", "float16", "float32"], default="bfloat16")
    parser.add_argument("--rate", type=float, help="the memory's rate in GB/s; else by the profile")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--workers", type=int, default=min(12, os.cpu_count() or 1))
    parser.add_argument("--seconds", type=float, default=150, help="begins nothing after so many")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, in this process alone")
    parser.add_argument("--warm", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    began = time.time()
    mx.set_default_device(mx.gpu)
    if options.quick:
        options.models, options.modes, options.rows = "tiny", "q4g64", "1,2"
        options.repeats, options.workers = 1, 0
    options.beyond = 0 if options.quick else BEYOND
    options.models, options.modes = options.models.split(","), options.modes.split(",")
    options.rows = [int(m) for m in options.rows.split(",")]
    options.dtype = getattr(mx, options.dtype)
    options.rate = options.rate or mx.vulkan.describe()["profile"]["bandwidth"]
    unknown = [m for m in options.models if m not in SHAPES and m not in EXPERTS]
    if unknown or not set(options.modes) <= set(MODES):
        parser.error(f"models are {[*SHAPES, *EXPERTS]}, modes {[*MODES]}")
    if options.warm:
        warm = tuple(int(n) for n in options.warm.split("/"))
        for kind, name, run in tasks(options):
            if kind == "products" or own_part(name, warm):
                list(run(warm))
        return
    if options.workers > 1:
        compile_side_by_side(sys.argv[1:], options.workers, began)
    before = mx.vulkan._tune_winners(0)
    result = {"device": mx.vulkan.describe()["name"], "rate": options.rate}
    for kind, name, run in tasks(options):
        if time.time() - began > options.seconds:
            print(f"left out: {name}", flush=True)
            continue
        wake(0 if options.quick else 0.5)
        print(f"{time.time() - began:6.1f} s {name}", flush=True)
        for row in run(None):
            result.setdefault(kind, []).append(row)
            show(kind, row)
        mx.clear_cache()
        if options.json:
            options.json.write_text(json.dumps(result, indent=1))
    mx.vulkan._tune_set(0, before)
    result["seconds"] = round(time.time() - began, 1)
    print(f"{result['seconds']} s")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
