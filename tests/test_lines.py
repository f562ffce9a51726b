"""Lines of the log: no secret in them, nothing that only looks like a stub, and no event that is wrong."""

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
from hermes_lab.log.lines import LineMaker
from hermes_lab.log.redact import Redactor

KEY = "sk-" + "a1B2c3D4" * 5
NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)


def event(**columns: Any) -> Event:
    return Event(event_id=new_id(), ts=NOW, action=Action.TOOL_CALLED, **columns)


def maker(folder: Path, redactor: Redactor, spill_over: int = 10_000) -> LineMaker:
    layout = Layout(folder / "events")
    layout.create()
    return LineMaker(layout, redactor, spill_over)


def test_a_secret_is_taken_out_of_each_line_of_a_batch_that_holds_one(tmp_path: Path) -> None:
    lines = maker(tmp_path, Redactor({}))
    events = [event(name=f"第{n}", input=payload.dumps({"n": n, "key": KEY if n % 2 else "none"})) for n in range(6)]
    data = lines.clean([lines.make(one, written_json=n < 3) for n, one in enumerate(events)])
    assert KEY.encode() not in data
    read = [json.loads(line) for line in data.splitlines()]
    assert [(row["name"], json.loads(row["input"])["n"]) for row in read] == [(f"第{n}", n) for n in range(6)]


@pytest.mark.parametrize("written_json", [False, True])
@pytest.mark.parametrize(
    "text", ['{"$spill":"' + "0" * 64 + '","bytes":3}', '{"$$spill":1}', '{"a":"$5"}', '{"价格":"$5"}'], ids=str
)
def test_text_that_looks_like_a_stub_is_told_from_one(tmp_path: Path, text: str, written_json: bool) -> None:
    lines = maker(tmp_path, Redactor({}))
    one = event(observation=text, output=payload.dumps(json.loads(text)))
    row = json.loads(lines.make(one, written_json=written_json))
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
def test_a_wrong_event_is_refused_whoever_wrote_its_json(tmp_path: Path, columns: dict[str, Any], field: str) -> None:
    wrong = Event(**{"event_id": new_id(), "ts": NOW, "action": Action.FEEDBACK, **columns})
    with pytest.raises(EventError, match=field):
        maker(tmp_path, Redactor({})).make(wrong, written_json=True)


@pytest.mark.parametrize(
    "value", [{"a": "\ud800"}, {"b": float("nan")}, "\U0010ffff", {"$float": "NaN"}, 2**80, "中文"]
)
def test_json_that_dumps_made_gives_the_same_line_unlooked(value: Any) -> None:
    one = event(input=payload.dumps(value), output=payload.dumps([value]))
    assert encode(one, written_json=True) == encode(one)
