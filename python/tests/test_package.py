"""What a package is asked besides its functions: `python -m`, array API, `reprlib`, extensions."""

import array
import importlib
import reprlib
import subprocess
import sys

import mlx.core as mx
import pytest


def test_reprlib_takes_arrays_of_both_kinds():
    assert reprlib.repr(mx.array([1, 2])) == "array([1, 2], dtype=int32)"
    assert reprlib.repr(array.array("i", [1, 2])) == "array('i', [1, 2])"


def test_array_namespace_info():
    info = mx.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": False,
        "data-dependent shapes": False,
        "max dimensions": 10,
    }
    assert info.default_device() == mx.default_device()
    assert info.devices()[0] == mx.Device(mx.cpu, 0)
    assert info.default_dtypes(device=mx.Device(mx.cpu))["indexing"] == mx.int32
    cpu = mx.Device(mx.cpu)
    assert list(info.dtypes(device=cpu)) == [
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float32", "complex64", "float64"),
    ]
    assert "float64" not in info.dtypes(device=mx.Device(mx.gpu))
    some = info.dtypes(device=cpu, kind=("bool", "real floating"))
    assert some == {"bool": mx.bool_, "float32": mx.float32, "float64": mx.float64}
    with pytest.raises(TypeError):
        info.dtypes(device="cpu")
    with pytest.raises(ValueError):
        info.dtypes(kind="numbers")


def test_package_as_a_module():
    def run(*args):
        done = subprocess.run(
            [sys.executable, "-m", "mlx", *args], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run() == ""
    assert run("--version") == f"{mx.__version__}\n"
    assert run("--cmake-dir").strip().endswith("mlx")


def test_extensions_say_what_to_do_instead():
    extension = importlib.import_module("mlx.extension")
    for name in extension.__all__:
        with pytest.raises(RuntimeError, match="vulkan_kernel"):
            getattr(extension, name)("x")
