"""Reads sessions, messages and usage out of a database of hermes-agent's shape, whatever its version.

The real `state.db` is read from a private copy; an export is first put into a private database of the same
tables, in which each row is the JSON text of its columns. Columns and tables that are not there are unknown.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from hermes_lab.errors import ImportFormatError
from hermes_lab.sql_files import read_sql

_SESSION_COLUMNS = (
    "id",
    "parent_session_id",
    "end_reason",
    "started_at",
    "ended_at",
    "source",
    "model_config",
)
_MARKERS = ("_branched_from", "_delegate_from", "_reset_from")


class StoredRow(NamedTuple):
    """A message as stored.

    Attributes:
        handle: by which `Store.message` finds it again.
        where: its place, as reports say it.
        size: about how many characters it holds.
        fields: its columns.
    """

    handle: int
    where: str
    size: int
    fields: Mapping[str, Any]


class Store:
    """The tables of one database; `sessions` and `messages` must be there.

    Args:
        connection: to a private copy, in which indexes may be made.

    Raises:
        ImportFormatError: one of the two tables is missing.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Look at what tables and columns there are."""
        self._connection = connection
        connection.text_factory = _text
        self._columns = {name: self._table_columns(name) for name in self._tables()}
        for table, column in (("sessions", "id"), ("messages", "session_id")):
            if column not in self._columns.get(table, ()):
                raise ImportFormatError(f"it has no table `{table}` with a column `{column}`: not hermes-agent's")
        self._add_views()
        self._add_index()

    def _tables(self) -> list[str]:
        found = self._connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        wanted = ("sessions", "messages", "session_model_usage", "system_prompts")
        return [name for (name,) in found if name in wanted]

    def _table_columns(self, table: str) -> list[str]:
        return [row[1] for row in self._connection.execute(f"PRAGMA table_info({table})")]

    def _add_views(self) -> None:
        """Make views that have every column that queries name, unknown where this version lacks it."""
        found = self._columns["sessions"]
        columns = ", ".join(name if name in found else f"NULL AS {name}" for name in _SESSION_COLUMNS)
        self._connection.execute(f"CREATE TEMP VIEW lab_sessions AS SELECT {columns} FROM sessions")
        order = "id" if "id" in self._columns["messages"] else "rowid"
        self._connection.execute(
            f"CREATE TEMP VIEW lab_messages AS SELECT rowid AS _handle, {order} AS _order, * FROM messages"
        )

    def _add_index(self) -> None:
        columns = "session_id, id" if "id" in self._columns["messages"] else "session_id"
        try:
            self._connection.execute(f"CREATE INDEX IF NOT EXISTS lab_index ON messages({columns})")
        except sqlite3.DatabaseError:
            return  # damaged somewhere: reading session by session still finds what is whole

    def _dicts(self, sql: str, *values: object) -> Iterator[dict[str, Any]]:
        cursor = self._connection.execute(sql, [_bound(value) for value in values])
        names = [column[0] for column in cursor.description]
        for row in cursor:
            fields = dict(zip(names, row, strict=True))
            if "body" in fields:
                fields |= json.loads(fields.pop("body"))
            fields["_size"] = sum(len(value) for value in row if isinstance(value, str | bytes))
            yield fields

    def count_messages(self) -> int:
        """Return the number of messages, 0 where damage keeps it from us."""
        try:
            return int(self._connection.execute("SELECT count(*) FROM messages").fetchone()[0])
        except sqlite3.DatabaseError:
            return 0

    def session_keys(self) -> Iterator[object]:
        """Yield the key of every session, the oldest first."""
        yield from (key for (key,) in self._connection.execute(read_sql(__package__, "session_keys")))

    def strays(self) -> Iterator[object]:
        """Yield the keys of sessions that only messages name."""
        yield from (key for (key,) in self._connection.execute(read_sql(__package__, "strays")))

    def session(self, key: object) -> dict[str, Any]:
        """Return a session's columns, with the text of its system prompt."""
        fields = next(self._dicts("SELECT * FROM sessions WHERE id = CAST(? AS TEXT)", key), {"id": key})
        hashed = fields.get("system_prompt_hash")
        if hashed and not fields.get("system_prompt") and "hash" in self._columns.get("system_prompts", ()):
            found = next(self._dicts("SELECT * FROM system_prompts WHERE hash = CAST(? AS TEXT)", hashed), {})
            fields["system_prompt"] = found.get("prompt")
        return fields

    def messages(self, key: object) -> Iterator[StoredRow]:
        """Yield a session's messages in the order of their ids."""
        yield from map(_stored_row, self._dicts(read_sql(__package__, "messages"), key))

    def message(self, handle: int) -> StoredRow:
        """Return one message."""
        return _stored_row(next(self._dicts(read_sql(__package__, "message"), handle)))

    def homeless(self) -> Iterator[StoredRow]:
        """Yield the messages that name no session."""
        yield from map(_stored_row, self._dicts(read_sql(__package__, "homeless")))

    def usage(self, key: object) -> list[dict[str, Any]]:
        """Return a session's rows of `session_model_usage`."""
        if "session_id" not in self._columns.get("session_model_usage", ()):
            return []
        return list(self._dicts(read_sql(__package__, "usage"), key))

    def continued(self) -> dict[object, object]:
        """Return, for each session that continues a compressed one, the key of that one.

        A subagent's or branched session may have a compressed parent, too: it says so in its
        `model_config` or its `source`, or it began before the parent ended while another session began
        after.
        """
        children: dict[object, list[tuple[object, bool]]] = {}
        for row in self._dicts(read_sql(__package__, "continuations")):
            if row.get("source") != "tool" and not _marked(row.get("model_config"), row["parent"]):
                children.setdefault(row["parent"], []).append((row["id"], _began_after(row)))
        links: dict[object, object] = {}
        for parent, found in children.items():
            after = [child for child, late in found if late]
            links |= dict.fromkeys(after or [child for child, _ in found], parent)
        return {child: parent for child, parent in links.items() if not _goes_round(child, links)}


