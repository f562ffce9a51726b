"""Making proposals within a held queue: checked, never twice, with the conflicts that they would bring."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from hermes_lab import conflicts
from hermes_lab.conflicts.finding import Conflict, Judge, Statement
from hermes_lab.kinds import Action
from hermes_lab.log.redact import Redactor
from hermes_lab.memory.records import Memory, State, memory_id
from hermes_lab.proposals import check
from hermes_lab.proposals.session import ProposalError, Session
from hermes_lab.proposals.standing import Standing
from hermes_lab.proposals.steps import Outcome, Proposal, SkillText, Source
from hermes_lab.tasks import ANY_TYPE


class Draft(NamedTuple):
    """A memory before it is one; see `memory.Memory` for the fields."""

    text: str
    kind: str
    scope: str = ANY_TYPE
    key: str | None = None
    confidence: float | None = None
    expires: dt.datetime | None = None
    pinned: bool = False


class Origin(NamedTuple):
    """Where a proposal comes from.

    Attributes:
        evidence: ids of the events that it rests on.
        source: micro_reflection, full_reflection, import or person.
        config_version: the version at work when it was learned.
        run_id: the session, round or import that proposes.
    """

    evidence: Sequence[str]
    source: str
    config_version: str | None = None
    run_id: str | None = None


class Made(NamedTuple):
    """What became of proposing something.

    Attributes:
        proposal: id of the proposal's event; of the earlier one, where there is one.
        name: the memory's id or the skill's name.
        new: whether it was written now; False where the same waits, stands or was refused already.
        conflicts: what it does not go together with.
    """

    proposal: str
    name: str
    new: bool
    conflicts: tuple[Conflict, ...] = ()


def propose_memory(
    session: Session, draft: Draft, origin: Origin, redactor: Redactor, judge: Judge | None = None
) -> Made:
    """Propose a memory.

    Raises:
        ProposalError: it cannot be; the message says why.
    """
    source = source_of(origin.source)
    memory = _record(draft, origin, redactor)
    before = _earlier(session, memory, source)
    if before is not None:
        return Made(before, memory.id, new=False)
    evidence = session.evidence(origin.evidence)
    wrong = check.why_not_memory(memory, source, evidence, len(set(origin.evidence)), memory.text)
    if wrong:
        raise ProposalError(f"this memory cannot be proposed: {wrong} ({memory.text[:80]!r})")
    given = {
        "memory": msgspec.to_builtins(memory),
        "evidence": list(dict.fromkeys(origin.evidence)),
        "source": str(source),
    }
    proposal = session.propose(
        Action.MEMORY_PROPOSED, memory.id, given, config_version=origin.config_version, run_id=origin.run_id
    )
    found = memory_conflicts(session.standing, memory, memory.text, judge)
    session.conflicts(proposal.id, found, origin.run_id)
    made = Made(proposal.id, memory.id, True, found)
    session.made.append(made)
    return made


def is_unknown(session: Session, draft: Draft, redactor: Redactor) -> bool:
    """Return whether nothing like an import's draft waits, stands or was refused."""
    return _earlier(session, _record(draft, Origin((), Source.IMPORT), redactor), Source.IMPORT) is None


def propose_skill(session: Session, name: str, skill: SkillText, origin: Origin) -> Made:
    """Propose a skill, or an edit of one; its texts must be free of secrets already.

    Raises:
        ProposalError: it cannot be; the message says why.
    """
    source = source_of(origin.source)
    before = [one for one in session.standing.proposals if one.name == name and one.skill == skill]
    if before and _is_settled(before[-1], source):
        return Made(before[-1].id, name, new=False)
    wrong = why_stale(session.standing, name, skill) or check.why_not_skill(
        name,
        skill,
        source,
        session.evidence(origin.evidence),
        len(set(origin.evidence)),
        standing_text(session.standing, name),
    )
    if wrong:
        raise ProposalError(f"the skill {name!a} cannot be proposed: {wrong}")
    removed = check.removed_lines(standing_text(session.standing, name), skill.text)
    given: dict[str, Any] = {
        "text": skill.text,
        "files": dict(skill.files),
        "base": skill.base,
        "evidence": list(dict.fromkeys(origin.evidence)),
        "source": str(source),
        "removed": len(removed),
        "removed_lines": removed,
    }
    proposal = session.propose(
        Action.SKILL_PROPOSED, name, given, config_version=origin.config_version, run_id=origin.run_id
    )
    found = skill_conflicts(session.standing, name, skill.text)
    session.conflicts(proposal.id, found, origin.run_id)
    return Made(proposal.id, name, True, found)


