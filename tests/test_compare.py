"""Comparing two versions: pairs, verdicts, what a comparison says and shows."""

import html
import json
import os

import numpy as np
import pandas as pd
import pytest
from compare_episodes import TYPES, episodes, penalty, two_versions

from hermes_lab.comparing.compare import compare
from hermes_lab.comparing.pairing import MEASURES, CompareError
from hermes_lab.errors import HermesLabError, MissingError

BASELINE = {kind: (1000.0, 5.0) for kind in TYPES}


def compared(old, new, endpoint="composite", **options):
    return compare(old, new, endpoint=endpoint, **{"penalty": penalty, "baseline": BASELINE} | options)


def marks(full, of, first=0):
    """Return `of` completions, `full` of them 1.0, the rest 0, starting at `first`."""
    completion = np.zeros(of)
    completion[(np.arange(full) + first) % of] = 1.0
    return completion


# --- verdicts --------------------------------------------------------------------------------------------------------


def test_a_better_version_is_better_and_the_other_way_round_worse():
    old, new = two_versions(400, new=0.85, family_size=1)
    forth, back = compared(old, new), compared(new, old)
    assert (forth.verdict, back.verdict) == ("better", "worse")
    assert forth.difference == pytest.approx(-back.difference)
    assert forth.interval == pytest.approx((-back.interval[1], -back.interval[0]))
    assert forth.interval[0] < forth.difference < forth.interval[1]
    assert (forth.won, forth.lost) == (back.lost, back.won)
    assert (forth.pairs, forth.clusters, forth.paired) == (400, 400, True)
    assert forth.betting[0] > 0
    assert forth.warnings == ()


def test_the_same_episodes_show_no_difference():
    old, _ = two_versions(200)
    found = compared(old, old)
    assert found.verdict == "too few"
    assert (found.difference, found.discordant, found.mcnemar) == (0.0, 0, None)
    assert found.smallest_effect > 0


def test_equal_versions_show_no_difference():
    old, new = two_versions(300, new=0.6)
    assert compared(old, new, "completion").verdict == "no difference shown"


@pytest.mark.parametrize(
    ("pairs", "gained", "family_size", "verdict"),
    [
        (60, 30, 1, "better"),
        (50, 30, 1, "better"),
        (49, 30, 1, "too few"),
        (60, 10, 1, "better"),
        (60, 9, 1, "too few"),
        (60, 60, 15, "too few"),
        (60, 60, 12, "better"),
    ],
    ids=["enough", "50 pairs", "49 pairs", "10 discordant", "9 discordant", "4 families", "5 families"],
)
def test_too_few(pairs, gained, family_size, verdict):
    old = episodes(np.zeros(pairs), family_size=family_size)
    new = episodes(marks(gained, pairs), version="v2", family_size=family_size)
    found = compared(old, new, "completion")
    assert found.verdict == verdict
    assert found.interval is not None
    assert found.smallest_effect > 0


def test_families_are_what_counts():
    """The same results from tasks on their own and from six families: the families say much less."""
    rng = np.random.default_rng(1)
    family = np.repeat(np.arange(6), 20)
    gain = np.array([0.5, 0.4, 0.2, 0.0, -0.1, 0.4])[family]
    old, new = (rng.random(120) < 0.4) * 1.0, (rng.random(120) < 0.4 + gain) * 1.0
    alone = compared(episodes(old, family_size=1), episodes(new, family_size=1), "completion")
    together = compared(episodes(old, family_size=20), episodes(new, family_size=20), "completion")
    assert alone.difference == pytest.approx(together.difference)
    assert (alone.verdict, together.verdict) == ("better", "no difference shown")
    assert together.smallest_effect > 1.5 * alone.smallest_effect


def test_a_family_that_only_one_version_knows_counts_for_both():
    old, new = two_versions(100, family_size=10)
    new["family"] = None
    assert compared(old, new).clusters == 10
    old["family"] = None
    assert compared(old, new).clusters == 100


def test_dearer_is_worse_by_the_penalty():
    """Same scores, 45% more tokens and seconds: penalty 0.2 in each type."""
    completion = marks(60, 100)
    old = episodes(completion, family_size=1)
    found = compared(old, episodes(completion, version="v2", family_size=1, tokens=1450.0, seconds=7.25))
    assert found.difference == pytest.approx(-0.2)
    assert found.verdict == "worse"
    assert (found.discordant, found.won, found.lost) == (100, 0, 0)
    assert [row.new_penalty for row in found.types] == pytest.approx([0.2, 0.2])
    assert [row.new_cost for row in found.types] == pytest.approx([1.45, 1.45])
    assert compared(old, old.assign(tokens=1450.0, seconds=7.25), "base").difference == 0.0


