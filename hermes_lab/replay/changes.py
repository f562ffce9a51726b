"""What a replay can find: how a decision changed, where an effect is not what was recorded, and which field differs."""

from __future__ import annotations

import enum
from typing import Any

import msgspec

_SHOWN = 160


class ChangeKind(enum.StrEnum):
    """How something came out otherwise under another configuration. The list is closed.

    The first three are about what the model is shown or asked, and are no decisions yet; the others are.
    """

    OTHER_ROUTE = "other_route"
    """Other tools are offered, or in another order."""
    OTHER_CONTEXT = "other_context"
    """The same tools are offered, and something else of the question to the model differs."""
    OTHER_REFLECTION = "other_reflection"
    """A reflection or a splitting of the request is asked for where none was, or the other way round."""
    LOST_TOOL = "lost_tool"
    """The tool that was called is no longer offered, so that it cannot be called."""
    OTHER_TOOL = "other_tool"
    """Another tool is called."""
    OTHER_ARGUMENTS = "other_arguments"
    """The same tool is called with other arguments."""
    BLOCKED_BY_CHECK = "blocked_by_check"
    """A check refuses a call that ran, or refuses it for another reason."""
    PASSED_CHECK = "passed_check"
    """A call runs that a check refused."""
    OTHER_PERMISSION = "other_permission"
    """A person is asked, or a call is denied or allowed, otherwise than then."""
    ENDED_EARLIER = "ended_earlier"
    """The episode ends where it went on."""
    ENDED_LATER = "ended_later"
    """The episode goes on where it ended."""
    OTHER_END = "other_end"
    """It ends at the same place, but otherwise or with another answer."""
    UNANSWERED = "unanswered"
    """Something was asked of the outside that nobody answered: what comes next is unknown."""


class Verdict(enum.StrEnum):
    """What a replay says of an episode."""

    KEPT = "kept"
    CHANGED = "changed"
    UNKNOWN = "unknown"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The first place where an episode came out otherwise.

    Attributes:
        kind: how.
        step: the recorded step; -1 where it lies behind the last one.
        old: what was recorded, as a short text.
        new: what it is now.
        field: the field that differs first, such as `messages[1].content`; "" where that says nothing.
        assumed: whether it rests on the assumption that the model says the same to a question that differs.
    """

    kind: ChangeKind
    step: int
    old: str
    new: str
    field: str = ""
    assumed: bool = False

    def __str__(self) -> str:
        """Say it in one line."""
        where = f" ({self.field})" if self.field else ""
        return f"step {self.step}: {self.kind}{where}: {self.old} -> {self.new}"


class MismatchKind(enum.StrEnum):
    """How an effect is not what was recorded, under the very configuration that it was recorded with."""

    PROMPT = "prompt"
    CALL = "call"
    PERMISSION = "permission"
    NOTE = "note"
    OTHER_EFFECT = "other_effect"
    MISSING_EFFECT = "missing_effect"
    EXTRA_EFFECT = "extra_effect"
    CRASH = "crash"


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """An effect that is not what was recorded.

    Attributes:
        episode_id: of the episode.
        step: the recorded step; -1 where it lies behind the last one.
        kind: how it differs.
        field: the field that differs first.
        expected: what was recorded there, as a short text.
        got: what it is now.
        because: what is known to have changed since, which may be why; "" where nothing is.
    """

    episode_id: str
    step: int
    kind: MismatchKind
    field: str
    expected: str
    got: str
    because: str = ""

    def __str__(self) -> str:
        """Say it in one line."""
        why = f" ({self.because})" if self.because else ""
        return (
            f"{self.episode_id} step {self.step}: {self.kind}: {self.field or 'effect'} was {self.expected}, "
            f"is {self.got}{why}"
        )


class Difference(msgspec.Struct, frozen=True):
    """The first field in which two values differ, and what stands there, as short texts."""

    field: str
    old: str
    new: str


ABSENT = "(nothing)"
"""What is shown where a field is missing."""


def first_difference(old: Any, new: Any, field: str = "") -> Difference | None:
    """Return the first field in which two JSON values differ, or None where they are equal.

    >>> first_difference({"tools": [{"name": "a"}]}, {"tools": [{"name": "b"}]})
    Difference(field='tools[0].name', old='a', new='b')
    """
    if isinstance(old, dict) and isinstance(new, dict):
        return _in_dicts(old, new, field)
    if isinstance(old, list) and isinstance(new, list):
        return _in_lists(old, new, field)
    if old == new or (old != old and new != new):  # NaN
        return None
    return Difference(field, *_around(old, new))


def _in_dicts(old: dict[str, Any], new: dict[str, Any], field: str) -> Difference | None:
    for key in dict.fromkeys((*old, *new)):
        place = f"{field}.{key}" if field else key
        if key not in old or key not in new:
            return Difference(place, *(shown(side[key]) if key in side else ABSENT for side in (old, new)))
        found = first_difference(old[key], new[key], place)
        if found is not None:
            return found
    return None


def _in_lists(old: list[Any], new: list[Any], field: str) -> Difference | None:
    for place, (before, now) in enumerate(zip(old, new, strict=False)):
        found = first_difference(before, now, f"{field}[{place}]")
        if found is not None:
            return found
    if len(old) == len(new):
        return None
    place = min(len(old), len(new))
    return Difference(
        f"{field}[{place}]", *(shown(side[place]) if place < len(side) else ABSENT for side in (old, new))
    )


def _around(old: Any, new: Any) -> tuple[str, str]:
    """Return two values as short texts; of long texts the part where they begin to differ."""
    if not (isinstance(old, str) and isinstance(new, str) and max(len(old), len(new)) > _SHOWN):
        return shown(old), shown(new)
    begin = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    start = max(0, begin - _SHOWN // 4)
    lead = "..." if start else ""
    return lead + shown(old[start:]), lead + shown(new[start:])


def shown(value: Any) -> str:
    """Return a value as a short text."""
    if isinstance(value, str):
        text = value
    else:
        try:
            text = msgspec.json.encode(value).decode()
        except (msgspec.MsgspecError, TypeError, ValueError):
            text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
