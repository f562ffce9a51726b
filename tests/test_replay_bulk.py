"""Rules in bulk: the same as the rules one by one, on real calls and on odd ones, counted exactly."""

from __future__ import annotations

import json
import random
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_lab import desk_lab

import hermes_lab
from hermes_lab import checks, payload, permissions, routing
from hermes_lab.config import Routing
from hermes_lab.errors import QueryError
from hermes_lab.kinds import ErrorKind
from hermes_lab.permissions import PermissionRule
from hermes_lab.recorder import passes
from hermes_lab.replay import bulk
from hermes_lab.routing import PolicyMemory, ToolStats
from hermes_lab.suites import desk
from hermes_lab.tools.base import Level, Spec

DESK = {name: tool.spec for name, tool in desk.suite().toolbox().items()}
CALLS = """
    select episode_id, event_id, coalesce(task_type, '') as task_type, name as tool, input as arguments from events
    where action in ('tool_called', 'code_executed', 'retrieval')"""


@pytest.fixture(scope="module")
def desk_run(tmp_path_factory: pytest.TempPathFactory) -> hermes_lab.Lab:
    with pytest.MonkeyPatch.context() as patched:
        return desk_lab(tmp_path_factory.mktemp("desk"), patched, limit=120)


def schema(required: str) -> dict[str, Any]:
    properties = {"to": {"type": "string"}, "n": {"type": "integer", "minimum": 0}}
    return {"type": "object", "properties": properties, "required": [required], "additionalProperties": False}


ODD = {
    "发送": Spec("发送", "Send 发送.", schema("to"), Level.HIGH_RISK),
    "count": Spec(
        "count", "Count.", schema("n"), precheck=lambda arguments: "太大" if arguments.get("n", 0) > 5 else None
    ),
    "broken": Spec("broken", "A wrong schema.", {"type": "nonsense"}),
}
VALUES = (
    st.none() | st.integers(-9, 9) | st.floats() | st.sampled_from(["你好", "a\u200bb", "ＡＢ", "\ud800", "$float", ""])
)
ARGUMENTS = st.dictionaries(st.sampled_from(["to", "n", "键", "$spill"]), VALUES, max_size=3)
ODD_CALLS = st.lists(
    st.tuples(st.sampled_from([*ODD, "unknown 未知"]), st.sampled_from(["", "订单", "x"]), ARGUMENTS), max_size=12
)
RULES = st.lists(
    st.builds(
        PermissionRule,
        decision=st.sampled_from(["deny", "ask"]),
        tool=st.sampled_from(["*", "发*", "count", "?ount"]),
        argument=st.sampled_from([None, "to", "n", "键"]),
        pattern=st.sampled_from(["", "^-", "好", "AB", "null"]),
        task_type=st.sampled_from(["*", "订*"]),
    ),
    max_size=4,
)


def table(calls: list[tuple[str, str, dict[str, Any]]]) -> pa.Table:
    columns: dict[str, list[str]] = {name: [] for name in ("episode_id", "event_id", "task_type", "tool", "arguments")}
    for number, (tool, task_type, arguments) in enumerate(calls):
        values = (f"e{number // 3}", f"id-{number}", task_type, tool, payload.store_text(payload.dumps(arguments)))
        for name, value in zip(columns, values, strict=True):
            columns[name].append(value)
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


@given(ODD_CALLS, RULES, RULES)
@settings(max_examples=150, deadline=None)
def test_permissions_are_those_of_decide(calls: Any, rules: Any, against: Any) -> None:
    expected = {}
    for number, (tool, task_type, arguments) in enumerate(calls):
        spec = ODD.get(tool) or Spec(tool, "", {})
        new, old = (permissions.decide(side, spec, arguments, task_type) for side in (rules, against))
        if new.verdict is not old.verdict:
            expected[f"id-{number}"] = f"{new.verdict} by {new.by}: {new.reason}"
    found = bulk.permissions(table(calls), rules, against=against, specs=ODD)
    assert {one.event_id: one.why for one in found.sample} == expected
    assert (found.calls, found.affected) == (len(calls), len(expected))
    assert found.affected_episodes == len({f"e{int(one[3:]) // 3}" for one in expected})


