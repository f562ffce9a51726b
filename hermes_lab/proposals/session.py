"""Writing to the approval queue: one process at a time, with ids that are newer than whatever stands, whole or undone.

A tool that runs in an episode is refused. That guard is against slips, for a tool is code of this very process: one
that starts threads or programs of its own could pass it, and then still has to name a person in the log.

The only code that writes `memory_written`, `skill_written`, `memory_retracted`, `proposal_decided` and
`proposal_undone`. Use `proposals.Queue`, which checks what is written here.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hermes_lab import payload
from hermes_lab.conflicts.finding import Conflict
from hermes_lab.errors import HermesLabError
from hermes_lab.events import Event
from hermes_lab.kinds import Action, Status
from hermes_lab.log import Log, files, new_id
from hermes_lab.log.redact import Redactor
from hermes_lab.log.writer import Writer
from hermes_lab.memory.support import Evidence
from hermes_lab.proposals.history import History, read
from hermes_lab.proposals.people import EXPIRY
from hermes_lab.proposals.standing import Standing, approved_record, as_of, loose_ends, written_input
from hermes_lab.proposals.steps import Decision, Outcome, Proposal, read_step
from hermes_lab.sql_files import read_sql
from hermes_lab.tools.limits import time_left

CHANNEL = "review"
_WAIT_S = 1.0


class ProposalError(HermesLabError, ValueError):
    """A proposal, decision or undo that cannot be; the message says why and what to do."""

    exit_code = 65


class Session:
    """The queue, held by this process until the end of the `with` block.

    Attributes:
        history: what the log said when the session began.
        standing: what stands, as far as this session has changed it.
        made: what was proposed in this session.
        expired: ids of the proposals that expired when it began.
    """

    def __init__(self, log: Log, history: History, writer: Writer, now: dt.datetime) -> None:
        """Use `held`."""
        self.history = history
        self.standing: Standing = as_of(history, now)
        self.made: list[Any] = []
        self.expired: tuple[str, ...] = ()
        self._evidence: dict[str, Evidence | None] = {}
        self._log = log
        self._writer = writer
        self._last = max(_ids(history), default="")

    def evidence(self, ids: Sequence[str]) -> list[Evidence]:
        """Return the events of these ids that are in the log.

        Looked up once: whatever is written in this session makes the next look at the log a costly one.
        """
        wanted = dict.fromkeys(ids)
        self.look_up(wanted)
        return [found for event_id in wanted if (found := self._evidence.get(event_id)) is not None]

    def look_up(self, ids: Iterable[str]) -> None:
        """Read the events of these ids at once, for `evidence` to come."""
        fresh = [event_id for event_id in dict.fromkeys(ids) if event_id not in self._evidence]
        self._evidence |= dict.fromkeys(fresh)
        self._evidence |= {one.id: one for one in read_evidence(self._log, fresh)}

    def propose(
        self, action: Action, name: str, given: Mapping[str, Any], *, config_version: str | None, run_id: str | None
    ) -> Proposal:
        """Write a proposal and return it."""
        event = self._record(action, name=name, input=dict(given), config_version=config_version, run_id=run_id)
        proposal = read_step(event)
        assert isinstance(proposal, Proposal)  # noqa: S101 - it was checked before it was written
        return proposal

    def conflicts(self, proposal_id: str, found: Sequence[Conflict], run_id: str | None) -> None:
        """Write the conflicts that were found."""
        for one in found:
            output = {"kind": str(one.kind), "with": one.other, "texts": list(one.texts), "why": one.why}
            self._record(Action.CONFLICT_FOUND, name=proposal_id, output=output, parent_id=proposal_id, run_id=run_id)

    def decide(
        self,
        proposal: Proposal,
        outcome: Outcome,
        *,
        by: str,
        reason: str,
        edited: str | None = None,
        replaces: Sequence[str] = (),
    ) -> str:
        """Write a decision and, for an approval, what follows from it; return the decision's id.

        The decision by itself is the approval: a kill right after it changes nothing, and `finish` writes the rest.
        """
        event = self._record(
            Action.PROPOSAL_DECIDED,
            name=proposal.id,
            input={"by": by, "reason": reason},
            output={
                "decision": str(outcome),
                "edited": edited,
                "replaces": list(replaces),
                "digest": proposal.digest,
            },
            parent_id=proposal.id,
            run_id=proposal.run_id,
            config_version=proposal.config_version,
            status=Status.OK if outcome is Outcome.APPROVED else Status.DENIED,
        )
        decision = read_step(event)
        assert isinstance(decision, Decision)  # noqa: S101 - it was checked before it was written
        decided = proposal._replace(outcome=outcome, decision=decision)
        if outcome is Outcome.APPROVED:
            self._write(decided)
        self._count(decided)
        return event.event_id

    def mark(self, action: Action, about: str, *, by: str, reason: str, parent_id: str | None = None) -> str:
        """Write that something was undone or retracted, and return the event's id."""
        given = {"by": by, "reason": reason}
        return self._record(action, name=about, input=given, parent_id=parent_id, status=Status.OK).event_id

    def finish(self) -> int:
        """Write the events that approvals before a kill left unwritten; return how many."""
        unfinished, _ = loose_ends(self.history, self.standing)
        for one in unfinished:
            self._write(one)
        return len(unfinished)

    def expire(self, after: dt.timedelta) -> None:
        """Let expire what has waited for longer than `after`."""
        due = [one for one in self.standing.pending() if is_due(one, after, self.standing.at)]
        for one in due:
            days = f"{after.total_seconds() / 86_400:g}"
            self.decide(one, Outcome.EXPIRED, by=EXPIRY, reason=f"no decision within {days} days")
        self.expired = tuple(one.id for one in due)

    def _write(self, approved: Proposal) -> None:
        """Write the event that follows from an approved proposal, for whoever reads the log by itself."""
        assert approved.decision is not None  # noqa: S101 - approved by a decision
        self._record(
            Action.MEMORY_WRITTEN if approved.memory is not None else Action.SKILL_WRITTEN,
            name=approved.name,
            input=written_input(approved),
            parent_id=approved.decision.id,
            run_id=approved.run_id,
            config_version=approved.config_version,
            status=Status.OK,
        )

    def _count(self, decided: Proposal) -> None:
        """Let what was decided stand for the rest of this session."""
        proposals = tuple(decided if one.id == decided.id else one for one in self.standing.proposals)
        self.standing = self.standing._replace(proposals=proposals)
        if decided.outcome is Outcome.APPROVED and decided.memory is not None:
            others = [one for one in self.standing.memories if one.id != decided.name]
            self.standing = self.standing._replace(memories=(*others, approved_record(decided, decided.memory)))

    def _record(self, action: Action, **columns: Any) -> Event:
        self._last = id_after(self._last)
        return self._writer.record(action, event_id=self._last, channel=CHANNEL, **columns)


