"""export_function, import_function, exporter, export_to_dot."""

import io
import os
import re
import shutil
import struct
import subprocess

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
import registered


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "f.mlxfn")


def same(got, want):
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_array_equal(h.to_np(g), h.to_np(w))


def test_arguments_by_position_and_by_name(path):
    c = mx.array([1.0, 2.0])
    mx.export_function(path, lambda x, y: x + y * c, mx.zeros(2), mx.zeros(2))
    f = mx.import_function(path)
    want = [mx.array([2.0, 3.0])]
    one = mx.ones(2)
    assert isinstance(f(one, one), tuple)
    for got in (f(one, one), f([one, one]), f((one, one))):
        same(got, want)
    mx.export_function(path, lambda x, *, z, a: [x - a, z], one, z=one, a=one)
    f = mx.import_function(path)
    a, x, z = mx.array([1.0, 1.0]), mx.array([3.0, 4.0]), mx.array([5.0, 6.0])
    for got in (f(x, z=z, a=a), f((x,), {"a": a, "z": z})):
        same(got, [x - a, z])


def test_calls_of_another_form_name_what_there_is(path):
    mx.export_function(path, lambda x, y: x + y[0], mx.zeros(2), y=mx.zeros(3, mx.int32))
    f = mx.import_function(path)
    for args, kwargs in [
        ((mx.zeros(3),), {"y": mx.zeros(3, mx.int32)}),
        ((mx.zeros(2),), {}),
        ((mx.zeros(2),), {"z": mx.zeros(3, mx.int32)}),
        ((), {}),
        ((mx.zeros(2, mx.int32),), {"y": mx.zeros(3, mx.int32)}),
    ]:
        with pytest.raises(ValueError, match="No imported function found"):
            f(*args, **kwargs)
    with pytest.raises(ValueError, match=r'1: \(2\) float32\n   "y": \(3\) int32'):
        f(mx.zeros(7))
    for bad in ((1.0,), ([1.0],), ("x",), (mx.zeros(2), 3)):
        with pytest.raises(ValueError, match="Inputs can either be"):
            f(*bad)


def test_several_forms_share_constants(path):
    big = mx.arange(1000.0)
    with mx.exporter(path, lambda *xs: sum(xs) + big[0] * 2 + big.sum(), metadata="text") as e:
        for n in (1, 2, 3):
            e(*[mx.array(1.0)] * n)
        with pytest.raises(RuntimeError, match="twice with the same signature"):
            e(mx.array(2.0))
    with pytest.raises(RuntimeError, match="closed"):
        e(mx.array(1))
    assert os.path.getsize(path) < 7000
    f, text = mx.import_function(path, return_metadata=True)
    assert text == "text"
    for n in (1, 2, 3):
        same(f(*[mx.array(2.0)] * n), [mx.array(499500.0 + 2 * n)])
    with pytest.raises(ValueError, match="No imported"):
        f(*[mx.array(2.0)] * 4)


def test_a_constant_of_several_forms_is_stored_once(path):
    constant = mx.random.normal((16, 2048))
    mx.eval(constant)
    with mx.exporter(path, lambda *a: constant + sum(a)) as e:
        for i in range(5):
            e(*[mx.array(1)] * i)
    assert os.path.getsize(path) - constant.nbytes < 4096
    f = mx.import_function(path)
    for i in range(5):
        same(f(*[mx.array(1)] * i), [constant + i])


