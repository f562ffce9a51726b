"""Chat messages as all providers mean them, whatever their spelling: OpenAI, OTel GenAI parts, Anthropic, Gemini.

`read_messages` turns a list of any of these into `Message`s. What an event keeps of them is in `chat_outcomes`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hermes_lab.importers.reading import common

_ROLES = {"model": "assistant", "ai": "assistant", "bot": "assistant", "human": "user", "customer": "user"}
_ROLES |= {"function": "tool", "ipython": "tool", "observation": "tool"}
_TEXT = {"text", "input_text", "output_text", "summary_text"}
_REASONING = {"reasoning", "thinking"}
_CALLS = {"tool_call", "tool_use", "function_call", "server_tool_call", "server_tool_use"}
_GEMINI = {"functionCall": "function_call", "functionResponse": "function_response"}
_GEMINI |= {kind: kind for kind in _GEMINI.values()}
_RESULTS = {
    "tool_call_response",
    "tool_result",
    "function_call_output",
    "function_response",
    "server_tool_call_response",
}

MADE_UP = "~"
"""What ids begin with that an importer gave to calls without one; they stay out of events."""


class Call(NamedTuple):
    """A tool call in a message: arguments as they came (a dict, text, or None where they were not recorded)."""

    id: str | None
    name: str | None
    arguments: Any

    def told(self) -> dict[str, Any]:
        """Return the call as an event's output has it."""
        given = None if self.id is None or self.id.startswith(MADE_UP) else self.id
        arguments = None if self.arguments is None else common.read_arguments(self.arguments).value
        return common.known(id=given, name=self.name, arguments=arguments)


@dataclass(slots=True)
class Message:
    """One message; a tool's result has role `tool` and the `call_id` that it answers."""

    role: str
    content: Any = None
    calls: list[Call] = field(default_factory=list)
    call_id: str | None = None
    name: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    finish_reason: str | None = None
    compaction: str | None = None

    def text(self) -> str:
        """Return the text of the content, without what is no text."""
        if isinstance(self.content, list):
            return "\n".join(_part_text(part) for part in self.content if _is_text(part))
        return common.content_text(self.content)

    def other_parts(self) -> list[str]:
        """Return the types of the content's parts that are no text, such as `image_url`."""
        parts = self.content if isinstance(self.content, list) else []
        return [str(part.get("type", "unknown")) for part in parts if isinstance(part, dict) and not _is_text(part)]

    def digest(self) -> str:
        """Return a hash of what the message says, the same for the same message in any request or spelling."""
        if type(self.content) is str and not self.calls and self.call_id is None:
            text = f"{self.role}\0{self.content}".encode("utf-8", "surrogatepass")
            return hashlib.blake2b(text, digest_size=10).hexdigest()
        calls = [[call.id, call.name, _canonical(call.arguments)] for call in self.calls]
        return common.digest(self.role, self.content, calls, self.call_id)

    def received(self) -> dict[str, Any]:
        """Return the `input` of the event that this message was received."""
        return common.known(content=self.content, other_parts=self.other_parts() or None)

    def answered(self) -> dict[str, Any]:
        """Return the `output` of the event that a model answered with this message."""
        calls = [call.told() for call in self.calls]
        return common.known(
            content=self.content,
            tool_calls=calls or None,
            reasoning=self.reasoning,
            refusal=self.refusal,
            finish_reason=self.finish_reason,
        )


def read_messages(value: object, role: str = "user") -> list[Message]:
    """Return the messages of a list, a single message, JSON text of either, or plain text (said by `role`)."""
    if isinstance(value, str):
        parsed = common.parse_result(value)
        if not _is_messages(parsed):
            return [Message(role, value)] if value else []
        value = parsed
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        value = value["messages"]
    if isinstance(value, dict):
        return read_message(value, role)
    if not isinstance(value, list):
        return []
    if value and all(_is_bare_part(item) for item in value):
        return read_message({"role": role, "parts": value}, role)
    return [message for item in value for message in _read_item(item, role)]


def _read_item(item: object, role: str) -> list[Message]:
    if isinstance(item, str):
        return [Message(role, item)]
    if isinstance(item, list):  # one list of messages a prompt, as LangChain gives them
        return [message for inner in item if isinstance(inner, dict) for message in read_message(inner, role)]
    return read_message(item, role) if isinstance(item, dict) else []


def _is_messages(value: object) -> bool:
    if isinstance(value, dict):
        return isinstance(value.get("messages"), list) or "role" in value
    return isinstance(value, list) and any(isinstance(item, dict) and _looks_like_message(item) for item in value)


def _looks_like_message(item: dict[str, Any]) -> bool:
    return "role" in item or "parts" in item or _is_bare_part(item)


def _is_bare_part(item: object) -> bool:
    return (
        isinstance(item, dict)
        and "role" not in item
        and isinstance(item.get("type"), str)
        and ("content" in item or "text" in item or item["type"] in _CALLS | _RESULTS)
    )


