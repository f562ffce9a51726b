r"""Go through one model turn, tag by tag: what is a call, what is reasoning, what is left for the reader.

>>> found = scan("<think>x</think>Now: <tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>")
>>> [(attempt.shape.name, attempt.start) for attempt in found.attempts]
[('now', 21)]
>>> found.answer, found.reasoning
([(16, 21)], [(7, 8)])

Each tag is visited once, and what is set aside again (calls that turn out to be thoughts, or parts of a
broken call) is set aside at most once, so the time is linear in the length of the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from hermes_lab.models.hermes_blocks import CALL, CALL_END, REASONING, BlockReader, Reach, Tag, is_fragment
from hermes_lab.models.hermes_objects import Attempt


class Scanned(NamedTuple):
    """What a text holds; the stretches of answer and reasoning are (start, end) and do not overlap."""

    attempts: list[Attempt]
    thoughts: list[Attempt]
    answer: list[tuple[int, int]]
    reasoning: list[tuple[int, int]]


def scan(text: str) -> Scanned:
    """Return the attempts at calls outside reasoning, the calls in reasoning, and where the rest of `text` is."""
    return _Scan(text).run()


def _has_quote(text: str) -> bool:
    return '"' in text or "'" in text


@dataclass(slots=True)
class _Span:
    """A stretch of the input; `kind` is "text", "reasoning" or "call" (a block outside reasoning)."""

    kind: str
    start: int
    end: int


@dataclass(slots=True)
class _Suspect:
    """A call whose strings may reach over later calls: its places in lists and text, and how far."""

    attempt: int
    span: int
    start: int
    reach: Reach


class _Scan:
    def __init__(self, text: str) -> None:
        self.text = text
        self.reader = BlockReader(text)
        self.position = 0  # all text before it is in a span
        self.unclosed_end = -1  # where the last block ended, if it lacked its end tag
        self.closing = ""  # the tag that ends the reasoning that we are in, or ""
        self.attempts: list[Attempt] = []
        self.thoughts: list[Attempt] = []
        self.spans: list[_Span] = []
        self.template_spans = 0  # how many spans a reasoning that the template opened takes
        self.suspects: list[_Suspect] = []
        self.latest: _Suspect | None = None  # the last block, which may have ended inside one of its strings

    def run(self) -> Scanned:
        tags = self.reader.tags
        index = 0
        while index < len(tags):
            tag = tags[index]
            if self.reader.is_quoted(index):
                index += 1
            elif tag.name == CALL:
                index = self._call(index)
            else:
                if tag.name == CALL_END:
                    self._stray_end(index)
                elif tag.name in REASONING:
                    self._open_reasoning(tag)
                else:
                    self._close_reasoning(tag)
                index += 1
        self._flush(len(self.text))
        self._settle_suspects()
        return self._result()

    def _flush(self, end: int) -> None:
        """Put the text since the last span in a span of its own."""
        if end > self.position:
            self.spans.append(_Span("reasoning" if self.closing else "text", self.position, end))
            self.position = end

    def _since_last_tag(self, index: int) -> str:
        """Return the text before a tag back to the tag before it; these stretches do not overlap."""
        before = self.reader.tags[index - 1].end if index else 0
        return self.text[max(before, self.position) : self.reader.tags[index].start]

    def _call(self, index: int) -> int:
        tag = self.reader.tags[index]
        before = self._since_last_tag(index)
        inline = before[before.rfind("\n") + 1 :].strip() != ""
        after_open = self.unclosed_end >= 0 and not self.text[self.unclosed_end : tag.start].strip()
        self.unclosed_end = -1
        block = self.reader.read(index, inline, after_open, self.closing)
        if block is None:
            # A pair of tags is mentioned together.
            return index + 2 if self.reader.ends_at(index + 1) else index + 1
        if self.closing:
            self.thoughts.extend(attempt for attempt in block.attempts if attempt.shape)
            return block.next_tag
        self._flush(tag.start)
        if "{" in before and _has_quote(before) and is_fragment(before):
            # The tag may stand in a string of a call whose own open tag is missing.
            head = _Suspect(len(self.attempts), len(self.spans) - 1, tag.start - len(before), Reach.SECOND_END_TAG)
            self.suspects.append(head)
        self.attempts.extend(block.attempts)
        if block.attempts:
            last = len(self.attempts) - 1
            reach = block.reach or Reach.SECOND_END_TAG
            self.latest = _Suspect(last, len(self.spans), self.attempts[last].start, reach)
            if block.reach:
                self.suspects.append(self.latest)
        self.spans.append(_Span("call", tag.start, block.end))
        self.position = block.end
        self.unclosed_end = block.end if block.unclosed else -1
        return block.next_tag

    def _stray_end(self, index: int) -> None:
        """Take an end tag that no open tag waits for: it ends a broken call, or is a slip, or a mention."""
        tag = self.reader.tags[index]
        if self.closing:
            return
        before = self._since_last_tag(index).strip()
        fragment = is_fragment(before)
        if self.suspects and fragment:
            self._swallow(self._first_suspect(), tag.end)
            self.position = tag.end
        elif self.latest and fragment and _has_quote(before) and before[-1] in "}]\"'":
            self._swallow(self.latest, tag.end)
            self.position = tag.end
        elif not before:
            self._flush(tag.start)
            self.position = tag.end

    def _first_suspect(self) -> _Suspect:
        """Take out the last suspect, or the first of those that follow each other directly up to it."""
        suspect = self.suspects.pop()
        while self.suspects and self.suspects[-1].attempt >= suspect.attempt - 1:
            later, suspect = suspect, self.suspects.pop()
            if later.reach is Reach.END_OF_TEXT:
                suspect.reach = later.reach
        return suspect

    def _swallow(self, suspect: _Suspect, end: int) -> None:
        """Make all from a broken attempt to `end` one error: the calls in between may stand in its string."""
        reason = "a broken call around what looks like calls"
        self.latest = None
        del self.attempts[suspect.attempt :]
        self.attempts.append(Attempt(suspect.start, end, None, reason))
        first = self.spans[suspect.span]
        del self.spans[suspect.span :]
        if first.kind == "text":
            self.spans.append(_Span("text", first.start, suspect.start))
        if suspect.reach is Reach.END_OF_TEXT:
            self.suspects.append(_Suspect(suspect.attempt, len(self.spans), suspect.start, suspect.reach))
        self.spans.append(_Span("call", suspect.start, end))

    def _settle_suspects(self) -> None:
        """Give up the calls after a broken attempt whose string the text never closes."""
        last_call = max((number for number, attempt in enumerate(self.attempts) if attempt.shape), default=-1)
        for suspect in self.suspects:
            if suspect.reach is Reach.END_OF_TEXT and suspect.attempt < last_call:
                self._swallow(suspect, len(self.text))
                return

    def _open_reasoning(self, tag: Tag) -> None:
        if self.closing:
            return
        self._flush(tag.start)
        self.position = tag.end
        self.closing = REASONING[tag.name]

    def _close_reasoning(self, tag: Tag) -> None:
        if self.closing and self.closing != tag.name:
            return
        self._flush(tag.start)
        self.position = tag.end
        if not self.closing:
            # The template wrote the opening tag. Drafts that could not be read are left out, as in any
            # reasoning.
            self.template_spans = len(self.spans)
            self.thoughts.extend(attempt for attempt in self.attempts if attempt.shape)
            self.attempts.clear()
            self.suspects.clear()
            self.latest = None
        self.closing = ""

    def _result(self) -> Scanned:
        answer, reasoning = [], []
        for number, span in enumerate(self.spans):
            if number < self.template_spans or span.kind == "reasoning":
                reasoning.append((span.start, span.end))
            elif span.kind == "text":
                answer.append((span.start, span.end))
        thoughts = sorted(self.thoughts, key=lambda thought: thought.start)
        return Scanned(self.attempts, thoughts, answer, reasoning)
