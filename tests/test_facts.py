"""What was counted of episodes: going on with it is as good as from scratch, whatever befell the log or the cache."""

from __future__ import annotations

import datetime as dt
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import Cli
from scored_episodes import START, Call, Episode, Refused, write
from test_cli_errors import ordinary_user

from hermes_lab import counting, evaluator, facts, payload, sql_files
from hermes_lab.errors import CorruptLogError
from hermes_lab.events import Action, ErrorKind, Event, Status
from hermes_lab.lab import Lab, open_lab
from hermes_lab.log.writer import new_id

Rows = dict[str, dict[str, Any]]


def kept(lab: Lab) -> Rows:
    """Return what the cache holds for a lab now, by episode."""
    with facts.facts_of(lab) as found, duckdb.connect() as connection:
        connection.execute("set TimeZone = 'UTC'")
        return by_episode(connection.sql(found.rows).to_arrow_table().to_pylist())


def from_scratch(lab: Lab) -> Rows:
    """Return the same, counted from the whole log by a lab that knows nothing."""
    batches = counting.count(open_lab(lab.path).log.snapshot(), "events")
    return by_episode([row for batch in batches for row in batch.to_pylist()])


def by_episode(rows: list[dict[str, Any]]) -> Rows:
    assert len({row["episode_id"] for row in rows}) == len(rows)
    return {row["episode_id"]: row for row in rows}


def counted(lab: Lab) -> int:
    """Return how many episodes had to be counted for a look at the lab."""
    with facts.facts_of(lab) as found:
        return found.counted


def cache(lab: Lab) -> Path:
    return lab.path / "cache" / "facts"


def sealed(lab: Lab, *episodes: Episode) -> None:
    write(lab, *episodes)
    lab.log.seal()


# -- only what is new is counted, and it comes to the same ------------------------------------------------------------


def test_only_what_is_new_is_counted(lab: Lab) -> None:
    sealed(lab, *(Episode(f"e{n}", minute=n) for n in range(20)))
    assert counted(lab) == 20
    assert counted(lab) == 0
    assert counted(open_lab(lab.path)) == 0
    sealed(lab, Episode("new", minute=60))
    assert counted(lab) == 1
    assert counted(lab) == 0
    lab.log.compact()
    assert counted(lab) == 0
    assert kept(lab) == from_scratch(lab)


def late(draw: random.Random, number: int) -> Event:
    """Return an event that comes to an episode long after, or says that it happened long before."""
    columns: dict[str, Any] = draw.choice(
        [
            {"action": Action.FEEDBACK, "name": "like"},
            {"action": Action.GRADED, "name": "person", "output": payload.dumps({"score": 0.25})},
            {"action": Action.GRADED, "name": "state", "output": payload.dumps({"score": None})},
            {"action": Action.TOOL_CALLED, "name": "find", "status": Status.OK, "request_hash": "h", "output": "{}"},
            {"action": Action.TOOL_CHECKED, "name": "find", "status": Status.DENIED},
            {"action": Action.GENERATION, "name": "m", "status": Status.OK, "output_tokens": 7, "latency_ms": 5.0},
            {"action": Action.TASK_ENDED, "name": "completed", "status": Status.OK},
        ]
    )
    ts = START + dt.timedelta(minutes=draw.choice([-5000, 0, 3000]), seconds=number)
    return Event(event_id=new_id(), ts=ts, episode_id=f"e{draw.randrange(number + 1)}", step=90 + number, **columns)


def some_doings(draw: random.Random) -> tuple[Call | Refused, ...]:
    doings: list[Call | Refused] = [
        Call(given="A"),
        Call(given="B"),
        Call("search", "A", {"hits": []}),
        Call("search", "B", {"hits": ["ostrich parade"]}),
        Call("search", "C", {"hits": ["It is shipped"]}),
        Call(status=Status.ERROR, kind=ErrorKind.NOT_FOUND),
        Refused(),
    ]
    return tuple(draw.choices(doings, k=draw.randrange(5)))


