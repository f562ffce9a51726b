"""What foreign code raised, as the failure of a tool that the model and the log are told of."""

from __future__ import annotations

from hermes_lab.kinds import ErrorKind
from hermes_lab.tools.base import ToolError
from hermes_lab.tools.results import message


def as_tool_error(error: BaseException) -> ToolError:
    """Return the `ToolError` that says what `error` was: its type and its text, and no traceback.

    >>> str(as_tool_error(KeyError("SO-1042")))
    "KeyError: 'SO-1042'"
    """
    if isinstance(error, ToolError):
        return error
    text = message(error)
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if isinstance(error, MemoryError):
        return ToolError(f"the call took more memory than it may: {said}", ErrorKind.MEMORY_LIMIT)
    if isinstance(error, TimeoutError):
        return ToolError(said, ErrorKind.TIMEOUT, transient=True)
    if isinstance(error, ConnectionError):
        return ToolError(said, ErrorKind.CONNECTION, transient=True)
    return ToolError(said)
