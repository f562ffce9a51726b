"""The cost baseline that versions are held against: what successes took of late, or as it was frozen."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from hermes_lab import payload
from hermes_lab.errors import ConfigError, MissingError
from hermes_lab.kinds import Action, Status
from hermes_lab.scored import Scored
from hermes_lab.scoring import Scoring
from hermes_lab.sql_files import read_sql

if TYPE_CHECKING:
    from hermes_lab.lab import Lab


class Cost(NamedTuple):
    """What a success of one task type takes; None is unknown.

    Attributes:
        tokens: mean tokens, input and output.
        seconds: mean seconds in models and tools.
        successes: that the means are of.
    """

    tokens: float | None
    seconds: float | None
    successes: int = 0


class Baseline(NamedTuple):
    """The costs that versions are held against.

    Attributes:
        costs: by task type.
        source: where they come from, in words.
    """

    costs: Mapping[str | None, Cost]
    source: str


def choose(lab: Lab, scored: Scored, scoring: Scoring, wanted: Baseline | str | None) -> Baseline:
    """Return the baseline that is wanted: the one given, the one frozen last, or the recent successes.

    Args:
        lab: in whose log a frozen one is looked for.
        scored: has the table `means`.
        scoring: how long is recent.
        wanted: one of one's own, "frozen", "recent", or None for the frozen one where there is one.

    Raises:
        ConfigError: another word.
        MissingError: none was frozen.
    """
    if isinstance(wanted, Baseline):
        return wanted
    if wanted not in (None, "recent", "frozen"):
        raise ConfigError(f"baseline {wanted!r}: it is 'recent', 'frozen' or a Baseline")
    frozen = None if wanted == "recent" else _frozen(lab)
    if frozen is not None:
        return frozen
    if wanted == "frozen":
        raise MissingError(f"no baseline was frozen in {lab.path}: `hermes-lab evaluate --freeze` freezes one")
    rows = scored.connection.execute(read_sql("hermes_lab", "score_baseline")).fetchall()
    return Baseline(
        {name: Cost(tokens, seconds, successes) for name, tokens, seconds, successes in rows},
        f"the successes of the last {scoring.windows.baseline_days:g} days",
    )


def hold_against(scored: Scored, baseline: Baseline) -> None:
    """Make the table `types` of `means`: the score of each version and task type, held against a baseline."""
    rows = [{"task_type": name, **cost._asdict()} for name, cost in baseline.costs.items()]
    schema = pa.schema([("task_type", pa.string()), ("tokens", pa.float64()), ("seconds", pa.float64())])
    scored.table("baseline", pa.Table.from_pylist(rows, schema=schema))
    scored.connection.execute(f"create temp table types as {read_sql('hermes_lab', 'score_types')}")


def freeze(lab: Lab, baseline: Baseline, scores: list[dict[str, Any]], *, by: str, scoring: Scoring) -> Baseline:
    """Write a baseline and the scores that go with it as an event, and return it as frozen.

    Raises:
        ConfigError: nobody is named.
    """
    if not by.strip():
        raise ConfigError("a baseline is frozen by somebody: name a person or a rule")
    costs = [{"task_type": name, **cost._asdict()} for name, cost in baseline.costs.items()]
    with lab.log.writer() as writer:
        event = writer.record(
            Action.BASELINE_FROZEN,
            name=by,
            output={"scoring": scoring.version, "costs": costs, "versions": scores},
            status=Status.OK,
        )
    return Baseline(baseline.costs, _frozen_source(event.ts, by))


def _frozen(lab: Lab) -> Baseline | None:
    rows = lab.log.sql(
        "select ts, name, output from events where action = 'baseline_frozen' order by event_id desc limit 1"
    ).fetchall()
    if not rows:
        return None
    ts, by, output = rows[0]
    costs = payload.loads(output)["costs"]
    return Baseline(
        {cost["task_type"]: Cost(cost["tokens"], cost["seconds"], cost["successes"]) for cost in costs},
        _frozen_source(ts, by),
    )


def _frozen_source(ts: dt.datetime, by: str) -> str:
    return f"frozen at {ts:%Y-%m-%d %H:%M} UTC by {by}"
