"""The difference between two versions, as one number, and the same number with each cluster of tasks left out.

The difference is DESIGN.md 5's: per task type the mean score less the penalty for its cost, types weighted by their
traffic. Everything is recomputed with a cluster left out: means, costs, penalties and weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Penalty = Callable[[Floats], Floats]
Baseline = Mapping[str, tuple[float | None, float | None]]

_ROWS, _SCORE, _TOKENS, _TOKENS_KNOWN, _SECONDS, _SECONDS_KNOWN = range(6)


class Rows(NamedTuple):
    """What is compared, one row per pair and arm, or per attempt.

    Attributes:
        arm: 0 for the old version, 1 for the new one.
        cluster: code of the family, from 0.
        kind: code of the task type, from 0.
        score: the endpoint without its penalty, in [0, 1].
        tokens: tokens used; NaN where unknown.
        seconds: time taken; NaN where unknown.
    """

    arm: NDArray[np.int64]
    cluster: NDArray[np.int64]
    kind: NDArray[np.int64]
    score: Floats
    tokens: Floats
    seconds: Floats


class Cost(NamedTuple):
    """How costs count: the penalty of a cost ratio, and per task type the baseline tokens and seconds (NaN: none)."""

    penalty: Penalty
    tokens: Floats
    seconds: Floats


class Contrast(NamedTuple):
    """A difference, how each cluster moved it, and what each task type gave.

    Attributes:
        difference: the new version less the old one.
        influences: the difference less its value without each cluster, shape (clusters,).
        sizes: rows of each cluster in each arm, shape (2, clusters).
        counts: rows by arm and type, shape (2, types).
        scores: mean scores by arm and type; NaN for a type that an arm lacks.
        ratios: cost ratios by arm and type; NaN where the cost is not known in both arms.
        penalties: what the ratios cost; 0 where they are not known.
    """

    difference: float
    influences: Floats
    sizes: Floats
    counts: Floats
    scores: Floats
    ratios: Floats
    penalties: Floats


def contrast(rows: Rows, kinds: int, clusters: int, cost: Cost | None) -> Contrast:
    """Return the difference between the arms.

    Args:
        rows: the rows of both arms.
        kinds: how many task types there are.
        clusters: how many clusters there are.
        cost: how costs count; None where the endpoint has none.
    """
    cells, inverse = np.unique(rows.cluster * kinds + rows.kind, return_inverse=True)
    cell_cluster, cell_kind = np.divmod(cells, kinds)
    sums = _sums(rows, inverse, cells.size)
    whole = _group(sums, cell_kind, kinds)
    every_kind = np.arange(kinds)
    parts, weights = _by_kind(whole, every_kind, cost)
    rest = whole[:, :, cell_kind] - sums
    parts_less, weights_less = _by_kind(rest, cell_kind, cost)
    total, weight = parts.sum(keepdims=True), weights.sum(keepdims=True)
    # Without a cluster, only the types that it holds change.
    change = np.bincount(cell_cluster, parts_less - parts[cell_kind], clusters)
    change_weight = np.bincount(cell_cluster, weights_less - weights[cell_kind], clusters)
    difference = _ratio(total, weight)[0]
    without = _ratio(total + change, weight + change_weight)
    ratios = _ratios(whole, every_kind, cost)
    return Contrast(
        difference=float(difference),
        influences=np.where(np.isnan(without), 0.0, difference - without),
        sizes=_group(sums[_ROWS], cell_cluster, clusters),
        counts=whole[_ROWS],
        scores=_ratio(whole[_SCORE], whole[_ROWS]),
        ratios=ratios,
        penalties=_penalties(ratios, cost),
    )


def _sums(rows: Rows, cell: NDArray[np.int64], cells: int) -> Floats:
    """Return the sums of what is needed, shape (6, 2, cells)."""
    place = rows.arm * cells + cell
    tokens, seconds = np.isfinite(rows.tokens), np.isfinite(rows.seconds)
    columns: list[Floats] = [
        np.ones(place.size),
        rows.score,
        np.where(tokens, rows.tokens, 0.0),
        tokens.astype(np.float64),
        np.where(seconds, rows.seconds, 0.0),
        seconds.astype(np.float64),
    ]
    return np.stack([np.bincount(place, column, 2 * cells).reshape(2, cells) for column in columns])


def _group(sums: Floats, group: NDArray[np.int64], groups: int) -> Floats:
    """Add up the last axis of `sums` by `group`."""
    lines = sums.reshape(-1, sums.shape[-1])
    grouped: Floats = np.stack([np.bincount(group, line, groups) for line in lines])
    return grouped.reshape(*sums.shape[:-1], groups)


def _by_kind(sums: Floats, kind: NDArray[np.int64], cost: Cost | None) -> tuple[Floats, Floats]:
    """Return for each column of sums the weighted difference of its type and the weight; 0 where an arm has no row."""
    means = _ratio(sums[_SCORE], sums[_ROWS]) - _penalties(_ratios(sums, kind, cost), cost)
    there = (sums[_ROWS] > 0.5).all(axis=0)
    weight = np.where(there, sums[_ROWS].sum(axis=0), 0.0)
    difference = np.where(there, means[1] - means[0], 0.0)
    return weight * difference, weight


def _ratios(sums: Floats, kind: NDArray[np.int64], cost: Cost | None) -> Floats:
    """Return the cost ratio by arm; half tokens, half seconds, the other one whole where one is not known in both."""
    if cost is None:
        return np.full(sums.shape[1:], np.nan)
    tokens = _ratio(sums[_TOKENS], sums[_TOKENS_KNOWN]) / cost.tokens[kind]
    seconds = _ratio(sums[_SECONDS], sums[_SECONDS_KNOWN]) / cost.seconds[kind]
    no_tokens, no_seconds = np.isnan(tokens).any(axis=0), np.isnan(seconds).any(axis=0)
    both = 0.5 * tokens + 0.5 * seconds
    return np.where(no_tokens, np.where(no_seconds, np.nan, seconds), np.where(no_seconds, tokens, both))


def _penalties(ratios: Floats, cost: Cost | None) -> Floats:
    if cost is None:
        return np.zeros(ratios.shape)
    known = np.isfinite(ratios)
    return np.where(known, cost.penalty(np.where(known, ratios, 1.0)), 0.0)


def _ratio(sums: Floats, counts: Floats) -> Floats:
    there = counts > 0.5
    return np.where(there, sums / np.where(there, counts, 1.0), np.nan)
