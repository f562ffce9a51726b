"""What the log holds of an effect and its outcome, and the outcome made of it again, as the loop was sent it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from hermes_lab import payload
from hermes_lab.effects import Decision
from hermes_lab.kinds import Action, ErrorKind, Status
from hermes_lab.models.base import Attempt, Finish, Reply
from hermes_lab.recorder import passes
from hermes_lab.tools.base import Result

TOOL_ACTIONS = (Action.TOOL_CALLED, Action.CODE_EXECUTED, Action.RETRIEVAL)
"""The kinds of event that a tool call is recorded as."""

Kind = Literal["note", "ask", "act", "permit", "stopped", "crashed"]


class Row(NamedTuple):
    """An event as `sql/events.sql` gives it, with its text as it was given to the writer."""

    episode_id: str
    step: int | None
    event_id: str
    parent_id: str | None
    ts: dt.datetime
    run_id: str | None
    task_id: str | None
    task_type: str | None
    config_version: str | None
    action: str
    name: str | None
    input: str | None
    output: str | None
    observation: str | None
    status: str | None
    error_kind: str | None
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    latency_ms: float | None
    cost_usd: float | None
    from_cache: bool | None
    tier: str | None
    confidence: float | None
    request_hash: str | None
    purpose: str | None

    def given(self) -> Any:
        """Return the value of `input`; None where there is none."""
        return None if self.input is None else payload.loads(self.input)

    def came(self) -> Any:
        """Return the value of `output`; None where there is none."""
        return None if self.output is None else payload.loads(self.output)


COLUMNS = ", ".join(Row._fields[:-1])
"""What a query selects for rows, before the purpose, which each query finds in its own way."""


@dataclass(slots=True)
class Entry:
    """An effect of an episode, with its outcome, as the log has it.

    Attributes:
        kind: of effect; `stopped` and `crashed` are the ends that the runner wrote.
        row: its event; of a permission the one that asks.
        attempts: of a question to a model, the tries that failed before.
        answer: of a permission, the event that decides; None where the log ends before.
        transient: of a tool call, what the log says beside its kind of error; None where it says nothing.
    """

    kind: Kind
    row: Row
    attempts: list[Row] = field(default_factory=list)
    answer: Row | None = None
    transient: bool | None = None

    @property
    def step(self) -> int:
        """Order of its event within the episode; -1 where unknown."""
        return -1 if self.row.step is None else self.row.step

    def reply(self) -> Reply:
        """Return the reply that a model gave."""
        row, came = self.row, self.row.came() or {}
        attempts = tuple(_attempt(one) for one in self.attempts)
        latency = row.latency_ms
        if latency is not None:
            latency += sum(one.latency_ms for one in attempts)
        return Reply(
            text=came.get("text", ""),
            model=row.name or "",
            finish=Finish(came.get("finish", Finish.STOP)),
            reasoning=came.get("reasoning", ""),
            error_kind=_error_kind(row),
            error=came.get("error", ""),
            input_tokens=row.input_tokens,
            cached_tokens=row.cached_tokens,
            output_tokens=row.output_tokens,
            latency_ms=latency,
            cost_usd=row.cost_usd,
            confidence=row.confidence,
            from_cache=bool(row.from_cache),
            attempts=attempts,
        )

    def result(self) -> Result:
        """Return the result that a tool gave."""
        row, kind = self.row, _error_kind(self.row)
        transient = passes(kind) if self.transient is None else self.transient
        return Result(row.came(), Status(row.status or Status.OK), kind, transient, row.latency_ms)

    def decision(self) -> Decision | None:
        """Return the answer to a permission; None where the log ends before it."""
        if self.answer is None:
            return None
        came = self.answer.came() or {}
        return Decision(
            allowed=bool(came.get("allowed")), by=self.answer.name or "", reason=str(came.get("reason") or "")
        )


def row_tokens(row: Row) -> int | None:
    """Return the tokens of a model call; None where they are unknown."""
    if row.input_tokens is None or row.output_tokens is None:
        return None
    return row.input_tokens + (row.cached_tokens or 0) + row.output_tokens


def _error_kind(row: Row) -> ErrorKind | None:
    return None if row.error_kind is None else ErrorKind(row.error_kind)


def _attempt(row: Row) -> Attempt:
    came = row.came() or {}
    return Attempt(
        error_kind=_error_kind(row) or ErrorKind.OTHER,
        error=str(came.get("error") or ""),
        latency_ms=row.latency_ms or 0.0,
    )
