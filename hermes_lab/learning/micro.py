"""Micro-reflection: after a turn, by cheap rules, at most one memory proposed and evidence for at most one skill."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from hermes_lab.config import MicroReflection
from hermes_lab.learning.drafting import Back, draft
from hermes_lab.learning.record import Learned, record
from hermes_lab.learning.skill_draft import skill_name, skill_text
from hermes_lab.learning.turns import SessionTurn, turns_of
from hermes_lab.learning.wishes import has_intent, wish_in
from hermes_lab.log import Writer
from hermes_lab.proposals import ProposalError
from hermes_lab.sql_files import read_sql

if TYPE_CHECKING:
    from hermes_lab.lab import Lab
    from hermes_lab.proposals import Queue

PROMPT_TOKENS = 500
"""About so many tokens go into a micro-reflection."""

_NAME = "micro"
_SOURCE = "micro_reflection"


def trigger(turn: SessionTurn, since_last: int, settings: MicroReflection, writers: Collection[str]) -> str | None:
    """Return why a turn is worth a micro-reflection, or None.

    Args:
        turn: that was just answered.
        since_last: turns since the last micro-reflection, this one included.
        settings: thresholds.
        writers: names of the tools that change something.
    """
    if since_last < settings.turns:
        return None
    if has_intent(turn.said):
        return "intent words"
    if len(turn.calls) >= settings.calls:
        return f"{len(turn.calls)} tool calls"
    if any(call.tool in writers and call.chars > settings.output_chars for call in turn.calls):
        return "a large change"
    return None


class Micro:
    """The micro-reflections of one session."""

    def __init__(
        self,
        lab: Lab,
        queue: Queue,
        writer: Writer,
        run_id: str,
        settings: MicroReflection,
        *,
        writers: Collection[str] = (),
        back: Callable[[], Back | None] = lambda: None,
    ) -> None:
        """Begin.

        Args:
            lab: whose log the turns are in.
            queue: takes proposals.
            writer: of that log.
            run_id: the session.
            settings: thresholds.
            writers: names of the tools that change something.
            back: opens the model that drafts when it is needed; None of it to go by rules alone.
        """
        self._lab = lab
        self._queue = queue
        self._writer = writer
        self._run_id = run_id
        self._settings = settings
        self._writers = writers
        self._back = back
        self._since_last = 0

    def after_turn(self) -> Learned | None:
        """Look at the last turn; return what was proposed, or None where it was not worth a look."""
        self._since_last += 1
        if self._since_last < self._settings.turns:
            return None  # known without reading the log
        self._writer.flush()
        turns = turns_of(self._lab.log, self._run_id)
        why = trigger(turns[-1], self._since_last, self._settings, self._writers) if turns else None
        if why is None:
            return None
        # A wish in a turn that came too soon after the last look is not lost.
        window = turns[-self._since_last :]
        self._since_last = 0
        learned = self._memory(window)
        evidence, learned = self._skill(turns[-1], learned)
        record(
            self._writer,
            _NAME,
            learned,
            run_id=self._run_id,
            config_version=turns[-1].config_version,
            trigger=why,
            skill=evidence,
        )
        self._writer.flush()
        return learned

    def _memory(self, window: Sequence[SessionTurn]) -> Learned:
        """Propose at most one memory of the turns since the last look."""
        for turn in window:
            wish = wish_in(turn.said)
            if wish is not None:
                return propose_memory(self._queue, turn, wish.text, wish.kind, _SOURCE, self._run_id)
        back = self._back()
        if back is None:
            return Learned()
        notes, tokens = draft(
            back,
            window,
            purpose=_SOURCE,
            tokens_at_most=PROMPT_TOKENS,
            most=1,
            writer=self._writer,
            run_id=self._run_id,
        )
        learned = Learned(tokens=tokens)
        if not notes:
            return learned
        return propose_memory(self._queue, window[-1], notes[0].text, notes[0].kind, _SOURCE, self._run_id)._replace(
            tokens=tokens
        )

    def _skill(self, turn: SessionTurn, learned: Learned) -> tuple[dict[str, str] | None, Learned]:
        """Note a success as evidence for a skill; the second one of its kind makes a proposal."""
        if not turn.succeeded or len({call.tool for call in turn.calls}) < 2:  # one tool's use is its description
            return None, learned
        evidence = {"pattern": turn.pattern, "episode": turn.episode_id, "event": turn.calls[-1].event_id}
        earlier = self._lab.log.sql(read_sql(__package__, "patterns_seen"), [turn.pattern]).fetchall()
        others = {episode: event for episode, event in earlier if episode != turn.episode_id}
        if not others:
            return evidence, learned
        alike = [one for one in _turns_of_episodes(self._lab, list(others)) if one.pattern == turn.pattern]
        proposed = propose_skill(
            self._queue, [*alike, turn], [*others.values(), evidence["event"]], _SOURCE, self._run_id
        )
        return evidence, learned._replace(skills=proposed.skills, refused=(*learned.refused, *proposed.refused))


def propose_memory(queue: Queue, turn: SessionTurn, text: str, kind: str, source: str, run_id: str) -> Learned:
    """Propose a memory on the evidence of one turn; what the queue refuses is told."""
    evidence = [turn.message_id] if turn.message_id else []
    evidence += [call.event_id for call in turn.calls]
    try:
        made = queue.propose_memory(
            text, kind, evidence=evidence, source=source, config_version=turn.config_version, run_id=run_id
        )
    except ProposalError as error:
        return Learned(refused=(f"{text[:80]}: {error}",))
    return Learned(memories=(made.proposal,)) if made.new else Learned()


def propose_skill(
    queue: Queue, turns: Sequence[SessionTurn], evidence: Sequence[str], source: str, run_id: str
) -> Learned:
    """Propose a skill made of turns that succeeded alike, unless one of its name stands or waits."""
    name = skill_name(turns[0])
    if name in queue.standing().skills:
        return Learned()  # an edit of a standing skill is a diff for a person to make, not a rule's rewrite
    try:
        made = queue.propose_skill(
            name,
            skill_text(turns),
            evidence=list(dict.fromkeys(evidence)),
            source=source,
            config_version=turns[-1].config_version,
            run_id=run_id,
        )
    except ProposalError as error:
        return Learned(refused=(f"skill {name}: {error}",))
    return Learned(skills=(made.proposal,)) if made.new else Learned()


def _turns_of_episodes(lab: Lab, episodes: Sequence[str]) -> list[SessionTurn]:
    runs = lab.log.sql(
        "select distinct run_id from events where episode_id in (select unnest(?)) order by run_id", [list(episodes)]
    ).fetchall()
    wanted = set(episodes)
    return [turn for (run_id,) in runs if run_id for turn in turns_of(lab.log, run_id) if turn.episode_id in wanted]
