"""Records of finished tasks, searched by words, type, tool and outcome."""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

import pytest
from memory_lab import record

from hermes_lab import payload
from hermes_lab.errors import QueryError
from hermes_lab.events import Action, Event
from hermes_lab.lab import Lab
from hermes_lab.log import new_id
from hermes_lab.memory.search import search


def ended(lab: Lab, request: str, result: str = "", end: str = "completed", **more: Any) -> str:
    output = {
        "request": request,
        "end": end,
        "result": result,
        "failure_points": more.pop("failures", []),
        "key_decisions": more.pop("decisions", []),
        "tools": more.pop("tools", []),
    }
    values = {"name": end, "output": output, "task_type": "orders", "episode_id": "e", "task_id": request[:20], **more}
    return record(lab, Action.TASK_RECORDED, **values)


@pytest.fixture
def full(lab: Lab) -> Lab:
    ended(lab, "Where is order SO-1042?", "It was shipped.", tools=["get_order"])
    ended(lab, "请给SO-1043退款", "退款已完成", task_type="returns", tools=["issue_refund", "get_order"])
    ended(
        lab,
        "Refund SO-1044",
        "two tries failed",
        end="diverged",
        task_type="returns",
        tools=["issue_refund"],
        failures=[{"tool": "issue_refund", "error_kind": "no_permission", "message": "a manager must allow it 🚫"}],
    )
    record(lab, Action.TASK_RECORDED, name="odd", output=["no", "record"])
    record(lab, Action.TOOL_CALLED, name="issue_refund", output={"request": "refund", "tools": ["issue_refund"]})
    return lab


@pytest.mark.parametrize(
    ("words", "filters", "wanted"),
    [
        ("refund", {}, ["Refund SO-1044", "请给SO-1043退款"]),
        ("退款", {}, ["请给SO-1043退款"]),
        ("who can allow it? a manager", {}, ["Refund SO-1044"]),
        ("order SO-1042", {}, ["Where is order SO-1042?", "请给SO-1043退款", "Refund SO-1044"]),
        ("refunds and 火箭", {}, []),
        ("", {"tool": "get_order"}, ["请给SO-1043退款", "Where is order SO-1042?"]),
        ("", {"outcome": "diverged"}, ["Refund SO-1044"]),
        ("", {"task_type": "returns", "outcome": "completed"}, ["请给SO-1043退款"]),
        ("order", {"task_type": "orders"}, ["Where is order SO-1042?"]),
        ("the of 的", {}, []),
        ("'; drop table events; --", {}, []),
    ],
)
def test_by_words_type_tool_and_outcome(full: Lab, words: str, filters: dict[str, Any], wanted: list[str]) -> None:
    assert [one.request for one in search(full.log, words, **filters)] == wanted


def test_a_record_says_everything(full: Lab) -> None:
    (one,) = search(full.log, "manager")
    assert (one.outcome, one.result, one.tools, one.task_type) == (
        "diverged",
        "two tries failed",
        ("issue_refund",),
        "returns",
    )
    assert one.failures[0]["error_kind"] == "no_permission"
    assert one.score is not None


def test_limits(full: Lab) -> None:
    assert len(search(full.log, "SO", limit=2)) == 2
    with pytest.raises(QueryError, match="limit is 0"):
        search(full.log, "x", limit=0)


def test_lone_surrogates_and_sealed_events(full: Lab) -> None:
    ended(full, "odd \ud800 request 怪", task_id="t\ud800")
    full.log.seal()
    (one,) = search(full.log, "odd request")
    assert (one.request, one.task_id) == ("odd \ud800 request 怪", "t\ud800")


def test_twenty_thousand_records_in_a_second(lab: Lab) -> None:
    with lab.log.writer() as writer:
        for n in range(20_000):
            output = payload.dumps(
                {"request": f"request {n} 订单{n % 97}", "end": "completed", "result": "fine", "tools": []}
            )
            now = dt.datetime.now(dt.UTC)
            writer.append(
                Event(event_id=new_id(), ts=now, action=Action.TASK_RECORDED, name="completed", output=output)
            )
    lab.log.seal()
    search(lab.log, "warm")
    began = time.perf_counter()
    found = search(lab.log, "订单13", limit=5)
    assert len(found) == 5
    assert time.perf_counter() - began < 3  # 0.2 s when nothing else runs
