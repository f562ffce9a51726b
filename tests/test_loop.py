"""The loop: how an episode goes and ends, step by step, with scripted models and tools."""

from __future__ import annotations

from typing import Any

import pytest
from loop_driver import (
    Driven,
    broken_model,
    call,
    drive,
    fails,
    failure,
    final,
    gives,
    in_turn,
    judged,
    no,
    reply,
    spec,
    task_of,
    view_of,
    yes,
)

from hermes_lab import payload
from hermes_lab.checks import Guards
from hermes_lab.config import AgentConfig, Example, ToolSettings, changed
from hermes_lab.effects import Act, Ask, Decision, End, Note, Permit
from hermes_lab.kinds import Action, ErrorKind, Status, Tier
from hermes_lab.loop import View
from hermes_lab.models.base import Attempt, Finish, Role
from hermes_lab.permissions import PermissionRule
from hermes_lab.routing import PolicyMemory, ToolStats
from hermes_lab.tasks import Answer, Exchange
from hermes_lab.tools.base import Level, Result

FIND = spec("find_order", required=["order"])
LIST = spec("list_orders")
CANCEL = spec("cancel_order", Level.EXECUTABLE, required=["order"])
REFUND = spec("refund", Level.HIGH_RISK, required=["order"])
POLICY = spec("policy_search", required=["query"], action=Action.RETRIEVAL)
VIEW = view_of(FIND, LIST, CANCEL, REFUND)
TASK = task_of(VIEW)
PLAIN = changed(AgentConfig(), **{"routing.shortlist": "all"})
QUIET = changed(PLAIN, **{"reflection.mode": "off"})
FREE = changed(QUIET, **{"prompt.decoding": "free"})
ALWAYS = changed(PLAIN, **{"reflection.mode": "always"})


def plans(driven: Driven) -> int:
    return len(driven.asks("plan"))


def last_prompt(driven: Driven) -> str:
    return "\n".join(turn.content for turn in driven.asks("plan")[-1].request.messages)


def offered(ask: Ask) -> list[str]:
    return [one.name for one in ask.request.tools]


def numbered(name: str, times: int, **fields: Any) -> list[str]:
    """Turns with the same tool and other arguments each time."""
    return [call(name, **fields, n=number) for number in range(times)]


# -- the usual way ----------------------------------------------------------------------------------------------------


def test_no_tool_is_needed():
    done = drive(TASK, PLAIN, VIEW, [final("你好 👋")])
    assert (done.ending.end, done.ending.answer, done.ending.calls) == (End.COMPLETED, "你好 👋", ())
    assert [type(one) for one in done.effects] == [Note, Note, Note, Ask, Note, Note]
    assert [one.action for one in done.effects if isinstance(one, Note)] == [
        Action.TASK_STARTED,
        Action.ROUTED,
        Action.CONTEXT_ASSEMBLED,
        Action.TASK_RECORDED,
        Action.TASK_ENDED,
    ]


def test_one_tool_then_an_answer():
    done = drive(
        TASK,
        PLAIN,
        VIEW,
        [call("find_order", order="SO-1"), final("It is in Oslo.")],
        {"find_order": gives({"place": "Oslo"})},
    )
    assert done.ending.end is End.COMPLETED
    assert [(one.tool, one.arguments, one.status) for one in done.ending.calls] == [
        ("find_order", {"order": "SO-1"}, Status.OK)
    ]
    assert done.ending.steps == 2
    assert done.ending.tokens == 30
    assert done.ending.seconds == pytest.approx(0.003)
    result = done.asks()[-1].request.messages
    assert [(turn.role, turn.name, turn.content) for turn in result if turn.role is Role.TOOL] == [
        (Role.TOOL, "find_order", '{"place":"Oslo"}')
    ]


def test_a_free_turn_may_make_several_calls():
    both = f"Both at once.\n{call('find_order', order='SO-1')}\n{call('list_orders')}"
    done = drive(TASK, FREE, VIEW, [both, "They are both here."])
    assert [one.tool for one in done.acts()] == ["find_order", "list_orders"]
    assert (done.ending.answer, plans(done)) == ("They are both here.", 2)


def test_calls_in_reasoning_never_run():
    done = drive(TASK, FREE, VIEW, [f"<think>\n{call('cancel_order', order='SO-1')}\n</think>\nNothing to do."])
    assert (done.acts(), done.ending.answer) == ([], "Nothing to do.")


def test_calls_after_the_final_answer_do_not_run():
    done = drive(TASK, FREE, VIEW, [final("done") + call("cancel_order", order="SO-1")])
    assert (done.acts(), done.ending.answer) == ([], "done")


def test_a_bound_turn_is_offered_the_tools_and_a_final_answer():
    ask = drive(TASK, PLAIN, VIEW, [final("x")]).asks()[0]
    assert offered(ask) == ["find_order", "list_orders", "cancel_order", "refund", "final_answer"]
    assert len(ask.request.schema["anyOf"]) == 5


def test_a_tool_that_the_suite_lacks_is_not_offered():
    done = drive(task_of(VIEW, tools=("find_order", "吹牛")), PLAIN, VIEW, [final("x")])
    assert offered(done.asks()[0]) == ["find_order", "final_answer"]


def test_history_is_shown_before_the_request():
    task = task_of(VIEW, "And the other one?", history=(Exchange(user="Where is SO-1?", agent="In Oslo 奥斯陆."),))
    turns = drive(task, PLAIN, VIEW, [final("x")]).asks()[0].request.messages
    assert [turn.content for turn in turns][1:4] == ["Where is SO-1?", "In Oslo 奥斯陆.", "And the other one?"]


