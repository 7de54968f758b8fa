"""Arrays of other libraries: DLPack both ways, the buffer protocol, NumPy, copies and pickles.

NumPy is one partner; the other is dlpack_reference.py, which shows every field of the structs.
"""

import array as arrays
import copy
import ctypes
import gc
import io
import pickle
import threading

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
from dlpack_reference import Old, Producer, Taken

CODES = {
    "bool_": (6, 8), "uint8": (1, 8), "uint16": (1, 16), "uint32": (1, 32), "uint64": (1, 64),
    "int8": (0, 8), "int16": (0, 16), "int32": (0, 32), "int64": (0, 64), "float16": (2, 16),
    "bfloat16": (4, 16), "float32": (2, 32), "float64": (2, 64), "complex64": (5, 64),
}  # fmt: skip


def collect():
    """Frees what is only held by caches of recent scalars or by garbage."""
    gc.collect()
    mx.synchronize()


# Export


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 5)])
def test_export_shows_every_dtype(dtype, version, rng):
    values = rng.integers(0, 2, (3, 4))
    with mx.stream(mx.cpu):
        a = h.from_np(values, dtype)
    t = Taken(a.__dlpack__(max_version=version))
    assert t.versioned == (version is not None and version[0] >= 1)
    assert t.shape == (3, 4) and t.strides == (4, 1) and t.device == (1, 0)
    assert t.type == (*CODES[dtype], 1)
    if t.versioned:
        assert (t.struct.major, t.struct.minor) == (1, 0)
        assert t.flags == 1  # read-only
    held = np.uint16 if dtype == "bfloat16" else h.np_dtype(dtype)
    got = t.numpy(held)
    if dtype == "bfloat16":
        got = (got.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(got, h.quantise(values, dtype))
    t.give_back()


def test_export_of_layouts(rng):
    x = rng.integers(0, 99, (2, 3, 4))
    for label, a in h.layouts(x, "int32"):
        t = Taken(a.__dlpack__(max_version=(1, 0)))
        if min(t.strides) > 0:
            np.testing.assert_array_equal(t.numpy(np.int32), x, err_msg=label)
        t.give_back()
        np.testing.assert_array_equal(np.from_dlpack(a), x, err_msg=label)
    for shape in [(), (0,), (0, 3), (1,)]:
        assert np.from_dlpack(mx.zeros(shape)).shape == shape
    a = mx.broadcast_to(mx.array([1, 2]), (3, 2))
    np.testing.assert_array_equal(np.from_dlpack(a), [[1, 2]] * 3)


def test_export_keeps_the_array_alive_and_is_read_only():
    a = mx.arange(1000) + 1
    n = np.from_dlpack(a)
    del a
    collect()
    junk = [mx.zeros((1000,), mx.int32) + i for i in range(20)]
    mx.eval(junk)
    np.testing.assert_array_equal(n, np.arange(1, 1001))
    assert not n.flags.writeable


def test_export_of_a_copy():
    a = mx.array([1.0, 2.0])
    t = Taken(a.__dlpack__(max_version=(1, 0), copy=True))
    assert t.flags == 2  # copied, and writable
    t.numpy(np.float32)
    t.give_back()
    n = np.from_dlpack(a, copy=True)
    n[0] = 9
    assert a.tolist() == [1, 2]


def test_unused_capsules_free_their_array():
    collect()
    before = mx.get_active_memory()
    for version in (None, (1, 0)):
        a = mx.zeros((1 << 20,), mx.uint8)
        mx.eval(a)
        capsule = a.__dlpack__(max_version=version)
        del a
        assert mx.get_active_memory() - before >= 1 << 20
        del capsule
        collect()
        assert mx.get_active_memory() - before < 1 << 20


def test_a_deleter_may_run_on_any_thread():
    a = mx.arange(10) * 2
    t = Taken(a.__dlpack__(max_version=(1, 0)))
    del a
    thread = threading.Thread(target=t.give_back)
    thread.start()
    thread.join()
    assert h.on_gpu() or mx.get_active_memory() >= 0


def test_export_arguments():
    a = mx.array([1.0])
    assert a.__dlpack_device__() == (1, 0)
    for options in [{"dl_device": (1, 0)}, {"stream": 1}, {"stream": None}, {"copy": False}]:
        assert Taken(a.__dlpack__(**options)).shape == (1,)
    with pytest.raises(BufferError):
        a.__dlpack__(dl_device=(2, 0))
    with pytest.raises(TypeError):
        a.__dlpack__(1)
    assert mx.from_dlpack(a) is not None and mx.from_dlpack(a, copy=True).tolist() == [1]


# Import


@pytest.mark.parametrize("dtype", [d for d in CODES if d not in ("bfloat16", "float64")])
@pytest.mark.parametrize("kind", [Producer, Old])
def test_import_of_every_dtype(dtype, kind, rng):
    x = rng.integers(0, 2, (3, 5)).astype(h.np_dtype(dtype))
    for view in (x, x.T, x[:, ::2], x[::-1], x[:0], x[1, 2, ...], np.broadcast_to(x, (2, 3, 5))):
        p = kind(view)
        a = mx.from_dlpack(p)
        assert h.name_of(a.dtype) == dtype and a.shape == view.shape
        np.testing.assert_array_equal(h.to_np(a), view)
        del a
        collect()
        assert p.returned == 1


def test_import_of_bfloat16():
    x = np.array([0x3FC0, 0xC000], np.uint16)
    assert mx.from_dlpack(Producer(x, code=4)).tolist() == [1.5, -2.0]
    assert mx.from_dlpack(Producer(x, code=4)).dtype == mx.bfloat16


def test_wide_floats_are_narrowed():
    x = np.array([[1.5, 2.5], [3.5, 4.5]])
    for view in (x, x.T, x[::-1]):
        a = mx.from_dlpack(view)
        assert a.dtype == mx.float32
        np.testing.assert_array_equal(np.array(a), view.astype(np.float32))
        c = mx.from_dlpack(view + 1j * view)
        assert c.dtype == mx.complex64
        np.testing.assert_array_equal(np.array(c), (view + 1j * view).astype(np.complex64))
    for wide in (x, x + 1j):
        p = Producer(wide)
        with pytest.raises(ValueError, match="without a copy"):
            mx.from_dlpack(p, copy=False)
        collect()
        assert p.returned == 1
    with mx.stream(mx.cpu):
        assert mx.asarray(Producer(x), mx.float64, copy=False).tolist() == x.tolist()


def test_host_memory_is_shared_unless_a_copy_is_asked_for():
    x = np.arange(6, dtype=np.float32)
    shared, never, copied = (mx.from_dlpack(Producer(x), copy=c) for c in (None, False, True))
    x[0] = 7
    assert copied[0].item() == 0
    assert np.from_dlpack(shared).ctypes.data == np.from_dlpack(never).ctypes.data == x.ctypes.data
    assert shared.tolist()[0] == never.tolist()[0] == 7


def test_lent_memory_is_never_overwritten():
    x = np.arange(1000, dtype=np.float32)
    a = mx.from_dlpack(x)
    a[3] = 100
    a += 1
    mx.eval(a)
    for f in (lambda v: v + 1, lambda v: mx.exp(v) * 2, lambda v: -v):
        mx.eval(f(mx.from_dlpack(x)))  # the imported array dies: its storage could be reused
    np.testing.assert_array_equal(x, np.arange(1000))
    assert not np.asarray(mx.from_dlpack(x)).flags.writeable


def test_the_producer_gets_its_memory_back_once(rng):
    x = rng.normal(size=(4, 4)).astype(np.float32)
    p = Producer(x)
    a = mx.from_dlpack(p)
    b = a[1:] * 2
    n = np.asarray(a)
    del a
    np.testing.assert_array_equal(h.to_np(b), x[1:] * 2)
    collect()
    assert p.returned == 0  # NumPy still looks at it
    del n, b
    collect()
    assert p.returned == 1
    q = Producer(x)
    capsule = q.capsule()
    del capsule  # has no destructor of its own: nothing was taken, nothing is returned
    assert q.returned == 0


def test_unaligned_memory_is_copied():
    raw = np.zeros(4 * 5 + 1, np.uint8)
    x = raw[1:].view(np.int32)
    x[:] = np.arange(5)
    p = Producer(x)
    assert mx.from_dlpack(p).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="unaligned"):
        mx.from_dlpack(Producer(x), copy=False)
    assert mx.from_dlpack(Producer(x[::-2])).tolist() == [4, 2, 0]
    offset = Producer(np.arange(6, dtype=np.int32)[:4], byte_offset=8)
    assert mx.from_dlpack(offset).tolist() == [2, 3, 4, 5]


