"""Questions written from parts are what they would be if written whole, and no secret is in their key."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermes_lab import payload
from hermes_lab.effects import Ask, Remaining, effect_hash
from hermes_lab.errors import EventError
from hermes_lab.kinds import Tier
from hermes_lab.log.redact import Redactor
from hermes_lab.log.redact_names import name_kind
from hermes_lab.models.base import Frame, Reply, Request, Role, Signature, Turn
from hermes_lab.questions import Question, QuestionWriter, ask_content
from hermes_lab.searched import Searched

KEY = "sk-" + "a1B2c3D4" * 5
REDACTOR = Redactor({"SHOP_API_KEY": "shop-q8W7e6R5t4", "ADMIN_PASSWORD": "开门-x9Y8z7"})

texts = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            KEY,
            "用 shop-q8W7e6R5t4 登录",
            "开门-x9Y8z7",
            '{"password": "hunter2hunter2"}',
            "password:",
            "--password",
            "hunter2hunter2",
            "Authorization: Bearer",
            "opaque.a1B2c3D4e5F6",
            "$5 is the price",
            "{",
            "\ud800",
            "\U0010ffff",
            "\u2028 \x00 \x1b[31m",
            '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>',
        ]
    ),
)
values = st.recursive(
    st.one_of(texts, st.integers(-(2**63), 2**63), st.sampled_from([0.5, -2.25, 1e3, True]), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(texts, st.sampled_from(["$float", "api_key", "description"])), inner, max_size=3),
    ),
    max_leaves=8,
)
schemas = st.dictionaries(texts, values, max_size=3)
requests = st.builds(
    Request,
    messages=st.lists(st.builds(Turn, st.sampled_from(Role), texts, st.one_of(st.none(), texts)), max_size=4).map(
        tuple
    ),
    tools=st.lists(st.builds(Signature, texts, texts, schemas), max_size=2).map(tuple),
    schema=st.one_of(st.none(), schemas),
    frame=st.one_of(st.just(Frame()), st.builds(Frame, texts, texts)),
    max_tokens=st.integers(1, 1000),
    temperature=st.sampled_from([0.0, 0.7, float("nan")]),
    seed=st.integers(-5, 2**40),
    stop=st.lists(texts, max_size=2).map(tuple),
)


def ask_of(request: Request, purpose: str = "plan") -> Ask:
    return Ask(purpose=purpose, tier=Tier.LIGHT, request=request, remaining=Remaining(1, 1.0))


def writer(redactor: Redactor = REDACTOR) -> QuestionWriter:
    return QuestionWriter(redactor)


def written_whole(ask: Ask, redactor: Redactor = REDACTOR) -> tuple[str, str]:
    """Return the text and the key by their definition, with no short cut."""
    content = ask_content(ask)
    return payload.dumps(content), effect_hash("ask", redactor.value(content))


def outcome(make: Any) -> Any:
    try:
        return make()
    except (EventError, OverflowError, ValueError, TypeError, msgspec.MsgspecError) as error:
        return type(error)


@given(requests, st.sampled_from(["plan", "reflect"]))
@example(Request(messages=(), stop=("--password", "hunter2hunter2")), "plan")
@example(Request(messages=(Turn(Role.TOOL, "[1]", name=KEY),)), "plan")
@example(Request(messages=(), frame=Frame(KEY, "")), "plan")
@example(Request(messages=(), tools=(Signature("t", "d", {"api_key": "hunter2hunter2"}),), schema={}), "plan")
@example(Request(messages=(), schema={"token": KEY}), "reflect")
def test_a_question_is_what_it_would_be_if_written_whole(request_: Request, purpose: str) -> None:
    ask, questions = ask_of(request_, purpose), writer()
    expected = outcome(lambda: written_whole(ask))
    for _ in range(2):  # the second time from what was remembered
        found = outcome(lambda: questions.write(ask))
        if not isinstance(found, Question):
            assert found is expected
            continue
        assert found == expected


def test_the_usual_question_is_written_from_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = (Signature("add", "Add two numbers. 相加。", {"type": "object"}),)
    turns = (Turn(Role.SYSTEM, "你好"), Turn(Role.USER, "$5 + 1?"), Turn(Role.TOOL, '{"sum":6}', name="add"))
    questions = writer()
    for schema in ({"type": "object"}, None):
        ask = ask_of(Request(messages=turns, tools=tools, schema=schema, frame=Frame("<a>", "</a>")))
        expected = written_whole(ask)
        with monkeypatch.context() as patched:
            patched.delattr("hermes_lab.questions.ask_content")  # by which it would be written whole
            assert questions.write(ask) == expected


def test_a_longer_prompt_with_a_secret_is_found_out_after_clean_ones() -> None:
    questions = writer()
    turns = [Turn(Role.USER, "hello")]
    questions.write(ask_of(Request(messages=tuple(turns))))
    turns.append(Turn(Role.TOOL, f"the key is {KEY}", name="vault"))
    ask = ask_of(Request(messages=tuple(turns)))
    found = questions.write(ask)
    assert found.key == written_whole(ask)[1] != effect_hash("ask", ask_content(ask))


def test_tools_that_are_others_at_the_same_place_in_memory_are_not_mixed_up() -> None:
    questions = writer()
    for number in range(600):  # more than are remembered
        tools = (Signature(f"t{number}", "d", {"type": "object", "n": number}),)
        ask = ask_of(Request(messages=(), tools=tools))
        assert questions.write(ask) == written_whole(ask)
        del tools, ask


def test_no_field_of_a_question_or_reply_has_a_name_that_secrets_stand_under() -> None:
    fields = {
        field.encode_name
        for struct in (Request, Turn, Frame, Reply)
        for field in msgspec.structs.fields(struct)
        if field.name not in ("tools", "schema")  # these are searched with their keys
    }
    assert {name for name in fields | {"purpose", "tier", "bound", "tool", "arguments"} if name_kind(name)} == set()


@given(st.lists(texts, max_size=6), st.lists(texts, max_size=6))
def test_what_is_said_to_be_clean_is_not_changed_by_the_redactor(first: list[str], second: list[str]) -> None:
    searched = Searched(REDACTOR)
    searched.look_over(first)
    for several in (first, second):
        if searched.look_over(several):
            assert all(REDACTOR.text(text) is text for text in several)
            assert REDACTOR.value({"x": several[-1:], "y": {"z": several[:1]}}) == {
                "x": several[-1:],
                "y": {"z": several[:1]},
            }
    for text in second:
        if searched.look_over((text,)):
            assert REDACTOR.text(text) is text


@pytest.mark.parametrize("odd", ["\ud800", None, ["a list"], 5])
def test_what_cannot_be_searched_is_not_said_to_be_clean(odd: Any) -> None:
    searched = Searched(REDACTOR)
    assert not searched.look_over(["fine", odd])
    assert searched.look_over(["fine"])


def test_memory_of_what_was_searched_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_lab.searched._MOST_CHARS", 100)
    searched = Searched(REDACTOR)
    for number in range(50):
        assert searched.look_over([f"text number {number}"])
    assert not searched.look_over([KEY])
