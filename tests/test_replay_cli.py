"""The command `replay`: exit codes, tables, and JSON that holds what the tables say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from replay_lab import desk_lab, refuse_models, rows

import hermes_lab
from hermes_lab.cli.replay import replay as command
from hermes_lab.errors import MissingError


@pytest.fixture(scope="module")
def desk_run(tmp_path_factory: pytest.TempPathFactory) -> hermes_lab.Lab:
    with pytest.MonkeyPatch.context() as patched:
        return desk_lab(tmp_path_factory.mktemp("台 desk"), patched, limit=24)


@pytest.fixture(autouse=True)
def no_models(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_models(monkeypatch)


def run(lab: hermes_lab.Lab, *arguments: Any) -> Result:
    return CliRunner().invoke(command, [str(one) for one in arguments], obj=str(lab.path), standalone_mode=False)


def test_under_their_own_configuration(desk_run: hermes_lab.Lab) -> None:
    done = run(desk_run, "--where", "action = 'task_started'")
    assert done.return_value == 0, done.exception
    assert "24 of 24 episodes reproduced" in done.output
    query = "select observation from events where action = 'candidate_replayed'"
    assert "24 of 24 episodes reproduced" in rows(desk_run, query)[-1][0]


def test_under_another_configuration(desk_run: hermes_lab.Lab) -> None:
    arguments = ["--where", "action = 'task_started'", "--set", "routing.shortlist=1", "--no-record"]
    before = rows(desk_run, "select count(*) from events")
    done = run(desk_run, *arguments)
    assert done.return_value == 0, done.exception
    assert "lost_tool" in done.output
    assert "Worth a look:" in done.output
    told = json.loads(run(desk_run, *arguments, "--json").output)
    assert told["episodes"][0].keys() >= {"episode_id", "verdict", "change", "tokens_delta"}
    assert len(told["episodes"]) == told["by_type"][-1]["episodes"] == 24
    assert told["changed"] + told["assumed_changed"] == told["changes"]["lost_tool"]
    assert rows(desk_run, "select count(*) from events") == before
    episode = told["episodes"][3]["episode_id"]
    one = json.loads(run(desk_run, "--episode", episode, "--set", "budgets.steps=1", "--no-record", "--json").output)
    assert [row["episode_id"] for row in one["episodes"]] == [episode]
    few = json.loads(run(desk_run, *arguments, "--limit", 5, "--after", "cached", "--json").output)
    assert few["after"] == "cached"
    assert len(few["episodes"]) == 5


def test_what_is_not_reproduced_ends_with_1(desk_run: hermes_lab.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from hermes_lab import context

    monkeypatch.setattr(context, "CALL_FRAME", context.Frame(prefix="<另>"))
    done = run(desk_run, "--no-record", "--where", "action = 'task_started'")
    assert done.return_value == 1
    assert "0 of 24 episodes reproduced" in done.output
    assert "frame.prefix" in done.output


def test_a_lab_or_run_that_is_not_there(desk_run: hermes_lab.Lab, tmp_path: Path) -> None:
    assert isinstance(run(desk_run, "--run", "没有").exception, MissingError)
    assert isinstance(CliRunner().invoke(command, [], obj=str(tmp_path / "none")).exception, MissingError)
