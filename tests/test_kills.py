"""Processes killed at random moments and at every single step: no acknowledged event is lost, doubled or made up."""

from __future__ import annotations

import datetime as dt
import itertools
import random
import shutil
import signal
import time
import zlib
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from durability import (
    SMALL,
    UNSEALED,
    WAIT_S,
    CrashPoint,
    Journal,
    Pipe,
    Process,
    append,
    check_after_crash,
    check_contents,
    make_event,
    run_child,
    stored_ids,
)

from hermes_lab.errors import BusyError, MissingError
from hermes_lab.log import Log, segments

# Random kills: ROUNDS of them in each of the logs below, 300 in all.

ROUNDS = 10
WRITER_LOGS, MAINTAINER_LOGS, PAIR_LOGS, PURGE_LOGS = 10, 8, 4, 4  # of a pair's ten rounds each kills two


def test_the_random_kills_are_300() -> None:
    assert ROUNDS * (WRITER_LOGS + MAINTAINER_LOGS + 2 * PAIR_LOGS + PURGE_LOGS) == 300


def write_for_ever(folder: Path, journal: Journal, started: Connection) -> None:
    """Append until killed, sealing in the background."""
    writer = Log(folder, SMALL).writer()
    started.send(True)
    for number in itertools.count():
        append(writer, journal, make_event(number))


def maintain_for_ever(folder: Path, started: Connection) -> None:
    """Seal and compact until killed."""
    log = Log(folder)
    started.send(True)
    while True:
        log.seal(timeout_s=WAIT_S)
        log.compact(timeout_s=WAIT_S)


def write_some(folder: Path, journal: Journal, count: int, task_id: str | None = None) -> None:
    """Append `count` events over several closed live files, one of them ended by a crash."""
    log = Log(folder, UNSEALED)
    for first in range(0, count, 4):
        with log.writer() as writer:
            for number in range(first, min(first + 4, count)):
                append(writer, journal, make_event(number, task_id=task_id))


def start(target: object, *args: object) -> Process:
    """Start a process and wait until it says that it is at work."""
    here, there = Pipe(duplex=False)
    process = Process(target=target, args=(*args, there))
    process.start()
    there.close()
    assert here.poll(WAIT_S), "the child did not start"
    here.recv()
    here.close()
    return process


def kill(*processes: Process) -> None:
    """Kill processes that must still be at work."""
    for process in processes:
        process.kill()
    for process in processes:
        process.join(WAIT_S)
        assert process.exitcode == -signal.SIGKILL, f"the child ended by itself with {process.exitcode}"


def pause(chance: random.Random, most_s: float) -> None:
    """Let a random time pass, short ones more often."""
    time.sleep(most_s * chance.random() ** 2)


@pytest.mark.parametrize("seed", range(WRITER_LOGS))
def test_a_writer_killed_at_random(tmp_path: Path, seed: int) -> None:
    chance, folder, journal = random.Random(seed), tmp_path / "events", Journal(tmp_path)
    for _ in range(ROUNDS):
        writer = start(write_for_ever, folder, journal)
        pause(chance, 0.15)
        kill(writer)
        check_after_crash(folder, journal)
    assert journal.acknowledged()


@pytest.mark.parametrize("seed", range(MAINTAINER_LOGS))
def test_sealing_and_compacting_killed_at_random_while_a_writer_goes_on(tmp_path: Path, seed: int) -> None:
    chance, folder, journal = random.Random(seed), tmp_path / "events", Journal(tmp_path)
    writer = start(write_for_ever, folder, journal)
    try:
        for _ in range(ROUNDS):
            maintainer = start(maintain_for_ever, folder)
            pause(chance, 0.3)
            kill(maintainer)
            before = journal.acknowledged()
            found = stored_ids(Log(folder))
            assert before <= found
            assert found <= journal.tried()
    finally:
        kill(writer)
    check_after_crash(folder, journal)


@pytest.mark.parametrize("seed", range(PAIR_LOGS))
def test_two_writers_killed_at_random(tmp_path: Path, seed: int) -> None:
    chance, folder, journal = random.Random(seed), tmp_path / "events", Journal(tmp_path)
    for _ in range(ROUNDS):
        first, second = (start(write_for_ever, folder, journal) for _ in range(2))
        pause(chance, 0.1)
        kill(first)
        pause(chance, 0.05)
        kill(second)
        check_after_crash(folder, journal)
    assert journal.acknowledged()


def purge_and_wait(folder: Path, task_id: str, started: Connection) -> None:
    """Purge a task, then wait to be killed."""
    started.send(True)
    Log(folder).purge("task_id", task_id, by="a test", reason="a test")
    signal.pause()


