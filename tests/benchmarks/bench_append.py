"""How many events a second one process can append, durable within 50 ms, secrets redacted.

Peers in the same run: plain JSON lines (`json.dumps`, and msgspec's faster encoder) with the same group commit - a
buffer that a thread writes and fsyncs within the same 50 ms - but no schema, no checks, no redaction, no sealing.

    python tests/benchmarks/bench_append.py [EVENTS]
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from hermes_lab.events import Action, Status
from hermes_lab.log import Log, new_id

ROUNDS = 5


def columns(i: int) -> dict[str, Any]:
    """Return the columns of one event of about 500 bytes, as an agent's tool call has them."""
    return {
        "run_id": "run-7",
        "episode_id": f"episode-{i // 10}",
        "task_id": f"task-{i // 10}",
        "task_type": "orders",
        "step": i % 10,
        "name": "orders.find",
        "input": {"query": f"order {i} of Wang Fang", "limit": 3},
        "output": {"rows": [{"id": i, "status": "shipped", "to": "12 Long Road"}]},
        "status": Status.OK,
        "latency_ms": 12.25,
        "channel": "notebook",
        "request_hash": f"{i:032x}",
    }


def append_events(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Append to an event log, whole path: ids, times, payloads to JSON, checks, redaction, group commit."""
    log = Log(folder / "events")
    with log.writer(durability_ms=50) as writer:
        for row in rows:
            writer.record(Action.TOOL_CALLED, **row)
        writer.flush()


def append_plain(encode: Callable[[Any], bytes]) -> Callable[[Path, list[dict[str, Any]]], None]:
    """Return an appender of plain JSON lines with the same group commit."""

    def append(folder: Path, rows: list[dict[str, Any]]) -> None:
        buffer: list[bytes] = []
        lock = threading.Lock()
        done = threading.Event()
        with open(folder / "plain.jsonl", "wb") as file:

            def commit() -> None:
                with lock:
                    lines = buffer[:]
                    buffer.clear()
                if lines:
                    file.write(b"\n".join(lines) + b"\n")
                    file.flush()
                    os.fsync(file.fileno())

            def commit_in_time() -> None:
                while not done.wait(0.025):
                    commit()

            thread = threading.Thread(target=commit_in_time)
            thread.start()
            for row in rows:
                line = encode({"event_id": new_id(), "ts": time.time(), "action": "tool_called", **row})
                with lock:
                    buffer.append(line)
            done.set()
            thread.join()
            commit()

    return append


def rates(rows: list[dict[str, Any]]) -> Iterator[tuple[str, float]]:
    """Run each appender once and yield its events a second."""
    appenders = {
        "hermes-lab": append_events,
        "json lines": append_plain(lambda row: json.dumps(row).encode()),
        "msgspec lines": append_plain(msgspec.json.encode),
    }
    for name, append in appenders.items():
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
            started = time.perf_counter()
            append(Path(folder), rows)
            yield name, len(rows) / (time.perf_counter() - started)


def main() -> None:
    """Print the median rates and the ratios to the peers, pair by pair."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    rows = [columns(i) for i in range(count)]
    found: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, rate in rates(rows):
            found.setdefault(name, []).append(rate)
    with tempfile.TemporaryDirectory() as folder:
        append_events(Path(folder), rows[:1000])
        live = next(Path(folder).glob("events/live/*.jsonl"))
        size = live.stat().st_size / 1000
    print(f"{count:,} events of {size:.0f} bytes, {ROUNDS} rounds, durable within 50 ms")
    for name, values in found.items():
        print(f"{name:14} {statistics.median(values):10,.0f} events/s  (from {min(values):,.0f} to {max(values):,.0f})")
    for peer in ("json lines", "msgspec lines"):
        ratios = [ours / theirs for ours, theirs in zip(found["hermes-lab"], found[peer], strict=True)]
        print(f"hermes-lab / {peer}: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
