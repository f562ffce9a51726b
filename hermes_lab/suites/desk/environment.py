"""The world of one episode: an in-memory SQLite copy of the shop, restored from one serialised template."""

from __future__ import annotations

import functools
import json
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hermes_lab.kinds import ErrorKind
from hermes_lab.suites.desk.shop import Shop, data_file, load_shop
from hermes_lab.tools import ToolError
from hermes_lab.tools.base import Environment


class Setup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a task may say about its environment.

    Attributes:
        failing: tools that are out of order at first, each with the number of calls that fail.
        drawn: how the task was drawn, for whoever wants its right way through.
    """

    failing: dict[str, int] = {}
    drawn: str = ""


class Desk:
    """One shop, with nothing in common with that of any other episode. Calls are serialised by `lock`.

    Attributes:
        lock: held by whoever works on the database.
        closed: whether the episode is over.
    """

    def __init__(self, setup: Setup | None = None) -> None:
        """Restore the template; `setup` says which tools fail at first."""
        self.lock = threading.RLock()
        # Tools run on worker threads, hence the lock in place of SQLite's own check.
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._database.deserialize(_template())
        self.closed = False
        self._failing = dict((setup or Setup()).failing)

    def query(self, sql: str) -> list[list[Any]]:
        """Return the rows of one SELECT; the state is not changed, whatever the statement is.

        Raises:
            sqlite3.Error: the statement is wrong, or would change the state.
        """
        with self.lock:
            self._database.execute("PRAGMA query_only = ON")
            try:
                return [list(row) for row in self._database.execute(sql)]
            finally:
                self._database.execute("PRAGMA query_only = OFF")

    def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        """Return the rows of a query as mappings from column to value."""
        with self.lock:
            cursor = self._execute(sql, values)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    def row(self, missing: str, sql: str, *values: Any) -> dict[str, Any]:
        """Return the first row of a query.

        Raises:
            ToolError: there is none; `missing` is its message.
        """
        found = self.rows(sql, *values)
        if not found:
            raise ToolError(missing, ErrorKind.NOT_FOUND)
        return found[0]

    def change(self, sql: str, *values: Any) -> None:
        """Carry out one INSERT, UPDATE or DELETE."""
        with self.lock:
            self._execute(sql, values)

    def write_down(self, tool: str, level: str, arguments: dict[str, Any], ok: bool) -> None:
        """Add a call to the log that graders read; one that ends after the episode is left out."""
        if self.closed:
            return
        # A lone surrogate, which a model can write as an escape, is no text to SQLite.
        text = json.dumps(arguments, ensure_ascii=False, sort_keys=True).encode("utf-8", "replace").decode()
        self.change("INSERT INTO call_log (tool, level, arguments, ok) VALUES (?, ?, ?, ?)", tool, level, text, int(ok))

    def _execute(self, sql: str, values: Sequence[Any]) -> sqlite3.Cursor:
        try:
            return self._database.execute(sql, values)
        except UnicodeEncodeError:
            text = "a text holds half of a character (a lone surrogate): write it in full"
            raise ToolError(text, ErrorKind.BAD_ARGUMENTS) from None

    def next_id(self, table: str, prefix: str) -> str:
        """Return the id after the highest of a table, such as TK-791."""
        (row,) = self.rows(f"SELECT max(CAST(substr(id, {len(prefix) + 2}) AS INTEGER)) AS last FROM {table}")
        return f"{prefix}-{(row['last'] or 100) + 1}"

    def fails_now(self, tool: str) -> bool:
        """Whether this call of a tool fails in passing; each question uses one failure up."""
        with self.lock:
            left = self._failing.get(tool, 0)
            if left > 0:
                self._failing[tool] = left - 1
            return left > 0

    def close(self) -> None:
        """Let go of the database."""
        with self.lock:
            self.closed = True
            self._database.close()


def as_desk(environment: Environment | None) -> Desk:
    """Return `environment`, which must be a desk.

    Raises:
        TypeError: it is another suite's.
    """
    if not isinstance(environment, Desk):
        raise TypeError(f"the desk's tools need the desk's environment, not {type(environment).__name__}")
    return environment


def open_desk(environment: Mapping[str, Any]) -> Desk:
    """Return a fresh desk, set up as a task's `environment` says."""
    return Desk(msgspec.convert(dict(environment), Setup))


@functools.cache
def _template() -> bytes:
    """Return the database file that every episode starts from."""
    database = sqlite3.connect(":memory:")
    try:
        database.executescript(data_file("schema.sql").read_text("utf-8"))
        shop = load_shop()
        for table in Shop.__struct_fields__:
            rows = [msgspec.structs.astuple(row) for row in getattr(shop, table)]
            marks = ", ".join("?" * len(rows[0]))
            database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        database.commit()
        database.execute("VACUUM")
        return database.serialize()
    finally:
        database.close()
