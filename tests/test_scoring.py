"""The scoring file: what it may say, what is refused and in which words, and the hash that every result carries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab import evaluator
from hermes_lab.errors import ConfigError
from hermes_lab.lab import Lab
from hermes_lab.scoring import DIMENSIONS, Penalty, Scoring, Weights, read_scoring, scoring_of


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "评分.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    assert read_scoring(written(tmp_path, "")) == Scoring()


def test_the_default_is_what_the_design_says() -> None:
    weights = Scoring().weights
    assert [getattr(weights, part) for part in DIMENSIONS] == [0.4, 0.3, 0.2, 0.1]
    assert Scoring().windows.baseline_days == 7
    assert Scoring().windows.unfinished_after_s == 3600


def test_a_file_may_say_all_of_it(tmp_path: Path) -> None:
    text = """
        success = 0.8
        review_share = 0.1
        [weights]
        completion = 0.25
        effectiveness = 0.25
        safety = 0.25
        feedback = 0.25
        [task_types."客服"]
        completion = 0.5
        effectiveness = 0.2
        [penalty]
        tokens = 1
        mild_from = 1.0
        steep_from = 2.0
        most = 0.3
        [feedback]
        silence_after_hours = 1
        deaf_channels = []
        [windows]
        baseline_days = 14
        [alarms]
        cost_ratio = 2
    """
    scoring = read_scoring(written(tmp_path, text))
    assert scoring.weights_of("客服") == Weights(completion=0.5, effectiveness=0.2)
    assert scoring.weights_of(None).safety == 0.25
    assert scoring.penalty == Penalty(tokens=1, mild_from=1, steep_from=2, most=0.3)
    assert (scoring.success, scoring.review_share, scoring.windows.baseline_days) == (0.8, 0.1, 14)
    assert (scoring.feedback.silence_after_hours, scoring.feedback.deaf_channels) == (1, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[weights]\ncompletion = 0.5", r"weights sum to 1\.1, and must sum to 1 - at `weights`"),
        ("[task_types.orders]\nsafety = 0.0", r"weights sum to 0\.8, and must sum to 1 - at `task_types\[\.\.\.\]`"),
        ("[weights]\ncompletion = 1.4\neffectiveness = -0.7", "weights"),
        ("[weights]\nspeed = 0.1", "unknown field `speed` - at `weights`"),
        ("[weight]\ncompletion = 0.4", "unknown field `weight`"),
        ("[weights]\ncompletion = 'much'", r"Expected `float`, got `str` - at `weights\.completion`"),
        ("success = 0", "success"),
        ("[penalty]\nmild_from = 1.5", "steep_from must not be below mild_from"),
        ("[penalty]\nmost = 2", r"penalty\.most"),
        ("[windows]\nbaseline_days = 0", r"windows\.baseline_days"),
        ("[windows]\nbaseline_days = nan", r"windows\.baseline_days"),
        ("[feedback]\ndeaf_channels = 'suite'", r"feedback\.deaf_channels"),
        ("[weights", "is not TOML"),
        ("[weights]\ncompletion = " + "9" * 5000, "is not TOML"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        read_scoring(written(tmp_path, text))
    assert "评分.toml" in str(refused.value)


def test_a_file_that_is_no_text_or_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xff\xfe[weights]")
    with pytest.raises(ConfigError, match="is not TOML"):
        read_scoring(tmp_path / "a")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_scoring(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_scoring(tmp_path)


def test_the_one_given_goes_before_the_labs_own_and_that_before_the_default(lab: Lab, tmp_path: Path) -> None:
    assert scoring_of(lab.path) == Scoring()
    (lab.path / "scoring.toml").write_text("success = 0.7")
    assert scoring_of(lab.path).success == 0.7
    assert scoring_of(lab.path, written(tmp_path, "success = 0.6")).success == 0.6
    assert scoring_of(lab.path, str(written(tmp_path, "success = 0.6"))).success == 0.6
    assert scoring_of(lab.path, Scoring(success=0.5)).success == 0.5


def leaves(values: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for key, value in values.items():
        found += leaves(value, (*path, key)) if isinstance(value, dict) and value else [(*path, key)]
    return found


SETTINGS = leaves(msgspec.to_builtins(Scoring()))


@pytest.mark.parametrize("place", SETTINGS, ids=".".join)
def test_each_setting_is_in_the_hash(place: tuple[str, ...]) -> None:
    values = msgspec.to_builtins(Scoring())
    parent = values
    for key in place[:-1]:
        parent = parent[key]
    old = parent[place[-1]]
    match old:
        case dict():
            parent[place[-1]] = {"orders": {"completion": 0.5, "effectiveness": 0.2}}
        case list() | tuple():
            parent[place[-1]] = ["suite", "cron"]
        case _ if place[0] == "weights":  # the sum stays 1
            parent[place[-1]] = old - 0.05
            parent["completion" if place[-1] != "completion" else "safety"] += 0.05
        case _:
            parent[place[-1]] = old * 0.95 or 0.05
    changed = msgspec.convert(values, Scoring)
    assert changed.version != Scoring().version


def test_spelling_is_not_in_the_hash(tmp_path: Path) -> None:
    spelled = "# all as usual\n[penalty]\nmost = 0.50\n\n[weights]\nsafety = 2e-1\ncompletion = 0.4\n"
    assert read_scoring(written(tmp_path, spelled)).version == Scoring().version


@given(st.lists(st.integers(0, 1000), min_size=3, max_size=3).map(sorted))
def test_any_weights_that_sum_to_1_are_taken(cuts: list[int]) -> None:
    first, second, third = cuts
    parts = [first, second - first, third - second, 1000 - third]
    weights = Weights(**{name: part / 1000 for name, part in zip(DIMENSIONS, parts, strict=True)})
    assert sum(getattr(weights, name) for name in DIMENSIONS) == pytest.approx(1)


@given(st.floats(0, 100), st.floats(0, 100))
def test_the_penalty_never_falls_as_the_cost_grows(one: float, other: float) -> None:
    low, high = sorted((one, other))
    penalty = Penalty()
    assert 0 <= penalty.of(low) <= penalty.of(high) <= 0.5


def test_an_error_in_the_labs_file_stops_the_evaluation_before_the_log_is_read(lab: Lab) -> None:
    (lab.path / "scoring.toml").write_text("[weights]\nsafety = 0.3")
    with pytest.raises(ConfigError, match=r"scoring\.toml: weights sum to 1\.1"):
        evaluator.evaluate(lab)
    assert not (lab.path / "cache").exists()
