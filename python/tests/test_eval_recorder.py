"""Graphs of `async_eval` that another thread records while the caller goes on (MLX_VK_RECORDER)."""

import helpers as h
import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.validation]

START = """
import gc, threading
import mlx.core as mx
import numpy as np
mx.set_default_device(mx.gpu)

def chain(x, n=60, by=1.0):
    for i in range(n):
        x = x + by if i % 2 else by + x
    return x

def recordings():
    return mx.vulkan.stats()["recordings"]
"""


def run(program, recorder="1", **env):
    done = h.python(START + program, env={"MLX_VK_RECORDER": recorder, **env}, timeout=300)
    assert done.stderr == ""
    return done.stdout.split()


def test_values_of_graphs_that_build_on_each_other():
    out = run("""
x, y = mx.zeros((3, 5)), mx.ones((3, 5))
mx.eval(x, y)
for i in range(20):
    x = chain(x) * 0.5
    y = y + x.T[:, :3].sum() * 0
    mx.async_eval(x, y)
z = (x + y).tolist()
expected = 0.0
for i in range(20):
    expected = (expected + 60) * 0.5
print(bool(np.all(np.array(z) == expected + 1)), recordings())
""")
    assert out == ["True", "20"]


def test_switched_off_and_short_graphs_stay_with_the_caller():
    program = """
x = chain(mx.zeros(4), {n})
mx.async_eval(x)
print(x.tolist(), recordings())
"""
    assert run(program.format(n=60), recorder="0")[-1] == "0"
    assert run(program.format(n=10))[-1] == "0"


def test_other_evaluations_come_behind():
    out = run("""
rng = np.random.default_rng(0)
a = mx.array(rng.standard_normal((16, 16)).astype(np.float32))
for i in range(10):
    x = chain(a, 80, 0.25)
    mx.async_eval(x)
    y = mx.sum(x)                       # evaluated by the caller
    mx.eval(y)
    with mx.stream(mx.cpu):             # reads what the recorder makes
        z = chain(x, 60, -0.25) - 5
    w = chain(z, 60, 0.5)               # a graph on two devices
    mx.async_eval(w)
    g = mx.grad(lambda t: (chain(t, 60) * x).sum())(a)
    mx.async_eval(g)
    expected = np.array(a, np.float64)
    assert np.allclose(np.array(x), expected + 20, atol=1e-4)
    assert np.allclose(y.item(), (expected + 20).sum(), rtol=1e-5)
    assert np.allclose(np.array(w), expected + 30, atol=1e-4)
    assert np.allclose(np.array(g), expected + 20, atol=1e-4)
print(recordings() >= 10)
""")
    assert out == ["True"]


def test_updates_in_place_see_what_was_there():
    # They are read while the recorder overwrites memory of arrays that nobody holds any more.
    out = run("""
cache = mx.zeros((4, 64))
mx.eval(cache)
kept = []
for i in range(40):
    row = chain(mx.full((4, 1), float(i)), 50, 0.0)
    cache[:, i:i + 1] = row
    if i % 7 == 0:
        kept.append((i, cache * 1))
    mx.async_eval(cache)
expected = np.zeros((4, 64), np.float32)
for i in range(40):
    expected[:, i] = i
    for n, old in kept:
        if n == i:
            assert np.array_equal(np.array(old), expected), i
assert np.array_equal(np.array(cache), expected)
print(recordings())
""")
    assert out == ["40"]


def test_the_same_kernels_and_bits_as_on_the_calling_thread():
    program = """
import mlx.nn as nn
mx.random.seed(3)
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.RMSNorm(64), nn.Linear(64, 128), nn.Linear(128, 64)
    def __call__(self, x):
        return x + self.down(nn.silu(self.up(self.norm(x))))
layers = [Layer() for _ in range(12)]
for l in layers:
    nn.quantize(l, 32, 4)
mx.eval([l.parameters() for l in layers])
x = mx.random.normal((1, 64))
mx.eval(x)
mx.vulkan.stats(reset=True)
for step in range(6):
    for l in layers:
        x = l(x)
    mx.async_eval(x)
values = np.array(x)
kernels = mx.vulkan.stats()["kernels"]
print(sorted(kernels.items()), values.tobytes().hex())
"""
    here, apart = run(program, recorder="0"), run(program)
    assert apart == here
    assert run(program) == apart


def test_a_failed_graph_raises_where_it_is_read_and_can_be_tried_again(tmp_path):
    for name in ("sort.comp", "rows.comp"):
        (tmp_path / name).write_text("#version 460\nvoid main() { this is no shader; }\n")
    out = run(
        """
before = chain(mx.arange(32).astype(mx.float32))
middle = mx.sort(before * 2)
after = chain(middle)
mx.async_eval(before, after)
behind = chain(after + before)
mx.async_eval(behind)
assert recordings() == 2
for a in (after, middle, behind, after):
    for again in range(2):
        try:
            print("gave", a.tolist())
        except RuntimeError as e:
            assert "does not compile" in str(e), e
assert before.tolist() == [i + 60.0 for i in range(32)]
fine = chain(before)
mx.async_eval(fine)
assert fine.tolist() == [i + 120.0 for i in range(32)]
mx.async_eval(after)
try:
    mx.synchronize()
    print("gave nothing")
except RuntimeError as e:
    assert "does not compile" in str(e), e
mx.synchronize()
print("fine", recordings())
""",
        MLX_VK_SHADER_DIR=str(tmp_path),
    )
    assert out[0] == "fine"


