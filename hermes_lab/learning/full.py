"""Full reflection at the end of a session: what of all of it is worth keeping. It may propose memories and skills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes_lab.learning.drafting import Back, draft
from hermes_lab.learning.micro import propose_memory, propose_skill
from hermes_lab.learning.record import Learned, record
from hermes_lab.learning.turns import SessionTurn, turns_of
from hermes_lab.learning.wishes import wish_in
from hermes_lab.log import Writer

if TYPE_CHECKING:
    from hermes_lab.lab import Lab
    from hermes_lab.proposals import Queue

PROMPT_TOKENS = 5000
"""At most so many tokens go into a full reflection."""

_NAME = "full"
_SOURCE = "full_reflection"
_MOST_MEMORIES = 5
_ALIKE = 2  # one trajectory is never enough for a skill


def reflect_on_session(lab: Lab, queue: Queue, writer: Writer, run_id: str, *, back: Back | None = None) -> Learned:
    """Reflect on a session that ended, and return what was proposed.

    Args:
        lab: whose log the session is in.
        queue: takes proposals.
        writer: of that log.
        run_id: the session.
        back: the model that drafts; None to go by rules alone.
    """
    writer.flush()
    turns = turns_of(lab.log, run_id)
    parts = [*_wishes(queue, turns, run_id), *_skills(queue, turns, run_id)]
    tokens = 0
    if back is not None and turns:
        notes, tokens = draft(
            back,
            turns,
            purpose=_SOURCE,
            tokens_at_most=PROMPT_TOKENS,
            most=_MOST_MEMORIES,
            writer=writer,
            run_id=run_id,
        )
        for note in notes:
            parts.append(_on_whole_session(queue, turns, note.text, note.kind, run_id))
    learned = Learned(
        memories=tuple(one for part in parts for one in part.memories),
        skills=tuple(one for part in parts for one in part.skills),
        refused=tuple(one for part in parts for one in part.refused),
        tokens=tokens,
    )
    version = turns[-1].config_version if turns else None
    record(writer, _NAME, learned, run_id=run_id, config_version=version, trigger="session end")
    writer.flush()
    return learned


def _wishes(queue: Queue, turns: Sequence[SessionTurn], run_id: str) -> list[Learned]:
    found: list[Learned] = []
    for turn in turns:
        wish = wish_in(turn.said)
        if wish is not None and len(found) < _MOST_MEMORIES:
            found.append(propose_memory(queue, turn, wish.text, wish.kind, _SOURCE, run_id))
    return found


def _skills(queue: Queue, turns: Sequence[SessionTurn], run_id: str) -> list[Learned]:
    """Propose a skill for each way of working that succeeded in several turns of the session."""
    by_pattern: dict[str, list[SessionTurn]] = {}
    for turn in turns:
        if turn.succeeded and len({call.tool for call in turn.calls}) >= 2:
            by_pattern.setdefault(turn.pattern, []).append(turn)
    return [
        propose_skill(queue, alike, [turn.calls[-1].event_id for turn in alike], _SOURCE, run_id)
        for alike in by_pattern.values()
        if len(alike) >= _ALIKE
    ]


def _on_whole_session(queue: Queue, turns: Sequence[SessionTurn], text: str, kind: str, run_id: str) -> Learned:
    """Propose what a model noted on the turn that supports it best: the first that the queue takes."""
    refused: Learned | None = None
    for turn in turns:
        learned = propose_memory(queue, turn, text, kind, _SOURCE, run_id)
        if not learned.refused:
            return learned
        refused = refused or learned
    return refused or Learned()
