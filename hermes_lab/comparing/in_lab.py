"""Compares two versions, or two runs, of a lab by what its log says of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hermes_lab.baseline import Baseline
from hermes_lab.comparing.compare import compare
from hermes_lab.errors import MissingError
from hermes_lab.evaluator import episodes, evaluate
from hermes_lab.scored import Selection
from hermes_lab.scoring import Scoring, scoring_of
from hermes_lab.versions import Versions

if TYPE_CHECKING:
    from hermes_lab.comparing.comparison import Comparison
    from hermes_lab.lab import Lab


def compare_in_lab(
    lab: Lab,
    old: str,
    new: str,
    *,
    endpoint: str = "composite",
    suite: str | None = None,
    scoring: Scoring | Path | str | None = None,
    baseline: Baseline | str | None = None,
    level: float = 0.95,
    paired: bool | None = None,
) -> Comparison:
    """Compare a new version with an old one by all of their recorded episodes, or two runs.

    Args:
        lab: whose log has them.
        old: a version of the configuration, or the id of a run.
        new: likewise.
        endpoint: what decides: composite, completion or base.
        suite: only episodes of this suite.
        scoring: see `evaluator.evaluate`.
        baseline: see `evaluator.evaluate`; recent successes are those of the old version.
        level: coverage of the intervals.
        paired: see `comparing.compare.compare`.

    Raises:
        MissingError: one of them has no episode here.
        CompareError: they cannot be compared as asked.
        ConfigError: a scoring file with a wrong value.
    """
    rules = scoring_of(lab.path, scoring)
    chosen = {name: _selection(lab, name, suite) for name in (old, new)}
    if endpoint == "composite":
        costs = evaluate(lab, chosen[old], scoring=rules, baseline=baseline).baseline.costs
    else:
        costs = {}
    return compare(
        _episodes(lab, chosen[old], rules),
        _episodes(lab, chosen[new], rules),
        endpoint=endpoint,
        penalty=np.vectorize(rules.penalty.of, otypes=[np.float64]),
        baseline={name or "(no type)": (cost.tokens, cost.seconds) for name, cost in costs.items()},
        level=level,
        labels=(old, new),
        scoring_hash=rules.version,
        paired=paired,
    )


def _selection(lab: Lab, name: str, suite: str | None) -> Selection:
    """Return the episodes of a version, else of a run, of that name."""
    version = Versions(lab.path).hash_of(name)
    query = "select count(*) filter (config_version = $version), count(*) filter (run_id = $name) from events"
    of_version, of_run = lab.log.sql(query, {"version": version, "name": name}).fetchall()[0]
    if of_version:
        return Selection(versions=(version,), suite=suite)
    if of_run:
        return Selection(runs=(name,), suite=suite)
    raise MissingError(f"{lab.path} has no episode of a version or run {name!r}: `hermes-lab evaluate` lists versions")


def _episodes(lab: Lab, selection: Selection, scoring: Scoring) -> pd.DataFrame:
    """Return the episodes that count, with what `compare` asks for; one without an end is there, as not finished."""
    frame = episodes(lab, selection, scoring=scoring)
    counting = frame[frame["counts"]]
    return counting.assign(finished=counting["outcome"] != "unfinished")
