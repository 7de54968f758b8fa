"""An H200 that is not there (MLX_VK_COMPILE_ONLY=h200): what is joined shows without it."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.gpu

#: A layer of a language model, of one token behind others.
LAYER = """
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
        self.make_unit()
        self.norms = [nn.RMSNorm(HIDDEN) for _ in range(2)]
        self.cache = [mx.zeros((1, KV, ROOM, HEAD), mx.bfloat16) for _ in range(2)]

    def make_unit(self):
        self.gate, self.up = (nn.Linear(HIDDEN, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, HIDDEN, bias=False)

    def unit(self, row):
        return self.down(nn.silu(self.gate(row)) * self.up(row))

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
        x = x + self.post(0, self.o(a.swapaxes(1, 2).reshape(1, 1, -1)))
        return x + self.post(1, self.unit(self.norms[1](x)))

    def post(self, i, row):
        return row
"""

#: The same with normalised results, which are added to rows then, as of gemma3 and glm4.
SUMS = """
class Layer(Layer):
    def __init__(self):
        super().__init__()
        self.posts = [nn.RMSNorm(HIDDEN) for _ in range(2)]

    def post(self, i, row):
        return self.posts[i](row)
"""

#: The same with experts, as of qwen3_moe, whose router has codes of its own, or none.
EXPERTS = """
class Layer(Layer):
    def make_unit(self):
        self.router = nn.Linear(HIDDEN, 16, bias=False)
        draw = lambda *shape: mx.random.normal(shape).astype(mx.bfloat16)
        shapes = [(16, 512, HIDDEN), (16, 512, HIDDEN), (16, HIDDEN, 512)]
        self.experts = [mx.quantize(draw(*s), GROUP, BITS, mode=MODE) for s in shapes]

    def unit(self, row):
        gates = mx.softmax(self.router(row), axis=-1, precise=True)
        picks = mx.argpartition(gates, kth=-4, axis=-1)[..., -4:]
        scores = mx.take_along_axis(gates, picks, axis=-1)
        scores = scores / scores.sum(axis=-1, keepdims=True)
        how = dict(rhs_indices=picks, transpose=True, group_size=GROUP, bits=BITS, mode=MODE)
        by = lambda y, w: mx.gather_qmm(y, *w, **how)
        y = mx.expand_dims(row, (-2, -3))
        gate, up, down = self.experts
        y = by(swiglu(by(y, gate), by(y, up)), down).squeeze(-2)
        return (y * scores[..., None]).sum(axis=-2)


@mx.compile
def swiglu(gate, up):
    return nn.silu(gate) * up
"""

#: Prints what one of them costs.
COUNTS = """
ROUTER = globals().get("ROUTER")


def counted(layers):
    model = [Layer() for _ in range(layers)]
    for layer in model:
        layer.set_dtype(mx.bfloat16)
        own = lambda path, m: ROUTER if path == "router" else hasattr(m, "to_quantized")
        nn.quantize(layer, GROUP, BITS, mode=MODE, class_predicate=own)
        mx.eval(layer.parameters(), getattr(layer, "experts", []))
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
    told = rehearsed(f"GROUP, BITS, MODE = {group}, {bits}, {mode!r}\n" + LAYER + COUNTS)
    assert told["device"] == "NVIDIA H200"
    names = [k for k in told["ran"] if k != "commands"]
    assert told["ran"]["commands"] == 2, told
    assert (
        len(names) == 1 and names[0].startswith("sdpa_rope_several_") and "_qmm_chain_" in names[0]
    )


@pytest.mark.parametrize("codes", [(64, 4, "affine"), (64, 6, "affine")], ids=str)
def test_a_layer_that_adds_normalised_results_is_one_command(codes):
    group, bits, mode = codes
    given = f"GROUP, BITS, MODE = {group}, {bits}, {mode!r}\n"
    told = rehearsed(given + LAYER + SUMS + COUNTS)
    names = [k for k in told["ran"] if k != "commands"]
    assert told["ran"]["commands"] == 2, told
    assert len(names) == 1 and names[0].startswith("sdpa_rope_several_")
    assert "_norm_added" in names[0]


@pytest.mark.parametrize(
    "router", [{"group_size": 64, "bits": 8}, False], ids=["octets", "elements"]
)
@pytest.mark.parametrize(
    "codes", [(64, 4, "affine"), (32, 4, "affine"), (128, 4, "affine"), (32, 4, "mxfp4")], ids=str
)
def test_a_layer_of_experts_is_one_command_whatever_its_router_is_by(codes, router):
    group, bits, mode = codes
    given = f"GROUP, BITS, MODE, ROUTER = {group}, {bits}, {mode!r}, {router!r}\n"
    told = rehearsed(given + LAYER + EXPERTS + COUNTS)
    assert told["ran"]["commands"] == 2, told
    (name,) = (k for k in told["ran"] if k != "commands")
    own = "_mxfp4" if mode == "mxfp4" else f"_q{bits}g{group}"
    mixed = f"_qmm_chain{own}" + ("_q8g64" if router else "_dense")
    assert name.startswith("with_softmax_choice_4_of_16_") and mixed in name, name


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


SUMS_OF_ROWS = """
import json
import mlx.core as mx

mx.set_default_device(mx.gpu)
weights = [mx.ones(1024, mx.bfloat16) for _ in range(2)]
x, r = (mx.random.normal((ROWS, 1, 1024)).astype(mx.bfloat16) for _ in range(2))
mx.eval(weights, x, r)
for _ in range(2):
    mx.vulkan.stats(reset=True)
    h = r + mx.fast.rms_norm(x, weights[0], 1e-6)
    mx.eval(h, mx.fast.rms_norm(h, weights[1], 1e-6))
print(json.dumps(mx.vulkan.stats()["kernels"]))
"""


@pytest.mark.parametrize("rows", [3, 32])
def test_sums_of_several_rows_are_normalised_by_who_makes_them(rows):
    ran = rehearsed(f"ROWS = {rows}\n" + SUMS_OF_ROWS)
    assert ran == {"rms_norm_few_bfloat16_add_norm": 1}
