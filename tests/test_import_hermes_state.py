"""hermes-agent's state.db: every rule of its format, and every way in which it may be found."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hermes_agent_db import SCHEMA, T0, Db, call, counts, keys, read_db, total
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_lab import payload
from hermes_lab.errors import BusyError, ImportFormatError, MissingError
from hermes_lab.events import Action, ErrorKind, Status
from hermes_lab.importers.base import Draft, SetAside, Source
from hermes_lab.importers.hermes_agent import sqlite_copy
from hermes_lab.importers.hermes_agent import state as hermes_state

UTC = dt.UTC


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Db]:
    found = Db(tmp_path / "state.db")
    yield found
    found.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_copy, "BUSY_SECONDS", 0.2)


def at(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(T0 + seconds, UTC)


def drafts(found: list[Draft | SetAside], action: Action | None = None) -> list[Draft]:
    return [d for d in found if isinstance(d, Draft) and action in (None, d.action)]


def tasks(found: list[Draft | SetAside]) -> dict[str, str]:
    return {d.episode: d.columns["task_id"] for d in drafts(found, Action.TASK_STARTED)}


def aside(found: list[Draft | SetAside]) -> list[SetAside]:
    return [row for row in found if isinstance(row, SetAside)]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# ---------------------------------------------------------------- a session, whole


def test_a_session(db: Db) -> None:
    s = db.session("s1", model="Hermes-4-70B", title="列目录", source="telegram")
    db.say(s, "user", "你好 🌟 list the files\r\nplease")
    ask = [call("c1", "terminal", {"command": "ls"})]
    db.say(s, "assistant", "", calls=ask, finish_reason="tool_calls", reasoning="想一想")
    db.answer(s, "c1", '{"output": "a.txt", "exit_code": 0, "error": null}', tool_name="terminal")
    db.say(s, "assistant", "One file.", finish_reason="stop")
    db.run("UPDATE sessions SET ended_at = ?, end_reason = 'cli_close', input_tokens = 900", T0 + 9)
    told = {"title": "列目录", "model": "Hermes-4-70B", "prompt": "你好 🌟 list the files\r\nplease"}
    result = '{"output": "a.txt", "exit_code": 0, "error": null}'
    found = read_db(db.path)
    keyed = [d._replace(key=d.key.partition(":")[0]) for d in drafts(found)]
    assert keyed == [
        Draft(
            "s1",
            "started",
            Action.TASK_STARTED,
            at(0),
            {"task_id": "s1", "channel": "telegram", "input": told},
        ),
        Draft(
            "s1",
            "message",
            Action.MESSAGE_RECEIVED,
            at(1),
            {"name": "user", "input": {"content": "你好 🌟 list the files\r\nplease"}},
        ),
        Draft(
            "s1",
            "generation",
            Action.GENERATION,
            at(2),
            {
                "name": "Hermes-4-70B",
                "output": {
                    "content": "",
                    "tool_calls": [{"id": "c1", "name": "terminal", "arguments": {"command": "ls"}}],
                    "reasoning": "想一想",
                    "finish_reason": "tool_calls",
                },
                "status": Status.OK,
            },
        ),
        Draft(
            "s1",
            "call",
            Action.TOOL_CALLED,
            at(3),
            {
                "name": "terminal",
                "input": {"command": "ls"},
                "output": {"output": "a.txt", "exit_code": 0, "error": None},
                "observation": result,
                "status": Status.OK,
                "confidence": 0.95,
            },
            "generation:c1",
        ),
        Draft(
            "s1",
            "generation",
            Action.GENERATION,
            at(4),
            {
                "name": "Hermes-4-70B",
                "output": {"content": "One file.", "finish_reason": "stop"},
                "status": Status.OK,
            },
        ),
        Draft(
            "s1",
            "usage",
            Action.GENERATION,
            at(9),
            {
                "name": "Hermes-4-70B",
                "output": {"usage": "session total, not attributed to single calls"},
                "weight": 0.0,
                "input_tokens": 900,
                "cached_tokens": 0,
                "output_tokens": 0,
            },
        ),
        Draft("s1", "ended", Action.TASK_ENDED, at(9), {"output": {"end_reason": "cli_close"}}),
    ]
    assert len(found) == len(keys(found))


def test_the_folder_is_taken_too(db: Db) -> None:
    db.say(db.session("s"), "user", "hi")
    assert hermes_state.sniff(db.path.parent)
    assert keys(read_db(db.path.parent)) == keys(read_db(db.path))


def test_results_are_paired_by_id_and_the_name_is_the_calls(db: Db) -> None:
    s = db.session("s")
    db.say(s, "assistant", None, calls=[call("a", "first"), call("b", "second"), call("c", "third")])
    db.answer(s, "b", "two", tool_name="wrong")
    db.say(s, "user", "in between")
    db.answer(s, "a", "one")
    db.answer(s, "zz", "whose?", tool_name="stray")
    db.say(s, "assistant", "ok")
    found = drafts(read_db(db.path), Action.TOOL_CALLED)
    assert [(d.columns["name"], d.columns.get("output"), d.parent) for d in found] == [
        ("first", "one", "generation:a"),
        ("second", "two", "generation:a"),
        ("third", None, "generation:a"),
        ("stray", "whose?", None),
    ]
    third, stray = found[2:]
    assert third.columns.keys() == {"name", "input"}
    assert "input" not in stray.columns
    assert stray.columns["confidence"] <= 0.5


def test_calls_and_results_without_ids_are_paired_by_position(db: Db) -> None:
    s = db.session("s")
    db.say(s, "assistant", None, calls=[call(None, "a"), call(None, "b")])
    db.say(s, "tool", "one")
    db.say(s, "tool", "two", tool_call_id="")
    db.say(s, "tool", "three")
    found = drafts(read_db(db.path), Action.TOOL_CALLED)
    assert [(d.columns.get("name"), d.columns["output"]) for d in found] == [
        ("a", "one"),
        ("b", "two"),
        (None, "three"),
    ]


def test_ids_that_start_anew_in_every_turn(db: Db) -> None:
    s = db.session("s")
    for turn in range(3):
        db.say(s, "assistant", None, calls=[call("call_0", "terminal", {"command": "date"})])
        db.answer(s, "call_0", f"result {turn}")
    found = drafts(read_db(db.path), Action.TOOL_CALLED)
    assert [d.columns["output"] for d in found] == ["result 0", "result 1", "result 2"]
    assert len({d.key for d in found}) == 3


@pytest.mark.parametrize(
    ("result", "status", "kind"),
    [
        ('{"output": "", "exit_code": 2}', Status.ERROR, ErrorKind.TOOL_FAILED),
        ('{"output": "", "exit_code": 1, "exit_code_meaning": "No matches (not an error)"}', Status.OK, None),
        ('{"error": "File not found: a.txt"}', Status.ERROR, ErrorKind.NOT_FOUND),
        ('{"error": null, "content": "error"}', Status.OK, None),
        ('{"success": false, "message": "rate limit"}', Status.ERROR, ErrorKind.RATE_LIMITED),
        ("Error: command timed out", Status.TIMEOUT, ErrorKind.TIMEOUT),
        ("Found 3 errors in the file", Status.OK, None),
        ("错误：权限不足", Status.ERROR, ErrorKind.NO_PERMISSION),
        (
            '{"exit_code": 3, "output": "x"}\n\n[hint: you tried that before]',
            Status.ERROR,
            ErrorKind.TOOL_FAILED,
        ),
    ],
)
def test_success_is_inferred(db: Db, result: str, status: Status, kind: ErrorKind | None) -> None:
    s = db.session("s")
    db.say(s, "assistant", None, calls=[call("c", "terminal")])
    db.answer(s, "c", result)
    (found,) = drafts(read_db(db.path), Action.TOOL_CALLED)
    assert (found.columns["status"], found.columns.get("error_kind")) == (status, kind)
    assert 0.5 < found.columns["confidence"] < 1


def test_arguments_that_are_no_json_and_calls_that_are_none(db: Db) -> None:
    s = db.session("s")
    db.say(s, "assistant", None, calls=[call("a", "terminal", '{"command": "ls'), call("b", "list", "")])
    db.say(s, "assistant", None, tool_calls="[{broken")
    db.say(s, "assistant", None, calls=[{"id": "x", "function": {"arguments": "{}"}}, "what"])
    found = drafts(read_db(db.path), Action.TOOL_CALLED)
    assert [(d.columns.get("input"), d.columns.get("status"), d.columns.get("error_kind")) for d in found] == [
        ('{"command": "ls', Status.INVALID, ErrorKind.BAD_ARGUMENTS),
        ({}, None, None),
        ("[{broken", Status.INVALID, ErrorKind.UNREADABLE_CALL),
        ({"id": "x", "function": {"arguments": "{}"}}, Status.INVALID, ErrorKind.UNREADABLE_CALL),
        ("what", Status.INVALID, ErrorKind.UNREADABLE_CALL),
    ]


def test_order_is_by_id_not_by_time(db: Db) -> None:
    s = db.session("s")
    for number, stamp in ((3, 10.0), (1, 30.0), (2, 20.0)):
        db.insert("messages", id=number, session_id=s, role="user", content=f"m{number}", timestamp=T0 + stamp)
    found = drafts(read_db(db.path), Action.MESSAGE_RECEIVED)
    assert [d.columns["input"]["content"] for d in found] == ["m1", "m2", "m3"]
    assert [d.ts for d in found] == [at(30), at(20), at(10)]


def test_multimodal_content_is_behind_a_nul(db: Db) -> None:
    s = db.session("s")
    db.say(s, "user", '\x00json:[{"type": "text", "text": "看图"}, {"type": "image_url"}]')
    db.say(s, "user", "\x00json:[broken")
    db.say(s, "user", "plain \x00 inside")
    found = read_db(db.path)
    assert [d.columns["input"]["content"] for d in drafts(found, Action.MESSAGE_RECEIVED)] == [
        [{"type": "text", "text": "看图"}, {"type": "image_url"}],
        "\x00json:[broken",
        "plain \x00 inside",
    ]
    assert drafts(found)[0].columns["input"]["prompt"] == "看图"


def test_an_answer_that_was_cut_off(db: Db) -> None:
    s = db.session("s")
    db.say(s, "assistant", "and th", finish_reason="length")
    (found,) = drafts(read_db(db.path), Action.GENERATION)
    assert (found.columns["status"], found.columns["error_kind"]) == (Status.OK, ErrorKind.CUT_OFF)


# ---------------------------------------------------------------- versions


def test_the_oldest_schema_and_columns_of_a_newer_one(tmp_path: Path) -> None:
    old = Db(
        tmp_path / "old.db",
        "CREATE TABLE sessions (id TEXT PRIMARY KEY); CREATE TABLE messages "
        "(id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT)",
    )
    old.run("INSERT INTO sessions VALUES ('s')")
    old.run("INSERT INTO messages VALUES (1, 's', 'user', 'hi'), (2, 's', 'assistant', 'ho')")
    old.close()
    found = read_db(old.path)
    assert [(d.action, d.ts) for d in drafts(found)] == [
        (Action.TASK_STARTED, None),
        (Action.MESSAGE_RECEIVED, None),
        (Action.GENERATION, None),
    ]
    new = Db(
        tmp_path / "new.db",
        SCHEMA + "ALTER TABLE sessions ADD COLUMN system_prompt_hash TEXT; ALTER TABLE messages ADD COLUMN x BLOB;"
        "CREATE TABLE system_prompts (hash TEXT, prompt TEXT);"
        "CREATE VIRTUAL TABLE messages_fts USING fts5(content)",
    )
    new.insert("system_prompts", hash="h1", prompt="You are Hermes.")
    new.say(new.session("s", system_prompt_hash="h1"), "user", "hi", x=b"\x00\xff")
    new.close()
    assert drafts(read_db(new.path))[0].columns["input"]["system_prompt"] == "You are Hermes."


def test_a_database_of_something_else(tmp_path: Path) -> None:
    other = Db(tmp_path / "other.db", "CREATE TABLE messages (id INTEGER, session TEXT)")
    other.close()
    assert not hermes_state.sniff(other.path)
    with pytest.raises(ImportFormatError, match="no table `sessions`"):
        read_db(other.path)


# ---------------------------------------------------------------- history that is rewritten


def test_rewound_rows_are_there_and_retracted(db: Db) -> None:
    s = db.session("s")
    db.say(s, "user", "one")
    db.say(s, "user", "again", active=0)
    db.say(s, "assistant", "x", calls=[call("c", "terminal")], active=0)
    db.answer(s, "c", "ok", active=0)
    db.say(s, "user", "again")
    found = read_db(db.path)
    retracted = [d for d in drafts(found) if d.columns.get("status") == Status.RETRACTED]
    assert [(d.action, d.key.removesuffix(":retracted") == d.parent) for d in retracted] == [
        (Action.MESSAGE_RECEIVED, True),
        (Action.GENERATION, True),
        (Action.TOOL_CALLED, True),
    ]
    assert counts(found) == {"task_started": 1, "message_received": 3, "generation": 1, "tool_called": 1}


def test_a_rewind_after_the_first_import_comes_to_the_same(db: Db) -> None:
    s = db.session("s", input_tokens=5)
    db.say(s, "user", "one")
    db.say(s, "assistant", "x", calls=[call("c", "terminal")])
    db.answer(s, "c", "ok")
    before = read_db(db.path)
    db.run("UPDATE messages SET active = 0 WHERE role <> 'user'")
    db.say(s, "user", "two")
    after = read_db(db.path)
    assert keys(before) < keys(after)
    assert counts(after) - counts(before) == {"message_received": 1}
    assert total(after, "input_tokens") == 5
    added = [d for d in drafts(after) if (d.episode, d.key) in keys(after) - keys(before)]
    assert [d.columns.get("status") for d in added] == [None, Status.RETRACTED, Status.RETRACTED]


def test_summarised_rows_are_imported(db: Db) -> None:
    s = db.session("s")
    db.say(s, "user", "old", active=0, compacted=1)
    db.say(s, "user", "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted: old")
    db.say(s, "user", "new")
    found = read_db(db.path)
    assert [d.columns["input"]["content"] for d in drafts(found, Action.MESSAGE_RECEIVED)] == ["old", "new"]
    (summary,) = drafts(found, Action.COMPRESSED)
    assert summary.columns["output"]["summary"].startswith("[CONTEXT COMPACTION")
    assert not [d for d in drafts(found) if d.columns.get("status") == Status.RETRACTED]


def talk(db: Db, session: str, turns: range, **flags: int) -> None:
    for n in turns:
        db.say(session, "user", f"question {n}", **flags)
        db.say(session, "assistant", None, calls=[call(f"call_{n:08x}", "terminal", {"n": n})], **flags)
        db.answer(session, f"call_{n:08x}", f'{{"exit_code": 0, "output": "{n}"}}', **flags)
        db.say(session, "assistant", f"answer {n}", **flags)


@contextmanager
def same_times(db: Db, seconds: float) -> Iterator[None]:
    now, db.clock = db.clock, seconds
    yield
    db.clock = now


EVENTS = {"message_received": 4, "generation": 8, "tool_called": 4, "compressed": 1, "task_started": 1}


@pytest.mark.parametrize("copied_times", [True, False])
@pytest.mark.parametrize("summary", ["[CONTEXT SUMMARY]: q0, q1", "Here is what happened before: q0, q1"])
def test_compaction_in_place_writes_the_tail_again(db: Db, copied_times: bool, summary: str) -> None:
    s = db.session("s")
    talk(db, s, range(3), active=0, compacted=1)
    db.say(s, "user", summary)
    if copied_times:
        with same_times(db, T0 + 8):
            talk(db, s, range(2, 3))
    else:
        talk(db, s, range(2, 3))
    talk(db, s, range(3, 4))
    assert counts(read_db(db.path)) == EVENTS


@pytest.mark.parametrize("kept_head", [0, 1])
def test_compaction_into_a_new_session(db: Db, kept_head: int) -> None:
    first = db.session("s1", end_reason="compression", ended_at=T0 + 12)
    talk(db, first, range(3))
    db.clock += 1
    second = db.session("s2", parent_session_id="s1")
    talk(db, second, range(kept_head))
    db.say(second, "assistant", "[CONTEXT SUMMARY]: q0, q1")
    talk(db, second, range(2, 3))
    talk(db, second, range(3, 4))
    found = read_db(db.path)
    assert counts(found) == EVENTS | {"task_started": 2, "task_ended": 1}
    assert set(tasks(found).values()) == {"s1"}
    assert {d.episode for d in drafts(found)} == {"s1", "s2"}
    started = drafts(found, Action.TASK_STARTED)[1]
    assert started.columns["input"]["prompt"] == "question 3"
    assert started.columns["input"]["parent_session_id"] == "s1"


def test_a_summary_merged_with_the_first_row_of_the_tail(db: Db) -> None:
    s = db.session("s")
    talk(db, s, range(3), active=0, compacted=1)
    end = "--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---"
    db.say(s, "user", f"[CONTEXT COMPACTION — REFERENCE ONLY] q0, q1\n\n{end}\n\nquestion 2")
    db.say(s, "assistant", None, calls=[call("call_00000002", "terminal", {"n": 2})])
    db.answer(s, "call_00000002", "[Old tool output cleared to save context space]")
    db.say(s, "assistant", "answer 2")
    talk(db, s, range(3, 4))
    found = read_db(db.path)
    assert counts(found) == EVENTS
    results = [d.columns["output"] for d in drafts(found, Action.TOOL_CALLED)]
    assert results == [{"exit_code": 0, "output": str(n)} for n in range(4)]


def test_a_summary_merged_with_a_row_of_calls_is_known_by_the_call_id(db: Db) -> None:
    s = db.session("s")
    talk(db, s, range(1), active=0, compacted=1)
    db.say(
        s,
        "assistant",
        "[PRIOR CONTEXT — for reference only; not a new message]\nI look.\n\n"
        "[END OF PRIOR CONTEXT — COMPACTION SUMMARY BELOW]\n[CONTEXT SUMMARY]: q0",
        calls=[call("call_00000000", "terminal", "{}")],
    )
    db.answer(s, "call_00000000", "cleared")
    db.say(s, "user", "on")
    assert counts(read_db(db.path)) == {
        "task_started": 1,
        "message_received": 2,
        "generation": 2,
        "tool_called": 1,
        "compressed": 1,
    }


def test_two_compactions_one_after_the_other(db: Db) -> None:
    s = db.session("s")
    talk(db, s, range(3), active=0, compacted=1)
    db.say(s, "user", "[CONTEXT SUMMARY]: q0, q1", active=0, compacted=1)
    talk(db, s, range(2, 5), active=0, compacted=1)
    db.say(s, "user", "[CONTEXT SUMMARY]: q0 to q3")
    talk(db, s, range(4, 6))
    assert counts(read_db(db.path)) == {
        "task_started": 1,
        "message_received": 6,
        "generation": 12,
        "tool_called": 6,
        "compressed": 2,
    }


def test_originals_of_the_tail_that_carry_the_flags_of_a_rewind(db: Db) -> None:
    s = db.session("s")
    talk(db, s, range(2), active=0, compacted=1)
    talk(db, s, range(2, 3), active=0, compacted=0)
    db.say(s, "user", "[CONTEXT SUMMARY]: q0, q1")
    with same_times(db, T0 + 8):
        talk(db, s, range(2, 3))
    talk(db, s, range(3, 4))
    found = read_db(db.path)
    assert counts(found) == EVENTS
    assert not [d for d in drafts(found) if d.columns.get("status") == Status.RETRACTED]


def test_the_same_words_said_twice_are_two_messages(db: Db) -> None:
    s = db.session("s")
    for _ in range(2):
        db.say(s, "user", "continue", timestamp=T0)
        db.say(s, "assistant", "ok", timestamp=T0)
    found = read_db(db.path)
    assert counts(found) == {"task_started": 1, "message_received": 2, "generation": 2}
    assert len(keys(found)) == 5


def test_a_compaction_after_the_first_import_adds_only_what_is_new(db: Db) -> None:
    s = db.session("s")
    talk(db, s, range(3))
    before = read_db(db.path)
    db.run("UPDATE messages SET active = 0, compacted = 1")
    db.say(s, "user", "[CONTEXT SUMMARY]: q0, q1")
    talk(db, s, range(2, 3))
    talk(db, s, range(3, 4))
    after = read_db(db.path)
    assert keys(before) < keys(after)
    added = [d.action for d in drafts(after) if (d.episode, d.key) in keys(after) - keys(before)]
    assert added == [
        Action.COMPRESSED,
        Action.MESSAGE_RECEIVED,
        Action.GENERATION,
        Action.TOOL_CALLED,
        Action.GENERATION,
    ]


def test_rows_that_are_deleted_and_written_again_with_new_ids(db: Db) -> None:
    s = db.session("s")
    talk(db, s, range(2))
    before = read_db(db.path)
    db.run("DELETE FROM messages")
    with same_times(db, T0):
        talk(db, s, range(2))
    assert keys(read_db(db.path)) == keys(before)


def test_a_subagent_is_a_task_of_its_own(db: Db) -> None:
    db.say(db.session("plain", end_reason="cli_close", ended_at=T0 + 50), "user", "a")
    db.say(db.session("sub", parent_session_id="plain"), "user", "b")
    parent = db.session("long", end_reason="compression", ended_at=T0 + 60)
    db.say(parent, "user", "c")
    db.say(db.session("early-sub", parent_session_id="long"), "user", "d")
    db.clock = T0 + 61
    db.say(db.session("marked", parent_session_id="long", model_config='{"_delegate_from": "long"}'), "user", "e")
    db.say(db.session("tool", parent_session_id="long", source="tool"), "user", "f")
    db.say(db.session("next", parent_session_id="long"), "user", "g")
    found = tasks(read_db(db.path))
    assert found == {
        "plain": "plain",
        "sub": "sub",
        "long": "long",
        "early-sub": "early-sub",
        "marked": "marked",
        "tool": "tool",
        "next": "long",
    }


def test_sessions_that_continue_each_other_in_a_circle(db: Db) -> None:
    for name, parent in (("a", "b"), ("b", "a"), ("c", "c")):
        s = db.session(name, parent_session_id=parent, end_reason="compression", ended_at=T0)
        db.say(s, "user", name)
    found = drafts(read_db(db.path), Action.MESSAGE_RECEIVED)
    assert sorted(d.columns["input"]["content"] for d in found) == ["a", "b", "c"]


# ---------------------------------------------------------------- tokens


def test_tokens_are_counted_once_and_auxiliary_calls_beside(db: Db) -> None:
    s = db.session(
        "s",
        model="big",
        input_tokens=1000,
        output_tokens=300,
        cache_read_tokens=5000,
        reasoning_tokens=40,
        estimated_cost_usd=0.5,
        api_call_count=7,
    )
    db.say(s, "assistant", "hi", token_count=250)
    usage: list[dict[str, Any]] = [
        {
            "model": "big",
            "input_tokens": 600,
            "output_tokens": 200,
            "cache_read_tokens": 5000,
            "api_call_count": 4,
        },
        {"model": "small", "input_tokens": 300, "output_tokens": 90, "estimated_cost_usd": 0.1},
        {
            "model": "mini",
            "task": "title_generation",
            "input_tokens": 20,
            "output_tokens": 9,
            "api_call_count": 3,
        },
        {"model": "voice", "task": "voice_chat", "input_tokens": 50, "output_tokens": 5, "api_call_count": 1},
        {"model": "silent", "task": "vision", "api_call_count": 2},
        {"model": "nothing", "task": "compression"},
    ]
    for row in usage:
        db.insert("session_model_usage", session_id=s, **row)
    found = read_db(db.path)
    assert total(found, "input_tokens") == 1000 + 20
    assert total(found, "output_tokens") == 300 + 9
    assert total(found, "cached_tokens") == 5000
    assert total(found, "cost_usd") == pytest.approx(0.5)
    assert counts(found)["generation"] == 1 + 3 + 2
    by_model = {
        d.columns.get("name"): (d.columns.get("input_tokens"), d.columns["weight"])
        for d in drafts(found, Action.GENERATION)
        if "weight" in d.columns
    }
    assert by_model == {
        "big": (650, 0),
        "small": (300, 0),
        "voice": (50, 0),
        "mini": (20, 3),
        "silent": (None, 2),
    }


def test_what_is_unknown_is_left_out(db: Db) -> None:
    db.say(db.session("zero"), "assistant", "x")
    db.say(db.session("null", input_tokens=None, output_tokens=12, cache_read_tokens=None), "assistant", "x")
    db.say(db.session("free", input_tokens=4, cost_status="included", estimated_cost_usd=0.0), "assistant", "x")
    found = {d.episode: d.columns for d in drafts(read_db(db.path)) if d.key == "usage"}
    tokens = ("input_tokens", "cached_tokens", "output_tokens", "cost_usd")
    assert {name: [columns.get(t) for t in tokens] for name, columns in found.items()} == {
        "null": [None, None, 12, None],
        "free": [4, 0, 0, 0.0],
    }


# ---------------------------------------------------------------- what is still going on


def test_a_session_that_is_still_going_on(db: Db) -> None:
    db.clock = dt.datetime.now(UTC).timestamp() - 60
    s = db.session("s", input_tokens=10)
    db.say(s, "user", "go")
    db.say(s, "assistant", None, calls=[call("c", "terminal")])
    before = read_db(db.path)
    assert counts(before) == {"task_started": 1, "message_received": 1, "generation": 1}
    assert total(before, "input_tokens") == 0
    db.answer(s, "c", "ok")
    db.run("UPDATE sessions SET input_tokens = 30, ended_at = ?, end_reason = 'cron_complete'", db.clock)
    after = read_db(db.path)
    assert keys(before) < keys(after)
    assert total(after, "input_tokens") == 30
    assert counts(after)["tool_called"] == 1
    (ended,) = drafts(after, Action.TASK_ENDED)
    assert ended.columns["status"] == Status.OK


# ---------------------------------------------------------------- bad rows


def test_bad_rows_are_set_aside_and_the_rest_is_read(tmp_path: Path) -> None:
    db = Db(tmp_path / "x.db", SCHEMA.replace(" NOT NULL", ""))
    s = db.session("s")
    db.say(s, None, "no role")  # type: ignore[arg-type]
    db.say(s, "user", "fine")
    db.say(None, "user", "no session")  # type: ignore[arg-type]
    db.say("gone", "user", "the session was deleted")
    db.insert("sessions", id=None, source="cli")
    db.say(s, "assistant", None, calls=[call("c", "terminal")])
    db.answer(s, "c", "first")
    db.answer(s, "c", "second")
    db.close()
    found = read_db(db.path)
    assert [(row.where, row.reason) for row in aside(found)] == [
        ("sessions", "a session has no id"),
        ("messages.id=1", "the message has no role"),
        ("messages.id=7", "the call c has a result already"),
        ("messages.id=3", "the message names no session"),
    ]
    assert [d.columns["input"]["content"] for d in drafts(found, Action.MESSAGE_RECEIVED)] == [
        "fine",
        "the session was deleted",
    ]


def test_text_of_any_kind(tmp_path: Path) -> None:
    db = Db(tmp_path / "x.db")
    s = db.session("s")
    db.run(
        "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, 'user', CAST(? AS TEXT), 1)",
        s,
        b"a\xffb",
    )
    db.run(
        "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, 'user', CAST(? AS TEXT), 2)",
        s,
        b"\xed\xa0\x80",
    )
    db.say(s, "user", b"\xf0\x9f\x8c\x9f bytes")
    db.say(s, "user", 12)
    db.say(s, "assistant", "", calls=[call("c", "t", '{"n": NaN, "big": ' + "9" * 5000 + "}")])
    db.answer(s, "c", "[" * 100_000)
    db.close()
    found = drafts(read_db(db.path))
    contents = [d.columns["input"]["content"] for d in found if d.action == Action.MESSAGE_RECEIVED]
    assert contents == ["a\udcffb", "\ud800", "🌟 bytes", "12"]
    for draft in found:
        for column in ("input", "output"):
            payload.dumps(draft.columns.get(column))


# ---------------------------------------------------------------- how the file is found

HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    connection.execute(statement)
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_another_process(path: Path, *statements: str) -> Iterator[None]:
    command = [sys.executable, "-c", HOLDER, str(path), *statements]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        yield
    finally:
        process.communicate()


ADD = "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s', 'user', 'from the WAL', 1)"


def wal_db(folder: Path) -> Path:
    db = Db(folder / "state.db")
    db.run("PRAGMA journal_mode=WAL")
    db.say(db.session("s"), "user", "checkpointed")
    db.close()
    return db.path


def contents(path: Path) -> list[str]:
    return [d.columns["input"]["content"] for d in drafts(read_db(path), Action.MESSAGE_RECEIVED)]


def test_wal_in_use_by_another_process(tmp_path: Path) -> None:
    path = wal_db(tmp_path)
    with held_by_another_process(path, ADD):
        before = files(tmp_path)
        assert set(before) == {"state.db", "state.db-wal", "state.db-shm"}
        assert b"from the WAL" not in before["state.db"]
        assert hermes_state.sniff(path)
        assert contents(path) == ["checkpointed", "from the WAL"]
        after = files(tmp_path)
        assert {**after, "state.db-shm": b""} == {**before, "state.db-shm": b""}


def test_wal_that_nobody_uses_leaves_nothing_behind(tmp_path: Path) -> None:
    path = wal_db(tmp_path)
    before = files(tmp_path)
    assert set(before) == {"state.db"}
    assert hermes_state.sniff(path)
    assert contents(path) == ["checkpointed"]
    assert files(tmp_path) == before


@pytest.mark.parametrize("parts", [("state.db", "state.db-wal"), ("state.db", "state.db-wal", "state.db-shm")])
def test_wal_left_by_a_crash_or_copied_away(tmp_path: Path, parts: tuple[str, ...]) -> None:
    (tmp_path / "home").mkdir()
    path = wal_db(tmp_path / "home")
    backup = tmp_path / "backup"
    backup.mkdir()
    with held_by_another_process(path, ADD):
        for part in parts:
            shutil.copy(path.with_name(part), backup)
    before = files(backup)
    assert contents(backup / "state.db") == ["checkpointed", "from the WAL"]
    after = files(backup)
    assert after.keys() == before.keys()
    assert after["state.db"] == before["state.db"]
    assert after["state.db-wal"] == before["state.db-wal"]


def test_a_fresh_database_that_is_all_in_the_wal(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    script = ["PRAGMA journal_mode=WAL", "PRAGMA wal_autocheckpoint=0", *filter(str.strip, SCHEMA.split(";"))]
    with held_by_another_process(
        path, *script, "INSERT INTO sessions (id, source, started_at) VALUES ('s', 'cli', 1)", ADD
    ):
        assert hermes_state.sniff(path)
        assert contents(path) == ["from the WAL"]


WRITER = """
import sqlite3, sys
while True:
    connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=10)
    connection.execute("PRAGMA wal_autocheckpoint=2")
    for _ in range(5):
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(2):
            connection.execute(
                "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s', 'user', ?, 1)", ["x" * 3000]
            )
        connection.execute("COMMIT")
    connection.close()
