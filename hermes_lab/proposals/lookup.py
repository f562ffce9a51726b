"""Finding what a person names in the queue: a proposal, a decision, an active memory; or saying why it is not there."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_lab.memory.records import Memory, State
from hermes_lab.proposals.history import History
from hermes_lab.proposals.session import ProposalError
from hermes_lab.proposals.standing import Standing
from hermes_lab.proposals.steps import Outcome, Proposal

_LEAST = 4  # characters of an id that can name it


def find(standing: Standing, asked: str) -> Proposal:
    """Return the proposal that an id names: an event's, its beginning or end, a memory's, or a skill's name.

    Of several proposals of one name, the one that waits.

    Raises:
        ProposalError: none, or several.
    """
    exact = [one for one in standing.proposals if one.id == asked]
    named = [one for one in standing.proposals if one.name == asked]
    waiting = [one for one in named if one.outcome is Outcome.PENDING]
    if exact or len(waiting) == 1 or len(named) == 1:
        return (exact or waiting or named)[0]
    partly = named or [one for one in standing.proposals if _fits(one.id, asked)]
    by_id = {one.id: one for one in partly}
    return by_id[_one(list(by_id), asked)]


def find_undoable(history: History, standing: Standing, asked: str) -> str:
    """Return the id of the decision or retraction that an id, or the end or beginning of one, names.

    Raises:
        ProposalError: none, or several; one that is undone, or that a later decision on the same thing hides.
    """
    known = [one.id for one in history.decisions] + [one.id for one in history.retractions]
    found = asked if asked in known else _one([one for one in known if _fits(one, asked)], asked)
    mark = history.undone.get(found)
    if mark is not None:
        raise ProposalError(f"{found} was undone already, by {mark.by}: {mark.reason}")
    approved = [one for one in standing.proposals if one.decision and one.outcome is Outcome.APPROVED]
    of_it = next((one for one in approved if one.decision and one.decision.id == found), None)
    for other in approved:
        if of_it and other.decision and other.name == of_it.name and other.decision.id > found:
            raise ProposalError(f"{of_it.name} stands by a later decision: undo {other.decision.id} first")
    return found


def find_active(standing: Standing, memory: str) -> Memory:
    """Return an active memory.

    Raises:
        ProposalError: there is none of this id, or it is not active.
    """
    for one in standing.memories:
        if one.id == memory and one.state is State.ACTIVE:
            return one
        if one.id == memory:
            raise ProposalError(f"{memory} is {one.state}, not active")
    raise ProposalError(f"there is no memory {memory!r}: `hermes-lab memory list` names them")


def same_decision(proposal: Proposal, outcome: Outcome, by: str) -> str | None:
    """Return the id of the decision on a proposal, where the same person decided the same."""
    made = proposal.decision
    return made.id if made is not None and made.outcome is outcome and made.by == by else None


def check_open(proposal: Proposal) -> None:
    """Refuse a proposal that does not wait for a decision any more.

    Raises:
        ProposalError: it was decided, or has expired.
    """
    made = proposal.decision
    if made is None:
        return
    happened = "expired" if made.outcome is Outcome.EXPIRED else f"was {made.outcome} already by {made.by}"
    raise ProposalError(
        f"{proposal.called} {happened} at {made.ts:%Y-%m-%d %H:%M} UTC ({made.reason}): undo that first ({made.id})"
    )


def _fits(event_id: str, asked: str) -> bool:
    return len(asked) >= _LEAST and (event_id.endswith(asked) or event_id.startswith(asked))


def _one(found: Sequence[str], asked: str) -> str:
    if len(found) == 1:
        return found[0]
    if not found:
        raise ProposalError(f"there is no proposal or decision {asked!r}: `hermes-lab review list --all` names them")
    raise ProposalError(f"{asked!r} names {len(found)} of them: give an id, or more of one")
