"""Scoring a large log: all of it, again when nothing is new, and when a hundredth is; and how much memory it takes.

The floor in the same run is DuckDB alone: one group-by by task of the very same Parquet files, with the sums, times and
errors that any report needs. Each figure is the least of several tries, in seconds of the clock and, where others are
at work on the machine, more to be trusted, of the processor. The log is synthetic: ten events an episode, of the kinds
and sizes that the loop writes; one episode in twelve has two searches of which one is thrown away.

    python tests/benchmarks/bench_evaluate.py            1 million events
    python tests/benchmarks/bench_evaluate.py --large    10 million as well
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import duckdb
from scored_log import EVENTS_AN_EPISODE, write_live_files

import hermes_lab
from hermes_lab import facts

REPEATS = 5
NEW_SHARE = 100  # one in so many
PER_TASK = """
    create or replace temp table per_task as
    select
        task_id, count(*) as events, sum(weight) as stands_for, min(ts) as began, max(ts) as ended,
        sum(input_tokens) as input_tokens, sum(cached_tokens) as cached_tokens, sum(output_tokens) as output_tokens,
        sum(latency_ms) as latency_ms, sum(cost_usd) as usd, count(*) filter (status = 'error') as errors
    from read_parquet([{paths}])
    group by task_id
"""


class Took(NamedTuple):
    """Seconds of the clock and of the processor."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        """Say both."""
        return f"{self.wall:.2f} s ({self.cpu:.2f} s of the processor)"


def took(work: Callable[[], object]) -> Took:
    """Return how long some work took."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Took(time.perf_counter() - wall, time.process_time() - cpu)


def least(tries: list[Took]) -> Took:
    """Return the least of several tries."""
    return Took(min(one.wall for one in tries), min(one.cpu for one in tries))


def beside(one: Took, floor: Took) -> str:
    """Say how often a floor goes into a time."""
    return f"{one.wall / floor.wall:.1f} x the floor ({one.cpu / floor.cpu:.1f} of the processor)"


def score_anew(folder: Path) -> None:
    """Score the lab as one that was never scored, opened anew."""
    lab = hermes_lab.open(folder)
    with facts.held(lab) as cache:
        facts.forget(cache)
    lab.evaluate()


def measure(folder: Path) -> None:
    """Measure the floor, scoring from nothing, and scoring with nothing new."""
    paths = ", ".join(f"'{path}'" for path in sorted((folder / "events").glob("date=*/*.parquet")))
    score_anew(folder)  # so that what Python imports is no part of it
    floors, wholes, agains = [], [], []
    with duckdb.connect() as bare:
        for _ in range(REPEATS):
            floors.append(took(lambda: bare.execute(PER_TASK.format(paths=paths))))
            wholes.append(took(lambda: score_anew(folder)))
            agains.append(took(hermes_lab.open(folder).evaluate))
        tasks = bare.execute("select count(*) from per_task").fetchall()[0][0]
    floor, whole, again = least(floors), least(wholes), least(agains)
    print(f"floor, a group-by of {tasks:,} tasks: {floor}")
    print(f"scored from nothing: {whole}, {beside(whole, floor)}")
    print(f"scored again, nothing new: {again}, {beside(again, floor)}", flush=True)


def measure_memory(folder: Path) -> None:
    """Score the lab from nothing, once, and say how much memory this process took."""
    score_anew(folder)
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB", flush=True)


def measure_new(folder: Path) -> None:
    """Score the lab when some of it is new."""
    lab = hermes_lab.open(folder)
    known = len(lab.log.sql("select distinct episode_id from events").fetchall())
    lab.evaluate()
    counts: list[int] = []
    for share in (NEW_SHARE * 10, NEW_SHARE):
        new = known // share
        write_live_files(folder / "events" / "live", new, first=known)
        known += new
        lab.log.seal()
        lab.log.snapshot()
        counting = took(lambda: counts.append(count(lab)))
        print(f"{counts[-1]:,} new episodes counted: {counting}; then scored: {took(lab.evaluate)}", flush=True)


def count(lab: hermes_lab.Lab) -> int:
    """Count what is new, and return how many episodes that were."""
    with facts.facts_of(lab) as found:
        return found.counted


def bench(events: int) -> None:
    """Write and seal a log, then measure in fresh processes."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as temporary:
        lab = hermes_lab.open(Path(temporary) / "lab")
        size = write_live_files(lab.path / "events" / "live", events // EVENTS_AN_EPISODE)
        lab.log.seal()
        print(f"{events:,} events of {size / events:.0f} bytes", flush=True)
        for part in ("measure", "measure_memory", "measure_new"):
            subprocess.run([sys.executable, __file__, part, str(lab.path)], check=True)


def main() -> None:
    """Run all of it, or, in a process of its own, a part."""
    parts = {"measure": measure, "measure_memory": measure_memory, "measure_new": measure_new}
    if len(sys.argv) == 3:
        parts[sys.argv[1]](Path(sys.argv[2]))
        return
    bench(1_000_000)
    if "--large" in sys.argv:
        bench(10_000_000)


if __name__ == "__main__":
    main()
