"""Imports OTLP JSON: spans (and log records) with the GenAI or the OpenInference conventions, of any layout.

One span a line, one request a line, one document for all, pretty-printed or not; spans in any order. They are put
into a temporary database first, and come out by episode: the conversation, the session, or else the trace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hermes_lab.importers.base import Draft, SetAside, Source
from hermes_lab.importers.otlp.episode import drafts
from hermes_lab.importers.otlp.spans import NotASpan, read_log, read_span
from hermes_lab.importers.otlp.store import Store
from hermes_lab.importers.otlp.values import read_attributes
from hermes_lab.importers.reading import common
from hermes_lab.importers.reading.json_stream import Broken, JsonReader, Piece
from hermes_lab.importers.reading.json_window import read_start

NAME = "otlp"
LABEL = "OpenTelemetry (OTLP) JSON with GenAI or OpenInference names"

_SPANS = {"spans"}
_LOGS = {"logRecords", "log_records"}
_GROUPS = {
    "resourceSpans", "resource_spans", "scopeSpans", "scope_spans", "instrumentationLibrarySpans",
    "instrumentation_library_spans", "resourceLogs", "resource_logs", "scopeLogs", "scope_logs",
    "instrumentationLibraryLogs", "batches", "trace", "traces", "data",
}  # fmt: skip
_ENVELOPE = _GROUPS | {"resourceMetrics", "resource_metrics"}
_RESTART = (
    r'\{\s*"(?:traceId|trace_id|spanId|span_id|context|resource|scope|resourceSpans|resource_spans|resourceLogs'
    r'|resource_logs|scopeSpans|scope_spans|scopeLogs|scope_logs|timeUnixNano|time_unix_nano)"'
)
_HAS_GROUP = re.compile(r'(?<!\\)"(?:resource_?[Ss]pans|scope_?[Ss]pans|resource_?[Ll]ogs)"\s*:')
_HAS_TRACE = re.compile(r'(?<!\\)"(?:traceId|trace_id)"\s*:')
_HAS_SPAN = re.compile(r'(?<!\\)"(?:spanId|span_id)"\s*:')


def sniff(path: Path) -> bool:
    """Return whether the file looks like this format."""
    start = read_start(path, 1 << 18).lstrip()
    if start[:1] not in ("{", "["):
        return False
    return bool(_HAS_GROUP.search(start) or (_HAS_TRACE.search(start) and _HAS_SPAN.search(start)))


def read(source: Source) -> Iterator[Draft | SetAside]:
    """Yield the file's events and bad rows, in order."""
    containers = frozenset(_SPANS | _LOGS | _GROUPS)
    reader = JsonReader(source.path, containers, frozenset(_SPANS | _LOGS), _RESTART, source.advance)
    with Store() as store:
        for piece in reader.pieces():
            if isinstance(piece, Broken):
                yield common.set_aside(piece.where, piece.reason, piece.raw)
                continue
            try:
                _add(store, piece, source)
            except NotASpan as error:
                yield common.set_aside(piece.where, str(error), _text(piece.value))
        store.settle()
        for episode in store.episodes():
            yield from drafts(store, episode)


def _add(store: Store, piece: Piece, source: Source) -> None:
    """Add a piece of the file.

    Raises:
        NotASpan: it is none of the things that this format has.
    """
    value = piece.value
    if not isinstance(value, dict):
        raise NotASpan("not an object")
    if piece.key in _LOGS:
        _add_log(store, value, source)
    elif piece.key in _SPANS or piece.key in ("traces", "data") or piece.key is None:
        _add_loose(store, value, piece, source)
    elif isinstance(value.get("resource"), dict):
        store.add_resource(piece.parents[-1], read_attributes(value["resource"].get("attributes")))


def _add_loose(store: Store, value: dict[str, Any], piece: Piece, source: Source) -> None:
    """Add an object that should be a span, but may be a log record or what is left of an envelope."""
    if (
        piece.key is None
        and ("body" in value or "eventName" in value or "severityText" in value)
        and "name" not in value
    ):
        _add_log(store, value, source)
    elif any(name in value for name in ("traceId", "trace_id", "spanId", "span_id", "context", "spanContext")):
        store.add_span(read_span(value, source.naive_times), piece.parents)
    elif piece.key in _SPANS or not any(name in value for name in _LEFT_OVER):
        raise NotASpan("neither a span nor a log record")


_LEFT_OVER = {*_ENVELOPE, "resource", "schemaUrl", "schema_url", "scope", "partialSuccess", "metrics", "status"}


def _add_log(store: Store, value: dict[str, Any], source: Source) -> None:
    row = read_log(value, source.naive_times)
    if row is not None:
        store.add_log(row)


def _text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return repr(value)
