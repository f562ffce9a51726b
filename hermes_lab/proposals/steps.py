"""The steps of the approval queue: what each event of it says, or why it says nothing that counts. Pure."""

from __future__ import annotations

import datetime as dt
import enum
import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from hermes_lab import payload
from hermes_lab.errors import EventError
from hermes_lab.events import Event
from hermes_lab.kinds import Action
from hermes_lab.memory.records import Memory
from hermes_lab.proposals.people import EXPIRY, why_no_reason, why_not_person


class Source(enum.StrEnum):
    """Who proposed."""

    MICRO_REFLECTION = "micro_reflection"
    FULL_REFLECTION = "full_reflection"
    IMPORT = "import"
    PERSON = "person"


class Outcome(enum.StrEnum):
    """What became of a proposal."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"


class SkillText(msgspec.Struct, frozen=True, kw_only=True):
    """A skill as it is proposed: its whole SKILL.md, its other files by relative path, and what it is an edit of.

    Attributes:
        text: the whole SKILL.md.
        files: text of other files by relative path.
        base: SHA-256 of the standing SKILL.md that it edits; None for a new one.
    """

    text: str
    files: dict[str, str] = {}
    base: str | None = None


class Decision(NamedTuple):
    """What was decided on a proposal, by whom and why.

    Attributes:
        id: of its event.
        ts: when.
        proposal: id of the proposal's event.
        by: the person.
        reason: why.
        outcome: approved, rejected or expired.
        edited: the text that was approved in place of the proposed one.
        replaces: ids of the memories that it supersedes.
        digest: of the content that was decided on; see `digest_of`.
    """

    id: str
    ts: dt.datetime
    proposal: str
    by: str
    reason: str
    outcome: Outcome
    edited: str | None
    replaces: tuple[str, ...]
    digest: str | None


class Found(NamedTuple):
    """A conflict that was recorded: its kind, what with, and both texts (the proposed one first)."""

    kind: str
    other: str
    texts: tuple[str, ...]


class Proposal(NamedTuple):
    """A proposal and what became of it.

    Attributes:
        id: of its event.
        ts: when.
        name: the memory's id, or the skill's name.
        memory: the record; None for a skill.
        skill: the texts; None for a memory.
        evidence: ids of events.
        source: who proposed.
        config_version: the version at work when it was learned.
        run_id: the session, round or import that proposed it.
        digest: of its content.
        outcome: what became of it.
        decision: that made it so; None while it is pending.
        waits_since: when it was proposed, or when its last decision was undone.
        conflicts: those that were recorded.
    """

    id: str
    ts: dt.datetime
    name: str
    memory: Memory | None
    skill: SkillText | None
    evidence: tuple[str, ...]
    source: Source
    config_version: str | None
    run_id: str | None
    digest: str
    outcome: Outcome = Outcome.PENDING
    decision: Decision | None = None
    waits_since: dt.datetime | None = None
    conflicts: tuple[Found, ...] = ()

    @property
    def text(self) -> str:
        """The text that was proposed."""
        return self.memory.text if self.memory else self.skill.text if self.skill else ""

    @property
    def called(self) -> str:
        """How a message names it."""
        return f"the {'memory' if self.memory else 'skill'} {self.name} (proposal {self.id})"

    @property
    def approved_text(self) -> str:
        """The text that was approved: edited, or as proposed."""
        edited = self.decision.edited if self.decision else None
        return self.text if edited is None else edited


class Mark(NamedTuple):
    """A short statement about something: who said it, when, why, and about what."""

    id: str
    ts: dt.datetime
    about: str
    by: str
    reason: str


class Written(NamedTuple):
    """A `memory_written` or `skill_written` event: which decision it says it follows, and a hash of its content."""

    id: str
    ts: dt.datetime
    name: str
    decision: str | None
    content: str


class NoStepError(Exception):
    """An event that is no step of the queue; says why."""


def digest_of(action: Action, name: str | None, given: Any, config_version: str | None) -> str:
    """Return the hash of a proposal's content, which a decision names: what was approved cannot be swapped later."""
    return hashlib.sha256(payload.canonical([str(action), name, given, config_version])).hexdigest()


def content_hash(value: Any) -> str:
    """Return the hash of what a written event holds."""
    return hashlib.sha256(payload.canonical(value)).hexdigest()


def read_step(event: Event) -> Any:
    """Return what an event of the queue says: a `Proposal`, `Decision`, `Mark`, `Written`, or a pair or triple.

    A conflict is (proposal, when, `Found`), a rollback (version, when).

    Raises:
        NoStepError: it counts for nothing.
    """
    event = msgspec.structs.replace(event, ts=event.ts.astimezone(dt.UTC))
    if event.episode_id is not None:
        raise NoStepError("an episode wrote it, and an episode may only be read")
    if not event.name:
        raise NoStepError("it names nothing")
    given = _table(event.input, "input") if event.input is not None else {}
    output = _table(event.output, "output") if event.output is not None else {}
    return _READERS[event.action](event, given, output)


