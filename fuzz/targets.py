"""What is attacked. A target makes the bytes of a case (`make`) and does with them what a user
would do (`run`), where nothing may happen but a refusal: an exception that says what was wrong.
What is accepted must be right."""

import io
import os
import pathlib
import pickle
import random
import struct
import subprocess
import sys

import mlx.core as mx
import mutate
import numpy as np
import programs

import memory

TESTS = pathlib.Path(__file__).resolve().parents[1] / "python" / "tests"
sys.path.insert(0, str(TESTS))

LIMIT = 1 << 28
REFUSALS = (
    ValueError,
    TypeError,
    RuntimeError,
    IndexError,
    OverflowError,
    NotImplementedError,
    BufferError,
    MemoryError,
    KeyError,
    AttributeError,
    SyntaxError,
)


class Wrong(Exception):
    """What was accepted is not right."""


def attempt(target, data, tell=None):
    """Runs a case; raises what is a finding."""
    try:
        target.run(data, tell) if target.tells else target.run(data)
    except REFUSALS as e:
        if tell:
            tell(f"{type(e).__name__}: {e}")
        if "invariant of the library" in str(e) or isinstance(e, UnicodeError):
            raise Wrong(f"{type(e).__name__}: {e}") from e


class Target:
    gpu = False
    tells = False

    def __init__(self):
        mx.set_default_device(mx.gpu if self.gpu else mx.cpu)
        mx.set_memory_limit(LIMIT)
        mx.set_cache_limit(LIMIT // 8)


class Files(Target):
    """A parser of files. What loads must not be larger than what is there."""

    refusals = (RuntimeError, ValueError)

    def __init__(self):
        super().__init__()
        self.seeds = self.files()

    def make(self, rng):
        raw = rng.choice(self.seeds)
        return self.mend(mutate.damaged(raw, rng, rng.choice(self.seeds)), rng)

    def mend(self, data, rng):
        return data

    def load(self, data):
        return mx.load(io.BytesIO(data), format=self.kind)

    def run(self, data):
        before = mx.get_active_memory()
        mx.reset_peak_memory()
        try:
            mx.eval(self.load(data))
        except self.refusals as e:
            if not str(e).startswith("["):
                raise Wrong(f"{type(e).__name__} names no function: {e}") from e
            raise
        finally:
            grown = mx.get_peak_memory() - before
            # Deflate packs at most 1032 bytes into one; values of 4 bits become 16, of 8 bits 32.
            if grown > (1 << 20) and grown > 1100 * len(data):
                raise Wrong(f"{grown} bytes of memory for a file of {len(data)}")


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "a": rng.normal(size=(3, 4)).astype(np.float32),
        "layer.0.b": np.arange(10, dtype=np.int64),
        "c/d": np.zeros((100,), np.uint8),
        "e": np.zeros((0, 3), np.float16),
        "f": np.array(True),
        "g": (rng.normal(size=5) + 1j).astype(np.complex64),
    }


class Npy(Files):
    kind = "npy"

    def files(self):
        out = []
        for a in [
            *arrays().values(),
            np.asfortranarray(np.arange(42.0).reshape(6, 7).astype(">f4")),
        ]:
            for version in ((1, 0), (2, 0), (3, 0)):
                f = io.BytesIO()
                np.lib.format.write_array(f, a, version)
                out.append(f.getvalue())
        return out


class Npz(Files):
    kind = "npz"

    def files(self):
        out = []
        for save in (np.savez, np.savez_compressed):
            f = io.BytesIO()
            save(f, **arrays())
            out.append(f.getvalue())
        f = io.BytesIO()
        mx.savez(f, **{k: mx.array(v) for k, v in arrays().items()})
        return [*out, f.getvalue()]


class Safetensors(Files):
    kind = "safetensors"

    def files(self):
        out = []
        for metadata in ({}, {"format": "mlx", "k": "v" * 40}):
            f = io.BytesIO()
            mx.save_safetensors(f, {k: mx.array(v) for k, v in arrays().items()}, metadata)
            out.append(f.getvalue())
        return out


