"""What a package is asked besides its functions: `python -m`, array API, `reprlib`, extensions."""

import array
import importlib
import importlib.machinery
import importlib.util
import os
import reprlib
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

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


# --- upstream's files in the same folder ----------------------------------------------------------


@pytest.fixture
def installed(tmp_path):
    """A copy of the package's Python files, with an empty native module, in a folder of its own."""
    package = tmp_path / "site" / "mlx"
    source = Path(sys.modules["mlx"].__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    (package / f"core{importlib.machinery.EXTENSION_SUFFIXES[1]}").touch()
    return package


def run_there(package, *args):
    env = os.environ | {"PYTHONPATH": str(package.parent)}
    return subprocess.run(
        [sys.executable, *args],
        capture_output=True,
        text=True,
        timeout=120,
        env=env,
        cwd=package.parent.parent,
    )


def test_a_second_native_module_is_refused_with_the_remedy(installed):
    assert run_there(installed, "-c", "import mlx").returncode == 0
    (installed / f"core{importlib.machinery.EXTENSION_SUFFIXES[0]}").touch()
    done = run_there(installed, "-c", "import mlx.core")
    assert done.returncode == 1
    assert f"ImportError: [mlx] Two packages lie in {installed}" in done.stderr
    assert "\n    pip uninstall -y " in done.stderr and 'mlx-vulkan[drop-in]"' in done.stderr


def test_files_that_another_package_took_along_are_missed(installed):
    (installed / "utils.py").unlink()
    done = run_there(installed, "-c", "import mlx.core")
    assert done.returncode == 1
    assert "ImportError: [mlx] Files of mlx-vulkan are missing" in done.stderr
    assert "\n    pip install --force-reinstall --no-deps mlx-vulkan\n" in done.stderr


def test_the_doctor_runs_where_nothing_can_be_imported(installed):
    (installed / f"core{importlib.machinery.EXTENSION_SUFFIXES[0]}").touch()
    done = run_there(installed, "-m", "mlx.info", "--doctor")
    assert done.returncode == 1, done.stderr
    assert "BAD  native modules: " in done.stdout and "pip uninstall -y " in done.stdout


def test_the_doctor_sees_a_file_that_hides_the_package(tmp_path):
    (tmp_path / "mlx").mkdir()
    env = os.environ | {"PYTHONPATH": str(Path(sys.modules["mlx"].__file__).parent.parent)}
    code = "import sys; from mlx import _doctor; sys.exit(_doctor.main())"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env=env,
        cwd=tmp_path,
    )
    assert done.returncode == 1, done.stderr
    assert f"BAD  shadow: {tmp_path / 'mlx'}" in done.stdout
    assert "ok   cache: " in done.stdout


def test_the_stand_in_has_the_version_that_clients_require():
    root = Path(__file__).resolve().parents[2]
    stand_in = tomllib.loads((root / "packaging/mlx/pyproject.toml").read_text())["project"]
    ours = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert stand_in["name"] == "mlx" and stand_in["version"] == f"{mx.__version__}+vulkan"
    assert stand_in["dependencies"] == [ours["name"]]
    assert ours["optional-dependencies"]["drop-in"] == [f"mlx=={stand_in['version']}"]


def test_the_parts_of_a_release_name_the_same_versions():
    root = Path(__file__).resolve().parents[2]
    version = tomllib.loads((root / "Cargo.toml").read_text())["package"]["version"]
    assert version == mx.vulkan.__version__
    specification = importlib.util.spec_from_file_location("tag", root / "tools" / "tag.py")
    tag = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(tag)
    assert list(tag.disagreements(version)) == []
