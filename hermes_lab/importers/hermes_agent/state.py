"""Imports hermes-agent's own database, `~/.hermes/state.db` (or the folder that holds it).

The original is never opened for writing, and nothing is left beside it: see `sqlite_copy`. What becomes
of rows that were compacted, written again or rewound is decided in `hermes_history`; tokens in
`hermes_usage`.

Keys come from call ids, and else from role, content and time, not from row ids: hermes-agent gives kept
rows new ids when it rewrites a history. So a database that has grown adds its new rows only, and an
export of the same sessions adds nothing.
"""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from hermes_lab.errors import ImportFormatError
from hermes_lab.importers.base import Draft, SetAside, Source
from hermes_lab.importers.hermes_agent.reader import Reader
from hermes_lab.importers.hermes_agent.sqlite_copy import explain, looks_like, private_copy
from hermes_lab.importers.hermes_agent.store import Store

NAME = "hermes-state"
LABEL = "hermes-agent's database, ~/.hermes/state.db"

_FILE = "state.db"


def sniff(path: Path) -> bool:
    """Return whether this is a database with hermes-agent's tables, or a `state.db`, or holds one."""
    path = _database(path)
    return (path.name == _FILE and path.is_file()) or looks_like(path, ("sessions", "messages"))


def read(source: Source) -> Iterator[Draft | SetAside]:
    """Yield the events of the database.

    Raises:
        MissingError: no such file.
        PermissionDeniedError: the system does not let us read it.
        ImportFormatError: not hermes-agent's database, or encrypted, damaged or truncated.
        BusyError: another process holds it locked.
        WriteError: no room for the private copy.
    """
    path = _database(source.path)
    with private_copy(path) as connection:
        try:
            yield from Reader(Store(connection), source, _modified(path)).read()
        except sqlite3.Error as error:
            raise explain(path, error) from error
        except ImportFormatError as error:
            raise ImportFormatError(f"{path}: {error}") from None


def _database(path: Path) -> Path:
    return path / _FILE if path.is_dir() else path


def _modified(path: Path) -> dt.datetime:
    """Return when the database, its WAL included, was last written."""
    parts = [part for part in (path, path.with_name(f"{path.name}-wal")) if part.exists()]
    return dt.datetime.fromtimestamp(max(part.stat().st_mtime for part in parts), dt.UTC)
