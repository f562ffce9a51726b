"""Estimates the difference between two versions with its interval, and judges it: pure functions over rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hermes_lab.comparing import statistics
from hermes_lab.comparing.comparison import Verdict
from hermes_lab.comparing.contrast import Contrast, Cost, Floats, Rows, contrast

MIN_PAIRS = 50
MIN_DISCORDANT = 10
MIN_CLUSTERS = 5
"""With fewer pairs, fewer pairs that differ or fewer families than these the verdict is "too few"; five families are
the fewest with which the simulations keep the promises of the interval."""


class Estimate(NamedTuple):
    """A difference with what is known of its error.

    Attributes:
        contrast: the difference.
        interval: its interval; None with fewer than two clusters or nothing to compare.
        smallest_effect: the smallest true difference that would have been found with 80% power.
        rows: pairs, or attempts of the arm that has fewer.
        clusters: families, or those of the arm that has fewer.
    """

    contrast: Contrast
    interval: tuple[float, float] | None
    smallest_effect: float | None
    rows: int
    clusters: int


def estimate(rows: Rows, kinds: int, clusters: int, cost: Cost | None, level: float = 0.95) -> Estimate:
    """Return the difference between the arms of `rows` with its interval.

    Arms that share families are handled as pairs are: what a family does to both cancels out.

    Args:
        rows: one row per pair and arm, or per attempt.
        kinds: how many task types there are.
        clusters: how many clusters there are.
        cost: how costs count; None where the endpoint has none.
        level: coverage of the interval.
    """
    taken = contrast(rows, kinds, clusters, cost)
    sizes = _weaker_arm(taken.sizes)
    present, count = int((sizes > 0).sum()), int(taken.sizes.sum(axis=1).min())
    if present < 2 or np.isnan(taken.difference):
        return Estimate(taken, None, None, count, present)
    found = statistics.cluster_interval(np.array(taken.difference), taken.influences, sizes, level)
    effect = statistics.smallest_effect(float(found.error), float(found.freedom), level)
    return Estimate(taken, (float(found.low), float(found.high)), effect, count, present)


def judge(found: Estimate, discordant: int | None) -> Verdict:
    """Return the verdict on the new version.

    Args:
        found: the estimate.
        discordant: pairs that differ in the endpoint; None for versions that are not paired.
    """
    few = found.rows < MIN_PAIRS or found.clusters < MIN_CLUSTERS
    if few or found.interval is None or (discordant is not None and discordant < MIN_DISCORDANT):
        return "too few"
    low, high = found.interval
    if low > 0.0:
        return "better"
    return "worse" if high < 0.0 else "no difference shown"


def _weaker_arm(sizes: Floats) -> Floats:
    """Return the cluster sizes of the arm with fewer effective clusters, scaled to the rows of the smaller arm."""
    totals = sizes.sum(axis=1)
    if not totals.all():
        return np.zeros(sizes.shape[1])
    effective = totals**2 / (sizes**2).sum(axis=1)
    weaker = int(np.argmin(effective))
    scaled: Floats = sizes[weaker] * (totals.min() / totals[weaker])
    return scaled
