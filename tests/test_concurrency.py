"""Many processes and threads at once: every query sees each event acknowledged before it began, exactly once."""

from __future__ import annotations

import fcntl
import itertools
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.sharedctypes import SynchronizedArray
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pytest
from durability import (
    SMALL,
    UNSEALED,
    WAIT_S,
    Journal,
    Process,
    ProcessEvent,
    append,
    intercept,
    leftovers,
    make_event,
    run_child,
    shared_counts,
    stored_ids,
)

from hermes_lab.errors import WriteError
from hermes_lab.log import Log, new_id

PER_WRITER = 300
GROUP = 7


def write_and_count(folder: Path, number: int, durability_ms: int, counts: SynchronizedArray) -> None:
    """Append events, and raise the writer's count after each acknowledgement and never before."""
    with Log(folder, SMALL).writer(durability_ms=durability_ms) as writer:
        for done in range(1, PER_WRITER + 1):
            writer.append(make_event(done, task_id=f"writer-{number}"))
            if durability_ms and done % GROUP and done < PER_WRITER:
                continue
            writer.flush()
            counts[number] = done


def maintain_until(folder: Path, over: Event) -> None:
    """Seal and compact without a pause."""
    log = Log(folder)
    while not over.is_set():
        log.seal(timeout_s=WAIT_S)
        log.compact(timeout_s=WAIT_S)


def query_until(folder: Path, over: Event, counts: SynchronizedArray, keep: bool) -> None:
    """Query without a pause, with one `Log` all the time or with a new one for each query."""
    log = Log(folder, SMALL)
    looks = 0
    last = False
    while not last:
        last = over.is_set()  # one more query after the end
        if not keep:
            log = Log(folder, SMALL)
        acknowledged = list(counts)
        rows = log.sql(
            "select task_id, count(*), count(distinct event_id), max(step) from events group by 1"
        ).fetchall()
        seen = {task_id: rest for task_id, *rest in rows}
        for number, least in enumerate(acknowledged):
            count, distinct, newest = seen.get(f"writer-{number}", (0, 0, 0))
            assert count == distinct, "an event was seen twice"
            assert count == newest, "there is a gap in what a writer wrote"
            assert count >= least, f"{count} of {least} acknowledged events were seen"
        looks += 1
    assert looks > 1


@pytest.mark.parametrize("run", range(2))
def test_queries_while_others_write_seal_and_compact(tmp_path: Path, run: int) -> None:
    folder = tmp_path / "events"
    durabilities = [0, 10, 0]
    counts, over = shared_counts("q", len(durabilities)), ProcessEvent()
    writers = [
        Process(target=write_and_count, args=(folder, number, durability, counts))
        for number, durability in enumerate(durabilities)
    ]
    others = [Process(target=maintain_until, args=(folder, over)) for _ in range(2)]
    others += [Process(target=query_until, args=(folder, over, counts, keep)) for keep in (True, False)]
    for process in [*writers, *others]:
        process.start()
    for process in writers:
        process.join(WAIT_S)
    over.set()
    for process in others:
        process.join(WAIT_S)
    assert [process.exitcode for process in [*writers, *others]] == [0] * 7
    log = Log(folder)
    log.seal()
    assert len(stored_ids(log)) == PER_WRITER * len(durabilities)
    assert log.verify().ok
    assert leftovers(folder) == []


@pytest.mark.parametrize("durability_ms", [0, 10])
def test_threads_share_a_writer(tmp_path: Path, durability_ms: int) -> None:
    threads, each = 8, 60
    with Log(tmp_path, UNSEALED).writer(durability_ms=durability_ms) as writer:

        def work(thread: int) -> list[str]:
            mine = [make_event(number, task_id=f"thread-{thread}") for number in range(each)]
            for event in mine:
                writer.append(event)
            return [event.event_id for event in mine]

        with ThreadPoolExecutor(threads) as pool:
            written = list(pool.map(work, range(threads)))
    lines = [line for path in sorted(tmp_path.glob("live/*.jsonl")) for line in path.read_text().splitlines()]
    assert len(lines) == threads * each
    assert stored_ids(Log(tmp_path)) == set(itertools.chain.from_iterable(written))
    for path in tmp_path.glob("live/*.jsonl"):
        for ids in written:
            places = [text.find(event_id) for text in [path.read_text()] for event_id in ids]
            found = [place for place in places if place >= 0]
            assert found == sorted(found), "the events of a thread changed places"


def test_threads_that_wait_together_share_a_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = 8
    flushes: list[int] = []
    waiting = threading.Barrier(threads)
    real = os.fsync

    def slow_fsync(fd: int) -> None:
        flushes.append(fd)
        threading.Event().wait(0.05)  # a disk that takes its time
        real(fd)

    with Log(tmp_path, UNSEALED).writer() as writer:
        writer.append(make_event(0))
        monkeypatch.setattr(os, "fsync", slow_fsync)

        def work(thread: int) -> None:
            waiting.wait(WAIT_S)
            writer.append(make_event(0))

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(threads)))
        assert len(flushes) < threads
        monkeypatch.undo()
    assert len(stored_ids(Log(tmp_path))) == threads + 1


