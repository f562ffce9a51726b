"""No version looks better by leaving things out: tasks, ends, grades, costs, seeds."""

import numpy as np
import pandas as pd
import pytest
from compare_episodes import TYPES, episodes, penalty, two_versions

from hermes_lab.comparing.compare import compare

BASELINE = {kind: (1000.0, 5.0) for kind in TYPES}
ENDPOINTS = ["composite", "completion", "base"]


def compared(old, new, endpoint="composite", **options):
    return compare(old, new, endpoint=endpoint, **{"penalty": penalty, "baseline": BASELINE} | options)


@pytest.fixture
def equal():
    """Two versions of the same worth, 300 tasks of their own family."""
    return two_versions(300, seed=1, new=0.6, family_size=1)


@pytest.fixture
def dear():
    """An equal version that uses 45% more of everything."""
    old, new = two_versions(300, seed=2, new=0.6, family_size=1)
    return old, new.assign(tokens=new["tokens"] * 1.45, seconds=new["seconds"] * 1.45)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_dropping_the_tasks_it_fails(equal, endpoint):
    old, new = equal
    kept = new[new["completion"] == 1.0]
    found = compared(old, kept, endpoint)
    assert found.interval[0] > 0
    assert found.verdict == "no difference shown"
    assert len(found.only_old) == 300 - len(kept)
    assert found.warnings[0].startswith("the interval alone favours b")
    assert f"{300 - len(kept)} of 300 tasks were run by one version only" in " ".join(found.warnings)


def test_dropping_the_seeds_it_fails():
    old, new = (
        pd.concat([frame.assign(seed=seed) for seed in (1, 2)]) for frame in two_versions(150, new=0.6, family_size=1)
    )
    found = compared(old, new[(new["completion"] == 1.0) | (new["task_id"] == "任务 0")], "completion")
    assert found.verdict == "no difference shown"


def test_a_few_dropped_tasks_do_not_hide_a_real_gain():
    old, new = two_versions(300, new=0.9, family_size=1)
    found = compared(old, new.iloc[:-9])
    assert found.verdict == "better"
    assert "9 of 300 tasks were run by one version only (9 by a, 0 by b)" in " ".join(found.warnings)
    assert not any("only" in warning for warning in compared(old, new.iloc[:-6]).warnings)


def test_a_suite_or_seed_that_a_version_never_ran_is_not_left_out():
    old, new = two_versions(300, new=0.9, family_size=1)
    other = old.assign(suite="bfcl", task_id="bfcl " + old["task_id"])
    found = compared(pd.concat([old, other, old.assign(seed=7)]), new)
    assert found.verdict == "better"
    assert len(found.only_old) == 600


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize(
    "hidden",
    [
        {"completion": np.nan, "base": np.nan, "how": "error"},
        {"completion": np.nan, "base": np.nan, "how": None, "finished": False},
        {"completion": np.nan, "base": 0.95, "how": "timeout"},
        {"completion": np.nan, "base": 1.0, "how": "denied"},
        {"completion": 1.0, "base": 1.0, "how": None, "finished": False},
    ],
    ids=["unscored", "unfinished", "completion not graded", "the rest full marks", "unfinished with a grade"],
)
def test_hiding_failures(equal, endpoint, hidden):
    """Whatever becomes of the grade of a failed attempt, it never counts for more than the failure did."""
    old, new = equal
    failed = (new["completion"] == 0.0).to_numpy()
    hiding = new.copy()
    for column, value in hidden.items():
        hiding[column] = hiding[column].astype(object).mask(failed, value)
    open_, secret = compared(old, new, endpoint), compared(old, hiding, endpoint)
    assert secret.difference <= open_.difference
    assert secret.verdict != "better"
    assert (secret.pairs, secret.arms[1].attempts) == (300, 300)
    assert secret.arms[1].unscored == failed.sum()
    assert "were not scored and count 0" in " ".join(secret.warnings)
    assert sum(secret.arms[1].ended.values()) == 300


def test_each_way_to_end_is_counted(equal):
    old, new = equal
    new["how"] = ["timeout"] * 20 + ["denied"] * 10 + ["error"] * 5 + ["completed"] * 265
    new["finished"] = [True] * 290 + [False] * 10
    arm = compared(old, new).arms[1]
    assert arm.ended == {"completed": 255, "timeout": 20, "denied": 10, "unfinished": 10, "error": 5}
    assert (arm.unfinished, arm.unscored) == (10, 10)


