"""Events: the schema is declared once, writing is strict, reading is tolerant."""

import datetime as dt
import json
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import example, given, settings
from log_samples import DAY0, any_event, event, line, new_lab

from hermes_lab import events, payload
from hermes_lab.errors import ConfigError, EventError
from hermes_lab.events import Action, ErrorKind, Event, Status, Tier
from hermes_lab.log import tables, thin

FIELDS = [field.name for field in msgspec.structs.fields(Event)]
TEXT_FIELDS = [
    "run_id", "episode_id", "task_id", "task_type", "name", "observation", "config_version", "channel", "parent_id",
    "request_hash",
]  # fmt: skip
COUNTS = ["step", "input_tokens", "cached_tokens", "output_tokens"]
AMOUNTS = ["latency_ms", "cost_usd", "quota"]

REFUSED = [
    *((field, value) for field in TEXT_FIELDS for value in (5, b"bytes", ["x"], {"a": 1}, 1.5, True)),
    *((field, value) for field in ("input", "output") for value in (5, b"{}", {"a": 1}, "", "{", "plain", "NaN")),
    *((field, value) for field in COUNTS for value in (-1, 2**63, 1.0, "1", True, [1])),
    *((field, value) for field in AMOUNTS for value in (-1.0, -1e-9, float("nan"), float("inf"), "1", True, [1.0])),
    *(("confidence", value) for value in (-0.1, 1.1, float("nan"), "1", True)),
    *(("weight", value) for value in (-1.0, float("nan"), float("inf"), None, "1")),
    *(("schema_version", value) for value in (-1, 2**15, "1", None, 1.0)),
    *(("from_cache", value) for value in (0, 1, "true", 1.0)),
    *(("event_id", value) for value in (None, "", 5, "01A22D30-901C-75DC-8711-516AB210CC12", "x" * 36)),
    ("event_id", "01a22d30-901c-45dc-8711-516ab210cc12"),  # a UUIDv4
    *(("ts", value) for value in (None, "2026-11-30", "2026-11-30T12:00:00Z", 1.7e9, dt.date(2026, 11, 30))),
    *(("action", value) for value in (None, "", "tool_call", "TOOL_CALLED", 5)),
    *(("status", value) for value in ("", "OK", "fine", 5, True)),
    *(("error_kind", value) for value in ("", "unknown", 5)),
    *(("tier", value) for value in ("", "medium", 5)),
]


@pytest.mark.parametrize(("field", "value"), REFUSED, ids=ascii)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(field, value):
    with pytest.raises(EventError, match=rf"\b{field}\b"):
        events.encode(event(**{field: value}))


def test_the_table_of_wrong_values_covers_every_field():
    assert {field for field, _ in REFUSED} == set(FIELDS)


def test_an_id_with_a_newline_is_refused():
    with pytest.raises(EventError, match="event_id"):
        events.encode(event(event_id=f"{ID}\n"))


def test_a_value_of_no_json_type_is_refused_by_the_name_of_its_field():
    with pytest.raises(EventError, match="channel"):
        events.encode(event(channel=object()))


def test_a_naive_time_is_refused_with_what_to_do():
    with pytest.raises(EventError, match=r"ts.*give ts a time zone, such as datetime.now\(datetime.UTC\)"):
        events.encode(event(ts=dt.datetime(2026, 11, 30)))  # noqa: DTZ001


@pytest.mark.parametrize(
    "zone",
    [dt.timezone(dt.timedelta(hours=8)), dt.timezone(-dt.timedelta(hours=9, minutes=30)), ZoneInfo("Asia/Shanghai")],
)
def test_a_time_of_another_zone_is_kept_as_the_same_instant(tmp_path, zone):
    ts = dt.datetime(2026, 11, 30, 1, 2, 3, 456789, tzinfo=zone)
    made = event(ts=ts)
    assert events.decode(events.encode(made)).ts == ts
    table, rejected = tables.from_lines(events.encode(made) + b"\n")
    assert rejected == []
    assert table["ts"].to_pylist() == [ts.astimezone(dt.UTC)]
    assert table["ts"].to_pylist()[0].utcoffset() == dt.timedelta(0)


