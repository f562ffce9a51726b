"""Counts what episodes did and took, from a view of the log: one row an episode, by the queries `sql/episode_*.sql`."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator

import pyarrow as pa

from hermes_lab.log import query
from hermes_lab.log.snapshot import Snapshot
from hermes_lab.sql_files import read_sql

_ROWS = 50_000
_QUERIES = (
    "episode_facts",
    "episode_unhashed",
    "episode_taken_back",
    "episode_judging",
    "episode_searches",
    "episode_discards",
    "search_is_empty",
)
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
    """
    among = "" if ids is None else "and episode_id in (select unnest($ids))"
    params = {} if ids is None else {"ids": ids}
    parts = _parts(snapshot, view)
    discarded = _discarded(snapshot, view, parts, among, params)
    counted = query.run(snapshot, _sql("episode_facts").format(events=view, among=among, **parts), params)
    reader = counted.to_arrow_reader(_ROWS)
    for batch in itertools.chain([pa.RecordBatch.from_pylist([], schema=reader.schema)], reader):
        column = [discarded.get(one, 0) for one in batch["episode_id"].to_pylist()] if discarded else [0] * len(batch)
        yield batch.append_column("discarded_searches", pa.array(column, pa.int64()))


def _parts(snapshot: Snapshot, view: str) -> dict[str, str]:
    """Return the parts of the queries that cost much and that few logs need, each left out where it is not needed."""

    def is_among(name: str) -> str:
        found = _sql(name).format(events=view)
        return f"event_id in ({found})" if query.run(snapshot, f"{found} limit 1").fetchall() else "false"

    has_unhashed = query.run(snapshot, _sql("episode_unhashed").format(events=view)).fetchall()
    return {
        "call": "coalesce(request_hash, md5(coalesce(input, '')))" if has_unhashed else "request_hash",
        "is_empty": _sql("search_is_empty"),
        "is_taken_back": is_among("episode_taken_back"),
        "is_judging": is_among("episode_judging"),
    }


def _discarded(
    snapshot: Snapshot, view: str, parts: dict[str, str], among: str, params: dict[str, list[str]]
) -> dict[str, int]:
    """Return how many searches were thrown away, by episode, of those in which any was."""
    several = query.run(snapshot, _sql("episode_searches").format(events=view, among=among), params).to_arrow_table()
    ids = several["episode_id"].to_pylist()
    if not ids:
        return {}
    return dict(query.run(snapshot, _sql("episode_discards").format(events=view, **parts), {"ids": ids}).fetchall())


def _sql(name: str) -> str:
    return read_sql("hermes_lab", name)
