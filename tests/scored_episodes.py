"""Small logs of episodes, said in a line each, for tests of the evaluator."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hermes_lab import payload
from hermes_lab.events import Action, ErrorKind, Event, Status
from hermes_lab.lab import Lab
from hermes_lab.log.writer import new_id

START = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)
DENIED = "denied"


@dataclass(frozen=True)
class Call:
    """A call that ran; a tool whose name begins with `search` is a search."""

    tool: str = "find"
    given: Any = "SO-1"
    found: Any = "shipped"
    status: Status | None = Status.OK
    kind: ErrorKind | None = None
    latency_ms: float | None = 0.0
    weight: float = 1.0
    hashed: bool = True


@dataclass(frozen=True)
class Refused:
    """A call that a check refused before it ran."""

    tool: str = "find"
    kind: ErrorKind = ErrorKind.BAD_ARGUMENTS
    status: Status = Status.INVALID


@dataclass(frozen=True)
class Episode:
    """An episode; by default one sound call, graded 1, and 100 tokens and 1 s in one model call.

    Attributes:
        task: its task; "" for one of its own.
        grades: by graders, in order; None is a grade that could not be given.
        task: the task; None for one of its own.
        end: how it ended; None for not at all.
        how: the word for the end; None for the usual one.
        minute: it began so many minutes after START; each event comes a second after the one before.
    """

    id: str = "e1"
    task: str | None = None
    type: str | None = "orders"
    version: str = "v1"
    run: str = "r1"
    channel: str | None = "suite"
    doings: tuple[Call | Refused, ...] = (Call(),)
    grades: tuple[float | None, ...] = (1.0,)
    person: tuple[float, ...] = ()
    feedback: str | None = None
    end: Status | None = Status.OK
    how: str | None = None
    answer: str = "It is shipped."
    tokens: tuple[int | None, int | None] = (80, 20)
    latency_ms: float | None = 1000.0
    model_status: Status = Status.OK
    steps: int | None = 2
    fixes: int = 0
    overstepped: int = 0
    seed: int = 0
    minute: float = 0.0
    difficulty: int = 1


def write(lab: Lab, *episodes: Episode, more: Iterable[Event] = ()) -> None:
    """Write episodes to a lab's log, and other events after them."""
    with lab.log.writer() as writer:
        for episode in episodes:
            for event in _events(episode):
                writer.append(event)
        for event in more:
            writer.append(event)


_HOW = {
    Status.OK: "completed",
    Status.ERROR: "error",
    Status.TIMEOUT: "timeout",
    Status.DENIED: DENIED,
    Status.CANCELLED: "cancelled",
}


class _Line(list[Event]):
    """The events of one episode, made one after another."""

    def __init__(self, one: Episode) -> None:
        super().__init__()
        self.one = one

    def add(self, action: Action, **columns: Any) -> None:
        for name in ("input", "output"):
            if name in columns:
                columns[name] = payload.dumps(columns[name])
        one = self.one
        self.append(
            Event(
                event_id=new_id(),
                ts=START + dt.timedelta(minutes=one.minute, seconds=len(self)),
                run_id=one.run,
                episode_id=one.id,
                task_id=one.task or f"task of {one.id}",
                task_type=one.type,
                config_version=one.version,
                channel=one.channel,
                step=len(self),
                action=action,
                **columns,
            )
        )


def _events(one: Episode) -> list[Event]:
    made = _Line(one)
    task = {"prompt": "Where is SO-1?", **({"difficulty": one.difficulty} if one.difficulty != 1 else {})}
    made.add(Action.TASK_STARTED, name="family", input={"task": task, "seed": one.seed, "run": {"suite": "s"}})
    made.add(
        Action.GENERATION,
        name="m",
        status=one.model_status,
        input_tokens=one.tokens[0],
        output_tokens=one.tokens[1],
        latency_ms=one.latency_ms,
        output={"text": "..."},
    )
    for doing in one.doings:
        _add_doing(made, doing)
    for _ in range(one.fixes):
        made.add(Action.REFLECTION, output={"status": "needs_fix"}, status=Status.OK)
    for _ in range(one.overstepped):
        made.add(Action.PERMISSION_DECIDED, name="nobody", status=Status.DENIED)
    if one.end is not None:
        output = {} if one.steps is None else {"steps": one.steps}
        how = one.how or _HOW[one.end]
        made.add(Action.TASK_ENDED, name=how, status=one.end, output=output, observation=one.answer)
    for action, name, output in _words_on(one):
        made.add(action, name=name, output=output, status=Status.OK)
    return made


def _add_doing(made: _Line, doing: Call | Refused) -> None:
    if isinstance(doing, Refused):
        made.add(Action.TOOL_CHECKED, name=doing.tool, status=doing.status, error_kind=doing.kind, output={})
        return
    made.add(
        Action.RETRIEVAL if doing.tool.startswith("search") else Action.TOOL_CALLED,
        name=doing.tool,
        input={"given": doing.given},
        output=doing.found,
        status=doing.status,
        error_kind=doing.kind,
        latency_ms=doing.latency_ms,
        weight=doing.weight,
        request_hash=f"{doing.tool}:{doing.given}" if doing.hashed else None,
    )


def _words_on(one: Episode) -> list[tuple[Action, str, Any]]:
    """Return what graders, people and the user say of an episode afterwards."""
    said: list[tuple[Action, str, Any]] = [(Action.GRADED, "state", {"score": grade}) for grade in one.grades]
    said += [(Action.GRADED, "person", {"score": grade, "by": "王芳"}) for grade in one.person]
    return [*said, (Action.FEEDBACK, one.feedback, {})] if one.feedback else said
