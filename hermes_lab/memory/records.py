"""What a memory is, and what of all memories a prompt is shown: pinned ones whole, the others a line each.

Pure: the same records give the same text, in whatever order they come. Where records come from is `proposals.history`.
"""

from __future__ import annotations

import datetime as dt
import enum
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

import msgspec

from hermes_lab.compress import estimate_tokens
from hermes_lab.tasks import ANY_TYPE
from hermes_lab.text import tokens
from hermes_lab.tools.bm25 import Bm25

MOST_CHARS = 2_000
"""Characters that a memory may have."""

PINNED_TOKENS = 1_000
"""Estimated tokens that all pinned memories of one task type may take; pinning beyond it is refused."""

INDEX_TOKENS = 800
"""Estimated tokens that the index may take, where the caller does not say."""

LINE_CHARS = 120
"""Characters of a memory's text that its line in the index shows."""

CUT = "…"
"""How a line of the index ends that does not show all of its memory."""

RETEST_AFTER = dt.timedelta(days=7)
"""A lesson that says that something is broken expires after this time, to be tested again."""

RECALL_TOOL = "recall"
"""Name of the tool that gives the detail. Its results are memories already, and so never evidence for new ones."""


class Kind(enum.StrEnum):
    """What sort of thing a memory says."""

    PREFERENCE = "preference"
    FACT = "fact"
    CONSTRAINT = "constraint"
    LESSON = "lesson"


