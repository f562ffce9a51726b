"""Scoring a large log: the whole of it, again when nothing is new, and again when a hundredth is; and how much memory.

The floor in the same run is DuckDB alone: one group-by of the very same Parquet files by task, with the sums that any
report needs. The log is synthetic, ten events an episode, of the kinds and sizes that the loop writes.

    python tests/benchmarks/bench_evaluate.py [EVENTS]
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
from scored_log import EVENTS_AN_EPISODE, write_live_files

import hermes_lab

NEW_SHARE = 100  # one in so many
REPEATS = 3
PER_TASK = """
    create or replace temp table per_task as
    select
        task_id, count(*) as events, sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens,
        sum(latency_ms) as latency_ms, count(*) filter (status = 'error') as errors
    from read_parquet([{paths}])
    group by task_id
"""


def seconds(work: Callable[[], object]) -> float:
    """Return how long some work took."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def forget(lab: hermes_lab.Lab) -> None:
    """Delete what was counted before."""
    for path in (lab.path / "cache" / "facts").glob("*"):
        path.unlink()


def measure(folder: Path) -> None:
    """Score the lab in `folder`, in a process of its own so that the peak is its own."""
    lab = hermes_lab.open(folder)
    paths = ", ".join(f"'{path}'" for path in sorted((folder / "events").glob("date=*/*.parquet")))
    bare = duckdb.connect()
    ratios, floors, wholes = [], [], []
    for _ in range(REPEATS):
        floors.append(seconds(lambda: bare.execute(PER_TASK.format(paths=paths))))
        forget(lab)
        wholes.append(seconds(lab.evaluate))
        ratios.append(wholes[-1] / floors[-1])
    floor = statistics.median(floors)
    tasks = bare.execute("select count(*) from per_task").fetchall()[0][0]
    bare.close()
    print(f"floor: group-by of {tasks:,} tasks {floor:.2f} s")
    print(f"scored from nothing: {statistics.median(wholes):.2f} s, ratio {statistics.median(ratios):.1f}")
    again = [seconds(lab.evaluate) for _ in range(REPEATS)]
    print(f"again, nothing new: {statistics.median(again):.2f} s, ratio {statistics.median(again) / floor:.1f}")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


def measure_new(folder: Path) -> None:
    """Score the lab once more, now that some of it is new."""
    lab = hermes_lab.open(folder)
    started = time.perf_counter()
    found = lab.evaluate()
    print(f"again, {found.counted:,} new episodes: {time.perf_counter() - started:.2f} s")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


def main() -> None:
    """Write and seal the log, then measure in fresh processes."""
    if len(sys.argv) > 2:
        {"measure": measure, "measure_new": measure_new}[sys.argv[1]](Path(sys.argv[2]))
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    episodes = count // EVENTS_AN_EPISODE
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as temporary:
        lab = hermes_lab.open(Path(temporary) / "lab")
        size = write_live_files(lab.path / "events" / "live", episodes)
        lab.log.seal()
        print(f"{count:,} events of {size / count:.0f} bytes, {episodes:,} episodes", flush=True)
        subprocess.run([sys.executable, __file__, "measure", str(lab.path)], check=True)
        write_live_files(lab.path / "events" / "live", episodes // NEW_SHARE, first=episodes)
        lab.log.seal()
        subprocess.run([sys.executable, __file__, "measure_new", str(lab.path)], check=True)


if __name__ == "__main__":
    main()
