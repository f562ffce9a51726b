"""Appending events: one live file a writer, group commit; `lines` makes what is written, without secrets.

An event is *acknowledged* when `append` returns at durability 0, or when `flush` returns. Acknowledged means written
and flushed to the disk. At durability N the writer commits by itself within N milliseconds. A writer is safe to use
from many threads: those that wait for the disk at once share one flush.
"""

from __future__ import annotations

import atexit
import datetime as dt
import errno
import logging
import os
import threading
from collections.abc import Callable
from typing import Any, Self

import uuid_utils

from hermes_lab import payload
from hermes_lab.errors import BusyError, HermesLabError, WriteError
from hermes_lab.events import Action, Event
from hermes_lab.log import files, live
from hermes_lab.log.layout import Layout
from hermes_lab.log.lines import LineMaker
from hermes_lab.log.manifest import write_all
from hermes_lab.log.redact import Redactor
from hermes_lab.log.thin import Thinner

logger = logging.getLogger(__name__)

_MOST_BUFFERED = 4 << 20  # bytes; beyond it an append commits by itself, so that memory stays bounded

# A child process must not draw the ids that its parent draws.
os.register_at_fork(after_in_child=uuid_utils.reseed_rng)


def new_id() -> str:
    """Return a new UUIDv7 as text: unique, and ordered by time within a process."""
    return str(uuid_utils.uuid7())


