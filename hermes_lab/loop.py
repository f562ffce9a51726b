"""The agent: plan, check, act, reflect, correct, within bounds - as a generator of effects that does no I/O.

It reads no clock, draws no random number and opens no file: whatever it learns of the world comes in as the outcome of
an effect, so that the same loop runs live, in batches and from the log.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hermes_lab import checks, context, payload, permissions, reflection, routing
from hermes_lab.checks import Guards
from hermes_lab.compress import Step
from hermes_lab.config import AgentConfig
from hermes_lab.effects import Act, Ask, Decision, Effect, End, Ending, Note, Permit
from hermes_lab.episode_state import State
from hermes_lab.kinds import Action, ErrorKind, Status, Tier
from hermes_lab.models.base import Finish, Reply, Request, Role, Turn
from hermes_lab.models.hermes import Call, parse
from hermes_lab.permissions import PermissionRule, Verdict
from hermes_lab.reflection import Help, Judgement
from hermes_lab.routing import NO_MEMORY, PolicyMemory, Routed
from hermes_lab.tasks import Task
from hermes_lab.tools.base import Problem, Result, Spec

MOST_DENIALS = 2
"""So many denied calls end an episode as denied."""

_REFLECTION_TOKENS = 128
_MOST_CALLS_A_TURN = 8


@dataclass(frozen=True, slots=True)
class View:
    """What an episode may read of the lab: a snapshot that nothing changes while it runs.

    Attributes:
        tools: the suite's tools by name; a task uses those that it names.
        rules: deny and ask rules, from `lab.toml`.
        policy: policy memory.
        seed: of the drawing of tokens.
        guards: the checks at work; all, but for experiments.
        memo: results of pure functions that many episodes share; it changes no outcome.
    """

    tools: Mapping[str, Spec]
    rules: tuple[PermissionRule, ...] = ()
    policy: PolicyMemory = NO_MEMORY
    seed: int = 0
    guards: Guards = checks.ALL_GUARDS
    memo: dict[Any, context.Offer] = field(default_factory=dict, compare=False)


Steps = Generator[Effect, Any, Any]


def episode(task: Task, config: AgentConfig, view: View) -> Generator[Effect, Any, Ending]:
    r"""Work on `task`: yield effects, be sent their outcomes, and return how it ended.

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


