"""Whether events support a text, so that it may become a memory: only users' turns and tool results can. Pure.

Strict and by words: what a memory says must stand in what a user said or a tool returned: every number, name and act
that cannot be taken back literally, and not the other way round. What the system itself said (prompts, answers of the
agent, reflections, recalled memories) supports nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from hermes_lab.conflicts.finding import contradicts, polarity, sentences
from hermes_lab.conflicts.reading import read, stems
from hermes_lab.kinds import Action, Status
from hermes_lab.memory.records import RECALL_TOOL, Kind

SUPPORTED_SHARE = 0.6
"""Share of a memory's words that the evidence must hold."""

_TOOL_ACTIONS = (Action.TOOL_CALLED, Action.CODE_EXECUTED, Action.RETRIEVAL)
_NOT_USERS = frozenset(
    ("system", "developer", "assistant", "agent", "tool", "function", "model", "gpt", "ai", "bot", "hermes-lab")
)
_IMPORTED_USERS = frozenset(("user", "human", "customer", "person", "client"))
_NOT_RUN = (Status.DENIED, Status.INVALID, Status.CANCELLED, Status.RETRACTED)
_FROM_USERS_ONLY = (Kind.PREFERENCE, Kind.CONSTRAINT)
# Numbers, dates, identifiers and addresses, whole: 03/01/2026 is not made of the parts of 2026-01-03.
_HARD = re.compile(r"(?=[a-z./:@_-]*\d)[a-z0-9]+(?:[-./:@_]{1,3}[a-z0-9]+|,\d+)*")
_HARD_CHINESE = re.compile(r"[二三四五六七八九十百千万两][一二三四五六七八九十百千万两]*(?=[号点月日天次个元块台层楼])")
# Acts that cannot be taken back, by what they come to: deleting, refunding, paying, cancelling, passing over, passing
# on, approving. Most of a sentence is not enough for them, since the one word is the matter.
_WEIGHTY = tuple(
    re.compile(pattern)
    for pattern in (
        r"\b(?:delet|remov|eras|wip(?:e|ing)|overwrit|drop)\w*|删|移除|清空|覆盖",
        r"\b(?:refund|reimburs)\w*|退款|退钱|赔",
        r"\b(?:pay|paid|transfer|wire)\w*|付|转账|打款|汇款",
        r"\bcancel\w*|取消|作废",
        r"\b(?:skip|ignor|bypass|disabl)\w*|跳过|忽略|绕过|停用|禁用",
        r"\b(?:publish|forward|leak|disclos|reveal)\w*|公开|转发|泄露|发布|透露",
        r"\b(?:approv|grant|authori[sz])\w*|批准|授权|审批",
    )
)
_LIKEST = 0.8  # share of the most words that a sentence of the evidence has in common with a text
_MOST_TEXTS = 10_000


class Evidence(NamedTuple):
    """An event that a proposal rests on, as far as support is concerned.

    Attributes:
        id: of the event.
        action: its kind.
        name: who or what acted.
        run_id: where it belongs.
        episode_id: the attempt that it is part of.
        status: how it came out.
        input: what went in, a JSON value.
        output: what came out, a JSON value.
    """

    id: str
    action: str
    name: str | None = None
    run_id: str | None = None
    episode_id: str | None = None
    status: str | None = None
    input: Any = None
    output: Any = None


def said_by_user(event: Evidence) -> str:
    """Return what a user said in an event; "" where it is no user's turn."""
    if event.action == Action.FEEDBACK:
        return _joined(event.input)
    if event.action != Action.MESSAGE_RECEIVED or event.status in _NOT_RUN:
        return ""
    sender = (event.name or "").strip().casefold()
    if sender in _NOT_USERS:
        return ""
    if (event.run_id or "").startswith("import-") and sender and sender not in _IMPORTED_USERS:
        return ""  # a foreign log names roles, and one that is not a user's is none
    given = event.input
    return _joined([given.get("text"), given.get("content")]) if isinstance(given, dict) else ""


def returned_by_tool(event: Evidence) -> str:
    """Return what a tool gave back in an event; "" where it is no result of one."""
    if event.action not in _TOOL_ACTIONS or event.name == RECALL_TOOL or event.status in _NOT_RUN:
        return ""
    return _joined([event.name, event.output])