def test_trying_again_until_it_works(equal):
    """Failed tasks tried again, and again, without success first: the failures stay."""
    old, new = equal
    again = new[new["completion"] == 0.0].assign(completion=1.0, base=0.95, episode_id="again")
    found = compared(old, pd.concat([new, again]), "completion")
    assert found.difference == pytest.approx((1 - (new["completion"] == 0).mean() / 2) - old["completion"].mean())
    assert found.arms[1].attempts == 300 + len(again)


def test_the_dear_version_is_worse_to_begin_with(dear):
    assert compared(*dear).verdict == "worse"


@pytest.mark.parametrize("measures", [["tokens"], ["seconds"], ["tokens", "seconds"]])
def test_hiding_costs_is_never_better(measures):
    """A version that is a little better and far too dear hides what its dearer half, or all of it, cost."""
    old, new = two_versions(300, seed=3, old=0.6, new=0.8, family_size=1)
    new["tokens"], new["seconds"] = new["tokens"] * 1.6, new["seconds"] * 1.6
    assert compared(old, new).verdict == "worse"
    for share in (0.5, 0.0):
        hiding = new.copy()
        dearer = hiding["tokens"] * hiding["seconds"]
        hiding.loc[dearer > dearer.quantile(share), measures] = np.nan
        hiding.loc[hiding.index[0], measures] = new.loc[new.index[0], measures]
        found = compared(old, hiding)
        assert found.verdict != "better"
        assert f"{measures[0]} are not known for 0 attempts of a and" in " ".join(found.warnings)


def test_hiding_all_costs_of_every_type_is_seen():
    """Gains by hiding: on base scores it is better; without any cost of its own it must not be on the composite."""
    old, new = two_versions(300, seed=3, old=0.6, new=0.8, family_size=1)
    old["tokens"] = np.where(np.arange(300) % 10 == 0, 3000.0, old["tokens"])
    old["seconds"] = np.where(np.arange(300) % 10 == 0, 15.0, old["seconds"])
    found = compared(old, new.assign(tokens=np.nan, seconds=np.nan))
    assert compared(old, new, "base").verdict == "better"
    assert found.verdict == "no difference shown"
    assert "has unknown costs" in " ".join(found.warnings)


def test_costs_that_the_old_version_lacks_do_not_make_the_new_one_better():
    """The old version's costs are known for its dearest attempts only: the new one only looks cheap."""
    old, new = two_versions(300, seed=4, old=0.6, new=0.6, family_size=1)
    old[["tokens", "seconds"]] = old[["tokens", "seconds"]].where(old["tokens"] > old["tokens"].quantile(0.8))
    old[["tokens", "seconds"]] *= 1.5
    found = compared(old, new)
    assert found.interval[0] > 0
    assert found.verdict == "no difference shown"


def test_the_old_version_cannot_look_good_by_leaving_out_either(equal):
    old, new = equal
    found = compared(old[old["completion"] == 1.0], new, "completion")
    assert found.interval[1] < 0
    assert found.verdict == "no difference shown"
    assert found.warnings[0].startswith("the interval alone favours a")


def test_grading_less_without_pairs():
    """Unpaired, a version whose failures have no grade keeps the score of the rest: it is not believed."""
    rng = np.random.default_rng(6)
    frames = []
    for version in ("v1", "v2"):
        frame = episodes((rng.random(300) < 0.6) * 1.0, version=version, family_size=1)
        frames.append(frame.assign(task_id=version + frame["task_id"], family=version + frame["family"]))
    old, new = frames
    failed = new["completion"] == 0.0
    hiding = new.assign(completion=new["completion"].mask(failed), base=new["base"].mask(failed, 0.95))
    found = compared(old, hiding, "base")
    assert compared(old, new, "base").verdict == "no difference shown"
    assert found.interval[0] > 0
    assert found.verdict == "no difference shown"
    assert "have no completion grade" in " ".join(found.warnings)


@pytest.mark.parametrize("seed", range(12))
def test_leaving_out_at_random_and_on_purpose(seed):
    """Any mix of dropped tasks, lost grades, lost ends and lost costs of an equal version: never better."""
    rng = np.random.default_rng(seed)
    old, new = two_versions(200, seed=100 + seed, new=0.6, family_size=int(rng.integers(1, 8)))
    assert compared(old, new).verdict != "better"
    bad = (new["completion"] == 0.0) | (new["tokens"] > new["tokens"].quantile(0.7))
    for columns in (["completion"], ["completion", "base"], ["tokens"], ["seconds"]):
        hit = bad & (rng.random(200) < rng.random())
        new.loc[hit, columns] = np.nan
    new["finished"] = ~(bad & (rng.random(200) < 0.2))
    new = new[~(bad & (rng.random(200) < rng.random()))]
    for endpoint in ENDPOINTS:
        assert compared(old, new, endpoint).verdict != "better"
