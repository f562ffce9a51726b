"""Importing as a whole: found by looking, nothing twice, bad rows set aside, crashes gone on from, purges respected."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli

from hermes_lab import Lab, importers
from hermes_lab import open as open_lab
from hermes_lab.errors import BusyError, ImportFormatError
from hermes_lab.log import files

SAMPLES = Path(__file__).parent / "samples"
COUNTS = """select action, name, count(*), sum(output_tokens) from events
            where action in ('generation', 'tool_called') group by 1, 2 order by all"""


IMPORT = """
import sys, hermes_lab
lab = hermes_lab.open(sys.argv[1])
print("go", flush=True)
lab.import_log(sys.argv[2])
"""


def conversation(number: int, turns: int = 1) -> dict[str, Any]:
    """Return one line of an OpenAI chat log: `turns` calls of a tool, each answered."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"第{number}个订单在哪里？"}]
    for turn in range(turns):
        call = {
            "id": f"call_{number}_{turn}",
            "type": "function",
            "function": {"name": "find", "arguments": json.dumps({"id": number})},
        }
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps({"status": "shipped"})})
    messages.append({"role": "assistant", "content": "It is on its way. 🚚"})
    return {"messages": messages, "model": "hermes-3"}


def write_lines(path: Path, *rows: object) -> Path:
    """Write rows as JSON lines; text as it is."""
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)) + "\n" for row in rows)
    )
    return path


def count(lab: Lab, condition: str = "action != 'imported'") -> int:
    return int(lab.log.sql(f"select count(*) from events where {condition}").fetchall()[0][0])


@pytest.mark.parametrize(
    "path", sorted(p for p in SAMPLES.rglob("*") if p.is_file()), ids=lambda p: str(p.relative_to(SAMPLES))
)
def test_each_sample_is_recognised_imported_and_answers(lab: Lab, cli: Cli, path: Path) -> None:
    result = cli("import", path, "--json")
    assert result.returncode == 0, result.stderr
    [summary] = json.loads(result.stdout)
    assert summary["imported"] > 0
    assert summary["skipped"] == 0
    asked = cli("sql", COUNTS, "--json")
    assert asked.returncode == 0, asked.stderr
    assert "generation" in {row["action"] for row in json.loads(asked.stdout)}
    assert lab.log.sql(
        "select count(*) from events where ts is null or weight is null or event_id is null"
    ).fetchall() == [(0,)]
    assert lab.log.verify().ok
    before = lab.log.sql(COUNTS).fetchall()
    [again] = json.loads(cli("import", path, "--json").stdout)
    assert (again["imported"], again["skipped"]) == (0, summary["imported"])
    lab.log.seal()
    [once_more] = json.loads(cli("import", path, "--json").stdout)
    assert (once_more["imported"], once_more["skipped"]) == (0, summary["imported"])
    assert lab.log.sql(COUNTS).fetchall() == before


def test_every_format_has_a_sample_with_tool_calls(tmp_path: Path) -> None:
    found = set()
    for number, path in enumerate(p for p in SAMPLES.rglob("*") if p.is_file()):
        lab = open_lab(tmp_path / str(number))
        summary = lab.import_log(path)
        if count(lab, "action = 'tool_called'"):
            found.add(summary.format)
    assert found == {importer.NAME for importer in importers.all_importers()}


