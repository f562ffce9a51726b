"""Live files: the JSON lines that a writer appends to until they are sealed.

Each belongs to one writer, which holds its lock for as long as it lives; a name is never used twice. So a file that
can be locked is closed for ever, and its writer finished or dead.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from collections.abc import Iterator
from pathlib import Path

from hermes_lab.log import files


def create(folder: Path) -> tuple[Path, int]:
    """Make a new live file in `folder`, locked, and return its path and descriptor.

    It gets its name only once it is locked: a sealer must never find it unlocked and take it for a dead one's.

    Raises:
        OSError: the disk did not take it.
    """
    stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    unnamed, fd = files.create_locked(folder, stamp, ".new")
    path = unnamed.with_suffix(".jsonl")
    try:
        os.rename(unnamed, path)
        files.fsync_folder(folder)
    except OSError:
        os.close(fd)
        unnamed.unlink(missing_ok=True)
        raise
    return path, fd


def names(folder: Path) -> list[Path]:
    """Return the live files in order of their creation; none where there is no folder.

    Only plain files: a pipe that somebody put there would be waited for without end.
    """
    return sorted(path for path in folder.glob("*.jsonl") if path.is_file())


@contextlib.contextmanager
def closed_files(folder: Path) -> Iterator[list[Path]]:
    """Give the live files whose writers are finished or dead, held locked for the length of the block."""
    held: list[int] = []
    closed: list[Path] = []
    try:
        for path in names(folder):
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            if files.try_lock(fd):
                held.append(fd)
                closed.append(path)
            else:
                os.close(fd)
        yield closed
    finally:
        for fd in held:
            os.close(fd)


def read_from(path: Path, offset: int) -> bytes:
    """Return the whole lines of `path` from `offset` on; a line that is being written is left for the next time."""
    with open(path, "rb") as file:
        file.seek(offset)
        data = file.read()
    return data[: data.rfind(b"\n") + 1]
