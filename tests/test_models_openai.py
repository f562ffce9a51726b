"""Models behind an OpenAI-compatible server: a real one on loopback, with every way in which it may fail."""

from __future__ import annotations

import asyncio
import datetime as dt
import email.utils
import json
import logging
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai_server import Answer, Body, OpenAIServer, completion, failure

from hermes_lab.errors import ConfigError, HermesLabError
from hermes_lab.kinds import ErrorKind
from hermes_lab.models import hermes
from hermes_lab.models.base import Finish, Frame, Model, Reply, Request, Role, Signature, Turn
from hermes_lab.models.openai import OpenAIModel
from hermes_lab.models.openai_failure import backoff_s, from_status, wait_s
from hermes_lab.models.openai_formats import Formats
from hermes_lab.models.openai_options import find_key, read_address
from hermes_lab.models.openai_payload import Format
from hermes_lab.models.openai_reply import read_reply
from hermes_lab.models.registry import open_model

SCHEMA = {
    "type": "object",
    "properties": {"name": {"const": "add"}, "arguments": {"type": "object"}},
    "required": ["name", "arguments"],
}
CALL = '{"name":"add","arguments":{"a":1}}'
FRAME = Frame("<tool_call>\n", "\n</tool_call>")
ADD = Signature("add", "Add numbers. 求和", {"type": "object", "properties": {"a": {"type": "integer"}}})
FAST: dict[str, Any] = {"backoff_s": 0.01}

Opener = Callable[..., OpenAIModel]


@pytest.fixture
def opened() -> Iterator[Opener]:
    """Open models, and close them after the test."""
    models: list[OpenAIModel] = []

    def open_(base: str, /, **options: Any) -> OpenAIModel:
        models.append(OpenAIModel(f"openai:{base}#hermes", {**FAST, **options}))
        return models[-1]

    yield open_
    for model in models:
        model.close()


def ask(text: str = "你好, what is 1 + 2? 🙂", **fields: Any) -> Request:
    return Request(messages=(Turn(Role.USER, text),), **fields)


def bound(**fields: Any) -> Request:
    return ask(schema=SCHEMA, frame=FRAME, tools=(ADD,), **fields)


def only(model: OpenAIModel, request: Request | None = None, seconds: float = 20.0) -> Reply:
    [reply] = model.generate([request or ask()], seconds=[seconds])
    return reply


def test_a_sound_reply(opened: Opener) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    with OpenAIServer([completion("三 is 3 🙂", usage=usage)]) as server:
        model = opened(server.base)
        reply = only(model, ask(temperature=0.5, top_p=0.9, seed=7, max_tokens=33, stop=("\n\n",)))
        assert (reply.text, reply.finish, reply.error_kind, reply.model) == (
            "三 is 3 🙂",
            Finish.STOP,
            None,
            model.name,
        )
        assert (reply.input_tokens, reply.cached_tokens, reply.output_tokens) == (6, 4, 2)
        assert reply.latency_ms is not None
        assert reply.latency_ms > 0
        assert reply.attempts == ()
    [body] = server.asked
    assert body == {
        "model": "hermes",
        "messages": [{"role": "user", "content": "你好, what is 1 + 2? 🙂"}],
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 7,
        "max_tokens": 33,
        "stop": ["\n\n"],
    }


