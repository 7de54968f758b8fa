"""Matrix products on the GPU: correctness of each kernel tier against float64, then TFLOP/s by
size and tile.

Uses only `mlx.core`. Every tier and tile runs in a process of its own, because the environment
decides
(MLX_VK_DISABLE, MLX_VK_MATMUL_TILE, MLX_VK_MATMUL_SPEC, MLX_VK_GEMV).

    python benches/matmul_sweep.py [--only correct,half,float,gemv] [--json out.json] [--small]
"""

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

# name of a tier -> what is disabled to reach it
TIERS = {
    "matmul_nv2": "",
    "matmul_khr": "matmul_nv2",
    "matmul_tiled": "matmul_nv2,matmul_khr",
    "tiles instead of gemv": "gemv",
}
NV2_TILES = [
    "",
    "128x128x32x128",
    "128x128x32x128x2",
    "128x128x64x128",
    "128x128x64x256",
    "128x256x32x256",
    "128x256x64x256",
    "256x128x64x256",
    "128x64x64x128",
    "64x128x64x128",
]
KHR_TILES = ["", "128x128x32x256", "128x128x64x256", "128x64x32x128"]
FLOAT_TILES = [
    "",
    "128x128x16x256",
    "128x128x8x256",
    "64x64x16x256",
    "64x64x16x64",
    "128x64x16x128",
    "32x32x32x64",
]
GEMV = ["", "32x1x4", "32x2x4", "32x4x2", "32x4x4", "64x2x4", "256x1x4", "256x2x2"]

# name, dtype, m, n, k, batch, b transposed
HALF_CASES = [
    ("bf16 8192 nn", "bfloat16", 8192, 8192, 8192, 0, False),
    ("bf16 8192 nt", "bfloat16", 8192, 8192, 8192, 0, True),
    ("f16 8192 nn", "float16", 8192, 8192, 8192, 0, False),
    ("bf16 4096x512x14336 nt", "bfloat16", 512, 4096, 14336, 0, True),
    ("bf16 1024 nn", "bfloat16", 1024, 1024, 1024, 0, False),
    ("bf16 64x512", "bfloat16", 512, 512, 512, 64, False),
    ("bf16 8191x8190x8189 nn", "bfloat16", 8191, 8190, 8189, 0, False),
    ("bf16 32x4096x4096 nt", "bfloat16", 32, 4096, 4096, 0, True),
]
FLOAT_CASES = [
    ("f32 4096 nn", "float32", 4096, 4096, 4096, 0, False),
    ("f32 4096 nt", "float32", 4096, 4096, 4096, 0, True),
    ("f32 1024 nn", "float32", 1024, 1024, 1024, 0, False),
    ("f32 64 nn", "float32", 64, 64, 64, 0, False),
    ("f32 16x512", "float32", 512, 512, 512, 16, False),
]
GEMV_CASES = [
    ("bf16 1x16384x4096 nt", "bfloat16", 1, 16384, 4096, 0, True),
    ("bf16 1x16384x4096 nn", "bfloat16", 1, 16384, 4096, 0, False),
    ("bf16 1x4096x4096 nt", "bfloat16", 1, 4096, 4096, 0, True),
    ("bf16 8x16384x4096 nt", "bfloat16", 8, 16384, 4096, 0, True),
    ("f32 4096x1x4096 nn", "float32", 4096, 1, 4096, 0, False),
    ("f32 1x1x4194304 nt", "float32", 1, 1, 1 << 22, 0, True),
]
CASES = {"half": HALF_CASES, "float": FLOAT_CASES, "gemv": GEMV_CASES}


def child_correct(small, dtypes):
    import mlx.core as mx
    import numpy as np

    mx.set_default_device(mx.gpu)
    rng = np.random.default_rng(3)
    shapes = [
        (1, 1, 1, 0),
        (33, 65, 17, 0),
        (64, 64, 64, 0),
        (129, 257, 100, 0),
        (128, 256, 72, 0),
        (7, 1000, 513, 0),
        (1, 4096, 512, 0),
        (2048, 1, 512, 0),
        (8, 264, 4096, 0),
        (48, 40, 8192, 0),
        (65, 63, 4097, 0),
        (96, 80, 64, 5),
        (512, 512, 512, 3),
    ]
    if not small:
        shapes += [
            (1000, 1016, 1024, 0),
            (1024, 2048, 1000, 0),
            (2049, 1025, 1023, 0),
            (4096, 4096, 4096, 0),
        ]
    bad = []
    count = 0
    for name in dtypes:
        eps = {"float32": 1e-6, "float16": 2.0**-11, "bfloat16": 2.0**-8}[name]
        dtype = getattr(mx, name)
        for m, n, k, batch in shapes:
            lead = (batch,) if batch else ()
            for form in ("nn", "nt", "tn", "tt"):
                sa = (k, m) if form[0] == "t" else (m, k)
                sb = (n, k) if form[1] == "t" else (k, n)
                a = mx.array(rng.standard_normal(lead + sa, dtype=np.float32)).astype(dtype)
                b = mx.array(rng.standard_normal(lead + sb, dtype=np.float32)).astype(dtype)
                x = mx.swapaxes(a, -1, -2) if form[0] == "t" else a
                y = mx.swapaxes(b, -1, -2) if form[1] == "t" else b
                c = mx.array(rng.standard_normal((n,), dtype=np.float32)).astype(dtype)
                rows = np.unique(np.r_[0, m - 1, rng.integers(0, m, 24)])
                fx = np.array(x.astype(mx.float32)).astype(np.float64)[..., rows, :]
                fy = np.array(y.astype(mx.float32)).astype(np.float64)
                want = fx @ fy
                scale = np.abs(fx) @ np.abs(fy)
                fc = np.array(c.astype(mx.float32)).astype(np.float64)
                runs = {
                    "": (x @ y, want),
                    " addmm": (mx.addmm(c, x, y, 0.5, 2.0), 0.5 * want + 2 * fc),
                }
                # The third run of a shape uses the specialised pipeline where one was built.
                for _ in range(2):
                    mx.eval(x @ y)
                runs[" again"] = (x @ y, want)
                for label, (got, ref) in runs.items():
                    g = np.array(got.astype(mx.float32)).astype(np.float64)[..., rows, :]
                    err = np.abs(g - ref) - (eps * np.abs(ref) + 2e-6 * (scale + 1))
                    count += 1
                    if not np.all(err <= 0):
                        worst = np.unravel_index(
                            np.argmax(np.where(np.isnan(err), np.inf, err)), err.shape
                        )
                        bad.append(
                            f"{name} {form} {m}x{n}x{k} batch {batch}{label}: got {g[worst]}, "
                            f"expected {ref[worst]}, {int(np.sum(~(err <= 0)))} of {err.size} wrong"
                        )
    print(json.dumps({"checked": count, "bad": bad}))


