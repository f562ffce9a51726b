"""The child's side of `isolated`: read the task, bound the memory, call the tool, write the reply. Run with `-m`."""

from __future__ import annotations

import importlib
import operator
import os
import pickle
import resource
import sys
from pathlib import Path
from typing import Any

import msgspec

from hermes_lab.tools.base import ToolError
from hermes_lab.tools.failures import as_tool_error
from hermes_lab.tools.isolated import Reply

_MIB = 1024 * 1024


def _main() -> None:
    answer = os.dup(1)
    os.dup2(2, 1)  # what the function prints must not mix with the reply
    path, name, memory_mb, environment, arguments = _read_task()
    sys.path[:] = path
    reply = msgspec.json.encode(_call(name, memory_mb, environment, arguments))
    with os.fdopen(answer, "wb") as stream:
        stream.write(reply)
    os._exit(0)  # threads that the function left behind must not hold the process


def _read_task() -> tuple[Any, ...]:
    task: tuple[Any, ...] = pickle.load(sys.stdin.buffer)  # noqa: S301 - written by our own parent process
    return task


def _call(name: str, memory_mb: int | None, environment: Any, arguments: dict[str, Any]) -> Reply:
    try:
        module, _, place = name.partition(":")
        tool = operator.attrgetter(place)(importlib.import_module(module))
        if memory_mb is not None:
            _limit_memory(memory_mb)
        return Reply(output=tool.evaluate(environment, arguments))
    except ToolError as error:
        failure = error
    except BaseException as error:  # noqa: BLE001 - foreign code: whatever it raises is the tool's failure
        failure = as_tool_error(error)
    return Reply(error=str(failure), kind=failure.kind, transient=failure.transient)


def _limit_memory(megabytes: int) -> None:
    """Bound the address space that is still to come, on Linux: elsewhere nobody says how much there is by now."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return
    used = int(statm.read_text().split()[0]) * resource.getpagesize()
    limit = used + megabytes * _MIB
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    _main()
