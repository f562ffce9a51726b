"""How fast a log is imported and how much memory it takes, for files of two sizes.

The floor in the same run is reading and decoding the same lines with the standard json.

    python tests/benchmarks/bench_import.py [MEGABYTES]
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import hermes_lab


def write_chats(path: Path, megabytes: int) -> int:
    """Write OpenAI chat lines until the file has that size, and return the number of lines."""
    lines = 0
    with open(path, "w") as file:
        while file.tell() < megabytes << 20:
            call = {"id": f"call_{lines}", "type": "function"}
            call["function"] = {"name": "orders.find", "arguments": json.dumps({"id": lines, "limit": 3})}
            messages = [
                {"role": "system", "content": "You are a helpful service desk. " * 20},
                {"role": "user", "content": f"Where is order {lines}? 第{lines}个订单在哪里？"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {
                    "role": "tool",
                    "tool_call_id": call["id"],
                    "content": json.dumps({"status": "shipped"}),
                },
                {"role": "assistant", "content": "It is on its way. " * 10},
            ]
            file.write(json.dumps({"messages": messages, "model": "hermes-3"}) + "\n")
            lines += 1
    return lines


def measure(path: Path) -> None:
    """Import `path` into a new lab and print time and peak memory, in a process of its own."""
    size = path.stat().st_size / 2**20
    started = time.perf_counter()
    with open(path) as file:
        for line in file:
            json.loads(line)
    floor = time.perf_counter() - started
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        started = time.perf_counter()
        summary = hermes_lab.open(folder + "/lab").import_log(path)
        seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{size:.0f} MiB: {summary.imported:,} events in {seconds:.1f} s, {summary.imported / seconds:,.0f} events/s, "
        f"{size / seconds:.1f} MiB/s, {seconds / floor:.0f} x json.loads; peak memory {peak:.0f} MiB",
        flush=True,
    )


def main() -> None:
    """Measure a file and one four times as large."""
    if len(sys.argv) > 2 and sys.argv[1] == "measure":
        measure(Path(sys.argv[2]))
        return
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        for size in (megabytes, 4 * megabytes):
            path = Path(folder) / "chats.jsonl"
            write_chats(path, size)
            subprocess.run([sys.executable, __file__, "measure", str(path)], check=True)


if __name__ == "__main__":
    main()
