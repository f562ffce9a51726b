"""What one episode has done and used so far: its calls, its short-term memory, and its budgets."""

from __future__ import annotations

from typing import Any

from hermes_lab import checks, payload
from hermes_lab.checks import Past
from hermes_lab.compress import Step
from hermes_lab.config import Budgets
from hermes_lab.effects import Called, End, Ending, Remaining
from hermes_lab.errors import EventError
from hermes_lab.kinds import ErrorKind, Status
from hermes_lab.models.base import Finish, Reply, Request
from hermes_lab.reflection import Judgement
from hermes_lab.tools.base import Problem, Result, Spec

_LONGEST_TEXT = 500
_LONGEST_ERROR = 200


class State:
    """The state of one episode; only the loop changes it.

    Attributes:
        past: every call so far, refused ones too, for the checks.
        steps: short-term memory, for the context.
        calls: the calls that ran.
        judgements: the reflections so far that could be read.
        reflections: the reflections so far.
        turns: planning turns taken.
        denials: calls that a person or rule refused.
        tokens: used by every model call.
        seconds: spent in models and tools.
        usd: money spent; None where no price is known.
    """

    def __init__(self, budgets: Budgets) -> None:
        """Start with nothing done and the whole of `budgets`."""
        self.budgets = budgets
        self.past: list[Past] = []
        self.steps: list[Step] = []
        self.calls: list[Called] = []
        self.judgements: list[Judgement] = []
        self.reflections = 0
        self.turns = 0
        self.denials = 0
        self.tokens = 0
        self.seconds = 0.0
        self.usd: float | None = None

    def spent(self, reply: Reply, request: Request) -> None:
        """Count what a model call took, its failed attempts included."""
        self.tokens += _tokens(reply, request)
        self.seconds += (reply.latency_ms or 0.0) / 1000  # from the first attempt on
        if reply.cost_usd is not None:
            self.usd = (self.usd or 0.0) + reply.cost_usd

    def ran(self, spec: Spec, arguments: dict[str, Any], raw: str, result: Result) -> str:
        """Remember a call that ran, and return the text that the agent sees of its result."""
        self.seconds += (result.latency_ms or 0.0) / 1000
        text = observation(result.output)
        writes = checks.writes(spec)
        error = "" if result.status is Status.OK else text
        self.past.append(
            Past(spec.name, arguments, result.status, result.error_kind, error, result.transient, writes=writes)
        )
        self.steps.append(Step(spec.name, raw, text, result.status, writes))
        self.calls.append(Called(spec.name, arguments, result.status))
        return text

    def refused(
        self, tool: str, arguments: dict[str, Any], raw: str, problem: Problem, status: Status, spec: Spec | None
    ) -> None:
        """Remember a call that a check or a person refused."""
        writes = checks.writes(spec)
        self.past.append(Past(tool, arguments, status, problem.kind, problem.message, ran=False, writes=writes))
        self.steps.append(Step(tool, raw, payload.dumps({"error": problem.message}), status))

    def missed(self) -> dict[str, int]:
        """Return the misses by tool, of tools without a hit: calls that failed for a reason that does not pass."""
        counts: dict[str, int] = {}
        hit = {call.tool for call in self.past if call.status is Status.OK}
        for call in self.past:
            if call.ran and call.tool not in hit and call.status is not Status.OK and not call.transient:
                counts[call.tool] = counts.get(call.tool, 0) + 1
        return counts

    def last_hit(self) -> str | None:
        """Return the tool of the last call, if that came out ok."""
        return self.past[-1].tool if self.past and self.past[-1].status is Status.OK else None

    def remaining(self) -> Remaining:
        """Return what is left of the budgets."""
        return Remaining(
            max(0, self.budgets.tokens - self.tokens),
            max(0.0, self.budgets.seconds - self.seconds),
            None if self.budgets.usd is None else max(0.0, self.budgets.usd - (self.usd or 0.0)),
        )

    def over_budget(self, *, for_turn: bool = True) -> Ending | None:
        """Return the ending where a budget is spent; `for_turn` counts planning turns, too."""
        left = self.remaining()
        if left.seconds <= 0:
            return self.ending(End.TIMEOUT, f"{self.budgets.seconds:g} seconds are over")
        if left.tokens <= 0:
            return self.ending(End.BUDGET, f"{self.budgets.tokens} tokens are spent")
        if left.usd is not None and left.usd <= 0:
            return self.ending(End.BUDGET, f"{self.budgets.usd} US dollars are spent")
        if for_turn and self.turns >= self.budgets.steps:
            return self.ending(End.BUDGET, f"{self.budgets.steps} steps are taken")
        return None

    def model_failed(self, reply: Reply) -> Ending:
        """Return the ending that a failed model call means."""
        if reply.error_kind is ErrorKind.BUDGET:
            return self.ending(End.BUDGET, reply.error)
        if reply.finish is Finish.TIMEOUT or self.remaining().seconds <= 0:
            return self.ending(End.TIMEOUT, reply.error or "the model did not answer in time")
        return self.ending(End.ERROR, f"{reply.error_kind or ErrorKind.OTHER}: {reply.error}")

    def ending(self, end: End, reason: str = "", *, answer: str = "") -> Ending:
        """Return an ending with what was done and used so far."""
        return Ending(
            end=end,
            answer=answer,
            reason=reason,
            calls=tuple(self.calls),
            steps=self.turns,
            reflections=self.reflections,
            tokens=self.tokens,
            seconds=round(self.seconds, 6),
            usd=self.usd,
        )

    def record(self, request: str, ending: Ending) -> dict[str, Any]:
        """Return the record of the task: what it was, where it failed, what was decided, what came of it."""
        failures = [call for call in self.past if call.status is not Status.OK]
        return {
            "request": request[:_LONGEST_TEXT],
            "end": ending.end,
            "result": (ending.answer or ending.reason)[:_LONGEST_TEXT],
            "failure_points": [
                {"tool": call.tool, "error_kind": call.error_kind, "message": call.error[:_LONGEST_ERROR]}
                for call in failures
            ],
            "key_decisions": [
                {"tool": call.tool, "arguments": call.arguments} for call in self.past if call.ran and call.writes
            ],
            "tools": list(dict.fromkeys(call.tool for call in self.calls)),
        }


def observation(output: Any) -> str:
    """Return the text that the agent sees of a result: JSON."""
    try:
        return payload.dumps(output)
    except EventError as error:
        return payload.dumps({"error": f"the result cannot be shown: {error}"})


def _tokens(reply: Reply, request: Request) -> int:
    """Return the tokens that a call took; what a server does not count is bounded, never too low, by the bytes."""
    if reply.finish is Finish.ERROR and reply.input_tokens is None:
        return reply.output_tokens or 0
    read, written = reply.input_tokens, reply.output_tokens
    if read is None:
        read = sum(len(turn.content.encode("utf-8", "replace")) for turn in request.messages)
        read += len(payload.canonical(request.tools))
    if written is None:
        written = len((reply.text + reply.reasoning).encode("utf-8", "replace"))
    return read + (reply.cached_tokens or 0) + written
