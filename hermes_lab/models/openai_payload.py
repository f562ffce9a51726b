"""Write the body of a request to an OpenAI-compatible server, in each way that a schema can be asked for."""

from __future__ import annotations

import enum
import json
import re
from typing import Any

from hermes_lab.models.base import Request, Role, Turn
from hermes_lab.models.openai_options import OpenAIOptions
from hermes_lab.models.prompt import hermes_turns, json_turns

_SURROGATE = re.compile("[\ud800-\udfff]")
_MOST_STOPS = 4  # OpenAI's own servers refuse more; the rest is cut off by us


class Format(enum.IntEnum):
    """How a schema is asked for; each is taken by more servers, and binds less, than the one before."""

    JSON_SCHEMA = 0
    JSON_OBJECT = 1
    PROMPT = 2


def payload(request: Request, model: str, options: OpenAIOptions, form: Format) -> dict[str, Any]:
    """Return the body of a request, as JSON values; `form` counts only where the request has a schema."""
    body: dict[str, Any] = {"model": model, "messages": messages(request, form), "temperature": request.temperature}
    body[options.length_field] = request.max_tokens
    if request.top_p < 1:
        body["top_p"] = request.top_p
    if request.temperature > 0:
        body["seed"] = request.seed
    if request.stop:
        body["stop"] = list(request.stop[:_MOST_STOPS])
    if request.schema is not None and form is Format.JSON_SCHEMA:
        bound = {"name": "reply", "schema": request.schema, "strict": options.strict}
        body["response_format"] = {"type": "json_schema", "json_schema": bound}
    elif request.schema is not None and form is Format.JSON_OBJECT:
        body["response_format"] = {"type": "json_object"}
    return {field: value for field, value in body.items() if field not in options.omit}


def encode(body: dict[str, Any]) -> bytes:
    """Return the bytes of a body; ASCII, for a lone surrogate in a schema has no UTF-8."""
    return json.dumps(body).encode("ascii")


def messages(request: Request, form: Format) -> list[dict[str, str]]:
    """Return the turns of a request as a server takes them.

    Tools are told in the system turn, as Hermes has it, and their results come from the user: a server refuses a turn
    of role `tool` that answers no call id, and calls in Hermes' text have no ids. Turns that follow each other with the
    same role become one, since many chat templates refuse two.
    """
    turns = hermes_turns(request.messages, request.tools)
    if request.schema is not None and form is not Format.JSON_SCHEMA:
        turns = json_turns(turns, request.schema)
    sent: list[dict[str, str]] = []
    for turn in turns:
        role, content = _role(turn), well_formed(turn.content)
        if sent and sent[-1]["role"] == role:
            sent[-1]["content"] += f"\n\n{content}"
        else:
            sent.append({"role": role, "content": content})
    return sent


def well_formed(text: str) -> str:
    """Return `text` with a replacement character for each lone surrogate, which no UTF-8 holds.

    >>> well_formed("a" + chr(0xD800)) == "a" + chr(0xFFFD)
    True
    """
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _role(turn: Turn) -> str:
    return str(Role.USER if turn.role is Role.TOOL else turn.role)