def test_defaults_of_the_configuration_fill_what_the_model_left_out():
    config = changed(QUIET, tools={"find_order": ToolSettings(defaults={"note": "brief", "n": 1})})
    done = drive(TASK, config, VIEW, [call("find_order", order="SO-1", n=7), final("x")])
    assert done.acts()[0].arguments == {"order": "SO-1", "note": "brief", "n": 7}


def test_defaults_are_checked_like_any_argument():
    config = changed(QUIET, tools={"find_order": {"defaults": {"n": "many"}}})
    done = drive(TASK, config, VIEW, [call("find_order", order="SO-1"), final("x")])
    assert (done.acts(), done.problems()) == ([], [ErrorKind.BAD_ARGUMENTS])


def test_a_tool_that_changes_its_arguments_changes_nothing_else():
    """The driver may hand the very dict of an `Act` to the tool."""
    config = changed(QUIET, tools={"find_order": {"defaults": {"note": "brief"}}})
    run = [call("find_order", order="SO-1"), call("find_order", order="SO-1"), final("x")]
    version = config.version
    done = drive(TASK, config, VIEW, run)
    assert done.problems() == [ErrorKind.REPEATED_CALL]
    assert config.version == version


# -- checks: a failed one costs no model call -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("turn", "kind", "said"),
    [
        (call("find_order"), ErrorKind.BAD_ARGUMENTS, "is a required property"),
        (call("find_order", order=7), ErrorKind.BAD_ARGUMENTS, "order"),
        (call("find_order", order="SO-1", 邮编="100"), ErrorKind.BAD_ARGUMENTS, "邮编"),
        (call("find_orders", order="SO-1"), ErrorKind.UNKNOWN_TOOL, "find_order"),
        ('<tool_call>\n{"name": "find_order", "arg\n</tool_call>', ErrorKind.UNREADABLE_CALL, "read"),
    ],
)
def test_a_failed_check_is_the_correction(turn, kind, said):
    done = drive(TASK, PLAIN, VIEW, [turn, call("find_order", order="SO-1"), final("x")])
    assert done.problems() == [kind]
    assert said in done.notes(Action.TOOL_CHECKED)[0].observation
    assert [ask.purpose for ask in done.asks()] == ["plan", "plan", "plan"]
    assert said in done.asks()[1].request.messages[-2].content
    assert (len(done.acts()), done.ending.end) == (1, End.COMPLETED)


def test_a_precheck_refuses():
    checked = spec("pay", required=["to"], precheck=lambda given: "pay whom?" if not given["to"] else None)
    view = view_of(checked)
    done = drive(task_of(view), PLAIN, view, [call("pay", to=""), final("x")])
    assert (done.acts(), done.problems()) == ([], [ErrorKind.PRECHECK_FAILED])
    assert done.notes(Action.TOOL_CHECKED)[0].observation == "pay whom?"


def test_a_sound_call_beside_an_unreadable_one_runs_and_the_other_is_told():
    turn = call("find_order", order="SO-1") + '\n<tool_call>\n{"name": "list_orders", "arg\n</tool_call>'
    done = drive(TASK, FREE, VIEW, [turn, "ok"])
    assert [one.tool for one in done.acts()] == ["find_order"]
    assert done.problems() == [ErrorKind.UNREADABLE_CALL]


def test_the_same_call_again_is_refused():
    again = call("find_order", order="SO-1")
    done = drive(TASK, PLAIN, VIEW, [again, again, final("x")])
    assert len(done.acts()) == 1
    assert done.problems() == [ErrorKind.REPEATED_CALL]
    assert done.ending.end is End.COMPLETED


def test_the_same_arguments_in_another_order_are_a_repeat():
    done = drive(TASK, QUIET, VIEW, [call("find_order", order="a", n=1), call("find_order", n=1, order="a"), final("")])
    assert len(done.acts()) == 1


def test_a_reading_call_may_be_made_again_once_something_was_changed():
    read = call("find_order", order="SO-1")
    done = drive(TASK, QUIET, VIEW, [read, call("cancel_order", order="SO-1"), read, read, final("x")])
    assert [one.tool for one in done.acts()] == ["find_order", "cancel_order", "find_order"]


def test_a_failure_in_passing_may_be_tried_again():
    flaky = in_turn(failure("busy", transient=True), Result({"place": "Oslo"}))
    again = call("find_order", order="SO-1")
    done = drive(TASK, QUIET, VIEW, [again, again, again, final("x")], {"find_order": flaky})
    assert [one.status for one in done.ending.calls] == [Status.ERROR, Status.OK]
    assert done.problems() == [ErrorKind.REPEATED_CALL]


def test_a_failure_in_passing_is_tried_again_at_most_twice():
    """Even where it fails another way each time, so that it does not count as the same failure."""
    flaky = in_turn(*(failure(words, transient=True) for words in ("busy", "locked", "down", "lost")))
    again = call("find_order", order="SO-1")
    done = drive(TASK, QUIET, VIEW, [again, again, again, again, final("x")], {"find_order": flaky})
    assert len(done.acts()) == 3
    assert done.problems() == [ErrorKind.REPEATED_CALL]