class Writer:
    """Appends events to a live file of its own. Use it as a context manager, or call `close`.

    One process a writer: it does not survive `fork`. The file is made at the first commit.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        redactor: Redactor,
        thinner: Thinner,
        durability_ms: int,
        spill_over: int,
        rotate_at: int,
        on_closed_file: Callable[[], None] = lambda: None,
    ) -> None:
        """Open a writer; `Log.writer` is the way to get one.

        Args:
            layout: where the log lies.
            redactor: takes secrets out.
            thinner: merges events that may be merged.
            durability_ms: commit at most this late; 0 commits every event before `append` returns.
            spill_over: payloads of more bytes than this go beside the log.
            rotate_at: bytes after which a live file is closed and a new one begun.
            on_closed_file: called, from a thread of its own, when a full file was closed, and at the end.
        """
        self._layout = layout
        self._lines = LineMaker(layout, redactor, spill_over)
        self._thinner = thinner
        self._delay_s = durability_ms / 1000
        self._rotate_at = rotate_at
        self._on_closed_file = on_closed_file
        self._pid = os.getpid()
        self._lock = threading.Lock()  # guards the buffer; held for moments
        self._commit_lock = threading.Lock()  # guards the file; held while the disk works
        self._wake = threading.Condition(self._lock)
        self._buffer: list[bytes] = []
        self._buffered_bytes = 0
        self._appended = 0
        self._committed = 0
        self._error: HermesLabError | None = None
        self._closed = False
        self._fd: int | None = None
        self._offset = 0
        self._torn = False
        self._sealers: list[threading.Thread] = []
        self._flusher: threading.Thread | None = None
        with files.disk_errors(f"opening the log {layout.folder} for writing"):
            layout.create()
            self._presence = os.open(layout.writers_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        if not files.try_lock(self._presence, shared=True):
            os.close(self._presence)
            raise BusyError(f"a purge of {layout.folder} is running; wait for it to end and try again")
        atexit.register(self._close_at_exit)

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Close the writer."""
        self.close()

    @property
    def unsaved(self) -> int:
        """Number of events appended and not yet on the disk."""
        return self._appended - self._committed

    def record(self, action: Action, *, input: Any = None, output: Any = None, **columns: Any) -> Event:
        """Append an event made of values, with a new id and the time now, and return it.

        Args:
            action: the kind of event.
            input: what went in, any JSON value; None for nothing.
            output: what came out, likewise.
            columns: other fields of `Event` by name; `ts` or `event_id` to set these yourself.

        Raises:
            EventError: a value that the log refuses.
            WriteError: the disk did not take it.
        """
        columns.setdefault("event_id", new_id())
        columns.setdefault("ts", dt.datetime.now(dt.UTC))
        event = Event(
            action=action,
            input=None if input is None else payload.dumps(input),
            output=None if output is None else payload.dumps(output),
            **columns,
        )
        self.append(event, written_json=True)
        return event

    def append(self, event: Event, *, written_json: bool = False) -> None:
        """Append an event.

        Args:
            event: to be written.
            written_json: whether `payload.dumps` made its `input` and `output`, so that they need no second look.

        Raises:
            EventError: the event is not one that the log takes; nothing was written.
            WriteError: the disk did not take it (this event is not in the log), or an earlier commit failed and still
                fails (the earlier events stay in memory and are tried again at the next call).
        """
        self._check_process()
        ready = self._lines.make(event, written_json=written_json)
        if self._error is not None:
            self.flush()
        with self._lock:
            if self._closed:
                raise WriteError("this writer is closed: open another one")
            thinned = self._thinner.takes(event)
            lines = [self._lines.make(kept) for kept in self._thinner.add(event)] if thinned else [ready]
            if not lines:
                return
            ticket = self._buffer_lines(lines)
            # A merged event waits its turn: if its commit failed it could not be taken apart again.
            commit_now = not thinned and (not self._delay_s or self._buffered_bytes > _MOST_BUFFERED)
            if not commit_now and self._flusher is None:
                self._flusher = threading.Thread(target=self._flush_in_time, name="hermes-lab log", daemon=True)
                self._flusher.start()
        if not commit_now:
            return
        try:
            self._commit(ticket)
        except HermesLabError:
            if self._take_back(lines):
                raise

    def flush(self) -> None:
        """Commit everything appended so far; when it returns, all of it is acknowledged.

        Raises:
            WriteError: the disk did not take it; the events stay in memory, so free some space and call it again.
        """
        self._check_process()
        with self._lock:
            # Made before they leave the thinner: that can fail (a spilled payload on a full disk).
            lines = [self._lines.make(event) for event in self._thinner.held()]
            self._thinner.clear()
            ticket = self._buffer_lines(lines)
        self._commit(ticket)

    def close(self) -> None:
        """Commit everything, release the file, and seal when enough has gathered. Closing twice does nothing.

        Raises:
            WriteError: the disk did not take it; the writer stays open, so free some space and close it again.
        """
        if self._closed or os.getpid() != self._pid:
            return
        with self._lock:
            self._closed = True  # first, so that no append comes between the last commit and the end
            self._wake.notify_all()
        if self._flusher is not None:
            self._flusher.join()
            self._flusher = None
        try:
            self.flush()
        except HermesLabError:
            with self._lock:
                self._closed = False
            raise
        with self._commit_lock:
            wrote = self._fd is not None
            self._release_file()
        os.close(self._presence)
        atexit.unregister(self._close_at_exit)
        for sealer in self._sealers:
            sealer.join()
        if wrote:
            self._on_closed_file()

    def _close_at_exit(self) -> None:
        try:
            self.close()
        except HermesLabError as error:
            logger.warning("%d events were not written: %s", self.unsaved, error)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise WriteError("this writer belongs to the parent process: open another one after a fork")

    def _buffer_lines(self, lines: list[bytes]) -> int:
        """Add lines to the buffer (the lock is held) and return the number to wait for."""
        self._buffer.extend(lines)
        self._buffered_bytes += sum(map(len, lines))
        if lines and self._appended == self._committed:
            self._wake.notify()
        self._appended += len(lines)
        return self._appended

    def _take_back(self, lines: list[bytes]) -> bool:
        """Forget lines whose append failed; False where another thread has had them on the disk meanwhile."""
        gone = {id(line) for line in lines}
        with self._commit_lock, self._lock:
            kept = [line for line in self._buffer if id(line) not in gone]
            if len(kept) == len(self._buffer):
                return False
            self._appended -= len(self._buffer) - len(kept)
            self._buffered_bytes -= sum(map(len, lines))
            self._buffer = kept
            return True

    def _commit(self, ticket: int) -> None:
        """Have everything up to `ticket` on the disk; threads that wait here together share one flush."""
        with self._commit_lock:
            if self._committed >= ticket:
                return
            with self._lock:
                batch, self._buffer = self._buffer, []
                size, self._buffered_bytes = self._buffered_bytes, 0
            if not batch:
                return
            try:
                self._write(batch)
            except OSError as error:
                with self._lock:
                    self._buffer[:0] = batch
                    self._buffered_bytes += size
                    self._error = files.explain(error, f"writing {len(batch)} events to the log {self._layout.live}")
                raise self._error from error
            self._committed += len(batch)
            self._error = None
            if self._offset >= self._rotate_at:
                self._rotate()

    def _write(self, batch: list[bytes]) -> None:
        if self._torn:
            self._release_file()
        if self._fd is None:
            _, self._fd = live.create(self._layout.live)
            self._offset, self._torn = 0, False
        data = self._lines.clean(batch)
        try:
            write_all(self._fd, data)
            os.fsync(self._fd)
            if not os.fstat(self._fd).st_nlink:
                raise FileNotFoundError(errno.ENOENT, "the live file was deleted", str(self._layout.live))
        except OSError:
            # Half a batch may be there. It must not be read as events that were never acknowledged, nor come before
            # the same events written again.
            # A reader may have seen it, so the file must not grow again: the next batch goes to a new one.
            self._torn = True
            os.ftruncate(self._fd, self._offset)
            raise
        self._offset += len(data)

    def _rotate(self) -> None:
        self._release_file()
        if self._closed:  # `close` seals by itself, and a process that is ending can start no thread
            return
        self._sealers = [sealer for sealer in self._sealers if sealer.is_alive()]
        if not self._sealers:
            sealer = threading.Thread(target=self._on_closed_file, name="hermes-lab seal")
            sealer.start()
            self._sealers.append(sealer)

    def _release_file(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _flush_in_time(self) -> None:
        """Commit what waits, at most the set time after the first event of a batch came."""
        while True:
            with self._lock:
                while self._appended == self._committed and not self._closed:
                    self._wake.wait()
                if self._closed:
                    return
                # Not woken by new events: a flush in between must not make the next batch one of a single event.
                self._wake.wait_for(lambda: self._closed, self._delay_s / 2)
                ticket = self._appended
            try:
                self._commit(ticket)
            except HermesLabError:
                # Kept in `_error`: the next append or flush tries again and raises it in its caller's thread.
                self._pause_after_failure()

    def _pause_after_failure(self) -> None:
        with self._lock:
            self._wake.wait_for(lambda: self._closed, max(self._delay_s, 0.2))