def test_a_composite_by_hand():
    """Two types, 60 and 40 pairs; only the first got dearer, only the second better."""
    old = episodes(np.zeros(100), family_size=20, base=0.5)
    first = old["task_type"] == TYPES[0]
    new = old.assign(base=np.where(first, 0.5, 0.8), tokens=np.where(first, 1500.0, 1000.0))
    found = compared(old, new)
    # r = 0.5 * 1.5 + 0.5 * 1.0 = 1.25, so the penalty is 0.025.
    assert found.difference == pytest.approx(0.6 * -0.025 + 0.4 * 0.3)
    assert [(row.task_type, row.share) for row in found.types] == [(TYPES[0], 0.6), (TYPES[1], 0.4)]
    assert [row.difference for row in found.types] == pytest.approx([-0.025, 0.3])


def test_a_type_without_a_baseline_is_named_and_counts_by_its_base():
    old, new = two_versions(100, family_size=1)
    new["tokens"] = 1e6
    found = compared(old, new, baseline={TYPES[0]: (None, None)})
    assert found.difference == pytest.approx(compared(old, new, "base").difference)
    assert "task type search, 问数 has no cost baseline" in " ".join(found.warnings)
    half = compared(old, new, baseline={TYPES[0]: (None, 5.0), TYPES[1]: (0.0, 5.0)})
    assert all(row.new_cost < 2 for row in half.types)


def test_several_attempts_of_a_task_are_averaged():
    """Two tries at every task, the better one does not count alone."""
    old = episodes(marks(50, 100), family_size=1)
    tries = pd.concat(
        [episodes(marks(50, 100), version="v2", family_size=1), episodes(marks(50, 100, 50), version="v3")]
    )
    found = compared(old, tries, "completion")
    assert found.difference == 0.0
    assert (found.pairs, found.arms[1].attempts, found.arms[1].tasks) == (100, 200, 100)
    assert (found.won, found.lost) == (0, 50)


def test_seeds_are_part_of_a_pair():
    old = pd.concat([episodes(np.zeros(60), family_size=1, seed=seed) for seed in (1, 2)])
    new = pd.concat([episodes(np.full(60, seed - 1.0), version="v2", family_size=1, seed=seed) for seed in (1, 2)])
    found = compared(old, new, "completion")
    assert (found.pairs, found.clusters, found.difference) == (120, 60, 0.5)
    assert (found.won, found.lost) == (60, 0)


def test_a_seed_that_is_null_in_both_is_the_same_seed():
    old, new = two_versions(60, seed=3)
    old["seed"], new["seed"] = None, np.nan
    assert compared(old, new).pairs == 60


def test_the_result_does_not_depend_on_the_order_of_rows():
    old, new = two_versions(150)
    shuffled = new.sample(frac=1.0, random_state=1)
    one, other = compared(old, new).to_dict(), compared(old.iloc[::-1], shuffled).to_dict()
    assert one["difference"] == pytest.approx(other["difference"])
    assert one["interval"] == pytest.approx(other["interval"])
    assert [row["task_type"] for row in one["types"]] == [row["task_type"] for row in other["types"]]


def test_other_measures_are_described_where_both_know_them():
    old, new = two_versions(60, family_size=1)
    new["usd"], old["usd"] = 0.2, [0.1] * 30 + [np.nan] * 30
    new["repeats"] = 2
    rows = {row.name: row for row in compared(old, new).dimensions}
    assert tuple(rows) == MEASURES
    assert (rows["usd"].old, rows["usd"].new, rows["usd"].known) == (pytest.approx(0.1), pytest.approx(0.2), 30)
    assert (rows["repeats"].difference, rows["repeats"].known) == (2.0, 60)
    assert (rows["feedback"].old, rows["feedback"].difference, rows["feedback"].known) == (None, None, 0)


# --- unpaired --------------------------------------------------------------------------------------------------------


def unpaired(rng, version, chance, n=400, **columns):
    frame = episodes((rng.random(n) < chance) * 1.0, version=version, family_size=4, **columns)
    return frame.assign(task_id=version + frame["task_id"], family=version + frame["family"])


def test_unpaired_logs_compare_and_say_that_they_are_weaker():
    rng = np.random.default_rng(1)
    found = compared(unpaired(rng, "v1", 0.5), unpaired(rng, "v2", 0.75))
    assert (found.verdict, found.paired) == ("better", False)
    assert (found.pairs, found.clusters, found.discordant, found.won, found.betting) == (400, 100, None, None, None)
    assert "weaker" in found.warnings[0]
    assert "unpaired" in str(found)


def test_unpaired_types_weigh_the_same_in_both():
    """The new version has more of the easy type and is worse in each: a plain mean would call it better."""
    rng = np.random.default_rng(2)
    old = pd.concat([unpaired(rng, "a", 0.3, 300, task_type="难"), unpaired(rng, "b", 0.9, 100, task_type="易")])
    new = pd.concat([unpaired(rng, "c", 0.2, 100, task_type="难"), unpaired(rng, "d", 0.8, 300, task_type="易")])
    assert new["completion"].mean() > old["completion"].mean() + 0.1
    found = compared(old, new, "completion")
    assert found.difference == pytest.approx(-0.1, abs=0.06)


