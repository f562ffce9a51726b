"""Drive many episodes at once against the world: models in batches, tools in a pool, one event an effect.

Episodes advance in lock step: every waiting episode runs its tools and notes until it needs a model; then all of their
questions go to the model in one call, in the order of the tasks. So batches never depend on what came back first, and
a run of the same seed on the same model gives the same events but for ids and times.
"""

from __future__ import annotations

import dataclasses
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import msgspec

from hermes_lab import acting, loop
from hermes_lab.approvers import Approver
from hermes_lab.asking import ModelTiers, answer
from hermes_lab.config import AgentConfig
from hermes_lab.effects import Act, Ask, Effect, End, Ending, Note, Permit
from hermes_lab.errors import ConfigError, EventError, MissingError
from hermes_lab.grading import ask_judge, grade_episode
from hermes_lab.kinds import Action, ErrorKind, Status, Tier
from hermes_lab.loop import View
from hermes_lab.models.base import Reply, Request
from hermes_lab.models.prices import Price
from hermes_lab.recorder import EpisodeRecorder, Recorder
from hermes_lab.tasks import Grade, Message, Task
from hermes_lab.tools.base import Environment, Result, Spec, Tool

_TRACEBACK_CHARS = 4000


class World(Protocol):
    """Where episodes act: a suite, or whatever else gives tools and an environment to each of them."""

    @property
    def name(self) -> str:
        """Of the suite."""

    def toolbox(self) -> Mapping[str, Tool]:
        """Return the tools by name."""

    def open(self, task: Task, /) -> Environment | None:
        """Return a new environment for one episode of `task`."""


class Job(NamedTuple):
    """One attempt at one task; `message` is the request that it came by, where that was not the task's own prompt."""

    task: Task
    seed: int = 0
    message: Message | None = None


class Progress(NamedTuple):
    """How far a run is.

    Attributes:
        done: episodes that ended.
        of: episodes in all.
        model_calls: so far.
        tokens: so far.
        seconds: since the run began.
        last: the task and the ending of the episode that ended last.
    """

    done: int
    of: int
    model_calls: int
    tokens: int
    seconds: float
    last: tuple[Task, Ending, Grade | None] | None


@dataclass(frozen=True, slots=True)
class Setting:
    """How a run is driven; nothing here changes what an agent does.

    Attributes:
        at_once: episodes that advance together.
        tool_workers: threads that run tools.
        approval_s: seconds that a person has to answer; then the answer is no.
    """

    at_once: int = 32
    tool_workers: int = 8
    approval_s: float = 300.0


@dataclass(slots=True)
class Outcome:
    """What became of one job; `ending` is None where the run was stopped before its end."""

    job: Job
    episode_id: str
    ending: Ending | None = None
    grade: Grade | None = None


@dataclass(slots=True, eq=False)  # one episode is never equal to another
class _Live:
    """An episode at work."""

    job: Job
    recorder: EpisodeRecorder
    steps: Generator[Effect, Any, Ending]
    environment: Environment | None
    effect: Effect | None = None
    ending: Ending | None = None
    grade: Grade | None = None