# -- dead loops -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transient", [False, True])
@pytest.mark.parametrize("mode", ["off", "on_failure", "always"])
def test_the_third_same_failure_ends_it_with_no_model_call_after(mode, transient):
    config = changed(PLAIN, **{"reflection.mode": mode})

    def answer(ask: Ask) -> Any:
        if ask.purpose == "reflect":
            return judged("needs_fix", "bad_arguments", "try another number")
        return call("find_order", order="SO-1", n=sum(turn.role is Role.TOOL for turn in ask.request.messages))

    done = drive(TASK, config, VIEW, answer, {"find_order": fails("no such order", transient=transient)})
    assert done.ending.end is End.DIVERGED
    assert len(done.acts()) == 3
    last = max(place for place, one in enumerate(done.effects) if isinstance(one, Act))
    assert not [one for one in done.effects[last:] if isinstance(one, Ask)]


def test_numbers_that_differ_do_not_make_it_another_failure():
    outcomes = in_turn(*(failure(f"request 7f3{n} timed out after {n}.5 s") for n in range(6, 9)))
    done = drive(TASK, QUIET, VIEW, numbered("find_order", 3, order="x"), {"find_order": outcomes})
    assert done.ending.end is End.DIVERGED


def test_other_failures_are_not_the_same():
    outcomes = in_turn(*(failure(words) for words in ("no order", "no customer", "no street")))
    done = drive(
        TASK,
        QUIET,
        VIEW,
        [*numbered("find_order", 3, order="x"), final("I could not find it.")],
        {"find_order": outcomes},
    )
    assert done.ending.end is End.COMPLETED


def test_the_same_failures_count_with_other_calls_in_between():
    turns = [
        call("find_order", order="a"),
        call("list_orders"),
        call("find_order", order="b"),
        call("list_orders", n=1),
        call("find_order", order="c"),
    ]
    done = drive(TASK, QUIET, VIEW, turns, {"find_order": fails()})
    assert done.ending.end is End.DIVERGED


@pytest.mark.parametrize(
    "turn",
    [
        call("find_order"),
        call("吹牛"),
        '<tool_call>\n{"name": "find_order", "arg\n</tool_call>',
    ],
)
def test_the_same_refusal_three_times_is_a_dead_loop(turn):
    done = drive(TASK, PLAIN, VIEW, [turn] * 3)
    assert (done.ending.end, plans(done)) == (End.DIVERGED, 3)


def test_repeats_of_a_call_are_a_dead_loop():
    done = drive(TASK, PLAIN, VIEW, [call("list_orders")] * 4)
    assert (done.ending.end, len(done.acts()), plans(done)) == (End.DIVERGED, 1, 4)


def test_without_the_check_of_repeats_they_run():
    view = view_of(LIST, guards=Guards(repeats=False))
    done = drive(task_of(view), QUIET, view, [call("list_orders")] * 5 + [final("x")])
    assert len(done.acts()) == 5


# -- permissions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tool", "asked"), [("find_order", 0), ("cancel_order", 0), ("refund", 1)])
def test_a_high_risk_tool_always_asks_a_person(tool, asked):
    done = drive(TASK, QUIET, VIEW, [call(tool, order="SO-1"), final("x")], permits=yes)
    assert len(done.permits()) == asked
    assert [one.tool for one in done.acts()] == [tool]


def test_no_means_no():
    done = drive(TASK, PLAIN, VIEW, [call("refund", order="SO-1"), final("It was not allowed.")], permits=no)
    assert (done.acts(), done.ending.end) == ([], End.COMPLETED)
    checked = done.notes(Action.TOOL_CHECKED)[0]
    assert (checked.status, checked.error_kind) == (Status.DENIED, ErrorKind.NO_PERMISSION)
    assert "no one answered" in last_prompt(done)


def test_two_denials_end_it():
    turns = [call("refund", order="SO-1"), call("refund", order="SO-2")]
    done = drive(TASK, PLAIN, VIEW, turns)
    assert (done.ending.end, plans(done), done.acts()) == (End.DENIED, 2, [])


def test_the_same_call_denied_twice_ends_it():
    done = drive(TASK, PLAIN, VIEW, [call("refund", order="SO-1")] * 2)
    assert done.ending.end is End.DENIED


def test_a_deny_rule_asks_nobody():
    rule = PermissionRule(
        decision="deny", name="no 退款", tool="refund", argument="order", pattern="^SO-9", reason="no"
    )
    view = view_of(REFUND, rules=(rule,))
    turns = [call("refund", order="SO-9"), call("refund", order="SO-1"), final("x")]
    done = drive(task_of(view), QUIET, view, turns, permits=yes)
    assert [one.arguments["order"] for one in done.permits()] == ["SO-1"]
    assert [one.arguments["order"] for one in done.acts()] == ["SO-1"]
    assert done.notes(Action.TOOL_CHECKED)[0].output["by"] == "no 退款"


def test_an_ask_rule_asks_for_a_harmless_tool():
    rule = PermissionRule(decision="ask", name="watch", tool="find_*", task_type="orders", reason="it is watched")
    view = view_of(FIND, rules=(rule,))
    done = drive(task_of(view), QUIET, view, [call("find_order", order="SO-1"), final("x")], permits=yes)
    assert [(one.level, one.reason) for one in done.permits()] == [("read_only", "it is watched")]
    other = drive(task_of(view, type="visits"), QUIET, view, [call("find_order", order="SO-1"), final("x")])
    assert (other.permits(), len(other.acts())) == ([], 1)


