"""Reflection on conversations: it only proposes, nothing is the usual answer, and what is approved reaches a prompt."""

from __future__ import annotations

import json
from typing import Any

import pytest
from agent_lab import SUITE, final, rows, use_script, write_weather
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab import Lab
from hermes_lab import open as open_lab
from hermes_lab.config import AgentConfig, MicroReflection, changed
from hermes_lab.kinds import Action, Status
from hermes_lab.learning.micro import trigger
from hermes_lab.learning.turns import Call, SessionTurn, turns_of
from hermes_lab.learning.wishes import has_intent, wish_in
from hermes_lab.memory import Kind
from hermes_lab.models.hermes import render_call
from hermes_lab.proposals import open_queue

PERSON = {"by": "王芳", "reason": "she asked for it"}
OFTEN = changed(AgentConfig(), **{"micro_reflection.turns": 1})


@pytest.fixture
def weather(lab: Lab) -> Lab:
    write_weather(lab.path)
    return lab


def scripted(lab: Lab, *replies: str, more: str = "") -> Lab:
    use_script(lab.path, replies, more)
    return open_lab(lab.path)


def converse(lab: Lab, *said: str, config: AgentConfig = OFTEN, dislike: bool = False) -> Any:
    with lab.converse(SUITE, config=config) as talk:
        for text in said:
            talk.ask(text)
        if dislike:
            talk.feedback("dislike")
    return talk


def pending(lab: Lab) -> list[str]:
    return [one.text for one in open_queue(lab).pending()]


# -- wishes, by words ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kept", "kind"),
    [
        ("Please remember that I live in 杭州.", "I live in 杭州.", Kind.FACT),
        ("Hi! From now on, answer in Celsius. Thanks.", "From now on, answer in Celsius.", Kind.PREFERENCE),
        ("I prefer short answers", "I prefer short answers", Kind.PREFERENCE),
        ("Never sound the alarm at night.", "Never sound the alarm at night.", Kind.CONSTRAINT),
        ("请记住：我的城市是杭州。", "我的城市是杭州。", Kind.FACT),
        ("以后请用中文回答。", "以后请用中文回答。", Kind.PREFERENCE),
        ("不要再给我发短信！", "不要再给我发短信！", Kind.CONSTRAINT),
    ],
)
def test_what_is_asked_to_be_kept_is_found(text: str, kept: str, kind: Kind) -> None:
    wish = wish_in(text)
    assert wish is not None
    assert (wish.text, wish.kind) == (kept, kind)


@pytest.mark.parametrize(
    "text",
    [
        "What is the weather in Oslo?",
        "Do you remember my city?",
        "你记得我的城市吗？",
        "你总是这样吗",
        "The weather was always nice, wasn't it?",
        "天气怎么样",
        "",
        "remember",
    ],
)
def test_a_question_or_plain_talk_is_no_wish(text: str) -> None:
    assert wish_in(text) is None


@given(st.text(max_size=400))
def test_any_text_can_be_looked_at(text: str) -> None:
    wish = wish_in(text)
    if wish is not None:
        assert has_intent(text)
        assert wish.text in text


# -- when a turn is worth a look -------------------------------------------------------------------------------------


def turn(said: str = "weather in Oslo?", *calls: Call) -> SessionTurn:
    return SessionTurn("e", "forecast", "c-1", "m", said, "ok", "sunny", None, calls)


def did(tool: str, chars: int = 10) -> Call:
    return Call("id", tool, "ok", "{}", "x", chars)


@pytest.mark.parametrize(
    ("looked_at", "since", "why"),
    [
        (turn("always in Celsius"), 3, "intent words"),
        (turn("always in Celsius"), 2, None),
        (turn(), 9, None),
        (turn("x", did("weather"), did("weather")), 3, "2 tool calls"),
        (turn("x", did("weather")), 3, None),
        (turn("x", did("sound_alarm", 1501)), 3, "a large change"),
        (turn("x", did("sound_alarm", 1500)), 3, None),
        (turn("x", did("weather", 5000)), 3, None),
    ],
)
def test_cheap_rules_say_whether_a_turn_is_looked_at(looked_at: SessionTurn, since: int, why: str | None) -> None:
    assert trigger(looked_at, since, MicroReflection(), {"sound_alarm"}) == why


# -- through a conversation ------------------------------------------------------------------------------------------


def test_what_a_user_asks_to_be_kept_waits_for_approval_and_then_reaches_the_next_prompt(weather: Lab) -> None:
    lab = scripted(weather, final("好"), final("noted"))
    converse(lab, "以后请用中文回答。", "weather in Oslo?")
    (waiting,) = open_queue(lab).pending()
    assert waiting.text == "以后请用中文回答。"
    assert waiting.evidence
    assert [one.state.value for one in open_queue(lab).standing().memories] == ["proposed"]
    open_queue(lab).approve(waiting.id, **PERSON)

    assert "以后请用中文回答。" in json.loads(_prompt(weather))["messages"][1]["content"]


def test_after_a_rollback_nothing_learned_under_that_version_reaches_a_prompt(weather: Lab) -> None:
    lab = scripted(weather, final("好"))
    talk = converse(lab, "以后请用中文回答。")
    (waiting,) = open_queue(lab).pending()
    open_queue(lab).approve(waiting.id, **PERSON)
    (version,) = rows(lab, "select config_version from events where run_id = ? limit 1", talk.conversation_id)[0]
    assert "中文" in _prompt(weather)
    with lab.log.writer() as writer:
        writer.record(Action.ROLLED_BACK, name=version, status=Status.OK)
    assert "中文" not in _prompt(weather)


