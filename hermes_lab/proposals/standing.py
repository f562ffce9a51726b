"""What stands of the approval queue at a moment: proposals with their outcome, memories, and skills. Pure.

The same history gives the same, whatever the order its events came in. Undone decisions count as never made; whatever
is tagged with a version that was rolled back counts as taken back.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from hermes_lab.kinds import Action
from hermes_lab.memory.records import RETEST_AFTER, Memory, State, tells_of_outage
from hermes_lab.proposals.history import History, Refused
from hermes_lab.proposals.steps import Decision, Outcome, Proposal, Source, content_hash


class StandingSkill(NamedTuple):
    """A skill as it stands.

    Attributes:
        name: of the skill.
        text: its SKILL.md.
        files: text of its other files by relative path.
        sha256: of the text.
        config_version: the version at work when it was learned.
        proposal: id of the proposal's event.
        decision: id of the event that approved it.
        since: when that was.
    """

    name: str
    text: str
    files: Mapping[str, str]
    sha256: str
    config_version: str | None
    proposal: str
    decision: str
    since: dt.datetime


class Standing(NamedTuple):
    """What stands at a moment.

    Attributes:
        at: the moment.
        proposals: all that were made by then, in order, with what became of them.
        memories: each once, of any state, in order of their ids.
        skills: the approved ones by name.
    """

    at: dt.datetime
    proposals: tuple[Proposal, ...]
    memories: tuple[Memory, ...]
    skills: Mapping[str, StandingSkill]

    def pending(self) -> tuple[Proposal, ...]:
        """Return the proposals that wait for a decision, oldest first."""
        return tuple(one for one in self.proposals if one.outcome is Outcome.PENDING)


def as_of(history: History, now: dt.datetime) -> Standing:
    """Return what stands at `now`, an aware time."""
    made = [one for one in history.proposals if one.ts <= now]
    decided, reopened = _decisions(history, {one.id: one.digest for one in made}, now)
    proposals = tuple(_settled(one, decided.get(one.id), reopened.get(one.id), history, now) for one in made)
    back = {version for version, ts in history.rolled_back.items() if ts <= now}
    in_force = [one for one in proposals if one.outcome is Outcome.APPROVED and one.config_version not in back]
    in_force.sort(key=lambda one: one.decision.id if one.decision else "")
    return Standing(now, proposals, _memories(history, proposals, in_force, now), _skills(in_force))


def loose_ends(history: History, standing: Standing) -> tuple[tuple[Proposal, ...], tuple[Refused, ...]]:
    """Return approved proposals that no written event follows yet, and written events that follow no approval."""
    approved = {one.decision.id: one for one in standing.proposals if one.decision and one.outcome is Outcome.APPROVED}
    undone = {one.id for one in history.decisions} & history.undone.keys()
    written = set()
    refused = []
    for one in history.written:
        proposal = approved.get(one.decision or "")
        if proposal is not None and one.content == content_hash(written_input(proposal)):
            written.add(one.decision)
        elif one.decision not in undone:
            refused.append(Refused(one.id, _action(one.name), one.name, "no approval of this content stands behind it"))
    unfinished = tuple(one for decision, one in approved.items() if decision not in written)
    return unfinished, tuple(refused)


def written_input(proposal: Proposal) -> dict[str, object]:
    """Return the input of the written event that follows from an approved proposal."""
    if proposal.memory is not None:
        record: dict[str, object] = msgspec.to_builtins(approved_record(proposal, proposal.memory))
        return record
    text = proposal.approved_text
    return {"text": text, "files": dict(proposal.skill.files) if proposal.skill else {}, "sha256": sha256(text)}


def sha256(text: str) -> str:
    """Return the SHA-256 of a skill's text, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _action(name: str) -> str:
    return Action.MEMORY_WRITTEN if name.startswith("m-") else Action.SKILL_WRITTEN