@pytest.mark.parametrize("fold", [0, 1])
def test_a_time_of_the_hour_that_comes_twice_is_kept(fold):
    ts = dt.datetime(2026, 11, 1, 1, 30, fold=fold, tzinfo=ZoneInfo("America/New_York"))
    assert events.decode(events.encode(event(ts=ts))).ts.astimezone(dt.UTC) == ts.astimezone(dt.UTC)


@pytest.mark.parametrize(
    "ts",
    [
        dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5))),
        dt.datetime(9999, 12, 31, 23, tzinfo=dt.timezone(-dt.timedelta(hours=5))),
    ],
)
def test_a_time_that_utc_cannot_hold_is_refused(ts):
    with pytest.raises(EventError, match="ts"):
        events.encode(event(ts=ts))


def test_a_newer_schema_version_than_the_current_one_is_refused():
    with pytest.raises(EventError, match="schema_version"):
        events.encode(event(schema_version=events.SCHEMA_VERSION + 1))


@given(any_event)
@example(event(name="\ud800", input=payload.dumps({"\ud800": "\U0010f800"}), observation="\U0010f7ff\udfff\x00"))
@settings(deadline=None, max_examples=300)
def test_decode_gives_the_event_that_encode_was_given(made):
    encoded = events.encode(made)
    encoded.decode()
    assert b"\n" not in encoded
    assert events.decode(encoded) == made
    assert events.decode(encoded.decode()) == made


@given(any_event)
@settings(deadline=None, max_examples=200)
def test_a_row_of_the_bulk_reader_is_the_event(made):
    table, rejected = tables.from_lines(events.encode(made) + b"\n")
    assert rejected == []
    assert events.from_row(table.to_pylist()[0]) == made


def test_only_what_is_known_is_in_the_line():
    assert json.loads(line(event_id="01a22d30-901c-75dc-8711-516ab210cc12", name="查")) == {
        "event_id": "01a22d30-901c-75dc-8711-516ab210cc12",
        "ts": "2026-11-01T00:00:00Z",
        "action": "tool_called",
        "name": "查",
        "weight": 1.0,
        "schema_version": events.SCHEMA_VERSION,
    }


ID = "01a22d30-901c-75dc-8711-516ab210cc12"
OLDER = f'{{"event_id":"{ID}","ts":"2026-11-01T00:00:00Z","action":"feedback","name":"赞"}}'.encode()


def test_an_older_line_reads_with_unknown_as_none():
    expected = {field: None for field in FIELDS} | {
        "event_id": ID, "ts": DAY0, "action": "feedback", "name": "赞", "weight": 1.0, "schema_version": 1,
    }  # fmt: skip
    decoded = msgspec.structs.asdict(events.decode(OLDER))
    table, rejected = tables.from_lines(OLDER + b"\n")
    row = table.to_pylist()[0]
    assert rejected == []
    assert decoded == expected
    assert row == expected


def test_a_line_with_unknown_columns_reads():
    newer = OLDER[:-1] + b',"mood":{"deep":[1,null,"\xf0\x9f\x9a\x80"]},"extra":1}'
    assert events.decode(newer) == events.decode(OLDER)
    table, rejected = tables.from_lines(newer + b"\n" + OLDER + b"\n")
    assert rejected == []
    assert table.slice(0, 1).to_pylist() == table.slice(1, 1).to_pylist()


def test_an_older_line_in_a_live_file_is_queried_and_sealed(tmp_path):
    lab = new_lab(tmp_path / "lab")
    lab.log.layout.create()
    (lab.log.layout.live / "old.jsonl").write_bytes(OLDER + b"\n")
    query = "select ts, action, name, step, weight, schema_version from events"
    expected = [(DAY0, "feedback", "赞", None, 1.0, 1)]
    assert lab.log.sql(query).fetchall() == expected
    assert lab.log.seal().rows == 1
    assert lab.log.sql(query).fetchall() == expected