class _Episode:
    """One episode at work."""

    def __init__(self, task: Task, config: AgentConfig, view: View) -> None:
        self.task = task
        self.config = config
        self.version = config.version
        self.view = view
        self.tools = [view.tools[name] for name in task.tools if name in view.tools]
        self.by_name = {spec.name: spec for spec in self.tools}
        self.state = State(config.budgets)
        self.goal: context.Goal | None = None
        self.correction = ""
        self.tier = Tier.LIGHT
        self.help = Help.NOWHERE
        self.only_answer = False
        self.doubted = False
        self.routed: Routed | None = None
        self.resting = ""  # the tool that is not offered in the next turn
        self.compressed = False
        self.left_out = 0

    # -- the order of one step: route, assemble, plan, check, permit, act, reflect ----------------------------------

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
        # After a refused repeat the model must do something else, which one that is bound to a schema may not find.
        tools = [spec for spec in self.tools if spec.name != self.resting]
        self.resting = ""
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
        return [self.by_name[name] for name in routed.candidates]

    def _follow(self, reply: Reply) -> Generator[Effect, Any, Ending | None]:
        """Do what a planning turn says; return the ending where it is the last."""
        said = parse(reply.text)
        if not said.calls:
            if said.errors:
                problem = Problem(ErrorKind.UNREADABLE_CALL, f"the call could not be read: {said.errors[0].reason}")
                return (yield from self._refuse("", {}, reply.text, problem))
            if not said.text:
                problem = Problem(ErrorKind.UNREADABLE_CALL, "the turn was empty: call a tool or give an answer")
                return (yield from self._refuse("", {}, reply.text, problem))
            return (yield from self._answer(said.text))
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

    # -- effects --------------------------------------------------------------------------------------------------

    def _ask(self, purpose: str, request: Request, tier: Tier) -> Generator[Effect, Any, Reply]:
        reply: Reply = yield Ask(purpose=purpose, tier=tier, request=request, remaining=self.state.remaining())
        self.state.spent(reply, request)
        return reply

    def _act(self, spec: Spec, arguments: dict[str, Any], raw: str) -> Generator[Effect, Any, str]:
        result: Result = yield Act(tool=spec.name, arguments=arguments, remaining=self.state.remaining())
        return self.state.ran(spec, arguments, raw, result)

    def _permit(self, spec: Spec, arguments: dict[str, Any]) -> Generator[Effect, Any, Decision | None]:
        """Return None where the call may run, else who says no and why."""
        ruling = permissions.decide(self.view.rules, spec, arguments, self.task.type)
        if ruling.verdict is Verdict.ALLOW:
            return None
        if ruling.verdict is Verdict.DENY:
            return Decision(allowed=False, by=ruling.by, reason=ruling.reason)
        decision: Decision = yield Permit(
            tool=spec.name, arguments=arguments, level=str(spec.level), reason=ruling.reason
        )
        return None if decision.allowed else decision

    def _refuse(
        self, tool: str, arguments: dict[str, Any], raw: str, problem: Problem
    ) -> Generator[Effect, Any, Ending | None]:
        """Note a failed check; its message is the correction, which costs no model call."""
        yield Note(
            action=Action.TOOL_CHECKED,
            name=tool or None,
            input=arguments,
            output={"problem": problem.message},
            observation=problem.message,
            status=Status.INVALID,
            error_kind=problem.kind,
        )
        self.state.refused(tool, arguments, raw, problem, Status.INVALID, self.by_name.get(tool))
        if problem.kind is ErrorKind.REPEATED_CALL:
            self.resting = tool
        if checks.diverged(self.state.past):
            return self.state.ending(End.DIVERGED, f"{tool or 'a call'}: {problem.message}")
        return None

    def _deny(self, call: Call, arguments: dict[str, Any], decision: Decision) -> Generator[Effect, Any, Ending | None]:
        message = f"not permitted: {decision.reason or 'the answer was no'} (by {decision.by})"
        yield Note(
            action=Action.TOOL_CHECKED,
            name=call.name,
            input=arguments,
            output={"problem": message, "by": decision.by},
            observation=message,
            status=Status.DENIED,
            error_kind=ErrorKind.NO_PERMISSION,
        )
        problem = Problem(ErrorKind.NO_PERMISSION, f"{message}: do not try it again, tell the user")
        self.state.refused(call.name, arguments, call.raw, problem, Status.DENIED, self.by_name[call.name])
        self.state.denials += 1
        return self.state.ending(End.DENIED, message) if self.state.denials >= MOST_DENIALS else None

    def _answer(self, text: str) -> Generator[Effect, Any, Ending | None]:
        """End with an answer, unless the tool events contradict it; that is held against it once."""
        failed = checks.unsupported_claim(self.state.past)
        if failed is not None and not self.doubted and self.config.reflection.mode != "off":
            self.doubted = True
            self.correction = f"{failed.tool} failed: mend the call, or say that it failed."
            yield Note(
                action=Action.REFLECTION,
                name="tool events",
                output={"status": "needs_fix", "reason": "logic_gap", "corrected_instruction": self.correction},
                status=Status.OK,
            )
            return None
        return self.state.ending(End.COMPLETED, answer=text)

    def _reflect(self, observation: str) -> Generator[Effect, Any, Ending | None]:
        if self.task.answer_by == "call":
            return None
        if not reflection.wanted(self.config.reflection, self.state.past, self.state.reflections):
            return None
        stop = self.state.over_budget(for_turn=False)
        if stop is not None:
            return stop
        goal = self.goal.text if self.goal else self.task.prompt
        request = reflection.request(goal, self.state.past[-1], observation, _REFLECTION_TOKENS, self.view.seed)
        self.state.reflections += 1
        reply = yield from self._ask("reflect", request, self.tier)
        read = reflection.read(reply.text, reply.confidence) if reply.finish is Finish.STOP else None
        if read is None:
            return None  # nothing was learned; the loop goes on within its bounds
        judgement = reflection.checked(read, self.state.past)
        self.state.judgements.append(judgement)
        yield Note(
            action=Action.REFLECTION,
            name=self.state.past[-1].tool,
            output={
                "status": judgement.verdict,
                "reason": judgement.reason,
                "corrected_instruction": judgement.instruction,
            },
            confidence=judgement.confidence,
            status=Status.OK,
        )
        return (yield from self._take(judgement))

    def _take(self, judgement: Judgement) -> Generator[Effect, Any, Ending | None]:
        """Do what a reflection says, unless it calls for help."""
        if self.help is not Help.STRONG and reflection.escalates(self.state.judgements, self.config.reflection):
            self.correction = judgement.instruction
            yield from self._escalate()
            return None
        if judgement.verdict is reflection.Verdict.GIVE_UP:
            denied = judgement.reason is reflection.Reason.NO_PERMISSION
            return self.state.ending(
                End.DENIED if denied else End.GAVE_UP, judgement.instruction or str(judgement.reason)
            )
        if judgement.verdict is reflection.Verdict.DONE:
            self.only_answer = True
            return None
        self.correction = judgement.instruction
        return None

    def _escalate(self) -> Steps:
        search = next((spec for spec in self.tools if _searches(spec)), None)
        self.help = reflection.next_help(self.help, has_documents=search is not None)
        yield Note(action=Action.ESCALATED, name=self.help.name.lower(), status=Status.OK)
        if self.help is Help.STRONG:
            self.tier = Tier.STRONG
            return
        assert search is not None  # noqa: S101 - `next_help` names documents only where there are any
        if self.state.over_budget(for_turn=False) is not None:
            return  # the next turn ends it
        arguments = {"query": self.task.prompt[:500]}
        if checks.check_call(search.name, arguments, self.by_name, self.state.past, self.view.guards) is not None:
            return
        if permissions.decide(self.view.rules, search, arguments, self.task.type).verdict is Verdict.ALLOW:
            yield from self._act(search, arguments, "")

    def _decompose(self) -> Generator[Effect, Any, list[str]]:
        most = self.config.decomposition.max_subgoals
        schema = {
            "type": "object",
            "properties": {
                "subgoals": {"type": "array", "items": {"type": "string", "maxLength": 120}, "maxItems": most}
            },
            "required": ["subgoals"],
            "additionalProperties": False,
        }
        turns = (
            Turn(Role.SYSTEM, f"Split a request into the fewest parts that can be done one by one, at most {most}."),
            Turn(Role.USER, self.task.prompt),
        )
        request = Request(messages=turns, schema=schema, max_tokens=64 * most, seed=self.view.seed)
        reply = yield from self._ask("decompose", request, self.tier)
        goals = _subgoals(reply.text, most)
        yield Note(
            action=Action.ROUTED, name="decomposition", output={"subgoals": goals}, status=Status.OK if goals else None
        )
        return goals if len(goals) > 1 else []

    def _note_context(self, assembled: context.Context) -> Steps:
        """Note the plan of the first context, and of each that leaves out more than the one before."""
        left_out = sum(assembled.plan.left_out.values())
        if self.state.turns == 0 or left_out > self.left_out:
            yield Note(
                action=Action.CONTEXT_ASSEMBLED,
                output={"tokens": assembled.plan.tokens, "left_out": assembled.plan.left_out},
            )
        compressed = assembled.compressed
        if compressed.summary and (not self.compressed or left_out > self.left_out):
            self.compressed = True
            yield Note(
                action=Action.COMPRESSED,
                output={"summary": list(compressed.summary), "left_out": compressed.left_out},
            )
        self.left_out = max(self.left_out, left_out)

    # -- small parts ----------------------------------------------------------------------------------------------

    def _offer(self, candidates: Sequence[Spec]) -> context.Offer:
        with_answer = self.task.answer_by == "text" or self.only_answer
        checked = self.view.guards.arguments
        key = (self.version, tuple(spec.name for spec in candidates), with_answer, checked)
        offered = self.view.memo.get(key)
        if offered is None:
            offered = context.offer(self.config, candidates, with_answer=with_answer, checked=checked)
            self.view.memo[key] = offered
        return offered

    def _with_defaults(self, call: Call) -> dict[str, Any]:
        settings = self.config.tools.get(call.name)
        return {**settings.defaults, **call.arguments} if settings else call.arguments


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


def _searches(spec: Spec) -> bool:
    return spec.action is Action.RETRIEVAL and spec.parameters.get("required") == ["query"]


def _subgoals(text: str, most: int) -> list[str]:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return []
    goals = value.get("subgoals") if isinstance(value, dict) else None
    if not isinstance(goals, list):
        return []
    return [goal.strip() for goal in goals if isinstance(goal, str) and goal.strip()][:most]