def source_of(name: str) -> Source:
    """Return the source that a name means.

    Raises:
        ProposalError: none.
    """
    try:
        return Source(name)
    except ValueError:
        raise ProposalError(f"{name!r} is no source: it is one of {', '.join(Source)}") from None


def standing_text(standing: Standing, name: str) -> str:
    """Return the text of the skill that stands under a name; "" where none does."""
    skill = standing.skills.get(name)
    return skill.text if skill else ""


def why_stale(standing: Standing, name: str, skill: SkillText) -> str | None:
    """Return why a skill's text was not made from the one that stands; None where it was."""
    stands = standing.skills.get(name)
    if stands is None and skill.base is None:
        return None
    if stands is None:
        return f"it edits a text (base {str(skill.base)[:12]}), and no skill of this name stands: propose it as new"
    if skill.base is None:
        return f"a skill of this name stands (sha256 {stands.sha256[:12]}): propose an edit with that base"
    if skill.base != stands.sha256:
        return f"it edits {skill.base[:12]}, and {stands.sha256[:12]} stands by now: make the edit again from that"
    return None


def memory_conflicts(standing: Standing, memory: Memory, text: str, judge: Judge | None) -> tuple[Conflict, ...]:
    """Return the conflicts of a memory that is to have `text` with the active ones."""
    others = [Statement(one.id, one.text, one.scope, one.key) for one in standing.memories if one.state is State.ACTIVE]
    return conflicts.find(Statement(memory.id, text, memory.scope, memory.key), others, judge)


def skill_conflicts(standing: Standing, name: str, text: str) -> tuple[Conflict, ...]:
    """Return the conflicts of a skill that is to have `text` with the others that stand."""
    others = [Statement(one.name, one.text) for one in standing.skills.values()]
    return conflicts.find_in_texts(Statement(name, text), others)


def _record(draft: Draft, origin: Origin, redactor: Redactor) -> Memory:
    values: Mapping[str, Any] = draft._asdict()
    text = redactor.text(draft.text).strip() if isinstance(draft.text, str) else draft.text
    key = redactor.text(draft.key) if isinstance(draft.key, str) else draft.key
    fresh = {**values, "text": text, "key": key, "sources": tuple(origin.evidence), "state": State.PROPOSED}
    try:
        fresh["id"] = memory_id(str(text), str(draft.kind), str(draft.scope), key)
        return msgspec.convert({**fresh, "config_version": origin.config_version}, Memory)
    except msgspec.ValidationError as error:
        raise ProposalError(f"this is no memory: {str(error).replace('$.', '')} ({str(text)[:80]!a})") from None


def _earlier(session: Session, memory: Memory, source: Source) -> str | None:
    """Return the id of an earlier proposal of the same content that makes a new one idle."""
    made: Made
    for made in session.made:
        if made.name == memory.id:
            return made.proposal
    same = [one for one in session.standing.proposals if one.name == memory.id]
    if not same:
        return None
    last = same[-1]
    if last.outcome is not Outcome.APPROVED:
        return last.id if _is_settled(last, source) else None
    if last.config_version in session.history.rolled_back:
        return None
    state = next(one.state for one in session.standing.memories if one.id == memory.id)
    if state is State.ACTIVE or (state is State.RETRACTED and source is not Source.PERSON):
        return last.id
    return None


def _is_settled(proposal: Proposal, source: Source) -> bool:
    """Return whether a proposal makes another one like it idle: a person may ask again for what was refused."""
    if proposal.outcome is Outcome.EXPIRED:
        return False
    return not (proposal.outcome is Outcome.REJECTED and source is Source.PERSON)
