"""Who answers: nobody, a function, a person at a (pseudo) terminal."""

from __future__ import annotations

import io
import os
import pty
import threading
import time
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab.approvers import Approver, Callback, Terminal, Unattended, question, visible
from hermes_lab.effects import Decision, Permit

PERMIT = Permit(tool="refund", arguments={"order": "SO-1042", "why": "破损"}, level="high_risk", reason="it pays")


class Person(NamedTuple):
    """The person's side of a terminal, and the program's."""

    keyboard: int
    stdin: IO[str]
    screen: io.StringIO


@pytest.fixture
def person() -> Iterator[Person]:
    keyboard, ours = pty.openpty()
    with os.fdopen(ours, "r", encoding="utf-8") as stdin:
        yield Person(keyboard, stdin, io.StringIO())
    os.close(keyboard)


def types(person: Person, text: str, after: str = "Allow it?") -> threading.Thread:
    """Type `text` once the question stands on the screen."""

    def type_() -> None:
        while after not in person.screen.getvalue():
            time.sleep(0.002)
        os.write(person.keyboard, text.encode())

    thread = threading.Thread(target=type_)
    thread.start()
    return thread


def test_unattended_is_no() -> None:
    decision = Unattended().decide(PERMIT, deadline_s=60.0)
    assert decision == Decision(allowed=False, by="unattended", reason="nobody was there to ask about refund")


@pytest.mark.parametrize(
    ("answer", "allowed"),
    [("y\n", True), ("YES\n", True), (" 是 \n", True), ("n\n", False), ("\n", False), ("yy\n", False), ("\x04", False)],
)
def test_the_persons_answer_counts(person: Person, answer: str, allowed: bool) -> None:
    typing = types(person, answer)
    decision = Terminal(person.stdin, person.screen, "艾达").decide(PERMIT, deadline_s=10.0)
    typing.join()
    assert (decision.allowed, decision.by) == (allowed, "艾达")
    assert "refund (high_risk): it pays" in person.screen.getvalue()
    assert '{"order": "SO-1042", "why": "破损"}' in person.screen.getvalue()


def test_no_answer_in_time_is_no(person: Person) -> None:
    started = time.perf_counter()
    typing = types(person, "y")  # without Enter
    decision = Terminal(person.stdin, person.screen).decide(PERMIT, deadline_s=0.2)
    typing.join()
    assert 0.15 < time.perf_counter() - started < 2
    assert (decision.allowed, decision.reason) == (False, "no answer within 0.2 s")


def test_what_was_typed_before_the_question_is_no_answer(person: Person) -> None:
    os.write(person.keyboard, b"y\n")
    time.sleep(0.05)
    assert not Terminal(person.stdin, person.screen).decide(PERMIT, deadline_s=0.3).allowed


def test_questions_come_one_at_a_time_and_waiting_counts(person: Person) -> None:
    terminal = Terminal(person.stdin, person.screen)
    started = time.perf_counter()
    decisions: list[Decision] = []
    threads = [
        threading.Thread(target=lambda: decisions.append(terminal.decide(PERMIT, deadline_s=0.6))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [decision.allowed for decision in decisions] == [False] * 3
    assert time.perf_counter() - started < 1.5, "three waits of 0.6 s, and none of them after the other"
    asked = person.screen.getvalue().split("no answer: no\n")[:-1]
    assert [text.count("Allow it?") for text in asked] == [1] * len(asked)


def test_without_a_terminal_it_is_no() -> None:
    with open(os.devnull) as nothing:
        assert Terminal(nothing, io.StringIO()).decide(PERMIT, deadline_s=5.0) == Decision(
            allowed=False, by="unattended", reason="standard input is no terminal"
        )
    closed = Terminal(nothing, io.StringIO()).decide(PERMIT, deadline_s=5.0)
    assert not closed.allowed


def test_a_terminal_that_hangs_up_is_no() -> None:
    keyboard, ours = pty.openpty()
    screen = io.StringIO()
    with os.fdopen(ours, "r", encoding="utf-8") as stdin:
        threading.Timer(0.1, os.close, [keyboard]).start()
        assert not Terminal(stdin, screen).decide(PERMIT, deadline_s=5.0).allowed


def _fails(permit: Permit) -> bool:
    raise RuntimeError("坏了")


def _sleeps(permit: Permit) -> bool:
    time.sleep(0.5)
    return True


@pytest.mark.parametrize(
    ("function", "decision"),
    [
        (lambda permit: True, Decision(allowed=True, by="callback")),
        (lambda permit: False, Decision(allowed=False, by="callback")),
        (
            lambda permit: Decision(allowed=True, by="李", reason=permit.tool),
            Decision(allowed=True, by="李", reason="refund"),
        ),
        (lambda permit: "yes", Decision(allowed=False, by="callback", reason="the answer was a str")),
        (lambda permit: None, Decision(allowed=False, by="callback", reason="the answer was a NoneType")),
        (_fails, Decision(allowed=False, by="callback", reason="RuntimeError: 坏了")),
        (_sleeps, Decision(allowed=False, by="callback", reason="no answer within 0.1 s")),
    ],
)
def test_a_function_answers(function: Any, decision: Decision) -> None:
    approver: Approver = Callback(function)
    assert approver.decide(PERMIT, deadline_s=0.1) == decision


def test_the_question_shows_every_character() -> None:
    permit = Permit(
        tool="send\x1b[2J", arguments={"to": "a\u202eb\u200b\n\x07", "和": 1}, level="high_risk", reason="r\rx"
    )
    assert question(permit) == (
        "The agent wants to call send\\x1b[2J (high_risk): r\\rx\n"
        '{"to": "a\\u202eb\\u200b\\n\\u0007", "和": 1}\n'
        "Allow it? [y/N] "
    )


def test_long_arguments_show_both_ends() -> None:
    text = question(Permit(tool="t", arguments={"a": "x" * 9000 + "末"}, level="l", reason="r"))
    assert len(text) < 4200
    assert "characters left out" in text
    assert "末" in text


@given(st.text(st.characters()))
@settings(deadline=None)
def test_visible_text_stays_on_its_line(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1
    shown.encode()
