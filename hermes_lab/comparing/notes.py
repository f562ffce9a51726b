"""What a reader must know before believing a verdict: everything missing from either version, by name and number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from hermes_lab.comparing.comparison import Verdict
from hermes_lab.comparing.contrast import Contrast, Cost

NEGLIGIBLE = 0.02
"""A share of tasks or attempts below which a difference in what is missing is not worth a warning."""

_RARE = 10


class Notes(NamedTuple):
    """What the warnings are drawn from: all attempts, all pairs and arms, whether paired, the versions' labels."""

    frame: pd.DataFrame
    table: pd.DataFrame
    paired: bool
    labels: tuple[str, str]


def warnings(
    notes: Notes, found: Contrast, kinds: list[str], cost: Cost | None, verdict: Verdict, blocked: bool
) -> Iterator[str]:
    """Yield the warnings, the gravest first.

    Args:
        notes: what was compared.
        found: the difference.
        kinds: the task types, as `found` counts them.
        cost: how costs counted; None where the endpoint has none.
        verdict: the verdict from the interval.
        blocked: whether it fell because of what the favoured version left out.
    """
    if blocked:
        favoured = notes.labels[1] if verdict == "better" else notes.labels[0]
        yield (
            f"the interval alone favours {favoured}, but no longer once what {favoured} left out (tasks, grades, costs)"
            " is held against it: run both versions on the same tasks, everything recorded"
        )
    if not notes.paired:
        yield "unpaired: other tasks in each version, so the evidence is weaker than that of a paired run"
    yield from _only_one(notes)
    yield from _uneven(notes)
    yield from _types_of_one(found, kinds, notes.labels)
    if cost is not None:
        yield from _costs(notes, found, kinds, cost)
    yield from _rare_losses(notes)


def grades_less(frame: pd.DataFrame, arm: int) -> bool:
    """Return whether a version's attempts are graded more rarely than the other's, by more than a negligible share."""
    graded = frame["completion"].notna().groupby(frame["arm"]).mean()
    return bool(graded[arm] < graded[1 - arm] - NEGLIGIBLE)


def _only_one(notes: Notes) -> Iterator[str]:
    if not notes.paired:
        return
    alone = notes.table[~notes.table["shared"]]
    total = notes.table["pair"].nunique()
    if len(alone) <= NEGLIGIBLE * total:
        return
    old, new = int((alone["arm"] == 0).sum()), int((alone["arm"] == 1).sum())
    yield (
        f"{old + new} of {total} tasks were run by one version only ({old} by {notes.labels[0]}, {new} by"
        f" {notes.labels[1]}): the difference says nothing of them"
    )


def _uneven(notes: Notes) -> Iterator[str]:
    for column, what in (("unscored", "were not scored and count 0"), ("ungraded", "have no completion grade")):
        lacking = notes.frame["completion"].isna() if column == "ungraded" else notes.frame["unscored"]
        old, new = (float(lacking[notes.frame["arm"] == arm].mean()) for arm in (0, 1))
        if abs(old - new) > NEGLIGIBLE:
            yield f"{old:.1%} of the attempts of {notes.labels[0]} and {new:.1%} of those of {notes.labels[1]} {what}"


def _types_of_one(found: Contrast, kinds: list[str], labels: tuple[str, str]) -> Iterator[str]:
    for arm in (0, 1):
        lone = [kinds[i] for i in np.flatnonzero((found.counts[arm] > 0) & (found.counts[1 - arm] == 0))]
        if lone:
            yield f"only {labels[arm]} has the task types {', '.join(lone)}: they are not compared"


def _costs(notes: Notes, found: Contrast, kinds: list[str], cost: Cost) -> Iterator[str]:
    compared = (found.counts > 0).all(axis=0)
    no_baseline = np.isnan(cost.tokens) & np.isnan(cost.seconds)
    unknown = np.isnan(found.ratios).any(axis=0)
    for which, why in ((no_baseline, "has no cost baseline"), (unknown & ~no_baseline, "has unknown costs")):
        named = [kinds[i] for i in np.flatnonzero(which & compared)]
        if named:
            yield f"task type {', '.join(named)} {why}: its composite is its base score in both versions"
    for measure in ("tokens", "seconds"):
        missing = notes.frame[measure].isna().groupby(notes.frame["arm"]).sum()
        if 0 < int(missing.sum()) < len(notes.frame):
            yield (
                f"{measure} are not known for {missing[0]} attempts of {notes.labels[0]} and {missing[1]} of"
                f" {notes.labels[1]}: their means are over the rest"
            )


def _rare_losses(notes: Notes) -> Iterator[str]:
    """Point to the betting interval where few pairs carry large losses, which no other interval sees well."""
    if not notes.paired:
        return
    shared = notes.table[notes.table["shared"]]
    old, new = (shared.loc[shared["arm"] == arm, "value"].to_numpy() for arm in (0, 1))
    lost = int((new - old <= -0.5).sum())
    if 0 < lost < _RARE and (new - old).mean() > 0.0:
        yield f"only {lost} pairs carry large losses: look at the betting interval too, which rare losses do not fool"
