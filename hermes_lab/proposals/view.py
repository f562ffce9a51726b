"""Reading the approval queue: what waits, what stands, what is refused, and the story of each. Writes nothing."""

from __future__ import annotations

import datetime as dt

from hermes_lab.log import Log
from hermes_lab.proposals import audit, lookup
from hermes_lab.proposals.audit import Line
from hermes_lab.proposals.history import History, Refused, read
from hermes_lab.proposals.session import is_due
from hermes_lab.proposals.standing import Standing, as_of, loose_ends
from hermes_lab.proposals.steps import Proposal


class QueueView:
    """The queue of one log, to be read.

    Args:
        log: of the lab.
        expire_days: days that a proposal waits.
    """

    def __init__(self, log: Log, *, expire_days: float) -> None:
        self._log = log
        self._expire_after = dt.timedelta(days=expire_days)

    def history(self) -> History:
        """Return what the log says of the queue."""
        return read(self._log)

    def standing(self, now: dt.datetime | None = None) -> Standing:
        """Return what stands: proposals, memories and skills, as of `now` (an aware time; None for this moment)."""
        history = self.history()
        return as_of(history, now or history.moment())

    def pending(self) -> tuple[Proposal, ...]:
        """Return the proposals that wait, oldest first; those that waited for too long are left out."""
        standing = self.standing()
        return tuple(one for one in standing.pending() if not is_due(one, self._expire_after, standing.at))

    def find(self, asked: str) -> Proposal:
        """Return the proposal that an id names: an event's, its beginning or end, a memory's, or a skill's name.

        Raises:
            ProposalError: none, or several.
        """
        return lookup.find(self.standing(), asked)

    def refused(self) -> tuple[Refused, ...]:
        """Return the events that look like steps of the queue and count for nothing, with the reasons."""
        history = self.history()
        return (*history.refused, *loose_ends(history, as_of(history, history.moment()))[1])

    def audit(self, asked: str) -> list[Line]:
        """Return who did what, when, why and on what evidence; see `audit.audit`."""
        return audit.audit(self._log, self.history(), asked)
