"""Sealed segments: Parquet files by day, built beside their place and published in one step.

`Builder` streams tables into temporary files; `publish` gives them their names, appends the manifest's entry and
removes what the step replaced. The entry is the instant at which the step happens; `recover` finishes or takes back a
step that a crash cut in two. Everything here needs the maintenance lock.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import uuid_utils

from hermes_lab.errors import CorruptLogError
from hermes_lab.events import SCHEMA_VERSION
from hermes_lab.log import files, idindex, live
from hermes_lab.log.layout import Layout
from hermes_lab.log.manifest import Manifest, Sealed, Segment
from hermes_lab.log.tables import SCHEMA

ROW_GROUP = 122_880
"""Rows of a row group: small ones are slow to read (100 rows: ten times slower than 10,000)."""

SEGMENT_ROWS = 2_000_000
"""Rows after which a segment is full."""

RETIRED_FOR = dt.timedelta(hours=1)
"""How long a replaced file stays, for queries that began before it was replaced."""

_MOST_BUFFERED = 128 << 20  # bytes
_MOST_OPEN = 64  # days written at once; a log imported over years must not run out of file descriptors


_TEMPORARY = ("date=*/*.tmp", ".*.tmp", "rejected/.*.tmp", "spill/*/.*.tmp", "live/*.new")
_EARLIEST = dt.datetime.min.replace(tzinfo=dt.UTC)
_LATEST = dt.datetime.max.replace(tzinfo=dt.UTC)


class _HashingFile:
    """A file that is hashed as it is written, so that it need not be read again."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "wb")  # noqa: SIM115 - closed by `close`
        self.digest = hashlib.sha256()
        self.closed = False

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        with self._file:  # closed also where the disk refuses the rest
            self._file.flush()
            os.fsync(self._file.fileno())


@dataclass
class _Open:
    """A segment that is being written."""

    path: Path
    temporary: Path
    sink: _HashingFile
    writer: pq.ParquetWriter
    rows: int = 0
    first_ts: dt.datetime = _LATEST
    last_ts: dt.datetime = _EARLIEST
    schema_version: int = SCHEMA_VERSION
    ids: set[tuple[str, str]] = field(default_factory=set)


