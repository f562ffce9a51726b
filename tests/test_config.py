"""The configuration: read from TOML and JSON, refused by name, hashed by everything in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_lab.config import AgentConfig, Routing, changed, from_values, read_config, to_json
from hermes_lab.errors import ConfigError

TOML = """
rules = [{ id = "short", text = "回答要简短。", scope = "orders", evidence = ["e1"] }]

[system]
role = "You are a clerk."
style = "Be kind 😀."

[tools."db.query"]
defaults = { limit = 10 }
note = "Ask for few rows."

[[examples]]
request = "取消订单"
tool = "cancel_order"
arguments = { order = "SO-1" }

[routing]
shortlist = 3
order = "ranked"

[budgets]
seconds = 30
"""


def file(tmp_path: Path, name: str, text: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# -- reading ----------------------------------------------------------------------------------------------------------


def test_toml_and_json_give_the_same(tmp_path):
    config = read_config(file(tmp_path, "代理.toml", TOML))
    assert (config.routing, config.budgets.seconds) == (Routing(shortlist=3, order="ranked"), 30.0)
    assert list(config.system.items()) == [("role", "You are a clerk."), ("style", "Be kind 😀.")]
    assert config.tools["db.query"].defaults == {"limit": 10}
    assert (config.rules[0].text, config.examples[0].request) == ("回答要简短。", "取消订单")
    again = read_config(file(tmp_path, "x.json", msgspec.json.encode(config)))
    assert again == config
    assert again.version == config.version


@pytest.mark.parametrize(
    ("name", "text"), [("a.toml", ""), ("a.json", "{}"), ("a.toml", "\ufeff"), ("a.json", "\ufeff{}")]
)
def test_what_is_left_out_is_the_default(tmp_path, name, text):
    assert read_config(file(tmp_path, name, text)) == AgentConfig()


def test_a_path_may_be_text_and_begin_at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    file(tmp_path, "a.toml", "[budgets]\nsteps = 2")
    assert read_config("~/a.toml").budgets.steps == 2


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.toml", "rooting = 1", "rooting"),
        ("a.toml", "[routing]\nshort_list = 3", "short_list"),
        ("a.toml", "[prompt]\ndecoding = 'greedy'", "prompt.decoding"),
        ("a.toml", "[budgets]\nsteps = 0", "budgets.steps"),
        ("a.toml", "[budgets]\nsteps = '8'", "budgets.steps"),
        ("a.toml", "[budgets]\nsteps = true", "budgets.steps"),
        ("a.toml", "[budgets]\nseconds = nan", "budgets.seconds"),
        ("a.toml", "[budgets]\nseconds = -1", "budgets.seconds"),
        ("a.toml", "[routing]\nshortlist = 'some'", "routing.shortlist"),
        ("a.toml", "[reflection]\nmin_confidence = 1.5", "reflection.min_confidence"),
        ("a.toml", "rules = [{id = 'a'}]", "text"),
        ("a.toml", "rules = [{id = '', text = 'x'}]", "rules[0].id"),
        ("a.toml", f"rules = [{{id = 'a', text = '{'x' * 501}'}}]", "rules[0].text"),
        ("a.toml", "rules = [{id = '甲', text = 'x'}, {id = '甲', text = 'y'}]", "'甲' stands twice"),
        ("a.toml", "[system]\nrole = 1", "system"),
        ("a.toml", "x = ", "is not TOML"),
        ("a.json", '{"budgets": {"steps": 8', "is not JSON"),
        ("a.json", '{"system": {"a": "\\ud800"}}', "a.json"),
        ("a.json", "[]", "a table, not a list"),
        ("a.json", "[" * 100_000, "is not JSON"),
        ("a.toml", b"\xff\xfe", "cannot be read"),
        ("a.toml", f"[budgets]\nsteps = {'9' * 5000}", "is not TOML"),
        ("a.toml", f'[tools."查".defaults]\nx = 0x{"f" * 5000}', "a value that JSON has no form for"),
        ("a.toml", '[tools."查".defaults]\nx = nan', "a date or NaN"),
        ("a.toml", '[tools."查".defaults]\nx = 2026-01-01', "a date or NaN"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, name, text, said):
    path = file(tmp_path, name, text)
    with pytest.raises(ConfigError, match=re.escape(said)) as raised:
        read_config(path)
    assert str(path) in str(raised.value)


def test_a_budget_is_a_limit_so_infinity_is_refused(tmp_path):
    """The canonical JSON that is hashed holds no infinity either."""
    with pytest.raises(ConfigError, match=r"budgets\.seconds"):
        read_config(file(tmp_path, "a.toml", "[budgets]\nseconds = inf"))


@pytest.mark.parametrize("name", ["absent.toml", "."])
def test_a_file_that_cannot_be_read(tmp_path, name):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_config(tmp_path / name)


def test_what_holds_no_table():
    with pytest.raises(ConfigError, match="the configuration: "):
        from_values({"routing": 3})


# -- the version ------------------------------------------------------------------------------------------------------

OTHERWISE: dict[str, Any] = {
    "system.role": "Other.",
    "rules": [{"id": "a", "text": "x"}],
    "examples": [{"request": "a", "tool": "b"}],
    "tools": {"a": {"note": "x"}},
    "routing.shortlist": 2,
    "routing.order": "ranked",
    "routing.drop_after": 4,
    "routing.keep_at_least": 2,
    "routing.policy_weight": 0.4,
    "prompt.decoding": "free",
    "prompt.descriptions": "brief",
    "prompt.repeat_task": False,
    "short_term.steps": 4,
    "short_term.summary_chars": 201,
    "short_term.result_chars": 1501,
    "short_term.summary_tokens": 601,
    "reflection.mode": "always",
    "reflection.max_reflections": 4,
    "reflection.escalate_after": 3,
    "reflection.min_confidence": 0.3,
    "decomposition.mode": "on",
    "decomposition.max_subgoals": 4,
    "budgets.steps": 9,
    "budgets.tokens": 60_001,
    "budgets.seconds": 600.5,
    "budgets.usd": 1.0,
    "sampling.temperature": 0.1,
    "sampling.top_p": 0.9,
    "sampling.max_tokens": 257,
    "sampling.answer_chars": 401,
    "layers.index_tokens": 401,
    "layers.skill_tokens": 1501,
    "layers.skills": 2,
    "micro_reflection.turns": 4,
    "micro_reflection.calls": 3,
    "micro_reflection.output_chars": 1501,
}


def names(value: Any, prefix: str = "") -> list[str]:
    """The dotted names of the settings; a mapping or a list is one."""
    if not isinstance(value, msgspec.Struct):
        return [prefix]
    return [
        name
        for field in msgspec.structs.fields(value)
        for name in names(getattr(value, field.name), f"{prefix}.{field.name}".strip("."))
    ]


def test_a_part_that_was_added_later_renames_no_older_configuration():
    """The version of the default before `layers` and `micro_reflection` were added; data/sample ran under it."""
    assert AgentConfig().version == "c-32e26f91f601"


def test_every_setting_changes_the_version():
    settings = {name.removesuffix(".role") for name in OTHERWISE}
    assert settings == set(names(AgentConfig()))
    versions = [changed(AgentConfig(), **{name: value}).version for name, value in OTHERWISE.items()]
    assert len({AgentConfig().version, *versions}) == len(OTHERWISE) + 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("text", "y"), ("scope", "orders"), ("evidence", ["e2"]), ("since", "v1.1"), ("id", "b")],
)
def test_every_part_of_a_rule_changes_the_version(field, value):
    rule = {"id": "a", "text": "x"}
    first, second = (changed(AgentConfig(), rules=[one]) for one in (rule, {**rule, field: value}))
    assert first.version != second.version


@pytest.mark.parametrize("values", [{"scope": "orders"}, {"arguments": {"a": 1}}, {"arguments": {"a": "1"}}])
def test_every_part_of_an_example_changes_the_version(values):
    example = {"request": "a", "tool": "b"}
    first, second = (changed(AgentConfig(), examples=[one]) for one in (example, {**example, **values}))
    assert first.version != second.version


def test_the_order_of_sections_and_rules_matters_and_that_of_tools_does_not():
    def version(**values: Any) -> str:
        return from_values(values).version

    assert version(system={"a": "1", "b": "2"}) != version(system={"b": "2", "a": "1"})
    rules = [{"id": "a", "text": "1"}, {"id": "b", "text": "2"}]
    assert version(rules=rules) != version(rules=rules[::-1])
    tools = {"a": {"note": "1"}, "b": {"note": "2", "defaults": {"x": 1, "y": 2}}}
    other = {"b": {"defaults": {"y": 2, "x": 1}, "note": "2"}, "a": {"note": "1"}}
    assert version(tools=tools) == version(tools=other)


def test_the_version_is_of_the_content_alone():
    assert AgentConfig().version == AgentConfig().version == from_values({}).version
    assert re.fullmatch(r"c-[0-9a-f]{12}", AgentConfig().version)
    assert to_json(AgentConfig()) == to_json(changed(AgentConfig()))


def test_a_configuration_is_frozen():
    with pytest.raises(AttributeError):
        AgentConfig().routing = Routing()  # type: ignore[misc]


# -- changing ---------------------------------------------------------------------------------------------------------


def test_changed_leaves_the_old_one_alone():
    old = AgentConfig()
    new = changed(old, **{"routing.shortlist": 1, "system.style": "简短。"})
    assert (old.routing.shortlist, new.routing.shortlist) == (3, 1)
    assert (list(old.system), list(new.system)) == (["role"], ["role", "style"])
    assert changed(new, **{"routing.shortlist": 3, "system": old.system}) == old


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("routing.shortlst", 3, "shortlst"),
        ("rooting.shortlist", 3, "rooting"),
        ("routing.shortlist.deep", 3, "routing.shortlist.deep"),
        ("routing.shortlist", 0, "routing.shortlist"),
        ("routing.shortlist", "many", "routing.shortlist"),
        ("budgets.steps", None, "budgets.steps"),
        ("", 1, "setting"),
        ("规则", 1, "规则"),
        ("system.role", "\ud800", "JSON has no form for"),
        ("tools", {"查": {"defaults": {"x": float("nan")}}}, "a date or NaN"),
    ],
)
def test_a_wrong_change_is_refused(name, value, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        changed(AgentConfig(), **{name: value})
