"""OpenAI chat JSONL: its shapes, pairing by call id, usage, sessions over several lines, and bad rows."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_lab.events import Action
from hermes_lab.importers.base import Draft, SetAside, Source
from hermes_lab.importers.openai import chat as openai_chat

SAMPLES = Path(__file__).parent / "samples" / "openai-chat"
TIME = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
STARTED, RECEIVED, GENERATION, CALLED = (
    Action.TASK_STARTED,
    Action.MESSAGE_RECEIVED,
    Action.GENERATION,
    Action.TOOL_CALLED,
)


def read(folder: Path, *values: Any) -> list[Any]:
    text = "\n".join(value if isinstance(value, str) else json.dumps(value) for value in values)
    return read_bytes(folder, text.encode("utf-8", "surrogatepass"))


def read_bytes(folder: Path, data: bytes) -> list[Draft | SetAside]:
    path = folder / "chat.jsonl"
    path.write_bytes(data)
    return list(openai_chat.read(Source(path)))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str | None, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text} | ({"tool_calls": list(calls)} if calls else {}) | more


def call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(call_id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **more}


def columns(rows: list[Any], action: Action) -> list[dict[str, Any]]:
    return [row.columns for row in rows if isinstance(row, Draft) and row.action == action]


CONVERSATION = {
    "id": "conversation-1",
    "messages": [
        {"role": "system", "content": "Be brief."},
        user("天气如何？ 🌧"),
        assistant(None, call("c1", "weather", '{"city": "Paris"}'), call("c2", "news", '{"q": ')),
        result("c2", "Error: bad JSON", name="weather"),
        result("c1", '{"error": "404 not found"}'),
        assistant("Sorry."),
    ],
    "tools": [{"type": "function", "function": {"name": "weather"}}],
    "model": "hermes-4",
    "created": 1767225600,
    "metadata": {"split": "train"},
}


def test_a_conversation_with_parallel_calls_becomes_its_events(tmp_path: Path) -> None:
    def draft(key: str, action: Action, columns: dict[str, Any], parent: str | None = None) -> Draft:
        return Draft("conversation-1", key, action, TIME, columns, parent)

    about = {"prompt": "天气如何？ 🌧", "system": "Be brief.", "tools": CONVERSATION["tools"]}
    calls = [
        {"id": "c1", "name": "weather", "arguments": {"city": "Paris"}},
        {"id": "c2", "name": "news", "arguments": '{"q": '},
    ]
    assert read(tmp_path, CONVERSATION) == [
        draft("started", STARTED, {"task_id": "conversation-1", "input": about | {"metadata": {"split": "train"}}}),
        draft("message:0", RECEIVED, {"name": "user", "input": {"content": "天气如何？ 🌧"}}),
        draft("generation:1", GENERATION, {"name": "hermes-4", "output": {"tool_calls": calls}, "status": "ok"}),
        draft(
            "tool:c1",
            CALLED,
            {
                "name": "weather",
                "input": {"city": "Paris"},
                "output": {"error": "404 not found"},
                "observation": '{"error": "404 not found"}',
                "status": "error",
                "error_kind": "not_found",
                "confidence": 0.9,
            },
            "generation:1",
        ),
        draft(
            "tool:c2",
            CALLED,
            {
                "name": "news",
                "input": '{"q": ',
                "output": "Error: bad JSON",
                "observation": "Error: bad JSON",
                "status": "invalid",
                "error_kind": "bad_arguments",
            },
            "generation:1",
        ),
        draft("generation:4", GENERATION, {"name": "hermes-4", "output": {"content": "Sorry."}, "status": "ok"}),
    ]


def test_a_request_with_its_response(tmp_path: Path) -> None:
    line = {
        "session_id": "session-9",
        "request": {"model": "gpt-4o", "temperature": 0.5, "messages": [user("hi")]},
        "response": {
            "id": "chatcmpl-1",
            "model": "gpt-4o-2024-08-06",
            "created": 1767225600,
            "choices": [
                {"index": 0, "message": assistant("hello"), "finish_reason": "length"},
                {"index": 1, "message": assistant("hey"), "finish_reason": "stop"},
            ],
            "usage": {
                "prompt_tokens": 100,
                "completion_tokens": 7,
                "prompt_tokens_details": {"cached_tokens": 64},
            },
        },
        "latency_ms": 250,
    }
    first, second = {"content": "hello", "finish_reason": "length"}, {"content": "hey", "finish_reason": "stop"}
    (generation,) = columns(read(tmp_path, line), GENERATION)
    assert generation == {
        "name": "gpt-4o-2024-08-06",
        "input": {"parameters": {"temperature": 0.5}},
        "input_tokens": 36,
        "cached_tokens": 64,
        "output_tokens": 7,
        "latency_ms": 250.0,
        "output": {**first, "choices": [first, second]},
        "status": "ok",
        "error_kind": "cut_off",
    }
    as_text = {**line, "request": json.dumps(line["request"]), "response": json.dumps(line["response"])}
    assert columns(read(tmp_path, as_text), GENERATION) == [generation]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 2}, {"input_tokens": 10, "output_tokens": 2}),
        (
            {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 0}},
            {"input_tokens": 10, "cached_tokens": 0},
        ),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": None}}, {"input_tokens": 10}),
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 4}, {"input_tokens": 6, "cached_tokens": 4}),
        ({"prompt_tokens": -1, "completion_tokens": "7"}, {"output_tokens": 7}),
        ({"prompt_tokens": 3, "cost": 0.25}, {"input_tokens": 3, "cost_usd": 0.25}),
        ({}, {}),
        ("none", {}),
    ],
)
def test_usage(usage: Any, expected: dict[str, Any], tmp_path: Path) -> None:
    line = {"messages": [user("hi"), assistant("hello")], "usage": usage}
    (generation,) = columns(read(tmp_path, line), GENERATION)
    assert generation == expected | {"output": {"content": "hello"}, "status": "ok"}


def test_usage_of_a_whole_conversation_is_given_to_no_single_call(tmp_path: Path) -> None:
    line = {"messages": [user("a"), assistant("b"), user("c"), assistant("d")], "usage": {"prompt_tokens": 30}}
    found = columns(read(tmp_path, line), GENERATION)
    assert [(c.get("input_tokens"), c.get("weight")) for c in found] == [(None, None), (None, None), (30, 0.0)]


def test_batch_input_and_output_lines(tmp_path: Path) -> None:
    asked = {
        "custom_id": "request-1",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "m", "messages": [user("hi")]},
    }
    body = {"id": "chatcmpl-1", "model": "m", "choices": [{"message": assistant("hello"), "finish_reason": "stop"}]}
    answered = {"id": "batch_req_1", "custom_id": "request-1", "response": {"status_code": 200, "body": body}}
    failed = {
        "id": "batch_req_2",
        "custom_id": "request-2",
        "response": {"status_code": 429, "body": {"error": {"message": "Rate limit reached"}}},
        "error": None,
    }
    expired = {"id": "batch_req_3", "response": None, "error": {"code": "batch_expired", "message": "timed out"}}
    rows = read(tmp_path, asked, answered, failed, expired)
    assert [row.action.value for row in rows if row.episode.startswith("request-1~")] == [
        "task_started",
        "message_received",
    ]
    assert [(c["status"], c.get("error_kind")) for c in columns(rows, GENERATION)] == [
        ("ok", None),
        ("error", "rate_limited"),
        ("timeout", "timeout"),
    ]
    assert [row.episode for row in rows][2:] == [
        name for name in ("batch_req_1", "batch_req_2", "batch_req_3") for _ in range(2)
    ]


def test_legacy_functions_images_and_refusals(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "what is it?"}, {"type": "image_url", "image_url": {"url": "data:x"}}]
    messages = [
        {"role": "user", "content": parts},
        {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}},
        {"role": "function", "name": "look", "content": "a cat"},
        assistant(None, refusal="I will not."),
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    ]
    rows = read(tmp_path, {"messages": messages})
    assert columns(rows, RECEIVED) == [
        {"name": "user", "input": {"content": parts, "other_parts": ["image_url"]}},
        {"name": "user", "input": {"content": "a\nb"}},
    ]
    assert [c["output"] for c in columns(rows, GENERATION)] == [
        {"tool_calls": [{"name": "look", "arguments": {}}]},
        {"refusal": "I will not."},
    ]
    assert columns(rows, CALLED)[0]["output"] == "a cat"


def test_calls_without_results_and_results_without_calls(tmp_path: Path) -> None:
    messages = [user("go"), assistant(None, call("c1", "f", '{"a": 1}')), result("c9", "late"), user("well?")]
    rows = [row for row in read(tmp_path, {"messages": messages}) if row.action == CALLED]
    assert [(row.key, row.columns, row.parent) for row in rows] == [
        ("tool:c1", {"name": "f", "input": {"a": 1}}, "generation:1"),
        ("result:c9", {"output": "late", "observation": "late", "status": "ok", "confidence": 0.5}, None),
    ]


def test_call_ids_that_begin_anew_in_every_turn(tmp_path: Path) -> None:
    turn = [assistant(None, call("call_0", "f", "{}"), call("call_1", "f", "{}")), result("call_0", "a")]
    messages = [user("go"), *turn, result("call_1", "b"), *turn[:1], result("call_0", "c"), result("call_1", "d")]
    rows = [row for row in read(tmp_path, {"messages": messages}) if row.action == CALLED]
    assert [(row.key, row.columns["output"]) for row in rows] == [
        ("tool:call_0", "a"),
        ("tool:call_1", "b"),
        ("tool:call_0#2", "c"),
        ("tool:call_1#2", "d"),
    ]


def test_lines_of_a_session_are_one_episode_with_its_history_once(tmp_path: Path) -> None:
    def line(session: str, messages: list[Any], answer: dict[str, Any]) -> dict[str, Any]:
        return {"session_id": session, "messages": messages, "response": {"choices": [{"message": answer}]}}

    asks = assistant(None, call("c1", "f", "{}"))
    first = line("session-a", [user("hi")], asks)
    second = line("session-a", [user("hi"), asks, result("c1", "ok")], assistant("done"))
    third = line("session-a", [user("hi"), asks, result("c1", "ok"), assistant("done"), user("hi")], assistant("bye"))
    other = line("session-b", [user("hi")], assistant("hello"))
    rows = read(tmp_path, first, other, second, third, third)
    assert [(row.episode, row.key) for row in rows] == [
        ("session-a", "started"),
        ("session-a", "message:0"),
        ("session-a", "generation:1"),
        ("session-a", "tool:c1"),
        ("session-a", "generation:3"),
        ("session-a", "message:4"),
        ("session-a", "generation:5"),
        ("session-b", "started"),
        ("session-b", "message:0"),
        ("session-b", "generation:1"),
    ]


def test_lines_without_an_id_are_known_by_content_and_count(tmp_path: Path) -> None:
    same, other = {"messages": [user("hi")]}, {"messages": [user("ho")]}
    episodes = [row.episode for row in read(tmp_path, same, other, same, same) if row.action == STARTED]
    assert len(set(episodes)) == 4
    assert [name.split("#")[0] == episodes[0] for name in episodes] == [True, False, True, True]
    assert [row.episode for row in read(tmp_path, other, same) if row.action == STARTED] == [episodes[1], episodes[0]]


def test_ids_that_may_come_again_in_another_file_are_not_trusted(tmp_path: Path) -> None:
    one = read(tmp_path, {"id": 1, "messages": [user("hi")]})
    two = read(tmp_path, {"id": 1, "messages": [user("ho")]})
    assert one[0].episode.startswith("1~")
    assert one[0].episode != two[0].episode


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_of_conversations(indent: int | None, tmp_path: Path) -> None:
    lines = read(tmp_path, CONVERSATION)
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([CONVERSATION, {"messages": [user("hi")]}], indent=indent), encoding="utf-8")
    assert openai_chat.sniff(path)
    rows = list(openai_chat.read(Source(path)))
    assert rows[-len(lines) :] == lines
    assert rows[0].columns["input"] == {"prompt": "hi"}


def test_bad_rows_are_set_aside_and_the_others_read(tmp_path: Path) -> None:
    good = {"messages": [user("hi")]}
    bad: list[Any] = ["{", '"text"', {"prompt": "x"}, {"messages": []}, {"messages": "x"}, "[1, 2"]
    rows = read(tmp_path, good, *bad, good, {"messages": [user("a"), "b", {"content": "c"}]})
    aside = {row.where: row.reason for row in rows if isinstance(row, SetAside)}
    assert aside.pop("line 2").startswith("the line is not JSON")
    assert aside.pop("line 7").startswith("the line is not JSON")
    assert aside == {
        "line 3": "it is no object",
        "line 4": "it has no messages",
        "line 5": "its list of messages is empty",
        "line 6": "`messages` is no list",
        "line 9, message 2": "it has no role",
        "line 9, message 3": "it has no role",
    }
    assert len(columns(rows, RECEIVED)) == 3


def test_odd_text_passes(tmp_path: Path) -> None:
    text = "\x00 \ud800 😀 中文\r\n"
    (row,) = columns(read(tmp_path, {"id": "\ud800 conversation", "messages": [user(text)]}), RECEIVED)
    assert row["input"] == {"content": text}
    deep = '{"messages": [{"role": "user", "content": ' + "[" * 100_000 + "]" * 100_000 + "}]}"
    huge = '{"messages": [{"role": "user", "content": ' + "9" * 5000 + "}]}"
    nan = '{"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"n": NaN}}}]}]}'
    rows = read(tmp_path, deep, huge, nan)
    assert [type(row).__name__ for row in rows[:2]] == ["SetAside"] * 2
    assert repr(columns(rows, CALLED)[0]["input"]) == "{'n': nan}"
    marked = b"\xef\xbb\xbf" + json.dumps(CONVERSATION).encode() + b"\r\n\r\n" + b'{"messages": [\xff]}\r\n'
    assert [type(row).__name__ for row in read_bytes(tmp_path, marked)].count("SetAside") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (json.dumps(CONVERSATION), True),
        ('{"custom_id": "r", "body": {"messages": [{"role": "user", "content": "x"}]}}', True),
        ('{"choices": [{"message": {"role": "assistant"}}]}', True),
        ('{"error": "x"}', False),
        ('{"messages": [1]}', False),
        ('{"conversations": []}', False),
        ("[", False),
        ("[]", False),
        ("", False),
        ("\x00\xff", False),
    ],
)
def test_sniff(text: str, expected: bool, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(text.encode("latin-1", "ignore"))
    assert openai_chat.sniff(path) is expected
    assert openai_chat.sniff(tmp_path) is False


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["assistant", "tool", "c1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_change_of_any_value_is_read_or_set_aside(data: st.DataObject, tmp_path: Path) -> None:
    answer = {"choices": [{"message": assistant("x"), "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}
    lines: list[Any] = json.loads(json.dumps([CONVERSATION, {"request": CONVERSATION, "response": answer}]))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.sampled_from([p for p in places(lines) if p]))
        inner: Any = lines
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = data.draw(JSON)
    rows = read(tmp_path, *(json.dumps(line) for line in lines))
    assert rows
    keys = [(row.episode, row.key) for row in rows if isinstance(row, Draft)]
    assert len(keys) == len(set(keys))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_to_the_text_is_survived(data: st.DataObject, tmp_path: Path) -> None:
    raw = b"\n".join([json.dumps(CONVERSATION).encode()] * 2)
    start = data.draw(st.integers(3, len(raw)))
    raw = raw[:start] + data.draw(st.binary(max_size=5)) + raw[start + data.draw(st.integers(0, 40)) :]
    assert all(isinstance(row, Draft | SetAside) for row in read_bytes(tmp_path, raw))


@pytest.mark.parametrize("sample", sorted(SAMPLES.iterdir()), ids=lambda path: path.name)
def test_the_samples_are_recognised_and_read(sample: Path) -> None:
    assert openai_chat.sniff(sample)
    rows = list(openai_chat.read(Source(sample)))
    assert columns(rows, STARTED)
    assert not [row for row in rows if isinstance(row, SetAside)]