@given(ODD_CALLS)
@settings(max_examples=150, deadline=None)
def test_checks_are_those_of_check_call(calls: Any) -> None:
    guards = checks.Guards(repeats=False)
    expected = {}
    for number, (tool, _, arguments) in enumerate(calls):
        problem = checks.check_call(tool, arguments, ODD, guards=guards)
        if problem is not None:
            expected[f"id-{number}"] = problem.message
    found = bulk.checks(table(calls), ODD)
    assert {one.event_id: one.why for one in found.sample} == expected
    assert sum(found.by_reason.values()) == sum(found.by_tool.values()) == found.affected == len(expected)


def brute_routing(
    rows: list[dict[str, Any]], config: Routing, specs: dict[str, Spec], memory: PolicyMemory
) -> set[str]:
    """Return the event ids of the calls whose tool `routing.route` does not offer, one at a time."""
    lost: set[str] = set()
    episode, past = None, []  # type: ignore[var-annotated]
    for row in rows:
        if row["episode_id"] != episode:
            episode, past = row["episode_id"], []
        names = specs if row["tools"] is None else json.loads(row["tools"])
        hit = {tool for tool, status, _, _ in past if status == "ok"}
        missed: dict[str, int] = {}
        for tool, status, kind, ran in past:
            if ran and status != "ok" and tool not in hit and not passes(ErrorKind(kind) if kind else None):
                missed[tool] = missed.get(tool, 0) + 1
        before = past[-1][0] if past and past[-1][1] == "ok" else None
        if row["ran"]:
            tools = [specs[name] for name in names if name in specs]
            offered = routing.route(row["request"], row["task_type"], tools, config, memory, missed, before).candidates
            if row["tool"] not in offered:
                lost.add(row["event_id"])
        past.append((row["tool"], row["status"], row["error_kind"], row["ran"]))
    return lost


def routed_rows(lab: hermes_lab.Lab) -> list[dict[str, Any]]:
    tasks = """
        select episode_id, input->>'$.task.prompt', input->>'$.task.tools' from events where action = 'task_started'"""
    started = {one: (text, tools) for one, text, tools in lab.log.sql(tasks).fetchall()}
    query = """
        select episode_id, event_id, coalesce(task_type, ''), coalesce(name, ''), coalesce(status, 'ok'),
            coalesce(error_kind, ''), action <> 'tool_checked'
        from events where action in ('tool_called', 'code_executed', 'retrieval', 'tool_checked')
        order by episode_id, step"""
    names = ("episode_id", "event_id", "task_type", "tool", "status", "error_kind", "ran")
    rows = [dict(zip(names, row, strict=True)) for row in lab.log.sql(query).fetchall()]
    return [{**row, "request": started[row["episode_id"]][0], "tools": started[row["episode_id"]][1]} for row in rows]


MEMORY = PolicyMemory(
    {("orders", "get_order"): ToolStats(9, 1), ("returns", "get_return"): ToolStats(0, 3)},
    {("order_status", "get_order", "track_shipment"): 5},
)


@pytest.mark.parametrize("memory", [routing.NO_MEMORY, MEMORY], ids=["no memory", "memory"])
@pytest.mark.parametrize(
    "config", [Routing(shortlist=1), Routing(shortlist=3, policy_weight=0.9, drop_after=0), Routing(shortlist="all")]
)
def test_routing_is_that_of_route_on_a_real_log(
    desk_run: hermes_lab.Lab, config: Routing, memory: PolicyMemory
) -> None:
    rows = routed_rows(desk_run)
    expected = brute_routing(rows, config, DESK, memory)
    found = bulk.routing(desk_run, config, DESK, policy=memory)
    assert found.calls == sum(row["ran"] for row in rows) > 100
    assert found.affected == len(expected)
    assert {one.event_id for one in found.sample} <= expected
    assert found.affected_episodes == len({row["episode_id"] for row in rows if row["event_id"] in expected})
    old = bulk.routing(desk_run, config, DESK, policy=memory, against=Routing(shortlist=2))
    offered_then = brute_routing(rows, Routing(shortlist=2), DESK, memory)
    assert old.affected == len(expected - offered_then)


