"""An H200 that is not there (MLX_VK_COMPILE_ONLY=h200): what is joined shows without it."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.gpu

#: Layers of a language model, of one token behind others; prints what one of them costs.
LAYERS = """
import collections, json
import mlx.core as mx
import mlx.nn as nn

mx.set_default_device(mx.gpu)
HIDDEN, INNER, HEADS, KV, HEAD, ROOM, AT = 1024, 2048, 8, 4, 128, 256, 40


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = {"q": HEADS * HEAD, "k": KV * HEAD, "v": KV * HEAD}
        self.qkv = {k: nn.Linear(HIDDEN, n, bias=False) for k, n in sizes.items()}
        self.o = nn.Linear(HEADS * HEAD, HIDDEN, bias=False)
        self.gate, self.up = (nn.Linear(HIDDEN, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, HIDDEN, bias=False)
        self.norms = [nn.RMSNorm(HIDDEN) for _ in range(2)]
        self.cache = [mx.zeros((1, KV, ROOM, HEAD), mx.bfloat16) for _ in range(2)]

    def __call__(self, x):
        row = self.norms[0](x)
        split = lambda a, n: a.reshape(1, 1, n, HEAD).swapaxes(1, 2)
        q, k, v = (split(self.qkv[n](row), c) for n, c in (("q", HEADS), ("k", KV), ("v", KV)))
        turn = lambda a: mx.fast.rope(a, HEAD, traditional=False, base=1e4, scale=1, offset=AT)
        q, k = turn(q), turn(k)
        for i, a in enumerate((k, v)):
            self.cache[i][..., AT : AT + 1, :] = a
        keys, values = (c[..., : AT + 1, :] for c in self.cache)
        a = mx.fast.scaled_dot_product_attention(q, keys, values, scale=HEAD**-0.5)
        x = x + self.o(a.swapaxes(1, 2).reshape(1, 1, -1))
        row = self.norms[1](x)
        return x + self.down(nn.silu(self.gate(row)) * self.up(row))


def counted(layers):
    model = [Layer() for _ in range(layers)]
    for layer in model:
        layer.set_dtype(mx.bfloat16)
        nn.quantize(layer, GROUP, BITS, mode=MODE)
        mx.eval(layer.parameters())
    x = mx.ones((1, 1, HIDDEN), mx.bfloat16)
    mx.eval(x)
    for _ in range(3):
        mx.vulkan.stats(reset=True)
        y = x
        for layer in model:
            y = layer(y)
        mx.eval(y, [layer.cache for layer in model])
    ran = mx.vulkan.stats()
    return collections.Counter(ran["kernels"]) + collections.Counter(commands=ran["dispatches"])


few, many = counted(2), counted(4)
many.subtract(few)
print(json.dumps({"device": mx.device_info(mx.gpu)["device_name"], "ran": dict(+many)}))
"""


def rehearsed(code):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MLX_VK_")}
    command = [sys.executable, "-c", code]
    env["MLX_VK_COMPILE_ONLY"] = "h200"
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("codes", [(64, 4, "affine"), (64, 8, "affine"), (32, 4, "mxfp4")], ids=str)
def test_a_layer_of_a_token_is_one_command(codes):
    group, bits, mode = codes
    told = rehearsed(f"GROUP, BITS, MODE = {group}, {bits}, {mode!r}\n" + LAYERS)
    assert told["device"] == "NVIDIA H200"
    names = [k for k in told["ran"] if k != "commands"]
    assert told["ran"]["commands"] == 2, told
    assert (
        len(names) == 1 and names[0].startswith("sdpa_rope_several_") and "_qmm_chain_" in names[0]
    )


def test_programs_are_told_and_memory_is_not_there():
    told = rehearsed(
        """
import json
import mlx.core as mx
mx.set_default_device(mx.gpu)
w = mx.quantize(mx.zeros((4096, 4096), mx.bfloat16))
x = mx.ones((1, 4096), mx.bfloat16)
mx.eval(mx.quantized_matmul(x, *w))
mx.eval([mx.full((1 << 14, 1 << 16), i, mx.uint8) + 1 for i in range(64)])
made = {k["name"]: k["text"] for k in mx.vulkan._compiled()}
print(json.dumps({k: v[:16] for k, v in made.items() if v}))
"""
    )
    assert any(k.startswith(("qmm_chain", "qmm_stream")) for k in told), told
    assert all(v.startswith(".version") for v in told.values())
