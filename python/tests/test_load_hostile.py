"""Thousands of damaged files in every format: each loads or raises a clear error, and none makes
the library allocate more than the file can back."""

import io
import pathlib
import struct
import zipfile

import gguf_reference as gguf
import mlx.core as mx
import numpy as np
import pytest

CASES = 3000
EXTREMES = [0, 1, 7, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1,
            2**63, 2**64 - 8, 2**64 - 1]  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def arrays(rng):
    return {
        "a": rng.normal(size=(3, 4)).astype(np.float32),
        "layer.0.b": np.arange(10, dtype=np.int64),
        "c/d": np.zeros((100,), np.uint8),
        "e": np.zeros((0, 3), np.float16),
    }


def npy(rng):
    f = io.BytesIO()
    np.save(f, np.asfortranarray(rng.normal(size=(6, 7))).astype(">f4"))
    return f.getvalue()


def npz(rng):
    f = io.BytesIO()
    np.savez(f, **arrays(rng))
    return f.getvalue()


def compressed(rng):
    f = io.BytesIO()
    np.savez_compressed(f, **arrays(rng))
    return f.getvalue()


def safetensors(rng):
    f = io.BytesIO()
    mx.save_safetensors(
        f, {k: mx.array(v) for k, v in arrays(rng).items()}, {"k": "v", "format": "mlx"}
    )
    return f.getvalue()


def gguf_file(rng):
    tensors = [
        ("a", (3, 4), 0, rng.normal(size=12).astype(np.float32).tobytes()),
        ("q.weight", (2, 64), 2, gguf.random_blocks("Q4_0", 4, rng)),
        ("r.weight", (64,), 8, gguf.random_blocks("Q8_0", 2, rng)),
        ("k", (256,), 14, gguf.random_blocks("Q6_K", 1, rng)),
        ("e", (0, 2), 1, b""),
    ]
    metadata = [
        ("general.alignment", "uint32", 32),
        ("s", "str", "text"),
        ("l", ["str"], ["x", "y"]),
        ("v", ["int32"], [1, 2, 3]),
        ("d", "float64", 2.0),
    ]
    return gguf.file(tensors, metadata)


def damage(raw, rng):
    """One to three of: bits, bytes, numbers, runs replaced, removed, repeated, inserted; cuts."""
    b = bytearray(raw)
    for _ in range(rng.integers(1, 4)):
        if not b:
            break
        at = int(
            rng.integers(0, len(b)) if rng.random() < 0.5 else rng.integers(0, min(len(b), 300))
        )
        if rng.random() < 0.2:
            at = max(0, len(b) - int(rng.integers(1, 200)))
        what = rng.integers(0, 9)
        if what == 0:
            b[at] ^= 1 << int(rng.integers(0, 8))
        elif what == 1:
            b[at] = int(rng.integers(0, 256))
        elif what in (2, 3):
            n = int(rng.choice(EXTREMES))
            form = "<Q" if what == 2 else "<I"
            packed = struct.pack(form, n & (2**64 - 1 if what == 2 else 2**32 - 1))
            b[at : at + len(packed)] = packed
        elif what == 4:
            del b[at:]
        elif what == 5:
            del b[at : at + int(rng.integers(1, 20))]
        elif what == 6:
            b[at:at] = b[at : at + int(rng.integers(1, 40))]
        elif what == 7:
            b[at:at] = rng.integers(0, 256, int(rng.integers(1, 20)), dtype=np.uint8).tobytes()
        else:
            digits = [i for i, c in enumerate(b[:400]) if 48 <= c <= 57]
            if digits:
                i = int(rng.choice(digits))
                b[i : i + 1] = str(int(rng.choice(EXTREMES))).encode()
    return bytes(b)