def test_a_type_that_one_version_lacks_is_named_and_not_compared():
    rng = np.random.default_rng(3)
    old = pd.concat([unpaired(rng, "a", 0.5, 200, task_type="x"), unpaired(rng, "b", 0.1, 200, task_type="<旧>")])
    found = compared(old, unpaired(rng, "c", 0.5, 200, task_type="x"), "completion", labels=("v1", "v2"))
    assert found.difference == pytest.approx(0.0, abs=0.12)
    assert "only v1 has the task types <旧>: they are not compared" in found.warnings
    assert {row.task_type: row.difference for row in found.types}["<旧>"] is None


def test_pairs_can_be_ignored_or_demanded():
    old, new = two_versions(100)
    assert compared(old, new, paired=False).paired is False
    with pytest.raises(CompareError, match="no task and seed in common"):
        compared(old, new.assign(seed=1), paired=True)


def test_attempts_at_no_known_task_are_nobodys_pair():
    old, new = two_versions(60)
    old["task_id"], new["task_id"] = None, None
    found = compared(old, new)
    assert (found.paired, found.pairs) == (False, 60)


# --- what it shows ---------------------------------------------------------------------------------------------------


@pytest.fixture
def nasty():
    old, new = two_versions(120, seed=5)
    for frame in (old, new):
        odd = {"search": "<script>alert('坏')</script> & \ud800"}
        frame["task_type"] = pd.Series([odd.get(kind, kind) for kind in frame["task_type"]], dtype=object)
    old["how"] = "<b>超时</b>"
    return compared(old, new.iloc[:-8], labels=("<i>v1</i>", "版本 2"), scoring_hash="ab<12")


def test_it_is_plain_json(nasty):
    text = nasty.to_json()
    back = json.loads(text)
    assert back == json.loads(json.dumps(nasty.to_dict()))
    assert (back["scoring_hash"], back["labels"], back["level"]) == ("ab<12", ["<i>v1</i>", "版本 2"], 0.95)
    assert {"verdict", "interval", "smallest_effect", "arms", "types", "only_old", "warnings"} <= set(back)
    assert back["only_old"][0] == "任务 112 (seed 0)"


def test_nothing_unknown_is_a_number():
    old, new = two_versions(60)
    row = next(row for row in json.loads(compared(old, new).to_json())["dimensions"] if row["name"] == "feedback")
    assert row == {"name": "feedback", "old": None, "new": None, "difference": None, "known": 0}


def test_it_gives_frames(nasty):
    assert list(nasty.to_frame().columns) == ["name", "old", "new", "difference", "known"]
    assert list(nasty.to_frame()["name"]) == list(MEASURES)
    types = nasty.by_type()
    assert types["share"].sum() == pytest.approx(1.0)
    assert types["old_tasks"].sum() == 112


def test_its_html_escapes_everything(nasty, tmp_path):
    nasty.save_html(tmp_path / "报告.html")
    page = (tmp_path / "报告.html").read_text(encoding="utf-8")
    assert nasty._repr_html_() in page
    for text in ("<script>", "<i>v1", "<b>", "ab<12"):
        assert text not in page
    for text in ("<i>v1</i>", "<b>超时</b>", "ab<12", "<script>alert('坏')</script> &"):
        assert html.escape(text) in page
    assert os.listdir(tmp_path) == ["报告.html"]
    assert "http" not in page


def test_a_folder_that_is_not_there_is_said(nasty, tmp_path):
    with pytest.raises(MissingError, match="no such file or folder"):
        nasty.save_html(tmp_path / "nowhere" / "x.html")


def test_its_text_says_what_matters():
    old, new = two_versions(400, new=0.85, family_size=1)
    lines = str(compared(old, new, "completion", labels=("v1.0", "v1.1"))).splitlines()
    assert lines[0].startswith("v1.1 against v1.0: better (completion +2")
    assert "95% interval +" in lines[0]
    assert lines[1].startswith("400 pairs from 400 families, ")
    assert lines[2].startswith("smallest effect that these tasks would have shown (80% power): ")
    assert "exact McNemar p = " in lines[3]
    assert lines[5] == "v1.0: 400 attempts at 400 tasks (completed 400); unscored and counted 0: 0"


def test_one_family_alone_gives_no_interval():
    found = compared(*two_versions(60, family_size=60))
    assert (found.verdict, found.interval, found.smallest_effect, found.clusters) == ("too few", None, None, 1)
    assert "too few" in found._repr_html_()


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endpoint": "mean"}, "no endpoint 'mean': choose one of composite, completion, base"),
        ({"penalty": None}, "give `penalty`"),
        ({"level": 95}, "level is the coverage"),
        ({"labels": ("one",)}, "labels name two versions"),
    ],
)
def test_what_cannot_be_asked(options, message):
    with pytest.raises(CompareError, match=message):
        compared(*two_versions(60), **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns=["tokens", "family"]), "version 2 lack the columns family, tokens"),
        (lambda frame: frame.iloc[:0], "version b has no episodes"),
        (lambda frame: frame.assign(base=1.5), "base of episode v2-0 is 1.5"),
        (lambda frame: frame.assign(seed=0.5), "no whole number"),
    ],
)
def test_episodes_that_are_none(change, message):
    old, new = two_versions(60)
    with pytest.raises(CompareError, match=message):
        compared(old, change(new))
    assert issubclass(CompareError, HermesLabError)
