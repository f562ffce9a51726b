"""What the log says of proposals, and what stands of it at a moment: the queue, the memories, the skills.

Untrusted on purpose: whatever has the form of an approval but not its chain (an approval by a named person, with a
reason, of this very content) counts for nothing and is listed as refused. An approval is one event, its decision: what
it makes active follows from the decision and the proposal alone, so that no kill can leave half of one, and a
`memory_written` or `skill_written` that no decision stands behind does nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hermes_lab.events import Event
from hermes_lab.kinds import Action
from hermes_lab.log import Log
from hermes_lab.proposals.steps import Decision, Found, Mark, NoStepError, Proposal, Written, read_step
from hermes_lab.sql_files import read_sql


class Refused(NamedTuple):
    """An event that has the form of a step of the queue and counts for nothing, with the reason."""

    id: str
    action: str
    name: str | None
    reason: str


class History(NamedTuple):
    """The steps of the queue, each once, in order of their ids. Make one with `of` or `read`."""

    proposals: tuple[Proposal, ...]
    decisions: tuple[Decision, ...]
    undone: Mapping[str, Mark]
    retractions: tuple[Mark, ...]
    written: tuple[Written, ...]
    rolled_back: Mapping[str, dt.datetime]
    conflicts: Mapping[str, tuple[tuple[dt.datetime, Found], ...]]
    last_used: Mapping[str, dt.datetime]
    refused: tuple[Refused, ...]

    def moment(self) -> dt.datetime:
        """Return now, or the time of the last step where the clock was set back since: a moment that has seen all."""
        times = [one.ts for one in self.proposals] + [one.ts for one in self.decisions]
        times += [one.ts for one in self.retractions] + [one.ts for one in self.undone.values()]
        return max([dt.datetime.now(dt.UTC), *times, *self.rolled_back.values()])


ACTIONS = (
    Action.MEMORY_PROPOSED,
    Action.MEMORY_WRITTEN,
    Action.MEMORY_RETRACTED,
    Action.SKILL_PROPOSED,
    Action.SKILL_WRITTEN,
    Action.CONFLICT_FOUND,
    Action.PROPOSAL_DECIDED,
    Action.PROPOSAL_UNDONE,
    Action.ROLLED_BACK,
)
"""The kinds of events that memories and skills are a view of."""


def read(log: Log) -> History:
    """Return the history of a log.

    Raises:
        CorruptLogError: the log cannot be read.
    """
    names = ", ".join(f"'{action}'" for action in ACTIONS)
    found = of(log.events(f"action in ({names})"))
    used = log.sql(read_sql(__package__, "memories_used")).fetchall()
    return found._replace(last_used={name: when.astimezone(dt.UTC) for name, when in used if name})


def of(events: Iterable[Event], last_used: Mapping[str, dt.datetime] | None = None) -> History:
    """Return the history that `events` make, in whatever order they come and however often each does."""
    steps: dict[Action, list[Any]] = {action: [] for action in ACTIONS}
    refused: list[Refused] = []
    seen: set[Event] = set()
    for event in sorted(events, key=lambda one: one.event_id):
        if event.action not in steps or event in seen:
            continue
        seen.add(event)
        try:
            steps[event.action].append(read_step(event))
        except NoStepError as error:
            refused.append(Refused(event.event_id, event.action, event.name, str(error)))
    conflicts: dict[str, list[tuple[dt.datetime, Found]]] = {}
    for about, ts, found in steps[Action.CONFLICT_FOUND]:
        conflicts.setdefault(about, []).append((ts, found))
    rolled_back: dict[str, dt.datetime] = {}
    for version, ts in steps[Action.ROLLED_BACK]:
        rolled_back[version] = min(ts, rolled_back.get(version, ts))
    decisions = tuple(steps[Action.PROPOSAL_DECIDED])
    proposed = steps[Action.MEMORY_PROPOSED] + steps[Action.SKILL_PROPOSED]
    return History(
        _single(proposed, decisions, refused),
        decisions,
        {mark.about: mark for mark in reversed(steps[Action.PROPOSAL_UNDONE])},
        tuple(steps[Action.MEMORY_RETRACTED]),
        tuple(steps[Action.MEMORY_WRITTEN] + steps[Action.SKILL_WRITTEN]),
        rolled_back,
        {about: tuple(found) for about, found in conflicts.items()},
        last_used or {},
        tuple(refused),
    )


def _single(proposed: list[Proposal], decisions: tuple[Decision, ...], refused: list[Refused]) -> tuple[Proposal, ...]:
    """Return each proposal once; of several events with one id, the one that was decided on, else none."""
    by_id: dict[str, list[Proposal]] = {}
    for one in proposed:
        by_id.setdefault(one.id, []).append(one)
    digests = {decision.digest for decision in decisions}
    kept = []
    for event_id, ones in by_id.items():
        right = [one for one in ones if one.digest in digests] if len(ones) > 1 else ones
        if len(right) == 1:
            kept.append(right[0])
        if len(ones) > 1:
            refused.append(Refused(event_id, "proposal", ones[0].name, "several events have this id"))
    return tuple(sorted(kept, key=lambda one: one.id))