def test_strides_may_be_left_out():
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert mx.from_dlpack(Old(x, strides=None)).tolist() == x.tolist()


def test_what_cannot_be_imported():
    x = np.arange(4, dtype=np.float32)
    for p, error in [
        (Producer(x, code=3), ValueError),
        (Producer(x, bits=8), ValueError),
        (Producer(x, lanes=4), ValueError),
        (Producer(x, device=(2, 0)), ValueError),
        (Producer(x, data=None), ValueError),
        (Producer(x, ndim=-1), ValueError),
        (Producer(x, ndim=1000), ValueError),
        (Producer(x, version=(2, 0)), BufferError),
    ]:
        with pytest.raises(error):
            mx.from_dlpack(p)
        collect()
        assert p.returned == 1
    for wrong in (5, [1], None, "x"):
        with pytest.raises(TypeError):
            mx.from_dlpack(wrong)
    # Buffers without DLPack are copied.
    for buffer, want, dtype in (
        (np.float32(1.5), 1.5, mx.float32),
        (np.int64(7), 7, mx.int64),
        (b"ab", [97, 98], mx.uint8),
        (bytearray(b"ab"), [97, 98], mx.uint8),
    ):
        for asked in (None, True):
            got = mx.from_dlpack(buffer, copy=asked)
            assert (got.tolist(), got.dtype) == (want, dtype)
        with pytest.raises(ValueError, match="without a copy"):
            mx.from_dlpack(buffer, copy=False)
    capsule = Producer(x).capsule()
    mx.from_dlpack(capsule)
    with pytest.raises(TypeError, match="unused"):
        mx.from_dlpack(capsule)
    negative = np.arange(4, dtype=np.float32)
    p = Producer(negative)
    p.shape[0] = -4
    with pytest.raises(ValueError):
        mx.from_dlpack(p)


