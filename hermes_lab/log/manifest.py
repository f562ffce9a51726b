"""The manifest: an append-only list of steps, each holding the hash of the one before it.

Readers take the list of sealed segments from here and from nowhere else, so a step (sealing, compacting, purging)
happens at the instant at which its line is complete in the file. A line cut short by a crash is no step.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from hermes_lab.errors import ConfigError, CorruptLogError
from hermes_lab.log import files

FORMAT = 1
"""Version of the manifest's lines; a newer one is refused."""

GENESIS = "0" * 64
"""The `prev` of the first entry."""


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A sealed Parquet file: where, what is in it, and the hash by which a change is found.

    `path` is relative to the log's folder; times are UTC; `ids` is the index of task and episode ids (`log.idindex`).
    """

    path: str
    sha256: str
    bytes: int
    rows: int
    first_ts: dt.datetime
    last_ts: dt.datetime
    schema_version: int
    ids: str


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """A live file that a step took in: its size, and what of it was no event."""

    file: str
    bytes: int
    rows: int
    torn_bytes: int = 0
    rejected: int = 0


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One step. `hash` is over all else, `prev` is the hash of the entry before."""

    format: int = FORMAT
    seq: int
    at: dt.datetime
    kind: str
    prev: str
    add: list[Segment] = []
    remove: list[str] = []
    sealed: list[Sealed] = []
    note: dict[str, Any] = {}
    hash: str = ""

    def digest(self) -> str:
        """Return the hash that this entry must carry."""
        return hashlib.sha256(_encode(msgspec.structs.replace(self, hash=""))).hexdigest()


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Entry).decode


@dataclass
class Manifest:
    """The manifest of one log, folded: what is sealed now. `refresh` reads only what is new in the file."""

    path: Path
    segments: dict[str, Segment] = field(default_factory=dict)
    retired: dict[str, dt.datetime] = field(default_factory=dict)
    consumed: set[str] = field(default_factory=set)
    rejected: int = 0
    torn_bytes: int = 0
    head: str = GENESIS
    seq: int = 0
    offset: int = 0

    def refresh(self) -> Manifest:
        """Fold the entries that were appended since the last call, and return self.

        Raises:
            CorruptLogError: a whole line is not an entry.
            ConfigError: an entry of a newer hermes-lab.
        """
        try:
            with open(self.path, "rb") as file:
                file.seek(self.offset)
                data = file.read()
        except FileNotFoundError:
            return self
        end = data.rfind(b"\n") + 1
        for line in data[:end].splitlines():
            self._fold(_read_entry(line, self.path, self.seq + 1))
        self.offset += end
        return self

    def _fold(self, entry: Entry) -> None:
        for path in entry.remove:
            self.segments.pop(path, None)
            if entry.kind != "purge":  # whose files are deleted at once
                self.retired[path] = entry.at
        for segment in entry.add:
            self.segments[segment.path] = segment
        for sealed in entry.sealed:
            self.consumed.add(sealed.file)
            self.rejected += sealed.rejected
            self.torn_bytes += sealed.torn_bytes
        self.head, self.seq = entry.hash, entry.seq

    def next_entry(self, kind: str, **parts: Any) -> Entry:
        """Return the entry that would come next, hashed; `parts` are fields of `Entry`."""
        entry = Entry(seq=self.seq + 1, at=dt.datetime.now(dt.UTC), kind=kind, prev=self.head, **parts)
        return msgspec.structs.replace(entry, hash=entry.digest())

    def append(self, entry: Entry) -> None:
        """Append `entry` durably; the caller holds the maintenance lock.

        Raises:
            OSError: the disk did not take it. Where `head` is nevertheless the entry's hash, the line is whole and
                readers see it, but it may not be on the disk: only `sync` can tell.
        """
        line = _encode(entry) + b"\n"
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            # A tail that a crash or a full disk cut short is no entry: the next one is written over it.
            os.ftruncate(fd, self.offset)
            os.lseek(fd, self.offset, os.SEEK_SET)
            write_all(fd, line)
            self._fold(entry)
            self.offset += len(line)
            os.fsync(fd)
            if entry.seq == 1:
                files.fsync_folder(self.path.parent)
        finally:
            os.close(fd)

    def sync(self) -> None:
        """Have every entry on the disk.

        Raises:
            OSError: the disk did not take it.
        """
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`, however little the system takes at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def entries(path: Path) -> Sequence[Entry]:
    """Return every whole entry of the manifest at `path`, unchecked; none where there is no file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    end = data.rfind(b"\n") + 1
    return [_read_entry(line, path, i + 1) for i, line in enumerate(data[:end].splitlines())]


def _read_entry(line: bytes, path: Path, number: int) -> Entry:
    try:
        entry = _decode(line)
    except msgspec.DecodeError as error:
        raise CorruptLogError(
            f"{path} line {number} is not an entry ({error}): restore the file from a copy, "
            "or run `hermes-lab log verify` to see what is affected"
        ) from None
    if entry.format > FORMAT:
        raise ConfigError(
            f"{path} was written by a newer hermes-lab (manifest format {entry.format}): upgrade to read it"
        )
    return entry
