"""A kernel that does not compile makes every reader of its result fail, each time it is tried."""

import helpers as h
import pytest

pytestmark = pytest.mark.gpu

READS = [
    "np.array(y)",
    "np.asarray(y)",
    "np.array(y, copy=True)",
    "memoryview(y)",
    "bytes(y)",
    "y.tolist()",
    "y[1].item()",
    "float(y[1])",
    "list(y)[0].item()",
    "repr(y)",
    "str(y + 1)",
    "f'{y[0]}'",
    "y.__array__()",
    "y.__dlpack__()",
    "np.from_dlpack(y)",
    "bool(mx.all(y == y))",
    "pickle.dumps(y)",
    "mx.eval(y)",
    "(mx.async_eval(y), mx.synchronize())",
    "mx.save_safetensors(path, {'y': y})",
    "np.array(mx.sum(y))",
    "np.array(cumulative[0]), np.array(cumulative[1])",
]

PROGRAM = """
import os, pickle
import mlx.core as mx
import numpy as np
mx.set_default_device(mx.gpu)
x = mx.arange(64).astype(mx.float32) - 9
y = mx.sort(x * 2)
cumulative = mx.split(mx.sort(-x), 2)
path = os.path.join(os.environ["MLX_VK_SHADER_DIR"], "x.safetensors")
for read in {reads}:
    for again in range(2):
        try:
            print(read, "gave", repr(eval(read))[:60])
        except Exception as e:
            assert "does not compile" in str(e), (read, e)
            print(read, "raised")
# What does not need the kernel goes on.
assert np.array(x * 2).tolist() == [2.0 * (i - 9) for i in range(64)]
"""


def test_every_reader_raises(tmp_path):
    for name in ("sort.comp", "rows.comp"):
        (tmp_path / name).write_text("#version 460\nvoid main() { this is no shader; }\n")
    env = {"MLX_VK_SHADER_DIR": str(tmp_path)}
    run = h.python(PROGRAM.format(reads=READS), env=env, timeout=300)
    assert [line for line in run.stdout.splitlines() if not line.endswith("raised")] == []
    assert run.stdout.count("raised") == 2 * len(READS)