def why_unsupported(text: str, kind: str, evidence: Sequence[Evidence]) -> str | None:
    """Return why the evidence does not support a memory's text; None where it does.

    Preferences and constraints need a user's turn: what a tool returns (a page, a mail) may try to give orders.

    >>> said = Evidence("e1", "message_received", input={"text": "From now on, please answer me in Chinese."})
    >>> why_unsupported("Answer in Chinese.", "preference", [said]) is None
    True
    >>> why_unsupported("Answer in French.", "preference", [said])
    "the evidence does not say 'french'"
    """
    sources = [said for one in evidence if (said := said_by_user(one))]
    if kind not in _FROM_USERS_ONLY:
        sources += [result for one in evidence if (result := returned_by_tool(one))]
    if not sources:
        whose = "user's turn" if kind in _FROM_USERS_ONLY else "user's turn or tool result"
        return f"none of its {len(evidence)} events is a {whose} that says anything"
    return _why_not_said(text, sources)


def _why_not_said(text: str, sources: Sequence[str]) -> str | None:
    unheard = _unheard(_plain(text), _plain(" ".join(sources)))
    if unheard is not None:
        return f"the evidence does not hold {unheard!r}"
    wanted = read(text)
    spoken = [read(source) for source in sources]
    for group, values in wanted.values.items():
        held = frozenset[str]().union(*(one.values.get(group, frozenset()) for one in spoken))
        if not values <= held:
            return f"the evidence does not say {', '.join(map(repr, sorted(values - held)))}"
    words = stems(text)
    if not words:
        return "it says nothing that could be supported"
    held = frozenset[str]().union(*(stems(source) for source in sources))
    if len(words & held) < SUPPORTED_SHARE * len(words):
        missing = ", ".join(sorted(words - held)[:5])
        return f"the evidence holds {len(words & held)} of its {len(words)} words; it lacks {missing}"
    return _why_opposed(text, sources) or _why_turned(text, sources)


def _unheard(text: str, said: str) -> str | None:
    """Return a number, name or weighty act of a text that stands nowhere in what was said."""
    for token in _HARD.findall(text):
        if not re.search(rf"(?<![a-z0-9])(?<!\d[.,]){re.escape(token)}(?![a-z0-9]|[.,]\d)", said):
            return str(token)
    for number in _HARD_CHINESE.findall(text):
        if number not in said:
            return str(number)
    for pattern in _WEIGHTY:
        named = pattern.search(text)
        if named and not pattern.search(said):
            return named.group()
    return None


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _why_opposed(text: str, sources: Iterable[str]) -> str | None:
    """Return the sentence of the evidence that says the opposite, unless another says the same."""
    opposed = None
    mine = _plain_sentences(text)
    for source in sources:
        if mine <= _plain_sentences(source):
            return None
        for sentence in sentences(source):
            differs = contradicts(text, sentence)
            if differs:
                opposed = f"the evidence says the opposite ({differs}): {sentence[:120]!r}"
            elif len(stems(text) & stems(sentence)) >= SUPPORTED_SHARE * len(stems(text)):
                return None
    return opposed


def _why_turned(text: str, sources: Iterable[str]) -> str | None:
    """Return the sentence of a text that says not where the likest ones of the evidence do not, or the other way."""
    spoken = [sentence for source in sources for sentence in sentences(source)]
    for mine in sentences(text):
        words = stems(mine)
        shared = {sentence: len(words & stems(sentence)) for sentence in spoken}
        most = max(shared.values(), default=0)
        likest = [sentence for sentence, count in shared.items() if count >= _LIKEST * most and count]
        if likest and polarity(mine) not in {polarity(sentence) for sentence in likest}:
            return f"the evidence says it {'without' if polarity(mine) else 'with'} a not: {likest[0][:120]!r}"
    return None


def _plain_sentences(text: str) -> set[str]:
    """Return the sentences of a text, whole, without their end marks and blanks that do not matter."""
    return {" ".join(sentence.casefold().split()).rstrip(" .!?。！？") for sentence in sentences(text)}


def _joined(value: Any) -> str:
    """Return all text within a JSON value, in order."""
    found: list[str] = []
    waiting = [value]
    while waiting and len(found) < _MOST_TEXTS:
        one = waiting.pop()
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, bool) or one is None:
            continue
        elif isinstance(one, int | float):
            found.append(str(one))
        elif isinstance(one, list | tuple):
            waiting.extend(reversed(one))
        elif isinstance(one, dict):
            waiting.extend(part for pair in reversed(list(one.items())) for part in reversed(pair))
    return "\n".join(found)
