"""The composite evaluator: SQL over the counted episodes of a lab scores each episode, task type and version.

What is scored is in `facts`, by what in `scoring`; the formulas stand in `sql/score_*.sql`.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_lab.baseline import Baseline, choose, freeze, hold_against
from hermes_lab.scored import EVERYTHING, Selection, open_scored
from hermes_lab.scoring import DIMENSIONS, Scoring, scoring_of

if TYPE_CHECKING:
    import pandas as pd

    from hermes_lab.lab import Lab


@dataclass(frozen=True)
class Evaluation:
    """The scores of a lab's versions; it shows itself as a table in a notebook.

    Attributes:
        scoring: what they were scored by; `scoring.version` belongs to every figure here.
        as_of: the moment that windows end at.
        baseline: the costs that they are held against.
        versions: a row for each version: composite, base score, dimensions, cost, and how many of its episodes are
            unscored or ended badly.
        types: a row for each version and task type.
        proofs: a row for each version: success at the first attempt, planning turns to a success, known errors again.
        gaming: a row for each version: signs that it plays the score.
        counted: episodes that had to be counted anew for it.
    """

    scoring: Scoring
    as_of: dt.datetime | None
    baseline: Baseline
    versions: pd.DataFrame
    types: pd.DataFrame
    proofs: pd.DataFrame
    gaming: pd.DataFrame
    counted: int

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values; unknown is None."""
        return {
            "scoring": self.scoring.version,
            "as_of": None if self.as_of is None else self.as_of.isoformat(),
            "baseline": {
                "source": self.baseline.source,
                "costs": {name or "": cost._asdict() for name, cost in self.baseline.costs.items()},
            },
            **{name: records(getattr(self, name)) for name in ("versions", "types", "proofs", "gaming")},
        }

    def __repr__(self) -> str:
        """Say how much was scored, and by what."""
        return f"Evaluation({len(self.versions)} versions, scoring {self.scoring.version})"

    def _repr_html_(self) -> str:
        shown = ["config_version", "episodes", "composite", "base", "penalty", *DIMENSIONS, "tokens", "seconds"]
        counts = ["unscored", "errors", "timeouts", "denied_ends", "unfinished"]
        table: str = self.versions[shown + counts].to_html(index=False, na_rep="unknown", float_format="{:.3f}".format)
        return f"<p>Scored by <code>{self.scoring.version}</code>; cost baseline: {self.baseline.source}</p>{table}"


def evaluate(
    lab: Lab,
    selection: Selection = EVERYTHING,
    *,
    scoring: Scoring | Path | str | None = None,
    baseline: Baseline | str | None = None,
    as_of: dt.datetime | None = None,
) -> Evaluation:
    """Score the episodes of a lab.

    Args:
        lab: whose log is scored.
        selection: which episodes.
        scoring: by what; None for the lab's `scoring.toml`, else the default.
        baseline: costs to hold them against; None for those frozen last, else the recent ones; "recent" for the
            successes of the last days in any case.
        as_of: an aware time at which windows end; None for the time of the newest event, so that a log gives the same
            scores whenever it is looked at.

    Raises:
        ConfigError: a scoring file with a wrong value.
        MissingError: there is no such episode.
    """
    rules = scoring_of(lab.path, scoring)
    with open_scored(lab, selection, rules, as_of) as scored:
        scored.means()
        costs = choose(lab, scored, rules, baseline)
        hold_against(scored, costs)
        frames = {name: scored.frame(f"score_{name}") for name in ("versions", "proofs", "gaming")}
        return Evaluation(
            scoring=rules,
            as_of=scored.as_of,
            baseline=costs,
            types=scored.connection.sql("select * from types").df(),
            counted=scored.counted,
            **frames,
        )


def episodes(
    lab: Lab,
    selection: Selection = EVERYTHING,
    *,
    scoring: Scoring | Path | str | None = None,
    as_of: dt.datetime | None = None,
    origins: bool = True,
) -> pd.DataFrame:
    """Return a row for each episode: its dimensions, base score, counts and costs, and where it came from.

    Args:
        lab: whose log is scored.
        selection: which episodes.
        scoring: by what, see `evaluate`.
        as_of: when windows end, see `evaluate`.
        origins: add suite, seed, difficulty and language, for which the first event of each episode is read.

    Raises:
        ConfigError: a scoring file with a wrong value.
        MissingError: there is no such episode.
    """
    with open_scored(lab, selection, scoring_of(lab.path, scoring), as_of) as scored:
        rows = "select * from episodes"
        if origins:
            scored.origins(lab, selection)
            rows += " left join origins using (episode_id)"
        found: pd.DataFrame = scored.connection.sql(f"{rows} order by episode_id").df()
        return found


def by_difficulty(
    lab: Lab, selection: Selection = EVERYTHING, *, scoring: Scoring | Path | str | None = None
) -> pd.DataFrame:
    """Return the scores of each version by difficulty of the task: a row for each pair; null where it is unknown.

    Raises:
        ConfigError: a scoring file with a wrong value.
        MissingError: there is no such episode.
    """
    with open_scored(lab, selection, scoring_of(lab.path, scoring), None) as scored:
        scored.origins(lab, selection)
        return scored.frame("score_difficulty")


def freeze_baseline(
    lab: Lab, selection: Selection = EVERYTHING, *, by: str, scoring: Scoring | Path | str | None = None
) -> Baseline:
    """Freeze what successes cost now and what each version scores, as an event: later versions are held against it.

    Args:
        lab: whose log is scored, and takes the event.
        selection: whose successes.
        by: who freezes it: a person, or the name of a rule.
        scoring: see `evaluate`.

    Raises:
        ConfigError: a scoring file with a wrong value, or nobody named.
        MissingError: there is no such episode.
    """
    found = evaluate(lab, selection, scoring=scoring, baseline="recent")
    kept = ("config_version", "episodes", "composite", "base", "completion")
    scores = [{key: row[key] for key in kept} for row in records(found.versions)]
    return freeze(lab, found.baseline, scores, by=by, scoring=found.scoring)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame as plain values, NaN and NaT as None."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return [{str(key): _plain(value) for key, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    """Return a value of a frame as JSON holds it."""
    if isinstance(value, dt.datetime):
        return value.isoformat()
    if hasattr(value, "tolist"):  # numpy's numbers and arrays
        return value.tolist()
    return value