def child_time(which, small):
    import mlx.core as mx

    mx.set_default_device(mx.gpu)
    out = {}
    for name, dtype, m, n, k, batch, turned in CASES[which]:
        if small:
            m, n, k = (max(1, d // 32) for d in (m, n, k))
        lead = (batch,) if batch else ()
        dt = getattr(mx, dtype)
        a = mx.random.normal(lead + (m, k)).astype(dt)
        b = mx.random.normal(lead + ((n, k) if turned else (k, n))).astype(dt)
        y = mx.swapaxes(b, -1, -2) if turned else b
        mx.eval(a, b)
        work = 2.0 * m * n * k * max(1, batch)
        nbytes = a.nbytes + b.nbytes
        count = max(2, min(200, int(2e13 / work), int(2e11 / nbytes)))
        if small:
            count = 2
        try:
            for _ in range(3):
                mx.eval(a @ y)
            best = 1e9
            for _ in range(4):
                start = time.perf_counter()
                mx.eval([a @ y for _ in range(count)])
                mx.synchronize()
                best = min(best, (time.perf_counter() - start) / count)
            out[name] = {"ms": best * 1e3, "tflops": work / best / 1e12, "gbs": nbytes / best / 1e9}
        except Exception as e:  # a tile that the driver refuses is a result too
            out[name] = {"error": str(e)[:200]}
    print(json.dumps(out))


def run(args, env, timeout=100):
    full = dict(os.environ, MLX_VK_MATMUL_SPEC="now", **env)
    cmd = [sys.executable, os.path.abspath(__file__)] + args
    try:
        p = subprocess.run(cmd, env=full, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"failed": f"timed out after {timeout} s"}
    if p.returncode:
        return {"failed": (p.stderr or p.stdout)[-400:]}
    return json.loads(p.stdout.strip().splitlines()[-1])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--only", default="correct,half,float,gemv")
    ap.add_argument("--json", default="matmul_sweep.json")
    ap.add_argument("--small", action="store_true", help="small sizes, for a software driver")
    ap.add_argument("--child")
    ap.add_argument("--dtype", default="float32")
    args = ap.parse_args()
    small = ["--small"] if args.small else []
    if args.child == "correct":
        return child_correct(args.small, [args.dtype])
    if args.child:
        return child_time(args.child, args.small)

    only = args.only.split(",")
    result = {}
    if "correct" in only:
        # Compiling is what takes long, so all run at once; one line as each is through.
        def check(job):
            (tier, off), dtype = job
            r = run(["--child", "correct", "--dtype", dtype] + small, {"MLX_VK_DISABLE": off}, 400)
            lines = [
                f"{tier} {dtype}: {r.get('checked', 0)} checked, "
                f"{len(r.get('bad', []))} bad {r.get('failed', '')}"
            ]
            print("\n    ".join(lines + r.get("bad", [])[:8]), flush=True)
            result[f"correct {tier} {dtype}"] = r

        jobs = [(t, d) for d in ("bfloat16", "float16", "float32") for t in TIERS.items()]
        jobs = [j for j in jobs if j[1] != "float32" or j[0][0] not in ("matmul_nv2", "matmul_khr")]
        with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 2)) as pool:
            list(pool.map(check, jobs))
    sweeps = []
    if "half" in only:
        sweeps += [("half", "nv2", "MLX_VK_MATMUL_TILE", t, "") for t in NV2_TILES]
        sweeps += [("half", "khr", "MLX_VK_MATMUL_TILE", t, "matmul_nv2") for t in KHR_TILES]
    if "float" in only:
        sweeps += [("float", "tiled", "MLX_VK_MATMUL_TILE", t, "") for t in FLOAT_TILES]
    if "gemv" in only:
        sweeps += [("gemv", "gemv", "MLX_VK_GEMV", t, "") for t in GEMV]
    seen = None
    for which, tier, variable, value, off in sweeps:
        if seen != which:
            print(
                f"\n{which} (TFLOP/s; GB/s for gemv)\n{'tile':28}"
                + "".join(f"{c[0]:>24}" for c in CASES[which])
            )
            seen = which
        r = run(["--child", which] + small, {variable: value, "MLX_VK_DISABLE": off})
        result[f"{which} {tier} {value or 'default'}"] = r
        unit = "gbs" if which == "gemv" else "tflops"
        row = "".join(f"{r.get(c[0], {}).get(unit, float('nan')):>24.1f}" for c in CASES[which])
        print(f"{tier + ' ' + (value or 'default'):28}{row} {r.get('failed', '')}", flush=True)
    with open(args.json, "w") as f:
        json.dump(result, f, indent=1)


if __name__ == "__main__":
    main()
