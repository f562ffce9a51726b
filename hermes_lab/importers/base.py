"""What every importer gives: drafts of events, and rows that it had to set aside.

An importer is one small module with `NAME`, `LABEL`, `sniff(path)` and `read(source)`. It knows its format and
nothing of the log: `importers.import_file` gives ids, drops what is in the log already, redacts, writes and counts.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from hermes_lab.events import Action

INHERITED = ("task_id", "task_type", "channel")
"""Columns that hold for the rest of an episode once a draft gave them; without a `task_id` it is the episode's id."""


class Draft(NamedTuple):
    """An event as an importer gives it, before it has an id.

    Attributes:
        episode: id of the session or conversation in its source, unique there and the same at every import. All
            drafts of an episode come one after another, in order.
        key: identity of the event within its episode, the same at every import; two drafts of an episode with one
            key are one event (the first is kept).
        action: the kind of event.
        ts: when (aware), or None where the source does not say.
        columns: the other columns of `events.Event` by name, without `event_id`, `run_id`, `episode_id`, `step`,
            `parent_id` and `schema_version`. `input` and `output` are values (dict, list, text, number), not JSON
            text. Leave out what is unknown, and what an earlier draft of the episode said of all that follow
            (`INHERITED`).
        parent: key of the draft (earlier in the same episode) that caused this one, or None.
    """

    episode: str
    key: str
    action: Action
    ts: dt.datetime | None
    columns: dict[str, Any]
    parent: str | None = None


class SetAside(NamedTuple):
    """A row that could not be imported: where it stands, why, and its text."""

    where: str
    reason: str
    raw: str


def ignore_progress(_done: int, _total: int) -> None:
    """Take note of no progress."""


@dataclass(frozen=True, slots=True)
class Source:
    """What an importer is asked to read.

    Attributes:
        path: the file.
        naive_times: the zone of times without one (DESIGN: times are UTC-aware; a source may hold naive ones).
        advance: to be called now and then with the number of units read so far and their total (bytes or rows).
    """

    path: Path
    naive_times: dt.tzinfo = dt.UTC
    advance: Callable[[int, int], None] = ignore_progress


class Importer(Protocol):
    """The contract of an importer module.

    `sniff` looks at the file (its first bytes are enough) and says whether `read` is meant for it; it never raises
    for odd content. `read` streams: its memory does not grow with the file. It yields a `SetAside` for a bad row and
    goes on; it raises `errors.ImportFormatError` only where nothing more can be read at all.
    """

    NAME: str
    LABEL: str

    def sniff(self, path: Path) -> bool:
        """Return whether the file looks like this format."""

    def read(self, source: Source) -> Iterator[Draft | SetAside]:
        """Yield the file's events and bad rows, in order."""
