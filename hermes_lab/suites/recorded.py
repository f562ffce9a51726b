"""Tools without an implementation, of imported tasks: a call gets what was recorded for it, and nothing runs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from hermes_lab.kinds import ErrorKind, Status
from hermes_lab.tools.base import Environment, Level, Result, Spec, ToolError

_TRANSIENT = {
    ErrorKind.TIMEOUT,
    ErrorKind.TOOL_UNAVAILABLE,
    ErrorKind.RATE_LIMITED,
    ErrorKind.SERVER_ERROR,
    ErrorKind.CONNECTION,
}


def _no_arguments() -> dict[str, Any]:
    return {"type": "object", "properties": {}}


class ToolDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A tool as a suite's file describes it.

    Attributes:
        name: what the model calls it; several definitions of a suite may share one.
        description: what it does.
        parameters: JSON Schema of its arguments, of type object.
        level: its permission level.
        inferred: whether `parameters` was worked out from recorded calls, since the source says nothing.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=_no_arguments)
    level: Level = Level.READ_ONLY
    inferred: bool = False


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A call that once ran, and what came of it."""

    tool: str
    arguments: dict[str, Any]
    output: Any = None
    status: Status = Status.OK
    error_kind: ErrorKind | None = None


class RecordedEnvironment:
    """The world of an episode as far as it was recorded.

    The same call gets its recorded results one after another, and then the last one again.

    >>> world = RecordedEnvironment([RecordedCall(tool="weather", arguments={"city": "杭州"}, output="晴")])
    >>> world.result("weather", {"city": "杭州"}).output
    '晴'
    """

    def __init__(self, calls: Iterable[RecordedCall] | None) -> None:
        """Take the recorded calls in order; None where nothing was recorded, and every call is accepted."""
        results: dict[str, list[RecordedCall]] = {}
        for call in calls or ():
            results.setdefault(_key(call.tool, call.arguments), []).append(call)
        self._results = None if calls is None else results
        self._given: dict[str, int] = {}

    def result(self, tool: str, arguments: dict[str, Any]) -> Result:
        """Return what was recorded for a call.

        Raises:
            ToolError: this call was not recorded (`not_found`).
        """
        if self._results is None:
            return Result({"status": "accepted"})
        try:
            key = _key(tool, arguments)
        except RecursionError:
            raise ToolError("not recorded: the arguments are nested too deeply", ErrorKind.NOT_FOUND) from None
        calls = self._results.get(key)
        if calls is None:
            raise ToolError(f"not recorded: no such call of {tool} was made then", ErrorKind.NOT_FOUND)
        turn = self._given.get(key, 0)
        self._given[key] = turn + 1
        call = calls[min(turn, len(calls) - 1)]
        return Result(_told(call), call.status, call.error_kind, transient=call.error_kind in _TRANSIENT)

    def query(self, sql: str) -> list[list[Any]]:
        """Refuse: a recording has no tables.

        Raises:
            ToolError: always.
        """
        raise ToolError(f"a recorded environment has no tables to query ({sql[:60]}): grade calls or the answer")

    def close(self) -> None:
        """Let go of nothing: a recording holds only memory."""


class RecordedTool:
    """A tool of an imported suite; see `RecordedEnvironment` for what a call gives."""

    def __init__(self, definition: ToolDefinition) -> None:
        """Make the tool that `definition` describes."""
        self._spec = Spec(definition.name, definition.description, definition.parameters, definition.level)

    @property
    def spec(self) -> Spec:
        """What the agent knows of it."""
        return self._spec

    def run(
        self, environment: Environment | None, arguments: dict[str, Any], *, seconds: float | None = None
    ) -> Result:
        """Return the recorded result; `seconds` bounds nothing, since nothing runs."""
        del seconds
        if not isinstance(environment, RecordedEnvironment):
            return Result({"status": "accepted"})
        try:
            return environment.result(self._spec.name, arguments)
        except ToolError as error:
            return Result({"error": str(error)}, Status.ERROR, error.kind, transient=error.transient)


def _key(tool: str, arguments: dict[str, Any]) -> str:
    """Return what two equal calls share, whatever the order of their arguments; 2.0 is 2."""
    return json.dumps([tool, _normal(arguments)], sort_keys=True)


def _normal(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _normal(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_normal(item) for item in value]
    return value


def _told(call: RecordedCall) -> Any:
    """Return the output as a tool tells it: a failure is an object with `error`."""
    if call.status == Status.OK or (isinstance(call.output, dict) and "error" in call.output):
        return call.output
    return {"error": call.output if call.output is not None else str(call.error_kind or call.status)}