class Builder:
    """Streams tables of events into temporary Parquet files, one day a file, within bounded memory.

    As a context manager it removes its temporary files unless they were published.
    """

    def __init__(self, layout: Layout, *, segment_rows: int = SEGMENT_ROWS) -> None:
        """Start with nothing."""
        self._layout = layout
        self._segment_rows = segment_rows
        self._waiting: dict[dt.date, list[pa.Table]] = {}
        self._waiting_rows: dict[dt.date, int] = {}
        self._waiting_bytes: dict[dt.date, int] = {}
        self._open: dict[dt.date, _Open] = {}
        self.done: list[tuple[Path, Segment]] = []
        """Temporary file and segment of each finished file."""

    def __enter__(self) -> Builder:
        """Return self."""
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Remove temporary files that are still there."""
        for open_segment in self._open.values():
            with contextlib.suppress(OSError, pa.ArrowException):
                open_segment.writer.close()
            with contextlib.suppress(OSError):
                open_segment.sink.close()
            open_segment.temporary.unlink(missing_ok=True)
        for temporary, _ in self.done:
            temporary.unlink(missing_ok=True)

    def add(self, table: pa.Table) -> None:
        """Add events; any mixture of days.

        Raises:
            OSError: the disk did not take them.
        """
        for day, rows in _by_day(table):
            self._waiting.setdefault(day, []).append(rows)
            self._waiting_rows[day] = self._waiting_rows.get(day, 0) + rows.num_rows
            self._waiting_bytes[day] = self._waiting_bytes.get(day, 0) + rows.nbytes
            if self._waiting_rows[day] >= ROW_GROUP:
                self._write(day)
        while sum(self._waiting_bytes.values()) > _MOST_BUFFERED:
            self._write(max(self._waiting_bytes, key=self._waiting_bytes.__getitem__))

    def finish(self) -> list[Segment]:
        """Close every file and return the segments."""
        for day in list(self._waiting):
            self._write(day)
        for day in list(self._open):
            self._close(day)
        return [segment for _, segment in self.done]

    def _write(self, day: dt.date) -> None:
        table = pa.concat_tables(self._waiting.pop(day))
        del self._waiting_rows[day], self._waiting_bytes[day]
        if day not in self._open:
            if len(self._open) >= _MOST_OPEN:
                self._close(next(iter(self._open)))
            self._open[day] = self._begin(day)
        segment = self._open[day]
        segment.writer.write_table(table, row_group_size=ROW_GROUP)
        segment.rows += table.num_rows
        _note_range(segment, table)
        if segment.rows >= self._segment_rows:
            self._close(day)

    def _begin(self, day: dt.date) -> _Open:
        folder = self._layout.folder / f"date={day.isoformat()}"
        folder.mkdir(exist_ok=True)
        path = folder / f"{uuid_utils.uuid7()}.parquet"
        temporary = path.with_suffix(".tmp")
        sink = _HashingFile(temporary)
        try:
            writer = pq.ParquetWriter(sink, SCHEMA, compression="zstd", compression_level=1)
        except (OSError, pa.ArrowException):
            with contextlib.suppress(OSError):
                sink.close()
            temporary.unlink()
            raise
        return _Open(path=path, temporary=temporary, sink=sink, writer=writer)

    def _close(self, day: dt.date) -> None:
        segment = self._open[day]
        segment.writer.close()
        segment.sink.close()
        del self._open[day]
        entry = Segment(
            path=str(segment.path.relative_to(self._layout.folder)),
            sha256=segment.sink.digest.hexdigest(),
            bytes=segment.temporary.stat().st_size,
            rows=segment.rows,
            first_ts=segment.first_ts,
            last_ts=segment.last_ts,
            schema_version=segment.schema_version,
            ids=idindex.build(segment.ids, len(segment.ids)),
        )
        self.done.append((segment.temporary, entry))


def _by_day(table: pa.Table) -> list[tuple[dt.date, pa.Table]]:
    """Split a table by the UTC day of its events, keeping their order within a day."""
    if not table.num_rows:
        return []
    days = pc.cast(table["ts"], pa.date32())
    bounds = pc.min_max(days).as_py()
    if bounds["min"] == bounds["max"]:
        return [(bounds["min"], table)]
    order = pc.sort_indices(days)  # stable
    table, days = table.take(order), days.take(order)
    parts = []
    start = 0
    for run in pc.run_end_encode(days.combine_chunks()).run_ends.to_pylist():
        parts.append((days[start].as_py(), table.slice(start, run - start)))
        start = run
    return parts


def _note_range(segment: _Open, table: pa.Table) -> None:
    times = pc.min_max(table["ts"]).as_py()
    segment.first_ts = min(times["min"], segment.first_ts)
    segment.last_ts = max(times["max"], segment.last_ts)
    segment.schema_version = min(segment.schema_version, pc.min(table["schema_version"]).as_py())
    for kind in idindex.KINDS:
        unique = pc.unique(table[kind]).to_pylist()
        segment.ids.update((kind, value) for value in unique if value is not None)


def publish(
    layout: Layout,
    manifest: Manifest,
    kind: str,
    builder: Builder,
    *,
    remove: Sequence[str] = (),
    sealed: Sequence[Sealed] = (),
    delete: Sequence[Path] = (),
    note: dict[str, Any] | None = None,
) -> list[Segment]:
    """Make one step real: all of it or, after a crash at any point, nothing of it (once `recover` ran).

    Args:
        layout: where the log lies.
        manifest: the manifest, refreshed under the lock.
        kind: what the step is: seal, compact, purge, export.
        builder: holds the new files.
        remove: paths of segments that the new ones replace.
        sealed: live files that went into the new ones.
        delete: files to delete once the step has happened.
        note: more to say in the manifest.

    Returns:
        The new segments.

    Raises:
        OSError: the disk did not take it; nothing changed.
    """
    added = builder.finish()
    entry = manifest.next_entry(kind, add=added, remove=list(remove), sealed=list(sealed), note=note or {})
    pending = Pending(
        hash=entry.hash,
        renamed=[segment.path for segment in added],
        delete=[str(path.relative_to(layout.folder)) for path in delete],
    )
    files.atomic_write(layout.pending, msgspec.json.encode(pending))
    try:
        _name_files(layout, builder)
        manifest.append(entry)
    except OSError:
        # Once readers see the entry it has happened, on the disk or not: `recover` makes sure and goes on from there.
        if manifest.head != entry.hash:
            _take_back(layout, pending)
        raise
    builder.done.clear()
    _finish(layout, pending)
    return added


def _name_files(layout: Layout, builder: Builder) -> None:
    folders = {layout.folder}
    for temporary, segment in builder.done:
        path = layout.folder / segment.path
        os.rename(temporary, path)
        folders.add(path.parent)
    for folder in folders:
        files.fsync_folder(folder)


class Pending(msgspec.Struct, frozen=True):
    """The step under way: its entry's hash, the files that get their names, and those to delete afterwards."""

    hash: str
    renamed: list[str]
    delete: list[str]


def read_pending(layout: Layout) -> Pending:
    """Return the step that is under way.

    Raises:
        CorruptLogError: its file is damaged (it is written atomically, so a crash cannot do that).
    """
    try:
        return msgspec.json.decode(layout.pending.read_bytes(), type=Pending)
    except msgspec.DecodeError as error:
        raise CorruptLogError(
            f"{layout.pending} is damaged ({error}): `hermes-lab log verify` says which segments the manifest does not "
            "list; move these and this file away"
        ) from None


def recover(layout: Layout, manifest: Manifest) -> None:
    """Finish or take back a step that a crash cut in two, and clear away what nobody can need any more.

    Raises:
        OSError: the disk does not allow it.
    """
    if layout.pending.exists():
        pending = read_pending(layout)
        # Steps are taken one at a time, so a step that happened is the last entry.
        if manifest.head == pending.hash:
            manifest.sync()
            _finish(layout, pending)
        else:
            _take_back(layout, pending)
    files.remove_abandoned(itertools.chain.from_iterable(map(layout.folder.glob, _TEMPORARY)))
    for path in live.names(layout.live):
        if path.name in manifest.consumed:
            path.unlink(missing_ok=True)
    _delete_retired(layout, manifest)


def _finish(layout: Layout, pending: Pending) -> None:
    for name in pending.delete:
        (layout.folder / name).unlink(missing_ok=True)
    layout.pending.unlink()


def _take_back(layout: Layout, pending: Pending) -> None:
    for name in pending.renamed:
        (layout.folder / name).unlink(missing_ok=True)
    layout.pending.unlink()


def _delete_retired(layout: Layout, manifest: Manifest) -> None:
    before = dt.datetime.now(dt.UTC) - RETIRED_FOR
    for name, since in manifest.retired.items():
        if since < before:
            path = layout.folder / name
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # not empty, most of the time
                path.parent.rmdir()
