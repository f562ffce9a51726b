"""What starting costs: importing the package, and `hermes-lab --help`.

The floor in the same run is an empty Python process.

    python tests/benchmarks/bench_start.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 15


def seconds(command: list[str]) -> float:
    """Return how long a command takes, as a whole process."""
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    """Print the medians and the ratios to the empty process."""
    script = str(Path(sys.executable).with_name("hermes-lab"))
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import hermes_lab": [sys.executable, "-c", "import hermes_lab"],
        "import hermes_lab.lab": [sys.executable, "-c", "import hermes_lab.lab"],
        "hermes-lab --help": [script, "--help"],
    }
    found = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            found[name].append(seconds(command))
    floor = statistics.median(found["python -c pass"])
    for name, values in found.items():
        middle = statistics.median(values)
        print(f"{name:24} {middle * 1000:6.0f} ms  {middle / floor:5.1f} x an empty process")


if __name__ == "__main__":
    main()
