"""OTLP JSON: layouts, ids, names old and new, and that each call, message and token is counted once."""

from __future__ import annotations

import base64
import datetime as dt
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from otlp_spans import (
    BEGIN,
    TRACE,
    answers,
    any_value,
    attributes,
    calls,
    chat,
    read,
    read_text,
    request,
    says,
    span,
    tool,
)

from hermes_lab.events import Action
from hermes_lab.importers.base import Draft, SetAside, Source
from hermes_lab.importers.otlp import traces as otlp

SAMPLES = Path(__file__).parent / "samples" / "otlp"
QUESTION = says("user", "Weather in Paris? 巴黎 🌧")
SYSTEM = says("system", "Be brief.")
CALL = calls("call_1", "get_weather", {"city": "Paris"})
RESULT = answers("call_1", "rainy, 14°C")
ANSWER = says("assistant", "Rainy.", finish_reason="stop")


def at(ms: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(BEGIN // 10**9, dt.UTC) + dt.timedelta(milliseconds=ms)


def conversation() -> list[dict[str, Any]]:
    """An agent that asks a model, runs a tool and asks again, told by spans of all kinds, unordered."""
    return [
        chat(4, 1, 900, 1500, usage=(140, 20, 128), input=[SYSTEM, QUESTION, CALL, RESULT], output=[ANSWER]),
        span(1, 0, 0, 1600, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}),
        tool(3, 1, 510, 880, "get_weather", id="call_1", arguments='{"city": "Paris"}', result='{"weather": "rainy"}'),
        span(5, 3, 520, 870, {"http.request.method": "GET"}),
        chat(2, 1, 10, 500, usage=(100, 15), input=[SYSTEM, QUESTION], output=[CALL]),
    ]


def expected(**about: Any) -> list[Draft]:
    asked = {"prompt": "Weather in Paris? 巴黎 🌧", "system": "Be brief.", "agent": "helper"}
    first, second = "generation:0000000000000002", "generation:0000000000000004"
    weather = {"city": "Paris"}

    def draft(key: str, action: Action, ms: int, columns: dict[str, Any], parent: str | None = None) -> Draft:
        return Draft(TRACE, key, action, at(ms), columns, parent)

    return [
        draft("started", Action.TASK_STARTED, 0, {"task_id": TRACE, "input": asked | about}),
        draft(
            "message:0000000000000002.1",
            Action.MESSAGE_RECEIVED,
            10,
            {"name": "user", "input": {"content": "Weather in Paris? 巴黎 🌧"}},
        ),
        draft(
            first,
            Action.GENERATION,
            10,
            {
                "name": "gpt-4o",
                "latency_ms": 490.0,
                "input_tokens": 100,
                "output_tokens": 15,
                "output": {"tool_calls": [{"id": "call_1", "name": "get_weather", "arguments": weather}]},
                "status": "ok",
            },
        ),
        draft(
            "tool:call_1",
            Action.TOOL_CALLED,
            510,
            {
                "name": "get_weather",
                "input": weather,
                "output": {"weather": "rainy"},
                "observation": '{"weather": "rainy"}',
                "status": "ok",
                "confidence": 0.8,
                "latency_ms": 370.0,
            },
            first,
        ),
        draft(
            second,
            Action.GENERATION,
            900,
            {
                "name": "gpt-4o",
                "latency_ms": 600.0,
                "input_tokens": 12,
                "cached_tokens": 128,
                "output_tokens": 20,
                "output": {"content": "Rainy.", "finish_reason": "stop"},
                "status": "ok",
            },
        ),
        draft("ended", Action.TASK_ENDED, 1600, {"status": "ok", "output": {"end_reason": "finished"}}),
    ]


def test_a_conversation_becomes_its_events_once_and_in_order(tmp_path: Path) -> None:
    assert read(tmp_path, request(conversation())) == expected(service="demo", other_spans=1)


LAYOUTS = {
    "one request": lambda spans: json.dumps(request(spans)),
    "one request, characters as they are": lambda spans: json.dumps(request(spans), ensure_ascii=False),
    "one request a line": lambda spans: "\n".join(json.dumps(request([one])) for one in spans),
    "CRLF, empty lines, byte order mark": lambda spans: (
        "\ufeff\r\n" + "\r\n\r\n".join(json.dumps(request([one])) for one in spans)
    ),
    "requests one after another": lambda spans: "".join(json.dumps(request([one])) for one in spans),
    "an array of requests": lambda spans: json.dumps([request([one]) for one in spans]),
    "pretty-printed": lambda spans: json.dumps(request(spans), indent=2),
    "pretty-printed one after another": lambda spans: "\n".join(json.dumps(request([o]), indent=1) for o in spans),
    "keys sorted": lambda spans: json.dumps(request(spans), indent=1, sort_keys=True),
    "in an envelope": lambda spans: json.dumps({"trace": request(spans)}),
    "older keys": lambda spans: json.dumps(request(spans)).replace("scopeSpans", "instrumentationLibrarySpans"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_reads_the_same(layout: str, tmp_path: Path) -> None:
    spans = conversation()
    assert read_text(tmp_path, LAYOUTS[layout](spans)) == expected(service="demo", other_spans=1)
    assert otlp.sniff(tmp_path / "spans.jsonl")


@pytest.mark.parametrize("indent", [None, 1])
def test_spans_without_requests_around_them(indent: int | None, tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(one, indent=indent) for one in conversation())
    assert read_text(tmp_path, lines) == expected(other_spans=1)
    assert otlp.sniff(tmp_path / "spans.jsonl")
    assert read_text(tmp_path, json.dumps(conversation(), indent=indent)) == expected(other_spans=1)


def test_snake_case_plain_maps_and_iso_times(tmp_path: Path) -> None:
    """As Python's console exporter and protobuf's `preserving_proto_field_name` write them."""

    def plain(item: dict[str, Any]) -> dict[str, Any]:
        values = {pair["key"]: next(iter(pair["value"].values())) for pair in item["attributes"]}
        start, end = (at((int(item[f"{s}TimeUnixNano"]) - BEGIN) / 10**6).isoformat() for s in ("start", "end"))
        context = {"trace_id": f"0x{TRACE}", "span_id": f"0x{item['spanId']}", "trace_state": "[]"}
        parent = f"0x{item['parentSpanId']}" if item["parentSpanId"] else None
        return {
            "name": item["name"],
            "context": context,
            "parent_id": parent,
            "start_time": start,
            "end_time": end,
            "attributes": values,
        }

    rows = [plain(item) for item in conversation()]
    assert read_text(tmp_path, "\n".join(json.dumps(row, indent=4) for row in rows)) == expected(other_spans=1)
    snake = json.dumps(request(conversation()))
    for camel in ("resourceSpans", "scopeSpans", "traceId", "spanId", "parentSpanId", "startTimeUnixNano"):
        snake = snake.replace(f'"{camel}"', '"' + "".join(f"_{c.lower()}" if c.isupper() else c for c in camel) + '"')
    snake = snake.replace("endTimeUnixNano", "end_time_unix_nano").replace("stringValue", "string_value")
    assert read_text(tmp_path, snake.replace("intValue", "int_value")) == expected(service="demo", other_spans=1)


def test_ids_in_upper_case_or_base64_are_the_same_ids(tmp_path: Path) -> None:
    def changed(change: Any) -> list[dict[str, Any]]:
        spans = conversation()
        for item in spans:
            for name in ("traceId", "spanId", "parentSpanId"):
                item[name] = change(item[name])
        return spans

    def to_base64(value: str) -> str:
        return base64.b64encode(bytes.fromhex(value)).decode()

    everything = expected(service="demo", other_spans=1)
    assert read(tmp_path, request(changed(str.upper))) == everything
    assert read(tmp_path, request(changed(to_base64))) == everything
    mixed = [*conversation()[:2], *changed(to_base64)[2:]]
    assert read(tmp_path, request(mixed)) == everything


def test_times_and_counts_may_be_numbers(tmp_path: Path) -> None:
    text = json.dumps(request(conversation()))
    spans = json.loads(text, object_hook=lambda o: {k: int(v) if k in NUMBERS and v else v for k, v in o.items()})
    assert read(tmp_path, spans) == expected(service="demo", other_spans=1)


NUMBERS = ("startTimeUnixNano", "endTimeUnixNano", "intValue")


@pytest.mark.parametrize("seed", range(5))
def test_order_in_the_file_and_exporters_retries_change_nothing(seed: int, tmp_path: Path) -> None:
    spans = conversation() * 2
    random.Random(seed).shuffle(spans)
    assert read(tmp_path, *(request([item]) for item in spans)) == expected(service="demo", other_spans=1)


def test_a_span_that_was_exported_while_it_ran_is_replaced_by_the_whole_one(tmp_path: Path) -> None:
    running = [{k: v for k, v in item.items() if k != "endTimeUnixNano"} for item in conversation()]
    assert read(tmp_path, request(running + conversation())) == expected(service="demo", other_spans=1)
    assert [d.key for d in read(tmp_path, request(running)) if isinstance(d, Draft)][-1] != "ended"


# ---------------------------------------------------------------- where messages are


def old_events(item: dict[str, Any]) -> dict[str, Any]:
    """Move the messages of a span to events with the names of GenAI conventions 1.28 to 1.36."""
    values = {pair["key"]: pair["value"].get("stringValue") for pair in item["attributes"]}
    events = [(f"gen_ai.{m['role']}.message", old_body(m)) for m in json.loads(values["gen_ai.input.messages"])]
    for i, m in enumerate(json.loads(values["gen_ai.output.messages"])):
        body = {"index": i, "message": old_body(m)}
        events.append(("gen_ai.choice", body | ({"finish_reason": m["finish_reason"]} if "finish_reason" in m else {})))
    kept = [p for p in item["attributes"] if not p["key"].endswith(".messages")]
    return item | {"attributes": kept, "events": events}


def old_body(message: dict[str, Any]) -> dict[str, Any]:
    part = message["parts"][0]
    if part["type"] == "text":
        return {"content": part["content"], "role": message["role"]}
    if part["type"] == "tool_call":
        function = {"name": part["name"], "arguments": json.dumps(part["arguments"])}
        return {"tool_calls": [{"id": part["id"], "type": "function", "function": function}]}
    return {"id": part["id"], "content": part["response"]}


def with_old_events() -> list[dict[str, Any]]:
    return [
        old_events(item) if "gen_ai.input.messages" in json.dumps(item) else item | {"events": []}
        for item in conversation()
    ]


def test_messages_in_span_events(tmp_path: Path) -> None:
    spans = [
        item | {"events": [{"name": name, "attributes": attributes(body)} for name, body in item["events"]]}
        for item in with_old_events()
    ]
    assert read(tmp_path, request(spans)) == expected(service="demo", other_spans=1)
    as_text = [
        item
        | {
            "events": [
                {"name": name, "attributes": attributes({"gen_ai.event.content": json.dumps(body)})}
                for name, body in old["events"]
            ]
        }
        for item, old in zip(spans, with_old_events(), strict=True)
    ]
    assert read(tmp_path, request(as_text)) == expected(service="demo", other_spans=1)


def test_messages_in_log_records_before_or_after_their_spans(tmp_path: Path) -> None:
    spans, logs = [], []
    for item in with_old_events():
        for i, (name, body) in enumerate(item.pop("events")):
            ids = {"traceId": TRACE.upper(), "spanId": item["spanId"]}
            time = str(int(item["startTimeUnixNano"]) + i)
            logs.append(ids | {"timeUnixNano": time, "eventName": name, "body": any_value(body)})
        spans.append(item)
    everything = expected(service="demo", other_spans=1)
    assert read(tmp_path, request(spans), request(logs, "resourceLogs")) == everything
    assert read(tmp_path, request(logs + logs, "resourceLogs"), request(spans)) == everything
    assert read(tmp_path, *logs, *spans) == expected(other_spans=1)


def test_a_log_record_of_a_call_without_its_span_is_the_call(tmp_path: Path) -> None:
    values = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.input.messages": [says("user", "hi")],
        "gen_ai.output.messages": [says("assistant", "hello", finish_reason="stop")],
    }
    log = {
        "traceId": TRACE,
        "spanId": f"{1:016x}",
        "timeUnixNano": str(BEGIN),
        "eventName": "gen_ai.client.inference.operation.details",
        "attributes": attributes(values),
    }
    drafts = read(tmp_path, request([log], "resourceLogs"))
    assert otlp.sniff(tmp_path / "spans.jsonl")
    assert [d.key for d in drafts] == ["started", f"message:{1:016x}.0", f"generation:{1:016x}"]
    assert drafts[-1].columns == {
        "name": "m",
        "input_tokens": 7,
        "output_tokens": 2,
        "output": {"content": "hello", "finish_reason": "stop"},
        "status": "ok",
    }


# ---------------------------------------------------------------- other names


def test_openinference_names(tmp_path: Path) -> None:
    first = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "gpt-4o",
        "llm.token_count.prompt": 100,
        "llm.token_count.completion": 15,
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": "Be brief.",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.contents.0.message_content.type": "text",
        "llm.input_messages.1.message.contents.0.message_content.text": "Weather in Paris? 巴黎 🌧",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "call_1",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "get_weather",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"city": "Paris"}',
        "input.value": "the whole request",
    }
    second = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "gpt-4o",
        "llm.token_count.prompt": 140,
        "llm.token_count.completion": 20,
        "llm.token_count.prompt_details.cache_read": 128,
        "llm.finish_reason": "stop",
        "output.value": "Rainy.",
    }
    ran = {"openinference.span.kind": "TOOL", "tool.name": "get_weather", "input.value": '{"city": "Paris"}'}
    spans = [
        span(1, 0, 0, 1600, {"openinference.span.kind": "AGENT", "agent.name": "helper"}),
        span(2, 1, 10, 500, first),
        span(3, 1, 510, 880, ran | {"output.value": '{"weather": "rainy"}', "output.mime_type": "application/json"}),
        span(4, 1, 900, 1500, second),
        span(5, 3, 520, 870, {"http.request.method": "GET"}),
    ]
    assert read(tmp_path, request(spans)) == expected(service="demo", other_spans=1)
    nested = [item | {"attributes": {}} for item in spans]
    for item, values in zip(nested, ({"agent": {"name": "helper"}}, first, ran, second, {}), strict=True):
        item["attributes"] = values
    nested[0]["attributes"] |= {"openinference": {"span": {"kind": "AGENT"}}}
    nested[2]["attributes"] |= {"output": {"value": '{"weather": "rainy"}'}}
    assert read(tmp_path, request(nested)) == expected(service="demo", other_spans=1)


