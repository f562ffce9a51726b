"""Calling a function in a child process of its own: it is killed at its time limit, and its memory is bounded.

This is the parent's side; the child's is `child`.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from hermes_lab.kinds import ErrorKind
from hermes_lab.tools.base import ToolError
from hermes_lab.tools.limits import TimeLimitError
from hermes_lab.tools.results import message


class Reply(msgspec.Struct, frozen=True):
    """What the child says: JSON, because what foreign code may have written is not to be unpickled here."""

    output: Any = None
    error: str | None = None
    kind: ErrorKind | None = None
    transient: bool = False


def check_importable(function: Callable[..., Any]) -> None:
    """Make sure that a child process can find `function` by name.

    Raises:
        TypeError: it cannot.
    """
    if function.__module__ == "__main__" or "<locals>" in function.__qualname__ or "<lambda>" in function.__qualname__:
        name = f"{function.__module__}.{function.__qualname__}"
        raise TypeError(f"the tool {name}: an isolated tool must stand at the top level of a module that is imported")


def call(
    function: Callable[..., Any],
    environment: Any,
    arguments: dict[str, Any],
    *,
    seconds: float,
    memory_mb: int | None,
) -> Any:
    """Return the output of the tool that `function` was made into, called in a child process.

    Args:
        function: stands at the top level of a module.
        environment: None where it takes none; else it must be picklable.
        arguments: by name, not yet converted.
        seconds: time, the start of the process included; it is killed then, with its own children.
        memory_mb: address space beyond what the process has once the tool is imported; None for no limit.

    Raises:
        TimeLimitError: it was killed at its time limit.
        ToolError: the function failed, or the process died.
    """
    name = f"{function.__module__}:{function.__qualname__}"
    try:
        task = pickle.dumps((sys.path, name, memory_mb, environment, arguments))
    except Exception as error:  # noqa: BLE001 - foreign code: an environment may say in any way that it cannot be sent
        raise ToolError(f"the environment cannot be sent to an isolated tool: {message(error)}") from None
    process = _start()
    try:
        said, _ = process.communicate(task, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise TimeLimitError from None
    finally:
        _kill(process)
    return _read(said, process.returncode)


def _start() -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "hermes_lab.tools.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    except OSError as error:
        text = f"no process can be started: {error}"
        raise ToolError(text, ErrorKind.TOOL_UNAVAILABLE, transient=True) from None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and whatever it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _read(said: bytes, code: int) -> Any:
    try:
        reply = msgspec.json.decode(said, type=Reply)
    except msgspec.DecodeError:
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise ToolError(f"the tool's process {how} before it answered", ErrorKind.CRASHED) from None
    if reply.error is not None:
        raise ToolError(reply.error, reply.kind or ErrorKind.TOOL_FAILED, transient=reply.transient)
    return reply.output
