"""A database of scored episodes: the counted ones of a lab, selected, weighed and scored by SQL, one table a step.

| table | holds | made by |
| --- | --- | --- |
| `facts` | the counted episodes that are selected | `facts` |
| `weights`, `settings` | what they are scored by | `scoring` |
| `made_again` | those that do not count, for their attempt was made again | `sql/score_made_again.sql` |
| `episodes` | a score for each | `sql/score_episodes.sql` |
| `means` | of these, for each version and type | `sql/score_means.sql` |
| `baseline`, `types` | costs to hold them against; a score for each version and type | `sql/score_types.sql` |
| `origins` | suite, seed, difficulty and language of each | `sql/episode_origins.sql` |
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import pyarrow as pa

from hermes_lab.errors import MissingError
from hermes_lab.facts import facts_of
from hermes_lab.scoring import DIMENSIONS, Scoring
from hermes_lab.sql_files import read_sql
from hermes_lab.versions import Versions

if TYPE_CHECKING:
    import pandas as pd

    from hermes_lab.lab import Lab

_DAY_S = 86_400.0


class Selection(NamedTuple):
    """Which episodes are looked at; None for all.

    Attributes:
        versions: of these configurations.
        runs: of these runs.
        suite: of runs of this suite.
        since: that began at this time or later; aware.
        until: that began before this time; aware.
    """

    versions: Sequence[str] | None = None
    runs: Sequence[str] | None = None
    suite: str | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None


EVERYTHING = Selection()


class Scored:
    """A database of scored episodes, while it is open.

    Attributes:
        connection: holds the tables.
        as_of: when windows end.
        counted: episodes that had to be counted anew.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, as_of: dt.datetime | None, counted: int) -> None:
        """Use `open_scored`."""
        self.connection = connection
        self.as_of = as_of
        self.counted = counted

    def frame(self, name: str) -> pd.DataFrame:
        """Return what a query of `sql/` gives."""
        found: pd.DataFrame = self.connection.sql(read_sql("hermes_lab", name)).df()
        return found

    def means(self) -> None:
        """Make the table `means`."""
        self.connection.execute(f"create temp table means as {read_sql('hermes_lab', 'score_means')}")

    def origins(self, lab: Lab, selection: Selection) -> None:
        """Make the table `origins`."""
        params = {"versions": _versions(lab, selection), "runs": _listed(selection.runs)}
        self.table("origins", lab.log.sql(read_sql("hermes_lab", "episode_origins"), params).to_arrow_table())

    def table(self, name: str, content: pa.Table) -> None:
        """Make a table of what is given."""
        self.connection.register(f"given_{name}", content)
        self.connection.execute(f"create temp table {name} as select * from given_{name}")
        self.connection.unregister(f"given_{name}")


@contextlib.contextmanager
def open_scored(lab: Lab, selection: Selection, scoring: Scoring, as_of: dt.datetime | None) -> Iterator[Scored]:
    """Yield a database with the table `episodes`: those that are selected, scored.

    Args:
        lab: whose log is scored.
        selection: which episodes.
        scoring: by what.
        as_of: when windows end; None for the time of the newest event.

    Raises:
        MissingError: there is no such episode.
    """
    with facts_of(lab) as facts, contextlib.closing(_connect(lab)) as connection:
        connection.execute(f"create view every_fact as {facts.rows}")
        moment = as_of or connection.execute("select max(last_ts) from every_fact").fetchall()[0][0]
        conditions, params = _conditions(lab, selection)
        if conditions:  # a view takes no parameters
            connection.execute(f"create temp table facts as select * from every_fact where {conditions}", params)
        else:
            connection.execute("create view facts as select * from every_fact")
        types = [row[0] for row in connection.execute("select distinct task_type from facts").fetchall()]
        if not types:
            raise MissingError(f"there is no such episode in {lab.path}: `hermes-lab run` makes some")
        scored = Scored(connection, moment, facts.counted)
        scored.table("weights", _weights(types, scoring))
        scored.table("settings", _settings(scoring, moment))
        scored.table("made_again", _made_again(lab, connection))
        connection.execute(f"create view episodes as {read_sql('hermes_lab', 'score_episodes')}")
        yield scored