def test_tools_and_results_are_sent_as_hermes_text(opened: Opener) -> None:
    call = hermes.render_call("add", {"a": 1})
    turns = (
        Turn(Role.SYSTEM, "你是助手。"),
        Turn(Role.USER, "1?"),
        Turn(Role.ASSISTANT, call),
        Turn(Role.TOOL, '{"sum": 1}', name="add"),
        Turn(Role.TOOL, "没有", name="find"),
        Turn(Role.USER, "So?"),
    )
    with OpenAIServer([completion("1")]) as server:
        only(opened(server.base), Request(messages=turns, tools=(ADD,)))
    sent = server.asked[0]["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "user"]
    assert sent[0]["content"].startswith("你是助手。\n")
    assert '"name":"add"' in sent[0]["content"]
    assert hermes.parse(sent[2]["content"]).calls[0].arguments == {"a": 1}
    assert [(r.name, r.content) for r in hermes.parse_responses(sent[3]["content"])] == [
        ("add", {"sum": 1}),
        ("find", "没有"),
    ]
    assert sent[3]["content"].endswith("\n\nSo?")


def test_a_schema_is_bound_by_the_server_and_framed_by_us(opened: Opener) -> None:
    with OpenAIServer([completion(CALL)]) as server:
        reply = only(opened(server.base, strict=True), bound())
    assert reply.text == f"<tool_call>\n{CALL}\n</tool_call>"
    assert hermes.parse(reply.text).calls[0].repaired is False
    assert server.asked[0]["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True},
    }


def refusing(*taken: str) -> Callable[[Body], Any]:
    """A server that refuses every response_format but the named ones, and then binds to the schema."""

    def respond(body: Body) -> Any:
        form = body.get("response_format", {}).get("type", "none")
        if form in taken:
            return completion(CALL)
        return failure(400, f"response_format of type '{form}' is not supported", code="unsupported")

    return respond


@pytest.mark.parametrize(
    ("taken", "refusals"),
    [("json_schema", []), ("json_object", ["json_schema"]), ("none", ["json_schema", "json_object"])],
)
def test_a_refused_response_format_falls_back_and_is_remembered(
    opened: Opener, taken: str, refusals: list[str]
) -> None:
    with OpenAIServer(refusing(taken)) as server:
        model = opened(server.base, max_retries=0)
        first, second = only(model, bound()), only(model, bound(max_tokens=99))
    assert first.text == second.text == f"<tool_call>\n{CALL}\n</tool_call>"
    assert len(first.attempts) == len(refusals)
    assert all("not supported" in attempt.error and "HTTP 400" in attempt.error for attempt in first.attempts)
    assert second.attempts == ()
    forms = [body.get("response_format", {}).get("type", "none") for body in server.asked]
    assert forms == [*refusals, taken, taken]
    shows_schema = [("<schema>" in body["messages"][0]["content"]) for body in server.asked]
    assert shows_schema == [form != "json_schema" for form in forms]


def test_a_server_that_ignores_the_schema_is_told_it_in_the_prompt(opened: Opener) -> None:
    def respond(body: Body) -> Any:
        return completion(CALL if "<schema>" in body["messages"][0]["content"] else "Sure! Let me add these.")

    with OpenAIServer(respond) as server:
        model = opened(server.base)
        replies = [only(model, bound()), only(model, bound())]
    assert [len(reply.attempts) for reply in replies] == [1, 0]
    assert replies[0].attempts[0].error_kind is ErrorKind.UNREADABLE_CALL
    assert "did not bind" in replies[0].attempts[0].error
    assert replies[1].text == f"<tool_call>\n{CALL}\n</tool_call>"


def test_a_server_that_binds_is_not_blamed_for_one_bad_reply(opened: Opener) -> None:
    with OpenAIServer([completion(CALL), completion("不知道")]) as server:
        model = opened(server.base)
        replies = [only(model, bound()), only(model, bound())]
    assert [reply.text for reply in replies] == [f"<tool_call>\n{text}\n</tool_call>" for text in (CALL, "不知道")]
    assert replies[1].finish is Finish.STOP


def test_a_schema_that_alone_is_refused_does_not_cost_the_others(opened: Opener) -> None:
    odd = {"type": "object", "patternProperties": {"^x": {}}}

    def respond(body: Body) -> Any:
        sent = body.get("response_format", {})
        if sent.get("json_schema", {}).get("schema") == odd:
            return failure(400, "Invalid schema for response_format: patternProperties")
        return completion(CALL)

    with OpenAIServer(respond) as server:
        model = opened(server.base)
        for schema in (SCHEMA, odd, odd, SCHEMA):
            assert only(model, ask(schema=schema)).finish is Finish.STOP
    forms = [body["response_format"]["type"] for body in server.asked]
    assert forms == ["json_schema", "json_schema", "json_object", "json_object", "json_schema"]


@pytest.mark.parametrize(
    "written", [f"```json\n{CALL}\n```", f" <tool_call>\n{CALL}\n</tool_call>\n", f"<think>嗯</think>\n{CALL}"]
)
def test_what_an_unbound_model_writes_around_its_json_is_taken_off(opened: Opener, written: str) -> None:
    with OpenAIServer([completion(written)]) as server:
        reply = only(opened(server.base, response_format="prompt"), bound())
    assert "response_format" not in server.asked[0]
    assert reply.text == f"<tool_call>\n{CALL}\n</tool_call>"


def test_a_fixed_response_format_is_kept_to(opened: Opener) -> None:
    with OpenAIServer(refusing("none")) as server:
        reply = only(opened(server.base, response_format="json_schema"), bound())
    assert (reply.finish, reply.error_kind) == (Finish.ERROR, ErrorKind.OTHER)
    assert "response_format" in reply.error
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, "rate_limited"), (500, "server_error"), (502, "server_error"), (503, "server_error"), (504, "server_error")],
)
def test_passing_failures_are_tried_again(opened: Opener, status: int, kind: str) -> None:
    with OpenAIServer([failure(status, "太忙"), failure(status, "太忙"), completion("好")]) as server:
        reply = only(opened(server.base))
    assert (reply.text, reply.finish, reply.error_kind) == ("好", Finish.STOP, None)
    assert [(attempt.error_kind, attempt.error) for attempt in reply.attempts] == [(kind, f"HTTP {status}: 太忙")] * 2
    assert all(attempt.latency_ms > 0 for attempt in reply.attempts)


