"""Answers for what a record does not, asked anew: models of the lab, and tools on a fresh world of the episode.

The world is brought to where the episode was by making the recorded calls again, and what they give is held against
the record. Nothing high-risk is ever run, and whatever asks for a permission that the record does not hold is denied.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hermes_lab import payload
from hermes_lab.asking import ModelTiers, answer
from hermes_lab.effects import Act, Ask, Decision, Ending, Permit, Remaining
from hermes_lab.kinds import ErrorKind, Status, Tier
from hermes_lab.models.base import Reply, Request
from hermes_lab.models.prices import Price
from hermes_lab.replay.changes import first_difference
from hermes_lab.replay.drive import Drive
from hermes_lab.replay.entries import Entry
from hermes_lab.replay.view import CONVERSATION
from hermes_lab.runner import World
from hermes_lab.suites.foreign import attempt
from hermes_lab.suites.graders import grade
from hermes_lab.tasks import Task
from hermes_lab.tools.base import Environment, Level, Result

DENIED = Decision(allowed=False, by="replay", reason="a replay makes no call that has to be permitted")
"""What a replay answers to whatever asks for permission."""

OnReply = Callable[[Ask, Reply], None]


@dataclass(slots=True)
class _Opened:
    """The world of a drive: its suite, its environment, and why it cannot be used ("" where it can)."""

    suite: World | None
    environment: Environment | None = None
    problem: str = ""


class Live:
    """Asks the lab's models, and runs tools on fresh worlds.

    Args:
        models: by tier.
        prices: of the models' tokens by tier, where they are known.
        suite_of: gives the suite of an episode, by its id; None where there is none.
        on_reply: is told of each question that was put to a model, and its reply.
    """

    basis = "live"

    def __init__(
        self,
        models: ModelTiers,
        prices: Mapping[Tier, Price],
        suite_of: Callable[[Drive], World | None],
        on_reply: OnReply,
    ) -> None:
        self._models = models
        self._prices = prices
        self._suite_of = suite_of
        self._on_reply = on_reply
        self._opened: dict[int, _Opened] = {}
        self._graded: dict[str, dict[str, Task]] = {}

    def carry_on(self, drives: Sequence[Drive]) -> None:
        """Answer what each of `drives` wants; the questions to models go in one batch."""
        asking = [drive for drive in drives if isinstance(drive.wanted, Ask)]
        asks = [drive.wanted for drive in asking if isinstance(drive.wanted, Ask)]
        doing = [drive for drive in drives if not isinstance(drive.wanted, Ask)]
        for drive, ask, reply in zip(asking, asks, answer(asks, self._models, self._prices), strict=True):
            self._on_reply(ask, reply)
            tokens = None
            if reply.input_tokens is not None and reply.output_tokens is not None:
                tokens = reply.input_tokens + (reply.cached_tokens or 0) + reply.output_tokens
            drive.usage.add(tokens, reply.cost_usd)
            drive.advance(reply)
        for drive in doing:
            if isinstance(drive.wanted, Permit):
                drive.advance(DENIED)
            elif isinstance(drive.wanted, Act):
                self._act(drive, drive.wanted)

    def end(self, drive: Drive) -> float | None:
        """Grade an episode that came to an end in a world that is like its own, and let go of the world."""
        score = None if drive.ending is None else self._grade(drive, drive.ending)
        opened = self._opened.pop(id(drive), None)
        if opened is not None and opened.environment is not None:
            opened.environment.close()
        return score

    def _act(self, drive: Drive, act: Act) -> None:
        opened = self._world(drive)
        if opened.problem or opened.suite is None:
            drive.remarks.append(opened.problem)
            drive.unanswered()
            return
        drive.advance(_run(opened.suite, opened.environment, act.tool, act.arguments, act.remaining.seconds))

    def _world(self, drive: Drive) -> _Opened:
        """Return the world of a drive as it was before its first own call."""
        opened = self._opened.get(id(drive))
        if opened is None:
            opened = self._open(drive)
            self._opened[id(drive)] = opened
        return opened

    def _open(self, drive: Drive) -> _Opened:
        task, suite = drive.recording.task, self._suite_of(drive)
        if suite is None or task is None:
            return _Opened(None, problem="its suite is not there to run tools on")
        if drive.recording.about.suite == CONVERSATION:
            return _Opened(None, problem="the world of a conversation holds what earlier turns did, and is gone")
        environment, failure = attempt(suite.open, task)
        if failure is not None:
            return _Opened(None, problem=f"its world cannot be opened: {failure}")
        opened = _Opened(suite, environment)
        for entry in drive.acted:
            opened.problem = opened.problem or _again(drive, opened, entry)
        return opened

    def _grade(self, drive: Drive, ending: Ending) -> float | None:
        task = drive.recording.task
        suite = self._suite_of(drive)
        if task is None or suite is None:
            return None
        graded = self._task_with_grader(suite, task)
        if graded is None:
            drive.remarks.append("its suite no longer has the task, so it is not graded")
            return None
        opened = self._world(drive)
        if opened.problem:
            drive.remarks.append(opened.problem)
            return None
        return grade(graded, ending, opened.environment, judge=self._judge).score

    def _task_with_grader(self, suite: World, task: Task) -> Task | None:
        """Return the suite's task, if it is still the recorded one and has a grader."""
        if suite.name not in self._graded:
            tasks = getattr(suite, "tasks", None)
            found = tasks() if callable(tasks) else []
            self._graded[suite.name] = {one.id: one for one in found}
        now = self._graded[suite.name].get(task.id)
        if now is None or now.grader is None:
            return None
        same = all(
            getattr(now, name) == getattr(task, name) for name in ("prompt", "tools", "environment", "answer_by")
        )
        return now if same else None

    def _judge(self, request: Request) -> Reply:
        reply = self._models.of(Tier.STRONG).generate([request])[0]
        ask = Ask(purpose="judge", tier=Tier.STRONG, request=request, remaining=Remaining(0, 0.0))
        self._on_reply(ask, reply)
        return reply


def _again(drive: Drive, opened: _Opened, entry: Entry) -> str:
    """Make a recorded call again; return why the world cannot be made, and remark what came out otherwise."""
    assert opened.suite is not None  # noqa: S101 - called with a world that is open
    tool, arguments = entry.row.name or "", entry.row.given()
    known = opened.suite.toolbox().get(tool)
    if known is None or known.spec.level is Level.HIGH_RISK:
        why = "is gone" if known is None else "is high_risk and is not made again"
        return f"its world cannot be made again: a call of {tool} before {why}"
    result = _run(opened.suite, opened.environment, tool, arguments)
    found = first_difference(entry.row.came(), payload.loads(payload.dumps(result.output)), "output")
    if found is not None:
        text = f"{tool} gave something else when it was called again ({found.field}: {found.old} -> {found.new})"
        drive.remarks.append(text)
    return ""


def _run(
    suite: World, environment: Environment | None, tool: str, arguments: dict[str, Any], seconds: float | None = None
) -> Result:
    known = suite.toolbox()[tool]
    if known.spec.level is Level.HIGH_RISK:  # it would have been asked about, and denied, before
        return Result({"error": DENIED.reason}, Status.DENIED, ErrorKind.NO_PERMISSION)
    result, failure = attempt(known.run, environment, copy.deepcopy(arguments), seconds=seconds)
    if failure is None and isinstance(result, Result) and attempt(payload.dumps, result.output)[1] is None:
        return result
    text = failure or "its result cannot be recorded"
    return Result({"error": text}, Status.ERROR, ErrorKind.CRASHED)