@dataclass
class Runner:
    """Drives episodes of one suite under one configuration.

    Attributes:
        suite: gives tools and environments.
        config: of the agent.
        models: by tier.
        recorder: writes the events.
        view: what the loop may read; its seed is replaced by each job's.
        approver: answers `Permit`.
        setting: how to drive.
        prices: of the models' tokens by tier, where they are known.
        on_progress: called after each episode's end.
        keep_environments: leave environments open at the end of an episode, for a conversation that goes on with it.
    """

    suite: World
    config: AgentConfig
    models: ModelTiers
    recorder: Recorder
    view: View
    approver: Approver
    setting: Setting = field(default_factory=Setting)
    prices: Mapping[Tier, Price] = field(default_factory=dict)
    on_progress: Callable[[Progress], None] | None = None
    keep_environments: bool = False

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Run the jobs, and return what became of each that was begun, in the order in which they ended.

        Raises:
            ConfigError, MissingError: a model cannot be used.
            KeyboardInterrupt: it was stopped; every event so far is in the log, and each episode that was under way
                has an ending that says `cancelled`.
        """
        self._began = time.perf_counter()
        self._model_calls = self._tokens = 0
        waiting, live, outcomes = deque(jobs), [], []  # type: ignore[var-annotated]
        with acting.ToolRunner(self.suite.toolbox(), self.setting.tool_workers) as tools:
            try:
                while waiting or live:
                    while waiting and len(live) < self.setting.at_once:
                        live.append(self._start(waiting.popleft()))
                    self._settle(live, tools)
                    self._think([one for one in live if isinstance(one.effect, Ask)])
                    for one in [one for one in live if one.effect is None]:
                        live.remove(one)
                        outcomes.append(self._finish(one, len(outcomes) + 1, len(jobs)))
            except (KeyboardInterrupt, ConfigError, MissingError):  # stopped, or a model that cannot be used
                for one in live:
                    self._cancel(one)
                self.recorder.writer.flush()
                raise
        self.recorder.writer.flush()
        return outcomes

    # -- an episode's life ----------------------------------------------------------------------------------------

    def _start(self, job: Job) -> _Live:
        recorder = self.recorder.episode(job.task)
        recorder.message(job.message or _message(job.task, self.recorder.channel))
        view = dataclasses.replace(self.view, seed=job.seed)
        one = _Live(job, recorder, loop.episode(job.task, self.config, view), None)
        try:
            one.environment = self.suite.open(job.task)
        except Exception:  # noqa: BLE001 - a suite's fault ends this episode, not the run
            self._crash(one, "opening the environment")
            return one
        self._advance(one, None)
        return one

    def _advance(self, one: _Live, outcome: Any) -> None:
        """Send an outcome and take the next effect; notes are written on the way."""
        while True:
            try:
                effect = one.steps.send(outcome)
            except StopIteration as stop:
                one.effect, one.ending = None, stop.value
                return
            except Exception:  # noqa: BLE001 - a fault of the loop ends this episode, not the run
                self._crash(one, "the loop")
                return
            if not isinstance(effect, Note):
                one.effect = effect
                return
            one.recorder.note(effect)
            outcome = None

    def _crash(self, one: _Live, where: str) -> None:
        """Record that an episode ended by a fault of ours or of a suite, with the traceback for whoever mends it."""
        text = traceback.format_exc()[-_TRACEBACK_CHARS:]
        one.effect = None
        one.ending = Ending(end=End.ERROR, reason=f"{where} failed: {text.strip().splitlines()[-1]}")
        one.recorder.note(
            Note(
                action=Action.TASK_ENDED,
                name=str(End.ERROR),
                output={**msgspec.to_builtins(one.ending), "traceback": text},
                observation=one.ending.reason,
                status=Status.ERROR,
                error_kind=ErrorKind.CRASHED,
            )
        )

    def _cancel(self, one: _Live) -> None:
        one.steps.close()
        if one.ending is None:
            one.recorder.note(cancelled("the run was stopped"))
        self._let_go(one)

    def _finish(self, one: _Live, done: int, of: int) -> Outcome:
        """Grade an episode that ended, and let go of its environment."""
        ending = one.ending
        assert ending is not None  # noqa: S101 - `effect` is None only with an ending
        graded = None
        if one.job.task.grader is not None:
            graded = self._grade(one, ending)
            one.recorder.graded(graded)
        self._let_go(one)
        if self.on_progress is not None:
            seconds = time.perf_counter() - self._began
            last = (one.job.task, ending, graded)
            self.on_progress(Progress(done, of, self._model_calls, self._tokens, seconds, last))
        return Outcome(one.job, one.recorder.episode_id, ending, graded)

    def _let_go(self, one: _Live) -> None:
        if one.environment is not None and not self.keep_environments:
            one.environment.close()

    def _grade(self, one: _Live, ending: Ending) -> Grade:
        def judge(request: Request) -> Reply:
            reply = ask_judge(self.models.of(Tier.STRONG), request, one.recorder)
            self._count(reply)
            return reply

        return grade_episode(one.job.task, ending, one.environment, judge=judge)

    # -- effects --------------------------------------------------------------------------------------------------

    def _settle(self, live: Sequence[_Live], tools: acting.ToolRunner) -> None:
        """Run tools and permissions until every episode needs a model or has ended."""
        while True:
            acts = [(one, one.effect) for one in live if isinstance(one.effect, Act)]
            asking = [(one, one.effect) for one in live if isinstance(one.effect, Permit)]
            if not acts and not asking:
                return
            self._act([one for one, _ in acts], [act for _, act in acts], tools)
            for one, permit in asking:
                decision = self.approver.decide(permit, deadline_s=self.setting.approval_s)
                one.recorder.permitted(permit, decision)
                self._advance(one, decision)

    def _act(self, live: Sequence[_Live], acts: Sequence[Act], tools: acting.ToolRunner) -> None:
        """Run the tool that each episode asks for, write the calls, and send the results."""
        results = tools.run([acting.Call(act, one.environment) for one, act in zip(live, acts, strict=True)])
        for one, act, result in zip(live, acts, results, strict=True):
            self._advance(one, _record(one, act, tools.spec(act.tool), result))

    def _think(self, asking: Sequence[_Live]) -> None:
        """Put the questions of all waiting episodes to their models, one call a model, and send the replies."""
        if not asking:
            return
        asks = [one.effect for one in asking if isinstance(one.effect, Ask)]
        replies = answer(asks, self.models, self.prices)
        for one, ask, reply in zip(asking, asks, replies, strict=True):
            self._count(reply)
            one.recorder.asked(ask, reply)
            self._advance(one, reply)

    def _count(self, reply: Reply) -> None:
        self._model_calls += 1
        self._tokens += (reply.input_tokens or 0) + (reply.cached_tokens or 0) + (reply.output_tokens or 0)


def _record(one: _Live, act: Act, spec: Spec, result: Result) -> Result:
    """Write a tool call, and return its result: a failure where a foreign tool gave what the log cannot hold."""
    try:
        one.recorder.acted(act, spec, result)
    except EventError as error:
        result = acting.crashed(f"the tool's result cannot be recorded: {error}")
        one.recorder.acted(act, spec, result)
    return result


def _message(task: Task, channel: str) -> Message:
    return Message(text=task.prompt, channel=channel, task_id=task.id, task_type=task.type)


def cancelled(why: str) -> Note:
    """Return the ending of an episode that was stopped from outside."""
    return Note(
        action=Action.TASK_ENDED, name="cancelled", output={"reason": why}, observation=why, status=Status.CANCELLED
    )
