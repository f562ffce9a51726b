"""The agent: plan, check, act, reflect, correct, within bounds - as a generator of effects that does no I/O.

It reads no clock, draws no random number and opens no file: whatever it learns of the world comes in as the outcome of
an effect, so that the same loop runs live, in batches and from the log.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import msgspec

from hermes_lab import checks, context, payload, routing
from hermes_lab.compress import Step
from hermes_lab.config import AgentConfig
from hermes_lab.effects import Effect, End, Ending, Note
from hermes_lab.kinds import Action, ErrorKind, Status
from hermes_lab.loop_acts import View as View
from hermes_lab.loop_reflect import Reflecting
from hermes_lab.models.base import Finish, Reply
from hermes_lab.models.hermes import Call, Parsed, parse
from hermes_lab.tasks import Task
from hermes_lab.tools.base import Problem, Spec
from hermes_lab.tools.recall import RECALL

_MOST_CALLS_A_TURN = 8


def episode(task: Task, config: AgentConfig, view: View) -> Generator[Effect, Any, Ending]:
    r"""Work on `task`: yield effects, be sent their outcomes, and return how it ended.

    >>> from hermes_lab.effects import Ask
    >>> turn = '<tool_call>\n{"name": "final_answer", "arguments": {"answer": "4"}}\n</tool_call>'
    >>> run = episode(Task(id="t", family="f", type="sums", prompt="2 + 2?"), AgentConfig(), View(tools={}))
    >>> effect = next(run)
    >>> try:
    ...     while True:
    ...         effect = run.send(Reply(text=turn, model="m") if isinstance(effect, Ask) else None)
    ... except StopIteration as stopped:
    ...     print(stopped.value.end, stopped.value.answer)
    completed 4
    """
    work = _Episode(task, config, view)
    yield Note(
        action=Action.TASK_STARTED,
        name=task.family,
        input={"task": _without_grader(task), "seed": view.seed},
    )
    ending: Ending = yield from work.run()
    yield Note(action=Action.TASK_RECORDED, name=str(ending.end), output=work.state.record(task.prompt, ending))
    yield Note(
        action=Action.TASK_ENDED,
        name=str(ending.end),
        output=payload.plain(ending),
        observation=ending.answer or ending.reason,
        status=_END_STATUS[ending.end],
        error_kind=_END_KIND.get(ending.end),
    )
    return ending


class _Episode(Reflecting):
    """One episode at work: the order of its steps."""

    def run(self) -> Generator[Effect, Any, Ending]:
        """Work until the end, goal by goal where the request is split."""
        goals: list[str] = []
        if self.config.decomposition.mode == "on" and self.task.answer_by == "text":
            goals = yield from self._decompose()
        ending: Ending | None = None
        for place, goal in enumerate(goals or [""]):
            self.goal = context.Goal(goal, place, len(goals)) if goals else None
            ending = yield from self._pursue()
            if ending.end is not End.COMPLETED:
                return ending
            self.only_answer, self.correction = False, ""
            if goals:
                # What one part came to is known to the next.
                note = payload.dumps({"part": goal, "answer": ending.answer})
                self.state.steps.append(Step("", "", note, Status.OK, writes=True))
        assert ending is not None  # noqa: S101 - there is at least one goal
        return ending

    def _pursue(self) -> Generator[Effect, Any, Ending]:
        while True:
            stop = self.state.over_budget()
            if stop is not None:
                return stop
            reply: Reply = yield from self._plan()
            if reply.finish is Finish.ERROR or reply.finish is Finish.TIMEOUT:
                return self.state.model_failed(reply)
            ending: Ending | None = yield from self._follow(reply)
            if ending is not None:
                return ending

    def _plan(self) -> Generator[Effect, Any, Reply]:
        """Route, assemble the context, and ask for one call or a final answer."""
        candidates: Sequence[Spec] = ()
        if not self.only_answer:
            candidates = yield from self._route()
        offered = self._offer(candidates)
        assembled = context.assemble(
            self.config,
            self.task,
            offered,
            self.state.steps,
            layers=self.shown,
            goal=self.goal,
            correction=self.correction,
            only_answer=self.only_answer,
            seed=self.view.seed,
        )
        yield from self._note_context(assembled)
        self.state.turns += 1
        reply: Reply = yield from self._ask("plan", assembled.request, self.tier)
        return reply

    def _route(self) -> Generator[Effect, Any, Sequence[Spec]]:
        goal = self.goal.text if self.goal else ""
        resting, self.resting = self.resting, ""
        tools = [spec for spec in self.tools if spec.name != resting]
        routed = routing.route(
            f"{self.task.prompt} {goal}",
            self.task.type,
            tools,
            self.config.routing,
            self.view.policy,
            self.state.missed(),
            self.state.last_hit(),
        )
        if self.routed is None or routed.candidates != self.routed.candidates:
            yield Note(
                action=Action.ROUTED,
                output={
                    "candidates": list(routed.candidates),
                    "dropped": list(routed.dropped),
                    "scores": dict(routed.scores),
                },
            )
        self.routed = routed
        candidates = [self.by_name[name] for name in routed.candidates]
        # What is remembered can be looked up beside any tool: it takes no tool's place on the shortlist.
        return [*candidates, RECALL] if self.recalls and resting != RECALL.name else candidates

    def _follow(self, reply: Reply) -> Generator[Effect, Any, Ending | None]:
        """Do what a planning turn says; return the ending where it is the last."""
        said = parse(reply.text)
        if said.calls:
            return (yield from self._follow_calls(said))
        if said.errors:
            problem = Problem(ErrorKind.UNREADABLE_CALL, f"the call could not be read: {said.errors[0].reason}")
            return (yield from self._refuse("", {}, reply.text, problem))
        if not said.text:
            problem = Problem(ErrorKind.UNREADABLE_CALL, "the turn was empty: call a tool or give an answer")
            return (yield from self._refuse("", {}, reply.text, problem))
        return (yield from self._answer(said.text))

    def _follow_calls(self, said: Parsed) -> Generator[Effect, Any, Ending | None]:
        ending: Ending | None
        before = len(self.state.calls)
        calls = said.calls[:_MOST_CALLS_A_TURN]
        for call in calls:
            if call.name == context.FINAL_ANSWER:
                answer = call.arguments.get("answer")
                return (yield from self._answer(answer if isinstance(answer, str) else payload.dumps(call.arguments)))
            ending = yield from self._call(call)
            if ending is not None:
                return ending
            if self.only_answer:
                return None  # a reflection found that it is done: what else this turn calls is not run
        if len(said.calls) > len(calls):
            message = f"only the first {_MOST_CALLS_A_TURN} calls of a turn are run, of {len(said.calls)}"
            yield Note(action=Action.TOOL_CHECKED, output={"problem": message}, status=Status.INVALID)
        if said.errors:
            problem = Problem(ErrorKind.UNREADABLE_CALL, f"another call could not be read: {said.errors[0].reason}")
            return (yield from self._refuse("", {}, "", problem))
        if self.task.answer_by == "call" and len(self.state.calls) - before == len(calls):
            return self.state.ending(End.COMPLETED)
        return None

    def _call(self, call: Call) -> Generator[Effect, Any, Ending | None]:
        """Check one call, have it permitted, run it, and look at what came of it."""
        arguments = self._with_defaults(call)
        problem = checks.check_call(call.name, arguments, self.by_name, self.state.past, self.view.guards)
        if problem is not None:
            return (yield from self._refuse(call.name, arguments, call.raw, problem))
        stop = self.state.over_budget(for_turn=False)
        if stop is not None:
            return stop
        spec = self.by_name[call.name]
        refusal = yield from self._permit(spec, arguments)
        if refusal is not None:
            return (yield from self._deny(call, arguments, refusal))
        seen: str = yield from self._act(spec, arguments, call.raw)
        stop = self.state.over_budget(for_turn=False)
        if stop is not None:
            return stop
        if checks.diverged(self.state.past):
            return self.state.ending(End.DIVERGED, f"{spec.name} failed the same way {checks.SAME_FAILURES} times")
        self.correction = ""
        return (yield from self._reflect(seen))

    def _note_context(self, assembled: context.Context) -> Generator[Effect, Any, None]:
        """Note the plan of the first context, and of each that leaves out more than the one before."""
        left_out = sum(assembled.plan.left_out.values())
        if self.state.turns == 0:
            for skill in self.shown.triggered:
                output = {"sha256": skill.sha256, "tokens_left_out": skill.left_out}
                yield Note(action=Action.SKILL_TRIGGERED, name=skill.name, output=output)
        if self.state.turns == 0 or left_out > self.left_out:
            yield Note(action=Action.CONTEXT_ASSEMBLED, output=self._plan_noted(assembled.plan))
        compressed = assembled.compressed
        if compressed.summary and (not self.compressed or left_out > self.left_out):
            self.compressed = True
            yield Note(
                action=Action.COMPRESSED,
                output={"summary": list(compressed.summary), "left_out": compressed.left_out},
            )
        self.left_out = max(self.left_out, left_out)

    def _plan_noted(self, plan: context.Plan) -> dict[str, Any]:
        output: dict[str, Any] = {"tokens": plan.tokens, "left_out": plan.left_out}
        if self.shown.memories:
            output["memories"] = list(self.shown.memories)
        if self.shown.left_out:
            output["no_room_for"] = {layer: list(names) for layer, names in self.shown.left_out.items()}
        return output

    def _offer(self, candidates: Sequence[Spec]) -> context.Offer:
        with_answer = self.task.answer_by == "text" or self.only_answer
        checked = self.view.guards.arguments
        key = (self.version, tuple(spec.name for spec in candidates), with_answer, checked)
        offered = self.view.memo.get(key)
        if offered is None:
            offered = context.offer(self.config, candidates, with_answer=with_answer, checked=checked)
            self.view.memo[key] = offered
        return offered


_END_STATUS = {
    End.COMPLETED: Status.OK,
    End.GAVE_UP: Status.ERROR,
    End.DIVERGED: Status.ERROR,
    End.DENIED: Status.DENIED,
    End.BUDGET: Status.ERROR,
    End.TIMEOUT: Status.TIMEOUT,
    End.ERROR: Status.ERROR,
}
_END_KIND = {
    End.DIVERGED: ErrorKind.DIVERGED,
    End.DENIED: ErrorKind.NO_PERMISSION,
    End.BUDGET: ErrorKind.BUDGET,
    End.TIMEOUT: ErrorKind.TIMEOUT,
    End.ERROR: ErrorKind.OTHER,
}


def _without_grader(task: Task) -> dict[str, Any]:
    """Return the task as it is recorded: what would give the answer away stays out of what reflectors read."""
    plain: dict[str, Any] = payload.plain(msgspec.structs.replace(task, grader=None))
    return plain