def _prompt(weather: Lab) -> str:
    """Return the text of the first question of a new conversation."""
    lab = scripted(weather, final("好"))
    talk = converse(lab, "weather in Oslo?")
    query = "select input from events where action = 'generation' and run_id = ?"
    ((text,),) = rows(lab, query, talk.conversation_id)
    return str(text)


def test_what_was_not_approved_reaches_no_prompt(weather: Lab) -> None:
    lab = scripted(weather, final("好"))
    converse(lab, "以后请用中文回答。")
    assert "中文" not in _prompt(weather)


def test_nothing_is_the_usual_answer_and_is_recorded(weather: Lab) -> None:
    lab = scripted(weather, final("sunny"))
    converse(lab, "weather in Oslo?")
    assert pending(lab) == []
    assert rows(lab, "select name, output->>'$.nothing' from events where action = 'reflection'") == [("full", "true")]


def test_a_wish_that_came_too_soon_is_found_at_the_next_look(weather: Lab) -> None:
    lab = scripted(weather, *[final("ok")] * 3)
    config = changed(AgentConfig(), **{"micro_reflection.turns": 3})
    converse(lab, "Remember that I live in Oslo.", "thanks", "always use Celsius please", config=config)
    assert "I live in Oslo." in pending(lab)


def test_one_trajectory_is_never_enough_for_a_skill_and_the_second_like_it_is(lab: Lab) -> None:
    lab = scripted(lab, *_order_replies("SO-1042"))
    _desk(lab, "Cancel order SO-1042")
    assert [one.name for one in open_queue(lab).pending()] == []
    lab = scripted(lab, *_order_replies("SO-1042"))
    _desk(lab, "Cancel order SO-1042 now")
    (waiting,) = open_queue(lab).pending()
    assert waiting.skill is not None
    assert len(set(waiting.evidence)) == 2
    assert "get_order" in waiting.text


def test_a_turn_that_the_user_disliked_is_no_evidence_for_a_skill(lab: Lab) -> None:
    for _ in range(2):
        lab = scripted(lab, *_order_replies("SO-1042"))
        _desk(lab, "Cancel order SO-1042", dislike=True)
    assert open_queue(lab).pending() == ()


def _order_replies(order: str) -> list[str]:
    return [
        render_call("get_order", {"order_id": order}),
        render_call("search_policies", {"query": "cancel an order"}),
        final("done"),
    ]


def _desk(lab: Lab, said: str, dislike: bool = False) -> None:
    with lab.converse("desk", config=OFTEN) as talk:
        talk.ask(said, task_type="orders")
        if dislike:
            talk.feedback("dislike")


def test_a_model_may_draft_and_what_the_events_do_not_support_is_refused(weather: Lab) -> None:
    def drafts(*texts: str) -> str:
        return json.dumps({"memories": [{"text": text, "kind": "fact"} for text in texts]})

    lab = scripted(
        weather,
        final("noted"),
        drafts("The user's dog is called Rex", "The user is a pilot"),
        more='[learning]\nback_end = "strong"',
    )
    talk = converse(lab, "The user's dog is called Rex", config=AgentConfig())
    assert pending(lab) == ["The user's dog is called Rex"]
    (learned,) = talk.learning.learned
    assert [one for one in learned.refused if "pilot" in one]
    ((purpose, tier),) = rows(
        lab, "select input->>'$.purpose', tier from events where action = 'generation' and episode_id is null"
    )
    assert (purpose, tier) == ("full_reflection", "strong")


@pytest.mark.parametrize("text", ["not json", '{"memories": 3}', '{"memories": [{"text": "x', ""])
def test_a_draft_that_cannot_be_read_is_nothing(weather: Lab, text: str) -> None:
    lab = scripted(weather, final("noted"), text, more='[learning]\nback_end = "light"')
    converse(lab, "weather in Oslo?", config=AgentConfig())
    assert pending(lab) == []


def test_it_can_be_switched_off(weather: Lab) -> None:
    lab = scripted(weather, final("好"), more='[learning]\nback_end = "off"')
    converse(lab, "以后请用中文回答。")
    assert pending(lab) == []
    assert rows(lab, "select count(*) from events where action = 'reflection'") == [(0,)]


def test_the_turns_of_a_session_are_read_in_order(lab: Lab) -> None:
    lab = scripted(lab, *_order_replies("SO-1042"), final("bye"))
    with lab.converse("desk", config=OFTEN) as talk:
        talk.ask("Cancel order SO-1042")
        talk.ask("thanks")
    first, second = turns_of(lab.log, talk.conversation_id)
    assert (first.said, first.answer) == ("Cancel order SO-1042", "done")
    assert [(one.tool, one.status) for one in first.calls] == [("get_order", "ok"), ("search_policies", "ok")]
    assert first.succeeded
    assert (second.said, second.answer, second.calls, second.succeeded) == ("thanks", "bye", (), False)


def test_what_was_known_then_is_what_a_replay_knows(weather: Lab) -> None:
    wish = "Please remember that " + ", then ".join(f"I go to city number {number}" for number in range(8)) + "."
    lab = scripted(weather, final("好"))
    converse(lab, wish)
    (waiting,) = open_queue(lab).pending()
    open_queue(lab).approve(waiting.id, **PERSON)
    lab = scripted(weather, render_call("recall", {"asked": waiting.name}), final("好"))
    talk = converse(lab, "weather in Oslo?")
    found = rows(lab, "select output from events where action = 'retrieval' and name = 'recall'")
    assert json.loads(found[0][0])["memories"][0]["text"] == waiting.text
    open_queue(lab).retract(waiting.name, **PERSON)

    made = lab.replay(run=talk.conversation_id, record=False)
    assert (made.reproduced, made.mismatches) == (1, ())