@pytest.mark.parametrize("seed", range(12))
def test_going_on_is_the_same_as_from_scratch(lab: Lab, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(facts, "_MERGE_ROWS", 3)  # so that small logs are merged, too
    draw = random.Random(seed)
    made = 0

    def append() -> None:
        nonlocal made
        count = draw.randrange(1, 5)
        minute = draw.choice([0, 1500, 4000])
        write(lab, *(Episode(f"e{made + n}", doings=some_doings(draw), minute=minute + n) for n in range(count)))
        made += count

    def purge() -> None:
        remaining = lab.log.sql("select distinct task_id from events where task_id is not null").fetchall()
        if remaining:
            lab.purge("task_id", draw.choice(sorted(remaining))[0], by="Ada", reason="asked")

    def look() -> None:
        assert kept(open_lab(lab.path) if draw.random() < 0.5 else lab) == from_scratch(lab)

    steps: list[Callable[[], object]] = [
        append,
        append,
        lambda: write(lab, more=[late(draw, made)]),
        lab.log.seal,
        lab.log.compact,
        look,
        look,
    ]
    append()
    for _ in range(14):
        draw.choice(steps if draw.random() < 0.95 else [purge])()
    look()


def test_a_late_word_on_an_old_episode_is_counted_with_all_of_its_events(lab: Lab) -> None:
    sealed(lab, *(Episode(f"e{n}", channel="terminal", minute=n * 1440) for n in range(5)))
    counted(lab)
    liked = Event(
        event_id=new_id(), ts=START + dt.timedelta(days=9), episode_id="e1", action=Action.FEEDBACK, name="like"
    )
    write(lab, more=[liked])
    assert counted(lab) == 1
    found = kept(lab)["e1"]
    assert (found["feedback"], found["calls"], found["tokens"]) == ("like", 1, 100)


# -- the log changes under it -----------------------------------------------------------------------------------------


def test_another_log_in_its_place_is_counted_anew(lab: Lab, tmp_path: Path) -> None:
    sealed(lab, Episode("a"))
    copy = tmp_path / "copy"
    shutil.copytree(lab.path / "events", copy)
    sealed(lab, Episode("b"))
    counted(lab)
    shutil.rmtree(lab.path / "events")
    shutil.copytree(copy, lab.path / "events")
    again = open_lab(lab.path)
    assert set(kept(again)) == {"a"}
    sealed(again, Episode("c"))
    sealed(again, Episode("d"))
    assert set(kept(again)) == {"a", "c", "d"}


def test_what_was_purged_is_nowhere_in_the_lab(lab: Lab) -> None:
    sealed(lab, Episode("e-wally", task="t-wally", doings=(Call("tool-wally", status=Status.ERROR),)), Episode("e-ann"))
    evaluator.evaluate(lab)
    write(lab, Episode("later", task="t-wally"))
    evaluator.evaluate(lab)
    assert places(cache(lab), "wally")
    lab.purge("task_id", "t-wally", by="Ada", reason="asked to be forgotten")
    assert places(lab.path, "wally") == []
    assert list(evaluator.episodes(lab).episode_id) == ["e-ann"]
    assert places(lab.path, "wally") == []


def places(folder: Path, text: str) -> list[str]:
    """Return the files below a folder that hold a text, Parquet read."""
    found = []
    for path in folder.rglob("*"):
        if path.suffix == ".parquet":
            with duckdb.connect() as connection:
                content = repr(connection.execute("select * from read_parquet(?)", [str(path)]).fetchall())
        elif path.is_file():
            content = path.read_bytes().decode(errors="replace")
        else:
            continue
        found += [path.name] if text in content else []
    return found


# -- the cache is damaged, or of another version ----------------------------------------------------------------------


def damages() -> dict[str, Callable[[Path], object]]:
    def whole(folder: Path) -> Path:
        return next(iter(folder.glob("whole-*.parquet")))

    def flip_a_byte(folder: Path) -> None:
        data = bytearray(whole(folder).read_bytes())
        data[len(data) // 2] ^= 0xFF
        whole(folder).write_bytes(data)

    def other_kind(folder: Path) -> None:
        state = json.loads((folder / "state.json").read_text())
        (folder / "state.json").write_text(json.dumps({**state, "seen": 3}))

    return {
        "state is no JSON": lambda folder: (folder / "state.json").write_text('{"made_by": "'),
        "state is empty": lambda folder: (folder / "state.json").write_bytes(b""),
        "state is something else": other_kind,
        "state is gone": lambda folder: (folder / "state.json").unlink(),
        "counts are cut short": lambda folder: whole(folder).write_bytes(whole(folder).read_bytes()[:-40]),
        "counts are gone": lambda folder: whole(folder).unlink(),
        "counts have another byte": flip_a_byte,
        "all of it is gone": shutil.rmtree,
    }


@pytest.mark.parametrize("damage", damages())
def test_a_damaged_cache_is_counted_anew(lab: Lab, damage: str) -> None:
    sealed(lab, Episode("a"), Episode("b", grades=(0.0,)))
    before = kept(lab)
    damages()[damage](cache(lab))
    assert counted(lab) == 2
    assert kept(lab) == before


def test_counts_of_other_queries_are_not_gone_on_with(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    sealed(lab, Episode("a"), Episode("b"))
    counted(lab)
    sql = sql_files.read_sql

    def changed(package: str, name: str) -> str:
        return sql(package, name).replace("count(*) filter (leaked) as secrets", "7 as secrets")

    monkeypatch.setattr("hermes_lab.counting.read_sql", changed)
    assert counted(lab) == 2
    assert {row["secrets"] for row in kept(lab).values()} == {7}
    monkeypatch.undo()
    assert {row["secrets"] for row in kept(lab).values()} == {0}


def test_what_a_killed_look_left_is_cleared(lab: Lab) -> None:
    sealed(lab, Episode("a"))
    counted(lab)
    (cache(lab) / ".whole-1-dead.tmp").write_bytes(b"half")
    (cache(lab) / "whole-1-dead.parquet").write_bytes(b"nobody points here")
    sealed(lab, Episode("b"))
    assert counted(lab) == 1
    assert sorted(path.suffix for path in cache(lab).iterdir() if path.name != ".lock") == [
        ".json",
        ".parquet",
        ".parquet",
    ]


# -- several at once, and a lab that cannot be written ----------------------------------------------------------------

LOOK = """
import sys, hermes_lab
lab = hermes_lab.open(sys.argv[1])
for _ in range(6):
    print(len(lab.evaluate().versions), flush=True)
"""


def test_processes_that_look_at_once_see_the_same_while_it_grows(lab: Lab) -> None:
    sealed(lab, *(Episode(f"e{n}", minute=n) for n in range(30)))
    looking = [
        subprocess.Popen([sys.executable, "-c", LOOK, str(lab.path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    for number in range(12):
        sealed(lab, replace(Episode(f"new{number}"), minute=100 + number))
    for process in looking:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err.decode()
        assert out.decode().split() == ["1"] * 6
    assert kept(lab) == from_scratch(lab)
    assert len(kept(lab)) == 42


def test_a_lab_that_cannot_be_written_is_scored_all_the_same(lab: Lab, cli: Cli) -> None:
    sealed(lab, Episode("a"))
    expected = json.loads(cli("evaluate", "--json").stdout)
    write(lab, Episode("b", grades=(0.0,)))
    everything = [lab.path, *lab.path.rglob("*")]
    before = {path: path.stat().st_mtime_ns for path in everything}
    for path in everything:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        asked = cli("evaluate", "--json", prefix=ordinary_user())
    finally:
        for path in everything:
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert asked.returncode == 0, asked.stderr
    told = json.loads(asked.stdout)
    assert (expected["versions"][0]["completion"], told["versions"][0]["completion"]) == (1.0, 0.5)
    assert {path: path.stat().st_mtime_ns for path in [lab.path, *lab.path.rglob("*")]} == before


def test_a_damaged_segment_is_said_and_never_becomes_a_score(lab: Lab) -> None:
    sealed(lab, *(Episode(f"e{n}") for n in range(3)))
    before = from_scratch(lab)
    (segment,) = (lab.path / "events").glob("date=*/*.parquet")
    sound = segment.read_bytes()
    told = []
    for place in range(4, len(sound) - 8, len(sound) // 40):
        damaged = bytearray(sound)
        damaged[place : place + 12] = bytes(byte ^ 0xFF for byte in damaged[place : place + 12])
        segment.write_bytes(damaged)
        shutil.rmtree(cache(lab), ignore_errors=True)
        try:
            assert kept(open_lab(lab.path)) == before  # it was in a column that scores need not
        except CorruptLogError as error:
            told.append(str(error))
    assert len(told) > 10
    assert all("log verify" in text for text in told)