def test_a_caller_that_never_waits_is_held_back():
    out = run("""
x = mx.zeros((256, 256))
mx.eval(x)
for i in range(200):
    x = chain(x)
    mx.async_eval(x)
mx.synchronize()
print(x[3, 4].item(), recordings(), mx.get_active_memory() < 64 << 20)
""")
    assert out == ["12000.0", "200", "True"]


def test_memory_of_dropped_graphs_comes_back():
    out = run("""
mx.eval(mx.zeros(4) + 1)
gc.collect()
before = mx.get_active_memory()
for i in range(10):
    x = chain(mx.zeros((1024, 64)) + i)
    mx.async_eval(x)
    del x
mx.synchronize()
print(mx.get_active_memory() - before)
""")
    assert int(out[0]) < 1 << 16


def test_threads_share_arrays_and_streams():
    out = run("""
shared = mx.arange(1024).astype(mx.float32)
mx.eval(shared)
failed = []
def work(k):
    try:
        stream = mx.new_stream(mx.gpu)
        for i in range(8):
            with mx.stream(stream if i % 2 else mx.default_stream(mx.gpu)):
                x = chain(shared * k)
                mx.async_eval(x)
                y = chain(x, 60, -1.0)
                mx.async_eval(y)
                if i % 3 == 0:
                    mx.eval(chain(y, 8, 0.0))
            assert np.array_equal(np.array(y), np.arange(1024, dtype=np.float32) * k), (k, i)
    except Exception as e:
        failed.append(e)
threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
for t in threads: t.start()
for t in threads: t.join()
print(failed, recordings() > 0)
""")
    assert out == ["[]", "True"]


@pytest.mark.parametrize("end", ["", "del x", "raise SystemExit(0)"])
def test_a_process_may_end_with_work_under_way(end):
    run(f"""
x = chain(mx.zeros((64, 64)), 500)
mx.async_eval(x)
{end}
""")


def test_profiles_see_all_of_a_block():
    out = run("""
x = mx.zeros(64)
mx.eval(x)
mx.async_eval(chain(x))
with mx.vulkan.profile() as p:
    y = chain(x)
    mx.async_eval(y)
print(len(p.commands))
""")
    assert out == ["60"]


def test_weights_made_in_the_same_graph():
    out = run("""
rng = np.random.default_rng(0)
w = rng.standard_normal((64, 4096)).astype(np.float16) / 64
for i in range(3):
    x = mx.array(rng.standard_normal((1, 4096)).astype(np.float16))
    codes = mx.quantize(chain(mx.array(w), 60, 0.0), group_size=64, bits=4)
    dense = chain(mx.array(w), 2, 0.0)
    y = mx.quantized_matmul(x, *codes, group_size=64, bits=4) + x[:, :64]
    z = x @ dense.T + x[:, :64]
    mx.async_eval(y, z)
    near = np.array(mx.dequantize(*codes, group_size=64, bits=4), np.float64)
    x = np.array(x, np.float64)
    assert np.allclose(np.array(y), x @ near.T + x[:, :64], atol=2e-2)
    assert np.allclose(np.array(z), x @ w.T.astype(np.float64) + x[:, :64], atol=2e-2)
print(recordings())
""")
    assert out == ["3"]


def test_handles_that_go_early_do_not_change_what_is_joined():
    out = run("""
rng = np.random.default_rng(0)
w = mx.array(rng.standard_normal((4096, 4096)).astype(np.float16))
codes = mx.quantize(w, group_size=64, bits=4)
norm = mx.ones(4096, mx.float16)
mx.eval(codes, norm)
x = mx.array(rng.standard_normal((1, 4096)).astype(np.float16))

def step(x, keep):
    for _ in range(30):
        y = mx.fast.rms_norm(x, norm, 1e-5)
        p = mx.quantized_matmul(y, *codes, group_size=64, bits=4)
        keep += [y, p]
        x = (x + p) * 0.01
    return x

def kernels():
    return dict(mx.vulkan.stats()["kernels"])

def ran(when):
    before, held = kernels(), []
    z = step(x, held)
    if when == "before":
        held.clear()
    mx.async_eval(z)
    if when == "behind":
        held.clear()
    values = np.array(z)
    return values, {k: n - before.get(k, 0) for k, n in kernels().items() if n != before.get(k, 0)}

ran("never")  # what the first run asks of a GPU is no kernel of the graph
kept = [ran(when) for when in ("never", "behind") * 3]
print(all((v == kept[0][0]).all() for v, _ in kept))
print(all(k == kept[0][1] for _, k in kept))
print(ran("before")[1] != kept[0][1])
""")
    assert out == ["True"] * 3
