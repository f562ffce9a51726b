"""The deterministic checks as tables: tool, arguments, precheck, repeats, dead loops, claims of being done."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_lab.checks import (
    Guards,
    Past,
    bad_arguments,
    check_call,
    diverged,
    failed_precheck,
    repeated,
    schema_error,
    unknown_tool,
    unsupported_claim,
    writes,
)
from hermes_lab.kinds import ErrorKind, Status
from hermes_lab.tools.base import Level, Problem, Spec

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order": {"type": "string", "minLength": 1, "pattern": "^SO-"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "price": {"type": "number"},
        "urgent": {"type": "boolean"},
        "way": {"enum": ["air", "sea", "陆运"]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "to": {"type": "object", "properties": {"城市": {"type": "string"}}, "required": ["城市"]},
    },
    "required": ["order"],
    "additionalProperties": False,
}
SHIP = Spec("ship", "Ship it.", SCHEMA, Level.EXECUTABLE)
FIND = Spec("find", "Find it.", {"type": "object"})
TOOLS = {"ship": SHIP, "find": FIND}


@pytest.mark.parametrize(
    "arguments",
    [
        {"order": "SO-1"},
        {"order": "SO-1", "count": 9, "price": 1, "urgent": True, "way": "陆运", "tags": [], "to": {"城市": "上海"}},
        {"order": "SO-1", "count": 3.0},
        {"order": "SO-\ud800"},
        {"order": "SO-1", "price": 10**30},
        {"order": "SO-1", "price": 10**400},
    ],
)
def test_sound_arguments(arguments):
    assert bad_arguments(SHIP, arguments) is None
    assert check_call("ship", arguments, TOOLS) is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, '"order" is a required property'),
        ({"order": 5}, "order: 5 is not of type"),
        ({"order": ""}, "order: "),
        ({"order": "X"}, "order: "),
        ({"order": None}, "order: "),
        ({"order": "SO-1", "count": "3"}, "count: "),
        ({"order": "SO-1", "count": 3.5}, "count: "),
        ({"order": "SO-1", "count": True}, "count: "),
        ({"order": "SO-1", "count": 10}, "count: 10 is greater than the maximum of 9"),
        ({"order": "SO-1", "urgent": "true"}, "urgent: "),
        ({"order": "SO-1", "way": "rail"}, '"rail" is not one of'),
        ({"order": "SO-1", "way": "rail"}, "陆运"),
        ({"order": "SO-1", "tags": ["a", 1]}, "tags.1: "),
        ({"order": "SO-1", "tags": ["a", "b", "c"]}, "tags: "),
        ({"order": "SO-1", "to": {}}, "to: "),
        ({"order": "SO-1", "收件人": "x"}, "收件人"),
        ({"order": "\ud800"}, "order: "),
        ({"order": "SO-1", "\ud800": 1}, "unexpected"),
        ({"order": "SO-1", "count": 10**400}, "count: "),
    ],
)
def test_bad_arguments(arguments, said):
    problem = check_call("ship", arguments, TOOLS)
    assert problem is not None
    assert problem.kind is ErrorKind.BAD_ARGUMENTS
    assert said in problem.message


def test_messages_are_bounded():
    many = {f"extra {n}": n for n in range(10_000)} | {"way": "x" * 100_000, "count": 99, "urgent": 3, "price": "y"}
    problem = bad_arguments(SHIP, many)
    assert problem is not None
    assert len(problem.message) < 1500


def test_a_tool_with_a_wrong_schema_is_not_to_be_used():
    wrong = Spec("odd", "Odd.", {"type": "nonsense"})
    problem = bad_arguments(wrong, {})
    assert problem is not None
    assert "odd has a wrong schema" in problem.message
    assert schema_error(wrong.parameters) is not None
    assert schema_error(SCHEMA) is None


def test_a_schema_that_refers_to_another_document_reads_neither_files_nor_the_network(tmp_path):
    other = tmp_path / "秘密.json"
    other.write_text('{"type": "string"}')
    spec = Spec("odd", "Odd.", {"type": "object", "properties": {"a": {"$ref": other.as_uri()}}})
    assert "may not refer to another document" in (schema_error(spec.parameters) or "")
    problem = bad_arguments(spec, {"a": "text"})
    assert problem is not None
    assert "odd has a wrong schema" in problem.message


def test_two_tools_of_one_name_and_other_schemas_are_told_apart():
    other = Spec("ship", "Ship it.", {"type": "object", "properties": {"order": {"type": "integer"}}})
    assert bad_arguments(SHIP, {"order": "SO-1"}) is None
    assert bad_arguments(other, {"order": "SO-1"}) is not None
    assert bad_arguments(SHIP, {"order": "SO-1"}) is None


leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.sampled_from(["\ud800", 10**400, 2**64, "\x00", "SO-1", "茶"])
)
values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("\udc00"), inner))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    name=st.text() | st.sampled_from(["ship", "find", "\ud800"]),
    arguments=st.dictionaries(st.sampled_from([*SCHEMA["properties"], "\ud800"]) | st.text(), values, max_size=4),
)
def test_no_call_makes_the_checks_raise(name, arguments):
    problem = check_call(name, arguments, TOOLS, [Past("ship", arguments, Status.OK), Past("find", {}, Status.OK)])
    assert problem is not None or name in TOOLS


@pytest.mark.parametrize("leaf", [1, "\ud800", 10**400], ids=["number", "surrogate", "huge"])
@pytest.mark.parametrize("depth", [100, 159, 199])
def test_deep_arguments_are_refused_or_pass_but_never_raise(depth, leaf):
    value: Any = leaf
    for _ in range(depth):
        value = {"to": value}
    problem = check_call("find", value, TOOLS, [Past("find", value, Status.OK)])
    assert problem is not None


# -- unknown tools, prechecks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "known", "close"),
    [
        ("find_orders", ["refund", "find_order"], "find_order"),
        ("FindOrder", ["refund", "find_order"], "find_order"),
        ("取消订单吧", ["退款", "取消订单"], "取消订单"),
        ("zzz", ["a1", "b2"], "a1, b2"),
        ("\ud800", ["a1"], "a1"),
        ("x" * 10_000, ["a1"], "a1"),
    ],
)
def test_an_unknown_tool_is_answered_with_those_that_come_closest(name, known, close):
    problem = unknown_tool(name, known)
    assert problem.kind is ErrorKind.UNKNOWN_TOOL
    assert close in problem.message
    assert len(problem.message) < 400


def test_where_there_are_no_tools_it_says_to_answer():
    assert "answer" in unknown_tool("find", []).message


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, None),
        ("给出城市", Problem(ErrorKind.PRECHECK_FAILED, "给出城市")),
        (Problem(ErrorKind.OUT_OF_SCOPE, "only SELECT"), Problem(ErrorKind.OUT_OF_SCOPE, "only SELECT")),
    ],
)
def test_what_a_precheck_finds(found, expected):
    spec = Spec("x", "X.", {"type": "object"}, precheck=lambda given: found)
    assert failed_precheck(spec, {}) == expected


def test_a_precheck_that_breaks_refuses():
    spec = Spec("x", "X.", {"type": "object"}, precheck=lambda given: given["城市"])
    problem = failed_precheck(spec, {})
    assert problem is not None
    assert problem.kind is ErrorKind.PRECHECK_FAILED
    assert "KeyError: '城市'" in problem.message


def test_a_precheck_sees_only_sound_arguments():
    seen = []
    spec = Spec("ship", "Ship.", SCHEMA, precheck=lambda given: seen.append(dict(given)))
    assert check_call("ship", {}, {"ship": spec}) is not None
    assert check_call("ship", {"order": "SO-1"}, {"ship": spec}) is None
    assert seen == [{"order": "SO-1"}]


@pytest.mark.parametrize(
    ("guards", "arguments", "kind"),
    [
        (Guards(), {}, ErrorKind.BAD_ARGUMENTS),
        (Guards(arguments=False), {}, ErrorKind.PRECHECK_FAILED),
        (Guards(arguments=False, prechecks=False), {}, ErrorKind.REPEATED_CALL),
        (Guards(arguments=False, prechecks=False, repeats=False), {}, None),
    ],
)
def test_each_guard_is_one_check(guards, arguments, kind):
    spec = Spec("ship", "Ship.", SCHEMA, precheck=lambda given: "never")
    problem = check_call("ship", arguments, {"ship": spec}, [Past("ship", {}, Status.OK)], guards)
    assert (problem.kind if problem else None) is kind
    unknown = check_call("sip", {}, {"ship": spec}, (), guards)
    assert unknown is not None
    assert unknown.kind is ErrorKind.UNKNOWN_TOOL


# -- repeats ----------------------------------------------------------------------------------------------------------

READ = Past("find", {"a": 1}, Status.OK)
READ_FAILED = READ._replace(status=Status.ERROR, error="no such order")
BUSY = READ._replace(status=Status.ERROR, error="busy", transient=True)
OTHER = Past("find", {"a": 2}, Status.OK)
REFUSED = READ._replace(status=Status.INVALID, ran=False)
CHANGED = Past("ship", {}, Status.OK, writes=True)
NOT_CHANGED = CHANGED._replace(status=Status.ERROR)
WRITE = Past("find", {"a": 1}, Status.OK, writes=True)


@pytest.mark.parametrize(
    ("past", "refused"),
    [
        ([], False),
        ([OTHER], False),
        ([Past("ship", {"a": 1}, Status.OK)], False),
        ([REFUSED], False),
        ([READ], True),
        ([READ_FAILED], True),
        ([BUSY], False),
        ([BUSY, BUSY], False),
        ([BUSY, BUSY, BUSY], True),
        ([BUSY, OTHER, BUSY, OTHER, BUSY], True),
        ([BUSY, READ], True),
        ([BUSY, READ_FAILED], True),
        ([READ, CHANGED], False),
        ([READ, NOT_CHANGED], True),
        ([CHANGED, READ], True),
        ([READ_FAILED, CHANGED], False),
        ([WRITE, CHANGED], True),
        ([READ, OTHER, REFUSED], True),
    ],
)
def test_when_a_repeat_is_refused(past, refused):
    problem = repeated("find", {"a": 1}, past)
    assert (problem is not None) is refused
    if problem is not None:
        assert problem.kind is ErrorKind.REPEATED_CALL
        assert "answer" in problem.message


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": {"x": [1], "y": 2}}, {"a": {"y": 2, "x": [1]}}, True),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": "é"}, {"a": "e\u0301"}, False),
        ({"a": "\ud800"}, {"a": "\ud800"}, True),
        ({"a": "\ud800"}, {"a": "\ud801"}, False),
        ({}, {"a": None}, False),
        ({"a": 2**70}, {"a": 2**70 + 1}, False),
    ],
)
def test_when_arguments_are_the_same(first, second, same):
    assert (repeated("find", second, [Past("find", first, Status.OK)]) is not None) is same


# -- dead loops -------------------------------------------------------------------------------------------------------


def failed(error: str, tool: str = "find", kind: ErrorKind = ErrorKind.TOOL_FAILED, **arguments: Any) -> Past:
    return Past(tool, arguments, Status.ERROR, kind, error)


@pytest.mark.parametrize(
    ("past", "expected"),
    [
        ([], False),
        ([failed("x")] * 2, False),
        ([failed("x")] * 3, True),
        ([failed("x"), READ, failed("x"), OTHER, failed("x")], True),
        ([failed("x"), failed("x"), failed("x"), READ], False),
        ([failed("x"), failed("x"), failed("y")], False),
        ([failed("x"), failed("x"), failed("x", tool="ship")], False),
        ([failed("x"), failed("x"), failed("x", kind=ErrorKind.NOT_FOUND)], False),
        ([failed("x"), failed("y"), failed("x"), failed("y"), failed("x")], True),
        ([failed("没有 order 7", n=1), failed("没有 order 8", n=2), failed("没有 order 9", n=3)], True),
        ([failed(f"no order {n}", order=f"{n}") for n in (41, 52, 63)], False),
        ([failed(f"request {n} at 12:0{n}") for n in ("9f3a", "01bc", "77dd")], True),
        ([failed("x", a="\ud800")] * 3, True),
    ],
)
def test_three_same_failures_of_one_tool_diverge(past, expected):
    assert diverged(past) is expected


def test_refusals_count_as_failures():
    refusal = Past("find", {"a": 1}, Status.INVALID, ErrorKind.BAD_ARGUMENTS, "a is missing", ran=False)
    assert diverged([refusal] * 3)
    again = [
        Past("find", {"a": n}, Status.INVALID, ErrorKind.REPEATED_CALL, f"again {words}", ran=False)
        for n, words in enumerate(["one", "two", "three"])
    ]
    assert diverged(again)


# -- claims -----------------------------------------------------------------------------------------------------------

PAID = Past("pay", {}, Status.OK, writes=True)
NOT_PAID = PAID._replace(status=Status.ERROR, error="no money")


@pytest.mark.parametrize(
    ("past", "contradicts"),
    [
        ([], None),
        ([PAID], None),
        ([NOT_PAID], NOT_PAID),
        ([PAID._replace(status=Status.TIMEOUT)], PAID._replace(status=Status.TIMEOUT)),
        ([PAID._replace(status=Status.INVALID, ran=False)], PAID._replace(status=Status.INVALID, ran=False)),
        ([PAID._replace(status=Status.DENIED, ran=False)], None),
        ([READ_FAILED], None),
        ([NOT_PAID, PAID], None),
        ([PAID, NOT_PAID], NOT_PAID),
    ],
)
def test_a_claim_is_contradicted_by_a_last_change_that_failed(past, contradicts):
    assert unsupported_claim(past) == contradicts


@pytest.mark.parametrize(
    ("level", "expected"), [(Level.READ_ONLY, False), (Level.EXECUTABLE, True), (Level.HIGH_RISK, True)]
)
def test_what_may_change_something(level, expected):
    assert writes(Spec("x", "X.", {}, level)) is expected
    assert writes(None) is False
