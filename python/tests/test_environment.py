"""The list of environment variables against the source, the docs and what the library does."""

import pathlib
import re
import sys

import helpers as h
import mlx.core as mx
import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
VARIABLES, VARIANTS = mx.vulkan._environment()
NAMES = {row[0] for row in VARIABLES}


def source():
    """Files that may read variables, but for the table itself and this test."""
    for folder in ("src", "python", "shaders", "benches", "examples", "tools"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".rs", ".py", ".comp", ".glsl", ".sh"):
                yield path, path.read_text()
    for path in (ROOT / "build.rs", ROOT / "run_tests.sh", ROOT / "run_demo.sh"):
        yield path, path.read_text()


def test_docs_are_what_the_list_says():
    import env_table

    assert (ROOT / "docs" / "environment.md").read_text() == env_table.page()


def test_every_name_in_the_source_is_in_the_list():
    for path, text in source():
        if path.name != pathlib.Path(__file__).name:
            # The prefix as such is no name.
            names = set(re.findall(r"\bMLX_[A-Z][A-Z_]*\b", text)) - {"MLX_VK_"}
            assert names <= NAMES, path


def test_every_variable_and_variant_that_an_owner_defines_is_listed():
    defined = {"Variable": set(), "KernelVariant": set()}
    for path, text in source():
        for kind, name in re.findall(r"=\s*(Variable|KernelVariant)::new\(\s*\"(\w+)\"", text):
            assert path.suffix == ".rs" and name not in defined[kind], (path, name)
            defined[kind].add(name)
    assert defined == {"Variable": NAMES, "KernelVariant": {name for name, _ in VARIANTS}}


def test_every_variable_and_variant_is_asked_for():
    asked = re.compile(
        r"(\w+)\s*\.(?:text|number|count|word|switch|sizes|value|is_set|disabled)\(\)"
    )
    passed = re.compile(r"\btext\(&(\w+)\)")
    rust = [text for path, text in source() if path.suffix == ".rs"]
    used = {name for text in rust for name in asked.findall(text) + passed.findall(text)}
    statics = re.compile(r"static (\w+): (?:Variable|KernelVariant) =")
    # Those that only Python reads.
    python = {"WORLD_SIZE", "TEST_DEVICE"}
    assert not {name for text in rust for name in statics.findall(text)} - used - python


def test_variables_are_read_through_one_type_alone():
    # Places of the system, cargo's own, and those of measurements of the tests.
    foreign = {"XDG_CACHE_HOME", "HOME", "LOCALAPPDATA", "CARGO_MANIFEST_DIR", "OUT_DIR"}
    foreign |= {"ULP_STEP", "ULP_PAIRS"}
    for path, text in source():
        if path.suffix == ".rs" and path.name not in ("env.rs", "environment.rs"):
            for name in re.findall(r"env::vars?(?:_os)?\(\s*\"?([^\")]*)", text):
                assert name in foreign | {"n"}, f"{path} reads {name}"


def test_bad_values_and_unknown_names_warn_at_import():
    env = {
        "MLX_VK_MAX_OPS_PER_BUFFER": "many",
        "MLX_VK_FALLBACK": "maybe",
        "MLX_VK_GEMV": "33x1x1",
        "MLX_VK_DISABLE": "gemv,nonsense",
        "MLX_VK_TYPO": "1",
        "MLX_CPU_THREADS": "0",
        "MLX_VK_SORT": "",
    }
    code = """
    import warnings
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        import mlx.core as mx
    for w in seen:
        print(w.category.__name__, w.message)
    print(mx.sum(mx.ones(3), stream=mx.cpu).item())
    """
    out = h.python(code, env=env).stdout.splitlines()
    assert out[-1] == "3.0"
    assert all(line.startswith("RuntimeWarning [environment] ") for line in out[:-1])
    text = "\n".join(out)
    for name, expected in [
        ("MLX_VK_MAX_OPS_PER_BUFFER=many", "a whole number from 1 to 1048576"),
        ("MLX_VK_FALLBACK=maybe", "error, warn, allow"),
        ("MLX_VK_GEMV=33x1x1", "THREADSxROWSxUNROLL"),
        ("MLX_VK_DISABLE=nonsense", "names no kernel variant"),
        ("MLX_VK_TYPO", "is no variable of this library"),
        ("MLX_CPU_THREADS=0", "a whole number from 1 to 1024"),
    ]:
        assert re.search(re.escape(name) + ".*" + re.escape(expected), text), (name, text)
    assert len(out) == 7


def test_good_values_are_silent():
    env = {"MLX_VK_DISABLE": "gemv, matmul_khr", "MLX_VK_QMM": "dequantize", "MLX_CPU_THREADS": "2"}
    assert h.python("import mlx.core", env=env).stderr == ""


def test_statistics_are_printed_at_exit():
    code = "import mlx.core as mx; mx.eval(mx.ones(4, stream=mx.cpu) + 1)"
    text = h.python(code, env={"MLX_VK_STATS": "1"}).stderr
    assert "--- mlx statistics" in text
    assert int(re.search(r"host_ops: (\d+)", text)[1]) >= 0
    assert "statistics" not in h.python(code, env={"MLX_VK_STATS": "0"}).stderr


@pytest.mark.gpu
@pytest.mark.parametrize("policy", ["warn", "allow"])
def test_fallbacks_run_on_the_host_when_that_is_allowed(policy):
    code = """
    import mlx.core as mx
    mx.set_default_device(mx.gpu)
    a = mx.array([[4.0, 1.0], [1.0, 3.0]])
    for _ in range(2):
        x = mx.linalg.inv(a) @ a
        print(float(mx.max(mx.abs(x - mx.eye(2)))) < 1e-5)
    l = mx.linalg.cholesky(a)
    print(mx.vulkan.stats()["fallbacks"], mx.grad(lambda m: mx.linalg.inv(m).sum())(a).shape)
    """
    run = h.python(code, env={"MLX_VK_FALLBACK": policy})
    assert run.stdout.splitlines()[:2] == ["True", "True"]
    assert "'cholesky': 1" in run.stdout and "(2, 2)" in run.stdout
    assert run.stderr.count("[inv] There is no GPU kernel") == (policy == "warn")


@pytest.mark.gpu
def test_fallbacks_are_refused_otherwise():
    with pytest.raises(ValueError, match="not yet supported on the GPU"):
        mx.linalg.inv(mx.eye(2), stream=mx.gpu)
    code = """
    import mlx.core as mx
    mx.set_default_device(mx.gpu)
    try:
        mx.random.multivariate_normal(mx.zeros(2), mx.eye(2))
    except ValueError as e:
        print(e)
    """
    assert "GPU" in h.python(code, env={"MLX_VK_FALLBACK": "error"}).stdout
