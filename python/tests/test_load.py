"""Loading and saving: npy, npz and safetensors against NumPy and the definitions of the formats;
lazy reads; files that are replaced, shortened or cannot be written. GGUF is in test_gguf.py,
broken files in test_load_hostile.py."""

import io
import json
import os
import pathlib
import stat
import struct
import threading
import warnings
import zipfile

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

DTYPES = h.ALL + ["float64"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def sample(dtype, shape, rng):
    """Values that every dtype holds exactly, as an MLX array on the CPU and in NumPy."""
    x = rng.integers(0, 2 if dtype == "bool_" else 100, shape)
    with mx.stream(mx.cpu):
        return h.from_np(x, dtype), h.quantise(x, dtype).reshape(shape)


def same(a, want, dtype=None):
    if dtype is not None:
        assert h.name_of(a.dtype) == dtype
    assert a.shape == np.shape(want)
    np.testing.assert_array_equal(h.to_np(a), want)


SHAPES = [(), (1,), (7,), (0,), (3, 0, 2), (4, 5), (2, 3, 4, 5)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_npy_roundtrip_and_numpy(dtype, rng):
    for shape in SHAPES:
        a, want = sample(dtype, shape, rng)
        mx.save("x", a)
        same(mx.load("x.npy"), want, dtype)
        if dtype != "bfloat16":
            read = np.load("x.npy")
            assert read.dtype == h.np_dtype(dtype)
            np.testing.assert_array_equal(read, want)
            for order in "CF":
                np.save("y.npy", np.asarray(want, order=order))
                same(mx.load("y.npy"), want, dtype)
            np.save("y.npy", want.astype(want.dtype.newbyteorder(">")))
            same(mx.load("y.npy"), want, dtype)


def test_bfloat16_is_stored_as_void_of_two_bytes():
    mx.save("x", mx.array([1.5, -2.0], mx.bfloat16))
    raw = np.load("x.npy")
    assert raw.dtype == np.dtype("V2")
    assert raw.tobytes() == struct.pack("<HH", 0x3FC0, 0xC000)


def test_layouts_are_saved_by_value(rng):
    x = rng.integers(0, 50, (3, 4, 5))
    for label, a in h.layouts(x, "int32"):
        mx.save("x", a)
        np.testing.assert_array_equal(np.load("x.npy"), x, err_msg=label)
        mx.save_safetensors("x", {"a": a})
        same(mx.load("x.safetensors")["a"], x, "int32")
    mx.savez("x", b=mx.broadcast_to(mx.array([1, 2]), (3, 2)))
    np.testing.assert_array_equal(np.load("x.npz")["b"], [[1, 2]] * 3)


def npy(header, data=b"", version=(1, 0)):
    header = header.encode()
    size = struct.pack("<H" if version[0] == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes(version) + size + header + data


def test_npy_headers_of_other_writers():
    data = struct.pack("<6i", *range(6))
    for text in [
        "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }\n",
        "{'shape':(2,3),'descr':'<i4','fortran_order':False}",
        "{'descr': \"=i4\", 'fortran_order': False, 'shape': (2L, 3L)}" + " " * 50,
    ]:
        for version in [(1, 0), (2, 0)]:
            pathlib.Path("x.npy").write_bytes(npy(text, data, version))
            same(mx.load("x.npy"), np.arange(6).reshape(2, 3), "int32")
    text = "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }"
    pathlib.Path("x.npy").write_bytes(npy(text, data))
    same(mx.load("x.npy"), np.arange(6).reshape(3, 2).T, "int32")


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (np.array(["a"]), ValueError),
        (np.array([1 + 2j]), ValueError),
        (np.array([1], "M8[s]"), ValueError),
        (np.array([(1, 2.0)], "i4,f4"), ValueError),
        (np.longdouble([1]), ValueError),
    ],
)
def test_npy_dtypes_that_mlx_lacks(value, error):
    np.save("x.npy", value)
    with pytest.raises(error, match="type-string"):
        mx.load("x.npy")


def test_npz_both_ways(rng):
    want = {
        "a": rng.normal(size=(3, 4)).astype(np.float32),
        "b.c/d": np.arange(5),
        "e": np.float16(2),
    }
    for save in (np.savez, np.savez_compressed):
        save("x.npz", **want)
        got = mx.load("x.npz")
        assert list(got) == list(want)
        for k, v in want.items():
            same(got[k], v)
    for save, method in [
        (mx.savez, zipfile.ZIP_STORED),
        (mx.savez_compressed, zipfile.ZIP_DEFLATED),
    ]:
        save("y", mx.array([7]), mx.array(1.5), **{k: mx.array(v) for k, v in want.items()})
        with zipfile.ZipFile("y.npz") as z:
            assert z.testzip() is None
            assert {i.compress_type for i in z.infolist()} == {method}
        got = np.load("y.npz")
        assert sorted(got) == sorted([*want, "arr_0", "arr_1"])
        np.testing.assert_array_equal(got["b.c/d"], want["b.c/d"])
        assert got["arr_1"] == 1.5
        assert mx.load("y.npz")["arr_0"].item() == 7
    mx.savez("z")
    assert mx.load("z.npz") == {}


def member(value):
    f = io.BytesIO()
    np.save(f, value)
    return f.getvalue()


def test_npz_names_are_keys_and_nothing_else():
    names = ["../up.npy", "/root.npy", "a/../../b.npy", ".npy", "plain", "x.npy.npy", "ü.npy"]
    with zipfile.ZipFile("x.npz", "w") as z:
        for i, n in enumerate(names):
            z.writestr(n, member(np.int32(i)))
    got = mx.load("x.npz")
    assert {k: v.item() for k, v in got.items()} == {
        "../up": 0, "/root": 1, "a/../../b": 2, ".npy": 3, "plain": 4, "x.npy": 5, "ü": 6,
    }  # fmt: skip
    assert os.listdir(".") == ["x.npz"] and os.listdir("..").count("up") == 0
    with warnings.catch_warnings(), zipfile.ZipFile("y.npz", "w") as z:
        warnings.simplefilter("ignore")
        z.writestr("a.npy", member(np.int32(1)))
        z.writestr("a.npy", member(np.int32(2)))
    assert mx.load("y.npz")["a"].item() == 2


def test_npz_prefix_and_streamed_members():
    """Self-extracting archives, and members whose sizes follow the data."""
    f = io.BytesIO()
    mx.savez_compressed(f, a=mx.arange(100))  # a file object that is not seeked: data descriptors
    pathlib.Path("x.npz").write_bytes(b"#!/bin/sh\n" + f.getvalue())
    same(mx.load("x.npz")["a"], np.arange(100))
    f.seek(0)
    np.testing.assert_array_equal(np.load(f)["a"], np.arange(100))


def parse_safetensors(path):
    raw = pathlib.Path(path).read_bytes()
    (n,) = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8 : 8 + n]), raw[8 + n :]