@pytest.mark.parametrize("make", [npy, npz, compressed, safetensors, gguf_file])
def test_damaged_files(make, rng):
    raw = make(rng)
    ext = {"compressed": "npz", "gguf_file": "gguf"}.get(make.__name__, make.__name__)
    path = pathlib.Path("x." + ext)
    path.write_bytes(raw)
    loaded = mx.load(str(path))
    mx.eval(loaded)
    mx.clear_cache()
    fine, broken = 0, {}
    for case in range(CASES):
        bad = damage(raw, rng)
        path.write_bytes(bad)
        before = mx.get_active_memory()
        mx.reset_peak_memory()
        try:
            loaded = mx.load(str(path))
            mx.eval(loaded)
            fine += 1
        except (RuntimeError, ValueError) as e:
            assert str(e).startswith("["), f"case {case}: {e}"
            broken[str(e)[:20]] = broken.get(str(e)[:20], 0) + 1
        loaded = None
        # Deflate packs at most 1032 bytes into one.
        grown = mx.get_peak_memory() - before
        assert grown <= 1 << 20 or grown <= 1100 * len(bad), f"case {case}: {grown} bytes"
    assert fine > CASES // 100 and sum(broken.values()) > CASES // 10, (fine, broken)


@pytest.mark.parametrize("make", [npy, npz, compressed, safetensors])
def test_damaged_file_objects(make, rng):
    raw = make(rng)
    kind = {"compressed": "npz"}.get(make.__name__, make.__name__)
    for _ in range(300):
        try:
            mx.eval(mx.load(io.BytesIO(damage(raw, rng)), format=kind))
        except (RuntimeError, ValueError):
            pass


@pytest.mark.parametrize("make", [npy, npz, compressed, safetensors, gguf_file])
def test_every_cut_is_an_error(make, rng):
    raw = make(rng)
    ext = {"compressed": "npz", "gguf_file": "gguf"}.get(make.__name__, make.__name__)
    for n in range(0, len(raw) - 32, 1 if len(raw) < 1500 else 7):
        pathlib.Path("x." + ext).write_bytes(raw[:n])
        with pytest.raises((RuntimeError, ValueError)):
            mx.eval(mx.load("x." + ext))


def test_a_bomb_is_stopped_at_its_declared_size():
    """A member that unpacks to 64 MB where its header declares 4 elements, and one that lies."""
    f = io.BytesIO()
    np.save(f, np.zeros(4, np.float32))
    with zipfile.ZipFile("x.npz", "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("a.npy", f.getvalue() + bytes(64 << 20))
    mx.clear_cache()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    assert mx.load("x.npz")["a"].tolist() == [0, 0, 0, 0]
    assert mx.get_peak_memory() - before < 1 << 20
    header = f.getvalue()[:128].replace(b"(4,)", b"(99999999,)")[:128]
    with zipfile.ZipFile("x.npz", "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("a.npy", header + bytes(16))
    with pytest.raises(RuntimeError, match="Unable to read"):
        mx.load("x.npz")


def test_members_of_an_archive_that_share_bytes():
    """Directory entries that point at one another's bytes are refused before the unpacking."""
    f = io.BytesIO()
    np.save(f, np.zeros(1000, np.float32))
    with zipfile.ZipFile("x.npz", "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("a.npy", f.getvalue())
        z.writestr("b.npy", f.getvalue())
        (a, b) = z.infolist()
    data = pathlib.Path("x.npz").read_bytes()
    assert set(mx.load("x.npz")) == {"a", "b"}
    at = data.rindex(b"PK\1\2")  # the directory's entry of the second member
    assert struct.unpack_from("<I", data, at + 42) == (b.header_offset,)
    forged = data[: at + 42] + struct.pack("<I", a.header_offset) + data[at + 46 :]
    pathlib.Path("x.npz").write_bytes(forged)
    with pytest.raises(RuntimeError, match="overlap"):
        mx.load("x.npz")


def test_deep_json_and_endless_headers():
    for text in [
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"a":{"dtype":"F32","shape":[' + b"1," * 50_000,
    ]:
        pathlib.Path("x.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
        with pytest.raises(RuntimeError, match="json"):
            mx.load("x.safetensors")
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1," * 2000 + ")}"
    size = struct.pack("<I", len(text))
    pathlib.Path("x.npy").write_bytes(b"\x93NUMPY\x02\x00" + size + text.encode() + bytes(4))
    with pytest.raises(ValueError, match="at most 64 axes, got 2000"):
        mx.load("x.npy")