def _table(text: str, column: str) -> dict[str, Any]:
    try:
        value = payload.loads(text)
    except EventError as error:
        raise NoStepError(f"its {column} is not JSON") from error
    if not isinstance(value, dict):
        raise NoStepError(f"its {column} is no JSON object")
    return value


def _memory_proposed(event: Event, given: dict[str, Any], _output: dict[str, Any]) -> Proposal:
    record = given.get("memory")
    if not isinstance(record, dict):
        raise NoStepError("it holds no memory record")
    try:
        memory = msgspec.convert(record, Memory)
    except msgspec.ValidationError as error:
        raise NoStepError(f"its record is none: {error}") from None
    if memory.id != event.name:
        raise NoStepError(f"it is named {event.name!r} and holds the record {memory.id!r}")
    # What a record says of its own standing is no more than a claim.
    memory = msgspec.structs.replace(memory, created=event.ts, config_version=event.config_version, last_used=None)
    return _proposal(event, given, memory, None)


def _skill_proposed(event: Event, given: dict[str, Any], _output: dict[str, Any]) -> Proposal:
    try:
        skill = msgspec.convert({key: given.get(key) for key in ("text", "base")} | _files(given), SkillText)
    except msgspec.ValidationError as error:
        raise NoStepError(f"its text or files are none: {error}") from None
    return _proposal(event, given, None, skill)


def _files(given: dict[str, Any]) -> dict[str, Any]:
    return {"files": given.get("files") or {}}


def _proposal(event: Event, given: dict[str, Any], memory: Memory | None, skill: SkillText | None) -> Proposal:
    evidence = given.get("evidence") or []
    if not isinstance(evidence, list) or not all(isinstance(one, str) for one in evidence):
        raise NoStepError("its evidence is no list of event ids")
    if given.get("source") not in set(Source):
        raise NoStepError(f"its source {given.get('source')!r} is none of {', '.join(Source)}")
    return Proposal(
        event.event_id,
        event.ts,
        event.name or "",
        memory,
        skill,
        tuple(evidence),
        Source(given["source"]),
        event.config_version,
        event.run_id,
        digest_of(event.action, event.name, given, event.config_version),
        waits_since=event.ts,
    )


def _decided(event: Event, given: dict[str, Any], output: dict[str, Any]) -> Decision:
    if output.get("decision") not in set(Outcome) - {Outcome.PENDING}:
        raise NoStepError(f"it decides {output.get('decision')!r}")
    outcome = Outcome(output["decision"])
    by, reason = given.get("by"), given.get("reason")
    if not (outcome is Outcome.EXPIRED and by == EXPIRY):
        _check_signed(by, reason)
    if event.parent_id != event.name:
        raise NoStepError("it does not follow from the proposal that it names")
    edited, replaces = output.get("edited"), output.get("replaces") or []
    if not isinstance(edited, str | None) or not isinstance(replaces, list):
        raise NoStepError("what was edited or replaced is no text or list")
    return Decision(
        event.event_id,
        event.ts,
        event.name or "",
        str(by),
        str(reason),
        outcome,
        edited,
        tuple(str(one) for one in replaces),
        output.get("digest"),
    )


def _mark(event: Event, given: dict[str, Any], _output: dict[str, Any]) -> Mark:
    _check_signed(given.get("by"), given.get("reason"))
    return Mark(event.event_id, event.ts, event.name or "", str(given["by"]), str(given["reason"]))


def _check_signed(by: object, reason: object) -> None:
    wrong = why_not_person(by) or why_no_reason(reason)
    if wrong:
        raise NoStepError(wrong)


def _written(event: Event, given: dict[str, Any], _output: dict[str, Any]) -> Written:
    return Written(event.event_id, event.ts, event.name or "", event.parent_id, content_hash(given))


def _conflict(event: Event, _given: dict[str, Any], output: dict[str, Any]) -> tuple[str, dt.datetime, Found]:
    texts = output.get("texts")
    if not isinstance(texts, list):
        raise NoStepError("it does not hold both texts")
    found = Found(str(output.get("kind")), str(output.get("with")), tuple(str(text) for text in texts))
    return event.name or "", event.ts, found


def _rolled_back(event: Event, _given: dict[str, Any], _output: dict[str, Any]) -> tuple[str, dt.datetime]:
    return event.name or "", event.ts


_READERS: dict[Action, Callable[[Event, dict[str, Any], dict[str, Any]], Any]] = {
    Action.MEMORY_PROPOSED: _memory_proposed,
    Action.SKILL_PROPOSED: _skill_proposed,
    Action.PROPOSAL_DECIDED: _decided,
    Action.PROPOSAL_UNDONE: _mark,
    Action.MEMORY_RETRACTED: _mark,
    Action.MEMORY_WRITTEN: _written,
    Action.SKILL_WRITTEN: _written,
    Action.CONFLICT_FOUND: _conflict,
    Action.ROLLED_BACK: _rolled_back,
}