STORED = {
    "bool_": "BOOL", "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64", "int8": "I8",
    "int16": "I16", "int32": "I32", "int64": "I64", "float16": "F16", "bfloat16": "BF16",
    "float32": "F32", "complex64": "C64",
}  # fmt: skip


def test_safetensors_are_what_the_format_says(rng):
    arrays, want = {}, {}
    for dtype in h.ALL:
        for j, shape in enumerate(SHAPES):
            arrays[f"{dtype}.{j}"], want[f"{dtype}.{j}"] = sample(dtype, shape, rng)
    mx.save_safetensors("x", arrays, {"format": "mlx", "ü": "é"})
    header, data = parse_safetensors("x.safetensors")
    assert header.pop("__metadata__") == {"format": "mlx", "ü": "é"}
    assert sorted(header) == sorted(arrays)
    end = 0
    for name, info in sorted(header.items(), key=lambda kv: kv[1]["data_offsets"]):
        dtype = name.split(".")[0]
        begin, stop = info["data_offsets"]
        assert begin == end and begin % arrays[name].itemsize == 0  # no gaps, aligned
        end = stop
        assert info["dtype"] == STORED[dtype] and tuple(info["shape"]) == want[name].shape
        held = want[name]
        if dtype == "bfloat16":
            held = (held.reshape(-1).view(np.uint32) >> 16).astype(np.uint16)
        assert data[begin:stop] == held.tobytes(), name
    assert end == len(data)
    got, metadata = mx.load("x.safetensors", return_metadata=True)
    assert metadata == {"format": "mlx", "ü": "é"}
    for name, a in got.items():
        same(a, want[name], name.split(".")[0])


