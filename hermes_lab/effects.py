"""What the loop asks of the outside, and what it is sent back. An event of an episode is one of these, written down.

`loop.episode` yields effects; the driver (runner or replay) carries each out and sends its outcome:

| effect | outcome |
| --- | --- |
| `Ask` a model | `models.Reply` |
| `Act` with a tool | `tools.Result` |
| `Permit` by a person or rule | `Decision` |
| `Note` a pure decision | None |
"""

from __future__ import annotations

import enum
import hashlib
from typing import Any

import msgspec

from hermes_lab import payload
from hermes_lab.kinds import Action, ErrorKind, Status, Tier
from hermes_lab.models.base import Request


class Remaining(msgspec.Struct, frozen=True):
    """What is left of an episode's budgets when an effect is yielded; the driver must not let it take more."""

    tokens: int
    seconds: float
    usd: float | None = None


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Ask the model of a tier. `purpose` is plan, reflect or decompose; `remaining` is no part of the hash."""

    purpose: str
    tier: Tier
    request: Request
    remaining: Remaining


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """Run a tool that passed the checks."""

    tool: str
    arguments: dict[str, Any]
    remaining: Remaining


class Permit(msgspec.Struct, frozen=True, kw_only=True):
    """Ask whether a call may run. `reason` says why it is asked: its level, or the rule that asks."""

    tool: str
    arguments: dict[str, Any]
    level: str
    reason: str


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Write down a decision that the loop made by itself; the fields are those of an event."""

    action: Action
    name: str | None = None
    input: Any = None
    output: Any = None
    observation: str | None = None
    status: Status | None = None
    error_kind: ErrorKind | None = None
    confidence: float | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of `Permit`: whether, by whom (a person, or the rule's name), and why."""

    allowed: bool
    by: str
    reason: str = ""


Effect = Ask | Act | Permit | Note


class End(enum.StrEnum):
    """How an episode ended."""

    COMPLETED = "completed"
    GAVE_UP = "gave_up"
    DIVERGED = "diverged"
    DENIED = "denied"
    BUDGET = "budget"
    TIMEOUT = "timeout"
    ERROR = "error"


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """What an episode came to.

    Attributes:
        end: how it ended.
        answer: the final answer; "" where there is none.
        reason: why, where it is not completed.
        calls: the calls that ran, in order, as (tool, arguments, status).
        steps: planning turns taken.
        reflections: reflections made.
        tokens: of every model call.
        seconds: in models and tools.
        usd: money; None where no price is known.
    """

    end: End
    answer: str = ""
    reason: str = ""
    calls: tuple[Called, ...] = ()
    steps: int = 0
    reflections: int = 0
    tokens: int = 0
    seconds: float = 0.0
    usd: float | None = None


class Called(msgspec.Struct, frozen=True, array_like=True):
    """A call that ran."""

    tool: str
    arguments: dict[str, Any]
    status: Status


def effect_hash(kind: str, content: Any) -> str:
    """Return the key by which replay finds the outcome of an effect: 32 hex digits of the SHA-256 of its content.

    `content` must be redacted already, and be what the log holds, so that the same hash can be made from the log.

    >>> effect_hash("act", {"tool": "add", "arguments": {"b": 1, "a": 2}})[:8]
    '6d30d0bf'
    """
    return hashlib.sha256(kind.encode() + b"\n" + payload.canonical(content)).hexdigest()[:32]
