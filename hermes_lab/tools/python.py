"""The tool `python`: code in pydantic-monty's sandbox, without files, network, or modules beyond a few safe ones.

The code runs in a worker process that is killed where the sandbox's own limits do not stop it. Sleeping takes no time,
and `random` starts from a fixed seed, so that the same code gives the same result.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import Annotated, Any

import msgspec
import pydantic_monty as monty

from hermes_lab.kinds import Action, ErrorKind
from hermes_lab.tools.base import Level, ToolError
from hermes_lab.tools.decorator import tool
from hermes_lab.tools.limits import time_left
from hermes_lab.tools.results import message

SECONDS = 10.0
MEMORY_MB = 128
CODE_CHARS = 20_000
PRINTED_CHARS = 5_000

_GRACE = 0.3
"""Seconds that a worker has, past its limit, to stop by itself."""

_TOO_LONG = "the code took longer than it may"

_lock = threading.Lock()
_pool: monty.Monty | None = None
_owner = os.getpid()


def _workers() -> monty.Monty:
    """Return the pool of workers, which starts with the first call."""
    global _pool, _owner
    with _lock:
        if _pool is None:
            _pool = monty.Monty(
                min_processes=1,
                checkout_timeout=SECONDS,
                feed_duration_limit_grace=_GRACE,
                turn_duration_limit_grace=_GRACE,
            ).__enter__()
            _owner = os.getpid()
            atexit.register(_stop)
        if _owner != os.getpid():
            # A forked child has neither the pool's threads nor, safely, its pipes.
            text = "the sandbox cannot be used in a forked process: start processes by spawn"
            raise ToolError(text, ErrorKind.TOOL_UNAVAILABLE)
        return _pool


def _stop() -> None:
    if _pool is not None and _owner == os.getpid():
        _pool.__exit__(None, None, None)


def _after_fork() -> None:
    """Replace the lock, which another thread may have held. The pool must stay: letting go of it ends its workers."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


class _Printed:
    """What the code printed, up to a length."""

    def __init__(self) -> None:
        self.text = ""
        self.cut = False

    def __call__(self, _stream: str, text: str) -> None:
        room = PRINTED_CHARS - len(self.text)
        self.text += text[:room]
        self.cut = self.cut or len(text) > room

    def __str__(self) -> str:
        return self.text + "…[cut]" if self.cut else self.text


@tool(level=Level.EXECUTABLE, seconds=SECONDS, action=Action.CODE_EXECUTED)
def python(code: Annotated[str, msgspec.Meta(min_length=1, max_length=CODE_CHARS)]) -> dict[str, Any]:
    """Run Python code (no files, no network); get the value of its last expression and what it printed.

    Args:
        code: Python source, such as "sum(x * x for x in [1, 2, 3])".
    """
    printed = _Printed()
    try:
        pool = _workers()
        limits: monty.ResourceLimits = {
            # Somewhat less than the call has, so that the worker is stopped before the call is given up.
            "max_feed_duration_secs": max(min(time_left(), SECONDS) - _GRACE, 0.05) * 0.95,
            "max_memory": MEMORY_MB * 1024 * 1024,
            "max_recursion_depth": 500,
            "max_suspensions": 1000,
        }
        policy: monty.OSPolicy = {"sleep": "zero", "random_start": {"seed": 0}}
        with pool.checkout(limits=limits, os_policy=policy) as session:
            result = session.feed_run(code, print_callback=printed)
    except monty.MontyError as error:
        raise _failure(error, printed) from None
    except TimeoutError:
        raise ToolError("every sandbox is busy: try again later", ErrorKind.TOOL_UNAVAILABLE, transient=True) from None
    return {"result": _shown(result), "printed": str(printed)}


def _shown(value: Any) -> Any:
    """Return a value of the sandbox, with the objects that are no data as their text."""
    if isinstance(value, monty.MontyClassProxy | monty.MontyClassTypeProxy | monty.MontyStdTypeProxy):
        return str(value)
    if isinstance(value, list | tuple):
        return [_shown(item) for item in value]
    if isinstance(value, dict):
        return {key: _shown(item) for key, item in value.items()}
    return value


def _failure(error: monty.MontyError, printed: _Printed) -> ToolError:
    text = message(error)
    if isinstance(error, monty.MontyCrashedError):
        if not error.timed_out:
            return ToolError(f"the sandbox died: {text}", ErrorKind.CRASHED)
        said, kind = _TOO_LONG, ErrorKind.TIMEOUT
    elif text.startswith("TimeoutError: feed time limit exceeded"):
        # The sandbox's own text holds the time to the microsecond, and so would differ from run to run.
        said, kind = _TOO_LONG, ErrorKind.TIMEOUT
    elif isinstance(error.exception(), MemoryError):
        said, kind = text, ErrorKind.MEMORY_LIMIT
    else:
        said, kind = _line(error) + text, ErrorKind.TOOL_FAILED
    if isinstance(error, monty.MontySyntaxError):
        said = f"SyntaxError: {said}"
    if printed.text:
        said += f"\nPrinted before it failed: {printed.text[:500]}"
    return ToolError(said, kind)


def _line(error: monty.MontyError) -> str:
    if not isinstance(error, monty.MontyRuntimeError | monty.MontySyntaxError):
        return ""
    frames = error.traceback()
    return f"line {frames[-1].line}: " if frames else ""
