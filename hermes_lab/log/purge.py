"""Removing personal data: every event of a task or an episode, its long payloads, and what was set aside of it.

The one exception to append-only. It is recorded (a `purged` event and an entry of the manifest, with the hash of the
id and not the id), and the chain stays whole: the segments are replaced by ones without those rows.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hermes_lab import events, payload
from hermes_lab.errors import MissingError
from hermes_lab.events import Action, Event, Status
from hermes_lab.log import files, idindex, maintain, segments, tables, verify
from hermes_lab.log.layout import Layout
from hermes_lab.log.manifest import Manifest, Segment, entries
from hermes_lab.log.writer import new_id


class Purged(NamedTuple):
    """What a purge removed."""

    events: int
    segments: int
    payloads: int
    set_aside: int


def id_hash(value: str) -> str:
    """Return the hash by which a purge remembers an id (in its stored form) that it removed."""
    return hashlib.sha256(value.encode()).hexdigest()


def purge(layout: Layout, column: str, value: str, *, by: str, reason: str) -> Purged:
    """Remove every event whose `column` is `value`, for good, and record that it was done.

    Nobody may be writing meanwhile: a payload could be spilled while it is deleted.

    Args:
        layout: where the log lies.
        column: `task_id` or `episode_id` (a session).
        value: the id.
        by: the person who asks for it.
        reason: why.

    Raises:
        MissingError: no event has that id.
        BusyError: a writer is open, here or in another process.
        CorruptLogError: a segment that would have to be rewritten is lost or was changed.
    """
    with files.disk_errors(f"purging the log {layout.folder}"):
        layout.create()
    with files.locked(layout.writers_lock, "a writer has this log open, and a purge needs it alone", timeout_s=5.0):
        maintain.seal(layout)
        with maintain.maintenance(layout, f"purging the log {layout.folder}") as manifest:
            return _purge(layout, manifest, column, payload.store_text(value), by, reason)


def purged_ids(layout: Layout) -> set[tuple[str, str]]:
    """Return (column, hash of the id) of everything that was ever purged, so that an import does not bring it back."""
    notes = [entry.note for entry in entries(layout.manifest) if entry.kind == "purge"]
    return {(str(note["column"]), str(note["id_sha256"])) for note in notes}


def _purge(layout: Layout, manifest: Manifest, column: str, value: str, by: str, reason: str) -> Purged:
    replaced = [s for s in manifest.segments.values() if _holds(layout, s, column, value)]
    with segments.Builder(layout) as builder:
        needed = verify.referenced_spills(layout, [s for s in manifest.segments.values() if s not in replaced])
        removed = 0
        for segment in replaced:
            for table in maintain.read_segment(layout, segment):
                kept = table.filter(pc.invert(_matches(table[column], value)))
                removed += table.num_rows - kept.num_rows
                needed |= verify.spills_of(kept)
                builder.add(kept)
        set_aside = _forget_set_aside(layout, value)
        if not removed and not set_aside:
            raise MissingError(f"no event has {column} {value!r}; nothing was purged")
        note = {"column": column, "id_sha256": id_hash(value), "by": by, "events": removed}
        builder.add(_record(note, reason))
        spare = [path for path in layout.spill.glob("*/*.gz") if path.stem not in needed]
        # What compaction replaced may still lie there for late queries, with the same events in it.
        retired = [layout.folder / name for name in manifest.retired if (layout.folder / name).exists()]
        segments.publish(
            layout,
            manifest,
            "purge",
            builder,
            remove=[s.path for s in replaced],
            delete=[*(layout.folder / s.path for s in replaced), *retired, *spare],
            note={**note, "reason": reason},
        )
    return Purged(removed, len(replaced), len(spare), set_aside)


def _holds(layout: Layout, segment: Segment, column: str, value: str) -> bool:
    if not idindex.Index(segment.ids).may_hold(column, value):
        return False
    tables_of_ids = maintain.read_segment(layout, segment, columns=[column])
    return any(pc.any(_matches(table[column], value)).as_py() for table in tables_of_ids)


def _matches(ids: pa.ChunkedArray, value: str) -> pa.ChunkedArray:
    return pc.fill_null(pc.equal(ids, value), False)


def _forget_set_aside(layout: Layout, value: str) -> int:
    """Drop set-aside rows that hold the id, and files that a crash left half-written, and return how many rows."""
    dropped = 0
    for path in (*layout.rejected.glob("*.tmp"), *layout.rejected.glob(".*.tmp"), *layout.spill.glob("*/.*.tmp")):
        path.unlink(missing_ok=True)
    for path in layout.rejected.glob("*.jsonl"):
        lines = path.read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if not _mentions(line, value)]
        if len(kept) < len(lines):
            dropped += len(lines) - len(kept)
            files.atomic_write(path, b"".join(kept))
    return dropped


def _mentions(line: bytes, value: str) -> bool:
    """Return whether a set-aside row holds the id by itself, not as part of a longer one, however often escaped."""
    text = line.decode(errors="replace")
    forms = {value}
    for _ in range(3):
        forms |= {json.dumps(form, ensure_ascii=ascii_only)[1:-1] for form in forms for ascii_only in (True, False)}
    return any(re.search(rf"(?<![\w-]){re.escape(form)}(?![\w-])", text) for form in forms if form in text)


def _record(note: dict[str, object], reason: str) -> pa.Table:
    event = Event(
        event_id=new_id(),
        ts=dt.datetime.now(dt.UTC),
        action=Action.PURGED,
        name=str(note["by"]),
        input=payload.dumps({"reason": reason}),
        output=payload.dumps(note),
        status=Status.OK,
    )
    table, _ = tables.from_lines(events.encode(event) + b"\n")
    return table
