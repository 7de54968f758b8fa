"""Every example in the docs of the Python modules runs; every public name has a doc and types."""

import doctest
import importlib
import inspect
import pkgutil

import mlx.core as mx
import mlx.nn
import mlx.optimizers
import mlx.utils
import pytest


def modules():
    yield "mlx.utils"
    for package in (mlx.nn, mlx.optimizers):
        yield package.__name__
        for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            yield info.name


@pytest.mark.parametrize("name", list(modules()))
def test_examples(name):
    mx.random.seed(0)
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


@pytest.mark.parametrize("name", list(modules()))
def test_public_names_have_docs_types_and_examples(name):
    module = importlib.import_module(name)
    assert module.__doc__
    for key, value in vars(module).items():
        if key.startswith("_") or getattr(value, "__module__", None) != name:
            continue
        if not (inspect.isfunction(value) or inspect.isclass(value)):
            continue
        assert value.__doc__, key
        base = inspect.isclass(value) and value in (mlx.nn.Module,)
        assert ">>>" in value.__doc__ or base or key in WITHOUT_EXAMPLES, key
        call = value.__init__ if inspect.isclass(value) else value
        signature = inspect.signature(call)
        untyped = [
            p.name
            for p in signature.parameters.values()
            if p.annotation is p.empty and p.name != "self"
        ]
        assert not untyped, (key, untyped)


WITHOUT_EXAMPLES = {"spread", "conv_weight", "quantization_defaults"}
