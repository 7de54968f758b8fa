"""TypeErrors name the function and the argument, and show how it is called."""

import inspect
import pickle
import re
import types

import mlx.core as mx
import pytest

MODULES = {"": mx} | {
    name + ".": getattr(mx, name)
    for name in ("cuda", "distributed", "fast", "fft", "linalg", "metal", "random", "vulkan")
}
FUNCTIONS = {
    prefix + name: f
    for prefix, module in MODULES.items()
    for name, f in sorted(vars(module).items())
    if isinstance(f, types.BuiltinFunctionType) and not name.startswith("_")
}
METHODS = {
    f"array.{name}": f
    for name, f in sorted(vars(mx.array).items())
    if isinstance(f, types.MethodDescriptorType) and not name.startswith("_")
}
# They take what nothing else is like, or their work before they look at it.
ANYTHING = {
    "checkpoint",
    "eval",
    "async_eval",
}


# A function of two modules goes by one of its names.
SHOWN = {"matrix_norm": "linalg.norm"}


class Nothing:
    """Fits no parameter."""


def callable_of(name):
    owner, _, method = name.rpartition(".")
    if owner == "array":
        return getattr(mx.array([1.0]), method)
    return FUNCTIONS[name]


def parameters(f):
    return list(inspect.signature(f).parameters.values())


def test_the_issues_examples():
    with pytest.raises(TypeError) as e:
        mx.zeros(3, 4)
    text = str(e.value)
    assert text.startswith(
        "zeros(): argument 'dtype' must be Dtype | None, got int. Signature: zeros(shape: int | "
    )
    assert "stream: StreamOrDevice = None" in text and text.endswith(") -> array")
    assert not getattr(e.value, "__notes__", [])
    with pytest.raises(TypeError) as e:
        mx.concatenate(mx.ones(2), mx.ones(2))
    assert "concatenate(): argument '" in str(e.value) and "got array" in str(e.value)


OPERANDS = {
    name: parameters(f)
    for name, f in FUNCTIONS.items()
    if "." not in name
    and [p.name for p in parameters(f)] in (["a", "stream"], ["a", "b", "stream"])
}


@pytest.mark.parametrize("name", OPERANDS)
def test_a_stream_stands_by_position_only_where_it_is_declared_so(name):
    *operands, stream = OPERANDS[name]
    given = [mx.ones((2, 2), mx.bool_ if "bitwise" in name else mx.float32)] * len(operands)
    if "shift" in name:
        given = [mx.array([1])] * 2
    if stream.kind is stream.KEYWORD_ONLY:
        with pytest.raises(TypeError):
            FUNCTIONS[name](*given, mx.cpu)
    else:
        FUNCTIONS[name](*given, mx.cpu)
    FUNCTIONS[name](*given, stream=mx.cpu)


@pytest.mark.parametrize("name", [*FUNCTIONS, *METHODS])
def test_wrong_arguments_are_answered_with_the_signature(name):
    f = callable_of(name)
    own = parameters(f)
    name = SHOWN.get(name, name)
    short = name.rpartition(".")[2]
    start = re.compile(rf"{re.escape(name)}\(\)|(array\.)?{re.escape(short)}\(\)")
    asked = []
    with pytest.raises(TypeError) as e:
        f(no_such_argument_at_all=1)
    asked.append(str(e.value))
    if not any(p.kind is p.VAR_POSITIONAL for p in own):
        with pytest.raises(TypeError) as e:
            f(*[Nothing()] * (len(own) + 1))
        asked.append(str(e.value))
    for text in asked:
        assert start.match(text), text
        shown = re.search(r"Signature: (\S+?)\((.*)\)( -> .*)?$", text)
        assert shown and shown.group(1) == name, text
        for p in own:
            assert p.name in shown.group(2), text


@pytest.mark.parametrize("name", [*FUNCTIONS, *METHODS])
def test_values_of_a_wrong_type(name):
    f = callable_of(name)
    own = [p for p in parameters(f) if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if name in ANYTHING or not own:
        return
    try:
        f(*[Nothing()] * max(1, sum(p.default is p.empty for p in own)))
    except TypeError as e:
        assert f"Signature: {SHOWN.get(name, name)}(" in str(e), e
        assert "Nothing" in str(e) or "argument" in str(e) or "()" in str(e), e
    except (ValueError, RuntimeError, AttributeError, OverflowError) as e:
        assert str(e)  # MLX has other errors for operands that are no arrays


def test_wrong_streams():
    for name in ("add", "zeros", "sum", "random.uniform", "fft.fft", "linalg.qr", "fast.rope"):
        f = FUNCTIONS[name]
        given = {"add": (1, 2), "zeros": (2,), "random.uniform": ()}.get(name, (mx.ones((2, 2)),))
        with pytest.raises(TypeError) as e:
            f(*given, stream=1.5)
        assert f"{name}()" in str(e.value) and f"Signature: {name}(" in str(e.value)


def test_constructor_of_arrays():
    with pytest.raises(TypeError) as e:
        mx.array(1, 2)
    assert str(e.value).startswith(
        "array(): argument 'dtype' must be Dtype | None, got int. Signature: array("
    )


def test_integers_beyond_the_machine():
    for call in (lambda: mx.eye(2**70), lambda: mx.topk(mx.ones(3), 2**70), lambda: mx.tri(2**64)):
        with pytest.raises(OverflowError) as e:
            call()
        assert re.search(
            r"^(eye|topk|tri)\(\): argument '(n|k)': Integer value \d+ is out of range",
            str(e.value),
        )


def test_errors_of_the_callers_code_stay():
    def wrong(x):
        return len(x.item())

    def wrong_call(x):
        return mx.zeros(2, x)

    for transform in (
        lambda f: mx.vjp(f, [mx.array(1.0)], [mx.array(1.0)]),
        lambda f: mx.grad(f)(mx.array(1.0)),
    ):
        with pytest.raises(TypeError) as e:
            transform(wrong)
        assert str(e.value) == "object of type 'float' has no len()"
        with pytest.raises(TypeError) as e:
            transform(wrong_call)
        assert (
            str(e.value).startswith("zeros(): argument 'dtype'")
            and str(e.value).count("Signature") == 1
        )


def test_functions_are_what_they_were():
    assert (
        mx.zeros.__name__ == "zeros"
        and mx.zeros.__module__ == "mlx.core"
        and mx.zeros.__self__ is mx
    )
    assert mx.fft.fft.__module__ == "mlx.core.fft" and mx.matrix_norm is mx.linalg.norm
    assert pickle.loads(pickle.dumps(mx.zeros)) is mx.zeros
    assert str(inspect.signature(mx.zeros)) == "(shape, dtype=None, *, stream=None)"
    assert "zeros" in mx.zeros.__doc__ and "--" not in mx.zeros.__doc__
    assert str(inspect.signature(mx.array.sum)).startswith("(self, ")
    assert "array" in repr(mx.array.sum) and mx.array([1, 2]).sum().item() == 3
    assert mx.array.sum(mx.array([1, 2])).item() == 3
    with pytest.raises(TypeError):
        mx.array.sum(3)