class State(enum.StrEnum):
    """Where a memory stands; only an active one can reach a prompt."""

    PROPOSED = "proposed"
    ACTIVE = "active"
    RETRACTED = "retracted"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    REJECTED = "rejected"


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory record.

    >>> memory = Memory(id="m-0123456789", text="Reply in Chinese.", kind=Kind.PREFERENCE)
    >>> memory.scope, memory.state.value
    ('*', 'proposed')

    Attributes:
        id: `m-` and 10 hex digits, made from the content.
        text: what is remembered.
        kind: see `Kind`.
        scope: the task type that it is about, or `*`.
        key: the subject, where it has one: a second value for the same subject is a conflict.
        sources: ids of the events that it rests on.
        config_version: the version at work when it was learned.
        confidence: 0 to 1; None where nobody said.
        created: when it was proposed.
        last_used: when it was last recalled; None for never.
        expires: from when on it no longer counts; None for never.
        state: see `State`.
        pinned: whether it stands whole in every prompt of its scope.
    """

    id: Annotated[str, msgspec.Meta(pattern=r"^m-[0-9a-f]{10}\Z")]
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_CHARS)]
    kind: Kind
    scope: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] = ANY_TYPE
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None
    sources: tuple[str, ...] = ()
    config_version: str | None = None
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    created: Annotated[dt.datetime, msgspec.Meta(tz=True)] | None = None
    last_used: Annotated[dt.datetime, msgspec.Meta(tz=True)] | None = None
    expires: Annotated[dt.datetime, msgspec.Meta(tz=True)] | None = None
    state: State = State.PROPOSED
    pinned: bool = False


class ForContext(NamedTuple):
    """What a prompt is shown of the memories.

    Attributes:
        pinned: stand whole in the prompt, in order.
        index_lines: one line for each of the others, in order.
        left_out: ids of those for which the index had no room.
    """

    pinned: tuple[Memory, ...]
    index_lines: tuple[str, ...]
    left_out: tuple[str, ...]


# What must not be broken outlives what is nice to know, where the index has no room for all.
_WEIGHT = {Kind.CONSTRAINT: 0, Kind.PREFERENCE: 1, Kind.FACT: 2, Kind.LESSON: 3}
_START = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

# A passing outage: true today, perhaps no longer next week.
_BROKEN = re.compile(
    r"\b(?:broken|down|unavailable|unreachable|offline|out of order|times? out|timed out|timeouts?|"
    r"(?:not|n't|never|stopped) (?:work|respond|answer|reach|connect|load)\w*|fail(?:s|ed|ing)?|outage|"
    r"returns? (?:an? )?(?:error|5\d\d)|5\d\d errors?|rate.limit\w*|crash(?:es|ed|ing)?)\b"
    r"|坏了|坏掉|损坏|不可用|无法(?:使用|访问|连接|打开)|连不上|打不开|用不了|不能用|失效|宕机|离线|超时|"
    r"没有?响应|无响应|报错|出错|失败|崩溃|限流|故障",
    re.IGNORECASE,
)


def memory_id(text: str, kind: str, scope: str = ANY_TYPE, key: str | None = None) -> str:
    """Return the id of a memory: the same for the same content, so that nothing is proposed twice.

    >>> memory_id("Reply in Chinese.", "preference") == memory_id(" Reply  in Chinese. ", "preference")
    True
    """
    content = "\0".join((" ".join(text.split()), kind, scope, key or ""))
    return "m-" + hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:10]


def tells_of_outage(kind: str, text: str) -> bool:
    """Return whether a memory is a lesson that something is broken, which may pass by itself.

    >>> tells_of_outage("lesson", "search_products is down; use list_category")
    True
    >>> tells_of_outage("lesson", "退款接口超时"), tells_of_outage("lesson", "Look the order up before a refund.")
    (True, False)
    """
    return kind == Kind.LESSON and _BROKEN.search(text) is not None


def for_retest(records: Iterable[Memory]) -> tuple[Memory, ...]:
    """Return the lessons about outages that have expired, oldest first: it is time to try those tools again."""
    found = [one for one in records if one.state is State.EXPIRED and tells_of_outage(one.kind, one.text)]
    return tuple(sorted(found, key=_order))


def for_context(records: Iterable[Memory], task_type: str, *, index_tokens: int = INDEX_TOKENS) -> ForContext:
    """Return what the prompt of a task of `task_type` is shown.

    What is shown is chosen by weight (constraints first, this type's own before general ones, sure before unsure, new
    before old), and ordered by age, so that a new memory changes only the end of the prompt's part.

    Args:
        records: of any state, each id once; only active ones of the scope are taken.
        task_type: of the task.
        index_tokens: estimated tokens that the lines may take together.
    """
    active = sorted(
        (one for one in records if one.state is State.ACTIVE and one.scope in (ANY_TYPE, task_type)), key=_order
    )
    pinned = tuple(one for one in active if one.pinned)
    indexed = [one for one in active if not one.pinned]
    chosen = set()
    room = index_tokens
    lines = {one.id: index_line(one) for one in indexed}
    for one in sorted(indexed, key=_by_weight):
        cost = estimate_tokens(lines[one.id]) + 1  # the line break
        if cost <= room:
            room -= cost
            chosen.add(one.id)
    return ForContext(
        pinned,
        tuple(lines[one.id] for one in indexed if one.id in chosen),
        tuple(one.id for one in indexed if one.id not in chosen),
    )


def index_line(memory: Memory) -> str:
    r"""Return the line of a memory in the index.

    >>> index_line(Memory(id="m-0123456789", text="Orders\nof VIPs go first.", kind=Kind.CONSTRAINT))
    'm-0123456789 constraint: Orders of VIPs go first.'
    """
    flat = " ".join(memory.text.split())
    shown = flat if len(flat) <= LINE_CHARS else flat[: LINE_CHARS - len(CUT)] + CUT
    return f"{memory.id} {memory.kind}: {shown}"


def recall(records: Iterable[Memory], asked: str, task_type: str = ANY_TYPE, limit: int = 5) -> tuple[Memory, ...]:
    """Return the active memories that an id names, or that fit words best (BM25; Chinese by pairs of characters).

    Args:
        records: of any state.
        asked: an id such as `m-0123456789`, or words.
        task_type: memories of other types stay out; `*` for all of them.
        limit: at most so many.
    """
    active = [one for one in records if one.state is State.ACTIVE]
    if task_type != ANY_TYPE:
        active = [one for one in active if one.scope in (ANY_TYPE, task_type)]
    active.sort(key=_order)
    named = [one for one in active if one.id == asked.strip()]
    if named:
        return tuple(named)
    return tuple(active[place] for place, _ in _search(active, asked, limit))


def _search(records: Sequence[Memory], words: str, limit: int) -> list[tuple[int, float]]:
    index = Bm25(tokens(f"{one.key or ''} {one.text}") for one in records)
    return index.search(tokens(words), limit)


def recalled(memories: Iterable[Memory]) -> dict[str, list[dict[str, str]]]:
    """Return the output of the tool `recall`: what the model is shown, by which `last_used` is known later."""
    return {"memories": [{"id": one.id, "kind": str(one.kind), "text": one.text} for one in memories]}


def pinned_tokens(records: Iterable[Memory], task_type: str = ANY_TYPE) -> int:
    """Return about how many tokens the pinned memories take in prompts of a task type; `*` counts all of them."""
    return sum(
        estimate_tokens(one.text)
        for one in records
        if one.pinned and one.state is State.ACTIVE and (ANY_TYPE in (one.scope, task_type) or one.scope == task_type)
    )


def _order(memory: Memory) -> tuple[dt.datetime, str]:
    return memory.created or _START, memory.id


def _by_weight(memory: Memory) -> tuple[int, bool, float, float, str]:
    sure = 0.5 if memory.confidence is None else memory.confidence
    age = -(memory.created or _START).timestamp()
    return _WEIGHT[memory.kind], memory.scope == ANY_TYPE, -sure, age, memory.id
