"""Finds the rows of a hermes-agent conversation that say again what an earlier row said.

hermes-agent rewrites history. Compaction archives rows and writes the kept ones again behind a summary,
in the same session or in a new one; a rewind takes rows back; either may give kept rows new ids, and old
versions gave them new times, too. So rows are told apart by what they say, never by their place:

- a call is known by its call id; a message by its role, content and time;
- where a history begins anew (a session that continues a compressed one, live rows after archived ones, a
  summary), rows that repeat the beginning or the end of the history before, in order, are copies,
  whatever their times.

Memory grows with the messages of one conversation (about a kilobyte each), not with the file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_HEAD_ROWS = 16
"""How many rows compaction keeps before its summary, at most."""
_TAIL_CANDIDATES = 5_000
# Ids that count from a small number in every turn, as some servers give them, tell little.
_COUNTER = re.compile(r"\D{0,60}\d{1,4}")


class CallMark(NamedTuple):
    """A call in a row: its ids (some providers give two), and a hash of its name and arguments."""

    ids: tuple[str, ...]
    body: str


class Mark(NamedTuple):
    """What is to be known of a row, to tell what becomes of it.

    Attributes:
        session: number of its session in the conversation.
        role: user, assistant, tool ...
        said: hash of role and content.
        stamp: its time as the source has it, or None.
        calls: the calls that it makes.
        answers: id of the call that it is the result of.
        active: part of the live history.
        compacted: summarised away.
        summary: it is, or holds, the summary of a compaction.
        rest: hash of the message that the summary was merged with, or None.
    """

    session: int
    role: str
    said: str
    stamp: float | None = None
    calls: tuple[CallMark, ...] = ()
    answers: str | None = None
    active: bool = True
    compacted: bool = False
    summary: bool = False
    rest: str | None = None

    def strict(self) -> str:
        """Return what the row says together with when it was said."""
        return self.said if self.stamp is None else f"{self.said}@{self.stamp!r}"

    def call_ids(self) -> list[str]:
        """Return the first id of each call that has one."""
        return [call.ids[0] for call in self.calls if call.ids]


class Copies:
    """Finds the rows that repeat an earlier one; call `find` once.

    Attributes:
        original: for each row, the row that it repeats, or None.
        summaries: rows that stand where a summary stands, though nothing in them says so.
        merged: for a row with a summary, the earlier row that the summary was merged with.
    """

    def __init__(self, marks: Sequence[Mark], parents: Sequence[int | None]) -> None:
        """Take the rows, session after session, and for each session the one that it continues."""
        self._marks = marks
        self._parents = parents
        self.original: list[int | None] = [None] * len(marks)
        self.summaries: set[int] = set()
        self.merged: dict[int, int] = {}
        self._by_strict: dict[str, int] = {}
        self._by_said: dict[str, int] = {}
        self._by_call: dict[str, int] = {}
        self._live: list[list[int]] = [[] for _ in parents]
        self._next_summary = _next_summaries(marks)
        self._rewriting = False  # nothing new was said since the history last began anew

    def find(self) -> Copies:
        """Go through the rows in order, and return self."""
        i = 0
        while i < len(self._marks):
            end = self._begin_anew(i)
            if end == i:
                self._single(i)
                end = i + 1
            for j in range(i, end):
                self._note(j)
            i = end
        return self

    def dead(self) -> set[int]:
        """Return the originals that were taken back: their latest row is neither live nor summarised."""
        latest: dict[int, int] = {}
        for i, earlier in enumerate(self.original):
            latest[self.merged.get(i, i) if earlier is None else earlier] = i
        rows = [(of, self._marks[i]) for of, i in latest.items()]
        return {of for of, mark in rows if not mark.active and not mark.compacted}

    def _note(self, i: int) -> None:
        mark = self._marks[i]
        self._live[mark.session].append(i)
        if self.original[i] is None and not (mark.summary or i in self.summaries):
            self._rewriting = False
        self._by_strict.setdefault(mark.strict(), i)
        self._by_said[mark.said] = i
        if self.original[i] is None:
            for call_id in mark.call_ids():
                self._by_call[call_id] = i

    # -- a history that begins anew ----------------------------------------------------------------------

    def _begin_anew(self, i: int) -> int:
        """Where a history begins anew at row i, mark its copies; return the row behind them, else i."""
        mark = self._marks[i]
        new_session = i == 0 or self._marks[i - 1].session != mark.session
        before = self._of_parent(mark) if new_session else self._archived(i)
        self._rewriting = (self._rewriting and not new_session) or mark.summary or bool(before)
        if not before:
            return i
        end = i
        while end < len(self._marks) and self._marks[end].session == mark.session:
            end += 1
        found = self._match(i, end, before)
        if found != i and not new_session:
            self._live[mark.session] = []
        return found

    def _of_parent(self, mark: Mark) -> list[int]:
        """Return the rows that a session may repeat from the one that it continues."""
        parent = self._parents[mark.session]
        rows = [] if parent is None else self._live[parent]
        return [j for j in rows if self._marks[j].active or self._marks[j].compacted]

    def _archived(self, i: int) -> list[int]:
        """Return the archived rows that a history may repeat that begins at row i of the same session."""
        mark, previous = self._marks[i], self._marks[i - 1]
        live_after_archived = mark.active and previous.compacted and not previous.active
        if not (live_after_archived or mark.summary or self._may_be_head(i)):
            return []
        live = self._live[mark.session]
        rows = [j for j in live if self._marks[j].compacted and not self._marks[j].active]
        if live_after_archived or mark.summary:
            return rows
        head = (self._next_summary[i] or i) - i
        return rows if head <= len(rows) and all(self._same(i + k, rows[k]) for k in range(head)) else []

    def _may_be_head(self, i: int) -> bool:
        """Return whether row i may be one of some that compaction kept before a summary, with new times."""
        mark, at = self._marks[i], self._next_summary[i]
        if at is None or not 2 <= at - i <= _HEAD_ROWS:
            return False
        summary = self._marks[at]
        written = (summary.session, summary.active, summary.compacted)
        behind = min(at + 1, len(self._marks) - 1)
        return written == (mark.session, mark.active, mark.compacted) and self._at_that_time(behind) is None

    def _match(self, i: int, end: int, before: list[int]) -> int:
        """Mark rows from i on that repeat the head of `before`, a summary, and the tail of `before`."""
        head = 0
        while i + head < end and head < len(before) and self._same(i + head, before[head]):
            head += 1
        at, rest = i + head, before[head:]
        told = at < end and self._marks[at].summary
        tail, gap = self._tail(at, end, rest), 0
        if tail == 0 and at < end and (told or self._may_be_summary(at)):
            tail = self._tail(at + 1, end, rest)
            gap = 1 if told or tail else 0
        if not (tail or gap or head >= 2 or head == len(before)):
            return i
        for k in range(head):
            self._repeat(i + k, before[k])
        if gap:
            self._summary(at)
        for k in range(tail):
            self._repeat(at + gap + k, rest[len(rest) - tail + k])
        self._rewriting = tail == 0
        return at + gap + tail

    def _tail(self, start: int, end: int, rest: list[int]) -> int:
        """Return the length of the longest end of `rest` that the rows from `start` on repeat."""
        longest = min(len(rest), end - start, _TAIL_CANDIDATES)
        for first in range(len(rest) - longest, len(rest)):
            length = len(rest) - first
            if all(self._same(start + k, rest[first + k]) for k in range(length)):
                return length
        return 0

    def _repeat(self, i: int, earlier: int) -> None:
        if self._marks[i].summary and self._marks[i].said != self._marks[earlier].said:
            self.merged[i] = self._first(earlier)
        else:
            self.original[i] = self._first(earlier)

    def _summary(self, i: int) -> None:
        self.summaries.add(i)
        rest = self._marks[i].rest
        earlier = self._said_before(i)
        if earlier is None and rest is not None:
            earlier = self._by_said.get(rest)
        if earlier is not None and self._may_replace(i, earlier):
            self._repeat(i, earlier)

    def _may_be_summary(self, i: int) -> bool:
        return self._marks[i].role != "tool" and not self._marks[i].calls

    def _same(self, i: int, earlier: int) -> bool:
        """Return whether row i says what the earlier one said, whatever their times."""
        a, b = self._marks[i], self._marks[earlier]
        if a.role != b.role:
            return False
        if (j := self._at_that_time(i)) is not None:
            return self._first(j) == self._first(earlier)
        if a.said == b.said or (a.rest is not None and a.rest == b.said):
            return True
        ids = {a.answers} & {b.answers} if a.answers else set(a.call_ids()) & set(b.call_ids())
        return any(call_id is not None and not _COUNTER.fullmatch(call_id) for call_id in ids)

    # -- a row by itself ---------------------------------------------------------------------------------

    def _single(self, i: int) -> None:
        """Mark row i as a copy where a row of the same call, or the same words and time, was archived."""
        earlier = self._said_before(i)
        if self._marks[i].summary:
            self._summary(i)
        elif earlier is not None:
            self._repeat(i, earlier)

    def _at_that_time(self, i: int) -> int | None:
        """Return the earlier row with the words and time of row i."""
        mark = self._marks[i]
        j = self._by_strict.get(mark.strict()) if mark.stamp is not None else None
        return j if j is not None and self._may_replace(i, j) else None

    def _said_before(self, i: int) -> int | None:
        """Return the earlier row with the words and time of row i, or its calls, if there is one."""
        mark = self._marks[i]
        if (j := self._at_that_time(i)) is not None:
            return j
        earlier = {self._by_call.get(call_id) for call_id in mark.call_ids()}
        j = earlier.pop() if len(earlier) == 1 else None
        return j if j is not None and self._may_replace(i, j) and self._same_calls(i, j) else None

    def _may_replace(self, i: int, j: int) -> bool:
        """Return whether row i may be row j written again: two live rows of a session never are."""
        return self._marks[j].session != self._marks[i].session or not self._marks[j].active

    def _same_calls(self, i: int, j: int) -> bool:
        a, b = self._marks[i], self._marks[j]
        if a.stamp is not None and a.stamp == b.stamp:
            return True
        if not b.active and not b.compacted:
            return False  # taken back, and asked anew
        if not all(map(_COUNTER.fullmatch, a.call_ids())):
            return True
        return self._rewriting and [call.body for call in a.calls] == [call.body for call in b.calls]

    def _first(self, j: int) -> int:
        earlier = self.original[j]
        return j if earlier is None else earlier


def _next_summaries(marks: Sequence[Mark]) -> list[int | None]:
    """Return for each row the next row, itself included, that is known as a summary."""
    found: list[int | None] = [None] * len(marks)
    following = None
    for i in range(len(marks) - 1, -1, -1):
        following = i if marks[i].summary else following
        found[i] = following
    return found