def test_older_names(tmp_path: Path) -> None:
    """As OpenLLMetry wrote them."""
    values = {
        "gen_ai.system": "OpenAI",
        "llm.request.type": "chat",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.usage.prompt_tokens": 10,
        "gen_ai.usage.completion_tokens": 3,
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": '[{"type": "text", "text": "hi"}]',
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.finish_reason": "length",
        "gen_ai.completion.0.tool_calls.0.id": "c1",
        "gen_ai.completion.0.tool_calls.0.name": "f",
        "gen_ai.completion.0.tool_calls.0.arguments": '{"a": ',
    }
    drafts = read(tmp_path, request([span(1, 0, 0, 5, values)]))
    assert [d.columns for d in drafts[1:]] == [
        {"name": "user", "input": {"content": "hi"}},
        {
            "name": "gpt-4o",
            "latency_ms": 5.0,
            "input_tokens": 10,
            "output_tokens": 3,
            "output": {"tool_calls": [{"id": "c1", "name": "f", "arguments": '{"a": '}], "finish_reason": "length"},
            "status": "ok",
            "error_kind": "cut_off",
        },
        {"name": "f", "input": '{"a": ', "status": "invalid", "error_kind": "bad_arguments"},
    ]


def test_retrieval_and_embeddings(tmp_path: Path) -> None:
    retriever = {
        "openinference.span.kind": "RETRIEVER",
        "input.value": "近くの店",
        "retrieval.documents.0.document.id": "d1",
        "retrieval.documents.0.document.score": 0.5,
    }
    embedding = {
        "gen_ai.operation.name": "embeddings",
        "gen_ai.request.model": "e5",
        "gen_ai.usage.input_tokens": 4,
    }
    drafts = read(tmp_path, request([span(1, 0, 0, 9, retriever, name="find"), span(2, 1, 1, 5, embedding)]))
    assert [(d.action, d.columns) for d in drafts[1:]] == [
        (
            Action.RETRIEVAL,
            {
                "name": "find",
                "latency_ms": 9.0,
                "input": {"query": "近くの店"},
                "output": {"documents": [{"id": "d1", "score": 0.5}]},
                "status": "ok",
            },
        ),
        (Action.RETRIEVAL, {"name": "e5", "latency_ms": 4.0, "input_tokens": 4, "weight": 0.0, "status": "ok"}),
    ]