def test_rules_see_the_defaults_of_the_configuration():
    rule = PermissionRule(decision="deny", argument="note", pattern="force")
    view = view_of(CANCEL, rules=(rule,))
    config = changed(QUIET, tools={"cancel_order": {"defaults": {"note": "force"}}})
    done = drive(task_of(view), config, view, [call("cancel_order", order="SO-1"), final("x")])
    assert done.acts() == []


def test_no_guard_turns_permissions_off():
    view = view_of(REFUND, guards=Guards(arguments=False, prechecks=False, repeats=False))
    done = drive(task_of(view), QUIET, view, [call("refund", anything=1), call("refund")], permits=no)
    assert (done.acts(), len(done.permits()), done.ending.end) == ([], 2, End.DENIED)


def test_a_check_comes_before_the_person():
    done = drive(TASK, QUIET, VIEW, [call("refund", order=5), final("x")], permits=yes)
    assert (done.permits(), done.acts()) == ([], [])


# -- reflection -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "after_ok", "after_failure"), [("off", 0, 0), ("on_failure", 0, 1), ("always", 1, 1)])
def test_when_a_model_is_asked_to_reflect(mode, after_ok, after_failure):
    config = changed(PLAIN, **{"reflection.mode": mode})
    fix = judged("needs_fix", "logic_gap", "look further 再看看")
    for tool, times in ((gives("ok"), after_ok), (fails(), after_failure)):
        replies = [call("find_order", order="x"), *[fix] * times, final("done")]
        done = drive(TASK, config, VIEW, replies, {"find_order": tool})
        assert len(done.asks("reflect")) == done.ending.reflections == times
        assert ("再看看" in last_prompt(done)) is bool(times)


def test_reflections_are_bounded():
    turns: list[Any] = []
    for turn in numbered("find_order", 3, order="x"):
        turns += [turn, judged("needs_fix", "missing_information", "go on")]
    turns += [call("list_orders", n=1), call("list_orders", n=2), final("x")]
    done = drive(TASK, ALWAYS, VIEW, turns)
    assert (len(done.asks("reflect")), done.ending.reflections) == (3, 3)


@pytest.mark.parametrize("said", ["", "yes, it is done", '{"status": "fine"}', "[]", '{"status": {}, "reason": []}'])
def test_reflections_that_cannot_be_read_are_bounded_too(said):
    """Each one is a model call, so each one counts."""
    turns = iter(numbered("list_orders", 8))

    def answer(ask: Ask) -> str:
        return said if ask.purpose == "reflect" else next(turns)

    done = drive(TASK, ALWAYS, VIEW, answer)
    assert (done.ending.end, len(done.asks("reflect"))) == (End.BUDGET, 3)


@pytest.mark.parametrize(
    "broken",
    [broken_model(), broken_model(ErrorKind.TIMEOUT, Finish.TIMEOUT), reply('{"status": "do', finish=Finish.LENGTH)],
)
def test_a_reflection_that_fails_does_not_end_it(broken):
    done = drive(TASK, ALWAYS, VIEW, [call("list_orders"), broken, final("x")])
    assert done.ending.end is End.COMPLETED


def test_done_leaves_only_the_answer():
    done = drive(TASK, ALWAYS, VIEW, [call("list_orders"), judged("done"), final("here")])
    assert offered(done.asks("plan")[-1]) == ["final_answer"]
    assert (done.ending.end, done.ending.answer) == (End.COMPLETED, "here")


def test_done_in_the_middle_of_a_free_turn_stops_its_other_calls():
    config = changed(ALWAYS, **{"prompt.decoding": "free"})
    turn = call("list_orders") + call("cancel_order", order="SO-1")
    done = drive(TASK, config, VIEW, [turn, judged("done"), "here"])
    assert [one.tool for one in done.acts()] == ["list_orders"]


def test_done_about_a_failed_step_is_not_believed():
    done = drive(
        TASK,
        PLAIN,
        VIEW,
        [call("cancel_order", order="SO-1"), judged("done"), call("cancel_order", order="SO-2"), final("ok")],
        {"cancel_order": in_turn(failure("no such order"), Result("cancelled"))},
    )
    assert done.notes(Action.REFLECTION)[0].output["status"] == "needs_fix"
    assert "cancel_order" in offered(done.asks("plan")[1])


@pytest.mark.parametrize(
    ("reason", "end"),
    [("tool_unavailable", End.GAVE_UP), ("missing_information", End.GAVE_UP), ("no_permission", End.DENIED)],
)
def test_giving_up(reason, end):
    done = drive(
        TASK,
        PLAIN,
        VIEW,
        [call("find_order", order="x"), judged("give_up", reason, "无法完成")],
        {"find_order": fails()},
    )
    assert (done.ending.end, done.ending.reason) == (end, "无法完成")


def escalation(*, documents: bool, config: AgentConfig = ALWAYS, answers: list[Any], **tools: Any) -> Driven:
    view = view_of(LIST, POLICY) if documents else view_of(LIST)
    return drive(task_of(view, "退款的规则是什么?"), config, view, answers, tools)


def fixes(times: int, confidence: float | None = None) -> list[Any]:
    turns: list[Any] = []
    for turn in numbered("list_orders", times):
        turns += [turn, judged("needs_fix", "missing_information", "look it up", confidence)]
    return turns


def helps(done: Driven) -> list[str | None]:
    return [one.name for one in done.notes(Action.ESCALATED)]


