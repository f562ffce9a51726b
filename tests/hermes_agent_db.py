"""Builds small databases of hermes-agent's shape for tests, and reads them back through the importers."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

from hermes_lab.importers.base import Draft, SetAside, Source
from hermes_lab.importers.hermes_agent import sessions as hermes_sessions
from hermes_lab.importers.hermes_agent import state as hermes_state

T0 = 1_767_225_600.0  # 2026-01-01T00:00:00Z

SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, model TEXT, model_config TEXT,
    system_prompt TEXT, parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT,
    message_count INTEGER DEFAULT 0, tool_call_count INTEGER DEFAULT 0,
    input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0, cache_read_tokens INTEGER DEFAULT 0,
    cache_write_tokens INTEGER DEFAULT 0, reasoning_tokens INTEGER DEFAULT 0,
    estimated_cost_usd REAL, actual_cost_usd REAL, cost_status TEXT, title TEXT,
    api_call_count INTEGER DEFAULT 0
);
CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL, content TEXT,
    tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL, token_count INTEGER,
    finish_reason TEXT, reasoning TEXT,
    active INTEGER NOT NULL DEFAULT 1, compacted INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS idx_messages_session ON messages(session_id, timestamp);
CREATE TABLE IF NOT EXISTS session_model_usage (
    session_id TEXT NOT NULL, model TEXT NOT NULL, billing_provider TEXT NOT NULL DEFAULT '',
    billing_base_url TEXT NOT NULL DEFAULT '', billing_mode TEXT NOT NULL DEFAULT '',
    task TEXT NOT NULL DEFAULT '', api_call_count INTEGER NOT NULL DEFAULT 0,
    input_tokens INTEGER NOT NULL DEFAULT 0, output_tokens INTEGER NOT NULL DEFAULT 0,
    cache_read_tokens INTEGER NOT NULL DEFAULT 0, cache_write_tokens INTEGER NOT NULL DEFAULT 0,
    reasoning_tokens INTEGER NOT NULL DEFAULT 0, estimated_cost_usd REAL NOT NULL DEFAULT 0,
    actual_cost_usd REAL NOT NULL DEFAULT 0, cost_status TEXT, first_seen REAL, last_seen REAL,
    PRIMARY KEY (session_id, model, billing_provider, billing_base_url, billing_mode, task)
);
"""


def call(call_id: str | None, name: str, arguments: object = "{}") -> dict[str, Any]:
    """Return a tool call as hermes-agent stores it."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    found = {"type": "function", "function": {"name": name, "arguments": text}}
    return found if call_id is None else {"id": call_id, **found}


class Db:
    """A database being filled; times go on by one second a message."""

    def __init__(self, path: Path, schema: str = SCHEMA) -> None:
        self.path = path
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA synchronous=OFF")
        self.connection.executescript(schema)
        self.clock = T0

    def close(self) -> None:
        self.connection.close()

    def insert(self, table: str, **columns: Any) -> int:
        names = ", ".join(f'"{name}"' for name in columns)
        marks = ", ".join("?" * len(columns))
        cursor = self.connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(columns.values()))
        return int(cursor.lastrowid or 0)

    def session(self, session_id: str, **columns: Any) -> str:
        self.insert("sessions", id=session_id, **{"source": "cli", "started_at": self.clock} | columns)
        return session_id

    def say(self, session_id: str, role: str, content: Any = None, **columns: Any) -> int:
        self.clock += 1
        calls = columns.pop("calls", None)
        if calls is not None:
            columns["tool_calls"] = json.dumps(calls)
        row = {"session_id": session_id, "role": role, "content": content, "timestamp": self.clock} | columns
        return self.insert("messages", **row)

    def answer(self, session_id: str, call_id: str, content: str, **columns: Any) -> int:
        return self.say(session_id, "tool", content, tool_call_id=call_id, **columns)

    def run(self, sql: str, *values: object) -> None:
        self.connection.execute(sql, values)

    def export(self, path: Path, *, newest_first: bool = True, ids: bool = True) -> Path:
        """Write what `hermes sessions export` writes: live messages, calls as lists."""
        self.connection.row_factory = sqlite3.Row
        order = "DESC" if newest_first else "ASC"
        with path.open("w", encoding="utf-8") as file:
            for session in self.connection.execute(f"SELECT * FROM sessions ORDER BY started_at {order}").fetchall():
                found = self.connection.execute(
                    "SELECT * FROM messages WHERE session_id = ? AND active = 1 ORDER BY id", (session["id"],)
                )
                messages = [exported(dict(row), ids) for row in found]
                file.write(json.dumps({**dict(session), "messages": messages}, ensure_ascii=False) + "\n")
        self.connection.row_factory = None
        return path


def exported(row: dict[str, Any], ids: bool = True) -> dict[str, Any]:
    if row["tool_calls"]:
        row["tool_calls"] = json.loads(row["tool_calls"])
    if isinstance(row["content"], str) and row["content"].startswith("\x00json:"):
        row["content"] = json.loads(row["content"][6:])
    if not ids:
        del row["id"]
    return row


def read_db(path: Path) -> list[Draft | SetAside]:
    return list(hermes_state.read(Source(path)))


def read_export(path: Path) -> list[Draft | SetAside]:
    return list(hermes_sessions.read(Source(path)))


def keys(found: list[Draft | SetAside]) -> set[tuple[str, str]]:
    return {(draft.episode, draft.key) for draft in found if isinstance(draft, Draft)}


def counts(found: list[Draft | SetAside], episode: str | None = None) -> Counter[str]:
    """Count events by action with their weights, as `sum(weight)` does."""
    counted: Counter[str] = Counter()
    for draft in found:
        if isinstance(draft, Draft) and episode in (None, draft.episode):
            counted[str(draft.action)] += draft.columns.get("weight", 1)
    return +counted


def total(found: list[Draft | SetAside], column: str) -> float:
    return float(sum(draft.columns.get(column, 0) for draft in found if isinstance(draft, Draft)))