# ---------------------------------------------------------------- counting once


def generations(drafts: list[Any]) -> list[dict[str, Any]]:
    return [d.columns for d in drafts if d.action == Action.GENERATION]


def test_a_framework_span_around_its_clients_span_is_the_same_call(tmp_path: Path) -> None:
    outer = chat(1, 0, 0, 100, model="openai/gpt-4o", input=[QUESTION], output=[ANSWER], usage=(10, 5))
    between = span(2, 1, 1, 99, {"http.request.method": "POST"})
    inner = chat(3, 2, 2, 98, model="gpt-4o-2024-08-06", usage=(10, 5, 8))
    drafts = read(tmp_path, request([inner, between, outer]))
    assert [d.key for d in drafts] == ["started", f"message:{3:016x}.0", f"generation:{3:016x}"]
    assert drafts[-1].columns == {
        "name": "gpt-4o-2024-08-06",
        "latency_ms": 96.0,
        "input_tokens": 2,
        "cached_tokens": 8,
        "output_tokens": 5,
        "output": {"content": "Rainy.", "finish_reason": "stop"},
        "status": "ok",
    }


@pytest.mark.parametrize(
    ("outer", "inner", "counted"),
    [
        ({"usage": (10, 5)}, [{"usage": (10, 5)}], [(10, 5)]),
        ({}, [{"usage": (10, 5)}], [(10, 5)]),
        ({"usage": (10, 5)}, [{}], [(10, 5)]),
        ({"usage": (30, 12)}, [{"usage": (10, 5)}, {"usage": (20, 7)}], [(10, 5), (20, 7)]),
        ({"usage": (10, 5)}, [{}, {"usage": (10, 5)}], [(None, None), (10, 5)]),
        ({"usage": (90, 9)}, [{"usage": (10, 5)}], [(90, 9), (10, 5)]),
        ({"model": "gpt-4o"}, [{"model": "o3-mini", "usage": (1, 1)}], [(None, None), (1, 1)]),
    ],
)
def test_which_wrapping_spans_count(outer: Any, inner: Any, counted: Any, tmp_path: Path) -> None:
    spans = [chat(1, 0, 0, 100, **outer)]
    spans += [chat(i, 1, i, 50 + i, **values) for i, values in enumerate(inner, 2)]
    found = generations(read(tmp_path, request(spans)))
    assert [(c.get("input_tokens"), c.get("output_tokens")) for c in found] == counted