def test_needs_fix_twice_turns_to_the_documents_first():
    done = escalation(
        documents=True, answers=[*fixes(2), final("x")], policy_search=gives([{"text": "within 30 days 三十天内"}])
    )
    assert helps(done) == ["documents"]
    assert [one.arguments for one in done.acts("policy_search")] == [{"query": "退款的规则是什么?"}]
    assert "三十天内" in last_prompt(done)
    assert {ask.tier for ask in done.asks()} == {Tier.LIGHT}


def test_then_to_the_strong_tier():
    done = escalation(documents=True, answers=[*fixes(3), final("x")])
    assert helps(done) == ["documents", "strong"]
    assert [ask.tier for ask in done.asks("plan")] == [Tier.LIGHT] * 3 + [Tier.STRONG]


def test_without_documents_it_turns_to_the_strong_tier_at_once():
    done = escalation(documents=False, answers=[*fixes(2), final("x")])
    assert helps(done) == ["strong"]
    assert done.asks("plan")[-1].tier is Tier.STRONG


def test_once_is_not_enough_to_escalate():
    assert helps(escalation(documents=True, answers=[*fixes(1), final("x")])) == []


@pytest.mark.parametrize(("confidence", "escalated"), [(0.19, True), (0.2, False), (0.9, False), (None, False)])
def test_low_confidence_escalates_at_once(confidence, escalated):
    done = escalation(documents=False, answers=[*fixes(1, confidence), final("x")])
    assert helps(done) == ["strong"] * escalated


@pytest.mark.parametrize("status", ["done", "give_up"])
def test_low_confidence_escalates_whatever_it_says(status):
    """A reflection less sure than the threshold escalates; it is not followed."""
    unsure = judged(status, "none" if status == "done" else "logic_gap", "", 0.05)
    done = escalation(documents=False, answers=[call("list_orders"), unsure, final("x")])
    assert helps(done) == ["strong"]
    assert done.ending.end is End.COMPLETED


@pytest.mark.parametrize("decision", ["deny", "ask"])
def test_documents_are_searched_only_where_that_is_allowed(decision):
    view = view_of(LIST, POLICY, rules=(PermissionRule(decision=decision, tool="policy_*"),))
    done = drive(task_of(view), ALWAYS, view, [*fixes(2), final("x")])
    assert done.acts("policy_search") == []


# -- answers ----------------------------------------------------------------------------------------------------------


def test_a_claim_that_the_tool_events_contradict_is_held_against_it_once():
    done = drive(
        TASK,
        PLAIN,
        VIEW,
        [
            call("cancel_order", order="SO-1"),
            judged("needs_fix", "logic_gap", "try again"),
            final("I cancelled it."),
            final("I could not cancel it."),
        ],
        {"cancel_order": fails()},
    )
    assert done.ending.answer == "I could not cancel it."
    assert [one.name for one in done.notes(Action.REFLECTION)] == ["cancel_order", "tool events"]
    assert "cancel_order failed" in last_prompt(done)


def test_a_failed_look_is_no_contradiction():
    done = drive(TASK, QUIET, VIEW, [call("find_order", order="x"), final("No such order.")], {"find_order": fails()})
    assert (done.ending.end, plans(done)) == (End.COMPLETED, 2)


def test_a_denial_is_no_contradiction():
    done = drive(TASK, PLAIN, VIEW, [call("refund", order="x"), final("It was not allowed.")])
    assert (done.ending.end, plans(done)) == (End.COMPLETED, 2)


def test_a_benchmark_ends_with_the_first_sound_turn_of_calls():
    task = task_of(VIEW, answer_by="call")
    done = drive(task, ALWAYS, VIEW, [call("find_order"), call("find_order", order="SO-1")])
    assert (done.ending.end, [one.tool for one in done.ending.calls]) == (End.COMPLETED, ["find_order"])
    assert [ask.purpose for ask in done.asks()] == ["plan", "plan"]
    assert offered(done.asks()[0]) == ["find_order", "list_orders", "cancel_order", "refund"]


def test_a_benchmark_turn_with_a_refused_call_is_not_sound():
    task = task_of(VIEW, answer_by="call")
    half = call("find_order") + call("list_orders")
    whole = call("find_order", order="SO-1") + call("list_orders", n=1)
    done = drive(task, FREE, VIEW, [half, whole])
    assert plans(done) == 2


def test_a_benchmark_may_be_answered_without_a_call():
    done = drive(task_of(VIEW, answer_by="call"), FREE, VIEW, ["None of these helps."])
    assert (done.ending.end, done.ending.answer) == (End.COMPLETED, "None of these helps.")


# -- budgets and endings ----------------------------------------------------------------------------------------------


def test_steps_are_a_hard_limit():
    config = changed(QUIET, **{"budgets.steps": 3})
    done = drive(TASK, config, VIEW, numbered("list_orders", 3))
    assert (done.ending.end, done.ending.steps, plans(done)) == (End.BUDGET, 3, 3)


