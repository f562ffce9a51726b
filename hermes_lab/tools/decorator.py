"""`@tool` makes a tool of a typed Python function."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, overload

import msgspec

from hermes_lab.kinds import Action, ErrorKind, Status
from hermes_lab.tools import isolated as isolation
from hermes_lab.tools.base import Environment, Level, Limits, Precheck, Result, Spec, ToolError
from hermes_lab.tools.failures import as_tool_error
from hermes_lab.tools.limits import TimeLimitError, TooManyLeftError, call_within
from hermes_lab.tools.results import fit, message, plain
from hermes_lab.tools.signature import Signature, read_signature

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class _BadArgumentsError(ToolError):
    """Arguments that the schema does not allow."""


class FunctionTool(Generic[P, R]):
    """A tool made of a function; calling it calls the function. Made by `tool`.

    Attributes:
        spec: what the agent knows of it.
        function: the function.
    """

    def __init__(self, function: Callable[P, R], spec: Spec, signature: Signature, *, isolated: bool) -> None:
        self.spec = spec
        self.function = function
        self._signature = signature
        self._struct = signature.struct
        self._takes_environment = signature.takes_environment
        self._isolated = isolated
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        """Say which tool it is."""
        return f"<tool {self.spec.name} ({self.spec.level.value})>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function as it is, without limits."""
        return self.function(*args, **kwargs)

    def described(self, more: str) -> FunctionTool[P, R]:
        """Return the same tool with `more` at the end of its description."""
        spec = dataclasses.replace(self.spec, description=f"{self.spec.description} {more}".strip())
        return FunctionTool(self.function, spec, self._signature, isolated=self._isolated)

    def run(
        self, environment: Environment | None, arguments: dict[str, Any], *, seconds: float | None = None
    ) -> Result:
        """Run one call; see `tools.base.Tool`. A call over its time goes on in the background unless isolated."""
        started = time.perf_counter()
        limit = self.spec.limits.seconds if seconds is None else min(seconds, self.spec.limits.seconds)
        output: Any = None
        status, kind, transient = Status.OK, None, False
        try:
            output = self._run(environment, arguments, limit)
        except ToolError as error:
            output, kind, transient = {"error": str(error)}, error.kind, error.transient
            status = _status(error)
        latency_ms = (time.perf_counter() - started) * 1000
        return Result(output, status, kind, transient, latency_ms)

    def _run(self, environment: Environment | None, arguments: dict[str, Any], seconds: float) -> Any:
        if self.spec.limits.seconds == math.inf:
            return self.evaluate(environment, arguments)
        try:
            if self._isolated:
                return self._run_isolated(environment, arguments, seconds)
            return call_within(seconds, lambda: self.evaluate(environment, arguments))
        except TimeLimitError:
            text = f"{self.spec.name} took longer than the {max(seconds, 0):.3g} s it had"
            raise ToolError(text, ErrorKind.TIMEOUT, transient=True) from None
        except TooManyLeftError:
            text = "too many calls that ran over their time are still running: try again later"
            raise ToolError(text, ErrorKind.TOOL_UNAVAILABLE, transient=True) from None

    def _run_isolated(self, environment: Environment | None, arguments: dict[str, Any], seconds: float) -> Any:
        self._converted(arguments)  # what is wrong with them needs no process to be found
        return isolation.call(
            self.function,
            environment if self._takes_environment else None,
            arguments,
            seconds=seconds,
            memory_mb=self.spec.limits.memory_mb,
        )

    def evaluate(self, environment: Environment | None, arguments: dict[str, Any]) -> Any:
        """Convert the arguments, call the function here and now, and return its output as JSON that fits.

        Raises:
            ToolError: whatever went wrong in the function or with what it returned.
        """
        values = self._converted(arguments)
        function: Callable[..., Any] = self.function
        if self._takes_environment and environment is None:
            raise ToolError(
                f"{self.spec.name} needs an environment, and this task has none", ErrorKind.TOOL_UNAVAILABLE
            )
        try:
            value = function(environment, **values) if self._takes_environment else function(**values)
            return fit(plain(value), self.spec.limits.output_chars)
        except ToolError:
            raise
        except BaseException as error:
            # Foreign code: whatever it raises, `sys.exit` too, is its result. Only a person's Ctrl-C is not, which
            # reaches nothing but the main thread.
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
            raise as_tool_error(error) from error

    def _converted(self, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            values = _convert(arguments, self._struct)
        except msgspec.ValidationError as error:
            text = str(error).replace("`$.", "`").replace(" - at `$`", "")
            raise _BadArgumentsError(f"{self.spec.name}: {text}", ErrorKind.BAD_ARGUMENTS) from None
        except (UnicodeEncodeError, RecursionError) as error:
            # A model can write a lone surrogate as a key ("\ud800"), and nest as deeply as it likes.
            text = f"{self.spec.name}: the arguments cannot be read: {message(error)}"
            raise _BadArgumentsError(text, ErrorKind.BAD_ARGUMENTS) from None
        given = ((name, getattr(values, name)) for name in self._struct.__struct_fields__)
        return {name: value for name, value in given if value is not msgspec.UNSET}


def _convert(arguments: dict[str, Any], struct: type[msgspec.Struct]) -> msgspec.Struct:
    try:
        return msgspec.convert(arguments, struct)
    except msgspec.ValidationError as error:
        # To JSON Schema 5.0 is an integer, to msgspec it is not.
        whole = _whole_floats_as_ints(arguments)
        try:
            return msgspec.convert(whole, struct)
        except msgspec.ValidationError:
            raise error from None


def _whole_floats_as_ints(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole_floats_as_ints(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole_floats_as_ints(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _status(error: ToolError) -> Status:
    if isinstance(error, _BadArgumentsError):
        return Status.INVALID
    return Status.TIMEOUT if error.kind is ErrorKind.TIMEOUT else Status.ERROR


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    level: Level = ...,
    precheck: Precheck | None = ...,
    seconds: float = ...,
    output_chars: int = ...,
    memory_mb: int | None = ...,
    isolated: bool = ...,
    name: str | None = ...,
    action: Action = ...,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    level: Level = Level.READ_ONLY,
    precheck: Precheck | None = None,
    seconds: float = 10.0,
    output_chars: int = 20_000,
    memory_mb: int | None = None,
    isolated: bool = False,
    name: str | None = None,
    action: Action = Action.TOOL_CALLED,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a tool of a typed function with a Google-style docstring.

    The JSON Schema comes from the signature, the descriptions from the docstring; a first parameter `env` is the
    episode's environment and is not shown to the model.

    >>> @tool(level=Level.READ_ONLY)
    ... def add(a: int, b: int = 1) -> int:
    ...     '''Add two numbers.
    ...
    ...     Args:
    ...         a: the first one.
    ...     '''
    ...     return a + b
    >>> add.spec.parameters["properties"]
    {'a': {'type': 'integer', 'description': 'the first one.'}, 'b': {'type': 'integer', 'default': 1}}
    >>> add(1, 2), add.run(None, {"a": 1}).output, add.run(None, {"a": "one"}).output
    (3, 2, {'error': 'add: Expected `int`, got `str` - at `a`'})

    Args:
        function: the function, where the decorator is used without arguments.
        level: its permission level.
        precheck: a look at the arguments before anything runs.
        seconds: time that a call may take, counted on a thread of its own (some 50 microseconds a call); `math.inf`
            for a function that is quick for certain: it runs in the caller's thread.
        output_chars: length of the result's JSON text; a longer one is cut, and marked so.
        memory_mb: memory in MiB; needs `isolated`, and is enforced on Linux only.
        isolated: run each call in a process of its own (some 0.1 s), which is killed at its time
            limit; what it does to its copy of the environment is lost.
        name: instead of the function's name.
        action: the kind of event that a call is recorded as.

    Raises:
        TypeError: the function cannot be made into a tool, or the limits make no sense; the message says why.
    """

    def make(function: Callable[P, R]) -> FunctionTool[P, R]:
        signature = read_signature(function)
        title = name or function.__name__
        if not _NAME.fullmatch(title):
            raise TypeError(f"the tool name {title!r}: use 1 to 64 letters, digits, `_`, `-` and `.`")
        if not seconds > 0 or output_chars < 1:
            raise TypeError(f"the tool {title}: seconds and output_chars must be above 0")
        if memory_mb is not None and not isolated:
            raise TypeError(f"the tool {title}: memory_mb can be enforced only where isolated is True")
        if isolated:
            isolation.check_importable(function)
            if seconds == math.inf:
                raise TypeError(f"the tool {title}: an isolated tool needs a time limit")
        limits = Limits(seconds=seconds, output_chars=output_chars, memory_mb=memory_mb)
        spec = Spec(title, signature.summary, signature.parameters, level, precheck, limits, action)
        return FunctionTool(function, spec, signature, isolated=isolated)

    return make if function is None else make(function)
