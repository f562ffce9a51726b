"""Who did what to a memory or skill, when, why and on what evidence: the whole story, read off the log."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from hermes_lab import payload
from hermes_lab.log import Log
from hermes_lab.proposals.history import History
from hermes_lab.proposals.people import EXPIRY
from hermes_lab.proposals.session import ProposalError
from hermes_lab.proposals.steps import Proposal
from hermes_lab.sql_files import read_sql

_SHOWN_CHARS = 200


class Line(NamedTuple):
    """One line of the story.

    Attributes:
        ts: when.
        what: evidence, proposed, conflict, approved, rejected, expired, written, undone, retracted or rolled back.
        by: the person; the source, where something was proposed; None where nobody is known.
        reason: why.
        detail: what it was about.
        event_id: of the event that says so.
    """

    ts: dt.datetime
    what: str
    by: str | None
    reason: str | None
    detail: str
    event_id: str


def audit(log: Log, history: History, asked: str) -> list[Line]:
    """Return the story of a memory (by id), a skill (by name) or a proposal (by its event's id), in order.

    Raises:
        ProposalError: nothing is known of it.
    """
    proposals = [one for one in history.proposals if asked in (one.name, one.id)]
    if not proposals:
        raise ProposalError(f"nothing is known of {asked!r}: name a memory's id, a skill or a proposal's event")
    lines: list[Line] = list(_evidence(log, proposals))
    for one in proposals:
        lines.extend(_proposal(history, one))
    names = {one.name for one in proposals}
    lines.extend(
        Line(mark.ts, "retracted", mark.by, mark.reason, mark.about, mark.id)
        for mark in history.retractions
        if mark.about in names
    )
    known = {line.event_id for line in lines}
    lines.extend(
        Line(mark.ts, "undone", mark.by, mark.reason, mark.about, mark.id)
        for mark in history.undone.values()
        if mark.about in known
    )
    versions = {one.config_version for one in proposals}
    lines.extend(
        Line(ts, "rolled back", None, None, version, version)
        for version, ts in history.rolled_back.items()
        if version in versions
    )
    return sorted(lines, key=lambda line: (line.ts, line.event_id))


def _proposal(history: History, one: Proposal) -> Iterator[Line]:
    version = f" under {one.config_version}" if one.config_version else ""
    run = f" in {one.run_id}" if one.run_id else ""
    yield Line(one.ts, "proposed", str(one.source), None, f"{_short(one.text)}{version}{run}", one.id)
    for ts, found in history.conflicts.get(one.id, ()):
        yield Line(ts, "conflict", None, None, f"{found.kind} {found.other}", one.id)
    decisions = {made.id: made for made in history.decisions if made.proposal == one.id and made.digest == one.digest}
    for made in decisions.values():
        by = None if made.by == EXPIRY else made.by
        detail = _short(one.text if made.edited is None else made.edited)
        if made.replaces:
            detail += f" (replaces {', '.join(made.replaces)})"
        yield Line(made.ts, str(made.outcome), by, made.reason, detail, made.id)
    for written in history.written:
        if written.decision in decisions:
            yield Line(written.ts, "written", None, None, written.name, written.id)


def _evidence(log: Log, proposals: Sequence[Proposal]) -> Iterator[Line]:
    ids = list(dict.fromkeys(event_id for one in proposals for event_id in one.evidence))
    if not ids:
        return
    for row in log.sql(read_sql(__package__, "evidence"), [ids]).fetchall():
        event_id, ts, action, name, episode_id, task_type, seen = (_restored(value) for value in row)
        where = " of ".join(part for part in (episode_id, task_type) if part)
        said = _short(seen or "")
        detail = " ".join(part for part in (action, name, f"({where})" if where else None, said) if part)
        yield Line(ts.astimezone(dt.UTC), "evidence", None, None, detail, event_id)


def _restored(value: Any) -> Any:
    return payload.restore_text(value) if isinstance(value, str) else value


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN_CHARS else flat[: _SHOWN_CHARS - 1] + "…"
