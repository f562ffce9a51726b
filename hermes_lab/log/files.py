"""Files that are whole or absent: atomic writing, locks between processes, and the system's errors in plain words.

Locks are `flock`s: the kernel gives them back when a process dies, however it dies. They need a local file system.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from hermes_lab.errors import BusyError, MissingError, PermissionDeniedError, WriteError

_FULL = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the quota is used up", errno.EFBIG: "the file may not grow"}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextlib.contextmanager
def disk_errors(doing: str) -> Iterator[None]:
    """Turn an `OSError` of the block into an error of ours that says what was being done and what to do."""
    try:
        yield
    except OSError as error:
        raise explain(error, doing) from error


def explain(error: OSError, doing: str) -> WriteError | PermissionDeniedError | MissingError:
    """Return our error for the system's, naming the file and the way out."""
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in _FULL:
        return WriteError(f"{doing}: {_FULL[error.errno]}{where}; free some space and try again")
    if error.errno in _FORBIDDEN:
        return PermissionDeniedError(f"{doing}: not permitted{where}; check the folder's owner and mode")
    if error.errno == errno.ENOENT:
        return MissingError(f"{doing}: no such file or folder{where}")
    return WriteError(f"{doing}: {error.strerror or error}{where}")


def atomic_write(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that any reader, at any time and after any crash, sees all of it or the old file.

    Temporary file, fsync, rename, fsync of the folder: two disk flushes a call, which is the price of the promise.

    Raises:
        OSError: as the system says; no temporary file is left behind.
    """
    temporary, fd = create_locked(path.parent, f".{path.name}", ".tmp")
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    fsync_folder(path.parent)


def create_locked(folder: Path, stem: str, suffix: str) -> tuple[Path, int]:
    """Make a new temporary file, locked, and return its path and descriptor; `remove_abandoned` leaves it alone.

    Raises:
        OSError: the disk did not take it.
    """
    while True:
        path = folder / f"{stem}-{os.getpid()}-{secrets.token_hex(4)}{suffix}"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        # Between the two calls it looked like a dead process's file, and may have been removed as one.
        if try_lock(fd) and os.fstat(fd).st_nlink:
            return path, fd
        os.close(fd)


def remove_abandoned(paths: Iterable[Path]) -> None:
    """Delete temporary files whose processes died; those that are being written are locked, and stay."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if try_lock(fd):
                    path.unlink(missing_ok=True)
            finally:
                os.close(fd)


def fsync_folder(folder: Path) -> None:
    """Make the names in `folder` durable (renames, new files)."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """Take the lock of an open file at once; False where another holder is in the way."""
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def locked(path: Path, what: str, *, timeout_s: float = 30.0, shared: bool = False) -> Iterator[None]:
    """Hold the lock file `path` for the length of the block, waiting for it at most `timeout_s` seconds.

    Raises:
        BusyError: it was not to be had in that time; the message says that `what` is going on elsewhere.
    """
    with disk_errors(f"taking the lock {path}"):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        deadline = time.monotonic() + timeout_s
        while not try_lock(fd, shared=shared):
            if time.monotonic() >= deadline:
                raise BusyError(f"{what} (lock {path}); wait for it to end and try again")
            time.sleep(0.02)
        yield
    finally:
        os.close(fd)