def write_safetensors(path, header, data):
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_safetensors_of_other_writers():
    data = bytes(range(16))
    header = {
        "z": {"dtype": "F8_E4M3", "shape": [2, 2], "data_offsets": [0, 4]},
        "a": {"dtype": "U32", "shape": [3], "data_offsets": [4, 16]},
        "e": {"dtype": "F32", "shape": [0], "data_offsets": [16, 16]},
    }
    write_safetensors("x.safetensors", header, data)
    got, metadata = mx.load("x.safetensors", return_metadata=True)
    assert list(got) == ["z", "a", "e"] and metadata == {}
    same(got["z"], np.frombuffer(data[:4], np.uint8).reshape(2, 2), "uint8")
    same(got["a"], np.frombuffer(data[4:], np.uint32), "uint32")
    assert got["e"].shape == (0,)
    for dtype in ("F64", "F8_E5M2"):
        n = 8 if dtype == "F64" else 1
        info = {"dtype": dtype, "shape": [2], "data_offsets": [0, 2 * n]}
        write_safetensors("x.safetensors", {"a": info}, bytes(2 * n))
        with pytest.raises(RuntimeError, match="dtype F"):
            mx.load("x.safetensors")


def test_formats_and_paths():
    a = mx.array([1, 2])
    mx.save(pathlib.Path("p.x"), a)
    mx.savez("q.npz", a)
    mx.save_safetensors("s.safetensors", {"a": a})
    assert sorted(os.listdir(".")) == ["p.x.npy", "q.npz", "s.safetensors"]
    os.rename("p.x.npy", "p")
    same(mx.load(pathlib.Path("p"), format="npy"), [1, 2])
    for name, error in [
        ("p", ValueError),
        ("p.unknown", ValueError),
        ("T.NPY", ValueError),
        ("none.npy", RuntimeError),
        ("none.npz", ValueError),
        ("none.safetensors", RuntimeError),
        ("none.gguf", ValueError),
        (5, ValueError),
        (b"p", ValueError),
        (None, TypeError),
    ]:
        with pytest.raises(error):
            mx.load(name)
    for format in ("npy", "npz"):
        with pytest.raises(ValueError, match="metadata not supported"):
            mx.load("p", format=format, return_metadata=True)
    for ext in ("npy", "npz", "safetensors", "gguf"):
        os.mkdir(f"d.{ext}")
        with pytest.raises((RuntimeError, ValueError), match="directory"):
            mx.load(f"d.{ext}")


def test_nothing_is_no_file():
    a = mx.zeros((2,))
    for f in (
        lambda: mx.save(None, a),
        lambda: mx.savez(None, a),
        lambda: mx.savez_compressed(None, a),
        lambda: mx.save_safetensors(None, {"a": a}),
        lambda: mx.save_gguf(None, {"a": a}),
        lambda: mx.load(None),
        lambda: mx.export_to_dot(None, a),
    ):
        with pytest.raises(TypeError):
            f()


def test_bad_arguments_of_the_writers():
    a = mx.array([1.0])
    for call, error in [
        (lambda: mx.save(5, a), ValueError),
        (lambda: mx.save("x", [1]), TypeError),
        (lambda: mx.save("x", np.ones(2)), TypeError),
        (lambda: mx.save("none/x", a), RuntimeError),
        (lambda: mx.savez("x", 5), RuntimeError),
        (lambda: mx.savez("x", a, arr_0=a), ValueError),
        (lambda: mx.savez("none/x", a), FileNotFoundError),
        (lambda: mx.savez(5, a), AttributeError),
        (lambda: mx.save_safetensors("x", a), TypeError),
        (lambda: mx.save_safetensors("x", {5: a}), RuntimeError),
        (lambda: mx.save_safetensors("x", {"a": 5}), RuntimeError),
        (lambda: mx.save_safetensors("x", {"a": a}, {"k": 5}), ValueError),
        (lambda: mx.save_safetensors("x", {"__metadata__": a}), RuntimeError),
        (lambda: mx.save_safetensors("x", {"a": mx.array(1.0, mx.float64)}), RuntimeError),
        (lambda: mx.save_safetensors("none/x", {"a": a}), RuntimeError),
    ]:
        with pytest.raises(error):
            call()
    assert os.listdir(".") == []  # nothing half-written stays behind


