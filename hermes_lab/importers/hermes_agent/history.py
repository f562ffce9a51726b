"""Plans what becomes of each row of a hermes-agent conversation: which events there are, with which keys.

`plan` is a pure function of a few marks of each row, so that it can be tested as a table. An event's key
comes from call ids, or from what was said and when, so that it is the same at every import, in an export
as in the database.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hermes_lab.importers.hermes_agent.copies import Copies, Mark
from hermes_lab.importers.reading.values import unique


class Fate(enum.Enum):
    """What becomes of a row."""

    MESSAGE = enum.auto()
    GENERATION = enum.auto()
    SUMMARY = enum.auto()
    ORPHAN = enum.auto()  # a result of no known call
    ANSWER = enum.auto()  # a result, which goes with its call
    COPY = enum.auto()
    EXTRA = enum.auto()  # a second result of one call


class PlannedCall(NamedTuple):
    """A call of a generation: its place in the row, its key, and the row of its result."""

    place: int
    key: str
    answer: int | None


@dataclass(slots=True)
class Step:
    """What becomes of one row, and the key of its event.

    Attributes:
        fate: see `Fate`.
        key: of the row's event, unique in its session.
        retracted: the event was taken back.
        calls: of a generation.
        summary: key of the summary that stands in the same row as the event, or None.
    """

    fate: Fate
    key: str = ""
    retracted: bool = False
    calls: list[PlannedCall] = field(default_factory=list)
    summary: str | None = None


def plan(marks: Sequence[Mark], parents: Sequence[int | None]) -> list[Step]:
    """Return what becomes of each row of a conversation.

    Args:
        marks: of the rows, session after session, in the order of the source.
        parents: for each session, the number of the earlier session that it continues, or None.
    """
    copies = Copies(marks, parents).find()
    answers = _Answers(marks, copies.original).find()
    dead = copies.dead()
    seen: list[dict[str, int]] = [{} for _ in parents]

    def is_summary(i: int) -> bool:
        return marks[i].summary or i in copies.summaries

    steps = []
    for i, mark in enumerate(marks):
        keys = seen[mark.session]
        if copies.original[i] is not None:
            steps.append(Step(Fate.COPY))
        elif mark.role == "tool":
            fate = answers.fates[i]
            key = f"result:{mark.answers or mark.strict()}"
            steps.append(Step(fate, unique(key, keys) if fate is Fate.ORPHAN else "", i in dead))
        elif mark.role == "assistant" and (mark.calls or not is_summary(i)) and i not in copies.merged:
            found = [answers.of_call.get((i, j)) for j in range(len(mark.calls))]
            steps.append(_generation_step(mark, i in dead, found, keys))
        elif is_summary(i):
            steps.append(_summary_step(mark, i in copies.merged, keys))
        else:
            steps.append(Step(Fate.MESSAGE, unique(f"message:{mark.strict()}", keys), i in dead))
    return steps


def _generation_step(mark: Mark, dead: bool, answers: list[int | None], keys: dict[str, int]) -> Step:
    first = next(iter(mark.call_ids()), None)
    key = unique(f"generation:{first or mark.strict()}", keys)
    calls = []
    for j, (call, answer) in enumerate(zip(mark.calls, answers, strict=True)):
        call_key = unique(f"call:{call.ids[0]}", keys) if call.ids else f"{key}:call:{j}"
        calls.append(PlannedCall(j, call_key, answer))
    summary = unique(f"summary:{mark.strict()}", keys) if mark.summary else None
    return Step(Fate.GENERATION, key, dead, calls, summary)


def _summary_step(mark: Mark, merged: bool, keys: dict[str, int]) -> Step:
    key = unique(f"summary:{mark.strict()}", keys)
    if mark.rest is None or merged:
        return Step(Fate.SUMMARY, key)
    return Step(Fate.MESSAGE, unique(f"message:{mark.rest}", keys), summary=key)


class _Answers:
    """Pairs results with calls, by call id, and by position where a call or a result has none.

    After `find`, `of_call[(row, place)]` is the row of a call's result, and `fates` has every result that is
    no copy; results that turn out to be copies are noted in `original`.
    """

    def __init__(self, marks: Sequence[Mark], original: list[int | None]) -> None:
        self._marks = marks
        self._original = original
        self.of_call: dict[tuple[int, int], int] = {}
        self.fates: dict[int, Fate] = {}
        self._asked: dict[str, tuple[int, int]] = {}
        self._unnamed: list[tuple[int, int]] = []
        self._latest: list[tuple[int, int]] = []
        self._early: dict[str, int] = {}

    def find(self) -> _Answers:
        for i, mark in enumerate(self._marks):
            if self._original[i] is not None:
                continue
            if mark.role == "tool":
                self._answer(i, mark)
            elif mark.calls:
                self._ask(i, mark)
        return self

    def _ask(self, i: int, mark: Mark) -> None:
        self._latest = [(i, j) for j in range(len(mark.calls))]
        self._unnamed = [(i, j) for i, j in self._latest if not mark.calls[j].ids]
        for place in self._latest:
            for call_id in mark.calls[place[1]].ids:
                self._asked[call_id] = place
                early = self._early.pop(call_id, None)
                if early is not None and self._marks[early].session == mark.session:
                    self._pair(place, early)

    def _pair(self, place: tuple[int, int], row: int) -> None:
        self.of_call[place] = row
        self.fates[row] = Fate.ANSWER

    def _answer(self, i: int, mark: Mark) -> None:
        place = self._asked.get(mark.answers) if mark.answers else None
        if place is None:
            waiting = self._unnamed if mark.answers else self._unnamed or self._latest
            place = next((p for p in waiting if p not in self.of_call), None)
        if place is None:
            self._orphan(i, mark)
        elif place not in self.of_call:
            self._pair(place, i)
        else:
            self._again(i, self.of_call[place])

    def _again(self, i: int, first: int) -> None:
        """Take a result of a call that has one: a copy made by compaction, or really a second one."""
        if self._marks[first].session != self._marks[i].session or not self._marks[first].active:
            self._original[i] = first
        else:
            self.fates[i] = Fate.EXTRA

    def _orphan(self, i: int, mark: Mark) -> None:
        earlier = self._early.get(mark.answers) if mark.answers else None
        if earlier is not None and not self._marks[earlier].active:
            self._original[i] = earlier
            return
        self.fates[i] = Fate.ORPHAN
        if mark.answers:
            self._early[mark.answers] = i
