"""Docstrings: each public function has one, with its signature, and its examples run."""

import doctest
import pathlib
import re
import types

import mlx.core as mx
import numpy as np
import pytest


def public(module):
    return {n: getattr(module, n) for n in dir(module) if not n.startswith("_")}


def functions():
    found = {}
    for prefix, module in [
        ("", mx),
        ("random.", mx.random),
        ("fft.", mx.fft),
        ("linalg.", mx.linalg),
        ("vulkan.", mx.vulkan),
    ]:
        for name, value in public(module).items():
            if callable(value) and not isinstance(value, types.ModuleType):
                found[prefix + name] = value
    for name, value in public(mx.array).items():
        found["array." + name] = value
    return found


def test_everything_public_has_a_docstring():
    plain = (mx.Dtype, mx.DtypeCategory, mx.Device, type)
    bare = [
        n
        for n, f in functions().items()
        if not isinstance(f, plain) and not (f.__doc__ or "").strip()
    ]
    assert not bare


@pytest.mark.parametrize(
    "name", [n for n, f in functions().items() if ">>>" in (f.__doc__ or "")] or ["-"]
)
def test_examples(name, monkeypatch):
    if name == "-":
        return
    globs = {"mx": mx, "np": np, "mlx": __import__("mlx")}
    parser, runner = (
        doctest.DocTestParser(),
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE),
    )
    test = parser.get_doctest(functions()[name].__doc__, globs, name, None, 0)
    out = []
    runner.run(test, out=out.append)
    assert runner.failures == 0, "".join(out)


def test_the_program_of_the_readme_runs(capsys):
    readme = (pathlib.Path(__file__).parents[2] / "README.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", readme, re.S)
    exec(compile(program, "README.md", "exec"), {})
    out = capsys.readouterr().out
    loss, *fitted = map(float, re.findall(r"-?[0-9.]+(?:e-?[0-9]+)?", out))
    assert loss < 1e-6
    np.testing.assert_allclose(fitted, [*range(8), 3], atol=1e-3)
