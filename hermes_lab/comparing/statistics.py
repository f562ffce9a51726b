"""The interval of a difference between two versions from its value with each cluster left out, and tests beside it.

How the interval is made, and why. Tasks of one family rise and fall together, so families (clusters) are what is
sampled, and there may be few. The percentile bootstrap over them is too short there, so the spread comes from leaving
out each cluster in turn, with everything recomputed (the jackknife, CR3), and Student's t on the effective number of
clusters. Two things are added, each for a kind of data on which that alone called harmless versions better too often:

- *One more win for each side.* As in Bonett and Price's interval of a paired proportion, the interval is taken as if
  each side had won once more by full marks; once means a clump of tasks, as large as an intra-class correlation of 0.3
  makes it. Without it, losses that are too rare to have been seen yet count for nothing.
- *Skewness.* Hall's transformation of Student's t bends the interval towards the long tail. With few clusters it is
  noisy, so each end is the farther one of the bent and the plain interval.

`tests/benchmarks/bench_statistics.py` holds this against the alternatives and prints coverage and false verdicts.

Sources: Cameron, Gelbach and Miller 2008 and Hansen 2022 (few clusters, jackknife); Bonett and Price 2012; Hall 1992
(the transformation); Carter, Schnepel and Steigerwald 2017 (effective number of clusters).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]

CORRELATION = 0.3
"""Intra-class correlation that the added wins assume within a cluster."""

POWER = 0.8
"""The chance with which the smallest effect shown would have been found."""

_STRAIGHT = 1e-4
"""Below this skewness the bent interval is the plain one, to more digits than are shown."""


class Interval(NamedTuple):
    """An interval per sample: `low`, `high`, the standard error behind it and its degrees of freedom."""

    low: Floats
    high: Floats
    error: Floats
    freedom: Floats


def cluster_interval(estimate: Floats, influences: Floats, sizes: Floats, level: float = 0.95) -> Interval:
    """Return the interval of a difference, for one sample or many at once.

    Args:
        estimate: the difference, shape (...).
        influences: `estimate` less its value with each cluster left out, shape (..., clusters); 0 for a cluster that
            a sample lacks.
        sizes: pairs of each cluster, shape (..., clusters); 0 for a cluster that a sample lacks. At least two are not.
        level: the coverage wanted.

    Example:
        >>> differences = np.array([1.0] * 30 + [0.0] * 60 + [-1.0] * 10)
        >>> mean = differences.mean()
        >>> found = cluster_interval(mean, (differences - mean) / 99, np.ones(100))
        >>> round(float(found.low), 2), round(float(found.high), 2)
        (0.07, 0.32)
    """
    pairs = sizes.sum(-1)
    squares = (sizes**2).sum(-1)
    clusters = (sizes > 0).sum(-1)
    spread = influences * np.sqrt((clusters - 1) / clusters)[..., None]

    # One more win for each side: a clump of `added` pairs at +1, and one at -1.
    added = np.sqrt(1.0 + CORRELATION * (squares / pairs - 1.0))
    total = pairs + 2.0 * added
    shrink = pairs / total
    centre = estimate * shrink
    variance = (spread**2).sum(-1) * shrink**2 + 2.0 * (added / total) ** 2
    skewness = (spread**3).sum(-1) * shrink**3 / variance**1.5

    error = np.sqrt(variance)
    freedom = np.maximum(pairs**2 / squares - 1.0, 1.0)
    t = stats.t.ppf(0.5 + 0.5 * level, freedom)
    low = centre - error * np.maximum(t, _bent(t, skewness))
    high = centre - error * np.minimum(-t, _bent(-t, skewness))
    return Interval(low, high, error, freedom)


def _bent(t: Floats, skewness: Floats) -> Floats:
    """Return the quantile of the t statistic whose transform (Hall's) is `t`."""
    straight = np.abs(skewness) < _STRAIGHT
    a = np.where(straight, 1.0, skewness)
    return np.where(straight, t, 3.0 / a * (np.cbrt(1.0 + a * (t - a / 6.0)) - 1.0))


def smallest_effect(error: float, freedom: float, level: float = 0.95) -> float:
    """Return the smallest true difference that would have been found with 80% power.

    Args:
        error: standard error of the difference.
        freedom: its degrees of freedom.
        level: coverage of the interval that decides.

    Example:
        >>> round(smallest_effect(0.05, 99), 3)
        0.141
    """
    return float(error * (stats.t.ppf(0.5 + 0.5 * level, freedom) + stats.t.ppf(POWER, freedom)))


def mcnemar(won: int, lost: int) -> float | None:
    """Return the two-sided p-value of exact McNemar on discordant pairs; None when there is none.

    It takes pairs as independent, which tasks of one family are not: it stands beside the interval and decides nothing.

    Args:
        won: pairs with full marks in the new version only.
        lost: pairs with full marks in the old version only.

    Example:
        >>> round(mcnemar(12, 3), 3)
        0.035
    """
    if won + lost == 0:
        return None
    return float(stats.binomtest(won, won + lost).pvalue)
