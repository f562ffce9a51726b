"""Measuring from the command line and a notebook: evaluate, grade, compare, sweep, over runs that were really made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agent_lab import SUITE, call, final, good_run, rows, use_script, write_weather
from click.testing import CliRunner

from hermes_lab import review
from hermes_lab.cli import cli, main
from hermes_lab.errors import ConfigError, MissingError
from hermes_lab.lab import Lab, open_lab

TASKS = 8


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A lab with one good run of the weather suite."""
    made = open_lab(tmp_path / "实验室")
    write_weather(made.path, TASKS)
    use_script(made.path, good_run(TASKS))
    opened = open_lab(made.path)
    opened.run(SUITE)
    return opened


def command(lab: Lab, *words: str, typed: str | None = None) -> Any:
    return CliRunner().invoke(cli, ["--lab", str(lab.path), *words], input=typed, catch_exceptions=False)


def second_run(lab: Lab, replies: list[str]) -> str:
    """Run the suite again, under another configuration, with other replies, and return its version."""
    use_script(lab.path, replies)
    run = open_lab(lab.path).run(SUITE, config=changed_config())
    return run.config_version


def changed_config() -> Any:
    from hermes_lab.config import AgentConfig, changed

    return changed(AgentConfig(), **{"budgets.steps": 7})


def bad_run() -> list[str]:
    """The wrong city everywhere: nothing gets full marks."""
    return [reply for _ in range(TASKS) for reply in (call("Nowhere"), final("I do not know"))]


# -- evaluate ---------------------------------------------------------------------------------------------------------


def test_evaluate_shows_a_row_a_version_and_what_it_was_scored_by(lab: Lab) -> None:
    shown = command(lab, "evaluate")
    assert shown.exit_code == 0
    version = rows(lab, "select distinct config_version from events where config_version is not null")[0][0]
    assert version in shown.output
    assert "scored by s-" in shown.output
    assert "the successes of the last 7 days" in shown.output


def test_evaluate_as_json_has_all_of_it(lab: Lab) -> None:
    told = json.loads(command(lab, "evaluate", "--json").output)
    (version,) = told["versions"]
    assert version["episodes"] == TASKS
    assert version["completion"] == 1.0
    assert version["feedback"] is None
    assert version["without_feedback"] == TASKS
    assert {row["task_type"] for row in told["types"]} == {"forecast", "查询"}
    assert set(told["baseline"]["costs"]) == {"forecast", "查询"}
    assert told["proofs"][0]["first_attempt_success"] == 1.0


@pytest.mark.parametrize("by", ["version", "type", "difficulty", "proofs", "gaming"])
def test_every_view_prints_a_table(lab: Lab, by: str) -> None:
    shown = command(lab, "evaluate", "--by", by)
    assert shown.exit_code == 0
    assert "c-" in shown.output


def test_the_scoring_of_the_lab_is_used_and_named(lab: Lab) -> None:
    before = json.loads(command(lab, "evaluate", "--json").output)
    (lab.path / "scoring.toml").write_text(
        "[weights]\ncompletion = 0.1\neffectiveness = 0.1\nsafety = 0.1\nfeedback = 0.7\n"
        "[feedback]\ndeaf_channels = []\nsilence_after_hours = 0\nsilence = 0.25\n"
    )
    after = json.loads(command(lab, "evaluate", "--json").output)
    assert after["scoring"] != before["scoring"]
    assert before["versions"][0]["base"] == pytest.approx(1.0)
    assert after["versions"][0]["base"] == pytest.approx(0.3 + 0.7 * 0.25)


def test_wrong_weights_are_named(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    (lab.path / "scoring.toml").write_text("[weights]\ncompletion = 0.9\n")
    with pytest.raises(SystemExit) as stopped:
        main(["--lab", str(lab.path), "evaluate"])
    assert stopped.value.code == ConfigError.exit_code
    assert "weights sum to 1.5" in capsys.readouterr().err


def test_a_frozen_baseline_is_used_from_then_on(lab: Lab) -> None:
    told = command(lab, "evaluate", "--freeze", "王芳")
    assert "by 王芳" in told.output
    assert rows(lab, "select name from events where action = 'baseline_frozen'") == [("王芳",)]
    recent = command(lab, "evaluate", "--baseline", "recent")
    assert "the successes of the last 7 days" in recent.output


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("evaluate", "--run", "no such run"), 66),
        (("evaluate", "--since", "yesterday"), 64),
        (("evaluate", "--since", "2999-01-01"), 66),
        (("compare", "c-nothing", "c-nobody"), 66),
        (("grade", "--score", "1"), 64),
        (("grade", "--episode", "x"), 64),
        (("grade", "--episode", "x", "--score", "1"), 66),
    ],
)
def test_what_cannot_be_done_has_its_exit_code(lab: Lab, words: tuple[str, ...], code: int) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--lab", str(lab.path), *words])
    assert stopped.value.code == code


# -- grade ------------------------------------------------------------------------------------------------------------


def test_a_person_corrects_a_grade_and_it_stands_from_then_on(lab: Lab) -> None:
    episode = review.graded(lab)[0]
    done = command(lab, "grade", "--episode", episode.episode_id, "--score", "0", "--by", "李伟", "--note", "错了")
    assert done.exit_code == 0
    parent, by, note = rows(
        lab, "select parent_id, output->>'$.by', output->>'$.reasons[0]' from events where name = 'person'"
    )[0]
    assert (parent, by, note) == (episode.event_id, "李伟", "错了")
    told = json.loads(command(lab, "evaluate", "--json").output)
    assert told["versions"][0]["completion"] == pytest.approx((TASKS - 1) / TASKS)