@pytest.mark.parametrize(
    ("setting", "took", "end"),
    [
        ({"budgets.tokens": 40}, {"input_tokens": 15, "cached_tokens": 20, "output_tokens": 5}, End.BUDGET),
        ({"budgets.tokens": 40}, {"input_tokens": 4000, "output_tokens": 10**12}, End.BUDGET),
        ({"budgets.seconds": 2.0}, {"latency_ms": 2000.0}, End.TIMEOUT),
        ({"budgets.seconds": 2.0}, {"latency_ms": 1e12}, End.TIMEOUT),
        ({"budgets.usd": 0.5}, {"cost_usd": 0.5}, End.BUDGET),
        ({"budgets.usd": 0.5}, {"cost_usd": 1e9}, End.BUDGET),
    ],
)
def test_budgets_are_hard_limits_also_where_a_reply_takes_more_than_asked(setting, took, end):
    config = changed(ALWAYS, **setting)
    done = drive(TASK, config, VIEW, [reply(call("list_orders"), **took)])
    assert (done.ending.end, len(done.asks())) == (end, 1)


def test_what_is_left_is_said_with_each_effect():
    config = changed(QUIET, **{"budgets.tokens": 100, "budgets.seconds": 10.0, "budgets.usd": 1.0})
    first = reply(
        call("list_orders"), input_tokens=20, cached_tokens=5, output_tokens=5, latency_ms=1000, cost_usd=0.25
    )
    done = drive(TASK, config, VIEW, [first, final("x")], {"list_orders": lambda given: Result("", latency_ms=500)})
    left = [one.remaining for one in done.effects if isinstance(one, Ask | Act)]
    assert [(one.tokens, one.seconds, one.usd) for one in left] == [(100, 10.0, 1.0), (70, 9.0, 0.75), (70, 8.5, 0.75)]
    assert done.ending.usd == 0.25


def test_a_slow_tool_ends_it_without_another_question():
    config = changed(ALWAYS, **{"budgets.seconds": 5.0})
    done = drive(TASK, config, VIEW, [call("list_orders")], {"list_orders": lambda given: Result("", latency_ms=5000)})
    assert (done.ending.end, len(done.asks())) == (End.TIMEOUT, 1)


def test_no_tool_runs_once_a_reflection_took_the_time_that_was_left():
    config = changed(ALWAYS, **{"budgets.seconds": 5.0, "prompt.decoding": "free"})
    turn = call("list_orders") + call("find_order", order="SO-1")
    slow = reply(judged("needs_fix").text, latency_ms=6000)
    done = drive(TASK, config, VIEW, [turn, slow])
    assert ([one.tool for one in done.acts()], done.ending.end) == (["list_orders"], End.TIMEOUT)


def test_documents_are_not_searched_once_a_reflection_took_the_time_that_was_left():
    config = changed(ALWAYS, **{"budgets.seconds": 5.0})
    slow = reply(judged("needs_fix", "missing_information").text, latency_ms=6000)
    done = escalation(documents=True, config=config, answers=[*fixes(1), call("list_orders", n=9), slow])
    assert (done.acts("policy_search"), done.ending.end) == ([], End.TIMEOUT)


@pytest.mark.parametrize(("latency_ms", "end"), [(4999.0, End.COMPLETED), (5000.0, End.TIMEOUT)])
def test_the_time_of_a_reply_runs_from_its_first_attempt(latency_ms, end):
    config = changed(QUIET, **{"budgets.seconds": 5.0})
    attempts = tuple(Attempt(error_kind=ErrorKind.RATE_LIMITED, error="429", latency_ms=2000.0) for _ in range(2))
    slow = reply(call("list_orders"), attempts=attempts, latency_ms=latency_ms)
    done = drive(TASK, config, VIEW, [slow, reply(final("x"), latency_ms=0)], {"list_orders": lambda given: Result("")})
    assert (done.ending.end, done.ending.seconds) == (end, latency_ms / 1000)


def test_a_server_that_does_not_count_is_bounded_by_the_bytes_of_the_whole_prompt():
    """Tools are most of a prompt, so they count."""
    said = reply(final("短"), input_tokens=None, output_tokens=None)
    done = drive(TASK, QUIET, VIEW, [said])
    request = done.asks()[0].request
    sent = sum(len(turn.content.encode()) for turn in request.messages)
    tools = sum(len(payload.dumps([one.name, one.description, one.parameters])) for one in request.tools)
    assert done.ending.tokens >= sent + tools + len(said.text.encode())


@pytest.mark.parametrize(
    ("known", "at_least"),
    [
        ({"input_tokens": None, "output_tokens": 5000}, 5000),
        ({"input_tokens": 5000, "output_tokens": None}, 5000),
        ({"input_tokens": None, "output_tokens": None, "reasoning": "想" * 2000}, 6000),
    ],
)
def test_what_a_server_does_count_is_counted(known, at_least):
    done = drive(TASK, QUIET, VIEW, [reply(final("x"), **known)])
    assert done.ending.tokens >= at_least


@pytest.mark.parametrize(
    ("broken", "end"),
    [
        (broken_model(ErrorKind.CONNECTION), End.ERROR),
        (broken_model(ErrorKind.CONTEXT_LENGTH), End.ERROR),
        (broken_model(ErrorKind.BUDGET), End.BUDGET),
        (broken_model(ErrorKind.TIMEOUT, Finish.TIMEOUT), End.TIMEOUT),
    ],
)
def test_a_model_that_fails(broken, end):
    done = drive(TASK, PLAIN, VIEW, [broken])
    assert (done.ending.end, "失败" in done.ending.reason) == (end, True)


def test_a_reply_that_was_cut_off_in_a_call_is_not_run():
    cut = reply('<tool_call>\n{"name": "cancel_order", "arguments": {"order": "SO-1', finish=Finish.LENGTH)
    done = drive(TASK, PLAIN, VIEW, [cut, final("x")])
    assert (done.acts(), done.problems()) == ([], [ErrorKind.UNREADABLE_CALL])


