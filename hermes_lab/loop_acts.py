"""The effects of an episode: ask a model, have a call permitted, run it, and remember what came of it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hermes_lab import checks, context, layers, permissions
from hermes_lab.checks import Guards
from hermes_lab.config import AgentConfig
from hermes_lab.effects import Act, Ask, Decision, Effect, End, Ending, Note, Permit
from hermes_lab.episode_state import State
from hermes_lab.kinds import Action, ErrorKind, Status, Tier
from hermes_lab.models.base import Reply, Request
from hermes_lab.models.hermes import Call
from hermes_lab.permissions import PermissionRule, Verdict
from hermes_lab.reflection import Help
from hermes_lab.routing import NO_MEMORY, PolicyMemory, Routed
from hermes_lab.tasks import Task
from hermes_lab.tools.base import Problem, Result, Spec
from hermes_lab.tools.recall import RECALL

MOST_DENIALS = 2
"""So many denied calls end an episode as denied."""


@dataclass(frozen=True, slots=True)
class View:
    """What an episode may read of the lab: a snapshot that nothing changes while it runs.

    Attributes:
        tools: the suite's tools by name; a task uses those that it names.
        rules: deny and ask rules, from `lab.toml`.
        policy: policy memory.
        knowledge: memories and skills.
        seed: of the drawing of tokens.
        guards: the checks at work; all, but for experiments.
        memo: results of pure functions that many episodes share; it changes no outcome.
    """

    tools: Mapping[str, Spec]
    rules: tuple[PermissionRule, ...] = ()
    policy: PolicyMemory = NO_MEMORY
    knowledge: layers.Knowledge = layers.NOTHING_KNOWN
    seed: int = 0
    guards: Guards = checks.ALL_GUARDS
    memo: dict[Any, context.Offer] = field(default_factory=dict, compare=False)


class Acting:
    """What an episode is at work with, and the effects by which it meets the world."""

    def __init__(self, task: Task, config: AgentConfig, view: View) -> None:
        self.task = task
        self.config = config
        self.version = config.version
        self.view = view
        self.tools = [view.tools[name] for name in task.tools if name in view.tools]
        self.by_name = {spec.name: spec for spec in self.tools}
        self.shown = layers.choose(view.knowledge, task, config.layers)
        self.recalls = self.shown.recallable and task.answer_by == "text" and RECALL.name not in view.tools
        if self.recalls:
            self.by_name[RECALL.name] = RECALL
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
            self._after_repeat(tool, arguments)
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

    def _with_defaults(self, call: Call) -> dict[str, Any]:
        settings = self.config.tools.get(call.name)
        return {**settings.defaults, **call.arguments} if settings else call.arguments

    def _after_repeat(self, tool: str, arguments: dict[str, Any]) -> None:
        """Have the next turn do something else, which a model that is bound to a schema may not find by itself.

        Where the call had succeeded nothing is left to do but to answer; where it had failed, another tool may do.
        """
        same = [past for past in self.state.past if past.ran and past.tool == tool and past.arguments == arguments]
        if same and same[-1].status is Status.OK:
            self.only_answer = True
        else:
            self.resting = tool