def test_no_more_retries_than_allowed(opened: Opener) -> None:
    with OpenAIServer(lambda _body: failure(500, "broken")) as server:
        reply = only(opened(server.base, max_retries=2))
    assert (reply.finish, reply.error_kind, reply.text) == (Finish.ERROR, ErrorKind.SERVER_ERROR, "")
    assert len(server.asked) == 3
    assert len(reply.attempts) == 2


@pytest.mark.parametrize("as_date", [False, True])
def test_retry_after_is_honoured(opened: Opener, as_date: bool) -> None:
    later = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=2)
    header = email.utils.format_datetime(later, usegmt=True) if as_date else "1"
    with OpenAIServer([failure(429, "slow down", {"retry-after": header}), completion("ok")]) as server:
        began = time.monotonic()
        reply = only(opened(server.base))
    assert reply.text == "ok"
    assert time.monotonic() - began >= 0.95
    assert reply.latency_ms is not None
    assert reply.latency_ms >= 950


def test_a_wait_beyond_the_time_left_is_not_begun(opened: Opener) -> None:
    with OpenAIServer([failure(429, "slow down", {"retry-after": "60"})]) as server:
        began = time.monotonic()
        reply = only(opened(server.base), seconds=2)
    assert time.monotonic() - began < 1.5
    assert (reply.finish, reply.error_kind) == (Finish.ERROR, ErrorKind.RATE_LIMITED)
    assert "no time left" in reply.error


BROKEN: list[Any] = [
    Answer(b'{"choices": [{"message": {"cont'),
    Answer(b""),
    Answer(b"<html>502</html>"),
    Answer(b"[1, 2]"),
    Answer({"choices": []}),
    Answer({"choices": [None]}),
    Answer({"object": "chat.completion"}),
    Answer({"choices": [{"message": {"content": {"text": 1}}}]}),
    Answer({"choices": {"0": {}}}),
    Answer({"error": {"message": "upstream failed", "code": 502}}),
    Answer(completion("partly", finish="abort")),
    Answer(completion("half"), break_after=20),
    Answer(completion("nothing"), break_after=0),
    Answer(b"not gzip at all", headers={"content-encoding": "gzip"}),
    Answer(b"[" * 200_000),
]


@pytest.mark.parametrize("broken", BROKEN, ids=range(len(BROKEN)))
def test_broken_bodies_are_tried_again(opened: Opener, broken: Answer) -> None:
    with OpenAIServer([broken, completion("好了")]) as server:
        reply = only(opened(server.base))
    assert reply.text == "好了"
    [attempt] = reply.attempts
    assert attempt.error_kind in {ErrorKind.SERVER_ERROR, ErrorKind.CONNECTION}
    assert attempt.error


