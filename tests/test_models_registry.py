"""Models by name: what opens what, the tiers and their prices, scripts, and the list with its states."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from openai_server import OpenAIServer, completion

from hermes_lab.errors import ConfigError, HermesLabError, MissingError
from hermes_lab.kinds import ErrorKind, Tier
from hermes_lab.models.base import Finish, Request, Role, Turn
from hermes_lab.models.openai import OpenAIModel
from hermes_lab.models.prices import Price
from hermes_lab.models.registry import ModelSettings, Tiers, available, open_model
from hermes_lab.models.scripted import ScriptedModel, read_script, tokens


def ask(text: str = "你好 🙂", **fields: Any) -> Request:
    return Request(messages=(Turn(Role.USER, text),), **fields)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "脚本.jsonl"
    lines = ["好", {"text": "half", "finish": "length", "output_tokens": 9}, "third"]
    path.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n\n", encoding="utf-8")
    return path


def settings(**values: Any) -> ModelSettings:
    return msgspec.convert(values, ModelSettings)


def test_the_settings_of_a_toml_table() -> None:
    read = settings(
        strong="openai:http://localhost/v1#m",
        cache=False,
        prices={"embedded": {"input": 1, "output": 2.5}},
        options={"embedded": {"threads": 2}},
    )
    assert (read.light, read.named(Tier.LIGHT), read.named(Tier.STRONG)) == ("embedded", "embedded", read.strong)
    assert read.prices == {"embedded": Price(input=1, output=2.5)}
    assert ModelSettings().named(Tier.STRONG) == "embedded"
    for wrong in ({"ligth": "x"}, {"light": ""}, {"prices": {"m": {"input": -1, "output": 0}}}, {"cache_max_mb": 0}):
        with pytest.raises(msgspec.ValidationError):
            settings(**wrong)


@pytest.mark.parametrize("name", ["", "gpt-4", "embeded", "openai", "hf", "ollama:x", "模型"])
def test_an_unknown_name_lists_what_is_known(name: str) -> None:
    with pytest.raises(ConfigError, match="embedded") as caught:
        open_model(name)
    assert all(known in str(caught.value) for known in (repr(name), "hf:", "openai:", "scripted:"))


def test_a_script_file(script: Path) -> None:
    model = open_model(f"scripted:{script}")
    replies = model.generate([ask()] * 4)
    assert [reply.text for reply in replies] == ["好", "half", "third", ""]
    assert [reply.finish for reply in replies] == [Finish.STOP, Finish.LENGTH, Finish.STOP, Finish.ERROR]
    assert (replies[1].output_tokens, replies[1].model) == (9, f"scripted:{script}")
    assert replies[3].error_kind is ErrorKind.OTHER
    assert "ended after 3 replies" in replies[3].error
    with pytest.raises(ConfigError, match="speed"):
        open_model(f"scripted:{script}", {"speed": 1})


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "3",
        '{"txt": "x"}',
        '{"text": "x", "finish": "soon"}',
        '{"text": "好", "input_tokens": -1}',
        '{"text": "好", "confidence": 7}',
        "\x00",
        "[" * 5000,
    ],
)
def test_a_wrong_line_of_a_script_is_named(script: Path, line: str) -> None:
    with script.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    with pytest.raises(ConfigError, match="line 5"):
        read_script(script)


def test_a_missing_script(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"gone\.jsonl"):
        open_model(f"scripted:{tmp_path}/gone.jsonl")


def test_a_scripted_function_sees_the_request_and_counts_tokens() -> None:
    model = ScriptedModel(lambda request: request.messages[-1].content.upper(), name="loud")
    [reply] = model.generate([ask("hello")])
    assert (reply.text, reply.model, reply.latency_ms) == ("HELLO", "loud", 0.0)
    assert (reply.input_tokens, reply.cached_tokens, reply.output_tokens) == (2, 0, tokens("HELLO"))
    assert model.most_tokens(ask("hello")) == 2
    assert model.fingerprint != ScriptedModel(lambda _request: "x").fingerprint
    assert ScriptedModel(["a"]).fingerprint == ScriptedModel(["a"]).fingerprint != ScriptedModel(["b"]).fingerprint


def test_equal_tiers_are_one_model(tmp_path: Path, script: Path) -> None:
    with Tiers(settings(light=f"scripted:{script}"), tmp_path) as tiers:
        assert tiers.light is tiers.strong is tiers.of(Tier.LIGHT) is tiers.of(Tier.STRONG)


def test_the_strong_model_is_not_opened_until_asked(tmp_path: Path, script: Path) -> None:
    tiers = Tiers(settings(light=f"scripted:{script}", strong=f"scripted:{tmp_path}/gone.jsonl"), tmp_path)
    assert tiers.light.generate([ask()])[0].text == "好"
    with pytest.raises(MissingError):
        _ = tiers.strong
    tiers.close()
    assert tiers.light.generate([ask()])[0].text == "好"  # opened again, from its first line


def test_a_script_is_never_served_from_the_cache(tmp_path: Path, script: Path) -> None:
    with Tiers(settings(light=f"scripted:{script}"), tmp_path) as tiers:
        assert [tiers.light.generate([ask()])[0].text for _ in range(2)] == ["好", "half"]


@pytest.mark.parametrize("cache", [True, False])
def test_prices_and_cache_around_a_remote_model(tmp_path: Path, cache: bool) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 400}}
    with OpenAIServer(lambda _body: completion("好", usage=usage)) as server:
        name = f"openai:{server.base}#hermes"
        price = {"input": 2.0, "cached_input": 0.5, "output": 10.0}
        chosen = settings(light=name, cache=cache, prices={name: price}, options={name: {"context_tokens": 8192}})
        with Tiers(chosen, tmp_path) as tiers:
            replies = [tiers.light.generate([ask()])[0] for _ in range(2)]
            assert tiers.light.context_tokens == 8192
            assert tiers.light.name == name
    assert [reply.cost_usd for reply in replies] == [pytest.approx((600 * 2 + 400 * 0.5 + 100 * 10) / 1e6)] * 2
    assert [reply.from_cache for reply in replies] == [False, cache]
    assert len(server.asked) == (1 if cache else 2)
    assert (tmp_path / "replies.sqlite").exists() == cache


def test_a_cost_is_unknown_without_tokens_or_price() -> None:
    price = Price(input=1.0, output=1.0)
    assert price.cost_usd(None, 1, 1) is None
    assert price.cost_usd(1, None, None) is None
    assert price.cost_usd(1_000_000, None, 0) == 1.0
    assert price.cost_usd(0, 1_000_000, 0) == 1.0


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"prices": {"embeded": {"input": 1, "output": 1}}}, "embeded"),
        ({"options": {"hf:x": {}}}, "hf:x"),
        ({"light": "gpt-4"}, "gpt-4"),
        ({"strong": "hf:"}, "hf:"),
        ({"light": "scripted:/脚本\0"}, "there is no model"),
    ],
)
def test_settings_that_nothing_would_read_are_refused(values: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Tiers(settings(**values))


def test_a_price_that_would_make_costs_infinite_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="<= 1000000000"):
        settings(prices={"embedded": {"input": 1e308, "output": 1}})


def test_an_unknown_option_is_named() -> None:
    name = "openai:http://localhost/v1#m"
    with (
        Tiers(settings(light=name, options={name: {"treads": 1}})) as tiers,
        pytest.raises(ConfigError, match="treads"),
    ):
        _ = tiers.light
    opened = open_model(name)
    assert isinstance(opened, OpenAIModel)
    opened.close()


def test_the_list_of_models(tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_LAB_CACHE", str(tmp_path / "空"))
    monkeypatch.setenv("MY_KEY", "sk-geheim-0123")
    assert [(row.name, row.tier, row.state) for row in available()] == [("embedded", "light, strong", "not fetched")]
    name = "openai:https://api.example.com/v1#hermes"
    rows = available(settings(light=name, strong=f"scripted:{script}", options={name: {"key_env": "MY_KEY"}}))
    assert [(row.name, row.tier, row.kind, row.state) for row in rows] == [
        (name, "light", "openai", "not asked"),
        (f"scripted:{script}", "strong", "scripted", "on disk"),
        ("embedded", "", "embedded", "not fetched"),
    ]
    assert "MY_KEY" in rows[0].note
    assert "geheim" not in repr(rows)


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("hf:./gone", "missing"),
        ("hf:gone.gguf", "missing"),
        ("hf:no-such-owner/no-such-model", "not fetched"),
        ("hf:a b/c?d", "wrong"),
        ("scripted:gone", "missing"),
        ("openai:nonsense", "wrong"),
        ("gpt-4", "wrong"),
        ("scripted:/脚本\0", "wrong"),
    ],
)
def test_the_list_never_fails(name: str, state: str) -> None:
    assert available(settings(light=name))[0].state == state


def test_a_folder_on_disk(tmp_path: Path) -> None:
    assert available(settings(light=f"hf:{tmp_path}"))[0].state == "on disk"


def test_the_list_loads_neither_torch_nor_transformers() -> None:
    code = (
        "import sys; from hermes_lab.models.registry import *; "
        "available(ModelSettings(light='hf:a/b', strong='openai:http://localhost/v1#m')); Tiers(); "
        "sys.exit(str([name for name in ('torch', 'transformers', 'httpx') if name in sys.modules] or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.strip() == ""


def test_a_model_that_cannot_be_opened_raises_ours(tmp_path: Path) -> None:
    with pytest.raises(HermesLabError):
        open_model(f"hf:{tmp_path}/gone")