def _stored_row(fields: dict[str, Any]) -> StoredRow:
    handle, size = fields.pop("_handle"), fields.pop("_size")
    del fields["_order"]
    where = fields.pop("place", None) or f"messages.id={fields.get('id', handle)}"
    return StoredRow(handle, where, size, fields)


def _goes_round(child: object, links: dict[object, object]) -> bool:
    """Return whether the sessions that this one continues lead back to it."""
    at, seen = links[child], set()
    while at in links and at != child and at not in seen:
        seen.add(at)
        at = links[at]
    return at == child


def _marked(config: object, parent: object) -> bool:
    """Return whether a session's `model_config` says that it branched off its parent."""
    if not isinstance(config, str) or not any(marker in config for marker in _MARKERS):
        return False
    try:
        found = json.loads(config)
    except (ValueError, RecursionError):
        return False
    if not isinstance(found, dict):
        return False
    # Keys of an export are JSON text, see `hermes_sessions`.
    named = [found[marker] for marker in _MARKERS if marker in found]
    return any(parent in (name, json.dumps(name)) for name in named)


def _began_after(row: Mapping[str, Any]) -> bool:
    began, ended = row.get("started_at"), row["parent_ended"]
    return not (isinstance(began, int | float) and isinstance(ended, int | float) and began < ended)


def _bound(value: object) -> object:
    """Return what SQLite can bind: text that is no UTF-8 goes back to the bytes that `_text` made it of."""
    if not isinstance(value, str):
        return value
    for errors in ("strict", "surrogatepass", "surrogateescape"):
        try:
            raw = value.encode("utf-8", errors)
        except UnicodeEncodeError:
            continue
        if errors == "strict":
            return value
        if _text(raw) == value:
            return raw
    return value


def _text(raw: bytes) -> str:
    """Return any bytes as text; bytes that are no UTF-8 become lone surrogates, which the log can hold."""
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "surrogateescape")