def test_producers_are_asked_in_the_newest_form():
    x = np.arange(4, dtype=np.float32)
    p = Producer(x)
    mx.from_dlpack(p)
    assert p.asked == [{"max_version": (1, 0)}]
    p = Producer(x, device=(2, 0), device_type=1)  # offers its memory on the host
    mx.from_dlpack(p)
    assert p.asked == [{"max_version": (1, 0), "dl_device": (1, 0)}]

    class Fails(Producer):
        def __dlpack__(self, **options):
            raise BufferError("not now")

    with pytest.raises(BufferError, match="not now"):
        mx.from_dlpack(Fails(x))


def test_array_and_asarray_take_producers():
    x = np.arange(4, dtype=np.float32)
    for make in (mx.array, mx.asarray):
        p = Producer(x)
        a = make(p)
        x[0] += 1
        assert a.tolist()[0] == x[0] - 1  # a copy
        collect()
        assert p.returned == 1
    assert mx.asarray(Producer(x), mx.int32).dtype == mx.int32
    assert (mx.array([1.0] * 4) + Producer(x)).shape == (4,)
    shared = mx.asarray(Producer(x), copy=False)
    assert np.from_dlpack(shared).ctypes.data == x.ctypes.data
    with pytest.raises(ValueError, match="copy"):
        mx.asarray(Producer(x), mx.int32, copy=False)
    for needs_copy in ([1, 2], 5):
        with pytest.raises(ValueError):
            mx.asarray(needs_copy, copy=False)
    a = mx.array([1.0])
    for dtype in (None, mx.float32, mx.int32):
        with pytest.raises(ValueError, match="Unable to avoid copy"):
            mx.asarray(a, dtype, copy=False)


def test_roundtrip_between_mlx_and_numpy_without_copies():
    a = mx.arange(10) * 3
    n = np.from_dlpack(a)
    b = mx.from_dlpack(n)
    assert np.from_dlpack(b).ctypes.data == n.ctypes.data
    assert b.tolist() == a.tolist()


# Buffers, NumPy, bytes

FORMATS = {
    "bool_": "?", "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q", "int8": "b",
    "int16": "h", "int32": "i", "int64": "q", "float16": "e", "bfloat16": "bfloat16",
    "float32": "f", "float64": "d", "complex64": "Zf",
}  # fmt: skip


@pytest.mark.parametrize("dtype", FORMATS)
def test_buffers_of_every_dtype(dtype, rng):
    values = rng.integers(0, 2, (3, 4))
    with mx.stream(mx.cpu):
        a = h.from_np(values, dtype)
        view = memoryview(a)
        assert view.format == FORMATS[dtype]
        assert view.shape == (3, 4) and view.itemsize == a.itemsize
        assert view.strides == (4 * a.itemsize, a.itemsize)
        assert memoryview(a.T).strides == (a.itemsize, 4 * a.itemsize)
        again = mx.array(view)
        if dtype == "float64":
            again = mx.array(view, mx.float64)
        assert again.dtype == a.dtype
        np.testing.assert_array_equal(h.to_np(again), h.to_np(a))
        assert bytes(a) == view.tobytes() and bytes(a.T) == memoryview(a.T).tobytes()


