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
    tokens: int


class _Summed(NamedTuple):
    """A step on one line: its text, its words, about how many tokens it takes, and whether it holds a constraint."""

    text: str
    words: frozenset[str]
    tokens: int
    constrains: bool


def compress(steps: Sequence[Step], task: str, settings: ShortTerm) -> Compressed:
    """Return the last `settings.steps` whole and a summary of the others.

    A step's weight is its recency, the words that it shares with the task, and what it is: a change that was made, or
    a failure to learn from. A call whose result stood already is left out.
    """
    older, recent = list(steps[: -settings.steps]), tuple(steps[-settings.steps :])
    if not older:
        return Compressed(tuple(steps))
    unique: dict[tuple[str, str, str], int] = {}
    for place, step in enumerate(older):
        unique.setdefault((step.call, step.result, str(step.status)), place)
    summed = {
        place: _summed(older[place].tool, status, result, settings.summary_chars)
        for (_, result, status), place in unique.items()
    }
    if sum([one.tokens for one in summed.values()]) <= settings.summary_tokens:
        kept = tuple([one.text for one in summed.values()])  # all of them, so nothing has to be weighed
    else:
        lines = [_weighed(older, place, one, _words(task)) for place, one in summed.items()]
        kept = _fill(lines, settings.summary_tokens)
        if not {line.text for line in lines if line.must}.issubset(kept):
            return Compressed(tuple(steps))  # a failed compression changes nothing
    if sum(map(len, kept)) > sum([len(step.call) + len(step.result) for step in older]):
        return Compressed(tuple(steps))
    return Compressed(recent, kept, len(older) - len(kept))


def _weighed(older: Sequence[Step], place: int, summed: _Summed, words: frozenset[str]) -> _Line:
    step = older[place]
    weight = (place + 1) / len(older) + 2 * _share(words, summed.words)
    if step.status is not Status.OK:
        weight += _FAILURE_WEIGHT
    if summed.constrains:
        weight += _CONSTRAINT_WEIGHT
    return _Line(place, summed.text, weight, step.writes and step.status is Status.OK, summed.tokens)


@functools.lru_cache(maxsize=4096)  # a step is summed up again in each later one
def _summed(tool: str, status: str, result: str, longest: int) -> _Summed:
    text = f"{tool or 'note'} [{status}]: {summary(result, longest)}"
    return _Summed(text, _words(text), estimate_tokens(text), _CONSTRAINT.search(text) is not None)


@functools.lru_cache(maxsize=4096)
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
    words = _words(task)
    everything = list(texts)
    for place, text in enumerate(everything):
        line = summary(text, chars_each)
        if not line or line in seen or _PLEASANTRY.match(line):
            continue
        seen.add(line)
        must = bool(_CONSTRAINT.search(line))
        weight = (place + 1) / len(everything) + 2 * _share(words, _words(line))
        lines.append(_Line(place, line, weight, must, estimate_tokens(line)))
    return _fill(lines, tokens_at_most)


def _share(words: frozenset[str], of_text: frozenset[str]) -> float:
    """Return the share of `words` that stand in a text."""
    return len(words & of_text) / len(words) if words else 0.0


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
        if line.tokens > room:
            continue
        room -= line.tokens
        taken.append(line)
    return tuple(line.text for line in sorted(taken))
