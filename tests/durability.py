"""Helpers of the durability tests: child processes to kill, journals of what they did, and the checks afterwards."""

from __future__ import annotations

import builtins
import contextlib
import datetime as dt
import multiprocessing
import os
import signal
import stat
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from hermes_lab import payload
from hermes_lab.events import Action, Event
from hermes_lab.log import Log, LogSettings, Writer, new_id

# Children are forked from a server that has imported everything and runs no thread.
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        "pandas",  # pyarrow wants it at times
        "pytest",
        "hermes_lab.log.maintain",
        "hermes_lab.log.purge",
        "hermes_lab.log.query",
        "hermes_lab.log.snapshot",
        "hermes_lab.log.verify",
    ]
)

Process = _context.Process
Pipe = _context.Pipe
ProcessEvent = _context.Event
shared_counts = _context.Array

WAIT_S = 120
"""How long a test waits for something that must happen, on a machine however slow."""

SMALL = LogSettings(durability_ms=0, rotate_at=3_000, seal_files=2, spill_over=3_000)
"""A live file is full after some ten events, and two of them are sealed in the background."""

UNSEALED = LogSettings(durability_ms=0, rotate_at=3_000, seal_files=1_000_000, spill_over=3_000)
"""As `SMALL`, and nothing is sealed but on demand."""

_DAY = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)


