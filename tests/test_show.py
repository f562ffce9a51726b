"""What the command line prints: nothing vanishes, and a log cannot play tricks on a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest
from conftest import SCRIPT, Cli

from hermes_lab import Action, Lab

LONG = "select repeat('好的，', 200) as a, 1 as b, 'x' as c"


def on_a_terminal(lab: Path, width: int, *arguments: str) -> str:
    """Return what a command prints on a terminal of that width."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "HERMES_LAB_HOME": str(lab), "COLUMNS": str(width), "LINES": "50", "TERM": "xterm"}
    child = subprocess.Popen([SCRIPT, *arguments], stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    parts = []
    try:
        while part := os.read(ours, 65_536):
            parts.append(part)
    except OSError:  # the child closed its end
        pass
    finally:
        os.close(ours)
    child.wait(timeout=60)
    return b"".join(parts).decode().replace("\r\n", "\n")


def test_short_columns_stay_whole_beside_a_long_one(lab: Lab) -> None:
    lines = on_a_terminal(lab.path, 80, "sql", LONG).splitlines()
    assert lines[0].split() == ["a", "b", "c"]
    assert lines[2].startswith("好的，")
    assert lines[2].split()[-2:] == ["1", "x"]
    assert "…" in lines[2]


def test_rows_of_too_many_columns_are_printed_one_by_one(lab: Lab) -> None:
    with lab.log.writer() as writer:
        writer.record(Action.TOOL_CALLED, name="查询", task_id="t1")
    text = on_a_terminal(lab.path, 60, "sql", "select * from events")
    assert "── row 1 " in text
    for column in ("event_id", "schema_version", "task_id"):
        assert column in text
    assert "查询" in text


def test_nothing_is_cut_in_a_pipe(lab: Lab, cli: Cli) -> None:
    assert "好的，" * 200 in cli("sql", LONG).stdout


def test_columns_of_one_name_are_all_in_the_json(lab: Lab, cli: Cli) -> None:
    assert json.loads(cli("sql", "select 1 as a, 2 as a, 3 as b", "--json").stdout) == [{"a": 1, "a_1": 2, "b": 3}]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "America/Los_Angeles"])
def test_times_are_utc_in_every_zone(lab: Lab, cli: Cli, zone: str) -> None:
    same = "timestamptz '2026-01-06 09:00' = timestamptz '2026-01-06 09:00+00'"
    query = f"select {same} as same, '2026-01-06'::timestamptz as t"
    rows = json.loads(cli("sql", query, "--json", prefix=("env", f"TZ={zone}")).stdout)
    assert rows == [{"same": True, "t": "2026-01-06T00:00:00+00:00"}]


ESCAPES = "n\x1b]0;pwned\x07\x1b[31m\x9b31m\u202e\u2028"


@pytest.mark.parametrize(
    "query",
    [
        "select name from events",
        'select 1 as "\x1b[31mred"',
        "select cast(name as int) from events",
        "select error(name) from events",
    ],
)
def test_escape_sequences_of_a_log_do_not_reach_the_terminal(lab: Lab, query: str) -> None:
    with lab.log.writer() as writer:
        writer.record(Action.FEEDBACK, name=ESCAPES)
    text = on_a_terminal(lab.path, 100, "sql", query)
    assert not any(c in text for c in "\x1b\x07\x9b\u202e\u2028")


def test_a_full_output_is_said_in_a_line(lab: Lab, cli: Cli) -> None:
    result = cli(prefix=("sh", "-c", '"$0" sql "select 1" > /dev/full'))
    assert result.returncode == 74
    assert "Traceback" not in result.stderr
