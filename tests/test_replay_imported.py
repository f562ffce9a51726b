"""Replay of somebody else's logs: their decisions taken through our routing, checks, permissions and budgets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hermes_lab
from hermes_lab import routing
from hermes_lab.config import AgentConfig, changed
from hermes_lab.permissions import PermissionRule
from hermes_lab.replay import replay
from hermes_lab.replay.changes import ChangeKind, Verdict
from hermes_lab.tools.base import Spec

EXAMPLE = Path(__file__).parent.parent / "data" / "examples" / "hermes-agent.jsonl"


def function(name: str, description: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = [
    function("weather", "Forecast for a city 天气", city={"type": "string"}),
    function("add", "Sum of two numbers 求和", a={"type": "integer"}, b={"type": "integer"}),
    function("send_mail", "Send a mail 发邮件", to={"type": "string"}, text={"type": "string"}),
]


def chat(request: str, *calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": request}]
    for number, (name, arguments) in enumerate(calls):
        called = {"name": name, "arguments": json.dumps(arguments)}
        messages.append(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{number}", "type": "function", "function": called}],
            }
        )
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": json.dumps({"ok": number})})
    messages.append({"role": "assistant", "content": "好了"})
    return {"messages": messages, "tools": TOOLS}


CHATS = [
    chat("杭州天气怎么样? weather please", ("weather", {"city": "杭州"})),
    chat("what is the weather in Oslo", ("add", {"a": 1, "b": 2})),
    chat("求和 1 and 2 numbers sum", ("add", {"a": 1, "b": 2}), ("add", {"a": 1, "b": 2})),
    chat("sum of two numbers", ("add", {"a": "一", "b": 2})),
    chat("send a mail 发邮件", ("send_mail", {"to": "a@example.org", "text": "你好"})),
    chat("send a mail", ("nonsense", {"x": 1})),
    chat("hello \ud800 there"),
]


@pytest.fixture
def imported(lab: hermes_lab.Lab, tmp_path: Path) -> hermes_lab.Lab:
    file = tmp_path / "chats.jsonl"
    file.write_text("\n".join(json.dumps(one) for one in CHATS), encoding="utf-8")
    lab.import_log(file)
    return lab


def by_request(lab: hermes_lab.Lab, made: Any) -> list[Any]:
    """Return the results in the order of `CHATS`."""
    rows = lab.log.sql("select episode_id, input->>'$.prompt' from events where action = 'task_started'").fetchall()
    places = {
        episode: [one["messages"][0]["content"] for one in CHATS].index(hermes_lab.payload.restore_text(text))
        for episode, text in rows
    }
    return sorted(made.episodes, key=lambda one: places[one.episode_id])


def test_without_a_configuration_they_are_listed(imported: hermes_lab.Lab) -> None:
    made = replay(imported, record=False)
    assert (made.episodes, len(made.not_replayed)) == ((), len(CHATS))
    assert "our loop did not make it" in made.not_replayed[0].reason


def test_their_calls_go_through_checks_and_permissions(imported: hermes_lab.Lab) -> None:
    rule = PermissionRule(decision="ask", name="mails", tool="send_*", argument="text", pattern="你")
    config = changed(AgentConfig(), **{"routing.shortlist": "all"})
    made = replay(imported, config=config, rules=[rule], record=False)
    found = by_request(imported, made)
    assert [one.reason for one in made.not_replayed] == [
        "it is an import without a tool call: there is no decision that a rule could change"
    ]
    kinds = [one.change.kind if one.change else None for one in found]
    assert kinds[:5] == [
        None,
        None,
        ChangeKind.BLOCKED_BY_CHECK,
        ChangeKind.BLOCKED_BY_CHECK,
        ChangeKind.OTHER_PERMISSION,
    ]
    assert "repeated_call" in found[2].change.new
    assert "bad_arguments" in found[3].change.new
    assert found[4].change.new.startswith("ask by mails")
    assert {one.basis for one in found} == {"rules"}
    assert (found[2].decisions, found[2].kept, found[2].changed, found[2].unknown) == (2, 1, 1, 0)
    assert found[0].verdict is Verdict.KEPT


@pytest.mark.parametrize("shortlist", [1, 2])
def test_their_calls_go_through_routing_as_brute_force_does(imported: hermes_lab.Lab, shortlist: int) -> None:
    config = changed(AgentConfig(), **{"routing.shortlist": shortlist})
    found = by_request(imported, replay(imported, config=config, record=False))
    listed = [
        Spec(one["function"]["name"], one["function"]["description"], one["function"]["parameters"]) for one in TOOLS
    ]
    for one, said in zip(found, CHATS, strict=False):
        call = said["messages"][1]["tool_calls"][0]["function"]["name"]
        specs = [*listed] if call in {spec.name for spec in listed} else [*listed, Spec(call, "", {})]
        offered = routing.route(said["messages"][0]["content"], "", specs, config.routing).candidates
        if call == "nonsense":
            continue  # its spec is inferred from the call
        lost = one.change is not None and one.change.kind is ChangeKind.LOST_TOOL
        assert lost == (call not in offered), said
    kinds = [one.change.kind for one in found if one.change]
    assert ChangeKind.LOST_TOOL in kinds


def test_budgets_end_them_earlier(imported: hermes_lab.Lab) -> None:
    config = changed(AgentConfig(), **{"routing.shortlist": "all", "budgets.steps": 1})
    found = by_request(imported, replay(imported, config=config, record=False))
    assert {one.change.kind for one in found if one.change} >= {ChangeKind.ENDED_EARLIER}
    assert found[0].change.new == "ended (1 steps are taken)"
    assert (found[0].decisions, found[0].kept, found[0].changed, found[0].unknown) == (1, 1, 0, 0)


def test_the_example_is_taken_through(lab: hermes_lab.Lab) -> None:
    lab.import_log(EXAMPLE)
    made = replay(lab, config=changed(AgentConfig(), **{"routing.shortlist": "all"}))
    assert len(made.episodes) == 6
    blocked = made.changed()
    assert [one.change.kind for one in blocked if one.change] == [ChangeKind.BLOCKED_BY_CHECK]
    assert "known by the calls made of them alone" in made.episodes[0].remarks[0]
    assert made.worth_a_look()["why"].tolist() == ["our rules change it"]
