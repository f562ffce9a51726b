"""The JSON Schema of a typed function: from its signature, and the descriptions from its Google-style docstring."""

from __future__ import annotations

import inspect
import re
import sys
import typing
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec

from hermes_lab.tools.results import plain

ENVIRONMENT = "env"
"""The name by which a function's first parameter asks for the episode's environment."""

_SECTION = re.compile(r"^(Args|Arguments|Returns|Raises|Yields|Examples?|Notes?|Attributes|Warnings?):\s*$")
_ENTRY = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_IMMUTABLE = (str, int, float, bool, bytes, tuple, frozenset, type(None))


class Signature(NamedTuple):
    """What a function takes.

    Attributes:
        summary: the first paragraph of its docstring, on one line.
        parameters: JSON Schema of its arguments, of type object.
        struct: the msgspec Struct that arguments are converted to; one that was not given is `UNSET`.
        takes_environment: whether its first parameter is the environment.
    """

    summary: str
    parameters: dict[str, Any]
    struct: type[msgspec.Struct]
    takes_environment: bool


def read_signature(function: Callable[..., Any]) -> Signature:
    """Return what `function` takes.

    Raises:
        TypeError: it has no docstring, a parameter without annotation or of a type that JSON Schema does not know,
            `*args` or `**kwargs`; the message names the function and the parameter.
    """
    where = f"the tool {function.__module__}.{function.__qualname__}"
    summary, descriptions = _read_docstring(where, function)
    given = list(inspect.signature(function).parameters.values())
    takes_environment = bool(given) and given[0].name == ENVIRONMENT
    parameters = given[1:] if takes_environment else given
    types = _annotations(where, function, parameters)
    unknown = sorted(set(descriptions) - set(types) - {ENVIRONMENT})
    if unknown:
        raise TypeError(f"{where}: its docstring describes {unknown[0]!r}, which is no parameter")
    struct = _make_struct(where, parameters, types)
    schema = _object_schema(where, struct)
    for parameter in parameters:
        place = schema["properties"][parameter.name]
        if parameter.name in descriptions:
            place["description"] = descriptions[parameter.name]
        if parameter.default is not inspect.Parameter.empty:
            place["default"] = plain(parameter.default)
    return Signature(summary, schema, struct, takes_environment)


def _annotations(where: str, function: Callable[..., Any], parameters: list[inspect.Parameter]) -> dict[str, Any]:
    """Return the type of each parameter. The environment's is not looked at: it may be imported for typing only."""
    written = {}
    for parameter in parameters:
        if parameter.kind not in _BY_NAME:
            raise TypeError(f"{where}: {parameter}: a model names each argument, so write each out by name")
        if parameter.annotation is inspect.Parameter.empty:
            raise TypeError(f"{where}: give the parameter {parameter.name!r} a type")
        if parameter.default is not inspect.Parameter.empty and not isinstance(parameter.default, _IMMUTABLE):
            raise TypeError(f"{where}: the default of {parameter.name!r} can change between calls: use None or a tuple")
        written[parameter.name] = parameter.annotation
    module = sys.modules.get(function.__module__)
    known = getattr(function, "__globals__", vars(module) if module else {})
    try:
        return typing.get_type_hints(SimpleNamespace(__annotations__=written), known, include_extras=True)
    except NameError as error:
        raise TypeError(f"{where}: {error}: a tool's types must be known at the top of its module") from None


def _make_struct(where: str, parameters: list[inspect.Parameter], types: dict[str, Any]) -> type[msgspec.Struct]:
    fields: list[Any] = []
    for parameter in parameters:
        required = parameter.default is inspect.Parameter.empty
        named = (parameter.name, types[parameter.name])
        fields.append(named if required else (*named, msgspec.UNSET))
    try:
        struct = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
        # msgspec builds the decoder when a type is first used, and says only then what it cannot decode.
        msgspec.json.Decoder(struct)
    except TypeError as error:
        raise TypeError(f"{where}: {error}") from None
    return struct


def _object_schema(where: str, struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of `struct`; the types that it is made of stand in their places, not behind references."""
    try:
        (_,), components = msgspec.json.schema_components([struct], ref_template="{name}")
    except TypeError as error:
        raise TypeError(f"{where}: a parameter's type has no JSON Schema: {str(error).splitlines()[-1]}") from None
    for component in components.values():
        component.pop("title", None)
    (root,) = (name for name in components if name == struct.__name__)
    schema: dict[str, Any] = _inline(components[root], components, (root,), where)
    schema.setdefault("required", [])
    return schema


def _inline(node: Any, components: dict[str, Any], within: tuple[str, ...], where: str) -> Any:
    if isinstance(node, list):
        return [_inline(item, components, within, where) for item in node]
    if not isinstance(node, dict):
        return node
    name = node.get("$ref")
    if not isinstance(name, str):
        return {key: _inline(value, components, within, where) for key, value in node.items()}
    if name in within:
        raise TypeError(f"{where}: the type {name} holds itself, which a model's grammar cannot spell out")
    beside = {key: value for key, value in node.items() if key != "$ref"}
    return _inline(components[name], components, (*within, name), where) | beside


def _read_docstring(where: str, function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return the first paragraph on one line, and the description of each parameter in the section `Args`."""
    text = inspect.cleandoc(function.__doc__ or "")
    if not text:
        raise TypeError(f"{where}: write a docstring: its first paragraph is what the model reads of the tool")
    lines = text.splitlines()
    summary: list[str] = []
    for line in lines:
        if not line.strip() or _SECTION.match(line):
            break
        summary.append(line.strip())
    if not summary:
        raise TypeError(f"{where}: its docstring must begin with what the tool does")
    return " ".join(summary), _read_args(lines)


def _read_args(lines: list[str]) -> dict[str, str]:
    starts = [number for number, line in enumerate(lines) if re.match(r"^Arg(ument)?s:\s*$", line)]
    if not starts:
        return {}
    descriptions: dict[str, str] = {}
    name, depth = "", None
    for line in lines[starts[0] + 1 :]:
        if line and not line[0].isspace():
            break
        body = line.strip()
        if not body:
            continue
        indent = len(line) - len(line.lstrip())
        depth = indent if depth is None else depth
        entry = _ENTRY.match(body) if indent <= depth else None
        if entry:
            name = entry.group(1)
            descriptions[name] = entry.group(2)
        elif name:
            descriptions[name] = f"{descriptions[name]} {body}".strip()
    return descriptions