def test_file_objects_are_read_and_written_in_place():
    f = io.BytesIO(b"head")
    f.seek(4)
    mx.save(f, mx.array([1, 2]))
    mx.save(f, mx.array([[3.0]]))
    f.write(b"tail")
    f.seek(4)
    same(mx.load(f, format="npy"), [1, 2])
    same(mx.load(f, format="npy"), [[3.0]])
    assert f.read() == b"tail"  # not one byte too many
    with open("x.npy", "wb") as g:
        mx.save(g, mx.array(4))
    with open("x.npy", "rb") as g:
        same(mx.load(g), 4)
    f = io.BytesIO()
    mx.save_safetensors(f, {"a": mx.array([5])}, {"k": "v"})
    f.seek(0)
    got, metadata = mx.load(f, format="safetensors", return_metadata=True)
    assert got["a"].item() == 5 and metadata == {"k": "v"}
    with open("t.txt", "w") as g, pytest.raises(TypeError):
        mx.save(g, mx.array(1))
    with pytest.raises(ValueError):
        with open("t.txt") as g:
            mx.load(g, format="npy")
    with pytest.raises(AttributeError):
        mx.load(io.BytesIO())


class Slow(io.RawIOBase):
    """Gives and takes at most 5 bytes at a time, as a socket may."""

    def __init__(self, data=b""):
        self.inner = io.BytesIO(data)

    def readable(self):
        return True

    def writable(self):
        return True

    def seekable(self):
        return True

    def readinto(self, b):
        return self.inner.readinto(memoryview(b)[:5])

    def write(self, b):
        return self.inner.write(bytes(b[:5]))

    def seek(self, *args):
        return self.inner.seek(*args)

    def tell(self):
        return self.inner.tell()


def test_short_reads_and_writes():
    f = Slow()
    mx.savez(f, a=mx.arange(50))
    f.seek(0)
    same(mx.load(f, format="npz")["a"], np.arange(50))


class Refuses(Slow):
    def write(self, b):
        raise ConnectionError("gone")

    def readinto(self, b):
        raise ConnectionError("gone")


def test_errors_of_file_objects_come_through():
    a = mx.array([1.0])
    for call in [
        lambda: mx.save(Refuses(), a),
        lambda: mx.savez(Refuses(), a),
        lambda: mx.save_safetensors(Refuses(), {"a": a}),
        lambda: mx.load(Refuses(), format="safetensors"),
        lambda: mx.load(Refuses(), format="npz"),
    ]:
        with pytest.raises(ConnectionError, match="gone"):
            call()


class Lies(Slow):
    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def write(self, b):
        self.inner.write(bytes(b))
        return self.answer


@pytest.mark.parametrize("answer", [-1, 10**6, 2**70, 1.5, "all", b"3", [3]])
def test_answers_of_write_that_make_no_sense(answer):
    a = mx.array([1.0])
    for call in [
        lambda f: mx.save(f, a),
        lambda f: mx.savez(f, a),
        lambda f: mx.save_safetensors(f, {"a": a}),
    ]:
        with pytest.raises(OSError, match=r"write\(\) of \d+ bytes returned"):
            call(Lies(answer))


def test_write_may_return_nothing():
    f = Lies(None)
    mx.savez(f, a=mx.arange(50))
    f.seek(0)
    same(mx.load(f, format="npz")["a"], np.arange(50))