def test_routing_of_many_invented_calls() -> None:
    draw = random.Random(1)
    words = ["order", "退货", "ticket", "天气", "price", "库存", "mail", "report"]
    specs = {f"tool_{n}": Spec(f"tool_{n}", " ".join(draw.sample(words, 3)), {}) for n in range(12)}
    rows = []
    for number in range(1500):
        status, kind = draw.choice(
            [("ok", ""), ("error", "tool_failed"), ("error", "timeout"), ("invalid", "bad_arguments")]
        )
        episode = number // 5
        local = random.Random(episode)
        rows.append(
            {
                "episode_id": f"集{episode:04}",
                "event_id": f"id-{number}",
                "task_type": local.choice(["a", "类"]),
                "tool": draw.choice(list(specs)[:4]),
                "status": status,
                "error_kind": kind,
                "ran": status != "invalid",
                "request": " ".join(local.sample(words, 3)),
                "tools": None if episode % 3 else json.dumps(local.sample(list(specs), 7)),
            }
        )
    memory = PolicyMemory(
        {("a", f"tool_{n}"): ToolStats(n % 3, n) for n in range(12)},
        {("类", "tool_1", f"tool_{n}"): n for n in range(9)},
    )
    config = Routing(shortlist=3, policy_weight=0.5, drop_after=1, order="ranked")
    source = pa.Table.from_pylist(rows)
    expected = brute_routing(rows, config, specs, memory)
    for given_source in (source, pd.DataFrame(rows), pa.concat_tables([source.slice(0, 700), source.slice(700)])):
        found = bulk.routing(given_source, config, specs, policy=memory)
        assert found.affected == len(expected)
    assert 100 < len(expected) < len(rows)


def test_real_calls_come_out_as_one_by_one(desk_run: hermes_lab.Lab) -> None:
    rules = [
        PermissionRule(decision="deny", tool="*ticket*", argument="status", pattern="closed"),
        PermissionRule(decision="ask", name="orders", tool="get_order"),
    ]
    rows = desk_run.log.sql(CALLS).fetchall()
    expected = {"allow": 0, "ask": 0, "deny": 0}
    for _, _, task_type, tool, text in rows:
        new, old = (permissions.decide(side, DESK[tool], payload.loads(text), task_type) for side in (rules, ()))
        expected[str(new.verdict)] += new.verdict is not old.verdict
    found = bulk.permissions(desk_run, rules, specs=DESK)
    assert found.by_reason == {name: count for name, count in expected.items() if count}
    assert found.calls == len(rows) > found.judged
    assert "calls" in str(found)
    assert len(found.to_frame()) == len(found.sample) == min(found.affected, 100)
    few = bulk.permissions(desk_run, rules, specs=DESK, where="name = ?", params=["get_order"])
    assert few.by_reason == {"ask": few.calls}
    assert bulk.checks(desk_run, DESK).affected == 0
    fewer = {name: spec for name, spec in DESK.items() if name != "get_order"}
    assert bulk.checks(desk_run, fewer).by_reason == {"unknown_tool": few.calls}
    assert bulk.checks(desk_run, fewer, where="false").calls == 0


def test_a_table_without_a_column_is_refused() -> None:
    with pytest.raises(QueryError, match="no column 'task_type'"):
        bulk.checks(pa.table({"episode_id": ["e"], "event_id": ["x"]}), DESK)
