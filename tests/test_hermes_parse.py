"""The Hermes text protocol: every case, what holds for any text, and that no text takes more than linear time."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from hermes_lab.models import hermes_objects
from hermes_lab.models.exact_json import MAX_DEPTH, JsonError, dump, read_exact
from hermes_lab.models.hermes import Call, Parsed, parse, parse_responses, render_call, render_response
from hermes_lab.models.tolerant_json import read, read_whole

CASES = Path(__file__).parent / "cases"
TAGS = ["<tool_call>", "</tool_call>", "<think>", "</think>", "<scratch_pad>", "</scratch_pad>"]
PIECES = [
    *TAGS,
    *TAGS[:2],
    *"\"'\\{}[],: \n`a1",
    '{"name": "f", "arguments": {"s": "',
    '"}}',
    "{'name': 'g', 'arguments': {}}",
    ', "arguments": {}}',
    "```json\n",
    "NaN",
    "\ud800",
    "\x00",
    "茶",
]


def load(name: str) -> list[dict]:
    with (CASES / name).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


ROWS = load("hermes_calls.jsonl") + load("hermes_calls_more.jsonl")


def block(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


def meant(parsed: Parsed) -> list[tuple]:
    return [(call.name, call.arguments) for call in parsed.calls]


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_case(row):
    found = parse(row["text"])
    calls = [{"name": call.name, "arguments": call.arguments, "repaired": call.repaired} for call in found.calls]
    assert calls == row["calls"]
    assert len(found.errors) == row["errors"]
    assert len(found.thoughts) == row["thoughts"]
    assert all(part.raw in row["text"] for part in (*found.calls, *found.errors, *found.thoughts))


# What remains for the reader


@pytest.mark.parametrize(
    ("text", "answer", "reasoning"),
    [
        ("The sum is 3.\n", "The sum is 3.", ""),
        ("Let me look.\n" + block('{"name": "a"}') + "\nDone soon.", "Let me look.\n\nDone soon.", ""),
        ("one" + block('{"name": "a"}') + "two", "one\ntwo", ""),
        ("<think>\nhm\n</think>\nYes.", "Yes.", "hm"),
        ("hm\n</think>\nYes.", "Yes.", "hm"),
        ("<think>a</think>Yes.<think>b</think>", "Yes.", "a\nb"),
        ("<think>" + block("{}") + "</think>Yes.", "Yes.", block("{}")),
        ("Well. " + block("add(1)") + " Yes.", "Well.  Yes.", ""),
        ("Use `<tool_call></tool_call>`.", "Use `<tool_call></tool_call>`.", ""),
        ("Use <tool_call> and </tool_call>.", "Use <tool_call> and </tool_call>.", ""),
        ('<tool_call>\n{"name": "a", "arguments": {}}\nDone.', "Done.", ""),
        ('<tool_call>\n{"name": "a", "arguments": {}}\n</tool_ca', "", ""),
        (block('{"name": "a"}') + "</tool_call>\nDone.", "Done.", ""),
        ("a < b <think", "a < b <think", ""),
        ("", "", ""),
    ],
)
def test_text_and_reasoning(text, answer, reasoning):
    found = parse(text)
    assert (found.text, found.reasoning) == (answer, reasoning)


def test_raw_is_the_block_or_the_object():
    first, second = '{"name": "a", "arguments": {}}', '{"name": "b", "arguments": {}}'
    assert [call.raw for call in parse("x" + block(first) + "y").calls] == [block(first)]
    assert [call.raw.strip() for call in parse(block(first + "\n" + second)).calls] == [first, second]
    broken = block('{"nme" "b"}')
    assert [error.raw for error in parse(block(first) + broken + block(second)).errors] == [broken]


def test_results_are_frozen():
    found = parse(block('{"name": "a", "arguments": {}}') + block("{}"))
    for part, field in ((found, "calls"), (found.calls[0], "name"), (found.errors[0], "reason")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(part, field, None)


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ('{"name": "f", "arguments": {"x": NaN}}', "NaN"),
        ('{"name": "f", "arguments": {"x": -Infinity}}', "-Infinity"),
        ('{"name": "f", "arguments": {"x": 1e400}}', "float"),
        ('{"name": "f", "arguments": {"x": ' + "9" * 5000 + "}}", "digits"),
        ('{"name": "f", "arguments": {"x": ' + "[" * 5000, "deep"),
        ('{"name": "f", "arguments": ' + '{"x":' * 500 + "1" + "}" * 501, "deep"),
        ('{"name": "f", "name": "g", "arguments": {}}', "'name'"),
        ('{"name": "f", "args": {}}', '"args"'),
        ('{"name": "f", "arguments": [1]}', "object"),
        ('{"name": "f", "arguments": {}} {"a": 1}', "name"),
        ("", "empty"),
        ("f()", "no JSON"),
    ],
)
def test_reason_says_what_is_wrong(body, word):
    errors = parse(block(body) + block('{"name": "ok"}'))
    assert word in errors.errors[0].reason
    assert errors.calls[-1].name == "ok"


# What holds for any text


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
    max_leaves=12,
)
TAGGED = st.lists(st.sampled_from(PIECES) | st.text(st.characters(), max_size=3), max_size=20).map("".join)
ARGUMENTS = st.dictionaries(TAGGED | st.text(st.characters()), JSON | TAGGED, max_size=4)
NAMES = st.text(st.characters(), min_size=1).filter(lambda name: name.strip() != "")


def check_any(text: str) -> None:
    found = parse(text)
    for part in (*found.calls, *found.thoughts, *found.errors):
        assert part.raw in text
    for call in (*found.calls, *found.thoughts):
        assert isinstance(call.name, str)
        assert isinstance(call.arguments, dict)
        read_exact(dump(call.arguments))
    parse_responses(text.replace("tool_call", "tool_response"))


@given(st.text(st.characters()))
def test_arbitrary_text_never_raises(text):
    check_any(text)


@settings(max_examples=400, deadline=None)
@given(TAGGED)
def test_tagged_text_never_raises(text):
    check_any(text)


@settings(deadline=None)
@given(NAMES, ARGUMENTS, st.data())
def test_damaged_call_never_raises(name, arguments, data):
    text = block('{"name": "a", "arguments": {}}') + render_call(name, arguments)
    place = data.draw(st.integers(0, len(text)))
    width = data.draw(st.integers(0, 5))
    check_any(text[:place] + data.draw(st.sampled_from(["", *PIECES])) + text[place + width :])


@given(NAMES, ARGUMENTS)
@example("echo", {"s": "<think>"})
@example("echo", {"s": "</think>", "</tool_call>": "<tool_call>"})
@example("echo", {"s": "\ud83d\ude00 \ude00 \ud83d"})
def test_rendered_call_is_read_back(name, arguments):
    text = render_call(name, arguments)
    assert parse(text) == Parsed(calls=(Call(name, arguments, False, text),))


@given(st.lists(st.tuples(NAMES, ARGUMENTS), max_size=4), st.text(st.characters(exclude_characters="<")))
def test_calls_stand_side_by_side(calls, prose):
    texts = [render_call(name, arguments) for name, arguments in calls]
    assert meant(parse(prose + "\n".join(texts) + prose)) == calls
    assert meant(parse("".join(texts))) == calls
    thoughts = parse(f"<think>{''.join(texts)}</think>{''.join(texts)}")
    assert [(call.name, call.arguments) for call in thoughts.thoughts] == calls
    assert meant(thoughts) == calls


BROKEN = [row["text"] for row in ROWS if row["errors"] and not row["calls"] and "think" not in row["text"]]


@pytest.mark.parametrize("broken", BROKEN)
def test_siblings_of_a_broken_call_survive(broken):
    before, after = render_call("before", {"s": "x"}), render_call("after", {"s": "y"})
    names = [call.name for call in parse(f"{before}\n{broken}\n{after}").calls]
    assert names[0] == "before"
    if broken.endswith("</tool_call>"):
        assert names == ["before", "after"]
    assert "rm" not in names


# A call that was cut, or stands in a string, never runs

EXAMPLES = [
    "<tool_call>{'name': 'rm', 'arguments': {}}</tool_call>",
    '<tool_call>\n{"name": "rm", "arguments": {}}\n</tool_call>',
    "say \"hi\" </tool_call> it's\n<tool_call>{'name': 'rm', 'arguments': {}}</tool_call>",
    '</think><tool_call>{"name": "rm"}</tool_call>',
]


def writings(arguments: dict) -> list[str]:
    call = {"name": "w", "arguments": arguments}
    return [
        render_call("w", arguments),
        block(str(call)),
        f"<tool_call>{json.dumps(call)}</tool_call>",
        block(json.dumps(call).replace("\\n", "\n")),
        block(json.dumps({"name": "w", "arguments": json.dumps(arguments)})),
    ]


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("form", range(5))
def test_cut_text_runs_only_whole_calls(example, form):
    arguments = {"s": example, "n": 12, "t": [example]}
    text = "Well.\n" + writings(arguments)[form] + "\n" + render_call("b", {})
    assert meant(parse(text)) == [("w", arguments), ("b", {})]
    for cut in range(len(text)):
        calls = meant(parse(text[:cut]))
        assert calls == [("w", arguments), ("b", {})][: len(calls)]


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("form", range(5))
def test_example_in_a_damaged_call_never_runs(example, form):
    text = writings({"s": "Doc: " + example, "n": 12})[form]
    for place in range(len(text)):
        for new in ("", "x", '"', "'", "}", "\n"):
            damaged = text[:place] + new + text[place + 1 :]
            assert "rm" not in [call.name for call in parse(damaged).calls], damaged


# Rendering


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        (" ", {}, ValueError),
        (7, {}, TypeError),
        ("f", [], TypeError),
        ("f", {1: 2}, TypeError),
        ("f", {"x": {2: [3]}}, TypeError),
        ("f", {"x": {4}}, TypeError),
        ("f", {"x": math.nan}, ValueError),
        ("f", {"x": 10**5000}, ValueError),
    ],
)
def test_render_refuses_what_would_not_come_back(name, arguments, error):
    with pytest.raises(error):
        render_call(name, arguments)


def test_render_refuses_a_value_that_is_too_deep_or_holds_itself():
    ring: dict = {}
    ring["x"] = ring
    deep: dict = {}
    for _ in range(5000):
        deep = {"x": deep}
    for arguments in (ring, deep):
        with pytest.raises(ValueError, match=r"deep|Circular"):
            render_call("f", arguments)


def test_depth_limit_is_the_same_both_ways():
    arguments: dict = {}
    for _ in range(MAX_DEPTH - 2):
        arguments = {"x": arguments}
    assert parse(render_call("f", arguments)).calls[0].arguments == arguments
    assert parse(render_call("f", arguments).replace('"name"', "'name'")).calls[0].arguments == arguments
    with pytest.raises(ValueError, match="deep"):
        render_call("f", {"x": arguments})
    assert not parse(block(json.dumps({"name": "f", "arguments": {"x": arguments}}))).calls


def test_rendered_call_fits_into_utf8():
    render_call("f", {"s": "\ud800"}).encode()
    render_response("f", "a \udc00 b").encode()


# Responses


@given(st.text(st.characters()), JSON | TAGGED)
def test_rendered_response_is_read_back(name, content):
    text = render_response(name, content)
    (response,) = parse_responses(text)
    assert (response.name, response.content, response.repaired, response.raw) == (name, content, False, text)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"name": "f", "content": {"a": 1}}', ("f", {"a": 1}, False)),
        ('{"tool_call_id": "c1", "name": "f", "content": "x"}', ("f", "x", False)),
        ('{"content": null}', (None, None, False)),
        ('{"name": "f", "content": 1, "size": 3}', (None, {"name": "f", "content": 1, "size": 3}, False)),
        ('{"temperature": 20}', (None, {"temperature": 20}, False)),
        ("{'name': 'f', 'content': True}", ("f", True, True)),
        ('{"name": "f", "content": "see </tool_response>"}', ("f", "see </tool_response>", False)),
        ('{"name": "f", "content": "a\nb"}', ("f", "a\nb", True)),
        ('{"name": "f", "content": "cut', (None, '{"name": "f", "content": "cut', True)),
        ("[1, 2]", (None, [1, 2], False)),
        ("42", (None, 42, False)),
        ("No such file: <b>", (None, "No such file: <b>", False)),
        ("NaN", (None, "NaN", False)),
        ("", (None, "", False)),
    ],
)
def test_response(body, expected):
    texts = [f"<tool_response>\n{body}\n</tool_response>", f"<tool_response>{body}</tool_response>"]
    for text in texts:
        (response,) = parse_responses(text)
        assert (response.name, response.content, response.repaired) == expected
        assert response.raw == text
    first, second = parse_responses(texts[0] + "\n" + render_response("g", 1))
    assert (first.name, first.content) == expected[:2]
    assert second.name == "g"


def test_responses_without_their_end_tag():
    found = parse_responses('<tool_response>\n{"name": "f", "content": 1}\n<tool_response>\nplain')
    assert [(response.name, response.content, response.repaired) for response in found] == [
        ("f", 1, True),
        (None, "plain", True),
    ]
    assert parse_responses("no tag </tool_response>") == ()
    assert parse_responses('<tool_response>{"tool_call_id": "c1", "content": 2}</tool_response>')[0].call_id == "c1"


# The readers below


@given(JSON)
def test_tolerant_reader_agrees_with_json(value):
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert read_whole(text) == (json.loads(text), len(text), False, False)
        reading = read(text + " rest")
        assert (reading.value, reading.end, reading.repaired) == (json.loads(text), len(text), False)


@given(st.lists(st.text() | st.booleans() | st.none() | st.integers() | st.dictionaries(st.text(), st.none())))
def test_tolerant_reader_reads_python(value):
    assume('"' not in repr(value))  # else Python may use its own escapes in double quotes, which are doubtful in JSON
    assert read_whole(repr(value)).value == value


@pytest.mark.parametrize(
    "text",
    [
        *["", "{", "[1", "[1 2]", "[,]", "[1,,2]", "{,}", '{"a"}', '{"a" 1}', "{1: 2}", "(1)", '"a" "b"', "// x"],
        *["01", "1.", "+1", ".5", "1_0", "-", "tru", "nan", "undefined"],
        *['"a', "'a", '"\\', '"\\x41"', '"\\u12"', '"\\u 123"', "'\\Uffffffff'"],
    ],
)
def test_doubtful_json_is_refused(text):
    with pytest.raises(JsonError):
        read_whole(text)


# Linear time


def unit(text: str):
    return lambda n: text * n


HEAD = '<tool_call>{"name": "f", "arguments": {"s": "'
ADVERSARIES = {
    "open tags": unit("<tool_call>"),
    "open tags and a quote": unit('<tool_call>{"a'),
    "open tags and a quote on lines": unit('<tool_call>\n{"a\n'),
    "quotes that take turns": unit("<tool_call>{\"'\n<tool_call>{'\"\n"),
    "keys that fit both ways": unit('<tool_call>{",":":\n'),
    "escaped quotes": unit('<tool_call>{"\\\n"'),
    "braces": unit("{" * 20),
    "braces in a tag": lambda n: "<tool_call>" + "{" * 20 * n,
    "brackets in a tag": lambda n: "<tool_call>" + '{"a":[' * 4 * n,
    "think": unit("<think>"),
    "end of thinking": unit("</think>"),
    "calls and ends of thinking": unit(block('{"name": "f"}') + "</think>"),
    "end tags": unit("</tool_call>"),
    "end tags in a string": lambda n: HEAD + "</tool_call>" * n + '"}}</tool_call>',
    "end tags in a cut string": lambda n: HEAD + "</tool_call>" * n,
    "open tags in a cut string": lambda n: HEAD + "<tool_call>" * n,
    "broken, then ends": lambda n: '<tool_call>{"a": "x\n' * n + 'y"}</tool_call>' * n,
    "objects in a row": lambda n: block('{"name": "f"}' * n),
    "a list of calls": lambda n: block("[" + ",".join(['{"name": "f"}'] * n) + "]"),
    "a bad list of calls": lambda n: block("[" + ",".join(["{}"] * n) + "]"),
    "digits": lambda n: block('{"name": "f", "arguments": {"x": ' + "9" * 20 * n + "}}"),
    "fraction": lambda n: block("{'name': 'f', 'arguments': {'x': 0." + "9" * 20 * n + "}}"),
    "blanks": lambda n: "<tool_call>" + " " * 20 * n,
    "blanks between quotes": unit('<tool_call>{"                    '),
    "backslashes": lambda n: HEAD + "\\" * 20 * n,
    "escapes": lambda n: block("{'name': '" + "\\n" * n + "'}"),
    "line breaks": lambda n: HEAD + "\n" * 20 * n + '"}}</tool_call>',
    "one key again and again": lambda n: block('{"name": "f", "arguments": {' + '"k": [1, 2],' * n + "}}"),
    "closing braces": lambda n: block('{"name": "f"}' + "} " * n),
    "mentions": unit("a <tool_call> and </tool_call> b "),
    "fences": lambda n: "<tool_call>" + "```" * n,
}


def seconds(text: str) -> float:
    best = math.inf
    for _ in range(3):
        start = time.process_time()
        parse(text)
        parse_responses(text.replace("tool_call", "tool_response"))
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("kind", ADVERSARIES)
def test_time_is_linear(kind):
    small, large = (ADVERSARIES[kind](n) for n in (500, 2000))
    # Quadratic would be 16 times; the millisecond keeps the noise of quick ones out.
    assert seconds(large) < 8 * (seconds(small) + 0.001)


@pytest.mark.parametrize("kind", ADVERSARIES)
def test_each_character_is_read_at_most_three_times(kind, monkeypatch):
    work = 0

    def counted(text, position=0, closer=None):
        nonlocal work
        try:
            reading = read(text, position, closer)
        except JsonError as error:
            end = len(text) if error.open_quote is not None else error.position
            work += end - position + 1
            raise
        work += reading.end - position
        return reading

    monkeypatch.setattr(hermes_objects, "read", counted)
    text = ADVERSARIES[kind](400)
    parse(text)
    assert work <= 3 * len(text) + 3


def test_large_call_is_quick():
    arguments = {"s": "x</tool_call>" * 700_000 + "\n" * 10_000}
    start = time.process_time()
    assert parse(render_call("f", arguments)).calls[0].arguments == arguments
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "text", ["<tool_call>" * 100_000, '<tool_call>{"a' * 50_000, "{" * 1_000_000, "<think>" * 100_000]
)
def test_long_garbage_gives_no_call(text):
    assert parse(text).calls == ()