def _decisions(
    history: History, digests: Mapping[str, str], now: dt.datetime
) -> tuple[dict[str, Decision], dict[str, dt.datetime]]:
    """Return, by proposal, the first decision on its content that was not undone, and when one last was."""
    found: dict[str, Decision] = {}
    reopened: dict[str, dt.datetime] = {}
    for one in history.decisions:
        if one.ts > now or digests.get(one.proposal) != one.digest:
            continue
        mark = history.undone.get(one.id)
        if mark is None or mark.ts > now:
            found.setdefault(one.proposal, one)
        else:
            reopened[one.proposal] = max(mark.ts, reopened.get(one.proposal, mark.ts))
    return found, reopened


def _settled(
    proposal: Proposal, decision: Decision | None, reopened: dt.datetime | None, history: History, now: dt.datetime
) -> Proposal:
    conflicts = tuple(found for ts, found in history.conflicts.get(proposal.id, ()) if ts <= now)
    if decision is not None:
        return proposal._replace(outcome=decision.outcome, decision=decision, conflicts=conflicts)
    return proposal._replace(conflicts=conflicts, waits_since=reopened or proposal.ts)


def approved_record(proposal: Proposal, memory: Memory) -> Memory:
    """Return the record that an approval makes active; only a person may have pinned it."""
    text = proposal.approved_text
    expires = memory.expires
    if expires is None and memory.created is not None and tells_of_outage(memory.kind, text):
        expires = memory.created + RETEST_AFTER
    return msgspec.structs.replace(
        memory,
        text=text,
        expires=expires,
        state=State.ACTIVE,
        pinned=memory.pinned and proposal.source is Source.PERSON,
    )


def _memories(
    history: History, proposals: Iterable[Proposal], in_force: Iterable[Proposal], now: dt.datetime
) -> tuple[Memory, ...]:
    replaced = _replaced(in_force)
    retracted = {
        mark.about: mark.id
        for mark in history.retractions  # in order of their ids: the last one stays
        if mark.ts <= now and not _is_undone(history, mark.id, now)
    }
    current = {one.name: one for one in in_force if one.memory is not None}
    newest = {one.name: one for one in proposals if one.memory is not None}
    records = []
    for name, proposal in sorted(newest.items()):
        standing = current.get(name)
        if standing is None or standing.memory is None or standing.decision is None:
            records.append(_inactive(proposal))
            continue
        record = approved_record(standing, standing.memory)
        state = State.ACTIVE
        if retracted.get(name, "") > standing.decision.id:
            state = State.RETRACTED
        elif replaced.get(name, "") > standing.decision.id:
            state = State.SUPERSEDED
        elif record.expires is not None and record.expires <= now:
            state = State.EXPIRED
        used = history.last_used.get(name)
        records.append(
            msgspec.structs.replace(record, state=state, last_used=used if used is None or used <= now else None)
        )
    return tuple(records)


def _replaced(in_force: Iterable[Proposal]) -> dict[str, str]:
    """Return, by id of a memory, the last decision that supersedes it."""
    found: dict[str, str] = {}
    for one in in_force:
        if one.decision is not None:
            found |= {other: one.decision.id for other in one.decision.replaces if other != one.name}
    return found


def _is_undone(history: History, event_id: str, now: dt.datetime) -> bool:
    mark = history.undone.get(event_id)
    return mark is not None and mark.ts <= now


_INACTIVE = {
    Outcome.PENDING: State.PROPOSED,
    Outcome.REJECTED: State.REJECTED,
    Outcome.EXPIRED: State.EXPIRED,
    Outcome.APPROVED: State.RETRACTED,  # its version was rolled back
}


def _inactive(proposal: Proposal) -> Memory:
    assert proposal.memory is not None  # noqa: S101 - only memories come here
    return msgspec.structs.replace(proposal.memory, state=_INACTIVE[proposal.outcome], pinned=False)


def _skills(in_force: Iterable[Proposal]) -> dict[str, StandingSkill]:
    found: dict[str, StandingSkill] = {}
    for one in in_force:
        if one.skill is None or one.decision is None:
            continue
        text = one.approved_text
        found[one.name] = StandingSkill(
            one.name,
            text,
            one.skill.files,
            sha256(text),
            one.config_version,
            one.id,
            one.decision.id,
            one.decision.ts,
        )
    return dict(sorted(found.items()))
