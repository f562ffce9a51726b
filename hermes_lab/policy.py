"""Policy memory as a view over the log: which tools hit and missed on which tasks, rebuilt whenever it is asked for.

It can be had as of any moment: what was written later does not count, and what an import brought counts from the
moment on at which that import was over, whatever times its events carry. (An import that was killed was over when the
next one ended: no two run at once.)
"""

from __future__ import annotations

import datetime as dt
import hashlib

from hermes_lab import payload
from hermes_lab.log import Log
from hermes_lab.routing import PolicyMemory, ToolStats
from hermes_lab.sql_files import read_sql

FORGET_MISSES_AFTER = dt.timedelta(days=7)
"""Misses older than this no longer count, so that a passing outage does not ban a tool for ever."""


def fold(log: Log, now: dt.datetime, forget_after: dt.timedelta = FORGET_MISSES_AFTER) -> PolicyMemory:
    """Return policy memory as of `now`, an aware time."""
    as_of = {"as_of": now}
    stats = {}
    for task_type, tool, hits, misses, last_good in log.sql(
        read_sql("hermes_lab", "policy_stats"), {**as_of, "forget_before": now - forget_after}
    ).fetchall():
        good = payload.loads(last_good) if last_good else None
        stats[task_type, tool] = ToolStats(int(hits), int(misses), good if isinstance(good, dict) else None)
    followed = {
        (task_type, before, tool): int(times)
        for task_type, before, tool, times in log.sql(read_sql("hermes_lab", "policy_followed"), as_of).fetchall()
    }
    return PolicyMemory(stats, followed)


def digest(memory: PolicyMemory) -> str:
    """Return 12 hex digits of what of policy memory a choice of tools depends on: its counts.

    >>> digest(PolicyMemory()) == digest(PolicyMemory({("orders", "pay"): ToolStats(hits=1)}))
    False
    """
    counts = [
        sorted([task_type, tool, stats.hits, stats.misses] for (task_type, tool), stats in memory.stats.items()),
        sorted([*key, times] for key, times in memory.followed.items()),
    ]
    return hashlib.sha256(payload.canonical(counts)).hexdigest()[:12]
