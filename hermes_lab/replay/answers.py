"""Answers for what a record does not: from anywhere in the log, by the hash of the effect; nothing is asked anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from hermes_lab import payload
from hermes_lab.effects import Act, Ask
from hermes_lab.kinds import Action
from hermes_lab.log import Log
from hermes_lab.replay.drive import Drive
from hermes_lab.replay.effects import Keys
from hermes_lab.replay.entries import COLUMNS, TOOL_ACTIONS, Entry, Row
from hermes_lab.sql_files import read_sql


class Answers(Protocol):
    """Carries drives on with answers from somewhere."""

    basis: str

    def carry_on(self, drives: Sequence[Drive]) -> None:
        """Answer what each of `drives` wants, once; one that gets no answer is over."""

    def end(self, drive: Drive) -> float | None:
        """Let go of what was opened for a drive that is over, and return its grade, if it can be told."""


class Cached:
    """Answers with what the log holds of the same effect, of any episode.

    What a tool gave depends on the world of its episode, so its own record comes first; of others the earliest answer
    that came out ok is taken.
    """

    basis = "cached"

    def __init__(self, log: Log, keys: Keys) -> None:
        """Look into `log`."""
        self._log = log
        self._keys = keys
        self._known: dict[str, Entry | None] = {}

    def carry_on(self, drives: Sequence[Drive]) -> None:
        """Answer what each of `drives` wants, with one query for all."""
        wanted = {id(drive): self._keys.of(drive.wanted) for drive in drives if drive.wanted is not None}
        self._look_up([key for key in dict.fromkeys(wanted.values()) if key not in self._known])
        for drive in drives:
            if drive.wanted is None:
                continue
            key = wanted[id(drive)]
            entry = _own(drive, key) or self._known[key]
            outcome = None if entry is None else _outcome(drive, entry)
            if entry is None or outcome is None:
                drive.unanswered()
                continue
            if isinstance(drive.wanted, Ask):
                drive.count(entry)
            drive.advance(outcome)

    def end(self, drive: Drive) -> float | None:  # noqa: ARG002 - the protocol's
        """Return None: nothing was done that could be graded."""
        return None

    def _look_up(self, keys: list[str]) -> None:
        if not keys:
            return
        query = read_sql(__package__, "cached").format(columns=COLUMNS, keys=", ".join("?" for _ in keys))
        self._known.update(dict.fromkeys(keys))
        for values in self._log.sql(query, keys).fetchall():
            restored = (payload.restore_text(one) if isinstance(one, str) else one for one in values)
            row = Row._make(restored)
            self._known[str(row.request_hash)] = _entry(row)


def _entry(row: Row) -> Entry:
    if row.action in TOOL_ACTIONS:
        return Entry("act", row)
    if row.action == Action.PERMISSION_DECIDED:
        return Entry("permit", row, answer=row)
    return Entry("ask", row)


def _own(drive: Drive, key: str) -> Entry | None:
    """Return what the episode's own record holds of a call; its questions were looked up by the drive."""
    if not isinstance(drive.wanted, Act):
        return None
    entries = drive.recording.entries
    return next((entry for entry in entries if entry.kind == "act" and entry.row.request_hash == key), None)


def _outcome(drive: Drive, entry: Entry) -> Any:
    if isinstance(drive.wanted, Ask):
        return entry.reply()
    return entry.result() if isinstance(drive.wanted, Act) else entry.decision()
