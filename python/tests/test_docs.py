"""Docstrings: every public callable tells about its arguments and its result; examples run."""

import doctest
import enum
import inspect
import pathlib
import re
import types

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import mlx.utils
import numpy as np
import pytest

MODULES = {
    "mlx.core": mx,
    "mlx.core.cuda": mx.cuda,
    "mlx.core.distributed": mx.distributed,
    "mlx.core.fast": mx.fast,
    "mlx.core.fft": mx.fft,
    "mlx.core.linalg": mx.linalg,
    "mlx.core.metal": mx.metal,
    "mlx.core.random": mx.random,
    "mlx.core.vulkan": mx.vulkan,
    "mlx.nn": nn,
    "mlx.nn.init": nn.init,
    "mlx.nn.losses": nn.losses,
    "mlx.optimizers": optim,
    "mlx.utils": mlx.utils,
}
# What has no example of its own, by the end of its name, and why.
WITHOUT_EXAMPLES = {
    "DeviceType": "an enumeration",
    "DtypeCategory": "an enumeration",
    "FunctionExporter": "made by `exporter`, which has one",
    "FunctionExporter.close": "what `with` does in the example of `exporter`",
    "apply_single": "called by `Optimizer.update` alone; each optimizer has an example",
    "init_single": "called by `Optimizer.init` alone; each optimizer has an example",
}
# Told once, in the documentation of `mlx.core`.
EVERYWHERE = {"stream"}


def public(owner):
    return {n: getattr(owner, n) for n in dir(owner) if not n.startswith("_")}


def ours(value):
    """Modules hold names of the standard library too."""
    return callable(value) and getattr(value, "__module__", None) not in (
        "typing",
        "collections.abc",
    )


def callables():
    """Public functions and classes by name, and the methods of the classes; aliases count."""
    found = {}
    for prefix, module in MODULES.items():
        for name, value in public(module).items():
            if isinstance(value, types.ModuleType) or not ours(value):
                continue
            found[f"{prefix}.{name}"] = value
            if not inspect.isclass(value):
                continue
            for method in sorted(set(vars(value)) & set(public(value))):
                found[f"{prefix}.{name}.{method}"] = getattr(value, method)
    return found


CALLABLES = callables()


def exempt(name):
    return any(name.endswith("." + tail) for tail in WITHOUT_EXAMPLES)


def described(doc):
    """Names under `Args:`; several may share a line."""
    names = []
    section = re.search(r"^Args:\n((?: {4}.*\n?)+)", doc, re.M)
    for entry in re.findall(
        r"^ {4}(\*{0,2}\w[\w*, ]*?)(?: \(|:)", section[1] if section else "", re.M
    ):
        names += [n.strip().lstrip("*") for n in entry.split(",")]
    return names


def parameters(value):
    """Names of the parameters; a class that is not made by its name has none."""
    try:
        return [n for n in inspect.signature(value).parameters if n not in EVERYWHERE | {"self"}]
    except ValueError:
        return []


@pytest.mark.parametrize("name", CALLABLES)
def test_sections(name):
    value, doc = CALLABLES[name], inspect.getdoc(CALLABLES[name]) or ""
    assert doc.split("\n")[0].strip(), "a line that says what it does"
    if (
        not callable(value) or inspect.isclass(value) and issubclass(value, enum.Enum)
    ):  # a property, ...
        return
    assert sorted(set(described(doc)) - EVERYWHERE) == sorted(parameters(value))
    assert inspect.isclass(value) or re.search(r"^Returns:\n {4}\S", doc, re.M)
    assert (">>>" in doc) != exempt(name)


@pytest.mark.parametrize("name", CALLABLES)
def test_sections_come_in_order(name):
    doc = inspect.getdoc(CALLABLES[name]) or ""
    heads = re.findall(r"^(Args|Returns|Raises):$|^(>>>)", doc, re.M)
    order = [("Args", "Returns", "Raises", ">>>").index(a or b) for a, b in heads]
    assert order == sorted(order)


def test_the_stream_argument_is_told_once():
    assert "stream" in described(mx.__doc__)


def raised(doc):
    """Exceptions under `Raises:` with what is said of them."""
    section = re.search(r"^Raises:\n((?: {4}.*\n?)+)", doc, re.M)
    text = re.sub(r"\n {8}", " ", section[1] if section else "")
    return re.findall(r"^ {4}(\w+): (.*)$", text, re.M)


def told(doc, word):
    """The exception that the docs connect with a word."""
    return next((kind for kind, why in raised(doc) if word in why), None)


def outcome(call):
    """Name of the exception that a call raises, at once or when it is computed; else None."""
    try:
        mx.eval(call())
    except Exception as error:
        return type(error).__name__
    return None


# Elementwise functions, whose sections are made from the table of operations.
ROWS = [n for n, f in CALLABLES.items() if "One element for each" in (f.__doc__ or "")]


@pytest.mark.parametrize("name", ROWS)
def test_elementwise_functions_raise_what_their_docs_tell(name):
    function, doc = CALLABLES[name], inspect.getdoc(CALLABLES[name])
    operands = len(parameters(function))
    for word, value in [
        ("complex", mx.array([1 + 2j])),
        ("floating", mx.array([1.5])),
        ("bool", mx.array([True])),
        ("integer", mx.array([1])),
    ]:
        assert outcome(lambda value=value: function(*[value] * operands)) == told(doc, word), word
    if told(doc, "neither an array nor a number"):
        assert outcome(lambda: function(*["text"] * operands)) == "ValueError"
    if operands == 2:
        lengths = [mx.array([1, 2]), mx.array([1, 2, 3])]
        assert outcome(lambda: function(*lengths)) == told(doc, "broadcast") == "ValueError"


def takes_an_axis(name):
    """Whether this is a function of one array that can be called with an axis alone."""
    function = CALLABLES[name]
    names = parameters(function) if callable(function) else []
    if inspect.isclass(function) or not {"axis", "axes"} & set(names) or names[0] not in ("a", "x"):
        return False
    others = [p for n, p in inspect.signature(function).parameters.items() if n != names[0]]
    return all(p.default is not p.empty or p.name in ("axis", "axes") for p in others)


@pytest.mark.parametrize("name", [n for n in CALLABLES if takes_an_axis(n)])
def test_axes_out_of_range_raise_what_the_docs_tell(name):
    function, doc = CALLABLES[name], inspect.getdoc(CALLABLES[name])
    axis = {"axis": 7} if "axis" in parameters(function) else {"axes": (0, 7)}
    kind = outcome(lambda: function(mx.ones((2, 4)), **axis))
    assert kind is not None and kind == told(doc, "out of range")


NATIVE = [
    n for n, f in CALLABLES.items() if n.startswith("mlx.core") and ">>>" in (f.__doc__ or "")
]


@pytest.mark.parametrize("name", NATIVE)
def test_examples(name):
    """On the device of the session; those of Python modules run in test_nn_docs.py."""
    globs = {"mx": mx, "np": np, "mlx": mlx}
    parser, runner = (
        doctest.DocTestParser(),
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE),
    )
    test = parser.get_doctest(CALLABLES[name].__doc__, globs, name, None, 0)
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
