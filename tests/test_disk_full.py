"""A disk without room, and every call of the system failing in turn: plain errors, nothing lost, nothing by halves."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
import resource
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from durability import CALLS, UNSEALED, WAIT_S, intercept, leftovers, make_event, stored_ids

from hermes_lab.errors import HermesLabError, WriteError
from hermes_lab.events import Event
from hermes_lab.log import Log, Writer

SIZE = "32m"
LATE = 1_000_000
"""A durability, in ms, at which nothing is committed but by `flush`, `close` or a full buffer."""


class Tmpfs:
    """A small disk of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """Leave no byte for the length of the block."""
        filler = self.folder / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        yield
        filler.unlink()


class Limit:
    """The system's limit on the size of files, for want of a disk of our own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """Let no file of this process grow for the length of the block."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


Disk = Tmpfs | Limit


@pytest.fixture(params=["tmpfs", "limit"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """A disk that can be filled up."""
    if request.param == "limit":
        yield Limit(tmp_path)
        return
    mount, umount = shutil.which("mount"), shutil.which("umount")
    command = [mount or "mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(tmp_path)]
    if not mount or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no tmpfs can be mounted here; the tests with a limit on the size of files cover the same")
    try:
        yield Tmpfs(tmp_path)
    finally:
        subprocess.run([umount or "umount", "--lazy", str(tmp_path)], check=True)


def check_refusal(error: HermesLabError) -> None:
    """Check that an error says what to do about a full disk, and ends the command line with the right code."""
    assert isinstance(error, WriteError)
    assert error.exit_code == 74
    assert "the disk is full" in str(error) or "the file may not grow" in str(error)
    assert "free some space and try again" in str(error)


def append_until_refused(writer: Writer, size: int = 20) -> tuple[list[Event], Event]:
    """Return the events that went in and the one that did not."""
    taken: list[Event] = []
    for number in range(100_000):  # more than a writer buffers, however late its commits are
        event = make_event(number, size=size)
        try:
            writer.append(event)
        except WriteError as error:
            check_refusal(error)
            return taken, event
        taken.append(event)
    raise AssertionError("the disk was not full")


def ids(*groups: list[Event]) -> set[str]:
    return {event.event_id for event in itertools.chain(*groups)}


def filled(folder: Path, *, seal: bool = False) -> tuple[Log, list[Event]]:
    """Return a log with ten events in two closed live files, or in two segments of each day."""
    log, written = Log(folder, UNSEALED), []
    for first in (0, 5):
        with log.writer() as writer:
            for number in range(first, first + 5):
                event = make_event(number)
                writer.append(event)
                written.append(event)
        if seal:
            log.seal()
    return log, written


def test_append_at_durability_0(disk: Disk) -> None:
    folder = disk.folder / "events"
    kept = Log(folder, UNSEALED)  # follows the log all the time
    with kept.writer() as writer:
        first = [make_event(number) for number in range(3)]
        for event in first:
            writer.append(event)
        with disk.full():
            taken, refused = append_until_refused(writer)
            assert writer.unsaved == 0
            for log in (kept, Log(folder)):
                assert stored_ids(log) == ids(first, taken)
            with pytest.raises(WriteError):
                writer.append(refused)
        writer.append(refused)
        for log in (kept, Log(folder)):
            assert stored_ids(log) == ids(first, taken, [refused])
    kept.seal()
    assert stored_ids(kept) == ids(first, taken, [refused])
    assert kept.verify().ok
    assert kept.status()["rejected_lines"] == kept.status()["torn_bytes"] == 0


def test_group_commit(disk: Disk) -> None:
    folder = disk.folder / "events"
    kept = Log(folder, UNSEALED)
    with kept.writer(durability_ms=LATE) as writer:
        first = [make_event(number) for number in range(3)]
        for event in first:
            writer.append(event)
        writer.flush()
        with disk.full():
            waiting = [make_event(number, size=100) for number in range(200)]
            for event in waiting:
                writer.append(event)
            for _ in range(2):
                with pytest.raises(WriteError) as caught:
                    writer.flush()
                check_refusal(caught.value)
                assert writer.unsaved == len(waiting)
                for log in (kept, Log(folder)):
                    assert stored_ids(log) == ids(first)
            refused = make_event(0)
            with pytest.raises(WriteError):  # so that a writer that nobody flushes does not fill the memory
                writer.append(refused)
        writer.flush()
        assert writer.unsaved == 0
        assert stored_ids(kept) == ids(first, waiting)
        writer.append(refused)
    assert stored_ids(kept) == stored_ids(Log(folder)) == ids(first, waiting, [refused])
    kept.seal()
    assert kept.verify().ok
    assert kept.status()["rejected_lines"] == kept.status()["torn_bytes"] == 0


def test_commits_in_the_background(disk: Disk) -> None:
    """At 50 ms the failure reaches the next append or flush, and what was appended stays."""
    folder = disk.folder / "events"
    with Log(folder, UNSEALED).writer(durability_ms=50) as writer:
        with disk.full():
            taken, refused = append_until_refused(writer, size=100)
            with pytest.raises(WriteError):
                writer.flush()
        writer.append(refused)
        writer.flush()
        assert stored_ids(Log(folder)) == ids(taken, [refused])
    assert stored_ids(Log(folder)) == ids(taken, [refused])


@pytest.mark.parametrize("durability_ms", [0, LATE])
def test_close(disk: Disk, durability_ms: int) -> None:
    folder = disk.folder / "events"
    writer = Log(folder, UNSEALED).writer(durability_ms=durability_ms)
    with disk.full():
        taken, refused = [make_event(number, size=1_000) for number in range(2)], []
        if durability_ms:
            for event in taken:
                writer.append(event)
            with pytest.raises(WriteError) as caught:
                writer.close()
            check_refusal(caught.value)
        else:
            taken, last = append_until_refused(writer)
            refused = [last]
    for event in refused:  # it is still open
        writer.append(event)
    writer.close()
    writer.close()
    assert stored_ids(Log(folder)) == ids(taken, refused)
    with pytest.raises(WriteError):
        writer.append(make_event(0))
    log = Log(folder)
    assert log.seal().rows == len(taken) + len(refused)  # its file was let go


def test_an_append_that_overflows_the_buffer_can_be_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    disk = Limit(tmp_path)
    with Log(folder, UNSEALED.__class__(spill_over=1 << 20)).writer(durability_ms=LATE) as writer:
        with disk.full():
            taken, refused = append_until_refused(writer, size=100_000)
        writer.append(refused)
    assert stored_ids(Log(folder)) == ids(taken, [refused])


def test_spilling(disk: Disk) -> None:
    folder = disk.folder / "events"
    with Log(folder, UNSEALED).writer() as writer:
        first = make_event(0, size=60_000)
        writer.append(first)
        refused = make_event(1, size=60_000)
        with disk.full():
            with pytest.raises(WriteError) as caught:
                writer.append(refused)
            check_refusal(caught.value)
            assert stored_ids(Log(folder)) == ids([first])
            assert leftovers(folder) == []
        writer.append(refused)
    assert stored_ids(Log(folder)) == ids([first, refused])
    assert Log(folder).verify().ok
    assert Log(folder).verify().notes == []


@pytest.mark.parametrize("step", ["seal", "compact", "purge"])
def test_maintenance(disk: Disk, step: str) -> None:
    folder = disk.folder / "events"
    log, written = filled(folder, seal=step != "seal")
    work = {"seal": log.seal, "compact": log.compact, "purge": lambda: purge(log)}[step]
    before = log.status()
    with disk.full():
        with pytest.raises(WriteError) as caught:
            work()
        check_refusal(caught.value)
        assert log.status() == before
        for reader in (log, Log(folder)):
            assert stored_ids(reader) == ids(written)
        assert log.verify().problems == []
        assert leftovers(folder) == []
    work()
    check_worked(step, folder, written)


def purge(log: Log) -> None:
    """Purge one of the two tasks of `make_event`."""
    log.purge("task_id", "task-0", by="a test", reason="a test")


def check_worked(step: str, folder: Path, written: list[Event]) -> None:
    """Check a log after a step that came through in the end."""
    log = Log(folder)
    left = [event for event in written if step != "purge" or event.task_id != "task-0"]
    assert stored_ids(log) == ids(left)
    assert log.sql("select count(*) from events where action = 'purged'").fetchall() == [(int(step == "purge"),)]
    verified = log.verify()
    assert verified.ok, verified.problems
    assert leftovers(folder) == []
    assert log.status()["live_events"] == 0


# Every call in turn fails once, and goes on working afterwards.


class FailOnce:
    """Lets the `at`-th call fail, for want of room or otherwise; a write that fails has written half."""

    def __init__(self, at: int, patch: Callable[[Any, str, Any], None]) -> None:
        self._left = at
        self.code = (errno.ENOSPC, errno.EIO)[at % 2]
        self._write = os.write
        self.failed = ""
        intercept(self._before, patch)

    def _before(self, name: str, args: tuple[Any, ...]) -> None:
        self._left -= 1
        if self._left:
            return
        self.failed = name
        if name == "write":
            self._write(args[0], bytes(args[1])[: len(args[1]) // 2])
        raise OSError(self.code, os.strerror(self.code))


@pytest.mark.parametrize("step", ["seal", "compact", "purge"])
def test_each_call_of_maintenance_fails_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    before = tmp_path / "before"
    _, written = filled(before, seal=step != "seal")
    for at in itertools.count(1):
        folder = tmp_path / str(at)
        shutil.copytree(before, folder)
        log = Log(folder, UNSEALED)
        work = {"seal": log.seal, "compact": log.compact, "purge": lambda log=log: purge(log)}[step]
        refused = False
        with monkeypatch.context() as patch:
            fault = FailOnce(at, patch.setattr)
            try:
                work()
            except WriteError as error:
                refused = True
                if fault.code == errno.ENOSPC:
                    check_refusal(error)
        kept = [event for event in written if step != "purge" or event.task_id != "task-0"]
        assert stored_ids(log) in (ids(written), ids(kept)), f"call {at}, {fault.failed}"
        assert Log(folder).verify().problems == [], f"call {at}, {fault.failed}"
        if refused and stored_ids(Log(folder)) == ids(written):
            work()
        Log(folder).seal()
        check_worked(step, folder, written)
        if not fault.failed:
            break
    assert at > len(CALLS)


@pytest.mark.parametrize("durability_ms", [0, LATE])
def test_each_call_of_a_writer_fails_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability_ms: int) -> None:
    """The caller tries each append, flush and close again until it comes through."""
    for at in itertools.count(1):
        folder = tmp_path / str(at)
        log = Log(folder, UNSEALED)
        written = [make_event(number) for number in range(9)]
        with monkeypatch.context() as patch:
            fault = FailOnce(at, patch.setattr)
            writer = persist(lambda log=log: log.writer(durability_ms=durability_ms))
            for event in written:
                persist(lambda event=event, writer=writer: writer.append(event))
                if event.step and event.step % 3 == 0:
                    persist(writer.flush)
            persist(writer.close)
        for reader in (log, Log(folder)):
            assert stored_ids(reader) == ids(written), f"call {at}, {fault.failed}"
        log.seal()
        assert stored_ids(log) == ids(written)
        assert log.verify().ok
        assert leftovers(folder) == []
        if not fault.failed:
            break
    assert at > len(CALLS)


def persist(act: Callable[[], Any]) -> Any:
    """Do something again until it does not fail."""
    for _ in range(1_000):
        with contextlib.suppress(WriteError):
            return act()
    raise AssertionError("it kept failing")


def test_threads_try_again_on_a_disk_that_fails_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An append that raised is not in the log, whatever another thread committed meanwhile."""
    threads, each = 6, 60
    chance = random.Random(0)

    def before(name: str, args: tuple[Any, ...]) -> None:
        if name == "fsync" and chance.random() < 0.4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    written: list[Event] = []
    with Log(tmp_path, UNSEALED).writer() as writer, monkeypatch.context() as patch:
        writer.append(make_event(0, size=20))
        intercept(before, patch.setattr)
        waiting = threading.Barrier(threads)

        def work(thread: int) -> list[Event]:
            waiting.wait(WAIT_S)
            mine = [make_event(number, size=20) for number in range(each)]
            for event in mine:
                persist(lambda event=event: writer.append(event))
            return mine

        with ThreadPoolExecutor(threads) as pool:
            written = list(itertools.chain.from_iterable(pool.map(work, range(threads))))
    stored = stored_ids(Log(tmp_path))
    assert ids(written) <= stored
    assert len(stored) == len(written) + 1


def test_a_reader_that_looks_while_a_write_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may see the lines before the writer takes them back, and must not lose its place by it."""
    log = Log(tmp_path, UNSEALED)
    with log.writer() as writer:
        first, refused, second = (make_event(0, size=size) for size in (20, 200, 90))
        writer.append(first)

        def before(name: str, args: tuple[Any, ...]) -> None:
            if name == "fsync":
                log.sql("select 1 from events")
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            intercept(before, patch.setattr)
            with pytest.raises(WriteError):
                writer.append(refused)
        assert stored_ids(log) == ids([first])
        writer.append(second)
        writer.append(refused)
        assert stored_ids(log) == ids([first, second, refused])
    assert log.status()["rejected_lines"] == 0
