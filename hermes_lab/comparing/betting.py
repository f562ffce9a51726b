"""Exact intervals and evidence for the mean of bounded values, by betting against each candidate mean.

Whoever bets on every value that it lies above `m`, at fair odds, cannot expect to grow rich if the mean is `m` or
less. So the capital of such a gambler is evidence against `m`: it reaches 20 with chance at most 1/20, however often
one looks (Ville). The candidate means against which nobody grew rich form the interval. It assumes bounds and nothing
else, so losses that are rare, skewed or not seen yet do not fool it.

Sources: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", JRSS-B 2024 (the capital
and its two-sided hedge); Orabona and Jun, "Tight concentrations and confidence sequences from the regret of universal
portfolio", 2024 (a mixture over fixed bets, which makes the result the same in any order of the values).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BETS: Floats = np.geomspace(0.03, 0.98, 16)
"""The shares of the capital that are staked; the smallest serves some 10,000 values, the largest rare losses."""

LOG_SHARES: Floats = 0.5 * np.log(BETS) - math.log(float(np.sqrt(BETS).sum()))
"""How the first capital is spread over the bets: larger ones get more, for sequences of 50 to 1,000 values."""

_HALVINGS = 30


def log_capital(scores: Floats, mean: float, counts: Floats | float = 1.0, stakes: Floats | float = 1.0) -> float:
    """Return the log of the capital of a gambler who started with 1 and bet that scores lie above `mean`.

    If the expected score, given those before it, is at most `mean`, then this is an e-process: the chance that the
    capital ever reaches 1/alpha is at most alpha.

    Args:
        scores: values in [0, 1].
        mean: the candidate mean, above 0 and at most 1.
        counts: how often each score occurred.
        stakes: the share of a full bet that each score is worth, in [0, 1].

    Example:
        >>> round(log_capital(np.array([0.5]), 0.5, counts=np.array([100.0])), 6)
        0.0
        >>> log_capital(np.array([0.9]), 0.5, counts=np.array([100.0])) > math.log(1e6)
        True
    """
    gains = stakes * (scores / mean - 1.0)
    logs = np.log1p(BETS[:, None] * gains[None, :]) @ np.broadcast_to(counts, scores.shape)
    terms = logs + LOG_SHARES
    largest = float(terms.max())
    return largest + math.log(float(np.exp(terms - largest).sum()))


def lower_bound(scores: Floats, alpha: float, counts: Floats | float = 1.0, stakes: Floats | float = 1.0) -> float:
    """Return a value in [0, 1] that exceeds the mean of the scores' source with chance at most `alpha`.

    Args:
        scores: values in [0, 1], at least one.
        alpha: the error allowed.
        counts: how often each score occurred.
        stakes: the weight of each score, in [0, 1]; the mean is the weighted one.
    """
    weights = np.broadcast_to(counts, scores.shape) * np.broadcast_to(stakes, scores.shape)
    needed = -math.log(alpha)
    low, high = 0.0, float(weights @ scores / weights.sum())
    if high <= 0.0:
        return 0.0
    # The capital falls as the candidate rises, so one boundary parts those refused from the rest.
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if log_capital(scores, middle, counts, stakes) >= needed:
            low = middle
        else:
            high = middle
    return low


def interval(differences: Floats, level: float = 0.95, weights: Floats | None = None) -> tuple[float, float]:
    """Return the betting interval of the (weighted) mean of differences in [-1, 1].

    It covers the mean with chance at least `level` at every sample size, whatever their distribution.

    Args:
        differences: values in [-1, 1], at least one, independent of each other.
        level: the coverage.
        weights: how much each difference counts, such as the number of pairs behind it; equal if left out.

    Example:
        >>> low, high = interval(np.array([0.0] * 60 + [-1.0]))
        >>> low < -0.08, high > 0.03
        (True, True)
    """
    stakes: Floats | float = 1.0 if weights is None else weights / weights.max()
    scores = 0.5 * (differences + 1.0)
    alpha = 0.5 * (1.0 - level)
    low = lower_bound(scores, alpha, stakes=stakes)
    high = 1.0 - lower_bound(1.0 - scores, alpha, stakes=stakes)
    return 2.0 * low - 1.0, 2.0 * high - 1.0
