"""`doctor`: it finds the troubles that it is there for, and says what to do."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import Cli

from hermes_lab import Action, Lab
from hermes_lab import open as open_lab
from hermes_lab.doctor import examine


def states(lab: Lab) -> dict[str, str]:
    return {check.name: check.state for check in examine(str(lab.path))}


def record_tasks(lab: Lab, tasks: int, events: int) -> None:
    with lab.log.writer() as writer:
        for task in range(tasks):
            for step in range(events):
                writer.record(Action.TOOL_CALLED, name="find", task_id=f"任务-{task}", step=step)


def test_a_healthy_lab_has_no_trouble(lab: Lab, cli: Cli) -> None:
    record_tasks(lab, tasks=3, events=2)
    result = cli("doctor", "--json")
    assert result.returncode == 0, result.stdout
    assert {check["state"] for check in json.loads(result.stdout)} <= {"ok", "note"}


def test_no_lab_is_no_trouble(cli: Cli, tmp_path: Path) -> None:
    result = cli("doctor", lab=tmp_path / "nowhere")
    assert result.returncode == 0
    assert "hermes-lab import FILE" in result.stdout


def test_a_log_that_grows_too_fast_is_found_with_its_cause(lab: Lab, cli: Cli) -> None:
    (lab.path / "lab.toml").write_text("format = 1\n[log]\ngrowth_per_task = 10\n")
    record_tasks(lab, tasks=3, events=30)
    assert states(open_lab(lab.path))["growth"] == "trouble"
    result = cli("doctor")
    assert result.returncode == 1
    assert "grows too fast: 30 events a task" in result.stdout
    assert "100% of them are tool_called" in result.stdout
    assert "raise growth_per_task (now 10)" in result.stdout


def test_lines_that_were_no_events_are_found(lab: Lab) -> None:
    record_tasks(lab, tasks=1, events=1)
    [path] = lab.log.layout.live.glob("*.jsonl")
    with open(path, "ab") as file:
        file.write(b"rubbish\n")
    assert states(lab)["lines"] == "trouble"
    lab.log.seal()
    assert states(lab)["lines"] == "trouble"


def test_many_small_segments_are_found(lab: Lab) -> None:
    for _ in range(51):
        record_tasks(lab, tasks=1, events=1)
        lab.log.seal()
    assert states(lab)["log"] == "note"
    lab.log.compact()
    assert states(lab)["log"] == "ok"


def test_a_lost_segment_is_found(lab: Lab) -> None:
    record_tasks(lab, tasks=1, events=1)
    lab.log.seal()
    next(lab.log.layout.folder.glob("date=*/*.parquet")).unlink()
    assert states(open_lab(lab.path))["growth"] == "trouble"


def test_a_broken_lab_toml_is_found(lab: Lab) -> None:
    (lab.path / "lab.toml").write_text("format = ")
    assert states(lab)["lab"] == "trouble"
