"""Builds OTLP JSON for tests: spans with attributes as OTLP's list of keys and values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hermes_lab.importers.base import Draft, SetAside, Source
from hermes_lab.importers.otlp import traces as otlp

TRACE = "5b8efff798038103d269b633813fc60c"
BEGIN = 1_790_000_000_000_000_000


def any_value(value: Any) -> dict[str, Any]:
    """Return a value as OTLP's AnyValue; ints as text, as protobuf's JSON form has them."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(item) for item in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": attributes(value)}}
    return {} if value is None else {"stringValue": value}


def attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": any_value(value)} for key, value in values.items()]


def span(number: int, parent: int, start: int, end: int | None, values: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a span; `start` and `end` are in milliseconds, `number` and `parent` become ids (0 is no parent)."""
    item = {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "name": more.pop("name", f"span {number}"),
        "startTimeUnixNano": str(BEGIN + start * 10**6),
        "attributes": attributes(values),
    }
    if end is not None:
        item["endTimeUnixNano"] = str(BEGIN + end * 10**6)
    return item | more


def chat(number: int, parent: int, start: int, end: int, **values: Any) -> dict[str, Any]:
    """Return a chat span with the current GenAI names; `input` and `output` are messages, `usage` (in, out, cached)."""
    usage = values.pop("usage", ())
    found: dict[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": values.pop("model", "gpt-4o")}
    names = ("input_tokens", "output_tokens", "cache_read.input_tokens")
    found |= {f"gen_ai.usage.{name}": value for name, value in zip(names, usage, strict=False) if value is not None}
    for side in ("input", "output"):
        if side in values:
            found[f"gen_ai.{side}.messages"] = json.dumps(values.pop(side))
    return span(number, parent, start, end, found | values.pop("attributes", {}), **values)


def tool(number: int, parent: int, start: int, end: int, name: str, **values: Any) -> dict[str, Any]:
    """Return an execute_tool span; `id`, `arguments`, `result`."""
    found = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    for key, attribute in (("id", "call.id"), ("arguments", "call.arguments"), ("result", "call.result")):
        if key in values:
            found[f"gen_ai.tool.{attribute}"] = values.pop(key)
    return span(number, parent, start, end, found | values.pop("attributes", {}), **values)


def says(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}], **more}


def calls(call_id: str | None, name: str, arguments: Any) -> dict[str, Any]:
    part = {"type": "tool_call", "name": name, "arguments": arguments} | ({"id": call_id} if call_id else {})
    return {"role": "assistant", "parts": [part]}


def answers(call_id: str | None, response: Any) -> dict[str, Any]:
    part = {"type": "tool_call_response", "response": response} | ({"id": call_id} if call_id else {})
    return {"role": "tool", "parts": [part]}


def request(spans: list[Any], key: str = "resourceSpans") -> dict[str, Any]:
    """Return an export request with the spans, or with log records for key `resourceLogs`."""
    scopes, rows = ("scopeSpans", "spans") if key == "resourceSpans" else ("scopeLogs", "logRecords")
    resource = {"attributes": attributes({"service.name": "demo"})}
    return {key: [{"resource": resource, scopes: [{"scope": {"name": "test"}, rows: spans}]}]}


def read_text(folder: Path, text: str | bytes) -> list[Draft | SetAside]:
    """Return what the importer reads out of a file with this text."""
    path = folder / "spans.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return list(otlp.read(Source(path)))


def read(folder: Path, *values: Any) -> list[Draft | SetAside]:
    """Return what the importer reads out of a file with one value a line."""
    return read_text(folder, "\n".join(json.dumps(value) for value in values))
