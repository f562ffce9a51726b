"""Requests become messages and tasks; a type that is not named is recognised, in English and Chinese, or unknown."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.interaction import UNKNOWN_TYPE, Guess, TypeRecognizer, receive, to_task
from hermes_lab.tasks import Exchange, Message

LABELLED = [
    ("Where is my order SO-1?", "orders"),
    ("Track the parcel of order 17", "orders"),
    ("我的订单到哪里了?", "orders"),
    ("Cancel my order, please", "cancellations"),
    ("请取消订单", "cancellations"),
    ("Book a visit of a technician on Monday", "visits"),
    ("预约周一上门维修", "visits"),
    ("I want my money back", "refunds"),
    ("我要退款", "refunds"),
]
RECOGNIZER = TypeRecognizer(LABELLED)


@pytest.mark.parametrize(
    ("text", "task_type"),
    [
        ("where's the parcel with order 99", "orders"),
        ("could a technician visit me on Tuesday?", "visits"),
        ("give me my money back!", "refunds"),
        ("CANCEL IT", "cancellations"),
        ("ｃａｎｃｅｌ", "cancellations"),
        ("订单到哪里了", "orders"),
        ("帮我取消这个订单", "cancellations"),
        ("周一可以上门吗", "visits"),
        ("退款什么时候到", "refunds"),
    ],
)
def test_recognised(text, task_type):
    guess = RECOGNIZER.recognise(text)
    assert guess.task_type == task_type
    assert 0 < guess.confidence <= 1


@pytest.mark.parametrize("text", ["", "xyzzy", "!!!", "the of and", "天气", "\ud800", "😀"])
def test_unknown(text):
    assert RECOGNIZER.recognise(text) == Guess(UNKNOWN_TYPE, 0.0)


def test_without_labels_everything_is_unknown():
    assert TypeRecognizer([]).recognise("order") == Guess(UNKNOWN_TYPE, 0.0)


def test_the_very_request_is_surer_than_one_that_shares_a_word():
    same = RECOGNIZER.recognise("Book a visit of a technician on Monday")
    alike = RECOGNIZER.recognise("Is Monday a holiday in Norway or not?")
    assert same == Guess("visits", 1.0)
    assert alike.task_type == "visits"
    assert alike.confidence < 0.5


def test_where_votes_are_split_it_is_less_sure():
    sure = TypeRecognizer([("order now", "a"), ("order then", "a")]).recognise("order")
    split = TypeRecognizer([("order now", "a"), ("order then", "b")]).recognise("order")
    assert sure.confidence == 1.0
    assert split.confidence == 0.5


@given(st.lists(st.tuples(st.text(max_size=30), st.sampled_from("abc")), max_size=9), st.text(max_size=60))
def test_any_request_gets_a_known_type_and_a_share(labelled, text):
    guess = TypeRecognizer(labelled).recognise(text)
    assert guess.task_type in {UNKNOWN_TYPE, *(task_type for _, task_type in labelled)}
    assert 0 <= guess.confidence <= 1
    assert (guess.confidence == 0) == (guess.task_type == UNKNOWN_TYPE) or guess.confidence < 0.001


_TIE = """
from hermes_lab.interaction import TypeRecognizer

rings = [[f"{kind}{place}" for place in range(11)] for kind in ("often", "seldom", "rare")]
labelled = []
for place in range(11):
    near = [ring[(place + step) % 11] for ring, most in zip(rings, (7, 3, 2)) for step in range(most)]
    labelled.append((" ".join(near), f"type{place:02}"))
print(TypeRecognizer(labelled).recognise(" ".join(word for ring in rings for word in ring)))
"""


def test_the_order_of_hashes_changes_no_guess():
    """All of these types are equally like the request; a float sum depends on the order of its parts, though."""
    guesses = set()
    for seed in ("0", "1", "2", "3", "4", "5"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        ran = subprocess.run(
            [sys.executable, "-c", _TIE], env=environment, capture_output=True, text=True, check=True, timeout=60
        )
        guesses.add(ran.stdout)
    assert len(guesses) == 1


# -- messages and tasks -----------------------------------------------------------------------------------------------


def test_a_named_type_is_taken_as_it_is():
    message = receive(
        "取消", channel="terminal", task_id="t-1", task_type="visits", sender="小王", recognizer=RECOGNIZER
    )
    assert message == Message(
        text="取消", channel="terminal", task_id="t-1", task_type="visits", type_confidence=1.0, sender="小王"
    )


def test_a_missing_type_is_guessed_and_how_sure_that_is_is_kept():
    message = receive("请取消订单", channel="notebook", task_id="t-2", recognizer=RECOGNIZER)
    assert (message.task_type, message.sender) == ("cancellations", None)
    assert 0.8 < message.type_confidence < 1  # "订单" is a word of orders, too
    unsure = receive("cancel the meeting of the board", channel="notebook", task_id="t-3", recognizer=RECOGNIZER)
    assert 0 < unsure.type_confidence < 0.8


def test_with_nobody_to_guess_it_is_unknown():
    message = receive("cancel", channel="http", task_id="t-3")
    assert (message.task_type, message.type_confidence) == (UNKNOWN_TYPE, 0.0)


@pytest.mark.parametrize("channel", ["notebook", "terminal", "http", "telegram", "飞书"])
def test_a_message_of_any_channel_becomes_a_task(channel):
    message = receive("请取消订单", channel=channel, task_id="t-4", recognizer=RECOGNIZER)
    earlier = [Exchange(user="你好", agent="您好")]
    task = to_task(message, suite="desk", tools=["find_order"], history=earlier)
    assert (task.id, task.type, task.prompt, task.suite) == ("t-4", "cancellations", "请取消订单", "desk")
    assert (task.tools, task.history, task.grader) == (("find_order",), tuple(earlier), None)
    assert msgspec.convert(msgspec.to_builtins(task), type(task)) == task
