"""How fast `parse` reads calls, beside a bare `json.loads` over the same calls, which nothing can beat.

Run as `python tests/benchmarks/bench_hermes_parse.py`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from hermes_lab.models.hermes import parse, render_call

CALLS = 20_000
ROUNDS = 5


def best(work: Callable[[], object]) -> float:
    """Return the seconds of the quickest of a few rounds."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def turns() -> dict[str, list[str]]:
    """Return model turns by kind; each turn holds one call."""
    short = [render_call("add", {"a": number, "b": 2}) for number in range(CALLS)]
    usual = [
        render_call("search", {"query": f"tea houses near {number}", "limit": 10, "filters": {"open": True}})
        for number in range(CALLS)
    ]
    return {
        "short calls": short,
        "usual calls": usual,
        "usual, after thought": [f"<think>\nI should search.\n</think>\nOne moment.\n{call}" for call in usual],
        "long calls (4 kB)": [render_call("write", {"text": f"line {number}\n" * 400}) for number in range(1000)],
        "tags in strings": [render_call("write", {"text": "see </tool_call> " * 4}) for _ in range(CALLS // 4)],
        "single quotes": [call.replace('"', "'").replace("true", "True") for call in usual[: CALLS // 4]],
    }


def main() -> None:
    """Print a row for each kind of turn, and one for a single turn of many calls."""
    print(f"{'kind':<24}{'MB/s':>8}{'calls/s':>10}{'us/call':>9}{'x json.loads':>14}")
    for kind, texts in turns().items():
        found = [parse(text) for text in texts]
        assert all(len(parsed.calls) == 1 for parsed in found), kind
        bare = [json.dumps({"name": p.calls[0].name, "arguments": p.calls[0].arguments}) for p in found]
        report(kind, texts, best(lambda texts=texts: [parse(text) for text in texts]), bare)
    texts = turns()["usual calls"]
    joined = "\n".join(texts)
    bare = [text.removeprefix("<tool_call>").removesuffix("</tool_call>") for text in texts]
    report("usual, all in one turn", texts, best(lambda: parse(joined)), bare)


def report(kind: str, texts: list[str], seconds: float, bare: list[str]) -> None:
    """Print one row; `bare` is the JSON alone, for the floor."""
    floor = best(lambda: [json.loads(text) for text in bare])
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    rate = len(texts) / seconds
    print(f"{kind:<24}{megabytes / seconds:>8.1f}{rate:>10.0f}{1e6 / rate:>9.1f}{seconds / floor:>14.1f}")


if __name__ == "__main__":
    main()
