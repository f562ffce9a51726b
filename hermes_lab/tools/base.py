"""What a tool is to the agent: a description, a permission level, and a function on the episode's environment."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from hermes_lab.kinds import Action, ErrorKind, Status


class Level(enum.StrEnum):
    """What a tool may do; a rule can ask for more care, nothing in a configuration can ask for less."""

    READ_ONLY = "read_only"
    EXECUTABLE = "executable"
    HIGH_RISK = "high_risk"


class Problem(NamedTuple):
    """Why a call must not run: the kind of error, and a message that tells the model what to do instead."""

    kind: ErrorKind
    message: str


Precheck = Callable[[Mapping[str, Any]], Problem | str | None]
"""A look at a call's arguments before anything runs: pure, quick, and None where nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one call may take.

    Attributes:
        seconds: time; a call over it ends as `timeout`.
        output_chars: length of the result's JSON text; a longer one is cut, and says so.
        memory_mb: memory, enforced where the tool runs in a process or sandbox of its own; None for no limit.
    """

    seconds: float = 10.0
    output_chars: int = 20_000
    memory_mb: int | None = None


@dataclass(frozen=True, slots=True)
class Spec:
    """What the agent knows of a tool, and what code knows beside.

    Attributes:
        name: unique within a toolbox; letters, digits, `_`, `-` and `.`.
        description: what it does, for the model.
        parameters: JSON Schema of the arguments, of type object.
        level: its permission level.
        precheck: an optional check of its own.
        limits: what one call may take.
        action: the kind of event that a call is recorded as.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    level: Level = Level.READ_ONLY
    precheck: Precheck | None = None
    limits: Limits = field(default_factory=Limits)
    action: Action = Action.TOOL_CALLED


@dataclass(frozen=True, slots=True)
class Result:
    """What a call gave.

    Attributes:
        output: any JSON value; for a failure an object with `error`.
        status: how it came out.
        error_kind: why not ok.
        transient: whether the same call may well succeed a moment later.
        latency_ms: how long it took.
    """

    output: Any
    status: Status = Status.OK
    error_kind: ErrorKind | None = None
    transient: bool = False
    latency_ms: float | None = None


class ToolError(Exception):
    """Raised by a tool to fail with a message for the model.

    Attributes:
        kind: the kind of error.
        transient: whether trying again may help.
    """

    def __init__(self, message: str, kind: ErrorKind = ErrorKind.TOOL_FAILED, *, transient: bool = False) -> None:
        """Keep the message, the kind, and whether it is transient."""
        super().__init__(message)
        self.kind = kind
        self.transient = transient


class Environment(Protocol):
    """The world of one episode. Tools get it as their first argument where they ask for it."""

    def query(self, sql: str) -> list[list[Any]]:
        """Return the rows of one SELECT on its state; for graders."""

    def close(self) -> None:
        """Let go of everything it holds."""


class Tool(Protocol):
    """A tool: its description, and how it runs. `run` never raises for what a tool does wrong."""

    @property
    def spec(self) -> Spec:
        """What the agent knows of it."""

    def run(
        self, environment: Environment | None, arguments: dict[str, Any], *, seconds: float | None = None
    ) -> Result:
        """Run one call; `seconds` shortens its time limit. Thread-safe between environments."""


Toolbox = Mapping[str, Tool]
"""Tools by name."""