def test_those_drawn_are_asked_about_and_agreement_is_reported(lab: Lab) -> None:
    typed = "\n".join(["1", "2", "0.5", ""] + ["1"] * (TASKS - 3)) + "\n"  # the 2 is no grade, and is asked again
    shown = command(lab, "grade", "--share", "1", "--by", "Ada", typed=typed)
    assert shown.exit_code == 0
    assert "a number from 0 to 1" in shown.output
    found = review.agreement(lab)[-1]
    assert (found.episodes, found.same) == (TASKS - 1, TASKS - 2)
    assert found.mean_difference == pytest.approx(-0.5 / (TASKS - 1))
    assert found.low is not None
    assert found.low < found.same / found.episodes
    (left,) = review.drawn(lab, 1.0)  # the one that was left out
    assert left.person_grade is None


def test_a_correction_is_no_part_of_the_agreement(lab: Lab) -> None:
    review.correct(lab, review.graded(lab)[0].episode_id, 0.0, by="Ada")
    assert review.agreement(lab)[-1].episodes == 0


def test_about_a_twentieth_is_drawn_whatever_the_grades(lab: Lab) -> None:
    chosen = [n for n in range(20_000) if review._is_drawn(f"episode-{n}", 0.05)]
    assert 850 <= len(chosen) <= 1150  # 1,000 expected, five standard errors of 31
    assert not any(review._is_drawn(f"episode-{n}", 0.0) for n in range(1000))


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_grade_lies_between_0_and_1(lab: Lab, score: float) -> None:
    with pytest.raises(ConfigError, match="between 0 and 1"):
        review.correct(lab, review.graded(lab)[0].episode_id, score, by="Ada")


def test_a_grade_needs_a_name(lab: Lab) -> None:
    with pytest.raises(ConfigError, match="needs a name"):
        review.correct(lab, review.graded(lab)[0].episode_id, 1.0, by=" ")


# -- compare ----------------------------------------------------------------------------------------------------------


def test_compare_pairs_the_tasks_of_two_versions(lab: Lab, tmp_path: Path) -> None:
    old = rows(lab, "select distinct config_version from events where config_version is not null")[0][0]
    new = second_run(lab, bad_run())
    page = tmp_path / "vergleich.html"
    told = command(lab, "compare", old, new, "--endpoint", "completion", "--html", str(page), "--json")
    assert told.exit_code == 0
    found = json.loads(told.stdout)
    assert found["pairs"] == TASKS
    assert found["difference"] == pytest.approx(-1.0)
    assert found["verdict"] == "too few"
    assert found["scoring_hash"].startswith("s-")
    assert "<html" in page.read_text(encoding="utf-8").lower()


def test_what_was_cancelled_is_left_out_and_what_never_ended_counts_as_failed(lab: Lab) -> None:
    old = rows(lab, "select distinct config_version from events where config_version is not null")[0][0]
    new = second_run(lab, good_run(TASKS))
    with lab.log.writer() as writer:
        for task_id, ended in (("w0", True), ("w1", False)):
            common = {"run_id": "r", "episode_id": f"e-{task_id}", "task_id": task_id, "task_type": "forecast"}
            common |= {"config_version": new, "ts": _long_ago()}
            writer.record("task_started", step=0, input={"seed": 0, "run": {"suite": SUITE}}, **common)
            if ended:
                writer.record("task_ended", step=1, name="cancelled", status="cancelled", output={}, **common)
    found = lab.compare(old, new, endpoint="completion")
    assert found.pairs == TASKS
    assert found.difference == pytest.approx(-0.5 / TASKS)  # w1: one attempt in full, one that never ended


def _long_ago() -> Any:
    import datetime as dt

    return dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


# -- sweep ------------------------------------------------------------------------------------------------------------


def test_a_sweep_runs_each_combination_on_the_same_tasks(lab: Lab) -> None:
    done = lab.sweep({"routing.shortlist": [1, "all"], "budgets.steps": [5, 6]}, suite=SUITE)
    frame = done.to_frame()
    assert list(frame["routing.shortlist"]) == [1, 1, "all", "all"]
    assert list(frame["budgets.steps"]) == [5, 6, 5, 6]
    assert frame["config_version"].is_unique
    assert set(frame["episodes"]) == {TASKS}
    assert frame["verdict"].isna()[0]
    assert set(frame["verdict"][1:]) == {"too few"}
    assert "<table" in done._repr_html_()


def test_a_sweep_that_cannot_run_runs_nothing(lab: Lab) -> None:
    before = rows(lab, "select count(*) from events")
    for settings in (
        {},
        {"routing.shortlist": []},
        {"routing.shortlist": "all"},
        {"routing.shortlist": [1, -1]},
        {"no.such": [1]},
        {"budgets.steps": list(range(1, 300))},
    ):
        with pytest.raises(ConfigError):
            lab.sweep(settings, suite=SUITE)
    with pytest.raises(MissingError):
        lab.sweep({"budgets.steps": [1]}, suite="no such suite")
    assert rows(lab, "select count(*) from events") == before
