"""Compress short-term memory: the last steps stay whole, older ones become one line each, the weightiest first.

Pure. Constraints, decisions, state marks and summaries of results stay; pleasantries and repeats go. A compression
that would not make things shorter, or would lose a decision, changes nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hermes_lab.config import ShortTerm
from hermes_lab.kinds import Status
from hermes_lab.text import tokens

_PLEASANTRY = re.compile(
    r"^\W*(?:hi|hello|hey|thanks|thank you|thx|you(?:'|’)re welcome|please|sure|of course|certainly|great|ok(?:ay)?"
    r"|no problem|my pleasure|bye|goodbye|good (?:morning|afternoon|evening|day)|have a (?:nice|good|great) day"
    r"|你好|您好|谢谢|多谢|感谢|不客气|好的?|没问题|当然|请|再见|辛苦了|祝您?(?:愉快|好))[\s\W]*$",
    re.IGNORECASE,
)
# Words that mark what must not be lost: what has to be or must not be done, limits, preferences.
_CONSTRAINT = re.compile(
    r"\b(?:must|never|always|only|do not|don't|cannot|at most|at least|no more than|before|unless|except)\b|prefer"
    r"|必须|不要|不能|不得|只能|只要|最多|最少|至少|不超过|之前|除非|除了|优先|务必|禁止",
    re.IGNORECASE,
)
# A sentence with the blanks after it; a point within a number, an address or a name ends none.
_SENTENCE = re.compile(r"(?:[^.!?。！？]|[.!?](?!\s|$))*(?:[.!?。！？]+\s*|$)")
_FAILURE_WEIGHT = 0.5
_CONSTRAINT_WEIGHT = 10.0  # above all that recency and likeness can give
_CUT = " ..."
_PER_TOKEN = 4  # characters of English a token, roughly


class Step(NamedTuple):
    """One step in short-term memory.

    Attributes:
        tool: the tool that was called; "" for a step without a call.
        call: the turn that made the call, as the model wrote it.
        result: the text of what came back, or of the correction.
        status: how it came out.
        writes: whether the tool may change something: then the step is a decision.
    """

    tool: str
    call: str
    result: str
    status: Status
    writes: bool = False


class Compressed(NamedTuple):
    """Short-term memory, compressed.

    Attributes:
        recent: the steps that stay whole.
        summary: lines about the others, oldest first.
        left_out: how many steps are in neither.
    """

    recent: tuple[Step, ...]
    summary: tuple[str, ...] = ()
    left_out: int = 0


class _Line(NamedTuple):
    place: int
    text: str
    weight: float
    must: bool


def compress(steps: Sequence[Step], task: str, settings: ShortTerm) -> Compressed:
    """Return the last `settings.steps` whole and a summary of the others.

    A step's weight is its recency, the words that it shares with the task, and what it is: a change that was made, or
    a failure to learn from. A call whose result stood already is left out.
    """
    older, recent = list(steps[: -settings.steps]), tuple(steps[-settings.steps :])
    if not older:
        return Compressed(tuple(steps))
    lines: list[_Line] = []
    seen: set[tuple[str, str, str]] = set()
    words = set(tokens(task))
    for place, step in enumerate(older):
        key = (step.call, step.result, str(step.status))
        if key in seen:
            continue
        seen.add(key)
        text = f"{step.tool or 'note'} [{step.status}]: {summary(step.result, settings.summary_chars)}"
        weight = (place + 1) / len(older) + 2 * overlap_share(words, text)
        if step.status is not Status.OK:
            weight += _FAILURE_WEIGHT
        if _CONSTRAINT.search(text):
            weight += _CONSTRAINT_WEIGHT
        lines.append(_Line(place, text, weight, step.writes and step.status is Status.OK))
    kept = _fill(lines, settings.summary_tokens)
    decisions = {line.text for line in lines if line.must}
    longer = sum(map(len, kept)) > sum(len(step.call) + len(step.result) for step in older)
    if longer or not decisions.issubset(kept):
        return Compressed(tuple(steps))  # a failed compression changes nothing
    return Compressed(recent, kept, len(older) - len(kept))


@functools.lru_cache(maxsize=4096)  # a step is summed up again in each later one
def summary(text: str, longest: int) -> str:
    """Return `text` on one line, without pleasantries, cut to `longest` characters.

    Where not all fits, sentences that hold constraints come first.

    >>> summary("Hello! The refund must be under 50. Thanks!", 40)
    'The refund must be under 50.'
    """
    flat = " ".join(text.split())
    sentences = [part for part in _SENTENCE.findall(flat) if part and not _PLEASANTRY.match(part)]
    joined = "".join(sentences).strip() or flat
    if len(joined) <= longest:
        return joined
    must = [part for part in sentences if _CONSTRAINT.search(part)]
    if must and len(must) < len(sentences):
        rest = [part for part in sentences if not _CONSTRAINT.search(part)]
        joined = " ".join(part.strip() for part in must + rest)
    return joined[: longest - len(_CUT)] + _CUT if longest > len(_CUT) else joined[:longest]


def summarise(texts: Iterable[str], task: str, tokens_at_most: int, chars_each: int) -> tuple[str, ...]:
    """Return lines about earlier turns of a conversation, in order, the weightiest within the room."""
    lines: list[_Line] = []
    seen: set[str] = set()
    words = set(tokens(task))
    everything = list(texts)
    for place, text in enumerate(everything):
        line = summary(text, chars_each)
        if not line or line in seen or _PLEASANTRY.match(line):
            continue
        seen.add(line)
        must = bool(_CONSTRAINT.search(line))
        lines.append(_Line(place, line, (place + 1) / len(everything) + 2 * overlap_share(words, line), must))
    return _fill(lines, tokens_at_most)


def overlap_share(words: set[str], text: str) -> float:
    """Return the share of `words` that stand in `text`."""
    return len(words & _words(text)) / len(words) if words else 0.0


@functools.lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    return frozenset(tokens(text))


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text takes: four characters of English each, one character of anything else.

    >>> estimate_tokens("hello world!"), estimate_tokens("退款")
    (3, 2)
    """
    if text.isascii():
        return -(-len(text) // _PER_TOKEN)
    plain = sum(char.isascii() for char in text)
    return -(-plain // _PER_TOKEN) + len(text) - plain


def _fill(lines: list[_Line], room: int) -> tuple[str, ...]:
    """Take lines by weight, those that must stay first, until the room is full; return them in their order."""
    taken: list[_Line] = []
    for line in sorted(lines, key=lambda line: (not line.must, -line.weight, -line.place)):
        cost = estimate_tokens(line.text)
        if cost > room:
            continue
        room -= cost
        taken.append(line)
    return tuple(line.text for line in sorted(taken))