def test_failed_archives_print_nothing(capfd):
    a = mx.arange(100_000)
    for f in [Refuses(), Lies(-1), Lies(0)]:
        for call in [mx.savez, mx.savez_compressed]:
            with pytest.raises((ConnectionError, OSError)):
                call(f, a=a, b=a)
    code = """
        import resource, signal
        import mlx.core as mx
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        for call in [mx.savez, mx.savez_compressed]:
            try:
                call("full", a=mx.random.normal((1_000_000,)))
            except RuntimeError:
                print("raised")
    """
    run = h.python(code)
    assert run.stdout == "raised\n" * 2 and not run.stderr
    assert capfd.readouterr() == ("", "")


# Lazy reads


def test_nothing_is_read_before_it_is_needed():
    """A sparse file of 64 GB loads at once; only the wanted part would be read."""
    n = 2**30
    with open("x.safetensors", "wb") as f:
        ends = [4 * n * i for i in range(17)]
        header = {
            f"a{i}": {"dtype": "F32", "shape": [n], "data_offsets": ends[i : i + 2]}
            for i in range(16)
        }
        header["small"] = {"dtype": "I32", "shape": [2], "data_offsets": [64 * n, 64 * n + 8]}
        text = json.dumps(header).encode()
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + 64 * n)
        f.seek(0, 2)
        f.write(struct.pack("<ii", 5, 6))
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    arrays = mx.load("x.safetensors")
    assert arrays["a15"].shape == (n,)
    same(arrays["small"], [5, 6])
    assert mx.get_peak_memory() - before < 1 << 20


def test_a_file_that_is_replaced_keeps_its_old_readers():
    mx.save("x", mx.arange(5))
    old = mx.load("x.npy")
    mx.save("x", mx.arange(5) * 10)
    same(old, np.arange(5))
    same(mx.load("x.npy"), np.arange(5) * 10)
    # Onto itself: what is written is what was read.
    mx.save_safetensors("y", {"a": mx.arange(3)})
    arrays = mx.load("y.safetensors")
    mx.save_safetensors("y", {**arrays, "b": arrays["a"] + 1})
    same(mx.load("y.safetensors")["b"], [1, 2, 3])


@pytest.mark.parametrize("kind", ["npy", "npz", "compressed", "safetensors"])
def test_a_file_that_is_shortened_is_an_error_not_a_crash(kind):
    a = mx.random.uniform(shape=(100_000,))
    path = "x." + kind.replace("compressed", "npz")
    save = {"npy": mx.save, "npz": mx.savez, "compressed": mx.savez_compressed}.get(kind)
    if save:
        save(path, a)
    else:
        mx.save_safetensors(path, {"a": a})
    loaded = mx.load(path)
    loaded = loaded if kind == "npy" else next(iter(loaded.values()))
    whole = pathlib.Path(path).read_bytes()
    os.truncate(path, len(whole) // 2)
    with pytest.raises(RuntimeError, match="Unable to"):
        mx.eval(loaded + 1)
    with open(path, "r+b") as f:  # the same file, whole again: evaluation can be tried again
        f.write(whole)
    np.testing.assert_array_equal(np.array(loaded), np.array(a))


def test_elements_that_an_npy_file_lacks_are_missed_when_they_are_read(rng):
    x = rng.normal(size=(4, 16)).astype(np.float32)
    np.save("x.npy", x)
    whole = pathlib.Path("x.npy").read_bytes()
    for size in (128, 129, len(whole) - 32, len(whole) - 1):
        pathlib.Path("x.npy").write_bytes(whole[:size])
        a = mx.load("x.npy")
        assert a.shape == (4, 16) and a.dtype == mx.float32
        message = rf"Unable to read 256 bytes at 128 of .*x\.npy.* it has {size} bytes"
        for read in (mx.eval, mx.array.tolist, np.array, lambda a: mx.eval(a + 1)):
            with pytest.raises(RuntimeError, match=message):
                read(a)
    # A header that ends early is no array at all.
    for size in (0, 5, 8, 100, 127):
        pathlib.Path("x.npy").write_bytes(whole[:size])
        with pytest.raises(RuntimeError):
            mx.load("x.npy")
    # What a header claims is not allocated.
    text = (
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (2000, 1000000000), }".ljust(117)
        + b"\n"
    )
    pathlib.Path("x.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", 118) + text + bytes(64))
    a = mx.load("x.npy")
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    with pytest.raises(RuntimeError, match="Unable to read 8000000000000 bytes"):
        mx.eval(a)
    assert mx.get_peak_memory() - before < 1 << 20
    # A file object is read at once.
    with pytest.raises(RuntimeError, match="Unable to read"):
        mx.load(io.BytesIO(whole[:150]), format="npy")


