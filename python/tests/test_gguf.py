"""GGUF files against the format's definition in gguf_reference.py."""

import pathlib
import struct

import gguf_reference as gguf
import helpers as h
import mlx.core as mx
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def load(raw, **options):
    pathlib.Path("x.gguf").write_bytes(raw)
    return mx.load("x.gguf", **options)


PLAIN = {"float32": 0, "float16": 1, "int8": 24, "int16": 25, "int32": 26}


@pytest.mark.parametrize("dtype", PLAIN)
def test_plain_tensors_both_ways(dtype, rng):
    for shape in [(), (5,), (0, 3), (2, 3), (2, 3, 4, 5)]:
        x = rng.integers(-9, 9, shape).astype(dtype)
        got = load(gguf.file([("a.b/c", shape, PLAIN[dtype], x.tobytes())]))
        assert h.name_of(got["a.b/c"].dtype) == dtype and got["a.b/c"].shape == shape
        np.testing.assert_array_equal(np.array(got["a.b/c"]), x)
        mx.save_gguf("y", {"a": mx.array(x), "b": mx.array(x).T})
        again = mx.load("y.gguf")
        np.testing.assert_array_equal(np.array(again["a"]), x)
        np.testing.assert_array_equal(np.array(again["b"]), x.T)


@pytest.mark.parametrize("kind", [2, 3, 8])
def test_affine_blocks_become_weight_scales_and_biases(kind, rng):
    name, block, _ = gguf.BLOCKS[kind]
    rows, columns = 5, 96
    raw = gguf.random_blocks(name, rows * columns // block, rng)
    got = load(gguf.file([("m.q.weight", (rows, columns), kind, raw)]))
    assert sorted(got) == ["m.q.biases", "m.q.scales", "m.q.weight"]
    bits = 8 if name == "Q8_0" else 4
    weight = np.array(got["m.q.weight"])
    assert weight.dtype == np.uint32 and weight.shape == (rows, columns * bits // 32)
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    q = (weight[..., None] >> shifts & np.uint32(2**bits - 1)).reshape(rows, columns)
    b = np.frombuffer(raw, np.uint8).reshape(-1, gguf.BLOCKS[kind][2])
    np.testing.assert_array_equal(q, gguf.numbers(name, b).reshape(rows, columns))
    scales, biases = np.array(got["m.q.scales"]), np.array(got["m.q.biases"])
    assert scales.dtype == biases.dtype == np.float16
    assert scales.shape == biases.shape == (rows, columns // block)
    d = gguf.halves(b, 0).reshape(rows, -1)
    np.testing.assert_array_equal(scales, d.astype(np.float16))
    offset = {"Q4_0": -8 * d, "Q8_0": -128 * d}.get(name)
    offset = gguf.halves(b, 2).reshape(rows, -1) if offset is None else offset
    np.testing.assert_array_equal(biases, offset.astype(np.float16))


@pytest.mark.parametrize("kind", [10, 12, 14, 30])
def test_other_blocks_become_float16(kind, rng):
    name, block, _ = gguf.BLOCKS[kind]
    shape = (3, 512)
    raw = gguf.random_blocks(name, 3 * 512 // block, rng)
    got = load(gguf.file([("a.weight", shape, kind, raw)]))["a.weight"]
    assert got.dtype == mx.float16 and got.shape == shape
    want = gguf.values(name, raw).reshape(shape)
    np.testing.assert_allclose(np.array(got, dtype=np.float32), want, rtol=1e-3, atol=2e-3)


def test_many_blocks_in_pieces(rng):
    """More than one chunk of blocks and, on a GPU, more than one staging piece."""
    n = 40 << 20
    raw = gguf.random_blocks("Q8_0", 4096, rng) * (n // 32 // 4096)
    got = load(gguf.file([("a.weight", (n,), 8, raw)]))
    b = np.frombuffer(raw, np.uint8).reshape(-1, 34)
    w = np.array(got["a.weight"] + 0)
    np.testing.assert_array_equal(w.view(np.uint8).reshape(-1, 32), gguf.numbers("Q8_0", b))


METADATA = [
    ("s", "str", "text ü"),
    ("empty", "str", ""),
    ("l", ["str"], ["x", "", "zz"]),
    ("none", ["str"], []),
    ("i", "int32", -3),
    ("u", "uint64", 2**64 - 1),
    ("f", "float32", 2.5),
    ("b", "bool_", True),
    ("d", "float64", 1.25),
    ("v", ["int16"], [1, -2, 3]),
    ("w", ["bool_"], [True, False]),
    ("e", ["float64"], [0.5, 1e300]),
]


def test_metadata_of_every_type():
    for version in (2, 3):
        arrays, got = load(gguf.file([], METADATA, version), return_metadata=True)
        assert arrays == {} and list(got) == [k for k, _, _ in METADATA]
        for key, kind, want in METADATA:
            v = got[key]
            if kind in ("str", ["str"]):
                assert v == want
                continue
            dtype = kind[0] if isinstance(kind, list) else kind
            assert h.name_of(v.dtype) == {"float64": "float32"}.get(dtype, dtype)
            with np.errstate(over="ignore"):
                assert v.tolist() == np.array(want, np.array(v).dtype).tolist()


def test_metadata_roundtrip():
    metadata = {"s": "ü", "l": ["a", "b"], "n": [], "x": mx.array(3), "y": mx.array([1.5, 2]),
                "z": mx.array([True]), "u": mx.array([7], mx.uint64)}  # fmt: skip
    mx.save_gguf("x", {"a": mx.ones((2,))}, metadata)
    _, got = mx.load("x.gguf", return_metadata=True)
    assert list(got) == list(metadata)
    for k, v in metadata.items():
        if isinstance(v, mx.array):
            assert got[k].dtype == v.dtype and got[k].tolist() == v.tolist()
        else:
            assert got[k] == v
    with pytest.raises(UnicodeDecodeError):
        load(gguf.file([], [("k", "str", b"\xff")]), return_metadata=True)
    assert load(gguf.file([], [("k", "str", b"\xff")])) == {}


@pytest.mark.parametrize("alignment", [8, 64, 4096])
def test_alignment(alignment):
    metadata = [("general.alignment", "uint32", alignment)]
    tensors = [("a", (3,), 26, struct.pack("<3i", 1, 2, 3)), ("b", (1,), 26, struct.pack("<i", 4))]
    got = load(gguf.file(tensors, metadata, alignment=alignment))
    assert got["a"].tolist() == [1, 2, 3] and got["b"].tolist() == [4]
    mx.save_gguf("y", got, {"general.alignment": mx.array(alignment, mx.uint32)})
    again = mx.load("y.gguf")
    assert again["a"].tolist() == [1, 2, 3] and again["b"].tolist() == [4]


def test_bad_arguments():
    a = mx.array([1.0])
    for call, error in [
        (lambda: mx.save_gguf(open("f", "wb"), {"a": a}), ValueError),
        (lambda: mx.save_gguf("x", a), TypeError),
        (lambda: mx.save_gguf("x", {"a": 5}), RuntimeError),
        (lambda: mx.save_gguf("x", {5: a}), RuntimeError),
        (lambda: mx.save_gguf("x", {"a": a.astype(mx.bfloat16)}), RuntimeError),
        (lambda: mx.save_gguf("x", {"a": mx.array([1], mx.uint8)}), RuntimeError),
        (lambda: mx.save_gguf("x", {"a": mx.ones((1,) * 9)}), RuntimeError),
        (lambda: mx.save_gguf("x", {"a": a}, {"k": 5}), RuntimeError),
        (lambda: mx.save_gguf("x", {"a": a}, {"k": [1]}), RuntimeError),
        (lambda: mx.save_gguf("x", {"a": a}, {"k": mx.ones((1, 1))}), RuntimeError),
        (lambda: mx.save_gguf("x", {"a": a}, {"k": mx.zeros((0,))}), RuntimeError),
        (lambda: mx.save_gguf("x", {"a": a}, {"k": mx.array(1j)}), ValueError),
        (lambda: mx.save_gguf("x", {"a": a}, {"general.alignment": mx.array(3)}), ValueError),
        (lambda: mx.load(open("f", "rb"), format="gguf"), ValueError),
    ]:
        with pytest.raises(error):
            call()
    assert not pathlib.Path("x.gguf").exists()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "fit"),
        (b"GGUX" + bytes(30), "begin"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "version"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "tensors do not fit"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "keys do not fit"),
        (gguf.file([("a", (64,), 0, b"")]), "past the end"),
        (gguf.file([("a", (2**31 - 1, 2**31 - 1, 2**31 - 1), 0, b"")]), "address space"),
        (gguf.file([("a", (33,), 8, bytes(68))]), "last dim"),
        (gguf.file([("a", (32,), 6, bytes(22))]), "unsupported type 6"),
        (gguf.file([("a", (1,), 0, bytes(4)), ("a", (1,), 0, bytes(4))]), "Duplicate"),
        (gguf.file([("a", (1,) * 9, 0, bytes(4))]), "axes"),
        (gguf.file([], [("general.alignment", "uint32", 0)]), "alignment"),
        (gguf.file([(b"\xff", (1,), 0, bytes(4))]), "UTF-8"),
    ],
)
def test_broken_files(raw, message):
    with pytest.raises((RuntimeError, ValueError), match=message):
        load(raw)


def test_nested_arrays_are_refused():
    raw = gguf.file([], [("k", ["int32"], [])])
    raw = raw.replace(struct.pack("<II", 9, 5), struct.pack("<II", 9, 9))
    with pytest.raises(ValueError, match="nested"):
        load(raw, return_metadata=True)
