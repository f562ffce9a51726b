"""Lines of the log: what is known of an event is trusted only where it is sound, and changes nothing of its line."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from hermes_lab import payload
from hermes_lab.errors import EventError
from hermes_lab.events import Action, Event, encode
from hermes_lab.log import new_id
from hermes_lab.log.layout import Layout
from hermes_lab.log.lines import Known, LineMaker
from hermes_lab.log.redact import Redactor

KEY = "sk-" + "a1B2c3D4" * 5
NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)


def event(**columns: Any) -> Event:
    return Event(event_id=new_id(), ts=NOW, action=Action.TOOL_CALLED, **columns)


def maker(folder: Path, redactor: Redactor, spill_over: int = 10_000) -> LineMaker:
    layout = Layout(folder / "events")
    layout.create()
    return LineMaker(layout, redactor, spill_over)


def test_the_word_of_this_very_redactor_counts_and_no_others(tmp_path: Path) -> None:
    redactor, other = Redactor({}), Redactor({})
    lines = maker(tmp_path, redactor)
    one = event(input=payload.dumps({"note": KEY}))
    assert KEY.encode() not in lines.clean([lines.make(one, Known(searched_by=other))])
    assert KEY.encode() not in lines.clean([lines.make(one)])
    assert lines.make(one, Known(searched_by=redactor)).searched
    assert not lines.make(one, Known(searched_by=other)).searched


def test_a_searched_line_vouches_for_no_other_of_its_batch(tmp_path: Path) -> None:
    redactor = Redactor({})
    lines = maker(tmp_path, redactor)
    events = [event(name=f"第{n}", input=payload.dumps({"n": n, "key": KEY if n % 2 else "none"})) for n in range(6)]
    batch = [lines.make(one, Known(True, None if n % 2 else redactor)) for n, one in enumerate(events)]
    data = lines.clean(batch)
    assert KEY.encode() not in data
    read = [json.loads(line) for line in data.splitlines()]
    assert [(row["name"], json.loads(row["input"])["n"]) for row in read] == [(f"第{n}", n) for n in range(6)]


@pytest.mark.parametrize("known", [Known(), Known(written_json=True)])
@pytest.mark.parametrize(
    "text", ['{"$spill":"' + "0" * 64 + '","bytes":3}', '{"$$spill":1}', '{"a":"$5"}', '{"价格":"$5"}'], ids=str
)
def test_text_that_looks_like_a_stub_is_told_from_one(tmp_path: Path, text: str, known: Known) -> None:
    lines = maker(tmp_path, Redactor({}))
    line = lines.make(event(observation=text, output=payload.dumps(json.loads(text))), known)
    row = json.loads(line.data)
    assert not row["observation"].startswith('{"$spill')
    assert not row["output"].startswith('{"$spill')
    assert payload.loads(row["output"]) == json.loads(text)


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"confidence": float("nan")}, "confidence"),
        ({"latency_ms": -1.0}, "latency_ms"),
        ({"latency_ms": float("inf")}, "latency_ms"),
        ({"step": 1.5}, "step"),
        ({"input_tokens": -3}, "input_tokens"),
        ({"status": "fine"}, "status"),
        ({"ts": dt.datetime(2026, 1, 1)}, "ts"),  # noqa: DTZ001 - a naive time is what it is about
        ({"input": 5}, "input"),
        ({"output": b"{}"}, "output"),
        ({"name": 7}, "name"),
        ({"event_id": "x" * 36}, "event_id"),
    ],
    ids=str,
)
def test_a_wrong_event_is_refused_whatever_is_said_to_be_known(
    tmp_path: Path, columns: dict[str, Any], field: str
) -> None:
    redactor = Redactor({})
    wrong = Event(**{"event_id": new_id(), "ts": NOW, "action": Action.FEEDBACK, **columns})
    with pytest.raises(EventError, match=field):
        maker(tmp_path, redactor).make(wrong, Known(written_json=True, searched_by=redactor))


@pytest.mark.parametrize(
    "value", [{"a": "\ud800"}, {"b": float("nan")}, "\U0010ffff", {"$float": "NaN"}, 2**80, "中文"]
)
def test_json_that_dumps_made_gives_the_same_line_unlooked(value: Any) -> None:
    one = event(input=payload.dumps(value), output=payload.dumps([value]))
    assert encode(one, written_json=True) == encode(one)
