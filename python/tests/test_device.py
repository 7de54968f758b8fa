"""Devices and streams: defaults, contexts, explicit streams and dependences between them."""

import importlib.metadata

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

pytestmark = pytest.mark.validation


def test_version_names_the_api_level():
    assert mx.__version__ == "0.32.4"
    assert tuple(map(int, mx.__version__.split("."))) >= (0, 32, 4)
    assert mx.vulkan.__version__ == importlib.metadata.version("mlx-vulkan")


def test_devices():
    assert mx.Device(mx.cpu) == mx.Device(mx.cpu, 0)
    assert mx.Device(mx.cpu).type == mx.cpu
    assert mx.is_available(mx.cpu) and mx.device_count(mx.cpu) >= 1
    assert str(mx.Device(mx.cpu)) == "Device(cpu, 0)"
    assert isinstance(mx.device_info(mx.cpu), dict)
    assert mx.device_info(mx.cpu)["device_name"]
    assert mx.is_available(mx.gpu) == (mx.device_count(mx.gpu) > 0)
    assert not mx.metal.is_available() and not mx.cuda.is_available()


def test_the_number_of_a_device_type_names_it():
    assert mx.Device(0) == mx.Device(mx.cpu)
    assert mx.is_available(0) and mx.default_stream(0) == mx.default_stream(mx.cpu)
    for cpu in (0, False, np.int32(0), mx.array(0)):
        assert mx.add(mx.array([1]), 2, stream=cpu).tolist() == [3]
    for other in (2, -1, 1.0, "cpu"):
        with pytest.raises(TypeError):
            mx.add(mx.array([1]), 2, stream=other)


def test_default_device_can_be_changed():
    before = mx.default_device()
    mx.set_default_device(mx.cpu)
    assert mx.default_device() == mx.Device(mx.cpu)
    assert mx.default_stream(mx.cpu).device == mx.Device(mx.cpu)
    mx.set_default_device(before)
    assert mx.default_device() == before


def test_streams():
    device = mx.default_device()
    s, t = mx.new_stream(device), mx.new_stream(device)
    assert s != t and s == s and s.device == device
    assert "Stream(" in repr(s)
    a = mx.add(mx.ones((3,)), 1, stream=s)
    b = mx.multiply(a, 5, stream=t)
    c = a + b
    assert c.tolist() == [12, 12, 12]
    mx.synchronize(s)
    mx.synchronize(t)
    mx.synchronize()


def test_stream_context():
    device = mx.default_device()
    before = mx.default_stream(device)
    s = mx.new_stream(device)
    with mx.stream(s):
        assert mx.default_stream(device) == s
        with mx.stream(mx.cpu):
            assert mx.default_device() == mx.Device(mx.cpu)
            assert (mx.ones((2,)) + 1).tolist() == [2, 2]
        assert mx.default_stream(device) == s and mx.default_device() == device
    assert mx.default_stream(device) == before
    with pytest.raises(RuntimeError, match="out"), mx.stream(s):
        raise RuntimeError("out")
    assert mx.default_stream(device) == before


def test_default_stream_can_be_set():
    device = mx.default_device()
    before, s = mx.default_stream(device), mx.new_stream(device)
    try:
        mx.set_default_stream(s)
        assert mx.default_stream(device) == s
        h.works()
    finally:
        mx.set_default_stream(before)


def test_a_chain_hops_between_streams():
    """Each step runs on another stream than the one before it and must wait for it."""
    device = mx.default_device()
    streams = [mx.new_stream(device) for _ in range(3)] + [mx.default_stream(mx.cpu)]
    x = mx.zeros((513,), mx.int32)
    for i in range(80):
        x = mx.add(x, i, stream=streams[i % 4])
    assert (np.array(x) == sum(range(80))).all()


def test_cross_dependences_of_two_streams():
    device = mx.default_device()
    s, t = mx.new_stream(device), mx.new_stream(device)
    a, b = mx.ones((300, 7)), mx.full((300, 7), 2.0)
    for _ in range(15):
        a, b = mx.add(a, b, stream=s), mx.subtract(a, b, stream=t)
    x, y = 1.0, 2.0
    for _ in range(15):
        x, y = x + y, x - y
    assert (np.array(a) == x).all() and (np.array(b) == y).all()


def test_freed_inputs_of_another_stream_stay_alive_long_enough():
    device = mx.default_device()
    s, t = mx.new_stream(device), mx.new_stream(device)
    results = []
    for i in range(30):
        a = mx.full((2000,), float(i), stream=mx.cpu)
        b = mx.add(a, 1, stream=s)
        c = mx.sum(mx.multiply(b, 2, stream=t), stream=t)
        del a, b
        mx.async_eval(c)
        results.append(c)
    assert [r.item() for r in results] == [2000 * 2 * (i + 1) for i in range(30)]


@pytest.mark.parametrize("dtype", [d for d in h.ALL])
def test_values_cross_between_cpu_and_the_default_device(dtype):
    x = h.quantise(np.arange(77) % 50, dtype)
    a = mx.contiguous(h.from_np(x, dtype), stream=mx.cpu)
    b = mx.add(a, a, stream=mx.default_device()) if dtype != "bool_" else a
    c = mx.maximum(b, a, stream=mx.cpu)
    np.testing.assert_array_equal(h.to_np(c), x if dtype == "bool_" else h.quantise(2 * x, dtype))
