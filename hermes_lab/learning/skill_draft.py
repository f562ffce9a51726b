"""A skill made of turns that succeeded in the same way: its text, by rule."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import msgspec

from hermes_lab.learning.turns import SessionTurn
from hermes_lab.text import tokens

_NAME_CHARS = 64
_SHOWN_REQUESTS = 3
_REQUEST_CHARS = 120


def skill_name(turn: SessionTurn) -> str:
    """Return the name of the skill for turns like this one: task type and tools, in small letters and dashes."""
    tools = list(dict.fromkeys(call.tool for call in turn.calls))
    text = unicodedata.normalize("NFKC", "-".join([turn.task_type or "task", *tools])).lower()
    name = re.sub(r"[^\w]+|_+", "-", text).strip("-")
    return name[:_NAME_CHARS].strip("-") or "skill"


def skill_text(turns: Sequence[SessionTurn]) -> str:
    """Return the SKILL.md for turns of one pattern: when it applies, and the calls in order with their arguments.

    Values of arguments are left out where the turns differ: what is particular to one request is no skill.
    """
    first = turns[0]
    requests = [" ".join(turn.said.split())[:_REQUEST_CHARS] for turn in turns if turn.said][:_SHOWN_REQUESTS]
    tools = list(dict.fromkeys(call.tool for call in first.calls))
    shared = _shared_words(requests)
    about = f"How to handle {first.task_type or 'such'} requests" + (f" about {', '.join(shared)}" if shared else "")
    front = [
        "---",
        f"name: {skill_name(first)}",
        f"description: {_quoted(about + ' with ' + ', '.join(tools) + '.')}",
        "metadata:",
        "  hermes-lab:",
        "    needs:",
        f"      tools: [{', '.join(_quoted(tool) for tool in tools)}]",
        "---",
        "",
        f"# {first.task_type or 'Such'} requests",
        "",
        "Requests like these were done this way:",
        *(f"- {request}" for request in requests),
        "",
        "Steps:",
    ]
    steps = [f"{place}. {line}" for place, line in enumerate(_steps(turns), start=1)]
    return "\n".join([*front, *steps, ""])


def _steps(turns: Sequence[SessionTurn]) -> list[str]:
    lines = []
    for place, call in enumerate(turns[0].calls):
        alike = [turn.calls[place] for turn in turns if place < len(turn.calls) and turn.calls[place].tool == call.tool]
        lines.append(f"Call `{call.tool}`{_arguments([_decoded(one.arguments) for one in alike])}.")
    return list(dict.fromkeys(lines))


def _arguments(given: Sequence[dict[str, object]]) -> str:
    names = list(dict.fromkeys(name for one in given for name in one))
    if not names:
        return ""
    parts = []
    for name in names:
        values = [one.get(name) for one in given]
        fixed = (
            len(given) > 1 and all(value == values[0] for value in values) and isinstance(values[0], bool | int | str)
        )
        parts.append(f"`{name}` = `{values[0]}`" if fixed else f"`{name}` from the request or an earlier result")
    return " with " + ", ".join(parts)


def _shared_words(requests: Sequence[str]) -> list[str]:
    sets = [list(dict.fromkeys(tokens(request))) for request in requests]
    if not sets:
        return []
    return [word for word in sets[0] if all(word in other for other in sets[1:]) and not word.isdigit()][:5]


def _decoded(text: str) -> dict[str, object]:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _quoted(text: str) -> str:
    """Return a text as YAML reads it back; JSON is YAML."""
    return msgspec.json.encode(text).decode()
