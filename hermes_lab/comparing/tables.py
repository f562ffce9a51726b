"""The tables of a comparison that carry no verdict: counts per version, other measures, task types."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from hermes_lab.comparing.comparison import ArmCounts, Dimension, TypeRow
from hermes_lab.comparing.contrast import Contrast
from hermes_lab.comparing.pairing import MEASURES


def arm_counts(frame: pd.DataFrame, arm: int) -> ArmCounts:
    """Return what the attempts of one version came to.

    Args:
        frame: `pairing.attempts` of both versions.
        arm: 0 for the old one, 1 for the new one.
    """
    rows = frame[frame["arm"] == arm]
    ended = rows["how"].astype(object).where(rows["finished"], "unfinished").fillna("unknown").value_counts()
    return ArmCounts(
        attempts=len(rows),
        tasks=int(rows["pair"].nunique()),
        unfinished=int((~rows["finished"]).sum()),
        unscored=int(rows["unscored"].sum()),
        ungraded=int(rows["completion"].isna().sum()),
        tokens_unknown=int(rows["tokens"].isna().sum()),
        seconds_unknown=int(rows["seconds"].isna().sum()),
        ended={str(how): int(count) for how, count in sorted(ended.items(), key=_by_count)},
    )


def dimensions(basis: pd.DataFrame, paired: bool) -> tuple[Dimension, ...]:
    """Return every measure in both versions, over what both know.

    Args:
        basis: the rows that are compared: pairs and arms in order, or attempts.
        paired: whether the rows of both arms belong together.
    """
    old, new = basis[basis["arm"] == 0], basis[basis["arm"] == 1]
    return tuple(_dimension(name, old[name].to_numpy(), new[name].to_numpy(), paired) for name in MEASURES)


def types(found: Contrast, kinds: list[str]) -> tuple[TypeRow, ...]:
    """Return what each task type gave, the weightiest first."""
    there = (found.counts > 0).all(axis=0)
    weights = np.where(there, found.counts.sum(axis=0), 0.0)
    shares = weights / max(weights.sum(), 1.0)
    composites = found.scores - found.penalties
    rows = [
        TypeRow(
            task_type=kind,
            old_tasks=int(found.counts[0, i]),
            new_tasks=int(found.counts[1, i]),
            share=float(shares[i]),
            old_score=_known(found.scores[0, i]),
            new_score=_known(found.scores[1, i]),
            old_cost=_known(found.ratios[0, i]),
            new_cost=_known(found.ratios[1, i]),
            old_penalty=float(found.penalties[0, i]),
            new_penalty=float(found.penalties[1, i]),
            difference=_known(composites[1, i] - composites[0, i]),
        )
        for i, kind in enumerate(kinds)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.share, row.task_type)))


def _dimension(name: str, old: np.ndarray, new: np.ndarray, paired: bool) -> Dimension:
    known_old, known_new = ~np.isnan(old), ~np.isnan(new)
    if paired:
        known_old = known_new = known_old & known_new
    known = int(known_old.sum()) if paired else int(known_old.sum() + known_new.sum())
    if not known_old.any() or not known_new.any():
        return Dimension(name=name, old=_mean(old[known_old]), new=_mean(new[known_new]), difference=None, known=known)
    means = float(old[known_old].mean()), float(new[known_new].mean())
    return Dimension(name=name, old=means[0], new=means[1], difference=means[1] - means[0], known=known)


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if values.size else None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _by_count(item: tuple[object, int]) -> tuple[int, str]:
    return -item[1], str(item[0])
