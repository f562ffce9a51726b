"""Reflection, help and answers within an episode: what is asked of a model beside the plan, and what follows."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import msgspec

from hermes_lab import checks, permissions, reflection
from hermes_lab.effects import Effect, End, Ending, Note
from hermes_lab.kinds import Action, Status, Tier
from hermes_lab.loop_acts import Acting
from hermes_lab.models.base import Finish, Request, Role, Turn
from hermes_lab.permissions import Verdict
from hermes_lab.reflection import Help, Judgement
from hermes_lab.tools.base import Spec

_REFLECTION_TOKENS = 128


class Reflecting(Acting):
    """An episode that reflects, turns for help, and holds claims against the tool events."""

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

    def _escalate(self) -> Generator[Effect, Any, None]:
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