def test_buffers_of_other_objects():
    assert mx.array(b"abc").tolist() == [97, 98, 99]
    assert mx.array(bytearray(b"abc")).dtype == mx.uint8
    assert mx.array(arrays.array("d", [1, 2])).dtype == mx.float32
    assert mx.array(arrays.array("l", [1, 2])).dtype == mx.int64
    assert mx.asarray(memoryview(np.arange(6).reshape(2, 3)).cast("B", (6 * 8,))).shape == (48,)


def test_array_protocol():
    a = mx.array([[1.0, 2.0]])
    assert a.__array__(np.float64).dtype == np.float64
    assert a.__array__(dtype=np.int8, copy=True).tolist() == [[1, 2]]
    n = np.asarray(a)
    assert n.dtype == np.float32 and n.base is not None
    with pytest.raises(TypeError, match="bfloat16"):
        mx.array([1], mx.bfloat16).__array__()
    np.testing.assert_allclose(np.exp(a), np.exp([[1, 2]]), rtol=1e-6)
    assert np.array([mx.array([1, 2]), mx.array([3, 4])]).tolist() == [[1, 2], [3, 4]]


def test_array_namespace():
    a = mx.array([1.0])
    xp = a.__array_namespace__()
    assert xp is mx
    for version in ("2023.12", "x"):
        with pytest.raises(ValueError):
            a.__array_namespace__(version)
    with pytest.raises(TypeError):
        a.__array_namespace__(5)


class Wrapped:
    def __init__(self, value):
        self.value = value

    def __mlx_array__(self):
        return self.value


def test_array_like():
    three = Wrapped(mx.array(3))
    for like in (three, mx.ArrayLike(three)):
        assert (mx.array(1) + like).item() == 4
        assert mx.exp(like).item() == pytest.approx(20.0855, rel=1e-5)
    for call in (lambda: mx.ArrayLike(), lambda: mx.ArrayLike(None)):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("dtype", FORMATS)
def test_copies_and_pickles(dtype, rng):
    with mx.stream(mx.cpu):
        a = h.from_np(rng.integers(0, 2, (2, 3)), dtype).T
        for again in (copy.copy(a), copy.deepcopy(a), pickle.loads(pickle.dumps(a))):
            assert again is not a and again.dtype == a.dtype and again.shape == a.shape
            np.testing.assert_array_equal(h.to_np(again), h.to_np(a))
            again += 1
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(mx.array(3), protocol)).item() == 3
    assert pickle.loads(pickle.dumps({"a": [mx.array([1, 2])]}))["a"][0].tolist() == [1, 2]


def test_comparison_hash_and_containment():
    a, b = mx.array([1, 2]), mx.array([1, 2])
    assert hash(a) == hash(a) and {a: 1}[a] == 1 and len({a, b}) == 2
    assert (a == b).tolist() == [True, True]
    assert (a == "x") is False and (a != object()) is True
    assert a in [a]
    for compare in (lambda: a == None, lambda: a != None, lambda: a < None):  # noqa: E711
        with pytest.raises(TypeError):
            compare()
    with pytest.raises(ValueError):
        a < "x"  # noqa: B015
    with pytest.raises(TypeError):
        pow(mx.array(2), 3, 5)


def test_iteration():
    a = mx.array([[1, 2], [3, 4], [5, 6]])
    assert [r.tolist() for r in a] == a.tolist()
    assert [r.tolist() for r in reversed(a)] == a.tolist()[::-1]
    assert list(mx.zeros((0, 2))) == [] and len(list(reversed(mx.zeros((0, 2))))) == 0
    x, y = mx.array([1, 2])
    assert (x.item(), y.item()) == (1, 2)
    for walk in (iter, reversed, len):
        with pytest.raises(TypeError, match="0-dim"):
            walk(mx.array(1))


def test_formatting():
    assert f"{mx.array(3.5):.3f}" == "3.500" and f"{mx.array(3):5d}" == "    3"
    assert f"{mx.array([1, 2])}" == str(mx.array([1, 2]))
    with pytest.raises(TypeError):
        f"{mx.array([1.0]):.2f}"