def _made_again(lab: Lab, connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Return the episodes that do not count: killed before they were graded, and made again with the same seed."""
    pairs = connection.execute(read_sql("hermes_lab", "score_made_again")).fetchall()
    ids = sorted({one for pair in pairs for one in pair})
    seeds = dict(lab.log.sql(read_sql("hermes_lab", "episode_seeds"), {"ids": ids}).fetchall()) if ids else {}
    found = sorted({cut for cut, later in pairs if seeds.get(cut) is not None and seeds[cut] == seeds.get(later)})
    return pa.table({"episode_id": pa.array(found, pa.string())})


def _connect(lab: Lab) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:")
    connection.execute("set TimeZone = 'UTC'")
    if lab.settings.log.memory_limit:
        connection.execute("set memory_limit = ?", [lab.settings.log.memory_limit])
    if os.access(lab.path, os.W_OK):
        connection.execute("set temp_directory = ?", [str(lab.path / "cache" / "duckdb")])
    return connection


def _conditions(lab: Lab, selection: Selection) -> tuple[str, list[Any]]:
    """Return the selection as a condition over `facts`, with its parameters."""
    conditions: list[str] = []
    params: list[Any] = []
    runs = _listed(selection.runs)
    if selection.suite is not None:
        of_suite = [row[0] for row in lab.log.sql(_RUNS_OF_SUITE, [selection.suite]).fetchall()]
        runs = of_suite if runs is None else [run for run in runs if run in set(of_suite)]
    for column, values in (("config_version", _versions(lab, selection)), ("run_id", runs)):
        if values is not None:
            conditions.append(f"{column} in (select unnest(?::varchar[]))")
            params.append(values)
    for sign, time in ((">=", selection.since), ("<", selection.until)):
        if time is not None:
            conditions.append(f"began {sign} ?")
            params.append(time)
    return " and ".join(conditions), params


_RUNS_OF_SUITE = "select distinct run_id from events where action = 'task_started' and input->>'$.run.suite' = ?"


def _weights(types: Sequence[str | None], scoring: Scoring) -> pa.Table:
    rows = [
        {"task_type": name, **{part: getattr(scoring.weights_of(name), part) for part in DIMENSIONS}} for name in types
    ]
    schema = pa.schema([("task_type", pa.string()), *((part, pa.float64()) for part in DIMENSIONS)])
    return pa.Table.from_pylist(rows, schema=schema)


def _settings(scoring: Scoring, as_of: dt.datetime | None) -> pa.Table:
    """Return what the queries go by, as one row."""
    penalty, feedback, windows, alarms = scoring.penalty, scoring.feedback, scoring.windows, scoring.alarms
    row = {
        "as_of": as_of,
        "success": scoring.success,
        "token_share": penalty.tokens,
        "mild_from": penalty.mild_from,
        "mild_slope": penalty.mild_slope,
        "steep_from": penalty.steep_from,
        "steep_slope": penalty.steep_slope,
        "most_penalty": penalty.most,
        "like_value": feedback.like,
        "dislike_value": feedback.dislike,
        "silence_value": feedback.silence,
        "silence_after_s": feedback.silence_after_hours * 3600,
        "deaf_channels": list(feedback.deaf_channels),
        "baseline_s": windows.baseline_days * _DAY_S,
        "unfinished_after_s": windows.unfinished_after_s,
        "cost_ratio_alarm": alarms.cost_ratio,
        "no_call_rise_alarm": alarms.no_call_rise,
        "search_ratio_alarm": alarms.search_ratio,
    }
    table = pa.Table.from_pylist([row])
    place = table.schema.get_field_index("as_of")
    table = table.set_column(place, "as_of", table["as_of"].cast(pa.timestamp("us", tz="UTC")))
    if not feedback.deaf_channels:
        place = table.schema.get_field_index("deaf_channels")
        table = table.set_column(place, "deaf_channels", table["deaf_channels"].cast(pa.list_(pa.string())))
    return table


def _versions(lab: Lab, selection: Selection) -> list[str] | None:
    """Return the wanted versions as events name them."""
    if selection.versions is None:
        return None
    history = Versions(lab.path)
    return [history.hash_of(name) for name in selection.versions]


def _listed(values: Sequence[str] | None) -> list[str] | None:
    return None if values is None else list(values)