@contextlib.contextmanager
def held(
    log: Log, redactor: Redactor, now: dt.datetime | None, *, expire_after: dt.timedelta, wait_s: float = _WAIT_S
) -> Iterator[Session]:
    """Hold the queue: what is written in the block is on the disk at its end.

    Before anything else, what a kill left unwritten is written, and what has waited for too long expires.

    Args:
        log: whose queue it is.
        redactor: takes secrets out of what is written.
        now: the moment at which things stand or expire; None for this one.
        expire_after: how long a proposal may wait.
        wait_s: seconds to wait for another process.

    Raises:
        BusyError: another process decides at this moment.
        ProposalError: an episode asks for it.
        WriteError: the disk did not take it.
    """
    refuse_episodes()
    with files.disk_errors(f"opening the queue in {log.layout.folder}"):
        log.layout.create()
    lock = log.layout.folder / ".review.lock"
    with files.locked(lock, "somebody else is deciding on proposals at this moment", timeout_s=wait_s):
        history = read(log)
        with log.writer(redactor=redactor) as writer:
            # Taken now that the queue is held: what was decided while this process waited counts.
            session = Session(log, history, writer, now or history.moment())
            session.finish()
            session.expire(expire_after)
            yield session


def is_due(proposal: Proposal, after: dt.timedelta, now: dt.datetime) -> bool:
    """Return whether a proposal has waited for longer than `after`."""
    return now - (proposal.waits_since or proposal.ts) >= after


def refuse_episodes() -> None:
    """Refuse the queue to a tool that is running, for an episode may only read memories and skills.

    Raises:
        ProposalError: a tool's time limit is running here, or this is the child process of an isolated tool.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if math.isfinite(time_left()) or (main is not None and main.name == "hermes_lab.tools.child"):
        raise ProposalError("a tool cannot propose or decide: while an episode runs, memory and skills are only read")


def read_evidence(log: Log, ids: Sequence[str]) -> list[Evidence]:
    """Return the events of these ids that are in the log, in order."""
    if not ids:
        return []
    rows = log.sql(read_sql(__package__, "support"), [list(dict.fromkeys(ids))]).fetchall()
    return [
        Evidence(event_id, action, name, run_id, episode_id, status, _value(given), _value(output))
        for event_id, action, name, run_id, episode_id, _type, status, given, output in rows
    ]


def _ids(history: History) -> Iterator[str]:
    yield from (one.id for one in history.proposals)
    yield from (one.id for one in history.decisions)
    yield from (one.id for one in history.written)
    yield from (one.id for one in history.retractions)
    yield from (one.id for one in history.undone.values())


def _value(text: str | None) -> Any:
    return None if text is None else payload.loads(payload.restore_text(text))


def id_after(last: str) -> str:
    """Return a new event id that is ordered after `last`, also where the clock was set back.

    >>> id_after("ffffff00-0000-7fff-bfff-ffffffffffff") > "ffffff00-0000-7fff-bfff-ffffffffffff"
    True
    """
    fresh = new_id()
    if fresh > last:
        return fresh
    milliseconds = int(last.replace("-", "")[:12], 16) + 1
    return str(uuid.UUID(int=(milliseconds << 80) | (uuid.UUID(fresh).int & ((1 << 80) - 1))))