def test_what_an_exporter_cannot_write_stays(tmp_path):
    with pytest.raises(RuntimeError, match="Failed to open"):
        mx.exporter(str(tmp_path / "none" / "f"), lambda x: x)
    path = str(tmp_path / "f")
    mx.exporter(path, lambda x: x).close()
    with pytest.raises(ValueError, match="No imported"):
        mx.import_function(path)(mx.ones(2))
    mx.export_function(path, lambda x: x + 1, mx.ones(2))
    before = open(path, "rb").read()
    with pytest.raises(ZeroDivisionError):
        mx.export_function(path, lambda x: x / (1 // 0), mx.ones(2))
    assert open(path, "rb").read() == before
    assert os.listdir(tmp_path) == ["f"]


def test_shapes_that_vary(path):
    def f(x, w):
        return mx.softmax(x @ w, -1) - mx.mean(x, -1, keepdims=True)

    mx.export_function(path, f, mx.zeros((2, 3)), mx.zeros((3, 4)), shapeless=True)
    g = mx.import_function(path)
    for n, k, m in [(2, 3, 4), (5, 2, 1), (1, 7, 3)]:
        x, w = mx.random.normal((n, k)), mx.random.normal((k, m))
        assert mx.allclose(g(x, w)[0], f(x, w), 1e-5, 1e-6).item()
    with pytest.raises(ValueError, match="No imported"):
        g(mx.zeros((1, 2, 3)), mx.zeros((3, 4)))
    with pytest.raises(ValueError):
        mx.eval(g(mx.zeros((2, 3)), mx.zeros((4, 4))))


def test_refused_functions_and_arguments(path):
    @mx.custom_function
    def f(x):
        return x * 2

    mx.export_function(path, f, mx.ones(2))

    @f.vjp
    def f_vjp(primals, cotangents, outputs):
        return cotangents

    with pytest.raises(ValueError, match="Unable to serialize primitive"):
        mx.export_function(path, f, mx.ones(2))
    for bad in (1.0, "s", {"x": [mx.ones(2)]}, None):
        with pytest.raises(ValueError, match="Inputs can either be"):
            mx.export_function(path, lambda x: x, bad)
    for value in (1.0, None, {"a": mx.ones(1)}, [[mx.ones(1)]], "x"):
        with pytest.raises(ValueError, match="Outputs can be"):
            mx.export_function(path, lambda x, v=value: v, mx.ones(2))
    with pytest.raises(ValueError, match="not allowed"):
        mx.export_function(path, lambda x: x * x.sum().item(), mx.ones(2))
    with pytest.raises(TypeError):
        mx.export_function(path, 3, mx.ones(2))
    with pytest.raises(TypeError):
        mx.export_function(3, lambda x: x, mx.ones(2))


def test_constants_random_state_and_float64(path):
    y = mx.array([True, False])
    mx.export_function(path, lambda x: (x, y, x + mx.random.uniform(shape=(2,))), mx.ones(2))
    f = mx.import_function(path)
    same(f(mx.ones(2)), f(mx.ones(2)))
    same(f(mx.ones(2))[:2], [mx.ones(2), y])
    with mx.stream(mx.cpu):
        x = mx.ones(2, mx.float64)
        mx.export_function(path, lambda x: mx.exp(x), x)
        same(mx.import_function(path)(x), [mx.exp(x)])
    mx.export_function(path, lambda: y)
    same(mx.import_function(path)(), [y])


def test_imported_functions_under_transforms(path):
    mx.export_function(path, lambda x: (mx.sin(x) * x + 1).sum(), mx.ones(3))
    f = mx.import_function(path)
    x = mx.array([0.5, 1.0, 2.0])
    want = mx.sin(x) + x * mx.cos(x)
    for g in (
        mx.grad(lambda x: f(x)[0]),
        mx.compile(mx.grad(lambda x: f(x)[0])),
        mx.grad(mx.compile(lambda x: f(x)[0])),
    ):
        np.testing.assert_allclose(h.to_np(g(x)), h.to_np(want), 1e-5)
    got = mx.vmap(lambda x: f(x)[0])(mx.stack([x, 2 * x]))
    np.testing.assert_allclose(h.to_np(got), [f(x)[0].item(), f(2 * x)[0].item()], 1e-5)
    mx.export_function(path, lambda x: f(x)[0] * 2, x)
    np.testing.assert_allclose(mx.import_function(path)(x)[0].item(), 2 * f(x)[0].item(), 1e-6)
    mx.export_function(path, mx.grad(lambda x: f(x)[0]), x)
    np.testing.assert_allclose(h.to_np(mx.import_function(path)(x)[0]), h.to_np(want), 1e-5)
    mx.export_function(path, mx.compile(lambda x: mx.exp(-x) * x), x)
    np.testing.assert_allclose(
        h.to_np(mx.import_function(path)(x)[0]), h.to_np(mx.exp(-x) * x), 1e-5
    )


def test_a_callback_is_told_everything():
    parts = []
    c = mx.array([1.0, 2.0])
    mx.export_function(parts.append, lambda x, y: x + y * c, mx.zeros(2), y=mx.zeros(2))
    assert [p["type"] for p in parts] == [
        *("inputs", "keyword_inputs", "outputs", "constants"),
        *["primitive"] * 2,
    ]
    a, b = ("A", (2,), mx.float32), ("B", (2,), mx.float32)
    assert parts[0]["inputs"] == [a, b]
    assert parts[1]["keywords"] == [("y", "B")]
    assert parts[2]["outputs"] == [("C", (2,), mx.float32)]
    assert parts[3]["constants"][0][0] == "D"
    assert parts[4]["name"] == "Multiply" and parts[4]["inputs"][0] == b
    assert parts[5]["name"] == "Add" and parts[5]["outputs"] == parts[2]["outputs"]
    with pytest.raises(ValueError, match="[Mm]etadata"):
        mx.export_function(print, lambda x: x, c, metadata="x")


# Every op


def test_every_registered_op_comes_back(path):
    """Each is exported, imported and computes the same."""
    count = 0
    every, dtypes = (6, {"float32", "int32", "uint32"}) if h.on_gpu() else (1, None)
    for call, want in registered.calls(every=every, dtypes=dtypes):
        mx.random.seed(3)
        try:
            mx.export_function(path, lambda *xs, c=call: c.f(*xs), *call.arrays)
        except ValueError as e:
            # What has to see values cannot be recorded at all.
            assert "not allowed" in str(e), f"{call}: {e}"
            with pytest.raises(ValueError, match="not allowed"):
                mx.compile(lambda *xs, c=call: c.f(*xs))(*call.arrays)
            continue
        got = mx.import_function(path)(*call.arrays)
        registered.close(got, want, call.row, str(call))
        count += 1
    assert count > (30 if h.on_gpu() else 250)


# Damaged files

WORD, MASK = 8, 2**64 - 1


def checksum(body):
    """The format's own, so that damage behind it is seen by the parser."""
    s = 0xCBF29CE484222325
    for (w,) in struct.iter_unpack("<Q", body):
        s = ((s ^ w) * 0x100000001B3) & MASK
        s ^= s >> 29
    return s


def sealed(data):
    """A damaged file with the lengths and the checksum that belong to it. Constants of at most 8
    bytes, each filled up to 64, count with one word."""
    data = bytearray(data)
    described, constants = struct.unpack_from("<QQ", data, 16)
    if described + constants + 40 == len(data) and described % 8 == 0:
        starts = range(40 + described, len(data), 64)
        words = b"".join(data[at : at + 8] for at in starts)
        struct.pack_into("<Q", data, 32, checksum(bytes(data[40 : 40 + described]) + words))
    return bytes(data)


def graph(x, w, i):
    y = mx.conv1d(x[None, :, :], w[:, None, :], padding=1)[0] if x.ndim == 2 else x
    y = mx.softmax(y @ w.T, axis=-1)
    y = mx.take(y, i, axis=0) + mx.sort(y, axis=1)[: i.size]
    y = mx.as_strided(y, (2, 2), (1, 2), 1) + mx.broadcast_to(
        mx.cumsum(i.astype(mx.float32))[:2], (2, 2)
    )
    return y.reshape(-1), mx.zeros((3, 2)).at[i].add(mx.ones((i.size, 2))), mx.pad(y, 1)


def test_damaged_files_raise(path):
    """Hundreds of damaged files: a clear error or another valid function, never a crash."""
    # Calls are checked alike for all devices, and each damaged one would be another GPU kernel.
    mx.set_default_device(mx.cpu)
    rng = np.random.default_rng(5)
    x, w = mx.ones((4, 3)), mx.ones((3, 3))
    i = mx.array([0, 2, 1])
    mx.export_function(path, graph, x, w, i)
    good = open(path, "rb").read()
    assert sealed(good) == good
    mx.eval(mx.import_function(path)(x, w, i))
    described = struct.unpack_from("<Q", good, 16)[0]
    bad = [good[:n] for n in (*range(0, 48), *rng.integers(48, len(good), 30))]
    bad += [good + b"x", b"x" * 100, b""]
    numbers = [0, 1, 2, 3, 255, 2**31, 2**32 - 1, 2**40, 2**62, 2**63, MASK, MASK - 1]
    for _ in range(500):
        data = bytearray(good)
        for _ in range(rng.integers(1, 3)):
            at = 40 + int(rng.integers(0, described - 8))
            if rng.random() < 0.5:
                data[at] = rng.integers(0, 256)
            else:
                data[at : at + 8] = struct.pack("<Q", numbers[rng.integers(len(numbers))])
        bad.append(sealed(data))
        if rng.random() < 0.05:
            bad.append(bytes(data))
    imported = 0
    for data in bad:
        with open(path, "wb") as f:
            f.write(data)
        try:
            g = mx.import_function(path)
        except RuntimeError as e:
            assert re.match(r"\[(import_function|load)\]", str(e)), str(e)
            continue
        imported += 1
        try:
            out = g(x, w, i)
            if sum(a.nbytes for a in out) < 1e6:
                mx.eval(out)
        except (ValueError, RuntimeError):
            continue
    assert 0 < imported < len(bad)


def test_a_file_of_another_kind(tmp_path):
    with pytest.raises(RuntimeError, match="Failed to open"):
        mx.import_function(str(tmp_path / "none"))
    mx.save(str(tmp_path / "x.npy"), mx.ones(9))
    with pytest.raises(RuntimeError, match="not an exported function"):
        mx.import_function(str(tmp_path / "x.npy"))
    with pytest.raises(RuntimeError):
        mx.import_function(str(tmp_path))


# Graphs as text


def dot(*args, **kwargs):
    f = io.StringIO()
    mx.export_to_dot(f, *args, **kwargs)
    return f.getvalue()


def test_dot_names_and_edges(tmp_path):
    x, y = mx.array([1.0]), mx.array([2.0])
    z = mx.exp(x + y) * y
    text = dot(z, x=x)
    assert text.startswith("digraph {\n") and text.endswith("}\n")
    labels = re.findall(r'label ="(\w+)"', text)
    assert labels == ["Add", "Exp", "Multiply"]
    assert re.findall(r'rank=source; "(\w+)"', text) == ["x", "B"]
    assert len(re.findall("->", text)) == 8
    assert re.findall(r'rank=sink; "(\w+)"', text) == ["E"]
    for number in re.findall(r"\{ (\d+) \[", text):
        assert f"-> {number}" in text and f"{number} -> " in text
    assert dot() == "digraph {\n}\n"
    assert dot(x, **{'a"b': x}) == 'digraph {\n{ rank=source; "a\\"b"; }\n}\n'
    many = x
    for _ in range(30):
        many = many + 1
    assert '"AA"' in dot([{"a": many}])
    file = tmp_path / "g.dot"
    mx.export_to_dot(str(file), z, x=x)
    assert file.read_text() == text
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg", str(file), "-o", str(tmp_path / "g.svg")], check=True)


def labels(*args, **kwargs):
    return re.findall(r'label ="([^"]*)"', dot(*args, **kwargs))


def test_dot_of_named_arrays_walks_them():
    """Labels and layout as official MLX 0.32.4 draws them."""
    made = "Broadcast Full Broadcast Multiply Exp Sum Squeeze".split()
    assert labels(d=mx.exp(mx.ones(3) * 2).sum()) == made
    x = mx.array([1.0, 2.0])
    assert dot(y=mx.exp(x), x=x) == (
        'digraph {\n{ rank=source; "x"; }\n{ 1 [label ="Exp", shape=rectangle]; }\n'
        '"x" -> 1\n{ rank=sink; "y"; }\n1 -> "y"\n}\n'
    )
    assert dot(a=x) == 'digraph {\n{ rank=source; "a"; }\n}\n'
    assert labels({"y": mx.exp(x)}, [mx.log2(x)]) == ["Exp", "Log2"]
    assert labels(mx.cumsum(x), mx.rsqrt(x), x.astype(mx.int32) & 1, mx.view(x, mx.int32)) == [
        *("CumSum", "Rsqrt", "AsType", "Broadcast", "BitwiseAnd", "View int32")
    ]


def test_dot_of_compiled_functions_names_what_they_do():
    x = mx.ones((8, 8))
    mx.eval(x)
    cases = [
        (lambda x: mx.exp(x) * 2 + 1, ["CompiledExpBroadcastMultiplyBroadcastAdd"]),
        (lambda x: mx.exp(x) * x + 1, ["CompiledExpMultiplyBroadcastAdd"]),
        (lambda x: mx.log2(x) * mx.rsqrt(x), ["CompiledLog2RsqrtMultiply"]),
        (lambda x: mx.sigmoid(x) * x, ["CompiledSigmoidMultiply"]),
        (lambda x: (mx.exp(x) * 2).astype(mx.float16), ["CompiledExpBroadcastMultiplyAsType"]),
    ]
    for f, want in cases:
        assert labels(mx.compile(f)(x)) == want


def test_dot_refuses(tmp_path):
    x = mx.array(1.0)
    with pytest.raises(ValueError, match="file-like"):
        mx.export_to_dot(3, x)
    with pytest.raises(ValueError, match="only arrays"):
        mx.export_to_dot(io.StringIO(), 3)
    with pytest.raises(ValueError):
        mx.export_to_dot(io.StringIO(), x, name=3)
    with pytest.raises(RuntimeError, match="Failed to open"):
        mx.export_to_dot(str(tmp_path / "none" / "x.dot"), x)
    with pytest.raises(TypeError):
        mx.export_to_dot(io.BytesIO(), x)
