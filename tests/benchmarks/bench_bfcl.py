"""BFCL on the embedded model, through `suite import` and `run`: accuracy with 95% intervals, prompt tokens, seconds.

Full marks need the right tool and every argument within BFCL's allowed values. `all` offers every tool of the task in
listing order; `1` the one that routing likes best.

    python tests/benchmarks/bench_bfcl.py [--dtype float32] [--first 120] [--category simple_python multiple]
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from pathlib import Path

from bfcl_files import wheel

import hermes_lab
from hermes_lab.config import AgentConfig, changed
from hermes_lab.kinds import Status


def interval(right: int, of: int) -> tuple[float, float]:
    """Return Wilson's 95% interval of a share."""
    z = 1.96
    share = right / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return middle - half, middle + half


def main() -> None:
    """Print a row for each category and shortlist."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", nargs="+", default=["float32"])
    parser.add_argument("--first", type=int, default=120)
    parser.add_argument("--category", nargs="+", default=["simple_python", "multiple"])
    asked = parser.parse_args()
    print(
        f"{'category':<15}{'dtype':<10}{'tools':>6}{'full':>7}{'95% interval':>16}{'name':>7}{'tokens in':>11}{'s':>6}"
    )
    for dtype in asked.dtype:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lab"
            hermes_lab.open(path)
            toml = f'format = 1\n[models]\ncache = false\noptions.embedded = {{ dtype = "{dtype}" }}\n'
            (path / "lab.toml").write_text(toml)
            lab = hermes_lab.open(path)
            for category in asked.category:
                lab.import_suite(wheel(), [category], name=category)
                for shortlist in ("all", 1) if category == "multiple" else ("all",):
                    report(lab, category, dtype, shortlist, asked.first)


def report(lab: hermes_lab.Lab, category: str, dtype: str, shortlist: str | int, first: int) -> None:
    """Run the first tasks of a category, and print what came of it."""
    config = changed(AgentConfig(), **{"routing.shortlist": shortlist})
    began = time.perf_counter()
    run = lab.run(category, limit=first, config=config)
    seconds = time.perf_counter() - began
    of = len(run.outcomes)
    right = sum(outcome.grade.score == 1 for outcome in run.outcomes)
    named = sum(
        any(
            call.tool == outcome.job.task.grader.wanted[0].tool and call.status is Status.OK
            for call in outcome.ending.calls
        )
        for outcome in run.outcomes
    )
    query = "select sum(input_tokens) from events where run_id = ? and action = 'generation'"
    tokens = lab.log.sql(query, [run.run_id]).fetchall()[0][0] / of
    low, high = interval(right, of)
    print(
        f"{category:<15}{dtype:<10}{shortlist:>6}{right / of:>7.3f}{f'{low:.3f} to {high:.3f}':>16}"
        f"{named / of:>7.3f}{tokens:>11.0f}{seconds:>6.0f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