def read_message(item: dict[str, Any], default_role: str = "user") -> list[Message]:
    """Return the message of a dict; several where it holds several tools' results."""
    given = item.get("role")
    role = given.lower() if isinstance(given, str) and given else default_role
    role = _ROLES.get(role, role)
    message = Message(role, name=_text(item.get("name")))
    others: list[Any] = []
    results: list[Message] = []
    parts = item.get("parts", item.get("content"))
    for part in parts if isinstance(parts, list) else [parts]:
        _read_part(part, message, others, results)
    message.content = _content(others)
    message.calls += _read_calls(item)
    message.reasoning = message.reasoning or _first_text(item, "reasoning_content", "reasoning", "thinking")
    message.refusal = message.refusal or _text(item.get("refusal"))
    message.finish_reason = _first_text(item, "finish_reason", "finishReason", "stop_reason")
    if role == "tool":
        message.call_id = _first_text(item, "tool_call_id", "id", "call_id")
        for result in results:
            result.name, result.call_id = result.name or message.name, result.call_id or message.call_id
    if results and message.content is None and not message.calls:
        return results
    return [*results, message]


def _read_part(part: Any, message: Message, others: list[Any], results: list[Message]) -> None:
    """Sort one part of a message's content into the message, its other parts, or the results."""
    if not isinstance(part, dict):
        if part is not None:
            others.append(part)
        return
    kind, part = _kind_of(part)
    if kind in _REASONING:
        thought = part.get("content", part.get("thinking", part.get("text", part.get("summary"))))
        message.reasoning = "\n".join(filter(None, (message.reasoning, common.content_text(thought))))
    elif kind == "refusal":
        message.refusal = _first_text(part, "refusal", "content", "text")
    elif kind in _CALLS:
        message.calls.append(_read_call(part))
    elif kind in _RESULTS:
        results.append(_read_result(part))
    elif kind == "compaction":
        message.compaction = _text(part.get("content")) or ""
    else:
        others.append(part)


def _kind_of(part: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a part's type and the part itself; Gemini names the type by the part's only key."""
    if "type" not in part:
        for key, kind in _GEMINI.items():
            if isinstance(part.get(key), dict):
                return kind, part[key]
    return str(part.get("type", "")), part


def _read_result(part: dict[str, Any]) -> Message:
    keys = ("response", "result", "content", "output", "server_tool_call_response")
    content = next((part[key] for key in keys if part.get(key) is not None), None)
    content = _content(content) if isinstance(content, list) and all(map(_is_text, content)) else content
    call_id = _first_text(part, "tool_use_id", "tool_call_id", "call_id", "id")
    return Message("tool", content, call_id=call_id and call_id.strip(), name=_text(part.get("name")))


def _read_calls(item: dict[str, Any]) -> list[Call]:
    calls = item.get("tool_calls")
    calls = common.parse_result(calls) if isinstance(calls, str) else calls
    if isinstance(calls, dict):
        calls = list(calls.values())
    found = [_read_call(call) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    legacy = item.get("function_call")
    if isinstance(legacy, dict) and legacy:
        found.append(_read_call(legacy))
    return found


def _read_call(part: dict[str, Any]) -> Call:
    places = (part.get(key) for key in ("function", "custom", "server_tool_call"))
    inner: dict[str, Any] = next((place for place in places if isinstance(place, dict)), part)
    arguments = next((inner[key] for key in ("arguments", "input", "args") if inner.get(key) is not None), None)
    if arguments is None and inner is part.get("server_tool_call"):
        arguments = {key: value for key, value in inner.items() if key != "type"}
    call_id = _first_text(part, "call_id", "tool_call_id", "id")
    return Call(call_id and call_id.strip(), _text(inner.get("name")) or _text(part.get("name")), arguments)


def _content(parts: list[Any]) -> Any:
    """Return the text where all parts are text, else the list of parts as it came; None where there are none."""
    if not parts:
        return None
    if len(parts) == 1 and not isinstance(parts[0], dict | list):
        return parts[0]
    return "\n".join(map(_part_text, parts)) if all(map(_is_text, parts)) else parts


def _is_text(part: object) -> bool:
    if isinstance(part, str):
        return True
    if not isinstance(part, dict) or str(part.get("type", "text")) not in _TEXT:
        return False
    return isinstance(part.get("text", part.get("content")), str)


def _part_text(part: Any) -> str:
    return part if isinstance(part, str) else str(part.get("text", part.get("content")))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _first_text(item: dict[str, Any], *keys: str) -> str | None:
    return next((value for key in keys if (value := _text(item.get(key)))), None)


def _canonical(arguments: object) -> str:
    """Return the same text for the same arguments, whether a dict or JSON text."""
    value = common.read_arguments(arguments).value
    return json.dumps(value, sort_keys=True, default=repr)
