"""Ten million events: how fast they are sealed, what a query costs beside bare DuckDB, and how much memory it takes.

The floor in the same run is DuckDB alone over the very same Parquet files (`read_parquet` and nothing else).

    python tests/benchmarks/bench_seal.py [EVENTS]
"""

from __future__ import annotations

import datetime as dt
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from hermes_lab import events, payload
from hermes_lab.events import Action, Event, Status
from hermes_lab.log import Log, LogSettings, new_id

LINES_A_FILE = 1_000_000
PER_TASK = """
    select task_id, count(*), sum(output_tokens), avg(latency_ms), count(*) filter (status = 'error')
    from {source} group by task_id order by 3 desc nulls last limit 20
"""


def write_live_files(folder: Path, count: int) -> int:
    """Write `count` events as live files of a dead writer, as fast as text can be pasted, and return their bytes."""
    start = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    folder.mkdir(parents=True)
    size = 0
    for first in range(0, count, LINES_A_FILE):
        path = folder / f"20261101T000000Z-1-{first:08x}.jsonl"
        with open(path, "wb") as file:
            for block in range(first, min(first + LINES_A_FILE, count), 1000):
                file.write(b"".join(line(i, start) for i in range(block, min(block + 1000, count))))
            size += file.tell()
    return size


def line(i: int, start: dt.datetime) -> bytes:
    """Return the line of the i-th event: every id, time and payload differs; a third of a second lies between two."""
    head, tail = TEMPLATES[i % 2]
    ts = (start + dt.timedelta(seconds=i / 10)).isoformat(timespec="microseconds")
    return (
        f'{{"event_id":"{new_id()}","ts":"{ts[:-6]}Z","episode_id":"episode-{i // 10}","task_id":"task-{i // 10}",'
        f'"step":{i % 10},{head}{i * 7919 % 1_000_003}{tail}"request_hash":"{i * 2654435761 % 2**64:032x}",'
        f'"latency_ms":{i % 977 / 10}' + (f',"output_tokens":{i % 211}}}\n' if i % 2 else "}\n")
    ).encode()


def _template(action: Action, name: str) -> tuple[str, str]:
    event = Event(
        event_id=new_id(),
        ts=dt.datetime.now(dt.UTC),
        run_id="run-7",
        task_type="orders",
        action=action,
        name=name,
        input=payload.dumps({"query": "order 424242 of Wang Fang", "limit": 3}),
        output=payload.dumps({"rows": [{"status": "shipped", "to": "12 Long Road"}]}),
        status=Status.OK,
        channel="notebook",
    )
    text = events.encode(event).decode()
    body = text[text.index('"run_id"') : -1] + ","
    head, tail = body.split("424242")
    return head, tail


TEMPLATES = (_template(Action.TOOL_CALLED, "orders.find"), _template(Action.GENERATION, "hermes-3"))


def peak_mib() -> float:
    """Return the peak of this process's memory in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(folder: Path) -> None:
    """Seal, query and verify the log in `folder`, in a process of its own so that the peak is its own."""
    log = Log(folder / "events", LogSettings())
    started = time.perf_counter()
    sealed = log.seal()
    seconds = time.perf_counter() - started
    print(f"sealed {sealed.rows:,} events in {seconds:.1f} s: {sealed.rows / seconds:,.0f} events/s", flush=True)
    print(f"peak memory while sealing {peak_mib():.0f} MiB")
    paths = [str(path) for path in sorted(log.layout.folder.glob("date=*/*.parquet"))]
    bare = duckdb.connect()
    listed = ", ".join(f"'{path}'" for path in paths)
    ours, floor = [], []
    for _ in range(5):
        started = time.perf_counter()
        expected = bare.execute(PER_TASK.format(source=f"read_parquet([{listed}])")).fetchall()
        floor.append(time.perf_counter() - started)
        started = time.perf_counter()
        found = log.sql(PER_TASK.format(source="events")).fetchall()
        ours.append(time.perf_counter() - started)
        if [row[2] for row in found] != [row[2] for row in expected]:
            raise SystemExit(f"the two answers differ: {found} {expected}")
    ratio = statistics.median(a / b for a, b in zip(ours, floor, strict=True))
    print(
        f"per-task group-by: {statistics.median(ours):.2f} s, bare DuckDB {statistics.median(floor):.2f} s, "
        f"ratio {ratio:.2f}"
    )
    started = time.perf_counter()
    day = log.sql("select count(*) from events where ts >= '2026-11-05' and ts < '2026-11-06'").fetchall()[0][0]
    one = log.sql("select count(*) from events where task_id = 'task-4242'").fetchall()[0][0]
    print(f"one day ({day:,} events) and one task ({one}): {time.perf_counter() - started:.3f} s together")
    started = time.perf_counter()
    print(f"verify: {'ok' if log.verify().ok else 'PROBLEMS'} in {time.perf_counter() - started:.1f} s")
    print(f"peak memory throughout {peak_mib():.0f} MiB")


def main() -> None:
    """Write the live files, then measure in a fresh process."""
    if len(sys.argv) > 2 and sys.argv[1] == "measure":
        measure(Path(sys.argv[2]))
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        size = write_live_files(Path(folder) / "events" / "live", count)
        print(f"{count:,} events of {size / count:.0f} bytes", flush=True)
        subprocess.run([sys.executable, __file__, "measure", folder], check=True)


if __name__ == "__main__":
    main()