def test_threads_that_store_the_same_long_payload(tmp_path: Path) -> None:
    threads = 8
    with Log(tmp_path, UNSEALED).writer() as writer:
        for number in range(20):
            waiting = threading.Barrier(threads)

            def work(
                thread: int, text: str = f'"{number} ' + "x" * 9_000 + '"', waiting: threading.Barrier = waiting
            ) -> None:
                waiting.wait(WAIT_S)
                writer.record(make_event(0).action, output=text)

            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(work, range(threads)))
    assert Log(tmp_path).sql("select count(*), min(length(output)) > 9000 from events").fetchall() == [(160, True)]


def use_after_fork(folder: Path, journal: Journal, use: str) -> None:
    """Fork with one event waiting; the child uses the parent's writer and must be refused, or do nothing."""
    writer = Log(folder, UNSEALED).writer(durability_ms=1_000_000)
    event = make_event(0)
    journal.note_try(event)
    writer.append(event)
    child = os.fork()
    if child == 0:
        code = 0
        signal.alarm(WAIT_S // 4)  # ends it where it waits for a lock that a thread of the parent holds
        try:
            {"append": lambda: writer.append(make_event(1)), "flush": writer.flush, "close": writer.close}[use]()
        except WriteError as error:
            code = 10 if "fork" in str(error) else 11
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == (0 if use == "close" else 10)
    writer.close()
    journal.note_acknowledged(event)


@pytest.mark.parametrize("use", ["append", "flush", "close"])
def test_a_writer_refuses_to_be_used_after_a_fork(tmp_path: Path, use: str) -> None:
    journal = Journal(tmp_path)
    assert run_child(use_after_fork, tmp_path / "events", journal, use)
    assert stored_ids(Log(tmp_path / "events")) == journal.acknowledged()


def draw_ids_in_forks(drawn: Path) -> None:
    """Draw an id, then fork twice and let each child draw one."""
    new_id()
    for number in range(2):
        child = os.fork()
        if child == 0:
            (drawn / str(number)).write_text(new_id())
            os._exit(0)
        os.waitpid(child, 0)
    (drawn / "parent").write_text(new_id())


def test_forks_draw_different_ids(tmp_path: Path) -> None:
    assert run_child(draw_ids_in_forks, tmp_path)
    random_parts = {path.read_text()[-12:] for path in tmp_path.iterdir()}
    assert len(random_parts) == 3


def test_two_logs_in_one_process(tmp_path: Path) -> None:
    logs = [Log(tmp_path / name, UNSEALED) for name in ("one", "two")]
    journals = [Journal(tmp_path / f"{name}-journal") for name in ("one", "two")]
    with logs[0].writer() as first, logs[1].writer() as second:
        for number in range(20):
            append(first, journals[0], make_event(number))
            append(second, journals[1], make_event(number))
    logs[0].seal()
    for log, journal in zip(logs, journals, strict=True):
        assert stored_ids(log) == journal.acknowledged()
        assert log.verify().ok
    assert journals[0].acknowledged().isdisjoint(journals[1].acknowledged())


def hooked_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[str, tuple[Any, ...]], None]
) -> tuple[Log, set[str]]:
    """Append with `act` called between the steps of making the live file, and then once more."""
    log = Log(tmp_path, UNSEALED)
    written = []
    with log.writer() as writer:
        with monkeypatch.context() as patch:
            intercept(act, patch.setattr)
            event = make_event(0)
            writer.append(event)
            written.append(event.event_id)
        log.seal()
        event = make_event(1)
        writer.append(event)
        written.append(event.event_id)
    return log, set(written)


@pytest.mark.parametrize("when", ["rename", "flock"])
def test_a_sealer_comes_while_a_live_file_is_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """It must not take the new file for one that a dead writer left."""
    real = fcntl.flock
    came: list[bool] = []

    def seal_once() -> None:
        if not came and list(tmp_path.glob("live/*.new")):
            came.append(True)
            Log(tmp_path).seal()

    def before(name: str, args: tuple[Any, ...]) -> None:
        if name == when:
            seal_once()

    def flock(fd: int, how: int) -> None:
        if when == "flock":
            seal_once()
        real(fd, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    log, written = hooked_writer(tmp_path, monkeypatch, before)
    assert came
    assert stored_ids(log) == written
    log.seal()
    assert stored_ids(log) == written
    assert log.verify().ok


def test_a_sealer_holds_the_lock_of_a_live_file_that_is_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sealer has locked the new file to see whether its writer is dead, and is slow to go on."""
    real = fcntl.flock
    held: list[int] = []
    refused: list[int] = []

    def sealer_goes_on() -> None:
        for path in tmp_path.glob("live/*.new"):
            path.unlink()
        os.close(held[0])
        held[0] = -1

    def flock(fd: int, how: int) -> None:
        if not held:
            for path in tmp_path.glob("live/*.new"):
                held.append(os.open(path, os.O_RDONLY))
                real(held[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        elif held[0] >= 0 and refused:
            sealer_goes_on()
        try:
            real(fd, how)
        except BlockingIOError:
            refused.append(fd)
            raise

    def before(name: str, args: tuple[Any, ...]) -> None:
        if name == "write" and held and held[0] >= 0:
            sealer_goes_on()

    monkeypatch.setattr(fcntl, "flock", flock)
    log, written = hooked_writer(tmp_path, monkeypatch, before)
    assert refused
    assert stored_ids(log) == written
    log.seal()
    assert stored_ids(log) == written
    assert log.verify().ok