def test_a_file_that_grew_adds_only_what_is_new(lab: Lab, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", conversation(1))
    first = lab.import_log(path)
    write_lines(path, conversation(1), conversation(2), conversation(3))
    os.utime(path, (1, 1))
    second = lab.import_log(path)
    assert second.imported == 2 * first.imported
    assert second.skipped == first.imported


def test_a_copy_under_another_name_adds_nothing(lab: Lab, tmp_path: Path) -> None:
    first = lab.import_log(write_lines(tmp_path / "a.jsonl", conversation(1), conversation(2)))
    second = lab.import_log(write_lines(tmp_path / "b.jsonl", conversation(2), conversation(1)))
    assert (second.imported, second.skipped) == (0, first.imported)


def test_two_rollouts_that_came_out_the_same_are_two(lab: Lab, tmp_path: Path) -> None:
    once = lab.import_log(write_lines(tmp_path / "a.jsonl", conversation(1)))
    twice = lab.import_log(write_lines(tmp_path / "b.jsonl", conversation(1), conversation(1)))
    assert (twice.imported, twice.skipped) == (once.imported, once.imported)


def test_a_session_that_stands_in_a_file_twice_is_one(lab: Lab, tmp_path: Path) -> None:
    line = {**conversation(1), "id": "session-1"}
    longer = {**conversation(1, turns=2), "id": "session-1"}
    others = [{**conversation(i), "id": f"session-{i}"} for i in range(2, 6)]
    lab.import_log(write_lines(tmp_path / "a.jsonl", line, *others, line))
    assert lab.log.sql(
        "select count(*), count(distinct event_id) from events where episode_id = 'session-1'"
    ).fetchall() == [(count(lab, "episode_id = 'session-1'"),) * 2]
    alone = open_lab(tmp_path / "alone")
    alone.import_log(write_lines(tmp_path / "b.jsonl", line))
    assert count(lab, "episode_id = 'session-1'") == count(alone)
    assert longer != line


def test_bad_rows_are_set_aside_with_line_and_reason(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEIR_API_KEY", "kV3rySecretIndeed99")
    summary = lab.import_log(
        write_lines(
            tmp_path / "a.jsonl",
            conversation(1),
            '{"messages": [kV3rySecretIndeed99',
            "[1, 2]",
            conversation(2),
            '{"messages": 7}',
        ),
        format="openai-chat",
    )
    assert summary.set_aside == 3
    assert summary.episodes == 2
    assert summary.set_aside_file is not None
    text = Path(summary.set_aside_file).read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    assert [row["where"] for row in rows] == ["line 2", "line 3", "line 5"]
    assert all(row["reason"] for row in rows)
    assert "kV3rySecretIndeed99" not in text


def test_a_secret_spelled_with_escapes_in_a_broken_line_is_not_kept(lab: Lab, tmp_path: Path) -> None:
    key = "k-proj-" + "a1B2c3D4" * 5
    path = write_lines(tmp_path / "a.jsonl", conversation(1), '{"messages": "\\u0073' + key + '" oops')
    summary = lab.import_log(path)
    assert summary.set_aside == 1
    assert key not in Path(summary.set_aside_file or "").read_text()


def test_an_import_that_finds_nothing_fails_loudly(lab: Lab, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", "rubbish", "more rubbish")
    with pytest.raises(
        ImportFormatError, match=r"nothing was found in .*2 rows were set aside, the first one \(line 1: "
    ):
        lab.import_log(path, format="openai-chat")
    assert count(lab, "true") == 0


def test_the_import_is_recorded(lab: Lab, tmp_path: Path) -> None:
    summary = lab.import_log(write_lines(tmp_path / "a.jsonl", conversation(1)))
    [event] = lab.log.events("action = 'imported'")
    assert event.name == "openai-chat"
    assert event.run_id == summary.run_id
    assert json.loads(event.output or "")["imported"] == summary.imported
    lab.import_log(tmp_path / "a.jsonl")
    assert count(lab, "action = 'imported'") == 1, "an import that adds nothing leaves no event"


def test_parents_steps_and_episodes_hang_together(lab: Lab, tmp_path: Path) -> None:
    lab.import_log(write_lines(tmp_path / "a.jsonl", conversation(1, turns=2), conversation(2)))
    orphans = """
        select count(*) from events child left join events parent on child.parent_id = parent.event_id
        where child.action = 'tool_called' and (
            parent.action is distinct from 'generation'
            or parent.episode_id != child.episode_id or parent.step >= child.step
        )
    """
    assert lab.log.sql(orphans).fetchall() == [(0,)]
    assert lab.log.sql("select count(*) from events where action = 'tool_called'").fetchall() == [(3,)]
    ordered = """
        select list(step order by event_id) = list(step order by step)
        from events where episode_id is not null group by episode_id
    """
    assert lab.log.sql(ordered).fetchall() == [(True,), (True,)]


def test_naive_times_are_read_in_the_zone_given(tmp_path: Path, cli: Cli) -> None:
    line = {
        "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}],
        "timestamp": "2026-03-01T12:00:00",
        "model": "m",
        "completed": True,
    }
    path = write_lines(tmp_path / "t.jsonl", line)
    for zone, hour in (("UTC", 12), ("Asia/Shanghai", 4)):
        lab = tmp_path / zone.replace("/", "-")
        assert cli("import", path, "--timezone", zone, lab=lab).returncode == 0
        rows = json.loads(cli("sql", "select min(ts)::varchar as first from events", "--json", lab=lab).stdout)
        assert rows[0]["first"].startswith(f"2026-03-01 {hour:02}:00:00")


def test_gzip_of_several_members(lab: Lab, tmp_path: Path) -> None:
    line = {
        "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}],
        "model": "m",
        "completed": True,
    }
    members = [gzip.compress((json.dumps({**line, "prompt_index": i}) + "\n").encode()) for i in range(3)]
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(b"".join(members))
    assert lab.import_log(path).episodes == 3


def test_purged_conversations_do_not_come_back(lab: Lab, cli: Cli, tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "a.jsonl",
        {**conversation(1), "id": "会话-2026-0001"},
        {**conversation(2), "id": "session-2026-0002"},
    )
    first = lab.import_log(path)
    result = cli(
        "log", "purge", "--session", "会话-2026-0001", "--by", "Li Wei", "--reason", "asked", "--yes", "--json"
    )
    assert result.returncode == 0, result.stderr
    gone = json.loads(result.stdout)["events"]
    assert gone == first.imported // 2
    again = lab.import_log(path)
    assert (again.imported, again.skipped, again.purged) == (0, first.imported - gone, gone)
    assert count(lab, "episode_id = '会话-2026-0001'") == 0


def test_one_import_at_a_time(lab: Lab, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", conversation(1))
    lab.log.layout.create()
    with files.locked(lab.log.layout.import_lock, "test"), pytest.raises(BusyError, match="another import"):
        lab.import_log(path)


@pytest.mark.parametrize("delay_ms", [30, 80, 150, 300])
def test_a_killed_import_goes_on_where_it_was(lab: Lab, tmp_path: Path, delay_ms: int) -> None:
    path = write_lines(tmp_path / "big.jsonl", *({**conversation(i, turns=3), "id": f"s-{i}"} for i in range(3_000)))
    child = subprocess.Popen([sys.executable, "-c", IMPORT, str(lab.path), str(path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(delay_ms / 1000)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    there = count(lab)
    summary = lab.import_log(path)
    assert summary.skipped == there
    whole = open_lab(tmp_path / "whole")
    whole.import_log(path)
    mine = """
        select event_id, step, action, parent_id, input, output
        from events where action != 'imported' order by event_id
    """
    assert lab.log.sql(mine).fetchall() == whole.log.sql(mine).fetchall()
    assert lab.log.verify().ok