def test_large_arrays_in_pieces(rng):
    """More than one staging piece, and more than one reading thread; an odd size."""
    x = rng.integers(0, 2**31, 9_000_001, dtype=np.int32)
    np.save("x.npy", x)
    np.testing.assert_array_equal(np.array(mx.load("x.npy") + 0), x)
    np.save("y.npy", x.astype(">i4"))
    np.testing.assert_array_equal(np.array(mx.load("y.npy") + 0), x)
    np.savez("x.npz", x=x)
    np.testing.assert_array_equal(np.array(mx.load("x.npz")["x"] + 0), x)


def test_many_threads_read_one_file(rng):
    want = {f"a{i}": rng.normal(size=(50, 40)).astype(np.float32) for i in range(40)}
    mx.save_safetensors("x", {k: mx.array(v) for k, v in want.items()})
    arrays = mx.load("x.safetensors")
    wrong = []

    def check(names):
        for n in names:
            if not np.array_equal(np.array(arrays[n]), want[n]):
                wrong.append(n)

    threads = [threading.Thread(target=check, args=(list(want)[i::4],)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_streams():
    mx.save("x", mx.array([1.0, 2.0]))
    same(mx.load("x.npy", stream=mx.cpu), [1, 2])
    mx.save("y", mx.array([1.5], mx.float64))
    same(mx.load("y.npy"), [1.5], "float64")  # goes to the CPU by itself
    if h.on_gpu():
        with pytest.raises(ValueError, match="float64"):
            mx.load("y.npy", stream=mx.gpu)


def test_loaded_arrays_in_transforms(rng):
    w = rng.normal(size=(4, 3)).astype(np.float32)
    mx.save("w", mx.array(w))
    x = mx.array(rng.normal(size=(2, 4)).astype(np.float32))
    g = mx.grad(lambda w: (x @ w).sum())(mx.load("w.npy"))
    np.testing.assert_allclose(h.to_np(g), np.array(x).sum(0)[:, None] * np.ones((1, 3)), rtol=1e-5)
    out = mx.vmap(lambda v: v @ mx.load("w.npy"))(x)
    np.testing.assert_allclose(h.to_np(out), np.array(x) @ w, rtol=1e-5)


# Replacing files


def test_a_failed_write_leaves_the_old_file():
    mx.save("x", mx.array([1, 2, 3]))
    code = """
        import resource, signal, sys
        import mlx.core as mx
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        big = mx.zeros((1_000_000,))
        for call in [
            lambda: mx.save("x", big),
            lambda: mx.savez("x", big),
            lambda: mx.save_safetensors("x", {"a": big}),
            lambda: mx.save_gguf("x", {"a": big}, {}),
        ]:
            try:
                call()
            except RuntimeError as e:
                assert "too large" in str(e), e
            else:
                sys.exit("no error")
    """
    h.python(code)
    assert os.listdir(".") == ["x.npy"]
    same(mx.load("x.npy"), [1, 2, 3])


def test_permissions_and_links_stay():
    mx.save("x", mx.array(1))
    umask = os.umask(0o027)
    try:
        mx.save("fresh", mx.array(1))
    finally:
        os.umask(umask)
    assert stat.S_IMODE(os.stat("fresh.npy").st_mode) == 0o640
    os.chmod("x.npy", 0o604)
    os.symlink("x.npy", "link.npy")
    mx.save("link", mx.array(2))
    assert os.path.islink("link.npy") and mx.load("x.npy").item() == 2
    assert stat.S_IMODE(os.stat("x.npy").st_mode) == 0o604
