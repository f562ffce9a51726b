"""Records of finished tasks as long-term memory: found by words, type, tool and outcome, in English and Chinese."""

from __future__ import annotations

import datetime as dt
from typing import Any, NamedTuple

from hermes_lab import payload
from hermes_lab.errors import QueryError
from hermes_lab.log import Log
from hermes_lab.sql_files import read_sql
from hermes_lab.text import tokens
from hermes_lab.tools.bm25 import Bm25

_MOST_RANKED = 1_000


class TaskRecord(NamedTuple):
    """The record of a finished task.

    Attributes:
        event_id: of the record.
        ts: when it was written.
        episode_id: the attempt.
        task_id: the task.
        task_type: its type.
        config_version: the version at work.
        request: what was asked.
        outcome: how it ended, such as completed.
        result: the answer, or the reason of the end.
        tools: that were called.
        failures: where it failed: tool, error_kind, message.
        decisions: calls that changed something: tool, arguments.
        score: how well it fits the words (BM25); None where none were given.
    """

    event_id: str
    ts: dt.datetime
    episode_id: str | None
    task_id: str | None
    task_type: str | None
    config_version: str | None
    request: str
    outcome: str
    result: str
    tools: tuple[str, ...]
    failures: tuple[dict[str, Any], ...]
    decisions: tuple[dict[str, Any], ...]
    score: float | None = None


def search(
    log: Log,
    words: str = "",
    *,
    task_type: str | None = None,
    tool: str | None = None,
    outcome: str | None = None,
    limit: int = 20,
) -> list[TaskRecord]:
    """Return the records that fit, the best first; without words, the newest first.

    Args:
        log: of the lab.
        words: in any language; a record must hold one of them, also within a longer word.
        task_type: only of this type.
        tool: only where this tool was called.
        outcome: only those that ended so: completed, gave_up, denied, diverged, budget, timeout, error.
        limit: at most so many.

    Raises:
        QueryError: `limit` is below 1.
    """
    if limit < 1:
        raise QueryError(f"limit is {limit}: ask for 1 record or more")
    wanted = list(dict.fromkeys(tokens(words)))
    if words.strip() and not wanted:
        return []
    params = {
        "words": wanted,
        "task_type": task_type,
        "tool": tool,
        "outcome": outcome,
        "most": max(limit, _MOST_RANKED) if wanted else limit,
    }
    rows = log.sql(read_sql(__package__, "task_records"), params).fetchall()
    found = [record for row in rows if (record := _record(row[:-1])) is not None]
    return _ranked(found, wanted, limit) if wanted else found


def _ranked(found: list[TaskRecord], wanted: list[str], limit: int) -> list[TaskRecord]:
    """Order records by BM25; those that hold words only within longer ones keep their order, after the others."""
    index = Bm25(
        tokens(f"{one.request} {one.result} {' '.join(one.tools)} {one.failures} {one.decisions}") for one in found
    )
    scores = dict(index.search(wanted, len(found)))
    order = [*scores, *(place for place in range(len(found)) if place not in scores)]
    return [found[place]._replace(score=round(scores.get(place, 0.0), 6)) for place in order[:limit]]


def _record(row: tuple[Any, ...]) -> TaskRecord | None:
    event_id, ts, episode_id, task_id, task_type, config_version, output = row
    told = payload.loads(payload.restore_text(output)) if output else None
    if not isinstance(told, dict):
        return None
    return TaskRecord(
        event_id,
        ts.astimezone(dt.UTC),
        _restored(episode_id),
        _restored(task_id),
        _restored(task_type),
        config_version,
        str(told.get("request") or ""),
        str(told.get("end") or ""),
        str(told.get("result") or ""),
        tuple(str(tool) for tool in _list(told.get("tools"))),
        tuple(one for one in _list(told.get("failure_points")) if isinstance(one, dict)),
        tuple(one for one in _list(told.get("key_decisions")) if isinstance(one, dict)),
    )


def _restored(text: str | None) -> str | None:
    return None if text is None else payload.restore_text(text)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
