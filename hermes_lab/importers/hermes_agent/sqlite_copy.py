"""Gives a private, consistent copy of somebody else's SQLite database, and leaves no trace beside it.

The database may be in WAL mode, in use by another process, or in a folder that we may not write to.
Opening it there would create `-wal` and `-shm` files beside it, and `immutable=1` would miss what is
still in the WAL. So:

- where SQLite has what it needs already (both files are there, or the database is not in WAL mode), it is
  opened read-only and copied through the backup API, under SQLite's own locks;
- else nobody has it open, and the file and its WAL or hot journal are copied as they are, under a shared
  lock; had anything changed meanwhile, the copy is made again. SQLite then recovers the copy, not the
  original.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from hermes_lab.errors import (
    BusyError,
    HermesLabError,
    ImportFormatError,
    MissingError,
    PermissionDeniedError,
    WriteError,
)
from hermes_lab.importers.reading.lines import open_file

try:
    import fcntl
except ImportError:  # Windows: no advisory locks; the comparison before and after has to do
    fcntl = None  # type: ignore[assignment]

BUSY_SECONDS = 5.0
"""How long we wait for another process's lock."""

_MAGIC = b"SQLite format 3\x00"
_HEADER = 100
_WAL_HEADER = 32
# Where SQLite keeps its shared lock: https://www.sqlite.org/fileformat2.html#the_lock_byte_page
_SHARED_START, _SHARED_BYTES = 0x40000002, 510
_CHUNK = 2**20


def looks_like(path: Path, tables: tuple[str, ...]) -> bool:
    """Return whether the file is an SQLite database in which all `tables` were created; never raises.

    The file and its WAL are searched for the statements that created the tables, so that neither locks
    nor the journal mode matter and nothing is opened by SQLite.
    """
    wanted = {name: re.compile(_created(name), re.IGNORECASE) for name in tables}
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return False
        for part in (path, _beside(path, "-wal")):
            if part.exists():
                _strike_out(part, wanted)
    except OSError:
        return False
    return not wanted


def _created(name: str) -> bytes:
    return rb"CREATE TABLE\s+(?:IF NOT EXISTS\s+)?[\"'`\[]?" + re.escape(name.encode()) + rb"\b"


def _strike_out(part: Path, wanted: dict[str, re.Pattern[bytes]]) -> None:
    tail = b""
    with part.open("rb") as file:
        while wanted and (chunk := file.read(_CHUNK)):
            window = tail + chunk
            for name in [name for name, pattern in wanted.items() if pattern.search(window)]:
                del wanted[name]
            tail = window[-200:]