def test_three_spans_around_one_another_are_one_call(tmp_path: Path) -> None:
    spans = [chat(1, 0, 0, 9, input=[QUESTION]), chat(2, 1, 1, 8, output=[ANSWER]), chat(3, 2, 2, 7, usage=(3, 4))]
    drafts = read(tmp_path, request(spans))
    assert [d.key for d in drafts] == ["started", f"message:{3:016x}.0", f"generation:{3:016x}"]
    assert drafts[-1].columns["output"] == {"content": "Rainy.", "finish_reason": "stop"}


def test_a_tools_span_around_its_servers_span_is_one_call(tmp_path: Path) -> None:
    inner = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "weather.get"}
    spans = [tool(1, 0, 0, 9, "get", id="c1", arguments='{"a": 1}', result="ok"), span(2, 1, 1, 8, inner)]
    (draft,) = read(tmp_path, request(spans))[1:]
    assert (draft.key, draft.columns["input"], draft.columns["output"]) == ("tool:c1", {"a": 1}, "ok")


def test_unknown_cached_tokens_are_not_zero(tmp_path: Path) -> None:
    without = chat(1, 0, 0, 9, usage=(10, 5))
    nought = chat(2, 0, 10, 19, usage=(10, 5, 0))
    excluding = chat(3, 0, 20, 29, usage=(10, 5, 80))
    columns = generations(read(tmp_path, request([without, nought, excluding])))
    assert [(c["input_tokens"], c.get("cached_tokens")) for c in columns] == [(10, None), (10, 0), (10, 80)]


