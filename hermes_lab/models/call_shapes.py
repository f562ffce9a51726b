"""Tell which tool call a decoded JSON value makes, in the shapes that models write it.

The proper shape is `{"name": text, "arguments": object}`. Also taken, as repaired: no arguments at all, null
or blank ones, arguments as JSON text, `parameters` for `arguments`, OpenAI's `{"function": {...}}` around it.
A value that could mean two things is a `ShapeError`: arguments in an unknown place would otherwise be lost
without a word.

>>> call_shape({"name": "add", "arguments": '{"a": 1}'})
Shape(name='add', arguments={'a': 1}, repaired=True, bare=False, extra='')
>>> call_shape({"name": "add", "args": {"a": 1}})
Traceback (most recent call last):
hermes_lab.models.call_shapes.ShapeError: no "arguments", but there is "args"
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hermes_lab.models.exact_json import JsonError
from hermes_lab.models.tolerant_json import read_whole

_LABELS = {
    "id",
    "index",
    "type",
}  # keys that OpenAI's format puts beside a call; they change nothing about it


class ShapeError(ValueError):
    """A value that is no tool call, or not one without doubt."""


class Shape(NamedTuple):
    """A call that a value makes.

    Attributes:
        name: the tool.
        arguments: its arguments by name.
        repaired: whether the value was not in the proper shape.
        bare: whether it said nothing about arguments.
        extra: an unknown key beside the arguments, or "". Harmless in proper JSON; where a brace is in the
            wrong place, it may be an argument that fell out.
    """

    name: str
    arguments: dict[str, Any]
    repaired: bool
    bare: bool = False
    extra: str = ""


def call_shape(value: Any) -> Shape:
    """Return the call that `value` makes.

    Raises:
        ShapeError: no object, no name, arguments that are not an object, or more than one way to read it.
    """
    if not isinstance(value, dict):
        raise ShapeError("a call is an object with a name and arguments")
    if isinstance(value.get("function"), dict):
        _allow_only(value, {"function"} | _LABELS, 'beside "function"')
        return _plain_call(value["function"])._replace(repaired=True)
    return _plain_call(value)


def _plain_call(call: dict[str, Any]) -> Shape:
    name = call.get("name")
    if not isinstance(name, str) or not name.strip():
        raise ShapeError("the name of a call must be text that is not blank")
    if "arguments" in call and "parameters" in call:
        raise ShapeError('both "arguments" and "parameters"')
    if "arguments" in call:
        arguments, repaired = _arguments(call["arguments"])
        unknown = [key for key in call if key not in _LABELS and key not in ("name", "arguments")]
        return Shape(name, arguments, repaired, extra=unknown[0] if unknown else "")
    if "parameters" in call:
        # Anything more and it may be the description of a tool, whose "parameters" is a schema.
        _allow_only(call, {"name", "parameters"} | _LABELS, 'beside "parameters"')
        return Shape(name, _arguments(call["parameters"])[0], True)
    _allow_only(call, {"name"} | _LABELS, 'no "arguments", but')
    return Shape(name, {}, True, bare=True)


def _allow_only(value: dict[str, Any], known: set[str], where: str) -> None:
    for key in value:
        if key not in known:
            raise ShapeError(f'{where} there is "{key:.40}"')


def _arguments(value: Any) -> tuple[dict[str, Any], bool]:
    """Return the arguments, and whether they had to be repaired."""
    if isinstance(value, dict):
        return value, False
    if isinstance(value, str) and value.strip():
        try:
            value = read_whole(value).value
        except JsonError as error:
            raise ShapeError(f"the text of the arguments: {error}") from None
    elif isinstance(value, str):
        value = None
    if value is None:
        return {}, True
    if not isinstance(value, dict):
        raise ShapeError("the arguments of a call must be an object")
    return value, True
