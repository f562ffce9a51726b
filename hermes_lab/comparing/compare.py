"""Compares two versions of an agent honestly: one endpoint with an interval, and a verdict that has to be earned.

Pairs are the same task with the same seed under both versions; families of tasks are what is sampled. Whatever a
version did not do, end or have scored counts against it, so that no version looks better by leaving things out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hermes_lab.comparing import betting, notes, pairing, statistics, tables
from hermes_lab.comparing.comparison import Comparison, Verdict
from hermes_lab.comparing.contrast import Baseline, Cost, Penalty, Rows
from hermes_lab.comparing.estimate import Estimate, estimate, judge
from hermes_lab.comparing.pairing import CompareError
from hermes_lab.payload import store_text

_TIE = 1e-9


class _Plan(NamedTuple):
    """How a difference is taken: the task types in order, the number of clusters, costs, pairs or not, coverage."""

    kinds: list[str]
    clusters: int
    cost: Cost | None
    paired: bool
    level: float


class _Pairs(NamedTuple):
    """Per pair: its cluster, its difference in score, whether full marks were gained (1) or lost (-1)."""

    cluster: NDArray[np.int64]
    differences: betting.Floats
    marks: betting.Floats


def compare(
    a: pd.DataFrame,
    b: pd.DataFrame,
    *,
    endpoint: str = "composite",
    penalty: Penalty | None = None,
    baseline: Baseline | None = None,
    level: float = 0.95,
    labels: Sequence[str] = ("a", "b"),
    scoring_hash: str | None = None,
    paired: bool | None = None,
) -> Comparison:
    """Compare a new version with an old one.

    The interval is computed from the families alone, without random numbers: see `hermes_lab.comparing.statistics` for
    how, and for why it is no percentile bootstrap.

    Args:
        a: the episodes of the old version as the evaluator gives them, one row per attempt.
        b: those of the new version.
        endpoint: what decides: "composite", "completion" or "base".
        penalty: the penalty of each cost ratio, for the composite; it takes and returns an array.
        baseline: per task type the tokens and the seconds of the baseline, None where one is not known; a type that is
            missing has no penalty in either version, which a warning says.
        level: coverage of the intervals.
        labels: what to call the old and the new version.
        scoring_hash: hash of the scoring file, kept with the result.
        paired: whether to pair tasks; by default they are wherever both versions have a task and seed in common.

    Raises:
        CompareError: there are no episodes, they lack columns, or they cannot be compared as asked.
    """
    _check(a, b, endpoint, penalty, level, labels)
    frame = pairing.attempts(a, b, endpoint)
    table = pairing.average_pairs(frame)
    plan = _plan(frame, table, endpoint, penalty, baseline, level, paired)
    basis = table[table["shared"]] if plan.paired else frame
    found = _estimate(basis, plan)
    pairs = _pairs(basis) if plan.paired else None
    discordant = None if pairs is None else _discordant(pairs, basis, found, plan)
    verdict = judge(found, discordant)
    blocked = _blocked(verdict, frame, table, plan)
    won, lost = _full_marks(pairs, basis)
    old, new = (store_text(str(label)) for label in labels)
    found_notes = notes.Notes(frame=frame, table=table, paired=plan.paired, labels=(old, new))
    return Comparison(
        labels=(old, new),
        verdict="no difference shown" if blocked else verdict,
        endpoint=endpoint,
        paired=plan.paired,
        difference=None if np.isnan(found.contrast.difference) else found.contrast.difference,
        interval=found.interval,
        level=level,
        pairs=found.rows,
        clusters=found.clusters,
        discordant=discordant,
        won=won,
        lost=lost,
        mcnemar=None if won is None or lost is None else statistics.mcnemar(won, lost),
        betting=None if pairs is None else _betting(pairs, level),
        smallest_effect=found.smallest_effect,
        arms=(tables.arm_counts(frame, 0), tables.arm_counts(frame, 1)),
        dimensions=tables.dimensions(basis, plan.paired),
        types=tables.types(found.contrast, plan.kinds),
        only_old=tuple(pairing.names(table[~table["shared"] & (table["arm"] == 0)])),
        only_new=tuple(pairing.names(table[~table["shared"] & (table["arm"] == 1)])),
        warnings=tuple(notes.warnings(found_notes, found.contrast, plan.kinds, plan.cost, verdict, blocked)),
        scoring_hash=scoring_hash,
    )


def _check(
    a: pd.DataFrame, b: pd.DataFrame, endpoint: str, penalty: Penalty | None, level: float, labels: Sequence[str]
) -> None:
    if len(labels) != 2:
        raise CompareError(f"labels name two versions, the old and the new one, not {len(labels)}")
    for label, episodes in zip(labels, (a, b), strict=True):
        if not len(episodes):
            raise CompareError(f"version {label} has no episodes: run it on the tasks first")
    if endpoint == "composite" and penalty is None:
        raise CompareError("a composite has a penalty for cost: give `penalty` (Scoring.penalty), or compare by base")
    if not 0.5 <= level < 1.0:
        raise CompareError(f"level is the coverage of an interval, from 0.5 to below 1, not {level}")


def _plan(
    frame: pd.DataFrame,
    table: pd.DataFrame,
    endpoint: str,
    penalty: Penalty | None,
    baseline: Baseline | None,
    level: float,
    paired: bool | None,
) -> _Plan:
    shared = bool(table["shared"].any())
    if paired and not shared:
        raise CompareError("the versions have no task and seed in common: compare them with paired=False")
    kinds = sorted(frame["task_type"].unique())
    cost = None
    if endpoint == "composite" and penalty is not None:
        known = baseline or {}
        halves = [[np.nan if half is None else half for half in known.get(kind, (None, None))] for kind in kinds]
        # A baseline of nothing cannot be a measure.
        tokens, seconds = np.where(np.array(halves) > 0.0, np.array(halves), np.nan).T
        cost = Cost(penalty, tokens, seconds)
    clusters = int(frame["cluster"].max()) + 1
    return _Plan(kinds, clusters, cost, shared if paired is None else paired, level)


def _estimate(basis: pd.DataFrame, plan: _Plan) -> Estimate:
    rows = Rows(
        arm=basis["arm"].to_numpy(dtype=np.int64),
        cluster=basis["cluster"].to_numpy(dtype=np.int64),
        kind=_kind(basis, plan),
        score=basis["value"].to_numpy(dtype=np.float64),
        tokens=basis["tokens"].to_numpy(dtype=np.float64),
        seconds=basis["seconds"].to_numpy(dtype=np.float64),
    )
    return estimate(rows, len(plan.kinds), plan.clusters, plan.cost, plan.level)


def _kind(basis: pd.DataFrame, plan: _Plan) -> NDArray[np.int64]:
    return pd.Categorical(basis["task_type"], categories=plan.kinds).codes.astype(np.int64)


def _pairs(basis: pd.DataFrame) -> _Pairs:
    old, new = basis[basis["arm"] == 0], basis[basis["arm"] == 1]
    full_old, full_new = (rows["full"].to_numpy() >= 1.0 - _TIE for rows in (old, new))
    return _Pairs(
        cluster=old["cluster"].to_numpy(dtype=np.int64),
        differences=new["value"].to_numpy() - old["value"].to_numpy(),
        marks=full_new.astype(np.float64) - full_old.astype(np.float64),
    )


def _discordant(pairs: _Pairs, basis: pd.DataFrame, found: Estimate, plan: _Plan) -> int:
    """Return how many pairs differ in the endpoint; a penalty that differs moves every pair of its type."""
    moved = np.abs(found.contrast.penalties[1] - found.contrast.penalties[0]) > _TIE
    kind = _kind(basis[basis["arm"] == 0], plan)
    return int(((np.abs(pairs.differences) > _TIE) | moved[kind]).sum())


def _blocked(verdict: Verdict, frame: pd.DataFrame, table: pd.DataFrame, plan: _Plan) -> bool:
    """Return whether a verdict falls once all that the version it favours left out is held against that version."""
    if verdict not in ("better", "worse"):
        return False
    favoured = 1 if verdict == "better" else 0
    if not plan.paired and notes.grades_less(frame, favoured):
        return True
    costs_known = plan.cost is None or frame[["tokens", "seconds"]].notna().all(axis=None)
    if costs_known and not (plan.paired and table["left_out"].any()):
        return False
    worst = pairing.suppose_worst(frame, favoured)
    basis = pairing.fail_left_out(pairing.average_pairs(worst), favoured) if plan.paired else worst
    found = _estimate(basis, plan)
    if found.interval is None:
        return True
    low, high = found.interval
    return low <= 0.0 if favoured == 1 else high >= 0.0


def _full_marks(pairs: _Pairs | None, basis: pd.DataFrame) -> tuple[int | None, int | None]:
    """Return how many pairs gained and lost full marks; None where they are not paired or nothing was graded."""
    if pairs is None or not basis["completion"].notna().any():
        return None, None
    return int((pairs.marks > 0).sum()), int((pairs.marks < 0).sum())


def _betting(pairs: _Pairs, level: float) -> tuple[float, float] | None:
    """Return the betting interval of the mean difference in score, a family counting as one value of its weight."""
    sizes = np.bincount(pairs.cluster)
    present = sizes > 0
    if not present.any():
        return None
    means = np.bincount(pairs.cluster, pairs.differences)[present] / sizes[present]
    return betting.interval(np.clip(means, -1.0, 1.0), level, sizes[present].astype(np.float64))
