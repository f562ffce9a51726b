"""What is new in a log since an earlier look at it, so that what is derived from it need not be derived again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from hermes_lab.log import idindex
from hermes_lab.log.manifest import Segment, entries
from hermes_lab.log.snapshot import Snapshot

_MOST_LOOKED_UP = 2_000


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """How far a log was looked at.

    Attributes:
        seq: the manifest's last step.
        head: its hash, by which another log in the same place is found.
        segments: paths of the sealed files.
        live: whole bytes of each live file.
    """

    seq: int
    head: str
    segments: list[str]
    live: dict[str, int]


def look(snapshot: Snapshot) -> Seen:
    """Return how far `snapshot` sees."""
    return Seen(seq=snapshot.seq, head=snapshot.head, segments=sorted(snapshot.segments), live=snapshot.live_bytes)


def fresh_segments(snapshot: Snapshot, seen: Seen) -> list[Segment] | None:
    """Return the sealed files with events that `seen` has not; None where all has to be looked at again.

    Live files are not among them: they are small, and each look takes them whole. Compaction only moves events. A purge
    takes some away, and so does putting an older log in its place.
    """
    steps = entries(snapshot.layout.manifest)
    if seen.seq > snapshot.seq or (seen.seq and steps[seen.seq - 1].hash != seen.head):
        return None
    since = steps[seen.seq : snapshot.seq]
    sealed = {file.file for step in since for file in step.sealed}
    for name, size in seen.live.items():
        if name not in sealed and snapshot.live_bytes.get(name, 0) < size:
            return None  # a live file went away or became shorter: it is another log, or a copy of an earlier moment
    known = set(seen.segments)
    for step in since:
        if step.kind == "purge":
            return None
        if step.kind == "compact" and known.issuperset(step.remove):
            known.update(segment.path for segment in step.add)
    return [segment for path, segment in snapshot.segments.items() if path not in known]


def segments_of(segments: Sequence[Segment], episode_ids: Sequence[str], since: dt.datetime) -> list[Segment]:
    """Return those of `segments` that may hold an event of these episodes, none of which is older than `since`."""
    late = [segment for segment in segments if segment.last_ts >= since]
    if len(episode_ids) > _MOST_LOOKED_UP:
        return late
    kept = []
    for segment in late:
        index = idindex.Index(segment.ids)
        if any(index.may_hold("episode_id", one) for one in episode_ids):
            kept.append(segment)
    return kept
