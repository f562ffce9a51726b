"""Sealing live files into Parquet, and compacting small segments into large ones."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from hermes_lab.errors import CorruptLogError
from hermes_lab.log import files, live, segments, tables
from hermes_lab.log.layout import Layout
from hermes_lab.log.manifest import Manifest, Sealed, Segment

_CHUNK = 8 << 20  # bytes of a live file that are read at a time
_BATCH_ROWS = 65_536
SMALL_ROWS = segments.SEGMENT_ROWS // 4
"""Segments below this size are merged."""


class Maintained(NamedTuple):
    """What a step did: rows taken in, segments made and replaced, and what of live files was no event."""

    rows: int
    added: int
    removed: int
    rejected: int = 0
    torn_bytes: int = 0


@contextlib.contextmanager
def maintenance(layout: Layout, doing: str, *, timeout_s: float = 30.0) -> Iterator[Manifest]:
    """Hold the maintenance lock, recover from a crash, and give the manifest as it now is.

    Raises:
        BusyError: another process is sealing, compacting or purging, and did not finish in time.
        WriteError, PermissionDeniedError: the system refused something in the block.
    """
    with files.disk_errors(doing):
        layout.create()
    with (
        files.locked(layout.maintenance_lock, "another process is sealing or compacting this log", timeout_s=timeout_s),
        files.disk_errors(doing),
    ):
        manifest = Manifest(layout.manifest).refresh()
        segments.recover(layout, manifest)
        yield manifest


def seal(layout: Layout, *, timeout_s: float = 30.0) -> Maintained:
    """Seal every closed live file (its writer finished or died) into Parquet segments by day.

    A line cut short by a crash was never acknowledged: it is cut off and counted. A whole line that is no event (a
    damaged disk, a foreign hand) goes to `rejected/` with its reason.

    Raises:
        BusyError, WriteError, PermissionDeniedError: see `maintenance`; the log is as it was.
    """
    with (
        maintenance(layout, f"sealing the log {layout.folder}", timeout_s=timeout_s) as manifest,
        live.closed_files(layout.live) as closed,
        segments.Builder(layout) as builder,
    ):
        sealed = [_take_in(layout, path, builder) for path in closed]
        if not sealed:
            return Maintained(0, 0, 0)
        added = segments.publish(layout, manifest, "seal", builder, sealed=sealed, delete=closed)
    return Maintained(
        rows=sum(s.rows for s in sealed),
        added=len(added),
        removed=0,
        rejected=sum(s.rejected for s in sealed),
        torn_bytes=sum(s.torn_bytes for s in sealed),
    )


def _take_in(layout: Layout, path: Path, builder: segments.Builder) -> Sealed:
    rows = lines = whole = 0
    rejected: list[tables.Rejected] = []
    with open(path, "rb") as file:
        for part in _read_ahead(_whole_lines(file)):
            builder.add(part.table)
            rows += part.table.num_rows
            rejected.extend(r._replace(line=r.line + lines) for r in part.rejected)
            lines += part.lines
            whole += part.bytes
    if rejected:
        _keep_rejected(layout, path, rejected)
    size = path.stat().st_size
    return Sealed(file=path.name, bytes=size, rows=rows, torn_bytes=size - whole, rejected=len(rejected))


class _Part(NamedTuple):
    table: pa.Table
    rejected: list[tables.Rejected]
    lines: int
    bytes: int


def _read_ahead(parts: Iterator[bytes]) -> Iterator[_Part]:
    """Yield the events of each part in order, while threads read the next ones: most of that needs no Python."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        coming: collections.deque[concurrent.futures.Future[_Part]] = collections.deque()
        for part in parts:
            coming.append(pool.submit(_read_part, part))
            if len(coming) > 2:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()


def _read_part(data: bytes) -> _Part:
    table, rejected = tables.from_lines(data)
    return _Part(table, rejected, data.count(b"\n"), len(data))


def _whole_lines(file: IO[bytes]) -> Iterator[bytes]:
    rest = b""
    while chunk := file.read(_CHUNK):
        data = rest + chunk
        end = data.rfind(b"\n") + 1
        rest = data[end:]
        yield data[:end]


def _keep_rejected(layout: Layout, path: Path, rejected: list[tables.Rejected]) -> None:
    layout.rejected.mkdir(exist_ok=True)
    rows = [{"line": r.line, "reason": r.reason, "raw": r.raw.decode(errors="backslashreplace")} for r in rejected]
    files.atomic_write(layout.rejected / path.name, b"".join(msgspec.json.encode(row) + b"\n" for row in rows))


def compact(layout: Layout, *, timeout_s: float = 30.0) -> Maintained:
    """Merge the small segments of each day into large ones.

    The replaced files stay for `segments.RETIRED_FOR`, for queries that began before.

    Raises:
        CorruptLogError: a segment is lost or damaged; nothing changed.
        BusyError, WriteError, PermissionDeniedError: see `maintenance`; nothing changed.
    """
    done = Maintained(0, 0, 0)
    with maintenance(layout, f"compacting the log {layout.folder}", timeout_s=timeout_s) as manifest:
        for small in mergeable(manifest.segments.values()).values():
            rows, added, removed = _merge(layout, manifest, small)
            done = Maintained(done.rows + rows, done.added + added, done.removed + removed)
    return done


def mergeable(sealed: Iterable[Segment]) -> dict[str, list[Segment]]:
    """Return the small segments of each day that has more than one."""
    by_day: dict[str, list[Segment]] = defaultdict(list)
    for segment in sealed:
        if segment.rows < SMALL_ROWS:
            by_day[segment.path.partition("/")[0]].append(segment)
    return {day: small for day, small in by_day.items() if len(small) > 1}


def _merge(layout: Layout, manifest: Manifest, small: list[Segment]) -> tuple[int, int, int]:
    small = sorted(small, key=lambda s: (s.first_ts, s.path))
    with segments.Builder(layout) as builder:
        for segment in small:
            for table in read_segment(layout, segment):
                builder.add(table)
        added = segments.publish(layout, manifest, "compact", builder, remove=[s.path for s in small])
    return sum(s.rows for s in added), len(added), len(small)


def read_segment(layout: Layout, segment: Segment, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """Yield the rows of a segment, by default in all columns; those that it lacks (older schemas) are null.

    Raises:
        CorruptLogError: the file is lost, or is not the Parquet file that the manifest lists.
    """
    path = layout.folder / segment.path
    try:
        if files.sha256(path) != segment.sha256:
            # Copying it into a new segment would give the change a clean hash.
            raise CorruptLogError(f"segment {path} was changed after it was sealed: restore it from a copy")
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=columns):
                yield to_schema(pa.Table.from_batches([batch]), columns or tables.SCHEMA.names)
    except FileNotFoundError:
        raise CorruptLogError(
            f"segment {path} is lost: restore it from a copy; `hermes-lab log verify` lists all"
        ) from None
    except pa.ArrowException as error:
        raise CorruptLogError(f"segment {path} is damaged ({error}): restore it from a copy") from None


def to_schema(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return `table` with the named columns of `tables.SCHEMA` in its types, null where the table lacks one."""
    fields = [tables.SCHEMA.field(name) for name in names]
    columns = [
        table[field.name].cast(field.type) if field.name in table.schema.names else pa.nulls(table.num_rows, field.type)
        for field in fields
    ]
    return pa.table(columns, schema=pa.schema(fields))
