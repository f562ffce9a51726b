"""Tools of many episodes at once: each call runs once and in order of its own, whatever its neighbours do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from hermes_lab import acting
from hermes_lab.acting import Call, ToolRunner
from hermes_lab.effects import Act, Remaining
from hermes_lab.kinds import ErrorKind, Status
from hermes_lab.tools import tool
from hermes_lab.tools.base import Result, Spec, Tool, ToolError
from hermes_lab.tools.limits import TooManyLeftError


@tool(seconds=1.0)
def echo(value: int) -> int:
    """Return a number.

    Args:
        value: the number.
    """
    seen.append((value, threading.current_thread().name))
    if value in hanging:
        hanging[value].wait(10)
    if value < 0:
        raise ToolError("负数")
    return value


@tool(seconds=5.0)
def patient(value: int) -> int:
    """Return a number, later perhaps.

    Args:
        value: the number.
    """
    return echo(value)


seen: list[tuple[int, str]] = []
hanging: dict[int, threading.Event] = {}


class Foreign:
    """A tool of somebody else, which runs where it is called."""

    def __init__(self, name: str, run: Callable[[], Any]) -> None:
        self.spec = Spec(name, "", {"type": "object"})
        self._run = run

    def run(self, environment: Any, arguments: dict[str, Any], *, seconds: float | None = None) -> Any:
        arguments["changed"] = True
        return self._run()


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Take every tool for quick once it ran, however busy the machine is."""
    monkeypatch.setattr(acting, "_QUICK_MS", 60_000.0)
    seen.clear()
    hanging.clear()
    yield
    for event in hanging.values():
        event.set()


def calls(*values: int, seconds: float = 100.0, name: str = "echo") -> list[Call]:
    return [Call(Act(tool=name, arguments={"value": n}, remaining=Remaining(1, seconds)), None) for n in values]


def runner(**more: Tool) -> ToolRunner:
    return ToolRunner({"echo": echo, **more}, 4)


def outputs(results: list[Result]) -> list[Any]:
    return [result.output for result in results]


def test_quick_calls_share_one_thread_and_keep_their_order() -> None:
    with runner() as tools:
        assert outputs(tools.run(calls(1))) == [1]
        seen.clear()
        results = tools.run(calls(*range(40)))
    assert outputs(results) == list(range(40))
    assert [value for value, _ in seen] == list(range(40))
    assert all(result.latency_ms is not None and result.latency_ms >= 0 for result in results)


def test_a_failure_is_the_result_of_its_own_call_only() -> None:
    with runner() as tools:
        tools.run(calls(1))
        results = tools.run(calls(1, -1, 2))
    assert outputs(results) == [1, {"error": "负数"}, 2]
    assert [result.status for result in results] == [Status.OK, Status.ERROR, Status.OK]


def test_a_call_that_hangs_is_left_and_each_of_the_others_runs_once() -> None:
    with runner() as tools:
        tools.run(calls(0))
        seen.clear()
        hanging[3] = threading.Event()
        began = time.perf_counter()
        results = tools.run(calls(1, 2, 3, 4, 5))
        took = time.perf_counter() - began
        hanging[3].set()
        time.sleep(0.05)  # what was left running ends, and must begin nothing
    assert outputs(results)[:2] + outputs(results)[3:] == [1, 2, 4, 5]
    late = results[2]
    assert (late.status, late.error_kind, late.transient) == (Status.TIMEOUT, ErrorKind.TIMEOUT, True)
    assert late.output == {"error": "echo took longer than the 1 s it had"}
    assert 0.9 < took < 3
    assert sorted(value for value, _ in seen) == [1, 2, 3, 4, 5]


def test_no_call_shares_the_time_of_one_with_another_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[tuple[float, int]] = []
    whole = acting.call_within

    def watched(seconds: float, call: Any) -> Any:
        before = len(seen)
        result = whole(seconds, call)
        limits.append((seconds, len(seen) - before))
        return result

    with runner(patient=patient) as tools:
        tools.run([*calls(0), *calls(0, name="patient")])
        monkeypatch.setattr(acting, "call_within", watched)
        monkeypatch.setattr(acting, "_TOGETHER_S", 60.0)
        mixed = [*calls(1, 2, seconds=50.0), *calls(3, 4, seconds=0.5), *calls(5, 6, name="patient"), *calls(7, 8)]
        assert outputs(tools.run(mixed)) == [1, 2, 3, 4, 5, 6, 7, 8]
    # Calls with little time left share none of it.
    assert limits == [(1.0, 2), (5.0, 2), (1.0, 2)]


def test_calls_that_take_a_while_are_not_cut_by_those_before_them() -> None:
    with runner() as tools:
        tools.run(calls(0))
        for value in range(1, 5):
            hanging[value] = threading.Event()
            threading.Timer(0.4 * value, hanging[value].set).start()
        assert outputs(tools.run(calls(1, 2, 3, 4))) == [1, 2, 3, 4]


def test_without_a_thread_to_be_had_each_call_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(seconds: float, call: Any) -> Any:
        raise TooManyLeftError

    with runner() as tools:
        tools.run(calls(0))
        monkeypatch.setattr(acting, "call_within", none_left)
        monkeypatch.setattr("hermes_lab.tools.decorator.call_within", none_left)
        results = tools.run(calls(1, 2))
    assert [result.error_kind for result in results] == [ErrorKind.TOOL_UNAVAILABLE] * 2


def test_an_interrupt_begins_no_further_call(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = acting.call_within

    def interrupted(seconds: float, call: Any) -> Any:
        thread = threading.Thread(target=whole, args=(seconds, call))
        thread.start()
        while not seen:
            time.sleep(0.001)
        raise KeyboardInterrupt

    with runner() as tools:
        tools.run(calls(0))
        seen.clear()
        hanging[1] = threading.Event()
        monkeypatch.setattr(acting, "call_within", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tools.run(calls(1, 2, 3))
        hanging[1].set()
        time.sleep(0.05)
    assert [value for value, _ in seen] == [1]


def test_foreign_tools_run_as_they_are_and_do_no_harm() -> None:
    def leave() -> None:
        raise SystemExit("bye")

    ran_on: list[threading.Thread] = []

    def quick() -> Result:
        ran_on.append(threading.current_thread())
        return Result("quick", latency_ms=0.1)

    more = {
        "quick": Foreign("quick", quick),
        "leave": Foreign("leave", leave),
        "none": Foreign("none", lambda: None),
    }
    with runner(**more) as tools:
        for _ in range(2):
            one = [calls(1, name=name)[0] for name in ("leave", "quick", "none", "echo")]
            left, ok, none, own = tools.run(one)
            assert (left.error_kind, left.output["error"]) == (ErrorKind.CRASHED, "SystemExit: bye")
            assert (ok.output, none.error_kind, own.output) == ("quick", ErrorKind.CRASHED, 1)
            assert all(call.act.arguments == {"value": 1} for call in one)
    assert ran_on[1] is threading.current_thread() is not ran_on[0]