def test_names_that_programs_probe():
    assert not mx.metal.is_available() and not mx.cuda.is_available()
    assert mx.metal.start_capture("/tmp/never.gputrace") is None and mx.metal.stop_capture() is None
    assert mx.DeviceType(0) is mx.cpu and mx.DtypeCategory.floating is mx.floating
    for closed in (mx.Dtype, mx.Stream, mx.ThreadLocalStream, mx.ArrayAt, mx.ArrayIterator):
        with pytest.raises(TypeError):
            closed()


def test_buffers_without_strides():
    """ctypes arrays say nothing of strides: they are row-major."""
    floats = (ctypes.c_float * 3)(1.5, 2.5, 3.5)
    assert mx.array(floats).tolist() == [1.5, 2.5, 3.5] and mx.array(floats).dtype == mx.float32
    rows = ((ctypes.c_int16 * 3) * 2)((1, 2, 3), (4, 5, 6))
    assert mx.array(rows).tolist() == [[1, 2, 3], [4, 5, 6]] and mx.array(rows).dtype == mx.int16
    assert mx.array((ctypes.c_double * 2)(1, 2)).dtype == mx.float32
    assert mx.array((ctypes.c_bool * 2)(True, False)).tolist() == [True, False]
    assert mx.array(ctypes.c_int32(7)).item() == 7
    assert mx.array((ctypes.c_uint8 * 0)()).shape == (0,)


def bools(kind):
    """Bools whose bytes are 0, 1, 2, 128 and 255, over and over, from one of the ways in."""
    raw = np.array([0, 1, 2, 128, 255] * 40, np.uint8)
    strange = raw.view(np.bool_)
    if kind == "buffer":
        return mx.array(strange)
    if kind == "strided buffer":
        return mx.array(np.repeat(raw, 2).view(np.bool_)[::2])
    if kind == "dlpack":
        return mx.from_dlpack(Producer(strange))
    if kind == "strided dlpack":
        return mx.from_dlpack(Producer(np.repeat(raw, 2).view(np.bool_)[::2]))
    if kind == "view":
        return mx.array(raw).view(mx.bool_)
    if kind == "wide view":
        return mx.array(raw.view(np.uint32)).view(mx.bool_)
    if kind == "npy":
        f = io.BytesIO()
        np.save(f, strange)
        f.seek(0)
        return mx.load(f, format="npy")
    if kind == "npz":
        f = io.BytesIO()
        np.savez_compressed(f, a=strange)
        f.seek(0)
        return mx.load(f, format="npz")["a"]
    state = mx.array(raw != 0).__getstate__()
    made = mx.array(0)
    made.__setstate__((raw.tobytes(), *state[1:]))
    return made


KINDS = [
    "buffer",
    "strided buffer",
    "dlpack",
    "strided dlpack",
    "view",
    "wide view",
    "npy",
    "npz",
    "state",
]


@pytest.mark.parametrize("kind", KINDS)
def test_any_byte_of_a_bool_but_zero_is_true(kind):
    x, want = bools(kind), np.array([False, True, True, True, True] * 40)
    assert x.dtype == mx.bool_
    ways = {
        "as it is": (lambda m, a: a, x),
        "cast": (lambda m, a: a.astype(m.int32), None),
        "equal": (lambda m, a: a == m.array([True]), None),
        "not": (lambda m, a: m.logical_not(a), None),
        "sum": (lambda m, a: m.sum(a), None),
        "sort": (lambda m, a: m.sort(a), None),
        "add": (lambda m, a: a + 1, None),
        "bytes": (lambda m, a: a.view(m.uint8), None),
        "product": (lambda m, a: a * a, None),
        "where": (lambda m, a: m.where(a, 3, 4), None),
        "less": (lambda m, a: a > m.array([True]), None),
    }
    for name, (f, _) in ways.items():
        np.testing.assert_array_equal(h.to_np(f(mx, x)), f(np, want), err_msg=name)
    assert bytes(memoryview(x)) == want.tobytes()


@pytest.mark.gpu
def test_bools_that_users_kernels_write():
    source = "y[thread_position_in_grid.x] = uint8_t(thread_position_in_grid.x);"
    kernel = mx.fast.vulkan_kernel("bools", [], ["y"], source)
    (y,) = kernel(
        inputs=[],
        grid=(5, 1, 1),
        threadgroup=(5, 1, 1),
        output_shapes=[(5,)],
        output_dtypes=[mx.bool_],
    )
    assert y.dtype == mx.bool_ and y.astype(mx.int32).tolist() == [0, 1, 1, 1, 1]