@pytest.mark.parametrize("around", [b"", line(), b"garbage\n"])
def test_a_line_of_a_newer_schema_in_a_live_file_is_refused(tmp_path, around):
    lab = new_lab(tmp_path / "lab")
    lab.log.layout.create()
    newer = OLDER[:-1] + b',"schema_version":%d}\n' % (events.SCHEMA_VERSION + 1)
    (lab.log.layout.live / "new.jsonl").write_bytes(around + newer)
    for read in (lambda: lab.log.sql("select 1 from events"), lab.log.seal, lab.log.status):
        with pytest.raises(ConfigError, match="upgrade hermes-lab"):
            read()
    assert (lab.log.layout.live / "new.jsonl").read_bytes() == around + newer


@pytest.mark.parametrize(
    "bad",
    [b"", b"{}", b"[]", b"null", b"3", b"{", OLDER[:-1], OLDER + OLDER, OLDER.replace(b"feedback", b"feed"), b"\xff"],
)
def test_decode_refuses_what_is_no_event(bad):
    with pytest.raises(EventError, match=r"^not an event"):
        events.decode(bad)


def test_from_row_refuses_what_is_no_event():
    row = tables.from_lines(OLDER + b"\n")[0].to_pylist()[0]
    assert events.from_row(row).name == "赞"
    for change in ({"action": "feed"}, {"ts": dt.datetime(2026, 1, 1)}, {"step": -1}, {"event_id": None}):  # noqa: DTZ001
        with pytest.raises(EventError, match="not an event"):
            events.from_row(row | change)


def test_the_schema_is_declared_once(tmp_path):
    lab = new_lab(tmp_path / "lab")
    with lab.log.writer() as writer:
        writer.append(event())
    arrow = {"string": "VARCHAR", "int64": "BIGINT", "int16": "SMALLINT", "double": "DOUBLE", "bool": "BOOLEAN",
             "timestamp[us, tz=UTC]": "TIMESTAMP WITH TIME ZONE"}  # fmt: skip
    declared = [(column.name, column.sql_type) for column in events.columns()]
    assert [name for name, _ in declared] == FIELDS
    assert [(field.name, arrow[str(field.type)]) for field in tables.SCHEMA] == declared
    live = [row[:2] for row in lab.log.sql("describe events").fetchall()]
    lab.log.seal()
    sealed = [row[:2] for row in lab.log.sql("describe events").fetchall()]
    assert live == sealed == declared
    assert [c.name for c in events.columns() if not c.nullable] == [
        "event_id",
        "ts",
        "action",
        "weight",
        "schema_version",
    ]
    assert all(column.doc for column in events.columns())


def test_the_lists_are_closed_and_documented():
    assert all(action.doc and action.doc != action.value for action in Action)
    assert len({action.doc for action in Action}) == len(Action)
    for kind in (Action, Status, ErrorKind, Tier):
        assert [str(member) for member in kind] == [member.value for member in kind]
        assert len({member.value for member in kind}) == len(kind)


EFFECTS = {"generation", "tool_called", "code_executed", "retrieval", "permission_requested", "permission_decided"}
DECISIONS = {
    "context_assembled", "compressed", "routed", "tool_checked", "reflection", "escalated", "skill_triggered",
    "conflict_found", "proposal_decided", "proposal_undone", "suggestion", "candidate_proposed", "gate_decided",
    "canary_started", "canary_held", "published", "rolled_back", "baseline_frozen", "paused", "resumed",
}  # fmt: skip
SAFETY = {"alarm", "purged", "memory_retracted", "memory_written", "skill_written", "memory_proposed", "skill_proposed"}
FACTS = {"message_received", "task_started", "task_ended", "task_recorded", "feedback", "graded", "round_started",
         "round_ended", "candidate_replayed", "imported"}  # fmt: skip


def test_only_what_is_no_effect_decision_cost_or_safety_may_be_thinned():
    thinnable = {str(action) for action in Action if action.thinnable}
    assert thinnable == {"evaluated", "canary_observed"}
    assert thinnable.isdisjoint(EFFECTS | DECISIONS | SAFETY | FACTS)
    assert thinnable | EFFECTS | DECISIONS | SAFETY | FACTS == {str(action) for action in Action}
    for action in Action:
        if action.thinnable:
            assert thin.check_policy({str(action): 3}) == {action: 3}
        else:
            with pytest.raises((ConfigError, ValueError), match=str(action)):
                thin.check_policy({str(action): 3})
