"""Calling foreign code under a time limit, on threads that are kept for the next call.

A thread cannot be killed. A call that runs over is left to itself: its thread is never used again, and its caller
goes on. What must end for certain runs isolated (see `isolated`).
"""

from __future__ import annotations

import contextvars
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

MOST_LEFT_RUNNING = 64
"""So many calls that ran over their time may still be running; a further call is then refused."""


_deadline: contextvars.ContextVar[float] = contextvars.ContextVar("deadline", default=math.inf)


class TimeLimitError(Exception):
    """The call ran over its time; it may be running still."""


class TooManyLeftError(Exception):
    """Too many calls that ran over their time are still running, or the system has no thread left."""


def _nothing() -> None:
    """Stand in for a call, so that a thread that waits keeps nothing of its last one alive."""


class _Worker:
    """A thread that makes one call after another for whoever holds it."""

    __slots__ = ("call", "done", "failure", "left", "start", "value")

    def __init__(self) -> None:
        self.start = threading.Lock()
        self.done = threading.Lock()
        self.start.acquire()
        self.done.acquire()
        self.call: Callable[[], Any] = _nothing
        self.value: Any = None
        self.failure: BaseException | None = None
        self.left = False
        threading.Thread(target=self._serve, name="hermes-lab-tool", daemon=True).start()

    def _serve(self) -> None:
        while True:
            self.start.acquire()
            try:
                self.value = self.call()
            except BaseException as error:  # noqa: BLE001 - foreign code; Ctrl-C only ever reaches the main thread
                self.failure = error
            self.call = _nothing
            with _lock:
                if self.left:
                    _left.discard(self)
                    return
                self.done.release()


_idle: deque[_Worker] = deque()
_left: set[_Worker] = set()
_lock = threading.Lock()


def call_within(seconds: float, call: Callable[[], Any]) -> Any:
    """Return what `call()` returns, or raise what it raises.

    Raises:
        TimeLimitError: it took longer than `seconds`.
        TooManyLeftError: `MOST_LEFT_RUNNING` earlier calls have not come back, or no thread can be started.
    """
    if seconds <= 0:
        raise TimeLimitError
    if _deadline.get() <= time.monotonic() + seconds:
        return call()  # within a call that ends no later: who waits for that one leaves this one, too
    if len(_left) >= MOST_LEFT_RUNNING:
        raise TooManyLeftError
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _start_worker()
    worker.call = _in_context(call, seconds)
    worker.start.release()
    finished = False
    try:
        finished = worker.done.acquire(timeout=min(seconds, threading.TIMEOUT_MAX))
    finally:
        # Also on Ctrl-C in here: then the call is as good as one that ran over.
        if not finished:
            finished = _leave(worker)
    if not finished:
        raise TimeLimitError
    value, failure = worker.value, worker.failure
    worker.value = worker.failure = None
    _idle.append(worker)
    if failure is not None:
        raise failure
    return value


def _start_worker() -> _Worker:
    try:
        return _Worker()
    except RuntimeError:  # the system allows no further thread
        raise TooManyLeftError from None


def time_left() -> float:
    """Return the seconds that the call within which this is asked has left; infinity outside of any."""
    return _deadline.get() - time.monotonic()


def _in_context(call: Callable[[], Any], seconds: float) -> Callable[[], Any]:
    """Return `call` as it would run here: with this thread's context variables, and the new deadline."""
    context = contextvars.copy_context()
    context.run(_deadline.set, min(time.monotonic() + seconds, _deadline.get()))
    return lambda: context.run(call)


def _leave(worker: _Worker) -> bool:
    """Leave `worker` to itself; return true where it has just come back after all."""
    with _lock:
        if worker.done.acquire(blocking=False):
            return True
        worker.left = True
        _left.add(worker)
        return False


def _forget() -> None:
    """Forget the threads of the parent, which a forked child does not have."""
    global _lock
    _idle.clear()
    _left.clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)
