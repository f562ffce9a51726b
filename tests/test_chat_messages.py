"""One message however it is spelled; which messages of a repeated history are new; which result answers which call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.importers.reading.chat_history import History
from hermes_lab.importers.reading.chat_messages import Call, Message, read_message, read_messages
from hermes_lab.importers.reading.chat_outcomes import failure_columns, pair_results, token_columns, tool_columns

ARGUMENTS = {"city": "東京"}
CALL = Message("assistant", "Let me look.", calls=[Call("c1", "weather", ARGUMENTS)], reasoning="It rains?")
SPELLINGS: dict[str, dict[str, Any]] = {
    "OpenAI": {
        "role": "assistant",
        "content": "Let me look.",
        "reasoning_content": "It rains?",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": json.dumps(ARGUMENTS)}}
        ],
    },
    "OTel GenAI": {
        "role": "assistant",
        "parts": [
            {"type": "reasoning", "content": "It rains?"},
            {"type": "text", "content": "Let me look."},
            {"type": "tool_call", "id": "c1", "name": "weather", "arguments": ARGUMENTS},
        ],
    },
    "Anthropic": {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "It rains?", "signature": "x"},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "c1", "name": "weather", "input": ARGUMENTS},
        ],
    },
    "Gemini": {
        "role": "model",
        "parts": [
            {"type": "thinking", "text": "It rains?"},
            {"text": "Let me look."},
            {"functionCall": {"id": "c1", "name": "weather", "args": ARGUMENTS}},
        ],
    },
}
RESULTS: dict[str, dict[str, Any]] = {
    "OpenAI": {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    "OTel GenAI": {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "rain"}]},
    "OTel GenAI of 2025": {"role": "tool", "parts": [{"type": "tool_call_response", "id": " c1", "result": "rain"}]},
    "Anthropic": {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "rain"}]},
        ],
    },
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_call_is_the_same_in_every_spelling(spelling: str) -> None:
    (message,) = read_message(SPELLINGS[spelling])
    assert message.answered() == {
        "content": "Let me look.",
        "tool_calls": [{"id": "c1", "name": "weather", "arguments": ARGUMENTS}],
        "reasoning": "It rains?",
    }
    assert message.digest() == CALL.digest()


@pytest.mark.parametrize("spelling", RESULTS)
def test_a_result_is_the_same_in_every_spelling(spelling: str) -> None:
    assert read_message(RESULTS[spelling]) == [Message("tool", "rain", call_id="c1")]


def test_several_results_in_one_message_come_before_its_own_text() -> None:
    parts = [
        {"type": "tool_result", "tool_use_id": "a", "content": "1"},
        {"type": "tool_result", "tool_use_id": "b", "content": {"x": 1}},
        {"type": "text", "text": "go on"},
    ]
    assert read_message({"role": "user", "content": parts}) == [
        Message("tool", "1", call_id="a"),
        Message("tool", {"x": 1}, call_id="b"),
        Message("user", "go on"),
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", [Message("user", "plain")]),
        ("[not JSON", [Message("user", "[not JSON")]),
        ('[{"role": "user", "content": "a"}]', [Message("user", "a")]),
        ({"messages": [{"role": "user", "content": "a"}, "b"]}, [Message("user", "a"), Message("user", "b")]),
        ([[{"role": "human", "content": "a"}]], [Message("user", "a")]),
        ([{"type": "text", "content": "a"}, {"type": "text", "content": "b"}], [Message("user", "a\nb")]),
        ('{"a": 1}', [Message("user", '{"a": 1}')]),
        ([], []),
        (None, []),
        (7, []),
    ],
)
def test_lists_of_messages_in_every_wrapping(value: object, expected: list[Message]) -> None:
    assert read_messages(value) == expected


def test_parts_that_are_no_text_are_kept_and_named() -> None:
    parts = [{"type": "text", "text": "look"}, {"type": "blob", "modality": "image", "content": "AAAA"}]
    (message,) = read_message({"role": "user", "content": parts})
    assert message.received() == {"content": parts, "other_parts": ["blob"]}
    assert message.text() == "look"


KEYS = st.sampled_from(
    ["role", "content", "parts", "type", "text", "tool_calls", "function", "arguments", "id", "name", "function_call"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)


@given(JSON)
def test_anything_can_be_read_as_messages(value: Any) -> None:
    for message in read_messages(value):
        message.digest()
        message.received()
        message.answered()


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=12), st.integers(0, 3))
def test_growing_histories_give_each_message_once(said: list[str], window: int) -> None:
    history = History()
    new = [said[i] for end in range(1, len(said) + 1) for i in history.fresh(said[:end], continued=True)]
    assert new == said
    assert history.fresh(said[window:], continued=True) == []


def test_a_request_without_history_is_new_even_if_it_says_the_same() -> None:
    history = History()
    assert history.fresh(["a"], continued=False) == [0]
    assert history.fresh(["a"], continued=False) == [0]
    assert history.fresh(["a", "b", "a", "c"], continued=True) == [1, 2, 3]


def test_results_are_paired_by_id_then_by_name_then_by_position() -> None:
    messages = [
        Message("assistant", calls=[Call("x", "f", {}), Call("x", "g", {}), Call(None, "h", {}), Call(None, "i", {})]),
        Message("tool", "2", call_id=None, name="i"),
        Message("tool", "0", call_id="x"),
        Message("tool", "3", call_id=None),
        Message("tool", "none", call_id="y"),
    ]
    results, orphans = pair_results(messages)
    assert {place[1]: result.content for place, result in results.items()} == {3: "2", 0: "0", 1: "3", 2: "none"}
    assert orphans == set()
    assert pair_results([Message("tool", "x", call_id="y")]) == ({}, {0})


def test_what_an_event_keeps_of_a_call() -> None:
    assert tool_columns(Call("c", "f", '{"a": 1}'), None) == {"name": "f", "input": {"a": 1}}
    assert tool_columns(Call("c", "f", None), None) == {"name": "f"}
    assert tool_columns(Call("c", "f", "{"), None)["status"] == "invalid"
    found = tool_columns(Call("c", "f", {}), Message("tool", '{"exit_code": 1, "output": "x: not found"}', name="g"))
    assert found == {
        "name": "f",
        "input": {},
        "output": {"exit_code": 1, "output": "x: not found"},
        "observation": '{"exit_code": 1, "output": "x: not found"}',
        "status": "error",
        "error_kind": "not_found",
        "confidence": 0.95,
    }
    assert len(tool_columns(None, Message("tool", "x" * 5000))["observation"]) == 2000


def test_tokens_and_failures() -> None:
    assert token_columns(10, None, 3) == {"input_tokens": 10, "output_tokens": 3}
    assert token_columns(10, 0, None) == {"input_tokens": 10, "cached_tokens": 0}
    assert token_columns(10, 12, None) == {"input_tokens": 10, "cached_tokens": 12}
    assert token_columns("x", -1, True) == {}
    assert failure_columns("CancelledError")["status"] == "cancelled"
    assert failure_columns("APITimeoutError: timed out") == {"status": "timeout", "error_kind": "timeout"}
    assert failure_columns("ValueError") == {"status": "error", "error_kind": "other"}
