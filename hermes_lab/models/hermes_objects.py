"""Read the JSON objects that stand in a row inside a tag, and turn them into attempts at calls.

>>> row = read_row('{"name": "f"}, "arguments": {"a": 1}} {"name": "g"}', 0)
>>> [attempt.shape.arguments for attempt in as_attempts(row.items)]
[{'a': 1}, {}]
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from hermes_lab.models.call_shapes import Shape, ShapeError, call_shape
from hermes_lab.models.exact_json import JsonError
from hermes_lab.models.tolerant_json import read

_FIRST_OBJECT = re.compile(r"\s*+(?=\{|\[\s*+\{)")
_NEXT_OBJECT = re.compile(r"\s*+,?\s*+(?=\{|\[\s*+\{)")
_MISSING_BRACES = re.compile(r"(?:```\s*+)?</tool_call>")
_MEMBER = re.compile(r"\s*+,\s*+(?=[\"'])")
_COLON = re.compile(r"\s*+:")
_END_TAG = re.compile(r"\s*+</tool_call>")
_BRACE = re.compile(r"\s*+\}")

_SLIPPED = 'the key "{:.40}" may be an argument that a misplaced brace left outside'
_ALONE = "a name without arguments, beside something that could not be read"


class Attempt(NamedTuple):
    """One call, or one that could not be read (`shape` is None), and the text it came from."""

    start: int
    end: int
    shape: Shape | None
    reason: str = ""


class Item(NamedTuple):
    """One value of a row, where it stands, whether it had to be repaired, and by adding braces."""

    value: Any
    start: int
    end: int
    repaired: bool
    completed: bool = False


class Row(NamedTuple):
    """The objects read in a row, where reading stopped, and the error that stopped it."""

    items: list[Item]
    end: int
    error: JsonError | None


def read_row(text: str, position: int) -> Row:
    """Return the objects (or lists of them) from `position` on, with nothing but blanks or commas in between.

    Returns:
        The row; with an error, its `end` is where the bad part starts.
    """
    items: list[Item] = []
    match = _FIRST_OBJECT.match(text, position)
    while match:
        start = match.end()
        reading = None
        try:
            reading = read(text, start, _MISSING_BRACES)
            item = Item(reading.value, start, reading.end, reading.repaired, reading.completed)
            items.append(_with_late_arguments(text, item))
        except JsonError as error:
            return Row(items, reading.end if reading else start, error)
        position = items[-1].end
        match = _NEXT_OBJECT.match(text, position)
    return Row(items, position, None)


def _with_late_arguments(text: str, item: Item) -> Item:
    """Put back arguments that a brace has left outside: `{"name": "f"}, "arguments": {...}}`."""
    comma = _MEMBER.match(text, item.end)
    if not comma or not isinstance(item.value, dict) or not {"arguments", "parameters"}.isdisjoint(item.value):
        return item
    key = read(text, comma.end())
    colon = _COLON.match(text, key.end)
    if key.value not in ("arguments", "parameters") or "name" not in item.value or not colon:
        raise JsonError("the object was closed before its end", item.end)
    arguments = read(text, colon.end())
    brace = _BRACE.match(text, arguments.end)
    if not brace and not _END_TAG.match(text, arguments.end):
        raise JsonError("the text ends before the value is complete", arguments.end)
    end = brace.end() if brace else arguments.end
    return Item({**item.value, key.value: arguments.value}, item.start, end, True)


def as_attempts(items: list[Item], spoiled: bool = False) -> list[Attempt]:
    """Turn values into calls; one without arguments counts only if all else in its block was understood."""
    attempts = []
    for item in items:
        many = isinstance(item.value, list)
        for value in item.value if many else [item.value]:
            try:
                shape = call_shape(value)
            except ShapeError as error:
                attempts.append(Attempt(item.start, item.end, None, str(error)))
                spoiled = True
                continue
            shape = shape._replace(repaired=shape.repaired or item.repaired or many)
            if item.repaired and shape.extra:
                attempts.append(Attempt(item.start, item.end, None, _SLIPPED.format(shape.extra)))
                continue
            attempts.append(Attempt(item.start, item.end, shape))
    if not spoiled:
        return attempts
    return [
        attempt._replace(shape=None, reason=_ALONE) if attempt.shape and attempt.shape.bare else attempt
        for attempt in attempts
    ]
