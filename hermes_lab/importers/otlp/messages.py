"""The messages of a model call, wherever its span has them: attributes, span events, or log records.

Attributes hold them as a list (structured or as JSON text), or flattened with an index in the name
(`llm.input_messages.0.message.role`, `gen_ai.prompt.0.content`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hermes_lab.importers.otlp import names
from hermes_lab.importers.otlp.names import ANY_INPUT, ANY_OUTPUT, INPUT_MESSAGES, OUTPUT_MESSAGES
from hermes_lab.importers.otlp.values import indexed as read_indexed
from hermes_lab.importers.reading import common
from hermes_lab.importers.reading.chat_messages import MADE_UP, Call, Message, read_message, read_messages
from hermes_lab.importers.reading.chat_outcomes import pair_results

DETAILS = "gen_ai.client.inference.operation.details"
_OLD_EVENT = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message")
_CHOICE = "gen_ai.choice"
_CONTENT_EVENTS = {"gen_ai.content.prompt": "gen_ai.prompt", "gen_ai.content.completion": "gen_ai.completion"}


@dataclass(slots=True)
class Conversation:
    """What went into a model call and what came out of it; one output message a choice."""

    input: list[Message] = field(default_factory=list)
    output: list[Message] = field(default_factory=list)

    def extend(self, other: Conversation) -> None:
        """Add the messages of another part of the same call."""
        self.input += other.input
        self.output += other.output


def number_calls(conversation: Conversation) -> None:
    """Give calls without an id one, made of what they are and how often that came before; and their results."""
    if not any(call.id is None for m in conversation.input + conversation.output for call in m.calls):
        return
    times: Counter[str] = Counter()
    results, _ = pair_results(conversation.input)
    for i, message in enumerate(conversation.input + conversation.output):
        for j, call in enumerate(message.calls):
            name = common.digest(call.name, common.read_arguments(call.arguments).value)
            times[name] += 1
            if call.id is None:
                message.calls[j] = Call(f"{MADE_UP}{name}#{times[name]}", call.name, call.arguments)
                if result := results.get((i, j)):
                    result.call_id = message.calls[j].id


def of_attributes(attributes: dict[str, Any]) -> Conversation:
    """Return the messages in a span's (or an event's) attributes, given by dotted name."""
    found = Conversation(_listed(attributes, INPUT_MESSAGES, "user"), _listed(attributes, OUTPUT_MESSAGES, "assistant"))
    system = attributes.get("gen_ai.system_instructions")
    if system is not None:
        found.input = [*_system(system), *found.input]
    return found


def general_input(attributes: dict[str, Any]) -> list[Message]:
    """Return the messages in a span's general input, where it has none in an attribute for messages."""
    return _general(names.first(attributes, ANY_INPUT), "user")


def general_output(attributes: dict[str, Any]) -> list[Message]:
    """Return the messages in a span's general output, where it has none in an attribute for messages."""
    return _general(names.first(attributes, ANY_OUTPUT), "assistant")


def of_event(name: str, attributes: dict[str, Any], body: Any) -> Conversation | None:
    """Return the messages of a span event or log record, or None where it is of no such kind."""
    if name == DETAILS:
        return of_attributes(attributes | (body if isinstance(body, dict) else {}))
    if name in _CONTENT_EVENTS:
        return of_attributes({_CONTENT_EVENTS[name]: None} | attributes)
    old = _OLD_EVENT.fullmatch(name)
    if old is None and name != _CHOICE:
        return None
    item = _event_item(attributes, body)
    if old is not None:
        return Conversation(input=read_message(item, old[1]))
    message = common.parse_result(item.get("message"))
    inner: dict[str, Any] = (
        message if isinstance(message, dict) else {"content": message if message else item.get("content")}
    )
    merged = {"role": "assistant", "tool_calls": item.get("tool_calls"), **inner}
    merged["finish_reason"] = item.get("finish_reason")
    return Conversation(output=read_message(merged, "assistant"))


def _event_item(attributes: dict[str, Any], body: Any) -> dict[str, Any]:
    """Return what an old event says, from its body, its attributes or JSON text in one of them."""
    text = attributes.get("gen_ai.event.content", attributes.get("event.body"))
    for value in (body, text):
        parsed = common.parse_result(value)
        if isinstance(parsed, dict):
            return {**attributes, **parsed}
        if isinstance(parsed, str) and parsed:
            return {**attributes, "content": parsed}
    return attributes


