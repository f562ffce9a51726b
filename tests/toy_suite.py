"""A tiny suite for tests of the runner: a counter that tools read and raise, and models that answer at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

from hermes_lab.kinds import ErrorKind, Tier
from hermes_lab.models.base import Reply, Request
from hermes_lab.models.hermes import render_call
from hermes_lab.tasks import Answer, Task
from hermes_lab.tools import tool
from hermes_lab.tools.base import Level, ToolError


class Counter:
    """An environment: one number."""

    def __init__(self, value: int = 0) -> None:
        self.value = value
        self.closed = False

    def query(self, sql: str) -> list[list[Any]]:
        return [[self.value]]

    def close(self) -> None:
        self.closed = True


@tool()
def read_counter(env: Counter) -> dict:
    """Read the counter."""
    return {"value": env.value}


@tool(level=Level.EXECUTABLE)
def raise_counter(env: Counter, by: int) -> dict:
    """Raise the counter.

    Args:
        by: how much.
    """
    env.value += by
    return {"value": env.value}


@tool(level=Level.HIGH_RISK)
def reset_counter(env: Counter) -> dict:
    """Set the counter to 0."""
    env.value = 0
    return {"value": 0}


@tool()
def broken(why: str = "") -> dict:
    """Fail always, the same way.

    Args:
        why: it does not matter.
    """
    raise ToolError("the back end says no", ErrorKind.TOOL_FAILED)


TOOLS = {one.spec.name: one for one in (read_counter, raise_counter, reset_counter, broken)}


class ToySuite:
    """Tasks that say in their prompt which calls to make, as JSON, for `Obedient`."""

    name = "toy"

    def __init__(self) -> None:
        self.opened: list[Counter] = []

    def toolbox(self) -> dict[str, Any]:
        return dict(TOOLS)

    def open(self, task: Task) -> Counter:
        if task.environment.get("broken"):
            raise RuntimeError("this environment cannot be opened")
        counter = Counter(task.environment.get("value", 0))
        self.opened.append(counter)
        return counter


def task(id: str, calls: Sequence[tuple[str, dict[str, Any]]], answer: str = "完成", **more: Any) -> Task:
    """Return a task whose prompt is the script of what to do."""
    script = [render_call(name, arguments) for name, arguments in calls]
    script.append(render_call("final_answer", {"answer": answer}))
    values = {
        "family": "toy",
        "type": "counting",
        "prompt": json.dumps(script),
        "tools": tuple(TOOLS),
        "grader": Answer(items=(answer,)),
        **more,
    }
    return Task(id=id, **values)


class Obedient:
    """A model that does what the prompt's script says, step by step; instant and stateless.

    Attributes:
        batches: sizes of the batches that it was asked, in order.
    """

    fingerprint = "obedient-1"
    context_tokens = None

    def __init__(self, name: str = "obedient", on_batch: Callable[[int], None] = lambda number: None) -> None:
        self.name = name
        self.batches: list[list[str]] = []
        self.on_batch = on_batch
        self._lock = threading.Lock()

    def of(self, tier: Tier) -> Obedient:
        return self

    def generate(self, requests: Sequence[Request], *, seconds: Sequence[float] | None = None) -> list[Reply]:
        with self._lock:
            self.on_batch(len(self.batches))
            self.batches.append([request.messages[1].content for request in requests])
        return [self._reply(request) for request in requests]

    def _reply(self, request: Request) -> Reply:
        if not request.frame.prefix:  # a reflection, not a planning turn
            text = json.dumps({"status": "needs_fix", "reason": "logic_gap", "corrected_instruction": "go on"})
            return Reply(text=text, model=self.name, input_tokens=30, cached_tokens=0, output_tokens=10, latency_ms=1.0)
        script = json.loads(next(turn.content for turn in request.messages if turn.role == "user"))
        done = sum(turn.role == "tool" for turn in request.messages)
        text = script[min(done, len(script) - 1)]
        return Reply(text=text, model=self.name, input_tokens=50, cached_tokens=0, output_tokens=10, latency_ms=1.0)

    def most_tokens(self, request: Request) -> int:
        return 50

    def close(self) -> None:
        pass
