"""Replies by key in a SQLite file that many processes may use at once; whatever is wrong with it costs only the cache.

A file that is no database, or a damaged one, is renamed and a new one begun; one that is locked for long, cannot be
written or is somebody else's is left alone, and this object goes on without it. Each is one warning in the log.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from hermes_lab.errors import HermesLabError
from hermes_lab.log import files

logger = logging.getLogger(__name__)

T = TypeVar("T")

_FORMAT = 1
_BUSY_SECONDS = 5.0
_KEPT_SHARE = 0.9  # after making room, so that it is not made again at once
_AT_ONCE = 500
_TABLE = "CREATE TABLE reply (id INTEGER PRIMARY KEY, key BLOB UNIQUE NOT NULL, value BLOB NOT NULL)"
_SIDE_FILES = ("", "-wal", "-shm")


class CacheFile:
    """Values of bytes by keys of bytes. Nothing here raises for what is wrong with the file."""

    def __init__(self, path: Path, max_bytes: int, busy_s: float = _BUSY_SECONDS) -> None:
        """Say where the file is; it is opened with the first use.

        Args:
            path: the file; its folder is made.
            max_bytes: size beyond which the oldest values go.
            busy_s: seconds to wait while another process holds the file.
        """
        self._path = path
        self._max_bytes = max_bytes
        self._busy_s = busy_s
        self._using = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._is_off = False

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the values of those keys that there are."""

        def read(connection: sqlite3.Connection) -> dict[bytes, bytes]:
            found: dict[bytes, bytes] = {}
            for start in range(0, len(keys), _AT_ONCE):
                some = keys[start : start + _AT_ONCE]
                marks = ", ".join("?" * len(some))
                found.update(connection.execute(f"SELECT key, value FROM reply WHERE key IN ({marks})", some))
            return found

        return self._use(read, {}) if keys else {}

    def put(self, values: dict[bytes, bytes]) -> None:
        """Keep values, all or none of them; a key that is there already keeps its first value."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                connection.executemany("INSERT OR IGNORE INTO reply (key, value) VALUES (?, ?)", values.items())
                self._make_room(connection)

        if values:
            self._use(write, None)

    def drop(self, key: bytes) -> None:
        """Forget a value, such as one that cannot be read."""

        def delete(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM reply WHERE key = ?", (key,))

        self._use(delete, None)

    def close(self) -> None:
        """Close the file; a later use opens it again."""
        with self._using:
            self._disconnect()

    def _use(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """Return what `work` does on the file, and `otherwise` where the file is not to be used."""
        with self._using:
            for _ in range(2):  # once more with a new file, where the old one was broken
                if self._is_off:
                    break
                try:
                    return work(self._connected())
                except (sqlite3.OperationalError, OSError, HermesLabError) as error:
                    self._leave(str(error))
                except sqlite3.DatabaseError as error:
                    self._set_aside(error)
            return otherwise

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = _connect(self._path, self._busy_s)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _leave(self, reason: str) -> None:
        self._disconnect()
        self._is_off = True
        logger.warning("the cache of replies %s is not used from now on: %s", self._path, reason)

    def _set_aside(self, error: sqlite3.DatabaseError) -> None:
        """Rename a broken file, unless another process has done so: under a lock, after looking once more."""
        self._disconnect()
        try:
            with files.locked(self._path.with_name(f"{self._path.name}.lock"), "a broken cache is being set aside"):
                if _is_sound(self._path, self._busy_s):
                    return
                aside = self._path.with_name(f"{self._path.name}.broken-{time.time_ns()}")
                for suffix in _SIDE_FILES:
                    with contextlib.suppress(FileNotFoundError):
                        os.replace(f"{self._path}{suffix}", f"{aside}{suffix}")
        except (OSError, HermesLabError) as trouble:
            self._leave(str(trouble))
            return
        logger.warning("the cache of replies %s is broken (%s): it was renamed to %s", self._path, error, aside.name)

    def _make_room(self, connection: sqlite3.Connection) -> None:
        """Delete the oldest values until the pages in use are few enough."""
        if _used_bytes(connection) <= self._max_bytes:
            return
        while _used_bytes(connection) > self._max_bytes * _KEPT_SHARE:
            oldest = "DELETE FROM reply WHERE id IN (SELECT id FROM reply ORDER BY id LIMIT 64)"
            if connection.execute(oldest).rowcount == 0:
                return


def _connect(path: Path, busy_s: float) -> sqlite3.Connection:
    """Open the file, made if it is not there.

    Write-ahead logging lets others read while one writes. Without a flush at each commit (`NORMAL`) a power failure may
    lose the last replies, but breaks nothing.

    Raises:
        sqlite3.DatabaseError: it is no database, or broken.
        sqlite3.OperationalError: it is locked or cannot be written, or is not ours.
    """
    connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            [version] = connection.execute("PRAGMA user_version").fetchone()
            [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if version == 0 and tables == 0:
                connection.execute(_TABLE)
                connection.execute(f"PRAGMA user_version = {_FORMAT}")
            elif version != _FORMAT:
                raise sqlite3.OperationalError("it is a database of something else, or of another hermes-lab")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _is_sound(path: Path, busy_s: float) -> bool:
    """Return whether the file can be used; a look at all of it, which is made only after trouble."""
    try:
        with contextlib.closing(_connect(path, busy_s)) as connection:
            return next(_checked(connection)) == "ok"
    except sqlite3.OperationalError:
        return True  # locked: somebody uses it
    except sqlite3.DatabaseError:
        return False


def _checked(connection: sqlite3.Connection) -> Iterator[str]:
    for [found] in connection.execute("PRAGMA quick_check(1)"):
        yield str(found)


def _used_bytes(connection: sqlite3.Connection) -> int:
    [pages] = connection.execute("PRAGMA page_count").fetchone()
    [free] = connection.execute("PRAGMA freelist_count").fetchone()
    [size] = connection.execute("PRAGMA page_size").fetchone()
    return int((pages - free) * size)
