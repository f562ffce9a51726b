"""One line of OpenAI chat JSONL, whichever of its shapes it has, as a `Record`.

Shapes: `{"messages": [...]}`; `{"request": {...}, "response": {...}}`; a batch API's input (`body`) or output
(`response.body`) line; a bare response with `choices`. Parts may be JSON text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from hermes_lab.importers.otlp.values import storable
from hermes_lab.importers.reading import common

_CONVERSATION_IDS = ("conversation_id", "conversationId", "session_id", "sessionId", "thread_id", "chat_id")
_LINE_IDS = ("id", "uuid", "request_id")
_TIMES = ("created", "created_at", "timestamp", "time", "date", "start_time")
_LATENCIES = ("latency_ms", "duration_ms", "response_time_ms", "response_ms")
_COSTS = ("cost_usd", "cost", "response_cost", "total_cost")
_PARAMETERS = (
    "temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop", "n", "tool_choice",
    "parallel_tool_calls", "response_format", "reasoning_effort", "frequency_penalty", "presence_penalty",
)  # fmt: skip


@dataclass(slots=True)
class Record:
    """What a line says.

    Attributes:
        conversation: the line's own id, or None.
        is_weak: whether that id may come again in another file ("1", "request-1").
        messages: the conversation, or the request's messages.
        choices: the response's choices, or None where the line has no response.
    """

    conversation: str | None
    is_weak: bool
    messages: list[Any]
    choices: list[Any] | None
    model: str | None = None
    time: Any = None
    usage: dict[str, Any] | None = None
    tools: Any = None
    metadata: Any = None
    parameters: dict[str, Any] = field(default_factory=dict)
    error: Any = None
    latency_ms: float | None = None
    cost_usd: float | None = None
    completed: bool | None = None
    channel: str | None = None


def read_record(value: object) -> Record | str:
    """Return what the line says, or why it cannot be read."""
    if not isinstance(value, dict):
        return "it is no object"
    request = _request(value)
    response = _response(value)
    messages = request.get("messages")
    if messages is not None and not isinstance(messages, list):
        return "`messages` is no list"
    choices = response.get("choices")
    if choices is not None and not isinstance(choices, list):
        return "`choices` is no list"
    error = response.get("error") or value.get("error") or _http_error(value, response)
    if not messages and not choices and not error:
        return "it has no messages" if messages is None else "its list of messages is empty"
    conversation, weak = _conversation(value, request)
    places = (response, value, request)
    metadata = value.get("metadata")
    return Record(
        conversation=conversation,
        is_weak=weak,
        messages=messages or [],
        choices=choices,
        model=_first_text(places, ("model",)),
        time=_first(places, _TIMES),
        usage=_dict(response.get("usage")) or _dict(value.get("usage")),
        tools=_first((request, value), ("tools", "functions")),
        metadata=metadata if metadata not in (None, {}, []) else None,
        parameters={key: request[key] for key in _PARAMETERS if request.get(key) is not None},
        error=error or None,
        latency_ms=common.amount(_first((value, response), _LATENCIES)),
        cost_usd=common.amount(_first((value, response), _COSTS)),
        completed=value["completed"] if isinstance(value.get("completed"), bool) else None,
        channel=_first_text((value, metadata if isinstance(metadata, dict) else {}), ("channel", "source")),
    )


def _request(value: dict[str, Any]) -> dict[str, Any]:
    """Return the part of the line that has the messages."""
    if isinstance(value.get("messages"), list):
        return value
    for key in ("request", "body", "request_body", "input", "kwargs"):
        inner = _dict(value.get(key))
        if inner and inner.get("body"):
            inner = _dict(inner["body"])
        if inner and "messages" in inner:
            return inner
    return value


def _response(value: dict[str, Any]) -> dict[str, Any]:
    """Return the part of the line that has the choices or the error."""
    for key in ("response", "response_body", "completion", "output", "body"):
        inner = _dict(value.get(key))
        if inner and _dict(inner.get("body")):
            inner = _dict(inner["body"])
        if inner and ("choices" in inner or inner.get("error")):
            return inner
    return {"choices": value.get("choices")} if "choices" in value else {}


def _http_error(value: dict[str, Any], response: dict[str, Any]) -> dict[str, Any] | None:
    """Return the HTTP status where it tells of a failure and there is no answer."""
    outer = _dict(value.get("response")) or value
    code = outer.get("status_code")
    return {"status_code": code} if type(code) is int and code >= 400 and not response.get("choices") else None


def _conversation(value: dict[str, Any], request: dict[str, Any]) -> tuple[str | None, bool]:
    metadata = [inner for part in (value, request) if (inner := _dict(part.get("metadata")))]
    found = _first((value, request, *metadata), _CONVERSATION_IDS)
    if found is None:
        found = _first((value,), _LINE_IDS)
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found), True
    if isinstance(found, str):
        return storable(found), bool(re.fullmatch(r"[0-9]+|.{1,7}", found))
    custom = value.get("custom_id")
    return (storable(custom), True) if isinstance(custom, str) and custom else (None, False)


def _dict(value: object) -> dict[str, Any] | None:
    """Return a dict, also where it is given as JSON text."""
    value = common.parse_result(value)
    return value if isinstance(value, dict) else None


def _first(places: tuple[dict[str, Any], ...], keys: tuple[str, ...]) -> Any:
    found = (place[key] for place in places for key in keys if place.get(key) not in (None, ""))
    return next((value for value in found if isinstance(value, str | int | float | list)), None)


def _first_text(places: tuple[dict[str, Any], ...], keys: tuple[str, ...]) -> str | None:
    found = (place.get(key) for place in places for key in keys)
    return next((value for value in found if isinstance(value, str) and value), None)
