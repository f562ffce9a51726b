"""Payloads: every value that JSON can hold comes back as it went in, and nothing else is let in."""

import datetime as dt
import json
import math
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from log_samples import ODD_TEXTS, json_values, same, texts

from hermes_lab import payload
from hermes_lab.errors import EventError
from hermes_lab.events import Action


def nested(levels: int, leaf: object) -> object:
    for i in range(levels):
        leaf = [leaf] if i % 2 else {"键": leaf}
    return leaf


@given(json_values)
@example({"$float": "NaN"})
@example({"$float": math.nan})
@example({"$spill": {"$$spill": {"$float": [-math.inf, "\ud800"]}}})
@example({"\ud83d\ude00": "\ud83d\U0001f600"})
@example(-(10**4000))
@settings(deadline=None, max_examples=300)
def test_values_come_back_from_their_stored_form(value):
    stored = payload.store_text(payload.dumps(value))
    stored.encode()  # nothing in it that UTF-8 cannot hold
    assert same(payload.loads(payload.restore_text(stored)), value)


@given(texts)
@settings(deadline=None, max_examples=300)
def test_text_comes_back_from_its_stored_form(text):
    stored = payload.store_text(text)
    assert stored.encode().decode() == stored
    assert payload.restore_text(stored) == text


@given(texts, texts)
@settings(deadline=None, max_examples=200)
def test_different_texts_have_different_stored_forms(a, b):
    assert (payload.store_text(a) == payload.store_text(b)) == (a == b)


@given(json_values)
@settings(deadline=None, max_examples=200)
def test_dumps_is_plain_json_without_the_names_of_floats(value):
    def refuse(name):
        raise AssertionError(name)

    json.loads(payload.dumps(value), parse_constant=refuse)


nested_texts = st.recursive(st.one_of(texts, st.integers()), lambda s: st.lists(s, max_size=3), max_leaves=6)


def keeps_its_meaning(value):
    text = json.dumps(value)  # every lone surrogate is an escape here
    stored = payload.store_text(payload.check_json(text))
    json.dumps(json.loads(stored), ensure_ascii=False).encode()  # no lone surrogate left: DuckDB would fail over it
    assert json.loads(payload.restore_text(stored)) == json.loads(text)


@given(nested_texts.filter(lambda value: not re.search("[\ud800-\udfff]", json.dumps(value, ensure_ascii=False))))
@example(["\\ud800", "\\\\ud83d\\ude00", "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")])
@settings(deadline=None, max_examples=100)
def test_escaped_json_of_others_keeps_its_meaning(value):
    keeps_its_meaning(value)


@given(nested_texts)
@example(["\ud800", "\\ud800", "\\\ud800", "\ud83d\ude00", "\ud800\udc00\udc00"])
@settings(deadline=None, max_examples=100)
def test_escaped_lone_surrogates_of_others_keep_their_meaning(value):
    keeps_its_meaning(value)


def test_check_json_returns_the_very_text_where_nothing_needs_a_change():
    text = '{"a": "密钥", "b": 1e400, "c": [ ]}'
    assert payload.check_json(text) is text


@pytest.mark.parametrize("text", ["", "{", "nul", "{'a':1}", '{"a":NaN}', "[1,]", '"\x01"', "1 2", "\ufeff1"])
def test_check_json_refuses_what_is_no_json(text):
    with pytest.raises(EventError, match="is not JSON"):
        payload.check_json(text)


def test_tuples_become_lists_and_enums_of_text_their_text():
    assert payload.loads(payload.dumps((1, (2,), {"a": Action.FEEDBACK}))) == [1, [2], {"a": "feedback"}]


def test_output_is_compact_and_readable():
    assert payload.dumps({"城市": "上海", "n": [1, 2.5, None, True]}) == '{"城市":"上海","n":[1,2.5,null,true]}'


@pytest.mark.parametrize("leaf", [1, math.nan, "密", {}, []], ids=repr)
def test_nesting_up_to_the_limit_comes_back(leaf):
    levels = payload.MAX_DEPTH - (1 if isinstance(leaf, dict | list) else 0)
    value = nested(levels, leaf)
    assert same(payload.loads(payload.dumps(value)), value)


@pytest.mark.parametrize("levels", [payload.MAX_DEPTH + 1, 500, 100_000])
def test_nesting_past_the_limit_is_refused_with_the_path(levels):
    value: object = 0
    for _ in range(levels):
        value = [value]
    with pytest.raises(EventError, match=r"200 levels.*\$\[0\]\[0\]\[0\]"):
        payload.dumps(value)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (object(), r"^\$ is a object"),
        (b"bytes", r"^\$ is a bytes"),
        ({1, 2}, r"^\$ is a set"),
        ({"rows": [0, 1, 2, {"when": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}]}, r"^\$\.rows\[3\]\.when is a datetime"),
        ([[{"城市": 1j}]], r"^\$\[0\]\[0\]\.城市 is a complex"),
        ({"a": {1: "x"}}, r"^\$\.a has the key 1, .*str\(1\)"),
        ({None: 1}, r"^\$ has the key None"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_the_path(value, path):
    with pytest.raises(EventError, match=path):
        payload.dumps(value)


def test_an_int_of_too_many_digits_is_refused():
    with pytest.raises(EventError, match="4300 digits cannot be stored: pass it as text"):
        payload.dumps({"n": [10**5000]})


@pytest.mark.parametrize("text", ["", "{", "[1", '{"a" 1}', "[" * 100_000])
def test_loads_refuses_what_is_no_json(text):
    with pytest.raises(EventError, match="this payload is not JSON"):
        payload.loads(text)


@pytest.mark.parametrize("text", ODD_TEXTS, ids=ascii)
def test_odd_texts_come_back_as_value_and_as_key(text):
    assert payload.loads(payload.restore_text(payload.store_text(payload.dumps({text: text})))) == {text: text}
