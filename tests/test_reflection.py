"""Reflection as tables: when it is wanted, how its answer is read and checked, and when it escalates."""

from __future__ import annotations

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab import payload
from hermes_lab.checks import Past
from hermes_lab.config import Reflection
from hermes_lab.kinds import ErrorKind, Status
from hermes_lab.reflection import (
    SCHEMA,
    Help,
    Judgement,
    Reason,
    Verdict,
    checked,
    escalates,
    next_help,
    read,
    request,
    wanted,
)

OK = Past("find", {}, Status.OK)
FAILED = Past("find", {}, Status.ERROR, ErrorKind.TOOL_FAILED, "no such order")
REFUSED = Past("find", {}, Status.INVALID, ErrorKind.BAD_ARGUMENTS, "order is missing", ran=False)
DENIED = Past("find", {}, Status.DENIED, ErrorKind.NO_PERMISSION, "no", ran=False)
TIMED_OUT = Past("find", {}, Status.TIMEOUT, ErrorKind.TIMEOUT, "too slow", transient=True)


@pytest.mark.parametrize(
    ("last", "off", "on_failure", "always"),
    [
        (OK, False, False, True),
        (FAILED, False, True, True),
        (TIMED_OUT, False, True, True),
        (REFUSED, False, False, False),
        (DENIED, False, False, False),
        (None, False, False, False),
    ],
)
def test_when_it_is_wanted(last, off, on_failure, always):
    past = [FAILED, last] if last else []
    found = [wanted(Reflection(mode=mode), past, 0) for mode in ("off", "on_failure", "always")]
    assert found == [off, on_failure, always]


@pytest.mark.parametrize(("made", "most", "expected"), [(2, 3, True), (3, 3, False), (0, 0, False), (9, 3, False)])
def test_it_is_wanted_so_many_times_at_most(made, most, expected):
    assert wanted(Reflection(mode="always", max_reflections=most), [FAILED], made) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"status":"needs_fix","reason":"bad_arguments","corrected_instruction":" 用订单号 "}',
            Judgement(Verdict.NEEDS_FIX, Reason.BAD_ARGUMENTS, "用订单号", 0.5),
        ),
        (
            '{"status":"done","reason":"none","corrected_instruction":""}',
            Judgement(Verdict.DONE, Reason.NONE, "", 0.5),
        ),
        ('{"status":"give_up"}', Judgement(Verdict.GIVE_UP, Reason.NONE, "", 0.5)),
        ('{"status":"done","corrected_instruction":7}', Judgement(Verdict.DONE, Reason.NONE, "", 0.5)),
        ('{"status":"finished"}', None),
        ('{"status":"done","reason":"bored"}', None),
        ('{"status":["done"]}', None),
        ('{"status":"done","reason":{}}', None),
        ('{"status":null}', None),
        ("{}", None),
        ("[]", None),
        ("null", None),
        ("", None),
        ("It is done.", None),
        ('{"status":"done"', None),
        ("[" * 100_000, None),
        ('{"status":"\ud800"}', None),
    ],
)
def test_reading(text, expected):
    assert read(text, 0.5) == expected


@given(st.text() | st.text(st.characters(categories=["Cs"])) | st.recursive(st.none(), st.lists).map(payload.dumps))
def test_no_text_makes_reading_raise(text):
    assert read(text) is None


@given(
    st.sampled_from(Verdict), st.sampled_from(Reason), st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
)
def test_what_the_schema_allows_can_be_read(verdict, reason, instruction):
    value = {"status": verdict.value, "reason": reason.value, "corrected_instruction": instruction}
    assert jsonschema_rs.validator_for(SCHEMA).is_valid(value)
    assert read(payload.dumps(value)) == Judgement(verdict, reason, instruction.strip())


@pytest.mark.parametrize(
    ("verdict", "last", "expected"),
    [
        (Verdict.DONE, OK, Verdict.DONE),
        (Verdict.DONE, FAILED, Verdict.NEEDS_FIX),
        (Verdict.DONE, TIMED_OUT, Verdict.NEEDS_FIX),
        (Verdict.DONE, REFUSED, Verdict.NEEDS_FIX),
        (Verdict.GIVE_UP, FAILED, Verdict.GIVE_UP),
        (Verdict.GIVE_UP, OK, Verdict.GIVE_UP),
        (Verdict.NEEDS_FIX, OK, Verdict.NEEDS_FIX),
    ],
)
def test_done_is_held_against_the_tool_events(verdict, last, expected):
    said = Judgement(verdict, Reason.NONE, "go on", 0.7)
    found = checked(said, [OK, last])
    assert found.verdict is expected
    assert (found.instruction, found.confidence) == ("go on", 0.7)
    assert (found.reason is Reason.LOGIC_GAP) is (expected is not verdict)


FIX, DONE = Verdict.NEEDS_FIX, Verdict.DONE


@pytest.mark.parametrize(
    ("verdicts", "after", "expected"),
    [
        ([], 2, False),
        ([FIX], 2, False),
        ([FIX, FIX], 2, True),
        ([FIX, DONE], 2, False),
        ([FIX, DONE, FIX], 2, False),
        ([DONE, FIX, FIX], 2, True),
        ([FIX], 1, True),
        ([FIX, FIX], 3, False),
        ([FIX, FIX, FIX], 3, True),
    ],
)
def test_needs_fix_in_a_row_escalates(verdicts, after, expected):
    judgements = [Judgement(verdict) for verdict in verdicts]
    assert escalates(judgements, Reflection(escalate_after=after)) is expected


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize(
    ("confidence", "expected"), [(0.0, True), (0.29, True), (0.3, False), (1.0, False), (None, False)]
)
def test_too_unsure_escalates_whatever_it_says(verdict, confidence, expected):
    assert escalates([Judgement(verdict, confidence=confidence)], Reflection(min_confidence=0.3)) is expected


@pytest.mark.parametrize(
    ("current", "has_documents", "expected"),
    [
        (Help.NOWHERE, True, Help.DOCUMENTS),
        (Help.NOWHERE, False, Help.STRONG),
        (Help.DOCUMENTS, True, Help.STRONG),
        (Help.DOCUMENTS, False, Help.STRONG),
        (Help.STRONG, True, Help.STRONG),
        (Help.STRONG, False, Help.STRONG),
    ],
)
def test_first_to_the_documents_then_to_the_strong_tier(current, has_documents, expected):
    assert next_help(current, has_documents=has_documents) is expected


def test_the_question_holds_the_request_the_call_and_a_bounded_result():
    asked = request("取消订单", FAILED._replace(arguments={"order": "SO-1"}), "x" * 10_000, 64, 3)
    text = asked.messages[-1].content
    assert "取消订单" in text
    assert 'find {"order":"SO-1"}' in text
    assert "x" * 800 in text
    assert "x" * 801 not in text
    assert (asked.schema, asked.max_tokens, asked.seed, asked.temperature) == (SCHEMA, 64, 3, 0.0)
