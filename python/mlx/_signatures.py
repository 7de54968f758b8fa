"""What the TypeErrors of `mlx.core` say: which function and argument, what it must be, what it was.

`mlx.core` calls `explain` when one of its functions is about to raise TypeError or OverflowError.
Types come from the stubs beside the module, defaults from the functions' own signatures.
"""

import ast
import functools
import inspect
import pathlib
import re
import sys

STUBS = pathlib.Path(__file__).with_name("core")
NOTE = re.compile(r"while processing '(\w+)'$")
NAMED = re.compile(r"([\w.]+)\(\)")
# What the interpreter says of integers beyond the machine's.
TOO_LARGE = re.compile(r"too large|out of range|can't convert negative")


def _stub(module):
    path = STUBS / f"{module}.pyi"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _declarations(name):
    """The stub's `(...) -> ...` of a function, one for each overload.

    The name has its module or class before it.
    """
    owner, _, function = name.rpartition(".")
    if text := _class(name):
        found = re.findall(r"^    def __new__\(cls(?:, )?(.*)\) -> .*?:", text, re.M)
        return [f"({parameters}) -> {name}" for parameters in found]
    if text := _class(owner):
        return re.findall(rf"^    def {function}(\(.*\) -> .*?):", text, re.M)
    return re.findall(rf"^def {function}(\(.*\) -> .*?):", _stub(owner or "__init__"), re.M)


def _class(name):
    if not name:
        return ""
    found = re.search(rf"^class {name}\b.*?(?=^\S|\Z)", _stub("__init__"), re.M | re.S)
    return found.group() if found else ""


def _public(annotation):
    return re.sub(r"\b_(?=[A-Z])", "", ast.unparse(annotation))


@functools.cache
def _function(name):
    """The function, or the method, and its signature without `self`."""
    function = functools.reduce(getattr, name.split("."), sys.modules["mlx.core"])
    signature = inspect.signature(function)
    own = [p for p in signature.parameters.values() if p.name != "self"]
    return signature.replace(parameters=own)


@functools.cache
def signature(name):
    """The signature with types and defaults, as text, and the type of each argument."""
    own, types, lines = _function(name), {}, []
    for declaration in _declarations(name):
        node = ast.parse(f"def f{declaration}: ...").body[0]
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        given += [a for a in (node.args.vararg, node.args.kwarg) if a]
        kinds = {a.arg: _public(a.annotation) for a in given if a.annotation}
        types |= kinds
        parameters = [
            p.replace(annotation=_Text(kinds[p.name])) if kinds.get(p.name, "Any") != "Any" else p
            for p in own.parameters.values()
        ]
        result = _Text(_public(node.returns))
        lines.append(name + str(own.replace(parameters=parameters, return_annotation=result)))
    return " or ".join(lines) or name + str(own), types


class _Text(str):
    """Stands for itself where a signature is printed."""

    def __repr__(self):
        return str(self)


def _value(name, argument, args, kwargs):
    """What was given for an argument, in a list; an empty one if that cannot be told."""
    if argument in kwargs:
        return [kwargs[argument]]
    for given, p in zip(args, _function(name).parameters.values(), strict=False):
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name == argument:
            return [given]
    return []


def _wrong_argument(name, argument, message, args, kwargs):
    kind = signature(name)[1].get(argument, "Any")
    value = _value(name, argument, args, kwargs)
    if kind == "Any" or not value:
        return f"{name}(): argument '{argument}': {message}"
    # A list may be right and its elements wrong.
    detail = f" ({message})" if isinstance(value[0], list | tuple | dict) else ""
    return f"{name}(): argument '{argument}' must be {kind}, got {type(value[0]).__name__}{detail}"


def explain(name, error, args, kwargs):
    """Changes the text of an error that the function `name` raises for these arguments."""
    message = str(error)
    if "Signature: " in message:
        return
    notes = getattr(error, "__notes__", [])
    argument = next((m.group(1) for m in map(NOTE.match, notes) if m), None)
    if isinstance(error, OverflowError):
        if not TOO_LARGE.search(message):
            return
        value = _value(name, argument, args, kwargs)
        number = value[0] if value else ""
        text = f"{name}(): argument '{argument}': Integer value {number} is out of range"
    elif argument:
        text = _wrong_argument(name, argument, message, args, kwargs)
    elif named := NAMED.match(message):
        # Under the name that it was called by: some functions have several.
        text = name + message[named.end(1) :].rstrip(".")
    elif message.startswith("["):
        text = message.rstrip(".")
    else:
        text = f"{name}(): {message.rstrip('.')}"
    error.args = (f"{text}. Signature: {signature(name)[0]}",)
    if argument:
        error.__notes__ = [n for n in notes if not NOTE.match(n)]