class Gguf(Files):
    kind = "gguf"
    path = pathlib.Path("x.gguf")

    def files(self):
        import gguf_reference as gguf

        rng = np.random.default_rng(0)
        tensors = [("a", (3, 4), 0, rng.normal(size=12).astype(np.float32).tobytes())]
        for name, code in (("Q4_0", 2), ("Q8_0", 8), ("Q6_K", 14)):
            blocks = 1 if name.endswith("K") else 4
            width = 256 if name.endswith("K") else 32
            raw = gguf.random_blocks(name, blocks, rng)
            tensors.append((f"{name}.weight", (1, blocks * width), code, raw))
        tensors.append(("e", (0, 2), 1, b""))
        metadata = [
            ("general.alignment", "uint32", 32),
            ("s", "str", "text"),
            ("l", ["str"], ["x", "y"]),
            ("v", ["int32"], [1, 2, 3]),
            ("d", "float64", 2.0),
        ]
        mx.save_gguf(
            "seed.gguf", {k: mx.array(v) for k, v in arrays().items() if v.dtype.kind == "f"}
        )
        return [gguf.file(tensors, metadata), pathlib.Path("seed.gguf").read_bytes()]

    def load(self, data):
        self.path.write_bytes(data)
        return list(mx.load(str(self.path)).values())


def checksum(data):
    """Of `io/function.rs`."""
    h = 0xCBF29CE484222325
    for at in range(0, len(data), 8):
        word = int.from_bytes(data[at : at + 8].ljust(8, b"\0"), "little")
        h = (h ^ word) * 0x00000100000001B3 % 2**64
        h ^= h >> 29
    return h


class Functions(Files):
    """Exported functions. Most get a right checksum again: what lies behind it is to be reached."""

    path = pathlib.Path("x.mlxfn")
    # What calls are refused with is told by the operation.
    refusals = ()

    def files(self):
        w = mx.arange(12, dtype=mx.float32).reshape(3, 4)

        def plain(x):
            return mx.softmax(mx.exp(x @ w) + mx.sum(x, axis=-1, keepdims=True), axis=-1), x.T

        def indexed(x):
            return x[1:, ::-1], mx.take(x, mx.array([0, 1]), axis=1), mx.pad(x, 1), x.reshape(-1)

        def mixed(x):
            y = mx.fast.rms_norm(x, mx.ones((3,)), 1e-5)
            y = mx.concatenate([y, mx.sort(x, axis=0), mx.cumsum(x, axis=1)])
            y = mx.where(y > 0, y, mx.argmax(y, axis=0)) + mx.broadcast_to(mx.array(2.0), y.shape)
            return mx.conv1d(y[None], mx.ones((2, 2, 3))), mx.as_strided(x, (2, 2), (1, 1), 1)

        out = []
        for f in (plain, indexed, mixed):
            for shapeless in (False, True):
                mx.export_function("seed.mlxfn", f, mx.ones((2, 3)), shapeless=shapeless)
                out.append(pathlib.Path("seed.mlxfn").read_bytes())
        return out

    def mend(self, data, rng):
        if len(data) > 40 and rng.random() < 0.85:
            # The sum is the last number of the header.
            data = data[:32] + struct.pack("<Q", checksum(data[40:])) + data[40:]
        return data

    def load(self, data):
        self.path.write_bytes(data)
        f = mx.import_function(str(self.path))
        out = []
        for x in (mx.ones((2, 3)), mx.zeros((3, 3), mx.int32), mx.zeros((0, 3))):
            try:
                out.append(f(x))
            except (ValueError, RuntimeError, TypeError, IndexError) as e:
                if "invariant of the library" in str(e):
                    raise
        return out


class Kernels(Target):
    """SPIR-V of users, defined only: valid modules may do with addresses what they like."""

    gpu = True

    def __init__(self):
        super().__init__()
        from spirv_module import triple

        self.seed = triple()

    def make(self, rng):
        if rng.random() < 0.8:
            return mutate.words(self.seed, rng)
        return mutate.damaged(self.seed, rng, self.seed)

    def run(self, data):
        mx.fast.vulkan_kernel("triple", ["x"], ["y"], data)


