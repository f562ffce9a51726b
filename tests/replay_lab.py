"""Labs for tests of replay: a `desk` run by a model that solves some tasks and fails others in every way it can."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import hermes_lab
from hermes_lab.effects import Decision, Permit
from hermes_lab.kinds import ErrorKind, Tier
from hermes_lab.models.base import Attempt, Finish, Reply, Request
from hermes_lab.models.hermes import render_call

FINAL = "final_answer"


class DeskModel:
    """A model that reads its request and answers at once; the same request gets the same reply.

    It calls the first offered tools with arguments filled in from the request, and now and then, by the hash of the
    request, wrong ones, the same one again, a tool that is high risk, nonsense, nothing, or it fails.

    Attributes:
        asked: how many requests there were.
    """

    name = "desk-model"
    fingerprint = "desk-model-1"
    context_tokens = None

    def __init__(self, salt: str = "") -> None:
        self.asked = 0
        self.salt = salt

    def of(self, tier: Tier) -> DeskModel:
        return self

    def most_tokens(self, request: Request) -> int:
        return 100

    def close(self) -> None:
        pass

    def generate(self, requests: Sequence[Request], *, seconds: Sequence[float] | None = None) -> list[Reply]:
        self.asked += len(requests)
        return [self._reply(request) for request in requests]

    def _reply(self, request: Request) -> Reply:
        said = json.dumps([turn.content for turn in request.messages], ensure_ascii=True) + self.salt
        draw = int(hashlib.sha256(said.encode()).hexdigest()[:8], 16)
        text = self._reflection(draw) if not request.frame.prefix else self._plan(request, draw)
        usage = {
            "input_tokens": len(said) // 4,
            "cached_tokens": draw % 7,
            "output_tokens": len(text) // 3 + 1,
            "latency_ms": 1.0 + draw % 100 / 7,
            "cost_usd": len(said) / 3e6,
            "confidence": 0.1 + draw % 90 / 100,
        }
        if draw % 61 == 0:
            failure = {"finish": Finish.ERROR, "error_kind": ErrorKind.CONNECTION, "error": "连接断了 gone"}
            return Reply(text="", model=self.name, **{**usage, **failure, "output_tokens": 0})
        attempts = (Attempt(error_kind=ErrorKind.RATE_LIMITED, error="慢一点 429", latency_ms=0.3),) * (draw % 23 == 0)
        return Reply(text=text, model=self.name, reasoning="想" * (draw % 3), attempts=attempts, **usage)

    def _reflection(self, draw: int) -> str:
        verdict = ("done", "needs_fix", "needs_fix", "give_up", "nonsense")[draw % 5]
        reason = ("none", "bad_arguments", "no_permission")[draw % 3]
        return json.dumps({"status": verdict, "reason": reason, "corrected_instruction": "再试 try again"})

    def _plan(self, request: Request, draw: int) -> str:
        offered = [one for one in request.tools if one.name != FINAL]
        done = sum(turn.role == "tool" for turn in request.messages)
        if draw % 31 == 0:
            return ("", "<tool_call>\n{not json\n</tool_call>", "just text")[draw % 3]
        if not offered or done >= 2 + draw % 3:
            return render_call(FINAL, {"answer": f"完成 done {draw % 10}"})
        tool = offered[(draw // 7) % len(offered)]
        arguments = filled(tool.parameters, request.messages[1].content, draw)
        if draw % 13 == 0:
            arguments = {**arguments, "surplus": 1}
        one = render_call(tool.name, arguments)
        return one + "\n" + one if draw % 29 == 0 else one


def filled(schema: dict[str, Any], text: str, draw: int) -> dict[str, Any]:
    """Return arguments for a schema, with what of `text` fits."""
    required = schema.get("required", [])
    return {name: _value(schema["properties"][name], text, draw) for name in required}


def _value(schema: dict[str, Any], text: str, draw: int) -> Any:
    if "enum" in schema:
        return schema["enum"][draw % len(schema["enum"])]
    if "pattern" in schema:
        found = re.search(schema["pattern"].strip("^$"), text)
        return found.group() if found else "2026-12-01"
    kind = schema.get("type", "string")
    simple = {"integer": 1 + draw % 3, "number": 1.5, "boolean": True, "array": ["x"], "object": {}}
    return simple.get(kind, "退货 policy")


class Sometimes:
    """Allows what a hash of the call says."""

    def decide(self, permit: Permit, *, deadline_s: float) -> Decision:
        draw = hashlib.sha256(json.dumps([permit.tool, permit.arguments], sort_keys=True).encode()).digest()[0]
        return Decision(allowed=draw % 2 == 0, by="小王", reason="" if draw % 2 == 0 else "不行 no")


class Opened:
    """What `Lab.open_models` gives: one model for both tiers."""

    def __init__(self, model: Any) -> None:
        self.of = model.of

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        pass


def use_model(monkeypatch: pytest.MonkeyPatch, model: Any) -> Any:
    """Let every lab use `model`, and return it."""
    monkeypatch.setattr(hermes_lab.Lab, "open_models", lambda lab: Opened(model))
    return model


def refuse_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let opening or asking a model fail the test."""

    def refuse(lab: Any) -> Any:
        raise AssertionError("a model was opened")

    monkeypatch.setattr(hermes_lab.Lab, "open_models", refuse)


def desk_lab(folder: Path, monkeypatch: pytest.MonkeyPatch, limit: int = 60, **options: Any) -> hermes_lab.Lab:
    """Return a lab with a run of `desk`."""
    lab = hermes_lab.open(folder)
    use_model(monkeypatch, DeskModel())
    lab.run("desk", limit=limit, approver=Sometimes(), **options)
    return lab


def rows(lab: hermes_lab.Lab, query: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    return lab.log.sql(query, list(params)).fetchall()
