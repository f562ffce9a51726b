"""Running an importer: ids that are the same at every import, nothing twice, bad rows set aside, all of it counted."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import rbloom

from hermes_lab import payload
from hermes_lab.errors import EventError, ImportFormatError, MissingError
from hermes_lab.events import Action, Event, Status
from hermes_lab.importers.aside import Aside
from hermes_lab.importers.base import INHERITED, Draft, Importer, SetAside, Source, ignore_progress
from hermes_lab.log import Log, Writer, files, new_id, query
from hermes_lab.log.purge import id_hash, purged_ids
from hermes_lab.log.redact import Redactor
from hermes_lab.log.snapshot import Snapshot

IMPORTABLE = frozenset(
    (
        Action.MESSAGE_RECEIVED,
        Action.TASK_STARTED,
        Action.TASK_ENDED,
        Action.COMPRESSED,
        Action.GENERATION,
        Action.TOOL_CALLED,
        Action.CODE_EXECUTED,
        Action.RETRIEVAL,
        Action.FEEDBACK,
    )
)
"""What somebody else's log can tell of: what was said and done in a conversation.

Never what was decided in this lab: no approval, memory, skill, grade, permission, baseline, publication or rollback.
"""

_BATCH = 5_000  # drafts that are looked up in the log at a time
_EPISODES_EXPECTED = 1_000_000
_KEY_CHARS = 17  # the end of an event id that comes from the draft's key alone


class ImportSummary(NamedTuple):
    """What an import did.

    `imported` events were added; `skipped` ones were in the log already; `purged` ones belong to ids that were purged
    from this log and stay out; `set_aside` rows could not be read, or say what no import may say (`IMPORTABLE`), and
    stand in `set_aside_file` with their reasons.
    """

    path: str
    format: str
    run_id: str
    episodes: int
    imported: int
    skipped: int
    purged: int
    set_aside: int
    set_aside_file: str | None
    seconds: float


def check_readable(path: Path) -> None:
    """Raise what is wrong with `path` before anybody looks into it.

    Raises:
        MissingError: there is no such file.
        ImportFormatError: it is a pipe or a device, which may never end.
        PermissionDeniedError: it may not be read.
    """
    if not path.exists():
        raise MissingError(f"there is no file {path}: check the name")
    if not path.is_file() and not path.is_dir():
        raise ImportFormatError(f"{path} is neither a file nor a folder: save what comes out of it to a file first")
    if path.is_file():
        with files.disk_errors(f"reading {path}"), open(path, "rb"):
            pass


def import_with(
    importer: Importer,
    log: Log,
    path: Path,
    *,
    naive_times: dt.tzinfo = dt.UTC,
    advance: Callable[[int, int], None] = ignore_progress,
    redactor: Redactor | None = None,
) -> ImportSummary:
    """Import `path` into `log`. Importing it again adds only what is new in it.

    Args:
        importer: reads the file.
        log: takes the events.
        path: the file (or folder, for formats that are one).
        naive_times: the zone of times that have none.
        advance: called now and then with the units read and their total.
        redactor: takes secrets out; by default one that knows this process's environment.

    Raises:
        ImportFormatError: the file cannot be read at all, or nothing was found in it.
        BusyError: another import is running.
        WriteError: the disk is full; what was imported so far stays, and the next import goes on from there.
    """
    started = time.monotonic()
    redactor = redactor or Redactor(os.environ)
    with files.disk_errors(f"importing into {log.layout.folder}"):
        log.layout.create()
    with (
        files.locked(log.layout.import_lock, "another import into this lab is running", timeout_s=1.0),
        log.writer(redactor=redactor) as writer,
        Aside(log, path, redactor) as aside,
    ):
        run = _Run(log, writer, aside, path, redactor)
        for batch in _batches(importer.read(Source(path, naive_times, advance)), aside):
            run.take(batch)
        if run.imported:
            run.record(importer.NAME, naive_times)
    if not run.imported and not run.skipped and not run.purged:
        why = f"; {aside.count} rows were set aside, the first one {aside.first}" if aside.count else ""
        raise ImportFormatError(f"nothing was found in {path} as {importer.NAME} ({importer.LABEL}){why}")
    return ImportSummary(
        path=str(path),
        format=importer.NAME,
        run_id=run.run_id,
        episodes=run.episodes,
        imported=run.imported,
        skipped=run.skipped,
        purged=run.purged,
        set_aside=aside.count,
        set_aside_file=None if aside.file is None else str(aside.file),
        seconds=round(time.monotonic() - started, 3),
    )


def _batches(rows: Iterator[Draft | SetAside], aside: Aside) -> Iterator[list[Draft]]:
    batch: list[Draft] = []
    for row in rows:
        if isinstance(row, SetAside):
            aside.add(row)
            continue
        batch.append(row)
        if len(batch) >= _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


@dataclass
class _Episode:
    """The episode that drafts are coming in for: what of it is in the log, and what came so far."""

    id: str
    known: dict[str, str]  # end of event id -> event id, of what the log holds
    ids: dict[str, str] = field(default_factory=dict)  # key -> event id, of what came in
    belongs: dict[str, Any] = field(default_factory=dict)  # what its first drafts said of all that follow
    ordinal: int = 0


class _Run:
    """One import under way."""

    def __init__(self, log: Log, writer: Writer, aside: Aside, path: Path, redactor: Redactor) -> None:
        self._log = log
        self._writer = writer
        self._aside = aside
        self._path = path
        self._redactor = redactor
        # Taken once: nobody else imports meanwhile, and what this run writes it knows itself.
        self._snapshot = log.snapshot()
        self._log_is_empty = not query.run(self._snapshot, "select 1 from events limit 1").fetchall()
        self._purged = purged_ids(log.layout)
        self._seen = rbloom.Bloom(_EPISODES_EXPECTED, 0.0001)
        self._episode: _Episode | None = None
        self._modified = dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC)
        self.run_id = f"import-{new_id()}"
        self.episodes = self.imported = self.skipped = self.purged = 0

    def take(self, batch: list[Draft]) -> None:
        """Write the drafts that the log does not have."""
        batch = [draft._replace(episode=self._redactor.text(draft.episode)) for draft in self._allowed(batch)]
        known = {} if self._log_is_empty else _lookup(self._snapshot, {draft.episode for draft in batch})
        for draft in batch:
            if self._episode is None or self._episode.id != draft.episode:
                self._episode = self._enter(draft.episode, known)
            self._take_one(draft, self._episode)

    def _allowed(self, batch: list[Draft]) -> Iterator[Draft]:
        """Yield the drafts of kinds that an import may bring in; the others are set aside."""
        for draft in batch:
            if draft.action in IMPORTABLE:
                yield draft
                continue
            reason = f"an import cannot bring in {draft.action} events: they are decided in this lab only"
            self._aside.add(SetAside(f"{draft.episode} {draft.key}", reason, repr(draft.columns)[:10_000]))

    def record(self, format: str, naive_times: dt.tzinfo) -> None:
        """Record the import itself."""
        self._writer.record(
            Action.IMPORTED,
            name=format,
            run_id=self.run_id,
            input={"path": str(self._path.absolute()), "naive_times": str(naive_times)},
            output={
                "episodes": self.episodes,
                "imported": self.imported,
                "skipped": self.skipped,
                "purged": self.purged,
                "set_aside": self._aside.count,
            },
            status=Status.OK,
        )

    def _enter(self, episode: str, known: dict[str, dict[str, str]]) -> _Episode:
        """Begin with an episode; one that this run may have written before is looked up afresh."""
        if self._episode is not None:
            self._seen.add(self._episode.id)
        if episode in self._seen:
            self._writer.flush()
            self._snapshot = self._log.snapshot()
            known = _lookup(self._snapshot, {episode})
        else:
            self.episodes += 1
        return _Episode(episode, known.get(episode, {}))

    def _take_one(self, draft: Draft, episode: _Episode) -> None:
        ordinal, episode.ordinal = episode.ordinal, episode.ordinal + 1
        for name in INHERITED:
            if name in draft.columns:
                episode.belongs.setdefault(name, draft.columns[name])
        if draft.key in episode.ids:
            return
        event_id = _event_id(draft, ordinal, draft.ts or self._modified)
        existing = episode.known.get(event_id[-_KEY_CHARS:])
        episode.ids[draft.key] = existing or event_id
        if existing is not None:
            self.skipped += 1
        elif self._is_purged(draft, episode):
            self.purged += 1
        else:
            self._write(draft, event_id, ordinal, episode)

    def _write(self, draft: Draft, event_id: str, ordinal: int, episode: _Episode) -> None:
        columns = {"task_id": draft.episode, **episode.belongs, **draft.columns}
        try:
            for name in ("input", "output"):
                if columns.get(name) is not None:
                    columns[name] = payload.dumps(columns[name])
            event = Event(
                event_id=event_id,
                ts=draft.ts or self._modified,
                run_id=self.run_id,
                episode_id=draft.episode,
                step=ordinal,
                action=draft.action,
                parent_id=None if draft.parent is None else episode.ids.get(draft.parent),
                **columns,
            )
            self._writer.append(event)
        except EventError as error:
            self._aside.add(SetAside(f"{draft.episode} {draft.key}", str(error), repr(draft.columns)[:10_000]))
            return
        self.imported += 1

    def _is_purged(self, draft: Draft, episode: _Episode) -> bool:
        if not self._purged:
            return False
        ids = {"episode_id": draft.episode, "task_id": episode.belongs.get("task_id") or draft.episode}
        return any((column, id_hash(payload.store_text(value))) in self._purged for column, value in ids.items())


def _lookup(snapshot: Snapshot, episodes: set[str]) -> dict[str, dict[str, str]]:
    """Return, by episode, the event ids that the log holds, by the part of them that comes from the draft's key."""
    names = {payload.store_text(episode): episode for episode in episodes}
    marks = ", ".join("?" * len(names))
    relation = query.run(
        snapshot, f"select episode_id, event_id from events where episode_id in ({marks})", list(names)
    )
    known: dict[str, dict[str, str]] = {}
    for episode, event_id in relation.fetchall():
        known.setdefault(names[episode], {})[event_id[-_KEY_CHARS:]] = event_id
    return known


def _event_id(draft: Draft, ordinal: int, ts: dt.datetime) -> str:
    """Return the UUIDv7 of a draft: its time, its place in the episode, and a hash that makes it this draft's for ever.

    Only the hash tells one draft from another, since a file's times may be its modification time.
    """
    millisecond = max(0, int(ts.timestamp() * 1000)) + (ordinal >> 12)
    key = hashlib.blake2b(f"{draft.episode}\0{draft.key}".encode(errors="surrogatepass"), digest_size=8).digest()
    tail = (int.from_bytes(key, "big") & ((1 << 62) - 1)) | (1 << 63)
    head = (millisecond & ((1 << 48) - 1)) << 16 | 0x7000 | (ordinal & 0xFFF)
    digits = f"{head:016x}{tail:016x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
