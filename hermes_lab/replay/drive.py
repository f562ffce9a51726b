"""Drives one recorded episode under another configuration, to where its record no longer answers.

Two ways. *Assuming*: the model is taken to say the same to a question that differs, so that what rules alone change
is found; it ends at the first decision that changes. *Following*: whatever the record does not answer is `wanted`
from outside, and the episode goes on with what comes back.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import msgspec

from hermes_lab import context, loop, payload
from hermes_lab.compress import estimate_tokens
from hermes_lab.config import AgentConfig
from hermes_lab.effects import Act, Ask, Ending, Note, Permit
from hermes_lab.loop_acts import View
from hermes_lab.models.base import Reply
from hermes_lab.models.hermes import parse
from hermes_lab.replay.changes import Change, ChangeKind, first_difference, shown
from hermes_lab.replay.decisions import CALLED, ENDED, Decided, classify, decision_of, recorded_decisions
from hermes_lab.replay.effects import Keys, next_effect
from hermes_lab.replay.entries import Entry, row_tokens
from hermes_lab.replay.recording import Recording


@dataclass(slots=True)
class Usage:
    """What the model calls of a replayed episode take.

    Attributes:
        tokens: in all; None once some are unknown.
        usd: in all; None once some is unknown.
        estimated: whether some rest on an estimate of how long a prompt has become.
    """

    tokens: int | None = 0
    usd: float | None = 0.0
    estimated: bool = False

    def add(self, tokens: int | None, usd: float | None, *, estimated: bool = False) -> None:
        """Count one call."""
        self.tokens = None if self.tokens is None or tokens is None else self.tokens + tokens
        self.usd = None if self.usd is None or usd is None else self.usd + usd
        self.estimated = self.estimated or estimated


class Drive:
    """One episode under another configuration.

    Attributes:
        recording: the episode.
        recorded: its decisions, as they were.
        context: the first change of what the model is shown or asked.
        change: the first decision that changes.
        made: the decisions so far.
        kept: how many of them are the recorded ones, up to the first that is not.
        certain: how many of those do not rest on the assumption that the model says the same.
        sure: whether no answer so far was only assumed.
        wanted: what the record does not answer; None while nothing is wanted.
        done: whether the drive is over.
        ending: how the episode ends now; None where that is unknown, or the record was cut off.
        acted: the recorded calls that were taken over, in order.
        remarks: what is to be known of what came from outside.
        usage: of the model calls.
    """

    def __init__(self, recording: Recording, config: AgentConfig, view: View, keys: Keys, *, assume: bool) -> None:
        """Start; `advance` goes on to the first thing that the record does not answer."""
        assert recording.task is not None  # noqa: S101 - a recording without a task has a problem
        self.recording = recording
        self.recorded = recorded_decisions(recording)
        self.context: Change | None = None
        self.change: Change | None = None
        self.made: list[Decided] = []
        self.kept = 0
        self.certain = 0
        self.wanted: Ask | Act | Permit | None = None
        self.done = False
        self.ending: Ending | None = None
        self.acted: list[Entry] = []
        self.remarks: list[str] = []
        self.usage = Usage()
        self._config = config
        self._keys = keys
        self._assume = assume
        self.sure = True
        self._steps = loop.episode(recording.task, config, dataclasses.replace(view, seed=recording.seed))
        self._asks = [entry for entry in recording.entries if entry.kind == "ask"]
        self._next_ask = 0

    def advance(self, outcome: Any = None) -> None:
        """Send an outcome and go on until the end, or until something is wanted from outside."""
        self.wanted = None
        while not self.done and self.wanted is None:
            effect, failure = next_effect(self._steps, outcome)
            outcome = None
            if failure is not None:
                self._decide(Decided(ENDED, how="crashed"))
                self.finish()
            elif isinstance(effect, Ending):
                self.ending = effect
                self._decide(_cleaned(decision_of(effect), self._keys))
                self.finish()
            elif isinstance(effect, Note):
                self._noted(effect)
            elif isinstance(effect, Ask):
                outcome = self._asked(effect)
            elif effect is not None:
                outcome = self._acting(effect)

    def finish(self) -> None:
        """Stop here."""
        self.done = True
        self.wanted = None
        self._steps.close()

    def unanswered(self) -> None:
        """Stop, for nobody answers what is wanted."""
        assert self.wanted is not None  # noqa: S101 - called where something is wanted
        if self.change is None:
            self.change = self._change(ChangeKind.UNANSWERED, self._step_now(), "", str(decision_of(self.wanted)))
        self.finish()

    def count(self, entry: Entry) -> None:
        """Count a recorded model call that answers a question of this drive."""
        self.usage.add(row_tokens(entry.row), entry.row.cost_usd)

    def kept_in_place(self) -> int:
        """Return how many recorded decisions stand in their place, also behind the first that changed."""
        return sum(old.same_as(new) for old, new in zip(self.recorded, self.made, strict=False))

    # -- effects --------------------------------------------------------------------------------------------------

    def _noted(self, note: Note) -> None:
        decided = decision_of(note)
        if decided is not None:
            self._decide(_cleaned(decided, self._keys))

    def _asked(self, ask: Ask) -> Reply | None:
        """Return the recorded reply to a question; None where there is none, and it is wanted or the drive is over."""
        key = self._keys.of(ask)
        place = next((i for i in range(self._next_ask, len(self._asks)) if self._asks[i].row.request_hash == key), None)
        if place is not None:
            self._skip_to(place)
            entry = self._asks[place]
            self.count(entry)
            return entry.reply()
        place = self._place_of(ask.purpose)
        if place is None:
            self._asked_more(ask)
            return None
        self._skip_to(place)
        entry = self._asks[place]
        self._note_context(ask, entry)
        lost = self._lost_tool(ask, entry)
        if lost and self._assume:
            bound = self._config.prompt.decoding == "schema"
            new = "it is not offered: " + ", ".join(one.name for one in ask.request.tools)
            self.change = self._change(ChangeKind.LOST_TOOL, entry.step, f"called {lost}", new)
            if self.sure and bound:
                self.change = _certain(self.change)
        if not self._assume:
            self.wanted = ask
            return None
        if self.change is not None:
            self.finish()
            return None
        self.sure = False
        ratio = _longer(ask, entry)
        tokens, usd = row_tokens(entry.row), entry.row.cost_usd
        more = None if tokens is None else round((tokens - (entry.row.output_tokens or 0)) * (ratio - 1))
        self.usage.add(
            None if tokens is None else tokens + (more or 0),
            None if usd is None or not tokens else usd * (tokens + (more or 0)) / tokens,
            estimated=True,
        )
        return entry.reply()

    def _asked_more(self, ask: Ask) -> None:
        """Take a question that nothing recorded answers."""
        if len(self.made) >= len(self.recorded) and self.recording.stopped and self.change is None:
            self.finish()  # the record was cut off here
            return
        expected = self._expected()
        if self.change is None and expected is not None and expected.what == ENDED:
            self._set_change(expected, decision_of(ask))
        elif self.context is None and self.change is None:
            old, new = "no such question", f"asks the model to {ask.purpose}"
            self.context = self._change(ChangeKind.OTHER_REFLECTION, self._step_now(), old, new)
        self.wanted = ask
        if self._assume:
            self.unanswered()

    def _acting(self, effect: Act | Permit) -> Any:
        """Return the recorded outcome of a call or of a question for permission."""
        decided = _cleaned(decision_of(effect), self._keys)
        expected = self._expected()
        if expected is None and self.recording.stopped and self.change is None:
            self.finish()
            return None
        self._decide(decided)
        if self.change is not None:
            if self._assume:
                self.finish()
            else:
                self.wanted = effect
            return None
        entry = expected.entry if expected is not None else None
        assert entry is not None  # noqa: S101 - a decision that is as recorded has its record
        if decided.what == CALLED:
            self.acted.append(entry)
            return entry.result()
        answer = entry.decision()
        if answer is None:
            self.finish()  # the record was cut off before the answer
        return answer

    # -- comparing ------------------------------------------------------------------------------------------------

    def _decide(self, new: Decided) -> None:
        """Take a decision, and hold it against the recorded one in its place."""
        expected = self._expected()
        if self.change is None:
            if expected is None:
                if self.recording.stopped:
                    self.finish()
                    return
                self.change = self._change(ChangeKind.ENDED_LATER, -1, "the end", str(new))
            elif not expected.same_as(new):
                self._set_change(expected, new)
        self.made.append(new)
        if self.change is None:
            self.kept += 1
            self.certain += self.sure
        elif self._assume:
            self.finish()

    def _expected(self) -> Decided | None:
        return self.recorded[len(self.made)] if len(self.made) < len(self.recorded) else None

    def _set_change(self, old: Decided | None, new: Decided | None) -> None:
        assert old is not None  # noqa: S101 - both are looked at before
        assert new is not None  # noqa: S101
        step = old.entry.step if old.entry is not None else -1
        difference = first_difference(old.arguments, new.arguments) if old.tool == new.tool else None
        field = difference.field if difference is not None else ""
        kind = classify(old, new)
        if kind is ChangeKind.OTHER_END and self._next_ask < len(self._asks):
            kind = ChangeKind.ENDED_EARLIER  # the model was asked once more then
        self.change = self._change(kind, step, str(old), str(new), field)

    def _change(self, kind: ChangeKind, step: int, old: str, new: str, field: str = "") -> Change:
        return Change(kind=kind, step=step, old=old, new=new, field=field, assumed=not self.sure)

    def _note_context(self, ask: Ask, entry: Entry) -> None:
        if self.context is not None and self.context.kind is not ChangeKind.OTHER_REFLECTION:
            return
        old, new = entry.row.given(), payload.loads(payload.dumps(self._keys.content(ask)))
        offered = [[one.get("name") for one in side.get("tools", [])] for side in (old, new)]
        if offered[0] != offered[1]:
            texts = [", ".join(map(str, names)) for names in offered]
            self.context = self._change(ChangeKind.OTHER_ROUTE, entry.step, shown(texts[0]), shown(texts[1]), "tools")
            return
        found = first_difference(old, new)
        if found is not None:
            kind = ChangeKind.OTHER_CONTEXT
            self.context = self._change(kind, entry.step, found.old, found.new, found.field)

    def _lost_tool(self, ask: Ask, entry: Entry) -> str:
        """Return the tool that the recorded reply calls, that was offered then and is not now; "" where none is."""
        if ask.purpose != "plan":
            return ""
        then = {one.get("name") for one in entry.row.given().get("tools", [])}
        gone = then - {one.name for one in ask.request.tools} - {context.FINAL_ANSWER}
        if not gone:
            return ""
        called = [call.name for call in parse(entry.reply().text).calls]
        return next((name for name in called if name in gone), "")

    def _place_of(self, purpose: str) -> int | None:
        """Return where the next recorded question for this purpose stands, if there is one."""
        places = range(self._next_ask, len(self._asks))
        return next((i for i in places if self._asks[i].row.purpose == purpose), None)

    def _skip_to(self, place: int) -> None:
        """Take the recorded question at `place`; those before it are no longer asked."""
        skipped = self._asks[self._next_ask : place]
        if skipped and self.context is None:
            old, new = f"asked the model to {skipped[0].row.purpose}", "no such question"
            self.context = self._change(ChangeKind.OTHER_REFLECTION, skipped[0].step, old, new)
        self._next_ask = place + 1

    def _step_now(self) -> int:
        expected = self._expected()
        return expected.entry.step if expected is not None and expected.entry is not None else -1


def _cleaned(decided: Decided | None, keys: Keys) -> Decided:
    """Return a decision as the log would hold it, without secrets."""
    assert decided is not None  # noqa: S101 - asked for effects that are decisions
    if decided.arguments is not None:
        decided = decided._replace(arguments=keys.clean(decided.arguments))
    return decided._replace(how=keys.clean(decided.how)) if decided.how else decided


def _certain(change: Change) -> Change:
    return msgspec.structs.replace(change, assumed=False)


def _longer(ask: Ask, entry: Entry) -> float:
    """Return how many times longer the prompt has become, by an estimate of its tokens."""
    old = entry.row.given()
    before = sum(estimate_tokens(turn["content"]) for turn in old["messages"])
    before += estimate_tokens(payload.dumps(old.get("tools", [])))
    now = sum(estimate_tokens(turn.content) for turn in ask.request.messages)
    now += estimate_tokens(payload.dumps(payload.plain(ask.request.tools)))
    return now / before if before else 1.0
