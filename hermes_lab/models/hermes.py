r"""The Hermes text protocol: find the tool calls in what a model wrote, and write calls and responses.

`parse` never raises and never guesses. Each `<tool_call>` is read on its own, so a broken one is an error
beside its sound siblings. A call that needed a repair says so, and one that was cut, or could mean two
things, is an error with its raw text. Calls inside `<think>` or `<scratch_pad>` are recorded as thoughts and
never run.

>>> call = "<tool_call>\n{'name': 'add', 'arguments': {'a': 1}}\n</tool_call>"
>>> found = parse(f"<think>\nA sum.\n</think>\nLet me add.\n{call}")
>>> [(call.name, call.arguments, call.repaired) for call in found.calls]
[('add', {'a': 1}, True)]
>>> found.text, found.reasoning
('Let me add.', 'A sum.')

How doubtful cases are decided:

- NaN, infinities, numbers that a float or Python's integers cannot hold, and one key with two values are
  errors.
- Braces missing at the end are added only where the end tag stands; a missing bracket of a list, never.
- A tag in prose is a mention: quoted, or followed by no JSON object and no end tag, or a pair around "and" or
  "...".
- A `</think>` that no `<think>` opened ends reasoning that the template began: all before it is reasoning.
- An attempt inside reasoning that cannot be read is a draft: neither error nor thought, but kept in
  `reasoning`.
- Where a string of a broken call may go on, calls that may stand in it are part of that error and do not run.

Time is linear in the length of the text, whatever it holds: `hermes_scan` visits each tag once, and
`hermes_blocks` says why reading the blocks reads each character a bounded number of times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hermes_lab.models.exact_json import dump
from hermes_lab.models.hermes_blocks import CALL, CALL_END
from hermes_lab.models.hermes_objects import Attempt
from hermes_lab.models.hermes_responses import Response, parse_responses, render_response
from hermes_lab.models.hermes_scan import scan

__all__ = [
    "Call",
    "CallError",
    "Parsed",
    "Response",
    "parse",
    "parse_responses",
    "render_call",
    "render_response",
]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as the model meant it.

    Attributes:
        name: the tool, exactly as written.
        arguments: JSON values by argument name.
        repaired: whether the text was anything but the proper form.
        raw: the text it was read from, a part of the input: the block with its tags, or one object of
            several.
    """

    name: str
    arguments: dict[str, Any]
    repaired: bool
    raw: str


@dataclass(frozen=True, slots=True)
class CallError:
    """An attempt at a call that could not be read, and why; `raw` is its text, a part of the input."""

    raw: str
    reason: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """What one model turn holds.

    Attributes:
        calls: to run, in order.
        errors: attempts that could not be read, in order.
        thoughts: calls that stood in reasoning, in order; never to be run.
        text: what remains for the reader, without calls, broken calls and reasoning.
        reasoning: the reasoning as written, calls in it included, without its tags.
    """

    calls: tuple[Call, ...] = ()
    errors: tuple[CallError, ...] = ()
    thoughts: tuple[Call, ...] = ()
    text: str = ""
    reasoning: str = ""


def parse(text: str) -> Parsed:
    """Return the calls, errors, thoughts, answer and reasoning in `text`, one turn of a model.

    No text makes it raise; it takes time linear in the length of the text.
    """
    if "<" not in text:
        return Parsed(text=text.strip())
    found = scan(text)
    return Parsed(
        calls=_calls(text, found.attempts),
        errors=_errors(text, found.attempts),
        thoughts=_calls(text, found.thoughts),
        text=_join(text, found.answer),
        reasoning=_join(text, found.reasoning),
    )


def render_call(name: str, arguments: dict[str, Any]) -> str:
    """Return the text of a call, such that `parse` finds exactly this call in it.

    Raises:
        ValueError: a blank name, a number that is not finite, too many digits or levels of nesting.
        TypeError: a name or key that is not text, arguments that are no dict, or a value that JSON does not
        have.
    """
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise TypeError("a call has a name that is text and arguments that are a dict")
    if not name.strip():
        raise ValueError("the name of a call must not be blank")
    return f"{CALL}\n{dump({'name': name, 'arguments': arguments})}\n{CALL_END}"


def _calls(text: str, attempts: list[Attempt]) -> tuple[Call, ...]:
    raws = _raws(text, attempts)
    return tuple(
        Call(attempt.shape.name, attempt.shape.arguments, attempt.shape.repaired, raw)
        for attempt, raw in zip(attempts, raws, strict=True)
        if attempt.shape is not None
    )


def _errors(text: str, attempts: list[Attempt]) -> tuple[CallError, ...]:
    raws = _raws(text, attempts)
    return tuple(
        CallError(raw, attempt.reason) for attempt, raw in zip(attempts, raws, strict=True) if attempt.shape is None
    )


def _raws(text: str, attempts: list[Attempt]) -> list[str]:
    """Return the text of each attempt; the calls of one list share a copy, which may be long."""
    raws: list[str] = []
    place = (-1, -1)
    for attempt in attempts:
        if (attempt.start, attempt.end) == place:
            raws.append(raws[-1])
            continue
        place = (attempt.start, attempt.end)
        raws.append(text[attempt.start : attempt.end])
    return raws


def _join(text: str, stretches: list[tuple[int, int]]) -> str:
    """Return the stretches of `text` as one; where something was taken out, two words are not glued together."""
    parts: list[str] = []
    last_end = -1
    for start, end in stretches:
        part = text[start:end]
        if parts and start != last_end and not parts[-1][-1:].isspace() and not part[:1].isspace():
            parts.append("\n")
        parts.append(part)
        last_end = end
    return "".join(parts).strip()
