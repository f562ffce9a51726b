"""Deterministic checks of a tool call, before anything runs: pure functions, each usable alone.

A check returns a `Problem` whose message tells the model what to do instead, or None. Permissions are checked apart
(`permissions.decide`), and no setting turns them off.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jsonschema_rs
import msgspec

from hermes_lab import payload
from hermes_lab.kinds import ErrorKind, Status
from hermes_lab.tools.base import Level, Problem, Spec

MOST_RETRIES = 2
"""How often a call whose last outcome was transient may be made again."""

SAME_FAILURES = 3
"""So many failures of one tool with one error end an episode as diverged."""

_MOST_MESSAGES = 3
_LONGEST_MESSAGE = 300
# What differs from one failure to the next without meaning anything: counters, request ids, times.
_VARYING = re.compile(r"[0-9a-f]*[0-9][0-9a-f]*")


class Past(NamedTuple):
    """A call that was made, or refused by a check, earlier in the episode.

    Attributes:
        tool: its name.
        arguments: what it was given.
        status: how it came out; `invalid` or `denied` where it never ran.
        error_kind: why not ok.
        error: the message.
        transient: whether the same call may well succeed a moment later.
        ran: whether the tool ran.
        writes: whether the tool may change something.
    """

    tool: str
    arguments: dict[str, Any]
    status: Status
    error_kind: ErrorKind | None = None
    error: str = ""
    transient: bool = False
    ran: bool = True
    writes: bool = False


class Guards(NamedTuple):
    """Which checks are at work. All of them, but for experiments that measure what one is worth.

    No configuration of an agent holds these, and permissions are not among them.
    """

    arguments: bool = True
    prechecks: bool = True
    repeats: bool = True


ALL_GUARDS = Guards()


def check_call(
    name: str,
    arguments: dict[str, Any],
    tools: Mapping[str, Spec],
    past: Sequence[Past] = (),
    guards: Guards = ALL_GUARDS,
) -> Problem | None:
    """Return the first problem of a call: unknown tool, bad arguments, the tool's own precheck, a repeat.

    >>> from hermes_lab.tools.base import Spec
    >>> spec = Spec("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
    >>> check_call("add", {}, {"add": spec}).message
    '"a" is a required property'
    """
    spec = tools.get(name)
    if spec is None:
        return unknown_tool(name, list(tools))
    problem = bad_arguments(spec, arguments) if guards.arguments else None
    if problem is None and guards.prechecks:
        problem = failed_precheck(spec, arguments)
    if problem is None and guards.repeats:
        problem = repeated(name, arguments, past)
    return problem


def unknown_tool(name: str, known: Sequence[str]) -> Problem:
    """Return the problem that there is no tool `name`, with the names that come closest."""
    if not known:
        return Problem(ErrorKind.UNKNOWN_TOOL, "there are no tools: give your final answer")
    close = difflib.get_close_matches(name[:100], known, n=3, cutoff=0.5) or list(known)[:5]
    return Problem(ErrorKind.UNKNOWN_TOOL, f"there is no tool {name[:100]!r}: use one of {', '.join(close)}")


def bad_arguments(spec: Spec, arguments: dict[str, Any]) -> Problem | None:
    """Return what is wrong with `arguments` by the tool's JSON Schema: types, required ones, enums, unknown names."""
    validator = _validator(spec.name, payload.canonical(spec.parameters))
    if validator is None:
        return Problem(ErrorKind.BAD_ARGUMENTS, f"the tool {spec.name} has a wrong schema: do not use it")
    try:
        messages = [_message(error) for error in itertools.islice(validator.iter_errors(arguments), _MOST_MESSAGES)]
    except UnicodeEncodeError:
        # A lone surrogate: checked in the form that the log holds, which is valid Unicode.
        stored = msgspec.json.decode(payload.store_text(payload.dumps(arguments)))
        messages = [_message(error) for error in list(validator.iter_errors(stored))[:_MOST_MESSAGES]]
    except (ValueError, TypeError, RecursionError) as error:
        messages = [str(error)[:_LONGEST_MESSAGE]]
    if not messages:
        return None
    return Problem(ErrorKind.BAD_ARGUMENTS, "; ".join(messages))


def failed_precheck(spec: Spec, arguments: dict[str, Any]) -> Problem | None:
    """Return what the tool's own precheck found."""
    if spec.precheck is None:
        return None
    try:
        found = spec.precheck(arguments)
    except Exception as error:  # noqa: BLE001 - a precheck is foreign code, and its fault must not end an episode
        return Problem(ErrorKind.PRECHECK_FAILED, f"the precheck failed: {type(error).__name__}: {str(error)[:200]}")
    if isinstance(found, str):
        return Problem(ErrorKind.PRECHECK_FAILED, found)
    return found


def repeated(name: str, arguments: dict[str, Any], past: Sequence[Past]) -> Problem | None:
    """Return the problem that this call was made already, where making it again cannot help.

    It can help where its last outcome was transient (at most twice), and for a call that only reads, where something
    was changed since.
    """
    key = payload.canonical(arguments)
    same = [index for index, call in enumerate(past) if call.ran and call.tool == name and _same(call.arguments, key)]
    if not same:
        return None
    last = past[same[-1]]
    if last.transient:
        if len(same) <= MOST_RETRIES:
            return None
        message = f"{name} failed {len(same)} times with these arguments: try something else or give your final answer"
        return Problem(ErrorKind.REPEATED_CALL, message)
    changed_since = any(call.writes and call.status is Status.OK for call in past[same[-1] + 1 :])
    if changed_since and not last.writes:
        return None
    how = "its result stands above" if last.status is Status.OK else "it failed for a reason that will not pass"
    return Problem(
        ErrorKind.REPEATED_CALL,
        f"{name} was called with these arguments already and {how}: use other arguments, another tool, "
        "or give your final answer",
    )


def diverged(past: Sequence[Past]) -> bool:
    """Tell whether one tool failed with the same error three times, the last call being one of these.

    Numbers and ids in the message that the call did not bring itself do not make it another error.
    """
    if not past or past[-1].status is Status.OK:
        return False
    last = _failure(past[-1])
    return sum(call.status is not Status.OK and _failure(call) == last for call in past) >= SAME_FAILURES


def unsupported_claim(past: Sequence[Past]) -> Past | None:
    """Return the call that contradicts a claim to be done: the last one, where it was to change something and failed.

    A denied call is no contradiction: to say that it was denied is the right end.
    """
    if not past:
        return None
    last = past[-1]
    failed = last.status not in (Status.OK, Status.DENIED)
    return last if failed and last.writes else None


def writes(spec: Spec | None) -> bool:
    """Tell whether a tool may change something."""
    return spec is not None and spec.level is not Level.READ_ONLY


def schema_error(schema: Any) -> str | None:
    """Return what is wrong with a JSON Schema, or None."""
    try:
        jsonschema_rs.validator_for(schema, retriever=refuse_reference)
    except (ValueError, TypeError) as error:
        return str(error).splitlines()[0][:_LONGEST_MESSAGE]
    return None


@functools.lru_cache(maxsize=4096)
def _validator(_name: str, schema: bytes) -> Any | None:
    try:
        return jsonschema_rs.validator_for(schema.decode(), retriever=refuse_reference)
    except (ValueError, TypeError):
        return None


def refuse_reference(_uri: str) -> Any:
    """Refuse to fetch the document that a schema refers to: without this, it would be a read of a file or the network.

    Raises:
        ValueError: always; it says what to do instead.
    """
    raise ValueError("a schema may not refer to another document: write it out")  # the caller names it


def _message(error: Any) -> str:
    place = ".".join(str(part) for part in error.instance_path)
    text = error.message if len(error.message) <= _LONGEST_MESSAGE else error.message[:_LONGEST_MESSAGE] + " ..."
    return f"{place}: {text}" if place else text


def _same(arguments: dict[str, Any], key: bytes) -> bool:
    return payload.canonical(arguments) == key


def _failure(call: Past) -> tuple[str, ErrorKind | None, str]:
    if call.error_kind is ErrorKind.REPEATED_CALL:
        return call.tool, call.error_kind, ""
    own = payload.canonical(call.arguments).decode("utf-8", "replace")
    message = _VARYING.sub(lambda found: found.group() if found.group() in own else "#", call.error)
    return call.tool, call.error_kind, message
