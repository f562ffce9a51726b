"""Deciding on proposals within a held queue: what a person may approve, and what an approval brings with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from hermes_lab.compress import estimate_tokens
from hermes_lab.conflicts.finding import Conflict, Judge, Kind
from hermes_lab.memory.records import PINNED_TOKENS, Memory, pinned_tokens
from hermes_lab.proposals import check
from hermes_lab.proposals.making import memory_conflicts, skill_conflicts, standing_text, why_stale
from hermes_lab.proposals.people import why_no_reason, why_not_person
from hermes_lab.proposals.session import ProposalError, Session
from hermes_lab.proposals.standing import Standing, approved_record
from hermes_lab.proposals.steps import Outcome, Proposal


class Signature(NamedTuple):
    """Who decides, and why."""

    by: str
    reason: str


def signed(by: object, reason: object, models: Iterable[str] = ()) -> Signature:
    """Return a signature.

    Raises:
        ProposalError: no named person, or no reason.
    """
    wrong = why_not_person(by, models)
    if wrong:
        raise ProposalError(f"{wrong}: give the name of the person who decides (--by)")
    wrong = why_no_reason(reason)
    if wrong:
        raise ProposalError(f"{wrong}: say why (--reason)")
    return Signature(str(by).strip(), str(reason).strip())


def approve(
    session: Session,
    proposal: Proposal,
    signature: Signature,
    *,
    edited: str | None = None,
    replaces: Sequence[str] = (),
    keep_both: bool = False,
    only_alone: bool = False,
    judge: Judge | None = None,
) -> str:
    """Approve a pending proposal, and return the decision's id; see `proposals.Queue.approve`.

    With `only_alone`, any conflict at all is in the way.

    Raises:
        ProposalError: it cannot be approved as it is; the message says why and what to do.
    """
    if edited == proposal.text:
        edited = None
    text = proposal.text if edited is None else edited
    wrong = _why_not(session, proposal, text)
    if wrong:
        raise ProposalError(f"{proposal.called} cannot be approved: {wrong}")
    found = find_conflicts(session.standing, proposal, text, judge)
    known = {(one.kind, one.other) for one in proposal.conflicts}
    session.conflicts(proposal.id, [one for one in found if (str(one.kind), one.other) not in known], proposal.run_id)
    replaced = _replaced(session.standing, proposal, found, replaces)
    settled = () if only_alone else replaced
    open_ones = [one for one in found if one.other not in settled]
    if open_ones and not keep_both:
        raise ProposalError(_unsettled(proposal, open_ones))
    return session.decide(
        proposal, Outcome.APPROVED, by=signature.by, reason=signature.reason, edited=edited, replaces=replaced
    )


def approve_import(session: Session, proposal: Proposal, signature: Signature, judge: Judge | None = None) -> str:
    """Approve an import among many: only one that goes with all that stands, and about which there is no concern.

    Raises:
        ProposalError: it needs a look.
    """
    worries = check.concerns(proposal)
    if worries:
        raise ProposalError(worries[0])
    return approve(session, proposal, signature, only_alone=True, judge=judge)


def reject(session: Session, proposal: Proposal, signature: Signature) -> str:
    """Reject a pending proposal, and return the decision's id."""
    return session.decide(proposal, Outcome.REJECTED, by=signature.by, reason=signature.reason)


def find_conflicts(standing: Standing, proposal: Proposal, text: str, judge: Judge | None) -> tuple[Conflict, ...]:
    """Return the conflicts that a proposal would bring, were it approved with `text`."""
    if proposal.memory is not None:
        return memory_conflicts(standing, proposal.memory, text, judge)
    return skill_conflicts(standing, proposal.name, text)


def _why_not(session: Session, proposal: Proposal, text: str) -> str | None:
    standing = session.standing
    version = proposal.config_version
    if version in session.history.rolled_back:
        return f"it was learned under {version}, which was rolled back"
    wrong = check.why_core(proposal.source, [text, *(proposal.skill.files.values() if proposal.skill else ())])
    if wrong:
        return wrong
    evidence = session.evidence(proposal.evidence)
    wanted = len(set(proposal.evidence))
    if proposal.memory is None:
        assert proposal.skill is not None  # noqa: S101 - a proposal is of the one or the other
        edited = msgspec.structs.replace(proposal.skill, text=text)
        stands = standing_text(standing, proposal.name)
        return why_stale(standing, proposal.name, edited) or check.why_not_skill(
            proposal.name, edited, proposal.source, evidence, wanted, stands
        )
    memory = proposal.memory
    expires = approved_record(proposal, memory).expires
    if expires is not None and expires <= standing.at:
        return f"it held until {expires:%Y-%m-%d %H:%M} UTC"
    if memory.pinned:
        wrong = why_too_many_pinned(standing, memory, text)
        if wrong:
            return wrong
    return check.why_not_memory(memory, proposal.source, evidence, wanted, text)


def why_too_many_pinned(standing: Standing, memory: Memory, text: str) -> str | None:
    """Return why there is no room for another pinned memory in the prompts of its scope."""
    others = [one for one in standing.memories if one.id != memory.id]
    taken = pinned_tokens(others, memory.scope) + estimate_tokens(text)
    if taken <= PINNED_TOKENS:
        return None
    return f"all pinned memories would take {taken} tokens, and {PINNED_TOKENS} are the most: unpin one first"


def _replaced(
    standing: Standing, proposal: Proposal, found: Iterable[Conflict], asked: Sequence[str]
) -> tuple[str, ...]:
    """Return the memories that an approval supersedes: those that were asked for, and those that the text says."""
    if proposal.memory is None:
        if asked:
            raise ProposalError("a skill replaces its own earlier text only: retract or edit the other one by itself")
        return ()
    known = {one.id for one in standing.memories}
    unknown = [one for one in asked if one not in known]
    if unknown:
        raise ProposalError(f"there is no memory {unknown[0]!r} to replace")
    said = [one.other for one in found if one.kind is Kind.SUPERSEDES]
    return tuple(dict.fromkeys([*asked, *said]))


def _unsettled(proposal: Proposal, found: Sequence[Conflict]) -> str:
    lines = [
        f"{proposal.called} {one.kind} {one.other}: {one.texts[0][:160]!r} against {one.texts[1][:160]!r}"
        for one in found
    ]
    ways = "reject it, edit it, keep both (--keep-both)"
    if proposal.memory is not None:
        ways += ", or let it replace the other (--replace ID)"
    return "\n".join([*lines, f"nothing is merged silently: {ways}"])
