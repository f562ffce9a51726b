"""Run coroutines for callers that have no event loop, or (in Jupyter) one that they must not block: in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread of its own, which begins with the first coroutine and ends with `close`."""

    def __init__(self, name: str) -> None:
        """Keep the name that the thread gets."""
        self._name = name
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` returns. Where the wait is interrupted (Ctrl-C), the work is cancelled.

        Raises:
            concurrent.futures.CancelledError: `cancel_all` was called meanwhile.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._started())
        try:
            return future.result()
        finally:
            future.cancel()  # does nothing to a future that is done

    def cancel_all(self) -> None:
        """Cancel what still runs, and wait until it has ended."""
        self.run(_cancel_others())

    def close(self) -> None:
        """End the thread and wait for it; nothing may run in it any more."""
        with self._starting:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True)
                self._thread.start()
            return self._loop


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