def test_a_tool_call_that_only_messages_tell_of(tmp_path: Path) -> None:
    spans = [
        chat(1, 0, 0, 9, input=[QUESTION], output=[CALL]),
        chat(2, 0, 10, 19, input=[QUESTION, CALL, RESULT], output=[ANSWER]),
        chat(3, 0, 20, 29, input=[QUESTION, CALL, RESULT, ANSWER, says("user", "thanks")], output=[ANSWER]),
    ]
    drafts = read(tmp_path, request(spans))
    assert [d.key for d in drafts] == [
        "started",
        f"message:{1:016x}.0",
        f"generation:{1:016x}",
        "tool:call_1",
        f"generation:{2:016x}",
        f"message:{3:016x}.4",
        f"generation:{3:016x}",
    ]
    assert drafts[3] == Draft(
        TRACE,
        "tool:call_1",
        Action.TOOL_CALLED,
        at(9),
        {
            "name": "get_weather",
            "input": {"city": "Paris"},
            "output": "rainy, 14°C",
            "observation": "rainy, 14°C",
            "status": "ok",
            "confidence": 0.6,
        },
        f"generation:{1:016x}",
    )


def test_calls_without_ids_are_paired_by_what_they_are(tmp_path: Path) -> None:
    call = calls(None, "roll", {"sides": 6})
    history = [QUESTION, call, answers(None, "3"), call, answers(None, "5")]
    spans = [chat(i, 0, i * 10, i * 10 + 9, input=history[: 2 * i - 1], output=[call]) for i in (1, 2, 3)]
    drafts = [d for d in read(tmp_path, request(spans)) if d.action == Action.TOOL_CALLED]
    assert [(d.parent[-1], d.columns["input"], d.columns.get("output")) for d in drafts] == [
        ("1", {"sides": 6}, "3"),
        ("2", {"sides": 6}, "5"),
        ("3", {"sides": 6}, None),
    ]
    outputs = [d.columns["output"] for d in read(tmp_path, request(spans)) if d.action == Action.GENERATION]
    assert outputs == [{"tool_calls": [{"name": "roll", "arguments": {"sides": 6}}]}] * 3