"""


def test_a_writer_that_comes_and_goes_is_never_seen_halfway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_copy, "BUSY_SECONDS", 10)
    path = wal_db(tmp_path)
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
    try:
        seen = [len(contents(path)) for _ in range(25)]
    finally:
        process.kill()
        process.wait()
    assert seen == sorted(seen)
    assert {count % 2 for count in seen} == {1}


def in_a_read_only_folder(path: Path, check: Callable[[], None]) -> None:
    """Run `check` in a child process that may read, but not write, the folder of `path`."""
    path.parent.chmod(0o555)
    for part in path.parent.iterdir():
        part.chmod(0o444)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            with pytest.raises(OSError):
                (path.parent / "new").touch()
            check()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    path.parent.chmod(0o755)
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize("used", [True, False])
def test_a_folder_that_is_read_only(used: bool) -> None:
    # Not below pytest's own folder, which only its owner may enter.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        path = wal_db(Path(folder))
        if not used:
            in_a_read_only_folder(path, lambda: _expect(contents(path) == ["checkpointed"]))
            return
        with held_by_another_process(path, ADD):
            in_a_read_only_folder(path, lambda: _expect(contents(path) == ["checkpointed", "from the WAL"]))
            path.chmod(0o644)


def _expect(condition: bool) -> None:
    assert condition


@pytest.mark.parametrize(
    "statements",
    [
        ("BEGIN EXCLUSIVE",),
        ("PRAGMA locking_mode=EXCLUSIVE", "BEGIN IMMEDIATE", ADD, "COMMIT"),
        ("PRAGMA locking_mode=EXCLUSIVE", "PRAGMA journal_mode=WAL", ADD),
    ],
)
def test_an_exclusive_lock_of_another_process(tmp_path: Path, statements: tuple[str, ...]) -> None:
    db = Db(tmp_path / "state.db")
    db.say(db.session("s"), "user", "hi")
    db.close()
    with held_by_another_process(db.path, *statements):
        assert hermes_state.sniff(db.path)
        with pytest.raises(BusyError, match="locked by another process"):
            read_db(db.path)
    assert "hi" in contents(db.path)


def test_a_transaction_that_was_cut_off_by_a_crash(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "crashed").mkdir()
    db = Db(tmp_path / "home" / "state.db")
    db.say(db.session("s"), "user", "committed")
    db.close()
    change = "UPDATE messages SET content = 'never committed'"
    with held_by_another_process(
        db.path,
        "PRAGMA cache_size=1",
        "PRAGMA cache_spill=1",
        "BEGIN",
        change,
        "CREATE TABLE filler AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 "
        "FROM n LIMIT 2000) SELECT x, randomblob(200) AS y FROM n",
    ):
        for part in (tmp_path / "home").iterdir():
            shutil.copy(part, tmp_path / "crashed")
    before = files(tmp_path / "crashed")
    assert before.keys() == {"state.db", "state.db-journal"}
    assert contents(tmp_path / "crashed" / "state.db") == ["committed"]
    assert files(tmp_path / "crashed") == before


def big_db(folder: Path) -> Path:
    db = Db(folder / "state.db")
    db.run("BEGIN")
    for n in range(40):
        s = db.session(f"s{n:02}")
        for m in range(20):
            db.say(s, "user", f"message {n}.{m} " + "x" * 300)
    db.run("COMMIT")
    db.close()
    return db.path


def test_a_truncated_database(tmp_path: Path) -> None:
    path = big_db(tmp_path)
    os.truncate(path, path.stat().st_size // 2 // 4096 * 4096 + 100)
    assert hermes_state.sniff(path)
    with pytest.raises(ImportFormatError, match="truncated"):
        read_db(path)


@pytest.mark.parametrize(
    "content", [b"", os.urandom(8192), b"SQLite format 3\x00" + b"\xff" * 4096, b"SQLite format 3\x00"]
)
def test_an_encrypted_or_damaged_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(content)
    assert hermes_state.sniff(path)
    with pytest.raises(ImportFormatError, match=r"empty|encrypted|damaged|truncated"):
        read_db(path)


def test_damaged_pages_cost_only_what_is_on_them(tmp_path: Path) -> None:
    path = big_db(tmp_path)
    whole = len(drafts(read_db(path)))
    needle = path.read_bytes().index(b"message 20.5 ")
    with path.open("r+b") as file:
        file.seek(needle // 4096 * 4096)
        file.write(b"\xff" * 4096)
    found = read_db(path)
    assert 0 < len(drafts(found)) < whole
    assert {row.reason.partition(" (")[0] for row in aside(found)} == {"the database is damaged here"}
    assert len(aside(found)) <= 2


def test_no_file(tmp_path: Path) -> None:
    assert not hermes_state.sniff(tmp_path)
    assert not hermes_state.sniff(tmp_path / "x")
    with pytest.raises(MissingError):
        read_db(tmp_path / "x.db")


# ---------------------------------------------------------------- any rows at all

any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
any_value = st.one_of(
    st.none(),
    any_text,
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.binary(max_size=20),
    st.sampled_from(["user", "assistant", "tool", "a", "b", "[]", '[{"id": "a", "function": {"name": "t"}}]', 0, 1]),
    st.sampled_from(['[{"id": "b"}, 3]', '{"id": ["x"]}', "\x00json:[1]", "[CONTEXT SUMMARY]: x"]),
)
message = st.fixed_dictionaries(
    {},
    optional={
        name: any_value
        for name in ("session_id", "role", "content", "tool_call_id", "tool_calls", "timestamp", "tool_name")
    }
    | {"active": st.sampled_from([0, 1, None]), "compacted": st.sampled_from([0, 1, None])}
    | {
        "session_id": st.sampled_from(["a", "b", "c"]),
        "role": st.sampled_from(["user", "assistant", "tool"]),
    },
)
session = st.fixed_dictionaries(
    {"id": st.sampled_from(["a", "b", "c", None])},
    optional={name: any_value for name in ("source", "started_at", "ended_at", "input_tokens", "model", "model_config")}
    | {
        "parent_session_id": st.sampled_from(["a", "b", "c"]),
        "end_reason": st.sampled_from(["compression", "x"]),
    },
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(session, max_size=4, unique_by=lambda s: s["id"] or id(s)), st.lists(message, max_size=14))
def test_any_rows(sessions: list[dict[str, Any]], messages: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        db = Db(Path(folder) / "x.db", SCHEMA.replace(" NOT NULL", ""))
        db.run("BEGIN")
        for row in sessions:
            db.insert("sessions", **row)
        for row in messages:
            db.insert("messages", **{"session_id": "a"} | row)
        db.run("COMMIT")
        db.close()
        found = read_db(db.path)
        assert read_db(db.path) == found or any("nan" in repr(row) for row in found)
        grown = Db(db.path, "")
        grown.say("a", "user", "one more")
        grown.close()
        assert keys(found) <= keys(read_db(db.path))
    assert len(keys(found)) == len(drafts(found))
    for draft in drafts(found):
        for column in ("input", "output"):
            payload.dumps(draft.columns.get(column))


def test_progress(db: Db) -> None:
    for n in range(3):
        talk(db, db.session(f"s{n}"), range(2))
    seen: list[tuple[int, int]] = []
    list(hermes_state.read(Source(db.path, advance=lambda done, of: seen.append((done, of)))))
    assert seen == [(8, 24), (16, 24), (24, 24)]
