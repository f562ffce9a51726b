"""Checking a log: the manifest's chain, every sealed file, every spilled payload, and what lies there unlisted.

It finds every segment that was changed, lost or added, and every entry of the manifest that was edited, moved or
taken out of the middle. Whoever can write the folder can also write a whole new chain, or cut off its end: keep the
`head` that a check prints somewhere else and give it to the next check.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import duckdb
import msgspec
import pyarrow as pa

from hermes_lab import events
from hermes_lab.errors import ConfigError, CorruptLogError, PermissionDeniedError
from hermes_lab.log import files, live, spill, tables
from hermes_lab.log.layout import Layout
from hermes_lab.log.manifest import GENESIS, Entry, Manifest, Segment, entries
from hermes_lab.log.segments import read_pending


class Problem(NamedTuple):
    """Something that is not as it was sealed: what kind of fault, where, and what it means."""

    kind: str
    where: str
    what: str


@dataclass
class Verification:
    """What a check found. `ok` where nothing that was sealed has changed."""

    head: str = GENESIS
    entries: int = 0
    segments: int = 0
    rows: int = 0
    live_files: int = 0
    live_rows: int = 0
    torn_bytes: int = 0
    rejected: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return not self.problems


def verify(layout: Layout, *, expect_head: str | None = None) -> Verification:
    """Check the log and return what was found; it raises for nothing that is wrong with the log itself.

    Args:
        layout: where the log lies.
        expect_head: the head of an earlier check, or how it begins: it must still be in the chain.

    Raises:
        BusyError: another process kept sealing or compacting for half a minute.
    """
    with contextlib.ExitStack() as stack:
        if layout.manifest.exists():
            # Without the lock a segment just published would look added. A folder that we may only read has no
            # lock to take, and most likely no writer either.
            with contextlib.suppress(PermissionDeniedError):
                stack.enter_context(files.locked(layout.maintenance_lock, "another process is sealing this log"))
        found = Verification()
        manifest = Manifest(layout.manifest)
        if _check_chain(layout, found, expect_head):
            manifest.refresh()
            found.torn_bytes, found.rejected = manifest.torn_bytes, manifest.rejected
            whole = _check_segments(layout, manifest, found)
            _check_unlisted(layout, manifest, found)
            stubs = _check_live(layout, manifest, found)
            _check_spills(layout, whole, stubs, found)
    return found


def _check_chain(layout: Layout, found: Verification, expect_head: str | None) -> bool:
    """Check that each entry follows from the one before; return whether the manifest can be read at all."""
    try:
        chain = entries(layout.manifest)
        lines = layout.manifest.read_bytes().splitlines() if chain else []
    except (CorruptLogError, ConfigError) as error:
        found.problems.append(Problem("changed", str(layout.manifest), str(error)))
        return False
    heads = {GENESIS}
    previous = GENESIS
    for number, (entry, line) in enumerate(zip(chain, lines, strict=False), start=1):
        if not _follows(entry, number, previous, line):
            found.problems.append(
                Problem(
                    "changed", f"{layout.manifest} line {number}", "this entry was edited, moved or follows a lost one"
                )
            )
        previous = entry.hash
        heads.add(entry.hash)
    found.head, found.entries = previous, len(chain)
    if expect_head is not None and not any(head.startswith(expect_head) for head in heads):
        found.problems.append(
            Problem(
                "lost",
                str(layout.manifest),
                f"the expected head {expect_head} is not in the chain: its end was cut or rewritten",
            )
        )
    return True


def _follows(entry: Entry, number: int, previous: str, line: bytes) -> bool:
    unchanged = msgspec.json.encode(entry, order="deterministic") == line
    return unchanged and entry.seq == number and entry.prev == previous and entry.hash == entry.digest()


def _check_segments(layout: Layout, manifest: Manifest, found: Verification) -> list[Segment]:
    """Check the content of every listed segment, and return those that are as they were sealed."""
    whole = []
    for segment in manifest.segments.values():
        path = layout.folder / segment.path
        found.segments += 1
        found.rows += segment.rows
        try:
            digest = files.sha256(path)
        except OSError as error:
            found.problems.append(Problem("lost", str(path), f"sealed with {segment.rows} events: {error.strerror}"))
            continue
        if digest == segment.sha256:
            whole.append(segment)
        else:
            what = f"its {segment.rows} events are not as they were sealed"
            found.problems.append(Problem("changed", str(path), what))
    return whole


def _check_unlisted(layout: Layout, manifest: Manifest, found: Verification) -> None:
    unfinished: set[str] = set()
    if layout.pending.exists():
        try:
            pending = read_pending(layout)
            unfinished = {*pending.renamed, *pending.delete}
            found.notes.append("a crash cut a step short; the next sealing finishes it or takes it back")
        except CorruptLogError as error:
            found.problems.append(Problem("changed", str(layout.pending), str(error)))
    for path in sorted(layout.folder.glob("date=*/*")):
        name = str(path.relative_to(layout.folder))
        if path.suffix == ".tmp" or name in manifest.segments or name in manifest.retired or name in unfinished:
            continue
        found.problems.append(Problem("added", str(path), "the manifest does not list it; no query reads it"))


def _check_live(layout: Layout, manifest: Manifest, found: Verification) -> set[str]:
    """Count what is not sealed yet and return the hashes of its spilled payloads."""
    stubs: set[str] = set()
    for path in live.names(layout.live):
        if path.name in manifest.consumed:
            continue
        try:
            data = live.read_from(path, 0)
            size = path.stat().st_size
        except FileNotFoundError:
            continue
        try:
            table, rejected = tables.from_lines(data)
        except ConfigError as error:
            found.problems.append(Problem("changed", str(path), str(error)))
            continue
        found.live_files += 1
        found.live_rows += table.num_rows
        for bad in rejected:
            found.problems.append(Problem("changed", f"{path} line {bad.line}", f"not an event: {bad.reason}"))
        if size > len(data):
            found.notes.append(
                f"{path}: the last line is not whole ({size - len(data)} bytes); it was never acknowledged"
            )
        stubs |= spills_of(table)
    return stubs


def _check_spills(layout: Layout, whole: list[Segment], stubs: set[str], found: Verification) -> None:
    stubs |= referenced_spills(layout, whole)
    for digest in sorted(stubs):
        path = spill.file_of(layout.spill, digest)
        if not path.exists():
            found.problems.append(Problem("lost", str(path), "a long payload that events refer to"))
        elif spill.read_checked(layout.spill, digest) is None:
            found.problems.append(Problem("changed", str(path), "a long payload is not as it was written"))
    spare = {path.stem for path in layout.spill.glob("*/*.gz")} - stubs
    if spare:
        found.notes.append(
            f"{len(spare)} spilled payloads belong to no event (a crash between the two); a purge deletes them"
        )


def referenced_spills(layout: Layout, segments: Iterable[Segment]) -> set[str]:
    """Return the hashes of the spilled payloads that the events of `segments` refer to.

    Raises:
        CorruptLogError: a segment is no Parquet file.
    """
    if not layout.spill.exists():
        return set()
    found: set[str] = set()
    with duckdb.connect(":memory:") as connection:
        for segment in segments:
            for column in events.PAYLOADS:
                query = f"select distinct {column} from read_parquet(?) where starts_with({column}, ?)"
                try:
                    rows = connection.execute(query, [str(layout.folder / segment.path), spill.STUB_START]).fetchall()
                except duckdb.Error as error:
                    raise CorruptLogError(f"segment {segment.path} cannot be read: {error}") from None
                found.update(_digests(row[0] for row in rows))
    return found


def spills_of(table: pa.Table) -> set[str]:
    """Return the hashes of the spilled payloads that the events of `table` refer to."""
    return {digest for column in events.PAYLOADS for digest in _digests(table[column].to_pylist())}


def _digests(texts: Iterable[str | None]) -> set[str]:
    digests = (spill.digest_of(text) for text in texts if text is not None and text.startswith(spill.STUB_START))
    return {digest for digest in digests if digest is not None}
