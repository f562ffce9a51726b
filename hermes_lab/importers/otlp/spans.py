"""One span or log record of OTLP JSON, read into the parts that the importer needs."""

from __future__ import annotations

import datetime as dt
from typing import Any, NamedTuple

from hermes_lab.importers.otlp import names
from hermes_lab.importers.otlp.messages import (
    DETAILS,
    Conversation,
    general_input,
    general_output,
    number_calls,
    of_attributes,
    of_event,
)
from hermes_lab.importers.otlp.names import AGENT, CHAIN, LLM, TOOL
from hermes_lab.importers.otlp.values import field, read_attributes, read_id, read_nanos, read_value, storable
from hermes_lab.importers.reading import common

_TALKS = (LLM, AGENT, CHAIN)
_MESSAGE_NAMES: tuple[str, ...] = (
    *names.INPUT_MESSAGES,
    *names.OUTPUT_MESSAGES,
    *names.SYSTEM,
    *names.ANY_INPUT,
    *names.ANY_OUTPUT,
)


class NotASpan(ValueError):
    """An element that cannot be placed; the message says why."""


class Row(NamedTuple):
    """A span, or a log record that belongs to one.

    Attributes:
        kind: one of `otlp_names`, or "" for a span that is neither GenAI nor OpenInference.
        start: nanoseconds since 1970, as is `finish`.
        attributes: all but those that hold the messages.
    """

    trace: str
    span: str
    parent: str
    kind: str
    name: str | None
    start: int | None
    finish: int | None
    conversation: str | None
    session: str | None
    attributes: dict[str, Any]
    messages: Conversation
    status: Any = None
    exception: str = ""


def read_span(item: dict[str, Any], naive_times: dt.tzinfo) -> Row:
    """Return a span.

    Raises:
        NotASpan: it has no ids, or nothing but ids.
    """
    context = field(item, "context", "spanContext")
    places = [item, context] if isinstance(context, dict) else [item]
    trace, span = (next(filter(None, (read_id(field(p, n)) for p in places)), "") for n in ("traceId", "spanId"))
    if not trace or not span:
        raise NotASpan("a span without a trace id and a span id")
    start = read_nanos(field(item, "startTimeUnixNano", "startTime"), naive_times)
    finish = read_nanos(field(item, "endTimeUnixNano", "endTime"), naive_times)
    name = item.get("name")
    if start is None and finish is None and not isinstance(name, str):
        raise NotASpan("neither a span nor a log record: it has no name and no time")
    attributes = read_attributes(item.get("attributes"))
    kind = names.kind_of(attributes)
    messages = _messages(item, attributes, kind) if kind else Conversation()
    number_calls(messages)
    return Row(
        trace=trace,
        span=span,
        parent=read_id(field(item, "parentSpanId", "parentId")),
        kind=kind,
        name=name if isinstance(name, str) else None,
        start=start,
        finish=finish,
        conversation=_id_text(names.first(attributes, names.CONVERSATION)),
        session=_id_text(names.first(attributes, names.SESSION)),
        attributes=_kept(attributes, kind),
        messages=messages,
        status=item.get("status"),
        exception=_exception(item),
    )


def read_log(item: dict[str, Any], naive_times: dt.tzinfo) -> Row | None:
    """Return a log record that tells of a model call, None for any other.

    Raises:
        NotASpan: it tells of a model call, but not of which.
    """
    attributes = read_attributes(item.get("attributes"))
    name = field(item, "eventName") or attributes.get("event.name")
    body = read_value(item.get("body"))
    messages = of_event(name, attributes, body) if isinstance(name, str) else None
    if messages is None:
        return None
    number_calls(messages)
    merged = attributes | (body if isinstance(body, dict) else {})
    trace, span = read_id(field(item, "traceId")), read_id(field(item, "spanId"))
    conversation = _id_text(names.first(merged, names.CONVERSATION))
    trace = trace or (f"conversation:{conversation}" if conversation else "")
    if not trace:
        raise NotASpan("a log record of a model call without a trace id")
    time = read_nanos(field(item, "timeUnixNano", "time", "timestamp"), naive_times)
    return Row(
        trace=trace,
        span=span or (f"log-{common.digest(merged, body, time)}" if name == DETAILS else "logs"),
        parent="",
        kind=LLM,
        name=name,
        start=time or read_nanos(field(item, "observedTimeUnixNano", "observedTime"), naive_times),
        finish=None,
        conversation=conversation,
        session=_id_text(names.first(merged, names.SESSION)),
        attributes=_kept(merged, LLM) if name == DETAILS else {},
        messages=messages,
    )


def _kept(attributes: dict[str, Any], kind: str) -> dict[str, Any]:
    if kind not in _TALKS:
        return attributes
    return {name: value for name, value in attributes.items() if not name.startswith(_MESSAGE_NAMES)}


def _messages(item: dict[str, Any], attributes: dict[str, Any], kind: str) -> Conversation:
    """Return the messages of a span: those in its attributes, else in its events, else its general input and output."""
    from_events = Conversation()
    for event in _events(item):
        name = event.get("name")
        told = of_event(name, read_attributes(event.get("attributes")), None) if isinstance(name, str) else None
        from_events.extend(told or Conversation())
    if kind not in _TALKS:
        return from_events if kind == TOOL else Conversation()
    found = of_attributes(attributes)
    found.input = found.input or from_events.input or general_input(attributes)
    found.output = found.output or from_events.output or general_output(attributes)
    return found


def _events(item: dict[str, Any]) -> list[dict[str, Any]]:
    events = item.get("events")
    return [event for event in events if isinstance(event, dict)] if isinstance(events, list) else []


def _exception(item: dict[str, Any]) -> str:
    """Return the type and message of the last exception among a span's events."""
    text = ""
    for event in _events(item):
        if event.get("name") == "exception":
            attributes = read_attributes(event.get("attributes"))
            parts = (attributes.get("exception.type"), attributes.get("exception.message"))
            text = ": ".join(part for part in parts if isinstance(part, str) and part)
    return text


def _id_text(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return storable(str(value).strip()) or None
