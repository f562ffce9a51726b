"""Experiments over settings: the same tasks under each combination of values, side by side in one table."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from hermes_lab.config import changed
from hermes_lab.errors import ConfigError
from hermes_lab.evaluator import evaluate
from hermes_lab.runs import load_config
from hermes_lab.scored import Selection

if TYPE_CHECKING:
    import pandas as pd

    from hermes_lab.comparing.comparison import Comparison
    from hermes_lab.lab import Lab
    from hermes_lab.runner import Progress

MOST_COMBINATIONS = 200
"""More combinations than this are taken for a mistake."""

_SCORES = ("completion", "base", "composite", "effectiveness", "safety", "tokens", "seconds")


class Point(NamedTuple):
    """One combination of a sweep.

    Attributes:
        values: setting -> value.
        config_version: of the configuration that they make.
        run_id: of its run.
    """

    values: dict[str, Any]
    config_version: str
    run_id: str


@dataclass(frozen=True)
class Sweep:
    """A sweep that ended; it shows itself as a table in a notebook.

    Attributes:
        lab: where its runs are recorded.
        suite: whose tasks were worked on.
        points: the combinations, in the order in which they ran.
    """

    lab: Lab
    suite: str
    points: Sequence[Point]

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each combination: its values, scores and costs, and completion beside the first one's.

        `completion_change` has its 95% interval in `change_low` and `change_high`, and what may be said of it in
        `verdict`; the first combination, which the others are held against, has none.
        """
        import pandas as pd

        rows = []
        for point in self.points:
            scored = evaluate(self.lab, Selection(runs=(point.run_id,))).versions.iloc[0]
            row = {**point.values, "config_version": point.config_version, "episodes": scored["episodes"]}
            row |= {name: scored[name] for name in _SCORES}
            rows.append(row | self._beside_first(point) | {"run_id": point.run_id})
        return pd.DataFrame(rows)

    def comparison(self, place: int, endpoint: str = "completion") -> Comparison:
        """Return the comparison of a combination, by its place in `points`, with the first one."""
        found: Comparison = self.lab.compare(self.points[0].run_id, self.points[place].run_id, endpoint=endpoint)
        return found

    def _beside_first(self, point: Point) -> dict[str, Any]:
        if point is self.points[0]:
            return {"completion_change": None, "change_low": None, "change_high": None, "verdict": None}
        found = self.comparison(list(self.points).index(point))
        low, high = found.interval or (None, None)
        return {
            "completion_change": found.difference,
            "change_low": low,
            "change_high": high,
            "verdict": found.verdict,
        }

    def __repr__(self) -> str:
        """Say how large it was."""
        return f"Sweep({self.suite}, {len(self.points)} combinations)"

    def _repr_html_(self) -> str:
        table: str = self.to_frame().to_html(index=False, na_rep="", float_format="{:.3f}".format)
        return table


def sweep(
    lab: Lab,
    settings: Mapping[str, Sequence[Any]],
    *,
    suite: str = "desk",
    config: Any = None,
    on_progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Sweep:
    """Run the same tasks under each combination of settings.

    Args:
        lab: where the runs are recorded.
        settings: dotted name of a setting -> the values to try, as {"routing.shortlist": [1, 3, "all"]}.
        suite: whose tasks.
        config: that the settings are changed in; see `Lab.run`.
        on_progress: called after each episode.
        options: split, limit, seed and attempts, the same for all; see `Lab.plan`.

    Raises:
        ConfigError: no value to try, too many combinations, no such setting or a wrong value; nothing has run then.
        MissingError: there is no such suite or task.
    """
    base = load_config(lab.path, config)
    combinations = _combinations(settings)
    configs = [changed(base, **values) for values in combinations]  # all of them, before the first one runs
    plans = [lab.plan(suite, config=one, **options) for one in configs]
    runs = [plan.go(on_progress=on_progress) for plan in plans]
    points = [Point(values, run.config_version, run.run_id) for values, run in zip(combinations, runs, strict=True)]
    return Sweep(lab, suite, points)


def _combinations(settings: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    for name, values in settings.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise ConfigError(f"sweep: give {name!r} a list of values to try, not {values!r}")
    combinations = [dict(zip(settings, values, strict=True)) for values in itertools.product(*settings.values())]
    if not settings or len(combinations) > MOST_COMBINATIONS:
        raise ConfigError(
            f"sweep: {len(combinations) if settings else 0} combinations; 1 to {MOST_COMBINATIONS} can run"
        )
    return combinations