# -- sub-goals --------------------------------------------------------------------------------------------------------

SPLIT = changed(QUIET, **{"decomposition.mode": "on"})


def split_into(*goals: str) -> str:
    return payload.dumps({"subgoals": list(goals)})


def test_sub_goals_are_driven_one_by_one_and_share_what_was_found():
    replies = [
        split_into("find the order", "把地址告诉客户"),
        call("find_order", order="SO-1"),
        final("It is SO-1 in 奥斯陆."),
        final("All done."),
    ]
    done = drive(TASK, SPLIT, VIEW, replies)
    assert (done.ending.end, done.ending.answer, done.ending.steps) == (End.COMPLETED, "All done.", 3)
    assert [ask.purpose for ask in done.asks()] == ["decompose", "plan", "plan", "plan"]
    assert "part 1 of 2: find the order" in done.asks()[1].request.messages[-1].content
    assert "part 2 of 2: 把地址告诉客户" in done.asks()[3].request.messages[-1].content
    assert "It is SO-1 in 奥斯陆." in last_prompt(done)
    assert TASK.prompt in last_prompt(done)


def test_sub_goals_share_the_steps():
    config = changed(SPLIT, **{"budgets.steps": 3})
    done = drive(TASK, config, VIEW, [split_into("a", "b"), call("list_orders"), final("x"), call("list_orders", n=1)])
    assert (done.ending.end, done.ending.steps) == (End.BUDGET, 3)


def test_sub_goals_are_bounded():
    config = changed(SPLIT, **{"decomposition.max_subgoals": 2})
    done = drive(TASK, config, VIEW, [split_into(*"abcdefgh"), final("1"), final("2")])
    assert (done.ending.end, plans(done)) == (End.COMPLETED, 2)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "first this, then that",
        "[]",
        split_into(),
        split_into("only one"),
        split_into(" ", ""),
        '{"subgoals": [1, null]}',
        broken_model(),
    ],
)
def test_a_failed_split_falls_back_to_one_goal(said):
    done = drive(TASK, SPLIT, VIEW, [said, final("x")])
    assert (done.ending.end, plans(done)) == (End.COMPLETED, 1)
    assert "part 1" not in last_prompt(done)


def test_a_sub_goal_that_fails_ends_it():
    done = drive(TASK, SPLIT, VIEW, [split_into("a", "b"), broken_model()])
    assert done.ending.end is End.ERROR


def test_what_was_decided_in_the_first_part_is_known_in_the_last():
    """The room for summaries holds the eight answers, but not the long results beside them."""
    config = changed(SPLIT, **{"decomposition.max_subgoals": 8, "budgets.steps": 20, "short_term.summary_tokens": 250})
    parts = [f"part {n}" for n in range(8)]
    answers: list[Any] = [final("We decided on 方案甲.")]
    for n in range(1, 8):
        answers += [call("list_orders", n=n), final(f"Part {n} was nothing.")]
    result = gives("Where is the order SO-1? The order SO-1 is where it was. " * 9)
    done = drive(TASK, config, VIEW, [split_into(*parts), *answers], {"list_orders": result})
    assert done.ending.end is End.COMPLETED
    assert "方案甲" in last_prompt(done)


def test_done_in_one_part_leaves_the_tools_to_the_next():
    config = changed(SPLIT, **{"reflection.mode": "always"})
    replies = [split_into("a", "b"), call("list_orders"), judged("done"), final("1"), final("2")]
    done = drive(TASK, config, VIEW, replies)
    assert offered(done.asks("plan")[1]) == ["final_answer"]
    assert "list_orders" in offered(done.asks("plan")[2])


# -- short-term memory, routing, records ------------------------------------------------------------------------------


def test_compression_starts_after_the_last_three_steps():
    done = drive(TASK, QUIET, VIEW, [*numbered("list_orders", 5), final("x")], {"list_orders": gives("x" * 900)})
    shown = [sum(turn.role is Role.TOOL for turn in ask.request.messages) for ask in done.asks()]
    assert shown == [0, 1, 2, 3, 3, 3]
    (note,) = done.notes(Action.COMPRESSED)
    assert len(note.output["summary"]) == 1
    place = done.effects.index(note)
    assert sum(isinstance(one, Act) for one in done.effects[:place]) == 4
    cut = [line for line in last_prompt(done).splitlines() if line.startswith("- list_orders")]
    assert [len(line) <= 200 + len("- list_orders [ok]: ") for line in cut] == [True, True]
    assert TASK.prompt in last_prompt(done)


def test_a_tool_that_missed_too_often_is_no_longer_offered():
    outcomes = in_turn(*(failure(words) for words in ("no order", "no customer", "no street", "no town")))
    turns = [*numbered("find_order", 4, order="x"), final("x")]
    done = drive(TASK, QUIET, VIEW, turns, {"find_order": outcomes})
    assert ["find_order" in offered(ask) for ask in done.asks()] == [True] * 4 + [False]
    assert [one.output["dropped"] for one in done.notes(Action.ROUTED)] == [[], ["find_order"]]


def test_a_tool_that_hit_in_this_episode_is_still_offered():
    misses = [failure(words) for words in ("no order", "no customer", "no street", "no town")]
    outcomes = in_turn(Result("found"), *misses)
    turns = [*numbered("find_order", 5, order="x"), final("x")]
    done = drive(TASK, QUIET, VIEW, turns, {"find_order": outcomes})
    assert "find_order" in offered(done.asks()[-1])