def _listed(attributes: dict[str, Any], names: Iterable[str], role: str) -> list[Message]:
    for name in names:
        value = attributes.get(name)
        if value is not None:
            value = common.parse_result(value)
            items = [_plain(item) for item in value] if isinstance(value, list) else _plain(value)
            if messages := read_messages(items, role):
                return messages
        if indexed := read_indexed(attributes, f"{name}."):
            return [message for item in indexed for message in read_message(_plain(item), role)]
    return []


def _plain(item: Any) -> Any:
    """Return a message with OpenInference's or OpenLLMetry's names as one with OpenAI's."""
    if not isinstance(item, dict):
        return item
    nested = item.get("message")
    if isinstance(nested, dict) and "role" not in item:
        item = {f"message.{key}": value for key, value in nested.items()} | item
    text = item.get("prompt.text", item.get("completion.text"))
    if text is not None:
        return {"content": text}
    if not any(name.startswith("message.") for name in item):
        content = item.get("content")
        if isinstance(content, str) and content.startswith('[{"type"'):  # OpenLLMetry writes parts as text
            item = item | {"content": common.parse_result(content)}
        return _with_calls(item, "tool_calls.", "")
    plain = {name.removeprefix("message."): value for name, value in item.items()}
    if parts := read_indexed(plain, "contents.") or plain.get("contents"):
        plain["parts"] = [_plain_part(part) for part in parts if isinstance(part, dict)]
    if "function_call_name" in plain:
        arguments = plain.get("function_call_arguments_json")
        plain["function_call"] = {"name": plain["function_call_name"], "arguments": arguments}
    return _with_calls(plain, "tool_calls.", "tool_call.")


def _with_calls(item: dict[str, Any], prefix: str, inner: str) -> dict[str, Any]:
    """Return `item` with the tool calls that were flattened into its names, or nested, as a list."""
    calls: list[Any] = read_indexed(item, prefix)
    if not calls:
        nested = common.parse_result(item.get("tool_calls"))
        if not isinstance(nested, list) or not inner:
            return item
        calls = [_nested_call(call) for call in nested if isinstance(call, dict)]
    plain = []
    for call in calls:
        names = {name.removeprefix(inner): value for name, value in call.items()}
        function = names.get("function") if isinstance(names.get("function"), dict) else {}
        plain.append(
            {
                "id": names.get("id"),
                "name": names.get("function.name", names.get("name", function and function.get("name"))),
                "arguments": names.get(
                    "function.arguments", names.get("arguments", function and function.get("arguments"))
                ),
            }
        )
    return {**item, "tool_calls": plain}


def _nested_call(call: dict[str, Any]) -> dict[str, Any]:
    inner = call.get("tool_call")
    return inner if isinstance(inner, dict) else call


def _plain_part(part: dict[str, Any]) -> dict[str, Any]:
    """Return one of OpenInference's content parts with OpenAI's names."""
    nested = part.get("message_content")
    names = {name.removeprefix("message_content."): value for name, value in part.items()}
    if isinstance(nested, dict):
        names = nested
    if names.get("type") == "image":
        url = names.get("image.image.url") or names.get("image")
        return {"type": "image_url", "image_url": {"url": url} if isinstance(url, str) else url}
    return names


def _system(value: Any) -> list[Message]:
    messages = read_messages(value, "system")
    for message in messages:
        message.role = "system"
    return messages


def _general(value: Any, role: str) -> list[Message]:
    """Return the messages in a span's general input or output: JSON of a request or response, or text."""
    parsed = common.parse_result(value)
    if isinstance(parsed, dict):
        if isinstance(parsed.get("choices"), list):
            choices = [choice.get("message") for choice in parsed["choices"] if isinstance(choice, dict)]
            return [m for item in choices if isinstance(item, dict) for m in read_message(item, role)]
        if "messages" not in parsed and "role" not in parsed:
            return [Message(role, value if isinstance(value, str) else parsed)]
    return read_messages(parsed if isinstance(parsed, list | dict) else value, role)