@pytest.mark.parametrize("seed", range(PURGE_LOGS))
def test_a_purge_killed_at_random(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(ROUNDS):
        folder, kept, going = (tmp_path / str(number) / name for name in ("events", "kept", "going"))
        write_some(folder, Journal(kept), 8)
        write_some(folder, Journal(going), 8, task_id="purged")
        purger = start(purge_and_wait, folder, "purged")
        pause(chance, 0.25)
        kill(purger)
        check_purged(folder, kept, going)


def check_purged(folder: Path, kept: Path, going: Path) -> None:
    """Check a log after a purge that was killed, then purge again: all of it is gone, and nothing else."""
    journal = Both(Journal(kept), Journal(going))
    may_be_gone = Journal(going).acknowledged()
    check_after_crash(folder, journal, may_be_gone=may_be_gone)
    log = Log(folder)
    try:
        log.purge("task_id", "purged", by="a test", reason="a test")
    except MissingError:
        assert not stored_ids(log) & may_be_gone
    assert stored_ids(Log(folder)) == Journal(kept).acknowledged()
    traces = [path for path in folder.rglob("*") if path.is_file() and _mentions(path, may_be_gone)]
    assert traces == [], "what was purged is still on the disk"
    assert Log(folder).verify().ok


def _mentions(path: Path, ids: set[str]) -> bool:
    """Whether a spilled payload, or a piece of one, holds any of the ids; other files are checked by their rows."""
    if ".gz" not in path.name:
        return False
    text = zlib.decompressobj(wbits=31).decompress(path.read_bytes()).decode(errors="replace")
    return any(event_id in text for event_id in ids)


class Both(Journal):
    """Two journals read as one."""

    def __init__(self, *journals: Journal) -> None:
        self._journals = journals

    def tried(self) -> set[str]:
        return set().union(*(journal.tried() for journal in self._journals))

    def acknowledged(self) -> set[str]:
        return set().union(*(journal.acknowledged() for journal in self._journals))


# Killed at every step: each call that changes the disk, one after the other, until the child comes through alive.

STRIDE = 3
FAULTS = ["kill", "power"]
every_step = pytest.mark.parametrize("first", range(1, STRIDE + 1))
every_fault = pytest.mark.parametrize("fault", FAULTS)


def crash_writing(folder: Path, journal: Journal, at: int, fault: str) -> None:
    """Append twelve events, which fills a live file and begins another; durability 0."""
    CrashPoint(folder, at, power=fault == "power")
    with Log(folder, UNSEALED).writer() as writer:
        for number in range(12):
            append(writer, journal, make_event(number))


def crash_group_commit(folder: Path, journal: Journal, at: int, fault: str) -> None:
    """Append and flush in groups of five; no commit comes by itself."""
    CrashPoint(folder, at, power=fault == "power")
    with Log(folder, UNSEALED).writer(durability_ms=1_000_000) as writer:
        for first in range(0, 15, 5):
            group = [make_event(number) for number in range(first, first + 5)]
            for event in group:
                journal.note_try(event)
                writer.append(event)
            writer.flush()
            for event in group:
                journal.note_acknowledged(event)


def crash_writing_and_sealing(folder: Path, journal: Journal, at: int, fault: str) -> None:
    """Append while full files are sealed in the background and at the end."""
    CrashPoint(folder, at, power=fault == "power")
    with Log(folder, SMALL).writer() as writer:
        for number in range(20):
            append(writer, journal, make_event(number))


def crash_sealing(folder: Path, journal: Journal, at: int, fault: str) -> None:
    """Seal what lies there."""
    CrashPoint(folder, at, power=fault == "power")
    Log(folder).seal()


def crash_compacting(folder: Path, journal: Journal, at: int, fault: str) -> None:
    """Compact what lies there."""
    CrashPoint(folder, at, power=fault == "power")
    Log(folder).compact()


def crash_deleting_retired(folder: Path, journal: Journal, at: int, fault: str) -> None:
    """Seal, deleting what an earlier compaction replaced."""
    segments.RETIRED_FOR = dt.timedelta(0)
    CrashPoint(folder, at, power=fault == "power")
    Log(folder).seal()


def crash_purging(folder: Path, journal: Journal, at: int, fault: str) -> None:
    """Purge a task."""
    CrashPoint(folder, at, power=fault == "power")
    Log(folder).purge("task_id", "purged", by="a test", reason="a test")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs to start from: `fresh` is not sealed, `segments` has small segments and live files, `retired` old files."""
    root = tmp_path_factory.mktemp("prepared")
    fresh, small, retired = (root / name for name in ("fresh", "segments", "retired"))
    write_some(fresh / "events", Journal(fresh), 12)
    _damage(fresh / "events")
    for _ in range(2):
        write_some(small / "events", Journal(small), 8)
        Log(small / "events").seal()
    shutil.copytree(small, retired)
    Log(retired / "events").compact()
    for place in (small, retired):
        write_some(place / "events", Journal(place), 4)
    return root


def _damage(folder: Path) -> None:
    """End one closed live file in the middle of a line and put a line that is no event into another."""
    torn, bad, *_ = sorted((folder / "live").glob("*.jsonl"))
    with torn.open("ab") as file:
        file.write(b'{"event_id":"01')
    with bad.open("ab") as file:
        file.write(b'{"event_id":"not one"}\n')


@every_fault
@every_step
@pytest.mark.parametrize("work", [crash_writing, crash_group_commit, crash_writing_and_sealing])
def test_writing_cut_at_every_step(tmp_path: Path, work: object, first: int, fault: str) -> None:
    for at in itertools.count(first, STRIDE):
        place = tmp_path / str(at)
        journal = Journal(place)
        came_through = run_child(work, place / "events", journal, at, fault)
        check_after_crash(place / "events", journal)
        if came_through:
            break
    assert at > STRIDE


@every_fault
@every_step
@pytest.mark.parametrize(
    ("work", "start_from"),
    [(crash_sealing, "segments"), (crash_compacting, "segments"), (crash_deleting_retired, "retired")],
)
def test_maintenance_cut_at_every_step(
    tmp_path: Path, prepared: Path, work: object, start_from: str, first: int, fault: str
) -> None:
    for at in itertools.count(first, STRIDE):
        place = tmp_path / str(at)
        shutil.copytree(prepared / start_from, place)
        journal = Journal(place)
        came_through = run_child(work, place / "events", journal, at, fault)
        assert check_after_crash(place / "events", journal) == journal.acknowledged()
        if came_through:
            break
    assert at > STRIDE


@every_fault
@every_step
def test_sealing_a_damaged_log_cut_at_every_step(tmp_path: Path, prepared: Path, first: int, fault: str) -> None:
    for at in itertools.count(first, STRIDE):
        place = tmp_path / str(at)
        shutil.copytree(prepared / "fresh", place)
        journal = Journal(place)
        came_through = run_child(crash_sealing, place / "events", journal, at, fault)
        assert check_contents(place / "events", journal) == journal.acknowledged()
        log = Log(place / "events")
        log.seal()
        assert check_after_crash(place / "events", journal) == journal.acknowledged()
        status = log.status()
        assert (status["rejected_lines"], status["torn_bytes"]) == (1, len('{"event_id":"01'))
        assert len(list((place / "events" / "rejected").glob("*.jsonl"))) == 1
        if came_through:
            break
    assert at > STRIDE


@every_fault
@every_step
def test_a_purge_cut_at_every_step(tmp_path: Path, first: int, fault: str) -> None:
    before = tmp_path / "before"
    write_some(before / "events", Journal(before / "kept"), 8)
    write_some(before / "events", Journal(before / "going"), 4, task_id="purged")
    Log(before / "events").seal()
    write_some(before / "events", Journal(before / "going"), 4, task_id="purged")
    for at in itertools.count(first, STRIDE):
        place = tmp_path / str(at)
        shutil.copytree(before, place)
        came_through = run_child(crash_purging, place / "events", Journal(place), at, fault)
        check_purged(place / "events", place / "kept", place / "going")
        if came_through:
            break
    assert at > STRIDE


@pytest.mark.parametrize("seed", range(4))
def test_a_recovery_that_is_cut_itself(tmp_path: Path, prepared: Path, seed: int) -> None:
    """Cut a step, then the recovery from it, then that one's recovery, each at a random step."""
    chance = random.Random(seed)
    for number in range(10):
        place = tmp_path / str(number)
        shutil.copytree(prepared / chance.choice(["segments", "retired"]), place)
        journal = Journal(place)
        for work in (chance.choice([crash_sealing, crash_compacting]), crash_sealing, crash_sealing):
            run_child(work, place / "events", journal, chance.randint(1, 25), chance.choice(FAULTS))
            assert check_contents(place / "events", journal) == journal.acknowledged()
        check_after_crash(place / "events", journal)


def test_a_purge_waits_for_no_dead_writer(tmp_path: Path) -> None:
    folder, journal = tmp_path / "events", Journal(tmp_path)
    writer = start(write_for_ever, folder, journal)
    while not journal.acknowledged():
        assert writer.is_alive()
    with pytest.raises(BusyError):
        Log(folder).purge("task_id", "task-0", by="a test", reason="a test")
    kill(writer)
    Log(folder).purge("task_id", "task-0", by="a test", reason="a test")
    assert Log(folder).verify().ok