def test_the_same_call_id_in_every_turn(tmp_path: Path) -> None:
    """As some servers number calls anew for each answer."""
    call = calls("call_0", "roll", {})
    history = [QUESTION, call, answers("call_0", "3"), call, answers("call_0", "5")]
    spans = [chat(i, 0, i * 10, i * 10 + 9, input=history[: 2 * i - 1], output=[call]) for i in (1, 2, 3)]
    drafts = [d for d in read(tmp_path, request(spans)) if d.action == Action.TOOL_CALLED]
    assert [(d.key, d.columns.get("output")) for d in drafts][:2] == [("tool:call_0", "3"), ("tool:call_0#2", "5")]


def test_a_result_without_a_call(tmp_path: Path) -> None:
    (draft,) = (
        d
        for d in read(tmp_path, request([chat(1, 0, 0, 9, input=[QUESTION, RESULT], output=[ANSWER])]))
        if d.action == Action.TOOL_CALLED
    )
    assert draft.key == "result:call_1"
    assert draft.columns == {
        "output": "rainy, 14°C",
        "observation": "rainy, 14°C",
        "status": "ok",
        "confidence": 0.5,
    }


def received(drafts: list[Any]) -> list[str]:
    return [d.columns["input"]["content"] for d in drafts if d.action == Action.MESSAGE_RECEIVED]


def test_history_does_not_multiply_messages_but_a_repeated_word_counts(tmp_path: Path) -> None:
    yes, done = says("user", "yes"), says("assistant", "done")
    history = [says("user", "hi"), done, yes, done, yes]
    spans = [chat(i, 0, i * 10, i * 10 + 5, input=history[: 2 * i - 1], output=[done]) for i in (1, 2, 3)]
    window = chat(4, 0, 40, 45, input=[*history[2:], done, says("user", "bye")], output=[done])
    retried = chat(5, 0, 50, 55, input=[*history[2:], done, says("user", "bye")], output=[done])
    assert received(read(tmp_path, request([*spans, window, retried]))) == ["hi", "yes", "yes", "bye"]


def test_the_same_question_in_another_trace_of_a_session_is_another_message(tmp_path: Path) -> None:
    values = {"attributes": {"session.id": "s-1"}, "input": [SYSTEM, QUESTION], "output": [ANSWER]}
    first = chat(1, 0, 0, 9, **values | {"attributes": {"session.id": "s-1"}})
    second = chat(2, 0, 20, 29, **values) | {"traceId": "00" * 15 + "02"}
    drafts = read(tmp_path, request([first, second]))
    assert {d.episode for d in drafts} == {"s-1"}
    assert len(received(drafts)) == 2
    assert len({d.key for d in drafts}) == len(drafts) == 5


# ---------------------------------------------------------------- episodes


def test_a_conversations_id_holds_for_its_whole_trace_and_comes_before_a_session(tmp_path: Path) -> None:
    spans = conversation()
    spans[0]["attributes"] += attributes({"gen_ai.conversation.id": "c-1", "session.id": "s-1"})
    spans[3]["attributes"] += attributes({"session.id": "s-2"})
    assert {d.episode for d in read(tmp_path, request(spans))} == {"c-1"}