class Pickles(Target):
    """The state of a pickled array, which is bytes, a shape and the name of a dtype."""

    def make(self, rng):
        return rng.randbytes(16)

    def run(self, data):
        rng = random.Random(data)
        a = mx.array(
            np.arange(rng.choice([0, 1, 6])), rng.choice([mx.float32, mx.bool_, mx.complex64])
        )
        make, args, state = a.__reduce_ex__(2)[:3]
        state = list(state)
        for _ in range(rng.choice([1, 1, 2, 3])):
            i = rng.randrange(3)
            state[i] = rng.choice(
                [
                    lambda: rng.randbytes(rng.choice([0, 1, 4, 8, 24, 1000])),
                    lambda: tuple(
                        programs.hostile_int(rng) for _ in range(rng.choice([0, 1, 2, 3, 65]))
                    ),
                    lambda: [rng.choice([0, 1, 2, 3, 6]) for _ in range(rng.randrange(4))],
                    lambda: rng.choice(
                        ["float32", "bool", "int8", "float64", "bfloat16", "", "x" * 100]
                    ),
                    lambda: programs.hostile(rng),
                ]
            )()
        b = make(*args)
        b.__setstate__(tuple(state))
        if b.size != np.prod(b.shape, dtype=object) or b.nbytes != len(bytes(b)):
            raise Wrong(f"{b.shape} of {b.nbytes} bytes")
        copy = pickle.loads(pickle.dumps(b))
        if bytes(copy) != bytes(b):
            raise Wrong("a pickle of it is another array")


class Dlpack(Target):
    def make(self, rng):
        return rng.randbytes(16)

    def run(self, data):
        memory.tensor(random.Random(data), Wrong)


class Buffers(Target):
    def make(self, rng):
        return rng.randbytes(16)

    def run(self, data):
        memory.buffer(random.Random(data), Wrong)


class Programs(Target):
    tells = True

    def make(self, rng):
        return rng.randbytes(16)

    def run(self, data, tell=None):
        programs.play(random.Random(data), REFUSALS, Wrong, tell)


class GpuPrograms(Programs):
    gpu = True


class Caches(Target):
    """Files of the cache: a process over damaged ones computes what any other does."""

    gpu = True
    code = """
import mlx.core as mx, math
mx.set_default_device(mx.gpu)
fs = [mx.sin, mx.square, mx.exp, mx.tanh, mx.abs, mx.negative]
xs = [0.5, -1.0, 2.0]
twins = [math.sin, lambda v: v * v, math.exp, math.tanh, abs, lambda v: -v]
for f, t in zip(fs, twins):
    got = f(mx.array(xs)).tolist()
    assert all(abs(g - t(v)) < 1e-5 * max(1, abs(t(v))) for g, v in zip(got, xs)), (f, got)
assert mx.sort(mx.array(xs)).tolist() == sorted(xs)
assert mx.sum(mx.array(xs)).item() == sum(xs)
print("right")
"""

    def __init__(self):
        super().__init__()
        self.folder = pathlib.Path("cache").resolve()
        state = pathlib.Path("state").resolve()
        self.env = {
            **os.environ,
            "MLX_VK_CACHE_DIR": str(self.folder),
            "XDG_STATE_HOME": str(state),
        }
        self.process()
        self.files = {p.name: p.read_bytes() for p in self.folder.iterdir()}

    def process(self):
        done = subprocess.run(
            [sys.executable, "-c", self.code],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=50,
        )
        if done.stdout.strip() != "right":
            raise Wrong(f"ends with {done.returncode}: {done.stderr[-300:]}")

    def make(self, rng):
        return rng.randbytes(16)

    def run(self, data):
        rng = random.Random(data)
        for p in self.folder.iterdir():
            p.unlink()
        names = sorted(self.files)
        for name in names:
            raw = self.files[name]
            other = self.files[rng.choice(names)]
            what = rng.randrange(6)
            changed = mutate.damaged(raw, rng, other) if what < 4 else other if what == 4 else raw
            path = self.folder / name
            path.write_bytes(changed)
            path.chmod(0o600)
        self.process()


ALL = {
    "npy": Npy,
    "npz": Npz,
    "safetensors": Safetensors,
    "gguf": Gguf,
    "functions": Functions,
    "pickles": Pickles,
    "dlpack": Dlpack,
    "buffers": Buffers,
    "kernels": Kernels,
    "caches": Caches,
    "programs": Programs,
    "gpu-programs": GpuPrograms,
}


def possible(name):
    """Whether this machine has what a target needs."""
    return not ALL[name].gpu or mx.is_available(mx.gpu)
