"""Drive the loop with scripted outcomes, and hold each effect against what the design says, on the way."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
import msgspec

from hermes_lab import payload
from hermes_lab.config import AgentConfig
from hermes_lab.effects import Act, Ask, Decision, Effect, Ending, Note, Permit
from hermes_lab.kinds import Action, ErrorKind, Status
from hermes_lab.loop import View, episode
from hermes_lab.models.base import Finish, Reply
from hermes_lab.models.hermes import render_call
from hermes_lab.permissions import Verdict, decide
from hermes_lab.tasks import Task
from hermes_lab.tools.base import Level, Result, Spec
from hermes_lab.tools.recall import RECALL

Tool = Callable[[dict[str, Any]], Result]
Answerer = Callable[[Ask], Reply | str]
Approver = Callable[[Permit], Decision]

MOST_CALLS_A_TURN = 8


@dataclass(frozen=True)
class Driven:
    """What an episode came to, with every effect and its outcome, in order."""

    ending: Ending
    effects: tuple[Effect, ...]
    outcomes: tuple[Any, ...]

    def asks(self, purpose: str | None = None) -> list[Ask]:
        return [one for one in self.effects if isinstance(one, Ask) and purpose in (None, one.purpose)]

    def acts(self, tool: str | None = None) -> list[Act]:
        return [one for one in self.effects if isinstance(one, Act) and tool in (None, one.tool)]

    def permits(self) -> list[Permit]:
        return [one for one in self.effects if isinstance(one, Permit)]

    def notes(self, action: Action) -> list[Note]:
        return [one for one in self.effects if isinstance(one, Note) and one.action is action]

    def problems(self) -> list[ErrorKind | None]:
        return [one.error_kind for one in self.notes(Action.TOOL_CHECKED)]


# -- what a model writes, and what a tool gives ---------------------------------------------------------------------


def call(tool: str, **arguments: Any) -> str:
    """Return a turn with one call."""
    return render_call(tool, arguments)


def final(text: str) -> str:
    """Return a turn with a final answer, as a bound model gives it."""
    return render_call("final_answer", {"answer": text})


def judged(status: str, reason: str = "none", instruction: str = "", confidence: float | None = None) -> Reply:
    """Return the reply to a reflection."""
    text = payload.dumps({"status": status, "reason": reason, "corrected_instruction": instruction})
    return reply(text, confidence=confidence)


def reply(text: str, **fields: Any) -> Reply:
    """Return a reply that took 10 tokens in, 5 out and a millisecond, unless said otherwise."""
    usual = {"input_tokens": 10, "output_tokens": 5, "latency_ms": 1.0}
    return Reply(text=text, model="scripted", **{**usual, **fields})


def broken_model(kind: ErrorKind = ErrorKind.CONNECTION, finish: Finish = Finish.ERROR) -> Reply:
    """Return the reply of a model call that failed."""
    return reply("", finish=finish, error_kind=kind, error="no luck 失败", input_tokens=0, output_tokens=0)


def gives(output: Any) -> Tool:
    """Return a tool that always gives `output`."""
    return lambda arguments: Result(output, latency_ms=1.0)


def fails(message: str = "no such order", kind: ErrorKind = ErrorKind.TOOL_FAILED, *, transient: bool = False) -> Tool:
    """Return a tool that always fails the same way."""
    return lambda arguments: failure(message, kind, transient=transient)


def failure(message: str, kind: ErrorKind = ErrorKind.TOOL_FAILED, *, transient: bool = False) -> Result:
    """Return the result of a call that failed."""
    return Result({"error": message}, Status.ERROR, kind, transient=transient, latency_ms=1.0)


def in_turn(*outcomes: Result) -> Tool:
    """Return a tool that gives these results one after another, whatever it is asked."""
    waiting = list(outcomes)
    return lambda arguments: waiting.pop(0)


def spec(name: str, level: Level = Level.READ_ONLY, required: Sequence[str] = (), **fields: Any) -> Spec:
    """Return a tool whose arguments are texts, the `required` ones first, and an optional whole number `n`."""
    properties: dict[str, Any] = {one: {"type": "string"} for one in (*required, "note")}
    properties["n"] = {"type": "integer"}
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return Spec(name, fields.pop("description", f"Does {name}."), parameters, level, **fields)


def view_of(*specs: Spec, **fields: Any) -> View:
    """Return a view with these tools."""
    return View(tools={one.name: one for one in specs}, **fields)


def task_of(view: View, prompt: str = "Where is order SO-1?", **fields: Any) -> Task:
    """Return a task that may use every tool of `view`."""
    usual = {"id": "t-1", "family": "f", "type": "orders", "tools": tuple(view.tools)}
    return Task(prompt=prompt, **{**usual, **fields})


def yes(permit: Permit) -> Decision:
    """Allow whatever is asked."""
    return Decision(allowed=True, by="a person")


def no(permit: Permit) -> Decision:
    """Allow nothing."""
    return Decision(allowed=False, by="nobody", reason="no one answered")


# -- driving --------------------------------------------------------------------------------------------------------


def drive(
    task: Task,
    config: AgentConfig,
    view: View,
    replies: Sequence[Reply | str] | Answerer,
    tools: Mapping[str, Tool] | None = None,
    permits: Approver = no,
) -> Driven:
    """Work on `task` with scripted outcomes, and return what it came to.

    Args:
        task: what to do.
        config: of the agent.
        view: what it may read.
        replies: what the model says, one after another whatever the purpose, or a function of the question.
        tools: what each tool does; a tool that is not named gives "ok".
        permits: answers `Permit`.
    """
    answer = replies if callable(replies) else _one_after_another(replies)
    watch = _Watch(task, config, view)
    run = episode(task, config, view)
    effects: list[Effect] = []
    outcomes: list[Any] = []
    outcome: Any = None
    while True:
        try:
            effect = run.send(outcome)
        except StopIteration as stopped:
            watch.ended(stopped.value)
            return Driven(stopped.value, tuple(effects), tuple(outcomes))
        watch.yielded(effect)
        outcome = _carry_out(effect, answer, tools or {}, permits)
        watch.sent(effect, outcome)
        effects.append(effect)
        outcomes.append(outcome)


def _carry_out(effect: Effect, answer: Answerer, tools: Mapping[str, Tool], permits: Approver) -> Any:
    if isinstance(effect, Ask):
        said = answer(effect)
        return reply(said) if isinstance(said, str) else said
    if isinstance(effect, Act):
        run = tools.get(effect.tool, gives("ok"))
        return run(copy.deepcopy(effect.arguments))
    if isinstance(effect, Permit):
        return permits(effect)
    return None


def _one_after_another(replies: Sequence[Reply | str]) -> Answerer:
    waiting = list(replies)

    def answer(ask: Ask) -> Reply | str:
        assert waiting, f"the model was asked once more than the test expects, to {ask.purpose}: {ask.request}"
        return waiting.pop(0)

    return answer


class _Watch:
    """Holds every effect against the design, by rules of its own rather than those of the modules under test."""

    def __init__(self, task: Task, config: AgentConfig, view: View) -> None:
        self.task, self.config, self.view = task, config, view
        self.counts: dict[str, int] = {}
        self.ran: list[tuple[str, dict[str, Any], Result]] = []
        self.before: tuple[Effect, Any] | None = None
        self.tokens, self.seconds, self.usd = 0, 0.0, 0.0

    def yielded(self, effect: Effect) -> None:
        """Look at an effect before it is carried out."""
        self._count(type(effect).__name__)
        payload.dumps(msgspec.to_builtins(effect))  # every effect is an event, so the log must be able to hold it
        if isinstance(effect, Ask):
            self._count(effect.purpose)
            assert not self._spent(), f"the model is asked to {effect.purpose} after {self._spent()} ran out"
            assert effect.remaining.tokens > 0
            assert effect.remaining.seconds > 0
        elif isinstance(effect, Act):
            assert effect.remaining.seconds > 0, "a tool is run with no time left"
            self._must_be_sound(effect)
            self._must_be_permitted(effect)
        self._must_be_bounded()

    def sent(self, effect: Effect, outcome: Any) -> None:
        """Keep what an effect came to."""
        self.before = (effect, outcome)
        if isinstance(effect, Act):
            self.ran.append((effect.tool, copy.deepcopy(effect.arguments), outcome))
            self.seconds += (outcome.latency_ms or 0.0) / 1000
        elif isinstance(effect, Ask):
            self.tokens += sum(
                part or 0 for part in (outcome.input_tokens, outcome.cached_tokens, outcome.output_tokens)
            )
            self.seconds += (outcome.latency_ms or 0.0) / 1000
            self.usd += outcome.cost_usd or 0.0

    def ended(self, ending: Ending) -> None:
        """Hold the ending against what was done."""
        effect, _ = self.before or (None, None)
        assert isinstance(effect, Note)
        assert effect.action is Action.TASK_ENDED
        assert self.counts.get("plan", 0) == ending.steps <= self.config.budgets.steps
        assert ending.reflections <= self.config.reflection.max_reflections
        assert [(one.tool, one.arguments) for one in ending.calls] == [(tool, given) for tool, given, _ in self.ran]
        assert [one.status for one in ending.calls] == [result.status for _, _, result in self.ran]

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def _spent(self) -> str:
        budgets = self.config.budgets
        if self.tokens >= budgets.tokens:
            return "the tokens"
        if self.seconds >= budgets.seconds:
            return "the time"
        return "the money" if budgets.usd is not None and self.usd >= budgets.usd else ""

    def _must_be_sound(self, act: Act) -> None:
        known = self._known(act.tool)
        stored = msgspec.json.decode(payload.store_text(payload.dumps(act.arguments)))
        if self.view.guards.arguments:
            assert jsonschema_rs.validator_for(known.parameters).is_valid(stored), act.arguments
        if self.view.guards.prechecks and known.precheck is not None:
            assert known.precheck(act.arguments) is None
        if self.view.guards.repeats:
            self._must_be_new(act)

    def _known(self, tool: str) -> Spec:
        if tool in self.task.tools:
            return self.view.tools[tool]
        assert tool == "recall", f"{tool} is no tool of the task"
        assert any(not one.pinned for one in self.view.knowledge.memories), "there is nothing to recall"
        return RECALL

    def _must_be_new(self, act: Act) -> None:
        same = [place for place, (tool, given, _) in enumerate(self.ran) if tool == act.tool and given == act.arguments]
        if not same:
            return
        last = self.ran[same[-1]][2]
        if last.transient:
            assert len(same) <= 2, "a call was made again more than twice"
            return
        changed = [
            tool
            for tool, _, result in self.ran[same[-1] + 1 :]
            if result.status is Status.OK and self.view.tools[tool].level is not Level.READ_ONLY
        ]
        assert changed, f"{act.tool} was made again though nothing had changed"
        assert self.view.tools[act.tool].level is Level.READ_ONLY

    def _must_be_permitted(self, act: Act) -> None:
        known = self._known(act.tool)
        ruling = decide(self.view.rules, known, act.arguments, self.task.type)
        assert ruling.verdict is not Verdict.DENY, f"{act.tool} ran against the rule {ruling.by}"
        if ruling.verdict is Verdict.ASK or known.level is Level.HIGH_RISK:
            assert self.before is not None
            asked, decision = self.before
            assert isinstance(asked, Permit), f"{act.tool} ran without being asked for"
            assert (asked.tool, asked.arguments) == (act.tool, act.arguments)
            assert decision.allowed, f"{act.tool} ran against a no"

    def _must_be_bounded(self) -> None:
        steps = self.config.budgets.steps
        calls = steps * MOST_CALLS_A_TURN
        bounds = {
            "plan": steps,
            "reflect": self.config.reflection.max_reflections,
            "decompose": 1,
            "Act": calls + self.config.reflection.max_reflections,
            "Permit": calls,
            "Note": 5 + 3 * steps + 4 * calls,
        }
        for what, most in bounds.items():
            assert self.counts.get(what, 0) <= most, f"{what}: more than {most} times"
