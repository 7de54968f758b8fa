"""Writes python/tests/random_constants.json: what official MLX draws for fixed keys.

Run once in an environment of its own, never in the one where this project is installed:

    python -m venv oracle && oracle/bin/pip install "mlx[cpu]==0.32.4" numpy
    oracle/bin/python tools/gen_random_constants.py
"""

import json
import pathlib
import sys

import mlx.core as mx

TESTS = pathlib.Path(__file__).parents[1] / "python" / "tests"
sys.path.insert(0, str(TESTS))
from random_cases import CASES  # noqa: E402


def main():
    mx.set_default_device(mx.cpu)
    out = {}
    for name, (draw, _) in CASES.items():
        a = draw(mx)
        dtype = str(a.dtype).removeprefix("mlx.core.")
        if mx.issubdtype(a.dtype, mx.floating):
            a = a.astype(mx.float32)
        out[name] = {"dtype": dtype, "shape": list(a.shape), "values": a.reshape(-1).tolist()}
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in out.items())
    (TESTS / "random_constants.json").write_text("{\n" + lines + "\n}\n")
    print(f"{len(out)} streams of mlx {mx.__version__}")


if __name__ == "__main__":
    main()
