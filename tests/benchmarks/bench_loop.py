"""What the loop, the runner and the log cost beside the model: 100 episodes of 10 tool steps with an instant model.

Prints microseconds a step (one model call and one tool call, everything recorded and on the disk within 50 ms), and
the ratio to a plain loop that decodes the call, calls a function and writes both as JSON with orjson (the floor), and
to agents built with smolagents and langgraph where these are installed (`pip install smolagents langgraph`).

    python tests/benchmarks/bench_loop.py
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from hermes_lab.approvers import Unattended
from hermes_lab.config import AgentConfig, Budgets
from hermes_lab.kinds import Tier
from hermes_lab.log import Log
from hermes_lab.log.redact import Redactor
from hermes_lab.loop import View
from hermes_lab.models.base import Reply, Request
from hermes_lab.models.hermes import render_call
from hermes_lab.recorder import Recorder
from hermes_lab.runner import Job, Runner, Setting
from hermes_lab.tasks import Task
from hermes_lab.tools import tool

EPISODES, STEPS = 100, 10


@tool()
def add(a: int, b: int) -> dict:
    """Add two numbers.

    Args:
        a: the first.
        b: the second.
    """
    return {"sum": a + b}


class Instant:
    """A model that answers at once: ten calls, each with other arguments, then the final answer."""

    name = "instant"
    fingerprint = "instant"
    context_tokens = None

    def __init__(self) -> None:
        self._calls = [render_call("add", {"a": step, "b": 1}) for step in range(STEPS)]
        self._last = render_call("final_answer", {"answer": "done"})

    def generate(self, requests: Sequence[Request], *, seconds: Sequence[float] | None = None) -> list[Reply]:
        return [self._reply(request) for request in requests]

    def _reply(self, request: Request) -> Reply:
        # How many steps there were stands in the seed of the drawing only for a real model; here, count the results.
        done = _steps_done(request)
        text = self._calls[done] if done < STEPS else self._last
        return Reply(text=text, model="instant", input_tokens=100, output_tokens=20, latency_ms=0.0)

    def most_tokens(self, request: Request) -> int:
        return 100

    def of(self, tier: Tier) -> Instant:
        return self

    def close(self) -> None:
        pass


def _steps_done(request: Request) -> int:
    """Read the number of steps off the last call in the prompt: its first argument is its place."""
    for turn in reversed(request.messages):
        if turn.role == "assistant":
            return json.loads(turn.content.split("\n")[1])["arguments"]["a"] + 1
    return 0


class Sums:
    """A suite of one task, with no environment."""

    name = "sums"

    def toolbox(self) -> dict[str, Any]:
        return {"add": add}

    def open(self, task: Task) -> None:
        return None


def ours() -> float:
    """Return microseconds a step."""
    with tempfile.TemporaryDirectory() as folder:
        log = Log(Path(folder) / "events")
        redactor = Redactor(os.environ)
        config = AgentConfig(budgets=Budgets(steps=STEPS + 2, tokens=10**9))
        jobs = [
            Job(Task(id=f"t{n}", family="sums", type="sums", prompt=f"Add, {n}.", tools=("add",)))
            for n in range(EPISODES)
        ]
        model = Instant()
        with log.writer(redactor=redactor) as writer:
            recorder = Recorder(
                writer,
                redactor,
                run_id="bench",
                config_version=config.version,
                channel="suite",
                about={"suite": "sums"},
            )
            runner = Runner(Sums(), config, model, recorder, View(tools={"add": add.spec}), Unattended(), Setting())
            began = time.perf_counter()
            outcomes = runner.run(jobs)
            took = time.perf_counter() - began
        assert all(outcome.ending.end == "completed" and len(outcome.ending.calls) == STEPS for outcome in outcomes)
        count = log.sql("select count(*) from events where action = 'tool_called'").fetchall()[0][0]
        assert count == EPISODES * STEPS, count
    return took / (EPISODES * STEPS) * 1e6


def plain() -> float:
    """Return microseconds a step of a plain loop: decode, call, append two JSON lines, flush at the end."""
    import orjson

    calls = [render_call("add", {"a": step, "b": 1}) for step in range(STEPS)]
    with tempfile.TemporaryFile() as file:
        began = time.perf_counter()
        for _ in range(EPISODES):
            for text in calls:
                call = orjson.loads(text[12:-13])
                result = {"sum": call["arguments"]["a"] + call["arguments"]["b"]}
                file.write(orjson.dumps({"model": text}) + b"\n")
                file.write(orjson.dumps({"tool": call, "result": result}) + b"\n")
        file.flush()
        os.fsync(file.fileno())
        took = time.perf_counter() - began
    return took / (EPISODES * STEPS) * 1e6


def smolagents() -> float:
    """Return microseconds a step of a smolagents ToolCallingAgent, quiet, recording nothing on the disk."""
    from smolagents import Tool, ToolCallingAgent
    from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole, Model
    from smolagents.monitoring import LogLevel

    class Add(Tool):
        name = "add"
        description = "Add two numbers."
        inputs: ClassVar = {
            "a": {"type": "integer", "description": "first"},
            "b": {"type": "integer", "description": "second"},
        }
        output_type = "object"

        def forward(self, a: int, b: int) -> dict:
            return {"sum": a + b}

    class InstantModel(Model):
        def __init__(self) -> None:
            super().__init__()
            self.step = 0

        def generate(self, messages: Any, **options: Any) -> ChatMessage:
            name = "add" if self.step < STEPS else "final_answer"
            arguments = {"a": self.step, "b": 1} if self.step < STEPS else {"answer": "done"}
            self.step += 1
            call = ChatMessageToolCall(
                id=str(self.step), type="function", function=ChatMessageToolCallFunction(name=name, arguments=arguments)
            )
            return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])

    began = time.perf_counter()
    for _ in range(EPISODES):
        agent = ToolCallingAgent(tools=[Add()], model=InstantModel(), verbosity_level=LogLevel.OFF, max_steps=STEPS + 2)
        assert agent.run("Add.") == "done"
    return (time.perf_counter() - began) / (EPISODES * STEPS) * 1e6


def langgraph() -> float:
    """Return microseconds a step of a langgraph ReAct-like graph with an in-memory checkpointer."""
    from typing import TypedDict

    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        step: int
        messages: list

    def model(state: State) -> dict:
        return {"messages": [*state["messages"], {"call": "add", "a": state["step"], "b": 1}]}

    def act(state: State) -> dict:
        call = state["messages"][-1]
        return {"step": state["step"] + 1, "messages": [*state["messages"], {"sum": call["a"] + call["b"]}]}

    graph = StateGraph(State)
    graph.add_node("model", model)
    graph.add_node("act", act)
    graph.add_edge(START, "model")
    graph.add_edge("model", "act")
    graph.add_conditional_edges("act", lambda state: END if state["step"] >= STEPS else "model")
    compiled = graph.compile(checkpointer=InMemorySaver())
    began = time.perf_counter()
    for number in range(EPISODES):
        config = {"configurable": {"thread_id": str(number)}, "recursion_limit": 4 * STEPS}
        assert compiled.invoke({"step": 0, "messages": []}, config)["step"] == STEPS
    return (time.perf_counter() - began) / (EPISODES * STEPS) * 1e6


def measured(run: Callable[[], float], times: int = 5) -> float:
    """Return the median of several runs."""
    return statistics.median(run() for _ in range(times))


def main() -> None:
    floor = measured(plain)
    mine = measured(ours)
    print(f"hermes-lab: {mine:.0f} us a step, recorded; {mine / floor:.1f} x a plain loop with orjson ({floor:.1f} us)")
    for name, run in (("smolagents", smolagents), ("langgraph", langgraph)):
        if importlib.util.find_spec(name) is None:
            print(f"{name}: not installed, so not compared (pip install {name})")
            continue
        other = measured(run, 3)
        print(f"{name}: {other:.0f} us a step; hermes-lab takes {mine / other:.2f} of it")


if __name__ == "__main__":
    main()
