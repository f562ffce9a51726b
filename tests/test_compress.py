"""Short-term memory, compressed: what must stay stays, what says nothing goes, and it never gets longer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab.compress import Step, compress, estimate_tokens, summarise, summary
from hermes_lab.config import ShortTerm
from hermes_lab.kinds import Status


def step(
    n: int | str, result: str = "", *, status: Status = Status.OK, writes: bool = False, tool: str = "find"
) -> Step:
    return Step(
        tool, f'<tool_call>\n{{"name": "{tool}", "arguments": {{"n": "{n}"}}}}\n</tool_call>', result, status, writes
    )


def size(steps: tuple[Step, ...] | list[Step]) -> int:
    return sum(len(one.call) + len(one.result) for one in steps)


# -- which steps stay whole -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1, 3])
def test_the_last_three_steps_stay_whole(number):
    steps = [step(n, "x" * 5000) for n in range(number)]
    assert compress(steps, "task", ShortTerm()) == (tuple(steps), (), 0)


def test_older_ones_become_a_line_each_in_their_order():
    steps = [step(n, f"结果 {n} " + "长" * 500) for n in range(6)]
    found = compress(steps, "task", ShortTerm())
    assert found.recent == tuple(steps[3:])
    assert [line[: len("find [ok]: 结果 0")] for line in found.summary] == [f"find [ok]: 结果 {n}" for n in range(3)]
    assert found.left_out == 0


def test_a_summary_of_a_result_has_200_characters_at_most():
    found = compress([step(n, "y" * 5000) for n in range(4)], "task", ShortTerm())
    (line,) = found.summary
    assert len(line) == len("find [ok]: ") + 200
    assert line.endswith(" ...")


def test_the_status_is_a_state_mark_and_stays():
    steps = [step(0, '{"error":"no such order"}' + " " * 300, status=Status.ERROR), *(step(n) for n in range(1, 4))]
    assert compress(steps, "task", ShortTerm()).summary[0].startswith("find [error]: ")


def test_a_call_whose_result_stood_already_is_left_out():
    steps = [step("a", "same " * 99), step("a", "same " * 99), *(step(n) for n in range(3))]
    found = compress(steps, "task", ShortTerm())
    assert (len(found.summary), found.left_out) == (1, 1)


# -- what must not be lost --------------------------------------------------------------------------------------------


def test_decisions_stay_where_the_room_is_short():
    decision = step("pay", '{"paid":"SO-1"}', writes=True, tool="pay")
    steps = [decision, *(step(n, f"looked at order {n} " * 40) for n in range(12))]
    found = compress(steps, "looked at order", ShortTerm(summary_tokens=70))
    assert found.summary[0] == 'pay [ok]: {"paid":"SO-1"}'
    assert found.left_out > 0


def test_a_constraint_in_a_result_stays_where_the_room_is_short():
    steps = [
        step("p", "The refund must never be more than 50. " + "Some more words. " * 30, tool="policy"),
        *(step(n, f"looked at order {n} " * 40) for n in range(12)),
    ]
    found = compress(steps, "looked at order", ShortTerm(summary_tokens=120))
    assert "must never be more than 50" in "\n".join(found.summary)


def test_a_compression_that_would_lose_a_decision_changes_nothing():
    steps = [step(n, f"paid customer number {n} " * 9, writes=True, tool="pay") for n in range(20)]
    found = compress(steps, "pay", ShortTerm(summary_tokens=40))
    assert found == (tuple(steps), (), 0)


def test_what_the_task_asks_for_weighs_more():
    steps = [step("a", "The address is Karl Johans gate. " * 5), *(step(n, "Nothing here. " * 12) for n in range(9))]
    steps += [step(f"z{n}") for n in range(3)]
    found = compress(steps, "What is the address?", ShortTerm(summary_tokens=60))
    assert "Karl Johans gate" in "\n".join(found.summary)


# -- one line ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "longest", "expected"),
    [
        ("Hello! The order is in Oslo. Thanks!", 200, "The order is in Oslo."),
        ("你好！订单在奥斯陆。谢谢！", 200, "订单在奥斯陆。"),
        ("Sure. Of course. It is done. Have a nice day!", 200, "It is done."),
        ("好的。没问题。已经退款。祝您愉快！", 200, "已经退款。"),
        ("one\n\n  two\tthree", 200, "one two three"),
        ("", 200, ""),
        ("Thanks!", 200, "Thanks!"),
        ("a" * 300, 20, "a" * 16 + " ..."),
        ("please cancel order 7", 200, "please cancel order 7"),
    ],
)
def test_a_line(text, longest, expected):
    assert summary(text, longest) == expected


@pytest.mark.parametrize(
    ("text", "longest", "must"),
    [
        ("Nothing of note here. It must be under 50. More words.", 30, "It must be under 50."),
        ("There is some more to say. Prices: call me before noon. And more.", 40, "call me before noon."),
        ("这里没有什么。退款不得超过五十元。还有别的话。", 16, "退款不得超过五十元。"),
    ],
)
def test_a_constraint_comes_first_where_not_all_fits(text, longest, must):
    assert must in summary(text, longest)


@pytest.mark.parametrize(
    "text",
    [
        '{"total":12.5,"paid":false}',
        '{"mail":"lin@example.com","site":"https://example.com/a?b=1"}',
        "version 1.4.2 costs 3.14",
        ".5 of it",
        "!important",
        "总价 99.50 元",
        "at 10.30 p.m. on 2026.01.02",
    ],
)
def test_what_fits_is_not_changed(text):
    """A point inside a number, an address or a version ends no sentence."""
    assert summary(text, 200) == text


@given(st.text(max_size=60), st.integers(1, 80))
def test_a_line_is_never_longer_than_asked_nor_than_the_text(text, longest):
    line = summary(text, longest)
    assert len(line) <= longest
    assert len(line) <= max(len(text), 1)
    assert "\n" not in line


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=40).map(lambda words: f"order {words} 7"))
def test_nothing_is_lost_where_it_all_fits_and_nothing_is_a_pleasantry(text):
    assert summary(text, 1000).replace(" ", "") == "".join(text.split())


@given(st.text(max_size=200), st.integers(8, 80))
def test_a_line_of_a_line_settles(text, longest):
    once = summary(text, longest)
    again = summary(once, longest)
    assert summary(again, longest) == again


# -- earlier exchanges ------------------------------------------------------------------------------------------------


def test_pleasantries_and_repeats_are_dropped():
    said = [
        "Hello!",
        "你好",
        "My order is SO-1.",
        "谢谢!",
        "My order is SO-1.",
        "I always prefer mail. 我只要邮件。",
        "ok",
    ]
    assert summarise(said, "order", 500, 200) == ("My order is SO-1.", "I always prefer mail. 我只要邮件。")


@pytest.mark.parametrize("constraint", ["Never call me before noon.", "以后不要打电话给我。"])
def test_constraints_stay_where_the_room_is_short(constraint):
    said = [constraint, *(f"I also looked at order {n} and the order was fine." for n in range(20))]
    found = summarise(said, "look at the order", 30, 200)
    assert found[0] == constraint
    assert len(found) < 5


def test_nothing_to_say():
    assert summarise([], "x", 100, 100) == ()
    assert summarise(["", "  ", "thanks"], "x", 100, 100) == ()


# -- for any steps ----------------------------------------------------------------------------------------------------

words = st.sampled_from(
    ["must", "谢谢!", "Hello!", "order 7.", "不得。", "\ud800", "😀", "<tool_call>", "{}", "."]
) | st.text(max_size=9)
steps_of_any_kind = st.lists(
    st.builds(
        lambda n, parts, status, writes: step(
            n, " ".join(parts) * 9, status=status, writes=writes, tool="pay" if writes else "find"
        ),
        st.integers(0, 3),
        st.lists(words, max_size=6),
        st.sampled_from([Status.OK, Status.ERROR, Status.DENIED]),
        st.booleans(),
    ),
    max_size=12,
)
limits = st.builds(
    ShortTerm, steps=st.integers(1, 4), summary_chars=st.integers(1, 300), summary_tokens=st.integers(1, 200)
)


@settings(deadline=None)
@given(steps=steps_of_any_kind, task=st.text(max_size=30), limit=limits)
def test_it_never_gets_longer_and_loses_no_decision(steps, task, limit):
    found = compress(steps, task, limit)
    assert found == compress(steps, task, limit)
    assert found.recent[-limit.steps :] == tuple(steps[-limit.steps :])
    assert sum(map(len, found.summary)) + size(found.recent) <= size(steps)
    older = steps[: len(steps) - len(found.recent)]
    assert len(found.summary) + found.left_out == len(older)
    assert sum(map(estimate_tokens, found.summary)) <= limit.summary_tokens
    decisions = {(one.call, one.result) for one in older if one.writes and one.status is Status.OK}
    shown = {(one.call, one.result) for one in older if any(_line_of(one, limit) == line for line in found.summary)}
    assert decisions <= shown


def _line_of(one: Step, limit: ShortTerm) -> str:
    return f"{one.tool} [{one.status}]: {summary(one.result, limit.summary_chars)}"


@given(st.text())
def test_estimates_are_not_negative_and_grow(text):
    assert 0 <= estimate_tokens(text) <= estimate_tokens(text + "退")
    assert estimate_tokens(text) <= len(text) or not text