def test_a_compressed_body_is_read(opened: Opener) -> None:
    raw = zlib.compress(json.dumps(completion("压缩")).encode())
    with OpenAIServer([Answer(raw, headers={"content-encoding": "deflate"})]) as server:
        assert only(opened(server.base)).text == "压缩"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (failure(400, "maximum context length is 10", code="context_length_exceeded"), "context_length"),
        (failure(500, "the request exceeds the available context size"), "context_length"),
        (Answer({"detail": "Input is too long"}, 413), "context_length"),
        (failure(400, "filtered", code="content_filter"), "content_filter"),
        (failure(401, "no such key"), "no_permission"),
        (Answer({"detail": [{"msg": "禁止"}]}, 403), "no_permission"),
        (failure(404, "no model 'hermes'"), "not_found"),
        (failure(400, "messages: bad"), "other"),
        (failure(429, "pay first", code="insufficient_quota"), "rate_limited"),
        (Answer(b"\xff\xfe\x00", 400), "other"),
        (Answer({"error": "text alone"}, 501), "server_error"),
        (Answer(b"", 302, {"location": "http://127.0.0.1:9/"}), "other"),
    ],
)
def test_lasting_failures_are_replies_and_not_tried_again(opened: Opener, answer: Answer, kind: str) -> None:
    with OpenAIServer(lambda _body: answer) as server:
        reply = only(opened(server.base))
    assert (reply.finish, reply.error_kind, reply.attempts, reply.text) == (Finish.ERROR, kind, (), "")
    assert f"HTTP {answer.status}" in reply.error
    assert len(server.asked) == 1


def test_what_goes_wrong_with_one_request_touches_no_other(opened: Opener) -> None:
    def respond(body: Body) -> Any:
        text = body["messages"][0]["content"]
        return failure(400, "prompt is too long") if text == "long" else completion(text)

    with OpenAIServer(respond) as server:
        replies = opened(server.base).generate([ask("a"), ask("long"), ask("丙")])
    assert [reply.text for reply in replies] == ["a", "", "丙"]
    assert replies[1].error_kind is ErrorKind.CONTEXT_LENGTH


def test_order_is_kept_and_the_concurrency_is_bounded(opened: Opener) -> None:
    def respond(body: Body) -> Any:
        number = int(body["messages"][0]["content"])
        return Answer(completion(str(number)), wait_s=0.05 + (7 * number % 5) * 0.02)

    with OpenAIServer(respond) as server:
        replies = opened(server.base, concurrency=4).generate([ask(str(number)) for number in range(20)])
    assert [reply.text for reply in replies] == [str(number) for number in range(20)]
    assert server.most_at_once == 4


