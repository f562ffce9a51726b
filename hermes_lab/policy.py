"""Policy memory as a view over the log: which tools hit and missed on which tasks, rebuilt whenever it is asked for."""

from __future__ import annotations

import datetime as dt

from hermes_lab import payload
from hermes_lab.log import Log
from hermes_lab.routing import PolicyMemory, ToolStats
from hermes_lab.sql_files import read_sql

FORGET_MISSES_AFTER = dt.timedelta(days=7)
"""Misses older than this no longer count, so that a passing outage does not ban a tool for ever."""


def fold(log: Log, now: dt.datetime, forget_after: dt.timedelta = FORGET_MISSES_AFTER) -> PolicyMemory:
    """Return policy memory as of `now`, an aware time."""
    stats = {}
    for task_type, tool, hits, misses, last_good in log.sql(
        read_sql("hermes_lab", "policy_stats"), [now - forget_after]
    ).fetchall():
        good = payload.loads(last_good) if last_good else None
        stats[task_type, tool] = ToolStats(int(hits), int(misses), good if isinstance(good, dict) else None)
    followed = {
        (task_type, before, tool): int(times)
        for task_type, before, tool, times in log.sql(read_sql("hermes_lab", "policy_followed")).fetchall()
    }
    return PolicyMemory(stats, followed)
