"""The difference between two versions and its value without each family, against the same thing computed plainly."""

import math

import numpy as np
import pytest
from compare_episodes import penalty
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab.comparing.contrast import Cost, Rows, contrast

KINDS, CLUSTERS = 3, 5
BASELINES = Cost(penalty, np.array([100.0, math.nan, math.nan]), np.array([10.0, 10.0, math.nan]))

ROW = st.tuples(
    st.integers(0, 1),
    st.integers(0, CLUSTERS - 1),
    st.integers(0, KINDS - 1),
    st.floats(0.0, 1.0),
    st.sampled_from([50.0, 120.0, 200.0, math.nan]),
    st.sampled_from([8.0, 13.0, 30.0, math.nan]),
)


def plain_mean(values):
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def plain_ratio(rows, kind, arm):
    """DESIGN.md 5, for one arm; each half NaN where it is not known."""
    mine = [row for row in rows if row[2] == kind and row[0] == arm]
    tokens = plain_mean([row[4] for row in mine]) / BASELINES.tokens[kind]
    seconds = plain_mean([row[5] for row in mine]) / BASELINES.seconds[kind]
    return tokens, seconds


def plain_penalties(rows, kind):
    halves = [plain_ratio(rows, kind, arm) for arm in (0, 1)]
    known = [half for half in (0, 1) if not any(math.isnan(arm[half]) for arm in halves)]
    if not known:
        return 0.0, 0.0
    return tuple(float(penalty(np.array(sum(arm[half] for half in known) / len(known)))) for arm in halves)


def plain_difference(rows, cost):
    total, weight = 0.0, 0
    for kind in range(KINDS):
        mine = [row for row in rows if row[2] == kind]
        arms = [[row[3] for row in mine if row[0] == arm] for arm in (0, 1)]
        if not all(arms):
            continue
        old, new = plain_penalties(rows, kind) if cost else (0.0, 0.0)
        total += len(mine) * (plain_mean(arms[1]) - new - plain_mean(arms[0]) + old)
        weight += len(mine)
    return total / weight if weight else math.nan


@settings(max_examples=200)
@given(st.lists(ROW, min_size=1, max_size=40), st.booleans())
def test_everything_is_recomputed_without_each_family(rows, with_cost):
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    found = contrast(Rows(*columns), KINDS, CLUSTERS, BASELINES if with_cost else None)
    whole = plain_difference(rows, with_cost)
    assert found.difference == pytest.approx(whole, nan_ok=True, abs=1e-12)
    for family in range(CLUSTERS):
        without = plain_difference([row for row in rows if row[1] != family], with_cost)
        moved = 0.0 if math.isnan(without) else whole - without
        assert found.influences[family] == pytest.approx(moved, nan_ok=True, abs=1e-9)
    assert found.sizes.sum() == len(rows)


def test_a_hand_computed_composite():
    """Two types: one 40% dearer (r = 1.4: penalty 0.15), one with no baseline, its cost left out by rule."""
    rows = Rows(
        arm=np.array([0, 0, 0, 1, 1, 1]),
        cluster=np.array([0, 1, 2, 0, 1, 2]),
        kind=np.array([0, 0, 2, 0, 0, 2]),
        score=np.array([0.5, 0.7, 0.2, 0.9, 1.0, 0.4]),
        tokens=np.array([100.0, 100.0, 5.0, 150.0, 130.0, 900.0]),
        seconds=np.array([10.0, 10.0, 1.0, 14.0, 14.0, 99.0]),
    )
    found = contrast(rows, KINDS, 3, BASELINES)
    np.testing.assert_allclose(found.ratios[:, 0], [1.0, 1.4])
    np.testing.assert_allclose(found.penalties, [[0.0, 0.0, 0.0], [0.15, 0.0, 0.0]])
    assert np.isnan(found.ratios[:, 2]).all()
    assert found.difference == pytest.approx((2 * (0.95 - 0.15 - 0.6) + 1 * 0.2) / 3)
