"""Imports what `hermes sessions export FILE.jsonl` writes: one session a line, with its messages.

Sessions that continue one another may stand in any order in the file, and a session may come again as it
grew. So the lines are first put into a private database on disk, and then read as `state.db` is: the same
episodes, the same keys.
"""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from hermes_lab.importers.base import Draft, SetAside, Source
from hermes_lab.importers.hermes_agent.reader import Reader
from hermes_lab.importers.hermes_agent.store import Store
from hermes_lab.importers.reading.common import set_aside
from hermes_lab.importers.reading.lines import JsonLine, first_value, json_lines
from hermes_lab.sql_files import read_sql

NAME = "hermes-sessions"
LABEL = "hermes-agent's session export, `hermes sessions export FILE.jsonl`"

_TELLING = ("source", "started_at", "message_count", "end_reason", "parent_session_id", "segments")


def sniff(path: Path) -> bool:
    """Return whether the file's first JSON line is a session with its messages."""
    return path.is_file() and _is_session(first_value(path))


def _is_session(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return False
    return isinstance(value.get("id"), str) and any(key in value for key in _TELLING)


def read(source: Source) -> Iterator[Draft | SetAside]:
    """Yield the events of the export.

    Raises:
        MissingError: no such file.
        PermissionDeniedError: the system does not let us read it.
        ImportFormatError: the file is UTF-16.
    """
    with closing(sqlite3.connect("", isolation_level=None)) as connection:
        connection.executescript(read_sql(__package__, "export_tables"))
        connection.execute("BEGIN")
        for line in json_lines(source):
            if isinstance(line, SetAside):
                yield line
            else:
                yield from _store(connection, line)
        connection.execute("COMMIT")
        modified = dt.datetime.fromtimestamp(source.path.stat().st_mtime, dt.UTC)
        # The lines were counted as they were read; from here on it is quick.
        again = Source(source.path, source.naive_times)
        yield from Reader(Store(connection), again, modified).read()


def _store(connection: sqlite3.Connection, line: JsonLine) -> Iterator[SetAside]:
    value = line.value
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        yield set_aside(line.where, "the line is no session with messages", line.raw)
        return
    segments = value.get("segments")
    sessions = segments if isinstance(segments, list) and segments else [value]
    for session in sessions:
        if not isinstance(session, dict) or not isinstance(session.get("id"), str) or not session["id"]:
            yield set_aside(line.where, "the session has no id", line.raw)
            continue
        yield from _store_session(connection, session, line.where)


def _store_session(connection: sqlite3.Connection, session: dict[str, Any], where: str) -> Iterator[SetAside]:
    messages = session.get("messages")
    fields = {name: value for name, value in session.items() if name not in ("messages", "segments")}
    key = json.dumps(session["id"])
    config = session.get("model_config")
    connection.execute(
        read_sql(__package__, "add_session"),
        (
            key,
            json.dumps(session.get("parent_session_id")),
            _plain(session.get("end_reason")),
            _number(session.get("started_at")),
            _number(session.get("ended_at")),
            _plain(session.get("source")),
            json.dumps(config) if isinstance(config, dict) else _plain(config),
            json.dumps(fields),
        ),
    )
    messages = messages if isinstance(messages, list) else []
    ids = _message_ids(messages)
    for position, message in enumerate(messages, 1):
        place = f"{where}, message {position}"
        if not isinstance(message, dict):
            yield set_aside(place, "the message is no object", json.dumps(message))
            continue
        connection.execute(
            read_sql(__package__, "add_message"),
            (ids[position - 1], key, place, json.dumps(message)),
        )


def _message_ids(messages: list[Any]) -> list[int]:
    """Return the rows' ids; their positions where they have none, or one comes twice."""
    found = [message.get("id") if isinstance(message, dict) else None for message in messages]
    ids = [i for i in found if type(i) is int and abs(i) < 2**63]
    return ids if len(set(ids)) == len(messages) else list(range(1, len(messages) + 1))


def _plain(value: object) -> str | None:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and abs(value) < 1e18 else None