def test_a_trace_of_several_conversations(tmp_path: Path) -> None:
    spans = [span(1, 0, 0, 99, {"openinference.span.kind": "CHAIN"})]
    for i, name in ((2, "c-1"), (4, "c-2")):
        spans.append(span(i, 1, i, 90, {"openinference.span.kind": "AGENT", "gen_ai.conversation.id": name}))
        spans.append(chat(i + 1, i, i + 1, 80, output=[ANSWER]))
    drafts = read(tmp_path, request(spans))
    assert [(d.episode, d.key.split(":")[0]) for d in drafts] == [
        (TRACE, "started"),
        (TRACE, "ended"),
        ("c-1", "started"),
        ("c-1", "generation"),
        ("c-2", "started"),
        ("c-2", "generation"),
    ]


def test_usage_that_only_the_agents_span_has(tmp_path: Path) -> None:
    values = {"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 9}
    values |= {"gen_ai.input.messages": [says("user", "hi")], "gen_ai.output.messages": [says("assistant", "hello")]}
    alone = read(tmp_path, request([span(1, 0, 0, 5, values)]))
    assert [d.action.value for d in alone] == ["task_started", "message_received", "generation", "task_ended"]
    assert alone[2].columns == {"name": "m", "input_tokens": 9, "output": {"content": "hello"}}
    assert alone[3].columns["output"] == {"end_reason": "finished", "answer": "hello"}
    without = read(tmp_path, request([span(1, 0, 0, 5, values), chat(2, 1, 1, 4)]))
    assert [(c.get("input_tokens"), c.get("weight")) for c in generations(without)] == [(9, 0.0), (None, None)]
    beside = read(tmp_path, request([span(1, 0, 0, 5, values), chat(2, 1, 1, 4, usage=(9, 1))]))
    assert [c.get("input_tokens") for c in generations(beside)] == [9]


@pytest.mark.parametrize(
    ("more", "status", "kind"),
    [
        ({"attributes": {"error.type": "timeout"}}, "timeout", "timeout"),
        ({"status": {"code": 2, "message": "429 Too Many Requests"}}, "error", "rate_limited"),
        ({"status": {"code": "STATUS_CODE_ERROR"}}, "error", "other"),
        ({"status": {"code": "STATUS_CODE_OK"}}, "ok", None),
        ({"status": {}}, "ok", None),
    ],
)
def test_errors_of_model_calls(more: Any, status: str, kind: str | None, tmp_path: Path) -> None:
    (columns,) = generations(read(tmp_path, request([chat(1, 0, 0, 5, **more)])))
    assert (columns["status"], columns.get("error_kind")) == (status, kind)


def test_errors_of_tools(tmp_path: Path) -> None:
    event = {
        "name": "exception",
        "attributes": attributes({"exception.type": "KeyError", "exception.message": "'x' not found"}),
    }
    spans = [
        tool(1, 0, 0, 1, "a", status={"code": 2}, events=[event]),
        tool(2, 0, 2, 3, "b", result='{"error": "permission denied"}'),
        tool(3, 0, 4, 5, "c", result='{"error": "permission denied"}', status={"code": 1}),
        tool(4, 0, 6, 7, "d"),
    ]
    drafts = read(tmp_path, request(spans))[1:]
    assert [(d.columns["status"], d.columns.get("error_kind"), d.columns.get("confidence")) for d in drafts] == [
        ("error", "not_found", None),
        ("error", "no_permission", 0.9),
        ("ok", None, None),
        ("ok", None, None),
    ]
    assert drafts[0].columns["output"] == {"error": "KeyError: 'x' not found"}


# ---------------------------------------------------------------- bad rows


def test_a_file_without_genai_spans_gives_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, request([span(1, 0, 0, 5, {"http.request.method": "GET"})])) == []
    assert read_text(tmp_path, "") == []


