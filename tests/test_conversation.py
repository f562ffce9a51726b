"""A conversation: it remembers, it is recorded turn by turn, and what goes wrong in one turn does not end it."""

from __future__ import annotations

import json
import os
import signal
import threading

import pytest
from agent_lab import SUITE, call, final, rows, use_script, write_settings, write_weather
from openai_server import OpenAIServer, completion, failure

from hermes_lab import Lab
from hermes_lab import open as open_lab
from hermes_lab.effects import End
from hermes_lab.errors import MissingError
from hermes_lab.models.hermes import render_call
from hermes_lab.tasks import Exchange


@pytest.fixture
def weather(lab: Lab) -> Lab:
    write_weather(lab.path)
    return lab


def scripted(lab, *replies):
    use_script(lab.path, replies)
    return open_lab(lab.path)


def test_a_turn_is_an_episode_and_the_next_one_knows_it(weather):
    lab = scripted(weather, call("杭州"), final("杭州: 晴 🌞"), final("I said: 晴"))
    with lab.converse(SUITE, channel="terminal") as talk:
        first = talk.ask("What is the weather in 杭州?")
        second = talk.ask("What did you say?")
    assert (first.text, first.ending.end) == ("杭州: 晴 🌞", End.COMPLETED)
    assert talk.exchanges == [
        Exchange(user="What is the weather in 杭州?", agent="杭州: 晴 🌞"),
        Exchange(user="What did you say?", agent="I said: 晴"),
    ]
    assert second.text == "I said: 晴"
    started = rows(lab, "select task_id, channel, run_id from events where action = 'task_started' order by event_id")
    assert started == [(f"{talk.conversation_id}-{n}", "terminal", talk.conversation_id) for n in (1, 2)]
    ((prompt,),) = rows(
        lab, "select input from events where action = 'generation' and task_id = ?", f"{talk.conversation_id}-2"
    )
    assert [turn["content"] for turn in json.loads(prompt)["messages"][1:3]] == [
        "What is the weather in 杭州?",
        "杭州: 晴 🌞",
    ]


def test_the_type_of_a_request_is_guessed_from_the_suite(weather):
    lab = scripted(weather, final(), final())
    with lab.converse(SUITE) as talk:
        talk.ask("weather in 杭州?")
        talk.ask("weather in Oslo?", task_type="forecast")
    said = rows(lab, "select task_type, confidence from events where action = 'message_received' order by event_id")
    assert said[0][0] == "查询"  # `traffic` holds w0 and w4, which are of this type
    assert 0 < said[0][1] <= 1
    assert said[1] == ("forecast", 1.0)


def test_feedback_belongs_to_the_last_turn(weather):
    lab = scripted(weather, final("一"), final("二"))
    with lab.converse(SUITE) as talk:
        with pytest.raises(MissingError, match="nothing was said yet"):
            talk.feedback("like")
        with pytest.raises(MissingError, match="nothing was said yet"):
            talk.why()
        talk.ask("1?")
        said = talk.ask("2?")
        talk.feedback("dislike", "太短")
        why = talk.why()
    assert rows(lab, "select name, episode_id, task_id, input from events where action = 'feedback'") == [
        ("dislike", said.episode_id, said.task_id, '{"note":"太短"}')
    ]
    assert [step[1] for step in why][:2] == ["message_received", "task_started"]
    assert [step[0] for step in why[:-1]] == list(range(len(why) - 1))


def test_a_model_that_fails_is_told_and_not_remembered(weather):
    answers = [
        failure(400, "broken for a moment"),
        completion('{"name": "final_answer", "arguments": {"answer": "好"}}'),
    ]
    with OpenAIServer(answers) as server:
        write_settings(weather.path, f'light = "openai:{server.base}#m"\ncache = false')
        lab = open_lab(weather.path)
        with lab.converse(SUITE) as talk:
            failed = talk.ask("在吗?")
            assert failed.ending.end is End.ERROR
            assert failed.text.startswith("[error]")
            assert talk.exchanges == []
            assert talk.ask("在吗?").text == "好"
        assert "[error]" not in json.dumps(server.asked[-1], ensure_ascii=False)
    tasks = rows(lab, "select distinct task_id from events where task_id is not null order by 1")
    assert tasks == [(f"{talk.conversation_id}-1",), (f"{talk.conversation_id}-2",)]


def test_a_turn_can_be_stopped_and_the_conversation_goes_on(weather):
    def respond(body):
        if "slow" in body["messages"][-1]["content"]:
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            threading.Event().wait(1.5)
        return completion('{"name": "final_answer", "arguments": {"answer": "完"}}')

    with OpenAIServer(respond) as server:
        write_settings(weather.path, f'light = "openai:{server.base}#m"\ncache = false')
        lab = open_lab(weather.path)
        with lab.converse(SUITE) as talk:
            with pytest.raises(KeyboardInterrupt):
                talk.ask("slow please")
            assert talk.ask("quick please").text == "完"
            assert [exchange.user for exchange in talk.exchanges] == ["quick please"]
    ends = rows(lab, "select name, status from events where action = 'task_ended' order by event_id")
    assert ends == [("cancelled", "cancelled"), ("completed", "ok")]


def test_a_high_risk_tool_asks_and_nobody_is_a_no(weather):
    alarm = '<tool_call>\n{"name": "sound_alarm", "arguments": {}}\n</tool_call>'
    lab = scripted(weather, alarm, final("I may not."))
    with lab.converse(SUITE) as talk:
        assert talk.ask("Sound the alarm! 拉警报").text == "I may not."
    assert rows(lab, "select count(*) from events where action = 'tool_called'") == [(0,)]
    assert rows(lab, "select name, status from events where action = 'permission_decided'") == [
        ("unattended", "denied")
    ]


def test_tools_know_the_environment_and_it_lasts_from_turn_to_turn(weather):
    lab = scripted(weather, call("杭州"), final(), call("杭州"), final())
    with lab.converse(SUITE) as talk:
        talk.ask("杭州?")
        talk.ask("杭州 again?")
    outputs = rows(lab, "select output from events where action = 'tool_called'")
    assert outputs == [('{"weather":"晴 sunny"}',)] * 2


def test_the_desk_remembers_what_was_done_in_an_earlier_turn(lab):
    credit = render_call("create_ticket", {"customer_id": "C-101", "subject": "发票", "priority": "high"})
    looked = render_call("list_tickets", {"status": "open", "priority": "high"})
    lab = scripted(lab, credit, final(), looked, final())
    with lab.converse("desk") as talk:
        talk.ask("Open a ticket about an invoice for C-101.")
        talk.ask("Which urgent tickets are open?")
    (opened, listed) = rows(lab, "select status, output from events where action = 'tool_called' order by event_id")
    assert (opened[0], listed[0]) == ("ok", "ok"), (opened, listed)
    assert "发票" in listed[1]