class Journal:
    """What writers tried to append and what was acknowledged to them, in two files beside the log.

    Each line goes out by one write of its own, so it is there whole when its process was killed right after.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._tried = folder / "tried"
        self._acknowledged = folder / "acknowledged"

    def tried(self) -> set[str]:
        return _lines(self._tried)

    def acknowledged(self) -> set[str]:
        return _lines(self._acknowledged)

    def note_try(self, event: Event) -> None:
        _append_line(self._tried, event.event_id)

    def note_acknowledged(self, event: Event) -> None:
        _append_line(self._acknowledged, event.event_id)


_real_open, _real_write, _real_truncate = os.open, os.write, os.truncate


def _append_line(path: Path, text: str) -> None:
    fd = _real_open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    _real_write(fd, text.encode() + b"\n")
    os.close(fd)


def _lines(path: Path) -> set[str]:
    return set(path.read_text().split()) if path.exists() else set()


def make_event(number: int, *, task_id: str | None = None, size: int | None = None) -> Event:
    """Return an event whose payload names it, on one of three days; every fifth is long enough to be spilled."""
    event_id = new_id()
    if size is None:
        size = 5_000 if number % 5 == 4 else 20
    return Event(
        event_id=event_id,
        ts=_DAY + dt.timedelta(days=number % 3, microseconds=number),
        action=Action.TOOL_CALLED,
        task_id=task_id or f"task-{number % 2}",
        step=number,
        input=payload.dumps({"id": event_id, "text": f"{event_id} " * (size // 37 + 1)}),
    )


def append(writer: Writer, journal: Journal, event: Event) -> None:
    """Append an event at durability 0, noting that it is tried and that it was acknowledged."""
    journal.note_try(event)
    writer.append(event)
    journal.note_acknowledged(event)


def stored_ids(log: Log) -> set[str]:
    """Return the ids of all events but the records of purges; each must be there once, with its own payload."""
    rows = log.sql(
        "select event_id, contains(input, event_id) from events where action <> 'purged' order by all"
    ).fetchall()
    ids = [row[0] for row in rows]
    assert len(ids) == len(set(ids)), "an event is there twice"
    assert all(whole for _, whole in rows), "an event without its payload"
    return set(ids)


def check_contents(folder: Path, journal: Journal, *, may_be_gone: Collection[str] = ()) -> set[str]:
    """Check what a new reader of the log finds against the journal, and return the ids.

    Args:
        folder: the log.
        journal: what was done to it.
        may_be_gone: ids that a purge removed or did not: all or none of them.
    """
    log = Log(folder)
    ids = stored_ids(log)
    acknowledged = journal.acknowledged()
    purged = log.sql("select count(*) from events where action = 'purged'").fetchall()[0][0]
    lost = acknowledged - ids - set(may_be_gone)
    assert not lost, f"acknowledged events are lost, though some lie in these files: {_files_with(folder, lost)}"
    assert ids <= journal.tried(), "there are events that nobody wrote"
    going = acknowledged & set(may_be_gone)
    if going:
        assert (len(going & ids), purged) in {(len(going), 0), (0, 1)}, "a purge happened by halves"
    return ids


def _files_with(folder: Path, ids: Collection[str]) -> dict[str, list[str]]:
    """Return for each id the live files that hold it, to see whether it was not written or not read."""
    live = {path.name: path.read_text(errors="replace") for path in folder.glob("live/*")}
    return {event_id: [name for name, text in live.items() if event_id in text] for event_id in ids}


def leftovers(folder: Path) -> list[str]:
    """Return the temporary files in a log."""
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.suffix in {".tmp", ".new"} or path.name == "pending.json"
    )


def check_after_crash(folder: Path, journal: Journal, *, may_be_gone: Collection[str] = ()) -> set[str]:
    """Check a log whose processes are dead: as it lies there, and again after sealing and compacting."""
    found = check_contents(folder, journal, may_be_gone=may_be_gone)
    verified = Log(folder).verify()
    assert verified.ok, verified.problems
    log = Log(folder)
    log.seal()
    log.compact()
    assert check_contents(folder, journal, may_be_gone=may_be_gone) == found, "maintenance changed what is in the log"
    verified = Log(folder).verify()
    assert verified.ok, verified.problems
    assert verified.live_rows == 0
    left = leftovers(folder)
    assert not left, f"maintenance left {left} behind"
    return found


def run_child(target: Callable[..., None], *args: Any) -> bool:
    """Run `target` in a process; False where it was killed. Anything else but a good end is an error."""
    process = Process(target=target, args=args)
    process.start()
    process.join(WAIT_S)
    assert process.exitcode in {0, -signal.SIGKILL}, f"the child ended with {process.exitcode}"
    return process.exitcode == 0


CALLS = ("open", "write", "fsync", "rename", "replace", "unlink", "mkdir", "rmdir", "ftruncate")
"""The calls of `os` by which a log is written."""

Before = Callable[[str, tuple[Any, ...]], None]


def intercept(before: Before, patch: Callable[[Any, str, Any], None] = setattr) -> None:
    """Have `before(name, args)` called before each call of `CALLS`, and before the built-in `open`."""
    for name in CALLS:
        patch(os, name, _wrapped(name, getattr(os, name), before))
    patch(builtins, "open", _wrapped("open", builtins.open, before))


def _wrapped(name: str, real: Callable[..., Any], before: Before) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        before(name, args)
        return real(*args, **options)

    return call


class CrashPoint:
    """Kills its own process right before the `at`-th call at which the files differ from the last; a write also dies
    half done.

    With `power` the machine goes down: what no fsync confirmed is gone from every file, though the names are kept.
    Only moments at which that makes a difference count.
    """

    def __init__(self, folder: Path, at: int, *, power: bool = False) -> None:
        self._folder = folder
        self._left = at
        self._power = power
        self._confirmed = _sizes(folder)
        self._last: dict[Path, int] = {}
        intercept(self._before)

    def _before(self, name: str, args: tuple[Any, ...]) -> None:
        if name == "open" and not _creates(args):
            return
        files = _sizes(self._folder)
        if self._power:
            left = {path: min(size, self._confirmed.get(path, 0)) for path, size in files.items()}
            if files not in (left, self._last):
                self._count(lambda: [_real_truncate(path, size) for path, size in left.items()])
        elif files != self._last:
            self._count(lambda: None)
        self._last = files
        if name == "write" and not self._power:
            fd, data = args
            self._count(lambda: _real_write(fd, bytes(data)[: len(data) // 2]))
        if name == "fsync":
            self._confirm(args[0])
        if name in {"rename", "replace"}:
            self._confirmed[Path(args[1])] = self._confirmed.get(Path(args[0]), 0)

    def _confirm(self, fd: int) -> None:
        status = os.fstat(fd)
        for path in _sizes(self._folder) if stat.S_ISREG(status.st_mode) else ():
            if os.path.samestat(path.stat(), status):
                self._confirmed[path] = status.st_size

    def _count(self, last_act: Callable[[], object]) -> None:
        self._left -= 1
        if not self._left:
            last_act()
            os.kill(os.getpid(), signal.SIGKILL)


def _creates(args: tuple[Any, ...]) -> bool:
    """Whether a call of `open` may make a file."""
    how = args[1] if len(args) > 1 else "r"
    return bool(how & os.O_CREAT) if isinstance(how, int) else how[0] in "wax"


def _sizes(folder: Path) -> dict[Path, int]:
    """Return the size of each file below `folder`; other threads may be at work there."""
    sizes = {}
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                sizes[path] = status.st_size
    return sizes