def test_several_threads_may_ask(opened: Opener) -> None:
    with OpenAIServer(lambda body: completion(body["messages"][0]["content"])) as server:
        model = opened(server.base)
        got: dict[str, list[str]] = {}

        def work(name: str) -> None:
            got[name] = [r.text for r in model.generate([ask(f"{name}{n}") for n in range(5)])]

        threads = [threading.Thread(target=work, args=(name,)) for name in "甲乙丙"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert got == {name: [f"{name}{n}" for n in range(5)] for name in "甲乙丙"}


@pytest.mark.parametrize(
    "answer",
    [
        Answer(completion("late"), wait_s=5),
        Answer(completion("drop by drop"), drip_s=0.05),
        failure(503, "no", {"retry-after": "0"}),
    ],
    ids=["silent", "dripping", "failing for ever"],
)
def test_seconds_are_a_hard_limit_over_all_tries(opened: Opener, answer: Answer) -> None:
    with OpenAIServer(lambda _body: answer) as server:
        began = time.monotonic()
        reply = only(opened(server.base, max_retries=20, backoff_s=0.2), seconds=0.6)
        took = time.monotonic() - began
    assert took < 1.5
    assert reply.error_kind in {ErrorKind.TIMEOUT, ErrorKind.SERVER_ERROR}
    if answer.status == 200:
        assert (reply.finish, reply.error_kind) == (Finish.TIMEOUT, ErrorKind.TIMEOUT)
        assert "0.6 s" in reply.error


def test_a_silent_try_is_made_again(opened: Opener) -> None:
    with OpenAIServer([Answer(completion("late"), wait_s=3), completion("quick")]) as server:
        reply = only(opened(server.base, try_seconds=0.3))
    assert reply.text == "quick"
    assert [attempt.error_kind for attempt in reply.attempts] == [ErrorKind.TIMEOUT]


def test_nobody_listens(opened: Opener) -> None:
    with OpenAIServer([]) as server:
        base = server.base
    reply = only(opened(base, max_retries=1))
    assert (reply.finish, reply.error_kind, len(reply.attempts)) == (Finish.ERROR, ErrorKind.CONNECTION, 1)
    assert base in reply.error


def test_finish_reasons(opened: Opener) -> None:
    answers = [
        completion("cut", finish="length"),
        completion('{"name": "a', finish="length"),
        completion("", finish="content_filter"),
        completion(None, refusal="I cannot."),
        completion("fine", finish=None),
        completion(None),
        completion("one END two"),
    ]
    with OpenAIServer(answers) as server:
        model = opened(server.base)
        requests = [ask(), bound(), ask(), ask(), ask(), ask(), ask(stop=("END",))]
        replies = [only(model, request) for request in requests]
    assert [(reply.finish, reply.error_kind) for reply in replies] == [
        (Finish.LENGTH, None),
        (Finish.LENGTH, ErrorKind.CUT_OFF),
        (Finish.ERROR, ErrorKind.CONTENT_FILTER),
        (Finish.ERROR, ErrorKind.CONTENT_FILTER),
        (Finish.STOP, None),
        (Finish.STOP, None),
        (Finish.STOP, None),
    ]
    assert replies[3].error == "I cannot."
    assert replies[6].text == "one "
    # The frame stays open: a closing tag would make a call of what is half a call.
    assert replies[1].text == '<tool_call>\n{"name": "a'
    assert hermes.parse(replies[1].text).calls == ()


def test_reasoning_is_kept_apart(opened: Opener) -> None:
    answers = [
        completion("4", reasoning_content="两加二"),
        completion("4", reasoning="two and two"),
        completion("<think>\n嗯\n</think>\n\n4"),
        completion("<think>on and on", finish="length"),
        completion("say <think>no</think>"),
    ]
    with OpenAIServer(answers) as server:
        model = opened(server.base)
        replies = [only(model) for _ in answers]
    assert [(reply.reasoning, reply.text) for reply in replies] == [
        ("两加二", "4"),
        ("two and two", "4"),
        ("嗯", "4"),
        ("on and on", ""),
        ("", "say <think>no</think>"),
    ]


def test_calls_that_the_server_parsed_become_hermes_text_again(opened: Opener) -> None:
    calls = [
        {"id": "1", "type": "function", "function": {"name": "查", "arguments": '{"城市": "北京"}'}},
        {"id": "2", "type": "function", "function": {"name": "now", "arguments": ""}},
        {"id": "3", "type": "function", "function": {"name": "bad", "arguments": '{"a": '}},
    ]
    with OpenAIServer([completion("Let me look.", finish="tool_calls", tool_calls=calls)]) as server:
        reply = only(opened(server.base))
    found = hermes.parse(reply.text)
    assert found.text == "Let me look."
    assert found.calls[0] == hermes.Call("查", {"城市": "北京"}, False, found.calls[0].raw)
    assert len(found.errors) + len(found.calls) == 3
    assert all(call.name in {"查", "now"} for call in found.calls)


def test_missing_usage_is_unknown(opened: Opener) -> None:
    for usage in ({"prompt_tokens": -1, "completion_tokens": True}, "none", {"prompt_tokens": "9"}):
        with OpenAIServer([completion("x", usage=usage)]) as server:
            reply = only(opened(server.base))
        assert (reply.input_tokens, reply.cached_tokens, reply.output_tokens) == (None, None, None)


KEY = "sk-test-0123456789abcdefghijkl"


def test_the_key_goes_to_the_server_and_nowhere_else(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MY_KEY", f" {KEY}\n")
    caplog.set_level(logging.DEBUG)
    long = "x" * 390 + KEY
    answers = [
        failure(500, f"Incorrect API key: {KEY}"),
        failure(500, long),
        Answer(f"plain {KEY}".encode(), 502),
        Answer(f'{{"error": "{KEY}"}}'.encode()),
        completion(f"your key is {KEY}"),
        failure(401, f"wrong key {KEY}"),
    ]
    with OpenAIServer(answers) as server:
        model = opened(server.base, key_env="MY_KEY")
        replies = [only(model), only(model)]
    shown = json.dumps([repr(reply) for reply in replies]) + repr(model) + model.fingerprint + caplog.text
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert KEY[:12] not in shown
    assert "MY_KEY" in replies[1].error
    with OpenAIServer([Answer(b"", 302, {"location": f"http://127.0.0.1/?k={KEY}"})]) as server:
        reply = only(opened(server.base, key_env="MY_KEY"))
    assert "[key]" in reply.error
    assert KEY not in reply.error


def test_keys_and_where_they_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("GONE", raising=False)

    def key(base: str, key_env: str | None = None) -> str | None:
        name = f"openai:{base}#m"
        return find_key(name, read_address(name), key_env)

    assert key("https://api.example.com/v1") == KEY
    assert key("http://127.0.0.1:1/v1") is None
    assert key("http://gpu.example:8000/v1") is None  # in the clear, to who knows whom
    assert key("http://gpu.example:8000/v1", "OPENAI_API_KEY") == KEY
    with pytest.raises(ConfigError, match="GONE, and it is not set"):
        key("http://127.0.0.1/v1", "GONE")
    monkeypatch.setenv("ODD", "密钥 secret")
    with pytest.raises(ConfigError, match="ODD") as caught:
        key("http://127.0.0.1/v1", "ODD")
    assert "secret" not in str(caught.value)


def test_without_a_key_the_message_says_what_to_do(opened: Opener) -> None:
    with OpenAIServer(lambda _body: failure(401, "who are you?")) as server:
        reply = only(opened(server.base))
    assert "key_env" in reply.error


@pytest.mark.parametrize(
    "name",
    [
        "openai:",
        "openai:http://localhost/v1",
        "openai:http://localhost/v1#",
        "openai:localhost:8000#m",
        "openai:ftp://x/v1#m",
        "openai:http://u:geheim@x/v1#m",
        "openai:http://x/v1?key=geheim#m",
        "openai:http://x:99999/v1#m",
        "openai:http://[::1/v1#m",
        "openai:http://例子/v1#m",
    ],
)
def test_wrong_addresses(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        OpenAIModel(name)
    assert "geheim" not in str(caught.value)


def test_wrong_options() -> None:
    for options in ({"concurency": 3}, {"concurrency": 0}, {"seconds": "long"}, {"response_format": "xml"}):
        with pytest.raises(ConfigError, match="concurrency") as caught:
            OpenAIModel("openai:http://localhost/v1#m", options)
        assert next(iter(options)) in str(caught.value)


def test_options_change_what_is_sent(opened: Opener) -> None:
    with OpenAIServer([completion("x")]) as server:
        model = opened(server.base, length_field="max_completion_tokens", omit=["temperature", "seed"])
        only(model, ask(temperature=1.0, max_tokens=5))
    assert server.asked[0].keys() == {"model", "messages", "max_completion_tokens"}
    assert model.fingerprint != opened(server.base).fingerprint
    assert opened(server.base, concurrency=2).fingerprint == opened(server.base).fingerprint


def test_a_closed_model_says_so(opened: Opener) -> None:
    with OpenAIServer([Answer(completion("late"), wait_s=2)]) as server:
        model = opened(server.base)
        caught: list[BaseException] = []

        def work() -> None:
            try:
                model.generate([ask()])
            except HermesLabError as error:
                caught.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        while not server.asked:
            time.sleep(0.01)
        model.close()
        thread.join(timeout=5)
    assert "closed" in str(caught[0])
    with pytest.raises(HermesLabError, match="closed"):
        model.generate([ask()])
    model.close()


def test_lone_surrogates_and_odd_text_are_sent(opened: Opener) -> None:
    text = "a\ud800b\x00 <|im_end|> 😀"
    with OpenAIServer([completion("ok \ud83d")]) as server:
        reply = only(opened(server.base), ask(text))
    assert server.asked[0]["messages"][0]["content"] == "a\ufffdb\x00 <|im_end|> 😀"
    assert reply.text == "ok \ufffd"


def test_a_request_that_is_no_json_is_an_error_of_its_own(opened: Opener) -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"not": deep}
    with OpenAIServer([completion("fine")]) as server:
        replies = opened(server.base).generate([ask(schema=deep), ask()])
    assert [reply.error_kind for reply in replies] == [ErrorKind.OTHER, None]
    formats = Formats("auto")
    formats.worked(Format.JSON_SCHEMA)
    assert formats.refused(Format.JSON_SCHEMA, SCHEMA)
    assert formats.choose(SCHEMA) is Format.JSON_OBJECT
    assert formats.choose(deep) is Format.JSON_SCHEMA


def test_no_time_left_is_a_timeout_at_once(opened: Opener) -> None:
    with OpenAIServer(lambda _body: completion("x")) as server:
        replies = opened(server.base).generate([ask(), ask(), ask()], seconds=[0.0, -1.0, 20.0])
    assert [reply.finish for reply in replies] == [Finish.TIMEOUT, Finish.TIMEOUT, Finish.STOP]


def test_it_runs_where_an_event_loop_runs_already(opened: Opener) -> None:
    """As in a notebook."""

    async def cell(model: OpenAIModel) -> Reply:
        return only(model)

    with OpenAIServer([completion("好")]) as server:
        assert asyncio.run(cell(opened(server.base))).text == "好"


def test_ctrl_c_ends_the_wait_and_what_is_under_way() -> None:
    code = (
        "import sys; from hermes_lab.models.openai import *; from hermes_lab.models.base import *\n"
        "model = OpenAIModel(sys.argv[1])\n"
        "try: model.generate([Request(messages=(Turn(Role.USER, 'hi'),))])\n"
        "except KeyboardInterrupt: model.close(); print('interrupted')"
    )
    with OpenAIServer([Answer(completion("late"), wait_s=8)]) as server:
        command = [sys.executable, "-c", code, f"openai:{server.base}#m"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not server.asked:
            time.sleep(0.02)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        said, complaint = process.communicate(timeout=30)
        assert time.monotonic() - began < 5
    assert (said, complaint, process.returncode) == ("interrupted\n", "", 0)


@given(st.text(max_size=60), st.text(max_size=60))
def test_most_tokens_is_never_below_the_bytes_sent(system: str, user: str) -> None:
    model = OpenAIModel("openai:http://localhost/v1#m")
    turns = (Turn(Role.SYSTEM, system), Turn(Role.USER, user))
    request = Request(messages=turns, tools=(ADD,), schema=SCHEMA)
    lower = sum(len(text.encode("utf-8", "replace")) for text in (system, user)) + len(json.dumps(SCHEMA))
    assert model.most_tokens(request) > lower
    assert model.most_tokens(Request(messages=turns)) < model.most_tokens(request)


def test_backoff_is_drawn_from_the_seed_alone() -> None:
    waits = [backoff_s(0.5, retries, f"7 0 {retries}") for retries in range(12)]
    assert waits == [backoff_s(0.5, retries, f"7 0 {retries}") for retries in range(12)]
    assert all(min(60, 0.5 * 2**n) / 2 <= wait <= min(60, 0.5 * 2**n) for n, wait in enumerate(waits))
    assert backoff_s(0.5, 1, "8 0 1") != waits[1]


NOW = dt.datetime(2026, 3, 16, 12, tzinfo=dt.UTC)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ["choices", "message", "content", "finish_reason", "tool_calls", "function", "arguments", "usage", "error"]
SHAPED = st.recursive(
    st.sampled_from([None, 1, "length", "<think>", "</tool_call>", "{", "stop", ""]) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=12,
)
COMPLETIONS = st.builds(
    lambda content, calls, finish, usage: completion(content, finish, usage, tool_calls=calls),
    SHAPED, SHAPED | st.lists(st.fixed_dictionaries({"function": SHAPED}), max_size=2), SHAPED, SHAPED,
)  # fmt: skip
BODIES = st.binary(max_size=40) | (JSON | SHAPED | COMPLETIONS).map(lambda value: json.dumps(value).encode())


@settings(max_examples=400, deadline=None)
@given(BODIES, st.integers(100, 599), st.none() | st.text(max_size=30))
def test_no_answer_makes_reading_raise(body: bytes, status: int, retry_after: str | None) -> None:
    for request in (ask(stop=("x",)), bound()):
        read = read_reply(body, request, "m")
        if isinstance(read, Reply):
            json.dumps(read.text).encode()
            read.text.encode()
            assert (read.error_kind is None) == (read.error == "")
        else:
            assert read.message.isprintable()
    failed = from_status(status, body, retry_after, NOW)
    assert len(failed.message) < 450
    assert failed.wait_s is None or failed.wait_s >= 0


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=BODIES, status=st.sampled_from([200, 200, 200, 400, 404, 429, 500]), schema=st.booleans())
def test_no_answer_makes_generate_raise(
    echo: tuple[OpenAIModel, list[Answer]], body: bytes, status: int, schema: bool
) -> None:
    model, answer = echo
    answer[:] = [Answer(body, status)]
    [reply] = model.generate([bound() if schema else ask()], seconds=[20.0])
    assert reply.model == model.name
    assert (reply.finish in {Finish.ERROR, Finish.TIMEOUT}) <= (reply.error_kind is not None)


@pytest.fixture(scope="module")
def echo() -> Iterator[tuple[OpenAIModel, list[Answer]]]:
    """A model, and a list whose one item is what its server answers."""
    answer: list[Answer] = []
    with (
        OpenAIServer(lambda _body: answer[0]) as server,
        OpenAIModel(f"openai:{server.base}#m", {"max_retries": 1, "backoff_s": 0.0}) as model,
    ):
        yield model, answer


@given(st.text(max_size=40))
def test_no_header_makes_retry_after_raise(header: str) -> None:
    wait = wait_s(header, NOW)
    assert wait is None or wait >= 0


def test_the_schemas_of_these_tests_are_sound() -> None:
    jsonschema.validate(json.loads(CALL), SCHEMA)


@pytest.fixture(scope="module")
def embedded() -> Iterator[Model]:
    """The embedded model itself."""
    model = open_model("embedded")
    yield model
    model.close()


def served_by(model: Model) -> Callable[[Body], Any]:
    """A server that answers with a real model, bound to the schema where it is asked to be."""
    asking = threading.Lock()

    def respond(body: Body) -> Any:
        turns = tuple(Turn(Role(message["role"]), message["content"]) for message in body["messages"])
        form = body.get("response_format", {})
        schema = form.get("json_schema", {}).get("schema")
        with asking:
            [reply] = model.generate([Request(messages=turns, schema=schema, max_tokens=body["max_tokens"])])
        if reply.error_kind not in (None, ErrorKind.CUT_OFF):
            return failure(400, reply.error)
        usage = {"prompt_tokens": reply.input_tokens, "completion_tokens": reply.output_tokens}
        return completion(reply.text, finish="length" if reply.finish is Finish.LENGTH else "stop", usage=usage)

    return respond


def test_the_embedded_model_behind_a_server(opened: Opener, embedded: Model) -> None:
    weather = Signature(
        "get_weather",
        "Tell the weather of a city.",
        {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"]},
    )
    arguments = {**weather.parameters, "additionalProperties": False}
    schema = {
        "type": "object",
        "properties": {"name": {"const": "get_weather"}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }
    cities = ["Paris", "Rome", "Oslo"]
    requests = [
        ask(f"What is the weather in {city}?", tools=(weather,), schema=schema, frame=FRAME, max_tokens=60)
        for city in cities
    ]
    with OpenAIServer(served_by(embedded)) as server:
        model = opened(server.base)
        replies = model.generate([*requests, ask("Say hello.", max_tokens=3)])
    calls = [hermes.parse(reply.text).calls[0] for reply in replies[:3]]
    assert [(call.name, call.arguments["city"], call.repaired) for call in calls] == [
        ("get_weather", city, False) for city in cities
    ]
    assert all(reply.attempts == () and reply.error_kind is None for reply in replies)
    assert replies[3].finish is Finish.LENGTH
    assert replies[3].output_tokens == 3
    for request, reply in zip(requests, replies[:3], strict=True):
        assert reply.input_tokens is not None
        assert reply.input_tokens < model.most_tokens(request)
