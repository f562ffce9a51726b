"""Counts what episodes did and took, from a view of the log: one row an episode, by the queries `sql/episode_*.sql`."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from hermes_lab.log.snapshot import Snapshot
from hermes_lab.sql_files import read_sql

_ROWS = 50_000
_QUERIES = (
    "episode_facts",
    "episode_unhashed",
    "episode_taken_back",
    "episode_strong",
    "episode_judging",
    "episode_searches",
    "episode_discards",
    "search_is_empty",
)
_DISCARDED = pa.schema([("episode_id", pa.string()), ("discarded", pa.int64())])
_ALSO = 1  # to be raised when what is done beside the SQL changes


def version() -> str:
    """Return a hash of the queries: counts that other queries made are not to be gone on with."""
    return hashlib.sha256("".join(map(_sql, _QUERIES)).encode()).hexdigest()[:16] + f"-{_ALSO}"


def count(snapshot: Snapshot, view: str, ids: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the counts of episodes; the first batch has no rows, and tells the columns.

    Args:
        snapshot: of the log.
        view: a view of it that holds all events of these episodes.
        ids: the episodes; None for all.

    Raises:
        duckdb.Error: a sealed file cannot be read.
    """
    among = "" if ids is None else "and episode_id in (select unnest($ids))"
    params = {} if ids is None else {"ids": ids}
    parts = _parts(snapshot, view)
    discarded = _discarded(snapshot, view, parts, among, params)
    counted = _run(snapshot, _sql("episode_facts").format(events=view, among=among, **parts), params)
    reader = counted.to_arrow_reader(_ROWS)
    for batch in itertools.chain([pa.RecordBatch.from_pylist([], schema=reader.schema)], reader):
        places = pc.index_in(batch["episode_id"], value_set=discarded["episode_id"])
        yield batch.append_column(
            "discarded_searches", pc.fill_null(discarded["discarded"].take(places), 0).combine_chunks()
        )


def _parts(snapshot: Snapshot, view: str) -> dict[str, str]:
    """Return the parts of the queries that cost much and that few logs need, each left out where it is not needed."""

    def is_there(sql: str) -> bool:
        return bool(_run(snapshot, f"{sql} limit 1").fetchall())

    def is_among(sql: str) -> str:
        return f"event_id in ({sql})" if is_there(sql) else "false"

    unhashed, strong, taken_back, judging = (
        _sql(f"episode_{name}").format(events=view) for name in ("unhashed", "strong", "taken_back", "judging")
    )
    return {
        "call": "coalesce(request_hash, md5(coalesce(input, '')))" if is_there(unhashed) else "request_hash",
        "is_empty": _sql("search_is_empty"),
        "is_taken_back": is_among(taken_back),
        "is_judging": is_among(judging) if is_there(strong) else "false",
    }


def _discarded(
    snapshot: Snapshot, view: str, parts: dict[str, str], among: str, params: dict[str, list[str]]
) -> pa.Table:
    """Return how many searches were thrown away, by episode, of those in which any was."""
    several = _run(snapshot, _sql("episode_searches").format(events=view, among=among), params).to_arrow_table()
    ids = several["episode_id"].to_pylist()
    if not ids:
        return _DISCARDED.empty_table()
    return _run(snapshot, _sql("episode_discards").format(events=view, **parts), {"ids": ids}).to_arrow_table()


def _run(snapshot: Snapshot, sql: str, params: dict[str, list[str]] | None = None) -> duckdb.DuckDBPyRelation:
    """Return the relation of a query of ours, which need not be looked through as a person's is."""
    return snapshot.connection.cursor().sql(sql, params=params or None)


def _sql(name: str) -> str:
    return read_sql("hermes_lab", name)
