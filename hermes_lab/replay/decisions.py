"""The decisions of an episode, recorded or replayed, in a form in which two can be compared and their change named."""

from __future__ import annotations

from typing import Any, NamedTuple

from hermes_lab import payload
from hermes_lab.effects import Act, Ask, Ending, Note, Permit
from hermes_lab.kinds import Action, Status
from hermes_lab.replay.changes import ChangeKind, shown
from hermes_lab.replay.entries import Entry
from hermes_lab.replay.recording import Recording

CALLED = "called"
ASKED = "asked for permission to call"
REFUSED = "refused"
DENIED = "denied"
ENDED = "ended"
WENT_ON = "went on"


class Decided(NamedTuple):
    """One decision.

    Attributes:
        what: a call that ran, permission asked for one, a call that a check refused or a rule denied, or the end.
        tool: of the call; "" where there is none, or it could not be read.
        arguments: of the call.
        how: the kind of problem, or how the episode ended and with which answer.
        entry: where it is recorded; None where it is new.
    """

    what: str
    tool: str = ""
    arguments: Any = None
    how: str = ""
    entry: Entry | None = None

    def same_as(self, other: Decided) -> bool:
        """Tell whether two decisions are the same, wherever they stand."""
        if (self.what, self.tool, self.how) != (other.what, other.tool, other.how):
            return False
        return same_value(self.arguments, other.arguments)

    def __str__(self) -> str:
        """Say it shortly."""
        call = self.tool if self.arguments is None else f"{self.tool} {payload.dumps(self.arguments)}"
        return shown(" ".join(part for part in (self.what, call, f"({self.how})" if self.how else "") if part))


def same_value(one: Any, other: Any) -> bool:
    """Tell whether two JSON values are the same to the log."""
    return one is other or payload.canonical(one) == payload.canonical(other)


def recorded_decisions(recording: Recording) -> list[Decided]:
    """Return the decisions of an episode, in order."""
    found = [_of_entry(entry) for entry in recording.entries]
    return [one for one in found if one is not None]


def _of_entry(entry: Entry) -> Decided | None:
    row = entry.row
    if entry.kind == "act":
        return Decided(CALLED, row.name or "", row.given(), entry=entry)
    if entry.kind == "permit":
        given = row.given()
        return Decided(ASKED, given["tool"], given["arguments"], entry=entry)
    if entry.kind == "crashed":
        return Decided(ENDED, how="crashed", entry=entry)
    if row.action == Action.TOOL_CHECKED:
        what = DENIED if row.status == Status.DENIED else REFUSED
        return Decided(what, row.name or "", row.given(), "" if what == DENIED else row.error_kind or "", entry)
    if row.action == Action.TASK_ENDED and entry.kind == "note":
        came = row.came() or {}
        return Decided(ENDED, how=_end(str(came.get("end")), str(came.get("answer") or "")), entry=entry)
    return None


def decision_of(effect: Act | Ask | Permit | Note | Ending) -> Decided | None:
    """Return the decision that an effect is; None for one that is none."""
    if isinstance(effect, Act):
        return Decided(CALLED, effect.tool, effect.arguments)
    if isinstance(effect, Permit):
        return Decided(ASKED, effect.tool, effect.arguments)
    if isinstance(effect, Ending):
        return Decided(ENDED, how=_end(str(effect.end), effect.answer))
    if isinstance(effect, Ask):
        return Decided(WENT_ON, how=f"asks the model to {effect.purpose}")
    if effect.action is Action.TOOL_CHECKED:
        what = DENIED if effect.status is Status.DENIED else REFUSED
        kind = "" if what == DENIED else str(effect.error_kind or "")
        return Decided(what, effect.name or "", effect.input, kind)
    return None


def _end(end: str, answer: str) -> str:
    return f"{end}: {answer}" if answer else end


def classify(old: Decided, new: Decided) -> ChangeKind:
    """Return how a decision changed, of two that are not the same.

    >>> classify(Decided(CALLED, "pay", {"sum": 1}), Decided(CALLED, "pay", {"sum": 2})).value
    'other_arguments'
    """
    if ENDED in (old.what, new.what):
        if old.what == new.what:
            return ChangeKind.OTHER_END
        return ChangeKind.ENDED_LATER if old.what == ENDED else ChangeKind.ENDED_EARLIER
    if old.tool != new.tool:
        return ChangeKind.OTHER_TOOL
    if not same_value(old.arguments, new.arguments):
        return ChangeKind.OTHER_ARGUMENTS
    if new.what == REFUSED:
        return ChangeKind.BLOCKED_BY_CHECK
    if old.what == REFUSED:
        return ChangeKind.PASSED_CHECK
    return ChangeKind.OTHER_PERMISSION