def test_bad_rows_are_set_aside_and_their_neighbours_kept(tmp_path: Path) -> None:
    good = [chat(i, 0, i, i + 1, output=[ANSWER]) for i in range(1, 6)]
    lines = [json.dumps(item) for item in good]
    lines[1] = lines[1].replace('"attributes":', '"attributes"')
    lines.insert(3, '{"hello": "world"}')
    lines.insert(4, "no JSON at all")
    lines.insert(5, json.dumps({**good[0], "traceId": ""}))
    lines[-1] = lines[-1][:-30]
    rows = read_text(tmp_path, "\n".join(lines))
    aside = [row for row in rows if isinstance(row, SetAside)]
    assert [(row.where, row.reason) for row in aside] == [
        ("line 2", "':' is missing"),
        ("line 4", "neither a span nor a log record"),
        ("line 5", "not JSON"),
        ("line 6", "a span without a trace id and a span id"),
        ("line 8", "the file ends in the middle"),
    ]
    assert [row.raw for row in aside][1:3] == ['{"hello": "world"}', "no JSON at all"]
    assert len(generations([row for row in rows if isinstance(row, Draft)])) == 3


def test_a_broken_span_in_one_large_document_costs_only_itself(tmp_path: Path) -> None:
    good = [chat(i, 0, i, i + 1, output=[ANSWER]) for i in range(1, 6)]
    text = json.dumps(request(good))
    broken = text.replace('"name": "span 3"', '"name": span 3')
    rows = read_text(tmp_path, broken)
    assert len(generations([row for row in rows if isinstance(row, Draft)])) == 4
    assert [row.reason for row in rows if isinstance(row, SetAside)] == ["not JSON: expecting value"]
    torn = read_text(tmp_path, text[: text.index('"name": "span 4"')])
    assert len(generations([row for row in torn if isinstance(row, Draft)])) == 3
    assert [row for row in torn if isinstance(row, SetAside)]


def test_odd_text_and_numbers_pass_or_are_set_aside(tmp_path: Path) -> None:
    odd = says("assistant", "\x00 \ud800 😀 \u2028")
    arguments = {"n": float("nan"), "big": 2**80, "deep": [[[[1]]]]}
    spans = [chat(1, 0, 0, 1, output=[odd]), tool(2, 0, 2, 3, "f", arguments=arguments, result="\ud800")]
    drafts = read(tmp_path, request(spans))
    assert drafts[1].columns["output"] == {"content": "\x00 \ud800 😀 \u2028"}
    assert drafts[2].columns["output"] == "\ud800"
    assert repr(drafts[2].columns["input"]) == repr(arguments)
    huge = json.dumps(chat(3, 0, 4, 5)).replace('"span 3"', "9" * 5000)
    deep = json.dumps(chat(4, 0, 4, 5)).replace('"span 4"', "[" * 100_000 + "]" * 100_000)
    levels = json.dumps(chat(5, 0, 4, 5)).replace('"span 5"', "[" * 300 + "]" * 300)
    rows = read_text(tmp_path, "\n".join([huge, deep, levels, json.dumps(chat(6, 0, 4, 5))]))
    assert [type(row).__name__ for row in rows] == ["SetAside"] * 3 + ["Draft"] * 2


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["chat", "tool", "", "[]", "{}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_change_of_any_value_is_read_or_set_aside(data: st.DataObject, tmp_path: Path) -> None:
    spans: list[Any] = [*with_structured_messages(conversation()), *conversation()]
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.sampled_from([p for p in places(spans) if p]))
        inner: Any = spans
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = data.draw(VALUES)
    rows = read(tmp_path, *spans)
    assert all(isinstance(row, Draft | SetAside) for row in rows)
    keys = [(row.episode, row.key) for row in rows if isinstance(row, Draft)]
    assert len(keys) == len(set(keys))


def with_structured_messages(spans: list[Any]) -> list[Any]:
    for i, item in enumerate(spans):
        item["spanId"] = f"{i + 100:016x}"
        for pair in item["attributes"]:
            if pair["key"].endswith(".messages"):
                pair["value"] = any_value(json.loads(pair["value"]["stringValue"]))
    return spans


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_to_the_text_is_survived(data: st.DataObject, tmp_path: Path) -> None:
    text = json.dumps(request(conversation()), indent=data.draw(st.sampled_from([None, 1])))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        text = text[:start] + data.draw(st.text(max_size=5)) + text[start + data.draw(st.integers(0, 40)) :]
    rows = read_text(tmp_path, text)
    assert all(isinstance(row, Draft | SetAside) for row in rows)


@pytest.mark.parametrize("sample", sorted(SAMPLES.iterdir()), ids=lambda path: path.name)
def test_the_samples_are_recognised_and_read(sample: Path) -> None:
    assert otlp.sniff(sample)
    rows = list(otlp.read(Source(sample)))
    assert len(generations([row for row in rows if isinstance(row, Draft)])) == 2
    assert not [row for row in rows if isinstance(row, SetAside)]
