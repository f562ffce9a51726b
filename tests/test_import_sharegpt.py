"""ShareGPT trajectories: calls and responses inside the text, episodes without ids, gzip in every state."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab import payload
from hermes_lab.events import Action, ErrorKind, Status
from hermes_lab.importers.base import Draft, SetAside, Source
from hermes_lab.importers.hermes_agent import sharegpt

SAMPLES = Path(__file__).parent / "samples" / "sharegpt"
SAVED = dt.datetime(2026, 1, 1, 8, tzinfo=dt.UTC)


def turn(speaker: str, value: Any) -> dict[str, Any]:
    return {"from": speaker, "value": value}


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def response(name: str, content: Any) -> str:
    return f"<tool_response>\n{json.dumps({'name': name, 'content': content})}\n</tool_response>"


def record(*turns: object, **more: Any) -> dict[str, Any]:
    base = {"conversations": list(turns), "timestamp": "2026-01-01T08:00:00", "model": "m", "completed": True}
    return base | more


def write(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), "utf-8")
    return path


def read(path: Path, naive: dt.tzinfo = dt.UTC) -> list[Draft | SetAside]:
    return list(sharegpt.read(Source(path, naive_times=naive)))


def drafts(found: list[Draft | SetAside], action: Action | None = None) -> list[Draft]:
    return [d for d in found if isinstance(d, Draft) and action in (None, d.action)]


def calls(path: Path) -> list[dict[str, Any]]:
    found = drafts(read(path), Action.TOOL_CALLED)
    return [d.columns for d in found]


def test_a_trajectory(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.jsonl",
        record(
            turn("system", "You call functions."),
            turn("human", "杭州天气？ 🌤️"),
            turn("gpt", f"<think>\n查\n</think>\n{call('weather', city='杭州')}"),
            turn("tool", response("wrong_name", {"sky": "晴"})),
            turn("gpt", "<think>\n</think>\n晴。"),
        ),
    )
    assert sharegpt.sniff(path)
    found = drafts(read(path))
    episode = found[0].episode
    told = {"system_prompt": "You call functions.", "prompt": "杭州天气？ 🌤️", "model": "m"}
    arguments = {"city": "杭州"}
    assert found == [
        Draft(episode, "started", Action.TASK_STARTED, SAVED, {"input": told}),
        Draft(
            episode,
            "turn:2",
            Action.MESSAGE_RECEIVED,
            SAVED,
            {"name": "user", "input": {"content": "杭州天气？ 🌤️"}},
        ),
        Draft(
            episode,
            "turn:3",
            Action.GENERATION,
            SAVED,
            {
                "name": "m",
                "output": {"tool_calls": [{"name": "weather", "arguments": arguments}], "reasoning": "查"},
                "status": Status.OK,
            },
        ),
        Draft(
            episode,
            "turn:3:call:0",
            Action.TOOL_CALLED,
            SAVED,
            {
                "name": "weather",
                "input": arguments,
                "output": {"sky": "晴"},
                "observation": '{"sky": "晴"}',
                "status": Status.OK,
                "confidence": 0.8,
            },
            "turn:3",
        ),
        Draft(
            episode,
            "turn:5",
            Action.GENERATION,
            SAVED,
            {"name": "m", "output": {"content": "晴。"}, "status": Status.OK},
        ),
        Draft(
            episode,
            "ended",
            Action.TASK_ENDED,
            SAVED,
            {"output": {"completed": True}, "status": Status.OK},
        ),
    ]


def test_responses_are_paired_by_position_and_the_name_is_the_calls(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.jsonl",
        record(
            turn("gpt", call("first") + call("second") + call("third")),
            turn("tool", response("third", "one") + "\n" + response("", '{"error": "boom"}')),
            turn("human", "and?"),
            turn("tool", "late and plain"),
            turn("tool", response("x", "later")),
        ),
    )
    found = calls(path)
    assert [(c.get("name"), c.get("input"), c.get("output")) for c in found] == [
        ("first", {}, "one"),
        ("second", {}, {"error": "boom"}),
        ("third", {}, None),
        (None, None, "late and plain"),
        ("x", None, "later"),
    ]
    assert found[2] == {"name": "third", "input": {}}
    assert found[1]["status"] == Status.ERROR
    assert all(c["confidence"] <= 0.5 for c in found[3:])


def test_calls_that_cannot_be_read_keep_their_text_and_their_siblings(tmp_path: Path) -> None:
    broken = "<tool_call>\n{broken\n</tool_call>"
    repaired = "<tool_call>\n{'name': 'b', 'arguments': {'x': 1}}\n</tool_call>"
    text = f"{call('a')}\n{broken}\n{repaired}"
    answers = [response(name, name) for name in ("a", "b")]
    path = write(tmp_path / "x.jsonl", record(turn("gpt", text), turn("tool", "\n".join(answers))))
    assert [(c.get("name"), c.get("output"), c["status"], c.get("error_kind")) for c in calls(path)] == [
        ("a", "a", Status.OK, None),
        (None, None, Status.INVALID, ErrorKind.UNREADABLE_CALL),
        ("b", "b", Status.OK, None),
    ]
    assert calls(path)[1]["input"] == broken
    (generation,) = drafts(read(path), Action.GENERATION)
    assert generation.columns["output"]["raw"] == text
    names = [c["name"] for c in generation.columns["output"]["tool_calls"]]
    assert names == ["a", "b"]
    answered = write(tmp_path / "y.jsonl", record(turn("gpt", text), turn("tool", response("", "!") * 3)))
    assert [c.get("output") for c in calls(answered)] == ["!", "!", "!"]


def test_the_same_unreadable_call_twice(tmp_path: Path) -> None:
    broken = "<tool_call>\n{broken\n</tool_call>"
    path = write(tmp_path / "x.jsonl", record(turn("gpt", f"{broken}\n{call('a')}\n{broken}\n{call('a')}")))
    assert [c.get("name") for c in calls(path)] == [None, "a", None, "a"]


def test_calls_in_reasoning_are_recorded_but_were_never_run(tmp_path: Path) -> None:
    text = f"<think>\nmaybe {call('rm', path='/')}\n</think>\n{call('ls')}"
    path = write(tmp_path / "x.jsonl", record(turn("gpt", text), turn("tool", response("ls", "a.txt"))))
    assert [(c["name"], c["output"]) for c in calls(path)] == [("ls", "a.txt")]
    (generation,) = drafts(read(path), Action.GENERATION)
    assert generation.columns["output"]["calls_in_reasoning"] == [{"name": "rm", "arguments": {"path": "/"}}]


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"completed": True}, Status.OK),
        ({"completed": False}, Status.ERROR),
        ({"completed": True, "partial": True}, Status.ERROR),
        ({"completed": None}, None),
        ({"completed": "yes"}, None),
    ],
)
def test_how_it_ended(tmp_path: Path, more: dict[str, Any], status: Status | None) -> None:
    (ended,) = drafts(read(write(tmp_path / "x.jsonl", record(**more))), Action.TASK_ENDED)
    assert ended.columns.get("status") == status


def test_a_line_of_a_batch_run(tmp_path: Path) -> None:
    counts = {
        "terminal": {"count": 3, "success": 2, "failure": 1},
        "idle": {"count": 0, "success": 0, "failure": 0},
    }
    line = {
        "prompt_index": 4,
        "conversations": [turn("human", "go")],
        "metadata": {"timestamp": "2026-01-01T09:00:00", "model": "Hermes-4-405B"},
        "completed": True,
        "partial": False,
        "api_calls": 5,
        "toolsets_used": ["terminal"],
        "tool_stats": counts,
        "tool_error_counts": {"terminal": 1, "idle": 0},
    }
    started, _, ended = drafts(read(write(tmp_path / "x.jsonl", line), dt.timezone(dt.timedelta(hours=1))))
    assert started.ts == SAVED
    assert started.columns["input"] == {
        "prompt_index": 4,
        "metadata": line["metadata"],
        "toolsets_used": ["terminal"],
        "prompt": "go",
        "model": "Hermes-4-405B",
    }
    assert ended.columns["output"] == {
        "completed": True,
        "partial": False,
        "api_calls": 5,
        "tool_stats": {"terminal": counts["terminal"]},
        "tool_error_counts": {"terminal": 1},
    }


def test_episodes_are_known_by_their_text_and_by_how_often_it_came(tmp_path: Path) -> None:
    a, b = record(turn("human", "a")), record(turn("human", "b"))
    first = drafts(read(write(tmp_path / "x.jsonl", a, b, a)), Action.TASK_STARTED)
    grown = drafts(read(write(tmp_path / "y.jsonl", a, b, a, b, a)), Action.TASK_STARTED)
    assert [d.episode for d in first] == [d.episode for d in grown[:3]]
    assert len({d.episode for d in grown}) == 5
    assert first[2].episode == f"{first[0].episode}#2"


def test_other_spellings_of_the_turns(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.jsonl",
        record(
            turn("user", "hi"),
            {"role": "assistant", "content": call("a")},
            turn("observation", "one"),
            turn("function_call", '{"name": "b", "arguments": {}}'),
            turn("function_response", "two"),
            {
                "from": "gpt",
                "value": None,
                "tool_calls": [{"id": "1", "function": {"name": "c", "arguments": "{"}}],
            },
            turn("tool", "three"),
            turn("system", "in the middle"),
        ),
    )
    found = drafts(read(path))
    assert [(d.columns["name"], d.columns["output"]) for d in found if d.action == Action.TOOL_CALLED] == [
        ("a", "one"),
        ("b", "two"),
        ("c", "three"),
    ]
    assert found[-3].columns["error_kind"] == ErrorKind.BAD_ARGUMENTS
    assert found[-2].columns["name"] == "system"


def test_bad_lines_and_turns_are_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    lines = [
        b"\xef\xbb\xbf" + json.dumps(record(turn("human", "ok"), 3, {"value": "x"}, turn("gpt", 7))).encode(),
        b"{}",
        b"[]",
        b'{"conversations": 1}',
        b"{oops}",
        b'{"conversations": [{"from": "human", "value": "\\ud800"}]}',
        b'{"conversations": [{"from": "hum',
    ]
    path.write_bytes(b"\r\n".join(lines))
    found = read(path)
    assert [row.where for row in found if isinstance(row, SetAside)] == [
        "line 1, turn 2",
        "line 1, turn 3",
        "line 1, turn 4",
        "line 2",
        "line 3",
        "line 4",
        "line 5",
        "line 7",
    ]
    assert len(drafts(found, Action.TASK_STARTED)) == 2
    assert drafts(found)[-2].columns["input"]["content"] == "\ud800"


def pack(*records: object) -> bytes:
    return gzip.compress("".join(json.dumps(r) + "\n" for r in records).encode())


def test_gzip_of_several_members_the_last_one_cut_off(tmp_path: Path) -> None:
    a, b, c = (record(turn("human", name)) for name in "abc")
    plain = read(write(tmp_path / "x.jsonl", a, b, c))
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(pack(a, b) + pack(c))
    assert sharegpt.sniff(path)
    assert read(path) == plain
    path.write_bytes(pack(a, b) + pack(c)[:-20])
    found = read(path)
    assert found[:-1] == plain[: len(found) - 1]
    (aside,) = [row for row in found if isinstance(row, SetAside)]
    assert aside.where == "line 3"
    assert "cannot be read from here on" in aside.reason
    path.write_bytes(pack(a, b) + b"rubbish")
    assert read(path)[-1] == SetAside("line 3", read(path)[-1].reason, "")  # type: ignore[union-attr]


def test_progress_is_told_in_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", record(turn("human", "a")))
    seen: list[tuple[int, int]] = []
    list(sharegpt.read(Source(path, advance=lambda done, of: seen.append((done, of)))))
    assert seen == [(path.stat().st_size, path.stat().st_size)]


@pytest.mark.parametrize("name", ["trajectory_samples.jsonl", "batch_0.jsonl", "truncated.jsonl.gz"])
def test_the_samples(name: str) -> None:
    found = read(SAMPLES / name)
    assert sharegpt.sniff(SAMPLES / name)
    assert drafts(found, Action.GENERATION)
    assert len([row for row in found if isinstance(row, SetAside)]) == (name == "truncated.jsonl.gz")


any_text = st.text(max_size=20) | st.sampled_from(
    [
        call("a", x=1),
        "<tool_call>",
        "</think>",
        response("a", 1),
        "<tool_call>{'name': 'b'}",
        call("a") + call("b"),
    ]
)
any_json = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
speakers = st.sampled_from(["human", "gpt", "tool", "system", "function_call", "", "someone"])
any_turn = st.fixed_dictionaries({"from": speakers, "value": any_text}) | any_json
any_line = any_json | st.fixed_dictionaries(
    {"conversations": st.lists(any_turn, max_size=6) | any_json},
    optional={name: any_json for name in ("timestamp", "model", "completed", "metadata", "tool_stats", "prompt_index")},
)


@settings(max_examples=150, deadline=None)
@given(st.lists(any_line, max_size=4))
def test_any_lines(tmp_path_factory: pytest.TempPathFactory, lines: list[Any]) -> None:
    path = tmp_path_factory.mktemp("any") / "x.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    sharegpt.sniff(path)
    found = read(path)
    keys = {(d.episode, d.key) for d in drafts(found)}
    assert len(keys) == len(drafts(found))
    for draft in drafts(found):
        for column in ("input", "output"):
            payload.dumps(draft.columns.get(column))
    whole = [line for line in lines if isinstance(line, dict) and isinstance(line.get("conversations"), list)]
    assert len(drafts(found, Action.TASK_STARTED)) == len(whole)
    lost = {row.where for row in found if isinstance(row, SetAside) and "," not in row.where}
    assert len(lost) == len(lines) - len(whole)
