"""The session export: the episodes and keys of the database, whatever the order and state of the lines."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from hermes_agent_db import T0, Db, call, counts, keys, read_db, read_export, total
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab import payload
from hermes_lab.errors import ImportFormatError, MissingError
from hermes_lab.events import Action, Status
from hermes_lab.importers.base import Draft, SetAside, Source
from hermes_lab.importers.hermes_agent import sessions as hermes_sessions
from hermes_lab.importers.hermes_agent import sharegpt
from hermes_lab.importers.hermes_agent import state as hermes_state

SAMPLES = Path(__file__).parent / "samples" / "hermes-sessions"


def drafts(found: list[Draft | SetAside], action: Action | None = None) -> list[Draft]:
    return [d for d in found if isinstance(d, Draft) and action in (None, d.action)]


def aside(found: list[Draft | SetAside]) -> list[tuple[str, str]]:
    return [(row.where, row.reason) for row in found if isinstance(row, SetAside)]


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def message(role: str, content: Any = None, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def fill(db: Db) -> None:
    """A chain of two sessions, a subagent, a rewind, multimodal content, tokens."""
    first = db.session("s1", model="m", end_reason="compression", ended_at=T0 + 9, input_tokens=70)
    db.say(first, "user", "看图 😀")
    db.say(first, "assistant", None, calls=[call("c1", "terminal", {"command": "ls"})], reasoning="hm")
    db.answer(first, "c1", '{"exit_code": 1, "error": "no such file"}', tool_name="terminal")
    db.say(first, "user", "forget that", active=0)
    db.say(first, "assistant", "I see.")
    db.clock = T0 + 10
    second = db.session("s2", model="m", parent_session_id="s1", input_tokens=20, output_tokens=4)
    db.say(second, "user", "[CONTEXT SUMMARY]: a picture")
    db.say(second, "assistant", "I see.")
    db.say(second, "user", '\x00json:[{"type": "text", "text": "more"}]')
    db.say(second, "assistant", None, calls=[call("c2", "web_search", {"query": "茶"})])
    db.answer(second, "c2", '{"success": true}')
    db.say(db.session("sub", parent_session_id="s2"), "user", "help")


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("newest_first", [True, False])
def test_the_export_gives_what_the_database_gives(tmp_path: Path, ids: bool, newest_first: bool) -> None:
    db = Db(tmp_path / "state.db")
    fill(db)
    path = db.export(tmp_path / "export.jsonl", ids=ids, newest_first=newest_first)
    db.close()
    assert hermes_sessions.sniff(path)
    assert not hermes_state.sniff(path)
    assert not sharegpt.sniff(path)
    ours, theirs = read_export(path), read_db(db.path)
    rewound = {(d.episode, d.key) for d in drafts(theirs) if d.columns.get("status") == Status.RETRACTED}
    assert keys(theirs) - keys(ours) == rewound | {(e, k.removesuffix(":retracted")) for e, k in rewound}
    by_key = {(d.episode, d.key): d for d in drafts(theirs)}
    assert all(by_key[d.episode, d.key] == d for d in drafts(ours))
    assert not aside(ours)


def test_a_session_as_it_is_written(tmp_path: Path) -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": '{"command": "ls"}'}}]
    session = {
        "id": "s1",
        "source": "cli",
        "model": "Hermes-4-14B",
        "started_at": T0,
        "ended_at": T0 + 5,
        "end_reason": "cli_close",
        "input_tokens": 100,
        "cache_read_tokens": 20,
        "cache_write_tokens": 3,
        "output_tokens": 7,
        "estimated_cost_usd": 0.002,
        "messages": [
            message("user", "list", timestamp=T0 + 1),
            message("assistant", "", tool_calls=calls, timestamp=T0 + 2, finish_reason="tool_calls"),
            message("tool", '{"output": "a", "exit_code": 0}', tool_call_id="c1", timestamp=T0 + 3),
        ],
    }
    found = drafts(read_export(write(tmp_path / "x.jsonl", session)))
    assert [d.action for d in found] == [
        Action.TASK_STARTED,
        Action.MESSAGE_RECEIVED,
        Action.GENERATION,
        Action.TOOL_CALLED,
        Action.GENERATION,
        Action.TASK_ENDED,
    ]
    assert found[3] == Draft(
        "s1",
        "call:c1",
        Action.TOOL_CALLED,
        dt.datetime(2026, 1, 1, 0, 0, 3, tzinfo=dt.UTC),
        {
            "name": "terminal",
            "input": {"command": "ls"},
            "output": {"output": "a", "exit_code": 0},
            "observation": '{"output": "a", "exit_code": 0}',
            "status": Status.OK,
            "confidence": 0.95,
        },
        "generation:c1",
    )
    usage = found[4].columns
    tokens = (usage["input_tokens"], usage["cached_tokens"], usage["output_tokens"], usage["cost_usd"])
    assert (*tokens, usage["weight"]) == (103, 20, 7, 0.002, 0)


def test_a_session_that_grew_and_was_exported_again_behind_the_first_export(tmp_path: Path) -> None:
    said = [message("user", "a", id=5), message("assistant", "b", id=6)]
    old = {"id": "s", "source": "cli", "messages": said}
    new = {**old, "title": "later", "messages": [*said, message("user", "c", id=9)]}
    once = read_export(write(tmp_path / "new.jsonl", new))
    both = read_export(write(tmp_path / "both.jsonl", old, new))
    assert keys(both) == keys(once)
    assert counts(both) == {"task_started": 1, "message_received": 2, "generation": 1}


def test_a_lineage_with_its_segments(tmp_path: Path) -> None:
    first = {
        "id": "s1",
        "end_reason": "compression",
        "ended_at": T0,
        "messages": [message("user", "a", id=1)],
    }
    second = {
        "id": "s2",
        "parent_session_id": "s1",
        "messages": [message("user", "[CONTEXT SUMMARY]: a", id=2), message("user", "b", id=3)],
    }
    both: list[dict[str, Any]] = [first, second]
    lineage = {**second, "segments": both, "messages": [m for s in both for m in s["messages"]]}
    path = write(tmp_path / "x.jsonl", lineage)
    assert hermes_sessions.sniff(path)
    found = read_export(path)
    assert counts(found) == {"task_started": 2, "message_received": 2, "compressed": 1, "task_ended": 1}
    assert {d.columns["task_id"] for d in drafts(found, Action.TASK_STARTED)} == {"s1"}


def test_bad_lines_are_set_aside_and_the_rest_is_read(tmp_path: Path) -> None:
    good = json.dumps({"id": "s", "source": "cli", "messages": [message("user", "ok"), 3, message("", "x")]})
    lines = [
        b"\xef\xbb\xbf" + good.encode(),
        b"",
        b"{broken",
        b'{"id": "n", "messages": "none"}',
        b'{"messages": []}',
        b"[1]",
        b'{"id": "deep", "messages": [{"role": "user", "content": ' + b"[" * 300 + b"]" * 300 + b"}]}",
        b'{"id": "big", "messages": [{"role": "user", "content": ' + b"9" * 5000 + b"}]}",
        b'{"id": "latin", "messages": [{"role": "user", "content": "\xe9"}]}',
        b'{"id": "nan", "source": "cli", "messages": [{"role": "user", "content": [NaN, "\\ud800"]}]}',
        b'{"id": "torn", "mess',
    ]
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\r\n".join(lines))
    found = read_export(path)
    assert hermes_sessions.sniff(path)
    assert [where for where, _ in aside(found)] == [
        "line 1, message 2",
        "line 3",
        "line 4",
        "line 5",
        "line 6",
        "line 7",
        "line 8",
        "line 9",
        "line 11",
        "line 1, message 3",
    ]
    reasons = dict(aside(found))
    assert reasons["line 9"] == "the line is not UTF-8 text"
    assert "nests deeper" in reasons["line 7"]
    assert "torn" in reasons["line 11"]
    assert {d.episode for d in drafts(found)} == {"s", "nan"}


def test_a_long_first_line_is_recognised(tmp_path: Path) -> None:
    session = {"id": "s", "source": "cli", "messages": [message("user", "x" * 1000)] * 6000}
    assert hermes_sessions.sniff(write(tmp_path / "x.jsonl", session))


@pytest.mark.parametrize(
    "line",
    [
        {"messages": [message("user", "hi")]},
        {"id": "chat-1", "messages": [message("user", "hi")]},
        {"id": "s", "source": "cli"},
        [{"id": "s", "source": "cli", "messages": []}],
        "text",
    ],
)
def test_other_formats_are_left_alone(tmp_path: Path, line: object) -> None:
    assert not hermes_sessions.sniff(write(tmp_path / "x.jsonl", line))


def test_no_file_and_utf16(tmp_path: Path) -> None:
    assert not hermes_sessions.sniff(tmp_path)
    assert not hermes_sessions.sniff(tmp_path / "none")
    with pytest.raises(MissingError):
        read_export(tmp_path / "none")
    (tmp_path / "x.jsonl").write_text("{}", "utf-16")
    with pytest.raises(ImportFormatError, match="UTF-16"):
        read_export(tmp_path / "x.jsonl")


def test_times_without_a_zone_are_of_the_given_zone(tmp_path: Path) -> None:
    session = {"id": "s", "source": "cli", "started_at": "2026-01-01T08:00:00", "messages": []}
    zone = dt.timezone(dt.timedelta(hours=8))
    source = Source(write(tmp_path / "x.jsonl", session), naive_times=zone)
    (started,) = drafts(list(hermes_sessions.read(source)))
    assert started.ts == dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def test_the_sample() -> None:
    found = read_export(SAMPLES / "export.jsonl")
    assert not aside(found)
    assert counts(found)["tool_called"] > 0
    assert total(found, "input_tokens") > 0


def test_the_example_of_the_readme() -> None:
    path = Path(__file__).parents[1] / "data" / "examples" / "hermes-agent.jsonl"
    found = read_export(path)
    assert hermes_sessions.sniff(path)
    assert not aside(found)
    statuses = {d.columns.get("status") for d in drafts(found, Action.TOOL_CALLED)}
    assert {Status.OK, Status.ERROR} <= statuses
    assert path.stat().st_size < 60_000


any_json = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
any_message = st.fixed_dictionaries(
    {},
    optional={
        "id": st.integers(1, 5) | any_json,
        "role": st.sampled_from(["user", "assistant", "tool"]) | any_json,
        "content": any_json,
        "tool_calls": st.just([call("a", "t")]) | any_json,
        "tool_call_id": st.just("a") | any_json,
        "timestamp": any_json,
        "active": any_json,
    },
)
any_session = st.fixed_dictionaries(
    {"id": st.sampled_from(["a", "b", "\ud800"]), "messages": st.lists(any_message | any_json, max_size=6)},
    optional={
        "parent_session_id": st.sampled_from(["a", "b"]) | any_json,
        "end_reason": st.just("compression") | any_json,
        "started_at": any_json,
        "ended_at": any_json,
        "model": any_json,
        "model_config": any_json,
        "input_tokens": any_json,
        "source": any_json,
        "segments": any_json,
    },
)


@settings(max_examples=100, deadline=None)
@given(st.lists(any_session | any_json, max_size=4))
def test_any_lines(tmp_path_factory: pytest.TempPathFactory, lines: list[Any]) -> None:
    path = write(tmp_path_factory.mktemp("any") / "x.jsonl", *lines)
    hermes_sessions.sniff(path)
    found = read_export(path)
    assert len(keys(found)) == len(drafts(found))
    for draft in drafts(found):
        for column in ("input", "output"):
            payload.dumps(draft.columns.get(column))
    lost = [n for n, line in enumerate(lines, 1) if not (isinstance(line, dict) and "messages" in line)]
    assert {f"line {n}" for n in lost} <= {where for where, _ in aside(found)}