@contextmanager
def private_copy(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection to a private copy of the database, which is deleted at the end.

    Raises:
        MissingError: no such file.
        PermissionDeniedError: the system does not let us read it.
        ImportFormatError: not an SQLite database (perhaps encrypted), or a damaged or truncated one.
        BusyError: another process holds it locked.
        WriteError: no room for the copy.
    """
    path = path.resolve()
    header = _read_header(path)
    with tempfile.TemporaryDirectory(prefix="hermes-lab-") as folder:
        copy = Path(folder) / "copy.db"
        with _explained(path, header):
            if not (_sqlite_may_open(path, header) and _copy_by_backup(path, copy)):
                _copy_files(path, copy)
            connection = sqlite3.connect(copy, isolation_level=None)
        with closing(connection):
            with _explained(path, header):
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            yield connection


def _read_header(path: Path) -> bytes:
    with open_file(path) as file:
        header = file.read(_HEADER)
    if not header:
        raise ImportFormatError(f"{path} is empty")
    if not header.startswith(_MAGIC):
        raise ImportFormatError(f"{path} is no plain SQLite database: it is encrypted, damaged, or something else")
    return header


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _sqlite_may_open(path: Path, header: bytes) -> bool:
    """Return whether SQLite can read the file where it is without creating another one."""
    if header[18:20] != b"\x02\x02":
        return not _beside(path, "-journal").exists()
    return _beside(path, "-wal").exists() and _beside(path, "-shm").exists()


def _copy_by_backup(path: Path, copy: Path) -> bool:
    """Copy under SQLite's locks; return False where it would have to write (recovery)."""
    try:
        with closing(_open_read_only(path)) as source, closing(sqlite3.connect(copy)) as target:
            target.execute("PRAGMA synchronous=OFF")
            # Held over the whole backup: without it, Python's `backup` waits for ever on a locked database.
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_master").fetchone()
            source.backup(target)
    except sqlite3.OperationalError as error:
        if _code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            copy.unlink(missing_ok=True)
            return False
        raise
    return True


def _open_read_only(path: Path) -> sqlite3.Connection:
    uri = f"{path.as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)


# ---------------------------------------------------------------- copying the files themselves


class _State(NamedTuple):
    """What must not change while the files are copied; a WAL may grow, but not begin anew."""

    database: tuple[int, int, int]
    wal: tuple[int, bytes] | None
    journal: bool


def _copy_files(path: Path, copy: Path) -> None:
    deadline = time.monotonic() + BUSY_SECONDS
    while not _is_copied_whole(path, copy, deadline):
        if time.monotonic() > deadline:
            raise BusyError(f"{path} is being written to all the time: try again later")


def _is_copied_whole(path: Path, copy: Path, deadline: float) -> bool:
    """Copy the files, and return whether nothing changed meanwhile."""
    with open_file(path) as file:
        _lock_shared(path, file, deadline)
        try:
            before = _state(path, file)
            _write(file, copy)
            for suffix in ("-wal", "-journal"):
                _beside(copy, suffix).unlink(missing_ok=True)
                if (part := _beside(path, suffix)).exists():
                    with open_file(part) as side:
                        _write(side, _beside(copy, suffix))
            return _state(path, file) == before
        except MissingError:
            return False  # the WAL was there a moment ago


def _write(file: IO[bytes], target: Path) -> None:
    with target.open("wb") as out:
        shutil.copyfileobj(file, out, _CHUNK)


def _state(path: Path, file: IO[bytes]) -> _State:
    database = os.fstat(file.fileno())
    wal = None
    if (part := _beside(path, "-wal")).exists():
        with open_file(part) as side:
            wal = (os.fstat(side.fileno()).st_ino, side.read(_WAL_HEADER))
    identity = (database.st_ino, database.st_size, database.st_mtime_ns)
    return _State(identity, wal, _beside(path, "-journal").exists())


def _lock_shared(path: Path, file: IO[bytes], deadline: float) -> None:
    """Take the lock of an SQLite reader, so that no writer can begin; it ends when the file is closed."""
    while not _is_locked_shared(file):
        if time.monotonic() > deadline:
            raise BusyError(_BUSY.format(path))
        time.sleep(0.05)


def _is_locked_shared(file: IO[bytes]) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, _SHARED_BYTES, _SHARED_START)
    except OSError as error:
        return error.errno not in (errno.EACCES, errno.EAGAIN)  # else a file system without locks
    return True


# ---------------------------------------------------------------- errors, explained

_BUSY = "{} is locked by another process (a running agent?): try again later, or stop it first"


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


@contextmanager
def _explained(path: Path, header: bytes) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise explain(path, error, _missing_bytes(path, header)) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise WriteError(f"no room for a copy of {path} in {tempfile.gettempdir()}: {error.strerror}") from error
        raise


def explain(path: Path, error: sqlite3.Error, missing: int = 0) -> HermesLabError:
    """Return SQLite's error as one that says what is wrong with the file at `path`, and what to do."""
    code = _code(error)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL):
        return BusyError(_BUSY.format(path))
    if code == sqlite3.SQLITE_FULL:
        return WriteError(f"no room for a copy of {path} in {tempfile.gettempdir()}")
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return PermissionDeniedError(f"{path} cannot be opened: {error}")
    if missing > 0:
        return ImportFormatError(f"{path} is truncated: its end, {missing:,} bytes, is missing ({error})")
    return ImportFormatError(f"{path} is a damaged SQLite database ({error}): try `sqlite3 FILE .recover`")


def _missing_bytes(path: Path, header: bytes) -> int:
    """Return by how many bytes the file is shorter than its header says; 0 where it is whole."""
    if len(header) < _HEADER:
        return _HEADER - len(header)
    page = int.from_bytes(header[16:18], "big")
    promised = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
    return max(0, promised - path.stat().st_size)
