"""How quick replay is on one core: a desk run under its own and another configuration, and rules over many calls.

The process is held to one core. The run is a real one of `desk` with a model that answers at once. For the rules in
bulk its calls are written again under other ids until there are CALLS of them; they are read from the sealed log and
judged, once as they are (requests and arguments recur) and once with every request and argument made different, from a
table. The floor is DuckDB handing over the same columns of the same calls, judging nothing.

    python tests/benchmarks/bench_replay.py [EPISODES] [CALLS]
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from replay_lab import desk_lab, refuse_models

import hermes_lab
from hermes_lab.config import AgentConfig, Routing, changed
from hermes_lab.log import Log, new_id
from hermes_lab.permissions import PermissionRule
from hermes_lab.replay import bulk, replay
from hermes_lab.sql_files import read_sql
from hermes_lab.suites import desk

DESK = {name: tool.spec for name, tool in desk.suite().toolbox().items()}
LISTED = json.dumps(list(DESK))
ONE_TOOL = [PermissionRule(decision="deny", name="orders", tool="get_*", argument="order_id", pattern="SO-1[0-4]")]
EVERY_TOOL = [PermissionRule(decision="deny", name="all", tool="*", pattern="2026-12-0[2-9]")]


def main(episodes: int = 360, calls: int = 300_000) -> None:
    """Print the figures."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory() as folder:
        lab = desk_lab(Path(folder) / "run", patched, limit=episodes, split="all")
        refuse_models(patched)
        one_by_one(lab)
        big = hermes_lab.open(Path(folder) / "big")
        copies(lab.log, big.log, calls)
        in_bulk(big)


def one_by_one(lab: hermes_lab.Lab) -> None:
    """Print what driving the loop from the log takes."""
    floor = timed(lambda: [list(lab.log.events())])[1]
    own, took = timed(lambda: replay(lab, where="action = 'task_started'", record=False))
    print(f"{len(own.episodes)} episodes, {own.effects:,} effects; reading every event of them takes {floor:.2f} s")
    print(f"own configuration: {own.reproduced} reproduced, {len(own.mismatches)} mismatches, no model opened")
    print(f"    {own.effects / took:,.0f} effects/s ({took:.2f} s, {took / floor:.1f} times reading alone)")
    for name, values in {
        "shortlist of 1": {"routing.shortlist": 1},
        "other role": {"system": {"role": "Be brief."}},
    }.items():
        config = changed(AgentConfig(), **values)
        other, took = timed(
            lambda config=config: replay(lab, where="action = 'task_started'", config=config, record=False)
        )
        print(f"{name}: {other}".replace("\n", "; "))
        print(f"    {other.effects / took:,.0f} recorded effects/s ({took:.2f} s)")


def in_bulk(lab: hermes_lab.Lab) -> None:
    """Print what rules over many calls take, beside a floor."""
    routing = Routing(shortlist=1)
    plain = read_sql("hermes_lab.replay", "calls").format(where="true")
    walked = read_sql("hermes_lab.replay", "routed_calls").format(where="true", refused="false")
    for name, judge, query in (
        ("routing", lambda source: bulk.routing(source, routing, DESK), walked),
        ("permission of one kind of tool", lambda source: bulk.permissions(source, ONE_TOOL, specs=DESK), plain),
        ("permission of every tool", lambda source: bulk.permissions(source, EVERY_TOOL, specs=DESK), plain),
        ("check of arguments", lambda source: bulk.checks(source, DESK), plain),
    ):
        table, floor = timed(lambda query=query: lab.log.sql(query).to_arrow_table())
        found, took = timed(lambda judge=judge: judge(lab))
        print(f"{name}, from the log: {found.calls / took:,.0f} calls/s")
        print(f"    {found}")
        handed = f"{table.num_rows / floor:,.0f} rows/s ({floor:.2f} s)"
        print(f"    DuckDB handing over the same {table.num_rows:,} rows: {handed}")
        different = all_different(table.slice(0, 200_000))
        found, took = timed(lambda judge=judge, different=different: judge(different))
        print(f"    every input different, from a table: {found.calls / took:,.0f} calls/s ({found.judged:,} judged)")


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """Return what `run` gives, and the seconds of processor time that it takes, on the one core."""
    began = time.process_time()
    result = run()
    return result, time.process_time() - began


def copies(source: Log, target: Log, calls: int) -> None:
    """Write the episodes of `source` to `target` under other ids until it holds so many calls, and seal them."""
    kept = ("task_started", "tool_called", "code_executed", "retrieval", "tool_checked")
    events = [event for event in source.events() if event.action in kept]
    each = sum(event.action not in ("task_started", "tool_checked") for event in events)
    with target.writer(durability_ms=1000) as writer:
        for turn in range(-(-calls // each)):
            for event in events:
                ids = {"event_id": new_id(), "episode_id": f"{event.episode_id}-{turn}", "run_id": f"run-{turn}"}
                writer.append(msgspec.structs.replace(event, **ids))
    target.seal()


def all_different(table: pa.Table) -> pa.Table:
    """Return calls each of which, or each episode of which, has another request or arguments; all stay valid."""
    if "request" in table.column_names:
        asked = zip(table["request"].to_pylist(), table["episode_id"].to_pylist(), strict=True)
        asked_apart = replaced(table, "request", [f"{request} {episode[-14:]}" for request, episode in asked])
        return replaced(asked_apart, "tools", [LISTED] * table.num_rows)
    texts = enumerate(table["arguments"].to_pylist())
    # A blank more or less in the JSON makes another text, and so another input, of the same arguments.
    return replaced(table, "arguments", [text[0] + blanks(number) + text[1:] for number, text in texts])


def blanks(number: int) -> str:
    """Return white space that spells a number, so that it is another one for each."""
    return format(number, "b").translate({48: " ", 49: "\t"})


def replaced(table: pa.Table, name: str, values: list[str]) -> pa.Table:
    """Return a table with other values in a column."""
    return table.set_column(table.column_names.index(name), name, pa.array(values, pa.string()))


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