def test_misses_in_passing_do_not_count():
    outcomes = in_turn(*(failure(words, transient=True) for words in ("busy", "locked", "down", "lost")))
    turns = [*numbered("find_order", 4, order="x"), final("x")]
    done = drive(TASK, QUIET, VIEW, turns, {"find_order": outcomes})
    assert "find_order" in offered(done.asks()[-1])


def test_policy_memory_counts():
    policy = PolicyMemory({("orders", "find_order"): ToolStats(hits=0, misses=4)})
    view = view_of(FIND, LIST, policy=policy)
    assert offered(drive(task_of(view), QUIET, view, [final("x")]).asks()[0]) == ["list_orders", "final_answer"]
    other = drive(task_of(view, type="visits"), QUIET, view, [final("x")])
    assert "find_order" in offered(other.asks()[0])


def test_the_record_says_where_it_failed_what_was_decided_and_what_came_of_it():
    done = drive(
        TASK,
        QUIET,
        VIEW,
        [call("find_order"), call("find_order", order="x"), call("cancel_order", order="SO-1"), final("已取消")],
        {"find_order": fails("no such order")},
    )
    (record,) = done.notes(Action.TASK_RECORDED)
    assert record.output["end"] == "completed"
    assert record.output["result"] == "已取消"
    assert [one["error_kind"] for one in record.output["failure_points"]] == ["bad_arguments", "tool_failed"]
    assert record.output["key_decisions"] == [{"tool": "cancel_order", "arguments": {"order": "SO-1"}}]
    assert record.output["tools"] == ["find_order", "cancel_order"]


def test_the_grader_is_not_recorded():
    task = task_of(VIEW, grader=Answer(items=("the secret answer",)))
    done = drive(task, PLAIN, VIEW, [final("x")])
    assert "the secret answer" not in payload.dumps([repr(one) for one in done.effects])


@pytest.mark.parametrize(
    ("replies", "end", "status"),
    [
        ([final("x")], End.COMPLETED, Status.OK),
        ([call("find_order", order="x"), judged("give_up", "logic_gap")], End.GAVE_UP, Status.ERROR),
        ([call("find_order")] * 3, End.DIVERGED, Status.ERROR),
        ([call("refund", order="x")] * 2, End.DENIED, Status.DENIED),
        ([reply(call("list_orders"), input_tokens=10**9)], End.BUDGET, Status.ERROR),
        ([broken_model(ErrorKind.TIMEOUT, Finish.TIMEOUT)], End.TIMEOUT, Status.TIMEOUT),
        ([broken_model()], End.ERROR, Status.ERROR),
    ],
)
def test_each_way_to_end(replies, end, status):
    done = drive(TASK, PLAIN, VIEW, replies, {"find_order": fails()})
    assert done.ending.end is end
    (ended,) = done.notes(Action.TASK_ENDED)
    assert (ended.name, ended.status) == (end, status)
    assert (ended.error_kind is None) == (end in (End.COMPLETED, End.GAVE_UP))
    assert bool(done.ending.reason) == (end is not End.COMPLETED)


# -- the same again ---------------------------------------------------------------------------------------------------

SCRIPT: list[Any] = [
    call("find_order"),
    call("find_order", order="SO-1"),
    judged("needs_fix", "bad_arguments", "cancel it"),
    call("cancel_order", order="SO-1"),
    call("refund", order="SO-1"),
    call("list_orders"),
    final("好了"),
]


def scripted(view: View) -> Driven:
    return drive(TASK, PLAIN, view, SCRIPT, {"find_order": fails()}, yes)


def test_the_same_outcomes_give_the_same_effects():
    first, second = scripted(view_of(FIND, LIST, CANCEL, REFUND)), scripted(VIEW)
    again = scripted(VIEW)  # with what the view remembers by now
    assert first.ending.end is End.COMPLETED
    assert first.effects == second.effects == again.effects
    assert first.ending == again.ending


def test_a_no_changes_the_effects():
    denied = drive(TASK, PLAIN, VIEW, SCRIPT, {"find_order": fails()}, lambda _: Decision(allowed=False, by="x"))
    assert denied.effects != scripted(VIEW).effects


def test_the_stable_parts_of_the_prompt_are_the_same_bytes_in_every_step():
    config = changed(
        QUIET,
        examples=(Example(request="取消", tool="cancel_order", arguments={"order": "SO-7"}),),
        rules=({"id": "r", "text": "Be brief.", "scope": "orders"},),
    )
    turns = [*numbered("list_orders", 5), call("cancel_order", order="SO-1"), final("x")]
    asks = drive(TASK, config, VIEW, turns).asks()
    assert len(asks) == 7
    assert len({payload.dumps([turn.content for turn in ask.request.messages[:2]]) for ask in asks}) == 1
    assert (
        len({payload.dumps([[one.name, one.description, one.parameters] for one in ask.request.tools]) for ask in asks})
        == 1
    )
    assert all(ask.request.schema == asks[0].request.schema for ask in asks)


def test_permits_and_acts_hold_the_same_arguments():
    done = drive(TASK, QUIET, VIEW, [call("refund", order="SO-1", n=3), final("x")], permits=yes)
    permit, act = [one for one in done.effects if isinstance(one, Permit | Act)]
    assert permit.arguments == act.arguments == {"order": "SO-1", "n": 3}
